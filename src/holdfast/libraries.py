"""Arrays of other libraries, read as numpy and given back as they came; nothing is imported unasked.

CPU arrays of torch and JAX share memory with their numpy view. What numpy cannot view (bfloat16,
tensors on a GPU) stays with its library and comes over block by block.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from holdfast.errors import BadInput

Array = Any
"""A numpy array or a torch tensor: whatever can be sliced by columns."""


def library(x: object) -> str:
    """Where an array comes from: "numpy", "torch" or "jax"; "" if it is no array.

    >>> library(np.zeros(3)), library([0.0])
    ('numpy', '')
    """
    if isinstance(x, np.ndarray):
        return "numpy"
    root = type(x).__module__.partition(".")[0]
    if root == "torch" or _is_tensor(x):
        return "torch" if _is_tensor(x) else ""
    if root in ("jax", "jaxlib") and hasattr(x, "__array__"):
        return "jax"
    return "numpy" if hasattr(x, "__array__") and hasattr(x, "shape") else ""


def _is_tensor(x: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def host(x: Any) -> Array:
    """A numpy view of x without a copy where there is one, else the tensor itself."""
    if isinstance(x, np.ma.MaskedArray):
        raise BadInput("a masked array was given; fill it, or leave the update out.")
    if not _is_tensor(x):
        return np.asarray(x)
    torch = sys.modules["torch"]
    if x.is_nested or x.layout != torch.strided or x.is_quantized or x.device.type == "meta":
        what = "without data" if x.device.type == "meta" else f"of layout {x.layout}"
        raise BadInput(f"a tensor {what} was given; send dense tensors with numbers.")
    x = x.detach()
    if x.device.type == "cpu" and x.dtype in _viewable():
        return x.resolve_neg().numpy()
    return x


def _viewable() -> tuple[Any, ...]:
    t = sys.modules["torch"]
    return (t.float16, t.float32, t.float64, t.uint8, t.int8, t.int16, t.int32, t.int64, t.bool)


def kind(x: Array) -> str:
    """How the numbers are computed with: "f4", "f8", "i" (counts) or "" (cannot be).

    >>> kind(np.zeros(1, np.float16)), kind(np.zeros(1, int)), kind(np.array(["a"]))
    ('f4', 'i', '')
    """
    if not isinstance(x, np.ndarray):
        if x.is_complex():
            return ""
        if not x.is_floating_point():
            return "i"
        return "f8" if x.element_size() == 8 else "f4"
    if x.dtype.kind in "biu":
        return "i"
    if x.dtype.kind == "f":
        return "f4" if x.dtype.itemsize <= 4 else "f8"
    return "f4" if "float" in x.dtype.name else ""  # bfloat16 and its kin, which numpy knows by name only


def numbers(x: Array, dtype: Any) -> np.ndarray:
    """A block as numpy numbers of the given dtype; no copy where it is that already."""
    if isinstance(x, np.ndarray):
        if x.dtype == dtype:
            return x
        with np.errstate(over="ignore", invalid="ignore"):  # what float32 cannot hold becomes inf, and is seen as such
            return x.astype(dtype)
    torch = sys.modules["torch"]
    to = {"f8": torch.float64, "i8": torch.int64}.get(np.dtype(dtype).str[1:], torch.float32)
    return np.asarray(x.to("cpu", to).numpy(), dtype)


def give_back(value: np.ndarray, like: Any, dtype: Any = None) -> Any:
    """The numbers as an array of like's library and device; dtype None keeps the numpy dtype."""
    where = library(like)
    if where == "torch":
        torch = sys.modules["torch"]
        out = torch.from_numpy(np.ascontiguousarray(value).reshape(value.shape)).to(like.device)
        return out if dtype is None else out.to(dtype)
    out = np.asarray(value) if dtype is None else np.asarray(value).astype(dtype, copy=False)
    return sys.modules["jax"].numpy.asarray(out) if where == "jax" else out
