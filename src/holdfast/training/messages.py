"""Phase one of a round: who is there, what the honest compute, what the liars send instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.attacks import View
from holdfast.attacks.base import lengths
from holdfast.attacks.sent import is_finite, list_messages, read_rows, require_finite
from holdfast.errors import BadInput
from holdfast.training.late import Late, forget
from holdfast.training.run import Run
from holdfast.training.samples import ALIKE, weighs_alike
from holdfast.training.state import State
from holdfast.training.task import Task, TrustedTask

PRESENT, RULE, ATTACK, VOTE, BATCH, BALLOT, PROBE, LATE = range(1, 9)  # purposes of draws, each a stream of its own


def generator(run: Run, purpose: int, t: int) -> np.random.Generator:
    """The draws of a round for one purpose: a function of the record alone."""
    return np.random.default_rng([run.seed, purpose, t])


@dataclass(frozen=True, eq=False)
class Sent:
    """The messages of a round: `rows[k]` came from worker `who[k]`; `start` is where rules begin.

    `ages[k]` is how many rounds ago the model was sent from which it was computed; None: all are of this round. The
    `busy` have a reply under way, and do not vote.
    """

    who: np.ndarray
    rows: Any
    events: tuple[str, ...]
    start: np.ndarray | None
    ages: np.ndarray | None = None
    busy: frozenset[int] = frozenset()


def gather(run: Run, task: Task, state: State, t: int) -> Sent:
    """Lines 2 to 7 of Algorithm 1."""
    who = np.arange(run.workers)
    if run.present is not None:
        who = np.sort(generator(run, PRESENT, t).choice(run.workers, run.present, replace=False))
    who = _idle(state, who)
    fresh, failed = task.updates(state.model.copy(), who, t) if len(who) else (state.model[None][:0].copy(), {})
    events = [ALIKE] if t == 0 and weighs_alike(run, task) else []
    events += [f"failed: {worker}: {why}" for worker, why in failed.items()]
    if getattr(task, "reuses", False):  # rows of its own making, which may be written to
        rows, strange = fresh, dict[int, str]()
    elif len(fresh) != len(who):
        raise BadInput(f"the task gave {len(fresh)} updates for {len(who)} workers; it gives one each, in order.")
    else:
        rows, strange = _stacked(fresh, state.model)
    events += [f"of no use: {who[place]}: {why}" for place, why in strange.items() if int(who[place]) not in failed]
    if failed:
        there = np.array([int(worker) not in failed for worker in who])
        who, rows = who[there], rows[there]
    rows = state.remember(run, who, _shortened(rows, run.clip))
    who, rows, ages = _arrived(run, state, who, rows, t)
    busy = frozenset(state.mail.busy(state.time - 1)) if state.mail else frozenset[int]()
    start = starting_point(run, task, state, t)
    h = int((who < run.honest).sum())
    if h in (0, len(who)):
        if h == 0 and len(who):
            events.append("nobody honest is present: the liars sent their own updates")
        return Sent(who, rows, tuple(events), start, ages, busy)
    lies = _lies(run, task, state, who, rows, start, t)
    if isinstance(lies, np.ndarray) and lies.shape == rows[h:].shape and lies.dtype.kind in "fiu":
        with np.errstate(over="ignore"):
            rows[h:] = lies
        return Sent(who, rows, tuple(events), start, ages, busy)
    messages = list_messages(lies)
    if len(messages) > len(who) - h:
        events.append(f"{len(messages) - len(who) + h} messages too many from the liars, not read")
    messages = (messages + [None] * len(who))[: len(who) - h]
    return Sent(who, [*rows[:h], *messages], tuple(events), start, ages, busy)


def _arrived(
    run: Run, state: State, who: np.ndarray, rows: np.ndarray, t: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Whose replies are there, with the rows and their ages: the honest ones may be late, Byzantine ones never are."""
    if state.mail is None or not isinstance(run.late, Late):
        return who, rows, None
    draws = generator(run, LATE, t), int((who < run.honest).sum())
    forget(state.mail, range(run.honest, run.workers))
    run.late.post(state.mail, who, rows, t, state.time, draws)
    letters, closed = run.late.close(state.mail, t, state.time, run.rule.least())
    state.time = closed + 1
    there = np.array([one.worker for one in letters], dtype=who.dtype)
    stacked = np.stack([one.what for one in letters]) if letters else rows[:0]
    return there, stacked, np.array([one.age(t) for one in letters], dtype=int)


def _idle(state: State, who: np.ndarray) -> np.ndarray:
    """The workers without a reply under way."""
    if state.mail is None:
        return who
    busy = state.mail.busy(state.time)
    return who[[int(worker) not in busy for worker in who]]


def starting_point(run: Run, task: Task, state: State, t: int) -> np.ndarray | None:
    """Where rules start: the server's own gradient if it has images, else the last aggregate."""
    if not run.root:
        return state.last
    if not isinstance(task, TrustedTask):
        raise BadInput(
            f"Run was given root = {run.root}, and {type(task).__name__} has no server_gradient(model, t); write one, "
            "or leave root out."
        )
    gradient = np.asarray(task.server_gradient(state.model.copy(), t))
    if gradient.shape != state.model.shape:
        raise BadInput(
            f"{type(task).__name__} gave a gradient of the server of shape {gradient.shape}; the model has shape "
            f"{state.model.shape}."
        )
    return state.trust(run, _shortened(gradient[None], run.clip)[0])


def _lies(
    run: Run, task: Task, state: State, who: np.ndarray, rows: np.ndarray, start: np.ndarray | None, t: int
) -> Any:
    """What the liars send, checked; honest rows that are not finite would spoil an attack, so it does not see them."""
    with np.errstate(all="ignore"):
        seen = _view(run, task, state, who, rows, start, t)
        lies = read_rows(run.attack, seen)
        if is_finite(lies, seen.own):
            return lies
        h = int((who < run.honest).sum())
        sound = np.isfinite(rows).all(axis=1)
        if not sound.all() and sound[:h].any():
            whole = np.where(sound[:, None], rows, 0)  # of a liar's own row nothing is left
            there = sound | (np.arange(len(who)) >= h)
            seen = _view(run, task, state, who[there], whole[there], start, t)
            lies = read_rows(run.attack, seen)
        require_finite(run.attack, lies, seen)
    return lies


def _view(
    run: Run, task: Task, state: State, who: np.ndarray, rows: np.ndarray, start: np.ndarray | None, t: int
) -> View:
    h = int((who < run.honest).sum())

    def losses(aggregate: np.ndarray) -> np.ndarray:
        return task.losses([state.stepped(run, aggregate, t)], who[:h], t)[:, 0]

    return View(
        honest=_still(rows[:h]),
        own=_still(rows[h:]),
        rule=run.rule,
        f=run.f,
        rng=generator(run, ATTACK, t),
        start=start,
        losses=losses if run.two_phase else None,
        step=state.rate(run, t),
    )


def _still(array: np.ndarray) -> np.ndarray:
    """The same, not to be written to: what others look at."""
    view = array.view()
    view.flags.writeable = False
    return view


def _stacked(fresh: Any, model: np.ndarray) -> tuple[np.ndarray, dict[int, str]]:
    """One array; a row that is no vector of the right length becomes nan, and it is said why."""
    rows = np.full((len(fresh), len(model)), np.nan, dtype=model.dtype)
    strange = {}
    for at, update in enumerate(fresh):
        try:
            given = np.asarray(update)
            if given.shape != model.shape or given.dtype.kind not in "fiu":
                strange[at] = f"{given.dtype} of shape {given.shape}, instead of floats of shape {model.shape}"
                continue
            with np.errstate(over="ignore"):
                rows[at] = given
        except Exception as error:  # whatever an update says when it is looked at
            strange[at] = f"{type(error).__name__}: {error}"
    return rows, strange


def _shortened(rows: np.ndarray, clip: float | None) -> np.ndarray:
    """Each row at most so long; gradients that are not finite stay as they are."""
    if clip is None:
        return rows
    with np.errstate(all="ignore"):
        norms = lengths(rows)[:, None]
        return rows * np.where(norms > clip, clip / norms, 1.0).astype(rows.dtype)
