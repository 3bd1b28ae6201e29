"""The server's optimisers: formulas, memory over rounds and restarts, and which candidate's memory stays."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast import CWTM, Average, BadInput, BrokenRule, Mean2P
from holdfast.attacks import Empire, Gauss
from holdfast.experiments.store import key
from holdfast.experiments.where import condition
from holdfast.spec import parse
from holdfast.training import Functions, Run, State, rashb, train, two_phase_rashb
from holdfast.training.server import SERVERS, SGD, Adam, Momentum, ServerOptimiser, Yogi
from holdfast.values import value

TARGETS = np.arange(12.0).reshape(6, 2)  # six workers, each with a quadratic of its own
EACH: list[ServerOptimiser] = [SGD(), Momentum(beta=0.7), Adam(beta1=0.8, beta2=0.9, eps=0.01), Yogi(beta2=0.6)]


def quadratic(**words: Any) -> Functions:
    """|model - target_i|² / 2 for each of six workers."""
    given: dict[str, Any] = {
        "workers": 6,
        "first": np.zeros(2),
        "update": lambda i, model, t: model - TARGETS[i],
        "loss": lambda i, model, t: float(((model - TARGETS[i]) ** 2).sum() / 2),
    }
    return Functions(**given | words)


def settings(**words: Any) -> Run:
    given: dict[str, Any] = {"rule": Average(), "workers": 6, "rounds": 20, "lr": 0.2, "momentum": 0.0}
    return Run(**given | words)


def slowly(server: ServerOptimiser, gradients: list[list[float]]) -> list[list[float]]:
    """The directions of all rounds, one coordinate at a time, from the formulas of Reddi et al. 2021."""
    directions = []
    for column in zip(*gradients, strict=True):
        found, m, v = [], 0.0, getattr(server, "eps", 0.0) ** 2
        for g in column:
            match server:
                case SGD():
                    found.append(g)
                case Momentum(beta):
                    m = beta * m + g
                    found.append(m)
                case Adam(beta1, beta2, eps):
                    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
                    found.append(m / (math.sqrt(v) + eps))
                case Yogi(beta1, beta2, eps):
                    sign = (v > g * g) - (v < g * g)
                    m, v = beta1 * m + (1 - beta1) * g, v - (1 - beta2) * g * g * sign
                    found.append(m / (math.sqrt(v) + eps))
        directions.append(found)
    return [list(row) for row in zip(*directions, strict=True)]


@pytest.mark.parametrize("server", EACH, ids=repr)
def test_directions_are_those_of_the_formulas(server: ServerOptimiser) -> None:
    gradients = np.random.default_rng(0).standard_normal((30, 4)) * [1e-6, 0.1, 1.0, 1e6]
    memory, found = server.begin(np.zeros(4)), []
    for g in gradients:
        before = None if memory is None else memory.copy()
        direction, new = server(g, memory)
        if memory is not None:
            np.testing.assert_array_equal(memory, before)  # so that a second candidate starts from the same one
        memory = new
        found.append(direction)
    np.testing.assert_allclose(found, slowly(server, gradients.tolist()), rtol=1e-12)


@pytest.mark.parametrize("server", EACH, ids=repr)
def test_a_training_takes_these_steps_with_decay_beside_them(server: ServerOptimiser) -> None:
    run = settings(server=server, weight_decay=0.25, shrink=0.5, schedule="Steps(every=5, scale=0.5)")
    model, gradients = np.zeros(2), []
    for t in range(20):
        gradients.append((0.5 * (model - TARGETS).mean(axis=0)).tolist())
        model = model - 0.2 * 0.5 ** (t // 5) * (np.array(slowly(server, gradients)[-1]) + 0.25 * model)
    np.testing.assert_allclose(train(run, task=quadratic()).model, model, rtol=1e-9)


@pytest.mark.parametrize("server", EACH, ids=repr)
def test_it_reaches_the_optimum(server: ServerOptimiser) -> None:
    run = settings(server=server, rounds=400, lr=0.1, schedule="InverseRoot(every=20)")
    np.testing.assert_allclose(train(run, task=quadratic()).model, TARGETS.mean(axis=0), atol=0.05)


@pytest.mark.parametrize("server", EACH, ids=repr)
def test_memory_has_the_model_s_type(server: ServerOptimiser) -> None:
    run = settings(server=server)
    state = State.first(run, quadratic(first=np.zeros(2, np.float32)))
    list(rashb(run, quadratic(), state))
    assert state.model.dtype == np.float32
    assert state.memory is None or state.memory.dtype == np.float32


class TestTheRecord:
    def test_an_old_record_keeps_its_text_and_its_key(self) -> None:
        run = settings()
        assert "server" not in run.record()
        assert run == settings(server="SGD()") == Run.read(run.text())
        assert key(run) == "1be22c06c55b8de3"  # as before there were optimisers

    @pytest.mark.parametrize("server", EACH, ids=repr)
    def test_it_reads_back(self, server: ServerOptimiser) -> None:
        run = settings(server=repr(server))
        assert run.server == server == parse(repr(server), SERVERS, "server optimiser")
        assert Run.read(run.text()) == run
        assert (key(run) == key(settings())) == (server == SGD())

    @pytest.mark.parametrize(
        ("server", "why"),
        [
            ("Adma()", "Adma is no known server optimiser; did you mean Adam"),
            ("Adam(beta1=1.0)", "Adam was given beta1 = 1.0; beta1 is at least 0 and below 1."),
            ("Momentum(beta=-0.5)", "Momentum was given beta = -0.5; beta is a finite number, at least 0."),
            ("Yogi(eps=0)", "Yogi was given eps = 0; eps is a finite number above 0."),
            (3, "Run was given server = 3; it takes a server optimiser, as a value or as text."),
        ],
    )
    def test_what_cannot_be_is_refused_in_one_sentence(self, server: Any, why: str) -> None:
        with pytest.raises(BadInput) as caught:
            settings(server=server)
        assert str(caught.value).startswith(why)

    def test_a_condition_on_a_later_field_was_a_key_error(self) -> None:
        plain, other = settings(), settings(server=Adam(beta1=0.5), weights="samples")
        for text in ("server=SGD()", "server=SGD", "weights=equal", "server!=Adam*"):
            assert condition(text)(plain), text
            assert not condition(text)(other), text
        assert condition("server=Adam(beta1=0.5)")(other)

    def test_a_folder_of_another_optimiser_was_taken_for_this_run_s(self, tmp_path: Path) -> None:
        train(settings(server=Adam()), tmp_path, task=quadratic())
        with pytest.raises(BadInput, match=r"holds another run, with server = 'Adam\(\)'; choose another folder"):
            train(settings(), tmp_path, task=quadratic())


class TestTheMemory:
    @pytest.mark.parametrize("rule", [CWTM(f=2), Mean2P(f=2)], ids=repr)
    @pytest.mark.parametrize("server", EACH, ids=repr)
    def test_an_interrupted_run_goes_on_to_the_same_bits(
        self, server: ServerOptimiser, rule: Any, tmp_path: Path
    ) -> None:
        run = settings(server=server, rule=rule, attack=Gauss(), byzantine=2, momentum=0.9)
        whole = train(run, tmp_path / "whole", task=quadratic())

        def interrupt(line: dict[str, Any]) -> None:
            if line["round"] == 9:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(run, tmp_path / "cut", task=quadratic(), on_round=interrupt, save=0)
        again = train(run, tmp_path / "cut", task=quadratic())
        assert again.lines == whole.lines
        np.testing.assert_array_equal(again.model, whole.model)

    @pytest.mark.parametrize("damage", ["gone", "nan", "shape"])
    def test_a_checkpoint_without_it_is_refused(self, damage: str, tmp_path: Path) -> None:
        run = settings(server=Adam())
        with pytest.raises(KeyError):
            train(run, tmp_path, task=quadratic(), on_round=lambda line: line["moon"])
        with np.load(tmp_path / "checkpoint.npz") as file:
            arrays = dict(file)
        memory = arrays.pop("memory")
        if damage != "gone":
            arrays["memory"] = memory * np.nan if damage == "nan" else memory[:1]
        np.savez(tmp_path / "checkpoint.npz", **arrays)
        with pytest.raises(BadInput, match="no checkpoint of a training"):
            train(run, tmp_path, task=quadratic())

    @pytest.mark.parametrize("server", EACH[1:], ids=repr)
    def test_a_skipped_round_changes_nothing(self, server: ServerOptimiser) -> None:
        bad = {3: np.inf, 4: 1e200}  # nobody sends anything finite; a step that is rejected
        task = quadratic(update=lambda i, model, t: np.full(2, bad[t]) if t in bad else model - TARGETS[i])
        run = settings(server=server, reject=1e3 if isinstance(server, Momentum) else None, rounds=6)
        state = State.first(run, task)
        seen = []
        for line in rashb(run, task, state):
            assert state.memory is not None
            seen.append((state.model.copy(), state.memory.copy(), line.events))
        for t in bad:
            assert seen[t][2][-1].startswith("skipped")
            np.testing.assert_array_equal(seen[t][0], seen[2][0])
            np.testing.assert_array_equal(seen[t][1], seen[2][1])
        assert (seen[5][1] != seen[4][1]).any()

    def test_a_rejected_step_is_measured_after_the_optimiser(self) -> None:
        long = settings(server=Adam(), reject=1.0, rounds=1)  # the aggregate is 7.8 long, the step about 0.3
        assert not train(long, task=quadratic()).events()
        assert train(long.changed(server=SGD()), task=quadratic()).events()


class TestTwoPhases:
    @pytest.mark.parametrize("server", EACH, ids=repr)
    def test_the_model_and_the_memory_are_those_of_the_winner(self, server: ServerOptimiser) -> None:
        run = settings(server=server, rule=Mean2P(f=2), attack=Empire(scale=0.1), byzantine=2, rounds=40)
        asked: list[np.ndarray] = []

        def loss(i: int, model: np.ndarray, t: int) -> float:
            asked.append(model)
            return float(((model - TARGETS[i]) ** 2).sum() / 2)

        task, won = quadratic(loss=loss), set()
        state = State.first(run, task)
        memory, model = server.begin(state.model), state.model.copy()
        for line in two_phase_rashb(run, task, state):
            candidates, asked[:] = (asked[0], asked[1]), []
            np.testing.assert_array_equal(state.model, candidates[0 if line.winner == "inner" else 1])
            direction, memory = server(state.last if state.last is not None else model, memory)
            model = model - 0.2 * direction
            np.testing.assert_array_equal(state.model, model)  # the loser's step left no trace
            if memory is not None:
                np.testing.assert_array_equal(state.memory, memory)
            won.add(line.winner)
        assert won == {"inner", "outer"}

    def test_a_proximal_margin_looks_at_the_models_after_the_optimiser(self) -> None:
        rule = "TwoPhase(MeanwO(f=2), OuterMean(f=2), Numeric(proximal=1e9))"
        run = settings(server=Adam(), rule=rule, attack=Empire(scale=0.1), byzantine=2, rounds=5)
        assert set(train(run, task=quadratic()).winners()) == {"inner"}


def test_the_metrics_of_a_run_are_json(tmp_path: Path) -> None:
    train(settings(server="Yogi()"), tmp_path, task=quadratic())
    assert json.loads((tmp_path / "record.json").read_text())["server"] == "Yogi()"


class TestOwn:
    @pytest.mark.parametrize(
        "answer", ["None", "aggregate", "(aggregate[:1], memory)", "(1.0, memory)", "(aggregate, aggregate)"]
    )
    def test_an_answer_that_is_none_is_one_sentence(self, answer: str) -> None:
        names: dict[str, Any] = {"value": value, "ServerOptimiser": ServerOptimiser}
        call = f"    def __call__(self, aggregate, memory):\n        return {answer}\n"
        code = f"@value\nclass Own(ServerOptimiser):\n{call}"
        exec(code, names)
        with pytest.raises(BrokenRule, match=r"Own\(\) answered an aggregate of"):
            train(settings(server=names["Own"]()), task=quadratic())

    @pytest.mark.parametrize("eps", [1e200, 1e-50, 1e25])
    def test_an_eps_that_single_precision_cannot_square(self, eps: float) -> None:
        for kind in (Adam, Yogi):
            with pytest.raises(BadInput, match="has no place in single precision"):
                kind(eps=eps)
