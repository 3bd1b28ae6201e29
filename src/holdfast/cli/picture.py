"""holdfast picture: why one rule is not enough, drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.example import example
from holdfast.cli.wide import say
from holdfast.errors import BadInput, MissingExtra


@example("holdfast picture sneak-siege.svg")
def picture(
    out: Annotated[Path, typer.Argument(help="An svg, png or pdf file.")] = Path("sneak-siege.svg"),
) -> None:
    """Draw sneak and siege: the same eleven points, two stories about who lies, and what each rule answers."""
    if out.suffix not in (".svg", ".png", ".pdf"):
        raise BadInput(f"{out} was given; the formats are .svg, .png, .pdf.")
    try:
        from holdfast.report.dilemma import draw
    except ImportError:
        raise MissingExtra("a picture", "matplotlib", "plot") from None
    draw(out)
    say(f"the picture is in {out}")
