"""A small transformer that reads digits row by row, its adapters, and the data of each node."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTH, RANK, BLOCKS, CLASSES = 32, 4, 2, 10
Model = dict[str, np.ndarray]
Data = tuple[Tensor, Tensor]


class Adapted(nn.Module):
    """A linear layer that stays as it is, and B A on top of it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.A = nn.Parameter(torch.linalg.qr(torch.randn(inputs, RANK))[0].T.contiguous())  # its rows are orthonormal
        self.B = nn.Parameter(torch.zeros(outputs, RANK))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + F.linear(F.linear(x, self.A), self.B)


class Block(nn.Module):
    """Attention with one head, then two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (Adapted(WIDTH, WIDTH) for _ in range(3))
        self.up, self.down = Adapted(WIDTH, 2 * WIDTH), Adapted(2 * WIDTH, WIDTH)
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        seen = self.first(x)
        x = x + F.scaled_dot_product_attention(self.query(seen), self.key(seen), self.value(seen))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Reader(nn.Module):
    """A transformer whose words are the rows of an image of 8 x 8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = nn.Linear(8, WIDTH), nn.Parameter(0.1 * torch.randn(8, WIDTH))
        self.blocks, self.head = nn.Sequential(*(Block() for _ in range(BLOCKS))), nn.Linear(WIDTH, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.blocks(self.embed(images) + self.place).mean(dim=1))


def images(*, known: bool) -> Data:
    """The digits as the base model knows them, or as the nodes have them: negatives, with rows and columns swapped."""
    from holdfast.data import load

    data = load("digits")
    x = torch.from_numpy(data.images.reshape(-1, 8, 8).astype(np.float32))
    x, y = x / x.max(), torch.from_numpy(data.labels.astype(np.int64))
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    return (x[order], y[order]) if known else ((1 - x.transpose(1, 2))[order].contiguous(), y[order])


def shares(nodes: int) -> list[Data]:
    """The images of each node, and a last share for the server's test."""
    x, y = images(known=False)
    parts = [(x[400:][node::nodes], y[400:][node::nodes]) for node in range(nodes)]
    return [*parts, (x[:400], y[:400])]


@cache
def base() -> Reader:
    """The base model, which all nodes have: here it is trained for some seconds, elsewhere it is a file."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Reader()
        x, y = images(known=True)
        frozen = [p for name, p in model.named_parameters() if name.endswith((".A", ".B"))]
        for p in frozen:
            p.requires_grad_(False)
        optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
        for _ in range(300):
            some = torch.randint(400, len(y), (64,))
            optimizer.zero_grad()
            F.cross_entropy(model(x[some]), y[some]).backward()
            optimizer.step()
    return model.requires_grad_(False)


def adapters(train: str) -> dict[str, Tensor]:
    """What is trained and sent: "B" alone, or "AB"."""
    return {name: p for name, p in base().named_parameters() if name.rpartition(".")[2] in list(train)}


@cache
def beginning() -> Model:
    """All adapters before anything is put into them."""
    return {name: p.numpy().copy() for name, p in adapters("AB").items()}


def first(train: str) -> Model:
    """The adapters before the first round."""
    return {name: beginning()[name] for name in adapters(train)}


def put(values: Model) -> None:
    """Set the adapters; those that are not given are as they were in the beginning."""
    every, own = beginning() | values, adapters("AB")
    for name, value in every.items():
        own[name].copy_(torch.from_numpy(np.array(value)))


def trained(values: Model, data: Data, *, steps: int, seed: int, rate: float = 0.1) -> Model:
    """The adapters after some steps on a node's images."""
    put(values)
    own = adapters("".join({name[-1] for name in values}))
    rng, (x, y) = torch.Generator().manual_seed(seed), data
    for _ in range(steps):
        some = torch.randint(len(y), (32,), generator=rng)
        for p in own.values():
            p.requires_grad_(True)
        grads = torch.autograd.grad(F.cross_entropy(base()(x[some]), y[some]), list(own.values()))
        for p, grad in zip(own.values(), grads, strict=True):
            p.requires_grad_(False)
            p.sub_(rate * grad)
    return {name: p.numpy().copy() for name, p in own.items()}


def accuracy(values: Model, data: Data) -> float:
    """The part of the images that is recognised with these adapters."""
    put(values)
    with torch.no_grad():
        return float((base()(data[0]).argmax(dim=1) == data[1]).float().mean())


def products(values: Model) -> list[np.ndarray]:
    """B A of every layer."""
    every = beginning() | values
    return [every[name] @ every[f"{name[:-1]}A"] for name in every if name.endswith(".B")]
