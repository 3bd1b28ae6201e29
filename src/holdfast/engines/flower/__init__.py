"""Flower: every rule as a strategy, two-phase rounds over the wire, and no client that can stop a run.

>>> from holdfast import MeanwO
>>> from holdfast.engines.flower import RobustStrategy
>>> RobustStrategy(MeanwO(f=3)).rule
MeanwO(f=3)
"""

from holdfast.engines.flower.version import check

check()

from holdfast.engines.flower.client import momentum, vote  # noqa: E402
from holdfast.engines.flower.local import LocalGrid  # noqa: E402
from holdfast.engines.flower.replies import model_of, record_of  # noqa: E402
from holdfast.engines.flower.strategy import RobustStrategy  # noqa: E402
from holdfast.engines.flower.twophase import TwoPhaseStrategy  # noqa: E402
from holdfast.engines.flower.wrapped import wrap  # noqa: E402

__all__ = ["LocalGrid", "RobustStrategy", "TwoPhaseStrategy", "model_of", "momentum", "record_of", "vote", "wrap"]
