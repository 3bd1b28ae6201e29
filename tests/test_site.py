"""The site of the documentation: builds without a warning, asks nobody for anything, and has a place for everything."""

from __future__ import annotations

import doctest
import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("mkdocs")
from mkdocs.commands.build import build
from mkdocs.config import load_config

import holdfast
from holdfast.attacks import ATTACKS, VOTERS
from holdfast.data.partition import SPLITS
from holdfast.report import portraits
from holdfast.rules import CATALOGUE, Average
from holdfast.twophase import Cent2P, Mean2P
from tests.children import PATIENCE
from tests.test_cli import COMMANDS

ROOT = Path(__file__).parent.parent
BUDGET = 30_000  # bytes of a picture
LOOKED_AT = ("index", "rules", "twophase")  # by axe-core, which takes seconds for a long page


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once, in strict mode, where a warning is an error."""
    out = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_MKDOCS_2_WARNING", "1")
        patch.syspath_prepend(str(ROOT / "docs" / "making"))
        config = load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(out))
        build(config)
    return out


def made(name: str) -> ModuleType:
    """A module of docs/making."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "making" / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def pages(site: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(site.glob("*.html")):
        yield path.name, path.read_text()


def test_no_request_leaves_the_machine(site: Path) -> None:
    fetched = r"<(?:script|img|iframe|source|video|audio|object|embed)[^>]+?(?:src|data)=\"?(//|https?:)"
    for name, text in pages(site):
        assert not re.search(fetched, text), name
        for link in re.findall(r"<link [^>]+>", text):
            assert not re.search(r"href=\"?(//|https?:)", link), (name, link)
    for path in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(//|https?:)|@import", path.read_text()), path.name


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site on loopback."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def heard(page: Any) -> tuple[list[str], list[str]]:
    """What a page will complain about, and whatever it will ask for."""
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda line: said.append(line.text) if line.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    left = "net::ERR_ABORTED"  # the next page was asked for meanwhile
    page.on("requestfailed", lambda request: said.append(request.url) if request.failure != left else None)
    page.on("request", lambda request: asked.append(request.url))
    return said, asked


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_a_browser_has_nothing_to_complain_about(address: str, width: int, scheme: str) -> None:
    """No request leaves the machine, no error, no page wider than the screen, nothing that axe-core finds."""
    playwright = pytest.importorskip("playwright.sync_api")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    from tests.pages import QUIET, chromium

    with (
        playwright.sync_playwright() as started,
        started.chromium.launch(executable_path=chromium(), args=QUIET) as browser,
    ):
        view = {"width": width, "height": 900}
        page = browser.new_context(viewport=view, color_scheme=scheme).new_page()
        page.set_default_timeout(1000 * PATIENCE)
        said, asked = heard(page)
        for name in ("index", "rules", "twophase", "guarantees", "paper", "api", "students"):
            page.goto(f"{address}/{name}.html")
            assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), name
            if name in LOOKED_AT:
                found = {one["id"]: one["nodes"][0]["html"] for one in axe.Axe().run(page).response["violations"]}
                found.pop("landmark-unique", None)  # the theme's copy buttons are navigations without a name
                assert not found, name
        assert not said
        assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


@pytest.mark.parametrize("place", ["a server", "a disk"])
def test_the_search_finds(address: str, site: Path, place: str) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    from tests.pages import QUIET, chromium

    with (
        playwright.sync_playwright() as started,
        started.chromium.launch(executable_path=chromium(), args=QUIET) as browser,
    ):
        page = browser.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        said, asked = heard(page)
        root = address if place == "a server" else site.as_uri()
        page.goto(f"{root}/index.html")
        page.click(".md-search__input")
        page.keyboard.type("GeometricMedian")
        page.wait_for_selector(".md-search-result__item")
        assert "rules.html" in (page.get_attribute(".md-search-result__link >> nth=0", "href") or "")
        assert not said
        assert [url for url in asked if not url.startswith((root, "data:", "blob:"))] == []


def test_every_page_is_in_the_navigation_once(site: Path) -> None:
    text = (site / "index.html").read_text()
    shown = ["index.html", *re.findall(r'<a href="([a-z-]+\.html)" class="md-nav__link"', text)]
    assert len(shown) == len(set(shown))
    others = {name for name, _ in pages(site)} - set(shown)
    assert all(name == "404.html" or name.startswith("example-") for name in others), others


def test_every_rule_has_its_place_and_picture(site: Path) -> None:
    text = (site / "rules.html").read_text()
    for name in (*CATALOGUE, "TwoPhase", "Mean2P", "Cent2P"):
        assert f'id="{name.lower()}"' in text
        assert f'src="pictures/{name}.svg"' in text
        assert len((site / "pictures" / f"{name}.svg").read_bytes()) < BUDGET
    for word in ("Promise.", "Cost.", "When it fails.", "Source."):
        assert text.count(f"<strong>{word}</strong>") == len(CATALOGUE) + 3


def test_every_rule_says_when_it_fails_and_where_it_comes_from() -> None:
    for rule in CATALOGUE.values():
        assert rule.fails, rule
        assert rule.source, rule
        assert not rule.fails.endswith(".")


def test_every_paper_that_is_named_has_its_entry(site: Path) -> None:
    sources = made("sources")
    for named in (*CATALOGUE.values(), *ATTACKS.values()):
        assert sources.missing(named.source) == [], named
        assert sources.missing(" ".join((named.__doc__ or "").split())) == [], named
    for path in (ROOT / "README.md", *set((ROOT / "docs").glob("*.md")) - {sources.PAGE}):
        assert sources.missing(" ".join(path.read_text().split())) == [], path.name
    text = (site / "sources.html").read_text()
    for place in set(re.findall(r'href="sources.html#([^"]+)"', (site / "rules.html").read_text())):
        assert f'id="{place}"' in text, place


def test_every_attack_has_its_place_and_picture(site: Path) -> None:
    text = (site / "attacks.html").read_text()
    for name in ATTACKS:
        assert f'id="{name.lower()}"' in text
        assert f'src="pictures/attack-{name}.svg"' in text
        assert len((site / "pictures" / f"attack-{name}.svg").read_bytes()) < BUDGET
    for name in VOTERS:
        assert f'id="{name.lower()}"' in text
    assert not re.search(r"<td[^>]*>[\d.]+e[+-]", text)  # 240, not 2.4e+02


def test_every_split_has_its_place_and_pictures(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "making"))
    text, page, sources = (site / "splits.html").read_text(), made("splits_page"), made("sources")
    for name, split in SPLITS.items():
        assert f'id="{name.lower()}"' in text
        assert sources.missing(" ".join((split.__doc__ or "").split())) == [], name
        for at, value in enumerate(page.forms(name)):
            picture = f"pictures/split-{name}-{at + 1}.svg"
            assert f'src="{picture}"' in text
            assert (site / picture).read_bytes() == page.picture(value)[0]
            assert len((site / picture).read_bytes()) < 2 * BUDGET  # more than a hundred dots


def test_every_command_and_public_name_has_its_place(site: Path) -> None:
    text = (site / "cli.html").read_text()
    for name in (*COMMANDS, "flower-report"):
        assert f'id="holdfast-{name}"' in text, name
    text = (site / "api.html").read_text()
    late = {name: f"{path}.{name}".removeprefix("holdfast.") for name, path in holdfast._LATE.items()}
    for name in set(holdfast.__all__) - {*holdfast._NAMESPACES}:
        assert f'id="holdfast.{late.get(name, name)}"' in text, name
    for path in ("training.train", "training.Workers", "engines.flower.vote", "experiments.store.Store"):
        assert f'id="holdfast.{path}"' in text, path


def test_formulas_are_drawn_and_no_mark_is_left(site: Path) -> None:
    for name in ("rules.html", "attacks.html", "api.html"):
        text = re.sub(r"<code.*?</code>", "", (site / name).read_text(), flags=re.S)
        assert text.count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="block"') > 5
        for mark in (":math:", ".. math", "arithmatex", "\\(", "\\[", "&gt;&gt;&gt; "):
            assert mark not in text, (name, mark)


def test_pictures_are_the_same_every_time(site: Path) -> None:
    for value in (*map(portraits.example, CATALOGUE.values()), Mean2P(f=3), Cent2P(f=3)):
        name = {Mean2P(f=3): "Mean2P", Cent2P(f=3): "Cent2P"}.get(value, type(value).__name__)
        assert portraits.rule(value) == (site / "pictures" / f"{name}.svg").read_bytes(), name
    for name, attack in ATTACKS.items():
        assert portraits.attack(attack) == (site / "pictures" / f"attack-{name}.svg").read_bytes(), name


def test_pictures_tell_the_truth() -> None:
    """In the round of the pictures resilient rules are nearer to the honest mean than the plain mean is."""
    average = portraits.distance(Average())
    for name in ("CenterwO", "MeanwO", "MeanExact", "CWM", "CWTM", "GeometricMedian", "Krum", "MDA"):
        assert portraits.distance(portraits.example(CATALOGUE[name])) < average, name
    assert portraits.distance(portraits.example(CATALOGUE["OuterMean"])) > average


def test_a_formula_that_cannot_be_drawn_stops_the_build() -> None:
    formulas = made("formulas")
    assert "<mfrac>" in formulas.mathml(r"\tfrac{1}{n}")
    with pytest.raises(ValueError, match="does not know"):
        formulas.mathml(r"\nosuchcommand x")
    assert formulas.drawn('<span class="arithmatex">\\(a &lt; b\\)</span>').count("<math") == 1
    assert (
        formulas.markdown("Terms.\n\nf, n\n    liars and\n    workers") == "Terms.\n\nf, n\n:   liars and\n    workers"
    )


def test_a_notebook_becomes_a_page(tmp_path: Path) -> None:
    notebook = made("notebook_page")
    assert notebook.pages(tmp_path / "none.ipynb") == {"students.md": notebook.MISSING}
    outputs: list[dict[str, Any]] = [
        {"output_type": "stream", "name": "stdout", "text": ["3\n"]},
        {"output_type": "stream", "name": "stderr", "text": ["noise"]},
        {"output_type": "display_data", "data": {"image/svg+xml": ["<svg/>"], "text/plain": ["<Figure>"]}},
    ]
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "source": ["# Title\n", "cost $x$, `$HOME`"]},
        {"cell_type": "code", "source": ["1 + 2"], "outputs": outputs},
    ]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}))
    found = notebook.pages(tmp_path / "a.ipynb")
    page = found["students.md"]
    assert page.startswith("# Title\ncost \\(x\\), `$HOME`\n\n[Download the notebook](a.ipynb)")
    assert "```python\n1 + 2\n```\n\n```text\n3\n```" in page
    assert "noise" not in page
    assert found["pictures/students-1-2.svg"] == "<svg/>"


@pytest.mark.parametrize("name", ["formulas", "letters", "notebook_page", "outside", "sources"])
def test_examples_of_what_makes_the_pages_run(name: str) -> None:
    found = doctest.testmod(made(name))
    assert found.attempted
    assert not found.failed


def test_links_to_files_without_a_page_become_names() -> None:
    outside = made("outside")
    assert outside.linked("[x](../results/a.json)", "paper.md") == "`results/a.json`"
    assert outside.linked("[x](../../docs/data.md#a)", "example-ddp.md") == "[x](data.md#a)"
    assert outside.linked("[x](https://e.org/a)", "paper.md") == "[x](https://e.org/a)"
