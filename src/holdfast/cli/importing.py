"""holdfast import: another library's benchmark file as a sweep file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.files import check_target
from holdfast.cli.wide import say
from holdfast.errors import BadInput
from holdfast.experiments.byzfl import to_toml, translate
from holdfast.experiments.sweep import runs
from holdfast.report.page import put

imports = typer.Typer(
    help="Other libraries' benchmark files as sweep files.", no_args_is_help=True, add_completion=False
)


@imports.callback()
def _group() -> None:
    """Other libraries' benchmark files as sweep files."""


@imports.command(epilog="Example:  holdfast import byzfl config.json --data digits --out sweep.toml")
def byzfl(
    file: Annotated[Path, typer.Argument(help="ByzFL's benchmark file, config.json.")],
    out: Annotated[Path, typer.Option(help="The sweep file to write.")] = Path("sweep.toml"),
    data: Annotated[str, typer.Option(help="Another data set than the file's, such as digits.")] = "",
) -> None:
    """Write a sweep file with the rules, attacks, splits and parameters of a benchmark file, and say what differs.

    Run it by holdfast sweep. Then holdfast report draws the heat maps.
    """
    check_target(out, (".toml",))
    try:
        config = json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BadInput(f"{file} cannot be read ({error.strerror}); name a benchmark file.") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{file} is no JSON ({error}); name a benchmark file.") from None
    grid, remarks = translate(config, data)
    many = len(runs(grid))
    put(to_toml(grid, remarks), out)
    for remark in remarks:
        say(remark)
    say(f"{many} runs in {out}; go on with holdfast sweep {out} --store runs, then holdfast report runs")
