"""The file formats in which image data sets travel, read as files from a stranger.

Sizes that a file claims are compared with the size it has before anything is allocated, nothing is unpickled
that could run, and each kind of damage is one sentence that names the file.
"""

from __future__ import annotations

import gzip
import json
import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.data.pickled import plain
from holdfast.errors import BadInput, MissingExtra

LARGEST = 2**31  # bytes; the largest official file, EMNIST's training images, unpacks to a quarter of it
DENSEST = 1032  # deflate packs at most so many bytes into one
CHUNK = 1 << 20
SIDE = 32  # of a CIFAR image
DAMAGE = (
    OSError,
    ValueError,
    TypeError,
    EOFError,
    KeyError,
    zlib.error,
    zipfile.BadZipFile,
    MemoryError,
    RecursionError,
)


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Whatever goes wrong inside becomes one sentence about the file."""
    try:
        yield
    except BadInput:
        raise
    except DAMAGE as error:
        why = f" ({str(error).splitlines()[0].rstrip('.')})" if str(error).strip() else ""
        raise BadInput(f"{path} is damaged or no {kind}{why}; fetch it again.") from None


def refuse(path: Path, what: str) -> BadInput:
    return BadInput(f"{path} {what}; fetch it again.")


def idx(path: Path) -> NDArray[np.uint8]:
    """The array in an idx file of bytes, the format of MNIST, plain or packed by gzip."""
    with reading(path, "idx file"):
        packed = path.suffix == ".gz"
        with gzip.open(path) if packed else path.open("rb") as stream:
            head = stream.read(4)
            if len(head) < 4 or head[:3] != b"\x00\x00\x08" or not 1 <= head[3] <= 4:
                raise refuse(path, f"begins with {head.hex() or 'nothing'}, which no idx file of bytes does")
            sides = stream.read(4 * head[3])
            if len(sides) < 4 * head[3]:
                raise refuse(path, "ends within its header")
            shape = np.frombuffer(sides, ">u4").tolist()
            size = math.prod(shape)
            _plausible(path, size, path.stat().st_size * (DENSEST if packed else 1))
            data = bytearray()
            while len(data) <= size and (more := stream.read(min(CHUNK, size + 1 - len(data)))):
                data += more
    if len(data) != size:
        held = f"{len(data)} bytes" if len(data) < size else "more"
        raise refuse(path, f"promises {size} bytes after its header and holds {held}")
    return np.frombuffer(data, np.uint8).reshape(shape)


def npz(path: Path, *names: str) -> tuple[NDArray[Any], ...]:
    """Named arrays of an npz file; nothing pickled is read."""
    with reading(path, "npz file"), zipfile.ZipFile(path) as archive:
        there = [name.removesuffix(".npy") for name in archive.namelist()]
        if lacking := [name for name in names if name not in there]:
            raise refuse(path, f"lacks {', '.join(lacking)} among its arrays ({', '.join(there) or 'none'})")
        for name in names:
            _checked_header(path, archive, f"{name}.npy")
        with np.load(path, allow_pickle=False) as arrays:
            return tuple(arrays[name] for name in names)


def _checked_header(path: Path, archive: zipfile.ZipFile, member: str) -> None:
    info = archive.getinfo(member)
    with archive.open(info) as stream:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
        if dtype.hasobject:
            raise refuse(path, f"holds pickled objects in {member}, which are not read")
        size = math.prod(shape) * dtype.itemsize
        if size != info.file_size - stream.tell():
            raise refuse(path, f"holds {member} with a header of {size} bytes that its data do not match")
        _plausible(path, size, info.compress_size * DENSEST)


def _plausible(path: Path, size: int, most: int) -> None:
    if size > min(most, LARGEST):
        raise refuse(path, f"promises {size} bytes, which a file of {path.stat().st_size} bytes cannot hold")


def numbers(path: Path) -> NDArray[np.int64]:
    """Labels in a json list."""
    with reading(path, "json list of labels"):
        return _labels(path, json.loads(path.read_bytes()))


def _labels(path: Path, given: Any) -> NDArray[np.int64]:
    if not isinstance(given, list) or not all(type(one) is int and abs(one) < 2**31 for one in given):
        raise refuse(path, "holds labels that are not a list of whole numbers")
    return np.array(given, np.int64)


def leaf(path: Path) -> Iterator[tuple[str, NDArray[np.float32], NDArray[np.int64]]]:
    """Each writer of one of LEAF's json files: name, images in [0, 1] of shape (k, 28, 28), labels."""
    with reading(path, "json file of LEAF"):
        content = json.loads(path.read_bytes())
        if not isinstance(content, dict) or not {"users", "user_data"} <= set(content):
            raise refuse(path, "lacks users and user_data, which LEAF's files have")
        for user in content["users"]:
            part = content["user_data"][user]
            labels = _labels(path, part["y"])
            flat = np.array(part["x"], np.float32).reshape(len(part["x"]), -1)
            if flat.shape != (len(labels), 784) or not ((flat >= 0) & (flat <= 1)).all():
                what = f"{len(labels)} labels and images of shape {flat.shape}"
                raise refuse(path, f"gives writer {user} {what}; they are rows of 784 numbers in [0, 1], one a label")
            yield str(user), flat.reshape(-1, 28, 28), labels


def batch(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (k, 32, 32, 3) and labels of one of CIFAR-10's Python batches."""
    with reading(path, "batch of CIFAR-10"):
        content = plain(path)
        data, labels = content.get(b"data", content.get("data")), content.get(b"labels", content.get("labels"))
        if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != 3 * SIDE**2:
            raise refuse(path, f"lacks data of shape (k, {3 * SIDE**2})")
        return data.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1), _labels(path, labels)


def sheet(path: Path) -> NDArray[np.uint8]:
    """Images (k, 32, 32, 3) of a png that holds one image a row, in 1024 pixels."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise MissingExtra("CIFAR-10 in png sheets", "pillow", "data") from None
    with reading(path, "png sheet of CIFAR-10"):
        try:
            with Image.open(path, formats=["PNG"]) as image:
                if image.width != SIDE**2 or image.width * image.height * 4 > LARGEST // 8:
                    raise refuse(path, f"is {image.width} x {image.height} pixels; sheets are {SIDE**2} wide")
                return np.asarray(image.convert("RGB")).reshape(-1, SIDE, SIDE, 3)
        except (UnidentifiedImageError, SyntaxError, Image.DecompressionBombError) as error:
            raise ValueError(str(error)) from None
