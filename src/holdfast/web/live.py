"""A store of runs as it changes: read again where a folder changed, never written to.

Rows carry the version at which they last changed, so that a page asks for what is new alone. A first look at many runs
goes on behind an answer that has the rows so far.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import BadInput
from holdfast.experiments.paper import cell_of, printed
from holdfast.experiments.store import ARCHIVE, Entry, apart, archive, entry
from holdfast.report.groups import bare, label
from holdfast.training import Run
from holdfast.training.folder import Folder, in_use
from holdfast.web.rounds import Told

FRESH = 0.8  # seconds that a look at the store is good for
PATIENCE = 0.25  # seconds that an answer waits for a look to end
CURVE, ROUNDS, EVENTS = 64, 3000, 200  # points of a curve, rounds and events of a run that are told
MARKS = ("record.json", "metrics.jsonl", "summary.json", "done", "failed")
SAID = 400  # letters


@dataclass(frozen=True, eq=False)
class Seen:
    """What was last read of a folder, and the state of its files then."""

    signature: Any
    version: int
    place: Path | None
    entry: Entry | None
    row: Told | None
    complaint: str = ""


class Live:
    """The runs of a store, of an archive, or one run alone."""

    def __init__(self, path: Path) -> None:
        self.path, self.epoch = path, f"{time.time_ns():x}"
        self.version, self.looked, self.scanning = 0, float("-inf"), False
        self.seen: dict[str, Seen] = {}
        self.gone: dict[str, int] = {}
        self.lock, self.over = threading.Lock(), threading.Event()
        self._begin()

    def changes(self, query: dict[str, str]) -> Told:
        """Rows that changed since a version, keys that are gone, and what could not be read."""
        since = _number(query, "since") if query.get("epoch") == self.epoch else 0
        self._begin()
        self.over.wait(PATIENCE)
        with self.lock:
            rows = [one.row for one in self.seen.values() if one.row and one.version > since]
            gone = [key for key, at in self.gone.items() if at > since]
            complaints = [one.complaint for one in self.seen.values() if one.complaint]
            total = sum(one.row is not None for one in self.seen.values())
            told = {"epoch": self.epoch, "version": self.version, "rows": rows, "gone": gone, "total": total}
        there = self.path.exists()
        return told | {"scanning": self.scanning, "there": there, "complaints": complaints[:50]}

    def detail(self, query: dict[str, str]) -> Told:
        """All rounds of one run from round `since` on, thinned out if they are very many."""
        with self.lock:
            found = next((one for one in self.seen.values() if one.entry and one.entry.key == query.get("key")), None)
        if found is None or found.entry is None:
            raise BadInput("there is no such run in this store any more; choose another.")
        one = found.entry
        lines = [] if found.place is None else list(Folder.of(found.place).lines())
        lines = [line for line in lines if type(line.get("round")) is int]
        every = -(-len(lines) // ROUNDS) or 1
        since = _number(query, "since") if every == 1 else 0
        since = since if since <= len(lines) else 0
        part = lines[since::every]
        events = [[line["round"], str(text)[:SAID]] for line in lines for text in _list(line.get("events"))]
        columns = ("lead", "margin", "kappa", "liars", "norm")
        return {
            **(found.row or {}),
            "record": one.run.record(),
            "why": one.why[:4000],
            "from": since,
            "every": every,
            "rounds": len(lines),
            "kept": [str(line.get("kept", ""))[: one.run.workers] for line in part],
            "winner": "".join(str(line.get("winner") or ".")[0] for line in part),
            **{name: [_finite(line.get(name)) for line in part] for name in columns},
            "events": events[-EVENTS:],
        }

    def _begin(self) -> None:
        """Begin to read what changed, unless somebody does or did just now."""
        with self.lock:
            if not self.scanning and time.monotonic() - self.looked > FRESH:
                self.scanning = True
                self.over.clear()
                threading.Thread(target=self._scan, daemon=True).start()

    def _scan(self) -> None:
        try:
            found: set[str] = set()
            for name, place in self._places():
                found.add(name)
                self._folder(name, place)
            for name, one in self._archived():
                found.add(name)
                if name not in self.seen:
                    self._note(name, Seen(None, 0, None, one, row(one)))
            self._forget(found)
        finally:
            self.looked, self.scanning = time.monotonic(), False
            self.over.set()

    def _places(self) -> list[tuple[str, Path]]:
        try:
            if (self.path / "record.json").exists():
                return [(self.path.name, self.path)]
            with os.scandir(self.path) as inside:
                return sorted((one.name, Path(one.path)) for one in inside if one.name[0] != "." and _is_folder(one))
        except OSError:
            return []

    def _archived(self) -> list[tuple[str, Entry]]:
        """The runs of an archive that is the store, or lies in it; read again when its file changes."""
        file = self.path if self.path.is_file() else self.path / ARCHIVE
        signature = _stat(file)
        before = self.seen.get(f"{file}:")
        if signature is None:
            return []
        if before is None or before.signature != signature:
            try:
                entries, complaints = archive(file)
            except OSError as error:
                entries, complaints = [], [f"{file} cannot be read ({error.strerror})."]
            said = complaints[0] if complaints else ""
            self._forget({name for name, one in self.seen.items() if one.signature is not None or one.complaint})
            self._note(f"{file}:", Seen(signature, 0, None, None, None, said))
            return [(f"{file}:{one.key}", one) for one in entries]
        return [(name, one.entry) for name, one in self.seen.items() if name.startswith(f"{file}:") and one.entry]

    def _folder(self, name: str, place: Path) -> None:
        marks = tuple(_stat(place / mark) for mark in MARKS)
        running = marks[3] is None and in_use(place)
        before = self.seen.get(name)
        if before is not None and before.signature == (marks, running):
            return
        if marks[0] is None:
            self._note(name, Seen((marks, running), 0, None, None, None))  # no run yet, or none any more
            return
        entries, complaints = apart([(str(place), lambda: entry(place))])
        one = entries[0] if entries else None
        said = complaints[0] if complaints else ""
        self._note(name, Seen((marks, running), 0, place, one, None if one is None else row(one), said))

    def _note(self, name: str, seen: Seen) -> None:
        with self.lock:
            self.version += 1
            before = self.seen.get(name)
            self.seen[name] = Seen(seen.signature, self.version, seen.place, seen.entry, seen.row, seen.complaint)
            if before is not None and before.row and (seen.row is None or seen.row["key"] != before.row["key"]):
                self.gone[before.row["key"]] = self.version
            if seen.row:
                self.gone.pop(seen.row["key"], None)

    def _forget(self, found: set[str]) -> None:
        with self.lock:
            for name in [name for name in self.seen if name not in found and not name.endswith(":")]:
                self.version += 1
                if (old := self.seen.pop(name).row) is not None:
                    self.gone[old["key"]] = self.version


def row(one: Entry) -> Told:
    """What the list shows of a run."""
    run = one.run
    curve = [(at, value) for at, value in one.curve() if type(at) is int and _finite(value) is not None]
    thin = -(-len(curve) // CURVE) or 1
    facts = {name: _finite(one.facts.get(name)) for name in ("rounds", "outer", "liars", "skipped")}
    return {
        "key": one.key,
        "state": one.state,
        "rule": label(run.rule, run.byzantine),
        "attack": bare(run.attack),
        "workers": run.workers,
        "liars": run.byzantine,
        "rate": round(run.byzantine / run.workers, 3),
        "data": run.data,
        "split": bare(run.split),
        "seed": run.seed,
        "of": run.rounds,
        "done": facts["rounds"] or 0,
        "accuracy": curve[-1][1] if curve else None,
        "curve": [*curve[::thin], *curve[-1:]] if thin > 1 else curve,
        "outer": facts["outer"],
        "lied": facts["liars"],
        "skipped": facts["skipped"],
        "seconds": one.seconds,
        "why": " ".join(one.why.split())[:SAID],
        "paper": _printed(run),
    }


def _printed(run: Run) -> Told | None:
    """The paper's number, where the run is one of its cells."""
    cell = cell_of(run)
    if cell is None:
        return None
    accuracy, deviation = printed()[cell]
    return {"table": cell[0], "rule": cell[1], "attack": cell[2], "accuracy": accuracy, "deviation": deviation}


def _is_folder(one: os.DirEntry[str]) -> bool:
    try:
        return one.is_dir()
    except OSError:  # a link in a circle
        return False


def _stat(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _number(query: dict[str, str], name: str) -> int:
    text = query.get(name, "0")
    if not text.isdecimal() or len(text) > 12:
        raise BadInput(f"{name} = {text[:40]!r} was given; it is a whole number.")
    return int(text)


def _list(given: Any) -> list[Any]:
    return given if isinstance(given, list) else []


def _finite(value: Any) -> float | None:
    return value if type(value) in (int, float) and abs(value) < 1e300 else None
