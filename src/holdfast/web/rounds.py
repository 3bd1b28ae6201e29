"""A round in the plane: what is asked of the server, checked, and what every chosen rule answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from math import isfinite, sqrt
from typing import Any

import numpy as np

from holdfast.attacks.voters import AgainstMajority
from holdfast.errors import BadInput
from holdfast.experiments.where import short
from holdfast.guarantees.bounds import bounds, own
from holdfast.guarantees.certificate import certificate
from holdfast.rules.base import Stage
from holdfast.rules.decision import Decision
from holdfast.spec import parse
from holdfast.twophase import AGGREGATORS, TwoPhase, needs
from holdfast.values import Value

Told = dict[str, Any]
WORKERS, RULES, FAR = 40, 12, 1e6  # what one request may ask for at most
LETTERS = 300  # of a rule's text
COUNT = 2_000  # the largest whole number in a rule, such as its steps; nodes of a search: as many as usual
SECONDS = 2.0  # after which no further rule is asked


@dataclass(frozen=True, eq=False)
class Round:
    """n points, a row of nan for a worker who sends no number; who lies; the f that is assumed; rules as text.

    `images` is how many images a worker votes with for each that its update was made from.
    """

    X: np.ndarray
    liars: tuple[int, ...]
    f: int
    rules: tuple[str, ...] = ()
    images: float = 8.0

    @cached_property
    def honest(self) -> list[int]:
        """Whoever tells the truth, and a number."""
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
    if type(f := given.get("f", 0)) is not int or not 0 <= f <= WORKERS:
        raise BadInput(f"f = {_few(f)} was given; it is a whole number, 0 to {WORKERS}.")
    if not isinstance(rules, list) or len(rules) > RULES or not all(isinstance(text, str) for text in rules):
        raise BadInput(f"rules were given as {_few(rules)}; they are a list of at most {RULES} texts.")
    if type(images := given.get("images", 8)) not in (int, float) or not 1 <= images <= FAR:
        raise BadInput(f"images = {_few(images)} was given; it is a number, 1 to {FAR:g}.")
    found = Round(X, tuple(sorted(set(liars))), f, tuple(rules), float(images))
    if not found.honest:
        raise BadInput(f"nobody of {len(X)} workers is honest and sends numbers; leave one who does.")
    return found


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
    """Refuse a rule that was told to take its time, in any of its parts."""
    for field in fields(rule):
        given = getattr(rule, field.name)
        for part in given if isinstance(given, tuple) else (given,):
            if isinstance(part, Value):
                _brief(part)
        most = int(field.default) if field.name == "cap" and isinstance(field.default, int) else COUNT
        if type(given) is int and given > most:
            said = f"{type(rule).__name__} was given {field.name} = {_few(given)}"
            raise BadInput(f"{said}; it goes up to {most:,} here, so that nobody waits.")


def answered(asked: Round) -> Told:
    """Every rule's answer, by the library itself; a rule that refuses says why."""
    until = time.monotonic() + SECONDS
    answers = [_apart(asked, text) if time.monotonic() < until else _late(text) for text in asked.rules]
    return {"mean": asked.mean.tolist(), "deviation": asked.deviation, "answers": answers}


def _late(text: str) -> Told:
    return {"rule": text, "error": f"was not asked: the rules before it took over {SECONDS:g} s; remove a slow one."}


def _apart(asked: Round, text: str) -> Told:
    try:
        rule = chosen(text)
        told = _voted(asked, rule) if isinstance(rule, TwoPhase) else _decided(asked, rule)
    except BadInput as refusal:
        return {"rule": text, "error": str(refusal)}
    return {"rule": text, "named": short(repr(rule)), **told}


def _decided(asked: Round, rule: Any) -> Told:
    return _told(asked, rule.decide(asked.X, **needs(rule, rng=np.random.default_rng(0))))


def _told(asked: Round, decision: Decision) -> Told:
    total, n = float(decision.weights.sum()) or 1.0, len(decision.rows)
    mine = own(decision.rule)
    f = asked.f if mine is None else mine
    over = len(set(asked.liars) & {*map(int, decision.rows)}) > f  # more lie than it withstands: nothing is promised
    return {
        "value": decision.value.tolist(),
        "away": float(np.linalg.norm(decision.value - asked.mean)),
        "weights": [round(float(w), 6) for w in decision.weights],
        "measure": decision.measure,
        "kept": decision.kept,
        "left": decision.left_out,
        "dropped": {str(i): why for i, why in decision.dropped.items()},
        "lied": float(decision.weights[list(asked.liars)].sum()) / total,
        "why": decision.rule.why,
        "note": decision.note,
        "ball": decision.ball,
        "used": short(repr(decision.rule)),
        "n": n,
        "f": f,
        "over": over,
        "promise": {} if over else promised(decision.rule, n, f),
        "certificate": None if over else _certified(asked, decision, f),
    }


@lru_cache(maxsize=2048)
def promised(rule: Any, n: int, f: int) -> dict[str, str]:
    """The proved constants for n workers of which f lie, as people read them."""
    try:
        return {name: one.text for name, one in bounds(rule, n, f).items()}
    except BadInput:
        return {}


def _certified(asked: Round, decision: Decision, f: int) -> Told | None:
    """What is certain about this round; `region` is for the honest set that is true here: √κ of its deviations."""
    try:
        found = certificate(decision, asked.X, f=f)
    except BadInput:
        return None
    numbers = {
        "kappa": found.kappa,
        "within": found.within(),
        "anywhere": found.anywhere,
        "region": sqrt(found.kappa) * asked.deviation,
    }
    finite = {name: value if value is not None and isfinite(value) else None for name, value in numbers.items()}
    return {**finite, "how": found.how}


def _voted(asked: Round, rule: TwoPhase) -> Told:
    """Both candidates and the election; liars vote against the honest majority.

    A worker's loss is half the squared distance to what its images say. An update comes from few images and a vote from
    more, so that these say the honest mean up to a √images-th part of the update's deviation from it.
    """
    both = rule.propose(asked.X, rng=np.random.default_rng(0))
    sides = {"inner": both.inner, "outer": both.outer}
    say = asked.mean + (asked.X - asked.mean) / sqrt(asked.images)
    losses = np.stack([0.5 * np.square(say - one.value).sum(axis=1) for one in sides.values()], axis=1)
    liars = [i for i in asked.liars if i in both.voters]
    reports = [(i, losses[i]) for i in both.voters if i not in asked.liars]
    lies = AgainstMajority()(losses, np.array(liars, int), np.random.default_rng(0))
    winner = rule.elect(both, [*reports, *lies])
    gains = {str(i): float(pair[0] - pair[1]) for i, pair in (*reports, *lies)}
    candidates = {name: _told(asked, one) for name, one in sides.items()}
    return {
        **candidates[winner.name],
        "promise": {},  # of what a vote ends in, nothing is proved for all rounds
        "candidates": candidates,
        "winner": winner.name,
        "lead": winner.lead,
        "votes": [sum(gain < 0 for gain in gains.values()), sum(gain > 0 for gain in gains.values())],
        "election": type(rule.election).__name__,
        "said": winner.why,
        "gains": gains,
    }
