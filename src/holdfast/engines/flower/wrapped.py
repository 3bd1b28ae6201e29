"""A strategy of Flower's own with a rule in front: replies are checked and aggregated, the server's optimiser stays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from holdfast.engines.flower.strategy import RobustStrategy


def wrap(strategy: Strategy, rule: Any, **words: Any) -> RobustStrategy:
    """FedAdam, FedProx and the like, for which the rule's answer is the one reply of a round.

    `words` are those of RobustStrategy. FedProx's μ goes into the messages as FedProx itself puts it there.
    """
    return _Wrapped(strategy, rule, **words)


class _Wrapped(RobustStrategy):
    def __init__(self, strategy: Strategy, rule: Any, **words: Any) -> None:
        self.own = strategy
        super().__init__(rule, **words)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        for name, value in (("proximal-mu", getattr(self.own, "proximal_mu", None)),):
            if value is not None:
                config[name] = value
        if hasattr(self.own, "current_arrays"):
            self.own.current_arrays = {str(k): v.numpy() for k, v in arrays.items()}
        return super().configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        arrays, metrics = super().aggregate_train(server_round, replies)
        if arrays is None or not self.asked:
            return arrays, metrics
        key = getattr(self.own, "weighted_by_key", "num-examples")
        content = RecordDict({self.arrayrecord_key: arrays, "metrics": MetricRecord({key: 1.0})})
        asked = self._messages(RecordDict(), "train")[0]
        stepped, _ = self.own.aggregate_train(server_round, [Message(content, reply_to=asked)])
        return (arrays if stepped is None else stepped), metrics
