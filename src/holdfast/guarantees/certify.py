"""A search for the round that is worst for a rule: the honest check of a constant, and often the way to a better one.

It has two parts. The first is wide: many short climbs by moves, from rounds on small grids and from random clouds. The
second is deep: long climbs from the worst rounds so far, by moves and by evolution strategies in turn. What is found is
a lower bound on the true constant, and the round is its proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

import numpy as np

from holdfast.guarantees.climbs import Cost, Measured, climb_by_evolution, climb_by_moves
from holdfast.guarantees.instances import few_places, structured
from holdfast.guarantees.searches import Found, Search, objective

__all__ = ["Search", "search"]

Array = np.ndarray
Rng = np.random.Generator
MAX_KEPT = 12  # worst rounds, from which climbs start again
DIFFERENT = 1e-3  # of a ratio: rounds whose ratios are nearer count as one
WIDE = 0.35  # of the budget: short climbs from rounds that are drawn
DRAWN, SHORT = 20, 100  # rounds that are drawn; moves from the worst of them
MIN_CLIMB = 50  # rounds of a long climb, however small the budget is
BY_MOVES, BY_EVOLUTION = 0.04, 0.2  # of the budget: one long climb
NEAR = 0.05  # sizes of a round: points so near to each other move as one in every other evolution


def search(task: Search, known: Found | None = None, *, starts: Iterable[Array] = ()) -> Iterator[Found]:
    """Search for the round that is worst for a rule.

    Parameters
    ----------
    task : Search
        What determines the search.
    known : Found, optional
        Goes on from there, to the same end.
    starts : iterable of numpy.ndarray, optional
        Rounds to begin with, beside the structured ones; for example the worst of another criterion.

    Yields
    ------
    Found
        The worst round so far, after each climb.

    Notes
    -----
    Structured rounds are tried as they are. A third of the budget goes to short climbs from rounds on small grids and
    from random clouds. They move one point, or all points at one place: onto another point, to a midpoint, by a
    reflection, along a line. The rest goes to long climbs from the worst rounds so far, by such moves and by an
    evolution strategy (CMA-ES) in turn. Without the package cma all climbs are by moves.

    Examples
    --------
    >>> from holdfast.guarantees.certify import Search, search
    >>> *_, found = search(Search("CWTM(f=1)", 4, 1, 2, budget=400))
    >>> 0.49 < found.value < 0.5001
    True
    """
    cost, found = objective(task), known
    if found is None:
        first = [*structured(task.n, task.f, task.d), *starts]
        worst = _worst(Measured(cost(X), X) for X in first)
        found = _found(worst, len(first), 0)
        yield found
    else:
        worst = [Measured(cost(X), X) for X in (found.X, *found.others)]
    while found.tried < task.budget and found.value < inf:
        rng = np.random.default_rng((task.seed, found.climbs))
        if found.tried < WIDE * task.budget:
            end, tried = _climb_from_drawn(task, cost, task.budget - found.tried, rng)
        else:
            start = worst[min(rng.geometric(0.4), len(worst)) - 1]
            end, tried = _climb_on(task, cost, start, found, rng)
        worst = _worst([*worst, end])
        found = _found(worst, found.tried + max(1, tried), found.climbs + 1)
        yield found


def _worst(rounds: Iterable[Measured]) -> list[Measured]:
    """The worst of the rounds, the worst first, without rounds of nearly the same ratio."""
    out: list[Measured] = []
    for one in sorted(rounds, key=lambda one: -one.value):
        if not out or one.value < out[-1].value * (1 - DIFFERENT):
            out.append(one)
    return out[:MAX_KEPT]


def _found(worst: list[Measured], tried: int, climbs: int) -> Found:
    return Found(worst[0].value, worst[0].X, tried, climbs, tuple(one.X for one in worst[1:]))


def _climb_from_drawn(task: Search, cost: Cost, left: int, rng: Rng) -> tuple[Measured, int]:
    """Draw rounds, on small grids and as clouds in turn, and climb a little from the worst of them."""
    shape = (task.n, task.d)
    rounds = [few_places(*shape, rng) if i % 2 else rng.normal(size=shape) for i in range(min(DRAWN, left))]
    start = _worst(Measured(cost(X), X) for X in rounds)[0]
    end, tried = climb_by_moves(cost, start, min(SHORT, left - len(rounds)), rng)
    return end, tried + len(rounds)


def _climb_on(task: Search, cost: Cost, start: Measured, found: Found, rng: Rng) -> tuple[Measured, int]:
    """Go on from one of the worst rounds: by moves, by an evolution of its points, or by one of its places."""
    part = BY_EVOLUTION if found.climbs % 3 else BY_MOVES
    share = min(task.budget - found.tried, max(MIN_CLIMB, int(part * task.budget)))
    if part == BY_MOVES:
        return climb_by_moves(cost, start, share, rng)
    merge = NEAR if found.climbs % 3 == 2 else 0.0
    return climb_by_evolution(cost, start, share, rng, step=10.0 ** -rng.integers(1, 4), merge=merge)
