"""The live view's reader: a store as it changes, whatever its files hold, and nothing written to it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.attacks import Attack, View
from holdfast.errors import BadInput
from holdfast.experiments.paper import MAIN, TABLES, Setting, cell_of, printed
from holdfast.experiments.store import Store, key
from holdfast.experiments.sweep import runs, sweep
from holdfast.rules.base import DistanceRule
from holdfast.rules.clustering import even
from holdfast.training import Functions, Run, train
from holdfast.values import value
from holdfast.web import live
from holdfast.web.live import Live
from tests.children import PATIENCE, holdfast, started, wait_until

pytest.importorskip("torch")  # which trains

SMALL = Run(rule="Mean2P(f=2)", attack="SignFlip()", workers=7, byzantine=2, rounds=6, every=2)


@value
class First(DistanceRule):
    """The first worker's vector: nobody's rule."""

    def weights(self, D: np.ndarray, rng: Any = None) -> np.ndarray:
        return even(np.array([0]), D.shape[1])


@value
class Shout(Attack):
    """Nobody's attack."""

    def __call__(self, seen: View) -> np.ndarray:
        return np.full_like(seen.own, 7.0)


def looked(at: Live, since: int = 0, epoch: str = "") -> dict[str, Any]:
    """The changes once a look is over that began now; one that began before may have missed them."""
    while at.scanning:
        at.over.wait(PATIENCE)
    at.looked = float("-inf")
    told = at.changes({"since": str(since), "epoch": epoch or at.epoch})
    while told["scanning"]:
        told = at.changes({"since": str(since), "epoch": epoch or at.epoch})
    return told


def states(told: dict[str, Any]) -> dict[str, str]:
    return {row["key"]: row["state"] for row in told["rows"]}


def everything(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (one for one in folder.rglob("*") if one.is_file())
    return {str(one): (one.read_bytes(), one.stat().st_mtime_ns) for one in files}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs done, by a real sweep; copied by whoever changes it."""
    folder = tmp_path_factory.mktemp("live") / "runs"
    grid = {"rules": ["CWM()", "Mean2P(f={f})"], "attacks": ["SignFlip()"], "rates": 0.3, "workers": 7, "rounds": 6}
    for _ in sweep(runs(grid), Store(folder), jobs=1):
        pass
    return folder


def test_rows_and_rounds_are_those_of_the_store(filled: Path) -> None:
    before = everything(filled)
    at = Live(filled)
    told = looked(at)
    entries, _ = Store(filled).read()
    assert [row["key"] for row in told["rows"]] == [one.key for one in entries]
    for row, one in zip(told["rows"], entries, strict=True):
        assert (row["accuracy"], row["state"], row["done"], row["rate"]) == (one.accuracy, "done", 6, round(2 / 7, 3))
        found = at.detail({"key": one.key})
        assert [len(letters) for letters in found["kept"]] == [7] * 6
        assert found["record"] == one.run.record()
        assert set(found["winner"]) <= ({"i", "o"} if one.run.two_phase else {"."})
        assert len(found["winner"]) == 6
        assert at.detail({"key": one.key, "since": "4"})["kept"] == found["kept"][4:]
        assert at.detail({"key": one.key, "since": "99"})["from"] == 0  # it was cut back meanwhile
    json.dumps(told, allow_nan=False)
    assert everything(filled) == before  # nothing was written, not even a time changed


def test_only_what_changed_is_told_again(filled: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(filled, folder)
    at = Live(folder)
    told = looked(at)
    assert looked(at, told["version"])["rows"] == []
    first, second = sorted(folder.iterdir())
    shutil.rmtree(first)
    gone = looked(at, told["version"])
    assert (gone["gone"], gone["rows"], gone["total"]) == ([first.name], [], 1)
    (second / "done").unlink()
    changed = looked(at, gone["version"])
    assert states(changed) == {second.name: "begun"}
    shutil.rmtree(folder)
    last = looked(at, changed["version"])
    assert (last["there"], last["gone"]) == (False, [second.name])
    shutil.copytree(filled, folder)
    again = looked(at, last["version"])
    assert set(states(again)) == {first.name, second.name}
    assert looked(at, 10**9, epoch="another server's")["rows"]  # a page that outlived a server is told all


def test_a_run_is_seen_while_it_trains(tmp_path: Path) -> None:
    endless = ["--rounds", str(10**6)]
    call = holdfast("train", "--rule", "Mean2P(f=2)", "--n", "7", *endless, "--out", str(tmp_path / "one"))
    at, rounds = Live(tmp_path), [0]

    def progress() -> bool:
        for row in looked(at)["rows"]:
            rounds.append(row["done"])
            assert row["state"] == "running"
        return len(set(rounds)) >= 4

    with started(call) as process:
        wait_until(progress, "four different rounds", process)
        assert sorted(rounds) == rounds
    assert list(states(looked(at)).values()) == ["begun"]


def test_half_a_line_is_left_for_later(tmp_path: Path) -> None:
    train(SMALL, tmp_path / "a")
    (tmp_path / "a" / "done").unlink()
    metrics = tmp_path / "a" / "metrics.jsonl"
    whole = metrics.read_bytes()
    at = Live(tmp_path)
    for cut, rounds in ((len(whole) - 40, 5), (len(whole), 6), (0, 0), (30, 0)):
        metrics.write_bytes(whole[:cut])
        (row,) = looked(at)["rows"]
        assert row["done"] == rounds
        assert len(at.detail({"key": row["key"]})["kept"]) == rounds


@pytest.mark.parametrize(
    "line",
    [
        b'{"round": 0, "evaluation": "high"}\n',
        b'{"round": 0, "evaluation": {"accuracy": "high"}}\n',
        b'{"round": 0, "evaluation": {"accuracy": 1e999}, "kept": 7, "lead": "x", "events": 3}\n',
        b'{"round": "zero", "kept": "kkk"}\n',
        b"[1, 2]\n",
        b"\xff\xfe\x00\n" * 50,
        b'{"round": 0, "winner": [], "events": [{}, null], "kappa": NaN, "liars": {}}\n',
    ],
)
def test_lines_that_nobody_wrote_do_no_harm(line: bytes, tmp_path: Path) -> None:
    train(SMALL, tmp_path / "good")
    other = SMALL.changed(seed=1)
    train(other, tmp_path / "bad")
    (tmp_path / "bad" / "done").unlink()
    (tmp_path / "bad" / "metrics.jsonl").write_bytes(line)
    at = Live(tmp_path)
    told = looked(at)
    assert key(SMALL) in states(told)
    for row in told["rows"]:
        json.dumps(at.detail({"key": row["key"]}), allow_nan=False)
    json.dumps(told, allow_nan=False)
    assert len(told["rows"]) + len(told["complaints"]) == 2


def test_folders_and_files_that_are_no_runs(filled: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(filled, folder)
    (folder / "notes.txt").write_text("hello")
    (folder / "empty").mkdir()
    (folder / ".hidden").mkdir()
    (folder / "bad").mkdir()
    (folder / "bad" / "record.json").write_text("{")
    (folder / "loop").symlink_to(folder / "loop")
    told = looked(Live(folder))
    assert len(told["rows"]) == 2
    assert told["unread"] == len(told["complaints"]) == 1
    assert "bad" in told["complaints"][0]


def test_a_failed_run_says_why(filled: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(filled, folder)
    first = sorted(folder.iterdir())[0]
    (first / "done").unlink()
    (first / "failed").write_text("MemoryError: no room\nfor it")
    at = Live(folder)
    row = next(row for row in looked(at)["rows"] if row["state"] == "failed")
    assert row["why"] == "MemoryError: no room for it"
    assert at.detail({"key": first.name})["why"] == "MemoryError: no room\nfor it"


def test_an_archive_and_one_run_alone(filled: Path, tmp_path: Path) -> None:
    entries, _ = Store(filled).read()
    file = tmp_path / "runs.jsonl"
    file.write_text("".join(f"{one.text()}\n" for one in entries) + "half a li")
    at = Live(file)
    told = looked(at)
    assert {row["key"] for row in told["rows"]} == {one.key for one in entries}
    assert len(told["complaints"]) == 1
    assert at.detail({"key": entries[0].key})["kept"] == []
    file.write_text(f"{entries[0].text()}\n")
    less = looked(at, told["version"])
    assert (less["gone"], less["complaints"], less["total"]) == ([entries[1].key], [], 1)
    one = next(filled.iterdir())
    assert list(states(looked(Live(one)))) == [one.name]
    moved = file.rename(tmp_path / "aside.jsonl")
    assert looked(at)["total"] == 0
    moved.rename(file)
    assert looked(at)["total"] == 1
    folder = tmp_path / "both"
    shutil.copytree(one, folder / one.name)
    (folder / "archive.jsonl").write_text("".join(f"{one.text()}\n" for one in entries))
    at = Live(folder)
    told = looked(at)
    assert set(states(told)) == {one.key for one in entries}
    assert told["total"] == 2
    assert at.detail({"key": one.name})["kept"]  # the folder has its rounds
    (folder / one.name / "done").unlink()  # whoever has it done tells of it, as in the store
    assert states(looked(at))[one.name] == Store(folder).read()[0][0].state == "done"
    shutil.rmtree(folder / one.name)
    less = looked(at, told["version"])
    assert (less["gone"], list(states(less)), less["total"]) == ([], [one.name], 2)  # the archive still has it


def test_own_rules_attacks_and_tasks_are_shown_by_their_text(tmp_path: Path) -> None:
    run = Run(rule=First(), attack=Shout(), workers=5, byzantine=1, rounds=3, every=1)
    train(run, tmp_path / "rule")
    task = Functions(workers=5, first=np.zeros(3), update=lambda worker, model, t: model - worker)
    train(Run(rule="CWM()", workers=5, rounds=3, every=1), tmp_path / "task", task=task)
    at = Live(tmp_path)
    told = looked(at)
    assert told["complaints"] == []
    assert {(row["rule"], row["attack"]) for row in told["rows"]} == {("First", "Shout"), ("CWM", "NoAttack")}
    for row in told["rows"]:
        assert len(at.detail({"key": row["key"]})["kept"]) == 3
    entries, complaints = Store(tmp_path).read()
    assert (len(entries), complaints) == (2, [])


def test_the_paper_s_number_stands_by_its_cells() -> None:
    for name, rule, attack in ((MAIN, "Mean2P", "Omn"), ("cifar", "Krum", "SF"), ("ablation", "Cent1P", "Omn")):
        for preset in ("program", "text"):
            run = TABLES[name].run((rule, attack), Setting(preset=preset, rounds=30, vote_batch=3), seed=7)
            table, *cell = cell_of(run) or ("", "", "")
            assert cell == [rule, attack]
            assert printed()[table, rule, attack][0] == printed()[name, rule, attack][0]
    run = TABLES[MAIN].run(("Mean2P", "Omn"), Setting())
    assert cell_of(run.changed(lr=0.2)) is None
    assert cell_of(run.changed(data="digits", train=None, test=None)) is None


def test_a_run_that_is_gone_is_a_sentence(filled: Path) -> None:
    at = Live(filled)
    looked(at)
    for words in ({"key": "0" * 16}, {}, {"key": sorted(filled.iterdir())[0].name, "since": "x"}):
        with pytest.raises(BadInput, match=r"\.$"):
            at.detail(words)


def test_very_many_rounds_are_thinned_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "ROUNDS", 4)
    monkeypatch.setattr(live, "CURVE", 2)
    train(SMALL.changed(rounds=10, every=1), tmp_path / "a")
    at = Live(tmp_path)
    (row,) = looked(at)["rows"]
    found = at.detail({"key": row["key"], "since": "5"})
    assert (found["every"], found["from"], found["rounds"], len(found["kept"])) == (3, 0, 10, 4)
    assert len(row["curve"]) <= 4
    assert row["curve"][-1][0] == 10
