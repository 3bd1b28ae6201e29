"""The one driver of all rules: measure the points, let each stage decide, combine."""

from __future__ import annotations

import logging

import numpy as np

from holdfast import combine
from holdfast.choice import Choice, unscaled
from holdfast.contract import Rng, Stage
from holdfast.decision import Decision
from holdfast.errors import BadInput, BrokenRule
from holdfast.kinds import CoordinateRule, DistanceRule, Mixing, OnePass, drawing
from holdfast.mix import measure_for, mix_points, place_start
from holdfast.points import NotFinite, Points
from holdfast.settle import note_of, settled
from holdfast.updates import Distances, Updates

log = logging.getLogger("holdfast")


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
        raise BadInput(
            f"{stage!r} gives back many vectors; follow it by a rule, as in {stage!r} >> Average(), or call its apply."
        )
    with drawing(stage, rng):
        if isinstance(stage, OnePass):
            return stage.one_pass(updates)
        return _decide(stage, updates, rng, start, explain=explain)


def _decide(stage: Stage, updates: Updates, rng: Rng | None, start: object, *, explain: bool) -> Decision:
    """Look at the rows, on the way where the rule reads them all, and run the round."""
    at = place_start(stage, updates, start)
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
    mass = updates.mass(rows)
    weights, seen, choice = np.zeros(updates.n), Distances(np.zeros((0, 0))), Choice(np.zeros(0))
    *before, last = rule.stages()
    outside = points  # as they are for what follows a rule, whatever that rule does to them for itself
    for stage in before:
        match stage:
            case Mixing():
                points, seen, mass = mix_points(stage, points, rng, mass)
                outside = outside if stage.internal else points
            case CoordinateRule():
                points = outside.answered(combine.columns(points.anchored(()), stage, mass))
            case DistanceRule():
                anchored, table = measure_for(stage, points, rng)
                weighed = stage.choose(table.D.copy(), rng, mass, scale=table.scale).weights
                points = outside.answered(combine.weighted_sum(anchored, weighed))
    match last:
        case CoordinateRule():
            points = points.anchored(())
            values = combine.columns(points, last, mass)
            if explain:
                weights[rows] = combine.shares(points, last, mass)[: len(rows)]
        case DistanceRule():
            points, seen = measure_for(last, points, rng)
            choice = last.choose(seen.D.copy(), rng, mass, scale=seen.scale)
            values = combine.weighted_sum(points, choice.weights)
            weights[rows] = points.over_basis(choice.weights)[: len(rows)]
        case _:
            raise BrokenRule(f"{last!r} is no rule that can answer; make it a DistanceRule or a CoordinateRule.")
    dropped, note, choice = updates.dropped(), note_of(rule, asked, updates), choice.unscaled(seen.scale)
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
        distances=unscaled(seen.D, seen.scale, 2) if seen.D.size and len(seen.D) == seen.D.shape[1] else None,
        mixed=points.mix is not None or len(seen.D) != len(rows),
        error=seen.error,
        scale=seen.scale,
        cost=choice.cost,
        bound=choice.bound,
        note=note,
        ball=None if choice.ball is None or points.mix is not None else (int(rows[choice.ball[0]]), choice.ball[1]),
        measure="share" if isinstance(last, CoordinateRule) else "weight",
        masses=updates.masses,
    )
