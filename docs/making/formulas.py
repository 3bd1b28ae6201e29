"""Docstrings as Markdown, and LaTeX as MathML, which browsers draw without a script."""

from __future__ import annotations

import html
import re
from inspect import cleandoc

from latex2mathml.converter import convert

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
    return re.sub(r":math:`(.*?)`", r"\\(\1\\)", "\n\n".join(parts), flags=re.S)


def split(doc: str) -> tuple[str, str]:
    """A docstring's first paragraph, and all the rest of it."""
    first, _, rest = markdown(doc).partition("\n\n")
    return first, rest


def _part(part: str) -> str:
    lines = part.splitlines()
    if len(lines) > 2 and set(lines[1]) == {"-"}:
        return f"**{lines[0]}**\n\n{_section(lines[2:])}"
    if lines[0].startswith(".. math::"):
        return f"\\[{' '.join(line.strip() for line in lines)[len('.. math::') :].strip()}\\]"
    if lines[0].startswith(">>>"):
        return "\n".join(["```pycon", *lines, "```"])
    if len(lines) > 1 and lines[1].startswith("    ") and not lines[0].startswith(" "):
        return _terms(lines)
    at = next((at for at, line in enumerate(lines) if line.startswith(">>>")), None)
    return part if at is None else "\n".join([*lines[:at], "", _part("\n".join(lines[at:]))])


def _section(lines: list[str]) -> str:
    """What stands below a heading of numpydoc: names with their explanation, or an example.

    >>> print(_section(["f : int", "    At least 0."]))
    `f`
    :   int. At least 0.
    """
    if lines[0].startswith(">>>"):
        return _part("\n".join(lines))
    out: list[list[str]] = []
    for line in lines:
        if line.startswith(" "):
            out[-1].append(line.strip())
        else:
            name, _, kind = line.partition(" : ")
            out.append([name, f"{kind}." if kind else ""])
    items = [(name, " ".join(filter(None, told))) for name, *told in out]
    return "\n\n".join(f"`{name}`\n:   {told}" if told else f"`{name}`" for name, told in items)


def _terms(lines: list[str]) -> str:
    """A list of definitions: a term a line, its explanation indented below."""
    out: list[str] = []
    for line in lines:
        if not line.startswith(" "):
            out += ["", line]
        else:
            out.append(f"{'    ' if out[-1].startswith((':', '    ')) else ':   '}{line.strip()}")
    return "\n".join(out).strip()
