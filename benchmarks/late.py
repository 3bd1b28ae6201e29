"""What late replies cost: rounds that wait for nobody, beside rounds that wait for all.

Twenty workers learn the digits, six of them Byzantine. Two in five honest replies take one to three units of time
more. A round waits for all, or closes with fourteen replies, or as soon as the rule can answer. Five ways to do it,
four rules, no attack and four attacks, three seeds. Every run is one line of the results, so a killed program goes on
where it was.

example:  python benchmarks/late.py
"""

from __future__ import annotations

import argparse
import json
import logging
from itertools import product
from pathlib import Path
from typing import Any

from common import progress

from holdfast import PTM, Average, Mean2P, MeanwO
from holdfast.attacks import ALIE, PGA, Empire, NoAttack, SignFlip
from holdfast.training import Run, train
from holdfast.training.late import Late

OUT = Path(__file__).parent.parent / "results" / "training" / "late.jsonl"
BYZANTINE, SEEDS = 6, (0, 1, 2)
RULES = (Average(), MeanwO(BYZANTINE), PTM(BYZANTINE), Mean2P(BYZANTINE))
ATTACKS = {"none": NoAttack(), "SF": SignFlip(), "Empire": Empire(), "ALIE": ALIE(), "PGA": PGA()}
WAYS: dict[str, Any] = {
    "waits for all": Late(share=0.4, wait=20),
    "14 replies, late ones are lost": Late(share=0.4, wait=14, oldest=0),
    "14 replies": Late(share=0.4, wait=14),
    "14 replies, all alike": Late(share=0.4, wait=14, fade=0.0),
    "all there, last replies again": Late(share=0.4, again=True),
}
NAMES = ("seed", "attack", "rule", "way")


def run_of(cell: dict[str, Any]) -> Run:
    """The training of one cell."""
    rule = next(rule for rule in RULES if repr(rule) == cell["rule"])
    return Run(
        rule=rule,
        attack=ATTACKS[cell["attack"]],
        late=WAYS[cell["way"]],
        workers=20,
        byzantine=BYZANTINE,
        seed=cell["seed"],
        rounds=100,
        every=100,
        lr=0.2,
        momentum=0.9,
        probe=0,
        threads=1,
    )


def main() -> None:
    """Train what is missing and write its accuracy down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT, help="where the results go (default: %(default)s)")
    out: Path = parser.parse_args().out
    logging.getLogger("holdfast").setLevel(logging.ERROR)  # skipped rounds are counted
    lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = [tuple(line[name] for name in NAMES) for line in lines]
    every = product(SEEDS, ATTACKS, map(repr, RULES), WAYS)
    todo = [dict(zip(NAMES, one, strict=True)) for one in every if one not in done]
    for at, cell in enumerate(todo):
        run = run_of(cell)
        result = train(run)
        time = result.lines[-1]["time"] / run.rounds
        found = {"accuracy": round(result.accuracy, 4), "skipped": result.skipped, "time": round(time, 2)}
        with out.open("a") as file:
            file.write(json.dumps(cell | found) + "\n")
        progress(f"[{at + 1}/{len(todo)}] {cell}: {found['accuracy']:.3f}")


if __name__ == "__main__":
    main()
