"""What a field of a value may hold, as its type annotation says it.

These annotations are checked when a value is built; a field with any other annotation is left to its class.

- `int`: a whole number. numpy's integers become an int.
- `float`: a finite number. ints and numpy's numbers become a float.
- `Annotated[int, AtLeast(1)]`, `Annotated[float, Above(0)]`: a number within bounds.
- `bool`: True or False.
- `Literal["first", "all"]`: one of these words.
- `X | None`: None, or what X says.

An annotation that cannot be resolved, such as a name that is local to a function, is not checked.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache, partial
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Literal, SupportsIndex, TypeGuard, Union, get_args, get_origin, get_type_hints

import numpy as np

from holdfast.errors import BadInput


@dataclass(frozen=True)
class AtLeast:
    """A bound in an annotation: the number is the limit or larger."""

    limit: float

    def allows(self, number: float) -> bool:
        return number >= self.limit

    def __str__(self) -> str:
        return f", at least {self.limit:.15g}"


@dataclass(frozen=True)
class Above:
    """A bound in an annotation: the number is larger than the limit."""

    limit: float

    def allows(self, number: float) -> bool:
        return number > self.limit

    def __str__(self) -> str:
        return f" above {self.limit:.15g}"


Tolerance = Annotated[int, AtLeast(0)]  # f: how many Byzantine workers a rule tolerates
WorkerIndex = Annotated[int, AtLeast(0)]
Count = Annotated[int, AtLeast(1)]
Positive = Annotated[float, Above(0)]
NonNegative = Annotated[float, AtLeast(0)]
Bounds = tuple[AtLeast | Above, ...]


@dataclass(frozen=True)
class FieldCheck:
    """Converts what a field was given to what its annotation says, or refuses it with a sentence."""

    name: str
    convert: Callable[[object], object]  # raises TypeError, ValueError or OverflowError
    wanted: str
    optional: bool

    def __call__(self, record: object) -> None:
        given = vars(record)[self.name]
        if given is None and self.optional:
            return
        try:
            converted = self.convert(given)
        except (TypeError, ValueError, OverflowError):
            shown = repr(given)
            if "\n" in shown:  # an array in the place of a number
                shown = f"{' '.join(shown.split())[:40]}..."
            raise BadInput(f"{type(record).__name__} was given {self.name} = {shown}; {self.wanted}.") from None
        if converted is not given:
            object.__setattr__(record, self.name, converted)


def check_fields(record: object) -> None:
    """Check all fields of a dataclass and convert them, once it is built.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Round:
    ...     n: Annotated[int, AtLeast(1)]
    ...     order: Literal["given", "drawn"] = "given"
    >>> check_fields(Round(n=3))
    >>> check_fields(Round(n=3, order="sorted"))
    Traceback (most recent call last):
    holdfast.errors.BadInput: Round was given order = 'sorted'; it is 'given' or 'drawn'.
    """
    cls: type = type(record)
    for check in field_checks(cls):
        check(record)


def is_whole(given: object, *, least: float = -math.inf, most: float = math.inf) -> TypeGuard[SupportsIndex]:
    """Whether this is a whole number within limits: an int or one of numpy's or torch's integers, but no bool."""
    if isinstance(given, bool) or not isinstance(given, (int, SupportsIndex)):
        return False
    try:
        return least <= operator.index(given) <= most
    except TypeError:  # as an array of several numbers
        return False


def check_whole(
    given: object,
    name: str,
    *,
    least: int,
    most: int | None = None,
    who: str = "",
    unit: str = "",
    show: Callable[[object], str] = repr,
) -> int:
    """The whole number that was given, as an int.

    Parameters
    ----------
    given, name
        What was given, and the name of the argument.
    least, most
        The limits; no `most` means no upper limit.
    who
        Whose argument it is; the sentence begins with it.
    unit
        What is counted, such as "workers".
    show
        Writes what was given.

    Raises
    ------
    BadInput
        If it is no whole number within the limits.

    Examples
    --------
    >>> from holdfast.checks import check_whole
    >>> check_whole(3, "n", least=1)
    3
    >>> check_whole(0, "n", least=1, most=300, unit="workers")
    Traceback (most recent call last):
    holdfast.errors.BadInput: n = 0 was given; it is a whole number of workers, 1 to 300.
    """
    if is_whole(given, least=least, most=math.inf if most is None else most):
        return operator.index(given)
    limits = (
        f"at least {least}" if most is None else f"{least} to {most:,}" if most < 10**15 else f"{least} to {most:.2g}"
    )
    subject = (
        f"{who} was given {name} = {show(given)}; {name} is" if who else f"{name} = {show(given)} was given; it is"
    )
    raise BadInput(f"{subject} a whole number{f' of {unit}' if unit else ''}, {limits}.")


def check_field(record: object, name: str, annotation: object) -> None:
    """Check one field as if this were its annotation."""
    if check := _field_check(name, annotation):
        check(record)


@cache
def field_checks(cls: type) -> tuple[FieldCheck, ...]:
    """The checks of a dataclass, one for each field whose annotation says what it holds."""
    checks = (_field_check(field.name, _annotation(cls, field.name, field.type)) for field in fields(cls))
    return tuple(check for check in checks if check)


def _annotation(cls: type, name: str, given: object) -> object:
    """The annotation of a field as a type; `object` if its text cannot be resolved."""
    if not isinstance(given, str):
        return given
    owner = next((base for base in cls.__mro__ if name in vars(base).get("__annotations__", ())), cls)
    try:
        names = {**vars(owner), **vars(sys.modules[owner.__module__])}
        return get_type_hints(SimpleNamespace(__annotations__={name: given}), names, include_extras=True)[name]
    except Exception:  # evaluating the text can raise anything
        return object


def _field_check(name: str, annotation: object) -> FieldCheck | None:
    kind, bounds, optional = _parts(annotation)
    limits = "".join(map(str, bounds))
    if kind is int:
        return FieldCheck(name, partial(_whole, bounds), f"{name} is a whole number{limits}", optional)
    if kind is float:
        return FieldCheck(name, partial(_finite, bounds), f"{name} is a finite number{limits}", optional)
    if kind is bool or get_origin(kind) is Literal:
        choices = get_args(kind) or (True, False)
        *others, last = map(repr, choices)
        wanted = f"{', '.join(others)} or {last}" if others else last
        return FieldCheck(name, partial(_one_of, choices), f"it is {wanted}", optional)
    return None


def _parts(annotation: object) -> tuple[object, Bounds, bool]:
    """Type, bounds, and whether None is allowed: Annotated[int, AtLeast(1)] | None is int, (AtLeast(1),), True."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        kind, bounds, optional = _parts(args[0])
        return kind, (*bounds, *(note for note in args[1:] if isinstance(note, AtLeast | Above))), optional
    if origin in (Union, UnionType) and len(args) == 2 and NoneType in args:
        kind, bounds, _ = _parts(args[1] if args[0] is NoneType else args[0])
        return kind, bounds, True
    return annotation, (), False


def _whole(bounds: Bounds, given: object) -> int:
    if not is_whole(given):
        raise TypeError
    number = operator.index(given)
    _keep(bounds, number)
    return number


def _finite(bounds: Bounds, given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, (float, int, np.integer, np.floating)):
        raise TypeError
    number = float(given)
    if not math.isfinite(number):
        raise ValueError
    _keep(bounds, number)
    return number


def _keep(bounds: Bounds, number: float) -> None:
    for bound in bounds:
        if not bound.allows(number):
            raise ValueError


def _one_of(choices: tuple[object, ...], given: object) -> object:
    for choice in choices:
        if isinstance(given, type(choice)) and given == choice:
            return choice
    raise ValueError
