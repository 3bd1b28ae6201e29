"""What a controller and an aggregator can be given."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from holdfast.engines.arguments import check_rule, seconds
from holdfast.errors import BadInput
from holdfast.rules.base import Stage
from holdfast.spec import parse
from holdfast.twophase import AGGREGATORS, TwoPhase

log = logging.getLogger("holdfast.nvflare")


def read_rule(given: Stage | TwoPhase | str, who: str, *, two_phase: bool) -> Stage | TwoPhase:
    """The rule, also of its text, in which a job's configuration holds it."""
    rule = parse(given, AGGREGATORS) if isinstance(given, str) else given
    for one in (rule.inner, rule.outer) if two_phase and isinstance(rule, TwoPhase) else (rule,):
        elected = isinstance(rule, TwoPhase)
        check_rule(one, who, log=log, elected=elected, nodes="sites", instead="RobustController")
    if parse(text := repr(rule), AGGREGATORS) != rule:
        raise BadInput(f"{who} was given {text}, which NVFlare's server cannot read again; take a rule of holdfast.")
    return rule


def whole_seconds(name: str, given: float) -> float:
    """How long to wait; NVFlare takes 0 for ever."""
    if not (waits := seconds(name, given)):
        raise BadInput(
            f"{name} = {given!r} was given; it is a number of seconds above 0, since NVFlare takes 0 for ever."
        )
    return waits


def read_pattern(pattern: str | None, who: str) -> Callable[[str], bool] | None:
    """Whether an array's name holds the pattern."""
    if pattern is None:
        return None
    try:
        found = re.compile(pattern)
    except (re.error, TypeError) as error:
        raise BadInput(f"{who} was given measure = {pattern!r}, which is no regular expression ({error}).") from None
    return lambda name: found.search(name) is not None
