"""Rules as text."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from holdfast import NNM, Average, BadInput, Clip, GeometricMedian, Krum, MeanwO, MultiKrum, parse
from holdfast.rules import CATALOGUE
from holdfast.rules.base import Chain, DistanceRule, value
from tests.rules_under_test import RULES


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_rule_is_its_text(rule: object) -> None:
    assert parse(repr(rule)) == rule
    assert hash(parse(repr(rule))) == hash(rule)
    assert pickle.loads(pickle.dumps(rule)) == rule


def test_the_text_names_only_what_differs_from_the_defaults() -> None:
    assert repr(NNM(3) >> Krum(3)) == "NNM(f=3) >> Krum(f=3)"
    assert repr(MultiKrum(2, 5, squared=False)) == "MultiKrum(f=2, m=5, squared=False)"
    assert repr(MeanwO(np.int64(3))) == "MeanwO(f=3)"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Average", Average()),
        ("  MeanwO( 3 ) ", MeanwO(3)),
        ("GeometricMedian(iterations=1, floor=1e-5)", GeometricMedian(1, 1e-5)),
        ("Clip(tau=20/35) >> NNM(1) >> Average", Clip(20 / 35) >> NNM(1) >> Average()),
        ("(NNM(1) >> NNM(2)) >> Krum(f=2)", Chain((NNM(1), NNM(2), Krum(2)))),
    ],
)
def test_what_may_be_written(text: str, rule: object) -> None:
    assert parse(text) == rule


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("MeanwO(f=-1)", "MeanwO was given f = -1; f is a whole number, at least 0."),
        ("MeanwO(f=1.5)", "f = 1.5"),
        ("MeanwO(f=True)", "f = True"),
        ("CWTM", "write it as CWTM(f=2)"),
        ("CWTM(1, 2)", "write it as CWTM(f=2)"),
        ("MeanwO(g=3)", "g="),
        ("MeanwO(**{})", "**"),
        ("MeanO(f=3)", "did you mean MeanwO?"),
        ("Zzz()", "known are Average"),
        ("Krum(f=1, others='n')", "n-f-2 and n-f-1"),
        ("Clip(tau=0)", "above 0"),
        ("Clip(tau='x')", "tau = 'x'"),
        ("Clip(tau=1e999)", "tau = inf"),
        ("Clip(tau=1/0)", "is not a rule or a plain value"),
        ("GeometricMedian(floor=-1)", "at least 0"),
        ("__import__('os').system('true')", "is not a rule or a plain value"),
        ("MeanwO(f=open('x'))", "open"),
        ("MeanwO(f=[x for x in y])", "is not a rule"),
        ("lambda: 0", "is not a rule"),
        ("3", "is not a rule"),
        ("", "is no rule"),
        ("MeanwO(f=3", "is no rule"),
        ("MeanwO(f=3) >> ", "is no rule"),
        ("Average() >> NNM(1)", "put it last"),
        ("A" * 3000, "3000 characters"),
        ("Krum(f=1, f=2)", "is not a rule"),
        ("Clip(tau=" + "9" * 400 + "/1)", "is no rule"),
        ("Clip(tau='1.5')", "tau = '1.5'"),
        ("(" * 900 + "Average" + ")" * 900, "is no rule"),
        ("-" * 1500 + "1", "no"),
    ],
)
def test_what_may_not_gets_one_sentence(text: str, said: str) -> None:
    with pytest.raises(BadInput) as error:
        parse(text)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_names_can_come_from_elsewhere() -> None:
    @value
    class Mine(DistanceRule):
        f: int

    assert parse("Mine(f=2)", {"Mine": Mine}) == Mine(2)
    with pytest.raises(BadInput, match="known are Mine"):
        parse("Krum(f=2)", {"Mine": Mine})


def test_only_stages_chain() -> None:
    with pytest.raises(BadInput, match="joins stages"):
        NNM(1) >> 3  # type: ignore[operator]


def test_every_field_is_checked() -> None:
    with pytest.raises(BadInput, match="True or False"):
        parse("CWM(lower='no')")
    with pytest.raises(BadInput, match="ties = 'some'"):
        parse("MeanwO(f=1, ties='some')")


def test_the_catalogue_tells_formula_promise_and_cost() -> None:
    for rule in CATALOGUE.values():
        assert rule.formula
        assert rule.promise
        assert rule.time
        assert rule.__doc__
