r"""How noisy and how different are the workers? The σ and G of Theorem 1 at one model, from gradients.

Worker i gives :math:`k_i \ge 2` stochastic gradients at the same model, drawn independently. With :math:`m_i` their
mean, :math:`m` the mean of the n means,

.. math:: \sigma_i^2 = \tfrac{1}{k_i - 1} \sum_j \lVert g_{ij} - m_i \rVert^2, \quad
          P^2 = \tfrac1n \sum_i \lVert m_i - m \rVert^2, \quad
          G^2 = P^2 - \left(1 - \tfrac1n\right) \tfrac1n \sum_i \sigma_i^2 / k_i

have the expectations that the assumptions are about: the means of few gradients differ by noise too, and P² counts it.
A liar can make σ and G what it likes: measure among workers that one trusts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.errors import BadInput

__all__ = ["estimate"]

HELD = 1 << 20  # numbers that are read at once
TINY = 1e-150  # differences below have squares that lose digits


@dataclass(frozen=True)
class Estimate:
    """The noise and the heterogeneity of workers, as they were measured; names that end in 2 are squares.

    Parameters
    ----------
    gradients : tuple of int
        How many gradients each worker gave.
    d : int
        The dimension.
    each2 : tuple of float
        σ² of each worker.
    pooled2 : float
        σ² over all gradients.
    plain2 : float
        The mean squared distance of the workers' means to their mean.
    noise2 : float
        The part of `plain2` that is noise.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.guarantees.estimate import estimate
    >>> told = estimate([np.array([[1.0], [3.0]]), np.array([[8.0], [8.0], [8.0]])])
    >>> told.sigma, round(told.G, 4)
    (1.0, 2.958)
    """

    gradients: tuple[int, ...]
    d: int
    each2: tuple[float, ...]
    pooled2: float
    plain2: float
    noise2: float

    @property
    def sigma2(self) -> float:
        """σ²: the mean over the workers."""
        return math.fsum(self.each2) / len(self.each2)

    @property
    def sigma(self) -> float:
        """σ, the root of `sigma2`."""
        return math.sqrt(self.sigma2)

    @property
    def largest(self) -> float:
        """The largest σ of a worker, which the assumption bounds; a maximum of estimates, so rather too large."""
        return math.sqrt(max(self.each2))

    @property
    def G2(self) -> float:  # noqa: N802 - the paper's letter
        """G²: `plain2` without its noise, zero if the noise hides it."""
        return max(0.0, self.plain2 - self.noise2)

    @property
    def G(self) -> float:  # noqa: N802
        """G, the root of `G2`."""
        return math.sqrt(self.G2)

    @property
    def spread(self) -> float:
        """The root mean square distance of n vectors, one gradient each, from their mean: what κ is about."""
        return math.sqrt(self.G2 + (1 - 1 / len(self.each2)) * self.sigma2)

    @property
    def balance(self) -> float:
        """σ²/G²: the mean of this many gradients is as noisy as the workers are different; inf if no G was seen."""
        return self.sigma2 / self.G2 if self.G2 else math.inf


def estimate(gradients: Iterable[Any], names: Sequence[str] | None = None) -> Estimate:
    """Measure σ and G of workers from their gradients.

    Parameters
    ----------
    gradients : iterable of arrays of shape (k, d)
        One array for each worker, one row for each gradient. Arrays in mapped files are read in blocks of columns.
    names : sequence of str, optional
        The workers' names, for the sentences of errors.

    Returns
    -------
    Estimate
        Squares as they were measured.

    Raises
    ------
    BadInput
        If there are fewer than two workers, or their gradients do not fit together, or their squares leave the range
        of floats.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.guarantees.estimate import estimate
    >>> told = estimate([np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([[8.0, 0.0], [8.0, 0.0], [8.0, 0.0]])])
    >>> told.sigma2, told.plain2, told.G2
    (1.0, 9.0, 8.75)
    """
    given = list(gradients)
    who = [f"worker {i}" for i in range(len(given))] if names is None else list(names)
    if len(who) != len(given):
        raise BadInput(f"estimate was given {len(given)} workers and {len(who)} names; give a name a worker.")
    if len(given) < 2:
        raise BadInput(f"estimate was given {len(given)} of the workers; G is a difference, so give at least 2.")
    rows = [_rows(one, name) for one, name in zip(given, who, strict=True)]
    (d, _), *_ = Counter(one.shape[1] for one in rows).most_common(1)
    for one, name in zip(rows, who, strict=True):
        if one.shape[1] != d:
            raise BadInput(f"{name} has {one.shape[1]} columns where most have {d}; give gradients of one model.")
    k = np.array([len(one) for one in rows], float)
    within, between, widest = np.zeros(len(rows)), 0.0, 0.0
    with np.errstate(over="ignore"):
        for s, e in _spans(d, max(*map(len, rows), len(rows))):
            blocks = (_block(one, name, s, e) for one, name in zip(rows, who, strict=True))
            means = np.empty((len(rows), e - s))
            for i, block in enumerate(blocks):
                means[i] = (block / len(block)).sum(axis=0)
                off = block - means[i]
                within[i] += np.square(off).sum()
                widest = max(widest, float(np.abs(off).max()))
            apart = means - (means / len(means)).sum(axis=0)
            between += float(np.square(apart).sum())
            widest = max(widest, float(np.abs(apart).max()))
    each = within / (k - 1)
    if not (np.isfinite(each).all() and math.isfinite(between)):
        raise BadInput("estimate was given gradients whose squares are too large for a float; scale them down.")
    if 0 < widest < TINY:
        raise BadInput("estimate was given gradients whose squares are too small for a float; scale them up.")
    noise = (1 - 1 / len(rows)) * float((each / k).mean())
    pooled = float((within / (k - 1).sum()).sum())
    return Estimate(tuple(map(len, rows)), d, tuple(each.tolist()), pooled, between / len(rows), noise)


def _rows(given: Any, name: str) -> np.ndarray:
    try:
        rows = np.asarray(given)
    except Exception as error:  # whatever a hostile object says when it is looked at
        raise BadInput(f"{name} gave no array ({type(error).__name__}); give a row a gradient.") from error
    if rows.dtype.kind not in "fiu" or isinstance(given, np.ma.MaskedArray):
        raise BadInput(f"{name} gave {type(given).__name__} of {rows.dtype}; give real numbers, a row a gradient.")
    if rows.ndim != 2 or len(rows) < 2 or rows.shape[1] < 1:
        raise BadInput(f"{name} gave an array of shape {rows.shape}; give at least 2 gradients, a row each.")
    return rows


def _spans(d: int, rows: int) -> Iterator[tuple[int, int]]:
    width = max(1, HELD // rows)
    return ((s, min(s + width, d)) for s in range(0, d, width))


def _block(rows: np.ndarray, name: str, s: int, e: int) -> np.ndarray:
    block = rows[:, s:e].astype(np.float64)
    if not np.isfinite(block).all():
        bad = int(np.flatnonzero(~np.isfinite(block).all(axis=1))[0])
        raise BadInput(f"{name} has a number in row {bad} that is not finite; leave that row or that worker out.")
    return block
