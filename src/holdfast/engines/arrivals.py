"""Who owes a reply to which round's model, which replies are here, and which of them a round uses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Generic

import numpy as np

from holdfast.buffer import Buffer
from holdfast.engines.differences import Model
from holdfast.engines.replies import Gathered, Name, Reply, Sound, sort_replies
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
        self.models: dict[int, Model] = {}  # of the rounds to which somebody owes a reply
        self.before = dict(self.box.waiting), dict(self.box.used)

    def ask(self, turn: int, nodes: Iterable[Name], model: Model) -> None:
        """Note that these nodes are sent the model of a round."""
        self.models[turn] = model
        self.owing |= dict.fromkeys(nodes, turn)

    def within_reach(self, turn: int) -> set[Name]:
        """Return the nodes that may take part in a round: their replies are here, or under way."""
        return set(self.owing) | self._new(turn) | self._last(turn)

    def closing(self, turn: int, need: int) -> Callable[[set[Name]], bool]:
        """Return a function that says whether a round closes once these nodes have replied."""
        new, last = self._new(turn), self._last(turn)
        return lambda came: self.buffer.wait > 0 and self.buffer.enough(new | came, last, need)

    def sort(
        self, turn: int, replies: Iterable[tuple[Name, Reply]], read: Callable[[Reply, Model, Model], Sound], need: int
    ) -> Gathered[Name]:
        """Check the replies that came, keep the sound ones, and return those that round `turn` uses.

        `read` gets a reply, the model that it answers, and the arrays in which to write the difference. If there are
        fewer replies than `need`, they all wait for the next round.
        """
        out = Gathered[Name]()
        sound: list[Letter[Name]] = []
        for made, some in self._by_round(turn, replies).items():
            model, nodes = self.models[made], [node for node, _ in some if self.owing.get(node) == made]
            came = sort_replies(some, nodes, model, _against(model, read))
            kept = map(Kept, came.updates, came.counts, came.metrics)
            sound += [Letter(node, made, turn, one) for node, one in zip(came.nodes, kept, strict=True)]
            out.faulty += came.faulty
            out.refused |= came.refused
            out.bytes += came.bytes
        for node in out.faulty + [one.worker for one in sound]:
            del self.owing[node]
        out.silent = self.lost(turn)
        self._keep(turn, sound, out)
        for one in self._use(turn, need):
            if one.worker not in out.faulty:
                out.nodes.append(one.worker)
                out.updates.append(one.what.update)
                out.counts.append(one.what.count)
                out.metrics.append(one.what.metrics)
                out.ages.append(one.age(turn))
        return out

    def _by_round(self, turn: int, replies: Iterable[tuple[Name, Reply]]) -> dict[int, list[tuple[Name, Reply]]]:
        """The replies by the round whose model they answer; those of clients that owe nothing are with this round's."""
        groups: dict[int, list[tuple[Name, Reply]]] = {}
        for node, reply in replies:
            groups.setdefault(self.owing.get(node, turn), []).append((node, reply))
        return groups

    def _keep(self, turn: int, sound: list[Letter[Name]], came: Gathered[Name]) -> None:
        """Put replies into the mailbox in an order that is drawn; a node whose newest reply is refused has no other."""
        self.box.waiting = {at: one for at, one in self.box.waiting.items() if one.worker not in came.faulty}
        sound.sort(key=lambda one: one.worker)
        for at in np.random.default_rng((self.seed, turn, 2)).permutation(len(sound)):
            self.box.put(sound[at])
        self.before = dict(self.box.waiting), dict(self.box.used)

    def _use(self, turn: int, need: int) -> list[Letter[Name]]:
        """Take replies out of the mailbox, or leave them there if they are too few."""
        here = self.box.there(turn, turn, self.buffer.oldest)
        if len(set(here) | self._last(turn)) < need:
            return sorted(here.values(), key=lambda one: one.worker)
        return self.buffer.take(self.box, turn, time=turn)

    def put_back(self) -> None:
        """Undo the last `sort`: its round was skipped, so the replies were not used."""
        self.box.waiting, self.box.used = map(dict, self.before)

    def lost(self, turn: int) -> list[Name]:
        """Return the nodes whose replies, if they come after this round, are too old to be used."""
        return sorted(node for node, made in self.owing.items() if turn - made >= self.buffer.oldest)

    def forget(self, turn: int) -> None:
        """Forget what the next round could not use, and keep the rest in arrays of its own."""
        for node in self.lost(turn):
            del self.owing[node]
        self.models = {made: model for made, model in self.models.items() if made in self.owing.values()}
        young = self.box.there(turn, turn, self.buffer.oldest - 1)
        self.box.waiting = {(one.worker, one.made): _owned(one) for one in young.values()}
        self.box.used = {node: _owned(one) for node, one in self.box.used.items()}

    def _new(self, turn: int) -> set[Name]:
        return set(self.box.there(turn, turn, self.buffer.oldest))

    def _last(self, turn: int) -> set[Name]:
        return {one.worker for one in self.buffer.last(self.box, turn)}

    def memory(self, names: Iterable[str]) -> dict[str, Model]:
        """Return the replies in the mailbox, with arrays in this order, for the state of a server.

        What is under way is not in it.
        """
        order = list(names)
        letters = [(one, WAITING) for one in self.box.waiting.values()]
        letters += [(one, USED) for one in self.box.used.values() if one.what is not None]
        return {
            json.dumps([LETTER, kind, one.worker, one.made, one.due, one.what.count]): {
                name: one.what.update[name] for name in order
            }
            for one, kind in letters
        }

    def remember(self, memory: dict[str, Model]) -> None:
        """Begin anew, with the replies of such a memory."""
        self.owing, self.models, self.box = {}, {}, self.buffer.mailbox()
        for name, update in memory.items():
            if name.startswith(f'["{LETTER}"'):
                _, kind, node, made, due, count = json.loads(name)
                one = Letter(node, made, due, Kept(update, count, {}))
                if kind == WAITING:
                    self.box.put(one)
                else:
                    self.box.used[one.worker] = one


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
