"""An aggregator of another library as a rule, so that it can be trained with."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from holdfast import combine
from holdfast.arrays import Array
from holdfast.decision import Decision
from holdfast.errors import BrokenRule, NoWeightedForm, plural
from holdfast.kinds import OnePass
from holdfast.settle import note_of, settled
from holdfast.testing.peers import Peer, find_aggregator
from holdfast.testing.report import TooLong, time_limit
from holdfast.updates import Updates
from holdfast.values import Tolerance, value

SECONDS = 3  # of processor time for an answer


@value
class PeerRule(OnePass):
    """An aggregator of another library, called with all updates as one array.

    Parameters
    ----------
    name : str
        As for `holdfast.testing.find_aggregator`, such as "byzfl:Krum".
    f : int
        The number of Byzantine workers, which the library takes as its own f.

    Notes
    -----
    Updates that are not finite are dropped before the call, and more than f of them refuse the round, as with our own
    rules. Who had a part in the answer is not known, so all weights are shown as equal. A call that takes more than
    three seconds of processor time is a broken contract, in the main thread of a process.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.experiments.peers import PeerRule
    >>> PeerRule(name="holdfast.rules:CWTM", f=1)(np.array([[1.0], [2.0], [9.0]]))
    array([2.])
    """

    name: str
    f: Tolerance
    formula = "what another library computes"
    source = "another library"

    def one_pass(self, updates: Updates) -> Decision:
        if updates.mass(updates.sound()) is not None:
            raise NoWeightedForm.of(self)
        updates.look()
        rule, rows = settled(self, updates), updates.sound()
        values = self._answer(updates, rows, rule.tolerance() or 0)
        weights = np.zeros(updates.n)
        weights[rows] = 1 / len(rows)
        return Decision(
            rule=rule,
            asked=self,
            n=updates.n,
            value=updates.answer(values),
            weights=weights,
            dropped=updates.dropped(),
            rows=rows,
            note=note_of(rule, self, updates),
        )

    def _answer(self, updates: Updates, rows: np.ndarray, f: int) -> list[Array]:
        """The peer's answer, one flat array for each leaf; counters take their lower median."""
        leaves = updates.floats
        X = np.concatenate([leaf.place.fetch(leaf.block(rows, 0, leaf.size)) for leaf in leaves], axis=1)
        try:
            with time_limit(SECONDS):
                answer = np.asarray(_find(self.name, f).call(X))
        except TooLong:
            raise BrokenRule(f"{self!r} gave no answer within {SECONDS} seconds of processor time.") from None
        if answer.shape != X.shape[1:] or answer.dtype.kind != "f" or not np.isfinite(answer).all():
            raise BrokenRule(
                f"{self!r} answered {len(X)} finite updates with {_describe(answer)}; "
                f"an aggregate is an array of {X.shape[1]} finite {plural(X.shape[1], 'number')}."
            )
        parts = iter(np.split(answer, np.cumsum([leaf.size for leaf in leaves])[:-1]))
        return [
            combine.lower_median(leaf, rows) if leaf.kind == "i" else leaf.place.put(next(parts), leaf.kind)
            for leaf in updates.leaves
        ]


@lru_cache(maxsize=64)
def _find(name: str, f: int) -> Peer:
    return find_aggregator(name, f=f)


def _describe(answer: np.ndarray) -> str:
    if answer.dtype.kind == "f" and answer.ndim == 1 and not np.isfinite(answer).all():
        return "numbers that are not finite"
    return f"an array of shape {answer.shape} and type {answer.dtype}"
