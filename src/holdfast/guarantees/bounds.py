r"""What a rule promises for n workers of which f lie: the paper's constant, the literature's, ours, the least possible.

The conversions, with h = n - f and S any h of the vectors (docs/guarantees.md, "Between the criteria"):

.. math:: \lambda \le \sqrt{\kappa \tfrac{h-1}{2h}}, \quad \kappa \le \xi \le \kappa \min(d, h-1), \quad
          \xi \le 2 h \lambda^2, \quad \zeta \le \kappa \tfrac{n (h-1)}{2 f h}
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, sqrt
from typing import Any

from holdfast.errors import BadInput
from holdfast.guarantees.criteria import CRITERIA, check, check_size
from holdfast.guarantees.printed import literature, paper
from holdfast.guarantees.proved import Bound, Bounds, ours
from holdfast.guarantees.weighted import COPIES, by_share, copies_of
from holdfast.rules import (
    CAF,
    CGE,
    CWM,
    CWTM,
    MDA,
    NNM,
    PTM,
    SMEA,
    Average,
    Bulyan,
    CenterExact,
    CenterwO,
    DnC,
    GeometricMedian,
    Krum,
    MeaMed,
    MeanExact,
    MeanwO,
    MedianwO,
    Medoid,
    MoNNA,
    MultiKrum,
    NearestTo,
    OuterCenter,
    OuterMean,
    StreamCenterwO,
)
from holdfast.rules.base import Stage

__all__ = ["Bound", "Promise", "bounds"]


@dataclass(frozen=True)
class Promise:
    """One criterion of one rule: what is possible, what some round makes of the rule, and what is proved.

    Parameters
    ----------
    criterion : str
        "lambda", "kappa", "xi" or "zeta".
    least : float
        The least constant that any rule can have.
    reached : float
        What some known round makes of this rule.
    ours : Bound or None
        The constant that is proved here; None: none known.
    paper : Bound or None
        The constant of Yi et al. 2024, where they state one.
    literature : Bound or None
        The constant of other papers, where they state one.

    Examples
    --------
    >>> from holdfast import CWTM
    >>> from holdfast.guarantees.bounds import bounds
    >>> bounds(CWTM(f=5), 20)["kappa"].text
    '= 0.5'
    """

    criterion: str
    least: float
    reached: float
    ours: Bound | None
    paper: Bound | None
    literature: Bound | None

    @property
    def exact(self) -> bool:
        """Whether our constant is the smallest that is true."""
        return self.ours is not None and self.reached >= self.ours.value * (1 - 1e-9)

    @property
    def text(self) -> str:
        """Our constant, marked as exact (=) or as a bound (≤)."""
        if self.ours is None or self.ours.value == inf:
            return number(None if self.ours is None else inf)
        return f"{'=' if self.exact else '≤'} {number(self.ours.value)}"


def number(value: float | None) -> str:
    """Three digits; "unbounded" and "none known" are answers."""
    return "none known" if value is None else "unbounded" if value == inf else f"{value:.3g}"


def bounds(
    rule: Any, n: int, f: int | None = None, d: int | None = None, *, share: float | None = None
) -> dict[str, Promise]:
    """Return all that is known of a rule with n workers of which f are Byzantine.

    Parameters
    ----------
    rule : Stage
        A rule that answers with one vector.
    n : int
        How many workers there are.
    f : int, optional
        How many are Byzantine, for rules without an f of their own.
    d : int, optional
        The dimension, which sharpens some constants.
    share : float, optional
        For workers that count differently: the part of the weight that the Byzantine ones hold at most, below 1/2.
        `Masses.share_of(f)` tells it.

    Returns
    -------
    dict from str to Promise
        One promise for each criterion: "lambda", "kappa", "xi", "zeta". With a share it is a promise for all weights.

    Raises
    ------
    BadInput
        If it is no rule, if f is missing or another one, or if n workers are too few.

    Notes
    -----
    The conversions between the criteria are in docs/guarantees.md, "Between the criteria", and what a share changes is
    in docs/weights.md.

    Examples
    --------
    >>> from holdfast import CWTM
    >>> from holdfast.guarantees.bounds import bounds
    >>> kappa = bounds(CWTM(f=5), 20)["kappa"]
    >>> kappa.ours.value, kappa.exact
    (0.5, True)
    >>> round(bounds(CWTM(f=5), 20, share=0.3)["kappa"].ours.value, 6)  # the five heaviest hold 30 % of the weight
    0.75
    """
    if d is not None:
        check_size("d", d, 1)
    if share is not None:
        return _for_weights(rule, n, f, d, share)
    f = tolerance(rule, n, f)
    h = n - f
    r = max(1, h - 1 if d is None else min(d, h - 1))
    proved = closed(ours(rule, n, f, r), n, f, r)
    printed, known = paper(rule, n, f, d), literature(rule, n, f, d)
    return {
        name: replace(promise, paper=printed.get(name), literature=known.get(name))
        for name, promise in _promises(proved, least(n, f), reached(rule, n, f, d)).items()
    }


def _for_weights(rule: Any, n: int, f: int | None, d: int | None, share: float) -> dict[str, Promise]:
    """What holds for all weights of n workers of which the Byzantine ones hold at most a share."""
    mine = own(rule)
    tolerance(rule, n, (mine or 0) if f is None else f)
    a = copies_of(share, rule, n)
    r = max(1, n - 1 if d is None else min(d, n - 1))
    proved = closed(by_share(rule, n, a, r), COPIES, a, r, weights=True)
    known = reached(rule, COPIES, a, 1) if isinstance(rule, CWM | GeometricMedian | MeanExact | MeanwO) else {}
    return _promises(proved, least(COPIES, a), known)


def _promises(proved: Bounds, universal: dict[str, float], by_example: dict[str, float]) -> dict[str, Promise]:
    return {
        name: Promise(
            name,
            universal[name],
            inf if name in proved and proved[name].value == inf else max(universal[name], by_example.get(name, 0.0)),
            proved.get(name),
            None,
            None,
        )
        for name in CRITERIA
    }


def everyone(n: int, f: int) -> list[Any]:
    """The catalogue for one f, in the forms that differ in what they promise, as far as n suffices."""
    forms = [Krum(f), Krum(f, others="n-f-1"), MultiKrum(f), MultiKrum(f, others="n-f-1")]
    rules: list[Any] = [CWTM(f), PTM(f), MeanExact(f), MeanwO(f), CenterExact(f), CenterwO(f), MDA(f), SMEA(f)]
    rules += [
        MedianwO(f),
        NearestTo(CWTM(f)),
        StreamCenterwO(f),
        GeometricMedian(),
        CWM(),
        CWM(lower=True),
        MeaMed(f),
        Medoid(),
    ]
    rules += [*forms, NNM(f) >> CWTM(f), NNM(f) >> GeometricMedian(), Bulyan(f), CAF(f), DnC(f), CGE(f), MoNNA(f, 0)]
    rules += [OuterCenter(f), OuterMean(f), Average()]
    return [rule for rule in rules if rule.least() <= n]


def tolerance(rule: Any, n: int, f: int | None = None) -> int:
    """The number of liars that a promise is about: the rule's own f, or the one that is given for rules without."""
    mine = own(rule)
    lie = mine if f is None else f
    if lie is None:
        raise BadInput(f"{rule!r} has no f of its own; say how many of the {n} may lie (f).")
    check(n, lie)
    if mine not in (None, lie):
        raise BadInput(f"{rule!r} tolerates {mine}, but f = {f} was given; ask about {mine} or change the rule.")
    if n < rule.least():
        raise BadInput(f"{rule!r} was given n = {n}; it needs at least {rule.least()} workers.")
    return int(lie)


def own(rule: Any) -> int | None:
    """The rule's own f, the smallest of its stages; None if it has none."""
    if isinstance(rule, str):
        raise BadInput(f"{rule!r} is text; make a rule of it first, by parse({rule!r}).")
    if not isinstance(rule, Stage) or not rule.answers:
        raise BadInput(f"{rule!r} was given; promises are about a rule that answers with one vector, as MeanwO(f=3).")
    return rule.tolerance()


def least(n: int, f: int) -> dict[str, float]:
    """What no rule can go below (Farhadkhani et al. 2022, Allouah et al. 2023a; ζ: ours)."""
    h, q = n - f, n - 2 * f
    zeta = n * (h - 1) / (2 * h * q) if f else 0.0
    return {"lambda": f / h, "kappa": f / q, "xi": f / q, "zeta": zeta}


def reached(rule: Any, n: int, f: int, d: int | None = None) -> dict[str, float]:
    """What some round makes of this rule, where one is known (docs/guarantees.md has the rounds; one needs d ≥ f)."""
    h, q = n - f, n - 2 * f
    if f == 0:
        return {}
    sides = {"lambda": 2 * f / h, "kappa": 4 * f / q, "xi": 4 * f / q}  # two sides of f, and q between them
    match rule:
        case CenterwO(ties="first", candidates=None):
            kappa = max(4 * f * f / (h - 1), (3 * f - 1) ** 2 / (f * q), 4 * f / q)
            zeta = n * (2 * f + 1) ** 2 * (h - 1) / (4 * f * h * (h - 2)) if f > 1 and h > 2 else 2 * n / h
            return {"lambda": (3 * f - 1) / h, "kappa": kappa, "xi": kappa, "zeta": zeta}
        case MeanwO(ties="first", candidates=None, refine=starts):
            room = starts < 2 and (d is None or d >= f)  # f + 1 vectors at equal distances; another start does better
            lam = f / h * (sqrt(f / q) + sqrt((f + 1) / (2 * f))) if q <= f and room else 0.0
            return sides | {"lambda": max(lam, 2 * f / h)}
        case MeanExact() | SMEA() | MDA():
            return sides
        case StreamCenterwO() if n >= 3 * f or n == 2 * f + 1:
            return {"lambda": ours(rule, n, f, 1)["lambda"].value}
        case GeometricMedian(iterations=None) if n % 2 == 0:
            return {"kappa": n / q, "xi": n / q}
        case CWM(lower=lower):
            kappa = ours(CWM(lower=lower), n, f, 1)["kappa"].value
            return {"kappa": kappa, "xi": kappa}
    return {}


def closed(known: Bounds, n: int, f: int, r: int, *, weights: bool = False) -> Bounds:
    """The same with all that follows by conversion, the smaller of both; of weights, ξ does not follow from λ."""
    h, out = n - f, dict(known)

    def better(name: str, value: float, origin: str) -> None:
        if name not in out or value < out[name].value * (1 - 1e-12):
            out[name] = Bound(value, f"from {CRITERIA[origin]}", out[origin].fails)

    if "lambda" in out and not weights:
        better("xi", 2 * h * out["lambda"].value ** 2, "lambda")
    for _ in range(2):  # what ξ brings to κ and κ to ξ
        if "xi" in out:
            better("kappa", out["xi"].value, "xi")
        if "kappa" in out:
            better("xi", out["kappa"].value * r, "kappa")
    if "kappa" in out:
        kappa = out["kappa"].value
        better("lambda", sqrt(kappa * (h - 1) / (2 * h)), "kappa")
        if not out["kappa"].fails and kappa < inf:  # a mean over rounds that may fail is not bounded
            better("zeta", kappa * n * (h - 1) / (2 * f * h) if f else (inf if kappa else 0.0), "kappa")
    return out
