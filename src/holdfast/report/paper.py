"""The paper's tables and figures by its own names, ours next to the printed numbers; and docs/paper.md from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean, pstdev

from holdfast.experiments.paper import (
    MAIN,
    ORDER,
    TABLES,
    VOTES,
    Setting,
    Table,
    difference,
    draws,
    measured,
    reference,
    trained,
    votes,
)
from holdfast.experiments.store import Entry, key
from holdfast.report.grid import Grid, grid
from holdfast.report.groups import Group
from holdfast.report.tables import markdown

SAID = {
    "homogeneous": "every worker has the natural class frequencies",
    "heterogeneous": "every worker has class frequencies of its own, Dir(0.1 p)",
    "ablation": "one phase against two, homogeneous",
    "cifar": "CIFAR-10, homogeneous",
    "beyond": "rules and attacks that the paper does not have",
}


def compared(name: str, setting: Setting, entries: Iterable[Entry]) -> Grid:
    """A table of the paper: ours, and in brackets theirs."""
    table = TABLES[name]
    found = measured(name, setting, entries)
    names = [(rule, attack) for rule in table.rules for attack in table.attacks]
    known = {at: found.get(at, []) for at in names}
    said = f"{SAID[name.split()[0]].capitalize()}. Rate {table.rate}. {_caption(table, setting)}"
    off = difference(name, found)
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
    found = {one.key: one for one in entries if one.accuracy is not None}
    lines: dict[tuple[str, str], dict[int, str]] = {}
    for (rule, attack, size), run in votes(setting).items():
        if one := found.get(key(run)):
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


def by_draws(setting: Setting, entries: Iterable[Entry]) -> str:
    """How far a heterogeneous number moves with the draw of q, and with the seed."""
    found = {one.key: one.accuracy for one in entries}
    theirs = reference("heterogeneous 0.2")
    over: dict[str, tuple[list[float], list[float]]] = {}
    for (rule, seed, _), run in draws(setting).items():
        if (value := found.get(key(run))) is not None:
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


def aside(what: str, setting: Setting, entries: Iterable[Entry]) -> str:
    """What `holdfast paper` prints of votes or draws: the table, and what was run."""
    if what == "votes":
        return f"{by_votes(setting, entries)}\n{replace(setting, seeds=1).caption('femnist', leave=['votes'])}\n"
    return f"{by_draws(setting, entries)}\n{setting.caption('femnist', leave=['seeds', 'votes'])}\n"


def sections(setting: Setting, entries: Iterable[Entry]) -> dict[str, str]:
    """What stands in docs/paper.md between its marks."""
    entries = list(entries)
    names = [*ORDER, *(name for name in TABLES if name not in ORDER)]
    grids = {name: compared(name, setting, entries) for name in names}
    there = {name for name, one in grids.items() if any(cell.n for cell in one.cells.values())}
    found = {name: markdown(one) if name in there else "Not measured yet.\n" for name, one in grids.items()}
    offs = [
        [name, str(sum(cell.n > 0 for cell in grids[name].cells.values())), f"{off:.3f}"]
        for name in names
        if (off := difference(name, measured(name, setting, entries))) is not None
    ]
    found["summary"] = _rows(["table", "cells measured", "mean absolute difference"], offs)
    found["votes"], found["draws"] = by_votes(setting, entries), by_draws(setting, entries)
    return found
