"""Check the prose of pages and docstrings: sentence length, and phrases that readers stumble over.

Code, tables, formulas and the parts that a command writes are not read. In Python files only docstrings are read, and
only for phrases.

example:  python tools/prose.py README.md docs src
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MAX_WORDS = 30  # of one sentence
MAX_MEAN = 18.0  # words of a sentence, averaged over a page
PHRASES = {
    r"whoever": "name the person",
    r"so many": "say how many, or 'this number of'",
    r"(?:is|are|was|were) told": "say who tells whom, in the active voice",
    r"an? (?!lot|few|little|bit|priori)[a-z-]+ an? (?!lot|few|time)[a-z-]+(?= |$|[.,;:)])": "write 'one ... per ...'",
    r"what it is that": "ask for the thing itself",
    r"stands? where": "say what to replace by what",
    r"in the way that": "use 'as'",
    r"liars? (?:worker|node|client|rank)s?": "write 'Byzantine worker'",
    r"as can be seen": "say what is seen",
    r"it should be noted": "say it",
    r"obviously|of course|clearly|simply|just": "leave it out",
    r"utili[sz]es?|utili[sz]ing": "use 'use'",
    r"in order to": "use 'to'",
    r"e\.g\.|i\.e\.": "write 'for example' or 'that is'",
}
WRITTEN = re.compile(r"<!-- (\w[\w. -]*) -->.*?<!-- /\1 -->", re.S)  # by a command
FENCE = re.compile(r"^( *)(```|~~~).*?^\1\2[^\n]*$", re.S | re.M)
CODE = re.compile(r"``?[^`]*``?|^ *(>>>|\.\.\.|\.\. ).*$", re.M)  # in a docstring
FORMULA = re.compile(r"\S+(?: [-+·/=<>≤≥≼≽∈⊂] \S*[^\s.,;:])+")  # in plain letters, as in κ ≤ 4f/q
END = re.compile(r"(?<=[.!?:;])[)\"'”]*\s+(?=[\"'“(]?[A-Z0-9`*\[])")


class Finding(NamedTuple):
    path: Path
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


class Sentence(NamedTuple):
    line: int
    text: str

    @property
    def words(self) -> int:
        return len(re.findall(r"[^\W_][\w'’.-]*", self.text))


def blank(text: str, pattern: re.Pattern[str]) -> str:
    """The text without what matches; line breaks stay, so that lines keep their numbers."""
    return pattern.sub(lambda found: "\n" * found[0].count("\n"), text)


def paragraphs(text: str) -> Iterator[Sentence]:
    """The paragraphs and list items of a Markdown page, with the lines where they begin."""
    text = blank(blank(text, WRITTEN), FENCE)
    start, lines = 0, list[str]()
    for number, line in enumerate([*text.split("\n"), ""], 1):
        bare = line.strip()
        new = re.match(r"([-*+]|\d+\.) +", bare)
        skipped = not bare or bare[0] in "|#<" or bare.startswith("![") or (line[:4].isspace() and not lines)
        if (skipped or new) and lines:
            yield Sentence(start, " ".join(lines))
            lines = []
        if not skipped:
            start = start if lines else number
            lines.append(bare[new.end() :] if new else bare)


def plain(text: str) -> str:
    """The words as they are read: no link targets, no emphasis; code and formulas are one word."""
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"`[^`]*`|\$[^$]*\$", "`code`", text)  # the backquote stays: a sentence may begin with code
    text = FORMULA.sub("Formula", text)  # a sentence may begin with one
    return re.sub(r"[*_\[\]]", "", text)


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of a page; a colon or semicolon ends one if a capital, a number or code follows."""
    for line, paragraph in paragraphs(text):
        for part in END.split(plain(paragraph)):
            yield Sentence(line, part)


def docstrings(source: str) -> Iterator[Sentence]:
    """The docstrings of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                text = first.value.value
                if isinstance(text, str):
                    yield Sentence(
                        first.lineno, re.sub(r"``?[^`]*``?|^ *(>>>|\.\.\.|\.\. ).*$", "code", text, flags=re.M)
                    )


def check(path: Path) -> list[Finding]:
    """What a reader would stumble over in one file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return [Finding(path, line, what) for line, part in docstrings(text) for what in phrases(part)]
    found, read = [], list(sentences(text))
    for sentence in read:
        found += [Finding(path, sentence.line, what) for what in phrases(sentence.text)]
        if sentence.words > MAX_WORDS:
            found.append(
                Finding(path, sentence.line, f"{sentence.words} words in one sentence: {sentence.text[:70]}...")
            )
    whole = [sentence.words for sentence in read if sentence.words > 3]
    if whole and (mean := sum(whole) / len(whole)) > MAX_MEAN:
        found.append(Finding(path, 1, f"{mean:.1f} words a sentence on average; at most {MAX_MEAN:g}"))
    return found


def phrases(text: str) -> Iterator[str]:
    """The phrases that are not plain, each with what to write instead."""
    flat = " ".join(text.split())
    for pattern, advice in PHRASES.items():
        for match in re.finditer(rf"\b(?:{pattern})\b", flat, re.I):
            yield f"{match[0]!r}: {advice}"


def pages(given: list[str]) -> Iterator[Path]:
    """The files named, and all pages and modules in the folders named."""
    for one in map(Path, given):
        yield from sorted(p for p in one.rglob("*") if p.suffix in (".md", ".py")) if one.is_dir() else [one]


def main() -> int:
    """Print what was found; 1 if anything was."""
    found = [one for path in pages(sys.argv[1:]) for one in check(path)]
    print("\n".join(map(str, found)) or "the prose is plain")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
