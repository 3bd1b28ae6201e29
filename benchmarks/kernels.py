"""Speed of the rules against the limit of the machine and against peers, as ratios taken in one run.

The limit is one float32 product X @ X.T and one weighted sum w @ X in the same library: what a rule on
distances cannot do without. Both sides of a comparison may use all cores and take turns; the best time counts.

example:  python benchmarks/kernels.py --out results/benchmarks/kernels.json
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from common import Row, Work, byzfl, interleaved, progress, result, save, table

from holdfast import CWM, CWTM, CenterwO, MeanwO, arrays
from holdfast.rules.base import Stage

DEFAULT = Path("results/benchmarks/kernels.json")


class Size(NamedTuple):
    n: int
    f: int
    d: int
    rounds: int  # of comparisons with the limit
    slow: int  # of comparisons with a peer


SIZES = (Size(35, 14, 115_646, 30, 20), Size(100, 20, 1_000_000, 5, 2))
QUICK = (Size(11, 3, 2_000, 3, 3), Size(20, 4, 5_000, 3, 3))


class Comparison(NamedTuple):
    what: str
    against: str
    ours: Work
    theirs: Work
    bar: float  # at most, in times of the limit; at least, in speed-ups over a peer
    peer: bool = True


def vectors(size: Size, rows: str) -> np.ndarray:
    """Standard Gaussian rows; with "copies" the first f are one and the same vector."""
    X = np.random.default_rng(0).standard_normal((size.n, size.d), dtype=np.float32)
    if rows == "copies":
        X[: size.f] = 0.5 * X[size.f :].mean(axis=0) + np.float32(0.1)
    return X


def exact(X: np.ndarray) -> np.ndarray:
    """Squared distances by differences of float64 rows, a block of columns at a time."""
    D = np.zeros((len(X), len(X)))
    for s in range(0, X.shape[1], 4096):
        block = X[:, s : s + 4096].astype(np.float64)
        for i in range(len(X) - 1):
            apart = block[i + 1 :] - block[i]
            D[i, i + 1 :] += np.einsum("ij,ij->i", apart, apart)
    return D + D.T


def error(D: np.ndarray, true: np.ndarray) -> float:
    """The largest relative error; where the true distance is 0, anything else is infinitely wrong."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.nan_to_num(np.abs(D - true) / true, nan=0.0, posinf=np.inf).max())


def comparisons(X: Any, f: int, library: str, peers: ModuleType | None) -> Iterator[Comparison]:
    """All that is compared on one input."""
    n, numpy = len(X), library == "numpy"
    w = np.full(n, 1 / n, np.float32) if numpy else torch.full((n,), 1 / n)
    for rule in (CenterwO(f), MeanwO(f)):
        limit = "X @ X.T, w @ X"
        bar = 2.0 if numpy else 1.1  # numpy's own product is the slower one
        yield Comparison(type(rule).__name__, limit, partial(rule, X), lambda: (X @ X.T, w @ X), bar, peer=False)
    if not numpy:
        yield Comparison(
            "MeanwO on a device",
            "MeanwO of numpy",
            partial(device, MeanwO(f), X),
            partial(MeanwO(f), X.numpy()),
            1.3,
            peer=False,
        )
    if numpy:
        yield Comparison("CWTM", "np.sort", lambda: CWTM(f)(X), lambda: np.sort(X, axis=0)[f : n - f].mean(0), 1.5)
    if peers and numpy:
        yield Comparison("MeanwO", "ByzFL Krum", lambda: MeanwO(f)(X), lambda: peers.Krum(f)(X), 5.0)
    if peers and not numpy:
        yield Comparison("CWTM", "ByzFL TrMean", lambda: CWTM(f)(X), lambda: peers.TrMean(f)(X), 4.0)
    if peers:
        yield Comparison("CWM", "ByzFL Median", lambda: CWM()(X), lambda: peers.Median()(X), 4.0)


def device(rule: Stage, X: torch.Tensor) -> object:
    """The rule with torch's own arithmetic, as for tensors of an accelerator: without numpy's views."""
    with patch.object(arrays, "viewable", frozenset):
        return rule(X)


def measure(size: Size, rows: str, peers: ModuleType | None) -> Iterator[Row]:
    """The rows of the table for one size and one kind of vectors."""
    X = vectors(size, rows)
    true = exact(X)
    for library, given in (("numpy", X), ("torch", torch.from_numpy(X))):
        about = {"size": f"n={size.n} f={size.f} d={size.d}", "library": library, "rows": rows}
        for c in comparisons(given, size.f, library, peers):
            names, unit = {**about, "what": c.what, "against": c.against}, "speed-up" if c.peer else "time ratio"
            try:
                ours, theirs = interleaved(c.ours, c.theirs, size.slow if c.peer else size.rounds)
            except RuntimeError as refusal:
                progress(f"{' '.join(names.values())}: no time, since it fails: {refusal}")
                yield result(None, c.bar, c.peer, **names, measure=unit)
                continue
            progress(f"{' '.join(names.values())}: {ours * 1e3:.1f} ms against {theirs * 1e3:.1f} ms")
            yield result(theirs / ours if c.peer else ours / theirs, c.bar, c.peer, **names, measure=unit)
        D = MeanwO(size.f).decide(given).distances
        names = {**about, "what": "distances", "against": "exact float64"}
        yield result(np.inf if D is None else error(D, true), 1e-6, False, **names, measure="relative error")


def main() -> None:
    """Measure, print the table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help=f"where the results go (default: {DEFAULT}; with --quick: nowhere)")
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes, to see in seconds whether it runs; no bar is meant for them"
    )
    args = parser.parse_args()
    peers = byzfl()
    sizes = QUICK if args.quick else SIZES
    rows = [row for size in sizes for kind in ("honest", "copies") for row in measure(size, kind, peers)]
    print(table(rows))
    if out := args.out or (None if args.quick else DEFAULT):
        save(out, rows, ("numpy", "torch", "byzfl"))


if __name__ == "__main__":
    main()
