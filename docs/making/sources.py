"""Papers by name: the entries of docs/sources.md, and links to them."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parent.parent / "sources.md"
NAMES = re.findall(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), re.M)
ONE = r"\b(?:El )?[A-Z][a-z]+(?:[A-Z][a-z]+)?"
WHO = rf"{ONE}(?: et al\.| and {ONE})?"
NAMED = re.compile(rf"{WHO} \(?(?:19|20)\d\d[a-z]?\b")  # a paper, as texts name one


def linked(text: str) -> str:
    """A text whose papers are links to their entries.

    >>> linked("Yi et al. 2024, Algorithm 2")
    '[Yi et al. 2024](sources.md#yi-et-al-2024), Algorithm 2'
    """
    return NAMED.sub(lambda found: _link(found[0]) if found[0] in NAMES else found[0], text)


def missing(text: str) -> list[str]:
    """The papers that a text names and the page has not.

    >>> missing("Yi et al. 2024, Nobody et al. 1901")
    ['Nobody et al. 1901']
    """
    return [name for name in NAMED.findall(text) if name not in NAMES]


def _link(name: str) -> str:
    return f"[{name}](sources.md#{name.lower().replace('.', '').replace(' ', '-')})"
