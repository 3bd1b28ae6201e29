"""The app as a real deployment on this machine: TLS, registered keys, and a node that misbehaves.

example:  python deploy.py --nodes 4 --fault reverse
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from federation import Federation
from resilient import task
from resilient.faults import FAULTS

from holdfast.journal import read_journal


def rounds(fed: Federation, run: str, journal: Path, many: int, seconds: float = 600.0) -> Iterator[dict[str, Any]]:
    """The journal's lines as they come; ends with an error if the run does, or after `seconds` without one."""
    told, since, looked = 0, time.monotonic(), time.monotonic()
    while told < many:
        lines = read_journal(journal / "rounds.jsonl") if (journal / "rounds.jsonl").is_file() else []
        if lines[told:]:
            yield from lines[told:many]
            told, since = len(lines), time.monotonic()
        elif time.monotonic() - looked > 20:  # a question costs some seconds of a core
            looked = time.monotonic()
            if (status := fed.status(run)).startswith("finished") and len(
                read_journal(journal / "rounds.jsonl")
            ) <= told:
                end = fed.said(run)[-2000:]
                raise RuntimeError(f"the run ended as {status} after {told} of {many} rounds: {end}")
        if time.monotonic() - since > seconds:
            raise TimeoutError(f"no round in {seconds:.0f} s")
        time.sleep(0.3)


def recognised(journal: Path, nodes: int) -> float:
    """The part of the test images that the last saved model recognises; an error if it is not finite."""
    with np.load(journal / "state.npz") as held:
        model = {str(name): held[f"model-{i}"] for i, name in enumerate(held["names"])}
    if not all(np.isfinite(values).all() for values in model.values()):
        raise RuntimeError("the model is not finite")
    return task.accuracy(model, *task.shares(nodes)[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=4, help="how many nodes; the last one misbehaves")
    parser.add_argument("--fault", default="reverse", choices=["", *FAULTS], help="in which way")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rule", default="Mean2P(f=1)", help="any rule, such as MeanwO(f=1)")
    parser.add_argument("--folder", type=Path, help="where keys, logs and the server's journal stay; none: they do not")
    given = parser.parse_args()
    if given.nodes < 3:
        parser.error("with fewer than 3 nodes one liar is a half of them")
    if given.folder is not None and given.folder.exists() and any(given.folder.iterdir()):
        parser.error(f"{given.folder} is not empty; name a new folder")
    with tempfile.TemporaryDirectory(prefix="holdfast-") as temporary:
        show(Path(given.folder or temporary), given.nodes, given.fault, given.rounds, given.rule)


def show(folder: Path, nodes: int, fault: str, many: int, rule: str) -> None:
    """Start everything, follow the rounds, end everything."""
    with Federation(folder, nodes) as fed:
        fed.start()
        print(f"SuperLink at 127.0.0.1:{fed.port}, with TLS by an own authority; {nodes} keys to register", flush=True)
        fed.register()
        for at in range(nodes):
            fed.join(str(at), fault if at == nodes - 1 else "")
        print(f"{nodes} nodes joined; the last one's fault: {fault or 'none'}", flush=True)
        journal = folder.resolve() / "server"
        run = fed.run(rule=rule, rounds=many, nodes=nodes, folder=str(journal))
        for line in rounds(fed, run, journal, many):
            told = line.get("skipped") or f"{len(line['kept'])} kept, excluded: {sorted(line['excluded'])}"
            for what in ("refused", "silent", "bad_votes"):
                told += f", {what.replace('_', ' ')}: {line[what]}" if line.get(what) else ""
            print(f"round {line['round']}: {told}", flush=True)
        print(f"{recognised(journal, nodes):.1%} of the test images recognised; ending all processes", flush=True)


if __name__ == "__main__":
    main()
