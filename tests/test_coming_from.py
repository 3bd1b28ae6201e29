"""The page for those who come from elsewhere says what was measured, and its code runs."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast import CWTM
from holdfast.attacks import ATTACKS, View
from holdfast.rules import CATALOGUE

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "coming-from.md"
FOUND = json.loads((ROOT / "results" / "benchmarks" / "coming_from.json").read_text())
OTHERS = [*FOUND["krum"], *FOUND["torchjd"], *FOUND["byzpy"]]
ROWS = [*FOUND["rows"], *FOUND["stages"], *FOUND["attacks"], *OTHERS]
DIFFERENT = {
    ("SMEA(f)(X)", "SMEA(f)(X)"),
    ("CAF(f)(X)", "CAF(f, over='all')(X)"),
    ("exact(CAF(f), X)", "CAF(f)(X)"),
    ("GeometricMedian(nu=0.1, T=3)(X)", "GeometricMedian(iterations=3, floor=0.1)(X)"),
    ("Krum(n_byzantine=n - 3)(X)", "Krum(n - 3, squared=False, needs='f+3')(X)"),
}
"""What is known to differ, and why the page says so."""
ROUNDED = {"exact(CAF(f), X)", "Krum(n_byzantine=few)(X)", "Medoid.aggregate(X, n=n, f=f)"}
"""Where rounding may decide otherwise in one round: equal sums, and a filter of many steps in float32."""


def test_the_page_comes_from_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    text = PAGE.read_text()
    assert runpy.run_path(str(ROOT / "benchmarks" / "report.py"))["coming"](text) == text


def test_its_code_runs() -> None:
    names: dict[str, Any] = {"np": np}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S):
        exec(compile(code, PAGE.name, "exec"), names)


def test_what_agrees_and_what_does_not() -> None:
    for row in ROWS:
        agreed = min(row["float64"], row["float32"])
        enough = row["rounds"] - (1 if row["peer"] in ROUNDED else 0)
        assert (agreed >= enough) == ((row["peer"], row["holdfast"]) not in DIFFERENT), row
        assert agreed == row["rounds"] or row["note"], row
    for row in FOUND["searches"]:
        assert row["at least"] == row["rounds"] == 200, row
    for row in FOUND["flower"]:
        assert (row["equal"] == row["rounds"]) == (row["holdfast"] != "RobustStrategy(Bulyan(f))"), row
        assert row["float32 exact"] == row["rounds"], row
    for library in ("byzfl", "flwr", "krum", "torchjd", "byzpy"):
        assert f"{library} {FOUND['versions'][library]}" in PAGE.read_text()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["holdfast"])
def test_our_side_of_the_tables_still_runs(row: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9, 4))
    counts = {"f": 2, "h": 7, "n": 9, "few": 1, "many": 4}
    seen = View(honest=X[:7], own=X[7:], rule=CWTM(2), f=2)
    labels = type("Labels", (), {"numpy": staticmethod(lambda: np.arange(10))})
    names = {"X": X, "T": X.round(), "seen": seen, "rng": rng, "last": X[0], "labels": labels, **counts}
    made = eval(row["holdfast"], {**CATALOGUE, **ATTACKS, "sqrt": np.sqrt}, names)
    assert np.isfinite(made).all()


def test_all_names_of_the_peers_are_there() -> None:
    text = PAGE.read_text()
    aggregators = "Average Median TrMean GeometricMedian Krum MultiKrum CenteredClipping MDA MoNNA Meamed CAF SMEA"
    attacks = "SignFlipping InnerProductManipulation ALittleIsEnough Mimic Inf Gaussian LabelFlipping"
    searched = "Optimal_InnerProductManipulation Optimal_ALittleIsEnough"
    strategies = "FedAvg FedMedian FedTrimmedAvg Krum MultiKrum Bulyan Brute Medoid Aksel MeanOfMedians"
    for name in f"{aggregators} {attacks} {searched} {strategies} NNM Bucketing Clipping ARC".split():
        assert re.search(rf"\b{name}\b", text), name
