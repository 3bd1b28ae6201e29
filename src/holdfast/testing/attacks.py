"""check_attack: does an attack send one row for each Byzantine worker, whatever round it sees?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from holdfast.attacks import View
from holdfast.attacks.sent import Attacker, is_hostile, list_messages, read_rows, require_finite
from holdfast.errors import BadInput
from holdfast.rules import MeanwO
from holdfast.testing.aggregators import COORDINATES, check_size
from holdfast.testing.hostile import require_vector
from holdfast.testing.laws import LawBroken, Rng, require_close
from holdfast.testing.report import Plan, Report, Test, run_all
from holdfast.testing.rounds import gaussian

Array = np.ndarray
CLASSES = 10
SIZES = {"tiny rounds": 1e-300, "huge rounds": 1e150}
SHAPES = {
    "one Byzantine worker": (8, 1, 5),
    "one coordinate": (8, 3, 1),
    "one honest worker": (1, 1, 5),
    "no Byzantine worker": (8, 0, 5),
}
ON_PURPOSE = "it sends on purpose what cannot be used"
NOT_REQUIRED = "no attack has to"
CONVERTED = "a training converts the rows; rows.astype(seen.own.dtype) sends what the server reads"


def check_attack(
    attack: Attacker,
    *,
    f: int = 2,
    n: int | None = None,
    not_promised: Mapping[str, str] | None = None,
    raises: bool = True,
) -> Report:
    """Check an attack of holdfast, or one of your own.

    An attack is called with a `View` and returns one row of finite numbers for each Byzantine worker: an array of
    numpy, torch or JAX, or a list of rows. An attack with `hostile = True` may send anything. A function can be
    checked too; for a `Run`, write it as a class that inherits from `holdfast.attacks.Attack`.

    Parameters
    ----------
    attack : callable
        It takes a `holdfast.attacks.View`.
    f : int
        How many Byzantine workers there are in the rounds that it sees.
    n : int, optional
        How many workers there are. Default: 4f + 3, and at least 11.
    not_promised : dict, optional
        Checks that may fail: their names, each with the reason.
    raises : bool
        Whether a failed check raises. If False, the report is returned in any case.

    Returns
    -------
    Report

    Raises
    ------
    ChecksFailed
        If a check failed, unless ``raises=False``.
    BadInput
        If it cannot be called, or if n workers do not tolerate f.

    Examples
    --------
    >>> from holdfast.attacks import Empire
    >>> from holdfast.testing import check_attack
    >>> check_attack(Empire(scale=0.1)).ok
    True
    >>> report = check_attack(lambda seen: seen.honest.mean(axis=0), raises=False)
    >>> print(report.checks[0].detail)
    it returned an array of shape (6,); return one row for each Byzantine worker, an array of shape (2, 6), or set
    hostile = True on its class to send anything.
    """
    if not callable(attack):
        raise BadInput(f"{attack!r} cannot be called; give a function of a View.")
    size = check_size(n, f)
    if f < 1:
        raise BadInput(f"f = {f} was given; an attack needs at least one Byzantine worker.")
    report = run_all(repr(attack), size, f, _plans(attack, size, f, not_promised or {}))
    return report.raise_if_failed() if raises else report


def view(rng: Rng, h: int, b: int, d: int, size: float = 1.0) -> View:
    """A round of h honest and b Byzantine workers, all of them normal around one centre."""
    X = gaussian(rng, h + b, d, size)
    return View(honest=X[:h], own=X[h:], rule=MeanwO(f=b if h > b else 0), f=b)


def sent_rows(attack: Attacker, seen: View) -> Array | None:
    """Return the rows that are sent, as a training reads them; None if a hostile attack sends other things.

    Raises
    ------
    LawBroken
        If it is not one row of finite numbers for each Byzantine worker.
    """
    try:
        sent = read_rows(attack, seen, who="it")
        require_finite(attack, sent, seen, who="it")
    except BadInput as refusal:
        raise LawBroken(str(refusal)) from None
    return sent if isinstance(sent, np.ndarray) and sent.shape == seen.own.shape else None


def _plans(attack: Attacker, n: int, f: int, excuses: Mapping[str, str]) -> Iterator[Plan]:
    h, usable = n - f, not is_hostile(attack)

    def plain(rng: Rng) -> None:
        sent_rows(attack, view(rng, h, f, COORDINATES))

    def repeats(rng: Rng) -> None:
        seen = view(rng, h, f, COORDINATES)
        first, second = (sent_rows(attack, replace(seen, rng=np.random.default_rng(3))) for _ in range(2))
        if first is not None and second is not None and first.tobytes() != second.tobytes():
            raise LawBroken("the same view and generator give other rows; draw from `seen.rng` alone")

    def leaves(rng: Rng) -> None:
        seen = view(rng, h, f, COORDINATES)
        honest, own = seen.honest.copy(), seen.own.copy()
        attack(seen)
        if not (np.array_equal(seen.honest, honest) and np.array_equal(seen.own, own)):
            raise LawBroken("it changes the view")

    def keeps_precision(rng: Rng) -> None:
        seen = view(rng, h, f, COORDINATES)
        seen = replace(seen, honest=seen.honest.astype(np.float32), own=seen.own.astype(np.float32))
        rows = sent_rows(attack, seen)
        if rows is not None and rows.dtype != np.float32:
            raise LawBroken(f"it answers float32 with {rows.dtype}")

    def same_for_any_order(rng: Rng) -> None:
        seen = replace(view(rng, h, f, COORDINATES), rng=np.random.default_rng(3))
        other = replace(seen, honest=seen.honest[rng.permutation(h)], rng=np.random.default_rng(3))
        one, two = sent_rows(attack, seen), sent_rows(attack, other)
        if one is not None and two is not None:
            require_close(two, one, 1e3 * float(np.abs(seen.honest).max()))

    def plan(name: str, sentence: str, test: Test, excuse: str = "") -> Plan:
        return Plan(name, sentence, test, excuses.get(name, excuse))

    yield plan("plain round", "It sends one row for each Byzantine worker.", plain)
    for name, (honest, liars, d) in SHAPES.items():
        sentence = f"It answers a round with {honest} honest, {liars} Byzantine, and numbers per row: {d}."
        yield plan(name, sentence, _shaped(attack, honest, liars, d))
    yield plan("repeating", "The same view and generator give the same rows.", repeats)
    yield plan("input", "The view is not changed.", leaves)
    yield plan("precision", "Rows of float32 are answered with float32.", keeps_precision, CONVERTED)
    reported = plan("order", "The order of the honest workers does not matter.", same_for_any_order, NOT_REQUIRED)
    yield _if_usable(reported, usable=usable)
    for name, size in SIZES.items():
        sentence = f"Numbers of size {size:.0e} are answered with finite rows."
        sized = plan(name, sentence, _finite(attack, partial(view, h=h, b=f, d=COORDINATES, size=size)))
        yield _if_usable(sized, usable=usable)
    sentence = "If all honest rows are equal, finite rows are sent."
    yield _if_usable(plan("equal rows", sentence, _finite(attack, partial(_equal, h=h, f=f))), usable=usable)
    yield plan("labels", "Labels are answered with as many labels, each of a known class.", _labels(attack))
    sentence = "A rule that tolerates f answers the attacked round with finite numbers."
    yield plan("round", sentence, _answered(attack, h, f))


def _if_usable(plan: Plan, *, usable: bool) -> Plan:
    return plan if usable else replace(plan, test=None, excuse=ON_PURPOSE)


def _shaped(attack: Attacker, h: int, b: int, d: int) -> Test:
    def test(rng: Rng) -> None:
        sent_rows(attack, view(rng, h, b, d))

    return test


def _finite(attack: Attacker, make: Callable[[Rng], View]) -> Test:
    def test(rng: Rng) -> None:
        seen = make(rng)
        rows = sent_rows(attack, seen)
        for row in () if rows is None else rows:
            require_vector(row, seen.own.shape[1])

    return test


def _equal(rng: Rng, h: int, f: int) -> View:
    row = rng.normal(size=COORDINATES)
    return View(honest=np.tile(row, (h, 1)), own=np.tile(row, (f, 1)), rule=MeanwO(f=f), f=f)


def _labels(attack: Attacker) -> Test:
    def test(rng: Rng) -> None:
        change = getattr(attack, "labels", None)
        if change is None:
            return
        y = rng.integers(CLASSES, size=50)
        got = np.asarray(change(y.copy(), CLASSES))
        if got.shape != y.shape or not np.isin(got, np.arange(CLASSES)).all():
            raise LawBroken(f"50 labels of {CLASSES} classes are answered with {got.shape} others")

    return test


def _answered(attack: Attacker, h: int, f: int) -> Test:
    def test(rng: Rng) -> None:
        seen = view(rng, h, f, COORDINATES)
        sent = list_messages(read_rows(attack, seen))[:f]
        got = MeanwO(f=f)([*seen.honest, *sent], like=seen.honest[0])
        require_vector(got, COORDINATES)

    return test
