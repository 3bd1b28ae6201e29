"""Learning rates over the rounds, as factors of the first one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from holdfast.values import Count, NonNegative, Value, value


@dataclass(frozen=True, repr=False)
class Schedule(Value):
    """Maps round t of T to a factor of the learning rate."""

    def __call__(self, t: int, rounds: int) -> float:
        raise TypeError(f"{type(self).__name__} does not say its factor")


@value
class Constant(Schedule):
    """Always the same, as in the paper.

    >>> Constant()(700, 1500)
    1.0
    """

    def __call__(self, t: int, rounds: int) -> float:
        return 1.0


@value
class Cosine(Schedule):
    """From 1 to 0 along half a cosine.

    >>> Cosine()(0, 100), Cosine()(50, 100)
    (1.0, 0.5)
    """

    def __call__(self, t: int, rounds: int) -> float:
        return round(0.5 * (1 + math.cos(math.pi * t / rounds)), 12)


@value
class Steps(Schedule):
    """Times `scale` after every `every` rounds.

    >>> Steps(every=10, scale=0.5)(25, 100)
    0.25
    """

    every: Count
    scale: NonNegative = 0.1

    def __call__(self, t: int, rounds: int) -> float:
        try:
            return float(self.scale ** (t // self.every))
        except OverflowError:
            return math.inf


@value
class InverseRoot(Schedule):
    """1 / sqrt(1 + t / every), the rate of the theory.

    >>> InverseRoot(every=1)(3, 100)
    0.5
    """

    every: Count = 1

    def __call__(self, t: int, rounds: int) -> float:
        return float(1 / math.sqrt(1 + t / self.every))


SCHEDULES: dict[str, type[Any]] = {s.__name__: s for s in (Constant, Cosine, Steps, InverseRoot)}
