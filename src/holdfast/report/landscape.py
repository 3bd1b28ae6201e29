"""Heat maps of f against heterogeneity: the worst attack on each rule, and the best rule of each cell.

If runs differ in the learning rate and the like, each cell shows the parameters that do best against the worst attack.
They are chosen by validation images if the runs set some aside (`Run(validation=20)`), else by test images, and the
caption says which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from holdfast.attacks import NoAttack
from holdfast.experiments.store import Entry
from holdfast.report.grid import Cell, Grid
from holdfast.report.groups import bare, differing, label, natural_order, written_value

TUNED = ("lr", "momentum", "weight_decay", "clip", "batch", "schedule", "steps", "server")
ACROSS = ("workers", "byzantine", "split", *TUNED)  # what may differ within one map
Place = tuple[str, str]  # split, number of Byzantine workers
Case = tuple[str, int, int | None]  # attack, seed, draw


@dataclass(frozen=True)
class Chosen:
    """What a rule reaches at a place: its parameters, and its mean over the seeds under the attack that harms most."""

    parameters: str
    accuracy: float
    loss: float | None


def landscapes(entries: Iterable[Entry]) -> list[Grid]:
    """The maps of a store whose runs differ in both f and split; none for other stores."""
    done = [one for one in entries if one.accuracy is not None and not isinstance(one.run.attack, NoAttack)]
    apart: dict[str, list[Entry]] = {}
    varied = [name for name in differing(one.run for one in done) if name not in ACROSS]
    for one in done:
        title = ", ".join(f"{name} = {bare(written_value(one.run, name))}" for name in varied)
        apart.setdefault(title, []).append(one)
    return [grid for title in sorted(apart, key=natural_order) for grid in _maps(title, apart[title])]


def _maps(title: str, entries: Sequence[Entry]) -> list[Grid]:
    if any(len({getattr(one.run, name) for one in entries}) < 2 for name in ("byzantine", "split")):
        return []
    validated = all(_last(one, "validation") is not None for one in entries)
    by_rule: dict[str, dict[Place, list[Entry]]] = {}
    for one in entries:
        place = bare(written_value(one.run, "split")), f"f = {one.run.byzantine}"
        by_rule.setdefault(label(one.run.rule, one.run.byzantine), {}).setdefault(place, []).append(one)
    tuned = [name for name in TUNED if name in differing(one.run for one in entries)]
    measure = "validation" if validated else "accuracy"
    wanted: dict[Place, set[Case]] = {}
    for places in by_rule.values():
        for place, some in places.items():
            wanted[place] = wanted.get(place, set()) | set(map(_case, some))
    chosen = {rule: _cells(places, wanted, measure, tuned) for rule, places in by_rule.items()}
    chosen = {rule: found for rule, found in chosen.items() if found}
    end = f", {title}" if title else ""
    maps = [
        grid
        for rule, found in chosen.items()
        for grid in (
            _grid(
                f"{rule}: accuracy under the worst attack{end}", found, lambda one: one.accuracy, _how(found, measure)
            ),
            _grid(f"{rule}: largest loss over the attacks{end}", found, lambda one: one.loss, ""),
        )
    ]
    best: dict[Place, Chosen] = {}
    for found in chosen.values():
        for place, reached in found.items():
            best[place] = max(best.get(place, reached), reached, key=lambda some: some.accuracy)
    names = {
        place: next(rule for rule, found in chosen.items() if found.get(place) is one) for place, one in best.items()
    }
    winners = "; ".join(f"{split}, {f}: {rule}" for (split, f), rule in sorted(names.items(), key=_order))
    return [
        *maps,
        _grid(f"The best rule of each cell{end}", best, lambda one: one.accuracy, f"By test accuracy: {winners}."),
    ]


def _case(entry: Entry) -> Case:
    """What all rules and parameters of a cell must have met to be compared: attack, seed and draw."""
    return repr(entry.run.attack), entry.run.seed, entry.run.draw


def _cells(
    places: Mapping[Place, Sequence[Entry]], wanted: Mapping[Place, set[Case]], measure: str, tuned: Sequence[str]
) -> dict[Place, Chosen]:
    """What a rule reaches; a cell stays open while a run is missing, since that might have been the worst."""
    found = {place: _chosen(some, wanted[place], measure, tuned) for place, some in places.items()}
    return {place: one for place, one in found.items() if one is not None}


def _chosen(entries: Sequence[Entry], wanted: set[Case], measure: str, tuned: Sequence[str]) -> Chosen | None:
    """The parameters whose worst attack does the least harm by this measure, of those that met everything."""
    tried: dict[str, list[Entry]] = {}
    for one in entries:
        text = ", ".join(f"{name} = {bare(written_value(one.run, name))}" for name in tuned)
        tried.setdefault(text, []).append(one)
    tried = {text: some for text, some in tried.items() if set(map(_case, some)) == wanted}
    if not tried:
        return None
    told = {text: _under_worst(some, measure) for text, some in tried.items()}
    best = max(tried, key=lambda text: told[text])
    losses = [_mean(some, "loss") for some in _by_attack(tried[best])]
    known = [loss for loss in losses if loss is not None]
    return Chosen(best, _under_worst(tried[best], "accuracy"), max(known) if len(known) == len(losses) else None)


def _under_worst(entries: Sequence[Entry], measure: str) -> float:
    return min(_mean(some, measure) or 0.0 for some in _by_attack(entries))


def _by_attack(entries: Iterable[Entry]) -> list[list[Entry]]:
    attacks: dict[str, list[Entry]] = {}
    for one in entries:
        attacks.setdefault(repr(one.run.attack), []).append(one)
    return list(attacks.values())


def _mean(entries: Iterable[Entry], measure: str) -> float | None:
    """The mean over seeds; None unless all have the number."""
    values = [_last(one, measure) for one in entries]
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


def _last(entry: Entry, measure: str) -> float | None:
    value: float | None = entry.evaluations[-1].get(measure) if entry.evaluations else None
    return value


def _how(found: Mapping[Place, Chosen], measure: str) -> str:
    """A sentence on how parameters were chosen, and which, if runs differ in them."""
    told = {place: one.parameters for place, one in found.items() if one.parameters}
    if not told:
        return "Each number is the mean over the seeds."
    by = "validation images" if measure == "validation" else "test images, which flatters the result"
    each = "; ".join(f"{split}, {f}: {text}" for (split, f), text in sorted(told.items(), key=_order))
    return f"Parameters were chosen against the worst attack by {by}. {each}."


def _grid(title: str, found: Mapping[Place, Chosen], number: Callable[[Chosen], float | None], caption: str) -> Grid:
    rows = sorted({split for split, _ in found}, key=natural_order)
    columns = sorted({f for _, f in found}, key=natural_order)
    values = {place: number(one) for place, one in found.items()}
    cells = {place: Cell(() if value is None else (value,)) for place, value in values.items()}
    highest = max((value for value in values.values() if value is not None), default=1.0)
    return Grid(title, rows, columns, cells, caption, worst=False, full=max(1.0, highest), corner="split")


def _order(item: tuple[Place, str]) -> tuple[object, object]:
    (split, f), _ = item
    return natural_order(split), natural_order(f)
