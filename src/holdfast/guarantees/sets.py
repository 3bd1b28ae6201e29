"""Which sets of workers can be the honest ones, if workers count alike or not.

The honest workers are some set whose complement holds at most the mass `out`. A statement about every way to take the
mass h = total - out, of each worker at most its own, is a statement about all these sets (docs/weights.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from holdfast.decision import Decision
from holdfast.errors import BadInput, plural
from holdfast.masses import heaviest, nearest_mass, whole_masses
from holdfast.rules.exact_mean import least_by_scores, scores_by_mass

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Sets:
    """Workers with whole masses, of which `out` may be Byzantine; equal: all masses are one."""

    mass: Array
    out: float

    @classmethod
    def plain(cls, n: int, f: int) -> Sets:
        """Workers that count alike."""
        return cls(np.ones(n), float(f))

    @classmethod
    def of(cls, decision: Decision, f: int) -> Sets:
        """The workers of a decision; BadInput if f of them hold half of the mass."""
        rows = decision.rows
        mass = None if decision.masses is None else whole_masses(decision.masses.weights[rows])
        if mass is None:
            return cls.plain(len(rows), f)
        sets = cls(mass, heaviest(mass, f))
        if sets.q <= 0:
            held = f"the {f} heaviest {plural(f, 'worker')} {'holds' if f == 1 else 'hold'} {sets.share:.0%}"
            raise BadInput(f"{decision.rule!r} was given weights of which {held}; a certificate needs less than half.")
        return sets

    @property
    def n(self) -> int:
        return len(self.mass)

    @cached_property
    def equal(self) -> bool:
        return bool((self.mass == 1).all())

    @cached_property
    def total(self) -> float:
        return float(self.mass.sum())

    @property
    def h(self) -> float:
        """The mass of a smallest set."""
        return self.total - self.out

    @property
    def q(self) -> float:
        """The mass that two sets share at least."""
        return self.total - 2 * self.out

    @property
    def share(self) -> float:
        return self.out / self.total

    @property
    def aside(self) -> float:
        """How many deviations the common part of two sets is away from one of them, at most (Lemma A)."""
        return float(np.sqrt(self.out / self.q))

    @property
    def reach(self) -> float:
        """How many times the mean square the largest square in a set is, at most."""
        return self.h if self.equal else self.total / float(self.mass.min())

    def most(self, values: Array) -> Array:
        """How much of each worker is in the set of mass h with the largest sum of these values."""
        if not self.equal:
            return nearest_mass(-values[None], self.mass, self.h)[0]
        taken = np.zeros(self.n)
        taken[np.argsort(values)[int(self.out) :]] = 1.0
        return taken

    def largest(self, values: Array) -> float:
        """The largest sum of these values over a set."""
        taken = self.most(values)
        return float((taken * np.where(taken > 0, values, 0.0)).sum())

    def least_squares(self, D: Array) -> float:
        """A sum of squares that no set is below."""
        return least_by_scores(scores_by_mass(D, self.mass, self.h), self.mass, self.h)
