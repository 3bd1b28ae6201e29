"""Many runs in one folder, each in a folder of its own named by its key; or the small text that is left of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from holdfast.errors import BadInput
from holdfast.training import Run
from holdfast.training.folder import FORMAT, Folder, in_use, read_record, write_text

Line = dict[str, Any]
MOST = 400  # letters of a complaint
ARCHIVE = "archive.jsonl"
STATES = ("done", "running", "begun", "failed")


def key(run: Run) -> str:
    """What names a run: a hash of all its fields and of the format in which they are kept.

    >>> key(Run(rule="Average()")) == key(Run(rule="Average()")) != key(Run(rule="Average()", seed=1))
    True
    """
    return hashlib.sha256(json.dumps([FORMAT, run.record()], sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class Entry:
    """What reports need to know of a run.

    `evaluations` have the rounds done and what was measured then, `facts` what the rounds were like: how many there
    are, `outer` (the share of elections that Outer won), `liars` (their mean share of the aggregate), `skipped` rounds,
    `averaged` (the averaged model's accuracy) and `workers` (the accuracy on each worker's own test images).
    """

    key: str
    run: Run
    state: str
    evaluations: list[Line] = field(default_factory=list)
    facts: Line = field(default_factory=dict)
    seconds: float | None = None
    why: str = ""

    @property
    def accuracy(self) -> float | None:
        """At the end of a run that is done; None: not known."""
        return self.evaluations[-1].get("accuracy") if self.state == "done" and self.evaluations else None

    def curve(self, name: str = "accuracy") -> list[tuple[int, float]]:
        """(rounds done, value) of every evaluation."""
        found = ((line["round"], line.get(name)) for line in self.evaluations)
        return [(at, value) for at, value in found if value is not None]

    def text(self) -> str:
        """A line of an archive."""
        return json.dumps(asdict(self) | {"run": self.run.record(), "format": FORMAT}, allow_nan=False)

    @staticmethod
    def read(text: str | bytes) -> Entry:
        """From such a line."""
        given = dict(json.loads(text))
        if (theirs := given.pop("format", 0)) != FORMAT:
            raise BadInput(f"it is of format {theirs}, and this holdfast reads {FORMAT}; use the version that wrote it")
        entry = Entry(**given | {"run": Run.read(json.dumps(given["run"]))})
        entry.check()
        return entry

    def check(self) -> None:
        """Refuse what no holdfast wrote."""
        lines = isinstance(self.evaluations, list) and all(isinstance(line, dict) for line in self.evaluations)
        if not lines or not all(type(line.get("round")) is int for line in self.evaluations):
            raise BadInput("its evaluations are no list of what was measured after how many rounds")
        number = self.seconds is None or type(self.seconds) in (int, float)
        if not isinstance(self.facts, dict) or not number or self.state not in STATES or not isinstance(self.why, str):
            raise BadInput("its facts, seconds, state or why are none")
        if self.key != key(self.run):
            raise BadInput(f"its key is {self.key!r} and that of its run {key(self.run)!r}")


def told(run: Run, state: str, lines: Iterable[Line], **words: Any) -> Entry:
    """The entry of a run whose rounds these are."""
    lines = list(lines)
    evaluations = [
        {"round": line["round"] + 1, **{name: v for name, v in line["evaluation"].items() if name != "workers"}}
        for line in lines
        if "evaluation" in line
    ]
    last = lines[-1] if lines else {}
    won = [line["winner"] for line in lines if line.get("winner")]
    lied = [line["liars"] for line in lines if line.get("liars") is not None]
    facts = {
        "rounds": len(lines),
        "outer": round(won.count("outer") / len(won), 4) if won else None,
        "liars": round(sum(lied) / len(lied), 4) if lied else None,
        "skipped": sum(any(event.startswith("skipped") for event in line.get("events", ())) for line in lines),
        "averaged": last.get("averaged", {}).get("accuracy"),
        "workers": last.get("evaluation", {}).get("workers"),
    }
    return Entry(key(run), run, state, evaluations, facts, **words)


class Store:
    """A folder of runs, or an archive of them (a file of JSON lines), to read and, the folder, to add to.

    A file archive.jsonl in the folder holds more runs that are done: with it one goes on from an archive elsewhere.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @cached_property
    def archived(self) -> tuple[list[Entry], list[str]]:
        """The runs of the folder's archive, and complaints."""
        kept = self.path / ARCHIVE
        return _archive(kept) if kept.is_file() else ([], [])

    def place(self, run: Run) -> Path:
        """The run's folder, there or not."""
        return self.path / key(run)

    def state(self, run: Run) -> str | None:
        """done, running, begun or failed; None: not there."""
        name = key(run)
        return "done" if any(one.key == name for one in self.archived[0]) else _state(self.path / name)

    def read(self) -> tuple[list[Entry], list[str]]:
        """All runs, and a sentence on each folder or line that holds none."""
        if not self.path.exists():
            raise BadInput(f"{self.path} is not there; name a folder of runs, or an archive of them (.jsonl).")
        if not self.path.is_dir():
            return _archive(self.path)
        found = [(str(one), one) for one in sorted(self.path.iterdir()) if one.is_dir() and one.name[0] != "."]
        entries, complaints = _apart((where, lambda one=one: _entry(one)) for where, one in found)
        all_of = {one.key: one for one in (*self.archived[0], *entries)}
        return [all_of[name] for name in sorted(all_of)], [*complaints, *self.archived[1]]


def _archive(path: Path) -> tuple[list[Entry], list[str]]:
    lines = enumerate(path.read_bytes().splitlines(), 1)
    return _apart((f"{path}:{at}", lambda line=line: Entry.read(line)) for at, line in lines)


def _apart(found: Iterable[tuple[str, Any]]) -> tuple[list[Entry], list[str]]:
    entries, complaints = [], []
    for where, one in found:
        try:
            entries.append(one())
        except (BadInput, OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            said = str(error) if isinstance(error, BadInput) else f"it holds no run ({type(error).__name__}: {error})"
            said = said.rstrip(".")[:MOST]
            complaints.append(said + "." if said.startswith(where) else f"{where}: {said}.")
    return entries, complaints


def _state(place: Path) -> str | None:
    if not (place / "record.json").exists():
        return None
    if (place / "done").exists():
        return "done"
    if in_use(place):
        return "running"
    if (place / "done").exists():  # it ended while we looked
        return "done"
    return "failed" if (place / "failed").exists() else "begun"


def _entry(place: Path) -> Entry:
    state = _state(place)
    if state is None:
        raise BadInput(f"{place} has no record.json, so it is no run; move it elsewhere")
    run = read_record(place)
    seconds = _seconds(place / "timing.json")
    if state == "done" and (summary := _summary(place, key(run))):
        return Entry(**vars(summary) | {"seconds": seconds})
    why = _why(place) if state == "failed" else ""
    folder = Folder(place, run)
    lines: Iterator[Line] | list[Line] = folder.whole() if state == "done" else folder.lines()
    return told(run, state, lines, seconds=seconds, why=why)


def _why(place: Path) -> str:
    try:
        return (place / "failed").read_text(errors="replace")
    except OSError:
        return ""


def summarise(place: Path, run: Run) -> None:
    """Leave beside a finished run what reports need, so that they need not read all of its rounds."""
    write_text(place / "summary.json", told(run, "done", Folder(place, run).whole()).text())


def _summary(place: Path, name: str) -> Entry | None:
    try:
        found = Entry.read((place / "summary.json").read_bytes())
    except (OSError, BadInput, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return found if found.key == name else None


def _seconds(path: Path) -> float | None:
    try:
        return float(json.loads(path.read_text())["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
