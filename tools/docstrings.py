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

ROOMS = "attacks data training guarantees experiments report testing"
ENGINES = "flower nvflare ddp fsdp sharded"
MODULES = (
    "holdfast",
    *(f"holdfast.{room}" for room in ROOMS.split()),
    *(f"holdfast.engines.{engine}" for engine in ENGINES.split()),
)
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
    for path in waiting:  # which grows
        module = importlib.import_module(path)
        for name in (*module.__all__, *LAZY.get(path, ())):
            thing = getattr(module, name)
            if isinstance(thing, ModuleType) and hasattr(thing, "__all__") and thing.__name__ not in waiting:
                waiting.append(thing.__name__)
            if id(thing) not in seen:
                seen.add(id(thing))
                found[f"{path}.{name}"] = thing
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
    if isinstance(thing, enum.EnumMeta) or getattr(thing, "_is_protocol", False):  # which are not called
        return []
    names: list[str] = []
    for name, one in inspect.signature(thing).parameters.items():
        packed = re.fullmatch(r"Unpack\[(\w+)\]", str(one.annotation)) if one.kind is one.VAR_KEYWORD else None
        names += typing.get_type_hints(vars(sys.modules[thing.__module__])[packed[1]]) if packed else [name]
    return [name for name in names if name != "self" and name[0] != "_"]


def needed(thing: Any) -> list[str]:
    """The sections that a class or a function must have."""
    if isinstance(thing, type) and issubclass(thing, BaseException):
        return []
    out = ["Parameters"] if parameters(thing) else []
    back = "None" if isinstance(thing, type) else str(inspect.signature(thing).return_annotation)
    if back not in ("None", "NoReturn"):
        out.append("Yields" if back.startswith(("Iterator", "Generator")) else "Returns")
    if isinstance(source := getattr(thing, "source", ""), str) and source:  # rules, attacks
        out += ["Notes", "References"]
    return [*out, "Examples"]


def wrong(thing: Any, doc: str, wanted: list[str]) -> Iterator[str]:
    """What is wrong with the first line, the sections, the parameters and the examples."""
    line, _, rest = doc.partition("\n")
    if not line.endswith(".") or SENTENCES.search(line):
        yield f"the first line is not one sentence that ends in a period: {line!r}"
    if rest and not rest.startswith("\n"):
        yield "the first line goes on in a second one"
    text = sections(doc)
    held = list(text)[1:]
    if strange := [name for name in held if name not in SECTIONS]:
        yield f"unknown sections: {', '.join(strange)}"
    elif held != sorted(held, key=SECTIONS.index):
        yield f"the sections stand in another order than {', '.join(SECTIONS)}"
    if missing := [name for name in wanted if name not in held]:
        yield f"no section {', '.join(missing)}"
    if "Parameters" in held and sorted(told := documented(text["Parameters"])) != sorted(real := parameters(thing)):
        yield f"Parameters explains {', '.join(told)}; the call takes {', '.join(real)}"
    if isinstance(thing, type) and issubclass(thing, BaseException) and not re.search("Raised|raises", doc):
        yield "no sentence says when it is raised"
    test, said = doctest.DocTestParser().get_doctest(doc, {"__name__": "__main__"}, line, line, 0), io.StringIO()
    if doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.write).failed:
        yield f"an example fails alone: {' '.join(said.getvalue().split())[:400]}"
    if any(doctest.SKIP in example.options for example in test.examples):
        yield "an example is skipped"


def members(thing: Any) -> Iterator[tuple[str, Any, bool]]:
    """The public methods and properties of a class, and whether their arguments must be explained."""
    for owner in getattr(thing, "__mro__", ()):
        for name, member in vars(owner).items() if owner.__module__.startswith("holdfast") else ():
            again = any(name in vars(base) for base in owner.__mro__[1:])  # its docstring may stand there
            real = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if inspect.isfunction(real) and (name[0] != "_" or name in CALLED) and (real.__doc__ or not again):
                yield name, real, name in CALLED or (owner is thing and not again)


def check(modules: tuple[str, ...] = MODULES) -> list[str]:
    """What is wrong, one line for each finding."""
    found, names, read = [], public(modules), set[int]()
    if len(names) > MAX_NAMES:
        found.append(f"{len(names)} public names; at most {MAX_NAMES}")
    for path, thing in names.items():
        if inspect.isclass(thing) or inspect.isroutine(thing):
            doc = inspect.cleandoc(thing.__doc__ or "")
            found += [f"{path}: {what}" for what in wrong(thing, doc, needed(thing))]
            for name, real, whole in members(thing):
                if id(real) not in read:
                    read.add(id(real))
                    wanted = needed(real)[:-1] if whole and parameters(real) else []
                    told = wrong(real, inspect.getdoc(real) or inspect.getdoc(getattr(thing, name)) or "", wanted)
                    found += [f"{path}.{name}: {what}" for what in told]
    return found


def main() -> int:
    """Print what was found; 1 if anything was."""
    logging.disable()  # examples may log
    modules = tuple(sys.argv[1:]) or MODULES
    print("\n".join(found := check(modules)) or f"{len(public(modules))} public names have docstrings that teach")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
