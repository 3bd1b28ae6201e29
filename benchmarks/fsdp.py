"""The memory of a rank under FSDP2 with a rule, against plain FSDP2 on the same mesh: 4 replicas of 2 shards.

Every training is eight processes on loopback. A rank resets its peak before it builds the model, and reads the peak of
its resident memory after three steps; what it held before (the interpreter, torch) is subtracted. Trainings are taken
in turn, and each counts with the median over trainings of the largest rank.

example:  python benchmarks/fsdp.py --out results/benchmarks/fsdp.json
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from common import Row, progress, result, save, table
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from holdfast import parse
from holdfast.engines.fsdp import RobustFSDP

HERE = Path(__file__).resolve().parent.parent
REPLICAS, SHARDS, LAYERS, WIDTH, STEPS = 4, 2, 8, 1448, 3
RULES = ("MeanwO(f=1)", "CenterwO(f=1)", "CWTM(f=1)")
PLAIN, BAR = "plain FSDP2", 1.1
PARAMETERS = LAYERS * WIDTH * (WIDTH + 1)
SHARD = 4 * PARAMETERS / SHARDS / 1e6  # MB of float32


def memory(field: str) -> float:
    """The resident memory of this process in MB: now (VmRSS), or at its peak (VmHWM)."""
    found = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.M)
    assert found is not None
    return int(found.group(1)) / 1000


def train(way: str, out: Path) -> None:
    """One rank: three steps; its peak above what it held before."""
    torch.set_num_threads(1)
    rank, size = int(os.environ["RANK"]), REPLICAS * SHARDS
    dist.init_process_group("gloo", init_method=f"file://{out / 'store'}", rank=rank, world_size=size)
    mesh = init_device_mesh("cpu", (REPLICAS, SHARDS), mesh_dim_names=("replicate", "shard"))
    dist.barrier()
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = memory("VmRSS")
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    over = mesh if way == PLAIN else mesh["shard"]
    for layer in model:
        fully_shard(layer, mesh=over)
    fully_shard(model, mesh=over)
    robust = None if way == PLAIN else RobustFSDP(model, parse(way), mesh["replicate"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=False)
    for step in range(STEPS):
        x = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(100 * step + rank))
        optimizer.zero_grad()
        model(x).square().mean().backward()
        if robust is not None:
            robust.aggregate()
        optimizer.step()
    (out / f"{rank}").write_text(f"{memory('VmHWM') - before}")
    dist.barrier()
    dist.destroy_process_group()


def measured(way: str) -> float:
    """The largest peak over the ranks of one training."""
    with tempfile.TemporaryDirectory() as folder:
        quiet = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        words = [sys.executable, "-W", "ignore", __file__, "--train", way, "--out", folder]
        ranks = range(REPLICAS * SHARDS)
        started = [subprocess.Popen(words, env=quiet | {"RANK": f"{rank}"}) for rank in ranks]
        try:
            if any(one.wait(600) for one in started):
                raise SystemExit(f"{way} failed")
        finally:
            for one in started:
                one.kill()  # those that wait for a rank that has failed
        return max(float((Path(folder) / f"{rank}").read_text()) for rank in ranks)


def main(out: Path, rounds: int) -> None:
    """All ways in turn, then a row for each rule."""
    found: dict[str, list[float]] = {way: [] for way in (PLAIN, *RULES)}
    for at in range(rounds):
        for way, peaks in found.items():
            peaks.append(measured(way))
            progress(f"[{at + 1}/{rounds}] {way}: {peaks[-1]:.0f} MB")
    plain, rows = median(found[PLAIN]), list[Row]()
    size = f"{REPLICAS} replicas x {SHARDS} shards, {PARAMETERS:,} parameters, a shard of {SHARD:.0f} MB"
    for rule in RULES:
        peak = median(found[rule])
        less = (peak - REPLICAS * SHARD) / plain
        what = {"what": rule, "against": PLAIN, "size": size, "peak MB": round(peak), "plain MB": round(plain)}
        more = {"shards more": float(f"{(peak - plain) / SHARD:.2g}")}
        rows.append(result(less, BAR, False, **what, **more, measure="peak less a shard of all replicas, ratio"))
    print(table(rows))
    save(out, rows, ["torch", "numpy"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "benchmarks" / "fsdp.json")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--train", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train:
        train(given.train, given.out)
    else:
        main(given.out, given.rounds)
