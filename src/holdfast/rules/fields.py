"""Hyperparameters are checked once, when the value is built, by the names of its fields."""

from __future__ import annotations

import math
import operator
from dataclasses import fields
from typing import Any

import numpy as np

from holdfast.errors import BadInput

COUNTS = {
    "f": 0,
    "m": 1,
    "s": 1,
    "iterations": 1,
    "pivot": 0,
    "refine": 0,
    "candidates": 1,
    "cap": 1,
}  # name -> smallest
LENGTHS = {"tau": True, "floor": False, "filter": True}  # name -> must it exceed zero
FLAGS = ("lower", "squared")
OTHERS = ("others", "rule", "parts", "anchor", "length", "beyond")  # checked where they are used


def check(value: Any) -> None:
    """Turn counts into ints and lengths into floats, or refuse with a sentence."""
    for field in fields(value):
        given = getattr(value, field.name)
        if given is None and "None" in str(field.type):
            continue
        if field.name in COUNTS:
            object.__setattr__(value, field.name, _count(value, field.name, given))
        elif field.name in FLAGS:
            if not isinstance(given, bool):
                raise BadInput(f"{type(value).__name__} was given {field.name} = {given!r}; it is True or False.")
        elif field.name in LENGTHS:
            object.__setattr__(value, field.name, _length(value, field.name, given))


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


def _length(value: Any, name: str, given: Any) -> float:
    try:
        number = float(given) if isinstance(given, (int, float, np.number)) else math.nan
        if isinstance(given, bool) or not math.isfinite(number) or number < 0 or (LENGTHS[name] and number == 0):
            raise ValueError
    except (OverflowError, ValueError):
        want = "a finite number above 0" if LENGTHS[name] else "a finite number, at least 0"
        raise BadInput(f"{type(value).__name__} was given {name} = {given!r}; {name} is {want}.") from None
    return number
