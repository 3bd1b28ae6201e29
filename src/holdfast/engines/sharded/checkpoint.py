"""Checkpoints by torch.distributed.checkpoint: whole or not there, and good for another number of ranks."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.state_dict_loader import load as load_shards
from torch.distributed.checkpoint.state_dict_saver import save as save_shards

from holdfast.engines.sharded.momentum import Momentum
from holdfast.engines.sharded.watch import watched
from holdfast.errors import BadInput

NAME = "step-"


def save(
    folder: Path | str, step: int, model: nn.Module, momentum: Momentum | None = None, **more: dict[str, Any]
) -> None:
    """The state after so many steps, called by all ranks; older ones go once it is whole.

    `more` are further state dicts that all ranks share, such as optimizer=optimizer.state_dict(). Each rank's momentum
    is its own.
    """
    place = Path(folder) / f"{NAME}{step:09d}"
    part = place.with_name(place.name + ".part")
    rank = dist.get_rank()
    if rank == 0:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
    with watched("saving a checkpoint"):
        dist.barrier()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of its own ways
            save_shards(_state(step, model, momentum, more, rank), checkpoint_id=str(part))
        dist.barrier()
        if rank == 0:
            shutil.rmtree(place, ignore_errors=True)
            part.rename(place)
            for old in saved(folder)[:-1]:
                shutil.rmtree(old, ignore_errors=True)
        dist.barrier()


def saved(folder: Path | str) -> list[Path]:
    """The whole checkpoints of a folder, the newest last."""
    return sorted(place for place in Path(folder).glob(f"{NAME}*") if place.suffix != ".part")


def load(folder: Path | str, model: nn.Module, momentum: Momentum | None = None, **more: dict[str, Any]) -> int:
    """Put the newest whole checkpoint into the model, and say after how many steps it was; 0 if there is none.

    With another number of ranks than before, the ranks that are there again have their own momenta, others begin with
    none. State dicts of `more` are filled in place.
    """
    found = saved(folder)
    if not found:
        return 0
    reader = FileSystemReader(str(found[-1]))
    try:
        known = reader.read_metadata().state_dict_metadata
    except Exception as error:
        raise BadInput(
            f"{found[-1]} cannot be read ({type(error).__name__}); remove it to go on from an older one."
        ) from None
    rank = dist.get_rank()
    state = _state(0, model, momentum, more, rank)
    own = f"momentum {rank}"
    if not any(name.startswith(f"{own}.") for name in known):
        state.pop(own, None)
    missing = [name for name in model.state_dict() if f"model.{name}" not in known]
    if missing:
        raise BadInput(f"{found[-1]} holds another model: it has no {missing[0]}.")
    with watched("loading a checkpoint"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        load_shards(state, checkpoint_id=str(found[-1]))
    model.load_state_dict(state["model"])
    if momentum is not None and own in state:
        momentum.load(_trained(model), [state[own][str(at)] for at in range(len(_trained(model)))])
    for name, part in more.items():
        part.update(state[name])
    return int(state["step"])


def _trained(model: nn.Module) -> list[torch.Tensor]:
    return [p for p in model.parameters() if p.requires_grad]


def _state(step: int, model: nn.Module, momentum: Momentum | None, more: dict[str, Any], rank: int) -> dict[str, Any]:
    state: dict[str, Any] = {"step": torch.tensor(step), "model": model.state_dict(), **more}
    if momentum is not None:
        state[f"momentum {rank}"] = {str(at): m for at, m in enumerate(momentum.state(_trained(model)))}
    return state
