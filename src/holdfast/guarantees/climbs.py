"""Climbs from one round to worse ones: by moves of single points, and by an evolution strategy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import inf
from typing import Any, NamedTuple

import numpy as np

from holdfast.guarantees.moves import moved, shortened, size_of

Array = np.ndarray
Rng = np.random.Generator
Cost = Callable[[Array], float]
SMALL_CHANGE = 1e-9  # of a ratio: an evolution strategy ends


class Measured(NamedTuple):
    """A round and its ratio."""

    value: float
    X: Array


def climb_by_moves(cost: Cost, start: Measured, share: int, rng: Rng) -> tuple[Measured, int]:
    """Try random moves one after the other, and keep each that does not lower the ratio.

    Parameters
    ----------
    cost : callable
        Round -> its ratio.
    start : Measured
        Where the climb starts.
    share : int
        How many rounds to try, at least 1.
    rng : numpy.random.Generator
        Draws the moves.

    Returns
    -------
    Measured
        The worst round of the climb.
    int
        How many rounds were tried.
    """
    best, tried = start, 0
    while tried < share and best.value < inf:
        X = moved(best.X, rng)
        value, tried = cost(X), tried + 1
        if value >= best.value:  # also if it is equal: the next move may need another round of the same ratio
            best = Measured(value, X)
    return best, tried


def climb_by_evolution(
    cost: Cost, start: Measured, share: int, rng: Rng, *, step: float, merge: float
) -> tuple[Measured, int]:
    """Climb by CMA-ES, an evolution strategy that learns in which directions a ratio grows.

    Parameters
    ----------
    cost : callable
        Round -> its ratio.
    start : Measured
        Where the climb starts.
    share : int
        How many rounds to try; the last generation may exceed it.
    rng : numpy.random.Generator
        Draws all candidates. numpy's global generator is left alone.
    step : float
        How far the first candidates are, in sizes of the round.
    merge : float
        Points nearer than this to each other, in sizes of the round, move as one. This makes the problem smaller.

    Returns
    -------
    Measured
        The worst round of the climb.
    int
        How many rounds were tried.
    """
    places, at = merged(start.X, merge * size_of(start.X))
    if places.size < 2 or not has_cma():
        return climb_by_moves(cost, start, share, rng)
    strategy = _strategy(places, step * size_of(start.X), share, rng)
    best, tried = start, 0
    while tried < share and best.value < inf and not strategy.stop():
        candidates = strategy.ask()
        rounds = [shortened(np.asarray(x).reshape(places.shape)[at]) for x in candidates]
        values = [cost(X) for X in rounds]
        tried += len(values)
        top = int(np.argmax(values))
        if values[top] > best.value:
            best = Measured(values[top], rounds[top])
        if best.value < inf:
            strategy.tell(candidates, [-value for value in values])
    return best, tried


def merged(X: Array, near: float) -> tuple[Array, Array]:
    """The places of a round and, for each point, which one it is at; a point joins the first place that is near."""
    first: list[int] = []
    at = []
    for i, x in enumerate(X):
        close = [k for k, j in enumerate(first) if np.abs(x - X[j]).max() <= near]
        at.append(close[0] if close else len(first))
        first += [] if close else [i]
    return X[first], np.array(at)


@cache
def has_cma() -> bool:
    """Whether the package cma is installed (extra "search"); without it all climbs are by moves."""
    try:
        import cma  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        return False
    return True


def _strategy(places: Array, step: float, share: int, rng: Rng) -> Any:
    import cma

    options = {
        "verbose": -9,
        "seed": np.nan,  # numpy's global generator is left alone
        "randn": lambda *shape: rng.standard_normal(shape),
        "maxfevals": share,
        "tolx": SMALL_CHANGE,
        "tolfun": SMALL_CHANGE,
        "tolflatfitness": 20,  # generations of equal ratios
    }
    return cma.CMAEvolutionStrategy(places.ravel(), step, options)
