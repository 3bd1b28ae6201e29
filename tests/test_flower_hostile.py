"""What one client can send to Flower's strategies: each of these once broke a round."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM, FedMedian, FedYogi, QFedAvg

from holdfast import CWM, CWTM, BadInput, Bucketing, Mean2P, MeanwO, MoNNA
from holdfast.engines.flower import (
    LocalGrid,
    RobustStrategy,
    TwoPhaseStrategy,
    apply_momentum,
    make_record,
    read_model,
    vote,
    wrap,
)
from holdfast.engines.flower.mailbox import Mailbox
from holdfast.engines.metrics import middles
from holdfast.journal import read_journal
from tests.children import PATIENCE

Model = dict[str, np.ndarray]
FIRST: Model = {"a": np.zeros(3, np.float32), "b": np.zeros(4, np.float32)}


def answered(message: Message, model: Model, **metrics: Any) -> Message:
    told = MetricRecord({"num-examples": 1} | metrics)
    return Message(RecordDict({"arrays": make_record(model), "metrics": told}), reply_to=message)


def clients(lie: Any = None, liars: tuple[int, ...] = (0,)) -> ClientApp:
    """Every client moves everything by one; the liars' replies go through `lie`."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        old = read_model(message.content.array_records["arrays"])
        new = {name: values + values.dtype.type(1) for name, values in old.items()}
        reply = answered(message, new)
        mine = int(context.node_config["partition-id"])
        return lie(message, new, mine) if lie is not None and mine in liars else reply

    @vote(app)
    def loss(arrays: ArrayRecord, context: Context) -> float:
        return float(abs(read_model(arrays)["a"] - 1).sum())

    return app


def end(strategy: RobustStrategy, app: ClientApp, first: Model = FIRST, nodes: int = 7, rounds: int = 2) -> Model:
    return read_model(strategy.start(LocalGrid(app, nodes), make_record(first), num_rounds=rounds).arrays)


QUIET: dict[str, Any] = {"fraction_evaluate": 0.0, "patience": 0.0}


@pytest.mark.parametrize("strategy", [RobustStrategy(CWTM(f=2), **QUIET), TwoPhaseStrategy(Mean2P(f=2), **QUIET)])
def test_the_order_of_a_clients_arrays_changes_nothing(strategy: RobustStrategy) -> None:
    def turned(message: Message, new: Model, _: int) -> Message:
        return answered(message, {name: new[name] for name in ("b", "a")})

    found = end(strategy, clients(turned))
    assert {name: values.tolist() for name, values in found.items()} == {"a": [2.0] * 3, "b": [2.0] * 4}


def test_models_of_torch_with_counters_go_on_after_the_first_round(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    state = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)).state_dict()
    app = ClientApp()

    @app.train()
    def train(message: Message, _: Context) -> Message:
        old = message.content.array_records["arrays"].to_torch_state_dict()
        told = MetricRecord({"num-examples": 1})
        new = {name: value + 1 for name, value in old.items()}
        return Message(RecordDict({"arrays": ArrayRecord(new), "metrics": told}), reply_to=message)

    for rounds in (2, 3):  # and after a restart
        strategy = RobustStrategy(MeanwO(f=1), folder=tmp_path, **QUIET)
        result = strategy.start(LocalGrid(app, 5), ArrayRecord(state), num_rounds=rounds)
        found = result.arrays.to_torch_state_dict()
        assert int(found["1.num_batches_tracked"]) == rounds
        assert found["1.num_batches_tracked"].shape == ()
    assert [line["refused"] for line in read_journal(tmp_path / "rounds.jsonl")] == [{}] * 3


def test_masks_are_part_of_a_model() -> None:
    first = {"a": np.zeros(2, np.float32), "mask": np.array([True, False])}
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        old = read_model(message.content.array_records["arrays"])
        lie = int(context.node_config["partition-id"]) == 0
        return answered(message, {"a": old["a"] + 1, "mask": ~old["mask"] if lie else old["mask"]})

    found = end(RobustStrategy(MeanwO(f=1), **QUIET), app, first)
    assert found["mask"].dtype == bool
    assert found["mask"].tolist() == [True, False]


class Shuffled(LocalGrid):
    """Replies come in an order of their own."""

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        return list(super().send_and_receive(messages, timeout=timeout))[::-1]


def test_who_answers_first_changes_nothing() -> None:
    rule, ends = Bucketing(s=2) >> CWM(), []

    def spread(message: Message, new: Model, mine: int) -> Message:
        return answered(message, {name: values + values.dtype.type(mine**2) for name, values in new.items()})

    for grid in (LocalGrid, Shuffled):
        app = clients(spread, tuple(range(7)))
        result = RobustStrategy(rule, **QUIET).start(grid(app, 7), make_record(FIRST), num_rounds=3)
        ends.append(read_model(result.arrays)["a"])
    assert (ends[0] == ends[1]).all()


@pytest.mark.parametrize("what", [None, "text", 10**400, "exit"])
def test_what_is_no_message_is_an_error_reply(what: Any, tmp_path: Path) -> None:
    def lie(message: Message, new: Model, _: int) -> Any:
        if what == "exit":
            raise SystemExit(3)
        return answered(message, new, loss=what) if isinstance(what, int) else what

    strategy = TwoPhaseStrategy(Mean2P(f=1), folder=tmp_path, **QUIET)
    assert (end(strategy, clients(lie))["a"] == 2).all()


def test_votes_beyond_all_numbers_are_the_worst() -> None:
    app = clients()
    app._registered_funcs.pop("query.vote")

    @app.query("vote")
    def answer(message: Message, _: Context) -> Message:
        return Message(RecordDict({"vote": MetricRecord({"inner": 1.0, "outer": 10**400})}), reply_to=message)

    assert (end(TwoPhaseStrategy(Mean2P(f=1), **QUIET), app)["a"] == 2).all()


def test_nobody_speaks_in_anothers_name(tmp_path: Path) -> None:
    def spoof(message: Message, new: Model, _: int) -> Message:
        reply = answered(message, {name: values + 100 for name, values in new.items()})
        reply.metadata.__dict__["_src_node_id"] = 3
        return reply

    end(RobustStrategy(MeanwO(f=1), folder=tmp_path, **QUIET), clients(spoof))
    assert all(
        list(line["excluded"]) == ["1"] and not line["silent"] for line in read_journal(tmp_path / "rounds.jsonl")
    )


def test_what_clients_say_is_cut_and_printable(tmp_path: Path) -> None:
    def lie(message: Message, _: Model, __: int) -> Message:
        return Message(Error(code=0, reason="\x1b]0;owned\x07" + "x" * 10**6), reply_to=message)

    end(RobustStrategy(MeanwO(f=1), folder=tmp_path, **QUIET), clients(lie))
    said = read_journal(tmp_path / "rounds.jsonl")[0]["refused"]["1"]
    assert len(said) <= 200
    assert said.isprintable()


def test_liars_that_alone_report_a_metric_do_not_make_it() -> None:
    assert middles([{"x": 1e30}] * 4 + [{"x": 0.5}] + [{}] * 4, f=4) == {}
    assert middles([{"x": 1e30}] * 2 + [{"x": 0.5}] * 3, f=2) == {"x": 0.5}


class Wire:
    """A link like Flower's: replies are fetched by the names of their questions, and some cannot be."""

    def __init__(self, app: ClientApp, nodes: int) -> None:
        self.inner = LocalGrid(app, nodes)
        self.waits: set[int] = set()
        self.breaks: set[int] = set()
        self.node: dict[str, int] = {}
        self.over = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        sent = list(messages)
        names = list(self.inner.push_messages(sent))
        self.node |= {name: int(message.metadata.dst_node_id) for name, message in zip(names, sent, strict=True)}
        return names

    def pull_messages(self, names: Iterable[str]) -> Iterable[Message]:
        (name,) = names
        if self.node[name] in self.waits:
            self.over.wait(PATIENCE)
        if self.node[name] in self.breaks:
            raise ValueError("a message that cannot be read")
        return self.inner.pull_messages([name])


def test_a_reply_that_breaks_the_reader_or_never_comes_holds_up_nobody(tmp_path: Path) -> None:
    wire: Any = Wire(clients(), 7)
    wire.breaks, wire.waits = {2}, {5}
    strategy = RobustStrategy(MeanwO(f=2), folder=tmp_path, **QUIET)
    result = strategy.start(wire, make_record(FIRST), num_rounds=2, timeout=6.0)  # the others reply much sooner
    wire.over.set()
    assert (read_model(result.arrays)["a"] == 2).all()
    for line in read_journal(tmp_path / "rounds.jsonl"):
        assert line["refused"] == {"2": "failed: sent what cannot be read (ValueError)"}
        assert line["silent"] == ["5"]


def test_a_mailbox_is_the_grid_otherwise() -> None:
    assert list(Mailbox(LocalGrid(clients(), 3)).get_node_ids()) == [1, 2, 3]


OPTIMISERS = [
    lambda: FedAdam(eta=0.1),
    lambda: FedYogi(eta=0.1),
    lambda: FedAvgM(server_momentum=0.9, server_learning_rate=0.5),
    lambda: FedAvg(),
]


@pytest.mark.parametrize("made", OPTIMISERS)
def test_a_killed_server_goes_on_with_its_optimisers_memory(made: Any, tmp_path: Path) -> None:
    first = FIRST | {"steps": np.array(0)}
    words = QUIET | {"fraction_train": 1.0}
    whole = end(wrap(made(), MeanwO(f=1), folder=tmp_path / "whole", **words), clients(), first, rounds=6)
    for rounds in (3, 6):
        halves = end(wrap(made(), MeanwO(f=1), folder=tmp_path / "halves", **words), clients(), first, rounds=rounds)
    assert all((whole[name] == halves[name]).all() and whole[name].dtype == first[name].dtype for name in first)
    assert int(whole["steps"]) == 6


def test_an_optimisers_step_that_is_not_finite_is_not_taken(tmp_path: Path) -> None:
    strategy = wrap(FedAdam(eta=1e300), MeanwO(f=1), folder=tmp_path, **QUIET)
    found = end(strategy, clients())
    assert all(np.isfinite(values).all() for values in found.values())
    assert [line["skipped"] for line in read_journal(tmp_path / "rounds.jsonl")] == [
        "the step leaves the range of floats"
    ] * 2


def test_a_wrapped_strategy_keeps_its_fractions_and_keys() -> None:
    strategy = wrap(FedAvg(fraction_train=0.5, arrayrecord_key="model", fraction_evaluate=0.0), MeanwO(f=1))
    assert (strategy.fraction_train, strategy.arrayrecord_key, strategy.fraction_evaluate) == (0.5, "model", 0.0)


def test_a_strategy_starts_anew_each_time() -> None:
    strategy = RobustStrategy(MeanwO(f=1), **QUIET)
    end(strategy, clients())
    assert (end(strategy, clients(), {"a": np.zeros(9, np.float32)})["a"] == 2).all()


def test_another_rule_on_the_same_folder_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    import logging

    logging.getLogger("flwr").propagate, before = True, logging.getLogger("flwr").propagate
    end(RobustStrategy(MeanwO(f=1), folder=tmp_path, **QUIET), clients(), rounds=1)
    end(RobustStrategy(CWTM(f=1), folder=tmp_path, **QUIET), clients(), rounds=2)
    logging.getLogger("flwr").propagate = before
    assert "the rounds before were by MeanwO(f=1), seed 0, these are by CWTM(f=1), seed 0" in caplog.text


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: RobustStrategy(Mean2P(f=1)), "use TwoPhaseStrategy"),
        (lambda: wrap(FedAvg(), Mean2P(f=1)), "wrap was given TwoPhase.* and no vote"),
        (lambda: wrap(FedAvg, MeanwO(f=1)), "the class FedAvg"),  # type: ignore[arg-type]
        (lambda: wrap(FedMedian(), MeanwO(f=1)), "FedMedian, which has a rule of its own"),
        (lambda: RobustStrategy("MeanwO(f=1)"), "the text 'MeanwO"),
        (lambda: TwoPhaseStrategy("Mean2P(f=1)"), "the text 'Mean2P"),
        (lambda: RobustStrategy(MeanwO(f=1), folder=3), "cannot be a journal's folder"),  # type: ignore[arg-type]
        (lambda: RobustStrategy(MeanwO(f=1)).start(LocalGrid(clients(), 3), [np.zeros(2)]), "pass an ArrayRecord"),  # type: ignore[arg-type]
        (lambda: RobustStrategy(MeanwO(f=1)).start(LocalGrid(clients(), 3), make_record({}), "2"), "is a whole number"),  # type: ignore[arg-type]
        (lambda: LocalGrid(clients(), "7"), "it is a number, 1 or more"),  # type: ignore[arg-type]
        (lambda: LocalGrid(10, clients()), "pass a ClientApp"),  # type: ignore[arg-type]
        (lambda: LocalGrid(clients(), 0), "1 or more"),
        (lambda: vote(lambda *_: 0.0), "write @vote"),  # type: ignore[arg-type]
        (lambda: apply_momentum(Context(1, 1, {}, RecordDict(), {}), np.zeros(2)), "arrays by name"),  # type: ignore[arg-type]
        (lambda: RobustStrategy(MeanwO), "it takes a rule"),
        (lambda: RobustStrategy(MoNNA(f=2, pivot=0)), "a server has none"),
        (lambda: TwoPhaseStrategy(MoNNA(f=2, pivot=0), MeanwO(f=2)), "a server has none"),
        (lambda: RobustStrategy(MeanwO(f=1), fraction_train=float("nan")), "from 0 to 1"),
        (lambda: RobustStrategy(MeanwO(f=1), fraction_evaluate=-1), "from 0 to 1"),
        (lambda: RobustStrategy(MeanwO(f=1), min_train_nodes=-3), "whole number"),
        (lambda: RobustStrategy(MeanwO(f=1), seed=1.5), "whole number"),  # type: ignore[arg-type]
        (lambda: RobustStrategy(MeanwO(f=1), patience=float("nan")), "number of seconds"),
        (lambda: TwoPhaseStrategy(Mean2P(f=1), vote_timeout=float("nan")), "number of seconds"),
        (lambda: RobustStrategy(MeanwO(f=1), folder=__file__), "cannot be a journal's folder"),
        (lambda: wrap(QFedAvg(0.1), MeanwO(f=1)), "wrap was given QFedAvg"),
        (lambda: wrap(RobustStrategy(MeanwO(f=1)), MeanwO(f=1)), "a strategy of Flower"),  # type: ignore[arg-type]
        (lambda: end(RobustStrategy(MeanwO(f=1)), clients(), {"a": np.array([np.nan])}), "not finite"),
        (lambda: apply_momentum(Context(1, 1, {}, RecordDict(), {}), {"w": np.zeros(2)}, beta=7), "beta = 7"),
    ],
)
def test_what_cannot_be_is_refused_at_once(make: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        make()
