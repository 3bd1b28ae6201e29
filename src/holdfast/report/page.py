"""A page that shows rules under attacks: one file, no network, everything from the runs' records."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from holdfast.disk import write_whole
from holdfast.errors import BadInput, article
from holdfast.jsonable import to_json

LISTS, COUNTS = ("setting", "rules", "attacks", "cells"), ("rounds", "workers", "liars")
KEYS: dict[str, Any] = {"title": str} | dict.fromkeys(LISTS, list) | dict.fromkeys(COUNTS, int)
ROUNDS = ("curve", "kept", "winners", "leads", "events")
CELL: dict[str, Any] = {"rule": str, "attack": str, "accuracy": float | int | None} | dict.fromkeys(ROUNDS, list)
HARMFUL = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def write(data: Mapping[str, Any], out: Path) -> None:
    """Write the page, whole or not at all.

    title, setting
        a text, and pairs (label, text).
    rules, attacks
        rows and columns in their order; `names` may shorten a rule, `explained` may say what an attack does. An
        attack called "none" has no part in Worst.
    rounds, workers, liars
        counts; the last workers are the liars.
    cells
        one per training, in any order; those that did not end may be missing. `accuracy` (None: not known), `curve` of
        (rounds done, accuracy), and by round: `kept` (one letter per worker: k kept, - excluded, x dropped, . absent;
        '' for a skipped round), `winners`, `leads`, and `events` as (round from 0, text).

    All of it is shown as text: a name may hold markup and does no harm.
    """
    _check(data)
    parts = {
        "title": escape(data["title"]),
        "paragraph": escape(_paragraph(data)),
        "setting": "".join(f"<dt>{escape(str(a))}</dt><dd>{escape(str(b))}</dd>" for a, b in data["setting"]),
        "table": _table(data),
        "data": json.dumps(to_json(data)).translate(HARMFUL),
    }
    template = files("holdfast.report").joinpath("page.html").read_text(encoding="utf-8")
    page = re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)  # one pass: what is put in is not read
    put(page, out)


def put(text: str, out: Path) -> None:
    """A page or a table into its file, whole or not at all."""
    try:
        write_whole(out, text.encode("utf-8", "xmlcharrefreplace"))  # half a surrogate pair has no UTF-8
    except OSError as error:
        raise BadInput(f"{out} cannot be written ({error.strerror or error}); name another file.") from None


def worst(data: Mapping[str, Any], rule: str) -> float | None:
    """The lowest accuracy over the attacks; None unless all are known."""
    accuracies = [_accuracies(data).get((rule, attack)) for attack in data["attacks"] if attack != "none"]
    known = [value for value in accuracies if value is not None]
    return min(known) if known and len(known) == len(accuracies) else None


def _check(data: Any) -> None:
    _has("the page", data, KEYS)
    for at, cell in enumerate(data["cells"]):
        _has(f"the page's cell {at}", cell, CELL)
        for key in ("rule", "attack"):
            if cell[key] not in data[f"{key}s"]:
                raise BadInput(f"the page's cell {at} was given {key} = {cell[key]!r}; it is one of {data[f'{key}s']}.")


def _has(who: str, given: Any, keys: dict[str, Any]) -> None:
    if not isinstance(given, Mapping):
        raise BadInput(f"{who} was given {article(type(given).__name__)}; it is a dict of {', '.join(keys)}.")
    for key, kind in keys.items():
        if key not in given:
            raise BadInput(f"{who} was given no {key!r}; it takes {', '.join(keys)}.")
        if not isinstance(given[key], kind):
            raise BadInput(
                f"{who} was given {key} = {given[key]!r}; it is {article(getattr(kind, '__name__', str(kind)))}."
            )


def _accuracies(data: Mapping[str, Any]) -> dict[tuple[str, str], float | None]:
    return {(cell["rule"], cell["attack"]): to_json(cell["accuracy"]) for cell in data["cells"]}


def _paragraph(data: Mapping[str, Any]) -> str:
    whole, there = len(data["rules"]) * len(data["attacks"]), len(_accuracies(data))
    return (
        f"The same model, trained {there} times: a row is a rule, a column an attack; {data['rounds']} rounds with "
        f"{data['workers']} workers, of which the last {data['liars']} lie. First the accuracy at the end, then on the "
        "way there, then, for one training, whom the rule kept and who won the votes, round by round."
        + (f" Of {whole} trainings, {whole - there} did not end and are left blank." if there < whole else "")
    )


def _table(data: Mapping[str, Any]) -> str:
    """The accuracies for readers without JavaScript."""
    names, accuracies = data.get("names", {}), _accuracies(data)
    lines = ["".join(f"<th>{escape(str(head))}</th>" for head in ("Rule", *data["attacks"], "Worst"))]
    for rule in data["rules"]:
        values = [*(accuracies.get((rule, attack)) for attack in data["attacks"]), worst(data, rule)]
        numbers = "".join(f"<td>{'–' if v is None else f'{100 * v:.1f}'}</td>" for v in values)
        lines.append(f"<th>{escape(str(names.get(rule, rule)))}</th>{numbers}")
    return "\n".join(["<table>", *(f"<tr>{line}</tr>" for line in lines), "</table>"])
