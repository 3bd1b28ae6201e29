"""Which runs stand in one grid, and what its rows and columns are called."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.attacks import ATTACKS
from holdfast.elections import Ballot
from holdfast.errors import listing, plural
from holdfast.experiments.store import Entry, key
from holdfast.experiments.where import pair
from holdfast.training import Run
from holdfast.training.run import usual_later
from holdfast.twophase import AGGREGATORS, TwoPhase
from holdfast.values import Value

At = tuple[str, str]  # row, column
SAME = ("rule", "attack", "seed", "draw")  # in which the runs of one grid may differ
OF_RULE = ("voter", "vote_batch", "shrink", "reject")  # in which its rows may: a row says so
PHRASES = {"data": "on {}", "split": "split {}", "workers": "{} workers", "byzantine": "{} of them liars"}
PHRASES |= {"rounds": "{} rounds", "batch": "batch {}", "lr": "learning rate {}", "momentum": "momentum {}"}
UNSAID = ("every", "probe", "threads")  # no part in the accuracy
LIES = ["NoAttack", *ATTACKS]


def _record(run: Run) -> dict[str, Any]:
    """All fields of a run, also those that older records lack."""
    return usual_later() | run.record()


USUAL = _record(Run(rule="Average()"))


def label(rule: Any, f: int | None = None) -> str:
    """A rule's short name: its text without f (without f = this one, if given) and empty parentheses.

    >>> rule = Run(rule="Mean2P(f=3)").rule
    >>> label(rule), label(rule, f=2)
    ('Mean2P', 'Mean2P(f=3)')
    """
    if not isinstance(rule, TwoPhase):
        digits = r"\d+" if f is None else f
        return bare(re.sub(rf"\bf={digits}\b(, )?|, f={digits}\b", "", repr(rule)))
    name = pair(rule)
    vote = "ties to outer" if rule.election == Ballot(ties="outer") else repr(rule.election)
    name_of_pair = f"{name}(f={rule.f})" if name and f not in (None, rule.f) else name
    name_of_pair = name_of_pair or f"TwoPhase({label(rule.inner, f)}, {label(rule.outer, f)})"
    return name_of_pair if rule.election == Ballot() else f"{name_of_pair}, {vote}"


def bare(value: Any) -> str:
    """Its text without empty parentheses and with at most four digits of a fraction.

    >>> bare("ScaledVariance(z=0.5714285714285714)"), bare("SignFlip()")
    ('ScaledVariance(z=0.5714)', 'SignFlip')
    """
    text = value if isinstance(value, str) else repr(value)
    return re.sub(r"\d+\.\d{5,}", lambda match: f"{float(match[0]):.4g}", text).replace("()", "")


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ in rule, attack, seed and draw alone; by (row, column)."""

    title: str
    rows: list[str]
    columns: list[str]
    cells: Mapping[At, list[Entry]]


def groups(entries: Iterable[Entry]) -> list[Group]:
    """What is done, apart by all that differs; a row says what its rule differs in, f where it is not the liars'."""
    known = sorted((one for one in entries if one.accuracy is not None), key=lambda one: one.key)
    once = {_sample(one.run): one for one in known}.values()
    done = sorted(once, key=lambda one: (one.run.seed, one.run.draw or 0, one.key))
    varied = differing(one.run for one in done)
    extras = [name for name in varied if name in OF_RULE]
    apart: dict[str, list[Entry]] = {}
    for one in done:
        title = ", ".join(f"{name} = {written_value(one.run, name)}" for name in varied if name not in OF_RULE)
        apart.setdefault(title, []).append(one)
    titles = _distinct({title: bare(title) for title in apart})
    return [_group(titles[title], apart[title], extras) for title in sorted(apart, key=natural_order)]


def _sample(run: Run) -> str:
    """What names its numbers: a split that is drawn by the seed is the draw of that number."""
    return key(run if run.draw is not None else run.changed(draw=run.seed))


def _group(title: str, entries: list[Entry], extras: Sequence[str]) -> Group:
    rows = _distinct(dict(_row(one.run, extras) for one in entries))
    columns = _distinct({repr(one.run.attack): bare(one.run.attack) for one in entries})
    cells: dict[At, list[Entry]] = {}
    for one in entries:
        cells.setdefault((rows[_row(one.run, extras)[0]], columns[repr(one.run.attack)]), []).append(one)
    return Group(title, _ordered(rows.values(), [*AGGREGATORS]), _ordered(columns.values(), LIES), cells)


def _row(run: Run, extras: Sequence[str]) -> tuple[str, str]:
    """All that makes a row, and its short name."""
    record = _record(run)
    more = "".join(f", {name} = {written_value(run, name)}" for name in extras if record[name] != USUAL[name])
    return repr(run.rule) + more, label(run.rule, run.byzantine) + bare(more)


def written_value(run: Run, name: str) -> str:
    """A field's text; of a value with all its own fields, for a reader does not know the usual ones."""
    given = getattr(run, name)
    return given.written() if isinstance(given, Value) else str(given)


def _distinct(names: dict[str, str]) -> dict[str, str]:
    """Text -> short name, or the text itself where two would share one."""
    times = Counter(names.values())
    return {text: name if times[name] == 1 else text for text, name in names.items()}


def _ordered(names: Iterable[str], known: list[str]) -> list[str]:
    """In the catalogue's order by their first word, then 4 before 14."""
    first = {name: re.split(r"\W", name)[0] for name in names}
    return sorted(first, key=lambda name: ([*known, first[name]].index(first[name]), natural_order(name)))


def natural_order(text: str) -> list[tuple[float, str]]:
    """What texts are sorted by, so that 4 stands before 14."""
    parts = re.split(r"(\d+(?:\.\d+)?(?:e-?\d+)?)", text)
    return [(float(part), "") if at % 2 else (0.0, part) for at, part in enumerate(parts)]


def differing(runs: Iterable[Run]) -> list[str]:
    """The fields in which runs differ, apart from rule, attack, seed and draw."""
    records = [_record(run) for run in runs]
    return [name for name in USUAL if name not in SAME and len({str(one[name]) for one in records}) > 1]


def caption(entries: Iterable[Entry]) -> str:
    """A sentence on what the finished runs have in common."""
    done = [one for one in entries if one.accuracy is not None]
    if not done:
        return ""
    varied, run, record = differing(one.run for one in done), done[0].run, _record(done[0].run)
    phrases = [text.format(bare(written_value(run, name))) for name, text in PHRASES.items() if name not in varied]
    others = [name for name in USUAL if name not in (*SAME, *PHRASES, *UNSAID, *varied) and record[name] != USUAL[name]]
    phrases += [f"{name} = {bare(written_value(run, name))}" for name in others]
    seeds = sorted({one.run.seed for one in done})
    tolerance = "f is the number of liars unless a name says otherwise" if any(one.run.f for one in done) else ""
    parts = [", ".join(phrases), f"{plural(len(seeds), 'seed')} {listing(seeds)}", _drawn(done), tolerance]
    text = "; ".join(filter(None, parts))
    return f"{text[0].upper()}{text[1:]}."


def _drawn(done: Iterable[Entry]) -> str:
    """Which draws of the split there are, if they are not the seeds'."""
    draws = {one.run.draw for one in done}
    given = sorted(draw for draw in draws if draw is not None)
    own = ", and each seed's own" * (None in draws)
    return f"{plural(len(given), 'draw')} {listing(given)} of the split{own}" if given else ""
