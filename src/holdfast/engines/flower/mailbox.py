"""Messages out and replies in, so that no reply stands in the way of another and nobody speaks in another's name."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
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
Enough = Callable[[list[Message]], bool]  # whether a round can close, given what came since it was last asked
Inbox = SimpleQueue[tuple[str, Message | RunStopped]]  # what came in answer to the message of a name


@dataclass(eq=False)
class Wait:
    """The node that is to reply to a message, the event that ends the wait, and how the last look for it failed."""

    node: int
    over: threading.Event = field(default_factory=threading.Event)
    error: httpx.HTTPError | None = None


class Mailbox:
    """A grid whose replies are fetched one by one.

    Flower's own grid fetches all replies of a round together: one that cannot be read loses the others, one that is
    announced and never uploaded holds them up, and who sent it is what it says itself. Here every reply has a thread
    of its own, a limit of its size and the name of the node that was asked. Everything else is the grid's.
    """

    def __init__(self, grid: Grid, limits: Limits | None = None) -> None:
        self.grid, self.limits = grid, limits
        self.enough: Enough | None = None
        self.quota: int | None = None
        self.inbox: Inbox = SimpleQueue()
        self.open: dict[str, Wait] = {}  # by the name of the message, in all rounds

    def __getattr__(self, name: str) -> Any:
        return getattr(self.grid, name)

    def get_node_ids(self) -> list[int]:
        """The nodes that are connected; a SuperLink that fails is asked again."""
        return list(repeat(lambda: list(self.grid.get_node_ids()), "listing nodes"))

    def close_when(self, enough: Enough) -> None:
        """Let the next messages begin a round that closes once `enough` says so.

        It is given the replies as they come, also those to earlier such rounds, and none is returned.
        """
        self.enough = enough

    def close_after(self, replies: int) -> None:
        """Let the next messages end with this number of replies; those that come later are not looked at."""
        self.quota = replies

    def expected(self) -> set[int]:
        """The nodes whose replies may still come."""
        return {wait.node for wait in self.open.values()}

    def give_up(self, nodes: Iterable[int]) -> None:
        """Stop waiting for the replies of these nodes; what they send is not looked at any more."""
        gone = set(nodes)
        for name, wait in list(self.open.items()):
            if wait.node in gone:
                self.open.pop(name).over.set()

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """The replies that came in time; what cannot be read is an error reply. Raises RunStopped if the run was."""
        listed = list(messages)
        enough, quota = self.enough, self.quota
        self.enough = self.quota = None
        if enough is not None:
            self._look_for(self._push(listed), self.inbox, self.open)
            _receive(self.inbox, self.open, timeout, enough)
            return []
        received: list[Message] = []
        inbox: Inbox = SimpleQueue()
        waits: dict[str, Wait] = {}

        def keep(new: list[Message]) -> bool:
            received.extend(new)
            return quota is not None and len(received) >= quota

        try:
            self._look_for(self._push(listed), inbox, waits)
            _receive(inbox, waits, timeout, keep)
        finally:
            for wait in waits.values():
                wait.over.set()
        return received

    def _look_for(self, pairs: list[tuple[str, Message]], inbox: Inbox, waits: dict[str, Wait]) -> None:
        """Look for the reply to each message in a thread of its own."""
        for name, message in pairs:
            waits[name] = Wait(int(message.metadata.dst_node_id))
            threading.Thread(target=self._fetch, args=(name, message, inbox, waits[name]), daemon=True).start()

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

    def _fetch(self, name: str, message: Message, inbox: Inbox, wait: Wait) -> None:
        """Look for one reply until it is there."""
        pause = FIRST
        while not wait.over.is_set():
            try:
                came = pull(self.grid, name, self.limits, wait.over)
                wait.error = None
            except TooMuch as error:
                came = [Message(Error(0, str(error)), reply_to=message)]
            except (Exception, RunNotRunningException) as error:
                if isinstance(error, RunStopped) or is_stopped(error):
                    return inbox.put((name, RunStopped()))
                if isinstance(error, httpx.HTTPError):  # nobody's fault; the link may come back
                    came, wait.error = [], error
                else:  # whatever a hostile reply makes a reader say
                    came = [Message(Error(0, f"sent what cannot be read ({type(error).__name__})"), reply_to=message)]
            if came:
                came[0].metadata.__dict__["_src_node_id"] = message.metadata.dst_node_id
                return inbox.put((name, came[0]))
            wait.over.wait(pause)
            pause = min(SLOWEST, 1.5 * pause)
        return None


def _receive(inbox: Inbox, waits: dict[str, Wait], timeout: float | None, enough: Enough) -> None:
    """Give replies to `enough` until it says so, none is missing or the time is over.

    Raises
    ------
    httpx.HTTPError
        If nothing came at all, and the last look for every reply failed.
    """
    until = None if timeout is None else time.monotonic() + timeout
    new, some = _take(inbox, waits, 0.0), False
    while not enough(new) and waits:
        some = some or bool(new)
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            errors = [wait.error for wait in waits.values() if wait.error is not None]
            if not some and len(errors) == len(waits):
                raise errors[0]
            return
        new = _take(inbox, waits, left)


def _take(inbox: Inbox, waits: dict[str, Wait], timeout: float | None) -> list[Message]:
    """Wait for a reply, and take it with all others that are there; one for which nobody waits does not count."""
    received: list[Message] = []
    try:
        while True:
            name, what = inbox.get(block=not received and timeout != 0, timeout=timeout or None)
            if isinstance(what, RunStopped):
                raise what
            if name in waits:
                waits.pop(name).over.set()
                received.append(what)
    except Empty:
        return received
