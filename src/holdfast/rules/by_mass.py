"""Rules on single coordinates for workers that count differently: every column is sorted together with the masses."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np

from holdfast.arrays import Array, device, library, namespace
from holdfast.errors import BrokenRule
from holdfast.host import spans
from holdfast.masses import SMALL, heaviest, rounded_masses
from holdfast.rules.base import CoordinateRule

FREE = np.uint64(2**29 - 1)  # bits of a float64 that a float32 leaves zero
CHUNK = 2000  # columns that are sorted at once; rows of a power of two would share their place in the cache


def share_of(xp: ModuleType, used: Array) -> Array:
    """(b, n) flags -> (n,): the share of columns in which each row was used."""
    return xp.sum(xp.astype(used, xp.float32), axis=0) / used.shape[0]


def middle_values(values: Array, ordered: Array, total: int, *, lower: bool = False) -> Array:
    """(n, b) masses in order -> (n, b): 1 where the median is, 1/2 on both values that it is the mean of."""
    xp, upto = namespace(ordered), added_up(ordered)
    before = upto - ordered
    first = (upto * 2 >= total) & (before * 2 < total)  # the first value with half of the mass up to it
    if lower:
        return xp.astype(first, values.dtype)
    last = (upto * 2 > total) & (before * 2 <= total)
    return (xp.astype(first, values.dtype) + xp.astype(last, values.dtype)) / 2


class WeightedColumns(CoordinateRule):
    """A rule that sorts each column and then knows how much of each value to take, by the masses in that order."""

    def taken(self, values: Array, ordered: Array, mass: np.ndarray) -> Array:
        """(n, b) values in order and their masses -> (n, b): how much of each value counts, summing to one."""
        raise BrokenRule(f"{type(self).__name__} does not say what it takes.")

    def columns_by_mass(self, block: Array, mass: np.ndarray) -> Array:
        mass, columns = fitting(block, mass), block.shape[1]
        if isinstance(block, np.ndarray) and columns > CHUNK:  # what one piece leaves in the cache serves the next
            return np.concatenate([self._means(block[:, s:e], mass) for s, e in spans(columns, CHUNK)])
        return self._means(block, mass)

    def _means(self, block: Array, mass: np.ndarray) -> Array:
        values, ordered = ranked_with_mass(block, mass)
        taken = self.taken(values, ordered, mass)
        if isinstance(values, np.ndarray):
            return np.asarray(np.einsum("ij,ij->j", values, np.asarray(taken)))
        return namespace(values).sum(values * taken, axis=0)

    def used_by_mass(self, block: Array, mass: np.ndarray) -> Array:
        xp, mass = namespace(block), fitting(block, mass)
        order, values, ordered = in_order(block, mass)
        back = xp.take_along_axis(self.taken(values, ordered, mass), xp.argsort(order, axis=0), axis=0)
        return share_of(xp, xp.permute_dims(back > 0, (1, 0)))


def packed(block: Array) -> bool:
    """Whether a value and its mass are sorted as one number: a float32 leaves 29 bits of a float64 free."""
    return isinstance(block, np.ndarray) and block.dtype == np.float32


def fitting(block: Array, mass: np.ndarray) -> np.ndarray:
    """The masses, rounded where they are packed with values and where JAX adds up 32 bits at most."""
    short = packed(block) or (library(block) == "jax" and not sys.modules["jax"].config.jax_enable_x64)
    return rounded_masses(mass, SMALL / 2) if short and mass.sum() >= SMALL else mass


def in_order(block: Array, mass: np.ndarray) -> tuple[Array, Array, Array]:
    """(n, b) -> three (n, b): the rows in the order of each column, their values, and their masses."""
    xp = namespace(block)
    wide = xp.int64 if mass.sum() >= SMALL else xp.int32
    there = xp.asarray(mass.astype(np.int64).tolist(), dtype=wide, device=device(block))
    order = xp.argsort(block, axis=0, stable=True)
    ordered = xp.reshape(xp.take(there, xp.reshape(order, (-1,)), axis=0), block.shape)
    return order, xp.take_along_axis(block, order, axis=0), ordered


def packed_in_order(block: Array, masses: np.ndarray, out: np.ndarray) -> np.ndarray:
    """(n, b) float32 -> (b, n) bits of float64 in `out`: every column in order, with masses (b, n) in the free bits."""
    out.T[...] = np.asarray(block)
    bits = out.view(np.uint64)
    bits |= masses
    out.sort(axis=1)  # along memory, which is fast
    return bits


def ranked_with_mass(block: Array, mass: np.ndarray) -> tuple[Array, Array]:
    """(n, b) -> two (n, b): every column's values in order, and the masses in that order."""
    if not packed(block):
        return in_order(block, mass)[1:]
    bits = packed_in_order(block, mass.astype(np.uint64), np.empty(block.shape[::-1]))
    return (bits & ~FREE).view(np.float64).T, (bits & FREE).view(np.int64).T


def packed_trimmed_mean(block: Array, mass: np.ndarray, f: int) -> np.ndarray:
    """(n, b) float32 -> (b,): each column's mean without the lowest and highest values that weigh as the f heaviest."""
    n, columns = block.shape
    total, trimmed = int(mass.sum()), int(heaviest(mass, f))
    middle = slice(f, n - f)  # the others never count: no f values weigh more than the f heaviest
    width = min(columns, CHUNK)
    room, masses = np.empty((width, n)), np.tile(mass.astype(np.uint64), (width, 1))  # once: fresh memory is slow
    values, sums = np.empty((2, n - 2 * f, columns), np.uint64)
    for s, e in spans(columns, CHUNK):
        bits = packed_in_order(block[:, s:e], masses[: e - s], room[: e - s])
        np.bitwise_and(bits[:, middle], ~FREE, out=values[:, s:e].T)
        bits[:, -1] -= np.uint64(total)  # the masses of every column then sum to zero, so one sum runs over all
        np.cumsum(bits.reshape(-1), out=bits.reshape(-1))
        np.bitwise_and(bits[:, middle], FREE, out=sums[:, s:e].T)
    upto = sums.view(np.int64)
    upto[-1] = total  # or more than is kept; the last of all is where the running sum has gone back to zero
    np.clip(upto, trimmed, total - trimmed, out=upto)
    taken = np.empty(values.shape)
    np.subtract(upto[0], trimmed, out=taken[0])
    np.subtract(upto[1:], upto[:-1], out=taken[1:])
    return np.asarray(np.einsum("ij,ij->j", taken, values.view(np.float64))) / (total - 2 * trimmed)


def added_up(ordered: Array) -> Array:
    """(n, b) masses, of one sum in all columns -> (n, b): the sums of each column up to each row."""
    if not isinstance(ordered, np.ndarray):
        xp = namespace(ordered)
        return xp.cumulative_sum(ordered, axis=0, dtype=ordered.dtype)
    if ordered.T.flags.c_contiguous:  # one sum over all columns, less what the columns before have
        upto = np.cumsum(ordered.T).reshape(ordered.T.shape)
        upto -= upto[0, -1] * np.arange(len(upto))[:, None]
        return np.asarray(upto.T)
    upto = ordered.copy()
    for i in range(1, len(upto)):  # whole rows at a time: numpy's own cumsum goes column by column
        upto[i] += upto[i - 1]
    return upto
