"""Values as JSON can hold them: numpy's become plain ones, and numbers that are not finite become None."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from holdfast.errors import BadInput, article


def to_json(value: object, who: str = "a value") -> Any:
    """The value in dicts, lists, texts, numbers, True, False and None.

    Parameters
    ----------
    value
        What is to be written.
    who
        What it is; a refusal begins with it.

    Raises
    ------
    BadInput
        If it holds something else.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.jsonable import to_json
    >>> to_json({"loss": np.float32(0.5), "each": np.array([1.0, np.nan])})
    {'loss': 0.5, 'each': [1.0, None]}
    """
    if isinstance(value, Mapping):
        return {str(name): to_json(entry, who) for name, entry in value.items()}
    if hasattr(value, "tolist"):  # arrays and numbers of numpy and torch
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [to_json(entry, who) for entry in value]
    if isinstance(value, float):
        return finite_or_none(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    raise BadInput(
        f"{who} holds {article(type(value).__name__)}; it holds numbers, texts, and lists and dicts of them."
    )


def finite_or_none(given: object, *, below: float = math.inf) -> float | None:
    """The number that was given, if it is one and finite; None for anything else, also for True and False.

    Numbers of the size `below` or larger count as not finite.

    >>> finite_or_none(2), finite_or_none(0.5), finite_or_none(float("inf")), finite_or_none("2")
    (2, 0.5, None, None)
    """
    if isinstance(given, bool | np.timedelta64) or not isinstance(given, int | float | np.integer | np.floating):
        return None
    number = int(given) if isinstance(given, int | np.integer) else float(given)
    try:
        return number if math.isfinite(number) and abs(number) < below else None
    except OverflowError:  # an int beyond all floats
        return None
