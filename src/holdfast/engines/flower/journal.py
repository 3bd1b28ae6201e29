"""What an operator reads, a line of JSON a round; and the state from which a killed server goes on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import BadInput
from holdfast.report.nodes import read

Model = dict[str, np.ndarray]


class Journal:
    """A folder with rounds.jsonl and state.npz; without a folder, nothing is kept."""

    def __init__(self, folder: Path | str | None) -> None:
        self.folder = None if folder is None else Path(folder)
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)

    def add(self, line: dict[str, Any]) -> None:
        """One round."""
        if self.folder is None:
            return
        with (self.folder / "rounds.jsonl").open("a") as out:
            out.write(json.dumps(line, allow_nan=False) + "\n")

    def save(self, done: int, model: Model, last: Model | None) -> None:
        """The model after a whole round, in place of the one before, whole or not at all."""
        if self.folder is None:
            return
        entries: dict[str, Any] = {"round": np.array(done), "names": np.array(list(model))}
        entries |= {f"model-{i}": values for i, values in enumerate(model.values())}
        entries |= {f"last-{i}": values for i, values in enumerate((last or {}).values())}
        part = self.folder / ".state.part"
        with part.open("wb") as out:
            np.savez(out, **entries)
            out.flush()
            os.fsync(out.fileno())
        part.replace(self.folder / "state.npz")

    def state(self) -> tuple[int, Model, Model | None] | None:
        """Rounds done, the model and the last aggregate; None at the beginning. Lines of a half round are cut."""
        if self.folder is None:
            return None
        if not (self.folder / "state.npz").is_file():
            self._cut(0)  # a round that was not saved is not told twice
            return None
        try:
            with np.load(self.folder / "state.npz", allow_pickle=False) as held:
                names = [str(name) for name in held["names"]]
                model = {name: held[f"model-{i}"] for i, name in enumerate(names)}
                last = {name: held[f"last-{i}"] for i, name in enumerate(names)} if "last-0" in held.files else None
                done = int(held["round"])
        except Exception as error:
            where = self.folder / "state.npz"
            raise BadInput(f"{where} cannot be read ({type(error).__name__}); remove it to begin anew.") from None
        self._cut(done)
        return done, model, last

    def _cut(self, done: int) -> None:
        assert self.folder is not None
        path = self.folder / "rounds.jsonl"
        kept = [line for line in read(path) if line["round"] <= done] if path.is_file() else []
        part = path.with_name(".rounds.part")
        part.write_text("".join(json.dumps(line) + "\n" for line in kept))
        part.replace(path)
