"""Attacks with a formula over what the honest workers send; they do not know the rule."""

from __future__ import annotations

from statistics import NormalDist
from typing import Literal

import numpy as np

from holdfast.attacks.base import Attack, Rows, View, copies
from holdfast.values import NonNegative, value


@value
class Omniscient(Attack):
    r"""Omn: turns the plain mean of everybody around.

    Parameters
    ----------
    form : "program" or "text"
        "program" sends :math:`\bar x_B - \tfrac{2n}{b} \bar x_{all}`. "text" is the paper's sentence read as it
        stands, :math:`\bar x_{all} - \tfrac{2n}{b} \bar x_B`.

    Notes
    -----
    b Byzantine workers have own rows of mean :math:`\bar x_B`. After the program's form the mean of all is exactly
    :math:`-\bar x_{all}`; the text's form does not do so. A siege for small b, a sneak where 2n/b is small against the
    honest spread.

    References
    ----------
    .. [1] Yi et al. 2024, "Near-Optimal Resilient Aggregation Rules for Distributed Learning Using 1-Center and
       1-Mean Clustering with Outliers".
    .. [2] Blanchard et al. 2017, "Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent", the
       idea.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks import Omniscient, View
    >>> seen = View(honest=np.array([[1.0], [2.0]]), own=np.array([[3.0]]))
    >>> Omniscient()(seen), Omniscient(form="text")(seen)
    (array([[-9.]]), array([[-16.]]))
    """

    form: Literal["program", "text"] = "program"
    kind = "siege"
    formula = "mean_B - (2n/b) mean_all"
    source = "Yi et al. 2024"

    def __call__(self, seen: View) -> Rows:
        if not len(seen.own):
            return seen.own
        every, own, factor = seen.everyone(), seen.own.mean(axis=0), 2 * seen.n / len(seen.own)
        return copies(own - factor * every if self.form == "program" else every - factor * own, seen.own)


@value
class Empire(Attack):
    r"""Fall of empires, also called inner product manipulation (IPM): a small step the wrong way.

    Parameters
    ----------
    scale : float
        ε, at least 0. It is 0.1 in Yi et al. 2024, text and program alike. ByzFL's IPM has 2 by default.

    Notes
    -----
    .. math:: -\epsilon \, \bar x_H

    A sneak for ε below 1, a siege for large ε.

    References
    ----------
    .. [1] Xie et al. 2020, "Fall of Empires: Breaking Byzantine-tolerant SGD by Inner Product Manipulation".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks import Empire, View
    >>> Empire(scale=0.5)(View(honest=np.array([[1.0], [3.0]]), own=np.zeros((1, 1))))
    array([[-1.]])
    """

    scale: NonNegative = 0.1
    kind = "sneak"
    formula = "-ε mean_H"
    source = "Xie et al. 2020"

    def __call__(self, seen: View) -> Rows:
        return copies(-self.scale * seen.honest.mean(axis=0), seen.own)


@value
class ScaledVariance(Attack):
    r"""SV: the mean, shifted in every coordinate by z standard deviations.

    Parameters
    ----------
    z : float
        How many standard deviations are subtracted.
    over : "all" or "honest"
        Whose honest rows mean and deviation are taken over: those of all workers, or of the honest ones alone.

    Notes
    -----
    .. math:: \bar x - z \, \sigma(x)

    The text of Yi et al. 2024 says 20 over all, without a sign. Their program multiplies the updates by 1/n before it
    takes the deviation, over the honest, and subtracts it 20 times from model differences, which point against
    gradients. On gradients it is `ScaledVariance(z=-20/35, over="honest")`. The sign matters as for no other attack:
    with the program's all weights fall together and a network with ReLUs dies, with the other they rise. A siege for
    |z| = 20, a sneak below 1.

    References
    ----------
    .. [1] Yi et al. 2024, "Near-Optimal Resilient Aggregation Rules for Distributed Learning Using 1-Center and
       1-Mean Clustering with Outliers".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks import ScaledVariance, View
    >>> ScaledVariance(z=2.0)(View(honest=np.array([[1.0], [3.0]]), own=np.array([[1.0], [3.0]])))
    array([[0.],
           [0.]])
    """

    z: float = 20.0
    over: Literal["all", "honest"] = "all"
    kind = "siege"
    formula = "mean - z std"
    source = "Yi et al. 2024"

    def __call__(self, seen: View) -> Rows:
        rows = (seen.honest, seen.own) if self.over == "all" else (seen.honest,)
        mean, deviation = moments(*rows)
        return copies(mean - self.z * deviation, seen.own)


@value
class ALIE(Attack):
    r"""A little is enough: as far out as a majority can hide it.

    Parameters
    ----------
    z : float or None
        How many standard deviations are subtracted. None: z_max of the formula. A given number is used as it is.

    Notes
    -----
    .. math:: \bar x_H - z_{\max} \sigma_H, \quad \Phi(z_{\max}) = \frac{n - b - s}{n - b},
              \quad s = \lfloor n/2 + 1 \rfloor - b

    for b Byzantine workers, and 0 where the formula gives no positive number: for b ≤ 2 if n is even, for b ≤ 1 if n
    is odd. The attack then sends the honest mean, and a training remarks on it. A sneak.

    References
    ----------
    .. [1] Baruch et al. 2019, "A Little Is Enough: Circumventing Defenses For Distributed Learning".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks import ALIE, View
    >>> ALIE(z=1.0)(View(honest=np.array([[1.0], [3.0]]), own=np.zeros((1, 1))))
    array([[1.]])
    """

    z: float | None = None
    kind = "sneak"
    formula = "mean_H - z_max std_H"
    source = "Baruch et al. 2019"

    def __call__(self, seen: View) -> Rows:
        mean, deviation = moments(seen.honest)
        return copies(mean - self._z(seen.n, len(seen.own)) * deviation, seen.own)

    def harmless(self, n: int, b: int) -> str:
        if self._z(n, b):
            return ""
        zero = f"z_max is 0 if {b} of {n} workers are Byzantine" if self.z is None else "z is 0"
        return f"{zero}, so they send the honest mean"

    def _z(self, n: int, b: int) -> float:
        return zmax(n, b) if self.z is None else self.z


def zmax(n: int, b: int) -> float:
    """The z_max of n workers of which b lie.

    >>> from holdfast.attacks.informed import zmax
    >>> round(zmax(20, 8), 4)
    0.6745
    """
    p = (n - b - (n // 2 + 1 - b)) / (n - b)
    return max(0.0, NormalDist().inv_cdf(p)) if 0 < p < 1 else 0.0


def moments(*rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (over n, not n - 1) in every coordinate of the rows taken together.

    In float64, centred on the first row before squaring, so that nothing is lost to an offset or to the size.
    """
    n, pivot = sum(map(len, rows)), rows[0][0]
    total, squares = np.zeros(pivot.shape), np.zeros(pivot.shape)
    for row in (row for block in rows for row in block):  # a row at a time: no copy of all of them
        off = np.subtract(row, pivot, dtype=np.float64)
        total += off
        squares += off * off
    mean = total / n
    return pivot + mean, np.sqrt(np.maximum(squares / n - mean * mean, 0))
