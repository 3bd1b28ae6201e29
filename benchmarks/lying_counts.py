"""What a lying sample count does to Flower's own strategies and to ours, side by side.

Fifteen clients have 20 to 2,000 samples each; three of them lie. They hide among the honest updates or send something
far away. They declare a count like those of the others, or 10⁹. Every strategy aggregates the same replies: real
messages of a real ClientApp, one round each. The table says how far the aggregate is from the mean of the honest
updates, weighted by their true counts. A second number says which part of its proved bound a weighted rule uses.

example:  python benchmarks/lying_counts.py --out results/flower/lying_counts.json
"""

from __future__ import annotations

import argparse
import json
import logging
import random
from collections.abc import Callable
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from common import progress, save
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg, FedTrimmedAvg, Krum, MultiKrum, Strategy

from holdfast import CWTM, PTM, MeanwO, cap
from holdfast.attacks import MinMax, View
from holdfast.engines.flower import LocalGrid, RobustStrategy, make_record, read_model
from holdfast.guarantees.bounds import bounds

DEFAULT = Path(__file__).resolve().parent.parent / "results" / "flower" / "lying_counts.json"
N, F, D, LIE, FAR = 15, 3, 50, 10**9, 100.0
COPIES = 10**6  # that weights are rounded to, where a constant is looked up
HONEST = slice(0, N - F)
QUIET: dict[str, Any] = {"fraction_evaluate": 0.0}
RULES: tuple[MeanwO | CWTM | PTM, ...] = (MeanwO(F), CWTM(F), PTM(F))
STRATEGIES: dict[str, tuple[str, Callable[[], Strategy]]] = {
    "FedAvg": ("believed", lambda: FedAvg(**QUIET)),
    "MultiKrum": ("believed", lambda: MultiKrum(**QUIET, num_malicious_nodes=F, num_nodes_to_select=N - F)),
    "Krum": ("ignored", lambda: Krum(**QUIET, num_malicious_nodes=F)),
    "FedTrimmedAvg": ("ignored", lambda: FedTrimmedAvg(**QUIET, beta=F / N)),
    **{repr(rule): ("ignored", lambda rule=rule: RobustStrategy(rule, **QUIET)) for rule in RULES},  # type: ignore[misc]
    **{
        f"{rule!r}, weighted": (
            "capped",
            lambda rule=rule: RobustStrategy(rule, weighted_by_key="num-examples", **QUIET),  # type: ignore[misc]
        )
        for rule in RULES
    },
}
SCENARIOS = {
    "nobody": "nobody lies",
    "hidden": "liars hide, true counts",
    "hidden, 10⁹": "liars hide, 10⁹ each",
    "far": "liars are far, true counts",
    "far, 10⁹": "liars are far, 10⁹ each",
}


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts, and updates whose noise is smaller where there are more samples."""
    rng = np.random.default_rng(seed)
    counts = np.round(np.exp(rng.uniform(np.log(20), np.log(2000), N)))
    return counts, 1 + rng.normal(size=(N, D)) * np.sqrt(0.25 + 50 / counts)[:, None]


def spread_of(X: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """The weighted mean, and the root of the weighted variance."""
    share = weights / weights.sum()
    mean = share @ X
    return mean, float(np.sqrt(share @ np.square(X - mean).sum(axis=1)))


def lied(name: str, counts: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What is declared and sent in a scenario."""
    counts, sent = counts.copy(), X.copy()
    mean, deviation = spread_of(X[HONEST], counts[HONEST])
    if name.startswith("hidden"):
        sent[N - F :] = MinMax()(View(honest=X[HONEST], own=X[N - F :]))
    if name.startswith("far"):
        sent[N - F :] = mean - FAR * deviation / np.sqrt(D)
    if name.endswith("10⁹"):
        counts[N - F :] = LIE
    return counts, sent


def clients(counts: np.ndarray, sent: np.ndarray) -> ClientApp:
    """Clients that send these updates and declare these counts."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        at = int(context.node_config["partition-id"])
        declared = MetricRecord({"num-examples": int(counts[at])})
        return Message(RecordDict({"arrays": make_record({"w": sent[at]}), "metrics": declared}), reply_to=message)

    return app


def aggregate(strategy: Strategy, app: ClientApp) -> np.ndarray:
    """The model after one round that begins at zero."""
    random.seed(0)  # Flower's strategies ask the nodes in a random order, and updates of liars who agree tie
    first = make_record({"w": np.zeros(D)})
    return read_model(strategy.start(LocalGrid(app, N), first, num_rounds=1).arrays)["w"]


def used(rule: MeanwO | CWTM | PTM, answer: np.ndarray, counts: np.ndarray, X: np.ndarray, honest: slice) -> float:
    """The squared distance to the honest mean, weighted as the rule weighs it, over what its constant allows."""
    masses = cap(counts, F)
    mean, deviation = spread_of(X[honest], masses.weights[honest])
    kappa = bounds(replace(rule, f=ceil(masses.share_of(F) * COPIES)), COPIES)["kappa"].ours
    assert kappa is not None
    return float(np.square(answer - mean).sum() / (kappa.value * deviation**2))


def measure(rounds: int) -> tuple[list[dict[str, Any]], float]:
    """A row for each strategy, and the largest part of its bound that a weighted rule used."""
    found: dict[str, dict[str, list[float]]] = {name: {key: [] for key in SCENARIOS} for name in STRATEGIES}
    largest = 0.0
    for seed in range(rounds):
        true, X = drawn(seed)
        for key in SCENARIOS:
            honest = slice(0, N) if key == "nobody" else HONEST
            mean, deviation = spread_of(X[honest], true[honest])
            counts, sent = lied(key, true, X)
            app = clients(counts, sent)
            for name, (_, make) in STRATEGIES.items():
                answer = aggregate(make(), app)
                found[name][key].append(float(np.linalg.norm(answer - mean)) / deviation)
                for rule in RULES:
                    if name == f"{rule!r}, weighted":
                        largest = max(largest, used(rule, answer, counts, X, honest))
        progress(f"round {seed + 1} of {rounds}")
    rows = [
        {
            "strategy": name,
            "counts": STRATEGIES[name][0],
            **{key: {"mean": float(f"{np.mean(v):.3g}"), "largest": float(f"{max(v):.3g}")} for key, v in by.items()},
        }
        for name, by in found.items()
    ]
    return rows, largest


def main(out: Path, rounds: int) -> None:
    """Measure, and write the file."""
    logging.disable(logging.CRITICAL)
    rows, largest = measure(rounds)
    save(out, rows, ("holdfast", "flwr", "numpy"))
    about = {"n": N, "f": F, "d": D, "rounds": rounds, "scenarios": SCENARIOS, "largest part": float(f"{largest:.3g}")}
    out.write_text(json.dumps(json.loads(out.read_text()) | about, indent=1, ensure_ascii=False) + "\n")
    assert largest <= 1, f"a weighted rule used {largest} of its bound"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DEFAULT)
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args()
    main(given.out, given.rounds)
