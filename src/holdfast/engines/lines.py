"""What engines write of a round: a line of JSON, with workers by name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.rules.decision import Decision


def add(path: Path, line: dict[str, Any]) -> None:
    """One more line; what is no number is refused, so that every reader can read it."""
    with path.open("a") as out:
        out.write(json.dumps(line, allow_nan=False) + "\n")


def named(decision: Decision, names: Sequence[str]) -> dict[str, Any]:
    """Who was kept, left out or dropped, and why."""
    return {
        "kept": [names[i] for i in decision.kept],
        "left_out": {names[i]: decision.rule.why for i in decision.left_out},
        "dropped": {names[i]: why for i, why in decision.dropped.items()},
    }
