"""What one site can send to NVFlare's controller and aggregator, and what the server makes of it."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("nvflare")

from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType
from nvflare.app_common.decomposers import numpy_decomposers
from nvflare.app_common.utils.fl_model_utils import FLModelUtils
from nvflare.fuel.utils import fobs

from holdfast import CWTM, BadInput, Mean2P, MeanwO, MissingExtra, MoNNA, OuterMean, TwoPhase
from holdfast.elections import Numeric
from holdfast.engines.counts import Counts
from holdfast.engines.nvflare import RobustAggregator, RobustController, answer_vote, make_job
from holdfast.engines.nvflare.server import JobStopped, Server, TwoPhaseServer
from holdfast.journal import read_journal

Model = dict[str, np.ndarray]
FIRST: Model = {
    "w": np.zeros((2, 3), np.float32),
    "b": np.zeros(4),
    "steps": np.array(7),
    "mask": np.array([True, False]),
}
SITES = [f"site-{at}" for at in range(1, 8)]
LIAR = "site-7"
COUNT = "NUM_STEPS_CURRENT_ROUND"
RULE = MeanwO(f=2)
log = logging.getLogger("holdfast.test")


def trained(old: Model) -> dict[str, Any]:
    """What honest sites learn: everything moves by one."""
    return {name: values if values.dtype == bool else values + values.dtype.type(1) for name, values in old.items()}


def reply(params: Any, kind: Any = DataKind.WEIGHTS, **meta: Any) -> Shareable:
    return DXO(kind, data=params, meta={COUNT: 10, **meta}).to_shareable()


def forged(content: Any = None, **parts: Any) -> Shareable:
    """A reply that NVFlare's own classes would not build."""
    made = reply({"w": np.zeros(1)})
    made["DXO"] = made["DXO"] | parts if content is None else content
    return made


def sent(value: Shareable) -> Shareable:
    """The reply as it comes over the wire."""
    numpy_decomposers.register()
    return fobs.loads(fobs.dumps(value))


Lie = Callable[[FLModel], Any]


class Link:
    """Sites in this process; the last one lies."""

    def __init__(self, lie: Lie | None = None, vote: Lie | None = None) -> None:
        self.lie, self.vote, self.tasks = lie, vote, list[str]()

    def __call__(self, task: str, model: FLModel, sites: list[str], timeout: float) -> Iterator[tuple[str, object]]:
        self.tasks.append(task)
        for site in sites:
            lie = self.vote if task == "vote" else self.lie
            if site == LIAR and lie is not None:
                answers = lie(model)
                yield from ((site, answer) for answer in (answers if isinstance(answers, list) else [answers]))
                continue
            vote = answer_vote(model, lambda arrays: float(abs(arrays["b"] - 1).sum()))
            yield site, sent(FLModelUtils.to_shareable(vote) if vote else reply(trained(model.params)))


def server(link: Link, rule: Any = RULE, folder: Path | None = None, **more: Any) -> Server:
    kind = TwoPhaseServer if isinstance(rule, TwoPhase) else Server
    counts = Counts(more.pop("weighted_by_key", None))
    made = kind(rule, counts, folder=folder, certify=True, measure=None, seed=0, log=log)
    made.link = link
    if isinstance(made, TwoPhaseServer):
        made.step = 1.0
    return made


def play(link: Link, folder: Path, rounds: int = 2, **more: Any) -> tuple[Model, list[dict[str, Any]]]:
    """The model after some rounds, and the journal."""
    made = server(link, folder=folder, **more)
    for turn in made.begin({name: values.copy() for name, values in FIRST.items()}, rounds):
        made.play(turn, SITES)
    return made.model, read_journal(folder)


def is_right(model: Model, rounds: int = 2) -> bool:
    """Whether the model is what the honest sites learned, to the bit."""
    return (
        (model["w"] == rounds).all()
        and (model["b"] == rounds).all()
        and int(model["steps"]) == 7 + rounds
        and model["mask"].tolist() == [True, False]
        and all(model[name].dtype == FIRST[name].dtype for name in FIRST)
    )


def spoiled(name: str, values: Any) -> Lie:
    return lambda model: reply({**trained(model.params), name: values})


class Broken:
    """An object of a hostile sender."""

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise RuntimeError("never called")


REFUSED: dict[str, tuple[Lie, str]] = {
    "nan": (spoiled("w", np.full((2, 3), np.nan, np.float32)), "not finite"),
    "infinite": (spoiled("b", np.full(4, np.inf)), "not finite"),
    "wrong shape": (spoiled("w", np.zeros((3, 2), np.float32)), "shape (3, 2), not (2, 3)"),
    "one number more": (spoiled("b", np.zeros(5)), "shape (5,), not (4,)"),
    "complex": (spoiled("b", np.zeros(4, complex)), "type complex128"),
    "text": (spoiled("b", "x" * 1_000_000), "sent b as str"),
    "array of text": (spoiled("b", np.array(["a"] * 4)), "type <U1"),
    "objects": (spoiled("b", np.array([{}, [], None, 1], dtype=object)), "type object"),
    "an object": (spoiled("b", Broken()), "sent b as Broken"),
    "a list": (spoiled("b", [0.0] * 4), "sent b as list"),
    "floats for integers": (spoiled("steps", np.array(8.5)), "type float64, not int64"),
    "integers for floats": (spoiled("b", np.zeros(4, int)), "type int64, not float64"),
    "no arrays": (lambda _: reply({}), "no 'b'"),
    "other names": (lambda model: reply({f"x{name}": values for name, values in model.params.items()}), "no 'b'"),
    "a name more": (lambda model: reply({**trained(model.params), "x": np.zeros(1)}), "5, where the model has 4"),
    "names that are numbers": (lambda model: reply(dict(enumerate(model.params.values()))), "not arrays by name"),
    "an array alone": (lambda _: forged(data=np.zeros(3)), "cannot be read (ValueError)"),
    "settings that are a list": (lambda _: forged(meta=[1]), "cannot be read"),
    "content that is text": (lambda _: forged("x" * 10**6), "cannot be read (ValueError)"),
    "metrics alone": (lambda _: reply({"loss": 1.0}, DataKind.METRICS), "neither a model nor a difference"),
    "a collection": (lambda model: reply(trained(model.params), DataKind.COLLECTION), "neither a model nor"),
    "another kind": (lambda model: reply(trained(model.params), "x" * 10**6), "sent xxx"),
    "an exception": (lambda _: make_reply(ReturnCode.EXECUTION_EXCEPTION), "failed: EXECUTION_EXCEPTION"),
    "a long failure": (lambda _: make_reply("\x1b[2J" + "x" * 10**6), "failed: ?[2J"),
    "nothing": (lambda _: Shareable(), "cannot be read (ValueError)"),
    "no reply": (lambda _: None, "sent NoneType"),
    "many metrics": (
        lambda model: reply(trained(model.params), initial_metrics={str(at): 1.0 for at in range(100_000)}),
        "sent 100000 metrics, more than 1000",
    ),
    "metrics that are a list": (
        lambda model: reply(trained(model.params), initial_metrics=[1.0]),
        "metrics of type list",
    ),
    "many settings": (
        lambda model: reply(trained(model.params), **{f"x{at}": 1 for at in range(10_000)}),
        "more than 1000 settings",
    ),
    "a difference with nan": (
        lambda model: reply(
            {n: np.full(v.shape, np.nan) if v.dtype.kind == "f" else v * 0 for n, v in model.params.items()},
            DataKind.WEIGHT_DIFF,
        ),
        "not finite",
    ),
    "a difference of floats for integers": (
        lambda model: reply({n: np.full(v.shape, 0.5) for n, v in model.params.items()}, DataKind.WEIGHT_DIFF),
        "difference of steps of type float64, not int64",
    ),
    "a difference of complex numbers": (
        lambda model: reply({n: np.zeros(v.shape, complex) for n, v in model.params.items()}, DataKind.WEIGHT_DIFF),
        "difference of w of type complex128",
    ),
}


@pytest.mark.parametrize("rule", [MeanwO(f=2), Mean2P(f=2)], ids=["one phase", "two phases"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_reply_that_is_not_sound_is_refused_by_name(name: str, rule: Any, tmp_path: Path) -> None:
    lie, why = REFUSED[name]
    link = Link(lie)
    model, lines = play(link, tmp_path, rule=rule)
    assert is_right(model)
    for line in lines:
        assert list(line["refused"]) == [LIAR]
        assert why in line["refused"][LIAR]
        assert len(line["refused"][LIAR]) <= 200
        assert line["refused"][LIAR].isprintable()
    assert len(lines) == 2


KEPT_OR_EXCLUDED: dict[str, Lie] = {
    "far": lambda model: reply({n: v if v.dtype == bool else v + v.dtype.type(100) for n, v in model.params.items()}),
    "huge": lambda model: reply({**trained(model.params), "w": np.full((2, 3), 3e38, np.float32)}),
    "a whole model that is called a difference": lambda model: reply(
        {n: v.astype(np.int8) if v.dtype == bool else v + v.dtype.type(50) for n, v in model.params.items()},
        DataKind.WEIGHT_DIFF,
    ),
    "a difference that is called a model": lambda model: reply(
        {n: v if v.dtype == bool else np.full_like(v, -60) for n, v in model.params.items()}
    ),
    "float64 for float32": lambda model: reply({**trained(model.params), "w": np.full((2, 3), 1e30)}),
    "a metric of a megabyte": lambda model: reply(trained(model.params), initial_metrics={"loss": "x" * 10**6}),
    "a count of 1e300": lambda model: reply(trained(model.params), **{COUNT: 1e300}),
}


@pytest.mark.parametrize("rule", [MeanwO(f=2), Mean2P(f=2)], ids=["one phase", "two phases"])
@pytest.mark.parametrize("name", KEPT_OR_EXCLUDED)
def test_a_sound_lie_moves_nothing(name: str, rule: Any, tmp_path: Path) -> None:
    model, lines = play(Link(KEPT_OR_EXCLUDED[name]), tmp_path, rule=rule)
    assert is_right(model)
    assert all(line["refused"] == {} for line in lines)


def keyed(key: Any, value: Any = 1.0) -> Callable[[FLModel], Shareable]:
    return lambda model: reply(trained(model.params), initial_metrics={key: value})


ODD_METRICS: dict[str, Callable[[FLModel], Shareable]] = {
    "a model as a name, over the wire": lambda model: sent(keyed(FLModel(params=np.zeros(2)))(model)),
    "a large number as a name": keyed(10**5000),
    "nothing as a name": keyed(None),
    "no time": keyed("loss", np.timedelta64("NaT", "D")),
    "four seconds": keyed("loss", np.timedelta64(4, "s")),
}


@pytest.mark.parametrize("rule", [MeanwO(f=2), Mean2P(f=2)], ids=["one phase", "two phases"])
@pytest.mark.parametrize("name", ODD_METRICS)
def test_a_metric_with_an_odd_name_or_value_ended_the_job(name: str, rule: Any, tmp_path: Path) -> None:
    model, lines = play(Link(ODD_METRICS[name]), tmp_path, rule=rule)
    assert is_right(model)
    assert [line["refused"] for line in lines] == [{}, {}]


def test_an_odd_name_among_the_settings_ended_the_job(tmp_path: Path) -> None:
    def odd(model: FLModel) -> Shareable:
        made = reply(trained(model.params))
        made["DXO"]["meta"][FLModel(params=np.zeros(2))] = 1.0
        return sent(made)

    model, lines = play(Link(odd), tmp_path, weighted_by_key=COUNT)
    assert is_right(model)
    assert [line["refused"] for line in lines] == [{}, {}]


@pytest.mark.parametrize("task", ["train", "vote"])
def test_a_value_with_code_of_its_own_ended_the_job(task: str, tmp_path: Path) -> None:
    class Bomb(float):
        def __float__(self) -> float:
            raise RuntimeError("boom")

    class Key:
        def __hash__(self) -> int:
            return hash("inner")

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("boom")

    link = (
        Link(vote=lambda _: reply({Key(): 1.0}, DataKind.METRICS)) if task == "vote" else Link(keyed("loss", Bomb(1.0)))
    )
    model, lines = play(link, tmp_path, rule=Mean2P(f=2))
    assert is_right(model)
    said = [(line["bad_votes"] if task == "vote" else line["refused"])[LIAR] for line in lines]
    assert all("cannot be read (RuntimeError)" in why for why in said)


def test_a_tensor_without_content_ended_the_job(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    model, lines = play(Link(spoiled("b", torch.nn.UninitializedParameter())), tmp_path)
    assert is_right(model)
    assert all("sent b as UninitializedParameter" in line["refused"][LIAR] for line in lines)


def test_differences_and_models_mean_the_same(tmp_path: Path) -> None:
    def difference(model: FLModel) -> Shareable:
        steps = {n: np.zeros(v.shape, np.int8) if v.dtype == bool else np.ones_like(v) for n, v in model.params.items()}
        return sent(reply(steps, DataKind.WEIGHT_DIFF))

    model, lines = play(Link(difference), tmp_path)
    assert is_right(model)
    assert all(line["refused"] == {} and "far" in line and not line["far"] for line in lines)


def test_a_silent_site_is_named_and_no_fault(tmp_path: Path) -> None:
    model, lines = play(Link(lambda _: []), tmp_path)
    assert is_right(model)
    assert all(line["silent"] == [LIAR] for line in lines)


def test_the_first_of_two_replies_counts(tmp_path: Path) -> None:
    def twice(model: FLModel) -> list[Shareable]:
        return [reply(trained(model.params)), reply({n: np.full(v.shape, np.nan) for n, v in model.params.items()})]

    model, lines = play(Link(twice), tmp_path)
    assert is_right(model)
    assert all(line["refused"] == {} for line in lines)


def test_a_round_is_skipped_if_more_than_f_replies_are_refused(tmp_path: Path) -> None:
    class Worse(Link):
        def __call__(self, task: str, model: FLModel, sites: list[str], timeout: float) -> Iterator[tuple[str, object]]:
            return iter([(site, make_reply(ReturnCode.EXECUTION_EXCEPTION)) for site in sites[:3]])

    made = server(Worse(), folder=tmp_path)
    (turn,) = made.begin(dict(FIRST), 1)
    assert made.play(turn, SITES) == {"skipped": 1.0}
    assert made.model["b"].tolist() == [0.0] * 4
    (line,) = read_journal(tmp_path)
    assert "all 3 replies were refused (failed: EXECUTION_EXCEPTION)" in line["skipped"]


def test_too_few_sites_are_told_which_f_would_do(tmp_path: Path) -> None:
    made = server(Link(), folder=tmp_path)
    (turn,) = made.begin(dict(FIRST), 1)
    assert "skipped" in made.play(turn, SITES[:3])
    assert made.link.tasks == []  # type: ignore[attr-defined]
    (line,) = read_journal(tmp_path)
    assert (
        line["skipped"] == "3 sites are connected, and MeanwO(f=2) needs 5; connect more sites, or lower f to 1 at most"
    )


BAD_VOTES: dict[str, tuple[Lie, str]] = {
    "nan": (lambda _: reply({"inner": float("nan"), "outer": float("nan")}, DataKind.METRICS), "no finite loss"),
    "lists": (lambda _: reply({"inner": [1.0], "outer": 2.0}, DataKind.METRICS), "no pair of losses"),
    "one": (lambda _: reply({"inner": 1.0}, DataKind.METRICS), "no pair of losses"),
    "a model": (lambda model: reply(dict(model.params)), "no pair of losses"),
    "many": (lambda _: reply({str(at): 1.0 for at in range(10**5)}, DataKind.METRICS), "no pair of losses"),
    "an exception": (lambda _: make_reply(ReturnCode.EXECUTION_EXCEPTION), "failed: EXECUTION_EXCEPTION"),
}


@pytest.mark.parametrize("election", [None, Numeric()], ids=["ballot", "numeric"])
@pytest.mark.parametrize("name", BAD_VOTES)
def test_a_bad_vote_is_named_and_changes_nothing(name: str, election: Any, tmp_path: Path) -> None:
    lie, why = BAD_VOTES[name]
    rule = TwoPhase(MeanwO(f=2), OuterMean(f=2), election) if election else Mean2P(f=2)
    model, lines = play(Link(vote=lie), tmp_path, rule=rule)
    assert is_right(model)
    for line in lines:
        assert why in line["bad_votes"][LIAR]
        assert line["votes"] == 6


def test_an_infinite_integer_is_the_worst_loss(tmp_path: Path) -> None:
    _, lines = play(
        Link(vote=lambda _: reply({"inner": 1.0, "outer": 10**400}, DataKind.METRICS)), tmp_path, rule=Mean2P(f=2)
    )
    assert all(line["votes"] == 7 for line in lines)


def test_counts_are_capped(tmp_path: Path) -> None:
    def far(model: FLModel) -> Shareable:
        moved = {n: v if v.dtype == bool else v + v.dtype.type(9) for n, v in model.params.items()}
        return reply(moved, **{COUNT: 1e30})

    model, lines = play(Link(far), tmp_path / "lie", rule=MeanwO(f=2), weighted_by_key=COUNT)
    assert is_right(model)
    assert all(list(line["capped"]) == [LIAR] for line in lines)


@pytest.mark.parametrize("count", [float("nan"), -1, "10", None, [1]], ids=repr)
def test_a_count_that_is_none_is_refused(count: Any, tmp_path: Path) -> None:
    link = Link(lambda model: reply(trained(model.params), **{COUNT: count}))
    _, lines = play(link, tmp_path, weighted_by_key=COUNT)
    assert all("NUM_STEPS_CURRENT_ROUND that is a finite number" in line["refused"][LIAR] for line in lines)


def test_a_count_that_was_sent_twice_was_called_missing(tmp_path: Path) -> None:
    link = Link(lambda model: reply(trained(model.params), initial_metrics={COUNT: 10}))
    model, lines = play(link, tmp_path, weighted_by_key=COUNT)
    assert is_right(model)
    assert all(line["refused"] == {LIAR: "sent NUM_STEPS_CURRENT_ROUND 2 times, not once"} for line in lines)


def test_a_killed_server_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    def drawn(model: FLModel) -> Shareable:
        return reply({n: v if v.dtype == bool else v + v.dtype.type(3) for n, v in model.params.items()})

    whole, _ = play(Link(drawn), tmp_path / "whole", rounds=4, rule=CWTM(f=2))
    play(Link(drawn), tmp_path / "parts", rounds=2, rule=CWTM(f=2))
    parts, lines = play(Link(drawn), tmp_path / "parts", rounds=4, rule=CWTM(f=2))
    assert [line["round"] for line in lines] == [1, 2, 3, 4]
    assert all((whole[name] == parts[name]).all() for name in whole)


def test_a_state_of_another_precision_was_taken_silently(tmp_path: Path) -> None:
    play(Link(), tmp_path, rounds=1)
    with pytest.raises(BadInput, match="holds the state of another model than the first model; name another folder"):
        server(Link(), folder=tmp_path).begin({**FIRST, "w": FIRST["w"].astype(np.float64)}, 2)


@pytest.mark.parametrize("task", ["train", "vote"])
def test_a_round_in_which_the_job_was_stopped_was_written_as_skipped(task: str, tmp_path: Path) -> None:
    class Stopped(Link):
        def __call__(self, sent: str, model: FLModel, sites: list[str], timeout: float) -> Iterator[tuple[str, object]]:
            if sent == task and model.current_round == 1:
                raise JobStopped
            return super().__call__(sent, model, sites, timeout)

    with pytest.raises(JobStopped):
        play(Stopped(), tmp_path, rule=Mean2P(f=2))
    model, lines = play(Link(), tmp_path, rule=Mean2P(f=2))
    assert is_right(model)
    assert [line["round"] for line in lines] == [1, 2]


def test_every_honest_round_has_a_certificate(tmp_path: Path) -> None:
    _, lines = play(Link(), tmp_path)
    assert all("kappa" in line for line in lines)


class Workspace:
    """The engine of a server, as far as its workspace."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get_workspace(self) -> Workspace:
        return self

    def get_run_dir(self, job: str) -> str:
        return str(self.folder / job)


def started(made: RobustAggregator, folder: Path, job: str = "job-1") -> FLContext:
    """The context in which a server has begun a job."""
    context = FLContext()
    context.get_engine = lambda: Workspace(folder)
    context.get_job_id = lambda: job
    made.handle_event(EventType.START_RUN, context)
    return context


class TestAggregator:
    def filled(
        self, lie: Lie | None, run: Path | None = None, job: str = "job-1", **options: Any
    ) -> tuple[RobustAggregator, FLModel]:
        made = RobustAggregator(MeanwO(f=2), **options)
        context = started(made, run, job) if run else FLContext()
        before = FLModel(ParamsType.FULL, {name: values.copy() for name, values in FIRST.items()})
        context.set_prop(AppConstants.TRAIN_SHAREABLE, FLModelUtils.to_shareable(before))
        made.handle_event(AppEventType.BEFORE_TRAIN_TASK, context)
        made.reset_stats()
        for site, answer in Link(lie)("train", before, SITES, 1.0):
            model = FLModelUtils.from_shareable(answer)
            model.meta["client_name"] = site
            made.accept_model(model)
        return made, before

    def test_it_steps_where_the_rule_leads(self, tmp_path: Path) -> None:
        made, before = self.filled(REFUSED["nan"][0], tmp_path, folder="holdfast")
        after = FLModelUtils.update_model(before, made.aggregate_model())
        assert is_right(after.params, 1)
        (line,) = read_journal(tmp_path / "job-1" / "holdfast")
        assert list(line["refused"]) == [LIAR]

    def test_the_folder_was_made_where_the_job_was_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        RobustAggregator(MeanwO(f=2), folder="holdfast")
        assert not list(tmp_path.iterdir())

    def test_a_second_job_wrote_the_same_rounds_again(self, tmp_path: Path) -> None:
        for job in ("job-1", "job-2"):
            made, _ = self.filled(None, tmp_path, job, folder=str(tmp_path / "kept"))
            made.aggregate_model()
        assert [line["round"] for line in read_journal(tmp_path / "kept")] == [1]
        assert len((tmp_path / "kept" / "rounds-set-aside.jsonl").read_text().splitlines()) == 1

    def test_a_folder_of_a_controller_ends_the_job(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        play(Link(), tmp_path / "kept", rounds=1)
        said: list[str] = []
        monkeypatch.setattr(RobustAggregator, "system_panic", lambda _, reason, __: said.append(reason))
        started(RobustAggregator(MeanwO(f=2), folder=str(tmp_path / "kept")), tmp_path)
        assert len(said) == 1
        assert "holds the state of a RobustController" in said[0]

    @pytest.mark.parametrize("kind", ["bfloat16", "infinite", "empty"])
    def test_a_model_that_it_cannot_take_ended_the_job(self, kind: str, tmp_path: Path) -> None:
        torch = pytest.importorskip("torch")
        first, why = {
            "bfloat16": ({"w": torch.zeros(2, dtype=torch.bfloat16)}, "'w' of type Tensor of torch.bfloat16; pass"),
            "infinite": ({"w": torch.full((2,), -float("inf"))}, "'w', which is not finite"),
            "empty": ({}, "a model without arrays"),
        }[kind]
        made = RobustAggregator(MeanwO(f=1), folder="kept")
        context, before = started(made, tmp_path), FLModel(ParamsType.FULL, first)
        context.set_prop(AppConstants.TRAIN_SHAREABLE, FLModelUtils.to_shareable(before))
        made.handle_event(AppEventType.BEFORE_TRAIN_TASK, context)
        for at in range(3):
            made.accept_model(FLModel(ParamsType.FULL, {"w": torch.ones(2)}, meta={"client_name": f"site-{at}"}))
        assert made.aggregate_model().params == {}
        (line,) = read_journal(tmp_path / "job-1" / "kept")
        assert why in line["skipped"]
        assert line["asked"] == 3

    def test_a_round_without_replies_leaves_the_model(self) -> None:
        made, before = self.filled(None)
        made.reset_stats()
        after = FLModelUtils.update_model(before, made.aggregate_model())
        assert after.params["b"].tolist() == [0.0] * 4

    def test_tensors_stay_tensors(self) -> None:
        torch = pytest.importorskip("torch")
        made, context = RobustAggregator(MeanwO(f=1)), FLContext()
        before = FLModel(ParamsType.FULL, {"w": torch.zeros(2)})
        context.set_prop(AppConstants.TRAIN_SHAREABLE, FLModelUtils.to_shareable(before))
        made.handle_event(AppEventType.BEFORE_TRAIN_TASK, context)
        for at in range(3):
            params = {"w": torch.ones(2, dtype=torch.bfloat16) if at == 2 else torch.ones(2)}
            made.accept_model(FLModel(ParamsType.FULL, params, meta={"client_name": f"site-{at}"}))
        after = made.aggregate_model().params["w"]
        assert isinstance(after, torch.Tensor)
        assert after.tolist() == [1.0, 1.0]


def _name_case(value: object) -> str:
    """The text of a value, the same in every process."""
    return re.sub(r" object at 0x[0-9a-f]+", "", str(value))


class TestArguments:
    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: RobustController(3), "it takes a rule"),  # type: ignore[arg-type]
            (lambda: RobustController(MoNNA(f=1, pivot=0)), "trusts a vector of its own"),
            (lambda: RobustController("NoRule(f=1)"), "NoRule"),
            (lambda: RobustController(MeanwO(f=1), model={}), "pass arrays by name"),
            (lambda: RobustController(MeanwO(f=1), model={"w": [1.0]}), "pass arrays of numbers"),
            (lambda: RobustController(MeanwO(f=1), model={"w": np.array([np.nan])}), "not finite"),
            (lambda: RobustController(MeanwO(f=1), timeout=0), "number of seconds above 0"),
            (lambda: RobustController(MeanwO(f=1), cap=0.3), "cap was given without weighted_by_key"),
            (lambda: RobustController(MeanwO(f=1), measure="("), "no regular expression"),
            (lambda: RobustController(TwoPhase(MeanwO(f=1), OuterMean(f=1), Numeric(proximal=1.0))), "needs step="),
            (lambda: RobustAggregator(Mean2P(f=1)), "use RobustController"),  # type: ignore[arg-type]
            (lambda: make_job(MeanwO(f=1), "site.py"), "it takes a RobustController"),  # type: ignore[arg-type]
            (lambda: make_job(RobustController(MeanwO(f=1)), "site.py", framework="tf"), "'numpy' or 'torch'"),
            (lambda: make_job(RobustController(MeanwO(f=1)), "no-site.py"), "no-site.py is no file"),
            (lambda: answer_vote({"w": np.zeros(1)}, len), "pass what flare.receive"),
        ],
    )
    def test_what_does_not_fit_is_refused_where_it_is_given(self, make: Callable[[], Any], message: str) -> None:
        with pytest.raises(BadInput, match=message.replace("(", r"\(")):
            make()

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"model": [1.0]}, "model = [1.0]; model is arrays by name, the path"),
            ({"model": 3}, "model = 3"),
            ({"model": np.zeros(3)}, "model = array"),
            ({"model": {1: np.zeros(1), "1": np.ones(1)}}, "name is of type int"),
            ({"model": {"w": np.zeros(1, np.longdouble)}}, "pass float64"),
            ({"folder": None}, "folder = None; folder is a path"),
            ({"folder": ""}, "folder = ''"),
            ({"certify": "no"}, "certify is True or False"),
            ({"measure": 3}, "text of a regular expression"),
            ({"measure": b"w"}, "text of a regular expression"),
            ({"timeout": True}, "number of seconds"),
            ({"timeout": np.float32("nan")}, "number of seconds"),
            ({"patience": -1}, "number of seconds"),
            ({"step": "x"}, "step is a finite number above 0"),
            ({"min_sites": 0}, "min_sites is a whole number, at least 1"),
            ({"min_sites": -1}, "min_sites is a whole number, at least 1"),
            ({"min_sites": "a"}, "min_sites is a whole number, at least 1"),
            ({"task_name": 3}, "task_name is the name of a task"),
            ({"vote_task": ""}, "vote_task is the name of a task"),
            ({"persistor_id": 3}, "persistor_id is the name of a component"),
        ],
        ids=_name_case,
    )
    def test_an_argument_of_the_controller_was_accepted_and_failed_later(
        self, given: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(BadInput, match=re.escape(message)):
            RobustController(MeanwO(f=1), **given)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"sites": "site-1"}, "sites is a list of names"),
            ({"sites": []}, "sites is a list of names"),
            ({"sites": [3]}, "given 3 among the sites"),
            ({"sites": ["a/b"]}, "given 'a/b' among the sites"),
            ({"sites": ["a", "a"]}, "a site twice"),
            ({"min_sites": 0}, "min_sites is a whole number, at least 1"),
            ({"min_sites": -1}, "min_sites is a whole number, at least 1"),
            ({"min_sites": "a"}, "min_sites is a whole number, at least 1"),
            ({"framework": ["numpy"]}, "'numpy' or 'torch'"),
            ({"script": None}, "script is the path of the script"),
            ({"script_args": ["--a"]}, "script_args is one text"),
            ({"name": ""}, "name is letters, digits"),
            ({"name": 3}, "name is letters, digits"),
            ({"name": "../x"}, "name is letters, digits"),
            ({"own_process": "no"}, "own_process is True or False"),
            ({"controller": RobustController(MeanwO(f=1))}, "without a model; give it model= or persistor_id="),
        ],
        ids=_name_case,
    )
    def test_an_argument_of_a_job_was_accepted_and_failed_later(
        self, given: dict[str, Any], message: str, tmp_path: Path
    ) -> None:
        (tmp_path / "site.py").write_text("pass\n")
        first: dict[str, Any] = {
            "controller": RobustController(MeanwO(f=1), model=FIRST),
            "script": str(tmp_path / "site.py"),
        }
        with pytest.raises(BadInput, match=re.escape(message)):
            make_job(**(first | given))

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"folder": 3}, "folder is a path or None"),
            ({"certify": 1}, "certify is True or False"),
            ({"measure": 3}, "text of a regular expression"),
        ],
        ids=_name_case,
    )
    def test_an_argument_of_the_aggregator_was_accepted_and_failed_later(
        self, given: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(BadInput, match=re.escape(message)):
            RobustAggregator(MeanwO(f=1), **given)

    @pytest.mark.parametrize("loss", [3, lambda _: None, lambda _: np.zeros(2), lambda _: "0.5"])
    def test_a_loss_that_is_none_was_a_raw_error(self, loss: Any) -> None:
        vote = FLModel(params={"inner/w": np.zeros(1), "outer/w": np.zeros(1)}, meta={"holdfast.vote": True})
        with pytest.raises(BadInput, match="answer_vote was given a loss"):
            answer_vote(vote, loss)

    def test_an_error_of_the_loss_itself_stays_as_it_is(self) -> None:
        vote = FLModel(params={"inner/w": np.zeros(1), "outer/w": np.zeros(1)}, meta={"holdfast.vote": True})
        with pytest.raises(KeyError):
            answer_vote(vote, lambda arrays: arrays["no"])
        with pytest.raises(BadInput, match=r"None, which flare.receive\(\) returns at the end of a job"):
            answer_vote(None, len)

    def test_numbers_of_numpy_could_not_be_written(self, tmp_path: Path) -> None:
        (tmp_path / "site.py").write_text("pass\n")
        numbers = {"timeout": np.float32(3), "cap": np.float32(0.25), "step": np.float32(0.5), "grace": np.int64(2)}
        controller = RobustController(MeanwO(f=1), model=FIRST, weighted_by_key=COUNT, **numbers)  # type: ignore[arg-type]
        make_job(controller, str(tmp_path / "site.py")).export_job(str(tmp_path / "jobs"))
        config = json.loads((tmp_path / "jobs/holdfast/app/config/config_fed_server.json").read_text())
        args = config["workflows"][0]["args"]
        assert {name: args[name] for name in numbers} == {"timeout": 3.0, "cap": 0.25, "step": 0.5, "grace": 2.0}

    @pytest.mark.parametrize("name", ["none.npz", "text.npz"])
    def test_a_path_of_no_model_was_a_raw_error(self, name: str, tmp_path: Path) -> None:
        (tmp_path / "text.npz").write_text("no model")
        controller = RobustController(MeanwO(f=1), model=tmp_path / name)  # type: ignore[arg-type]
        with pytest.raises(BadInput, match=r"was given model = .*, which this server cannot read as an npz file"):
            controller._first_model()

    def test_a_job_is_written_as_json(self, tmp_path: Path) -> None:
        (tmp_path / "site.py").write_text("pass\n")
        controller = RobustController(Mean2P(f=1), model=FIRST, num_rounds=7, weighted_by_key=COUNT, grace=2.5)
        make_job(controller, str(tmp_path / "site.py"), name="digits").export_job(str(tmp_path / "jobs"))
        folder = tmp_path / "jobs" / "digits" / "app"
        (workflow,) = json.loads((folder / "config" / "config_fed_server.json").read_text())["workflows"]
        assert workflow["path"] == "holdfast.engines.nvflare.controller.RobustController"
        again = RobustController(**workflow["args"])
        assert (again.rule, again.num_rounds, again.grace) == (controller.rule, 7, 2.5)
        first = again._first_model()
        assert all((first[name] == FIRST[name]).all() and first[name].dtype == FIRST[name].dtype for name in FIRST)
        assert not (folder / "custom" / "holdfast").exists()

    @pytest.mark.parametrize("name", ["file", "allow_pickle", "a/b.npy"])
    def test_an_array_with_a_name_of_savez_was_not_saved(self, name: str, tmp_path: Path) -> None:
        controller = RobustController(MeanwO(f=1), model={name: np.ones(2)})
        controller._save(tmp_path, controller._first_model())
        again = RobustController(MeanwO(f=1), model=str(tmp_path / "model.npz"))
        assert again._first_model()[name].tolist() == [1.0, 1.0]

    @pytest.mark.parametrize("name", ["file", "allow_pickle", "model-0", "round"])
    def test_a_state_holds_arrays_of_any_name(self, name: str, tmp_path: Path) -> None:
        for rounds in (1, 2):
            made = server(Link(), folder=tmp_path)
            made.link = lambda task, model, sites, timeout: [(site, reply(trained(model.params))) for site in sites]
            for turn in made.begin({name: np.zeros(2)}, rounds):
                made.play(turn, SITES)
        assert made.model[name].tolist() == [2.0, 2.0]

    def test_a_model_is_read_from_an_npz_file(self, tmp_path: Path) -> None:
        np.savez(tmp_path / "first.npz", w=np.ones(2))
        controller = RobustController(MeanwO(f=1), model=str(tmp_path / "first.npz"))
        assert controller._first_model()["w"].tolist() == [1.0, 1.0]


def test_votes_of_a_site_go_through_dxo() -> None:
    model = FLModel(ParamsType.FULL, {"inner/w": np.zeros(1), "outer/w": np.ones(1)}, meta={"holdfast.vote": True})
    made = answer_vote(model, lambda arrays: float("nan") if arrays["w"][0] else 0.5)
    assert made is not None
    assert from_shareable(FLModelUtils.to_shareable(made)).data == {"inner": 0.5, "outer": float("inf")}


def test_a_missing_or_foreign_nvflare_is_told_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdfast.engines.nvflare import version as module

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(module, "version", missing)
    with pytest.raises(MissingExtra, match=r"pip install -c constraints.txt '\.\[nvflare\]'"):
        module.check()
    monkeypatch.setattr(module, "version", lambda _: "2.10.1")
    with pytest.raises(ImportError, match=r"pip install 'nvflare>=2\.9,<2\.10'"):
        module.check()


def test_neither_the_package_nor_the_other_engine_brings_nvflare() -> None:
    code = "import sys, holdfast.engines.rounds, holdfast.engines.votes; print('nvflare' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
