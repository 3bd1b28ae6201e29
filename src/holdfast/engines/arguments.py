"""What every engine's server can be given."""

from __future__ import annotations

import logging
from typing import Any

from holdfast.buffer import Buffer
from holdfast.errors import BadInput
from holdfast.jsonable import finite_or_none
from holdfast.kinds import check_weighted
from holdfast.rules import FLTrust, MoNNA, OuterCenter, OuterMean
from holdfast.rules.base import Stage
from holdfast.twophase import TwoPhase


def check_rule(rule: Any, who: str, *, log: logging.Logger, elected: bool, nodes: str, instead: str) -> None:
    """Refuse what is no rule, and rules that a server cannot ask; `elected` says that clients vote on its answer.

    `nodes` is what the engine calls its clients, and `instead` its class for rules that let them vote.
    """
    if isinstance(rule, str):
        raise BadInput(f"{who} was given the text {rule!r}; pass the rule, by parse({rule!r}).")
    if isinstance(rule, TwoPhase):
        raise BadInput(f"{who} was given {rule!r}, which lets the {nodes} vote; use {instead}.")
    if not isinstance(rule, Stage) or not rule.answers:
        raise BadInput(f"{who} was given {rule!r}; it takes a rule, such as MeanwO(f=3).")
    if any(isinstance(stage, MoNNA | FLTrust) for stage in rule.stages()):
        raise BadInput(f"{who} was given {rule!r}, which trusts a vector of its own; a server has none.")
    if not elected and any(isinstance(stage, OuterCenter | OuterMean) for stage in rule.stages()):
        log.warning("%r has no worst-case constant and is not meant to stand alone; use %s", rule, instead)


def seconds(name: str, given: Any) -> float:
    """How long to wait."""
    waits = None if isinstance(given, bool) else finite_or_none(given)
    if waits is None or waits < 0:
        raise BadInput(f"{name} = {given!r} was given; it is a number of seconds, 0 or more.")
    return float(waits)


def check_buffered(given: Any, rules: tuple[Stage, ...], least: int, who: str) -> Buffer | None:
    """The buffer, checked: it waits for enough replies, and a rule without a weighted form meets no weights."""
    if given is None:
        return None
    if not isinstance(given, Buffer):
        raise BadInput(f"{who} was given buffer = {given!r}; it takes a Buffer, such as Buffer(wait=14), or None.")
    if 0 < given.wait < least:
        raise BadInput(f"{who} was given {given!r}, and its rule needs {least} replies; wait for {least} or more.")
    f = max((rule.tolerance() or 0) for rule in rules)
    if len(rules) > 1 and 0 < given.wait < 3 * f + 1:
        raise BadInput(
            f"{who} was given {given!r}; a vote needs {2 * f + 1} voters, and {f} may be silent, so wait for "
            f"{3 * f + 1} or more."
        )
    for rule in rules if given.fade else ():
        check_weighted(rule, "fade")
    return given
