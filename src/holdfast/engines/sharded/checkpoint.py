"""Checkpoints by torch.distributed.checkpoint: whole or not there, and good for another number of ranks."""

from __future__ import annotations

import re
import shutil
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
from torch.distributed.checkpoint.state_dict_loader import load as load_shards
from torch.distributed.checkpoint.state_dict_saver import save as save_shards

from holdfast.engines.sharded.momentum import Momentum
from holdfast.engines.sharded.reader import Planner, Reader, check_sums, write_checksums
from holdfast.engines.sharded.watch import RankFailed, watched
from holdfast.engines.sharded.wire import Wire
from holdfast.errors import BadInput

KEPT = 2  # checkpoints that stay


def save(
    folder: Path | str, step: int, model: nn.Module, momentum: Momentum | None = None, optimizer: Any = None
) -> None:
    """Save the state after these steps, with one checksum for each file; all ranks call this.

    Parameters
    ----------
    folder : path
        Where checkpoints are kept. The one before stays too.
    step : int
        How many steps are done.
    model : torch.nn.Module
        The model that all ranks share.
    momentum : Momentum, optional
        Each rank's own momentum.
    optimizer : torch.optim.Optimizer, optional
        The optimizer that all ranks share.

    Examples
    --------
    >>> import tempfile
    >>> import torch.distributed as dist
    >>> from torch import nn
    >>> from holdfast.engines.sharded import load, save
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> model = nn.Linear(2, 1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(folder, 7, model)
    ...     load(folder, model)
    7
    >>> dist.destroy_process_group()
    """
    place = Path(folder) / f"step-{step:09d}"
    part, aside = (place.with_name(f"{place.name}.{what}") for what in ("part", "old"))
    rank = dist.get_rank()
    if rank == 0:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
    with watched("saving a checkpoint"):
        dist.barrier()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of its own ways
            save_shards(_state(step, model, momentum, optimizer, rank), checkpoint_id=str(part))
        dist.barrier()
        if rank == 0:
            write_checksums(part)
            shutil.rmtree(aside, ignore_errors=True)
            if place.exists():
                place.rename(aside)
            part.rename(place)
            shutil.rmtree(aside, ignore_errors=True)
            for old in [one for one in saved(folder) if one < place][: 1 - KEPT]:
                shutil.rmtree(old, ignore_errors=True)
        dist.barrier()


def saved(folder: Path | str) -> list[Path]:
    """The whole checkpoints of a folder, the newest last."""
    return sorted(one for one in Path(folder).glob("step-*") if re.fullmatch(r"step-\d+", one.name) and one.is_dir())


def load(folder: Path | str, model: nn.Module, momentum: Momentum | None = None, optimizer: Any = None) -> int:
    """Put the newest whole checkpoint into the model, and return after how many steps it was written.

    Parameters
    ----------
    folder : path
        Where checkpoints are kept.
    model : torch.nn.Module
        The model to fill.
    momentum : Momentum, optional
        Each rank's own momentum. With another number of ranks than before, the ranks that are there again have their
        own momenta, others begin with none.
    optimizer : torch.optim.Optimizer, optional
        The optimizer to fill.

    Returns
    -------
    int
        The number of steps; 0 if there is no checkpoint.

    Raises
    ------
    BadInput
        On all ranks, if the checkpoint is damaged, holds another model, or asks for classes that are not ours.

    Notes
    -----
    The checksums are compared first, and nothing is unpickled but torch's own metadata and plain values. Still, do not
    load checkpoints of strangers: a checksum shows damage, not who wrote the file, and a model can be poisoned.

    Examples
    --------
    >>> from torch import nn
    >>> from holdfast.engines.sharded import load
    >>> load("no such folder", nn.Linear(2, 1))
    0
    """
    checkpoints = saved(folder)
    if not checkpoints:
        return 0
    if optimizer is not None:
        optimizer.zero_grad(set_to_none=True)  # torch makes room for a state only where there are no gradients
    rank = dist.get_rank()
    own, state = f"momentum {rank}", _state(0, model, momentum, optimizer, rank)
    check_sums(checkpoints[-1], Wire(None, _device(model)))
    try:
        known = Reader(checkpoints[-1]).read_metadata().state_dict_metadata
        if not any(name.startswith(f"{own}.") for name in known):
            state.pop(own, None)
        there = {name.removeprefix("model.") for name in known if name.startswith("model.")}
        if other := there.symmetric_difference(model.state_dict()):
            raise BadInput(f"{checkpoints[-1]} holds another model: only one of both has {min(other)}.")
        with watched("loading a checkpoint"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            load_shards(state, storage_reader=Reader(checkpoints[-1]), planner=Planner())
    except (BadInput, RankFailed):
        raise
    except (CheckpointException, Exception) as error:  # whatever a damaged file makes torch say
        what = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        raise BadInput(
            f"{checkpoints[-1]} cannot be loaded ({what[0][:200]}); remove it to go on from the one before."
        ) from None
    model.load_state_dict(state["model"])
    if momentum is not None and own in state:
        momentum.load([p for _, p in _trained(model)], [state[own][name] for name, _ in _trained(model)])
    if optimizer is not None:
        set_optimizer_state_dict(model, optimizer, state["optimizer"])
    return int(state["step"])


def _device(model: nn.Module) -> torch.device:
    return next((t.device for t in (*model.parameters(), *model.buffers())), torch.device("cpu"))


def _trained(model: nn.Module) -> list[tuple[str, Any]]:
    return [(name, p) for name, p in model.named_parameters() if p.requires_grad]


def _state(step: int, model: nn.Module, momentum: Momentum | None, optimizer: Any, rank: int) -> dict[str, Any]:
    state: dict[str, Any] = {"step": torch.tensor(step), "model": model.state_dict()}
    if optimizer is not None:
        state["optimizer"] = get_optimizer_state_dict(model, optimizer)
    if momentum is not None:
        names, parameters = zip(*_trained(model), strict=True)
        state[f"momentum {rank}"] = dict(zip(names, momentum.state(parameters), strict=True))
    return state
