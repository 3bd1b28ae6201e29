r"""Squared distances between points: blocked, certified, measured again where rounding could lie.

Blocks of columns are multiplied in the input's precision and summed in float64,

.. math:: D_{ij} = g_i + g_j - 2 G_{ij}, \quad G = \sum_b Y_b Y_b^\top, \quad g_i = G_{ii},

with Y the points minus a pivot. Rounding is certified: :math:`|\hat D - D| \le \gamma (a_i + a_j)^2`
with :math:`a_i` the length of point i seen from the pivot and :math:`\gamma` from the dot products'
length. The first pivot is the origin, which costs nothing and serves updates well. Pairs whose
certificate exceeds a hundredth (in float64 1e-8) of their distance (a common offset, identical attackers,
a cluster far out) are measured again around a pivot of their own, so that nobody can hide in the rounding of others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from holdfast.points import NotFinite, Points
from holdfast.updates import spans

BLOCK, NARROW = 8192, 512  # the longest dot product in the input's precision; the shortest, for many copied rows
TRUST = {False: 1e-2, True: 1e-8}  # part of a distance up to which its certificate may go: float32, float64
STRIP, SMALL, FEW = 8, 10**6, 60  # rows of a strip, multiplications up to which a product is fast, rows in strips
NATIVE, DIRECT = 2, 5  # levels in the input's precision; the level at which every row is its own pivot
RANGE = {"f4": (2.0**-60, 2.0**100), "f8": (2.0**-200, 2.0**200)}  # of squares that leave room for sums and powers


class Distances(NamedTuple):
    """Squared distances times scale squared, and the part of each by which it may be wrong at most."""

    D: np.ndarray
    scale: float = 1.0
    error: float = 0.0


def distances(
    points: Points,
    centres: np.ndarray | None = None,
    wide: bool = False,
    core: int | None = None,
    look: bool = False,
) -> Distances:
    """Squared distances of the centres (None: all) to all points and anchors, times scale squared.

    The scale is a power of two, 1 unless the numbers are so large or small that squares would leave
    the range of floats. It is that of the `core`-th smallest row, n - f for a rule that tolerates f: every n - f rows
    hold one that is as large, and f liars cannot make it larger than all honest rows. Between finite rows D may
    be +inf where one is some 1e150 times larger than that. `wide` multiplies in float64 throughout.
    With `look`, NotFinite is raised where a row may hold numbers that are not finite.

    >>> from holdfast.updates import read
    >>> D, scale, error = distances(Points.rows(read([[0.0, 0.0], [3.0, 4.0]], "me"), np.arange(2)))
    >>> D.tolist(), scale, error < 1e-11
    ([[0.0, 25.0], [25.0, 0.0]], 1.0, True)
    """
    centres = np.arange(len(points)) if centres is None else np.asarray(centres)
    if len(centres) == 0:
        return Distances(np.zeros((0, len(points))))
    with np.errstate(all="ignore"):  # overflow is an answer here: such rows are looked at again
        measure = Measure(points, centres, wide, core=core, look=look)
        if not measure.whole():
            sizes = _sizes(points)
            if not sizes.any():  # nothing was sent but zeros
                return Distances(np.zeros(measure.D.shape))
            measure = Measure(points, centres, True, _scale(points, sizes, measure.core), core)
            measure.whole()
    return Distances(measure.D, measure.scale, measure.error)


def _sizes(points: Points) -> np.ndarray:
    """The largest number of every row."""
    top, at = np.zeros(len(points)), np.arange(len(points))
    for leaf, s, e in points.chunks(len(points)):
        block = points.block(leaf, s, e, leaf.computed, at)
        np.maximum(top, np.maximum(block.max(axis=1), -block.min(axis=1)), out=top)
    return points.source.shards(top).max(axis=0)


def _scale(points: Points, sizes: np.ndarray, core: int) -> float:
    """The power of two that brings the core-th smallest row to about one; float32 needs none."""
    if all(leaf.kind == "f4" for leaf in points.source.leaves if leaf.measured):
        return 1.0  # its squares all have room in float64
    middle = _size(sizes, points.k, core) or float(sizes[sizes > 0].min())  # all are zero but a few: those
    return float(np.ldexp(1.0, -max(-1022, int(np.frexp(middle)[1])))) if 0 < middle < np.inf else 1.0


def _size(sizes: np.ndarray, k: int, core: int) -> float:
    """The core-th smallest of the first k, or an anchor's if that is larger: anchors are our own."""
    return float(max(np.sort(sizes[:k])[core - 1], sizes[k:].max(initial=0.0)))


class Measure:
    """One matrix of distances while it is being measured."""

    def __init__(
        self,
        points: Points,
        centres: np.ndarray,
        wide: bool = False,
        scale: float = 1.0,
        core: int | None = None,
        look: bool = False,
    ) -> None:
        self.points, self.centres, self.scale, self.look = points, centres, scale, look
        self.core = max(1, min(points.k, points.k // 2 + 1 if core is None else core))
        self.wide = wide or points.mix is not None
        self.row = np.full(len(points), -1)  # of a point in D, if it is a centre
        self.row[centres] = np.arange(len(centres))
        self.D = np.full((len(centres), len(points)), np.inf)
        self.error = 0.0  # the largest part of a distance by which it may be wrong
        self.home: int | None = None  # a central basis row, for points that are weighted sums
        self.basis_lengths: dict[int | None, np.ndarray] = {}  # seen from the origin, or from home

    def whole(self) -> bool:
        """Measure everything around the origin; False if squares left the range of floats."""
        everyone = np.arange(len(self.points))
        g = self._level(everyone, None, 0, np.ones(self.D.shape, bool))
        low, high = RANGE["f8" if self.wide else self._kind()]
        return bool(low < _size(np.nan_to_num(g, nan=np.inf), self.points.k, self.core) < high)

    def _kind(self) -> str:
        return min(leaf.kind for leaf in self.points.source.leaves if leaf.measured)

    def _level(self, K: np.ndarray, pivot: int | None, depth: int, todo: np.ndarray) -> np.ndarray:
        """Fill D for the pairs `todo` of centres and points among K, all seen from one pivot."""
        left = np.flatnonzero(self.row[K] >= 0)
        wide = self.wide or depth >= NATIVE
        G, g = self._gram(K, left, pivot, wide)
        far = np.flatnonzero(~np.isfinite(g))
        if len(far) and not wide and self._kind() == "f4":  # float32 overflowed: those rows in float64
            H, h = self._gram(K, far, pivot, True)
            G[:, far] = H[:, left].T
            G[np.isin(left, far)] = H[np.isin(far, left)]
            g[far] = h[far]
        if self.look and not np.isfinite(g).all():
            raise NotFinite
        D = np.maximum(g[left, None] + g - 2 * G, 0.0)
        D[np.isnan(D)] = np.inf
        D[np.arange(len(left)), left] = 0.0
        a = self._seen_lengths(K, pivot, g)
        seen = (a[left, None] + a) ** 2
        doubt = self._gamma(wide, _width(len(K)) if len(left) == len(K) else BLOCK) * seen
        loose = self._gamma(wide) * seen > TRUST[wide or self._kind() == "f8"] * D  # of few rows we ask no less
        if not wide and self._kind() == "f4":  # squares of two tiny rows have left the range of float32
            loose |= np.maximum(a[left, None], a) ** 2 < RANGE["f4"][0]
        out_of_sight = np.isinf(D) & np.isinf(g[left, None]) & np.isinf(g)  # two such rows may still be close
        bad = todo & np.where(np.isinf(D), out_of_sight, loose)
        bad[np.arange(len(left)), left] = False
        sure = todo & ~bad & (D > 0) & np.isfinite(D)
        self.error = max(self.error, float(np.divide(doubt, D, out=np.zeros_like(D), where=sure).max(initial=0.0)))
        rows = self.row[K[left]]
        self.D[np.ix_(rows, K)] = np.where(todo, D, self.D[np.ix_(rows, K)])
        for part, pick in _components(bad, left, len(K)):
            if all(
                i == pick or self.points.same(int(K[pick]), int(K[i])) for i in part
            ):  # attackers like to send copies
                self.D[np.ix_(rows[np.isin(left, part)], K[part])] = 0.0
            elif depth + 1 < DIRECT:
                self._level(K[part], int(K[pick]), depth + 1, bad[np.isin(left, part)][:, part])
            else:  # nothing shared is left to subtract: each row is its own pivot
                for i in np.flatnonzero(np.isin(left, part)):
                    near = K[np.flatnonzero(bad[i])]
                    self.D[rows[i], near] = self._gram(near, near[:0], int(K[left[i]]), True)[1]
                self.error = max(self.error, self._gamma(True))
        return g

    def _gram(self, K: np.ndarray, left: np.ndarray, pivot: int | None, wide: bool) -> tuple[np.ndarray, np.ndarray]:
        """Products of the points K[left] with the points K, and the squared lengths of K, seen from the pivot."""
        G, g = np.zeros((len(left), len(K))), np.zeros(len(K))
        square = len(left) == len(K)
        for Y in self._blocks(K, pivot, wide):
            if square:
                _add_products(G, Y)
            else:
                G += Y[left] @ Y.T
                g += np.einsum("ij,ij->i", Y, Y)
        if square:
            G = self._sum(G)
            G = np.triu(G) + np.triu(G, 1).T
            return G, G.diagonal().copy()
        both = self._sum(np.append(G, g[None], axis=0))
        return both[:-1], both[-1]

    def _sum(self, part: np.ndarray) -> np.ndarray:
        """What was added up over the columns here, over all columns."""
        return self.points.source.shards(part).sum(axis=0)

    def _blocks(self, K: np.ndarray, pivot: int | None, wide: bool) -> Iterator[np.ndarray]:
        points, at = self.points, None if len(K) == len(self.points) else K
        if points.mix is not None and pivot is not None:  # subtract weights: what two points share cancels exactly
            M = points.matrix()
            seen = M[K] - M[pivot]
            points = replace(points, mix=seen, k=len(K), anchors=(), home=self._home(seen))
            at = pivot = None
        for leaf, s, e in points.chunks(len(K)):
            dtype = np.float64 if wide or leaf.kind == "f8" else np.float32
            C = points.block(leaf, s, e, dtype, at)
            p = None if pivot is None else points.block(leaf, s, e, dtype, np.array([pivot]))
            Y = np.empty((len(C), min(e - s, BLOCK)), dtype)
            for i, j in spans(e - s, BLOCK):
                B = C[:, i:j] if p is None else np.subtract(C[:, i:j], p[:, i:j], out=Y[:, : j - i])
                yield B if self.scale == 1.0 else B * self.scale

    def _gamma(self, wide: bool, longest: int = BLOCK) -> float:
        sizes = [leaf.size if leaf.whole is None else leaf.whole for leaf in self.points.source.leaves if leaf.measured]
        sums = 1 + sum(sizes) / NARROW + len(sizes) * self.points.source.processes
        if wide or self._kind() == "f8":
            mixing = 0 if self.points.mix is None else 2 * len(self.points.basis)
            return 2.0**-53 * (8 + longest + sums + mixing)
        return 2.0**-24 * (8 + longest) + 2.0**-53 * sums

    def _seen_lengths(self, K: np.ndarray, pivot: int | None, g: np.ndarray) -> np.ndarray:
        """How long the points are at most, as far as rounding is concerned."""
        if self.points.mix is None:
            return np.sqrt(g)
        M = self.points.matrix()
        seen = M[K] if pivot is None else M[K] - M[pivot]
        return np.abs(seen) @ self._basis_lengths(None if pivot is None else self._home(seen))

    def _home(self, seen: np.ndarray) -> int | None:
        """The basis row of lower-median length, to measure from where weights sum to zero; no minority chooses it."""
        if np.abs(seen.sum(axis=1)).max() > 1e-12:
            return None  # the origin is among the points
        if self.home is None:
            lengths = self._basis_lengths(None)[self.points.basis < self.points.source.n]  # workers come first
            self.home = int(np.argsort(lengths, kind="stable")[(len(lengths) - 1) // 2])
        return self.home

    def _basis_lengths(self, home: int | None) -> np.ndarray:
        if home not in self.basis_lengths:
            rows = replace(self.points, mix=None, k=len(self.points.basis), anchors=())
            total = np.zeros(rows.k)
            for leaf, s, e in rows.chunks(rows.k):
                block = rows.block(leaf, s, e, np.float64, np.arange(rows.k))
                block = (block if home is None else block - block[home]) * self.scale
                total += np.einsum("ij,ij->i", block, block)
            finite = np.nan_to_num(np.sqrt(self._sum(total)), nan=np.finfo(float).max, posinf=np.finfo(float).max)
            self.basis_lengths[home] = finite  # a row of weight zero must not make nan of the others
        return self.basis_lengths[home]


def _add_products(G: np.ndarray, Y: np.ndarray) -> None:
    """Add Y @ Y.T to the upper triangle of G; for few rows strip by strip, which takes two thirds of the time."""
    if len(Y) > FEW:
        G += Y @ Y.T
        return
    for s, e in spans(Y.shape[1], _width(len(Y))):
        for i, j in spans(len(Y), STRIP):
            G[i:j, i:] += Y[i:j, s:e] @ Y[i:, s:e].T


def _width(rows: int) -> int:
    """The columns of a strip, which are the longest dot product in the input's precision."""
    return BLOCK if rows > FEW else min(BLOCK, SMALL // (STRIP * max(1, rows)) // NARROW * NARROW)


def _components(bad: np.ndarray, left: np.ndarray, n: int) -> Iterator[tuple[np.ndarray, int]]:
    """The connected groups of points that bad pairs join, each with its point of most bad pairs."""
    if not bad.any():
        return
    joined = np.zeros((n, n), bool)
    joined[left] = bad
    joined |= joined.T
    degree = joined.sum(axis=1)
    open_ = degree > 0
    while open_.any():
        group = np.zeros(n, bool)
        edge = np.flatnonzero(open_)[:1]
        while len(edge):
            group[edge] = True
            edge = np.flatnonzero(joined[edge].any(axis=0) & ~group)
        open_ &= ~group
        yield np.flatnonzero(group), int(np.argmax(np.where(group, degree, -1)))
