"""The main job: seven rules under the paper's seven attacks, or harder ones, on the embedded digits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from holdfast.attacks import (
    ALIE,
    PGA,
    Canvass,
    Empire,
    Mimic,
    MinMax,
    MinSum,
    NoAttack,
    ScaledVariance,
    Spread,
    list_paper_attacks,
)
from holdfast.elections import Numeric
from holdfast.rules import CWTM, Average, GeometricMedian, Krum, MeanExact, MeanwO, OuterMean
from holdfast.training import Result, Run
from holdfast.twophase import Mean2P, TwoPhase

WORKERS, LIARS = 20, 8
RULES: dict[str, Any] = {
    "Average": Average(),
    "CWTM": CWTM(f=LIARS),
    "Krum": Krum(f=LIARS),
    "GM": GeometricMedian(),
    "Mean1P": MeanwO(f=LIARS),
    "Mean2P": Mean2P(f=LIARS),
    "Mean2P+": TwoPhase(MeanExact(f=LIARS), OuterMean(f=LIARS), Numeric()),
}
DESCRIPTIONS = {
    "LF": "labels are permuted",
    "SF": "updates times -1",
    "Gauss": "noise as long as the update",
    "Omn": "minus many times the mean",
    "Empire": "-0.1 times the honest mean",
    "SV": "20 standard deviations off",
    "PGA": "searched against the very rule",
}
HARDER: dict[str, tuple[Any, str]] = {
    "ALIE": (ALIE(), "as far out as a majority can hide it"),
    "MinMax": (MinMax(), "no farther from anyone than the honest are"),
    "MinSum": (MinSum(), "no farther in sum than the honest are"),
    "Mimic": (Mimic(), "all copy one honest worker"),
    "Empire~": (Spread(Empire(scale=0.1)), "Empire without copies"),
    "SV~": (Spread(ScaledVariance(z=-20.0)), "SV without copies"),
    "PGA~": (PGA(spread=True), "PGA without copies"),
    "Canvass": (Canvass(), "searched against the election"),
}
NONE = {"none": (NoAttack(), "nobody lies")}
SETS: dict[str, dict[str, tuple[Any, str]]] = {
    "paper": {**NONE, **{name: (attack, DESCRIPTIONS[name]) for name, attack in list_paper_attacks().items()}},
    "harder": {**NONE, **HARDER},
}
BASE = Run(
    rule=Average(),
    workers=WORKERS,
    byzantine=LIARS,
    rounds=100,
    batch=16,
    lr=0.2,
    momentum=0.9,
    every=5,
    probe=0,
)


def cells(attacks: str = "paper", seed: int = 0, rounds: int = BASE.rounds) -> dict[tuple[str, str], Run]:
    """(rule, attack) -> run, the slowest first so that the processes end together."""
    base = replace(BASE, seed=seed, rounds=rounds)
    runs = {(r, a): replace(base, rule=RULES[r], attack=lie) for a, (lie, _) in SETS[attacks].items() for r in RULES}
    slow = {key: (isinstance(run.attack, PGA | Canvass), run.two_phase) for key, run in runs.items()}
    return {key: runs[key] for key in sorted(runs, key=slow.__getitem__, reverse=True)}


def page(results: dict[tuple[str, str], Result], attacks: str, rounds: int) -> dict[str, Any]:
    """What the page shows of them."""
    what = "the seven attacks of Yi et al. 2024" if attacks == "paper" else "harder attacks"
    return {
        "title": f"Seven rules under {what}",
        "setting": [
            ["data", "handwritten digits, 8 x 8, dealt by natural class frequencies"],
            ["workers", f"{WORKERS}, of which the last {LIARS} lie"],
            ["training", f"{rounds} rounds, batch {BASE.batch}, learning rate {BASE.lr}, momentum {BASE.momentum}"],
            ["votes", "on each worker's own training data; liars vote for the larger loss"],
            ["tested on", "the 280 test images of all workers, one seed: 0.4 % is one image"],
            ["kept", "had a part in the answer (for rules on single coordinates, in some of them)"],
        ],
        "rules": [repr(rule) for rule in RULES.values()],
        "names": {repr(rule): name for name, rule in RULES.items()},
        "attacks": list(SETS[attacks]),
        "explained": {name: f"{said}: {attack!r}" for name, (attack, said) in SETS[attacks].items()},
        "rounds": rounds,
        "workers": WORKERS,
        "liars": LIARS,
        "cells": [cell(r, a, result) for (r, a), result in results.items()],
    }


def accuracies(results: dict[tuple[str, str], Result], attacks: str, rounds: int, seed: int) -> dict[str, Any]:
    """The table as plain numbers."""
    table = {r: {a: round(results[r, a].accuracy, 4) for a in SETS[attacks]} for r in RULES}
    worst = {r: min(row[a] for a in row if a != "none") for r, row in table.items()}
    written = {name: repr(rule) for name, rule in RULES.items()}
    lies = {name: repr(attack) for name, (attack, _) in SETS[attacks].items()}
    return {"rounds": rounds, "seed": seed, "rules": written, "attacks": lies, "accuracy": table, "worst": worst}


def cell(rule: str, attack: str, result: Result) -> dict[str, Any]:
    """One run in the page's words."""
    return {
        "rule": repr(RULES[rule]),
        "attack": attack,
        "accuracy": result.accuracy,
        "curve": [[at, round(value, 4)] for at, value in result.curve()],
        "kept": [line["kept"] for line in result.lines],
        "winners": [line["winner"] for line in result.lines],
        "leads": [line["lead"] for line in result.lines],
        "events": [[at, what] for at, what in result.events()][:50],
    }
