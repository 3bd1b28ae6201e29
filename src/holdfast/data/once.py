"""Splits that deal every training image at most once: which images, and the test images that go with them."""

from __future__ import annotations

import numpy as np

from holdfast.data.dataset import Dataset
from holdfast.data.frequencies import draw_frequencies
from holdfast.data.pools import Decks, Indices, Request, Rng, Share, apiece, divide
from holdfast.errors import BadInput

MAX_DRAWS = 1000  # until every worker has an image


def draw_once(who: str, dataset: Dataset, ask: Request, rng: Rng) -> tuple[Indices, Indices]:
    """The training images that are dealt, in random order, and the pool of test images.

    Raises
    ------
    BadInput
        If the request is for more images than there are, or for less than one a worker.
    """
    pool, rest = divide(dataset, ask, dataset.sizes() / max(1, len(dataset)), rng)
    wanted = len(pool) if ask.train is None else ask.workers * ask.train
    if not ask.workers <= wanted <= len(pool):
        raise BadInput(
            f"{who} was asked for {wanted} of {len(pool)} training images of {dataset.name} for {ask.workers} workers; "
            "it deals no image twice, so take fewer workers or ask for fewer images."
        )
    return rng.permutation(pool)[:wanted], rest


def pair_with_tests(dataset: Dataset, trains: list[Indices], rest: Indices, ask: Request, rng: Rng) -> list[Share]:
    """Each worker's training images with test images in the same class frequencies.

    Raises
    ------
    BadInput
        If a worker has no training image, or none of its classes has test images.
    """
    if not all(map(len, trains)):
        empty = [len(train) for train in trains].index(0)
        raise BadInput(f"worker {empty} got no training image of {dataset.name}; take fewer workers or more images.")
    test = apiece(dataset, rest, ask.test, ask.workers, "test")
    decks = Decks(rest, dataset.labels[rest], rng)
    return [Share(train, _alike(dataset, train, decks, test, rng)) for train in trains]


def _alike(dataset: Dataset, train: Indices, decks: Decks, test: int, rng: Rng) -> Indices:
    q = np.bincount(dataset.labels[train], minlength=len(dataset.classes))
    q = q * (decks.sizes(len(q)) > 0)
    if test and not q.any():
        raise BadInput(f"{dataset.name} has a class without test images; ask for test=0 or take more images.")
    return decks.take(rng.multinomial(test, q / max(1, q.sum())))


def divide_classes(dataset: Dataset, images: Indices, workers: int, alpha: float, rng: Rng) -> list[Indices]:
    """Each class cut among the workers in shares ~ Dir(alpha, ..., alpha), drawn anew until everybody has an image.

    Raises
    ------
    BadInput
        If some worker has no image after a thousand draws.
    """
    by_class = [images[dataset.labels[images] == label] for label in range(len(dataset.classes))]
    for _ in range(MAX_DRAWS):
        pieces = [_cut(own, draw_frequencies(alpha * workers, np.full(workers, 1 / workers), rng)) for own in by_class]
        trains = [np.concatenate(parts) for parts in zip(*pieces, strict=True)]
        if all(map(len, trains)):
            return [rng.permutation(train) for train in trains]
    raise BadInput(
        f"Dirichlet(alpha={alpha!r}, over='workers') left some of {workers} workers without an image of {dataset.name} "
        f"in {MAX_DRAWS} draws; take a larger alpha or fewer workers."
    )


def _cut(images: Indices, shares: np.ndarray) -> list[Indices]:
    return np.split(images, (np.cumsum(shares)[:-1] * len(images)).astype(np.int64))
