r"""κ(X): how far an answer can be from the mean of any n - f of the vectors, in units of their variance.

With e_i = x_i - F and S any h = n - f of the vectors,

.. math:: \lVert F - \bar x_S \rVert^2 = \kappa_S \, \sigma_S^2, \quad \kappa_S = \rho_S / (1 - \rho_S), \quad
          \rho_S = \lVert \sum_S e_i \rVert^2 / (h \sum_S \lVert e_i \rVert^2).

The largest κ_S is bounded from the n x n inner products of the e_i alone; docs/guarantees.md has the proof.
"""

from __future__ import annotations

from math import inf

import numpy as np

from holdfast.guarantees.sets import Sets

Array = np.ndarray
NEWTON, STEPS = 60, 4  # steps towards the least ρ, at most; towards a better split
EPS = float(np.finfo(float).eps)
FIRST = 1.01  # errors of distances are told to first order


def doubt(D: Array, error: float) -> float:
    """By which part sums of distances may be wrong, our own additions included."""
    return FIRST * error + 8 * len(D) * EPS


def squares(D: Array, w: Array, error: float) -> tuple[Array, Array]:
    """Squared distances of all points to the point that the weights make, and by how much each may be wrong."""
    on = np.flatnonzero(w)
    with np.errstate(all="ignore"):
        p, sizes = D[:, on] @ w[on], D[:, on] @ np.abs(w[on])
        half, most = 0.5 * float(w[on] @ p[on]), 0.5 * float(np.abs(w[on]) @ sizes[on])
        return np.maximum(p - half, 0.0), doubt(D, error) * (sizes + most)


def lengths(D: Array, w: Array, error: float = 0.0) -> Array:
    """Distances of all points to the point that the weights make, at most."""
    g, off = squares(D, w, error)
    return np.nan_to_num(np.sqrt(g + off), nan=inf, posinf=inf)


@np.errstate(over="ignore", invalid="ignore")  # what is not finite proves nothing
def relative(D: Array, w: Array, sets: Sets, error: float) -> float:
    """κ(X): at least every κ_S, for the answer Σ w_i x_i and distances that are right up to the part `error`.

    The inner products are split, 2⟨e_i, e_j⟩ = c_ij + c_ji, by the squared lengths; then, with g_i the squared lengths,
    Σ over S of [g_i (1 - ρh) + the h - 1 largest c_ij] ≤ 0 for the worst h points proves ρ_S ≤ ρ for every S.
    What rounding may have done is added where it hurts. Any split is valid, so a few subgradient steps look for a
    better one: they move inner products from those in whose sum they count to those in whose sum they do not.
    A worker of mass m is m points. Its other m - 1 points have c_ii = g_i.
    """
    n, h = sets.n, sets.h
    g, off = (part[:n] for part in squares(D, w, error))
    if not np.isfinite(g).all() or not np.isfinite(D).all():
        return inf
    if h < 2:
        return inf if g.any() else 0.0
    inner = 0.5 * (g[:, None] + g - D[:n, :n])
    wrong = 0.5 * (off[:, None] + off + doubt(D, error) * D[:n, :n])
    sums = g[:, None] + g
    share = np.divide(np.broadcast_to(g[:, None], sums.shape), sums, out=np.full_like(sums, 0.5), where=sums > 0)
    parts = _raised(2 * share * (inner + wrong))
    np.fill_diagonal(parts, -inf if sets.equal else _raised(g + off))
    rho, step = 1.0, float(np.abs(inner).mean())
    for at in range(STEPS + 1):
        s, counts = _best_partners(parts, sets)
        if at in (0, STEPS):
            rho = min(rho, _proved(s, g, off, sets))
        if rho == 1 or at == STEPS:
            break
        counts = counts * (sets.most(s + (1 - rho * h) * g) / sets.mass)[:, None]  # the largest sums alone count
        change = step / (1 + at) * (counts - counts.T)
        parts = np.where(change == 0, parts, _raised(parts - change))
    return rho / (1 - rho) * (1 + 1e-9) if rho < 1 else inf


def _raised(parts: Array) -> Array:
    """Shares a little larger than computed, so that two of them never add up to less than what was split."""
    return parts * np.where(parts > 0, 1 + 4 * EPS, 1 - 4 * EPS)


def _best_partners(parts: Array, sets: Sets) -> tuple[Array, Array]:
    """For each point the sum of the h - 1 largest shares, rounding added, and which part of each share is in it."""
    n = sets.n
    if sets.equal:
        ranked = np.sort(parts, axis=1)[:, n - int(sets.h) + 1 :]  # of the n - 1 others
        return ranked.sum(axis=1) + 8 * n * EPS * np.abs(ranked).sum(axis=1), (parts >= ranked[:, :1]).astype(float)
    others = np.maximum(sets.mass - np.eye(n), 0.0)
    order = np.argsort(-parts, axis=1, kind="stable")
    room = np.take_along_axis(others, order, axis=1)
    taken = np.clip(sets.h - 1 - (np.cumsum(room, axis=1) - room), 0.0, room)
    counts = np.zeros(parts.shape)
    np.put_along_axis(counts, order, taken / np.maximum(room, 1.0), axis=1)
    terms = counts * others * parts
    return terms.sum(axis=1) + 8 * n * EPS * np.abs(terms).sum(axis=1), counts


def _proved(s: Array, g: Array, off: Array, sets: Sets) -> float:
    """The least ρ for which the h largest of s + (1 - ρh) g, rounding added, have a sum of at most zero; 1 if none.

    The sum is convex and falls, so Newton's steps from the left never pass its zero; a last look makes sure.
    """
    n, h = sets.n, sets.h

    def largest(rho: float) -> tuple[float, float]:
        left = 1 - rho * h
        own = s + left * g + (abs(left) + EPS) * off + 4 * EPS * (1 + rho * h) * g  # of left itself, too
        if not np.isfinite(own).all():
            return inf, 0.0
        top = sets.most(own)
        fall = h * float(top @ (g + off if left > 0 else g - off))
        return float(top @ own + 8 * n * EPS * top @ np.abs(own)), fall

    rho = 0.0
    for _ in range(NEWTON):
        rest, fall = largest(rho)
        if rest <= 0:
            return rho
        if fall <= 0 or rho >= 1:
            break
        rho += rest / fall * (1 + 1e-9) + 1e-15
    return 1.0
