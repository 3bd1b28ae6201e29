"""Rules that average the vectors nearest to something: the origin, a trusted worker, another rule's answer."""

from __future__ import annotations

import numpy as np

from holdfast.errors import BadInput
from holdfast.masses import heaviest, nearest_mass
from holdfast.rules.base import CoordinateRule, DistanceRule, Distances, Rng, Stage, Tolerance, Weights, value
from holdfast.rules.clipping import pulled
from holdfast.rules.clustering import even, finite, nearest, spread_over
from holdfast.values import WorkerIndex


@value
class Medoid(DistanceRule):
    r"""The vector of least summed distance to all others.

    Notes
    -----
    .. math:: F(X) = x_j, \quad j \in \arg\min_i \sum_k \lVert x_i - x_k \rVert

    The geometric median among the vectors themselves; it needs no f. Krum as some libraries write it, without f, is
    this rule with squared distances. Vectors beyond 1e8 radii count from there, along their ray, so that a vector of
    length 1e300 cannot make all sums equal.

    Guarantee: (f, κ)-robust for every f < n/2, with κ ≤ 2(n-f)(n-f-1)/(n-2f)² and λ ≤ (n-f-1)/(n-2f).

    Cost: O(n² d) time. Ties go to the lowest index. A vector that is not finite is dropped. If half of the vectors or
    more are dropped, `TooManyFaults` is raised.

    References
    ----------
    .. [1] Kaufman and Rousseeuw 1987, "Clustering by Means of Medoids".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import Medoid
    >>> Medoid()(np.array([[0.0], [1.0], [1.5], [90.0]]))
    array([1.])
    """

    formula = "x_j, j = argmin_i Σ ‖x_i - x_k‖ over all k"
    promise = "κ ≤ 2h(h-1)/q² with h = n-f, q = n-2f"
    time = "n² d"
    precise = True
    majority = True
    why = "its sum of distances is not the least"
    fails = "nobody need lie: the answer is one vector, with all of its noise"
    source = "Kaufman and Rousseeuw 1987"

    def stages(self) -> tuple[Stage, ...]:
        return pulled(self, "medoid")  # next to a far vector's distance the others' differences would be lost

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights:
        return even(np.sqrt(D).sum(axis=1).argmin(keepdims=True), len(D))

    def weights_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> Weights:
        return even((np.sqrt(D) @ mass).argmin(keepdims=True), len(D))


@value
class CGE(DistanceRule):
    r"""Comparative gradient elimination: the mean of the n - f vectors of least norm.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.

    Notes
    -----
    .. math:: F(X) = \tfrac{1}{n-f} \sum_{i \in S} x_i, \quad S \text{ the } n - f \text{ of least } \lVert x_i \rVert

    Guarantee: the answer is bounded by the honest norms, not by their spread. Byzantine vectors that are not longer
    than the honest ones all stay in. The answer depends on where the origin is. Some libraries return the sum, not the
    mean.

    Cost: O(n d) time. Ties go to the lowest index. A vector that is not finite is dropped. More than f of them raise
    `TooManyFaults`.

    References
    ----------
    .. [1] Gupta et al. 2020, "Byzantine Fault-Tolerant Distributed Machine Learning Using Stochastic Gradient
       Descent (SGD) and Norm-Based Comparative Gradient Elimination (CGE)".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import CGE
    >>> CGE(f=1)(np.array([[1.0], [2.0], [90.0]]))
    array([1.5])
    """

    f: Tolerance
    anchors = ("origin",)
    formula = "mean of the n-f of least ‖x_i‖"
    promise = "bounded by the honest norms, not by their spread"
    time = "n d"
    why = "among the f longest"
    fails = "against liars that are no longer than the honest: a flipped sign has the same norm"
    source = "Gupta et al. 2020"

    def centres(self, rows: np.ndarray, rng: Rng | None) -> np.ndarray:
        return np.array([len(rows)])

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights:
        n = D.shape[1] - 1
        return even(nearest(D[:, :n], 0, n - self.f), n + 1)


@value
class MoNNA(DistanceRule):
    r"""Mean of the n - f vectors nearest to a trusted one, as an honest worker computes it.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.
    pivot : int
        The row of the trusted vector: the worker's own number.

    Notes
    -----
    .. math:: F(X) = \tfrac{1}{n-f} \sum_{x \in K(x_p)} x

    with p the pivot and :math:`K(x_p)` the n - f vectors nearest to its vector, itself included.

    Guarantee: worth what the pivot is worth. A Byzantine worker there chooses the answer. The call raises `BadInput`
    if the pivot's vector was dropped.

    Cost: O(n d) time. Ties go to the lowest index. A vector that is not finite is dropped. More than f of them raise
    `TooManyFaults`.

    References
    ----------
    .. [1] Farhadkhani et al. 2023, "Robust Collaborative Learning with Linear Gradient Overhead".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import MoNNA
    >>> MoNNA(f=1, pivot=2)(np.array([[0.0], [1.0], [2.0], [90.0]]))
    array([1.])
    """

    f: Tolerance
    pivot: WorkerIndex
    formula = "mean of the n-f nearest to x_pivot"
    promise = "that of K(x_p), if the pivot is honest"
    time = "n d"
    why = "among the f farthest from the pivot"
    fails = "if the pivot lies: it chooses the answer"
    source = "Farhadkhani et al. 2023"

    def centres(self, rows: np.ndarray, rng: Rng | None) -> np.ndarray:
        at = np.flatnonzero(rows == self.pivot)
        if len(at) == 0:
            raise BadInput(
                f"{self!r} was given no usable vector {self.pivot}; choose a pivot that is there and finite."
            )
        return at

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights:
        n = D.shape[1]
        return even(nearest(D, 0, n - self.f), n)


@value
class MedianwO(DistanceRule):
    r"""Mean of the :math:`n - f` vectors of least summed distance to one of them.

    Parameters
    ----------
    f : int
        The number of Byzantine workers that the rule tolerates, n > 2f.

    Notes
    -----
    .. math:: F(X) = \tfrac{1}{n-f} \sum_{x \in K(x_j)} x, \quad
              j \in \arg\min_i \sum_{x \in K(x_i)} \lVert x - x_i \rVert

    with :math:`K(x_i)` the :math:`n - f` vectors nearest to :math:`x_i`, itself included: 1-median clustering with
    outliers, where MeanwO has squared distances. With h = n - f and q = n - 2f it is (f, κ)-robust for

    .. math:: \kappa = \tfrac{f}{q} (1 + \sqrt{1 + \kappa_c})^2, \quad
              \kappa_c = \Bigl( \tfrac{\sqrt{2h(h-1)}}{q} + \sqrt{\tfrac{f}{q}} \Bigr)^2,

    which is O(f/n) while f/n stays away from 1/2
    (docs/guarantees.md, MedianwO). It answers the paper's question about other clusterings with outliers.
    Cost: O(n² d) time. Ties go to the lowest index. A vector that is not finite is dropped. More than f of them raise
    `TooManyFaults`.

    References
    ----------
    .. [1] Yi et al. 2024, "Near-Optimal Resilient Aggregation Rules for Distributed Learning Using 1-Center and
       1-Mean Clustering with Outliers", which asks for it.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import MedianwO
    >>> MedianwO(f=1)(np.array([[0.0], [1.0], [2.0], [90.0]]))
    array([1.])
    """

    f: Tolerance
    formula = "mean of the n-f nearest to argmin_i Σ ‖x - x_i‖ over them"
    promise = "κ = O(f/n) while f/n stays away from 1/2"
    time = "n² d"
    why = "not among the n - f of least summed distance to one vector"
    why_weighted = "outside the group of least summed distance that holds W - a"
    fails = "in a sneak, as MeanwO; its proved constant is larger"
    source = "ours, for the open question of Yi et al. 2024"

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights:
        k = len(D) - self.f
        centre = int(np.sort(np.sqrt(D), axis=1)[:, :k].sum(axis=1).argmin())
        return even(nearest(D, centre, k), len(D))

    def weights_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> Weights:
        taken = nearest_mass(D, mass, mass.sum() - heaviest(mass, self.f))
        return spread_over(taken[int((taken * np.sqrt(finite(D))).sum(axis=1).argmin())])


@value
class NearestTo(DistanceRule):
    r"""Mean of the n - f vectors nearest to the answer of another rule.

    Parameters
    ----------
    rule : DistanceRule or CoordinateRule
        The rule whose answer is the centre.
    f : int, optional
        The number of Byzantine workers that the rule tolerates. Needed if the inner rule has no f of its own, as
        GeometricMedian and CWM; otherwise the inner rule's.

    Raises
    ------
    BadInput
        If the rule has no single answer or needs a start, or if no f is known.

    Notes
    -----
    .. math:: F(X) = \tfrac{1}{n-f} \sum_{x \in K(c)} x, \quad c = G(X)

    with G the rule and K(c) the n - f vectors nearest to its answer. If G has κ_G, this has
    :math:`\kappa \le \tfrac{f}{n-2f} (1 + \sqrt{1 + \kappa_G})^2` (docs/guarantees.md, nearest to an answer): every
    constant κ_G gives a κ of the best order. Around CWTM(f) it is an (n-f)/(n-2f)-approximation of 1-mean clustering
    with outliers and a (1 + √((n-f)/(n-2f)))-approximation of 1-center, better than MeanwO's 2 for f < n/3, in linear
    time: O(n d) beyond the inner rule, one pass more. Ties go to the lowest index.

    References
    ----------
    .. [1] Dahan and Levy 2024a, "Fault Tolerant ML: Efficient Meta-Aggregation and Synchronous Training" (CTMA).
    .. [2] Yi et al. 2024, "Near-Optimal Resilient Aggregation Rules for Distributed Learning Using 1-Center and
       1-Mean Clustering with Outliers", which point to linear time.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import CWTM, GeometricMedian, NearestTo
    >>> NearestTo(CWTM(f=1))(np.array([[0.0], [1.0], [2.0], [90.0]]))
    array([1.])
    >>> NearestTo(GeometricMedian(), f=1)(np.array([[0.0], [1.0], [2.0], [90.0]]))
    array([1.])
    """

    rule: Stage
    f: Tolerance | None = None
    anchors = ("answer",)
    formula = "mean of the n-f nearest to another rule's answer"
    promise = "κ ≤ (1+√(1+κ_G))² f/(n-2f) around a rule with κ_G"
    time = "n d beyond the other rule's"
    why = "among the f farthest from the other rule's answer"
    why_weighted = "not among the nearest to the other rule's answer that hold W - a"
    fails = "in a sneak; and with CWTM beyond f = n/3 its constant is larger than MeanwO's"
    source = "Dahan and Levy 2024a (CTMA)"

    def __post_init__(self) -> None:
        inner = self.rule
        if not isinstance(inner, (CoordinateRule, DistanceRule)) or isinstance(inner, NearestTo) or inner.starts():
            raise BadInput(
                f"NearestTo was given {inner!r}; it takes one rule that needs no start, as CWTM(f=3) or Krum(f=3)."
            )
        mine = inner.tolerance()
        if mine is None and self.f is None:
            raise BadInput(f"NearestTo was given {inner!r}, which has no f; write NearestTo({inner!r}, f=3).")
        if mine is not None and self.f not in (None, mine):
            raise BadInput(f"NearestTo was given f = {self.f} and {inner!r}; leave f out, or give both the same.")
        super().__post_init__()

    def tolerance(self) -> int:
        mine = self.rule.tolerance()
        return mine if mine is not None else self.f or 0

    def least(self) -> int:
        return max(self.rule.least(), 2 * self.tolerance() + 1)

    def lowered(self, by: int) -> NearestTo:
        return NearestTo(self.rule.lowered(by), None if self.f is None else max(0, self.f - by))

    def stages(self) -> tuple[Stage, ...]:
        return (*self.rule.stages(), self)

    def centres(self, rows: np.ndarray, rng: Rng | None) -> np.ndarray:
        return np.array([len(rows)])

    @property
    def random(self) -> bool:
        return self.rule.random

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights:
        n = D.shape[1] - 1
        return even(nearest(D[:, :n], 0, n - self.tolerance()), n + 1)

    def weights_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> Weights:
        taken = nearest_mass(D[:, :-1], mass, mass.sum() - heaviest(mass, self.tolerance()))
        return np.append(spread_over(taken[0]), 0.0)
