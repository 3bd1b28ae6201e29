"""Calls to the SuperLink that are repeated when the link, and no node, is at fault."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TypeVar

import httpx
from flwr.supercore.run import RunNotRunningException

log = logging.getLogger("flwr.holdfast")
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})  # states of HTTP that may be gone at the next try
MAX_TRIES = 8  # of one call
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0  # seconds between two tries; together about three quarters of a minute
Answer = TypeVar("Answer")


class RunStopped(RuntimeError):
    """The SuperLink no longer lets this run go on: its operator has stopped it. No node is at fault."""

    def __init__(self) -> None:
        super().__init__("the run was stopped; rounds that were finished are in the journal, if there is one.")


def is_stopped(error: BaseException) -> bool:
    """Whether the SuperLink refuses this server from now on, as it does when the run was stopped.

    >>> is_stopped(RunNotRunningException()), is_stopped(httpx.ConnectError("refused"))
    (True, False)
    """
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)
    return isinstance(error, RunNotRunningException)


def is_passing(error: BaseException) -> bool:
    """Whether the SuperLink or the network failed in a way that may pass.

    >>> is_passing(httpx.ConnectError("refused")), is_passing(ValueError("a reply that cannot be read"))
    (True, False)
    """
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in PASSING
    return isinstance(error, httpx.TransportError)


def repeat(call: Callable[[], Answer], what: str, *, over: threading.Event | None = None) -> Answer:
    """Return the answer of a call, which is tried at most `MAX_TRIES` times.

    Parameters
    ----------
    call : callable
        What to ask the SuperLink.
    what : str
        What the call does, for the log.
    over : threading.Event, optional
        Set when nobody waits for the answer any more; then the call is not repeated.

    Raises
    ------
    RunStopped
        If the SuperLink says that the run was stopped.
    Exception
        The call's last error, or its first one that a repetition cannot mend.
    """
    over, pause = over or threading.Event(), FIRST_PAUSE
    for tried in range(1, MAX_TRIES + 1):
        try:
            return call()
        except (Exception, RunNotRunningException) as error:
            if is_stopped(error):
                raise RunStopped from error
            if not is_passing(error) or tried == MAX_TRIES or over.is_set():
                raise
            log.warning("the SuperLink failed at %s (%s); try %d of %d follows", what, error, tried + 1, MAX_TRIES)
        over.wait(pause)
        pause = min(LONGEST_PAUSE, 2 * pause)
    raise AssertionError  # the last try returns or raises
