"""PTM, the principal trimmed mean: a trimmed mean along axes that the round itself chooses."""

from __future__ import annotations

import numpy as np

from holdfast.masses import farthest_taken, heaviest, nearest_mass
from holdfast.rules.base import DistanceRule, Distances, Mixing, Rng, Stage, Tolerance, Weights, value
from holdfast.rules.clipping import BEYOND
from holdfast.rules.clustering import even, finite

FAR = 1e3  # radii beyond which only the direction of a vector matters
FLAT = 4 * float(np.finfo(float).eps)  # of the largest variance and for each vector: below, an axis is rounding


def tightest(D: Distances, f: int) -> tuple[int, float]:
    """The vector whose ball of n - f vectors is the smallest, and its squared radius."""
    reach = np.partition(D, len(D) - f - 1, axis=1)[:, len(D) - f - 1]
    centre = int(reach.argmin())
    return centre, float(reach[centre])


def tightest_mass(D: Distances, mass: np.ndarray, f: int) -> tuple[int, float]:
    """The same for a ball that holds all mass but that of the f heaviest."""
    reach = farthest_taken(D, nearest_mass(D, mass, mass.sum() - heaviest(mass, f)))
    centre = int(reach.argmin())
    return centre, float(reach[centre])


def reach(n: int) -> float:
    """How many radii a vector may be away and stay where it is: enough for the proof, few enough for the digits."""
    return max(FAR, 2 * n * (2 + n**0.5))


@value
class Nearer(Mixing):
    """Bring vectors that are absurdly far along their ray towards the tightest ball; leave all others alone.

    At most f vectors lie outside of the tightest ball of n - f vectors. Part of `PTM`, not a stage by itself.
    """

    f: Tolerance
    beyond: float = BEYOND  # of a vector out of sight, the part that is kept
    internal = True

    def mix(self, D: Distances, rng: Rng | None = None) -> np.ndarray:
        return self._nearer(D, *tightest(D, self.f))

    def mix_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> tuple[np.ndarray, np.ndarray]:
        return self._nearer(D, *tightest_mass(D, mass, self.f)), mass

    def _nearer(self, D: Distances, centre: int, square: float) -> np.ndarray:
        n = len(D)
        limit = reach(n) * np.sqrt(square)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            shrink = np.where(D[centre] > limit**2, limit / np.sqrt(D[centre]), 1.0)
        shrink[np.isinf(D[centre])] = self.beyond
        M = np.diag(shrink)
        M[:, centre] += 1 - shrink
        return M


@value
class PTM(DistanceRule):
    r"""Trimmed mean of the vectors along the principal axes of the round.

    Parameters
    ----------
    f : int
        The number of Byzantine workers that the rule tolerates, n > 2f.

    Notes
    -----
    .. math:: F(X) = \sum_k \operatorname{tm}_f(X u_k) \, u_k

    with :math:`u_k` an orthonormal basis of principal axes of the n vectors, :math:`X u_k` their coordinates along one
    of them, and :math:`\operatorname{tm}_f` the mean of a coordinate without its f smallest and f largest values. In
    weights it is :math:`w = 1/n + V \operatorname{tm}_f(V)`, with V the eigenvectors of the centred Gram matrix.
    Vectors that are a thousand radii or more away from the tightest ball of n - f vectors are first brought to that
    distance along their ray.

    Guarantee: (f, κ)-robust for κ = f/(n - 2f), up to a part of :math:`10^{-6} (n-f)/f`. No rule has less than
    f/(n - 2f). The proof of CWTM holds in any orthonormal basis, also in one that the round chooses. Unlike CWTM the
    answer turns with the vectors. The proof is in docs/guarantees.md, "PTM".

    Cost: O(n² d + n³) time, that of MeanwO. If two axes have the same variance, the answer depends on which of them is
    taken, within the same κ. A vector that is not finite is dropped. More than f of them raise `TooManyFaults`.

    References
    ----------
    .. [1] Ours; we know of no earlier use. The trimmed mean of coordinates is that of Yin et al. 2018,
       "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import PTM
    >>> PTM(f=1)(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [90.0, 90.0]]))
    array([1.5, 1.5])
    """

    f: Tolerance
    formula = "trimmed mean along the principal axes"
    promise = "κ = f/(n-2f), which no rule betters"
    time = "n² d + n³"
    why = "weight zero"
    fails = "a little, always: each axis moves by what the liars can hide in the spread of the honest along it"
    source = "ours; we know of no earlier use"

    def stages(self) -> tuple[Stage, ...]:
        return (Nearer(self.f), Nearer(self.f), Nearer(self.f, 0.0), self)

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights:
        n = len(D)
        centre, square = tightest(D, self.f)
        if square == 0:  # n - f copies: the only answer with a finite κ
            return even(np.array([centre]), n)
        if self.f == 0:
            return even(np.arange(n), n)
        A = finite(D / square)
        G = 0.5 * (A[centre][:, None] + A[centre] - A)  # inner products seen from the centre
        G = G - G.mean(axis=0)
        G = G - G.mean(axis=1, keepdims=True)
        variance, V = np.linalg.eigh((G + G.T) / 2)
        V = V[:, variance > FLAT * n * variance[-1]]
        u = V @ np.sort(V, axis=0)[self.f : n - self.f].mean(axis=0)
        return np.asarray(1 / n + u - u.mean())

    def weights_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> Weights:
        n, share, root = len(D), mass / mass.sum(), np.sqrt(mass / mass.sum())
        centre, square = tightest_mass(D, mass, self.f)
        if square == 0:
            return even(np.array([centre]), n)
        if self.f == 0:
            return share
        A = finite(D / square)
        G = 0.5 * (A[centre][:, None] + A[centre] - A)
        G = G - share @ G
        G = G - (G @ share)[:, None]
        variance, V = np.linalg.eigh((G + G.T) / 2 * root[:, None] * root)
        V = V[:, variance > FLAT * n * variance[-1]]
        along = V / root[:, None]  # each vector's place on each axis
        order, trimmed = np.argsort(along, axis=0), heaviest(mass, self.f)
        upto = np.clip(np.cumsum(mass[order], axis=0), trimmed, mass.sum() - trimmed)
        kept = np.diff(upto, axis=0, prepend=trimmed) / (mass.sum() - 2 * trimmed)
        u = root * (V @ (np.take_along_axis(along, order, axis=0) * kept).sum(axis=0))
        return np.asarray(share + u - share * u.sum())
