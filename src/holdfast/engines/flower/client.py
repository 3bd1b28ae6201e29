"""The client's side: answering a vote, and momentum that lasts from round to round."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from holdfast.engines.differences import Model
from holdfast.engines.flower.replies import make_record, read_model
from holdfast.errors import BadInput

Loss = Callable[[Any, Context], float]
MEMORY = "holdfast.momentum"


def vote(app: ClientApp) -> Callable[[Loss], Loss]:
    """Let an app answer votes by a loss function.

    Parameters
    ----------
    app : flwr.clientapp.ClientApp
        The client's app.

    Returns
    -------
    callable
        A decorator for a function of an ArrayRecord and the context. It returns the loss on a fresh batch of the
        client's own.

    Raises
    ------
    BadInput
        If `app` is no ClientApp.

    Notes
    -----
    A loss that is too large for a float, or NaN, counts as infinite: that candidate is the worse one. Any other
    exception is an error reply, by which the server names the node among the bad votes.

    Examples
    --------
    >>> from flwr.clientapp import ClientApp
    >>> from holdfast.engines.flower import read_model, vote
    >>> app = ClientApp()
    >>> @vote(app)
    ... def loss(arrays, context):
    ...     return float(read_model(arrays)["w"].sum())
    """
    if not isinstance(app, ClientApp):
        raise BadInput(f"vote was given {app!r}; write @vote(app) with the ClientApp.")

    def register(loss: Loss) -> Loss:
        @app.query("vote")
        def answer(message: Message, context: Context) -> Message:
            records = message.content.array_records
            losses: dict[str, Any] = {name: _number(loss, records[name], context) for name in ("inner", "outer")}
            return Message(RecordDict({"vote": MetricRecord(losses)}), reply_to=message)

        return loss

    return register


def _number(loss: Loss, record: Any, context: Context) -> float:
    try:
        value = float(loss(record, context))
    except ArithmeticError:
        return math.inf
    return math.inf if math.isnan(value) else value


def apply_momentum(context: Context, update: Mapping[str, np.ndarray], beta: float = 0.9) -> Model:
    """Return the worker's momentum, m = beta m + (1 - beta) update, which the context keeps between rounds.

    Parameters
    ----------
    context : flwr.app.Context
        The client's context.
    update : mapping from str to numpy.ndarray
        The difference of the trained model to the one that came, by name of array.
    beta : float
        How much of the old momentum stays, at least 0 and below 1.

    Returns
    -------
    dict from str to numpy.ndarray
        The momentum. Send the model that came plus the momentum.

    Raises
    ------
    BadInput
        If the update has no names, or beta is out of range.

    Notes
    -----
    Momentum shrinks the honest spread in which attacks hide. An update that is not finite is given back as it is and
    leaves no trace.

    Examples
    --------
    >>> import numpy as np
    >>> from flwr.app import Context, RecordDict
    >>> from holdfast.engines.flower import apply_momentum
    >>> context = Context(1, 1, {}, RecordDict(), {})
    >>> apply_momentum(context, {"w": np.ones(2)}, beta=0.5)["w"]
    array([0.5, 0.5], dtype=float32)
    >>> apply_momentum(context, {"w": np.ones(2)}, beta=0.5)["w"]
    array([0.75, 0.75], dtype=float32)
    """
    if not isinstance(update, Mapping):
        what = type(update).__name__
        raise BadInput(
            f"apply_momentum was given an update of type {what}; pass arrays by name, such as {{'w': w - before}}."
        )
    if not 0 <= beta < 1:
        raise BadInput(f"apply_momentum was given beta = {beta!r}; it is at least 0 and below 1.")
    before = context.state.array_records.get(MEMORY)
    held = {} if before is None else read_model(before)
    if {name: values.shape for name, values in held.items()} != {name: np.shape(v) for name, v in update.items()}:
        held = {}  # another model
    new = {
        name: np.asarray(beta * held.get(name, 0.0) + (1 - beta) * np.asarray(values), np.float32)
        for name, values in update.items()
    }
    if not all(np.isfinite(values).all() for values in new.values()):
        return dict(update)
    context.state[MEMORY] = make_record(new)
    return new
