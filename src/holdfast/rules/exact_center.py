"""1-center clustering with outliers, solved to the optimum by branch and bound on minimum enclosing balls.

A node has removed some points and must keep others. The ball around all that is not removed rests on a few points:
unless one of them goes, the ball stays as it is, so a node's children are "the first of them goes", "the first stays
and the second goes", and so on. The ball around the points that must stay bounds a node from below. Balls of many nodes
are computed at once, by steps of Frank and Wolfe on the weights whose point is the centre; each comes with the least
radius that is proved and the one that is attained.
"""

from __future__ import annotations

import math

import numpy as np

from holdfast.rules.base import Choice, DistanceRule, Distances, Rng, Tolerance, value
from holdfast.rules.clustering import even, finite, neighbourhoods, radii
from holdfast.values import Count

BATCH, TIGHT, STEPS = 64, 1e-9, 400  # nodes at once; relative gap of a ball; most steps towards one


@value
class CenterExact(DistanceRule):
    r"""Mean of the n - f vectors in the smallest ball that holds n - f: CenterwO without the approximation.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.
    cap : int
        How many nodes the search may open. Where n is beyond 30, it opens fewer.

    Notes
    -----
    .. math:: F(X) = \bar{x}_S, \quad S \in \arg\min_{|S| = n - f} \min_c \max_{x \in S} \lVert x - c \rVert

    Guarantee: (f, λ)-resilient for λ ≤ (1 + √2) f/(n-f), if the search ends before its cap. At the cap the best set
    found so far is taken, which is at least as good as CenterwO's. The decision's cost and bound, both radii, say how
    far from the optimum it can be at most.

    The problem is strongly NP-hard (Shenmaier 2013) and, on the vectors of distributed learning, harder than
    MeanExact's. The search is ours. It begins with at most `cap` neighbourhoods, those of the best centres.

    Cost: O(n² d) time beyond the search. Where several sets fit into the smallest ball, the vectors nearest to its
    centre are taken. A vector that is not finite is dropped. More than f of them raise `TooManyFaults`.

    References
    ----------
    .. [1] Yi et al. 2024, "Near-Optimal Resilient Aggregation Rules for Distributed Learning Using 1-Center and
       1-Mean Clustering with Outliers", the problem.
    .. [2] Shenmaier 2013, "The Problem of a Minimal Ball Enclosing k Points", its hardness.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import CenterExact
    >>> CenterExact(f=1)(np.array([[0.0], [1.0], [2.0], [90.0]]))
    array([1.])
    """

    f: Tolerance
    cap: Count = 2_000
    precise = True
    formula = "mean of the n-f vectors in the smallest ball"
    promise = "λ ≤ (1+√2) f/(n-f)"
    time = "n² d + search"
    why = "outside the smallest ball of n - f"
    fails = "in a sneak, as CenterwO; where the search ends at its cap, a good set stands for the best"
    source = "the problem of Yi et al. 2024; hardness: Shenmaier 2013; the search is ours"

    def weights(self, D: Distances, rng: Rng | None = None) -> Choice:
        members, radius, bound = search(finite(D), self.f, self.cap)
        return Choice(even(members, len(D)), math.sqrt(radius), math.sqrt(min(bound, radius)), power=1)


def balls(D: Distances, masks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The smallest ball around each set: its centre's weights, squared distances to it, attained and proved radius²."""
    many = np.arange(len(masks))
    far = np.where(masks, np.where(masks[:, :, None] & masks[:, None, :], D, -1.0).max(axis=2), -1.0).argmax(axis=1)
    other = np.where(masks, D[far], -1.0).argmax(axis=1)
    a = np.zeros(masks.shape)
    a[many, far] += 0.5
    a[many, other] += 0.5
    for step in range(STEPS):
        Da = a @ D
        half = 0.5 * np.einsum("bi,bi->b", a, Da)  # of the weighted points around their centre: the proved radius²
        apart = Da - half[:, None]
        worst = np.where(masks, apart, -np.inf).argmax(axis=1)
        least = np.where(a > 0, apart, np.inf).argmin(axis=1)
        up, down = apart[many, worst] - half, half - apart[many, least]
        if step == STEPS - 1 or (up <= TIGHT * np.maximum(half, 1e-300)).all():
            break
        towards = up >= down
        pick = np.where(towards, worst, least)
        d = apart[many, pick]
        room = np.where(towards, 1.0, a[many, pick] / np.maximum(1 - a[many, pick], 1e-300))
        wish = np.where(towards, up, down) / np.maximum(2 * np.where(towards, d, np.maximum(d, 1e-300)), 1e-300)
        size = np.where(up > TIGHT * np.maximum(half, 1e-300), np.minimum(room, wish), 0.0)
        size = np.where(towards, size, -size)
        a *= (1 - size)[:, None]
        a[many, pick] += size
        a[(a < 1e-15)] = 0.0
    return a, apart, apart[many, worst], half


def search(D: Distances, f: int, cap: int) -> tuple[np.ndarray, float, float]:
    """The best n - f points, the squared radius of their ball, and a lower bound on that of any n - f points."""
    n, h = len(D), len(D) - f
    cap = max(1, int(cap * min(1.0, (30 / n) ** 2)))  # a ball costs n²
    best, radius = _start(D, h, cap)
    removed, kept = np.zeros((1, n), bool), np.zeros((1, n), bool)
    bound, opened, closed = np.zeros(1), 0, radius
    while len(bound) and opened < cap:
        first = np.argsort(bound, kind="stable")[: min(BATCH, cap)]
        rest = np.setdiff1d(np.arange(len(bound)), first)
        opened += len(first)
        gone, stay, low = removed[first], kept[first], bound[first]
        removed, kept, bound = removed[rest], kept[rest], bound[rest]
        low = np.maximum(
            low, np.where(stay.sum(axis=1) > 1, balls(D, np.where(stay.any(axis=1, keepdims=True), stay, True))[3], 0.0)
        )
        open_ = low < radius * (1 - 10 * TIGHT)
        gone, stay, low = gone[open_], stay[open_], low[open_]
        if not len(low):
            continue
        a, apart, _, proved = balls(D, ~gone)
        closed = min(closed, float(np.maximum(proved, low).min()))  # of sets that keep all on which the ball rests
        members = neighbourhoods(np.where(gone, np.inf, apart), h)
        _, _, inner, _ = balls(D, members)
        if inner.min() < radius * (1 - TIGHT):
            best, radius = members[int(inner.argmin())], float(inner.min())
        made = [child for i in range(len(low)) for child in _children(gone[i], stay[i], a[i], f, low[i])]
        if made:
            removed, kept = np.vstack([removed, [m[0] for m in made]]), np.vstack([kept, [m[1] for m in made]])
            bound = np.append(bound, [m[2] for m in made])
        alive = bound < radius * (1 - 10 * TIGHT)
        removed, kept, bound = removed[alive], kept[alive], bound[alive]
    proven = float(bound.min(initial=min(radius * (1 - 10 * TIGHT), closed)))
    return np.flatnonzero(best), radius, max(proven, float(np.sort(radii(D, h))[h - 1] / 4))


def _children(
    gone: np.ndarray, stay: np.ndarray, a: np.ndarray, f: int, low: float
) -> list[tuple[np.ndarray, np.ndarray, float]]:
    """One of the points on which the ball rests goes, and those before it stay."""
    if gone.sum() == f:
        return []
    out, before = [], stay.copy()
    for i in np.argsort(-a, kind="stable")[: int((a > 0).sum())]:
        if not stay[i]:
            without = gone.copy()
            without[i] = True
            out.append((without, before.copy(), low))
            before[i] = True
    return out


def _start(D: Distances, h: int, most: int) -> tuple[np.ndarray, float]:
    """A good set to begin with: each point's neighbourhood, then the nearest to its ball's centre, while that helps.

    Of more than `most` points those with the nearest h-th neighbour, so that CenterwO's set is among them.
    """
    first = np.argsort(radii(D, h), kind="stable")[:most] if most < len(D) else np.arange(len(D))
    masks = np.unique(neighbourhoods(D[first], h), axis=0)
    _, apart, sizes, _ = balls(D, masks)
    for _ in range(20):
        steps = neighbourhoods(apart, h)
        _, moved, smaller, _ = balls(D, steps)
        better = smaller < sizes * (1 - TIGHT)
        if not better.any():
            break
        masks, apart = np.where(better[:, None], steps, masks), np.where(better[:, None], moved, apart)
        sizes = np.where(better, smaller, sizes)
    i = int(sizes.argmin())
    return masks[i], float(sizes[i])
