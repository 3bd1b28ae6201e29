"""Other libraries' readings of rules, and rules that trust a direction or a length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from holdfast import (
    CAF,
    CWTM,
    NNM,
    BadInput,
    Bulyan,
    CenteredClipping,
    ClippedClustering,
    FLTrust,
    GeometricMedian,
    Huber,
    Krum,
    MeaMed,
    MultiKrum,
    OuterMean,
    TwoPhase,
    parse,
)
from holdfast.guarantees.bounds import bounds
from holdfast.testing import laws
from holdfast.testing.rounds import attacked, gaussian
from holdfast.training import Run
from tests.oracles import oracle

OTHER_READINGS: list[tuple[Any, Any]] = [
    (CAF(2), CAF(2, over="all")),
    (GeometricMedian(iterations=3), GeometricMedian(iterations=3, begin="origin")),
    (Bulyan(2), Bulyan(2, picks="at once")),
    (Bulyan(2), Bulyan(2, picks="means")),
    (MeaMed(2), MeaMed(2, lower=True)),
]


@pytest.mark.parametrize(("plain", "other"), OTHER_READINGS, ids=repr)
def test_another_reading_is_another_rule(plain: Any, other: Any) -> None:
    clouds = [attacked(np.random.default_rng(seed), 12, 2, 5, "far")[0] for seed in range(10)]
    assert any(not laws.close(plain(X), other(X)) for X in clouds)
    assert parse(repr(other)) == other
    assert repr(plain) == repr(parse(repr(plain)))  # a default stays out of the text, and so out of old records
    assert not set(repr(plain)) & {"'"}


def test_krum_takes_fewer_vectors_only_if_told() -> None:
    X = gaussian(np.random.default_rng(0), 7, 3)
    for f in (3, 4):
        with pytest.raises(BadInput, match=f"at least {2 * f + 3} vectors"):
            Krum(f)(X)
        rule = Krum(f, squared=False, needs="f+3")
        assert laws.close(rule(X), oracle(rule, X))
    with pytest.raises(BadInput, match="at least 8 vectors"):
        Krum(5, needs="f+3")(X)
    assert MultiKrum(4, m=2, needs="f+3").decide(X).kept == tuple(sorted(_nearest_pair(X)))
    assert Krum(4, others="n-f-1", needs="f+3").least() == 7
    assert Krum(1, others="n-f-1", needs="f+3").least() == 3  # already fewer


def _nearest_pair(X: np.ndarray) -> tuple[int, int]:
    apart = ((X[:, None] - X) ** 2).sum(axis=2) + np.diag(np.full(len(X), np.inf))
    return divmod(int(apart.argmin()), len(X))


def test_nothing_is_promised_below_the_bound_of_the_paper() -> None:
    rule = Krum(3, needs="f+3")
    assert bounds(rule, 8)["kappa"].text == "none known"
    assert bounds(rule, 9)["kappa"].ours == bounds(Krum(3), 9)["kappa"].ours
    with pytest.raises(BadInput, match="f < n/2"):
        bounds(rule, 6)


def test_a_filter_over_all_vectors_ends() -> None:
    X = gaussian(np.random.default_rng(1), 11, 4)
    X[-1] *= 1e9
    rule = CAF(2, over="all")
    decision = rule.decide(X)  # every step is a part in 1e18
    assert 10 not in decision.kept
    assert laws.close(decision.value, X[:10].mean(axis=0), size=1.0)


def test_steps_from_the_origin_need_steps() -> None:
    with pytest.raises(BadInput, match="wherever it begins"):
        GeometricMedian(begin="origin")
    X = np.array([[0.0, 0.0], [3.0, 4.0], [30.0, 40.0]])  # a vector at the origin takes all the weight
    assert GeometricMedian(iterations=1, begin="origin")(X).tolist() == [0.0, 0.0]


class TestFLTrust:
    def test_equals_its_definition_with_a_vector_of_the_server(self) -> None:
        for seed in range(20):
            rng = np.random.default_rng(seed)
            X, g = rng.normal(size=(9, 5)) * 10.0 ** rng.uniform(-6, 6, (9, 1)), rng.normal(size=5)
            assert laws.close(FLTrust()(X, start=g), oracle(FLTrust(), X, start=g), size=1.0)

    @pytest.mark.parametrize("library", [np.asarray, torch.as_tensor])
    def test_far_and_short_vectors_count_by_their_direction(self, library: Any) -> None:
        X = np.array([[1e200, 0.0], [0.0, 1.0], [-1e250, 0.0], [0.0, 0.0]])
        got = FLTrust()(library(X), start=library(np.array([1.0, 1.0])))
        assert np.asarray(got) == pytest.approx([0.5 * 2**0.5] * 2)

    def test_needs_a_vector_to_trust(self) -> None:
        X = np.eye(3)
        for start in (None, np.zeros(3)):
            with pytest.raises(BadInput, match=r"pass the server's own update as start="):
                FLTrust()(X, start=start)
        with pytest.raises(BadInput, match="choose a pivot"):
            FLTrust(pivot=5)(X)

    def test_is_zero_if_nobody_points_along(self) -> None:
        assert FLTrust()(-np.eye(2), start=np.ones(2)).tolist() == [0.0, 0.0]

    def test_is_no_longer_than_what_it_trusts(self) -> None:
        X, _ = attacked(np.random.default_rng(0), 9, 4, 6, "far")
        assert np.linalg.norm(FLTrust(pivot=0)(X)) <= np.linalg.norm(X[0]) * (1 + 1e-12)

    def test_a_pivot_keeps_its_name(self) -> None:
        X = gaussian(np.random.default_rng(0), 9, 3)
        X[2] = np.nan
        assert laws.close(FLTrust(pivot=5)(X), oracle(FLTrust(pivot=4), np.delete(X, 2, axis=0)))

    def test_stands_behind_other_stages(self) -> None:
        X, g = gaussian(np.random.default_rng(0), 9, 3), np.array([1.0, 2.0, 3.0])
        assert laws.close((NNM(2) >> FLTrust())(X, start=g), FLTrust()(NNM(2).apply(X), start=g))

    @pytest.mark.parametrize("rule", [FLTrust(), TwoPhase(FLTrust(), OuterMean(2)), NNM(2) >> FLTrust()], ids=repr)
    def test_a_training_names_a_worker(self, rule: Any) -> None:
        with pytest.raises(BadInput, match=r"as in FLTrust\(pivot=0\)"):
            Run(rule=rule, workers=9, byzantine=2, rounds=1)
        assert Run(rule=FLTrust(pivot=0), workers=9, byzantine=2, rounds=1).rule == FLTrust(pivot=0)


class TestHuber:
    def test_is_where_centered_clipping_stands_still(self) -> None:
        for seed in range(10):
            X, _ = attacked(np.random.default_rng(seed), 11, 3, 6, "far")
            for tau in (0.01, 0.5, 3.0):
                y = Huber(tau)(X)
                assert laws.close(CenteredClipping(tau)(X, start=y), y, size=1.0), (seed, tau)

    def test_lies_between_the_mean_and_the_median(self) -> None:
        X, _ = attacked(np.random.default_rng(0), 11, 3, 6, "siege")
        assert laws.close(Huber(1e6)(X), X.mean(axis=0))
        assert np.abs(Huber(1e-6)(X) - GeometricMedian()(X)).max() < 1e-5

    def test_equal_vectors_and_tiny_lengths(self) -> None:
        X = np.vstack([np.tile([1.0, 2.0], (6, 1)), np.full((3, 2), 1e200)])
        assert laws.close(Huber(1e-12)(X), [1.0, 2.0])
        assert Huber(1.0)(np.ones((4, 3))).tolist() == [1.0] * 3

    def test_a_weight_is_a_number_of_copies(self) -> None:
        X = gaussian(np.random.default_rng(2), 7, 4)
        counts = [1, 2, 3, 1, 1, 2, 1]
        assert laws.close(Huber(0.7)(X, weights=counts), Huber(0.7)(np.repeat(X, counts, axis=0)), size=1.0)


class TestClippedClustering:
    def test_takes_the_larger_cluster_and_clips_it(self) -> None:
        X = np.array([[1.0, 0.0], [0.0, 5.0], [3.0, 0.1], [0.0, 6.0], [2.0, -0.1]])
        decision = ClippedClustering().decide(X)
        assert decision.kept == (0, 2, 4)
        assert laws.close(decision.value, oracle(ClippedClustering(), X))
        assert np.linalg.norm(ClippedClustering(tau=0.5)(X)) <= 0.5

    def test_of_two_as_large_the_lowest_index_decides(self) -> None:
        assert ClippedClustering().decide(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.1], [1.1, 0.0]])).kept == (0, 3)

    def test_a_vector_of_length_zero_is_no_reason_to_fail(self) -> None:
        X = np.array([[0.0, 0.0], [1.0, 0.1], [1.0, 0.0], [1.0, -0.1], [0.9, 0.0]])
        assert ClippedClustering().decide(X).kept == (1, 2, 3, 4)
        assert ClippedClustering()(np.zeros((4, 2))).tolist() == [0.0, 0.0]

    def test_of_two_vectors_the_first_is_taken(self) -> None:
        assert ClippedClustering()(np.eye(2)).tolist() == [1.0, 0.0]
        assert ClippedClustering()(np.eye(1)).tolist() == [1.0]


def test_bulyan_over_means_trims_them() -> None:
    X = gaussian(np.random.default_rng(3), 11, 4)
    X[-2:] = 1e6
    rule = Bulyan(2, picks="means")
    assert laws.close(rule(X), oracle(rule, X), size=1.0)
    means = rule.stages()[0]
    assert means.size(11) == 5
    assert rule.stages()[1] == CWTM(2)


@pytest.mark.parametrize("far", [1e10, 1e16, 1e154, 1e308])
def test_a_far_vector_pulls_a_median_from_the_origin_with_length_one(far: float) -> None:
    X = np.random.default_rng(0).normal(size=(7, 3))
    X[6] = far
    near = X.copy()
    near[6] = 1e9  # along the same ray: from there on only the direction matters
    rule = GeometricMedian(iterations=3, floor=0.1, begin="origin")
    assert np.allclose(rule(X), rule(near), atol=1e-7)
