r"""The least κ that any answer to a round can have: a bound from below, beside the certificate's from above.

Nobody knows which set S of h = n - f vectors is the honest one, so an answer has to be near all their means. Take any
sets S_k with weights b_k. They give each vector a weight. Let V be the variance of the vectors with these weights, and
v the mean of the sets' own variances, with weights b_k. Then V - v is the variance of the sets' means, and

.. math:: \max_k \lVert y - \bar x_{S_k} \rVert^2 / \sigma_{S_k}^2
          \ge \sum_k b_k \lVert y - \bar x_{S_k} \rVert^2 / \sum_k b_k \sigma_{S_k}^2 \ge V / v - 1

for every y. A search looks for the sets and weights with the largest V/v. If workers count differently, a set is one
whose complement holds at most the mass of the f heaviest, and its mean and variance are weighted.
"""

from __future__ import annotations

import numpy as np

from holdfast.guarantees.relative import doubt, squares
from holdfast.masses import heaviest

Array = np.ndarray
STEPS = 40  # times that sets are added, at most
ADDED, MAX_SETS = 12, 240  # sets a time, and in all
WEIGHINGS = 150  # steps towards the best weights, each time
ENOUGH = 1.001  # growth of the bound by less ends the search
DRAWN = 20  # random directions in which far sets are looked for
IMPROVED = 30  # times that a set is exchanged for a worse one


def worst_sets(
    G: Array,
    f: int,
    starts: Array | None = None,
    rng: np.random.Generator | None = None,
    *,
    mass: Array | None = None,
) -> Array:
    """Sets of n - f vectors whose means are far from the origin for their variance, the worst first.

    Parameters
    ----------
    G : (n, n) array
        Inner products of the vectors, seen from the answer.
    f : int
        How many vectors are not in a set.
    starts : (k, n) array of bool, optional
        Sets to begin with, beside those along the vectors and their principal axes.
    rng : Generator, optional
        Adds sets along random directions.
    mass : (n,) array, optional
        How much each vector counts. Without it, all count alike.

    Returns
    -------
    (m, n) array of bool
        The sets. Each is as bad as an exchange by its own mean can make it; nothing says that no other is worse.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.guarantees.instance import worst_sets
    >>> x = np.array([-1.0, 0.0, 1.0, 8.0])
    >>> worst_sets(np.outer(x, x), f=1)[0]
    array([False,  True,  True,  True])
    """
    g, m = G.diagonal(), np.ones(len(G)) if mass is None else mass
    out = heaviest(m, f)
    values, axes = np.linalg.eigh(G)
    along = [G, axes.T, -axes.T]
    if rng is not None:
        along.append(rng.normal(size=(DRAWN, len(G))) * np.sqrt(np.maximum(values, 0)) @ axes.T)
    sets = _top(np.concatenate(along), m, out)
    if starts is not None:
        sets = np.concatenate([sets, starts])
    for _ in range(IMPROVED):
        sets = np.unique(sets, axis=0)
        p = _parts(sets, m)
        M = p @ G  # inner products with the sets' means
        better = _top(2 * M - _shares(p, M, g)[:, None] * g, m, out)
        if (better == sets).all():
            break
        sets = better
    p = _parts(sets, m)
    return np.asarray(sets[np.argsort(-_shares(p, p @ G, g))])


def _top(scores: Array, m: Array, out: float) -> Array:
    """The largest of each row: the least are left out while they hold no more than `out`."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, ::-1]
    sets = np.zeros(scores.shape, bool)
    np.put_along_axis(sets, order, np.cumsum(m[order], axis=1) > out, axis=1)
    return sets


def _parts(sets: Array, m: Array) -> Array:
    """How much each vector counts in the mean of each set."""
    held = sets * m
    return np.asarray(held / held.sum(axis=1, keepdims=True))


def _shares(p: Array, M: Array, g: Array) -> Array:
    """ρ_S: the squared length of each set's mean over the mean of its squared lengths."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.nan_to_num((p * M).sum(axis=1) / (p @ g), nan=0.0))


@np.errstate(all="ignore")
def instance_bound(D: Array, f: int, *, error: float = 0.0, seed: int = 0, mass: Array | None = None) -> float | None:
    """Return a κ below which no answer to these vectors can be, whatever rule gives it.

    Parameters
    ----------
    D : (n, n) array
        Squared distances of the vectors.
    f : int
        How many may be Byzantine.
    error : float
        The part by which a distance may be wrong.
    seed : int
        Of the random directions in which sets are looked for.
    mass : (n,) array, optional
        How much each vector counts. Without it, all count alike.

    Returns
    -------
    float or None
        None: no bound was found, since distances are not finite or a set of n - f vectors has no variance.

    Notes
    -----
    Sets are added that are far from the present answer, then weighted anew, at most 40 times. The bound holds whatever
    the search did. It costs O(n³) a time: some 20 ms in all at n = 35.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.guarantees.instance import instance_bound
    >>> x = np.array([-1.0, 0.0, 1.0])
    >>> round(instance_bound((x[:, None] - x) ** 2, f=1), 3)  # {-1, 0} and {0, 1}: means 1 apart, variance 1/4
    1.0
    """
    n = len(D)
    m = np.ones(n) if mass is None else mass
    if f == 0 or n - f < 2 or not np.isfinite(D).all() or not D.any():
        return None
    D = D / D.max()
    share = (1 - doubt(D, error)) / (1 + doubt(D, error))
    rng, P, sets, b, least = np.random.default_rng(seed), np.full(n, 1 / n), np.zeros((0, n), bool), np.zeros(0), 0.0
    for _ in range(STEPS):
        g, _wrong = squares(D, P, 0.0)
        new = _unseen(worst_sets(0.5 * (g[:, None] + g - D), f, sets, rng, mass=mass)[:ADDED], sets)
        if len(sets) + len(new) <= MAX_SETS:
            sets, b = np.concatenate([sets, new]), np.append(b, np.full(len(new), b.mean() if len(b) else 1.0))
        p = _parts(sets, m)
        own = 0.5 * ((p @ D) * p).sum(axis=1)  # the variance of each set
        if not own.min() > 0:
            return None
        b = _weights(p @ D @ p.T, own, b * own)
        P = b @ p / b.sum()
        before, least = least, max(least, float(0.5 * (P @ D @ P) * b.sum() / (b @ own)) * share - 1)
        if not len(new) and least <= ENOUGH * before:
            break
    return least if least > 0 else None


def _unseen(new: Array, sets: Array) -> Array:
    """The new sets that are not among the old ones."""
    return new[~(new[:, None] == sets).all(axis=2).any(axis=1)]


def _weights(Q: Array, own: Array, share: Array) -> Array:
    """Weights of the sets for which V/v is large: those that are far for their variance gain, the others lose."""
    best, found = share / own, -np.inf
    for step in range(WEIGHINGS):
        b = share / own
        total = b.sum()
        mean, spread = Q @ b / total, 0.5 * b @ Q @ b / total**2
        value = spread * total / (b @ own)
        if value > found:
            best, found = b, value
        ratios = np.maximum(mean - own - spread, 0) / own
        share = share * np.exp(4 * (ratios / ratios.max() - 1) / np.sqrt(1 + step / 20))
        share = share / share.sum()
    return np.asarray(best)
