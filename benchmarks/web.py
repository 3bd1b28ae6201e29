"""The pages in a real browser: from a drag to the drawn answers, and a thousand runs in the live view.

The playground has 30 workers and 8 rules; one point is dragged in 240 moves of the mouse, and the page's own timeline
tells how long after each the new answers were on the screen. The store has a thousand finished runs, whose rounds are
those of two real trainings; five times a new server and a new page read it, and the page is scrolled through in 240
steps of four rows.

example:  python benchmarks/web.py --out results/benchmarks/web.json
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlencode

import numpy as np
from common import Row, progress, result, save, table
from playwright.sync_api import Browser, Page, sync_playwright

from holdfast.experiments.store import key, summarise_run
from holdfast.training import Run, train
from holdfast.training.folder import FORMAT, OWN

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.pages import QUIET, chromium, served

DEFAULT = Path("results/benchmarks/web.json")
NAMES = (
    "Average() MeanwO(f={f}) CenterwO(f={f}) OuterMean(f={f}) CWTM(f={f}) GeometricMedian() Krum(f={f}) Mean2P(f={f})"
)
ATTACKS = ("SignFlip()", "Empire()", "Omniscient()", "ALIE()", "Gauss()")
SIZE: Any = {"width": 1360, "height": 900}
SCROLL = """async () => { const box = document.querySelector(".list"), times = []; let last = performance.now();
  for (let k = 0; k < 240; k++) { box.scrollTop += 136; await new Promise(requestAnimationFrame);
    const now = performance.now(); times.push(now - last); last = now; }
  return times; }"""


def eight(f: int) -> list[str]:
    """The rules that are compared."""
    return NAMES.format(f=f).split()


def dragged(browser: Browser) -> list[Row]:
    """From an event of the mouse to the picture with the new answers."""
    X = np.random.default_rng(0).normal(size=(30, 2)).round(3)
    points = ";".join(f"{x},{y}" for x, y in X)
    words = [
        ("p", points),
        ("l", "0.1.2.3.4.5"),
        ("f", 6),
        *(("r", rule) for rule in eight(6)),
        ("c", 7),
        ("v", "0,0,3"),
    ]
    with served("play") as address:
        page = browser.new_page(viewport=SIZE)
        page.goto(f"{address}#{urlencode(words)}")
        page.wait_for_selector("#rules tr:nth-child(8)")
        box = page.locator("#plane .point").nth(20).bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        for turn in np.linspace(0, 4 * np.pi, 240):
            page.mouse.move(x + 120 * np.sin(turn), y + 80 * np.sin(2 * turn))
            page.wait_for_timeout(12)
        page.mouse.up()
        page.wait_for_timeout(300)
        times = sorted(page.evaluate("performance.getEntriesByName('drag to drawn').map((one) => one.duration)")[1:])
        page.close()
    progress(f"{len(times)} pictures of 240 moves")
    what = {"what": "drag to drawn answers, 8 rules, n = 30"}
    return [
        result(median(times), 50, False, **what, measure="median, ms"),
        result(times[int(0.95 * len(times))], 50, False, **what, measure="95th of 100, ms"),
    ]


def stored(folder: Path) -> None:
    """A thousand runs that are done."""
    first = Run(rule="MeanwO(f=8)", attack="SignFlip()", workers=20, byzantine=8, rounds=100)
    lines = {two: train(first.changed(rule="Mean2P(f=8)") if two else first).lines for two in (False, True)}
    for seed in range(25):
        for run in (first.changed(rule=rule, attack=lie, seed=seed) for rule in eight(8) for lie in ATTACKS):
            place, rounds = folder / key(run), lines[run.two_phase]
            place.mkdir()
            (place / "record.json").write_text(json.dumps({**run.record(), "task": OWN, "format": FORMAT}))
            (place / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in rounds))
            (place / "summary.json").write_text(summarise_run(run, "done", rounds).text())
            (place / "done").touch()


def loaded(browser: Browser, address: str) -> tuple[Page, list[float]]:
    """A new page, and when it first painted and had all rows, in milliseconds."""
    page = browser.new_page(viewport=SIZE)
    page.goto(address)
    page.wait_for_selector("#runs li:nth-child(1000)", state="attached")
    done = page.evaluate("performance.now()")
    return page, [page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"), done]


def watched(browser: Browser) -> list[Row]:
    """A thousand runs: first paint, all rows, frames while scrolling."""
    with tempfile.TemporaryDirectory() as name:
        stored(Path(name))
        times: list[list[float]] = []
        frames: list[float] = []
        for _ in range(5):
            with served("watch", name) as address:  # a server that has read nothing yet
                page, found = loaded(browser, address)
                times.append(found)
                frames += page.evaluate(SCROLL)
                page.close()
    frames.sort()
    first, every = (median(column) for column in zip(*times, strict=True))
    what = {"what": "1,000 runs in the live view"}
    return [
        result(first / 1000, 2, False, **what, measure="first paint, s"),
        result(every / 1000, 2, False, **what, measure="all rows there, s"),
        result(median(frames), 34, False, **what, measure="a frame of scrolling, median, ms"),
        result(frames[int(0.95 * len(frames))], 50, False, **what, measure="a frame of scrolling, 95th of 100, ms"),
    ]


def main(out: Path) -> None:
    """Both, as a table and as JSON."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=QUIET)
        rows = [*dragged(browser), *watched(browser)]
        browser.close()
    print(table(rows))
    save(out, rows, ("starlette", "uvicorn", "playwright", "numpy"))


if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--out", type=Path, default=DEFAULT, help="where the results go, as JSON")
    main(words.parse_args().out)
