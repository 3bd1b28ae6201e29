"""Attacks that need nothing but a worker's own data: no view of the others."""

from __future__ import annotations

from typing import Literal

import numpy as np

from holdfast.attacks.base import Attack, Rows, View, lengths
from holdfast.errors import BadInput
from holdfast.values import NonNegative, value


@value
class NoAttack(Attack):
    """Byzantine workers that behave: what a rule costs when nobody lies.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks import NoAttack, View
    >>> NoAttack()(View(honest=np.zeros((2, 1)), own=np.ones((1, 1))))
    array([[1.]])
    """

    kind = "none"
    formula = "x_i"

    def __call__(self, seen: View) -> Rows:
        return seen.own


@value
class SignFlip(Attack):
    """SF: each worker sends its own update times -1, or times another negative number.

    Parameters
    ----------
    scale : float
        How much longer the update becomes, at least 0. It is 1 in Yi et al. 2024. Li et al. 2019 take longer ones.

    Notes
    -----
    Text and program of Yi et al. 2024 are alike. A siege where gradients agree.

    References
    ----------
    .. [1] Yi et al. 2024, "Near-Optimal Resilient Aggregation Rules for Distributed Learning Using 1-Center and
       1-Mean Clustering with Outliers".
    .. [2] Li et al. 2019, "RSA: Byzantine-Robust Stochastic Aggregation Methods for Distributed Learning from
       Heterogeneous Datasets".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks import SignFlip, View
    >>> seen = View(honest=np.zeros((2, 1)), own=np.array([[1.0], [-2.0]]))
    >>> SignFlip()(seen)
    array([[-1.],
           [ 2.]])
    >>> SignFlip(scale=4.0)(seen)
    array([[-4.],
           [ 8.]])
    """

    scale: NonNegative = 1.0
    kind = "siege"
    formula = "-scale x_i"
    source = "Yi et al. 2024"

    def __call__(self, seen: View) -> Rows:
        return np.asarray(-self.scale * seen.own, dtype=seen.own.dtype)


@value
class Gauss(Attack):
    """Gauss: noise instead of the update.

    Parameters
    ----------
    length : "same", "deviation" or "minus"
        How long the noise is. "same": a Gaussian direction with exactly the norm of the worker's update, as the text
        of Yi et al. 2024 says. "deviation": their program's `gauss`, N(0, s²) in every coordinate with s the standard
        deviation over the d coordinates of the update. "minus": the text's vector minus the update.
    sigma : float or None
        The deviation of N(mu, sigma²), which is drawn for every coordinate, whatever the update is. None: `length` says
        how long the noise is.
    mu : float
        The mean of N(mu, sigma²); only with a `sigma`.

    Raises
    ------
    BadInput
        If `mu` comes without `sigma`, or `sigma` with a `length`.

    Notes
    -----
    Every worker draws its own noise. ByzFL's `Gaussian(mu, sigma)` is `Gauss(sigma=sigma, mu=mu)` with one draw, which
    all Byzantine workers send. A siege.

    References
    ----------
    .. [1] Yi et al. 2024, "Near-Optimal Resilient Aggregation Rules for Distributed Learning Using 1-Center and
       1-Mean Clustering with Outliers".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks import Gauss, View
    >>> row = Gauss()(View(honest=np.zeros((2, 2)), own=np.array([[3.0, 4.0]])))
    >>> round(float(np.linalg.norm(row)), 9)
    5.0
    >>> Gauss(sigma=0.0, mu=3.0)(View(honest=np.zeros((2, 2)), own=np.array([[3.0, 4.0]])))
    array([[3., 3.]])
    """

    length: Literal["same", "deviation", "minus"] = "same"
    sigma: NonNegative | None = None
    mu: float = 0.0
    kind = "siege"
    formula = "‖x_i‖ g/‖g‖, g Gaussian"
    source = "Yi et al. 2024"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sigma is None and self.mu:
            raise BadInput(
                f"Gauss was given mu = {self.mu!r} without sigma; give both, as in Gauss(sigma=1.0, mu=3.0)."
            )
        if self.sigma is not None and self.length != "same":
            raise BadInput(f"Gauss was given length = {self.length!r} and sigma = {self.sigma!r}; give one of them.")

    def __call__(self, seen: View) -> Rows:
        own = seen.own
        wide = own.dtype == np.float64
        noise = seen.rng.standard_normal(own.shape, dtype=np.float64 if wide else np.float32)
        if self.sigma is not None:
            return (self.mu + self.sigma * noise).astype(own.dtype, copy=False)
        if self.length == "deviation":
            return (noise * own.std(axis=1, keepdims=True, dtype=np.float64)).astype(own.dtype, copy=False)
        noise *= (lengths(own) / lengths(noise))[:, None]
        return (noise - own if self.length == "minus" else noise).astype(own.dtype, copy=False)


@value
class Zero(Attack):
    """Zeros: the worker that does no work.

    Notes
    -----
    A sneak.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks import View, Zero
    >>> Zero()(View(honest=np.ones((2, 1)), own=np.ones((1, 1))))
    array([[0.]])
    """

    kind = "sneak"
    formula = "0"

    def __call__(self, seen: View) -> Rows:
        return np.zeros_like(seen.own)


@value
class Inf(Attack):
    """Infinity in every coordinate.

    Notes
    -----
    A siege. holdfast drops such rows by name.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks import Inf, View
    >>> Inf()(View(honest=np.ones((2, 1)), own=np.ones((1, 1))))
    array([[inf]])
    """

    kind = "siege"
    formula = "∞"
    hostile = True

    def __call__(self, seen: View) -> Rows:
        return np.full_like(seen.own, np.inf)


@value
class NaN(Attack):
    """Not a number in every coordinate.

    Notes
    -----
    A siege. holdfast drops such rows by name.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks import NaN, View
    >>> NaN()(View(honest=np.ones((2, 1)), own=np.ones((1, 1))))
    array([[nan]])
    """

    kind = "siege"
    formula = "nan"
    hostile = True

    def __call__(self, seen: View) -> Rows:
        return np.full_like(seen.own, np.nan)


@value
class Silent(Attack):
    """No message at all.

    Notes
    -----
    Silence is no fault: it does not count when a round is refused for too many dropped updates. f is lowered for
    silent workers while they and the dropped ones can all be among the f.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks import Silent, View
    >>> Silent()(View(honest=np.ones((2, 1)), own=np.ones((1, 1))))
    [None]
    """

    kind = "siege"
    formula = "no message"
    hostile = True

    def __call__(self, seen: View) -> list[None]:
        return [None] * len(seen.own)


@value
class Malformed(Attack):
    """Messages of every wrong shape: too short, a matrix, a text, a dict, nothing, in turn.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks import Malformed, View
    >>> Malformed()(View(honest=np.ones((2, 2)), own=np.ones((3, 2))))[2]
    'update'
    """

    kind = "siege"
    formula = "wrong shapes"
    hostile = True

    def __call__(self, seen: View) -> list[object]:
        wrong = (seen.honest[0][:-1], np.zeros((2, 2)), "update", {"weight": [1.0]}, None)
        return [wrong[i % len(wrong)] for i in range(len(seen.own))]
