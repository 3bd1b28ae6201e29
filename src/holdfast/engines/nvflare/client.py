"""The site's side: answering a vote."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from nvflare.app_common.abstract.fl_model import FLModel

from holdfast.engines.nvflare.server import VOTE
from holdfast.engines.votes import CANDIDATES
from holdfast.errors import BadInput


def answer_vote(model: FLModel, loss: Callable[[dict[str, Any]], float]) -> FLModel | None:
    """Return the reply to a vote, or None if the model that came is to be trained.

    Parameters
    ----------
    model : nvflare.app_common.abstract.fl_model.FLModel
        What `flare.receive()` returned.
    loss : callable
        Takes the arrays of a candidate by name and returns the loss on a fresh batch of the site's own.

    Returns
    -------
    nvflare.app_common.abstract.fl_model.FLModel or None
        What to pass to `flare.send`. None: the task is no vote.

    Raises
    ------
    BadInput
        If `model` is no FLModel, or if `loss` is no function or returns no number.

    Notes
    -----
    A loss that is too large for a float, or NaN, counts as infinite: that candidate is the worse one. An exception in
    `loss` ends the site's script, by which the server names the site among the bad votes.

    Examples
    --------
    >>> import numpy as np
    >>> from nvflare.app_common.abstract.fl_model import FLModel
    >>> from holdfast.engines.nvflare import answer_vote
    >>> answer_vote(FLModel(params={"w": np.ones(2)}), lambda arrays: float(arrays["w"].sum())) is None
    True
    """
    if model is None:
        raise BadInput(
            "answer_vote was given None, which flare.receive() returns at the end of a job; end the loop then."
        )
    if not isinstance(model, FLModel):
        raise BadInput(f"answer_vote was given {type(model).__name__}; pass what flare.receive() returned.")
    if not callable(loss):
        raise BadInput(
            f"answer_vote was given a loss of type {type(loss).__name__}; pass a function of arrays by name."
        )
    if not (model.meta or {}).get(VOTE):
        return None
    losses: dict[str, float] = {}
    for candidate in CANDIDATES:
        prefix = f"{candidate}/"
        arrays = {name[len(prefix) :]: values for name, values in model.params.items() if name.startswith(prefix)}
        losses[candidate] = _number(loss, arrays)
    return FLModel(metrics=losses, current_round=model.current_round)


def _number(loss: Callable[[dict[str, Any]], float], arrays: dict[str, Any]) -> float:
    with suppress(ArithmeticError):
        given: Any = loss(arrays)
        value = _float(given)
        return math.inf if math.isnan(value) else value
    return math.inf


def _float(given: Any) -> float:
    """A loss that is a number, or an array or tensor of one."""
    with suppress(TypeError, ValueError):
        if not isinstance(given, str):
            return float(given)
    raise BadInput(f"answer_vote was given a loss that returned {type(given).__name__}; it must return a number.")
