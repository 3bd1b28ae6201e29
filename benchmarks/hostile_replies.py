"""Replies of a hostile client, kind by kind; every one is a real Flower message."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, MetricRecord, RecordDict
from hostile_pieces import Reply, described

from holdfast.engines.differences import Model
from holdfast.engines.flower import make_record


def trained(model: Model, **more: Any) -> Reply:
    """A reply with this model, and other records."""
    metrics = MetricRecord({"num-examples": 100, "loss": 0.5})
    return Reply(RecordDict({"arrays": make_record(model), "metrics": metrics, **more}))


def voted(**losses: Any) -> Reply:
    """A vote."""
    return Reply(RecordDict({"vote": MetricRecord(losses)}))


def of_bytes(model: Model, data: bytes) -> Reply:
    """A reply whose arrays are these bytes."""
    arrays = {name: Array(str(v.dtype), v.shape, "numpy.ndarray", data) for name, v in model.items()}
    return Reply(RecordDict({"arrays": ArrayRecord(arrays)}))


def _npy(shape: tuple[int, ...]) -> bytes:
    """The head of an npy file that declares this shape, and few numbers."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return file.getvalue() + bytes(4000)


def _npz() -> bytes:
    """A zip of 1 MB that unpacks to 1 GB."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out, out.open("w.npy", "w") as part:
        for _ in range(1000):
            part.write(bytes(1_000_000))
    return file.getvalue()


class _Stand:
    """Unpickles to an array of 2 GB."""

    def __reduce__(self) -> tuple[Any, ...]:
        return bytearray, (2_000_000_000,)


def train_kinds(model: Model, others: Model) -> dict[str, Callable[[], Reply]]:
    """What a client can send as its update; `others` is the update of an honest client."""

    def like(value: float) -> Reply:
        return trained({name: np.full_like(values, value) for name, values in model.items()})

    def cast(kind: str) -> Reply:
        return trained({name: values.astype(kind) for name, values in others.items()})

    first = next(iter(model))
    sound = trained(others).content
    return {
        "one chunk listed 100,000 times": lambda: Reply(sound, described(arraychunk_ids=[0] * 100_000)),
        "1,000 arrays more": lambda: trained(others | {f"x{at}": np.full(1, at) for at in range(1_000)}),
        "a list of 200,000 pieces": lambda: Reply(sound, listed=200_000),
        "100,000 metric names": lambda: trained(others, m=MetricRecord({f"m{at}": 1.0 for at in range(10**5)})),
        "10,000 records": lambda: trained(others, **{f"r{at}": MetricRecord({"a": float(at)}) for at in range(10**4)}),
        "a metric that lists 1,000,000 numbers": lambda: trained(others, m=MetricRecord({"m": [1] * 1_000_000})),
        "a metric that lists 10,000,000 numbers": lambda: trained(others, m=MetricRecord({"m": [1] * 10_000_000})),
        "a declared shape of 10^12 numbers": lambda: Reply(sound, described(shape=[10**6, 10**6])),
        "a file that declares 10^12 numbers": lambda: of_bytes(model, _npy((10**6, 10**6))),
        "NaN": lambda: like(float("nan")),
        "3e38": lambda: like(3e38),
        "denormals": lambda: like(1e-40),
        "a copy of another's reply": lambda: trained(others),
        "float64": lambda: cast("float64"),
        "16 bytes a number": lambda: cast("longdouble"),
        "complex numbers": lambda: cast("complex128"),
        "integers": lambda: cast("int64"),
        "pickles of 2 GB": lambda: of_bytes(model, pickle.dumps(_Stand())),
        "a zip that unpacks to 1 GB": lambda: of_bytes({first: model[first]}, _npz()),
        "a setting of 100,000,000 letters": lambda: trained(others, c=ConfigRecord({"c": "x" * 100_000_000})),
        "a name of 10,000,000 letters": lambda: trained(others | {"x" * 10_000_000: np.zeros(1)}),
        "an error of 100,000,000 letters": lambda: Reply(Error(0, "x" * 100_000_000)),
        "ten times the bytes": lambda: trained({name: np.tile(v, 10) + np.float32(1) for name, v in others.items()}),
        "pieces that never come": lambda: Reply(
            trained({name: v - 1 for name, v in others.items()}).content, uploaded=False
        ),
    }


def vote_kinds(model: Model) -> dict[str, Callable[[], Reply]]:
    """What a client can send as its vote."""
    return {
        "a vote of NaN": lambda: voted(inner=float("nan"), outer=float("nan")),
        "a vote of lists": lambda: voted(inner=[1.0] * 1000, outer=[2.0]),
        "a vote with 100,000 names": lambda: voted(inner=1.0, outer=2.0, **{f"m{at}": 1.0 for at in range(10**5)}),
        "a vote with a model": lambda: Reply(RecordDict({"a": make_record(model), "v": MetricRecord({"inner": 1.0})})),
    }
