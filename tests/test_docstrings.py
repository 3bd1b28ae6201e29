"""Docstrings of public names: the checker passes, can fail, and some examples run in an interpreter of their own."""

from __future__ import annotations

import doctest
import inspect
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import holdfast
from tests.children import run

pytest.importorskip("flwr")  # the engines are looked at too
pytest.importorskip("torch")
pytest.importorskip("sklearn")
pytest.importorskip("cma")
pytest.importorskip("matplotlib")

ROOT = Path(__file__).parent.parent
TOOL = runpy.run_path(str(ROOT / "tools" / "docstrings.py"))
GOOD = """Add two numbers.

Parameters
----------
a, b : int
    The numbers.

Returns
-------
int
    Their sum.

Examples
--------
>>> 1 + 1
2
"""


def add(a: int, b: int) -> int:
    return a + b


def found(doc: str, thing: Any = add) -> list[str]:
    """What the checker says of a module with one public name."""
    thing.__doc__, thing.__module__ = doc, "bad_names"
    module = ModuleType("bad_names")
    vars(module).update({"__all__": ["thing"], "thing": thing})
    sys.modules["bad_names"] = module
    try:
        return list(TOOL["check"](("bad_names",)))
    finally:
        del sys.modules["bad_names"]


def test_every_public_name_has_a_docstring_that_teaches() -> None:
    assert TOOL["check"]() == []


def test_there_are_two_hundred_public_names_at_most() -> None:
    names = TOOL["public"](TOOL["MODULES"])
    assert 150 < len(names) <= TOOL["MAX_NAMES"] == 200
    assert names["holdfast.MeanwO"] is holdfast.MeanwO
    assert "holdfast.guarantees.bounds.bounds" in names


def test_a_good_docstring_has_no_findings() -> None:
    assert found(GOOD) == []


@pytest.mark.parametrize(
    ("doc", "what"),
    [
        ("", "the first line is not one sentence"),
        ("Add two numbers", "the first line is not one sentence that ends in a period"),
        (GOOD.replace("numbers.", "numbers. Or three.", 1), "the first line is not one sentence"),
        (GOOD.replace("Add two numbers.\n", "Add two numbers.\nOr three."), "the first line goes on"),
        ("Add two numbers.", "no section Parameters, Returns, Examples"),
        (GOOD.replace("a, b : int", "a : int"), "Parameters explains a; the call takes a, b"),
        (GOOD.replace("a, b : int", "a, b, c : int"), "Parameters explains a, b, c; the call takes a, b"),
        (GOOD.replace("Returns\n-------", "Result\n------"), "unknown sections: Result"),
        (GOOD[:18] + GOOD[GOOD.index("Returns") : GOOD.index("Examples")] + GOOD[18:64] + ">>> 1\n1", "another order"),
        (GOOD.replace("1 + 1", "np.add(1, 1)"), "an example fails alone"),
        (GOOD.replace("1 + 1", "1 + 1  # doctest: +SKIP"), "an example is skipped"),
    ],
)
def test_a_bad_docstring_is_found(doc: str, what: str) -> None:
    assert any(what in line for line in found(doc)), found(doc)


def test_an_exception_says_when_it_is_raised() -> None:
    class Bad(Exception):
        pass

    assert found("Something.", Bad) == ["bad_names.thing: no sentence says when it is raised"]
    assert found("Raised when something is wrong.", Bad) == []


def test_a_rule_has_notes_and_references() -> None:
    class Rule:
        source = "a paper"

    assert found("A rule.", Rule) == ["bad_names.thing: no section Notes, References, Examples"]


def test_a_method_explains_its_arguments() -> None:
    class Thing:
        def move(self, by: int) -> int:
            """Move it."""
            return by

    Thing.__module__ = "holdfast.bad"  # only our own methods are looked at
    Thing.__doc__ = "A thing.\n\nExamples\n--------\n>>> 1\n1"
    module = ModuleType("bad_names")
    vars(module).update({"__all__": ["Thing"], "Thing": Thing})
    sys.modules["bad_names"] = module
    try:
        assert TOOL["check"](("bad_names",)) == ["bad_names.Thing.move: no section Parameters, Returns"]
    finally:
        del sys.modules["bad_names"]


def test_the_checker_ends_with_one_if_something_was_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["docstrings.py", "bad_names"])
    module = ModuleType("bad_names")
    vars(module).update({"__all__": ["thing"], "thing": lambda: None})
    monkeypatch.setitem(sys.modules, "bad_names", module)
    monkeypatch.setattr("logging.disable", lambda: None)
    assert TOOL["main"]() == 1
    assert "bad_names.thing: the first line" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["MeanwO", "Mean2P", "Decision", "TooManyFaults", "parse"])
def test_an_example_runs_in_an_interpreter_of_its_own(name: str) -> None:
    doc = inspect.getdoc(getattr(holdfast, name)) or ""
    code = doctest.script_from_examples(doc)
    done = run([sys.executable, "-W", "error", "-c", code])
    assert done.returncode == 0, done.stderr
