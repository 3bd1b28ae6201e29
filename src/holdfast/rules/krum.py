"""Krum and Multi-Krum (Blanchard et al. 2017), with the forms that other libraries give these names."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from holdfast.errors import BadInput
from holdfast.masses import heaviest, nearest_mass
from holdfast.rules.base import DistanceRule, Distances, Mixing, Rng, Stage, Tolerance, Weights, value
from holdfast.rules.clustering import even, finite, spread_over
from holdfast.rules.coordinate import CWTM, MeaMed
from holdfast.values import Count

Others = Literal["n-f-2", "n-f-1"]
Needs = Literal["2f+3", "f+3"]
Picks = Literal["in turn", "at once", "means"]
FORMS = get_args(Others)


def krum_scores(D: Distances, others: int, *, squared: bool) -> np.ndarray:
    """Sum of the (squared) distances of each vector to its nearest others."""
    near = np.sort(D, axis=1)[:, 1 : others + 1]  # the first is the vector itself
    return (near if squared else np.sqrt(near)).sum(axis=1)


class _Krum(DistanceRule):
    f: Tolerance
    others: Others
    squared: bool
    needs: Needs

    def __post_init__(self) -> None:
        if self.others not in FORMS:
            name = type(self).__name__
            raise BadInput(f"{name} was given others = {self.others!r}; the forms are {' and '.join(FORMS)}.")
        super().__post_init__()

    def least(self) -> int:
        usual = 2 * self.f + (3 if self.others == "n-f-2" else 1)
        return usual if self.needs == "2f+3" else min(usual, self.f + 3)

    def _best(self, D: Distances, m: int) -> Weights:
        n = D.shape[1]
        others = n - self.f - int(self.others[-1])
        return even(np.argsort(krum_scores(D, others, squared=self.squared), kind="stable")[:m], n)

    def scores_by_mass(self, D: Distances, mass: np.ndarray) -> np.ndarray:
        """The score of each vector: the nearest that hold W - a, itself included, less one mean weight in "n-f-2"."""
        W, a = float(mass.sum()), heaviest(mass, self.f)
        aside = min(W / len(mass), (W - 2 * a) / 3) if self.others == "n-f-2" else 0.0
        taken = nearest_mass(D, mass, W - a - aside) / W
        return np.asarray((taken * (finite(D) if self.squared else np.sqrt(finite(D)))).sum(axis=1))


@value
class Krum(_Krum):
    r"""The vector with the least sum of squared distances to its n - f - 2 nearest others.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.
    others : "n-f-2" or "n-f-1"
        How many nearest others count. "n-f-2" is the paper's form and needs n ≥ 2f + 3. "n-f-1" is ByzFL's form and is
        good from n = 2f + 1.
    squared : bool
        Whether squared distances are added up. False adds up plain distances, as TorchJD does.
    needs : "2f+3" or "f+3"
        How many vectors a round needs. "2f+3" is the paper's bound, and stands for 2f + 1 with `others="n-f-1"`. With
        "f+3" fewer are enough, as in TorchJD: a score then still has a neighbour.

    Notes
    -----
    .. math:: F(X) = x_j, \quad j \in \arg\min_i \sum_{x \in N(x_i)} \lVert x - x_i \rVert^2

    with :math:`N(x_i)` the :math:`n - f - 2` vectors nearest to :math:`x_i` without itself.

    Guarantee: (f, κ)-robust for κ = (√(2(n-f)) + √(f+1))² / (n-2f-1). With `others="n-f-1"`
    it is κ = (√(2(n-f)) + √f)² / (n-2f). docs/guarantees.md has the proofs. Rounds that only `needs="f+3"` allows have
    no guarantee: with n ≤ 2f the Byzantine workers can be the crowd.

    With weights, :math:`N(x_i)` are the nearest vectors that hold W - a, itself included, and the last one counts in
    part. "n-f-2" leaves out one mean weight more, W/n, but no more than a third of W - 2a. A weight of 3 is then not
    the same as three copies, since one of 3n copies is less than one of n workers. In the form "n-f-1" it is the same.

    Cost: O(n² d) time. Ties go to the lowest index. A vector that is not finite is dropped. More than f of them raise
    `TooManyFaults`.

    References
    ----------
    .. [1] Blanchard et al. 2017, "Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import Krum
    >>> Krum(f=1)(np.array([[0.0], [1.0], [1.5], [2.1], [90.0]]))
    array([1.5])
    """

    f: Tolerance
    others: Others = "n-f-2"
    squared: bool = True
    needs: Needs = "2f+3"
    formula = "x_j, j = argmin_i Σ ‖x - x_i‖² over its n-f-2 nearest others"
    promise = "κ ≤ (√(2(n-f))+√(f+1))²/(n-2f-1)"
    time = "n² d"
    why = "its score is not the least"
    fails = "against copies near the cloud, which have the least score; and its answer has the noise of one vector"
    source = "Blanchard et al. 2017"

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights:
        return self._best(D, 1)

    def weights_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> Weights:
        return even(np.array([self.scores_by_mass(D, mass).argmin()]), len(D))


@value
class MultiKrum(_Krum):
    r"""Mean of the m vectors with the least Krum scores.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.
    m : int or None
        How many vectors are averaged. None: n - f.
    others : "n-f-2" or "n-f-1"
        How many nearest others count in a score, as in `Krum`.
    squared : bool
        Whether squared distances are added up, as in `Krum`.
    needs : "2f+3" or "f+3"
        How many vectors a round needs, as in `Krum`.

    Notes
    -----
    .. math:: F(X) = \tfrac{1}{m} \sum_{i \in S} x_i, \quad
              S \text{ the } m \text{ of least } \sum_{x \in N(x_i)} \lVert x - x_i \rVert^2

    with :math:`N(x_i)` the :math:`n - f - 2` vectors nearest to :math:`x_i` without itself.

    Guarantee: `holdfast bounds` prints its κ, which is at most Krum's.

    With weights, scores are as in `Krum`. The vectors of least score that hold W - a are averaged by weight, or m mean
    weights of them, and the last one counts in part. A weight of 3 is the same as three copies if `others` is "n-f-1"
    and m is None. Otherwise it is not, since counts of workers do not grow with copies.

    Cost: O(n² d) time. Ties go to the lowest index. A vector that is not finite is dropped. More than f of them raise
    `TooManyFaults`.

    References
    ----------
    .. [1] Blanchard et al. 2017, "Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import MultiKrum
    >>> MultiKrum(f=1, m=3)(np.array([[0.0], [1.0], [1.5], [2.0], [90.0]]))
    array([1.5])
    """

    f: Tolerance
    m: Count | None = None
    others: Others = "n-f-2"
    squared: bool = True
    needs: Needs = "2f+3"
    formula = "mean of the m vectors of least Krum score"
    promise = "κ by `holdfast bounds`; at most Krum's"
    time = "n² d"
    why = "not among the m least scores"
    fails = "against copies near the cloud, which have the best scores; with m > n - f liars are in for certain"
    source = "Blanchard et al. 2017"

    def least(self) -> int:
        return max(super().least(), self.m or 0)

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights:
        return self._best(D, self.m or D.shape[1] - self.f)

    def weights_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> Weights:
        W = float(mass.sum())
        amount = self.m * W / len(mass) if self.m else W - heaviest(mass, self.f)
        return spread_over(nearest_mass(self.scores_by_mass(D, mass)[None], mass, amount)[0])


@value
class Selection(Mixing):
    """The first half of Bulyan: Krum's picks, one row each.

    "in turn": n - 2f vectors, each pick without those before. "at once": the n - 2f vectors of least score. "means":
    n - 2f - 2 times the mean of the m - f - 2 vectors of least score in a pool of m, of which the vector nearest to the
    mean then leaves the pool.
    """

    f: Tolerance
    picks: Picks = "in turn"

    @property
    def precise(self) -> bool:
        return self.picks == "means"  # it adds up distances to find the nearest to a mean

    def size(self, n: int) -> int:
        return n - 2 * self.f - (2 if self.picks == "means" else 0)

    def mix(self, D: Distances, rng: Rng | None = None) -> np.ndarray:
        n = len(D)
        if self.picks == "at once":
            return np.eye(n)[self._order(D)[: self.size(n)]]
        pool = np.arange(n)
        M = np.zeros((self.size(n), n))
        for row in M:
            near = D[np.ix_(pool, pool)]
            best = self._order(near)[: len(pool) - self.f - 2 if self.picks == "means" else 1]
            row[pool[best]] = 1 / len(best)
            leaves = best[finite(near)[np.ix_(best, best)].sum(axis=1).argmin()]  # the nearest to their mean
            pool = np.delete(pool, leaves)
        return M

    def _order(self, D: Distances) -> np.ndarray:
        """The points by their Krum score, the least first."""
        return np.argsort(krum_scores(D, max(1, len(D) - self.f - 2), squared=True), kind="stable")


@value
class Bulyan(Stage):
    r"""Krum's picks, then in each coordinate the mean of the picked values nearest to their median.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.
    picks : "in turn", "at once" or "means"
        What Krum picks. "in turn" is the paper's form. "at once" is the form of Flower's `Bulyan` strategy, and "means"
        is that of the library krum.

    Notes
    -----
    Krum picks n - 2f vectors one after the other, each time among those that are left, with
    :math:`\max(1, m - f - 2)` neighbours in a pool of m. In each coordinate of the picks, the n - 4f values nearest to
    their median are averaged.

    With `picks="at once"`, the picks are the n - 2f vectors of least score among all. With `picks="means"`, n - 2f - 2
    picks are means: of the m - f - 2 vectors of least score in a pool of m, from which the vector nearest to that mean
    is then taken out. The answer is the trimmed mean of each coordinate of these means, without the f lowest and the f
    highest.

    Guarantee: none known here. The rule needs n ≥ 4f + 3.

    Cost: O(n² d + n³) time. Ties go to the lowest index. A vector that is not finite is dropped. More than f of them
    raise `TooManyFaults`.

    References
    ----------
    .. [1] El Mhamdi et al. 2018, "The Hidden Vulnerability of Distributed Learning in Byzantium".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import Bulyan
    >>> X = np.array([[0.0], [1.0], [1.5], [2.0], [3.0], [4.0], [90.0]])
    >>> Bulyan(f=1)(X)
    array([1.5])
    >>> Bulyan(f=1, picks="means")(X)
    array([1.875])
    """

    f: Tolerance
    picks: Picks = "in turn"
    formula = "n-2f Krum picks, then each coordinate's n-4f values nearest to the median"
    promise = "none known here"
    time = "n² d + n³"
    why = "not picked, or trimmed in every coordinate"
    fails = "near n = 4f + 3, where it averages three values a coordinate; below that it cannot be used"
    source = "El Mhamdi et al. 2018"

    def least(self) -> int:
        return 4 * self.f + 3

    def stages(self) -> tuple[Stage, ...]:
        then = CWTM(self.f) if self.picks == "means" else MeaMed(2 * self.f)
        return (Selection(self.f, self.picks), then)
