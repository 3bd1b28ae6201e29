"""One training from its record to its result: loop, evaluation, checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import BadInput
from holdfast.training.folder import Folder
from holdfast.training.loop import rashb, two_phase_rashb
from holdfast.training.run import Run
from holdfast.training.state import State
from holdfast.training.task import Task

Line = dict[str, Any]
SAVE = 20.0  # seconds between checkpoints


@dataclass(frozen=True, eq=False)
class Result:
    """A finished training: its record, a line a round, the last and the averaged model."""

    run: Run
    lines: list[Line]
    model: np.ndarray
    average: np.ndarray

    @property
    def accuracy(self) -> float:
        """Of the last model, on everybody's test data."""
        return float(self.final["accuracy"])

    @property
    def final(self) -> Line:
        """The last evaluation."""
        return next((line["evaluation"] for line in reversed(self.lines) if "evaluation" in line), {})

    def curve(self, name: str = "accuracy") -> list[tuple[int, float]]:
        """(rounds done, value) of every evaluation."""
        found = ((line["round"] + 1, line["evaluation"].get(name)) for line in self.lines if "evaluation" in line)
        return [(at, value) for at, value in found if value is not None]

    def kept(self) -> np.ndarray:
        """(rounds, workers) letters: k kept, - left out, x dropped, . absent; a column is a worker's history."""
        blank = "." * self.run.workers
        return np.array([list(line["kept"] or blank) for line in self.lines])

    def winners(self) -> list[str]:
        """Which candidate won in each round; empty where there was no election."""
        return [line["winner"] for line in self.lines]

    def events(self) -> list[tuple[int, str]]:
        """(round, what happened) of all that was out of the ordinary."""
        return [(line["round"], event) for line in self.lines for event in line["events"]]


def train(
    run: Run,
    folder: Path | str | None = None,
    task: Task | None = None,
    data: Path | str | None = None,
    on_round: Callable[[Line], None] | None = None,
    save: float = SAVE,
) -> Result:
    """Run a training to its end, or from where it was interrupted if its `folder` holds it.

    `task` stands in for torch workers on the run's data set, which is looked for in the folder `data` first.
    `on_round` hears every line as it comes; a checkpoint is written every `save` seconds.
    """
    kept = None if folder is None else Folder(Path(folder), run)
    if kept and kept.done:
        return finished(kept)
    with threads(run.threads):
        return _trained(run, kept, task or _workers(run, data), on_round, save)


def _trained(run: Run, kept: Folder | None, task: Task, on_round: Callable[[Line], None] | None, save: float) -> Result:
    began = time.monotonic()
    if task.workers != run.workers:
        raise BadInput(
            f"train was given a run of {run.workers} workers and a task of {task.workers}; make them the same."
        )
    state = (kept.state() if kept else None) or State.first(run, task)
    lines = list(kept.lines()) if kept else []
    for new in _saved(run, task, state, kept, save):
        lines.append(new)
        if on_round:
            on_round(new)
    if kept:
        kept.finish(state, time.monotonic() - began)
    return Result(run, lines, state.model, state.average)


def _saved(run: Run, task: Task, state: State, kept: Folder | None, save: float) -> Iterator[Line]:
    """The rounds' lines, written down from time to time."""
    waiting: list[Line] = []
    saved = time.monotonic()
    for line in rounds(run, task, state):
        waiting.append(line)
        if kept and (time.monotonic() - saved > save or state.round == run.rounds):
            kept.add(waiting, state)
            waiting, saved = [], time.monotonic()
        yield line


def rounds(run: Run, task: Task, state: State) -> Iterator[Line]:
    """The loop's records as plain lines, with an evaluation every so many rounds and at the end."""
    loop = two_phase_rashb if run.two_phase else rashb
    for record in loop(run, task, state):
        line: Line = {**asdict(record), "events": list(record.events)}
        if state.round % run.every == 0 or state.round == run.rounds:
            line["evaluation"] = task.evaluate(state.model)
            if state.round == run.rounds:
                line["averaged"] = task.evaluate(state.average.astype(state.model.dtype))
        yield line


@contextmanager
def threads(wanted: int) -> Iterator[None]:
    """So many threads of torch and one of numpy's products, then as many as before.

    Both wait actively after work for more, each on the other's time: a round of the paper's takes twice as long.
    """
    try:
        import torch
        from threadpoolctl import threadpool_limits
    except ImportError:  # without torch there is nobody to wait for
        yield
        return
    before = torch.get_num_threads()
    with threadpool_limits(limits=1, user_api="blas"):
        torch.set_num_threads(wanted)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def finished(kept: Folder) -> Result:
    """What a folder holds that is done."""
    with np.load(kept.path / "model.npz", allow_pickle=False) as models:
        return Result(kept.run, list(kept.lines()), models["last"], models["average"])


def _workers(run: Run, data: Path | str | None) -> Task:
    try:
        from holdfast.training.workers import Workers
    except ImportError as error:
        raise BadInput(f"training on images needs {error.name}; pip install 'holdfast[train]'.") from None
    return Workers(run, data)
