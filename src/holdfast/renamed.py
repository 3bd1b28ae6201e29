"""Names that were changed: an old name answers with the new one for one minor version, and a warning names the new one.

`RENAMED` is the list of them, and the table in docs/migration.md is checked against it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

RENAMED = {  # the full old name: the new name at the same place, and the version that brought it
    "holdfast.attacks.seven": ("list_paper_attacks", "0.2.0"),
    "holdfast.data.counts": ("count_classes", "0.2.0"),
    "holdfast.data.standardised": ("standardise_images", "0.2.0"),
    "holdfast.decision.Decision.left_out": ("excluded", "0.2.0"),
    "holdfast.engines.flower.model_of": ("read_model", "0.2.0"),
    "holdfast.engines.flower.momentum": ("apply_momentum", "0.2.0"),
    "holdfast.engines.flower.record_of": ("make_record", "0.2.0"),
    "holdfast.engines.sharded.candidates": ("propose_candidates", "0.2.0"),
}
RENAMED_KEYS = {"left_out": "excluded"}  # of lines and records in JSON


def read_renamed(owner: object, name: str) -> Any:
    """The attribute that an old name of a module, or of an object, stands for now. Call it in `__getattr__`.

    Parameters
    ----------
    owner : module or object
        Whose attribute was asked for.
    name : str
        The name that was asked for, and that `owner` does not have.

    Returns
    -------
    object
        The attribute of the new name.

    Raises
    ------
    AttributeError
        If the name was never in use here.
    """
    for place in _places(owner):
        if (full := f"{place}.{name}") in RENAMED:
            new, since = RENAMED[full]
            said = (
                f"{name} is named {new} since holdfast {since}; write {new}. The old name goes with the next version."
            )
            warnings.warn(said, DeprecationWarning, stacklevel=3)
            return getattr(owner, new)
    who = f"module {owner.__name__!r}" if isinstance(owner, ModuleType) else f"{type(owner).__name__!r} object"
    raise AttributeError(f"{who} has no attribute {name!r}", name=name, obj=owner)


def answer_old_names(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module whose names were changed."""
    return lambda name: read_renamed(sys.modules[module], name)


def rename_keys(record: dict[str, Any]) -> dict[str, Any]:
    """A line or record of JSON under the names of today; one that has them already stays as it is.

    >>> rename_keys({"round": 1, "left_out": {"2": "far"}})
    {'round': 1, 'excluded': {'2': 'far'}}
    """
    return {RENAMED_KEYS.get(key, key): entry for key, entry in record.items()}


def _places(owner: object) -> list[str]:
    """Where names of an owner are listed: its module, or its class and the classes above."""
    if isinstance(owner, ModuleType):
        return [owner.__name__]
    return [f"{cls.__module__}.{cls.__qualname__}" for cls in type(owner).__mro__]
