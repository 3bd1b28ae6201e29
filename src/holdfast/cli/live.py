"""A sweep before one's eyes: a live table on a terminal, one line per run elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.cli.wide import Screen
from holdfast.experiments.pool import News, carried_out
from holdfast.experiments.progress import Progress, spoken
from holdfast.experiments.sweep import Runs
from holdfast.report.groups import bare, differing, label, written_value
from holdfast.training import Run

MAX_FAILURES = 12  # failures that are shown
ALWAYS = ("workers", "byzantine", "data", "split", "vote_batch")  # of a run's name


def watch(news: Generator[News], runs: Runs, console: Console | None = None) -> Progress:
    """Show the news until there are no more; what has been done stays when somebody interrupts."""
    console = console or Screen(stderr=True)
    progress, more = Progress(runs), varied(runs)
    with closing(news):
        if not console.is_terminal:
            for one in news:
                progress.hear(one)
                if one.what in ("done", "failed"):
                    console.print(Text(_line(progress, one, more)), soft_wrap=True)
            return progress
        with Live(_table(progress, more), console=console, refresh_per_second=4) as live:
            for one in news:
                progress.hear(one)
                live.update(_table(progress, more))
    return progress


def carrier(cluster: str | None) -> Callable[..., Iterator[News]]:
    """Who carries runs out: processes here, or a Ray cluster."""
    if cluster is None:
        return carried_out
    from holdfast.experiments.cluster import carried_out_on

    return carried_out_on(cluster)


def varied(runs: Runs) -> list[str]:
    """What a run's name has to say beyond the usual, so that no two share one."""
    more = [name for name in differing(runs.values()) if name not in ALWAYS]
    return [*more, "draw"] if len({run.draw for run in runs.values()}) > 1 else more


def named(run: Run, more: Iterable[str] = ()) -> str:
    """A run in a few words, and these fields of it."""
    where = f"{run.byzantine} of {run.workers} lie | {run.data}, {bare(run.split.written())}"
    where += f" | votes on {run.vote_batch}" if run.two_phase and run.vote_batch else ""
    where += "".join(f" | {name} {bare(written_value(run, name))}" for name in more)
    return f"{label(run.rule, run.byzantine)} | {bare(run.attack)} | {where} | seed {run.seed}"


def counted(progress: Progress) -> str:
    """How far it is."""
    parts = [f"{progress.there + progress.done} of {len(progress.runs)} done"]
    parts += [f"{progress.there} of them before"] if progress.there else []
    parts += [f"{len(progress.running)} running"] if progress.running else []
    parts += [f"{len(progress.busy)} in other processes"] if progress.busy else []
    parts += [f"{len(progress.failed)} failed"] if progress.failed else []
    return ", ".join(parts)


def failures(progress: Progress, more: Iterable[str]) -> list[str]:
    """What failed, and why."""
    return [f"{named(progress.runs[name], more)}: {why}" for name, why in progress.failed.items()]


def _line(progress: Progress, news: News, more: Iterable[str]) -> str:
    accuracy = "not known" if news.accuracy is None else f"{news.accuracy:.4f}"
    outcome = f"failed: {news.why}" if news.what == "failed" else f"accuracy {accuracy}"
    left = spoken(progress.seconds())
    done, run = progress.there + progress.done, progress.runs[news.key]
    return f"[{done}/{len(progress.runs)}, {left} left] {named(run, more)}: {outcome}"


def _table(progress: Progress, more: Iterable[str]) -> Group:
    out = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("running", "rounds", "", "accuracy"):
        out.add_column(name, justify="right" if name == "rounds" else "left", overflow="fold")
    for name, live in progress.running.items():
        run = progress.runs[name]
        shown = "" if live.accuracy is None else f"{live.accuracy:.3f}"
        bar = ProgressBar(total=run.rounds, completed=live.round, width=20)
        out.add_row(Text(named(run, more)), f"{live.round}/{run.rounds}", bar, shown)
    return Group(
        *([out] if progress.running else []),
        *(Text(f"failed: {text}", style="red") for text in failures(progress, more)[-MAX_FAILURES:]),
        Text(f"{counted(progress)}; about {spoken(progress.seconds())} left", style="bold"),
    )
