"""Replies that come late: kept until a round takes them, at most one for each worker, and never used twice.

A round closes with the replies that are there. What comes later waits for the next round. Workers take turns. A reply
says from which round's model it was computed; that makes its age.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

Worker = TypeVar("Worker", int, str)  # a number or a name


@dataclass(frozen=True, eq=False)
class Letter(Generic[Worker]):
    """A reply of a worker, computed from the model of round `made`, that is there from the time `due` on.

    If it was used, `due` is the round that used it.
    """

    worker: Worker
    made: int
    due: int
    what: Any

    def age(self, now: int) -> int:
        """How many rounds ago the model was sent from which it was computed."""
        return now - self.made


@dataclass(eq=False)
class Mailbox(Generic[Worker]):
    """The replies that no round has used, in the order in which they came, and the last used one of each worker.

    `keeps` says whether used replies are kept whole, so that `recall` can give them again.

    >>> box = Mailbox()
    >>> for worker, due in (("a", 0), ("b", 1), ("c", 0)):
    ...     box.put(Letter(worker, 0, due, what=worker.upper()))
    >>> [one.what for one in box.take(0, time=0)], [one.what for one in box.take(1, time=1)]
    (['A', 'C'], ['B'])
    """

    keeps: bool = False
    waiting: dict[tuple[Worker, int], Letter[Worker]] = field(default_factory=dict)
    used: dict[Worker, Letter[Worker]] = field(default_factory=dict)

    def put(self, letter: Letter[Worker]) -> None:
        """Keep a reply, unless one of the worker that was computed from this or a later model was used or is here."""
        last = self.used.get(letter.worker)
        if last is None or letter.made > last.made:
            self.waiting.setdefault((letter.worker, letter.made), letter)

    def workers(self) -> set[Worker]:
        """Return all workers of whom there is a reply."""
        return {one.worker for one in self.waiting.values()} | set(self.used)

    def busy(self, time: int) -> set[Worker]:
        """Return the workers with a reply under way."""
        return {one.worker for one in self.waiting.values() if one.due > time}

    def there(self, now: int, time: int, oldest: int | None = None) -> dict[Worker, Letter[Worker]]:
        """Return the newest reply of each worker that is there at a time, and not older than `oldest` rounds."""
        newest: dict[Worker, Letter[Worker]] = {}
        for one in self.waiting.values():
            young = oldest is None or one.age(now) <= oldest
            if young and one.due <= time and (one.worker not in newest or one.made > newest[one.worker].made):
                newest[one.worker] = one
        return newest

    def take(self, now: int, *, time: int, most: int = 0, oldest: int | None = None) -> list[Letter[Worker]]:
        """Return the replies that round `now` uses at a time: the newest of each worker.

        If more than `most` are there, those whose worker was used longest ago have their turn, of equals those that
        came first; 0 takes all. A reply that is not used waits for the next round, until it is older than `oldest`
        rounds or a newer one of the same worker is there.
        """
        newest = self.there(now, time, oldest)
        taken = sorted(newest.values(), key=self._last_turn)[: most or None]
        self.used |= {one.worker: replace(one, due=now, what=one.what if self.keeps else None) for one in taken}
        self.waiting = {at: one for at, one in self.waiting.items() if self._waits(one, now, newest, oldest)}
        return taken

    def _last_turn(self, one: Letter[Worker]) -> int:
        """The round in which the worker was last used; -1 if never."""
        return self.used[one.worker].due if one.worker in self.used else -1

    def _waits(self, one: Letter[Worker], now: int, newest: dict[Worker, Letter[Worker]], oldest: int | None) -> bool:
        """Whether a letter may still be used: it is young enough, not used, and there is no newer one."""
        last, best = self.used.get(one.worker), newest.get(one.worker)
        return (
            (oldest is None or one.age(now) < oldest)  # it will be a round older
            and (last is None or one.made > last.made)
            and (best is None or one.made >= best.made)
        )

    def recall(self, now: int, oldest: int, without: Collection[Worker]) -> list[Letter[Worker]]:
        """Return the last used replies of the workers that have none in this round, up to an age."""
        kept = (one for worker, one in self.used.items() if worker not in without and one.what is not None)
        return [one for one in kept if one.age(now) <= oldest]
