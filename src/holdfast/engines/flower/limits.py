"""How much one reply may hold: what a sound reply can need, and no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from flwr.app import ConfigRecord, Message, MetricRecord

from holdfast.engines.replies import MAX_NAMES, Refused

HEADER = 4096  # bytes of an array's description, at most
NUMBER_BYTES = 8  # of one number at least, so that a model of float32 may be answered in float64
HEAD_BYTES = 100  # that Flower puts before the content of each piece, at most; and of its place in the list of pieces
CHUNK_BYTES = 1 << 16  # the smallest pieces in which a client may upload a large array
MAX_RECORDS = 100  # in one reply
MAX_RECORD_BYTES = 1 << 20  # of everything in a reply that is no array


class TooMuch(Refused):
    """A reply holds more than a sound one can need."""


@dataclass(frozen=True)
class Limits:
    """What one reply may hold, checked before it is joined and parsed.

    Parameters
    ----------
    objects : int
        Pieces in which Flower uploads the reply.
    described_bytes : int
        Bytes of all pieces that are no numbers of arrays: records, names, shapes.
    array_bytes : int
        Bytes of all arrays after their chunks are joined.
    listed_bytes : int
        Bytes of the list of pieces, with the error if there is one.
    """

    objects: int
    described_bytes: int
    array_bytes: int
    listed_bytes: int

    @classmethod
    def of(cls, model: Mapping[str, np.ndarray]) -> Limits:
        """The limits for replies that hold one such model."""
        sizes = [most_bytes(values) for values in model.values()]
        chunks = sum(1 + size // CHUNK_BYTES for size in sizes)
        objects = 2 + MAX_RECORDS + len(model) + chunks  # a message and its records, arrays, chunks
        names = sum(HEADER + 12 * len(name) for name in model)  # JSON may take twelve bytes for a letter
        return cls(objects, MAX_RECORD_BYTES + names + 80 * chunks, sum(sizes), MAX_RECORD_BYTES + HEAD_BYTES * objects)


def most_bytes(ours: np.ndarray) -> int:
    """How many bytes an array of a reply may have, given our own.

    >>> most_bytes(np.zeros(1000, np.float32)) - HEADER
    8000
    """
    return max(NUMBER_BYTES, ours.dtype.itemsize) * ours.size + HEADER


def check_counts(reply: Message) -> None:
    """Raise TooMuch if a reply that Flower has parsed holds too many records or names."""
    if not reply.has_content():
        return
    if len(reply.content) > MAX_RECORDS:
        raise TooMuch(f"sent {len(reply.content)} records, more than {MAX_RECORDS}")
    names = sum(len(record) for record in reply.content.values() if isinstance(record, MetricRecord | ConfigRecord))
    if names > MAX_NAMES:
        raise TooMuch(f"sent {names} metrics, more than {MAX_NAMES}")
