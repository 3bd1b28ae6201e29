"""One server process that is measured: Flower's own grid, and answers of a SuperLink from files.

Everything between the HTTP response and the journal is what a deployment runs: httpx, protobuf, Flower's grid, the
mailbox, the strategy. `hostile_cost.py` writes the files and starts this program anew for every kind of reply.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from flwr.app import ArrayRecord, MetricRecord
from flwr.clientapp import ClientApp
from flwr.proto.message_pb2 import ConfirmMessageReceivedResponse, PullObjectRequest, PushObjectResponse
from flwr.proto.node_pb2 import NodeInfo
from flwr.proto.runtime_pb2 import (
    GetNodesResponse,
    PullAppMessagesRequest,
    PushAppMessagesRequest,
    PushAppMessagesResponse,
)
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.run import Run
from flwr.superlink.grid import HttpGrid

from holdfast import Mean2P
from holdfast.engines.flower import LocalGrid, TwoPhaseStrategy, make_record
from holdfast.journal import read_journal


class Replay(httpx.BaseTransport):
    """A SuperLink that answers from files: objects/ has pieces, train-7 is what node 7 announces for its update."""

    def __init__(self, folder: Path, nodes: int, kind: str) -> None:
        self.folder, self.nodes, self.kind = folder, nodes, kind
        self.asked: dict[str, bytes | Path] = {}
        self.stored: set[str] = set()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """What the SuperLink answers."""
        name = request.url.path.rpartition("/")[2].replace("-", "_")
        answer: bytes | Path = getattr(self, name)(request.read())
        if isinstance(answer, bytes):
            return httpx.Response(200, content=answer)
        length = str(answer.stat().st_size)
        return httpx.Response(200, headers={"content-length": length}, content=streamed(answer))

    def get_nodes(self, _: bytes) -> bytes:
        nodes = [NodeInfo(node_id=at) for at in range(1, self.nodes + 1)]
        return GetNodesResponse(nodes=nodes).SerializeToString()

    def push_messages(self, body: bytes) -> bytes:
        request = PushAppMessagesRequest.FromString(body)
        for message in request.messages_list:
            told = message.metadata
            phase = "vote" if told.message_type == "query.vote" else told.message_type
            self.asked[told.message_id] = self._announced(phase, told.dst_node_id)
        needed = {one.object_id for tree in request.message_object_trees for one in iterate_object_tree(tree)}
        needed, self.stored = needed - self.stored, self.stored | needed
        names = [message.metadata.message_id for message in request.messages_list]
        return PushAppMessagesResponse(message_ids=names, objects_to_push=sorted(needed)).SerializeToString()

    def _announced(self, phase: str, node: int) -> Path:
        own = self.folder / f"{phase}-{self.kind}"
        return own if node == self.nodes and own.exists() else self.folder / f"{phase}-{node}"

    def push_object(self, _: bytes) -> bytes:
        return PushObjectResponse(stored=True).SerializeToString()

    def pull_messages(self, body: bytes) -> bytes | Path:
        (name,) = PullAppMessagesRequest.FromString(body).message_ids
        return self.asked.pop(name, b"")  # a SuperLink gives a reply once

    def pull_object(self, body: bytes) -> Path:
        return self.folder / "objects" / PullObjectRequest.FromString(body).object_id

    def confirm_message_received(self, _: bytes) -> bytes:
        return ConfirmMessageReceivedResponse().SerializeToString()


def streamed(path: Path) -> Iterator[bytes]:
    """A body as it comes from a socket."""
    with path.open("rb") as file:
        while part := file.read(1 << 16):
            yield part


def peak_bytes() -> int:
    """The most memory that this process has held."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def measured(folder: Path, kind: str, nodes: int, rounds: int, timeout: float, journal: Path) -> dict[str, Any]:
    """Processor seconds of the cheapest round after the first, the peak, and what the journal says of the last node."""
    logging.disable(logging.CRITICAL)
    with np.load(folder / "model.npz") as held:
        model = {name: held[name] for name in held.files}
    LocalGrid(ClientApp(), 1)  # sets the process's identity, as Flower's programs do
    grid: Any = HttpGrid(insecure=True, token="none")
    grid.set_run(Run.create_empty(1))
    grid._connect()
    grid._client._client = httpx.Client(transport=Replay(folder, nodes, kind))
    strategy = TwoPhaseStrategy(Mean2P(f=2), folder=journal, fraction_evaluate=0.0, patience=0.0, vote_timeout=timeout)
    times = list[float]()

    def stamp(_: int, __: ArrayRecord) -> MetricRecord | None:
        times.append(time.process_time())
        return None

    strategy.start(grid, make_record(model), num_rounds=rounds, timeout=timeout, evaluate_fn=stamp)
    lines = read_journal(journal)
    assert [line["round"] for line in lines if "skipped" not in line] == list(range(1, rounds + 1)), lines
    return {"seconds": float(np.diff(times)[1:].min()), "peak": peak_bytes(), "said": said(lines[-1], str(nodes))}


def said(line: dict[str, Any], node: str) -> str:
    """What a line of the journal says of a node."""
    for what in ("refused", "dropped", "bad_votes"):
        if node in line.get(what, {}):
            return f"{what.replace('_', ' ')}: {line[what][node]}"
    for what in ("silent", "no_vote", "kept"):
        if node in line.get(what, []):
            return what.replace("_", " ")
    return "excluded" if node in line["excluded"] else ""


if __name__ == "__main__":
    print(json.dumps(measured(**json.loads(sys.argv[1], object_hook=lambda d: d | {
        name: Path(d[name]) for name in ("folder", "journal")}))))  # fmt: skip
