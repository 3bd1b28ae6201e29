"""What engines write of a round: a line of JSON, with workers by name."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from holdfast.decision import Decision
from holdfast.disk import open_regular
from holdfast.masses import name_masses

FAR, MAX_TIMES = 5.0, 1e300  # times the middle distance: from where a worker is far, and the most that is written


def add(path: Path, line: dict[str, Any], *, follow: bool = False) -> None:
    """Add one line to a journal; what is no number is refused, so that every reader can read it.

    A link in the place of the file is followed only if the user named it, as `follow` says.
    """
    text = json.dumps(line, allow_nan=False) + "\n"
    with open_lines(path, follow=follow) as out:
        out.write(text.encode())


def open_lines(path: Path, *, follow: bool = False) -> IO[bytes]:
    """Open a file of lines to add some, behind what a killed process has left half written; make it if need be."""
    out = open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, follow=follow)
    if out.seek(0, os.SEEK_END):
        out.seek(-1, os.SEEK_END)
        if out.read(1) != b"\n":
            out.write(b"\n")
    return out


def named(decision: Decision, names: Sequence[str]) -> dict[str, Any]:
    """Who was kept, excluded or dropped, and why; who was far from the answer, in distances of the middle one.

    A note, such as that f was lowered, is there if the decision has one; masses are there if workers count differently.
    """
    note = {"note": decision.note} if decision.note else {}
    return {
        **note,
        "kept": [names[i] for i in decision.kept],
        "excluded": {names[i]: decision.why for i in decision.excluded},
        "dropped": {names[i]: why for i, why in decision.dropped.items()},
        "far": {names[i]: times for i, times in _far(decision).items()},
        **name_masses(decision.masses, names),
    }


def _far(decision: Decision) -> dict[int, float]:
    """Who is far from the answer, kept or not: a rule excludes f in every round, sound or not."""
    radii = decision.radii()
    if radii is None or not (middle := float(np.nanmedian(radii))) > 0:
        return {}
    with np.errstate(over="ignore"):
        times = np.minimum(radii / middle, MAX_TIMES)
    return {int(i): float(f"{times[i]:.3g}") for i in decision.rows if times[i] > FAR}
