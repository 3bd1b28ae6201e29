"""The hostile inputs on which the field's libraries fail, for every rule of ours, in every library and place.

n = 15, f = 3, d = 64, honest vectors 1 ± 0.1, liars put last, first and in between. Every answer is the
oracle's on the remaining rows, and within three honest radii of the honest mean for rules that promise it;
or a refusal in one sentence. Nothing hangs and nothing crashes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from holdfast import (
    ARC,
    CAF,
    CGE,
    CWM,
    CWTM,
    MDA,
    NNM,
    SMEA,
    Average,
    BadInput,
    Bucketing,
    Bulyan,
    CenteredClipping,
    CenterExact,
    CenterwO,
    Clip,
    ClippedClustering,
    DnC,
    FLTrust,
    GeometricMedian,
    Huber,
    Krum,
    MeaMed,
    MeanExact,
    MeanwO,
    Medoid,
    MoNNA,
    MultiKrum,
    NearestTo,
    NormBoundedMean,
    OuterCenter,
    OuterMean,
    StreamCenterwO,
)
from holdfast.errors import TooManyFaults
from holdfast.testing import hostile
from holdfast.testing.rounds import place_liars
from tests.oracles import oracle
from tests.rules_under_test import calls
from tests.shelves import LIBRARIES, NARROW, given, held, numbers

N, F, D = 15, 3, 64
PROMISED: list[Any] = [
    CenterwO(F),
    MeanwO(F),
    CWM(),
    CWM(lower=True),
    CWTM(F),
    GeometricMedian(),
    Krum(F),
    Krum(F, others="n-f-1"),
    Krum(F, squared=False),
    MultiKrum(F),
    NNM(F) >> Krum(F, others="n-f-1"),
    NNM(F) >> CWTM(F),
    NNM(F) >> GeometricMedian(),
    NNM(F) >> MeanwO(F),
    MeanwO(F, refine=3),
    NearestTo(CWTM(F)),
    MeaMed(F),
    MeaMed(F, lower=True),
    MeanExact(F),
    Bulyan(F),
    Bulyan(F, picks="at once"),
    Bulyan(F, picks="means"),
]
SUBSETS: list[Any] = [MDA(F), SMEA(F), CenterExact(F)]  # where several sets are best, the oracle's may be another
OTHERS: list[Any] = [
    Average(),
    OuterCenter(F),
    OuterMean(F),
    GeometricMedian(iterations=1, floor=1e-5),
    CenteredClipping(2.0, 3),
    NormBoundedMean(8.0),
    Huber(2.0),
    ClippedClustering(),
    Bucketing(2) >> CWM(),
    Clip(9.0) >> MeanwO(F),
    Clip(9.0) >> NNM(F) >> CWM(),
    ARC(F) >> CWTM(F),
    CGE(F),
]
RULES = PROMISED + OTHERS
CASES = {case.name: case for case in hostile.CASES}


def check(rule: Any, X: np.ndarray, honest: np.ndarray, library: str, promised: bool) -> None:
    """One input: oracle's answer on the rows that are finite, and near the honest mean where promised."""
    with np.errstate(all="ignore"):
        X = held(X, library)
        sound = np.isfinite(X).all(axis=1)
        needed = calls(rule, X.shape[1])
        got = np.asarray(numbers(rule(given(X, library), **needed)), np.longdouble)
        assert np.isfinite(got).all()
        left = X[sound].astype(np.float64)
        H = X[honest].astype(np.longdouble)
        settled = next(rule.lowered(by) for by in range(len(X) + 1) if rule.lowered(by).least() <= len(left))
        wanted = oracle(settled, left, **({"rng": np.random.default_rng(5)} if rule.random else {}))
        eps = {2: 2e-3, 4: 3e-5, 8: 1e-7}[X.dtype.itemsize]
        size = np.abs(wanted).max() + np.abs(H).max()
        assert np.abs(got - wanted).max() <= eps * size, "not the oracle's answer"
    if promised:
        radius = np.sqrt(((H - H.mean(axis=0)) ** 2).sum(axis=1)).max()
        assert np.sqrt(((got - H.mean(axis=0)) ** 2).sum()) <= 3 * radius


@pytest.mark.parametrize("library", LIBRARIES, indirect=True)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_attacks(rule: Any, case: str, library: str) -> None:
    for X, honest in CASES[case].rounds(N, F, np.random.default_rng(0), D):
        check(rule, X, honest, library, rule in PROMISED)


@pytest.mark.parametrize("library", LIBRARIES, indirect=True)
@pytest.mark.parametrize("case", CASES)
def test_attacks_on_a_rule_that_trusts_an_honest_worker(case: str, library: str) -> None:
    for X, honest in CASES[case].rounds(N, F, np.random.default_rng(0), D):
        if honest[0] and not (case == "subnormal numbers" and library in NARROW):  # zeros there
            check(FLTrust(pivot=0), X, honest, library, promised=False)


NEAR: list[Any] = [*SUBSETS, Medoid(), CAF(F), DnC(F), MoNNA(F, pivot=0), StreamCenterwO(F)]


@pytest.mark.parametrize("library", LIBRARIES, indirect=True)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rule", NEAR, ids=repr)
def test_attacks_on_rules_whose_sets_are_not_unique(rule: Any, case: str, library: str) -> None:
    """Near the honest mean all the same; the pivot of MoNNA is honest."""
    for X, honest in CASES[case].rounds(N, F, np.random.default_rng(0), D):
        if isinstance(rule, MoNNA) and not honest[0]:
            continue
        with np.errstate(all="ignore"):
            got = np.asarray(numbers(rule(given(X, library))), float)
        centre = X[honest].astype(float).mean(axis=0)
        radius = np.linalg.norm(X[honest].astype(float) - centre, axis=1).max()
        assert np.linalg.norm(got - centre) <= 3 * radius


@pytest.mark.parametrize("library", LIBRARIES, indirect=True)
@pytest.mark.parametrize("n", [15, 40])
@pytest.mark.parametrize("rule", PROMISED, ids=repr)
def test_a_common_offset(rule: Any, n: int, library: str) -> None:
    """Honest 1e4 ± 0.05, liars 1e4 + 2, float32: where Gram-trick distances pick the attacker."""
    rng = np.random.default_rng(0)
    H = (1e4 + 0.05 * rng.standard_normal((n - F, 1000))).astype(np.float32)
    B = np.full((F, 1000), 1e4 + 2, np.float32)
    for X, honest in place_liars(H, B):
        got = np.asarray(numbers(rule(given(X, library))), float)
        centre = X[honest].astype(float).mean(axis=0)
        radius = np.linalg.norm(X[honest].astype(float) - centre, axis=1).max()
        assert np.linalg.norm(got - centre) <= 3 * radius


@pytest.mark.parametrize("library", LIBRARIES, indirect=True)
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_plain_and_degenerate(rule: Any, library: str) -> None:
    rng = np.random.default_rng(0)
    benign = 1 + 0.1 * rng.standard_normal((N, D))
    everyone = np.ones(N, bool)
    check(rule, benign, everyone, library, rule in PROMISED)
    check(rule, np.ones((N, D)), everyone, library, False)
    check(rule, np.zeros((N, D)), everyone, library, False)
    check(rule, np.zeros((N, D), np.float32), everyone, library, False)
    whole = rng.integers(-50, 50, (N, D))
    got = rule(given(whole, library), **calls(rule, D))
    assert ("float32" if library in NARROW else "float64") in str(got.dtype)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_mixed_precision(rule: Any) -> None:
    """Half of the workers send float32, the others float64, one of them far out."""
    rng = np.random.default_rng(0)
    X = 1 + 0.1 * rng.standard_normal((N, D))
    X[::2] = X[::2].astype(np.float32)
    X[3] = -1e3
    for library in (np.asarray, torch.from_numpy):
        rows = [library(row.astype(np.float32 if i % 2 == 0 else np.float64)) for i, row in enumerate(X)]
        got = np.asarray(rule(rows, **calls(rule, D)))
        assert got.dtype == np.float32, "the majority's"
        assert np.allclose(got, rule(X, **calls(rule, D)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_too_few(rule: Any) -> None:
    """n = 1, n = 2, n = 2f + 1, f = n/2, f > n/2: the oracle's answer or a refusal that says what would do."""
    rng = np.random.default_rng(0)
    for n in (1, 2, 2 * F + 1, 2 * F, F, F + 1):
        X = 1 + 0.1 * rng.standard_normal((n, D))
        if n >= rule.least():
            check(rule, X, np.ones(n, bool), "numpy", False)
            continue
        with pytest.raises(BadInput, match=f"n = {n} vectors?.*gather at least {rule.least()} vectors?"):
            rule(X, **calls(rule, D))


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_too_many_not_finite(rule: Any) -> None:
    X = np.ones((N, D))
    X[: N - 1] = np.nan
    X[-1] = 1.0
    if rule.most_dropped(N) is not None:
        with pytest.raises(TooManyFaults, match=r"n = 15 vectors, of which 14 were dropped \(0 is not finite, 1 is"):
            rule(X, **calls(rule, D))
        if rule.lowered(N - 1).least() > 1:
            with pytest.raises(BadInput, match="14 more were dropped: 0 is not finite"):
                rule(X, **calls(rule, D), on_excess="lower")
        else:
            assert np.allclose(rule(X, **calls(rule, D), on_excess="lower"), 1.0)
    else:
        assert np.allclose(rule(X, **calls(rule, D)), rule(X[-1:], **calls(rule, D)) if rule.least() == 1 else 1.0)
    with pytest.raises(BadInput, match=r"n = 0 vectors|of which 15 were dropped"):
        rule(X * np.nan, **calls(rule, D))


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_refused_structures(rule: Any) -> None:
    for strange in ([], [np.ones(3), np.ones(4), np.ones(3)], np.ones((0, 3)), "abc", np.ones((N, D), complex)):
        with pytest.raises(BadInput):
            rule(strange, **calls(rule, D))


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_everything_twice(rule: Any) -> None:
    """A worker that sends its update twice counts twice; its copies are told apart by place, not by value."""
    rng = np.random.default_rng(1)
    X = 1 + 0.1 * rng.standard_normal((N, D))
    X[3] = X[4]
    check(rule, X, np.ones(N, bool), "numpy", False)
