"""Digits by Lightning on ranks of which the last one has wrong data; a rule keeps it out.

example:  torchrun --nproc-per-node 4 with_lightning.py
          torchrun --nproc-per-node 4 with_lightning.py --plain
"""

from __future__ import annotations

import argparse

import lightning
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from holdfast import MeanwO
from holdfast.data import load
from holdfast.engines.ddp import Robust, hook
from holdfast.engines.sharded import Ledger

BATCH = 16


class Digits(lightning.LightningModule):
    """A network as any other; the data of the last rank are wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        x, y = batch
        broken = self.global_rank == self.trainer.world_size - 1
        return F.cross_entropy(self.net(10 * x if broken else x), (y + 1) % 10 if broken else y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.2)


class RobustRanks(lightning.Callback):
    """Puts a rule in the place of the all-reduce, on processors and on GPUs alike."""

    def on_train_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        if isinstance(trainer.model, DistributedDataParallel):
            trainer.model.register_comm_hook(Robust(MeanwO(f=1), ledger=Ledger("ranks.jsonl")), hook)


def digits() -> tuple[TensorDataset, TensorDataset]:
    """1,437 images to train with, 360 others."""
    data = load("digits")
    x = torch.from_numpy(data.images.astype(np.float32)).reshape(len(data.labels), -1)
    x, y = x / x.max(), torch.from_numpy(data.labels.astype(np.int64))
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    test, own = order[:360], order[360:]
    return TensorDataset(x[own], y[own]), TensorDataset(x[test], y[test])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--ranks", type=int, default=4, help="as many as torchrun starts (default: %(default)s)")
    parser.add_argument("--plain", action="store_true", help="without a rule")
    given = parser.parse_args()
    torch.manual_seed(0)  # all ranks begin with the same model
    own, test = digits()
    model = Digits()
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=given.ranks,
        strategy="ddp",
        max_epochs=given.epochs,
        callbacks=[] if given.plain else [RobustRanks()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(model, DataLoader(own, BATCH, shuffle=True))
    x, y = test.tensors
    with torch.no_grad():
        right = (model.net(x).argmax(dim=1) == y).float().mean()
    if trainer.is_global_zero:
        print(f"{float(right):.1%} of the test images recognised", flush=True)


if __name__ == "__main__":
    main()
