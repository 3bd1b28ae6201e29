r"""The field's four criteria of robustness as measured ratios.

With S any n - f of the n vectors, :math:`\bar x_S` their mean and F the rule's answer, a rule has

- λ (resilient averaging): :math:`\lVert F - \bar x_S \rVert \le \lambda \max_{i,j \in S} \lVert x_i - x_j \rVert`,
- κ (robustness): :math:`\lVert F - \bar x_S \rVert^2 \le \kappa \, \sigma_S^2`, the mean square around the mean,
- ξ (robust averaging): :math:`\lVert F - \bar x_S \rVert^2 \le \xi \, \lambda_{max}(M_S)`, the variance along the
  worst line,
- ζ (agnostic robust aggregator): :math:`E \lVert F - \bar x_S \rVert^2 \le \zeta \tfrac{f}{n} \rho^2` with
  :math:`E \lVert x_i - x_j \rVert^2 \le \rho^2` in S. An expectation: no single round has a ζ.

If workers count differently, S is any set whose complement holds at most as much as the f heaviest, and means and
variances are weighted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import comb, inf
from typing import Any

import numpy as np

from holdfast.checks import check_whole
from holdfast.errors import BadInput
from holdfast.masses import heaviest

__all__ = ["Worst", "ratios", "worst"]

CRITERIA = {"lambda": "λ", "kappa": "κ", "xi": "ξ", "zeta": "ζ"}
MAX_SETS = 100_000  # sets S that are looked at one by one; beyond, a search
WORKERS = 10_000_000  # for which constants are told
HELD = 1 << 20  # numbers that are held at once
SAME = 64 * np.finfo(float).eps  # of the largest number: differences below are rounding
UNITS = {"n": "workers", "f": "liars", "d": "coordinates", "budget": "rounds", "trials": "rounds"}
Array = np.ndarray


@dataclass(frozen=True)
class Worst:
    """The largest ratio over all sets S that could be honest.

    Parameters
    ----------
    value : float
        The ratio.
    honest : tuple of int
        The set S for which it is reached.
    how : str
        "exact", or "at least" if a search found it.

    Examples
    --------
    >>> from holdfast.guarantees.criteria import worst
    >>> worst("kappa", [0.5], [[0.0], [1.0], [9.0]], 1).honest
    (1, 2)
    """

    value: float
    honest: tuple[int, ...]
    how: str


def ratios(criterion: str, F: Array, X: Array, masks: Array) -> Array:
    """Return the ratio of each set S.

    Parameters
    ----------
    criterion : str
        "lambda", "kappa" or "xi".
    F : numpy.ndarray of shape (d,)
        The rule's answer.
    X : numpy.ndarray of shape (n, d)
        The vectors.
    masks : numpy.ndarray
        One row for each set S: 1 for its members, or how much each of them counts, and 0 for the others.

    Returns
    -------
    numpy.ndarray
        One ratio for each set: 0 where F is its mean, inf where only its spread is zero.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.guarantees.criteria import ratios
    >>> X = np.array([[0.0], [1.0], [2.0], [9.0]])
    >>> ratios("kappa", np.array([1.0]), X, np.array([[1, 1, 1, 0], [0, 1, 1, 1]])).round(3)
    array([0.   , 0.711])
    """
    parts = masks / masks.sum(axis=1, keepdims=True)
    far = np.abs(X - F).max(initial=0.0)
    unit = float(np.ldexp(1.0, int(np.frexp(far)[1]))) if 0 < far < inf else 1.0
    E = (X - F) / unit  # squares must have room
    same = (SAME * max(float(np.abs(X / unit).max(initial=0.0)), float(np.abs(F / unit).max(initial=0.0)))) ** 2
    errors = np.square(parts @ E).sum(axis=1)
    spread = SPREADS[criterion](E, parts)
    out = np.full(len(masks), inf)
    np.divide(errors, spread, out=out, where=spread > same)
    out[errors <= same * E.shape[1]] = 0.0
    return np.sqrt(out) if criterion == "lambda" else out


def _squares(E: Array) -> Array:
    return np.square(E[:, None] - E).sum(axis=2)


def _diameters(E: Array, parts: Array) -> Array:
    D = _squares(E)
    members = _pieces(parts > 0, D.size)
    return np.concatenate([(m[:, :, None] * m[:, None, :] * D).max(axis=(1, 2)) for m in members])


def _pieces(rows: Array, each: int) -> list[Array]:
    """The sets in pieces, each small enough if every set makes `each` numbers."""
    return np.array_split(rows, max(1, -(-len(rows) * each // HELD)))


def _variances(E: Array, parts: Array) -> Array:
    return np.asarray(np.einsum("bi,bi->b", parts @ _squares(E), parts)) / 2  # nothing cancels


def _largest(E: Array, parts: Array) -> Array:
    out = []
    for piece in _pieces(parts, E.size):
        rows = (E - (piece @ E)[:, None]) * np.sqrt(piece)[:, :, None]
        small = rows.swapaxes(1, 2) @ rows if E.shape[1] <= E.shape[0] else rows @ rows.swapaxes(1, 2)
        out.append(np.linalg.eigvalsh(small)[:, -1])
    return np.maximum(np.concatenate(out), 0.0)


SPREADS: dict[str, Callable[[Array, Array], Array]] = {
    "lambda": _diameters,
    "kappa": _variances,
    "xi": _largest,
}


@lru_cache(maxsize=32)
def subsets(n: int, f: int) -> Array:
    """All sets of n - f of n, a row of 0 and 1 each."""
    masks = np.zeros((comb(n, f), n))
    for mask, out in zip(masks, itertools.combinations(range(n), f), strict=True):
        mask[:] = 1.0
        mask[list(out)] = 0.0
    return masks


@lru_cache(maxsize=32)
def weighted_subsets(weights: tuple[float, ...], f: int) -> Array:
    """All sets whose complement holds at most what the f heaviest do: a row each, of how much each member counts."""
    mass = np.array(weights)
    out = (np.arange(1, 2 ** len(mass))[:, None] >> np.arange(len(mass)) & 1) == 0
    room = heaviest(mass, f) * (1 + 1e-12)
    return np.asarray(np.where(out, 0.0, mass)[out @ mass <= room])


def worst(criterion: str, F: Any, X: Any, f: int, most: int = MAX_SETS) -> Worst:
    """Return the largest ratio over every S that could be honest.

    Parameters
    ----------
    criterion : str
        "lambda", "kappa" or "xi". ζ is a mean over rounds; no single round has one.
    F : array of shape (d,)
        The rule's answer.
    X : array of shape (n, d)
        The vectors.
    f : int
        How many may be Byzantine.
    most : int
        Up to how many sets are looked at one by one. Of more, the largest that a climb finds is returned.

    Returns
    -------
    Worst
        The ratio and its set.

    Raises
    ------
    BadInput
        If the criterion is unknown, or is not defined for n and f.

    Examples
    --------
    >>> from holdfast.guarantees.criteria import worst
    >>> worst("kappa", [0.5], [[0.0], [1.0], [9.0]], 1).how
    'exact'
    """
    if criterion not in SPREADS:
        raise BadInput(f"{criterion!r} was given; the criteria of one round are {', '.join(SPREADS)} (ζ is a mean).")
    X, F = np.atleast_2d(np.asarray(X, float)), np.asarray(F, float).reshape(-1)
    check(len(X), f)
    if comb(len(X), f) <= most:
        masks = subsets(len(X), f)
        measured = ratios(criterion, F, X, masks)
        return Worst(float(measured.max()), _set(masks[int(measured.argmax())]), "exact")
    E = X - F
    if E.shape[1] > len(X):
        E = np.linalg.qr(E.T)[1].T  # the same inner products, in n coordinates
    best = max((_climb(criterion, E, mask) for mask in _starts(E, f)), key=lambda one: one[0])
    return Worst(best[0], _set(best[1]), "at least")


def check(n: int, f: int) -> None:
    """Refuse counts of workers for which no criterion is defined."""
    check_size("n", n, 1)
    check_size("f", f, 0)
    if n > WORKERS:
        raise BadInput(f"n = {n} was given; constants are told for up to {WORKERS:,} workers.")
    if f >= n / 2:
        raise BadInput(f"n = {n} and f = {f} were given; at most {max(0, (n - 1) // 2)} of {n} may lie, f < n/2.")


def check_size(name: str, given: object, least: int) -> None:
    """Refuse a size that is no whole number, or too small."""
    check_whole(given, name, least=least, unit=UNITS.get(name, ""))


def _set(mask: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in np.flatnonzero(mask))


def _starts(E: Array, f: int) -> Iterator[Array]:
    """Sets that lie to one side of the answer: the n - f farthest along each row's direction, and along their sum's."""
    for e in E:
        for _ in range(4):
            mask = np.zeros(len(E))
            mask[np.argsort(-(E @ e), kind="stable")[: len(E) - f]] = 1.0
            e = mask @ E
        yield mask


def _climb(criterion: str, E: Array, mask: Array) -> tuple[float, Array]:
    """Exchange one member for one other while the ratio grows."""
    zero, value = np.zeros(E.shape[1]), -1.0
    while True:
        swaps = np.array(
            [mask + _swap(len(mask), i, o) for i in np.flatnonzero(mask) for o in np.flatnonzero(mask == 0)]
        )
        measured = ratios(criterion, zero, E, np.concatenate([mask[None], swaps]))
        if measured.max() <= max(value, measured[0]) * (1 + 1e-12):
            return float(measured[0]), mask
        value, mask = float(measured.max()), np.concatenate([mask[None], swaps])[int(measured.argmax())]


def _swap(n: int, leaves: Any, enters: Any) -> Array:
    change = np.zeros(n)
    change[leaves], change[enters] = -1.0, 1.0
    return change


@dataclass(frozen=True)
class Expected:
    """A measured ζ.

    Parameters
    ----------
    value : float
        The ratio.
    error : float
        Its standard error.
    rho2 : float
        ρ², the largest mean squared distance of two honest vectors.
    trials : int
        How many rounds were drawn.

    Examples
    --------
    >>> from holdfast.guarantees.criteria import Expected
    >>> Expected(value=1.5, error=0.1, rho2=2.0, trials=100).value
    1.5
    """

    value: float
    error: float
    rho2: float
    trials: int


def aragg(rule: Any, draw: Callable[[np.random.Generator], Array], f: int, trials: int, rng: Any) -> Expected:
    """Measure ζ over a distribution of rounds.

    Parameters
    ----------
    rule : callable
        The rule.
    draw : callable
        `draw(rng)` returns n rows, the honest n - f first, always the same workers.
    f : int
        How many are Byzantine.
    trials : int
        How many rounds are drawn, at least 2.
    rng : numpy.random.Generator
        What `draw` is called with.

    Returns
    -------
    Expected
        The ratio and its standard error.

    Notes
    -----
    An answer that differs from the honest mean by rounding alone is that mean, as in `ratios`.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import CWTM
    >>> from holdfast.guarantees.criteria import aragg
    >>> aragg(CWTM(f=1), lambda rng: rng.standard_normal((5, 2)), 1, 50, np.random.default_rng(0)).trials
    50
    """
    check_size("trials", trials, 2)
    check_size("f", f, 0)
    errors, pairs, n = np.zeros(trials), np.zeros(()), 0
    for t in range(trials):
        X = np.atleast_2d(np.asarray(draw(rng), float))
        n, honest = len(X), X[: len(X) - f]
        check(n, f)
        F = rule(X)
        off, size = np.abs(F - honest.mean(axis=0)), max(np.abs(honest).max(initial=0.0), np.abs(F).max(initial=0.0))
        errors[t] = np.square(off).sum() if off.max(initial=0.0) > SAME * size else 0.0
        pairs = pairs + _squares(honest) / trials
    rho2 = float(np.max(pairs))
    scale = f / n * rho2
    if scale == 0:
        return Expected(0.0 if not errors.any() else inf, 0.0, rho2, trials)
    return Expected(float(errors.mean() / scale), float(errors.std(ddof=1) / trials**0.5 / scale), rho2, trials)
