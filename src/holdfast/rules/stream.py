"""CenterwO for updates that come one at a time and do not fit into memory together."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any

import numpy as np

from holdfast.errors import BadInput
from holdfast.geometry import distances
from holdfast.libraries import library
from holdfast.points import Points
from holdfast.rules.base import Rng, Stage, value
from holdfast.rules.clustering import radii
from holdfast.rules.decision import Decision
from holdfast.rules.driver import settled, told
from holdfast.structure import build, flatten, majority
from holdfast.updates import Measured, Updates, read

Vector = list[np.ndarray]  # one flat array a leaf


@value
class StreamCenterwO(Stage):
    r"""Mean of the n - f vectors nearest to a centre that the first 2f + 1 elect; one pass, about 3f vectors of memory.

    The first 2f + 1 vectors are held; of them, the one whose (f+1)-th nearest (itself included) is closest is the
    centre c. Then all pass by: the f farthest from c are held, whatever else has passed is added up.

    .. math:: F(X) = \tfrac{1}{n-f} \sum_{x \in K(c)} x

    A 4-approximation of 1-center clustering with outliers (McCutchen and Khuller 2008, for one cluster),
    (f, λ)-resilient for λ = (4f - 2)/(n - f). O((f² + n) d) time, about 3f vectors of memory. Depends on the order of
    arrival; ties go to who came first. Counters are those of the centre. `open()` gives an accumulator to feed by hand:

    >>> stream = StreamCenterwO(f=1).open()
    >>> for x in ([0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [90.0, 1.0]):
    ...     stream.add(x)
    >>> stream.result().value
    array([1., 1.])
    """

    f: int
    chains = False
    formula = "mean of the n-f nearest to a centre elected by the first 2f+1; one pass"
    promise = "λ ≤ (4f-2)/(n-f)"
    time = "(f² + n) d"
    why = "among the f farthest from the elected centre"
    fails = "if many of the first 2f + 1 lie: they elect the centre, and its λ is larger than CenterwO's"
    source = "McCutchen and Khuller 2008, for one cluster"

    def open(self, like: Any = None) -> Stream:
        """An accumulator with `add` and `result`."""
        return Stream(self, like)

    def __call__(
        self,
        X: Iterable[Any],
        *,
        rng: Rng | None = None,
        start: Any = None,
        like: Any = None,
        measure: Measured | None = None,
    ) -> Any:
        return self.decide(X, rng=rng, start=start, like=like, measure=measure).value

    def decide(
        self,
        X: Iterable[Any],
        *,
        rng: Rng | None = None,
        start: Any = None,
        like: Any = None,
        measure: Measured | None = None,
    ) -> Decision:
        if start is not None or measure is not None:
            raise BadInput(f"{self!r} takes neither start= nor measure=; leave them out.")
        if isinstance(X, (str, bytes, dict)) or not hasattr(X, "__iter__") or np.ndim(getattr(X, "shape", (0, 0))) == 0:
            raise BadInput(
                f"{self!r} was given a {type(X).__name__}; pass an (n, d) array or updates one after the other."
            )
        stream = self.open(like)
        for update in X:
            stream.add(update)
        return stream.result()


def _copied(update: Any) -> Any:
    """The same update in memory of its own, since its sender may use the buffer again; nonsense as it is."""
    flat = flatten(update)
    if isinstance(flat, str):
        return None if update is None else flat
    copies = {"torch": lambda x: x.detach().clone(), "jax": lambda x: x}
    own = (copies.get(library(x), np.array)(x) for _, _, x in flat)
    return build(update, own)


class Stream:
    """The updates that have come so far: the first ones, then the farthest ones and the sum of the others."""

    def __init__(self, rule: StreamCenterwO, like: Any) -> None:
        self.rule, self.like = rule, like
        self.form: Updates | None = None  # what updates look like
        self.n = 0
        self.dropped: dict[int, str] = {}
        self.early: list[Any] = []  # until their majority tells what updates look like
        self.held: list[tuple[int, Vector]] = []
        self.centre: Vector | None = None
        self.far: list[tuple[float, int, Vector]] = []  # a heap, the nearest first
        self.mean: Vector = []  # of those that have passed
        self.passed = 0
        self.radius = 0.0

    def add(self, update: Any) -> None:
        """Take one more; whatever cannot be read or is not finite is dropped by name."""
        if self.form is None and self.like is None:
            self.early.append(_copied(update))
            if len(self.early) == 2 * self.rule.f + 1:
                self._begin()
            return
        at, self.n = self.n, self.n + 1
        vector = self._vector(at, update)
        if vector is None:
            return
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
        sound = self.n - len(self.dropped)
        rule = self.rule if self.centre is not None else settled(self.rule, sound, self.dropped)
        if self.centre is None:
            self._elect(rule.f)
        assert self.form is not None  # something sound was there
        assert self.centre is not None
        out = {at for _, at, _ in self.far}
        rows = np.array([i for i in range(self.n) if i not in self.dropped])
        weights = np.zeros(self.n)
        weights[[i for i in rows if i not in out]] = 1 / (sound - rule.f)
        values = [
            c if leaf.kind == "i" else mean.astype(leaf.computed)
            for leaf, mean, c in zip(self.form.leaves, self.mean, self.centre, strict=True)
        ]
        note = told(rule, self.rule, self.dropped, rows)
        return Decision(
            rule=rule,
            asked=self.rule,
            n=self.n,
            value=self.form.answer(values),
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
        self.like = majority(self.early)
        if self.like is None:
            raise BadInput(
                f"{self.rule!r} was given {len(self.early)} first updates of no common structure; pass like=."
            )
        early, self.early = self.early[::-1], []
        while early:  # let go of each before the next is taken
            self.add(early.pop())

    def _vector(self, at: int, update: Any) -> Vector | None:
        try:
            given = read([update], repr(self.rule), self.like)
        except BadInput as error:
            self.dropped[at] = str(error).partition("`like`: ")[2].rstrip(".") or str(error)
            return None
        if not given.finite().all():
            self.dropped[at] = "not finite"
            return None
        if self.form is None:
            self.form = given
        return [leaf.block(np.array([0]), 0, leaf.size).reshape(-1).copy() for leaf in given.leaves]

    def _elect(self, f: int) -> None:
        """The held vector whose (f+1)-th nearest is closest becomes the centre; then the held pass by."""
        vectors = read([list(vector) for _, vector in self.held], repr(self.rule))
        D, _, _ = distances(Points.rows(vectors, np.arange(len(self.held))))
        self.centre = self.held[int(radii(D, f + 1).argmin())][1]
        self.mean = [np.zeros(part.size, np.float64) for part in self.centre]
        self.keep = f
        held, self.held = self.held, []
        for at, vector in held:
            self._pass(at, vector)

    def _pass(self, at: int, vector: Vector) -> None:
        """Hold it if it is among the f farthest; whatever is not goes into the mean and never comes out again."""
        heapq.heappush(self.far, (self._apart(vector), at, vector))
        if len(self.far) > self.keep:
            apart, _, near = heapq.heappop(self.far)
            self.radius = max(self.radius, apart)
            self.passed += 1
            with np.errstate(over="ignore"):
                for mean, part in zip(self.mean, near, strict=True):
                    mean += (part - mean) / self.passed

    def _apart(self, vector: Vector) -> float:
        assert self.form is not None
        assert self.centre is not None
        with np.errstate(over="ignore", invalid="ignore"):
            ways = [
                part.astype(np.float64) - c
                for leaf, part, c in zip(self.form.leaves, vector, self.centre, strict=True)
                if leaf.measured
            ]
            most = max(float(np.abs(way).max(initial=0.0)) for way in ways)
            unit = float(np.ldexp(1.0, int(np.frexp(most)[1]))) if 0 < most < 8e307 else 1.0
            return float(np.sqrt(sum(float((way / unit) @ (way / unit)) for way in ways)) * unit)
