"""Which nodes take part in a round, and how likely it is that half of them lie."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from math import ceil, comb

import numpy as np
from flwr.serverapp import Grid

log = logging.getLogger("flwr.holdfast")


def risk(n: int, f: int, k: int) -> float:
    """Probability that of k nodes, drawn from n of which f lie, half or more lie: then no rule can help.

    >>> round(risk(35, 14, 5), 2), risk(35, 14, 31)
    (0.31, 0.0)
    """
    least = ceil(k / 2)
    return sum(comb(f, b) * comb(n - f, k - b) for b in range(least, min(f, k) + 1)) / comb(n, k)


def available(grid: Grid, wanted: int, patience: float) -> list[int]:
    """The nodes that are connected, as soon as there are enough; after `patience` seconds, those that are."""
    until = time.monotonic() + patience
    while True:
        nodes = sorted(int(node) for node in grid.get_node_ids())
        if len(nodes) >= wanted or time.monotonic() >= until:
            return nodes
        log.info("waiting for nodes: %d of %d are connected", len(nodes), wanted)
        time.sleep(min(1.0, max(0.01, until - time.monotonic())))


def drawn(nodes: list[int], fraction: float, least: int, seed: int, turn: int, busy: Collection[int] = ()) -> list[int]:
    """A share of the nodes, at least `least` of them if as many are idle, by a seed of our own."""
    idle = [node for node in nodes if node not in busy]
    many = min(len(idle), max(int(len(nodes) * fraction), least))
    rng = np.random.default_rng((seed, turn))
    return sorted(idle[i] for i in rng.choice(len(idle), many, replace=False)) if many else []
