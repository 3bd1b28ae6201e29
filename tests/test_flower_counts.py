"""Clients that count by what they declare: the weighted rule's answer, counts that lie, and counts that are none."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAdam, FedAvg

from holdfast import (
    CWM,
    CWTM,
    MDA,
    NNM,
    PTM,
    Average,
    BadInput,
    Bucketing,
    CenteredClipping,
    CenterwO,
    GeometricMedian,
    Mean2P,
    MeanwO,
    OuterMean,
    StreamCenterwO,
    TwoPhase,
    cap,
)
from holdfast.engines.flower import LocalGrid, RobustStrategy, TwoPhaseStrategy, make_record, read_model, vote, wrap
from holdfast.guarantees.bounds import bounds
from holdfast.journal import read_journal
from holdfast.masses import heaviest, whole_masses

KEY = "num-examples"
QUIET: dict[str, Any] = {"fraction_evaluate": 0.0}
WEIGHTED: dict[str, Any] = QUIET | {"weighted_by_key": KEY}
COUNTS = [500, 20, 80, 300, 200, 120, 40]
X = np.random.default_rng(0).normal(size=(7, 5))
DEVIATION = np.sqrt(np.square(X - X.mean(axis=0)).sum(axis=1).mean())


def clients(counts: Sequence[Any], rows: np.ndarray = X, liking: str = "inner") -> ClientApp:
    """Clients that send these vectors and declare these counts; a record that is given is sent in their place."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        at = int(context.node_config["partition-id"])
        told = counts[at]
        records = told if isinstance(told, dict) else {"metrics": MetricRecord({KEY: told, "loss": 0.5})}
        return Message(RecordDict({"arrays": make_record({"w": rows[at]}), **records}), reply_to=message)

    @vote(app)
    def loss(arrays: ArrayRecord, context: Context) -> float:
        near = float(np.square(read_model(arrays)["w"]).sum())
        return near if liking == "inner" else -near

    return app


def after(strategy: RobustStrategy, app: ClientApp, nodes: int = 7, rounds: int = 1) -> np.ndarray:
    first = make_record({"w": np.zeros(X.shape[1])})
    return read_model(strategy.start(LocalGrid(app, nodes), first, num_rounds=rounds).arrays)["w"]


def told(folder: Path) -> dict[str, Any]:
    (line,) = read_journal(folder / "rounds.jsonl")
    return line


@pytest.mark.parametrize(
    "rule", [MeanwO(2), CWTM(2), PTM(2), CWM(), GeometricMedian(), NNM(2) >> CWTM(2), CenterwO(2)], ids=repr
)
def test_the_answer_is_that_of_the_rule_under_its_cap(rule: Any, tmp_path: Path) -> None:
    f = 3 if rule in (CWM(), GeometricMedian()) else 2  # any minority, of a rule without f
    for name, share in (("default", None), ("given", 0.44)):
        wanted = rule.decide(X, weights=cap(COUNTS, f, share))
        found = after(RobustStrategy(rule, cap=share, folder=tmp_path / name, **WEIGHTED), clients(COUNTS))
        np.testing.assert_array_equal(found, wanted.value)
        line = told(tmp_path / name)
        assert line["masses"] == {str(at + 1): weight for at, weight in enumerate(wanted.masses.weights)}
        assert line["capped"] == {str(at + 1): COUNTS[at] for at in wanted.masses.capped} != {}
    plain = after(RobustStrategy(rule, **QUIET), clients(COUNTS))
    np.testing.assert_array_equal(plain, rule(X))
    assert rule == CWM() or np.abs(plain - found).max() > 1e-6  # the median, if any four of seven hold more than half
    np.testing.assert_array_equal(plain, after(RobustStrategy(rule, **WEIGHTED), clients([70] * 7)))


def test_without_a_cap_the_mean_is_fedavg() -> None:
    ours = after(RobustStrategy(Average(), cap="off", **WEIGHTED), clients(COUNTS))
    theirs = FedAvg(**QUIET).start(LocalGrid(clients(COUNTS), 7), make_record({"w": np.zeros(5)}), num_rounds=1)
    np.testing.assert_allclose(ours, read_model(theirs.arrays)["w"], rtol=1e-12)


def test_an_optimiser_sees_the_weighted_answer(tmp_path: Path) -> None:
    ends = []
    for key in (KEY, None):
        strategy = wrap(FedAdam(eta=0.1, **QUIET), MeanwO(2), weighted_by_key=key, folder=tmp_path / str(key))
        ends.append(after(strategy, clients(COUNTS)))
    assert np.abs(ends[0] - ends[1]).max() > 1e-6
    assert "masses" in told(tmp_path / KEY)
    assert "masses" not in told(tmp_path / "None")


NONE = "sent no num-examples that is a finite number, 0 or more"
TWICE = "sent num-examples 2 times, not once"
NO_COUNTS: dict[str, Any] = {
    "missing": {"metrics": MetricRecord({"loss": 0.5})},
    "no metrics": {},
    "negative": -1,
    "NaN": float("nan"),
    "infinite": float("inf"),
    "minus infinite": float("-inf"),
    "beyond all floats": 10**400,
    "a list": [5.0],
    "a text": {"metrics": MetricRecord({"loss": 0.5}), "config": ConfigRecord({KEY: "500"})},
    "twice": {"metrics": MetricRecord({KEY: 5}), "more": MetricRecord({KEY: 10**9})},
}


@pytest.mark.parametrize("two", [False, True], ids=["one phase", "two phases"])
@pytest.mark.parametrize("kind", NO_COUNTS)
def test_a_count_that_is_none_is_refused_by_name(kind: str, two: bool, tmp_path: Path) -> None:
    counts = [*COUNTS[:6], NO_COUNTS[kind]]
    words: dict[str, Any] = WEIGHTED | {"folder": tmp_path}
    strategy = TwoPhaseStrategy(Mean2P(2), **words) if two else RobustStrategy(MeanwO(2), **words)
    found = after(strategy, clients(counts), rounds=1)
    line = told(tmp_path)
    assert line["refused"] == {"7": TWICE if kind == "twice" else NONE}
    assert "skipped" not in line
    assert "7" not in line["masses"]
    np.testing.assert_array_equal(found, MeanwO(2)(X[:6], weights=cap(COUNTS[:6], 2)))


def test_a_count_that_is_none_counts_against_f_and_lowers_it(tmp_path: Path) -> None:
    few = [*COUNTS[:3], float("nan"), -1]
    after(RobustStrategy(MeanwO(2), folder=tmp_path / "few", **WEIGHTED), clients(few), nodes=5)
    assert "to MeanwO(f=1): 3 vectors remained" in told(tmp_path / "few")["note"]
    after(RobustStrategy(MeanwO(2), folder=tmp_path / "many", **WEIGHTED), clients([*COUNTS[:4], -1, -1, -1]))
    assert "3 were dropped" in told(tmp_path / "many")["skipped"]
    after(RobustStrategy(MeanwO(2), folder=tmp_path / "named", **QUIET, weighted_by_key="samples"), clients(COUNTS))
    line = told(tmp_path / "named")
    assert "skipped" in line
    assert set(line["refused"].values()) == {NONE.replace(KEY, "samples")}


def test_no_metric_is_needed_while_all_count_alike() -> None:
    odd = clients(list(NO_COUNTS.values())[:7])
    np.testing.assert_array_equal(after(RobustStrategy(MeanwO(2), **QUIET), odd), MeanwO(2)(X))


def test_who_declares_nothing_is_absent_and_has_no_vote(tmp_path: Path) -> None:
    counts = [*COUNTS[:6], 0]
    found = after(TwoPhaseStrategy(Mean2P(2), folder=tmp_path, **WEIGHTED), clients(counts))
    np.testing.assert_array_equal(found, MeanwO(2)(X[:6], weights=cap(COUNTS[:6], 2)))
    line = told(tmp_path)
    assert "7" not in [*line["kept"], *line["excluded"], *line["refused"], *line["no_vote"]]
    assert line["votes"] == 6
    after(RobustStrategy(MeanwO(2), folder=tmp_path / "nobody", **WEIGHTED), clients([0] * 7))
    assert told(tmp_path / "nobody")["skipped"].endswith("all declare num-examples = 0; send counts above 0.")


@pytest.mark.parametrize("lie", [10**9, 2**62, 1e300, 1.7e308])
@pytest.mark.parametrize("rule", [MeanwO(2), CWTM(2), PTM(2)], ids=repr)
def test_a_lying_count_moves_the_answer_no_more_than_the_constant(rule: Any, lie: float, tmp_path: Path) -> None:
    honest, far = slice(0, 5), np.sign(X.mean(axis=0))
    for at, scale in enumerate((0.3, 1.0, 2.0, 5.0, 1e6)):
        rows = np.vstack([X[honest], -scale * far + 0.1 * X[5:]])
        folder = tmp_path / str(at)
        moved = after(RobustStrategy(rule, folder=folder, **WEIGHTED), clients([*COUNTS[honest], lie, lie], rows))
        line = told(folder)
        assert {"6": lie, "7": lie}.items() <= line["capped"].items()
        mass: Any = whole_masses(np.array(list(line["masses"].values())))
        a = heaviest(mass, 2)
        assert a / mass.sum() <= min(4 / 7, (2 / 7 + 0.5) / 2) + 1e-9
        own = mass[honest] / mass[honest].sum()
        mean = own @ X[honest]
        variance = float(own @ np.square(X[honest] - mean).sum(axis=1))
        kappa: Any = bounds(type(rule)(int(a)), int(mass.sum()))["kappa"].ours
        assert np.square(moved - mean).sum() <= kappa.value * variance * (1 + 1e-9)


def test_the_same_lie_owns_fedavg() -> None:
    rows = np.vstack([X[:6], X[:6].mean(axis=0) - 100])
    first = make_record({"w": np.zeros(5)})
    theirs = FedAvg(**QUIET).start(LocalGrid(clients([*COUNTS[:6], 10**9], rows), 7), first, num_rounds=1)
    assert np.abs(read_model(theirs.arrays)["w"] - rows[6]).max() < 1e-3


def test_a_cap_that_is_off_lets_the_core_refuse_the_round(tmp_path: Path) -> None:
    strategy = RobustStrategy(MeanwO(2), folder=tmp_path, cap="off", **WEIGHTED)
    assert (after(strategy, clients([*COUNTS[:6], 10**9])) == 0).all()
    assert "of which the 2 heaviest workers hold 100%, and it needs less than half" in told(tmp_path)["skipped"]


def test_a_share_that_f_nodes_hold_anyway_makes_all_count_alike(tmp_path: Path) -> None:
    found = after(RobustStrategy(MeanwO(2), cap=0.1, folder=tmp_path, **WEIGHTED), clients(COUNTS))
    np.testing.assert_array_equal(found, MeanwO(2)(X))
    assert set(told(tmp_path)["masses"].values()) == {20.0}


def test_both_candidates_are_weighted_and_each_node_has_one_vote(tmp_path: Path) -> None:
    counts, masses = [*COUNTS[:6], 10**9], cap([*COUNTS[:6], 10**9], 2)
    for liking in ("inner", "outer"):
        folder = tmp_path / liking
        found = after(TwoPhaseStrategy(Mean2P(2), folder=folder, **WEIGHTED), clients(counts, X + 3, liking))
        line = told(folder)
        rule = {"inner": MeanwO(2), "outer": OuterMean(2)}[line["winner"]]
        np.testing.assert_array_equal(found, rule(X + 3, weights=masses))
        assert line["votes"] == 7
        assert abs(line["lead"]) <= 7
        assert line["capped"]["7"] == 10**9
    winners = {told(tmp_path / liking)["winner"] for liking in ("inner", "outer")}
    assert winners == {"inner", "outer"}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: RobustStrategy(MDA(2), **WEIGHTED), r"MDA\(f=2\) has no weighted form; leave weighted_by_key out"),
        (lambda: RobustStrategy(StreamCenterwO(2), **WEIGHTED), "StreamCenterwO.* has no weighted form"),
        (lambda: RobustStrategy(CenterwO(2, ties="all"), **WEIGHTED), "ties='all'.* has no weighted form"),
        (lambda: RobustStrategy(Bucketing(2) >> CWM(), **WEIGHTED), "has no weighted form"),
        (lambda: TwoPhaseStrategy(MeanwO(2), MDA(2), **WEIGHTED), r"MDA\(f=2\) has no weighted form"),
        (lambda: wrap(FedAvg(), MDA(2), weighted_by_key=KEY), r"MDA\(f=2\) has no weighted form"),
        (lambda: RobustStrategy(Average(), **WEIGHTED), r"Average\(\) has no f, so no cap"),
        (lambda: RobustStrategy(CenteredClipping(1.0), **WEIGHTED), "pass cap='off' if you vouch for the counts"),
        (lambda: RobustStrategy(MeanwO(2), cap=0.3), "cap was given without weighted_by_key"),
        (lambda: RobustStrategy(MeanwO(2), cap=0.5, **WEIGHTED), "between 0 and 1/2, None or 'off'"),
        (lambda: RobustStrategy(MeanwO(2), cap=float("nan"), **WEIGHTED), "between 0 and 1/2"),
        (lambda: RobustStrategy(MeanwO(2), cap=False, **WEIGHTED), "between 0 and 1/2"),
        (lambda: RobustStrategy(MeanwO(2), cap="none", **WEIGHTED), "between 0 and 1/2"),  # type: ignore[arg-type]
        (lambda: RobustStrategy(MeanwO(2), weighted_by_key=3), "it is the name of a metric or None"),  # type: ignore[arg-type]
        (lambda: RobustStrategy(MeanwO(2), weighted_by_key=""), "it is the name of a metric or None"),
    ],
)
def test_what_cannot_be_weighted_is_refused_when_it_is_built(make: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said) as refused:
        make()
    assert len(str(refused.value).splitlines()) == 1


def test_rules_with_a_weighted_form_are_taken() -> None:
    for rule in (MeanwO(14), PTM(2), CWM(), NNM(3) >> MeanwO(2)):
        RobustStrategy(rule, **WEIGHTED)
    TwoPhaseStrategy(TwoPhase(CWM(), OuterMean(2)), **WEIGHTED)
    RobustStrategy(Average(), cap="off", **WEIGHTED)


def test_a_restart_that_weighs_otherwise_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    after(RobustStrategy(MeanwO(2), folder=tmp_path, **QUIET), clients(COUNTS))
    after(RobustStrategy(MeanwO(2), folder=tmp_path, **WEIGHTED), clients(COUNTS), rounds=2)
    assert "these are by MeanwO(f=2), seed 0, weighted by num-examples, cap by default" in caplog.text
