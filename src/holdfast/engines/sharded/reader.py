"""Reading a checkpoint without running code: checksums first, then torch's own reader with known classes only."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import ReadItem

from holdfast.disk import MAX_NOTE_BYTES, open_regular, read_regular, write_whole
from holdfast.engines.sharded.wire import Wire
from holdfast.errors import BadInput

log = logging.getLogger("holdfast")
CHECKSUMS, METADATA = "checksums.json", ".metadata"
STORED = "torch.distributed.checkpoint.metadata"
KNOWN = {
    *((STORED, name) for name in ("Metadata", "MetadataIndex", "StorageMeta", "ChunkStorageMetadata")),
    *((STORED, name) for name in ("TensorProperties", "TensorStorageMetadata", "BytesStorageMetadata")),
    *((STORED, name) for name in ("_MEM_FORMAT_ENCODING",)),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("torch", "Size"),
    ("torch.serialization", "_get_layout"),
    *((module, name) for module in ("pathlib", "pathlib._local") for name in ("PosixPath", "WindowsPath")),
}


def write_checksums(place: Path) -> None:
    """Leave the SHA-256 of each file of a checkpoint beside them."""
    sums = {one.name: _sha256(one) for one in sorted(place.iterdir())}
    write_whole(place / CHECKSUMS, json.dumps({"format": 1, "sha256": sums}, indent=1).encode(), sync=True)


def check_sums(place: Path, wire: Wire) -> None:
    """Refuse, on all ranks alike, a checkpoint of which a file is missing or changed; each rank reads some files.

    A checkpoint of an older holdfast has no checksums and is not compared.
    """
    try:
        record = json.loads(read_regular(place / CHECKSUMS, limit=MAX_NOTE_BYTES))
        sums = {str(name): str(value) for name, value in record["sha256"].items()}
    except FileNotFoundError:
        log.warning("%s has no checksums, so damage cannot be seen; an older holdfast wrote it", place)
        return
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise BadInput(
            f"{place / CHECKSUMS} holds no checksums; remove {place} to go on with the one before."
        ) from None
    names = sorted(sums)
    bad = [at for at, name in enumerate(names) if at % wire.n == wire.rank and not _same(place, name, sums[name])]
    worst = int(wire.shards(np.array([bad[0] if bad else -1], np.int64)).max())
    if worst >= 0:
        raise BadInput(
            f"{place} cannot be loaded ({names[worst]} is missing or was changed since it was written); "
            "remove it to go on from the one before."
        )


def _same(place: Path, name: str, value: str) -> bool:
    try:
        return name == Path(name).name and _sha256(place / name) == value
    except OSError:
        return False


def _sha256(path: Path) -> str:
    with open_regular(path) as file:
        digest = hashlib.sha256()
        while piece := file.read(1 << 20):
            digest.update(piece)
        return digest.hexdigest()


class Reader(FileSystemReader):
    """torch's reader, which unpickles nothing but the classes of a checkpoint's metadata."""

    def __init__(self, place: Path) -> None:
        super().__init__(str(place))
        self.place = place

    def read_metadata(self, *_: Any, **__: Any) -> Metadata:
        """What the checkpoint holds, and in which of its own files."""
        metadata = _Unpickler(io.BytesIO(read_regular(self.place / METADATA))).load()
        if not isinstance(metadata, Metadata) or not isinstance(metadata.state_dict_metadata, dict):
            raise ValueError("its .metadata is none")
        for info in (metadata.storage_data or {}).values():
            name = str(info.relative_path)
            if name != Path(name).name or getattr(info, "transform_descriptors", None):
                raise ValueError("its .metadata names files of another folder")
            open_regular(self.place / name).close()
        if getattr(metadata, "storage_meta", None) is None:
            metadata.storage_meta = StorageMeta()
        assert metadata.storage_meta is not None
        metadata.storage_meta.load_id = self.load_id
        return metadata


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in KNOWN:
            return super().find_class(module, name)
        if module == "torch" and isinstance(dtype := vars(torch).get(name), torch.dtype):
            return dtype
        raise pickle.UnpicklingError(f"its .metadata asks for {module}.{name}, which no checkpoint of ours holds")


class Planner(DefaultLoadPlanner):
    """torch's planner, which reads what is no tensor (such as a learning rate) as plain values only."""

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Refuse objects; then let torch put the value into its place."""
        torch.load(value, weights_only=True)
        value.seek(0)
        super().load_bytes(read_item, value)
