"""What an operator reads, one line of JSON for each round; and the state from which a killed server goes on."""

from __future__ import annotations

import errno
import logging
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from holdfast.disk import open_regular, write_whole
from holdfast.engines.differences import Model
from holdfast.engines.lines import add, open_lines
from holdfast.errors import BadInput, plural
from holdfast.journal import parse_line
from holdfast.npz import read_arrays


@dataclass
class State:
    """The model, the last aggregate, what an optimiser remembers by name, and whose state it is."""

    model: Model
    last: Model | None
    memory: dict[str, Model]
    who: str


class Journal:
    """A folder with rounds.jsonl and state.npz; without a folder, nothing is kept.

    Nothing that was written is removed. What a restart cannot use goes to rounds-set-aside.jsonl, and the engine's log
    says so.
    """

    def __init__(self, folder: Path | str | None, log: logging.Logger | None = None) -> None:
        self.folder = None
        self.log = log or logging.getLogger("holdfast")
        if folder is not None:
            try:
                self.folder = Path(folder)
                self.folder.mkdir(parents=True, exist_ok=True)
                _check_writable(self.folder)
            except (OSError, TypeError) as error:
                why = getattr(error, "strerror", None) or type(error).__name__
                raise BadInput(f"{folder!r} cannot be a journal's folder ({why}); name a folder to write to.") from None

    def add(self, line: dict[str, Any]) -> None:
        """One round."""
        if self.folder is None:
            return
        add(self.folder / "rounds.jsonl", line)

    def save(self, done: int, state: State) -> None:
        """The state after a whole round, in place of the one before, whole or not at all."""
        if self.folder is None:
            return
        entries: dict[str, Any] = {"round": np.array(done), "names": np.array(list(state.model))}
        entries |= {"who": np.array(state.who), "memory": np.array(list(state.memory), dtype=str)}
        for what, named in {"model": state.model, "last": state.last or {}, **state.memory}.items():
            entries |= {f"{what}-{i}": values for i, values in enumerate(named.values())}
        write_whole(self.folder / "state.npz", lambda out: np.savez(out, **entries), sync=True)

    def state(self) -> tuple[int, State] | None:
        """Rounds done, and the state after them; None at the beginning. Rounds without a state are set aside."""
        if self.folder is None:
            return None
        held = self._load() if os.path.lexists(self.folder / "state.npz") else None
        try:
            self._set_aside(0 if held is None else held[0])  # a round that was not saved is not told twice
        except OSError as error:
            why = error.strerror or str(error)
            raise BadInput(
                f"{self.folder} cannot be read or written ({why}); mend it or name another folder."
            ) from None
        return held

    def _load(self) -> tuple[int, State]:
        assert self.folder is not None
        try:
            with open_regular(self.folder / "state.npz") as file:
                held = read_arrays(file)
            names = [str(name) for name in held["names"]]
            parts = {
                what: {name: held[f"{what}-{i}"] for i, name in enumerate(names) if f"{what}-{i}" in held}
                for what in ("model", "last", *map(str, held["memory"]))
            }
            done, who = int(held["round"]), str(held["who"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            where = self.folder / "state.npz"
            raise BadInput(f"{where} cannot be read ({error}); remove it to begin anew, the journal is kept.") from None
        return done, State(parts.pop("model"), parts.pop("last") or None, parts, who)

    def _set_aside(self, done: int) -> None:
        """Move damaged lines, and those of rounds after `done`, to a file beside it; first there, then here."""
        assert self.folder is not None
        path, aside = self.folder / "rounds.jsonl", self.folder / "rounds-set-aside.jsonl"
        if not os.path.lexists(path) or not any(counts := _count(path, done)):
            return
        with open_regular(path) as lines, open_lines(aside) as others:

            def sort(usable: IO[bytes]) -> None:
                for text in lines:
                    (others if _unusable(text, done) else usable).write(text if text.endswith(b"\n") else text + b"\n")
                others.flush()
                os.fsync(others.fileno())

            write_whole(path, sort, sync=True)
        for many, what in zip(counts, ("damaged {}", "{} of rounds that no state holds"), strict=True):
            if many:
                subject, verb = what.format(plural(many, "line")), "is" if many == 1 else "are"
                self.log.warning("%d %s %s set aside in %s", many, subject, verb, aside)


def _unusable(text: bytes, done: int) -> str:
    """Why a line cannot stay in the journal; nothing if it can."""
    if not text.strip():
        return ""
    line = parse_line(text)
    return "damaged" if line is None else "later" if line["round"] > done else ""


def _count(path: Path, done: int) -> tuple[int, int]:
    """How many lines are damaged, and how many are of later rounds."""
    with open_regular(path) as lines:
        counts = Counter(_unusable(text, done) for text in lines)
    return counts["damaged"], counts["later"]


def _check_writable(folder: Path) -> None:
    """Raise PermissionError if the folder, or a file of ours in it, cannot be written."""
    for path in (folder, folder / "rounds.jsonl", folder / "state.npz"):
        if path.exists() and not os.access(path, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, f"no permission to write {path.name}")
