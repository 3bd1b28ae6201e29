"""NVFlare's POC mode in which one of four sites misbehaves, fault by fault: does every job finish?

A server and four clients, each a process of its own, on loopback, with keys of an own authority; the job is that of
examples/nvflare, two phases. Each row is a job of its own, with another fault in the last site. It checks that the job
ends by itself, the model is finite and has learned, and the bad site is named in the journal.

example:  python benchmarks/nvflare_poc.py --out results/nvflare/poc.json
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "nvflare"
sys.path.insert(0, str(EXAMPLE))

from job import accuracy  # noqa: E402
from nvflare.fuel.flare_api.flare_api import Session, new_secure_session  # noqa: E402
from nvflare.recipe.poc_env import DEFAULT_ADMIN_USER, PocEnv  # noqa: E402

from holdfast import Mean2P  # noqa: E402
from holdfast.engines.nvflare import RobustController, make_job  # noqa: E402
from holdfast.journal import read_journal  # noqa: E402

OUT = Path(__file__).resolve().parent.parent / "results" / "nvflare" / "poc.json"
SITES, ROUNDS, PATIENCE = 4, 2, 900.0
BAD = f"site-{SITES}"
ROWS = {
    "honest": "nothing",
    "reverse": "sends ten times the opposite",
    "nan": "sends NaN",
    "huge": "sends 1e38",
    "shape": "sends another shape",
    "keys": "sends other names",
    "text": "sends a megabyte of text in the place of each array",
    "exception": "raises an exception",
    "silent": "never answers",
    "exit": "ends the process of its script by os._exit; scripts have processes of their own",
    "end": "ends NVFlare's process of the job by os._exit in round 2; the job is started again with the same folder",
    "kill": "its client is killed (SIGKILL) after round 1",
}


class Poc:
    """A running server with its clients, and a session of its operator."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        os.environ |= {"NVFLARE_POC_WORKSPACE": str(folder / "poc"), "HOME": str(folder)}
        self.env = PocEnv(num_clients=SITES)

    def job(self, fault: str, kept: Path, timeout: float) -> Any:
        controller = RobustController(
            Mean2P(f=1),
            model={"weight": np.zeros((64, 10), np.float32), "bias": np.zeros(10, np.float32)},
            num_rounds=ROUNDS,
            timeout=timeout,
            vote_timeout=timeout,
            min_sites=SITES,
            folder=str(kept),
        )
        lies = {"honest": "", "kill": "", "end": f"{BAD}=,exit", "again": ""}.get(fault, f"{BAD}={fault}")
        alive = SITES if fault == "honest" else None  # the first job waits until all clients are there
        script_args = f"--sites {SITES} --lies {lies}"
        script, own_process = str(EXAMPLE / "learner.py"), fault == "exit"
        return make_job(controller, script, script_args=script_args, min_sites=alive, own_process=own_process)

    def session(self) -> Session:
        (kit,) = (self.folder / "poc").glob(f"*/prod_*/{DEFAULT_ADMIN_USER}")
        return new_secure_session(username=DEFAULT_ADMIN_USER, startup_kit_location=str(kit))

    def submit(self, session: Session, job: Any, fault: str) -> str:
        """Submit a job; its number."""
        job.export_job(str(self.folder / "jobs" / fault))
        return str(session.submit_job(str(self.folder / "jobs" / fault / job.name)))

    def kill(self, site: str) -> None:
        """End all processes of a client that this program has started, and what would start it again."""
        (kit,) = (self.folder / "poc").glob(f"*/prod_*/{site}")
        for process in Path("/proc").glob("[0-9]*"):
            try:
                call = (process / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(kit) in call:
                os.kill(int(process.name), signal.SIGKILL)


@contextmanager
def opened(folder: Path) -> Iterator[Poc]:
    poc = Poc(folder)
    try:
        yield poc
    finally:
        poc.env.stop(clean_up=False)


def until(happens: Any, what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not happens():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {PATIENCE:.0f} s for {what}")
        time.sleep(1.0)


def ended(session: Session, number: str) -> str:
    """The status of a job, as soon as it has ended."""
    until(lambda: str(session.get_job_status(number)).startswith("FINISHED"), "the job to end")
    return str(session.get_job_status(number))


def row(poc: Poc, fault: str, timeout: float) -> dict[str, Any]:
    """One job with one fault; an error if it does not finish as it should."""
    start, kept = time.monotonic(), poc.folder / "kept" / fault
    job = poc.job(fault, kept, timeout)
    if not (poc.folder / "poc").exists():
        number = poc.env.deploy(job)
        session = poc.session()
    else:
        session = poc.session()
        number = poc.submit(session, job, fault)
    try:
        if fault == "kill":
            until(lambda: (kept / "state.npz").exists(), "round 1")
            poc.kill(BAD)
        status = ended(session, number)
        if fault == "end":
            again = ended(session, poc.submit(session, poc.job("again", kept, timeout), "again"))
            first, status = status, again
    finally:
        session.close()
    lines = read_journal(kept)
    said = told(lines) if fault != "end" else f"the first job ended as {first.lower()}, the second went on"
    found = {"fault": fault, "what": ROWS[fault], "status": status, "rounds": len(lines), "said": said}
    right = accuracy(kept / "model.npz")
    found |= {"skipped": sum("skipped" in line for line in lines), "accuracy": round(right, 3)}
    with np.load(kept / "model.npz") as model:
        assert all(np.isfinite(values).all() for values in model.values()), found
    lost = ("FINISHED:ABNORMAL",) if fault == "kill" else ()  # NVFlare's word for a client that never says goodbye
    assert status in ("FINISHED:COMPLETED", *lost), found
    assert len(lines) == ROUNDS, found
    assert not found["skipped"], (found, lines)
    assert math.isfinite(right), found
    assert right > 0.6, found
    assert said or fault == "honest", f"the bad site is not named: {lines}"
    return found | {"seconds": round(time.monotonic() - start)}


def told(lines: list[dict[str, Any]]) -> str:
    """What the journal says of the bad site, beyond that it was kept."""
    found = dict[str, None]()
    for line in lines:
        for what in ("refused", "bad_votes", "excluded"):
            if BAD in line.get(what, {}):
                found[f"{what.replace('_', ' ')}: {line[what][BAD]}"] = None
        for what in ("silent", "no_vote"):
            if BAD in line.get(what, []):
                found[what.replace("_", " ")] = None
    return "; ".join(found)


def main(out: Path, wanted: list[str], timeout: float) -> None:
    done = {one["fault"]: one for one in json.loads(out.read_text())["rows"]} if out.exists() else {}
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder, opened(Path(folder)) as poc:
        for fault in wanted:
            done[fault] = row(poc, fault, timeout)
            print(json.dumps(done[fault]), flush=True)
            out.parent.mkdir(parents=True, exist_ok=True)
            rows = [done[name] for name in ROWS if name in done]
            out.write_text(json.dumps({"sites": SITES, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--only", nargs="+", choices=list(ROWS), default=list(ROWS), help="some of the faults")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for replies; more on a busy machine")
    given = parser.parse_args()
    main(given.out, given.only, given.timeout)
