"""Rules as text: parse("NNM(f=3) >> Krum(f=3)") is the value whose repr that is. Nothing is evaluated."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from holdfast.errors import BadInput
from holdfast.rules import CATALOGUE

LONGEST = 2000


def parse(text: str, catalogue: Mapping[str, type[Any]] | None = None) -> Any:
    """The rule that a text names; names come from the catalogue, values are plain literals.

    >>> parse("MeanwO(f=3)")
    MeanwO(f=3)
    >>> parse("MeanwO(3)") == parse("MeanwO( f = 3 )")
    True
    """
    known = CATALOGUE if catalogue is None else catalogue
    if not isinstance(text, str):
        raise BadInput(f"{text!r} is no text; write a rule as MeanwO(f=3).")
    if len(text) > LONGEST:
        raise BadInput(f"a rule of {len(text)} characters was given; write at most {LONGEST}.")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        return _value(tree, text, known, top=True)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{text!r} is no rule; write one as MeanwO(f=3) or NNM(f=3) >> Krum(f=3).") from None


def _value(node: ast.expr, text: str, known: Mapping[str, type[Any]], top: bool = False) -> Any:
    match node:
        case ast.BinOp(left=left, op=ast.RShift(), right=right):
            return _value(left, text, known, True) >> _value(right, text, known, True)
        case ast.Name(id=name) if top:
            return _build(name, [], {}, known)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=words) if len({w.arg for w in words}) == len(words):
            return _build(
                name,
                [_value(a, text, known) for a in args],
                {w.arg or "**": _value(w.value, text, known) for w in words},
                known,
            )
        case ast.Constant(value=value) if not top and (value is None or isinstance(value, (bool, int, float, str))):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)) if not top:
            return -value
        case ast.BinOp(ast.Constant(int() | float() as a), ast.Div(), ast.Constant(int() | float() as b)) if b:
            return a / b  # z=20/35 reads better than its decimals
    raise BadInput(f"{ast.unparse(node)!r} in {text!r} is not a rule or a plain value; write one as MeanwO(f=3).")


def unknown(name: str, known: Iterable[str]) -> str:
    """What is said of a name that nobody knows."""
    folded = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), folded, 1, 0.5)
    hint = f"did you mean {folded[close[0]]}? " if close else ""
    return f"{name} is no known rule; {hint}known are {', '.join(folded.values())}."


def _build(name: str, args: list[Any], words: dict[str, Any], known: Mapping[str, type[Any]]) -> Any:
    if name not in known:
        raise BadInput(unknown(name, known))
    rule = known[name]
    names = [field.name for field in fields(rule) if field.init]
    wanted = f"{name}({', '.join(names)})"
    for word in words:
        if word not in names:
            raise BadInput(f"{name} was given {word}=, which it does not have; it is {wanted}.")
    try:
        return rule(*args, **words)
    except TypeError:
        raise BadInput(f"{name} was given values that do not fit; write it as {wanted}.") from None
