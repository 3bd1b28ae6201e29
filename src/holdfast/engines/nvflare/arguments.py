"""What a controller and an aggregator can be given."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from holdfast.engines.arguments import check_rule, seconds
from holdfast.engines.replies import plain
from holdfast.errors import BadInput
from holdfast.jsonable import finite_or_none
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
        found = re.compile(check_text(pattern, "measure", who, what="the text of a regular expression"))
    except re.error as error:
        raise BadInput(f"{who} was given measure = {pattern!r}, which is no regular expression ({error}).") from None
    return lambda name: found.search(name) is not None


def check_text(given: object, name: str, who: str, *, what: str, empty: bool = False) -> str:
    """A text that was given, which NVFlare writes into the configuration of a job; or a path, as text."""
    text = os.fspath(given) if isinstance(given, os.PathLike) else given
    if not isinstance(text, str) or not (text or empty):
        raise BadInput(f"{who} was given {name} = {_shown(given)}; {name} is {what}.")
    return text


def check_flag(given: object, name: str, who: str) -> bool:
    """True or False, and nothing that Python only takes for it."""
    if not isinstance(given, bool | np.bool_):
        raise BadInput(f"{who} was given {name} = {_shown(given)}; {name} is True or False.")
    return bool(given)


def plain_number(given: Any) -> Any:
    """numpy's number as Python's own, which JSON can hold; anything else as it is."""
    return given.item() if isinstance(given, np.integer | np.floating) else given


def check_positive(given: object, name: str, who: str) -> float | None:
    """A finite number above 0, or None."""
    if given is None:
        return None
    number = finite_or_none(given)
    if number is None or number <= 0:
        raise BadInput(f"{who} was given {name} = {_shown(given)}; {name} is a finite number above 0, or None.")
    return float(number)


def _shown(given: object) -> str:
    """What was given, as one line."""
    return plain(repr(given))
