"""holdfast rules: the catalogue."""

from __future__ import annotations

import inspect
import re
from inspect import cleandoc
from typing import Annotated, Any

import typer
from rich.table import Column, Table

from holdfast.cli.example import example
from holdfast.cli.wide import Screen, say
from holdfast.errors import BadInput
from holdfast.rules import CATALOGUE
from holdfast.spec import unknown
from holdfast.twophase import AGGREGATORS, TwoPhase

FORMS = (  # of TeX, and how a line of text says the same
    (r"\\[dt]?frac\{(.*?)\}\{(.*?)\}", r"(\1/\2)"),
    (r"\\sqrt\{(.*?)\}", r"√(\1)"),
    (r"\\bar *(\w)", "\\1\N{COMBINING MACRON}"),
    (r"\\(?:mathrm|text|operatorname)\{(.*?)\}", r"\1"),
    (r"\^\{(.*?)\}", r"^(\1)"),
    (r"\\Bigl|\\Bigr", ""),
    (r"\{(\w+)\}", r"\1"),
    (r"\\lVert *| *\\rVert", "‖"),
    (r"\\lceil *", "⌈"),
    (r" *\\rceil", "⌉"),
    (r"\\langle *", "⟨"),
    (r" *\\rangle", "⟩"),
    (r" *\\, *", " "),
)
SIGNS = {
    **{"gamma": "γ", "mu": "μ", "pi": "π", "sigma": "σ", "tau": "τ"},
    **{"le": "≤", "sum": "Σ", "to": "→", "leftarrow": "←"},
}


@example("holdfast rules MeanwO")
def rules(name: Annotated[str, typer.Argument(help="One rule, with its whole text.")] = "") -> None:
    """List the rules with formula, promise and cost; or tell all about one.

    n vectors of dimension d, f of them lying, n > 2f. κ bounds the squared distance to the honest mean in
    units of the honest variance, λ the distance in units of the honest diameter.
    """
    name = name.partition("(")[0]
    if name and name not in AGGREGATORS:
        raise BadInput(unknown(name, AGGREGATORS))
    if name:
        say(f"{signature(AGGREGATORS[name])}\n\n{plain(AGGREGATORS[name])}")
        return
    columns = (Column(head, overflow="fold") for head in ("rule", "what it returns", "promise", "time"))
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for rule in CATALOGUE.values():
        table.add_row(signature(rule), rule.formula, rule.promise, rule.time)
    phases = Table(Column("in two phases"), Column("what it is"), box=None, pad_edge=False, header_style="bold")
    for name, rule in AGGREGATORS.items():
        if name not in CATALOGUE:
            phases.add_row(signature(rule), cleandoc(rule.__doc__ or "").splitlines()[0])
    Screen().print(table, "", phases, sep="\n")


def plain(thing: Any) -> str:
    """What a value says of itself, for a terminal: its plain formula where its docstring has a typeset one."""
    formula = getattr(thing, "formula", TwoPhase.formula)
    doc = re.sub(
        r"\.\. math::.*?(?=\n\n|$(?!\n))", lambda _: f"    {formula}", cleandoc(thing.__doc__ or ""), flags=re.S
    )
    doc = re.sub(r"^\.\. (?=\[\d+\])", "", doc, flags=re.M)  # the mark of a reference
    return re.sub(r":math:`(.*?)`", lambda match: letters(match[1]), doc, flags=re.S)


def letters(latex: str) -> str:
    r"""A small formula without TeX.

    >>> letters(r"\tau_i \le \sqrt{f/(n-2f)} \lVert \bar x_{all} \rVert, \tfrac{2n}{b}")
    'τ_i ≤ √(f/(n-2f)) ‖x̄_all‖, (2n/b)'
    """
    for form, letter in FORMS:
        latex = re.sub(form, letter, latex)
    return re.sub(r"\\([a-z]+)", lambda match: SIGNS.get(match[1], match[1]), latex)


def signature(rule: Any) -> str:
    """The rule as it is written: Krum(f, others='n-f-2', squared=True)."""
    parameters = inspect.signature(rule).parameters.values()
    texts = (
        parameter.name if parameter.default is parameter.empty else f"{parameter.name}={parameter.default!r}"
        for parameter in parameters
    )
    return f"{rule.__name__}({', '.join(texts)})"
