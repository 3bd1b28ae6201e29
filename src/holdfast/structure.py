"""The structure of an update: an array, or lists, tuples and dicts of arrays, in any nesting."""

from __future__ import annotations

import itertools
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from holdfast.errors import BadInput, article, listing, plural
from holdfast.libraries import Array, host, kind, library

Flat = list[tuple[str, Array, Any]]
"""Name, numbers, and the array as it was given, of each leaf in order."""
DEEPEST, LARGEST = 32, 100_000  # nesting and number of entries that are still taken for an update


def flatten(update: Any) -> Flat | str:
    """The leaves of an update in order; or, as text, why it is none."""
    return _flatten(update, "", 0, itertools.count())


def _flatten(update: Any, path: str, depth: int, seen: itertools.count[int]) -> Flat | str:
    if depth > DEEPEST or next(seen) > LARGEST:
        return f"a nesting deeper than {DEEPEST}" if depth > DEEPEST else f"more than {LARGEST:,} entries"
    if library(update):
        try:
            a = host(update)
        except Exception as error:  # whatever a hostile array says when it is looked at
            return str(error).rstrip(".") or type(error).__name__
        if depth == 0 and a.ndim == 0:
            return "a scalar"
        return [(path, a, update)] if kind(a) else f"numbers of type {a.dtype}"
    if isinstance(update, (int, float)) and depth:
        return _plain(path, update)
    if isinstance(update, (list, tuple)) and update and all(map(_is_number, update)):
        return _plain(path, update)
    if not isinstance(update, (list, tuple, Mapping)):
        return "nothing" if update is None else article(type(update).__name__)
    if not update:
        return "an empty update"
    out: Flat = []
    named: list[tuple[Any, Any]] = list(enumerate(update))
    if isinstance(update, Mapping):  # workers may differ in the order of their keys
        named = sorted(update.items(), key=lambda item: str(item[0]))
    for key, value in named:
        part = _flatten(value, f"{path}.{key}" if depth else str(key), depth + 1, seen)
        if isinstance(part, str):
            return part if " at " in part else f"{part} at {key!r}"
        out += part
    return out


def _is_number(x: Any) -> bool:
    return type(x) in (int, float, bool) or isinstance(x, (np.floating, np.integer))


def _plain(path: str, update: Any) -> Flat | str:
    a = np.asarray(update)
    return [(path, a, a)] if kind(a) else "an integer beyond 64 bits"


def build(template: Any, parts: Iterator[Any]) -> Any:
    """The inverse of flatten: the leaves, in order, put into the template's structure."""
    if library(template) or isinstance(template, (int, float)):
        return next(parts)
    if isinstance(template, (list, tuple)):
        if all(map(_is_number, template)):
            return next(parts)
        made = [build(v, parts) for v in template]
        named = type(template) if hasattr(template, "_fields") else None
        return made if isinstance(template, list) else named(*made) if named else tuple(made)
    built = {key: build(template[key], parts) for key in sorted(template, key=str)}
    ordered = {key: built[key] for key in template}
    return OrderedDict(ordered) if isinstance(template, OrderedDict) else ordered


def _shape(flat: Flat) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((name, tuple(a.shape)) for name, a, _ in flat)


def differs(flat: Flat | str, model: Flat) -> str:
    """In what an update differs from the model's structure; "" if in nothing."""
    if isinstance(flat, str):
        return flat
    mine, theirs = dict(_shape(flat)), dict(_shape(model))
    if missing := theirs.keys() - mine.keys():
        return f"no entry {min(missing)!r}" if min(missing) else "no single array"
    if extra := mine.keys() - theirs.keys():
        return f"an unknown entry {min(extra)!r}"
    for name, shape in theirs.items():
        if mine[name] != shape:
            return f"shape {mine[name]} instead of {shape}" + (f" at {name!r}" if name else "")
    return "" if _shape(flat) == _shape(model) else "entries of the same name"


def common(flats: list[Flat | str], who: str) -> Flat:
    """The structure that all updates share, or a refusal that names those that do not."""
    votes = Counter(flat if isinstance(flat, str) else _shape(flat) for flat in flats)
    wanted = max((v for v in votes if not isinstance(v, str)), key=votes.__getitem__, default=None)
    if wanted is None:
        raise BadInput(f"{who} was given {flats[0]} for update 0; send arrays, lists of arrays or dicts of arrays.")
    model = next(f for f in flats if not isinstance(f, str) and _shape(f) == wanted)
    odd = {i: why for i, flat in enumerate(flats) if (why := differs(flat, model))}
    if odd:
        first = min(odd)
        raise BadInput(
            f"{who} was given {len(flats)} updates of different structure: {plural(len(odd), 'update')} {listing(odd)} "
            f"{'differs' if len(odd) == 1 else 'differ'} from the others (update {first}: {odd[first]}); "
            "leave out what is wrong, or pass like= with an update of the right structure."
        )
    return model


def majority(given: Sequence[Any]) -> Any:
    """An update of the structure that more than half of the updates share, or None."""
    flats = [flatten(update) for update in given]
    votes = Counter(_shape(flat) for flat in flats if not isinstance(flat, str))
    shape, count = votes.most_common(1)[0] if votes else ((), 0)
    if 2 * count <= len(given):
        return None
    return next(u for u, flat in zip(given, flats, strict=True) if not isinstance(flat, str) and _shape(flat) == shape)
