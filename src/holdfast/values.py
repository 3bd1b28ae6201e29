"""Values: frozen records whose text is their name, such as Krum(f=3) or Empire(scale=0.1).

Hyperparameters are checked once, when the value is built, by the names of their fields.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform, final

import numpy as np

from holdfast.errors import BadInput

T = TypeVar("T")
COUNTS = {
    "f": 0,
    "m": 1,
    "s": 1,
    "iterations": 1,
    "pivot": 0,
    "refine": 0,
    "candidates": 1,
    "cap": 1,
    "shards": 1,
    "every": 1,
    "worker": 0,
}  # name -> smallest
LENGTHS = {
    "tau": True,
    "floor": False,
    "filter": True,
    "alpha": True,
    "scale": False,
    "margin": False,
}  # name -> must it exceed zero
SIGNED = ("z",)  # any finite number
FLAGS = ("lower", "squared", "spread")
OTHERS = ("others", "rule", "parts", "anchor", "length", "beyond")  # checked where they are used


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """A frozen dataclass that nobody subclasses; its text, which Value gives it, is its name."""
    return final(dataclass(frozen=True, repr=False)(cls))


@dataclass(frozen=True, repr=False)
class Value:
    """Equal when its fields are, checked when it is built, written as it is parsed."""

    choices: ClassVar[dict[str, tuple[str, ...]]] = {}  # field -> the words that it takes

    def __post_init__(self) -> None:
        check(self)

    def __repr__(self) -> str:
        """The name with the fields that differ from their defaults: Krum(f=3)."""
        told = ((f.name, getattr(self, f.name), f.default) for f in fields(self))
        return f"{type(self).__name__}({', '.join(f'{name}={v!r}' for name, v, usual in told if v != usual)})"

    def written(self) -> str:
        """The name with all fields, for figures: Dirichlet(alpha=0.1, prior='natural')."""
        return f"{type(self).__name__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in fields(self))})"


def check(value: Any) -> None:
    """Turn counts into ints and lengths into floats, or refuse with a sentence."""
    for field in fields(value):
        given = getattr(value, field.name)
        if given is None and "None" in str(field.type):
            continue
        if field.name in getattr(value, "choices", {}):
            _choice(value, field.name, given)
        elif field.name in COUNTS:
            object.__setattr__(value, field.name, _count(value, field.name, given))
        elif field.name in FLAGS:
            if not isinstance(given, bool):
                raise BadInput(f"{type(value).__name__} was given {field.name} = {given!r}; it is True or False.")
        elif field.name in LENGTHS or field.name in SIGNED:
            object.__setattr__(value, field.name, _number(value, field.name, given))


def _count(value: Any, name: str, given: Any) -> int:
    who = type(value).__name__
    try:
        number = operator.index(given)
        if isinstance(given, bool) or number < COUNTS[name]:
            raise TypeError
    except TypeError:
        want = f"a whole number, at least {COUNTS[name]}"
        raise BadInput(f"{who} was given {name} = {given!r}; {name} is {want}.") from None
    return number


def _number(value: Any, name: str, given: Any) -> float:
    low = -math.inf if name in SIGNED else 0.0
    try:
        number = float(given) if isinstance(given, (int, float, np.number)) else math.nan
        if isinstance(given, bool) or not math.isfinite(number) or number < low or (LENGTHS.get(name) and number == 0):
            raise ValueError
    except (OverflowError, ValueError):
        want = "a finite number" + ("" if name in SIGNED else " above 0" if LENGTHS[name] else ", at least 0")
        raise BadInput(f"{type(value).__name__} was given {name} = {given!r}; {name} is {want}.") from None
    return number


def _choice(value: Any, name: str, given: Any) -> None:
    known = value.choices[name]
    if not isinstance(given, str) or given not in known:
        words = f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}"
        raise BadInput(f"{type(value).__name__} was given {name} = {given!r}; it is {words}.")
