"""Which rule for n workers of which f may lie: a short list, best first. docs/choosing.md gives the reasons."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf, log
from typing import Any

from holdfast.elections import Numeric
from holdfast.errors import BadInput
from holdfast.guarantees.bounds import Promise, bounds, least
from holdfast.guarantees.criteria import check
from holdfast.rules import (
    CWM,
    CWTM,
    MDA,
    PTM,
    Average,
    CenterwO,
    GeometricMedian,
    MeanExact,
    MeanwO,
    Medoid,
    NearestTo,
    StreamCenterwO,
)
from holdfast.rules.base import CoordinateRule
from holdfast.twophase import Cent2P, Mean2P

__all__ = ["Advice", "choose"]

SEARCHED, COVERED = 100, 20  # workers up to which MeanExact ends its search; liars up to which MDA does
MANY = 300  # workers beyond which n² distances are too dear
SURE = 1e-9  # probability of a draw without an honest candidate that nobody minds
NEED_NO_F: tuple[tuple[Any, str], ...] = (
    (GeometricMedian(), "needs no f: promises for every f < n/2 at once"),
    (CWM(), "needs no f; linear in n"),
    (Medoid(), "needs no f; answers with a vector that a worker sent, with the noise of one vector"),
)
MAX_ADVICE = 5  # rules in a list


@dataclass(frozen=True)
class Advice:
    """A rule of the short list, with the reason for its place.

    Parameters
    ----------
    rule : Stage or TwoPhase
        The rule.
    why : str
        The reason for its place.
    cost : float
        Its work, in passes over one worker's vector.
    promises : dict from str to Promise
        What is known of it, as `bounds` returns it. If f is unknown, for the largest f that n allows.
    over_f : dict from int to dict
        If f is unknown, the promises for several f: 1, n/10, n/5, n/3 and (n-1)/2, rounded down. Else empty.

    Examples
    --------
    >>> from holdfast.guarantees.choose import choose
    >>> round(choose(35, 7, votes=False)[0].constant("kappa"), 4)
    0.3333
    """

    rule: Any
    why: str
    cost: float
    promises: dict[str, Promise]
    over_f: dict[int, dict[str, Promise]] = field(default_factory=dict)

    def constant(self, criterion: str) -> float:
        """Return the proved constant, inf where there is none.

        Parameters
        ----------
        criterion : str
            "lambda", "kappa", "xi" or "zeta".

        Returns
        -------
        float
            The constant.
        """
        bound = self.promises[criterion].ours
        return inf if bound is None else bound.value


def choose(
    n: int, f: int | None, *, heterogeneous: bool = True, votes: bool = True, stream: bool = False, d: int | None = None
) -> list[Advice]:
    """Return a short list of rules for n workers of which f may be Byzantine, best first.

    Parameters
    ----------
    n : int
        How many workers there are.
    f : int or None
        How many may be Byzantine. None: unknown. Then only rules that need no f are listed.
    heterogeneous : bool
        Whether the workers' data differ.
    votes : bool
        Whether the workers can vote. If so, a two-phase rule comes first.
    stream : bool
        Whether updates come one at a time and do not fit into memory together.
    d : int, optional
        The dimension, which sharpens some constants.

    Returns
    -------
    list of Advice
        By the constant that convergence depends on. With heterogeneous data that is κ (the error floor κG² of Theorem
        1), else λ (its rate).

    Raises
    ------
    BadInput
        If no criterion is defined for n and f, or if f is unknown and updates come one at a time.

    Notes
    -----
    docs/choosing.md gives the reasons.

    Examples
    --------
    >>> from holdfast.guarantees.choose import choose
    >>> [advice.rule for advice in choose(35, 7, votes=False)][:2]
    [PTM(f=7), CWTM(f=7)]
    >>> {f: known["kappa"].text for f, known in choose(35, None)[0].over_f.items()}
    {1: '= 1', 3: '= 1.13', 7: '= 1.55', 11: '= 2.43', 17: '= 17'}
    """
    criterion = "kappa" if heterogeneous else "lambda"
    if f is None:
        return _without_f(n, criterion, stream=stream, d=d)
    check(n, f)
    if f == 0:
        return [_advice(Average(), n, f, d, "nobody lies: the mean is the best there is")]
    if stream:
        why = "one pass, about 3f vectors in memory; the only rule here that never holds all of them"
        return [_advice(StreamCenterwO(f), n, f, d, why)]
    advised = [_advice(rule, n, f, d, why) for rule, why in _one_phase(n, f, heterogeneous=heterogeneous)]
    advised.sort(key=lambda advice: float(f"{advice.constant(criterion):.4g}"))  # of equal ones, the first listed
    first = (
        [_elected(n, f, heterogeneous=heterogeneous)] if votes and f > 1 and n <= MANY else []
    )  # Outer needs all distances
    return (first + advised)[:MAX_ADVICE]


def _without_f(n: int, criterion: str, *, stream: bool, d: int | None) -> list[Advice]:
    """The rules that need no f, by their constant for the largest f."""
    check(n, 0)
    if stream:
        raise BadInput(
            "choose was given stream and an unknown f; every rule that reads updates one at a time needs f, so give f."
        )
    most = (n - 1) // 2
    several = sorted({min(max(f, 1), most) for f in (1, n // 10, n // 5, n // 3, most)})
    out = []
    for rule, why in NEED_NO_F:
        over_f = {f: bounds(rule, n, f, d) for f in several}
        out.append(Advice(rule, why, _work(rule, n), over_f[most], over_f))
    return sorted(out, key=lambda advice: float(f"{advice.constant(criterion):.4g}"))


def _one_phase(n: int, f: int, *, heterogeneous: bool) -> list[tuple[Any, str]]:
    many = n > MANY
    out: list[tuple[Any, str]] = [
        (CWTM(f), "no rule has a smaller κ or ζ; linear in n; weak where liars hide in every coordinate (PGA)"),
        *NEED_NO_F[:2],
    ]
    if not many:
        why = "no rule has a smaller κ; trims along the axes of the round, which attacks moved less (docs/left-open.md)"
        out.insert(0, (PTM(f), why))
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
    out.append((MeanwO(f), "the paper's rule for heterogeneous data: O(n² d), κ at most 1.46 times that of MeanExact"))
    if not heterogeneous:
        out.append((CenterwO(f), "the paper's rule for homogeneous data: λ exact, even next to n = 2f"))
        if f <= COVERED:
            out.append((MDA(f), "the least λ of all rules that average n - f whole vectors"))
    return out


def _elected(n: int, f: int, *, heterogeneous: bool) -> Advice:
    """Two phases: no constant is known, since Outer can be elected while the honest mean of the losses is worse."""
    rule = replace((Mean2P if heterogeneous else Cent2P)(f), election=Numeric())
    why = "the workers elect one of two candidates: the only kind that no attack of docs/paper.md brings down; "
    why += "without a constant, since a vote can elect Outer, which has none"
    none = {name: Promise(name, value, value, None, None, None) for name, value in least(n, f).items()}
    return Advice(rule, why, _work(rule.inner, n), none)


def _advice(rule: Any, n: int, f: int, d: int | None, why: str) -> Advice:
    return Advice(rule, why, _work(rule, n), bounds(rule, n, f, d))


def _work(rule: Any, n: int) -> float:
    """Multiplications for each coordinate and worker: n/2 where all pairs are measured, the logarithm of a sort."""
    if isinstance(rule, CoordinateRule | NearestTo):
        return log(max(2, n), 2)
    if isinstance(rule, Average | StreamCenterwO):
        return 1.0
    return float(min(getattr(rule, "candidates", None) or n / 2, n / 2))
