"""Many runs in one folder, each in a folder of its own named by its key; or the small text that is left of them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from holdfast.disk import NotRegular, read_note, read_regular, write_text
from holdfast.errors import BadInput
from holdfast.jsonable import finite_or_none
from holdfast.training import Run
from holdfast.training.code import read_code
from holdfast.training.folder import FORMAT, Folder, first_of, in_use, lines_of, read_record
from holdfast.training.own import named
from holdfast.training.remarks import is_skipped

__all__ = ["Entry", "Store"]

Line = dict[str, Any]
MAX_COMPLAINT = 400  # letters of a complaint
ARCHIVE = "archive.jsonl"
READING = (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError)  # of damaged files
STATES = ("done", "running", "begun", "failed")


def key(run: Run) -> str:
    """Return what names a run: a hash of all its fields and of the format in which they are kept.

    Parameters
    ----------
    run : Run
        The record.

    Returns
    -------
    str
        Sixteen hexadecimal digits: the name of the run's folder in a store.

    Examples
    --------
    >>> from holdfast import Run
    >>> from holdfast.experiments.store import key
    >>> key(Run(rule="Average()")) == key(Run(rule="Average()")) != key(Run(rule="Average()", seed=1))
    True
    """
    return hashlib.sha256(json.dumps([FORMAT, run.record()], sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class Entry:
    """What reports need to know of a run.

    Parameters
    ----------
    key : str
        The run's name, by `key`.
    run : Run
        The record.
    state : str
        "done", "running", "begun" or "failed".
    evaluations : list of dict
        The rounds done, and what was measured then.
    facts : dict
        What the rounds were like: how many there are, `outer` (the share of elections that Outer won), `liars` (the
        Byzantine workers' mean share of the aggregate), `skipped` rounds, `averaged` (the averaged model's accuracy)
        and `workers` (the accuracy on each worker's own test images).
    seconds : float or None
        How long it took.
    why : str
        Why it failed.
    code : list of str
        The versions of holdfast that computed it; empty where nobody noted them.

    Examples
    --------
    >>> from holdfast import Run
    >>> from holdfast.experiments.store import Entry, key
    >>> run = Run(rule="Average()")
    >>> Entry(key(run), run, "done", [{"round": 10, "accuracy": 0.5}]).accuracy
    0.5
    """

    key: str
    run: Run
    state: str
    evaluations: list[Line] = field(default_factory=list)
    facts: Line = field(default_factory=dict)
    seconds: float | None = None
    why: str = ""
    code: list[str] = field(default_factory=list)

    @property
    def accuracy(self) -> float | None:
        """The accuracy at the end of a run that is done; None: not known."""
        return self.evaluations[-1].get("accuracy") if self.state == "done" and self.evaluations else None

    def curve(self, name: str = "accuracy") -> list[tuple[int, float]]:
        """Return (rounds done, value) of every evaluation.

        Parameters
        ----------
        name : str
            Which number of the evaluations.

        Returns
        -------
        list of (int, float)
            In the order of the rounds.
        """
        values = ((line["round"], line.get(name)) for line in self.evaluations)
        return [(at, value) for at, value in values if value is not None]

    def text(self) -> str:
        """Return the entry as one line of an archive."""
        given = asdict(self) | {"run": self.run.record(), "format": FORMAT}
        if not self.code:
            del given["code"]  # as in archives that were written before versions were noted
        return json.dumps(given, allow_nan=False)

    @staticmethod
    def read(text: str | bytes) -> Entry:
        """Return the entry that such a line holds.

        Parameters
        ----------
        text : str or bytes
            One line of an archive.

        Returns
        -------
        Entry
            The entry, checked.

        Raises
        ------
        BadInput
            If it is of another format, or holds what no holdfast wrote.
        """
        given = dict(json.loads(text))
        if (theirs := given.pop("format", 0)) != FORMAT:
            raise BadInput(f"it is of format {theirs}, and this holdfast reads {FORMAT}; use the version that wrote it")
        entry = Entry(**given | {"run": Run.of(named(given["run"]))})
        entry.check()
        return entry

    def check(self) -> None:
        """Refuse what no holdfast wrote."""
        lines = isinstance(self.evaluations, list) and all(isinstance(line, dict) for line in self.evaluations)
        if not lines or not all(type(line.get("round")) is int for line in self.evaluations):
            raise BadInput("its evaluations are no list of what was measured after how many rounds")
        if not isinstance(self.facts, dict) or self.state not in STATES or not isinstance(self.why, str):
            raise BadInput("its facts, state or why are none")
        if not isinstance(self.code, list) or not all(isinstance(one, str) for one in self.code):
            raise BadInput("its code is no list of versions")
        self.check_numbers()
        if not all(line.get("accuracy") is None or 0 <= line["accuracy"] <= 1 for line in self.evaluations):
            raise BadInput("its accuracies are not between 0 and 1")
        if self.key != key(self.run):
            raise BadInput(f"its key is {self.key!r} and that of its run {key(self.run)!r}")

    def check_numbers(self) -> None:
        """Refuse numbers that no round has, as of metrics that were damaged."""
        facts = [value for name, value in self.facts.items() if name != "workers"]
        measured = [value for line in self.evaluations for value in line.values()]
        each = self.facts.get("workers")
        measured += each if isinstance(each, list) else [each]
        if not all(value is None or sound_number(value) is not None for value in (self.seconds, *facts, *measured)):
            raise BadInput("its evaluations, facts or seconds are not finite numbers")


def summarise_run(
    run: Run,
    state: str,
    lines: Iterable[Line],
    *,
    seconds: float | None = None,
    why: str = "",
    code: Iterable[str] = (),
) -> Entry:
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
        "skipped": sum(map(is_skipped, lines)),
        "averaged": last.get("averaged", {}).get("accuracy"),
        "workers": last.get("evaluation", {}).get("workers"),
    }
    return Entry(key(run), run, state, evaluations, facts, seconds=seconds, why=why, code=list(code))


class Store:
    """A folder of runs, or an archive of them (a file of JSON lines), to read; a folder can also be added to.

    Parameters
    ----------
    path : path
        The folder or the archive.

    Notes
    -----
    A file archive.jsonl in the folder holds more runs that are done: with it one goes on from an archive elsewhere.

    Examples
    --------
    >>> import tempfile
    >>> from holdfast import Run
    >>> from holdfast.experiments.store import Store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(Store(folder).state(Run(rule="Average()")), Store(folder).read())
    None ([], [])
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    @cached_property
    def archived(self) -> tuple[dict[str, Entry], list[str]]:
        """The runs of the folder's archive that are done, and complaints."""
        path = self.path / ARCHIVE
        entries, complaints = archive(path) if os.path.lexists(path) else ([], [])
        return {one.key: one for one in entries if one.state == "done"}, complaints

    def place(self, run: Run) -> Path:
        """Return the run's folder, there or not.

        Parameters
        ----------
        run : Run
            The record.

        Returns
        -------
        Path
            A folder named by the run's key.
        """
        return self.path / key(run)

    def state(self, run: Run) -> str | None:
        """Return how far a run is.

        Parameters
        ----------
        run : Run
            The record.

        Returns
        -------
        str or None
            "done", "running", "begun", "failed", or "broken": done, but not this run. None: not there.

        Raises
        ------
        BadInput
            If the store is a file.
        """
        if self.path.exists() and not self.path.is_dir():
            raise BadInput(f"{self.path} is a file; name a folder for the runs.")
        name = key(run)
        if name in self.archived[0]:
            return "done"
        state = _state(self.path / name)
        return "broken" if state == "done" and not _sound(self.path / name, run) else state

    def read(self) -> tuple[list[Entry], list[str]]:
        """Return all runs, and a sentence on each folder or line that holds none."""
        if not self.path.exists():
            raise BadInput(f"{self.path} is not there; name a folder of runs, or an archive of them (.jsonl).")
        if not self.path.is_dir():
            return archive(self.path, follow=True)
        if (self.path / "record.json").exists():
            raise BadInput(f"{self.path} is one run and no store; name the folder that it lies in.")
        places = [
            (str(place), place) for place in sorted(self.path.iterdir()) if place.is_dir() and place.name[0] != "."
        ]
        entries, complaints = apart((where, lambda place=place: entry(place)) for where, place in places)
        folders = [place for place in entries if place.key not in self.archived[0]]
        return sorted([*self.archived[0].values(), *folders], key=lambda place: place.key), [
            *complaints,
            *self.archived[1],
        ]


def archive(path: Path, *, follow: bool = False) -> tuple[list[Entry], list[str]]:
    """The runs of an archive, and a sentence on each line that holds none; a link is followed if the user named it."""
    try:
        lines = enumerate(read_regular(path, follow=follow).splitlines(), 1)
    except NotRegular as error:
        return [], [f"{path}: {error}."]
    entries, complaints = apart((f"{path}:{at}", lambda line=line: Entry.read(line)) for at, line in lines)
    return list({one.key: one for one in entries}.values()), complaints


def apart(readers: Iterable[tuple[str, Any]]) -> tuple[list[Entry], list[str]]:
    """What could be read, by pairs of where and how; and a sentence on each that could not."""
    entries, complaints = [], []
    for where, read in readers:
        try:
            entries.append(read())
        except READING as error:
            said = str(error) if isinstance(error, BadInput) else f"it holds no run ({type(error).__name__}: {error})"
            said = said.rstrip(".")[:MAX_COMPLAINT]
            complaints.append(said + "." if said.startswith(where) else f"{where}: {said}.")
    return entries, complaints


def _state(place: Path) -> str | None:
    if not os.path.lexists(place / "record.json"):
        return None
    if (place / "done").exists():
        return "done"
    if in_use(place):
        return "running"
    if (place / "done").exists():  # it ended while we looked
        return "done"
    return "failed" if os.path.lexists(place / "failed") else "begun"


def entry(place: Path) -> Entry:
    """The run of one folder."""
    if place.is_symlink():
        raise BadInput(f"{place} is a link, which is not followed; move the run's folder itself here")
    state = _state(place)
    if state is None:
        raise BadInput(f"{place} has no record.json, so it is no run; move it elsewhere")
    run = read_record(place)
    if len(place.name) == 16 and place.name != key(run) and all(letter in "0123456789abcdef" for letter in place.name):
        raise BadInput(f"{place} holds another run than its name says, that of {key(run)}; move it elsewhere")
    seconds = _seconds(place / "timing.json")
    if state == "done" and (summary := _summary(place, key(run))):
        return Entry(**vars(summary) | {"seconds": seconds, "code": read_code(place)})
    why = why_failed(place) if state == "failed" else ""
    lines: Iterable[Line] = first_of(place, run.rounds) if state == "done" else lines_of(place)
    read = summarise_run(run, state, lines, seconds=seconds, why=why, code=read_code(place))
    read.check_numbers()
    return read


def sound_number(value: object) -> float | None:
    """A number of a record; None for what a damaged record holds instead."""
    return finite_or_none(value, below=1e300)


def _sound(place: Path, run: Run) -> bool:
    """Whether a folder that is done holds this run."""
    try:
        same = key(read_record(place)) == key(run)
        return same and ((place / "summary.json").exists() or bool(Folder(place, run).whole()))
    except BadInput:
        return False


def why_failed(place: Path) -> str:
    """The note of a run that failed."""
    try:
        return read_note(place / "failed")
    except NotRegular as error:
        return f"why is not known: {error}."
    except OSError:
        return ""


def summarise(place: Path, run: Run) -> None:
    """Leave beside a finished run what reports need, so that they need not read all of its rounds."""
    if not (place / "summary.json").exists():
        write_text(
            place / "summary.json", summarise_run(run, "done", Folder(place, run).whole(), code=read_code(place)).text()
        )


def _summary(place: Path, name: str) -> Entry | None:
    try:
        summary = Entry.read(read_regular(place / "summary.json"))
    except READING:
        return None
    return summary if summary.key == name else None


def _seconds(path: Path) -> float | None:
    try:
        return sound_number(json.loads(read_note(path))["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
