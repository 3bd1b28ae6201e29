"""Squared distances: accurate where floats allow, and no attacker hides in the rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import CenterwO, Krum, MeanwO, parse
from holdfast.geometry import distances
from holdfast.points import Points
from holdfast.reading import read
from holdfast.sight import Sight


def points(X: Any, rows: Any = None) -> Points:
    given_ = read(X, "test")
    return Points.rows(given_, np.arange(given_.n) if rows is None else np.asarray(rows))


def exact(X: np.ndarray) -> np.ndarray:
    A = X.astype(np.longdouble)
    return np.array([((A - row) ** 2).sum(axis=1) for row in A])


def worst(X: np.ndarray, **how: Any) -> float:
    """Largest relative error; inf where a distance of zero is not zero."""
    D, scale, _ = distances(points(X), **how)
    E = exact(X * np.longdouble(scale) if scale != 1 else X)
    assert (D >= 0).all()
    assert np.array_equal(D, D.T)
    assert (D.diagonal() == 0).all()
    off = np.abs(D - E)
    return float(np.where(E > 0, off / np.where(E > 0, E, 1), np.where(D == 0, 0, np.inf)).max())


def cloud(d: int = 5000, n: int = 12, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d))


def spoiled(kind: str, dtype: Any) -> np.ndarray:
    X = cloud().astype(dtype)
    match kind:
        case "offset":
            X += dtype(1e4)
        case "copies":
            X[:5] = X[5:].mean(axis=0)
        case "offset copies":
            X[:5] = X[5:].mean(axis=0)
            X += dtype(1e3)
        case "huge":
            X[3] *= dtype(1e30)
        case "huge copies":
            X[:4] = X[3] * dtype(1e30)
        case "huge cluster":
            X[:4] = X[3] * dtype(1e25) * (1 + np.arange(4)[:, None] * dtype(1e-3))
        case "clusters in clusters":
            X[:6] = 1e4 + X[:6] * dtype(1e-2)
            X[:3] = X[0] + X[:3] * dtype(1e-7)
        case "tiny":
            X *= dtype(1e-25)
        case "zeros":
            X[2:9] = 0
        case "one coordinate":
            X[:] = X[0]
            X[:, 0] += np.arange(12, dtype=dtype)
    return X


KINDS = ["plain", "offset", "copies", "offset copies", "huge", "huge copies", "huge cluster", "clusters in clusters"]
KINDS += ["tiny", "zeros", "one coordinate"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_relative_error(kind: str, dtype: Any) -> None:
    assert worst(spoiled(kind, dtype)) < (2e-6 if dtype == np.float32 else 1e-9)


@pytest.mark.parametrize("size", [1e-170, 1e-60, 1e60, 1e150])
def test_scale_is_that_of_the_row_in_the_middle(size: float) -> None:
    X = cloud(300) * size
    assert worst(X) < 1e-12
    X[0] *= 1e140
    D, scale, _ = distances(points(X))
    assert np.isfinite(D[1:, 1:]).all()
    assert D[1, 2] == pytest.approx(float(exact(X[1:3] * scale)[0, 1]))


def test_two_huge_rows_may_be_infinitely_far() -> None:
    X = cloud(50)
    X[0], X[1] = 1e300, -1e300
    D, _, _ = distances(points(X))
    assert np.isinf(D[0, 1:]).all()
    assert D[0, 0] == 0
    X[1] = X[0]
    X[2] = X[0] * (1 + 1e-15)
    D, _, _ = distances(points(X))
    assert D[0, 1] == 0
    assert np.isinf(D[0, 2:]).all()
    assert np.isfinite(D[3:, 3:]).all()


def test_some_centres_and_some_rows() -> None:
    X = cloud(3000).astype(np.float32)
    X[2] = X[7]
    X[4] *= np.float32(1e25)
    E = exact(X)
    D, _, _ = distances(points(X), np.array([7, 4, 0]))
    assert D.shape == (3, 12)
    assert np.allclose(D, E[[7, 4, 0]].astype(float), rtol=2e-6)
    assert D[0, 2] == 0
    D, _, _ = distances(points(X, [1, 2, 7]))
    assert np.allclose(D, E[np.ix_([1, 2, 7], [1, 2, 7])].astype(float), rtol=2e-6)
    assert distances(points(X), np.zeros(0, int))[0].shape == (0, 12)


def test_offset_with_some_centres() -> None:
    X = (cloud(3000) + 1e3).astype(np.float32)
    D, _, _ = distances(points(X), np.array([3, 9]))
    assert np.allclose(D, exact(X)[[3, 9]].astype(float), rtol=2e-6)


def test_mixed_points() -> None:
    """Weighted sums, with an offset, copies among the sums, and anchors behind them."""
    rng = np.random.default_rng(0)
    for offset in (0.0, 1e4):
        X = (cloud(700) + offset).astype(np.float32)
        M = rng.dirichlet(np.ones(12), 6)
        M[4] = M[1]
        P = points(X).mixed(M)
        E = exact(M @ X.astype(np.longdouble))
        D, _, _ = distances(P)
        assert np.allclose(D, E.astype(float), rtol=1e-6, atol=1e-9)
        assert D[4, 1] == 0
        D, _, _ = distances(P.anchored(("origin",)), np.array([6]))
        assert np.allclose(D[0, :6], ((M @ X.astype(float)) ** 2).sum(axis=1))


def test_every_row_its_own_pivot_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.geometry.DIRECT", 1)
    for kind in ("offset", "offset copies", "clusters in clusters"):
        assert worst(spoiled(kind, np.float32)) < 2e-6


def test_the_certificate_is_kept() -> None:
    """|D^ - D| <= gamma (a_i + a_j)^2 at the first level, for every kind of cloud."""
    for kind in KINDS:
        X = spoiled(kind, np.float32)
        if np.abs(X).max() > 1e15:
            continue
        P = points(X)
        sight = Sight(P, wide=False)
        G, g = sight.gram(np.arange(12), np.arange(12), None, wide=False)
        D = g[:, None] + g - 2 * G
        a = np.sqrt(g)
        assert (np.abs(D - exact(X)) <= sight.gamma(wide=False) * (a[:, None] + a) ** 2 + 1e-40).all(), kind


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("ratio", [1e4, 1e5, 1e6])
def test_a_common_offset_hides_no_attacker(ratio: float, library: str) -> None:
    rng = np.random.default_rng(1)
    n, f, d = 35, 14, 20_000
    u = rng.standard_normal(d)
    u /= np.linalg.norm(u)
    w = rng.standard_normal(d)
    X = np.empty((n, d))
    X[f:] = rng.standard_normal((n - f, d)) / np.sqrt(d)
    X[:f] = 10 * u + 0.05 * rng.standard_normal((f, d)) / np.sqrt(d)
    A = (X + w * ratio / np.linalg.norm(w)).astype(np.float32)
    G = A @ A.T
    naive = np.maximum(G.diagonal()[:, None] + G.diagonal() - 2 * G, 0)
    fooled = MeanwO(f).choose(naive).weights[:f] > 0
    assert ratio < 1e5 or fooled.any(), "the plain Gram trick keeps attackers"
    for rule in (MeanwO(f), CenterwO(f), Krum(f)):
        kept = rule.decide(torch.from_numpy(A) if library == "torch" else A).kept
        assert min(kept) >= f, rule


@pytest.mark.parametrize("huge", [1e6, 1e12, 1e18, 1e25, 3e33])
def test_one_huge_row_hides_no_sneaky_ones(huge: float) -> None:
    rng = np.random.default_rng(2)
    n, f, d = 35, 14, 20_000
    u = rng.standard_normal(d)
    u /= np.linalg.norm(u)
    X = rng.standard_normal((n, d)) / np.sqrt(d)
    X[:f] = 10 * u + 0.05 * X[:f]
    X[0] = huge * u
    X[1, 7] = np.nan
    for rule in (MeanwO(f), CenterwO(f), Krum(f)):
        decision = rule.decide(X.astype(np.float32))
        assert min(decision.kept) >= f
        assert decision.dropped == {1: "not finite"}


@given(st.integers(0, 2**32 - 1), st.sampled_from([np.float32, np.float64]))
@settings(max_examples=80, deadline=None)
def test_any_cloud(seed: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 12)), int(rng.integers(1, 5000))
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-8, 8, (n, 1)) + 10.0 ** rng.uniform(-8, 8)
    copy = rng.integers(0, n, n)
    X = np.where(rng.random((n, 1)) < 0.4, X[copy], X).astype(dtype)
    assert worst(X) < (5e-5 if dtype == np.float32 else 1e-9)


IDLE = [
    *("MeanwO(f=3)", "MeanExact(f=3)", "CenterwO(f=3)", "CenterExact(f=3)", "MDA(f=3)", "SMEA(f=3)", "Krum(f=3)"),
    *("MultiKrum(f=3)", "NNM(f=3) >> CWTM(f=3)", "NearestTo(CWTM(f=3))", "StreamCenterwO(f=3)", "GeometricMedian()"),
    *("Medoid()", "CAF(f=3)", "DnC(f=3)", "Bulyan(f=1)"),
]


@pytest.mark.parametrize("name", IDLE)
def test_idle_workers_do_not_let_tiny_liars_choose_the_scale(name: str) -> None:
    """Zeros and liars at 1e-160 are more than half of the rows; a liar at 1e30 must not be as near as the honest."""
    rng = np.random.default_rng(0)
    honest = np.vstack([np.zeros((3, 4)), rng.normal(1, 0.1, size=(3, 4))])
    X = np.vstack([np.full((1, 4), 1e30), np.full((1, 4), 1e-160), np.full((1, 4), -1e-160), honest])
    words = {"rng": rng} if parse(name).random else {}
    for order in (np.arange(9), np.arange(9)[::-1], rng.permutation(9)):
        assert np.abs(parse(name)(X[order], **words)).max() < 2
