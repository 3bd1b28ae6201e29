"""What came back from the nodes, and what of it can be used: one sound reply a node, as a difference to the model."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Message
from numpy.lib import format as npy

from holdfast.engines.flower.counts import Counts
from holdfast.engines.flower.differences import Model, difference_dtype, fits, subtract
from holdfast.engines.flower.limits import HEADER, TooMuch, check_counts, most_bytes
from holdfast.engines.flower.metrics import numbers
from holdfast.errors import BadInput

LONGEST = 200  # characters of what a client says
ALIKE = Counts()


@dataclass
class Gathered:
    """Sound updates, their nodes, counts, metrics and ages; who was refused and why; who was silent; bytes that came.

    `faulty` are those of the refused who owed a reply.
    """

    nodes: list[int] = field(default_factory=list)
    updates: list[Model] = field(default_factory=list)
    counts: list[float] = field(default_factory=list)
    metrics: list[dict[str, float]] = field(default_factory=list)
    ages: list[int] = field(default_factory=list)
    faulty: list[int] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    silent: list[int] = field(default_factory=list)
    bytes: int = 0


def check_first_model(given: object, who: str) -> None:
    """Refuse a first model that is no ArrayRecord or not finite."""
    if not isinstance(given, ArrayRecord):
        raise BadInput(f"{who} was given initial_arrays of type {type(given).__name__}; pass an ArrayRecord.")
    if not all(np.isfinite(values).all() for values in read_model(given).values() if values.dtype.kind == "f"):
        raise BadInput(f"{who} was given initial_arrays that are not finite.")


def read_model(record: ArrayRecord) -> Model:
    """Return the arrays of a record of our own, by name.

    Parameters
    ----------
    record : flwr.app.ArrayRecord
        A record that this process trusts.

    Returns
    -------
    dict from str to numpy.ndarray
        The arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.engines.flower import read_model, make_record
    >>> read_model(make_record({"w": np.ones(2)}))
    {'w': array([1., 1.])}
    """
    return {str(name): np.asarray(array.numpy()) for name, array in record.items()}


def make_record(model: Mapping[str, np.ndarray]) -> ArrayRecord:
    """Return a record of these arrays.

    Parameters
    ----------
    model : mapping from str to numpy.ndarray
        The arrays by name.

    Returns
    -------
    flwr.app.ArrayRecord
        What a message can hold.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.engines.flower import make_record
    >>> list(make_record({"w": np.ones(2)}))
    ['w']
    """
    return ArrayRecord({name: Array(np.asarray(values, order="C")) for name, values in model.items()})


@dataclass(frozen=True)
class Sound:
    """One sound reply: the differences to the model, how much its sender says it counts, its metrics, its bytes."""

    update: Model
    count: float
    metrics: dict[str, float]
    bytes: int


def gather(replies: Iterable[Message], nodes: Iterable[int], model: Model, counts: Counts = ALIKE) -> Gathered:
    """Sort replies: the first one of each node that was asked counts, if it is sound, as its difference to the model.

    In the order of the nodes' numbers, so that who answers first changes nothing.
    """
    wanted, out = sorted(set(nodes)), Gathered()
    rows = {name: np.empty((len(wanted), *ours.shape), difference_dtype(ours)) for name, ours in model.items()}
    sound: dict[int, Sound] = {}
    for reply in replies:
        node = int(reply.metadata.src_node_id)
        if node in sound or node in out.refused:
            continue  # one reply a node; what it sends after that changes nothing
        if node not in wanted:
            out.refused[node] = "was not asked"
            continue
        try:
            own = {name: each[wanted.index(node), ...] for name, each in rows.items()}
            sound[node] = _read(reply, model, own, counts)
        except (Refused, TooMuch) as why:
            out.refused[node] = plain(str(why))
    out.nodes = sorted(sound)
    read = [sound[node] for node in out.nodes]
    out.updates, out.counts = [one.update for one in read], [one.count for one in read]
    out.metrics, out.bytes = [one.metrics for one in read], sum(one.bytes for one in read)
    out.silent = [node for node in wanted if node not in sound and node not in out.refused]
    return out


def failure(reply: Message) -> str:
    """What an error reply says, in a line: the last one of a traceback."""
    lines = str(reply.error.reason or "").strip().splitlines()
    return plain(f"failed: {lines[-1] if lines else f'error {reply.error.code}'}")


def plain(text: str) -> str:
    """What a client says as one line that a terminal and a journal can bear."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text[: LONGEST + 1])
    return shown if len(text) <= LONGEST else shown[: LONGEST - 3] + "..."


class Refused(Exception):
    """Why a reply cannot be used."""


def _read(reply: Message, model: Model, out: Model, counts: Counts) -> Sound:
    """The reply with the differences to the model, which are written into rows of ours."""
    if reply.has_error():
        raise Refused(failure(reply))
    if not reply.has_content():
        raise Refused("sent nothing")
    check_counts(reply)
    count = counts.read(reply)
    if count is None:
        raise Refused(f"sent no {counts.key} that is a finite number, 0 or more")
    records = [record for record in reply.content.values() if isinstance(record, ArrayRecord)]
    if len(records) != 1:
        raise Refused(f"sent {len(records)} array records, not 1")
    size = 0
    names = set(map(str, records[0]))
    if missing := sorted(model.keys() - names):
        raise Refused(f"sent other arrays than it was sent: no {missing[0]!r}")
    if names != set(model):
        raise Refused(f"sent other arrays than it was sent: {len(names)}, where the model has {len(model)}")
    for name, ours in model.items():  # in our order, not in the sender's
        array = records[0][name]
        _subtract(name, array, ours, out[name])
        size += len(array.data)
    return Sound(out, count, numbers(reply), size)


def _subtract(name: str, array: Array, ours: np.ndarray, out: np.ndarray) -> None:
    """The array minus ours, after every check that a hostile sender makes necessary."""
    if tuple(array.shape) != ours.shape:
        raise Refused(f"sent {name} of shape {tuple(array.shape)}, not {ours.shape}")
    if len(array.data) > most_bytes(ours):
        raise Refused(f"sent {len(array.data)} bytes for {name}")
    try:
        values = _values(array)
    except Exception as error:  # whatever hostile bytes make a reader say
        raise Refused(f"sent {name} in a form that cannot be read ({type(error).__name__})") from None
    if values.shape != ours.shape:
        raise Refused(f"sent {name} of shape {values.shape}, not {ours.shape}")
    floats = values.dtype.kind == "f" and ours.dtype.kind == "f"
    if not floats and values.dtype.kind not in "iub":
        raise Refused(f"sent {name} of type {values.dtype}, not {ours.dtype}")
    if not floats and values.dtype.kind != ours.dtype.kind:
        raise Refused(f"sent {name} of type {values.dtype}, not {ours.dtype}")
    if not floats and not fits(values, ours):
        raise Refused(f"sent {name} with numbers that {ours.dtype} does not hold")
    with np.errstate(all="ignore"):
        subtract(values, ours, out)
        if floats and not np.isfinite(out.ravel() @ out.ravel()) and not np.isfinite(out).all():  # the product is fast
            what = "too large" if np.isfinite(values).all() else "not finite"
            raise Refused(f"sent array {name} with numbers that are {what}")


def _values(array: Array) -> np.ndarray:
    """The numbers of an array as they lie in its bytes; whatever is wrong with these raises something."""
    if array.stype != "numpy.ndarray":
        raise TypeError(array.stype)
    shape, fortran, dtype, start = _header(array.data[:HEADER])
    flat = np.frombuffer(array.data, dtype, math.prod(shape), start)
    return flat.reshape(shape, order="F" if fortran else "C")


def _header(first: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, order and type that an npy file tells, and where its numbers begin."""
    (size,) = struct.unpack_from("<H" if first[6:7] == b"\1" else "<I", first, 8)
    end = 8 + (2 if first[6:7] == b"\1" else 4) + size
    return (*_read_header(first[:end]), end)


@lru_cache(64)  # thousands of arrays are told in the same words
def _read_header(header: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    file = BytesIO(header)
    read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[npy.read_magic(file)]
    shape, fortran, dtype = read(file)
    if dtype.hasobject or min(shape, default=0) < 0:
        raise TypeError(dtype)
    return shape, fortran, dtype
