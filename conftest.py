"""What all tests share: signals, variables, drawn inputs, and the names that examples in docstrings may use.

`make fuzz` draws other inputs than the usual ones.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

from tests.children import restore_signals, set_variables

restore_signals()
HOME = set_variables()  # before anything is imported that reads them

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

import holdfast  # noqa: E402
import holdfast.attacks  # noqa: E402

if find_spec("torch"):
    import torch

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
