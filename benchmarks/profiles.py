"""How often answers jump in honest rounds, and how often they jump at the true number of liars; and the picture of it.

Each round has its own n, d and, if there are liars, number of liars. Honest vectors have deviation 1.

example:  python benchmarks/profiles.py
          python benchmarks/profiles.py --picture
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from holdfast import CWTM, NNM, PTM, MeanwO, profile
from holdfast.attacks import ALIE, SignFlip, View
from holdfast.report.profile import draw

ROOT = Path(__file__).parent.parent
OUT = ROOT / "results" / "guarantees" / "profiles.json"
RULES: dict[str, Any] = {
    "MeanwO(f)": MeanwO(1),
    "PTM(f)": PTM(1),
    "CWTM(f)": CWTM(1),
    "NNM(f) >> CWTM(f)": NNM(1) >> CWTM(1),
}
WORKERS, DIMENSIONS = (10, 20, 35), (3, 30, 300)
Rng = np.random.Generator
Round = tuple[np.ndarray, int]  # the vectors, and how many lie


def honest(rng: Rng, n: int, d: int) -> np.ndarray:
    """Normal vectors of deviation 1."""
    return rng.normal(size=(n, d)) / np.sqrt(d)


def without_liars(rng: Rng, *, d: int | None = None, sizes: Callable[[Rng, int], np.ndarray] | None = None) -> Round:
    """Honest vectors; `sizes` says how many times longer each is."""
    n, d = int(rng.choice(WORKERS)), int(rng.choice(DIMENSIONS)) if d is None else d
    return honest(rng, n, d) * (1.0 if sizes is None else sizes(rng, n)[:, None]), 0


def with_liars(rng: Rng, lies: Callable[[Rng, np.ndarray, int], np.ndarray]) -> Round:
    """Honest vectors around a mean of length 2, and from 1 to 0.4 n liars, in any order."""
    n, d = int(rng.choice(WORKERS)), int(rng.choice(DIMENSIONS))
    f = int(rng.integers(1, int(0.4 * n) + 1))
    good = honest(rng, n - f, d) + 2 * np.ones(d) / np.sqrt(d)
    return rng.permutation(np.vstack([good, lies(rng, good, f)])), f


def direction(rng: Rng, d: int, rows: int = 1) -> np.ndarray:
    """Random directions of length 1."""
    u = rng.normal(size=(rows, d))
    return np.asarray(u / np.linalg.norm(u, axis=1, keepdims=True))


def cluster(far: float) -> Callable[[Rng, np.ndarray, int], np.ndarray]:
    """Liars that are as spread as the honest ones, this far from their mean."""
    return lambda rng, good, f: good.mean(axis=0) + far * direction(rng, good.shape[1]) + honest(rng, f, good.shape[1])


def scattered(far: float) -> Callable[[Rng, np.ndarray, int], np.ndarray]:
    """Liars this far from the honest mean, each elsewhere."""
    return lambda rng, good, f: good.mean(axis=0) + far * direction(rng, good.shape[1], f)


def attack(given: Any) -> Callable[[Rng, np.ndarray, int], np.ndarray]:
    """What an attack of the library sends."""
    return lambda rng, good, f: np.asarray(given(View(honest=good, own=good[:f], rule=MeanwO(f), f=f, rng=rng)))


ROUNDS: dict[str, Callable[[Rng], Round]] = {
    "honest, normal": without_liars,
    "honest, normal, d = 1": lambda rng: without_liars(rng, d=1),
    "honest, lengths differ by a factor e^0.4": lambda rng: without_liars(
        rng, sizes=lambda rng, n: np.exp(0.4 * rng.normal(size=n))
    ),
    "honest, heavy tails (t, 3 degrees)": lambda rng: without_liars(
        rng, sizes=lambda rng, n: np.sqrt(3 / rng.chisquare(3, size=n))
    ),
    "a cluster of liars, 7 deviations away": lambda rng: with_liars(rng, cluster(7.0)),
    "a cluster of liars, 15 deviations away": lambda rng: with_liars(rng, cluster(15.0)),
    "scattered liars, 7 deviations away": lambda rng: with_liars(rng, scattered(7.0)),
    "scattered liars, 15 deviations away": lambda rng: with_liars(rng, scattered(15.0)),
    "liars that hide: ALIE": lambda rng: with_liars(rng, attack(ALIE())),
    "liars that hide: flipped signs": lambda rng: with_liars(rng, attack(SignFlip())),
}


def measure(rounds: int) -> dict[str, Any]:
    """The rates of each rule over each kind of round."""
    rows = []
    for kind, make in ROUNDS.items():
        rng = np.random.default_rng(0)
        given = [make(rng) for _ in range(rounds)]
        row: dict[str, Any] = {"rounds": kind, "jumps": {}, "right": {}}
        for name, rule in RULES.items():
            found = [(profile(X, rule).jump, f) for X, f in given]
            row["jumps"][name] = sum(jump is not None for jump, _ in found) / rounds
            row["right"][name] = None if kind.startswith("honest") else sum(jump == f for jump, f in found) / rounds
        print(row, flush=True)
        rows.append(row)
    return {"rounds": rounds, "workers": WORKERS, "dimensions": DIMENSIONS, "rows": rows}


def picture(out: Path) -> None:
    """The profile of a round with 20 workers, of which 5 lie."""
    rng = np.random.default_rng(0)
    X = honest(rng, 20, 100)
    X[:5] += 15 * direction(rng, 100)
    draw(profile(X, MeanwO(1)), out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--picture", action="store_true", help="Draw docs/profile.svg and measure nothing.")
    parser.add_argument("--rounds", type=int, default=100)
    words = parser.parse_args()
    if words.picture:
        picture(ROOT / "docs" / "profile.svg")
    else:
        OUT.write_text(json.dumps(measure(words.rounds), indent=1) + "\n")
