"""Which flipped bits does the ledger find, how soon, and how often does it name a rank that is well?

Six ranks train an MLP on MNIST by MeanwO(f=1) for 10,000 honest steps. The last rank's gradient is computed a second
time with one flipped bit, in one number of the gradient, or in one weight while the gradient is computed. Both are
decided, as the engine does, and read as the ledger reads them: a rank is named if it is dropped, or far. All this is
one process: the ranks of the engine make the same decision (tests/test_bitflips.py), at a hundred times the price. The
model goes on from the honest answer.

example:  python benchmarks/bitflips.py --out results/benchmarks/bitflips.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch
from common import progress
from torch import Tensor
from torch.nn import functional as F

from holdfast import Decision, MeanwO
from holdfast.data import load
from holdfast.engines.lines import named
from holdfast.training.gradients import Gradients
from holdfast.training.models import build

HERE = Path(__file__).resolve().parent.parent
RANKS, BATCH, LR, BETA = 6, 16, 0.1, 0.9
RULE, LAST = MeanwO(f=1), RANKS - 1
EXPONENT, MANTISSA = range(23, 31), range(23)
PLACES = ("gradient", "weight")
FACTORS = (5, 30, 100)  # times the middle distance: from where a rank is named; the ledger writes from the first on
STREAMS = {10: 1, 100: 4, 1000: 30}  # one flip in so many steps: how often it is tried, so that flips are not few
HARMS = (0.01, 0.1, 1.0)  # how far the plain mean moves, in its own lengths


class Flip(NamedTuple):
    """A flipped bit, the factor that the ledger has for the rank, the harm to a plain mean, and what the rule did."""

    place: str
    bit: int
    factor: float
    harm: float
    kept: bool


class Ranks:
    """All ranks of one training: their images, the model, their gradients."""

    def __init__(self, seed: int) -> None:
        data = load("mnist-5k")
        order = np.random.default_rng(0).permutation(len(data.labels))[1000:]
        self.x = torch.from_numpy(data.images.astype(np.float32) / 255)[:, None]
        self.y = torch.from_numpy(data.labels.astype(np.int64))
        self.own = [order[rank::RANKS] for rank in range(RANKS)]
        self.net = build("mlp", (1, 28, 28), 10, seed=seed)
        self.parameters = [p.detach() for p in self.net.parameters()]
        self.gradients, self.rng = Gradients(self.net, F.cross_entropy), np.random.default_rng(seed)
        self.size = self.gradients.size

    def draw(self) -> Tensor:
        """The gradients of all ranks on the next images."""
        self.at = torch.from_numpy(np.stack([self.rng.choice(own, BATCH) for own in self.own]))
        out = torch.empty(RANKS, self.size)
        self.gradients(self.x[self.at], self.y[self.at], out)
        return out

    def flipped(self, place: str, bit: int, honest: Tensor, rng: np.random.Generator) -> Tensor:
        """The last rank's gradient with a flipped bit."""
        where = int(rng.integers(self.size))
        if place == "gradient":
            out = honest[LAST].clone()
            flip(out, where, bit)
            return out
        for p in self.parameters:
            if where < p.numel():
                break
            where -= p.numel()
        flip(p.view(-1), where, bit)
        last, out = self.at[LAST:], torch.empty(1, self.size)
        self.gradients(self.x[last], self.y[last], out)
        flip(p.view(-1), where, bit)  # back
        return out[0]

    def move(self, answer: Tensor) -> None:
        """A step of all ranks."""
        parts = torch.split(answer, [p.numel() for p in self.parameters])
        for p, part in zip(self.parameters, parts, strict=True):
            p -= LR * part.view_as(p)


def flip(numbers: Tensor, where: int, bit: int) -> None:
    """Flip a bit of one number of float32; bit 31 is the sign."""
    numbers.view(torch.int32)[where] ^= 1 << bit if bit < 31 else -(1 << 31)


def factor(X: Tensor) -> tuple[dict[int, float], Decision]:
    """Who is in the ledger's line, with its factor (infinite if dropped), and the decision."""
    decision = RULE.decide(X)
    line = named(decision, [str(rank) for rank in range(RANKS)])
    found = {int(rank): float(times) for rank, times in line["far"].items()}
    return found | dict.fromkeys(map(int, line["dropped"]), float("inf")), decision


def harm(honest: Tensor, row: Tensor) -> float:
    """How far the plain mean is moved by the flip, in its own lengths; infinite if it is not finite."""
    moved = float((row.double() - honest[LAST].double()).norm()) / RANKS
    return moved / float(honest.double().mean(dim=0).norm()) if np.isfinite(moved) else float("inf")


def bits(ranks: Ranks, honest: Tensor, rng: np.random.Generator) -> Iterator[Flip]:
    """Every bit in every place once."""
    for place in PLACES:
        for bit in range(32):
            row = ranks.flipped(place, bit, honest, rng)
            found, decision = factor(torch.cat([honest[:LAST], row[None]]))
            yield Flip(place, bit, found.get(LAST, 0.0), harm(honest, row), LAST in decision.kept)


def main(out: Path, steps: int, every: int) -> None:
    """One training, and what is read from it."""
    torch.set_num_threads(1)
    ranks, rng = Ranks(seed=0), np.random.default_rng(1)
    alarms = {way: dict.fromkeys(FACTORS, 0) for way in ("gradients", "momenta", "last rank")}
    tenths = {way: [0] * 10 for way in alarms}
    largest = dict.fromkeys(alarms, 0.0)
    streams = [
        (kind, rate, s) for kind in ("exponent", "mantissa") for rate, many in STREAMS.items() for s in range(many)
    ]
    flips: dict[Any, list[tuple[int, float]]] = {stream: [] for stream in streams}
    single, zeros = list[Flip](), list[float]()
    momenta = torch.zeros(RANKS, ranks.size)
    for step in range(steps):
        honest = ranks.draw()
        momenta = torch.lerp(honest, momenta, BETA) if step else honest.clone()
        found, decision = factor(honest)
        last = {LAST: found.get(LAST, 0.0)}
        for way, told in {"gradients": found, "momenta": factor(momenta)[0], "last rank": last}.items():
            most = max(told.values(), default=0.0)
            largest[way] = max(largest[way], most)
            tenths[way][10 * step // steps] += most > FACTORS[0]
            for least in FACTORS:
                alarms[way][least] += most > least
        for stream in streams:
            kind, rate, _ = stream
            if rng.random() < 1 / rate:
                bit = int(rng.choice(EXPONENT if kind == "exponent" else MANTISSA))
                row = ranks.flipped(PLACES[int(rng.integers(2))], bit, honest, rng)
                flips[stream].append((step, factor(torch.cat([honest[:LAST], row[None]]))[0].get(LAST, 0.0)))
        if step % every == 0:
            single += bits(ranks, honest, rng)
            zeros.append(float((honest[LAST] == 0).float().mean()))
        ranks.move(decision.value)
        if step % (steps // 10) == 0:
            progress(f"step {step} of {steps}: {alarms}")
    results = told_of(steps, alarms, tenths, largest, flips, single) | {"zeros": round(sum(zeros) / len(zeros), 3)}
    out.write_text(json.dumps(results, indent=1) + "\n")


def told_of(steps: int, alarms: Any, tenths: Any, largest: Any, flips: Any, single: list[Flip]) -> dict[str, Any]:
    """The results, as JSON."""
    rows = []
    for kind in ("exponent", "mantissa"):
        for rate in STREAMS:
            own = [made for stream, made in flips.items() if stream[:2] == (kind, rate)]
            every = [times for made in own for _, times in made]
            row: dict[str, Any] = {"bits": kind, "one flip in": rate, "steps": steps * len(own), "flips": len(every)}
            for least in FACTORS:
                row[f"named at {least}"] = count = sum(times > least for times in every)
                row[f"steps until named at {least}"] = round(row["steps"] / count) if count else None
            rows.append(row)
    places: dict[str, Any] = {}
    for place in PLACES:
        of_bit = [[one for one in single if (one.place, one.bit) == (place, bit)] for bit in range(32)]
        places[place] = {
            **{
                f"named at {least}": [sum(one.factor > least for one in of) / len(of) for of in of_bit]
                for least in FACTORS
            },
            "harm": [min(median(one.harm for one in of), 1e30) for of in of_bit],
        }
    harms = []
    for low, high in zip((0.0, *HARMS), (*HARMS, float("inf")), strict=True):
        of = [one for one in single if low <= one.harm and (one.harm < high or high == float("inf"))]
        harms.append(
            {"from": low, "to": None if high == float("inf") else high, "flips": len(of)}
            | {f"named at {least}": sum(one.factor > least for one in of) for least in FACTORS}
            | {"kept": sum(one.kept for one in of)}
        )
    return {
        "steps": steps,
        "ranks": RANKS,
        "rule": repr(RULE),
        "parameters": sum(p.numel() for p in build("mlp", (1, 28, 28), 10, seed=0).parameters()),
        "honest": {
            way: {
                **{f"false alarms at {least}": count for least, count in alarms[way].items()},
                "false alarms by tenth of the training": tenths[way],
                "largest factor": float(f"{largest[way]:.3g}"),
            }
            for way in alarms
        },
        "detection": rows,
        "bits": places,
        "harm": harms,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "benchmarks" / "bitflips.json")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument(
        "--every", type=int, default=25, help="how often every bit is tried once (default: %(default)s steps)"
    )
    given = parser.parse_args()
    main(given.out, given.steps, given.every)
