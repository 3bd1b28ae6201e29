"""What goes over the wire: to every rank its columns of all vectors, and from it its part of the answer."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from holdfast.engines.sharded.watch import watched
from holdfast.errors import BadInput, listing
from holdfast.updates import Updates, spread

BESIDE = " beside"  # the mark of tensors that are combined and not measured
WIRED = {np.dtype(bool): np.dtype(np.uint8)}  # not every backend sends truth values

_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # its name before torch 2.13


class Wire:
    """The ranks of a group: small exchanges of numbers in the order of ranks, large ones by columns."""

    def __init__(self, group: Any = None, device: torch.device | str = "cpu") -> None:
        if not dist.is_initialized():
            raise BadInput("torch.distributed is not initialised; call holdfast.engines.sharded.begin() first.")
        self.group, self.device = group, torch.device(device)
        self.n, self.rank = dist.get_world_size(group), dist.get_rank(group)

    def shards(self, part: np.ndarray) -> np.ndarray:
        """What every rank has, stacked in the order of ranks: whoever adds it up gets the same bits."""
        sent = np.ascontiguousarray(part, WIRED.get(part.dtype, part.dtype))
        mine = torch.from_numpy(sent.reshape(-1)).to(self.device)
        out = torch.empty(self.n * mine.numel(), dtype=mine.dtype, device=self.device)
        with watched("comparing notes"):
            _all_gather(out, mine, group=self.group)
        return out.cpu().numpy().reshape(self.n, *part.shape).astype(part.dtype)

    def agreed(self, words: str) -> None:
        """Refuse, on all ranks alike, if some were asked for something else."""
        digest = int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest(), "little", signed=True)
        found = self.shards(np.array(digest, np.int64))
        usual = Counter(found.tolist()).most_common(1)[0][0]
        others = np.flatnonzero(found != usual)
        if len(others):
            who = f"{'ranks' if len(others) > 1 else 'rank'} {listing(map(str, others))}"
            raise BadInput(f"{who} came with other tensors, another rule or rng than most; all ranks pass the same.")

    def columns(self, flat: Tensor) -> tuple[Tensor, Any]:
        """Start to exchange: n parts of equal size, each to its rank; what comes, and what to wait for."""
        got = torch.empty_like(flat)
        with watched("exchanging vectors"):
            return got, dist.all_to_all_single(got, flat, group=self.group, async_op=True)

    def whole(self, part: Tensor, out: Tensor) -> Tensor:
        """The parts of all ranks, one behind the other."""
        with watched("gathering the answer"):
            _all_gather(out, part, group=self.group)
        return out


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
        return {kind: sum(int(np.prod(self.shapes[at])) for at in some) for kind, some in self.members.items()}

    def part(self, kind: str) -> int:
        """How many of them go to a rank, those that fill up the last part included."""
        return -(-self.sizes[kind] // self.ranks)

    def own(self, kind: str, rank: int) -> int:
        """How many of a rank's part are real."""
        part, size = self.part(kind), self.sizes[kind]
        return min(size, (rank + 1) * part) - min(size, rank * part)

    def flat(self, tensors: Sequence[Tensor], kind: str) -> Tensor:
        """The tensors of a kind in one vector that every rank has an equal part of."""
        some, size = [tensors[at] for at in self.members[kind]], self.part(kind) * self.ranks
        if len(some) == 1 and some[0].is_contiguous() and some[0].numel() == size:
            return some[0].detach().view(-1)
        out = torch.zeros(size, dtype=some[0].dtype, device=some[0].device)
        torch.cat([t.detach().reshape(-1) for t in some], out=out[: self.sizes[kind]])
        return out

    def put(self, flat: Mapping[str, Tensor], tensors: Sequence[Tensor]) -> None:
        """The other way round, into the tensors."""
        for kind, some in self.members.items():
            sizes = [tensors[at].numel() for at in some]
            for at, values in zip(some, torch.split(flat[kind][: sum(sizes)], sizes), strict=True):
                tensors[at].detach().copy_(values.view(tensors[at].shape))


@dataclass
class Exchange:
    """One exchange: the columns of all ranks here, and what brings answers back to all of them."""

    wire: Wire
    layout: Layout
    updates: Updates
    buffers: dict[str, Tensor]

    @classmethod
    def of(cls, wire: Wire, layout: Layout, tensors: Sequence[Tensor]) -> Exchange:
        """Send everybody its columns of these tensors, and get ours of the others'."""
        flat = {kind: layout.flat(tensors, kind) for kind in layout.members}
        came = {kind: wire.columns(own) for kind, own in flat.items()}
        return cls.arrived(wire, layout, came)

    @classmethod
    def arrived(cls, wire: Wire, layout: Layout, came: Mapping[str, tuple[Tensor, Any]]) -> Exchange:
        """The same, once what was started has come."""
        with watched("exchanging vectors"):
            for _, work in came.values():
                work.wait()
        rows = {kind: got.view(wire.n, -1)[:, : layout.own(kind, wire.rank)] for kind, (got, _) in came.items()}
        updates = spread(rows, wire.shards, lambda kind: BESIDE not in kind)
        return cls(wire, layout, updates, {kind: got for kind, (got, _) in came.items()})

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

    def answered(self, value: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The whole of an answer, a flat vector a kind, from all ranks' parts."""
        found = {}
        for kind, own in value.items():
            part = torch.zeros(self.layout.part(kind), dtype=own.dtype, device=own.device)
            part[: own.numel()] = own
            out = torch.empty(part.numel() * self.wire.n, dtype=own.dtype, device=own.device)
            found[kind] = self.wire.whole(part, out)
        return found
