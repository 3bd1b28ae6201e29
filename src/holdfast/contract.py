"""The contract of every rule: a stage turns n points into k weighted sums of them, and stages chain by `>>`.

kinds.py has the kinds of stages, and driver.py runs them.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Never, Self, Unpack

import numpy as np

from holdfast.arrays import is_array, namespace
from holdfast.checks import check_field
from holdfast.definitions import annotations_of
from holdfast.errors import BadInput
from holdfast.reading import Reading, read
from holdfast.values import Tolerance, Value
from holdfast.values import value as value

if TYPE_CHECKING:
    from holdfast.decision import Decision

Distances = np.ndarray
Rng = np.random.Generator
MOST_WORKERS = 1 << 40  # more than anybody has


@dataclass(frozen=True, repr=False)
class Stage(Value):
    """Turns n points into `size(n)` points. Subclasses are frozen, final, and named as in the literature."""

    lengths: ClassVar[tuple[str, ...]] = ()  # fields that are lengths and scale with the vectors
    majority: ClassVar[bool] = False  # has no f and withstands every f < n/2
    formula: ClassVar[str] = ""
    promise: ClassVar[str] = ""
    time: ClassVar[str] = ""
    fails: ClassVar[str] = ""  # when
    source: ClassVar[str] = ""
    chains: ClassVar[bool] = True  # can stand behind other stages
    why_weighted: ClassVar[str] = ""  # said of it if workers count differently; empty: the same

    # These five are properties, so that a rule may compute them; most rules say `random = True` or the like.

    @property
    def anchors(self) -> tuple[str, ...]:
        """Reference rows behind the points: "origin", "start", "answer"."""
        return ()

    @property
    def precise(self) -> bool:
        """Whether it adds up distances that cancel, so that they are measured in float64."""
        return False

    @property
    def random(self) -> bool:
        """Whether it needs rng at the call."""
        return False

    @property
    def answers(self) -> bool:
        """Whether it answers with one vector, whatever n is."""
        return True

    @property
    def why(self) -> str:
        """What is said of a worker that was excluded."""
        return "weight zero"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if type(f := vars(cls).get("f")) is int and "f" not in annotations_of(cls):
            raise BadInput(f"{cls.__name__} has f = {f} without an annotation; write f: Tolerance = {f}.")

    def __post_init__(self) -> None:
        if type(f := vars(self).get("f", 0)) is not int or f < 0:
            check_field(self, "f", Tolerance | None)  # a rule's own `f: int` is a tolerance too
        super().__post_init__()

    def tolerance(self) -> int | None:
        """The number f of Byzantine workers that it assumes at most; None if it has no f."""
        f: int | None = vars(self).get("f")
        return f

    def most_dropped(self, n: int) -> int | None:
        """How many of n updates may be dropped before the assumption is broken; None: the rule assumes nothing."""
        return (n - 1) // 2 if self.majority else self.tolerance()

    def least(self) -> int:
        """The smallest n that the stage accepts: 2f + 1 unless it says otherwise."""
        return 2 * (self.tolerance() or 0) + 1

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
        """The same stage with f lowered by this number, never below 0."""
        f = self.tolerance()
        return self if f is None or by == 0 else replace(self, **{"f": max(0, f - by)})

    def with_f(self, f: int) -> Self:
        """The same stage with another f; in a chain of different f, all change by the same number."""
        mine = self.tolerance()
        if mine is None:
            raise BadInput(f"{self!r} has no f, so none can be changed; take a rule with f, as MeanwO(f=1).")
        return self.lowered(mine - f)

    def scaled(self, scale: float) -> Self:
        """The same for vectors that were multiplied by scale."""
        room, values = np.finfo(float), vars(self)
        changes = {name: values[name] * scale for name in self.lengths if scale != 1.0 and values[name]}
        if not changes:
            return self
        return replace(self, **{name: float(np.clip(to, room.tiny, room.max)) for name, to in changes.items()})

    def starts(self) -> bool:
        """Whether a `start` changes its answer."""
        return any("start" in stage.anchors for stage in self.stages())

    def __rshift__(self, other: Stage) -> Chain:
        return Chain((*_parts(self), *_parts(other)))

    def __call__(
        self, X: object, *more: Never, rng: Rng | None = None, start: object = None, **reading: Unpack[Reading]
    ) -> Any:
        """Return the aggregate of the updates X.

        Parameters
        ----------
        X : array of shape (n, ...), or sequence of n updates
            One row or one entry for each worker.
        *more
            Nothing: updates that are given apart are refused with a sentence.
        rng : numpy.random.Generator, optional
            For rules that draw.
        start : update, optional
            For rules that start somewhere, such as `CenteredClipping`.
        like : update, optional
            An update of the right structure. Updates of another structure are then dropped and reported; without it,
            the call raises.
        measure : callable, optional
            Says by name which entries count in distances. Without it, all do.
        on_excess : "refuse" or "lower"
            What happens if more updates are dropped than the rule tolerates: an error, or an answer without them. f
            then falls by as little as it takes, or stays if enough updates are left.
        names : sequence, optional
            The workers' names in order, for the sentences of errors. Without it, their row numbers.
        weights : sequence of float, optional
            How much each worker counts, at least 0. Without it, all count alike.

        Returns
        -------
        update
            The `value` of what `decide` returns for the same arguments. It has the structure of one update, and the
            library, dtype and device of most of them, or of `like`.

        Raises
        ------
        TooManyFaults
            If more updates were dropped than the rule tolerates.
        BadInput
            If no answer can be given for another reason, such as too few updates.
        BrokenRule
            If the rule breaks its contract.

        Examples
        --------
        >>> import numpy as np
        >>> from holdfast import MeanwO
        >>> MeanwO(f=1)(np.array([[0.0], [1.0], [2.0], [90.0]]))
        array([1.])
        """
        from holdfast.calls import call  # the one look upwards: a rule is a value, and it can be called

        self._refuse_apart(more)
        return call(self, read(X, repr(self), **reading), rng=rng, start=start, explain=False).value

    def _refuse_apart(self, more: tuple[object, ...]) -> None:
        """Refuse updates that were given one by one, as in rule(*X)."""
        if more:
            raise BadInput(f"{self!r} was given {1 + len(more)} arguments; pass all updates as one array or one list.")

    def aggregate(self, X: object, *, rng: Rng | None = None, start: object = None, **reading: Unpack[Reading]) -> Any:
        """Return the aggregate of the updates X; another way to write a call of the rule.

        Parameters
        ----------
        X, rng, start, like, measure, on_excess, names, weights
            As for a call of the rule.

        Returns
        -------
        update
            The aggregate, as a call of the rule returns it.
        """
        return self(X, rng=rng, start=start, **reading)

    def apply(self, X: object, *, rng: Rng | None = None, start: object = None, **reading: Unpack[Reading]) -> Any:
        """Return the vectors that a stage makes of the updates X, such as the mixed vectors of NNM.

        Parameters
        ----------
        X, rng, start, like, measure, on_excess, names, weights
            As for `decide`.

        Returns
        -------
        array of shape (k, ...), or list of k updates
            An array, if X is one.

        Raises
        ------
        BadInput
            If this is a rule, which answers with one vector; call it instead.

        Examples
        --------
        >>> import numpy as np
        >>> from holdfast import NNM
        >>> NNM(f=1).apply(np.array([[0.0], [1.0], [2.0], [90.0]]))
        array([[ 1.],
               [ 1.],
               [ 1.],
               [31.]])
        """
        from holdfast.calls import apply

        made = apply(self, read(X, repr(self), **reading), rng=rng, start=start)
        first = made[0]
        return namespace(first).stack(made) if is_array(X) and is_array(first) else made

    def decide(
        self, X: object, *, rng: Rng | None = None, start: object = None, **reading: Unpack[Reading]
    ) -> Decision:
        """Aggregate the updates X, and say who was kept, excluded or dropped, and why.

        Parameters
        ----------
        X : array of shape (n, ...), or sequence of n updates
            An `Updates` that was read before is used as it is, with the reading that it has.
        rng : numpy.random.Generator, optional
            For rules that draw.
        start : update, optional
            For rules that start somewhere, such as `CenteredClipping`.
        like : update, optional
            An update of the right structure. Updates of another structure are then dropped and reported; without it,
            the call raises.
        measure : callable, optional
            Says by name which entries count in distances. Without it, all do.
        on_excess : "refuse" or "lower"
            What happens if more updates are dropped than the rule tolerates: an error, or an answer without them. f
            then falls by as little as it takes, or stays if enough updates are left.
        names : sequence, optional
            The workers' names in order, for the sentences of errors. Without it, their row numbers.
        weights : sequence of float, optional
            How much each worker counts, at least 0. Without it, all count alike.

        Returns
        -------
        Decision
            Its `value` is the aggregate.

        Raises
        ------
        TooManyFaults
            If more updates were dropped than the rule tolerates.
        BadInput
            If no answer can be given for another reason, such as too few updates.
        BrokenRule
            If the rule breaks its contract, as with weights that do not sum to one.

        Examples
        --------
        >>> import numpy as np
        >>> from holdfast import MeanwO
        >>> decision = MeanwO(f=1).decide(np.array([[0.0], [1.0], [2.0], [np.nan]]))
        >>> decision.kept, decision.dropped
        ((0, 1), {3: 'not finite'})
        """
        from holdfast.calls import call

        return call(self, read(X, repr(self), **reading), rng=rng, start=start, explain=True)


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
    def random(self) -> bool:
        return any(stage.random for stage in self.parts)

    @property
    def answers(self) -> bool:
        return self.parts[-1].answers

    @property
    def why(self) -> str:
        return self.parts[-1].why

    def tolerance(self) -> int | None:
        """The smallest f of its stages: a chain withstands no more than its weakest part."""
        return min((f for stage in self.parts if (f := stage.tolerance()) is not None), default=None)

    def most_dropped(self, n: int) -> int | None:
        most = []
        for stage in self.parts:
            most.append(stage.most_dropped(n))
            n = stage.size(n)
        return min((m for m in most if m is not None), default=None)

    def least(self) -> int:
        high = 1
        while not self._enough(high):
            high *= 2
            if high > MOST_WORKERS:
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
