"""Rounds to begin with: the paper's dilemma, attacks in the plane, faults, and the worst round of a rule."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

import numpy as np

from holdfast.attacks import ATTACKS, View
from holdfast.errors import BadInput
from holdfast.guarantees.bounds import number, own
from holdfast.guarantees.certify import Search, search
from holdfast.guarantees.criteria import CRITERIA, worst
from holdfast.guarantees.instances import DILEMMA, SIEGE, SNEAK
from holdfast.guarantees.searches import Found
from holdfast.spec import unknown
from holdfast.twophase import TwoPhase
from holdfast.web.rounds import FAR, SECONDS, WORKERS, JsonObject, chosen, whole_number
from holdfast.web.rounds import listed as rows_of

N, LIARS = 13, 4  # workers of a cloud, the last of them liars
MEAN, SHAPE = np.array([1.5, 0.7]), np.array([[0.75, 0.2], [0.2, 0.45]])  # of an honest cloud
SMALL = 11  # workers up to which all honest sets are looked at in a moment
BUDGET = 600  # rounds that a search tries
OTHERS = (
    "LabelFlip",
    "Silent",
    "Malformed",
    "NoAttack",
    "NaN",
    "Inf",
    "CodedPGA",
    "Spread",
)  # nothing to see in the plane
ASKING = ("PGA", "Canvass")  # attacks that ask the rule
STORIES = {
    "sneak": "Sneak: liars among the honest (Yi et al. 2024)",
    "siege": "Siege: liars around the honest, the same points",
}
FAULTS = {"far": "One far outlier", "nan": "Senders of NaN", "break": "Break this rule: its worst round"}


def listed() -> list[JsonObject]:
    """The names, with what they show, in the order in which to try them."""
    shown = {name: attack for name, attack in ATTACKS.items() if name not in OTHERS}
    first = ("ALIE", "Empire", "Omniscient")
    ordered = [*first, *(name for name in shown if name not in first)]
    groups = {
        "The dilemma": STORIES,
        "Attacks": {name: f"{name}: {shown[name].formula}" for name in ordered},
        "Faults": FAULTS,
    }
    return [
        {"group": group, "name": name, "title": title}
        for group, presets in groups.items()
        for name, title in presets.items()
    ]


def preset(given: Any) -> JsonObject:
    """The points, who lies, and the f that a preset has; `rule`, `seed`, and, to break a rule, `n` and `f`."""
    name = given.get("name")
    known = [one["name"] for one in listed()]
    if name not in known:
        raise BadInput(unknown(str(name)[:40], known, "preset"))
    rng = np.random.default_rng(whole_number(given, "seed", 0, 2**31))
    n, f = min(whole_number(given, "n", 1, WORKERS, SMALL), SMALL), whole_number(given, "f", 0, WORKERS, 2)
    rule = str(given.get("rule", ""))
    if name in STORIES:
        return preset_of(DILEMMA, SNEAK if name == "sneak" else SIEGE, 5)
    try:
        return broken(rule, n, f) if name == "break" else clouded(str(name), rule, rng)
    except BadInput as refusal:  # of the rule; the question was sound
        return {"refused": str(refusal)}


def clouded(name: str, rule: str, rng: np.random.Generator) -> JsonObject:
    """An honest cloud, and what liars send beside it."""
    X = MEAN + rng.normal(size=(N, 2)) @ SHAPE
    if name == "far":
        X[-1] = 10.5, 5.7
        return preset_of(X, [N - 1], LIARS)
    if name == "nan":
        X[-LIARS:] = np.nan
    else:
        X[-LIARS:] = attacked(name, X[:-LIARS], X[-LIARS:], rule, rng)
    return preset_of(X, range(N - LIARS, N), LIARS)


def attacked(name: str, honest: np.ndarray, mine: np.ndarray, rule: str, rng: Any) -> np.ndarray:
    """What the attack sends; one that asks the server's rule asks the chosen one."""
    view = View(
        honest=honest, own=mine, f=LIARS, rng=rng, **({"rule": chosen(rule)} if name in ASKING and rule else {})
    )
    rows = np.asarray(ATTACKS[name]()(view), float)
    return np.clip(rows, -FAR, FAR)


def preset_of(X: np.ndarray, liars: Any, f: int) -> JsonObject:
    """As a round is asked for."""
    return {"points": rows_of(X.round(4)), "liars": [int(i) for i in liars], "f": f, "said": ""}


def broken(text: str, n: int, f: int) -> JsonObject:
    """The worst round that the search of the guarantees finds for a rule, and the honest set for which it is worst."""
    rule = chosen(text)
    if isinstance(rule, TwoPhase):  # a vote has no constant; its Inner has
        inner = broken(repr(rule.inner), n, f)
        return inner | {"said": f"The worst round of its Inner: {inner['said']}"}
    while rule.least() > SMALL and own(rule):
        rule = rule.lowered(1)
    lie = own(rule)
    f = min(max(1, f), (SMALL - 1) // 2) if lie is None else lie
    if f == 0:
        raise BadInput(f"{text} withstands nobody, so there is nothing to break; raise its f.")
    n, text = max(n, rule.least(), 2 * f + 1), repr(rule)
    worst_round = searched(text, n, f)
    answer = np.asarray(rule(worst_round.X))
    bad = worst("kappa", answer, worst_round.X, f)
    middle, size = worst_round.X.mean(axis=0), float(np.abs(worst_round.X).max()) or 1.0
    X = (worst_round.X - middle) * (2.0 / size) if size > 1000 else worst_round.X
    ratio = f"{CRITERIA['kappa']} = {number(bad.value)}"
    said = f"{text}, n = {n}, f = {f}: of {worst_round.tried:,} rounds the worst has {ratio}"
    return {
        "points": X.tolist(),
        "liars": [i for i in range(n) if i not in bad.honest],
        "f": f,
        "said": f"{said}: squared distance to the honest mean, in honest variances.",
    }


@lru_cache(maxsize=64)
def searched(rule: str, n: int, f: int) -> Found:
    """The worst round of a short search; a slow rule ends it early."""
    task = Search(rule, n, f, 2, "kappa", BUDGET)
    until = time.monotonic() + SECONDS
    tries = search(task)
    best = next(tries)
    for better in tries:
        best = better
        if time.monotonic() > until:
            break
    return best
