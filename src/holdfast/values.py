"""Values: frozen records whose text is their name, such as Krum(f=3) or Empire(scale=0.1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Self, TypeVar, dataclass_transform, final

from holdfast.arguments import explain_arguments
from holdfast.checks import Above, AtLeast, Count, NonNegative, Positive, Tolerance, WorkerIndex, check_fields
from holdfast.definitions import check_decorated, check_init, check_methods
from holdfast.errors import BadInput

__all__ = ["Above", "AtLeast", "Count", "NonNegative", "Positive", "Tolerance", "Value", "WorkerIndex", "value"]

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """Turn a class into a frozen dataclass without subclasses; its base, `Value`, checks it and writes its text."""
    check_init(cls)
    try:
        made = dataclass(frozen=True, repr=False)(cls)
    except (TypeError, ValueError) as error:  # fields in a wrong order, defaults that can change
        raise BadInput(f"{cls.__name__} cannot be a value: {error}.") from None
    explain_arguments(made)
    return final(made)


@dataclass(frozen=True, repr=False)
class Value:
    """A record that is equal when its fields are, is checked when it is built, and is written as it is parsed.

    The annotation of a field says what the field may hold, as in `f: Tolerance`, `scale: float` or
    `ties: Literal["first", "all"]`. `holdfast.checks` lists the annotations that are checked. A class checks its
    other fields in its own `__post_init__`.

    Raises
    ------
    BadInput
        If a field was given something else. The sentence names the class, the field and what it may hold.

    Examples
    --------
    >>> from holdfast.values import Count, Positive, Value, value
    >>> @value
    ... class Shrink(Value):
    ...     factor: Positive
    ...     times: Count = 1
    >>> Shrink(factor=2)
    Shrink(factor=2.0)
    >>> Shrink(factor=0.5, times=0)
    Traceback (most recent call last):
    holdfast.errors.BadInput: Shrink was given times = 0; times is a whole number, at least 1.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        check_methods(cls)

    if not TYPE_CHECKING:  # so that mypy still checks the arguments of a class without `@value`

        def __new__(cls, *args: object, **kwargs: object) -> Self:
            """Make the value, if its class is one; a class without `@value` would lose its fields."""
            if "__dataclass_fields__" not in vars(cls):
                check_decorated(cls, given=bool(args or kwargs))
            return super().__new__(cls)

    def __post_init__(self) -> None:
        check_fields(self)

    def __repr__(self) -> str:
        """The name with the fields that differ from their defaults: Krum(f=3)."""
        return self._text(field.name for field in fields(self) if vars(self)[field.name] != field.default)

    def written(self) -> str:
        """The name with all fields, for figures: Dirichlet(alpha=0.1, prior='natural')."""
        return self._text(field.name for field in fields(self))

    def _text(self, names: Iterable[str]) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={vars(self)[name]!r}' for name in names)})"
