"""How many bytes of a reply may be read: counted when a response declares its length, before its body is read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

import httpx

from holdfast.engines.flower.limits import TooMuch

Answer = TypeVar("Answer")


class Budget:
    """The bytes that may be read together, by all threads that fetch pieces of one reply.

    Parameters
    ----------
    most : int
        Bytes of all pieces.
    """

    def __init__(self, most: int) -> None:
        self.most, self.total, self.lock = most, 0, threading.Lock()
        self.sizes: dict[str, int] = {}

    def reserve(self, piece: str, size: int) -> None:
        """Count a piece; a piece that is fetched again counts once. Raises TooMuch if all are too large together."""
        with self.lock:
            self.total += size - self.sizes.get(piece, 0)
            self.sizes[piece] = size
            if self.total > self.most:
                raise TooMuch(f"sent more than {self.most} bytes")

    def fetch(self, piece: str, call: Callable[[], Answer]) -> Answer:
        """Return the answer of a call to a SuperLink whose response counts as this piece."""
        token = _reading.set((self, piece))
        try:
            return call()
        finally:
            _reading.reset(token)


_reading: ContextVar[tuple[Budget, str] | None] = ContextVar("reading", default=None)


def watch(client: Any) -> None:
    """Let Flower's client look at the length of every response before it reads the body."""
    http = getattr(client, "_client", None)
    if isinstance(http, httpx.Client) and _declared not in http.event_hooks["response"]:
        http.event_hooks["response"].append(_declared)


def _declared(response: httpx.Response) -> None:
    reading, length = _reading.get(), response.headers.get("content-length", "")
    if reading is not None and length.isdigit():
        budget, piece = reading
        budget.reserve(piece, int(length))
