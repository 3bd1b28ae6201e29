"""Messages out and replies in, so that no reply stands in the way of another and nobody speaks in another's name."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any

import httpx
from flwr.app import Error, Message
from flwr.serverapp import Grid
from flwr.supercore.run import RunNotRunningException

from holdfast.engines.flower.limits import Limits, TooMuch
from holdfast.engines.flower.link import RunStopped, is_stopped, repeat
from holdfast.engines.flower.pulling import pull

log = logging.getLogger("flwr.holdfast")
FIRST, SLOWEST = 0.2, 3.0  # seconds between two looks for a reply


class Mailbox:
    """A grid whose replies are fetched one by one.

    Flower's own grid fetches all replies of a round together: one that cannot be read loses the others, one that is
    announced and never uploaded holds them up, and who sent it is what it says itself. Here every reply has a thread
    of its own, a limit of its size and the name of the node that was asked. Everything else is the grid's.
    """

    def __init__(self, grid: Grid, limits: Limits | None = None) -> None:
        self.grid, self.limits = grid, limits

    def __getattr__(self, name: str) -> Any:
        return getattr(self.grid, name)

    def get_node_ids(self) -> list[int]:
        """The nodes that are connected; a SuperLink that fails is asked again."""
        return list(repeat(lambda: list(self.grid.get_node_ids()), "listing nodes"))

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """The replies that came in time; what cannot be read is an error reply. Raises RunStopped if the run was."""
        pairs = self._push(list(messages))
        inbox: SimpleQueue[Message | Exception] = SimpleQueue()
        over = threading.Event()
        for name, message in pairs:
            threading.Thread(target=self._fetch, args=(name, message, inbox, over), daemon=True).start()
        until = None if timeout is None else time.monotonic() + timeout
        received, lost = list[Message](), None
        try:
            while len(received) < len(pairs):
                got = inbox.get(timeout=None if until is None else max(0.0, until - time.monotonic()))
                if isinstance(got, RunStopped):
                    raise got
                if isinstance(got, Message):
                    received.append(got)
                else:
                    lost = got
        except Empty:
            pass
        finally:
            over.set()
        if lost is not None and not received:
            raise lost
        return received

    def _push(self, messages: list[Message]) -> list[tuple[str, Message]]:
        """Every message that was sent with its name. The SuperLink names no message to a node that is gone."""
        tries = count()

        def push() -> list[str]:
            next(tries)
            return list(self.grid.push_messages(messages))

        names = repeat(push, "sending messages")
        pairs = list(zip(names, messages, strict=False))
        if next(tries) > 1:  # what an earlier try has stored gets no name again, and has its own
            pairs = [(name or message.metadata.message_id, message) for name, message in pairs]
        return [(name, message) for name, message in pairs if name]

    def _fetch(self, name: str, message: Message, inbox: SimpleQueue[Any], over: threading.Event) -> None:
        """Look for one reply until it is there."""
        pause = FIRST
        while not over.is_set():
            try:
                came = pull(self.grid, name, self.limits, over)
            except TooMuch as error:
                came = [Message(Error(0, str(error)), reply_to=message)]
            except (Exception, RunNotRunningException) as error:
                if isinstance(error, RunStopped) or is_stopped(error):
                    return inbox.put(RunStopped())
                if isinstance(error, httpx.HTTPError):  # nobody's fault; the link may come back
                    came = []
                    inbox.put(error)
                else:  # whatever a hostile reply makes a reader say
                    came = [Message(Error(0, f"sent what cannot be read ({type(error).__name__})"), reply_to=message)]
            if came:
                came[0].metadata.__dict__["_src_node_id"] = message.metadata.dst_node_id
                return inbox.put(came[0])
            over.wait(pause)
            pause = min(SLOWEST, 1.5 * pause)
        return None
