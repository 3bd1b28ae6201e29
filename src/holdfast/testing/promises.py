"""What a rule of holdfast promises: which laws it does not, which workers it trusts, which constant is proved."""

from __future__ import annotations

from math import inf

from holdfast.contract import Stage
from holdfast.definitions import is_ours
from holdfast.guarantees.bounds import bounds
from holdfast.kinds import CoordinateRule, OnePass
from holdfast.rules import MDA, Bulyan, FLTrust, Krum, MeanwO, MoNNA, MultiKrum


def excuses(rule: Stage) -> dict[str, str]:
    """The laws that a rule does not promise, each with the reason.

    >>> from holdfast import CWM
    >>> excuses(CWM())
    {'turning': 'it treats every coordinate by itself'}
    """
    out = {}
    stages = rule.stages()
    if why := _order(rule):
        out["order"] = why
    if any({"origin", "start"} & set(stage.anchors) for stage in stages):
        out["moving"] = "it measures from a fixed point"
    if any(0 < (getattr(stage, name) or 0.0) < inf for stage in stages for name in stage.lengths):
        out |= dict.fromkeys(("moving", "scaling", "equal rows"), "it has a length of its own")
    if any(isinstance(stage, CoordinateRule) for stage in stages):
        out["turning"] = "it treats every coordinate by itself"
    return out


def _order(rule: Stage) -> str:
    """Why the order of the workers may matter; empty if it must not."""
    if rule.random:
        return "it draws an order of its own"
    for stage in getattr(rule, "parts", (rule,)):
        match stage:
            case MoNNA(pivot=pivot) | FLTrust(pivot=int(pivot)):
                return f"it trusts worker {pivot}"
            case Bulyan():
                return "two vectors that are nearest to each other tie"
            case MDA():
                return "several sets can have the least diameter"
            case OnePass():
                return "it sees the workers one after the other"
    return ""


def weighing(rule: Stage) -> dict[str, str]:
    """The laws of weights that a rule does not promise, each with the reason.

    >>> from holdfast import Krum
    >>> weighing(Krum(f=2))
    {'copies': 'it leaves out a count of workers, and counts do not grow with copies'}
    """
    for stage in rule.stages():
        match stage:
            case Krum(others="n-f-2") | MultiKrum(others="n-f-2"):
                return {"copies": "it leaves out a count of workers, and counts do not grow with copies"}
            case MultiKrum(m=int()):
                return {"copies": "it averages a count of workers, and counts do not grow with copies"}
            case MeanwO(refine=starts) if starts > 1:
                return {"copies": "copies of one centre take the places of others"}
    return dict.fromkeys(("copies", "weight 0"), "it draws by count") if rule.random else {}


def trusted(rule: Stage) -> tuple[int, ...]:
    """The workers that a rule assumes to be honest."""
    pivots = (stage.pivot for stage in rule.stages() if isinstance(stage, MoNNA | FLTrust))
    return tuple(pivot for pivot in pivots if pivot is not None)


def unclaimed(rule: Stage, kappa: float | None) -> str:
    """Why a rule need not stay near the honest mean; empty if it must: it has an f, or it withstands every f < n/2.

    >>> from holdfast import Average
    >>> unclaimed(Average(), None)
    'has no f, so robustness was not checked'
    """
    if rule.tolerance() is None and not rule.majority:
        how = "; declare f: Tolerance in its class, or set majority = True if it withstands every f < n/2"
        return f"has no f, so robustness was not checked{'' if is_ours(type(rule)) else how}"
    return "has no finite κ, so its distance to the honest mean was not checked" if kappa == inf else ""


def constant(rule: Stage, n: int, f: int) -> float | None:
    """The proved κ of a rule, infinite if it is known to have none; None if nothing is known or it holds by chance."""
    bound = bounds(rule, n, f)["kappa"].ours
    return None if bound is None or (bound.fails and bound.value < inf) or rule.random else bound.value
