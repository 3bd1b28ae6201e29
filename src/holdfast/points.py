"""k weighted sums of the workers' rows, never stored: read block by block, combined at the end.

A stage turns points into fewer or other points; a point is a row of weights over the `basis`
(the surviving rows, and the start where there is one). Anchors stand behind the points: the
origin, whose weights are all zero, or the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from holdfast.updates import Leaf, Updates, in_parallel, spans

Columns = Callable[[np.ndarray], np.ndarray]
CACHE = 300_000  # numbers of a block of columns that is sorted: fits the second-level cache
ROWS = 8192  # numbers of a row that are added at once: some rows of them fit the first cache
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

    @classmethod
    def rows(cls, source: Updates, rows: np.ndarray, start: int | None = None) -> Points:
        points = cls(source, rows, None, len(rows))
        return points if start is None else points._with("start", start)

    def _with(self, name: str, row: int) -> Points:
        """The same points over a basis with one more row, known by a name."""
        mix = None if self.mix is None else np.pad(self.mix, ((0, 0), (0, 1)))
        places = (*self.places, (name, len(self.basis)))
        return replace(self, basis=np.append(self.basis, row), mix=mix, places=places)

    def answered(self, values: list[np.ndarray]) -> Points:
        """The same points, with the answer of a coordinate rule as an anchor to be."""
        return self._with("answer", self.source.append(values))

    def names(self) -> np.ndarray:
        """The workers' numbers while the points are their own vectors; else just positions."""
        return self.basis[: self.k] if self.mix is None else np.arange(self.k)

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

    def mixed(self, M: np.ndarray) -> Points:
        """The points that the rows of M make of these points and anchors."""
        if self.mix is None and not self.anchors:
            M = np.pad(M, ((0, 0), (0, len(self.basis) - self.k)))
        else:
            M = M @ self.matrix()
        return replace(self, mix=M, k=len(M), anchors=())

    def block(self, leaf: Leaf, s: int, e: int, dtype: Any, at: np.ndarray | None = None) -> np.ndarray:
        """Columns s to e of the points `at` (None: all); a view of the input where that is possible."""
        if self.mix is not None:
            M = self.matrix() if at is None else self.matrix()[at]
            used = np.flatnonzero(M.any(axis=0))
            block = leaf.block(self.basis[used], s, e, np.float64)
            if self.home is not None:
                block = block - leaf.block(self.basis[[self.home]], s, e, np.float64)
            return (M[:, used] @ block).astype(dtype, copy=False)
        if at is None and not self.anchors:
            return leaf.block(None if self.k == self.source.n else self.basis[: self.k], s, e, dtype)
        at = np.arange(len(self)) if at is None else at
        if at.max(initial=-1) < self.k:
            return leaf.block(self.basis[at], s, e, dtype)
        out = np.zeros((len(at), e - s), dtype)
        place = np.array([*range(self.k), *(-1 if a is None else a for a in self.anchors)])[at]
        out[place >= 0] = leaf.block(self.basis[place[place >= 0]], s, e, dtype)
        return out

    def chunks(self, rows: int) -> Iterator[tuple[Leaf, int, int]]:
        """The measured columns, in pieces that fit the cache for so many rows."""
        measured = (leaf for leaf in self.source.leaves if leaf.measured)
        return ((leaf, s, e) for leaf in measured for s, e in leaf.spans(rows))

    def same(self, i: int, j: int) -> bool:
        """Whether two points are the same rows to the bit, in all that is measured."""
        if self.mix is not None or max(i, j) >= self.k:
            return False
        rows = int(self.basis[i]), int(self.basis[j])
        here = all(leaf.same(*rows) for leaf in self.source.leaves if leaf.measured)
        return bool(self.source.shards(np.array(here)).all())

    def over_basis(self, weights: np.ndarray) -> np.ndarray:
        """Weights of points and anchors as weights of the basis rows."""
        w = (
            np.pad(weights[: self.k], (0, len(self.basis) - self.k))
            if self.mix is None
            else weights[: self.k] @ self.mix
        )
        for weight, at in zip(weights[self.k :], self.anchors, strict=True):
            if at is not None:
                w[at] += weight
        return w

    def combine(self, weights: np.ndarray) -> list[np.ndarray]:
        """The weighted sum of points and anchors, one flat array a leaf. Rows of weight zero are not read."""
        w = self.over_basis(weights)
        used = np.flatnonzero(w)
        return [self._sum(leaf, w[used], self.basis[used]) for leaf in self.source.leaves]

    def _sum(self, leaf: Leaf, w: np.ndarray, rows: np.ndarray) -> np.ndarray:
        if leaf.kind == "i":
            kept = rows[rows < self.source.n]
            return _lower_median(leaf, kept if len(kept) else self.basis[self.basis < self.source.n])
        wide = leaf.kind == "f8" or np.abs(w).min(initial=1.0) < TINY
        dtype = np.float64 if wide else np.float32
        out = np.zeros(leaf.size, dtype)
        all_rows: np.ndarray | None = rows
        present, most = (self.basis < self.source.n).sum() == self.source.n, 2 * len(rows) > self.source.n
        if not isinstance(leaf.data, list) and present and most and (rows < self.source.n).all():
            w, all_rows = np.bincount(rows, w, self.source.n), None  # a view of all is faster than a copy of some
        add = _add_rows if self.source.processes > 1 else np.matmul
        for s, e in leaf.spans(len(w)) if len(w) else ():
            add(w.astype(dtype), leaf.block(all_rows, s, e, dtype), out=out[s:e])
        return out

    def columns(self, rule: Columns, look: bool = False) -> list[np.ndarray]:
        """Apply a rule on single coordinates to all columns, on all cores; counters take their lower median.

        With `look`, NotFinite is raised where a block may hold numbers that are not finite.
        """
        workers = self.basis[self.basis < self.source.n]
        out = [_lower_median(f, workers) if f.kind == "i" else np.empty(f.size, f.computed) for f in self.source.leaves]
        place = {id(leaf): at for at, leaf in enumerate(self.source.leaves)}

        def fill(leaf: Leaf, block: np.ndarray, span: tuple[int, int]) -> bool:
            if look and not np.isfinite(block.sum()):
                return False
            out[place[id(leaf)]][slice(*span)] = rule(block)
            return True

        fine = np.array(all(self._each(fill)))
        if look and not self.source.shards(fine).all():
            raise NotFinite
        return out

    def shares(self, used: Columns) -> np.ndarray:
        """In which part of all coordinates each basis row was used."""
        counts = self._each(lambda _, block, span: used(block) * (span[1] - span[0]))
        total = sum(leaf.size if leaf.whole is None else leaf.whole for leaf in self.source.floats)
        shares = self.source.shards(np.sum(counts, axis=0) + np.zeros(self.k)).sum(axis=0) / total
        return shares if self.mix is None else shares @ np.abs(self.mix)

    def _each(self, work: Callable[[Leaf, np.ndarray, tuple[int, int]], Any]) -> list[Any]:
        """Work on every block of columns that fits the cache, on all cores; the results in order."""
        columns = int(np.clip(CACHE // max(1, self.k), 64, 8192))
        pieces = [(leaf, span) for leaf in self.source.floats for span in spans(leaf.size, columns)]

        def one(piece: tuple[Leaf, tuple[int, int]]) -> Any:
            leaf, span = piece
            with np.errstate(all="ignore"):
                return work(leaf, self.block(leaf, *span, leaf.computed), span)

        return in_parallel(one, pieces)


def _add_rows(w: np.ndarray, block: np.ndarray, out: np.ndarray) -> None:
    """w @ block by plain products and sums, so that a column's bits do not depend on where it stands."""
    part = np.empty(min(len(out), ROWS), out.dtype)
    for s, e in spans(len(out), ROWS):
        out[s:e] = 0
        for weight, row in zip(w, block, strict=True):
            if weight:
                out[s:e] += np.multiply(row[s:e], weight, out=part[: e - s])


def _lower_median(leaf: Leaf, rows: np.ndarray) -> np.ndarray:
    """Counters: an element that at least one worker sent, with half of the rows on either side."""
    out = np.empty(leaf.size, np.int64)
    for s, e in leaf.spans(len(rows)):
        out[s:e] = np.sort(leaf.block(rows, s, e), axis=0)[(len(rows) - 1) // 2]
    return out
