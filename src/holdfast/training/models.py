"""The models: the paper's two networks, and smaller ones for small images."""

from __future__ import annotations

import math

import torch
from torch import nn

from holdfast.errors import BadInput

HIDDEN = 64


def linear(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Softmax regression."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), classes))


def mlp(shape: tuple[int, ...], classes: int) -> nn.Module:
    """One hidden layer of 64.

    >>> sum(p.numel() for p in mlp((1, 8, 8), 10).parameters())
    4810
    """
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes))


def cnn(shape: tuple[int, ...], classes: int) -> nn.Module:
    """The paper's network: two convolutions 5 x 5 with ReLU and max-pooling, one linear layer.

    The ReLU comes after the pooling, with the same result at a quarter of its cost.

    >>> sum(p.numel() for p in cnn((1, 28, 28), 62).parameters())
    115646
    >>> sum(p.numel() for p in cnn((3, 32, 32), 10).parameters())
    69706
    """
    height, width = (((side - 4) // 2 - 4) // 2 for side in shape[1:])
    if height < 1 or width < 1:
        raise BadInput(
            f"the cnn was given images of {shape[1]} x {shape[2]}; it needs 16 x 16 at least, mlp takes any."
        )
    body = [nn.Conv2d(shape[0], 32, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(32, 64, 5), nn.MaxPool2d(2), nn.ReLU()]
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(64 * height * width, classes))


MODELS = {"linear": linear, "mlp": mlp, "cnn": cnn}


def build(name: str, shape: tuple[int, ...], classes: int, seed: int) -> nn.Module:
    """A model by name, initialised by a seed; "auto" is the cnn where the images are large enough for it."""
    if name == "auto":
        name = "cnn" if min(shape[1:]) >= 16 else "mlp"
    if name not in MODELS:
        raise BadInput(f"{name!r} is no known model; known are auto, {', '.join(MODELS)}.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MODELS[name](shape, classes)
