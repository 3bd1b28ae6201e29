"""Reading what workers send: the structure that most share, who does not fit, which array the answer looks like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypedDict, Unpack, get_args

import numpy as np

from holdfast.arrays import Array, device, is_array, kind, library, viewed
from holdfast.errors import BadInput, article, closest, listing
from holdfast.leaves import Places, leaf
from holdfast.masses import read_masses
from holdfast.places import fetch
from holdfast.structure import (
    Entry,
    Flat,
    Malformed,
    build,
    common,
    flatten,
    majority,
    misfits,
    mismatch,
    shape_of,
    understood,
)
from holdfast.updates import OnExcess, Shards, Updates

Measure = Callable[[str], bool]
"""Tells by name which entries count in distances."""


class Reading(TypedDict, total=False):
    """How updates are read: their structure, what is measured, what happens when many are dropped, who sent them."""

    like: object
    measure: Measure | None
    on_excess: OnExcess
    names: Sequence[object] | None
    weights: object


HINTS = {
    "axis": "rows are workers and the first axis counts them, so transpose the array if columns are workers.",
    "device": "the answer is computed on the device where the updates are, so move them there.",
    "dim": "rows are workers and the first axis counts them, so transpose the array if columns are workers.",
    "dtype": "the answer has the dtype of the updates, so convert those.",
    "f": "f belongs to the rule, as in MeanwO(f=3).",
    "n": "n is the number of updates.",
    "seed": "pass rng=numpy.random.default_rng(seed) to a rule that draws.",
}
"""What to do instead of an argument that no rule takes."""


def read(X: object, who: str, **reading: Unpack[Reading]) -> Updates:
    """Read what the workers sent; nothing is copied, and nothing is looked at but structure and dtype.

    Parameters
    ----------
    X : array of shape (n, ...), sequence of n updates, or Updates
        An `Updates` that was read before is returned as it is; the other arguments are then ignored.
    who : name of the caller, for the sentences of errors
    like : an update of the right structure, such as the server's own model
        Updates of another structure are then malformed, and dropped. Without it the call raises, since nobody can know
        which structure is meant.
    measure : function that says by name which entries count in distances; usually all do
    on_excess : "refuse" (the default) or "lower"
        What happens if more updates are dropped than the rule tolerates.
    names : the workers' names in order, for the sentences of errors; usually their row numbers
    weights : one number for each worker, at least 0, that says how much the worker counts; usually all count alike
        A worker of weight 0 is treated as if it were absent.

    Raises
    ------
    BadInput
        If X holds no updates, or updates of different structure without `like`.
    """
    if strange := sorted(reading.keys() - Reading.__annotations__.keys()):
        close = closest(strange[0], [*Reading.__annotations__, "rng", "start"])
        advice = f"did you mean {close}=?" if close else "leave it out."
        raise BadInput(f"{who} was given {strange[0]}=; {HINTS.get(strange[0], advice)}")
    like, measure, on_excess = reading.get("like"), reading.get("measure"), reading.get("on_excess", "refuse")
    check_on_excess(who, on_excess)
    if isinstance(X, Updates):
        if like is not None or measure is not None:
            raise BadInput(f"{who} was given updates that were read before; pass like and measure to read().")
        if reading.get("on_excess", X.on_excess) != X.on_excess:
            X = replace(X, on_excess=on_excess)
        return X if reading.get("weights") is None else X.weighted(read_masses(reading["weights"], X.n, who))
    weights = reading.get("weights")
    if measure is not None and not callable(measure):
        raise BadInput(f"{who} was given measure = {measure!r}; it is a function of a name, as lambda name: True.")
    updates = _from_matrix(X, who, like, measure) if is_array(X) else _from_rows(X, who, reading)
    updates.on_excess, updates.names = on_excess, reading.get("names")
    if updates.names is not None and len(updates.names) != updates.n:
        raise BadInput(f"{who} was given {len(updates.names)} names for {updates.n} updates; give one name each.")
    if weights is not None:
        updates = updates.weighted(read_masses(weights, updates.n, who))
    if sum(part.size for part in updates.leaves) == 0:
        raise BadInput(f"{who} was given empty updates; send at least one number a worker.")
    if not updates.distant:
        raise BadInput(f"{who} was told to measure none of {listing(part.name for part in updates.leaves)}.")
    return updates


def check_on_excess(who: str, given: object) -> None:
    """Refuse what is not a value of OnExcess."""
    if given not in get_args(OnExcess):
        raise BadInput(f"{who} was given on_excess = {given!r}; it is 'refuse' or 'lower'.")


def _from_rows(X: object, who: str, reading: Reading) -> Updates:
    like, measure, weights = reading.get("like"), reading.get("measure"), reading.get("weights")
    if isinstance(X, (str, bytes, Mapping)) or not isinstance(X, Iterable):
        raise BadInput(f"{who} was given {article(type(X).__name__)}; pass an (n, d) array or a list of n updates.")
    given = list(X)
    if not given:
        raise BadInput(f"{who} was given n = 0 vectors; gather at least one.")
    counted = None if weights is None else read_masses(weights, len(given), who).weights > 0
    absent = {} if counted is None else {i: "absent" for i in range(len(given)) if not counted[i]}
    flats = [Malformed("absent") if i in absent else understood(update) for i, update in enumerate(given)]
    first = next(flat for i, flat in enumerate(flats) if i not in absent)
    there = [first if i in absent else flat for i, flat in enumerate(flats)]  # an absent worker has no say
    model = common(there, who, reading.get("names")) if like is None else _model(like, who)
    malformed = misfits(flats, model) | absent
    if len(malformed) == len(given):
        raise BadInput(f"{who} was given {len(given)} updates, none of the structure of `like`: {malformed[0]}.")
    sound = [flat for i, flat in enumerate(flats) if i not in malformed and not isinstance(flat, Malformed)]
    usual = [entry if like is not None else _usual([flat[at] for flat in sound]) for at, entry in enumerate(model)]
    counts = all(kind(entry.numbers) == "i" for entry in usual)
    leaves, places = [], Places()
    for at, entry in enumerate(model):
        rows = ((None if isinstance(f, Malformed) or i in malformed else f[at].numbers) for i, f in enumerate(flats))
        column = [entry.numbers if row is None else row for row in rows]
        leaves.append(leaf(column, usual[at], places, counts=counts, measured=_counts(measure, entry.name)))
    template = next(update for i, update in enumerate(given) if i not in absent) if like is None else like
    silent = frozenset(i for i, update in enumerate(given) if update is None)
    return Updates(len(given), leaves, lambda parts: build(template, parts), malformed, silent)


def _model(like: object, who: str) -> Flat:
    try:
        return flatten(like)
    except Malformed as why:
        raise BadInput(f"{who} was given a `like` that is no update: {why}.") from None


def _counts(measure: Measure | None, name: str) -> bool:
    return measure is None or bool(measure(name))


def _usual(column: Sequence[Entry]) -> Entry:
    """The first array of the commonest library, device and dtype, which no minority can choose; of two, the wider."""
    looks = [(library(e.given), str(device(e.numbers)), str(e.numbers.dtype)) for e in column]
    votes = Counter(looks)
    width = {look: ("i", "f4", "f8").index(kind(e.numbers) or "i") for look, e in zip(looks, column, strict=True)}
    best = max(votes, key=lambda look: (votes[look], width[look]))
    return column[looks.index(best)]


def typical(given: Sequence[object]) -> object:
    """An update of the structure that most of them share, each array of the commonest looks; None if none is shared."""
    template = majority(given)
    if template is None:
        return None
    shape = shape_of(flatten(template))
    sound = [
        flat for update in given if not isinstance(flat := understood(update), Malformed) and shape_of(flat) == shape
    ]
    looks = (_usual([flat[at] for flat in sound]).given for at in range(len(shape)))
    return build(template, looks)


def _from_matrix(X: Array, who: str, like: object, measure: Measure | None) -> Updates:
    try:
        data = viewed(X)
        known = kind(data)
    except BadInput as why:
        raise BadInput(f"{who}: {why}") from None
    except Exception as error:
        raise BadInput(f"{who} was given {article(type(X).__name__)} that cannot be read: {error}.") from error
    shape = tuple(data.shape)
    if known is None:
        raise BadInput(f"{who} was given an array of {data.dtype}; send real numbers.")
    if len(shape) < 2:
        raise BadInput(f"{who} was given an array of shape {shape}; pass one row a worker, shape (n, d).")
    if shape[0] == 0:
        raise BadInput(f"{who} was given n = 0 vectors; gather at least one.")
    if like is not None and mismatch(shape_of(_model(like, who)), (("", shape[1:]),)):
        raise BadInput(f"{who} was given rows of shape {shape[1:]}, but `like` has another structure.")
    entry = Entry("", data, X)
    part = leaf(data, entry, Places(), counts=True, measured=_counts(measure, ""))
    return Updates(shape[0], [part], next, {})


def numbers_of(update: object, who: str, measure: Measure | None = None) -> np.ndarray:
    """The measured numbers of an update in a row, in float64 on the host; counters are left out."""
    leaves = [leaf for leaf in read([update], who, measure=measure).floats if leaf.measured]
    parts = [fetch(leaf.row(0, 0, leaf.size)).astype(float) for leaf in leaves]
    return np.concatenate(parts) if parts else np.zeros(0)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Euclidean, without overflow on the way.

    >>> distance(np.array([3e300, 0.0]), np.array([0.0, 4e300]))
    5e+300
    """
    half = a / 2 - b / 2
    most = float(np.abs(half).max(initial=0.0)) or 1.0
    return 2 * most * float(np.linalg.norm(half / most))


def spread(
    columns: Mapping[str, Array], sizes: Mapping[str, int], shards: Shards, processes: int, *, measure: Measure
) -> Updates:
    """Updates of which every process has some columns: of each entry (n, m) numbers, m of its own, 0 or more."""
    entries = [Entry(name, viewed(data), data) for name, data in sorted(columns.items())]
    counts = all(kind(entry.numbers) == "i" for entry in entries)
    places = Places()
    leaves = [leaf(entry.numbers, entry, places, counts=counts, measured=measure(entry.name)) for entry in entries]
    for part in leaves:
        part.whole = sizes[part.name]
    names = [entry.name for entry in entries]
    n = entries[0].numbers.shape[0]
    return Updates(
        n, leaves, lambda parts: dict(zip(names, parts, strict=True)), {}, shards=shards, processes=processes
    )
