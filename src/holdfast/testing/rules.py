"""check_rule: the laws that a rule of holdfast promises, its proved constant, and the hostile rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from math import inf, sqrt
from typing import Any

import numpy as np

from holdfast.contract import Stage
from holdfast.errors import BadInput
from holdfast.testing import promises
from holdfast.testing.aggregators import COORDINATES, Subject, check_size
from holdfast.testing.hostile import NEAR
from holdfast.testing.laws import Aggregate, Array, LawBroken, Rng, require_close
from holdfast.testing.report import ROBUSTNESS, Plan, Report, Test, run_all
from holdfast.testing.rounds import gaussian
from holdfast.testing.votes import voted
from holdfast.testing.weights import weight_plans
from holdfast.twophase import TwoPhase, claimed

USUAL = 2  # Byzantine workers, for rules without an f


def check_rule(
    rule: Stage | TwoPhase,
    *,
    f: int | None = None,
    n: int | None = None,
    oracle: Aggregate | None = None,
    not_promised: Mapping[str, str] | None = None,
    raises: bool = True,
) -> Report:
    """Check a rule of holdfast, or one of your own.

    The rule says by its class what it promises: a rule on coordinates need not turn with the vectors, a rule with a
    length need not scale with them. Everything else must hold: the laws, the proved constant where one is known, and
    an answer that stays finite, and near the honest mean, when f rows are hostile. A rule without a field f and
    without `majority = True` does not claim to stay near. The report says that this was not checked. If the rule has a
    weighted form, the laws of weights must hold too; otherwise the report says that it has none.

    A two-phase rule is checked in whole rounds: each worker votes for the candidate that is nearer to its own update.

    Parameters
    ----------
    rule : rule
        A value that answers with one vector, as ``MeanwO(f=2)`` or ``NNM(f=2) >> Krum(f=2)``; or a two-phase rule, as
        ``Mean2P(f=2)``.
    f : int, optional
        How many Byzantine workers there are, for a rule that has no f of its own. Default: 2.
    n : int, optional
        How many workers there are. Default: 4f + 3, at least 11, and what the rule needs when f rows are dropped.
    oracle : callable, optional
        The same rule, written from its definition: an array of shape (n, d) in, d numbers out. Answers are compared.
    not_promised : dict, optional
        Checks that may fail: their names, each with the reason, as ``{"order": "it trusts worker 0"}``.
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
        If it is no rule, or if n workers are too few.

    Examples
    --------
    >>> from holdfast import CWTM
    >>> from holdfast.testing import check_rule
    >>> report = check_rule(CWTM(f=2))
    >>> report.ok
    True
    >>> print(next(check for check in report.checks if check.name == "turning").status.value)
    does not hold (not promised)
    """
    if not isinstance(rule, TwoPhase) and not (isinstance(rule, Stage) and rule.answers):
        what = "a rule that answers with one vector, as MeanwO(f=2) or NNM(f=2) >> Krum(f=2)"
        raise BadInput(f"{rule!r} was given; check_rule takes {what}.")
    own = claimed(rule)
    if own is not None and f not in (None, own):
        raise BadInput(f"{rule!r} tolerates {own}, but f = {f} was given; leave f out or change the rule.")
    lie = own if own is not None else USUAL if f is None else f
    size = check_size(n, lie, rule.least() + (0 if n else lie))
    plans: Iterable[Plan]
    if isinstance(rule, TwoPhase):
        plans = voted(rule, size, lie, oracle, not_promised or {}).plans()
    else:
        subject = _subject(rule, size, lie, oracle, not_promised or {})
        plans = chain(subject.plans(), _more(rule, subject))
    report = run_all(repr(rule), size, lie, plans)
    return report.raise_if_failed() if raises else report


def _subject(rule: Stage, n: int, f: int, oracle: Aggregate | None, not_promised: Mapping[str, str]) -> Subject:
    kappa = promises.constant(rule, n, f)
    excuses = promises.excuses(rule)
    near = None if promises.unclaimed(rule, kappa) else max(NEAR, sqrt(kappa or 0.0))
    excuses[ROBUSTNESS] = promises.unclaimed(rule, kappa)
    if kappa is None:
        excuses["constant"] = "no constant κ is known"
    elif kappa == inf:
        excuses["constant"] = "no finite κ holds for it"
    if rule.most_dropped(n) is None:
        excuses["too many NaN"] = "it assumes nothing about the number of faults"
    return Subject(
        called(rule),
        n,
        f,
        oracle,
        None if kappa == inf else kappa,
        near,
        promises.trusted(rule),
        (BadInput,),
        excuses | dict(not_promised),
    )


def called(rule: Stage) -> Callable[[Any], Any]:
    """The rule as a function of the rows alone: a rule that draws gets the same generator each time."""
    return lambda X: rule(X, rng=np.random.default_rng(5) if rule.random else None)


def _more(rule: Stage, subject: Subject) -> Iterator[Plan]:
    """What is asked of rules of holdfast alone."""
    yield _mean_plan(rule, subject.n)
    yield _few_plan(rule, subject)
    sentence = "decide() gives the same answer, and says of every worker what became of it."
    yield Plan("decide", sentence, _decides(rule, subject.n))
    yield from weight_plans(rule, subject)


def _mean_plan(rule: Stage, n: int) -> Plan:
    sentence = "With f = 0 the answer is the mean."
    without = rule.lowered(rule.tolerance() or 0)
    if promises.constant(without, n, 0) != 0:
        return Plan("mean", sentence, None, "no proof says so for this rule")

    def test(rng: Rng) -> None:
        X = gaussian(rng, n, COORDINATES)
        require_close(called(without)(X), X.mean(axis=0), float(np.abs(X).max()))

    return Plan("mean", sentence, test)


def _few_plan(rule: Stage, subject: Subject) -> Plan:
    sentence = f"Fewer than {rule.least()} vectors are refused."
    if rule.least() == 1:
        return Plan("too few", sentence, None, "one vector is enough")
    return Plan("too few", sentence, subject.refuses(np.ones((rule.least() - 1, COORDINATES))))


def _decides(rule: Stage, n: int) -> Test:
    def test(rng: Rng) -> None:
        X: Array = gaussian(rng, n, COORDINATES)
        if rule.most_dropped(len(X)) != 0:
            X[1, 2] = np.nan
        decision = rule.decide(X, rng=np.random.default_rng(5) if rule.random else None)
        require_close(decision.value, called(rule)(X), float(np.nanmax(np.abs(X))))
        known = {*decision.kept, *decision.excluded, *decision.dropped}
        if known != set(range(len(X))):
            raise LawBroken(f"it does not say what became of workers {sorted(set(range(len(X))) - known)}")

    return test
