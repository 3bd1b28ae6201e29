"""Moves of a round: one point, or all points at one place, go somewhere else; some moves make the round worse."""

from __future__ import annotations

import numpy as np

Array = np.ndarray
Rng = np.random.Generator
MAX_LENGTH = 64.0  # of a number in a round; larger rounds are scaled down
RESOLUTION = 2.0**-20  # numbers are multiples of it, so that no ratio is rounding alone
MIN_STEP = 1e-4  # the finest step of a move, in sizes of the round
TOGETHER = 0.4  # how often all points at one place move as one
NEW_PLACES = ("onto", "midpoint", "reflect", "shift", "along", "coordinate", "anywhere")
MOVES = (*NEW_PLACES, "swap", "stretch")


def moved(X: Array, rng: Rng) -> Array:
    """Return the round after one random move.

    Parameters
    ----------
    X : numpy.ndarray of shape (n, d)
        The round; it is not changed.
    rng : numpy.random.Generator
        Draws the move, the points and the length of the step.

    Returns
    -------
    numpy.ndarray of shape (n, d)
        Another round, in short numbers (`shortened`).

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.guarantees.moves import moved
    >>> moved(np.eye(3), np.random.default_rng(0)).shape
    (3, 3)
    """
    i, j, k = rng.integers(len(X), size=3)
    move = MOVES[rng.integers(len(MOVES))]
    step = float(rng.normal() * MIN_STEP ** rng.uniform())
    Y = X.copy()
    if move == "swap":  # ties go to the lowest index
        Y[[i, j]] = X[[j, i]]
    elif move == "stretch":  # one coordinate of all points, as seen from one of them
        c = rng.integers(X.shape[1])
        Y[:, c] = X[j, c] + (X[:, c] - X[j, c]) * np.exp(step)
    else:
        who = (X[i] == X).all(axis=1) if rng.uniform() < TOGETHER else i
        Y[who] = _new_place(move, X[i], X[j], X[k], step=step, size=size_of(X), rng=rng)
    return shortened(Y)


def _new_place(move: str, x: Array, a: Array, b: Array, *, step: float, size: float, rng: Rng) -> Array:
    """Where a point at x goes, given two other points a and b of the round."""
    match move:
        case "onto":
            return a
        case "midpoint":
            return (x + a) / 2
        case "reflect":
            return 2 * a - x
        case "shift":
            return x + (b - a)
        case "along":
            return x + step * (b - a)
        case "coordinate":
            return x + step * size * (np.arange(len(x)) == rng.integers(len(x)))
    return x + step * size * rng.normal(size=len(x)) / np.sqrt(len(x))


def size_of(X: Array) -> float:
    """The largest coordinate as seen from the mean; 1 if all points are equal."""
    return float(np.abs(X - X.mean(axis=0)).max()) or 1.0


def shortened(X: Array) -> Array:
    """The round in short binary numbers: scaled by a power of two if it is large or small, then rounded.

    Without it a search could drift to rounds with huge and tiny distances, whose ratios are rounding.
    """
    largest = float(np.abs(X).max())
    if largest and not 1 <= largest <= MAX_LENGTH:
        X = X * 2.0 ** (5 - np.frexp(largest)[1])
    return np.rint(X / RESOLUTION) * RESOLUTION
