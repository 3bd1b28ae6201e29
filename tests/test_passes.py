"""How often the numbers of a round are read: hostile vectors must not cost many passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from holdfast import CenteredClipping, GeometricMedian, Krum, MeanwO, Medoid, NormBoundedMean, points
from holdfast.rules import median
from holdfast.sight import Sight


def passes(rule: Any, X: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each look at the numbers of a round reads."""
    looks = []
    plain = Sight.gram

    def counting(self: Sight, K: np.ndarray, *rest: Any, **options: Any) -> Any:
        looks.append(len(K))
        return plain(self, K, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Sight, "gram", counting)
        rule.decide(X)
    return looks


@pytest.mark.parametrize("size", [1e-30, 1e-40])
def test_tiny_updates_were_repaired_before_they_were_measured_at_another_scale(
    size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = (np.random.default_rng(0).standard_normal((20, 300)) * size).astype(np.float32)
    for rule in (MeanwO(4), Krum(4)):
        assert passes(rule, X, monkeypatch) == [20, 20]  # before: 20, 20, 20, 20


@pytest.mark.parametrize(
    ("rule", "most"),
    [(GeometricMedian(), 90), (Medoid(), 90), (NormBoundedMean(tau=1.0), 38), (CenteredClipping(tau=1.0), 99)],
    ids=repr,
)
@pytest.mark.parametrize("liars", [1, 6])
def test_far_liars_were_pulled_and_measured_again_and_again(
    rule: Any, most: int, liars: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pull leaves a vector at the limit; the next one sees it there up to rounding, and must leave it alone."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 20_000)).astype(np.float32)
    X[:liars] = 3e38 * np.sign(X[:liars])
    rows = sum(passes(rule, X, monkeypatch))
    assert rows <= most  # 30 rows, the far ones in float64, the pulled points once, the lengths of their rows


def test_points_that_are_rows_were_multiplied_as_mixes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of 20 rows are pulled: two weighted sums are made for each block, not 20."""
    made = []
    plain = points.weighted

    def counting(place: Any, M: np.ndarray, block: Any) -> Any:
        made.append(M.shape)
        return plain(place, M, block)

    monkeypatch.setattr(points, "weighted", counting)
    X = np.random.default_rng(0).standard_normal((20, 300)).astype(np.float32)
    X[:2] = 3e38 * np.sign(X[:2])
    Medoid().decide(X)
    assert made
    assert all(rows == 2 and columns == 3 for rows, columns in made)  # of the two and the centre


@pytest.mark.parametrize("apart", [1e-40, 1e-25, 1e-12])
def test_near_copies_kept_the_search_for_the_median_busy(apart: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of six near-copies seemed outweighed by the others, and was left for the next one 2,000 times."""
    steps = []
    plain = median.distances_to

    def counting(D: np.ndarray, w: np.ndarray) -> np.ndarray:
        steps.append(len(D))
        return plain(D, w)

    X = np.random.default_rng(0).standard_normal((30, 2_000)).astype(np.float32)
    X[:6] *= np.float32(apart)
    copies = X.copy()
    copies[:6] = 0.0
    with monkeypatch.context() as patch:
        patch.setattr(median, "distances_to", counting)
        answer = GeometricMedian()(X)
    assert len(steps) < 200  # before: 2,289
    assert np.abs(answer - GeometricMedian()(copies)).max() < 1e-5
