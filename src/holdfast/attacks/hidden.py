"""Attacks that keep to the distances that honest rows have, so that distance alone does not betray them."""

from __future__ import annotations

from typing import Literal

import numpy as np

from holdfast.attacks.base import Attack, Rows, View, copies, gram, lengths, pairwise, spread
from holdfast.attacks.informed import moments
from holdfast.attacks.sent import read_rows
from holdfast.errors import BadInput
from holdfast.values import WorkerIndex, value

Direction = Literal["sign", "std", "mean", "coordinate"]


@value
class MinMax(Attack):
    r"""As far from the mean as the honest rows are from each other.

    Parameters
    ----------
    along : "std", "sign", "mean" or "coordinate"
        The direction p: the unit vector along the deviations, the signs of the mean, the mean, or the one coordinate
        in which the mean is largest.

    Notes
    -----
    .. math:: \bar x_H - \gamma p, \quad \gamma = \max \{\gamma : \max_i \lVert \bar x_H - \gamma p - x_i \rVert \le
              \max_{i,j} \lVert x_i - x_j \rVert \}

    Solved in closed form. A sneak.

    References
    ----------
    .. [1] Shejwalkar and Houmansadr 2021, "Manipulating the Byzantine: Optimizing Model Poisoning Attacks and
       Defenses for Federated Learning".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks import MinMax, View
    >>> MinMax(along="mean")(View(honest=np.array([[1.0], [3.0]]), own=np.zeros((1, 1))))
    array([[1.]])
    """

    along: Direction = "std"
    kind = "sneak"
    formula = "mean_H - γ p, at most the honest diameter from all"
    source = "Shejwalkar and Houmansadr 2021"

    def __call__(self, seen: View) -> Rows:
        mean, p = seen.honest.mean(axis=0), direction(seen.honest, self.along)
        off = mean - seen.honest
        slope = np.array([np.multiply(row, p, dtype=np.float64).sum() for row in off])
        room = pairwise(off).max() - lengths(off) ** 2
        gamma = (slope + np.sqrt(slope**2 + np.maximum(room, 0))).min()
        return copies(mean - max(gamma, 0.0) * p, seen.own)


@value
class MinSum(Attack):
    r"""As far in sum of squares as the outermost honest row.

    Parameters
    ----------
    along : "std", "sign", "mean" or "coordinate"
        The direction p, as in `MinMax`.

    Notes
    -----
    .. math:: \bar x_H - \gamma p, \quad \gamma = \max \{\gamma : \sum_i \lVert \bar x_H - \gamma p - x_i \rVert^2 \le
              \max_i \sum_j \lVert x_i - x_j \rVert^2 \}

    Solved in closed form: the sum is that around the mean plus h γ². A sneak.

    References
    ----------
    .. [1] Shejwalkar and Houmansadr 2021, "Manipulating the Byzantine: Optimizing Model Poisoning Attacks and
       Defenses for Federated Learning".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks import MinSum, View
    >>> MinSum(along="mean")(View(honest=np.array([[1.0], [3.0]]), own=np.zeros((1, 1))))
    array([[1.]])
    """

    along: Direction = "std"
    kind = "sneak"
    formula = "mean_H - γ p, at most the largest honest sum of squares"
    source = "Shejwalkar and Houmansadr 2021"

    def __call__(self, seen: View) -> Rows:
        mean, p = seen.honest.mean(axis=0), direction(seen.honest, self.along)
        D = pairwise(mean - seen.honest)
        room = D.sum(axis=1).max() - D.sum() / (2 * len(D))
        return copies(mean - np.sqrt(max(room, 0.0) / len(D)) * p, seen.own)


@value
class Mimic(Attack):
    """All Byzantine workers copy one honest worker, so that the data seem less varied.

    Parameters
    ----------
    worker : int or None
        The place of the copied worker among the honest that are there, counted round. None: the one farthest along the
        direction in which the honest rows vary most.

    Notes
    -----
    A sneak that only hurts where workers' data differ.

    References
    ----------
    .. [1] Karimireddy et al. 2022, "Byzantine-Robust Learning on Heterogeneous Datasets via Bucketing".

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks import Mimic, View
    >>> Mimic(worker=1)(View(honest=np.array([[1.0], [3.0]]), own=np.zeros((1, 1))))
    array([[3.]])
    """

    worker: WorkerIndex | None = None
    kind = "sneak"
    formula = "x_k of one honest k"
    source = "Karimireddy et al. 2022"

    def __call__(self, seen: View) -> Rows:
        chosen = self._chosen(seen.honest) if self.worker is None else self.worker % len(seen.honest)
        return copies(seen.honest[chosen], seen.own)

    def _chosen(self, honest: Rows) -> int:
        off = honest - honest.mean(axis=0)
        _, vectors = np.linalg.eigh(np.nan_to_num(gram(off)))
        return int(np.abs(vectors[:, -1]).argmax())


@value
class Spread(Attack):
    r"""Another attack without its copies: the same mean, the pairwise distances of honest workers.

    Parameters
    ----------
    attack : Attack
        The attack whose mean is sent.

    Raises
    ------
    BadInput
        If `attack` is no attack.

    Notes
    -----
    .. math:: x_i - \bar x_B + \bar a

    with a the rows of `attack` and x_i the workers' own honest rows. The model attacks of the literature send b copies
    of one vector, a cluster of radius zero that any Outer rule removes whatever it contains. These rows spread as
    honest ones do.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks import Spread, View, Zero
    >>> Spread(Zero())(View(honest=np.zeros((2, 1)), own=np.array([[1.0], [3.0]])))
    array([[-1.],
           [ 1.]])
    """

    attack: Attack
    formula = "x_i - mean_B + mean of an attack"

    def __post_init__(self) -> None:
        if not isinstance(self.attack, Attack):
            raise BadInput(f"Spread was given {self.attack!r}; it takes an attack, as in Spread(Empire(scale=0.1)).")

    @property
    def kind(self) -> str:
        return self.attack.kind

    @property
    def hostile(self) -> bool:
        return self.attack.hostile

    def labels(self, y: np.ndarray, classes: int) -> np.ndarray:
        return self.attack.labels(y, classes)

    def images(self, x: np.ndarray) -> np.ndarray:
        return self.attack.images(x)

    def backdoor(self, x: np.ndarray) -> tuple[np.ndarray, int] | None:
        return self.attack.backdoor(x)

    def harmless(self, n: int, b: int) -> str:
        return self.attack.harmless(n, b)

    def __call__(self, seen: View) -> Rows:
        rows = read_rows(self.attack, seen)
        if not isinstance(rows, np.ndarray) or not len(rows):
            return rows
        return spread(rows.mean(axis=0), seen.own)


def direction(honest: Rows, along: Direction) -> np.ndarray:
    """The unit vector along signs of the mean, deviations, mean, or its largest coordinate; zero where they vanish."""
    mean = honest.mean(axis=0)
    if along == "coordinate":
        largest = np.arange(len(mean)) == np.abs(mean).argmax()
        return np.where(largest, np.sign(mean), 0).astype(honest.dtype, copy=False)
    p = moments(honest)[1] if along == "std" else np.sign(mean) if along == "sign" else mean
    length = float(lengths(p[None])[0])
    return (p / length if length else p).astype(honest.dtype, copy=False)
