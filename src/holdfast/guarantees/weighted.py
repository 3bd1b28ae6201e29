"""What is proved if workers count differently: the constants of copies, in the limit of many copies.

A weight is a number of copies, and only proportions count. So the constants of W copies of which a may be Byzantine
hold for every W with the same share a/W, also in the limit (docs/weights.md). They are computed here for 2^60 copies,
where the limit is reached to float64.
"""

from __future__ import annotations

from math import ceil, inf, sqrt
from typing import Any

from holdfast.errors import BadInput
from holdfast.guarantees.proved import Bound, Bounds, near, nnm, ours, unbounded
from holdfast.kinds import has_weighted_form
from holdfast.rules import NNM, CenterwO, Krum, MeanwO, MultiKrum, NearestTo
from holdfast.rules.base import Chain, Stage

COPIES = 2**60  # counts such as h - 1 and h then differ by rounding, and no share below 1/2 is rounded to it


def copies_of(share: object, rule: Stage, n: int) -> int:
    """How many of all copies may be Byzantine at most; BadInput if the share cannot be what f of n workers hold."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 0.5:
        raise BadInput(f"share = {share!r} was given; it is the part of the weight that f workers hold, below 1/2.")
    if not has_weighted_form(rule):
        raise BadInput(f"{rule!r} has no weighted form; leave the share out.")
    f = rule.tolerance() or 0
    if share < f / n * (1 - 1e-9):
        raise BadInput(f"share = {share} was given; the {f} heaviest of {n} workers hold at least {f / n:.3g}.")
    return ceil(share * COPIES)


def by_share(rule: Any, n: int, a: int, r: int) -> Bounds:
    """What is proved directly of n workers, of whose copies a may be Byzantine, with r = min(d, n - 1)."""
    match rule:
        case CenterwO(candidates=None) if a:  # a light honest worker far away has no variance, and widens the ball
            lost = Bound(inf, "CenterwO")
            return {"lambda": Bound(3 * a / (COPIES - a), "CenterwO"), "kappa": lost, "xi": lost}
        case CenterwO(candidates=int()) | MeanwO(candidates=int()):
            return {}  # candidates are drawn by count, not by weight
        case NearestTo():
            around = by_share(rule.rule, n, a, r).get("kappa")
            return {} if around is None else near(around.value, a, COPIES - 2 * a, around.fails)
        case Krum() | MultiKrum():
            return _krum(rule, n, a)
        case Chain(parts=(NNM(f=k), last)) if last.tolerance() in (None, k):
            return nnm(by_share(last, n, a, r).get("kappa"), a, COPIES - 2 * a)
        case Chain(parts=(NNM(), _)):
            return {}
    return ours(rule, COPIES, a, r)


def _krum(rule: Krum | MultiKrum, n: int, a: int) -> Bounds:
    """Krum and MultiKrum: k is the weight that a score leaves out, m what is averaged."""
    name, h, q = "Krum and MultiKrum", COPIES - a, COPIES - 2 * a
    k = min(COPIES / n, q / 3) if rule.others == "n-f-2" else 0.0
    aside, alone = sqrt((a + k) / (q - k)), sqrt(2 * h / (q - k))
    if isinstance(rule, Krum):
        if not rule.squared:
            return {"kappa": Bound((sqrt(2) * h / (q - k) + aside) ** 2, name)}
        reach = Bound(sqrt((h - k) / (q - k)) + (a + k) / h, name)
        return {"kappa": Bound((alone + aside) ** 2, name), "lambda": reach}
    m = rule.m * COPIES / n if rule.m else float(h)
    if m > h:
        return unbounded() if a else {}
    if not rule.squared:
        return {}
    most = min(float(a), m)
    inside = max(m - most, min(m, h / 2))  # of S, where j(h - j) is largest
    parts = alone * sqrt(most / m) + most / m * aside + sqrt(inside * (h - inside)) / m
    return {"kappa": Bound(min(alone + aside, parts) ** 2, name)}
