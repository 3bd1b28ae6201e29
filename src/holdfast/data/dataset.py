"""Labelled images, and their standardisation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import BadInput

CHUNK = 2048  # images standardised at a time, so that no second copy in float64 arises


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled images, or labelled rows of features, in the order of their files.

    Parameters
    ----------
    name : str
        The name of the data set.
    images : array of shape (N, H, W), (N, H, W, C) or (N, features)
        Images are uint8, or float32 in [0, 1]. Features are any finite numbers.
    labels : array of shape (N,)
        Numbers of classes.
    classes : tuple of str
        The names of the classes.
    held_out : array of shape (N,) or None
        True for an official test image. None without an official split.
    writers : array of shape (N,) or None
        Numbers of writers. None where they are not known.

    Raises
    ------
    BadInput
        If shapes or labels do not fit, or a feature is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.data import Dataset
    >>> Dataset("two", np.zeros((2, 1, 1), np.uint8), np.array([0, 1]), ("no", "yes")).sizes()
    array([1, 1])
    """

    name: str
    images: NDArray[Any]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    held_out: NDArray[np.bool_] | None = None
    writers: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        labels = np.asarray(self.labels)
        if not isinstance(self.images, np.ndarray):
            object.__setattr__(self, "images", np.asarray(self.images))
        if labels.ndim != 1 or labels.dtype.kind not in "iu" or self.images.ndim not in (2, 3, 4):
            raise BadInput(
                f"{self.name} was given images of shape {self.images.shape} and labels of shape {labels.shape}; "
                "images are (N, H, W) or (N, H, W, C), features (N, features), and labels (N,) whole numbers."
            )
        if self.images.ndim == 2:
            _check_features(self.name, self.images)
        for what in ("images", "held_out", "writers"):
            column = getattr(self, what)
            if column is not None and len(column) != len(labels):
                raise BadInput(f"{self.name} has {len(column)} {what} and {len(labels)} labels; give one for each.")
        if len(labels) and not 0 <= labels.min() <= labels.max() < len(self.classes):
            top = len(self.classes) - 1
            raise BadInput(f"{self.name} has labels from {labels.min()} to {labels.max()}; they are 0 to {top}.")
        object.__setattr__(self, "labels", labels.astype(np.int64))

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        rows = "images of" if self.images.ndim > 2 else f"rows of {self.images.shape[1]} features in"
        return f"Dataset({self.name!r}: {len(self.images)} {rows} {len(self.classes)} classes)"

    def sizes(self) -> NDArray[np.int64]:
        """Return the number of images of each class."""
        return np.bincount(self.labels, minlength=len(self.classes))


def _check_features(name: str, rows: NDArray[Any]) -> None:
    """Refuse features that are no finite numbers."""
    if not rows.shape[1] or rows.dtype.kind not in "fiub":
        raise BadInput(f"{name} was given features of type {rows.dtype} and shape {rows.shape}; write them as numbers.")
    if not (finite := np.isfinite(rows)).all():
        row, column = (int(at) for at in np.argwhere(~finite)[0])
        raise BadInput(
            f"{name} was given {rows[row, column]} as feature {column} of row {row}; fill in a number, or leave the "
            "row out."
        )


def standardise_images(train: NDArray[Any], *others: NDArray[Any]) -> tuple[NDArray[np.float32], ...]:
    r"""Each pixel minus its mean over the training images, divided by its standard deviation, in float32.

    Parameters
    ----------
    train : numpy.ndarray
        The training images, over which mean and deviation are taken.
    *others : numpy.ndarray
        More images of the same shape, such as test images.

    Returns
    -------
    tuple of numpy.ndarray
        `train` and the others, standardised.

    Raises
    ------
    BadInput
        If there are no training images, or the shapes differ.

    Notes
    -----
    .. math:: z = (x - \mu) / \sigma

    Pixels that are constant in `train` become 0 everywhere. Dividing them by 1e-6 instead, as is sometimes done,
    multiplies a stray pixel of a test image by a million.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.data import standardise_images
    >>> standardise_images(np.array([[1.0, 5.0], [3.0, 5.0]]), np.array([[4.0, 6.0]]))
    (array([[-1.,  0.], [ 1.,  0.]], dtype=float32), array([[2., 0.]], dtype=float32))
    """
    if not len(train):
        raise BadInput("standardise_images was given no training images; give at least 1.")
    for other in others:
        if other.shape[1:] != train.shape[1:]:
            raise BadInput(
                f"standardise_images was given images of shapes {train.shape[1:]} and {other.shape[1:]}; give one."
            )
    constant = train.min(axis=0) == train.max(axis=0)
    with np.errstate(all="ignore"):
        mean = train.mean(axis=0, dtype=np.float64)
        square = np.zeros_like(mean)
        for start in range(0, len(train), CHUNK):
            square += ((train[start : start + CHUNK] - mean) ** 2).sum(axis=0)
        scale = np.where(constant, 0, 1 / np.sqrt(np.where(constant, 1, square / len(train))))
        if (odd := ~constant & ((scale == 0) | ~np.isfinite(scale))).any():  # squares that left float64
            scale[odd] = 1 / _deviation(train[:, odd], mean[odd])
    if not (np.isfinite(mean).all() and np.isfinite(scale).all()):
        raise BadInput(
            f"standardise_images was given numbers between {train.min():.3g} and {train.max():.3g}, whose mean or "
            "deviation has no place in float64; scale them first."
        )
    return tuple(_scaled(images, mean, scale) for images in (train, *others))


def _deviation(columns: NDArray[Any], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """The standard deviation, in units of the largest difference."""
    off = columns - mean
    unit = np.abs(off).max(axis=0)
    return np.asarray(unit * np.sqrt(np.square(off / unit).mean(axis=0)))


def _scaled(images: NDArray[Any], mean: NDArray[np.float64], scale: NDArray[np.float64]) -> NDArray[np.float32]:
    out = np.empty(images.shape, np.float32)
    for start in range(0, len(images), CHUNK):
        out[start : start + CHUNK] = (images[start : start + CHUNK] - mean) * scale
    return out
