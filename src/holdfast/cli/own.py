"""Rules and attacks of one's own on the command line: FILE.py:RULE or MODULE:RULE. This runs the code that is named."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.definitions import is_ours
from holdfast.errors import BadInput
from holdfast.rules.base import Stage
from holdfast.spec import parse, require_rule, unknown
from holdfast.testing.peers import import_code
from holdfast.twophase import AGGREGATORS, TwoPhase

OWN = re.compile(r"\s*(?P<where>.+\.py|[A-Za-z_][\w.]*):(?P<rest>[^:]*)")
NAMES = re.compile(r"([A-Za-z_]\w*)\s*(?=\(|>>|$)")
HELP = "FILE.py:RULE or MODULE:RULE runs the code of a file or module of your own"
BASES = {"rule": ("DistanceRule", "holdfast.rules.base"), "attack": ("Attack", "holdfast.attacks")}


def parse_own(
    text: str,
    catalogue: Mapping[str, Any] | None = None,
    kind: str = "rule",
    base: type | tuple[type, ...] = (Stage, TwoPhase),
) -> Any:
    """Read a rule from its text; before a colon, the text may name a file or a module that defines classes of its own.

    Parameters
    ----------
    text
        Such as "MeanwO(f=4)", "my_rules.py:Crowd(f=4)" or "NNM(f=4) >> package.rules:Crowd(f=4)".
    catalogue, kind
        As for `holdfast.spec.parse`.
    base
        What the classes inherit from.

    Raises
    ------
    BadInput
        If there is no such file, module or name, or if its code raises.
    """
    known = AGGREGATORS if catalogue is None else catalogue
    stages = [(OWN.fullmatch(stage), stage) for stage in text.split(">>")]
    places = [found["where"].strip() for found, _ in stages if found]
    if not places:
        return parse(text, known, kind)
    own = {name: one for where in places for name, one in _classes(where, kind, base).items()}
    rest = ">>".join(found["rest"] if found else stage for found, stage in stages)
    for name in NAMES.findall(rest):
        if name not in own and name not in known:
            raise BadInput(_unknown(name, places, own, kind))
    return parse(rest, {**known, **own}, kind)


def names_code(text: object) -> bool:
    """Whether a text names a file or module, as my_rules.py:Crowd(f=4) does."""
    return isinstance(text, str) and any(OWN.fullmatch(stage) for stage in text.split(">>"))


def _classes(where: str, kind: str, base: type | tuple[type, ...]) -> dict[str, type]:
    """The rules or attacks of a file or module, which is imported."""
    make_importable(where)
    defined = vars(import_code(where)).items()
    found = {name: one for name, one in defined if isinstance(one, type) and issubclass(one, base)}
    if not any(is_mine(one, where) for one in found.values()):
        parent, module = BASES[kind.partition(" ")[0]]
        raise BadInput(f"{where} defines no {kind}; write a class that inherits from {parent} of {module}.")
    return found


def is_mine(one: type, where: str) -> bool:
    """Whether a class is the file's own, and not one of ours that it imports."""
    return is_ours(one) <= where.startswith("holdfast")


def _unknown(name: str, places: list[str], own: Mapping[str, type], kind: str) -> str:
    """The sentence about a name that is no class of these files; a function is called that."""
    parent, module = BASES[kind.partition(" ")[0]]
    for where in places:
        if hasattr(code := import_code(where), name):
            member = getattr(code, name)
            what = "class" if isinstance(member, type) else type(member).__name__
            return f"{name} of {where} is a {what}, no {kind}; write a class that inherits from {parent} of {module}."
    mine = [one for one in own if any(is_mine(own[one], where) for where in places)]
    return unknown(name, mine, f"{kind} of {' and '.join(places)}")


def parse_own_rule(text: str) -> Stage:
    """The same for a rule that answers by itself; a rule of two phases is refused with a sentence."""
    return require_rule(parse_own(text), text)


def make_importable(where: str) -> None:
    """Let this process import what lies beside the file, or in the current folder, as `python` does for a script."""
    folder = str((Path(where).parent if where.endswith(".py") else Path()).resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
