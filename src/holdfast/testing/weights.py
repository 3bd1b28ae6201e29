"""What a rule with a weighted form must obey: equal weights, scaled weights, weight 0, copies, weights of no use."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from holdfast.contract import Stage
from holdfast.errors import BadInput
from holdfast.kinds import has_weighted_form
from holdfast.masses import heaviest
from holdfast.testing import promises
from holdfast.testing.aggregators import COORDINATES, Subject
from holdfast.testing.laws import Array, LawBroken, Rng, require_close
from holdfast.testing.report import Plan
from holdfast.testing.rounds import gaussian

TRIES = 20  # draws of small weights of which f workers hold less than half
LOOSE = np.float32  # of answers that are searched for, as medians: equal to this precision


def weight_plans(rule: Stage, subject: Subject) -> Iterator[Plan]:
    """The checks of weights, or one that says that the rule takes none."""
    if not has_weighted_form(rule):
        yield Plan("weights", "Workers may count differently.", None, "no weighted form")
        return
    laws = Weighing(rule, subject.n, subject.f)
    for name, sentence, test in (
        ("equal weights", "Equal weights give the answer without weights, to the bit.", laws.equal),
        ("scaled weights", "Weights times a constant give the same answer.", laws.scaled),
        ("weight 0", "A worker of weight 0 is absent.", laws.absent),
        ("copies", "A worker of weight 3 counts as three workers that send the same.", laws.copied),
        ("bad weights", "Weights that are negative, not finite, too few or all 0 are refused.", laws.refused),
    ):
        yield Plan(name, sentence, test, subject.excuses.get(name, promises.weighing(rule).get(name, "")))


class Weighing:
    """The laws of weights for one rule and one size of a round."""

    def __init__(self, rule: Stage, n: int, f: int) -> None:
        self.rule, self.n, self.f = rule, n, f

    def _drawn(self, rng: Rng) -> tuple[Array, Array]:
        """A round, and whole-number weights of which f workers hold less than half."""
        X = gaussian(rng, self.n, COORDINATES)
        for _ in range(TRIES):
            weights = rng.integers(1, 4, self.n)
            if 2 * heaviest(weights, self.f) < weights.sum() and len(set(weights)) > 1:
                return X, weights
        weights = np.full(self.n, self.f + 1)  # f of them, the heavier one too, hold less than the others
        weights[0] += 1
        return X, weights

    def _answer(self, X: Array, weights: object = None, rule: Stage | None = None) -> Array:
        chosen = rule or self.rule
        rng = np.random.default_rng(5) if chosen.random else None
        return np.asarray(chosen(X, rng=rng, weights=weights))

    def equal(self, rng: Rng) -> None:
        X, _ = self._drawn(rng)
        plain = self._answer(X)
        for weight in (1.0, 0.3, 7e5):
            if self._answer(X, np.full(self.n, weight)).tobytes() != plain.tobytes():
                raise LawBroken(f"weights that are all {weight:g} give another answer than none")

    def scaled(self, rng: Rng) -> None:
        X, weights = self._drawn(rng)
        first = self._answer(X, weights)
        for factor in (0.1, 1024.0):
            require_close(self._answer(X, weights * factor), first, float(np.abs(X).max()), LOOSE)

    def absent(self, rng: Rng) -> None:
        X, weights = self._drawn(rng)
        more = np.vstack([X, X[:1] * np.nan, X[:1] + 1e6])
        found = self._answer(more, [*weights, 0, 0])
        require_close(found, self._answer(X, weights), float(np.abs(X).max()), LOOSE)

    def copied(self, rng: Rng) -> None:
        X, weights = self._drawn(rng)
        f = self.rule.tolerance()
        by = 0 if f is None else f - int(heaviest(weights, f))
        wanted = self._answer(np.repeat(X, weights, axis=0), rule=self.rule.lowered(by))
        require_close(self._answer(X, weights), wanted, float(np.abs(X).max()), LOOSE)

    def refused(self, rng: Rng) -> None:
        X, _ = self._drawn(rng)
        for wrong in (np.ones(self.n - 1), -np.ones(self.n), np.full(self.n, np.nan), np.zeros(self.n), "abc"):
            try:
                self._answer(X, wrong)
            except BadInput:
                continue
            raise LawBroken(f"the weights {str(wrong)[:40]} were used")
