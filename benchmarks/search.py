"""How fast the optimum is proved, and how rules for many workers and little memory fare.

The exact rule against MeanwO at the size of the paper's experiments, alone and under each of its closed-form attacks;
nodes, time and gap over (n, f); some candidates against all for thousands of workers; a stream of files.

example:  python benchmarks/search.py --out results/benchmarks/search.json
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import Row, interleaved, progress, result, save, table

from holdfast import MeanExact, MeanwO, StreamCenterwO
from holdfast.rules.exact_mean import search

DEFAULT = Path("results/benchmarks/search.json")
STATUS = Path("/proc/self/status")


def attacked(kind: str, n: int, f: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Gaussian gradients with a small mean, the first f replaced as in Yi et al. 2024 (their program's formulas)."""
    X = (rng.standard_normal((n, d)) + 0.02).astype(np.float32)
    H = X[f:]
    match kind:
        case "sign flip":
            X[:f] *= -1
        case "gauss":
            X[:f] = rng.standard_normal((f, d)) * X[:f].std(axis=1, keepdims=True)
        case "omniscient":
            X[:f] = X[:f].mean(axis=0) - 2 * n / f * X.mean(axis=0)
        case "scaled variance":
            X[:f] = H.mean(axis=0) - 20 / 35 * H.std(axis=0)
        case "empire":
            X[:f] = -0.1 * H.mean(axis=0)
    return X


def exact(d: int) -> Iterator[Row]:
    """MeanExact(f=14) at n = 35: proven optimal in less than ten times the time of MeanwO, for all but Empire."""
    rng = np.random.default_rng(0)
    for kind in ("none", "sign flip", "gauss", "omniscient", "scaled variance", "empire"):
        X = attacked(kind, 35, 14, d, rng)
        ours, plain = interleaved(lambda X=X: MeanExact(14)(X), lambda X=X: MeanwO(14)(X), 5)  # type: ignore[misc]
        progress(f"{kind}: {ours * 1e3:.1f} ms against {plain * 1e3:.1f} ms")
        about = {"what": "MeanExact", "size": f"n=35 f=14 d={d}", "rows": kind}
        hard = kind == "empire"  # whose copies stand so near to the honest mean that the cap may end the search
        yield result(ours / plain, 1000.0 if hard else 10.0, False, **about, measure="time / MeanwO")
        yield result(_gap(MeanExact(14).decide(X)), 0.01 if hard else 1e-9, False, **about, measure="gap")


def _gap(decision: Any) -> float:
    return float(decision.cost / decision.bound - 1)


def sizes() -> Iterator[Row]:
    """Time and gap over (n, f), Gaussian vectors: the table of the documents."""
    rng = np.random.default_rng(1)
    for n, f in ((20, 4), (20, 8), (35, 7), (35, 14), (50, 10), (50, 20), (100, 10), (100, 20), (100, 40)):
        X = rng.standard_normal((n, 20_000), dtype=np.float32)
        D = MeanwO(f).decide(X).distances
        assert D is not None
        begin = time.perf_counter()
        found = search(D, np.ones(len(D)), f, MeanExact(f).cap)
        took = time.perf_counter() - begin
        about = {"what": "MeanExact", "size": f"n={n} f={f} d=20000", "rows": "none"}
        bar = 1.0 if (n, f) == (100, 20) else 60.0
        yield result(took, bar, False, **about, measure="search, seconds")
        yield result(float(found.nodes), MeanExact(f).cap + 128, False, **about, measure="nodes")
        yield result(found.cost / found.bound - 1, 0.01, False, **about, measure="gap")


def family(name: str, n: int, f: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Honest and lying vectors for which a random honest centre is more or less good; liars first."""
    H = rng.standard_normal((n - f, d), dtype=np.float32)
    if name == "gauss":
        B = 1.3 * rng.standard_normal((f, d), dtype=np.float32)
    elif name == "alie":
        B = H.mean(axis=0) + H.std(axis=0) + 0.01 * rng.standard_normal((f, d), dtype=np.float32)
    elif name == "hetero":
        C = 0.7 * rng.standard_normal((10, d), dtype=np.float32)
        H = C[rng.integers(10, size=n - f)] + 0.5 * H
        B = H.mean(axis=0) + 1.5 * H.std(axis=0) + 0.5 * rng.standard_normal((f, d), dtype=np.float32)
    else:  # spread: heavy tails
        H *= np.exp(0.8 * rng.standard_normal((n - f, 1), dtype=np.float32))
        B = rng.standard_normal(d, dtype=np.float32) + 0.3 * rng.standard_normal((f, d), dtype=np.float32)
    return np.vstack([B, H]).astype(np.float32)


def spread(X: np.ndarray) -> float:
    """Sum of squares around the mean."""
    return float(((X - X.mean(axis=0)).astype(np.float64) ** 2).sum())


def many(n: int, d: int) -> Iterator[Row]:
    """64 candidates: the same sets at n = 2,000; a fraction of the time at 10,000."""
    rng = np.random.default_rng(2)
    for name in ("gauss", "alie", "hetero", "spread"):
        for share in (0.2, 0.4):
            f = int(share * 2000)
            X = family(name, 2000, f, 2000, rng)
            whole = MeanwO(f).decide(X)
            some = MeanwO(f, candidates=64).decide(X, rng=rng)
            lies = [sum(i < f for i in decision.kept) for decision in (whole, some)]
            about = {"what": "64 candidates", "size": f"n=2000 f={f} d=2000", "rows": name}
            yield result(float(lies[1] - lies[0]), 0.0, False, **about, measure="more liars kept")
            ratio = spread(X[list(some.kept)]) / spread(X[list(whole.kept)])
            yield result(ratio, 1.01, False, **about, measure="cost / all centres")
    X = rng.standard_normal((n, d), dtype=np.float32)
    few, full = interleaved(
        lambda: MeanwO(n // 5, candidates=64)(X, rng=np.random.default_rng(0)), lambda: MeanwO(400)(X[:2000]), 1
    )
    progress(f"64 candidates of {n}: {few:.2f} s; all of 2000: {full:.2f} s")
    about = {"what": "64 candidates", "size": f"n={n} f={n // 5} d={d}", "rows": "none"}
    yield result(few / (full * (n / 2000) ** 2), 0.05, False, **about, measure="time / all centres, extrapolated")


def stream(files: int, d: int, f: int) -> Iterator[Row]:
    """StreamCenterwO over files, each read once, with the peak of anonymous memory."""
    rng = np.random.default_rng(3)
    with tempfile.TemporaryDirectory() as folder:
        for i in range(files):
            np.save(Path(folder, f"{i}.npy"), rng.standard_normal(d, dtype=np.float32))
        reads, peak, done = 0, 0.0, threading.Event()

        def watch() -> None:
            nonlocal peak
            while not done.wait(0.01):
                text = STATUS.read_text()
                peak = max(peak, int(text.partition("RssAnon:")[2].split()[0]) / 1024)

        def updates() -> Iterator[np.ndarray]:
            nonlocal reads
            for i in range(files):
                reads += 1
                yield np.load(Path(folder, f"{i}.npy"))

        watcher = threading.Thread(target=watch)
        watcher.start()
        begin = time.perf_counter()
        StreamCenterwO(f)(updates())
        progress(f"stream: {time.perf_counter() - begin:.1f} s, peak {peak:.0f} MB")
        done.set()
        watcher.join()
    about = {"what": "StreamCenterwO", "size": f"n={files} f={f} d={d}", "rows": "files"}
    yield result(peak, 1000.0, False, **about, measure="peak RssAnon, MB")
    yield result(reads / files, 1.0, False, **about, measure="reads of each file")


def main() -> None:
    """Measure, print the table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DEFAULT, help="where the results go (default: %(default)s)")
    parser.add_argument(
        "--only", choices=["exact", "sizes", "many", "stream"], help="one part, without writing results"
    )
    args = parser.parse_args()
    parts: dict[str, Callable[[], Iterator[Row]]] = {
        "stream": lambda: stream(1000, 1_000_000, 50),
        "exact": lambda: exact(115_646),
        "sizes": sizes,
        "many": lambda: many(10_000, 10_000),
    }
    rows = [row for name, part in parts.items() if args.only in (None, name) for row in part()]
    print(table(rows))
    if args.only is None:
        save(args.out, rows, ("numpy",))


if __name__ == "__main__":
    main()
