"""Updates in files: npy, npz, safetensors and pt, none of which may run code when it is read."""

from __future__ import annotations

import io
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from holdfast.cli.sizes import PACKED, allowed_bytes, check_bytes, declared_bytes, held_bytes
from holdfast.disk import write_whole
from holdfast.errors import BadInput, MissingExtra
from holdfast.npz import write_arrays
from holdfast.structure import Malformed


def load(path: Path, limit: int | None = None) -> Any:
    """One update of at most `limit` bytes; BadInput says why a file holds none."""
    if path.suffix not in READERS:
        raise BadInput(f"{path} was given; the formats are {', '.join(READERS)}.")
    if not path.is_file():
        raise BadInput(f"{path} is no file; name files that exist.")
    check_bytes(path, declared_bytes(path), limit)
    try:
        update = READERS[path.suffix](path)
        if limit is not None and path.suffix in PACKED:
            check_bytes(path, held_bytes(update), limit)  # a tensor may repeat one number
        return update
    except BadInput:
        raise
    except Exception as error:  # whatever a hostile file makes a reader say
        objects = any(phrase in str(error) for phrase in ("allow_pickle", "Python objects"))
        why = "it holds objects, not numbers." if objects else f"{type(error).__name__}: {str(error)[:200]}"
        raise BadInput(f"{path} cannot be read: {why}") from error


MEMORY = Path("/proc/meminfo")


def check_room(paths: list[Path], limit: int = sys.maxsize) -> None:
    """Refuse files that do not fit into memory together, and name the rule that does not need that."""
    heavy = sum(min(declared_bytes(path), limit) for path in paths if path.suffix != ".npy")  # npy is mapped
    if MEMORY.is_file() and heavy > 1024 * int(MEMORY.read_text().partition("MemAvailable:")[2].split()[0]):
        raise BadInput(
            f"{len(paths)} files of {heavy / 1e9:.1f} GB were given, more than fits into memory; "
            "take StreamCenterwO(f=...), which holds about 3f of them, or npy files, which are mapped."
        )


def names_of(paths: list[Path]) -> list[str]:
    """The files' names; with their folders where two have the same."""
    names = [path.name for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def load_each(paths: list[Path], limit: int | None = None) -> Iterator[Any]:
    """One update after the other, for rules that hold few; a file that cannot be read is malformed, with its reason."""
    for path in paths:
        try:
            yield load(path, limit)
        except BadInput as error:
            if not path.is_file() or path.suffix not in READERS:
                raise
            yield Malformed(f"a file that {str(error).removeprefix(f'{path} ').rstrip('.')}")


def load_all(paths: list[Path], *, like: Any = None, max_bytes: int | None = None) -> tuple[Any, list[str]]:
    """All updates and their names: one file per worker, or one that holds them all.

    A file that cannot be read, or that unpacks to more than `allowed_bytes`, is the malformed update of a worker: it is
    dropped by name, and counts as dropped.
    """
    limit = allowed_bytes(paths, like=like, max_bytes=max_bytes)
    if len(paths) > 1:
        check_room(paths, limit)
        return list(load_each(paths, limit)), names_of(paths)
    held = load(paths[0], limit)
    if isinstance(held, dict) and len(held) == 1:
        (held,) = held.values()
    if isinstance(held, dict) and len({tuple(np.shape(entry)) for entry in held.values()}) > 1:
        raise BadInput(
            f"{paths[0]} holds one update with {len(held)} entries; "
            "give one file per worker, or one array with a row per worker."
        )
    if isinstance(held, dict):
        return list(held.values()), list(held)
    if not hasattr(held, "__len__") or np.ndim(held) == 0:
        raise BadInput(
            f"{paths[0]} holds a single number; give one file per worker, or one array with a row per worker."
        )
    return held, [str(i) for i in range(len(held))]


def check_target(path: Path, formats: Iterable[str] = ()) -> None:
    """Refuse early what could not be written later; if not said, the formats are those of updates."""
    known = list(formats or WRITERS)
    if path.is_dir():
        raise BadInput(f"--out {path} was given, which is a folder; name a file in it.")
    if path.suffix not in known:
        raise BadInput(f"--out {path} was given; the formats are {', '.join(known)}.")
    if not path.parent.is_dir():
        raise BadInput(f"--out {path} was given, but there is no folder {path.parent}; make it first.")


def save(path: Path, update: Any) -> None:
    """Write an update in the format of the file's ending, whole or not at all."""
    check_target(path)
    if path.suffix == ".npy" and isinstance(update, (dict, list, tuple)):
        raise BadInput(f"--out {path} holds one array, but the updates have entries; use .npz, .safetensors or .pt.")
    try:
        write_whole(path, lambda file: WRITERS[path.suffix](file, update))
    except TypeError:
        raise BadInput(f"--out {path} has no room for these types (bfloat16, say); use .safetensors or .pt.") from None


def _read_npy(path: Path) -> Any:
    with path.open("rb") as held:
        if held.read(len(np.lib.format.MAGIC_PREFIX)) != np.lib.format.MAGIC_PREFIX:
            raise BadInput(f"{path} cannot be read: it is no npy file.")
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _read_npz(path: Path) -> Any:
    if not zipfile.is_zipfile(path):
        raise BadInput(f"{path} cannot be read: it is no npz file.")
    with np.load(path, allow_pickle=False) as held:
        return {name: held[name] for name in held.files}


def _read_safetensors(path: Path) -> Any:
    try:
        from safetensors import numpy as plain

        return plain.load_file(path)
    except (KeyError, AttributeError, TypeError):  # bfloat16, which numpy has not
        _torch()
        from safetensors import torch as tensors

        return tensors.load_file(path)


def _read_pt(path: Path) -> Any:
    if zipfile.is_zipfile(path):
        return _torch().load(path, map_location="cpu", weights_only=True)
    content = io.BytesIO(path.read_bytes())  # a read of what is not there takes memory from a file, none from these
    return _torch().load(content, map_location="cpu", weights_only=True)


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtra("this file", "torch", "train") from None
    return torch


def _named(update: Any) -> dict[str, Any]:
    if isinstance(update, dict):
        return {str(name): value for name, value in update.items()}
    return (
        {str(i): value for i, value in enumerate(update)} if isinstance(update, (list, tuple)) else {"update": update}
    )


def _write_npz(file: IO[bytes], update: Any) -> None:
    write_arrays(file, {name: np.asanyarray(value) for name, value in _named(update).items()})


def _write_safetensors(file: IO[bytes], update: Any) -> None:
    named = _named(update)
    if all(isinstance(value, np.ndarray) for value in named.values()):
        from safetensors import numpy as plain

        file.write(plain.save({k: np.ascontiguousarray(v) for k, v in named.items()}))
        return
    from safetensors import torch as tensors

    file.write(tensors.save({k: v.contiguous() for k, v in named.items()}))


def _write_pt(file: IO[bytes], update: Any) -> None:
    torch = _torch()
    entries = {name: torch.as_tensor(value) for name, value in _named(update).items()}
    torch.save(entries if isinstance(update, (dict, list, tuple)) else entries["update"], file)


READERS: dict[str, Callable[[Path], Any]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
    ".pt": _read_pt,
    ".pth": _read_pt,
}
WRITERS: dict[str, Callable[[IO[bytes], Any], None]] = {
    ".npy": lambda file, update: np.save(file, np.asarray(update), allow_pickle=False),
    ".npz": _write_npz,
    ".safetensors": _write_safetensors,
    ".pt": _write_pt,
    ".pth": _write_pt,
}
