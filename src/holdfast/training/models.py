"""The models by name: the paper's two networks, LeNet-5, a small ResNet, and two that take rows of features too."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from holdfast.errors import BadInput

HIDDEN, GROUPS = 64, 8


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
    _needs_images("cnn", shape, least=16)
    height, width = (((side - 4) // 2 - 4) // 2 for side in shape[1:])
    body = [nn.Conv2d(shape[0], 32, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(32, 64, 5), nn.MaxPool2d(2), nn.ReLU()]
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(64 * height * width, classes))


def lenet(shape: tuple[int, ...], classes: int) -> nn.Module:
    """LeNet-5 (LeCun et al. 1998): two convolutions 5 x 5 and three linear layers, with ReLU and max-pooling.

    The first convolution pads images of less than 32 pixels a side, the second one those of less than 16.

    >>> sum(p.numel() for p in lenet((1, 28, 28), 10).parameters())
    61706
    >>> sum(p.numel() for p in lenet((3, 32, 32), 10).parameters())
    62006
    """
    _needs_images("lenet", shape, least=4)
    first, second = (2 if min(shape[1:]) < side else 0 for side in (32, 16))
    height, width = (((side + 2 * first - 4) // 2 + 2 * second - 4) // 2 for side in shape[1:])
    body = [nn.Conv2d(shape[0], 6, 5, padding=first), nn.MaxPool2d(2), nn.ReLU()]
    body += [nn.Conv2d(6, 16, 5, padding=second), nn.MaxPool2d(2), nn.ReLU()]
    head = [nn.Linear(16 * height * width, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, classes)]
    return nn.Sequential(*body, nn.Flatten(), *head)


class Block(nn.Module):
    """Two convolutions 3 x 3 with group norms, added to the input."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first, self.first_norm = _convolution(before, after, stride), nn.GroupNorm(GROUPS, after)
        self.second, self.second_norm = _convolution(after, after, 1), nn.GroupNorm(GROUPS, after)
        self.short = nn.Identity() if before == after else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.second_norm(self.second(y)) + self.short(x))


class Mean(nn.Module):
    """The mean over all places of an image."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(2, 3))


def resnet(shape: tuple[int, ...], classes: int) -> nn.Module:
    """A ResNet of 8 layers (He et al. 2016, n = 1) with group norms of 8 groups; its images may have any size.

    A batch norm would mix the statistics of many images, and keep some that no rule sees.

    >>> sum(p.numel() for p in resnet((1, 28, 28), 10).parameters())
    77562
    >>> sum(p.numel() for p in resnet((3, 32, 32), 10).parameters())
    77850
    """
    _needs_images("resnet", shape, least=1)
    stem = [_convolution(shape[0], 16, 1), nn.GroupNorm(GROUPS, 16), nn.ReLU()]
    return nn.Sequential(*stem, Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2), Mean(), nn.Linear(64, classes))


def _convolution(before: int, after: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(before, after, 3, stride, padding=1, bias=False)


def _needs_images(name: str, shape: tuple[int, ...], *, least: int) -> None:
    """Refuse rows of features, and images that are too small."""
    if len(shape) != 3:
        raise BadInput(f"the {name} was given rows of shape {shape}; it needs images, mlp and linear take any.")
    if min(shape[1:]) < least:
        raise BadInput(
            f"the {name} was given images of {shape[1]} x {shape[2]}; it needs {least} x {least} at least, mlp takes "
            "any."
        )


MODELS = {"linear": linear, "mlp": mlp, "cnn": cnn, "lenet": lenet, "resnet": resnet}


def build(name: str, shape: tuple[int, ...], classes: int, seed: int) -> nn.Module:
    """A model by name, initialised by a seed; "auto" is the cnn for images that are large enough, else the mlp."""
    if name == "auto":
        name = "cnn" if len(shape) == 3 and min(shape[1:]) >= 16 else "mlp"
    if name not in MODELS:
        raise BadInput(f"{name!r} is no known model; known are auto, {', '.join(MODELS)}.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MODELS[name](shape, classes)
