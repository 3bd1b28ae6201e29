"""What an attacker sees of a round, and what an attack is: a frozen value called with that view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ClassVar, NoReturn

import numpy as np

from holdfast.arrays import is_array, viewed
from holdfast.driver import decide
from holdfast.errors import BadInput, article
from holdfast.places import fetch
from holdfast.reading import read
from holdfast.rules import Average
from holdfast.twophase import TwoPhase
from holdfast.values import Value

Rows = np.ndarray
SMALL = 1000  # coordinates up to which distances by products are exact enough for an attacker
Losses = Callable[[np.ndarray], np.ndarray]


def _generator() -> np.random.Generator:
    return np.random.default_rng(0)


@dataclass(frozen=True, eq=False)
class View:
    """A round as an omniscient attacker sees it, before anything is sent.

    Parameters
    ----------
    honest : array of shape (h, d), or list of h vectors
        The honest workers' rows, of numpy, torch, JAX and other libraries. An attack sees them as a numpy array.
    own : array of shape (b, d), or list of b vectors
        The rows that the Byzantine workers would send if they were honest.
    rule : Stage or TwoPhase
        The server's rule.
    f : int
        The server's tolerance.
    rng : numpy.random.Generator
        For attacks that draw. Each view has a generator of seed 0 unless one is given.
    start : update, optional
        Where rules that start somewhere begin.
    losses : callable, optional
        Returns the honest workers' losses at the model after a given aggregate.
    step : float
        The length of the server's step, which a proximal margin depends on.

    Raises
    ------
    BadInput
        If there are no honest rows, or if these are no rows of real numbers of one length.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks import SignFlip, View
    >>> SignFlip()(View(honest=np.array([[1.0], [3.0]]), own=np.array([[2.0]])))
    array([[-2.]])
    """

    honest: Rows
    own: Rows
    rule: Any = field(default_factory=Average)
    f: int = 0
    rng: np.random.Generator = field(default_factory=_generator)
    start: Any = None
    losses: Losses | None = None
    step: float = 1.0

    def __post_init__(self) -> None:
        for name in ("honest", "own"):
            object.__setattr__(self, name, _read(getattr(self, name), name))
        if not len(self.honest):
            raise BadInput("a View was given no honest rows; an attack needs somebody to attack.")
        if len(self.own) and self.own.shape[1] != self.honest.shape[1]:
            shapes = f"{self.honest.shape} and own of shape {self.own.shape}"
            raise BadInput(f"a View was given honest of shape {shapes}; give rows of one length.")

    def __getattr__(self, name: str) -> NoReturn:
        has = "honest, own, rule, f, n, rng, start, losses and step"
        how = f"; write seen.honest.{name}" if hasattr(np.ndarray, name) else ""
        raise AttributeError(f"a View has no {name}; it has {has}{how}.", name=name, obj=self)

    @property
    def n(self) -> int:
        """How many workers there are, honest and Byzantine."""
        return len(self.honest) + len(self.own)

    def everyone(self) -> Rows:
        """Return the mean of all rows as they are without an attack."""
        return (self.honest.sum(axis=0) + self.own.sum(axis=0)) / self.n

    def answers(self, X: Rows) -> list[np.ndarray]:
        """Return what the server would get from these n rows: one aggregate, or both candidates.

        Parameters
        ----------
        X : numpy.ndarray of shape (n, d)
            The rows that all workers send.

        Returns
        -------
        list of numpy.ndarray
            The same for the same rows: rules that draw get a fresh generator of seed 0.
        """
        rules = (self.rule.inner, self.rule.outer) if isinstance(self.rule, TwoPhase) else (self.rule,)
        updates = read(X, repr(self.rule))
        return [decide(rule, updates, rng=_generator(), start=self.start, explain=False).value for rule in rules]


def _read(given: Any, name: str) -> Rows:
    """Rows of any library as a numpy array of shape (k, d)."""
    wanted = "pass one row for each worker, shape (k, d)"
    try:
        rows = fetch(viewed(given)) if is_array(given) else np.stack([_fetch_row(row) for row in given])
    except Exception as error:  # whatever an array says when it is looked at
        if isinstance(given, (list, tuple)) and not given:
            return np.empty((0, 0))
        raise BadInput(f"a View was given {name} = {article(type(given).__name__)}; {wanted}.") from error
    if rows.ndim != 2 or rows.dtype.kind not in "fiu":
        raise BadInput(f"a View was given {name} of shape {rows.shape} and type {rows.dtype}; {wanted}.")
    return rows


def _fetch_row(row: Any) -> np.ndarray:
    return fetch(viewed(row)) if is_array(row) else np.asarray(row)


def _check_view(call: Callable[[Any, View], Any]) -> Callable[[Any, View], Any]:
    """The same attack, which refuses what is no View with a sentence."""

    @wraps(call)
    def checked(self: object, seen: View) -> Any:
        if not isinstance(seen, View):
            form = "View(honest=..., own=...), with one row for each honest and for each Byzantine worker"
            raise BadInput(f"{self!r} was given {article(type(seen).__name__)}; pass {form}.")
        return call(self, seen)

    return checked


@dataclass(frozen=True, repr=False)
class Attack(Value):
    """The base of all attacks: maps a view of the round to one row for each Byzantine worker.

    Notes
    -----
    A data attack maps labels to labels, or images to images, as well (`labels`, `images`). A *sneak* places its rows
    among the honest ones, a *siege* around them (Yi et al. 2024). To write an attack, subclass it with
    `holdfast.values.value` and define `__call__`.

    A training checks what an attack sends: one row of finite numbers for each Byzantine worker, as an array of numpy,
    torch or JAX, or as a list of rows. Anything else raises `BadInput`, since the server would drop it and the attack
    would have no effect. Set `hostile = True` on a class that sends broken messages on purpose, as `NaN` and
    `Malformed` do.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.attacks import Attack, View
    >>> from holdfast.values import value
    >>> @value
    ... class Double(Attack):
    ...     def __call__(self, seen):
    ...         return 2 * seen.own
    >>> Double()(View(honest=np.ones((2, 1)), own=np.ones((1, 1))))
    array([[2.]])
    """

    formula: ClassVar[str] = ""
    source: ClassVar[str] = ""

    @property
    def kind(self) -> str:
        """Sneak or siege."""
        return ""

    @property
    def hostile(self) -> bool:
        """Whether it sends on purpose what cannot be used."""
        return False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__call__" in vars(cls):
            setattr(cls, "__call__", _check_view(vars(cls)["__call__"]))  # noqa: B010 - mypy allows no assignment

    def __call__(self, seen: View) -> Any:
        """Return what the Byzantine workers send.

        Parameters
        ----------
        seen : View
            The round as the attacker sees it.

        Returns
        -------
        array of shape (len(seen.own), d), or list of vectors
            One row for each Byzantine worker. With `hostile = True`, anything.
        """
        raise BadInput(f"{type(self).__name__} does not say what it sends; define __call__(self, seen).")

    def harmless(self, n: int, b: int) -> str:
        """Return why the attack does nothing if b of n workers are Byzantine; empty if it does something.

        Parameters
        ----------
        n : int
            How many workers there are.
        b : int
            How many of them are Byzantine.

        Returns
        -------
        str
            The reason, as a clause. A training puts it into its remarks.

        Examples
        --------
        >>> from holdfast.attacks import ALIE
        >>> ALIE().harmless(n=10, b=2)
        'z_max is 0 if 2 of 10 workers are Byzantine, so they send the honest mean'
        """
        return ""

    def labels(self, y: np.ndarray, classes: int) -> np.ndarray:
        """Return the labels on which a Byzantine worker computes its own update.

        Parameters
        ----------
        y : numpy.ndarray
            The true labels.
        classes : int
            How many classes there are.

        Returns
        -------
        numpy.ndarray
            As many labels; the same unless the attack changes them.
        """
        return y

    def images(self, x: np.ndarray) -> np.ndarray:
        """Return the images on which a Byzantine worker computes its own update.

        Parameters
        ----------
        x : numpy.ndarray of shape (N, C, H, W)
            The true images, in the order of the labels that `labels` is given.

        Returns
        -------
        numpy.ndarray
            Images of the same shape; the very same array unless the attack changes them.
        """
        return x

    def backdoor(self, x: np.ndarray) -> tuple[np.ndarray, int] | None:
        """Return the images with the attack's trigger on each, and the class that they shall be taken for.

        Parameters
        ----------
        x : numpy.ndarray of shape (N, C, H, W)
            The true images.

        Returns
        -------
        tuple of numpy.ndarray and int, or None
            New images of the same shape and the target class. None if the attack has no trigger.
        """
        return None


def lengths(rows: Rows) -> np.ndarray:
    """The norm of each row, in float64 and without squares that leave float32.

    >>> lengths(np.array([[3.0, 4.0]]))
    array([5.])
    """
    return np.sqrt(np.array([np.square(row, dtype=np.float64).sum() for row in rows]))


def gram(rows: Rows) -> np.ndarray:
    """All inner products, in float64; multiplied in the rows' own precision, near one."""
    scale = float(np.abs(rows).max(initial=0.0)) or 1.0
    near = rows / rows.dtype.type(scale) if np.isfinite(scale) else rows
    return np.asarray(near @ near.T, dtype=np.float64) * scale * scale


def pairwise(rows: Rows) -> np.ndarray:
    """Squared distances between rows that are near the origin; good enough for an attacker."""
    G = gram(rows)
    squares = np.diag(G)
    D = np.maximum(squares[:, None] + squares - 2 * G, 0.0)
    np.fill_diagonal(D, 0.0)
    return D


def copies(row: np.ndarray, like: Rows) -> Rows:
    """The same row from every Byzantine worker, in the dtype of theirs."""
    return np.broadcast_to(row.astype(like.dtype, copy=False), like.shape)


def spread(row: np.ndarray, own: Rows) -> Rows:
    """Rows of this mean that keep the pairwise distances of the workers' own rows.

    >>> spread(np.array([9.0]), np.array([[1.0], [3.0]]))
    array([[ 8.],
           [10.]])
    """
    return own - own.mean(axis=0) + row.astype(own.dtype, copy=False)
