"""Examples in docstrings may use numpy and every public name; drawn inputs are the same in every run.

`make fuzz` draws others.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings

import holdfast
import holdfast.attacks

torch.set_num_threads(1)  # the tests run in several processes
settings.register_profile("fixed", derandomize=True, database=None)
settings.register_profile("fuzz", print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(autouse=True)
def _names(doctest_namespace: dict[str, Any]) -> None:
    for room in (holdfast, holdfast.attacks):
        doctest_namespace.update({name: getattr(room, name) for name in room.__all__}, np=np)


@pytest.fixture
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a library; for "torch device" numpy gets no views, as of tensors on an accelerator."""
    name: str = request.param
    if name == "torch device":
        monkeypatch.setattr("holdfast.arrays.viewable", tuple)
    return name
