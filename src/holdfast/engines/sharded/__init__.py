"""torch.distributed: a rule in the place of all-reduce, at its price; two-phase steps; ranks that fail by name.

Sound against faulty data and gradients on ranks whose program is honest; a Byzantine process needs a server
(holdfast.engines.flower).
"""

import typing as _typing

from holdfast.engines.sharded.checkpoint import load, save
from holdfast.engines.sharded.ledger import Ledger
from holdfast.engines.sharded.momentum import Momentum
from holdfast.engines.sharded.reduce import propose_candidates, robust_all_reduce, robust_reduce_scatter
from holdfast.engines.sharded.step import Step, two_phase_step
from holdfast.engines.sharded.watch import Job as Job
from holdfast.engines.sharded.watch import RankFailed, begin
from holdfast.renamed import answer_old_names as _answer_old_names

__all__ = [
    "Ledger",
    "Momentum",
    "RankFailed",
    "Step",
    "begin",
    "load",
    "propose_candidates",
    "robust_all_reduce",
    "robust_reduce_scatter",
    "save",
    "two_phase_step",
]

if not _typing.TYPE_CHECKING:  # so that mypy still knows every name
    __getattr__ = _answer_old_names(__name__)
