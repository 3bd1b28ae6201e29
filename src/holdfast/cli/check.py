"""holdfast check: laws and hostile rounds for a rule, an aggregator of another library, or a function of one's own."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Column, Table
from rich.text import Text

from holdfast.attacks import NAMED, Attack
from holdfast.cli.example import example
from holdfast.cli.own import make_importable, parse_own
from holdfast.cli.wide import Screen, say
from holdfast.rules.base import Stage
from holdfast.spec import parse
from holdfast.testing import Report, Status, check_aggregator, check_attack, check_rule, find_aggregator
from holdfast.testing.rules import USUAL
from holdfast.twophase import AGGREGATORS, TwoPhase

STYLES = {Status.PASSED: "", Status.FAILED: "red", Status.NOT_PROMISED: "yellow", Status.NOT_APPLICABLE: "dim"}


@example("holdfast check 'MeanwO(f=3)' --n 15")
def check(
    rule: Annotated[
        str,
        typer.Argument(
            help="'MeanwO(f=3)', 'Empire()', byzfl:Krum, flower:Bulyan, krum:Krum, FILE.py:NAME or MODULE:NAME."
        ),
    ],
    f: Annotated[int | None, typer.Option("--f", help="Byzantine workers; else the rule's own f, or 2.")] = None,
    n: Annotated[int | None, typer.Option("--n", help="Workers; else 4f + 3, and at least 11.")] = None,
    oracle: Annotated[str, typer.Option(help="A rule of holdfast that should give the same answers.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="The report as one line of JSON.")] = False,
) -> None:
    """Check an aggregator: does it obey the laws, and does it withstand f hostile rows?

    RULE is a rule as `holdfast rules` lists them, an aggregator of ByzFL, Flower or krum, or a function or rule of your
    own as package.module:name, file.py:name or 'file.py:Crowd(f=3)'. This runs the code of the module or file. An
    attack is checked as an attack: does it send one row of finite numbers for each Byzantine worker? The exit code is
    1 if a check fails.
    """
    report = run(rule, f, n, oracle)
    if as_json:
        say(json.dumps(report.record(), ensure_ascii=False, allow_nan=False))
    else:
        show(report)
    if not report.ok:
        raise typer.Exit(1)


def run(rule: str, f: int | None, n: int | None, oracle: str) -> Report:
    """The report for the text of a rule."""
    answers = parse(oracle) if oracle else None
    name, _, made = rule.rpartition(":")
    lie = USUAL if f is None else f
    if not name or "(" in made:
        subject = parse_own(rule, {**NAMED, **AGGREGATORS}, "rule or attack", (Stage, TwoPhase, Attack))
    else:
        make_importable(name)
        peer = find_aggregator(rule, f=lie)
        subject = peer.call
    if isinstance(subject, Attack):
        say(f"{subject!r} is an attack; these are the checks for attacks", err=True)
        return check_attack(subject, f=lie, n=n, raises=False)
    if not name or "(" in made or isinstance(subject, Stage):
        return check_rule(subject, f=f, n=n, oracle=answers, raises=False)
    return check_aggregator(
        peer.call,
        f=lie,
        n=n,
        name=peer.name,
        oracle=answers,
        trusted=peer.trusted,
        not_promised=peer.not_promised,
        raises=False,
    )


def show(report: Report) -> None:
    """The same for people."""
    table = Table("check", "status", Column("what was found", overflow="fold"), box=None, header_style="bold")
    for one in report.checks:
        table.add_row(one.name, one.status.value, Text(one.explain()), style=STYLES[one.status])
    console = Screen()
    console.print(table)
    for line in (report.summary(), *report.remarks()):
        console.print(Text(line), soft_wrap=True)
