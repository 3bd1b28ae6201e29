"""holdfast train: one training under attack, kept in a folder."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from holdfast.attacks import NAMED, Attack
from holdfast.cli.example import example
from holdfast.cli.own import HELP, parse_own
from holdfast.cli.wide import Screen, say
from holdfast.errors import BadInput, listing
from holdfast.guarantees.bounds import own
from holdfast.rules.base import CoordinateRule
from holdfast.training import Result, Run
from holdfast.training import train as run_training
from holdfast.training.folder import NO_LOCK, Folder

OTHERS = {"honest": "on the honest workers' test images", "validation": "on the images that were set aside"}


@example("holdfast train --rule 'Mean2P(f=8)' --attack 'SignFlip()' --n 20 --liars 8 --rounds 50 --out run")
def train(
    rule: Annotated[str, typer.Option(help=f"A rule, or a two-phase one such as Mean2P(f=8). {HELP}.")] = "MeanwO(f=8)",
    attack: Annotated[
        str, typer.Option(help="What the liars send; see holdfast attacks. FILE.py:ATTACK runs the code of a file.")
    ] = "NoAttack()",
    voter: Annotated[str, typer.Option(help="How the liars vote.")] = "WorseLoss()",
    n: Annotated[int, typer.Option("--n", "--workers", help="Workers.", min=1)] = 20,
    liars: Annotated[int | None, typer.Option(help="How many lie; the rule's f if not said.")] = None,
    data: Annotated[str, typer.Option(help="A data set; see holdfast data.")] = "digits",
    folder: Annotated[Path | None, typer.Option(help="Where the data set lies.")] = None,
    split: Annotated[str, typer.Option(help="How it is dealt: Natural(), Dirichlet(alpha=0.1), ...")] = "Natural()",
    rounds: Annotated[int, typer.Option(help="Rounds.", min=1)] = 200,
    batch: Annotated[int, typer.Option(help="Images a worker and round.", min=1)] = 16,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 0.1,
    momentum: Annotated[float, typer.Option(help="Momentum of each worker, below 1; the paper's is 0.")] = 0.9,
    weight_decay: Annotated[float, typer.Option(help="Weight decay, at the server.")] = 0.0,
    clip: Annotated[float | None, typer.Option(help="Largest norm of a worker's gradient.")] = None,
    present: Annotated[int | None, typer.Option(help="Workers that take part in a round; all if not said.")] = None,
    images: Annotated[int | None, typer.Option(help="Training images a worker; all if not said.")] = None,
    tests: Annotated[int | None, typer.Option(help="Test images a worker; all if not said.")] = None,
    schedule: Annotated[str, typer.Option(help="Constant(), Cosine(), Steps(every=100), ...")] = "Constant()",
    server: Annotated[
        str, typer.Option(help="The server's optimiser: SGD(), Momentum(beta=0.9), Adam() or Yogi().")
    ] = "SGD()",
    steps: Annotated[int, typer.Option(help="Local SGD steps a round.", min=1)] = 1,
    vote_batch: Annotated[int, typer.Option(help="Images for a vote; 0: all. Few mislead.", min=0)] = 0,
    model: Annotated[str, typer.Option(help="auto, linear, mlp, cnn, lenet or resnet.")] = "auto",
    device: Annotated[str, typer.Option(help="Where gradients are computed: cpu, cuda, ...")] = "cpu",
    threads: Annotated[int, typer.Option(help="Torch threads; they change the last bits.", min=1)] = 1,
    every: Annotated[int, typer.Option(help="Rounds between evaluations.", min=1)] = 10,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 0,
    weights: Annotated[str, typer.Option(help="How much a worker counts: equal, or samples.")] = "equal",
    declared: Annotated[
        int | None, typer.Option(help="Training images that each liar says it has, with --weights samples.", min=1)
    ] = None,
    holders: Annotated[str, typer.Option(help="Who holds data: all, or honest (liars hold none).")] = "all",
    validation: Annotated[
        int | None, typer.Option(help="Training images that each worker sets aside to choose parameters by.", min=1)
    ] = None,
    root: Annotated[int | None, typer.Option(help="Training images of the server's own, for FLTrust().", min=1)] = None,
    late: Annotated[
        str, typer.Option(help="Which replies come late: OnTime(), Late(share=0.4, wait=14).")
    ] = "OnTime()",
    certify: Annotated[bool, typer.Option("--certify", help="Certify every round; κ goes to the metrics.")] = False,
    no_lock: Annotated[
        bool, typer.Option("--no-lock", help="Take no locks; only if no other process works there.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="The run's folder; the same command again resumes. Else run, run-2, ...")
    ] = None,
) -> None:
    """Train under attack, with live progress; the record, one line per round and the model go to a folder.

    Interrupted or killed, the same command goes on where it was, to the same bits. A rule of your own is written as
    'my_rules.py:Crowd(f=4)' or 'package.module:Crowd(f=4)', an attack likewise. This runs the code of the file or
    module, so name only code that you trust.
    """
    if no_lock:
        os.environ[NO_LOCK] = "1"
    run = Run(
        rule=parse_own(rule), attack=parse_own(attack, NAMED, "attack", Attack), voter=voter,
        workers=n, byzantine=0, data=data, split=split, rounds=rounds,
        batch=batch, lr=lr, momentum=momentum, schedule=schedule, steps=steps, vote_batch=vote_batch or None,
        model=model, device=device, threads=threads, every=every, seed=seed, weight_decay=weight_decay, clip=clip,
        present=present, train=images, test=tests, root=root,
    )  # fmt: skip
    run = run.changed(
        byzantine=run.f if liars is None else liars, weights=weights, declared=declared, holders=holders,
        validation=validation, server=server, late=late,
    )  # fmt: skip
    place = free_folder(run) if out is None else out
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Screen(stderr=True)) as bar:
        task = bar.add_task("training", total=rounds, visible=False)

        def show_round(line: dict[str, Any]) -> None:
            if not bar.tasks[0].completed and line["round"]:
                bar.console.print(f"going on from round {line['round']}")
            accuracy = line.get("evaluation", {}).get("accuracy")
            bar.update(
                task,
                visible=True,
                completed=line["round"] + 1,
                description=f"accuracy {accuracy:.3f}" if accuracy else None,
            )

        try:
            result = run_training(run, place, data=folder, on_round=show_round, certify=certify)
        except KeyboardInterrupt:
            done = int(bar.tasks[0].completed)
            bar.console.print(f"stopped after round {done}; the same command goes on from there")
            raise typer.Abort from None
    for line in summary(result):
        say(line)
    say(f"record, metrics and model: {place}")


def free_folder(run: Run) -> Path:
    """The first of run, run-2, run-3, ... that is free or holds this very run."""
    for number in count(1):
        place = Path("run" if number == 1 else f"run-{number}")
        try:
            Folder(place, run)
        except BadInput:
            continue
        return place
    raise AssertionError  # there is always one more number


def summary(result: Result) -> list[str]:
    """What a person wants to know of a finished run."""
    run, final = result.run, result.final
    lost = f", {result.skipped} of them skipped" if result.skipped else ""
    what = f"{run.rule!r} under {run.attack!r}, {run.byzantine} of {run.workers} Byzantine: {run.rounds} rounds{lost}"
    lines = ["; ".join([what, *result.remarks()])]
    if "accuracy" in final:
        workers = [value for value in final["workers"] if value is not None]
        averaged = result.lines[-1]["averaged"]["accuracy"]
        lines.append(f"accuracy {result.accuracy:.4f} (averaged model {averaged:.4f}), worst worker {min(workers):.4f}")
        others = {name: final[name] for name in ("honest", "validation") if final.get(name) is not None}
        if others and (run.byzantine or "validation" in others):
            lines.append(", ".join(f"{OTHERS[name]} {value:.4f}" for name, value in others.items()))
    if "success" in final:
        lines.append(f"the trigger succeeds on {result.success:.4f} of the test images of other classes")
    letters = result.kept()
    if run.byzantine:
        lies, truth = letters[:, run.honest :], letters[:, : run.honest]
        kept, where = ("used", " in some coordinate") if by_coordinate(run) else ("kept", "")
        lines.append(
            f"{kept} {(lies == 'k').mean():.0%} of the liars' updates{where}, "
            f"excluded {(truth == '-').mean():.0%} of the honest"
        )
    if any("kappa" in line for line in result.lines):
        lines.append(certified(result))
    if run.two_phase:
        votes = result.winners()
        lines.append(f"elections won: Inner {votes.count('inner')}, Outer {votes.count('outer')}")
    if events := result.events():
        rounds = sorted({at for at, _ in events})
        lines.append(f"events in rounds {listing(rounds)}; the first: {events[0][1]}")
    return lines


def by_coordinate(run: Run) -> bool:
    """Whether the rule works on single coordinates, so that a worker can be used in few of them."""
    rules = (run.rule.inner, run.rule.outer) if run.two_phase else (run.rule,)
    return any(isinstance(rule.stages()[-1], CoordinateRule) for rule in rules)


def certified(result: Result) -> str:
    """The line about κ, with the f that it is about; a rule without an f is asked about all that lie."""
    run, sure = result.run, sorted(line["kappa"] for line in result.lines if line.get("kappa") is not None)
    rules = (run.rule.inner, run.rule.outer) if run.two_phase else (run.rule,)
    f = min((known for rule in rules if (known := own(rule)) is not None), default=run.byzantine)
    lower = " or less" if any("f was lowered" in event for _, event in result.events()) else ""
    middle = f"the middle κ is {sure[len(sure) // 2]:.3g}, the largest {sure[-1]:.3g}" if sure else "none"
    beyond = f"; {run.byzantine} workers lie, and of more than {f} this says nothing" if run.byzantine > f else ""
    return f"certified {len(sure)} of {len(result.lines)} rounds for f = {f}{lower}: {middle}{beyond}"
