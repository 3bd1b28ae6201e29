"""How much memory a file of updates will take, known before it is unpacked, and how much is allowed."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.errors import BadInput
from holdfast.structure import Malformed, flatten

SPREAD = 4  # times the expected size that a file may have: other types, names and checksums differ
SLACK_BYTES = 1 << 20  # that any file may have
FREE_BYTES, FREE_RATIO = 1 << 28, 100  # bytes that a single file may unpack to, and times its own size
PACKED = (".npz", ".pt", ".pth")


def declared_bytes(path: Path) -> int:
    """The bytes that a file says it unpacks to; its readers read no more than that.

    A file that is damaged counts with its size on disk.
    """
    try:
        if path.suffix in PACKED and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as held:
                return sum(entry.file_size for entry in held.infolist())
        return path.stat().st_size
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return path.stat().st_size if path.is_file() else 0


def held_bytes(update: Any) -> int:
    """The bytes of an update once all its numbers stand in memory; 0 if it is no update."""
    try:
        entries = flatten(update)
    except Malformed:
        return 0
    sizes = (int(np.prod([int(length) for length in entry.given.shape], dtype=object)) for entry in entries)
    return sum(size * _width(entry.given) for size, entry in zip(sizes, entries, strict=True))


def _width(array: Any) -> int:
    return int(getattr(array, "itemsize", None) or array.dtype.itemsize)


def allowed_bytes(paths: Sequence[Path], *, like: Any = None, max_bytes: int | None = None) -> int:
    """The most bytes that one file may unpack to.

    Parameters
    ----------
    paths
        The files, one per worker, or one that holds all rows.
    like
        An update of the right structure, if there is one.
    max_bytes
        The user's own limit; it counts alone.

    Returns
    -------
    int
        `max_bytes`; else four times the size of `like`, or of the lower median of the sizes that the files declare,
        which an honest file has while at most half of them lie. A single file has only itself to compare with: it may
        unpack to 256 MB, or to a hundred times its size on disk.
    """
    if max_bytes is not None:
        return max_bytes
    if like is not None:
        return SPREAD * held_bytes(like) + SLACK_BYTES
    if len(paths) == 1:
        return max(FREE_BYTES, FREE_RATIO * (paths[0].stat().st_size if paths[0].is_file() else 0))
    sizes = sorted(map(declared_bytes, paths))
    return SPREAD * sizes[(len(sizes) - 1) // 2] + SLACK_BYTES


def check_bytes(path: Path, size: int, limit: int | None) -> None:
    """Refuse a file that unpacks to more than is allowed."""
    if limit is not None and size > limit:
        raise BadInput(
            f"{path} unpacks to {size:,} bytes, and {limit:,} are allowed; if it is sound, set --max-bytes {size}."
        )
