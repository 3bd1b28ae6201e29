"""What a strategy can be given."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypedDict

from holdfast.buffer import Buffer
from holdfast.engines.arguments import check_rule
from holdfast.engines.counts import Cap
from holdfast.errors import BadInput

log = logging.getLogger("flwr.holdfast")
REPLACED = {
    "train_metrics_aggr_fn": "metrics are summed up by their median, which liars cannot move",
    "evaluate_metrics_aggr_fn": "metrics are summed up by their median, which liars cannot move",
}
OLD = {
    "fraction_fit": "fraction_train",
    "min_fit_clients": "min_train_nodes",
    "min_evaluate_clients": "min_evaluate_nodes",
    "min_available_clients": "min_available_nodes",
}
"""What Flower called these options before its messages."""


class StrategyOptions(TypedDict, total=False):
    """The keywords of `RobustStrategy`, which `TwoPhaseStrategy` and `wrap` take too."""

    fraction_train: float
    fraction_evaluate: float
    min_train_nodes: int | None
    min_evaluate_nodes: int
    min_available_nodes: int | None
    arrayrecord_key: str
    configrecord_key: str
    patience: float
    folder: Path | str | None
    certify: bool
    measure: Callable[[str], bool] | None
    weighted_by_key: str | None
    cap: Cap
    buffer: Buffer | None
    seed: int


def answering(rule: Any, who: str) -> None:
    """Refuse what is no rule, and rules that a server cannot ask."""
    elected = who == "TwoPhaseStrategy"
    check_rule(rule, who, log=log, elected=elected, nodes="nodes", instead="TwoPhaseStrategy")


def usual(who: str, more: Mapping[str, Any]) -> None:
    """Say of FedAvg's own arguments why they are not taken, and of others which one may be meant."""
    for name in more:
        if name not in REPLACED:
            known = {*StrategyOptions.__annotations__, *OLD}
            near = get_close_matches(name, known, 1)
            meant = OLD.get(near[0], near[0]) if near else ""
            raise TypeError(
                f"{who} got an unexpected keyword argument {name!r}; "
                + (f"did you mean {meant}?" if meant else f"it takes {', '.join(StrategyOptions.__annotations__)}.")
            )
        raise BadInput(f"{who} was given {name}, which it does not take: {REPLACED[name]}.")


def fraction(name: str, given: Any) -> float:
    """A part of the nodes, from 0 to 1."""
    if not isinstance(given, (int, float)) or not 0 <= given <= 1:
        raise BadInput(f"{name} = {given!r} was given; it is a part of the nodes, from 0 to 1.")
    return float(given)
