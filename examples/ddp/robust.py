"""The paper's CNN by DistributedDataParallel with a rule; the last ranks are not well, and do no harm.

example:  torchrun --nproc-per-node 6 robust.py --fault labels
"""

from __future__ import annotations

import task
import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from holdfast import MeanwO
from holdfast.engines.ddp import Robust, hook
from holdfast.engines.sharded import Ledger
from holdfast.training.models import build


def main() -> None:
    given = task.arguments(__doc__ or "")
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    x, y = task.images(rank, size, given.fault)
    net = build("cnn", (1, 28, 28), 10, seed=0)
    task.flaky(net, rank, size, given.fault)
    model = DistributedDataParallel(net)
    model.register_comm_hook(Robust(MeanwO(f=2), ledger=Ledger("ranks.jsonl")), hook)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(given.steps):
        some = torch.randint(len(x), (16,), generator=torch.Generator().manual_seed(1000 * step + rank))
        optimizer.zero_grad()
        F.cross_entropy(model(x[some]), y[some]).backward()
        optimizer.step()
    if rank == 0:
        print(f"{task.accuracy(net):.1%} of the test images recognised", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
