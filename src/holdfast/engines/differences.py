"""Differences of models, and steps by them: floats in their own type, integers in a wider signed one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Model = dict[str, np.ndarray]
WIDER = {1: np.int16, 2: np.int32, 4: np.int64, 8: np.int64}  # by bytes of an integer
INT64_MIN, INT64_MAX = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def difference_dtype(values: np.ndarray) -> np.dtype[Any]:
    """The dtype that holds the difference of two such arrays.

    >>> [difference_dtype(np.zeros(1, kind)).name for kind in ("float32", "bool", "uint8", "int64", "uint64")]
    ['float32', 'int8', 'int16', 'int64', 'int64']
    """
    if values.dtype.kind == "b":
        return np.dtype(np.int8)
    return np.dtype(WIDER[values.dtype.itemsize]) if values.dtype.kind in "iu" else values.dtype


def subtract(values: np.ndarray, ours: np.ndarray, out: np.ndarray) -> None:
    """Write values minus ours into `out`, which is of the dtype of their difference.

    No difference wraps. Two 64-bit integers can be further apart than int64 holds; their difference then ends at the
    border of int64, so that differences are ordered as the values are.
    """
    np.subtract(values.astype(out.dtype, copy=False), ours.astype(out.dtype, copy=False), out=out)
    if ours.dtype.kind in "iu" and ours.dtype.itemsize == 8:
        values = values.astype(ours.dtype, copy=False)
        np.copyto(out, INT64_MAX, where=(values > ours) & (out < 0))
        np.copyto(out, INT64_MIN, where=(values < ours) & (out >= 0))


def fits(values: np.ndarray, ours: np.ndarray) -> bool:
    """Whether our dtype holds these integers.

    >>> fits(np.array([255]), np.zeros(1, np.uint8)), fits(np.array([256]), np.zeros(1, np.uint8))
    (True, False)
    """
    if np.can_cast(values.dtype, ours.dtype) or not values.size:
        return True
    border = np.iinfo(ours.dtype)
    return bool(border.min <= int(values.min()) and int(values.max()) <= border.max)


def stepped(model: Model, step: Mapping[str, np.ndarray]) -> Model:
    """The model after a step, in its own dtypes."""
    with np.errstate(over="ignore"):
        return {name: _moved(values, np.asarray(step[name])) for name, values in model.items()}


def _moved(values: np.ndarray, step: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "iub":
        return np.asarray((values + step).astype(values.dtype))
    if step.dtype.kind == "f":  # the mean of a model that consists of integers
        step = np.rint(step).clip(float(INT64_MIN), np.nextafter(float(INT64_MAX), 0)).astype(np.int64)
    return np.asarray((values.astype(np.int64) + step.astype(np.int64)).astype(values.dtype))
