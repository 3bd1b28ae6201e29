"""One strategy for every rule."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from holdfast.buffer import Buffer
from holdfast.checks import check_whole
from holdfast.decision import Decision
from holdfast.driver import decide
from holdfast.engines.flower.arguments import answering, buffered, fraction, seconds, usual
from holdfast.engines.flower.arrivals import ON_TIME, Arrivals
from holdfast.engines.flower.counts import Cap, Counts
from holdfast.engines.flower.differences import Model, stepped
from holdfast.engines.flower.journal import Journal, State
from holdfast.engines.flower.limits import Limits
from holdfast.engines.flower.local import LocalGrid
from holdfast.engines.flower.mailbox import Mailbox
from holdfast.engines.flower.metrics import middles, numbers
from holdfast.engines.flower.replies import Gathered, check_first_model, make_record, read_model
from holdfast.engines.flower.sampling import available, drawn, risk
from holdfast.engines.lines import named
from holdfast.errors import BadInput, TooManyFaults, listing, plural
from holdfast.guarantees.certificate import certificate
from holdfast.reading import read
from holdfast.rules.base import Stage
from holdfast.updates import Updates

log = logging.getLogger("flwr.holdfast")
MAX_LOGGED = 3  # refused replies per round that the log names one by one; the journal has all
NEVER = 1e-6  # a probability that nobody needs to be warned of
FIGURES = ("kept", "excluded", "refused", "silent", "late", "capped")  # fields of the journal that are counted
Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]


class RobustStrategy(Strategy):
    """Rounds in which a rule aggregates what the nodes send, whatever they send.

    Parameters
    ----------
    rule : Stage
        The rule, such as `MeanwO(f=3)`.
    fraction_train : float
        The part of the nodes that trains in a round.
    fraction_evaluate : float
        The part of the nodes that evaluates after a round.
    min_train_nodes : int or None
        The fewest nodes that train. None: as many as the rule needs.
    min_evaluate_nodes : int
        The fewest nodes that evaluate.
    min_available_nodes : int or None
        How many nodes a round waits for. None: `min_train_nodes`.
    arrayrecord_key : str
        Under which name messages hold the model.
    configrecord_key : str
        Under which name messages hold the configuration.
    patience : float
        How many seconds a round waits for nodes to connect. `start(timeout=)` says how long it waits for their
        replies.
    folder : path, optional
        Where one line of JSON for each round is written, and the state from which a killed server goes on.
    certify : bool
        Whether each round gets a certificate (κ) where one can be had.
    measure : callable, optional
        Says by name which arrays count in distances. Without it, all do.
    weighted_by_key : str, optional
        The metric by which clients declare how much they count, such as "num-examples". Without it, all count alike.
    cap : float, "off" or None
        The largest part of the weight that any f nodes may hold, below 1/2. None: the default of `holdfast.cap`.
        "off": no cap; only for counts that the server vouches for.
    buffer : Buffer, optional
        When a round closes without waiting for everybody, and how replies that come later count. Without it, a round
        closes at its deadline, and later replies are lost.
    seed : int
        For the draws of nodes, and for rules that draw.
    **more
        None is taken. For arguments of FedAvg that do not fit, the error says why.

    Raises
    ------
    BadInput
        If the rule cannot be asked by a server, or an argument is out of range.

    Notes
    -----
    Replace `FedAvg()` with `RobustStrategy(MeanwO(f=3))`, then call `start(grid, initial_arrays, num_rounds)`. The
    rule sees the differences to the model that was sent. Replies that are not sound are refused, with their reason. A
    round is skipped and keeps the model if more than f replies were refused, or if too few are left.

    `num-examples` is ignored unless `weighted_by_key` names it, since it is the client's own word. Then a cap bounds
    it, and a reply without a finite count of at least 0 is refused.

    Examples
    --------
    >>> from holdfast import MeanwO
    >>> from holdfast.engines.flower import RobustStrategy
    >>> strategy = RobustStrategy(MeanwO(f=3), min_train_nodes=10)
    >>> strategy.rule, strategy.min_available_nodes
    (MeanwO(f=3), 10)
    """

    def __init__(
        self,
        rule: Any,
        *,
        fraction_train: float = 1.0,
        fraction_evaluate: float = 1.0,
        min_train_nodes: int | None = None,
        min_evaluate_nodes: int = 2,
        min_available_nodes: int | None = None,
        arrayrecord_key: str = "arrays",
        configrecord_key: str = "config",
        patience: float = 60.0,
        folder: Path | str | None = None,
        certify: bool = True,
        measure: Callable[[str], bool] | None = None,
        weighted_by_key: str | None = None,
        cap: Cap = None,
        buffer: Buffer | None = None,
        seed: int = 0,
        **more: Any,
    ) -> None:
        usual(type(self).__name__.replace("_Wrapped", "wrap"), more)
        self._check(rule)
        self.rule = rule
        self.counts = Counts(weighted_by_key, cap)
        self.counts.check(self._rules())
        self.fraction_train = fraction("fraction_train", fraction_train)
        self.fraction_evaluate = fraction("fraction_evaluate", fraction_evaluate)
        self.min_train_nodes = (
            self._least() if min_train_nodes is None else check_whole(min_train_nodes, "min_train_nodes", least=0)
        )
        self.min_evaluate_nodes = check_whole(min_evaluate_nodes, "min_evaluate_nodes", least=0)
        least = self.min_train_nodes if min_available_nodes is None else min_available_nodes
        self.min_available_nodes = check_whole(least, "min_available_nodes", least=0)
        self.arrayrecord_key, self.configrecord_key = arrayrecord_key, configrecord_key
        self.patience, self.seed = seconds("patience", patience), check_whole(seed, "seed", least=0)
        self.certify, self.measure = certify, measure
        self.journal = Journal(folder)
        self.offset = 0  # rounds that an earlier server has done
        self.model: Model = {}
        self.last: Model | None = None
        self.buffer = buffered(buffer, self._rules(), self._least(), type(self).__name__.strip("_"))
        self.arrivals = Arrivals(self.buffer or ON_TIME, self.seed)
        self.asked: list[int] = []
        self.began, self.few = 0.0, ""
        self.grid: Any = None

    def _check(self, rule: Any) -> None:
        answering(rule, type(self).__name__.strip("_"))

    def _rules(self) -> tuple[Stage, ...]:
        """The rules that see the updates of a round."""
        return (self.rule,)

    def _least(self) -> int:
        return int(self.rule.least())

    def summary(self) -> None:
        """Say what the strategy is."""
        log.info("rule: %r, at least %d nodes a round", self.rule, self._least())

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Evaluate | None = None,
    ) -> Result:
        """Run Flower's own loop, from where an earlier server was killed if the folder holds its state.

        Parameters
        ----------
        grid : flwr.serverapp.Grid
            The link to the nodes; `LocalGrid` for nodes in this process.
        initial_arrays : flwr.app.ArrayRecord
            The first model.
        num_rounds : int
            How many rounds are run in all.
        timeout : float
            How many seconds a round waits for replies.
        train_config, evaluate_config : flwr.app.ConfigRecord, optional
            What is sent along with the model.
        evaluate_fn : callable, optional
            Evaluates the model at the server: it takes the round and an ArrayRecord.

        Returns
        -------
        flwr.serverapp.strategy.Result
            The last model and the metrics, by round.

        Raises
        ------
        BadInput
            If the first model is no ArrayRecord or is not finite, or if the folder holds the state of another model.
        """
        check_first_model(initial_arrays, type(self).__name__)
        num_rounds = check_whole(num_rounds, "num_rounds", least=0, who=type(self).__name__)
        self.offset, self.last, held = 0, None, self.journal.state()
        self.arrivals.remember({} if held is None else held[1].memory)
        if held is not None:
            self.offset, state = held
            model, self.last = state.model, state.last
            if {n: v.shape for n, v in model.items()} != {n: v.shape for n, v in read_model(initial_arrays).items()}:
                where = self.journal.folder
                raise BadInput(f"{where} holds the state of another model than initial_arrays; name another folder.")
            initial_arrays = make_record({name: model[name] for name in initial_arrays})
            self._remember(state.memory)
            if self.offset < num_rounds:
                log.info("going on after round %d of %d, Flower counts the rest from 1", self.offset, num_rounds)
            else:
                done = "%s holds %d rounds, and %d were asked for, so none is run; name another folder or ask for more"
                log.warning(done, self.journal.folder, self.offset, num_rounds)
            if state.who != self._who():
                log.warning("the rounds before were by %s, these are by %s", state.who, self._who())
        left, before = max(0, num_rounds - self.offset), self.offset
        evaluate = evaluate_fn and (lambda at, arrays: evaluate_fn(at + before, arrays))
        post: Any = grid if isinstance(grid, LocalGrid) else Mailbox(grid, Limits.of(read_model(initial_arrays)))
        try:
            result = super().start(post, initial_arrays, left, timeout, train_config, evaluate_config, evaluate)
        finally:
            if isinstance(post, Mailbox):
                post.give_up(self.arrivals.owing)
        if not len(result.arrays):  # every round was skipped, or none was left
            result.arrays = initial_arrays
        skipped = sum("skipped" in record for record in result.train_metrics_clientapp.values())
        if skipped:
            log.warning("%d of %d rounds were skipped, and the model stayed as it was in them", skipped, left)
        for name in ("train_metrics_clientapp", "evaluate_metrics_clientapp", "evaluate_metrics_serverapp"):
            setattr(result, name, {at + before: record for at, record in getattr(result, name).items()})
        return result

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Draw nodes, and send them the model; nobody, if too few are there."""
        turn = server_round + self.offset
        self.model, self.began, self.grid = read_model(arrays), time.monotonic(), grid
        nodes = available(grid, self.min_available_nodes, self._patience(grid))
        busy = self.arrivals.owing
        self.asked = drawn(nodes, self.fraction_train, self.min_train_nodes, self.seed, turn, busy)
        fits = (len(nodes) - 1) // 2
        self.few = ""
        if len(self.arrivals.within_reach(turn) | set(self.asked)) < self._least():
            self.asked = []
            self.few = (
                f"{len(nodes)} nodes are connected, and {self.rule!r} needs {self._least()}; connect more nodes"
                + (f", or lower f to {fits} at most" if self._f() > fits > 0 else "")
            )
        self.arrivals.ask(turn, self.asked, self.model)
        if isinstance(grid, Mailbox):
            grid.close_when(self.arrivals.closing(turn, self._least()))
        if not self.asked:
            return []
        wanted = int(len(nodes) * self.fraction_train)
        if server_round == 1 and 0 < wanted < len(self.asked):
            log.warning("%d of %d nodes a round are too few: %d are asked", wanted, len(nodes), len(self.asked))
        f, k = self._f(), len(self.asked)
        if server_round == 1 and k < len(nodes):
            half = risk(len(nodes), min(f, len(nodes)), k)
            text = "%d of %d nodes are drawn each round; if %d of all lie, they are half of them with probability %.2g"
            log.log(logging.WARNING if half > NEVER else logging.INFO, text, k, len(nodes), f, half)
        if server_round == 1 and (self.min_train_nodes or 0) > len(nodes):
            log.warning("min_train_nodes = %d, but %d nodes are connected; all are asked", self.min_train_nodes, k)
        config["server-round"] = turn
        return self._messages(
            RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config}), MessageType.TRAIN
        )

    def _f(self) -> int:
        return self.rule.tolerance() or 0

    def _patience(self, grid: Any) -> float:
        return 0.0 if isinstance(grid, LocalGrid) else self.patience  # whoever is not here now never will be

    def _messages(self, content: RecordDict, kind: str, nodes: list[int] | None = None) -> list[Message]:
        return [
            Message(content=content, dst_node_id=node, message_type=kind)
            for node in (self.asked if nodes is None else nodes)
        ]

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Sort the replies, let the rule decide, commit the model; or skip the round and say why."""
        turn = server_round + self.offset
        came = self.arrivals.sort(turn, replies, self.counts, self._least())
        came.silent = self.arrivals.lost(turn)
        if isinstance(self.grid, Mailbox):
            self.grid.give_up(came.silent)
        line: dict[str, Any] = {"round": turn, "asked": len(self.asked), "seconds": {}, "bytes": {"train": came.bytes}}
        line["seconds"]["train"] = round(time.monotonic() - self.began, 3)
        line["refused"] = {str(node): why for node, why in came.refused.items()}
        line["silent"] = [str(node) for node in came.silent]
        if self.buffer:
            line["late"] = [str(node) for node in self.arrivals.owing if node not in came.silent]
            line["age"] = {str(node): age for node, age in zip(came.nodes, came.ages, strict=True) if age}
        for node, why in list(came.refused.items())[:MAX_LOGGED]:
            log.warning("round %d: node %d %s", turn, node, why)
        if len(came.refused) > MAX_LOGGED or came.silent:
            log.warning("round %d: %d refused, %d silent", turn, len(came.refused), len(came.silent))
        try:
            decision, facts = self._decide(turn, came)
        except BadInput as refusal:
            self.arrivals.put_back()
            line["skipped"] = self._explain_skip(refusal, came)
            log.warning("round %d is skipped: %s", turn, line["skipped"])
            self._done(turn, line)
            return None, MetricRecord({"skipped": 1.0})
        for what in ("seconds", "bytes"):
            line[what] |= facts.pop(what, {})
        line |= facts | named(decision, list(map(str, came.nodes)))
        last = {name: np.asarray(decision.value[name]) for name in self.model}
        moved = self._step(turn, stepped(self.model, last))
        if moved is None:
            line["skipped"] = "the step leaves the range of floats"
            self._done(turn, line)
            return None, MetricRecord({"skipped": 1.0})
        if decision.note:
            log.warning("round %d: %s", turn, decision.note)
        if excluded := [str(came.nodes[at]) for at in decision.excluded]:
            what = plural(len(excluded), "node")
            log.info("round %d: excluded %s %s (%s)", turn, what, listing(excluded), decision.why)
        self.model, self.last = moved, last
        self._done(turn, line)
        return make_record(moved), MetricRecord(self._figures(line, came))

    def _explain_skip(self, refusal: BadInput, came: Gathered) -> str:
        """Why a round has no answer, and what an operator can do about it."""
        if self.few:
            return self.few
        whom = "these nodes"
        if came.refused:
            whom = f"{plural(len(came.refused), 'node')} {listing(map(str, came.refused))}"
        if came.refused and not came.nodes:
            first = next(iter(came.refused.values()))
            return f"all {len(came.refused)} replies were refused ({first}); repair {whom}."
        if not isinstance(refusal, TooManyFaults):
            return str(refusal)
        return f"{refusal.what}; repair {whom}{', or raise f' if self._f() else ''}."

    def _step(self, turn: int, moved: Model) -> Model | None:
        """The model to commit, given that which the rule leads to; None if it is not finite."""
        return moved if all(np.isfinite(values).all() for values in moved.values()) else None

    def _decide(self, turn: int, came: Gathered) -> tuple[Decision, dict[str, Any]]:
        rng = np.random.default_rng((self.seed, turn, 1))
        decision = decide(self.rule, self._updates(came), rng=rng, start=self.last)
        return decision, self._certified(decision, came)

    def _updates(self, came: Gathered) -> Updates:
        """The sound replies; the refused ones of nodes that were asked count as dropped, silent nodes do not."""
        fades = self.arrivals.buffer.weights(np.array(came.ages))
        masses = self.counts.masses(came.counts, self._rules(), fades)
        updates = read(came.updates, repr(self.rule), measure=self.measure, weights=masses)
        return replace(updates, refused=len(came.faulty))

    def _certified(self, decision: Decision, came: Gathered) -> dict[str, Any]:
        """κ of the round, where it costs nothing or was asked for."""
        if not self.certify or not self._f():
            return {}
        try:
            kappa = certificate(decision, came.updates, measure=self.measure).kappa
        except BadInput:
            return {}
        return {"kappa": kappa} if math.isfinite(kappa) else {}

    def _figures(self, line: dict[str, Any], came: Gathered) -> dict[str, Any]:
        """The round in numbers, and the middle one of each of the clients' own metrics."""
        out = {f"client-{name}": value for name, value in middles(came.metrics, self._f()).items()}
        out |= {name: float(len(line[name])) for name in FIGURES if name in line}
        return out | ({"kappa": float(line["kappa"])} if "kappa" in line else {})

    def _done(self, turn: int, line: dict[str, Any]) -> None:
        self.arrivals.forget(turn)
        try:
            self.journal.add(line)
        except OSError as error:  # a full disk ends no training
            log.error("round %d is not in the journal: %s", turn, error)
        memory = self._memory() | self.arrivals.memory(self.model) if self.buffer else self._memory()
        try:
            self.journal.save(turn, State(self.model, self.last, memory, self._who()))
        except OSError as error:
            log.error("the state after round %d is not saved: %s", turn, error)

    def _who(self) -> str:
        return f"{self.rule!r}, seed {self.seed}{self.counts}"

    def _memory(self) -> dict[str, Model]:
        """What a server's optimiser keeps between rounds; the plain step keeps nothing."""
        return {}

    def _remember(self, memory: dict[str, Model]) -> None:
        """Put it back after a restart."""

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Send the model to a sample for evaluation."""
        if self.fraction_evaluate == 0:
            return []
        turn = server_round + self.offset
        there = available(grid, self.min_evaluate_nodes, self._patience(grid))
        nodes = [node for node in there if node not in self.arrivals.owing]  # who still trains cannot evaluate
        self.asked = drawn(nodes, self.fraction_evaluate, self.min_evaluate_nodes, self.seed + 1, turn)
        config["server-round"] = turn
        content = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        return self._messages(content, MessageType.EVALUATE) if self.asked else []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """The middle value of each metric: f < n/2 liars cannot move it beyond the honest ones."""
        seen: dict[int, dict[str, float]] = {}
        for reply in replies:
            node = int(reply.metadata.src_node_id)
            if node in self.asked and not reply.has_error():
                seen.setdefault(node, numbers(reply))
        medians = middles(list(seen.values()), self._f())
        return MetricRecord(medians) if medians else None
