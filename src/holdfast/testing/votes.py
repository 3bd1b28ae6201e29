"""A round of a two-phase rule, in which every worker votes for the candidate that is nearer to its own update."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from holdfast.errors import BadInput
from holdfast.testing import promises
from holdfast.testing.aggregators import Subject
from holdfast.testing.hostile import NEAR
from holdfast.testing.laws import Aggregate
from holdfast.testing.report import ROBUSTNESS
from holdfast.twophase import WINNERS, TwoPhase, claimed


def voted(rule: TwoPhase, n: int, f: int, oracle: Aggregate | None, not_promised: Mapping[str, str]) -> Subject:
    """A two-phase rule as a subject of checks: it answers what the workers elect."""
    excuses = promises.excuses(rule.inner) | promises.excuses(rule.outer)
    if rule.election.proximal or getattr(rule.election, "margin", 0.0):
        excuses["scaling"] = "its election has a margin"
    excuses["constant"] = "a two-phase rule has no constant κ of one round"
    near: float | None = NEAR
    if claimed(rule) is None:
        near, excuses[ROBUSTNESS] = None, "has no f, so robustness was not checked"
        excuses["too many NaN"] = "it assumes nothing about the number of faults"
    trusted = {*promises.trusted(rule.inner), *promises.trusted(rule.outer)}
    call = partial(play_round, rule)
    return Subject(call, n, f, oracle, None, near, trusted, (BadInput,), {**excuses, **not_promised})


def play_round(rule: TwoPhase, X: Any) -> Any:
    """Propose, vote and elect; the elected candidate's value.

    A worker's loss is its distance from the candidate, as if its data were best served by the step that it sent. The
    length of a step is 1.

    Parameters
    ----------
    rule : TwoPhase
        The rule.
    X : updates
        An array of shape (n, d).

    Returns
    -------
    numpy.ndarray
        d numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import Mean2P
    >>> from holdfast.testing.votes import play_round
    >>> play_round(Mean2P(f=1), np.array([[1.0], [1.0], [1.0], [9.0]]))
    array([1.])
    """
    candidates = rule.propose(X, rng=np.random.default_rng(5) if rule.random else None)
    rows = np.asarray(X).astype(np.longdouble)  # wide enough for 1e308 and for 1e-312
    values = [np.asarray(getattr(candidates, name).value) for name in WINNERS]
    with np.errstate(all="ignore"):
        losses = [np.sqrt(np.square(rows - value.astype(np.longdouble)).sum(axis=1)).astype(float) for value in values]
    reports = [(worker, (losses[0][worker], losses[1][worker])) for worker in candidates.voters]
    return values[WINNERS.index(rule.elect(candidates, reports, step=1.0).name)]
