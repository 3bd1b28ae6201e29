"""A two-phase step: two candidate models, every rank's vote, one model on all ranks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from holdfast.decision import Decision
from holdfast.engines.sharded.ledger import Ledger
from holdfast.engines.sharded.momentum import Momentum
from holdfast.engines.sharded.reduce import check, propose_candidates, refuse_parts
from holdfast.engines.sharded.watch import RankFailed, at
from holdfast.engines.sharded.wire import Weights, Wire
from holdfast.errors import BadInput
from holdfast.jsonable import finite_or_none
from holdfast.twophase import TwoPhase, check_step, elect, proximal_margin

log = logging.getLogger("holdfast")
Loss = Callable[[nn.Module, Any], Tensor]


@dataclass(frozen=True)
class Step:
    """What became of a two-phase step.

    Parameters
    ----------
    decision : Decision or None
        The decision of the winner; None if the step was skipped.
    winner : str
        "inner" or "outer".
    lead : float
        The lead of Outer.
    votes : int
        How many votes counted.
    skipped : str
        Why the step was skipped; empty if it was not.

    Examples
    --------
    >>> from holdfast.engines.sharded import Step
    >>> Step(None, skipped="too few ranks have finite gradients").winner
    ''
    """

    decision: Decision | None
    winner: str = ""
    lead: float = 0.0
    votes: int = 0
    skipped: str = ""


def two_phase_step(
    model: nn.Module,
    loss: Loss,
    batch: Any,
    rule: TwoPhase,
    *,
    lr: float,
    fresh: Any,
    step: int = 0,
    momentum: Momentum | None = None,
    ledger: Ledger | None = None,
    group: Any = None,
    rng: np.random.Generator | None = None,
    weights: Weights = None,
) -> Step:
    """Propose two models by the gradients of the ranks, vote by their losses, and commit the winner.

    Parameters
    ----------
    model : torch.nn.Module
        The model, the same on all ranks. It is changed.
    loss : callable
        `loss(model, batch)` returns the mean loss.
    batch : object
        This rank's data for the gradient.
    rule : TwoPhase
        The rule, such as `Mean2P(f=3)`.
    lr : float
        The learning rate.
    fresh : object
        This rank's data for the vote.
    step : int
        The number of the step.
    momentum : Momentum, optional
        Sends this rank's momentum instead of its gradient.
    ledger : Ledger, optional
        Gets one line for this step.
    group : torch.distributed.ProcessGroup, optional
        The ranks. Without it, all.
    rng : numpy.random.Generator, optional
        For rules that draw; of the same seed on all ranks.
    weights : sequence of float, optional
        How much each rank counts in both candidates, the same on all ranks. In the vote each rank has one voice.

    Returns
    -------
    Step
        The winner, its lead, how many votes counted; or why the step was skipped.

    Raises
    ------
    BadInput
        If the rule has one phase, or the model is frozen.

    Notes
    -----
    All ranks start with the same model and end with the same bits, buffers such as BatchNorm's statistics included:
    these are combined like gradients and not measured. A step for which too few ranks have finite gradients changes
    nothing and says why; a rank whose loss raises counts as one of those. Sound against faulty data and gradients on
    ranks whose program is honest.

    Examples
    --------
    >>> import torch
    >>> import torch.distributed as dist
    >>> from holdfast import Mean2P
    >>> from holdfast.engines.sharded import two_phase_step
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> model, ones = torch.nn.Linear(1, 1), torch.ones(4, 1)
    >>> def loss(model, batch):
    ...     return (model(batch) - 2).square().mean()
    >>> two_phase_step(model, loss, ones, Mean2P(f=0), lr=0.1, fresh=ones).winner
    'inner'
    >>> dist.destroy_process_group()
    """
    if not isinstance(rule, TwoPhase):
        raise BadInput(f"two_phase_step was given {rule!r}; it takes a two-phase rule, such as Mean2P(f=3).")
    length = float(lr)
    if length != 0:
        check_step(rule.election, length, "the learning rate")
    at(step)
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise BadInput(
            "two_phase_step was given a model that is frozen; at least one parameter must require a gradient."
        )
    refuse_parts("two_phase_step", parameters)
    buffers = [b for b in model.buffers() if not b.is_complex() and b.dtype != torch.bool]
    before = [t.detach().clone() for t in (*parameters, *buffers)]
    slopes = _slopes(model, loss, batch, parameters)
    if momentum is not None:
        momentum(parameters, slopes)
    ledger, wire = ledger or Ledger(None), Wire(group, parameters[0].device)
    check(rule, slopes, 0, rng, weights)
    moved = [not torch.equal(b, old) for b, old in zip(buffers, before[len(parameters) :], strict=True)]
    moves = np.asarray(
        wire.shards(np.array(moved, bool)).any(axis=0)
    )  # masks and the like stay as they are, and are not sent
    buffers = [b for b, does in zip(buffers, moves, strict=True) if does]
    before = before[: len(parameters)] + [
        old for old, does in zip(before[len(parameters) :], moves, strict=True) if does
    ]
    try:
        proposed = propose_candidates([*slopes, *buffers], rule, group, beside=len(buffers), rng=rng, weights=weights)
    except BadInput as refusal:
        _load(parameters, buffers, before)
        if momentum is not None:
            momentum.keep(sound=False)
        ledger.add(step, None, skipped=str(refusal))
        return Step(None, skipped=str(refusal))
    if momentum is not None:
        momentum.keep(sound=wire.rank not in proposed.inner.dropped)
    models = [_moved(before, one.value, len(parameters), lr) for one in (proposed.inner, proposed.outer)]
    losses = np.array([_felt(model, loss, fresh, one, parameters, buffers) for one in models])
    slopes_of = [one.value[: len(parameters)] for one in (proposed.inner, proposed.outer)]  # without the buffers
    margin = proximal_margin(rule.election, *slopes_of, step=length) if length else 0.0
    reports = [(rank, tuple(pair)) for rank, pair in enumerate(wire.shards(losses).tolist())]
    winner = elect(proposed, reports, rule.election, margin=margin)
    _load(parameters, buffers, models[winner.name == "outer"])
    decision: Decision = getattr(proposed, winner.name)
    lead = finite_or_none(winner.lead)
    ledger.add(step, decision, winner=winner.name, lead=lead, votes=winner.reports)
    at(step, done=True)
    return Step(decision, winner.name, float(winner.lead), winner.reports)


def _moved(before: list[Tensor], value: list[Tensor], count: int, lr: float) -> list[Tensor]:
    """A candidate: parameters after a step of its gradient, and its buffers."""
    steps = zip(before[:count], value[:count], strict=True)
    return [*(p - lr * g for p, g in steps), *value[count:]]


def _felt(
    model: nn.Module, loss: Loss, fresh: Any, candidate: list[Tensor], parameters: list[Any], buffers: list[Tensor]
) -> float:
    """This rank's loss on a candidate, as in evaluation; what cannot be computed is as bad as can be."""
    _load(parameters, buffers, candidate)
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            return float(loss(model, fresh))
    except RankFailed:
        raise
    except Exception as error:  # faulty data makes losses say many things
        log.warning("this rank's vote failed: %r", error)
        return float("inf")
    finally:
        for module, trains in modes:
            module.training = trains


def _slopes(model: nn.Module, loss: Loss, batch: Any, parameters: list[Any]) -> list[Tensor]:
    """This rank's gradients; NaN if its loss cannot be computed, so that the others leave it out."""
    model.zero_grad(set_to_none=True)
    try:
        loss(model, batch).backward()  # type: ignore[no-untyped-call]
    except RankFailed:
        raise
    except Exception as error:  # such as labels that are no classes, or a key that a sample lacks
        log.warning("this rank's gradient failed: %r", error)
        return [torch.full_like(p, torch.nan) for p in parameters]
    return [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]


@torch.no_grad()
def _load(parameters: list[Any], buffers: list[Tensor], values: list[Tensor]) -> None:
    for t, v in zip((*parameters, *buffers), values, strict=True):
        t.copy_(v)
