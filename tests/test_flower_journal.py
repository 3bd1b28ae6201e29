"""Journals: nothing that was written is ever removed, whatever happened to the files."""

from __future__ import annotations

import json
import logging
import os
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from holdfast import BadInput, MeanwO
from holdfast.engines.flower import LocalGrid, RobustStrategy, make_record, read_model
from holdfast.engines.journal import Journal, State
from holdfast.journal import read_journal, scan_journal
from holdfast.report.nodes import History, nodes, summary, write

ASIDE = "rounds-set-aside.jsonl"


@pytest.fixture(autouse=True)
def _heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)


def run(folder: Path, rounds: int, kind: Any = np.float64) -> np.ndarray:
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        old = read_model(message.content.array_records["arrays"])
        told = MetricRecord({"num-examples": 1})
        return Message(RecordDict({"arrays": make_record({"w": old["w"] + 1}), "metrics": told}), reply_to=message)

    strategy = RobustStrategy(MeanwO(f=1), folder=folder, fraction_evaluate=0.0)
    result = strategy.start(LocalGrid(app, 5), make_record({"w": np.zeros(2, kind)}), num_rounds=rounds)
    return read_model(result.arrays)["w"]


def turns(path: Path) -> list[int]:
    return [json.loads(text)["round"] for text in path.read_text().splitlines()]


def test_a_half_written_only_line_made_a_restart_refuse(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "rounds.jsonl").write_text('{"round": 1, "ask')
    assert read_journal(tmp_path) == []
    assert (run(tmp_path, 2) == 2).all()
    assert turns(tmp_path / "rounds.jsonl") == [1, 2]
    assert (tmp_path / ASIDE).read_text() == '{"round": 1, "ask\n'
    assert f"1 damaged line is set aside in {tmp_path / ASIDE}" in caplog.text


def test_a_state_of_another_precision_was_taken_silently(tmp_path: Path) -> None:
    run(tmp_path, 1, np.float32)
    with pytest.raises(BadInput, match="holds the state of another model than initial_arrays; name another folder"):
        run(tmp_path, 2)
    assert run(tmp_path, 2, np.float32).tolist() == [2.0, 2.0]


def test_a_missing_state_erased_the_journal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(tmp_path, 3)
    written = (tmp_path / "rounds.jsonl").read_bytes()
    (tmp_path / "state.npz").unlink()
    run(tmp_path, 2)
    assert (tmp_path / ASIDE).read_bytes() == written
    assert turns(tmp_path / "rounds.jsonl") == [1, 2]
    assert "3 lines of rounds that no state holds are set aside" in caplog.text
    (tmp_path / "state.npz").unlink()
    run(tmp_path, 1)
    assert turns(tmp_path / ASIDE) == [1, 2, 3, 1, 2]


def test_a_flipped_bit_deleted_a_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(tmp_path, 3)
    path = tmp_path / "rounds.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = bytes([lines[1][0] ^ 4]) + lines[1][1:]
    path.write_bytes(b"".join(lines))
    run(tmp_path, 4)
    assert turns(path) == [1, 3, 4]
    assert (tmp_path / ASIDE).read_bytes() == lines[1]
    assert "1 damaged line is set aside" in caplog.text


@pytest.mark.parametrize("seed", range(30))
def test_no_damage_loses_a_byte_that_was_written(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    texts = [json.dumps({"round": at + 1, "kept": ["1", "2"]}).encode() for at in range(6)]
    data = bytearray(b"\n".join(texts) + b"\n")
    for at in rng.integers(len(data), size=3):
        data[at] = int(rng.integers(256))
    data = data[: int(rng.integers(1, len(data) + 1))]
    (tmp_path / "rounds.jsonl").write_bytes(data)
    Journal(tmp_path).state()
    held = b"".join((tmp_path / name).read_bytes() for name in ("rounds.jsonl", ASIDE) if (tmp_path / name).exists())
    assert sorted(filter(None, held.split(b"\n"))) == sorted(filter(None, bytes(data).split(b"\n")))


def test_a_sound_journal_is_not_written_again(tmp_path: Path) -> None:
    run(tmp_path, 2)
    before = os.stat(tmp_path / "rounds.jsonl")
    Journal(tmp_path).state()
    after = os.stat(tmp_path / "rounds.jsonl")
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_the_log_said_journal_when_the_state_could_not_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Journal, "save", full)
    run(tmp_path, 1)
    assert "the state after round 1 is not saved: [Errno 28]" in caplog.text
    assert "not in the journal" not in caplog.text
    monkeypatch.setattr(Journal, "add", full)
    run(tmp_path / "other", 1)
    assert "round 1 is not in the journal: [Errno 28]" in caplog.text


def test_a_read_only_folder_was_a_raw_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, 1)
    tmp_path.chmod(0o555)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)  # root may write everywhere
    try:
        with pytest.raises(BadInput, match=r"cannot be a journal's folder .*name a folder to write to"):
            Journal(tmp_path)
    finally:
        tmp_path.chmod(0o755)


def test_a_journal_that_cannot_be_set_aside_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rounds.jsonl").write_text('{"round": 1}\n')
    (tmp_path / ASIDE).mkdir()
    with pytest.raises(BadInput, match="cannot be read or written"):
        Journal(tmp_path).state()
    assert turns(tmp_path / "rounds.jsonl") == [1]


@pytest.mark.parametrize("name", ["rounds.jsonl", ASIDE, "state.npz"])
@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_a_pipe_in_the_place_of_a_file_hung_a_restart(name: str, kind: str, tmp_path: Path) -> None:
    folder, outside = tmp_path / "server", tmp_path / "outside"
    run(folder, 2)
    outside.write_text("of another folder")
    with (folder / "rounds.jsonl").open("a") as file:
        file.write("damaged\n")
    (folder / name).unlink(missing_ok=True)
    {"pipe": os.mkfifo, "link": lambda path: path.symlink_to(outside), "folder": Path.mkdir}[kind](folder / name)
    with pytest.raises(BadInput, match=f"is a {kind}"):
        run(folder, 3)
    assert outside.read_text() == "of another folder"


def test_a_link_in_the_place_of_a_temporary_file_was_written_through(tmp_path: Path) -> None:
    folder, outside = tmp_path / "server", tmp_path / "outside"
    run(folder, 2)
    outside.write_text("of another folder")
    for name in (".state.part", ".rounds.part"):
        (folder / name).symlink_to(outside)
    with (folder / "rounds.jsonl").open("a") as file:
        file.write("damaged\n")
    run(folder, 3)
    assert outside.read_text() == "of another folder"


def test_a_line_that_is_set_aside_joined_a_half_written_one(tmp_path: Path) -> None:
    (tmp_path / ASIDE).write_text('{"round": 1, "ke')
    (tmp_path / "rounds.jsonl").write_text('{"round": 2}\n')
    Journal(tmp_path).state()
    assert (tmp_path / ASIDE).read_text() == '{"round": 1, "ke\n{"round": 2}\n'


def test_a_flipped_bit_that_shortens_an_array_of_the_state_was_not_seen(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.save(1, State({"w": np.arange(3000.0)}, None, {}, "MeanwO(f=1), seed 0"))
    content = (tmp_path / "state.npz").read_bytes()
    assert content.count(b"'shape': (3000,)") == 1
    (tmp_path / "state.npz").write_bytes(content.replace(b"'shape': (3000,)", b"'shape': (2000,)"))
    with np.load(tmp_path / "state.npz") as held:
        assert held["model-0"].shape == (2000,), "numpy sees the checksum only at the end of an entry"
    with pytest.raises(BadInput, match=r"model-0.npy has bytes left over"):
        journal.state()


def test_a_state_of_the_first_format_is_read(tmp_path: Path) -> None:
    entries: dict[str, Any] = {"round": np.array(2), "names": np.array(["w"]), "who": np.array("MeanwO(f=1), seed 0")}
    entries |= {"memory": np.array([], str), "model-0": np.full(2, 2.0)}
    np.savez(tmp_path / "state.npz", **entries)
    (tmp_path / "rounds.jsonl").write_text('{"round": 1}\n{"round": 2}\n')
    assert (run(tmp_path, 3) == 3).all()


def long(folder: Path, rounds: int) -> None:
    names = [str(10**18 + at) for at in range(20)]
    with (folder / "rounds.jsonl").open("w") as out:
        for at in range(rounds):
            left = {names[at % 20]: "not among the n - f of least squared distance"}
            kept = [name for name in names if name not in left]
            out.write(json.dumps({"round": at + 1, "asked": 20, "kept": kept, "excluded": left, "silent": []}) + "\n")
    Journal(folder).save(rounds, State({"w": np.zeros(2)}, None, {}, "MeanwO(f=1), seed 0"))


def test_a_long_journal_took_a_gigabyte_and_half_a_minute(tmp_path: Path) -> None:
    rounds = 5_000
    long(tmp_path, rounds)
    start = time.process_time()
    tracemalloc.start()
    Journal(tmp_path).state()
    restart = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    history = History.of(scan_journal(tmp_path))
    write(history, tmp_path / "nodes.html")
    report = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert restart < 2e6
    assert report < 20 * rounds + 16e6  # a byte a round and node, and the page
    assert time.process_time() - start < 20
    assert (tmp_path / "nodes.html").stat().st_size < 3e6
    assert summary(history).startswith("5000 rounds, 0 skipped")
    assert [len(node.letters) for node in nodes(history)] == [rounds] * 20


def test_a_square_of_a_long_journal_shows_the_worst_of_its_rounds(tmp_path: Path) -> None:
    lines = [{"round": at + 1, "kept": ["1"], "refused": {}} for at in range(5000)]
    lines[3210] = {"round": 3211, "refused": {"1": "sent nothing"}}
    write(lines, tmp_path / "nodes.html")
    page = (tmp_path / "nodes.html").read_text()
    assert page.count("refused or dropped</title>") == 1
    assert "a square is 7 rounds and shows the worst of them" in page


def test_a_journal_did_not_say_that_f_was_lowered(tmp_path: Path) -> None:
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        if context.node_id == 3:
            raise RuntimeError("broken")
        return Message(RecordDict({"arrays": make_record({"w": np.ones(2)})}), reply_to=message)

    strategy = RobustStrategy(MeanwO(f=1), folder=tmp_path, fraction_evaluate=0.0)
    strategy.start(LocalGrid(app, 3), make_record({"w": np.zeros(2)}), num_rounds=1)
    (line,) = read_journal(tmp_path)
    assert line["note"].startswith("f was lowered from MeanwO(f=1) to MeanwO(f=0): 2 vectors remained")
    older = {name: value for name, value in line.items() if name != "note"}  # as journals were written before
    (tmp_path / "older.jsonl").write_text(json.dumps(older) + "\n")
    assert read_journal(tmp_path / "older.jsonl") == [older]
    assert summary(read_journal(tmp_path / "older.jsonl")) == summary(read_journal(tmp_path))
