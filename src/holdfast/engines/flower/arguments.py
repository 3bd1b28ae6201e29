"""What a strategy can be given."""

from __future__ import annotations

import math
from typing import Any

from holdfast.errors import BadInput
from holdfast.rules import MoNNA
from holdfast.rules.base import Stage
from holdfast.twophase import TwoPhase


def answering(rule: Any, who: str) -> None:
    """Refuse what is no rule, and rules that a server cannot ask."""
    if isinstance(rule, TwoPhase):
        raise BadInput(f"{who} was given {rule!r}, which lets the nodes vote; use TwoPhaseStrategy.")
    if not isinstance(rule, Stage) or not rule.answers:
        raise BadInput(f"{who} was given {rule!r}; it takes a rule, such as MeanwO(f=3).")
    if any(isinstance(stage, MoNNA) for stage in rule.stages()):
        raise BadInput(f"{who} was given {rule!r}, which trusts one worker's own vector; a server has none.")


def fraction(name: str, given: Any) -> float:
    """A part of the nodes, from 0 to 1."""
    if not isinstance(given, (int, float)) or not 0 <= given <= 1:
        raise BadInput(f"{name} = {given!r} was given; it is a part of the nodes, from 0 to 1.")
    return float(given)


def count(name: str, given: Any) -> int:
    """A number of nodes, or a seed."""
    if not isinstance(given, int) or given < 0:
        raise BadInput(f"{name} = {given!r} was given; it is a whole number, 0 or more.")
    return given


def seconds(name: str, given: Any) -> float:
    """How long to wait."""
    if not isinstance(given, (int, float)) or not 0 <= given < math.inf:
        raise BadInput(f"{name} = {given!r} was given; it is a number of seconds, 0 or more.")
    return float(given)
