"""A search for the round that is worst for a rule: the honest check of a constant, and often the way to a better one.

Structured rounds are tried as they are; then evolution strategies (CMA-ES) climb from these, from random rounds, and
from the best so far. What is found is a lower bound on the true constant, and the round is its proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from math import comb, inf, isclose
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.disk import write_whole
from holdfast.driver import decide
from holdfast.errors import BadInput, MissingExtra
from holdfast.guarantees.bounds import tolerance
from holdfast.guarantees.criteria import MAX_SETS, SPREADS, check_size, ratios, subsets, worst
from holdfast.guarantees.instances import drawn, structured
from holdfast.reading import read
from holdfast.spec import parse_rule

__all__ = ["Found", "Search", "search"]

Array = np.ndarray
CLIMBS = 24  # climbs into which a budget is cut
NUMBERS = 2_000  # in a round: CMA-ES holds the square of it
STEPS = (0.3, 0.02)  # of the size of a round: how far a climb looks at first


@dataclass(frozen=True)
class Search:
    """What determines a search for the round that is worst for a rule.

    Parameters
    ----------
    rule : str
        The rule as text.
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

    Raises
    ------
    BadInput
        If the rule draws, or the numbers are too large for a search.

    Examples
    --------
    >>> from holdfast.guarantees.certify import Search
    >>> Search("CWTM(f=1)", n=4, f=1, d=2).criterion
    'kappa'
    """

    rule: str
    n: int
    f: int
    d: int
    criterion: str = "kappa"
    budget: int = 20_000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.criterion not in SPREADS:
            known = ", ".join(SPREADS)
            raise BadInput(f"{self.criterion!r} was given; the criteria that one round has are {known}.")
        for name, low in (("n", 1), ("f", 0), ("d", 1), ("budget", 1), ("seed", 0)):
            check_size(name, getattr(self, name), low)
        if self.n * self.d > NUMBERS:
            many = f"n = {self.n} and d = {self.d} were given, {self.n * self.d:,} numbers a round"
            raise BadInput(f"{many}; a search takes up to {NUMBERS:,}, so lower n or d.")
        rule = parse_rule(self.rule)
        tolerance(rule, self.n, self.f)
        if rule.random:
            raise BadInput(f"{self.rule} draws at random; a search needs a rule that answers alike each time.")
        if comb(self.n, self.f) > MAX_SETS:
            many = f"n = {self.n} and f = {self.f} have {comb(self.n, self.f):.1g} honest sets to look at in each round"
            raise BadInput(f"{many}; take fewer workers, so that there are at most {MAX_SETS}.")


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


def search(task: Search, known: Found | None = None) -> Iterator[Found]:
    """Search for the round that is worst for a rule.

    Parameters
    ----------
    task : Search
        What determines the search.
    known : Found, optional
        Goes on from there, to the same end.

    Yields
    ------
    Found
        The worst round so far, after each climb.

    Raises
    ------
    BadInput
        If the package cma is missing.

    Notes
    -----
    Structured rounds are tried as they are. Then evolution strategies (CMA-ES) climb from these, from random rounds,
    and from the best so far.

    Examples
    --------
    >>> from holdfast.guarantees.certify import Search, search
    >>> *_, found = search(Search("CWTM(f=1)", 4, 1, 2, budget=400))
    >>> 0.49 < found.value < 0.5001
    True
    """
    cost = objective(task)
    best = known
    if best is None:
        X = max(structured(task.n, task.f, task.d), key=cost)
        best = Found(cost(X), X, len(structured(task.n, task.f, task.d)), 0)
        yield best
    while best.tried < task.budget and best.value < inf:
        share = min(task.budget - best.tried, max(50, task.budget // CLIMBS))
        X, value, tried = _climb(cost, *_start(task, best), share, task.seed * 10_007 + best.climbs)
        better = value > best.value
        best = Found(value if better else best.value, X if better else best.X, best.tried + tried, best.climbs + 1)
        yield best


def objective(task: Search) -> Callable[[Array], float]:
    """Round -> the largest ratio over all honest sets."""
    answer, masks = answering(parse_rule(task.rule)), subsets(task.n, task.f)

    def cost(X: Array) -> float:
        with np.errstate(all="ignore"):
            return float(ratios(task.criterion, answer(X), X, masks).max())

    return cost


def answering(rule: Any) -> Callable[[Array], Array]:
    """The rule on small float64 rounds."""
    return lambda X: np.asarray(decide(rule, read(X, repr(rule)), explain=False).value)


def _start(task: Search, best: Found) -> tuple[Array, float]:
    """Where the next climb starts and how far it looks: structured rounds, the best, random ones, in turn."""
    known = structured(task.n, task.f, task.d)
    turn, kind = divmod(best.climbs, 3)
    size = float(np.abs(best.X).max()) or 1.0
    if kind == 0:
        return known[turn % len(known)], STEPS[turn // len(known) % 2]
    if kind == 1:
        return best.X, size * 10.0 ** -(1 + turn % 4)
    rng = np.random.default_rng((task.seed, best.climbs))
    rounds = drawn(task.n, task.d, rng)
    return [next(rounds) for _ in range(4)][turn % 4], 0.5


def _climb(cost: Callable[[Array], float], X: Array, step: float, share: int, seed: int) -> tuple[Array, float, int]:
    """CMA-ES from one round, with its own random numbers."""
    cma = _cma()
    rng = np.random.default_rng(seed)
    options = {
        "verbose": -9,
        "seed": np.nan,  # numpy's global generator is left alone
        "randn": lambda *shape: rng.standard_normal(shape),
        "maxfevals": share,
        "tolx": 1e-12,
        "tolfun": 1e-12,
    }
    climb = cma.CMAEvolutionStrategy(X.ravel(), step, options)
    best, value, tried = X, cost(X), 1
    while not climb.stop() and tried < share:
        candidates = climb.ask()
        costs = [cost(np.asarray(x).reshape(X.shape)) for x in candidates]
        tried += len(costs)
        top = int(np.argmax(costs))
        if costs[top] > value:
            best, value = np.asarray(candidates[top]).reshape(X.shape).copy(), costs[top]
        if value == inf:
            break
        climb.tell(candidates, [-c for c in costs])
    return best, value, tried


def _cma() -> Any:
    try:
        import cma  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtra("the search", "cma", "search") from None
    return cma


def save(path: Path, task: Search, result: Found) -> None:
    """The worst round and what was asked, whole or not at all; load goes on from it."""
    numbers = {"value": result.value, "tried": result.tried, "climbs": result.climbs}
    entries: dict[str, Any] = {name: np.array(v) for name, v in (asdict(task) | numbers).items()}
    write_whole(path, lambda out: np.savez(out, X=result.X, **entries))


def load(path: Path) -> tuple[Search, Found]:
    """What was asked and found; BadInput if the file is none of ours."""
    if not path.is_file():
        raise BadInput(f"{path} is no file; name one that `holdfast certify --out` wrote.")
    try:
        with np.load(path, allow_pickle=False) as held:
            entries = {name: held[name] for name in held.files}
        X = entries["X"].astype(float, casting="safe")
        task = Search(**{name: entries[name].item() for name in Search.__dataclass_fields__})
        result = Found(float(entries["value"]), X, int(entries["tried"]), int(entries["climbs"]))
        if X.shape != (task.n, task.d) or not np.isfinite(X).all() or min(result.tried, result.climbs) < 0:
            raise ValueError
        return task, result
    except BadInput as refused:
        raise BadInput(f"{path} holds a search that cannot be: {refused}") from None
    except Exception:  # whatever a hostile file makes a reader say
        raise BadInput(f"{path} holds no search; remove it or name another file.") from None


def resumed(path: Path, task: Search) -> Found:
    """What a file holds of this search, its ratio measured again; BadInput if it is another's, or not what it says."""
    before, result = load(path)
    if before != task:
        raise BadInput(f"{path} holds another search ({before.rule}, n = {before.n}, ...); name another file.")
    value = objective(task)(result.X)
    if not isclose(value, result.value, rel_tol=1e-6, abs_tol=1e-12):
        claim = f"{path} says {task.criterion} = {result.value:.6g}, but tried again its round has {value:.6g}"
        raise BadInput(f"{claim}; remove it or name another file.")
    return replace(result, value=value)


def replayed(path: Path) -> tuple[Search, Found, Any, Array]:
    """The saved round again: the rule's answer on it, and the honest set for which it is worst."""
    task, result = load(path)
    answer = np.asarray(parse_rule(task.rule)(result.X))
    return task, result, worst(task.criterion, answer, result.X, task.f), answer
