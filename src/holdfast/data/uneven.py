"""Splits in which workers get pieces: shards of one class, very different numbers of images, or a writer's own."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from holdfast.data.dataset import Dataset
from holdfast.data.once import draw_once, pair_with_tests
from holdfast.data.pools import Decks, Indices, Request, Rng, Share, apiece, cut, divide
from holdfast.data.splits import Split
from holdfast.errors import BadInput
from holdfast.values import AtLeast, Count, value


@value
class Shards(Split):
    """The images sorted by class and cut into equal shards, of which every worker is dealt a few at random.

    Parameters
    ----------
    shards : int
        How many shards each worker is dealt, at least 1.
    cut : "even" or "classes"
        Where the images are cut. "even": into shards of one size, which may reach over two classes. "classes": each
        shard is of one class, so that every worker has exactly this number of classes, and sizes differ.

    Raises
    ------
    BadInput
        If more images are asked for than there are, or more shards of one class each than there are classes; raised
        by `deal`.

    Notes
    -----
    Two shards for each worker leave most workers with two classes. Test images are drawn with the class frequencies of
    the worker's own training images.

    With cut="classes", worker i holds class i, counted round, and others at random. The images of a class are divided
    evenly among the workers that hold it. `train` is then the mean of the sizes. Classes that nobody holds, if there
    are fewer workers than classes, are not dealt.

    References
    ----------
    .. [1] McMahan et al. 2017, "Communication-Efficient Learning of Deep Networks from Decentralized Data",
       Section 3.
    .. [2] Li et al. 2022, "Federated Learning on Non-IID Data Silos: An Experimental Study", a number of classes for
       each worker.

    Examples
    --------
    >>> from holdfast.data import Shards, count_classes, deal, load
    >>> digits = load("digits")
    >>> count_classes(digits, deal(digits, Shards(shards=2), workers=10, train=100)).sum(axis=1).tolist()
    [100, 100, 100, 100, 100, 100, 100, 100, 100, 100]
    >>> table = count_classes(digits, deal(digits, Shards(shards=3, cut="classes"), workers=10))
    >>> (table > 0).sum(axis=1).tolist()
    [3, 3, 3, 3, 3, 3, 3, 3, 3, 3]
    """

    shards: Count = 2
    cut: Literal["even", "classes"] = "even"

    def written(self) -> str:
        """Return its text; the usual cut is left out."""
        return self._text(("shards",) if self.cut == "even" else ("shards", "cut"))

    def shares(self, dataset: Dataset, ask: Request, rng: Rng) -> list[Share]:
        if self.cut == "classes":
            return self._by_class(dataset, ask, rng)
        pool, rest = divide(dataset, ask, dataset.sizes() / max(1, len(dataset)), rng)
        each = apiece(dataset, pool, ask.train, ask.workers, "training")
        if ask.workers * each > len(pool) or each < self.shards:
            raise BadInput(
                f"{self!r} was asked for {ask.workers} x {each} of {len(pool)} training images of {dataset.name}; "
                f"shards share no image, so ask for {self.shards} to {len(pool) // ask.workers} a worker."
            )
        chosen = rng.permutation(pool)[: ask.workers * each]
        chosen = chosen[np.argsort(dataset.labels[chosen], kind="stable")]
        pieces = np.array_split(chosen, ask.workers * self.shards)
        hands = rng.permutation(len(pieces)).reshape(ask.workers, self.shards)
        trains = [rng.permutation(np.concatenate([pieces[k] for k in hand])) for hand in hands]
        return pair_with_tests(dataset, trains, rest, ask, rng)

    def _by_class(self, dataset: Dataset, ask: Request, rng: Rng) -> list[Share]:
        """Shards of one class each: worker i holds the i-th class, counted round, and others at random."""
        chosen, rest = draw_once(repr(self), dataset, ask, rng)
        classes = np.unique(dataset.labels[chosen])
        if self.shards > len(classes):
            raise BadInput(f"{self!r} was given {dataset.name} with {len(classes)} classes; ask for at most that many.")
        held = np.zeros((ask.workers, len(classes)), bool)
        for worker, row in enumerate(held):
            first = worker % len(classes)
            others = np.delete(np.arange(len(classes)), first)
            row[[first, *rng.choice(others, self.shards - 1, replace=False)]] = True
        hands: list[list[Indices]] = [[] for _ in held]
        for label, holders in zip(classes, held.T, strict=True):
            pieces = np.array_split(chosen[dataset.labels[chosen] == label], max(1, int(holders.sum())))
            for holder, piece in zip(np.flatnonzero(holders).tolist(), pieces, strict=False):  # none: not dealt
                hands[holder].append(piece)
        trains = [rng.permutation(np.concatenate(hand)) for hand in hands]
        return pair_with_tests(dataset, trains, rest, ask, rng)


@value
class QuantitySkew(Split):
    r"""Workers have very different numbers of training images, of the classes as they come.

    Parameters
    ----------
    ratio : float
        How many times as many images the largest worker has as the smallest, at least 1.

    Notes
    -----
    .. math:: n_i \propto \text{ratio}^{i/(n-1)}, \quad i = 0, \dots, n - 1

    in random order among the workers. `train` is the mean of the sizes, and every worker has at least one image. Test
    images are as many for all.

    Examples
    --------
    >>> from holdfast.data import QuantitySkew, deal, load
    >>> shares = deal(load("digits"), QuantitySkew(ratio=100.0), workers=5, train=200, test=20)
    >>> sorted(len(share.train) for share in shares)
    [7, 22, 69, 217, 686]
    """

    ratio: Annotated[float, AtLeast(1.0)] = 100.0

    def shares(self, dataset: Dataset, ask: Request, rng: Rng) -> list[Share]:
        pools = divide(dataset, ask, dataset.sizes() / max(1, len(dataset)), rng)
        mean = apiece(dataset, pools[0], ask.train, ask.workers, "training")
        test = apiece(dataset, pools[1], ask.test, ask.workers, "test")
        steps = self.ratio ** np.linspace(0.0, 1.0, ask.workers)
        sizes = rng.permutation(np.maximum(1, np.round(steps * (mean * ask.workers / steps.sum())).astype(np.int64)))
        trains, tests = (Decks(pool, np.zeros(len(pool), np.int64), rng) for pool in pools)
        return [Share(trains.take(np.array([size])), tests.take(np.array([test]))) for size in sizes]


@value
class ByWriter(Split):
    """Every worker is one writer with the writer's own images; for data sets that know their writers.

    Notes
    -----
    Writers are drawn at random among those with enough images. Without numbers, a writer gives all.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.data import ByWriter, Dataset, deal
    >>> images, labels = np.zeros((12, 1, 1), np.uint8), np.zeros(12, int)
    >>> letters = Dataset("letters", images, labels, ("a",), writers=np.repeat([0, 1], 6))
    >>> deal(letters, ByWriter(), workers=2)
    [Share(5 to train on, 1 to test), Share(5 to train on, 1 to test)]
    """

    def shares(self, dataset: Dataset, ask: Request, rng: Rng) -> list[Share]:
        if dataset.writers is None:
            raise BadInput(f"ByWriter() was given {dataset.name}, which does not know its writers; femnist does.")
        shuffled = rng.permutation(len(dataset))
        shuffled = shuffled[np.argsort(dataset.writers[shuffled], kind="stable")]
        sizes = np.bincount(dataset.writers)
        owned = [own for own in np.split(shuffled, np.cumsum(sizes)[:-1]) if len(own)]
        train, test = (1 if ask.train is None else ask.train), (1 if ask.test is None else ask.test)
        held = dataset.held_out
        ways = [] if held is None else [[(own[~held[own]], own[held[own]]) for own in owned]]
        able: list[tuple[Indices, Indices]] = []
        for divided in (*ways, [cut(own, ask.ratio()) for own in owned]):
            able = [pair for pair in divided if len(pair[0]) >= train and len(pair[1]) >= test]
            if len(able) >= ask.workers:
                chosen = rng.choice(len(able), ask.workers, replace=False)
                return [Share(able[k][0][: ask.train], able[k][1][: ask.test]) for k in chosen]
        raise BadInput(
            f"{dataset.name} has {len(able)} writers with {train} training and {test} test images or more, and "
            f"{ask.workers} workers were asked for; ask for fewer workers or fewer images."
        )
