"""Training under attack: RASHB (Algorithm 1) and 2PRASHB (Algorithm 3) of Yi et al. 2024.

`train(Run(rule="Mean2P(f=8)", attack="SignFlip()", byzantine=8))` runs one from its record to its result.
"""

from typing import Any

from holdfast.training.loop import Round, rashb, two_phase_rashb
from holdfast.training.run import Run
from holdfast.training.state import State
from holdfast.training.task import Functions, Task
from holdfast.training.train import Result, train


def __getattr__(name: str) -> Any:
    """Workers and fill, which bring torch along, when they are asked for."""
    if name in ("Workers", "fill"):
        from holdfast.training import workers

        return getattr(workers, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["Functions", "Result", "Round", "Run", "State", "Task", "rashb", "train", "two_phase_rashb"]
