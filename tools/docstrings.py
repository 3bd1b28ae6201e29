"""Check the docstrings of all public names: numpydoc sections, documented parameters, examples that run alone.

A public name is one in the `__all__` of a module below, or of a module that such an `__all__` names. Modules and
constants are counted, and not read. One line is printed for each finding.

example:  python tools/docstrings.py
          python tools/docstrings.py holdfast.attacks holdfast.data
"""

from __future__ import annotations

import doctest
import enum
import importlib
import inspect
import io
import logging
import re
import sys
import typing
from collections.abc import Iterator
from types import ModuleType
from typing import Any

ROOMS = ("attacks", "data", "training", "guarantees", "experiments", "report", "testing")
ENGINES = ("flower", "ddp", "sharded")
MODULES = ("holdfast", *(f"holdfast.{room}" for room in ROOMS), *(f"holdfast.engines.{name}" for name in ENGINES))
LAZY = {"holdfast.training": ("Workers", "fill")}  # public names that bring torch along, and so are in no __all__
MAX_NAMES = 200
SECTIONS = ("Parameters", "Attributes", "Returns", "Yields", "Raises", "See Also", "Notes", "References", "Examples")
HEADING = re.compile(r"^(\S.*)\n-{3,}$", re.M)
CALLED = {"__call__", "aggregate", "apply", "decide"}  # methods that users call on every rule
SENTENCES = re.compile(r"(?<!et al)[.!?] +[A-Z]")  # two of them in one line


def public(modules: tuple[str, ...]) -> dict[str, Any]:
    """The public names and what they stand for; what several modules export has its first name only."""
    found: dict[str, Any] = {}
    waiting, seen = list(modules), set[int]()
    while waiting:
        module = importlib.import_module(waiting.pop(0))
        for name in (*module.__all__, *LAZY.get(module.__name__, ())):
            thing, path = getattr(module, name), f"{module.__name__}.{name}"
            if isinstance(thing, ModuleType):
                inside = thing.__name__.startswith(f"{module.__name__}.") and hasattr(thing, "__all__")
                waiting += [thing.__name__] if inside and thing.__name__ not in (*modules, *waiting) else []
            if id(thing) not in seen:
                seen.add(id(thing))
                found[path] = thing
    return found


def sections(doc: str) -> dict[str, str]:
    """The text below each heading, in order; what stands above the first heading is under the empty name."""
    parts = HEADING.split(doc)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def documented(text: str) -> list[str]:
    """The names that a section of parameters explains."""
    heads = re.findall(r"^(\S.*?)(?: : .*)?$", text, re.M)
    return [name.strip().lstrip("*") for head in heads for name in head.split(",")]


def parameters(thing: Any) -> list[str]:
    """The names that a call takes; `**reading: Unpack[Reading]` counts as the keys of `Reading`."""
    names = []
    for name, one in inspect.signature(thing).parameters.items():
        packed = re.fullmatch(r"Unpack\[(\w+)\]", str(one.annotation)) if one.kind is one.VAR_KEYWORD else None
        keys = typing.get_type_hints(thing.__globals__[packed[1]]) if packed else {name: None}
        names += [key for key in keys if key != "self" and not key.startswith("_")]
    return names


def returns(thing: Any) -> bool:
    """Whether a function gives something back."""
    return str(inspect.signature(thing).return_annotation) not in ("None", "NoReturn", "<class 'NoneType'>")


def needed(thing: Any) -> list[str]:
    """The sections that a class or a function must have."""
    if isinstance(thing, type) and issubclass(thing, BaseException):
        return []
    out = ["Parameters"] if takes_arguments(thing) and parameters(thing) else []
    if not isinstance(thing, type) and returns(thing):
        out.append("Yields" if "Iterator" in str(inspect.signature(thing).return_annotation) else "Returns")
    if isinstance(source := getattr(thing, "source", ""), str) and source:  # rules, attacks
        out += ["Notes", "References"]
    return [*out, "Examples"]


def takes_arguments(thing: Any) -> bool:
    """Whether a call has arguments to explain; enumerations and protocols are not called."""
    return not (isinstance(thing, enum.EnumMeta) or getattr(thing, "_is_protocol", False))


def first_line(doc: str) -> Iterator[str]:
    """What is wrong with the first line."""
    line, _, rest = doc.partition("\n")
    if not line.endswith(".") or SENTENCES.search(line):
        yield f"the first line is not one sentence that ends in a period: {line!r}"
    if rest and not rest.startswith("\n"):
        yield "the first line goes on in a second one"


def shape(thing: Any, doc: str, wanted: list[str]) -> Iterator[str]:
    """What is wrong with the sections and the parameters."""
    yield from first_line(doc)
    held = list(sections(doc))[1:]
    if strange := [name for name in held if name not in SECTIONS]:
        yield f"unknown sections: {', '.join(strange)}"
    elif held != sorted(held, key=SECTIONS.index):
        yield f"the sections stand in another order than {', '.join(SECTIONS)}"
    if missing := [name for name in wanted if name not in held and not (name == "Returns" and "Yields" in held)]:
        yield f"no section {', '.join(missing)}"
    if "Parameters" in held and takes_arguments(thing):
        told, real = documented(sections(doc)["Parameters"]), parameters(thing)
        if sorted(told) != sorted(real):
            yield f"Parameters explains {', '.join(told)}; the call takes {', '.join(real)}"
    if isinstance(thing, type) and issubclass(thing, BaseException) and "Raised" not in doc and "raises" not in doc:
        yield "no sentence says when it is raised"


def examples(path: str, doc: str) -> Iterator[str]:
    """The examples that fail in a namespace of their own."""
    test = doctest.DocTestParser().get_doctest(doc, {"__name__": "__main__"}, path, path, 0)
    said = io.StringIO()
    if doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.write).failed:
        yield f"an example fails alone: {' '.join(said.getvalue().split())[:400]}"
    if any(doctest.SKIP in example.options for example in test.examples):
        yield "an example is skipped"


def members(thing: Any) -> Iterator[tuple[str, Any, bool]]:
    """The public methods and properties of a class, each once, and whether their arguments must be explained."""
    for owner in getattr(thing, "__mro__", ()):
        for name, member in vars(owner).items() if owner.__module__.startswith("holdfast") else ():
            again = any(name in vars(base) for base in owner.__mro__[1:])  # its docstring may stand there
            real = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if inspect.isfunction(real) and (name[0] != "_" or name in CALLED) and (real.__doc__ or not again):
                own = owner is thing and not again
                yield name, member, not isinstance(member, property) and (own or name in CALLED)


def check(modules: tuple[str, ...] = MODULES) -> list[str]:
    """What is wrong, one line for each finding."""
    found, names, read = [], public(modules), set[int]()
    if len(names) > MAX_NAMES:
        found.append(f"{len(names)} public names; at most {MAX_NAMES}")
    for path, thing in names.items():
        if not inspect.isclass(thing) and not inspect.isroutine(thing):
            continue
        doc = inspect.cleandoc(thing.__doc__ or "")
        found += [f"{path}: {what}" for what in (*shape(thing, doc, needed(thing)), *examples(path, doc))]
        for name, member, whole in members(thing):
            if id(member) in read:
                continue
            read.add(id(member))
            doc = inspect.getdoc(getattr(thing, name)) or ""
            real = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            wanted = needed(real)[:-1] if whole and parameters(real) else []
            told = (*shape(real, doc, wanted), *examples(path, doc))
            found += [f"{path}.{name}: {what}" for what in told]
    return found


def main() -> int:
    """Print what was found; 1 if anything was."""
    logging.disable()  # examples may log
    modules = tuple(sys.argv[1:]) or MODULES
    found = check(modules)
    print("\n".join(found) or f"{len(public(modules))} public names have docstrings that teach")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
