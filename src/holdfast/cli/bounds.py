"""holdfast bounds and holdfast choose: what rules promise, and which one to take."""

from __future__ import annotations

import json
from math import inf
from typing import Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text

from holdfast.cli.example import example
from holdfast.cli.wide import Screen, say
from holdfast.errors import BadInput
from holdfast.guarantees.bounds import Promise, everyone, least, number, tolerance
from holdfast.guarantees.bounds import bounds as promised
from holdfast.guarantees.choose import Advice
from holdfast.guarantees.choose import choose as ranked
from holdfast.guarantees.criteria import CRITERIA, check
from holdfast.guarantees.proved import Bound, unfinished
from holdfast.spec import parse_rule

Workers = Annotated[int, typer.Option("--n", help="Workers.")]
Coordinates = Annotated[int | None, typer.Option("--d", help="Coordinates, which sharpen some constants.")]
AsJson = Annotated[bool, typer.Option("--json", help="As one line of JSON.")]
READING = "κ: the error that no number of rounds removes; λ: what noise adds; smaller is better (docs/choosing.md)."
PROFILE = (
    "A rule with the right f promises more. To find f, look at a round: holdfast profile 'MeanwO(f=1)' FILES shows "
    "where the answer jumps (docs/choosing.md)."
)
USUAL = 5  # of so many workers one lies, if nothing is said


@example("holdfast bounds 'MeanwO(f=7)' --n 35")
def bounds(
    rule: Annotated[str, typer.Argument(help="As `holdfast rules` lists them; all of them if it is left out.")] = "",
    n: Workers = 35,
    f: Annotated[int | None, typer.Option("--f", help="Liars; a rule that has an f has its own.")] = None,
    d: Coordinates = None,
    as_json: AsJson = False,
) -> None:
    """What rules promise for n workers of which f lie: proved constants beside the paper's and the least possible.

    κ and ξ bound the squared distance of the answer to the honest mean, in units of the honest variance and of its
    worst direction; λ the distance in units of the honest diameter; ζ a mean over rounds. "=" is exact, "≤" proved.
    """
    lie = n // USUAL if f is None else f
    check(n, lie)
    rules = [parse_rule(rule)] if rule else everyone(n, lie)
    lie = tolerance(rules[0], n, f if rule else lie)
    promises = {repr(one): promised(one, n, lie, d) for one in rules}
    if as_json:
        about = {"n": n, "f": lie}
        say(json.dumps({name: about | {c: record(p) for c, p in ps.items()} for name, ps in promises.items()}))
    elif rule:
        lines = [Text(f"{rules[0]!r}, n = {n}, f = {lie}"), _table_of_rule(promises[repr(rules[0])])]
        Screen().print(*lines, *_capped(rules[0], n, lie, d), sep="\n")
    else:
        Screen().print(_table_of_rules(promises, n, lie))


def _table_of_rule(promises: dict[str, Promise]) -> Table:
    heads = ("criterion", "no rule below", "some round reaches", "proved here", "the paper", "literature", "proof")
    table = Table(*(Column(head, overflow="fold") for head in heads), box=None, pad_edge=False, header_style="bold")
    for name, promise in promises.items():
        place = promise.ours.source if promise.ours else ""
        if promise.ours and promise.ours.fails:
            place += f"; fails with probability {promise.ours.fails:.1g}"
        others = quoted(promise.paper), quoted(promise.literature)
        table.add_row(CRITERIA[name], number(promise.least), number(promise.reached), promise.text, *others, place)
    return table


def _capped(rule: Any, n: int, f: int, d: int | None) -> list[Text]:
    """For a rule that searches: what holds in a round whose search ended at its cap."""
    h = n - f
    known = unfinished(rule, n, f, max(1, h - 1 if d is None else min(d, h - 1)))
    constants = ", ".join(f"{CRITERIA[name]} ≤ {number(bound.value)}" for name, bound in known.items())
    text = (
        f"This holds if the search ended: the decision's cost is then its bound. If cap ended it: {constants}, "
        "and less where cost / bound is small (docs/guarantees.md)."
    )
    return [Text(text)] if known else []


def _table_of_rules(by_rule: dict[str, dict[str, Promise]], n: int, f: int) -> Table:
    heads = (f"n = {n}, f = {f}", *CRITERIA.values())
    table = Table(*(Column(head, overflow="fold") for head in heads), box=None, pad_edge=False, header_style="bold")
    table.add_row("no rule below", *(number(value) for value in least(n, f).values()))
    for name, promises in by_rule.items():
        table.add_row(name, *(promise.text for promise in promises.values()))
    return table


def quoted(bound: Bound | None) -> str:
    """Somebody else's constant; what is false is said to be."""
    return "" if bound is None else number(bound.value) + (" (false)" if bound.source.endswith("false") else "")


def record(promise: Promise) -> dict[str, Any]:
    """A promise as plain values; None where nothing is known, "unbounded" where nothing holds."""
    fields: dict[str, Any] = {
        "no rule below": promise.least,
        "some round reaches": _or_unbounded(promise.reached),
        "exact": promise.exact,
    }
    for name in ("ours", "paper", "literature"):
        bound = getattr(promise, name)
        fields[name] = None if bound is None else bound._asdict() | {"value": _or_unbounded(bound.value)}
    return fields


def _or_unbounded(value: float) -> float | str:
    """JSON has no infinity; a constant says "unbounded" instead."""
    return "unbounded" if value == inf else value


@example("holdfast choose --n 35 --f 7 --heterogeneous")
def choose(
    n: Workers,
    f: Annotated[str, typer.Option("--f", help="How many may lie, or: unknown.")],
    heterogeneous: Annotated[bool, typer.Option(help="Do the workers' data differ?")] = True,
    votes: Annotated[bool, typer.Option(help="Can workers compare two models on their own data?")] = True,
    stream: Annotated[bool, typer.Option(help="Must updates be taken one at a time?")] = False,
    d: Coordinates = None,
    as_json: AsJson = False,
) -> None:
    """Which rule to take for n workers of which f may lie: a short list, best first, with constants, cost and reason.

    The cost is in multiplications for each coordinate of each worker. docs/choosing.md tells how the list is ranked.
    With --f unknown it lists the rules that need no f, with their constants for several numbers of liars.
    """
    advice = ranked(n, _read_f(f), heterogeneous=heterogeneous, votes=votes, stream=stream, d=d)
    if as_json:
        say(json.dumps([_advised(one) for one in advice]))
        return
    console = Screen()
    for at, one in enumerate(advice, 1):
        console.print(Text(f"{at}. {one.rule!r}", style="bold"), Text(f"   {one.why}"), sep="\n", soft_wrap=True)
    unknown = bool(advice[0].over_f)
    table = _table_over_f(advice, "kappa" if heterogeneous else "lambda") if unknown else _table_of_advice(advice)
    console.print("", table, sep="\n")
    console.print(Text(f"{READING}\n{PROFILE}" if unknown else READING), soft_wrap=True)


def _read_f(text: str) -> int | None:
    """The number that was given; None if it is unknown."""
    try:
        return None if text == "unknown" else int(text)
    except ValueError:
        raise BadInput(f"--f {text} was given; give a whole number, or unknown.") from None


def _advised(one: Advice) -> dict[str, Any]:
    """Advice as plain values; for several f, if f is unknown."""
    fields = {"rule": repr(one.rule), "why": one.why, "cost": one.cost, "promises": _records(one.promises)}
    return fields | ({"over_f": {f: _records(known) for f, known in one.over_f.items()}} if one.over_f else {})


def _records(promises: dict[str, Promise]) -> dict[str, Any]:
    return {name: record(promise) for name, promise in promises.items()}


def _table_of_advice(advice: list[Advice]) -> Table:
    table = Table("", *CRITERIA.values(), "cost", box=None, pad_edge=False, header_style="bold")
    for at, one in enumerate(advice, 1):
        table.add_row(str(at), *(promise.text for promise in one.promises.values()), f"{one.cost:.3g}")
    return table


def _table_over_f(advice: list[Advice], criterion: str) -> Table:
    """One constant of each rule for several f."""
    heads = (f"{CRITERIA[criterion]} if f lie", *(f"f = {f}" for f in advice[0].over_f), "cost")
    table = Table(*heads, box=None, pad_edge=False, header_style="bold")
    for one in advice:
        table.add_row(repr(one.rule), *(known[criterion].text for known in one.over_f.values()), f"{one.cost:.3g}")
    return table
