"""A rule behind FSDP2: each replica is one worker, each rank holds a shard, one decision over all parameters."""

from __future__ import annotations

import logging

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

from holdfast.decision import Decision
from holdfast.engines.sharded.ledger import Ledger
from holdfast.engines.sharded.mesh import Replicas, read_replicas
from holdfast.engines.sharded.momentum import Momentum
from holdfast.engines.sharded.reduce import check_rule, decided
from holdfast.engines.sharded.watch import at
from holdfast.engines.sharded.wire import Exchange, Layout, Weights, Wire
from holdfast.errors import BadInput, listing, plural
from holdfast.rules.base import Stage
from holdfast.twophase import TwoPhase

__all__ = ["RobustFSDP"]

log = logging.getLogger("holdfast")


class RobustFSDP:
    """Put a rule's answer to all replicas' gradients into the gradients of a model that FSDP2 shards.

    Parameters
    ----------
    model : torch.nn.Module
        The model, after `fully_shard(model, mesh=mesh["shard"])`.
    rule : Stage
        The rule, such as `MeanwO(f=1)`. Its workers are the replicas.
    replicas : torch.distributed.device_mesh.DeviceMesh
        The dimension of the mesh that counts the replicas, as `mesh["replicate"]`.
    momentum : Momentum, optional
        Sends each replica's momentum instead of its gradient.
    ledger : Ledger, optional
        Gets one line for each step.
    weights : sequence of float, optional
        How much each replica counts, in their order; the same on all ranks. Without it, all count alike.
    seed : int
        For rules that draw.

    Attributes
    ----------
    decision : Decision or None
        The decision of the last step, over replicas; None if the step was skipped.
    step : int
        How many steps were decided.

    Raises
    ------
    BadInput
        If the model is not sharded over one dimension of a mesh of replicas and shards, there are too few replicas for
        the rule, the rule lets workers vote, or it has no weighted form and weights were given.

    Notes
    -----
    Call `aggregate` after the backward pass and before gradients are clipped or the optimizer steps. FSDP2 averages
    the gradients within each replica. The rule then combines the replicas. A rank sends its shard to the ranks that
    hold the same shard of the other replicas, and keeps one part in R of their columns. The R x R distances are added
    up in float64 over all ranks, in their order. So there is ONE decision over all parameters, and all replicas get
    the same bits.

    Sound against faulty data and gradients on ranks whose program is honest; see `robust_all_reduce`.

    Examples
    --------
    >>> import torch
    >>> import torch.distributed as dist
    >>> from torch.distributed.device_mesh import init_device_mesh
    >>> from torch.distributed.fsdp import fully_shard
    >>> from holdfast import MeanwO
    >>> from holdfast.engines.fsdp import RobustFSDP
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("replicate", "shard"))
    >>> model = fully_shard(torch.nn.Linear(1, 1), mesh=mesh["shard"])
    >>> robust = RobustFSDP(model, MeanwO(f=0), mesh["replicate"])
    >>> model(torch.ones(4, 1)).mean().backward()
    >>> robust.aggregate().kept
    (0,)
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        model: nn.Module,
        rule: Stage,
        replicas: DeviceMesh,
        *,
        momentum: Momentum | None = None,
        ledger: Ledger | None = None,
        weights: Weights = None,
        seed: int = 0,
    ) -> None:
        if isinstance(rule, TwoPhase):
            raise BadInput(f"RobustFSDP was given {rule!r}, which lets workers vote; take {rule.inner!r}.")
        check_rule(rule, np.random.default_rng(), weights)
        self.replicas = read_replicas(model, replicas)
        n, least = replicas.size(), rule.least()
        if n < least:
            raise BadInput(
                f"RobustFSDP was given {rule!r} and {n} {plural(n, 'replica')}, and this rule needs at least {least}; "
                "lower f, or make more and smaller replicas."
            )
        self.rule, self.momentum, self.ledger = rule, momentum, ledger or Ledger(None)
        self.weights, self.seed, self.step = weights, seed, 0
        self.decision: Decision | None = None
        self.names: tuple[str, ...] = ()
        self.last: list[Tensor] = []  # the last answer, for rules that start there

    @torch.no_grad()
    def aggregate(self) -> Decision | None:
        """Combine the gradients of all replicas; all ranks call this after the backward pass.

        Returns
        -------
        Decision or None
            Which replicas were kept, excluded or dropped. None if too many were dropped: the gradients are then zero,
            and the ledger has the step as skipped.

        Raises
        ------
        BadInput
            On all ranks, if a parameter has no gradient, or ranks differ in what they pass.
        RankFailed
            If a rank is gone, or does not come.
        """
        at(self.step)
        replicas, missing = self.replicas, self.replicas.missing()
        wire = _wire(replicas)
        wish = self.ledger.path is not None
        signature = f"{self.rule!r} {replicas.signature} {missing} {self.seed} {self.step} {bool(self.last)}"
        masses, explain = wire.weighed(signature, repr(self.rule), self.weights, wish=wish)
        if missing:  # on all ranks alike, since they agreed
            raise BadInput(
                f"RobustFSDP found no gradient of {listing(missing)}; call it after backward(), and set "
                "requires_grad=False where the loss does not depend on a parameter."
            )
        self.names = self.names or _names(wire)
        gradients = replicas.gradients()
        if self.momentum is not None:
            self.momentum(replicas.parameters.values(), gradients)
        exchange = Exchange.of(wire, Layout.of(gradients, wire.n), gradients, masses)
        exchange.updates.names = self.names
        try:
            start = exchange.start(self.last) if self.last else None
            rng = np.random.default_rng((self.seed, self.step))
            self.decision = decided(self.rule, exchange, rng, start, explain=explain)
        except BadInput as refusal:
            self._skip(gradients, str(refusal))
        else:
            exchange.answer(self.decision.value, gradients)
            self.ledger.add(self.step, self.decision, self.names)
            if any("start" in stage.anchors for stage in self.rule.stages()):
                self.last = [g.clone() for g in gradients]
        if self.momentum is not None:
            self.momentum.keep(sound=self.decision is not None and wire.rank not in self.decision.dropped)
        exchange.close()
        at(self.step, done=True)
        self.step += 1
        return self.decision

    def _skip(self, gradients: list[Tensor], why: str) -> None:
        self.decision = None
        log.warning("step %d is skipped: %s", self.step, why)
        self.ledger.add(self.step, None, skipped=why)
        for gradient in gradients:
            gradient.zero_()


def _wire(replicas: Replicas) -> Wire:
    device = next(iter(replicas.parameters.values())).to_local().device
    return Wire(replicas.across.get_group(), device, parts=replicas.within.get_group())


def _names(wire: Wire) -> tuple[str, ...]:
    """What the replicas are called: by their ranks."""
    ranks = wire.shards(np.array(torch.distributed.get_rank())).reshape(wire.n, -1).tolist()
    return tuple(f"replica {i} ({plural(len(own), 'rank')} {listing(map(str, own))})" for i, own in enumerate(ranks))
