"""What Byzantine workers do in the election of a two-phase round.

A voter is a frozen value called with the losses of every worker at (Inner, Outer), the numbers of the liars,
and a generator; it returns the liars' messages, each (voter, report), as `twophase.elect` reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from holdfast.values import Value, value

Messages = list[tuple[int, Any]]


@dataclass(frozen=True, repr=False)
class Voter(Value):
    """The base of all voters: how Byzantine workers vote in a two-phase round.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks import VOTERS
    >>> losses = np.array([[1.0, 2.0], [3.0, 5.0]])
    >>> VOTERS["WorseLoss"]()(losses, np.array([1]), np.random.default_rng(0))
    [(1, (5.0, 3.0))]
    """

    formula: ClassVar[str] = ""

    def __call__(self, losses: np.ndarray, liars: np.ndarray, rng: np.random.Generator) -> Messages:
        """Return the messages of the Byzantine workers.

        Parameters
        ----------
        losses : numpy.ndarray of shape (workers, 2)
            Every worker's losses at (Inner, Outer).
        liars : numpy.ndarray
            The rows of the Byzantine workers.
        rng : numpy.random.Generator
            For voters that draw.

        Returns
        -------
        list of (int, report)
            Messages as `holdfast.twophase.elect` reads them.
        """
        raise TypeError(f"{type(self).__name__} does not say how it votes")


@value
class WorseLoss(Voter):
    """For the candidate of larger loss on the worker's own data: both losses exchanged (Yi et al. 2024).

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks.voters import WorseLoss
    >>> WorseLoss()(np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([1]), np.random.default_rng(0))
    [(1, (5.0, 3.0))]
    """

    formula = "own losses exchanged"

    def __call__(self, losses: np.ndarray, liars: np.ndarray, rng: np.random.Generator) -> Messages:
        return [(int(i), (float(losses[i, 1]), float(losses[i, 0]))) for i in liars]


@value
class AgainstMajority(Voter):
    """Against what most honest workers prefer, and as strongly as a float can say it.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks.voters import AgainstMajority
    >>> AgainstMajority()(np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([1]), np.random.default_rng(0))
    [(1, (1e+308, 0.0))]
    """

    formula = "against the honest majority, by 1e308"

    def __call__(self, losses: np.ndarray, liars: np.ndarray, rng: np.random.Generator) -> Messages:
        honest = np.delete(losses, liars, axis=0)
        inner = (honest[:, 0] < honest[:, 1]).sum() >= (honest[:, 0] > honest[:, 1]).sum()
        return [(int(i), (1e308, 0.0) if inner else (0.0, 1e308)) for i in liars]


@value
class RandomVote(Voter):
    """A coin."""

    formula = "a coin"

    def __call__(self, losses: np.ndarray, liars: np.ndarray, rng: np.random.Generator) -> Messages:
        return [(int(i), (0.0, 1.0) if rng.integers(2) else (1.0, 0.0)) for i in liars]


@value
class SilentVote(Voter):
    """No vote."""

    formula = "no message"

    def __call__(self, losses: np.ndarray, liars: np.ndarray, rng: np.random.Generator) -> Messages:
        return []


@value
class DoubleVote(Voter):
    """Two votes each, both against the better candidate, and one more under a number that nobody has."""

    formula = "every vote twice"

    def __call__(self, losses: np.ndarray, liars: np.ndarray, rng: np.random.Generator) -> Messages:
        once = AgainstMajority()(losses, liars, rng)
        return [*once, *once, *((len(losses) + i, report) for i, (_, report) in enumerate(once))]


@value
class MalformedVote(Voter):
    """Texts, nothing, one number, nan, a matrix, in turn."""

    formula = "what is no vote"

    def __call__(self, losses: np.ndarray, liars: np.ndarray, rng: np.random.Generator) -> Messages:
        wrong = ("inner", None, (1.0,), (float("nan"), float("nan")), np.zeros((2, 2)), {"inner": 1.0})
        return [(int(i), wrong[k % len(wrong)]) for k, i in enumerate(liars)]


VOTERS = {
    voter.__name__: voter for voter in (WorseLoss, AgainstMajority, RandomVote, SilentVote, DoubleVote, MalformedVote)
}
