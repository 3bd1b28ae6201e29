"""What an operator reads, one line of JSON for each round; and the state from which a killed server goes on."""

from __future__ import annotations

import errno
import logging
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from holdfast.engines.flower.differences import Model
from holdfast.engines.lines import add
from holdfast.errors import BadInput, plural
from holdfast.report.nodes import parse_line

log = logging.getLogger("flwr.holdfast")


@dataclass
class State:
    """The model, the last aggregate, what an optimiser remembers by name, and whose state it is."""

    model: Model
    last: Model | None
    memory: dict[str, Model]
    who: str


class Journal:
    """A folder with rounds.jsonl and state.npz; without a folder, nothing is kept.

    Nothing that was written is removed. What a restart cannot use goes to rounds-set-aside.jsonl, and the log says so.
    """

    def __init__(self, folder: Path | str | None) -> None:
        self.folder = None
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
        part = self.folder / ".state.part"
        with part.open("wb") as out:
            np.savez(out, **entries)
            _sync(out)
        part.replace(self.folder / "state.npz")

    def state(self) -> tuple[int, State] | None:
        """Rounds done, and the state after them; None at the beginning. Rounds without a state are set aside."""
        if self.folder is None:
            return None
        held = self._load() if (self.folder / "state.npz").is_file() else None
        try:
            self._set_aside(0 if held is None else held[0])  # a round that was not saved is not told twice
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise BadInput(
                f"{self.folder} cannot be read or written ({why}); mend it or name another folder."
            ) from None
        return held

    def _load(self) -> tuple[int, State]:
        assert self.folder is not None
        try:
            with np.load(self.folder / "state.npz", allow_pickle=False) as held:
                names = [str(name) for name in held["names"]]
                parts = {
                    what: {name: held[f"{what}-{i}"] for i, name in enumerate(names) if f"{what}-{i}" in held.files}
                    for what in ("model", "last", *map(str, held["memory"]))
                }
                done, who = int(held["round"]), str(held["who"])
        except Exception as error:
            where = self.folder / "state.npz"
            raise BadInput(
                f"{where} cannot be read ({type(error).__name__}); remove it to begin anew, the journal is kept."
            ) from None
        return done, State(parts.pop("model"), parts.pop("last") or None, parts, who)

    def _set_aside(self, done: int) -> None:
        """Move damaged lines, and those of rounds after `done`, to a file beside it; first there, then here."""
        assert self.folder is not None
        path, aside = self.folder / "rounds.jsonl", self.folder / "rounds-set-aside.jsonl"
        if not path.is_file() or not any(counts := _count(path, done)):
            return
        part = path.with_name(".rounds.part")
        with path.open("rb") as lines, aside.open("ab") as others, part.open("wb") as kept:
            for text in lines:
                (others if _unusable(text, done) else kept).write(text if text.endswith(b"\n") else text + b"\n")
            _sync(others)
            _sync(kept)
        part.replace(path)
        for many, what in zip(counts, ("damaged {}", "{} of rounds that no state holds"), strict=True):
            if many:
                told, verb = what.format(plural(many, "line")), "is" if many == 1 else "are"
                log.warning("%d %s %s set aside in %s", many, told, verb, aside)


def _unusable(text: bytes, done: int) -> str:
    """Why a line cannot stay in the journal; nothing if it can."""
    if not text.strip():
        return ""
    line = parse_line(text)
    return "damaged" if line is None else "later" if line["round"] > done else ""


def _count(path: Path, done: int) -> tuple[int, int]:
    """How many lines are damaged, and how many are of later rounds."""
    with path.open("rb") as lines:
        found = Counter(_unusable(text, done) for text in lines)
    return found["damaged"], found["later"]


def _sync(out: BinaryIO) -> None:
    out.flush()
    os.fsync(out.fileno())


def _check_writable(folder: Path) -> None:
    """Raise PermissionError if the folder, or a file of ours in it, cannot be written."""
    for path in (folder, folder / "rounds.jsonl", folder / "state.npz"):
        if path.exists() and not os.access(path, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, f"no permission to write {path.name}")
