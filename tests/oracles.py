"""Every rule a second time: slowly, on the vectors themselves, from the definitions of the literature.

All in np.longdouble, whose range holds the square of every float64. Ties go to the lowest index. Squares of
small integers are exact, so their ties are ties here too; means, as of NNM and Bucketing, are rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.rules import (
    ARC,
    CAF,
    CGE,
    CWM,
    CWTM,
    MDA,
    NNM,
    PTM,
    SMEA,
    Average,
    Bucketing,
    Bulyan,
    CenteredClipping,
    CenterwO,
    Clip,
    ClippedClustering,
    DnC,
    FLTrust,
    GeometricMedian,
    Huber,
    Krum,
    MeaMed,
    MeanExact,
    MeanwO,
    MedianwO,
    Medoid,
    MoNNA,
    MultiKrum,
    NearestTo,
    NormBoundedMean,
    OuterCenter,
    OuterMean,
    StreamCenterwO,
)
from holdfast.rules.base import Chain, Stage

Real = np.longdouble
Array = NDArray[np.longdouble]


def oracle(rule: Stage, X: Any, rng: np.random.Generator | None = None, start: Any = None) -> Array:
    """The answer of a rule to the rows of X."""
    X = np.asarray(X, Real)
    n = len(X)
    chosen = kept(rule, X)
    if chosen is not None:
        return mean(X[list(chosen)])
    match rule:
        case Chain(parts=(*stages, last)):
            for stage in stages:
                X = mixed(stage, X, rng)
            return oracle(last, X, rng, start)
        case Average():
            return mean(X)
        case CWM(lower=lower):
            return mean(np.sort(X, axis=0)[(n - 1) // 2 : (n - 1) // 2 + 1 if lower else n // 2 + 1])
        case CWTM(f=f):
            return mean(np.sort(X, axis=0)[f : n - f])
        case GeometricMedian(iterations=None):
            return geometric_median(X)
        case GeometricMedian(iterations=int(iterations), floor=floor, begin=begin):
            return weiszfeld(X, mean(X) if begin == "mean" else 0 * X[0], iterations, Real(floor))
        case CenteredClipping(tau=tau, iterations=iterations):
            v = np.zeros(X.shape[1], Real) if start is None else np.asarray(start, Real)
            return centered_clipping(X, v, Real(tau), iterations)
        case Huber(tau=tau):
            return huber(X, Real(tau))
        case FLTrust(pivot=pivot):
            return fltrust(X, np.asarray(start, Real) if pivot is None else X[pivot])
        case ClippedClustering(tau=tau):
            return clipped_clustering(X, Real(tau) if tau else Real(np.median([norm(x) for x in X])))
        case NormBoundedMean(tau=tau):
            return mean(clipped(X, Real(tau)))
        case MeaMed(f=f, lower=lower):
            return np.array([mea_med(column, n - f, lower=lower) for column in X.T], Real)
        case Bulyan(f=f, picks="means"):
            return mean(np.sort(bulyan_means(X, f), axis=0)[f : n - 3 * f - 2])
        case Bulyan(f=f, picks=picks):
            picked = bulyan_picks(X, f) if picks == "in turn" else multi_krum(X, n - f - 2, True, n - 2 * f)
            return np.array([mea_med(column, n - 4 * f) for column in X[list(picked)].T], Real)
        case CAF(f=f, over=over):
            return caf(X, f, over)
        case NearestTo(rule=inner):
            return mean(X[nearest(X, oracle(inner, X), n - rule.tolerance())])
        case PTM(f=f):
            return principal_trimmed_mean(X, f)
    raise TypeError(f"no oracle for {rule!r}")


def kept(rule: Stage, X: Any) -> tuple[int, ...] | None:
    """The rows, in order, whose mean is the answer; None for rules that select no rows."""
    X = np.asarray(X, Real)
    n = len(X)
    match rule:
        case CenterwO(f=f):
            return cluster(X, n - f, max)
        case MeanwO(f=f, refine=0):
            return cluster(X, n - f, total)
        case MeanwO(f=f, refine=starts):
            return refined(X, n - f, starts)
        case OuterCenter(f=f):
            return tuple(sorted(set(range(n)) - set(cluster(X, f, max))))
        case OuterMean(f=f):
            return tuple(sorted(set(range(n)) - set(cluster(X, f, total))))
        case Krum(f=f, others=others, squared=squared):
            return multi_krum(X, n - f - int(others[-1]), squared, 1)
        case MultiKrum(f=f, m=m, others=others, squared=squared):
            return multi_krum(X, n - f - int(others[-1]), squared, n - f if m is None else m)
        case Medoid():
            sums = [total(norm(x - y) for y in X) for x in X]
            return (int(np.argmin(sums)),)
        case CGE(f=f):
            return tuple(sorted(nearest(X, np.zeros(X.shape[1], Real), n - f)))
        case MedianwO(f=f):
            return cluster(X, n - f, lambda squares: total(np.sqrt(square) for square in squares))
        case MoNNA(f=f, pivot=pivot):
            return tuple(sorted(nearest(X, X[pivot], n - f)))
        case DnC(f=f, filter=c):
            return dnc(X, n - math.ceil(c * f))
        case MDA(f=f):
            return least(X, n - f, diameter)
        case SMEA(f=f):
            return least(X, n - f, largest_variance)
        case MeanExact(f=f):
            return least(X, n - f, spread)
        case StreamCenterwO(f=f):
            first = X[: 2 * f + 1]
            centre = min(range(len(first)), key=lambda i: ranked(first, first[i])[f])
            return tuple(sorted(nearest(X, X[centre], n - f)))
    return None


def taken(rule: Stage, X: Any, mass: Any, a: float) -> Array | None:
    """How much of each row counts in the mean that is the answer, if rows have masses of which a may be Byzantine."""
    X, mass = np.asarray(X, Real), np.asarray(mass, Real)
    W, n = mass.sum(), len(X)
    match rule:
        case MeanExact():
            return least_mass(X, mass, W - a)
        case Krum(others=others, squared=squared) | MultiKrum(others=others, squared=squared):
            aside = min(W / n, (W - 2 * a) / 3) if others == "n-f-2" else Real(0)
            scores = [score_by_mass(X, i, mass, W - a - aside, squared) for i in range(n)]
            best = sorted(range(n), key=lambda i: (scores[i], i))
            amount = W - a if getattr(rule, "m", None) is None else rule.m * W / n  # type: ignore[union-attr]
            return np.eye(n, dtype=Real)[best[0]] if isinstance(rule, Krum) else first_of(best, mass, amount)
    return None


def first_of(order: list[int], mass: Array, amount: Real) -> Array:
    """The masses of the rows in this order, up to an amount."""
    out = np.zeros(len(mass), Real)
    for i in order:
        out[i] = min(mass[i], amount - out.sum())
    return out


def score_by_mass(X: Array, i: int, mass: Array, amount: Real, squared: bool) -> Real:
    """The sum of squares, or distances, of the nearest rows to row i that hold an amount."""
    far = [square(x - X[i]) if squared else norm(x - X[i]) for x in X]
    part = first_of(sorted(range(len(X)), key=lambda j: (far[j], j)), mass, amount)
    return total(p * d for p, d in zip(part, far, strict=True))


def least_mass(X: Array, mass: Array, amount: Real) -> Array:
    """The parts of rows that hold an amount and have the least sum of squares: all whole but one, by trying all."""
    best, found = Real(np.inf), np.zeros(len(X), Real)
    for k in range(len(X)):
        for whole in combinations(range(len(X)), k):
            for last in sorted(set(range(len(X))) - set(whole)):
                part = np.zeros(len(X), Real)
                part[list(whole)] = mass[list(whole)]
                part[last] = amount - part.sum()
                if not 0 < part[last] <= mass[last]:
                    continue
                centre = (part[:, None] * X).sum(axis=0) / amount
                spent = total(p * square(x - centre) for p, x in zip(part, X, strict=True))
                if spent < best:
                    best, found = spent, part
    return found


def cost(rule: CenterwO | MeanwO, X: Any) -> Real:
    """CenterwO: the radius of its ball. MeanwO: the sum of squares of the kept rows around their mean."""
    X = np.asarray(X, Real)
    if isinstance(rule, MeanwO):
        return spread(X[list(kept(rule, X) or ())])
    return Real(min(ranked(X, x)[len(X) - rule.f - 1] for x in X))


def optimum(rule: CenterwO | MeanwO, X: Any) -> Real:
    """The least possible cost of n - f rows, by trying all: a sum of squares, or the radius of any ball.

    The least ball around k rows is the circumball of some of them, and around every centre the k-th nearest
    row tells a ball that holds k; so the best of all circumcentres is the optimum, without a tolerance.
    """
    X = np.asarray(X, Real)
    n, k = len(X), len(X) - rule.f
    if isinstance(rule, MeanwO):
        return min(spread(X[list(K)]) for K in combinations(range(n), k))
    sizes = range(1, min(k, X.shape[1] + 1) + 1)
    return min(ranked(X, circumcentre(X[list(S)]))[k - 1] for size in sizes for S in combinations(range(n), size))


def mixed(stage: Stage, X: Array, rng: np.random.Generator | None) -> Array:
    """The points that a first stage of a chain makes of the rows."""
    n = len(X)
    match stage:
        case NNM(f=f):  # y_i is the mean of the n - f nearest to x_i, itself included (Allouah et al. 2023a)
            return np.stack([mean(X[nearest(X, x, n - f)]) for x in X])
        case Bucketing(s=s):  # means of s at a time, in random order (Karimireddy et al. 2022)
            assert rng is not None
            order = rng.permutation(n)
            return np.stack([mean(X[order[i : i + s]]) for i in range(0, n, s)])
        case ARC(f=f):  # the ⌊2f(n-f)/n⌋ longest are shortened to the next norm (Allouah et al. 2025a)
            norms = sorted((norm(x) for x in X), reverse=True)
            return clipped(X, norms[2 * f * (n - f) // n])
        case Clip(tau=tau):
            return clipped(X, Real(tau))
    raise TypeError(f"no oracle for {stage!r}")


def mean(X: Array) -> Array:
    """(1/n) Σ x_i"""
    return np.asarray(X.sum(axis=0) / Real(len(X)))


def square(v: Array) -> Real:
    """|v|²"""
    return Real((v * v).sum())


def norm(v: Array) -> Real:
    """|v|, brought to size one by a power of two before it is squared."""
    exponent = np.frexp(np.abs(v).max(initial=0))[1]
    return Real(np.ldexp(np.sqrt(square(np.ldexp(v, -exponent))), exponent))


def total(values: Iterable[Real]) -> Real:
    """Σ, in the order given."""
    return sum(values, Real(0))


def spread(X: Array) -> Real:
    """Σ |x_i - x̄|²"""
    return total(square(x - mean(X)) for x in X)


def ranked(X: Array, y: Array) -> list[Real]:
    """The distances of all rows to y, in order."""
    return sorted(norm(x - y) for x in X)


def nearest(X: Array, y: Array, k: int) -> list[int]:
    """The k rows nearest to y; sorted() is stable, so ties go to the lowest index."""
    return sorted(range(len(X)), key=lambda i: square(X[i] - y))[:k]


def cluster(X: Array, k: int, measure: Callable[[list[Real]], Real]) -> tuple[int, ...]:
    """K(x_j), j = argmin_i of a measure of |x - x_i|² over the k nearest (Yi et al. 2024, Algorithms 2 and 4)."""
    if k == 0:
        return ()
    balls = [nearest(X, x, k) for x in X]
    j = min(range(len(X)), key=lambda i: measure([square(X[m] - X[i]) for m in balls[i]]))
    return tuple(sorted(balls[j]))


def multi_krum(X: Array, others: int, squared: bool, m: int) -> tuple[int, ...]:
    """The m rows of least sum of (squared) distances to their nearest others (Blanchard et al. 2017)."""
    length = square if squared else norm

    def score(i: int) -> Real:
        return total(sorted(length(X[j] - X[i]) for j in range(len(X)) if j != i)[:others])

    return tuple(sorted(sorted(range(len(X)), key=score)[:m]))


def refined(X: Array, k: int, starts: int) -> tuple[int, ...]:
    """From the neighbourhoods of the best centres: the k nearest to the mean, while their spread falls; the best."""
    order = sorted(range(len(X)), key=lambda i: total(square(X[j] - X[i]) for j in nearest(X, X[i], k)))
    found: list[list[int]] = []
    for i in order[:starts]:
        K = nearest(X, X[i], k)
        while spread(X[nearest(X, mean(X[K]), k)]) < spread(X[K]) * (1 - Real(1e-13)):
            K = nearest(X, mean(X[K]), k)
        found.append(K)
    return tuple(sorted(min(found, key=lambda K: spread(X[list(K)]))))


def least(X: Array, k: int, measure: Callable[[Array], Real]) -> tuple[int, ...]:
    """The k rows of least measure, by trying all."""
    return min(combinations(range(len(X)), k), key=lambda K: measure(X[list(K)]))


def diameter(X: Array) -> Real:
    """The largest distance within a set (El Mhamdi et al. 2018)."""
    return max((square(x - y) for x, y in combinations(X, 2)), default=Real(0))


def largest_variance(X: Array) -> Real:
    """The largest eigenvalue of the covariance (Allouah et al. 2023b)."""
    return principal(X, np.ones(len(X), Real))[0]


def principal(X: Array, c: Array) -> tuple[Real, Array]:
    """Largest eigenvalue of the weighted covariance, and every row's square along its direction."""
    Y = X - (c[:, None] * X).sum(axis=0) / c.sum()
    size = max(Real(np.abs(Y[c > 0]).max()), Real("1e-4000"))
    M = ((Y / size) * (c / c.sum())[:, None]).T @ (Y / size)
    values, vectors = np.linalg.eigh(M.astype(float))
    v = vectors[:, -1].astype(Real)
    return Real(values[-1]) * size**2, (Y @ v) ** 2


def dnc(X: Array, k: int) -> tuple[int, ...]:
    """The k rows of least square along the principal direction (Shejwalkar and Houmansadr 2021)."""
    along = principal(X, np.ones(len(X), Real))[1]
    return tuple(sorted(int(i) for i in np.argsort(along, kind="stable")[:k]))


def principal_trimmed_mean(X: Array, f: int) -> Array:
    """Far rows brought to 1,000 radii of the tightest ball, then the trimmed mean along each principal axis."""
    n = len(X)
    centre = min(range(n), key=lambda i: ranked(X, X[i])[n - f - 1])
    radius = ranked(X, X[centre])[n - f - 1]
    if radius == 0:
        return X[centre]
    limit = max(Real(1000), 2 * n * (2 + np.sqrt(Real(n)))) * radius
    away = np.array([norm(x - X[centre]) for x in X], Real)
    X = X[centre] + (X - X[centre]) * np.minimum(1, limit / np.maximum(away, limit))[:, None]
    Y = X - mean(X)
    axes = np.linalg.svd((Y / radius).astype(float))[2].astype(Real)
    axes = axes - (axes @ axes.T - np.eye(len(axes))) @ axes / 2  # one step of Newton towards right angles
    return np.asarray(mean(X) + np.array([mean(np.sort(Y @ u)[f : n - f, None])[0] for u in axes], Real) @ axes, Real)


def caf(X: Array, f: int, over: str) -> Array:
    """The weighted mean of least covariance along the path of the filter (Allouah et al. 2025b), of 1,000 steps."""
    n = len(X)
    c = np.ones(n, Real)
    best, answer, steps = None, mean(X), 0
    while (c.sum() > n - 2 * f or best is None) and steps < 1000:
        steps += 1
        top, along = principal(X, c)
        if best is None or top < best:
            best, answer = top, (c[:, None] * X).sum(axis=0) / c.sum()
        highest = along[c > 0].max() if over == "kept" else along.max()
        if highest <= 0 or f == 0:
            break
        c = np.where(c > 0, c * (1 - along / highest), 0)
    return np.asarray(answer, Real)


def mea_med(column: Array, k: int, lower: bool = False) -> Real:
    """Mean of the k values nearest to the median, the lower of two at the same distance (Xie et al. 2018)."""
    ordered = np.sort(column)
    n = len(ordered)
    middle = ordered[(n - 1) // 2] if lower else (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    near = sorted(range(n), key=lambda i: (abs(ordered[i] - middle), ordered[i]))[:k]
    return Real(mean(ordered[sorted(near)][:, None])[0])


def bulyan_picks(X: Array, f: int) -> list[int]:
    """Krum's choice n - 2f times, each among those that are left (El Mhamdi et al. 2018)."""
    pool = list(range(len(X)))
    picked: list[int] = []
    while len(picked) < len(X) - 2 * f:
        (best,) = multi_krum(X[pool], max(1, len(pool) - f - 2), True, 1)
        picked.append(pool.pop(best))
    return picked


def bulyan_means(X: Array, f: int) -> Array:
    """Bulyan over Multi-Krum: means of the best of a pool; the one of them nearest to the mean leaves the pool."""
    pool = list(range(len(X)))
    means: list[Array] = []
    while len(means) < len(X) - 2 * f - 2:
        most = len(pool) - f - 2
        best = multi_krum(X[pool], most, True, most)
        means.append(mean(X[pool][list(best)]))
        pool.pop(min(best, key=lambda i: square(X[pool[i]] - means[-1])))
    return np.stack(means)


def clipped(X: Array, tau: Real) -> Array:
    """x_i min(1, τ/|x_i|)"""
    return np.stack([x if norm(x) <= tau else x * (tau / norm(x)) for x in X])


def centered_clipping(X: Array, v: Array, tau: Real, iterations: int) -> Array:
    """v <- v + (1/n) Σ (x_i - v) min(1, τ/|x_i - v|), so many times (Karimireddy et al. 2021)."""
    for _ in range(iterations):
        v = v + mean(clipped(X - v, tau))
    return v


def huber(X: Array, tau: Real) -> Array:
    """Where Σ (x_i - y) min(1, τ/|x_i - y|) is zero, by Newton steps on it (Zhao et al. 2024)."""
    y = np.asarray(np.median(X, axis=0))
    d = X.shape[1]
    for _ in range(2000):
        r = np.maximum([norm(x - y) for x in X], Real("1e-4000"))
        w = np.minimum(Real(1), tau / r)
        U = (X - y) / r[:, None] * np.sqrt(np.where(r > tau, w, 0))[:, None]
        p = w @ (X - y)
        step = np.linalg.lstsq((w.sum() * np.eye(d) - U.T @ U).astype(float), p.astype(float), rcond=1e-12)[0]
        plain = np.asarray(p / w.sum())  # the step of Weiszfeld never makes the loss larger
        y, before = min((y + step.astype(Real), y + plain), key=lambda z: huber_loss(X, z, tau)), y
        if norm(y - before) <= Real(1e-17) * max(tau, Real(np.median(r))):
            break
    return y


def huber_loss(X: Array, y: Array, tau: Real) -> Real:
    """Σ φ(|x_i - y|): the half square up to τ, then a line."""
    lengths = [norm(x - y) for x in X]
    return total(r * r / 2 if r <= tau else tau * r - tau * tau / 2 for r in lengths)


def fltrust(X: Array, g: Array) -> Array:
    """Σ s_i x_i |g|/|x_i| / Σ s_i, s_i = max(0, cos(x_i, g)) (Cao et al. 2021)."""
    units = np.stack([x / norm(x) if norm(x) > 0 else x for x in X])
    s = np.maximum(Real(0), units @ (g / norm(g)))
    return np.asarray(norm(g) * (s @ units) / s.sum() if s.any() else 0 * g)


def clipped_clustering(X: Array, tau: Real) -> Array:
    """Mean of the larger of two clusters of directions, of vectors clipped to τ (Li et al. 2024)."""
    units = np.stack([x / norm(x) if norm(x) > 0 else x for x in X])
    groups = [[i] for i in range(len(X))]
    while len(groups) > 2:
        pairs = combinations(range(len(groups)), 2)
        a, b = min(
            pairs,
            key=lambda p: (
                total(1 - units[i] @ units[j] for i in groups[p[0]] for j in groups[p[1]])
                / (len(groups[p[0]]) * len(groups[p[1]]))
            ),
        )
        groups[a] += groups.pop(b)
    return mean(clipped(X, tau)[max(groups, key=lambda g: (len(g), -min(g)))])


def weiszfeld(X: Array, y: Array, iterations: int, floor: Real) -> Array:
    """y <- Σ w_i x_i / Σ w_i, w_i = 1/max(|x_i - y|, floor), from a start y; distance 0 takes all the weight."""
    for _ in range(iterations):
        r = np.array([max(norm(x - y), floor) for x in X])
        w = (r == 0).astype(Real) if (r == 0).any() else r.min() / r
        y = np.asarray((w / w.sum()) @ X)
    return y


def geometric_median(X: Array) -> Array:
    """argmin_y Σ |x_i - y| (Pillutla et al. 2022), to about 1e-15 of the median radius.

    A row is the answer where the unit pulls of the others on it sum to no more than the number of its copies.
    Else Newton's method on Σ √(|x_i - y|² + ε²) for ever smaller ε, in units of the median distance to the
    coordinate-wise median, which no minority moves. Only pulls are compared, never sums of distances, in which
    a far row would hide the near ones.
    """
    for x in X:
        lengths = np.array([norm(v) for v in X - x])
        others = lengths > 0
        pull = ((X - x)[others] / lengths[others, None]).sum(axis=0)
        if norm(pull) <= (~others).sum() * (1 + Real(1e-17)):
            return np.asarray(x)
    centre = np.asarray(np.median(X, axis=0))
    radius = ranked(X, centre)[len(X) // 2]
    Z, y = (X - centre) / radius, np.zeros_like(centre)
    for digits in range(0, 26, 2):  # the last ε moves a median that all but sits on a row by 1e-16
        y = newton(Z, y, Real(10) ** -digits)
    return np.asarray(centre + radius * y)


def newton(Z: Array, y: Array, epsilon: Real) -> Array:
    """argmin_y Σ √(|z_i - y|² + ε²) by damped Newton steps; pulls in long double, steps solved in double."""

    def pulls(y: Array) -> tuple[Array, Array]:
        s: Array = np.sqrt(np.array([square(z - y) for z in Z], Real) + epsilon**2)
        return np.asarray((Z - y) / s[:, None], Real), s

    for _ in range(500):
        U, s = pulls(y)
        hessian = np.eye(len(y)) * (1 / s).sum() - (U / s[:, None]).T @ U
        p = np.linalg.lstsq(np.asarray(hessian, float), np.asarray(U.sum(axis=0), float), rcond=1e-30)[0].astype(Real)
        if norm(p) <= 1e-16:
            return np.asarray(y + p)
        slope = U.sum(axis=0) @ p  # the sum is convex: along p its pull falls, and is not to turn round
        while pulls(y + p)[0].sum(axis=0) @ p < -slope / 2 and norm(p) > 1e-16:
            p, slope = p / 2, slope / 2
        y = y + p
    raise ArithmeticError(f"the geometric median was not found; the last step was {norm(p)} of the radius")


def circumcentre(P: Array) -> Array:
    """The point as far from all of P, in their affine hull: 2 (p_i - p_0)·(c - p_0) = |p_i - p_0|²."""
    A = P[1:] - P[0]
    size = np.abs(A).max(initial=0)
    if size == 0:
        return np.asarray(P[0])
    A = A / size
    c = np.zeros_like(P[0])
    for _ in range(3):  # solved in double, refined in long double
        rest = (A * A).sum(axis=1) / 2 - A @ c
        c = c + np.linalg.lstsq(np.asarray(A, float), np.asarray(rest, float), rcond=None)[0]
    return np.asarray(P[0] + size * c)
