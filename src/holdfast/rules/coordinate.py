"""Rules that treat every coordinate by itself: the median and the trimmed mean."""

from __future__ import annotations

from functools import cache

import numpy as np

from holdfast.rules.base import CoordinateRule, value

FEW = 16  # rows that are ordered by comparing whole rows with each other


def ranked(block: np.ndarray) -> np.ndarray:
    """(n, b) -> (b, n): every column's values in order, finite ones. Many are sorted along memory, which is fast."""
    if len(block) > FEW:
        values = block.T.copy()
        values.sort(axis=1)
        return values
    rows, low = list(block.copy()), np.empty_like(block[0])
    for i, j in network(len(rows)):
        np.minimum(rows[i], rows[j], out=low)
        np.maximum(rows[i], rows[j], out=rows[j])
        rows[i], low = low, rows[i]
    return np.stack(rows).T


@cache
def network(n: int) -> list[tuple[int, int]]:
    """Batcher's odd-even merge sort: the pairs to compare and exchange, in order, that sort any n values.

    >>> network(3)
    [(0, 1), (0, 2), (1, 2)]
    """
    pairs, size = [], 1
    while size < n:
        step = size
        while step:
            starts = range(step % size, n - step, 2 * step)
            firsts = [j + i for j in starts for i in range(min(step, n - j - step))]
            pairs += [(a, a + step) for a in firsts if a // (2 * size) == (a + step) // (2 * size)]
            step //= 2
        size *= 2
    return pairs


def used_between(block: np.ndarray, low: int, high: int) -> np.ndarray:
    """The share of columns in which each row stands at a rank from low to high (excluded)."""
    order = np.argsort(block.T, axis=1, kind="stable")[:, low:high]
    return np.bincount(order.ravel(), minlength=len(block)) / block.shape[1]


@value
class CWM(CoordinateRule):
    r"""Coordinate-wise median.

    .. math:: F(X)_k = \operatorname{median}(x_{1k}, \dots, x_{nk})

    The mean of the two middle values where n is even; with `lower` the lower one, as torch.median has it.
    (f, κ)-robust for every f < n/2, with κ = (n-1)/(n+1-2f) for odd n and (n-2)/(n+2-2f) for even n; the
    lower median of even n has n/(n-2f). O(n log n) a coordinate, on all cores. Order does not matter.

    >>> CWM()(np.array([[0.0, 5.0], [1.0, 6.0], [2.0, -90.0]]))
    array([1., 5.])
    """

    lower: bool = False
    formula = "median of each coordinate"
    promise = "κ = (n-1)/(n+1-2f), n odd"
    time = "n log n · d"
    why = "never in the middle"
    fails = "nobody need lie: it always pays as if nearly half did, and skewed values shift it"
    source = "Yin et al. 2018"

    def _middle(self, n: int) -> tuple[int, int]:
        return (n - 1) // 2, (n - 1) // 2 if self.lower else n // 2

    def columns(self, block: np.ndarray) -> np.ndarray:
        low, high = self._middle(len(block))
        values = ranked(block)
        return values[:, low] if low == high else values[:, low] / 2 + values[:, high] / 2

    def used(self, block: np.ndarray) -> np.ndarray:
        low, high = self._middle(len(block))
        return used_between(block, low, high + 1)


@value
class CWTM(CoordinateRule):
    r"""Coordinate-wise trimmed mean: the mean of what is left without the f lowest and f highest values.

    .. math:: F(X)_k = \tfrac{1}{n-2f} \sum_{i=f+1}^{n-f} x_{(i)k}

    (f, κ)-robust for κ = f/(n-2f), which no rule betters. O(n log n) a coordinate, on all cores. The kept
    values are added up, never subtracted from a total, so a huge value leaves no trace.

    >>> CWTM(f=1)(np.array([[0.0], [1.0], [3.0], [90.0]]))
    array([2.])
    """

    f: int
    formula = "mean of each coordinate's n-2f middle values"
    promise = "κ = f/(n-2f), optimal"
    time = "n log n · d"
    why = "trimmed in every coordinate"
    fails = "against liars inside the spread of every coordinate: none is trimmed, and small pulls add up"
    source = "Yin et al. 2018"

    def columns(self, block: np.ndarray) -> np.ndarray:
        values = ranked(block)[:, self.f : len(block) - self.f]
        weight = np.full(values.shape[1], 1 / values.shape[1], values.dtype)
        return np.einsum("ij,j->i", values, weight)  # weighted first: a sum of large values overflows

    def used(self, block: np.ndarray) -> np.ndarray:
        return used_between(block, self.f, len(block) - self.f)


@value
class MeaMed(CoordinateRule):
    r"""Mean around median: of each coordinate, the mean of the n - f values nearest to the median (Xie et al. 2018).

    .. math:: F(X)_k = \tfrac{1}{n-f} \sum_{i \in N_k} x_{ik}, \quad N_k \text{ the } n - f \text{ nearest to it}

    The median is that of CWM. The values nearest to it stand side by side in order, so one sort is enough. Of two
    values at the same distance the lower is taken. O(n log n) a coordinate, on all cores.

    >>> MeaMed(f=1)(np.array([[0.0], [1.0], [3.0], [90.0]]))
    array([1.33333333])
    """

    f: int
    formula = "mean of each coordinate's n-f values nearest to its median"
    promise = "κ ≤ (1+√(1+κ of the median))² f/(n-2f)"
    time = "n log n · d"
    why = "among the f farthest from the median in every coordinate"
    fails = "against liars near the median of every coordinate: they stay in, and small pulls add up"
    source = "Xie et al. 2018"

    def _first(self, values: np.ndarray) -> np.ndarray:
        """Where the n - f nearest to the median begin, in each row of ordered values."""
        n = values.shape[1]
        low, high = (n - 1) // 2, n // 2
        middle = (values[:, low] / 2 + values[:, high] / 2)[:, None]
        below, above = middle - values[:, : self.f], values[:, n - self.f :] - middle
        return (below > above).sum(axis=1)  # each step up exchanges the lowest for the next above, while it is nearer

    def columns(self, block: np.ndarray) -> np.ndarray:
        values = ranked(block)
        k = len(block) - self.f
        near = np.take_along_axis(values, self._first(values)[:, None] + np.arange(k), axis=1)
        return np.einsum("ij,j->i", near, np.full(k, 1 / k, values.dtype))

    def used(self, block: np.ndarray) -> np.ndarray:
        order = np.argsort(block.T, axis=1, kind="stable")
        first = self._first(np.take_along_axis(block.T, order, axis=1))
        near = np.take_along_axis(order, first[:, None] + np.arange(len(block) - self.f), axis=1)
        return np.bincount(near.ravel(), minlength=len(block)) / block.shape[1]
