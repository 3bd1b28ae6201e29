"""What engines write of a round: a line of JSON, with workers by name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.rules.decision import Decision

FAR, MOST = 5.0, 1e300  # times the middle distance: from where somebody is called far, and the most that is told


def add(path: Path, line: dict[str, Any]) -> None:
    """One more line; what is no number is refused, so that every reader can read it."""
    torn = path.is_file() and path.stat().st_size and path.read_bytes()[-1:] != b"\n"  # by a process that was killed
    with path.open("a") as out:
        out.write("\n" * bool(torn) + json.dumps(line, allow_nan=False) + "\n")


def named(decision: Decision, names: Sequence[str]) -> dict[str, Any]:
    """Who was kept, left out or dropped, and why; who of the left out was far, in distances of the middle one."""
    return {
        "kept": [names[i] for i in decision.kept],
        "left_out": {names[i]: decision.rule.why for i in decision.left_out},
        "dropped": {names[i]: why for i, why in decision.dropped.items()},
        "far": {names[i]: times for i, times in _far(decision).items()},
    }


def _far(decision: Decision) -> dict[int, float]:
    """A rule leaves f out in every round, sound or not; those that stand far off are another matter."""
    radii = decision.radii()
    if radii is None or not (middle := float(np.nanmedian(radii))) > 0:
        return {}
    with np.errstate(over="ignore"):
        times = np.minimum(radii / middle, MOST)
    return {i: float(f"{times[i]:.3g}") for i in decision.left_out if times[i] > FAR}
