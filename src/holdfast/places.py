"""A place is a library on a device. Arithmetic on vectors runs there; only `fetch` brings numbers over.

What crosses is n x n or n numbers, whatever the length of the vectors. A device without float64 gives its sums
block by block, at least 8,192 columns each, and the host adds them in float64.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any, Protocol

import array_api_compat
import numpy as np

from holdfast.arrays import Array, Kind, device, library, namespace, viewable

BLOCK = 8192  # columns of the longest dot product in the input's precision
COPIED, IN_PLACE = 1 << 22, 1 << 26  # numbers of a block that is copied, and of one that is a view
UNITS = {"highest": 2.0**-24, "high": 2.0**-11, "medium": 2.0**-8}  # of torch's products: float32, TF32, bfloat16


class Sums(Protocol):
    """Inner products of rows, added up in float64 over blocks of columns."""

    def add(self, Y: Array) -> None:
        """Add the products of one block."""

    def total(self) -> tuple[np.ndarray, np.ndarray]:
        """The products of the left rows with all rows, and the squared lengths of all rows."""


class Place:
    """The functions of one library on one device.

    Attributes
    ----------
    xp : the library's namespace, with the names of the array API standard
    float64 : whether the device computes in float64
    unit : the part by which a float32 product may be rounded before it is added
    """

    def __init__(self, xp: ModuleType, device: Hashable, *, float64: bool, unit: float = 2.0**-24) -> None:
        self.xp, self.device, self.float64, self.unit = xp, device, float64, unit
        self.int64 = True

    def dtype(self, kind: Kind) -> Hashable:
        """The dtype in which this kind of numbers is computed here."""
        xp = self.xp
        whole = "int64" if self.int64 else "int32"
        wide = {"f8": "float64" if self.float64 else "float32", "f4": "float32", "i": whole}[kind]
        found: Hashable = getattr(xp, wide)
        return found

    def cast(self, x: Array, kind: Kind) -> Array:
        """The same numbers to compute with; no copy where they are of that dtype."""
        return self.xp.astype(x, self.dtype(kind), copy=False)

    def put(self, a: np.ndarray, kind: Kind) -> Array:
        """Numbers of the host, brought here."""
        wide = np.float64 if kind == "f8" and self.float64 else np.float32
        whole = np.int64 if self.int64 else np.int32
        with np.errstate(over="ignore", invalid="ignore"):
            return self.xp.asarray(a.astype(whole if kind == "i" else wide), device=self.device)

    def bring(self, x: Array, kind: Kind) -> Array:
        """An array of any place, brought here to compute with."""
        here = library(x) != "numpy" and namespace(x) is self.xp
        if here and device(x) == self.device:
            return self.cast(x, kind)
        return self.put(fetch(x), kind)

    def fetch(self, x: Array) -> np.ndarray:
        """Numbers of this place, brought to the host."""
        return fetch(x)

    def take(self, x: Array, rows: np.ndarray) -> Array:
        """Some rows of a block."""
        at = self.xp.asarray(rows.astype(np.int64 if self.int64 else np.int32), device=self.device)
        return self.xp.take(x, at, axis=0)

    def put_rows(self, block: Array, at: np.ndarray, rows: Array) -> Array:
        """A block of ours with other rows where `at` is true; it may be changed in place."""
        order = np.arange(len(at))
        order[at] = len(at) + np.arange(int(at.sum()))
        return self.take(self.xp.concat([block, rows]), order)

    def stack(self, rows: Sequence[Array], kind: Kind) -> Array:
        """Rows as one block."""
        return self.xp.stack([self.bring(row, kind) for row in rows])

    def join(self, pieces: Iterable[Array], length: int) -> Array:
        """Pieces of a vector, or rows of a block, of this length in all, as one."""
        parts = list(pieces)
        return parts[0] if len(parts) == 1 else self.xp.concat(parts)

    def width(self, rows: int, *, view: bool) -> int:
        """How many columns are read at once for this number of rows."""
        return max(1, (IN_PLACE if view else COPIED) // max(1, rows) // BLOCK) * BLOCK

    def matmul(self, A: Array, B: Array) -> Array:
        """A product in the full precision of its factors, or one whose rounding `unit` tells."""
        return self.xp.matmul(A, B)

    def weighted(self, w: np.ndarray, Y: Array, kind: Kind) -> Array:
        """The weighted sum of a block's rows, or one for each row of weights; plain sums, since they are the answer."""
        xp = self.xp
        if w.ndim == 1 and self.unit > 2.0**-24 and kind == "f4":
            return xp.sum(Y * xp.expand_dims(self.put(w, kind), axis=1), axis=0)
        return self.matmul(self.put(w, kind), Y)

    def sums(self, left: np.ndarray | None) -> Sums:
        """An empty sum of products of the rows `left` (None: all) with all rows."""
        return DeviceSums(self, left)

    def finite(self, Y: Array, *, each: bool = False) -> Array:
        """Which rows have a finite sum; with `each`, which consist of finite numbers."""
        xp = self.xp
        return xp.all(xp.isfinite(Y), axis=1) if each else xp.isfinite(xp.sum(Y, axis=1))

    def largest(self, Y: Array) -> Array:
        """The largest size of a number in each row."""
        return self.xp.max(self.xp.abs(Y), axis=1)

    def squares(self, Y: Array) -> Array:
        """The sum of squares of each row."""
        return self.xp.sum(Y * Y, axis=1)

    def equal(self, rows: Sequence[Array], other: Array) -> Array:
        """Which rows are equal to another in every number."""
        return self.xp.stack([self.xp.all(row == other) for row in rows])


def pieces_of(Y: Array, xp: ModuleType) -> Iterator[Array]:
    """A block as (pieces, n, columns): those of the longest dot product at once, then what is left."""
    n, columns = Y.shape
    whole = columns // BLOCK * BLOCK
    if whole:
        yield xp.permute_dims(xp.reshape(Y[:, :whole], (n, -1, BLOCK)), (1, 0, 2))
    if columns > whole:
        yield Y[None, :, whole:]


class DeviceSums:
    """Products of blocks on the device, added up there in float64, or on the host if the device has none."""

    def __init__(self, place: Place, left: np.ndarray | None) -> None:
        self.place, self.left = place, left
        self.here: dict[str, Array] = {}
        self.host: dict[str, np.ndarray] = {}

    def add(self, Y: Array) -> None:
        for Z in pieces_of(Y, self.place.xp):
            self._add(Z)

    def _add(self, Z: Array) -> None:
        """(pieces, n, columns): products of each piece, added over the pieces."""
        place, xp = self.place, self.place.xp
        if self.left is None:
            self._keep("G", place.matmul(Z, xp.matrix_transpose(Z)))
            return
        if len(self.left):
            at = xp.asarray(self.left.astype(np.int32), device=place.device)
            self._keep("G", place.matmul(xp.take(Z, at, axis=1), xp.matrix_transpose(Z)))
        self._keep("g", xp.sum(Z * Z, axis=2))

    def _keep(self, name: str, pieces: Array) -> None:
        if self.place.float64:
            more = self.place.xp.sum(pieces, axis=0, dtype=self.place.xp.float64)
            self.here[name] = self.here[name] + more if name in self.here else more
        else:
            added = self.place.fetch(pieces).astype(np.float64).sum(axis=0)
            self.host[name] = self.host[name] + added if name in self.host else added

    def total(self) -> tuple[np.ndarray, np.ndarray]:
        found = self.host | {name: self.place.fetch(x) for name, x in self.here.items()}
        if self.left is None:
            return found["G"], found["G"].diagonal()
        g = found["g"]
        return found.get("G", np.zeros((0, len(g)))), g


def product_unit() -> float:
    """The rounding of torch's float32 products under its settings; the coarsest where no one setting tells."""
    try:
        return UNITS[sys.modules["torch"].get_float32_matmul_precision()]
    except (KeyError, RuntimeError):  # set apart for each library, by torch.backends
        return UNITS["medium"]


@lru_cache(maxsize=1)
def _torch_namespace() -> ModuleType:
    return array_api_compat.array_namespace(sys.modules["torch"].empty(0))


class Torch(Place):
    """torch on any device, in the precision that its settings allow and without autocast."""

    def __init__(self, device: Hashable) -> None:
        torch = sys.modules["torch"]
        self.type: str = torch.device(device).type
        unit = product_unit()
        xp = _torch_namespace()
        super().__init__(xp, device, float64=self.type != "mps", unit=unit)  # Apple's devices have no float64

    def matmul(self, A: Array, B: Array) -> Array:
        torch = sys.modules["torch"]
        multiply = torch.bmm if len(A.shape) == len(B.shape) == 3 else torch.matmul
        if not torch.is_autocast_enabled(self.type):
            return multiply(A, B)
        with torch.autocast(self.type, enabled=False):
            return multiply(A, B)


class Jax(Place):
    """JAX, with products in full precision, which its default on accelerators is not."""

    def __init__(self, device: Hashable) -> None:
        jax = sys.modules["jax"]
        super().__init__(jax.numpy, device, float64=bool(jax.config.jax_enable_x64))
        self.int64 = self.float64

    def matmul(self, A: Array, B: Array) -> Array:
        return self.xp.matmul(A, B, precision="highest")


def fetch(x: Any) -> np.ndarray:
    """Numbers of any place, brought to the host: the only way out of a device."""
    match library(x):
        case "torch":
            here = x.detach().cpu()
            return np.asarray(here if here.dtype in viewable() or not here.is_floating_point() else here.float())
        case "other":
            return np.asarray(x.get() if array_api_compat.is_cupy_array(x) else np.from_dlpack(x, device="cpu"))
    return np.asarray(x)
