"""MeanwO on a memory-mapped file that is larger than the memory it may use.

Time is compared with reading the file twice through a buffer of 64 MB, the least that a rule can do that
has to see everything before it can add anything up. The file is in the cache of the system for both.

example:  python benchmarks/memmap.py --n 40 --d 25000000 --f 10
"""

from __future__ import annotations

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from common import progress, result, save, seconds, table

from holdfast import MeanwO

DEFAULT = Path("results/benchmarks/memmap.json")
BUFFER = 64 * 2**20
STATUS = Path("/proc/self/status")


def write(path: str, n: int, d: int, f: int) -> None:
    """n Gaussian rows, of which the first f are shifted, written piece by piece."""
    rng = np.random.default_rng(0)
    with open(path, "wb") as file:
        for i in range(n):
            for s in range(0, d, 2**20):
                row = rng.standard_normal(min(2**20, d - s), dtype=np.float32)
                file.write((row + np.float32(0.5 if i < f else 0.0)).tobytes())


def read_twice(path: str) -> float:
    """Seconds that the file takes through one buffer, two times over."""
    buffer = bytearray(BUFFER)
    buffer[:] = b"\1" * BUFFER  # the system gives memory when it is first written to

    def read() -> None:
        for _ in range(2):
            with open(path, "rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass

    return seconds(read)


def anonymous() -> float:
    """Memory of this process that is no file's, in MB."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) * 1024 / 1e6


def aggregate(path: str, n: int, d: int, f: int) -> tuple[float, float]:
    """Seconds that the rule takes on the mapped file, and the peak of memory meanwhile, in MB."""
    peak = anonymous()
    with ThreadPoolExecutor(1) as pool:
        X = np.memmap(path, np.float32, "r", shape=(n, d))
        running = pool.submit(seconds, lambda: MeanwO(f)(X))
        while not running.done():
            peak = max(peak, anonymous())
            time.sleep(0.01)
        return running.result(), peak


def main() -> None:
    """Write the file, measure both in turn, print the table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=40, help="rows (default: %(default)s)")
    parser.add_argument("--d", type=int, default=25_000_000, help="numbers a row (default: %(default)s)")
    parser.add_argument("--f", type=int, default=10, help="shifted rows (default: %(default)s)")
    parser.add_argument("--dir", help="where the file is written for the time of the run (default: the temp folder)")
    parser.add_argument("--out", type=Path, default=DEFAULT, help="where the results go (default: %(default)s)")
    args = parser.parse_args()
    if not STATUS.exists():
        parser.error("memory is read from /proc, which only Linux has.")
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        path = str(Path(folder, "vectors.f4"))
        progress(f"writing {args.n * args.d * 4 / 1e9:.2f} GB")
        writer = get_context("spawn").Process(target=write, args=(path, args.n, args.d, args.f))
        writer.start()  # in a process of its own, whose memory is not counted
        writer.join()
        if writer.exitcode:
            parser.error("the file could not be written; choose a folder with room by --dir.")
        read_twice(path)  # into the cache
        reads, runs = [], []
        for _ in range(2):
            reads.append(read_twice(path))
            runs.append(aggregate(path, args.n, args.d, args.f))
            progress(f"two reads {reads[-1]:.2f} s, MeanwO {runs[-1][0]:.2f} s, peak {runs[-1][1]:.0f} MB")
    about = {"size": f"n={args.n} f={args.f} d={args.d}", "what": "MeanwO", "file MB": args.n * args.d * 4 / 1e6}
    rows = [
        result(min(run[0] for run in runs) / min(reads), 3.0, False, **about, measure="time / two reads"),
        result(max(run[1] for run in runs), 500.0, False, **about, measure="peak RssAnon, MB"),
    ]
    print(table(rows))
    save(args.out, rows, ("numpy",))


if __name__ == "__main__":
    main()
