"""The ways in which a node can misbehave, one by one: what the server must live with."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, Context, Message, MetricRecord, RecordDict
from flwr.clientapp.typing import ClientAppCallable

from holdfast.engines.flower import make_record, read_model
from resilient.task import Model

Spoil = Callable[[Model, Model], dict[str, np.ndarray]]  # of the model that came and the one that it was trained to


def misbehaving(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Flower calls this around the client; the fault's name is in the node's configuration."""
    voting = message.metadata.message_type.startswith("query")
    match fault(context), voting:
        case "exception", _:
            raise RuntimeError("this client is broken")
        case "exit", False:
            os._exit(1)
        case "hang", _:
            time.sleep(3600)
        case "hold-vote", True:
            _hold(Path(str(context.node_config["data"])))
    if fault(context) == "bomb" and not voting:
        setattr(Array, "deflate", _bombed)  # noqa: B010 - types are told apart otherwise
    sent = None if voting else read_model(message.content.array_records["arrays"])
    reply = call_next(message, context)
    name = fault(context)
    if name == "empty":
        return Message(RecordDict(), reply_to=message)
    if voting and name in VOTES:
        return Message(RecordDict({"vote": MetricRecord(VOTES[name])}), reply_to=message)
    if sent is not None and name in SPOILED:
        spoiled = SPOILED[name](sent, read_model(reply.content["arrays"]))  # type: ignore[arg-type]
        reply.content["arrays"] = make_record(spoiled)
    if sent is not None and name == "count":
        reply.content.metric_records["metrics"]["num-examples"] = 10**9
    return reply


def fault(context: Context) -> str:
    """What the node's configuration says it does; in a simulation, the last `liars` nodes do what the run says."""
    own = context.node_config
    if "fault" in own:
        return str(own["fault"])
    honest = int(own["num-partitions"]) - int(context.run_config["liars"])
    return str(context.run_config["fault"]) if int(own["partition-id"]) >= honest else ""


def _hold(data: Path) -> None:
    """From the second vote on, wait as long as a file `hold` stands beside the node's data: a test removes it."""
    with data.with_suffix(".votes").open("a") as votes:
        votes.write("x")
        second = votes.tell() > 1
    while second and data.with_name("hold").exists():
        time.sleep(0.2)


def _bombed(array: Array) -> bytes:
    """An array as Flower uploads it, which lists its first chunk a hundred thousand times."""
    head, _, body = _deflate(array).partition(b"\0")
    listed = json.dumps(json.loads(body) | {"arraychunk_ids": [0] * 100_000}).encode()
    return head.rsplit(b" ", 1)[0] + f" {len(listed)}".encode() + b"\0" + listed


_deflate = Array.deflate
SPOILED: dict[str, Spoil] = {
    "reverse": lambda old, new: {k: old[k] - 10 * (new[k] - old[k]) for k in new},
    "count": lambda old, new: {k: old[k] - (new[k] - old[k]) for k in new},
    "nan": lambda _, new: {k: np.full_like(new[k], np.nan) for k in new},
    "huge": lambda _, new: {k: np.full_like(new[k], 1e38) for k in new},
    "shape": lambda _, new: {k: new[k].ravel()[:-1] for k in new},
    "keys": lambda _, new: {f"not-{k}": new[k] for k in new},
    "extra": lambda _, new: new | {f"extra-{at}": np.full(1, float(at)) for at in range(1000)},
}
VOTES: dict[str, dict[str, Any]] = {
    "bad-vote": {"inner": [1.0, 2.0], "outer": float("nan")},
    "reverse": {"inner": 1e30, "outer": 0.0},
    "count": {"inner": 1e30, "outer": 0.0},
}
FAULTS = ("exception", "exit", "hang", "empty", "bomb", *dict.fromkeys([*SPOILED, *VOTES]))
