"""ByzFL's split by similarity: a part of the images is dealt alike, the rest by class."""

from __future__ import annotations

import numpy as np

from holdfast.data.dataset import Dataset
from holdfast.data.once import draw_once, pair_with_tests
from holdfast.data.pools import Request, Rng, Share
from holdfast.data.splits import Split
from holdfast.errors import BadInput
from holdfast.values import NonNegative, value


@value
class Similarity(Split):
    r"""A part gamma of the images is dealt at random, the rest is sorted by class and cut into one piece a worker.

    Parameters
    ----------
    gamma : float
        The part that is dealt at random, from 0 to 1. 0 is ByzFL's `extreme_niid`, and 1 deals all images alike.

    Raises
    ------
    BadInput
        If gamma is above 1.

    Notes
    -----
    .. math:: \lfloor \gamma N \rfloor \text{ images at random, the others in the order of their classes}

    The pieces go to the workers in their order, so the last workers have the last classes. These are the Byzantine
    ones: `Run(holders="honest")` deals all data among the honest, as ByzFL does. Every image is dealt once, and sizes
    differ by two at most. Test images are drawn with the class frequencies of the worker's own training images.

    References
    ----------
    .. [1] Karimireddy et al. 2020, "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", the idea.

    Examples
    --------
    >>> from holdfast.data import Similarity, count_classes, deal, load
    >>> digits = load("digits")
    >>> table = count_classes(digits, deal(digits, Similarity(gamma=0.0), workers=10, train=100))
    >>> int((table > 0).sum(axis=1).max())
    3
    """

    gamma: NonNegative = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gamma > 1:
            raise BadInput(f"Similarity was given gamma = {self.gamma!r}; gamma is a finite number, 0 to 1.")

    def shares(self, dataset: Dataset, ask: Request, rng: Rng) -> list[Share]:
        chosen, rest = draw_once(repr(self), dataset, ask, rng)
        alike, others = np.split(chosen, [int(self.gamma * len(chosen))])
        others = others[np.argsort(dataset.labels[others], kind="stable")]
        pieces = (np.array_split(part, ask.workers) for part in (alike, others))
        trains = [rng.permutation(np.concatenate(both)) for both in zip(*pieces, strict=True)]
        return pair_with_tests(dataset, trains, rest, ask, rng)
