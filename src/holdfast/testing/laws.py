"""The laws that an aggregator can obey. Each one is a function that raises `LawBroken` where it does not hold.

A law is called with the aggregator, the rows X and a generator from which it draws a turn, an order or a factor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
Rng = np.random.Generator
Aggregate = Callable[[Array], Any]
TOLERANCE = {np.dtype(np.float16): 2e-3, np.dtype(np.float32): 2e-5, np.dtype(np.float64): 1e-9}


class LawBroken(AssertionError):
    """Raised by a law that does not hold. The text says by how much."""


class DoesNotApply(Exception):
    """Raised by a test that finds out that it cannot be made. The text says why."""


@dataclass(frozen=True)
class Law:
    """A law: its name, one plain sentence, and the function that tests it."""

    name: str
    sentence: str
    test: Callable[[Aggregate, Array, Rng], None]


def close(got: Any, wanted: Any, dtype: Any = np.float64, size: float | None = None) -> bool:
    """Whether two vectors are equal up to the rounding of the dtype, in units of the size of what went in.

    >>> close([1.0, 2.0], [1.0, 2.0 + 1e-12]), close([1.0], [1.1])
    (True, False)
    """
    a, b = np.asarray(got, np.longdouble), np.asarray(wanted, np.longdouble)
    return a.shape == b.shape and bool((np.abs(a - b) <= TOLERANCE[np.dtype(dtype)] * _size(b, size)).all())


def _size(wanted: Array, size: float | None) -> float:
    return float(np.abs(wanted).max(initial=0.0)) if size is None else size


def require_close(got: Any, wanted: Any, size: float | None = None, dtype: Any = np.float64) -> None:
    """Raise `LawBroken` unless two vectors are equal up to rounding.

    Raises
    ------
    LawBroken
        It names the shapes, or the largest difference and the size of the input.
    """
    if close(got, wanted, dtype, size):
        return
    a, b = np.asarray(got, np.longdouble), np.asarray(wanted, np.longdouble)
    if a.shape != b.shape:
        raise LawBroken(f"the answer has shape {a.shape} instead of {b.shape}")
    if not np.isfinite(a).all():
        raise LawBroken("the answer is not finite")
    off = float(np.abs(a - b).max())
    raise LawBroken(f"the answers differ by {off:.2g} in numbers of size {_size(b, size):.2g}")


def _largest(X: Any) -> float:
    return float(np.abs(X).max(initial=0.0))


def permutation(aggregate: Aggregate, X: Array, rng: Rng) -> None:
    """The order of the workers does not matter, where the best answer is unique."""
    require_close(aggregate(X[rng.permutation(len(X))]), aggregate(X), _largest(X))


def translation(aggregate: Aggregate, X: Array, rng: Rng) -> None:
    """Moving all vectors moves the answer."""
    t = 100 * rng.standard_normal(X.shape[1])
    require_close(aggregate(X + t), aggregate(X) + t, _largest(X) + _largest(t))


def scale(aggregate: Aggregate, X: Array, rng: Rng) -> None:
    """Multiplying all vectors multiplies the answer."""
    factor = float(10.0 ** rng.integers(-9, 9))
    require_close(aggregate(X * factor), aggregate(X) * factor, _largest(X) * factor)


def rotation(aggregate: Aggregate, X: Array, rng: Rng) -> None:
    """Turning all vectors turns the answer."""
    Q = np.linalg.qr(rng.standard_normal((X.shape[1], X.shape[1])))[0]
    require_close(aggregate(X @ Q), aggregate(X) @ Q, 10 * _largest(X))


def agreement(aggregate: Aggregate, X: Array, rng: Rng) -> None:  # noqa: ARG001
    """If all rows are equal, the answer is that row."""
    require_close(aggregate(np.tile(X[:1], (len(X), 1))), X[0])


def repetition(aggregate: Aggregate, X: Array, rng: Rng) -> None:  # noqa: ARG001
    """The same rows give the same answer, to the bit."""
    first, second = (np.asarray(aggregate(X.copy())) for _ in range(2))
    if first.tobytes() != second.tobytes():
        raise LawBroken(f"a second call differs by {float(np.abs(first - second).max()):.2g}")


def untouched(aggregate: Aggregate, X: Array, rng: Rng) -> None:  # noqa: ARG001
    """The rows are not changed."""
    before = X.copy()
    aggregate(X)
    if not np.array_equal(X, before):
        raise LawBroken("the call changed its input")


def precision(aggregate: Aggregate, X: Array, rng: Rng) -> None:  # noqa: ARG001
    """Rows of float32 give an answer of float32, and rows of float64 one of float64."""
    for dtype in (np.float32, np.float64):
        got = np.asarray(aggregate(X.astype(dtype))).dtype
        if got != dtype:
            raise LawBroken(f"rows of {np.dtype(dtype)} give an answer of {got}")


LAWS = tuple(
    Law(name, (test.__doc__ or "").strip(), test)
    for name, test in (
        ("order", permutation),
        ("moving", translation),
        ("scaling", scale),
        ("turning", rotation),
        ("equal rows", agreement),
        ("repeating", repetition),
        ("input", untouched),
        ("precision", precision),
    )
)
