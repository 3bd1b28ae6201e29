"""What a rule decided about a round: the answer, who was kept, excluded or dropped, and why."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from holdfast.contract import Chain, Stage
from holdfast.errors import listing
from holdfast.masses import Masses
from holdfast.renamed import read_renamed

log = logging.getLogger("holdfast")


@dataclass(frozen=True, eq=False)
class Decision:
    """What a rule decided about one round: the answer, who was kept, excluded or dropped, and why.

    Parameters
    ----------
    rule : Stage
        The rule that decided, with the f of this round.
    asked : Stage
        The rule that was asked for. It differs from `rule` if f was lowered.
    n : int
        How many updates came.
    value : update
        The aggregate.
    weights : numpy.ndarray
        One entry for each worker: its weight in the answer, or the share of coordinates in which it was used
        (`measure` says which).
    dropped : dict
        The workers whose updates could not be used, each with the reason.
    rows : numpy.ndarray
        The workers that were looked at.
    distances : numpy.ndarray or None
        The squared distances that the last distance stage saw, over `rows` unless `mixed`.
    mixed : bool
        Whether the distances are between mixed vectors, not between the workers' own.
    error : float
        Each distance is wrong by at most this part of it.
    scale : float
        Where squares leave the range of floats, the factor at which distances were measured.
    cost : float or None
        The rule's own cost, where it has one.
    bound : float or None
        A lower bound on the optimal cost, where it is known.
    note : str
        What is worth a line in the log, such as a lowered f.
    ball : tuple or None
        The cluster that the rule found: the worker at its centre, and its radius. Inner rules keep it, Outer rules
        exclude it.
    measure : "weight" or "share"
        What `weights` holds: weights, or, for rules on single coordinates, shares of coordinates.
    masses : Masses or None
        How much each worker counts, before and after a cap. None: all count alike.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import MeanwO
    >>> decision = MeanwO(f=1).decide(np.array([[0.0], [1.0], [2.0], [90.0]]))
    >>> decision.value, decision.kept
    (array([1.]), (0, 1, 2))
    >>> decision.cost, decision.bound
    (2.0, 2.0)
    """

    rule: Stage
    asked: Stage
    n: int
    value: Any = field(repr=False)
    weights: np.ndarray = field(repr=False)
    dropped: dict[int, str]
    rows: np.ndarray = field(repr=False)
    distances: np.ndarray | None = field(default=None, repr=False)
    mixed: bool = False
    error: float = 0.0
    scale: float = 1.0
    cost: float | None = None
    bound: float | None = None
    note: str = ""
    ball: tuple[int, float] | None = None
    measure: Literal["weight", "share"] = "weight"
    masses: Masses | None = None

    @property
    def kept(self) -> tuple[int, ...]:
        """Workers that have a weight in the answer."""
        return tuple(int(i) for i in np.flatnonzero(self.weights))

    @property
    def excluded(self) -> tuple[int, ...]:
        """Workers that were looked at and have weight zero."""
        return tuple(int(i) for i in self.rows if self.weights[i] == 0)

    if not TYPE_CHECKING:  # so that mypy still knows every attribute

        def __getattr__(self, name: str) -> Any:
            return read_renamed(self, name)

    @property
    def why(self) -> str:
        """Why the excluded workers have weight zero; another reason if workers count differently."""
        weighed = self.masses is not None and np.ptp(self.masses.weights[self.rows]) > 0
        last = self.rule.parts[-1] if isinstance(self.rule, Chain) else self.rule
        return (last.why_weighted if weighed else "") or last.why

    @property
    def lowered(self) -> bool:
        """Whether f was lowered because dropped vectors left too few."""
        return bool(self.rule != self.asked)

    def radii(self) -> np.ndarray | None:
        """Return the distance of each worker to the answer, nan for the dropped; None where D does not tell."""
        D = self.distances
        w = self.weights[self.rows]
        if D is None or self.mixed or not np.isclose(w.sum(), 1.0):
            return None
        on = np.flatnonzero(w)
        with np.errstate(invalid="ignore"):
            squares = D[:, on] @ w[on] - 0.5 * w[on] @ D[np.ix_(on, on)] @ w[on]
        out = np.full(self.n, np.nan)
        out[self.rows] = np.sqrt(np.maximum(squares, 0.0))
        return out

    def table(self, names: Sequence[str] | None = None) -> list[tuple[str, str, str, str, str]]:
        """Return a row for each worker: name, status, weight, distance to the answer, why.

        Parameters
        ----------
        names : sequence of str, optional
            The workers' names in order. Without it, their row numbers.

        Returns
        -------
        list of tuples
            Five texts for each worker; empty where there is nothing to say.
        """
        radii = self.radii()
        out = []
        for i in range(self.n):
            name = names[i] if names else str(i)
            far = "" if radii is None or np.isnan(radii[i]) else f"{radii[i]:.4g}"
            if self.masses is not None and self.masses.weights[i] == 0:
                out.append((name, "absent", "", "", "counts nothing"))
            elif i in self.dropped:
                out.append((name, "dropped", "", "", self.dropped[i]))
            elif self.weights[i]:
                out.append((name, "kept", f"{self.weights[i]:.4g}", far, ""))
            else:
                out.append((name, "excluded", "0", far, self.why))
        return out

    def summary(self) -> str:
        """Return one line with the rule and the counts, and a second one when f was lowered."""
        counts = f"{len(self.kept)} kept, {len(self.excluded)} excluded, {len(self.dropped)} dropped"
        lines = [f"{self.rule!r} on {self.n} vectors: {counts}", *self._weighing()]
        return "\n".join(lines + ([self.note] if self.note else []))

    def _weighing(self) -> list[str]:
        """A line on weights, if workers count differently: who was capped, and what any f workers hold."""
        if self.masses is None:
            return []
        f, capped = self.rule.tolerance(), self.masses.capped
        held = "" if not f else f"any {f} hold at most a = {self.masses.share_of(f):.0%} of the weight W"
        who = f"capped at {self.masses.limit:.6g}: {listing(capped)}" if capped else ""
        return ["; ".join(part for part in (held, who) if part)] if held or who else []

    def __str__(self) -> str:
        head = ("worker", "status", self.measure, "distance", "why")
        rows = [head, *self.table()]
        wide = [max(len(row[c]) for row in rows) for c in range(4)]
        lines = ["  ".join([*(t.ljust(w) for t, w in zip(row, wide, strict=False)), row[4]]).rstrip() for row in rows]
        return "\n".join([self.summary(), *lines])


def announced(decision: Decision) -> Decision:
    """The decision; a warning in the log says that f was lowered."""
    if decision.note:
        log.warning("%r: %s", decision.rule, decision.note)
    return decision
