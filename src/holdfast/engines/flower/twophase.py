"""Two-phase rounds over the wire: propose two candidates, let the nodes vote, commit the winner."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable
from typing import Any, Unpack

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict

from holdfast.decision import Decision
from holdfast.elections import Ballot
from holdfast.engines.flower.arguments import StrategyOptions, seconds
from holdfast.engines.flower.differences import stepped
from holdfast.engines.flower.limits import TooMuch, check_counts
from holdfast.engines.flower.metrics import reported
from holdfast.engines.flower.replies import Gathered, failure, make_record
from holdfast.engines.flower.strategy import RobustStrategy
from holdfast.errors import BadInput
from holdfast.jsonable import finite_or_none
from holdfast.rules.base import Stage
from holdfast.twophase import TwoPhase, check_step, elect, proximal_margin

log = logging.getLogger("flwr.holdfast")
VOTE = "query.vote"
CANDIDATES = ("inner", "outer")


class TwoPhaseStrategy(RobustStrategy):
    """Rounds in which a rule proposes two models, and the nodes elect one of them.

    Parameters
    ----------
    inner : Stage or TwoPhase
        The Inner rule, such as `MeanwO(f=3)`; or a whole rule, such as `Mean2P(f=3)`.
    outer : Stage, optional
        The Outer rule, such as `OuterMean(f=3)`.
    election : Ballot or Numeric, optional
        How the nodes' losses decide. Without it, by ballot.
    vote_timeout : float
        How many seconds a round waits for votes.
    step : float, optional
        The length of a client's step: its learning rate times its local steps. An election with a proximal margin needs
        it, since the server sees differences of models alone.
    fraction_train, fraction_evaluate, min_train_nodes, min_evaluate_nodes, min_available_nodes : optional
        As for `RobustStrategy`.
    arrayrecord_key, configrecord_key, patience, folder, certify, measure, weighted_by_key, cap, buffer, seed : optional
        As for `RobustStrategy`. Weights count for both candidates. In the vote each node has one voice.

    Raises
    ------
    BadInput
        If there is no Outer rule, or a rule cannot be asked by a server.

    Notes
    -----
    The server proposes two models and asks the nodes whose updates it could use. Clients answer `query.vote` with
    their loss on both (`vote` of this package does it for them). Nodes that were silent or refused in the first phase
    are not asked. A missing, double or malformed vote changes nothing beyond that node's own. Without enough votes
    Inner wins, which has a guarantee.

    Examples
    --------
    >>> from holdfast import Mean2P
    >>> from holdfast.engines.flower import TwoPhaseStrategy
    >>> TwoPhaseStrategy(Mean2P(f=3)).rule.outer
    OuterMean(f=3)
    """

    def __init__(
        self,
        inner: Any,
        outer: Any = None,
        election: Any = None,
        *,
        vote_timeout: float = 600.0,
        step: float | None = None,
        **options: Unpack[StrategyOptions],
    ) -> None:
        if isinstance(inner, str):
            raise BadInput(f"TwoPhaseStrategy was given the text {inner!r}; pass parse({inner!r}, AGGREGATORS).")
        if isinstance(inner, TwoPhase) and outer is None and election is None:
            rule = inner
        elif outer is None:
            raise BadInput(
                f"TwoPhaseStrategy was given {inner!r} alone; give Inner and Outer, or a rule such as Mean2P(f=3)."
            )
        else:
            rule = TwoPhase(inner, outer, election or Ballot())
        self.vote_timeout = seconds("vote_timeout", vote_timeout)
        self.step = check_step(rule.election, step, "the clients' learning rate times their local steps")
        super().__init__(rule, **options)

    def _check(self, rule: Any) -> None:
        for one in (rule.inner, rule.outer):
            super()._check(one)

    def _rules(self) -> tuple[Stage, ...]:
        return self.rule.inner, self.rule.outer

    def _decide(self, turn: int, came: Gathered) -> tuple[Decision, dict[str, Any]]:
        rng = np.random.default_rng((self.seed, turn, 1))
        candidates = self.rule.propose(self._updates(came), rng=rng, start=self.last)
        models = [stepped(self.model, decided.value) for decided in (candidates.inner, candidates.outer)]
        began = time.monotonic()
        voters = [came.nodes[i] for i in candidates.voters if came.nodes[i] not in self.arrivals.owing]
        sent = {name: make_record(model) for name, model in zip(CANDIDATES, models, strict=True)}
        content = RecordDict({**sent})
        content[self.configrecord_key] = ConfigRecord({"server-round": turn})
        assert self.grid is not None
        replies = self.grid.send_and_receive(self._messages(content, VOTE, voters), timeout=self.vote_timeout)
        votes, bad = _votes(replies, voters)
        reports = [(came.nodes.index(node), losses) for node, losses in votes.items()]
        values = (candidates.inner.value, candidates.outer.value)
        margin = proximal_margin(self.rule.election, *values, step=1 / self.step)  # the values are whole steps here
        winner = elect(candidates, reports, self.rule.election, margin=margin)
        decision: Decision = getattr(candidates, winner.name)
        facts: dict[str, Any] = {
            "winner": winner.name,
            "lead": finite_or_none(float(winner.lead)),
            "votes": len(votes),
            "bad_votes": bad,
        }
        if self.rule.election.proximal:
            facts["margin"] = finite_or_none(margin)
        facts["no_vote"] = [str(node) for node in voters if node not in votes and str(node) not in bad]
        if winner.why:
            facts["why"] = winner.why
            failed = next((f"; node {node} {why}" for node, why in bad.items()), "")
            log.warning(
                "round %d: %s is taken without a vote: %s%s", turn, winner.name.capitalize(), winner.why, failed
            )
        facts["seconds"] = {"vote": round(time.monotonic() - began, 3)}
        facts["bytes"] = {
            "vote": len(voters) * sum(len(array.data) for name in CANDIDATES for array in sent[name].values())
        }
        return decision, facts | self._certified(decision, came)


def _votes(replies: Iterable[Message], voters: list[int]) -> tuple[dict[int, tuple[float, float]], dict[str, str]]:
    """The first vote of each voter, and what was wrong with others'."""
    votes: dict[int, tuple[float, float]] = {}
    bad: dict[str, str] = {}
    for reply in replies:
        node = int(reply.metadata.src_node_id)
        if node not in voters or node in votes or str(node) in bad:
            continue
        if reply.has_error():
            bad[str(node)] = failure(reply)
            continue
        try:
            check_counts(reply)
        except TooMuch as why:
            bad[str(node)] = str(why)
            continue
        losses = _losses(reply)
        if losses is None:
            bad[str(node)] = "sent no pair of losses"
        elif not any(map(math.isfinite, losses)):
            bad[str(node)] = "sent no finite loss"
        else:
            votes[node] = losses
    return votes, bad


def _losses(reply: Message) -> tuple[float, float] | None:
    """Inner's and Outer's loss; one that is not finite is the worst there is."""
    losses: dict[str, float] = {}
    for record in reported(reply):
        for name in CANDIDATES:
            value = record.get(name)
            if isinstance(value, (int, float)):
                loss = finite_or_none(value)
                losses[name] = math.inf if loss is None else loss
    return (losses["inner"], losses["outer"]) if len(losses) == 2 else None
