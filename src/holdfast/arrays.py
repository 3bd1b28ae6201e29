"""Arrays of any library: which library it is, where the numbers live, what kind they are.

numpy, torch, JAX, CuPy and every other library that keeps to the array API standard are found by array-api-compat;
nothing is imported unasked. Whatever else has `__array__` is read as numpy.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable
from functools import lru_cache
from types import ModuleType
from typing import Any, Literal, Protocol, TypeGuard

import array_api_compat
import numpy as np

from holdfast.errors import BadInput

Kind = Literal["f4", "f8", "i"]
"""How numbers are computed with: in float32, in float64, or as counters."""
Library = Literal["numpy", "torch", "jax", "other"]


class Unreadable(BadInput):
    """Raised for an array that cannot be computed with: what it is, and what would work."""

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(f"{what} was given; {advice}.")
        self.what, self.advice = what, advice


class Array(Protocol):
    """What the core asks of an array; the functions on it come from its library's namespace."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> Hashable: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __add__(self, other: Any, /) -> Array: ...
    def __sub__(self, other: Any, /) -> Array: ...
    def __mul__(self, other: Any, /) -> Array: ...
    def __truediv__(self, other: Any, /) -> Array: ...
    def __and__(self, other: Any, /) -> Array: ...
    def __ge__(self, other: Any, /) -> Array: ...
    def __gt__(self, other: Any, /) -> Array: ...
    def __le__(self, other: Any, /) -> Array: ...
    def __lt__(self, other: Any, /) -> Array: ...


def library(x: object) -> Library | None:
    """The library of an array; None if x is no array.

    >>> library(np.zeros(3)), library([0.0])
    ('numpy', None)
    """
    if isinstance(x, np.ndarray):
        return "numpy"
    if is_tensor(x):
        return "torch"
    if type(x).__module__.partition(".")[0] in ("jax", "jaxlib") and hasattr(x, "__array__"):
        return "jax"
    if isinstance(x, type):
        return None
    if hasattr(x, "__array_namespace__") or array_api_compat.is_cupy_array(x):
        return "numpy" if isinstance(x, np.generic) else "other"
    return "numpy" if hasattr(x, "__array__") and hasattr(x, "shape") else None


def is_array(x: object) -> TypeGuard[Array]:
    """Whether x is an array of some library, or can be read as numpy's."""
    return library(x) is not None


def is_tensor(x: object) -> bool:
    """Whether x is a torch tensor; torch is not imported for it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def viewed(x: Array) -> Array:
    """The array to compute with: numpy's view of what lies in this process's memory, the array itself elsewhere.

    Tensors are detached. Raises BadInput for arrays that hold no plain numbers.
    """
    match library(x):
        case "torch":
            return _tensor(x)
        case "jax":
            return _jax(x)
        case "other":
            return x
    if isinstance(x, np.ma.MaskedArray):
        raise Unreadable("a masked array", "fill it, or leave the update out")
    return np.asarray(x)


def _tensor(x: Any) -> Array:
    torch = sys.modules["torch"]
    if x.is_nested or x.layout != torch.strided or x.is_quantized or x.device.type == "meta":
        what = "without data" if x.device.type == "meta" else f"of layout {x.layout}"
        raise Unreadable(f"a tensor {what}", "send dense tensors with numbers")
    x = x.detach() if type(x) is torch.Tensor else x.detach().as_subclass(torch.Tensor)
    return x.resolve_neg().numpy() if x.device.type == "cpu" and x.dtype in viewable() else x.resolve_neg()


@lru_cache(maxsize=1)
def viewable() -> frozenset[Hashable]:
    """The dtypes of CPU tensors that numpy can view; of the others torch itself computes."""
    t = sys.modules["torch"]
    return frozenset((t.float16, t.float32, t.float64, t.uint8, t.int8, t.int16, t.int32, t.int64, t.bool))


def _jax(x: Array) -> Array:
    if isinstance(x, sys.modules["jax"].core.Tracer):
        advice = "a rule looks at the numbers to decide, so call it outside of jit, vmap and grad"
        raise Unreadable("a traced JAX array", advice)
    return x


def detached(x: Any) -> Array:
    """The same numbers without a tensor's history."""
    bare: Array = x.detach() if is_tensor(x) else x
    return bare


def namespace(x: Array) -> ModuleType:
    """The functions of the array's library, as the array API standard names them."""
    return array_api_compat.array_namespace(x)


def device(x: Array) -> Hashable:
    """Where the array lives, as its library says it."""
    place: Hashable = array_api_compat.device(x)
    return place


def kind(x: Array) -> Kind | None:
    """How the numbers are computed with; None if they are no real numbers.

    >>> kind(np.zeros(1, np.float16)), kind(np.zeros(1, int)), kind(np.array(["a"]))
    ('f4', 'i', None)
    """
    if isinstance(x, np.ndarray):
        if x.dtype.kind in "biu":
            return "i"
        if x.dtype.kind == "f":
            return "f4" if x.dtype.itemsize <= 4 else "f8"
        return "f4" if "float" in x.dtype.name else None  # bfloat16 and its kin, which numpy knows by name only
    xp = namespace(x)
    if xp.isdtype(x.dtype, ("bool", "integral")):
        return "i"
    if xp.isdtype(x.dtype, "real floating") or "float" in str(x.dtype):
        return "f8" if x.dtype == xp.float64 else "f4"
    return None
