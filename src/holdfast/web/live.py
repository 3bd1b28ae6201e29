"""A store of runs as it changes: read again where a folder changed, never written to.

Rows carry the version at which they last changed, so that a page asks for what is new alone. A first look at many runs
goes on behind an answer that has the rows so far.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.errors import BadInput
from holdfast.experiments.paper import cell_of, printed
from holdfast.experiments.store import ARCHIVE, Entry, apart, archive, entry, sound_number
from holdfast.report.groups import bare, label
from holdfast.training import Run
from holdfast.training.folder import in_use, lines_of
from holdfast.web.rounds import JsonObject

FRESH = 0.8  # seconds that a look at the store is good for
PATIENCE = 0.25  # seconds that an answer waits for a look to end
CURVE, ROUNDS, EVENTS = 64, 3000, 200  # points of a curve, rounds and events of a run that are told
COMPLAINTS = 50  # that are told, of all
LINES = "/"  # names of an archive's lines begin with what no folder's does
MARKS = ("record.json", "metrics.jsonl", "summary.json", "timing.json", "done", "failed")
MAX_REASON = 400  # letters


@dataclass(frozen=True, eq=False)
class Seen:
    """What was last read of a folder, or of a line of an archive, and the state of its files then."""

    signature: Any
    place: Path | None = None
    entry: Entry | None = None
    row: JsonObject = field(default_factory=dict)
    complaint: str = ""

    @property
    def key(self) -> str | None:
        return self.entry.key if self.entry else None


class Live:
    """The runs of a store, of an archive, or one run alone."""

    def __init__(self, path: Path) -> None:
        self.path, self.epoch = path, f"{time.time_ns():x}"
        self.version, self.looked, self.scanning = 0, float("-inf"), False
        self.seen: dict[str, Seen] = {}  # by folder, or by line of the archive
        self.holders: dict[str, set[str]] = {}  # key of a run -> who has it: a folder, the archive, a copy
        self.told: dict[str, int] = {}  # key -> version of its last change, also of its end
        self.archive: tuple[Any, list[str]] = (None, [])  # its signature and complaints
        self.lock, self.over = threading.Lock(), threading.Event()
        self._begin()

    def changes(self, query: dict[str, str]) -> JsonObject:
        """Rows that changed since a version, keys that are gone, and what could not be read."""
        since = _number(query, "since") if query.get("epoch") == self.epoch else 0
        self._begin()
        self.over.wait(PATIENCE)
        scanning = self.scanning  # before the rows: once it is over, they are all there
        with self.lock:
            changed = sorted(key for key, at in self.told.items() if at > since)
            rows = [{**self._of(key).row, "changed": self.told[key]} for key in changed if key in self.holders]
            complaints = [*(one.complaint for one in self.seen.values() if one.complaint), *self.archive[1]]
            answer = {"epoch": self.epoch, "version": self.version, "rows": rows, "total": len(self.holders)}
            answer |= {"gone": [key for key in changed if key not in self.holders]}
        answer |= {"scanning": scanning, "there": self.path.exists()}
        return answer | {"complaints": complaints[:COMPLAINTS], "unread": len(complaints)}

    def detail(self, query: dict[str, str]) -> JsonObject:
        """All rounds of one run from round `since` on, thinned out if they are very many."""
        with self.lock:
            held = self._of(query["key"]) if query.get("key") in self.holders else None
        if held is None or held.entry is None:
            raise BadInput("there is no such run in this store any more; choose another.")
        one = held.entry
        lines = [] if held.place is None else list(lines_of(held.place))
        lines = [line for line in lines if type(line.get("round")) is int]
        every = -(-len(lines) // ROUNDS) or 1
        since = _number(query, "since") if every == 1 else 0
        since = since if since <= len(lines) else 0
        part = lines[since::every]
        events = [[line["round"], str(text)[:MAX_REASON]] for line in lines for text in _list(line.get("events"))]
        columns = ("lead", "margin", "kappa", "liars")
        return {
            **held.row,
            "record": one.run.record(),
            "why": one.why[:4000],
            "from": since,
            "every": every,
            "rounds": len(lines),
            "kept": [str(line.get("kept", ""))[: one.run.workers] for line in part],
            "winner": "".join(str(line.get("winner") or ".")[0] for line in part),
            **{name: [sound_number(line.get(name)) for line in part] for name in columns},
            "events": events[-EVENTS:],
        }

    def _of(self, key: str) -> Seen:
        """Who tells of a run that several have: who has it done, then a folder, which has its rounds."""

        def rank(name: str) -> tuple[bool, bool, str]:
            one = self.seen[name].entry
            return one is None or one.state != "done", name.startswith(LINES), name

        return self.seen[min(self.holders[key], key=rank)]

    def _begin(self) -> None:
        """Begin to read what changed, unless somebody does, or did a moment ago."""
        with self.lock:
            if not self.scanning and time.monotonic() - self.looked > FRESH:
                self.scanning = True
                self.over.clear()
                threading.Thread(target=self._scan, daemon=True).start()

    def _scan(self) -> None:
        try:
            places = self._places()
            for name, place in places:
                self._folder(name, place)
            lines = self._archived()
            there = {*lines, *(name for name, _ in places)}
            for name in [name for name in self.seen if name not in there]:
                self._note(name, None)
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

    def _archived(self) -> list[str]:
        """The names of an archive's runs, the store itself or a file in it; read again when the file changes."""
        named = self.path.is_file()
        file = self.path if named else self.path / ARCHIVE
        signature = _stat(file)
        if signature == self.archive[0]:
            return [name for name in self.seen if name.startswith(LINES)]
        entries: list[Entry] = []
        complaints: list[str] = []
        if signature is not None:
            try:
                entries, complaints = archive(file, follow=named)
            except OSError as error:
                complaints = [f"{file} cannot be read ({error.strerror})."]
        if file != self.path:
            entries = [one for one in entries if one.state == "done"]  # as the store counts them
        for one in entries:
            self._note(f"{LINES}{one.key}", Seen(signature, None, one, row(one)))
        self.archive = (signature, complaints)
        return [f"{LINES}{one.key}" for one in entries]

    def _folder(self, name: str, place: Path) -> None:
        marks = tuple(_stat(place / mark) for mark in MARKS)
        signature = (marks, marks[MARKS.index("done")] is None and in_use(place))
        before = self.seen.get(name)
        if before is not None and before.signature == signature:
            return
        seen = Seen(signature)  # no run yet, or none any more
        if marks[0] is not None:
            entries, complaints = apart([(str(place), lambda: entry(place))])
            one = entries[0] if entries else None
            seen = Seen(signature, place, one, row(one) if one else {}, complaints[0] if complaints else "")
        self._note(name, seen)

    def _note(self, name: str, now: Seen | None) -> None:
        """What is known by this name now; None: nothing any more."""
        with self.lock:
            before = self.seen.pop(name, None)
            if before is not None and before.key:
                self.holders[before.key].discard(name)
            if now is not None:
                self.seen[name] = now
                if now.key:
                    self.holders.setdefault(now.key, set()).add(name)
            self.version += 1
            for key in {one.key for one in (before, now) if one is not None and one.key}:
                self.told[key] = self.version
                if not self.holders[key]:
                    del self.holders[key]


def row(one: Entry) -> JsonObject:
    """What the list shows of a run."""
    run = one.run
    curve = [(at, value) for at, value in one.curve() if type(at) is int and sound_number(value) is not None]
    thin = -(-len(curve) // CURVE) or 1
    facts = {name: sound_number(one.facts.get(name)) for name in ("rounds", "outer", "liars", "skipped")}
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
        "why": " ".join(one.why.split())[:MAX_REASON],
        "paper": _printed(run),
    }


def _printed(run: Run) -> JsonObject | None:
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
        stat = path.lstat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


def _number(query: dict[str, str], name: str) -> int:
    text = query.get(name, "0")
    if not text.isdecimal() or len(text) > 12:
        raise BadInput(f"{name} = {text[:40]!r} was given; it is a whole number.")
    return int(text)


def _list(given: Any) -> list[Any]:
    return given if isinstance(given, list) else []
