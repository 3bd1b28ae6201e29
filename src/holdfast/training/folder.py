"""A training's folder: the record, a line of JSON a round, a checkpoint, and a mark when it is done.

Running again resumes: lines after the checkpoint are cut off and come again, with the same bits.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.disk import (
    MAX_NOTE_BYTES,
    NotRegular,
    append_regular,
    open_regular,
    read_note,
    read_regular,
    write_text,
    write_whole,
)
from holdfast.errors import BadInput, Unwritable
from holdfast.npz import read_arrays
from holdfast.training.code import note_code
from holdfast.training.own import named
from holdfast.training.run import Run, usual_later
from holdfast.training.state import State

log = logging.getLogger("holdfast")
FORMAT = 1  # of a folder; what an older holdfast wrote has another, or none
LOOKS = 5  # times that a lock is asked for, since somebody may only be looking
NO_LOCK = "HOLDFAST_NO_LOCK"  # set by --no-lock, for this process and those that it starts
HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EINTR)  # what flock says if somebody has the lock
OWN = "the record's own"  # task: torch workers on the record's data set


class Unlockable(Unwritable):
    """The file system has no locks, so nobody can tell whether another process is at work."""


class InUse(BadInput):
    """Another process has the folder."""


class Folder:
    """Where one run is kept. Two runs do not share a folder, nor do two processes.

    `mark` tells tasks apart that the record does not name, such as a module of one's own.
    """

    def __init__(self, path: Path, run: Run, mark: str = OWN) -> None:
        self.path, self.run, self.mark, self.since = path, run, mark, time.monotonic()
        if path.exists() and not path.is_dir():
            raise BadInput(f"{path} is a file; name a folder for the run.")
        self._same()

    def _same(self) -> None:
        if not self.done and not (self.path / "checkpoint.npz").exists():
            return
        usual = usual_later() | {"task": OWN}
        theirs, mine = usual | _read(self.path), usual | self._record()
        other = [f"{key} = {theirs.get(key)!r}" for key in theirs | mine if theirs.get(key) != mine.get(key)]
        if other:
            raise BadInput(f"{self.path} holds another run, with {', '.join(other)}; choose another folder.")

    def _record(self) -> dict[str, Any]:
        return {**self.run.record(), "task": self.mark, "format": FORMAT}

    @property
    def done(self) -> bool:
        return (self.path / "done").exists()

    @contextmanager
    def held(self) -> Iterator[None]:
        """The folder for this process alone, with its record written; a killed process lets go by itself."""
        self.path.mkdir(parents=True, exist_ok=True)
        with open_regular(self.path / "lock", os.O_RDWR | os.O_CREAT) as file:
            lock(file, self.path)
            self._same()  # somebody may have been here since we looked
            write_text(self.path / "record.json", json.dumps(self._record(), indent=1))
            note_code(self.path)
            yield

    def state(self, first: State) -> State | None:
        """Where an earlier run was interrupted, with the metrics cut back to there; None: nowhere yet."""
        saved = self.path / "checkpoint.npz"
        state = State.load(saved, first) if saved.exists() else None
        if state and state.mail and state.mail.workers() - set(range(self.run.workers)):
            raise BadInput(f"{saved} is no checkpoint of this training (it has replies of other workers); delete it.")
        reached = state.round if state else 0
        lines = first_of(self.path, reached)
        write_text(self.path / "metrics.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines))
        return state

    def whole(self) -> list[dict[str, Any]]:
        """All rounds of a finished run."""
        return first_of(self.path, self.run.rounds)

    def lines(self) -> Iterator[dict[str, Any]]:
        """The rounds that were written."""
        return lines_of(self.path)

    def add(self, lines: list[dict[str, Any]], state: State) -> None:
        """Rounds that are over, then the state after them."""
        with append_regular(self.path / "metrics.jsonl") as file:
            file.write("".join(f"{json.dumps(line)}\n" for line in lines).encode())
            file.flush()
            os.fsync(file.fileno())
        state.save(self.path / "checkpoint.npz")
        self.spent()

    def finish(self, state: State) -> None:
        """The models, and the mark, last."""
        write_whole(self.path / "model.npz", lambda file: np.savez(file, last=state.model, average=state.average))
        write_text(self.path / "done", "")
        (self.path / "checkpoint.npz").unlink(missing_ok=True)

    def spent(self) -> None:
        """Add the time since it was last called to what the run took, which has a file of its own."""
        seconds, self.since = time.monotonic() - self.since, time.monotonic()
        timing = self.path / "timing.json"
        try:
            before = float(json.loads(read_note(timing))["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            before = 0.0
        write_text(timing, json.dumps({"seconds": round(before + seconds, 3)}) + "\n")

    def models(self) -> tuple[np.ndarray, np.ndarray]:
        """The last and the averaged model of a finished run."""
        try:
            with open_regular(self.path / "model.npz") as file:
                models = read_arrays(file)
            return models["last"], models["average"]
        except (OSError, ValueError, KeyError) as error:
            raise BadInput(f"{self.path} has lost its model ({error}); delete it to start again.") from None


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """The rounds that a run's folder holds, whatever its run; a last line that was cut off is left out."""
    try:
        text = read_regular(path / "metrics.jsonl")
    except (FileNotFoundError, NotRegular):
        return
    for line in text.splitlines():
        try:
            yield {**json.loads(line)}
        except (ValueError, TypeError, RecursionError):
            return


def first_of(path: Path, rounds: int) -> list[dict[str, Any]]:
    """This number of them, or a sentence that some are lost."""
    lines = list(lines_of(path))[:rounds]
    if [line.get("round") for line in lines] != list(range(rounds)):
        raise BadInput(f"{path} has lost lines of its metrics; delete it to start again.")
    return lines


def set_damaged_aside(path: Path) -> None:
    """Rename a run's checkpoint that cannot be gone on from, so that the run starts anew; nothing is deleted."""
    saved = path / "checkpoint.npz"
    if not os.path.lexists(saved):
        return
    try:
        first_of(path, State.load(saved).round)
    except BadInput as why:
        aside = next(one for k in count(1) if not os.path.lexists(one := path / f"checkpoint.damaged-{k}.npz"))
        saved.rename(aside)
        log.warning("%s; it is now %s, and the run starts anew", str(why).rstrip("."), aside.name)


def read_record(path: Path) -> Run:
    """The run whose folder this is; a rule or an attack that is in no catalogue is known by its text."""
    record = _read(path)
    try:
        return Run.of(named({name: value for name, value in record.items() if name not in ("task", "format")}))
    except BadInput as error:
        raise BadInput(f"{path} holds a record that is none: {error}") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        record = {**json.loads(read_regular(path / "record.json", limit=MAX_NOTE_BYTES))}
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise BadInput(
            f"{path}/record.json is no record of a run ({error}); delete its folder to start again."
        ) from None
    if record.get("format") != FORMAT:
        raise BadInput(
            f"{path} is of format {record.get('format', 0)} and this holdfast writes {FORMAT}; "
            "use the version that wrote it, or another folder."
        )
    return record


def in_use(path: Path) -> bool:
    """Whether a process is at work in a run's folder."""
    try:
        with open_regular(path / "lock") as file:
            lock(file, path, alone=False)
    except InUse:
        return True
    except (OSError, Unlockable):
        return False
    return False


def lock(file: Any, path: Path, *, alone: bool = True) -> None:
    """For this process alone; or, for one that only looks, for a moment beside others that look."""
    try:
        import fcntl
    except ImportError:  # no locks on this system
        return
    if os.environ.get(NO_LOCK):
        return
    wanted = (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB
    for _ in range(LOOKS if alone else 1):
        try:
            fcntl.flock(file, wanted)
            return
        except OSError as error:
            if error.errno not in HELD:
                raise Unlockable(
                    f"{path} lies on a file system without locks ({error.strerror}); name a folder on another one, or "
                    "add --no-lock if no other process works there."
                ) from None
            time.sleep(0.02 if alone else 0)
    raise InUse(f"{path} is in use by another process; wait for it, or choose another folder.") from None
