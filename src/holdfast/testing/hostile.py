"""The hostile rounds: f rows that make other libraries answer NaN, or follow the attacker, or raise."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.testing.laws import LawBroken
from holdfast.testing.rounds import Mask, place_liars

Array = np.ndarray
Rng = np.random.Generator
Liars = Callable[[Array, int, Rng], Array]
NEAR = 3.0  # honest radii that an answer may be away from the honest mean, if no constant says more
COORDINATES = 64


def _filled(value: float, where: Any = slice(None)) -> Liars:
    """Rows like the honest ones, with one value in some coordinates."""

    def make(H: Array, f: int, rng: Rng) -> Array:
        rows = H.mean(axis=0) + 0.1 * rng.standard_normal((f, H.shape[1])).astype(H.dtype)
        rows[:, where] = value
        return rows

    return make


def _far(H: Array, f: int, rng: Rng) -> Array:
    return (-1e3 * H[0, 0] * (1 + 0.1 * rng.standard_normal((f, H.shape[1])))).astype(H.dtype)


def _one_far(H: Array, f: int, rng: Rng) -> Array:
    rows = (1 + 0.1 * rng.standard_normal((f, H.shape[1]))).astype(H.dtype)
    rows[:1] = -1e6
    return rows


def _infinities(H: Array, f: int, rng: Rng) -> Array:
    return np.where(rng.random((f, H.shape[1])) < 0.5, np.inf, -np.inf).astype(H.dtype)


def _opposite(H: Array, f: int, rng: Rng) -> Array:
    return np.where(rng.random((f, 1)) < 0.5, 1e308, -1e308) * np.ones(H.shape[1])


def _beside(H: Array, f: int, rng: Rng) -> Array:  # noqa: ARG001
    return np.full((f, H.shape[1]), 1e4 + 2, H.dtype)


@dataclass(frozen=True)
class Hostile:
    """A kind of round: n - f honest rows around a centre, and f Byzantine rows.

    Parameters
    ----------
    name : what reports call it
    sentence : what the Byzantine rows are, as "f rows are NaN"
    dtype : the precision of all rows
    liars : makes the Byzantine rows from the honest ones, f and a generator
    centre, spread : every honest number is centre + spread times a normal one
    """

    name: str
    sentence: str
    dtype: type[np.floating[Any]]
    liars: Liars
    centre: float = 1.0
    spread: float = 0.1

    def rounds(
        self, n: int, f: int, rng: Rng, d: int = COORDINATES, *, trusted: Collection[int] = ()
    ) -> Iterator[tuple[Array, Mask]]:
        """Yield the round with the Byzantine rows last, first and in between; and which rows are honest."""
        H = (self.centre + self.spread * rng.standard_normal((n - f, d))).astype(self.dtype)
        yield from place_liars(H, self.liars(H, f, rng), trusted)


CASES = tuple(
    Hostile(*case)
    for case in (
        ("far rows", "f rows lie 1000 times farther out", np.float64, _far),
        ("far rows (float32)", "f rows lie 1000 times farther out, in float32", np.float32, _far),
        ("far rows (float16)", "f rows lie 1000 times farther out, in float16", np.float16, _far),
        ("one far row", "one row lies at -1e6", np.float64, _one_far),
        ("NaN", "f rows are NaN", np.float64, _filled(np.nan)),
        ("one NaN", "f rows have one NaN each", np.float32, _filled(np.nan, 7)),
        ("inf", "f rows are infinite", np.float64, _filled(np.inf)),
        ("±inf", "f rows hold +inf and -inf", np.float32, _infinities),
        ("1e30 (float32)", "f rows are 1e30, whose squares leave float32", np.float32, _filled(1e30)),
        ("3e38 (float32)", "f rows are 3e38, whose sums leave float32", np.float32, _filled(3e38)),
        ("one 3e38 (float32)", "f rows hold one number of 3e38", np.float32, _filled(3e38, 5)),
        ("1e300", "f rows are 1e300, whose squares leave float64", np.float64, _filled(1e300)),
        ("-1e300", "f rows are -1e300", np.float64, _filled(-1e300)),
        ("±1e308", "f rows are 1e308 or -1e308, whose differences leave float64", np.float64, _opposite),
        ("offset (float32)", "all numbers are near 10000, f rows are off by 2", np.float32, _beside, 1e4, 0.05),
        ("tiny numbers (float32)", "numbers are near 1e-25, f rows near 1e-22", np.float32, _far, 1e-25, 1e-26),
        ("subnormal numbers", "numbers are near 1e-312, f rows near 1e-309", np.float64, _far, 1e-312, 1e-313),
    )
)  # fmt: skip


def require_vector(answer: Any, d: int) -> Array:
    """Return the answer as an array; raise `LawBroken` unless it is one vector of d finite numbers."""
    got = np.asarray(answer)
    if got.shape != (d,):
        raise LawBroken(f"the answer has shape {got.shape} instead of ({d},)")
    if got.dtype.kind not in "fiu":
        raise LawBroken(f"the answer holds {got.dtype}, not real numbers")
    if not np.isfinite(got).all():
        raise LawBroken("the answer is not finite")
    return got


def require_near(answer: Array, H: Array, limit: float) -> None:
    """Raise `LawBroken` if the answer is more than `limit` honest radii away from the mean of the honest rows H."""
    unit = float(np.abs(H.astype(np.longdouble)).max()) or 1.0
    rows = H.astype(np.longdouble) / unit
    centre = rows.mean(axis=0)
    radius = np.sqrt(np.square(rows - centre).sum(axis=1)).max()
    off = np.sqrt(np.square(answer.astype(np.longdouble) / unit - centre).sum())
    if not off <= limit * radius + 1e-9:
        raise LawBroken(f"the answer is {float(off / radius):.2g} honest radii away from the honest mean")
