"""Elections between two candidates: how the workers' losses decide for Inner or Outer."""

from __future__ import annotations

from typing import Literal

import numpy as np

from holdfast.values import NonNegative, Value, value


@value
class Ballot(Value):
    """One vote for each worker, for the candidate of smaller loss; the majority of the votes that came wins.

    Parameters
    ----------
    ties : "inner" or "outer"
        Who gets ties of a voter's losses and of the votes: Inner, which has a guarantee, or Outer, as in the authors'
        program.
    proximal : float
        c of the proximal margin, at least 0. A voter counts for Outer only if it gains more than
        (c/γ) ‖θ_O - θ_I‖², with γ the length of a step, and ties go to Inner. 0, the paper's election, has no margin.

    Notes
    -----
    Without a proximal margin, training with heterogeneous data has no bound (docs/guarantees.md, Proposition N).

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import Ballot
    >>> Ballot().count(np.array([0.3, -0.1, 0.2]), f=1)
    ('outer', 1.0)
    """

    ties: Literal["inner", "outer"] = "inner"
    proximal: NonNegative = 0.0

    def count(self, gains: np.ndarray, f: int, *, margin: float = 0.0) -> tuple[str, float]:
        """Return who wins, and by how many votes for Outer.

        Parameters
        ----------
        gains : numpy.ndarray
            For each voter, its loss at Inner minus its loss at Outer.
        f : int
            How many Byzantine voters are assumed; a ballot does not use it.
        margin : float
            What a voter must gain by Outer to vote for it.

        Returns
        -------
        name : str
            "inner" or "outer".
        lead : float
            The votes for Outer minus those for Inner.
        """
        tie = 1 if self.ties == "outer" and self.proximal == 0 else -1  # the theorem needs a majority
        lead = float(np.where(gains == margin, tie, np.sign(gains - margin)).sum())
        return ("outer" if lead > 0 or (lead == 0 and tie > 0) else "inner"), lead


BALLOT = Ballot()


@value
class Numeric(Value):
    r"""The f-trimmed mean of the workers' loss differences; Outer wins if it exceeds the margin.

    Parameters
    ----------
    margin : float
        What the trimmed mean must exceed, at least 0, in units of the loss. Honest reports differ in proportion to the
        distance of the two models, so no constant margin gives a guarantee; `proximal` does.
    proximal : float
        c of the proximal margin, at least 0. The trimmed mean must exceed (c/γ) ‖θ_O - θ_I‖² too, with γ the length
        of a step. 0, as in the paper, has no such margin.

    Notes
    -----
    The sign is right whenever the honest mean of the differences exceeds :math:`\sqrt{f/(n-2f)}` of their standard
    deviation. A ballot needs :math:`\sqrt{n/(n-2f)}` for even n and :math:`\sqrt{(n-1)/(n+1-2f)}` for odd n.
    Differences are not clipped, which could turn the sign.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import Numeric
    >>> Numeric().count(np.array([0.75, -0.25, 0.5, -90.0, 0.5]), f=1)
    ('outer', 0.25)
    """

    margin: NonNegative = 0.0
    proximal: NonNegative = 0.0

    def count(self, gains: np.ndarray, f: int, *, margin: float = 0.0) -> tuple[str, float]:
        """Return who wins, and by what trimmed mean.

        Parameters
        ----------
        gains : numpy.ndarray
            For each voter, its loss at Inner minus its loss at Outer.
        f : int
            How many of the lowest and of the highest gains are trimmed.
        margin : float
            What the trimmed mean must exceed beside the election's own margin.

        Returns
        -------
        name : str
            "inner" or "outer". Infinities of both signs elect Inner.
        mean : float
            The trimmed mean.
        """
        left = np.sort(gains)[f : len(gains) - f]
        if np.isposinf(left).any() and np.isneginf(left).any():
            return "inner", 0.0
        mean = float((left / len(left)).sum())
        return ("outer" if mean > self.margin + margin else "inner"), mean


ELECTIONS = {"Ballot": Ballot, "Numeric": Numeric}
