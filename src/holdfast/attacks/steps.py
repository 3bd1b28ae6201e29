"""The search for the step γ along a direction that does most harm; what harm is, the attack says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

LEVELS = (  # factors of the honest spread, then of the best so far, and how many of these go on
    (2.0 ** np.arange(-6, 10), 2),
    (2.0 ** np.linspace(-1, 1, 9), 1),
    (2.0 ** np.linspace(-0.25, 0.25, 9), 1),
)
LAST = 2.0 ** np.linspace(-1 / 16, 1 / 16, 9)
QUESTIONS, RATIO = 20, 0.8  # of ByzFL's line search: evaluations, and how much shorter a step becomes
Harmful = Callable[[float], tuple[bool, float]]
"""Whether a step is what the attacker wants, and how much harm it does; compared in this order."""


def search_levels(harmful: Harmful) -> float:
    """The best step of an octave grid, refined twice around the best so far; of equal ones the smallest."""
    best = [1.0]
    for factors, keep in LEVELS:
        tried = {gamma * factor for gamma in best for factor in factors}
        best = sorted(sorted(tried), key=harmful, reverse=True)[:keep]
    return best[0]


def search_line(harmful: Harmful, start: float, step: float) -> float:
    """The best step of the line search of ByzFL's optimised attacks.

    It goes on in steps of double length while these do more harm, and then tries ever shorter ones.

    >>> search_line(lambda gamma: (True, -abs(gamma - 7)), start=0.0, step=1.0)
    7.0
    """
    best, most, growing = start, harmful(start), True
    for _ in range(QUESTIONS - 1):
        harm = harmful(best + step)
        if harm > most:
            best, most = best + step, harm
            step *= 2 if growing else RATIO
        else:
            growing = False
            step *= RATIO
    return best


def search_thoroughly(harmful: Harmful, signs: tuple[int, ...], line: tuple[float, float]) -> float:
    """The best step of both searches, in the direction of each sign, refined once more.

    Parameters
    ----------
    harmful
        The harm of a step.
    signs
        1 for the direction itself, -1 for the opposite one.
    line
        Start and first step of the line search; without a first step it is left out.
    """
    found = []
    for sign in signs:
        turned = _turned(harmful, sign)
        found.append(sign * search_levels(turned))
        if line[1]:
            found.append(sign * search_line(turned, *line))
    best = max(found, key=harmful)
    return max([best, *(best * LAST).tolist()], key=harmful)


def _turned(harmful: Harmful, sign: int) -> Harmful:
    return lambda gamma: harmful(sign * gamma)
