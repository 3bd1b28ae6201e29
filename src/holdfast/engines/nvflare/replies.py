"""What came back from the sites, and what of it can be used: models, differences and votes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import Shareable

from holdfast.engines.counts import Counts
from holdfast.engines.differences import Model
from holdfast.engines.metrics import finite_numbers
from holdfast.engines.nvflare.models import to_array
from holdfast.engines.replies import MAX_NAMES, Refused, Sound, check_names, copy_difference, subtract_ours
from holdfast.engines.votes import CANDIDATES

WRITERS = {DataKind.WEIGHTS: subtract_ours, DataKind.WEIGHT_DIFF: copy_difference}
"""How the difference is found: the reply says whether it is a whole model or a difference."""


@contextmanager
def _refusing() -> Iterator[None]:
    """Refuse a reply at whatever it makes a reader say: NVFlare ends the job at any other exception."""
    try:
        yield
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"sent a reply that cannot be read ({type(error).__name__})") from None


@_refusing()
def read_reply(reply: object, model: Model, counts: Counts, out: Model) -> Sound:
    """The reply with its differences to the model, which are written into `out`.

    Raises
    ------
    Refused
        If anything about the reply is not sound.
    """
    dxo = _open(reply)
    write = WRITERS.get(dxo.data_kind)
    if write is None:
        raise Refused(f"sent {_short(dxo.data_kind)}, neither a model nor a difference")
    metrics = _metrics(dxo)
    count = counts.read([part[counts.key] for part in (dxo.meta, metrics) if counts.key in part])
    arrays: Any = dxo.data
    if type(arrays) is not dict or not all(isinstance(name, str) for name in arrays):
        raise Refused(f"sent {type(arrays).__name__}, not arrays by name")
    check_names(set(arrays), model)
    size = 0
    for name, ours in model.items():  # in our order, not in the sender's
        values = to_array(arrays[name])
        if values is None:
            raise Refused(f"sent {name} as {type(arrays[name]).__name__}, not as an array of numbers")
        write(name, values, ours, out[name])
        size += values.nbytes
    return Sound(out, count, finite_numbers(metrics.items()), size)


@_refusing()
def read_vote(reply: object) -> list[object]:
    """What a reply declares as Inner's and Outer's loss."""
    dxo = _open(reply)
    losses: Any = dxo.data if dxo.data_kind == DataKind.METRICS else {}
    if type(losses) is not dict or len(losses) > MAX_NAMES:
        raise Refused("sent no pair of losses")
    return [losses[name] for name in CANDIDATES if name in losses]


def _open(reply: object) -> DXO:
    """The content of a reply that is no failure and not too large."""
    if not isinstance(reply, Shareable):
        raise Refused(f"sent {type(reply).__name__}, which is no reply")
    code = reply.get_return_code(ReturnCode.OK)
    if not isinstance(code, str) or code != ReturnCode.OK:
        raise Refused(f"failed: {_short(code)}")
    dxo = from_shareable(reply)
    if not isinstance(dxo.data_kind, str):
        raise Refused(f"sent {type(dxo.data_kind).__name__} as the kind of its data")
    if type(dxo.meta) is not dict or len(dxo.meta) > MAX_NAMES:
        raise Refused(f"sent more than {MAX_NAMES} settings")
    return dxo


def _metrics(dxo: DXO) -> dict[Any, Any]:
    """The metrics that came with a model."""
    metrics = dxo.meta.get(MetaKey.INITIAL_METRICS)
    if metrics is None:
        return {}
    if type(metrics) is not dict:
        raise Refused(f"sent metrics of type {type(metrics).__name__}, not by name")
    if len(metrics) > MAX_NAMES:
        raise Refused(f"sent {len(metrics)} metrics, more than {MAX_NAMES}")
    return metrics


def _short(value: object) -> str:
    """A text of a site's own; of anything else, only the type."""
    return value if isinstance(value, str) else type(value).__name__


def bytes_of(model: dict[str, np.ndarray]) -> int:
    """How many bytes the numbers of a model have."""
    return sum(values.nbytes for values in model.values())
