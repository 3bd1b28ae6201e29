"""The paper's tables and figures by its own names, ours next to the printed numbers; and docs/paper.md from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean, pstdev
from typing import Any

from holdfast.experiments.paper import (
    MAIN,
    ON_EMNIST,
    ORDER,
    TABLES,
    VOTES,
    Setting,
    Table,
    difference,
    draws,
    measured,
    readings,
    reference,
    trained,
    votes,
)
from holdfast.experiments.store import Entry, key
from holdfast.report.agreement import HEADS, agreements
from holdfast.report.grid import Grid, grid
from holdfast.report.groups import Group
from holdfast.report.tables import markdown
from holdfast.training import Run

CAPTIONS = {
    "homogeneous": "every worker has the natural class frequencies",
    "heterogeneous": "every worker has class frequencies of its own, Dir(0.1 p)",
    "ablation": "one phase against two, homogeneous",
    "cifar": "CIFAR-10, homogeneous",
    "beyond": "rules and attacks that the paper does not have",
}


def compared(name: str, setting: Setting, entries: Iterable[Entry]) -> Grid:
    """A table of the paper: ours, and in brackets theirs."""
    table = TABLES[name]
    measurements = measured(name, setting, entries)
    names = [(rule, attack) for rule in table.rules for attack in table.attacks]
    known = {at: measurements.get(at, []) for at in names}
    said = f"{CAPTIONS[name.split()[0]].capitalize()}. Rate {table.rate}. {_caption(table, setting)}"
    off = difference(name, measurements)
    done = sum(map(bool, known.values()))
    said += f" {done} of {len(names)} cells are there." if done < len(names) else ""
    said += f" Mean absolute difference to the paper: {off:.3f}." if off is not None else ""
    return grid(name, known, reference(name), said)


def _caption(table: Table, setting: Setting) -> str:
    own = f"Worker momentum {table.changes.get('momentum', 0)}" if table.name.startswith("beyond") else ""
    return setting.caption(table.data, own)


def group(name: str, setting: Setting, entries: Iterable[Entry]) -> Group:
    """The runs of a table by the paper's names: what its figure shows."""
    table = TABLES[name]
    return Group(name, list(table.rules), list(table.attacks), trained(name, setting, entries))


def _rows(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    out = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 1)}"]
    return "\n".join([*out, *(f"| {' | '.join(line)} |" for line in lines), ""])


def by_votes(setting: Setting, entries: Iterable[Entry]) -> str:
    """Accuracy against the images of a vote."""
    by_key = {one.key: one for one in entries if one.accuracy is not None}
    lines: dict[tuple[str, str], dict[int, str]] = {}
    for (rule, attack, size), run in votes(setting).items():
        if one := by_key.get(key(run)):
            won = one.facts.get("outer")
            lines.setdefault((rule, attack), {})[size] = f"{one.accuracy:.2f}, {'–' if won is None else f'{won:.0%}'}"
    theirs = reference(MAIN)
    return _rows(
        ["cell, rate 0.4", *(f"{size} images" for size in VOTES), "paper (all)"],
        [
            [f"{rule} under {attack}", *(row.get(size, "–") for size in VOTES), f"{theirs[rule, attack]:.2f}"]
            for (rule, attack), row in lines.items()
        ],
    )


def by_readings(setting: Setting, entries: Iterable[Entry]) -> str:
    """Accuracy with natural class frequencies and with equal ones."""
    by_key = {one.key: one.accuracy for one in entries}
    theirs = reference(MAIN)
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for (rule, attack, reading), run in readings(setting).items():
        if (value := by_key.get(key(run))) is not None:
            lines.setdefault((rule, attack), {})[reading] = f"{value:.2f}"
    return _rows(
        ["cell, rate 0.4", "natural frequencies", "equal classes", "paper"],
        [
            [f"{rule} under {attack}", row.get("natural", "–"), row.get("equal", "–"), f"{theirs[rule, attack]:.2f}"]
            for (rule, attack), row in lines.items()
        ],
    )


def by_draws(setting: Setting, entries: Iterable[Entry]) -> str:
    """How far a heterogeneous number moves with the draw of q, and with the seed."""
    by_key = {one.key: one.accuracy for one in entries}
    theirs = reference("heterogeneous 0.2")
    over: dict[str, tuple[list[float], list[float]]] = {}
    for (rule, seed, _), run in draws(setting).items():
        if (value := by_key.get(key(run))) is not None:
            over.setdefault(rule, ([], []))[1 if seed else 0].append(value)
    return _rows(
        ["rule under Gauss, rate 0.2", "over draws of q, one seed", "over seeds, one draw", "paper"],
        [[rule, _spread(one), _spread(other), f"{theirs[rule, 'Gauss']:.2f}"] for rule, (one, other) in over.items()],
    )


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "–"
    each = ", ".join(f"{value:.2f}" for value in values)
    return f"{fmean(values):.2f} ± {pstdev(values):.2f} ({each})"


ASIDES: dict[str, tuple[Callable[[Setting], Mapping[Any, Run]], Callable[..., str], tuple[str, ...]]] = {
    "votes": (votes, by_votes, ("votes",)),
    "draws": (draws, by_draws, ("seeds", "votes")),
    "readings": (readings, by_readings, ()),
}
"""Name -> its runs, its table, and what its caption leaves out."""


def aside(what: str, setting: Setting, entries: Iterable[Entry]) -> str:
    """A small table beside the paper's (votes, draws or readings), and what was run."""
    _, drawn, leave = ASIDES[what]
    seeds = setting if what == "draws" else replace(setting, seeds=1)
    return f"{drawn(setting, entries)}\n{seeds.caption('femnist', leave=leave)}\n"


def fuller(runs: Callable[[Setting], Mapping[Any, Run]], setting: Setting, entries: Iterable[Entry]) -> Setting:
    """The setting itself, or the same on EMNIST if more of these runs were measured there."""
    done = {one.key for one in entries if one.accuracy is not None}
    settings = (setting, replace(setting, sets=ON_EMNIST))
    return max(settings, key=lambda one: sum(key(run) in done for run in runs(one).values()))


def sections(setting: Setting, entries: Iterable[Entry]) -> dict[str, str]:
    """What stands in docs/paper.md between its marks; on EMNIST where more was measured there."""
    entries = list(entries)
    names = [*ORDER, *(name for name in TABLES if name not in ORDER)]
    grids = {name: compared(name, fuller(TABLES[name].runs, setting, entries), entries) for name in names}
    there = {name for name, one in grids.items() if any(cell.n for cell in one.cells.values())}
    texts = {name: markdown(one) if name in there else "Not measured yet.\n" for name, one in grids.items()}
    texts["summary"] = summary(setting, entries)
    for what, (runs, *_) in ASIDES.items():
        texts[what] = aside(what, fuller(runs, setting, entries), entries)
    return texts


def summary(setting: Setting, entries: Sequence[Entry]) -> str:
    """How far each table agrees with the paper, on each data set on which it was measured."""
    return _rows(HEADS, [one.row() for one in agreements(setting, entries) if one.pairs])
