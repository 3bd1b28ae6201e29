"""The server's rounds: send the model, sort the replies, let the rule decide; the link to the sites is an argument."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType

from holdfast.engines.differences import Model
from holdfast.engines.nvflare.models import join_candidates
from holdfast.engines.nvflare.replies import bytes_of, read_reply, read_vote
from holdfast.engines.replies import Refused, Sound, plain
from holdfast.engines.rounds import Rounds
from holdfast.engines.votes import TwoPhaseRounds, Votes

VOTE = "holdfast.vote"  # in the meta of a model: two candidates are sent, and their losses are asked for


class JobStopped(Exception):
    """NVFlare has stopped the job in the middle of a round, which then has no answer and is not in the journal."""


class Link(Protocol):
    """Sends a model to sites, and returns what came back in time, each reply with the name of its site.

    It raises JobStopped if the job was stopped.
    """

    def __call__(self, task: str, model: FLModel, sites: list[str], timeout: float) -> Iterable[tuple[str, object]]: ...


class Server(Rounds[str]):
    """One-phase rounds over a link."""

    noun, first = "site", "the first model"
    link: Link
    task, timeout = "train", 600.0
    num_rounds = 0

    @property
    def least(self) -> int:
        """How many sites a round needs."""
        return self._least()

    @property
    def tolerance(self) -> int:
        """The f of the rule."""
        return self._f()

    def begin(self, model: Model, num_rounds: int) -> range:
        """The rounds that are left to run, from where an earlier server was killed."""
        self.num_rounds = num_rounds
        self.model = self._resume(model, num_rounds)
        return range(self.offset + 1, num_rounds + 1)

    def play(self, turn: int, sites: list[str]) -> dict[str, float]:
        """Run one round with these sites; the figures of the round, `skipped` among them if it was."""
        self.began, self.few, self.asked = time.monotonic(), "", sites
        if len(sites) < self._least():
            self.asked, self.few = [], self._explain_few(len(sites))
        replies = self.link(self.task, self._message(turn, self.model), self.asked, self.timeout) if self.asked else []
        self.arrivals.ask(turn, self.asked, self.model)
        came = self.arrivals.sort(turn, replies, self._read)
        return self._settle(turn, came)[1]

    def _read(self, reply: object, model: Model, out: Model) -> Sound:
        return read_reply(reply, model, self.counts, out)

    def _message(self, turn: int, params: Mapping[str, np.ndarray], **meta: Any) -> FLModel:
        """A message to the sites; NVFlare counts rounds from 0."""
        rounds = {"current_round": turn - 1, "total_rounds": self.num_rounds, "start_round": 0}
        return FLModel(ParamsType.FULL, dict(params), meta=meta, **rounds)


class TwoPhaseServer(TwoPhaseRounds[str], Server):
    """Rounds in which the sites vote on two candidates."""

    vote_task, vote_timeout = "vote", 600.0

    def _ask(self, models: dict[str, Model], voters: list[str], turn: int) -> Votes[str]:
        votes = Votes[str](bytes=len(voters) * sum(map(bytes_of, models.values())))
        message = self._message(turn, join_candidates(models), **{VOTE: True})
        for site, reply in self.link(self.vote_task, message, voters, self.vote_timeout):
            if site not in voters or votes.answered(site):
                continue
            try:
                votes.add(site, read_vote(reply))
            except Refused as why:
                votes.bad[site] = plain(str(why))
        return votes
