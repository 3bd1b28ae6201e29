"""Runs in several processes, one run at a time in each; a process that dies takes only its own run with it."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from holdfast.errors import BadInput, BrokenRule, Unwritable
from holdfast.experiments.store import summarise
from holdfast.training import Result, Run, train
from holdfast.training.folder import InUse

Key = TypeVar("Key")
SECONDS_BETWEEN_NEWS = 0.5  # seconds between two messages of a run
AGAIN = 1.0  # seconds until a run that another process has is looked at again


@dataclass(frozen=True)
class News:
    """Of one run: it `began`, is at a `round`, is `done`, `failed` (why, and whether it had `begun`), is `busy` in
    another process, its folder is `unwritable`, or it was `there` already.

    `cost` is the processor time of a round without an evaluation, in seconds, in the median; None if there was none.
    """

    key: Any
    what: str
    round: int = 0
    accuracy: float | None = None
    why: str = ""
    begun: bool = True
    result: Result | None = None
    cost: float | None = None


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def checked(processes: int | None) -> int | None:
    """How many at a time, if it is possible; None: as many as there is room for."""
    if processes is not None and processes < 1:
        raise BadInput(f"{processes} processes were asked for; it takes at least 1.")
    return processes


def trained(
    runs: Mapping[Key, Run], processes: int | None = None, data: Path | None = None
) -> Iterator[tuple[Key, Result]]:
    """Each run's key and result, in the order in which they end. A run that fails is an error that names it."""
    for news in carried_out({name: (run, None) for name, run in runs.items()}, processes, data):
        if news.what == "failed":
            raise BadInput(f"{news.key}: {news.why}")
        if news.result is not None:
            yield news.key, news.result


def carried_out(
    jobs: Mapping[Any, tuple[Run, Path | None]],
    processes: int | None = None,
    data: Path | None = None,
    *,
    certify: Collection[Any] = (),
) -> Iterator[News]:
    """Run every job in its folder, or in none and with its result in the news; news as they come.

    The runs that `certify` names have a certificate of every round. A caller that stops listening ends the processes;
    runs in folders go on from there another time.
    """
    waiting, later = deque(jobs), dict[Any, float]()
    idle = [_Hand(data) for _ in range(min(checked(processes) or cores(), len(jobs)))]
    busy: list[_Hand] = []
    try:
        while waiting or later or busy:
            for name in [name for name, at in later.items() if at <= time.monotonic()]:
                waiting.append(name)
                del later[name]
            while waiting and idle:
                hand = idle.pop()
                busy.append(hand)
                name = waiting.popleft()
                hand.take(name, (*jobs[name], name in certify))
                yield News(name, "began")
            for hand in _ready(busy):
                news = hand.news()
                if news.what != "round":
                    busy.remove(hand)
                    idle.append(hand)
                if news.what == "busy":
                    later[news.key] = time.monotonic() + AGAIN
                yield news
    finally:
        for hand in [*idle, *busy]:
            hand.end()


def answered(function: Callable[[Any], Any], given: Any, seconds: float) -> Any:
    """The answer of a function, called in a process of its own.

    Raises
    ------
    BrokenRule
        If the process ends without an answer, or has none after `seconds`.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_answer, args=(theirs, function, given), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(seconds):
            raise BrokenRule(f"{given!r} gave no answer within {seconds:g} seconds.")
        return ours.recv()
    except EOFError:
        raise BrokenRule(f"{given!r} ended its process without an answer.") from None
    finally:
        process.terminate()
        process.join()


def _answer(pipe: Connection, function: Callable[[Any], Any], given: Any) -> None:
    _alone()
    pipe.send(function(given))


class _Hand:
    """A process that works on one run at a time; if it dies, the next run gets a new one."""

    def __init__(self, data: Path | None) -> None:
        self.data = data
        self.key: Any = None
        self.process: Any = None
        self.pipe: Connection | None = None
        self.heard = False

    def take(self, key: Any, job: tuple[Run, Path | None, bool]) -> None:
        """Begin with a run."""
        self.key = key
        if self.process is None or not self.process.is_alive():
            context = multiprocessing.get_context("spawn")
            self.pipe, theirs = context.Pipe()
            self.process = context.Process(target=_serve, args=(theirs, self.data), daemon=True)
            self.process.start()
            theirs.close()
        with suppress(OSError):  # of one that died just now there will be news
            assert self.pipe is not None
            self.pipe.send(job)

    def news(self) -> News:
        """What there is to tell; waits for it."""
        try:
            assert self.pipe is not None
            came = News(self.key, **self.pipe.recv())
            self.heard = True
            return came
        except (EOFError, OSError):
            self.process.join()
            code, self.process = self.process.exitcode, None
            ended = f"was ended by signal {-code}, perhaps for lack of memory" if code < 0 else f"ended with {code}"
            hint = "" if self.heard or code < 0 else "; a script starts sweeps under if __name__ == '__main__':"
            return News(self.key, "failed", why=f"its process {ended}{hint}; nothing that it saved is lost.")

    def end(self) -> None:
        """Do not wait for the run."""
        if self.process is not None and self.process.pid is not None:
            self.process.terminate()
            self.process.join()


def _ready(hands: list[_Hand]) -> list[_Hand]:
    """Those that have something to tell; waits for one, but not for long."""
    ready = wait([hand.pipe for hand in hands if hand.pipe is not None], timeout=AGAIN)
    return [hand for hand in hands if hand.pipe in ready]


def _serve(pipe: Connection, data: Path | None) -> None:
    """What a process does: runs, as long as it is given any."""
    _alone()
    while True:
        try:
            run, place, certify = pipe.recv()
        except EOFError:
            return
        pipe.send(_train_one(run, place, data, pipe, certify=certify))


def _train_one(run: Run, place: Path | None, data: Path | None, pipe: Connection, *, certify: bool) -> dict[str, Any]:
    last, costs = time.monotonic(), list[float]()
    before: float | None = None

    def tell(line: dict[str, Any]) -> None:
        nonlocal last, before
        now = time.process_time()
        if before is not None and "evaluation" not in line:
            costs.append(now - before)
        before = now
        accuracy = line.get("evaluation", {}).get("accuracy")
        if accuracy is not None or time.monotonic() - last > SECONDS_BETWEEN_NEWS:
            last = time.monotonic()
            pipe.send({"what": "round", "round": line["round"] + 1, "accuracy": accuracy})

    try:
        result = train(run, place, data=data, on_round=tell, certify=certify)
        if place is not None:
            summarise(place, run)
    except InUse as error:
        return {"what": "busy", "why": str(error)}
    except Unwritable as error:
        return {"what": "unwritable", "why": str(error)}
    except BadInput as error:
        return {"what": "failed", "why": str(error)}
    except Exception as error:  # whatever a run does, the others go on
        return {"what": "failed", "why": f"{type(error).__name__}: {error}"}
    return {
        "what": "done",
        "round": run.rounds,
        "accuracy": result.final.get("accuracy"),
        "result": None if place else result,
        "cost": median(costs) if costs else None,
    }


def _alone() -> None:
    """The parent answers an interrupt; a child whose parent is gone goes too; what it would log is in the record."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("holdfast").setLevel(logging.ERROR)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
