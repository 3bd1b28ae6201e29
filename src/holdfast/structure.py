"""The structure of an update: an array, or lists, tuples and dicts of arrays, in any nesting."""

from __future__ import annotations

import itertools
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from holdfast.arrays import Array, Unreadable, is_array, kind, viewed
from holdfast.errors import BadInput, article, listing, plural

DEEPEST, LARGEST = 32, 100_000  # nesting and number of entries that are still taken for an update
Shape = tuple[tuple[str, tuple[int, ...]], ...]


class Entry(NamedTuple):
    """One array of an update: its name, the numbers to compute with, and the array as it was given."""

    name: str
    numbers: Array
    given: Array


Flat = list[Entry]


class Malformed(Exception):
    """Says why something is no update, and at which of its entries."""

    def __init__(self, reason: str, entry: object = None) -> None:
        super().__init__(reason if entry is None else f"{reason} at {entry!r}")
        self.reason, self.entry = reason, entry


def flatten(update: object) -> Flat:
    """The entries of an update in order; raises Malformed if it is none."""
    return _flatten(update, "", 0, itertools.count())


def _flatten(update: object, path: str, depth: int, seen: itertools.count[int]) -> Flat:
    if depth > DEEPEST or next(seen) > LARGEST:
        raise Malformed(f"a nesting deeper than {DEEPEST}" if depth > DEEPEST else f"more than {LARGEST:,} entries")
    if is_array(update):
        return [_entry(update, path, depth)]
    if isinstance(update, (int, float)) and depth:
        return _plain(path, update)
    if isinstance(update, (list, tuple)) and update and all(map(_is_number, update)):
        return _plain(path, update)
    if not isinstance(update, (list, tuple, Mapping)):
        raise Malformed("nothing" if update is None else article(type(update).__name__))
    if not update:
        raise Malformed("an empty update")
    named: list[tuple[object, object]] = list(enumerate(update))
    if isinstance(update, Mapping):  # workers may differ in the order of their keys
        named = sorted(update.items(), key=lambda item: str(item[0]))
    out: Flat = []
    for key, value in named:
        try:
            out += _flatten(value, f"{path}.{key}" if depth else str(key), depth + 1, seen)
        except Malformed as why:
            raise Malformed(why.reason, key if why.entry is None else why.entry) from None
    return out


def _entry(array: Array, path: str, depth: int) -> Entry:
    try:
        numbers = viewed(array)
        known = kind(numbers)
    except Unreadable as error:
        raise Malformed(f"{error.what} ({error.advice})") from None
    except Exception as error:  # whatever a hostile array says when it is looked at
        raise Malformed(str(error).rstrip(".") or type(error).__name__) from None
    if depth == 0 and len(numbers.shape) == 0:
        raise Malformed("a scalar")
    if known is None:
        raise Malformed(f"numbers of type {numbers.dtype}")
    return Entry(path, numbers, array)


def _is_number(x: object) -> bool:
    return type(x) in (int, float, bool) or isinstance(x, (np.floating, np.integer))


def _plain(path: str, update: object) -> Flat:
    a = np.asarray(update)
    if kind(a) is None:
        raise Malformed("an integer beyond 64 bits")
    return [Entry(path, a, a)]


def build(template: object, parts: Iterator[object]) -> object:
    """The inverse of flatten: the entries, in order, put into the template's structure."""
    if isinstance(template, Mapping):
        built = {key: build(template[key], parts) for key in sorted(template, key=str)}
        ordered = {key: built[key] for key in template}
        return OrderedDict(ordered) if isinstance(template, OrderedDict) else ordered
    if not isinstance(template, (list, tuple)) or all(map(_is_number, template)):
        return next(parts)
    made = [build(value, parts) for value in template]
    if isinstance(template, list):
        return made
    fill: Callable[..., object] | None = getattr(type(template), "_make", None)  # of named tuples
    return tuple(made) if fill is None else fill(made)


def shape_of(flat: Flat) -> Shape:
    """The names and shapes of the entries."""
    return tuple((entry.name, tuple(entry.numbers.shape)) for entry in flat)


def mismatch(mine: Shape, model: Shape) -> str | None:
    """In what a structure differs from the model's; None if in nothing."""
    if mine == model:
        return None
    own, theirs = dict(mine), dict(model)
    if missing := theirs.keys() - own.keys():
        name = min(missing)
        if name and any(one.startswith(f"{name}.") for one in own):
            return f"a list or a dict at {name!r} instead of one array"
        return f"no entry {name!r}" if name else "no single array"
    if extra := own.keys() - theirs.keys():
        return f"an unknown entry {min(extra)!r}"
    for name, shape in theirs.items():
        if own[name] != shape:
            return f"shape {own[name]} instead of {shape}" + (f" at {name!r}" if name else "")
    return "entries of the same name"


def understood(update: object) -> Flat | Malformed:
    """The entries of an update, or why it is none; what is known to be malformed says so itself."""
    if isinstance(update, Malformed):
        return update
    try:
        return flatten(update)
    except Malformed as why:
        return why


def misfits(flats: Sequence[Flat | Malformed], model: Flat) -> dict[int, str]:
    """Which updates do not have the model's structure, and why."""
    wanted = shape_of(model)
    said = (str(f) if isinstance(f, Malformed) else mismatch(shape_of(f), wanted) for f in flats)
    return {i: why for i, why in enumerate(said) if why is not None}


def common(flats: Sequence[Flat | Malformed], who: str, names: Sequence[object] | None = None) -> Flat:
    """The structure that all updates share; a refusal names those that differ."""
    called = range(len(flats)) if names is None or len(names) != len(flats) else names
    sound = [flat for flat in flats if not isinstance(flat, Malformed)]
    if not sound:
        what = f"{flats[0]} for update {called[0]}"
        raise BadInput(f"{who} was given {what}; send arrays, lists of arrays or dicts of arrays.")
    wanted = Counter(map(shape_of, sound)).most_common(1)[0][0]
    model = next(flat for flat in sound if shape_of(flat) == wanted)
    if odd := misfits(flats, model):
        first = min(odd)
        raise BadInput(
            f"{who} was given {len(flats)} updates of different structure: {plural(len(odd), 'update')} "
            f"{listing(called[i] for i in odd)} {'differs' if len(odd) == 1 else 'differ'} from the others "
            f"(update {called[first]}: {odd[first]}); "
            "leave out what is wrong, or pass like= with an update of the right structure."
        )
    return model


def majority(given: Sequence[object]) -> object:
    """An update of the structure that more than half of the updates share, or None."""
    flats = [understood(update) for update in given]
    votes = Counter(shape_of(flat) for flat in flats if not isinstance(flat, Malformed))
    shape, count = votes.most_common(1)[0] if votes else ((), 0)
    if 2 * count <= len(given):
        return None
    pairs = zip(given, flats, strict=True)
    return next(update for update, flat in pairs if not isinstance(flat, Malformed) and shape_of(flat) == shape)
