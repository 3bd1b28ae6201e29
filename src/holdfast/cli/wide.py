"""Where tables are printed."""

from __future__ import annotations

from rich.console import Console

WIDE = 100_000  # columns of a table that goes to a file or another program


def console(file: bool = False) -> Console:
    """As wide as the terminal; where there is none, or for a file, as wide as need be and without colours."""
    here = Console()
    return here if here.is_terminal and not file else Console(width=WIDE, force_terminal=False)
