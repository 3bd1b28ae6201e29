"""Replies that cost a server much more than they cost their sender."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.clientapp import ClientApp
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import ConfirmMessageReceivedResponse, ObjectTree, PullObjectRequest, PullObjectResponse
from flwr.proto.runtime_pb2 import PullAppMessagesResponse
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_id, get_object_tree
from flwr.supercore.run import Run
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.superlink.grid import HttpGrid

from holdfast import Mean2P, MeanwO
from holdfast.engines.flower import LocalGrid, RobustStrategy, TwoPhaseStrategy, link, make_record, read_model
from holdfast.engines.flower.limits import Limits
from holdfast.engines.flower.mailbox import Mailbox
from holdfast.journal import read_journal
from tests.children import PATIENCE

MODEL = {"w": np.zeros(1000, np.float32)}


class Client:
    """What Flower's grid asks a SuperLink: one reply, in pieces."""

    def __init__(self, message: Any, tree: ObjectTree, pieces: dict[str, bytes]) -> None:
        self.answer = PullAppMessagesResponse(messages_list=[message], message_object_trees=[tree])
        self.pieces, self.asked, self.confirmed = pieces, 0, 0
        self.fails: list[Exception] = []

    def PullMessages(self, _: Any) -> Any:  # noqa: N802
        answer, self.answer = self.answer, PullAppMessagesResponse()  # a SuperLink gives a reply once
        return answer

    def PullObject(self, request: Any) -> Any:  # noqa: N802
        self.asked += 1
        if self.fails:
            raise self.fails.pop()
        content = self.pieces[request.object_id]
        return PullObjectResponse(object_found=True, object_available=True, object_content=content)

    def ConfirmMessageReceived(self, _: Any) -> None:  # noqa: N802
        self.confirmed += 1


def sent(content: Any, change: Callable[[str, bytes], bytes] = lambda _, piece: piece) -> tuple[Any, Message]:
    """A grid to which node 7 has replied with this, after its pieces were changed; and the question."""
    LocalGrid(ClientApp(), 1)
    asked = Message(RecordDict({"arrays": make_record(MODEL)}), 7, "train")
    reply = Message(content, reply_to=asked)
    pieces, names = dict[str, bytes](), dict[str, str]()
    for name, part in get_all_nested_objects(reply).items():  # children first
        piece = change(type(part).__name__, part.deflate())
        for old, new in names.items():
            piece = piece.replace(old.encode(), new.encode())
        names[name] = get_object_id(piece)
        pieces[names[name]] = piece

    def renamed(tree: ObjectTree) -> ObjectTree:
        return ObjectTree(object_id=names[tree.object_id], children=[renamed(child) for child in tree.children])

    tree = renamed(get_object_tree(reply))
    reply.metadata.__dict__["_message_id"] = tree.object_id
    grid: Any = HttpGrid(token="none")
    announced = message_to_proto(remove_content_from_message(reply))
    grid._client, grid._run = Client(announced, tree, pieces), Run.create_empty(1)
    grid.push_messages = lambda messages: ["1" for _ in messages]
    return grid, asked


def fetched(grid: Any, asked: Message, model: dict[str, np.ndarray] = MODEL) -> Message:
    mailbox: Any = Mailbox(grid, Limits.of(model))
    (reply,) = mailbox.send_and_receive([asked], timeout=PATIENCE)
    assert reply.metadata.src_node_id == 7
    return reply


def listed(times: int) -> Callable[[str, bytes], bytes]:
    """Every array lists its first chunk so many times."""

    def change(kind: str, piece: bytes) -> bytes:
        if kind != "Array":
            return piece
        head, _, body = piece.partition(b"\x00")
        told = json.loads(body) | {"arraychunk_ids": [0] * times}
        new = json.dumps(told).encode()
        return head.rsplit(b" ", 1)[0] + f" {len(new)}".encode() + b"\x00" + new

    return change


def test_a_sound_reply_comes_as_it_was_sent() -> None:
    values = np.arange(1000, dtype=np.float32)
    grid, asked = sent(RecordDict({"arrays": make_record({"w": values}), "m": MetricRecord({"loss": 0.5})}))
    reply = fetched(grid, asked)
    assert (read_model(reply.content.array_records["arrays"])["w"] == values).all()
    assert reply.content["m"]["loss"] == 0.5
    assert grid._client.confirmed == 1


def test_large_arrays_of_zeros_list_one_chunk_many_times_and_are_sound() -> None:
    zeros = {"w": np.zeros(4_000_000, np.float32)}
    grid, asked = sent(RecordDict({"arrays": make_record(zeros)}))
    mailbox: Any = Mailbox(grid, Limits.of(zeros))
    (reply,) = mailbox.send_and_receive([asked], timeout=PATIENCE)
    assert read_model(reply.content.array_records["arrays"])["w"].shape == (4_000_000,)


def test_one_chunk_listed_many_times_took_gigabytes() -> None:
    grid, asked = sent(RecordDict({"arrays": make_record(MODEL)}), listed(50_000))  # 4 KB become 200 MB
    tracemalloc.start()
    reply = fetched(grid, asked)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6
    assert reply.has_error()
    assert str(reply.error.reason).startswith("sent arrays of 2")
    assert grid._client.confirmed == 1


def test_a_thousand_extra_arrays_are_refused_before_they_are_fetched() -> None:
    extra = {f"x{at}": np.full(1, at) for at in range(1000)}
    grid, asked = sent(RecordDict({"arrays": make_record(MODEL | extra)}))
    reply = fetched(grid, asked)
    assert "pieces" in str(reply.error.reason)
    assert grid._client.asked == 0


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (lambda: {"m": MetricRecord({f"name{at}": 1.0 for at in range(10**5)})}, "sent more than"),
        (lambda: {"arrays": ArrayRecord({"w": Array(np.random.default_rng(0).random(10**6))})}, "sent more than"),
        (lambda: {f"r{at}": MetricRecord({"a": float(at)}) for at in range(2000)}, "pieces"),
    ],
)
def test_floods_are_refused_before_they_are_parsed(content: Callable[[], dict[str, Any]], why: str) -> None:
    grid, asked = sent(RecordDict(content()))
    reply = fetched(grid, asked)
    assert reply.has_error()
    assert why in str(reply.error.reason)
    assert grid._client.confirmed == 1


def test_a_piece_that_failed_with_500_was_blamed_on_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "FIRST_PAUSE", 0.001)
    request = httpx.Request("POST", "http://superlink")
    error = httpx.HTTPStatusError("500", request=request, response=httpx.Response(500, request=request))
    grid, asked = sent(RecordDict({"arrays": make_record(MODEL)}))
    grid._client.fails = [error] * 2
    assert not fetched(grid, asked).has_error()


class Wire(httpx.BaseTransport):
    """The same SuperLink behind HTTP: counts the bytes of bodies that are read."""

    def __init__(self, client: Client) -> None:
        self.client, self.read, self.broken = client, 0, 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer: Any = ConfirmMessageReceivedResponse()
        if request.url.path.endswith("pull-messages"):
            answer = self.client.PullMessages(None)
        elif request.url.path.endswith("pull-object"):
            answer = self.client.PullObject(PullObjectRequest.FromString(request.read()))
        data = answer.SerializeToString()
        return httpx.Response(200, headers={"content-length": str(len(data))}, content=self.body(data))

    def body(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), 1 << 16):
            if self.broken:
                self.broken -= 1
                raise httpx.ReadError("the connection broke")
            self.read += len(data[start : start + (1 << 16)])
            yield data[start : start + (1 << 16)]


def over_http(grid: Any) -> Wire:
    wire = Wire(grid._client)
    grid._client = RuntimeHttpClient("http://superlink")
    grid._client._client = httpx.Client(transport=wire)
    return wire


LARGE: dict[str, Callable[[], Any]] = {
    "setting": lambda: RecordDict({"c": ConfigRecord({"c": "x" * 3_000_000})}),
    "name": lambda: RecordDict({"arrays": make_record(MODEL | {"x" * 3_000_000: np.zeros(1)})}),
    "error": lambda: Error(0, "x" * 3_000_000),
    "metric": lambda: RecordDict({"m": MetricRecord({"m": [1] * 3_000_000})}),
}


@pytest.mark.parametrize("kind", LARGE)
def test_one_large_piece_was_read_whole_before_it_was_refused(kind: str) -> None:
    grid, asked = sent(LARGE[kind]())
    wire = over_http(grid)
    reply = fetched(grid, asked)
    assert "sent more than" in str(reply.error.reason)
    assert wire.read < 10_000


def test_a_list_of_very_many_pieces_was_read_whole_before_it_was_refused() -> None:
    grid, asked = sent(RecordDict({"arrays": make_record(MODEL)}))
    tree = grid._client.answer.message_object_trees[0]
    tree.children.extend(ObjectTree(object_id=get_object_id(b"%d" % at)) for at in range(50_000))
    wire = over_http(grid)
    assert "sent more than" in str(fetched(grid, asked).error.reason)
    assert wire.read == 0


def test_a_piece_that_is_fetched_again_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "FIRST_PAUSE", 0.001)
    model = {"w": np.random.default_rng(0).random(300_000)}  # 2.4 MB of the 3.5 MB that a reply may hold
    grid, asked = sent(RecordDict({"arrays": make_record(model)}))
    wire = over_http(grid)
    monkeypatch.setattr(wire, "handle_request", _breaking(wire))
    reply = fetched(grid, asked, model)
    assert (read_model(reply.content.array_records["arrays"])["w"] == model["w"]).all()


def test_pieces_of_a_refused_reply_stayed_until_the_garbage_collector_ran() -> None:
    """Flower's threads keep the error, the error their frames, and these the pieces."""
    model = {f"w{at}": np.random.default_rng(at).random(50_000) for at in range(6)}
    wide = {name: values.astype(np.longdouble) for name, values in model.items()}  # 4.8 MB, of which 3.5 are fetched
    replies = [sent(RecordDict({"arrays": make_record(wide)})) for _ in range(5)]
    gc.disable()
    tracemalloc.start()
    try:
        for grid, asked in replies:
            assert fetched(grid, asked, model).has_error()
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        gc.enable()
    assert held < 5e6  # it was 20 MB


def _breaking(wire: Wire) -> Callable[[httpx.Request], httpx.Response]:
    """The first fetches of pieces break while their bodies are read."""
    whole, left = wire.handle_request, [3]

    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("pull-object") and left[0]:
            left[0] -= 1
            wire.broken = 1
        return whole(request)

    return handle


def flooded(content: Callable[[], dict[str, Any]]) -> ClientApp:
    """Node 1 adds this to all its replies."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        more = content() if context.node_id == 1 else {}
        return Message(RecordDict({"arrays": make_record({"w": MODEL["w"] + 1}), **more}), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        more = content() if context.node_id == 1 else {}
        return Message(RecordDict({"m": MetricRecord({"loss": 0.5}), **more}), reply_to=message)

    @app.query("vote")
    def ballot(message: Message, context: Context) -> Message:
        more = content() if context.node_id == 1 else {}
        return Message(RecordDict({"v": MetricRecord({"inner": 1.0, "outer": 2.0}), **more}), reply_to=message)

    return app


FLOODS: dict[str, Callable[[], dict[str, Any]]] = {
    "100000 metrics": lambda: {"m": MetricRecord({f"n{at}": 1.0 for at in range(10**5)})},
    "1000 records": lambda: {f"r{at}": MetricRecord({"a": 1.0}) for at in range(1000)},
}


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_of_names_or_records_cost_seconds_a_round(kind: str, tmp_path: Path) -> None:
    strategy = RobustStrategy(MeanwO(f=1), folder=tmp_path)
    result = strategy.start(LocalGrid(flooded(FLOODS[kind]), 5), make_record(MODEL), num_rounds=1)
    (line,) = read_journal(tmp_path)
    assert line["refused"]["1"].startswith("sent 10")
    assert result.evaluate_metrics_clientapp[1]["loss"] == 0.5


def test_a_vote_with_a_flood_of_names_is_a_bad_vote(tmp_path: Path) -> None:
    app = flooded(lambda: {})
    app._registered_funcs.pop("query.vote")
    other = flooded(FLOODS["100000 metrics"])._registered_funcs["query.vote"]
    app._registered_funcs["query.vote"] = other
    TwoPhaseStrategy(Mean2P(f=1), folder=tmp_path, fraction_evaluate=0.0).start(
        LocalGrid(app, 5), make_record(MODEL), num_rounds=1
    )
    assert read_journal(tmp_path)[0]["bad_votes"] == {"1": "sent 100002 metrics, more than 1000"}
