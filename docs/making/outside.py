"""Documents that do not stand in docs/: those that become pages, and links to the others."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

PAGES = {  # a file of the repository -> its page
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/flower/README.md": "example-flower.md",
    "examples/nvflare/README.md": "example-nvflare.md",
    "examples/ddp/README.md": "example-ddp.md",
    "examples/accelerate/README.md": "example-accelerate.md",
    "examples/lightning/README.md": "example-lightning.md",
    "examples/lora/README.md": "example-lora.md",
}
CODE = {  # a place in the repository -> the page that is made from it; on GitHub, the link leads to the code
    "src/holdfast/rules": "rules.md",
    "src/holdfast/attacks": "attacks.md",
    "src/holdfast/attacks/voters.py": "attacks.md#how-liars-vote",
}
LINKS = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def pages(root: Path) -> dict[str, str | bytes]:
    """The pages, by the name that they have in the site."""
    return {page: (root / file).read_text(encoding="utf-8") for file, page in PAGES.items()}


def linked(text: str, page: str) -> str:
    """The text of a page with links that hold in the site; a link to a file that has no page becomes its name.

    >>> linked("[a](../CHANGELOG.md), [b](../results/x.json), [c](docs/data.md#x)", "changelog.md")
    '[a](changelog.md), `results/x.json`, [c](data.md#x)'
    >>> linked("[The rules](../src/holdfast/rules)", "index.md")
    '[The rules](rules.md)'
    """
    here = next((posixpath.dirname(file) for file, made in PAGES.items() if made == page), "docs")
    return LINKS.sub(lambda found: _link(found, here), text)


def _link(found: re.Match[str], here: str) -> str:
    words, to, anchor = found[1], found[2], found[3] or ""
    if ":" in to:
        return found[0]
    file = posixpath.normpath(posixpath.join(here, to)).removeprefix("../")
    if file in PAGES:
        return f"[{words}]({PAGES[file]}{anchor})"
    if file in CODE:
        return f"[{words}]({CODE[file]}{anchor})"
    if file.startswith("docs/"):
        return f"[{words}]({file.removeprefix('docs/')}{anchor})"
    return f"`{file}`"
