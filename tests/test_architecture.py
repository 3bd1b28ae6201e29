"""The direction of imports, the public names, and what `import holdfast` brings along."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import holdfast
from holdfast.rules import CATALOGUE

SOURCE = Path(holdfast.__file__).parent
ORDER = [
    {"disk", "errors", "lazy", "mailbox", "npz", "renamed"},
    {"arrays", "checks", "definitions", "elsewhere", "figures", "journal", "jsonable"},
    {"arguments"},
    {"choice", "places", "structure", "values"},
    {"buffer", "elections", "host"},
    {"leaves"},
    {"masses"},
    {"updates"},
    {"reading"},
    {"contract", "points"},
    {"kinds"},
    {"combine", "decision", "settle", "sight"},
    {"geometry"},
    {"mix"},
    {"driver"},
    {"calls"},
    {"rules"},
    {"twophase"},
    {"spec"},
    {"attacks", "guarantees"},
    {"data", "testing"},
    {"training"},
    {"experiments"},
    {"report"},
    {"engines", "web"},
    {"cli"},
]
UPWARDS = {
    ("contract", "calls"),
    ("contract", "decision"),
    ("kinds", "decision"),
}  # what a call does is looked up at the call
WITHIN_RULES = [
    {"base"},
    {"by_mass"},
    {"average", "clustering", "coordinate"},
    {"clipping", "exact_center", "exact_mean", "krum", "mixing", "stream"},
    {"cosine", "median", "nearest", "principal", "spectral", "subsets"},
    {"huber"},
]


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def _imports(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    found = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    found |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return {name for name in found if name.split(".")[0] == "holdfast"}


def test_imports_point_in_one_direction() -> None:
    place = {room: at for at, rooms in enumerate(ORDER) for room in rooms}
    for path in SOURCE.rglob("*.py"):
        mine = path.relative_to(SOURCE).with_suffix("").parts[0]
        if mine == "__init__":
            continue
        for other in map(_room, _imports(path)):
            if other not in ("", mine) and (mine, other) not in UPWARDS:
                assert place[other] < place[mine], f"{path.name} imports {other}"


def test_the_rules_lean_on_each_other_in_one_direction() -> None:
    place = {name: at for at, names in enumerate(WITHIN_RULES) for name in names}
    for path in (SOURCE / "rules").glob("[a-z]*.py"):
        for name in _imports(path):
            if name.startswith("holdfast.rules."):
                assert place[name.split(".")[2]] < place[path.stem], f"{path.name} imports {name}"


def test_all_equals_the_public_names() -> None:
    loaded = {name for name, value in vars(holdfast).items() if name[0] != "_" and not _is_module(value)}
    assert loaded <= set(holdfast.__all__)
    public = {name for name in holdfast.__all__ if getattr(holdfast, name) is not None}
    assert set(CATALOGUE) <= public
    assert holdfast.rules.__all__ == sorted(holdfast.rules.__all__, key=lambda name: (not name.isupper(), name))


def _is_module(value: object) -> bool:
    return type(value).__name__ == "module"


def test_a_fresh_import_brings_numpy_and_array_api_compat_alone() -> None:
    code = (
        "import sys; before = set(sys.modules); import holdfast; "
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in out if not name.startswith(("_", "numpy", "cython"))] == ["array_api_compat", "holdfast"]


def test_modules_are_short() -> None:
    """Docstrings do not count: they may explain as much as they need."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert len(text.splitlines()) - _lines_of_docstrings(ast.parse(text)) <= 300, path.name


def _lines_of_docstrings(tree: ast.Module) -> int:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    documented = [node.body[0] for node in ast.walk(tree) if isinstance(node, kinds) and ast.get_docstring(node)]
    return sum((first.end_lineno or first.lineno) - first.lineno + 1 for first in documented)
