"""Constants as others print them: those of the paper, true or not, and those of the literature."""

from __future__ import annotations

from math import inf, sqrt
from typing import Any

from holdfast.guarantees.proved import Bound, Bounds
from holdfast.rules import CWM, CWTM, MDA, NNM, SMEA, CenterwO, GeometricMedian, Krum, MeanwO
from holdfast.rules.base import Chain

PAPER = "Yi et al. 2024, Theorem 2"
FALSE = f"{PAPER}; false"


def paper(rule: Any, n: int, f: int, d: int | None) -> Bounds:
    """The constants as the paper prints them, with δ_max = f/n."""
    h, q, nu = n - f, n - 2 * f, 0.5 - f / n
    match rule:
        case CenterwO(ties="first", candidates=None):
            kappa = Bound((8 * f * f + 2 * f) * h / q**2, PAPER)
            zeta = Bound((18 + 8 * sqrt(2)) / (1 + 2 * nu) ** 2 * f / n, FALSE)
            lam = Bound((2 * sqrt(2) + 1) * f / h, PAPER)
            return {"lambda": lam, "kappa": kappa, "xi": kappa, "zeta": zeta}
        case MeanwO(ties="first", candidates=None):
            kappa = Bound(6 * f * h / q**2, PAPER)
            zeta = Bound(3 * (1 + 2 * nu) / (8 * nu**2), PAPER)
            xi = Bound(kappa.value * min(h, h if d is None else d), PAPER)
            return {"lambda": Bound(sqrt(3 * f * h) / q, PAPER), "kappa": kappa, "xi": xi, "zeta": zeta}
    return {}


def literature(rule: Any, n: int, f: int, d: int | None) -> Bounds:
    """What others proved, as they state it."""
    h, q = n - f, n - 2 * f
    reach = min(2 * sqrt(h), inf if d is None else sqrt(d))
    resam, mixing = "Farhadkhani et al. 2022", "Allouah et al. 2023a"
    match rule:
        case MDA():
            return {"lambda": Bound(2 * f / h, resam)}
        case CWTM():
            return {"lambda": Bound(f / h * reach, resam), "kappa": Bound(6 * f / q * (1 + f / q), mixing)}
        case CWM():
            return {"lambda": Bound(n / (2 * h) * reach, resam), "kappa": Bound(4 * (1 + f / q) ** 2, mixing)}
        case GeometricMedian(iterations=None):
            return {"lambda": Bound(1 + h / sqrt(q * n), resam), "kappa": Bound(4 * (1 + f / q) ** 2, mixing)}
        case Krum(others="n-f-1", squared=True):
            return {"lambda": Bound(1 + sqrt(h / q), resam), "kappa": Bound(6 * (1 + f / q), mixing)}
        case SMEA():
            return {"xi": Bound(4 * f / h * (1 + f / q) ** 2, "Allouah et al. 2023b")}
        case Chain(parts=(NNM(), last)):
            own = literature(last, n, f, d).get("kappa")
            return {} if own is None else {"kappa": Bound(8 * f / h * (own.value + 1), f"{mixing}, Lemma 1")}
    return {}
