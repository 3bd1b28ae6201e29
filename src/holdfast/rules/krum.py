"""Krum and Multi-Krum (Blanchard et al. 2017), with the forms that other libraries give these names."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from holdfast.errors import BadInput
from holdfast.masses import heaviest, nearest_mass
from holdfast.rules.base import DistanceRule, Distances, Mixing, Rng, Stage, Tolerance, Weights, value
from holdfast.rules.clustering import even, finite, spread_over
from holdfast.rules.coordinate import MeaMed
from holdfast.values import Count

Others = Literal["n-f-2", "n-f-1"]
FORMS = get_args(Others)


def krum_scores(D: Distances, others: int, *, squared: bool) -> np.ndarray:
    """Sum of the (squared) distances of each vector to its nearest others."""
    near = np.sort(D, axis=1)[:, 1 : others + 1]  # the first is the vector itself
    return (near if squared else np.sqrt(near)).sum(axis=1)


class _Krum(DistanceRule):
    f: Tolerance
    others: Others
    squared: bool

    def __post_init__(self) -> None:
        if self.others not in FORMS:
            name = type(self).__name__
            raise BadInput(f"{name} was given others = {self.others!r}; the forms are {' and '.join(FORMS)}.")
        super().__post_init__()

    def least(self) -> int:
        return 2 * self.f + (3 if self.others == "n-f-2" else 1)

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

    Notes
    -----
    .. math:: F(X) = x_j, \quad j \in \arg\min_i \sum_{x \in N(x_i)} \lVert x - x_i \rVert^2

    with :math:`N(x_i)` the :math:`n - f - 2` vectors nearest to :math:`x_i` without itself.

    Guarantee: (f, κ)-robust for κ = (√(2(n-f)) + √(f+1))² / (n-2f-1). With `others="n-f-1"`
    it is κ = (√(2(n-f)) + √f)² / (n-2f). docs/guarantees.md has the proofs.

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
    """The first half of Bulyan: the n - 2f vectors that Krum picks one after the other, each without those before."""

    f: Tolerance

    def size(self, n: int) -> int:
        return n - 2 * self.f

    def mix(self, D: Distances, rng: Rng | None = None) -> np.ndarray:
        n = len(D)
        pool = np.arange(n)
        M = np.zeros((self.size(n), n))
        for row in M:
            others = max(1, len(pool) - self.f - 2)
            best = int(krum_scores(D[np.ix_(pool, pool)], others, squared=True).argmin())
            row[pool[best]] = 1.0
            pool = np.delete(pool, best)
        return M


@value
class Bulyan(Stage):
    r"""Krum's picks, then in each coordinate the mean of the picked values nearest to their median.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.

    Notes
    -----
    Krum picks n - 2f vectors one after the other, each time among those that are left, with
    :math:`\max(1, m - f - 2)` neighbours in a pool of m. In each coordinate of the picks, the n - 4f values nearest to
    their median are averaged. Some libraries pick all at once by one round of scores, which is another rule.

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
    >>> Bulyan(f=1)(np.array([[0.0], [1.0], [1.5], [2.0], [3.0], [4.0], [90.0]]))
    array([1.5])
    """

    f: Tolerance
    formula = "n-2f Krum picks, then each coordinate's n-4f values nearest to the median"
    promise = "none known here"
    time = "n² d + n³"
    why = "not picked, or trimmed in every coordinate"
    fails = "near n = 4f + 3, where it averages three values a coordinate; below that it cannot be used"
    source = "El Mhamdi et al. 2018"

    def least(self) -> int:
        return 4 * self.f + 3

    def stages(self) -> tuple[Stage, ...]:
        return (Selection(self.f), MeaMed(2 * self.f))
