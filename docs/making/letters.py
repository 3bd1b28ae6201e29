"""Indices and powers in running text: m_S and (f/n)^m as a browser sets them, while files keep what one types."""

from __future__ import annotations

import re

MARK = re.compile(r"(<[^>]+>)")
STILL = ("code", "pre", "math", "script", "style")  # what is inside of these stays as it is
WORD = r"[A-Za-z0-9α-ωΑ-Ω\u0300-\u036f]"
PLACE = rf"\{{([^{{}}]+)\}}|(\((?:[^()\s]|\([^()]*\))+\))|({WORD}+'?)"
INDEX = re.compile(rf"((?:[α-ωΑ-Ω]|(?<![\w.])(?:[^\W\d_]|mean|std|argmin|argmax))[\u0300-\u036f]?)_(?:{PLACE})")
POWER = re.compile(rf"(?<=[\w)])\^(?:{PLACE})")


def set_in(html: str) -> str:
    """A page with its indices and powers set.

    >>> set_in("<p>V_S² = Σ_{i ∈ S} x_(i), <code>m_S</code>, 1.5^f, vote_batch</p>")
    '<p>V<sub>S</sub>² = Σ<sub>i ∈ S</sub> x<sub>(i)</sub>, <code>m_S</code>, 1.5<sup>f</sup>, vote_batch</p>'
    """
    inside: list[str] = []
    parts = MARK.split(html)
    for at, part in enumerate(parts):
        if at % 2:
            name = re.match(r"</?(\w*)", part)
            if name and name[1] in STILL:
                inside = inside[:-1] if part.startswith("</") else [*inside, name[1]]
        elif not inside:
            parts[at] = POWER.sub(_raised, INDEX.sub(_lowered, part))
    return "".join(parts)


def _lowered(found: re.Match[str]) -> str:
    below = INDEX.sub(_lowered, found[2] or found[3] or found[4])  # σ_{K_i} has an index in its index
    return f"{found[1]}<sub>{below}</sub>"


def _raised(found: re.Match[str]) -> str:
    return f"<sup>{found[1] or found[2] or found[3]}</sup>"
