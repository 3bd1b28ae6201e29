"""A rule in the place of all-reduce: bytes on the wire and CPU time, against all-reduce of the same vectors.

The ranks are processes of this machine, over Gloo on loopback, in a network of their own where the system allows it,
so that the interface's counter counts nothing else. Both sides in turn; bytes of one call, the least CPU time of all
ranks together over several.

example:  python benchmarks/sharded.py --out results/benchmarks/sharded.json
"""

from __future__ import annotations

import argparse
import array
import fcntl
import os
import resource
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from common import Row, progress, result, save, table

from holdfast import CWTM, Mean2P, MeanwO
from holdfast.engines.sharded import begin, propose_candidates, robust_all_reduce

DEFAULT = Path("results/benchmarks/sharded.json")
OWN = "HOLDFAST_OWN_NETWORK"


def up() -> None:
    """Let loopback work in a network of our own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        fcntl.ioctl(one, 0x8914, array.array("b", struct.pack("16sh14s", b"lo", 0x1 | 0x40, b"")))  # up and running


def sent() -> int:
    """Bytes that loopback has carried."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[8])
    raise SystemExit("no loopback interface")


def spent() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def ways(x: torch.Tensor, y: torch.Tensor, f: int) -> dict[str, Callable[[], object]]:
    """What is compared."""
    return {
        "all_reduce": lambda: dist.all_reduce(y),
        "MeanwO": lambda: robust_all_reduce(y, MeanwO(f=f)),
        "CWTM": lambda: robust_all_reduce(y, CWTM(f=f), explain=False),
        "Inner and Outer": lambda: propose_candidates([x], Mean2P(f=f)),
    }


def measured(rank: int, n: int, port: int, d: int, rounds: int, pipe: Any) -> None:
    """One rank: for every way the bytes of a call and the CPU time of each of several."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(n), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    with begin("gloo", timeout=300):
        g = torch.Generator().manual_seed(rank)
        x = torch.randn(d, generator=g)
        y = x.clone()
        works = ways(x, y, (n - 1) // 2)
        told: dict[str, list[tuple[int, float]]] = {name: [] for name in works}
        for at in range(rounds + 1):
            for name, work in works.items():
                y.copy_(x)
                dist.barrier()
                bytes_before, before = sent(), spent()
                work()
                used = spent() - before
                dist.barrier()
                if at:  # the first is for warming up
                    told[name].append((sent() - bytes_before, used))
        pipe.send(told)


def compared(n: int, d: int, rounds: int) -> dict[str, tuple[float, float]]:
    """(bytes of a call, CPU seconds of all ranks) by way."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = get_context("fork")
    pipes, ranks = [], []
    for rank in range(n):
        here, there = context.Pipe(duplex=False)
        ranks.append(context.Process(target=measured, args=(rank, n, port, d, rounds, there)))
        pipes.append(here)
        ranks[-1].start()
    told = [pipe.recv() for pipe in pipes]
    for one in ranks:
        one.join()
    return {
        name: (
            min(carried for carried, _ in told[0][name]),
            float(np.sum([[used for _, used in one[name]] for one in told], axis=0).min()),
        )
        for name in told[0]
    }


def main(out: Path, d: int, rounds: int) -> None:
    """The table."""
    rows: list[Row] = []
    for n in (4, 6, 8):
        found = compared(n, d, rounds)
        carried, used = found["all_reduce"]
        for name, (mine, cpu) in found.items():
            progress(f"n={n} {name}: {mine / 4 / d / n:.3f} vectors a rank, {cpu:.2f} CPU-s")
            if name == "all_reduce":
                continue
            bar = 1.55 if name == "Inner and Outer" else 1.05
            words = {"what": name, "n": n, "d": d, "against": "all_reduce"}
            rows.append(result(mine / carried, bar, False, **words, measure="bytes"))
            if n == 8 and name != "Inner and Outer":
                rows.append(result(cpu / used, 2.0, False, **words, measure="CPU time"))
    save(out, rows, ("holdfast", "numpy", "torch"))
    print(table(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DEFAULT)
    parser.add_argument("--d", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    if OWN not in os.environ and shutil.which("unshare"):
        again = ["unshare", "--net", sys.executable, *sys.argv]
        ended = subprocess.run(again, env=os.environ | {OWN: "1", "OMP_NUM_THREADS": "1"})  # as torchrun does
        if ended.returncode == 0:
            sys.exit(0)
        progress("no network of our own: other programs' bytes on loopback count too")
    if OWN in os.environ:
        up()
    os.environ |= {"GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    main(given.out, given.d, given.rounds)
