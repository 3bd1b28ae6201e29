"""How much each worker counts: masses that the server vouches for, and a cap that keeps any f workers below a share.

A mass can be a sample count that the server knows, trust, or freshness. A count that a worker declares itself is an
attack, unless a cap bounds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any

import numpy as np

from holdfast.arrays import is_array
from holdfast.checks import check_whole
from holdfast.errors import BadInput, article
from holdfast.jsonable import finite_or_none
from holdfast.places import fetch

__all__ = ["Masses", "cap"]

FINE = 2.0**40  # the sum of masses that had no small common unit
SMALL = 2.0**29  # a sum of masses that fits 32 bits when it is doubled
DENOMINATORS = 64  # by which ratios of weights are multiplied in search of whole numbers


@dataclass(frozen=True, eq=False)
class Masses:
    """How much each worker counts, before and after a cap; pass it as `weights=`.

    Parameters
    ----------
    weights : numpy.ndarray
        The weights that count, one for each worker.
    given : numpy.ndarray
        The weights before a cap.
    limit : float
        No weight is larger. Infinite: nobody was capped.

    Examples
    --------
    >>> from holdfast import cap
    >>> cap([100, 120, 90, 110, 9000], f=1, share=0.4).capped
    (4,)
    """

    weights: np.ndarray
    given: np.ndarray
    limit: float = np.inf

    @property
    def capped(self) -> tuple[int, ...]:
        """The workers whose weight was lowered."""
        return tuple(map(int, np.flatnonzero(self.weights < self.given)))

    def share_of(self, f: int) -> float:
        """Return the largest part of the total that any f workers hold.

        Parameters
        ----------
        f : int
            How many workers.

        Returns
        -------
        float
            Their part, after the cap.
        """
        scaled = self.weights / self.weights.max()
        return heaviest(scaled, f) / float(scaled.sum())


def name_masses(masses: Masses | None, names: Sequence[str]) -> dict[str, dict[str, float | None]]:
    """How much each worker counts, and what the capped ones declared, by name; nothing if all count alike.

    >>> name_masses(cap([1, 1, 1, 1, 9], f=1, share=0.4), "abcde")["capped"]
    {'e': 9.0}
    """
    if masses is None:
        return {}
    capped = {names[i]: finite_or_none(float(masses.given[i])) for i in masses.capped}
    return {"masses": dict(zip(names, masses.weights.tolist(), strict=True)), "capped": capped}


def read_masses(given: object, n: int, who: str) -> Masses:
    """What was passed as `weights=`, checked."""
    if not isinstance(given, Masses):
        weights = check_weights(given, n, who)
        return Masses(weights, weights)
    check_weights(given.weights, n, who)
    return given


def check_weights(given: object, n: int | None, who: str, *, infinite: bool = False) -> np.ndarray:
    """The weights of n workers as float64: none negative, not all zero, and finite unless said; else BadInput."""
    wanted = "give one finite number for each worker, at least 0"
    try:
        numbers = fetch(given) if is_array(given) else np.array([_number(one) for one in _listed(given)])
        weights = np.array(numbers, float) if numbers.dtype.kind in "fiu" else None
    except (TypeError, ValueError):
        weights = None
    if weights is None or weights.ndim != 1:
        raise BadInput(f"{who} was given weights that are {article(type(given).__name__)}; {wanted}.")
    if n is not None and len(weights) != n:
        raise BadInput(f"{who} was given {len(weights)} weights for {n} updates; {wanted}.")
    wrong = np.flatnonzero(~((np.isfinite(weights) | infinite) & (weights >= 0)))
    if len(wrong):
        at = int(wrong[0])
        raise BadInput(f"{who} was given the weight {weights[at]:g} for worker {at}; {wanted}.")
    if not weights.any():
        raise BadInput(f"{who} was given weights that are all 0; {wanted}, and above 0 for some.")
    return weights


def _listed(given: object) -> Iterable[object]:
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise TypeError
    return given


def _number(given: Any) -> float:
    """A number as a float; one that is too large for a float is infinite."""
    if isinstance(given, bool | str):
        raise TypeError
    try:
        return float(given)
    except OverflowError:
        return np.inf


def whole_masses(weights: np.ndarray) -> np.ndarray | None:
    """Weights as whole numbers in their proportions, so that sums are exact; None if all are equal.

    Rounding would otherwise leave a sliver of weight on a value that should have none, and that value may be huge.
    Weights without a small common unit, or of a larger sum, are rounded to a part 2^-40 of their sum, and up to it.

    >>> whole_masses(np.array([0.1, 0.3, 0.25]))
    array([2., 6., 5.])
    """
    if (weights == weights[0]).all():
        return None
    return _whole_masses(weights.tobytes()).copy()


@np.errstate(all="ignore")  # ratios of the largest and the smallest floats
@lru_cache(maxsize=8)  # a round asks more than once, and rounds ask with the same counts
def _whole_masses(of: bytes) -> np.ndarray:
    weights = np.frombuffer(of)
    if weights.sum() < 2**52 and (weights == np.round(weights)).all():
        return np.asarray(weights / np.gcd.reduce(weights.astype(np.int64)))
    ratios = weights / weights.min()
    if ratios.sum() * DENOMINATORS < FINE:
        multiples = np.outer(np.arange(1, DENOMINATORS + 1), ratios)
        whole = np.round(multiples)
        fits = (np.abs(multiples - whole) <= 1e-9 * whole).all(axis=1)
        if fits.any():
            return np.asarray(whole[fits.argmax()])
    return rounded_masses(weights, FINE)


def rounded_masses(mass: np.ndarray, total: float) -> np.ndarray:
    """Whole numbers of about this sum in the same proportions; none is zero, and none above the mean grows."""
    shares = mass / mass.max()
    whole = shares * (total / shares.sum())
    return np.asarray(np.where(whole > whole.mean(), np.floor(whole), np.maximum(1.0, np.ceil(whole))))


def heaviest(mass: np.ndarray, f: int) -> float:
    """The largest mass that f workers hold together.

    >>> heaviest(np.array([1.0, 3.0, 2.0]), 2)
    5.0
    """
    return float(np.sort(mass)[::-1][:f].sum())


def nearest_mass(squares: np.ndarray, mass: np.ndarray, amount: float) -> np.ndarray:
    """(r, n) squared distances -> (r, n): how much of each point's mass is among the nearest, the last one in part.

    >>> nearest_mass(np.array([[0.0, 1.0, 4.0]]), np.array([1.0, 2.0, 3.0]), 4.0)
    array([[1., 2., 1.]])
    """
    order = np.argsort(squares, axis=1, kind="stable")
    ordered = mass[order]
    before = np.cumsum(ordered, axis=1) - ordered
    taken = np.zeros(squares.shape)
    np.put_along_axis(taken, order, np.clip(amount - before, 0.0, ordered), axis=1)
    return taken


def middles(values: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """(r, n) -> (r,): in each row the smallest value up to which more than half of the mass lies.

    >>> middles(np.array([[0.0, 5.0, 1.0, 2.0]]), np.ones(4))
    array([2.])
    """
    order = np.argsort(values, axis=1, kind="stable")
    reached = np.cumsum(mass[order], axis=1) > mass.sum() / 2
    at = np.take_along_axis(order, reached.argmax(axis=1)[:, None], axis=1)
    return np.asarray(np.take_along_axis(values, at, axis=1)[:, 0])


def median_of(values: np.ndarray, mass: np.ndarray) -> float:
    """The median of values that count so much: the mean of both middle ones where half of the mass is on either side.

    >>> median_of(np.array([3.0, 0.0, 1.0, 9.0]), np.ones(4))
    2.0
    """
    order = np.argsort(values, kind="stable")
    upto, half = np.cumsum(mass[order]), mass.sum() / 2
    low, high = (upto >= half).argmax(), (upto > half).argmax()
    return float((values[order[low]] + values[order[high]]) / 2)


def farthest_taken(squares: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """The largest squared distance of each row at which some mass was taken."""
    return np.asarray(np.where(taken > 0, squares, -np.inf).max(axis=1))


def cap(weights: Sequence[float] | np.ndarray | Masses, f: int, share: float | None = None) -> Masses:
    """Lower the largest weights, so that no f workers hold more than a share of the total.

    Parameters
    ----------
    weights : sequence of float
        One number for each worker, at least 0, such as sample counts.
    f : int
        How many workers may be Byzantine.
    share : float, optional
        The largest part of the total that any f workers may hold, below 1/2. Without it, the smaller of 2f/n and the
        middle between f/n and 1/2: twice what f workers hold when all are alike, and never near a half.

    Returns
    -------
    Masses
        The new weights, the limit, and who was capped.

    Raises
    ------
    BadInput
        If no limit can do it: even with equal weights f of n workers hold f/n.

    Notes
    -----
    The limit U is the largest for which the f heaviest of min(w_i, U) hold at most `share` of their sum. A worker that
    declares 10^9 samples then counts as much as U, whatever it declares.

    Examples
    --------
    >>> from holdfast import cap
    >>> cap([100, 120, 90, 110, 9000], f=1, share=0.4).limit
    280.0
    """
    f = check_whole(f, "f", least=0, who="cap")
    declared = weights.weights if isinstance(weights, Masses) else weights
    given = check_weights(declared, None, "cap", infinite=True)
    n = int((given > 0).sum())
    if share is None:
        share = min(2 * f / n, (f / n + 0.5) / 2) if n else 0.5
    if not (isinstance(share, Real) and f / n <= share < 0.5):
        raise BadInput(
            f"cap was given share = {share} for f = {f} of {n} workers; "
            f"it must be below 1/2 and at least f/n = {f / n:.3g}."
        )
    most = float(given[np.isfinite(given)].max(initial=0.0)) or 1.0
    scaled = np.minimum(given / most, 10.0 * n)  # so that sums are finite; what was infinite is large
    if f == 0 or heaviest(scaled, f) <= share * scaled.sum():
        return Masses(np.minimum(given, most), given)
    limit = _limit(scaled, f, float(share)) * most
    return Masses(np.minimum(given, limit), given, limit)


def _limit(given: np.ndarray, f: int, share: float) -> float:
    """The largest U for which the f heaviest of min(w, U) hold the share.

    With k workers above U, the f heaviest hold min(k, f) U + the next ones, and all hold kU + the rest; U is where the
    first is the share of the second, if that is between the k-th weight and the next.
    """
    w = np.sort(given)[::-1]
    for k in range(1, len(w) + 1):
        rest, next_ones = float(w[k:].sum()), float(w[k:f].sum())
        slope, room = min(k, f) - share * k, share * rest - next_ones
        limit = room / slope if slope > 0 else float(w[k - 1])
        if (float(w[k]) if k < len(w) else 0.0) <= limit:
            return min(limit, float(w[k - 1]))
    return float(w[w > 0].min())
