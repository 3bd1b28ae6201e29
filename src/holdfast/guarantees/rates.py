r"""How small do the gradients become? Theorem 1 of Yi et al. 2024, as a calculator.

RASHB (Algorithm 1) runs T rounds of n workers, f of them liars. The theorem is about the mean of the squared gradients
on the way, :math:`Res_T = \frac1T \sum_{t=1}^T E \lVert \nabla L_H(\theta_{t-1}) \rVert^2`. All four statements are
orders: a constant is left out, and with it the smoothness L and the loss at the start. So one may compare settings by
them, and see what more rounds can remove; they do not bound a number.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.checks import check_whole
from holdfast.errors import BadInput

__all__ = ["Rate", "Setting", "rate", "rates"]

MAX_FLOAT = sys.float_info.max
FORMULAS = {
    "lambda": ("i", "√(n - f) λ σ / √T"),
    "zeta": ("ii", "ζ (f/n) G² + σ √(ζ f + 1) / √(n T)"),
    "kappa": ("iii", "κ G² + σ / √T"),
    "xi": ("iv", "ξ G² + σ / √T"),
}


@dataclass(frozen=True)
class Setting:
    """What Theorem 1 of Yi et al. 2024 speaks of.

    Parameters
    ----------
    n : int
        How many workers there are.
    f : int
        How many are Byzantine; below n/2.
    T : int
        How many rounds are run.
    sigma : float
        σ bounds each worker's gradient noise.
    G : float
        G bounds the heterogeneity.
    L : float
        L bounds the smoothness. It occurs in none of the formulas: the orders hide it.

    Raises
    ------
    BadInput
        If a number is out of range.

    Notes
    -----
    The paper's bounded variance is that of single samples. Gradients of b samples, as workers send them, have a σ that
    is √b times smaller.

    Examples
    --------
    >>> from holdfast.guarantees.rates import Setting
    >>> Setting(n=35, f=7, T=10_000, sigma=2.0).G
    0.0
    """

    n: int
    f: int
    T: int
    sigma: float
    G: float = 0.0
    L: float = 1.0

    def __post_init__(self) -> None:
        for name, least in (("n", 1), ("f", 0), ("T", 1)):
            check_whole(getattr(self, name), name, least=least, most=int(MAX_FLOAT), who="Setting")
        for name in ("sigma", "G", "L"):
            check_number("Setting", name, getattr(self, name), above=name == "L")
        if 2 * self.f >= self.n:
            raise BadInput(f"Setting was given n = {self.n} and f = {self.f}; it takes f < n/2.")


@dataclass(frozen=True)
class Rate:
    """An order of Res_T, the mean of the squared gradients over T rounds.

    Parameters
    ----------
    part : str
        The part of Theorem 1: "i" to "iv".
    criterion : str
        "lambda", "zeta", "kappa" or "xi".
    constant : float
        The rule's constant in this criterion.
    formula : str
        The order as text.
    stays : float
        What stays, however long one trains.
    vanishes : float
        What vanishes as 1/√T.
    why : str
        Why it does not apply; empty if it does.

    Examples
    --------
    >>> from holdfast.guarantees.rates import Setting, rate
    >>> rate(Setting(n=35, f=7, T=10_000, sigma=2.0, G=0.5), "kappa", 1.0).order
    0.27
    """

    part: str
    criterion: str
    constant: float
    formula: str
    stays: float
    vanishes: float
    why: str = ""

    @property
    def order(self) -> float:
        """Both together."""
        return self.stays + self.vanishes


def rate(setting: Setting, criterion: str, constant: float) -> Rate:
    r"""Return one part of Theorem 1, for a rule whose constant in this criterion is λ, ζ, κ or ξ.

    Parameters
    ----------
    setting : Setting
        The training.
    criterion : str
        "lambda", "zeta", "kappa" or "xi".
    constant : float
        The rule's constant in this criterion.

    Returns
    -------
    Rate
        The order, in two parts.

    Raises
    ------
    BadInput
        If the criterion is unknown, or the product is too large for a float.

    Notes
    -----
    .. math:: \sqrt{n-f}\,\frac{\lambda \sigma}{\sqrt T}, \quad
              \zeta \tfrac{f}{n} G^2 + \frac{\sigma \sqrt{\zeta f + 1}}{\sqrt{n T}}, \quad
              \kappa G^2 + \frac{\sigma}{\sqrt T}, \quad \xi G^2 + \frac{\sigma}{\sqrt T}

    These are orders: a constant is left out. The first is stated for G = 0, and reads zero for λ = 0, which no method
    reaches: it is meant for f ≥ 1. The others are stated for G > 0, and so, by letting it shrink, for G = 0.

    References
    ----------
    .. [1] Yi et al. 2024, "Near-Optimal Resilient Aggregation Rules for Distributed Learning Using 1-Center and
       1-Mean Clustering with Outliers", Theorem 1.

    Examples
    --------
    >>> from holdfast.guarantees.rates import Setting, rate
    >>> told = rate(Setting(n=35, f=7, T=10_000, sigma=2.0, G=0.5), "kappa", 1.0)
    >>> told.stays, told.vanishes, told.formula
    (0.25, 0.02, 'κ G² + σ / √T')
    """
    if criterion not in FORMULAS:
        raise BadInput(f"criterion = {criterion!r} was given; the criteria are {', '.join(FORMULAS)}.")
    check_number("rate", criterion, constant)
    n, f, noise = setting.n, setting.f, setting.sigma / math.sqrt(setting.T)
    share, why = constant, ""
    if criterion == "lambda":
        share, noise = 0.0, math.sqrt(n - f) * constant * noise
        why = "it needs G = 0" if setting.G else "it needs λ > 0" if constant == 0 else ""
    elif criterion == "zeta":
        share, noise = constant * f / n, noise * math.sqrt((constant * f + 1) / n)
    part, formula = FORMULAS[criterion]
    if not math.isfinite(share * setting.G * setting.G + noise):
        raise BadInput(
            f"{setting!r} was given with {criterion} = {constant!r}; their product is too large for a float."
        )
    return Rate(part, criterion, constant, formula, share * setting.G * setting.G, noise, why)


def rates(setting: Setting, constants: Mapping[str, float]) -> tuple[Rate, ...]:
    """Return Theorem 1 for all criteria in which a rule has a constant, in the theorem's order.

    Parameters
    ----------
    setting : Setting
        The training.
    constants : mapping from str to float
        The rule's constants by criterion.

    Returns
    -------
    tuple of Rate
        One for each constant.

    Raises
    ------
    BadInput
        If a criterion is unknown.

    Examples
    --------
    >>> from holdfast.guarantees.rates import Setting, rates
    >>> [told.part for told in rates(Setting(n=35, f=7, T=100, sigma=1.0), {"kappa": 1.34, "lambda": 0.8})]
    ['i', 'iii']
    """
    for name in constants:
        if name not in FORMULAS:
            raise BadInput(f"constants were given for {name!r}; the criteria are {', '.join(FORMULAS)}.")
    return tuple(rate(setting, name, constants[name]) for name in FORMULAS if name in constants)


def check_number(who: str, name: str, given: Any, *, above: bool = False) -> None:
    """Refuse what is no finite number, or negative, or zero where it must be above."""
    good = isinstance(given, (int, float, np.number)) and not isinstance(given, bool) and 0 <= given <= MAX_FLOAT
    if not good or (above and given == 0):
        want = "above 0" if above else "at least 0"
        raise BadInput(f"{who} was given {name} = {given!r}; {name} is a finite number, {want}.")
