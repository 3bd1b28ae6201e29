"""What weights cost: rules with sample counts against the same rules without, in turn, the best time of each.

The counts are between 20 and 2,000 and capped, so they have no small common unit, which is the slow case.

example:  python benchmarks/weighted_cost.py
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import interleaved, progress, result, save, table

from holdfast import CWM, CWTM, PTM, CenterwO, MeanwO, cap

DEFAULT = Path("results/benchmarks/weighted_cost.json")
COORDINATES = ("CWTM", "CWM")
BARS = {True: 1.6, False: 1.1}  # of rules on coordinates, which sort values with their weights, and of the others


def main() -> None:
    """Measure, print the table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=35, help="workers (default: %(default)s)")
    parser.add_argument("--f", type=int, default=14, help="of which may be Byzantine (default: %(default)s)")
    parser.add_argument("--d", type=int, default=115_646, help="numbers of an update (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=60, help="times that each is run (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=DEFAULT, help="where the results go (default: %(default)s)")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.standard_normal((args.n, args.d), dtype=np.float32)
    counts = cap(rng.integers(20, 2001, args.n), args.f)
    rules: list[Any] = [MeanwO(args.f), CenterwO(args.f), PTM(args.f), CWTM(args.f), CWM()]
    rows = []
    for rule in rules:
        name = type(rule).__name__
        ours, theirs = interleaved(partial(rule, X, weights=counts), partial(rule, X), args.rounds)
        progress(f"{rule!r}: {ours * 1e3:.1f} ms with weights, {theirs * 1e3:.1f} ms without")
        about = {"size": f"n={args.n} f={args.f} d={args.d}", "what": name, "against": "without weights"}
        rows.append(result(ours / theirs, BARS[name in COORDINATES], False, **about, measure="time ratio"))
    print(table(rows))
    save(args.out, rows, ("numpy",))


if __name__ == "__main__":
    main()
