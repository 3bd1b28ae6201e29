"""What a round's certificate says of real gradients, and what it costs.

The paper's CNN and 35 workers (f = 7, batch 3, momentum 0), nobody attacks; every round of a short training is
certified. Then the time of the certificate over that of MeanwO, both on the last round's kind of vectors, in turn.
Last, how far κ(X) is above the worst set that a search finds, quick and sharp, over many kinds of rounds.

example:  python benchmarks/certificates.py --data folder-with-emnist
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from itertools import product
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from holdfast import CWTM, NNM, PTM, Average, CenterwO, GeometricMedian, MeanExact, MeanwO
from holdfast.attacks import ALIE, Empire, MinMax, NoAttack, Omniscient, SignFlip, Spread, View
from holdfast.guarantees.bounds import bounds
from holdfast.guarantees.certificate import certificate
from holdfast.guarantees.instance import instance_bound, worst_sets
from holdfast.guarantees.relative import relative
from holdfast.guarantees.semidefinite import semidefinite
from holdfast.guarantees.sets import Sets
from holdfast.training import train
from holdfast.training.presets import paper

OUT = Path(__file__).parent.parent / "results" / "benchmarks" / "certificates.json"
RULES = {"MeanwO": MeanwO(7), "CenterwO": CenterwO(7), "CWTM": CWTM(7), "GeometricMedian": GeometricMedian()}


def kappas(data: Path | None, rounds: int) -> list[dict[str, object]]:
    """κ of every round, for several rules, beside what the rule promises for all rounds."""
    out = []
    for name, rule in RULES.items():
        run = paper("Mean1P", "none", 0.2).changed(rule=rule, rounds=rounds, every=rounds)
        told = [line["kappa"] for line in train(run, data=data, certify=True).lines]
        promise = bounds(rule, 35, 7)["kappa"].ours
        assert promise is not None
        row = {"rule": name, "rounds": rounds, "median": median(told), "largest": max(told), "promise": promise.value}
        print(row)
        out.append(row)
    return out


def cost(d: int = 115_646, repeats: int = 15) -> float:
    """Best time of a certificate over the best time of a decision, taken in turn."""
    X = np.random.default_rng(0).normal(size=(35, d)).astype(np.float32)
    decided, certified = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        decision = MeanwO(7).decide(X)
        middle = time.perf_counter()
        certificate(decision)
        decided.append(middle - start)
        certified.append(time.perf_counter() - middle)
    return min(certified) / min(decided)


SHAPES = tuple((n, f) for n, fs in ((11, (1, 2, 5)), (20, (2, 4, 8)), (35, (3, 7, 14))) for f in fs)
ATTACKS = (NoAttack(), ALIE(), Empire(scale=0.1), MinMax(), SignFlip(), Omniscient(), Spread(Empire(scale=0.1)))


def clouds() -> Iterator[tuple[np.ndarray, int]]:
    """Rounds of every shape, dimension and attack; in every second one the honest differ in length."""
    rng = np.random.default_rng(1)
    for (n, f), d, uneven in product(SHAPES, (3, 20, 1000), (False, True)):
        honest = rng.normal(size=(n - f, d)) * (np.exp(rng.normal(size=(n - f, 1))) if uneven else 1) + 3 / np.sqrt(d)
        for attack in ATTACKS:
            own = rng.normal(size=(f, d)) + 3 / np.sqrt(d)
            yield np.vstack([honest, attack(View(honest=honest, own=own, rng=rng))]), f


def tightness() -> dict[str, Any]:
    """κ(X) over the worst κ_S that a search finds, by the quick and by the sharp proof; what each of them takes."""
    above: dict[str, list[float]] = {"quick": [], "sharp": []}
    times: dict[str, list[float]] = {"quick": [], "sharp": [], "bound": []}
    unbounded = rounds = 0
    for X, f in clouds():
        n = len(X)
        apart = np.square(X[:, None] - X).sum(axis=2)
        start = time.perf_counter()
        rounds, unbounded = rounds + 1, unbounded + (instance_bound(apart, f) is None)
        times["bound"] += [time.perf_counter() - start] if n == 35 else []
        for rule in (MeanwO(f), MeanExact(f), CWTM(f), PTM(f), NNM(f) >> CWTM(f), GeometricMedian(), Average()):
            E = X - rule(X)
            worst = worst_sets(E @ E.T, f, rng=np.random.default_rng(0))[0]
            mean = E[worst].mean(axis=0)
            found = float(mean @ mean / np.square(E[worst] - mean).sum(axis=1).mean())
            Z = np.vstack([E, np.zeros(E.shape[1])])
            D, w, told = np.square(Z[:, None] - Z).sum(axis=2), np.append(np.zeros(n), 1.0), inf
            for name, prove in (("quick", relative), ("sharp", semidefinite)):
                start = time.perf_counter()
                told = min(told, prove(D, w, Sets.plain(n, f), 1e-13))
                times[name] += [time.perf_counter() - start] if n == 35 else []
                above[name].append(told / found)
    quantiles = {name: [float(q) for q in np.quantile(ratios, (0.5, 0.9, 1.0))] for name, ratios in above.items()}
    typical = {name: 1e3 * median(seconds) for name, seconds in times.items()}
    return {"rounds": rounds, "answers": len(above["quick"]), "unbounded": unbounded, "above": quantiles, "ms": typical}


if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--data", type=Path, help="a folder with EMNIST; without it, whatever holdfast finds")
    words.add_argument("--rounds", type=int, default=60)
    given = words.parse_args()
    tight = tightness()
    print(tight)
    ratio = cost()
    print(f"a certificate takes {ratio:.3f} of a MeanwO decision (bar 0.2)")
    told = {"rows": kappas(given.data, given.rounds), "cost": ratio, "bar": 0.2, "n": 35, "f": 7, "d": 115_646}
    told["tightness"] = tight
    OUT.write_text(json.dumps(told, indent=1) + "\n")
