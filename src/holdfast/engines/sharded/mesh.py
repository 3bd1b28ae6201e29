"""Which ranks are one worker, and which hold the same columns? The replicas of a model that FSDP2 has sharded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from holdfast.engines.sharded.reduce import check_types
from holdfast.errors import BadInput, article, listing

WHO = "RobustFSDP"
TWO_CALLS = 'fully_shard(model, mesh=mesh["shard"]) and RobustFSDP(model, rule, mesh["replicate"])'


@dataclass(frozen=True)
class Replicas:
    """A model of which each replica is sharded over some ranks: a replica is a worker."""

    parameters: Mapping[str, DTensor]  # those that are trained, by name
    across: DeviceMesh  # the ranks that hold the same columns, one of each replica
    within: DeviceMesh  # the ranks of this replica

    @cached_property
    def signature(self) -> str:
        """What must be the same on all ranks."""
        shapes = [(name, tuple(p.shape), p.dtype, p.placements) for name, p in self.parameters.items()]
        return f"{shapes} {self.across.size()} {self.within.size()}"

    def missing(self) -> list[str]:
        """The parameters that have no gradient."""
        return [name for name, p in self.parameters.items() if p.grad is None]

    def gradients(self) -> list[Tensor]:
        """The columns of this rank, in place: what is written into them is in the gradients."""
        return [p.grad.to_local() for p in self.parameters.values() if isinstance(p.grad, DTensor)]


def read_replicas(model: nn.Module, across: DeviceMesh) -> Replicas:
    """The replicas of a model, or one sentence about what is not as it should be."""
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not trained:
        raise BadInput(f"{WHO} was given a model that is frozen; at least one parameter must require a gradient.")
    if plain := [name for name, p in trained.items() if not isinstance(p, DTensor)]:
        every = len(plain) == len(trained)
        raise BadInput(
            f"{WHO} was given a model of which {'no parameter is' if every else _listed(plain, 'not')} sharded; "
            + (f"call {TWO_CALLS}." if every else "shard it whole, by one more fully_shard(model, ...).")
        )
    parameters: dict[str, Any] = trained
    check_types(WHO, list(parameters.values()))
    meshes = {p.device_mesh for p in parameters.values()}
    if len(meshes) > 1:
        first = next(iter(parameters.values())).device_mesh
        others = [name for name, p in parameters.items() if p.device_mesh != first]
        raise BadInput(
            f"{WHO} was given a model on {len(meshes)} meshes ({_listed(others, 'on another')}); "
            "shard all its modules over the same mesh."
        )
    (within,) = meshes
    _check_meshes(within, across)
    return Replicas(parameters, across, within)


def _check_meshes(within: DeviceMesh, across: DeviceMesh) -> None:
    if not isinstance(across, DeviceMesh) or across.ndim != 1:
        what = (
            f"a mesh of {across.ndim} dimensions" if isinstance(across, DeviceMesh) else article(type(across).__name__)
        )
        raise BadInput(f'{WHO} was given {what} as replicas; pass one dimension, as in mesh["replicate"].')
    if within.ndim != 1:
        raise BadInput(
            f"{WHO} was given a model that is sharded over a mesh of {within.ndim} dimensions, whose replicas FSDP2 "
            f"averages before a rule sees them; call {TWO_CALLS}."
        )
    shared = set(_ranks(within)) & set(_ranks(across))
    if len(shared) > 1:
        raise BadInput(
            f"{WHO} was given replicas that share {len(shared)} ranks with the shards, over which FSDP2 averages the "
            f"gradients; make a mesh of two dimensions, then call {TWO_CALLS}."
        )


def _ranks(mesh: DeviceMesh) -> list[int]:
    return [int(rank) for rank in torch.as_tensor(mesh.mesh).flatten().tolist()]


def _listed(names: list[str], what: str) -> str:
    return f"{listing(names)} {'are' if len(names) > 1 else 'is'} {what}"
