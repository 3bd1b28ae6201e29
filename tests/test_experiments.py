"""Runs in several processes, the main job, and the paper's presets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast import BadInput, Ballot, MeanwO, NormBoundedMean
from holdfast.attacks import Gauss, Omniscient, ScaledVariance
from holdfast.experiments.demo import RULES, SETS, accuracies, cells, page
from holdfast.experiments.pool import trained
from holdfast.report.page import write
from holdfast.training import Run, train
from holdfast.training.presets import RATES, paper
from holdfast.training.presets import RULES as NAMES

pytest.importorskip("torch")  # which trains

SMALL: dict[str, Any] = {"workers": 7, "byzantine": 2, "rounds": 3, "every": 2, "batch": 4, "model": "linear"}


def test_a_pool_gives_the_same_bits_as_one_process() -> None:
    runs = {name: Run(rule=name, attack="SignFlip()", **SMALL) for name in ("MeanwO(f=2)", "Mean2P(f=2)", "CWM()")}
    found = dict(trained(runs, processes=2))
    assert set(found) == set(runs)
    for name, run in runs.items():
        alone = train(run)
        assert found[name].lines == alone.lines
        np.testing.assert_array_equal(found[name].model, alone.model)


def test_a_run_that_fails_is_named() -> None:
    runs = {"good": Run(rule="CWM()", **SMALL), "bad": Run(rule="CWM()", data="nowhere", **SMALL)}
    with pytest.raises(BadInput, match=r"bad: .nowhere. is no known data set"):
        dict(trained(runs, processes=1))


def test_the_main_job_is_seven_rules_under_seven_attacks_and_none(tmp_path: Path) -> None:
    assert len(cells("harder")) == 63
    runs = cells(seed=3, rounds=2)
    assert len(runs) == len(RULES) * len(SETS["paper"]) == 56
    assert {(run.workers, run.byzantine, run.seed) for run in runs.values()} == {(20, 8, 3)}
    some = {key: run for key, run in runs.items() if key[0] in ("Average", "Mean2P") and key[1] in ("none", "Omn")}
    results = {key: train(run) for key, run in some.items()}
    told = page(results, "paper", 2)
    assert {cell["attack"] for cell in told["cells"]} == {"none", "Omn"}
    write(told, tmp_path / "index.html")
    assert "Mean2P" in (tmp_path / "index.html").read_text()
    whole = accuracies({(r, a): results["Average", "Omn"] for r in RULES for a in SETS["paper"]}, "paper", 2, 3)
    assert set(whole["worst"]) == set(RULES)


def test_the_presets_say_what_is_whose() -> None:
    text, program = paper("Mean2P", "SV", 0.1), paper("Mean2P", "SV", 0.1, text=False)
    assert (text.byzantine, program.byzantine) == (3, 4)
    assert (text.f, program.f) == (3, 4)
    assert (text.shrink, program.shrink) == (1.0, 31 / 35)
    assert (text.vote_batch, program.vote_batch) == (3, None)
    assert (text.rule.election, program.rule.election) == (Ballot(), Ballot(ties="outer"))
    assert (text.attack, program.attack) == (ScaledVariance(z=-20.0), ScaledVariance(z=-20 / 35, over="honest"))
    assert paper("CWTM", text=False).shrink == 1.0
    assert paper("CClip", "Gauss").rule == NormBoundedMean(tau=0.215771)
    assert paper("CClip", "Gauss", text=False).rule == NormBoundedMean(tau=2.15771)
    assert paper("Avg", "Omn").attack == Omniscient(form="text")
    assert paper("Mean1P", "Gauss", rounds=3).attack == Gauss()
    assert paper("Mean1P", rounds=3).rounds == 3
    assert paper("Mean1P").rule == MeanwO(f=14)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("text", [True, False])
def test_every_cell_of_the_paper_is_a_run(name: str, rate: float, text: bool) -> None:
    run = paper(name, "PGA", rate, text=text)
    assert Run.read(run.text()) == run
    assert (run.workers, run.rounds, run.batch, run.lr, run.momentum) == (35, 1500, 3, 0.1, 0.0)


@pytest.mark.parametrize(
    ("words", "why"),
    [(("Zeno",), "no known rule"), (("Avg", "Zap"), "no known attack"), (("Avg", "SF", 0.3), "0.1, 0.2 and 0.4")],
)
def test_names_that_the_paper_does_not_have(words: tuple[Any, ...], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        paper(*words)
