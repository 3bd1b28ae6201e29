"""What the loop needs to know of the workers: updates, losses, an evaluation. Plain functions will do.

A model is a flat vector here, and an update too; `workers.py` has the task for torch modules on images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from holdfast.errors import BadInput

Vector = np.ndarray
Failures = dict[int, str]


class Task(Protocol):
    """The workers' side of a training: what the loop needs to know of them.

    Notes
    -----
    Any object with these methods will do, such as `Functions` or `Workers`. A model is a flat vector, and an update
    too. `t` is the round; all draws are a function of it.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.training import Functions, Task
    >>> task: Task = Functions(workers=3, first=np.zeros(2), update=lambda worker, model, t: model - worker)
    >>> task.start()
    array([0., 0.])
    """

    @property
    def workers(self) -> int:
        """How many workers there are."""

    def start(self) -> Vector:
        """Return the first model."""

    def updates(self, model: Vector, who: np.ndarray, t: int) -> tuple[Any, Failures]:
        """Return one update for each worker in `who`, and who failed, and why.

        Parameters
        ----------
        model : numpy.ndarray
            The model of this round.
        who : numpy.ndarray
            The workers of this round.
        t : int
            The round.

        Returns
        -------
        updates : numpy.ndarray of shape (n, d), or list
            One row or one entry for each worker.
        failures : dict from int to str
            The workers that failed, each with the reason.
        """

    def losses(self, models: Sequence[Vector], who: np.ndarray, t: int) -> np.ndarray:
        """Return each worker's loss at each model, on data that it draws for the vote.

        Parameters
        ----------
        models : sequence of numpy.ndarray
            The candidates.
        who : numpy.ndarray
            The workers of this round.
        t : int
            The round.

        Returns
        -------
        numpy.ndarray of shape (workers, models)
            The losses.
        """

    def evaluate(self, model: Vector) -> dict[str, Any]:
        """Return numbers for the record, by name.

        Parameters
        ----------
        model : numpy.ndarray
            The model to evaluate.

        Returns
        -------
        dict
            Numbers, texts and lists of them.
        """


@runtime_checkable
class TrustedTask(Protocol):
    """A task whose server has data of its own, for a run with `root`."""

    def server_gradient(self, model: Vector, t: int) -> Vector:
        """Return the server's own gradient.

        Parameters
        ----------
        model : numpy.ndarray
            The model of this round.
        t : int
            The round.

        Returns
        -------
        numpy.ndarray
            As long as the model.
        """


@dataclass(frozen=True, eq=False)
class Functions:
    """A task of plain functions, for workers that are no torch modules.

    Parameters
    ----------
    workers : int
        How many workers there are.
    first : numpy.ndarray
        The first model, a flat vector of finite floats.
    update : callable
        `update(worker, model, t)` returns a worker's update.
    loss : callable, optional
        `loss(worker, model, t)` returns a worker's loss. Two phases need it.
    evaluation : callable, optional
        `evaluation(model)` returns numbers for the record, by name.
    samples : sequence of int, optional
        How many samples each worker has. `Run(weights="samples")` needs it.
    trusted : callable, optional
        `trusted(model, t)` returns the server's own gradient. `Run(root=...)` needs it.

    Notes
    -----
    A worker that raises is noted and left out of the round.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.training import Functions
    >>> task = Functions(workers=3, first=np.zeros(2), update=lambda worker, model, t: model - worker)
    >>> task.updates(task.start(), np.arange(3), 0)[0]
    [array([0., 0.]), array([-1., -1.]), array([-2., -2.])]
    """

    workers: int
    first: Vector
    update: Callable[[int, Vector, int], Any]
    loss: Callable[[int, Vector, int], float] | None = None
    evaluation: Callable[[Vector], Mapping[str, Any]] | None = None
    samples: Sequence[int] | None = None
    trusted: Callable[[Vector, int], Vector] | None = None

    def start(self) -> Vector:
        """Return the first model."""
        first = np.array(self.first)
        if first.ndim != 1 or first.dtype.kind != "f" or not np.isfinite(first).all():
            raise BadInput("Functions was given a first model that is no flat vector of finite floats; ravel() yours.")
        return first

    def updates(self, model: Vector, who: np.ndarray, t: int) -> tuple[list[Any], Failures]:
        """Return one update for each worker in `who`, and who failed, and why.

        Parameters
        ----------
        model, who, t
            As for `Task.updates`.

        Returns
        -------
        updates : list
            One entry for each worker; None for a worker that raised.
        failures : dict from int to str
            The workers that raised, each with the reason.
        """
        rows: list[Any] = []
        failed: Failures = {}
        for worker in map(int, who):
            try:
                rows.append(self.update(worker, model.copy(), t))
            except (Exception, SystemExit) as error:
                rows.append(None)
                failed[worker] = f"{type(error).__name__}: {error}"
        return rows, failed

    def server_gradient(self, model: Vector, t: int) -> Vector:
        """Return the server's own gradient.

        Parameters
        ----------
        model, t
            As for `Task.server_gradient`.

        Returns
        -------
        numpy.ndarray
            What `trusted` returned.
        """
        if self.trusted is None:
            raise BadInput("Functions was given no trusted=, the server's own gradient; a run with root needs one.")
        return np.asarray(self.trusted(model.copy(), t), model.dtype)

    def losses(self, models: Sequence[Vector], who: np.ndarray, t: int) -> np.ndarray:
        """Return each worker's loss at each model.

        Parameters
        ----------
        models, who, t
            As for `Task.losses`.

        Returns
        -------
        numpy.ndarray of shape (workers, models)
            The losses; nan for a worker that raised, which abstains.
        """
        if self.loss is None:
            raise BadInput("Functions was given no loss, by which workers vote; two phases need one.")
        return np.array([[_felt(self.loss, int(worker), model.copy(), t) for model in models] for worker in who])

    def evaluate(self, model: Vector) -> dict[str, Any]:
        """Return numbers for the record, by name.

        Parameters
        ----------
        model : numpy.ndarray
            The model to evaluate.

        Returns
        -------
        dict
            What `evaluation` returned; empty without one.
        """
        evaluation = self.evaluation(model.copy()) if self.evaluation else {}
        if not isinstance(evaluation, Mapping):
            raise BadInput(
                f"Functions was given an evaluation that answers {evaluation!r}; it answers names with numbers."
            )
        return dict(evaluation)


def _felt(loss: Callable[[int, Vector, int], float], worker: int, model: Vector, t: int) -> float:
    """A worker's loss; one that fails has none that is finite, and abstains."""
    try:
        return float(loss(worker, model, t))
    except (Exception, SystemExit):
        return float("nan")
