"""What of holdfast computes the same as a name of ByzFL, Flower, krum, TorchJD or ByzPy: both texts are run.

A round has 7 to 13 workers, of which f < n/2 lie, and 1 to 40 numbers; in every second one the liars stand apart.
Differences are in units of the round, the root mean square distance to the mean; answers agree if they differ by at
most 1e-9 in float64 and 1e-4 in float32. Flower's strategies run in Flower's own loop, and RobustStrategy beside them.

example:  python benchmarks/coming_from.py --out results/benchmarks/coming_from.json
"""

from __future__ import annotations

import argparse
import json
import logging
from dataclasses import dataclass, replace
from math import floor, sqrt
from pathlib import Path
from typing import Any

import flwr.serverapp.strategy as stock
import numpy as np
import torch
from common import Row, byzfl, progress, save, table
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from readings import LIBRARIES, Lines, exact, names_of

from holdfast.attacks import ATTACKS, View
from holdfast.engines.flower import LocalGrid, RobustStrategy, make_record, read_model
from holdfast.rules import CATALOGUE, CWTM, CenteredClipping

DEFAULT = Path("results/benchmarks/coming_from.json")
SAME = {"float64": 1e-9, "float32": 1e-4}
WORKERS, LIARS, SIZE, NEAR = (
    11,
    2,
    30,
    0.01,
)  # of Flower's rounds; 100 in float32 has steps of 1e-5, of a spread of 0.05
Array = np.ndarray

AGGREGATORS: Lines = (
    ("Average()(X)", "Average()(X)", ""),
    ("Median()(X)", "CWM()(X)", ""),
    ("TrMean(f)(X)", "CWTM(f)(X)", ""),
    ("Meamed(f)(X)", "MeaMed(f)(X)", ""),
    ("Krum(f)(X)", "Krum(f, others='n-f-1')(X)", "`Krum(f)` has the n - f - 2 neighbours of Blanchard et al."),
    ("MultiKrum(f)(X)", "MultiKrum(f, others='n-f-1')(X)", "as Krum; both average n - f"),
    ("MoNNA(f, idx=0)(X)", "MoNNA(f, pivot=0)(X)", ""),
    ("MDA(f)(X)", "MDA(f)(X)", ""),
    ("MDA(f)(T)", "MDA(f)(T)", "T = X, rounded to whole numbers: of sets that tie, both take the first"),
    (
        "GeometricMedian(nu=0.1, T=3)(X)",
        "GeometricMedian(iterations=3, floor=0.1)(X)",
        "theirs starts at the origin, ours at the mean",
    ),
    ("GeometricMedian(nu=0.1, T=3)(X)", "GeometricMedian(iterations=3, floor=0.1, begin='origin')(X)", ""),
    ("GeometricMedian(nu=1e-9, T=3000)(X)", "GeometricMedian()(X)", "ours stops by itself, at any scale"),
    ("CenteredClipping(L=3, tau=2.0)(X)", "CenteredClipping(tau=2.0, iterations=3)(X)", "the first call"),
    (
        "again(CenteredClipping(tau=2.0), X)",
        "CenteredClipping(tau=2.0)(X, start=last)",
        "theirs remembers, ours is told",
    ),
    ("SMEA(f)(X)", "SMEA(f)(X)", "theirs: one power iteration from a random start; ours: eigenvalues"),
    ("exact(SMEA(f), X)", "SMEA(f)(X)", "theirs, begun at the eigenvector"),
    (
        "CAF(f)(X)",
        "CAF(f, over='all')(X)",
        "one power iteration from a random start, as SMEA; and the largest deviation is that of all vectors",
    ),
    ("exact(CAF(f), X)", "CAF(f, over='all')(X)", "theirs, begun at the eigenvector"),
    ("exact(CAF(f), X)", "CAF(f)(X)", "ours: the largest deviation of vectors that still have weight"),
)
STAGES: Lines = (
    ("TrMean(f)(NNM(f)(X))", "(NNM(f) >> CWTM(f))(X)", ""),
    ("Median()(Bucketing(s=2)(X))", "(Bucketing(s=2) >> CWM())(X, rng=rng)", "given the same permutation"),
    ("Median()(Clipping(c=2.0)(X))", "(Clip(tau=2.0) >> CWM())(X)", "theirs changes X"),
    ("TrMean(f)(ARC(f)(X))", "(ARC(f) >> CWTM(f))(X)", "theirs changes X"),
)
ATTACKED: Lines = (
    ("SignFlipping()(honest)", "Empire(scale=1.0)(seen)[0]", "minus the honest mean; `SignFlip()` is minus one's own"),
    ("InnerProductManipulation(tau=2.0)(honest)", "Empire(scale=2.0)(seen)[0]", ""),
    (
        "ALittleIsEnough(tau=1.5)(honest)",
        "ALIE(z=-1.5 * sqrt(h / (h - 1)))(seen)[0]",
        "theirs adds, over h - 1; h honest",
    ),
    ("Mimic(epsilon=2)(honest)", "Mimic(worker=2)(seen)[0]", "`Mimic()` chooses the worker"),
    ("labels.sub(9).mul(-1)", "LabelFlip().labels(labels.numpy(), 10)", "in their Client, by LabelFlipping=True"),
)
SEARCHES = tuple(  # ByzFL's attack, its rule, ours, our rule
    (f"Optimal_{theirs}({rule}, f=f)(honest)", f"PGA(along={along!r}, thorough=True)(seen)", ours)
    for theirs, along in (("InnerProductManipulation", "mean"), ("ALittleIsEnough", "std"))
    for rule, ours in (
        ("agg=TrMean(f), pre_agg_list=[]", "CWTM(f)"),
        ("agg=Median(), pre_agg_list=[NNM(f)]", "NNM(f) >> CWM()"),
        ("agg=Krum(f), pre_agg_list=[]", "Krum(f, others='n-f-1')"),
    )
)
HABITS: Lines = (
    ("one of nine sends NaN", "Krum(2)(bad)", "Krum(2, others='n-f-1')(bad)"),
    ("", "Median()(bad)", "CWM()(bad)"),
    ("", "GeometricMedian()(bad)", "GeometricMedian()(bad)"),
    ("", "TrMean(2)(bad)", "CWTM(2)(bad)"),
    ("one sends inf", "CenteredClipping()(infinite)", "CenteredClipping(100.0)(infinite)"),
    ("all send the same", "SMEA(2)(ones)", "SMEA(2)(ones)"),
    ("", "CAF(2)(ones)", "CAF(2)(ones)"),
    ("the same input, 20 times", "answers(SMEA(2), X)", "answers(SMEA(2), X)"),
    ("", "answers(CAF(2), X)", "answers(CAF(2), X)"),
    ("is X what it was?", "whole(Clipping(0.5), X)", "whole(Clip(0.5) >> Average(), X)"),
    ("", "whole(ARC(2), X)", "whole(ARC(2) >> Average(), X)"),
    ("tensors of float64", "Average()(wide).dtype", "Average()(wide).dtype"),
    ("a list of state_dicts", "Average()(states)", "Average()(states)['w']"),
    ("f = 5 of 9", "TrMean(5)(X)", "CWTM(5)(X)"),
    ("", "NNM(5)(X)", "(NNM(5) >> Average())(X)"),
    ("a start of one's own", "CenteredClipping(m=X[0])(X)", "CenteredClipping(100.0)(X, start=X[0])"),
)
STRATEGIES: Lines = (
    ("FedAvg()", "Average()", "weighted by num-examples"),
    ("FedMedian()", "CWM()", ""),
    ("FedTrimmedAvg(beta=(f + 0.5) / n)", "CWTM(f)", "trims int(beta · n) on each side"),
    ("Krum(num_malicious_nodes=f)", "Krum(f)", "distances of whole models, by products in their own precision"),
    (
        "MultiKrum(num_malicious_nodes=f, num_nodes_to_select=n - f)",
        "MultiKrum(f)",
        "selects 1 if not told; weighted by num-examples; distances as Krum's",
    ),
    ("Bulyan(num_malicious_nodes=f)", "Bulyan(f, picks='at once')", "picks n - 2f at once; distances as Krum's"),
    ("Bulyan(num_malicious_nodes=f)", "Bulyan(f)", "ours picks one after the other, as in the paper"),
)
OURS: dict[str, Any] = {**CATALOGUE, **ATTACKS, "sqrt": sqrt}


class Given(np.random.Generator):
    """A generator whose permutation somebody else drew."""

    def __init__(self, order: Array) -> None:
        super().__init__(np.random.PCG64(0))
        self.order = order

    def permutation(self, *_: Any, **__: Any) -> Any:
        return self.order


@dataclass(frozen=True, eq=False)
class Round:
    """The vectors of one round; the last f lie."""

    X: Array
    f: int
    seed: int

    def names(self, dtype: str, *, tensors: bool = False) -> dict[str, Any]:
        """What the texts speak of: arrays of float64 or tensors of float32; or tensors of both."""
        array = dtype == "float64" and not tensors
        X: Any = self.X.copy() if array else torch.from_numpy(self.X.astype(dtype))
        n, h = len(X), len(X) - self.f
        seen = View(honest=self.X[:h], own=self.X[h:], rule=CWTM(self.f), f=self.f)
        last = CenteredClipping(2.0)(X)
        counts = {"f": self.f, "h": h, "n": n, "few": (n - 3) // 4, "many": n - 4 - self.seed % 3}
        more = {"rng": Given(self.order(dtype)), "labels": torch.arange(10), "again": again, "exact": exact}
        return {"X": X, "T": X.round(), "honest": X[:h], "seen": seen, "last": last, **counts, **more}

    def order(self, dtype: str) -> Array:
        """The permutation that the peer's global generator will draw."""
        seeded(self.seed)
        return np.random.permutation(len(self.X)) if dtype == "float64" else torch.randperm(len(self.X)).numpy()  # noqa: NPY002


def rounds(count: int) -> list[Round]:
    rng, out = np.random.default_rng(0), []
    for seed in range(count):
        n, d = int(rng.integers(7, 14)), int(rng.integers(1, 41))
        f = int(rng.integers(1, (n - 1) // 2 + 1))
        X = rng.normal(size=(n, d)) + rng.normal(size=d)
        if seed % 2:
            X[-f:] += 10 * rng.normal(size=d)
        out.append(Round(X, f, seed))
    return out


def spread(X: Array) -> float:
    """The root mean square distance to the mean."""
    return float(np.sqrt(np.square(X - X.mean(axis=0)).sum(axis=1).mean()))


def numbers(answer: Any) -> Array:
    return np.asarray(answer, dtype=float)


def difference(a: Any, b: Any, unit: float) -> float:
    off = np.inf if a is None or b is None else np.abs(numbers(a) - numbers(b)).max() / unit
    return float(off) if np.isfinite(off) else float("inf")


def seeded(seed: int) -> None:
    np.random.seed(seed)  # noqa: NPY002 - what the peer draws from
    torch.manual_seed(seed)


def again(call: Any, X: Any) -> Any:
    call(X)
    return call(X)


def answers(call: Any, X: Array) -> str:
    found = len({numbers(call(X)).tobytes() for _ in range(20)})
    return "1 answer" if found == 1 else f"{found} answers"


def whole(call: Any, X: Array) -> str:
    given = X.copy()
    call(given)
    return "yes" if np.array_equal(given, X) else "no"


def compared(lines: Lines, peer: dict[str, Any], count: int, *, tensors: bool = False) -> list[Row]:
    """How often both texts give the same, on arrays of float64 and on tensors of float32; or on tensors of both."""
    out = []
    for theirs, ours, note in lines:
        tries = count // 4 if any(name in theirs for name in ("MDA", "SMEA", "CAF", "Brute", "3000")) else count
        row: Row = {"peer": theirs, "holdfast": ours, "rounds": tries}
        for dtype, limit in SAME.items():
            offs = []
            for one in rounds(tries):
                first = eval(ours, OURS, one.names(dtype, tensors=tensors))
                names = one.names(dtype, tensors=tensors)  # again, since the peer may change X
                seeded(one.seed)
                offs.append(difference(eval(theirs, peer, names), first, spread(one.X)))
            row |= {dtype: sum(off <= limit for off in offs), f"{dtype} off": float(f"{max(offs):.2g}")}
        progress(f"{theirs}: {row['float64']} and {row['float32']} of {tries}")
        out.append(row | {"note": note})
    return out


def searches(peer: dict[str, Any], count: int) -> list[Row]:
    """The attacks that search: how far each moves the answer of a rule from the honest mean."""
    out = []
    for theirs, ours, text in SEARCHES:
        ratios = []
        for one in rounds(count):
            names, honest, rule = one.names("float64"), one.X[: -one.f], eval(text, OURS, {"f": one.f})
            names["seen"] = replace(names["seen"], rule=rule)
            rows = np.tile(eval(theirs, peer, names), (one.f, 1)), eval(ours, OURS, names)
            harm = [np.linalg.norm(rule(np.vstack([honest, lie])) - honest.mean(axis=0)) for lie in rows]
            ratios.append(float(harm[1] / harm[0]))
        least, middle = (float(f"{q:.3g}") for q in np.quantile(ratios, [0, 0.5]))  # some of theirs do no harm
        row: Row = {"peer": theirs, "holdfast": ours, "rule": text, "rounds": count}
        row["at least"] = sum(ratio >= 1 - SAME["float64"] for ratio in ratios)
        out.append(row | {"least": least, "median": middle})
        progress(str(out[-1]))
    return out


def outcome(text: str, names: dict[str, Any], given: dict[str, Any]) -> str:
    """What became of a call, in a word or two."""
    try:
        seeded(0)
        found = eval(text, names, given)
    except Exception as error:
        return type(error).__name__
    if found is None or isinstance(found, str | torch.dtype):
        return str(found).removeprefix("torch.")
    return "finite" if bool(np.isfinite(numbers(found)).all()) else "not finite"


def habits(peer: dict[str, Any]) -> list[Row]:
    """What both do with input that is not usual."""
    X = np.random.default_rng(1).normal(1, 0.1, size=(9, 6))
    bad, infinite = X.copy(), X.copy()
    bad[3, 2], infinite[3] = np.nan, np.inf
    given = {"X": X, "bad": bad, "infinite": infinite, "ones": np.ones((9, 6)), "wide": torch.from_numpy(X)}
    given |= {"states": [{"w": row} for row in X], "answers": answers, "whole": whole}
    out = []
    for what, theirs, ours in HABITS:
        found = {"byzfl": outcome(theirs, peer, given), "holdfast": outcome(ours, OURS, given)}
        out.append({"what": what, "theirs": theirs, "ours": ours, **found})
    return out


def floors() -> Row:
    """Of all f < n/2, n ≤ 100: how often a number of vectors that is computed in floats is one less than meant.

    FedTrimmedAvg(beta=f/n) trims int(beta · n) on each side; the authors' program keeps floor((1 - f/n) · n).
    """
    pairs = [(n, f) for n in range(3, 101) for f in range(1, (n - 1) // 2 + 1)]
    trimmed = [(n, f) for n, f in pairs if int(f / n * n) != f]
    kept = [(n, f) for n, f in pairs if floor((1 - f / n) * n) != n - f]
    firsts = {
        name: "n = {}, f = {}".format(*wrong[0]) for name, wrong in (("first trimmed", trimmed), ("first kept", kept))
    }
    return {"pairs": len(pairs), "trimmed": len(trimmed), "kept": len(kept), **firsts}


def clients(models: Array, examples: Array) -> ClientApp:
    """Clients that reply with a given model each."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        at = int(context.node_config["partition-id"])
        metrics = MetricRecord({"num-examples": int(examples[at])})
        return Message(RecordDict({"arrays": make_record({"w": models[at]}), "metrics": metrics}), reply_to=message)

    return app


def after(strategy: Any, models: Array, examples: Array, first: Array) -> Array:
    """The model after one round; nobody evaluates."""
    strategy.fraction_evaluate = 0.0
    found = strategy.start(LocalGrid(clients(models, examples), len(models)), make_record({"w": first}), num_rounds=1)
    return read_model(found.arrays)["w"]


def flower(count: int) -> list[Row]:
    """Every strategy of Flower that has a rule: equal example counts, unequal ones, float32 with a common offset."""
    given, out = {"n": WORKERS, "f": LIARS}, []
    settings = {"equal": (np.float64, 0.0, 10), "counts": (np.float64, 0.0, 1), "float32": (np.float32, 100.0, 10)}
    for theirs, ours, note in STRATEGIES:
        row: Row = {"peer": theirs, "holdfast": f"RobustStrategy({ours})", "rounds": count}
        for setting, (dtype, offset, least) in settings.items():
            offs, exact, limit = [], 0, NEAR if setting == "float32" else SAME["float64"]
            for seed in range(count):
                rng = np.random.default_rng(seed)
                first = rng.normal(size=SIZE) + offset
                models = (first + 0.01 * rng.normal(size=(WORKERS, SIZE))).astype(dtype)
                round_ = models, rng.integers(least, 11, WORKERS), first.astype(dtype)
                rule, wide = eval(ours, OURS, given), models.astype(float)
                mine = after(RobustStrategy(rule, certify=False), *round_)
                offs.append(difference(after(eval(theirs, vars(stock), given), *round_), mine, spread(wide)))
                exact += difference(mine, rule(wide), spread(wide)) <= limit
            found = {"": sum(off <= limit for off in offs), " off": float(f"{max(offs):.2g}"), " exact": exact}
            row |= {setting + name: value for name, value in found.items()}
        progress(f"{theirs}: {[row[setting] for setting in settings]} of {count}")
        out.append(row | {"note": note})
    return out


def main(out: Path, count: int) -> None:
    """All peers."""
    logging.disable(logging.CRITICAL)
    found = byzfl()
    if found is None:
        raise SystemExit("nothing was written")
    peer = dict(vars(found))
    with np.errstate(all="ignore"):
        rows = compared(AGGREGATORS, peer, count)
        more: dict[str, Any] = {
            "stages": compared(STAGES, peer, count),
            "attacks": compared(ATTACKED, peer, count),
            "searches": searches(peer, count),
            "habits": habits(peer),
            "flower": flower(count // 10),
            **{name: compared(lines, names_of(name), count, tensors=True) for name, (lines, *_) in LIBRARIES.items()},
            "floors": floors(),
        }
    save(out, rows, ("holdfast", "byzfl", "flwr", *LIBRARIES, "numpy", "torch"))
    told = json.loads(out.read_text())
    del told["cores"]  # nothing here is a time
    out.write_text(json.dumps(told | more, indent=1, ensure_ascii=False) + "\n")
    print(table(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DEFAULT)
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.parse_args()
    main(given.out, given.rounds)
