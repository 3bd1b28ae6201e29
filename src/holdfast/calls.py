"""What a user's call of a rule or stage does."""

from __future__ import annotations

import numpy as np

from holdfast import combine
from holdfast.contract import Rng, Stage
from holdfast.decision import Decision, announced
from holdfast.driver import decide
from holdfast.errors import BadInput
from holdfast.kinds import Mixing, drawing
from holdfast.mix import mix_points, place_start
from holdfast.points import Points
from holdfast.settle import settled
from holdfast.updates import Updates


def call(stage: Stage, updates: Updates, *, rng: Rng | None, start: object, explain: bool) -> Decision:
    """Decide as a user's call does: refuse a start that the rule does not use, and warn if f was lowered."""
    if start is not None and not stage.starts():
        raise BadInput(f"{stage!r} was given a start, which it does not use; leave it out.")
    return announced(decide(stage, updates, rng=rng, start=start, explain=explain))


def apply(stage: Stage, updates: Updates, *, rng: Rng | None = None, start: object = None) -> list[object]:
    """The updates that a stage without an answer makes of these."""
    if stage.answers:
        raise BadInput(f"{stage!r} answers with one vector; call it instead of apply.")
    with drawing(stage, rng):
        at = place_start(stage, updates, start)
        updates.look()
        points = Points.rows(updates, updates.sound(), at)
        for part in settled(stage, updates).stages():
            if isinstance(part, Mixing):
                points, _, _ = mix_points(part, points, rng)
    points = points.anchored(())
    return [updates.answer(combine.weighted_sum(points, weights)) for weights in np.eye(points.k)]
