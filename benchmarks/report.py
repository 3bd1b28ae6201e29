"""Put the measured ratios into the README, from the files in results/benchmarks.

example:  python benchmarks/report.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "benchmarks"
BEGIN, END = "<!-- benchmarks -->\n", "<!-- /benchmarks -->"


def spread(values: list[float], sign: str = "×") -> str:
    """The worst to the best of several measurements, as people write it."""
    low, high = f"{min(values):.2g}", f"{max(values):.2g}"
    return f"{low}{sign}" if low == high else f"{low} to {high}{sign}"


def lines(kernels: dict[str, Any], memmap: dict[str, Any]) -> list[str]:
    """A table: what, against what, and the range over sizes, libraries and kinds of rows."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for row in kernels["rows"]:
        what = "CenterwO, MeanwO" if "X.T" in row["against"] else row["what"]
        found.setdefault((what, row["against"], row["measure"]), []).append(row["value"])
    out = ["| what | against | measured |", "| --- | --- | --- |"]
    for (what, against, measure), values in found.items():
        told = f"at most {max(values):.1g}" if "error" in measure else spread(values)
        out.append(f"| {what} | {against} | {measure} {told} |")
    time, memory = (row["value"] for row in memmap["rows"])
    held = f"time ratio {time:.2g}×, {memory:.0f} MB held"
    out.append(f"| MeanwO on a 4 GB memory map | reading the cached file twice | {held} |")
    return out


def section() -> str:
    """What stands in the README between the marks."""
    kernels, memmap = (json.loads((RESULTS / f"{name}.json").read_text()) for name in ("kernels", "memmap"))
    about = (
        "Ratios, taken in one run with both sides in turn, over (n = 35, d = 115,646) and (n = 100, d = 1,000,000), "
        f"numpy and torch, honest rows and f copies, float32, {kernels['cores']} cores; `make bench` measures anew."
    )
    return "\n".join([about, "", *lines(kernels, memmap), ""])


def replaced(text: str) -> str:
    """The README with the section put in."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{section()}{END}{after}"


if __name__ == "__main__":
    readme = ROOT / "README.md"
    readme.write_text(replaced(readme.read_text()))
