"""Is a class of one's own written as its base class asks? If not, a sentence says it when it is defined or built."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields
from types import FunctionType
from typing import Any

from holdfast.errors import BadInput, listing, plural

DECORATE = "write @value above the class (from holdfast.values import value)"
PLAIN = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def is_ours(thing: Any) -> bool:
    """Whether a class or function is part of this library; mypy checks those."""
    return str(getattr(thing, "__module__", "")).partition(".")[0] == "holdfast"


def check_methods(cls: type) -> None:
    """Refuse a class with a method that cannot be called as the method of ours that it replaces.

    Raises
    ------
    BadInput
        As for `weights(self, D)`, which replaces `weights(self, D, rng)`, or for a field `random: bool`.
    """
    if is_ours(cls):
        return
    for name in _fields(cls):
        if name not in vars(cls) and isinstance(inspect.getattr_static(cls, name, None), property):
            raise BadInput(f"{cls.__name__} has a field {name}, a name that every such class has; call it otherwise.")
    for name, method in vars(cls).items():
        named = isinstance(method, FunctionType) and (name[:2] != "__" or name == "__call__")
        ours = _replaced(cls, name) if named else None
        if ours is None:
            continue
        form = inspect.signature(ours)
        if any(one.kind not in PLAIN for one in form.parameters.values()):
            continue
        takes = inspect.signature(method)
        try:
            takes.bind(*form.parameters)
        except TypeError:
            raise BadInput(
                f"{cls.__name__}.{name} takes {_parameters(takes)}; write it as def {name}{_parameters(form)}."
            ) from None


def _replaced(cls: type, name: str) -> Callable[..., Any] | None:
    """The method of ours that a method of this name replaces."""
    found = (vars(base)[name] for base in cls.__mro__[1:] if name in vars(base) and is_ours(base))
    return next((method for method in found if isinstance(method, FunctionType)), None)


def _parameters(form: inspect.Signature) -> str:
    """The parameters without their types: (self, D, rng=None)."""
    bare = [one.replace(annotation=one.empty) for one in form.parameters.values()]
    return str(form.replace(parameters=bare, return_annotation=form.empty))


def check_init(cls: type) -> None:
    """Refuse a class with an `__init__` of its own: the fields of a value are its hyperparameters."""
    if "__init__" in vars(cls):
        raise BadInput(
            f"{cls.__name__} has an __init__ of its own; declare each field by its annotation, as in f: Tolerance, "
            f"and {DECORATE}."
        )


def check_decorated(cls: Any, *, given: bool) -> None:
    """Refuse to build a class that has fields, or was given some, and is not decorated by `@value`."""
    check_init(cls)
    if names := list(_fields(cls)):
        raise BadInput(
            f"{cls.__name__} has the {plural(len(names), 'field')} {listing(names)} and no @value; {DECORATE}."
        )
    if given and not fields(cls):
        raise BadInput(
            f"{cls.__name__} was given values and has no fields; declare each in the class, as in f: Tolerance, and "
            f"{DECORATE}."
        )


def _fields(cls: type) -> Iterator[str]:
    """The fields that a class declares itself."""
    for name, annotation in annotations_of(cls).items():
        if "ClassVar" not in str(annotation):
            yield name


def annotations_of(cls: type) -> dict[str, Any]:
    """The annotations of a class itself; none if they cannot be evaluated."""
    try:
        return inspect.get_annotations(cls)
    except Exception:  # evaluating one can raise anything
        return {}


def field_hint(make: Callable[..., Any], name: str) -> str:
    """How to declare a field that a class of one's own was given and does not have; empty for our own classes."""
    if is_ours(make) or not isinstance(make, type):
        return ""
    if hasattr(make, name):
        return f"annotate {name} in the class, as in {name}: {_usual(name)} = {getattr(make, name)!r}."
    return f"declare it in the class, as in {name}: {_usual(name)}."


def _usual(name: str) -> str:
    return "Tolerance" if name == "f" else "float"
