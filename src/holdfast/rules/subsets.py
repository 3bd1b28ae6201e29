"""Rules that look for the best subset of n - f vectors: of least diameter (MDA), of least largest variance (SMEA)."""

from __future__ import annotations

import heapq
import itertools
import math
from contextlib import suppress

import numpy as np

from holdfast.rules.base import Choice, DistanceRule, Distances, Rng, Tolerance, value
from holdfast.rules.clustering import concentrated, even, finite, nearest, neighbourhoods, radii, scores
from holdfast.rules.exact_mean import least_by_scores
from holdfast.values import Count

AT_ONCE = 1 << 22  # numbers of all the matrices whose eigenvalues are sought together


class _OutOfSteps(Exception):
    """A search has used up its budget."""


@value
class MDA(DistanceRule):
    r"""Minimum diameter averaging: the mean of the n - f vectors of least diameter.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.
    cap : int
        How many steps the search may take.

    Notes
    -----
    .. math:: F(X) = \bar{x}_S, \quad S \in \arg\min_{|S| = n-f} \max_{x, y \in S} \lVert x - y \rVert

    Guarantee: (f, λ)-resilient for λ = 2f/(n-f), exactly. After `cap` steps, and some 40f more to use what was found,
    the best set so far is taken. The decision's cost is its diameter. Its bound is a diameter that no n - f vectors go
    below. The cost is never more than twice the bound, and λ ≤ (1 + cost/bound) f/(n-f).

    Whether a diameter is possible is a vertex cover of f among the pairs that are farther apart. A search tree finds
    it in about 1.5^f steps instead of trying all subsets.

    Cost: O(n² d) time beyond the search. Ties go to the lowest index: of several sets of least diameter, the first one
    in index order is kept. The search for it takes what is left of `cap`. If that is not enough, the answer still has
    the least diameter, and only the workers that were decided by then are those of the first set. A vector that is not
    finite is dropped. More than f of them raise `TooManyFaults`.

    References
    ----------
    .. [1] El Mhamdi et al. 2018, "The Hidden Vulnerability of Distributed Learning in Byzantium".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import MDA
    >>> MDA(f=1)(np.array([[0.0], [1.0], [2.0], [90.0]]))
    array([1.])
    """

    f: Tolerance
    cap: Count = 20_000
    formula = "mean of the n-f vectors of least diameter"
    promise = "λ = 2f/(n-f)"
    time = "n² d + 1.5^f n²"
    why = "outside the set of least diameter"
    fails = "in a sneak, within the diameter; for large f the search ends at its cap and tells the gap"
    source = "El Mhamdi et al. 2018"

    def weights(self, D: Distances, rng: Rng | None = None) -> Choice:
        n, steps = len(D), _Budget(self.cap)
        squares = np.unique(D)
        low, high, cover = self._least(D, squares, steps)
        if low < high:
            return self._unfinished(D, squares, (low, high, cover))
        cover = self._first(squares[high] < D, cover, steps)
        least = math.sqrt(float(squares[high]))
        return Choice(even(np.flatnonzero(~cover)[: n - self.f], n), least, least, power=1)

    def _least(self, D: Distances, squares: np.ndarray, steps: _Budget) -> tuple[int, int, np.ndarray]:
        """Between which positions the least squared diameter of n - f points is, and a cover for the second.

        The two are equal unless the steps ran out.
        """
        nobody = np.zeros(len(D), bool)
        low, high, cover = 0, len(squares) - 1, nobody
        with suppress(_OutOfSteps):
            while low < high:
                middle = (low + high) // 2
                smaller = self._cover(squares[middle] < D, nobody, steps)
                if smaller is None:
                    low = middle + 1
                else:
                    high, cover = middle, smaller
        return low, high, cover

    def _unfinished(self, D: Distances, squares: np.ndarray, known: tuple[int, int, np.ndarray]) -> Choice:
        """The best set that is at hand when the steps ran out, and the diameter that none goes below.

        The n - f points nearest to a centre have at most twice its radius as diameter, and every point of a set of
        n - f has its (n-f)-th neighbour within the set's diameter. One dive for each diameter then tells of more:
        it finds a cover, or proves that there is none, or says nothing.
        """
        n, h = len(D), len(D) - self.f
        low, high, cover = known
        radius = radii(D, h)
        ball = nearest(D, int(radius.argmin()), h)
        low = max(low, int(np.searchsorted(squares, np.partition(radius, h - 1)[h - 1])))
        around = int(np.searchsorted(squares, D[np.ix_(ball, ball)].max()))
        if around < high:
            high, cover = around, ~np.isin(np.arange(n), ball)
        lowest = low
        while lowest < high:  # the least diameter for which a dive finds a cover
            middle = (lowest + high) // 2
            smaller = self._dive(squares[middle] < D)
            if smaller is None:
                lowest = middle + 1
            else:
                high, cover = middle, smaller
        highest = high
        while low < highest:  # the least diameter that a dive does not prove impossible
            middle = (low + highest) // 2
            if self._impossible(squares[middle] < D):
                low = middle + 1
            else:
                highest = middle
        kept = np.flatnonzero(~cover)[:h]
        cost = math.sqrt(float(D[np.ix_(kept, kept)].max()))
        return Choice(even(kept, n), cost, min(cost, math.sqrt(float(squares[low]))), power=1)

    def _dive(self, conflict: np.ndarray) -> np.ndarray | None:
        """A cover, if the first path of the search tree ends with one."""
        with suppress(_OutOfSteps):
            return self._cover(conflict, np.zeros(len(conflict), bool), _Budget(self.f))
        return None

    def _impossible(self, conflict: np.ndarray) -> bool:
        """Whether the first path of the search tree ends with the proof that there is no cover."""
        with suppress(_OutOfSteps):
            return self._cover(conflict, np.zeros(len(conflict), bool), _Budget(self.f)) is None
        return False

    def _first(self, conflict: np.ndarray, cover: np.ndarray, steps: _Budget) -> np.ndarray:
        """The cover that keeps the set of n - f points that is first in index order.

        Each point in turn is kept if some cover does without it. Most points are not in the cover at hand, which
        is the answer for them; for the others a search looks for another cover.
        """
        gone = np.zeros(len(cover), bool)  # what the points before exclude
        with suppress(_OutOfSteps):  # the cover at hand keeps a set of least diameter
            for point in range(len(cover)):
                if np.count_nonzero(~cover[:point]) == len(cover) - self.f:
                    break
                if cover[point] and not gone[point]:
                    smaller = self._cover(conflict, gone | conflict[point], steps)
                    cover = cover if smaller is None else smaller
                if cover[point]:
                    gone[point] = True
                else:
                    gone |= conflict[point]
        return cover

    def _cover(self, conflict: np.ndarray, gone: np.ndarray, steps: _Budget) -> np.ndarray | None:
        """At most f points, all that are gone among them, without which no pair is in conflict; None if there are none.

        A point is added only if it is in conflict with a point that is not gone.
        """
        open_ = [(gone, self.f - int(gone.sum()))]
        while open_:
            gone, left = open_.pop()
            if left < 0:
                continue
            steps.take()
            edges = conflict & ~gone & ~gone[:, None]
            degree = edges.sum(axis=1)
            pick = int(degree.argmax())
            if degree[pick] == 0:
                return gone
            if degree.sum() / 2 > np.sort(degree)[len(degree) - left :].sum():  # more pairs than `left` points can end
                continue
            open_.append((gone | edges[pick], left - int(degree[pick])))  # either its partners go
            alone = gone.copy()  # or it goes itself, which is tried first
            alone[pick] = True
            open_.append((alone, left - 1))
        return None


class _Budget:
    """How many steps a search may still take."""

    def __init__(self, steps: int) -> None:
        self.left = steps + 1

    def take(self) -> None:
        """Count a step; raise when there are none left."""
        if self.left <= 0:
            raise _OutOfSteps
        self.left -= 1


@value
class SMEA(DistanceRule):
    r"""Mean of the n - f vectors whose covariance has the least largest eigenvalue.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.
    cap : int
        How many nodes the search may open. Where n is beyond 30, it opens fewer.

    Notes
    -----
    .. math:: F(X) = \bar{x}_S, \quad S \in \arg\min_{|S| = n-f} \lambda_{max}(M_S)

    Guarantee: (f, ξ)-robust averaging for ξ = 4f/(n-2f), exactly. At the cap the best set found so far is taken:
    ξ ≤ (1 + √(cost/bound))² f/(n-2f), and κ is never more than MeanwO's (1 + √2)² f/(n-2f). The decision's cost is the
    eigenvalue. Its bound is one that no n - f vectors go below.

    The search is by branch and bound. The scatter of a set only grows with its points, so a few that are too scattered
    rule out all sets that hold them. Eigenvalues are exact. ByzFL takes one step of the power method from a random
    start, so its answer changes from call to call.

    Cost: O(n² d) time beyond the search. A vector that is not finite is dropped. More than f of them raise
    `TooManyFaults`.

    References
    ----------
    .. [1] Allouah et al. 2023b, "On the Privacy-Robustness-Utility Trilemma in Distributed Learning".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import SMEA
    >>> SMEA(f=1)(np.array([[0.0], [1.0], [2.0], [90.0]]))
    array([1.])
    """

    f: Tolerance
    cap: Count = 20_000
    precise = True
    formula = "mean of the n-f vectors of least largest covariance eigenvalue"
    promise = "ξ = 4f/(n-2f)"
    time = "n² d + search"
    why = "outside the set of least largest eigenvalue"
    fails = "in a sneak, within the covariance; for large n and f the search ends at its cap and tells the gap"
    source = "Allouah et al. 2023b"

    def weights(self, D: Distances, rng: Rng | None = None) -> Choice:
        n, h = len(D), len(D) - self.f
        price = max(1.0, (n / 30) ** 3)  # eigenvalues cost n³
        starts = _starts(D, h, max(1, int(self.cap / price)))
        tops = largest(D, starts)
        best, least = starts[int(tops.argmin())], float(tops.min())
        order = np.argsort(-(best @ np.minimum(D, 1e300)), kind="stable")  # far ones first: they rule out most
        tie, opened = itertools.count(), 0
        heap = [(0.0, next(tie), np.zeros(n, bool), 0)]  # bound, order, kept, how many are decided
        while heap and heap[0][0] < least * (1 - 1e-12):
            if opened * price > self.cap:
                bound = max(heap[0][0], eigenvalue_bound(D, best, least))
                return Choice(even(np.flatnonzero(best), n), least, bound)
            opened += min(64, len(heap))
            batch = [heapq.heappop(heap) for _ in range(min(64, len(heap)))]
            made = [child for node in batch for child in self._children(node, order, h)]
            if not made:
                continue
            bounds = largest(D, np.array([kept for kept, _ in made])) * np.array([kept.sum() for kept, _ in made]) / h
            for bound, (kept, decided) in zip(bounds, made, strict=True):
                if kept.sum() == h and bound < least:
                    best, least = kept, float(bound)
                elif kept.sum() < h and bound < least * (1 - 1e-12):
                    heapq.heappush(heap, (float(bound), next(tie), kept, decided))
        return Choice(even(np.flatnonzero(best), n), least, least)

    def _children(
        self, node: tuple[float, int, np.ndarray, int], order: np.ndarray, h: int
    ) -> list[tuple[np.ndarray, int]]:
        """The node with the next point kept, and without it; at the end, with all that must stay."""
        _, _, kept, at = node
        missing, n = h - int(kept.sum()), len(order)
        with_next = kept.copy()
        with_next[order[at]] = True
        out = [(with_next, at + 1)]
        if n - at - 1 == missing:  # no more can go
            rest = kept.copy()
            rest[order[at + 1 :]] = True
            out.append((rest, n))
        elif n - at - 1 > missing:
            out.append((kept, at + 1))
        return out


def _starts(D: Distances, h: int, most: int) -> np.ndarray:
    """Good sets to begin with; if there are more than `most`, each once, and those of least sum of squares."""
    masks, costs = concentrated(D, np.unique(neighbourhoods(D, h), axis=0))
    if len(masks) <= most:
        return masks
    _, once = np.unique(masks, axis=0, return_index=True)
    once = np.sort(once)
    return masks[np.sort(once[np.argsort(costs[once], kind="stable")[:most]])]


def eigenvalue_bound(D: Distances, best: np.ndarray, least: float) -> float:
    """A lower bound on the largest eigenvalue of the covariance of any set as large as the best, which has `least`.

    Of k directions at right angles, the largest eigenvalue is at least the mean variance along them, and that is at
    least the least sum of squares of any h points as seen along them, over hk. The directions are the k widest of
    the best set, for each k. Two points more than 2h times `least` apart are in no better set.
    """
    h = int(best.sum())
    possible = best | ((2 * h * least * (1 + 1e-9) >= D).sum(axis=1) >= h)
    D, w = finite(D[np.ix_(possible, possible)]), best[possible] / h
    g = D @ w - 0.5 * w @ D @ w
    B = 0.5 * (g[:, None] + g - D)[:, w > 0]  # inner products, seen from the mean of the best set
    values, vectors = np.linalg.eigh(B[w > 0])
    wide = np.flatnonzero(values > 1e-6 * values[-1])[::-1]
    along = B @ vectors[:, wide] / np.sqrt(values[wide])  # every point's place along each direction
    apart, bound = np.zeros_like(D), 0.0
    for k in range(len(wide)):
        apart = apart + (along[:, k, None] - along[:, k]) ** 2
        bound = max(bound, least_by_scores(scores(apart, h), np.ones(len(D)), h) / (h * (k + 1)))
    return min(least, bound * (1 - 1e-6))


def largest(D: Distances, masks: np.ndarray) -> np.ndarray:
    """Largest eigenvalue of the covariance of each set of points."""
    many = max(1, AT_ONCE // D.size)
    return np.concatenate([_largest(D, masks[s : s + many]) for s in range(0, len(masks), many)])


def _largest(D: Distances, masks: np.ndarray) -> np.ndarray:
    W = masks / np.maximum(1, masks.sum(axis=1, keepdims=True))
    D = np.minimum(D, 1e300)
    g = W @ D - 0.5 * np.einsum("bi,ij,bj->b", W, D, W)[:, None]
    B = 0.5 * (g[:, :, None] + g[:, None, :] - D) * (masks[:, :, None] & masks[:, None, :])
    return np.maximum(np.linalg.eigvalsh(B)[:, -1], 0.0) / np.maximum(1, masks.sum(axis=1))
