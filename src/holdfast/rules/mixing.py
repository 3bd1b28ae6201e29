"""Pre-aggregations: stages that make the points of a round more alike before a rule decides."""

from __future__ import annotations

import numpy as np

from holdfast.masses import heaviest, nearest_mass
from holdfast.rules.base import Distances, Mixing, Rng, Tolerance, value
from holdfast.values import Count


@value
class NNM(Mixing):
    r"""Nearest-neighbour mixing: every vector becomes the mean of the n - f nearest to it.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.

    Notes
    -----
    .. math:: y_i = \tfrac{1}{n-f} \sum_{x \in K(x_i)} x

    with :math:`K(x_i)` the :math:`n - f` vectors nearest to :math:`x_i`, itself included. A stage: put a rule behind
    it with `>>`, or call `apply`.

    Guarantee: a rule with κ becomes one with 5.83 f/(n-2f) · (κ + 1) at most, and 8f/(n-f) · (κ + 1).

    Cost: O(n² d) time. Ties go to the lowest index. A vector that is not finite is dropped. More than f of them raise
    `TooManyFaults`.

    References
    ----------
    .. [1] Allouah et al. 2023a, "Fixing by Mixing: A Recipe for Optimal Byzantine ML under Heterogeneity".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import NNM, Krum
    >>> (NNM(f=1) >> Krum(f=1))(np.array([[0.0], [1.0], [2.0], [3.0], [90.0]]))
    array([1.5])
    """

    f: Tolerance
    formula = "y_i = mean of the n-f nearest to x_i"
    promise = "κ ≤ 5.83 f/(n-2f) · (1 + κ of the rule behind it)"
    time = "n² d"
    fails = "against liars inside the cloud, who become a part of everybody's mean"
    source = "Allouah et al. 2023a"

    def mix(self, D: Distances, rng: Rng | None = None) -> np.ndarray:
        n = D.shape[1]
        near = np.argsort(D, axis=1, kind="stable")[:, : n - self.f]
        M = np.zeros((n, n))
        np.put_along_axis(M, near, 1 / near.shape[1], axis=1)
        return M

    def mix_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> tuple[np.ndarray, np.ndarray]:
        taken = nearest_mass(D, mass, mass.sum() - heaviest(mass, self.f))
        return taken / taken.sum(axis=1, keepdims=True), mass


@value
class Bucketing(Mixing):
    r"""Means of buckets of s vectors, drawn at random.

    Parameters
    ----------
    s : int
        How many vectors are in a bucket, at least 1. The last bucket may hold fewer.

    Notes
    -----
    .. math:: y_j = \tfrac{1}{|B_j|} \sum_{i \in B_j} x_i

    with the :math:`\lceil n/s \rceil` buckets cut from a random order. A stage: put a rule behind it with `>>`, or
    call `apply`. The call needs `rng`.

    Guarantee: averaging s vectors divides their variance by s. One Byzantine worker spoils a whole bucket, so the rule
    behind it needs its own 2f + 1 (or more) buckets.

    Cost: O(n d) time. Vectors that are not finite are dropped.

    References
    ----------
    .. [1] Karimireddy et al. 2022, "Byzantine-Robust Learning on Heterogeneous Datasets via Bucketing".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import CWM, Bucketing
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [90.0]])
    >>> (Bucketing(s=2) >> CWM())(X, rng=np.random.default_rng(0))
    array([2.5])
    """

    s: Count
    random = True
    formula = "y_j = mean of s vectors drawn at random"
    promise = "variance / s; a liar spoils a bucket"
    time = "n d"
    fails = "if n < (2f + 1)s or so: each liar spoils a bucket, and too few sound ones are left"
    source = "Karimireddy et al. 2022"

    def size(self, n: int) -> int:
        return -(-n // self.s)

    def centres(self, rows: np.ndarray, rng: Rng | None) -> np.ndarray:
        return np.zeros(0, int)

    def mix(self, D: Distances, rng: Rng | None = None) -> np.ndarray:
        assert rng is not None  # the driver refuses without it
        n = D.shape[1]
        order = rng.permutation(n)
        M = np.zeros((self.size(n), n))
        M[np.arange(n) // self.s, order] = 1.0
        return M / M.sum(axis=1, keepdims=True)
