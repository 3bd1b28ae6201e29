"""Messages out and replies in, so that no reply stands in the way of another and nobody speaks in another's name."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
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
Enough = Callable[[set[int]], bool]
Inbox = SimpleQueue[tuple[str, Message | Exception]]  # what came in answer to the message of a name


@dataclass(frozen=True)
class Wait:
    """The node that is to reply to a message, and the event that ends the wait."""

    node: int
    over: threading.Event


class Mailbox:
    """A grid whose replies are fetched one by one.

    Flower's own grid fetches all replies of a round together: one that cannot be read loses the others, one that is
    announced and never uploaded holds them up, and who sent it is what it says itself. Here every reply has a thread
    of its own, a limit of its size and the name of the node that was asked. Everything else is the grid's.
    """

    def __init__(self, grid: Grid, limits: Limits | None = None) -> None:
        self.grid, self.limits = grid, limits
        self.enough: Enough | None = None
        self.inbox: Inbox = SimpleQueue()
        self.open: dict[str, Wait] = {}  # by the name of the message, in all rounds

    def __getattr__(self, name: str) -> Any:
        return getattr(self.grid, name)

    def get_node_ids(self) -> list[int]:
        """The nodes that are connected; a SuperLink that fails is asked again."""
        return list(repeat(lambda: list(self.grid.get_node_ids()), "listing nodes"))

    def close_when(self, enough: Enough) -> None:
        """Let the next messages begin a round that closes once `enough` says so of the nodes that have replied.

        Replies that come later are returned with those of the next such round.
        """
        self.enough = enough

    def give_up(self, nodes: Iterable[int]) -> None:
        """Stop waiting for the replies of these nodes; what they send is not looked at any more."""
        gone = set(nodes)
        for name, wait in list(self.open.items()):
            if wait.node in gone:
                self.open.pop(name).over.set()

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """The replies that came in time; what cannot be read is an error reply. Raises RunStopped if the run was."""
        listed = list(messages)
        if (enough := self.enough) is not None:
            self.enough = None
            self._look_for(self._push(listed), self.inbox, self.open)
            return _receive(self.inbox, self.open, timeout, enough)
        inbox: Inbox = SimpleQueue()
        waits: dict[str, Wait] = {}
        try:
            self._look_for(self._push(listed), inbox, waits)
            return _receive(inbox, waits, timeout, lambda _: False)
        finally:
            for wait in waits.values():
                wait.over.set()

    def _look_for(self, pairs: list[tuple[str, Message]], inbox: Inbox, waits: dict[str, Wait]) -> None:
        """Look for the reply to each message in a thread of its own."""
        for name, message in pairs:
            waits[name] = Wait(int(message.metadata.dst_node_id), threading.Event())
            args = (name, message, inbox, waits[name].over)
            threading.Thread(target=self._fetch, args=args, daemon=True).start()

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

    def _fetch(self, name: str, message: Message, inbox: Inbox, over: threading.Event) -> None:
        """Look for one reply until it is there."""
        pause = FIRST
        while not over.is_set():
            try:
                came = pull(self.grid, name, self.limits, over)
            except TooMuch as error:
                came = [Message(Error(0, str(error)), reply_to=message)]
            except (Exception, RunNotRunningException) as error:
                if isinstance(error, RunStopped) or is_stopped(error):
                    return inbox.put((name, RunStopped()))
                if isinstance(error, httpx.HTTPError):  # nobody's fault; the link may come back
                    came = []
                    inbox.put((name, error))
                else:  # whatever a hostile reply makes a reader say
                    came = [Message(Error(0, f"sent what cannot be read ({type(error).__name__})"), reply_to=message)]
            if came:
                came[0].metadata.__dict__["_src_node_id"] = message.metadata.dst_node_id
                return inbox.put((name, came[0]))
            over.wait(pause)
            pause = min(SLOWEST, 1.5 * pause)
        return None


def _receive(inbox: Inbox, waits: dict[str, Wait], timeout: float | None, enough: Enough) -> list[Message]:
    """Take replies until none is missing, they are enough or the time is over; whose wait is over does not count."""
    until = None if timeout is None else time.monotonic() + timeout
    received, lost, came = list[Message](), None, set[int]()
    while waits or not inbox.empty():
        closed = enough(came)
        try:
            left = None if until is None else max(0.0, until - time.monotonic())
            name, what = inbox.get(block=not closed, timeout=None if closed else left)
        except Empty:
            break
        if isinstance(what, RunStopped):
            raise what
        if name not in waits:
            continue
        if isinstance(what, Message):
            wait = waits.pop(name)
            wait.over.set()
            received.append(what)
            if not what.has_error():
                came.add(wait.node)
        else:
            lost = what
    if lost is not None and not received:
        raise lost
    return received
