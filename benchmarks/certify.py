"""Try to break every proved constant: many rounds, every honest set of each, then a search for the worst.

Every rule with a constant meets 10,000 rounds and more for each criterion, spread over several (n, f, d) up to n = 9:
structured, random and tied ones, and a search (holdfast.guarantees.certify). The worst rounds of one criterion are
starts of the next. What is done is kept in results/guarantees/worst.json, so an interrupted run goes on. The first
round beyond a constant ends it with an error and prints the round.

example:  python benchmarks/certify.py --rounds 1200 --budget 5000
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from holdfast import CWM, NNM, PTM, GeometricMedian, Krum, MeanwO, Medoid, NearestTo
from holdfast.guarantees.bounds import bounds, everyone
from holdfast.guarantees.certify import Search, search
from holdfast.guarantees.criteria import SPREADS, ratios, subsets
from holdfast.guarantees.instances import drawn, structured
from holdfast.guarantees.searches import answering

OUT = Path(__file__).parent.parent / "results" / "guarantees" / "worst.json"
SHAPES = ((4, 1, 3), (5, 2, 2), (6, 2, 2), (7, 2, 4), (7, 3, 3), (9, 1, 2), (9, 2, 2), (9, 3, 2), (9, 4, 2))
SLOWER = {"CenterExact": 4, "GeometricMedian": 2}  # the budget is divided by this; a round takes up to 15 ms
ORDER = ("kappa", "xi", "lambda")  # the worst rounds of one are starts of the next

Found = dict[str, tuple[float, np.ndarray]]  # for each criterion, the worst ratio and its round


def rules(n: int, f: int) -> list[Any]:
    """All rules with a finite constant: the catalogue, and forms of it whose constants are proved too."""
    forms: list[Any] = [
        NearestTo(PTM(f)),
        NearestTo(GeometricMedian(), f=f),
        NearestTo(Medoid(), f=f),
        NearestTo(CWM(), f=f),
    ]
    forms += [MeanwO(f, refine=1), Krum(f, others="n-f-1", squared=False), NNM(f) >> CWM()]
    proved = [(rule, bounds(rule, n, f)["kappa"].ours) for rule in everyone(n, f) + forms]
    return [rule for rule, constant in proved if constant is not None and constant.value < inf]


def tried(rule: Any, n: int, f: int, d: int, many: int, budget: int) -> dict[str, Any]:
    """The worst ratios of one rule and shape: over `many` random rounds, and by a search for each criterion."""
    promises, start = bounds(rule, n, f, d), time.perf_counter()
    rounds = structured(n, f, d) + list(islice(drawn(n, d, np.random.default_rng((n, f, d))), many))
    worst = measured(rule, f, rounds)
    starts, count = [X for _, X in worst.values()], len(rounds)
    for criterion in ORDER:
        *_, last = search(Search(repr(rule), n, f, d, criterion, budget), starts=starts)
        worst[criterion], count = (last.value, last.X), count + last.tried
        starts += [last.X, *last.others]
    for criterion, (value, X) in worst.items():
        verify(rule, f, criterion, value, X, promises[criterion].ours)
    proved = {c: promises[c].ours.value for c in SPREADS if promises[c].ours is not None}  # type: ignore[union-attr]
    values = {c: worst[c][0] for c in SPREADS}
    print(f"{rule!r:34} n={n} f={f} d={d} {count} rounds {time.perf_counter() - start:.0f} s", flush=True)
    return {"rule": repr(rule), "n": n, "f": f, "d": d, "rounds": count, "worst": values, "proved": proved}


def measured(rule: Any, f: int, rounds: list[np.ndarray]) -> Found:
    """The worst of the rounds, for each criterion."""
    answer, masks = answering(rule), subsets(len(rounds[0]), f)
    worst: Found = dict.fromkeys(SPREADS, (-1.0, rounds[0]))
    for X in rounds:
        F = answer(X)
        for criterion in SPREADS:
            value = float(ratios(criterion, F, X, masks).max())
            if value > worst[criterion][0]:
                worst[criterion] = value, X
    return worst


def verify(rule: Any, f: int, criterion: str, value: float, X: np.ndarray, proved: Any) -> None:
    """End with the round if its ratio is beyond the constant; iterated rules may miss by their tolerance."""
    room = 1e-4 if "Geometric" in repr(rule) else 1e-7
    if value > proved.value * (1 + room) + 1e-9:
        raise SystemExit(f"{rule!r} f={f}: {criterion} = {value} beyond {proved} in {X.tolist()}")


def plan(many: int, budget: int) -> Iterator[tuple[Any, tuple[int, int, int], list[int]]]:
    """Each rule and shape, with the number of rounds and the budget."""
    for n, f, d in SHAPES:
        for rule in rules(n, f):
            slower = max([1, *(by for name, by in SLOWER.items() if name in repr(rule))])
            yield rule, (n, f, d), [many, budget // slower]


def main(many: int, budget: int) -> None:
    """Everything that is not done yet."""
    held = json.loads(OUT.read_text())["rows"] if OUT.exists() else []
    done = {(row["rule"], row["n"], row["f"], row["d"], *row["asked"]): row for row in held}
    rows = []
    for rule, shape, asked in plan(many, budget):
        name = (repr(rule), *shape, *asked)
        new = name not in done
        rows.append(tried(rule, *shape, *asked) | {"asked": asked} if new else done[name])
        if new:
            OUT.parent.mkdir(exist_ok=True)
            OUT.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    total = sum(row["rounds"] for row in rows)
    print(f"{len(rows)} rules and shapes, {total:,} rounds, no constant exceeded")


if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--rounds", type=int, default=1200, help="random rounds for each rule and shape")
    words.add_argument("--budget", type=int, default=5000, help="rounds of each search; fewer for slow rules")
    given = words.parse_args()
    main(given.rounds, given.budget)
