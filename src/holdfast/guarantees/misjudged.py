"""What a rule with f promises if another number of workers lies: docs/guarantees.md, "If f is not known"."""

from __future__ import annotations

from math import inf, sqrt

from holdfast.guarantees.bounds import closed, own
from holdfast.guarantees.proved import ours
from holdfast.rules import CWTM, MeanExact, MeanwO
from holdfast.rules.base import Stage


def kappa_if(rule: Stage, n: int, lie: int) -> float:
    """The κ of the rule around the mean of the n - lie honest vectors; inf where nothing is promised.

    >>> kappa_if(CWTM(f=5), 20, 5), kappa_if(CWTM(f=5), 20, 0), kappa_if(CWTM(f=5), 20, 6)
    (0.5, 0.3333333333333333, inf)
    """
    f = own(rule) or 0
    if lie > f:
        return inf
    r = max(1, n - f - 1)
    known = closed(ours(rule, n, f, r), n, f, r).get("kappa")
    constant = inf if known is None else known.value
    match rule:
        case _ if lie == f:
            return constant
        case CWTM():
            return least_if(n, f, lie)
        case MeanwO(ties="first", candidates=None) | MeanExact():
            alpha = 2 if isinstance(rule, MeanwO) else 1  # of the least sum of squares
            return min(constant, (sqrt(f) + sqrt(alpha * lie)) ** 2 / (n - f - lie))
    return constant


def least_if(n: int, f: int, lie: int) -> float:
    """What no rule that withstands f can be below when `lie` ≤ f workers lie.

    >>> least_if(20, 5, 5), least_if(20, 5, 0)
    (0.5, 0.3333333333333333)
    """
    return f / (n - f - lie)
