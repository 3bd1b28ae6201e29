"""holdfast play and watch: the playground, and a store of runs live, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.example import example
from holdfast.cli.wide import say
from holdfast.errors import MissingExtra

Port = Annotated[int, typer.Option(min=0, max=65535, help="Port on loopback; 0: any that is free.")]
Browser = Annotated[bool, typer.Option(help="Open the page in a browser.")]


@example("holdfast play")
def play(port: Port = 0, browser: Browser = True) -> None:
    """Open the playground: points of honest workers and liars to drag, and what every rule makes of them.

    The server answers on this machine alone and ends with Ctrl-C. The address of a picture holds all of it, and can be
    sent to a colleague who runs the same command with the same --port.
    """
    _serve("/", port, None, browser=browser)


@example("holdfast watch runs")
def watch(
    folder: Annotated[Path, typer.Argument(help="A folder of runs, one run's folder, or an archive (.jsonl).")],
    port: Port = 0,
    browser: Browser = True,
) -> None:
    """Watch the runs of a folder while they train: curves, who was kept, votes, certificates, failures.

    It reads only, and can be started before, during and after a sweep. The server answers on this machine alone and
    ends with Ctrl-C.
    """
    if not folder.exists():
        say(f"{folder} is not there yet; its runs will appear once it is.", err=True)
    _serve("/runs", port, folder, browser=browser)


def _serve(page: str, port: int, store: Path | None, *, browser: bool) -> None:
    try:
        from holdfast.web.serve import serve
    except ImportError as error:
        raise MissingExtra("a page", error.name or "uvicorn", "web") from None
    serve(page, port, store, browser=browser, on_start=lambda address: say(f"{address}  (Ctrl-C ends it)"))
