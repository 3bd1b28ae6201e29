"""How often each character is written: the class frequencies of EMNIST ByClass, for parts of it that are biased."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import BadInput

TINY = 1e-300  # below it, floating point no longer keeps the law
BYCLASS = (
    *(5778, 6330, 5869, 5969, 5619, 5190, 5705, 6139, 5633, 5686),  # 0 to 9
    *(1062, 648, 1739, 779, 851, 1440, 447, 521, 2048, 626, 382, 810, 1485),  # A to M
    *(1351, 4156, 1397, 413, 809, 3508, 1576, 2002, 796, 806, 432, 798, 464),  # N to Z
    *(1644, 853, 432, 1683, 4092, 400, 589, 1479, 427, 317, 466, 2535, 464),  # a to m
    *(1898, 466, 368, 505, 2320, 437, 2965, 482, 468, 467, 470, 381, 451),  # n to z
)
"""Images of each class in the official test part of EMNIST ByClass (Cohen et al. 2017): 116,323 in all.

The part is a random sixth of ByClass, so its shares are those of the whole, and of LEAF's FEMNIST, which is made of the
same characters.
"""


def byclass(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The counts of BYCLASS, zero for classes without images.

    Parameters
    ----------
    sizes
        Images of each class in a data set with the 62 classes of EMNIST ByClass.

    Raises
    ------
    BadInput
        If the data set has another number of classes.
    """
    if len(sizes) != len(BYCLASS):
        raise BadInput(f"prior = 'byclass' was given {len(sizes)} classes; it is for the {len(BYCLASS)} of EMNIST.")
    return np.where(sizes > 0, BYCLASS, 0)


def draw_frequencies(alpha: float, prior: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Frequencies ~ Dir(alpha prior); where alpha is too small for floating point, one of them is 1, the limit."""
    if alpha * prior.min() > TINY:
        q = rng.dirichlet(alpha * prior)
        if np.isfinite(q).all():
            return q / q.sum()
    return rng.multinomial(1, prior).astype(float)


def quotas(total: int, frequencies: NDArray[np.float64]) -> NDArray[np.int64]:
    """Whole numbers that sum to `total` and are closest to its shares: largest remainders, ties to the first class.

    >>> quotas(10, np.array([0.55, 0.25, 0.2]))
    array([6, 2, 2])
    """
    shares = total * frequencies
    counts = np.floor(shares).astype(np.int64)
    order = np.argsort(counts - shares, kind="stable")
    counts[order[: total - int(counts.sum())]] += 1
    return counts


def fitting(sizes: NDArray[Any], frequencies: NDArray[np.float64]) -> int:
    """The most images that can be drawn by these frequencies without using one twice.

    >>> fitting(np.array([60, 10]), np.array([0.8, 0.2]))
    50
    """
    used = frequencies > 0
    return int((sizes[used] / frequencies[used]).min() + 1e-9)
