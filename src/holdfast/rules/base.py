"""What the author of a rule needs: the kinds of stages, `value`, and the names of what they take and give."""

from holdfast.choice import Choice, Weights
from holdfast.contract import (
    Chain,
    Distances,
    Rng,
    Stage,
    value,
)
from holdfast.kinds import (
    CoordinateRule,
    DistanceRule,
    Mixing,
    OnePass,
)
from holdfast.values import Tolerance

__all__ = [
    "Chain",
    "Choice",
    "CoordinateRule",
    "DistanceRule",
    "Distances",
    "Mixing",
    "OnePass",
    "Rng",
    "Stage",
    "Tolerance",
    "Weights",
    "value",
]
