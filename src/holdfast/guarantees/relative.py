r"""κ(X): how far an answer can be from the mean of any n - f of the vectors, in units of their variance.

With e_i = x_i - F and S any h = n - f of the vectors,

.. math:: \lVert F - \bar x_S \rVert^2 = \kappa_S \, \sigma_S^2, \quad \kappa_S = \rho_S / (1 - \rho_S), \quad
          \rho_S = \lVert \sum_S e_i \rVert^2 / (h \sum_S \lVert e_i \rVert^2).

The largest κ_S is bounded from the n x n inner products of the e_i alone; docs/guarantees.md has the proof.
"""

from __future__ import annotations

from math import inf

import numpy as np

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
def relative(D: Array, w: Array, n: int, f: int, error: float) -> float:
    """κ(X): at least every κ_S, for the answer Σ w_i x_i and distances that are right up to the part `error`.

    The inner products are split, 2⟨e_i, e_j⟩ = c_ij + c_ji, by the squared lengths; then, with g_i the squared lengths,
    Σ over S of [g_i (1 - ρh) + the h - 1 largest c_ij] ≤ 0 for the worst h points proves ρ_S ≤ ρ for every S.
    What rounding may have done is added where it hurts. Any split is valid, so a few subgradient steps look for a
    better one: they move inner products from those in whose sum they count to those in whose sum they do not.
    """
    h = n - f
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
    np.fill_diagonal(parts, -inf)
    rho, step = 1.0, float(np.abs(inner).mean())
    for at in range(STEPS + 1):
        ranked = np.sort(parts, axis=1)[:, f + 1 :]  # the h - 1 largest of the n - 1 others
        s = ranked.sum(axis=1) + 8 * n * EPS * np.abs(ranked).sum(axis=1)
        if at in (0, STEPS):
            rho = min(rho, _proved(s, g, off, f))
        if rho == 1 or at == STEPS:
            break
        counts = parts >= ranked[:, :1]
        counts[np.argsort(s + (1 - rho * h) * g)[:f]] = False  # the h largest sums alone count
        change = step / (1 + at) * (counts.astype(float) - counts.T)
        parts = np.where(change == 0, parts, _raised(parts - change))
    return rho / (1 - rho) * (1 + 1e-9) if rho < 1 else inf


def _raised(parts: Array) -> Array:
    """Shares a little larger than computed, so that two of them never add up to less than what was split."""
    return parts * np.where(parts > 0, 1 + 4 * EPS, 1 - 4 * EPS)


def _proved(s: Array, g: Array, off: Array, f: int) -> float:
    """The least ρ for which the h largest of s + (1 - ρh) g, rounding added, have a sum of at most zero; 1 if none.

    The sum is convex and falls, so Newton's steps from the left never pass its zero; a last look makes sure.
    """
    n, h = len(g), len(g) - f

    def largest(rho: float) -> tuple[float, float]:
        left = 1 - rho * h
        own = s + left * g + (abs(left) + EPS) * off + 4 * EPS * (1 + rho * h) * g  # of left itself, too
        if not np.isfinite(own).all():
            return inf, 0.0
        top = np.argsort(own)[f:]
        fall = h * float((g[top] + off[top] if left > 0 else g[top] - off[top]).sum())
        return float(own[top].sum() + 8 * n * EPS * np.abs(own[top]).sum()), fall

    rho = 0.0
    for _ in range(NEWTON):
        rest, fall = largest(rho)
        if rest <= 0:
            return rho
        if fall <= 0 or rho >= 1:
            break
        rho += rest / fall * (1 + 1e-9) + 1e-15
    return 1.0
