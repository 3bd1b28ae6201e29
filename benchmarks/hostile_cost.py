"""What one hostile client can cost a Flower server in a round: processor seconds and bytes of memory, by what it sends.

Ten nodes, two phases, Mean2P(f=2); the last node is hostile. For each kind of reply a fresh server process runs some
rounds with the real bytes of real Flower messages, in turn with a process whose nodes are all honest. Time is that of
the cheapest round of all. Memory is the largest peak of a hostile process minus the smallest peak of an honest one.
malloc is told to return large blocks, so that a peak is what is held and not what the allocator keeps.

example:  python benchmarks/hostile_cost.py --out results/flower/hostile_cost.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from common import Row, progress, save, table
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp
from hostile_pieces import store
from hostile_replies import train_kinds, trained, vote_kinds, voted

from holdfast.engines.differences import Model
from holdfast.engines.flower import LocalGrid

DEFAULT = Path("results/flower/hostile_cost.json")
SERVER = Path(__file__).with_name("hostile_server.py")
NODES, ROUNDS, TIMEOUT = 10, 4, 10.0
TIMES, REPLIES, MORE = 5.0, 3.0, 64e6  # the bars: of an honest round's time; of a sound reply's bytes, and bytes more
HONEST, SILENT = "honest", "nothing, until the timeout"
MALLOC = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
LAYERS, EVERY = 8, 4  # arrays of the model; kinds between two honest processes


def prepared(folder: Path, d: int) -> tuple[dict[str, str], int]:
    """Write everything that nodes send; the kinds with their phases, and the bytes of an honest update."""
    LocalGrid(ClientApp(), 1)  # sets the process's identity, as Flower's programs do
    asked = Message(RecordDict(), NODES, "train")
    objects = folder / "objects"
    objects.mkdir()
    model: Model = {f"layer{at}": np.zeros(d // LAYERS, np.float32) for at in range(LAYERS)}
    np.savez(folder / "model.npz", **model)  # type: ignore[arg-type]
    for node in range(1, NODES + 1):
        rng = np.random.default_rng(node)
        update = {name: rng.standard_normal(v.shape, dtype=np.float32) for name, v in model.items()}
        (folder / f"train-{node}").write_bytes(store(objects, trained(update), asked))
        (folder / f"vote-{node}").write_bytes(store(objects, voted(inner=1.0, outer=1.0 + node), asked))
    kinds = {SILENT: "train"}
    (folder / f"train-{SILENT}").write_bytes(b"")
    for phase, found in (("train", train_kinds(model, update)), ("vote", vote_kinds(update))):
        for kind, make in found.items():
            (folder / f"{phase}-{kind}").write_bytes(store(objects, make(), asked))
            kinds[kind] = phase
    return kinds, sum(v.nbytes for v in update.values())


def served(folder: Path, kind: str) -> dict[str, Any]:
    """One server process."""
    with tempfile.TemporaryDirectory() as journal:
        words = {"folder": str(folder), "journal": journal, "kind": kind, "nodes": NODES}
        given = json.dumps(words | {"rounds": ROUNDS, "timeout": TIMEOUT})
        env = os.environ | MALLOC
        done = subprocess.run([sys.executable, SERVER, given], env=env, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{kind}: {done.stderr[-2000:]}")
    return dict(json.loads(done.stdout))


def measured(d: int, only: list[str], calls: int) -> Iterator[Row]:
    """A row for every kind of reply, after so many turns through all kinds."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as name:
        folder = Path(name)
        kinds, size = prepared(folder, d)
        wanted = [kind for kind in kinds if not only or kind in only]
        found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in (HONEST, *wanted)}
        for _ in range(calls):
            for at, kind in enumerate(wanted):
                for one in (HONEST, kind) if at % EVERY == 0 else (kind,):
                    found[one].append(served(folder, one))
                    progress(f"d = {d}, {one}: {found[one][-1]}")
    yield from compared(d, size, kinds, found)


def compared(d: int, size: int, kinds: dict[str, str], found: dict[str, list[dict[str, Any]]]) -> Iterator[Row]:
    """The rows of what was found, against the honest processes."""
    honest, peaks = min(one["seconds"] for one in found[HONEST]), [one["peak"] for one in found[HONEST]]
    for kind in list(found)[1:]:
        taken, more = min(one["seconds"] for one in found[kind]), max(one["peak"] for one in found[kind]) - min(peaks)
        row: Row = {"d": d, "sends": kind, "phase": kinds[kind], "seconds": round(taken, 3)}
        row |= {"times": round(taken / honest, 2), "bytes": more, "said": found[kind][0]["said"]}
        row |= {"time_met": taken <= TIMES * honest, "memory_met": more <= REPLIES * size + MORE, "reply": size}
        yield row | {"honest_seconds": round(honest, 3), "honest_least": min(peaks), "honest_most": max(peaks)}


def main() -> None:
    """Measure, print the table, write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DEFAULT, help="where the results go (default: %(default)s)")
    parser.add_argument("--d", type=int, nargs="+", default=[115_648, 4_000_000], help="sizes of the model")
    parser.add_argument("--only", nargs="+", default=[], help="some kinds of replies")
    parser.add_argument("--calls", type=int, default=3, help="processes of each kind (default: %(default)s)")
    args = parser.parse_args()
    rows = [row for d in args.d for row in measured(d, args.only, args.calls)]
    print(table(rows))
    save(args.out, rows, ("flwr", "numpy"))


if __name__ == "__main__":
    main()
