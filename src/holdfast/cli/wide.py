"""Where text and tables are printed: no control character of a file, a name or a record reaches the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import typer
from rich.console import Console, ConsoleOptions
from rich.segment import Segment

from holdfast.errors import printable

WIDE = 100_000  # columns of a table that goes to a file or another program


class Screen(Console):
    """A console that shows control characters in a text as escapes; colours are rich's own and stay."""

    def render(self, renderable: Any, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of what is printed, each with harmless text."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def console(*, file: bool = False) -> Screen:
    """As wide as the terminal; where there is none, or for a file, as wide as need be and without colours."""
    here = Screen()
    return here if here.is_terminal and not file else Screen(width=WIDE, force_terminal=False)


def say(text: str, *, err: bool = False) -> None:
    """Print a line of text, control characters as escapes."""
    typer.echo(printable(text), err=err)
