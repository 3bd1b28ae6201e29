"""Pictures of both pages, as a reader sees them: those of docs/see.md, and all sizes and colours to look at.

The live view shows eight trainings on handwritten digits, which are made anew.

example:  python benchmarks/screens.py --all screens
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from holdfast.experiments.store import Store
from holdfast.experiments.sweep import runs, sweep

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.pages import QUIET, chromium, served

DOCS = Path(__file__).parent.parent / "docs"
SIZES: dict[str, Any] = {"desktop": {"width": 1280, "height": 860}, "phone": {"width": 390, "height": 844}}
CLICKS = {"play": "#rules tr:nth-child(5) .name", "watch": ".run:has-text('Mean2P'):has-text('Empire')"}
GRID = {
    "rules": ["Average()", "Krum(f={f})", "MeanwO(f={f})", "Mean2P(f={f})"],
    "attacks": ["SignFlip()", "Empire(scale=0.1)"],
    "rates": 0.4,
    "workers": 20,
    "rounds": 100,
}


def shown(browser: Browser, address: str, click: str, out: Path, size: str = "desktop", scheme: Any = None) -> None:
    """One picture after a click: of the screen, or, in a given colour scheme, of the whole page."""
    page = browser.new_page(viewport=SIZES[size], color_scheme=scheme or "light")
    page.goto(address)
    page.click(click)
    page.wait_for_timeout(1500)
    page.screenshot(path=out, full_page=scheme is not None)
    page.close()


def main(everything: Path | None) -> None:
    """The pictures of the documents, or all of them into a folder."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        store = Path(folder) / "runs"
        for _ in sweep(runs(GRID), Store(store)):
            pass
        browser = playwright.chromium.launch(executable_path=chromium(), args=QUIET)
        with served("play") as play, served("watch", str(store)) as watch:
            for name, address in (("play", play), ("watch", watch)):
                if everything is None:
                    shown(browser, address, CLICKS[name], DOCS / f"see-{name}.png")
                    continue
                everything.mkdir(exist_ok=True)
                for size, scheme in product(SIZES, ("light", "dark")):
                    shown(browser, address, CLICKS[name], everything / f"{name}-{size}-{scheme}.png", size, scheme)
        browser.close()


if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--all", type=Path, help="a folder for all sizes and colours, instead of those of the documents")
    main(words.parse_args().all)
