"""How the answer of a rule depends on f, for those who do not know f: docs/choosing.md, "If you do not know f"."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, sqrt
from typing import Any

import numpy as np

from holdfast.checks import check_whole
from holdfast.contract import Rng, Stage
from holdfast.decision import Decision
from holdfast.driver import decide
from holdfast.errors import BadInput
from holdfast.geometry import distances
from holdfast.guarantees.bounds import number, own
from holdfast.guarantees.certificate import Certificate, certificate, rounding_of
from holdfast.guarantees.misjudged import kappa_if
from holdfast.masses import heaviest, whole_masses
from holdfast.points import Points
from holdfast.reading import distance, numbers_of, read
from holdfast.rules import CWTM, PTM, MeanwO, NearestTo
from holdfast.settle import feasible
from holdfast.updates import Updates

__all__ = ["Profile", "profile"]

JUMP = 5.0  # deviations of the remaining vectors from which on a move is a jump
SCALING = (CWTM, PTM, MeanwO, NearestTo)  # rules whose constants are known for weights
HEAD = ("f", "excluded", "κ(X)", "κ promised", "moved by", "from how far")


@dataclass(frozen=True, eq=False)
class Profile:
    """The answers of a rule to one round, for f = 0, 1, 2, and so on.

    Parameters
    ----------
    rule : Stage
        The rule, with the f that it was given.
    decisions : tuple of Decision
        What the rule decides for each f. `decisions[f].value` is the answer.
    certificates : tuple of Certificate
        What is certain about each answer.
    promises : numpy.ndarray
        The κ that the rule promises for each f, if at most f workers lie; inf where none is known.
    moves : numpy.ndarray
        The distance of each answer to the one before; 0 for f = 0 and where it is below rounding.
    shifts : numpy.ndarray
        How far the weight that moved has moved: the distance between the mean of the weight that left and the mean of
        the weight that came.
    spreads : numpy.ndarray
        For each f the standard deviation of the n - f vectors that `MeanwO` keeps.

    Notes
    -----
    The answer jumps at f if `shifts[f]` is more than 5 times `spreads[f]`. docs/guarantees.md says what follows from a
    jump, in "If f is not known".

    Examples
    --------
    >>> from holdfast import MeanwO, profile
    >>> X = [[0.0, 1.0], [0.1, 0.9], [0.2, 1.0], [0.1, 1.1], [0.0, 0.9], [9.0, 9.0], [9.0, 9.0]]
    >>> found = profile(X, MeanwO(f=1))
    >>> found.jump, found.decisions[2].excluded
    (2, (5, 6))
    """

    rule: Stage
    decisions: tuple[Decision, ...]
    certificates: tuple[Certificate, ...]
    promises: np.ndarray
    moves: np.ndarray
    shifts: np.ndarray
    spreads: np.ndarray

    @property
    def n(self) -> int:
        """How many vectors were looked at."""
        return len(self.decisions[0].rows)

    @property
    def ratios(self) -> np.ndarray:
        """How many deviations of the remaining vectors the weight has moved; 0 where the answer did not move."""
        with np.errstate(all="ignore"):
            return np.where(self.shifts > 0, np.nan_to_num(self.shifts / self.spreads, nan=0.0, posinf=inf), 0.0)

    @property
    def jumps(self) -> tuple[int, ...]:
        """Every f at which the answer jumps."""
        return tuple(int(f) for f in np.flatnonzero(self.ratios > JUMP))

    @property
    def jump(self) -> int | None:
        """The last f at which the answer jumps; None if it never does."""
        return self.jumps[-1] if self.jumps else None

    @property
    def kappas(self) -> np.ndarray:
        """The κ(X) of each certificate; nan where there is none."""
        return np.array([one.kappa for one in self.certificates])

    def cost(self, f: int, lie: int) -> float:
        """Return the κ that is promised if you choose f and another number of workers lies.

        Parameters
        ----------
        f : int
            The f that you choose.
        lie : int
            How many workers lie in truth.

        Returns
        -------
        float
            The squared distance of the answer to the honest mean is at most this many times the honest variance. inf:
            nothing is promised, and for `lie` > f the distance can be as large as the liars want.
        """
        return _promise(self.decisions[self._checked(f)], check_whole(lie, "lie", least=0, who="cost"))

    def _checked(self, f: object) -> int:
        """An f of this profile."""
        return check_whole(f, "f", least=0, most=len(self.decisions) - 1, who="this profile")

    def deviation(self, f: int) -> float:
        """Return how large the honest deviation must be at least, if fewer than f workers lie.

        Parameters
        ----------
        f : int
            The f at which the answer moved.

        Returns
        -------
        float
            The move divided by √κ(X) of f - 1 and √κ(X) of f together; 0 where nothing follows.
        """
        f = self._checked(f)
        both = sqrt(self.kappas[f - 1]) + sqrt(self.kappas[f]) if 0 < f < len(self.kappas) else np.nan
        return float(self.moves[f] / both) if both > 0 else 0.0

    def table(self) -> list[tuple[str, ...]]:
        """Return a row of texts for each f: f, who is excluded, κ(X), κ promised, the move, its ratio, the mark."""
        rows: list[tuple[str, ...]] = []
        for f, (decision, ratio) in enumerate(zip(self.decisions, self.ratios, strict=True)):
            kappa = self.kappas[f]
            move = "" if f == 0 else f"{self.moves[f]:.3g}"
            constants = "" if np.isnan(kappa) else number(kappa), number(self.promises[f])
            far = f"{ratio:.1f} deviations" if ratio else ""
            mark = "jump" if ratio > JUMP else ""
            rows.append((str(f), str(len(decision.excluded)), *constants, move, far, mark))
        return rows

    def summary(self) -> str:
        """Return one sentence on the last jump, and one on what was dropped."""
        most = len(self.decisions) - 1
        if self.jump is None:
            text = f"The answer does not jump from f = 0 to {most}."
        else:
            text = f"The answer jumps at f = {self.jump}: take at least that f, and more if some liars may hide."
        dropped = self.decisions[0].dropped
        were = "was" if len(dropped) == 1 else "were"
        gone = f" {len(dropped)} of {self.decisions[0].n} updates {were} dropped; add them to f." if dropped else ""
        return text + gone

    def __str__(self) -> str:
        rows = [HEAD, *self.table()]
        wide = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
        lines = ["  ".join(text.ljust(w) for text, w in zip(row, [*wide, 0], strict=False)).rstrip() for row in rows]
        return "\n".join([f"{self.rule!r} on {self.n} vectors, for every f", *lines, self.summary()])


def profile(X: Any, rule: Stage, *, like: Any = None, weights: Any = None, rng: Rng | None = None) -> Profile:
    """Run a rule on one round for every f from 0 to the largest that is possible, and say where its answer jumps.

    Parameters
    ----------
    X : array of shape (n, ...), or sequence of n updates
        One row or one entry for each worker.
    rule : Stage
        A rule with any f, such as `MeanwO(f=1)`; its f is varied. Rules on whole vectors show liars best.
    like : update, optional
        An update of the right structure. Updates of another structure are then dropped and reported.
    weights : sequence of float, optional
        How much each worker counts, at least 0. Without it, all count alike.
    rng : numpy.random.Generator, optional
        For rules that draw. Every f sees the same draws.

    Returns
    -------
    Profile
        For each f the answer, its certificate, who is excluded, and how far the answer is from the one before.

    Raises
    ------
    BadInput
        If the rule has no f, or if there are too few updates.

    Notes
    -----
    f is about the updates that can be used. Updates that cannot be used are dropped for every f, and do not count.
    The rule itself refuses an f below their number.

    Cost: distances are measured once for all f, where the rule needs no others. Beyond that, O(n² log n) for each f,
    and what the rule itself does.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import MeanwO, profile
    >>> X = np.random.default_rng(0).standard_normal((12, 50))
    >>> X[:3] += 9.0
    >>> profile(X, MeanwO(f=1)).jump
    3
    """
    if own(rule) is None:
        raise BadInput(
            f"{rule!r} has no f, so its answer is the same for every f; profile a rule with f, as MeanwO(f=1)."
        )
    given = replace(read(X, "profile", like=like, weights=weights), on_excess="lower")
    given.look()
    decisions = tuple(decide_over_f(rule, given, rng))
    measured = {leaf.name for leaf in given.distant}
    numbers = [numbers_of(decision.value, "profile", measured.__contains__) for decision in decisions]
    moves = np.array([0.0, *(_move(a, b, given) for a, b in pairwise(numbers))])
    moved = np.array([1.0, *(_moved_weight(a, b) for a, b in pairwise(decisions))])
    with np.errstate(over="ignore"):
        shifts = np.where(moved > 0, moves / np.where(moved > 0, moved, 1.0), 0.0)
    return Profile(
        rule,
        decisions,
        tuple(certificate(one, given) for one in decisions),
        np.array([_promise(one, own(one.rule) or 0) for one in decisions]),
        moves,
        shifts,
        np.array([_spread(given, f) for f in range(len(decisions))]),
    )


def decide_over_f(rule: Stage, updates: Updates, rng: Rng | None = None) -> Iterator[Decision]:
    """The decisions for f = 0, 1, 2, ... while the updates are enough; the same draws for each."""
    f = 0
    while f == 0 or (feasible(rule.with_f(f), updates) and feasible(MeanwO(f), updates)):
        yield decide(rule.with_f(f), updates, rng=deepcopy(rng))
        f += 1


def _move(before: np.ndarray, after: np.ndarray, updates: Updates) -> float:
    """The distance of two answers; 0 if it is below what rounding to their dtype can do."""
    largest = float(np.abs([before, after]).max(initial=0.0)) or 1.0  # so that no length overflows
    size = float(np.linalg.norm(np.array([before, after]) / largest, axis=1).max())
    apart, unit = distance(before, after), max(map(rounding_of, updates.distant))
    return apart if apart / largest > updates.n * unit * size else 0.0


def _moved_weight(before: Decision, after: Decision) -> float:
    """The part of the weight that one answer gives to other vectors than the answer before.

    A rule that trims coordinates or axes gives the vectors different weights in each of them. It moves the weight that
    one vector had there before.
    """
    if after.measure == "share" or isinstance(after.rule.stages()[-1], PTM):
        total, held = _held(before)
        return (_held(after)[1] - held) / (total - 2 * held)
    change = after.weights - before.weights
    return float(max(change[change > 0].sum(), -change[change < 0].sum()))


def _held(decision: Decision, f: int | None = None) -> tuple[float, float]:
    """The weight of all vectors, and that of the f heaviest (None: the rule's f); without weights n and f."""
    f = (own(decision.rule) or 0) if f is None else f
    mass = _mass(decision)
    return (len(decision.rows), f) if mass is None else (float(mass.sum()), heaviest(mass, f))


def _mass(decision: Decision) -> np.ndarray | None:
    """How much the vectors count; None: all alike."""
    return None if decision.masses is None else whole_masses(decision.masses.weights[decision.rows])


def _promise(decision: Decision, lie: int) -> float:
    """The κ that the rule promises if this number of workers lies."""
    unknown = _mass(decision) is not None and not isinstance(decision.rule, SCALING)
    if unknown or lie > (own(decision.rule) or 0):
        return inf
    total, held = _held(decision)
    return kappa_if(decision.rule.with_f(int(held)), int(total), int(_held(decision, lie)[1]))


def _spread(updates: Updates, f: int) -> float:
    """The standard deviation of the n - f vectors that MeanwO keeps."""
    kept = decide(MeanwO(f), updates)
    D, scale, _ = distances(Points.rows(updates, kept.rows), core=len(kept.rows) - f)
    w = kept.weights[kept.rows]
    on = np.flatnonzero(w)
    with np.errstate(all="ignore"):
        return float(np.sqrt(0.5 * w[on] @ D[np.ix_(on, on)] @ w[on]) / scale)
