"""A training's folder: the record, a line of JSON a round, a checkpoint, and a mark when it is done.

Running again resumes: lines after the checkpoint are cut off and come again, with the same bits.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import BadInput
from holdfast.training.run import Run
from holdfast.training.state import State


class Folder:
    """Where one run is kept. Two runs do not share a folder."""

    def __init__(self, path: Path, run: Run) -> None:
        self.path, self.run = path, run
        path.mkdir(parents=True, exist_ok=True)
        record = path / "record.json"
        if record.exists():
            there = Run.read(record.read_text())
            if there != run:
                mine, theirs = run.record(), there.record()
                other = ", ".join(f"{k} = {theirs[k]!r}" for k in mine if mine[k] != theirs[k])
                raise BadInput(f"{path} holds another run, with {other}; choose another folder.")
        else:
            _write(record, run.text() + "\n")

    @property
    def done(self) -> bool:
        return (self.path / "done").exists()

    def state(self) -> State | None:
        """Where an earlier run was interrupted, with the metrics cut back to there; None: nowhere yet."""
        saved = self.path / "checkpoint.npz"
        state = State.load(saved) if saved.exists() else None
        reached = state.round if state else 0
        lines = [line for line in self.lines() if line["round"] < reached]
        if len(lines) < reached:
            raise BadInput(
                f"{self.path} has lost {reached - len(lines)} lines of its metrics; delete it to start again."
            )
        _write(self.path / "metrics.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines))
        return state

    def lines(self) -> Iterator[dict[str, Any]]:
        """The rounds that were written; a last line that was cut off is left out."""
        metrics = self.path / "metrics.jsonl"
        for line in metrics.read_text().splitlines() if metrics.exists() else ():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                return

    def add(self, lines: list[dict[str, Any]], state: State) -> None:
        """Rounds that are over, then the state after them."""
        with (self.path / "metrics.jsonl").open("a") as file:
            file.write("".join(f"{json.dumps(line)}\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())
        state.save(self.path / "checkpoint.npz")

    def finish(self, state: State, seconds: float) -> None:
        """The models, the time it took in a file of its own, and the mark, last."""
        np.savez(self.path / "model.npz", last=state.model, average=state.average)
        _write(self.path / "timing.json", json.dumps({"seconds": round(seconds, 3)}) + "\n")
        _write(self.path / "done", "")
        (self.path / "checkpoint.npz").unlink(missing_ok=True)


def _write(path: Path, text: str) -> None:
    beside = path.with_name(path.name + ".part")
    beside.write_text(text)
    os.replace(beside, path)
