"""CenterwO for updates that come one at a time and do not fit into memory together."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Never, Unpack

import numpy as np

from holdfast.arrays import Array, detached, is_array, library, namespace
from holdfast.decision import Decision, announced
from holdfast.errors import BadInput, NoWeightedForm
from holdfast.geometry import distances
from holdfast.kinds import check_rng
from holdfast.points import Points
from holdfast.reading import Reading, check_on_excess, read, typical
from holdfast.rules.base import OnePass, Rng, Tolerance, value
from holdfast.rules.clustering import radii
from holdfast.settle import note_of, settled
from holdfast.structure import Malformed, build, flatten, misfits, understood
from holdfast.updates import OnExcess, Updates

log = logging.getLogger("holdfast")
Vector = list[Array]  # one flat array for each leaf


@value
class StreamCenterwO(OnePass):
    r"""Mean of the n - f vectors nearest to a centre that the first 2f + 1 elect, in one pass.

    Parameters
    ----------
    f : int
        How many Byzantine workers the rule tolerates, at least 0.

    Notes
    -----
    .. math:: F(X) = \tfrac{1}{n-f} \sum_{x \in K(c)} x

    The first 2f + 1 vectors are held. The one whose (f+1)-th nearest (itself included) is closest becomes the centre
    c. Then all vectors pass by: the f farthest from c are held, and the others are added up. Counters are those of the
    centre.

    Guarantee: a 4-approximation of 1-center clustering with outliers (McCutchen and Khuller 2008, for one cluster).
    (f, λ)-resilient for λ = (4f - 2)/(n - f).

    Cost: O((f² + n) d) time, about 3f vectors of memory. The answer depends on the order of arrival; ties go to the
    vector that came first. A vector that is not finite is dropped. More than f of them raise `TooManyFaults`.

    References
    ----------
    .. [1] McCutchen and Khuller 2008, "Streaming Algorithms for k-Center Clustering with Outliers and with
       Anonymity", for one cluster.

    Examples
    --------
    Use `open()` to feed an accumulator by hand:

    >>> from holdfast import StreamCenterwO
    >>> stream = StreamCenterwO(f=1).open()
    >>> for x in ([0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [90.0, 1.0]):
    ...     stream.add(x)
    >>> stream.result().value
    array([1., 1.])
    """

    f: Tolerance
    formula = "mean of the n-f nearest to a centre elected by the first 2f+1; one pass"
    promise = "λ ≤ (4f-2)/(n-f)"
    time = "(f² + n) d"
    why = "among the f farthest from the elected centre"
    fails = "if many of the first 2f + 1 lie: they elect the centre, and its λ is larger than CenterwO's"
    source = "McCutchen and Khuller 2008, for one cluster"

    def open(self, like: object = None, *, on_excess: OnExcess = "refuse") -> Stream:
        """Return an accumulator with `add` and `result`.

        Parameters
        ----------
        like : update, optional
            An update of the right structure. Updates of another structure are then dropped and reported.
        on_excess : "refuse" or "lower"
            What happens if more updates are dropped than the rule tolerates: an error, or an answer without them.

        Returns
        -------
        Stream
            Call `add(update)` for each update and `result()` at the end, which returns a `Decision`.
        """
        check_on_excess(repr(self), on_excess)
        return Stream(self, like, on_excess)

    def __call__(
        self, X: object, *more: Never, rng: Rng | None = None, start: object = None, **reading: Unpack[Reading]
    ) -> Any:
        self._refuse_apart(more)
        return self.decide(X, rng=rng, start=start, **reading).value

    def decide(
        self, X: object, *, rng: Rng | None = None, start: object = None, **reading: Unpack[Reading]
    ) -> Decision:
        if start is not None or reading.get("measure") is not None:
            raise BadInput(f"{self!r} takes neither start= nor measure=; leave them out.")
        check_rng(self, rng)
        scalar = is_array(X) and not X.shape
        if isinstance(X, (str, bytes, dict)) or not isinstance(X, Iterable | Updates) or scalar:
            raise BadInput(
                f"{self!r} was given a {type(X).__name__}; pass an (n, d) array or updates one after the other."
            )
        if isinstance(X, Updates) or library(X) is not None:
            return announced(self.one_pass(read(X, repr(self), **reading)))
        if reading.get("weights") is not None:
            raise NoWeightedForm.of(self)
        stream = self.open(reading.get("like"), on_excess=reading.get("on_excess", "refuse"))
        stream.names = reading.get("names")
        for update in X:
            stream.add(update)
        return announced(stream.result())

    def one_pass(self, updates: Updates) -> Decision:
        if updates.mass(updates.sound()) is not None:
            raise NoWeightedForm.of(self)
        updates.look()
        stream = self.open(on_excess=updates.on_excess)
        stream.form, stream.n, stream.dropped = updates, updates.n, updates.dropped()
        stream.silent, stream.names = set(updates.silent), updates.names
        for at in map(int, updates.sound()):
            stream.take(at, [leaf.row(at, 0, leaf.size) for leaf in updates.leaves])
        return stream.result()


def _copied(update: object) -> object:
    """The same update in memory of its own, since its sender may use the buffer again; nonsense as it is."""
    flat = understood(update)
    if isinstance(flat, Malformed):
        return None if update is None else flat
    return build(update, (_copy(entry.given) for entry in flat))


def _copy(x: Array) -> Array:
    if library(x) == "numpy":
        return np.array(x)
    return namespace(x).asarray(detached(x), copy=True)


class Stream:
    """The updates that have come so far: the first ones, then the farthest ones and the sum of the others."""

    def __init__(self, rule: StreamCenterwO, like: object, on_excess: OnExcess) -> None:
        self.rule, self.like, self.on_excess = rule, like, on_excess
        self.form: Updates | None = None  # what updates look like
        self.names: Sequence[object] | None = None  # of the senders, for sentences
        self.n = 0
        self.dropped: dict[int, str] = {}
        self.silent: set[int] = set()
        self.early: list[object] = []  # until their majority tells what updates look like
        self.held: list[tuple[int, Vector]] = []
        self.centre: Vector | None = None
        self.far: list[tuple[float, int, Vector]] = []  # a heap, the nearest first
        self.mean: Vector = []  # of those that have passed
        self.passed = 0
        self.radius = 0.0

    def add(self, update: object) -> None:
        """Take one more; whatever cannot be read or is not finite is dropped by name."""
        if self.form is None and self.like is None:
            self.early.append(_copied(update))
            if len(self.early) == 2 * self.rule.f + 1:
                self._begin()
            return
        at, self.n = self.n, self.n + 1
        vector = self._vector(at, update)
        if vector is not None:
            self.take(at, vector)

    def take(self, at: int, vector: Vector) -> None:
        """Hold the first 2f + 1, which elect the centre; later ones pass by."""
        if self.centre is not None:
            self._pass(at, vector)
            return
        self.held.append((at, vector))
        if len(self.held) == 2 * self.rule.f + 1:
            self._elect(self.rule.f)

    def result(self) -> Decision:
        """The mean of all but the f farthest, with who they are."""
        if self.early:
            self._begin()
        looks = self.form or Updates(0, [], next, {})
        everyone = replace(looks, n=self.n, malformed=dict(self.dropped), silent=frozenset(self.silent), known=None)
        everyone.on_excess, everyone.names = self.on_excess, self.names
        rule = settled(self.rule, everyone)
        f = rule.tolerance() or 0
        if self.centre is None:
            self._elect(f)
        assert self.centre is not None
        rows, out = everyone.sound(), {at for _, at, _ in self.far}
        weights = np.zeros(self.n)
        weights[[i for i in rows if i not in out]] = 1 / (len(rows) - f)
        values = [
            c if leaf.kind == "i" else leaf.place.cast(mean, leaf.kind)
            for leaf, mean, c in zip(looks.leaves, self.mean, self.centre, strict=True)
        ]
        note = note_of(rule, self.rule, everyone)
        if note:
            log.info("%r: %s", rule, note)
        return Decision(
            rule=rule,
            asked=self.rule,
            n=self.n,
            value=looks.answer(values),
            weights=weights,
            dropped=dict(self.dropped),
            rows=rows,
            mixed=True,
            cost=self.radius,
            bound=self.radius / 4,
            note=note,
        )

    def _begin(self) -> None:
        """The structure that most of the first updates share is the right one, as if `like` had said so."""
        self.like = typical(self.early)
        if self.like is None:
            raise BadInput(
                f"{self.rule!r} was given {len(self.early)} first updates of no common structure; pass like=."
            )
        early, self.early = self.early[::-1], []
        while early:  # let go of each before the next is taken
            self.add(early.pop())

    def _vector(self, at: int, update: object) -> Vector | None:
        """The numbers of an update, in memory of our own; None if it is dropped."""
        if why := misfits([understood(update)], flatten(self.like)).get(0):
            self.dropped[at] = why
            self.silent |= {at} if update is None else set()
            return None
        given = read([update], repr(self.rule), like=self.like)
        given.look()
        if given.dropped():
            self.dropped[at] = given.dropped()[0]
            return None
        if self.form is None:
            self.form = given
        return [_copy(leaf.row(0, 0, leaf.size)) for leaf in given.leaves]

    def _elect(self, f: int) -> None:
        """The held vector whose (f+1)-th nearest is closest becomes the centre; then the held pass by."""
        assert self.form is not None
        vectors = read([list(vector) for _, vector in self.held], repr(self.rule))
        D, _, _ = distances(Points.rows(vectors, np.arange(len(self.held))))
        self.centre = self.held[int(radii(D, f + 1).argmin())][1]
        self.mean = [leaf.place.put(np.zeros(leaf.size), "f8") for leaf in self.form.leaves]
        self.keep = f
        held, self.held = self.held, []
        for at, vector in held:
            self._pass(at, vector)

    def _pass(self, at: int, vector: Vector) -> None:
        """Hold it if it is among the f farthest; whatever is not goes into the mean and never comes out again."""
        assert self.form is not None
        heapq.heappush(self.far, (self._apart(vector), at, vector))
        if len(self.far) > self.keep:
            apart, _, near = heapq.heappop(self.far)
            self.radius = max(self.radius, apart)
            self.passed += 1
            with np.errstate(over="ignore"):
                self.mean = [
                    mean + (leaf.place.cast(part, "f8") - mean) / self.passed if leaf.kind != "i" else mean
                    for leaf, mean, part in zip(self.form.leaves, self.mean, near, strict=True)
                ]

    def _apart(self, vector: Vector) -> float:
        """The distance to the centre, measured where the vectors live."""
        assert self.form is not None
        assert self.centre is not None
        with np.errstate(over="ignore", invalid="ignore"):
            trio = zip(self.form.leaves, vector, self.centre, strict=True)
            ways = [
                (leaf.place, (leaf.place.cast(part, "f8") - leaf.place.cast(c, "f8"))[None, :])
                for leaf, part, c in trio
                if leaf.measured and leaf.size
            ]
            most = max((float(place.fetch(place.largest(way))[0]) for place, way in ways), default=0.0)
            top = 1023 if all(place.float64 for place, _ in ways) else 126
            unit = float(np.ldexp(1.0, min(top, int(np.frexp(most)[1])))) if 0 < most < 8e307 else 1.0
            squares = (float(place.fetch(place.squares(way / unit))[0]) for place, way in ways)
            return float(np.sqrt(sum(squares)) * unit)
