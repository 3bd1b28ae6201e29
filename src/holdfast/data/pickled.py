"""CIFAR-10's Python batches are pickles; this reads dicts, lists, numbers, bytes and arrays of bytes, and nothing else.

No name in the file is looked up. The four that numpy writes for an array are answered by stand-ins of this
module, and any other is refused, so that a file can run no code.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import BadInput


class _Dtype:
    """Stands in for numpy.dtype: remembers its text; byte order and the rest do not matter for bytes."""

    def __init__(self, text: Any, *_: Any) -> None:
        self.text = text.decode() if isinstance(text, bytes) else text

    def __setstate__(self, state: Any) -> None:
        pass


class _Array:
    """Stands in for numpy.ndarray: keeps shape and bytes."""

    value: np.ndarray | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, raw = state
        if not isinstance(dtype, _Dtype) or dtype.text not in ("u1", "uint8") or not isinstance(raw, bytes):
            raise pickle.UnpicklingError("an array of something other than bytes")
        self.value = np.frombuffer(raw, np.uint8).reshape(shape, order="F" if fortran else "C")


def _empty(*_: Any) -> _Array:
    return _Array()


def _latin(text: str, _: Any) -> bytes:
    return text.encode("latin-1")  # how Python 3 writes bytes into pickles that Python 2 can read


NAMES = {
    ("numpy.core.multiarray", "_reconstruct"): _empty,
    ("numpy._core.multiarray", "_reconstruct"): _empty,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _latin,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in NAMES:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no batch of images needs")
        return NAMES[module, name]


def plain(path: Path) -> dict[Any, Any]:
    """The dict in a pickle of plain values."""
    try:
        content = _Reader(io.BytesIO(path.read_bytes()), encoding="bytes").load()
    except Exception as error:  # a damaged pickle raises almost anything
        raise BadInput(f"{path} is no batch of CIFAR-10 ({error or type(error).__name__}); fetch it again.") from None
    if not isinstance(content, dict):
        raise BadInput(f"{path} holds {type(content).__name__} instead of a dict; fetch it again.")
    return {key: one.value if isinstance(one, _Array) else one for key, one in content.items()}
