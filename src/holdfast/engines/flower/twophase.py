"""Two-phase rounds over the wire: propose two candidates, let the nodes vote, commit the winner."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Unpack

from flwr.app import ConfigRecord, Message, RecordDict

from holdfast.engines.arguments import seconds
from holdfast.engines.differences import Model
from holdfast.engines.flower.arguments import StrategyOptions
from holdfast.engines.flower.limits import TooMuch, check_counts
from holdfast.engines.flower.metrics import reported
from holdfast.engines.flower.replies import failure, make_record
from holdfast.engines.flower.strategy import RobustStrategy
from holdfast.engines.votes import CANDIDATES, TwoPhaseRounds, Votes, make_two_phase
from holdfast.twophase import check_step

log = logging.getLogger("flwr.holdfast")
VOTE = "query.vote"


class TwoPhaseStrategy(TwoPhaseRounds[int], RobustStrategy):
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
        rule = make_two_phase(inner, outer, election, "TwoPhaseStrategy")
        self.vote_timeout = seconds("vote_timeout", vote_timeout)
        self.step = check_step(rule.election, step, "the clients' learning rate times their local steps")
        super().__init__(rule, **options)

    def _check(self, rule: Any) -> None:
        for one in (rule.inner, rule.outer):
            super()._check(one)

    def _ask(self, models: dict[str, Model], voters: list[int], turn: int) -> Votes[int]:
        sent = {name: make_record(model) for name, model in models.items()}
        content = RecordDict({**sent})
        content[self.configrecord_key] = ConfigRecord({"server-round": turn})
        assert self.grid is not None
        replies = self.grid.send_and_receive(self._messages(content, VOTE, voters), timeout=self.vote_timeout)
        votes = _votes(replies, voters)
        votes.bytes = len(voters) * sum(len(array.data) for record in sent.values() for array in record.values())
        return votes


def _votes(replies: Iterable[Message], voters: list[int]) -> Votes[int]:
    """The first vote of each voter, and what was wrong with others'."""
    votes = Votes[int]()
    for reply in replies:
        node = int(reply.metadata.src_node_id)
        if node not in voters or votes.answered(node):
            continue
        if reply.has_error():
            votes.bad[node] = failure(reply)
            continue
        try:
            check_counts(reply)
        except TooMuch as why:
            votes.bad[node] = str(why)
            continue
        votes.add(node, _losses(reply))
    return votes


def _losses(reply: Message) -> list[object]:
    """What a reply declares as Inner's and Outer's loss."""
    losses: dict[str, object] = {}
    for record in reported(reply):
        for name in CANDIDATES:
            value = record.get(name)
            if isinstance(value, int | float):
                losses[name] = value
    return [losses[name] for name in CANDIDATES if name in losses]
