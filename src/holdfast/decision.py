"""What a rule decided about a round: the answer, who was kept, excluded or dropped, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from holdfast.contract import Stage
from holdfast.renamed import read_renamed


@dataclass(frozen=True, eq=False)
class Decision:
    """One round.

    `weights` has one entry for each worker: its weight in the answer, or, for rules on single coordinates, the
    share of coordinates in which it was used (`measure` says which). `distances` are the squared distances that the
    last distance stage saw, over `rows` unless it saw `mixed` ones, each wrong by at most the part `error` of it; if
    their squares leave the range of floats they were measured at another `scale`. `cost` is the rule's own cost and
    `bound` a lower bound on the optimal one, where known. `ball` is the cluster that the rule found, kept (Inner) or
    excluded (Outer): the worker at its centre and its radius.
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

    @property
    def kept(self) -> tuple[int, ...]:
        """Workers that have a part in the answer."""
        return tuple(int(i) for i in np.flatnonzero(self.weights))

    @property
    def excluded(self) -> tuple[int, ...]:
        """Workers that were looked at and have no part in the answer."""
        return tuple(int(i) for i in self.rows if self.weights[i] == 0)

    if not TYPE_CHECKING:  # so that mypy still knows every attribute

        def __getattr__(self, name: str) -> Any:
            return read_renamed(self, name)

    @property
    def lowered(self) -> bool:
        """Whether f was lowered because dropped vectors left too few."""
        return bool(self.rule != self.asked)

    def radii(self) -> np.ndarray | None:
        """Distance of each worker to the answer, nan for the dropped; None where D does not tell."""
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
        """A row for each worker: name, status, weight, distance to the answer, why."""
        radii = self.radii()
        out = []
        for i in range(self.n):
            name = names[i] if names else str(i)
            far = "" if radii is None or np.isnan(radii[i]) else f"{radii[i]:.4g}"
            if i in self.dropped:
                out.append((name, "dropped", "", "", self.dropped[i]))
            elif self.weights[i]:
                out.append((name, "kept", f"{self.weights[i]:.4g}", far, ""))
            else:
                out.append((name, "excluded", "0", far, self.rule.why))
        return out

    def summary(self) -> str:
        """One line: the rule and the counts; a second one when f was lowered."""
        counts = f"{len(self.kept)} kept, {len(self.excluded)} excluded, {len(self.dropped)} dropped"
        return f"{self.rule!r} on {self.n} vectors: {counts}" + (f"\n{self.note}" if self.note else "")

    def __str__(self) -> str:
        head = ("worker", "status", self.measure, "distance", "why")
        rows = [head, *self.table()]
        wide = [max(len(row[c]) for row in rows) for c in range(4)]
        lines = ["  ".join([*(t.ljust(w) for t, w in zip(row, wide, strict=False)), row[4]]).rstrip() for row in rows]
        return "\n".join([self.summary(), *lines])
