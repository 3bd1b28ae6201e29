"""check_aggregator: the checks for a function of any library that claims to withstand f Byzantine workers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from math import comb
from typing import Any

import numpy as np

from holdfast.checks import check_whole, is_whole
from holdfast.errors import BadInput
from holdfast.guarantees.criteria import worst
from holdfast.guarantees.instances import structured
from holdfast.testing.hostile import CASES, NEAR, Hostile, require_near, require_vector
from holdfast.testing.laws import LAWS, Aggregate, Array, DoesNotApply, LawBroken, Rng, require_close
from holdfast.testing.report import ROBUSTNESS, SECONDS, Plan, Report, Test, run_all
from holdfast.testing.rounds import KINDS, attacked, gaussian

COORDINATES = 6
SLACK = 1e-6  # of a proved constant, for rounding
STRANGE: dict[str, object] = {
    "rows of two lengths": [np.ones(3 + i % 2) for i in range(31)],
    "no rows": np.ones((0, 3)),
    "text": "abc",
    "complex numbers": np.ones((15, 3), complex),
}
SETS = 5000  # of honest workers that are all looked at
NOT_REQUIRED = "no aggregator has to"


@dataclass(frozen=True)
class Subject:
    """What is checked: the call, the round's size, and what is known about it.

    `excuses` has the names of laws that are not promised, each with its reason. `kappa` is a proved constant, `near`
    how many honest radii the answer may be away from the honest mean (None: any number, for the reason `excuses` has
    under "robustness").
    """

    call: Callable[[Any], Any]
    n: int
    f: int
    oracle: Aggregate | None = None
    kappa: float | None = None
    near: float | None = NEAR
    trusted: Collection[int] = ()
    refusals: tuple[type[Exception], ...] = (Exception,)
    excuses: Mapping[str, str] = field(default_factory=dict)

    def plans(self) -> Iterator[Plan]:
        """The checks that are the same for every aggregator, the plain round first."""
        yield Plan("plain round", "Honest rows give one vector of finite numbers.", self._plain)
        yield from (self._law(law.name, law.sentence, law.test) for law in LAWS)
        yield self._oracle_plan()
        yield self._constant_plan()
        yield from self.hostile_plans()
        if self.near is None:
            sentence = "f hostile rows do not move the answer far from the honest mean."
            yield Plan(ROBUSTNESS, sentence, None, self.excuses[ROBUSTNESS])
        for name, given in STRANGE.items():
            sentence = f"Input of this kind is refused with an error: {name}."
            yield Plan(name, sentence, self.refuses(given), self.excuses.get("refusals", ""), 1)
        sentence = "More than f rows of NaN are refused, since at most f were assumed to be faulty."
        excuse = self.excuses.get("too many NaN", self.excuses.get("refusals", ""))
        yield Plan("too many NaN", sentence, self.refuses(_spoilt(self.n)), excuse, 1)

    def hostile_plans(self) -> Iterator[Plan]:
        """The hostile rounds alone."""
        return map(self._hostile_plan, CASES)

    def refuses(self, given: object) -> Test:
        """A test that input is refused with an error of the right kind."""

        def test(_: Rng) -> None:
            try:
                answer = self.call(given)
            except self.refusals:
                return
            raise LawBroken(f"it was answered with {_brief(answer)}")

        return test

    def _plain(self, rng: Rng) -> None:
        for d in (COORDINATES, 1):
            require_vector(self.call(gaussian(rng, self.n, d)), d)

    def _law(self, name: str, sentence: str, law: Callable[[Aggregate, Array, Rng], None]) -> Plan:
        def test(rng: Rng) -> None:
            law(self.call, gaussian(rng, self.n, COORDINATES), rng)

        return Plan(name, sentence, test, self.excuses.get(name, ""), seeds=5)

    def _oracle_plan(self) -> Plan:
        sentence = "The answer is the oracle's."
        if self.oracle is None:
            return Plan("oracle", sentence, None, "no oracle was given")
        oracle = self.oracle

        def test(rng: Rng) -> None:
            for kind in KINDS:
                X, _ = attacked(rng, self.n, self.f, COORDINATES, kind)
                require_close(self.call(X.copy()), oracle(X), 100 * float(np.abs(X).max()))

        return Plan("oracle", sentence, test, self.excuses.get("oracle", ""))

    def _constant_plan(self) -> Plan:
        sentence = "The squared error is at most κ times the honest variance, for every choice of the honest."
        if self.kappa is None:
            return Plan("constant", sentence, None, self.excuses.get("constant", "no constant κ was given"))
        kappa = self.kappa

        def test(rng: Rng) -> None:
            drawn = [attacked(rng, self.n, self.f, 2, kind, 10.0 ** rng.integers(-1, 3))[0] for kind in KINDS]
            for X in (*structured(self.n, self.f, 2), *drawn):
                kappa_seen = worst("kappa", self.call(X.copy()), X, self.f, SETS).value
                if not kappa_seen <= kappa * (1 + SLACK):
                    raise LawBroken(f"κ is at least {kappa_seen:.3g} in one round, above {kappa:.3g}")

        seeds = 3 if comb(self.n, self.f) <= SETS else 1
        return Plan("constant", f"{sentence[:-1]}; κ = {kappa:.3g}.", test, seeds=seeds)

    def _hostile_plan(self, case: Hostile) -> Plan:
        promise = "the answer stays finite" + ("" if self.near is None else " and near the honest mean")
        sentence = f"If {case.sentence}, {promise}."
        if not self.f:
            return Plan(case.name, sentence, None, "f is 0")

        def test(rng: Rng) -> None:
            for X, honest in case.rounds(self.n, self.f, rng, trusted=self.trusted):
                try:
                    answer = self.call(X.copy())
                except Exception:
                    if self._accepts(np.float64) and not self._accepts(X.dtype):
                        raise DoesNotApply(f"it does not accept {X.dtype}, also from honest workers") from None
                    raise
                got = require_vector(answer, X.shape[1])
                if self.near is not None:
                    require_near(got, X[honest], self.near)

        return Plan(case.name, sentence, test, self.excuses.get(case.name, ""), 2)

    def _accepts(self, dtype: Any) -> bool:
        """Whether honest rows of this dtype, with usual numbers, are answered."""
        try:
            self.call(gaussian(np.random.default_rng(0), self.n, COORDINATES).astype(dtype))
        except Exception:
            return False
        return True


def _spoilt(n: int) -> Array:
    """Rows of which most are NaN."""
    X = np.ones((n, COORDINATES))
    X[: n // 2 + 1] = np.nan
    return X


def _brief(answer: Any) -> str:
    try:
        got = np.asarray(answer)
        return f"an array of shape {got.shape}" + ("" if np.isfinite(got).all() else " that is not finite")
    except (TypeError, ValueError):
        return f"a {type(answer).__name__}"


def check_size(n: int | None, f: int, least: int = 0) -> int:
    """Return the number of workers to check with.

    It is n, or by default the smallest that every rule of the catalogue accepts: 4f + 3, and at least 11.

    Raises
    ------
    BadInput
        If f is no whole number or n workers do not tolerate f.
    """
    f = check_whole(f, "f", least=0, unit="Byzantine workers")
    if n is None:
        return int(max(11, 4 * f + 3, least))
    if not is_whole(n, least=max(3, 2 * f + 1, least)):
        raise BadInput(f"n = {n!r} was given; checks with f = {f} need at least {max(3, 2 * f + 1, least)} workers.")
    return int(n)


def check_aggregator(
    aggregate: Callable[[Array], Any],
    *,
    f: int,
    n: int | None = None,
    name: str | None = None,
    oracle: Aggregate | None = None,
    kappa: float | None = None,
    trusted: Collection[int] = (),
    not_promised: Mapping[str, str] | None = None,
    seconds: float = SECONDS,
    raises: bool = True,
) -> Report:
    """Check a function that aggregates n vectors, from any library.

    Three things must hold for every aggregator that claims to withstand f Byzantine workers: the order of the workers
    does not matter; with f hostile rows the answer is finite; and it is not far from the honest mean.
    The report says whether all other laws hold; if one does not, that is no failure.

    Parameters
    ----------
    aggregate : callable
        It takes an array of shape (n, d) and returns d numbers.
    f : int
        How many Byzantine workers it claims to withstand.
    n : int, optional
        How many workers there are. Default: 4f + 3, and at least 11.
    name : str, optional
        What the report calls it.
    oracle : callable, optional
        The same function, written from the definition. Both answers are compared.
    kappa : float, optional
        A constant that is claimed: the squared error is at most kappa times the honest variance.
    trusted : collection of int, optional
        Workers that the function assumes to be honest.
    not_promised : dict, optional
        Checks that may fail: their names, each with the reason.
    seconds : float
        The processor time after which a call that has not ended counts as failed. There is no limit outside of the
        main thread, nor on Windows.
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
        If n workers do not tolerate f.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.testing import check_aggregator
    >>> def mean(X):
    ...     return X.mean(axis=0)
    >>> report = check_aggregator(mean, f=2, raises=False)
    >>> report.ok
    False
    >>> print(next(check for check in report.checks if check.name == "NaN"))
    NaN: the answer is not finite (seed 0)
    """
    if not callable(aggregate):
        raise BadInput(f"{aggregate!r} cannot be called; give a function of an array of shape (n, d).")
    size = check_size(n, f)
    unpromised = [law.name for law in LAWS if law.name != "order"]
    excuses = {**dict.fromkeys([*unpromised, "refusals", "too many NaN"], NOT_REQUIRED), **(not_promised or {})}
    subject = Subject(aggregate, size, int(f), oracle, kappa, trusted=trusted, excuses=excuses)
    called = name or getattr(aggregate, "__name__", None) or repr(aggregate)
    report = run_all(called, size, int(f), subject.plans(), seconds)
    return report.raise_if_failed() if raises else report
