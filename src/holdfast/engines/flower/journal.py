"""What an operator reads, a line of JSON a round; and the state from which a killed server goes on."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.engines.lines import add
from holdfast.errors import BadInput
from holdfast.report.nodes import read

Model = dict[str, np.ndarray]


@dataclass
class State:
    """The model, the last aggregate, what an optimiser remembers by name, and whose state it is."""

    model: Model
    last: Model | None
    memory: dict[str, Model]
    who: str


class Journal:
    """A folder with rounds.jsonl and state.npz; without a folder, nothing is kept."""

    def __init__(self, folder: Path | str | None) -> None:
        self.folder = None
        if folder is not None:
            try:
                self.folder = Path(folder)
                self.folder.mkdir(parents=True, exist_ok=True)
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
            out.flush()
            os.fsync(out.fileno())
        part.replace(self.folder / "state.npz")

    def state(self) -> tuple[int, State] | None:
        """Rounds done, and the state after them; None at the beginning. Lines of a half round are cut."""
        if self.folder is None:
            return None
        if not (self.folder / "state.npz").is_file():
            self._cut(0)  # a round that was not saved is not told twice
            return None
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
            raise BadInput(f"{where} cannot be read ({type(error).__name__}); remove it to begin anew.") from None
        self._cut(done)
        return done, State(parts.pop("model"), parts.pop("last") or None, parts, who)

    def _cut(self, done: int) -> None:
        assert self.folder is not None
        path = self.folder / "rounds.jsonl"
        kept = [line for line in read(path) if line["round"] <= done] if path.is_file() else []
        part = path.with_name(".rounds.part")
        part.write_text("".join(json.dumps(line) + "\n" for line in kept))
        part.replace(path)
