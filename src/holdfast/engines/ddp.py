"""A rule behind DistributedDataParallel: a communication hook with one decision over all buckets."""

# Annotations stay objects here: DDP compares a hook's with its own types.
import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future

from holdfast.decision import Decision
from holdfast.engines.sharded.ledger import Ledger
from holdfast.engines.sharded.momentum import Momentum
from holdfast.engines.sharded.reduce import check, decided
from holdfast.engines.sharded.watch import at
from holdfast.engines.sharded.wire import Exchange, Layout, Weights, Wire
from holdfast.errors import BadInput
from holdfast.rules.base import Stage
from holdfast.twophase import TwoPhase

__all__ = ["Robust", "hook"]

log = logging.getLogger("holdfast")


@dataclass
class Open:
    """A bucket that is under way."""

    buffer: Tensor
    gradients: dict[Tensor, Tensor]
    flat: Tensor
    got: Tensor
    work: Any
    future: Future[Tensor]

    def holding(self, values: dict[Tensor, Tensor]) -> Tensor:
        """A bucket of this kind with other values in it."""
        out = torch.zeros_like(self.buffer)
        for p, g in self.gradients.items():
            if p in values:
                out[g.storage_offset() - self.buffer.storage_offset() :][: g.numel()] = values[p].reshape(-1)
        return out


class Robust:
    """The state of DistributedDataParallel's hook: one decision of a rule over all buckets.

    Parameters
    ----------
    rule : Stage
        The rule, such as `MeanwO(f=2)`.
    group : torch.distributed.ProcessGroup, optional
        The ranks. Without it, all.
    momentum : Momentum, optional
        Sends each rank's momentum instead of its gradient.
    scaler : torch.amp.GradScaler, optional
        The scaler, if there is one.
    ledger : Ledger, optional
        Gets one line for each step.
    weights : sequence of float, optional
        How much each rank counts, in the order of ranks; the same on all ranks. Without it, all count alike.
    seed : int
        For rules that draw.

    Attributes
    ----------
    decision : Decision or None
        The decision of the last step. Rules on single coordinates say whom they used only with a ledger.
    step : int
        How many steps were decided.

    Raises
    ------
    BadInput
        If the rule lets the ranks vote, cannot be used on ranks, or has no weighted form and weights were given.

    Notes
    -----
    Register it with `model.register_comm_hook(Robust(MeanwO(f=2)), hook)`. Buckets are exchanged as they come, in the
    shadow of the backward pass, and kept open. With the last one, ONE decision is made over all of them, the same
    whatever the buckets are. A rank whose gradient is not finite is dropped. If more than f are dropped or too few are
    left, the gradient is zero and the step is in the ledger as skipped; with a scaler it is NaN, so that the scaler
    skips the step on all ranks.

    Sound against faulty data and gradients on ranks whose program is honest; see `robust_all_reduce`.

    Examples
    --------
    >>> import torch
    >>> import torch.distributed as dist
    >>> from torch.nn.parallel import DistributedDataParallel
    >>> from holdfast import MeanwO
    >>> from holdfast.engines.ddp import Robust, hook
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> model, state = DistributedDataParallel(torch.nn.Linear(1, 1)), Robust(MeanwO(f=0))
    >>> model.register_comm_hook(state, hook)
    >>> model(torch.ones(4, 1)).mean().backward()
    >>> state.step, state.decision.kept
    (1, (0,))
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        rule: Stage,
        *,
        group: Any = None,
        momentum: Momentum | None = None,
        scaler: Any = None,
        ledger: Ledger | None = None,
        weights: Weights = None,
        seed: int = 0,
    ) -> None:
        if isinstance(rule, TwoPhase):
            raise BadInput(f"Robust was given {rule!r}, which lets the ranks vote; use two_phase_step.")
        check(rule, [torch.zeros(1)], 0, np.random.default_rng(), weights)
        self.rule, self.group, self.momentum, self.scaler = rule, group, momentum, scaler
        self.ledger, self.weights, self.seed, self.step = ledger or Ledger(None), weights, seed, 0
        self.decision: Decision | None = None
        self.last: dict[Tensor, Tensor] = {}  # the last answer by parameter, for rules that start there
        self.open: list[Open] = []

    def take(self, bucket: GradBucket) -> Future[Tensor]:
        """Start to exchange a bucket; its answer comes with the last one.

        Parameters
        ----------
        bucket : torch.distributed.GradBucket
            What DistributedDataParallel hands over.

        Returns
        -------
        torch.futures.Future
            The bucket's answer.
        """
        if bucket.index() == 0:
            self.open = []  # what a backward pass that failed has left
        buffer = bucket.buffer()
        wire = Wire(self.group, buffer.device)
        if self.momentum is not None:
            scale = self.scaler.get_scale() if self.scaler is not None else 1.0
            self.momentum(bucket.parameters(), bucket.gradients(), scale)
        flat = Layout.of([buffer], wire.n).flat([buffer], _kind(buffer))
        got, work = wire.columns(flat)
        own = dict(zip(bucket.parameters(), bucket.gradients(), strict=True))
        self.open.append(Open(buffer, own, flat, got, work, Future()))
        future = self.open[-1].future
        if bucket.is_last():
            self.finish(wire)
        return future

    def finish(self, wire: Wire) -> None:
        """Decide once over all buckets, then answer them.

        Parameters
        ----------
        wire : Wire
            The link to the other ranks.
        """
        at(self.step)
        opened, self.open = self.open, []
        buffers = [one.buffer for one in opened]
        layout = Layout(tuple(tuple(b.shape) for b in buffers), tuple(_named(buffers)), wire.n)
        signature = f"{self.rule!r} {layout.shapes} {layout.kinds} {self.seed} {self.step} {bool(self.last)}"
        wish = self.ledger.path is not None
        masses, explain = wire.weighed(signature, repr(self.rule), self.weights, wish=wish)
        came = {kind: (one.got, one.work) for kind, one in zip(layout.kinds, opened, strict=True)}
        exchange = Exchange.arrived(wire, layout, came, masses)
        try:
            start = exchange.start([one.holding(self.last) for one in opened]) if self.last else None
            rng = np.random.default_rng((self.seed, self.step))
            self.decision = decided(self.rule, exchange, rng, start, explain=explain)
        except BadInput as refusal:
            self._skip(buffers, str(refusal))
        else:
            exchange.answer(self.decision.value, buffers)
            self.ledger.add(self.step, self.decision)
            if any("start" in stage.anchors for stage in self.rule.stages()):
                self.last = {p: g.clone() for one in opened for p, g in one.gradients.items()}
        if self.momentum is not None:
            self.momentum.keep(sound=self.decision is not None and wire.rank not in self.decision.dropped)
        exchange.sent = [one.flat for one in opened if one.flat.data_ptr() != one.buffer.data_ptr()]
        exchange.close()
        at(self.step, done=True)
        self.step += 1
        for one in opened:
            one.future.set_result(one.buffer)

    def _skip(self, buffers: list[Tensor], why: str) -> None:
        self.decision = None
        log.warning("step %d is skipped: %s", self.step, why)
        self.ledger.add(self.step, None, skipped=why)
        for buffer in buffers:
            buffer.fill_(torch.nan if self.scaler is not None else 0.0)


def hook(state: Robust, bucket: GradBucket) -> Future[Tensor]:
    """Exchange a bucket for `register_comm_hook`.

    Parameters
    ----------
    state : Robust
        The state that was registered with it.
    bucket : torch.distributed.GradBucket
        What DistributedDataParallel hands over.

    Returns
    -------
    torch.futures.Future
        The bucket's answer.

    Examples
    --------
    Register it with its state:

    >>> from holdfast import MeanwO
    >>> from holdfast.engines.ddp import Robust, hook
    >>> def protect(model):
    ...     model.register_comm_hook(Robust(MeanwO(f=2)), hook)
    """
    return state.take(bucket)


def _kind(buffer: Tensor) -> str:
    return Layout.of([buffer], 1).kinds[0]


def _named(buffers: list[Tensor]) -> list[str]:
    """Every bucket is a kind of its own, so that each is cut as it was sent."""
    return [f"{_kind(buffer)} {at}" for at, buffer in enumerate(buffers)]
