"""The one driver of all rules: measure the points, let each stage decide, combine."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from holdfast.errors import BadInput, listing
from holdfast.geometry import distances
from holdfast.points import Points
from holdfast.rules.decision import Choice, Decision
from holdfast.structure import differs, flatten
from holdfast.updates import Measured, Updates, read

Rng = np.random.Generator
log = logging.getLogger("holdfast")


def run(rule: Any, X: Any, rng: Rng | None, start: Any, like: Any, measure: Measured | None, explain: bool) -> Decision:
    """Measure, decide, combine: the driver of every rule."""
    if not rule.answers:
        raise BadInput(f"{rule!r} gives back many vectors; follow it by a rule, as in {rule!r} >> Average().")
    if rule.random and rng is None:
        raise BadInput(f"{rule!r} draws at random; pass rng=numpy.random.default_rng(seed).")
    given = read(X, repr(rule), like, measure)
    sound = given.finite()
    rows = np.flatnonzero(sound)
    dropped = {i: given.malformed.get(i, "not finite") for i in map(int, np.flatnonzero(~sound))}
    asked, rule = rule, _settle(rule, len(rows), dropped)
    points = Points.rows(given, rows, _place(start, given, rule))
    choice, seen, D, scale, measured = Choice(np.zeros(0)), None, np.zeros((0, 0)), 1.0, None
    for stage in rule.stages():
        if hasattr(stage, "columns"):
            return _column_decision(stage, rule, asked, points.anchored(()), dropped, rows, seen, explain)
        points = points.anchored(stage.anchors)
        centres = stage.centres(points.k, rng)
        needed = (stage.anchors, None if centres is None else tuple(centres), stage.precise)
        if needed != measured:
            D, scale = distances(points, centres, stage.precise)
        if hasattr(stage, "choose"):
            choice = stage.scaled(scale).choose(D, rng)
            seen = D / scale / scale if D.shape == (points.k, points.k) else seen
            break
        M = stage.scaled(scale).mix(D, rng)
        measured = needed if np.array_equal(M, np.eye(*M.shape)) else None
        if measured is None:
            points = points.mixed(M)
    weights = np.zeros(given.n)
    over_basis = choice.weights @ points.matrix() if points.mix is not None or points.anchors else choice.weights
    weights[rows] = over_basis[: len(rows)]
    cost, bound = (None if c is None else float(c / scale**choice.power) for c in (choice.cost, choice.bound))
    value = given.answer(points.combine(choice.weights))
    note = _note(rule, asked, dropped, rows)
    return Decision(rule, asked, given.n, value, weights, dropped, rows, seen, cost, bound, note)


def _column_decision(
    stage: Any,
    rule: Any,
    asked: Any,
    points: Points,
    dropped: dict[int, str],
    rows: np.ndarray,
    seen: np.ndarray | None,
    explain: bool,
) -> Decision:
    value = points.source.answer(points.columns(stage.columns))
    weights = np.zeros(points.source.n)
    if explain:
        weights[rows] = points.shares(stage.used)[: len(rows)]
    return Decision(
        rule, asked, points.source.n, value, weights, dropped, rows, seen, note=_note(rule, asked, dropped, rows)
    )


def _settle(rule: Any, present: int, dropped: dict[int, str]) -> Any:
    """The rule itself while enough vectors are left; else with f lowered by as little as it takes."""
    for by in range(len(dropped) + 1):
        settled = rule.lowered(by)
        if present >= settled.least():
            return settled
    least, f = rule.least(), getattr(rule, "f", None)
    lost = (
        f" ({len(dropped)} more were dropped: {listing(f'{i} is {why}' for i, why in dropped.items())})"
        if dropped
        else ""
    )
    most = max((k for k in range(f or 0) if rule.lowered((f or 0) - k).least() <= present), default=None)
    tolerate = f", which tolerate at most f = {most}; lower f or gather" if most is not None else "; gather"
    raise BadInput(f"{rule!r} was given n = {present} vectors{lost}{tolerate} at least {least} vectors.")


def _note(rule: Any, asked: Any, dropped: dict[int, str], rows: np.ndarray) -> str:
    """What is worth a line in the log and in the decision's table."""
    if dropped:
        log.info("%r dropped %s", asked, "; ".join(f"{i}: {why}" for i, why in dropped.items()))
    if rule == asked:
        return ""
    note = (
        f"f was lowered from {asked!r}: {len(dropped)} dropped vectors left {len(rows)}, and {asked.least()} are needed"
    )
    log.warning("%r: %s", rule, note)
    return note


def _place(start: Any, given: Updates, rule: Any) -> int | None:
    """Put the start behind the workers' rows and say where; None where there is none."""
    if start is None:
        return None
    if not any("start" in stage.anchors for stage in rule.stages()):
        raise BadInput(f"{rule!r} was given a start, which it does not use; leave it away.")
    flat = flatten(start)
    wanted = [(leaf.name, np.empty(leaf.shape), None) for leaf in given.leaves]
    why = flat if isinstance(flat, str) else differs(flat, wanted)
    if why or isinstance(flat, str):
        raise BadInput(f"{rule!r} was given a start that differs from the updates: {why}.")
    values = [np.asarray(a.reshape(-1), leaf.computed) for (_, a, _), leaf in zip(flat, given.leaves, strict=True)]
    if not all(np.isfinite(value).all() for value in values):
        raise BadInput(f"{rule!r} was given a start that is not finite; start from a finite vector.")
    return given.append(values)
