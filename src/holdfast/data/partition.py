"""Handing out the images of a data set to workers, by a split."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from holdfast.checks import is_whole
from holdfast.data.dataset import Dataset
from holdfast.data.pools import Request, Rng, Share
from holdfast.data.similar import Similarity
from holdfast.data.splits import Dirichlet, Natural, Split, Uniform
from holdfast.data.uneven import ByWriter, QuantitySkew, Shards
from holdfast.errors import BadInput

SHARED = (Natural, Uniform, Dirichlet, Similarity, Shards, QuantitySkew, ByWriter)
SPLITS: dict[str, type[Split]] = {split.__name__: split for split in SHARED}


def deal(
    dataset: Dataset, split: Split, workers: int, train: int | None = None, test: int | None = None, rng: Rng | int = 0
) -> list[Share]:
    """Share a data set among workers.

    Parameters
    ----------
    dataset : Dataset
        The images.
    split : Split
        How they are shared, such as `Natural()`.
    workers : int
        How many workers there are.
    train : int or None
        Training images for each worker. None: as many as there are.
    test : int or None
        Test images for each worker. None: as many as there are.
    rng : numpy.random.Generator or int
        A generator or a seed. The same seed gives the same shares.

    Returns
    -------
    list of Share
        One share for each worker.

    Raises
    ------
    BadInput
        If there are too few images, or an argument is of another kind.

    Notes
    -----
    No image is a training image of one worker and a test image of any. Within a class images are reused only when all
    have been dealt.

    Examples
    --------
    >>> from holdfast.data import Natural, deal, load
    >>> shares = deal(load("digits"), Natural(), workers=10, train=100, test=20, rng=7)
    >>> len(shares), len(shares[0].train), len(shares[0].test)
    (10, 100, 20)
    """
    if not isinstance(split, Split):
        raise BadInput(f"deal was given split = {split!r}; give one of {', '.join(SPLITS)}, such as Natural().")
    if not isinstance(rng, Rng) and not is_whole(rng, least=0):
        raise BadInput(f"deal was given rng = {rng!r}; give a numpy Generator or a seed, a whole number from 0.")
    generator = rng if isinstance(rng, Rng) else np.random.default_rng(int(rng))
    return split.shares(dataset, Request(workers, train, test), generator)


def count_classes(dataset: Dataset, shares: list[Share]) -> NDArray[np.int64]:
    """Count the training images of each worker in each class.

    Parameters
    ----------
    dataset : Dataset
        The images.
    shares : list of Share
        What `deal` returned.

    Returns
    -------
    numpy.ndarray of shape (workers, classes)
        The counts.

    Examples
    --------
    >>> from holdfast.data import Uniform, count_classes, deal, load
    >>> digits = load("digits")
    >>> count_classes(digits, deal(digits, Uniform(), 4, train=100)).sum(axis=1)
    array([100, 100, 100, 100])
    """
    many = len(dataset.classes)
    return np.array([np.bincount(dataset.labels[share.train], minlength=many) for share in shares]).reshape(-1, many)
