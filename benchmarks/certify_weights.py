"""Try to break every constant for workers that count differently: many rounds, every honest set of each, a search.

Every rule with a weighted form meets 10,000 rounds and more for each criterion. Some are drawn together with their
weights, n from 3 to 8. The others come from searches (holdfast.guarantees.certify) with fixed weights, where the worst
rounds of one criterion, and of the rules before, are starts of the next. All sets whose complement holds at most as
much as the f heaviest are tried. What is done is kept in results/guarantees/weighted.json, so an interrupted run goes
on. The first round beyond a constant is printed, and ends the run.

example:  python benchmarks/certify_weights.py --rounds 5000 --budget 800
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.guarantees.bounds import bounds
from holdfast.guarantees.certify import Search, search
from holdfast.guarantees.criteria import SPREADS, ratios, weighted_subsets
from holdfast.guarantees.instances import drawn, few_places
from holdfast.guarantees.searches import answering
from holdfast.masses import heaviest
from holdfast.spec import parse_rule

OUT = Path(__file__).parent.parent / "results" / "guarantees" / "weighted.json"
RULES = (
    *("CWTM(f={f})", "PTM(f={f})", "CWM()", "CWM(lower=True)", "MeanwO(f={f})", "MeanwO(f={f}, refine=2)"),
    *("MeanExact(f={f})", "CenterwO(f={f})", "MedianwO(f={f})", "MeaMed(f={f})", "Medoid()", "Krum(f={f})"),
    *("Krum(f={f}, others='n-f-1')", "Krum(f={f}, squared=False)", "MultiKrum(f={f})", "MultiKrum(f={f}, m=2)"),
    *("MultiKrum(f={f}, others='n-f-1')", "NearestTo(rule=CWTM(f={f}))", "NearestTo(rule=CWM(), f={f})"),
    *("NNM(f={f}) >> CWTM(f={f})", "NNM(f={f}) >> CWM()", "GeometricMedian()"),
)
SHAPES = (
    ((2.0, 1.0, 2.0), 1, 1),
    ((10.0, 10.0, 10.0, 9.9), 1, 1),
    ((4.0, 4.0, 3.0, 3.0, 3.0), 2, 2),
    ((7.0, 1.0, 3.0, 2.0, 5.0, 4.0), 1, 3),
    ((5.0, 4.0, 4.0, 3.0, 3.0, 3.0, 2.0), 2, 2),
    ((4.0, 4.0, 4.0, 3.0, 3.0, 3.0, 3.0, 3.0), 3, 2),
    ((1.7, 0.4, 2.9, 1.1, 2.2, 0.9, 1.3, 2.0), 2, 2),
)
ORDER = ("kappa", "xi", "lambda")
TOO_NEAR = 0.49  # shares beyond have constants so large that nothing comes near

Row = dict[str, Any]
Weights = tuple[float, ...]
Round = tuple[np.ndarray, Weights, int]  # vectors, weights, f


def rounds(rng: np.random.Generator) -> Iterator[Round]:
    """Random rounds with random weights without end: whole numbers, fractions, and some very uneven ones."""
    while True:
        n, d = int(rng.integers(3, 9)), int(rng.integers(1, 4))
        f = int(rng.integers(1, (n - 1) // 2 + 1))
        kind = rng.integers(3)
        w = rng.integers(1, 8, n) if kind == 0 else rng.uniform(0.2, 1, n) if kind == 1 else np.exp(rng.normal(size=n))
        if heaviest(np.asarray(w, float), f) < TOO_NEAR * w.sum():
            weights = tuple(map(float, w))
            clouds = drawn(n, d, rng)
            yield next(clouds), weights, f
            yield few_places(n, d, rng), weights, f


def proved(rule: Any, n: int, f: int, d: int, weights: Weights) -> dict[str, float]:
    """The finite constants of a rule for these weights."""
    mass = np.array(weights)
    promises = bounds(rule, n, f, d, share=heaviest(mass, f) / float(mass.sum()))
    return {c: b.value for c in SPREADS if (b := promises[c].ours) is not None and 0 < b.value < inf}


def random_row(form: str, many: int) -> Row:
    """The largest ratio to the constant over random rounds, for each criterion."""
    worst, count = dict.fromkeys(SPREADS, 0.0), 0
    for X, weights, f in rounds(np.random.default_rng(8)):
        if count == many:
            break
        n, d = X.shape
        rule = parse_rule(form.format(f=f))
        if n < rule.least():
            continue
        F, masks = answering(rule, weights)(X), weighted_subsets(weights, f)
        for criterion, constant in proved(rule, n, f, d, weights).items():
            value = float(ratios(criterion, F, X, masks).max())
            verify(rule, criterion, value, constant, (X, weights, f))
            worst[criterion] = max(worst[criterion], value / constant)
        count += 1
    return {"rule": named(form), "weights": None, "rounds": count, "of": worst}


def searched_row(form: str, shape: tuple[Weights, int, int], known: list[np.ndarray], budget: int) -> Row:
    """The worst ratios that searches find for fixed weights."""
    weights, f, d = shape
    n, rule = len(weights), parse_rule(form.format(f=f))
    constants, starts = proved(rule, n, f, d, weights), list(known)
    of, values, worst = dict.fromkeys(SPREADS, 0.0), {}, np.zeros((n, d))
    for criterion in ORDER:
        if criterion not in constants:
            continue
        task = Search(repr(rule), n, f, d, criterion, budget, 0, weights)
        *_, last = search(task, starts=starts)
        verify(rule, criterion, last.value, constants[criterion], (last.X, weights, f))
        of[criterion], values[criterion] = last.value / constants[criterion], last.value
        starts += [last.X, *last.others]
        worst = last.X if criterion in ("kappa", "lambda") and not worst.any() else worst
    told = {"rule": named(form), "weights": weights, "f": f, "d": d, "rounds": budget, "of": of, "worst": values}
    return told | {"proved": constants, "round": worst.tolist()}


def verify(rule: Any, criterion: str, value: float, constant: float, at: Round) -> None:
    """End with the round if its ratio is beyond the constant; iterated rules may miss by their tolerance."""
    room = 1e-4 if "Geometric" in repr(rule) else 1e-7
    if value > constant * (1 + room) + 1e-9:
        raise SystemExit(f"{rule!r}: {criterion} = {value} beyond {constant} in {at[0].tolist()}, {at[1:]}")


def main(many: int, budget: int) -> None:
    """Everything that is not done yet."""
    held = json.loads(OUT.read_text()) if OUT.exists() else {}
    rows: dict[Any, Row] = {}
    if held.get("asked") == [many, budget]:
        rows = {(row["rule"], row["weights"] and tuple(row["weights"])): row for row in held["rows"]}
    for form in RULES:
        name, start = named(form), time.perf_counter()
        shapes = [shape for shape in SHAPES if len(shape[0]) >= parse_rule(form.format(f=shape[1])).least()]
        if (name, None) not in rows:
            rows[name, None] = random_row(form, many + (len(SHAPES) - len(shapes)) * budget)
            save(rows, many, budget)
        for shape in shapes:
            if (name, shape[0]) not in rows:
                known = [np.array(row["round"]) for (_, weights), row in rows.items() if weights == shape[0]]
                rows[name, shape[0]] = searched_row(form, shape, known, budget)
                save(rows, many, budget)
        print(f"{name:36} {time.perf_counter() - start:.0f} s", flush=True)
    total = sum(row["rounds"] for row in rows.values())
    print(f"{len(rows)} rules and weights, {total:,} rounds for each criterion, no constant exceeded")


def named(form: str) -> str:
    """A rule for every f, as text."""
    return form.replace("f={f}", "f")


def save(rows: dict[Any, Row], many: int, budget: int) -> None:
    """One line for each rule and weights."""
    OUT.parent.mkdir(exist_ok=True)
    lines = ",\n".join(map(json.dumps, rows.values()))
    OUT.write_text(f'{{"asked": {json.dumps([many, budget])}, "rows": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--rounds", type=int, default=5000, help="random rounds for each rule")
    words.add_argument("--budget", type=int, default=800, help="rounds of each search")
    given = words.parse_args()
    main(given.rounds, given.budget)
