"""What all tests share: signals, variables, drawn inputs, and the names that examples in docstrings may use.

`make fuzz` draws other inputs than the usual ones.
"""

from __future__ import annotations

import doctest
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--without-extras", action="store_true", help="leave out modules whose packages are not installed")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --without-extras: whether a module needs a package that is not there."""
    if not config.getoption("--without-extras") or collection_path.suffix != ".py":
        return None
    parts = collection_path.relative_to(config.rootpath).with_suffix("").parts
    try:
        import_module(".".join(parts[1:] if parts[0] == "src" else parts))
    except ImportError as error:
        return not (error.name or "").startswith(("holdfast", "tests"))
    except pytest.skip.Exception:
        return None
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    with _skipped_without_extras(item):
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    with _skipped_without_extras(item):
        yield


@contextmanager
def _skipped_without_extras(item: pytest.Item) -> Iterator[None]:
    """With --without-extras: skip a test that ends with the sentence, or the error, of a package that is not there."""
    try:
        yield
    except Exception as error:
        cause = error.exc_info[1] if isinstance(error, doctest.UnexpectedException) else error
        told = isinstance(cause, holdfast.BadInput) and "pip install -c constraints.txt" in str(cause)
        lacks = isinstance(cause, ImportError) and not (cause.name or "holdfast").startswith(("holdfast", "tests"))
        if item.config.getoption("--without-extras") and (told or lacks):
            pytest.skip(str(cause))
        raise


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
