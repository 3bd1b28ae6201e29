"""The students' notebook as a page: text as it is, code, and what the code showed."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

PICTURES = {"image/svg+xml": "svg", "image/png": "png"}
MISSING = "# Notebook for students\n\nThe notebook is not there yet.\n"


def pages(notebook: Path) -> dict[str, str | bytes]:
    """students.md, its pictures, and the notebook itself to download; mkdocs copies the notebook as it is."""
    if not notebook.exists():
        return {"students.md": MISSING}
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    made: dict[str, str | bytes] = {}
    parts = [part for at, cell in enumerate(cells) for part in _cell(cell, at, made)]
    link = f"[Download the notebook]({notebook.name}){{ .md-button }}"
    parts.insert(1 if parts and parts[0].startswith("# ") else 0, link)
    if not parts[0].startswith("# "):
        parts.insert(0, "# Notebook for students")
    return made | {"students.md": "\n\n".join([*parts, ""])}


def _cell(cell: dict[str, Any], at: int, made: dict[str, str | bytes]) -> list[str]:
    source = "".join(cell["source"]).strip()
    if cell["cell_type"] == "markdown":
        return [dollars(source)]
    if cell["cell_type"] != "code" or not source:
        return []
    parts = [f"```python\n{source}\n```"]
    for order, output in enumerate(cell.get("outputs", [])):
        parts += _output(output, f"pictures/students-{at}-{order}", made)
    return parts


def _output(output: dict[str, Any], name: str, made: dict[str, str | bytes]) -> list[str]:
    """A picture if there is one, else the text."""
    data = output.get("data", {})
    for kind, suffix in PICTURES.items():
        if kind in data:
            content = "".join(data[kind])
            made[f"{name}.{suffix}"] = content if suffix == "svg" else base64.b64decode(content)
            return [f"![what the cell above draws]({name}.{suffix}){{ .shown }}"]
    text = "".join(output.get("text", data.get("text/plain", ""))).rstrip()
    return [f"```text\n{text}\n```"] if text and output.get("name") != "stderr" else []


def dollars(text: str) -> str:
    r"""Formulas between dollars, as notebooks have them, in the site's marks; code stays.

    >>> dollars("$x$ and `$HOME`, $$y$$")
    '\\(x\\) and `$HOME`, \\[y\\]'
    """
    parts = re.split(r"(```.*?```|`[^`]*`)", text, flags=re.S)
    for at in range(0, len(parts), 2):
        parts[at] = re.sub(r"\$\$(.+?)\$\$", r"\\[\1\\]", parts[at], flags=re.S)
        parts[at] = re.sub(r"\$([^$\n]+?)\$", r"\\(\1\\)", parts[at])
    return "".join(parts)
