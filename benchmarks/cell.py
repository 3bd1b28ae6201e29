"""A round of one of the paper's cells: ours next to a plain loop that works as the authors' program does.

The plain loop goes from worker to worker: each loads the model, computes the gradient of its own 3 images and sends it
in float64; the server measures every pair of vectors by itself, for the inner and the outer set, as theirs does in one
phase too; in two phases every worker computes its loss on its own 24 images for both candidates. 35 workers of which
14 lie (Omn), 115,646 parameters, as many torch threads on both sides, in turn, the best time counts. Random images,
which cost what real ones do. Both reach the same aggregate, which is checked.

example:  python benchmarks/cell.py --out results/benchmarks/cell.json
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import Row, cores, interleaved, progress, result, save, table
from torch import nn
from torch.nn import functional as F
from training import images

from holdfast.training import State
from holdfast.training.loop import rashb, two_phase_rashb
from holdfast.training.messages import BALLOT, BATCH
from holdfast.training.presets import paper
from holdfast.training.train import threads
from holdfast.training.workers import Workers

DEFAULT = Path("results/benchmarks/cell.json")
VOTE, BAR = 24, 1 / 3


class Plain:
    """The same round as a loop over workers and pairs."""

    def __init__(self, task: Workers, run: Any) -> None:
        self.task, self.run = task, run
        conv = [nn.Conv2d(1, 32, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2)]
        self.module = nn.Sequential(*conv, nn.Flatten(), nn.Linear(1024, 62))
        self.model, self.t = task.start().astype(np.float64), 0
        self.aggregate = self.model

    def load(self, model: np.ndarray) -> None:
        nn.utils.vector_to_parameters(torch.from_numpy(model).float(), self.module.parameters())

    def gradient(self, x: torch.Tensor, y: torch.Tensor) -> np.ndarray:
        self.load(self.model)
        self.module.zero_grad()
        F.cross_entropy(self.module(x), y).backward()  # type: ignore[no-untyped-call]
        flat = torch.cat([p.grad.reshape(-1) for p in self.module.parameters() if p.grad is not None])
        return flat.double().numpy()

    def ball(self, rows: list[np.ndarray], k: int) -> list[int]:
        """The k rows nearest to the row with the smallest sum of k squared distances."""
        best, found = np.inf, list[int]()
        for centre in rows:
            squares = [float(np.linalg.norm(centre - row)) ** 2 for row in rows]
            nearest = sorted(range(len(rows)), key=squares.__getitem__)[:k]
            if (cost := sum(squares[j] for j in nearest)) < best:
                best, found = cost, nearest
        return found

    def loss(self, model: np.ndarray, x: torch.Tensor, y: torch.Tensor) -> float:
        self.load(model)
        with torch.no_grad():
            return float(F.cross_entropy(self.module(x), y))

    def round(self) -> None:
        run, n, f = self.run, self.run.workers, self.run.byzantine
        x, y = self.task.batch(np.arange(n), run.batch, BATCH, self.t, lie=True)
        rows = [self.gradient(x[i], y[i]) for i in range(n)]
        mean, own = np.mean(rows, axis=0), np.mean(rows[n - f :], axis=0)
        rows[n - f :] = [own - 2 * n / f * mean] * f
        inner = sum(rows[i] for i in self.ball(rows, n - f)) / n
        out = set(self.ball(rows, f))
        outer = sum(row for i, row in enumerate(rows) if i not in out) / n
        self.aggregate = inner
        if run.two_phase:
            x, y = self.task.batch(np.arange(n), VOTE, BALLOT, self.t)
            both = [self.model - run.lr * one for one in (inner, outer)]
            losses = [[self.loss(model, x[i], y[i]) for model in both] for i in range(n)]
            for pair in losses[n - f :]:
                pair.reverse()
            self.aggregate = inner if sum(a < b for a, b in losses) > n / 2 else outer
        self.model = self.model - run.lr * self.aggregate
        self.t += 1


def compared(name: str, many: int, rounds: int) -> Row:
    """One ratio; both sides start from the same model, see the same images and must go the same way."""
    run = paper(name, "Omn", 0.4, text=False, vote_batch=VOTE, probe=0, threads=many)
    run = run.changed(rounds=10**6, every=10**6, test=10)
    task = Workers(run, data=images(35 * 800))
    state = State.first(run, task)
    ours = (two_phase_rashb if run.two_phase else rashb)(run, task, state)
    plain = Plain(task, run)
    next(ours)
    plain.round()
    assert state.last is not None
    off = np.linalg.norm(run.shrink * state.last - plain.aggregate) / np.linalg.norm(plain.aggregate)
    if not off < 1e-4:
        raise SystemExit(f"{name}: the plain loop went another way, by {off:.1g} of the aggregate")
    mine, theirs = interleaved(lambda: next(ours), plain.round, rounds)
    progress(
        f"{name}, {many} threads: {1000 * mine:.0f} ms, plain {1000 * theirs:.0f} ms: {theirs / mine:.1f} times faster"
    )
    words = {
        "what": f"a round of {name} under Omn, {many} torch thread{'s' * (many > 1)}",
        "against": "a plain loop as in the authors' program",
    }
    times = {"milliseconds": round(1000 * mine, 1), "plain": round(1000 * theirs, 1)}
    return result(mine / theirs, BAR, False, **words, **times, measure="time ratio")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DEFAULT)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    found = []
    for many in sorted({1, cores()}):
        with threads(many):
            found += [compared(name, many, given.rounds) for name in ("Mean1P", "Mean2P")]
    save(given.out, found, ("holdfast", "numpy", "torch"))
    print(table(found))


if __name__ == "__main__":
    main()
