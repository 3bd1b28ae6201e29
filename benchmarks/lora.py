"""How far is the product of the means of adapters from the mean of their products? And what does a rule keep?

The example of examples/lora: a small transformer, seven nodes. First all are honest and train A and B: the gap is
measured in lengths of what the mean of the products changes in that round. Then two nodes lie, with and without a rule,
for B alone and for A and B.

example:  python benchmarks/lora.py --out results/benchmarks/lora.json
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

HERE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(HERE / "examples" / "lora"))

import lora_app as app  # noqa: E402
import lora_task as task  # noqa: E402
from common import progress  # noqa: E402
from flwr.app import Context, RecordDict  # noqa: E402

from holdfast.engines.flower import LocalGrid  # noqa: E402

NODES, ROUNDS, STEPS, GAP_ROUNDS = 7, 10, (1, 20, 100), 5
RULES = ("Average()", "MeanwO(f=2)", "CWTM(f=2)")


def flat(parts: list[np.ndarray]) -> np.ndarray:
    """All layers' numbers, one behind the other."""
    return np.concatenate([part.ravel() for part in parts]).astype(np.float64)


def gap(train: str, steps: int) -> float:
    """The largest gap over the rounds: of the product of the means to the mean of the products, in its own changes."""
    now, data, worst = task.first(train), task.shares(NODES), 0.0
    for turn in range(GAP_ROUNDS):
        sent = [task.trained(now, data[node], steps=steps, seed=1000 * turn + node) for node in range(NODES)]
        mean: task.Model = {name: np.stack([one[name] for one in sent]).astype(float).mean(axis=0) for name in now}
        wanted = np.mean([flat(task.products(one)) for one in sent], axis=0)
        moved = float(np.linalg.norm(wanted - flat(task.products(now))))
        worst = max(worst, float(np.linalg.norm(flat(task.products(mean)) - wanted)) / moved)
        now = {name: value.astype(np.float32) for name, value in mean.items()}
    return worst


def accuracy(rule: str, train: str, liars: int) -> float:
    """What the example prints in the end."""
    config: dict[str, Any] = {
        "rule": rule,
        "train": train,
        "liars": liars,
        "rounds": ROUNDS,
        "nodes": NODES,
        "steps": 20,
    }
    with redirect_stdout(StringIO()) as said:
        app.server(LocalGrid(app.client, NODES, config), Context(1, 0, {}, RecordDict(), config))
    return float(re.findall(r"([\d.]+)% of the test images", said.getvalue())[-1]) / 100


def apart() -> float:
    """How far two nodes with the same products can be from each other, in lengths of their adapters."""
    values = task.trained(task.first("AB"), task.shares(NODES)[0], steps=20, seed=0)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(task.RANK, task.RANK)))[0].astype(np.float32)
    other = {name: turn.T @ value if name.endswith("A") else value @ turn for name, value in values.items()}
    same = np.linalg.norm(flat(task.products(values)) - flat(task.products(other)))
    assert same < 1e-4 * np.linalg.norm(flat(task.products(values)))
    far = np.linalg.norm(flat([*values.values()]) - flat([*other.values()]))
    return float(far / np.linalg.norm(flat([*values.values()])))


def choose_rank(rank: int) -> None:
    """Build the model anew, with adapters of this rank."""
    task.RANK = rank
    task.base.cache_clear()
    task.beginning.cache_clear()


def main(out: Path) -> None:
    """Gaps, then accuracies."""
    torch.set_num_threads(1)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    gaps = [
        {"local steps": steps} | {train: float(f"{gap(train, steps):.2g}") for train in ("AB", "B")} for steps in STEPS
    ]
    progress(f"{gaps}")
    rows: list[dict[str, Any]] = []
    for rule in RULES:
        for liars in (0, 2):
            row: dict[str, Any] = {"rule": rule, "liars": liars} | {t: accuracy(rule, t, liars) for t in ("B", "AB")}
            rows.append(row)
            progress(f"{row}")
    numbers = {train: sum(value.size for value in task.first(train).values()) for train in ("B", "AB")}
    numbers["products"] = sum(part.size for part in task.products(task.first("AB")))
    told = {"nodes": NODES, "rounds": ROUNDS, "gap rounds": GAP_ROUNDS, "gaps": gaps, "numbers sent": numbers}
    before = task.accuracy(task.first("AB"), task.shares(NODES)[-1])
    told |= {"before": before, "apart with the same products": round(apart(), 2), "rows": rows}
    choose_rank(2 * task.RANK)  # B alone is then as much to send as A and B were
    for row in rows:
        row["B, twice the rank"] = accuracy(row["rule"], "B", row["liars"])
        progress(f"{row}")
    out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "benchmarks" / "lora.json")
    main(parser.parse_args().out)
