"""The link between server and nodes: who a reply belongs to, and a SuperLink that fails for a while."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.supercore.run import RunNotRunningException

from holdfast import Mean2P, MeanwO
from holdfast.engines.flower import LocalGrid, RobustStrategy, TwoPhaseStrategy, link, make_record, read_model, vote
from holdfast.engines.flower.mailbox import Mailbox
from holdfast.journal import read_journal
from tests.children import PATIENCE

QUIET: dict[str, Any] = {"fraction_evaluate": 0.0, "patience": 0.0}
FIRST = {"w": np.zeros(3, np.float32)}


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "FIRST_PAUSE", 0.001)
    monkeypatch.setattr(link, "LONGEST_PAUSE", 0.001)


def clients(far: int = 0) -> ClientApp:
    """Every client moves by one; the node with the number `far` moves by a thousand."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        step = 1000 if context.node_id == far else 1
        old = read_model(message.content.array_records["arrays"])
        told = MetricRecord({"node": float(context.node_id)})
        new = {name: values + np.float32(step) for name, values in old.items()}
        return Message(RecordDict({"arrays": make_record(new), "metrics": told}), reply_to=message)

    @vote(app)
    def loss(arrays: Any, context: Context) -> float:
        return float(np.abs(read_model(arrays)["w"] - 1).sum())

    return app


class Link(LocalGrid):
    """A SuperLink as Flower's grid shows it: it has no id for gone nodes, and some calls fail at first."""

    def __init__(self, app: ClientApp, nodes: int) -> None:
        super().__init__(app, nodes)
        self.gone: set[int] = set()
        self.fails: dict[str, list[BaseException]] = {}
        self.calls = Counter[str]()
        self.known: dict[str, int] = {}

    def _call(self, name: str) -> None:
        self.calls[name] += 1
        if self.fails.get(name):
            raise self.fails[name].pop()

    def get_node_ids(self) -> Iterable[int]:
        self._call("nodes")
        return super().get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        self._call("push")
        sent = list(messages)
        there = iter(super().push_messages([m for m in sent if m.metadata.dst_node_id not in self.gone]))
        return ["" if m.metadata.dst_node_id in self.gone else next(there) for m in sent]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        self._call("pull")
        return super().pull_messages(message_ids)


class Wire:
    """The same, as a grid that is no LocalGrid."""

    def __init__(self, inner: Link) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def status(code: int) -> Exception:
    request = httpx.Request("POST", "http://superlink")
    return httpx.HTTPStatusError(f"{code}", request=request, response=httpx.Response(code, request=request))


def start(strategy: RobustStrategy, grid: Link, rounds: int = 2) -> np.ndarray:
    wire: Any = Wire(grid)
    return read_model(strategy.start(wire, make_record(FIRST), num_rounds=rounds, timeout=PATIENCE).arrays)["w"]


def test_replies_kept_their_nodes_when_a_node_was_unregistered_before_the_push() -> None:
    grid = Link(clients(), 5)
    grid.gone = {2}
    asked = [Message(RecordDict({"arrays": make_record(FIRST)}), node, "train") for node in (1, 2, 3, 4, 5)]
    mailbox: Any = Mailbox(grid)
    replies = mailbox.send_and_receive(asked, timeout=PATIENCE)
    assert {m.metadata.src_node_id: m.content["metrics"]["node"] for m in replies} == {1: 1, 3: 3, 4: 4, 5: 5}


@pytest.mark.parametrize("two", [False, True])
def test_an_honest_node_was_named_far_when_another_was_unregistered(two: bool, tmp_path: Path) -> None:
    grid = Link(clients(far=5), 7)
    grid.gone = {2}
    strategy = (TwoPhaseStrategy(Mean2P(f=2), folder=tmp_path, **QUIET) if two
                else RobustStrategy(MeanwO(f=1), folder=tmp_path, **QUIET))  # fmt: skip
    assert np.isfinite(start(strategy, grid)).all()
    for line in read_journal(tmp_path):
        assert line["silent"] == ["2"]
        assert "5" in line["excluded"]
        assert line["refused"] == {}


def test_votes_changed_owners_when_a_node_was_unregistered_between_the_phases(tmp_path: Path) -> None:
    class Leaving(Link):
        def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
            sent = list(messages)
            self.gone = {2} if sent and sent[0].metadata.message_type == "query.vote" else set()
            return super().push_messages(sent)

    start(TwoPhaseStrategy(Mean2P(f=2), folder=tmp_path, **QUIET), Leaving(clients(), 7), 1)
    (line,) = read_journal(tmp_path)
    assert (line["no_vote"], line["votes"], line["bad_votes"], line["silent"]) == (["2"], 6, {}, [])


@pytest.mark.parametrize("call", ["nodes", "push", "pull"])
@pytest.mark.parametrize("error", [status(500), status(429), httpx.ConnectError("refused"), httpx.ReadTimeout("late")])
def test_a_failing_superlink_was_blamed_on_nodes_or_ended_the_run(call: str, error: Exception, tmp_path: Path) -> None:
    grid = Link(clients(), 5)
    grid.fails = {call: [error] * 3}
    assert (start(RobustStrategy(MeanwO(f=1), folder=tmp_path, **QUIET), grid) == 2).all()
    for line in read_journal(tmp_path):
        assert (line["refused"], line["silent"], "skipped" in line) == ({}, [], False)


def test_a_superlink_that_never_recovers_ends_the_run_with_its_own_error(tmp_path: Path) -> None:
    grid = Link(clients(), 5)
    grid.fails = {"nodes": [status(500)] * 1000}
    with pytest.raises(httpx.HTTPStatusError):
        start(RobustStrategy(MeanwO(f=1), folder=tmp_path, **QUIET), grid)
    assert grid.calls["nodes"] == link.MAX_TRIES


def test_a_wrong_request_is_not_repeated() -> None:
    grid = Link(clients(), 5)
    grid.fails = {"nodes": [status(400)]}
    with pytest.raises(httpx.HTTPStatusError):
        start(RobustStrategy(MeanwO(f=1), **QUIET), grid)
    assert grid.calls["nodes"] == 1


def test_a_push_that_was_stored_before_it_failed_lost_its_nodes(tmp_path: Path) -> None:
    """Flower's SuperLink gives no id to a message that it already has."""

    class Forgetful(Link):
        stored = False

        def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
            names = list(super().push_messages(messages)) if not self.stored else [""] * 5
            if not self.stored:
                self.stored = True
                raise status(500)
            return names

    start(RobustStrategy(MeanwO(f=1), folder=tmp_path, **QUIET), Forgetful(clients(), 5), 1)
    (line,) = read_journal(tmp_path)
    assert (len(line["kept"]), line["silent"]) == (4, [])


@pytest.mark.parametrize("error", [RunNotRunningException(), status(401), status(403)])
@pytest.mark.parametrize("call", ["nodes", "push", "pull"])
def test_a_run_that_its_operator_stopped_showed_as_refused_or_silent_nodes(
    call: str, error: BaseException, tmp_path: Path
) -> None:
    grid = Link(clients(), 5)
    grid.fails = {call: [error]}
    with pytest.raises(link.RunStopped, match="the run was stopped"):
        start(RobustStrategy(MeanwO(f=1), folder=tmp_path, **QUIET), grid)
    assert not (tmp_path / "rounds.jsonl").exists()
