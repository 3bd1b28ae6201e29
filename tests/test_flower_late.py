"""Flower with a buffer: late replies count later, once, as differences to the model that they were computed from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAdam

from holdfast import CWM, MDA, BadInput, Mean2P, MeanwO, Medoid
from holdfast.contract import Stage
from holdfast.engines.flower import (
    Buffer,
    LocalGrid,
    RobustStrategy,
    TwoPhaseStrategy,
    mailbox,
    make_record,
    read_model,
    vote,
    wrap,
)
from holdfast.errors import NoWeightedForm
from holdfast.journal import read_journal
from tests.children import PATIENCE

QUIET: dict[str, Any] = {"fraction_evaluate": 0.0, "patience": 0.0}
FIRST = {"w": np.zeros(3, np.float32)}
NEVER = 10**9
Delay = Callable[[int, int], int]


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "FIRST", 0.001)
    monkeypatch.setattr(mailbox, "SLOWEST", 0.005)


def clients(steps: dict[int, Any] | None = None) -> ClientApp:
    """Every client moves its model by one, or by its own step, and says from which model it began."""
    app, own = ClientApp(), {} if steps is None else steps

    @app.train()
    def train(message: Message, context: Context) -> Message:
        old = read_model(message.content.array_records["arrays"])
        step = own.get(context.node_id, 1.0)
        new = step if isinstance(step, ArrayRecord) else make_record({"w": old["w"] + np.float32(step)})
        told = MetricRecord({"began": float(old["w"][0]), "num-examples": 1})
        return Message(RecordDict({"arrays": new, "metrics": told}), reply_to=message)

    @vote(app)
    def loss(arrays: Any, context: Context) -> float:
        return float(np.abs(read_model(arrays)["w"] - 100).sum())

    return app


class Slow:
    """A link to nodes whose replies can be fetched only some rounds after they were asked: no clock is involved."""

    def __init__(self, app: ClientApp, nodes: int, delay: Delay) -> None:
        self.inner, self.delay = LocalGrid(app, nodes), delay
        self.round = 0
        self.ready: dict[str, int] = {}
        self.asked: list[list[int]] = []
        self.voters: list[list[int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        listed = list(messages)
        nodes = [int(one.metadata.dst_node_id) for one in listed]
        names = list(self.inner.push_messages(listed))
        if any(one.metadata.message_type == "query.vote" for one in listed):
            self.voters.append(nodes)
            self.ready |= dict.fromkeys(names, 0)
            return names
        if not listed:  # of an evaluation
            return names
        self.round += 1
        self.asked.append(nodes)
        self.ready |= {name: self.round + self.delay(node, self.round) for name, node in zip(names, nodes, strict=True)}
        return names

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return list(self.inner.pull_messages([one for one in message_ids if self.ready[one] <= self.round]))


def start(strategy: RobustStrategy, grid: Any, rounds: int, timeout: float = PATIENCE) -> np.ndarray:
    return read_model(strategy.start(grid, make_record(FIRST), num_rounds=rounds, timeout=timeout).arrays)["w"]


def taken(lines: Iterable[dict[str, Any]]) -> Counter[tuple[str, int]]:
    """How often the reply of a node to the model of a round was used."""
    return Counter((node, line["round"] - line["age"].get(node, 0)) for line in lines for node in _used(line))


def _used(line: dict[str, Any]) -> list[str]:
    return [*line["kept"], *line["excluded"]]


def two_late(node: int, turn: int) -> int:
    return 2 if node in (1, 2) else 0


class TestRounds:
    def test_a_late_reply_is_a_difference_to_the_model_that_it_was_computed_from(self, tmp_path: Path) -> None:
        strategy = RobustStrategy(MeanwO(f=1), buffer=Buffer(wait=5), folder=tmp_path, **QUIET)
        end = start(strategy, Slow(clients(), 7, two_late), 40)
        lines = read_journal(tmp_path)
        assert end.tolist() == [40.0] * 3  # every difference is one, whatever its age
        assert [len(_used(line)) for line in lines] == [5] * 40
        assert {age for line in lines for age in line["age"].values()} >= {2}
        assert max(taken(lines).values()) == 1

    def test_who_is_late_is_named_and_not_asked_again(self, tmp_path: Path) -> None:
        grid = Slow(clients(), 7, two_late)
        start(RobustStrategy(MeanwO(f=1), buffer=Buffer(wait=5), folder=tmp_path, **QUIET), grid, 3)
        lines = read_journal(tmp_path)
        assert [line["late"] for line in lines[:2]] == [["1", "2"], ["1", "2"]]
        assert [line["silent"] for line in lines] == [[], [], []]
        assert [set(nodes) & {1, 2} for nodes in grid.asked[:3]] == [{1, 2}, set(), set()]

    def test_nodes_take_turns_however_quick_they_are(self, tmp_path: Path) -> None:
        strategy = RobustStrategy(MeanwO(f=1), buffer=Buffer(wait=4), folder=tmp_path, **QUIET)
        start(strategy, LocalGrid(clients(), 8), 20)
        turns = Counter(node for line in read_journal(tmp_path) for node in _used(line))
        assert turns == {str(node): 10 for node in range(1, 9)}

    def test_a_node_that_never_answers_is_given_up_and_asked_again(self, tmp_path: Path) -> None:
        grid = Slow(clients(), 7, lambda node, turn: NEVER if node == 3 else 0)
        strategy = RobustStrategy(MeanwO(f=1), buffer=Buffer(wait=6, oldest=2), folder=tmp_path, **QUIET)
        assert start(strategy, grid, 7).tolist() == [7.0] * 3
        lines = read_journal(tmp_path)
        assert [line["silent"] for line in lines] == [[], [], ["3"], [], [], ["3"], []]
        assert [at for at, nodes in enumerate(grid.asked) if 3 in nodes] == [0, 3, 6]

    def test_a_reply_that_comes_after_its_node_was_given_up_is_nobodys(self, tmp_path: Path) -> None:
        grid = Slow(clients(), 7, lambda node, turn: 3 if node == 3 and turn == 1 else 0)
        strategy = RobustStrategy(MeanwO(f=1), buffer=Buffer(wait=6, oldest=1), folder=tmp_path, **QUIET)
        assert start(strategy, grid, 6).tolist() == [6.0] * 3
        assert ("3", 1) not in taken(read_journal(tmp_path))

    def test_without_a_buffer_a_late_reply_is_lost(self, tmp_path: Path) -> None:
        grid = Slow(clients(), 7, lambda node, turn: 1 if node == 2 and turn == 1 else 0)
        strategy = RobustStrategy(MeanwO(f=1), folder=tmp_path, **QUIET)
        start(strategy, grid, 2, timeout=1.0)
        first, second = read_journal(tmp_path)
        assert (first["silent"], second["silent"]) == (["2"], [])
        assert "age" not in second
        assert taken([line | {"age": {}} for line in (first, second)])["2", 1] == 0

    def test_replies_of_a_skipped_round_are_used_in_the_next(self, tmp_path: Path) -> None:
        bad = make_record({"w": np.full(3, np.nan, np.float32)})
        steps = {1: bad, 2: bad}
        grid = Slow(clients(steps), 7, lambda node, turn: 1 if turn > 1 and node != 7 else 0)
        strategy = RobustStrategy(MeanwO(f=1), buffer=Buffer(wait=5), folder=tmp_path, **QUIET)
        start(strategy, grid, 2)
        lines = read_journal(tmp_path)
        assert "skipped" in lines[0]
        assert all("sent" in why for why in lines[0]["refused"].values())
        assert strategy.arrivals.box.waiting.keys() | {(int(node), 1) for node in lines[1].get("kept", [])} >= {
            (node, 1) for node in (3, 4, 5, 6)
        }

    def test_an_old_reply_counts_less(self, tmp_path: Path) -> None:
        grid = Slow(clients({1: 4.0}), 4, lambda node, turn: 3 if node == 1 else 0)
        strategy = RobustStrategy(MeanwO(f=0), buffer=Buffer(wait=3, fade=1.0), folder=tmp_path, **QUIET)
        end, moved = start(strategy, grid, 40), 0.0
        lines = read_journal(tmp_path)
        for line in lines:
            masses = [1 / (1 + line["age"].get(node, 0)) for node in line["kept"]]
            steps = [4.0 if node == "1" else 1.0 for node in line["kept"]]
            moved += np.average(steps, weights=masses)
        assert any("1" in line["age"] for line in lines)
        assert end == pytest.approx([moved] * 3, rel=1e-6)

    def test_arrays_that_wait_are_not_views_of_a_whole_round(self) -> None:
        strategy = RobustStrategy(MeanwO(f=1), buffer=Buffer(oldest=5, again=True), **QUIET)
        start(strategy, LocalGrid(clients(), 7), 2)
        kept = [one.what.update["w"] for one in strategy.arrivals.box.used.values()]
        assert len(kept) == 7
        assert all(values.base is None for values in kept)
        assert not strategy.arrivals.models

    def test_replies_were_used_twice_when_a_liar_left_too_few_for_the_rule(self, tmp_path: Path) -> None:
        nan = make_record({"w": np.full(3, np.nan, np.float32)})
        grid = Slow(clients({1: nan}), 4, lambda node, turn: 0 if node == 1 or (turn == 1 and node in (2, 3)) else 2)
        strategy = RobustStrategy(MeanwO(f=1), buffer=Buffer(wait=3), folder=tmp_path, **QUIET)
        start(strategy, grid, 6, timeout=0.3)
        assert max(taken(line for line in read_journal(tmp_path) if "kept" in line).values()) == 1

    @pytest.mark.parametrize("full", [False, True])
    def test_one_error_of_the_link_ended_the_run(self, full: bool) -> None:
        class Breaking(Slow):
            broken = False

            def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
                if self.round == 2 and not self.broken:
                    self.broken = True
                    raise httpx.ReadTimeout("once")
                return super().pull_messages(message_ids)

        def delay(node: int, turn: int) -> int:
            return NEVER if node > 4 and not full else (0 if turn == 1 else 2)

        grid = Breaking(clients(), 8, delay)
        start(RobustStrategy(MeanwO(f=1), buffer=Buffer(wait=3), **QUIET), grid, 3, timeout=0.3)
        assert grid.broken

    def test_an_optimiser_of_flowers_own_when_nobody_is_asked(self) -> None:
        class Counting(Slow):
            def push_messages(self, messages: Iterable[Message]) -> list[str]:
                listed = list(messages)
                self.round += not listed
                return super().push_messages(listed)

        strategy = wrap(FedAdam(fraction_evaluate=0.0), MeanwO(f=1), buffer=Buffer(), patience=0.0)
        strategy.min_available_nodes = 0
        assert np.isfinite(start(strategy, Counting(clients(), 5, lambda node, turn: 1), 3, timeout=0.3)).all()

    @pytest.mark.parametrize("liar", [1, 2, 3])
    def test_a_node_that_counts_nothing_stopped_the_training(self, liar: int, tmp_path: Path) -> None:
        app = ClientApp()

        @app.train()
        def train(message: Message, context: Context) -> Message:
            new = make_record({"w": read_model(message.content.array_records["arrays"])["w"] + np.float32(1)})
            told = MetricRecord({"num-examples": 0 if context.node_id == liar else 10})
            return Message(RecordDict({"arrays": new, "metrics": told}), reply_to=message)

        weighted: dict[str, Any] = {"weighted_by_key": "num-examples", "buffer": Buffer(wait=3)}
        strategy = RobustStrategy(MeanwO(f=1), folder=tmp_path, **weighted, **QUIET)
        assert start(strategy, LocalGrid(app, 7), 10).tolist() == pytest.approx([10.0] * 3)
        assert not any("skipped" in line for line in read_journal(tmp_path))

    def test_nothing_of_a_round_was_let_go_without_a_buffer(self) -> None:
        strategy = RobustStrategy(MeanwO(f=1), **QUIET)
        start(strategy, LocalGrid(clients(), 7), 2)
        assert strategy.arrivals.before == ({}, {})
        assert all(one.what is None for one in strategy.arrivals.box.used.values())

    def test_last_replies_of_nodes_that_left_were_kept_for_ever(self) -> None:
        grid = LocalGrid(clients(), 100)
        nodes = dict(grid.contexts)

        def shift(turn: int, arrays: ArrayRecord) -> None:
            grid.contexts = {node: one for node, one in nodes.items() if 5 * turn < node <= 5 * turn + 5}

        shift(0, make_record(FIRST))
        strategy = RobustStrategy(MeanwO(f=1), buffer=Buffer(oldest=1, again=True), **QUIET)
        strategy.start(grid, make_record(FIRST), num_rounds=19, evaluate_fn=shift)
        assert sum(one.what is not None for one in strategy.arrivals.box.used.values()) == 5

    def test_a_reply_that_is_refused_does_not_close_a_round(self, tmp_path: Path) -> None:
        nan = make_record({"w": np.full(3, np.nan, np.float32)})
        strategy = RobustStrategy(MeanwO(f=2), buffer=Buffer(wait=5), folder=tmp_path, **QUIET)
        start(strategy, Slow(clients({1: nan, 2: nan}), 9, lambda node, turn: 0), 10)
        assert [len(_used(line)) for line in read_journal(tmp_path)] == [5] * 10

    def test_idle_nodes_are_asked_however_many_are_silent(self, tmp_path: Path) -> None:
        grid = Slow(clients(), 20, lambda node, turn: NEVER if node <= 5 else 0)
        strategy = RobustStrategy(MeanwO(f=1), fraction_train=0.25, buffer=Buffer(wait=3), folder=tmp_path, **QUIET)
        start(strategy, grid, 30, timeout=0.1)
        assert sum("skipped" in line for line in read_journal(tmp_path)) <= 3

    def test_a_node_that_got_no_message_is_asked_in_the_next_round(self, tmp_path: Path) -> None:
        class Losing(Slow):
            def push_messages(self, messages: Iterable[Message]) -> list[str]:
                listed = list(messages)
                lost = self.round == 0 and bool(listed)
                names = super().push_messages([m for m in listed if not (lost and m.metadata.dst_node_id == 3)])
                return [*names[:2], "", *names[2:]] if lost else names

        grid = Losing(clients(), 7, lambda node, turn: 0)
        strategy = RobustStrategy(MeanwO(f=1), buffer=Buffer(wait=5), folder=tmp_path, **QUIET)
        start(strategy, grid, 2)
        assert read_journal(tmp_path)[0]["silent"] == ["3"]
        assert 3 in grid.asked[1]

    def test_turns_are_kept_over_a_restart(self, tmp_path: Path) -> None:
        for rounds in range(1, 13):
            strategy = RobustStrategy(MeanwO(f=1), buffer=Buffer(wait=4), folder=tmp_path, **QUIET)
            start(strategy, LocalGrid(clients(), 8), rounds)
        turns = Counter(node for line in read_journal(tmp_path) for node in _used(line))
        assert set(turns.values()) == {6}

    @pytest.mark.parametrize("rule", [Medoid(), MeanwO(f=1), CWM()], ids=repr)
    def test_memory_of_a_round_is_used_again_and_the_answer_has_its_own(self, rule: Stage) -> None:
        strategy = RobustStrategy(rule, **QUIET)
        start(strategy, LocalGrid(clients({1: 2.0, 2: 3.0}), 7), 1)
        held, last = strategy.arrivals.rows.held["w"], strategy.last
        assert last is not None
        assert not np.may_share_memory(held, last["w"])
        before = last["w"].copy()
        start(strategy, LocalGrid(clients({1: -5.0, 2: 9.0}), 6), 1)
        assert strategy.arrivals.rows.held["w"] is held
        assert last["w"].tolist() == before.tolist()

    def test_replies_of_one_round_have_rows_of_their_own_if_none_may_be_late(self, tmp_path: Path) -> None:
        steps = {node: float(node) for node in range(1, 8)}
        strategy = RobustStrategy(CWM(), buffer=Buffer(wait=7, oldest=0, fade=0), folder=tmp_path, **QUIET)
        assert start(strategy, Slow(clients(steps), 7, lambda node, turn: 0), 1).tolist() == [4.0] * 3


class TestLastRepliesAgain:
    def test_a_node_without_a_new_reply_takes_part_with_its_last(self, tmp_path: Path) -> None:
        grid = Slow(clients(), 7, lambda node, turn: 2 if node == 4 and turn == 2 else 0)
        strategy = RobustStrategy(MeanwO(f=2), buffer=Buffer(wait=6, again=True), folder=tmp_path, **QUIET)
        start(strategy, grid, 3)
        lines = read_journal(tmp_path)
        assert [len(_used(line)) for line in lines] == [7, 7, 7]
        assert [line["age"] for line in lines] == [{}, {"4": 1}, {"4": 2}]

    def test_who_is_refused_has_no_last_reply_in_that_round(self, tmp_path: Path) -> None:
        steps: dict[int, Any] = {}
        strategy = RobustStrategy(MeanwO(f=2), buffer=Buffer(again=True), folder=tmp_path, **QUIET)
        grid = LocalGrid(clients(steps), 7)

        def spoil(turn: int, arrays: ArrayRecord) -> None:
            steps.update({5: make_record({"w": np.zeros(9, np.float32)})} if turn == 1 else {})

        strategy.start(grid, make_record(FIRST), num_rounds=2, evaluate_fn=spoil)
        second = read_journal(tmp_path)[1]
        assert list(second["refused"]) == ["5"]
        assert "5" not in _used(second)

    def test_a_killed_server_goes_on_with_the_replies_that_it_had(self, tmp_path: Path) -> None:
        def strategy() -> RobustStrategy:
            return RobustStrategy(MeanwO(f=2), buffer=Buffer(wait=6, again=True), folder=tmp_path, **QUIET)

        start(strategy(), LocalGrid(clients(), 7), 2)
        grid = Slow(clients(), 7, lambda node, turn: NEVER if node == 6 else 0)
        start(strategy(), grid, 3)
        third = read_journal(tmp_path)[2]
        assert (third["round"], third["age"], len(_used(third))) == (3, {"6": 1}, 7)


class TestTwoPhases:
    def test_who_is_still_busy_does_not_vote(self, tmp_path: Path) -> None:
        grid = Slow(clients(), 7, two_late)
        strategy = TwoPhaseStrategy(Mean2P(f=1), buffer=Buffer(wait=5), folder=tmp_path, **QUIET)
        assert np.isfinite(start(strategy, grid, 4)).all()
        lines = read_journal(tmp_path)
        assert [line["bad_votes"] for line in lines] == [{}] * 4
        for line, voters in zip(lines, grid.voters, strict=True):
            assert not {str(node) for node in voters} & set(line["late"])
            assert line["votes"] == len(voters)


def _bad(message: Message, **arrays: np.ndarray) -> Message:
    return Message(
        RecordDict({"arrays": make_record(arrays), "metrics": MetricRecord({"num-examples": 1})}), reply_to=message
    )


def _raise(_: Message) -> Message:
    raise RuntimeError("a disk is full")


LIES: dict[str, Callable[[Message], Any]] = {
    "nan": lambda message: _bad(message, w=np.full(3, np.nan, np.float32)),
    "inf": lambda message: _bad(message, w=np.array([1, np.inf, 1], np.float32)),
    "shape": lambda message: _bad(message, w=np.ones(10**6, np.float32)),
    "names": lambda message: _bad(message, v=np.ones(3, np.float32)),
    "more": lambda message: _bad(message, w=np.ones(3, np.float32), v=np.ones(3, np.float32)),
    "text": lambda message: _bad(message, w=np.array(["a", "b", "c"])),
    "empty": lambda message: Message(RecordDict(), reply_to=message),
    "error": _raise,
    "none": lambda message: None,
    "metrics": lambda message: Message(
        RecordDict({"arrays": make_record(FIRST), "m": MetricRecord({str(at): 1 for at in range(2000)})}),
        reply_to=message,
    ),
}


@pytest.mark.parametrize("kind", LIES)
@pytest.mark.parametrize("buffer", [Buffer(wait=4), Buffer(wait=4, again=True)], ids=["wait", "again"])
def test_what_a_liar_sends_is_refused_by_name_in_a_buffer_too(kind: str, buffer: Buffer, tmp_path: Path) -> None:
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        if context.node_id == 4:
            return LIES[kind](message)
        return _bad(message, w=read_model(message.content.array_records["arrays"])["w"] + np.float32(1))

    strategy = RobustStrategy(MeanwO(f=1), buffer=buffer, folder=tmp_path, **QUIET)
    assert start(strategy, Slow(app, 7, two_late), 10).tolist() == [10.0] * 3
    lines = read_journal(tmp_path)
    assert {node for line in lines for node in line["refused"]} == {"4"}
    assert not any("4" in _used(line) for line in lines)
    assert not any("skipped" in line for line in lines)


class TestRefusals:
    def test_a_buffer_that_waits_for_too_few(self) -> None:
        with pytest.raises(BadInput, match="needs 7 replies; wait for 7 or more"):
            RobustStrategy(MeanwO(f=3), buffer=Buffer(wait=5))

    def test_a_buffer_that_lets_quick_nodes_close_rounds_alone(self) -> None:
        with pytest.raises(BadInput, match="needs 5 replies; wait for 5 or more"):
            RobustStrategy(MeanwO(f=2), buffer=Buffer(wait=2, again=True))

    def test_a_vote_with_too_few_voters(self) -> None:
        with pytest.raises(BadInput, match="a vote needs 5 voters, and 2 may be silent, so wait for 7 or more"):
            TwoPhaseStrategy(Mean2P(f=2), buffer=Buffer(wait=6))

    def test_what_is_no_buffer(self) -> None:
        with pytest.raises(BadInput, match=r"it takes a Buffer, such as Buffer\(wait=14\)"):
            RobustStrategy(MeanwO(f=3), buffer=14)  # type: ignore[arg-type]

    def test_a_rule_without_a_weighted_form(self) -> None:
        with pytest.raises(NoWeightedForm, match="no weighted form; leave fade out"):
            RobustStrategy(MDA(f=2), buffer=Buffer(wait=8))
        assert RobustStrategy(MDA(f=2), buffer=Buffer(wait=8, fade=0)).buffer == Buffer(wait=8, fade=0)
        assert RobustStrategy(Medoid(), buffer=Buffer(wait=8)).buffer == Buffer(wait=8)

    def test_numbers_out_of_range(self) -> None:
        assert Buffer(fade=100.0).weights(np.array([2000, 2001])) == pytest.approx([1.0, (2001 / 2002) ** 100])
        with pytest.raises(BadInput, match="Buffer was given oldest = 10000000; it is at most 1e"):
            Buffer(oldest=10**7)
