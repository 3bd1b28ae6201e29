"""What the loop needs to know of the workers: updates, losses, an evaluation. Plain functions will do.

A model is a flat vector here, and an update too; `workers.py` has the task for torch modules on images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from holdfast.errors import BadInput

Vector = np.ndarray
Failures = dict[int, str]


class Task(Protocol):
    """The workers' side of a training. `t` is the round, of which all draws are a function."""

    @property
    def workers(self) -> int:
        """How many there are."""

    def start(self) -> Vector:
        """The first model."""

    def updates(self, model: Vector, who: np.ndarray, t: int) -> tuple[Any, Failures]:
        """One update for each worker in `who`, an (n, d) array or a list; and who failed, and why."""

    def losses(self, models: Sequence[Vector], who: np.ndarray, t: int) -> np.ndarray:
        """(workers in `who`, models): each worker's loss at each model, on data that it draws for the vote."""

    def evaluate(self, model: Vector) -> dict[str, Any]:
        """Numbers for the record."""


@dataclass(frozen=True, eq=False)
class Functions:
    """A task of plain functions, for those whose workers are not torch modules.

    `update(worker, model, t)` gives a worker's update, `loss(worker, model, t)` its loss (for two phases),
    `evaluation(model)` numbers for the record. A worker that raises is noted and left out of the round.

    >>> task = Functions(workers=3, first=np.zeros(2), update=lambda worker, model, t: model - worker)
    >>> task.updates(task.start(), np.arange(3), 0)[0]
    [array([0., 0.]), array([-1., -1.]), array([-2., -2.])]
    """

    workers: int
    first: Vector
    update: Callable[[int, Vector, int], Any]
    loss: Callable[[int, Vector, int], float] | None = None
    evaluation: Callable[[Vector], Mapping[str, Any]] | None = None

    def start(self) -> Vector:
        first = np.array(self.first)
        if first.ndim != 1 or first.dtype.kind != "f" or not np.isfinite(first).all():
            raise BadInput("Functions was given a first model that is no flat vector of finite floats; ravel() yours.")
        return first

    def updates(self, model: Vector, who: np.ndarray, t: int) -> tuple[list[Any], Failures]:
        rows: list[Any] = []
        failed: Failures = {}
        for worker in map(int, who):
            try:
                rows.append(self.update(worker, model.copy(), t))
            except (Exception, SystemExit) as error:
                rows.append(None)
                failed[worker] = f"{type(error).__name__}: {error}"
        return rows, failed

    def losses(self, models: Sequence[Vector], who: np.ndarray, t: int) -> np.ndarray:
        if self.loss is None:
            raise BadInput("Functions was given no loss, by which workers vote; two phases need one.")
        return np.array([[_felt(self.loss, int(worker), model.copy(), t) for model in models] for worker in who])

    def evaluate(self, model: Vector) -> dict[str, Any]:
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
