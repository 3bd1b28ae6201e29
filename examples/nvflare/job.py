"""Four sites, one of which lies, in NVFlare's simulator: `python examples/nvflare/job.py`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from learner import probabilities
from lies import FAULTS
from sklearn.datasets import load_digits

from holdfast import parse
from holdfast.engines.nvflare import RobustController, make_job
from holdfast.journal import read_journal
from holdfast.twophase import AGGREGATORS

HERE = Path(__file__).parent


def accuracy(path: Path) -> float:
    """How many of the last 297 images, which no site has, the model recognises."""
    images, labels = load_digits(return_X_y=True)
    with np.load(path) as model:
        found = probabilities(dict(model), images[1500:].astype(np.float32) / 16).argmax(1)
    return float((found == labels[1500:]).mean())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rule", default="Mean2P(f=1)")
    parser.add_argument("--sites", type=int, default=4)
    parser.add_argument("--lies", nargs="*", default=["site-4=reverse"], help=f"what sites do: {', '.join(FAULTS)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds that a round waits for replies")
    parser.add_argument("--grace", type=float, help="seconds that a round waits for the last f sites")
    parser.add_argument("--weighted", help="the name under which sites declare how much they count")
    parser.add_argument("--workspace", type=Path, help="a new folder; without it, a temporary one")
    parser.add_argument("--folder", default="holdfast", help="the journal; an absolute path lets a killed run go on")
    parser.add_argument("--log", default="ERROR", help="what NVFlare prints: a level of logging, such as INFO")
    parser.add_argument("--write", type=Path, help="write the job to this folder instead of running it")
    args = parser.parse_args()
    controller = RobustController(
        parse(args.rule, AGGREGATORS),
        model={"weight": np.zeros((64, 10), np.float32), "bias": np.zeros(10, np.float32)},
        num_rounds=args.rounds,
        timeout=args.timeout,
        vote_timeout=args.timeout,
        grace=args.grace,
        min_sites=args.sites,
        weighted_by_key=args.weighted,
        folder=args.folder,
    )
    script_args = f"--sites {args.sites} --lies {' '.join(args.lies)}"
    job = make_job(controller, str(HERE / "learner.py"), name="digits", script_args=script_args)
    if args.write:
        job.export_job(str(args.write))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        workspace = args.workspace or Path(temporary) / "workspace"
        code = job.simulator_run(str(workspace), n_clients=args.sites, log_config=args.log)
        kept = workspace / "server" / "simulate_job" / args.folder
        for line in read_journal(kept):
            print(json.dumps(line))
        print(f"accuracy {accuracy(kept / 'model.npz'):.3f}")
    return int(code or 0)


if __name__ == "__main__":
    sys.exit(main())
