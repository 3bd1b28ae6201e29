"""All-reduce with a rule in the place of the sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from holdfast.decision import Decision
from holdfast.driver import decide
from holdfast.engines.sharded.wire import Exchange, Layout, Weights, Wire
from holdfast.errors import BadInput
from holdfast.kinds import check_weighted
from holdfast.rules.base import Stage
from holdfast.twophase import Candidates, TwoPhase

Rng = np.random.Generator
SENT = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.uint8, torch.int8, torch.int32, torch.int64)


def robust_all_reduce(
    tensors: Tensor | Sequence[Tensor],
    rule: Stage,
    group: Any = None,
    *,
    beside: int = 0,
    rng: Rng | None = None,
    start: Sequence[Tensor] | None = None,
    weights: Weights = None,
    explain: bool = True,
) -> Decision:
    """Put the rule's answer to all ranks' tensors into them, on every rank, as `all_reduce` does with the sum.

    Parameters
    ----------
    tensors : torch.Tensor or sequence of them
        This rank's tensors, of any shapes and types. Those of integers take their lower median. They are overwritten.
    rule : Stage
        The rule, such as `MeanwO(f=3)`.
    group : torch.distributed.ProcessGroup, optional
        The ranks. Without it, all.
    beside : int
        How many of the last tensors (such as BatchNorm's statistics) are combined and not measured.
    rng : numpy.random.Generator, optional
        For rules that draw; of the same seed on all ranks.
    start : sequence of torch.Tensor, optional
        For rules that start somewhere.
    weights : sequence of float, optional
        How much each rank counts, in the order of ranks; the same on all ranks. Without it, all count alike.
    explain : bool
        Whether a rule on single coordinates also counts whom it used, for which it sorts again.

    Returns
    -------
    Decision
        Who was kept, excluded or dropped; its value is the tensors.

    Raises
    ------
    BadInput
        On all ranks, if more than f ranks were dropped, or too few are left; or if ranks pass different weights. The
        tensors stay as they are.
    RankFailed
        If a rank is gone, or does not come.

    Notes
    -----
    Every rank keeps 1/n of the coordinates of all vectors. The n × n distances are added up in the order of ranks in
    float64. Every rank decides alike and combines its columns, and all get the whole: the traffic of an all-reduce,
    the same bits everywhere. Ranks whose numbers are not finite are dropped.

    Sound against faulty data and gradients on ranks whose program is honest. A rank that runs another program can lie
    about its columns of the answer; against that, use a server (`holdfast.engines.flower`).

    Examples
    --------
    >>> import torch
    >>> import torch.distributed as dist
    >>> from holdfast import MeanwO
    >>> from holdfast.engines.sharded import robust_all_reduce
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> gradient = torch.tensor([1.0, 2.0])
    >>> robust_all_reduce(gradient, MeanwO(f=0)).kept
    (0,)
    >>> dist.destroy_process_group()
    """
    if isinstance(rule, TwoPhase):
        raise BadInput(f"robust_all_reduce was given {rule!r}, which lets the ranks vote; use two_phase_step.")
    many = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    check(rule, many, beside, rng, weights)
    same = Same(rule, group, beside, rng, weights)
    exchange, explain = same.exchange(many, start=start is not None, explain=explain)
    own = None if start is None else exchange.start(start)
    decision = decided(rule, exchange, rng, own, explain=explain)
    exchange.answer(decision.value, many)
    exchange.close()
    return replace(decision, value=tensors)


def robust_reduce_scatter(
    output: Tensor,
    tensor: Tensor,
    rule: Stage,
    group: Any = None,
    *,
    rng: Rng | None = None,
    weights: Weights = None,
) -> Decision:
    """Put this rank's part of the rule's answer into `output`, for sharded optimisers.

    Parameters
    ----------
    output : torch.Tensor
        Gets this rank's nth of the answer.
    tensor : torch.Tensor
        This rank's numbers: n times as many as the output has, as for `reduce_scatter_tensor`.
    rule : Stage
        The rule, such as `MeanwO(f=3)`.
    group : torch.distributed.ProcessGroup, optional
        The ranks. Without it, all.
    rng : numpy.random.Generator, optional
        For rules that draw; of the same seed on all ranks.
    weights : sequence of float, optional
        How much each rank counts, in the order of ranks; the same on all ranks. Without it, all count alike.

    Returns
    -------
    Decision
        As `robust_all_reduce`, without the last gather; its value is the output.

    Raises
    ------
    BadInput
        If the sizes do not fit; and as `robust_all_reduce`.

    Examples
    --------
    >>> import torch
    >>> import torch.distributed as dist
    >>> from holdfast import MeanwO
    >>> from holdfast.engines.sharded import robust_reduce_scatter
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> output = torch.empty(2)
    >>> robust_reduce_scatter(output, torch.tensor([1.0, 2.0]), MeanwO(f=0)).value
    tensor([1., 2.])
    >>> dist.destroy_process_group()
    """
    check(rule, [tensor], 0, rng, weights)
    ranks = Wire(group, tensor.device).n
    if tensor.numel() != output.numel() * ranks or output.dtype != tensor.dtype:
        raise BadInput(
            f"robust_reduce_scatter was given {output.numel()} numbers of {output.dtype} for a part of {tensor.numel()}"
            f" of {tensor.dtype} on {ranks} ranks; the output has one part of as many as there are ranks."
        )
    exchange, _ = Same(rule, group, 0, rng, weights).exchange([tensor])
    decision = decided(rule, exchange, rng, None, explain=False)
    (own,) = decision.value.values()
    output.detach().copy_(own.view(output.shape))
    exchange.close()
    return replace(decision, value=output)


def propose_candidates(
    tensors: Sequence[Tensor],
    rule: TwoPhase,
    group: Any = None,
    *,
    beside: int = 0,
    rng: Rng | None = None,
    start: Sequence[Tensor] | None = None,
    weights: Weights = None,
) -> Candidates:
    """Return both candidates of a two-phase rule, by one exchange.

    Parameters
    ----------
    tensors : sequence of torch.Tensor
        This rank's tensors, which stay as they are.
    rule : TwoPhase
        The rule, such as `Mean2P(f=3)`.
    group : torch.distributed.ProcessGroup, optional
        The ranks. Without it, all.
    beside : int
        How many of the last tensors are combined and not measured.
    rng : numpy.random.Generator, optional
        For rules that draw; of the same seed on all ranks.
    start : sequence of torch.Tensor, optional
        For rules that start somewhere.
    weights : sequence of float, optional
        How much each rank counts, in the order of ranks; the same on all ranks. Without it, all count alike.

    Returns
    -------
    Candidates
        Two decisions, each with a list like the tensors as `value`.

    Raises
    ------
    BadInput
        If the rule has one phase; and as `robust_all_reduce`.

    Examples
    --------
    >>> import torch
    >>> import torch.distributed as dist
    >>> from holdfast import Mean2P
    >>> from holdfast.engines.sharded import propose_candidates
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> propose_candidates([torch.tensor([1.0, 2.0])], Mean2P(f=0)).inner.value
    [tensor([1., 2.])]
    >>> dist.destroy_process_group()
    """
    if not isinstance(rule, TwoPhase):
        raise BadInput(f"candidates was given {rule!r}; it takes a two-phase rule, such as Mean2P(f=3).")
    check(rule, tensors, beside, rng, weights)
    exchange, _ = Same(rule, group, beside, rng, weights).exchange(tensors, start=start is not None)
    own = None if start is None else exchange.start(start)
    proposed = rule.propose(exchange.updates, rng=rng, start=own)
    whole = []
    for decision in (proposed.inner, proposed.outer):
        value = [torch.empty_like(t, memory_format=torch.contiguous_format) for t in tensors]
        exchange.answer(decision.value, value)
        whole.append(replace(decision, value=value))
    exchange.close()
    return Candidates(*whole)


@dataclass(frozen=True)
class Same:
    """What must be the same on all ranks beside the tensors' shapes."""

    rule: Any
    group: Any
    beside: int
    rng: Rng | None
    weights: Weights

    def exchange(
        self, tensors: Sequence[Tensor], *, start: bool = False, explain: bool = False
    ) -> tuple[Exchange, bool]:
        """Exchange what was given, if it is alike on all ranks; and whether some rank wants an explanation."""
        wire = Wire(self.group, tensors[0].device)
        layout = Layout.of(tensors, wire.n, self.beside)
        drawn = self.rng.bit_generator.state if self.rule.random and self.rng is not None else None
        signature = f"{self.rule!r} {layout.shapes} {layout.kinds} {start} {drawn}"
        masses, explain = wire.weighed(signature, repr(self.rule), self.weights, wish=explain)
        return Exchange.of(wire, layout, tensors, masses), explain


def refuse_parts(who: str, tensors: Sequence[Tensor]) -> None:
    """Refuse tensors of which each rank holds a part alone: the rule compares whole vectors."""
    if any(hasattr(t, "device_mesh") for t in tensors):
        raise BadInput(
            f"{who} was given DTensors, as FSDP2 makes them, of which each rank holds a part; "
            "give whole tensors, as under DistributedDataParallel."
        )


def check(rule: Any, tensors: Sequence[Tensor], beside: int, rng: Rng | None, weights: Weights = None) -> None:
    """Refuse what is no rule for ranks, or none for these weights, and what holds no numbers to measure."""
    check_rule(rule, rng, weights)
    refuse_parts(repr(rule), tensors)
    if not sum(t.numel() for t in tensors[: len(tensors) - beside] if t.is_floating_point()):
        raise BadInput(
            f"{rule!r} was given {len(tensors)} tensors without a real number to measure; send at least one."
        )
    check_types(repr(rule), tensors)


def check_rule(rule: Any, rng: Rng | None, weights: Weights = None) -> None:
    """Refuse what is no rule for ranks, or none for these weights."""
    stages = (rule.inner, rule.outer) if isinstance(rule, TwoPhase) else (rule,)
    for one in stages:
        if not isinstance(one, Stage) or not one.answers or not one.chains:
            raise BadInput(f"{one!r} was given; ranks take a rule that sees all vectors at once, such as MeanwO(f=3).")
        if weights is not None:
            check_weighted(one, "weights")
    if rule.random and rng is None:
        raise BadInput(f"{rule!r} draws at random; pass rng=numpy.random.default_rng(seed).")


def check_types(who: str, tensors: Sequence[Tensor]) -> None:
    """Refuse numbers that ranks do not exchange."""
    for t in tensors:
        if t.dtype not in SENT:
            known = ", ".join(str(dtype).removeprefix("torch.") for dtype in SENT)
            raise BadInput(f"{who} was given a tensor of {t.dtype}; ranks exchange {known}.")


def decided(rule: Stage, exchange: Exchange, rng: Rng | None, start: Any, *, explain: bool) -> Decision:
    """The rule's decision, the same on all ranks."""
    return decide(rule, exchange.updates, rng=rng, start=start, explain=explain)
