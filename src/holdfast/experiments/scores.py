"""The folder of a board: its scores, one line for each training; the hostile rounds; rows of one's own."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from holdfast.disk import open_regular, write_text
from holdfast.errors import BadInput
from holdfast.experiments.board import ROWS, VERSION, Job
from holdfast.training.folder import lock

Line = dict[str, Any]
ROWS_FILE, HOSTILE_FILE = "rows.json", f"{VERSION}-hostile.json"


class ScoreFile:
    """The folder of a board: its scores, one line for each training; the hostile rounds; rows of one's own.

    Parameters
    ----------
    folder : path
        Made when the first score is written.

    Examples
    --------
    >>> import tempfile
    >>> from holdfast.experiments.scores import ScoreFile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(len(ScoreFile(folder).read()), "Average" in ScoreFile(folder).rows())
    0 True
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.path = self.folder / f"{VERSION}.jsonl"

    @contextmanager
    def held(self) -> Iterator[None]:
        """The folder for this process alone, so that two do not measure the same."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open_regular(self.folder / "lock", os.O_RDWR | os.O_CREAT) as file:
            lock(file, self.folder)
            yield

    def read(self) -> dict[Job, Line]:
        """Return what was measured, by job. A line that was cut off is left out, and so is measured again."""
        text = self.path.read_bytes().decode(errors="replace") if self.path.exists() else ""
        out: dict[Job, Line] = {}
        for one in text.split("\n"):
            with suppress(ValueError, KeyError, TypeError):
                line = json.loads(one)
                out[Job(**{name.name: line[name.name] for name in fields(Job)})] = line
        return out

    def add(self, line: Line) -> None:
        """Append one line; what a killed process left of a line is ended first."""
        self.folder.mkdir(parents=True, exist_ok=True)
        cut = self.path.exists() and self.path.read_bytes()[-1:] not in (b"", b"\n")
        with self.path.open("a", encoding="utf-8") as file:
            file.write(("\n" if cut else "") + json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")

    def forget_failed(self, scenes: Collection[str], rows: Collection[str]) -> None:
        """Take out the lines of trainings that failed in these scenes and rows, so that they are tried again."""
        lines = self.read()
        kept = [
            line
            for job, line in lines.items()
            if "failed" not in line or job.scene not in scenes or job.row not in rows
        ]
        if len(kept) < len(lines):
            write_text(self.path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept))

    def rows(self) -> dict[str, str]:
        """Return the rows of the board and those that were added here: texts of rules by name."""
        return {**ROWS, **{name: text for name, text in self._own().items() if name not in ROWS}}

    def add_row(self, name: str, text: str) -> None:
        """Add a row of one's own.

        Raises
        ------
        BadInput
            If there is another row of that name.
        """
        rows = self.rows()
        if rows.get(name, text) != text:
            raise BadInput(f"the board has a row {name!r}, which is {rows[name]}; give --name another name.")
        if not name.isprintable():
            raise BadInput(f"the name {name!r} has characters that cannot be printed; give --name another name.")
        self._write(ROWS_FILE, {one: rule for one, rule in {**rows, name: text}.items() if one not in ROWS})

    def hostile(self) -> dict[str, Line]:
        """Return what `hostile_rounds` found, by the text of the rule."""
        return {text: found for text, found in self._read(HOSTILE_FILE).items() if isinstance(found, dict)}

    def add_hostile(self, text: str, found: Line) -> None:
        """Write down what `hostile_rounds` found."""
        self._write(HOSTILE_FILE, {**self.hostile(), text: found})

    def _own(self) -> dict[str, str]:
        return {name: text for name, text in self._read(ROWS_FILE).items() if isinstance(text, str)}

    def _read(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        try:
            given = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        except (ValueError, OSError) as error:
            raise BadInput(f"{path} cannot be read ({error}); repair it, or delete it.") from None
        if not isinstance(given, dict):
            raise BadInput(f"{path} holds {type(given).__name__}, not names with their texts; repair it, or delete it.")
        return given

    def _write(self, name: str, values: Mapping[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(self.folder / name, json.dumps(values, indent=1, ensure_ascii=False) + "\n")
