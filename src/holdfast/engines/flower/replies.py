"""What came back from the nodes, and what of it can be used: one sound reply a node, as a difference to the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message

Model = dict[str, np.ndarray]
HEADER = 4096  # bytes of an array's description, at most


@dataclass
class Gathered:
    """Sound updates and their nodes; who was refused and why; who said nothing; bytes that came."""

    nodes: list[int] = field(default_factory=list)
    updates: list[Model] = field(default_factory=list)
    metrics: list[dict[str, float]] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    silent: list[int] = field(default_factory=list)
    bytes: int = 0


def model_of(record: ArrayRecord) -> Model:
    """The arrays of a record of our own, by name."""
    return {str(name): np.asarray(array.numpy()) for name, array in record.items()}


def record_of(model: Mapping[str, np.ndarray]) -> ArrayRecord:
    """The other way round."""
    from flwr.app import Array

    return ArrayRecord({name: Array(np.ascontiguousarray(values)) for name, values in model.items()})


def gather(replies: Iterable[Message], asked: Iterable[int], model: Model) -> Gathered:
    """Sort replies: the first sound one of each node that was asked counts, as its difference to the model."""
    wanted, out = set(asked), Gathered()
    for reply in replies:
        node = int(reply.metadata.src_node_id)
        if node in out.nodes or node in out.refused:
            continue  # one reply a node; what it sends after that changes nothing
        if node not in wanted:
            out.refused[node] = "was not asked"
            continue
        try:
            sent, metrics, size = _read(reply, model)
        except Refused as why:
            out.refused[node] = str(why)
            continue
        out.nodes.append(node)
        out.updates.append(sent)
        out.metrics.append(metrics)
        out.bytes += size
    out.silent = sorted(wanted - set(out.nodes) - set(out.refused))
    return out


def failure(reply: Message) -> str:
    """What an error reply says, in a line: the last one of a traceback."""
    lines = str(reply.error.reason or "").strip().splitlines()
    return f"failed: {lines[-1][-200:] if lines else f'error {reply.error.code}'}"


class Refused(Exception):
    """Why a reply cannot be used."""


def _read(reply: Message, model: Model) -> tuple[Model, dict[str, float], int]:
    if reply.has_error():
        raise Refused(failure(reply))
    if not reply.has_content():
        raise Refused("sent nothing")
    records = list(reply.content.array_records.values())
    if len(records) != 1:
        raise Refused(f"sent {len(records)} array records, not 1")
    sent, size = {}, 0
    if set(map(str, records[0])) != set(model):
        raise Refused("sent other arrays than it was sent")
    for name, array in records[0].items():
        sent[str(name)] = _difference(str(name), array, model[str(name)])
        size += len(array.data)
    return sent, numbers(reply), size


def _difference(name: str, array: Any, ours: np.ndarray) -> np.ndarray:
    """The array minus ours, after every check that a hostile sender makes necessary."""
    if tuple(array.shape) != ours.shape:
        raise Refused(f"sent {name} of shape {tuple(array.shape)}, not {ours.shape}")
    if len(array.data) > ours.size * 16 + HEADER:
        raise Refused(f"sent {len(array.data)} bytes for {name}")
    try:
        values = np.asarray(array.numpy())
    except Exception as error:  # whatever hostile bytes make a reader say
        raise Refused(f"sent {name} in a form that cannot be read ({type(error).__name__})") from None
    if values.shape != ours.shape:
        raise Refused(f"sent {name} of shape {values.shape}, not {ours.shape}")
    floats = values.dtype.kind == "f" and ours.dtype.kind == "f"
    if not floats and values.dtype.kind not in "iub":
        raise Refused(f"sent {name} of type {values.dtype}, not {ours.dtype}")
    if not floats and values.dtype.kind != ours.dtype.kind:
        raise Refused(f"sent {name} of type {values.dtype}, not {ours.dtype}")
    if not np.isfinite(values).all():
        raise Refused(f"sent {name} with numbers that are not finite")
    with np.errstate(over="ignore"):
        difference = np.asarray(values.astype(ours.dtype, copy=False) - ours)
    if not np.isfinite(difference).all():
        raise Refused(f"sent {name} with numbers that are too large")
    return difference


def numbers(reply: Message) -> dict[str, float]:
    """The plain finite numbers among a reply's metrics, by name."""
    if not reply.has_content():
        return {}
    found: dict[str, float] = {}
    for record in reply.content.metric_records.values():
        for name, value in record.items():
            if isinstance(value, (int, float)) and np.isfinite(value):
                found[str(name)] = float(value)
    return found
