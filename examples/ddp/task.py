"""What both programs share: images, and ranks that are not well."""

from __future__ import annotations

import argparse

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.data import load

FAULTS = ("none", "labels", "bits")


def arguments(about: str) -> argparse.Namespace:
    """The same for both programs."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--fault", choices=FAULTS, default="labels", help="what is wrong with the last ranks")
    return parser.parse_args()


def images(rank: int, size: int, fault: str) -> tuple[Tensor, Tensor]:
    """A rank's own images of MNIST; those of the last two ranks ten times too bright and named wrongly, if so told."""
    data = load("mnist-5k")
    order = np.random.default_rng(0).permutation(len(data.labels))
    own = order[1000:][rank::size]
    x = torch.from_numpy(data.images[own].astype(np.float32) / 255)[:, None]
    y = torch.from_numpy(data.labels[own].astype(np.int64))
    return (10 * x, (y + 1) % 10) if fault == "labels" and rank >= size - 2 else (x, y)


def accuracy(model: nn.Module) -> float:
    """The part of 1,000 other images that is recognised."""
    data = load("mnist-5k")
    at = np.random.default_rng(0).permutation(len(data.labels))[:1000]
    x = torch.from_numpy(data.images[at].astype(np.float32) / 255)[:, None]
    with torch.no_grad():
        return float((model(x).argmax(dim=1).numpy() == data.labels[at]).mean())


def flaky(model: nn.Module, rank: int, size: int, fault: str) -> None:
    """A broken accelerator: now and then the last rank's gradients have a flipped bit in the exponent."""
    if fault != "bits" or rank != size - 1:
        return
    rng = np.random.default_rng(1)

    def flipped(slope: Tensor) -> Tensor:
        if rng.random() < 0.05:
            slope = slope.clone().contiguous()
            slope.view(-1).view(torch.int32)[int(rng.integers(slope.numel()))] ^= 1 << 30
        return slope

    for p in model.parameters():
        p.register_hook(flipped)
