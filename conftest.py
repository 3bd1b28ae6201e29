"""Examples in docstrings may use numpy and every public name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import holdfast


@pytest.fixture(autouse=True)
def _names(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace.update({name: getattr(holdfast, name) for name in holdfast.__all__}, np=np)
