"""Rounds to try a rule on: those that proofs end in, structured ones, random ones."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import Any

import numpy as np

Array = np.ndarray
Rng = np.random.Generator
NEAR = 1e-6  # how far a tie is broken
MAX_AXES = 4  # along which the points of a small grid differ
MAX_REACH = 3  # of a small grid, to each side
TIGHT = np.array([[0.92, 0.30], [1.04, 0.42], [1.08, 0.22], [0.98, 0.12]])
MIDDLE = np.array([[0.55, 0.75], [0.62, -0.45], [1.75, 0.35]])
WIDE = np.array([[-1.45, 0.35], [-0.75, 1.20], [-0.95, -0.85], [-0.10, -1.25]])
DILEMMA = np.vstack([TIGHT, MIDDLE, WIDE])  # eleven points, two stories (Yi et al. 2024): no rule is right in both
SNEAK, SIEGE = np.arange(4), np.arange(7, 11)  # who lies in either; rules that withstand f = 5


def structured(n: int, f: int, d: int) -> list[Array]:
    """Rounds in which some proof is tight, or a rule is known to be pressed; ties are broken by a little, both ways."""
    h, q = n - f, n - 2 * f
    steps = np.arange(n) * 1.0
    lines: list[Any] = [steps, 2.0 ** np.minimum(steps, 500), [0.0] * (n // 2) + [1.0] * (n - n // 2)]
    if f:
        for e in (NEAR, -NEAR):
            lines += [
                [0.0] + [-1.0] * (f - 1) + [1.0] * q + [2.0 + e] * f,  # λ of CenterwO: the liars' ball is tighter
                [1.0 - e] + [2.0 - 3 * e] * (f - 1) + [0.0] * (h - 1) + [-1.0],  # κ of CenterwO
                [-1.0 + e] * f + [0.0] * q + [1.0] * f,  # two sides: κ of MeanExact, λ of MDA, CWTM
                [-9.0] * f + [0.0] * q + [1.0] * f,
                [0.0] * f + [1.0 + e] * h,
            ]
        reach = sqrt(h / q)
        lines.append([-f * reach / h] + [-reach] * (f - 1) + [0.0] * q + [1.0] * f)  # near the bound of MeanwO
    out = [_on_a_line(line, d) for line in lines]
    return out + (_planar(n, f, d) if d > 1 else [])


def _on_a_line(values: Any, d: int) -> Array:
    X = np.zeros((len(values), d))
    X[:, 0] = values
    return X


def _planar(n: int, f: int, d: int) -> list[Array]:
    h, q = n - f, n - 2 * f
    corners = np.zeros((n, d))
    corners[np.arange(n), np.arange(n) % d] = np.where(np.arange(n) < d, 1.0, -1.0)
    ring = np.zeros((n, d))
    ring[:, :2] = _circle(n)
    around = np.zeros((n, d))
    around[:f, 0] = 1.0
    around[f:, :2] = _circle(h)
    out = [corners, ring, around]
    if f:
        inside = ring.copy()
        inside[:f] = 0.0
        simplex = np.zeros((n, d))  # λ of MeanwO near n = 2f: f honest on a simplex, the liars on its far side
        simplex[np.arange(f), np.arange(f) % d] = 1.0
        simplex[n - f :, 0] = -sqrt(f / q) * (1 - NEAR)
        out += [inside, simplex]
    return out


def _circle(k: int) -> Array:
    turn = 2 * np.pi * np.arange(k) / k
    return np.stack([np.cos(turn), np.sin(turn)], axis=1)


def few_places(n: int, d: int, rng: Rng) -> Array:
    """A random round on a small grid: few places, whole numbers, hence many equal distances."""
    places = np.zeros((rng.integers(2, n + 1) if n > 1 else 1, d))
    used, reach = rng.integers(1, min(d, MAX_AXES) + 1), rng.integers(1, MAX_REACH + 1)
    places[:, :used] = rng.integers(-reach, reach + 1, size=(len(places), used))
    return places[rng.integers(len(places), size=n)]


def drawn(n: int, d: int, rng: Rng) -> Iterator[Array]:
    """Random rounds without end: clouds, clouds of very different lengths, points of a grid with many ties."""
    while True:
        yield rng.normal(size=(n, d))
        yield rng.normal(size=(n, d)) * np.exp(1.5 * rng.normal(size=(n, 1)))
        yield rng.integers(-2, 3, size=(n, d)) + 0.01 * rng.normal(size=(n, d))
        yield rng.integers(-1, 2, size=(n, d)).astype(float)
