"""What every chosen rule makes of a round in the plane: by the library itself, with reasons and certificates."""

from __future__ import annotations

import time
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np

from holdfast.attacks.voters import AgainstMajority
from holdfast.decision import Decision
from holdfast.driver import decide
from holdfast.errors import BadInput
from holdfast.experiments.where import short
from holdfast.guarantees.bounds import bounds, own
from holdfast.guarantees.certificate import certificate
from holdfast.guarantees.instance import instance_bound
from holdfast.jsonable import finite_or_none
from holdfast.reading import read
from holdfast.twophase import TwoPhase, Winner
from holdfast.web.rounds import SECONDS, JsonObject, Round, chosen

ROUNDED = 1e-14  # part by which a squared distance in the plane may be rounded


def answered(picture: Round) -> JsonObject:
    """Every rule's answer, by the library itself; a rule that refuses says why."""
    until = time.monotonic() + SECONDS
    answers = [
        answer(picture, text, certify=picture.look in (None, i)) if time.monotonic() < until else _late(text)
        for i, text in enumerate(picture.rules)
    ]
    return {"mean": picture.mean.tolist(), "deviation": picture.deviation, "least": _least(picture), "answers": answers}


def _least(picture: Round) -> float | None:
    """The κ that no answer can be below, once nothing moves any more."""
    X = picture.X[np.isfinite(picture.X).all(axis=1)]
    if picture.look is not None or not 0 < 2 * picture.f < len(X):
        return None
    apart = X[:, None] - X
    return instance_bound(np.square(apart).sum(axis=2), picture.f, error=ROUNDED)


def _late(text: str) -> JsonObject:
    return {"rule": text, "error": f"was not asked: the rules before it took over {SECONDS:g} s; remove a slow one."}


def answer(picture: Round, text: str, *, certify: bool = True) -> JsonObject:
    """One rule's answer, or why it has none."""
    try:
        rule = chosen(text)
        fields = (_voted if isinstance(rule, TwoPhase) else _decided)(picture, rule, certify=certify)
    except BadInput as refusal:
        return {"rule": text, "error": str(refusal)}
    return {"rule": text, "named": short(repr(rule)), **fields}


def _decided(picture: Round, rule: Any, *, certify: bool) -> JsonObject:
    return _describe_decision(
        picture, decide(rule, read(picture.X, repr(rule)), rng=np.random.default_rng(0)), certify=certify
    )


def _describe_decision(picture: Round, decision: Decision, *, certify: bool) -> JsonObject:
    total, n = float(decision.weights.sum()) or 1.0, len(decision.rows)
    mine = own(decision.rule)
    f = picture.f if mine is None else mine
    over = len(set(picture.liars) & {*map(int, decision.rows)}) > f  # more lie than it withstands: nothing is promised
    return {
        "value": decision.value.tolist(),
        "away": float(np.linalg.norm(decision.value - picture.mean)),
        "weights": [round(float(w), 6) for w in decision.weights],
        "measure": decision.measure,
        "kept": decision.kept,
        "excluded": decision.excluded,
        "dropped": {str(i): why for i, why in decision.dropped.items()},
        "lied": float(decision.weights[list(picture.liars)].sum()) / total,
        "why": decision.rule.why,
        "note": decision.note,
        "ball": decision.ball,
        "used": short(repr(decision.rule)),
        "n": n,
        "f": f,
        "over": over,
        "promise": {} if over else promised(decision.rule, n, f),
        **({"certificate": None if over else _certified(picture, decision, f)} if certify else {}),
    }


@lru_cache(maxsize=2048)
def promised(rule: Any, n: int, f: int) -> dict[str, str]:
    """The proved constants for n workers of which f lie, as people read them."""
    try:
        return {name: one.text for name, one in bounds(rule, n, f).items()}
    except BadInput:
        return {}


def _certified(picture: Round, decision: Decision, f: int) -> JsonObject | None:
    """What is certain about this round; `region` is for the honest set that is true here: √κ of its deviations."""
    try:
        certified = certificate(decision, picture.X, f=f, sharp=picture.look is None)
    except BadInput:
        return None
    numbers = {
        "kappa": certified.kappa,
        "within": certified.within(),
        "anywhere": certified.anywhere,
        "region": sqrt(certified.kappa) * picture.deviation,
    }
    finite = {name: finite_or_none(value) for name, value in numbers.items()}
    return {**finite, "how": certified.how}


def elected(picture: Round, rule: TwoPhase) -> tuple[dict[str, Decision], Winner, dict[int, float]]:
    """Both candidates, who wins, and by voter how much better Outer is said to be; liars vote against the majority.

    A worker's loss is half the squared distance to what its images say. An update comes from few images and a vote from
    more, so that these say the honest mean up to a √images-th part of the update's deviation from it.
    """
    candidates = rule.propose(picture.X, rng=np.random.default_rng(0))
    sides = {"inner": candidates.inner, "outer": candidates.outer}
    say = picture.mean + (picture.X - picture.mean) / sqrt(picture.images)
    losses = np.stack([0.5 * np.square(say - one.value).sum(axis=1) for one in sides.values()], axis=1)
    liars = np.array([i for i in picture.liars if i in candidates.voters], int)
    honest = [(i, losses[i]) for i in candidates.voters if i not in picture.liars]
    reports = [*honest, *AgainstMajority()(losses, liars, np.random.default_rng(0))]
    return sides, rule.elect(candidates, reports, step=1.0), {i: float(pair[0] - pair[1]) for i, pair in reports}


def _voted(picture: Round, rule: TwoPhase, *, certify: bool) -> JsonObject:
    sides, winner, gains = elected(picture, rule)
    candidates = {
        name: _describe_decision(picture, one, certify=certify and name == winner.name) for name, one in sides.items()
    }
    return {
        **candidates[winner.name],
        "promise": {},  # of what a vote ends in, nothing is proved for all rounds
        "candidates": candidates,
        "winner": winner.name,
        "lead": winner.lead,
        "votes": [sum(gain < 0 for gain in gains.values()), sum(gain > 0 for gain in gains.values())],
        "election": type(rule.election).__name__,
        "said": winner.why,
        "gains": {str(i): gain for i, gain in gains.items()},
    }
