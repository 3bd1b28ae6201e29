"""Splits in which workers draw from class frequencies: the data's own, equal ones, or some of their own."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from holdfast.data.dataset import Dataset
from holdfast.data.frequencies import byclass, draw_frequencies, fitting, quotas
from holdfast.data.once import divide_classes, draw_once, pair_with_tests
from holdfast.data.pools import Decks, Request, Rng, Share, apiece, divide
from holdfast.errors import BadInput
from holdfast.values import Positive, Value, value


class Split(Value):
    """The base of all splits: how images are shared; subclasses are final."""

    def shares(self, dataset: Dataset, ask: Request, rng: Rng) -> list[Share]:
        """Share the images; `deal` calls this."""
        raise TypeError(f"{type(self).__name__} does not say how it shares images")


class Mixture(Split):
    """Worker i draws all its images, for training and for testing, from class frequencies q_i of its own."""

    def centre(self, natural: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what the class frequencies vary around."""
        raise TypeError(f"{type(self).__name__} does not say what its frequencies vary around")

    def mixture(self, prior: NDArray[np.float64], rng: Rng) -> NDArray[np.float64]:
        """Return the class frequencies of one worker."""
        return prior

    def weights(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """How often each class is written, given the images of each class; zero for classes without images."""
        return sizes

    def shares(self, dataset: Dataset, ask: Request, rng: Rng) -> list[Share]:
        classes = len(dataset.classes)
        pools = divide(dataset, ask, _prior(self, dataset.sizes()), rng)
        decks = [Decks(pool, dataset.labels[pool], rng) for pool in pools]
        train = apiece(dataset, pools[0], ask.train, ask.workers, "training")
        test = apiece(dataset, pools[1], ask.test, ask.workers, "test")
        usable = (decks[0].sizes(classes) > 0) & ((decks[1].sizes(classes) > 0) | (test == 0))
        if not usable.any():
            raise BadInput(f"{dataset.name} has no class with images for training and for testing; take more images.")
        prior = _prior(self, dataset.sizes() * usable)
        shares = []
        for _ in range(ask.workers):
            q = np.zeros(classes)
            q[usable] = self.mixture(prior[usable], rng)
            shares.append(Share(*(d.take(rng.multinomial(k, q)) for d, k in zip(decks, (train, test), strict=True))))
        return shares


def _prior(split: Mixture, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """The split's prior over the classes that there are."""
    prior, weights = np.zeros(len(sizes)), split.weights(sizes)
    prior[sizes > 0] = split.centre(weights[sizes > 0] / max(1, weights.sum()))
    return prior


@value
class Natural(Split):
    r"""Every worker draws from all images alike, so that classes come as often as in the data.

    Parameters
    ----------
    prior : "natural" or "byclass"
        "byclass" takes the frequencies of EMNIST ByClass instead of the data's own, for a part of FEMNIST in which
        some classes are too frequent.

    Notes
    -----
    .. math:: q_i = p, \quad p_c = N_c / N

    The images are shuffled once and dealt in order: none is dealt twice before all were dealt. With prior="byclass"
    all workers together get N p_c images of class c, rounded; an image is reused only when all of its class have been
    dealt.

    Examples
    --------
    >>> from holdfast.data import Natural, deal, load
    >>> deal(load("digits"), Natural(), workers=10, train=100, test=20)[0]
    Share(100 to train on, 20 to test)
    """

    prior: Literal["natural", "byclass"] = "natural"

    def written(self) -> str:
        """Return its text; the usual prior is in its name already."""
        return repr(self)

    def shares(self, dataset: Dataset, ask: Request, rng: Rng) -> list[Share]:
        if self.prior == "byclass":
            return _by_quotas(dataset, ask, rng)
        pools = divide(dataset, ask, dataset.sizes() / max(1, len(dataset)), rng)
        decks = [Decks(pool, np.zeros(len(pool), np.int64), rng) for pool in pools]
        each = [
            apiece(dataset, pools[0], ask.train, ask.workers, "training"),
            apiece(dataset, pools[1], ask.test, ask.workers, "test"),
        ]
        for pool, k in zip(pools, each, strict=True):
            if k and not len(pool):
                raise BadInput(f"{dataset.name} has {len(dataset)} images, too few for both sides; take more images.")
        return [Share(*(d.take(np.array([k])) for d, k in zip(decks, each, strict=True))) for _ in range(ask.workers)]


def _by_quotas(dataset: Dataset, ask: Request, rng: Rng) -> list[Share]:
    """Images in the frequencies of EMNIST ByClass: exact over all workers, dealt at random among them."""
    sizes = dataset.sizes()
    counts = byclass(sizes)
    pools = divide(dataset, ask, counts / max(1, counts.sum()), rng)
    decks = [Decks(pool, dataset.labels[pool], rng) for pool in pools]
    there = [deck.sizes(len(sizes)) for deck in decks]
    counts = counts * ((there[0] > 0) & ((there[1] > 0) | (ask.test == 0)))
    if not counts.any():
        raise BadInput(f"{dataset.name} has no class with images for training and for testing; take more images.")
    p = counts / counts.sum()
    hands = []
    for deck, size, each in zip(decks, there, (ask.train, ask.test), strict=True):
        each = fitting(size, p) // ask.workers if each is None else each
        hands.append(deck.take(quotas(ask.workers * each, p)).reshape(ask.workers, each))
    return [Share(train, test) for train, test in zip(*hands, strict=True)]


@value
class Uniform(Mixture):
    r"""Every worker draws each class equally often, rare classes included.

    Notes
    -----
    .. math:: q_i = (1/C, \dots, 1/C)

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.data import Uniform
    >>> Uniform().mixture(Uniform().centre(np.array([0.9, 0.1])), np.random.default_rng(0))
    array([0.5, 0.5])
    """

    def centre(self, natural: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.full(len(natural), 1 / len(natural))


@value
class Dirichlet(Mixture):
    r"""Every worker has class frequencies of its own, the more lopsided the smaller alpha.

    Parameters
    ----------
    alpha : float
        The concentration, above 0.
    prior : "natural", "uniform" or "byclass"
        p: the frequencies of the data, equal ones as in Hsu et al. 2019, or those of EMNIST ByClass.
    over : "classes" or "workers"
        What the frequencies are drawn over. "classes": each worker has frequencies of classes, and all have as many
        images. "workers": each class is divided among the workers, every image is dealt once, and sizes differ.

    Raises
    ------
    BadInput
        If a `prior` is given with over="workers".

    Notes
    -----
    .. math:: q_i \sim \mathrm{Dir}(\alpha p)

    p sums to one: what other libraries write Dir(a, ..., a) over C classes is alpha = a C with the uniform prior.
    Where alpha is too small for floating point, one class is drawn from p, which is the limit.

    With over="workers", the images of class c are cut into shares :math:`s_c \sim \mathrm{Dir}(\alpha, \dots,
    \alpha)` over the n workers, as ByzFL does. They are drawn anew until every worker has an image. `train` is then the
    mean of the sizes, and test images are drawn with the class frequencies of the worker's own training images.

    References
    ----------
    .. [1] Hsu et al. 2019, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
       Classification".
    .. [2] Li et al. 2022, "Federated Learning on Non-IID Data Silos: An Experimental Study", over workers.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.data import Dirichlet
    >>> q = Dirichlet(alpha=0.1).mixture(np.array([0.5, 0.5]), np.random.default_rng(0))
    >>> round(float(q.sum()), 6), bool(q.max() > 0.9)
    (1.0, True)
    >>> from holdfast.data import deal, load
    >>> shares = deal(load("digits"), Dirichlet(alpha=0.5, over="workers"), workers=4, test=20)
    >>> sum(len(share.train) for share in shares), len({len(share.train) for share in shares})
    (1498, 4)
    """

    alpha: Positive = 0.1
    prior: Literal["natural", "uniform", "byclass"] = "natural"
    over: Literal["classes", "workers"] = "classes"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.over == "workers" and self.prior != "natural":
            raise BadInput(f"Dirichlet was given prior = {self.prior!r} with over = 'workers'; leave the prior out.")

    def written(self) -> str:
        """Return its text with all fields that count: frequencies over workers have no prior."""
        return self._text(("alpha", "prior") if self.over == "classes" else ("alpha", "over"))

    def weights(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        return byclass(sizes) if self.prior == "byclass" else sizes

    def centre(self, natural: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.full(len(natural), 1 / len(natural)) if self.prior == "uniform" else natural

    def mixture(self, prior: NDArray[np.float64], rng: Rng) -> NDArray[np.float64]:
        return draw_frequencies(self.alpha, prior, rng)

    def shares(self, dataset: Dataset, ask: Request, rng: Rng) -> list[Share]:
        if self.over == "classes":
            return Mixture.shares(self, dataset, ask, rng)
        chosen, rest = draw_once(repr(self), dataset, ask, rng)
        trains = divide_classes(dataset, chosen, ask.workers, self.alpha, rng)
        return pair_with_tests(dataset, trains, rest, ask, rng)
