"""What this project proves of its rules: each constant with the section of docs/guarantees.md that has its proof.

h = n - f vectors are kept or honest, q = n - 2f of these at least are both. A statement is about every n > 2f that the
rule takes; a rule that is missing here has no bound that we know, and unbounded (inf) is an answer too.
"""

from __future__ import annotations

from math import ceil, inf, prod, sqrt
from typing import Any, NamedTuple

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
    CenteredClipping,
    CenterExact,
    CenterwO,
    Clip,
    DnC,
    GeometricMedian,
    Huber,
    Krum,
    MeaMed,
    MeanExact,
    MeanwO,
    MedianwO,
    Medoid,
    MoNNA,
    MultiKrum,
    NearestTo,
    NormBoundedMean,
    OuterCenter,
    OuterMean,
    StreamCenterwO,
)
from holdfast.rules.base import Chain

MEANS = (
    *(Average, OuterCenter, OuterMean, CenterwO, MeanwO, CenterExact, MeanExact, StreamCenterwO, NearestTo),
    *(CWTM, PTM, MedianwO, MeaMed, MDA, SMEA, CGE, DnC, MoNNA, Bulyan, CAF),
)
"""Rules that are the mean at f = 0, and so have 0 in every criterion."""
PULLED = 1e-6  # for each (n-f)/f: what PTM's constant may grow by, since far vectors are brought nearer
FACTORS = 1100  # so many of at most a half have a product of 0


class Bound(NamedTuple):
    """A constant, where it comes from, and with which probability it fails.

    Parameters
    ----------
    value : float
        The constant; inf if none can hold.
    source : str
        The section of docs/guarantees.md, or the theorem, that proves it.
    fails : float
        The probability with which it fails, for rules that draw.

    Examples
    --------
    >>> from holdfast import CWTM
    >>> from holdfast.guarantees.bounds import bounds
    >>> bounds(CWTM(f=5), 20)["kappa"].ours
    Bound(value=0.5, source='CWTM', fails=0.0)
    """

    value: float
    source: str
    fails: float = 0.0


Bounds = dict[str, Bound]


def ours(rule: Any, n: int, f: int, r: int) -> Bounds:
    """The constants that are proved directly, with r = min(d, n - f - 1); bounds.py adds what follows by conversion."""
    h, q = n - f, n - 2 * f
    if f == 0 and is_mean(rule, n):
        return {name: Bound(0.0, "the mean itself") for name in ("lambda", "kappa", "xi", "zeta")}
    match rule:
        case CenterwO(ties="first"):
            return _centerwo(rule, n, f)
        case MeanwO(ties="first", candidates=None, refine=starts):
            return _k_set("MeanwO", n, f, r, min(sqrt(2), sqrt(h / q)), 2.0 if starts < 2 else inf)
        case MeanwO(ties="first", candidates=int(m)):
            return {"kappa": Bound((1 + sqrt(3)) ** 2 * f / q, "MeanwO", (1 - h / (2 * n)) ** m)}
        case MeanExact():
            return _k_set("MeanExact", n, f, r, 1.0, 1.0)
        case CenterExact():
            same = Bound((2 * f * sqrt(h - 1) / h + sqrt(f / q)) ** 2, "CenterExact")
            return {"lambda": Bound(f / h * (1 + sqrt(2 * (h - 1) / h)), "CenterExact"), "kappa": same, "xi": same}
        case NearestTo():
            around = ours(rule.rule, n, f, r).get("kappa")
            return {} if around is None else near(around.value, f, q, around.fails)
        case MedianwO():
            return near((sqrt(2 * h * (h - 1)) / q + sqrt(f / q)) ** 2, f, q)
        case PTM():
            return {"kappa": Bound(f / q * (1 + PULLED * h / f), "PTM")}
        case MeaMed(lower=lower):
            return near(_median(n, f, lower=lower), f, q)
        case StreamCenterwO():
            reach = (4 * f - 2) / h if n > 2 * f + 1 else (3 * f - 1) / h
            return {"lambda": Bound(reach, "StreamCenterwO")}
        case CWTM():
            return {"kappa": Bound(f / q, "CWTM"), "lambda": Bound(f / h * sqrt(r), "CWTM")}
        case CWM(lower=lower):
            kappa = _median(n, f, lower=lower)
            return {"kappa": Bound(kappa, "CWM"), "lambda": Bound(kappa / (1 + kappa) * sqrt(r), "CWM")}
        case GeometricMedian(iterations=None):
            return {"kappa": Bound(n / q, "GeometricMedian")}
        case Medoid():
            return {"kappa": Bound(2 * h * (h - 1) / q**2, "Medoid"), "lambda": Bound((h - 1) / q, "Medoid")}
        case Krum() | MultiKrum():
            return _krum(rule, n, f)
        case MDA():
            same = Bound((sqrt(2) * f / sqrt(h) + sqrt(f / q)) ** 2, "MDA")
            return {"lambda": Bound(2 * f / h, "MDA"), "kappa": same, "xi": same}
        case SMEA():
            return {"kappa": Bound(4 * f / q, "SMEA"), "xi": Bound(4 * f / q, "SMEA")}
        case Chain(parts=(NNM(f=k), last)) if k == f:
            mine = last.tolerance()
            inner = ours(last, n, f if mine is None else mine, r).get("kappa")  # more liars expected: a larger one
            return nnm(inner, f, q)
    return _hopeless(rule, f)


def unfinished(rule: Any, n: int, f: int, r: int) -> Bounds:
    """What is still proved of a rule whose search ended at its cap, whatever the gap; empty for other rules."""
    h, q = n - f, n - 2 * f
    aside = sqrt(f / q)
    if f == 0:
        return {}
    match rule:
        case MDA():  # its set has at most twice the least diameter
            same = Bound((2 * sqrt(2) * f / sqrt(h) + aside) ** 2, "MDA")
            return {"lambda": Bound(3 * f / h, "MDA"), "kappa": same, "xi": same}
        case SMEA():  # its largest eigenvalue is at most twice the least variance
            wide = Bound((1 + sqrt(2 * r)) ** 2 * f / q, "SMEA")
            return {"kappa": Bound((1 + sqrt(2)) ** 2 * f / q, "SMEA"), "xi": wide}
        case MeanExact():
            return _k_set("MeanExact", n, f, r, min(sqrt(2), sqrt(h / q)), inf)
        case CenterExact():  # its ball is at most CenterwO's
            ball = Bound((2 * f / sqrt(h - 1) + aside) ** 2, "CenterExact")
            xi = Bound((2 * f * sqrt(2 / h) + aside) ** 2, "CenterExact")
            return {"lambda": Bound(3 * f / h, "CenterExact"), "kappa": ball, "xi": xi}
    return {}


def is_mean(rule: Any, n: int) -> bool:
    """Whether the rule is the plain mean at f = 0."""
    if isinstance(rule, MultiKrum):
        return (rule.m or n) == n
    if isinstance(rule, Bulyan):
        return rule.picks != "means"  # the mean of some of several means
    return isinstance(rule, MEANS) or (n == 1 and isinstance(rule, (CWM, GeometricMedian, Medoid, Krum)))


def _hopeless(rule: Any, f: int) -> Bounds:
    """Rules that some round moves arbitrarily far in units of the honest spread, for every constant."""
    match rule:
        case Average() | OuterCenter() | OuterMean() | CGE() | MoNNA():
            lost = f > 0
        case GeometricMedian() | Huber():  # a fixed number of steps; a fixed length
            lost = f > 0
        case DnC(filter=c) if c <= 1:
            lost = f > 1 or ceil(c * f) < f
        case Chain():
            lost = any(isinstance(stage, Clip) for stage in rule.parts)
        case _:
            lost = isinstance(rule, (NormBoundedMean, CenteredClipping))
    return unbounded() if lost else {}


def unbounded() -> Bounds:
    return {name: Bound(inf, "unbounded rules") for name in ("lambda", "kappa", "xi", "zeta")}


def _centerwo(rule: CenterwO, n: int, f: int) -> Bounds:
    h, q = n - f, n - 2 * f
    members = 2 * f - min(1.0, f / q)
    xi = min((sqrt(2 / h) * members + sqrt(f / q)) ** 2, (8 * f * f + 2 * f) * h / q**2)
    if rule.candidates is None or rule.candidates >= n:
        kappa = (members / sqrt(h - 1) + sqrt(f / q)) ** 2
        return {
            "lambda": Bound((3 * f - 1) / h, "CenterwO"),
            "kappa": Bound(kappa, "CenterwO"),
            "xi": Bound(xi, "CenterwO"),
        }
    m = rule.candidates
    # C(f, m) / C(n, m): no candidate is honest; with one, the radius is at most the diameter
    missed = prod(max(0, f - i) / (n - i) for i in range(min(m, FACTORS)))
    same = Bound((sqrt(2 / h) * members + sqrt(f / q)) ** 2, "CenterwO", missed)
    return {"lambda": Bound((3 * f - 1) / h, "CenterwO", missed), "kappa": same, "xi": same}


def _k_set(name: str, n: int, f: int, r: int, g: float, alpha: float) -> Bounds:
    """The n - f nearest to a centre of at most alpha times the least cost: MeanwO, MeanExact.

    With alpha = inf only the sum of squares is known, and of no centre that they are nearest to: several refinements.
    """
    h, q = n - f, n - 2 * f
    near = 2 * f / h * (1 + sqrt(alpha * (h - 1) / (2 * q)))
    apart = g * sqrt(f * (h - 1) / (2 * h * q)) + f / h
    return {
        "lambda": Bound(min(near, apart), name),
        "kappa": Bound(f / q * (1 + g) ** 2, name),
        "xi": Bound(f / q * (1 + g * sqrt(r)) ** 2, name),
    }


def near(inner: float, f: int, q: int, fails: float = 0.0) -> Bounds:
    if inner == inf:
        return {}  # the nearest vectors may be close all the same
    return {"kappa": Bound(f / q * (1 + sqrt(1 + inner)) ** 2, "nearest to an answer", fails)}


def nnm(inner: Bound | None, f: int, q: int) -> Bounds:
    """The constant of NNM in front of a rule with this κ."""
    if inner is None:
        return {}
    if inner.value == inf:
        return unbounded()
    return {"kappa": Bound((1 + sqrt(2)) ** 2 * f / q * (inner.value + 1), "NNM", inner.fails)}


def _median(n: int, f: int, *, lower: bool) -> float:
    if n % 2:
        return (n - 1) / (n + 1 - 2 * f)
    return n / (n - 2 * f) if lower else (n - 2) / (n + 2 - 2 * f)


def _krum(rule: Krum | MultiKrum, n: int, f: int) -> Bounds:
    """Krum and MultiKrum in all forms: k = 1 where a score leaves out one neighbour more."""
    k = 1 if rule.others == "n-f-2" else 0
    h, q = n - f, n - 2 * f - k
    m = 1 if isinstance(rule, Krum) else rule.m or h
    if n < 2 * f + 1 + 2 * k:  # fewer vectors than the proof has, which needs="f+3" allows
        return {}
    aside = sqrt((f + k) / q)
    if m > h:
        return {name: Bound(inf, "Krum and MultiKrum") for name in ("lambda", "kappa", "xi", "zeta")} if f else {}
    if not rule.squared:
        return {"kappa": Bound((sqrt(2) * h / q + aside) ** 2, "Krum and MultiKrum")} if m == 1 else {}
    alone = sqrt(2 * h / q) + aside
    near = {"lambda": Bound(sqrt((h - 1 - k) / q) + (f + k) / h, "Krum and MultiKrum")} if m == 1 else {}
    parts = [sqrt(2 * a * h / (m * q)) + a / m * aside + sqrt((m - a) * (h - m + a)) / m for a in range(min(f, m) + 1)]
    return near | {"kappa": Bound(min(alone, max(parts)) ** 2, "Krum and MultiKrum")}
