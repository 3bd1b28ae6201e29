"""One controller for every rule, in one phase and in two."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.abstract.model import make_model_learnable
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType
from nvflare.app_common.utils.fl_model_utils import FLModelUtils
from nvflare.app_common.workflows.model_controller import ModelController

from holdfast.checks import check_whole
from holdfast.disk import write_whole
from holdfast.engines.arguments import seconds
from holdfast.engines.counts import Cap, Counts
from holdfast.engines.differences import Model
from holdfast.engines.nvflare.arguments import (
    check_flag,
    check_positive,
    check_text,
    log,
    plain_number,
    read_pattern,
    read_rule,
    whole_seconds,
)
from holdfast.engines.nvflare.models import from_json, is_json, read_model, to_json
from holdfast.engines.nvflare.server import JobStopped, Server, TwoPhaseServer
from holdfast.engines.replies import plain
from holdfast.errors import BadInput
from holdfast.npz import read_arrays, write_arrays
from holdfast.rules.base import Stage
from holdfast.twophase import TwoPhase, check_step

POLL = 0.5  # seconds between two looks for sites


class RobustController(ModelController):
    """Rounds in which a rule aggregates what the sites send, whatever they send.

    Parameters
    ----------
    rule : Stage or TwoPhase or str
        The rule, such as `MeanwO(f=1)`; or one of two phases, such as `Mean2P(f=1)`. Its text serves too.
    model : mapping from str to numpy.ndarray, or str, optional
        The first model: arrays by name, or the path of an npz file on the server. Without it, a persistor loads it.
    num_rounds : int
        How many rounds are run in all.
    timeout, vote_timeout : float
        How many seconds a round waits for replies, and for votes.
    grace : float, optional
        How many seconds a round waits for the last f sites, once all others have answered. Without it, until the
        timeout.
    min_sites : int, optional
        How many sites must be connected when a round begins. Without it, as many as the rule needs.
    patience : float
        How many seconds a round waits for sites to connect.
    folder : str
        Where one line of JSON for each round is written, with the state from which a killed server goes on, and the
        last model. A relative path is below the folder of the job on the server.
    certify : bool
        Whether each round gets a certificate (κ) where one can be had.
    measure : str, optional
        A regular expression. Arrays with a name in which it is found count in distances. Without it, all do.
    weighted_by_key : str, optional
        Under which name sites declare how much they count, in `FLModel.meta` or `FLModel.metrics`, such as
        "NUM_STEPS_CURRENT_ROUND". Without it, all count alike.
    cap : float, "off" or None
        The largest part of the weight that any f sites may hold, below 1/2. None: the default of `holdfast.cap`.
        "off": no cap; only for counts that the server vouches for.
    step : float, optional
        The length of a site's step: its learning rate times its local steps. An election with a proximal margin needs
        it.
    seed : int
        For rules that draw.
    task_name, vote_task : str
        The names of the tasks.
    persistor_id : str
        The component that loads and saves the model. Empty: none.

    Raises
    ------
    BadInput
        If the rule cannot be asked by a server, or an argument is out of range.

    Notes
    -----
    The rule sees the differences to the model that was sent. A reply that is not sound is refused, with its reason. A
    round is skipped and keeps the model if more than f replies were refused, or if too few are left. A site that is
    silent is not waited for beyond `timeout`.

    The arguments are kept as text and numbers, since NVFlare writes them into the configuration of the job.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import Mean2P
    >>> from holdfast.engines.nvflare import RobustController
    >>> controller = RobustController(Mean2P(f=1), model={"w": np.zeros(3)}, num_rounds=10)
    >>> controller.rule
    'TwoPhase(inner=MeanwO(f=1), outer=OuterMean(f=1))'
    """

    def __init__(
        self,
        rule: Stage | TwoPhase | str,
        *,
        model: Mapping[str, Any] | str | None = None,
        num_rounds: int = 5,
        timeout: float = 600.0,
        vote_timeout: float = 600.0,
        grace: float | None = None,
        min_sites: int | None = None,
        patience: float = 60.0,
        folder: str = "holdfast",
        certify: bool = True,
        measure: str | None = None,
        weighted_by_key: str | None = None,
        cap: Cap = None,
        step: float | None = None,
        seed: int = 0,
        task_name: str = "train",
        vote_task: str = "vote",
        persistor_id: str = "",
    ) -> None:
        who = type(self).__name__
        persistor_id = check_text(persistor_id, "persistor_id", who, what="the name of a component", empty=True)
        super().__init__(persistor_id=persistor_id)
        self.rule = repr(read_rule(rule, who, two_phase=True))
        self.model: dict[str, Any] | str | None = None
        if isinstance(model, Mapping):
            self.model = dict(model) if is_json(model) else to_json(read_model(model, who))
        elif model is not None:
            wanted = "arrays by name, the path of an npz file on the server, or None"
            self.model = check_text(model, "model", who, what=wanted)
        self.num_rounds = check_whole(num_rounds, "num_rounds", least=0, who=who)
        self.timeout = whole_seconds("timeout", timeout)
        self.vote_timeout = whole_seconds("vote_timeout", vote_timeout)
        self.grace = None if grace is None else seconds("grace", grace)
        self.min_sites = None if min_sites is None else check_whole(min_sites, "min_sites", least=1, who=who)
        self.patience, self.certify = seconds("patience", patience), check_flag(certify, "certify", who)
        self.folder = check_text(folder, "folder", who, what="a path")
        self.measure, self.weighted_by_key, self.cap = measure, weighted_by_key, plain_number(cap)
        self.step = check_positive(step, "step", who)
        self.seed = check_whole(seed, "seed", least=0, who=who)
        self.task_name = check_text(task_name, "task_name", who, what="the name of a task")
        self.vote_task = check_text(vote_task, "vote_task", who, what="the name of a task")
        self.persistor_id = persistor_id
        self._make_server(None)  # so that a wrong argument is refused here, and not where the job runs

    def least(self) -> int:
        """Return how many sites a round needs."""
        return self._make_server(None).least

    def _make_server(self, folder: Path | None) -> Server:
        rule, who = read_rule(self.rule, type(self).__name__, two_phase=True), type(self).__name__
        kind = TwoPhaseServer if isinstance(rule, TwoPhase) else Server
        counts, measure = Counts(self.weighted_by_key, self.cap), read_pattern(self.measure, who)
        server = kind(rule, counts, folder=folder, certify=self.certify, measure=measure, seed=self.seed, log=log)
        server.link, server.task, server.timeout = self._send, self.task_name, self.timeout
        if isinstance(server, TwoPhaseServer) and isinstance(rule, TwoPhase):
            server.vote_task, server.vote_timeout = self.vote_task, self.vote_timeout
            server.step = check_step(rule.election, self.step, "the sites' learning rate times their local steps")
        return server

    def run(self) -> None:
        """Run the rounds; NVFlare calls this."""
        # Before it asks the controller, NVFlare's server ends the job at three return codes of any site: TASK_UNKNOWN,
        # RUN_MISMATCH and UNSAFE_JOB. Here such a site is refused by name, as at any other code.
        if (runner := self.fl_ctx.get_prop(FLContextKey.RUNNER)) is not None:
            runner.ABORT_RETURN_CODES = []
        folder = Path(self.get_run_dir()) / self.folder
        server = self._make_server(folder)
        self.fl_ctx.set_prop(AppConstants.NUM_ROUNDS, self.num_rounds, private=True, sticky=False)
        skipped = 0
        for turn in server.begin(self._first_model(), self.num_rounds):
            self._publish(server.model, turn)
            self.event(AppEventType.ROUND_STARTED)
            sites = self._wait_for_sites(server)
            if self.abort_signal.triggered:
                return
            try:
                skipped += "skipped" in server.play(turn, sites)
            except JobStopped:
                log.warning("the job was stopped in round %d; the rounds before are in %s", turn, folder)
                return
            self._publish(server.model, turn)
            self._save(folder, server.model)
            self.event(AppEventType.ROUND_DONE)
        if skipped:
            log.warning(
                "%d of %d rounds were skipped, and the model stayed as it was in them", skipped, self.num_rounds
            )
        self._save(folder, server.model)

    def _first_model(self) -> Model:
        given = self.model
        if given is None:
            loaded = self.load_model()
            if loaded is None or not loaded.params:
                raise BadInput(f"{type(self).__name__} has no model; give model= or persistor_id=.")
            return read_model(loaded.params, type(self).__name__)
        if isinstance(given, str):
            return read_model(self._read_file(given), type(self).__name__)
        return read_model(from_json(given), type(self).__name__)

    def _read_file(self, path: str) -> Model:
        """The arrays of an npz file on the server."""
        try:
            with open(path, "rb") as file:
                return read_arrays(file)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise BadInput(
                f"{type(self).__name__} was given model = {path!r}, which this server cannot read as an npz file "
                f"({why}); name one by its absolute path."
            ) from None

    def _wait_for_sites(self, server: Server) -> list[str]:
        """The sites that are connected, as soon as there are enough; after `patience` seconds, those that are."""
        least = server.least if self.min_sites is None else self.min_sites
        until = time.monotonic() + self.patience
        while True:
            sites = sorted(client.name for client in self.engine.get_clients())
            if len(sites) >= least or time.monotonic() >= until or self.abort_signal.triggered:
                return sites
            log.info("waiting for sites: %d of %d are connected", len(sites), least)
            time.sleep(POLL)

    def _send(self, task: str, model: FLModel, sites: list[str], timeout: float) -> list[tuple[str, object]]:
        """Send a model to sites; what came back until the timeout, in the order in which it came."""
        replies: list[tuple[str, object]] = []

        def keep(client_task: ClientTask, fl_ctx: FLContext) -> None:  # noqa: ARG001 - by these names
            replies.append((client_task.client.name, client_task.result))
            client_task.result = None  # NVFlare would hold it until the task ends

        message = FLModelUtils.to_shareable(model)
        message.add_cookie(AppConstants.CONTRIBUTION_ROUND, model.current_round)
        last = 0 if self.grace is None else self._make_server(None).tolerance
        self.broadcast_and_wait(
            Task(task, message, timeout=math.ceil(timeout), result_received_cb=keep),
            self.fl_ctx,
            targets=sites,
            min_responses=max(1, len(sites) - last),
            wait_time_after_min_received=math.ceil(self.grace or 0),
            abort_signal=self.abort_signal,
        )
        if self.abort_signal.triggered:
            raise JobStopped
        return replies

    def process_result_of_unknown_task(
        self, client: Client, task_name: str, client_task_id: str, result: Shareable, fl_ctx: FLContext
    ) -> None:
        """Name a site whose reply came after the round; the reply is not read."""
        log.warning("site %s answered the task %s too late", client.name, plain(str(task_name)))

    def _publish(self, model: Model, turn: int) -> None:
        """Show the model to other components of the server."""
        self.fl_ctx.set_prop(AppConstants.CURRENT_ROUND, turn - 1, private=True, sticky=False)
        learnable = make_model_learnable(weights=model, meta_props={})
        self.fl_ctx.set_prop(AppConstants.GLOBAL_MODEL, learnable, private=True, sticky=True)

    def _save(self, folder: Path, model: Model) -> None:
        """The model for its users: with the persistor, if there is one, else as an npz file."""
        try:
            if self.persistor:
                self.save_model(FLModel(ParamsType.FULL, model))
            else:
                write_whole(folder / "model.npz", lambda out: write_arrays(out, model))
        except OSError as error:  # a full disk ends no training
            log.error("the model is not saved: %s", error)
