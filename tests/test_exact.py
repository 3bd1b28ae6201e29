"""Rules that find the best subset, against all subsets; and rules that trade the optimum for time."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch

from holdfast import (
    ARC,
    CAF,
    CWM,
    CWTM,
    MDA,
    NNM,
    PTM,
    SMEA,
    BadInput,
    CenteredClipping,
    CenterExact,
    CenterwO,
    DnC,
    GeometricMedian,
    MeanExact,
    MeanwO,
    Medoid,
    MoNNA,
    NearestTo,
    StreamCenterwO,
    parse,
)
from holdfast.rules.exact_center import balls
from holdfast.rules.subsets import largest
from holdfast.testing import laws
from holdfast.testing.rounds import attacked, gaussian, heterogeneous, ties
from tests.oracles import kept, optimum, oracle


def instances(count: int, most: int = 12) -> list[tuple[int, np.ndarray, int]]:
    """Small clouds, a third of them with ties and duplicates, with every f that n allows."""
    out = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, most + 1))
        f, d = int(rng.integers(0, (n + 1) // 2)), int(rng.integers(1, 4))
        kind = seed % 6
        X = ties(rng, n, d).astype(float) if kind < 2 else gaussian(rng, n, d) if kind < 4 else heterogeneous(rng, n, d)
        if kind == 5:
            X = attacked(rng, n, f, d, "far", 10.0 ** rng.integers(0, 6))[0] if f else X
        if kind == 3:
            X[rng.integers(0, n, n // 2)] = X[0]
        out.append((seed, X, f))
    return out


def brute(X: np.ndarray, f: int, measure: Callable[[np.ndarray], float]) -> float:
    return min(measure(X[list(S)]) for S in itertools.combinations(range(len(X)), len(X) - f))


def spread(Y: np.ndarray) -> float:
    return float(((Y - Y.mean(axis=0)) ** 2).sum())


def diameter(Y: np.ndarray) -> float:
    return float(np.sqrt(((Y[:, None] - Y) ** 2).sum(axis=2).max()))


def variance(Y: np.ndarray) -> float:
    Z = Y - Y.mean(axis=0)
    return float(np.linalg.norm(Z, 2) ** 2 / len(Y))


@pytest.mark.parametrize(("rule", "measure"), [(MeanExact, spread), (MDA, diameter), (SMEA, variance)])
def test_equals_all_subsets_on_500_instances(rule: Any, measure: Callable[[np.ndarray], float]) -> None:
    for seed, X, f in instances(500):
        decision = rule(f).decide(X)
        best, size = brute(X, f, measure), float(np.abs(X).max()) + 1e-9
        assert len(decision.kept) == len(X) - f, seed
        assert measure(X[list(decision.kept)]) <= best * (1 + 1e-9) + 1e-9 * size**2, seed
        assert decision.cost == pytest.approx(best, rel=1e-7, abs=1e-7 * size), seed
        assert decision.bound == pytest.approx(best, rel=1e-7, abs=1e-7 * size), seed


def first_of_least_diameter(D: np.ndarray, f: int) -> tuple[int, ...]:
    """Of all sets of n - f points with the least diameter the first in index order."""
    n = len(D)
    return min(itertools.combinations(range(n), n - f), key=lambda S: (D[np.ix_(S, S)].max(), S))


def tied(rng: np.random.Generator, kind: int) -> np.ndarray:
    """Up to 9 points, many of them at the same distances: a grid, a cube, copies, or a graph of far pairs."""
    n = int(rng.integers(1, 10))
    X = rng.integers(0, (3, 2, 4)[kind % 3], (n, (2, 5, 1)[kind % 3])).astype(float)
    if kind == 3:
        X[-(n // 3) :] = X[-1]
    if kind == 4:  # one or two steps apart in any way: D itself, as no cloud of few dimensions has it
        far = np.triu(rng.random((n, n)) < rng.choice([0.15, 0.3, 0.6]), 1)
        return np.where(np.eye(n, dtype=bool), 0.0, 1.0 + (far | far.T))
    return np.asarray(((X[:, None] - X) ** 2).sum(axis=2))


def test_of_several_sets_of_least_diameter_the_first_is_kept() -> None:
    for seed in range(1500):
        rng = np.random.default_rng(seed)
        D = tied(rng, seed % 5)
        for f in range((len(D) + 1) // 2):
            chosen = MDA(f).weights(D)
            assert tuple(np.flatnonzero(chosen.weights)) == first_of_least_diameter(D, f), (seed, f)
            assert chosen.cost == chosen.bound


def test_liars_at_the_end_do_not_win_ties() -> None:
    """Four points of a square, of which any two neighbours are as good: the first two."""
    square = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.5, 0.5]])
    assert MDA(2).decide(square).kept == (0, 1, 4)
    assert MDA(2).decide(square[::-1]).kept == (0, 1, 2)


def test_a_search_for_the_first_set_that_runs_out_of_steps_keeps_one_of_least_diameter() -> None:
    settled = set()
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 2, (24, 12)).astype(float)
        exact = MDA(8).decide(X)
        for cap in (*range(5, 60, 6), 400):
            decision = MDA(8, cap=cap).decide(X)
            assert len(decision.kept) == 16
            assert decision.cost == pytest.approx(diameter(X[list(decision.kept)]))
            if decision.bound != decision.cost:
                continue
            assert decision.cost == exact.cost
            assert decision.kept >= exact.kept  # in index order
            settled.add(decision.kept == exact.kept)
    assert settled == {True, False}
    assert MDA(8, cap=400).decide(X).kept == exact.kept


@pytest.mark.parametrize(("n", "f"), [(60, 15), (40, 15), (60, 25), (100, 30)])
@pytest.mark.parametrize("kind", ["gaussian", "cube", "grid", "pairs", "pentagons"])
def test_large_rounds_with_many_ties_need_few_steps(n: int, f: int, kind: str) -> None:
    """A fifth of the usual steps suffices, also for graphs of far pairs in which every vector has to be decided."""
    rng = np.random.default_rng(n + f)
    X = {"gaussian": rng.normal(size=(n, 20)), "cube": rng.integers(0, 2, (n, 20)), "grid": rng.integers(0, 4, (n, 5))}
    if kind in X:
        D = ((X[kind][:, None].astype(float) - X[kind]) ** 2).sum(axis=2)
    else:
        size = 2 if kind == "pairs" else 5  # a cycle of two loses one vector, a cycle of five three
        D = np.where(np.eye(n, dtype=bool), 0.0, 1.0)
        for cycle in rng.permutation(n)[: f // (size - size // 2) * size].reshape(-1, size):
            D[cycle, np.roll(cycle, 1)] = D[np.roll(cycle, 1), cycle] = 2.0
    chosen = MDA(f, cap=4_000).weights(D)
    assert np.array_equal(chosen.weights, MDA(f, cap=10**6).weights(D).weights)
    kept = np.flatnonzero(chosen.weights)
    assert len(kept) == n - f
    assert np.sqrt(D[np.ix_(kept, kept)].max()) == chosen.cost


def smallest_ball(X: np.ndarray, f: int) -> float:
    """The smallest ball around n - f rows rests on at most d + 1 of them: try the circumcentres of all such sets."""
    n, d = X.shape
    best = np.inf
    for k in range(1, min(n - f, d + 1) + 1):
        sets = X[np.array(list(itertools.combinations(range(n), k)))]
        A = sets[:, 1:] - sets[:, :1]
        y = np.linalg.pinv(A) @ (0.5 * (A**2).sum(axis=2))[..., None] if k > 1 else np.zeros((len(sets), d, 1))
        centres = sets[:, 0] + y[..., 0]
        apart = np.sort(np.sqrt(((centres[:, None] - X) ** 2).sum(axis=2)), axis=1)
        best = min(best, float(apart[:, n - f - 1].min()))
    return best


def test_the_smallest_ball_equals_all_circumballs_on_500_instances() -> None:
    for seed, X, f in instances(500):
        decision: Any = CenterExact(f).decide(X)
        best, size = smallest_ball(X, f), float(np.abs(X).max()) + 1e-9
        assert len(decision.kept) == len(X) - f, seed
        assert decision.cost == pytest.approx(best, rel=1e-4, abs=1e-6 * size), seed
        assert decision.bound is not None
        assert decision.bound <= best * (1 + 1e-7) + 1e-9, seed


def test_a_cap_leaves_a_gap_that_is_told() -> None:
    X = gaussian(np.random.default_rng(0), 40, 2)
    pairs: list[Any] = [(MeanExact(16, cap=1), MeanwO(16)), (CenterExact(16, cap=1), CenterwO(16))]
    for rule, plain in pairs:
        few: Any = rule.decide(X)
        many: Any = type(rule)(16).decide(X)
        begin: Any = plain.decide(X)
        assert few.bound < few.cost
        assert few.bound <= many.bound <= many.cost <= few.cost + 1e-12
        assert few.cost <= begin.cost + 1e-12


def mixes(n: int, f: int, d: int, seed: int) -> np.ndarray:
    """Honest Gaussian vectors, and liars that send the means of two of them: no set of n - f stands out."""
    rng = np.random.default_rng(seed)
    H = rng.standard_normal((n - f, d))
    return np.vstack([H, *(H[rng.permutation(n - f)[:2]].mean(axis=0)[None] for _ in range(f))])


@pytest.mark.parametrize(
    ("rule", "X", "measure"),
    [
        (SMEA(8), mixes(23, 8, 1000, 0), variance),
        (SMEA(8, cap=5_000), gaussian(np.random.default_rng(0), 35, 100), variance),
        (SMEA(14, cap=50), gaussian(np.random.default_rng(0), 35, 3), variance),
        (MDA(14, cap=1), gaussian(np.random.default_rng(0), 35, 3), diameter),
        (MDA(14, cap=30), gaussian(np.random.default_rng(0), 35, 40), diameter),
    ],
    ids=["mixes", "honest", "few nodes", "one step", "few steps"],
)
def test_a_search_that_ran_out_of_steps_refused_the_round(rule: Any, X: np.ndarray, measure: Any) -> None:
    decision = rule.decide(X)
    assert len(decision.kept) == len(X) - rule.f
    assert 0 < decision.bound < decision.cost
    assert decision.cost == pytest.approx(measure(X[list(decision.kept)]))
    if isinstance(rule, MDA):
        assert decision.cost <= 2 * decision.bound  # as CenterwO's set has it already
    else:
        start = spread(X[list(MeanwO(rule.f).decide(X).kept)]) / len(decision.kept)
        assert decision.cost <= start, "never worse than what is proved of MeanwO"


@pytest.mark.parametrize(("rule", "measure"), [(MDA, diameter), (SMEA, variance)])
@pytest.mark.parametrize("cap", [1, 3, 10])
def test_the_gap_of_a_search_that_did_not_end_is_true(rule: Any, measure: Any, cap: int) -> None:
    for seed, X, f in instances(200):
        decision = rule(f, cap=cap).decide(X)
        best, size = brute(X, f, measure), float(np.abs(X).max()) + 1e-9
        assert decision.bound <= best * (1 + 1e-7) + 1e-9 * size, seed
        assert best <= decision.cost * (1 + 1e-7) + 1e-7 * size, seed


def test_the_search_for_a_least_diameter_takes_few_steps_beyond_its_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    X = mixes(51, 25, 200, 1)
    taken = []
    plain = itertools.count

    def counting() -> Any:
        for i in plain():
            taken.append(i)
            yield i

    monkeypatch.setattr("holdfast.rules.subsets.itertools.count", counting)
    MDA(25, cap=200).decide(X)
    assert len(taken) <= 200 + 2 + 2 * 11 * 26  # two more searches among 1,275 distances, one dive of f + 1 for each


@pytest.mark.parametrize("n", [35, 130, 200])
def test_the_start_of_the_search_for_a_ball_was_not_bounded_by_its_cap(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Balls are counted, each as n² / 30²: those of the start are as many as the search's, 20 times at most."""
    made = []

    def counting(D: np.ndarray, masks: np.ndarray) -> Any:
        made.append(len(masks))
        return balls(D, masks)

    monkeypatch.setattr("holdfast.rules.exact_center.balls", counting)
    rule = CenterExact(n // 5, cap=100)
    X = gaussian(np.random.default_rng(0), n, 4)
    decision: Any = rule.decide(X)
    assert max(made) <= max(1, 100 * 30**2 // n**2, n if n < 30 else 0)
    assert decision.bound <= decision.cost <= CenterwO(n // 5).decide(X).cost


def test_the_start_of_the_search_for_an_eigenvalue_was_not_bounded_by_its_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counting(D: np.ndarray, masks: np.ndarray) -> Any:
        made.append(len(masks))
        return largest(D, masks)

    monkeypatch.setattr("holdfast.rules.subsets.largest", counting)
    SMEA(30, cap=1000).decide(gaussian(np.random.default_rng(0), 90, 3))
    assert sum(made) <= 3 * 1000 / 27 + 128  # the last nodes are opened 64 at once


@pytest.mark.parametrize("kind", ["far", "copies", "sneak", "siege", "alie", "empire"])
def test_the_optimum_under_attack(kind: str) -> None:
    """The size of the paper's experiments, at a smaller dimension: proven optimal, within the cap."""
    X, honest = attacked(np.random.default_rng(0), 35, 14, 2000, kind)
    decision: Any = MeanExact(14).decide(X.astype(np.float32))
    plain: Any = MeanwO(14).decide(X)
    assert decision.bound == pytest.approx(decision.cost)
    assert decision.cost <= plain.cost * (1 + 1e-6)
    assert decision.cost <= spread(X[honest]) * (1 + 1e-6)


def test_refining_keeps_what_is_proved_and_lowers_the_cost() -> None:
    for seed, X, f in instances(120):
        plain: Any = MeanwO(f).decide(X)
        better: Any = MeanwO(f, refine=4).decide(X)
        slack = 1e-9 * float(np.abs(X).max()) ** 2
        assert better.cost <= plain.cost + slack, seed
        assert better.cost <= 2 * better.bound + slack, seed
    with pytest.raises(BadInput, match="choose one"):
        MeanwO(1, refine=2, candidates=3)


@pytest.mark.parametrize("kind", ["far", "copies", "alie"])
def test_some_candidates_do_as_well_as_all(kind: str) -> None:
    X, honest = attacked(np.random.default_rng(0), 300, 60, 400, kind)
    pairs: list[Any] = [(MeanwO(60), MeanwO(60, candidates=64)), (CenterwO(60), CenterwO(60, candidates=64))]
    for rule, few in pairs:
        with pytest.raises(BadInput, match="pass rng="):
            few(X)
        whole, some = rule.decide(X), few.decide(X, rng=np.random.default_rng(1))
        lies = [sum(not honest[i] for i in decision.kept) for decision in (whole, some)]
        assert lies[1] <= lies[0]
        assert spread(X[list(some.kept)]) <= 1.01 * spread(X[list(whole.kept)])
        again = few.decide(X, rng=np.random.default_rng(1))
        assert again.kept == some.kept
        assert parse(repr(few)) == few
    assert MeanwO(2, candidates=64).decide(X[:9], rng=np.random.default_rng(0)).kept == MeanwO(2).decide(X[:9]).kept


def test_nearest_to_a_trimmed_mean_approximates_as_proved() -> None:
    for seed, X, f in instances(150, most=9):
        n = len(X)
        found = spread(X[list(NearestTo(CWTM(f)).decide(X).kept)])
        assert found <= (n - f) / (n - 2 * f) * brute(X, f, spread) * (1 + 1e-9) + 1e-12, seed


def test_nearest_to_takes_one_rule_with_an_f() -> None:
    assert NearestTo(MeanwO(1)).tolerance() == NearestTo(CWM(), f=1).tolerance() == 1
    assert NearestTo(GeometricMedian(), f=3).lowered(1) == NearestTo(GeometricMedian(), f=2)
    cases: dict[Callable[[], Any], str] = {
        lambda: NearestTo(CWM()): r"^NearestTo was given CWM\(\), which has no f; write NearestTo\(CWM\(\), f=3\)\.$",
        lambda: NearestTo(CWTM(2), f=1): r"^NearestTo was given f = 1 and CWTM\(f=2\); leave f out",
        lambda: NearestTo(NNM(1)): r"^NearestTo was given NNM\(f=1\); it takes one rule that needs no start",
        lambda: NearestTo(CenteredClipping(1.0)): "it takes one rule that needs no start",
        lambda: NearestTo(NearestTo(CWTM(1))): "it takes one rule",
    }
    for make, sentence in cases.items():
        with pytest.raises(BadInput, match=sentence):
            make()


def test_a_pivot_keeps_its_name() -> None:
    X = gaussian(np.random.default_rng(0), 9, 3)
    X[2] = np.nan
    assert laws.close(MoNNA(2, pivot=5)(X), oracle(MoNNA(2, pivot=4), np.delete(X, 2, axis=0)))
    for pivot in (2, 9):
        with pytest.raises(BadInput, match="choose a pivot"):
            MoNNA(2, pivot=pivot)(X)


def test_a_stream_is_read_once_and_answers_as_its_definition() -> None:
    for seed, X, f in instances(120, most=9):
        reads: list[int] = []

        def passing(X: np.ndarray = X, reads: list[int] = reads) -> Any:
            for i, row in enumerate(X):
                reads.append(i)
                yield row.copy()

        decision: Any = StreamCenterwO(f).decide(passing())
        assert reads == list(range(len(X)))
        assert decision.kept == kept(StreamCenterwO(f), X), seed
        assert laws.close(decision.value, oracle(StreamCenterwO(f), X), size=float(np.abs(X).max()) + 1e-9)
        assert decision.cost is not None
        assert decision.cost <= 4 * float(optimum(CenterwO(f), X)) * (1 + 1e-9) + 1e-12, seed


def test_a_stream_copes_with_liars() -> None:
    rng = np.random.default_rng(0)
    model = {"w": np.zeros((2, 3), np.float32), "seen": np.int64(0)}
    honest: list[Any] = [{"w": rng.standard_normal((2, 3)).astype(np.float32), "seen": np.int64(7)} for _ in range(9)]
    liars: list[Any] = [None, {"w": np.full((2, 3), np.nan, np.float32), "seen": 1}, {"w": np.zeros(3)}, "x"]
    huge = {"w": np.full((2, 3), 3e38, np.float32), "seen": np.int64(10**9)}
    stream = StreamCenterwO(3).open(like=model)
    for update in [liars[0], huge, *honest[:4], liars[1], *honest[4:], liars[2], huge, liars[3]]:
        stream.add(update)
    decision = stream.result()
    assert sorted(decision.dropped) == [0, 6, 12, 14]
    assert {1, 13} <= set(decision.excluded)
    assert decision.value["w"].shape == (2, 3)
    assert decision.value["w"].dtype == np.float32
    assert decision.value["seen"] == 7
    assert np.abs(decision.value["w"]).max() < 3
    short = StreamCenterwO(2).decide([honest[0]["w"], honest[1]["w"], honest[2]["w"] * np.nan, honest[3]["w"]])
    assert short.rule == StreamCenterwO(1)
    with pytest.raises(BadInput, match="at least 5 vectors"):
        StreamCenterwO(2)([honest[0]["w"]])
    calls: list[dict[str, Any]] = [{"start": 1}, {"measure": bool}]
    for call in calls:
        with pytest.raises(BadInput, match="neither"):
            StreamCenterwO(2).decide([], **call)
    with pytest.raises(BadInput, match="put it last"):
        StreamCenterwO(2) >> MeanwO(2)
    with pytest.raises(BadInput, match="as they come"):
        parse("NNM(2) >> StreamCenterwO(2)")
    with pytest.raises(BadInput, match="neither"):
        StreamCenterwO(2)(list(honest), start=1)
    X = rng.standard_normal((7, 3))
    first = StreamCenterwO(1).decide([np.ones(2), *X])
    assert first.dropped == {0: "shape (2,) instead of (3,)"}, "who comes first does not choose the structure"
    with pytest.raises(BadInput, match="no common structure"):
        StreamCenterwO(1).decide([np.ones(2), np.ones(3), np.ones(4)])
    for size in (1e-300, 1e-170, 1e170, 1e300):
        assert StreamCenterwO(2).decide(X * size).kept == StreamCenterwO(2).decide(X).kept
    stream = StreamCenterwO(1).open()
    buffer = np.empty(3)
    for row in X:
        buffer[:] = row  # a sender may use its buffer again
        stream.add(buffer)
    assert laws.close(stream.result().value, StreamCenterwO(1)(X))
    assert isinstance(StreamCenterwO(1)([torch.from_numpy(row) for row in X]), torch.Tensor)
    before = stream.result()
    stream.add(X[0] * np.nan)
    assert before.dropped == {}


def test_exact_rules_with_more_far_rows_than_f() -> None:
    X = np.array([[0.0], [1.0], [2.0], [1e160], [-1e160]])
    for rule in (MeanExact(1), MeanExact(2), CenterExact(2), MDA(2), SMEA(2), MeanwO(2, refine=3)):
        assert np.isfinite(rule(X)).all()
    for rule in (MeanExact(2), CenterExact(2), MDA(2), SMEA(2)):
        assert laws.close(rule(X), [1.0])


def test_a_simplex_does_not_keep_the_smallest_ball_busy() -> None:
    """All subsets are alike: the cap ends it, and the bound is no worse than CenterwO's."""
    decision: Any = CenterExact(20).decide(np.eye(60))
    plain: Any = CenterwO(20).decide(np.eye(60))
    assert plain.bound * (1 - 1e-9) <= decision.bound <= decision.cost <= plain.cost


@pytest.mark.parametrize("rule", [CAF(0), DnC(0), ARC(0) >> CWTM(0), CAF(1), DnC(1), ARC(1) >> CWTM(1)], ids=repr)
def test_more_than_half_alike_does_not_hide_the_others(rule: Any) -> None:
    for X in (np.array([[0.0], [0.0], [1.0], [0.0]]), np.array([[0.0], [1.0], [6e10]])):
        assert laws.close(rule(X), oracle(rule, X), size=float(np.abs(X).max()))


def in_fractions(F: np.ndarray, X: np.ndarray, f: int) -> float:
    """The largest ratio of |Σ e|² to f Σ |e|² over all sets S of n - f, exactly; at most 1 means κ ≤ f/(n - 2f)."""
    E = [[Fraction(float(x)) - Fraction(float(y)) for x, y in zip(row, F, strict=True)] for row in X]
    squares = [sum(e * e for e in row) for row in E]
    worst = 0.0
    for S in combinations(range(len(X)), len(X) - f):
        top = sum(sum(E[i][k] for i in S) ** 2 for k in range(X.shape[1]))
        bottom = f * sum(squares[i] for i in S)
        worst = max(worst, 0.0 if top == 0 else float("inf") if bottom == 0 else float(top / bottom))
    return worst


def hostile_round(rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Up to nine vectors: copies, offsets of a million, ranges up to 1e100, whole numbers, vectors far out."""
    n = int(rng.integers(3, 10))
    f, d = int(rng.integers(1, (n - 1) // 2 + 1)), int(rng.integers(1, 5))
    X = rng.standard_normal((n, d))
    match int(rng.integers(8)):
        case 1:
            X[:f] = X[f:].mean(axis=0) + rng.standard_normal(d)
        case 2:
            X += 1e6
        case 3:
            X[:f] *= 10.0 ** rng.integers(1, 100)
        case 4:
            X = np.round(X)
        case 5:
            X *= 10.0 ** rng.integers(-100, 100)
            X[:f] *= 10.0 ** rng.integers(0, 30)
        case 6:
            X[:f] = X[-1]
        case 7:
            X[:f] = 1e100 * X[:f]
            X += 1e6
    return X, f


@pytest.mark.parametrize("seed", range(4))
def test_ptm_has_the_least_possible_kappa_in_exact_arithmetic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(int(os.environ.get("HOLDFAST_ROUNDS", "150"))):
        X, f = hostile_round(rng)
        assert in_fractions(PTM(f)(X), X, f) <= 1 + 1e-6 * len(X) / f, (X, f)


def test_ptm_turns_with_the_vectors_and_is_the_trimmed_mean_on_a_line() -> None:
    rng = np.random.default_rng(0)
    X = gaussian(rng, 9, 4)
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    np.testing.assert_allclose(PTM(2)(X @ turn), PTM(2)(X) @ turn, atol=1e-12)
    assert np.abs(CWTM(2)(X @ turn) - CWTM(2)(X) @ turn).max() > 1e-3  # which CWTM does not
    line = np.outer(rng.standard_normal(9), [3.0, 4.0])
    np.testing.assert_allclose(PTM(2)(line), CWTM(2)(line), atol=1e-12)  # one axis: the trimmed mean itself


def test_nearest_to_a_median_averages_the_vectors_as_they_were_sent() -> None:
    """Five equal vectors of nine: the median's search puts all on one place, for itself alone."""
    X = np.array([[0.0, 0.0]] * 4 + [[1.0, 0.0]] * 5)
    assert NearestTo(GeometricMedian(), f=1)(X) == pytest.approx([5 / 8, 0])
    for seed in range(300):
        rng = np.random.default_rng(seed)
        n, f = int(rng.integers(3, 10)), 1
        X = rng.integers(-1, 2, (n, 2)).astype(float)
        if seed % 3 == 0:
            X[0] *= 10.0 ** rng.integers(0, 12)
        for inner in (GeometricMedian(), Medoid(), PTM(f)):
            centre = inner(X)
            squares = np.square(X - centre).sum(axis=1)
            order = np.argsort(squares, kind="stable")
            if squares[order[n - f]] - squares[order[n - f - 1]] > 1e-6 * squares[order[n - f]]:  # no tie at the border
                assert NearestTo(inner, f=f if inner.tolerance() is None else None)(X) == pytest.approx(
                    X[order[: n - f]].mean(axis=0), rel=1e-9, abs=1e-9
                )
