r"""1-mean clustering with outliers, solved to the optimum by branch and bound on the n x n matrix.

Points have masses: 1 if all count alike. With y_i the points seen from their mean, g_i = ‖y_i‖², G their inner
products and h the mass to keep, removing the mass r_i of each point leaves

.. math:: SS(N) - \sum_i r_i g_i - \tfrac{1}{h} \Big\lVert \sum_i r_i y_i \Big\rVert^2

so the most valuable r is sought. This is convex in r, so in the best r at most one point is removed in part. A node has
removed some points, kept others, and has some mass still to remove. A unit of an undecided point's mass is worth its
own part and its best partners at most, and the node the best units. Nodes are opened best first, many at once, so that
numpy does the work.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from holdfast.masses import heaviest, nearest_mass
from holdfast.rules.base import Choice, DistanceRule, Distances, Rng, Tolerance, value
from holdfast.rules.clustering import BEYOND, concentrated, concentrated_mass, neighbourhoods, scores, spread_over
from holdfast.values import Count

BATCH = 128  # nodes opened at once
SURE = 1e-11  # of the total: sums of squares closer than this count as equal


@value
class MeanExact(DistanceRule):
    r"""Mean of the n - f vectors of least sum of squares around their mean: MeanwO without the approximation.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.
    cap : int
        How many nodes the search may open.

    Notes
    -----
    .. math:: F(X) = \bar{x}_S, \quad S \in \arg\min_{|S| = n - f} \sum_{x \in S} \lVert x - \bar{x}_S \rVert^2

    Guarantee: (f, κ)-robust for κ = 4f/(n-2f), exactly; docs/guarantees.md has the proof. At the cap the best set
    found so far is taken. It keeps all that is proved of MeanwO, and the decision's cost and bound say how far from
    the optimum it can be at most.

    The problem is NP-hard in general. On the vectors of distributed learning the search is quick: tens to thousands of
    nodes are enough. The search is ours.

    With weights, the least sum of squares is sought among all ways to keep the weight W - a, of which at most one
    vector is kept in part. The decision's cost counts each vector by its weight, where weights have the mean 1.

    Cost: O(n² d) time beyond the search. Ties go to the set that is found first. A vector that is not finite is
    dropped. More than f of them raise `TooManyFaults`.

    References
    ----------
    .. [1] Yi et al. 2024, "Near-Optimal Resilient Aggregation Rules for Distributed Learning Using 1-Center and
       1-Mean Clustering with Outliers", the problem.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import MeanExact
    >>> MeanExact(f=1)(np.array([[0.0], [1.0], [2.0], [90.0]]))
    array([1.])
    """

    f: Tolerance
    cap: Count = 10_000
    formula = "mean of the n-f vectors of least sum of squares"
    promise = "κ = 4f/(n-2f)"
    time = "n² d + search"
    why = "outside the set of least sum of squares"
    fails = "in a sneak, as MeanwO; where no set stands out the search ends at its cap and tells the gap"
    source = "the problem of Yi et al. 2024; the search is ours"

    def weights(self, D: Distances, rng: Rng | None = None) -> Choice:
        return self.weights_by_mass(D, np.ones(len(D)), rng)

    def weights_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> Choice:
        result = search(D, mass, heaviest(mass, self.f), self.cap)
        mean = float(mass.mean())
        return Choice(spread_over(result.taken), result.cost / mean, result.bound / mean)


class Found(NamedTuple):
    """How much of each point is kept, the sum of squares, a lower bound on that of any such mass, and the nodes."""

    taken: np.ndarray
    cost: float
    bound: float
    nodes: int = 0


def search(D: Distances, mass: np.ndarray, out: float, cap: int) -> Found:
    """Branch and bound, from a good set on, over the mass that can be in a better one; the mass `out` is removed."""
    amount = float(mass.sum() - out)
    D = np.minimum(D, BEYOND / max(1.0, amount / len(D)) ** 2)  # so that no product overflows
    best, cost = incumbent(D, mass, amount)
    if out == 0 or cost == 0:
        return Found(best, cost, cost)
    each = scores_by_mass(D, mass, amount)
    with np.errstate(divide="ignore"):
        room = np.floor(np.minimum(mass, cost * amount * (1 + 1e-9) / each))  # more of a point is in no better set
    possible = np.flatnonzero(room)
    spare = float(room.sum() - amount)
    if spare <= 0:
        return Found(best, cost, cost)
    tree = Tree.over(D[np.ix_(possible, possible)], room[possible], spare, whole=bool(mass.max() == 1))
    taken, bound, nodes = tree.search(best[possible], cost, cap)
    best = np.zeros(len(D))
    best[possible] = taken
    exact = sum_of_squares(D, best)
    return Found(best, exact, min(exact, max(bound, least_by_scores(each, mass, amount))), nodes)


def sum_of_squares(D: Distances, taken: np.ndarray) -> float:
    """The sum of squares around the mean of what is taken of each point."""
    return float(taken @ D @ taken / (2 * taken.sum()))


def scores_by_mass(D: Distances, mass: np.ndarray, amount: float) -> np.ndarray:
    """The squared distances of each point to the nearest of this mass, added up."""
    if mass.max() == 1:
        return scores(D, int(amount))
    taken = nearest_mass(D, mass, amount)
    return np.asarray((taken * np.where(taken > 0, D, 0.0)).sum(axis=1))


def least_by_scores(each: np.ndarray, mass: np.ndarray, amount: float) -> float:
    """A lower bound on the least sum of squares that needs no subtraction: the least scores of this mass over twice it.

    >>> least_by_scores(np.array([2.0, 1.0, 9.0]), np.ones(3), 2.0)
    0.75
    """
    return float(nearest_mass(each[None], mass, amount)[0] @ np.where(np.isfinite(each), each, BEYOND) / (2 * amount))


def incumbent(D: Distances, mass: np.ndarray, amount: float) -> tuple[np.ndarray, float]:
    """A good set to begin with: concentration steps from every point's neighbourhood, then single exchanges."""
    if mass.max() == 1:
        masks, costs = concentrated(D, np.unique(neighbourhoods(D, int(amount)), axis=0))
        taken = masks[int(costs.argmin())].astype(float)
    else:
        starts = np.unique(nearest_mass(D, mass, amount), axis=0)
        taken = np.round(concentrated_mass(D, starts, mass, amount) * amount)
    taken = _exchanged(D, taken, mass)
    return taken, sum_of_squares(D, taken)


def _exchanged(D: Distances, taken: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Exchange mass of two points while that lowers the sum of squares, as much as there is, the best pair first."""
    for _ in range(len(D)):
        inside, outside = np.flatnonzero(taken), np.flatnonzero(taken < mass)
        if not len(outside):
            break
        sums = D @ taken
        moved = np.minimum(taken[inside, None], (mass - taken)[outside])
        change = moved * (sums[outside] - moved * D[np.ix_(inside, outside)] - sums[inside, None])
        i, j = divmod(int(change.argmin()), len(outside))
        if not change[i, j] < -1e-12 * float(taken @ sums):
            break
        taken = taken.copy()
        taken[inside[i]] -= moved[i, j]
        taken[outside[j]] += moved[i, j]
    return taken


def _filled(ordered: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """How much is taken of masses in this order along the first axis, the last one in part."""
    taken = np.cumsum(ordered, axis=0)
    taken -= ordered
    np.subtract(amount, taken, out=taken)
    np.maximum(taken, 0.0, out=taken)
    return np.minimum(taken, ordered, out=taken)


@dataclass(frozen=True)
class Tree:
    """The open nodes, one a row: what is undecided and removed, the worth of each point, the value so far."""

    G: np.ndarray
    h: float
    mass: np.ndarray
    partners: np.ndarray | None  # of each point, a column, the best first; None: no point is split
    undecided: np.ndarray
    removed: np.ndarray  # how much of each point
    worth: np.ndarray  # of removing a unit of each point now, with those already removed
    value: np.ndarray
    left: np.ndarray  # how much is still to be removed
    split: np.ndarray  # the point that is removed in part; -1: not decided, n: none
    bound: np.ndarray  # lower bound on the sum of squares

    @classmethod
    def over(cls, D: Distances, mass: np.ndarray, spare: float, *, whole: bool) -> Tree:
        n, w = len(D), mass / mass.sum()
        g = D @ w - 0.5 * w @ D @ w
        G = 0.5 * (g[:, None] + g - D)
        one, zero = np.ones((1, n), bool), np.zeros(1)
        split = np.array([n if whole else -1])
        nodes = one, np.zeros((1, n)), G.diagonal()[None], zero, zero + spare, split, zero - np.inf
        partners = None if whole else np.argsort(-G, axis=0, kind="stable")
        return cls(G, float(mass.sum() - spare), mass, partners, *nodes)

    def search(self, best: np.ndarray, cost: float, cap: int) -> tuple[np.ndarray, float, int]:
        """The best set found, a lower bound on the cost of any, and how many nodes were opened."""
        total = float(self.mass @ self.G.diagonal())
        sure, tree, opened = SURE * total, self, 0
        while len(tree.value) and opened < cap:
            first = np.argsort(tree.bound, kind="stable")[:BATCH]
            opened += len(first)
            nodes, tree = tree._rows(first), tree._rows(np.setdiff1d(np.arange(len(tree.value)), first))
            score = nodes._scores()
            greedy, top = nodes._greedy(score)
            kept = self.mass - greedy
            costs = kept @ self.G.diagonal() - ((kept @ self.G) * kept).sum(axis=1) / self.h
            if costs.min() < cost - sure:
                cost, best = float(costs.min()), kept[int(costs.argmin())]
            nodes = replace(nodes, bound=np.maximum(nodes.bound, total - nodes.value - top))
            worse = nodes.bound < cost - sure
            tree = tree._joined(nodes._rows(worse)._children(score[worse]))
            tree = tree._rows(tree.bound < cost - sure)
        return best, float(tree.bound.min(initial=cost)), opened

    def _scores(self) -> np.ndarray:
        """At most what removing a unit of each undecided point is worth, together with its best partners."""
        n = len(self.G)
        if self.partners is not None:
            there = self.undecided.T[self.partners] * self.mass[self.partners, None]
            best = np.take_along_axis(self.G, self.partners, axis=0)
            together = np.einsum("kib,ki->bi", _filled(there, self.left), best)
        else:  # whole points: each is removed with itself, and with the best others
            others = np.where(self.undecided[:, None, :], self.G, -np.inf)
            others[:, np.arange(n), np.arange(n)] = -np.inf
            among = np.arange(n) < (self.left - 1)[:, None]
            together = np.where(among[:, None, :], -np.sort(-others, axis=2), 0.0).sum(axis=2) + self.G.diagonal()
        return np.where(self.undecided, self.worth + together / self.h, -np.inf)

    def _greedy(self, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What is removed of each point if the best units go first, and what they are worth at most."""
        order = np.argsort(-score, axis=1, kind="stable")
        there = np.take_along_axis(self.undecided * self.mass, order, axis=1)
        more = np.zeros(score.shape)
        np.put_along_axis(more, order, _filled(there.T, self.left).T, axis=1)
        return self.removed + more, (more * np.where(more > 0, score, 0.0)).sum(axis=1)

    def _children(self, score: np.ndarray) -> Tree:
        """Each node up to three times: with its most valuable point removed, kept, and removed in part."""
        n = len(self.mass)
        free = np.where(self.split[:, None] == np.arange(n), -np.inf, score)
        pick, open_ = free.argmax(axis=1), (free.max(axis=1) > -np.inf) & (self.left > 0)
        at, size = np.arange(len(pick)), self.mass[pick]
        undecided, removed = self.undecided.copy(), self.removed.copy()
        undecided[at, pick], removed[at, pick] = False, size
        gone = replace(
            self,
            undecided=undecided,
            removed=removed,
            worth=self.worth + 2 * size[:, None] * self.G[pick] / self.h,
            value=self.value + size * (self.worth[at, pick] + size * self.G[pick, pick] / self.h),
            left=self.left - size,
        )
        gone = gone._rows(open_ & ((gone.left > 0) | ((gone.left == 0) & (self.split >= 0) & (self.split < n))))
        kept = replace(self, undecided=undecided)._rows(open_ & (undecided @ self.mass >= self.left))
        if self.partners is None:
            return gone._joined(kept)
        return gone._joined(kept, replace(self, split=pick)._rows(open_ & (self.split < 0) & (size > 1)))

    def _rows(self, which: np.ndarray) -> Tree:
        return self._with(getattr(self, name)[which] for name in NODES)

    def _joined(self, *others: Tree) -> Tree:
        return self._with(np.concatenate([getattr(tree, name) for tree in (self, *others)]) for name in NODES)

    def _with(self, nodes: Iterable[np.ndarray]) -> Tree:
        return Tree(self.G, self.h, self.mass, self.partners, *nodes)


NODES = ("undecided", "removed", "worth", "value", "left", "split", "bound")
