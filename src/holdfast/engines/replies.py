"""What is checked in a client's reply, in every engine: one sound reply a client, as a difference to the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from holdfast.engines.differences import Model, difference_dtype, fits, subtract

LONGEST = 200  # characters of what a client says
MAX_NAMES = 1_000  # of metrics and settings in one reply
Name = TypeVar("Name", int, str)  # Flower's nodes have numbers, NVFlare's clients have names
Reply = TypeVar("Reply")


class Refused(Exception):
    """Why a reply cannot be used."""


@dataclass(frozen=True)
class Sound:
    """One sound reply: the differences to the model, how much its sender says it counts, its metrics, its bytes."""

    update: Model
    count: float
    metrics: dict[str, float]
    bytes: int


@dataclass
class Gathered(Generic[Name]):
    """Sound updates, their nodes, counts, metrics and ages; who was refused and why; who was silent; bytes that came.

    `faulty` are those of the refused who were asked.
    """

    nodes: list[Name] = field(default_factory=list)
    updates: list[Model] = field(default_factory=list)
    counts: list[float] = field(default_factory=list)
    metrics: list[dict[str, float]] = field(default_factory=list)
    ages: list[int] = field(default_factory=list)
    faulty: list[Name] = field(default_factory=list)
    refused: dict[Name, str] = field(default_factory=dict)
    silent: list[Name] = field(default_factory=list)
    bytes: int = 0


class Rows:
    """Memory for the differences of a round, used again in the next: the system hands out new memory slowly."""

    def __init__(self) -> None:
        self.held: Model = {}

    def take(self, n: int, model: Model) -> Model:
        """Return n rows for each array of the model; what they held is lost."""
        wanted = {name: (ours.shape, difference_dtype(ours)) for name, ours in model.items()}
        if {name: (rows.shape[1:], rows.dtype) for name, rows in self.held.items()} != wanted or self._fewer_than(n):
            self.held = {name: np.empty((n, *shape), dtype) for name, (shape, dtype) in wanted.items()}
        return {name: rows[:n] for name, rows in self.held.items()}

    def _fewer_than(self, n: int) -> bool:
        return any(len(rows) < n for rows in self.held.values())

    def without(self, values: np.ndarray) -> np.ndarray:
        """Return the values, in memory of their own."""
        mine = any(np.may_share_memory(values, rows) for rows in self.held.values())
        return values.copy() if mine else values


def sort_replies(
    replies: Iterable[tuple[Name, Reply]],
    asked: Iterable[Name],
    model: Model,
    read: Callable[[Reply, Model], Sound],
    rows: Rows | None = None,
) -> Gathered[Name]:
    """Sort replies by sender: the first one of each client that was asked counts, if it is sound.

    `read` writes the differences to the model into the arrays that it is given, or raises Refused. The order is that of
    the clients' names, so that who answers first changes nothing.
    """
    wanted, out = sorted(set(asked)), Gathered[Name]()
    block = (rows or Rows()).take(len(wanted), model)
    sound: dict[Name, Sound] = {}
    for node, reply in replies:
        if node in sound or node in out.refused:
            continue  # one reply a client; what it sends after that changes nothing
        if node not in wanted:
            out.refused[node] = "was not asked"
            continue
        try:
            sound[node] = read(reply, {name: each[wanted.index(node), ...] for name, each in block.items()})
        except Refused as why:
            out.refused[node] = plain(str(why))
    out.nodes, out.faulty = sorted(sound), [node for node in wanted if node in out.refused]
    usable = [sound[node] for node in out.nodes]
    out.updates, out.counts = [one.update for one in usable], [one.count for one in usable]
    out.metrics, out.bytes = [one.metrics for one in usable], sum(one.bytes for one in usable)
    out.silent = [node for node in wanted if node not in sound and node not in out.refused]
    return out


def plain(text: str) -> str:
    """What a client says as one line that a terminal and a journal can bear."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text[: LONGEST + 1])
    return shown if len(text) <= LONGEST else shown[: LONGEST - 3] + "..."


def check_names(names: set[str], model: Model) -> None:
    """Refuse other names of arrays than the model has."""
    if missing := sorted(model.keys() - names):
        raise Refused(f"sent other arrays than it was sent: no {missing[0]!r}")
    if names != set(model):
        raise Refused(f"sent other arrays than it was sent: {len(names)}, where the model has {len(model)}")


def check_shape(name: str, shape: tuple[int, ...], ours: np.ndarray) -> None:
    """Refuse another shape than our array has."""
    if shape != ours.shape:
        raise Refused(f"sent {name} of shape {shape}, not {ours.shape}")


def subtract_ours(name: str, values: np.ndarray, ours: np.ndarray, out: np.ndarray) -> None:
    """Write a client's array minus ours into `out`, after every check that a hostile sender makes necessary."""
    floats = _check_kind(name, values, ours)
    if not floats and not fits(values, ours):
        raise Refused(f"sent {name} with numbers that {ours.dtype} does not hold")
    with np.errstate(all="ignore"):
        subtract(values, ours, out)
        if floats:
            _check_finite(name, values, out)


def copy_difference(name: str, values: np.ndarray, ours: np.ndarray, out: np.ndarray) -> None:
    """Write a difference that a client has computed itself into `out`, after the same checks."""
    floats = values.dtype.kind == "f" and ours.dtype.kind == "f"
    integers = values.dtype.kind in "iub" and ours.dtype.kind in "iub" and fits(values, out)
    check_shape(name, values.shape, ours)
    if not floats and not integers:
        raise Refused(f"sent a difference of {name} of type {values.dtype}, not {out.dtype}")
    with np.errstate(all="ignore"):
        out[...] = values
        if floats:
            _check_finite(name, values, out)


def _check_kind(name: str, values: np.ndarray, ours: np.ndarray) -> bool:
    """Refuse another shape, and other kinds of numbers than ours; whether both are floats."""
    check_shape(name, values.shape, ours)
    floats = values.dtype.kind == "f" and ours.dtype.kind == "f"
    if not floats and (values.dtype.kind not in "iub" or values.dtype.kind != ours.dtype.kind):
        raise Refused(f"sent {name} of type {values.dtype}, not {ours.dtype}")
    return floats


def _check_finite(name: str, values: np.ndarray, out: np.ndarray) -> None:
    if not np.isfinite(out.ravel() @ out.ravel()) and not np.isfinite(out).all():  # the product is fast
        what = "too large" if np.isfinite(values).all() else "not finite"
        raise Refused(f"sent array {name} with numbers that are {what}")
