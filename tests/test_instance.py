"""What no answer can be below, and the sharper proof of κ(X): on all sets, with wrong distances, at known values."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from holdfast import CWTM, PTM, Average, GeometricMedian, MeanwO
from holdfast.guarantees.certificate import certificate
from holdfast.guarantees.criteria import ratios, subsets
from holdfast.guarantees.instance import instance_bound, worst_sets
from holdfast.guarantees.relative import relative
from holdfast.guarantees.semidefinite import semidefinite
from holdfast.guarantees.sets import Sets

SHAPES = ((4, 1, 2), (5, 2, 3), (7, 2, 2), (7, 3, 5), (9, 3, 2))


def squared(X: np.ndarray) -> np.ndarray:
    return np.square(X[:, None] - X).sum(axis=2)


def cloud(n: int, f: int, d: int, seed: int) -> np.ndarray:
    """Gaussian rows; the first f honest, near copies, or far away."""
    rng = np.random.default_rng((n, f, d, seed))
    X = rng.normal(size=(n, d))
    if seed % 3 == 1:
        X[:f] = X[f:].mean(axis=0) + 0.5 + 1e-3 * rng.normal(size=(f, d))
    if seed % 3 == 2:
        X[:f] += 1e3
    return X


def largest(F: np.ndarray, X: np.ndarray, f: int) -> float:
    return float(ratios("kappa", F, X, subsets(len(X), f)).max())


def descended(F: np.ndarray, X: np.ndarray, f: int) -> float:
    """The largest κ_S of the best of 1,500 answers, each a step towards the mean of the worst set of the one before."""
    masks, best = subsets(len(X), f), inf
    means = masks @ X / masks[0].sum()
    for step in range(1500):
        bad = ratios("kappa", F, X, masks)
        best = min(best, float(bad.max()))
        F = F + 0.3 / (1 + step) ** 0.7 * (means[bad.argmax()] - F)
    return best


@pytest.mark.parametrize("shape", SHAPES)
def test_no_answer_is_below_the_bound_and_the_best_is_near_it(shape: tuple[int, int, int]) -> None:
    n, f, d = shape
    for seed in range(9):
        X = cloud(n, f, d, seed)
        least = instance_bound(squared(X), f)
        assert least is not None
        start = min((CWTM(f)(X), Average()(X), GeometricMedian()(X)), key=lambda F: largest(F, X, f))
        best = descended(start, X, f)
        assert 0.8 * best <= least <= best * (1 + 1e-9)
        assert least <= f / (n - 2 * f) * (1 + 1e-9)  # which CWTM reaches at worst


def test_three_points_on_a_line() -> None:
    assert instance_bound(squared(np.array([[-1.0], [0.0], [1.0]])), 1) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((5, 2)),  # nothing differs
        np.array([[0.0], [0.0], [0.0], [1.0]]),  # n - f copies
        np.array([[0.0], [1.0], [2.0], [np.inf]]),
        np.array([[0.0], [1.0]]),  # one honest
    ],
)
def test_where_there_is_no_bound_none_is_given(X: np.ndarray) -> None:
    with np.errstate(invalid="ignore"):
        assert instance_bound(squared(X), 1) is None


def test_the_bound_is_the_same_for_moved_scaled_and_reordered_vectors() -> None:
    X = cloud(9, 3, 2, 1)
    first = instance_bound(squared(X), 3)
    assert first is not None
    for Y in (1e-6 * X, 1e6 * X, X + 40, X[::-1]):
        assert instance_bound(squared(Y), 3) == pytest.approx(
            first, rel=2e-3
        )  # random directions change with the order


@pytest.mark.parametrize("error", [1e-12, 1e-6, 1e-3])
@pytest.mark.parametrize("shape", SHAPES)
def test_wrong_distances_prove_nothing_false(shape: tuple[int, int, int], error: float) -> None:
    n, f, d = shape
    for seed in range(6):
        X = cloud(n, f, d, seed)
        rng = np.random.default_rng(seed)
        for F in (MeanwO(f)(X), PTM(f)(X), X[0]):
            D = squared(np.vstack([X, F]))
            wrong = np.triu(1 + error * rng.choice([-1.0, 1.0], size=D.shape), 1)
            D *= wrong + wrong.T
            w = np.append(np.zeros(n), 1.0)
            assert semidefinite(D, w, Sets.plain(n, f), error) >= largest(F, X, f)
            least = instance_bound(D[:n, :n], f, error=error)
            assert least is None or least <= largest(F, X, f)


def test_a_sharp_certificate_is_near_the_worst_set_that_a_search_finds() -> None:
    quick, sharp = [], []
    for n, f, d in ((11, 2, 20), (20, 4, 20), (35, 7, 100), (35, 14, 1000)):
        for seed in range(6):
            X = cloud(n, f, d, seed)
            for F in (MeanwO(f)(X), CWTM(f)(X), PTM(f)(X)):
                E = X - F
                found = worst_sets(E @ E.T, f, rng=np.random.default_rng(0))[0]
                mean = X[found].mean(axis=0)
                true = np.square(F - mean).sum() / np.square(X[found] - mean).sum(axis=1).mean()
                D, w = squared(np.vstack([X, F])), np.append(np.zeros(n), 1.0)
                quick.append(relative(D, w, Sets.plain(n, f), 1e-12) / true)
                sharp.append(min(quick[-1], semidefinite(D, w, Sets.plain(n, f), 1e-12) / true))
    assert min(sharp) >= 1 - 1e-9
    assert np.median(sharp) < 1.1 < np.median(quick) < 1.5


def test_the_worst_set_of_a_small_round_is_found() -> None:
    for seed in range(20):
        X = cloud(8, 3, 3, seed)
        F = CWTM(3)(X)
        best = worst_sets((X - F) @ (X - F).T, 3, rng=np.random.default_rng(0))[0]
        assert float(ratios("kappa", F, X, best[None].astype(float)).max()) >= 0.99 * largest(F, X, 3)


def test_rounds_whose_numbers_leave_the_range_are_not_proved_wrongly() -> None:
    for scale in (1e-170, 1e170):
        X = cloud(7, 2, 3, 0) * scale
        told = certificate(MeanwO(2).decide(X), X, sharp=True, bound=True)
        assert told.kappa >= largest(MeanwO(2)(X) / scale, X / scale, 2) * (1 - 1e-6)
        assert told.least is None or told.least < told.kappa < inf
