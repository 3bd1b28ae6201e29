"""A real Flower deployment in which one of four nodes misbehaves, fault by fault: does every run finish?

A SuperLink with TLS by an own certificate authority and SuperNodes with registered keys, on loopback; the app is that
of examples/flower, two phases. Each row starts the app anew, with another fault in the last node, and checks that the
run ends by itself, the model is finite and has learned, and the bad node is named in the journal.

example:  python benchmarks/deployment.py --out results/flower/deployment.json
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "flower"
sys.path.insert(0, str(EXAMPLE))

from deploy import recognised, rounds  # noqa: E402
from federation import Federation, until  # noqa: E402
from keys import key_pair  # noqa: E402

from holdfast.engines.flower.mailbox import SLOWEST  # noqa: E402

OUT = Path(__file__).resolve().parent.parent / "results" / "flower" / "deployment.json"
NODES = 4
ROWS = {
    "honest": "nothing",
    "reverse": "sends ten times the opposite, and votes for Outer",
    "count": "declares 10⁹ samples, sends the opposite, and votes for Outer; nodes count by `num-examples`",
    "exception": "raises an exception",
    "exit": "ends its process by os._exit",
    "hang": "hangs",
    "nan": "sends NaN",
    "huge": "sends 1e38",
    "shape": "sends another shape",
    "empty": "replies with nothing",
    "keys": "sends other names",
    "extra": "sends 1,000 arrays more",
    "bomb": "sends arrays that list one chunk 100,000 times",
    "bad-vote": "votes with a list and NaN",
    "twice": "sends every reply and vote two and three times",
    "kill-node": "its SuperNode is killed (SIGKILL) after a round",
    "stranger": "a node without a registered key tries to join",
    "unregister": "it is unregistered between the phases of round 1",
    "failing": "the SuperLink answers every third call of the server with 500",
    "kill-server": "SuperLink and server are killed (SIGKILL) between the phases of round 2, and started again",
}
BESIDE = ("honest", "twice", "kill-node", "stranger", "unregister", "failing", "kill-server")  # the client is honest


def row(
    fed: Federation, fault: str, many: int = 2, timeout: float = 30.0, patience: float | None = None
) -> dict[str, Any]:
    """One run with one fault; an error if it does not finish as it should."""
    start, last = time.monotonic(), str(NODES - 1)
    journal = fed.folder / "server" / fault
    own = fault if fault not in BESIDE else ""
    hold = fed.folder / "data" / "hold"
    if fault == "kill-server":  # the last node's vote of round 2 is held back until the server is dead
        own = "hold-vote"
        hold.touch()
    if fault == "failing":
        fed.stop("superlink")
        fed.start((sys.executable, EXAMPLE / "failing.py"))
    if fault == "twice":
        fed.join(last, program=(sys.executable, EXAMPLE / "twice.py"))
    else:
        fed.join(last, own)
    if fault == "stranger":
        fed.join("stranger")
    if fault == "unregister":
        fed.signal("0", signal.SIGSTOP)  # round 1 waits for this node until the last one is gone
        timeout = max(timeout, 90.0)
    words: dict[str, Any] = {"rounds": many, "nodes": NODES, "folder": str(journal), "timeout": timeout}
    if patience is not None:
        words["patience"] = patience
    if fault == "count":
        words["weighted"] = "num-examples"
    before = fed.log("0").count("Receiving: query.vote") if fault == "kill-server" else 0
    replied = fed.log(last).count("Sent successfully")
    run = fed.run(**words)
    node = fed.numbers[last]
    if fault == "unregister":
        until(lambda: fed.log(last).count("Sent successfully") > replied, 300, "the node's reply")
        time.sleep(2 * SLOWEST)  # the server looks for it at least that often
        fed.unregister(last)
        fed.signal("0", signal.SIGCONT)
    if fault == "kill-server":
        until(lambda: fed.log("0").count("Receiving: query.vote") > before + 1, 300, "the vote of round 2")
        fed.stop("superlink", signal.SIGKILL)
        hold.unlink()
        done = [line["round"] for line in rounds(fed, run, journal, 1)]
        assert done == [1], f"rounds {done} were saved before the kill in round 2"
        fed.start()
        run = fed.run(**words)
    lines = []
    for line in rounds(fed, run, journal, many):
        lines.append(line)
        if fault == "kill-node" and line["round"] == 1:
            fed.stop(last, signal.SIGKILL)
    until(lambda: fed.status(run).startswith("finished"), 600, "the run to end")
    status, accuracy = fed.status(run), recognised(journal, NODES)
    said = told(lines, node)
    if fault == "stranger":
        assert all(line["asked"] <= NODES for line in lines), "somebody else was asked"
        said = "refused by the SuperLink" if "Failed to activate SuperNode" in fed.log("stranger") else ""
        fed.stop("stranger")
    if fault in ("unregister", "failing"):
        others = [name for line in lines for name in (*line["refused"], *line.get("bad_votes", {})) if name != node]
        assert not others, f"honest nodes {others} are blamed"
    if fault == "unregister":
        assert lines[0]["no_vote"] == [node], f"{node} was unregistered, and round 1 says {lines[0]}"
    if fault == "failing":
        failed = fed.log("superlink").count("with 500")
        assert failed, "the SuperLink did not fail"
        said = f"nobody is blamed; {failed} calls failed"
        fed.stop("superlink")
        fed.start()
    if fault == "twice":
        again = fed.log(last).count(" again")
        assert again, "the node did not repeat itself"
        said = f"counted once; it sent {again} replies again"
    if last in fed.processes:
        fed.stop(last)
    if fault == "unregister":
        (fed.keys / last).unlink()  # a key that was unregistered is not let in again
        key_pair(fed.keys / last)
        fed.register(last)
    found = {"fault": fault, "what": ROWS[fault], "status": status, "rounds": len(lines), "said": said}
    found |= {"skipped": sum("skipped" in line for line in lines), "accuracy": round(accuracy, 3)}
    assert status == "finished:completed", found
    assert [line["round"] for line in lines] == list(range(1, many + 1)), found
    assert not found["skipped"], (found, lines)
    assert accuracy > 0.6, found
    assert said or fault in ("honest", "twice", "kill-server"), f"the bad node {node} is not named: {lines}"
    return found | {"seconds": round(time.monotonic() - start)}


def told(lines: list[dict[str, Any]], node: str) -> str:
    """What the journal says of a node, beyond that it was kept."""
    found = dict[str, None]()
    for line in lines:
        for what in ("refused", "bad_votes"):
            if node in line.get(what, {}):
                found[f"{what.replace('_', ' ')}: {line[what][node]}"] = None
        for what in ("silent", "no_vote"):
            if node in line.get(what, []):
                found[what.replace("_", " ")] = None
        if node in line.get("capped", {}):
            found[f"declared {line['capped'][node]:g}, counts as {line['masses'][node]:.0f}"] = None
        if node in line.get("excluded", {}):
            found[f"excluded: {line['excluded'][node]}"] = None
    return "; ".join(found)


def opened(folder: Path) -> Federation:
    """A federation with all honest nodes, and the last one registered."""
    fed = Federation(folder, NODES)
    try:
        fed.start()
        fed.register()
        for at in range(NODES - 1):
            fed.join(str(at))
    except BaseException:
        fed.close()
        raise
    return fed


def main(out: Path, wanted: list[str], timeout: float) -> None:
    """All rows that were asked for, one federation for all."""
    done = {one["fault"]: one for one in json.loads(out.read_text())["rows"]} if out.exists() else {}
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder, opened(Path(folder)) as fed:
        for fault in wanted:
            done[fault] = row(fed, fault, timeout=timeout)
            print(json.dumps(done[fault]), flush=True)
            out.parent.mkdir(parents=True, exist_ok=True)
            rows = [done[name] for name in ROWS if name in done]
            out.write_text(json.dumps({"nodes": NODES, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--only", nargs="+", choices=list(ROWS), default=list(ROWS), help="some of the faults")
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds for replies; more on a busy machine")
    given = parser.parse_args()
    main(given.out, given.only, given.timeout)
