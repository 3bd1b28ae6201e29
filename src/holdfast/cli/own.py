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
        Such as "MeanwO(f=4)", "my_rules.py:Crowd(f=4)" or "package.rules:NNM(f=4) >> Crowd(f=4)".
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
    found = OWN.fullmatch(text)
    if found is None:
        return parse(text, known, kind)
    where, rest = found["where"], found["rest"]
    make_importable(where)
    defined = vars(import_code(where)).items()
    own = {name: one for name, one in defined if isinstance(one, type) and issubclass(one, base)}
    mine = [name for name, one in own.items() if is_ours(one) <= where.startswith("holdfast")]
    if not mine:
        parent, module = BASES[kind]
        raise BadInput(f"{where} defines no {kind}; write a class that inherits from {parent} of {module}.")
    for name in NAMES.findall(rest):
        if name not in own and name not in known:
            raise BadInput(unknown(name, mine, f"{kind} of {where}"))
    return parse(rest, {**known, **own}, kind)


def parse_own_rule(text: str) -> Stage:
    """The same for a rule that answers by itself; a rule of two phases is refused with a sentence."""
    return require_rule(parse_own(text), text)


def make_importable(where: str) -> None:
    """Let this process import what lies beside the file, or in the current folder, as `python` does for a script."""
    folder = str((Path(where).parent if where.endswith(".py") else Path()).resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
