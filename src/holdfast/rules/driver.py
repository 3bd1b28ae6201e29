"""The one driver of all rules: measure the points, let each stage decide, combine."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from holdfast.errors import BadInput, listing, plural
from holdfast.geometry import Distances, distances
from holdfast.libraries import numbers
from holdfast.points import NotFinite, Points
from holdfast.rules.decision import Choice, Decision
from holdfast.structure import differs, flatten
from holdfast.updates import Measured, Updates, read

Rng = np.random.Generator
log = logging.getLogger("holdfast")
_TOLD: set[tuple[Any, Any]] = set()
Words = dict[str, Any]
Memo = dict[Any, Distances]
"""Distances of rows as they came, by which rows and what was asked."""


def run(rule: Any, X: Any, rng: Rng | None, start: Any, like: Any, measure: Measured | None, explain: bool) -> Decision:
    """Measure, decide, combine: the driver of every rule."""
    check(rule, rng)
    given = read(X, repr(rule), like, measure)
    return decided(rule, given, rng, start, explain, Memo())


def check(rule: Any, rng: Rng | None) -> None:
    """Refuse a rule that does not answer, or draws without a generator."""
    if not rule.answers:
        raise BadInput(f"{rule!r} gives back many vectors; follow it by a rule, as in {rule!r} >> Average().")
    if (rule.random and rng is None) or not isinstance(rng, Rng | None):
        raise BadInput(f"{rule!r} draws at random; pass rng=numpy.random.default_rng(seed).")


def both(
    rules: tuple[Any, Any], X: Any, words: tuple[dict[str, Any], dict[str, Any]], like: Any, measure: Any
) -> list[Decision]:
    """Two rules' decisions on the same updates, which are read and measured once."""
    for rule, said in zip(rules, words, strict=True):
        check(rule, said.get("rng"))
    given, memo = read(X, repr(rules[0]), like, measure), Memo()
    return [
        decided(rule, given, said.get("rng"), said.get("start"), True, memo)
        for rule, said in zip(rules, words, strict=True)
    ]


def decided(rule: Any, given: Updates, rng: Rng | None, start: Any, explain: bool, memo: Memo) -> Decision:
    """The same for updates that were read; `memo` holds distances that were measured for others."""
    place = None if start is None else _place(start, given, rule)
    if given.seen is None and _reads_all(rule, given):  # let it look on the way
        try:
            found = _round(rule, given, given.formed(), place, rng, explain, memo, look=True)
        except NotFinite:
            log.debug("%r looks again: some row is not finite, or nearly so", rule)
        else:
            given.seen = given.formed()
            return found
    return _round(rule, given, given.finite(), place, rng, explain, memo)


def _reads_all(rule: Any, given: Updates) -> bool:
    """Whether its first look at the rows is at all their numbers, and there are enough rows for it."""
    rows = np.flatnonzero(given.formed())
    if len(rule.stages()) > 1 or len(rows) < rule.least():
        return False
    if hasattr(rule, "columns"):
        return True
    measured = all(leaf.measured for leaf in given.floats)
    return measured and not rule.anchors and not rule.random and rule.centres(rows, None) is None


def _round(
    asked: Any,
    given: Updates,
    sound: np.ndarray,
    start: int | None,
    rng: Rng | None,
    explain: bool,
    memo: Memo,
    look: bool = False,
) -> Decision:
    rows = np.flatnonzero(sound)
    dropped = {i: given.malformed.get(i, "not finite") for i in map(int, np.flatnonzero(~sound))}
    rule = settled(asked, len(rows), dropped)
    points, (D, scale, error) = _mixed(rule, Points.rows(given, rows, start), rng, memo, look)
    last = rule.stages()[-1]
    weights = np.zeros(given.n)
    choice = Choice(weights)
    if hasattr(last, "columns"):
        values = points.columns(last.columns, look)
        if explain:
            weights[rows] = points.shares(last.used)[: len(rows)]
    else:
        choice = last.scaled(scale).choose(D, rng)
        values = points.combine(choice.weights)
        weights[rows] = points.over_basis(choice.weights)[: len(rows)]
    cost, bound = (_unscaled(c, scale, choice.power) for c in (choice.cost, choice.bound))
    return Decision(
        rule=rule,
        asked=asked,
        n=given.n,
        value=given.answer(values),
        weights=weights,
        dropped=dropped,
        rows=rows,
        distances=_unscaled(D, scale, 2) if D.size and len(D) == D.shape[1] else None,
        mixed=points.mix is not None or len(D) != len(rows),
        error=error,
        scale=scale,
        cost=None if cost is None else float(cost),
        bound=None if bound is None else float(bound),
        note=told(rule, asked, dropped, rows),
        ball=_ball(choice, points, scale),
    )


def _ball(choice: Choice, points: Points, scale: float) -> tuple[int, float] | None:
    """The cluster's ball with a worker's name, while points are workers."""
    if choice.ball is None or points.mix is not None:
        return None
    return int(points.names()[choice.ball[0]]), float(_unscaled(choice.ball[1], scale, 1))


def _unscaled(measured: Any, scale: float, power: int) -> Any:
    """Back into the units of the vectors; what has no room there becomes inf or 0."""
    if measured is None or scale == 1.0:
        return measured
    with np.errstate(over="ignore", under="ignore"):
        for _ in range(power):
            measured = np.float64(1) * measured / scale
    return measured


def _mixed(rule: Any, points: Points, rng: Rng | None, memo: Memo, look: bool) -> tuple[Points, Distances]:
    """The points that reach the last stage, and their distances as it asks for them."""
    seen, measured = Distances(np.zeros((0, 0))), None
    for stage in rule.stages():
        if hasattr(stage, "columns"):
            if stage is rule.stages()[-1]:
                return points.anchored(()), seen
            points = points.answered(points.anchored(()).columns(stage.columns))
            continue
        points = points.anchored(stage.anchors)
        centres = stage.centres(points.names(), rng)
        core = points.k - stage.f if hasattr(stage, "f") else None  # so many rows always hold an honest one
        needed = (stage.anchors, None if centres is None else tuple(centres), stage.precise, core)
        if needed != measured:
            name = None if points.mix is not None or stage.anchors else (needed, points.names().tobytes())
            seen = memo.get(name) or distances(points, centres, stage.precise, core, look)
            if name is not None:
                memo[name] = seen
        if hasattr(stage, "choose"):
            break
        M = stage.scaled(seen.scale).mix(seen.D, rng)
        same = len(M) == points.k and np.array_equal(M, np.eye(*M.shape))  # not the first rows alone
        measured = needed if same else None
        if measured is None:
            points = points.mixed(M)
    return points, seen


def settled(rule: Any, present: int, dropped: dict[int, str]) -> Any:
    """The rule itself while enough vectors are left; else with f lowered by as little as it takes."""
    for by in range(len(dropped) + 1):
        settled = rule.lowered(by)
        if present >= settled.least():
            return settled
    least, f = rule.least(), getattr(rule, "f", None)
    lost = f" ({len(dropped)} more {_were(len(dropped))} dropped: " if dropped else ""
    lost += listing(f"{i} is {why}" for i, why in dropped.items()) + ")" if dropped else ""
    most = max((k for k in range(min(f or 0, present)) if rule.lowered((f or 0) - k).least() <= present), default=None)
    tolerate = f", which tolerate at most f = {most}; lower f or gather" if most is not None else "; gather"
    raise BadInput(
        f"{rule!r} was given n = {present} {plural(present, 'vector')}{lost}{tolerate} "
        f"at least {least} {plural(least, 'vector')}."
    )


def _were(n: int) -> str:
    return "was" if n == 1 else "were"


def told(rule: Any, asked: Any, dropped: dict[int, str], rows: np.ndarray) -> str:
    """What is worth a line in the log and in the decision's table."""
    if dropped:
        log.info("%r dropped %s", asked, "; ".join(f"{i}: {why}" for i, why in dropped.items()))
    if rule == asked:
        return ""
    note = f"f was lowered from {asked!r}: {len(rows)} {plural(len(rows), 'vector')} remained after dropping "
    note += f"{len(dropped)}, and {asked.least()} are needed"
    level = logging.INFO if (rule, asked) in _TOLD else logging.WARNING  # aloud once, not in every round
    _TOLD.add((rule, asked))
    log.log(level, "%r: %s", rule, note)
    return note


def _place(start: Any, given: Updates, rule: Any) -> int:
    """Put the start behind the workers' rows and say where."""
    if not any("start" in stage.anchors for stage in rule.stages()):
        raise BadInput(f"{rule!r} was given a start, which it does not use; leave it out.")
    return placed(start, given, f"{rule!r} was given a start")


def placed(vector: Any, given: Updates, who: str) -> int:
    """Put a vector of our own behind the workers' rows and say where."""
    flat = flatten(vector)
    wanted = [(leaf.name, np.empty(leaf.shape), None) for leaf in given.leaves]
    why = flat if isinstance(flat, str) else differs(flat, wanted)
    if why or isinstance(flat, str):
        raise BadInput(f"{who} that differs from the updates: {why}.")
    values = [numbers(a.reshape(-1), leaf.computed) for (_, a, _), leaf in zip(flat, given.leaves, strict=True)]
    if not all(np.isfinite(value).all() for value in values):
        raise BadInput(f"{who} that is not finite; give a finite vector.")
    return given.append(values)
