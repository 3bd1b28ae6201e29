"""What determines a search for a worst round, what it finds, and how a round is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb, inf, isnan
from typing import Any

import numpy as np

from holdfast.driver import decide
from holdfast.errors import BadInput
from holdfast.guarantees.bounds import tolerance
from holdfast.guarantees.criteria import MAX_SETS, SPREADS, check, check_size, ratios, subsets, weighted_subsets
from holdfast.guarantees.weighted import copies_of
from holdfast.masses import check_weights, heaviest
from holdfast.reading import read
from holdfast.rules.base import Stage
from holdfast.spec import parse_rule

Array = np.ndarray
MAX_NUMBERS = 2_000  # in a round: CMA-ES holds the square of it


@dataclass(frozen=True)
class Search:
    """What determines a search for the round that is worst for a rule.

    Parameters
    ----------
    rule : str or callable
        The rule as text, or a rule of your own: any function from n rows to one vector.
    n : int
        How many workers there are.
    f : int
        How many are Byzantine.
    d : int
        The dimension.
    criterion : str
        "lambda", "kappa" or "xi".
    budget : int
        How many rounds to try. The structured rounds are always tried, also those beyond the budget.
    seed : int
        The seed of all draws.
    weights : tuple of float, optional
        How much each worker counts. Then all sets whose complement holds at most as much as the f heaviest are tried.

    Raises
    ------
    BadInput
        If the rule draws, or the numbers are too large for a search.

    Examples
    --------
    >>> from holdfast.guarantees.certify import Search
    >>> Search("CWTM(f=1)", n=4, f=1, d=2).criterion
    'kappa'
    >>> Search(lambda X: X[0], n=4, f=1, d=2).budget
    20000
    """

    rule: str | Callable[[Array], Any]
    n: int
    f: int
    d: int
    criterion: str = "kappa"
    budget: int = 20_000
    seed: int = 0
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.criterion not in SPREADS:
            known = ", ".join(SPREADS)
            raise BadInput(f"{self.criterion!r} was given; the criteria that one round has are {known}.")
        for name, low in (("n", 1), ("f", 0), ("d", 1), ("budget", 1), ("seed", 0)):
            check_size(name, getattr(self, name), low)
        if self.n * self.d > MAX_NUMBERS:
            many = f"n = {self.n} and d = {self.d} were given, {self.n * self.d:,} numbers a round"
            raise BadInput(f"{many}; a search takes up to {MAX_NUMBERS:,}, so lower n or d.")
        rule = rule_of(self)
        if isinstance(rule, Stage):
            tolerance(rule, self.n, self.f)
        elif not callable(rule):
            raise BadInput(f"{rule!r} is no rule; write one as MeanwO(f=3), or pass a function.")
        check(self.n, self.f)
        if getattr(rule, "random", False):
            raise BadInput(f"{self.rule} draws at random; a search needs a rule that answers alike each time.")
        if self.weights is not None:
            self._check_weights(rule)
        sets = comb(self.n, self.f) if self.weights is None else 2**self.n
        if sets > MAX_SETS:
            many = f"n = {self.n} and f = {self.f} have {sets:.1g} honest sets to look at in each round"
            raise BadInput(f"{many}; take fewer workers, so that there are at most {MAX_SETS}.")

    def _check_weights(self, rule: Any) -> None:
        mass = check_weights(self.weights, self.n, repr(rule))
        if not isinstance(rule, Stage):
            raise BadInput(f"{rule!r} was given weights; a search with weights needs a rule of holdfast.")
        copies_of(heaviest(mass, self.f) / float(mass.sum()), rule, self.n)


def rule_of(task: Search) -> Any:
    """The rule itself."""
    return parse_rule(task.rule) if isinstance(task.rule, str) else task.rule


@dataclass(frozen=True, eq=False)
class Found:
    """The worst round so far.

    Parameters
    ----------
    value : float
        Its ratio: a lower bound on the true constant.
    X : numpy.ndarray of shape (n, d)
        The round, which is the proof.
    tried : int
        How many rounds were tried.
    climbs : int
        In how many climbs.
    others : tuple of numpy.ndarray
        The next worst rounds. Later climbs start from these too.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.guarantees.certify import Found
    >>> Found(0.5, np.zeros((4, 2)), tried=20, climbs=0).value
    0.5
    """

    value: float
    X: Array
    tried: int
    climbs: int
    others: tuple[Array, ...] = ()


def objective(task: Search) -> Callable[[Array], float]:
    """Round -> the largest ratio over all honest sets; inf if the answer is no number."""
    answer = answering(rule_of(task), task.weights)
    masks = subsets(task.n, task.f) if task.weights is None else weighted_subsets(task.weights, task.f)

    def cost(X: Array) -> float:
        with np.errstate(all="ignore"):
            value = float(ratios(task.criterion, answer(X), X, masks).max())
        return inf if isnan(value) else value

    return cost


def answering(rule: Any, weights: tuple[float, ...] | None = None) -> Callable[[Array], Array]:
    """The rule on small float64 rounds, of workers that count alike or not."""
    if isinstance(rule, Stage):
        return lambda X: np.asarray(decide(rule, read(X, repr(rule), weights=weights), explain=False).value)
    return lambda X: np.asarray(rule(X.copy()), float)
