"""Flower through nodes in this process: every rule, both strategies, and clients that do whatever they like."""

from __future__ import annotations

import inspect
import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAdam, FedAvg, FedProx

from holdfast import (
    CWM,
    CWTM,
    Average,
    BadInput,
    Ballot,
    Bulyan,
    CenteredClipping,
    Krum,
    Mean2P,
    MeanwO,
    Numeric,
    OuterMean,
    parse,
)
from holdfast.engines.flower import LocalGrid, RobustStrategy, TwoPhaseStrategy, apply_momentum, vote, wrap
from holdfast.engines.flower.replies import make_record, read_model
from holdfast.engines.flower.sampling import available, drawn, risk
from holdfast.journal import read_journal
from holdfast.report.nodes import nodes, summary, write
from tests.oracles import bulyan_picks

TARGETS = (np.random.default_rng(0).normal(size=(9, 6)) * 0.1 + 1).astype(np.float32)
Lie = Callable[[Message, Context, dict[str, np.ndarray]], Message]


def first() -> ArrayRecord:
    return make_record({"w": np.zeros(6, np.float32), "steps": np.array(0)})


def reply(message: Message, arrays: ArrayRecord, **metrics: Any) -> Message:
    told = MetricRecord({"num-examples": 1, "loss": 0.5} | metrics)
    return Message(RecordDict({"arrays": arrays, "metrics": told}), reply_to=message)


def honest(message: Message, context: Context) -> Message:
    """A step of gradient descent on |w - target|²/2."""
    model = read_model(message.content["arrays"])  # type: ignore[arg-type]
    target = TARGETS[int(context.node_config["partition-id"])]
    moved = {"w": model["w"] + np.float32(0.5) * (target - model["w"]), "steps": model["steps"] + 1}
    return reply(message, make_record(moved))


def app(lie: Lie | None = None, liars: int = 2, votes: bool = True, lying_vote: Any = None) -> ClientApp:
    """Nine clients, the last of which lie."""
    made = ClientApp()

    @made.train()
    def train(message: Message, context: Context) -> Message:
        if lie is not None and int(context.node_config["partition-id"]) >= 9 - liars:
            return lie(message, context, read_model(message.content["arrays"]))  # type: ignore[arg-type]
        return honest(message, context)

    @made.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        told = MetricRecord(
            {"num-examples": 1, "accuracy": 1e30 if int(context.node_config["partition-id"]) > 6 else 0.5}
        )
        return Message(RecordDict({"metrics": told}), reply_to=message)

    if votes and lying_vote is None:

        @vote(made)
        def loss(record: Any, context: Context) -> float:
            w = read_model(record)["w"]
            return float(np.square(w - TARGETS[int(context.node_config["partition-id"])]).sum())

    if lying_vote is not None:
        made.query("vote")(lying_vote)
    return made


def run(strategy: RobustStrategy, client: ClientApp, rounds: int = 8, **words: Any) -> np.ndarray:
    result = strategy.start(LocalGrid(client, 9), first(), num_rounds=rounds, **words)
    return read_model(result.arrays)["w"]


CENTRE = TARGETS[:7].mean(axis=0)


@pytest.mark.parametrize(
    "name",
    [
        "Average()", "CenterwO(f=2)", "MeanwO(f=2)", "MeanExact(f=2)", "CenterExact(f=2)",
        "NearestTo(CWTM(f=2))", "StreamCenterwO(f=2)", "CWM()", "CWTM(f=2)", "MeaMed(f=2)",
        "GeometricMedian()", "Medoid()", "Krum(f=2)", "MultiKrum(f=2)", "Bulyan(f=1)",
        "MDA(f=2)", "SMEA(f=2)", "CAF(f=2)", "DnC(f=2)", "CGE(f=2)",
        "CenteredClipping(tau=1.0)", "NormBoundedMean(tau=1.0)",
        "NNM(f=2) >> CWTM(f=2)", "Bucketing(s=2) >> CWM()",
    ],
)  # fmt: skip
def test_every_rule_is_a_strategy(name: str) -> None:
    assert np.abs(run(RobustStrategy(parse(name)), app()) - TARGETS.mean(axis=0)).max() < 0.4


def test_the_plain_mean_is_fedavg() -> None:
    ours = run(RobustStrategy(Average()), app(), rounds=3)
    theirs = FedAvg().start(LocalGrid(app(), 9), first(), num_rounds=3)
    np.testing.assert_allclose(ours, read_model(theirs.arrays)["w"], rtol=1e-5)


def _nan(message: Message, _: Context, model: dict[str, np.ndarray]) -> Message:
    return reply(message, make_record(model | {"w": np.full(6, np.nan, np.float32)}))


def _huge(message: Message, _: Context, model: dict[str, np.ndarray]) -> Message:
    return reply(message, make_record(model | {"w": np.full(6, 3e38, np.float32)}), **{"num-examples": 1e30})


def _shape(message: Message, _: Context, model: dict[str, np.ndarray]) -> Message:
    return reply(message, make_record(model | {"w": np.zeros(5, np.float32)}))


def _names(message: Message, _: Context, model: dict[str, np.ndarray]) -> Message:
    return reply(message, make_record({"v": model["w"], "steps": model["steps"]}))


def _dtype(message: Message, _: Context, model: dict[str, np.ndarray]) -> Message:
    return reply(message, make_record(model | {"steps": np.array(0.5)}))


def _text(message: Message, _: Context, model: dict[str, np.ndarray]) -> Message:
    return reply(message, make_record(model | {"w": np.array(list("abcdef"))}))


def _garbage(message: Message, _: Context, model: dict[str, np.ndarray]) -> Message:
    bad = Array(dtype="float32", shape=(6,), stype="numpy.ndarray", data=b"\x93NUMPY garbage")
    return reply(message, ArrayRecord({"w": bad, "steps": Array(model["steps"])}))


def _declared(message: Message, _: Context, model: dict[str, np.ndarray]) -> Message:
    """Says six numbers and sends a million."""
    real = Array(np.zeros(1_000_000, np.float32))
    bad = Array(dtype="float32", shape=(6,), stype="numpy.ndarray", data=real.data)
    return reply(message, ArrayRecord({"w": bad, "steps": Array(model["steps"])}))


def _smuggled(message: Message, _: Context, model: dict[str, np.ndarray]) -> Message:
    """Says six numbers and sends five."""
    bad = Array(dtype="float32", shape=(6,), stype="numpy.ndarray", data=Array(np.zeros(5, np.float32)).data)
    return reply(message, ArrayRecord({"w": bad, "steps": Array(model["steps"])}))


def _torch(message: Message, _: Context, model: dict[str, np.ndarray]) -> Message:
    bad = Array(dtype="float32", shape=(6,), stype="torch.tensor", data=b"")
    return reply(message, ArrayRecord({"w": bad, "steps": Array(model["steps"])}))


def _empty(message: Message, *_: Any) -> Message:
    return Message(RecordDict(), reply_to=message)


def _two(message: Message, _: Context, model: dict[str, np.ndarray]) -> Message:
    return Message(RecordDict({"a": make_record(model), "b": make_record(model)}), reply_to=message)


def _raises(*_: Any) -> Message:
    raise RuntimeError("boom")


def _far(message: Message, _: Context, model: dict[str, np.ndarray]) -> Message:
    return reply(message, make_record(model | {"w": model["w"] - 50}))


LIES: dict[str, tuple[Lie, str]] = {
    "nan": (_nan, "not finite"),
    "huge": (_huge, ""),
    "shape": (_shape, "of shape (5,)"),
    "names": (_names, "other arrays"),
    "dtype": (_dtype, "of type float64"),
    "text": (_text, "of type <U1"),
    "garbage": (_garbage, "cannot be read"),
    "declared": (_declared, "bytes for w"),
    "smuggled": (_smuggled, "of shape (5,)"),
    "torch": (_torch, "cannot be read"),
    "empty": (_empty, "0 array records"),
    "two": (_two, "2 array records"),
    "raises": (_raises, "boom"),
    "far": (_far, ""),
}


@pytest.mark.parametrize("kind", LIES)
@pytest.mark.parametrize("two", [False, True])
def test_no_client_stops_a_run(kind: str, two: bool, tmp_path: Path) -> None:
    lie, why = LIES[kind]
    strategy = TwoPhaseStrategy(Mean2P(2), folder=tmp_path) if two else RobustStrategy(MeanwO(2), folder=tmp_path)
    found = run(strategy, app(lie))
    assert np.abs(found - CENTRE).max() < 0.3
    lines = read_journal(tmp_path / "rounds.jsonl")
    assert len(lines) == 8
    for line in lines:
        assert "skipped" not in line
        if why:
            assert set(line["refused"]) == {"8", "9"}
            assert all(why in told for told in line["refused"].values())
        else:
            assert {"8", "9"} <= set(line["excluded"])


def test_num_examples_is_not_believed() -> None:
    def greedy(message: Message, _: Context, model: dict[str, np.ndarray]) -> Message:
        return reply(message, make_record(model | {"w": model["w"] - 50}), **{"num-examples": 1e30})

    assert np.abs(run(RobustStrategy(MeanwO(2)), app(greedy)) - CENTRE).max() < 0.3


@pytest.mark.parametrize("kind", ["raises", "empty", "text", "list", "nan"])
def test_bad_votes_change_nothing_beyond_their_own(kind: str, tmp_path: Path) -> None:
    def ballot(message: Message, context: Context) -> Message:
        node = int(context.node_config["partition-id"])
        told: Any = {"inner": 1.0, "outer": 2.0}
        if node >= 7:
            if kind == "raises":
                raise RuntimeError("boom")
            if kind == "empty":
                return Message(RecordDict(), reply_to=message)
            if kind == "list":
                told = {"inner": [1.0], "outer": 2.0}
            if kind == "nan":
                told = {"inner": float("nan"), "outer": float("nan")}
            if kind == "text":
                return Message(RecordDict({"vote": ConfigRecord({"inner": "a", "outer": "b"})}), reply_to=message)
        return Message(RecordDict({"vote": MetricRecord(told)}), reply_to=message)

    run(TwoPhaseStrategy(MeanwO(2), OuterMean(2), folder=tmp_path), app(lying_vote=ballot), rounds=2)
    for line in read_journal(tmp_path / "rounds.jsonl"):
        assert line["winner"] == "inner"
        assert line["votes"] == 7
        assert set(line["bad_votes"]) == {"8", "9"}


@pytest.mark.parametrize("election", [Ballot(proximal=0.25), Numeric(proximal=0.25)], ids=repr)
def test_a_proximal_margin_needs_the_clients_step_and_holds_outer_back(election: Any, tmp_path: Path) -> None:
    def ballot(message: Message, context: Context) -> Message:
        gain = MetricRecord({"inner": 1.0, "outer": 0.999})  # everybody says that Outer is a little better
        return Message(RecordDict({"vote": gain}), reply_to=message)

    with pytest.raises(BadInput, match=r"was given step = None; its margin needs step=, the clients' learning rate"):
        TwoPhaseStrategy(MeanwO(2), OuterMean(2), election)
    winners = {}
    for name, step in (("short", 1e-9), ("long", 1e9)):  # the margin is (c/γ) times the squared distance
        folder = tmp_path / name
        run(
            TwoPhaseStrategy(MeanwO(2), OuterMean(2), election, step=step, folder=folder),
            app(lying_vote=ballot),
            rounds=1,
        )
        winners[name] = [line["winner"] for line in read_journal(folder / "rounds.jsonl")]
    assert winners == {"short": ["inner"], "long": ["outer"]}


class Doubled(LocalGrid):
    """A grid on which the last node answers twice, and one that was not asked answers too."""

    def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Message]:
        replies = list(super().send_and_receive(messages, timeout=timeout))
        if not replies:
            return replies
        stranger = Message(content=RecordDict(), dst_node_id=77, message_type="train")
        return [*replies, replies[-1], Message(replies[-1].content, reply_to=stranger)]


def test_double_replies_and_strangers_count_once_and_not_at_all(tmp_path: Path) -> None:
    strategy = TwoPhaseStrategy(Mean2P(2), folder=tmp_path)
    strategy.start(Doubled(app(_far), 9), first(), num_rounds=2)
    for line in read_journal(tmp_path / "rounds.jsonl"):
        assert len(line["kept"]) + len(line["excluded"]) == 9
        assert line["refused"] == {"77": "was not asked"}
        assert line["votes"] == 9


class Silent(LocalGrid):
    """Some nodes never answer."""

    quiet: tuple[int, ...] = (3, 4)

    def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Message]:
        asked = [message for message in messages if message.metadata.dst_node_id not in self.quiet]
        return list(super().send_and_receive(asked, timeout=timeout))


def test_silent_nodes_are_named_and_not_asked_to_vote(tmp_path: Path) -> None:
    strategy = TwoPhaseStrategy(Mean2P(2), folder=tmp_path)
    result = strategy.start(Silent(app(), 9), first(), num_rounds=3)
    assert np.isfinite(read_model(result.arrays)["w"]).all()
    for line in read_journal(tmp_path / "rounds.jsonl"):
        assert line["silent"] == ["3", "4"]
        assert line["votes"] == 7
        assert line["no_vote"] == []


def test_exceptions_count_against_f_and_silence_does_not(tmp_path: Path) -> None:
    """Of nine nodes three fail, and MeanwO(f=2) needs five: what they do decides, not how many are left."""
    RobustStrategy(MeanwO(2), folder=tmp_path / "raise").start(
        LocalGrid(app(_raises, liars=3), 9), first(), num_rounds=1
    )
    (line,) = read_journal(tmp_path / "raise/rounds.jsonl")
    assert len(line["refused"]) == 3
    assert "3 were dropped" in line["skipped"]
    grid = Silent(app(), 9)
    grid.quiet = (7, 8, 9)
    RobustStrategy(MeanwO(2), folder=tmp_path / "silent").start(grid, first(), num_rounds=1)
    (line,) = read_journal(tmp_path / "silent/rounds.jsonl")
    assert line["silent"] == ["7", "8", "9"]
    assert "skipped" not in line


def test_a_round_with_too_few_is_skipped_and_keeps_the_model(tmp_path: Path) -> None:
    grid = Silent(app(), 9)
    grid.quiet = tuple(range(1, 8))
    result = RobustStrategy(MeanwO(2), folder=tmp_path).start(grid, first(), num_rounds=2)
    assert (read_model(result.arrays)["w"] == 0).all()
    assert all("was given n = 2" in line["skipped"] for line in read_journal(tmp_path / "rounds.jsonl"))


def test_too_few_nodes_are_not_waited_for_for_ever(tmp_path: Path) -> None:
    strategy = RobustStrategy(MeanwO(2), patience=600, folder=tmp_path)  # of a grid that cannot grow nobody waits
    result = strategy.start(LocalGrid(app(), 4), first(), num_rounds=2)
    assert (read_model(result.arrays)["w"] == 0).all()
    few = "4 nodes are connected, and MeanwO(f=2) needs 5; connect more nodes, or lower f to 1 at most"
    assert [line["skipped"] for line in read_journal(tmp_path / "rounds.jsonl")] == [few] * 2


def test_who_was_excluded_is_in_the_log_without_a_folder(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    caplog.set_level(logging.INFO)
    lie = next(lie for lie, why in LIES.values() if not why)
    run(RobustStrategy(MeanwO(2)), app(lie), rounds=1)
    assert f"round 1: excluded nodes 8 and 9 ({MeanwO(2).why})" in caplog.text


def test_what_goes_wrong_is_in_the_log_too(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)

    def broken(_: Message, __: Context) -> Message:
        raise KeyError("no such column")

    run(TwoPhaseStrategy(Mean2P(2)), app(lambda *_: 1 / 0, lying_vote=broken), rounds=1)  # type: ignore[arg-type]
    assert "node 8 failed: ZeroDivisionError" in caplog.text
    sent = ClientApp()

    @sent.train()
    def train(message: Message, context: Context) -> Message:
        return reply(message, make_record({"w": np.ones(3)}))

    TwoPhaseStrategy(Mean2P(2), fraction_evaluate=0.0).start(LocalGrid(sent, 6), make_record({"w": np.zeros(3)}), 1)
    assert "round 1: Inner is taken without a vote: 0 reports, fewer than 5; node 1 failed" in caplog.text
    run(RobustStrategy(OuterMean(2)), app(), rounds=1)
    assert "not meant to stand alone" in caplog.text
    run(RobustStrategy(MeanwO(2), fraction_train=0.3), app(), rounds=1)
    assert "2 of 9 nodes a round are too few: 5 are asked" in caplog.text


def test_a_journal_that_is_lost_ends_no_run(tmp_path: Path) -> None:
    def lose(at: int, _: ArrayRecord) -> None:
        if at == 2:
            shutil.rmtree(tmp_path / "gone")

    strategy = RobustStrategy(MeanwO(2), folder=tmp_path / "gone")
    assert np.abs(run(strategy, app(), evaluate_fn=lose) - CENTRE).max() < 0.3


def test_a_killed_server_goes_on_where_it_was(tmp_path: Path) -> None:
    seen: list[int] = []
    whole = run(RobustStrategy(MeanwO(2), folder=tmp_path / "whole"), app(_far), rounds=6)

    def stop(at: int, _: ArrayRecord) -> None:
        seen.append(at)
        if at == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(RobustStrategy(MeanwO(2), folder=tmp_path / "cut"), app(_far), rounds=6, evaluate_fn=stop)
    later: list[int] = []
    with (tmp_path / "cut" / "rounds.jsonl").open("a") as out:
        out.write('{"round": 4, "half')
    again = run(
        RobustStrategy(MeanwO(2), folder=tmp_path / "cut"), app(_far), 6, evaluate_fn=lambda at, _: later.append(at)
    )
    assert (again == whole).all()
    assert seen == [0, 1, 2, 3]
    assert later == [3, 4, 5, 6]
    rounds = [line["round"] for line in read_journal(tmp_path / "cut" / "rounds.jsonl")]
    assert rounds == [1, 2, 3, 4, 5, 6]


def test_a_first_round_that_was_not_saved_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "rounds.jsonl").write_text('{"round": 1}\n')
    run(RobustStrategy(MeanwO(2), folder=tmp_path), app(), rounds=2)
    assert [line["round"] for line in read_journal(tmp_path / "rounds.jsonl")] == [1, 2]


def test_a_state_of_another_model_is_refused(tmp_path: Path) -> None:
    run(RobustStrategy(MeanwO(2), folder=tmp_path), app(), rounds=1)
    with pytest.raises(BadInput, match="another model"):
        RobustStrategy(MeanwO(2), folder=tmp_path).start(LocalGrid(app(), 9), make_record({"w": np.zeros(3)}))
    (tmp_path / "state.npz").write_bytes(b"no")
    with pytest.raises(BadInput, match="remove it to begin anew"):
        run(RobustStrategy(MeanwO(2), folder=tmp_path), app(), rounds=1)


def test_evaluation_takes_the_middle_that_liars_cannot_move() -> None:
    result = RobustStrategy(MeanwO(2)).start(LocalGrid(app(), 9), first(), num_rounds=1)
    assert result.evaluate_metrics_clientapp[1]["accuracy"] == 0.5
    assert result.train_metrics_clientapp[1]["kept"] == 7.0
    assert 0 <= float(result.train_metrics_clientapp[1]["kappa"]) < 4  # type: ignore[arg-type]


def test_counters_take_the_middle_of_the_kept() -> None:
    result = RobustStrategy(MeanwO(2)).start(LocalGrid(app(), 9), first(), num_rounds=3)
    assert read_model(result.arrays)["steps"] == 3


def test_partial_participation_is_drawn_by_the_seed(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    for name in ("one", "two"):
        strategy = RobustStrategy(CWTM(1), fraction_train=0.5, min_train_nodes=5, folder=tmp_path / name, seed=3)
        run(strategy, app(), rounds=4)
    one, two = (read_journal(tmp_path / name / "rounds.jsonl") for name in ("one", "two"))
    assert [line["kept"] for line in one] == [line["kept"] for line in two]
    assert len({tuple(line["kept"]) for line in one}) > 1
    assert all(line["asked"] == 5 for line in one)
    assert "half of them with probability" in caplog.text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"min_available_node": 3}, "did you mean min_available_nodes"),
        ({"min_fit_clients": 3}, "did you mean min_train_nodes"),
        ({"fraction_fit": 0.5}, "did you mean fraction_train"),
        ({"banana": 1}, "it takes fraction_train, fraction_evaluate"),
    ],
)
def test_a_misspelt_or_old_option_is_answered_with_the_one_that_is_meant(given: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        RobustStrategy(MeanwO(1), **given)


def test_a_round_in_which_all_replies_are_refused_says_so(caplog: pytest.LogCaptureFixture) -> None:
    run(RobustStrategy(CWM()), app(_names, liars=9), rounds=1)
    assert "all 9 replies were refused (sent other arrays than it was sent: no '" in caplog.text
    assert "raise f" not in caplog.text


def test_too_few_nodes_name_the_f_that_would_do(caplog: pytest.LogCaptureFixture) -> None:
    RobustStrategy(MeanwO(3), min_train_nodes=12).start(LocalGrid(app(), 5), first(), num_rounds=1)
    assert "5 nodes are connected, and MeanwO(f=3) needs 7; connect more nodes, or lower f to 2 at most" in caplog.text


def test_the_risk_of_a_lying_half() -> None:
    assert [round(risk(35, 14, k), 2) for k in (5, 11, 21, 31)] == [0.31, 0.21, 0.07, 0.0]
    assert drawn([5, 6, 7], 0.1, 2, 0, 1) == drawn([5, 6, 7], 0.1, 2, 0, 1)
    assert drawn([], 1.0, 2, 0, 1) == []


def test_a_local_grid_tells_its_run() -> None:
    grid = LocalGrid(app(), 2)
    assert grid.run.run_id == 1
    grid.set_run(replace(grid.run, run_id=7))
    assert grid.run.run_id == 7


def test_nodes_that_come_late_are_waited_for() -> None:
    class Late(LocalGrid):
        asked = 0

        def get_node_ids(self) -> list[int]:
            self.asked += 1
            return list(range(1, 1 + min(9, 3 * self.asked)))

    grid: Grid = Late(app(), 9)
    assert len(available(grid, 5, 5.0)) == 6


@pytest.mark.parametrize("own", [FedAdam(eta=0.3), FedProx(proximal_mu=0.1), FedAvg()])
def test_strategies_of_flower_keep_their_optimiser_behind_a_rule(own: Any) -> None:
    start = make_record({"w": np.zeros(6, np.float32)})
    client = ClientApp()

    @client.train()
    def train(message: Message, context: Context) -> Message:
        model = read_model(message.content["arrays"])  # type: ignore[arg-type]
        if isinstance(own, FedProx):
            assert message.content["config"]["proximal-mu"] == 0.1
        node = int(context.node_config["partition-id"])
        moved = model["w"] - 50 if node > 6 else model["w"] + np.float32(0.5) * (TARGETS[node] - model["w"])
        return reply(message, make_record({"w": moved.astype(np.float32)}))

    result = wrap(own, MeanwO(2), fraction_evaluate=0.0).start(LocalGrid(client, 9), start, num_rounds=12)
    assert np.abs(read_model(result.arrays)["w"] - CENTRE).max() < 0.8


def test_worker_momentum_lives_in_the_context() -> None:
    context = Context(1, 1, {}, RecordDict(), {})
    ones = {"w": np.ones(3, np.float32)}
    assert apply_momentum(context, ones, 0.5)["w"].tolist() == [0.5] * 3
    assert apply_momentum(context, ones, 0.5)["w"].tolist() == [0.75] * 3
    assert np.isnan(apply_momentum(context, {"w": np.full(3, np.nan, np.float32)}, 0.5)["w"]).all()
    assert apply_momentum(context, ones, 0.5)["w"].tolist() == [0.875] * 3


def test_clipping_starts_from_the_last_aggregate() -> None:
    strategy = RobustStrategy(CenteredClipping(tau=0.5))
    run(strategy, app(), rounds=2)
    assert strategy.last is not None


def test_model_weights_with_a_large_offset_hide_nobody() -> None:
    """Float32 distances of weights choose liars (D04 of the peers); differences to the model do not."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=200_000).astype(np.float32)
    updates = (1e-5 * rng.normal(size=(10, base.size))).astype(np.float32)
    updates[8:] *= 3
    client = ClientApp()

    @client.train()
    def train(message: Message, context: Context) -> Message:
        model = read_model(message.content["arrays"])  # type: ignore[arg-type]
        return reply(message, make_record({"w": model["w"] + updates[int(context.node_config["partition-id"])]}))

    for rule in (Krum(2), MeanwO(2)):
        strategy = RobustStrategy(rule, fraction_evaluate=0.0)
        grid = LocalGrid(client, 10)
        list(strategy.configure_train(1, make_record({"w": base}), ConfigRecord(), grid))
        messages = strategy._messages(RecordDict({"arrays": make_record({"w": base})}), "train")
        _, told = strategy.aggregate_train(1, grid.send_and_receive(messages))
        assert told is not None
        assert told["excluded"] == (9.0 if rule == Krum(2) else 2.0)


@pytest.mark.parametrize("seed", range(5))
def test_bulyan_picks_one_after_the_other(seed: int) -> None:
    """Flower's own Bulyan takes the best θ at once, another rule (D01 of the peers' defects)."""
    X = np.random.default_rng(seed).normal(size=(15, 30))
    sent = ClientApp()

    @sent.train()
    def train(message: Message, context: Context) -> Message:
        return reply(message, make_record({"w": X[int(context.node_config["partition-id"])]}))

    strategy = RobustStrategy(Bulyan(f=3), fraction_evaluate=0.0)
    result = strategy.start(LocalGrid(sent, 15), make_record({"w": np.zeros(30)}), num_rounds=1)
    picked = X[bulyan_picks(X.astype(np.longdouble), 3)]
    beta, middle = len(picked) - 6, np.median(picked, axis=0)
    near = np.take_along_axis(picked, np.argsort(abs(picked - middle), axis=0, kind="stable")[:beta], axis=0)
    np.testing.assert_allclose(read_model(result.arrays)["w"], near.mean(axis=0), atol=1e-12)


def test_no_client_costs_a_collection_of_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower's own Bulyan collects once a client (D19): seconds a round."""
    import gc

    asked: list[int] = []
    monkeypatch.setattr(gc, "collect", lambda *_: asked.append(1))
    run(RobustStrategy(Bulyan(f=1)), app(), rounds=2)
    assert not asked


def test_a_lone_inner_is_refused() -> None:
    with pytest.raises(BadInput, match="give Inner and Outer"):
        TwoPhaseStrategy(MeanwO(2))


@pytest.mark.parametrize(
    ("version", "said"), [(None, "pip install -c constraints.txt '\\.\\[flower\\]'"), ("1.20.0", ">=1.41,<1.43")]
)
def test_without_a_fitting_flower_one_sentence_says_what_to_install(
    version: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.metadata import PackageNotFoundError

    from holdfast.engines.flower import version as module

    def told(_: str) -> str:
        if version is None:
            raise PackageNotFoundError
        return version

    monkeypatch.setattr(module, "version", told)
    with pytest.raises(ImportError, match=said):
        module.check()


def test_the_core_does_not_bring_flower_along() -> None:
    code = "import sys, holdfast; assert not any(name.startswith('flwr') for name in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_lines_are_plain_json(tmp_path: Path) -> None:
    run(TwoPhaseStrategy(Mean2P(2), folder=tmp_path), app(_nan), rounds=1)
    (line,) = (json.loads(text) for text in (tmp_path / "rounds.jsonl").read_text().splitlines())
    assert {"round", "asked", "kept", "excluded", "refused", "silent", "winner", "votes", "seconds", "bytes"} <= set(
        line
    )


def test_the_report_names_the_worst_nodes_first(tmp_path: Path) -> None:
    def moody(message: Message, context: Context, model: dict[str, np.ndarray]) -> Message:
        if int(context.node_config["partition-id"]) == 8:
            raise RuntimeError("<b>boom</b>")
        return _far(message, context, model)

    run(TwoPhaseStrategy(Mean2P(2), folder=tmp_path), app(moody), rounds=5)
    lines = read_journal(tmp_path)
    for line in lines:
        assert set(line["seconds"]) == set(line["bytes"]) == {"train", "vote"}
        assert line["bytes"]["vote"] == 2 * line["bytes"]["train"] > 0  # two models to each of the eight that sent one
    found = nodes(lines)
    assert [node.name for node in found[:2]] == ["9", "8"]
    assert [node.letters for node in found[:3]] == ["xxxxx", "fffff", "-----"]  # and an honest one, of eight with f = 2
    assert "boom" in found[0].why
    assert summary(lines).startswith("5 rounds, 0 skipped; elections won")
    write(lines, tmp_path / "nodes.html")
    page = (tmp_path / "nodes.html").read_text()
    assert "<b>boom" not in page
    assert page.count("<tr>") == 10


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(BadInput, match="is no journal"):
        read_journal(tmp_path / "other.jsonl")
    with pytest.raises(BadInput, match="missing does not exist; name a strategy's folder"):
        read_journal(tmp_path / "missing")


# The same training in Flower and in the simulator


class Digits:
    """Softmax regression on the digits, 35 workers with 46 images each; the last 14 send their step reversed."""

    def __init__(self) -> None:
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(labels))
        self.x = np.c_[images[order] / 16, np.ones(len(labels))].astype(np.float32)
        self.y = labels[order]

    def part(self, i: int, turn: int, many: int) -> tuple[np.ndarray, np.ndarray]:
        rows = i * 46 + np.random.default_rng((i, turn, many)).choice(46, many, replace=False)
        return self.x[rows], self.y[rows]

    def scores(self, model: np.ndarray, x: np.ndarray) -> np.ndarray:
        z = x @ model.reshape(65, 10)
        z = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(z / z.sum(axis=1, keepdims=True))

    def trained(self, i: int, model: np.ndarray, turn: int) -> np.ndarray:
        x, y = self.part(i, turn, 16)
        error = self.scores(model, x) - np.eye(10, dtype=np.float32)[y]
        step = (x.T @ error / np.float32(16)).ravel() * np.float32(0.5)
        return np.asarray(model + step if i >= 21 else model - step, np.float32)

    def loss(self, i: int, model: np.ndarray, turn: int) -> float:
        x, y = self.part(i, turn, 24)
        found = float(-np.log(self.scores(model, x)[np.arange(24), y] + 1e-9).mean())
        return -found if i >= 21 else found  # liars vote for the worse

    def accuracy(self, model: np.ndarray) -> float:
        return float((self.scores(model, self.x[1610:]).argmax(axis=1) == self.y[1610:]).mean())


def turn_of(message: Message) -> int:
    found: Any = message.content["config"]
    return int(found["server-round"])


@pytest.mark.parametrize("rule", [MeanwO(14), CWM(), Mean2P(14)])
def test_a_federation_of_35_with_14_liars_is_the_simulator(rule: Any) -> None:
    from holdfast.training import Run, train
    from holdfast.training.task import Functions

    digits, rounds = Digits(), 25
    task = Functions(
        workers=35,
        first=np.zeros(650, np.float32),
        update=lambda i, model, t: model - digits.trained(i, model, t + 1),
        loss=lambda i, model, t: digits.loss(i, model, t + 1),
        evaluation=lambda model: {"accuracy": digits.accuracy(model)},
    )
    simulated = train(Run(rule=rule, workers=35, rounds=rounds, lr=1.0, momentum=0.0, every=rounds), task=task)
    client = ClientApp()

    @client.train()
    def train_(message: Message, context: Context) -> Message:
        model = read_model(message.content["arrays"])["w"]  # type: ignore[arg-type]
        turn = turn_of(message)
        return reply(message, make_record({"w": digits.trained(int(context.node_config["partition-id"]), model, turn)}))

    @client.query("vote")
    def vote_(message: Message, context: Context) -> Message:
        node, told = int(context.node_config["partition-id"]), {}
        for name in ("inner", "outer"):
            model = read_model(message.content[name])["w"]  # type: ignore[arg-type]
            told[name] = digits.loss(node, model, turn_of(message))
        return Message(RecordDict({"vote": MetricRecord(dict(told))}), reply_to=message)

    strategy = (TwoPhaseStrategy if rule == Mean2P(14) else RobustStrategy)(rule, fraction_evaluate=0.0, certify=False)
    result = strategy.start(LocalGrid(client, 35), make_record({"w": np.zeros(650, np.float32)}), num_rounds=rounds)
    model = read_model(result.arrays)["w"]
    np.testing.assert_allclose(model, simulated.model, atol=1e-5)  # sums over rows of a matrix, and of a list of rows
    assert digits.accuracy(model) == simulated.accuracy
    if rule == CWM():  # nothing is added up: the same bits
        assert (model == simulated.model).all()
    if rule == Mean2P(14):
        assert simulated.accuracy > 0.7


def test_the_options_of_a_strategy_are_its_keywords() -> None:
    from holdfast.engines.flower.arguments import StrategyOptions

    parameters = inspect.signature(RobustStrategy.__init__).parameters.values()
    assert set(StrategyOptions.__annotations__) == {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
