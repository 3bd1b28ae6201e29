"""Fang's attacks: against the direction in which the honest workers move, made for Krum or for trimmed means."""

from __future__ import annotations

from typing import Literal

import numpy as np

from holdfast.attacks.base import Attack, Rows, View, copies, lengths, pairwise
from holdfast.rules import Krum
from holdfast.rules.base import CoordinateRule
from holdfast.twophase import TwoPhase
from holdfast.values import value

HALVINGS = 40  # of λ, until Krum selects the row
REACH = 2.0  # b: values lie between the outermost honest one and b times that
Target = Literal["rule", "krum", "trim"]


@value
class Fang(Attack):
    r"""Fang's adaptive attack: the step back that Krum still selects, or values beyond all honest ones.

    Parameters
    ----------
    against : "rule", "krum" or "trim"
        Which of the two forms is sent. "rule": "trim" if the last stage of the server's rule is on single coordinates,
        such as `CWTM` or `CWM`, and "krum" otherwise.

    Notes
    -----
    With the signs :math:`s` of the honest mean, "krum" sends copies of

    .. math:: -\lambda s, \quad \lambda = \max \{\lambda_{\max} 2^{-k} : \text{Krum selects } -\lambda s\}

    with λ_max = √(m / ((n - 2b - 1) d)) + max ‖x_i‖ / √d, where m is the smallest sum of squared distances from an
    honest row to its n - b - 2 nearest honest ones. If the server's rule is `Krum`, that very form is asked, and
    otherwise `Krum(f=b)`. With too few workers for it, λ_max is sent.

    "trim" draws every value evenly, for each worker anew. Where :math:`s_j = 1` it is between the smallest honest
    value and twice that, or half if it is positive. Where :math:`s_j = -1` it is beyond the largest one likewise.

    The paper sends models, and its signs are those of the change of the model. Here it is applied to updates. The paper
    spreads the copies within 0.01 of each other. Sneak or siege, as the rule deserves.

    References
    ----------
    .. [1] Fang et al. 2020, "Local Model Poisoning Attacks to Byzantine-Robust Federated Learning", the attacks on
       Krum and on the trimmed mean, with full knowledge.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import CWTM
    >>> from holdfast.attacks import Fang, View
    >>> seen = View(honest=np.array([[1.0], [1.2], [0.8]]), own=np.ones((1, 1)), rule=CWTM(f=1), f=1)
    >>> row = Fang()(seen)[0]
    >>> bool(0.4 <= row[0] <= 0.8)
    True
    """

    against: Target = "rule"
    kind = "either"
    formula = "-λ sign(mean_H), the largest that Krum selects, or values beyond the honest ones"
    source = "Fang et al. 2020"

    def __call__(self, seen: View) -> Rows:
        if not len(seen.own):
            return seen.own
        return _beyond(seen) if self._form(seen) == "trim" else _selected(seen)

    def _form(self, seen: View) -> Target:
        if self.against != "rule":
            return self.against
        rule = seen.rule.inner if isinstance(seen.rule, TwoPhase) else seen.rule
        return "trim" if isinstance(rule.stages()[-1], CoordinateRule) else "krum"


def _beyond(seen: View) -> Rows:
    """Values between the outermost honest one and twice or half of it, on the side that the mean does not point to."""
    mean = seen.honest.mean(axis=0)
    signs = np.sign(mean)
    low, high = seen.honest.min(axis=0), seen.honest.max(axis=0)
    edge = np.where(signs > 0, low, high)
    end = edge * np.where(np.sign(edge) == signs, 1 / REACH, REACH)  # towards zero, or away from it
    drawn = edge + seen.rng.random(seen.own.shape) * (end - edge)
    return np.where(signs == 0, mean, drawn).astype(seen.own.dtype, copy=False)


def _selected(seen: View) -> Rows:
    """Copies of -λ sign for the largest λ of which Krum selects one."""
    scale = float(np.abs(seen.honest).max()) or 1.0
    if not np.isfinite(scale):
        return copies(seen.honest.mean(axis=0), seen.own)
    honest = seen.honest / seen.honest.dtype.type(scale)
    (h, d), b = honest.shape, len(seen.own)
    signs = np.sign(honest.mean(axis=0))
    D = np.zeros((h + b, h + b))
    D[:h, :h] = pairwise(honest)
    squares = lengths(honest) ** 2
    products = np.array([np.multiply(row, signs, dtype=np.float64).sum() for row in honest])
    near = np.sort(D[:h, :h], axis=1)[:, 1 : max(1, h - 1)].sum(axis=1).min()
    step = np.sqrt(near / (max(1, h - b - 1) * d)) + np.sqrt(squares.max() / d)
    krum = seen.rule if isinstance(seen.rule, Krum) else Krum(f=b)
    for _ in range(HALVINGS):
        off = np.maximum(squares + 2 * step * products + step**2 * np.abs(signs).sum(), 0.0)
        D[:h, h:] = off[:, None]
        D[h:, :h] = off
        if krum.least() > h + b or krum.weights(D)[..., h:].any():
            break
        step /= 2
    return copies((-step * scale) * signs, seen.own)
