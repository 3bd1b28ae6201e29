"""Workers that count differently: the law of copies, equal weights, scaling, absent workers, refusals, caps."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from holdfast import (
    CWM,
    CWTM,
    MDA,
    NNM,
    PTM,
    Average,
    BadInput,
    Bucketing,
    Bulyan,
    CenteredClipping,
    CenterwO,
    Clip,
    GeometricMedian,
    Huber,
    Krum,
    MeaMed,
    Mean2P,
    MeanExact,
    MeanwO,
    MedianwO,
    Medoid,
    MultiKrum,
    NearestTo,
    NormBoundedMean,
    OuterCenter,
    OuterMean,
    Run,
    StreamCenterwO,
    TooManyFaults,
    cap,
    parse,
    train,
)
from holdfast.errors import NoWeightedForm
from holdfast.guarantees.bounds import bounds
from holdfast.guarantees.certificate import certificate
from holdfast.guarantees.certify import Search, search
from holdfast.guarantees.criteria import ratios, weighted_subsets
from holdfast.guarantees.relative import relative
from holdfast.guarantees.saved import save
from holdfast.guarantees.searches import Found
from holdfast.guarantees.semidefinite import semidefinite
from holdfast.guarantees.sets import Sets
from holdfast.masses import heaviest
from holdfast.rules.base import Chain
from holdfast.training import Functions
from tests import children, oracles

WITHOUT_F = (Average(), CWM(), CWM(lower=True), GeometricMedian(), Medoid(), NormBoundedMean(tau=1.0))
MADE: tuple[Any, ...] = (
    *(lambda f, rule=rule: rule for rule in WITHOUT_F),
    lambda f: GeometricMedian(iterations=1),
    lambda f: GeometricMedian(iterations=1, begin="origin"),
    lambda f: Huber(tau=1.0),
    lambda f: CenteredClipping(tau=1.0, iterations=3),
    lambda f: CWTM(f),
    lambda f: MeaMed(f),
    lambda f: MeaMed(f, lower=True),
    lambda f: MeanwO(f),
    lambda f: MeanwO(f, refine=3),
    lambda f: CenterwO(f),
    lambda f: OuterMean(f),
    lambda f: OuterCenter(f),
    lambda f: MedianwO(f),
    lambda f: PTM(f),
    lambda f: NearestTo(CWTM(f)),
    lambda f: NearestTo(GeometricMedian(), f=f),
    lambda f: NNM(f) >> CWTM(f),
    lambda f: NNM(f) >> MeanwO(f),
    lambda f: Clip(1.0) >> CWM(),
    lambda f: MeanExact(f),
    lambda f: Krum(f),
    lambda f: Krum(f, squared=False),
    lambda f: Krum(f, others="n-f-1"),
    lambda f: MultiKrum(f),
    lambda f: MultiKrum(f, m=2),
    lambda f: MultiKrum(f, others="n-f-1"),
)
NAMES = [repr(make(2)) for make in MADE]
NOT_COPIED = {"refine", "Krum(f=2)", "squared", "m=2"}  # promises.weighing says why
COPIED = [
    pytest.param(make, id=name)
    for make, name in zip(MADE, NAMES, strict=True)
    if not any(word in name for word in NOT_COPIED)
]
INSTANCES = int(os.environ.get("HOLDFAST_CLOUDS", "100"))  # rounds of a law; `make certify` takes 500
UNBOUNDED = ("Average", "Outer", "Clip", "NormBounded", "Huber", "iterations=1")  # or bounded in other units
BOUNDED = [name for name in NAMES if not any(word in name for word in UNBOUNDED)]


def drawn(seed: int, *, room: int = 1, most: int = 9) -> tuple[np.ndarray, np.ndarray, int]:
    """A round with whole-number weights of which the f heaviest hold less than half, of n ≥ 2f + room workers."""
    rng = np.random.default_rng(seed)
    while True:
        n, d = int(rng.integers(4, most + 1)), int(rng.integers(1, 6))
        f = int(rng.integers(1, (n - 1) // 2 + 1))
        w = rng.integers(1, 8, n)
        if 2 * heaviest(w, f) < w.sum() and len(set(w)) > 1 and n >= 2 * f + room:
            X = rng.normal(size=(n, d))
            if seed % 3 == 1:
                X[:f] += 30
            return X, w, f


def close(rule: Any) -> float:
    """How near the two answers must be: medians and principal axes are searched for."""
    return 1e-5 if "Geometric" in repr(rule) else 1e-8


def tied(rule: Any, X: np.ndarray, w: np.ndarray, f: int) -> bool:
    """Whether rounding decides: half of the weight is on either side of a line, or mixtures of MeanwO coincide."""
    if isinstance(rule, Medoid) and X.shape[1] == 1:
        return bool((2 * np.cumsum(w[X[:, 0].argsort()]) == w.sum()).any())
    if not isinstance(rule, Chain) or not isinstance(rule.parts[-1], MeanwO):
        return False
    Y = NNM(f).apply(X, weights=w)
    apart = np.abs(Y[:, None] - Y).max(axis=2) + np.eye(len(Y)) * np.abs(X).max()
    return bool(apart.min() < 1e-9 * np.abs(X).max())


@pytest.mark.parametrize("make", COPIED)
def test_a_whole_weight_counts_as_that_many_copies(make: Any) -> None:
    for seed in range(INSTANCES):
        X, w, f = drawn(seed)
        rule, many = make(f), make(int(heaviest(w, f)))
        if tied(rule, X, w, f):
            continue
        wanted = many(np.repeat(X, w, axis=0))
        for given in (X, torch.from_numpy(X)):
            found = np.asarray(rule(given, weights=w))
            assert np.abs(found - wanted).max() <= close(rule) * np.abs(X).max(), (rule, X.tolist(), w.tolist())


MASS_ORACLES: tuple[Any, ...] = (
    lambda f: Krum(f),
    lambda f: Krum(f, squared=False),
    lambda f: Krum(f, others="n-f-1"),
    lambda f: MultiKrum(f),
    lambda f: MultiKrum(f, m=2),
    lambda f: MultiKrum(f, others="n-f-1"),
)


@pytest.mark.parametrize("make", MASS_ORACLES, ids=[repr(make(2)) for make in MASS_ORACLES])
def test_a_rule_by_mass_is_its_definition(make: Any) -> None:
    tried = 0
    for seed in range(40):
        X, w, f = drawn(seed, most=7)
        if len(X) < make(f).least():
            continue
        parts = oracles.taken(make(f), X, w, heaviest(w, f))
        assert parts is not None
        wanted = np.asarray((parts[:, None] * X).sum(axis=0) / parts.sum(), float)
        assert np.abs(make(f)(X, weights=w) - wanted).max() <= 1e-9 * np.abs(X).max(), (X.tolist(), w.tolist(), f)
        tried += 1
    assert tried > 15


def test_the_least_sum_of_squares_by_mass_is_reached_and_told() -> None:
    for seed in range(40):
        X, w, f = drawn(seed, most=7)
        decision = MeanExact(f).decide(X, weights=w)
        kept = decision.weights * (w.sum() - heaviest(w, f))
        assert (kept <= w * (1 + 1e-9)).all()
        assert decision.value == pytest.approx(decision.weights @ X)
        found = float(kept @ np.square(X - decision.value).sum(axis=1)) / w.mean()
        parts = np.asarray(oracles.taken(MeanExact(f), X, w, heaviest(w, f)), float)
        centre = parts @ X / parts.sum()
        least = float(parts @ np.square(X - centre).sum(axis=1)) / w.mean()
        assert found == pytest.approx(least)  # other parts may have the same
        assert decision.cost == pytest.approx(least)
        assert decision.bound == pytest.approx(least)
        short = MeanExact(f, cap=1).decide(X, weights=w)
        assert short.bound is not None
        assert short.cost is not None
        assert short.bound <= least * (1 + 1e-9) <= short.cost * (1 + 2e-9)


@pytest.mark.parametrize("make", MADE, ids=NAMES)
def test_equal_weights_give_the_same_bits(make: Any) -> None:
    for seed in range(10):
        X, _, f = drawn(seed, room=make(0).least())
        for weight in (1, 0.3, 7e5):
            weighted = make(f).decide(X, weights=np.full(len(X), weight))
            plain = make(f).decide(X)
            assert np.array_equal(weighted.value, plain.value)
            assert np.array_equal(weighted.weights, plain.weights)


@pytest.mark.parametrize("make", MADE, ids=NAMES)
def test_only_the_proportions_count_and_weight_zero_is_absent(make: Any) -> None:
    for seed in range(10):
        X, w, f = drawn(seed, room=make(0).least())
        rule, first = make(f), make(f)(X, weights=w)
        assert np.array_equal(rule(X, weights=w * 1024), first)
        if "NNM" not in repr(rule):  # whose mixtures coincide, so that rounding breaks ties
            assert np.abs(rule(X, weights=w * 0.1) - first).max() <= close(rule) * np.abs(X).max()
        more = np.vstack([X[:1] * np.nan, X, X[:1] + 1e6])
        decision = rule.decide(more, weights=[0, *w, 0])
        assert np.abs(decision.value - first).max() <= 1e-9 * np.abs(X).max()  # rows are added in another order
        assert decision.dropped == {}
        assert not decision.lowered


@pytest.mark.parametrize("make", [make for make in MADE if repr(make(2)) in BOUNDED])
def test_rounding_of_masses_leaves_no_door_for_a_huge_value(make: Any) -> None:
    rng = np.random.default_rng(0)
    for seed in range(30):
        X = np.random.default_rng(seed).normal(size=(9, 4))
        w = rng.uniform(0.1, 0.3, 9)
        if 2 * heaviest(w, 2) >= w.sum():
            continue
        honest = make(2)(X, weights=w)
        for huge in (1e30, 1e300):
            bad = X.copy()
            bad[[int(w.argmax()), int(np.argsort(w)[-2])]] = huge
            assert np.abs(make(2)(bad, weights=w)).max() < 100, (make(2), seed, huge, honest)
            narrow = np.minimum(bad, 1e38).astype(np.float32)
            assert np.abs(make(2)(narrow, weights=w)).max() < 100
            assert np.abs(np.asarray(make(2)(torch.from_numpy(narrow), weights=w))).max() < 100


@pytest.mark.parametrize("make", MADE, ids=NAMES)
def test_blocks_of_float32_and_dicts_are_weighted_alike(make: Any) -> None:
    X, w, f = drawn(7, room=make(0).least())
    rule, wanted = make(f), make(f)(X, weights=w)
    narrow = rule(X.astype(np.float32), weights=w.tolist())
    assert narrow.dtype == np.float32
    assert np.abs(narrow - wanted).max() <= 1e-4 * np.abs(X).max()
    parts = rule([{"a": row[:1], "b": row[1:]} for row in X], weights=torch.tensor(w))
    assert np.abs(np.concatenate([parts["a"], parts["b"]]) - wanted).max() <= close(rule) * np.abs(X).max()


@pytest.mark.parametrize("rule", [CWTM(0), CWTM(1), CWTM(5), CWM(), CWM(lower=True), MeaMed(3)])
@pytest.mark.parametrize("weights", ["counts", "capped", "heavy"])
def test_long_columns_of_float32_have_the_answer_of_float64(rule: Any, weights: str) -> None:
    rng = np.random.default_rng(7)
    X = np.round(rng.normal(size=(13, 4321)), 1).astype(np.float32)  # ties, and more columns than one piece has
    counts = rng.integers(5, 9, 13)
    heavy = np.append(np.full(12, 2.0**39), 2.0**39 + 1)
    w = {"counts": counts, "capped": cap(rng.integers(20, 2000, 13), 5), "heavy": heavy}[weights]
    np.testing.assert_allclose(rule(X, weights=w), rule(X.astype(float), weights=w), rtol=1e-6, atol=1e-6)


def test_masses_of_which_f_hold_nearly_half_are_not_rounded_to_it() -> None:
    weights = [43534816834, 34066524668, 12423553996, 33654388271, 31523399236]
    X = np.arange(5.0)[:, None]
    np.testing.assert_array_equal(CWTM(2)(X.astype(np.float32), weights=weights), CWTM(2)(X, weights=weights))


def test_whom_a_weighted_rule_used_is_told() -> None:
    X = np.array([[0.0], [1.0], [2.0], [3.0], [90.0]])
    decision = CWTM(1).decide(X, weights=[1, 1, 1, 2, 2])
    assert decision.kept == (2, 3)  # two thirds of the mass are trimmed, half of it on each side
    assert decision.value == pytest.approx((2 * 1 + 3 * 2) / 3)
    assert MeanwO(1).decide(X, weights=[1, 1, 1, 2, 2]).weights == pytest.approx([0.2, 0.2, 0.2, 0.4, 0])


def test_a_decision_tells_the_weights_and_the_cap() -> None:
    X = np.random.default_rng(0).normal(size=(6, 2))
    decision = MeanwO(1).decide(X, weights=cap([10, 12, 0, 9, 11, 10**9], f=1))
    assert decision.masses is not None
    assert decision.masses.capped == (5,)
    assert "any 1 hold at most a = 35% of the weight W; capped at" in str(decision)
    assert "2       absent" in str(decision)


def test_both_candidates_of_two_phases_are_weighted() -> None:
    X, w, f = drawn(5)
    both = Mean2P(f).propose(X, weights=w)
    assert np.array_equal(both.inner.value, MeanwO(f)(X, weights=w))
    assert np.array_equal(both.outer.value, OuterMean(f)(X, weights=w))


@pytest.mark.parametrize(
    ("weights", "why"),
    [
        ([1, 1, 1], r"3 weights for 5 updates"),
        ([1, 1, -1, 1, 1], r"the weight -1 for worker 2"),
        ([1, 1, np.nan, 1, 1], r"the weight nan for worker 2"),
        ([1, 1, np.inf, 1, 1], r"the weight inf for worker 2"),
        ([0, 0, 0, 0, 0], r"all 0"),
        ("abc", r"a str"),
        ([[1, 1], [1, 1]], r"a list"),
        ({"a": 1}, r"a dict"),
        (5, r"an int"),
    ],
)
def test_weights_that_cannot_be_used_are_refused_in_one_sentence(weights: Any, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        MeanwO(1)(np.eye(5), weights=weights)


def test_an_excluded_worker_of_a_weighted_round_was_given_the_reason_of_another() -> None:
    X = np.array([[1.0], [1.2], [0.9], [1.1], [90.0]])
    for rule in (MeanwO(1), CenterwO(1), MedianwO(1), NearestTo(CWTM(1)), NNM(1) >> MeanwO(1)):
        plain, alike = rule.decide(X), rule.decide(X, weights=[3] * 5)
        weighted = rule.decide(X, weights=[500, 120, 80, 300, 200])
        assert plain.why == alike.why == rule.why
        last = rule.parts[-1] if isinstance(rule, Chain) else rule
        assert weighted.why == last.why_weighted
        assert "W - a" in weighted.why
        assert all(row[4] == weighted.why for row in weighted.table() if row[1] == "excluded")
    for outer in (OuterMean(2), OuterCenter(2)):
        assert outer.decide(X, weights=[4, 3, 3, 3, 3]).why.endswith("that holds a")
    assert CWTM(1).decide(X, weights=[4, 3, 3, 3, 3]).why == CWTM.why


@pytest.mark.parametrize(
    "rule", [Bulyan(1), Bucketing(1) >> CWM(), MDA(1), StreamCenterwO(1), MeanwO(1, ties="all")], ids=repr
)
def test_a_rule_without_a_weighted_form_refuses_by_name(rule: Any) -> None:
    with pytest.raises(BadInput, match=r"has no weighted form"):
        rule(np.eye(7), weights=[1, 2, 1, 1, 1, 1, 1], rng=np.random.default_rng(0))


def test_weights_of_which_f_workers_hold_a_half_are_refused() -> None:
    with pytest.raises(BadInput, match=r"the 1 heaviest worker holds 90%.*cap the weights"):
        MeanwO(1)(np.eye(5), weights=[36, 1, 1, 1, 1])
    assert MeanwO(1)(np.eye(5), weights=cap([36, 1, 1, 1, 1], f=1)).shape == (5,)


def test_broken_updates_of_weighted_workers_are_dropped_as_always() -> None:
    X = np.random.default_rng(0).normal(size=(7, 3))
    X[2] = np.nan
    w = np.array([1, 2, 3, 2, 1, 2, 1])
    decision = MeanwO(2).decide(X, weights=w)
    assert decision.dropped == {2: "not finite"}
    rest = np.delete(np.arange(7), 2)
    assert np.array_equal(decision.value, MeanwO(2)(X[rest], weights=w[rest]))
    X[[1, 3]] = np.inf
    with pytest.raises(TooManyFaults):
        MeanwO(2)(X, weights=w)


class TestWhatAReviewFound:
    def test_masses_that_float32_cannot_add_up_leave_no_door(self) -> None:
        w = [2**30, 2**29, 2**29 + 5]
        X = np.array([[3e38], [2.0], [3.0]], np.float32)
        assert CWM()(X, weights=w) <= 3
        assert NearestTo(CWM(), f=1)(X, weights=w) <= 3
        m = cap([3000001, 2999999, 2000003, 1999999, 10**9], f=1, share=0.4999999)
        X = np.array([[1.0], [2.0], [3.0], [2.5], [3e38]], np.float32)
        for rule in (CWM(), CWTM(1), MeaMed(1), MeanwO(1)):
            assert 1 <= rule(X, weights=m) <= 3
            assert 1 <= float(rule(torch.from_numpy(X), weights=m)) <= 3

    def test_a_worker_that_sends_nan_cannot_end_a_weighted_round(self) -> None:
        X = np.array([[1.0], [1.2], [0.9], [1.1], [np.nan]])
        decision = CWTM(1).decide(X, weights=[4, 1, 1, 1, 3])
        assert decision.value == pytest.approx((4 + 1.2 + 0.9 + 1.1) / 7)
        assert "f was lowered" in decision.note
        assert "hold half of the weight" in decision.note
        assert MeanwO(1)(X, weights=cap([10**6, 1, 1, 1, 10**9], f=1)).shape == (1,)
        with pytest.raises(BadInput, match="needs less than half"):
            CWTM(1)(X[:4], weights=[4, 1, 1, 1])

    @pytest.mark.parametrize("make", MADE, ids=NAMES)
    def test_a_weight_near_nothing_counts_nearly_nothing(self, make: Any) -> None:
        X = np.random.default_rng(0).normal(size=(9, 4))
        found = make(2)(X, weights=[1, 1, 1, 1, 1, 1, 1, 0.5, 1e-14])
        assert np.isfinite(found).all()
        if isinstance(make(2), Average | CWM | CWTM | GeometricMedian | PTM):  # others may choose it as their centre
            assert np.abs(found - make(2)(X[:8], weights=[1, 1, 1, 1, 1, 1, 1, 0.5])).max() < 1e-4

    def test_counts_beyond_all_floats_are_capped(self) -> None:
        counts = [500, 120, 80, 300]
        limit = cap([*counts, 10**9], f=1).limit
        for lie in (10**30, 10**400, 1e308, np.inf):
            assert cap([*counts, lie], f=1).limit == pytest.approx(limit)
        assert cap([1] * 7 + [1e308, 1e308], f=2).capped == (7, 8)
        assert cap(cap(counts, f=1), f=1, share=float(np.float32(0.4))).share_of(1) <= 0.4 + 1e-6
        for odd in (5, "abc", None, {"a": 1}):
            with pytest.raises(BadInput):
                cap(odd, f=1)  # type: ignore[arg-type]

    def test_nothing_of_an_absent_worker_is_read(self) -> None:
        rows = [np.array([1.0, 2.0]), None, np.array([1.5, 2.5]), "text", np.array([2.0, 2.0]), np.zeros(9)]
        answer = MeanwO(1)(rows, weights=[1, 0, 2, 0, 2, 0])
        assert np.array_equal(answer, MeanwO(1)(np.array([rows[0], rows[2], rows[4]]), weights=[1, 2, 2]))
        with pytest.raises(BadInput, match="update 5 differs"):
            MeanwO(1)(rows, weights=[1, 0, 2, 0, 2, 1])


class TestCommand:
    def test_weights_come_from_a_list_an_object_or_lines(self, tmp_path: Path) -> None:
        X = np.random.default_rng(0).normal(size=(5, 3))
        names = [f"w{i}.npy" for i in range(5)]
        for name, row in zip(names, X, strict=True):
            np.save(tmp_path / name, row)
        w = [3, 1, 2, 2, 2]
        (tmp_path / "list.json").write_text(json.dumps(w))
        (tmp_path / "object.json").write_text(json.dumps(dict(zip(names, w, strict=True))))
        (tmp_path / "lines.txt").write_text("\n".join(map(str, w)))
        for file in ("list.json", "object.json", "lines.txt"):
            aggregated(tmp_path, names, "--weights", file, "--out", "out.npy")
            assert np.array_equal(np.load(tmp_path / "out.npy"), MeanwO(1)(X, weights=w))
        told = aggregated(tmp_path, names, "--weights", "list.json", "--cap", "0.25", "--json")
        assert json.loads(told)["capped"] == {"w0.npy": 3.0}
        (tmp_path / "short.json").write_text("[1, 2]")
        (tmp_path / "names.json").write_text('{"w0.npy": 1}')
        (tmp_path / "odd.json").write_text('"abc"')
        for file, why in (
            ("short.json", "2 weights for 5 updates"),
            ("names.json", "no weight for"),
            ("odd.json", "holds no weights"),
            ("none.json", "cannot be read"),
        ):
            assert why in aggregated(tmp_path, names, "--weights", file, code=2)

    def test_a_certificate_takes_weights(self, tmp_path: Path) -> None:
        X = np.random.default_rng(0).normal(size=(5, 3))
        np.save(tmp_path / "rows.npy", X)
        (tmp_path / "list.json").write_text("[3, 1, 2, 2, 2]")
        words = ["certificate", "MeanwO(f=1)", "rows.npy", "--weights", "list.json", "--cap", "0.25", "--json"]
        done = children.run(children.holdfast(*words), cwd=tmp_path, env=children.WIDE)
        assert done.returncode == 0, done.stderr
        wanted = certificate(MeanwO(1).decide(X, weights=cap([3, 1, 2, 2, 2], f=1, share=0.25)), X)
        told = json.loads(done.stdout)
        assert told["kappa"] == pytest.approx(wanted.kappa)
        assert told["share"] == pytest.approx(0.25)


def aggregated(folder: Path, names: list[str], *words: str, code: int = 0) -> str:
    """What `holdfast aggregate 'MeanwO(f=1)'` prints."""
    done = children.run(children.holdfast("aggregate", "MeanwO(f=1)", *names, *words), cwd=folder, env=children.WIDE)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


class TestCap:
    def test_the_limit_is_the_largest_that_keeps_the_share(self) -> None:
        rng = np.random.default_rng(0)
        for _ in range(300):
            n = int(rng.integers(3, 12))
            f = int(rng.integers(1, (n - 1) // 2 + 1))
            w = np.round(np.exp(rng.normal(0, 2, n)), 3)
            share = rng.uniform(f / n, 0.5)
            found = cap(w, f, share)
            assert heaviest(found.weights, f) <= share * found.weights.sum() * (1 + 1e-9)
            assert found.share_of(f) == pytest.approx(heaviest(found.weights, f) / found.weights.sum())
            if found.limit < np.inf:
                larger = np.minimum(w, found.limit * 1.001)
                assert heaviest(larger, f) > share * larger.sum()
                assert found.capped == tuple(np.flatnonzero(w > found.limit))

    def test_weights_that_are_even_enough_stay(self) -> None:
        found = cap([1, 2, 1, 1, 2], f=1)
        assert found.capped == ()
        assert np.array_equal(found.weights, [1, 2, 1, 1, 2])

    def test_a_declared_billion_counts_no_more_than_the_limit(self) -> None:
        counts = [100, 120, 90, 110, 130, 95, 105]
        honest = cap(counts, f=2)
        lied = cap([*counts[:-1], 10**9], f=2)
        assert honest.capped == ()
        assert lied.weights[-1] < 300
        assert lied.share_of(2) <= 4 / 7

    @pytest.mark.parametrize(("f", "share"), [(2, 0.3), (2, 0.5), (2, 0.9), (1, float("nan")), (-1, 0.2), (1, "x")])
    def test_a_share_that_no_limit_can_keep_is_refused(self, f: Any, share: Any) -> None:
        with pytest.raises(BadInput):
            cap([1, 2, 3, 4, 5], f, share)


CRITERIA = ("lambda", "kappa", "xi")
CONSTANTS: tuple[Any, ...] = (
    *(lambda f, rule=rule: rule for rule in (CWM(), CWM(lower=True), GeometricMedian(), Medoid())),
    *(CWTM, PTM, MeaMed, MeanwO, MeanExact, CenterwO, MedianwO, Krum, MultiKrum),
    lambda f: MeanwO(f, refine=2),
    lambda f: Krum(f, others="n-f-1"),
    lambda f: Krum(f, squared=False),
    lambda f: MultiKrum(f, m=2),
    lambda f: MultiKrum(f, others="n-f-1"),
    lambda f: NearestTo(CWTM(f)),
    lambda f: NNM(f) >> CWTM(f),
)


def small_round(seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """A round of at most 7 workers with weights of which the f heaviest hold less than 0.49."""
    rng = np.random.default_rng((7, seed))
    while True:
        n, d = int(rng.integers(3, 8)), int(rng.integers(1, 4))
        f = int(rng.integers(1, (n - 1) // 2 + 1))
        w = rng.integers(1, 8, n).astype(float) if seed % 2 else rng.uniform(0.2, 1, n)
        if heaviest(w, f) < 0.49 * w.sum() and len(set(w)) > 1:
            return rng.integers(-2, 3, (n, d)).astype(float) if seed % 3 else rng.normal(size=(n, d)), w, f


def share_of(w: np.ndarray, f: int) -> float:
    return heaviest(w, f) / float(w.sum())


@pytest.mark.parametrize("make", CONSTANTS, ids=[repr(make(2)) for make in CONSTANTS])
def test_no_weighted_constant_is_exceeded(make: Any) -> None:
    largest = 0.0
    for seed in range(INSTANCES):
        X, w, f = small_round(seed)
        rule = make(f)
        if len(X) < rule.least():
            continue
        F, sets = rule(X, weights=w), weighted_subsets(tuple(w), f)
        for criterion, promise in bounds(rule, len(X), f, X.shape[1], share=share_of(w, f)).items():
            if criterion not in CRITERIA or promise.ours is None or promise.ours.value == np.inf:
                continue
            found = float(ratios(criterion, F, X, sets).max())
            bound = promise.ours.value * (1 + (1e-4 if "Geometric" in repr(rule) else 1e-7))
            assert found <= bound + 1e-9, (rule, criterion, X.tolist(), w.tolist(), f, found, bound)
            largest = max(largest, found / bound)
    assert largest > 0.2  # the rounds are not all easy


class TestConstants:
    """`bounds(rule, n, share=...)`: constants for all weights."""

    @pytest.mark.parametrize("make", CONSTANTS, ids=[repr(make(2)) for make in CONSTANTS])
    def test_many_equal_workers_have_nearly_the_constants_of_their_share(self, make: Any) -> None:
        n, f = 4000, 1000
        if "m=2" in repr(make(f)):
            return  # two of 4,000
        plain = bounds(make(f), n, f, 3)
        for name, promise in bounds(make(f), n, f, 3, share=f / n).items():
            if promise.ours is None or promise.ours.value == np.inf:
                assert "CenterwO" in repr(make(f))  # whose constants grow with n
                continue
            ours = plain[name].ours
            assert ours is not None
            assert ours.value * (1 - 1e-9) <= promise.ours.value <= ours.value * 1.01
            assert promise.least == pytest.approx(plain[name].least, rel=1e-2)

    @pytest.mark.parametrize("x", [0.15, 0.25, 0.3])
    def test_the_constants_are_those_of_the_page(self, x: float) -> None:
        n, q, h, u = 20, 1 - 2 * x, 1 - x, min(1 / 20, (1 - 2 * x) / 3)
        near, g, p = x / q, min(np.sqrt(2), np.sqrt(h / q)), q - u
        centre = (np.sqrt(2) * h / q + np.sqrt(near)) ** 2
        page = {
            CWTM(2): near,
            CWM(): 1 / q,
            GeometricMedian(): 1 / q,
            MeanExact(2): 4 * near,
            MeanwO(2): near * (1 + g) ** 2,
            NearestTo(CWTM(2)): near * (1 + np.sqrt(1 + near)) ** 2,
            MeaMed(2): near * (1 + np.sqrt(1 + 1 / q)) ** 2,
            MedianwO(2): near * (1 + np.sqrt(1 + centre)) ** 2,
            Medoid(): 2 * h**2 / q**2,
            Krum(2): (np.sqrt(2 * h) + np.sqrt(x + u)) ** 2 / p,
            Krum(2, others="n-f-1"): (np.sqrt(2 * h) + np.sqrt(x)) ** 2 / q,
            MultiKrum(2): (np.sqrt(2 * x / p) + x / h * np.sqrt((x + u) / p) + np.sqrt(x * q) / h) ** 2,
            NNM(2) >> CWTM(2): (1 + np.sqrt(2)) ** 2 * near * (1 + near),
        }
        reach = {
            CWTM(2): min(x / h * np.sqrt(3), np.sqrt(near / 2)),
            CenterwO(2): 3 * x / h,
            Medoid(): h / q,
            MeanwO(2): min(g * np.sqrt(x / (2 * q)) + x / h, 2 * x / h * (1 + np.sqrt(h / q))),
            Krum(2): np.sqrt((h - u) / p) + (x + u) / h,
        }
        for name, constants in (("kappa", page), ("lambda", reach)):
            for rule, wanted in constants.items():
                ours = bounds(rule, n, 2, 3, share=x)[name].ours
                assert ours is not None
                assert ours.value == pytest.approx(wanted, rel=1e-6), (name, rule)
        xi = bounds(MeanExact(2), n, 2, 3, share=x)["xi"].ours
        assert xi is not None
        assert xi.value == pytest.approx(near * (1 + np.sqrt(3)) ** 2)

    def test_a_share_next_to_one_half_is_no_error(self) -> None:
        kappa = bounds(CWTM(1), 3, share=float(np.nextafter(0.5, 0)))["kappa"].ours
        assert kappa is not None
        assert 1e15 < kappa.value < np.inf

    def test_the_constant_of_the_trimmed_mean_is_reached(self) -> None:
        """Of weights 2, 1, 2 the mass 3 is at 0. The set of the 2 at 1 and the 1 at 0 is as far as κ allows."""
        X, w = np.array([[1.0], [0.0], [0.0]]), (2.0, 1.0, 2.0)
        kappa = bounds(CWTM(1), 3, share=2 / 5)["kappa"]
        assert kappa.exact
        assert kappa.ours is not None
        found = ratios("kappa", CWTM(1)(X, weights=w), X, weighted_subsets(w, 1)).max()
        assert found == pytest.approx(kappa.ours.value)

    def test_the_constant_of_the_median_is_approached(self) -> None:
        """A little more than half of the weight is at 1, the Byzantine worker too."""
        X, w = np.array([[1.0], [1.0], [0.0], [0.0]]), (10.0, 10.0, 10.0, 9.9)
        kappa = bounds(CWM(), 4, share=10 / 39.9)["kappa"].ours
        assert kappa is not None
        found = ratios("kappa", CWM()(X, weights=w), X, weighted_subsets(w, 1)).max()
        assert 0.99 * kappa.value <= found <= kappa.value

    def test_a_light_worker_far_away_leaves_the_ball_without_a_constant(self) -> None:
        for light in (1e-2, 1e-4, 1e-6):
            X, w = np.array([[1.0 - 1e-9], [0.0], [0.0], [-1.0]]), (1.0, 1.0, 1.0, light)
            found = ratios("kappa", CenterwO(1)(X, weights=w), X, weighted_subsets(w, 1)).max()
            assert found > 0.2 / light
        assert bounds(CenterwO(1), 4, share=0.4)["kappa"].text == "unbounded"
        assert bounds(CenterwO(1), 4, share=0.4)["zeta"].ours is None

    def test_nobody_with_weight_leaves_the_mean(self) -> None:
        assert all(promise.text == "= 0" for promise in bounds(MeanwO(0), 5, share=0.0).values())

    @pytest.mark.parametrize(
        ("rule", "share", "why"),
        [
            (CWTM(2), 0.5, "share = 0.5 was given"),
            (CWTM(2), -0.1, "share = -0.1 was given"),
            (CWTM(2), True, "share = True was given"),
            (CWTM(2), "x", "share = 'x' was given"),
            (CWTM(2), float("nan"), "share = nan was given"),
            (CWTM(2), 0.1, "the 2 heaviest of 7 workers hold at least 0.286"),
            (MDA(2), 0.3, "has no weighted form"),
            (MeanwO(2, ties="all"), 0.3, "has no weighted form"),
            (CWTM(5), 0.4, "it needs at least 11 workers|at most 3 of 7"),
        ],
    )
    def test_a_share_that_makes_no_sense_is_refused(self, rule: Any, share: Any, why: str) -> None:
        with pytest.raises(BadInput, match=why):
            bounds(rule, 7, share=share)


CERTIFIED: tuple[Any, ...] = (
    *(lambda f, rule=rule: rule for rule in (CWM(), GeometricMedian(), Medoid(), Average())),
    *(CWTM, PTM, MeaMed, MeanwO, MeanExact, CenterwO, MedianwO, Krum, OuterMean),
    lambda f: MeanExact(f, cap=1),
    lambda f: MultiKrum(f, others="n-f-1"),
    lambda f: NearestTo(CWTM(f)),
    lambda f: NNM(f) >> CWTM(f),
)


class TestCertificates:
    @pytest.mark.parametrize("make", CERTIFIED, ids=[repr(make(2)) for make in CERTIFIED])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_no_set_is_farther_than_it_says(self, make: Any, dtype: Any) -> None:
        for seed in range(INSTANCES // 4):
            wide, w, f = small_round(seed)
            X = wide.astype(dtype)
            if len(X) < make(f).least():
                continue
            decision, wide = make(f).decide(X, weights=w), X.astype(float)
            quick, told = (certificate(decision, X, f=f, sharp=far, bound=far) for far in (False, True))
            F = np.asarray(decision.value, float)
            if decision.measure == "weight" and not decision.mixed:
                F = decision.weights @ wide  # before it was rounded
            sets = weighted_subsets(tuple(w), f)
            true = float(ratios("kappa", F, wide, sets).max())
            about = (repr(make(f)), X.tolist(), w.tolist(), f)
            assert quick.kappa >= told.kappa, about
            assert told.kappa >= true * (1 - 1e-6) - 1e-9 or (true == np.inf and told.kappa > 1e9), about
            assert told.least is None or told.least <= true * (1 + 1e-6) + 1e-9, about
            assert told.share == pytest.approx(share_of(w, f))
            self.in_units(told, decision, wide, F, sets)

    @staticmethod
    def in_units(told: Any, decision: Any, X: np.ndarray, F: np.ndarray, sets: np.ndarray) -> None:
        """Statements A, B and C, for each set."""
        room = 1e-5 * (1 + float(np.abs(X).max()))
        for held in sets:
            part = held / held.sum()
            mean = part @ X
            sigma = float(np.sqrt(part @ np.square(X - mean).sum(axis=1)))
            assert np.linalg.norm(F - mean) <= told.anywhere + room
            if told.pull is not None:
                both = decision.weights * (held > 0)
                assert np.linalg.norm(F - both @ X / both.sum()) <= told.pull + room
                assert np.linalg.norm(F - mean) <= told.within(sigma) + room

    @pytest.mark.parametrize("make", [MeanwO, CWTM, lambda f: GeometricMedian()])
    def test_equal_weights_have_the_numbers_of_none(self, make: Any) -> None:
        for seed in range(5):
            X, _, f = drawn(seed)
            for weight in (1, 0.3):
                weighted = make(f).decide(X, weights=np.full(len(X), weight))
                for flag in (False, True):
                    ours = certificate(weighted, X, f=f, sharp=flag, bound=flag)
                    assert ours == certificate(make(f).decide(X), X, f=f, sharp=flag, bound=flag)

    def test_equal_masses_have_the_proofs_of_none(self) -> None:
        for seed in range(10):
            X, _, f = drawn(seed)
            decision = MeanwO(f).decide(X)
            assert decision.distances is not None
            for prove in (relative, semidefinite):
                plain, three = Sets.plain(len(X), f), Sets(np.full(len(X), 3.0), 3.0 * f)
                found = [prove(decision.distances, decision.weights, sets, 1e-12) for sets in (plain, three)]
                assert found[0] == pytest.approx(found[1], rel=1e-3)

    def test_a_quiet_round_is_certified_far_below_the_rules_bound(self) -> None:
        rng = np.random.default_rng(0)
        X, w = rng.normal(size=(35, 1000)), rng.uniform(0.5, 2, 35)
        told = certificate(MeanwO(7).decide(X, weights=w))
        assert told.how == "this round's vectors"
        assert told.kappa < 0.15
        assert "liars, the weighted mean of the others is within" in str(told)
        assert f"(at most {told.share:.3g} of the weight)" in str(told)

    def test_a_billion_moves_the_answer_no_more_than_the_certificate_says(self) -> None:
        X = np.random.default_rng(0).normal(size=(8, 5))
        counts = [100, 120, 90, 110, 130, 95, 105, 10**9]
        X[7] = 1e6
        decision = MeanwO(1).decide(X, weights=cap(counts, f=1))
        told = certificate(decision)
        honest = np.average(X[:7], axis=0, weights=counts[:7])
        spread = np.average(np.square(X[:7] - honest).sum(axis=1), weights=counts[:7])
        assert np.square(decision.value - honest).sum() <= told.kappa * spread
        assert told.kappa < 1

    def test_f_workers_that_hold_half_have_no_certificate(self) -> None:
        X = np.eye(5)
        decision = GeometricMedian().decide(X, weights=[5, 1, 1, 1, 1])
        assert certificate(decision, X, f=0).kappa < np.inf
        with pytest.raises(BadInput, match="the 1 heaviest worker holds 56%; a certificate needs less than half"):
            certificate(decision, X, f=1)


class TestSearch:
    def test_a_search_with_weights_finds_a_round_that_is_tight(self) -> None:
        *_, found = search(Search("CWTM(f=1)", 3, 1, 1, "kappa", 300, weights=(2.0, 1.0, 2.0)))
        assert found.value == pytest.approx(2.0, rel=1e-2)
        value = ratios("kappa", CWTM(1)(found.X, weights=(2, 1, 2)), found.X, weighted_subsets((2.0, 1.0, 2.0), 1))
        assert value.max() == pytest.approx(found.value)

    @pytest.mark.parametrize(
        ("rule", "weights", "why"),
        [
            ("CWTM(f=1)", (1.0, 1.0), "2 weights for 3 updates"),
            ("CWTM(f=1)", (5.0, 1.0, 1.0), "share = 0.7"),
            ("MDA(f=1)", (2.0, 1.0, 2.0), "no weighted form"),
            (lambda X: X[0], (2.0, 1.0, 2.0), "needs a rule of holdfast"),
        ],
    )
    def test_weights_of_no_use_are_refused(self, rule: Any, weights: Any, why: str) -> None:
        with pytest.raises(BadInput, match=why):
            Search(rule, 3, 1, 1, weights=weights)

    def test_a_file_holds_no_weights(self, tmp_path: Path) -> None:
        task = Search("CWTM(f=1)", 3, 1, 1, weights=(2.0, 1.0, 2.0))
        with pytest.raises(BadInput, match="a file holds none"):
            save(tmp_path / "worst.npz", task, Found(1.0, np.zeros((3, 1)), 1, 0))


class TestTraining:
    SAMPLES = (50, 10, 20, 30, 40, 20, 20)

    def task(self) -> Functions:
        return Functions(
            workers=7,
            first=np.zeros(3),
            update=lambda worker, model, t: model - worker,
            loss=lambda worker, model, t: float(np.square(model - worker).sum()),
            samples=self.SAMPLES,
        )

    @pytest.mark.parametrize("rule", ["MeanwO(f=1)", "CWTM(f=1)", "Average()", "Mean2P(f=1)"])
    def test_workers_count_by_their_samples(self, rule: str) -> None:
        run = Run(rule=rule, workers=7, rounds=1, lr=1.0, momentum=0.0, weights="samples")
        weighted, plain = (train(one, task=self.task()).model for one in (run, run.changed(weights="equal")))
        X = -np.arange(7.0)[:, None] * np.ones(3)
        rules = {"Mean2P(f=1)": MeanwO(1)}
        wanted = rules.get(rule, parse(rule))(X, weights=self.SAMPLES)
        assert weighted == pytest.approx(-wanted)
        assert not np.allclose(weighted, plain)

    def test_a_declared_billion_moves_the_mean_and_not_a_rule_with_a_cap(self) -> None:
        run = Run(rule="Average()", workers=7, byzantine=1, rounds=1, lr=1.0, momentum=0.0, weights="samples")
        assert train(run.changed(declared=10**9), task=self.task()).model[0] == pytest.approx(6.0, abs=1e-6)
        robust = run.changed(rule="MeanwO(f=1)")
        true, lied = (train(one, task=self.task()).model[0] for one in (robust, robust.changed(declared=10**9)))
        assert abs(true - lied) < 1.0

    def test_a_training_with_weights_is_certified(self) -> None:
        run = Run(rule="MeanwO(f=1)", workers=7, rounds=1, lr=1.0, momentum=0.0, weights="samples")
        kappa = train(run, task=self.task(), certify=True).lines[0]["kappa"]
        X = -np.arange(7.0)[:, None] * np.ones(3)
        decision = MeanwO(1).decide(X, weights=cap(self.SAMPLES, f=1))
        assert kappa == pytest.approx(certificate(decision).kappa)

    def test_old_records_keep_their_keys(self) -> None:
        run = Run(rule="MeanwO(f=1)")
        assert not {"weights", "declared"} & run.record().keys()
        weighted = run.changed(weights="samples", declared=5)
        assert Run.read(weighted.text()) == weighted
        with pytest.raises(BadInput, match="it is 'equal' or 'samples'"):
            run.changed(weights="many")

    def test_a_task_without_samples_is_refused(self) -> None:
        task = Functions(workers=3, first=np.zeros(1), update=lambda worker, model, t: model)
        with pytest.raises(BadInput, match="Functions does not know its workers' sample counts"):
            train(Run(rule="MeanwO(f=1)", workers=3, weights="samples"), task=task)

    @pytest.mark.parametrize("rule", ["MDA(f=1)", "TwoPhase(inner=MeanwO(f=1), outer=MDA(f=1))"])
    def test_a_rule_without_a_weighted_form_skipped_every_round(self, rule: str) -> None:
        run = Run(rule=rule, workers=7, rounds=3, weights="samples")
        with pytest.raises(NoWeightedForm, match=r"has no weighted form; .* or take MeanwO, CWTM, PTM or Geom"):
            train(run, task=self.task())

    def test_rules_that_the_refusal_names_have_a_weighted_form(self) -> None:
        _, _, names = str(NoWeightedForm.of(MDA(1))).rstrip(".").partition("or take ")
        for name in names.replace(" or ", ", ").split(", "):
            rule = parse(name if name == "GeometricMedian" else f"{name}(f=1)")
            assert rule(np.eye(7), weights=[1, 2, 1, 1, 1, 1, 1]).shape == (7,)

    def test_weights_that_change_nothing_said_nothing(self) -> None:
        said = "all workers count alike, so weights='samples' changes nothing"
        run = Run(rule="MeanwO(f=1)", workers=7, byzantine=1, rounds=2, weights="samples")
        alike = replace(self.task(), samples=[30] * 7)
        assert said in train(run, task=alike).remarks()
        assert said in str(train(run, task=alike))
        for one, task in ((run, self.task()), (run.changed(declared=99), alike), (run.changed(weights="equal"), alike)):
            assert said not in train(one, task=task).remarks()

    def test_torch_workers_know_their_images(self) -> None:
        run = Run(rule="MeanwO(f=1)", workers=5, rounds=2, train=20, test=5, weights="samples", probe=0)
        assert train(run).lines
