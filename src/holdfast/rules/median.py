"""The geometric median, found in the space of weights."""

from __future__ import annotations

from typing import Literal

import numpy as np

from holdfast.errors import BadInput
from holdfast.masses import median_of, middles
from holdfast.rules.base import DistanceRule, Distances, Rng, Stage, Weights, value
from holdfast.rules.clipping import pulled
from holdfast.rules.clustering import even
from holdfast.values import Count, NonNegative

STEPS, STILL = 2000, 1e-10  # most steps of the search; how little of a radius the answer may still move
NEWTON = 200  # vectors up to which a step may solve an equation of that size, and how many steps may
MAX_SQUARE = 1e290  # a squared distance that leaves room for sums
ROUNDING = 1e-13  # of a sum of products of distances, relative to the sum of their sizes


@value
class GeometricMedian(DistanceRule):
    r"""The point of least summed distance to all vectors.

    Parameters
    ----------
    iterations : int or None
        None: search for the median. A number: take this many plain steps instead.
    floor : float
        The least distance that a plain step divides by, at least 0.
    begin : "mean" or "origin"
        Where the plain steps begin. ByzFL's begin at the origin.

    Notes
    -----
    .. math:: F(X) \in \arg\min_y \sum_i \lVert x_i - y \rVert

    Guarantee: (f, κ)-robust for every f < n/2, with κ ≤ n/(n-2f); docs/guarantees.md has the proof.

    The median is found by Weiszfeld's iteration, as Vardi and Zhang made it safe at the vectors themselves, or by
    Newton's where that is better. Both work on weights and distances alone, to about 1e-6 of the median radius. There
    is no absolute tolerance, so updates of size 1e-6 and 1e6 are treated alike.

    With `iterations` the steps have the weights :math:`1/\max(\lVert x_i - y \rVert, floor)`. iterations=1, floor=1e-5
    is what the experiments of Yi et al. 2024 call GM: an inverse-distance weighted mean, for which no such bound
    holds.

    Cost: O(n² d) time. A vector that is not finite is dropped. If half of the vectors or more are dropped,
    `TooManyFaults` is raised.

    References
    ----------
    .. [1] Pillutla et al. 2022, "Robust Aggregation for Federated Learning", RFA.
    .. [2] Vardi and Zhang 2000, "The Multivariate L1-Median and Associated Data Depth".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import GeometricMedian
    >>> GeometricMedian()(np.array([[0.0, 0.0], [1.0, 0.0], [90.0, 0.0]]))
    array([1., 0.])
    """

    iterations: Count | None = None
    floor: NonNegative = 0.0
    begin: Literal["mean", "origin"] = "mean"
    lengths = ("floor",)
    majority = True
    precise = True
    formula = "argmin_y Σ ‖x_i - y‖"
    promise = "κ ≤ n/(n-2f)"
    time = "n² d"
    why = "weight zero: the answer is another vector"
    fails = "a little, always: a liar pulls as strongly from any distance, and copies pull together"
    source = "Pillutla et al. 2022 (RFA)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.begin == "origin" and not self.iterations:
            raise BadInput(
                f"{self!r} searches for the median, which is the same wherever it begins; give iterations, as in "
                "GeometricMedian(iterations=3, begin='origin')."
            )

    @property
    def anchors(self) -> tuple[str, ...]:
        return ("origin",) if self.begin == "origin" else ()

    def stages(self) -> tuple[Stage, ...]:
        return (self,) if self.iterations and self.begin == "mean" else pulled(self, "medoid")

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights:
        return self.weights_by_mass(D, np.ones(len(D) - len(self.anchors)), rng)

    def weights_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> Weights:
        n = len(D)
        if self.iterations:
            w = mass / mass.sum()
            if self.begin == "origin":
                mass, w = np.append(mass, 0.0), np.append(np.zeros_like(w), 1.0)
            if np.isinf(D).any():  # next to such distances the others are nothing
                D = np.isinf(D).astype(float)
            for _ in range(self.iterations):
                w = _step(D, w, mass, self.floor)
            return np.asarray(w)
        centre = int(middles(D, mass).argmin())
        place = np.where(np.isinf(D[centre]), centre, np.arange(n))  # what is still out of sight counts as the centre
        return np.bincount(place, _search(np.minimum(D[np.ix_(place, place)], MAX_SQUARE), mass), n)


def distances_to(D: Distances, w: Weights) -> np.ndarray:
    """Distances of all points to the point that the weights make."""
    return np.sqrt(np.maximum(D @ w - 0.5 * w @ D @ w, 0.0))


def _step(D: Distances, w: Weights, mass: np.ndarray, floor: float) -> Weights:
    """One step of Weiszfeld: weights mass/distance; vectors at distance zero take all."""
    r = np.maximum(distances_to(D, w), floor)
    there = (r == 0) & (mass > 0)  # the origin has no mass
    pull = np.where(there, mass, 0.0) if there.any() else mass / np.where(mass > 0, r, 1.0)
    return np.asarray(pull / pull.sum())


def _search(D: Distances, mass: np.ndarray) -> Weights:
    n = len(D)
    centre = int(middles(D, mass).argmin())
    order = np.argsort(D[centre], kind="stable")
    most = order[: int((np.cumsum(mass[order]) > mass.sum() / 2).argmax()) + 1]
    w = np.zeros(n)
    w[most] = mass[most] / mass[most].sum()  # a start that no minority can move
    tried: set[int] = set()
    for taken in range(STEPS):
        r = distances_to(D, w)
        k, radius = int(r.argmin()), median_of(r, mass)
        if k not in tried:
            tried.add(k)
            if radius == 0 or _outweighed(D, k, mass, STILL * radius) <= 1 + 1e-9:
                return even(np.array([k]), n)
        if r[k] <= STILL * radius:
            w = _leave(D, k, mass, STILL * radius)
            continue
        quick = newton_step(D, w, r, mass / r, mass) if max(n, taken) <= NEWTON else ()  # where Weiszfeld's crawls
        steps = (_step(D, w, mass, 0.0), *quick)
        new = min(steps, key=lambda v: (mass * distances_to(D, v)).sum())
        moved, w = np.abs(new - w) @ r, new
        if moved <= radius * max(STILL, 4e-16 * float(r.max()) / radius):
            break
    return _step(D, w, mass, 0.0)  # at the median this moves nothing, and makes all weights positive


def newton_step(D: Distances, w: Weights, r: np.ndarray, pull: np.ndarray, bent: np.ndarray) -> tuple[Weights, ...]:
    """Newton's step for a sum of functions of the distances r; none if its equation has no solution.

    `pull` is each function's slope over the distance. `bent` is by how much its curvature along the ray is less than
    that, times the distance.
    """
    B = 0.5 * (r[:, None] ** 2 + r**2 - D)  # inner products, seen from the current point
    away = np.where(bent > 0, r, 1.0)[:, None]
    try:
        c = np.linalg.solve(pull.sum() * np.eye(len(D)) - B * bent[:, None] / away**3, pull)
    except np.linalg.LinAlgError:
        return ()
    return (w + c - c.sum() * w,)


def _pulls(D: Distances, k: int, mass: np.ndarray, near: float) -> tuple[Weights, float]:
    """The pulls of the other vectors on vector k, as weights mass/distance; and the mass of its copies.

    What is as near as the answer may still move counts as a copy: near-copies would only pull each other.
    """
    r = np.sqrt(D[k])
    copies = r <= near
    u = np.zeros(len(D))
    u[~copies] = mass[~copies] / r[~copies]
    return u, float(mass[copies].sum())


def _outweighed(D: Distances, k: int, mass: np.ndarray, near: float) -> float:
    """Size of the others' summed pull on vector k over its copies: at most 1 where it is the median."""
    u, copies = _pulls(D, k, mass, near)
    u[k] -= u.sum()
    rounding = (
        ROUNDING * np.abs(u) @ D @ np.abs(u)
    )  # near copies of k make it large: then it is not known to be the median
    return float(np.sqrt(max(0.0, -0.5 * u @ D @ u) + rounding) / copies)


def _leave(D: Distances, k: int, mass: np.ndarray, near: float) -> Weights:
    """A step away from vector k, on which the iteration sits though it is not the median (Vardi and Zhang 2000)."""
    u, _ = _pulls(D, k, mass, near)
    stay = min(1.0, 1 / _outweighed(D, k, mass, near))
    w = (1 - stay) * u / u.sum()
    w[k] += stay
    return w
