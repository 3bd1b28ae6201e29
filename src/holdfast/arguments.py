"""Why a call with these arguments cannot be made, in one sentence: what is missing, unknown or misspelt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import ParamSpec, TypeVar

from holdfast.definitions import field_hint
from holdfast.errors import BadInput, closest, plural

Given = ParamSpec("Given")
Result = TypeVar("Result")
USUAL = {  # of parameters without a default, for examples in sentences
    "attack": "Empire()",
    "every": "100",
    "f": "2",
    "inner": "MeanwO(f=2)",
    "outer": "OuterMean(f=2)",
    "pivot": "0",
    "rule": "MeanwO(f=2)",
    "s": "2",
    "tau": "1.0",
}
MOST_SHOWN = 8  # parameters in one sentence


def explain_arguments(cls: type, synonyms: Mapping[str, str] | None = None) -> None:
    """Let a call with arguments that do not fit say which are missing or unknown, as in `Krum needs f`.

    `synonyms` are other words for its fields, which people try.
    """
    build: Callable[..., None] = vars(cls)["__init__"]

    @wraps(build)
    def __init__(self: object, *args: object, **kwargs: object) -> None:  # noqa: N807 - it is one
        try:
            build(self, *args, **kwargs)
        except TypeError as error:
            if why := misfit(cls, args, kwargs, synonyms):
                raise BadInput(why) from None
            raise error

    setattr(cls, "__init__", __init__)  # noqa: B010 - mypy allows no assignment to __init__


def explained(make: Callable[Given, Result]) -> Callable[Given, Result]:
    """Let a function say which arguments are missing or unknown, as `explain_arguments` does for a class."""

    @wraps(make)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        if why := misfit(make, args, kwargs):
            raise BadInput(why)
        return make(*args, **kwargs)

    return call


def misfit(
    make: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    synonyms: Mapping[str, str] | None = None,
) -> str:
    """Why a function or class cannot be called with these arguments; nothing if it can."""
    takes = signature(make).parameters
    try:
        signature(make).bind(*args, **kwargs)
    except TypeError:
        name, names = make.__name__, [key for key, one in takes.items() if one.kind is not one.KEYWORD_ONLY]
        if strange := [key for key in kwargs if key not in takes]:
            close = closest(strange[0], takes, synonyms)
            hint = field_hint(make, strange[0]) or (f"did you mean {close}=?" if close else f"it is {_form(make)}.")
            return f"{name} was given {strange[0]}=, which it does not have; {hint}"
        if len(args) > len(names):
            return f"{name} was given {len(args)} {plural(len(args), 'value')}; write it as {_form(make)}."
        if twice := [key for key in names[: len(args)] if key in kwargs]:
            return f"{name} was given {twice[0]} twice; it is {_form(make)}."
        needed = [
            key for key in takes if key not in names[: len(args)] and key not in kwargs and _is_needed(takes[key])
        ]
        return f"{name} needs {' and '.join(needed)}; write it as {_form(make, needed_only=True)}."
    return ""


def _is_needed(one: Parameter) -> bool:
    return one.default is one.empty


def _form(make: Callable[..., object], *, needed_only: bool = False) -> str:
    """How a call is written, with its defaults, or with a usual value for what has none: CWTM(f=2)."""
    takes = [one for one in signature(make).parameters.values() if _is_needed(one) or not needed_only]
    if len(takes) > MOST_SHOWN:
        return f"{_form(make, needed_only=True)}, and help({make.__name__}) lists what else it has"
    shown = (USUAL.get(one.name, "...") if _is_needed(one) else repr(one.default) for one in takes)
    return f"{make.__name__}({', '.join(f'{one.name}={text}' for one, text in zip(takes, shown, strict=True))})"
