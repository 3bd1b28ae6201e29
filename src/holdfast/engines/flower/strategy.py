"""One strategy for every rule."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from holdfast.buffer import Buffer
from holdfast.checks import check_whole
from holdfast.engines.arguments import seconds
from holdfast.engines.counts import Cap, Counts
from holdfast.engines.differences import Model
from holdfast.engines.flower.arguments import answering, fraction, usual
from holdfast.engines.flower.limits import Limits
from holdfast.engines.flower.local import LocalGrid
from holdfast.engines.flower.mailbox import Mailbox
from holdfast.engines.flower.metrics import numbers
from holdfast.engines.flower.replies import by_node, check_first_model, make_record, read_model, read_reply
from holdfast.engines.flower.sampling import available, drawn, risk
from holdfast.engines.metrics import middles
from holdfast.engines.replies import Sound
from holdfast.engines.rounds import Rounds

log = logging.getLogger("flwr.holdfast")
NEVER = 1e-6  # a probability that nobody needs to be warned of
Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]


class RobustStrategy(Rounds[int], Strategy):
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
        self.fraction_train = fraction("fraction_train", fraction_train)
        self.fraction_evaluate = fraction("fraction_evaluate", fraction_evaluate)
        self.min_train_nodes = (
            self._least() if min_train_nodes is None else check_whole(min_train_nodes, "min_train_nodes", least=0)
        )
        self.min_evaluate_nodes = check_whole(min_evaluate_nodes, "min_evaluate_nodes", least=0)
        least = self.min_train_nodes if min_available_nodes is None else min_available_nodes
        self.min_available_nodes = check_whole(least, "min_available_nodes", least=0)
        self.arrayrecord_key, self.configrecord_key = arrayrecord_key, configrecord_key
        self.patience = seconds("patience", patience)
        self.grid: Any = None
        counts, seed = Counts(weighted_by_key, cap), check_whole(seed, "seed", least=0)
        kept: dict[str, Any] = {"folder": folder, "certify": certify, "measure": measure, "buffer": buffer}
        Rounds.__init__(self, rule, counts, **kept, seed=seed, log=log)

    def _check(self, rule: Any) -> None:
        answering(rule, type(self).__name__.strip("_"))

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
        model = self._resume(read_model(initial_arrays), num_rounds, remark=", Flower counts the rest from 1")
        if self.offset:
            initial_arrays = make_record(model)
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
        self.few = ""
        if len(self.arrivals.within_reach(turn) | set(self.asked)) < self._least():
            self.asked, self.few = [], self._explain_few(len(nodes))
        self.arrivals.ask(turn, self.asked, self.model)
        if self.buffer and isinstance(grid, Mailbox):
            grid.close_when(lambda new: self._can_close(turn, new))
            if self.buffer.wait > len(nodes) and server_round == 1:
                text = "a round waits for %d replies, and %d nodes are connected: every round lasts until its deadline"
                log.warning(text, self.buffer.wait, len(nodes))
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
        if self.buffer and isinstance(self.grid, Mailbox):  # what came was received when it came
            self.arrivals.gone = set(self.arrivals.owing) - self.grid.expected()
            came = self.arrivals.settle(turn)
            self.grid.give_up(came.silent)
        else:
            came = self.arrivals.sort(turn, by_node(replies), self._read)
        moved, figures = self._settle(turn, came)
        return (None if moved is None else make_record(moved)), MetricRecord({**figures})

    def _can_close(self, turn: int, new: list[Message]) -> bool:
        """Whether the round can close, given the replies that have come since the last look."""
        self.arrivals.receive(turn, by_node(new), self._read)
        return self.arrivals.can_close(turn, self._least())

    def _read(self, reply: Message, model: Model, out: Model) -> Sound:
        return read_reply(reply, model, out, self.counts)

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
        if self.buffer and self.buffer.wait and isinstance(grid, Mailbox):
            grid.close_after(self.buffer.wait)
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
        return MetricRecord({**medians}) if medians else None
