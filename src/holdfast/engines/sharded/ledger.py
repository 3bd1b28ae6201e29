"""Who was excluded at which step, a line of JSON each, written by rank 0; `holdfast ranks` reads it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch.distributed as dist

from holdfast.decision import Decision
from holdfast.engines.lines import add, named
from holdfast.errors import BadInput


class Ledger:
    """A file of decisions, one line of JSON for each step, to which a resumed training adds.

    Parameters
    ----------
    path : path or None
        The file; None: nothing is written. Rank 0 writes it, and `holdfast ranks` reads it.

    Raises
    ------
    BadInput
        If no line can be added to such a file.

    Examples
    --------
    >>> from holdfast.engines.sharded import Ledger
    >>> Ledger(None).path is None
    True
    """

    def __init__(self, path: Path | str | None) -> None:
        self.path = None if path is None else Path(path)
        if self.path is not None and not _usable(self.path):
            raise BadInput(f"Ledger was given {self.path}; name a file in a folder that is there, such as ranks.jsonl.")

    def add(self, step: int, decision: Decision | None, names: Sequence[str] | None = None, **more: Any) -> None:
        """Add one step.

        Parameters
        ----------
        step : int
            The number of the step.
        decision : Decision or None
            What the rule decided. None: the step was skipped.
        names : sequence of str, optional
            What the workers are called. Without it, by their ranks.
        **more
            What else the line says, such as why the step was skipped.
        """
        if self.path is None or dist.get_rank() != 0:
            return
        said = {} if decision is None else named(decision, names or [str(rank) for rank in range(decision.n)])
        add(self.path, {"round": step, **said, **more}, follow=True)


def _usable(path: Path) -> bool:
    """Whether a line can be added: to a regular file, or to a new one."""
    try:
        return path.is_file() if os.path.lexists(path) else path.parent.is_dir()
    except OSError:
        return False
