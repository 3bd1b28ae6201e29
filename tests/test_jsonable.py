"""Values as JSON holds them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from holdfast.errors import BadInput
from holdfast.jsonable import finite_or_none, to_json


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({1: (np.int64(2), np.float32(0.5))}, {"1": [2, 0.5]}),
        ([np.nan, -np.inf, True, None, "x"], [None, None, True, None, "x"]),
        (np.array([[1.0, np.inf]]), [[1.0, None]]),
        (np.bool_(True), True),
        (np.float64("nan"), None),
    ],
)
def test_what_json_holds(given: Any, wanted: Any) -> None:
    assert to_json(given) == wanted
    json.dumps(to_json(given), allow_nan=False)


def test_something_else_is_refused() -> None:
    with pytest.raises(BadInput, match=r"^an evaluation holds a set; it holds numbers, texts"):
        to_json({"x": [{1, 2}]}, "an evaluation")


@pytest.mark.parametrize("given", [None, True, "1", np.nan, np.float32("inf"), 10**400, 1j, [1.0]])
def test_no_finite_number(given: Any) -> None:
    assert finite_or_none(given) is None


def test_finite_numbers() -> None:
    assert type(finite_or_none(np.int32(3))) is int
    assert type(finite_or_none(np.float32(0.5))) is float
    assert finite_or_none(-2e300, below=1e300) is None
