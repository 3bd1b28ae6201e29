"""A strategy of Flower's own with a rule in front: replies are checked and aggregated, the server's optimiser stays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import (
    Bulyan,
    FedAvg,
    FedAvgM,
    FedMedian,
    FedTrimmedAvg,
    FedXgbBagging,
    FedXgbCyclic,
    Krum,
    MultiKrum,
    QFedAvg,
)

from holdfast.engines.differences import Model
from holdfast.engines.flower.arguments import StrategyOptions, answering
from holdfast.engines.flower.replies import make_record, read_model
from holdfast.engines.flower.strategy import RobustStrategy
from holdfast.errors import BadInput
from holdfast.twophase import TwoPhase

MEMORY = ("m_t", "v_t", "momentum_vector")  # what Flower's optimisers keep between rounds
EACH = (QFedAvg, FedXgbBagging, FedXgbCyclic)
ROBUST = (FedMedian, FedTrimmedAvg, Krum, MultiKrum, Bulyan)
SHARED = ("fraction_train", "fraction_evaluate", "arrayrecord_key", "configrecord_key")


def wrap(strategy: FedAvg, rule: Any, **options: Unpack[StrategyOptions]) -> RobustStrategy:
    """Put a rule in front of a strategy of Flower's own, whose optimiser then sees the rule's answer as the one reply.

    Parameters
    ----------
    strategy : flwr.serverapp.strategy.FedAvg
        FedAdam, FedYogi, FedAdagrad, FedAvgM, FedProx or FedAvg.
    rule : Stage
        The rule, such as `MeanwO(f=3)`.
    fraction_train, fraction_evaluate, min_train_nodes, min_evaluate_nodes, min_available_nodes : optional
        As for `RobustStrategy`, and the strategy's own unless given.
    arrayrecord_key, configrecord_key, patience, folder, certify, measure, weighted_by_key, cap, buffer, seed : optional
        As for `RobustStrategy`. Record keys are the strategy's own unless given; `weighted_by_key` is not, and without
        it all nodes count alike.

    Returns
    -------
    RobustStrategy
        A strategy to start.

    Raises
    ------
    BadInput
        If the strategy needs every client's own reply, or has a rule of its own; or if the rule lets the nodes vote.

    Notes
    -----
    FedProx's μ goes into the messages as FedProx puts it there. Counters are the rule's; the optimiser sees the real
    numbers alone.

    Examples
    --------
    >>> from flwr.serverapp.strategy import FedAdam
    >>> from holdfast import MeanwO
    >>> from holdfast.engines.flower import wrap
    >>> wrap(FedAdam(), MeanwO(f=3)).rule
    MeanwO(f=3)
    """
    if not isinstance(strategy, FedAvg):
        what = f"the class {strategy.__name__}" if isinstance(strategy, type) else type(strategy).__name__
        raise BadInput(
            f"wrap was given {what}; it takes a strategy of Flower's and a rule, as in wrap(FedAdam(), MeanwO(f=3))."
        )
    if isinstance(strategy, (*EACH, *ROBUST)):
        why = "needs every client's own reply" if isinstance(strategy, EACH) else "has a rule of its own"
        known = "FedAdam, FedYogi, FedAdagrad, FedAvgM, FedProx and FedAvg"
        raise BadInput(f"wrap was given {type(strategy).__name__}, which {why}; it takes {known}.")
    return _Wrapped(strategy, rule, **{name: getattr(strategy, name) for name in SHARED} | options)


class _Wrapped(RobustStrategy):
    def __init__(self, strategy: FedAvg, rule: Any, **options: Any) -> None:
        self.own = strategy
        super().__init__(rule, **options)

    def _check(self, rule: Any) -> None:
        if isinstance(rule, TwoPhase):
            raise BadInput(f"wrap was given {rule!r}; it takes one rule, such as MeanwO(f=3), and no vote.")
        answering(rule, "wrap")

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        if (mu := getattr(self.own, "proximal_mu", None)) is not None:
            config["proximal-mu"] = mu
        return super().configure_train(server_round, arrays, config, grid)

    def _step(self, turn: int, moved: Model) -> Model | None:
        """The optimiser's step towards the rule's answer; one that is not finite leaves no trace in its memory."""
        real = [name for name, values in moved.items() if values.dtype.kind == "f"]
        now = {name: self.model[name] for name in real}
        if hasattr(self.own, "current_arrays"):
            self.own.current_arrays = make_record(now) if isinstance(self.own, FedAvgM) else now
        weight = MetricRecord({self.own.weighted_by_key: 1.0})
        content = RecordDict(
            {self.own.arrayrecord_key: make_record({name: moved[name] for name in real}), "metrics": weight}
        )
        before, message = self._memory(), self._messages(RecordDict(), "train", [0])[0]
        with np.errstate(all="ignore"):
            stepped, _ = self.own.aggregate_train(turn, [Message(content, reply_to=message)])
            new_model = {} if stepped is None else read_model(stepped)
            cast = {name: new_model[name].astype(moved[name].dtype) for name in real if name in new_model}
        done = super()._step(turn, moved | cast)
        if done is None:
            self._remember(before)
        return done

    def _memory(self) -> dict[str, Model]:
        held = {name: getattr(self.own, name, None) for name in MEMORY}
        return {
            name: {key: np.array(values) for key, values in self._by_name(part).items()}
            for name, part in held.items()
            if part
        }

    def _by_name(self, part: dict[str, np.ndarray] | list[np.ndarray]) -> Model:
        if isinstance(part, dict):
            return part
        real = [name for name, values in self.model.items() if values.dtype.kind == "f"]
        return dict(zip(real, part, strict=True))

    def _remember(self, memory: dict[str, Model]) -> None:
        for name in MEMORY:
            if hasattr(self.own, name):
                part: Any = memory.get(name)
                setattr(self.own, name, list(part.values()) if part and name == "momentum_vector" else part)
