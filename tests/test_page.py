"""The page: whole, without network, and whatever a name holds is text."""

from __future__ import annotations

import json
import os
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import BadInput
from holdfast.report.page import write

HOSTILE = "</script><script>alert(1)</script><!-- <img src=x onerror=alert(1)> & \u2028\u2029 {{data}} \\u003c \"'"


def cell(rule: str, attack: str, accuracy: float | None, **more: Any) -> dict[str, Any]:
    two = rule.startswith("Mean2P")
    return {
        "rule": rule,
        "attack": attack,
        "accuracy": accuracy,
        "curve": [] if accuracy is None else [[1, 0.5], [2, accuracy]],
        "kept": ["kk-", ""],
        "winners": ["outer" if two else "", ""],
        "leads": [1.0 if two else None, None],
        "events": [[1, "skipped: too few"]],
        **more,
    }


def page(**more: Any) -> dict[str, Any]:
    accuracies = {"Average()": (0.95, 0.25, 0.5), "Mean2P(f=1)": (0.9, 0.875, 0.75)}
    attacks = ["none", "LF", "SF"]
    return {
        "title": "Two rules",
        "setting": [["workers", "3, of which 1 lies"]],
        "rules": list(accuracies),
        "names": {"Average()": "Average"},
        "attacks": attacks,
        "explained": {"SF": "updates times -1"},
        "rounds": 2,
        "workers": 3,
        "liars": 1,
        "cells": [cell(r, a, v) for r, row in accuracies.items() for a, v in zip(attacks, row, strict=True)],
        **more,
    }


class Reader(HTMLParser):
    """What a browser would see: the tags, the texts by their enclosing tag, the rows of the table."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.rows: list[list[str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        self.texts.append((inside, data))
        if inside in ("th", "td"):
            self.rows[-1].append(data)

    @property
    def data(self) -> Any:
        """The embedded records."""
        return json.loads(next(text for tag, text in self.texts if tag == "script"))


def written(data: dict[str, Any], tmp_path: Path) -> Reader:
    out = tmp_path / "index.html"
    write(data, out)
    read = Reader(out.read_text(encoding="utf-8"))
    assert not read.open  # every tag is closed
    return read


def shape(read: Reader) -> list[str]:
    return [tag for tag, _ in read.tags]


def test_the_records_come_back_as_they_went_in(tmp_path: Path) -> None:
    assert written(page(), tmp_path).data == page()


def test_hostile_texts_do_no_harm(tmp_path: Path) -> None:
    names = {"Average()": HOSTILE}
    events = [[0, HOSTILE]]
    hostile = page(title=HOSTILE, setting=[[HOSTILE, HOSTILE]], names=names, explained={"SF": HOSTILE})
    hostile["attacks"][1] = HOSTILE
    hostile["cells"] = [cell("Average()", HOSTILE, 0.5, events=events)]
    read = written(hostile, tmp_path)
    assert read.data == hostile
    assert shape(read) == shape(written(page(), tmp_path))  # not one tag more
    assert ("h1", HOSTILE) in read.texts
    assert [read.rows[0][2], read.rows[1][0]] == [HOSTILE, HOSTILE]


def test_half_a_surrogate_pair_can_be_written(tmp_path: Path) -> None:
    assert written(page(title="a\ud800b"), tmp_path).data["title"] == "a\ud800b"


def test_the_page_asks_for_nothing_outside(tmp_path: Path) -> None:
    read = written(page(), tmp_path)
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "http:" not in text
    assert "https:" not in text
    places = [attrs[name] for _, attrs in read.tags for name in ("src", "href", "action", "data") if name in attrs]
    assert places == ["data:,"]
    assert "@import" not in text
    policy = next(attrs["content"] for _, attrs in read.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert str(policy).startswith("default-src 'none'")


def test_the_numbers_are_there_without_javascript(tmp_path: Path) -> None:
    read = written(page(), tmp_path)
    assert read.rows == [
        ["Rule", "none", "LF", "SF", "Worst"],
        ["Average", "95.0", "25.0", "50.0", "25.0"],
        ["Mean2P(f=1)", "90.0", "87.5", "75.0", "75.0"],
    ]
    assert "noscript" in shape(read)


def test_worst_leaves_out_the_runs_in_which_nobody_lies(tmp_path: Path) -> None:
    cells = [cell("Average()", "none", 0.125), cell("Average()", "LF", 0.5), cell("Average()", "SF", 0.75)]
    assert written(page(cells=cells), tmp_path).rows[1] == ["Average", "12.5", "50.0", "75.0", "50.0"]


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_accuracies_that_are_not_known_are_dashes(value: float | None, tmp_path: Path) -> None:
    cells = [cell("Average()", "LF", 0.5), cell("Average()", "SF", value, curve=[[1, value]])]
    read = written(page(cells=cells), tmp_path)
    assert read.rows[1] == ["Average", "–", "50.0", "–", "–"]
    assert read.data["cells"][1]["accuracy"] is None
    assert read.data["cells"][1]["curve"] == [[1, None]]


def test_trainings_that_did_not_end_are_counted(tmp_path: Path) -> None:
    read = written(page(cells=page()["cells"][:2]), tmp_path)
    assert read.rows[2] == ["Mean2P(f=1)", "–", "–", "–", "–"]
    assert any("Of 6 trainings, 4 did not end" in text for tag, text in read.texts if tag == "p")
    assert written(page(cells=[]), tmp_path).data["cells"] == []
    assert written(page(cells=[], rules=[], attacks=[], setting=[]), tmp_path).rows == [["Rule", "Worst"]]


def test_names_and_explanations_may_be_missing(tmp_path: Path) -> None:
    bare = page()
    del bare["names"], bare["explained"]
    assert written(bare, tmp_path).rows[1][0] == "Average()"


@pytest.mark.parametrize("key", ["title", "setting", "rules", "attacks", "rounds", "workers", "liars", "cells"])
def test_a_missing_key_is_named(key: str, tmp_path: Path) -> None:
    data = page()
    del data[key]
    with pytest.raises(BadInput, match=rf"^the page was given no '{key}'; it takes title, .*\.$"):
        write(data, tmp_path / "index.html")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"cells": [{"rule": "Average()"}]}, "the page's cell 0 was given no 'attack'; it takes rule, attack, "),
        ({"cells": [cell("Krum()", "SF", 0.5)]}, r"cell 0 was given rule = 'Krum\(\)'; it is one of \["),
        ({"cells": [cell("Average()", "XX", 0.5)]}, "cell 0 was given attack = 'XX'; it is one of"),
        ({"cells": ["Average()"]}, "cell 0 was given a str; it is a dict of rule, attack"),
        ({"cells": [{**cell("Average()", "SF", 0.5), "accuracy": "high"}]}, r"= 'high'; it is a float \| int \| None"),
        ({"rounds": "many"}, "the page was given rounds = 'many'; it is an int"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(more: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=words):
        write(page(**more), tmp_path / "index.html")


def test_a_page_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "index.html"

    def full(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        with pytest.raises(BadInput, match=r"cannot be written .no space left"):
            write(page(), out)
    assert not list(tmp_path.iterdir())
    write(page(), out)
    before = out.read_bytes()
    with pytest.raises(BadInput):
        write(page(rules=None), out)
    assert out.read_bytes() == before
    assert list(tmp_path.iterdir()) == [out]


def test_the_same_records_give_the_same_page(tmp_path: Path) -> None:
    write(page(), tmp_path / "a.html")
    write(page(), tmp_path / "b.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
