"""What checks found: a status for each, a table for people, a record for programs, an exception if one failed."""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from holdfast.errors import ChecksFailed
from holdfast.testing.laws import DoesNotApply, LawBroken

Test = Callable[[np.random.Generator], None]
SECONDS = 10  # of processor time that a check may take on one seed
ROBUSTNESS = "robustness"  # the name of the line that says why closeness to the honest mean was not checked
LONGEST = 160  # characters of another library's message that are shown


class Status(Enum):
    """What became of a check.

    Examples
    --------
    >>> from holdfast.testing import Status
    >>> Status.NOT_PROMISED.value
    'does not hold (not promised)'
    """

    PASSED = "passed"
    FAILED = "failed"
    NOT_PROMISED = "does not hold (not promised)"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True)
class Check:
    """One check and its outcome.

    Parameters
    ----------
    name : str
        Short, such as "order" or "NaN".
    sentence : str
        The law, in plain words.
    status : Status
        What became of it.
    detail : str
        What went wrong, or why the check does not apply; empty if it passed.
    seed : int or None
        The seed of the input on which it went wrong; None if it passed.

    Examples
    --------
    >>> from holdfast.testing import Check, Status
    >>> print(Check("order", "The order of the rows does not matter.", Status.FAILED, "it differs", seed=2))
    order: it differs (seed 2)
    """

    name: str
    sentence: str
    status: Status
    detail: str = ""
    seed: int | None = None

    def explain(self) -> str:
        """Return what went wrong and on which seed; if nothing did, the law."""
        seed = "" if self.seed is None else f" (seed {self.seed})"
        return f"{self.detail or self.sentence}{seed}"

    def __str__(self) -> str:
        return f"{self.name}: {self.explain()}"


@dataclass(frozen=True)
class Report:
    """All checks of one subject.

    Parameters
    ----------
    subject : str
        What was checked.
    n : int
        Number of workers.
    f : int
        Number of Byzantine workers.
    checks : tuple of Check
        The checks in order.

    Examples
    --------
    >>> from holdfast import MeanwO
    >>> from holdfast.testing import check_rule
    >>> report = check_rule(MeanwO(f=2))
    >>> report.ok, report.checks[0].name
    (True, 'plain round')
    """

    subject: str
    n: int
    f: int
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return not self.having(Status.FAILED)

    def having(self, status: Status) -> tuple[Check, ...]:
        """Return the checks of this status.

        Parameters
        ----------
        status : Status
            Which ones.

        Returns
        -------
        tuple of Check
            In order.
        """
        return tuple(check for check in self.checks if check.status is status)

    def summary(self) -> str:
        """Return one line: who was checked, and how many checks have which status."""
        counts = ", ".join(f"{len(checks)} {status.value}" for status in Status if (checks := self.having(status)))
        return f"{self.subject}, n = {self.n}, f = {self.f}: {counts}"

    def remarks(self) -> list[str]:
        """Return what a reader of the summary must also know: one sentence if robustness was not checked."""
        return [f"{self.subject} {check.detail}." for check in self.checks if check.name == ROBUSTNESS]

    def rows(self) -> list[tuple[str, str, str]]:
        """Return name, status and detail of each check."""
        return [(check.name, check.status.value, check.explain()) for check in self.checks]

    def __str__(self) -> str:
        wide = [max(len(row[column]) for row in self.rows()) for column in range(2)]
        lines = [f"{name:<{wide[0]}}  {status:<{wide[1]}}  {detail}" for name, status, detail in self.rows()]
        return "\n".join([self.summary(), *self.remarks(), *lines])

    def record(self) -> dict[str, Any]:
        """Return the same as plain values, for JSON."""
        checks = [
            {"name": c.name, "sentence": c.sentence, "status": c.status.value, "detail": c.detail, "seed": c.seed}
            for c in self.checks
        ]
        return {"subject": self.subject, "n": self.n, "f": self.f, "ok": self.ok, "checks": checks}

    def raise_if_failed(self) -> Report:
        """Return the report.

        Raises
        ------
        ChecksFailed
            If a check failed. Its text lists the failed checks.
        """
        failed = self.having(Status.FAILED)
        if not failed:
            return self
        lines = [f"{self.subject} fails {len(failed)} of {len(self.checks)} checks (n = {self.n}, f = {self.f}):"]
        raise ChecksFailed("\n".join([*lines, *(f"- {check}" for check in failed)]), self)


@dataclass(frozen=True)
class Plan:
    """A check before it is run.

    Without a test it does not apply, and `excuse` says why. With an excuse, the report names what does not hold, and it
    is no failure.
    """

    name: str
    sentence: str
    test: Test | None
    excuse: str = ""
    seeds: int = 3

    def run(self, seconds: float = SECONDS) -> Check:
        """Run the test on every seed, up to the first on which it does not hold."""
        if self.test is None:
            return Check(self.name, self.sentence, Status.NOT_APPLICABLE, self.excuse)
        for seed in range(self.seeds):
            try:
                problem = _problem(self.test, seed, seconds)
            except DoesNotApply as error:
                return Check(self.name, self.sentence, Status.NOT_APPLICABLE, str(error))
            if problem and self.excuse:
                return Check(self.name, self.sentence, Status.NOT_PROMISED, f"{problem}; {self.excuse}", seed)
            if problem:
                return Check(self.name, self.sentence, Status.FAILED, problem, seed)
        return Check(self.name, self.sentence, Status.PASSED)


class TooLong(BaseException):
    """No Exception, so that no library that is checked can catch it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End what takes more than so much processor time; without a limit outside of the main thread, and on Windows."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGVTALRM"):
        yield
        return

    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _problem(test: Test, seed: int, seconds: float) -> str:
    """What went wrong, in one sentence; empty if nothing did."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            with time_limit(seconds):
                test(np.random.default_rng(seed))
        except TooLong:
            return f"no answer came within {seconds:g} seconds of processor time"
        except LawBroken as error:
            return str(error)
        except DoesNotApply:
            raise
        except Exception as error:
            text = " ".join(str(error).split())[:LONGEST]
            return f"{type(error).__name__} was raised" + (f": {text}" if text else "")
    return ""


def run_all(subject: str, n: int, f: int, plans: Iterable[Plan], seconds: float = SECONDS) -> Report:
    """Run the checks in order. If the first one fails, the others are not run."""
    first, *rest = plans
    checks = [first.run(seconds)]
    if checks[0].status is Status.FAILED:
        rest = [Plan("all others", f"{len(rest)} more checks.", None, f"the check {first.name!r} failed")]
    return Report(subject, n, f, (*checks, *(plan.run(seconds) for plan in rest)))
