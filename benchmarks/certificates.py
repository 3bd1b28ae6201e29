"""What a round's certificate says of real gradients, and what it costs.

The paper's CNN and 35 workers (f = 7, batch 3, momentum 0), nobody attacks; every round of a short training is
certified. Then the time of the certificate over that of MeanwO, both on the last round's kind of vectors, in turn.

example:  python benchmarks/certificates.py --data folder-with-emnist
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median

import numpy as np

from holdfast import CWTM, CenterwO, GeometricMedian, MeanwO
from holdfast.guarantees.bounds import bounds
from holdfast.guarantees.certificate import certificate
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


if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--data", type=Path, help="a folder with EMNIST; without it, whatever holdfast finds")
    words.add_argument("--rounds", type=int, default=60)
    given = words.parse_args()
    ratio = cost()
    print(f"a certificate takes {ratio:.3f} of a MeanwO decision (bar 0.2)")
    told = {"rows": kappas(given.data, given.rounds), "cost": ratio, "bar": 0.2, "n": 35, "f": 7, "d": 115_646}
    OUT.write_text(json.dumps(told, indent=1) + "\n")
