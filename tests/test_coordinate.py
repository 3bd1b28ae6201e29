"""Order of few and of many rows."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.rules.coordinate import FEW, network, ranked


@pytest.mark.parametrize("n", range(1, FEW + 1))
def test_a_network_sorts_zeros_and_ones_and_so_everything(n: int) -> None:
    """A network that sorts all 0-1 sequences sorts all others (Knuth, 5.3.4)."""
    every = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(np.int8).T
    assert (np.diff(np.asarray(ranked(every)), axis=1) >= 0).all()
    assert all(0 <= i < j < n for i, j in network(n))


@pytest.mark.parametrize("n", [1, 2, 7, FEW, FEW + 1, 40])
def test_rows_are_ordered_and_not_changed(n: int) -> None:
    block = np.random.default_rng(n).normal(size=(n, 300)).round(1)
    before = block.copy()
    assert np.array_equal(np.asarray(ranked(block)), np.sort(block.T, axis=1))
    assert np.array_equal(block, before)
