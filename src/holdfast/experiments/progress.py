"""What a sweep is at: how much is done, what runs, what failed, how long the rest will take."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.attacks import PGA, Canvass, CodedPGA
from holdfast.experiments.pool import News
from holdfast.experiments.sweep import Runs
from holdfast.training import Run, State
from holdfast.training.loop import rashb, two_phase_rashb
from holdfast.training.train import threads

SEARCHES = (PGA, Canvass, CodedPGA)
WARM, TIMED = 2, 6  # rounds of a probe


@dataclass
class Live:
    """A run that is under way: since when, its round and accuracy as last heard."""

    since: float
    round: int = 0
    accuracy: float | None = None
    first: tuple[float, int] | None = None  # time and round of its first news


@dataclass
class Progress:
    """Hears the news of a sweep."""

    runs: Runs
    there: int = 0
    done: int = 0
    busy: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    running: dict[str, Live] = field(default_factory=dict)
    paces: dict[str, float] = field(default_factory=dict)  # rule -> seconds a round

    def __post_init__(self) -> None:
        self.left = dict(self.runs)

    def hear(self, news: News) -> None:
        """Take note."""
        self.busy.discard(news.key)
        if news.what == "began":
            self.running[news.key] = Live(time.monotonic())
        elif news.what == "round":
            self._round(news)
        elif (live := self.running.pop(news.key, None)) and news.what == "done":
            run = self.runs[news.key]  # a cluster tells no rounds
            self.paces.setdefault(repr(run.rule), (time.monotonic() - live.since) / run.rounds)
        if news.what == "busy":
            self.busy.add(news.key)
        elif news.what in ("there", "done", "failed"):
            self.left.pop(news.key, None)
            self.there += news.what == "there"
            self.done += news.what == "done"
            if news.what == "failed":
                self.failed[news.key] = news.why

    def _round(self, news: News) -> None:
        now = time.monotonic()
        live = self.running.setdefault(news.key, Live(now))
        live.round = news.round
        live.accuracy = live.accuracy if news.accuracy is None else news.accuracy
        if live.first is None:
            live.first = (now, news.round)
        elif news.round > live.first[1]:
            self.paces[repr(self.runs[news.key].rule)] = (now - live.first[0]) / (news.round - live.first[1])

    def seconds(self) -> float | None:
        """How long the rest will take with as many processes as there are now; None: nobody knows yet."""
        if not self.left:
            return 0.0
        if not self.paces:
            return None
        usual = sum(self.paces.values()) / len(self.paces)
        work = sum(
            (run.rounds - (self.running[name].round if name in self.running else 0))
            * self.paces.get(repr(run.rule), usual)
            for name, run in self.left.items()
        )
        return work / max(1, len(self.running))


def estimate(runs: Iterable[Run], data: Path | None, jobs: int) -> float:
    """Seconds that runs will take here, by a few rounds of each kind: one phase or two, with or without a search."""
    kinds: dict[tuple[bool, bool], list[Run]] = {}
    for run in runs:
        kinds.setdefault((run.two_phase, isinstance(run.attack, SEARCHES)), []).append(run)
    total = 0.0
    for alike in kinds.values():
        start, pace = _pace(alike[len(alike) // 2], data)
        total += sum(start + run.rounds * pace for run in alike)
    return total / max(1, jobs)


def _pace(run: Run, data: Path | None) -> tuple[float, float]:
    """Seconds to begin and to end, and seconds a round, evaluations included."""
    from holdfast.training.workers import Workers

    with threads(run.threads):
        first = time.perf_counter()
        task = Workers(run, data)
        loaded = time.perf_counter() - first
        state = State.first(run, task)
        loop = (two_phase_rashb if run.two_phase else rashb)(run.changed(rounds=WARM + TIMED), task, state)
        for _ in range(WARM):
            next(loop)
        began = time.perf_counter()
        rounds = sum(1 for _ in loop)
        middle = time.perf_counter()
        task.evaluate(state.model)
        looked = time.perf_counter() - middle
        return loaded + 2 * looked, (middle - began) / rounds + looked / run.every


def spoken(seconds: float | None) -> str:
    """A time as people say it.

    >>> spoken(42), spoken(600), spoken(8000), spoken(None)
    ('42 s', '10 min', '2 h 13 min', '?')
    """
    if seconds is None:
        return "?"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
