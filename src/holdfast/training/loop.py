"""RASHB and 2PRASHB: Algorithms 1 and 3 of Yi et al. 2024 as generators, one record a round.

Evaluation, logging, checkpoints and early stops stand outside.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from holdfast.decision import Decision
from holdfast.driver import decide
from holdfast.errors import BadInput, listing
from holdfast.guarantees.certificate import certificate
from holdfast.jsonable import finite_or_none
from holdfast.reading import read
from holdfast.rules.base import CoordinateRule
from holdfast.training.messages import RULE, VOTE, Sent, gather, generator
from holdfast.training.run import Run
from holdfast.training.samples import check_samples, declared_masses
from holdfast.training.state import State
from holdfast.training.task import Task
from holdfast.twophase import elect, proximal_margin
from holdfast.updates import Updates

log = logging.getLogger("holdfast")
COLUMNS = 4096  # coordinates on which it is counted whom a rule used


@dataclass(frozen=True)
class Round:
    """What happened in a round: a line of the metrics.

    Parameters
    ----------
    round : int
        The number of the round, from 0.
    kept : str
        One letter for each worker: k kept, - excluded, x dropped, . absent.
    liars : float or None
        The Byzantine workers' share of the weights (of the uses, for a rule on single coordinates).
    norm : float or None
        The norm of the aggregate.
    winner : str
        In two phases, the candidate that won.
    lead : float or None
        In two phases, the lead of Outer: votes, or a mean difference of losses.
    margin : float or None
        In two phases, by how much Outer's loss is smaller for the honest.
    events : tuple of str
        What was out of the ordinary.
    kappa : float or None
        Certified, if it was asked for: for every set of workers that could be the honest ones, the squared distance of
        the aggregate to their mean is at most this number of their variances. None where nothing is proved.
    age : str
        If replies come late, one letter for each worker: from how many rounds ago its model was, + above 9, . absent.
    time : int
        If replies come late, when the round closed, in units of a round without late replies.

    Examples
    --------
    >>> from holdfast.training import Round
    >>> Round(round=0, kept="kkk-").kept.count("k")
    3
    """

    round: int
    kept: str = ""
    liars: float | None = None
    norm: float | None = None
    winner: str = ""
    lead: float | None = None
    margin: float | None = None
    events: tuple[str, ...] = field(default_factory=tuple)
    kappa: float | None = None
    age: str = ""
    time: int = 0


def rashb(run: Run, task: Task, state: State | None = None, certify: bool = False) -> Iterator[Round]:
    """Run Algorithm 1: the server aggregates the workers' momenta and takes a step.

    Parameters
    ----------
    run : Run
        The record of the training.
    task : Task
        The workers' side, such as `Functions` or `Workers`.
    state : State, optional
        Where to go on from. Without it, the training begins.
    certify : bool
        Whether each round has a certificate (`kappa`).

    Yields
    ------
    Round
        One record for each round. The state has moved on by then.

    References
    ----------
    .. [1] Yi et al. 2024, "Near-Optimal Resilient Aggregation Rules for Distributed Learning Using 1-Center and
       1-Mean Clustering with Outliers", Algorithm 1 (RASHB).

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.training import Functions, Run, rashb
    >>> run = Run(rule="MeanwO(f=1)", workers=4, byzantine=1, rounds=2, attack="SignFlip()")
    >>> task = Functions(workers=4, first=np.zeros(2), update=lambda worker, model, t: model - 1.0)
    >>> [one.kept for one in rashb(run, task)]
    ['kkk-', 'kkk-']
    """
    check_samples(run, task)
    state = state or State.first(run, task)
    for t in range(state.round, run.rounds):
        state.average += (state.model - state.average) / (t + 1)
        sent = gather(run, task, state, t)
        try:
            decision = _decided(run, task, sent, state, t)
        except BadInput as refusal:
            yield _skipped(run, state, sent, t, refusal)
            continue
        events = (*sent.events, *_noted(sent, decision), *state.move(run, decision.value, t))
        kappa = certified(run, sent, decision) if certify else None
        yield Round(
            t,
            *_describe_decision(run, sent, decision),
            norm=_norm(decision.value),
            events=events,
            kappa=kappa,
            age=_ages(run, sent),
            time=state.time,
        )


def two_phase_rashb(run: Run, task: Task, state: State | None = None, certify: bool = False) -> Iterator[Round]:
    """Run Algorithm 3: the server proposes two models, and the workers elect one.

    Parameters
    ----------
    run : Run
        The record of the training, with a rule of two phases.
    task : Task
        The workers' side, such as `Functions` or `Workers`.
    state : State, optional
        Where to go on from. Without it, the training begins.
    certify : bool
        Whether each round has a certificate (`kappa`).

    Yields
    ------
    Round
        One record for each round. The state has moved on by then.

    References
    ----------
    .. [1] Yi et al. 2024, "Near-Optimal Resilient Aggregation Rules for Distributed Learning Using 1-Center and
       1-Mean Clustering with Outliers", Algorithm 3 (2PRASHB).

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.training import Functions, Run, two_phase_rashb
    >>> run = Run(rule="Mean2P(f=2)", workers=5, byzantine=2, rounds=2, attack="SignFlip()")
    >>> task = Functions(
    ...     workers=5,
    ...     first=np.zeros(2),
    ...     update=lambda worker, model, t: model - 1.0,
    ...     loss=lambda worker, model, t: float(np.square(model - 1.0).sum()),
    ... )
    >>> [one.winner for one in two_phase_rashb(run, task)]
    ['inner', 'inner']
    """
    check_samples(run, task)
    state = state or State.first(run, task)
    for t in range(state.round, run.rounds):
        state.average += (state.model - state.average) / (t + 1)
        sent = gather(run, task, state, t)
        try:
            candidates = run.rule.propose(_read(run, task, sent, state), rng=generator(run, RULE, t), start=sent.start)
        except BadInput as refusal:
            yield _skipped(run, state, sent, t, refusal)
            continue
        models = [state.stepped(run, decided.value, t) for decided in (candidates.inner, candidates.outer)]
        losses = task.losses(models, sent.who, t)
        reports, margin = _reports(run, sent, losses, t), _margin(run, models, state.rate(run, t))
        winner = elect(candidates, reports, run.rule.election, margin=margin)
        decision = getattr(candidates, winner.name)
        honest = losses[sent.who < run.honest]
        with np.errstate(invalid="ignore"):
            margin = float((honest[:, 0] - honest[:, 1]).mean()) if len(honest) else 0.0
        events = (
            *sent.events,
            *_noted(sent, decision),
            *([f"no vote: {winner.why}"] if winner.why else []),
            *state.move(run, decision.value, t),
        )
        yield Round(
            t,
            *_describe_decision(run, sent, decision),
            norm=_norm(decision.value),
            winner=winner.name,
            lead=finite_or_none(winner.lead),
            margin=finite_or_none(margin),
            events=events,
            kappa=certified(run, sent, decision) if certify else None,
            age=_ages(run, sent),
            time=state.time,
        )


def _margin(run: Run, models: list[np.ndarray], rate: float) -> float:
    """What Outer must gain: (c/γ) times the squared distance of the two models; no step, no margin."""
    if run.rule.election.proximal == 0 or rate == 0:
        return 0.0
    with np.errstate(over="ignore"):
        inverse = float(np.float64(1) / rate)
    return proximal_margin(run.rule.election, *models, step=inverse) if 0 < inverse < math.inf else math.inf


def certified(run: Run, sent: Sent, decision: Decision) -> float | None:
    """The certificate of a round; a rule without an f is asked about as many liars as there are."""
    try:
        return finite_or_none(certificate(decision, sent.rows, f=run.byzantine if run.f == 0 else None).kappa)
    except BadInput as refusal:  # half of the workers or more may lie: nothing can be proved
        log.debug("no certificate: %s", refusal)
        return None


def _skipped(run: Run, state: State, sent: Sent, t: int, refusal: BadInput) -> Round:
    """A round without a step; the log says it once in a training."""
    level = logging.INFO if state.skipped else logging.WARNING
    log.log(level, "round %d is skipped: %s", t, refusal)
    state.round, state.skipped = t + 1, True
    return Round(t, events=(*sent.events, f"skipped: {refusal}"), age=_ages(run, sent), time=state.time)


def _decided(run: Run, task: Task, sent: Sent, state: State, t: int) -> Decision:
    """The rule's decision; how often a rule on single coordinates used whom is counted on every k-th of many."""
    rule, rows, every = run.rule, sent.rows, len(state.model) // COLUMNS
    updates = _read(run, task, sent, state)
    if every > 1 and isinstance(rule, CoordinateRule) and isinstance(rows, np.ndarray) and _sound(rows):
        few = read(np.ascontiguousarray(rows[:, ::every]), repr(rule), weights=updates.masses)
        seen = decide(rule, few)
        return replace(seen, value=decide(rule, updates, explain=False).value)
    return decide(rule, updates, rng=generator(run, RULE, t), start=sent.start)


def _read(run: Run, task: Task, sent: Sent, state: State) -> Updates:
    """The messages, to be decided about; refusals name the workers, not their places in the round."""
    masses = declared_masses(run, task, sent.who, sent.ages)
    return read(sent.rows, repr(run.rule), like=state.model, names=sent.who.tolist(), weights=masses)


def _sound(rows: np.ndarray) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(rows.sum()))


def _reports(run: Run, sent: Sent, losses: np.ndarray, t: int) -> list[tuple[int, Any]]:
    """What the voters send, by their place in the round: the honest their losses, the liars what they like."""
    liars = np.flatnonzero(sent.who >= run.honest)
    voting = (int(i) for i in np.flatnonzero(sent.who < run.honest))
    honest = [(i, losses[i]) for i in voting if int(sent.who[i]) not in sent.busy]
    lies: Any = run.voter(losses.copy(), liars, generator(run, VOTE, t))
    lies = [lie for lie in lies if isinstance(lie, (list, tuple)) and lie] if isinstance(lies, (list, tuple)) else []
    mine = [int(i) for i in liars]  # nobody votes in another's name: the server knows who sends
    return [*honest, *(lie for lie in lies if type(lie[0]) is int and lie[0] in mine)]


def _describe_decision(run: Run, sent: Sent, decision: Decision) -> tuple[str, float | None]:
    """Who was kept, one letter per worker; and the share of the answer that is the liars'."""
    letters = ["."] * run.workers
    for place, worker in enumerate(map(int, sent.who)):
        letters[worker] = "x" if place in decision.dropped else "k" if decision.weights[place] else "-"
    total = float(decision.weights.sum())
    lied = float(decision.weights[sent.who >= run.honest].sum())
    return "".join(letters), round(lied / total, 6) if total else None


def _ages(run: Run, sent: Sent) -> str:
    """How old each worker's reply is, one letter per worker; empty if all are of this round."""
    if sent.ages is None:
        return ""
    letters = ["."] * run.workers
    for worker, age in zip(map(int, sent.who), map(int, sent.ages), strict=True):
        letters[worker] = str(age) if age < 10 else "+"
    return "".join(letters)


def _noted(sent: Sent, decision: Decision) -> list[str]:
    """Who was dropped and why, and whether f had to be lowered."""
    whys = {
        why: [int(sent.who[i]) for i, said in decision.dropped.items() if said == why]
        for why in decision.dropped.values()
    }
    return [*(f"dropped: {listing(them)} ({why})" for why, them in whys.items()), *filter(None, [decision.note])]


def _norm(value: np.ndarray) -> float | None:
    with np.errstate(over="ignore"):
        return finite_or_none(float(np.sqrt(np.square(value, dtype=np.float64).sum())))
