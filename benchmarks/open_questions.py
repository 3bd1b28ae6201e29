"""Two answers to the paper's open questions, tried on the digits: PTM beside one-phase rules, votes with a margin.

Twenty workers, eight of them Byzantine, 100 rounds, three seeds, uniform and Dirichlet(0.1) splits, all attacks of the
main job and the harder ones. Every run is one line of the results, so a killed program goes on where it was.

example:  python benchmarks/open_questions.py --out results/training/open_questions.jsonl
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from common import progress

from holdfast import CAF, CWTM, NNM, PTM, Ballot, DnC, MeanExact, MeanwO, Numeric, OuterMean, TwoPhase
from holdfast.experiments.demo import BASE, LIARS, SETS
from holdfast.training import train

DEFAULT = Path("results/training/open_questions.jsonl")
SEEDS = (2, 3, 4)
SPLITS = ("Natural()", "Dirichlet(alpha=0.1)")
ONE_PHASE = (PTM(LIARS), NNM(LIARS) >> CWTM(LIARS), CWTM(LIARS), MeanwO(LIARS), DnC(LIARS), CAF(LIARS))
MARGINS = (0.0, 0.01, 0.05, 0.25)
TWO_PHASE = tuple(
    TwoPhase(MeanExact(LIARS), OuterMean(LIARS), election(proximal=c))
    for election in (Numeric, Ballot)
    for c in MARGINS
)
ATTACKS = {name: attack for attacks in SETS.values() for name, (attack, _) in attacks.items()}
FOR_VOTES = ("none", "SF", "Empire", "PGA", "MinMax", "Empire~", "Canvass")


def cells() -> Iterator[dict[str, Any]]:
    """Every run by what tells it from the others, seed by seed, so that a part of them is a whole table."""
    for seed in SEEDS:
        for split in SPLITS:
            for rules, names in ((ONE_PHASE, tuple(ATTACKS)), (TWO_PHASE, FOR_VOTES)):
                for name in names:
                    for rule in rules:
                        yield {"rule": repr(rule), "attack": name, "split": split, "seed": seed}


def main() -> None:
    """Train what is missing and write its accuracy down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DEFAULT, help=f"where the results go (default: {DEFAULT})")
    parser.add_argument("--rounds", type=int, default=BASE.rounds, help="rounds of a training")
    args = parser.parse_args()
    lines = args.out.read_text().splitlines() if args.out.exists() else []
    done = {tuple(map(str, list(json.loads(line).values())[:4])) for line in lines}
    todo = [cell for cell in cells() if tuple(map(str, cell.values())) not in done]
    rules = {repr(rule): rule for rule in (*ONE_PHASE, *TWO_PHASE)}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for at, cell in enumerate(todo):
        run = replace(
            BASE,
            rule=rules[cell["rule"]],
            attack=ATTACKS[cell["attack"]],
            split=cell["split"],
            seed=cell["seed"],
            rounds=args.rounds,
            every=args.rounds,
            threads=1,
        )
        accuracy = round(train(run).accuracy, 4)
        with args.out.open("a") as file:
            file.write(json.dumps(cell | {"accuracy": accuracy}) + "\n")
        progress(f"[{at + 1}/{len(todo)}] {cell['rule']} under {cell['attack']}, {cell['split']}: {accuracy:.3f}")


if __name__ == "__main__":
    main()
