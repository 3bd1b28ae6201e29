"""Rules as text: parse("NNM(f=3) >> Krum(f=3)") is the value whose repr that is. Nothing is evaluated."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import signature
from typing import Any

from holdfast.errors import BadInput, article
from holdfast.rules import CATALOGUE

LONGEST = 2000


def parse(text: str, catalogue: Mapping[str, Any] | None = None, kind: str = "rule") -> Any:
    """The rule that a text names; names come from the catalogue, values are plain literals.

    With another catalogue it reads other values: attacks, splits, elections; `kind` is what errors call them.

    >>> parse("MeanwO(f=3)")
    MeanwO(f=3)
    >>> parse("MeanwO(3)") == parse("MeanwO( f = 3 )")
    True
    """
    known = CATALOGUE if catalogue is None else catalogue
    usual = "MeanwO(f=3)" if "MeanwO" in known else f"{next(iter(known))}()"
    if not isinstance(text, str):
        raise BadInput(f"{text!r} is no text; write {article(kind)} as {usual}.")
    if len(text) > LONGEST:
        raise BadInput(f"{article(kind)} of {len(text)} characters was given; write at most {LONGEST}.")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        return _Reader(known, kind, usual, text).value(tree, top=True)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
        if isinstance(error, BadInput):
            raise
        chained = " or NNM(f=3) >> Krum(f=3)" if "NNM" in known else ""
        raise BadInput(f"{text!r} is no {kind}; write one as {usual}{chained}.") from None


@dataclass(frozen=True)
class _Reader:
    """Turns a syntax tree into the value that it names."""

    known: Mapping[str, Any]
    kind: str
    usual: str
    text: str

    def value(self, node: ast.expr, top: bool = False) -> Any:
        match node:
            case ast.BinOp(left=left, op=ast.RShift(), right=right):
                first, then = self.value(left, True), self.value(right, True)
                try:
                    return first >> then
                except TypeError:
                    raise BadInput(f">> joins stages, as in NNM(f=3) >> Krum(f=3); {first!r} is none.") from None
            case ast.Name(id=name) if top:
                return self.build(name, [], {})
            case ast.Call(func=ast.Name(id=name), args=args, keywords=ws) if len({w.arg for w in ws}) == len(ws):
                return self.build(name, [*map(self.value, args)], {w.arg or "**": self.value(w.value) for w in ws})
            case ast.Constant(value=value) if not top and (value is None or isinstance(value, (bool, int, float, str))):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)) if not top:
                return -value
            case ast.BinOp(ast.Constant(int() | float() as a), ast.Div(), ast.Constant(int() | float() as b)) if b:
                return a / b  # z=20/35 reads better than its decimals
            case ast.BinOp(ast.UnaryOp(ast.USub(), left), ast.Div() as by, right):
                return -self.value(ast.BinOp(left, by, right))
        given = f"{ast.unparse(node)!r} in {self.text!r}"
        raise BadInput(f"{given} is not {article(self.kind)} or a plain value; write one as {self.usual}.")

    def build(self, name: str, args: list[Any], words: dict[str, Any]) -> Any:
        if name not in self.known:
            raise BadInput(unknown(name, self.known, self.kind))
        names = _words(self.known[name])
        wanted = f"{name}({', '.join(names)})"
        for word in words:
            if word not in names:
                raise BadInput(f"{name} was given {word}=, which it does not have; it is {wanted}.")
        try:
            return self.known[name](*args, **words)
        except TypeError:
            raise BadInput(f"{name} was given values that do not fit; write it as {wanted}.") from None


@cache
def _words(kind: Callable[..., Any]) -> list[str]:
    """What a kind of value is written with; asked again for every text of it."""
    return [*signature(kind).parameters]


def unknown(name: str, known: Iterable[str], kind: str = "rule") -> str:
    """What is said of a name that nobody knows."""
    folded = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), folded, 1, 0.5)
    hint = f"did you mean {folded[close[0]]}? " if close else ""
    return f"{name} is no known {kind}; {hint}known are {', '.join(folded.values())}."
