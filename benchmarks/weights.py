"""What sample counts are worth, and what a lie about them costs: trainings on workers of very different size.

Nine workers share MNIST-5k, the smallest with 20 images and the largest with 2,000. Two of them are Byzantine. Every
rule is trained with equal weights and with sample counts, without an attack and under four: the last one also
declares 10^9 samples. Three seeds. Every run is one line of the results, so a killed program goes on where it was.

example:  python benchmarks/weights.py
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from common import progress

from holdfast import CWTM, PTM, Average, MeanwO
from holdfast.attacks import ALIE, Empire, NoAttack, SignFlip
from holdfast.data import QuantitySkew
from holdfast.training import Run, train

OUT = Path(__file__).parent.parent / "results" / "training" / "weights.jsonl"
BYZANTINE, LIE, SEEDS = 2, 10**9, (0, 1, 2)
RULES = (Average(), MeanwO(BYZANTINE), PTM(BYZANTINE), CWTM(BYZANTINE))
WEIGHTS = ("equal", "samples")
ATTACKS: dict[str, tuple[Any, int | None]] = {
    "none": (NoAttack(), None),
    "SF": (SignFlip(), None),
    "Empire": (Empire(scale=0.5), None),
    "ALIE": (ALIE(z=1.5), None),
    "SF, count 10^9": (SignFlip(), LIE),
}
BASE = Run(
    rule=Average(),
    data="mnist-5k",
    split=QuantitySkew(ratio=100.0),
    workers=9,
    train=505,  # the mean of sizes from 20 to 2,000
    test=40,
    rounds=150,
    batch=16,
    lr=0.1,
    momentum=0.9,
    every=150,
    probe=0,
    threads=1,
)


def run_of(cell: dict[str, Any]) -> Run:
    """The training of one cell."""
    attack, declared = ATTACKS[cell["attack"]]
    rule = next(rule for rule in RULES if repr(rule) == cell["rule"])
    weighed: dict[str, Any] = {"weights": cell["weights"]}
    if cell["weights"] == "samples":
        weighed["declared"] = declared
    byzantine = 0 if cell["attack"] == "none" else BYZANTINE
    return replace(BASE, rule=rule, attack=attack, byzantine=byzantine, seed=cell["seed"], **weighed)


def cells() -> list[dict[str, Any]]:
    """Every rule, weighing, attack and seed; a lie about counts changes nothing where counts do not matter."""
    names = ("seed", "attack", "rule", "weights")
    every = (dict(zip(names, one, strict=True)) for one in product(SEEDS, ATTACKS, map(repr, RULES), WEIGHTS))
    return [cell for cell in every if cell["weights"] == "samples" or ATTACKS[cell["attack"]][1] is None]


def main() -> None:
    """Train what is missing and write its accuracy down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT, help="where the results go (default: %(default)s)")
    out: Path = parser.parse_args().out
    lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = [{name: line[name] for name in ("seed", "attack", "rule", "weights")} for line in lines]
    todo = [cell for cell in cells() if cell not in done]
    for at, cell in enumerate(todo):
        accuracy = round(train(run_of(cell)).accuracy, 4)
        with out.open("a") as file:
            file.write(json.dumps(cell | {"accuracy": accuracy}) + "\n")
        progress(f"[{at + 1}/{len(todo)}] {cell}: {accuracy:.3f}")


if __name__ == "__main__":
    main()
