"""How much longer a hostile round takes than an honest one, for every rule without a search.

Honest vectors are Gaussian, in float32. Hostile rounds replace f of them, or all: Byzantine workers at 3e38, one huge
vector, near-copies that have to be measured again, vectors of 1e-30, and subnormal numbers. The processor
times of one run are compared with each other, the best of several calls each, so that other work on the machine does
not matter. Set OPENBLAS_NUM_THREADS=1, since threads that wait count as well.

example:  python benchmarks/hostile_time.py --out results/benchmarks/hostile_time.json
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import Row, Work, progress, result, save, table

from holdfast import (
    ARC,
    CAF,
    CGE,
    CWM,
    CWTM,
    NNM,
    Average,
    Bulyan,
    CenteredClipping,
    CenterwO,
    Clip,
    DnC,
    GeometricMedian,
    Krum,
    MeaMed,
    MeanwO,
    Medoid,
    MoNNA,
    MultiKrum,
    NearestTo,
    NormBoundedMean,
    OuterCenter,
    OuterMean,
)

DEFAULT = Path("results/benchmarks/hostile_time.json")
BAR = 5.0  # times an honest round


def catalogue(f: int) -> list[Any]:
    """Every rule without a search, and a chain for each stage."""
    plain = [Average(), CenterwO(f), MeanwO(f), OuterCenter(f), OuterMean(f), Krum(f), MultiKrum(f)]
    near = [GeometricMedian(), Medoid(), CGE(f), MoNNA(f, 29), NearestTo(CWTM(f)), DnC(f), CAF(f), Bulyan(f)]
    columns = [CWM(), CWTM(f), MeaMed(f)]
    clipped = [CenteredClipping(tau=1.0), CenteredClipping(tau=1.0, iterations=3), NormBoundedMean(tau=1.0)]
    chains = [Clip(tau=1.0) >> MeanwO(f), ARC(f) >> MeanwO(f), NNM(f) >> CWTM(f), NNM(f) >> GeometricMedian()]
    return [*plain, *near, *columns, *clipped, *chains]


def rounds(n: int, f: int, d: int) -> dict[str, np.ndarray]:
    """The honest round first, then the hostile ones."""
    rng = np.random.default_rng(0)
    honest = rng.standard_normal((n, d)).astype(np.float32)
    out = {"honest": honest}
    for name in ("3e38", "one huge", "near-copies"):
        X = honest.copy()
        match name:
            case "3e38":
                X[:f] = 3e38 * np.sign(X[:f])
            case "one huge":
                X[0] = 3e38
            case "near-copies":  # clusters within a cluster: each level of repair settles one
                X[:f] = X[f] + 1e-3 * rng.standard_normal(d) * (np.arange(f) % 2)[:, None]
                X[:f] += 1e-6 * rng.standard_normal((f, d)).astype(np.float32)
        out[name] = X
    tiny = honest.copy()
    tiny[:f] *= np.float32(1e-40)
    return out | {"1e-30": honest * np.float32(1e-30), "f subnormal": tiny, "subnormal": honest * np.float32(1e-40)}


def processor_seconds(work: Work) -> float:
    """What one call takes of all cores together."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def measured(n: int, f: int, d: int, calls: int) -> Iterator[Row]:
    """For each rule the ratio of every hostile round to the honest one, taken in turn."""
    given = rounds(n, f, d)
    for rule in catalogue(f):
        times: dict[str, list[float]] = {name: [] for name in given}
        for _ in range(calls + 1):
            for name, X in given.items():
                rng = np.random.default_rng(0) if rule.random else None
                times[name].append(processor_seconds(lambda X=X, rng=rng, rule=rule: rule(X, rng=rng)))  # type: ignore[misc]
        best = {name: min(taken[1:]) for name, taken in times.items()}  # the first call warms up
        progress(f"{rule!r}: honest {best['honest'] * 1e3:.1f} ms")
        for name in list(given)[1:]:
            about = {"rule": repr(rule), "size": f"n={n} f={f} d={d}", "round": name}
            yield result(best[name] / best["honest"], BAR, False, **about, measure="processor time / honest")


def main() -> None:
    """Measure, print the table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DEFAULT, help="where the results go (default: %(default)s)")
    parser.add_argument("--d", type=int, default=100_000, help="coordinates (default: %(default)s)")
    parser.add_argument("--calls", type=int, default=5, help="calls of which the best counts (default: %(default)s)")
    args = parser.parse_args()
    rows = list(measured(30, 6, args.d, args.calls))
    print(table(rows))
    save(args.out, rows, ("numpy",))


if __name__ == "__main__":
    main()
