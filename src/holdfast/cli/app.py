"""The commands that `holdfast` knows."""

from __future__ import annotations

from typing import Annotated

import typer

import holdfast
from holdfast.cli.aggregate import aggregate
from holdfast.cli.attacks import attacks
from holdfast.cli.board import board
from holdfast.cli.bounds import bounds, choose
from holdfast.cli.certify import certificate, certify, replay
from holdfast.cli.check import check
from holdfast.cli.compare import compare
from holdfast.cli.data import data
from holdfast.cli.demo import demo
from holdfast.cli.estimate import estimate
from holdfast.cli.example import EXAMPLES
from holdfast.cli.flower import flower
from holdfast.cli.importing import imports
from holdfast.cli.paper import paper
from holdfast.cli.picture import picture
from holdfast.cli.play import play, watch
from holdfast.cli.profile import profile
from holdfast.cli.ranks import ranks
from holdfast.cli.rates import rates
from holdfast.cli.report import report
from holdfast.cli.rules import rules
from holdfast.cli.runs import runs
from holdfast.cli.sample import sample
from holdfast.cli.sweep import sweep
from holdfast.cli.train import train
from holdfast.cli.vote import vote
from holdfast.cli.wide import say

app = typer.Typer(
    help="Byzantine-resilient aggregation: a vector close to the honest mean, while up to f workers lie.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"holdfast {holdfast.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Byzantine-resilient aggregation: a vector close to the honest mean, while up to f workers lie."""


COMMANDS = (
    *(
        demo,
        play,
        train,
        watch,
        data,
        attacks,
        rules,
        aggregate,
        compare,
        profile,
        check,
        sweep,
        runs,
        report,
        sample,
        picture,
    ),
    *(picture, choose, bounds, certify, replay, certificate, vote, rates, estimate, ranks),
)
for command in COMMANDS:
    app.command(epilog=f"Example:  {EXAMPLES[command.__name__]}")(command)
app.add_typer(paper, name="paper")
app.add_typer(board, name="board")
app.add_typer(flower, name="flower")
app.add_typer(imports, name="import")
