"""What the documents say is true: their code runs, their links lead somewhere, their figures are measured."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.attacks import ATTACKS, VOTERS
from holdfast.data import SPLITS
from holdfast.guarantees.bounds import bounds, everyone
from holdfast.rules import CATALOGUE

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(
    (ROOT / "docs").glob("*.md")
)


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(), re.S)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_python_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"np": np}  # a later block may go on where an earlier one stopped
    for code in blocks(path, "python"):
        exec(compile(code, path.name, "exec"), names)


def test_contributing_shows_a_whole_rule() -> None:
    (code,) = blocks(ROOT / "CONTRIBUTING.md", "python")
    names: dict[str, Any] = {"np": np}
    exec(code, names)
    rule = names["NearestPair"]()
    assert rule(np.array([[0.0], [1.0], [5.0], [np.nan]])).tolist() == [0.5]
    assert rule.decide([{"w": np.zeros(2)}, {"w": np.ones(2)}]).kept == (0, 1)
    assert repr(rule) == "NearestPair()"
    assert len([line for line in code.split("@value")[1].splitlines() if line.strip()]) <= 11


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text()):
        assert target.startswith("http") or (path.parent / target).exists(), target


def test_the_readme_shows_both_commands_and_every_make_target_exists() -> None:
    made = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    named = set(re.findall(r"`?make ([a-z]+)", "".join(path.read_text() for path in DOCUMENTS)))
    assert {"demo", "test"} <= named <= made


def test_the_readme_s_figures_come_from_the_results() -> None:
    report = runpy.run_path(str(ROOT / "benchmarks" / "report.py"))
    text = (ROOT / "README.md").read_text()
    assert report["replaced"](text) == text
    training = (ROOT / "docs" / "training.md").read_text()
    assert report["trained"](training) == training
    assert report["searches"]() == (ROOT / "docs" / "search.md").read_text()
    guarantees = (ROOT / "docs" / "guarantees.md").read_text()
    assert report["promises"](guarantees) == guarantees


def test_every_proved_constant_has_its_proof_in_the_document() -> None:
    headings = set(re.findall(r"^#+ (.*)$", (ROOT / "docs" / "guarantees.md").read_text(), re.M))
    for n, f in ((35, 7), (35, 0), (35, 1), (9, 2)):
        for rule in everyone(n, f):
            for promise in bounds(rule, n, f).values():
                source = promise.ours.source if promise.ours else ""
                assert not source or source.startswith("from ") or source in headings, (rule, source)


def test_every_rule_and_attack_is_in_the_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    for name in (*CATALOGUE, *ATTACKS, *VOTERS, *SPLITS):
        assert f"`{name}`" in text, name


def test_no_document_speaks_of_a_machine() -> None:
    for path in DOCUMENTS:
        assert not re.search(r"(^|[\s`(])/(home|root|tmp|opt|usr)/", path.read_text()), path.name
