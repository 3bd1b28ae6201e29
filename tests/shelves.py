"""The same rows in every array library that the tests know, and answers brought back as numpy's."""

from __future__ import annotations

from typing import Any

import array_api_strict as strict
import jax.numpy as jnp
import numpy as np
import torch

DEVICES = {f"strict {name}": strict.Device(name) for name in ("CPU_DEVICE", "device1", "no_float64")}
"""device1 raises on every silent conversion to numpy; no_float64 has no float64."""
LIBRARIES = ("numpy", "torch", "torch device", "jax", *DEVICES)
NARROW = ("jax", "strict no_float64")  # they compute in float32 alone


def held(X: np.ndarray, library: str) -> np.ndarray:
    """The numbers that the library can hold."""
    if library in NARROW and X.dtype == np.float64:
        with np.errstate(over="ignore"):
            return X.astype(np.float32)
    if library in DEVICES and X.dtype == np.float16:
        return X.astype(np.float32)
    return X


def given(X: np.ndarray, library: str) -> Any:
    """The rows as an array of the library; "torch device" is torch without numpy's views."""
    X = held(X, library)
    if library.startswith("torch"):
        return torch.from_numpy(X.copy())
    if library == "jax":
        return jnp.asarray(X)
    return strict.asarray(X, device=DEVICES[library]) if library in DEVICES else X


def numbers(value: Any) -> np.ndarray:
    """An answer of any library as numpy's."""
    return np.from_dlpack(value, device="cpu") if isinstance(value, type(strict.asarray(0))) else np.asarray(value)
