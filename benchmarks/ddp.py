"""The example of examples/ddp, as a user runs it: torchrun, six ranks, with and without a rule, fault by fault.

example:  python benchmarks/ddp.py --out results/benchmarks/ddp.json
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from holdfast.journal import read_journal
from holdfast.report.nodes import nodes

HERE = Path(__file__).resolve().parent.parent
EXAMPLE = HERE / "examples" / "ddp"
FAULTS = {"none": "none", "labels": "wrong labels on two ranks", "bits": "flipped bits on one rank"}


def trained(program: str, fault: str, folder: Path) -> float:
    """The accuracy that a program prints."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "6"]
    quiet = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    words = [*torchrun, str(EXAMPLE / f"{program}.py"), "--fault", fault]
    done = subprocess.run(words, cwd=folder, env=quiet, capture_output=True, text=True, timeout=600)
    found = re.search(r"([\d.]+)% of the test images", done.stdout)
    if done.returncode or found is None:
        raise SystemExit(f"{program} {fault} failed: {done.stdout[-500:]} {done.stderr[-1500:]}")
    return float(found.group(1)) / 100


def main(out: Path) -> None:
    """All faults under both programs."""
    rows: list[dict[str, Any]] = []
    for fault, what in FAULTS.items():
        with tempfile.TemporaryDirectory() as folder:
            row: dict[str, Any] = {"fault": what} | {
                name: trained(name, fault, Path(folder)) for name in ("plain", "robust")
            }
            row["ranks"] = [node.row() for node in nodes(read_journal(Path(folder) / "ranks.jsonl"))]
        rows.append(row)
        print(json.dumps(row), flush=True)
    out.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "benchmarks" / "ddp.json")
    main(parser.parse_args().out)
