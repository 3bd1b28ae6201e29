"""The mistakes of those who write their first rule or attack: each is one sentence that says what would work."""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import numpy as np
import pytest

from holdfast import Average, BadInput, BrokenRule
from holdfast.attacks import Attack, View
from holdfast.rules.base import CoordinateRule, DistanceRule, Mixing, Stage, Tolerance, value
from holdfast.training import Functions, Run, train

X = np.vstack([np.random.default_rng(0).normal(size=(6, 3)), 9 * np.ones((1, 3))])
DECORATE = "write @value above the class (from holdfast.values import value)."


def even(D: Any) -> Any:
    return np.full(len(D), 1 / len(D))


def sentence(make: Any) -> str:
    with pytest.raises(BadInput) as error:
        make()
    assert "\n" not in str(error.value)
    return str(error.value)


class TestNoDecorator:
    def test_a_rule_without_value_is_no_bare_type_error(self) -> None:
        class Crowd(DistanceRule):
            f: Tolerance

            def weights(self, D: Any, rng: Any = None) -> Any:
                return even(D)

        for make in (lambda: Crowd(f=1), lambda: Crowd(1), Crowd):  # type: ignore[call-arg]
            assert sentence(make) == f"Crowd has the field f and no @value; {DECORATE}"

    def test_a_default_without_value_does_not_lose_the_tolerance(self) -> None:
        class Crowd(DistanceRule):
            f: Tolerance = 1
            scale: float = 2.0
            kind: ClassVar[str] = "mine"

        assert sentence(Crowd) == f"Crowd has the fields f and scale and no @value; {DECORATE}"

    def test_values_without_fields(self) -> None:
        class Crowd(DistanceRule):
            pass

        assert sentence(lambda: Crowd(f=1)).startswith("Crowd was given values and has no fields; declare each")  # type: ignore[call-arg]

    def test_an_init_of_ones_own_does_not_hide_fields(self) -> None:
        class Crowd(DistanceRule):
            def __init__(self, f: int) -> None:
                object.__setattr__(self, "f", f)

        assert sentence(lambda: Crowd(1)).startswith("Crowd has an __init__ of its own; declare each field")
        assert sentence(lambda: value(Crowd)).startswith("Crowd has an __init__ of its own; declare each field")

    def test_a_rule_without_fields_needs_no_decorator(self) -> None:
        assert Plain() == Plain() == pickle.loads(pickle.dumps(Plain()))
        np.testing.assert_allclose(Plain()(X), X.mean(axis=0))

    def test_attacks_alike(self) -> None:
        class Drift(Attack):
            scale: float = 2.0

        assert sentence(lambda: Drift(scale=3.0)) == f"Drift has the field scale and no @value; {DECORATE}"  # type: ignore[call-arg]


class Plain(DistanceRule):
    """The mean, without a decorator."""

    def weights(self, D: Any, rng: Any = None) -> Any:
        return even(D)


class TestMethods:
    def test_weights_without_rng(self) -> None:
        def define() -> None:
            class Crowd(DistanceRule):
                def weights(self, D: Any) -> Any:  # type: ignore[override]
                    return even(D)

        assert sentence(define) == "Crowd.weights takes (self, D); write it as def weights(self, D, rng=None)."

    def test_weights_without_self(self) -> None:
        def define() -> None:
            class Crowd(DistanceRule):
                def weights(D: Any, rng: Any = None) -> Any:  # type: ignore[override] # noqa: N805
                    return even(D)

        assert sentence(define) == "Crowd.weights takes (D, rng=None); write it as def weights(self, D, rng=None)."

    def test_other_kinds_alike(self) -> None:
        def mixes() -> None:
            class Mixes(Mixing):
                def mix(self, D: Any) -> Any:  # type: ignore[override]
                    return np.eye(len(D))

        def columns() -> None:
            class Columns(CoordinateRule):
                def columns(self, block: Any, rng: Any) -> Any:  # type: ignore[override]
                    return block.mean(axis=0)

        def sends() -> None:
            class Sends(Attack):
                def __call__(self) -> Any:  # type: ignore[override]
                    return None

        assert sentence(mixes) == "Mixes.mix takes (self, D); write it as def mix(self, D, rng=None)."
        assert sentence(columns) == "Columns.columns takes (self, block, rng); write it as def columns(self, block)."
        assert sentence(sends) == "Sends.__call__ takes (self); write it as def __call__(self, seen)."

    def test_a_field_cannot_take_the_name_of_a_property(self) -> None:
        def sends() -> None:
            @value
            class Sends(Attack):
                kind: str

        assert sentence(sends) == "Sends has a field kind, a name that every such class has; call it otherwise."

    def test_names_of_arguments_are_free_and_more_may_have_defaults(self) -> None:
        @value
        class Free(DistanceRule):
            def weights(self, squared: Any, generator: Any = None, power: float = 1.0) -> Any:
                return even(squared)

            def helper(self, anything: Any, more: Any) -> None: ...

        np.testing.assert_allclose(Free()(X), X.mean(axis=0))

    def test_a_rule_that_forgot_its_method_is_told_which(self) -> None:
        @value
        class Crowd(DistanceRule):
            f: Tolerance

            def weight(self, D: Any, rng: Any = None) -> Any:
                return even(D)

        with pytest.raises(
            BrokenRule, match=r"^Crowd does not say how it weighs; define weights\(self, D, rng=None\)\.$"
        ):
            Crowd(1)(X)

    def test_weights_as_a_list_work(self) -> None:
        @value
        class Listed(DistanceRule):
            def weights(self, D: Any, rng: Any = None) -> Any:
                return even(D).tolist()

        np.testing.assert_allclose(Listed().decide(X).value, X.mean(axis=0))

    def test_shares_as_a_list_work_and_others_are_one_sentence(self) -> None:
        @value
        class Columns(CoordinateRule):
            answer: Any = None

            def columns(self, block: Any) -> Any:
                return block.mean(axis=0).tolist()

            def used(self, block: Any) -> Any:
                return [1.0] * len(block) if self.answer is None else self.answer

        np.testing.assert_allclose(Columns().decide(X).weights, np.ones(7))
        for wrong in ([1.0], [[1.0], [1.0, 2.0]], "all", 3):
            with pytest.raises(BrokenRule, match=r"told whom it used .*; the contract asks for one share a row"):
                Columns(wrong).decide(X)

    def test_a_bare_stage_ends_a_training_instead_of_skipping_every_round(self) -> None:
        @value
        class Bare(Stage):
            def weights(self, D: Any, rng: Any = None) -> Any:
                return even(D)

        task = Functions(workers=7, first=np.zeros(3), update=lambda worker, model, t: model - X[worker])
        with pytest.raises(BrokenRule, match=r"^Bare\(\) is no rule that can answer; make it a DistanceRule"):
            train(Run(rule=Bare(), workers=7, rounds=2), task=task)


class TestFields:
    def test_f_without_an_annotation_is_no_rule_without_f(self) -> None:
        def define() -> None:
            class Crowd(DistanceRule):
                f = 1

        assert sentence(define) == "Crowd has f = 1 without an annotation; write f: Tolerance = 1."

    def test_a_missing_field_says_how_to_declare_it(self) -> None:
        @value
        class Crowd(DistanceRule):
            scale = 2.0

        given: Any = Crowd
        wanted = "Crowd was given f=, which it does not have; declare it in the class, as in f: Tolerance."
        assert sentence(lambda: given(f=1)) == wanted
        wanted = (
            "Crowd was given scale=, which it does not have; annotate scale in the class, as in scale: float = 2.0."
        )
        assert sentence(lambda: given(scale=1.0)) == wanted
        ours: Any = Average
        assert sentence(lambda: ours(f=1)) == "Average was given f=, which it does not have; it is Average()."

    def test_fields_in_a_wrong_order_name_the_class(self) -> None:
        def define() -> None:
            @value
            class Crowd(DistanceRule):
                scale: float = 1.0
                f: Tolerance  # type: ignore[misc]

        assert sentence(define).startswith("Crowd cannot be a value: non-default argument 'f' follows default argument")

    def test_vectors_in_the_place_of_f_are_one_line(self) -> None:
        given: Any = Doubled
        assert sentence(lambda: given(X)).startswith("Doubled was given f = array([[")


@value
class Doubled(Attack):
    """Twice the own rows."""

    f: Tolerance = 0

    def __call__(self, seen: View) -> Any:
        return 2 * seen.own
