"""Which rule for n workers of which f may lie: a short list, best first. docs/choosing.md gives the reasons."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, log
from typing import Any

from holdfast.elections import Numeric
from holdfast.guarantees.bounds import Promise, bounds
from holdfast.guarantees.criteria import check
from holdfast.rules import (
    CWM,
    CWTM,
    MDA,
    Average,
    CenterwO,
    GeometricMedian,
    MeanExact,
    MeanwO,
    NearestTo,
    StreamCenterwO,
)
from holdfast.rules.base import CoordinateRule
from holdfast.twophase import Cent2P, Mean2P

SEARCHED, COVERED = 100, 20  # workers up to which MeanExact ends its search; liars up to which MDA does
MANY = 300  # workers beyond which n² distances are too dear
SURE = 1e-9  # probability of a draw without an honest candidate that nobody minds
MAX_ADVICE = 5  # rules in a list


@dataclass(frozen=True)
class Advice:
    """A rule, why it stands where it stands, its work in passes over one worker's vector, and its promises."""

    rule: Any
    why: str
    cost: float
    promises: dict[str, Promise]

    def constant(self, criterion: str) -> float:
        """The proved constant, inf where there is none."""
        bound = self.promises[criterion].ours
        return inf if bound is None else bound.value


def choose(
    n: int, f: int, *, heterogeneous: bool = True, votes: bool = True, stream: bool = False, d: int | None = None
) -> list[Advice]:
    """A short list, best first: two-phase if workers can vote, then by the constant that convergence depends on.

    With heterogeneous data that is κ (the error floor κG² of Theorem 1), else λ (its rate). `stream`: updates come one
    at a time and do not fit into memory together.

    >>> [advice.rule for advice in choose(35, 7, votes=False)][:2]
    [CWTM(f=7), MeanExact(f=7)]
    """
    check(n, f)
    if f == 0:
        return [_advice(Average(), n, f, d, "nobody lies: the mean is the best there is")]
    if stream:
        why = "one pass, about 3f vectors in memory; the only rule here that never holds all of them"
        return [_advice(StreamCenterwO(f), n, f, d, why)]
    criterion = "kappa" if heterogeneous else "lambda"
    advised = [_advice(rule, n, f, d, why) for rule, why in _one_phase(n, f, heterogeneous=heterogeneous)]
    advised.sort(key=lambda advice: (advice.constant(criterion), advice.cost))
    first = (
        [_elected(n, f, heterogeneous=heterogeneous, d=d)] if votes and f > 1 and n <= MANY else []
    )  # Outer needs all distances
    return (first + advised)[:MAX_ADVICE]


def _one_phase(n: int, f: int, *, heterogeneous: bool) -> list[tuple[Any, str]]:
    many = n > MANY
    out: list[tuple[Any, str]] = [
        (CWTM(f), "no rule has a smaller κ or ζ; linear in n; weak where liars hide in every coordinate (ALIE)"),
        (GeometricMedian(), "needs no f: promises for every f < n/2 at once"),
        (CWM(), "needs no f; linear in n"),
    ]
    if many:
        m = max(8, int(-log(1 / SURE) / log(f / n)) + 1) if f < n else 8
        out += [
            (MeanwO(f, candidates=64), "64 random centres instead of all: linear in n, the promise fails rarely"),
            (CenterwO(f, candidates=min(m, n)), "a few random centres: one honest among them keeps λ whole"),
            (NearestTo(CWTM(f)), "a clustering in linear time, around the trimmed mean"),
        ]
        return out
    exact = n <= SEARCHED and (f <= n / 5 or n <= SEARCHED / 2)
    if exact:
        why = "the least κ of all rules that average n - f whole vectors; says by how much it may miss"
        out.append((MeanExact(f), why))
    out.append((MeanwO(f), "the paper's rule for heterogeneous data: O(n² d), κ within 1.46 of the best set's"))
    if not heterogeneous:
        out.append((CenterwO(f), "the paper's rule for homogeneous data: λ exact, even next to n = 2f"))
        if f <= COVERED:
            out.append((MDA(f), "the least λ of all rules that average n - f whole vectors"))
    return out


def _elected(n: int, f: int, *, heterogeneous: bool, d: int | None) -> Advice:
    """Two phases: the promises are those of Inner, which wins unless Outer is clearly better."""
    rule = replace((Mean2P if heterogeneous else Cent2P)(f), election=Numeric())
    why = "the workers elect one of two candidates: the only kind that no attack of docs/paper.md brings down"
    return Advice(rule, f"{why}; the promise is Inner's", _work(rule.inner, n), bounds(rule.inner, n, f, d))


def _advice(rule: Any, n: int, f: int, d: int | None, why: str) -> Advice:
    return Advice(rule, why, _work(rule, n), bounds(rule, n, f, d))


def _work(rule: Any, n: int) -> float:
    """Multiplications for each coordinate and worker: n/2 where all pairs are measured, the logarithm of a sort."""
    if isinstance(rule, CoordinateRule | NearestTo):
        return log(max(2, n), 2)
    if isinstance(rule, Average | StreamCenterwO):
        return 1.0
    return float(min(getattr(rule, "candidates", None) or n / 2, n / 2))
