"""The contract of every rule.

A stage turns n points into k weighted sums of them. A distance rule is the stage with k = 1, which
decides from squared distances alone; a coordinate rule works on columns. Stages chain by >>.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from holdfast.errors import BadInput
from holdfast.rules.decision import Choice, Decision
from holdfast.rules.decision import Weights as Weights
from holdfast.rules.driver import run
from holdfast.updates import Measured
from holdfast.values import Value
from holdfast.values import value as value

Distances = np.ndarray
Rng = np.random.Generator


MOST = 1 << 40  # more workers than anybody has


@dataclass(frozen=True, repr=False)
class Stage(Value):
    """Turns n points into `size(n)` points. Subclasses are frozen, final, and named as in the literature."""

    anchors: ClassVar[tuple[str, ...]] = ()  # reference rows behind the points: "origin", "start"
    lengths: ClassVar[tuple[str, ...]] = ()  # fields that are lengths and scale with the vectors
    precise: ClassVar[bool] = False  # adds up distances that cancel: measure in float64
    random: ClassVar[bool] = False  # needs rng at the call
    formula: ClassVar[str] = ""
    promise: ClassVar[str] = ""
    time: ClassVar[str] = ""
    fails: ClassVar[str] = ""  # when
    source: ClassVar[str] = ""
    chains: ClassVar[bool] = True  # can stand behind other stages
    answers: ClassVar[bool] = True  # with one vector, whatever n is
    why: ClassVar[str] = "weight zero"  # said of a worker that was left out

    def least(self) -> int:
        """The smallest n that the stage accepts: 2f + 1 unless it says otherwise."""
        return 2 * getattr(self, "f", 0) + 1

    def size(self, n: int) -> int:
        """How many points come out of n."""
        return 1

    def stages(self) -> tuple[Stage, ...]:
        """What it unfolds to."""
        return (self,)

    def centres(self, rows: np.ndarray, rng: Rng | None) -> np.ndarray | None:
        """Whose distances are needed, as positions among the points and then the anchors; None: all.

        `rows` are the workers' numbers, so that a rule can name one.
        """
        return None

    def lowered(self, by: int) -> Self:
        """The same with f lowered by so many, never below 0."""
        changes = {"f": max(0, self.f - by)} if hasattr(self, "f") else {}
        return replace(self, **changes)

    def scaled(self, scale: float) -> Self:
        """The same for vectors that were multiplied by scale."""
        room = np.finfo(float)
        changes = {name: getattr(self, name) * scale for name in self.lengths if scale != 1.0 and getattr(self, name)}
        return replace(self, **{name: float(np.clip(to, room.tiny, room.max)) for name, to in changes.items()})

    def __rshift__(self, other: Stage) -> Chain:
        return Chain((*_parts(self), *_parts(other)))

    def __call__(
        self,
        X: Any,
        *,
        rng: Rng | None = None,
        start: Any = None,
        like: Any = None,
        measure: Measured | None = None,
    ) -> Any:
        """The aggregate of the updates X, with the structure, library, dtype and device of one of them."""
        return run(self, X, rng, start, like, measure, explain=False).value

    def decide(
        self,
        X: Any,
        *,
        rng: Rng | None = None,
        start: Any = None,
        like: Any = None,
        measure: Measured | None = None,
    ) -> Decision:
        """The same, with who was kept, left out or dropped, and why; the aggregate is its `value`.

        `rng` is for rules that draw, `start` for those that start somewhere, `like` an update of the right
        structure (others are then dropped by name), `measure` tells by name which entries count in distances.
        """
        return run(self, X, rng, start, like, measure, explain=True)


class Mixing(Stage):
    """A stage that makes weighted sums from distances."""

    answers = False

    def size(self, n: int) -> int:
        return n

    def mix(self, D: Distances, rng: Rng | None = None) -> np.ndarray:
        """(centres, points + anchors) squared distances -> (size, points + anchors), rows sum to one."""
        raise TypeError(f"{type(self).__name__} does not say how it mixes")


class DistanceRule(Stage):
    """A rule that decides from squared distances alone: mixing with one row."""

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights | Choice:
        """The weights of the answer, (points + anchors,), summing to one."""
        raise TypeError(f"{type(self).__name__} does not say how it weighs")

    def choose(self, D: Distances, rng: Rng | None = None) -> Choice:
        """The same, always as a Choice."""
        chosen = self.weights(D, rng)
        return chosen if isinstance(chosen, Choice) else Choice(chosen)


class CoordinateRule(Stage):
    """A rule that treats every coordinate by itself."""

    def columns(self, block: np.ndarray) -> np.ndarray:
        """(n, b) -> (b,)"""
        raise TypeError(f"{type(self).__name__} does not say what it does")

    def used(self, block: np.ndarray) -> np.ndarray:
        """(n, b) -> (n,), the share of these columns in which each row was used."""
        raise TypeError(f"{type(self).__name__} does not say whom it uses")


@value
class Chain(Stage):
    """Stages in order; the last one gives the answer."""

    parts: tuple[Stage, ...]

    def __post_init__(self) -> None:
        if not self.parts[-1].chains:
            raise BadInput(f"{self.parts[-1]!r} takes updates as they come; it cannot stand behind other stages.")
        for stage in self.parts[:-1]:
            if stage.answers:
                raise BadInput(f"{stage!r} answers with one vector, so nothing can follow it; put it last.")

    def __repr__(self) -> str:
        return " >> ".join(map(repr, self.parts))

    @property
    def random(self) -> bool:  # type: ignore[override]
        return any(stage.random for stage in self.parts)

    @property
    def answers(self) -> bool:  # type: ignore[override]
        return self.parts[-1].answers

    @property
    def why(self) -> str:  # type: ignore[override]
        return self.parts[-1].why

    def least(self) -> int:
        high = 1
        while not self._enough(high):
            high *= 2
            if high > MOST:
                raise BadInput(f"{self!r} never has enough vectors, however many are given; change its stages.")
        return bisect.bisect_left(range(high), True, key=self._enough)

    def _enough(self, n: int) -> bool:
        for stage in self.parts:
            if n < stage.least():
                return False
            n = stage.size(n)
        return True

    def size(self, n: int) -> int:
        for stage in self.parts:
            n = stage.size(n)
        return n

    def stages(self) -> tuple[Stage, ...]:
        return tuple(inner for stage in self.parts for inner in stage.stages())

    def lowered(self, by: int) -> Chain:
        return Chain(tuple(stage.lowered(by) for stage in self.parts))


def _parts(stage: Stage) -> tuple[Stage, ...]:
    if not isinstance(stage, Stage):
        raise BadInput(f">> joins stages; {stage!r} is none.")
    return stage.parts if isinstance(stage, Chain) else (stage,)
