"""What came back from the nodes, and what of it can be used: one sound reply a node, as a difference to the model."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Message
from numpy.lib import format as npy

from holdfast.engines.counts import Counts
from holdfast.engines.differences import Model
from holdfast.engines.flower.limits import HEADER, check_counts, most_bytes
from holdfast.engines.flower.metrics import numbers, reported
from holdfast.engines.replies import (
    Refused,
    Sound,
    check_names,
    check_shape,
    plain,
    subtract_ours,
)
from holdfast.errors import BadInput


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


def by_node(replies: Iterable[Message]) -> list[tuple[int, Message]]:
    """The replies with the nodes that sent them."""
    return [(int(reply.metadata.src_node_id), reply) for reply in replies]


def failure(reply: Message) -> str:
    """What an error reply says, in a line: the last one of a traceback."""
    lines = str(reply.error.reason or "").strip().splitlines()
    return plain(f"failed: {lines[-1] if lines else f'error {reply.error.code}'}")


def read_reply(reply: Message, model: Model, out: Model, counts: Counts) -> Sound:
    """The reply with the differences to the model, which are written into rows of ours."""
    if reply.has_error():
        raise Refused(failure(reply))
    if not reply.has_content():
        raise Refused("sent nothing")
    check_counts(reply)
    key = counts.key or ""
    count = counts.read([record[key] for record in reported(reply) if key in record])
    records = [record for record in reply.content.values() if isinstance(record, ArrayRecord)]
    if len(records) != 1:
        raise Refused(f"sent {len(records)} array records, not 1")
    size = 0
    check_names(set(map(str, records[0])), model)
    for name, ours in model.items():  # in our order, not in the sender's
        array = records[0][name]
        _subtract(name, array, ours, out[name])
        size += len(array.data)
    return Sound(out, count, numbers(reply), size)


def _subtract(name: str, array: Array, ours: np.ndarray, out: np.ndarray) -> None:
    """The array minus ours, after every check that a hostile sender makes necessary."""
    check_shape(name, tuple(array.shape), ours)
    if len(array.data) > most_bytes(ours):
        raise Refused(f"sent {len(array.data)} bytes for {name}")
    try:
        values = _values(array)
    except Exception as error:  # whatever hostile bytes make a reader say
        raise Refused(f"sent {name} in a form that cannot be read ({type(error).__name__})") from None
    subtract_ours(name, values, ours, out)


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
