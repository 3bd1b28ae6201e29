"""What mkdocs asks for while it builds the site: pages made from the code, links, formulas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import api_page
import attacks_page
import cli_page
import formulas
import letters
import notebook_page
import outside
import rules_page
import splits_page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent.parent


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and pictures that no file of docs/ holds."""
    made: dict[str, str | bytes] = {"cli.md": cli_page.page(), "api.md": api_page.page()}
    made |= rules_page.pages() | attacks_page.pages() | notebook_page.pages(ROOT / "docs" / "students.ipynb")
    made |= splits_page.pages() | outside.pages(ROOT)
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Links that leave docs/ lead to their page here, or are no links."""
    return outside.linked(markdown, page.file.src_uri)


def on_page_content(html: str, **_: Any) -> str:
    """Formulas become MathML, indices are set; wide tables scroll by themselves."""
    html = letters.set_in(formulas.drawn(html))
    return html.replace("<table>", '<div class="wide" tabindex="0"><table>').replace("</table>", "</table></div>")


def on_post_page(output: str, **_: Any) -> str:
    """What the theme forgets: the search dialog has a name for those who hear it."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"', 1)
