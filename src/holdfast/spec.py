"""Rules as text: parse("NNM(f=3) >> Krum(f=3)") is the value whose repr that is. Nothing is evaluated."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.arguments import misfit
from holdfast.elsewhere import explain_name
from holdfast.errors import BadInput, article, closest
from holdfast.rules.base import Stage
from holdfast.twophase import AGGREGATORS, TwoPhase

LONGEST = 2000
CODE = re.compile(r"(\.py|\w):[A-Za-z_]")  # a file or module before a name


def parse(text: str, catalogue: Mapping[str, Any] | None = None, kind: str = "rule") -> Any:
    """Read a rule from its text, without evaluating anything.

    Parameters
    ----------
    text : str
        A name with plain values, as in "MeanwO(f=3)"; stages are joined by >>.
    catalogue : mapping from names to classes, optional
        What the text can name: usually all rules, with those of two phases. Attacks and splits have catalogues too.
    kind : str
        What errors call the value.

    Returns
    -------
    Stage or TwoPhase
        The rule; with another catalogue, what its class makes.

    Raises
    ------
    BadInput
        If the text names nothing that is known, or with values that do not fit.

    Examples
    --------
    >>> from holdfast import parse
    >>> parse("NNM(f=3) >> Krum(f=3)")
    NNM(f=3) >> Krum(f=3)
    >>> parse("Mean2P(f=3)").inner
    MeanwO(f=3)
    """
    known = AGGREGATORS if catalogue is None else catalogue
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
        if CODE.search(text):
            whose = f"{article(kind)} of your own, and a text runs no code"
            raise BadInput(f"{text!r} names {whose}; import the class and pass a value.") from None
        chained = " or NNM(f=3) >> Krum(f=3)" if "NNM" in known else ""
        raise BadInput(f"{text!r} is no {kind}; write one as {usual}{chained}.") from None


def parse_rule(text: str) -> Stage:
    """Read a rule that answers by itself; a rule of two phases is refused with a sentence.

    Parameters
    ----------
    text : str
        As for `parse`.

    Returns
    -------
    Stage
        The rule.

    Raises
    ------
    BadInput
        If the text is no rule, or one of two phases.

    Examples
    --------
    >>> from holdfast.spec import parse_rule
    >>> parse_rule("Krum(f=3)")
    Krum(f=3)
    """
    return require_rule(parse(text), text)


def require_rule(rule: object, text: str) -> Stage:
    """The rule that a text names, if it answers by itself; one of two phases is refused with a sentence."""
    if isinstance(rule, Stage):
        return rule
    if isinstance(rule, TwoPhase):
        raise BadInput(
            f"{text} proposes two candidates, and one rule is wanted; take {rule.inner!r} or {rule.outer!r}."
        )
    raise BadInput(f"{text} is no rule; write one as MeanwO(f=3).")


@dataclass(frozen=True)
class _Reader:
    """Turns a syntax tree into the value that it names."""

    known: Mapping[str, Any]
    kind: str
    usual: str
    text: str

    def value(self, node: ast.expr, *, top: bool = False) -> Any:
        match node:
            case ast.BinOp(left=left, op=ast.RShift(), right=right):
                first, then = self.value(left, top=True), self.value(right, top=True)
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
            case ast.Tuple(elts=parts) if not top:
                return tuple(map(self.value, parts))
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)) if not top:
                return -value
            case ast.BinOp(ast.Constant(int() | float() as a), ast.Div(), ast.Constant(int() | float() as b)) if b:
                return a / b  # z=20/35 reads better than its decimals
            case ast.BinOp(ast.UnaryOp(ast.USub(), left), ast.Div() as by, right):
                return -self.value(ast.BinOp(left, by, right))
        given = f"{ast.unparse(node)!r} in {self.text!r}"
        raise BadInput(f"{given} is not {article(self.kind)} or a plain value; write one as {self.usual}.")

    def build(self, name: str, args: list[Any], keywords: dict[str, Any]) -> Any:
        if name not in self.known:
            raise BadInput(unknown(name, self.known, self.kind))
        make = self.known[name]
        try:
            return make(*args, **keywords)
        except TypeError:
            why = misfit(make, args, keywords).replace(make.__name__, name)  # the text may use another name of it
            raise BadInput(why or f"{name} was given values that do not fit.") from None


def unknown(name: str, known: Iterable[str], kind: str = "rule", synonyms: Mapping[str, str] | None = None) -> str:
    """The sentence about a name that nobody knows: the closest name, or what a name of other libraries is here."""
    listed = list(known)
    said, here = explain_name(name)
    if said:
        return f"{said}{'' if not here or here in listed or ';' in said else f', which is no {kind}'}."
    close = closest(name, listed, synonyms)
    hint = f"did you mean {close}? " if close else ""
    return f"{name} is no known {kind}; {hint}known are {', '.join(listed)}."
