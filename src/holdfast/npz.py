"""Arrays from an npz file of our own, compared with their checksums to the last byte."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import IO

import numpy as np


def write_arrays(file: IO[bytes], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays of any names as an npz file; `np.savez` has no room for one that is named "file"."""
    with zipfile.ZipFile(file, "w") as held:
        for name, array in arrays.items():
            with held.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def read_arrays(file: IO[bytes]) -> dict[str, np.ndarray]:
    """Read all arrays of an npz file, by name.

    Raises
    ------
    ValueError
        If the file is damaged, whatever a reader says of it.

    Notes
    -----
    An npz file has a checksum for each array, and `np.load` compares it only once all bytes of the array's entry are
    read. A flipped bit that makes the array shorter goes unseen there. Here an entry with bytes left over is refused.
    """
    try:
        with zipfile.ZipFile(file) as held:
            return {entry.filename.removesuffix(".npy"): _array(held, entry) for entry in held.infolist()}
    except Exception as error:  # readers of zip and npy files raise a dozen kinds
        raise ValueError(" ".join(f"{type(error).__name__}: {error}".split())[:200]) from None


def _array(held: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    with held.open(entry) as part:
        array: np.ndarray = np.lib.format.read_array(part, allow_pickle=False)
        if part.read(1):
            raise ValueError(f"{entry.filename} has bytes left over")
    return array
