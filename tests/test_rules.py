"""Every rule against its oracle, its laws, and its proved constants."""

from __future__ import annotations

import itertools
import pickle
import re
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import (
    ARC,
    CGE,
    CWM,
    CWTM,
    MDA,
    NNM,
    Average,
    BadInput,
    Bucketing,
    Bulyan,
    CenteredClipping,
    CenterwO,
    Clip,
    ClippedClustering,
    FLTrust,
    GeometricMedian,
    Huber,
    Krum,
    MeanwO,
    NormBoundedMean,
    OuterCenter,
    OuterMean,
)
from holdfast.rules.krum import Selection
from holdfast.testing import Status, check_rule, laws
from holdfast.testing.rounds import attacked, gaussian, ties
from tests import constants
from tests.clouds import tied_clouds
from tests.oracles import cost, kept, optimum, oracle
from tests.rules_under_test import EXACT, IN_ORDER, RULES, calls

SEEDS = st.integers(0, 2**32 - 1)
FROM_THE_ORIGIN = (Clip, NormBoundedMean, CenteredClipping, Huber, FLTrust, ClippedClustering, CGE, ARC, Bucketing)


def agrees(rule: Any, X: np.ndarray, got: np.ndarray, dtype: Any, **call: Any) -> bool:
    """The oracle's answer, or that of a cloud within rounding of this one: ties may break either way."""
    size = float(np.median(np.abs(X).max(axis=1)))
    rng = np.random.default_rng(0)
    seed = call.pop("seed", None)
    for tries in range(60):
        noise = 0 if tries == 0 else rng.standard_normal(X.shape) * size * np.finfo(dtype).eps
        draw = {} if seed is None else {"rng": np.random.default_rng(seed)}
        try:
            wanted = oracle(rule, X + noise, **draw, **call)
        except ArithmeticError:
            return True  # half of the points here, half there: every point between is a geometric median
        if laws.close(got, wanted, dtype, size + float(np.abs(wanted).max())):
            return True
    return False


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_equals_its_oracle(rule: Any, dtype: Any, library: str) -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        kind = ("far", "copies", "sneak", "siege", "alie", "empire")[seed % 6]
        X, _ = attacked(rng, int(rng.integers(max(9, rule.least()), 26)), 2, int(rng.integers(1, 40)), kind)
        X = X.astype(dtype)
        start = X[-1] * dtype(0.5)
        needed = calls(rule, X.shape[1], seed, start)
        given_ = torch.from_numpy(X) if library == "torch" else X
        if library == "torch" and "start" in needed:
            needed["start"] = torch.from_numpy(start)
        got = rule(given_, **needed)
        assert type(got) is type(given_)
        told = {"start": start} if "start" in needed else {}
        assert agrees(rule, X, np.asarray(got), dtype, **told, **({"seed": seed} if rule.random else {})), (seed, kind)


@given(tied_clouds(min_n=5, max_n=9))
@settings(max_examples=150, deadline=None)
def test_ties_go_to_the_lowest_index(X: np.ndarray) -> None:
    for rule in (CenterwO(2), MeanwO(2), OuterCenter(2), OuterMean(2), Krum(1), Krum(2, others="n-f-1"), MDA(2)):
        if len(X) >= rule.least():
            decision = rule.decide(X)
            assert decision.kept == kept(rule, X), rule


@pytest.mark.parametrize("rule", RULES + EXACT, ids=repr)
def test_laws(rule: Any) -> None:
    report = check_rule(rule)
    told = {check.name for check in report.having(Status.NOT_PROMISED)}
    if not any(isinstance(stage, FROM_THE_ORIGIN) or "floor" in repr(stage) for stage in rule.stages()):
        unpromised = {"turning", "order"} if isinstance(rule, IN_ORDER) else {"turning"}
        counted = {"copies"} if "Krum" in repr(rule) or "refine" in repr(rule) else set()
        assert told <= unpromised | counted | ({"too many NaN"} if rule == Average() else set())


def test_reordering_ties_keeps_the_cost() -> None:
    """Of CenterwO its radius; of MeanwO, whose cost of the kept may differ, the score by which it chose."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X = ties(rng, 9, 2).astype(float)
        Y = X[rng.permutation(9)]
        assert CenterwO(2).decide(Y).cost == pytest.approx(CenterwO(2).decide(X).cost, abs=1e-12)
        best = [min(((Z[list(MeanwO(2).decide(Z).kept)] - z) ** 2).sum() for z in Z) for Z in (X, Y)]
        assert best[0] == pytest.approx(best[1], abs=1e-12)


RADII = [MeanwO(2), CenterwO(2), OuterMean(2), Krum(2), GeometricMedian(), NNM(2) >> Krum(2)]


@pytest.mark.parametrize("rule", RADII, ids=repr)
def test_radii_are_distances_to_the_answer(rule: Any) -> None:
    X, _ = attacked(np.random.default_rng(0), 11, 2, 5, "far", 30.0)
    X[4] = np.nan
    decision = rule.decide(X)
    radii = decision.radii()
    if "NNM" in repr(rule):
        assert radii is None
        return
    assert radii is not None
    assert np.isnan(radii[4])
    assert np.allclose(np.delete(radii, 4), np.linalg.norm(np.delete(X, 4, axis=0) - decision.value, axis=1))


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e-160, 1e155, 1e200, 1e300])
@pytest.mark.parametrize("rule", [r for r in RULES if not any(s.lengths for s in r.stages())], ids=repr)
def test_any_size_of_float64(rule: Any, size: float) -> None:
    X = gaussian(np.random.default_rng(0), 19, 3)
    wanted = rule.decide(X, **calls(rule, 3))
    decision = rule.decide(X * size, **calls(rule, 3))
    assert laws.close(np.asarray(decision.value) / size, wanted.value, size=1.0)
    assert decision.kept == wanted.kept


@pytest.mark.parametrize("tau", [1e-200, 1e-80, 1e80, 1e200])
@pytest.mark.parametrize("size", [1e-200, 1.0, 1e250])
def test_any_length_to_clip_to(tau: float, size: float) -> None:
    X = gaussian(np.random.default_rng(0), 7, 3) * size
    for rule in (NormBoundedMean(tau), CenteredClipping(tau, 3), Clip(tau) >> Average()):
        assert np.isfinite(rule(X)).all()


# moved by far liars, or with a rounding of their own
NO_MATTER = "Average|Bucketing|iterations=|Outer|DnC|CAF|Medoid|MoNNA|FLTrust"
FAR = [r for r in RULES if not re.search(NO_MATTER, repr(r))]


@pytest.mark.parametrize("rule", FAR, ids=repr)
def test_liars_at_any_distance(rule: Any) -> None:
    """From beside the honest to the end of float64, each liar at its own; compared at the honest scale."""
    for seed in range(15):
        rng = np.random.default_rng(seed)
        X = gaussian(rng, 13, 4) * 10.0 ** rng.integers(-3, 4)
        size = float(np.abs(X).max())
        X[rng.permutation(13)[:2]] *= 10.0 ** rng.uniform(0, 300, (2, 1))
        sized = _sized(rule, size)
        assert laws.close(sized(X), oracle(sized, X), size=size * 1e3), (seed, sized)


def _sized(rule: Any, size: float) -> Any:
    chain, *rest = (part.scaled(size) for part in getattr(rule, "parts", (rule,)))
    for part in rest:
        chain = chain >> part
    return chain


def test_an_offset_costs_chains_no_accuracy() -> None:
    """Mixed points far from the origin, with a liar at the end of float64 who must not switch off the certificate."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = gaussian(rng, 15, 6) + 1e9
        X[0] = 1e300
        for rule in (NNM(4) >> MeanwO(4), NNM(4) >> Krum(4)):
            near = X.copy()
            near[0] = 1e30
            assert np.allclose(rule(X), rule(near), rtol=0, atol=1e-5)


PROVED = [(n, f) for n in range(3, 9) for f in range(1, (n + 1) // 2) if 2 * f < n]


@pytest.mark.parametrize(("n", "f"), PROVED)
@pytest.mark.parametrize("name", ["center", "mean", "trimmed", "median", "geometric", "krum"])
def test_proved_constants_hold_over_all_subsets(name: str, n: int, f: int) -> None:
    rule: Any = {
        "center": CenterwO(f),
        "mean": MeanwO(f),
        "trimmed": CWTM(f),
        "median": CWM(),
        "geometric": GeometricMedian(),
        "krum": Krum(f, others="n-f-1"),
    }[name]
    f = getattr(rule, "f", (n - 1) // 2)
    for seed in range(12):
        rng = np.random.default_rng([n, f, seed])
        d = int(rng.integers(1, 4))
        kind = ("far", "copies", "sneak", "siege")[seed % 4]
        X = ties(rng, n, d) if seed % 3 == 0 else attacked(rng, n, f, d, kind, 10.0 ** rng.integers(-1, 3))[0]
        lam, kappa = constants.ratios(np.asarray(rule(X)), X.astype(float), f)
        assert kappa <= constants.kappa(rule, n) * (1 + 1e-6)
        if name in ("center", "mean"):
            assert lam <= constants.lam(rule, n) * (1 + 1e-6)


@pytest.mark.parametrize(("n", "f"), [(5, 2), (7, 2), (9, 4), (12, 3), (35, 14)])
def test_tight_instances_attain_them(n: int, f: int) -> None:
    h, q, eps = n - f, n - 2 * f, 1e-6

    def errs(rule: Any, X: np.ndarray) -> tuple[float, float]:
        H = X[f:]  # the honest stand last
        off = abs(float(rule(X)[0] - H.mean()))
        return off / float(np.ptp(H)), off**2 / float(H.var())

    assert errs(CenterwO(f), constants.tight_center(n, f, eps))[0] == pytest.approx((3 * f - 1) / h, rel=1e-5)
    assert errs(MeanwO(f), constants.tight_mean(n, f))[1] == pytest.approx(4 * f / q)
    assert errs(CWTM(f), constants.tight_trimmed(n, f))[1] == pytest.approx(f / q)
    if n % 2:
        assert errs(CWM(), constants.tight_median(n, f))[1] == pytest.approx((n - 1) / (n + 1 - 2 * f))


@given(SEEDS, st.integers(3, 9), st.integers(1, 2))
@settings(max_examples=60, deadline=None)
def test_lemma_one_and_the_bounds_of_a_decision(seed: int, n: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    f = int(rng.integers(0, (n + 1) // 2))
    X = ties(rng, n, d).astype(float) if seed % 3 == 0 else gaussian(rng, n, d)
    for rule in (CenterwO(f), MeanwO(f)):
        decision = rule.decide(X)
        best = float(optimum(rule, X))
        slack = 1e-9 * float(np.abs(X).max()) ** 2 + 1e-12
        assert decision.cost is not None
        assert decision.bound is not None
        assert decision.cost == pytest.approx(float(cost(rule, X)), abs=slack)
        assert decision.cost <= 2 * best + slack
        assert decision.bound <= best + slack
        assert decision.cost <= 2 * decision.bound + slack


@pytest.mark.parametrize("kind", ["far", "copies"])
@pytest.mark.parametrize(
    "rule", [CenterwO(4), MeanwO(4), CWTM(4), CWM(), GeometricMedian(), Krum(4, others="n-f-1")], ids=repr
)
def test_breakdown_far_liars_move_it_no_more_than_proved(rule: Any, kind: str) -> None:
    for dtype, far in ((np.float32, 1e30), (np.float64, 1e30), (np.float64, 1e300)):
        X, honest = attacked(np.random.default_rng(1), 11, 4, 5, "far", 10.0)
        X[~honest] *= far / np.abs(X[~honest]).max()
        if kind == "copies":
            X[~honest] = X[~honest][0]
        X = X.astype(dtype)
        H = X[honest].astype(float)
        off = float(((np.asarray(rule(X), float) - H.mean(axis=0)) ** 2).sum())
        assert off <= constants.kappa(rule, 11) * H.var(axis=0).sum() * (1 + 1e-5)


@pytest.mark.parametrize("far", [1e8, 1e16, 1e30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", [GeometricMedian(), CenteredClipping(0.5, 5), NormBoundedMean(2.0)], ids=repr)
def test_rows_at_absurd_distances_leave_it_where_the_oracle_says(rule: Any, dtype: Any, far: float) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = gaussian(rng, 15, 8)
        liars = rng.permutation(15)[:6]
        X[liars] *= far * 10.0 ** rng.uniform(0, 2 if seed % 2 else 0, (6, 1))
        X = X.astype(dtype)
        call = {"start": X[int(np.setdiff1d(np.arange(15), liars)[0])]} if isinstance(rule, CenteredClipping) else {}
        got = np.asarray(rule(X, **call), float)
        assert np.abs(got - oracle(rule, X, **call)).max() < (1e-6 if dtype == np.float64 else 2e-5)


@pytest.mark.parametrize("rule", [Average(), CenterwO(0), MeanwO(0), OuterCenter(0), OuterMean(0), CWTM(0)], ids=repr)
def test_without_liars_they_are_the_mean(rule: Any) -> None:
    X = gaussian(np.random.default_rng(0), 7, 3)
    assert laws.close(rule(X), X.mean(axis=0))
    assert laws.close(rule(X[:1]), X[0])


@pytest.mark.parametrize("rule", RULES + EXACT, ids=repr)
def test_a_decision_reads_as_a_table_and_pickles(rule: Any) -> None:
    rng = np.random.default_rng(3)
    X, honest = attacked(rng, 19, 2, 5, "far", 1e3)
    bad = int(np.flatnonzero(honest)[4])
    X[bad, 2] = np.nan
    decision = rule.decide(X, **calls(rule, 5))
    text = str(decision)
    assert text.splitlines()[0].startswith(repr(rule))
    assert decision.dropped == {bad: "not finite"}
    assert f"{bad}" in text.splitlines()[bad + 2]
    assert "dropped" in text.splitlines()[bad + 2]
    assert "not finite" in text.splitlines()[bad + 2]
    for i in decision.excluded:
        assert "excluded" in text.splitlines()[i + 2]
        assert rule.why in text.splitlines()[i + 2]
    for i in decision.kept:
        assert "kept" in text.splitlines()[i + 2]
    assert set(decision.kept) | set(decision.excluded) | {bad} == set(range(19))
    again = pickle.loads(pickle.dumps(decision))
    assert str(again) == text
    assert np.array_equal(again.value, rule(X, **calls(rule, 5)))
    assert "value" not in repr(decision)


@pytest.mark.parametrize("rule", [r for r in RULES if r.lowered(1) != r], ids=repr)
def test_dropped_rows_lower_f_by_as_little_as_it_takes(rule: Any) -> None:
    n = rule.least()
    X = gaussian(np.random.default_rng(0), n, 4)
    X[1, 3] = -np.inf
    if rule.lowered(1).least() > n - 1:
        with pytest.raises(BadInput, match="1 more was dropped: 1 is not finite"):
            rule(X, **calls(rule, 4))
        return
    decision = rule.decide(X, **calls(rule, 4))
    assert decision.rule == rule.lowered(1)
    assert decision.lowered
    assert "f was lowered" in str(decision).splitlines()[1]
    left = np.delete(X, 1, axis=0)
    assert agrees(rule.lowered(1), left, decision.value, np.float64, **({"seed": 5} if rule.random else {}))


def test_f_stays_while_the_rest_satisfy_it() -> None:
    X = gaussian(np.random.default_rng(0), 9, 4)
    X[[0, 4]] = np.nan
    decision = MeanwO(3).decide(X)
    assert decision.rule == MeanwO(3)
    assert len(decision.kept) == 4


def test_what_a_rule_needs_it_asks_for() -> None:
    X = np.eye(9)
    with pytest.raises(BadInput, match="pass rng="):
        (Bucketing(2) >> CWM())(X)
    with pytest.raises(BadInput, match=r"follow it by a rule, as in NNM\(f=1\) >> Average\(\)"):
        NNM(1)(X)
    with pytest.raises(BadInput, match="does not use"):
        MeanwO(1)(X, start=X[0])
    with pytest.raises(BadInput, match="shape"):
        CenteredClipping(1.0)(X, start=X[0, :4])
    with pytest.raises(BadInput, match="not finite"):
        CenteredClipping(1.0)(X, start=X[0] * np.nan)
    with pytest.raises(BadInput, match="differs"):
        CenteredClipping(1.0)(X, start="here")
    with pytest.raises(BadInput) as error:
        CenterwO(2)(X[:4])
    assert str(error.value) == (
        "CenterwO(f=2) was given n = 4 vectors, which tolerate at most f = 1; lower f or gather at least 5 vectors."
    )


def test_a_chain_asks_for_as_many_as_every_stage_needs() -> None:
    rule = Bucketing(3) >> Krum(1)
    assert rule.least() == 13
    assert rule.size(13) == 1
    with pytest.raises(BadInput, match="at least 13 vectors"):
        rule(np.eye(12), rng=np.random.default_rng(0))


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_the_same_input_gives_the_same_bits_and_nothing_is_changed(rule: Any) -> None:
    X = gaussian(np.random.default_rng(0), 19, 7).astype(np.float32)
    before = X.copy()
    one, two = (rule(X, **calls(rule, 7)) for _ in range(2))
    assert one.tobytes() == two.tobytes()
    assert np.array_equal(X, before)


def test_geometric_median_on_awkward_clouds() -> None:
    for X in (
        np.array([[0.0, 0.0]] * 4 + [[1.0, 0.0]] * 3),  # a majority of copies
        np.array([[0.0, 0.0]] * 3 + [[1.0, 0.0]] * 3),  # half and half: anything between will do
        np.array([[float(i), 0.0] for i in range(7)]),  # on a line: the middle one
        np.array([[0.0, 0.0], [1.0, 0.0]]),
        np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, 5.0], [0.0, 5.5]]),  # starts on a vector that is not it
        np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
    ):
        _assert_least(X)
    for seed in range(60):
        _assert_least(ties(np.random.default_rng(seed), 4 + seed % 9, 1 + seed % 3).astype(float))


def _assert_least(X: np.ndarray) -> None:
    """Not the place, which need not be unique, but the sum of distances decides."""

    def total(y: np.ndarray) -> float:
        return float(np.linalg.norm(X - y, axis=1).sum())

    best = total(np.asarray(oracle(GeometricMedian(), X), float))
    assert total(GeometricMedian()(X)) <= best * (1 + 1e-12) + 1e-14


def test_near_copies_and_a_far_row_do_not_capture_the_geometric_median() -> None:
    for seed in range(10):
        g = np.random.default_rng(seed)
        H = g.normal(size=(18, 100))
        e = g.normal(size=100)
        p = H.mean(axis=0) + 8 * e / np.linalg.norm(e)
        X = np.vstack([H, p, p + 1e-12 * g.normal(size=100), 1e8 * g.normal(size=100)])
        assert np.abs(GeometricMedian()(X) - oracle(GeometricMedian(), X)).max() < 1e-5


def test_liars_beyond_all_ratios_stay_bounded() -> None:
    """1e308 beside 1e-150: no weight can hold the ratio; the answer stays with the honest, without a warning."""
    for size in (1e-3, 1e-30, 1e-150, 1e-300):
        X = size * np.random.default_rng(0).normal(size=(7, 3))
        X[:2] = 1e308
        for rule in (GeometricMedian(), CenteredClipping(size, 3), NormBoundedMean(size), NNM(2) >> GeometricMedian()):
            assert np.abs(rule(X)).max() <= 10 * size


def test_a_start_far_away_comes_back() -> None:
    X = np.ones((4, 3))
    start = np.full(3, 1e160)
    rule = CenteredClipping(1e160, 5)
    assert laws.close(rule(X, start=start), oracle(rule, X, start=start), size=1e150)


def test_subnormal_numbers() -> None:
    X = 1e-310 * np.random.default_rng(0).normal(size=(7, 4))
    for rule in (MeanwO(2), CenterwO(2), Krum(2), GeometricMedian()):
        assert laws.close(rule(X), oracle(rule, X), size=1e-304)


def test_tiny_differences_behind_an_offset_in_float32() -> None:
    r = np.random.default_rng(0)
    honest = [
        {"frozen": np.ones(100, np.float32), "g": (1e-25 * r.normal(size=100)).astype(np.float32)} for _ in range(7)
    ]
    liars = [{"frozen": np.ones(100, np.float32), "g": np.full(100, v * 1e-25, np.float32)} for v in (30, 31)]
    assert MeanwO(2).decide(liars + honest).excluded == (0, 1)


def test_absurd_parameters_are_refused_at_once() -> None:
    with pytest.raises(BadInput, match="at least 2000000001"):
        MeanwO(10**9)(np.ones((3, 4)))
    with pytest.raises(BadInput, match="at least"):
        (Bucketing(10**9) >> CWTM(3))(np.ones((3, 4)), rng=np.random.default_rng(0))
    with pytest.raises(BadInput, match="pass rng="):
        (Bucketing(2) >> CWM())(np.ones((3, 4)), rng=5)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="tau"):
        Clip(10**400)


def test_a_clip_that_clips_nothing_leaves_no_trace() -> None:
    X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])
    assert np.array_equal((Clip(100.0) >> CWM())(X), [3.0, 4.0])
    assert np.array_equal((Clip(100.0) >> MeanwO(1))(X), MeanwO(1)(X))


def test_geometric_median_is_scale_free() -> None:
    X, _ = attacked(np.random.default_rng(0), 15, 6, 9, "far", 10.0)
    small = GeometricMedian()(X * 1e-6)
    assert laws.close(small * 1e6, GeometricMedian()(X), size=1.0)


@pytest.mark.parametrize("rule", [MeanwO(1), NNM(1) >> CWTM(1), CenteredClipping(1.0)], ids=repr)
def test_all_subsets_of_tiny_inputs(rule: Any) -> None:
    for values in itertools.product([0.0, 1.0, -3.0], repeat=3):
        X = np.array(values)[:, None]
        assert agrees(rule, X, rule(X), np.float64)


@pytest.mark.parametrize("rule", [CenterwO(f=3, ties="all"), MeanwO(f=3, ties="all")])
def test_all_ties_at_the_border_enter_together(rule: Any) -> None:
    X = np.array([[0.0], [0.1], [-0.1], [0.2], [-0.2], [1.0], [1.0], [1.0]])  # five must be kept of eight, at f = 3
    assert rule.decide(X).kept == (0, 1, 2, 3, 4)
    X = np.array([[0.0], [0.1], [-0.1], [0.2], [1.0], [1.0], [1.0], [9.0]])
    assert type(rule)(f=3).decide(X).kept == (0, 1, 2, 3, 4)
    assert rule.decide(X).kept == (0, 1, 2, 3, 4, 5, 6)
    assert rule(X) == pytest.approx(3.2 / 7)


def test_a_refined_set_has_no_ties() -> None:
    with pytest.raises(BadInput, match="cannot do both"):
        MeanwO(f=1, refine=2, ties="all")


def test_bulyan_whose_picks_are_the_first_rows_in_order_trims_those_alone() -> None:
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(4000):
        X = np.sort(rng.normal(size=(7, 1)), axis=0)[rng.permutation(7)]
        D = np.square(X - X.T)
        picks = Selection(1).mix(D).argmax(axis=1)
        if list(picks) != [0, 1, 2, 3, 4]:
            continue
        found += 1
        kept = np.sort(X[:5, 0])
        middle = kept[2]
        near = kept[np.argsort(np.abs(kept - middle), kind="stable")[:3]]
        assert Bulyan(f=1)(X)[0] == pytest.approx(near.mean())
    assert found
