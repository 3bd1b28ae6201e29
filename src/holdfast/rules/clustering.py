"""1-center and 1-mean clustering with outliers: the rules of the paper (Yi et al. 2024).

CenterwO and MeanwO are its Algorithm 2, also called Inner; OuterCenter and OuterMean its Algorithm 4.
The constants are proved in docs/guarantees.md; where they differ from those of its Theorem 2, theirs are
larger or, for CenterwO as an agnostic robust aggregator, not true.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from holdfast.errors import BadInput, NoWeightedForm
from holdfast.masses import farthest_taken, heaviest, nearest_mass
from holdfast.rules.base import Choice, DistanceRule, Distances, Rng, Tolerance, Weights, value
from holdfast.values import AtLeast, Count

ROOM = 1e-4  # part of a radius by which the program of Yi et al. widens a ball
STEPS = 50  # concentration steps at most
BEYOND = 1e300  # stands for an infinite squared distance in products, where 0 · inf would be nan


def nearest(D: Distances, row: int, k: int) -> np.ndarray:
    """Positions of the k points nearest to a centre, in order; ties go to the lowest index."""
    return np.argsort(D[row], kind="stable")[:k]


def within(D: Distances, row: int, k: int) -> np.ndarray:
    """Positions of all points that are no farther from a centre than its k-th nearest, up to a part in 10,000."""
    return np.flatnonzero(D[row] <= np.partition(D[row], k - 1)[k - 1] * (1 + ROOM) ** 2)


def even(members: np.ndarray, n: int) -> Weights:
    """Equal weights on the members, none on the other points.

    >>> even(np.array([0, 2]), 3)
    array([0.5, 0. , 0.5])
    """
    w = np.zeros(n)
    w[members] = 1 / len(members)
    return w


def radii(D: Distances, k: int) -> np.ndarray:
    """Squared distance of each centre to its k-th nearest point, itself included."""
    return np.partition(D, k - 1, axis=1)[:, k - 1]


def scores(D: Distances, k: int) -> np.ndarray:
    """Sum of squared distances of each centre to its k nearest points."""
    return np.sort(D, axis=1)[:, :k].sum(axis=1)


def finite(D: Distances) -> Distances:
    """D with a huge number for inf, where products with zero would make nan of it."""
    return np.minimum(D, BEYOND)


def neighbourhoods(D: Distances, k: int) -> np.ndarray:
    """The k points nearest to each centre, one mask per centre; ties go to the lowest index."""
    masks = np.zeros(D.shape, bool)
    np.put_along_axis(masks, np.argsort(D, axis=1, kind="stable")[:, :k], True, axis=1)
    return masks


def sums_of_squares(D: Distances, masks: np.ndarray) -> np.ndarray:
    """Sum of squares around the mean of each set of points."""
    sets = masks.astype(float)
    return np.einsum("bi,bi->b", sets @ finite(D), sets) / (2 * sets.sum(axis=1))


def concentrated(D: Distances, masks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Concentration steps: each set becomes the points nearest to its mean, while that lowers its sum of squares."""
    k = int(masks[0].sum())
    costs = sums_of_squares(D, masks)
    for _ in range(STEPS):
        steps = neighbourhoods(masks @ finite(D) / k, k)
        lower = sums_of_squares(D, steps) < costs * (1 - 1e-13)
        if not lower.any():
            break
        masks = np.where(lower[:, None], steps, masks)
        costs = sums_of_squares(D, masks)
    return masks, costs


def spread_over(taken: np.ndarray) -> Weights:
    """Weights in proportion to the mass that was taken of each point."""
    return np.asarray(taken / taken.sum())


Ties = Literal["first", "all"]


@value
class CenterwO(DistanceRule):
    r"""Mean of the n - f vectors in the tightest ball centred on one of them.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.
    candidates : int or None
        How many vectors can be the centre. None: all. Fewer candidates are drawn with `rng`, after all vectors have
        arrived, for thousands of workers.
    ties : "first" or "all"
        "first" keeps exactly n - f vectors. "all" keeps every vector that is as near as the (n-f)-th, as the authors'
        program does. Then f copies at the border of the ball enter together, and λ is lost.

    Notes
    -----
    .. math:: F(X) = \tfrac{1}{n-f} \sum_{x \in K(x_j)} x, \quad
              j \in \arg\min_i \max_{x \in K(x_i)} \lVert x - x_i \rVert

    with :math:`K(x_i)` the :math:`n - f` vectors nearest to :math:`x_i`, itself included.

    Guarantee: a 2-approximation of 1-center clustering with outliers (Yi et al. 2024, Lemma 1). (f, λ)-resilient for
    λ = (3f - 1) / (n - f), 0 at f = 0; docs/guarantees.md has the proof. With m candidates λ holds as long as one
    candidate is honest, which fails with probability (f/n)^m at most.

    Cost: O(n² d) time, O(n²) memory beyond X; O(m n d) time with m candidates. Ties go to the lowest index. A vector
    that is not finite is dropped. More than f of them raise `TooManyFaults`.

    The decision's cost is the radius of the ball. Its bound is a radius that no ball around n - f of the vectors can
    go below.

    References
    ----------
    .. [1] Yi et al. 2024, "Near-Optimal Resilient Aggregation Rules for Distributed Learning Using 1-Center and
       1-Mean Clustering with Outliers", Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import CenterwO
    >>> CenterwO(f=1)(np.array([[0.0], [1.0], [2.0], [90.0]]))
    array([1.])
    """

    f: Tolerance
    candidates: Count | None = None
    ties: Ties = "first"
    formula = "mean of the n-f nearest to argmin_i max ‖x - x_i‖"
    promise = "λ = (3f-1)/(n-f)"
    time = "n² d"
    why = "outside the tightest ball of n - f"
    why_weighted = "outside the tightest ball that holds W - a"
    fails = "in a sneak: liars closer together than the honest draw the ball; at a fixed f/n its κ grows with n"
    source = "Yi et al. 2024, Algorithm 2"

    @property
    def random(self) -> bool:
        return self.candidates is not None

    def centres(self, rows: np.ndarray, rng: Rng | None) -> np.ndarray | None:
        return drawn(len(rows), self.candidates, rng)

    def weights(self, D: Distances, rng: Rng | None = None) -> Choice:
        k = D.shape[1] - self.f
        radius = radii(D, k)
        j = int(radius.argmin())
        kept = even((within if self.ties == "all" else nearest)(D, j, k), D.shape[1])
        cost = float(np.sqrt(radius[j]))
        if len(D) < D.shape[1]:  # of some candidates only
            return Choice(kept, cost, power=1)
        bound = np.partition(radius, k - 1)[k - 1] / 4  # k points have a k-th neighbour within twice the optimum
        return Choice(kept, cost, np.sqrt(bound), power=1, ball=(j, cost))

    def weights_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> Choice:
        refuse_all_ties(self)
        taken = nearest_mass(D, mass, mass.sum() - heaviest(mass, self.f))
        radius = farthest_taken(D, taken)
        j = int(radius.argmin())
        cost = float(np.sqrt(radius[j]))
        return Choice(spread_over(taken[j]), cost, power=1, ball=(j, cost) if len(D) == D.shape[1] else None)


@value
class MeanwO(DistanceRule):
    r"""Mean of the n - f vectors of least squared distance to one of them.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.
    refine : int
        From how many of the best centres concentration steps start; 0: none. A step takes the n - f vectors nearest to
        the mean of the last n - f, while that lowers their sum of squares. The best set is taken. All that is proved
        of MeanwO is kept.
    candidates : int or None
        How many vectors can be the centre. None: all. Fewer candidates are drawn with `rng`, after all vectors have
        arrived, for thousands of workers.
    ties : "first" or "all"
        "first" keeps exactly n - f vectors. "all" keeps every vector that is as near as the (n-f)-th, as the authors'
        program does. Then f copies at the border enter together, and κ is lost.

    Raises
    ------
    BadInput
        If `refine` is combined with `candidates` or with `ties="all"`.

    Notes
    -----
    .. math:: F(X) = \tfrac{1}{n-f} \sum_{x \in K(x_j)} x, \quad
              j \in \arg\min_i \sum_{x \in K(x_i)} \lVert x - x_i \rVert^2

    with :math:`K(x_i)` the :math:`n - f` vectors nearest to :math:`x_i`, itself included.

    Guarantee: a 2-approximation of 1-mean clustering with outliers (Yi et al. 2024, Lemma 1). (f, κ)-robust for
    κ = f/(n - 2f) · (1 + min(√2, √((n-f)/(n-2f))))², 0 at f = 0; docs/guarantees.md has the proof. With m candidates
    κ ≤ (1 + √3)² f/(n-2f) fails with probability (1 - (1 - f/n)/2)^m at most.

    Cost: O(n² d) time, O(n²) memory beyond X; O(m n d) time with m candidates. Ties go to the lowest index. A vector
    that is not finite is dropped. More than f of them raise `TooManyFaults`.

    The decision's cost is the sum of squares of the kept vectors around their mean. Its bound is a lower bound on that
    of any n - f vectors. With candidates the cost is the sum of squared distances to the centre.

    References
    ----------
    .. [1] Yi et al. 2024, "Near-Optimal Resilient Aggregation Rules for Distributed Learning Using 1-Center and
       1-Mean Clustering with Outliers", Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import MeanwO
    >>> MeanwO(f=1)(np.array([[0.0], [1.0], [2.0], [90.0]]))
    array([1.])
    """

    f: Tolerance
    refine: Annotated[int, AtLeast(0)] = 0
    candidates: Count | None = None
    ties: Ties = "first"
    formula = "mean of the n-f nearest to argmin_i Σ ‖x - x_i‖²"
    promise = "κ ≤ 5.83 f/(n-2f)"
    time = "n² d"
    why = "not among the n - f of least squared distance"
    why_weighted = "outside the tightest group that holds W - a"
    fails = "in a sneak: liars closer together than the honest are kept; near n = 2f its λ exceeds CenterwO's"
    source = "Yi et al. 2024, Algorithm 2"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.refine and self.ties == "all":
            raise BadInput(
                f"{self!r} cannot do both: a refined set has no centre to which others are as near; choose one."
            )
        if self.refine and self.candidates:
            raise BadInput(f"{self!r} cannot do both: refining needs the distances between all vectors; choose one.")

    @property
    def random(self) -> bool:
        return self.candidates is not None

    def centres(self, rows: np.ndarray, rng: Rng | None) -> np.ndarray | None:
        return drawn(len(rows), self.candidates, rng)

    def weights(self, D: Distances, rng: Rng | None = None) -> Choice:
        n = D.shape[1]
        k = n - self.f
        score = scores(D, k)
        if self.ties == "all":
            return Choice(even(within(D, int(score.argmin()), k), n), float(score.min()))
        if len(D) < n:  # of some candidates only: their scores are all that is known
            return Choice(even(nearest(D, int(score.argmin()), k), n), float(score.min()))
        bound = np.sort(score)[:k].sum() / (2 * k)
        starts = np.argsort(score, kind="stable")[: max(1, self.refine)]
        masks, costs = neighbourhoods(D[starts], k), np.zeros(1)
        if self.refine:
            masks, costs = concentrated(D, masks)
        K = np.flatnonzero(masks[int(costs.argmin())])
        cluster = None if self.refine else ball(D, int(starts[0]), k)  # a refined set has no centre among the vectors
        return Choice(even(K, n), D[K[:, None], K].sum() / (2 * k), bound, ball=cluster)

    def weights_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> Weights:
        refuse_all_ties(self)
        amount = float(mass.sum() - heaviest(mass, self.f))
        taken = nearest_mass(D, mass, amount)
        score = (taken / amount * finite(D)).sum(axis=1)
        starts = taken[np.argsort(score, kind="stable")[: max(1, self.refine)]]
        return spread_over(concentrated_mass(D, starts, mass, amount) if self.refine else starts[0])


def refuse_all_ties(rule: CenterwO | MeanwO) -> None:
    """With weights the last vector is split, so no tie can be left."""
    if rule.ties == "all":
        raise NoWeightedForm.of(rule, "ties='all' splits no vector")


def concentrated_mass(D: Distances, sets: np.ndarray, mass: np.ndarray, amount: float) -> np.ndarray:
    """Concentration steps of sets that hold parts of points; the set of the least sum of squares."""
    D, sets = finite(D), sets / amount  # sums of a set are one, so that none overflows
    costs = np.einsum("bi,ij,bj->b", sets, D, sets, optimize=True)
    for _ in range(STEPS):
        steps = nearest_mass(sets @ D, mass, amount) / amount
        new = np.einsum("bi,ij,bj->b", steps, D, steps, optimize=True)
        lower = new < costs * (1 - 1e-13)
        if not lower.any():
            break
        sets, costs = np.where(lower[:, None], steps, sets), np.where(lower, new, costs)
    return np.asarray(sets[int(costs.argmin())])


def drawn(n: int, candidates: int | None, rng: Rng | None) -> np.ndarray | None:
    """Positions of the candidate centres, drawn after all have submitted; None for all."""
    if candidates is None or rng is None or candidates >= n:
        return None
    return np.sort(rng.choice(n, candidates, replace=False))


def ball(D: Distances, row: int, k: int) -> tuple[int, float] | None:
    """The ball around a point that holds its k nearest; None if k is 0."""
    return (row, float(np.sqrt(radii(D[[row]], k)[0]))) if k else None


def outside(D: Distances, row: int, f: int) -> Choice:
    """Equal weights on all points but the f nearest to a centre."""
    n = D.shape[1]
    return Choice(even(np.setdiff1d(np.arange(n), nearest(D, row, f)), n), ball=ball(D, row, f))


def outside_mass(D: Distances, mass: np.ndarray, taken: np.ndarray, row: int) -> Choice:
    """Weights of all mass that is not in a cluster around a point."""
    radius = float(np.sqrt(max(0.0, farthest_taken(D, taken)[row])))
    return Choice(spread_over(mass - taken[row]), ball=(row, radius) if taken.any() else None)


@value
class OuterCenter(DistanceRule):
    r"""Mean of the n - f vectors outside of the tightest ball that holds f.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.

    Notes
    -----
    .. math:: F(X) = \tfrac{1}{n-f} \sum_{x \in X \setminus N(x_j)} x, \quad
              j \in \arg\min_i \max_{x \in N(x_i)} \lVert x - x_i \rVert

    with :math:`N(x_i)` the f vectors nearest to :math:`x_i`, itself included.

    Guarantee: none by itself. The rule is made for sneak attacks, as one of two candidates (`Cent2P`). By itself it is
    unbounded in every criterion: Byzantine workers far out leave the honest as the tightest cluster. With f = 1 it
    leaves out the first vector.

    Cost: O(n² d) time. Ties go to the lowest index. A vector that is not finite is dropped. More than f of them raise
    `TooManyFaults`.

    References
    ----------
    .. [1] Yi et al. 2024, "Near-Optimal Resilient Aggregation Rules for Distributed Learning Using 1-Center and
       1-Mean Clustering with Outliers", Algorithm 4.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import OuterCenter
    >>> OuterCenter(f=2)(np.array([[0.0], [3.0], [3.1], [6.0], [9.0]]))
    array([5.])
    """

    f: Tolerance
    formula = "mean without the f nearest to argmin_i max ‖x - x_i‖"
    promise = "none by itself (unbounded); half of a two-phase round"
    time = "n² d"
    why = "in the tightest ball of f"
    why_weighted = "in the tightest ball that holds a"
    fails = "in a siege: the honest are then the tightest cluster, and f of them are excluded"
    source = "Yi et al. 2024, Algorithm 4"

    def weights(self, D: Distances, rng: Rng | None = None) -> Choice:
        return outside(D, int(radii(D, max(1, self.f)).argmin()), self.f)

    def weights_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> Choice:
        taken = nearest_mass(D, mass, heaviest(mass, self.f))
        return outside_mass(D, mass, taken, int(farthest_taken(D, taken).argmin()))


@value
class OuterMean(DistanceRule):
    r"""Mean of the n - f vectors outside of the f of least squared distance to one of them.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.

    Notes
    -----
    .. math:: F(X) = \tfrac{1}{n-f} \sum_{x \in X \setminus N(x_j)} x, \quad
              j \in \arg\min_i \sum_{x \in N(x_i)} \lVert x - x_i \rVert^2

    with :math:`N(x_i)` the f vectors nearest to :math:`x_i`, itself included.

    Guarantee: none by itself; like `OuterCenter` it is unbounded alone. It is one of two candidates (`Mean2P`).

    Cost: O(n² d) time. Ties go to the lowest index. A vector that is not finite is dropped. More than f of them raise
    `TooManyFaults`.

    References
    ----------
    .. [1] Yi et al. 2024, "Near-Optimal Resilient Aggregation Rules for Distributed Learning Using 1-Center and
       1-Mean Clustering with Outliers", Algorithm 4.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import OuterMean
    >>> OuterMean(f=2)(np.array([[0.0], [3.0], [3.1], [6.0], [9.0]]))
    array([5.])
    """

    f: Tolerance
    formula = "mean without the f nearest to argmin_i Σ ‖x - x_i‖²"
    promise = "none by itself (unbounded); half of a two-phase round"
    time = "n² d"
    why = "in the cluster of f of least squared distance"
    why_weighted = "in the tightest group that holds a"
    fails = "in a siege: the honest are then the tightest cluster, and f of them are excluded"
    source = "Yi et al. 2024, Algorithm 4"

    def weights(self, D: Distances, rng: Rng | None = None) -> Choice:
        return outside(D, int(scores(D, self.f).argmin()), self.f)

    def weights_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> Choice:
        amount = heaviest(mass, self.f)
        taken = nearest_mass(D, mass, amount)
        return outside_mass(D, mass, taken, int((taken / max(1.0, amount) * finite(D)).sum(axis=1).argmin()))
