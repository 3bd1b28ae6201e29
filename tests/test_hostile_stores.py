"""Stores that a stranger prepared: links, pipes and letters that steer a terminal."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import main
from holdfast.disk import NotRegular, read_regular, write_whole
from holdfast.errors import printable
from holdfast.experiments.store import Store, key
from holdfast.training import Run
from holdfast.training.folder import FORMAT, OWN, InUse, in_use
from holdfast.web.live import Live
from tests.children import PATIENCE, holdfast, run

SECRET = "the secret of another folder"
ESCAPE = "\x1b]0;owned\x07\x1b[2J"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that failed, in the store runs."""
    monkeypatch.chdir(tmp_path)
    run = Run(rule="Average()")
    folder = tmp_path / "runs" / key(run)
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(json.dumps({**run.record(), "task": OWN, "format": FORMAT}))
    (folder / "failed").write_text("no memory")
    (tmp_path / "secret").write_text(SECRET)
    return folder


@pytest.fixture
def limited() -> Iterator[None]:
    """An error after PATIENCE: a pipe that nobody writes to is waited for without end."""

    def late(*_: object) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(int(PATIENCE))
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def said(*words: str) -> str:
    """What a command prints, on both streams."""
    told = run(holdfast(*words))
    assert told.returncode in (0, 2), told.stderr
    return told.stdout + told.stderr


def test_a_failed_note_that_is_a_link_was_followed_to_a_secret(place: Path) -> None:
    (place / "failed").unlink()
    (place / "failed").symlink_to(place.parent.parent / "secret")
    ((entry,), _) = Store("runs").read()
    assert entry.state == "failed"
    assert SECRET not in entry.why
    assert "is a link" in entry.why
    assert SECRET not in said("runs", "runs")


@pytest.mark.parametrize("name", ["metrics.jsonl", "timing.json", "code", "summary.json", "record.json"])
def test_no_file_of_a_run_is_read_through_a_link(name: str, place: Path) -> None:
    outside = place.parent.parent / "outside"
    outside.write_text((place / name).read_text() if (place / name).exists() else '{"round": 0, "seconds": 77}\n')
    (place / name).unlink(missing_ok=True)
    (place / name).symlink_to(outside)
    entries, complaints = Store("runs").read()
    if name == "record.json":
        assert "is a link" in complaints[0]
    else:
        assert entries[0].seconds is None
        assert entries[0].facts["rounds"] == 0
        assert entries[0].code == []


def test_a_run_that_is_a_link_to_another_folder_is_not_followed(place: Path) -> None:
    place.rename(place.parent.parent / "elsewhere")
    place.symlink_to(place.parent.parent / "elsewhere")
    entries, complaints = Store("runs").read()
    assert not entries
    assert "is a link" in complaints[0]


def test_an_archive_in_a_store_that_is_a_link_is_not_followed(place: Path) -> None:
    (place.parent / "archive.jsonl").symlink_to(place.parent.parent / "secret")
    entries, complaints = Store("runs").read()
    assert len(entries) == 1
    assert "is a link" in complaints[0]
    assert SECRET not in complaints[0]


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize(
    "name", ["record.json", "failed", "lock", "metrics.jsonl", "timing.json", "code", "summary.json"]
)
def test_a_pipe_in_the_place_of_a_file_hung_every_reader(name: str, place: Path) -> None:
    (place / name).unlink(missing_ok=True)
    os.mkfifo(place / name)
    entries, complaints = Store("runs").read()
    assert len(entries) + len(complaints) == 1
    live = Live(place.parent)
    assert live.over.wait(PATIENCE)
    assert Store("runs").state(Run(rule="Average()")) in ("failed", "begun")


@pytest.mark.usefixtures("limited")
def test_an_archive_that_is_a_pipe_hung_every_reader(place: Path) -> None:
    os.mkfifo(place.parent / "archive.jsonl")
    assert "is a pipe" in Store("runs").read()[1][0]


@pytest.mark.parametrize("command", ["runs", "report"])
def test_escape_sequences_of_a_rule_or_a_note_reached_the_terminal(command: str, place: Path) -> None:
    record = json.loads((place / "record.json").read_text()) | {"rule": f"Mine('{ESCAPE}')"}
    other = place.with_name("other")
    other.mkdir()
    (other / "record.json").write_text(json.dumps(record))
    (place / "failed").write_text(f"no memory {ESCAPE}\x9b2J\x7f")
    (place.parent / f"odd{ESCAPE}").mkdir()
    told = said(command, "runs")
    assert not [letter for letter in told if not letter.isprintable() and letter != "\n"], told
    if command == "runs":
        assert "no memory \\x1b]0;owned" in told


def test_a_refusal_prints_no_control_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["holdfast", "runs", f"{tmp_path}/no{ESCAPE}"])
    with pytest.raises(SystemExit):
        main()
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        {"round": 0, "liars": 10**400},
        {"round": 0, "evaluation": {"accuracy": "high"}},
        {"round": 0, "evaluation": {"accuracy": 10**400}},
        {"round": 0, "evaluation": {"accuracy": float("nan")}},
        {"round": 0, "averaged": {"accuracy": [0.5]}},
        {"round": 0, "evaluation": {"accuracy": 0.5, "workers": [0.5, float("inf")]}},
        {"round": 0, "evaluation": {"accuracy": 0.5, "workers": {"0": "good"}}},
    ],
)
def test_metrics_that_are_no_numbers_ended_runs_and_report_with_a_traceback(line: dict[str, Any], place: Path) -> None:
    run = Run(rule="CWM()", rounds=1)
    other = place.with_name(key(run))
    other.mkdir()
    (other / "record.json").write_text(json.dumps({**run.record(), "task": OWN, "format": FORMAT}))
    (other / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    for mark in ("begun", "done"):
        (other / mark).touch()
        (entry,), (complaint,) = Store("runs").read()
        assert entry.state == "failed"
        assert complaint.startswith(f"runs/{other.name}: it")


def test_control_characters_are_shown_as_escapes() -> None:
    assert printable("λ = 1\n\ttold\x1b[2J\x9b\u202e\r") == "λ = 1\n\ttold\\x1b[2J\\x9b\\u202e\\r"


@pytest.mark.usefixtures("limited")
def test_a_lock_that_is_a_link_is_not_written_through(place: Path) -> None:
    from holdfast.training.folder import Folder

    (place / "lock").symlink_to(place.parent.parent / "secret")
    assert not in_use(place)
    with pytest.raises((OSError, InUse)), Folder(place, Run(rule="Average()")).held():
        pass
    assert (place.parent.parent / "secret").read_text() == SECRET


def test_a_whole_file_is_not_written_through_a_link_that_was_laid_beforehand(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    for name in ("out.part", ".out.part", f"out.{os.getpid()}.part"):
        (tmp_path / name).symlink_to(tmp_path / "secret")
    write_whole(tmp_path / "out", b"text")
    assert read_regular(tmp_path / "out") == b"text"
    assert (tmp_path / "secret").read_text() == SECRET
    assert len(list(tmp_path.iterdir())) == 5, "nothing is left beside it"


def test_a_file_that_could_not_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    write_whole(tmp_path / "out", b"old")

    def fails(_: object) -> None:
        raise ValueError("half way")

    with pytest.raises(ValueError, match="half way"):
        write_whole(tmp_path / "out", fails)
    assert [one.name for one in tmp_path.iterdir()] == ["out"]
    assert read_regular(tmp_path / "out") == b"old"


def test_a_file_is_read_only_up_to_its_limit(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)  # takes no room on the disk
    with pytest.raises(NotRegular, match="more than 1000 bytes"):
        read_regular(tmp_path / "large", limit=1000)
