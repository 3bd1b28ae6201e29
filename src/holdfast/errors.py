"""What can go wrong: each error is a sentence that says who, what was given, and what would work."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Self


class HoldfastError(Exception):
    """The base of all errors that holdfast raises on purpose: `except HoldfastError` catches them all."""


class BadInput(HoldfastError, ValueError):
    """Raised for input that no answer can be given for; nothing was changed."""


class MissingExtra(BadInput, ImportError):
    """Raised when a package is missing that only some uses need; the sentence says how to install it.

    Parameters
    ----------
    what : str
        What was wanted, as the subject of the sentence.
    package : str
        The package that is missing.
    extra : str or None
        The extra of holdfast that installs it; None if no extra does.

    Examples
    --------
    >>> from holdfast.errors import MissingExtra
    >>> print(MissingExtra("a figure", "matplotlib", "plot"))
    a figure needs matplotlib; in a checkout of holdfast, pip install -c constraints.txt '.[plot]'.
    """

    def __init__(self, what: str, package: str = "", extra: str | None = None) -> None:
        how = install(extra) if extra else f"pip install {package}"
        super().__init__(f"{what} needs {package}; {how}." if package else what)


def install(extra: str) -> str:
    """How to install an extra. The name holdfast on PyPI is another project's, so pip must not be asked for it.

    >>> install("cli")
    "in a checkout of holdfast, pip install -c constraints.txt '.[cli]'"
    """
    return f"in a checkout of holdfast, pip install -c constraints.txt '.[{extra}]'"


class Unwritable(BadInput):
    """Raised when a store or a folder cannot be written: the disk is full, read-only or broken."""


class TooManyFaults(BadInput):
    """Raised when more updates had to be dropped than the rule tolerates faults; nothing was changed.

    Parameters
    ----------
    what : str
        What happened, without the advice that the whole sentence ends with. It stays as the attribute `what`.
    advice : str
        What would work.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import MeanwO, TooManyFaults
    >>> try:
    ...     MeanwO(f=1)(np.array([[0.0], [1.0], [np.nan], [np.nan]]))
    ... except TooManyFaults as error:
    ...     print(error)
    MeanwO(f=1) was given n = 4 vectors, of which 2 were dropped (2 is not finite and 3 is not finite), and it
    tolerates 1; mend the workers, raise f, or pass on_excess='lower'.
    """

    def __init__(self, what: str, advice: str = "") -> None:
        super().__init__(f"{what}; {advice}." if advice else what)
        self.what = what


class NoWeightedForm(BadInput):
    """Raised when workers have weights and the rule cannot use them; the sentence names rules that can."""

    @classmethod
    def of(cls, rule: object, reason: str = "", option: str = "the weights") -> Self:
        """Return the refusal of a rule, with the reason as a clause and the option to leave out.

        Examples
        --------
        >>> from holdfast import MDA
        >>> from holdfast.errors import NoWeightedForm
        >>> print(NoWeightedForm.of(MDA(f=2)))
        MDA(f=2) has no weighted form; leave the weights out, or take MeanwO, CWTM, PTM or GeometricMedian.
        """
        advice = f"leave {option} out, or take MeanwO, CWTM, PTM or GeometricMedian"
        return cls(f"{rule!r} has no weighted form{reason and f', since {reason}'}; {advice}.")


class BrokenRule(HoldfastError, RuntimeError):
    """Raised when a rule breaks its contract, as with weights that are not finite: the rule is wrong, not its input."""


class ChecksFailed(HoldfastError, AssertionError):
    """Raised by `holdfast.testing` when a check fails.

    Parameters
    ----------
    text : str
        The failed checks, one line each.
    report : Report
        The report of all checks. It stays as the attribute `report`.
    """

    def __init__(self, text: str, report: object = None) -> None:
        super().__init__(text)
        self.report = report


def printable(text: str) -> str:
    r"""The text with control characters shown as escapes, so that it cannot steer a terminal; lines and tabs stay.

    >>> printable("told\x1b[2J")
    'told\\x1b[2J'
    """
    return "".join(
        letter
        if letter.isprintable() or letter in "\n\t" or (letter.isspace() and letter > "\x9f")
        else repr(letter)[1:-1]
        for letter in text
    )


def closest(name: str, known: Iterable[str], synonyms: Mapping[str, str] | None = None) -> str:
    """The known name that was probably meant, empty if none is near; a synonym comes before a similar spelling.

    >>> closest("weight", ["weights", "rng"]), closest("liars", ["byzantine", "lr"], {"liars": "byzantine"})
    ('weights', 'byzantine')
    """
    if synonym := (synonyms or {}).get(name.lower()):
        return synonym
    folded = {one.lower(): one for one in known}
    return next((folded[one] for one in difflib.get_close_matches(name.lower(), folded, 1, 0.5)), "")


def article(noun: str) -> str:
    """With its article.

    >>> article("int"), article("dict")
    ('an int', 'a dict')
    """
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def plural(n: int, noun: str) -> str:
    """The noun as it is used for n things.

    >>> plural(1, "vector"), plural(2, "vector")
    ('vector', 'vectors')
    """
    return noun if n == 1 else f"{noun}s"


def listing(rows: Iterable[object]) -> str:
    """Row numbers as people write them: 3; 3 and 7; 3, 7 and 9; at most six of them.

    >>> listing([3, 7, 9]), listing(range(40))
    ('3, 7 and 9', '0, 1, 2, 3, 4, 5 and 34 more')
    """
    names = [str(r) for r in rows]
    if len(names) > 7:
        names = [*names[:6], f"{len(names) - 6} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
