"""Tables and a picture of what rules promise, beside what a search found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.guarantees.bounds import bounds, everyone, least, number
from holdfast.guarantees.criteria import CRITERIA, SPREADS
from holdfast.report.plots import COLOURS, DASHES, MARKERS, blank, save

Row = dict[str, Any]


def constants(n: int, f: int) -> str:
    """All rules and criteria for one n and f, in Markdown."""
    out = [f"| n = {n}, f = {f} | {' | '.join(CRITERIA.values())} |", f"| --- |{' ---: |' * len(CRITERIA)}"]
    out.append(f"| *no rule below* | {' | '.join(number(value) for value in least(n, f).values())} |")
    for rule in everyone(n, f):
        cells = (promise.text for promise in bounds(rule, n, f).values())
        out.append(f"| `{rule!r}` | {' | '.join(cells)} |")
    return "\n".join([*out, ""])


def found(rows: list[Row]) -> str:
    """Worst round found and proved, a line a rule, a column a shape, for κ; then how many rounds that were."""
    shapes = sorted({(row["n"], row["f"], row["d"]) for row in rows})
    names = list(dict.fromkeys(_name(row) for row in rows))
    heads = [f"n={n} f={f} d={d}" for n, f, d in shapes]
    out = [f"| κ found / proved | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(shapes)}"]
    cells = {(_name(row), (row["n"], row["f"], row["d"])): row for row in rows}
    for name in names:
        told = [_pair(cells.get((name, shape)), "kappa") for shape in shapes]
        out.append(f"| {name} | {' | '.join(told)} |")
    many = sum(row["rounds"] for row in rows)
    tight = sum(row["worst"][c] > 0.99 * row["proved"][c] for row in rows for c in SPREADS)
    about = f"{many:,} rounds with all their honest sets; {tight} of {3 * len(rows)} constants were reached to 1 %."
    return "\n".join([*out, "", about, ""])


def _pair(row: Row | None, criterion: str) -> str:
    return "" if row is None else f"{row['worst'][criterion]:.3g} / {row['proved'][criterion]:.3g}"


def _name(row: Row) -> str:
    return str(row["rule"]).replace(f"f={row['f']}", "f")


def drawn(rows: list[Row], n: int, out: Path) -> None:
    """κ over f for one n: a line what is proved, a mark what a search found."""
    mine = [row for row in rows if row["n"] == n]
    names = list(dict.fromkeys(_name(row) for row in mine))
    picture = blank(7.2, 4.2)
    axes = picture.subplots()
    for at, name in enumerate(names):
        some = sorted((row for row in mine if _name(row) == name), key=lambda row: row["f"])
        colour, dash = COLOURS[at % len(COLOURS)], DASHES[at // len(COLOURS) % len(DASHES)]
        f = [row["f"] for row in some]
        axes.plot(f, [row["proved"]["kappa"] for row in some], color=colour, linestyle=dash, linewidth=1.4)
        seen = [row["worst"]["kappa"] for row in some]
        axes.plot(f, seen, MARKERS[at % len(MARKERS)], color=colour, markersize=6, label=name, fillstyle="none")
    liars = sorted({row["f"] for row in mine})
    limit = [least(n, f)["kappa"] for f in liars]
    axes.plot(liars, limit, color="#7f7f7f", linewidth=4, alpha=0.4, label="no rule below", zorder=0)
    axes.set_yscale("log")
    axes.set_xticks(liars)
    axes.set_xlabel(f"f, of n = {n}")
    axes.set_ylabel("κ: proved (line), worst round found (mark)")
    axes.grid(alpha=0.3, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    picture.legend(fontsize=8, loc="outside right center", frameon=False)
    save(picture, out)
