r"""How small do the gradients become, with constants: a bound for one phase and for two.

Theorems A and B of docs/guarantees.md ("With a proximal margin") bound
:math:`Res_T = \frac1T \sum_{t<T} E \lVert \nabla L_H(\theta_t) \rVert^2`. Unlike the orders of `rates`, these are
bounds: nothing is hidden.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from holdfast.checks import check_whole
from holdfast.errors import BadInput
from holdfast.guarantees.rates import Setting, check_number

__all__ = ["Descent", "GradientBound", "bound_gradients"]

ROOM = 1 + 1e-12  # for rounding, where a condition is met with equality
Election = Literal["none", "numeric", "ballot"]


@dataclass(frozen=True)
class Descent:
    """How a training descends, and how its workers vote.

    Parameters
    ----------
    step : float
        γ, the length of a step.
    start : float
        Λ, the honest mean of the losses at the start minus the least one.
    kappa : float
        κ of the rule, or of Inner.
    momentum : float
        β, at least 0 and below 1. 0: workers send gradients.
    batch : int
        How many samples a gradient has.
    election : "none", "numeric" or "ballot"
        How the workers vote. "none": one phase.
    proximal : float
        c of the election's proximal margin, above 0 if there is an election.
    vote_batch : int or None
        How many fresh samples a vote has. None: all of a worker's data.

    Raises
    ------
    BadInput
        If a number is out of range.

    Examples
    --------
    >>> from holdfast.guarantees.convergence import Descent
    >>> Descent(step=0.1, start=2.0, kappa=0.5).election
    'none'
    """

    step: float
    start: float
    kappa: float
    momentum: float = 0.0
    batch: int = 1
    election: Election = "none"
    proximal: float = 0.0
    vote_batch: int | None = None

    def __post_init__(self) -> None:
        for name in ("step", "start", "kappa", "momentum", "proximal"):
            check_number("Descent", name, getattr(self, name), above=name == "step")
        for name in ("batch", "vote_batch"):
            if getattr(self, name) is not None:
                check_whole(getattr(self, name), name, least=1, who="Descent")
        if not self.momentum < 1:
            raise BadInput(f"Descent was given momentum = {self.momentum!r}; momentum is below 1.")
        if self.election not in ("none", "numeric", "ballot"):
            raise BadInput(f"Descent was given election = {self.election!r}; it is 'none', 'numeric' or 'ballot'.")
        if self.election != "none" and self.proximal == 0:
            raise BadInput(
                f"Descent was given election = {self.election!r} without a proximal margin, with which no bound holds; "
                "pass proximal=0.05."
            )


@dataclass(frozen=True)
class GradientBound:
    """A bound on Res_T, by what it is made of.

    Parameters
    ----------
    theorem : str
        "A" (gradients) or "B" (momentum).
    start : float
        What the start costs; it vanishes as 1/T.
    aggregation : float
        What Byzantine workers and noise cost.
    vote : float
        What the vote costs at most.

    Examples
    --------
    >>> from holdfast.guarantees.convergence import GradientBound
    >>> GradientBound("A", 0.25, 0.5, 0.25).total
    1.0
    """

    theorem: str
    start: float
    aggregation: float
    vote: float

    @property
    def total(self) -> float:
        """The bound itself."""
        return self.start + self.aggregation + self.vote


def bound_gradients(setting: Setting, descent: Descent) -> GradientBound:
    r"""Return a bound on the mean of the squared gradients over T rounds.

    Parameters
    ----------
    setting : Setting
        n, f, T, the noise σ of a sample, the heterogeneity G and the smoothness L.
    descent : Descent
        The step, the rule's κ, momentum, and the election.

    Returns
    -------
    GradientBound
        Theorem A without momentum, Theorem B with it.

    Raises
    ------
    BadInput
        If the step is too long for the theorem, or c too small.

    Notes
    -----
    .. math:: \text{A:} \quad Res_T \le \frac{2 \Lambda}{\gamma T}
              + \Bigl( \sqrt{\kappa (G^2 + s^2)} + \frac{s}{\sqrt h} \Bigr)^2 + \frac{\varepsilon^2}{2c}

    with :math:`s^2 = \sigma^2 / b_g`, :math:`h = n - f` and ε as in docs/guarantees.md. Theorem A needs γ ≤ 1/L.
    Theorem B needs Lγ/(1-β) ≤ 1/4 and, with an election, c ≥ 4 (Lγ/(1-β))². It bounds the gradient at the start by
    :math:`\sqrt{2 L \Lambda}`.

    Examples
    --------
    >>> from holdfast.guarantees.convergence import Descent, bound_gradients
    >>> from holdfast.guarantees.rates import Setting
    >>> setting = Setting(n=35, f=7, T=1000, sigma=0.0, G=1.0)
    >>> bound_gradients(setting, Descent(step=0.5, start=1.0, kappa=1.5)).total
    1.5039999999999998
    >>> bound_gradients(setting, Descent(step=0.5, start=1.0, kappa=1.5, election="numeric", proximal=0.25)).vote
    0.6666666666666666
    """
    h, L, G, step, beta = setting.n - setting.f, setting.L, setting.G, descent.step, descent.momentum
    s = setting.sigma / math.sqrt(descent.batch)
    epsilon, c, voted = vote_noise(setting, descent), descent.proximal, descent.election != "none"
    if beta == 0:
        if step * L > 1:
            raise BadInput(f"step = {step!r} and L = {L!r} were given; without momentum the theorem needs step ≤ 1/L.")
        noise = (math.sqrt(descent.kappa * (G * G + s * s)) + s / math.sqrt(h)) ** 2
        price = epsilon**2 / (2 * c) if voted else 0.0
        return GradientBound("A", 2 * descent.start / (step * setting.T), noise, price)
    r = L * step / (1 - beta)
    if r > 0.25 * ROOM or (voted and c * ROOM < 4 * r * r):
        what = f"L · step/(1 - momentum) = {r:.3g} and proximal = {c!r} were given"
        raise BadInput(f"{what}; with momentum the theorem needs at most 0.25, and proximal at least {4 * r * r:.3g}.")
    first = 2 * descent.start / (step * setting.T) + 4 * L * descent.start / ((1 - beta) * setting.T)
    spread = 2 * descent.kappa * (G + s * math.sqrt((1 - beta) / (1 + beta))) ** 2
    noise = spread + 2 * (1 - beta) * (1 + 1 / setting.T) * s * s / h
    return GradientBound("B", first, noise, epsilon**2 / c if voted else 0.0)


def vote_noise(setting: Setting, descent: Descent) -> float:
    """ε of Lemma 2: by how much of the candidates' distance the honest reports mislead an election; 0 without one."""
    n, f, h = setting.n, setting.f, setting.n - setting.f
    if descent.election == "none":
        return 0.0
    kappa = f / (n - 2 * f) if descent.election == "numeric" else (-(-n // 2) - 1) / (n // 2 + 1 - f)
    per_sample = 0.0 if descent.vote_batch is None else setting.sigma**2 / descent.vote_batch
    return math.sqrt(kappa * (setting.G**2 + per_sample)) + math.sqrt(per_sample / h)
