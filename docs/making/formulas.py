"""Docstrings as Markdown, and LaTeX as MathML, which browsers draw without a script."""

from __future__ import annotations

import html
import re
from inspect import cleandoc

from latex2mathml.converter import convert

NAMED = ("Parameters", "Attributes", "Returns", "Yields", "Raises")  # sections that explain names
SPANS = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.S)


def mathml(latex: str, block: bool = False) -> str:
    """A formula for a browser.

    >>> mathml("x")
    '<math xmlns="http://www.w3.org/1998/Math/MathML" display="inline"><mrow><mi>x</mi></mrow></math>'
    """
    latex = re.sub(r"\\arg(?![a-z])", r"\\operatorname{arg}", latex)  # which the converter does not know
    told = convert(" ".join(latex.split()), display="block" if block else "inline")
    if "\\" in told:
        raise ValueError(f"{latex!r} has a command that latex2mathml does not know")
    return told.replace("<mo>&#x02016;</mo>", '<mo stretchy="false">&#x02016;</mo>')  # norms are as high as letters


def drawn(page: str) -> str:
    """A page whose formulas, as the Markdown extension arithmatex leaves them, are MathML."""
    return SPANS.sub(lambda found: _shown(html.unescape(found[2]), found[1] == "div"), page)


def _shown(latex: str, block: bool) -> str:
    """A formula that stands alone scrolls by itself where it is too wide."""
    return f'<div class="wide" tabindex="0">{mathml(latex, True)}</div>' if block else mathml(latex)


def markdown(doc: str) -> str:
    """A docstring as Markdown: formulas, examples, and terms with their explanation.

    >>> print(markdown("The square of :math:`x`.\\n\\n.. math:: x^2"))
    The square of \\(x\\).
    <BLANKLINE>
    \\[x^2\\]
    """
    parts = [_part(part) for part in re.split(r"\n\s*\n", cleandoc(doc))]
    text = re.sub(r":math:`(.*?)`", r"\\(\1\\)", "\n\n".join(parts), flags=re.S)
    return re.sub(r"(?<![`\w])docs/([a-z]+)\.md", r"[docs/\1.md](\1.md)", text)


def split(doc: str) -> tuple[str, str]:
    """A docstring's first paragraph, and all the rest of it."""
    first, _, rest = markdown(doc).partition("\n\n")
    return first, rest


def _part(part: str) -> str:
    lines = part.splitlines()
    if len(lines) > 2 and set(lines[1]) == {"-"}:
        below = _section(lines[2:]) if lines[0] in NAMED else _part("\n".join(lines[2:]))
        return f"**{lines[0]}**\n\n{below}"
    if lines[0].startswith(".. ["):
        return _references(part)
    if lines[0].startswith(".. math::"):
        return f"\\[{' '.join(line.strip() for line in lines)[len('.. math::') :].strip()}\\]"
    if lines[0].startswith(">>>"):
        return "\n".join(["```pycon", *lines, "```"])
    if len(lines) > 1 and lines[1].startswith("    ") and not lines[0].startswith(" "):
        return _terms(lines)
    at = next((at for at, line in enumerate(lines) if line.startswith(">>>")), None)
    return part if at is None else "\n".join([*lines[:at], "", _part("\n".join(lines[at:]))])


def _references(part: str) -> str:
    """The papers of a docstring as a list.

    >>> print(_references(".. [1] Nobody 1901,\\n   A title.\\n.. [2] Another."))
    - Nobody 1901, A title.
    - Another.
    """
    return "\n".join(f"- {' '.join(one.split())}" for one in re.split(r"^\.\. \[\d+\]", part, flags=re.M)[1:])


def _section(lines: list[str]) -> str:
    """What stands below a heading of numpydoc that explains names.

    >>> print(_section(["f : int", "    At least 0."]))
    `f` : int
    :   At least 0.
    """
    out: list[list[str]] = []
    for line in lines:
        if line.startswith(" "):
            out[-1].append(line.strip())
        else:
            name, mark, kind = line.partition(" : ")
            out.append([f"`{name}`{mark}{kind}"])
    return "\n\n".join("\n:   ".join(filter(None, (name, " ".join(told)))) for name, *told in out)


def _terms(lines: list[str]) -> str:
    """A list of definitions: one term per line, its explanation indented below."""
    out: list[str] = []
    for line in lines:
        if not line.startswith(" "):
            out += ["", line]
        else:
            out.append(f"{'    ' if out[-1].startswith((':', '    ')) else ':   '}{line.strip()}")
    return "\n".join(out).strip()
