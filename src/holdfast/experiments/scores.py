"""The scores of a board: a file with one line for each training, and what is left to train."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path
from typing import Any

from holdfast.disk import write_text
from holdfast.errors import BadInput
from holdfast.experiments.board import (
    ROWS,
    VERSION,
    Job,
    Reader,
    Scene,
    jobs_of,
    read_catalogue,
    rows_in,
    rule_of,
    run_of,
)
from holdfast.experiments.hostile import BYZANTINE, hostile_rounds
from holdfast.experiments.pool import News, carried_out
from holdfast.experiments.store import key
from holdfast.jsonable import finite_or_none
from holdfast.spec import unknown
from holdfast.training.remarks import is_skipped

Line = dict[str, Any]
MEASURED = ("honest", "pooled", "accuracy", "validation")
ROWS_FILE, HOSTILE_FILE = "rows.json", f"{VERSION}-hostile.json"


@dataclass(frozen=True)
class Step:
    """What a training brought, and how many are known to be left in its stage."""

    job: Job
    line: Line
    left: int


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

    def read(self) -> dict[Job, Line]:
        """Return what was measured, by job. A line that was cut off is left out, and so is measured again."""
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        out: dict[Job, Line] = {}
        for text in lines:
            with suppress(ValueError, KeyError, TypeError):
                line = json.loads(text)
                out[Job(**{one.name: line[one.name] for one in fields(Job)})] = line
        return out

    def add(self, line: Line) -> None:
        """Append one line; what a killed process left of a line is ended first."""
        self.folder.mkdir(parents=True, exist_ok=True)
        cut = self.path.exists() and self.path.read_bytes()[-1:] not in (b"", b"\n")
        with self.path.open("a", encoding="utf-8") as file:
            file.write(("\n" if cut else "") + json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")

    def forget_failed(self) -> None:
        """Take out the lines of trainings that failed, so that they are tried again."""
        kept = [line for line in self.read().values() if "failed" not in line]
        write_text(self.path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept))

    def rows(self) -> dict[str, str]:
        """Return the rows of the board and those that were added here: texts of rules by name."""
        return {**ROWS, **self._read(ROWS_FILE)}

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
        self._write(ROWS_FILE, {one: rule for one, rule in {**rows, name: text}.items() if ROWS.get(one) != rule})

    def hostile(self) -> dict[str, Line]:
        """Return what `hostile_rounds` found, by the text of the rule."""
        return self._read(HOSTILE_FILE)

    def add_hostile(self, text: str, found: Line) -> None:
        """Write down what `hostile_rounds` found."""
        self._write(HOSTILE_FILE, {**self.hostile(), text: found})

    def _read(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}

    def _write(self, name: str, values: Mapping[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(self.folder / name, json.dumps(values, indent=1, ensure_ascii=False) + "\n")


def select(given: Mapping[str, Any], names: list[str] | None, kind: str) -> dict[str, Any]:
    """Return the entries that were named; all of them, if none was."""
    for name in names or []:
        if name not in given:
            raise BadInput(unknown(name, list(given), f"{kind} of the board"))
    return {name: one for name, one in given.items() if not names or name in names}


def meet_hostile(
    scores: ScoreFile, rows: Mapping[str, str], read: Reader = read_catalogue
) -> Generator[tuple[str, Line]]:
    """Let every row meet the hostile rounds, if it has not, and write down what was found."""
    for name, text in rows.items():
        if text not in scores.hostile():
            found = hostile_rounds(rule_of(text, BYZANTINE, read))
            scores.add_hostile(text, found)
            yield name, found


def carry_out(
    scores: ScoreFile,
    rows: Mapping[str, str],
    scenes: Mapping[str, Scene],
    *,
    processes: int | None = None,
    data: Path | None = None,
    read: Reader = read_catalogue,
) -> Generator[Step]:
    """Train what is missing, scene by scene and stage by stage, and write every score down at once."""
    for name, scene in scenes.items():
        rules, done = dict(rows_in(rows, scene, read)), scores.read()
        while todo := [
            job for row, rule in rules.items() for job in jobs_of(name, row, rule, done)[1] if job not in done
        ]:
            runs = {job: run_of(job, rules[job.row], scenes) for job in todo}
            certified = {job for job in todo if job.stage == "attack"}
            jobs = {job: (run, None) for job, run in runs.items()}
            for news in carried_out(jobs, processes, data, certify=certified):
                if news.what not in ("done", "failed"):
                    continue
                job: Job = news.key
                line = job.record() | {"key": key(runs[job]), **measured(news, certified=job in certified)}
                scores.add(line)
                done[job] = line
                yield Step(job, line, len(todo := [one for one in todo if one not in done]))


def measured(news: News, *, certified: bool) -> Line:
    """What a line has of a training: accuracies, the processor time of a round in ms, and the largest certificate.

    `kappa` is null if nothing is certain about the aggregate of some round.
    """
    if news.result is None:
        return {"failed": news.why}
    final = news.result.final
    line: Line = {what: _rounded(final.get(what)) for what in MEASURED}
    line |= {"skipped": news.result.skipped, "ms": None if news.cost is None else round(1000 * news.cost, 3)}
    if certified:
        seen = [inf if one.get("kappa") is None else one["kappa"] for one in news.result.lines if not is_skipped(one)]
        line["kappa"] = _rounded(max(seen, default=inf))
    return line


def _rounded(given: Any) -> float | None:
    number = None if given is None else finite_or_none(float(given))
    return None if number is None else round(number, 4)
