"""The one driver of all rules: measure the points, let each stage decide, combine."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from holdfast import combine
from holdfast.choice import Choice, checked_weights
from holdfast.contract import Rng, Stage
from holdfast.decision import Decision
from holdfast.errors import BadInput
from holdfast.geometry import distances, remember
from holdfast.kinds import CoordinateRule, DistanceRule, Mixing, OnePass
from holdfast.points import NotFinite, Points
from holdfast.settle import note_of, settled
from holdfast.updates import Distances, Updates

log = logging.getLogger("holdfast")


def call(stage: Stage, updates: Updates, *, rng: Rng | None, start: object, explain: bool) -> Decision:
    """Decide as a user's call does: refuse a start that the rule does not use, and warn if f was lowered."""
    if start is not None and not stage.starts():
        raise BadInput(f"{stage!r} was given a start, which it does not use; leave it out.")
    return announced(decide(stage, updates, rng=rng, start=start, explain=explain))


def announced(decision: Decision) -> Decision:
    """The decision; a warning says that f was lowered."""
    if decision.note:
        log.warning("%r: %s", decision.rule, decision.note)
    return decision


def check_rng(stage: Stage, rng: object) -> None:
    """Refuse what is no generator, and a rule that draws without one."""
    if rng is not None and not isinstance(rng, Rng):
        raise BadInput(f"{stage!r} was given rng = {rng!r}; pass rng=numpy.random.default_rng(seed).")
    if stage.random and rng is None:
        raise BadInput(f"{stage!r} draws at random; pass rng=numpy.random.default_rng(seed).")


def decide(
    stage: Stage, updates: Updates, *, rng: Rng | None = None, start: object = None, explain: bool = True
) -> Decision:
    """Run one round of any rule: the one entry for all code that has updates and wants a decision.

    Parameters
    ----------
    stage : the rule
    updates : what `holdfast.reading.read` made of the workers' updates
        What is learned about them is kept there, so a second rule on the same updates does not measure again.
    rng : numpy.random.Generator, for rules that draw; others ignore it
    start : an update, for rules that start somewhere; others ignore it
    explain : whether a rule on single coordinates also counts whom it used, for which it sorts again

    Returns
    -------
    Decision

    Raises
    ------
    TooManyFaults
        If more updates were dropped than the rule tolerates.
    BadInput
        If the stage gives no single answer, needs an rng that is missing, or has too few updates.
    BrokenRule
        If the rule breaks its contract.
    """
    if not stage.answers:
        raise BadInput(f"{stage!r} gives back many vectors; follow it by a rule, as in {stage!r} >> Average().")
    check_rng(stage, rng)
    if isinstance(stage, OnePass):
        return stage.one_pass(updates)
    at = updates.place(start, f"{stage!r} was given a start") if start is not None and stage.starts() else None
    if updates.known is None and _reads_all(stage, updates):  # it looks on the way
        rows = updates.sound()
        try:
            decision = _round(stage, Points.rows(updates, rows, at, unseen=True), rng, explain=explain)
        except NotFinite:
            log.debug("%r looks again: some row is not finite, or nearly so", stage)
        else:
            updates.known = np.zeros(updates.n, bool)
            updates.known[rows] = True
            return decision
    updates.look()
    return _round(stage, Points.rows(updates, updates.sound(), at), rng, explain=explain)


def apply(stage: Stage, updates: Updates, *, rng: Rng | None = None, start: object = None) -> list[Any]:
    """The updates that a stage without an answer makes of these."""
    if stage.answers:
        raise BadInput(f"{stage!r} answers with one vector; call it instead of apply.")
    check_rng(stage, rng)
    at = updates.place(start, f"{stage!r} was given a start") if start is not None and stage.starts() else None
    updates.look()
    points = Points.rows(updates, updates.sound(), at)
    for part in settled(stage, updates).stages():
        if isinstance(part, Mixing):
            points, _, _ = mix_points(part, points, rng)
    points = points.anchored(())
    return [updates.answer(combine.weighted_sum(points, weights)) for weights in np.eye(points.k)]


def _reads_all(stage: Stage, updates: Updates) -> bool:
    """Whether its first look at the rows is at all their numbers, and there are enough rows for it."""
    rows = updates.sound()
    if len(stage.stages()) > 1 or len(rows) < stage.least():
        return False
    if isinstance(stage, CoordinateRule):
        return True
    measured = len(updates.distant) == len(updates.floats)
    return measured and not stage.anchors and not stage.random and stage.centres(rows, None) is None


def _round(asked: Stage, points: Points, rng: Rng | None, *, explain: bool) -> Decision:
    """Settle f, mix the points stage by stage, let the last stage answer."""
    updates, rows = points.source, points.names()
    rule = settled(asked, updates)
    mass = None if updates.mass is None else updates.mass[rows]
    weights, seen, choice = np.zeros(updates.n), Distances(np.zeros((0, 0))), Choice(np.zeros(0))
    *before, last = rule.stages()
    for stage in before:
        match stage:
            case Mixing():
                points, seen, mass = mix_points(stage, points, rng, mass)
            case CoordinateRule():
                points = points.answered(combine.columns(points.anchored(()), stage, mass))
    match last:
        case CoordinateRule():
            points = points.anchored(())
            values = combine.columns(points, last, mass)
            if explain:
                weights[rows] = combine.shares(points, last)[: len(rows)]
        case DistanceRule():
            points, seen = _measured(last, points, rng)
            choice = last.choose(seen.D.copy(), rng, mass, scale=seen.scale)
            values = combine.weighted_sum(points, choice.weights)
            weights[rows] = points.over_basis(choice.weights)[: len(rows)]
        case _:
            raise BadInput(f"{last!r} is no rule that can answer; take a DistanceRule or a CoordinateRule.")
    dropped, note = updates.dropped(), note_of(rule, asked, updates)
    if dropped:
        log.info("%r dropped %s", asked, "; ".join(f"{i}: {why}" for i, why in dropped.items()))
    if note:
        log.info("%r: %s", rule, note)
    return Decision(
        rule=rule,
        asked=asked,
        n=updates.n,
        value=updates.answer(values),
        weights=weights,
        dropped=dropped,
        rows=rows,
        distances=_unscaled(seen.D, seen.scale, 2) if seen.D.size and len(seen.D) == seen.D.shape[1] else None,
        mixed=points.mix is not None or len(seen.D) != len(rows),
        error=seen.error,
        scale=seen.scale,
        cost=_length(choice.cost, seen.scale, choice.power),
        bound=_length(choice.bound, seen.scale, choice.power),
        note=note,
        ball=_ball(choice, points, seen.scale),
        measure="share" if isinstance(last, CoordinateRule) else "weight",
    )


def _measured(stage: Stage, points: Points, rng: Rng | None) -> tuple[Points, Distances]:
    """The points with the stage's anchors behind them, and the distances that it asks for."""
    points = points.anchored(stage.anchors)
    f = stage.tolerance()
    core = None if f is None else points.k - f  # any k - f rows hold an honest one
    return points, distances(points, stage.centres(points.names(), rng), wide=stage.precise, core=core)


def mix_points(
    stage: Mixing, points: Points, rng: Rng | None, mass: np.ndarray | None = None
) -> tuple[Points, Distances, np.ndarray | None]:
    """The points that a stage makes of these, the distances that it saw, and the new masses."""
    seen_from, seen = _measured(stage, points, rng)
    scaled = stage.scaled(seen.scale)
    D = seen.D.copy()
    M, mass = (scaled.mix(D, rng), None) if mass is None else scaled.mix_by_mass(D, mass, rng)
    M = checked_weights(stage, M, (stage.size(points.k), len(seen_from)))
    if len(M) == points.k and np.array_equal(M, np.eye(*M.shape)):  # not the first rows alone
        return points, seen, mass
    made, after = seen_from.mixed(M), scaled.distances_after(seen.D, M)
    centres = stage.centres(made.names(), rng) if after is not None else None
    if after is not None and centres is not None:
        table = Distances(after, seen.scale, seen.error)
        remember(made.anchored(stage.anchors), centres, table, wide=stage.precise, core=stage.tolerance())
    return made, seen, mass


def _ball(choice: Choice, points: Points, scale: float) -> tuple[int, float] | None:
    """The cluster's ball with a worker's name, while points are workers."""
    if choice.ball is None or points.mix is not None:
        return None
    return int(points.names()[choice.ball[0]]), _length(choice.ball[1], scale, 1) or 0.0


def _length(cost: float | None, scale: float, power: int) -> float | None:
    return None if cost is None else float(_unscaled(np.float64(cost), scale, power))


def _unscaled(measured: np.ndarray | np.float64, scale: float, power: int) -> np.ndarray:
    """Back into the units of the vectors; what has no room there becomes inf or 0."""
    if scale == 1.0:
        return np.array(measured)
    with np.errstate(over="ignore", under="ignore"):
        for _ in range(power):
            measured = np.float64(1) * measured / scale
    return np.asarray(measured)
