"""The plain mean, which one liar moves anywhere."""

from __future__ import annotations

import numpy as np

from holdfast.rules.base import DistanceRule, Distances, Rng, Weights, value


@value
class Average(DistanceRule):
    r"""Mean of all vectors.

    Notes
    -----
    .. math:: F(X) = \tfrac{1}{n} \sum_i x_i

    The mean is the optimum without Byzantine workers. It is not resilient: one of them moves it anywhere.

    Cost: O(n d) time, no distances. Vectors that are not finite are dropped.

    References
    ----------
    .. [1] McMahan et al. 2017, "Communication-Efficient Learning of Deep Networks from Decentralized Data", with
       equal weights.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import Average
    >>> Average()(np.array([[0.0], [1.0], [5.0]]))
    array([2.])
    """

    formula = "mean of all"
    promise = "none: one liar moves it anywhere"
    time = "n d"
    fails = "one liar is enough"
    source = "FedAvg (McMahan et al. 2017) with equal weights"

    def centres(self, rows: np.ndarray, rng: Rng | None) -> np.ndarray:
        return np.zeros(0, int)

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights:
        n = D.shape[1]
        return np.full(n, 1 / n)

    def weights_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> Weights:
        return mass / mass.sum()
