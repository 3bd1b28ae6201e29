"""The page of the API: every public name with its signature and its docstring."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import formulas

MODULES = (
    "holdfast",
    "holdfast.twophase",
    "holdfast.rules.base",
    "holdfast.decision",
    "holdfast.attacks",
    "holdfast.testing",
    "holdfast.training",
    "holdfast.data",
    "holdfast.guarantees.bounds",
    "holdfast.guarantees.certificate",
    "holdfast.guarantees.certify",
    "holdfast.guarantees.choose",
    "holdfast.guarantees.criteria",
    "holdfast.guarantees.estimate",
    "holdfast.guarantees.profile",
    "holdfast.guarantees.rates",
    "holdfast.guarantees.convergence",
    "holdfast.guarantees.vote",
    "holdfast.experiments.store",
    "holdfast.experiments.sweep",
    "holdfast.report.grid",
    "holdfast.report.tables",
    "holdfast.report.plots",
    "holdfast.report.sheet",
    "holdfast.report.compare",
    "holdfast.engines.flower",
    "holdfast.engines.sharded",
    "holdfast.engines.ddp",
    "holdfast.engines.fsdp",
)
WIDE = 84  # letters of a line on the page
LAZY = {"holdfast.training": ("Workers", "fill")}  # names that bring torch along when they are asked for
INTRODUCTION = (Path(__file__).parent / "api.md").read_text(encoding="utf-8")


def page() -> str:
    """All modules, each name where it is defined for users first."""
    seen: set[int] = set()
    parts = [INTRODUCTION]
    for name in MODULES:
        module = importlib.import_module(name)
        parts += [f"## {name}", formulas.markdown(module.__doc__ or "")]
        for word, thing in public(module):
            if id(thing) in seen:
                continue
            seen.add(id(thing))
            parts.append(_entry(f"{name}.{word}", word, thing))
    return "\n\n".join([*parts, ""])


def public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """What a module offers: its `__all__`, or the classes and functions that it defines."""
    mine = [
        word for word, thing in vars(module).items()
        if word[0] != "_" and getattr(thing, "__module__", "") == module.__name__ and callable(thing)
    ]  # fmt: skip
    for word in (*getattr(module, "__all__", mine), *LAZY.get(module.__name__, ())):
        if module.__name__ == "holdfast" and word not in vars(module):
            continue  # loaded when asked for: it stands with its namespace
        thing = getattr(module, word)
        if callable(thing) and getattr(thing, "__module__", "").startswith("holdfast"):  # not numpy's, under our name
            yield word, thing


def _entry(path: str, word: str, thing: Any) -> str:
    parts = [f"### {word} {{ #{path} }}", f"```python\n{signature(word, thing)}\n```"]
    parts.append(formulas.markdown(_doc(thing)))
    if inspect.isclass(thing):
        rows = [f"`{name}`\n:   {_line(member)}" for name, member in _members(thing)]
        parts += rows
    return "\n\n".join(parts)


def _doc(thing: Any) -> str:
    doc = thing.__doc__ or ""
    return "" if inspect.isclass(thing) and doc.startswith(f"{thing.__name__}(") else doc


def _members(thing: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties that the class itself explains."""
    for name, member in vars(thing).items():
        what = member.fget if isinstance(member, property) else member
        what = what.__func__ if isinstance(what, (staticmethod, classmethod)) else what
        if name[0] != "_" and inspect.isfunction(what) and what.__doc__:
            yield (name if isinstance(member, property) else f"{name}{_words(what)}"), what


def _line(member: Any) -> str:
    told = formulas.markdown(member.__doc__ or "").split("\n\n")[0]
    return " ".join(told.split())


def signature(word: str, thing: Any) -> str:
    """As it is called; long ones one parameter per line."""
    told = f"{word}{_words(thing)}"
    if len(told) <= WIDE:
        return told
    found = inspect.signature(thing)
    lines = [f"    {text}," for text in _parameters(found)]
    return "\n".join([f"{word}(", *lines, f"){_back(thing, found)}"])


def _words(thing: Any) -> str:
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    return f"({', '.join(_parameters(found))}){_back(thing, found)}"


def _back(thing: Any, found: inspect.Signature) -> str:
    nothing = inspect.isclass(thing) or found.return_annotation is found.empty
    return "" if nothing else f" -> {_plain(found.return_annotation)}"


def _parameters(found: inspect.Signature) -> list[str]:
    out: list[str] = []
    for word in found.parameters.values():
        if word.kind is word.KEYWORD_ONLY and not any(text.startswith("*") for text in out):
            out.append("*")
        if word.name != "self":
            out.append(_parameter(word))
    return out


def _parameter(word: inspect.Parameter) -> str:
    stars = "*" if word.kind is word.VAR_POSITIONAL else "**" if word.kind is word.VAR_KEYWORD else ""
    kind = "" if word.annotation is word.empty else f": {_plain(word.annotation)}"
    usual = "" if word.default is word.empty else f"{' = ' if kind else '='}{_value(word.default)}"
    return f"{stars}{word.name}{kind}{usual}"


def _value(given: Any) -> str:
    """A default as it would be written; three dots stand for what a class makes anew for each value."""
    told = re.sub(r" at 0x[0-9a-f]+", "", repr(given))
    return "..." if told.startswith("<") else told


def _plain(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
