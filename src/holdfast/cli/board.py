"""holdfast board: the benchmark of rules, with parameters chosen on validation images and the worst of many attacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from holdfast.cli.own import names_code, parse_own
from holdfast.cli.wide import Screen, say
from holdfast.data import load
from holdfast.disk import write_text
from holdfast.errors import BadInput
from holdfast.experiments.board import (
    ATTACKS,
    LARGE,
    PEERS,
    SCENES,
    VERSION,
    Job,
    Reader,
    Scene,
    count_all,
    require_fit,
    rows_in,
    rule_of,
    run_of,
)
from holdfast.experiments.measuring import MEASURED, carry_out, current, meet_hostile, select
from holdfast.experiments.scores import ScoreFile
from holdfast.report.board import HEADS, Place, draw, failures, front, markdown, places
from holdfast.testing import find_aggregator
from holdfast.training import train

board = typer.Typer(
    help=f"The board {VERSION}: rules compared under their worst attack; see docs/board.md.",
    no_args_is_help=True,
    add_completion=False,
)
FolderOption = Annotated[Path, typer.Option(help="The folder of the board: scores, and rows of your own.")]
SceneOption = Annotated[list[str] | None, typer.Option(help="Only this scene; may be repeated.")]
RowOption = Annotated[list[str] | None, typer.Option(help="Only this row; may be repeated.")]
OwnOption = Annotated[bool, typer.Option("--own-code", help="Run the code that rows of your own name.")]
DataOption = Annotated[Path | None, typer.Option(help="Where data sets lie.")]
FOLDER = Path("board")
SHORT = {"unbounded": "∞", "none known": "?"}


def reader(text: str, *, own_code: bool) -> Any:
    """Read the rule of a row; one that names code needs leave."""
    if names_code(text) and not own_code:
        raise BadInput(f"the row {text!r} names code of your own; add --own-code, which runs it.")
    return parse_own(text)


@board.command(epilog="Example:  holdfast board run --scene 'digits, 40 %' --row Average --dry-run")
def run(
    folder: FolderOption = FOLDER,
    scene: SceneOption = None,
    row: RowOption = None,
    large: Annotated[bool, typer.Option("--large", help="FEMNIST and CIFAR-10 instead; they must be present.")] = False,
    data: DataOption = None,
    jobs: Annotated[int, typer.Option(help="Trainings at a time; 0: one a core.", min=0)] = 0,
    own_code: OwnOption = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try again what failed.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the trainings, and run nothing.")] = False,
) -> None:
    """Measure what the board lacks. Interrupted or killed, the same command goes on where it was.

    It first says how many trainings there are. Every score is written down at once.
    """
    scores = ScoreFile(folder)
    scenes, rows = select(LARGE if large else SCENES, scene, "scene"), select(scores.rows(), row, "row")
    read = partial(reader, own_code=own_code)
    rows = {name: text for name, text in rows.items() if _can_run(name, text, scenes, read, asked=bool(row))}
    lines, many = scores.read(), count_all(rows, scenes, read)
    there = sum(len(current(lines, name, one, dict(rows_in(rows, one, read)))) for name, one in scenes.items())
    say(f"{many:,} trainings, {there:,} of them done: {len(rows)} rows in {len(scenes)} scenes")
    if dry_run:
        return
    with scores.held():
        if retry_failed:
            scores.forget_failed(scenes, rows)
        _measure(scores, rows, scenes, read, data, jobs)


def _measure(
    scores: ScoreFile, rows: dict[str, str], scenes: dict[str, Scene], read: Reader, data: Path | None, jobs: int
) -> None:
    """The hostile rounds and the trainings that are missing, each with a line on the screen."""
    for one in scenes.values():
        load(one.data, data)  # a sentence at once, if it is not there
    try:
        for name, found in meet_hostile(scores, rows, read):
            say(f"{escape(name)}: {found['rounds'] - len(found['broken'])} of {found['rounds']} hostile rounds held")
        for step in carry_out(scores, rows, scenes, processes=jobs or None, data=data, read=read):
            say(f"[{step.left} left in this stage] {described(step.job)}: {_result(step.line)}")
    except KeyboardInterrupt:
        say("stopped; the same command goes on from there", err=True)
        raise typer.Abort from None


def _can_run(name: str, text: str, scenes: dict[str, Scene], read: Reader, *, asked: bool) -> bool:
    """Whether a row can run here: its library is there, and it fits a scene. If not, say why; if asked for, raise."""
    try:
        if text.startswith(PEERS):
            find_aggregator(text, f=1)
        require_fit(text, scenes, read)
    except BadInput as why:
        if asked:
            raise
        say(f"{name} is left out: {why}", err=True)
        return False
    return True


@board.command(epilog="Example:  holdfast board add 'NNM(f={f}) >> PTM(f={f})'")
def add(
    rule: Annotated[str, typer.Argument(help="A rule in which {f} stands for f; or byzfl:NAME, FILE.py:RULE.")],
    name: Annotated[str, typer.Option(help="The row's name; without it, the rule's text.")] = "",
    folder: FolderOption = FOLDER,
) -> None:
    """Add a row of your own. `holdfast board run --row NAME` then measures it in the same way as all others.

    A rule of your own is named by its file, as my_rule.py:Crowd(f={f}). This runs the code of the file.
    """
    if rule.startswith(PEERS):
        find_aggregator(rule, f=1)
    require_fit(rule, SCENES, parse_own)
    ScoreFile(folder).add_row(name or rule, rule)
    more = " --own-code" if names_code(rule) and not rule.startswith(PEERS) else ""
    say(f"added; holdfast board run --row {quote(name or rule)} --folder {quote(str(folder))}{more} measures it")


@board.command(epilog="Example:  holdfast board show")
def show(
    folder: FolderOption = FOLDER,
    out: Annotated[
        Path | None, typer.Option(help="A file: .md for the tables, .svg .png .pdf for the picture.")
    ] = None,
    own_code: OwnOption = False,
) -> None:
    """Show the tables: accuracy without an attack and under the worst one, what is proved, what a round costs.

    A row appears in a scene when all of its trainings there are done. Bold rows are on the front: no other row is
    better in one accuracy and at least as good in the other.
    """
    scores, read = ScoreFile(folder), partial(reader, own_code=own_code)
    rows = dict(_readable(scores.rows(), read))
    found = {name: places(name, scene, scores, rows, read) for name, scene in {**SCENES, **LARGE}.items()}
    if not any(found.values()):
        raise BadInput(f"{folder} has no finished row; holdfast board run --folder {folder} measures them.")
    if out is None:
        for name, some in found.items():
            if some:
                Screen().print(table(name, some))
                for sentence in failures(some):
                    say(sentence)
    elif out.suffix == ".md":
        texts = (markdown(name, {**SCENES, **LARGE}[name], some) for name, some in found.items() if some)
        write_text(out, "\n".join(texts))
        say(f"the tables are in {out}")
    elif out.suffix in (".svg", ".png", ".pdf"):
        draw(found, out)
        say(f"the picture is in {out}")
    else:
        raise BadInput(f"{out} was given; the formats are .md, .svg, .png, .pdf.")


def _readable(rows: dict[str, str], read: Reader) -> Iterator[tuple[str, str]]:
    """The rows whose text can be read here; says which cannot, and why."""
    for name, text in rows.items():
        try:
            rule_of(text, 1, read)
        except BadInput as why:
            say(f"{name} is left out: {why}", err=True)
        else:
            yield name, text


@board.command(epilog="Example:  holdfast board replay 3f2a --folder results/board")
def replay(
    key: Annotated[str, typer.Argument(help="The beginning of a training's key, as its line has it.")],
    folder: FolderOption = FOLDER,
    data: DataOption = None,
    own_code: OwnOption = False,
) -> None:
    """Train one cell again, and compare it with its line. The same record gives the same numbers."""
    scores = ScoreFile(folder)
    lines = {job: line for job, line in scores.read().items() if str(line.get("key", "")).startswith(key)}
    if len(lines) != 1:
        raise BadInput(f"{len(lines)} lines of {scores.path} have a key that begins with {key!r}; give one of them.")
    (job, line), scenes, rows = *lines.items(), {**SCENES, **LARGE}, scores.rows()
    if job.scene not in scenes or job.row not in rows or job.attack not in ATTACKS:
        raise BadInput(f"the line {key} is of {described(job)}, which this board does not have.")
    rule = rule_of(scores.rows()[job.row], scenes[job.scene].byzantine, partial(reader, own_code=own_code))
    final = train(run_of(job, rule, scenes), data=data).final
    again = {name: None if final.get(name) is None else round(float(final[name]), 4) for name in MEASURED}
    for name in MEASURED:
        say(f"{name}: {line.get(name)} in the file, {again[name]} now")
    if any(line.get(name) != again[name] for name in MEASURED):
        raise typer.Exit(1)


def table(name: str, found: Sequence[Place]) -> Table:
    """The table of a scene for a terminal, without the learning rates and momenta, for which there is no room."""
    out = Table(title=name, box=None, header_style="bold", title_justify="left", padding=(0, 1, 0, 0))
    shown = len(HEADS) - 2
    for at, head in enumerate(HEADS[:shown]):
        out.add_column(head, justify="right" if at else "left", overflow="fold", no_wrap=at in (0, 3))
    best = front(found)
    for place in found:
        cells = (SHORT.get(cell, cell) for cell in place.cells()[:shown])
        out.add_row(*map(escape, cells), style="bold" if place.row in best else "")
    return out


def described(job: Job) -> str:
    """A job in one line."""
    return escape(f"{job.scene} | {job.row} | {job.attack} | seed {job.seed}, lr {job.lr:g}, momentum {job.momentum:g}")


def _result(line: dict[str, Any]) -> str:
    return f"failed: {line['failed']}" if "failed" in line else f"{line['honest']:.3f}"
