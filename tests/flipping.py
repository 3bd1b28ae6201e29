"""What the ranks of tests/test_bitflips.py do: the steps of benchmarks/bitflips.py, over the wire."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch

from holdfast.engines.sharded import Ledger, robust_all_reduce

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))

import bitflips

LAST, RANKS = bitflips.LAST, bitflips.RANKS
BITS = (30, 30, 30, 22, 0, 31)  # one a step; the top bit of the exponent is found where a number was not 0


def flipping(rank: int, n: int, folder: Path) -> None:
    """Each rank sends its own gradient, the last one with a flipped bit; the first one also decides by itself."""
    ranks, rng, ledger = bitflips.Ranks(seed=0), np.random.default_rng(2), Ledger(folder / "ranks.jsonl")
    alone: list[dict[int, float]] = []
    for step, bit in enumerate(BITS):
        rows = ranks.draw()
        rows[LAST] = ranks.flipped("gradient", bit, rows, rng)
        found, alone_decision = bitflips.factor(rows)
        alone.append(found)
        own = rows[rank].clone()
        decision = robust_all_reduce(own, bitflips.RULE)
        ledger.add(step, decision)
        torch.testing.assert_close(own, alone_decision.value)
        ranks.move(own)
    torch.save(alone, folder / f"{rank}.pt")
