"""The paper's rules under its Gauss attack, at its largest rate: accuracies next to the printed ones.

EMNIST dealt by natural frequencies, 35 workers of which 14 lie, 1,500 rounds, learning rate 0.1, momentum 0, batch 3,
750 training and 150 test images a worker, per-pixel standardisation, noise of exactly the same norm; mean of three
seeds on all workers' test data. Interrupted, it goes on where it was. Needs EMNIST (docs/data.md).

example:  python benchmarks/gauss.py --data ../shared/data --runs runs
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from common import progress

from holdfast.experiments.pool import trained
from holdfast.training import Run
from holdfast.training.presets import paper

OUT = Path("results/training/gauss.json")
PAPER = {  # rule -> (its name in the paper, its accuracy under Gauss at rate 0.4, uniform sampling)
    "Average()": ("Avg", 0.79),
    "GeometricMedian(iterations=1, floor=1e-05)": ("GM", 0.79),
    "NormBoundedMean(tau=2.15771)": ("CClip", 0.64),
    "Mean2P(f=14)": ("Mean2P", 0.76),
    "Cent2P(f=14)": ("Cent2P", 0.76),
    "Krum(f=14)": ("Krum", 0.47),
    "CWTM(f=14)": ("CWTM", 0.55),
    "CWM()": ("CWM", 0.54),
    "MeanwO(f=14)": ("Mean1P", None),
    "CenterwO(f=14)": ("Cent1P", None),
}  # the program clips lr · gradient at 0.215771: here 2.15771 of the gradient


def setting(rule: str, seed: int) -> Run:
    """A cell of the preset of the text, with GM's floor and CClip's τ as in the program."""
    return paper(PAPER[rule][0], "Gauss", 0.4, every=500, seed=seed).changed(rule=rule)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None, help="where emnist lies")
    parser.add_argument("--runs", type=Path, default=Path("runs/gauss"), help="run folders, for resuming")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--processes", type=int, default=None, help="one a core unless given")
    given = parser.parse_args()
    runs = {f"{name}-{s}": setting(r, s) for r, (name, _) in PAPER.items() for s in range(given.seeds)}
    scores: dict[str, float] = {}
    for key, done in trained(runs, given.processes, given.data, given.runs):
        scores[key] = done.accuracy
        progress(f"{key}: {done.accuracy:.4f}")
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(summary(scores, given.seeds), indent=1) + "\n")


def summary(scores: dict[str, float], seeds: int) -> dict[str, object]:
    """The rules of which all seeds are done."""
    out: dict[str, object] = {}
    for rule, (name, printed) in PAPER.items():
        found = [round(scores[f"{name}-{seed}"], 4) for seed in range(seeds) if f"{name}-{seed}" in scores]
        if len(found) == seeds:
            mean, std = round(float(np.mean(found)), 4), round(float(np.std(found)), 4)
            out[name] = {"rule": rule, "accuracies": found, "mean": mean, "std": std, "paper": printed}
    return out


if __name__ == "__main__":
    main()
