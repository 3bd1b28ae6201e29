"""Which runs: conditions such as rule=Mean*, seed<2 or accuracy>=0.5."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from holdfast.elections import Ballot
from holdfast.errors import BadInput
from holdfast.spec import parse
from holdfast.training import Run
from holdfast.training.run import TEXTS, usual_later
from holdfast.twophase import AGGREGATORS, Cent2P, Mean2P, TwoPhase

ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def condition(text: str) -> Callable[[Run], bool]:
    """A test of a run's record.

    >>> condition("rule=Mean*")(Run(rule="MeanwO(f=2)")), condition("seed>=1")(Run(rule="MeanwO(f=2)"))
    (True, False)
    """
    test = meets(text, sorted(one.name for one in fields(Run)))
    return lambda run: test(usual_later() | run.record())


def meets(text: str, names: Collection[str]) -> Callable[[Mapping[str, Any]], bool]:
    """A test of values by name: field=pattern or field!=pattern, where * and ? stand for any letters, or a comparison
    with a number, such as accuracy<0.5, which a value that is not known does not meet.

    Mean2P and Cent2P are found by these names too.
    """
    match = re.fullmatch(r"\s*(\w+)\s*(!=|<=|>=|==|=|<|>)\s*(.*?)\s*", text, re.S)
    name, sign, wanted = match.groups() if match else ("", "", "")
    number = _number(wanted)
    if name not in names or (sign in ORDER and number is None):
        known = ", ".join(names)
        raise BadInput(
            f"a condition was given as {text!r}; write field=pattern or field<number, the field one of {known}."
        )
    if sign in ORDER:
        return lambda row: isinstance(row[name], (int, float)) and ORDER[sign](row[name], number)
    pattern, exact = wanted.replace("[", "[[]"), _exact(name, wanted)

    def same(value: Any) -> bool:
        if (isinstance(value, (int, float)) and value == number) or (exact is not None and value == exact):
            return True
        return any(fnmatchcase(text, pattern) for text in {str(value), short(str(value))})

    return lambda row: same(row[name]) != (sign == "!=")


def pair(rule: TwoPhase) -> str:
    """The paper's name of its Inner and Outer, whatever the election; '': they have none there."""
    made = {"Cent2P": Cent2P(rule.f), "Mean2P": Mean2P(rule.f)}
    return next((name for name, one in made.items() if (one.inner, one.outer) == (rule.inner, rule.outer)), "")


@cache
def short(text: str) -> str:
    """The text of a rule by the paper's name, if it has one there; any other text as it is.

    >>> short("TwoPhase(inner=MeanwO(f=2), outer=OuterMean(f=2))"), short("CWM()")
    ('Mean2P(f=2)', 'CWM()')
    """
    try:
        rule = parse(text, AGGREGATORS) if text.startswith("TwoPhase(") else None
    except BadInput:
        return text
    if not isinstance(rule, TwoPhase) or rule.election != Ballot() or not (name := pair(rule)):
        return text
    return f"{name}(f={rule.f})"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _exact(name: str, text: str) -> str | None:
    """The text that a record has for this value: Empire() for Empire(scale=0.1)."""
    try:
        return repr(parse(text, TEXTS[name][0], TEXTS[name][2])) if name in TEXTS else None
    except BadInput:
        return None
