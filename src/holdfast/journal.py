"""The journal of an engine: a line of JSON for each round, read with care, since a line may be damaged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.errors import BadInput
from holdfast.renamed import rename_keys

FORMS = {("excluded", "dropped", "refused", "far", "bad_votes"): dict, ("kept", "silent", "no_vote"): list}
BEGINNING = b'{"round"'  # of a line that an engine writes, whole or not


def scan_journal(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the whole lines of a journal, one at a time; damaged ones, and those of another form, are left out.

    Raises
    ------
    BadInput
        If there is no such file, or no line in it is, or began as, a line of a journal.
    """
    path = Path(path)
    if not path.exists():
        raise BadInput(f"{path} does not exist; name a strategy's folder, its rounds.jsonl or a Ledger's file.")
    if path.is_dir():
        path = path / "rounds.jsonl"
    foreign = BadInput(f"{path} is no journal; name a strategy's folder, its rounds.jsonl or a Ledger's file.")
    if not path.is_file():
        raise foreign
    ours, others = False, False
    with path.open("rb") as file:
        for text in file:
            if (line := parse_line(text)) is not None:
                ours = True
                yield line
            elif text.strip():
                ours, others = ours or text.startswith(BEGINNING), True
    if others and not ours:
        raise foreign


def read_journal(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a journal; long ones are better read by `scan_journal`."""
    return list(scan_journal(path))


def parse_line(text: bytes) -> dict[str, Any] | None:
    """A line of a journal, or None if it is damaged or in no form of ours."""
    return _line(text.decode(errors="replace")) if text.strip() else None


def _line(text: str) -> dict[str, Any] | None:
    """A line of a journal, its parts in their forms; None if it is none."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict) or not isinstance(line.get("round"), int):
        return None
    line = rename_keys(line)
    for names, form in FORMS.items():
        for name in names:
            if not isinstance(line.get(name, form()), form):
                return None
    said = isinstance(line.get("winner", ""), str) and all(
        isinstance(x, (int, float)) for x in line.get("far", {}).values()
    )
    return (
        line
        if said and all(isinstance(name, str) for part in ("kept", "silent") for name in line.get(part, ()))
        else None
    )
