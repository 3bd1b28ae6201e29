"""What a rule decides: weights that sum to one, and what they were chosen by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.errors import BrokenRule

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


def check_sums(who: str, weights: object, shape: tuple[int, ...]) -> np.ndarray:
    """The weights as an array; refuses those that break the contract: each row is finite and sums to one."""
    given = np.asarray(weights)
    if given.shape != shape or given.dtype.kind not in "fiu":
        what = f"weights of shape {given.shape} and type {given.dtype}"
        raise BrokenRule(f"{who} answered with {what}; the contract asks for real numbers of shape {shape}.")
    given = given.astype(np.float64, copy=False)
    sums = given.sum(axis=-1)
    if not np.isfinite(sums).all() or not np.isfinite(given).all():
        raise BrokenRule(f"{who} answered with weights that are not finite; the contract asks for finite ones.")
    if (np.abs(sums - 1) > ROUNDING + LARGE * np.abs(given).sum(axis=-1)).any():
        wrong = float(np.asarray(sums).flat[np.abs(np.asarray(sums) - 1).argmax()])
        raise BrokenRule(f"{who} answered with weights that sum to {wrong:.6g}; the contract asks for a sum of 1.")
    return given
