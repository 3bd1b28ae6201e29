"""Rules and attacks of somebody's own, as a record has them: by their text, when nobody here knows the name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from holdfast.attacks import NAMED, Attack
from holdfast.errors import BadInput
from holdfast.rules.base import Stage
from holdfast.training.run import Run
from holdfast.twophase import AGGREGATORS
from holdfast.values import value


@value
class OwnRule(Stage):
    """A rule that is in no catalogue; reports show it, and nobody can call it."""

    text: str

    def __repr__(self) -> str:
        return self.text


@value
class OwnAttack(Attack):
    """An attack that is in no catalogue; likewise."""

    text: str

    def __repr__(self) -> str:
        return self.text

    def written(self) -> str:
        return self.text


KINDS: dict[str, tuple[Mapping[str, Any], Any]] = {"rule": (AGGREGATORS, OwnRule), "attack": (NAMED, OwnAttack)}


def named(record: dict[str, Any]) -> dict[str, Any]:
    """The record with a value in the place of a text that names something unknown.

    >>> named({"rule": "MyRule(f=2)", "attack": "SignFlip()"})
    {'rule': MyRule(f=2), 'attack': 'SignFlip()'}
    """
    out = dict(record)
    for name, (known, own) in KINDS.items():
        text = out.get(name)
        names = re.findall(r"\b([A-Za-z_]\w*)\s*\(", text) if isinstance(text, str) else []
        if names and not set(names) <= set(known):
            out[name] = own(text)
    return out


def known(run: Run) -> None:
    """Refuse to carry out a run of something that is known by its text alone."""
    for name in KINDS:
        if isinstance(value := getattr(run, name), OwnRule | OwnAttack):
            raise BadInput(f"{value!r} is in no catalogue here; import its class and give the Run a value of it.")
