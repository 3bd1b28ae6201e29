"""The history of the benchmarks as a picture: a panel per benchmark, a line per measure, a point per run.

example:  python benchmarks/history.py --out results/benchmarks/history.svg
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from common import HISTORY
from matplotlib import rc_context
from matplotlib.figure import Figure


def read(history: Path) -> dict[str, list[dict[str, Any]]]:
    """The runs of each benchmark, in the order of the file."""
    found = dict[str, list[dict[str, Any]]]()
    for line in history.read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        found.setdefault(one["benchmark"], []).append(one)
    return found


def draw(runs: dict[str, list[dict[str, Any]]], out: Path) -> None:
    """All panels into one file."""
    figure = Figure(figsize=(7, 2.4 * len(runs)), layout="constrained")
    for panel, (name, some) in zip(figure.subplots(len(runs), squeeze=False)[:, 0], runs.items(), strict=True):
        for measure in dict.fromkeys(measure for one in some for measure in one["ratios"]):
            values = [one["ratios"].get(measure, float("nan")) for one in some]
            panel.plot(range(len(some)), values, marker="o", label=measure)
        panel.set(title=name, yscale="log")
        panel.set_xticks(range(len(some)), [f"{one['date']}\n{one['cores']} cores" for one in some], fontsize=7)
        panel.legend(fontsize=7)
    with rc_context({"svg.hashsalt": "holdfast"}):  # the same file every time
        figure.savefig(out, metadata={"Date": None} if out.suffix == ".svg" else None, dpi=150)


def main() -> int:
    """Draw what there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--history", type=Path, default=HISTORY)
    parser.add_argument("--out", type=Path, default=HISTORY.with_suffix(".svg"))
    given = parser.parse_args()
    if not given.history.is_file():
        print(f"{given.history} is not there; `make bench` writes it.", file=sys.stderr)
        return 1
    draw(read(given.history), given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
