"""Tables and a picture of what rules promise, beside what a search found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.figures import new_figure, save_figure
from holdfast.guarantees.bounds import bounds, everyone, least, number
from holdfast.guarantees.criteria import CRITERIA, SPREADS
from holdfast.report.plots import COLOURS

Row = dict[str, Any]
WIDE = 5  # panels side by side
ROUNDING = 1e-7  # a part of a constant


def format_constants(n: int, f: int) -> str:
    """All rules and criteria for one n and f, in Markdown."""
    out = [f"| n = {n}, f = {f} | {' | '.join(CRITERIA.values())} |", f"| --- |{' ---: |' * len(CRITERIA)}"]
    out.append(f"| *no rule below* | {' | '.join(number(value) for value in least(n, f).values())} |")
    for rule in everyone(n, f):
        cells = (promise.text for promise in bounds(rule, n, f).values())
        out.append(f"| `{rule!r}` | {' | '.join(cells)} |")
    return "\n".join([*out, ""])


def format_worst_rounds(rows: list[Row]) -> str:
    """Worst round found and proved, one line per rule, one column per shape, for κ; then how many rounds that were."""
    shapes = sorted({(row["n"], row["f"], row["d"]) for row in rows})
    names = list(dict.fromkeys(_name(row) for row in rows))
    heads = [f"n={n} f={f} d={d}" for n, f, d in shapes]
    out = [f"| κ found / proved | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(shapes)}"]
    cells = {(_name(row), (row["n"], row["f"], row["d"])): row for row in rows}
    for name in names:
        pairs = [_pair(cells.get((name, shape)), "kappa") for shape in shapes]
        out.append(f"| {name} | {' | '.join(pairs)} |")
    many = sum(row["rounds"] for row in rows)
    tight = sum(row["worst"][c] > 0.99 * row["proved"][c] for row in rows for c in SPREADS)
    about = f"{many:,} rounds with all their honest sets; {tight} of {3 * len(rows)} constants were reached to 1 %."
    return "\n".join([*out, "", about, ""])


def _pair(row: Row | None, criterion: str) -> str:
    if row is None:
        return ""
    found, proved = row["worst"][criterion], row["proved"][criterion]
    within = found <= proved * (1 + ROUNDING)  # a constant that is reached may be exceeded by rounding
    return f"{min(found, proved) if within else found:.3g} / {proved:.3g}"


def _name(row: Row) -> str:
    return str(row["rule"]).replace(f"f={row['f']}", "f")


def draw_worst_rounds(rows: list[Row], n: int, out: Path) -> None:
    """κ over f for one n, one panel per rule: the line is proved, marks were found, no rule is below the grey."""
    mine = [row for row in rows if row["n"] == n]
    names = list(dict.fromkeys(_name(row) for row in mine))
    liars = sorted({row["f"] for row in mine})
    limit = [least(n, f)["kappa"] for f in liars]
    picture = new_figure(9.0, 1.55 * -(-len(names) // WIDE) + 0.5)
    panels = picture.subplots(-(-len(names) // WIDE), WIDE, sharex=True, sharey=True, squeeze=False).ravel()
    for name, axes in zip(names, panels, strict=False):
        own = sorted((row for row in mine if _name(row) == name), key=lambda row: row["f"])
        f = [row["f"] for row in own]
        axes.plot(liars, limit, color="#7f7f7f", linewidth=3, alpha=0.4, label="no rule below")
        axes.plot(f, [row["proved"]["kappa"] for row in own], color=COLOURS[0], linewidth=1.4, label="proved")
        seen = [row["worst"]["kappa"] for row in own]
        axes.plot(f, seen, "o", color=COLOURS[1], markersize=5, fillstyle="none", label="worst round found")
        axes.set_title(name, fontsize=7.5)
        axes.set_yscale("log")
        axes.set_xticks(liars)
        axes.grid(alpha=0.3, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=7)
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    picture.supxlabel(f"f, of n = {n}", fontsize=9)
    picture.supylabel("κ", fontsize=9, rotation=0)
    lines, labels = panels[0].get_legend_handles_labels()
    picture.legend(lines, labels, fontsize=8, loc="outside upper center", ncols=3, frameon=False)
    save_figure(picture, out)
