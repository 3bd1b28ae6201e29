"""Rules that look for the best subset of n - f vectors: of least diameter (MDA), of least largest variance (SMEA)."""

from __future__ import annotations

import heapq
import itertools
import math

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
    Where several sets have the least diameter, vectors of least summed distance to the set stay in.

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
        n = len(D)
        steps = itertools.count()
        widths = np.unique(D)
        low, high = 0, len(widths) - 1
        cover = np.zeros(n, bool)
        while low < high or (low == high and not self._fits(D, widths[low], cover)):
            middle = (low + high) // 2
            found = self._cover(widths[middle] < D, steps)
            if found is None:
                low = middle + 1
            else:
                high, cover = middle, found
        sums = np.sqrt(np.minimum(D, widths[high]))[~cover].sum(axis=0)
        order = np.lexsort((np.arange(n), sums, cover))
        return Choice(even(np.sort(order[: n - self.f]), n), math.sqrt(widths[high]), math.sqrt(widths[high]), power=1)

    def _fits(self, D: Distances, width: float, cover: np.ndarray) -> bool:
        return not (D[np.ix_(~cover, ~cover)] > width).any()

    def _cover(self, conflict: np.ndarray, steps: itertools.count[int]) -> np.ndarray | None:
        """At most f points without which no pair is in conflict; None if there are none."""
        open_ = [(np.zeros(len(conflict), bool), self.f)]
        while open_:
            gone, left = open_.pop()
            if next(steps) > self.cap:
                _refuse(self, len(conflict), self.f)
            edges = conflict & ~gone & ~gone[:, None]
            degree = edges.sum(axis=1)
            pick = int(degree.argmax())
            if degree[pick] == 0:
                return gone
            if degree.sum() / 2 > left * degree[pick]:
                continue
            if degree[pick] <= left:  # either its partners go
                open_.append((gone | edges[pick], left - int(degree[pick])))
            if left:  # or it goes itself, which is tried first
                alone = gone.copy()
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
