r"""1-mean clustering with outliers, solved to the optimum by branch and bound on the n x n matrix.

With y_i the points seen from their mean, g_i = ‖y_i‖², G their inner products, h = n - f, removing R from all N leaves

.. math:: SS(N \setminus R) = SS(N) - \sum_{i \in R} g_i - \tfrac{1}{h} \Big\lVert \sum_{i \in R} y_i \Big\rVert^2

so the most valuable R is sought. A node has removed some points, kept others, and has r still to remove; its value
is at most that of taking, for each undecided point, its own part and its r - 1 best partners, and then the r best of
these. Nodes are opened best first, many at once, so that numpy does the work.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from holdfast.rules.base import Choice, DistanceRule, Distances, Rng, Tolerance, value
from holdfast.rules.clustering import concentrated, even, finite, neighbourhoods, sums_of_squares
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
        result = search(D, self.f, self.cap)
        return Choice(even(result.members, len(D)), result.cost, result.bound)


class Found(NamedTuple):
    """The best n - f points, their sum of squares, a lower bound on that of any n - f points, and the nodes it took."""

    members: np.ndarray
    cost: float
    bound: float
    nodes: int = 0


def search(D: Distances, f: int, cap: int) -> Found:
    """Branch and bound, from a good set on, over the points that can be in a better one."""
    D = finite(D)
    n, h = len(D), len(D) - f
    best, cost = incumbent(D, h)
    if f == 0 or cost == 0:
        return Found(best, cost, cost)
    ranked = np.sort(D, axis=1)
    possible = np.flatnonzero(ranked[:, :h].sum(axis=1) <= cost * h * (1 + 1e-9))  # others are in no better set
    spare = len(possible) - h
    if spare <= 0:
        return Found(best, cost, cost)
    tree = Tree.over(D[np.ix_(possible, possible)], spare, h)
    inside, bound, nodes = tree.search(np.isin(possible, best), cost, cap)
    members = possible[inside]
    exact = float(sums_of_squares(D, _mask(members, n)[None])[0])
    return Found(members, exact, min(exact, max(bound, ranked_bound(ranked, h))), nodes)


def ranked_bound(ranked: np.ndarray, h: int) -> float:
    """A lower bound on the least sum of squares that needs no subtraction: the h least scores over 2h."""
    return float(np.sort(ranked[:, :h].sum(axis=1))[:h].sum() / (2 * h))


def incumbent(D: Distances, h: int) -> tuple[np.ndarray, float]:
    """A good set to begin with: concentration steps from every point's neighbourhood, then single swaps."""
    masks, costs = concentrated(D, np.unique(neighbourhoods(D, h), axis=0))
    mask = _swapped(D, masks[int(costs.argmin())])
    return np.flatnonzero(mask), float(sums_of_squares(D, mask[None])[0])


def _mask(members: np.ndarray, n: int) -> np.ndarray:
    mask = np.zeros(n, bool)
    mask[members] = True
    return mask


def _swapped(D: Distances, mask: np.ndarray) -> np.ndarray:
    """Exchange a member for another point while that lowers the sum of squares, the best exchange first."""
    for _ in range(len(D) if not mask.all() else 0):
        inside, outside = np.flatnonzero(mask), np.flatnonzero(~mask)
        sums = D[inside].sum(axis=0)
        change = sums[outside] - D[np.ix_(inside, outside)] - sums[inside, None]
        i, j = divmod(int(change.argmin()), len(outside))
        if not change[i, j] < -1e-12 * sums[inside].sum():
            break
        mask = mask.copy()
        mask[[inside[i], outside[j]]] = False, True
    return mask


@dataclass(frozen=True)
class Tree:
    """The open nodes, one a row: what is undecided and removed, the value of each point, the value so far."""

    G: np.ndarray
    h: int
    undecided: np.ndarray
    removed: np.ndarray
    worth: np.ndarray  # of removing each point now, with those already removed
    value: np.ndarray
    left: np.ndarray  # how many are still to be removed
    bound: np.ndarray  # lower bound on the sum of squares

    @classmethod
    def over(cls, D: Distances, spare: int, h: int) -> Tree:
        w = np.full(len(D), 1 / len(D))
        g = D @ w - 0.5 * w @ D @ w
        G = 0.5 * (g[:, None] + g - D)
        one = np.ones((1, len(D)), bool)
        worth = G.diagonal()[None] * (1 + 1 / h)
        return cls(G, h, one, ~one, worth, np.zeros(1), np.array([spare]), np.array([-np.inf]))

    def search(self, best: np.ndarray, cost: float, cap: int) -> tuple[np.ndarray, float, int]:
        """The best set found, a lower bound on the cost of any, and how many nodes were opened."""
        total = float(self.G.trace())
        sure, tree, opened = SURE * total, self, 0
        while len(tree.value) and opened < cap:
            first = np.argsort(tree.bound, kind="stable")[:BATCH]
            opened += len(first)
            nodes, tree = tree._rows(first), tree._rows(np.setdiff1d(np.arange(len(tree.value)), first))
            score = nodes._scores()
            order = np.argsort(-score, axis=1, kind="stable")
            rank = np.argsort(order, axis=1)
            greedy = nodes.removed | (rank < nodes.left[:, None])
            kept = (~greedy).astype(float)
            costs = kept @ self.G.diagonal() - np.einsum("bi,ij,bj->b", kept, self.G, kept) / self.h
            if costs.min() < cost - sure:
                cost, best = float(costs.min()), ~greedy[int(costs.argmin())]
            top = np.where(rank < nodes.left[:, None], score, 0.0).sum(axis=1)
            nodes = replace(nodes, bound=np.maximum(nodes.bound, total - nodes.value - top))
            tree = tree._joined(nodes._rows(nodes.bound < cost - sure)._children(order[nodes.bound < cost - sure, 0]))
            tree = tree._rows(tree.bound < cost - sure)
        return best, float(tree.bound.min(initial=cost)), opened

    def _scores(self) -> np.ndarray:
        """At most what removing each undecided point is worth, together with its best partners."""
        partners = np.where(self.undecided[:, None, :], self.G, -np.inf)
        partners[:, np.arange(len(self.G)), np.arange(len(self.G))] = -np.inf
        ranked = -np.sort(-partners, axis=2)
        among = np.arange(len(self.G)) < (self.left - 1)[:, None]
        with_partners = np.where(among[:, None, :], ranked, 0.0).sum(axis=2)
        return np.where(self.undecided, self.worth + with_partners / self.h, -np.inf)

    def _children(self, pick: np.ndarray) -> Tree:
        """Each node twice: with its most valuable point removed, and with it kept."""
        at = np.arange(len(pick))
        undecided, removed = self.undecided.copy(), self.removed.copy()
        undecided[at, pick], removed[at, pick] = False, True
        gone = replace(
            self,
            undecided=undecided,
            removed=removed,
            worth=self.worth + 2 * self.G[pick] / self.h,
            value=self.value + self.worth[at, pick],
            left=self.left - 1,
        )
        kept = replace(self, undecided=undecided)
        return gone._rows(gone.left > 0)._joined(kept._rows(undecided.sum(axis=1) >= kept.left))

    def _rows(self, which: np.ndarray) -> Tree:
        return Tree(self.G, self.h, *(getattr(self, name)[which] for name in NODES))

    def _joined(self, other: Tree) -> Tree:
        return Tree(self.G, self.h, *(np.concatenate([getattr(self, name), getattr(other, name)]) for name in NODES))


NODES = ("undecided", "removed", "worth", "value", "left", "bound")
