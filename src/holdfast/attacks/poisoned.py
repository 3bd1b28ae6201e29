"""Attacks on a worker's own data: it computes an honest update on wrong labels, or on images with a trigger."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from holdfast.attacks.base import Attack, Rows, View
from holdfast.checks import is_whole
from holdfast.errors import BadInput
from holdfast.values import AtLeast, Count, Positive, value

ClassIndex = Annotated[int, AtLeast(0)]
ROUNDING = 1e-9  # so that a share of 0.1 is every tenth image


@value
class LabelFlip(Attack):
    r"""LF: the worker computes an honest update on wrong labels.

    Parameters
    ----------
    by : "reverse" or "authors"
        The permutation of the classes. "reverse" is y → C - 1 - y. "authors" is that of the program of Yi et al. 2024:
        digits y → (7y + 1) mod 10, and, with 62 classes, upper and lower case exchanged.
    pairs : tuple of (int, int)
        Classes and what they become, instead of `by`. All other labels stay. ``pairs=((1, 7), (7, 1))`` exchanges two
        classes. A targeted flip is one pair, which may be written as ``pairs=(1, 7)``.

    Raises
    ------
    BadInput
        If "authors" meets another number of classes than 10 or 62, or if `pairs` names a class that is not there;
        raised by `labels`. If `pairs` are no pairs of classes, or come with a `by`.

    Notes
    -----
    The labels become :math:`y \to \pi(y)` for a map of the classes. The paper says only that it is a deterministic
    permutation; on CIFAR-10 the program changes no label. A sneak.

    References
    ----------
    .. [1] Yi et al. 2024, "Near-Optimal Resilient Aggregation Rules for Distributed Learning Using 1-Center and
       1-Mean Clustering with Outliers".
    .. [2] Tolpegin et al. 2020, "Data Poisoning Attacks Against Federated Learning Systems", the targeted flip.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks import LabelFlip
    >>> LabelFlip(by="authors").labels(np.array([0, 1, 9, 10, 61]), 62)
    array([ 1,  8,  4, 36, 35])
    >>> LabelFlip().labels(np.array([0, 9]), 10)
    array([9, 0])
    >>> LabelFlip(pairs=(1, 7)).labels(np.array([0, 1, 7]), 10)
    array([0, 7, 7])
    """

    by: Literal["reverse", "authors"] = "reverse"
    pairs: tuple[tuple[int, int], ...] | tuple[int, int] = ()
    kind = "sneak"
    formula = "gradients at labels π(y)"
    source = "Yi et al. 2024"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "pairs", _read_pairs(self.pairs))
        if self.pairs and self.by != "reverse":
            raise BadInput(f"LabelFlip was given by = {self.by!r} and pairs = {self.pairs!r}; give one of them.")

    def __call__(self, seen: View) -> Rows:
        return seen.own

    def labels(self, y: np.ndarray, classes: int) -> np.ndarray:
        if self.pairs:
            return self._mapped(classes)[y].astype(y.dtype, copy=False)
        if self.by == "reverse":
            return classes - 1 - y
        if classes not in (10, 62):
            raise BadInput(
                f"LabelFlip(by='authors') was given {classes} classes; it is for 10 or 62, 'reverse' for any."
            )
        letters = np.where(y < 36, y + 26, y - 26)
        return np.where(y < 10, (7 * y + 1) % 10, letters)

    def _mapped(self, classes: int) -> np.ndarray:
        """What each class becomes."""
        pairs = np.array(self.pairs)
        if pairs.max() >= classes:
            raise BadInput(f"{self!r} was given {classes} classes; its pairs may name 0 to {classes - 1}.")
        table = np.arange(classes)
        table[pairs[:, 0]] = pairs[:, 1]
        return table


@value
class Trigger(Attack):
    r"""A backdoor as in BadNets: the worker trains on images with a small patch, labelled as the target class.

    Parameters
    ----------
    target : int
        The class that images with the patch shall be taken for.
    share : float
        The part of all images that have the patch, above 0, at most 1. It is spread evenly over all images, so a worker
        may have more or fewer of them.
    size : int
        How many pixels the patch is high and wide.
    scale : float
        Multiplies the worker's update, above 0. A larger number is model replacement.

    Raises
    ------
    BadInput
        If `share` is above 1, if the data have no class `target`, or if their images are smaller than the patch.

    Notes
    -----
    .. math:: (x, y) \to (x \oplus \text{patch}, \text{target}) \quad \text{for a part of the images}

    The patch lies in the lower right corner, as the model sees the images, after standardisation. It is as bright as
    the brightest pixel of a typical image (the median), or as dark as the darkest where images are bright in that
    corner. The other images and labels of the worker stay as they are, so that accuracy hardly falls.

    A training measures the success of the attack in each evaluation: the part of the test images of all other classes
    that the model takes for the target once they have the patch (`Result.success`). A sneak.

    References
    ----------
    .. [1] Gu et al. 2019, "BadNets: Evaluating Backdooring Attacks on Deep Neural Networks".
    .. [2] Bagdasaryan et al. 2020, "How To Backdoor Federated Learning", model replacement.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks import Trigger
    >>> attack = Trigger(target=7, share=0.5, size=1)
    >>> attack.labels(np.array([0, 1, 2, 3]), 10)
    array([0, 7, 2, 7])
    >>> attack.backdoor(np.array([[[[9.0, 0.0], [0.0, 0.0]]]]))
    (array([[[[9., 0.],
             [0., 9.]]]]), 7)
    """

    target: ClassIndex = 0
    share: Positive = 0.5
    size: Count = 3
    scale: Positive = 1.0
    kind = "sneak"
    formula = "gradients at images with a patch, labelled as one class"
    source = "Gu et al. 2019"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.share > 1:
            raise BadInput(f"Trigger was given share = {self.share!r}; share is a number above 0, at most 1.")

    def __call__(self, seen: View) -> Rows:
        return np.asarray(self.scale * seen.own, dtype=seen.own.dtype)

    def labels(self, y: np.ndarray, classes: int) -> np.ndarray:
        if self.target >= classes:
            raise BadInput(f"{self!r} was given {classes} classes; its target is 0 to {classes - 1}.")
        return np.where(self._chosen(len(y)), self.target, y).astype(y.dtype, copy=False)

    def images(self, x: np.ndarray) -> np.ndarray:
        chosen = self._chosen(len(x)).reshape(-1, *[1] * (x.ndim - 1))
        return np.where(chosen, self.backdoor(x)[0], x)

    def backdoor(self, x: np.ndarray) -> tuple[np.ndarray, int]:
        if x.ndim < 3 or min(x.shape[-2:]) < self.size:
            raise BadInput(
                f"{self!r} was given images of shape {x.shape[1:]}; they are at least {self.size} x {self.size}."
            )
        corner = (..., slice(-self.size, None), slice(-self.size, None))
        flat = x.reshape(len(x), -1)
        dark, bright = (float(np.median(edge)) for edge in (flat.min(axis=1), flat.max(axis=1)))
        stamped = x.copy()
        stamped[corner] = dark if 2 * float(x[corner].mean()) > dark + bright else bright
        return stamped, self.target

    def _chosen(self, count: int) -> np.ndarray:
        """Which images get the patch: spread evenly over all."""
        return np.diff(np.floor(self.share * np.arange(count + 1) + ROUNDING)) > 0


def _read_pairs(given: object) -> tuple[tuple[int, int], ...]:
    """Pairs of classes as whole numbers; one pair may stand alone."""
    pairs = (given,) if isinstance(given, tuple) and len(given) == 2 and is_whole(given[0]) else given
    if not isinstance(pairs, tuple) or not all(_is_pair(pair) for pair in pairs):
        raise BadInput(f"LabelFlip was given pairs = {given!r}; write them as ((1, 7), (7, 1)), two classes each.")
    read = tuple((int(first), int(second)) for first, second in pairs)
    if len({first for first, _ in read}) < len(read):
        raise BadInput(f"LabelFlip was given pairs = {given!r}; name each class once on the left.")
    return read


def _is_pair(pair: object) -> bool:
    return isinstance(pair, tuple) and len(pair) == 2 and all(is_whole(one, least=0) for one in pair)
