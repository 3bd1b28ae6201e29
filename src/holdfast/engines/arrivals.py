"""Who owes a reply to which round's model, which replies are here, and which of them a round uses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Generic

import numpy as np

from holdfast.buffer import Buffer
from holdfast.engines.differences import Model
from holdfast.engines.replies import Gathered, Name, Reply, Rows, Sound, sort_replies
from holdfast.mailbox import Letter

ON_TIME = Buffer(oldest=0, fade=0.0)  # a round uses the replies that came before its deadline, and no others
LETTER, WAITING, USED = "letter", "waiting", "used"  # in the state of a server


@dataclass(frozen=True)
class Kept:
    """What is kept of a sound reply: the difference to the model that was sent, its count, its metrics."""

    update: Model
    count: float
    metrics: dict[str, float]


class Arrivals(Generic[Name]):
    """The replies that a server expects and has, over all rounds; clients by number or name."""

    def __init__(self, buffer: Buffer, seed: int) -> None:
        self.buffer, self.seed = buffer, seed
        self.box = buffer.mailbox()
        self.owing: dict[Name, int] = {}  # the round whose model a node was sent, until its reply is here
        self.gone: set[Name] = set()  # nodes that owe a reply and will send none
        self.models: dict[int, Model] = {}  # of the rounds to which somebody owes a reply
        self.fresh: list[Letter[Name]] = []  # the sound replies that came in this round
        self.came: Gathered[Name] = Gathered()  # what else is known of the replies that came in this round
        self.before = dict(self.box.waiting), dict(self.box.used)
        self.rows = Rows()  # for rounds after which no reply waits

    def ask(self, turn: int, nodes: Iterable[Name], model: Model) -> None:
        """Begin a round: these nodes are sent its model."""
        self.models[turn] = model
        self.owing |= dict.fromkeys(nodes, turn)
        self.fresh, self.came = [], Gathered()

    def within_reach(self, turn: int) -> set[Name]:
        """Return the nodes that may take part in a round: their replies are here, or under way."""
        return set(self.owing) | self._new(turn) | self._last(turn)

    def can_close(self, turn: int, need: int) -> bool:
        """Return whether enough sound replies have come for a round that does not wait for all."""
        new = self._new(turn) | {one.worker for one in self.fresh}
        return self.buffer.wait > 0 and self.buffer.enough(new, self._last(turn), need)

    def receive(
        self, turn: int, replies: Iterable[tuple[Name, Reply]], read: Callable[[Reply, Model, Model], Sound]
    ) -> None:
        """Check replies that came and keep the sound ones.

        `read` gets a reply, the model that it answers, and the arrays in which to write the difference.
        """
        for made, some in self._by_round(turn, replies).items():
            model, nodes = self.models[made], [node for node, _ in some if self.owing.get(node) == made]
            rows = self.rows if self.buffer is ON_TIME and not self.fresh else None  # else they are still needed
            came = sort_replies(some, nodes, model, _against(model, read), rows)
            for node in came.nodes + came.faulty:
                del self.owing[node]
            kept = map(Kept, came.updates, came.counts, came.metrics)
            for node, one in zip(came.nodes, kept, strict=True):
                if one.count > 0 or not self.buffer.wait:  # who counts nothing takes nobody's place
                    self.fresh.append(Letter(node, made, turn, one))
            self.came.faulty += came.faulty
            self.came.refused |= came.refused
            self.came.bytes += came.bytes

    def settle(self, turn: int) -> Gathered[Name]:
        """Return the replies that a round uses, and who was refused or is given up."""
        out = self.came
        out.silent = self.lost(turn)
        self._keep(turn)
        for one in self.buffer.take(self.box, turn, time=turn):
            if one.worker not in out.faulty:
                out.nodes.append(one.worker)
                out.updates.append(one.what.update)
                out.counts.append(one.what.count)
                out.metrics.append(one.what.metrics)
                out.ages.append(one.age(turn))
        return out

    def sort(
        self, turn: int, replies: Iterable[tuple[Name, Reply]], read: Callable[[Reply, Model, Model], Sound]
    ) -> Gathered[Name]:
        """Return the replies that a round uses, given all that came."""
        self.receive(turn, replies, read)
        return self.settle(turn)

    def _by_round(self, turn: int, replies: Iterable[tuple[Name, Reply]]) -> dict[int, list[tuple[Name, Reply]]]:
        """The replies by the round whose model they answer; those of clients that owe nothing are with this round's."""
        groups: dict[int, list[tuple[Name, Reply]]] = {}
        for node, reply in replies:
            groups.setdefault(self.owing.get(node, turn), []).append((node, reply))
        return groups

    def _keep(self, turn: int) -> None:
        """Put replies into the mailbox in an order that is drawn; a node whose newest reply is refused has no other."""
        self.box.waiting = {at: one for at, one in self.box.waiting.items() if one.worker not in self.came.faulty}
        self.fresh.sort(key=lambda one: one.worker)
        for at in np.random.default_rng((self.seed, turn, 2)).permutation(len(self.fresh)):
            self.box.put(self.fresh[at])
        self.before = dict(self.box.waiting), dict(self.box.used)

    def put_back(self) -> None:
        """Undo the last `settle`: its round was skipped. The next round tries other replies first, if there are any."""
        waiting, used = self.before
        left = {at: one for at, one in waiting.items() if at in self.box.waiting}
        self.box.waiting, self.box.used = left | waiting, used

    def lost(self, turn: int) -> list[Name]:
        """Return the nodes that will send nothing, or nothing before it is too old to be used."""
        return sorted(
            node for node, made in self.owing.items() if turn - made >= self.buffer.oldest or node in self.gone
        )

    def forget(self, turn: int) -> None:
        """Forget what the next round could not use, and keep the rest in arrays of its own."""
        for node in self.lost(turn):
            del self.owing[node]
        oldest = self.buffer.oldest
        self.gone, self.fresh, self.before = set(), [], ({}, {})
        self.models = {made: model for made, model in self.models.items() if made in self.owing.values()}
        young = {at: one for at, one in self.box.waiting.items() if one.age(turn) < oldest}
        newest = {one.worker: one.made for one in sorted(young.values(), key=lambda one: one.made)}
        self.box.waiting = {at: _owned(one) for at, one in young.items() if newest[one.worker] == one.made}
        self.box.used = {
            node: _owned(one) if one.age(turn) < oldest else replace(one, what=None)
            for node, one in self.box.used.items()
        }

    def _new(self, turn: int) -> set[Name]:
        return set(self.box.there(turn, turn, self.buffer.oldest))

    def _last(self, turn: int) -> set[Name]:
        return {one.worker for one in self.buffer.last(self.box, turn)}

    def memory(self, names: Iterable[str]) -> dict[str, Model]:
        """Return the replies in the mailbox, with arrays in this order, and the turns, for the state of a server.

        What is under way is not in it.
        """
        order, out = list(names), dict[str, Model]()
        letters = [(one, WAITING) for one in self.box.waiting.values()]
        for one, kind in letters + [(one, USED) for one in self.box.used.values()]:
            count = None if one.what is None else one.what.count
            update = {} if one.what is None else {name: one.what.update[name] for name in order}
            out[json.dumps([LETTER, kind, one.worker, one.made, one.due, count])] = update
        return out

    def remember(self, memory: dict[str, Model]) -> None:
        """Begin anew, with the replies of such a memory."""
        self.owing, self.models, self.box = {}, {}, self.buffer.mailbox()
        for name, update in memory.items():
            if name.startswith(f'["{LETTER}"'):
                _, kind, node, made, due, count = json.loads(name)
                one = Letter(node, made, due, None if count is None else Kept(update, count, {}))
                if kind == USED:
                    self.box.used[node] = one
                else:
                    self.box.waiting[node, made] = one


def _against(model: Model, read: Callable[[Reply, Model, Model], Sound]) -> Callable[[Reply, Model], Sound]:
    """How replies to one model are read."""
    return lambda reply, rows: read(reply, model, rows)


def _owned(one: Letter[Name]) -> Letter[Name]:
    """The same with arrays of its own: a reply is read into an array of the whole round, which need not be kept."""
    if one.what is None or all(values.base is None for values in one.what.update.values()):
        return one
    return replace(
        one, what=replace(one.what, update={name: values.copy() for name, values in one.what.update.items()})
    )
