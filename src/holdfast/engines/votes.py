"""Two phases on a server, whichever engine carries the votes: propose two models, let clients vote, take the winner."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, Generic

import numpy as np

from holdfast.decision import Decision
from holdfast.elections import Ballot
from holdfast.engines.differences import Model, stepped
from holdfast.engines.replies import Gathered, Name
from holdfast.engines.rounds import Rounds
from holdfast.errors import BadInput
from holdfast.jsonable import finite_or_none
from holdfast.rules.base import Stage
from holdfast.twophase import TwoPhase, elect, proximal_margin

CANDIDATES = ("inner", "outer")


@dataclass
class Votes(Generic[Name]):
    """The first vote of each voter, what was wrong with others', and the bytes that were sent for it."""

    losses: dict[Name, tuple[float, float]] = field(default_factory=dict)
    bad: dict[Name, str] = field(default_factory=dict)
    bytes: int = 0

    def add(self, node: Name, declared: list[object]) -> None:
        """Count a pair of losses, Inner's and Outer's; what is no number is a bad vote, and infinity is the worst."""
        losses = tuple(_loss(value) for value in declared)
        if len(losses) != len(CANDIDATES) or None in losses:
            self.bad[node] = "sent no pair of losses"
        elif not any(math.isfinite(loss) for loss in losses if loss is not None):
            self.bad[node] = "sent no finite loss"
        else:
            inner, outer = (float(loss) for loss in losses if loss is not None)
            self.losses[node] = (inner, outer)

    def answered(self, node: Name) -> bool:
        """Whether this client has voted, well or badly."""
        return node in self.losses or node in self.bad


def _loss(value: object) -> float | None:
    """A loss; one that is not finite is the worst there is. None if it is no number."""
    if not isinstance(value, int | float | np.integer | np.floating):
        return None
    loss = finite_or_none(value)
    return math.inf if loss is None else loss


def make_two_phase(inner: Any, outer: Any, election: Any, who: str) -> TwoPhase:
    """The whole rule, from Inner and Outer or from a whole rule."""
    if isinstance(inner, str):
        raise BadInput(f"{who} was given the text {inner!r}; pass parse({inner!r}, AGGREGATORS).")
    if isinstance(inner, TwoPhase) and outer is None and election is None:
        return inner
    if outer is None:
        raise BadInput(f"{who} was given {inner!r} alone; give Inner and Outer, or a rule such as Mean2P(f=3).")
    return TwoPhase(inner, outer, election or Ballot())


class TwoPhaseRounds(Rounds[Name]):
    """Rounds in which the rule proposes two models, and the clients elect one of them."""

    step: float  # of a client, as `check_step` returns it

    def _rules(self) -> tuple[Stage, ...]:
        return self.rule.inner, self.rule.outer

    @abstractmethod
    def _ask(self, models: dict[str, Model], voters: list[Name], turn: int) -> Votes[Name]:
        """Send the candidates to the voters and return what they say."""

    def _decide(self, turn: int, came: Gathered[Name]) -> tuple[Decision, dict[str, Any]]:
        candidates = self.rule.propose(self._updates(came), rng=self._rng(turn), start=self.last)
        values = (candidates.inner.value, candidates.outer.value)
        models = {name: stepped(self.model, value) for name, value in zip(CANDIDATES, values, strict=True)}
        began = time.monotonic()
        voters = [came.nodes[i] for i in candidates.voters if came.nodes[i] not in self.arrivals.owing]
        votes = self._ask(models, voters, turn)
        reports = [(came.nodes.index(node), losses) for node, losses in votes.losses.items()]
        margin = proximal_margin(self.rule.election, *values, step=1 / self.step)  # the values are whole steps here
        winner = elect(candidates, reports, self.rule.election, margin=margin)
        decision: Decision = getattr(candidates, winner.name)
        facts: dict[str, Any] = {
            "winner": winner.name,
            "lead": finite_or_none(float(winner.lead)),
            "votes": len(votes.losses),
            "bad_votes": {str(node): why for node, why in votes.bad.items()},
        }
        if self.rule.election.proximal:
            facts["margin"] = finite_or_none(margin)
        facts["no_vote"] = [str(node) for node in voters if not votes.answered(node)]
        if winner.why:
            facts["why"] = winner.why
            failed = next((f"; {self.noun} {node} {why}" for node, why in votes.bad.items()), "")
            text = "round %d: %s is taken without a vote: %s%s"
            self.log.warning(text, turn, winner.name.capitalize(), winner.why, failed)
        facts["seconds"] = {"vote": round(time.monotonic() - began, 3)}
        facts["bytes"] = {"vote": votes.bytes}
        return decision, facts | self._certified(decision, came.updates)
