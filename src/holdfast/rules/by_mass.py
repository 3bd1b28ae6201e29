"""Rules on single coordinates for workers that count differently: every column is sorted together with the masses."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import numpy as np

from holdfast.arrays import Array, device, library, namespace
from holdfast.errors import BrokenRule
from holdfast.host import spans
from holdfast.masses import SMALL, heaviest, rounded_masses
from holdfast.rules.base import CoordinateRule

FREE = np.uint64(2**29 - 1)  # bits of a float64 that a float32 leaves zero
ODD = 24  # numbers between rows: rows whose distance is a power of two share their place in the cache
CHUNK = 2000  # columns that are ordered at once, where no room is kept


def share_of(xp: ModuleType, used: Array) -> Array:
    """(b, n) flags -> (n,): the share of columns in which each row was used."""
    return xp.sum(xp.astype(used, xp.float32), axis=0) / used.shape[0]


def masses_of(below: Array, total: float) -> Array:
    """(k, b) masses below each value -> (k, b): the masses of the values; `total` is what lies up to the last one."""
    xp = namespace(below)
    return xp.concat([below[1:, :], xp.full_like(below[:1, :], total)], axis=0) - below


def middle_values(values: Array, below: Array, total: int, *, lower: bool = False) -> Array:
    """(k, b) values, masses below -> (k, b): 1 where the median is, 1/2 on both values that it is the mean of."""
    half = total // 2
    first = last_of(below < total - half, values)  # the first value with half of the mass up to it
    if lower or total % 2:  # of an odd sum there is no exact half
        return first
    return (first + last_of(below <= half, values)) / 2


def last_of(flags: Array, values: Array) -> Array:
    """(k, b) flags, true and then false in each column -> (k, b) numbers: 1 at the last true one."""
    xp = namespace(flags)
    after = xp.concat([flags[1:, :], xp.zeros_like(flags[:1, :])], axis=0)
    return xp.astype(flags ^ after, values.dtype)


class WeightedColumns(CoordinateRule):
    """A rule that sorts each column and then knows how much of each value to take, by the masses in that order."""

    def taken(self, values: Array, below: Array, mass: np.ndarray) -> Array:
        """(k, b) values in order, and the masses below each -> (k, b): how much of each counts, summing to one."""
        raise BrokenRule(f"{type(self).__name__} does not say what it takes.")

    def outside(self, mass: np.ndarray) -> int:
        """How many of the lowest values never count, whatever the column, and as many of the highest."""
        return 0

    def columns_by_mass(self, block: Array, mass: np.ndarray) -> Array:
        mass, columns = fitting(block, mass), block.shape[1]
        if packed(block):
            with room() as mine:
                return self._mean(*middle_in_order(mine, np.asarray(block), mass, self.outside(mass)), mass)
        if isinstance(block, np.ndarray) and columns > CHUNK:  # what one piece leaves in the cache serves the next
            return np.concatenate([self.columns_by_mass(block[:, s:e], mass) for s, e in spans(columns, CHUNK)])
        return self._mean(*in_order(block, mass)[1:], mass)

    def _mean(self, values: Array, sums: Array, mass: np.ndarray) -> Array:
        taken = self.taken(values, sums, mass)
        if isinstance(values, np.ndarray):
            return np.asarray(np.einsum("ij,ij->j", values, np.asarray(taken)))
        return namespace(values).sum(values * taken, axis=0)

    def used_by_mass(self, block: Array, mass: np.ndarray) -> Array:
        xp, mass = namespace(block), fitting(block, mass)
        order, values, below = in_order(block, mass)
        back = xp.take_along_axis(self.taken(values, below, mass), xp.argsort(order, axis=0), axis=0)
        return share_of(xp, xp.permute_dims(back > 0, (1, 0)))


def packed(block: Array) -> bool:
    """Whether a value and its mass are sorted as one number: a float32 leaves 29 bits of a float64 free."""
    return isinstance(block, np.ndarray) and block.dtype == np.float32


def fitting(block: Array, mass: np.ndarray) -> np.ndarray:
    """The masses, rounded where they are packed with values and where JAX adds up 32 bits at most."""
    short = packed(block) or (library(block) == "jax" and not sys.modules["jax"].config.jax_enable_x64)
    return rounded_masses(mass, SMALL / 2) if short and mass.sum() >= SMALL else mass


def in_order(block: Array, mass: np.ndarray) -> tuple[Array, Array, Array]:
    """(n, b) -> three (n, b): the rows in the order of each column, their values, and the masses below each."""
    xp = namespace(block)
    wide = xp.int64 if mass.sum() >= SMALL else xp.int32
    there = xp.asarray(mass.astype(np.int64).tolist(), dtype=wide, device=device(block))
    order = xp.argsort(block, axis=0, stable=True)
    ordered = xp.reshape(xp.take(there, xp.reshape(order, (-1,)), axis=0), block.shape)
    return order, xp.take_along_axis(block, order, axis=0), added_up(ordered) - ordered


def added_up(ordered: Array) -> Array:
    """(n, b) masses -> (n, b): the sums of each column up to each row."""
    if not isinstance(ordered, np.ndarray):
        xp = namespace(ordered)
        return xp.cumulative_sum(ordered, axis=0, dtype=ordered.dtype)
    upto = ordered.copy()
    for i in range(1, len(upto)):  # whole rows at a time: numpy's own cumsum goes column by column
        upto[i] += upto[i - 1]
    return upto


class Room:
    """Memory that is used again for the next block: fresh memory takes longer than sorting in it."""

    def __init__(self) -> None:
        self.kept: dict[str, np.ndarray] = {}

    def array(self, name: str, shape: tuple[int, int], dtype: type[np.generic]) -> np.ndarray:
        """An array with anything in it, which holds until this room is asked for that name again."""
        size = math.prod(shape)
        if name not in self.kept or self.kept[name].size < size:
            self.kept[name] = np.empty(size, dtype)
        return self.kept[name][:size].reshape(shape)


FREE_ROOMS: list[Room] = []  # as many as threads ever needed one at once


@contextmanager
def room() -> Iterator[Room]:
    """A room that no other thread has meanwhile; threads come and go with every call, rooms stay."""
    try:
        mine = FREE_ROOMS.pop()
    except IndexError:
        mine = Room()
    try:
        yield mine
    finally:
        FREE_ROOMS.append(mine)


def middle_in_order(room: Room, block: np.ndarray, mass: np.ndarray, outside: int) -> tuple[np.ndarray, np.ndarray]:
    """(n, b) float32 -> (k, b), (k, b): the k = n - 2 outside middle values, and the masses that lie below each.

    Both are in the room's memory.
    """
    n, columns = block.shape
    k = n - 2 * outside
    rows, pairs = room.array("rows", (n, columns + ODD), np.float64), room.array("pairs", (columns, n), np.float64)
    rows = rows[:, :columns]
    rows[...] = block
    rows.view(np.uint64)[...] |= mass.astype(np.uint64)[:, None]
    pairs.T[...] = rows
    pairs.sort(axis=1)  # along memory, which is fast
    bits = pairs.view(np.uint64)
    values, below = room.array("values", (k, columns), np.uint64), room.array("below", (k, columns), np.uint64)
    values.T[...] = bits[:, outside : n - outside]
    np.bitwise_and(np.einsum("ij->i", bits[:, :outside]), FREE, out=below[0])  # carries only go up, out of the masses
    np.bitwise_and(values[:-1], FREE, out=below[1:])
    np.bitwise_and(values, ~FREE, out=values)
    for i in range(1, k):
        np.add(below[i - 1], below[i], out=below[i])
    return values.view(np.float64), below.view(np.int64)


def packed_trimmed_mean(block: np.ndarray, mass: np.ndarray, f: int) -> np.ndarray:
    """(n, b) float32 -> (b,): each column's mean without the lowest and highest values that weigh as the f heaviest."""
    total, trimmed = int(mass.sum()), int(heaviest(mass, f))
    with room() as mine:
        values, below = middle_in_order(mine, block, mass, f)  # no f values weigh more than the f heaviest
        np.clip(below, trimmed, total - trimmed, out=below)
        taken = mine.array("taken", values.shape, np.float64)
        np.subtract(below[1:], below[:-1], out=taken[:-1])
        np.subtract(total - trimmed, below[-1], out=taken[-1])
        return np.asarray(np.einsum("ij,ij->j", taken, values)) / (total - 2 * trimmed)
