"""RASHB and 2PRASHB do what Algorithms 1 and 3 say, survive anything, and repeat to the bit."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from holdfast import CWM, CWTM, Average, BadInput, CenteredClipping, Mean2P, MeanwO, Numeric, OuterMean, TwoPhase
from holdfast.attacks import (
    ALIE,
    VOTERS,
    Attack,
    Empire,
    Gauss,
    Inf,
    LabelFlip,
    NaN,
    NoAttack,
    SignFlip,
    View,
    Voter,
    list_paper_attacks,
)
from holdfast.rules.base import CoordinateRule
from holdfast.training import Functions, Run, State, rashb, train, two_phase_rashb
from holdfast.training.folder import Folder
from holdfast.training.schedule import Constant, Cosine, InverseRoot, Steps
from holdfast.training.workers import Workers, fill
from holdfast.values import value
from tests.children import started, wait_until

TARGETS = np.arange(12.0).reshape(6, 2)  # six workers, each with a quadratic of its own


def quadratic(**words: Any) -> Functions:
    """|model - target_i|² / 2 for each of six workers."""
    given: dict[str, Any] = {
        "workers": 6,
        "first": np.zeros(2),
        "update": lambda i, model, t: model - TARGETS[i],
        "loss": lambda i, model, t: float(((model - TARGETS[i]) ** 2).sum() / 2),
        "evaluation": lambda model: {"accuracy": float(-np.abs(model - TARGETS.mean(0)).sum())},
    }
    return Functions(**given | words)


def settings(**words: Any) -> Run:
    given: dict[str, Any] = {"rule": Average(), "workers": 6, "rounds": 20, "lr": 0.5, "momentum": 0.0}
    return Run(**given | words)


class TestAlgorithmOne:
    def test_the_plain_mean_is_gradient_descent_with_momentum(self) -> None:
        run = settings(momentum=0.6)
        model, momenta, seen = np.zeros(2), np.zeros((6, 2)), []
        for _ in range(20):
            seen.append(model)
            momenta = 0.6 * momenta + 0.4 * (model - TARGETS)
            model = model - 0.5 * momenta.mean(axis=0)
        result = train(run, task=quadratic())
        np.testing.assert_allclose(result.model, model)
        np.testing.assert_allclose(result.average, np.mean(seen, axis=0))  # 1/T of θ_0 to θ_{T-1}

    def test_the_server_decays_shrinks_and_schedules(self) -> None:
        run = settings(weight_decay=0.25, shrink=0.5, schedule=Steps(every=2, scale=0.1), rounds=3)
        model = np.zeros(2)
        for rate in (0.5, 0.5, 0.05):
            model = model - rate * (0.5 * (model - TARGETS).mean(axis=0) + 0.25 * model)
        assert train(run, task=quadratic()).model == pytest.approx(model)

    def test_workers_clip_their_gradients(self) -> None:
        result = train(settings(clip=1.0, rounds=1, lr=1.0), task=quadratic())
        norms = np.maximum(np.linalg.norm(TARGETS, axis=1, keepdims=True), 1)
        np.testing.assert_allclose(result.model, (TARGETS / norms).mean(axis=0))

    def test_liars_send_the_attack_and_keep_their_own_momentum(self) -> None:
        run = settings(rule=MeanwO(f=2), attack=SignFlip(), byzantine=2, momentum=0.5, rounds=30)
        state = State.first(run, quadratic())
        lines = list(rashb(run, quadratic(), state))
        assert state.round == 30
        assert state.momenta is not None
        np.testing.assert_allclose(state.momenta[4:].mean(axis=0), state.model - TARGETS[4:].mean(axis=0), atol=0.5)
        assert lines[-1].kept == "kkkk--"
        assert lines[-1].liars == 0

    def test_centered_clipping_starts_from_the_last_aggregate(self) -> None:
        run = settings(rule=CenteredClipping(tau=0.5), rounds=2, lr=0.0001)
        state = State.first(run, quadratic())
        list(rashb(run, quadratic(), state))
        assert state.last is not None
        assert 0.5 < np.linalg.norm(state.last) <= 1.0 + 1e-9  # two steps of at most τ each

    def test_some_workers_take_part(self) -> None:
        run = settings(rule=CWTM(f=1), present=4, byzantine=1, attack=Empire(), rounds=50)
        result = train(run, task=quadratic())
        letters = result.kept()
        assert ((letters == ".").sum(axis=1) == 2).all()
        assert set(map(tuple, letters == ".")) != {tuple(letters[0] == ".")}

    def test_the_two_iterates_are_evaluated(self) -> None:
        result = train(settings(every=7), task=quadratic())
        assert [at for at, _ in result.curve()] == [7, 14, 20]
        assert result.lines[-1]["averaged"]["accuracy"] < result.accuracy


class TestAlgorithmThree:
    def test_the_better_candidate_is_elected(self) -> None:
        run = settings(rule=Mean2P(f=2), attack=Empire(scale=0.1), byzantine=2, rounds=40)
        task = quadratic()
        state = State.first(run, task)
        for line in two_phase_rashb(run, task, state):
            assert line.winner in ("inner", "outer")
            assert line.margin is not None
            assert line.lead is not None
            assert line.winner == ("outer" if line.lead > 0 else "inner")

    @pytest.mark.parametrize("voter", VOTERS)
    @pytest.mark.parametrize("election", ["Ballot()", "Numeric()", "Ballot(ties='outer')"])
    def test_no_voter_stops_a_round(self, voter: str, election: str) -> None:
        rule = f"TwoPhase(MeanwO(f=2), OuterMean(f=2), {election})"
        run = settings(rule=rule, voter=f"{voter}()", attack=SignFlip(), byzantine=2)
        result = train(run, task=quadratic())
        assert len(result.lines) == 20
        assert np.isfinite(result.model).all()
        assert set(result.winners()) <= {"inner", "outer"}

    def test_without_votes_inner_wins_and_the_record_says_why(self) -> None:
        run = settings(rule=TwoPhase(MeanwO(f=2), OuterMean(f=2), Numeric()), rounds=3)
        result = train(run, task=quadratic(loss=lambda i, model, t: float("nan")))
        assert result.winners() == ["inner"] * 3
        assert "fewer than 5" in result.events()[0][1]

    def test_a_vote_that_raises_is_an_abstention(self) -> None:
        def loss(i: int, model: np.ndarray, t: int) -> float:
            if i == 3:
                raise RuntimeError("gone")
            return float(((model - TARGETS[i]) ** 2).sum())

        result = train(settings(rule=Mean2P(f=2)), task=quadratic(loss=loss))
        assert np.isfinite(result.model).all()

    def test_functions_without_a_loss_cannot_vote(self) -> None:
        with pytest.raises(BadInput, match="no loss, by which workers vote"):
            train(settings(rule=Mean2P(f=2)), task=quadratic(loss=None))


class TestWhatGoesWrong:
    def test_a_failing_worker_is_left_out_and_noted(self) -> None:
        def update(i: int, model: np.ndarray, t: int) -> Any:
            if i == 2 and t == 3:
                raise ConnectionError("no route")
            return model - TARGETS[i]

        result = train(settings(rule=CWTM(f=1), momentum=0.5), task=quadratic(update=update))
        assert result.events() == [(3, "failed: 2: ConnectionError: no route")]
        assert result.lines[3]["kept"][2] == "."
        assert result.lines[4]["kept"][2] == "k"

    @pytest.mark.parametrize(
        "wrong", [None, "text", np.zeros(3), np.zeros((2, 1)), [1.0], {"a": 1}, np.array(["x", "y"])]
    )
    def test_an_update_of_the_wrong_shape_is_dropped_by_name(self, wrong: Any) -> None:
        task = quadratic(update=lambda i, model, t: wrong if i == 5 else model - TARGETS[i])
        result = train(settings(rule=MeanwO(f=1)), task=task)
        assert all(line["kept"][5] == "x" for line in result.lines)
        assert result.events()[0][1].startswith("of no use: 5")
        assert np.isfinite(result.model).all()

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_a_worker_that_is_not_finite_is_dropped_and_recovers(self, value: float) -> None:
        def update(i: int, model: np.ndarray, t: int) -> np.ndarray:
            return np.full(2, value) if i == 0 and t < 5 else model - TARGETS[i]

        result = train(
            settings(rule=MeanwO(f=1), momentum=0.9, attack=Empire(), byzantine=1), task=quadratic(update=update)
        )
        assert [line["kept"][0] for line in result.lines[:6]] == ["x"] * 5 + [result.lines[5]["kept"][0]]
        assert result.lines[10]["kept"][0] != "x"

    def test_overflow_on_every_worker_is_a_skipped_step(self) -> None:
        def update(i: int, model: np.ndarray, t: int) -> np.ndarray:
            return np.full(2, np.inf) if t == 4 else model - TARGETS[i]

        result = train(settings(rule=MeanwO(f=2), momentum=0.5), task=quadratic(update=update))
        assert [at for at, _ in result.events()] == [4]
        assert result.events()[0][1].startswith("skipped: ")
        assert np.isfinite(result.model).all()

    def test_all_workers_fail_and_the_training_goes_on(self) -> None:
        def update(i: int, model: np.ndarray, t: int) -> np.ndarray:
            if t in (0, 3):
                raise TimeoutError
            return model - TARGETS[i]

        result = train(settings(attack=SignFlip(), byzantine=2, rule=MeanwO(f=2)), task=quadratic(update=update))
        assert sum("skipped" in event for _, event in result.events()) == 2
        assert len(result.lines) == 20

    def test_a_step_that_leaves_the_floats_is_not_taken(self) -> None:
        task = quadratic(update=lambda i, model, t: np.full(2, 1e308))
        result = train(settings(lr=10.0, rounds=3), task=task)
        assert [event for _, event in result.events()] == ["skipped: the model would not be finite"] * 3
        assert (result.model == 0).all()

    @pytest.mark.parametrize("attack", [NaN(), Inf()])
    def test_what_is_not_finite_never_reaches_the_model(self, attack: Any) -> None:
        result = train(settings(rule=Average(), attack=attack, byzantine=2), task=quadratic())
        np.testing.assert_allclose(result.model, TARGETS[:4].mean(axis=0), atol=1e-4)


class TestWhatTheResultSaysFirst:
    def first_line(self, **words: Any) -> str:
        return str(train(settings(**words), task=quadratic())).splitlines()[0]

    def test_an_attack_that_was_always_dropped_is_no_proof_of_robustness(self) -> None:
        said = self.first_line(attack=NaN(), byzantine=2, rule=MeanwO(f=2))
        assert said.endswith("; every message of the Byzantine workers was dropped, so NaN() did not reach the rule)")

    def test_an_attack_without_byzantine_workers_is_no_proof_of_robustness(self) -> None:
        assert self.first_line(attack=SignFlip()).endswith("; no worker is Byzantine, so nobody sends SignFlip())")

    def test_byzantine_workers_that_never_take_part_are_no_proof_of_robustness(self) -> None:
        said = self.first_line(attack=SignFlip(), byzantine=1, present=1, rounds=1, seed=1)
        assert said.endswith("; no Byzantine worker took part in a round, so SignFlip() did not reach the rule)")

    def test_a_training_whose_rounds_were_all_skipped_is_none(self) -> None:
        said = self.first_line(attack=NaN(), byzantine=3, rule=MeanwO(f=2))
        assert "20 rounds, 20 of them skipped" in said
        assert said.endswith("; all rounds were skipped, so the model is the first one)")
        assert "20 of them skipped" in self.first_line(reject=1e-9)  # the rule answers, and no step is taken

    def test_an_attack_that_sends_the_honest_mean_is_no_proof_of_robustness(self) -> None:
        said = self.first_line(attack=ALIE(), byzantine=2, rule=MeanwO(f=2))
        why = "z_max is 0 if 2 of 6 workers are Byzantine, so they send the honest mean"
        assert said.endswith(f"; ALIE() is no attack here: {why})")

    @pytest.mark.parametrize(("rule", "f"), [(MeanwO(f=2), 2), (CWM(), 2), (MeanwO(f=0), 0), (Mean2P(f=2), 2)])
    def test_more_byzantine_workers_than_f_are_said_in_python_too(
        self, rule: Any, f: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        said = self.first_line(attack=SignFlip(), byzantine=3, rule=rule)
        remark = f"3 workers are Byzantine, and {rule!r} tolerates {f}"
        assert said.endswith(f"; {remark})")
        assert remark in [record.message for record in caplog.records if record.levelname == "WARNING"]

    def test_an_ordinary_training_has_no_remarks(self, caplog: pytest.LogCaptureFixture) -> None:
        for words in ({"attack": SignFlip(), "byzantine": 2, "rule": MeanwO(f=2)}, {}, {"byzantine": 4}):
            assert train(settings(**words), task=quadratic()).remarks() == []
        assert not caplog.records


def test_a_stage_as_text_was_said_to_be_no_text() -> None:
    with pytest.raises(BadInput, match=r"it gives back many vectors, so put a rule behind it, as in NNM\(f=2\) >> Ave"):
        Run(rule="NNM(f=2)")


class TestWhoCheats:
    @pytest.mark.parametrize(
        "made", [None, [], [np.zeros(1), np.zeros((2, 2)), "x"], 3.0, "twice", "one", "text", "object"]
    )
    def test_a_hostile_attack_may_send_anything_and_any_number_of_times(self, made: Any) -> None:
        @value
        class Odd(Attack):
            hostile = True

            def __call__(self, seen: View) -> Any:
                rows = {"twice": np.concatenate([seen.own, seen.own]), "one": seen.own[:1]}
                odd = {"text": np.array(["a"] * len(seen.own)), "object": np.array([None] * len(seen.own))}
                return (rows | odd).get(made, made) if isinstance(made, str) else made

        result = train(settings(rule=MeanwO(f=2), attack=Odd(), byzantine=2), task=quadratic())
        assert len(result.lines) == 20
        assert np.isfinite(result.model).all()

    @pytest.mark.parametrize(
        ("made", "what"),
        [
            (lambda seen: seen.own[0], r"an array of shape \(2,\)"),
            (lambda seen: torch.as_tensor(seen.own[0].copy()), r"an array of shape \(2,\)"),
            (lambda seen: seen.own[:1], r"an array of shape \(1, 2\)"),
            (lambda seen: [*seen.own, seen.own[0]], "a list of length 3"),
            (lambda seen: [row[:1] for row in seen.own], r"a list with a row of shape \(1,\)"),
            (lambda seen: [None] * len(seen.own), "a list with None"),
            (lambda seen: 1j * seen.own, "an array of complex128"),
            (lambda seen: ["a"] * len(seen.own), "a list with a str"),
            (lambda seen: np.ma.masked_array(seen.own, False), "that cannot be read"),
            (lambda seen: {"rows": seen.own}, "a dict"),
            (lambda seen: None, "None"),
        ],
    )
    def test_an_attack_in_the_wrong_form_is_no_silent_peace(self, made: Any, what: str) -> None:
        with pytest.raises(
            BadInput, match=rf"^Sends\(\) returned .*{what}.*shape \(2, 2\), or set hostile = True"
        ) as error:
            train(settings(attack=Sends(made), byzantine=2), task=quadratic())
        assert "\n" not in str(error.value)

    @pytest.mark.parametrize("by", [np.nan, np.inf, 1e300])
    def test_an_attack_that_is_not_finite_by_mistake_is_no_silent_peace(self, by: float) -> None:
        task = quadratic(first=np.zeros(2, np.float32))
        with pytest.raises(
            BadInput, match=r"^Sends\(\) returned rows that are not finite in float32; .*hostile = True"
        ):
            train(settings(attack=Sends(lambda seen: np.full((2, 2), by)), byzantine=2), task=task)

    @pytest.mark.parametrize(
        "made",
        [
            lambda seen: torch.as_tensor(-seen.own),
            lambda seen: torch.as_tensor(-seen.own).requires_grad_(),
            lambda seen: list(-seen.own),
            lambda seen: tuple(map(torch.as_tensor, -seen.own)),
            lambda seen: (-seen.own).tolist(),
            lambda seen: _jax(-seen.own),
            lambda seen: list(_jax(-seen.own)),
        ],
    )
    def test_rows_of_any_library_are_an_attack(self, made: Any) -> None:
        wanted = train(settings(attack=SignFlip(), byzantine=2, rounds=3), task=quadratic())
        result = train(settings(attack=Sends(made), byzantine=2, rounds=3), task=quadratic())
        np.testing.assert_allclose(result.model, wanted.model, rtol=1e-6)
        assert not result.events()

    def test_an_attack_on_a_round_that_diverged_is_let_pass(self) -> None:
        task = quadratic(update=lambda i, model, t: np.full(2, 1e300))
        double = Sends(lambda seen: -1e10 * seen.own)
        result = train(settings(rule=MeanwO(f=2), attack=double, byzantine=2, rounds=1), task=task)
        assert result.events()[0] == (0, "dropped: 4 and 5 (not finite)")

    def test_an_attack_cannot_write_into_what_others_send(self) -> None:
        @value
        class Vandal(Attack):
            def __call__(self, seen: View) -> Any:
                seen.honest[:] = 0
                return seen.own

        with pytest.raises(ValueError, match="read-only"):
            train(settings(attack=Vandal(), byzantine=1), task=quadratic())

    def test_a_voter_has_its_own_losses_and_its_own_name_only(self) -> None:
        @value
        class Thief(Voter):
            def __call__(self, losses: np.ndarray, liars: np.ndarray, rng: Any) -> Any:
                losses *= -1
                return [(i, (1.0, 0.0)) for i in range(6)]

        @value
        class Outward(Voter):
            def __call__(self, losses: np.ndarray, liars: np.ndarray, rng: Any) -> Any:
                return [(int(i), (1.0, 0.0)) for i in liars]

        @value
        class Mute(Voter):
            def __call__(self, losses: np.ndarray, liars: np.ndarray, rng: Any) -> Any:
                return None

        honest = train(settings(rule=Mean2P(f=2), voter="SilentVote()", byzantine=1), task=quadratic())
        mute = train(settings(rule=Mean2P(f=2), voter=Mute(), byzantine=1), task=quadratic())
        thief = train(settings(rule=Mean2P(f=2), voter=Thief(), byzantine=1), task=quadratic())
        assert honest.winners() == mute.winners()
        worst = train(settings(rule=Mean2P(f=2), voter=Outward(), byzantine=1), task=quadratic())
        assert [line["lead"] for line in thief.lines] == [line["lead"] for line in worst.lines]
        assert not [event for _, event in thief.events() if "no vote" in event]
        assert [line["margin"] for line in thief.lines[:1]] == [line["margin"] for line in honest.lines[:1]]

    def test_events_name_workers_not_places(self) -> None:
        result = train(settings(attack=NaN(), byzantine=1, present=3), task=quadratic())
        dropped = [event for _, event in result.events()]
        assert dropped
        assert set(dropped) == {"dropped: 5 (not finite)"}

    def test_large_gradients_are_clipped_not_lost(self) -> None:
        task = quadratic(first=np.zeros(2, np.float32), update=lambda i, model, t: np.full(2, 1e25, np.float32))
        result = train(settings(clip=1.0, rounds=1, lr=1.0), task=task)
        np.testing.assert_allclose(np.linalg.norm(result.model), 1.0, rtol=1e-5)

    def test_tasks_may_give_arrays_of_their_own(self) -> None:
        class Own:
            workers = 6
            rows = TARGETS.copy()

            def start(self) -> np.ndarray:
                return np.zeros(2)

            def updates(self, model: np.ndarray, who: np.ndarray, t: int) -> Any:
                model *= 0
                self.rows.flags.writeable = False
                return self.rows[who], {}

            def losses(self, models: Any, who: np.ndarray, t: int) -> np.ndarray:
                return np.zeros((len(who), 2))

            def evaluate(self, model: np.ndarray) -> dict[str, Any]:
                model *= 0
                return {"loss": np.float32(0.5), "bad": np.nan, "each": np.arange(2)}

        result = train(settings(attack=SignFlip(), byzantine=2, momentum=0.5, rule=CWTM(f=2)), task=Own())
        assert (Own.rows == TARGETS).all()
        assert result.final == {"loss": 0.5, "bad": None, "each": [0, 1]}
        assert np.abs(result.model).sum() > 0


class TestTheRecord:
    def test_it_reads_back(self) -> None:
        run = Run(
            rule=TwoPhase(MeanwO(f=2), OuterMean(f=2), Numeric(margin=0.25)),
            attack="Spread(ScaledVariance(z=20/35, over='honest'))",
            voter="AgainstMajority()",
            split="Dirichlet(alpha=0.1)",
            schedule="Cosine()",
            workers=7,
            byzantine=2,
            clip=3.0,
        )
        assert Run.read(run.text()) == run
        assert json.loads(run.text())["attack"].startswith("Spread(attack=ScaledVariance(z=0.57")

    @pytest.mark.parametrize(
        ("words", "why"),
        [
            ({"rule": "Krum(f=9)"}, r"Krum\(f=9\) was given 20 workers; it needs at least 21"),
            ({"rule": "NNM(f=2)"}, "put a rule behind it"),
            ({"rule": 3}, "takes a rule"),
            ({"attack": "Emprie()"}, "did you mean Empire"),
            ({"byzantine": 20}, "leave one honest"),
            ({"lr": float("nan")}, "finite"),
            ({"lr": 0}, "above 0"),
            ({"momentum": 1.0}, "below 1"),
            ({"batch": 0}, "whole number, 1 to"),
            ({"rounds": 2.5}, "whole number"),
            ({"present": 21}, "at most"),
            ({"clip": -1.0}, "above 0"),
            ({"split": "Natrual()"}, "no known split"),
        ],
    )
    def test_what_cannot_be_is_refused_in_one_sentence(self, words: dict[str, Any], why: str) -> None:
        with pytest.raises(BadInput, match=why) as caught:
            Run(**{"rule": "MeanwO(f=2)"} | words)
        assert str(caught.value).count("\n") == 0

    @pytest.mark.parametrize("text", ["{", "[]", '{"lr": 1}', '{"rule": "Average()", "colour": 1}'])
    def test_a_record_that_is_none_is_refused(self, text: str) -> None:
        with pytest.raises(BadInput, match="record of a run"):
            Run.read(text)

    def test_schedules(self) -> None:
        assert [Constant()(t, 10) for t in (0, 9)] == [1, 1]
        assert Cosine()(10, 10) == 0
        assert Steps(every=3, scale=0.5)(7, 10) == 0.25
        assert InverseRoot(every=4)(12, 100) == 0.5

    def test_presets_of_the_paper_are_honest_parameters(self) -> None:
        text, program = list_paper_attacks(), list_paper_attacks(text=False, n=35)
        assert list(text) == list(program) == ["LF", "SF", "Gauss", "Omn", "Empire", "SV", "PGA"]
        assert text["SV"].z == -20  # type: ignore[attr-defined]
        assert program["SV"].z == pytest.approx(-20 / 35)  # type: ignore[attr-defined]


DIGITS: dict[str, Any] = {"workers": 7, "byzantine": 2, "rounds": 12, "every": 4, "batch": 4, "momentum": 0.9}


class TestOnDigits:
    @pytest.mark.parametrize("attack", [*list_paper_attacks().values(), NoAttack()], ids=repr)
    def test_the_same_record_gives_the_same_bits(self, attack: Any) -> None:
        run = Run(rule=Mean2P(f=2), attack=attack, **DIGITS)
        first, second = train(run), train(run)
        assert first.lines == second.lines
        np.testing.assert_array_equal(first.model, second.model)
        assert not np.array_equal(first.model, train(run.changed(seed=1)).model)

    def test_it_learns(self) -> None:
        run = Run(rule=MeanwO(f=2), attack=Gauss(), **DIGITS | {"rounds": 60, "lr": 0.3, "batch": 16})
        result = train(run)
        assert result.accuracy > 0.85
        assert len(result.final["workers"]) == 7
        assert result.final["gradient_norm"] > 0
        assert result.lines[-1]["averaged"]["gradient_norm"] > result.final["gradient_norm"]

    def test_flipped_labels_hurt_the_mean_alone(self) -> None:
        words = DIGITS | {"rounds": 60, "lr": 0.3, "batch": 16, "byzantine": 3}
        broken = train(Run(rule=Average(), attack=LabelFlip(), **words))
        held = train(Run(rule=MeanwO(f=3), attack=LabelFlip(), **words))
        assert held.final["loss"] < broken.final["loss"]

    def test_a_module_of_ones_own_stays_as_it_is_and_can_be_filled(self) -> None:
        torch.manual_seed(0)
        layer = torch.nn.Linear(64, 10)
        module = torch.nn.Sequential(torch.nn.Flatten(), layer)
        before = layer.weight.detach().clone()
        run = Run(rule=MeanwO(f=2), **DIGITS)
        task = Workers(run, module=module)
        result = train(run, task=task)
        assert torch.equal(layer.weight, before)
        fill(module, result.model)
        assert task.evaluate(result.model)["accuracy"] == result.accuracy
        assert layer.weight.detach().numpy().ravel().tolist() == result.model[:640].tolist()
        with pytest.raises(BadInput, match="650 parameters to train"):
            fill(module, np.zeros(3))

    def test_a_module_that_the_images_do_not_fit_is_one_sentence(self) -> None:
        with pytest.raises(BadInput, match=r"does not take images of shape \(1, 8, 8\)"):
            Workers(Run(rule=MeanwO(f=2), **DIGITS), module=torch.nn.Linear(9, 10))

    @pytest.mark.parametrize("name", ["frozen", "dropout", "in place", "looks"])
    def test_modules_of_every_kind_resume_to_the_same_bits(self, name: str, tmp_path: Path) -> None:
        torch.manual_seed(3)
        first, last = torch.nn.Linear(64, 16), torch.nn.Linear(16, 10)
        middle: dict[str, torch.nn.Module] = {
            "frozen": torch.nn.Tanh(),
            "dropout": torch.nn.Dropout(0.3),
            "in place": torch.nn.Dropout(0.3, inplace=True),
            "looks": Looks(),
        }
        first.requires_grad_(name != "frozen")
        module = torch.nn.Sequential(torch.nn.Flatten(), first, middle[name], last)
        run = Run(rule=Mean2P(f=2), **DIGITS)
        whole = train(run, tmp_path / "whole", task=Workers(run, module=module))

        def stop(line: dict[str, Any]) -> None:
            if line["round"] == 5:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(run, tmp_path / "cut", task=Workers(run, module=module), on_round=stop)
        again = train(run, tmp_path / "cut", task=Workers(run, module=module))
        np.testing.assert_array_equal(again.model, whole.model)

    @pytest.mark.parametrize("name", ["counts", "double", "pair", "each"])
    def test_modules_that_cannot_be_trained_are_one_sentence(self, name: str) -> None:
        plain = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
        module: torch.nn.Module = {
            "counts": torch.nn.Sequential(plain, Counts()),
            "double": torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)).double(),
            "pair": Pair(plain),
            "each": plain,
        }[name]
        loss = torch.nn.CrossEntropyLoss(reduction="none") if name == "each" else None
        with pytest.raises(BadInput) as caught:
            Workers(Run(rule=MeanwO(f=2), **DIGITS), module=module, loss=loss)
        assert "\n" not in str(caught.value)

    def test_a_task_can_be_trained_twice(self) -> None:
        run = Run(rule=MeanwO(f=2), **DIGITS)
        task = Workers(run)
        np.testing.assert_array_equal(train(run, task=task).model, train(run, task=task).model)

    def test_local_steps_train_faster_a_round(self) -> None:
        slow = train(Run(rule=MeanwO(f=2), **DIGITS))
        fast = train(Run(rule=MeanwO(f=2), **DIGITS | {"steps": 5}))
        assert fast.accuracy > slow.accuracy

    @pytest.mark.parametrize("vote_batch", [1, 3, 10_000, None])
    def test_votes_on_any_number_of_images(self, vote_batch: int | None) -> None:
        result = train(Run(rule=Mean2P(f=2), attack=Empire(), vote_batch=vote_batch, **DIGITS))
        assert all(result.winners())

    @pytest.mark.parametrize("split", ["Natural()", "Uniform()", "Dirichlet(alpha=0.1)", "Shards(shards=2)"])
    def test_every_split(self, split: str) -> None:
        result = train(Run(rule=MeanwO(f=2), split=split, model="linear", **DIGITS))
        assert np.isfinite(result.model).all()

    def test_an_unknown_device_model_or_data_set_is_one_sentence(self) -> None:
        moons: list[dict[str, Any]] = [{"device": "moon"}, {"model": "moon"}, {"data": "moon"}]
        for words in moons:
            with pytest.raises(BadInput, match="moon"):
                train(Run(rule=Average(), **words))
        with pytest.raises(BadInput, match="16 x 16"):
            train(Run(rule=Average(), model="cnn"))


class Looks(torch.nn.Module):
    """Does what its numbers say."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum().item() > 0 else x


class Counts(torch.nn.Module):
    """Changes a buffer."""

    seen: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        return x


class Pair(torch.nn.Module):
    """Answers with two things."""

    def __init__(self, body: torch.nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return self.body(x), 1


@value
class Half(CoordinateRule):
    """Half of the median."""

    def columns(self, block: np.ndarray) -> np.ndarray:
        return np.median(block, axis=0) / 2

    def used(self, block: np.ndarray) -> np.ndarray:
        return np.ones(len(block))


@value
class Sends(Attack):
    """What a function makes of the view: an attack of a user's own."""

    made: Any

    def __call__(self, seen: View) -> Any:
        return self.made(seen)

    def __repr__(self) -> str:
        return "Sends()"


def _jax(rows: np.ndarray) -> Any:
    return pytest.importorskip("jax.numpy").asarray(rows)


@value
class Push(Attack):
    """Ones."""

    def __call__(self, seen: View) -> np.ndarray:
        return np.ones_like(seen.own)


SCRIPT = """
import sys, time
from holdfast.training import Run, train
train(Run.read(open(sys.argv[1]).read()), sys.argv[2], save=0)
"""


class TestTheFolder:
    def test_a_finished_run_is_read_not_run(self, tmp_path: Path) -> None:
        run = settings()
        first = train(run, tmp_path / "run", task=quadratic())
        again = train(run, tmp_path / "run", task=quadratic(update=lambda *_: 1 / 0))
        assert again.lines == first.lines
        np.testing.assert_array_equal(again.model, first.model)

    def test_two_runs_do_not_share_a_folder(self, tmp_path: Path) -> None:
        train(settings(), tmp_path, task=quadratic())
        with pytest.raises(BadInput, match=r"another run, with lr = 0.5; choose another folder"):
            train(settings(lr=0.25), tmp_path, task=quadratic())

    @pytest.mark.parametrize("stop", [1, 7, 19])
    def test_an_interrupted_run_goes_on_to_the_same_bits(self, tmp_path: Path, stop: int) -> None:
        run = settings(rule=Mean2P(f=2), attack=Gauss(), byzantine=2, momentum=0.9)
        whole = train(run, tmp_path / "whole", task=quadratic())

        def interrupt(line: dict[str, Any]) -> None:
            if line["round"] == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(run, tmp_path / "cut", task=quadratic(), on_round=interrupt, save=0)
        again = train(run, tmp_path / "cut", task=quadratic())
        assert again.lines == whole.lines
        np.testing.assert_array_equal(again.model, whole.model)
        assert (tmp_path / "cut/metrics.jsonl").read_text() == (tmp_path / "whole/metrics.jsonl").read_text()

    def test_a_line_that_was_cut_off_comes_again(self, tmp_path: Path) -> None:
        run = settings(momentum=0.5)
        whole = train(run, tmp_path / "whole", task=quadratic())

        def interrupt(line: dict[str, Any]) -> None:
            if line["round"] == 9:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(run, tmp_path / "cut", task=quadratic(), on_round=interrupt, save=0)
        with (tmp_path / "cut/metrics.jsonl").open("a") as file:
            file.write('{"round": 9, "kep')
        assert train(run, tmp_path / "cut", task=quadratic()).lines == whole.lines

    def test_a_damaged_checkpoint_is_one_sentence(self, tmp_path: Path) -> None:
        run = settings()
        with pytest.raises(KeyError):
            train(run, tmp_path, task=quadratic(), on_round=lambda line: line["moon"])
        (tmp_path / "checkpoint.npz").write_bytes(b"PK\x03\x04 nonsense")
        with pytest.raises(BadInput, match="no checkpoint of a training"):
            train(run, tmp_path, task=quadratic())

    def test_what_stops_between_rounds_loses_no_round(self, tmp_path: Path) -> None:
        def stop(line: dict[str, Any]) -> None:
            if line["round"] == 6:
                raise RuntimeError("enough")

        with pytest.raises(RuntimeError, match="enough"):
            train(settings(), tmp_path, task=quadratic(), on_round=stop)
        assert (tmp_path / "metrics.jsonl").read_text().count("\n") == 7
        assert len(train(settings(), tmp_path, task=quadratic()).lines) == 20

    def test_another_task_is_another_run(self, tmp_path: Path) -> None:
        train(settings(), tmp_path, task=quadratic())
        with pytest.raises(BadInput, match="another run, with task = "):
            train(settings(), tmp_path, task=quadratic(first=np.ones(2)))

    def test_a_rule_and_an_attack_of_ones_own_resume(self, tmp_path: Path) -> None:
        run = settings(rule=Half(), attack=Push(), byzantine=2)
        assert train(run, tmp_path, task=quadratic()).lines == train(run, tmp_path, task=quadratic()).lines

    def test_a_start_that_fails_leaves_the_folder_free(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match="moon"):
            train(Run(rule=Average(), data="moon"), tmp_path / "run")
        train(settings(), tmp_path / "run", task=quadratic())

    def test_a_checkpoint_of_another_model_is_refused(self, tmp_path: Path) -> None:
        for name, momentum in (("a", 0.0), ("b", 0.5)):
            with pytest.raises(KeyError):
                train(settings(momentum=momentum), tmp_path / name, quadratic(), on_round=lambda line: line["moon"])
        (tmp_path / "b/checkpoint.npz").replace(tmp_path / "a/checkpoint.npz")
        with pytest.raises(BadInput, match="of another model or momentum"):
            train(settings(), tmp_path / "a", task=quadratic())

    @pytest.mark.parametrize(
        "damage",
        ["no record", "bytes", "cut metrics", "doubled line", "no model", "bad model", "nan model", "empty checkpoint"],
    )
    def test_a_damaged_folder_is_refused_in_one_sentence(self, tmp_path: Path, damage: str) -> None:
        done = damage in ("cut metrics", "no model", "bad model")

        def stop(line: dict[str, Any]) -> None:
            if line["round"] == 9 and not done:
                raise KeyboardInterrupt

        try:
            train(settings(), tmp_path, task=quadratic(), on_round=stop)
        except KeyboardInterrupt:
            assert not done
        metrics = tmp_path / "metrics.jsonl"
        lines = metrics.read_text().splitlines(keepends=True)
        if damage == "no record":
            (tmp_path / "record.json").unlink()
        elif damage == "bytes":
            (tmp_path / "record.json").write_bytes(b"\xff\xfe\x00")
        elif damage == "cut metrics":
            metrics.write_text("".join(lines[:4]))
        elif damage == "doubled line":
            metrics.write_text("".join([lines[0], *lines]))
        elif damage == "no model":
            (tmp_path / "model.npz").unlink()
        elif damage == "bad model":
            (tmp_path / "model.npz").write_bytes(b"")
        elif damage == "nan model":
            np.savez(tmp_path / "checkpoint.npz", model=np.full(2, np.nan), average=np.zeros(2), round=10)
        else:
            (tmp_path / "checkpoint.npz").write_bytes(b"")
        with pytest.raises(BadInput) as caught:
            train(settings(), tmp_path, task=quadratic())
        assert "\n" not in str(caught.value)

    def test_two_processes_do_not_share_a_folder(self, tmp_path: Path) -> None:
        with Folder(tmp_path, settings()).held(), pytest.raises(BadInput, match="in use by another process"):
            train(settings(), tmp_path, task=quadratic())

    def test_an_interrupt_waits_for_the_round_and_is_resumed(self, tmp_path: Path) -> None:
        run = Run(rule=Mean2P(f=2), attack="PGA()", **DIGITS | {"rounds": 400})
        (tmp_path / "run.json").write_text(run.text())
        script = SCRIPT.replace("save=0", "on_round=lambda line: print(line['round'], flush=True)")
        command = [sys.executable, "-c", script, str(tmp_path / "run.json"), str(tmp_path / "cut")]
        with started(command, stdout=subprocess.PIPE) as process:
            assert process.stdout
            while int(process.stdout.readline()) < 9:
                pass
            process.send_signal(signal.SIGINT)
            rest = [int(line) for line in process.stdout]
        kept = (tmp_path / "cut/metrics.jsonl").read_text().splitlines()
        assert len(kept) == (rest[-1] if rest else 9) + 1
        state = State.load(tmp_path / "cut/checkpoint.npz", State.first(run, Workers(run)))
        assert state.round == len(kept)

    def test_kill_at_a_random_round_loses_nothing(self, tmp_path: Path) -> None:
        run = Run(rule=Mean2P(f=2), attack="PGA()", **DIGITS | {"rounds": 40})
        record = tmp_path / "run.json"
        record.write_text(run.text())
        whole = train(run, tmp_path / "whole")
        wanted = random.SystemRandom().randint(2, 35)
        metrics, words = tmp_path / "cut" / "metrics.jsonl", [str(record), str(tmp_path / "cut")]
        stays = "on_round=lambda line: time.sleep(10**6) if line['round'] == 38 else None"  # it does not end by itself
        with started([sys.executable, "-c", SCRIPT.replace("save=0", f"save=0, {stays}"), *words]) as process:
            wait_until(lambda: metrics.exists() and metrics.read_text().count("\n") >= wanted, "its round", process)
        assert not (tmp_path / "cut" / "done").exists()
        command = [sys.executable, "-c", SCRIPT, *words]
        subprocess.run(command, check=True)
        assert metrics.read_text() == (tmp_path / "whole/metrics.jsonl").read_text(), f"killed at round {wanted}"
        with np.load(tmp_path / "cut/model.npz") as mine:
            np.testing.assert_array_equal(mine["last"], whole.model)
            np.testing.assert_array_equal(mine["average"], whole.average)


def test_a_record_of_a_rule_that_nobody_knows_is_read_and_not_carried_out() -> None:
    from holdfast.training.own import named

    for record in ({"rule": "MeanwOO(f=2)"}, {"rule": "CWM()", "attack": "Whisper(z=1)"}):
        run = Run.of(named(record))
        assert run.record() | record == run.record()
        with pytest.raises(BadInput, match="is in no catalogue here; import its class"):
            train(run)


def test_a_proximal_margin_is_part_of_the_record_and_changes_the_election() -> None:
    """Heterogeneous quadratics: without a margin liars have Outer elected, with a large one Inner always wins."""
    shifts = np.random.default_rng(0).normal(size=(7, 3))

    def winners(proximal: float) -> list[str | None]:
        election = f", election=Numeric(proximal={proximal})" if proximal else ", election=Numeric()"
        run = Run(
            rule=f"TwoPhase(inner=MeanwO(f=2), outer=OuterMean(f=2){election})",
            attack="MinMax()",
            workers=7,
            byzantine=2,
            rounds=12,
            lr=0.2,
        )
        assert Run.of(run.record()) == run
        task = Functions(
            workers=7,
            first=np.ones(3),
            update=lambda worker, model, t: model - shifts[worker],
            loss=lambda worker, model, t: float(0.5 * np.square(model - shifts[worker]).sum()),
        )
        return [one.winner for one in two_phase_rashb(run, task)]

    assert "outer" in winners(0.0)
    assert set(winners(1e6)) == {"inner"}


@pytest.mark.parametrize("schedule", ["Steps(every=1, scale=0.0)", "Steps(every=1, scale=1e200)"])
def test_a_rate_of_zero_or_without_end_does_not_stop_a_vote_with_a_margin(schedule: str) -> None:
    rule = "TwoPhase(inner=MeanwO(f=2), outer=OuterMean(f=2), election=Numeric(proximal=0.25))"
    run = Run(rule=rule, attack="SignFlip()", workers=5, byzantine=2, rounds=3, schedule=schedule)
    task = Functions(workers=5, first=np.zeros(2), update=lambda *_: np.ones(2), loss=lambda *_: 1.0)
    assert [one.winner for one in two_phase_rashb(run, task)] == ["inner"] * 3


def test_the_margin_is_that_of_the_models_that_are_voted_on() -> None:
    """Inner's step is rejected and Outer's is not: the models differ by a whole step, the aggregates hardly."""
    rows = np.array([[1.0], [1.0], [1.02], [0.9], [0.9]])
    rule = "TwoPhase(inner=MeanwO(f=2), outer=OuterMean(f=2), election=Numeric(proximal=0.25))"
    run = Run(rule=rule, workers=5, byzantine=0, rounds=1, lr=1.0, momentum=0.0, reject=0.96)
    gain = 0.1  # above c γ ‖R - Q‖² = 0.001, below (c/γ) ‖θ_O - θ_I‖² = 0.22
    task = Functions(
        workers=5,
        first=np.zeros(1),
        update=lambda worker, model, t: rows[worker],
        loss=lambda worker, model, t: 1.0 - gain * bool(model[0] < -0.5),
    )
    assert [one.winner for one in two_phase_rashb(run, task)] == ["inner"]
