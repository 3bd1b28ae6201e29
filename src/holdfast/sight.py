"""How points are seen while they are measured: from a pivot, in a precision, at a scale; and how well."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np

from holdfast.arrays import Array, Kind
from holdfast.host import NARROW, Host, spans
from holdfast.places import BLOCK, Place, Sums
from holdfast.points import Points

RANGE = {"f4": (2.0**-60, 2.0**100), "f8": (2.0**-200, 2.0**200)}  # of squares that leave room for sums and powers
PLAIN = 2.0**-24  # the rounding of float32


@dataclass
class Sight:
    """Points, the precision and scale in which they are multiplied, and what was learned about their basis.

    Where a device has no float64, each row may be brought near one by a power of two of its own (`exponents`) instead
    of one scale for all; the host puts them back.
    """

    points: Points
    wide: bool
    scale: float = 1.0
    exponents: np.ndarray | None = None
    home: int | None = None  # a central basis row, for points that are weighted sums
    basis: dict[int | None, np.ndarray] = field(default_factory=dict)  # lengths of basis rows, from the origin or home

    @cached_property
    def narrow(self) -> bool:
        """Whether some device has no float64."""
        return any(not leaf.place.float64 for leaf in self.points.source.distant)

    @cached_property
    def kind(self) -> Kind:
        """The narrowest arithmetic."""
        return min(leaf.computed for leaf in self.points.source.distant)

    def exponents_used(self, pivot: int | None) -> bool:
        """Whether each row has a power of two of its own: seen from a pivot too, since what is left may be tiny."""
        return self.exponents is not None or (self.narrow and pivot is not None and self.points.mix is None)

    def cores_in_range(self, g: np.ndarray) -> range:
        """For which cores squares stayed in the range of floats; each is judged by its core-th smallest row."""
        low, high = RANGE["f4" if self.narrow else "f8" if self.wide else self.kind]
        if self.narrow and not np.isfinite(g).all():
            return range(0)
        k = self.points.k
        sizes = np.maximum(np.sort(g[:k]), g[k:].max(initial=0.0))  # nan is last, and in no range
        return range(int((sizes <= low).sum()) + 1, int((sizes < high).sum()) + 1)

    def rescaled(self, sizes: np.ndarray, core: int) -> Sight:
        """The same points in float64, at a scale that suits their sizes."""
        if self.narrow:
            return replace(self, wide=True, exponents=exponents_of(sizes), home=None, basis={})
        return replace(self, wide=True, scale=self._scale(sizes, core), home=None, basis={})

    def _scale(self, sizes: np.ndarray, core: int) -> float:
        """The power of two that brings the core-th smallest row to about one; float32 needs none."""
        if all(leaf.kind == "f4" for leaf in self.points.source.distant):
            return 1.0  # its squares all have room in float64
        middle = core_size(sizes, self.points.k, core) or float(sizes[sizes > 0].min())  # all are zero but a few: those
        return float(np.ldexp(1.0, -max(-1022, int(np.frexp(middle)[1])))) if 0 < middle < np.inf else 1.0

    def gram(self, K: np.ndarray, left: np.ndarray, pivot: int | None, *, wide: bool) -> tuple[np.ndarray, np.ndarray]:
        """Products of the points K[left] with the points K, and the squared lengths of K, seen from the pivot."""
        square = len(left) == len(K)
        exponents = self._exponents(K, pivot) if self.exponents_used(pivot) else None
        factor = None if exponents is None else np.exp2(-exponents)[:, None]
        sums: dict[Place, Sums] = {}
        for place, Y in self._blocks(K, pivot, factor, wide=wide):
            if place not in sums:
                sums[place] = place.sums(None if square else left)
            sums[place].add(Y)
        found = [one.total() for one in sums.values()]
        n = len(K)
        G = sum((G for G, _ in found), np.zeros((len(left), n)))
        if square:
            G = self.points.source.shards(G).sum(axis=0)
            G = np.where(_upper(n), G, G.T)
            g = G.diagonal().copy()
        else:
            both = np.append(G, sum((g for _, g in found), np.zeros(n))[None], axis=0)
            both = self.points.source.shards(both).sum(axis=0)
            G, g = both[:-1], both[-1]
        if exponents is None:
            return G, g
        back = np.exp2(exponents)
        return G * back[left][:, None] * back, g * back**2

    def _exponents(self, K: np.ndarray, pivot: int | None) -> np.ndarray:
        if pivot is not None:
            return exponents_of(sizes_of(self.points, K, pivot))
        assert self.exponents is not None
        return self.exponents[K]

    def _blocks(
        self, K: np.ndarray, pivot: int | None, factor: np.ndarray | None, *, wide: bool
    ) -> Iterator[tuple[Place, Array]]:
        """Blocks of the points K, seen from the pivot, at the scale."""
        points, at = self.points, None if len(K) == len(self.points) else K
        if points.mix is not None and pivot is not None:  # subtract weights: what two points share cancels exactly
            M = points.matrix()
            seen = M[K] - M[pivot]
            points = replace(points, mix=seen, k=len(K), anchors=(), home=self._home(seen))
            at = pivot = None
        for leaf, s, e in points.pieces(len(K)):
            C = points.block(leaf, s, e, wide=wide, at=at)
            if pivot is None and factor is None and self.scale == 1.0:
                yield leaf.place, C
                continue
            p = None if pivot is None else points.block(leaf, s, e, wide=wide, at=np.array([pivot]))
            for i, j in spans(e - s, BLOCK if isinstance(leaf.place, Host) else e - s):
                B = C[:, i:j] if p is None else C[:, i:j] - p[:, i:j]
                B = B if factor is None else B * leaf.place.put(factor, "f4")
                yield leaf.place, B if self.scale == 1.0 else B * self.scale

    def gamma(self, *, wide: bool) -> float:
        """The certificate's constant: by how much of (a_i + a_j)² a distance may be wrong."""
        source, sums = self.points.source, self._sums
        mixing = 0 if self.points.mix is None else 2 * len(self.points.basis)
        if self.kind == "f8" or (wide and not self.narrow):
            return 2.0**-53 * (8 + BLOCK + sums + mixing)
        unit = max(leaf.place.unit for leaf in source.distant)
        coarse = 4 * unit if unit > PLAIN else 0.0
        return PLAIN * (8 + BLOCK + mixing * self.narrow) + coarse + 2.0**-53 * sums

    @cached_property
    def _sums(self) -> float:
        """How many block sums are added up in float64."""
        sizes = [leaf.columns for leaf in self.points.source.distant]
        return 1 + sum(sizes) / NARROW + len(sizes) * self.points.source.processes

    def lengths(self, K: np.ndarray, pivot: int | None, g: np.ndarray) -> np.ndarray:
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
        if home not in self.basis:
            rows = replace(self.points, mix=None, k=len(self.points.basis), anchors=())
            own = Sight(rows, wide=True, scale=self.scale)
            if self.narrow:
                own = own.rescaled(sizes_of(rows), 1)
            everyone = np.arange(rows.k)
            _, squares = own.gram(everyone, everyone[:0], home, wide=True)
            room = np.finfo(float).max
            self.basis[home] = np.nan_to_num(np.sqrt(squares), nan=room, posinf=room)  # one of weight zero spoils none
        return self.basis[home]


def sizes_of(points: Points, K: np.ndarray | None = None, pivot: int | None = None) -> np.ndarray:
    """The largest number of every row of the points K (None: all), seen from a pivot (None: the origin)."""
    K = np.arange(len(points)) if K is None else K
    found: dict[Place, Array] = {}
    for leaf, s, e in points.pieces(len(K)):
        place, block = leaf.place, points.block(leaf, s, e, at=K)
        if pivot is not None:
            block = block - points.block(leaf, s, e, at=np.array([pivot]))
        top = place.largest(block)
        found[place] = place.xp.maximum(found[place], top) if place in found else top
    top = np.max([np.zeros(len(K)), *(place.fetch(one) for place, one in found.items())], axis=0)
    return points.source.shards(top).max(axis=0)


def exponents_of(sizes: np.ndarray) -> np.ndarray:
    """The powers of two of these sizes, as far as float32 has them."""
    return np.frexp(sizes)[1].clip(-126, 126).astype(float)


@lru_cache(maxsize=64)
def _upper(n: int) -> np.ndarray:
    """The upper triangle, which sums of products fill."""
    return np.triu(np.ones((n, n), bool))


def core_size(sizes: np.ndarray, k: int, core: int) -> float:
    """The core-th smallest of the first k, or an anchor's if that is larger: anchors are our own."""
    return float(max(np.sort(sizes[:k])[core - 1], sizes[k:].max(initial=0.0)))
