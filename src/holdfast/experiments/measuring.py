"""What a board lacks is measured: every row meets the hostile rounds, then its trainings run, stage by stage."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from holdfast.definitions import is_ours
from holdfast.errors import BadInput, BrokenRule
from holdfast.experiments.board import (
    Job,
    Reader,
    Scene,
    Scores,
    plan_of,
    read_catalogue,
    rows_in,
    rule_of,
    run_of,
)
from holdfast.experiments.hostile import BYZANTINE, hostile_rounds, no_rounds
from holdfast.experiments.pool import News, answered, carried_out
from holdfast.experiments.scores import Line, ScoreFile
from holdfast.experiments.store import key
from holdfast.jsonable import finite_or_none
from holdfast.spec import unknown
from holdfast.training import Run
from holdfast.training.remarks import is_skipped
from holdfast.twophase import TwoPhase

MEASURED = ("honest", "pooled", "accuracy", "validation")
PATIENCE = 600.0  # seconds for the hostile rounds of a rule of one's own
MARK_LETTERS = 8


@dataclass(frozen=True)
class Step:
    """What a training brought, and how many are known to be left in its stage."""

    job: Job
    line: Line
    left: int


def select(given: Mapping[str, Any], names: list[str] | None, kind: str) -> dict[str, Any]:
    """Return the entries that were named; all of them, if none was."""
    for name in names or []:
        if name not in given:
            raise BadInput(unknown(name, list(given), f"{kind} of the board"))
    return {name: one for name, one in given.items() if not names or name in names}


def line_key(run: Run) -> str:
    """What a line claims to measure: the record's key, and the code of rules of one's own."""
    mark = own_code(run.rule)
    return key(run) + (f"-{mark}" if mark else "")


def own_code(rule: Any) -> str:
    """A hash of the files in which a rule's classes are written, if they are not ours; empty if all are."""
    rules = (rule.inner, rule.outer) if isinstance(rule, TwoPhase) else (rule,)
    classes = {type(stage) for one in rules for stage in one.stages() if not is_ours(type(stage))}
    sources = sorted(filter(None, map(inspect.getsourcefile, classes)))
    if not sources:
        return ""
    return hashlib.sha256(b"".join(Path(source).read_bytes() for source in sources)).hexdigest()[:MARK_LETTERS]


def current(scores: Scores, name: str, scene: Scene, rules: Mapping[str, Any]) -> dict[Job, Mapping[str, Any]]:
    """The lines of these rows in a scene that were measured with these very records and this very code."""
    scenes = {name: scene}
    mine = {job: line for job, line in scores.items() if job.scene == name and job.row in rules}
    return {job: line for job, line in mine.items() if line.get("key") == _claimed(job, rules[job.row], scenes)}


def _claimed(job: Job, rule: Any, scenes: Mapping[str, Scene]) -> str | None:
    """What the line of a job says, if the job exists on this board."""
    try:
        return line_key(run_of(job, rule, scenes))
    except (BadInput, KeyError):
        return None


def meet_hostile(
    scores: ScoreFile, rows: Mapping[str, str], read: Reader = read_catalogue
) -> Generator[tuple[str, Line]]:
    """Let every row meet the hostile rounds, if it has not, and write down what was found.

    A rule of one's own meets them in a process of its own, so that it cannot end or hang the board.
    """
    for name, text in rows.items():
        rule = rule_of(text, BYZANTINE, read)
        code = own_code(rule)
        if (known := scores.hostile().get(text)) is not None and known.get("code", "") == code:
            continue
        try:
            found = answered(hostile_rounds, rule, PATIENCE) if code else hostile_rounds(rule)
        except BrokenRule as broken:
            found = no_rounds(str(broken))
        scores.add_hostile(text, found | ({"code": code} if code else {}))
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
        rules = dict(rows_in(rows, scene, read))
        done = current(scores.read(), name, scene, rules)
        while todo := [
            job for row, rule in rules.items() for job in plan_of(name, row, rule, done).jobs() if job not in done
        ]:
            runs = {job: run_of(job, rules[job.row], scenes) for job in todo}
            certified = {job for job in todo if job.stage == "attack"}
            jobs = {job: (run, None) for job, run in runs.items()}
            for news in carried_out(jobs, processes, data, certify=certified):
                if news.what not in ("done", "failed"):
                    continue
                job: Job = news.key
                line = job.record() | {"key": line_key(runs[job]), **measured(news, certified=job in certified)}
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
