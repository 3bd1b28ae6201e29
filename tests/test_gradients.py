"""All workers' gradients in one pass are those of each worker by itself."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast import BadInput
from holdfast.training.gradients import Gradients
from holdfast.training.models import cnn, lenet, linear, mlp, resnet

W, B, CLASSES = 5, 3, 4


class Twice(nn.Module):
    """One layer used two times."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.shared, self.last = nn.Linear(64, 8), nn.Linear(8, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.shared(self.shared(self.first(x.flatten(1))).relu()))


class Tied(nn.Module):
    """A weight that two layers share."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(64, 8), nn.Linear(8, 8), nn.Linear(8, CLASSES)
        self.second.weight = nn.Parameter(torch.randn(8, 8))
        self.extra = nn.Linear(8, 8)
        self.extra.weight = self.second.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.extra(self.second(self.first(x.flatten(1))).tanh()))


class Sideways(nn.Module):
    """Uses a layer's weight behind its back, which only the check can find out."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(64, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x.flatten(1))) + F.linear(x.flatten(1), self.first.weight)[:, :CLASSES]


class Unused(nn.Module):
    """A layer that takes no part."""

    def __init__(self) -> None:
        super().__init__()
        self.idle, self.last = nn.Linear(3, 3), nn.Linear(64, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x.flatten(1))


class Memory(nn.Module):
    """A recurrent network, which vmap does not take."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.last = nn.LSTM(8, 6, batch_first=True), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.body(x[:, 0])[0][:, -1])


class Sequence(nn.Module):
    """Linear layers over a sequence of rows."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 6), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x[:, 0]).relu().mean(dim=1))


def convolutions(**words: Any) -> nn.Module:
    body = nn.Conv2d(1, 3, 3, **words)
    side = (8 + 2 * words.get("padding", 0) - words.get("dilation", 1) * 2 - 1) // words.get("stride", 1) + 1
    return nn.Sequential(body, nn.ReLU(), nn.Flatten(), nn.Linear(3 * side * side, CLASSES))


MODULES: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "linear": (lambda: linear((1, 8, 8), CLASSES), "pooled"),
    "mlp": (lambda: mlp((1, 8, 8), CLASSES), "pooled"),
    "lenet": (lambda: lenet((1, 8, 8), CLASSES), "pooled"),
    "resnet": (lambda: resnet((1, 8, 8), CLASSES), "pooled"),
    "group norm": (
        lambda: nn.Sequential(nn.Flatten(), nn.GroupNorm(4, 64), nn.GroupNorm(2, 64, affine=False), nn.Linear(64, 4)),
        "pooled",
    ),
    "padded": (lambda: convolutions(padding=1), "pooled"),
    "strided": (lambda: convolutions(stride=2), "pooled"),
    "dilated": (lambda: convolutions(dilation=2, padding=2, stride=2), "pooled"),
    "sequence": (Sequence, "pooled"),
    "twice": (Twice, "pooled"),
    "unused": (Unused, "pooled"),
    "dropout": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.Dropout(0.0), nn.Linear(9, CLASSES)),
        "pooled",
    ),
    "same": (
        lambda: nn.Sequential(nn.Conv2d(1, 2, 3, padding="same"), nn.Flatten(), nn.Linear(128, CLASSES)),
        "mapped",
    ),
    "groups": (
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.Conv2d(4, 4, 3, groups=2), nn.Flatten(), nn.Linear(64, CLASSES)),
        "mapped",
    ),
    "norm": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.LayerNorm(8), nn.Linear(8, CLASSES)), "mapped"),
    "batch norm": (
        lambda: nn.Sequential(
            nn.Flatten(),
            nn.Linear(64, 8),
            nn.BatchNorm1d(8, track_running_stats=False, affine=False),
            nn.Linear(8, CLASSES),
        ),
        "mapped",
    ),
    "tied": (Tied, "mapped"),
    "sideways": (Sideways, "mapped"),
    "memory": (Memory, "looped"),
}


def alone(module: nn.Module, loss: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor) -> np.ndarray:
    """A worker's gradient by plain autograd."""
    for p in module.parameters():
        p.grad = None
    loss(module(x), y).backward()  # type: ignore[no-untyped-call]
    parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in module.parameters()]
    return np.asarray(torch.cat([part.reshape(-1) for part in parts]).numpy())


def drawn(shape: tuple[int, ...] = (1, 8, 8), seed: int = 0) -> tuple[Tensor, Tensor]:
    made = torch.Generator().manual_seed(seed)
    return torch.randn(W, B, *shape, generator=made), torch.randint(0, CLASSES, (W, B), generator=made)


@pytest.mark.parametrize("name", MODULES)
def test_every_row_is_the_workers_own_gradient(name: str) -> None:
    torch.manual_seed(1)
    build, way = MODULES[name]
    module = build()
    gradients = Gradients(module, F.cross_entropy)
    for seed in (0, 1):
        x, y = drawn(seed=seed)
        out = torch.full((W, sum(p.numel() for p in module.parameters())), torch.nan)
        gradients(x, y, out)
        for i in range(W):
            np.testing.assert_allclose(out[i].numpy(), alone(module, F.cross_entropy, x[i], y[i]), atol=2e-6, rtol=1e-4)
    assert gradients.way == way
    assert all(p.requires_grad for p in module.parameters())


@pytest.mark.parametrize(("shape", "classes"), [((1, 28, 28), 62), ((3, 32, 32), 10)])
def test_the_papers_networks_go_the_pooled_way(shape: tuple[int, ...], classes: int) -> None:
    module = cnn(shape, classes).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    gradients = Gradients(module, F.cross_entropy)
    x, y = drawn(shape)
    out = torch.empty(W, sum(p.numel() for p in module.parameters()))
    gradients(x, y, out)
    assert gradients.way == "pooled"
    np.testing.assert_allclose(out[3].numpy(), alone(module, F.cross_entropy, x[3], y[3]), atol=2e-6, rtol=1e-3)


def test_a_loss_that_is_no_mean_is_found_out() -> None:
    module = mlp((1, 8, 8), CLASSES)

    def total(answer: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(answer, y, reduction="sum")

    gradients = Gradients(module, total)
    x, y = drawn()
    out = torch.empty(W, sum(p.numel() for p in module.parameters()))
    gradients(x, y, out)
    assert gradients.way == "mapped"
    np.testing.assert_allclose(out[2].numpy(), alone(module, total, x[2], y[2]), atol=1e-5, rtol=1e-4)


def test_the_fall_back_to_a_loop_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    module = Memory()
    gradients = Gradients(module, F.cross_entropy)
    x, y = drawn()
    out = torch.empty(W, sum(p.numel() for p in module.parameters()))
    with caplog.at_level(logging.WARNING, "holdfast"):
        gradients(x, y, out)
        gradients(x, y, out)
    assert len([r for r in caplog.records if "looped" in r.getMessage()]) == 1


def test_running_statistics_are_refused_in_one_sentence() -> None:
    with pytest.raises(BadInput, match=r"layer '1' keeps running statistics.*GroupNorm"):
        Gradients(nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64)), F.cross_entropy)


@pytest.mark.parametrize("name", ["mlp", "padded", "memory", "lenet", "resnet"])
def test_local_steps_are_plain_sgd_of_every_worker(name: str) -> None:
    torch.manual_seed(2)
    module = MODULES[name][0]()
    gradients = Gradients(module, F.cross_entropy)
    start = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
    models = start.repeat(W, 1)
    batches = [drawn(seed=seed) for seed in range(3)]
    for x, y in batches:
        gradients.descend(models, x, y, 0.5)
    for i in range(W):
        gradients.load(start)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
        for x, y in batches:
            optimizer.zero_grad()
            F.cross_entropy(module(x[i]), y[i]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        want = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
        np.testing.assert_allclose(models[i].numpy(), want.numpy(), atol=1e-5)


def test_a_gradient_that_is_not_finite_stays_with_its_worker() -> None:
    module = mlp((1, 8, 8), CLASSES)
    gradients = Gradients(module, F.cross_entropy)
    x, y = drawn()
    out = torch.empty(W, sum(p.numel() for p in module.parameters()))
    gradients(x, y, out)
    x[2] = torch.inf
    gradients(x, y, out)
    assert gradients.way == "pooled"
    assert [bool(torch.isfinite(row).all()) for row in out] == [True, True, False, True, True]
