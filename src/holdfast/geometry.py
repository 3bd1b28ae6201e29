r"""Squared distances between points: measured in blocks, certified, and repaired where rounding could lie.

`measure` multiplies blocks of columns in the input's precision, where they live, and adds them up in float64,

.. math:: D_{ij} = g_i + g_j - 2 G_{ij}, \quad G = \sum_b Y_b Y_b^\top, \quad g_i = G_{ii},

with Y the points minus a pivot. `certify` bounds the rounding: :math:`|\hat D - D| \le \gamma (a_i + a_j)^2` with
:math:`a_i` the length of point i seen from the pivot and :math:`\gamma` from the dot products' length. The first pivot
is the origin, which costs nothing and serves updates well. Pairs whose bound exceeds a hundredth (in float64 1e-8) of
their distance (a common offset, identical attackers, a cluster far out) are doubtful: `repair` groups them, and each
group is measured again around a pivot of its own, so that nobody can hide in the rounding of others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from holdfast.points import NotFinite, Points
from holdfast.sight import RANGE, Sight, sizes_of
from holdfast.updates import Distances

TRUST = {False: 1e-2, True: 1e-8}  # part of a distance up to which its certificate may go: float32, float64
VANISHED = 1e-290  # a square below has lost digits, or is near the end of the range where it does
NATIVE, DIRECT = 2, 5  # levels in the input's precision; the level at which every row is its own pivot


def distances(
    points: Points, centres: np.ndarray | None = None, *, wide: bool = False, core: int | None = None
) -> Distances:
    """Squared distances of the centres (None: all) to all points and anchors, times scale squared.

    The scale is a power of two, 1 unless the numbers are so large or small that squares would leave
    the range of floats. It is that of the `core`-th smallest row, n - f for a rule that tolerates f: every n - f rows
    hold one that is as large, and f liars cannot make it larger than all honest rows. Between finite rows D may
    be +inf where one is some 1e150 times larger than that. `wide` multiplies in float64 throughout.
    What was asked before about the same updates is not measured again, for every core that needs the same scale.

    >>> from holdfast.reading import read
    >>> D, scale, error = distances(Points.rows(read([[0.0, 0.0], [3.0, 4.0]], "me"), np.arange(2)))
    >>> D.tolist(), scale, error < 1e-11
    ([[0.0, 25.0], [25.0, 0.0]], 1.0, True)
    """
    centres = np.arange(len(points)) if centres is None else np.asarray(centres)
    core = _core(points, core)
    known = points.source.measured.setdefault((*points.key(), centres.tobytes(), wide), {})
    for cores, table in known.items():
        if core in cores:
            return table
    with np.errstate(all="ignore"):  # overflow is an answer here: such rows are looked at again
        cores, table = _measured(points, centres, core, wide=wide)
    table.D.setflags(write=False)  # others get the same table
    known[cores] = table
    return table


def remember(points: Points, centres: np.ndarray, table: Distances, *, wide: bool, core: int | None) -> None:
    """Keep distances that follow from others, as if they had been measured."""
    known = points.source.measured.setdefault((*points.key(), centres.tobytes(), wide), {})
    known[_only(_core(points, core))] = table


def _core(points: Points, core: int | None) -> int:
    return max(1, min(points.k, points.k // 2 + 1 if core is None else core))


def _only(core: int) -> range:
    """This core and no other."""
    return range(core, core + 1)


def _measured(points: Points, centres: np.ndarray, core: int, *, wide: bool) -> tuple[range, Distances]:
    """The distances, and the cores for which they are the same."""
    if len(centres) == 0:
        return _only(core), Distances(np.zeros((0, len(points))))
    sight = Sight(points, wide=wide or points.mix is not None)
    found = _filled(sight, centres, core, first=True)
    if found is not None:
        return found
    sizes = sizes_of(points)
    if not sizes.any():  # nothing was sent but zeros
        return _only(core), Distances(np.zeros((len(centres), len(points))))
    found = _filled(sight.rescaled(sizes, core), centres, core, first=False)
    assert found is not None
    return found


def _filled(sight: Sight, centres: np.ndarray, core: int, *, first: bool) -> tuple[range, Distances] | None:
    """The whole table and its cores; None if the first look shows that the core-th smallest row needs another scale."""
    n, cores = len(sight.points), _only(core)
    table = Table.empty(centres, n)
    todo = [Group(np.arange(n), None, 0, np.ones(table.D.shape, bool))]
    while todo:
        group = todo.pop()
        seen = measure(sight, group, np.flatnonzero(table.row[group.K] >= 0))
        if group.depth == 0 and first and core not in (cores := sight.cores_in_range(seen.g)):
            return None  # before anything is repaired at a scale that will not be used
        doubtful, error = certify(sight, group, seen)
        table.error = max(table.error, error)
        if group.depth == 0:  # everyone
            table.D[table.row[seen.left]] = seen.D
        else:
            at = np.ix_(table.row[group.K[seen.left]], group.K)
            table.D[at] = np.where(group.pairs, seen.D, table.D[at])
        todo += repair(sight, group, doubtful, table)
    same = _only(core) if table.lost else cores
    return same, Distances(table.D, sight.scale, table.settled_error(core))


@dataclass
class Table:
    """Distances of centres to all points while they are measured."""

    D: np.ndarray
    row: np.ndarray  # of each point in D, -1 if it is no centre
    error: float = 0.0  # the largest part of a distance by which it may be wrong
    lost: set[int] = field(default_factory=set)  # points whose differences from others left the range of floats

    def settled_error(self, core: int) -> float:
        """The error; infinite if some `core` points may differ by nothing but what was lost."""
        hidden = any((self.D[self.row[at]] < VANISHED).sum() >= core for at in self.lost)
        return np.inf if hidden else self.error

    @classmethod
    def empty(cls, centres: np.ndarray, n: int) -> Table:
        """A table in which nothing is measured yet."""
        row = np.full(n, -1)
        row[centres] = np.arange(len(centres))
        return cls(np.full((len(centres), n), np.inf), row)


class Group(NamedTuple):
    """Points that are measured together around one pivot: which pairs, and at which depth of repair."""

    K: np.ndarray
    pivot: int | None
    depth: int
    pairs: np.ndarray


class Seen(NamedTuple):
    """Distances of the left points of a group to all of it, their squared lengths, and whether float64 was used."""

    D: np.ndarray
    g: np.ndarray
    left: np.ndarray
    wide: bool


def measure(sight: Sight, group: Group, left: np.ndarray) -> Seen:
    """The distances of the group's points `left` to all of it, seen from its pivot."""
    wide = sight.wide or group.depth >= NATIVE
    G, g = sight.gram(group.K, left, group.pivot, wide=wide)
    far = np.flatnonzero(~np.isfinite(g))
    if len(far) and not wide and sight.kind == "f4" and not sight.narrow:  # float32 overflowed: those rows in float64
        both = np.isin(left, far)
        some = np.arange(len(g)) if both.any() else np.union1d(left, far)  # whose products are asked for
        H, h = sight.gram(group.K[some], np.searchsorted(some, far), group.pivot, wide=True)
        G[:, far] = H[:, np.searchsorted(some, left)].T
        if both.any():
            G[both] = H[np.isin(far, left)]
        g[far] = h[np.searchsorted(some, far)]
    if sight.points.unseen and not np.isfinite(g).all():
        raise NotFinite
    D = np.maximum(g[left, None] + g - 2 * G, 0.0)
    D[np.isnan(D)] = np.inf
    D[np.arange(len(left)), left] = 0.0
    return Seen(D, g, left, wide)


def certify(sight: Sight, group: Group, seen: Seen) -> tuple[np.ndarray, float]:
    """The pairs whose distance may be too wrong, and the part by which the others may be wrong at most."""
    D, g, left, wide = seen
    a = sight.lengths(group.K, group.pivot, g)
    bound = (a[left, None] + a) ** 2
    exact = (wide and not sight.narrow) or sight.kind == "f8"
    loose = sight.gamma(wide=wide) * bound > TRUST[exact] * D
    if sight.points.mix is None:  # rows whose squares vanished may differ; mixtures of the same weights do not
        loose |= D == 0
    if not exact and not sight.exponents_used(group.pivot):  # squares of two tiny rows have left the range of float32
        loose |= np.maximum(a[left, None], a) ** 2 < RANGE["f4"][0]
    out_of_sight = np.isinf(D) & np.isinf(g[left, None]) & np.isinf(g)  # two such rows may still be close
    doubtful = group.pairs & np.where(np.isinf(D), out_of_sight, loose)
    doubtful[np.arange(len(left)), left] = False
    sure = group.pairs & ~doubtful & (D > 0) & np.isfinite(D)
    return doubtful, _part(sight.gamma(wide=wide) * bound, D, sure)


def _part(doubt: np.ndarray, D: np.ndarray, sure: np.ndarray) -> float:
    """The largest part of these distances by which one may be wrong."""
    return float(np.divide(doubt, D, out=np.zeros_like(D), where=sure).max(initial=0.0))


def repair(sight: Sight, group: Group, doubtful: np.ndarray, table: Table) -> list[Group]:
    """The groups that are measured again, each around a pivot of its own; copies and last resorts are settled here."""
    again, left = [], np.flatnonzero(table.row[group.K] >= 0)
    for part, pick in components(doubtful, left, len(group.K)):
        rows, K, pivot = np.isin(left, part), group.K[part], int(group.K[pick])
        if sight.points.copies(pivot, K[pivot != K]):  # attackers like to send copies
            table.D[np.ix_(table.row[group.K[left[rows]]], K)] = 0.0
        elif group.depth + 1 < (NATIVE if sight.narrow else DIRECT):
            again.append(Group(K, pivot, group.depth + 1, doubtful[rows][:, part]))
        else:  # nothing shared is left to subtract: each row is its own pivot
            for i in np.flatnonzero(rows):
                near, own = group.K[np.flatnonzero(doubtful[i])], int(group.K[left[i]])
                _, g = sight.gram(near, near[:0], own, wide=True)
                bound = sight.gamma(wide=True) * sight.lengths(near, own, g) ** 2
                table.D[table.row[own], near] = g
                table.error = max(table.error, _part(bound, g, (g > 0) & np.isfinite(g)))
                table.lost |= {own} if _lost(sight, own, near, g) else set()
    return again


def _lost(sight: Sight, own: int, near: np.ndarray, g: np.ndarray) -> bool:
    """Whether squares of differences vanished, or lost digits, though the rows differ."""
    tiny = near[(g < VANISHED) & (near != own)]
    plain = sight.points.mix is None and None not in sight.points.anchors
    return bool(len(tiny) and plain and not sight.points.copies(own, tiny))


def components(doubtful: np.ndarray, left: np.ndarray, n: int) -> Iterator[tuple[np.ndarray, int]]:
    """The connected groups of points that doubtful pairs join, each with its point of most such pairs."""
    if not doubtful.any():
        return
    joined = np.zeros((n, n), bool)
    joined[left] = doubtful
    joined |= joined.T
    degree = joined.sum(axis=1)
    open_ = degree > 0
    while open_.any():
        group = np.zeros(n, bool)
        edge = np.flatnonzero(open_)[:1]
        while len(edge):
            group[edge] = True
            edge = np.flatnonzero(joined[edge].any(axis=0) & ~group)
        open_ &= ~group
        yield np.flatnonzero(group), int(np.argmax(np.where(group, degree, -1)))
