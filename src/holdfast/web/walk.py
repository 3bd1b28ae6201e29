"""The liars' walk: step by step to where they hurt a rule most, within a frame."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from holdfast.attacks import View
from holdfast.errors import BadInput
from holdfast.twophase import TwoPhase
from holdfast.web.answers import elected
from holdfast.web.rounds import FAR, SECONDS, JsonObject, Round, chosen, listed, whole_number

Array = np.ndarray
TRIES = 36  # places that are looked at in a step
LONGEST, SHORTEST = 0.5, 0.002  # of the frame: how far a step looks


def walked(picture: Round, given: Any) -> JsonObject:
    """One step: the new points, the harm that they do, and how far the next step should look.

    Moves are drawn by the number of the step: all liars together, one of them, all to one place, each for itself. The
    best of them is taken if it hurts more; a look that finds nothing is shortened, one that does is lengthened.
    """
    frame, step, reach = _frame(given), whole_number(given, "step", 0, 1_000_000), _share(given)
    rule = chosen(picture.rules[0]) if picture.rules else None
    if rule is None or not picture.liars:
        raise BadInput("a walk was asked for without a rule or without a liar; choose a rule and make somebody lie.")
    until = time.monotonic() + SECONDS / 2
    harm, rng = harmed(picture, rule), np.random.default_rng(step)
    liars = list(picture.liars)
    start = np.where(np.isfinite(picture.X[liars]), picture.X[liars], picture.mean)
    before = harm(start)
    looked = [np.clip(rows, frame[0], frame[1]) for rows in _moves(start, reach * (frame[1] - frame[0]).max(), rng)]
    harms = [harm(rows) for rows in looked if time.monotonic() < until] or [before]  # of a slow rule, some of them
    top = int(np.argmax(harms))
    better = harms[top] > before * (1 + 1e-9) + 1e-12
    X = picture.X.copy()
    X[liars] = looked[top] if better else start
    points = listed(X)
    reach = min(LONGEST, reach * 1.3) if better else reach * 0.6
    return {"points": points, "harm": max(harms[top], before), "reach": reach, "over": reach < SHORTEST}


def harmed(picture: Round, rule: Any) -> Callable[[Array], float]:
    """The liars' rows -> how far they move the answer from the honest mean; an answer that is refused does no harm."""
    finite = np.flatnonzero([np.isfinite(x).all() or i in picture.liars for i, x in enumerate(picture.X)])
    liars = np.isin(finite, picture.liars)
    X, mean = picture.X[finite], picture.mean
    view = View(honest=X[~liars], own=X[liars], rule=rule, f=picture.f)
    whole = replace(picture, X=picture.X.copy(), rules=picture.rules[:1])

    def harm(rows: Array) -> float:
        whole.X[list(picture.liars)], X[liars] = rows, rows
        try:
            if not isinstance(rule, TwoPhase):
                return float(np.linalg.norm(view.answers(X)[0] - mean))
            sides, winner, _ = elected(whole, rule)  # the winner's answer counts
            return float(np.linalg.norm(sides[winner.name].value - mean))
        except BadInput:
            return 0.0

    return harm


def _moves(start: Array, far: float, rng: np.random.Generator) -> Iterator[Array]:
    for at in range(TRIES):
        kind, turn = at % 4, rng.normal(size=2)
        length = far * rng.random()
        if kind == 0:
            yield start + length * turn
        elif kind == 1:
            moved = start.copy()
            moved[rng.integers(len(start))] += length * turn
            yield moved
        elif kind == 2:
            yield start + min(1.0, 4 * rng.random()) * (start[rng.integers(len(start))] + 0.1 * length * turn - start)
        else:
            yield start + length * rng.normal(size=start.shape)


def _frame(given: Any) -> Array:
    """Two corners, low and high, between which liars stay."""
    frame = given.get("frame")
    pairs = isinstance(frame, list) and len(frame) == 2 and all(isinstance(c, list) and len(c) == 2 for c in frame)
    plain = pairs and all(type(x) in (int, float) and abs(x) <= FAR for corner in frame for x in corner)
    if not plain or not (np.array(frame[0]) < np.array(frame[1])).all():
        raise BadInput("the frame of a walk is two corners [[left, low], [right, high]] within 1e6.")
    return np.array(frame, float)


def _share(given: Any) -> float:
    if type(reach := given.get("reach", 0.25)) not in (int, float) or not 0 < reach <= 1:
        raise BadInput("the reach of a walk is a number above 0, at most 1.")
    return float(reach)
