"""A rule that breaks its contract is refused with a sentence that names it; a rule that keeps it works everywhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.serverapp.strategy import Result

from holdfast import (
    CWM,
    MDA,
    NNM,
    Average,
    BadInput,
    Bucketing,
    DnC,
    Krum,
    Mean2P,
    MeanwO,
    NearestTo,
    OuterMean,
    StreamCenterwO,
    TwoPhase,
)
from holdfast.choice import Choice
from holdfast.driver import decide
from holdfast.engines.flower import LocalGrid, RobustStrategy, make_record
from holdfast.errors import BrokenRule
from holdfast.reading import read
from holdfast.rules.base import CoordinateRule, DistanceRule, Distances, Mixing, OnePass, Rng, Stage, value
from holdfast.sight import Sight
from holdfast.training import train
from tests.shelves import LIBRARIES, given, held, numbers
from tests.test_fail_closed import QUIET, clients, first
from tests.test_sharded import job, results
from tests.test_training import quadratic, settings

EVERYWHERE = pytest.mark.parametrize("library", LIBRARIES, indirect=True)
X = np.random.default_rng(0).normal(size=(6, 4))
EVEN = np.full(6, 1 / 6)
ANSWERS: dict[str, Any] = {}  # what the rules below answer with, by a name that is a field of theirs


@value
class Weighs(DistanceRule):
    """Answers with the weights of a name."""

    answer: str

    def weights(self, D: Distances, rng: Rng | None = None) -> Any:
        return ANSWERS[self.answer]


@value
class Mixes(Mixing):
    """Answers with the matrix of a name."""

    answer: str

    def mix(self, D: Distances, rng: Rng | None = None) -> Any:
        return ANSWERS[self.answer]


@value
class Columns(CoordinateRule):
    """Answers with a function of the means, by name."""

    answer: str
    f: int = 0

    def columns(self, block: Any) -> Any:
        return ANSWERS[self.answer](block.mean(axis=0))

    def used(self, block: Any) -> Any:
        return np.ones(len(block))


def named(monkeypatch: pytest.MonkeyPatch, answer: object) -> str:
    """A name for an answer."""
    monkeypatch.setitem(ANSWERS, "it", answer)
    return "it"


WRONG_WEIGHTS: dict[str, tuple[Any, str]] = {
    "NaN": (np.full(6, np.nan), "weights that are not finite; the contract asks for finite ones."),
    "one NaN": (np.r_[np.nan, np.full(5, 0.2)], "weights that are not finite"),
    "inf": (np.r_[np.inf, np.zeros(5)], "weights that are not finite"),
    "inf of both signs": (np.r_[np.inf, -np.inf, 1.0, np.zeros(3)], "weights that are not finite"),
    "behind a mask": (np.ma.masked_invalid(np.r_[np.nan, np.full(5, 0.2)]), "weights that are not finite"),
    "too short": (np.full(5, 0.2), "weights of shape (5,) and type float64; the contract asks for real numbers of"),
    "too long": (np.full(7, 1 / 7), "weights of shape (7,)"),
    "a column": (EVEN[:, None], "weights of shape (6, 1)"),
    "a row": (EVEN[None], "weights of shape (1, 6)"),
    "a number": (1.0, "weights of shape ()"),
    "nothing": (None, "None; the contract asks"),
    "a text": ("even", "weights of shape ()"),
    "a dict": ({}, "weights of shape () and type object"),
    "twice one": (2 * EVEN, "weights that sum to 2; the contract asks for a sum of 1."),
    "zero": (np.zeros(6), "weights that sum to 0;"),
    "nearly one": (EVEN * (1 + 1e-4), "weights that sum to 1.0001;"),
    "beyond floats": (np.r_[1e308, 1e308, -1e308, -1e308, 1.0, 0.0], "weights that sum to inf;"),
    "complex": (EVEN + 0j, "weights of shape (6,) and type complex128"),
    "objects": (EVEN.astype(object), "weights of shape (6,) and type object"),
    "truth values": (np.arange(6) == 0, "weights of shape (6,) and type bool"),
    "ragged": ([[1.0], [0.5, 0.5]], "a list that is no array; the contract asks for real numbers of shape (6,)."),
    "a tensor with a history": (torch.full((6,), 1 / 6, requires_grad=True), "a Tensor that is no array;"),
    "a Choice of NaN": (Choice(np.full(6, np.nan)), "weights that are not finite"),
    "a Choice too short": (Choice(np.full(5, 0.2)), "weights of shape (5,)"),
    "a Choice of twice one": (Choice(2 * EVEN, cost=1.0), "weights that sum to 2;"),
}
RIGHT_WEIGHTS: dict[str, Any] = {
    "float64": EVEN,
    "float32": EVEN.astype(np.float32),
    "rounded": EVEN * (1 + 1e-9),
    "whole numbers": np.array([0, 0, 1, 0, 0, 0]),
    "a list": [1 / 6] * 6,
    "a tuple": (0.5, 0.5, 0, 0, 0, 0),
    "a tensor": torch.full((6,), 1 / 6, dtype=torch.float64),
    "negative ones": np.array([2.0, -1.0, 0.0, 0.0, 0.0, 0.0]),
    "a Choice": Choice(EVEN, cost=1.0),
    "a Choice of a list": Choice([1 / 6] * 6),  # type: ignore[arg-type]
}


class TestWeights:
    @pytest.mark.parametrize("name", WRONG_WEIGHTS)
    def test_wrong_weights_are_refused_with_a_sentence_that_names_the_rule(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answer, said = WRONG_WEIGHTS[name]
        rule = Weighs(named(monkeypatch, answer))
        for ask in (rule, rule.decide, NNM(1) >> rule, lambda X: TwoPhase(MeanwO(1), rule).propose(X)):
            with pytest.raises(BrokenRule) as refused:
                ask(X)
            assert str(refused.value).startswith(f"Weighs(answer='it') answered with {said}")

    @pytest.mark.parametrize("name", RIGHT_WEIGHTS)
    def test_right_weights_are_taken_in_any_form(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        answer = RIGHT_WEIGHTS[name]
        decision = Weighs(named(monkeypatch, answer)).decide(X)
        w = np.asarray(answer.weights if isinstance(answer, Choice) else answer, float)
        np.testing.assert_allclose(decision.value, w @ X, rtol=1e-6)
        assert decision.weights.dtype == np.float64

    def test_a_broken_rule_is_no_bad_input(self) -> None:
        assert not issubclass(BrokenRule, BadInput)

    def test_a_rule_that_is_scaled_is_named_as_it_was_given(self) -> None:
        @value
        class Within(DistanceRule):
            tau: float
            lengths = ("tau",)

            def weights(self, D: Distances, rng: Rng | None = None) -> np.ndarray:
                return np.zeros(len(D))

        with pytest.raises(BrokenRule, match=r"^Within\(tau=2.0\) answered with weights that sum to 0;"):
            Within(2.0)(X * 1e250)

    def test_dropped_rows_do_not_count_in_the_length(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rule, spoiled = Weighs(named(monkeypatch, EVEN)), X.copy()
        spoiled[1] = np.nan
        with pytest.raises(BrokenRule, match=r"of shape \(6,\) .* real numbers of shape \(5,\)"):
            rule(spoiled)


class TestMixing:
    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            (np.eye(6) * np.nan, "weights that are not finite"),
            (
                np.eye(6)[:5],
                "weights of shape (5, 6) and type float64; the contract asks for real numbers of shape (6, 6)",
            ),
            (np.eye(6)[:, :5], "weights of shape (6, 5)"),
            (EVEN, "weights of shape (6,)"),
            (np.eye(6) + 0j, "weights of shape (6, 6) and type complex128"),
            (2 * np.eye(6), "weights that sum to 2;"),
            (np.diag([1.0, 1.0, 1.0, 0.5, 1.0, 1.0]), "weights that sum to 0.5;"),
            (None, "None; the contract asks"),
            ([[1.0], [0.5, 0.5]], "a list that is no array;"),
        ],
        ids=["NaN", "few rows", "few columns", "a row", "complex", "twice one", "one row", "nothing", "ragged"],
    )
    @pytest.mark.parametrize("last", [Average(), CWM(), MeanwO(1)], ids=repr)
    def test_wrong_rows_are_refused(self, answer: Any, said: str, last: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(BrokenRule) as refused:
            (Mixes(named(monkeypatch, answer)) >> last)(X)
        assert str(refused.value).startswith(f"Mixes(answer='it') answered with {said}")

    @pytest.mark.parametrize("form", [np.asarray, np.ndarray.tolist, torch.from_numpy], ids=["array", "list", "tensor"])
    def test_right_rows_are_taken_in_any_form(
        self, form: Callable[[np.ndarray], Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        M = np.eye(6) / 2 + 1 / 12
        chain = Mixes(named(monkeypatch, form(M))) >> CWM()
        np.testing.assert_allclose(chain(X), np.median(M @ X, axis=0))


WRONG_COLUMNS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "too few": (lambda means: means[1:], "answered 4 columns with an array of shape (3,) and type float"),
    "twice": (lambda means: np.concatenate([means, means]), "answered 4 columns with an array of shape (8,)"),
    "a row": (lambda means: means[None], "answered 4 columns with an array of shape (1, 4)"),
    "a number": (lambda means: 1.0, "answered 4 columns with an array of shape () and type float64"),
    "nothing": (lambda means: None, "answered 4 columns with an array of shape () and type object"),
    "a text": (lambda means: "mean", "answered 4 columns with an array of shape ()"),
    "ragged": (
        lambda means: [[1.0], [1.0, 2.0]],
        "answered 4 columns with a list; the contract asks for one real number",
    ),
    "complex": (lambda means: means * 1j, "answered 4 columns with an array of shape (4,) and type complex"),
    "objects": (lambda means: means.astype(object), "answered 4 columns with an array of shape (4,) and type object"),
    "NaN": (lambda means: means * np.nan, "answered finite columns with numbers that are not finite."),
    "one inf": (lambda means: np.where(means == means.max(), np.inf, means), "answered finite columns with numbers"),
    "beyond float32": (lambda means: means.astype(float) + 1e300, "answered finite columns with numbers"),
}


class TestColumns:
    @EVERYWHERE
    @pytest.mark.parametrize("name", WRONG_COLUMNS)
    def test_wrong_columns_are_refused_with_a_sentence_that_names_the_rule(
        self, name: str, library: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answer, said = WRONG_COLUMNS[name]
        rule = Columns(named(monkeypatch, answer))
        rows = given(X.astype(np.float32), library)
        for ask in (rule, rule.decide, NNM(1) >> rule, NearestTo(rule)):
            with pytest.raises(BrokenRule) as refused:
                ask(rows)
            assert str(refused.value).startswith(f"Columns(answer='it') {said}")

    @EVERYWHERE
    @pytest.mark.parametrize("form", [np.asarray, np.ndarray.tolist, lambda means: means.astype(float)])
    def test_right_columns_are_taken_in_any_form(
        self, form: Callable[[np.ndarray], Any], library: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answer = Columns(named(monkeypatch, form))(given(X.astype(np.float32), library))
        assert type(answer) is type(given(X, library))
        assert str(answer.dtype).endswith("float32")
        np.testing.assert_allclose(numbers(answer), X.mean(axis=0), rtol=1e-5, atol=1e-6)

    def test_a_device_rule_that_answers_with_no_array_is_refused(self) -> None:
        @value
        class Listed(CoordinateRule):
            portable = True

            def columns(self, block: Any) -> Any:
                return [0.0] * int(block.shape[1])

        assert (Listed()(X) == 0).all()
        with pytest.raises(BrokenRule, match=r"Listed\(\) answered 4 columns with a list;"):
            Listed()(given(X, "strict device1"))

    @EVERYWHERE
    def test_a_rule_written_for_numpy_sees_finite_blocks_of_numpy_alone(self, library: str) -> None:
        seen: list[Any] = []

        @value
        class Watching(CoordinateRule):
            def columns(self, block: Any) -> Any:
                seen.append(block)
                return block.max(axis=0)

        rows = X.copy()
        rows[2, 1] = np.nan
        Watching()(given(rows, library))
        assert all(isinstance(block, np.ndarray) and np.isfinite(block).all() for block in seen)
        assert seen[-1].shape == (5, 4)

    def test_who_does_not_say_whom_it_uses_can_be_called_and_not_explained(self) -> None:
        @value
        class Largest(CoordinateRule):
            def columns(self, block: Any) -> Any:
                return block.max(axis=0)

        np.testing.assert_array_equal(Largest()(X), X.max(axis=0))
        with pytest.raises(BrokenRule, match="Largest does not say whom it uses; define used"):
            Largest().decide(X)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (DistanceRule, "how it weighs"),
        (CoordinateRule, "what it does"),
        (OnePass, "what it does"),
        (Mixing, "how it mixes"),
    ],
)
def test_a_rule_without_its_method_is_named(kind: type[Stage], said: str) -> None:
    made: Any = type("Empty", (kind,), {"__annotations__": {}})
    empty = value(made)()
    with pytest.raises(BrokenRule, match=f"Empty does not say {said}"):
        (empty if empty.answers else empty >> CWM())(X)


class TestOwnRules:
    @EVERYWHERE
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_rules_as_users_write_them_work_in_every_library(self, library: str, dtype: Any) -> None:
        @value
        class Crowd(DistanceRule):
            f: int

            def weights(self, D, rng=None):  # type: ignore[no-untyped-def]
                reach = np.sort(D, axis=1)[:, len(D) - self.f - 1]
                w = (reach <= np.median(reach)).astype(float)
                return w / w.sum()

        @value
        class Middle(CoordinateRule):
            def columns(self, block):  # type: ignore[no-untyped-def]
                return np.median(block, axis=0)

        rows = held(X.astype(dtype), library)
        for rule in (Crowd(f=1), Middle(), NNM(1) >> Middle(), NNM(1) >> Crowd(f=1)):
            answer = rule(given(rows, library))
            assert type(answer) is type(given(rows, library))
            np.testing.assert_allclose(numbers(answer), rule(rows), rtol=1e-4, atol=1e-5)


class TestMass:
    MASS = np.array([1.0, 2.0, 3.0, 0.0, 0.0, 2.0])

    def test_the_average_has_a_weighted_form(self) -> None:
        decision = decide(Average(), read(X, "test", weights=self.MASS))
        np.testing.assert_allclose(decision.weights, self.MASS / 8)
        np.testing.assert_allclose(decision.value, self.MASS @ X / 8)

    def test_dropped_rows_take_their_mass_along(self) -> None:
        rows = X.copy()
        rows[1] = np.inf
        decision = decide(Average(), read(rows, "test", weights=self.MASS))
        np.testing.assert_allclose(decision.weights, np.array([1, 0, 3, 0, 0, 2]) / 6)

    @pytest.mark.parametrize("rule", [DnC(1), Bucketing(2) >> Average(), StreamCenterwO(1), MDA(1)], ids=repr)
    def test_a_rule_without_a_weighted_form_refuses_in_a_sentence(self, rule: Stage) -> None:
        named = {f"{stage!r} has no weighted form; leave the weights out, or take" for stage in rule.stages()}
        even = np.array([2.0, 3.0, 2.0, 2.0, 2.0, 2.0])
        with pytest.raises(BadInput) as refused:
            decide(rule, read(X, "test", weights=even), rng=np.random.default_rng(0))
        assert str(refused.value).partition(" MeanwO, CWTM,")[0] in named

    def test_weights_by_mass_keep_the_contract_too(self) -> None:
        @value
        class Heavy(DistanceRule):
            def weights_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> np.ndarray:
                return mass

        with pytest.raises(BrokenRule, match=r"Heavy\(\) answered with weights that sum to 8;"):
            decide(Heavy(), read(X, "test", weights=self.MASS))


@pytest.mark.parametrize("rng", [0, "seed", np.random.RandomState(0)], ids=["number", "text", "RandomState"])
def test_what_is_no_generator_is_refused_with_what_rng_takes(rng: Any) -> None:
    asks: list[Callable[[], Any]] = [
        lambda: DnC(1)(X, rng=rng),
        lambda: CWM()(X, rng=rng),
        lambda: StreamCenterwO(1)(X, rng=rng),
        lambda: StreamCenterwO(1)(list(X), rng=rng),
        lambda: Mean2P(1).propose(X, rng=rng),
    ]
    for ask in asks:
        with pytest.raises(BadInput) as refused:
            ask()
        assert f"was given rng = {rng!r}; pass rng=numpy.random.default_rng(seed)." in str(refused.value)


class TestMeasuredOnce:
    @pytest.fixture
    def products(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """One entry for every time that points are multiplied with each other."""
        gram, counted = Sight.gram, list[int]()

        def counting(self: Sight, K: np.ndarray, *rest: Any, **words: Any) -> Any:
            counted.append(len(K))
            return gram(self, K, *rest, **words)

        monkeypatch.setattr(Sight, "gram", counting)
        return counted

    def test_two_decisions_on_the_same_updates_measure_once(self, products: list[int]) -> None:
        updates = read(X, "test")
        for rule in (MeanwO(1), MeanwO(1), OuterMean(1), Krum(1)):
            decide(rule, updates)
        assert products == [6]

    def test_two_candidates_measure_once(self, products: list[int]) -> None:
        Mean2P(1).propose(X)
        assert products == [6]

    def test_opting_out_measures_nothing_again(self, products: list[int]) -> None:
        updates = read(np.vstack([X, np.full((2, 4), np.nan)]), "test")
        updates.look()
        decide(Average(), updates)
        for _ in range(2):
            MeanwO(1).decide(updates, on_excess="lower")
        assert products == [6]


class TestTraining:
    @pytest.mark.parametrize("answer", ["NaN", "twice one"])
    def test_a_training_with_a_broken_rule_raises(self, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
        rule: Any = Weighs(named(monkeypatch, WRONG_WEIGHTS[answer][0]))
        for run in (settings(rule=rule), settings(rule=TwoPhase(MeanwO(1), rule))):
            with pytest.raises(BrokenRule, match=r"^Weighs\(answer='it'\) answered with weights"):
                train(run, task=quadratic())

    def test_a_training_with_broken_columns_raises(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(BrokenRule, match=r"^Columns\(answer='it'\) answered 2 columns with"):
            train(settings(rule=Columns(named(monkeypatch, lambda means: means[1:]))), task=quadratic())


def test_a_flower_server_with_a_broken_rule_ends_with_the_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(rule: Stage) -> Result:
        return RobustStrategy(rule, **QUIET).start(LocalGrid(clients(bad=0), 6), make_record(first()), num_rounds=3)

    with pytest.raises(BrokenRule, match=r"^Weighs\(answer='it'\) answered with weights that are not finite"):
        start(Weighs(named(monkeypatch, np.full(6, np.nan))))
    with pytest.raises(BrokenRule, match=r"^Columns\(answer='it'\) answered finite columns with numbers that are not"):
        start(Columns(named(monkeypatch, lambda means: means * np.nan)))


def test_all_ranks_hear_of_a_broken_rule_and_end_with_its_sentence(tmp_path: Path) -> None:
    said = job("breaking", 6, tmp_path, failed=6)
    weights = "PeerWeights() answered with weights that are not finite; the contract asks for finite ones."
    for rank, (by_weights, by_columns) in enumerate(results(tmp_path, 6)):
        assert by_weights == weights
        own = "answered finite columns with numbers that are not finite."
        other = "broke its contract in columns of another process."
        assert by_columns == f"SomeColumns() {own if rank == 3 else other}", "rank 3 has the column of threes"
    assert f"BrokenRule: {weights}" in said
    assert "an exchange failed" not in said


def test_the_command_line_says_it_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from holdfast.cli import main

    def weights(self: Average, D: Distances, rng: Rng | None = None) -> np.ndarray:
        return np.zeros(D.shape[1])

    monkeypatch.setattr(Average, "weights", weights)
    np.save(tmp_path / "rows.npy", X)
    monkeypatch.setattr(sys, "argv", ["holdfast", "aggregate", "Average()", str(tmp_path / "rows.npy")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told == "holdfast: Average() answered with weights that sum to 0; the contract asks for a sum of 1.\n"
