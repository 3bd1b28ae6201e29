"""The ways in which a site can misbehave, one by one: what the server must live with."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import nvflare.client as flare

Model = dict[str, np.ndarray]
Spoil = Callable[[Model, Model], dict[str, Any]]  # of the model that came and the one that it was trained to

SPOILED: dict[str, Spoil] = {
    "reverse": lambda old, new: {name: old[name] - 10 * (new[name] - old[name]) for name in new},
    "nan": lambda _, new: {name: np.full_like(new[name], np.nan) for name in new},
    "huge": lambda _, new: {name: np.full_like(new[name], 1e38) for name in new},
    "shape": lambda _, new: {name: new[name].ravel()[:-1] for name in new},
    "keys": lambda _, new: {f"not-{name}": new[name] for name in new},
    "text": lambda _, new: dict.fromkeys(new, "x" * 1_000_000),
}
FAULTS = ("exception", "exit", "silent", *SPOILED)


def fault_of(site: str, lies: list[str], turn: int) -> str:
    """What a site does in a round, counted from 0; the last of its faults stays.

    >>> [fault_of("site-4", ["site-4=nan,silent"], turn) for turn in range(3)], fault_of("site-1", [], 0)
    (['nan', 'silent', 'silent'], '')
    """
    faults = next((lie.split("=", 1)[1].split(",") for lie in lies if lie.startswith(f"{site}=")), [""])
    return faults[min(turn, len(faults) - 1)]


def misbehave(fault: str, old: Model, new: Model) -> dict[str, Any]:
    """What a site with this fault sends instead of the model that it has learned."""
    if fault == "exception":
        raise RuntimeError("this site is broken")
    if fault == "exit":
        os._exit(1)
    while fault == "silent" and flare.is_running():
        time.sleep(0.2)  # until the job is over
    return SPOILED[fault](old, new) if fault in SPOILED else new
