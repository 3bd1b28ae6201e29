"""Flower: every rule as a strategy, two-phase rounds over the wire, and no client that can stop a run.

>>> from holdfast import MeanwO
>>> from holdfast.engines.flower import RobustStrategy
>>> RobustStrategy(MeanwO(f=3)).rule
MeanwO(f=3)
"""

import typing as _typing

from holdfast.engines.flower.version import check

check()

from holdfast.buffer import Buffer  # noqa: E402
from holdfast.engines.flower.client import apply_momentum, vote  # noqa: E402
from holdfast.engines.flower.local import LocalGrid  # noqa: E402
from holdfast.engines.flower.replies import make_record, read_model  # noqa: E402
from holdfast.engines.flower.strategy import RobustStrategy  # noqa: E402
from holdfast.engines.flower.twophase import TwoPhaseStrategy  # noqa: E402
from holdfast.engines.flower.wrapped import wrap  # noqa: E402
from holdfast.renamed import answer_old_names as _answer_old_names  # noqa: E402

__all__ = [
    "Buffer",
    "LocalGrid",
    "RobustStrategy",
    "TwoPhaseStrategy",
    "apply_momentum",
    "make_record",
    "read_model",
    "vote",
    "wrap",
]

if not _typing.TYPE_CHECKING:  # so that mypy still knows every name
    __getattr__ = _answer_old_names(__name__)
