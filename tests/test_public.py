"""What people type first: namespaces, names of other libraries, arguments that no rule takes, stages by themselves."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest
import torch

import holdfast
from holdfast import (
    _NAMESPACES,
    ARC,
    CWTM,
    NNM,
    BadInput,
    BrokenRule,
    Bucketing,
    Clip,
    HoldfastError,
    Krum,
    Mean2P,
    MeanwO,
    MissingExtra,
    StreamCenterwO,
    TooManyFaults,
    Unwritable,
    parse,
)
from holdfast.attacks import NAMED
from holdfast.elsewhere import NAMES_ELSEWHERE
from holdfast.rules import CATALOGUE
from holdfast.spec import parse_rule
from tests.children import run

X = np.random.default_rng(0).standard_normal((7, 3))


class TestNamespaces:
    @pytest.mark.parametrize("name", [*_NAMESPACES])
    def test_a_namespace_is_there_without_an_import_of_its_own(self, name: str) -> None:
        done = run([sys.executable, "-c", f"import holdfast; print(holdfast.{name}.__name__)"])
        assert done.stdout == f"holdfast.{name}\n"

    @pytest.mark.parametrize("path", ["guarantees.bounds", "experiments.store", "report.plots"])
    def test_a_module_of_a_namespace_is_there_too_and_brings_nothing_heavy(self, path: str) -> None:
        heavy = "sorted({'torch', 'matplotlib', 'flwr', 'ray'} & set(sys.modules))"
        done = run([sys.executable, "-c", f"import sys, holdfast; print(holdfast.{path}.__all__ != [], {heavy})"])
        assert done.stdout == "True []\n"

    @pytest.mark.parametrize("name", ["guarantees", "experiments", "report"])
    def test_a_namespace_lists_its_modules(self, name: str) -> None:
        namespace = getattr(holdfast, name)
        assert set(namespace.__all__) <= set(dir(namespace))
        with pytest.raises(AttributeError, match=f"module 'holdfast.{name}' has no attribute 'nonsense'"):
            _ = namespace.nonsense

    def test_train_and_run_are_at_hand(self) -> None:
        result = holdfast.train(holdfast.Run(rule="MeanwO(f=1)", workers=4, byzantine=1, rounds=2))
        assert result.run.rule == MeanwO(f=1)

    def test_dir_lists_what_is_loaded_late(self) -> None:
        assert {"attacks", "train", "Run", "MeanwO"} <= set(dir(holdfast))

    def test_a_name_that_nobody_knows_is_an_attribute_error(self) -> None:
        with pytest.raises(AttributeError, match="module 'holdfast' has no attribute 'nonsense'"):
            _ = holdfast.nonsense
        assert not hasattr(holdfast, "nonsense")


class TestNamesOfOtherLibraries:
    @pytest.mark.parametrize(("name", "here"), NAMES_ELSEWHERE.items())
    def test_each_leads_to_a_name_here(self, name: str, here: str) -> None:
        assert here in {**CATALOGUE, **NAMED}
        assert name not in {**CATALOGUE, **NAMED}

    def test_an_import_says_the_name_here(self) -> None:
        with pytest.raises(ImportError, match=r"TrMean is named CWTM here; write from holdfast import CWTM\."):
            from holdfast import TrMean  # noqa: F401
        with pytest.raises(ImportError, match=r"FoE is named Empire here; write from holdfast\.attacks"):
            from holdfast import FoE  # noqa: F401

    @pytest.mark.parametrize(
        ("module", "name", "said"),
        [
            ("holdfast.attacks", "SignFlipping", "named Empire here; .*; write from holdfast.attacks import Empire"),
            ("holdfast.attacks", "ALittleIsEnough", "named ALIE here; .*; write from holdfast.attacks import ALIE"),
            ("holdfast.attacks", "InnerProductManipulation", "named Empire here; .* import Empire"),
            (
                "holdfast.attacks",
                "Optimal_ALittleIsEnough",
                r"named PGA here; ByzFL's is PGA\(along='std', thorough=True\)",
            ),
            ("holdfast.rules", "TrMean", "TrMean is named CWTM here; write from holdfast import CWTM"),
            ("holdfast", "Meamed", "Meamed is named MeaMed here; write from holdfast import MeaMed"),
            (
                "holdfast",
                "Clipping",
                r"named Clip here; ByzFL's c=2.0 is Clip\(tau=2.0\); write from holdfast",
            ),
            ("holdfast", "RobustAggregator", r"RobustAggregator is a chain here, as in NNM\(f=2\) >> CWTM\(f=2\)"),
            ("holdfast", "SignFlip", "SignFlip is in holdfast.attacks; write from holdfast.attacks import SignFlip"),
            ("holdfast.rules", "Mean2P", "Mean2P is in holdfast; write from holdfast import Mean2P"),
            ("holdfast.attacks", "Gaussian", r"named Gauss here; .* is Gauss\(sigma=sigma, mu=mu\)"),
        ],
    )
    def test_an_import_from_where_people_look_met_a_plain_import_error(self, module: str, name: str, said: str) -> None:
        with pytest.raises(ImportError, match=said):
            exec(f"from {module} import {name}")
        assert not hasattr(importlib.import_module(module), name)

    def test_hasattr_of_such_a_name_does_not_raise(self) -> None:
        assert not hasattr(holdfast, "TrMean")
        assert getattr(holdfast, "FoE", None) is None
        with pytest.raises(AttributeError, match="TrMean is named CWTM here; write from holdfast import CWTM"):
            _ = holdfast.TrMean

    def test_a_text_says_the_name_here(self) -> None:
        with pytest.raises(BadInput, match=r"^TrMean is named CWTM here\.$"):
            parse("TrMean(f=2)")
        with pytest.raises(BadInput, match=r"^FoE is named Empire here, which is no rule\.$"):
            parse("FoE()")
        with pytest.raises(BadInput, match=r"^foe is named Empire here\.$"):
            parse("foe()", NAMED, "attack")

    def test_a_name_without_an_equal_was_answered_with_a_similar_one(self) -> None:
        with pytest.raises(BadInput, match=r"^Gaussian is named Gauss here; ByzFL's Gaussian\(mu, sigma\) is"):
            parse("Gaussian()", NAMED, "attack")


class TestArguments:
    def test_a_missing_one_is_named(self) -> None:
        with pytest.raises(BadInput, match=r"^Krum needs f; write it as Krum\(f=2\)\.$"):
            Krum()  # type: ignore[call-arg]
        with pytest.raises(BadInput, match=r"^Mean2P needs f; write it as Mean2P\(f=2\)\.$"):
            parse("Mean2P()")
        with pytest.raises(BadInput, match=r"^Mean2P needs f; write it as Mean2P\(f=2\)\.$"):
            Mean2P()  # type: ignore[call-arg]

    def test_a_strange_one_is_named(self) -> None:
        with pytest.raises(BadInput, match=r"^CWTM was given axis=, which it does not have; it is CWTM\(f=2\)\.$"):
            CWTM(f=2, axis=0)  # type: ignore[call-arg]
        with pytest.raises(BadInput, match=r"^CWTM was given f twice; it is CWTM\(f=2\)\.$"):
            CWTM(2, f=2)  # type: ignore[misc]
        with pytest.raises(BadInput, match=r"^CWTM was given 2 values; write it as CWTM\(f=2\)\.$"):
            CWTM(2, 3)  # type: ignore[call-arg]

    def test_a_misspelt_one_was_to_be_left_out(self) -> None:
        with pytest.raises(BadInput, match=r"^MeanwO\(f=2\) was given weight=; did you mean weights=\?$"):
            MeanwO(f=2)(X, weight=[1.0] * len(X))  # type: ignore[call-arg]
        with pytest.raises(
            BadInput, match=r"^Krum was given square=, which it does not have; did you mean squared=\?$"
        ):
            Krum(f=2, square=False)  # type: ignore[call-arg]

    def test_updates_that_are_given_apart_met_a_type_error(self) -> None:
        for rule in (CWTM(f=2), StreamCenterwO(f=2)):
            with pytest.raises(BadInput, match=r"was given 7 arguments; pass all updates as one array or one list\.$"):
                rule(*X)

    def test_a_batch_of_rounds_was_one_vector(self) -> None:
        with pytest.raises(BadInput, match=r"was given n = 1 vector of shape \(9, 5\), which"):
            CWTM(f=2)(np.ones((1, 9, 5)))

    @pytest.mark.parametrize(
        ("name", "meant"),
        [
            ("liars", "byzantine"),
            ("n", "workers"),
            ("learning_rate", "lr"),
            ("batch_size", "batch"),
            ("round", "rounds"),
        ],
    )
    def test_a_run_met_the_type_errors_of_python(self, name: str, meant: str) -> None:
        said = rf"^Run was given {name}=, which it does not have; did you mean {meant}=\?$"
        with pytest.raises(BadInput, match=said):
            holdfast.Run(rule="MeanwO(f=2)", **{name: 2})  # type: ignore[arg-type]
        with pytest.raises(BadInput, match=said):
            holdfast.Run(rule="MeanwO(f=2)").changed(**{name: 2})

    def test_a_run_without_a_rule_or_with_values_by_place_met_them_too(self) -> None:
        with pytest.raises(BadInput, match=r"^Run needs rule; write it as Run\(rule=MeanwO\(f=2\)\)\.$"):
            holdfast.Run()  # type: ignore[call-arg]
        with pytest.raises(BadInput, match=r"^Run was given 1 value; write it as Run\(rule=MeanwO\(f=2\)\), and help"):
            holdfast.Run("MeanwO(f=2)")  # type: ignore[call-arg]

    @pytest.mark.parametrize(("name", "advice"), [("axis", "transpose"), ("device", "move"), ("seed", "rng=")])
    def test_a_call_says_what_to_do_instead(self, name: str, advice: str) -> None:
        with pytest.raises(BadInput, match=rf"^MeanwO\(f=2\) was given {name}=; .*{advice}"):
            MeanwO(f=2)(X, **{name: 0})  # type: ignore[arg-type]

    def test_another_one_is_refused_too(self) -> None:
        with pytest.raises(BadInput, match=r"^MeanwO\(f=2\) was given nonsense=; leave it out\.$"):
            MeanwO(f=2)(X, nonsense=1)  # type: ignore[call-arg]


class TestApply:
    def test_a_stage_gives_its_vectors(self) -> None:
        D = np.square(X[:, None] - X).sum(axis=2)
        nearest = np.argsort(D, axis=1, kind="stable")[:, :5]
        np.testing.assert_allclose(NNM(f=2).apply(X), X[nearest].mean(axis=1))

    def test_a_rule_behind_it_gives_the_same_answer(self) -> None:
        for stage in (NNM(f=2), Clip(tau=1.0), ARC(f=2), Clip(tau=1.0) >> NNM(f=2)):
            np.testing.assert_allclose((stage >> CWTM(f=2))(X), CWTM(f=2)(stage.apply(X)), rtol=1e-12, atol=1e-15)

    def test_fewer_vectors_may_come_out(self) -> None:
        assert Bucketing(s=2).apply(X, rng=np.random.default_rng(0)).shape == (4, 3)

    def test_the_library_and_the_structure_stay(self) -> None:
        made = NNM(f=2).apply(torch.tensor(X))
        assert isinstance(made, torch.Tensor)
        dicts = NNM(f=2).apply([{"a": x} for x in X])
        np.testing.assert_allclose([one["a"] for one in dicts], made.numpy())

    def test_a_row_that_is_not_finite_makes_no_vector(self) -> None:
        bad = X.copy()
        bad[3] = np.nan
        assert NNM(f=2).apply(bad).shape == (6, 3)

    def test_a_rule_is_called_instead(self) -> None:
        with pytest.raises(BadInput, match=r"MeanwO\(f=2\) answers with one vector; call it instead of apply\."):
            MeanwO(f=2).apply(X)

    def test_aggregate_is_a_call(self) -> None:
        assert np.array_equal(MeanwO(f=2).aggregate(X), MeanwO(f=2)(X))


class TestTwoPhases:
    def test_a_text_is_read(self) -> None:
        assert parse("Mean2P(f=3)") == Mean2P(f=3)

    @pytest.mark.parametrize("name", ["__call__", "aggregate", "decide", "apply"])
    def test_a_call_explains_propose_and_elect(self, name: str) -> None:
        with pytest.raises(BadInput, match=r"candidates = rule\.propose\(X\).*rule\.elect\(candidates, reports\)"):
            getattr(Mean2P(f=2), name)(X)

    def test_where_one_rule_is_wanted_both_are_named(self) -> None:
        with pytest.raises(BadInput, match=r"one rule is wanted; take MeanwO\(f=2\) or OuterMean\(f=2\)\."):
            parse_rule("Mean2P(f=2)")
        with pytest.raises(BadInput, match=r"Ballot\(\) is no rule"):
            parse_rule("Ballot()")


def test_all_errors_have_one_base_and_fit_where_python_expects_them() -> None:
    assert issubclass(BadInput, (HoldfastError, ValueError))
    assert issubclass(BrokenRule, HoldfastError)
    assert {TooManyFaults, MissingExtra, Unwritable} <= set(BadInput.__subclasses__())
    assert issubclass(MissingExtra, ImportError)
