"""The hostile rounds that a row of the board holds: its answer stays finite and near the honest mean."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast.contract import Stage
from holdfast.experiments.peers import SECONDS, PeerRule
from holdfast.testing import Status, find_aggregator
from holdfast.testing.aggregators import Subject
from holdfast.testing.hostile import CASES
from holdfast.testing.rules import called
from holdfast.testing.votes import play_round
from holdfast.twophase import TwoPhase

WORKERS, BYZANTINE = 15, 3
REPEATED = 20  # times that a rule which goes on from its last answer sees a round


def hostile_rounds(rule: Any) -> dict[str, Any]:
    """Return how many rounds apply to a rule, and what went wrong in those that it did not hold.

    Another library's aggregator gets the rows as they are, and nobody drops what is not finite. A rule that goes on
    from its last answer sees each round again and again, as if training stood still.

    >>> from holdfast import MeanwO
    >>> hostile_rounds(MeanwO(f=3))
    {'rounds': 17, 'broken': {}}
    """
    call, trusted = _call(rule)
    subject = Subject(call, WORKERS, BYZANTINE, trusted=trusted)
    checks = [plan.run(SECONDS) for plan in subject.hostile_plans()]
    asked = [check for check in checks if check.status is not Status.NOT_APPLICABLE]
    return {
        "rounds": len(asked),
        "broken": {check.name: check.detail for check in asked if check.status is not Status.PASSED},
    }


def no_rounds(why: str) -> dict[str, Any]:
    """What is written down of a rule that ended before it answered: it held none."""
    return {"rounds": len(CASES), "broken": {case.name: why for case in CASES}}


def _call(rule: Any) -> tuple[Callable[[Any], Any], tuple[int, ...]]:
    if isinstance(rule, PeerRule):
        peer = find_aggregator(rule.name, f=BYZANTINE)
        return peer.call, peer.trusted
    if isinstance(rule, TwoPhase):
        return partial(play_round, rule), ()
    return partial(_repeated, rule) if "start" in rule.anchors else called(rule), ()


def _repeated(rule: Stage, X: Any) -> Any:
    answer = None
    for _ in range(REPEATED):
        answer = rule(X, start=answer)
    return answer
