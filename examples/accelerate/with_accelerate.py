"""Digits by Hugging Face Accelerate on ranks of which the last one has wrong data; a rule keeps it out.

example:  torchrun --nproc-per-node 4 with_accelerate.py
          torchrun --nproc-per-node 4 with_accelerate.py --plain
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from accelerate import Accelerator
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from holdfast import MeanwO
from holdfast.data import load
from holdfast.engines.ddp import Robust, hook
from holdfast.engines.sharded import Ledger

BATCH = 16


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
    parser.add_argument("--plain", action="store_true", help="without a rule")
    given = parser.parse_args()
    torch.manual_seed(0)  # all ranks begin with the same model
    accelerator = Accelerator(cpu=True)
    own, test = digits()
    net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2)
    model, optimizer, batches = accelerator.prepare(net, optimizer, DataLoader(own, BATCH, shuffle=True))
    if not given.plain:
        model.register_comm_hook(Robust(MeanwO(f=1), ledger=Ledger("ranks.jsonl")), hook)
    broken = accelerator.process_index == accelerator.num_processes - 1
    for _ in range(given.epochs):
        for x, y in batches:
            some, named = (10 * x, (y + 1) % 10) if broken else (x, y)
            optimizer.zero_grad()
            accelerator.backward(F.cross_entropy(model(some), named))
            optimizer.step()
    x, y = test.tensors
    with torch.no_grad():
        right = (net(x).argmax(dim=1) == y).float().mean()
    accelerator.print(f"{float(right):.1%} of the test images recognised")
    accelerator.end_training()


if __name__ == "__main__":
    main()
