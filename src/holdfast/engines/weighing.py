"""Which rules can weigh workers: asked when an engine is built, not in its third round."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from holdfast.contract import Stage
from holdfast.driver import decide
from holdfast.errors import BadInput
from holdfast.reading import read


def check_weighted(rule: Stage, option: str) -> None:
    """Refuse a rule without a weighted form; the option is what the user leaves out instead."""
    if not has_weighted_form(rule):
        raise BadInput(
            f"{rule!r} has no weighted form; leave {option} out, or take a rule that has one, such as MeanwO(f=3)."
        )


@lru_cache(64)
def has_weighted_form(rule: Stage) -> bool:
    """Whether the rule answers to a small round of workers that count differently.

    >>> from holdfast import Bulyan, MeanwO
    >>> has_weighted_form(MeanwO(f=3)), has_weighted_form(Bulyan(f=3))
    (True, False)
    """
    small = rule.lowered(max(0, (rule.tolerance() or 0) - 1))  # the form does not depend on f, and its cost does
    n = small.least() + 2  # so that the heaviest hold less than half
    updates = read(np.arange(float(n))[:, None], repr(rule), weights=[2.0, *[1.0] * (n - 1)])
    try:
        decide(small, updates, rng=np.random.default_rng(0), explain=False)
    except BadInput:
        return False
    return True
