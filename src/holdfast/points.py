"""k weighted sums of the workers' rows, never stored: read block by block, combined at the end.

A stage turns points into fewer or other points; a point is a row of weights over the `basis`
(the surviving rows, and the start where there is one). Anchors stand behind the points: the
origin, whose weights are all zero, or the start.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from holdfast.arrays import Array
from holdfast.leaves import Leaf
from holdfast.places import Place
from holdfast.updates import Updates

TINY = 1e-30  # weights below this leave the range of float32


class NotFinite(Exception):
    """Some block holds a number that is not finite, or sums that are not."""


@dataclass(frozen=True, eq=False)
class Points:
    source: Updates
    basis: np.ndarray  # row numbers in source
    mix: np.ndarray | None = None  # (k, len(basis)); None: the first k rows of the basis themselves
    k: int = 0
    anchors: tuple[int | None, ...] = ()  # position in the basis; None: the origin
    places: tuple[tuple[str, int], ...] = ()  # of rows of our own in the basis, by name: start, answer
    home: int | None = None  # position of a basis row that is subtracted from all others; for weights that sum to zero
    own: bool = True  # each point stands for one worker: the first k rows of the basis, in that order
    unseen: bool = False  # nobody has looked yet whether all numbers are finite: raise NotFinite if some are not

    @classmethod
    def rows(cls, source: Updates, rows: np.ndarray, start: int | None = None, *, unseen: bool = False) -> Points:
        """The workers' own vectors, and a start behind them."""
        points = cls(source, rows, None, len(rows), unseen=unseen)
        return points if start is None else points._with("start", start)

    def _with(self, name: str, row: int) -> Points:
        """The same points over a basis with one more row, known by a name."""
        mix = None if self.mix is None else np.pad(self.mix, ((0, 0), (0, 1)))
        places = (*self.places, (name, len(self.basis)))
        return replace(self, basis=np.append(self.basis, row), mix=mix, places=places)

    def answered(self, values: list[Array]) -> Points:
        """The same points, with the answer of a coordinate rule as an anchor to be."""
        return self._with("answer", self.source.append(values))

    def names(self) -> np.ndarray:
        """The workers' numbers while each point stands for one worker; else positions."""
        return self.basis[: self.k] if self.own else np.arange(self.k)

    def workers(self) -> np.ndarray:
        """The numbers of the workers in the basis."""
        return self.basis[self.basis < self.source.n]

    def key(self) -> tuple[object, ...]:
        """What tells these points from others of the same updates."""
        rows = tuple(-1 if at is None else int(self.basis[at]) for at in self.anchors)
        return self.basis.tobytes(), None if self.mix is None else self.mix.tobytes(), self.k, rows

    def __len__(self) -> int:
        return self.k + len(self.anchors)

    def anchored(self, names: tuple[str, ...]) -> Points:
        """The same points with anchors behind them; without a start, the start is the origin."""
        places = dict(self.places)
        return replace(self, anchors=tuple(places.get(name) for name in names))

    def matrix(self) -> np.ndarray:
        """Every point and anchor as weights over the basis: (k + anchors, len(basis))."""
        top = np.eye(self.k, len(self.basis)) if self.mix is None else self.mix
        tail = np.zeros((len(self.anchors), len(self.basis)))
        for row, at in zip(tail, self.anchors, strict=True):
            if at is not None:
                row[at] = 1.0
        return np.vstack([top, tail])

    def mixed(self, M: np.ndarray, *, own: bool = False) -> Points:
        """The points that the rows of M make of these points and anchors; `own`: they stand for the same workers."""
        if self.mix is None and not self.anchors:
            M = np.pad(M, ((0, 0), (0, len(self.basis) - self.k)))
        else:
            M = M @ self.matrix()
        return replace(self, mix=M, k=len(M), anchors=(), own=self.own and own)

    def block(self, leaf: Leaf, s: int, e: int, *, wide: bool = False, at: np.ndarray | None = None) -> Array:
        """Columns s to e of the points `at` (None: all), where the leaf lives; a view where that is possible."""
        if self.mix is not None:
            return leaf.place.cast(self._mixed(leaf, s, e, at), "f8" if wide else leaf.kind)
        if at is None and not self.anchors:
            return leaf.block(None if self.k == self.source.n else self.basis[: self.k], s, e, wide=wide)
        at = np.arange(len(self)) if at is None else at
        if at.max(initial=-1) < self.k:
            return leaf.block(self.basis[at], s, e, wide=wide)
        there = np.array([*range(self.k), *(-1 if a is None else a for a in self.anchors)])[at]
        rows, zeros = self.basis[there[there >= 0]], int((there < 0).sum())
        parts = [leaf.block(rows, s, e, wide=wide)] if len(rows) else []
        origin = [leaf.place.put(np.zeros((zeros, e - s)), "f8" if wide else leaf.kind)] if zeros else []
        block = leaf.place.join([*parts, *origin], len(at))
        behind = np.argsort(np.argsort(there < 0, kind="stable"), kind="stable")
        return block if (np.diff(behind) == 1).all() else leaf.place.take(block, behind)

    def _mixed(self, leaf: Leaf, s: int, e: int, at: np.ndarray | None) -> Array:
        M = self.matrix() if at is None else self.matrix()[at]
        used = np.flatnonzero(M.any(axis=0))
        if not len(used):  # all are the origin
            return leaf.place.put(np.zeros((len(M), e - s)), "f8")
        block = leaf.block(self.basis[used], s, e, wide=True)
        if self.home is not None:
            block = block - leaf.block(self.basis[[self.home]], s, e, wide=True)
        return mixture(leaf.place, M[:, used], block)

    def pieces(self, rows: int) -> Iterator[tuple[Leaf, int, int]]:
        """The measured columns, in pieces that are read at once for this number of rows."""
        return ((leaf, s, e) for leaf in self.source.distant for s, e in leaf.spans(rows))

    def copies(self, of: int, others: np.ndarray) -> bool:
        """Whether points and anchors are the same rows as another to the bit, in all that is measured."""
        if self.mix is not None or None in self.anchors:
            return False
        rows = np.array([*self.basis[: self.k], *(self.basis[at] for at in self.anchors if at is not None)])
        found: dict[Place, Array] = {}
        for leaf in self.source.distant:
            if leaf.size:
                same = leaf.copies(rows[others], int(rows[of]))
                found[leaf.place] = found[leaf.place] & same if leaf.place in found else same
                if isinstance(same, np.ndarray) and not same.all():
                    break
        here = np.array(all(place.fetch(same).all() for place, same in found.items()))
        return bool(self.source.shards(here).all())

    def over_basis(self, weights: np.ndarray) -> np.ndarray:
        """Weights of points and anchors as weights of the basis rows."""
        own, w = weights[: self.k], np.zeros(len(self.basis))
        if self.mix is None:
            w[: self.k] = own
        else:
            w = own @ self.mix
        for weight, at in zip(weights[self.k :], self.anchors, strict=True):
            if at is not None:
                w[at] += weight
        return w


def mixture(place: Place, M: np.ndarray, block: Array) -> Array:
    """M @ block, where points that are rows of the block are copied and only the others are summed."""
    plain = (np.count_nonzero(M, axis=1) == 1) & (M.max(axis=1, initial=0.0) == 1.0)
    if not plain.any():
        return weighted(place, M, block)
    rows = place.take(block, np.where(plain, M.argmax(axis=1), 0))
    if plain.all():
        return rows
    used = np.flatnonzero(M[~plain].any(axis=0))
    return place.put_rows(rows, ~plain, weighted(place, M[np.ix_(~plain, used)], place.take(block, used)))


def weighted(place: Place, M: np.ndarray, block: Array) -> Array:
    """M @ block in the widest precision that the place has; weights that leave its range shrink the rows instead."""
    if not place.float64:
        M, room = in_range(M)
        if room is not None:
            block = block * place.put(room[:, None], "f4")
    return place.weighted(M, block, "f8")


def in_range(M: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Weights near one and the powers of two that each row of a block is multiplied by instead."""
    peak = np.abs(M).max(axis=tuple(range(M.ndim - 1)), initial=0.0) if M.ndim > 1 else np.abs(M)
    if not ((peak > 0) & (peak < TINY)).any():
        return M, None
    tiny = np.where((peak > 0) & (peak < TINY), peak, 1.0)
    room = np.exp2(np.maximum(-126.0, np.floor(np.log2(tiny))))  # normal numbers of float32: others may become zero
    return M / room, room
