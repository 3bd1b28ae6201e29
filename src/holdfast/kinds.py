"""The kinds of stages.

A `DistanceRule` decides from squared distances and answers with one sum, a `Mixing` stage makes several sums from
distances, a `CoordinateRule` works on columns, and a `OnePass` rule sees updates one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from holdfast.choice import Choice, Weights, checked_weights
from holdfast.contract import Distances, Rng, Stage
from holdfast.errors import BadInput, BrokenRule, NoWeightedForm
from holdfast.updates import Updates

if TYPE_CHECKING:
    from holdfast.decision import Decision


class Mixing(Stage):
    """A stage that makes weighted sums from distances."""

    answers = False
    # a part of the rule behind it: each point still stands for its worker, and what follows that rule sees the points
    # as before
    internal: ClassVar[bool] = False

    def size(self, n: int) -> int:
        return n

    def mix(self, D: Distances, rng: Rng | None = None) -> np.ndarray:
        """(centres, points + anchors) squared distances -> (size, points + anchors), rows sum to one."""
        raise BrokenRule(f"{type(self).__name__} does not say how it mixes; define mix(self, D, rng=None).")

    def mix_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The same for workers of different mass, and the masses of the sums; a stage without such a form refuses."""
        raise NoWeightedForm.of(self)

    def distances_after(self, D: Distances, M: np.ndarray) -> Distances | None:
        """The squared distances of the centres to the points that M makes, where they follow from D; None: measure."""
        return None


class DistanceRule(Stage):
    """A rule that decides from squared distances alone: mixing with one row."""

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights | Choice:
        """The weights of the answer, (points + anchors,), summing to one."""
        raise BrokenRule(f"{type(self).__name__} does not say how it weighs; define weights(self, D, rng=None).")

    def weights_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> Weights | Choice:
        """The same for workers of different mass, (points,); a rule without such a form refuses."""
        raise NoWeightedForm.of(self)

    def choose(
        self, D: Distances, rng: Rng | None = None, mass: np.ndarray | None = None, *, scale: float = 1.0
    ) -> Choice:
        """The weights as a Choice, checked: finite, of the right length, summing to one.

        D was measured on vectors that were multiplied by the scale.
        """
        rule = self.scaled(scale)
        chosen = rule.weights(D, rng) if mass is None else rule.weights_by_mass(D, mass, rng)
        choice = chosen if isinstance(chosen, Choice) else Choice(chosen)
        return replace(choice, weights=checked_weights(self, choice.weights, (D.shape[1],)))


class CoordinateRule(Stage):
    """A rule that treats every coordinate by itself.

    With `portable`, `columns` and `used` take blocks of any array library, on the device where they are; else blocks
    are brought to the host as numpy arrays.
    """

    portable: ClassVar[bool] = False

    def columns(self, block: Any) -> Any:
        """Return one value for each column: (n, b) -> (b,)."""
        raise BrokenRule(f"{type(self).__name__} does not say what it does; define columns(self, block).")

    def columns_by_mass(self, block: Any, mass: np.ndarray) -> Any:
        """The same for workers of different mass; a rule without such a form refuses."""
        raise NoWeightedForm.of(self)

    def used(self, block: Any) -> Any:
        """(n, b) -> (n,), the share of these columns in which each row was used."""
        raise BrokenRule(
            f"{type(self).__name__} does not say whom it uses; define used(block), or call the rule instead of decide."
        )

    def used_by_mass(self, block: Any, mass: np.ndarray) -> Any:
        """The same for workers of different mass."""
        raise BrokenRule(f"{type(self).__name__} does not say whom it uses; define used_by_mass(block, mass).")


class OnePass(Stage):
    """A rule that sees updates one after the other and keeps few of them."""

    chains = False

    def one_pass(self, updates: Updates) -> Decision:
        """Decide about updates that were read."""
        raise BrokenRule(f"{type(self).__name__} does not say what it does; define one_pass(self, updates).")


def check_weighted(rule: Stage, option: str) -> None:
    """Refuse a rule without a weighted form before its first round; the option is what the user can leave out."""
    if not has_weighted_form(rule):
        raise NoWeightedForm.of(rule, option=option)


def has_weighted_form(rule: Stage) -> bool:
    """Whether a rule takes workers of different mass: all of its stages define what they do with masses."""
    return all(_defines_masses(stage) for stage in rule.stages())


def _defines_masses(stage: Stage) -> bool:
    match stage:
        case Mixing():
            return type(stage).mix_by_mass is not Mixing.mix_by_mass
        case DistanceRule():  # ties="all" splits no vector
            return type(stage).weights_by_mass is not DistanceRule.weights_by_mass and vars(stage).get("ties") != "all"
        case CoordinateRule():
            return type(stage).columns_by_mass is not CoordinateRule.columns_by_mass
    return False


@contextmanager
def drawing(stage: Stage, rng: object) -> Iterator[None]:
    """Run a stage with this generator.

    Raises
    ------
    BadInput
        If `rng` is no generator, or is missing for a rule that draws.
    BrokenRule
        If the rule draws from the generator without saying so by `random = True`.
    """
    check_rng(stage, rng)
    try:
        yield
    except AttributeError as error:  # None in the place of the generator
        if rng is not None or error.obj is not None or not hasattr(Rng, error.name or ""):
            raise
        raise BrokenRule(
            f"{stage!r} draws from rng without saying so; write random = True in the class that draws, and pass "
            "rng=numpy.random.default_rng(seed)."
        ) from error


def check_rng(stage: Stage, rng: object) -> None:
    """Refuse what is no generator, and a rule that draws without one."""
    if rng is not None and not isinstance(rng, Rng):
        raise BadInput(f"{stage!r} was given rng = {rng!r}; pass rng=numpy.random.default_rng(seed).")
    if stage.random and rng is None:
        raise BadInput(f"{stage!r} draws at random; pass rng=numpy.random.default_rng(seed).")
