"""A model as NVFlare has it: arrays by name; and as JSON, which fits into the configuration of a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from holdfast.engines.differences import Model
from holdfast.errors import BadInput


def to_array(value: object) -> np.ndarray | None:
    """The value as an array of numpy's own; None if it is no array of numpy or torch."""
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if _is_tensor(value):
        try:
            return np.asarray(value.detach().cpu().numpy())  # type: ignore[attr-defined]
        except Exception:  # bfloat16, sparse, uninitialised and other kinds that numpy does not have
            return None
    return None


def like(values: np.ndarray, given: object) -> Any:
    """The array as what was given is: numpy's, or a tensor on its device."""
    if not _is_tensor(given):
        return values
    import torch

    return torch.from_numpy(values).to(given.device)  # type: ignore[attr-defined]


def _is_tensor(value: object) -> bool:
    return any(kind.__module__ == "torch" and kind.__name__ == "Tensor" for kind in type(value).__mro__)


def read_model(given: object, who: str) -> Model:
    """The first model of a job, which must be finite arrays by name."""
    if not isinstance(given, Mapping):
        raise BadInput(f"{who} was given a model of type {type(given).__name__}; pass arrays by name.")
    if not given:
        raise BadInput(f"{who} was given a model without arrays; pass arrays by name.")
    for name in given:
        if not isinstance(name, str):
            raise BadInput(f"{who} was given an array whose name is of type {type(name).__name__}; name it by a text.")
    arrays = {name: to_array(value) for name, value in given.items()}
    for name, values in arrays.items():
        if values is None or values.dtype.kind not in "fiub":
            one = given[name]
            kind = type(one).__name__ + (f" of {one.dtype}" if hasattr(one, "dtype") else "")
            raise BadInput(
                f"{who} was given {name!r} of type {kind}; pass arrays of numbers that numpy has, such as float32."
            )
        if not np.isfinite(values).all():
            raise BadInput(f"{who} was given {name!r}, which is not finite; a model has finite numbers only.")
    return {name: np.array(values) for name, values in arrays.items()}


def to_json(model: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Each array with its dtype and shape, as JSON can hold it."""
    for name, values in model.items():
        if values.dtype.kind == "f" and values.dtype.itemsize > 8:
            raise BadInput(f"a job cannot hold {name!r} of {values.dtype}; pass float64, or the path of an npz file.")
    return {
        name: {"dtype": values.dtype.name, "shape": list(values.shape), "values": values.ravel().tolist()}
        for name, values in model.items()
    }


def from_json(given: Mapping[str, Any]) -> Model:
    """The arrays that `to_json` wrote.

    >>> from_json(to_json({"w": np.ones(2)}))
    {'w': array([1., 1.])}
    """
    return {name: np.array(one["values"], one["dtype"]).reshape(one["shape"]) for name, one in given.items()}


def is_json(given: Mapping[str, Any]) -> bool:
    """Whether `to_json` wrote this."""
    return bool(given) and all(isinstance(one, dict) and "dtype" in one for one in given.values())


def join_candidates(models: Mapping[str, Model]) -> dict[str, Any]:
    """Both candidates as one dict of arrays, as clients get them.

    >>> sorted(join_candidates({"inner": {"w": np.ones(1)}, "outer": {"w": np.ones(1)}}))
    ['inner/w', 'outer/w']
    """
    return {f"{candidate}/{name}": values for candidate, model in models.items() for name, values in model.items()}
