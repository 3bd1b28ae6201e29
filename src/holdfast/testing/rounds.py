"""Rounds to check an aggregator on: honest clouds, planted Byzantine rows, ties, rows that are not finite."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Rng = np.random.Generator

KINDS = ("far", "copies", "sneak", "siege", "alie", "empire")


def gaussian(rng: Rng, n: int, d: int, scale: float = 1.0) -> Array:
    """Standard normal vectors around a normal centre, all times scale."""
    return scale * (rng.normal(size=(n, d)) + rng.normal(size=d))


def heterogeneous(rng: Rng, n: int, d: int, clusters: int = 3, scale: float = 1.0) -> Array:
    """Tight groups that lie far apart: workers whose data differ."""
    centres = 3 * rng.normal(size=(clusters, d))
    return scale * (centres[rng.integers(clusters, size=n)] + 0.3 * rng.normal(size=(n, d)))


def attacked(rng: Rng, n: int, f: int, d: int, kind: str, distance: float = 10.0) -> tuple[Array, Mask]:
    """n rows of which f, at random places, are Byzantine; and which rows are honest.

    far, copies: this number of radii off; sneak, siege: see `liars`; alie, empire: made from all honest rows.
    """
    honest = np.ones(n, bool)
    honest[rng.choice(n, f, replace=False)] = False
    X = gaussian(rng, n, d)
    if f:
        X[~honest] = liars(rng, X[honest], f, kind, distance)
    return X, honest


def liars(rng: Rng, H: Array, f: int, kind: str, distance: float = 10.0) -> Array:
    """f rows against the honest rows H, whose radius is the largest distance to their mean."""
    mean, radius = H.mean(axis=0), max(float(np.linalg.norm(H - H.mean(axis=0), axis=1).max()), 1e-3)
    match kind:
        case "far":  # each its own way, and up to a fifth farther, so that no two are alike on a line
            return mean + distance * radius * rng.uniform(1.0, 1.2, size=(f, 1)) * directions(rng, f, H.shape[1])
        case "copies":  # all the same vector
            return np.tile(mean + distance * radius * directions(rng, 1, H.shape[1]), (f, 1))
        case "sneak":  # inside of the cloud, tight, off its middle
            return mean + radius * (0.5 * directions(rng, 1, H.shape[1]) + 0.01 * rng.normal(size=(f, H.shape[1])))
        case "siege":  # around the cloud, a little outside
            return mean + radius * rng.uniform(1.0, 1.5, size=(f, 1)) * directions(rng, f, H.shape[1])
        case "alie":  # as many deviations off as still pass (A Little Is Enough, Baruch et al. 2019)
            n = len(H) + f
            z = NormalDist().inv_cdf(max(0.6, (n - n // 2 - 1) / len(H)))  # 0.5 would be the mean itself
            return np.tile(mean - z * H.std(axis=0), (f, 1))
        case "empire":  # the mean reversed (Fall of Empires, Xie et al. 2020)
            return np.tile(-1.1 * mean, (f, 1))
    raise ValueError(f"no attack {kind!r}; there are {', '.join(KINDS)}")


def directions(rng: Rng, n: int, d: int) -> Array:
    """n unit vectors."""
    V = rng.normal(size=(n, d))
    return np.asarray(V / np.linalg.norm(V, axis=1, keepdims=True))


def ties(rng: Rng, n: int, d: int) -> Array:
    """Small whole numbers, about a third of the rows copies of others."""
    X = rng.integers(-2, 3, size=(n, d)).astype(float)
    copies = rng.random(n) < 1 / 3
    X[copies] = X[rng.integers(n, size=int(copies.sum()))]
    return X


def with_bad_rows(rng: Rng, X: NDArray[Any], k: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """A copy with k rows spoilt by NaN or ±inf, at one coordinate, all or some; and which rows, in order."""
    X, rows = X.copy(), np.sort(rng.choice(len(X), k, replace=False))
    for i in rows:
        bad = rng.choice([np.nan, np.inf, -np.inf], size=X.shape[1])
        where = rng.random(X.shape[1]) < rng.choice([0.0, 0.5, 1.0])
        where[rng.integers(X.shape[1])] = True
        X[i, where] = bad[where] if rng.random() < 0.5 else bad[0]
    return X, rows


def place_liars(H: NDArray[Any], B: NDArray[Any], trusted: Collection[int] = ()) -> Iterator[tuple[NDArray[Any], Mask]]:
    """The Byzantine rows B last, first, and in between; with the mask of the honest.

    The workers in `trusted` stay honest.
    """
    n, f = len(H) + len(B), len(B)
    free = [i for i in range(n) if i not in trusted]
    step = max(1, min(4, (len(free) - 1) // max(f, 1)))
    for at in (free[len(free) - f :], free[:f], free[1 : 1 + step * f : step]):
        honest = np.ones(n, bool)
        honest[at] = False
        X = np.empty((n, H.shape[1]), H.dtype)
        X[honest], X[~honest] = H, B
        yield X, honest
