r"""κ(X) again, sharper: one positive semidefinite matrix proves a bound for every set at once.

With e_i = x_i - F, G their inner products, g the diagonal of G and z the 0/1 vector of a set S of h vectors, every u
gives the same number: z'Q z = ρ h Σ_S g - ‖Σ_S e‖² for

.. math:: Q = \mathrm{diag}(u) - G + (\ell 1' + 1 \ell')/(2h), \quad \ell = \rho h g - u,

since z_i² = z_i and 1'z = h. If Q has no negative eigenvalue, ρ_S ≤ ρ for every S (relative.py says what ρ_S is).

Workers with masses m have m_i e_i in place of e_i, m'z = h and m in place of 1. One z_i may be a fraction, where
z_i² ≤ z_i, so u must not be negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np

from holdfast.guarantees.relative import EPS, doubt, squares
from holdfast.guarantees.sets import Sets

Array = np.ndarray
STEPS = 40  # of Newton's method, at most
STARTS = (1.001, 1.05, 1.2, 1.5, 2.0, 3.0)  # multiples of the least u that is proportional to g
SHRINK, ENOUGH = 0.2, 1e-5  # of the barrier after a full step; where it ends, as a part of ρ
SHORTEST = 1e-4  # part of a step that is still tried


@dataclass(frozen=True)
class Point:
    """A u with the least ρ that it proves, the z where the quadratic is 0, and N, the inverse on vectors of sum 0."""

    u: Array
    rho: float
    z: Array
    N: Array
    barrier: float

    def cost(self, weight: float) -> float:
        """What a step makes smaller: ρ, kept away from the border of what proves anything."""
        return self.rho + weight * self.barrier


@np.errstate(all="ignore")  # what is not finite proves nothing
def semidefinite(D: Array, w: Array, sets: Sets, error: float) -> float:
    """κ(X): at least every κ_S, for the answer Σ w_i x_i and distances that are right up to the part `error`.

    A few steps of Newton's method with a logarithmic barrier look for the u that proves the least ρ. However u was
    found, `_proved` makes sure of ρ. O(n³) a step; inf where nothing is proved.
    """
    n = sets.n
    g, off = (part[:n] for part in squares(D, w, error))
    if sets.out == 0 or sets.h < 2 or not (np.isfinite(g).all() and np.isfinite(D).all() and g.any()):
        return inf
    m = sets.mass / sets.mass.mean()
    h = sets.h / float(sets.mass.mean())
    G = 0.5 * (g[:, None] + g - D[:n, :n])
    try:
        best = _search(m[:, None] * G * m / g.max(), m, h)
        u = None if best is None else best.u if sets.equal else np.maximum(best.u, 0.0)
        rho = 1.0 if u is None or best is None else _proved(u * g.max(), best.rho, G, off, sets, doubt(D, error))
    except np.linalg.LinAlgError:
        return inf
    return rho / (1 - rho) * (1 + 1e-9) if rho < 1 else inf


def _search(G: Array, m: Array, h: float) -> Point | None:
    """The u of the least ρ that was found; None if not even a first one was."""
    n, g = len(G), G.diagonal()
    P = np.linalg.qr(np.column_stack([m, np.eye(n)[:, 1:]]))[0][:, 1:]  # vectors with m'z = 0
    shape = 1 / np.sqrt(np.maximum(g, 1e-12))
    least = float(np.linalg.eigvalsh(G * shape[:, None] * shape)[-1])
    points = [_point(least * more * g + 1e-12, G, P, m, h) for more in STARTS]
    proving = [point for point in points if point is not None]
    if not proving:
        return None
    at = min(proving, key=lambda point: point.rho)
    weight = 0.05 * at.rho
    for _ in range(STEPS):
        step = _direction(at, h * g / m, weight)
        if not np.isfinite(step).all():
            break
        length, better = 1.0, None
        while length >= SHORTEST and better is None:
            tried = _point(at.u + length * step, G, P, m, h)
            better = tried if tried is not None and tried.cost(weight) < at.cost(weight) else None
            length *= 0.5
        if better is not None:
            at = better
        if better is None or length == 0.5:  # a full step was taken, or none: go nearer to the border
            weight *= SHRINK
            if weight < ENOUGH * at.rho:
                break
    return at


def _point(u: Array, G: Array, P: Array, m: Array, h: float) -> Point | None:
    """The least ρ that u proves: a root of a quadratic, by the Schur complement of Q on vectors with m'z = 0."""
    M = (P.T * u) @ P - P.T @ G @ P
    try:
        L = np.linalg.cholesky(M)
    except np.linalg.LinAlgError:
        return None
    half = np.linalg.solve(L, P.T)
    N = half.T @ half
    middle = m * (h / (m @ m))
    K = u * middle - G @ middle
    fixed, grows = 2 * K - u, h * G.diagonal() / m  # the linear term is fixed + ρ grows
    a, b = -0.25 * grows @ N @ grows, grows @ middle - 0.5 * fixed @ N @ grows
    c = middle @ K - u @ middle - 0.25 * fixed @ N @ fixed
    inside = b * b - 4 * a * c
    if not a < 0 or inside < 0:
        return None
    rho = float((-b + sqrt(inside)) / (2 * a))
    z = middle - 0.5 * N @ (fixed + rho * grows)
    return Point(u, rho, z, N, -2 * float(np.log(L.diagonal()).sum())) if 0 <= rho < 1 else None


def _direction(at: Point, grows: Array, weight: float) -> Array:
    """Newton's step; by the envelope theorem ρ falls by (z_i² - z_i)/(grows'z) as u_i grows."""
    n, z, N = len(grows), at.z, at.N
    unit = 1 / (grows @ z)
    slope = -unit * (z * z - z) - weight * N.diagonal()
    ends = 2 * z - 1
    bend = 0.5 * unit * ends[:, None] * N * ends + weight * N * N
    bend += 1e-9 * bend.trace() / n * np.eye(n)
    return np.asarray(np.linalg.solve(bend, -slope))


def _proved(u: Array, rho: float, G: Array, off: Array, sets: Sets, unsure: float) -> float:
    """A ρ that is certain: this one, raised by what rounding may have done; 1 if that is too much.

    With Q scaled to a diagonal of ones and λ its least eigenvalue, z'Qz ≥ λ Σ_S Q_ii. Errors of the distances are at
    most h Σ_S [(1 + ρ + ε) off_i + ε g_i], since Σ over S x S of D_ij is at most 2h Σ_S g_i.
    """
    n, g = len(G), G.diagonal()
    m = sets.mass / sets.mass.mean()
    h = sets.h / float(sets.mass.mean())
    rho = rho * (1 + 1e-9) + 1e-15
    linear = rho * h * m * g - u
    Q = np.diag(u) - m[:, None] * G * m + (linear[:, None] * m + m[:, None] * linear) / (2 * h)
    own = np.maximum(Q.diagonal(), EPS * g.max())
    scaled = Q / np.sqrt(own[:, None] * own)
    lowest = float(np.linalg.eigvalsh(scaled)[0]) - 8 * n * EPS * float(np.abs(scaled).sum(axis=1).max())
    rounding = 8 * EPS * (h * m * g + np.abs(linear) + np.abs(u)) - min(lowest, 0.0) * own
    more = 1e-12
    while rho + more < 1:
        errors = h * ((1 + 2 * (rho + more) + unsure) * off + unsure * g) + rounding / m
        if sets.largest(errors - more * h * g) <= 0:
            return rho + more
        more *= 2
    return 1.0
