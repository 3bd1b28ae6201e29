"""The distances that a stage asks for, and the points that a mixing stage makes of others."""

from __future__ import annotations

import numpy as np

from holdfast.choice import checked_weights
from holdfast.contract import Rng, Stage
from holdfast.geometry import distances, remember
from holdfast.kinds import Mixing
from holdfast.points import Points
from holdfast.updates import Distances, Updates


def place_start(stage: Stage, updates: Updates, start: object) -> int | None:
    """The row number of a start, behind the workers' rows; None if there is none, or the stage uses none."""
    if start is None or not stage.starts():
        return None
    return updates.place(start, f"{stage!r} was given a start")


def measure_for(stage: Stage, points: Points, rng: Rng | None) -> tuple[Points, Distances]:
    """The points with the stage's anchors behind them, and the distances that it asks for."""
    points = points.anchored(stage.anchors)
    f = stage.tolerance()
    core = None if f is None else points.k - f  # any k - f rows hold an honest one
    return points, distances(points, stage.centres(points.names(), rng), wide=stage.precise, core=core)


def mix_points(
    stage: Mixing, points: Points, rng: Rng | None, mass: np.ndarray | None = None
) -> tuple[Points, Distances, np.ndarray | None]:
    """The points that a stage makes of these, the distances that it saw, and the new masses."""
    seen_from, seen = measure_for(stage, points, rng)
    scaled = stage.scaled(seen.scale)
    D = seen.D.copy()
    M, mass = (scaled.mix(D, rng), None) if mass is None else scaled.mix_by_mass(D, mass, rng)
    M = checked_weights(stage, M, (stage.size(points.k), len(seen_from)))
    if len(M) == points.k and np.array_equal(M, np.eye(*M.shape)):  # not the first rows alone
        return points, seen, mass
    made, after = seen_from.mixed(M, own=stage.internal), scaled.distances_after(seen.D, M)
    centres = stage.centres(made.names(), rng) if after is not None else None
    if after is not None and centres is not None:
        table = Distances(after, seen.scale, seen.error)
        remember(made.anchored(stage.anchors), centres, table, wide=stage.precise, core=stage.tolerance())
    return made, seen, mass
