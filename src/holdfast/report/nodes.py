"""Who misbehaved: the nodes of a federation, or the ranks of a job, over the rounds, from its journal, worst first."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from holdfast.errors import BadInput, plural
from holdfast.report.page import put
from holdfast.report.sheet import HEAD, STYLE

LETTERS = {
    "k": "kept",
    "-": "left out by the rule",
    "f": "left out, far off",
    "x": "refused or dropped",
    "s": "silent",
    ".": "not asked",
}
COLOURS = {"k": "#0072b2", "-": "#e6c35c", "f": "#7b3294", "x": "#d55e00", "s": "#7f7f7f", ".": "transparent"}
FORMS = {("left_out", "dropped", "refused", "far", "bad_votes"): dict, ("kept", "silent", "no_vote"): list}
HEADS = ("kept", "left out", "far", "refused", "silent", "bad votes", "the last reason")


@dataclass
class Node:
    """A node's history, a letter a round, and the last thing that was wrong with it."""

    name: str
    letters: str = ""
    bad_votes: int = 0
    why: str = ""

    def row(self) -> tuple[str, ...]:
        """As a line of the table."""
        kept, near, far, bad, silent = (self.letters.count(letter) for letter in "k-fxs")
        told = (self.name, *map(str, (kept, near + far, far, bad, silent, self.bad_votes)), self.why)
        return tuple("".join(letter if letter.isprintable() else "?" for letter in cell) for cell in told)


def read(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a journal; half-written ones are left out, and what is in no form of ours."""
    if path.is_dir():
        path = path / "rounds.jsonl"
    if not path.is_file():
        raise BadInput(f"{path} is no journal; name a strategy's folder, its rounds.jsonl or a Ledger's file.")
    texts = [text for text in path.read_bytes().decode(errors="replace").splitlines() if text.strip()]
    out = [line for text in texts if (line := _line(text)) is not None]
    if texts and not out:
        raise BadInput(f"{path} is no journal; name a strategy's folder, its rounds.jsonl or a Ledger's file.")
    return out


def _line(text: str) -> dict[str, Any] | None:
    """A line of a journal, its parts in their forms; None if it is none."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(line, dict) or not isinstance(line.get("round"), int):
        return None
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


def nodes(lines: list[dict[str, Any]]) -> list[Node]:
    """All nodes that were ever asked, worst first: by what was refused, silent, badly voted, far, then left out.

    `far` counts rounds in which a node was left out and stood far off; the last reason is the last of the worse ones.
    """
    found: dict[str, Node] = {}
    for at, line in enumerate(lines):
        bad = {**line.get("refused", {}), **line.get("dropped", {})}
        said = dict.fromkeys(line.get("kept", ()), "k") | dict.fromkeys(line.get("left_out", {}), "-")
        said |= dict.fromkeys(line.get("far", ()), "f")
        said |= dict.fromkeys(line.get("silent", ()), "s") | dict.fromkeys(bad, "x")
        for name, letter in said.items():
            node = found.setdefault(name, Node(name))
            node.letters = node.letters.ljust(at, ".")[:at] + letter
        far = {name: f"left out, {times:.3g} times as far as the middle" for name, times in line.get("far", {}).items()}
        for name, why in (*far.items(), *bad.items(), *line.get("bad_votes", {}).items()):
            found.setdefault(name, Node(name)).why = f"round {line['round']}: {why}"
        for name, why in line.get("left_out", {}).items():  # of those who were never worse
            node = found.setdefault(name, Node(name))
            node.why = node.why if node.why else f"round {line['round']}: {why}"
        for name in (*line.get("bad_votes", {}), *line.get("no_vote", ())):
            found.setdefault(name, Node(name)).bad_votes += 1
    for node in found.values():
        node.letters = node.letters.ljust(len(lines), ".")
    return sorted(found.values(), key=_guilt)


def _guilt(node: Node) -> tuple[float, float, float, str]:
    asked = max(1, len(node.letters) - node.letters.count("."))
    failed = node.letters.count("x") + node.letters.count("s") + node.bad_votes
    return -failed / asked, -node.letters.count("f") / asked, -node.letters.count("-") / asked, node.name.zfill(20)


def summary(lines: list[dict[str, Any]]) -> str:
    """One sentence: rounds, skipped ones, winners."""
    skipped = sum("skipped" in line for line in lines)
    won = Counter(line["winner"] if "why" not in line else "nobody" for line in lines if "winner" in line)
    told = f"{len(lines)} {plural(len(lines), 'round')}, {skipped} skipped"
    none = f", without enough votes {won['nobody']}" if won["nobody"] else ""
    return told + (f"; elections won: Inner {won['inner']}, Outer {won['outer']}{none}" if won else "")


def write(lines: list[dict[str, Any]], out: Path, who: str = "node") -> None:
    """The same as a page: a line a node (or a rank), a square a round. Names and reasons are shown as text."""
    key = ", ".join(
        f'<b style="color:{COLOURS[letter]}">■</b> {text}' for letter, text in LETTERS.items() if letter != "."
    )
    title = f"{who.capitalize()}s"
    body = [f"<h1>{escape(title)}</h1>", f"<p>{escape(summary(lines))}. Worst first; a square is a round: {key}.</p>"]
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in (who, "rounds", *HEADS))
    rows = [f"<tr>{heads}</tr>"]
    for node in nodes(lines):
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in node.row()[1:])
        rows.append(f'<tr><th scope="row">{escape(node.name)}</th><td>{_strip(node.letters)}</td>{cells}</tr>')
    body.append(f'<div class="scroll runs"><table>{"".join(rows)}</table></div>')
    body.append("<footer>Written by holdfast from a journal.</footer>")
    page = f"{HEAD}\n<title>{escape(title)}</title>\n<style>{STYLE}</style></head>\n<body>\n"
    put(page + "\n".join(body) + "\n</body></html>\n", out)


def _strip(letters: str) -> str:
    """All rounds, however narrow the page is."""
    wide = max(1, min(8, 800 // max(1, len(letters))))
    squares = "".join(
        f'<rect x="{at * wide}" width="{wide}" height="12" fill="{COLOURS[letter]}"><title>round {at + 1}: '
        f"{LETTERS[letter]}</title></rect>"
        for at, letter in enumerate(letters)
        if letter != "."
    )
    size = f'width="{len(letters) * wide}" height="12" viewBox="0 0 {len(letters) * wide} 12"'
    look = 'preserveAspectRatio="none" style="min-width:0;height:12px;border-radius:0" role="img"'
    return f"<svg {size} {look}>{squares}</svg>"
