"""Training images and test images kept apart, and dealt like cards: none twice before all were dealt once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.checks import check_whole
from holdfast.data.dataset import Dataset
from holdfast.errors import BadInput

Rng = np.random.Generator
Indices = NDArray[np.int64]
USUAL = (5, 1)  # training images to test images, where the request does not say
MAX_IMAGES = 10**8  # images in all
SHORT = 0.05  # part of a request that may lack before the official split is given up


@dataclass(frozen=True, eq=False)
class Share:
    """One worker's images, as row numbers of the data set.

    Parameters
    ----------
    train : numpy.ndarray
        The training images.
    test : numpy.ndarray
        The test images.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.data import Share
    >>> Share(train=np.arange(5), test=np.arange(5, 6))
    Share(5 to train on, 1 to test)
    """

    train: Indices
    test: Indices

    def __repr__(self) -> str:
        return f"Share({len(self.train)} to train on, {len(self.test)} to test)"


@dataclass(frozen=True)
class Request:
    """How many training and test images each worker gets; None for as many as there are."""

    workers: int
    train: int | None = None
    test: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("workers", 1), ("train", 1), ("test", 0)):
            given = getattr(self, name)
            if given is not None or name == "workers":
                object.__setattr__(self, name, check_whole(given, name, least=least, who="deal"))
        if (images := self.workers * ((self.train or 1) + (self.test or 0))) > MAX_IMAGES:
            raise BadInput(f"deal was asked for {images} images; ask for at most {MAX_IMAGES} in all.")

    def ratio(self) -> tuple[int, int]:
        """Training images to test images."""
        return (self.train, self.test) if self.train is not None and self.test is not None else USUAL


def divide(dataset: Dataset, ask: Request, prior: NDArray[np.float64], rng: Rng) -> tuple[Indices, Indices]:
    """The pools of training and of test images, which have no image in common.

    The official split where both of its sides hold what is asked for, class by class as `prior` expects it and
    but for a twentieth; else all images, each class divided as training and test images are asked for.
    """
    held = dataset.held_out
    if held is not None:
        official = np.flatnonzero(~held), np.flatnonzero(held)
        sizes = ask.train, ask.test
        if all(_enough(dataset, *one, ask.workers, prior) for one in zip(official, sizes, strict=True)):
            return official
    shuffled = rng.permutation(len(dataset))
    return cut(shuffled[np.argsort(dataset.labels[shuffled], kind="stable")], ask.ratio())


def _enough(dataset: Dataset, pool: Indices, each: int | None, workers: int, prior: NDArray[np.float64]) -> bool:
    if each is None:
        return len(pool) >= workers
    there = np.bincount(dataset.labels[pool], minlength=len(dataset.classes))
    short = np.maximum(workers * each * prior - there, 0).sum()
    return bool(short <= SHORT * workers * each)


def cut(images: Indices, ratio: tuple[int, int]) -> tuple[Indices, Indices]:
    """Divide a row of images evenly along its length, so that every stretch of it has the same ratio.

    >>> cut(np.arange(6), (2, 1))
    (array([0, 1, 3, 4]), array([2, 5]))
    """
    train, test = ratio
    step = np.arange(len(images) + 1) * test // (train + test)
    out = np.diff(step) > 0
    return images[~out], images[out]


def apiece(dataset: Dataset, pool: Indices, each: int | None, workers: int, what: str) -> int:
    """Images a worker gets: what was asked for, or an even part of all."""
    if each is not None:
        return each
    if len(pool) < workers:
        raise BadInput(
            f"{dataset.name} has {len(pool)} {what} images for {workers} workers; take fewer workers, or ask for a "
            "number of images, which may then be reused."
        )
    return len(pool) // workers


class Decks:
    """The images of a pool, one shuffled deck a class; an empty deck is dealt again from its first card.

    >>> decks = Decks(np.arange(4), np.array([0, 0, 1, 1]), np.random.default_rng(0))
    >>> sorted(decks.take(np.array([2, 1])).tolist())[:2]
    [0, 1]
    """

    def __init__(self, pool: Indices, kinds: NDArray[np.int64], rng: Rng) -> None:
        order = rng.permutation(len(pool))
        order = order[np.argsort(kinds[order], kind="stable")]
        self.rng = rng
        self.decks = np.split(pool[order], np.cumsum(np.bincount(kinds))[:-1]) if len(pool) else []
        self.dealt = [0] * len(self.decks)

    def sizes(self, classes: int) -> NDArray[np.int64]:
        return np.array([len(deck) for deck in self.decks] + [0] * (classes - len(self.decks)))

    def take(self, wanted: NDArray[np.int64]) -> Indices:
        """This number of images of each class, in random order."""
        hand = [self._draw(k, many) for k, many in enumerate(wanted.tolist()) if many]
        return self.rng.permutation(np.concatenate([np.zeros(0, np.int64), *hand]))

    def _draw(self, kind: int, many: int) -> Indices:
        deck, start = self.decks[kind], self.dealt[kind]
        self.dealt[kind] = start + many
        return deck[np.arange(start, start + many) % len(deck)]
