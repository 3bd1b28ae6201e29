"""What goes over the wire: to every rank its columns of all vectors, and from it its part of the answer."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from holdfast.engines.sharded.watch import watched
from holdfast.errors import BadInput, listing
from holdfast.masses import Masses, read_masses
from holdfast.reading import spread
from holdfast.updates import Updates

BESIDE = " beside"  # the mark of tensors that are combined and not measured
WIRED = {np.dtype(bool): np.dtype(np.uint8)}  # not every backend sends truth values

Weights = Sequence[float] | np.ndarray | Masses | None
"""How much each rank counts, the same on all ranks; None: all count alike."""

_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # its name before torch 2.13


class Wire:
    """The ranks of a group: small exchanges of numbers in the order of ranks, large ones by columns.

    A worker may be several ranks, each with columns of its own: `parts` is their group, and `group` has the ranks of
    all workers that hold the same columns. Large exchanges stay within `group`, small ones go to the ranks of all
    workers.
    """

    def __init__(self, group: Any = None, device: torch.device | str = "cpu", parts: Any = None) -> None:
        if not dist.is_initialized():
            raise BadInput("torch.distributed is not initialised; call holdfast.engines.sharded.begin() first.")
        self.group, self.device, self.parts = group, torch.device(device), parts
        self.n, self.rank = dist.get_world_size(group), dist.get_rank(group)
        self.processes = self.n * (1 if parts is None else dist.get_world_size(parts))
        if self.rank < 0:
            raise BadInput(f"rank {dist.get_rank()} is not in the group that was given; only its members call this.")

    def shards(self, part: np.ndarray) -> np.ndarray:
        """What every rank has, stacked in the order of ranks, so that every rank that adds it up gets the same bits."""
        own = part if self.parts is None else self._gather(part, self.parts)
        return self._gather(own, self.group).reshape(self.processes, *part.shape)

    def _gather(self, part: np.ndarray, group: Any) -> np.ndarray:
        """What every rank of one group has."""
        sent, n = np.ascontiguousarray(part, WIRED.get(part.dtype, part.dtype)), dist.get_world_size(group)
        mine = torch.from_numpy(sent.reshape(-1)).to(self.device)
        out = torch.empty(n * mine.numel(), dtype=mine.dtype, device=self.device)
        with watched("comparing notes"):
            finish(_all_gather(out, mine, group=group, async_op=True))
        return out.cpu().numpy().reshape(n, *part.shape).astype(part.dtype)

    def whole_sizes(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """How many numbers a worker has of each kind, on all of its ranks."""
        if self.parts is None:
            return dict(sizes)
        totals = self._gather(np.array([*sizes.values()], np.int64), self.parts).sum(axis=0)
        return dict(zip(sizes, totals.tolist(), strict=True))

    def agreed(self, signature: str, *, wish: bool = False) -> bool:
        """Refuse, on all ranks alike, if some were asked for something else; whether any rank has a wish."""
        _over.clear()
        digest = int.from_bytes(hashlib.blake2b(signature.encode(), digest_size=8).digest(), "little", signed=True)
        rows = self.shards(np.array([digest, wish, dist.get_rank()], np.int64))
        usual = Counter(rows[:, 0].tolist()).most_common(1)[0][0]
        others = rows[rows[:, 0] != usual, 2]
        if len(others):
            who = f"{'ranks' if len(others) > 1 else 'rank'} {listing(map(str, others))}"
            raise BadInput(
                f"{who} came with other tensors, weights, another rule or rng than most; all ranks pass the same."
            )
        return bool(rows[:, 1].any())

    def weighed(self, signature: str, who: str, weights: Weights, *, wish: bool = False) -> tuple[Masses | None, bool]:
        """The same, and the weights that all ranks passed; ranks that passed others are named, as for other things."""
        masses, refusal = None, None
        try:
            masses = None if weights is None else read_masses(weights, self.n, who)
        except BadInput as error:  # said after all were asked, so that nobody waits for a rank that has raised
            refusal = error
        told = refusal if masses is None else (masses.weights.tolist(), masses.given.tolist())
        wished = self.agreed(f"{signature} {told}", wish=wish)
        if refusal is not None:
            raise refusal
        return masses, wished

    def columns(self, flat: Tensor) -> tuple[Tensor, Any]:
        """Start to exchange: n parts of equal size, each to its rank; what comes, and what to wait for."""
        got = taken(flat.numel(), flat)
        with watched("exchanging vectors"):
            return got, dist.all_to_all_single(got, flat, group=self.group, async_op=True)

    def whole(self, part: Tensor, out: Tensor) -> Tensor:
        """The parts of all ranks, one behind the other; by broadcasts, since Gloo's gather copies once more."""
        parts = out.view(self.n, -1)
        parts[self.rank] = part
        with watched("gathering the answer"):
            ranks = [rank if self.group is None else dist.get_global_rank(self.group, rank) for rank in range(self.n)]
            for work in [dist.broadcast(parts[at], rank, self.group, async_op=True) for at, rank in enumerate(ranks)]:
                finish(work)
        return out


_over: list[Any] = []
"""The works of the last exchange. What is started within a backward pass holds Python objects; if Gloo's thread
were the last to let go of it while the program ends, it would wait for the interpreter's lock for ever."""


def finish(work: Any) -> None:
    """Wait for a work, and hold it longer than Gloo does, until the next exchange begins."""
    _over.append(work)
    work.wait()


_spare: list[Tensor] = []
"""Buffers of earlier exchanges: memory that is touched for the first time costs as much as sending it."""


def taken(size: int, like: Tensor) -> Tensor:
    """A buffer of this size and of that type, an old one if there is one."""
    for at, one in enumerate(_spare):
        if one.numel() == size and one.dtype == like.dtype and one.device == like.device:
            return _spare.pop(at)
    return torch.empty(size, dtype=like.dtype, device=like.device)


@dataclass(frozen=True)
class Layout:
    """Tensors as one flat vector a kind (its type, and whether it is measured), cut into as many parts as ranks."""

    shapes: tuple[tuple[int, ...], ...]
    kinds: tuple[str, ...]
    ranks: int

    @classmethod
    def of(cls, tensors: Sequence[Tensor], ranks: int, beside: int = 0) -> Layout:
        """The layout of these; the last `beside` of them are combined like the others and not measured."""
        last = len(tensors) - beside
        kinds = [f"{t.dtype}".removeprefix("torch.") + BESIDE * (at >= last) for at, t in enumerate(tensors)]
        return cls(tuple(tuple(t.shape) for t in tensors), tuple(kinds), ranks)

    @cached_property
    def members(self) -> dict[str, list[int]]:
        """Which tensors are of a kind."""
        return {kind: [at for at, own in enumerate(self.kinds) if own == kind] for kind in dict.fromkeys(self.kinds)}

    @cached_property
    def sizes(self) -> dict[str, int]:
        """How many numbers there are of a kind."""
        return {kind: sum(int(np.prod(self.shapes[at])) for at in members) for kind, members in self.members.items()}

    def part(self, kind: str) -> int:
        """How many of them go to a rank, those that fill up the last part included; at least one, to be sent."""
        return max(1, -(-self.sizes[kind] // self.ranks))

    def own(self, kind: str, rank: int) -> int:
        """How many of a rank's part are real."""
        part, size = self.part(kind), self.sizes[kind]
        return min(size, (rank + 1) * part) - min(size, rank * part)

    def flat(self, tensors: Sequence[Tensor], kind: str) -> Tensor:
        """The tensors of a kind in one vector that every rank has an equal part of."""
        if (place := self.place(tensors, kind)) is not None:
            return place
        members, real = [tensors[at] for at in self.members[kind]], self.sizes[kind]
        out = taken(self.part(kind) * self.ranks, members[0])
        torch.cat([t.detach().reshape(-1) for t in members], out=out[:real])
        out[real:] = 0
        return out

    def place(self, tensors: Sequence[Tensor], kind: str) -> Tensor | None:
        """The one tensor of its kind as that vector, where it is one without a copy."""
        first, *more = (tensors[at] for at in self.members[kind])
        fits = not more and first.is_contiguous() and first.numel() == self.part(kind) * self.ranks
        return first.detach().view(-1) if fits else None

    def put(self, kind: str, flat: Tensor, tensors: Sequence[Tensor]) -> None:
        """The other way round, into the tensors."""
        members = [tensors[at].detach() for at in self.members[kind]]
        sizes = [member.numel() for member in members]
        for member, values in zip(members, torch.split(flat[: sum(sizes)], sizes), strict=True):
            member.copy_(values.view(member.shape))


@dataclass
class Exchange:
    """One exchange: the columns of all ranks here, and what brings answers back to all of them."""

    wire: Wire
    layout: Layout
    updates: Updates
    buffers: dict[str, Tensor]
    sent: list[Tensor] = field(default_factory=list)  # copies of ours that were sent

    @classmethod
    def of(cls, wire: Wire, layout: Layout, tensors: Sequence[Tensor], masses: Masses | None) -> Exchange:
        """Send everybody its columns of these tensors, and get ours of the others'."""
        flat = {kind: layout.flat(tensors, kind) for kind in layout.members}
        came = {kind: wire.columns(own) for kind, own in flat.items()}
        exchange = cls.arrived(wire, layout, came, masses)
        exchange.sent = [own for kind, own in flat.items() if layout.place(tensors, kind) is None]
        return exchange

    @classmethod
    def arrived(
        cls, wire: Wire, layout: Layout, came: Mapping[str, tuple[Tensor, Any]], masses: Masses | None
    ) -> Exchange:
        """The same, once what was started has come."""
        with watched("exchanging vectors"):
            for _, work in came.values():
                finish(work)
        rows = {kind: got.view(wire.n, -1)[:, : layout.own(kind, wire.rank)] for kind, (got, _) in came.items()}
        sizes = wire.whole_sizes(layout.sizes)
        updates = spread(rows, sizes, wire.shards, wire.processes, measure=lambda kind: BESIDE not in kind)
        updates = updates if masses is None else updates.weighted(masses)
        return cls(wire, layout, updates, {kind: got for kind, (got, _) in came.items()})

    def close(self) -> None:
        """Its buffers serve the next one; those that nobody took go."""
        _spare[:] = [*self.buffers.values(), *self.sent]

    def start(self, tensors: Sequence[Tensor]) -> dict[str, Tensor]:
        """Our columns of a vector that all ranks have."""
        out = {}
        for kind in self.layout.members:
            part, own = self.layout.part(kind), self.layout.own(kind, self.wire.rank)
            out[kind] = self.layout.flat(tensors, kind)[self.wire.rank * part :][:own]
        fine = np.array(all(bool(torch.isfinite(part).all()) for part in out.values()))
        if not self.wire.shards(fine).all():
            raise BadInput("a start was given that is not finite; give a finite vector.")
        return out

    def answer(self, value: Mapping[str, Tensor], tensors: Sequence[Tensor]) -> None:
        """Put the whole of an answer into the tensors, from all ranks' parts; what was exchanged is lost by it."""
        for kind, own in value.items():
            part, size = own, self.layout.part(kind)
            if own.numel() < size:
                part = torch.zeros(size, dtype=own.dtype, device=own.device)
                part[: own.numel()] = own
            if (place := self.layout.place(tensors, kind)) is not None:
                self.wire.whole(part, place)
            else:
                self.layout.put(kind, self.wire.whole(part, self.buffers[kind]), tensors)
