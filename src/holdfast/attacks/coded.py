"""PGA as the program of Yi et al. 2024 carries it out, for measuring their tables again."""

from __future__ import annotations

from typing import Any

import numpy as np

from holdfast.attacks.base import Attack, Rows, View, copies
from holdfast.attacks.hidden import Direction, direction
from holdfast.attacks.tailored import Small, damage
from holdfast.errors import BadInput
from holdfast.rules import CWM, CWTM, Average, GeometricMedian, Krum, NormBoundedMean
from holdfast.values import NonNegative, value

RANGES: dict[type, tuple[Direction, float, float]] = {  # rule -> direction, factor from γ to γ, γ stays below
    Krum: ("mean", 1.1, 20.0),
    CWTM: ("sign", 1.1, 20.0),
    NormBoundedMean: ("sign", 1.2, 2000.0),
    GeometricMedian: ("sign", 1.2, 2000.0),
    CWM: ("mean", 1.2, 2000.0),
}
# two phases; the program stops with an error at rules that it has no search for
OTHERS: tuple[Direction, float, float] = ("sign", 1.4, 1000.0)


@value
class CodedPGA(Attack):
    r"""PGA by the program of Yi et al. 2024: another direction and range of γ for every rule.

    Parameters
    ----------
    scale : float
        Multiplies γ, at least 0. The program's γ is of updates that are multiplied by the learning rate. On gradients
        it is scale = 1 / lr times as large.

    Notes
    -----
    .. math:: \bar x_H - \gamma p, \quad \gamma = 1, q, q^2, \dots

    p is the vector of signs or, against Krum and CWM, the unit vector of the mean. The first γ counts that moves the
    answer farthest (the nearer candidate, in two phases). Against the average it sends
    :math:`10^{20} (\bar x_H - 20 \, \mathrm{sign})`.

    A vector of signs is √d long, thousands of honest spreads, so rules that filter see it at once and the search finds
    nothing. `PGA` searches on the honest scale.

    References
    ----------
    .. [1] Yi et al. 2024, "Near-Optimal Resilient Aggregation Rules for Distributed Learning Using 1-Center and
       1-Mean Clustering with Outliers", the program.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import CWM
    >>> from holdfast.attacks import CodedPGA, View
    >>> seen = View(honest=np.array([[1.0], [1.2], [0.8]]), own=np.ones((2, 1)), rule=CWM(), f=2)
    >>> CodedPGA()(seen)[0] < -8
    array([ True])
    """

    scale: NonNegative = 10.0
    kind = "siege"
    formula = "mean_H - γ p, γ from 1 on in absolute numbers, p by the rule"
    source = "the program of Yi et al. 2024"

    def __call__(self, seen: View) -> Rows:
        if not len(seen.own):
            return seen.own
        mean = seen.honest.mean(axis=0)
        if isinstance(seen.rule, Average):
            with np.errstate(over="ignore"):
                return copies(1e20 * (mean - 20 * self.scale * np.sign(mean)), seen.own)
        along, factor, most = RANGES.get(type(seen.rule), OTHERS)
        p = self.scale * (np.sign(mean) if along == "sign" else direction(seen.honest, along))
        small = Small.of(seen, mean, p)
        gammas = [factor**k for k in range(int(np.log(most) / np.log(factor)) + 1)]
        harms = np.array([self._harm(small, gamma) for gamma in gammas])
        first = int(np.argmax(harms >= harms.max() - 1e-6 * abs(harms.max())))  # the others are so by rounding
        return Small(seen, mean, p).rows(gammas[first], apart=False)

    def _harm(self, small: Any, gamma: float) -> float:
        try:
            with np.errstate(all="ignore"):
                harm = damage(small.seen, small.rows(gamma, apart=False))[1]
        except BadInput:  # a rule that refuses so few rows
            return 0.0
        return harm if np.isfinite(harm) else 0.0
