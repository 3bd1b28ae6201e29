"""Rules that treat every coordinate by itself: the median and the trimmed mean."""

from __future__ import annotations

from functools import cache

import numpy as np

from holdfast.arrays import Array, device, namespace
from holdfast.masses import heaviest
from holdfast.rules.base import Tolerance, value
from holdfast.rules.by_mass import (
    WeightedColumns,
    added_up,
    fitting,
    masses_of,
    middle_values,
    packed,
    packed_trimmed_mean,
    share_of,
)

LITTLE = 2.0**-10  # a part of the mass; if less is kept, masses are not rounded
FEW = 16  # rows that are ordered by comparing whole rows with each other


def ranked(block: Array) -> Array:
    """(n, b) -> (b, n): every column's values in order, finite ones. Many are sorted along memory, which is fast."""
    if not isinstance(block, np.ndarray):
        xp = namespace(block)
        return xp.permute_dims(xp.sort(block, axis=0), (1, 0))
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


def mean_of(values: Array) -> Array:
    """(b, k) -> (b,): the mean of each row; weighted first, since a sum of large values overflows."""
    k = values.shape[1]
    if not isinstance(values, np.ndarray):
        return namespace(values).sum(values / k, axis=1)
    return np.asarray(np.einsum("ij,j->i", values, np.full(k, 1 / k, values.dtype)))


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


def places_of(block: Array) -> Array:
    """(n, b) -> (b, n): at which place each row stands in the order of its column; ties go to the lowest index."""
    xp = namespace(block)
    return xp.argsort(xp.argsort(xp.permute_dims(block, (1, 0)), axis=1, stable=True), axis=1)


def used_between(block: Array, low: int, high: int) -> Array:
    """The share of columns in which each row stands at a place from low to high (excluded)."""
    if not isinstance(block, np.ndarray):
        xp, at = namespace(block), places_of(block)
        return share_of(xp, (at >= low) & (at < high))
    order = np.argsort(block.T, axis=1, kind="stable")[:, low:high]
    return np.bincount(order.ravel(), minlength=len(block)) / block.shape[1]


def middle_places(n: int, *, lower: bool) -> tuple[int, int]:
    """The places of the two values whose mean is the median of n ordered values; both the lower one if `lower`."""
    return (n - 1) // 2, (n - 1) // 2 if lower else n // 2


@value
class CWM(WeightedColumns):
    r"""Coordinate-wise median.

    Parameters
    ----------
    lower : bool
        What is taken where n is even. False: the mean of the two middle values. True: the lower one, as `torch.median`
        does.

    Notes
    -----
    .. math:: F(X)_k = \operatorname{median}(x_{1k}, \dots, x_{nk})

    Guarantee: (f, κ)-robust for every f < n/2, with κ = (n-1)/(n+1-2f) for odd n and (n-2)/(n+2-2f) for even n. The
    lower median of even n has n/(n-2f). docs/guarantees.md has the proofs.

    Cost: O(n log n) time per coordinate, on all cores. The order of the vectors does not matter. A vector that is not
    finite is dropped. If half of the vectors or more are dropped, `TooManyFaults` is raised.

    References
    ----------
    .. [1] Yin et al. 2018, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import CWM
    >>> CWM()(np.array([[0.0, 5.0], [1.0, 6.0], [2.0, -90.0]]))
    array([1., 5.])
    """

    lower: bool = False
    majority = True
    portable = True
    formula = "median of each coordinate"
    promise = "κ = (n-1)/(n+1-2f), n odd"
    time = "n log n · d"
    why = "never in the middle"
    fails = "nobody need lie: it always pays as if nearly half did, and skewed values shift it"
    source = "Yin et al. 2018"

    def columns(self, block: Array) -> Array:
        low, high = middle_places(block.shape[0], lower=self.lower)
        values = ranked(block)
        return values[:, low] if low == high else values[:, low] / 2 + values[:, high] / 2

    def used(self, block: Array) -> Array:
        low, high = middle_places(block.shape[0], lower=self.lower)
        return used_between(block, low, high + 1)

    def taken(self, values: Array, below: Array, mass: np.ndarray) -> Array:
        return middle_values(values, below, int(mass.sum()), lower=self.lower)

    def outside(self, mass: np.ndarray) -> int:
        upto = np.cumsum(np.sort(mass)[::-1])
        return int((upto * 2 < mass.sum()).sum())  # fewer than half of the mass lies there, even of the heaviest


@value
class CWTM(WeightedColumns):
    r"""Coordinate-wise trimmed mean: the mean without the f lowest and f highest values.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.

    Notes
    -----
    .. math:: F(X)_k = \tfrac{1}{n-2f} \sum_{i=f+1}^{n-f} x_{(i)k}

    Guarantee: (f, κ)-robust for κ = f/(n-2f), which no rule betters; docs/guarantees.md has the proof.

    Cost: O(n log n) time per coordinate, on all cores. The kept values are added up, never subtracted from a total, so
    a huge value leaves no trace. A vector that is not finite is dropped. More than f of them raise `TooManyFaults`.

    References
    ----------
    .. [1] Yin et al. 2018, "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import CWTM
    >>> CWTM(f=1)(np.array([[0.0], [1.0], [3.0], [90.0]]))
    array([2.])
    """

    f: Tolerance
    portable = True
    formula = "mean of each coordinate's n-2f middle values"
    promise = "κ = f/(n-2f), optimal"
    time = "n log n · d"
    why = "trimmed in every coordinate"
    fails = "against liars inside the spread of every coordinate: none is trimmed, and small pulls add up"
    source = "Yin et al. 2018"

    def columns(self, block: Array) -> Array:
        return mean_of(ranked(block)[:, self.f : block.shape[0] - self.f])

    def used(self, block: Array) -> Array:
        return used_between(block, self.f, block.shape[0] - self.f)

    def taken(self, values: Array, below: Array, mass: np.ndarray) -> Array:
        xp, total, trimmed = namespace(below), int(mass.sum()), int(heaviest(mass, self.f))
        kept = masses_of(xp.clip(below, trimmed, total - trimmed), total - trimmed)
        return xp.astype(kept, values.dtype) / (total - 2 * trimmed)

    def columns_by_mass(self, block: Array, mass: np.ndarray) -> Array:
        if not packed(block):
            return super().columns_by_mass(block, mass)
        rounded = fitting(block, mass)
        if 1 - 2 * heaviest(rounded, self.f) / rounded.sum() > LITTLE:
            return packed_trimmed_mean(np.asarray(block), rounded, self.f)
        return super().columns_by_mass(np.asarray(block, np.float64), mass)  # rounding could leave nothing to keep


@value
class MeaMed(WeightedColumns):
    r"""Mean around median: in each coordinate, the mean of the n - f values nearest to the median.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.
    lower : bool
        Which median is taken where n is even. False: the mean of the two middle values. True: the lower one, as
        `torch.median` and ByzPy do.

    Notes
    -----
    .. math:: F(X)_k = \tfrac{1}{n-f} \sum_{i \in N_k} x_{ik}, \quad N_k \text{ the } n - f \text{ nearest to it}

    The median is that of `CWM` with the same `lower`. The values nearest to it stand side by side in order, so one
    sort is enough.

    Guarantee: (f, κ)-robust for κ ≤ (1 + √(1 + κ of the median))² f/(n-2f).

    Cost: O(n log n) time per coordinate, on all cores. Of two values at the same distance the lower one is taken. A
    vector that is not finite is dropped. More than f of them raise `TooManyFaults`.

    References
    ----------
    .. [1] Xie et al. 2018, "Generalized Byzantine-tolerant SGD".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import MeaMed
    >>> MeaMed(f=1)(np.array([[0.0], [1.0], [3.0], [90.0]]))
    array([1.33333333])
    """

    f: Tolerance
    lower: bool = False
    portable = True
    formula = "mean of each coordinate's n-f values nearest to its median"
    promise = "κ ≤ (1+√(1+κ of the median))² f/(n-2f)"
    time = "n log n · d"
    why = "among the f farthest from the median in every coordinate"
    why_weighted = "outside of the W - a nearest to the median in every coordinate"
    fails = "against liars near the median of every coordinate: they stay in, and small pulls add up"
    source = "Xie et al. 2018"

    def _first(self, values: Array) -> Array:
        """Where the n - f nearest to the median begin, in each row of ordered values."""
        n = values.shape[1]
        low, high = middle_places(n, lower=self.lower)
        middle = (values[:, low] / 2 + values[:, high] / 2)[:, None]
        farther = middle - values[:, : self.f] > values[:, n - self.f :] - middle
        xp = namespace(values)
        return xp.sum(xp.astype(farther, xp.int32), axis=1)  # each step up exchanges the lowest for the next above

    def columns(self, block: Array) -> Array:
        values = ranked(block)
        first, k = self._first(values), values.shape[1] - self.f
        if isinstance(values, np.ndarray):
            return mean_of(np.take_along_axis(values, first[:, None] + np.arange(k), axis=1))
        return namespace(values).sum(self._near(values, first) * values / k, axis=1)

    def _near(self, values: Array, first: Array) -> Array:
        """(b, n): one for the n - f places from the first on, zero for the others."""
        xp, n = namespace(values), values.shape[1]
        at = xp.arange(n, dtype=first.dtype, device=device(values))[None, :]
        return xp.astype((at >= first[:, None]) & (at < first[:, None] + (n - self.f)), values.dtype)

    def used(self, block: Array) -> Array:
        if isinstance(block, np.ndarray):
            order = np.argsort(block.T, axis=1, kind="stable")
            first = self._first(np.take_along_axis(block.T, order, axis=1))
            near = np.take_along_axis(order, first[:, None] + np.arange(len(block) - self.f), axis=1)
            return np.bincount(near.ravel(), minlength=len(block)) / block.shape[1]
        xp, at, first = namespace(block), places_of(block), self._first(ranked(block))[:, None]
        return share_of(xp, (at >= first) & (at < first + (block.shape[0] - self.f)))

    def taken(self, values: Array, below: Array, mass: np.ndarray) -> Array:
        xp, total = namespace(values), int(mass.sum())
        amount = total - int(heaviest(mass, self.f))
        median = xp.sum(values * middle_values(values, below, total, lower=self.lower), axis=0)
        nearest = xp.argsort(xp.abs(values - median), axis=0, stable=True)  # of two as near, the lower value
        by_distance = xp.take_along_axis(masses_of(below, total), nearest, axis=0)
        before = added_up(by_distance) - by_distance
        near = xp.minimum(xp.clip(before * -1 + amount, 0, amount), by_distance)
        return xp.astype(xp.take_along_axis(near, xp.argsort(nearest, axis=0), axis=0), values.dtype) / amount
