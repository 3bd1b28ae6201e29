"""Two answers to the paper's open questions, tried in training: PTM beside one-phase rules, votes with a margin.

`digits`: twenty workers, eight of them Byzantine, 100 rounds, three seeds. `cnn`: the paper's network on FEMNIST, 35
workers, 14 of them Byzantine, 300 rounds. Both have uniform and Dirichlet(0.1) splits and meet the attacks of the main
job and the harder ones. Every run is one line of the results, so a killed program goes on where it was.

example:  python benchmarks/open_questions.py digits
          python benchmarks/open_questions.py cnn --folder FOLDER_WITH_FEMNIST
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from common import progress

from holdfast import CAF, CWTM, NNM, PTM, Ballot, DnC, MeanExact, MeanwO, Numeric, OuterMean, TwoPhase
from holdfast.attacks import Omniscient, Spread
from holdfast.experiments.demo import BASE, LIARS, SETS
from holdfast.experiments.paper import SIZES
from holdfast.training import Run, train
from holdfast.training.presets import paper

SEEDS = (2, 3, 4)
MARGINS = (0.0, 0.05, 0.01, 0.25)
ATTACKS = {name: attack for attacks in SETS.values() for name, (attack, _) in attacks.items()}
SLOW = "Canvass"  # it searches by the honest losses, and comes last
ATTACKS["Omn~"] = Spread(Omniscient())
CNN: dict[str, Any] = {"data": "femnist", "rounds": 300, "momentum": 0.9, "vote_batch": 24, "probe": 0}


class Part(NamedTuple):
    """Rules, the attacks that they meet, the splits of the data, and the seeds."""

    rules: tuple[Any, ...]
    attacks: tuple[str, ...]
    splits: tuple[str, ...]
    seeds: tuple[int, ...] = SEEDS

    def cells(self, seed: int) -> Iterator[dict[str, Any]]:
        """The runs of one seed, each by what tells it from the others."""
        for split, attack, rule in product(self.splits, self.attacks, self.rules):
            if seed in self.seeds:
                yield {"rule": repr(rule), "attack": attack, "split": split, "seed": seed}


class Task(NamedTuple):
    """What is trained, and how many workers are Byzantine; rules that need no vote, two-phase rules."""

    base: Run
    f: int
    parts: dict[str, Part]


def one_phase(f: int) -> tuple[Any, ...]:
    """PTM and the rules that it is compared with."""
    return (PTM(f), NNM(f) >> CWTM(f), CWTM(f), MeanwO(f), DnC(f), CAF(f))


def two_phase(f: int) -> tuple[Any, ...]:
    """The same two candidates, with both elections and every margin."""
    elections = [election(proximal=c) for c in MARGINS for election in (Numeric, Ballot)]
    return tuple(TwoPhase(MeanExact(f), OuterMean(f), election) for election in elections)


DIGITS_SPLITS, CNN_SPLITS = (
    ("Natural()", "Dirichlet(alpha=0.1)"),
    ("Natural(prior='byclass')", "Dirichlet(alpha=0.1, prior='byclass')"),
)
TASKS = {
    "digits": Task(
        BASE,
        LIARS,
        {
            "one": Part(one_phase(LIARS), tuple(name for name in ATTACKS if name != "Omn~"), DIGITS_SPLITS),
            "two": Part(
                two_phase(LIARS), ("none", "SF", "Empire", "PGA", "MinMax", "Empire~", "Omn~", "Canvass"), DIGITS_SPLITS
            ),
        },
    ),
    "cnn": Task(
        paper("Avg", **CNN | SIZES["femnist"]),
        14,
        {
            "one": Part(one_phase(14), tuple(name for name in SETS["harder"] if name != "Canvass"), CNN_SPLITS[:1]),
            "two": Part(two_phase(14), ("none", "Empire", "Empire~", "Omn~", "SF", "PGA"), CNN_SPLITS, SEEDS[:1]),
            SLOW: Part(two_phase(14)[:4], (SLOW,), CNN_SPLITS[:1], SEEDS[:1]),
        },
    ),
}
"""In one phase nobody votes, so Canvass is PGA~ there; the digits have both. On the network Canvass takes most of an
hour for one training, so it has a part of its own."""


def main() -> None:
    """Train what is missing and write its accuracy down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=sorted(TASKS), help="what is trained")
    parser.add_argument("--out", type=Path, help="where the results go (default: results/training/open_TASK.jsonl)")
    parser.add_argument("--folder", type=Path, help="where FEMNIST lies")
    parser.add_argument("--rounds", type=int, help="rounds of a training")
    parser.add_argument("--only", choices=("one", "two", SLOW), help="only rules that need no vote, or two-phase rules")
    args = parser.parse_args()
    task, out = TASKS[args.task], args.out or Path(f"results/training/open_{args.task}.jsonl")
    lines = out.read_text().splitlines() if out.exists() else []
    done = {tuple(map(str, list(json.loads(line).values())[:4])) for line in lines}
    parts = [part for kind, part in task.parts.items() if args.only in (None, kind)]
    rules = {repr(rule): rule for part in parts for rule in part.rules}
    cells = [cell for seed in SEEDS for part in parts for cell in part.cells(seed)]
    todo = [cell for cell in cells if tuple(map(str, cell.values())) not in done]
    todo.sort(key=lambda cell: bool(cell["attack"] == SLOW))
    rounds = args.rounds or task.base.rounds
    out.parent.mkdir(parents=True, exist_ok=True)
    for at, cell in enumerate(todo):
        run = replace(
            task.base,
            rule=rules[cell["rule"]],
            attack=ATTACKS[cell["attack"]],
            split=cell["split"],
            seed=cell["seed"],
            byzantine=task.f,
            rounds=rounds,
            every=rounds,
            threads=1,
        )
        accuracy = round(train(run, data=args.folder).accuracy, 4)
        with out.open("a") as file:
            file.write(json.dumps(cell | {"accuracy": accuracy}) + "\n")
        progress(f"[{at + 1}/{len(todo)}] {cell['rule']} under {cell['attack']}, {cell['split']}: {accuracy:.3f}")


if __name__ == "__main__":
    main()
