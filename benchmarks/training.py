"""What a round of training costs in the paper's setting, as ratios taken in one run.

35 workers, 3 images each, the network of 115,646 parameters. The measure is one pooled forward and backward
pass over the same 105 images by plain autograd, as fast as torch does it here (channels last). Sides take turns; the
best time counts. Everything runs on random images, which cost what real ones do.

example:  python benchmarks/training.py --out results/benchmarks/training.json
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from common import Row, Work, interleaved, progress, result, save, table
from torch.nn import functional as F

from holdfast import MeanwO
from holdfast.attacks import Empire
from holdfast.data import Dataset
from holdfast.training import Run, State
from holdfast.training.loop import rashb
from holdfast.training.models import cnn
from holdfast.training.train import threads
from holdfast.training.workers import Workers

DEFAULT = Path("results/benchmarks/training.json")


def images(n: int) -> Dataset:
    """Random images with the shape and the classes of EMNIST."""
    rng = np.random.default_rng(0)
    names = tuple(str(k) for k in range(62))
    return Dataset(
        "random", rng.integers(0, 256, (n, 28, 28), dtype=np.uint8), rng.integers(0, 62, n), names, None, None
    )


def rows(rounds: int, workers: int, batch: int) -> list[Row]:
    """All ratios."""
    f = workers * 2 // 5
    run = Run(
        rule=MeanwO(f=f), attack=Empire(), workers=workers, byzantine=f, batch=batch, vote_batch=batch,
        rounds=10**6, every=10**6, train=750, test=10, probe=0, momentum=0.0,
    )  # fmt: skip
    task = Workers(run, data=images(workers * 800))
    state = State.first(run, task)
    who = np.arange(workers)
    x, y = task.batch(who, batch, 5, 0)
    pooled = cnn((1, 28, 28), 62).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    flat = x.flatten(0, 1).contiguous(memory_format=torch.channels_last)

    def one_pass() -> None:
        pooled.zero_grad()
        F.cross_entropy(pooled(flat), y.flatten()).backward()  # type: ignore[no-untyped-call]

    def looped() -> None:
        for i in range(workers):
            pooled.zero_grad()
            F.cross_entropy(pooled(x[i]), y[i]).backward()  # type: ignore[no-untyped-call]

    def gradients() -> None:
        task.updates(state.model, who, 0)

    loop = rashb(run, task, state)
    fresh = task.updates(state.model, who, 0)[0].copy()
    held = Frozen(task, fresh)
    rest = rashb(run, held, State.first(run, held))
    out: list[Row] = []

    def compare(what: str, against: str, ours: Work, theirs: Work, bar: float) -> None:
        mine, other = interleaved(ours, theirs, rounds)
        words = {"what": what, "against": against, "milliseconds": round(1000 * mine, 1), "measure": "time ratio"}
        out.append(result(mine / other, bar, False, **words))
        progress(f"{what}: {mine / other:.2f} of {against}")

    compare("gradients of all workers", "one pooled pass", gradients, one_pass, 1.5)
    compare("gradients of all workers", "a loop over workers", gradients, looped, 0.75)
    compare("MeanwO, Empire, bookkeeping", "gradients of all workers", lambda: next(rest), gradients, 0.5)
    compare("a whole round", "gradients of all workers", lambda: next(loop), gradients, 2.0)
    compare("a vote", "one pooled pass", lambda: task.losses([state.model] * 2, who, 0), one_pass, 0.8)
    return out


class Frozen:
    """The same task with its gradients at hand: what remains is everything else."""

    reuses = True

    def __init__(self, task: Workers, fresh: np.ndarray) -> None:
        self.workers, self.start, self.evaluate, self.losses = task.workers, task.start, task.evaluate, task.losses
        self.fresh, self.rows = fresh, fresh.copy()

    def updates(self, model: np.ndarray, who: np.ndarray, t: int) -> tuple[np.ndarray, dict[int, str]]:
        return self.rows, {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DEFAULT)
    parser.add_argument("--rounds", type=int, default=40)
    given = parser.parse_args()
    with threads(torch.get_num_threads()):
        found = rows(given.rounds, 35, 3)
    save(given.out, found, ("holdfast", "numpy", "torch"))
    print(table(found))


if __name__ == "__main__":
    main()
