"""What the benchmarks share: interleaved timing, a plain table, results as JSON, the peer."""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import geometric_mean
from types import ModuleType
from typing import Any

from holdfast.training.code import code_version

Work = Callable[[], object]
Row = dict[str, Any]
HISTORY = Path(__file__).resolve().parent.parent / "results" / "benchmarks" / "history.jsonl"
REST, BRIEF = 0.1, 0.3  # seconds
UNUSED = ("torchvision", "torchvision.datasets", "torchvision.transforms", "seaborn", "matplotlib", "matplotlib.pyplot")


def seconds(work: Work) -> float:
    """How long one call takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def interleaved(first: Work, second: Work, rounds: int) -> tuple[float, float]:
    """The best time of each over so many rounds, taken in turn, so that both meet the same noise."""
    brief = max(seconds(first), seconds(second)) < BRIEF
    pairs = [(settled(first, brief), settled(second, brief)) for _ in range(rounds)]
    return min(a for a, _ in pairs), min(b for _, b in pairs)


def settled(work: Work, brief: bool) -> float:
    """The time of a call that finds the machine as its own last call left it.

    OpenBLAS spins for 2^26 cycles after a product and OpenMP for some milliseconds, on the other side's time: rest
    until they sleep; then, where calls are brief, an untimed call warms caches and threads.
    """
    time.sleep(REST)
    if brief:
        work()
    return seconds(work)


def result(value: float | None, bar: float, least: bool, /, **what: Any) -> Row:
    """A row of the table: a value, and whether it meets its bar (at least it if `least`, else at most)."""
    met = None if value is None else bool(value >= bar if least else value <= bar)
    kept = None if value is None else float(f"{value:.3g}")
    return {**what, "value": kept, "bar": f"{'>=' if least else '<='} {bar:g}", "met": met}


def table(rows: Sequence[Row]) -> str:
    """The rows as aligned text under the names of their fields."""
    names = list(rows[0])
    lines = [names, *([_cell(row[name]) for name in names] for row in rows)]
    wide = [max(len(line[c]) for line in lines) for c in range(len(names))]
    return "\n".join("  ".join(t.ljust(w) for t, w in zip(line, wide, strict=True)).rstrip() for line in lines)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, float):
        return f"{value:.3g}"
    return "-" if value is None else str(value)


def save(out: Path, rows: Sequence[Row], packages: Sequence[str]) -> None:
    """Write the rows, the versions of packages and the number of cores; nothing that tells the machine."""
    versions = {name: _version(name) for name in packages}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"versions": versions, "cores": cores(), "rows": list(rows)}, indent=1) + "\n")
    if out.resolve().parent == HISTORY.parent:
        remember(out.stem, rows, HISTORY)


def remember(name: str, rows: Sequence[Row], history: Path) -> None:
    """Add a line to the history: the day, the code, facts of the machine that do not name it, the ratios."""
    line = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "code": code_version(),
        "cores": cores(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "benchmark": name,
        "ratios": ratios(rows),
    }
    with history.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def ratios(rows: Sequence[Row]) -> dict[str, float]:
    """The geometric mean of the values of each measure.

    >>> ratios([{"measure": "time ratio", "value": 2.0}, {"measure": "time ratio", "value": 8.0}, {"value": None}])
    {'time ratio': 4.0}
    """
    values = dict[str, list[float]]()
    for row in rows:
        value = row.get("value")
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            values.setdefault(str(row.get("measure", "value")), []).append(float(value))
    return {name: float(f"{geometric_mean(some):.3g}") for name, some in values.items()}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def progress(text: str) -> None:
    """A line for whoever waits."""
    print(text, file=sys.stderr, flush=True)


class Empty(ModuleType):
    """A module whose every name is a function that does nothing."""

    def __getattr__(self, name: str) -> Work:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


def byzfl() -> ModuleType | None:
    """ByzFL, with empty modules in the place of those that it imports without need here; None if not there."""
    modules = {name: Empty(name) for name in UNUSED if name not in sys.modules}
    for name, module in modules.items():
        parent, _, child = name.rpartition(".")
        if parent in modules:
            setattr(modules[parent], child, module)
    sys.modules.update(modules)
    try:
        return importlib.import_module("byzfl")
    except ImportError as error:
        progress(f"ByzFL is left out ({error}); install it by: pip install --no-deps byzfl==0.0.11")
        return None
    finally:
        for name in modules:
            del sys.modules[name]
