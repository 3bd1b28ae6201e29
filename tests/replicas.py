"""What the ranks of tests/test_fsdp.py do: models that FSDP2 shards over replicas of several ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from holdfast import CWTM, NNM, BadInput, CenteredClipping, CenterwO, Mean2P, MeanwO
from holdfast.engines.fsdp import RobustFSDP
from holdfast.engines.sharded import Ledger, Momentum, load, robust_all_reduce, save
from holdfast.rules.base import Stage

RULES: tuple[Stage, ...] = (*(MeanwO(f=1), CenterwO(f=1), CWTM(f=1), NNM(f=1) >> CWTM(f=1), CenteredClipping(tau=0.5)),)
STEPS = 3


class Small(nn.Module):
    """Sizes that two ranks cannot share evenly, a bias of which one rank has nothing, a part that is frozen."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 33), nn.Linear(33, 7), nn.Linear(7, 1)
        self.frozen = nn.Linear(6, 6)
        self.frozen.requires_grad_(False)
        self.to(dtype)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.second(torch.tanh(self.first(self.frozen(x))))))


def sharded(mesh: DeviceMesh, dtype: torch.dtype = torch.float32, *, layers: bool = True) -> nn.Module:
    """The same model on all ranks, sharded layer by layer over one dimension of a mesh."""
    torch.manual_seed(0)
    model = Small(dtype)
    for layer in (model.first, model.second) if layers else ():
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def felt(model: nn.Module, rank: int, step: int) -> Tensor:
    """A rank's loss on data of its own."""
    dtype = next(model.parameters()).dtype
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(1000 * step + rank)).to(dtype)
    return F.mse_loss(model(x), x.sum(dim=1, keepdim=True))


def backward(loss: Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]


def parts(model: nn.Module) -> list[Tensor]:
    """This rank's part of every gradient."""
    grads: Iterator[Any] = (p.grad for p in model.parameters() if p.requires_grad)
    return [grad.to_local().clone() for grad in grads]


def mesh_of(replicas: int, shards: int) -> DeviceMesh:
    return init_device_mesh("cpu", (replicas, shards), mesh_dim_names=("replicate", "shard"))


def replicas(rank: int, n: int, folder: Path) -> None:
    """Four replicas of n / 4 ranks: the last one lies, with a number that is not finite in the second step."""
    mesh = mesh_of(4, n // 4)
    mine = mesh["replicate"].get_local_rank()
    found = []
    for rule in RULES:
        ledger = Ledger(folder / "ranks.jsonl") if rule == MeanwO(f=1) else None
        model = sharded(mesh["shard"])
        robust = RobustFSDP(model, rule, mesh["replicate"], ledger=ledger)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
        for step in range(STEPS):
            optimizer.zero_grad()
            lie = torch.nan if step == 1 else -20.0
            backward(felt(model, rank, step) * (lie if mine == 3 else 1.0))
            sent = parts(model)
            decision = robust.aggregate()
            assert decision is not None
            told = (decision.kept, dict(decision.dropped), decision.weights)
            found.append((repr(rule), step, sent, parts(model), told))
            optimizer.step()
    torch.save(found, folder / f"{rank}.pt")


def shapes(rank: int, n: int, folder: Path) -> None:
    """Replicas of one rank, next to `robust_all_reduce`; other types; too many lies; accumulated gradients; weights."""
    told: dict[str, Any] = {}
    mesh = mesh_of(n, 1)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        model = sharded(mesh["shard"], dtype)
        backward(felt(model, rank, 0))
        sent = parts(model)
        robust_all_reduce(sent, MeanwO(f=1))
        RobustFSDP(model, MeanwO(f=1), mesh["replicate"]).aggregate()
        told[f"as all-reduce, {dtype}"] = all(map(torch.equal, parts(model), sent))
    model = sharded(mesh["shard"])
    robust = RobustFSDP(model, MeanwO(f=1), mesh["replicate"], ledger=Ledger(folder / "ranks.jsonl"))
    backward(felt(model, rank, 0) * (torch.nan if rank < 2 else 1.0))
    told["skipped"] = (robust.aggregate(), sum(float(part.abs().sum()) for part in parts(model)))
    model.zero_grad()
    backward(felt(model, rank, 1))
    backward(felt(model, rank, 2))  # added to the first
    sent = parts(model)
    robust_all_reduce(sent, MeanwO(f=1))
    robust.aggregate()
    told["accumulated"] = all(map(torch.equal, parts(model), sent))
    told["momentum"] = remembered(rank, mesh)
    model.zero_grad()
    backward(felt(model, rank, 3))
    decision = RobustFSDP(model, CWTM(f=1), mesh["replicate"], weights=[3, 1, 1, 1.5]).aggregate()
    told["weights"] = decision is not None and decision.masses is not None
    torch.save(told, folder / f"{rank}.pt")


def remembered(rank: int, mesh: DeviceMesh) -> bool:
    """Momenta that the engine keeps are those that are computed by hand."""
    model, held = sharded(mesh["shard"]), None
    robust = RobustFSDP(model, CWTM(f=1), mesh["replicate"], momentum=Momentum(0.8))
    for step in range(3):
        model.zero_grad()
        backward(felt(model, rank, step))
        now = parts(model)
        held = [torch.lerp(m, g, 0.2) for m, g in zip(held or map(torch.zeros_like, now), now, strict=True)]
        wanted = [m.clone() for m in held]
        robust_all_reduce(wanted, CWTM(f=1))
        robust.aggregate()
        if not all(map(torch.equal, parts(model), wanted)):
            return False
    return True


def resumed(rank: int, n: int, folder: Path) -> None:
    """A training of four steps, and one that goes on from the checkpoint after two."""
    mesh, found = mesh_of(2, n // 2), []
    for cut in (False, True):
        model, memory = sharded(mesh["shard"]), Momentum(0.8)
        done = load(folder / "saved", model, memory) if cut else 0
        robust = RobustFSDP(model, MeanwO(f=0), mesh["replicate"], momentum=memory)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
        for step in range(done, 4):
            optimizer.zero_grad()
            backward(felt(model, rank, step))
            robust.aggregate()
            optimizer.step()
            if step == 1:
                save(folder / "saved", 2, model, memory)
        found.append((done, parts(model)))
    torch.save((found, tiny(rank, mesh)), folder / f"{rank}.pt")


def tiny(rank: int, mesh: DeviceMesh) -> list[Tensor]:
    """Two numbers, both of which the first rank of a replica holds: the other one has nothing."""
    model = nn.Linear(1, 1)
    nn.init.zeros_(model.weight)
    fully_shard(model, mesh=mesh["shard"])
    backward(model(torch.full((3, 1), rank + 1.0)).mean())
    RobustFSDP(model, CWTM(f=0), mesh["replicate"]).aggregate()
    return parts(model)


def refusals(rank: int, n: int, folder: Path) -> None:
    """What cannot be: each is one sentence, on all ranks."""
    mesh, flat = mesh_of(2, n // 2), init_device_mesh("cpu", (n,))
    across, within = mesh["replicate"], mesh["shard"]
    mean = MeanwO(f=0)

    def mixed() -> None:
        model = Small()
        fully_shard(model.first, mesh=within)
        fully_shard(model, mesh=flat)
        RobustFSDP(model, mean, across)

    def partly() -> None:
        model = Small()
        fully_shard(model.first, mesh=within)
        RobustFSDP(model, mean, across)

    def unused() -> None:
        model = sharded(within)
        backward(felt(model, rank, 0))
        model.last.bias.grad = None  # type: ignore[union-attr]
        RobustFSDP(model, mean, across).aggregate()

    def unequal() -> None:
        model = sharded(within)
        backward(felt(model, rank, 0))
        if rank == 1:
            model.last.bias.grad = None  # type: ignore[union-attr]
        RobustFSDP(model, mean, across).aggregate()

    asked: dict[str, Callable[[], Any]] = {
        "native": lambda: RobustFSDP(sharded(mesh), mean, across),
        "plain": lambda: RobustFSDP(sharded(flat), mean, flat),
        "mixed": mixed,
        "partly": partly,
        "whole": lambda: RobustFSDP(Small(), mean, across),
        "frozen": lambda: RobustFSDP(sharded(within).requires_grad_(False), mean, across),
        "both": lambda: RobustFSDP(sharded(within), mean, mesh),
        "group": lambda: RobustFSDP(sharded(within), mean, dist.group.WORLD),  # type: ignore[arg-type]
        "few": lambda: RobustFSDP(sharded(within), MeanwO(f=1), across),
        "vote": lambda: RobustFSDP(sharded(within), Mean2P(f=0), across),  # type: ignore[arg-type]
        "unused": unused,
        "unequal": unequal,
    }
    told: dict[str, str] = {}
    for name, ask in asked.items():
        try:
            ask()
        except BadInput as refusal:
            told[name] = str(refusal)
    torch.save(told, folder / f"{rank}.pt")
