"""Huber aggregation: the point of least summed Huber loss, found in the space of weights."""

from __future__ import annotations

import numpy as np

from holdfast.masses import median_of, middles
from holdfast.rules.base import DistanceRule, Distances, Rng, Stage, Weights, value
from holdfast.rules.clipping import pulled
from holdfast.rules.clustering import finite
from holdfast.rules.median import NEWTON, STEPS, STILL, distances_to, newton_step
from holdfast.values import Positive


@value
class Huber(DistanceRule):
    r"""The point of least summed Huber loss: a mean near the vectors, a geometric median far from them.

    Parameters
    ----------
    tau : float
        τ, the distance up to which a vector counts in full; above 0.

    Notes
    -----
    .. math:: F(X) = \arg\min_y \sum_i \phi(\lVert x_i - y \rVert), \quad
              \phi(r) = \begin{cases} r^2 / 2 & r \le \tau \\ \tau r - \tau^2 / 2 & r > \tau \end{cases}

    The answer is where the steps of `CenteredClipping` with the same τ stand still, whatever their start. A large τ
    gives the mean, a small one the geometric median. The rule needs no f. Where several points have the least loss,
    one of them is the answer.

    Guarantee: none in units of the honest spread, since a Byzantine vector pulls with τ even if all honest ones agree.
    If the honest vectors lie within τ of their mean, f of them move the answer by about τ f/(n-f).

    With weights, each loss counts by its weight. The paper gives each worker a τ of its own; here all have the same.

    Cost: O(n² d) time beyond the search. A vector that is not finite is dropped. If half of the vectors or more are
    dropped, `TooManyFaults` is raised.

    References
    ----------
    .. [1] Zhao et al. 2024, "A Huber Loss Minimization Approach to Byzantine Robust Federated Learning".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import Huber
    >>> Huber(tau=3.0)(np.array([[0.0], [1.0], [2.0], [90.0]]))
    array([2.])
    """

    tau: Positive
    lengths = ("tau",)
    majority = True
    precise = True
    formula = "argmin_y Σ φ(‖x_i - y‖), φ quadratic up to τ and linear beyond"
    promise = "f liars pull with fτ at most"
    time = "n² d"
    fails = "if τ does not fit: too large it is the mean; and a liar pulls with τ from any distance"
    source = "Zhao et al. 2024"

    def stages(self) -> tuple[Stage, ...]:
        return pulled(self, "medoid", self.tau)

    def weights(self, D: Distances, rng: Rng | None = None) -> Weights:
        return self.weights_by_mass(D, np.ones(len(D)), rng)

    def weights_by_mass(self, D: Distances, mass: np.ndarray, rng: Rng | None = None) -> Weights:
        n, D = len(D), finite(D)
        order = np.argsort(D[int(middles(D, mass).argmin())], kind="stable")
        most = order[: int((np.cumsum(mass[order]) > mass.sum() / 2).argmax()) + 1]
        w = np.zeros(n)
        w[most] = mass[most] / mass[most].sum()  # a start that no minority can move
        for taken in range(STEPS):
            r = distances_to(D, w)
            pull = self._pull(r, mass)
            quick = newton_step(D, w, r, pull, mass * self.tau * (r > self.tau)) if max(n, taken) <= NEWTON else ()
            new = min((pull / pull.sum(), *quick), key=lambda v: self._loss(distances_to(D, v), mass))
            moved, w = np.abs(new - w) @ r, new
            near = max(median_of(r, mass), min(self.tau, float(r.max())))
            if moved <= max(STILL * near, 4e-16 * float(r.max())):
                break
        pull = self._pull(distances_to(D, w), mass)
        return pull / pull.sum()  # at the answer this moves nothing, and makes all weights positive

    def _pull(self, r: np.ndarray, mass: np.ndarray) -> np.ndarray:
        return np.asarray(mass * (self.tau / np.maximum(r, self.tau)))

    def _loss(self, r: np.ndarray, mass: np.ndarray) -> float:
        q = r / self.tau
        return float(mass @ np.where(q <= 1, np.minimum(q, 1.0) ** 2 / 2, q - 0.5))
