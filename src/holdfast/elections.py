"""Elections between two candidates: how the workers' losses decide for Inner or Outer."""

from __future__ import annotations

from typing import Literal

import numpy as np

from holdfast.values import NonNegative, Value, value


@value
class Ballot(Value):
    """One vote a worker for the candidate of smaller loss; the majority of the votes that came wins.

    Ties, of a voter's losses and of the votes, go to Inner, which has a guarantee, or to Outer (`ties="outer"`), as
    in the authors' program.

    >>> Ballot().count(np.array([0.3, -0.1, 0.2]), f=1)
    ('outer', 1.0)
    """

    ties: Literal["inner", "outer"] = "inner"

    def count(self, gains: np.ndarray, f: int) -> tuple[str, float]:
        """Who wins, and by how many votes for Outer; a gain is a voter's loss at Inner minus that at Outer."""
        tie = 1 if self.ties == "outer" else -1
        lead = float(np.where(gains == 0, tie, np.sign(gains)).sum())
        return ("outer" if lead > 0 or (lead == 0 and tie > 0) else "inner"), lead


BALLOT = Ballot()


@value
class Numeric(Value):
    r"""The f-trimmed mean of the workers' loss differences; Outer wins if it exceeds the margin.

    The sign is right whenever the honest mean of the differences exceeds :math:`\sqrt{f/(n-2f)}` of their standard
    deviation; a ballot needs :math:`\sqrt{n/(n-2f)}`. Differences are not clipped, which could turn the sign.
    Outer has no worst-case guarantee, hence the margin.

    >>> Numeric().count(np.array([0.75, -0.25, 0.5, -90.0, 0.5]), f=1)
    ('outer', 0.25)
    """

    margin: NonNegative = 0.0

    def count(self, gains: np.ndarray, f: int) -> tuple[str, float]:
        """Who wins, and by what trimmed mean; infinities of both signs elect Inner."""
        left = np.sort(gains)[f : len(gains) - f]
        if np.isposinf(left).any() and np.isneginf(left).any():
            return "inner", 0.0
        mean = float((left / len(left)).sum())
        return ("outer" if mean > self.margin else "inner"), mean


ELECTIONS = {"Ballot": Ballot, "Numeric": Numeric}
