"""The answer of a round: weighted sums of rows, columns by a coordinate rule, the lower median of counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np

from holdfast.arrays import Array, is_array, kind
from holdfast.errors import BrokenRule, article
from holdfast.host import Host, in_parallel, spans
from holdfast.kinds import CoordinateRule
from holdfast.leaves import Leaf
from holdfast.places import Place
from holdfast.points import TINY, NotFinite, Points, weighted

CACHE = 300_000  # numbers of a block of columns that is sorted on the host: fits the second-level cache
ADDED = 8192  # numbers of a row that are added at once: some rows of them fit the first cache
Result = TypeVar("Result")


def weighted_sum(points: Points, weights: np.ndarray) -> list[Array]:
    """The weighted sum of points and anchors, one flat array for each leaf. Rows of weight zero are not read."""
    w = points.over_basis(weights)
    used = np.flatnonzero(w)
    return [_sum(points, leaf, w[used], points.basis[used]) for leaf in points.source.leaves]


def _sum(points: Points, leaf: Leaf, w: np.ndarray, rows: np.ndarray) -> Array:
    source = points.source
    if leaf.kind == "i":
        kept = rows[rows < source.n]
        return lower_median(leaf, kept if len(kept) else points.workers())
    if not len(w) or not leaf.size:
        return leaf.place.put(np.zeros(leaf.size), leaf.kind)
    wide = leaf.kind == "f8" or np.abs(w).min(initial=1.0) < TINY
    all_rows: np.ndarray | None = rows
    present, most = len(points.workers()) == source.n, 2 * len(rows) > source.n
    if not isinstance(leaf.data, Sequence) and present and most and (rows < source.n).all():
        w, all_rows = np.bincount(rows, w, source.n), None  # a view of all is faster than a copy of some

    def piece(s: int, e: int) -> Array:
        block = leaf.block(all_rows, s, e, wide=wide)
        if source.processes > 1:
            return add_rows(leaf.place.put(w, "f8" if wide else "f4"), block)
        return weighted(leaf.place, w, block) if wide else leaf.place.weighted(w, block, "f4")

    return leaf.place.join((piece(s, e) for s, e in leaf.spans(len(w))), leaf.size)


def add_rows(w: Array, block: Array) -> Array:
    """w @ block by plain products and sums, so that a column's bits do not depend on where it stands."""
    rows = range(block.shape[0])
    if not isinstance(block, np.ndarray) or not isinstance(w, np.ndarray):
        total = block[0, :] * w[0]
        for i in rows[1:]:
            total = total + block[i, :] * w[i]
        return total
    out = np.zeros(block.shape[1], block.dtype)
    part = np.empty(min(len(out), ADDED), out.dtype)
    for s, e in spans(len(out), ADDED):
        for i in rows:
            if w[i]:
                out[s:e] += np.multiply(block[i, s:e], w[i], out=part[: e - s])
    return out


def lower_median(leaf: Leaf, rows: np.ndarray) -> Array:
    """Counters: an element that at least one worker sent, with half of the rows on either side."""
    place, middle = leaf.place, (len(rows) - 1) // 2

    def piece(s: int, e: int) -> Array:
        block = leaf.block(rows, s, e)
        if isinstance(block, np.ndarray) and leaf.dtype == np.uint64:  # as int64, its upper half is negative
            return np.sort(block.view(np.uint64), axis=0)[middle, :].view(np.int64)
        return place.xp.sort(block, axis=0)[middle, :]

    if not leaf.size:
        return place.put(np.zeros(0), "i")
    return place.join((piece(s, e) for s, e in leaf.spans(len(rows))), leaf.size)


def columns(points: Points, rule: CoordinateRule, mass: np.ndarray | None = None) -> list[Array]:
    """The rule's answer in every column, one flat array for each leaf; counters take their lower median.

    Raises NotFinite where a block may hold numbers that are not finite, if nobody has looked yet; BrokenRule, in all
    processes alike, if the rule's answer to finite numbers breaks the contract.
    """
    done = _each(points, lambda leaf, block: _answered(points, rule, mass, leaf, block))
    seen = not points.unseen or _all((leaf, fine) for leaf, _, fine in done)
    broken = next((answer for _, answer, _ in done if isinstance(answer, BrokenRule)), None)
    values = _values(points, done) if seen and broken is None else []
    pairs = zip(points.source.leaves, values, strict=False)
    if not _all((leaf, leaf.place.xp.isfinite(value)) for leaf, value in pairs if leaf.kind != "i"):
        broken = BrokenRule(f"{rule!r} answered finite columns with numbers that are not finite.")
    all_seen, all_kept = np.asarray(points.source.shards(np.array([seen, broken is None])).all(axis=0))
    if not all_seen:
        raise NotFinite
    if not all_kept:
        raise broken or BrokenRule(f"{rule!r} broke its contract in columns of another process.")
    return values


Answered = tuple[Leaf, Array | BrokenRule | None, Array]
"""A block's leaf, the rule's answer or how it broke the contract, and whether the sum of the block is finite."""


def _answered(points: Points, rule: CoordinateRule, mass: np.ndarray | None, leaf: Leaf, block: Array) -> Answered:
    """The rule's answer on one block; none to numbers that are not finite, where that is known at once."""
    xp = leaf.place.xp
    fine = xp.isfinite(xp.sum(block))
    on_host = isinstance(block, np.ndarray) or not rule.portable
    if on_host and points.unseen and not leaf.place.fetch(fine):
        return leaf, None, fine
    try:
        return leaf, _answer(rule, leaf.place, block, mass), fine
    except BrokenRule as broken:
        return leaf, broken, fine


def _answer(rule: CoordinateRule, place: Place, block: Array, mass: np.ndarray | None) -> Array:
    """The rule's answer on one block, at the block's place; raises BrokenRule if it is not a real number a column."""
    here = isinstance(block, np.ndarray) or rule.portable
    given: Any = block if here else place.fetch(block)  # a rule written for numpy gets numpy's
    out = rule.columns(given) if mass is None else rule.columns_by_mass(given, mass)
    if isinstance(given, np.ndarray):
        with suppress(ValueError):  # lists of lists of different lengths
            out = np.asarray(out)
    if not is_array(out) or tuple(out.shape) != (block.shape[1],) or kind(out) is None:
        what = (
            f"an array of shape {tuple(out.shape)} and type {out.dtype}"
            if is_array(out)
            else article(type(out).__name__)
        )
        raise BrokenRule(
            f"{rule!r} answered {block.shape[1]} columns with {what}; the contract asks for one real number a column."
        )
    if isinstance(out, np.ndarray):
        out = np.array(out, given.dtype)  # not a view of a worker's row, or one that keeps the sorted block
    return out if here else place.put(out, "f8" if given.dtype == np.float64 else "f4")


def _values(points: Points, done: Iterable[Answered]) -> list[Array]:
    """The answers of the blocks, put together leaf by leaf."""
    answers: dict[int, list[Array]] = {id(leaf): [] for leaf in points.source.leaves}
    for leaf, answer, _ in done:
        if answer is not None and not isinstance(answer, BrokenRule):
            answers[id(leaf)].append(answer)
    return [
        lower_median(leaf, points.workers()) if leaf.kind == "i" else _joined(leaf, answers[id(leaf)])
        for leaf in points.source.leaves
    ]


def shares(points: Points, rule: CoordinateRule, mass: np.ndarray | None = None) -> np.ndarray:
    """In which part of all coordinates each basis row was used."""

    def work(leaf: Leaf, block: Array) -> tuple[Leaf, Array]:
        given: Any = block if isinstance(block, np.ndarray) or rule.portable else leaf.place.fetch(block)
        used: Any = rule.used(given) if mass is None else rule.used_by_mass(given, mass)
        if isinstance(given, np.ndarray):
            with suppress(ValueError):  # lists of lists of different lengths
                used = np.asarray(used)
        if not is_array(used) or tuple(used.shape) != (block.shape[0],) or kind(used) is None:
            what = f"in shape {tuple(used.shape)}" if is_array(used) else f"by {article(type(used).__name__)}"
            raise BrokenRule(f"{rule!r} told whom it used {what}; the contract asks for one share a row.")
        return leaf, used * block.shape[1]

    counts: dict[Place, list[Array]] = {}
    for leaf, used in _each(points, work):
        counts.setdefault(leaf.place, []).append(used)
    here = np.zeros(points.k)
    for place, many in counts.items():
        here = here + place.fetch(place.xp.sum(place.xp.stack(many), axis=0))
    total = sum(leaf.columns for leaf in points.source.floats)
    part = points.source.shards(here).sum(axis=0) / total
    return part if points.mix is None else part @ np.abs(points.mix)


def _each(points: Points, work: Callable[[Leaf, Array], Result]) -> list[Result]:
    """Work on every block of columns: on the host on all cores, on a device one after the other."""
    floats = points.source.floats
    host = all(isinstance(leaf.place, Host) for leaf in floats)
    pieces = [
        (leaf, span)
        for leaf in floats
        for span in spans(
            leaf.size,
            int(np.clip(CACHE // max(1, points.k), 64, 8192)) if host else leaf.place.width(points.k, view=False),
        )
    ]

    def one(piece: tuple[Leaf, tuple[int, int]]) -> Result:
        leaf, span = piece
        with np.errstate(all="ignore"):
            return work(leaf, points.block(leaf, *span))

    return in_parallel(one, pieces) if host else [one(piece) for piece in pieces]


def _joined(leaf: Leaf, pieces: list[Array]) -> Array:
    return leaf.place.join(pieces, leaf.size) if pieces else leaf.place.put(np.zeros(0), leaf.kind)


def _all(found: Iterable[tuple[Leaf, Array]]) -> bool:
    """Whether all flags are up: those of a place are joined there and fetched once."""
    flags: dict[Place, Array] = {}
    for leaf, flag in found:
        up = leaf.place.xp.all(flag)
        flags[leaf.place] = flags[leaf.place] & up if leaf.place in flags else up
    return all(bool(place.fetch(flag)) for place, flag in flags.items())
