"""The host as a place: numpy, and CPU tensors as numpy's views. Fast paths for the cache and the cores."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TypeVar

import numpy as np

from holdfast.arrays import Array, Kind
from holdfast.places import BLOCK, Place, Sums, Torch, fetch

COPIED, VIEWED, UNIT = 1 << 18, 1 << 22, 512  # numbers read at once where they are copied, and where not; multiples
NARROW = 512  # columns of the shortest block
STRIP_ROWS, FEW_ROWS = 16, 60  # rows of a strip of the upper triangle, and up to how many rows are cut into strips
MANY_ROWS, ALIGNED = 32, 16  # rows of a strip of many rows, for torch; columns of its pieces are a multiple
DTYPES: dict[Kind, type[np.generic]] = {"f4": np.float32, "f8": np.float64, "i": np.int64}
Item = TypeVar("Item")
Result = TypeVar("Result")


def spans(size: int, width: int) -> Iterator[tuple[int, int]]:
    """Cut 0..size into pieces of at most width.

    >>> list(spans(5, 2))
    [(0, 2), (2, 4), (4, 5)]
    """
    return ((s, min(s + width, size)) for s in range(0, size, width))


def in_parallel(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The results in order, worked out on all the cores that this process is allowed."""
    items = list(items)
    if len(items) == 1:  # threads would cost more than the work
        return [work(items[0])]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with ThreadPoolExecutor(cores) as pool:
        return list(pool.map(work, items))


class Host(Place):
    """numpy, in blocks that fit the cache."""

    def __init__(self) -> None:
        super().__init__(np, "cpu", float64=True)

    def dtype(self, kind: Kind) -> Hashable:
        return np.dtype(DTYPES[kind])

    def cast(self, x: Array, kind: Kind) -> np.ndarray:
        a, dtype = np.asarray(x), DTYPES[kind]
        if a.dtype == dtype:
            return a
        with np.errstate(over="ignore", invalid="ignore"):  # what float32 cannot hold becomes inf, and is seen as such
            return a.astype(dtype)

    def put(self, a: np.ndarray, kind: Kind) -> np.ndarray:
        return self.cast(a, kind)

    def bring(self, x: Array, kind: Kind) -> np.ndarray:
        return self.cast(x if isinstance(x, np.ndarray) else fetch(x), kind)

    def fetch(self, x: Array) -> np.ndarray:
        return np.asarray(x)

    def take(self, x: Array, rows: np.ndarray) -> np.ndarray:
        return np.asarray(x[rows])

    def put_rows(self, block: Array, at: np.ndarray, rows: Array) -> np.ndarray:
        out = np.asarray(block)
        out[at] = rows
        return out

    def stack(self, rows: Sequence[Array], kind: Kind) -> np.ndarray:
        out = np.empty((len(rows), *rows[0].shape), DTYPES[kind])
        for at, row in enumerate(rows):
            out[at] = self.bring(row, kind)
        return out

    def join(self, pieces: Iterable[Array], length: int) -> np.ndarray:
        rest = map(np.asarray, pieces)
        first = next(rest)
        if len(first) == length:
            return first
        out, at = np.empty((length, *first.shape[1:]), first.dtype), 0
        for piece in chain([first], rest):  # each is freed before the next is made: the answer is held once
            out[at : at + len(piece)] = piece
            at += len(piece)
        return out

    def width(self, rows: int, *, view: bool) -> int:
        return max(1, (VIEWED if view else COPIED) // max(1, rows) // UNIT) * UNIT

    def weighted(self, w: np.ndarray, Y: Array, kind: Kind) -> np.ndarray:
        return np.asarray(w.astype(DTYPES[kind], copy=False) @ Y)

    def sums(self, left: np.ndarray | None) -> Sums:
        return HostSums(left)

    def finite(self, Y: Array, *, each: bool = False) -> np.ndarray:
        Y = np.asarray(Y)
        return np.isfinite(Y).all(axis=1) if each else np.isfinite(Y @ np.ones(Y.shape[1], Y.dtype))

    def largest(self, Y: Array) -> np.ndarray:
        Y = np.asarray(Y)
        return np.maximum(Y.max(axis=1), -Y.min(axis=1))

    def equal(self, rows: Sequence[Array], other: Array) -> np.ndarray:
        return np.fromiter((np.array_equal(np.asarray(row), np.asarray(other)) for row in rows), bool, len(rows))

    def squares(self, Y: Array) -> np.ndarray:
        rows = np.asarray(Y)
        return np.asarray(np.einsum("ij,ij->i", rows, rows))


class HostSums:
    """Products of blocks, added up in float64; of all rows only the upper triangle is right until `total`."""

    def __init__(self, left: np.ndarray | None) -> None:
        self.left = left
        self.G: np.ndarray | None = None
        self.g: np.ndarray | None = None

    def add(self, Y: Array) -> None:
        Y = np.asarray(Y)
        n = len(Y)
        if self.G is None or self.g is None:
            self.G, self.g = np.zeros((n if self.left is None else len(self.left), n)), np.zeros(n)
        for s, e in spans(Y.shape[1], BLOCK):
            B = Y[:, s:e]
            if self.left is None:
                add_products(self.G, B)
            else:
                self.G += B[self.left] @ B.T
                self.g += np.einsum("ij,ij->i", B, B)

    def total(self) -> tuple[np.ndarray, np.ndarray]:
        assert self.G is not None
        assert self.g is not None
        return self.G, self.G.diagonal() if self.left is None else self.g


def add_products(G: np.ndarray, Y: np.ndarray) -> None:
    """Add Y @ Y.T to the upper triangle of G; for few rows strip by strip, which leaves out most of the lower one."""
    if len(Y) > FEW_ROWS:
        G += Y @ Y.T
        return
    for i, j in strips(len(Y)):
        G[i:j, i:] += Y[i:j] @ Y[i:].T


def strips(rows: int) -> Iterator[tuple[int, int]]:
    """The rows of the strips in which the upper triangle is multiplied."""
    return spans(rows, STRIP_ROWS if rows <= FEW_ROWS else MANY_ROWS)


class TorchHost(Host):
    """CPU tensors as numpy's views; torch multiplies float32, which is faster on many CPUs."""

    def __init__(self) -> None:
        super().__init__()
        self.torch = Torch("cpu")

    def width(self, rows: int, *, view: bool) -> int:
        return Place.width(self, rows, view=True) if view else super().width(rows, view=False)

    def sums(self, left: np.ndarray | None) -> Sums:
        return TorchSums(self.torch) if left is None else HostSums(left)

    def weighted(self, w: np.ndarray, Y: Array, kind: Kind) -> np.ndarray:
        if kind != "f4" or w.ndim > 1:
            return super().weighted(w, Y, kind)
        torch = sys.modules["torch"]
        there = torch.from_numpy(np.asarray(Y))
        return np.asarray(self.torch.matmul(torch.from_numpy(w.astype(np.float32)), there))


class TorchSums(HostSums):
    """Products of all rows: long blocks of float32 by torch, in strips of the upper triangle; the rest by numpy."""

    def __init__(self, torch: Torch) -> None:
        super().__init__(None)
        self.torch = torch
        self.strips: list[Array] = []

    def add(self, Y: Array) -> None:
        Y = np.asarray(Y)
        n, columns = Y.shape
        if Y.dtype != np.float32 or columns < BLOCK:
            super().add(Y)
            return
        pieces = -(-columns // BLOCK)
        pieces += pieces % 2  # two cores share them evenly
        width = columns // pieces // ALIGNED * ALIGNED
        torch = sys.modules["torch"]
        whole, rest = Y[:, : pieces * width].reshape(n, pieces, width), Y[:, pieces * width :]
        self._multiply(torch.from_numpy(whole).permute(1, 0, 2))
        if rest.size:  # by torch too: two libraries' threads would fight for the cores
            self._multiply(torch.from_numpy(rest)[None])

    def _multiply(self, Z: Array) -> None:
        """Add the products of (pieces, n, columns), in strips of the upper triangle."""
        xp, T = self.torch.xp, self.torch.xp.matrix_transpose(Z)
        products = (self.torch.matmul(Z[:, i:j, :], T[:, :, i:]) for i, j in strips(Z.shape[1]))
        sums = [xp.sum(strip, axis=0, dtype=xp.float64) for strip in products]
        self.strips = [a + b for a, b in zip(self.strips, sums, strict=True)] if self.strips else sums

    def total(self) -> tuple[np.ndarray, np.ndarray]:
        if not self.strips:
            return super().total()
        n = self.strips[0].shape[1]
        G = np.zeros((n, n)) if self.G is None else self.G
        for (i, j), strip in zip(strips(n), self.strips, strict=True):
            G[i:j, i:] += np.asarray(strip)
        return G, G.diagonal()
