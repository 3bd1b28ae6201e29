"""Rules and stages that shorten vectors: clipping to a norm, and centered clipping."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from holdfast.masses import middles
from holdfast.rules.base import DistanceRule, Distances, Mixing, Rng, Stage, Tolerance, Weights, value
from holdfast.values import Count, Positive

FAR = 1e8  # in radii: beyond this only the direction of a vector matters, and weights would lose their digits
THERE = 1e-6  # how much farther than the limit a vector may be that a pull before has put there
BEYOND = 2.0**-300  # brings a vector whose squared length overflows back into sight, for the next pull

Anchor = Literal["start", "origin", "medoid"]


@value
class Pull(Mixing):
    """Bring vectors that are absurdly far along their ray to 1e8 radii; leave all others alone.

    The radius is the median distance to the anchor, or `length` if that is larger. What follows works on
    weights, which lose all digits when a very far vector keeps one; at 1e8 radii a clipped or reweighted
    vector acts as it would from its own place, up to 1e-8 of a radius. Part of other rules, not one itself.
    """

    anchor: Anchor
    length: float = 0.0
    beyond: float = BEYOND  # of a vector out of sight, the part that is kept
    lengths = ("length",)
    internal = True

    def __post_init__(self) -> None:
        """Nothing is checked: rules that checked their own fields build it, and `length` may be infinite."""

    @property
    def anchors(self) -> tuple[str, ...]:
        return () if self.anchor == "medoid" else (self.anchor,)

    @property
    def precise(self) -> bool:
        return self.anchor == "medoid"  # what follows needs the same distances again

    def centres(self, rows: np.ndarray, rng: Rng | None) -> np.ndarray | None:
        return None if self.anchor == "medoid" else np.array([len(rows)])

    def mix(self, D: Distances, rng: Rng | None = None) -> np.ndarray:
        return self._pulled(D, np.ones(D.shape[1] - len(self.anchors)))

    def mix_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> tuple[np.ndarray, np.ndarray]:
        return self._pulled(D, mass), mass

    def _pulled(self, D: Distances, mass: np.ndarray) -> np.ndarray:
        n = len(mass)
        middle = middles(D[:, :n], mass)
        centre = int(middle.argmin())
        limit = FAR * max(float(np.sqrt(middle[centre])), self.length)
        shrink = shrink_to(D[centre, :n], limit, self.beyond)
        shrink[shrink > 1 - THERE] = 1.0
        M = np.eye(n, D.shape[1]) * shrink[:, None]
        M[:, centre if self.anchor == "medoid" else n] += 1 - shrink
        return M

    def distances_after(self, D: Distances, M: np.ndarray) -> Distances | None:
        """Along its ray from the anchor a vector's distance to it shrinks as the vector does."""
        if self.anchor == "medoid" or not np.isfinite(D).all():
            return None
        return np.append(D[:, :-1] * M[:, : len(M)].diagonal() ** 2, D[:, -1:], axis=1)


def shrink_to(squares: np.ndarray, limit: float, beyond: float = 0.0) -> np.ndarray:
    """By how much vectors of these squared lengths are shortened to a limit: min(1, limit / length)."""
    with np.errstate(all="ignore"):
        ratio = np.where(squares > 0, limit / np.sqrt(squares), 1.0)
    return np.where(np.isinf(squares), beyond, np.minimum(1.0, ratio))


def pulled(rule: Stage, anchor: Anchor, tau: float = 0.0) -> tuple[Stage, ...]:
    """A rule behind as many pulls as the range of float64 can take; those that change nothing cost nothing.

    What is still out of sight then, more than 1e300 times as far as the others, is put on the anchor.
    """
    return (*(Pull(anchor, tau) for _ in range(3)), Pull(anchor, tau, 0.0), rule)


@value
class Clip(Mixing):
    r"""Every vector, shortened to norm τ where it is longer.

    Parameters
    ----------
    tau : float
        τ, the largest norm that is left as it is; above 0.

    Notes
    -----
    .. math:: y_i = x_i \min(1, \tau / \lVert x_i \rVert)

    A stage: put a rule behind it with `>>`, or call `apply`. It bounds the harm of one vector by τ. The result depends
    on where the origin is, so clip updates, not models.

    Cost: O(n d) time. Vectors that are not finite are dropped.

    References
    ----------
    .. [1] Sun et al. 2019, "Can You Really Backdoor Federated Learning?"

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import Average, Clip
    >>> (Clip(tau=1.0) >> Average())(np.array([[3.0, 4.0], [0.6, 0.8]]))
    array([0.6, 0.8])
    """

    tau: Positive
    anchors = ("origin",)
    lengths = ("tau",)
    formula = "y_i = x_i min(1, τ/‖x_i‖)"
    promise = "bounds the harm of one vector by τ"
    time = "n d"
    fails = "if τ does not fit: too small it shortens the honest, too large it clips nobody"
    source = "Sun et al. 2019"

    def stages(self) -> tuple[Stage, ...]:
        return pulled(self, "origin", self.tau)

    def centres(self, rows: np.ndarray, rng: Rng | None) -> np.ndarray:
        return np.array([len(rows)])

    def mix(self, D: Distances, rng: Rng | None = None) -> np.ndarray:
        n = D.shape[1] - 1
        shrink = shrink_to(D[0, :n], self.tau)
        return np.hstack([np.diag(shrink), 1 - shrink[:, None]])

    def mix_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> tuple[np.ndarray, np.ndarray]:
        return self.mix(D, rng), mass


@value
class NormBoundedMean(DistanceRule):
    r"""Mean of the vectors, each shortened to norm τ.

    Parameters
    ----------
    tau : float
        τ, the largest norm that is left as it is; above 0.

    Notes
    -----
    .. math:: F(X) = \tfrac{1}{n} \sum_i x_i \min(1, \tau / \lVert x_i \rVert)

    The experiments of Yi et al. 2024 call this CClip: centered clipping from v = 0, one iteration. Each Byzantine
    worker moves the answer by at most 2τ/n. No constant is known in units of the honest spread.

    Cost: O(n d) time. Vectors that are not finite are dropped.

    References
    ----------
    .. [1] Sun et al. 2019, "Can You Really Backdoor Federated Learning?"

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import NormBoundedMean
    >>> NormBoundedMean(tau=1.0)(np.array([[3.0, 4.0], [0.6, 0.8]]))
    array([0.6, 0.8])
    """

    tau: Positive
    anchors = ("origin",)
    lengths = ("tau",)
    formula = "mean of x_i min(1, τ/‖x_i‖)"
    promise = "f liars move it by at most 2fτ/n"
    time = "n d"
    fails = "against liars no longer than τ, who count in full: no constant in units of the honest spread"
    source = "Sun et al. 2019"

    def stages(self) -> tuple[Stage, ...]:
        return pulled(self, "origin", self.tau)

    def centres(self, rows: np.ndarray, rng: Rng | None) -> np.ndarray:
        return np.array([len(rows)])

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights:
        n = D.shape[1] - 1
        w = shrink_to(D[0, :n], self.tau) / n
        return np.append(w, 1 - w.sum())

    def weights_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> Weights:
        w = shrink_to(D[0, :-1], self.tau) * (mass / mass.sum())
        return np.append(w, 1 - w.sum())


@value
class CenteredClipping(DistanceRule):
    r"""Steps from a start towards the vectors, each step shortened to τ.

    Parameters
    ----------
    tau : float
        τ, the longest step towards one vector; above 0.
    iterations : int
        How many steps are taken, at least 1.

    Notes
    -----
    .. math:: v \leftarrow v + \tfrac{1}{n} \sum_i (x_i - v) \min(1, \tau / \lVert x_i - v \rVert)

    This is repeated `iterations` times, from the `start=` of the call. Pass the last aggregate as start; without one
    the steps begin at the origin. The rule keeps no memory of its own. Each Byzantine worker moves an iteration by at
    most 2τ/n. No bound holds for every τ.

    Cost: O(n d) time for one iteration, O(n² d) for any more. Vectors that are not finite are dropped.

    References
    ----------
    .. [1] Karimireddy et al. 2021, "Learning from History for Byzantine Robust Optimization".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import CenteredClipping
    >>> X = np.array([[1.0], [1.1], [0.9], [90.0]])
    >>> CenteredClipping(tau=0.5)(X, start=np.array([1.0]))
    array([1.125])
    """

    tau: Positive
    iterations: Count = 1
    anchors = ("start",)
    lengths = ("tau",)
    precise = True
    formula = "v += mean of (x_i - v) min(1, τ/‖x_i - v‖), from a start"
    promise = "f liars move a step by at most 2fτ/n"
    time = "n² d"
    fails = "if the start is far off, as a step moves by τ at most; or if τ is large, which is the liars' room"
    source = "Karimireddy et al. 2021"

    def stages(self) -> tuple[Stage, ...]:
        return pulled(self, "start", self.tau)

    def centres(self, rows: np.ndarray, rng: Rng | None) -> np.ndarray | None:
        return np.array([len(rows)]) if self.iterations == 1 else None

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights:
        n = D.shape[1] - 1
        return self._clipped(D, np.full(n, 1 / n))

    def weights_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> Weights:
        return self._clipped(D, mass / mass.sum())

    def _clipped(self, D: Distances, shares: np.ndarray) -> Weights:
        n = len(shares)
        w = np.zeros(n + 1)
        w[n] = 1.0
        for at in range(self.iterations):
            squares = D[-1] if at == 0 else np.maximum(D @ w - 0.5 * w @ D @ w, 0.0)
            step = shrink_to(squares[:n], self.tau) * shares
            w *= 1 - step.sum()
            w[:n] += step
        return w


@value
class ARC(Mixing):
    r"""Adaptive robust clipping: the longest vectors, shortened to the norm of the next one.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.

    Notes
    -----
    .. math:: y_i = x_i \min(1, C / \lVert x_i \rVert), \quad k = \lfloor 2 (f / n) (n - f) \rfloor

    with C the (k + 1)-th largest norm, so that k vectors are shortened. A stage: put a rule behind it with `>>`, or
    call `apply`. It keeps the κ of the rule behind it up to constants. The result depends on where the origin is.

    Cost: O(n d) time. A vector that is not finite is dropped. More than f of them raise `TooManyFaults`.

    References
    ----------
    .. [1] Allouah et al. 2025a, "Adaptive Gradient Clipping for Robust Federated Learning".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import ARC, Average
    >>> (ARC(f=1) >> Average())(np.array([[1.0], [2.0], [3.0], [90.0]]))
    array([2.25])
    """

    f: Tolerance
    anchors = ("origin",)
    formula = "y_i = x_i min(1, C/‖x_i‖), C the ⌊2f(n-f)/n⌋+1-th largest norm"
    promise = "keeps a rule's κ up to constants"
    time = "n d"
    fails = "against liars no longer than the honest; and it shortens honest vectors in every round"
    source = "Allouah et al. 2025a"

    def stages(self) -> tuple[Stage, ...]:
        return pulled(self, "origin", math.inf)  # what is in sight stays where it is

    def centres(self, rows: np.ndarray, rng: Rng | None) -> np.ndarray:
        return np.array([len(rows)])

    def mix(self, D: Distances, rng: Rng | None = None) -> np.ndarray:
        n = D.shape[1] - 1
        k = int(2 * self.f * (n - self.f) // n)
        limit = float(np.sqrt(np.sort(D[0, :n])[n - k - 1]))
        shrink = shrink_to(D[0, :n], limit)
        return np.hstack([np.diag(shrink), 1 - shrink[:, None]])
