"""One entry of the structure over all workers: n rows of numbers, read as blocks of columns where they live."""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from holdfast.arrays import Array, Kind, device, kind, library, namespace
from holdfast.host import Host, TorchHost, spans
from holdfast.places import UNITS, Jax, Place, Torch, product_unit
from holdfast.structure import Entry

EQUAL = 1 << 18  # numbers of two rows that are compared at once


@dataclass
class Leaf:
    """n rows of `size` numbers."""

    name: str
    shape: tuple[int, ...]
    kind: Kind
    data: Array | Sequence[Array]  # one (n, size) array, or n arrays
    like: Array  # the array whose library and device the answer takes
    dtype: Hashable | None  # the answer's dtype; None: the computed one
    place: Place  # where it is computed
    measured: bool = True
    extras: list[Array] = field(default_factory=list)  # rows of our own behind the workers', at that place
    whole: int | None = None  # columns with those of other processes; None: all are here

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def columns(self) -> int:
        """The columns in all processes."""
        return self.size if self.whole is None else self.whole

    @property
    def computed(self) -> Kind:
        """The kind of its arithmetic, which a device without float64 narrows."""
        return "f4" if self.kind == "f8" and not self.place.float64 else self.kind

    def spans(self, rows: int) -> Iterator[tuple[int, int]]:
        """The columns in pieces that are read at once for this number of rows."""
        view = not isinstance(self.data, Sequence) and self.data.dtype == self.place.dtype(self.kind)
        return spans(self.size, self.place.width(rows, view=view))

    @property
    def workers(self) -> int:
        """How many rows are the workers'."""
        return len(self.data) if isinstance(self.data, Sequence) else self.data.shape[0]

    def row(self, i: int, s: int, e: int) -> Array:
        """Columns s to e of one row."""
        if i >= self.workers:
            return cast(Array, self.extras[i - self.workers][s:e])
        if isinstance(self.data, Sequence):
            return self.place.bring(columns(self.data[i], s, e), self.kind)
        return self.place.cast(self.data[i, s:e], self.kind)

    def block(self, rows: np.ndarray | None, s: int, e: int, *, wide: bool = False) -> Array:
        """Columns s to e of some rows (None: of all workers); a view where that is possible."""
        computed: Kind = "f8" if wide and self.kind == "f4" else self.kind
        if not isinstance(self.data, Sequence) and (rows is None or not self.extras):
            part = self.data[:, s:e]
            return self.place.cast(part if rows is None else self.place.take(part, rows), computed)
        chosen = range(self.workers) if rows is None else map(int, rows)
        return self.place.stack([self.row(i, s, e) for i in chosen], computed)

    def copies(self, rows: np.ndarray, of: int) -> Array:
        """Which rows equal another to the bit."""
        same: Array = np.ones(len(rows), bool)
        for s, e in spans(self.size, EQUAL):
            wanted = self.row(of, s, e)
            found = self.place.equal([self.row(int(i), s, e) for i in rows], wanted)
            same = found if s == 0 else same & found
            if isinstance(same, np.ndarray) and not same.all():  # a device would have to be asked
                break
        return same

    def answer(self, value: Array) -> Array:
        """The computed numbers with the shape, library, dtype and device of an update's."""
        xp = self.place.xp
        value = xp.reshape(value, self.shape)
        if not isinstance(value, np.ndarray):
            return value if self.dtype is None else xp.astype(value, self.dtype, copy=False)
        match library(self.like):
            case "torch":
                torch = sys.modules["torch"]
                out = torch.from_numpy(np.ascontiguousarray(value).reshape(self.shape))
                return out if self.dtype is None else out.to(self.dtype)
        with np.errstate(over="ignore"):
            return value if self.dtype is None else value.astype(cast("np.dtype[np.generic]", self.dtype), copy=False)


def columns(row: Array, s: int, e: int) -> Array:
    """Numbers s to e of an array in order."""
    if isinstance(row, np.ndarray):
        return np.asarray(row.flat[s:e]) if not row.flags.c_contiguous else row.reshape(-1)[s:e]  # these columns only
    xp = namespace(row)
    return xp.reshape(row, (-1,))[s:e]


class Places(dict[tuple[str, str], Place]):
    """The places of a round: one for each library and device, so that their sums are fetched once."""

    def of(self, numbers: Array, given: Array) -> Place:
        """Where an array is computed: on its own device; numpy's views of CPU tensors on the host."""
        name = (f"{library(given)} {library(numbers)}", str(device(numbers)))
        if name not in self:
            self[name] = _place(numbers, given)
        return self[name]


def _place(numbers: Array, given: Array) -> Place:
    match library(numbers):
        case "numpy":
            exact = library(given) == "torch" and product_unit() == UNITS["highest"]
            return TorchHost() if exact else Host()
        case "torch":
            return Torch(device(numbers))
        case "jax":
            return Jax(device(numbers))
    xp, there = namespace(numbers), device(numbers)
    known = xp.__array_namespace_info__().dtypes(device=there)
    place = Place(xp, there, float64="float64" in known)
    place.int64 = "int64" in known
    return place


def leaf(data: Array | Sequence[Array], usual: Entry, places: Places, *, counts: bool, measured: bool) -> Leaf:
    """One entry over all workers; `usual` is the array whose looks the answer takes.

    With `counts`, all entries are whole numbers: then they are measured as any numbers, in float64.
    """
    how = kind(usual.numbers)
    assert how is not None
    dtype = None if how == "i" and counts else (usual.numbers if library(usual.given) == "numpy" else usual.given).dtype
    how = "f8" if how == "i" and counts else how
    shape = tuple(data[0].shape) if isinstance(data, Sequence) else tuple(data.shape[1:])
    place = places.of(usual.numbers, usual.given)
    rows = _rows(data, place) if isinstance(data, Sequence) else _matrix(data)
    return Leaf(usual.name, shape, how, rows, usual.given, dtype, place, how != "i" and measured)


def _rows(rows: Sequence[Array], place: Place) -> Array | Sequence[Array]:
    """The rows as they are read: on the host as one array where they are one, elsewhere each as a vector."""
    if isinstance(place, Host):
        return _stacked(rows)
    return [row if isinstance(row, np.ndarray) else namespace(row).reshape(row, (-1,)) for row in rows]


def _stacked(rows: Sequence[Array]) -> Array | Sequence[Array]:
    """One (n, size) array where the rows are those of one array, one after the other; else the rows."""
    whole = rows[0].base if isinstance(rows[0], np.ndarray) else None
    if not isinstance(whole, np.ndarray) or whole.shape != (len(rows), *rows[0].shape) or not whole.flags.c_contiguous:
        return rows
    step, first = whole.strides[0], whole.__array_interface__["data"][0]
    for i, row in enumerate(rows):
        if not isinstance(row, np.ndarray) or row.__array_interface__["data"][0] != first + i * step:
            return rows
        if row.dtype != whole.dtype or row.shape != whole.shape[1:] or not row.flags.c_contiguous:
            return rows
    return whole.reshape(len(rows), -1)


def _matrix(data: Array) -> Array:
    """Rows of many axes as rows of one."""
    if len(data.shape) == 2:
        return data
    xp = np if isinstance(data, np.ndarray) else namespace(data)
    return xp.reshape(data, (data.shape[0], -1))
