"""What a training carries from round to round, and how the model moves. Saved and restored to the bit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.disk import open_regular, write_whole
from holdfast.errors import BadInput
from holdfast.npz import read_arrays
from holdfast.training.run import Run
from holdfast.training.task import Task


@dataclass(eq=False)
class State:
    """The model, the mean of all models so far, each worker's momentum, the last aggregate, the next round.

    All draws are functions of the record and the round, so no generator needs to be kept. Whoever drives a loop
    with a state of their own starts from a fresh one after an exception: it may be half a round ahead.
    """

    model: np.ndarray
    average: np.ndarray
    momenta: np.ndarray | None = None
    last: np.ndarray | None = None
    round: int = 0
    skipped: bool = False

    @staticmethod
    def first(run: Run, task: Task) -> State:
        model = task.start()
        momenta = np.zeros((run.workers, len(model)), model.dtype) if run.momentum else None
        return State(model, np.zeros(len(model)), momenta)

    def remember(self, run: Run, who: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Each worker's momentum with its new gradient: what it sends, in an array that may be written to.

        A gradient that is not finite is sent as it is, and does not stay in the worker's memory.
        """
        if self.momenta is None:
            return rows
        with np.errstate(over="ignore", invalid="ignore"):
            sound = np.isfinite(rows.sum(axis=1))
        if not sound.all():  # or so large that only their sum is not finite
            sound = np.isfinite(rows).all(axis=1)
        if sound.all() and len(who) == run.workers:
            self.momenta *= run.momentum
            rows *= 1 - run.momentum
            self.momenta += rows
            rows[:] = self.momenta
            return rows
        good = who[sound]
        self.momenta[good] = run.momentum * self.momenta[good] + (1 - run.momentum) * rows[sound]
        rows[sound] = self.momenta[good]
        return rows

    def stepped(self, run: Run, aggregate: np.ndarray, t: int) -> np.ndarray:
        """The model after a step along the aggregate, or as it is if the step is rejected."""
        step = self._step(run, aggregate, t)
        return self.model.copy() if step is None else self._after(step)

    def _step(self, run: Run, aggregate: np.ndarray, t: int) -> np.ndarray | None:
        """What is taken off the model; the server decays the weights: nobody can lie about that. None: rejected."""
        rate = run.lr * run.schedule(t, run.rounds)
        with np.errstate(over="ignore", invalid="ignore"):
            step = run.shrink * aggregate
            if run.weight_decay:
                step = step + run.weight_decay * self.model
            step = np.asarray(rate * step)
            return step if run.reject is None or np.linalg.norm(step) < run.reject else None

    def _after(self, step: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            return (self.model - step).astype(self.model.dtype, copy=False)

    def move(self, run: Run, aggregate: np.ndarray, t: int) -> list[str]:
        """Take the step and go on to the next round; a model that would not be finite stays where it is."""
        self.round = t + 1
        step = self._step(run, aggregate, t)
        if step is None:
            return [f"skipped: a step of norm {run.reject:g} or more is rejected"]
        model = self._after(step)
        if not np.isfinite(model).all():
            return ["skipped: the model would not be finite"]
        self.model, self.last = model, aggregate
        return []

    def _shapes(self) -> list[Any]:
        return [None if a is None else (a.shape, a.dtype) for a in (self.model, self.average, self.momenta)]

    def save(self, path: Path) -> None:
        """To a file, at once: whoever is interrupted leaves the old one."""
        held = {name: value for name, value in vars(self).items() if value is not None and name != "skipped"}
        write_whole(path, lambda file: np.savez(file, **held), sync=True)

    @staticmethod
    def load(path: Path, first: State | None = None) -> State:
        """From such a file, for a training that begins like `first`, if it is given."""
        try:
            with open_regular(path) as file:
                arrays: dict[str, Any] = dict(read_arrays(file))
            if arrays["round"].dtype.kind != "i" or arrays["round"] < 1:
                raise ValueError("its round is none")
            arrays["round"] = int(arrays["round"])
            state = State(**arrays)
            if not np.isfinite(state.model).all():
                raise ValueError("its model is not finite")
            if first is not None and state._shapes() != first._shapes():
                raise ValueError(f"it holds {state.model.shape} of {state.model.dtype}, of another model or momentum")
            return state
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{path} is no checkpoint of a training ({error}); delete it to start again.") from None
