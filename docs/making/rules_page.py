"""The page of the rules, and their pictures: from docstrings, proved constants and the rules' own answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import formulas
import sources

from holdfast.cli.rules import signature
from holdfast.elections import Numeric
from holdfast.guarantees.bounds import bounds
from holdfast.guarantees.criteria import CRITERIA
from holdfast.report import portraits
from holdfast.rules import CATALOGUE, CWTM, NNM, MeanExact, OuterMean
from holdfast.rules.base import Mixing
from holdfast.twophase import Cent2P, Mean2P, TwoPhase

N, F = 35, 7
RULES: dict[str, Any] = {**CATALOGUE, "TwoPhase": TwoPhase, "Mean2P": Mean2P, "Cent2P": Cent2P}
VOTE = {
    "formula": TwoPhase.formula,
    "promise": "Inner's, while Inner is elected; Outer must win the vote",
    "time": "n² d for both candidates together, and the workers' losses at two models",
    "fails": "if [the vote is lost](twophase.md#when-a-vote-is-lost): too few images a voter, or too many liars",
    "source": "Yi et al. 2024, Algorithm 3",
}
BELOW = '<div class="below"></div>'  # what follows stands below the picture
INTRODUCTION = (Path(__file__).parent / "rules.md").read_text(encoding="utf-8")


def pages() -> dict[str, str | bytes]:
    """rules.md and one picture per rule."""
    made: dict[str, str | bytes] = {}
    table = ["| rule | what it returns | promise | time |", "| --- | --- | --- | --- |"]
    sections = []
    for name, rule in RULES.items():
        value = _value(rule)
        made[f"pictures/{name}.svg"] = portraits.rule(value)
        told = VOTE if name not in CATALOGUE else {word: getattr(rule, word) for word in VOTE}
        cells = (told[word] for word in ("formula", "promise", "time"))
        table.append(f"| [`{name}`](#{name.lower()}) | {' | '.join(cells)} |")
        sections.append(_section(name, rule, value, told))
    return made | {"rules.md": "\n\n".join([INTRODUCTION.format(n=N, f=F), "\n".join(table), *sections, ""])}


def _value(rule: Any) -> Any:
    """The rule as the picture shows it."""
    return TwoPhase(MeanExact(3), OuterMean(3), Numeric()) if rule is TwoPhase else portraits.example(rule)


def _section(name: str, rule: Any, value: Any, told: dict[str, str]) -> str:
    """Beside the picture what one wants to know first; below it formula, explanation and example."""
    first, rest = formulas.split(rule.__doc__ or "")
    facts = [
        f"**Promise.** {told['promise']}." + _constants(rule),
        f"**Cost.** {told['time']}.",
        f"**When it fails.** {_begun(told['fails'])}.",
        f"**Source.** {sources.linked(_begun(told['source']))}.",
    ]
    seen = f"![{_seen(name, value)}](pictures/{name}.svg){{ .portrait }}"
    return "\n\n".join([f"## {name}", f"`{signature(rule)}`", seen, first, *facts, BELOW, sources.linked(rest)])


def _begun(words: str) -> str:
    """The words as a sentence begins."""
    return words[0].upper() + words[1:]


def _seen(name: str, value: Any) -> str:
    """What the picture shows, in words."""
    ends = (("Inner's", value.inner), ("Outer's", value.outer)) if isinstance(value, TwoPhase) else (("its", value),)
    if isinstance(value, Mixing):
        ends = (("behind it a trimmed mean's", value >> CWTM(3)),)
    told = (f"{whose} answer is {portraits.distance(one):.2f}" for whose, one in ends)
    return f"{name} on fifteen points: {' and '.join(told)} honest standard deviations from the honest mean"


def _constants(rule: Any) -> str:
    """What is proved for n = 35, f = 7; a stage is looked at in front of a trimmed mean, where that is known."""
    value = _asked(rule)
    if value is None:
        return ""
    cells = ", ".join(f"{CRITERIA[name]} {promise.text}" for name, promise in bounds(value, N, F).items())
    return f" At n = {N} and f = {F} `{value!r}` has {cells}."


def _asked(rule: Any) -> Any:
    if rule is NNM:
        return NNM(F) >> CWTM(F)
    if rule not in CATALOGUE.values() or issubclass(rule, Mixing):
        return None
    return portraits.example(rule, F)
