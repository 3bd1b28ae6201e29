"""What a training carries from round to round, and how the model moves. Saved and restored to the bit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.disk import open_regular, write_whole
from holdfast.errors import BadInput
from holdfast.npz import read_arrays
from holdfast.training.late import Numbers, to_arrays, to_mailbox
from holdfast.training.run import Run
from holdfast.training.server import directed
from holdfast.training.task import Task


@dataclass(eq=False)
class State:
    """What a training carries from round to round.

    Parameters
    ----------
    model : numpy.ndarray
        The model, a flat vector.
    average : numpy.ndarray
        The mean of all models so far.
    momenta : numpy.ndarray or None
        Each worker's momentum.
    last : numpy.ndarray or None
        The last aggregate.
    round : int
        The next round.
    skipped : bool
        Whether a round was skipped.
    memory : numpy.ndarray or None
        What the server's optimiser remembers, one row for each moment.
    trusted : numpy.ndarray or None
        The momentum of the server's own gradient, if it has images and there is momentum.
    mail : Mailbox or None
        The replies that wait for a round, if replies come late.
    time : int
        When the next round begins, in units of a round without late replies.

    Notes
    -----
    All draws are functions of the record and the round, so no generator needs to be kept. If a loop that you drive
    with your own state raises, start again from a fresh state: the old one may be half a round ahead.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.training import Functions, Run, State
    >>> task = Functions(workers=3, first=np.zeros(2), update=lambda worker, model, t: model - worker)
    >>> State.first(Run(rule="MeanwO(f=1)", workers=3), task).momenta.shape
    (3, 2)
    """

    model: np.ndarray
    average: np.ndarray
    momenta: np.ndarray | None = None
    last: np.ndarray | None = None
    round: int = 0
    skipped: bool = False
    memory: np.ndarray | None = None
    trusted: np.ndarray | None = None
    mail: Numbers | None = None
    time: int = 0

    @staticmethod
    def first(run: Run, task: Task) -> State:
        """Return the state before the first round.

        Parameters
        ----------
        run : Run
            The record of the training.
        task : Task
            The workers' side, which has the first model.

        Returns
        -------
        State
            The first model, no momentum yet, round 0.
        """
        model = task.start()
        momenta = np.zeros((run.workers, len(model)), model.dtype) if run.momentum else None
        trusted = np.zeros_like(model) if run.momentum and run.root else None
        memory, mail = run.server.begin(model), run.late.mailbox()
        return State(model, np.zeros(len(model)), momenta, memory=memory, trusted=trusted, mail=mail)

    def trust(self, run: Run, gradient: np.ndarray) -> np.ndarray:
        """Return where rules start: the server's own gradient, with the momentum that workers have.

        Parameters
        ----------
        run : Run
            The record of the training.
        gradient : numpy.ndarray
            The server's gradient of this round.

        Returns
        -------
        numpy.ndarray
            A gradient that is not finite is returned as it is, and does not stay in memory.
        """
        if self.trusted is None or not np.isfinite(gradient).all():
            return gradient
        self.trusted = run.momentum * self.trusted + (1 - run.momentum) * gradient
        return self.trusted.copy()  # others look at it

    def remember(self, run: Run, who: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return what the workers send: each one's momentum with its new gradient, in an array that may be written to.

        Parameters
        ----------
        run : Run
            The record of the training.
        who : numpy.ndarray
            The workers of this round.
        rows : numpy.ndarray
            Their gradients.

        Returns
        -------
        numpy.ndarray
            One row for each worker. A gradient that is not finite is sent as it is, and does not stay in the worker's
            memory.
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
        """Return the model after a step along the aggregate, or as it is if the step is rejected.

        Parameters
        ----------
        run : Run
            The record of the training.
        aggregate : numpy.ndarray
            The rule's answer.
        t : int
            The round.

        Returns
        -------
        numpy.ndarray
            A new model; the state stays as it is.
        """
        step, _ = self._step(run, aggregate, t)
        return self.model.copy() if step is None else self._after(step)

    def _step(self, run: Run, aggregate: np.ndarray, t: int) -> tuple[np.ndarray | None, np.ndarray | None]:
        """What is taken off the model, None if it is rejected; and what the server's optimiser remembers then.

        The server decays the weights: nobody can lie about that.
        """
        with np.errstate(all="ignore"):
            step, memory = directed(run.server, run.shrink * aggregate, self.memory)
            if run.weight_decay:
                step = step + run.weight_decay * self.model
            step = np.asarray(run.lr * run.schedule(t, run.rounds) * step)
            return (step if run.reject is None or np.linalg.norm(step) < run.reject else None), memory

    @staticmethod
    def rate(run: Run, t: int) -> float:
        """Return the length of a step of plain SGD along the aggregate.

        Parameters
        ----------
        run : Run
            The record of the training.
        t : int
            The round.

        Returns
        -------
        float
            The learning rate of the round, times `shrink`. Attacks and the proximal margin use it with every server
            optimiser.
        """
        return float(run.lr * run.schedule(t, run.rounds) * run.shrink)

    def _after(self, step: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            return (self.model - step).astype(self.model.dtype, copy=False)

    def move(self, run: Run, aggregate: np.ndarray, t: int) -> list[str]:
        """Take the step and go on to the next round; a skipped step changes neither the model nor the memory.

        Parameters
        ----------
        run : Run
            The record of the training.
        aggregate : numpy.ndarray
            The rule's answer.
        t : int
            The round.

        Returns
        -------
        list of str
            Why the step was skipped; empty if it was taken.
        """
        self.round = t + 1
        step, memory = self._step(run, aggregate, t)
        if step is None:
            return [f"skipped: a step of norm {run.reject:g} or more is rejected"]
        model = self._after(step)
        if not np.isfinite(model).all():
            return ["skipped: the model would not be finite"]
        if memory is not None and not np.isfinite(memory).all():
            return [f"skipped: what {run.server!r} remembers would not be finite"]
        self.model, self.last, self.memory = model, aggregate, memory
        return []

    def _keeps(self) -> bool:
        return self.mail is not None and self.mail.keeps

    def _shapes(self) -> list[Any]:
        arrays = (self.model, self.average, self.momenta, self.memory, self.trusted)
        return [None if a is None else (a.shape, a.dtype) for a in arrays]

    def save(self, path: Path) -> None:
        """Write the state to a file, whole or not at all: an interrupt leaves the old one.

        Parameters
        ----------
        path : Path
            The file.
        """
        left_out = ("skipped", "mail")
        held = {name: value for name, value in vars(self).items() if value is not None and name not in left_out}
        held |= to_arrays(self.mail) if self.mail else {}
        write_whole(path, lambda file: np.savez(file, **held), sync=True)

    @staticmethod
    def load(path: Path, first: State | None = None) -> State:
        """Read a state from such a file.

        Parameters
        ----------
        path : Path
            The file.
        first : State, optional
            The first state of the training. With it, a file of another model or momentum is refused.

        Returns
        -------
        State
            The same to the bit.

        Raises
        ------
        BadInput
            If the file is no checkpoint of this training.
        """
        try:
            with open_regular(path) as file:
                arrays: dict[str, Any] = dict(read_arrays(file))
            if arrays["round"].dtype.kind != "i" or arrays["round"] < 1:
                raise ValueError("its round is none")
            arrays["round"] = int(arrays["round"])
            arrays["time"] = int(arrays.get("time", 0))  # older files have none
            mail = to_mailbox(arrays, arrays["model"])
            state = State(**arrays, mail=mail)
            if first is not None and (first.mail is None, first._keeps()) != (mail is None, state._keeps()):
                raise ValueError("it holds late replies of another training")
            if not np.isfinite(state.model).all():
                raise ValueError("its model is not finite")
            if state.memory is not None and not np.isfinite(state.memory).all():
                raise ValueError("what its server remembers is not finite")
            if first is not None and state._shapes() != first._shapes():
                raise ValueError(f"it holds {state.model.shape} of {state.model.dtype}, of another model or momentum")
            return state
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadInput(f"{path} is no checkpoint of a training ({error}); delete it to start again.") from None
