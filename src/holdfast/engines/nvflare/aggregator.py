"""A rule in the place of NVFlare's weighted mean, inside of its own FedAvg."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nvflare.apis.dxo import from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.abstract.model import ModelLearnableKey
from nvflare.app_common.aggregators.model_aggregator import ModelAggregator
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType
from nvflare.app_common.utils.fl_model_utils import FLModelUtils

from holdfast.checks import check_whole
from holdfast.engines.counts import Cap, Counts
from holdfast.engines.differences import Model
from holdfast.engines.journal import Journal
from holdfast.engines.nvflare.arguments import check_flag, check_text, log, plain_number, read_pattern, read_rule
from holdfast.engines.nvflare.models import like, read_model
from holdfast.engines.nvflare.replies import read_reply
from holdfast.engines.nvflare.server import Server
from holdfast.engines.replies import Gathered, sort_replies
from holdfast.errors import BadInput
from holdfast.rules.base import Stage


class RobustAggregator(ModelAggregator):
    """A rule that aggregates the models of a round in a workflow of NVFlare's own, such as FedAvg.

    Parameters
    ----------
    rule : Stage or str
        The rule, such as `MeanwO(f=1)`, or its text.
    folder : str, optional
        Where one line of JSON for each round is written. A relative path is below the folder of the job on the server.
        Lines of an earlier job are set aside there. Without it, nothing is kept.
    certify : bool
        Whether each round gets a certificate (κ) where one can be had.
    measure : str, optional
        A regular expression. Arrays with a name in which it is found count in distances. Without it, all do.
    weighted_by_key : str, optional
        Under which name sites declare how much they count, such as "NUM_STEPS_CURRENT_ROUND". Without it, all count
        alike.
    cap : float, "off" or None
        As for `RobustController`.
    seed : int
        For rules that draw.

    Raises
    ------
    BadInput
        If the rule cannot be asked by a server, or an argument is out of range.

    Notes
    -----
    FedAvg decides who is asked, how long it waits, and what an exception on a site means. It waits for a silent site
    without end, and ends the job at an exception. `RobustController` does neither.

    A round without an answer leaves the model as it was. Models that NVFlare could not read never get here, so they
    are not counted as faults. The model must be finite arrays of a kind that numpy has; a round with another model,
    such as one in bfloat16, is skipped.

    Examples
    --------
    >>> from holdfast import MeanwO
    >>> from holdfast.engines.nvflare import RobustAggregator
    >>> RobustAggregator(MeanwO(f=1)).rule
    'MeanwO(f=1)'
    """

    def __init__(
        self,
        rule: Stage | str,
        *,
        folder: str | None = None,
        certify: bool = True,
        measure: str | None = None,
        weighted_by_key: str | None = None,
        cap: Cap = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        who = type(self).__name__
        self.rule = repr(read_rule(rule, who, two_phase=False))
        self.folder = None if folder is None else check_text(folder, "folder", who, what="a path or None")
        self.certify, self.measure = check_flag(certify, "certify", who), measure
        self.weighted_by_key, self.cap = weighted_by_key, plain_number(cap)
        self.seed = check_whole(seed, "seed", least=0, who=who)
        self._rounds = _Rounds(
            read_rule(self.rule, who, two_phase=False),
            Counts(weighted_by_key, self.cap),
            folder=None,
            certify=self.certify,
            measure=read_pattern(measure, who),
            seed=self.seed,
            log=log,
        )
        self._sent: Any = None  # the model of the round, as NVFlare has it
        self._turn = 0
        self._replies: list[tuple[str, Shareable]] = []

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Open the journal, and note the model that is sent; NVFlare calls this."""
        super().handle_event(event_type, fl_ctx)
        if event_type == EventType.START_RUN and self.folder is not None:
            run = fl_ctx.get_engine().get_workspace().get_run_dir(fl_ctx.get_job_id())
            try:
                self._rounds.open(Path(run) / self.folder)
            except BadInput as error:  # an exception here would only be logged
                self.system_panic(str(error), fl_ctx)
        if event_type == AppEventType.BEFORE_TRAIN_TASK:
            self._sent = from_shareable(fl_ctx.get_prop(AppConstants.TRAIN_SHAREABLE)).data

    def accept(self, shareable: Shareable, fl_ctx: FLContext) -> bool:
        """Take a reply as ScatterAndGather passes it on."""
        self.fl_ctx = fl_ctx
        self._replies.append((str(fl_ctx.get_peer_context().get_identity_name()), shareable))
        return True

    def accept_model(self, model: FLModel) -> None:
        """Take a reply as FedAvg passes it on."""
        try:
            reply = FLModelUtils.to_shareable(model)
        except Exception:  # whatever a hostile reply makes a writer say
            reply = make_reply(ReturnCode.BAD_TASK_DATA)
        self._replies.append((str(model.meta.get("client_name")), reply))

    def aggregate_model(self) -> FLModel:
        """Return the model after the rule's step, or an empty difference if the round is skipped."""
        replies, self._replies, self._turn = self._replies, [], self._turn + 1
        sent = self._model_sent()
        moved = None if sent is None else self._rounds.settle(self._turn, sent, replies)
        if sent is None:
            log.error("round %d is skipped: NVFlare does not say which model it has sent", self._turn)
        if sent is None or moved is None:
            return FLModel(ParamsType.DIFF, {}, meta={})
        return FLModel(ParamsType.FULL, {name: like(values, sent[name]) for name, values in moved.items()}, meta={})

    def reset_stats(self) -> None:
        """Forget the replies of a round that was not aggregated; NVFlare calls this before each round."""
        self._replies = []
        self._rounds.began = time.monotonic()

    def _model_sent(self) -> Mapping[str, Any] | None:
        """The arrays that were sent in this round, by name."""
        if self._sent is None and self.fl_ctx is not None:
            held = self.fl_ctx.get_prop(AppConstants.GLOBAL_MODEL)
            return None if held is None else held[ModelLearnableKey.WEIGHTS]
        return self._sent


class _Rounds(Server):
    """Rounds whose model is NVFlare's: a journal is kept, a state is not."""

    def open(self, folder: Path) -> None:
        """Begin a journal in the folder; lines of an earlier job are set aside in it."""
        self.journal = Journal(folder, self.log)
        if self.journal.state() is not None:
            raise BadInput(f"{folder} holds the state of a RobustController; give RobustAggregator another folder.")

    def settle(self, turn: int, sent: Mapping[str, Any], replies: list[tuple[str, Shareable]]) -> Model | None:
        self.asked = sorted({site for site, _ in replies})
        try:
            self.model = model = read_model(sent, RobustAggregator.__name__)
        except BadInput as why:  # at an exception, FedAvg ends the job
            self.log.error("round %d is skipped, as each with this model: %s", turn, why)
            return self._skip(turn, self._begin_line(turn, Gathered()) | {"skipped": str(why)})[0]
        self.few = "" if replies else self._explain_few(0)
        came = sort_replies(
            replies,
            self.asked,
            model,
            lambda reply, out: read_reply(reply, model, self.counts, out),
            self.arrivals.rows,
        )
        return self._settle(turn, came)[0]

    def _save(self, turn: int) -> None:
        """Nothing: NVFlare keeps the model."""
