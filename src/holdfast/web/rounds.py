"""A round in the plane, as the pages ask about it: who sends what, who lies, and which rules; checked, and limited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np

from holdfast.checks import check_whole
from holdfast.errors import BadInput
from holdfast.rules.base import Stage
from holdfast.spec import parse
from holdfast.twophase import AGGREGATORS, TwoPhase
from holdfast.values import Value

JsonObject = dict[str, Any]
WORKERS, RULES, FAR = 40, 12, 1e6  # what one request may ask for at most
LETTERS = 300  # of a rule's text
COUNT = 2_000  # the largest whole number in a rule, such as its steps; nodes of a search: as many as usual
SECONDS = 2.0  # after which no further rule is asked


@dataclass(frozen=True, eq=False)
class Round:
    """n points, a row of nan for a worker who sends no number; who lies; the f that is assumed; rules as text.

    `images` is how many images a worker votes with for each that its update was made from; `look` the place of the rule
    whose certificate alone is wanted, None: everybody's.
    """

    X: np.ndarray
    liars: tuple[int, ...]
    f: int
    rules: tuple[str, ...] = ()
    images: float = 8.0
    look: int | None = None

    @cached_property
    def honest(self) -> list[int]:
        """The honest workers that sent finite numbers."""
        finite = np.isfinite(self.X).all(axis=1)
        return [i for i in range(len(self.X)) if finite[i] and i not in self.liars]

    @cached_property
    def mean(self) -> np.ndarray:
        """What the server would like to know."""
        return np.asarray(self.X[self.honest].mean(axis=0))

    @cached_property
    def deviation(self) -> float:
        """The honest standard deviation: the root of the mean squared distance to their mean."""
        return sqrt(float(np.square(self.X[self.honest] - self.mean).sum(axis=1).mean()))


def read(given: Any) -> Round:
    """A round from a request; BadInput says what is wrong with it."""
    if not isinstance(given, dict):
        raise BadInput(f"a round was given as {type(given).__name__}; it is an object with points, liars, f and rules.")
    points, liars, rules = given.get("points"), given.get("liars", []), given.get("rules", [])
    if not isinstance(points, list) or not 1 <= len(points) <= WORKERS:
        raise BadInput(f"points were given as {_few(points)}; they are a list of 1 to {WORKERS} pairs [x, y].")
    X = np.array([_point(i, point) for i, point in enumerate(points)])
    if not isinstance(liars, list) or not all(type(i) is int and 0 <= i < len(X) for i in liars):
        raise BadInput(f"liars were given as {_few(liars)}; they are a list of worker numbers below {len(X)}.")
    f = whole_number(given, "f", 0, WORKERS)
    if not isinstance(rules, list) or len(rules) > RULES or not all(isinstance(text, str) for text in rules):
        raise BadInput(f"rules were given as {_few(rules)}; they are a list of at most {RULES} texts.")
    if type(images := given.get("images", 8)) not in (int, float) or not 1 <= images <= FAR:
        raise BadInput(f"images = {_few(images)} was given; it is a number, 1 to {FAR:g}.")
    look = None if given.get("look") is None else whole_number(given, "look", 0, RULES)
    checked = Round(X, tuple(sorted(set(liars))), f, tuple(rules), float(images), look)
    if not checked.honest:
        raise BadInput(f"nobody of {len(X)} workers is honest and sends numbers; leave one who does.")
    return checked


def whole_number(given: Any, name: str, least: int, most: int, usual: int = 0) -> int:
    """A number of a request, or the usual one if it has none."""
    return check_whole(given.get(name, usual), name, least=least, most=most, show=_few)


def listed(X: np.ndarray) -> list[list[float] | None]:
    """Points as a page has them: None for who sends no number."""
    return [x.tolist() if np.isfinite(x).all() else None for x in X]


def _point(i: int, point: Any) -> Sequence[float]:
    if point is None:
        return (np.nan, np.nan)
    numbers = isinstance(point, list) and len(point) == 2 and all(type(x) in (int, float) for x in point)
    if not numbers or not all(abs(x) <= FAR for x in point):
        raise BadInput(f"point {i} was given as {_few(point)}; it is a pair of numbers up to {FAR:g}, or null for NaN.")
    return (float(point[0]), float(point[1]))


def _few(given: Any) -> str:
    """What was given, in few letters, however long it is."""
    if isinstance(given, list | dict | str) and len(given) > 20:
        return f"{type(given).__name__} of {len(given)}"
    text = repr(given) if not isinstance(given, list | dict) or len(str(given)) <= 80 else type(given).__name__
    return text if len(text) <= 80 else f"{text[:80]}..."


def chosen(text: str) -> Any:
    """The rule or two-phase rule that a text names."""
    if len(text) > LETTERS:
        raise BadInput(f"a rule of {len(text)} letters was given; write at most {LETTERS}.")
    rule = parse(text, AGGREGATORS)
    _brief(rule)
    if not isinstance(rule, TwoPhase) and not (isinstance(rule, Stage) and rule.answers):
        raise BadInput(f"{rule!r} does not answer with one vector; write a rule such as MeanwO(f=3).")
    return rule


def _brief(rule: Any) -> None:
    """Refuse a rule whose limits are high, in any of its parts."""
    for field in fields(rule):
        given = getattr(rule, field.name)
        for part in given if isinstance(given, tuple) else (given,):
            if isinstance(part, Value):
                _brief(part)
        most = int(field.default) if field.name == "cap" and isinstance(field.default, int) else COUNT
        if type(given) is int and given > most:
            said = f"{type(rule).__name__} was given {field.name} = {_few(given)}"
            raise BadInput(f"{said}; it goes up to {most:,} here, so that nobody waits.")
