"""Theorem 1: the four orders by hand, and what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from holdfast import BadInput
from holdfast.cli.rates import rates as command
from holdfast.guarantees.rates import FORMULAS, Setting, rate, rates

SETTING = Setting(n=20, f=4, T=400, sigma=3.0, G=2.0, L=5.0)


def test_the_four_orders_by_hand() -> None:
    first = rate(replace(SETTING, G=0.0), "lambda", 0.5)
    assert first.stays == 0.0
    assert first.vanishes == pytest.approx(4 * 0.5 * 3 / 20)
    second = rate(SETTING, "zeta", 6.0)
    assert second.stays == pytest.approx(6 * 0.2 * 4)
    assert second.vanishes == pytest.approx(3 * 5 / math.sqrt(8000))
    for name in ("kappa", "xi"):
        told = rate(SETTING, name, 1.5)
        assert told.stays == 6.0
        assert told.vanishes == pytest.approx(0.15)
        assert told.order == pytest.approx(6.15)
    assert [part for part, _ in FORMULAS.values()] == ["i", "ii", "iii", "iv"]


def test_only_noise_shrinks_with_more_rounds() -> None:
    constants = {"xi": 1.0, "kappa": 1.0, "zeta": 2.0}
    few, many = rates(SETTING, constants), rates(replace(SETTING, T=40_000), constants)
    assert [one.part for one in few] == ["ii", "iii", "iv"]
    for a, b in zip(few, many, strict=True):
        assert a.stays == b.stays
        assert b.vanishes == pytest.approx(a.vanishes / 10)


def test_the_first_part_needs_workers_that_are_alike_and_liars() -> None:
    assert rate(SETTING, "lambda", 0.5).why == "it needs G = 0"
    assert rate(replace(SETTING, G=0.0, f=0), "lambda", 0.0).why == "it needs λ > 0"
    assert rate(replace(SETTING, G=0.0), "lambda", 0.5).why == ""
    assert rate(replace(SETTING, f=0), "zeta", 0.0).order == pytest.approx(3 / math.sqrt(8000))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: replace(SETTING, f=10), "n = 20 and f = 10; it takes f < n/2"),
        (lambda: replace(SETTING, n=0), "n = 0"),
        (lambda: replace(SETTING, T=0), "T = 0"),
        (lambda: replace(SETTING, T=1.5), "T = 1.5"),  # type: ignore[arg-type]
        (lambda: replace(SETTING, T=10**400), "T = 1000"),
        (lambda: replace(SETTING, sigma=-1.0), "sigma = -1.0"),
        (lambda: replace(SETTING, G=math.nan), "G = nan"),
        (lambda: replace(SETTING, L=0.0), "L = 0.0"),
        (lambda: rate(SETTING, "kappa", math.inf), "kappa = inf"),
        (lambda: rate(replace(SETTING, G=1e200), "kappa", 1.0), "too large for a float"),
        (lambda: rate(SETTING, "mu", 1.0), "'mu' was given; the criteria are lambda"),
        (lambda: rates(SETTING, {"mu": 1.0}), "'mu'; the criteria are lambda"),
    ],
)
def test_refusals_are_one_sentence(make: Any, words: str) -> None:
    with pytest.raises(BadInput) as refused:
        make()
    assert words in str(refused.value)
    assert str(refused.value).endswith(".")


def run(line: str) -> Any:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, line.split(), env={"COLUMNS": "200"})


def test_the_command_says_that_these_are_orders() -> None:
    line = "--n 20 --f 4 --sigma 3 --G 2 --T 400 --constant kappa=1.5 --constant lambda=0.5"
    text = run(line).stdout
    assert "Orders, not bounds" in text
    assert "it needs G = 0" in text
    assert "6.15" in text
    told = json.loads(run(f"{line} --json").stdout)
    assert [one["order"] for one in told["rates"]][1] == pytest.approx(6.15)
    assert isinstance(run("--n 20 --f 4 --sigma 3 --T 400").exception, BadInput)
    assert isinstance(run("--n 20 --f 4 --sigma 3 --T 400 --constant kappa").exception, BadInput)


@pytest.mark.parametrize("own", [3, 9])
def test_a_rule_for_another_f_is_refused(own: int) -> None:
    refused = run(f"--n 35 --f 7 --sigma 2 --T 3000 --rule MeanwO(f={own})").exception
    assert f"MeanwO(f={own}) tolerates {own}, but f = 7 was given" in str(refused)
