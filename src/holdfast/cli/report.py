"""holdfast report: tables and figures of a store of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.example import example
from holdfast.cli.files import check_target
from holdfast.cli.wide import console, say
from holdfast.errors import BadInput, plural, printable
from holdfast.experiments.store import Entry, Store
from holdfast.experiments.where import condition
from holdfast.report.grid import grids
from holdfast.report.landscape import landscapes
from holdfast.report.page import put
from holdfast.report.sheet import write
from holdfast.report.tables import latex, markdown, terminal
from holdfast.spec import unknown

ENDINGS = {"html": ".html", "markdown": ".md", "latex": ".tex", "terminal": ".txt"}


@example("holdfast report runs --out report.html")
def report(
    store: Annotated[Path, typer.Argument(help="A folder of runs, or an archive of them (.jsonl).")],
    out: Annotated[
        Path | None, typer.Option(help="A file; if not said, report.html, and other formats are printed.")
    ] = None,
    kind: Annotated[
        str, typer.Option("--format", help="html, markdown, latex or terminal; if not said, as --out ends.")
    ] = "",
    where: Annotated[
        list[str] | None, typer.Option(help="Only these: 'rule=Mean*', 'seed!=0'; may be repeated.")
    ] = None,
) -> None:
    """Report on runs: accuracies by rule and attack over seeds, with the worst attack, curves and what failed.

    Nothing is trained: the report shows what is in the store. Runs that differ in more than rule, attack, seed and draw
    stand in tables of their own.
    """
    if out:
        check_target(out, (out.suffix,) if kind else ENDINGS.values())
    kind = kind or next((name for name, ending in ENDINGS.items() if out and out.suffix == ending), "html")
    if kind not in ENDINGS:
        raise BadInput(unknown(kind, ENDINGS, "format"))
    entries, complaints = read_finished(store, where or [])
    if kind == "html":
        page = out or Path("report.html")
        write(entries, complaints, page, f"Runs of {store}")
        say(f"the report is in {page}")
        return
    text = rendered(entries, kind, file=out is not None)
    if out:
        put(text, out)
        say(f"the report is in {out}")
    else:
        typer.echo(text, nl=False)
    for complaint in complaints:
        say(complaint, err=True)


def read_finished(store: Path, where: list[str]) -> tuple[list[Entry], list[str]]:
    """The store's runs that meet the conditions, if one of them is done."""
    tests = [condition(text) for text in where]
    entries, complaints = Store(store).read()
    chosen = [one for one in entries if all(test(one.run) for test in tests)]
    if not any(one.accuracy is not None for one in chosen):
        meets = f" that meets {' and '.join(where)}" if where else ""
        many = f"{len(entries)} {plural(len(entries), 'run')}"
        why = f" {complaints[0]}" if complaints else ""
        raise BadInput(f"{store} has {many} and no finished one{meets}; name a store that holdfast sweep filled.{why}")
    return chosen, complaints


def rendered(entries: list[Entry], kind: str, *, file: bool) -> str:
    """The tables as text; those for a terminal are printed at once unless they go to a file."""
    shown_grids = [*grids(entries), *landscapes(entries)]
    if kind != "terminal":
        return printable("\n".join((markdown if kind == "markdown" else latex)(grid) for grid in shown_grids))
    shown = console(file=file)
    with shown.capture() as captured:
        for grid in shown_grids:
            shown.print(terminal(grid), "")
    return captured.get()
