"""holdfast sweep: many runs from one file."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from holdfast.attacks import NAMED, Attack
from holdfast.cli.example import example
from holdfast.cli.live import carrier, counted, failures, named, varied, watch
from holdfast.cli.own import names_code, parse_own
from holdfast.cli.wide import say
from holdfast.disk import write_text
from holdfast.errors import BadInput
from holdfast.experiments.pool import cores
from holdfast.experiments.store import Store
from holdfast.experiments.sweep import Readers, read
from holdfast.experiments.sweep import only as those
from holdfast.experiments.sweep import sweep as carry_out
from holdfast.training.folder import NO_LOCK

SAMPLE = """\
# What is a list is varied, every combination a run; a single value holds for all. Any field of Run may stand here.
rules = ["Average()", "CWTM(f={f})", "Mean2P(f={f})"]  # {f}: how many lie
attacks = ["SignFlip()", "Empire(scale=0.1)"]
rates = [0.4]  # shares of the workers that lie
seeds = 2  # 0 and 1
data = "digits"
workers = 10
rounds = 30
momentum = 0.9
"""


READERS: Readers = {"rule": parse_own, "attack": partial(parse_own, catalogue=NAMED, kind="attack", base=Attack)}


def _without_code(text: str) -> str:
    """The text as it is, if it names no code."""
    if names_code(text):
        raise BadInput(f"{text!r} names code of your own; add --own-code, which runs it.")
    return text


CAUTIOUS: Readers = dict.fromkeys(READERS, _without_code)


@example("holdfast sweep sweep.toml --sample")
def sweep(
    file: Annotated[Path, typer.Argument(help="A TOML file: rules, attacks, rates, splits, seeds, fields of Run.")],
    store: Annotated[Path, typer.Option(help="The folder of runs; running again goes on.")] = Path("runs"),
    jobs: Annotated[int, typer.Option(help="Runs at a time; 0: one a core.", min=0)] = 0,
    only: Annotated[
        list[str] | None, typer.Option(help="Only runs like rule=Mean* or seed=0; may be repeated.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run, and run nothing.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try again what failed.")] = False,
    folder: Annotated[Path | None, typer.Option(help="Where data sets lie.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Address of a Ray cluster, such as 10.0.0.1:6379.")] = None,
    no_lock: Annotated[
        bool, typer.Option("--no-lock", help="Take no locks; only if no other process works there.")
    ] = False,
    own_code: Annotated[
        bool, typer.Option("--own-code", help="Allow rules and attacks as FILE.py:RULE; this runs the code they name.")
    ] = False,
    sample: Annotated[
        bool, typer.Option("--sample", help="First write an example to FILE, if it is not there.")
    ] = False,
) -> None:
    """Run rules x attacks x rates x splits x seeds, each in a folder of its own in the store.

    Interrupted or killed, the same command goes on where it was. A run that fails is reported, and the others go on.
    With --own-code, the file may name rules and attacks of your own, as rules = ['my_rules.py:Crowd(f={f})'].
    """
    if no_lock:
        os.environ[NO_LOCK] = "1"
    if sample and not file.exists():
        write_text(file, SAMPLE)
        say(f"wrote {file}", err=True)
    runs = those(read(file, READERS if own_code else CAUTIOUS), only or [])
    if not runs:
        raise BadInput(f"{file} has no run that meets {', '.join(only or [])}; try --dry-run without --only.")
    if not any(run.byzantine for run in runs.values()):
        say(f"nobody lies in these runs: {file} sets neither rates nor byzantine above 0", err=True)
    runs_there, more = Store(store), varied(runs)
    if dry_run:
        for run in runs.values():
            say(f"{runs_there.state(run) or 'to do':8} {named(run, more)}")
        return
    carry = carrier(cluster)
    try:
        many = jobs or (None if cluster else cores())
        progress = watch(carry_out(runs, runs_there, many, folder, retry_failed=retry_failed, carry=carry), runs)
    except KeyboardInterrupt:
        say("stopped; the same command goes on from there", err=True)
        raise typer.Abort from None
    say(f"{counted(progress)}: {store}")
    if progress.failed:
        say(f"the first that failed: {failures(progress, more)[0]}", err=True)
        raise typer.Exit(1)
