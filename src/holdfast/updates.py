"""What workers send: n updates of one structure, read as blocks of columns, answered in kind.

An update is an array, a list of arrays (Flower), a dict of named tensors (state_dict), or any
nesting of these. Nothing is copied into one big matrix and nothing is changed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from holdfast.errors import BadInput, article, listing
from holdfast.libraries import Array, give_back, host, kind, library, numbers
from holdfast.structure import build, common, differs, flatten

Rows = np.ndarray
Measured = Callable[[str], bool]
UNIT = 512  # columns are read in multiples of it
HELD, VIEWED = 1 << 18, 1 << 22  # numbers read at once where they are copied (the cache), and where not


def spans(size: int, width: int) -> Iterator[tuple[int, int]]:
    """Cut 0..size into pieces of at most width.

    >>> list(spans(5, 2))
    [(0, 2), (2, 4), (4, 5)]
    """
    return ((s, min(s + width, size)) for s in range(0, size, width))


def in_parallel(work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """The results in order, worked out on all the cores that this process is allowed."""
    items = list(items)
    if len(items) == 1:  # threads would cost more than the work
        return [work(items[0])]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with ThreadPoolExecutor(cores) as pool:
        return list(pool.map(work, items))


@dataclass
class Leaf:
    """One entry of the structure, over all workers: n rows of `size` numbers."""

    name: str
    shape: tuple[int, ...]
    kind: str  # "f4" or "f8" to compute in, "i" for counters
    data: Any  # one (n, size) array, or a list of n arrays
    like: Any  # the array whose library and device the answer takes
    dtype: Any  # the answer's dtype; None: the computed one
    measured: bool = True
    extras: list[np.ndarray] = field(default_factory=list)  # rows of our own behind the workers'
    whole: int | None = None  # columns with those of other processes; None: all are here

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def computed(self) -> np.dtype[Any]:
        """The dtype of its arithmetic."""
        return np.dtype({"f4": np.float32, "f8": np.float64, "i": np.int64}[self.kind])

    def spans(self, rows: int) -> Iterator[tuple[int, int]]:
        """The columns in pieces, as many as may be read at once for so many rows."""
        view = isinstance(self.data, np.ndarray) and self.data.dtype == self.computed
        return spans(self.size, max(1, (VIEWED if view else HELD) // max(1, rows) // UNIT) * UNIT)

    def same(self, i: int, j: int) -> bool:
        """Whether two rows are equal to the bit; stops at the first difference."""
        pieces = spans(self.size, HELD)
        return all((self._row(i, s, e) == self._row(j, s, e)).all() for s, e in pieces)

    def _row(self, i: int, s: int, e: int) -> np.ndarray:
        if i >= len(self.data):
            return self.extras[i - len(self.data)][s:e]
        return numbers(_columns(self.data[i], s, e), self.computed)

    def block(self, rows: Rows | None, s: int, e: int, dtype: Any = None) -> np.ndarray:
        """Columns s to e of some rows (None: of all workers); a view where that is possible."""
        dtype = np.dtype(dtype or self.computed)
        if not isinstance(self.data, list) and (rows is None or not self.extras):
            return numbers(self.data[:, s:e] if rows is None else self.data[rows, s:e], dtype)
        rows = np.arange(len(self.data)) if rows is None else rows
        out = np.empty((len(rows), e - s), dtype)
        for at, i in enumerate(rows):
            out[at] = self._row(i, s, e)
        return out


def _columns(row: Array, s: int, e: int) -> Array:
    if isinstance(row, np.ndarray) and not row.flags.c_contiguous:
        return np.asarray(row.flat[s:e])  # reads these columns only
    return row.reshape(-1)[s:e]


def alone(part: np.ndarray) -> np.ndarray:
    """All columns are here, in one shard."""
    return part[None]


@dataclass
class Updates:
    """n updates read alike; `malformed` names the rows that could not be, with the reason.

    The columns may be spread over several processes that all do the same: `shards` gives what each of them found in
    its own columns, stacked, and whatever is said of whole rows is said after asking it.
    """

    n: int
    leaves: list[Leaf]
    rebuild: Callable[[Iterator[Any]], Any]
    malformed: dict[int, str]
    seen: np.ndarray | None = None  # which rows are finite, once looked at
    shards: Callable[[np.ndarray], np.ndarray] = alone
    processes: int = 1

    @property
    def floats(self) -> list[Leaf]:
        return [leaf for leaf in self.leaves if leaf.kind != "i"]

    def formed(self) -> np.ndarray:
        """Which rows have the right structure."""
        ok = np.ones(self.n, bool)
        ok[list(self.malformed)] = False
        return ok

    def finite(self) -> np.ndarray:
        """Which of these hold finite numbers only: one cheap look at everything, taken once."""
        if self.seen is None:
            self.seen = self._look()
        return self.seen.copy()

    def _look(self) -> np.ndarray:
        ok = self.formed()
        rows = np.flatnonzero(ok)
        with np.errstate(all="ignore"):
            for leaf, s, e in self._chunks(len(rows)):
                block = leaf.block(None if len(rows) == self.n else rows, s, e)
                ok[rows] &= np.isfinite(block @ np.ones(e - s, block.dtype))
        for i in rows[~ok[rows]]:  # the sum of large finite numbers overflows too: look again
            at = np.array([i])
            ok[i] = all(np.isfinite(leaf.block(at, s, e)).all() for leaf, s, e in self._chunks(1))
        return np.asarray(self.shards(ok).all(axis=0))

    def _chunks(self, rows: int) -> Iterator[tuple[Leaf, int, int]]:
        return ((leaf, s, e) for leaf in self.floats for s, e in leaf.spans(rows))

    def append(self, values: Sequence[np.ndarray]) -> int:
        """Add a row of our own, one flat array a leaf, and return its number."""
        for leaf, value in zip(self.leaves, values, strict=True):
            leaf.extras.append(value)
        return self.n + len(self.leaves[0].extras) - 1

    def answer(self, values: Sequence[np.ndarray]) -> Any:
        """One flat array a leaf -> an update with the structure, library, dtype and device given."""
        with np.errstate(over="ignore"):
            parts = [
                give_back(value.reshape(leaf.shape), leaf.like, leaf.dtype)
                for leaf, value in zip(self.leaves, values, strict=True)
            ]
        return self.rebuild(iter(parts))


def read(X: Any, who: str, like: Any = None, measure: Measured | None = None) -> Updates:
    """Understand what was given: an (n, ...) array, a sequence of n updates, or what was read before.

    With `like`, an update of the right structure (the server's own model), rows of another
    structure are malformed and left out by name; without it they are refused, since nobody can
    know which structure is meant.
    """
    if isinstance(X, Updates):
        return X
    if library(X):
        return _from_matrix(X, who, like, measure)
    if isinstance(X, (str, bytes, Mapping)) or not hasattr(X, "__iter__"):
        raise BadInput(f"{who} was given {article(type(X).__name__)}; pass an (n, d) array or a list of n updates.")
    given = list(X)
    if not given:
        raise BadInput(f"{who} was given n = 0 vectors; gather at least one.")
    flats = [flatten(update) for update in given]
    model = common(flats, who) if like is None else flatten(like)
    if isinstance(model, str):
        raise BadInput(f"{who} was given a `like` that is no update: {model}.")
    malformed = {i: why for i, flat in enumerate(flats) if (why := differs(flat, model))}
    if len(malformed) == len(given):
        raise BadInput(f"{who} was given {len(given)} updates, none of the structure of `like`: {malformed[0]}.")
    sound = [flat for i, flat in enumerate(flats) if i not in malformed and not isinstance(flat, str)]
    usual = [own if like is not None else _usual([flat[at] for flat in sound]) for at, (_, _, own) in enumerate(model)]
    counts = all(kind(host(a)) == "i" for a in usual)
    leaves = []
    for at, (name, a, _) in enumerate(model):
        column = [a if isinstance(f, str) or i in malformed else f[at][1] for i, f in enumerate(flats)]
        leaves.append(_leaf(name, column, usual[at], tuple(a.shape), counts, measure))
    template = given[0] if like is None else like
    return _checked(Updates(len(given), leaves, lambda parts: build(template, parts), malformed), who)


def _usual(column: list[tuple[str, Array, Any]]) -> Any:
    """The first array of the commonest library, device and dtype, which no minority can choose; of two, the wider."""
    looks = [(library(own), str(getattr(own, "device", "")), str(a.dtype)) for _, a, own in column]
    votes = Counter(looks)
    width = {look: ("i", "f4", "f8").index(kind(a)) for look, (_, a, _) in zip(looks, column, strict=True)}
    best = max(votes, key=lambda look: (votes[look], width[look]))
    return column[looks.index(best)][2]


def _from_matrix(X: Any, who: str, like: Any, measure: Measured | None) -> Updates:
    try:
        data = host(X)
    except BadInput:
        raise
    except Exception as error:
        raise BadInput(f"{who} was given {article(type(X).__name__)} that cannot be read: {error}.") from error
    shape = tuple(data.shape)
    if not kind(data):
        raise BadInput(f"{who} was given an array of {data.dtype}; send real numbers.")
    if len(shape) < 2:
        raise BadInput(f"{who} was given an array of shape {shape}; pass one row a worker, shape (n, d).")
    if shape[0] == 0:
        raise BadInput(f"{who} was given n = 0 vectors; gather at least one.")
    flat = [("", np.empty(shape[1:]), None)] if like is None else flatten(like)
    if isinstance(flat, str) or differs(flat, [("", np.empty(shape[1:]), None)]):
        raise BadInput(f"{who} was given rows of shape {shape[1:]}, but `like` has another structure.")
    leaf = _leaf("", data.reshape(shape[0], -1) if len(shape) > 2 else data, X, shape[1:], True, measure)
    return _checked(Updates(shape[0], [leaf], next, {}), who)


def spread(
    columns: Mapping[str, Array],
    sizes: Mapping[str, int],
    shards: Callable[[np.ndarray], np.ndarray],
    processes: int,
    measure: Measured | None = None,
) -> Updates:
    """Updates of which every process has some columns: of each entry (n, m) numbers, m of its own, 0 or more."""
    columns = dict(sorted(columns.items()))  # the order in which entries of a dict are told
    counts = all(kind(host(data)) == "i" for data in columns.values())
    leaves = [_leaf(name, host(data), data, (data.shape[1],), counts, measure) for name, data in columns.items()]
    for leaf in leaves:
        leaf.whole = sizes[leaf.name]
    n = len(next(iter(columns.values())))
    return Updates(n, leaves, lambda parts: dict(zip(columns, parts, strict=True)), {}, None, shards, processes)


def _leaf(name: str, data: Any, like: Any, shape: tuple[int, ...], counts: bool, measure: Measured | None) -> Leaf:
    how = kind(host(like))
    integer = how == "i"
    dtype = None if integer and counts else host(like).dtype if library(like) != "torch" else like.dtype
    how = "f8" if integer and counts else how
    data = _stacked(data) if isinstance(data, list) else data
    return Leaf(name, shape, how, data, like, dtype, how != "i" and (measure is None or bool(measure(name))))


def _stacked(rows: list[Any]) -> Any:
    """One (n, size) array where the rows are those of one array, one after the other; else the list."""
    whole = rows[0].base if isinstance(rows[0], np.ndarray) else None
    if not isinstance(whole, np.ndarray) or whole.shape != (len(rows), *rows[0].shape) or not whole.flags.c_contiguous:
        return rows
    step, first = whole.strides[0], whole.__array_interface__["data"][0]
    for i, row in enumerate(rows):
        here = isinstance(row, np.ndarray) and row.__array_interface__["data"][0] == first + i * step
        if not here or row.dtype != whole.dtype or row.shape != whole.shape[1:] or not row.flags.c_contiguous:
            return rows
    return whole.reshape(len(rows), -1)


def _checked(updates: Updates, who: str) -> Updates:
    if sum(leaf.size for leaf in updates.leaves) == 0:
        raise BadInput(f"{who} was given empty updates; send at least one number a worker.")
    if not any(leaf.measured for leaf in updates.leaves):
        raise BadInput(f"{who} was told to measure none of {listing(leaf.name for leaf in updates.leaves)}.")
    return updates
