"""Rules that look for the best subset of n - f vectors: of least diameter (MDA), of least largest variance (SMEA)."""

from __future__ import annotations

import heapq
import itertools
import math
from contextlib import suppress

import numpy as np

from holdfast.errors import BadInput
from holdfast.rules.base import Choice, DistanceRule, Distances, Rng, Tolerance, value
from holdfast.rules.clustering import concentrated, even, neighbourhoods
from holdfast.values import Count


@value
class MDA(DistanceRule):
    r"""Minimum diameter averaging: mean of the n - f vectors of least diameter (El Mhamdi et al. 2018).

    .. math:: F(X) = \bar{x}_S, \quad S \in \arg\min_{|S| = n-f} \max_{x, y \in S} \lVert x - y \rVert

    (f, λ)-resilient for λ = 2f/(n-f), exactly. Whether a diameter is possible is a vertex cover of f among the pairs
    that are farther apart, which a search tree finds in about 1.5^f steps instead of trying all subsets; after `cap`
    steps it refuses and says how many subsets there are. The decision's cost is the diameter. O(n² d) time beyond.
    Ties go to the lowest index: of several sets of least diameter, the first one in index order is kept. The search
    for it takes what is left of `cap`. If that is not enough, the answer still has the least diameter, and only the
    workers that were decided by then are those of the first set.

    >>> MDA(f=1)(np.array([[0.0], [1.0], [2.0], [90.0]]))
    array([1.])
    """

    f: Tolerance
    cap: Count = 20_000
    formula = "mean of the n-f vectors of least diameter"
    promise = "λ = 2f/(n-f)"
    time = "n² d + 1.5^f n²"
    why = "outside the set of least diameter"
    fails = "in a sneak, within the diameter; and for large f the search refuses"
    source = "El Mhamdi et al. 2018"

    def weights(self, D: Distances, rng: Rng | None = None) -> Choice:
        n, steps = len(D), itertools.count()
        square, cover = self._least(D, steps)
        cover = self._first(square < D, cover, steps)
        kept = np.flatnonzero(~cover)[: n - self.f]
        return Choice(even(kept, n), math.sqrt(square), math.sqrt(square), power=1)

    def _least(self, D: Distances, steps: itertools.count[int]) -> tuple[float, np.ndarray]:
        """The least squared diameter of n - f points, and at most f points without which the others have it."""
        squares, nobody = np.unique(D), np.zeros(len(D), bool)
        low, high, cover = 0, len(squares) - 1, nobody
        while low < high:
            middle = (low + high) // 2
            found = self._cover(squares[middle] < D, nobody, steps)
            if found is None:
                low = middle + 1
            else:
                high, cover = middle, found
        return float(squares[high]), cover

    def _first(self, conflict: np.ndarray, cover: np.ndarray, steps: itertools.count[int]) -> np.ndarray:
        """The cover that keeps the set of n - f points that is first in index order.

        Each point in turn is kept if some cover does without it. Most points are not in the cover at hand, which
        is the answer for them; for the others a search looks for another cover.
        """
        gone = np.zeros(len(cover), bool)  # what the points before exclude
        with suppress(BadInput):  # out of steps: the cover at hand keeps a set of least diameter
            for point in range(len(cover)):
                if np.count_nonzero(~cover[:point]) == len(cover) - self.f:
                    break
                if cover[point] and not gone[point]:
                    found = self._cover(conflict, gone | conflict[point], steps)
                    cover = cover if found is None else found
                if cover[point]:
                    gone[point] = True
                else:
                    gone |= conflict[point]
        return cover

    def _cover(self, conflict: np.ndarray, gone: np.ndarray, steps: itertools.count[int]) -> np.ndarray | None:
        """At most f points, all that are gone among them, without which no pair is in conflict; None if there are none.

        A point is added only if it is in conflict with a point that is not gone.
        """
        open_ = [(gone, self.f - int(gone.sum()))]
        while open_:
            gone, left = open_.pop()
            if left < 0:
                continue
            if next(steps) > self.cap:
                _refuse(self, len(conflict), self.f)
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


def _refuse(rule: DistanceRule, n: int, f: int) -> None:
    raise BadInput(
        f"{rule!r} was given n = {n} vectors, of which {math.comb(n, f):,} subsets could be the best, and gave up; "
        "raise cap, lower f, or take MeanExact, which has the same worst case and a better bound."
    )


@value
class SMEA(DistanceRule):
    r"""Mean of the n - f vectors whose covariance has the least largest eigenvalue (Allouah et al. 2023b).

    .. math:: F(X) = \bar{x}_S, \quad S \in \arg\min_{|S| = n-f} \lambda_{max}(M_S)

    (f, ξ)-robust averaging for ξ = 4f/(n-2f), exactly. By branch and bound: the scatter of a set only grows with its
    points, so a few that are too scattered rule out all sets that hold them. After `cap` nodes (fewer where n is beyond
    30) it refuses and says how many subsets there are. Eigenvalues are exact; ByzFL takes one step of the power method
    from a random start, whose answer changes from call to call. The decision's cost is the eigenvalue.

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
    fails = "in a sneak, within the covariance; and for large n and f the search refuses"
    source = "Allouah et al. 2023b"

    def weights(self, D: Distances, rng: Rng | None = None) -> Choice:
        n, h = len(D), len(D) - self.f
        starts, _ = concentrated(D, np.unique(neighbourhoods(D, h), axis=0))
        tops = largest(D, starts)
        best, least = starts[int(tops.argmin())], float(tops.min())
        order = np.argsort(-(best @ np.minimum(D, 1e300)), kind="stable")  # far ones first: they rule out most
        tie, opened = itertools.count(), 0
        heap = [(0.0, next(tie), np.zeros(n, bool), 0)]  # bound, order, kept, how many are decided
        while heap and heap[0][0] < least * (1 - 1e-12):
            if opened * max(1.0, (n / 30) ** 3) > self.cap:  # eigenvalues cost n³
                _refuse(self, n, self.f)
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


def largest(D: Distances, masks: np.ndarray) -> np.ndarray:
    """Largest eigenvalue of the covariance of each set of points."""
    W = masks / np.maximum(1, masks.sum(axis=1, keepdims=True))
    D = np.minimum(D, 1e300)
    g = W @ D - 0.5 * np.einsum("bi,ij,bj->b", W, D, W)[:, None]
    B = 0.5 * (g[:, :, None] + g[:, None, :] - D) * (masks[:, :, None] & masks[:, None, :])
    return np.maximum(np.linalg.eigvalsh(B)[:, -1], 0.0) / np.maximum(1, masks.sum(axis=1))
