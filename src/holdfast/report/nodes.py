"""Who misbehaved: the nodes of a federation, or the ranks of a job, over the rounds, from its journal, worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from holdfast.errors import plural
from holdfast.report.page import put
from holdfast.report.sheet import HEAD, STYLE

LETTERS = {
    "k": "kept",
    "-": "excluded by the rule",
    "f": "excluded, far off",
    "x": "refused or dropped",
    "s": "silent",
    ".": "not asked",
}
WORST = "xsf-k."  # the worst first
MAX_SQUARES = 800  # of a node, on a page
COLOURS = {"k": "#0072b2", "-": "#e6c35c", "f": "#7b3294", "x": "#d55e00", "s": "#7f7f7f", ".": "transparent"}
HEADS = ("kept", "excluded", "far", "refused", "silent", "bad votes", "the last reason")


@dataclass
class Node:
    """A node's history, one letter per round, and the last thing that was wrong with it."""

    name: str
    letters: str = ""
    bad_votes: int = 0
    why: str = ""
    worse: bool = False  # than excluded: it was far, refused, or voted badly

    def row(self) -> tuple[str, ...]:
        """As a line of the table."""
        kept, near, far, bad, silent = (self.letters.count(letter) for letter in "k-fxs")
        cells = (self.name, *map(str, (kept, near + far, far, bad, silent, self.bad_votes)), self.why)
        return tuple("".join(letter if letter.isprintable() else "?" for letter in cell) for cell in cells)


@dataclass
class History:
    """All rounds of a journal, added up: a letter for each node and round, and the totals.

    Nodes are far from more than `far` times the middle distance on; the journal has those from 5 times on.
    """

    far: float = 0.0
    rounds: int = 0
    skipped: int = 0
    won: Counter[str] = field(default_factory=Counter)
    nodes_by_name: dict[str, Node] = field(default_factory=dict)
    letters: dict[str, bytearray] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: Lines, far: float = 0.0) -> History:
        """The history of these lines, which are read once."""
        if isinstance(lines, History):
            return lines
        history = cls(far)
        for line in lines:
            history.add(line)
        return history

    def add(self, line: dict[str, Any]) -> None:
        """One more round."""
        bad = {**line.get("refused", {}), **line.get("dropped", {})}
        said = dict.fromkeys(line.get("kept", ()), "k") | dict.fromkeys(line.get("excluded", {}), "-")
        times_of = {name: times for name, times in line.get("far", {}).items() if times > self.far}
        said |= dict.fromkeys(times_of, "f")
        said |= dict.fromkeys(line.get("silent", ()), "s") | dict.fromkeys(bad, "x")
        for name, letter in said.items():
            self._node(name)
            row = self.letters[name]
            row.extend(b"." * (self.rounds - len(row)))
            row.extend(letter.encode())
        far = {name: f"{times:.3g} times as far as the middle" for name, times in times_of.items()}
        for name, why in (*far.items(), *bad.items(), *line.get("bad_votes", {}).items()):
            node = self._node(name)
            node.why, node.worse = f"round {line['round']}: {why}", True
        for name, why in line.get("excluded", {}).items():
            node = self._node(name)
            node.why = node.why if node.worse else f"round {line['round']}: {why}"
        for name in (*line.get("bad_votes", {}), *line.get("no_vote", ())):
            self._node(name).bad_votes += 1
        self.rounds += 1
        self.skipped += "skipped" in line
        if "winner" in line:
            self.won[line["winner"] if "why" not in line else "nobody"] += 1

    def _node(self, name: str) -> Node:
        self.letters.setdefault(name, bytearray())
        return self.nodes_by_name.setdefault(name, Node(name))


Lines = Iterable[dict[str, Any]] | History


def nodes(lines: Lines) -> list[Node]:
    """All nodes that were ever asked, worst first: by what was refused, silent, badly voted, far, then excluded.

    `far` counts rounds in which a node was excluded and stood far off; the last reason is the last of the worse ones.
    """
    history = History.of(lines)
    for name, node in history.nodes_by_name.items():
        node.letters = history.letters[name].decode().ljust(history.rounds, ".")
    return sorted(history.nodes_by_name.values(), key=_guilt)


def _guilt(node: Node) -> tuple[float, float, float, str]:
    rounds = max(1, len(node.letters) - node.letters.count("."))
    failed = node.letters.count("x") + node.letters.count("s") + node.bad_votes
    return -failed / rounds, -node.letters.count("f") / rounds, -node.letters.count("-") / rounds, node.name.zfill(20)


def summary(lines: Lines) -> str:
    """One sentence: rounds, skipped ones, winners."""
    history = History.of(lines)
    won = history.won
    counts = f"{history.rounds} {plural(history.rounds, 'round')}, {history.skipped} skipped"
    none = f", without enough votes {won['nobody']}" if won["nobody"] else ""
    return counts + (f"; elections won: Inner {won['inner']}, Outer {won['outer']}{none}" if won else "")


def write(lines: Lines, out: Path, who: str = "node") -> None:
    """The same as a page: one line per node (or a rank), one square per round. Names and reasons are shown as text."""
    history = History.of(lines)
    span = -(-history.rounds // MAX_SQUARES) or 1
    square = "a round" if span == 1 else f"{span} rounds and shows the worst of them"
    key = ", ".join(
        f'<b style="color:{COLOURS[letter]}">■</b> {text}' for letter, text in LETTERS.items() if letter != "."
    )
    title = f"{who.capitalize()}s"
    body = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(summary(history))}. Worst first; a square is {square}: {key}.</p>",
    ]
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in (who, "rounds", *HEADS))
    rows = [f"<tr>{heads}</tr>"]
    for node in nodes(history):
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in node.row()[1:])
        rows.append(f'<tr><th scope="row">{escape(node.name)}</th><td>{_strip(node.letters, span)}</td>{cells}</tr>')
    body.append(f'<div class="scroll runs"><table>{"".join(rows)}</table></div>')
    body.append("<footer>Written by holdfast from a journal.</footer>")
    page = f"{HEAD}\n<title>{escape(title)}</title>\n<style>{STYLE}</style></head>\n<body>\n"
    put(page + "\n".join(body) + "\n</body></html>\n", out)


def _strip(letters: str, span: int) -> str:
    """All rounds, `span` of them a square, however narrow the page is."""
    spans = [letters[at : at + span] for at in range(0, len(letters), span)]
    wide = max(1, min(8, 800 // max(1, len(spans))))
    squares = "".join(
        f'<rect x="{at * wide}" width="{wide}" height="12" fill="{COLOURS[worst]}"><title>{_rounds(at, span)}: '
        f"{LETTERS[worst]}</title></rect>"
        for at, letters_of_square in enumerate(spans)
        if (worst := min(letters_of_square, key=WORST.index)) != "."
    )
    size = f'width="{len(spans) * wide}" height="12" viewBox="0 0 {len(spans) * wide} 12"'
    look = 'preserveAspectRatio="none" style="min-width:0;height:12px;border-radius:0" role="img"'
    return f"<svg {size} {look}>{squares}</svg>"


def _rounds(at: int, span: int) -> str:
    return f"round {at + 1}" if span == 1 else f"rounds {at * span + 1} to {(at + 1) * span}"
