"""What a rule decides: weights that sum to one, and what they were chosen by."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from holdfast.errors import BrokenRule, article

Weights = np.ndarray
ROUNDING, LARGE = 1e-6, 1e-12  # how far from one a sum of weights may be, and for each unit of their sizes


@dataclass(frozen=True, eq=False)
class Choice:
    """Weights with the cost that they were chosen by and a lower bound on the optimal cost.

    `power` says in which power of a length the cost is: 1 for a radius, 2 for a sum of squares. `ball` is the cluster
    that was found: the position of the point at its centre, and its radius.
    """

    weights: Weights
    cost: float | None = None
    bound: float | None = None
    power: int = 2
    ball: tuple[int, float] | None = None

    def unscaled(self, scale: float) -> Choice:
        """The same choice with lengths in the units of the vectors, which were multiplied by the scale."""
        cost, bound = (None if x is None else float(unscaled(x, scale, self.power)) for x in (self.cost, self.bound))
        ball = None if self.ball is None else (self.ball[0], float(unscaled(self.ball[1], scale, 1)))
        return replace(self, cost=cost, bound=bound, ball=ball)


def unscaled(measured: np.ndarray | float, scale: float, power: int) -> np.ndarray:
    """Lengths to this power, back in the units of the vectors; what has no room there becomes inf or 0."""
    out = np.array(measured)
    if scale != 1.0:
        with np.errstate(over="ignore", under="ignore"):
            for _ in range(power):
                out = np.asarray(out / scale)
    return out


def checked_weights(who: object, weights: object, shape: tuple[int, ...]) -> np.ndarray:
    """The weights as float64; raises BrokenRule unless they have the shape, are finite, and each row sums to one."""
    wanted = f"the contract asks for real numbers of shape {shape}."
    if weights is None:
        raise BrokenRule(f"{who!r} answered with None; {wanted}")
    try:
        given = np.asarray(weights)
    except Exception:  # lists of lists of different lengths, tensors that require grad
        raise BrokenRule(
            f"{who!r} answered with {article(type(weights).__name__)} that is no array; {wanted}"
        ) from None
    if given.shape != shape or given.dtype.kind not in "fiu":
        raise BrokenRule(f"{who!r} answered with weights of shape {given.shape} and type {given.dtype}; {wanted}")
    if not np.isfinite(given).all():
        raise BrokenRule(f"{who!r} answered with weights that are not finite; the contract asks for finite ones.")
    given = given.astype(float, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):  # large weights of both signs
        sums, sizes = given.sum(axis=-1), np.abs(given).sum(axis=-1)
        right = np.isfinite(sums) & (np.abs(sums - 1) <= ROUNDING + LARGE * sizes)
    if not right.all():
        wrong = float(np.atleast_1d(sums)[np.flatnonzero(~right)[0]])
        raise BrokenRule(f"{who!r} answered with weights that sum to {wrong:.6g}; the contract asks for a sum of 1.")
    return given
