"""Rules that look for the direction in which vectors differ most, by eigenvectors of the centred Gram matrix."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from holdfast.rules.base import DistanceRule, Distances, Rng, Stage, Tolerance, Weights, value
from holdfast.rules.clipping import pulled
from holdfast.rules.clustering import even
from holdfast.values import Positive

MAX_STEPS = 1000  # of a filter whose steps may become ever smaller


def gram(D: Distances, w: Weights) -> np.ndarray:
    """Inner products of all points seen from the point that the weights make."""
    g = D @ w - 0.5 * w @ D @ w
    return 0.5 * (g[:, None] + g - D)


def principal(D: Distances, w: Weights) -> tuple[float, np.ndarray]:
    """Largest eigenvalue of the weighted covariance, and the squared length of each point along its direction.

    The covariance Σ w_i y_i y_iᵀ has the eigenvalues of √w B √w with B the Gram matrix of the y_i, which are
    seen from their weighted mean; with u its eigenvector, the direction is Σ √w_i u_i y_i / √λ.
    """
    unit = float(D.max()) or 1.0  # squares of squares must have room
    root = np.sqrt(w)
    B = gram(D / unit, w)
    values, vectors = np.linalg.eigh(root[:, None] * B * root)
    top = float(values[-1])
    if top <= 0:
        return 0.0, np.zeros(len(D))
    return top * unit, (B @ (root * vectors[:, -1])) ** 2 / top


@value
class CAF(DistanceRule):
    r"""Covariance-bound agnostic filter: the weighted mean at which the covariance was least.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.
    over : "kept" or "all"
        Over which vectors the largest deviation is taken: over those that still have weight, or over all vectors, as
        in ByzFL.

    Notes
    -----
    All weights c start at 1. While :math:`\sum_i c_i > n - 2f`, those far along the direction v of largest variance
    are lowered to :math:`c_i (1 - \tau_i / \tau_{max})`, where :math:`\tau_i = \langle v, x_i - \mu_c \rangle^2`. The
    mean :math:`\mu_c` of the step with the least largest eigenvalue is the answer.

    With `over="kept"`, :math:`\tau_{max}` is the largest of the vectors that still have weight. Every step takes the
    last weight of at least one vector, so the filter ends after n steps at most. With `over="all"` it is the largest
    of all vectors. A far vector without weight then makes every step small, and a very far one makes the filter
    endless. So it ends after 1,000 steps at the latest, with the best mean so far. Eigenvectors are exact, without a
    random start.

    Guarantee: none known here.

    Cost: O(n² d + n⁴) time. A vector that is not finite is dropped. More than f of them raise `TooManyFaults`.

    References
    ----------
    .. [1] Allouah et al. 2025b, "Towards Trustworthy Federated Learning with Untrusted Participants".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import CAF
    >>> CAF(f=1)(np.array([[0.0], [1.0], [2.0], [90.0]]))
    array([1.0074919])
    """

    f: Tolerance
    over: Literal["kept", "all"] = "kept"
    precise = True
    formula = "weighted mean of least covariance along a path of filters"
    promise = "none known here"
    time = "n² d + n⁴"
    why = "filtered out"
    fails = "not known here; its time grows with n⁴"
    source = "Allouah et al. 2025b"

    def stages(self) -> tuple[Stage, ...]:
        return pulled(self, "medoid", math.inf)  # what is in sight stays where it is

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights:
        n = len(D)
        c = np.ones(n)
        best, answer = math.inf, c / n
        for _ in range(n if self.over == "kept" else MAX_STEPS):
            top, along = principal(D, c / c.sum())
            if top < best:
                best, answer = top, c / c.sum()
            if self.over == "kept":
                along[c == 0] = 0.0
            if along.max() <= 0 or self.f == 0:
                break
            c = c * (1 - along / along.max())
            if c.sum() <= n - 2 * self.f:
                break
        return answer


@value
class DnC(DistanceRule):
    r"""Divide and conquer: the mean without the ⌈c f⌉ vectors farthest along the principal direction.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.
    filter : float
        c: how many vectors are excluded for each of the f, above 0.

    Notes
    -----
    .. math:: F(X) = \bar{x}_S, \quad S \text{ the } n - \lceil c f \rceil \text{ of least } |\langle v, y_i \rangle|

    with v the first right singular vector of the centred vectors y. The original looks at random subsets of the
    coordinates, which a sparse attack slips through. This one looks at all of them and draws nothing.

    Guarantee: none. Byzantine vectors in several directions outlive one look, so the answer is unbounded for f > 1.

    Cost: O(n² d) time. Ties go to the lowest index. A vector that is not finite is dropped. More than f of them raise
    `TooManyFaults`.

    References
    ----------
    .. [1] Shejwalkar and Houmansadr 2021, "Manipulating the Byzantine: Optimizing Model Poisoning Attacks and
       Defenses for Federated Learning".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import DnC
    >>> DnC(f=1)(np.array([[0.0], [1.0], [2.0], [90.0]]))
    array([1.])
    """

    f: Tolerance
    filter: Positive = 1.0
    precise = True
    formula = "mean without the ⌈c f⌉ farthest along the principal direction"
    promise = "none (unbounded for f > 1): liars in several directions survive"
    time = "n² d"
    why = "far along the principal direction"
    fails = "against liars in several directions: one look finds one of them"
    source = "Shejwalkar and Houmansadr 2021"

    def least(self) -> int:
        return max(2 * self.f, math.ceil(self.filter * self.f)) + 1

    def stages(self) -> tuple[Stage, ...]:
        return pulled(self, "medoid", math.inf)  # what is in sight stays where it is

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights:
        n = len(D)
        _, along = principal(D, np.full(n, 1 / n))
        return even(np.argsort(along, kind="stable")[: n - math.ceil(self.filter * self.f)], n)
