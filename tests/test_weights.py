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
    CenteredClipping,
    CenterwO,
    Clip,
    GeometricMedian,
    Krum,
    MeaMed,
    Mean2P,
    MeanwO,
    MedianwO,
    Medoid,
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
from holdfast.guarantees.certificate import certificate
from holdfast.masses import heaviest
from holdfast.training import Functions
from tests import children

WITHOUT_F = (Average(), CWM(), CWM(lower=True), GeometricMedian(), Medoid(), NormBoundedMean(tau=1.0))
MADE: tuple[Any, ...] = (
    *(lambda f, rule=rule: rule for rule in WITHOUT_F),
    lambda f: GeometricMedian(iterations=1),
    lambda f: CenteredClipping(tau=1.0, iterations=3),
    lambda f: CWTM(f),
    lambda f: MeaMed(f),
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
)
NAMES = [repr(make(2)) for make in MADE]
COPIED = [pytest.param(make, id=name) for make, name in zip(MADE, NAMES, strict=True) if "refine" not in name]
UNBOUNDED = ("Average", "Outer", "Clip", "NormBounded", "iterations=1")  # or bounded in other units
BOUNDED = [name for name in NAMES if not any(word in name for word in UNBOUNDED)]


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """A round with whole-number weights of which the f heaviest hold less than half."""
    rng = np.random.default_rng(seed)
    while True:
        n, d = int(rng.integers(4, 10)), int(rng.integers(1, 6))
        f = int(rng.integers(1, (n - 1) // 2 + 1))
        w = rng.integers(1, 8, n)
        if 2 * heaviest(w, f) < w.sum() and len(set(w)) > 1:
            X = rng.normal(size=(n, d))
            if seed % 3 == 1:
                X[:f] += 30
            return X, w, f


def close(rule: Any) -> float:
    """How near the two answers must be: medians and principal axes are searched for."""
    return 1e-5 if "Geometric" in repr(rule) else 1e-8


@pytest.mark.parametrize("make", COPIED)  # of the best centre, copies would take the places of others in `refine`
@pytest.mark.parametrize("torch_too", [False, True], ids=["numpy", "torch"])
def test_a_whole_weight_counts_as_that_many_copies(make: Any, torch_too: bool) -> None:
    for seed in range(60):
        X, w, f = drawn(seed)
        rule, many = make(f), make(int(heaviest(w, f)))
        copies = np.repeat(X, w, axis=0)
        given = torch.from_numpy(X) if torch_too else X
        found, wanted = np.asarray(rule(given, weights=w)), many(copies)
        scale = np.abs(X).max()
        assert np.abs(found - wanted).max() <= close(rule) * scale, (rule, X.tolist(), w.tolist())


@pytest.mark.parametrize("make", MADE, ids=NAMES)
def test_equal_weights_give_the_same_bits(make: Any) -> None:
    for seed in range(10):
        X, _, f = drawn(seed)
        for weight in (1, 0.3, 7e5):
            weighted = make(f).decide(X, weights=np.full(len(X), weight))
            plain = make(f).decide(X)
            assert np.array_equal(weighted.value, plain.value)
            assert np.array_equal(weighted.weights, plain.weights)


@pytest.mark.parametrize("make", MADE, ids=NAMES)
def test_only_the_proportions_count_and_weight_zero_is_absent(make: Any) -> None:
    for seed in range(10):
        X, w, f = drawn(seed)
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
    X, w, f = drawn(7)
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
    with pytest.raises(BadInput, match="certificates are for rounds without weights"):
        certificate(decision, X)


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
        assert weighted.why == rule.why_weighted
        assert "W - a" in weighted.why
        assert all(row[4] == weighted.why for row in weighted.table() if row[1] == "excluded")
    for outer in (OuterMean(2), OuterCenter(2)):
        assert outer.decide(X, weights=[4, 3, 3, 3, 3]).why.endswith("that holds a")
    assert CWTM(1).decide(X, weights=[4, 3, 3, 3, 3]).why == CWTM.why


@pytest.mark.parametrize("rule", [Krum(1), MDA(1), StreamCenterwO(1), MeanwO(1, ties="all")])
def test_a_rule_without_a_weighted_form_refuses_by_name(rule: Any) -> None:
    with pytest.raises(BadInput, match=r"has no weighted form"):
        rule(np.eye(7), weights=[1, 2, 1, 1, 1, 1, 1])


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
        assert json.loads(told)["capped"] == ["w0.npy"]
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


def weighted_kappa(F: np.ndarray, X: np.ndarray, w: np.ndarray, f: int) -> float:
    """The largest weighted κ over all sets whose complement weighs at most what the f heaviest do."""
    n, most, worst = len(X), heaviest(w, f), 0.0
    for bits in range(1, 2**n):
        kept = np.array([bits >> i & 1 for i in range(n)], bool)
        if w[~kept].sum() > most:
            continue
        share = w[kept] / w[kept].sum()
        mean = share @ X[kept]
        away, spread = float(np.square(F - mean).sum()), float(share @ np.square(X[kept] - mean).sum(axis=1))
        worst = max(worst, away / spread if spread > 1e-20 else (np.inf if away > 1e-18 else 0.0))
    return worst


KAPPAS: dict[str, tuple[Any, Any]] = {
    "CWTM": (CWTM, lambda x: x / (1 - 2 * x)),
    "PTM": (PTM, lambda x: x / (1 - 2 * x) * (1 + 1e-4)),
    "CWM": (lambda f: CWM(), lambda x: 1 / (1 - 2 * x)),
    "GeometricMedian": (lambda f: GeometricMedian(), lambda x: 1 / (1 - 2 * x) * (1 + 1e-4)),
    "MeanwO": (MeanwO, lambda x: x / (1 - 2 * x) * (1 + min(np.sqrt(2), np.sqrt((1 - x) / (1 - 2 * x)))) ** 2),
    "MeanwO refined": (
        lambda f: MeanwO(f, refine=2),
        lambda x: x / (1 - 2 * x) * (1 + min(np.sqrt(2), np.sqrt((1 - x) / (1 - 2 * x)))) ** 2,
    ),
    "NearestTo": (lambda f: NearestTo(CWTM(f)), lambda x: x / (1 - 2 * x) * (1 + np.sqrt(1 + x / (1 - 2 * x))) ** 2),
    "Medoid": (lambda f: Medoid(), lambda x: 2 * (1 - x) ** 2 / (1 - 2 * x) ** 2),
}
INSTANCES = int(os.environ.get("HOLDFAST_CLOUDS", "60"))


@pytest.mark.parametrize("name", KAPPAS)
def test_the_weighted_constant_is_never_exceeded(name: str) -> None:
    make, constant = KAPPAS[name]
    largest = 0.0
    for seed in range(INSTANCES):
        rng = np.random.default_rng((7, seed))
        n, d = int(rng.integers(3, 8)), int(rng.integers(1, 4))
        f = int(rng.integers(1, (n - 1) // 2 + 1))
        w = rng.integers(1, 8, n).astype(float) if seed % 2 else rng.uniform(0.2, 1, n)
        if 2 * heaviest(w, f) >= 0.98 * w.sum():
            continue
        X = rng.integers(-2, 3, (n, d)).astype(float) if seed % 3 else rng.normal(size=(n, d))
        found = weighted_kappa(make(f)(X, weights=w), X, w, f)
        bound = constant(heaviest(w, f) / w.sum())
        assert found <= bound * (1 + 1e-7) + 1e-9, (name, X.tolist(), w.tolist(), f, found, bound)
        largest = max(largest, found / bound)
    assert largest > 0.2  # the rounds are not all easy


def test_weights_that_make_a_constant_tight() -> None:
    """Of weight 1 - 2δ in the middle and δ on either side, the set without one side is as far as CWTM's κ allows."""
    X, w = np.array([[-1.0], [0.0], [1.0]]), np.array([2.0, 3.0, 2.0])
    assert weighted_kappa(CWTM(1)(X, weights=w), X, w, 1) >= 0.99 * (2 / 7) / (1 - 4 / 7)


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

    @pytest.mark.parametrize("rule", ["Krum(f=1)", "TwoPhase(inner=MeanwO(f=1), outer=MDA(f=1))"])
    def test_a_rule_without_a_weighted_form_skipped_every_round(self, rule: str) -> None:
        run = Run(rule=rule, workers=7, rounds=3, weights="samples")
        with pytest.raises(NoWeightedForm, match=r"has no weighted form; .* or take MeanwO, CWTM, PTM or Geom"):
            train(run, task=self.task())

    def test_rules_that_the_refusal_names_have_a_weighted_form(self) -> None:
        _, _, names = str(NoWeightedForm.of(Krum(1))).rstrip(".").partition("or take ")
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
