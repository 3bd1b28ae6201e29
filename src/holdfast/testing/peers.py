"""Aggregators of other libraries, and functions of one's own, by their text: "byzfl:Krum", "my.module:aggregate"."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from holdfast.errors import BadInput
from holdfast.spec import unknown

Array = np.ndarray
Call = Callable[[Array], Any]
TIES = {"order": "two vectors that are nearest to each other tie"}
SETS = {"order": "several sets can have the least diameter"}
DRAWS = {"order": "it starts from a random vector"}
PIVOT = {"order": "it trusts worker 0"}


@dataclass(frozen=True)
class Peer:
    """An aggregator that was found by its text.

    Parameters
    ----------
    name : str
        The text.
    call : callable
        It takes an array of shape (n, d) and returns d numbers.
    trusted : tuple of int
        The workers that it assumes to be honest.
    not_promised : mapping
        Checks that may fail, each with the reason.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.testing import find_aggregator
    >>> peer = find_aggregator("numpy:median", f=1)
    >>> float(peer.call(np.array([1.0, 2.0, 9.0])))
    2.0
    """

    name: str
    call: Call
    trusted: tuple[int, ...] = ()
    not_promised: Mapping[str, str] = field(default_factory=dict)


def _byzfl(name: str, f: int) -> Call:
    """A new object for each call, since some remember the last one."""
    kind = getattr(_without_init("byzfl", "aggregators"), name)
    arguments = {"f": f} if _takes_f(kind) else {}
    return lambda X: kind(**arguments)(X)


def _flower(name: str, f: int) -> Call:
    """The numpy functions of Flower's strategies; every client has the same number of examples."""
    rules = _import("flwr", "flwr.server.strategy.aggregate")

    def call(X: Array) -> Any:
        results = [([row], 1) for row in X]
        n = len(results)
        match name:
            case "FedAvg":
                (answer,) = rules.aggregate(results)
            case "FedMedian":
                (answer,) = rules.aggregate_median(results)
            case "FedTrimmedAvg":
                (answer,) = rules.aggregate_trimmed_avg(results, (f + 0.5) / n)  # f / n would at times trim f - 1
            case "Krum":
                (answer,) = rules.aggregate_krum(results, f, 0)
            case "MultiKrum":
                (answer,) = rules.aggregate_krum(results, f, n - f)
            case _:
                (answer,) = rules.aggregate_bulyan(results, f, rules.aggregate_krum, to_keep=0)
        return answer

    return call


def _krum(name: str, f: int) -> Call:
    """The rules of krum take tensors, n and f."""
    torch = _import("torch", "torch")
    file = {"MultiKrum": "multikrum", "TrimmedMean": "trimmed_mean", "GeometricMedian": "geometric_median"}
    kind = getattr(_import("krum", f"krum.primitives.aggregators.{file.get(name, name.lower())}"), name)
    return lambda X: kind.aggregate(torch.from_numpy(np.array(X)), n=len(X), f=f).numpy()


LIBRARIES: dict[str, tuple[Callable[[str, int], Call], str]] = {
    "byzfl": (
        _byzfl,
        "Average Median TrMean Meamed GeometricMedian Krum MultiKrum CenteredClipping MDA MoNNA CAF SMEA",
    ),
    "flower": (_flower, "FedAvg FedMedian FedTrimmedAvg Krum MultiKrum Bulyan"),
    "krum": (_krum, "Average Median TrimmedMean GeometricMedian Krum MultiKrum Bulyan Medoid Brute Aksel"),
}
KNOWN: dict[str, Mapping[str, str]] = {
    "byzfl:CAF": DRAWS,
    "byzfl:MDA": SETS,
    "byzfl:MoNNA": PIVOT,
    "byzfl:SMEA": DRAWS,
    "flower:Bulyan": TIES,
    "krum:Bulyan": TIES,
    "krum:Brute": SETS,
}


def find_aggregator(text: str, *, f: int) -> Peer:
    """Find an aggregator of another library, or a function of your own, by its text.

    Parameters
    ----------
    text : str
        ``"byzfl:Krum"``, ``"flower:Bulyan"`` or ``"krum:MultiKrum"`` for the libraries that are known here;
        ``"package.module:name"`` or ``"file.py:name"`` for a function of an array, or for a class whose values are such
        functions. If it has a parameter `f`, it is given f. The code of the module or file is run.
    f : int
        How many Byzantine workers it must withstand.

    Returns
    -------
    Peer

    Raises
    ------
    BadInput
        If the library is not installed, or if there is no such name in it.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast.testing import find_aggregator
    >>> find_aggregator("numpy:mean", f=1).name
    'numpy:mean'
    """
    package, _, name = text.partition(":")
    if not package or not name:
        raise BadInput(f"{text!r} was given; write a peer as byzfl:Krum, a function as module:name or file.py:name.")
    if package not in LIBRARIES:
        return Peer(text, _own(package, name, f))
    load, names = LIBRARIES[package]
    if name not in names.split():
        raise BadInput(unknown(name, names.split(), f"aggregator of {package}"))
    excuses = KNOWN.get(text, {})
    return Peer(text, load(name, f), (0,) if excuses is PIVOT else (), excuses)


def _own(module: str, name: str, f: int) -> Call:
    member: Any = import_code(module)
    for part in name.split("."):
        if not hasattr(member, part):
            raise BadInput(f"{module} has no {name}; name a function of an array of shape (n, d).")
        member = getattr(member, part)
    if not callable(member):
        raise BadInput(f"{module}:{name} cannot be called; name a function of an array of shape (n, d).")
    arguments = {"f": f} if _takes_f(member) else {}
    made: Any = member(**arguments) if inspect.isclass(member) else partial(member, **arguments)
    if not callable(made):
        raise BadInput(f"values of {module}:{name} cannot be called; name a function of an array of shape (n, d).")
    return made


def _takes_f(function: Callable[..., Any]) -> bool:
    try:
        return "f" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def import_code(where: str) -> ModuleType:
    """Import a module, or a file whose name ends in .py. This runs its code.

    Raises
    ------
    BadInput
        If there is no such module or file, or if its code raises.
    """
    if not where.endswith(".py"):
        return _import(where.partition(".")[0], where)
    path = Path(where).resolve()
    if not path.is_file():
        raise BadInput(
            f"{where} is no file; name a file, as in my_rules.py:Crowd, or a module, as in package.module:Crowd."
        )
    name = path.stem if path.stem not in sys.modules else f"{path.stem} of {path.parent}"
    for loaded in (sys.modules.get(path.stem), sys.modules.get(name)):
        if loaded is not None and getattr(loaded, "__file__", None) == str(path):
            return loaded
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # of a file that ends in .py
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # where annotations and pickles look for it
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise BadInput(f"{where} cannot be imported ({_first_line(error)}); mend the file.") from None
    return module


def _import(package: str, module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise BadInput(f"{package} cannot be used here ({error}); pip install {package}, or set PYTHONPATH.") from None
    except Exception as error:
        raise BadInput(f"{module} cannot be imported ({_first_line(error)}); mend the module.") from None


def _first_line(error: Exception) -> str:
    """The error in one line, with the line of the code that raised it."""
    text = f"{type(error).__name__}: {' '.join(str(error).split()).rstrip('.')}"
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) or not frames:
        return text
    return f"{text}, line {frames[-1].lineno} of {Path(frames[-1].filename).name}"


def _without_init(package: str, module: str) -> ModuleType:
    """A module of a package whose own `__init__` may import more than is installed."""
    full = f"{package}.{module}"
    if full in sys.modules or package in sys.modules:
        return _import(package, full)
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise BadInput(f"{package} is not installed; pip install {package}")
    bare = ModuleType(package)
    bare.__path__ = list(spec.submodule_search_locations)
    sys.modules[package] = bare
    try:
        return _import(package, full)
    finally:
        del sys.modules[package]
