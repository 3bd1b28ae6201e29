"""Rules that compare directions: FLTrust with a trusted one, ClippedClustering with each other."""

from __future__ import annotations

import numpy as np

from holdfast.errors import BadInput
from holdfast.rules.base import DistanceRule, Distances, Mixing, Rng, Stage, Weights, value
from holdfast.rules.clipping import BEYOND, pulled, shrink_to
from holdfast.rules.clustering import finite
from holdfast.values import Positive, WorkerIndex


def cosines(squares: np.ndarray, others: np.ndarray, apart: np.ndarray) -> np.ndarray:
    """The cosines of angles at the origin, from squared lengths and squared distances; 0 where a length is 0."""
    product = np.sqrt(squares) * np.sqrt(others)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (squares + others - apart) / 2 / product
    return np.where(product > 0, np.clip(found, -1.0, 1.0), 0.0)


def trusted_row(pivot: int | None, rows: np.ndarray, who: object) -> int:
    """The place of the trusted vector among the rows, the origin and the start."""
    if pivot is None:
        return len(rows) + 1
    at = np.flatnonzero(rows == pivot)
    if len(at) == 0:
        raise BadInput(f"{who!r} was given no usable vector {pivot}; choose a pivot that is there and finite.")
    return int(at[0])


@value
class SameLength(Mixing):
    """Every vector, brought to the length of the trusted one; a vector of length zero stays. Part of `FLTrust`.

    Next to vectors that are too far, the trusted one has length zero. `far` brings only these nearer, along their ray.
    """

    pivot: WorkerIndex | None = None
    far: bool = False
    internal = True
    precise = True

    @property
    def anchors(self) -> tuple[str, ...]:
        return ("origin", "start") if self.pivot is None else ("origin",)

    def centres(self, rows: np.ndarray, rng: Rng | None) -> np.ndarray:
        return np.array([trusted_row(self.pivot, rows, FLTrust(self.pivot)), len(rows)])

    def mix(self, D: Distances, rng: Rng | None = None) -> np.ndarray:
        n = D.shape[1] - len(self.anchors)
        squares, length = D[1, :n], float(np.sqrt(D[0, n]))
        if self.far:
            out_of_sight = np.isinf(squares) | ((squares > 0) & (length == 0))
            factor = np.where(out_of_sight, BEYOND, 1.0)
        elif length == 0:
            raise BadInput(
                f"{FLTrust(self.pivot)!r} was given no trusted vector, or one of length zero; pass the server's own "
                "update as start=, or name a trusted worker, as in FLTrust(pivot=0)."
            )
        else:
            factor = np.divide(length, np.sqrt(squares), out=np.ones(n), where=squares > 0)
        M = np.zeros((n, D.shape[1]))
        np.fill_diagonal(M, factor)
        M[:, n] = 1 - factor
        return M


@value
class FLTrust(DistanceRule):
    r"""Mean of the vectors by their cosine with a trusted vector, all brought to its length.

    Parameters
    ----------
    pivot : int or None
        None: the trusted vector is the `start=` of the call, the server's own update on data that it trusts. A number:
        it is that worker's vector, which then counts as the others do.

    Notes
    -----
    .. math:: F(X) = \frac{\sum_i s_i \, x_i \lVert g \rVert / \lVert x_i \rVert}{\sum_i s_i}, \quad
              s_i = \max(0, \cos(x_i, g))

    with g the trusted vector. If no vector points along g, the answer is zero. The rule needs no f, and the honest
    need not be the majority. In a training, `Run(root=100)` gives the server images of its own. Or name a worker that
    you trust: `FLTrust(pivot=0)`.

    Guarantee: none known. The answer is worth what g is worth, and it is never longer than g.

    Cost: O(n d) time. A vector of length zero counts for nothing. Vectors that are not finite are dropped.

    References
    ----------
    .. [1] Cao et al. 2021, "FLTrust: Byzantine-robust Federated Learning via Trust Bootstrapping".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import FLTrust
    >>> X = np.array([[2.0, 0.0], [0.0, 3.0], [-90.0, 0.0]])
    >>> FLTrust()(X, start=np.array([1.0, 1.0])).round(6)
    array([0.707107, 0.707107])
    """

    pivot: WorkerIndex | None = None
    precise = True
    formula = "mean of x_i ‖g‖/‖x_i‖ by max(0, cos(x_i, g)), g trusted"
    promise = "none known; as long as the trusted vector at most"
    time = "n d"
    why = "it points away from the trusted vector"
    fails = "if the trusted data differ from the workers'; and against liars near the trusted direction"
    source = "Cao et al. 2021"

    @property
    def anchors(self) -> tuple[str, ...]:
        return ("origin", "start") if self.pivot is None else ("origin",)

    def stages(self) -> tuple[Stage, ...]:
        nearer = (SameLength(self.pivot, far=True) for _ in range(5))  # through the whole range of float64
        return (*nearer, SameLength(self.pivot), self)

    def centres(self, rows: np.ndarray, rng: Rng | None) -> np.ndarray:
        return np.array([trusted_row(self.pivot, rows, self), len(rows)])

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights:
        n = D.shape[1] - len(self.anchors)
        trust = np.maximum(0.0, cosines(D[1, :n], D[0, n], D[0, :n]))
        w = np.zeros(D.shape[1])
        if trust.any():
            w[:n] = trust / trust.sum()
        else:
            w[n] = 1.0
        return w


@value
class ClippedClustering(DistanceRule):
    r"""Mean of the larger of two clusters of directions, each vector shortened to the median norm.

    Parameters
    ----------
    tau : float or None
        τ, the largest norm that is left as it is; above 0. None: the median norm of the round.

    Notes
    -----
    .. math:: F(X) = \tfrac{1}{|S|} \sum_{i \in S} x_i \min(1, \tau / \lVert x_i \rVert)

    with S the larger of two clusters. Clusters are merged by the least mean of :math:`1 - \cos(x_i, x_j)` over their
    pairs, until two are left (average linkage). The paper takes the median of all norms of the training so far. The
    rule keeps no memory, so pass that number as `tau` if you want it. The answer depends on where the origin is.

    Guarantee: none known.

    Cost: O(n² d + n³) time. Of two clusters as large, the one with the lowest index is taken. A vector of length zero
    has cosine 0 with all others. Vectors that are not finite are dropped.

    References
    ----------
    .. [1] Li et al. 2024, "An Experimental Study of Byzantine-Robust Aggregation Schemes in Federated Learning".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import ClippedClustering
    >>> ClippedClustering()(np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [-90.0, 0.0], [2.0, 0.0]]))
    array([1.75, 0.  ])
    """

    tau: Positive | None = None
    anchors = ("origin",)
    lengths = ("tau",)
    precise = True
    formula = "mean of the larger of two clusters by cosine, clipped to the median norm"
    promise = "none known"
    time = "n² d + n³"
    why = "in the smaller cluster of directions"
    fails = "against liars that point as the honest do; and two clusters split honest workers in every round"
    source = "Li et al. 2024"

    def stages(self) -> tuple[Stage, ...]:
        return pulled(self, "origin", self.tau or 0.0)

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights:
        D, n = finite(D), len(D) - 1
        squares = D[n, :n]
        kept = larger_cluster(1 - cosines(squares[:, None], squares, D[:n, :n]))
        shrink = shrink_to(squares, self.tau or float(np.median(np.sqrt(squares))))
        w = np.append(np.where(kept, shrink / kept.sum(), 0.0), 0.0)
        w[n] = 1 - w.sum()
        return w


def larger_cluster(apart: np.ndarray) -> np.ndarray:
    """Which points are in the larger of two clusters by average linkage; ties go to the lowest index."""
    n = len(apart)
    member, size, A = np.arange(n), np.ones(n), apart.copy()
    np.fill_diagonal(A, np.inf)
    for _ in range(n - 2):
        i, j = divmod(int(A.argmin()), n)
        merged = (size[i] * A[i] + size[j] * A[j]) / (size[i] + size[j])
        A[i], A[:, i], A[i, i] = merged, merged, np.inf
        A[j], A[:, j] = np.inf, np.inf
        size[i] += size[j]
        member[member == j] = i
    return np.asarray(member == np.bincount(member).argmax())
