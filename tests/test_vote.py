"""The vote: exact against all outcomes, bounds above what is simulated, and the table that the theory gives."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from holdfast import BadInput, Ballot, Numeric
from holdfast.cli.vote import vote
from holdfast.guarantees.vote import (
    METHODS,
    Sample,
    Voters,
    batch_for,
    enough,
    fails,
    failure,
    failure_bound,
    largest_error,
)

SEEDS = st.integers(0, 2**32 - 1)
PAPER = [Voters(35, 3), Voters(35, 7), Voters(35, 14)]
BOUNDS = [method for method, kind in METHODS.items() if kind == "bound"]


@st.composite
def electorates(draw: Any, most: int = 12) -> Voters:
    n = draw(st.integers(1, most))
    f = draw(st.integers(0, (n - 1) // 2))
    return Voters(n, f, draw(st.none() | st.integers(2 * f + 1, n)))


# the ballot


@given(electorates(9), SEEDS)
@settings(max_examples=40, deadline=None)
def test_failure_is_the_sum_over_all_outcomes(voters: Voters, seed: int) -> None:
    p = np.random.default_rng(seed).random(voters.honest)
    lost = 0.0
    for wrong in itertools.product((False, True), repeat=voters.honest):
        gains = np.concatenate([np.where(wrong, -1.0, 1.0), np.full(voters.f, -1.0)])
        if Ballot().count(gains, voters.f)[0] == "inner":
            lost += float(np.prod(np.where(wrong, p, 1 - p)))
        assert (Ballot().count(gains, voters.f)[0] == "outer") == (sum(wrong) <= voters.errors)
    assert failure(voters, p) == pytest.approx(lost, rel=1e-12, abs=1e-15)
    assert failure(voters, np.full(voters.honest, p[0])) == pytest.approx(failure(voters, p[0]), rel=1e-12)


def test_of_m_ballots_that_are_cast_more_than_half_win() -> None:
    assert [(v.needed, v.honest, v.errors) for v in PAPER] == [(18, 32, 14), (18, 28, 10), (18, 21, 3)]
    some = Voters(35, 7, cast=30)
    assert (some.needed, some.honest, some.errors, some.kept) == (16, 23, 7, 16)
    assert Voters(35, 7, cast=15).errors == 0


@pytest.mark.parametrize(("n", "f"), [(2000, 0), (2000, 300), (1999, 900), (2000, 999)])
def test_two_thousand_voters_are_counted_to_eleven_digits(n: int, f: int) -> None:
    voters = Voters(n, f)
    h, w = voters.honest, voters.errors
    ways = sum(math.comb(h, k) * 3 ** (h - k) for k in range(w + 1, h + 1))
    exact = float(Fraction(ways, 4**h))
    assert failure(voters, np.full(h, 0.25)) == pytest.approx(exact, rel=1e-11)
    assert failure(voters, 0.25) == pytest.approx(exact, rel=1e-11)


@given(electorates(40), SEEDS)
@settings(max_examples=60, deadline=None)
def test_bounds_of_a_ballot_that_know_the_mean_error_alone(voters: Voters, seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.random(voters.honest) ** rng.choice([1, 4])
    assert failure(voters, p) <= failure_bound(voters, p) * (1 + 1e-12)
    if p.sum() <= voters.errors:  # Hoeffding 1956, Theorem 4
        assert failure(voters, p) <= failure(voters, p.mean()) * (1 + 1e-9) + 1e-15
    assert failure(voters, np.minimum(1.0, p + 0.1)) >= failure(voters, p)
    assert failure(voters, 0.0) == 0.0
    assert failure(voters, 1.0) == failure(voters, np.ones(voters.honest)) == 1.0


@given(electorates(60), st.floats(1e-250, 0.99))
@settings(max_examples=60, deadline=None)
def test_the_largest_error_is_the_largest(voters: Voters, target: float) -> None:
    p = largest_error(voters, target)
    assert failure(voters, p) <= target
    assert p > 0.99 or failure(voters, p * (1 + 1e-9)) > target


@pytest.mark.parametrize(
    ("voters", "percent", "millionth", "batches", "paper"),
    [
        (PAPER[0], 0.264, 0.119, (1, 2, 10), (5.6e-13, 3.8e-4, 0.149)),
        (PAPER[1], 0.190, 0.068, (1, 4, 20), (7.2e-9, 0.0115, 0.447)),
        (PAPER[2], 0.041, 0.0036, (4, 13, 76), (0.0102, 0.600, 0.976)),
    ],
)
def test_the_table_of_the_paper_s_35_workers(
    voters: Voters, percent: float, millionth: float, batches: Any, paper: Any
) -> None:
    assert largest_error(voters, 0.01) == pytest.approx(percent, abs=5e-4)
    assert largest_error(voters, 1e-6) == pytest.approx(millionth, rel=0.02)
    gaps = [Sample(gap, 3, deviation=1.0) for gap in (1.0, 0.5, 0.2)]
    assert tuple(batch_for(Ballot(), voters, sample, "normal", 0.01) for sample in gaps) == batches
    assert [fails(Ballot(), voters, sample, "normal") for sample in gaps] == pytest.approx(paper, rel=0.02)


# one voter


def test_a_voter_s_error_by_hand() -> None:
    sample = Sample(gap=0.5, batch=8, deviation=2.0, range=6.0)
    assert sample.methods == tuple(METHODS)
    assert sample.error("hoeffding") == pytest.approx(math.exp(-1 / 9))
    assert sample.error("bernstein") == pytest.approx(math.exp(-2 / (8 + 2)))
    assert sample.error("cantelli") == pytest.approx(4 / (4 + 2))
    assert sample.error("normal") == pytest.approx(0.23975006)  # Φ(-√½)


def test_cantelli_is_met_by_two_values() -> None:
    g, s = 0.7, 1.3
    share = s * s / (s * s + g * g)  # of a difference of zero; the others have g + s²/g
    values, chance = np.array([0.0, g + s * s / g]), np.array([share, 1 - share])
    assert values @ chance == pytest.approx(g)
    assert (values - g) ** 2 @ chance == pytest.approx(s * s)
    assert Sample(g, 1, deviation=s).error("cantelli") == pytest.approx(share)


def skewed(rng: np.random.Generator, size: tuple[int, ...]) -> tuple[np.ndarray, float, float, float]:
    """Loss differences that are rarely bad and then very: with their mean, deviation and range."""
    low, high, rare = -3.0, 1.0, 0.15
    mean = rare * low + (1 - rare) * high
    return np.where(rng.random(size) < rare, low, high), mean, (high - low) * math.sqrt(rare * (1 - rare)), high - low


@pytest.mark.parametrize("election", [Ballot(), Numeric(), Numeric(margin=0.15)], ids=repr)
@pytest.mark.parametrize(("n", "f", "batch"), [(11, 2, 6), (11, 2, 30), (15, 6, 25), (9, 0, 4)])
def test_bounds_lie_above_what_elections_do(election: Any, n: int, f: int, batch: int) -> None:
    rng, many = np.random.default_rng(0), 4000
    drawn, gap, deviation, length = skewed(rng, (many, n - f, batch))
    gains = np.concatenate([drawn.mean(axis=2), np.full((many, f), -np.inf)], axis=1)
    lost = np.mean([election.count(row, f)[0] == "inner" for row in gains])
    error = 4 * math.sqrt(lost * (1 - lost) / many) + 1e-3
    sample = Sample(gap, batch, deviation, length)
    for method in BOUNDS:
        assert fails(election, Voters(n, f), sample, method) >= lost - error, method
    wrong = (drawn.mean(axis=2) <= 0).mean()
    assert all(sample.error(method) >= wrong - 0.01 for method in BOUNDS)
    if election == Ballot():
        assert failure(Voters(n, f), float(wrong)) == pytest.approx(lost, abs=error + 0.03)


# the numeric election


@given(electorates(14), st.floats(0.001, 0.999), st.floats(-40.0, 0.0))
@settings(max_examples=300, deadline=None)
def test_bounds_hold_exactly_for_reports_of_two_values(voters: Voters, rare: float, low: float) -> None:
    h, q = voters.honest, voters.kept
    gap, deviation = rare * low + (1 - rare), (1 - low) * math.sqrt(rare * (1 - rare))
    if gap <= 0:
        return
    lost = 0.0
    for k in range(h + 1):  # of the honest have the low value, the others 1
        lowest = [low] * min(k, q) + [1.0] * (q - min(k, q))
        lost += math.comb(h, k) * rare**k * (1 - rare) ** (h - k) * (math.fsum(lowest) <= 0)
    for method in BOUNDS:
        assert fails(Numeric(), voters, Sample(gap, 1, deviation, 1 - low), method) >= lost - 1e-12, method


@given(electorates(12), SEEDS)
@settings(max_examples=60, deadline=None)
def test_the_trimmed_mean_is_at_least_the_mean_of_the_lowest_honest(voters: Voters, seed: int) -> None:
    rng = np.random.default_rng(seed)
    honest = rng.standard_normal(voters.honest)
    lowest = np.sort(honest)[: voters.kept].mean()
    liars = (rng.normal(0, 3, voters.f), np.full(voters.f, -np.inf), np.full(voters.f, lowest), -honest[: voters.f])
    means = [Numeric().count(np.concatenate([honest, told]), voters.f)[1] for told in liars]
    assert min(means) >= lowest - 1e-12
    assert means[1] == pytest.approx(lowest)


def test_the_bounds_of_the_trimmed_mean_by_hand() -> None:
    voters, sample = Voters(12, 3), Sample(gap=2.0, batch=4, deviation=1.0, range=8.0)  # h = 9, q = 6
    x = 2.0 - 0.25 - math.sqrt(3 / 6) / 2
    union, martingale = 84 * math.exp(-2 * 6 * 4 * 1.75**2 / 64), math.exp(-2 * 36 / 9 * 4 * x * x / 64)
    told = {method: fails(Numeric(margin=0.25), voters, sample, method) for method in BOUNDS}
    assert union > martingale
    assert told["hoeffding"] == pytest.approx(martingale)
    assert told["bernstein"] == pytest.approx(84 * math.exp(-6 * 4 * 1.75**2 / (2 + 2 * 8 * 1.75 / 3)))
    assert told["cantelli"] == pytest.approx(9 / (9 + 36 * 4 * x * x))
    few = Sample(gap=3.9, batch=1, range=4.0)
    assert fails(Numeric(), Voters(5, 2), few, "hoeffding") == pytest.approx(3 * math.exp(-2 * (3.9 / 4) ** 2))
    assert fails(Numeric(margin=3.0), voters, sample, "cantelli") == 1.0
    assert fails(Numeric(margin=3.0), voters, sample, "bernstein") == 1.0


def test_many_subsets_do_not_hide_an_exponent_too_small_for_a_float() -> None:
    voters = Voters(2000, 300)
    sample = Sample(gap=0.1, batch=125, deviation=1.0, range=2.0)
    exponent = -1400 * 125 * 0.01 / (2 + 0.4 / 3)
    ways = math.lgamma(1701) - math.lgamma(1401) - math.lgamma(301)
    assert math.exp(exponent) < 1e-307
    assert fails(Numeric(), voters, sample, "bernstein") == pytest.approx(math.exp(ways + exponent), rel=1e-8, abs=0)


def test_the_normal_case_is_what_numeric_does() -> None:
    rng, voters, sample = np.random.default_rng(7), Voters(11, 2), Sample(gap=0.3, batch=9, deviation=1.5)
    honest = rng.normal(0.3, 0.5, (8000, 9))
    gains = np.concatenate([honest, np.full((8000, 2), -np.inf)], axis=1)
    lost = np.mean([Numeric(margin=0.1).count(row, 2)[0] == "inner" for row in gains])
    told = fails(Numeric(margin=0.1), voters, sample, "normal")
    assert told == pytest.approx(lost, abs=4 * math.sqrt(lost * (1 - lost) * (1 / 8000 + 1 / 20000)))
    assert told == fails(Numeric(margin=0.1), voters, sample, "normal")
    assert told != fails(Numeric(margin=0.1), voters, sample, "normal", seed=1)
    assert told <= fails(Numeric(margin=0.1), voters, sample, "cantelli")


@pytest.mark.parametrize("election", [Ballot(), Numeric(margin=0.05)], ids=repr)
@pytest.mark.parametrize("voters", PAPER, ids=repr)
def test_the_batch_is_the_smallest(election: Any, voters: Voters) -> None:
    sample = Sample(gap=0.2, batch=1, deviation=1.0, range=3.0)
    for method in sample.methods:
        batch = batch_for(election, voters, sample, method, 0.01)
        assert batch is not None
        assert fails(election, voters, Sample(0.2, batch, 1.0, 3.0), method) <= 0.01
        assert batch == 1 or fails(election, voters, Sample(0.2, batch - 1, 1.0, 3.0), method) > 0.01


def test_no_batch_helps_where_the_gap_does_not_clear_the_margin() -> None:
    sample = Sample(gap=0.2, batch=1, deviation=1.0, range=3.0)
    for method in sample.methods:
        assert batch_for(Numeric(margin=0.2), PAPER[1], sample, method, 0.01) is None
    assert batch_for(Numeric(), PAPER[1], sample, "normal", 1e-6) is None  # too rare to be simulated
    assert batch_for(Ballot(), PAPER[1], Sample(1e-200, 1, 1.0), "cantelli", 0.01) is None


# voters that differ, with exact losses


@given(electorates(15), SEEDS)
@settings(max_examples=80, deadline=None)
def test_a_gap_beyond_enough_deviations_wins_for_certain(voters: Voters, seed: int) -> None:
    rng = np.random.default_rng(seed)
    gaps = rng.standard_normal(voters.honest) ** rng.choice([1, 3])
    liars = np.full(voters.f, -np.inf)
    for election in (Ballot(), Numeric(), Numeric(margin=0.3)):
        need = enough(election, voters) * gaps.std() + getattr(election, "margin", 0.0)
        moved = gaps - gaps.mean() + need * (1 + 1e-9) + 1e-9
        assert election.count(np.concatenate([moved, liars]), voters.f)[0] == "outer"
        share = gaps.var() / (gaps.var() + need * need) if need else 1.0
        assert np.mean(gaps - gaps.mean() + need <= 0) <= share + 1e-12


@pytest.mark.parametrize("voters", [*PAPER, Voters(10, 3), Voters(35, 7, cast=20)], ids=repr)
def test_with_less_there_are_voters_that_lose(voters: Voters) -> None:
    wrong, h, q = voters.errors + 1, voters.honest, voters.kept
    for election, low in ((Ballot(), wrong), (Numeric(), q)):
        gaps = np.where(np.arange(h) < low, 0.0, 1.0)
        assert gaps.mean() == pytest.approx(enough(election, voters) * gaps.std())
        assert election.count(np.concatenate([gaps, np.full(voters.f, -np.inf)]), voters.f)[0] == "inner"
    even = Voters(36, 7)
    assert enough(Ballot(), even) == pytest.approx(math.sqrt(36 / (36 - 14)))


# refusals


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Voters(35, 18), "f = 18; it takes f < n/2"),
        (lambda: Voters(4, 2), "f = 2; it takes f < n/2"),
        (lambda: Voters(0, 0), "n = 0"),
        (lambda: Voters(5, -1), "f = -1"),
        (lambda: Voters(5.0, 1), "n = 5.0"),  # type: ignore[arg-type]
        (lambda: Voters(10**9, 1), "n up to 10,000"),
        (lambda: Voters(35, 7, cast=14), "2f + 1 = 15"),
        (lambda: Voters(35, 7, cast=36), "cast=36"),
        (lambda: Sample(0.1, 0, 1.0), "batch = 0"),
        (lambda: Sample(0.1, True, 1.0), "batch = True"),
        (lambda: Sample(-0.1, 3, 1.0), "gap = -0.1"),
        (lambda: Sample(0.0, 3, 1.0), "gap = 0.0"),
        (lambda: Sample(math.nan, 3, 1.0), "gap = nan"),
        (lambda: Sample(0.1, 3, math.inf), "deviation = inf"),
        (lambda: Sample(0.1, 3, range=0.0), "range = 0.0"),
        (lambda: Sample(0.1, 3), "the deviation or the range"),
        (lambda: Sample(0.1, 3, 1.0, 1.9), "at most half the range"),
        (lambda: Sample(0.1, 3, 1.0).error("bernstein"), "cantelli, normal"),
        (lambda: failure(Voters(5, 1), [0.5]), "or 4 of them"),
        (lambda: failure(Voters(5, 1), 1.5), "errors = 1.5"),
        (lambda: failure(Voters(5, 1), math.nan), "errors = nan"),
        (lambda: failure(Voters(5, 1), "often"), "errors = often"),  # type: ignore[arg-type]
        (lambda: largest_error(Voters(5, 1), 0.0), "target = 0.0"),
        (lambda: largest_error(Voters(5, 1), math.nan), "target = nan"),
        (lambda: batch_for(Ballot(), Voters(5, 1), Sample(0.1, 3, 1.0), "normal", 1.0), "target = 1.0"),
        (lambda: batch_for(Ballot(), Voters(5, 1), Sample(0.1, 3, 1.0), "normal", "x"), "target = 'x'"),  # type: ignore[arg-type]
    ],
)
def test_refusals_are_one_sentence(make: Any, words: str) -> None:
    with pytest.raises(BadInput) as refused:
        make()
    text = str(refused.value)
    assert words in text
    assert text.endswith(".")
    assert "\n" not in text


# the command


def run(line: str) -> Any:
    app = typer.Typer()
    app.command()(vote)
    return CliRunner().invoke(app, line.split(), env={"COLUMNS": "200"})


def test_the_command_tells_both_elections() -> None:
    told = json.loads(run("--n 35 --f 7 --batch 24 --gap 0.1 --range 4 --deviation 1 --json").stdout)
    assert told["ballot"]["needed"] == 18
    assert told["ballot"]["batch"]["normal"] == 78
    assert told["numeric"]["batch"]["hoeffding"] < told["ballot"]["batch"]["hoeffding"]
    assert told["methods"] == METHODS
    text = run("--n 35 --f 7 --batch 24 --gap 0.1").stdout
    assert "18 of 35 votes" in text
    assert "10 errors of 28" in text
    assert "takes batch 428 by ballot" in text
    none = run("--n 35 --f 7 --batch 24 --gap 1e-320").stdout
    assert "No batch up to 1.2e+18 proves that at most 0.01 of the votes are lost." in none
    one = run("--n 35 --f 7 --batch 24 --gap 1e-8 --target 1e-9").stdout
    assert "by ballot; no batch up to 1.2e+18 does by loss differences" in one
    assert "elect Inner" in run("--n 35 --f 0 --batch 24 --gap 0.1 --margin 0.2").stdout
    assert "any" in run("--n 35 --f 0 --batch 24 --gap 0.1").stdout
    assert isinstance(run("--n 35 --f 18 --batch 24 --gap 0.1").exception, BadInput)
    assert isinstance(run("--n 35 --f 7 --batch 24 --gap 0.1 --target 1").exception, BadInput)
