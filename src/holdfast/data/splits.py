"""Splits in which workers draw from class frequencies: the data's own, equal ones, or some of their own."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from holdfast.data.dataset import Dataset
from holdfast.data.frequencies import byclass, fitting, quotas
from holdfast.data.pools import Decks, Request, Rng, Share, apiece, divide
from holdfast.errors import BadInput
from holdfast.values import Positive, Value, value

TINY = 1e-300  # below it, floating point no longer keeps the law


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

    Notes
    -----
    .. math:: q_i \sim \mathrm{Dir}(\alpha p)

    p sums to one: what other libraries write Dir(a, ..., a) over C classes is alpha = a C with the uniform prior.
    Where alpha is too small for floating point, one class is drawn from p, which is the limit.

    References
    ----------
    .. [1] Hsu et al. 2019, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
       Classification".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.data import Dirichlet
    >>> q = Dirichlet(alpha=0.1).mixture(np.array([0.5, 0.5]), np.random.default_rng(0))
    >>> round(float(q.sum()), 6), bool(q.max() > 0.9)
    (1.0, True)
    """

    alpha: Positive = 0.1
    prior: Literal["natural", "uniform", "byclass"] = "natural"

    def weights(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        return byclass(sizes) if self.prior == "byclass" else sizes

    def centre(self, natural: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.full(len(natural), 1 / len(natural)) if self.prior == "uniform" else natural

    def mixture(self, prior: NDArray[np.float64], rng: Rng) -> NDArray[np.float64]:
        if self.alpha * prior.min() > TINY:
            q = rng.dirichlet(self.alpha * prior)
            if np.isfinite(q).all():
                return q / q.sum()
        return rng.multinomial(1, prior).astype(float)
