"""Jobs of several ranks on loopback, for the tests: `python -m tests.ranks SCENARIO N FOLDER` forks n ranks."""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import socket
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from holdfast import CWTM, BadInput, CenteredClipping, Mean2P, MeanwO, cap, parse
from holdfast.choice import Weights
from holdfast.engines.ddp import Robust, hook
from holdfast.engines.sharded import (
    Ledger,
    Momentum,
    RankFailed,
    begin,
    load,
    robust_all_reduce,
    robust_reduce_scatter,
    save,
    two_phase_step,
    watch,
)
from holdfast.engines.sharded.checkpoint import saved
from holdfast.engines.sharded.reader import write_checksums
from holdfast.errors import BrokenRule, TooManyFaults
from holdfast.rules.base import CoordinateRule, DistanceRule, Distances, Rng
from holdfast.values import value
from tests.children import PATIENCE, wait_until
from tests.flipping import flipping
from tests.replicas import refusals, replicas, resumed, shapes
from tests.rules_under_test import EXACT, RULES, calls

TYPES = (torch.float32, torch.float64, torch.bfloat16)
EXPIRES = 20.0  # seconds, in jobs that wait for a rank in vain; much longer than a step takes
SHAPES = ((7, 5), (), (261,), (3, 1, 2))


def largest(rule: Any, n: int) -> Any:
    """The rule with the largest f that n allows; None if there is none."""
    for f in range(n, -1, -1):
        made = parse(repr(rule).replace("f=2", f"f={f}").replace("m=3", f"m={min(3, n)}"))
        if made.least() <= n:
            return made
    return None


def cloud(n: int, d: int, kind: str) -> np.ndarray:
    """What the ranks send: a cloud, liars next to it and far away; perhaps one that is not finite."""
    X = np.random.default_rng((n, d)).normal(size=(n, d))
    X[0] += 4
    if kind == "nan":
        X[-1, d // 2] = np.nan
    return X


def cut(x: np.ndarray, dtype: torch.dtype, d: int) -> list[Tensor]:
    """A vector as tensors of several shapes; the whole as one if it is short."""
    flat = torch.from_numpy(x).to(dtype)
    if d != sum(int(np.prod(shape)) for shape in SHAPES):
        return [flat.clone()]
    parts = torch.split(flat, [int(np.prod(shape)) for shape in SHAPES])
    return [part.clone().reshape(shape) for part, shape in zip(parts, SHAPES, strict=True)]


def cases(n: int) -> list[tuple[str, torch.dtype, int, str]]:
    """(rule, type, dimension, kind): every rule at its largest f; short vectors and others' NaN for some types."""
    out = []
    for rule in (*RULES, *EXACT):
        made = largest(rule, n)
        if made is not None:
            out += [(repr(made), dtype, 303, "plain") for dtype in TYPES]
            out += [(repr(made), torch.float32, 303, "nan"), (repr(made), torch.float64, max(1, n - 1), "plain")]
    return out


def every_rule(rank: int, n: int, folder: Path) -> None:
    """All cases; every rank saves what it got."""
    found = []
    for text, dtype, d, kind in cases(n):
        rule = parse(text)
        tensors = cut(cloud(n, d, kind)[rank], dtype, d)
        start = cut(np.full(d, 0.25), dtype, d)
        words = calls(rule, d, start=start)
        try:
            decision = robust_all_reduce(tensors, rule, **words)
            told: Any = (decision.kept, dict(decision.dropped))
        except BadInput as refusal:
            told = str(refusal)
        found.append((torch.cat([t.reshape(-1) for t in tensors]), told))
    torch.save(found, folder / f"{rank}.pt")


def mixed(rank: int, n: int, folder: Path) -> None:
    """Types together, counters, tensors beside, a part for each rank; and ranks that do not agree."""
    rng = np.random.default_rng(rank)
    tensors = [
        torch.from_numpy(rng.normal(size=(5, 3))).float(),
        torch.from_numpy(rng.normal(size=4)),
        torch.tensor([rank, 7]),
        torch.full((3,), 1e6 * rank),  # would decide every distance if it were measured
    ]
    decision = robust_all_reduce(tensors, MeanwO(f=1), beside=1)
    part = torch.empty(6)
    whole = torch.from_numpy(rng.normal(size=6 * n)).float()
    robust_reduce_scatter(part, whole, CWTM(f=1))
    told = []
    seed = np.random.default_rng(0 if rank != 4 else 1)
    drawn = parse("MeanwO(f=1, candidates=3)")
    for odd, rule in ((torch.zeros(4 if rank == 2 else 3), CWTM(f=1)), (torch.zeros(3), drawn)):
        try:
            robust_all_reduce(odd, rule, rng=seed)
        except BadInput as refusal:
            told.append(str(refusal))
    torch.save((tensors, decision.kept, part, told), folder / f"{rank}.pt")


WEIGHTED = (
    "Average()", "CWM()", "CWTM(f=2)", "MeaMed(f=2)", "MeanwO(f=2)", "CenterwO(f=2)", "PTM(f=2)", "MedianwO(f=2)",
    "GeometricMedian()", "Medoid()", "NormBoundedMean(tau=1.0)", "CenteredClipping(tau=1.0)", "NearestTo(CWTM(f=2))",
    "OuterMean(f=2)", "NNM(f=2) >> CWTM(f=2)",
)  # fmt: skip


def weighted_cases(n: int) -> list[tuple[str, torch.dtype, str, list[float]]]:
    """(rule, type, kind, weights): whole weights, others, and a rank that does not count."""
    whole = [float(1 + (3 * rank) % 4) for rank in range(n)]
    some = [whole, [0.3 * w + 0.01 * rank for rank, w in enumerate(whole)], [*whole[:-1], 0.0]]
    rules = [made for text in WEIGHTED if (made := largest(parse(text), n - 2)) is not None]
    kinds = [(torch.float32, "plain", some[0]), (torch.float64, "plain", some[1]), (torch.float64, "nan", some[2])]
    return [(repr(rule), *kind) for rule in rules for kind in kinds]


def weighted(rank: int, n: int, folder: Path) -> None:
    """Weights that all ranks pass; then two phases and the hook by them; then ranks that disagree."""
    told: dict[str, Any] = {"cases": [], "refused": []}
    for text, dtype, kind, weights in weighted_cases(n):
        tensor = torch.from_numpy(cloud(n, 303, kind)[rank]).to(dtype)
        decision = robust_all_reduce(tensor, parse(text), weights=weights)
        told["cases"].append((tensor, decision.weights, dict(decision.dropped)))
    weights = [float(1 + at % 3) for at in range(n)]
    part, whole = torch.empty(6), torch.from_numpy(np.random.default_rng(rank).normal(size=6 * n)).float()
    robust_reduce_scatter(part, whole, CWTM(f=1), weights=weights)
    told["part"] = part
    torch.manual_seed(0)
    net = Net()
    done = two_phase_step(
        net, felt, batch(rank, 0), Mean2P(f=1), lr=0.1, fresh=batch(rank, 9), weights=cap([*weights[:-1], 1e9], 1),
        ledger=Ledger(folder / "ranks.jsonl"),
    )  # fmt: skip
    told["votes"], told["model"] = done.votes, net.state_dict()
    told["hook"] = weighted_hook(rank, weights)
    other = [*weights[:-1], 2.5]
    calls_: list[tuple[Any, Any]] = [
        (CWTM(f=1), other if rank == 2 else weights),
        (CWTM(f=1), [*weights[:-1], -1.0] if rank == 1 else weights),
        (CWTM(f=1), None if rank == 0 else weights),
        (CWTM(f=1), [1.0, 2.0]),
        (CWTM(f=1), [torch.nan] * n),
        (parse("MDA(f=1)"), weights),
        (CWTM(f=1), [1.0] * (n - 1) + [90.0]),
    ]
    for rule, given in calls_:
        try:
            robust_all_reduce(torch.zeros(3), rule, weights=given)
        except BadInput as refusal:
            told["refused"].append(str(refusal))
    torch.save(told, folder / f"{rank}.pt")


def weighted_hook(rank: int, weights: list[float]) -> float:
    """The largest difference of the hook with weights to the weighted rule on whole gradients."""
    torch.manual_seed(0)
    net, worst = Net(norm=False), 0.0
    del net.idle
    own = deepcopy(net)
    model = DistributedDataParallel(net, bucket_cap_mb=0.0002)
    model.register_comm_hook(Robust(MeanwO(f=1), weights=weights), hook)
    for t in range(2):
        for one in (model, own):
            one.zero_grad()
            backward(felt(one, batch(rank, t)))
        slopes = [p.grad.clone() for p in own.parameters() if p.grad is not None]
        robust_all_reduce(slopes, MeanwO(f=1), weights=weights)
        pairs = zip(slopes, net.parameters(), strict=True)
        worst = max(worst, *(float((s - p.grad).abs().max()) for s, p in pairs if p.grad is not None))
    return worst


class Net(nn.Module):
    """Small, with BatchNorm, and a layer that some steps do not use."""

    def __init__(self, norm: bool = True) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(6, 8), nn.BatchNorm1d(8) if norm else nn.Identity()
        self.last, self.idle = nn.Linear(8, 3), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.norm(self.first(x))))


def batch(rank: int, step: int, many: int = 12) -> tuple[Tensor, Tensor]:
    """Images of three kinds, the same for all but for who sees which."""
    g = torch.Generator().manual_seed(1000 * step + rank)
    y = torch.randint(3, (many,), generator=g)
    return torch.randn(many, 6, generator=g) + 2.0 * F.one_hot(y, 6), y


def felt(model: nn.Module, xy: tuple[Tensor, Tensor]) -> Tensor:
    return F.cross_entropy(model(xy[0]), xy[1])


def backward(loss: Any) -> None:
    loss.backward()


def two_phases(rank: int, n: int, folder: Path) -> None:
    """Rank 0 lies about its labels, the last one's data is not finite now and then; a step that nobody can do."""
    torch.manual_seed(0)
    model, memory, steps = Net(), Momentum(0.9), []
    ledger = Ledger(folder / "ranks.jsonl")
    for t in range(12):
        x, y = batch(rank, t)
        if rank == 0:
            y = (y + 1) % 3
        if (rank == n - 1 and t % 4 == 1) or t == 7:
            x = x * torch.nan
        words: dict[str, Any] = {"lr": 0.5, "fresh": batch(rank, 100 + t, 30), "momentum": memory, "ledger": ledger}
        done = two_phase_step(model, felt, (x, y), Mean2P(f=1), step=t, **words)
        steps.append((done.winner, done.votes, done.skipped))
    right = (model.eval()(batch(99, 999, 300)[0]).argmax(1) == batch(99, 999, 300)[1]).float().mean()
    torch.save((model.state_dict(), steps, float(right)), folder / f"{rank}.pt")


HOOKED: dict[str, dict[str, Any]] = {
    "usual": {},
    "views": {"gradient_as_bucket_view": True},
    "static": {"static_graph": True},
    "unused": {"find_unused_parameters": True},
    "small": {"bucket_cap_mb": 0.0002, "gradient_as_bucket_view": True},
    "tiny": {"bucket_cap_mb": 0.00005, "find_unused_parameters": True},
}


def hooked(rank: int, n: int, folder: Path) -> None:
    """The hook under every way to bucket, next to the rule on whole gradients; then scaled, and with momentum."""
    found: dict[str, Any] = {}
    for name, words in HOOKED.items():
        for rule in (MeanwO(f=1), CWTM(f=1), CenteredClipping(tau=0.5)):
            torch.manual_seed(0)
            plain = Net(norm=False)
            if "find_unused_parameters" not in words:
                del plain.idle
            own = deepcopy(plain)
            model, state = DistributedDataParallel(plain, **words), Robust(rule)
            model.register_comm_hook(state, hook)
            last: list[Tensor] | None = None
            for t in range(3):
                x, y = batch(rank, t)
                x = x * torch.nan if rank == 1 and t == 1 else x
                for one in (model, own):
                    one.zero_grad(set_to_none=False)
                    backward(felt(one, (x, y)))
                slopes = [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in own.parameters()]
                robust_all_reduce(slopes, rule, start=last if isinstance(rule, CenteredClipping) else None)
                last = [s.clone() for s in slopes]
                got = [torch.zeros_like(p) if p.grad is None else p.grad for p in plain.parameters()]
                found[f"{name} {rule!r} {t}"] = max(
                    float((a - b).abs().max()) for a, b in zip(got, slopes, strict=True)
                )
                with torch.no_grad():
                    for one in (plain, own):
                        for p, s in zip(one.parameters(), slopes, strict=True):
                            p.sub_(0.1 * s)
    found["scaled"] = scaled(rank)
    found["momentum"] = remembered(rank)
    torch.save(found, folder / f"{rank}.pt")


def scaled(rank: int) -> list[tuple[bool, float, tuple[int, ...]]]:
    """Steps under a gradient scaler: sound, overflow on one rank, overflow on all."""
    torch.manual_seed(0)
    net, scaler = Net(norm=False), torch.amp.GradScaler("cpu", init_scale=1024.0)
    del net.idle
    model, state = DistributedDataParallel(net), Robust(CWTM(f=1), scaler=scaler)
    model.register_comm_hook(state, hook)
    optimizer, told = torch.optim.SGD(net.parameters(), lr=0.1), []
    for bad in (set(), {1}, {0, 1, 2, 3}, set()):
        before = [p.detach().clone() for p in net.parameters()]
        optimizer.zero_grad()
        x, y = batch(rank, 3)
        backward(scaler.scale(felt(model, (x * (torch.inf if rank in bad else 1), y))))
        scaler.step(optimizer)
        scaler.update()
        moved = any(not torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))
        told.append((moved, scaler.get_scale(), tuple(state.decision.dropped) if state.decision else ()))
    return told


def remembered(rank: int) -> float:
    """The largest difference of the hook with momentum to momenta by hand, over buckets that are built anew."""
    torch.manual_seed(0)
    net = Net(norm=False)
    del net.idle
    own = deepcopy(net)
    model = DistributedDataParallel(net, bucket_cap_mb=0.0002)
    model.register_comm_hook(Robust(MeanwO(f=1), momentum=Momentum(0.8)), hook)
    held, worst = [torch.zeros_like(p) for p in own.parameters()], 0.0
    for t in range(4):
        for one in (model, own):
            one.zero_grad()
            backward(felt(one, batch(rank, t)))
        held = [torch.lerp(m, p.grad, 0.2) for m, p in zip(held, own.parameters(), strict=True) if p.grad is not None]
        sent = [m.clone() for m in held]
        robust_all_reduce(sent, MeanwO(f=1))
        pairs = zip(sent, net.parameters(), strict=True)
        worst = max(worst, *(float((s - p.grad).abs().max()) for s, p in pairs if p.grad is not None))
    return worst


def found(rank: int, n: int, folder: Path) -> None:
    """What a hostile tester once broke."""
    told: dict[str, Any] = {}
    torch.manual_seed(0)
    deep = nn.Sequential(*(nn.Linear(6, 6) for _ in range(14)))
    for layer in (deep[3], deep[9]):
        layer.to(torch.float64)
        layer.register_forward_pre_hook(lambda _, x: (x[0].double(),))
        layer.register_forward_hook(lambda *given: given[2].float())
    model, state = DistributedDataParallel(deep, bucket_cap_mb=0.0002), Robust(CenteredClipping(tau=0.5))
    model.register_comm_hook(state, hook)
    told["clipped"] = []
    for t in range(3):
        model.zero_grad()
        backward(model(batch(rank, t)[0]).square().mean())
        told["clipped"].append(state.decision is not None)
    net = Net(norm=False)
    del net.idle
    model = DistributedDataParallel(net)
    state = Robust(CWTM(f=1), ledger=Ledger(folder / "one.jsonl") if rank == 2 else None)
    model.register_comm_hook(state, hook)
    for t in range(2):
        backward(felt(model, batch(rank, t)))
    told["ledger"] = state.step
    words: dict[str, Any] = {"lr": 0.1, "fresh": batch(rank, 50)}
    half = nn.Linear(6, 3).to(torch.bfloat16)
    xy = batch(rank, 1)
    small: dict[str, Any] = {"lr": 0.1, "fresh": (xy[0].bfloat16(), xy[1])}
    told["bfloat16"] = bool(two_phase_step(half, felt, (xy[0].bfloat16(), xy[1]), Mean2P(f=1), **small).winner)
    masked = Net()
    masked.register_buffer("mask", torch.full((3,), -torch.inf))
    told["masked"] = bool(two_phase_step(masked, felt, xy, Mean2P(f=1), **words).winner)
    frozen = Net().train()
    frozen.norm.eval()
    two_phase_step(frozen, felt, xy, Mean2P(f=1), **words)
    told["frozen"] = frozen.training and not frozen.norm.training

    def raising(one: nn.Module, some: tuple[Tensor, Tensor]) -> Tensor:
        if rank == 1:
            raise RuntimeError("labels that are no classes")
        return felt(one, some)

    done = two_phase_step(Net(), raising, xy, Mean2P(f=1), **words)
    told["raising"] = (done.skipped, done.votes)
    optimizer = torch.optim.Adam(net.parameters())
    optimizer.step()
    save(folder / "states", 9, net, optimizer=optimizer)
    other = torch.optim.Adam(net.parameters())
    load(folder / "states", net, optimizer=other)
    told["optimizer"] = len(other.state) == len(optimizer.state) > 0
    save(folder / "states", 3, net, optimizer=optimizer)
    told["older"] = [place.name for place in saved(folder / "states")]
    dist.barrier()
    if rank == 0:
        for part in saved(folder / "states")[-1].glob("*.distcp"):
            part.write_bytes(b"damaged")
    dist.barrier()
    try:
        load(folder / "states", net, optimizer=other)
    except BadInput as refusal:
        told["damaged"] = "cannot be loaded" if "cannot be loaded" in str(refusal) else str(refusal)
    torch.save(told, folder / f"{rank}.pt")


class Hostile:
    """Runs code where it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


class Extra(nn.Linear):
    """A layer with a state that is no tensor."""

    extra: Any = None

    def get_extra_state(self) -> Any:
        return self.extra

    def set_extra_state(self, state: Any) -> None:
        self.extra = state


def strangers(rank: int, n: int, folder: Path) -> None:
    """Checkpoints that are damaged, old, or made to run code."""
    net, told = Extra(4, 3), {}
    optimizer = torch.optim.Adam(net.parameters())
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()

    def tried(name: str, harm: Callable[[Path], None]) -> None:
        save(folder / name, 1, net, optimizer=optimizer)
        if rank == 0:
            harm(saved(folder / name)[-1])
        dist.barrier()
        try:
            told[name] = str(load(folder / name, net, optimizer=optimizer))
        except BadInput as refusal:
            told[name] = str(refusal)
        dist.barrier()

    def flipped(place: Path) -> None:
        (part,) = place.glob("__0_0.distcp")
        content = bytearray(part.read_bytes())
        content[len(content) // 2] ^= 1
        part.write_bytes(content)

    def hostile(place: Path, *, signed: bool) -> None:
        (place / ".metadata").write_bytes(pickle.dumps(Hostile(folder / "owned")))
        (place / "checksums.json").unlink(missing_ok=True)
        if signed:
            write_checksums(place)

    def cut_off(place: Path) -> None:
        (place / ".metadata").write_bytes((place / ".metadata").read_bytes()[:100])
        (place / "checksums.json").unlink(missing_ok=True)

    tried("sound", lambda _: None)
    tried("old", lambda place: (place / "checksums.json").unlink(missing_ok=True))
    tried("flipped", flipped)
    tried("hostile", lambda place: hostile(place, signed=False))
    tried("signed", lambda place: hostile(place, signed=True))
    tried("cut off", cut_off)
    tried("gone", lambda place: (place / "__1_0.distcp").unlink())
    net.extra = Hostile(folder / "owned")
    tried("extra", lambda _: None)
    torch.save((told, (folder / "owned").exists()), folder / f"{rank}.pt")


def refusing(rank: int, n: int, folder: Path) -> None:
    """All ranks but two send what is not finite, more than f = 2: nothing moves, and all ranks say why."""
    bad, told = rank > 1, dict[str, Any]()
    tensor = torch.arange(9.0) + rank
    tensor[4] = torch.nan if bad else 1.0
    before = tensor.clone()
    try:
        robust_all_reduce(tensor, MeanwO(f=2))
    except TooManyFaults as refusal:
        told["reduce"] = str(refusal)
    told["tensor"] = torch.allclose(before, tensor, rtol=0, atol=0, equal_nan=True)
    x, y = batch(rank, 0)
    x = x * torch.nan if bad else x
    for name, step in (("two phases", _voted), ("hook", _hooked)):
        torch.manual_seed(0)
        net = Net(norm=name == "two phases")
        first = {key: t.clone() for key, t in net.state_dict().items()}
        told[name] = step(rank, net, (x, y), Ledger(folder / f"{name}.jsonl"))
        told[f"{name} model"] = all(torch.equal(first[key], t) for key, t in net.state_dict().items())
    torch.save(told, folder / f"{rank}.pt")


def _voted(rank: int, net: Net, xy: tuple[Tensor, Tensor], ledger: Ledger) -> str:
    """Why a two-phase step is skipped."""
    done = two_phase_step(net, felt, xy, Mean2P(f=2), lr=0.5, fresh=batch(rank, 1), ledger=ledger)
    assert done.decision is None
    return done.skipped


def _hooked(rank: int, net: Net, xy: tuple[Tensor, Tensor], ledger: Ledger) -> bool:
    """Whether a step behind the hook was skipped."""
    model = DistributedDataParallel(net, find_unused_parameters=True)
    state = Robust(MeanwO(f=2), ledger=ledger)
    model.register_comm_hook(state, hook)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    backward(felt(model, xy))
    optimizer.step()
    return state.decision is None


@value
class PeerWeights(DistanceRule):
    """Breaks its contract; its name sounds like a broken connection."""

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights:
        return np.full(len(D), np.nan)


@value
class SomeColumns(CoordinateRule):
    """Breaks its contract in columns that few ranks have."""

    def columns(self, block: Any) -> Any:
        means = block.mean(axis=0)
        return np.where(means > 2, np.nan, means)


def breaking(rank: int, n: int, folder: Path) -> None:
    """Rules that break their contract: all ranks hear of it, those without a column of the answer too."""
    told = []
    for rule in (PeerWeights(), SomeColumns()):
        try:
            robust_all_reduce(torch.arange(4.0), rule, explain=False)
        except BrokenRule as broken:
            told.append(str(broken))
    torch.save(told, folder / f"{rank}.pt")
    robust_all_reduce(torch.arange(4.0), PeerWeights())  # which nobody catches


def again(rank: int, n: int, folder: Path) -> None:
    """The second job of a process."""


def training(rank: int, n: int, folder: Path, until: int = 8, dies: Callable[[int], None] = lambda _: None) -> None:
    """A training that saves every second step and goes on from what was saved."""
    torch.manual_seed(0)
    model, memory = Net(), Momentum(0.9)
    done = load(folder / "saved", model, memory)
    for t in range(done, until):
        dies(t)
        words: dict[str, Any] = {"lr": 0.3, "fresh": batch(rank, 100 + t), "momentum": memory}
        two_phase_step(model, felt, batch(rank, t), Mean2P(f=1), step=t, **words)
        if t % 2 == 1:
            save(folder / "saved", t + 1, model, memory)
    torch.save((model.state_dict(), done), folder / f"{rank}.pt")


def killed(rank: int, n: int, folder: Path) -> None:
    def dies(t: int) -> None:
        if rank == 1 and t == 5:
            os.kill(os.getpid(), signal.SIGKILL)

    training(rank, n, folder, dies=dies)


def hanging(rank: int, n: int, folder: Path) -> None:
    def dies(t: int) -> None:
        if rank == 2 and t == 3:
            time.sleep(PATIENCE)

    training(rank, n, folder, dies=dies)


def orphaned(rank: int, n: int, folder: Path) -> None:
    """The rank that holds the store is killed while another hangs, with the interpreter's lock in its hands."""

    def dies(t: int) -> None:
        if rank == 0 and t == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        if rank == 2 and t == 3:
            ctypes.PyDLL(None).sleep(int(PATIENCE))  # PyDLL keeps the lock

    training(rank, n, folder, dies=dies)


def late(rank: int, n: int, folder: Path) -> None:
    """A rank comes just after the others have given up."""
    watch.QUIET = 8.0  # on a loaded machine too it comes before they look again

    def given_up() -> bool:
        signs = watch._current._signs() if watch._current else {}
        return any(str(doing).startswith(watch.STOPPED) for _, _, doing in signs.values())

    def dies(t: int) -> None:
        if rank == 2 and t == 3:
            wait_until(given_up, "the others to give up")  # they have looked, and look again after QUIET seconds

    training(rank, n, folder, dies=dies)


def skipping(rank: int, n: int, folder: Path) -> None:
    """A rank leaves one step out."""
    torch.manual_seed(0)
    model = Net()
    for t in range(4):
        if rank != 2 or t != 1:
            two_phase_step(model, felt, batch(rank, t), Mean2P(f=1), step=t, lr=0.3, fresh=batch(rank, 100 + t))


def dropped(rank: int, n: int, folder: Path) -> None:
    """A rank's loss raises, its momentum is spoilt; models that cannot be taken."""
    told: dict[str, Any] = {}
    words: dict[str, Any] = {"lr": 0.1, "fresh": batch(rank, 50)}
    for error in (IndexError, KeyError, AttributeError, TypeError, AssertionError):

        def raising(one: nn.Module, some: tuple[Tensor, Tensor], error: type[Exception] = error) -> Tensor:
            if rank == 1:
                raise error("a sample without a label")
            return felt(one, some)

        done = two_phase_step(Net(), raising, batch(rank, 1), Mean2P(f=1), **words)
        told[error.__name__] = sorted(done.decision.dropped) if done.decision else done.skipped
    model, memory, out = Net(), Momentum(0.9), []
    for t in range(3):
        done = two_phase_step(model, felt, batch(rank, t), Mean2P(f=1), momentum=memory, **words)
        out.append(sorted(done.decision.dropped) if done.decision else [])
        if rank == 1 and t == 0:
            memory.held[next(iter(memory.held))].fill_(torch.nan)
    told["momentum"] = out
    try:
        two_phase_step(Net().requires_grad_(False), felt, batch(rank, 1), Mean2P(f=1), **words)
    except BadInput as refusal:
        told["frozen"] = str(refusal)
    whole = nn.Linear(6, 3)
    fully_shard(whole, mesh=init_device_mesh("cpu", (n,)))
    try:
        two_phase_step(whole, felt, batch(rank, 1), Mean2P(f=1), **words)
    except BadInput as refusal:
        told["FSDP2"] = str(refusal)
    torch.save(told, folder / f"{rank}.pt")


def failing(rank: int, n: int, folder: Path) -> None:
    def dies(t: int) -> None:
        if rank == 0 and t == 2:
            raise ZeroDivisionError("no data left")

    training(rank, n, folder, dies=dies)


SCENARIOS = (
    *(every_rule, mixed, two_phases, hooked, found, strangers, dropped, late, skipping, refusing, breaking, again),
    *(training, killed, hanging, orphaned, failing, weighted),
    *(replicas, shapes, resumed, refusals, flipping),
)


def reached(n: int) -> float:
    """A job of its own."""
    with begin("gloo", timeout=PATIENCE):
        one = torch.ones(4)
        robust_all_reduce(one, CWTM(f=(n - 1) // 2))
        return float(one.mean())


def ranked(work: Callable[[int, int, Path], None], rank: int, n: int, port: int, folder: Path) -> None:
    """One rank's process."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    watch.QUIET, watch.GRACE = 10.0, 8.0  # a rank that gets no core for some seconds is not dead
    try:
        if work is again:
            torch.save([reached(n) for _ in range(2)], folder / f"{rank}.pt")
            return
        with begin("gloo", timeout=EXPIRES if work in (late, skipping, hanging, orphaned) else PATIENCE):
            work(rank, n, folder)
    except RankFailed as failed:
        print(f"rank {rank}: {failed}", flush=True)
        os._exit(3)


def main(scenario: str, n: int, folder: Path) -> int:
    """Fork the ranks, wait for all; the number of those that failed."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (work,) = [one for one in SCENARIOS if one.__name__ == scenario]
    folder.mkdir(parents=True, exist_ok=True)
    context = get_context("fork")
    ranks = [context.Process(target=ranked, args=(work, rank, n, port, folder)) for rank in range(n)]
    for one in ranks:
        one.start()
    for one in ranks:
        one.join(PATIENCE)
    for one in ranks:
        if one.is_alive():
            print(f"{one.name} still lives", flush=True)
            one.kill()
    return sum(one.exitcode != 0 for one in ranks)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
