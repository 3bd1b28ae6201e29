"""The pages in a real Chromium: dragged, typed at, sent as a link, watched while a training runs.

Every page must stay silent on its console, ask nobody but its own server, and pass axe-core.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import signal
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

from holdfast.experiments.store import Store
from holdfast.experiments.sweep import runs, sweep
from holdfast.guarantees.instances import DILEMMA
from holdfast.training import Run, train
from holdfast.web.answers import answered
from holdfast.web.presets import listed
from holdfast.web.rounds import read
from tests import children
from tests.pages import QUIET, chromium, served

Open = Callable[..., Page]
PATIENCE = 180_000  # milliseconds
expect.set_options(timeout=PATIENCE)
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium(), args=QUIET)
        yield found
        found.close()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served("play") as found:
        yield found


@pytest.fixture
def serving() -> Iterator[Callable[..., str]]:
    """Starts servers, which outlive the pages that look at them."""
    with contextlib.ExitStack() as stack:
        yield lambda *words: stack.enter_context(served(*words))


@pytest.fixture
def opened(browser: Browser, address: str, serving: Any) -> Iterator[Open]:
    """Pages of the playground, or of another address; what they may not do is looked for at the end."""
    contexts, complaints = [], []

    def one(path: str = "", at: str = "", wait: str = "#rules tr", **words: Any) -> Page:
        context = browser.new_context(**{"viewport": DESKTOP, **words})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        own = urlsplit(at or address).netloc
        page.on(
            "request",
            lambda asked: complaints.append(asked.url) if urlsplit(asked.url).netloc not in (own, "") else None,
        )
        page.goto((at or address) + path)
        page.wait_for_selector(wait)
        return page

    yield one
    for context in contexts:
        context.close()
    assert complaints == []


def state(page: Page) -> dict[str, Any]:
    """The round that the address holds, once it is written there."""
    page.wait_for_selector("html:not([data-pending])")
    words = parse_qs(urlsplit(page.url).fragment, keep_blank_values=True)
    points = [None if p == "nan" else [float(x) for x in p.split(",")] for p in words["p"][0].split(";")]
    liars = [int(i) for i in words["l"][0].split(".") if i]
    view = [float(x) for x in words["v"][0].split(",")]
    found: dict[str, Any] = {"points": points, "liars": liars, "rules": words.get("r", []), "view": view}
    return {**found, "f": int(words["f"][0]), "images": int(words.get("k", ["8"])[0])}


def settled(page: Page) -> dict[str, Any]:
    """The same, after the answers to it are drawn: the table says what the library says."""
    until = time.monotonic() + PATIENCE / 1000
    while True:
        found = state(page)
        told = answered(read(found))
        wanted = [None if "error" in one else _written(one["away"]) for one in told["answers"]]
        cells = page.locator("#rules tr td:nth-child(3)").all_inner_texts()
        same = len(cells) == len(wanted) and all(text in (None, cell) for text, cell in zip(wanted, cells, strict=True))
        if same:
            return {**found, "told": told}
        assert time.monotonic() < until, (wanted, cells)


def _written(x: float) -> str:
    """A number as the page writes it: three digits."""
    if abs(x) < 1e-9:
        return "0"
    if 1000 <= abs(x) < 1e5:
        return f"{x:.0f}"
    if abs(x) >= 1e5 or abs(x) < 1e-3:
        return re.sub(r"e([-+])0+", r"e\1", f"{x:.1e}")
    digits = max(0, 2 - int(np.floor(np.log10(abs(x)))))
    text = f"{x:.{digits}f}"
    return text if len(text.replace(".", "").lstrip("0")) <= 3 else f"{x:.{max(0, digits - 1)}f}"


def held(page: Page, what: str) -> list[Route]:
    """Questions of this kind wait until the test lets them go on, in the order that hurts."""
    routes: list[Route] = []
    page.context.route(f"**/api/{what}", lambda route: routes.append(route))
    return routes


def came(page: Page, routes: list[Route], many: int) -> None:
    until = time.monotonic() + PATIENCE / 1000
    while len(routes) < many:
        assert time.monotonic() < until
        page.wait_for_timeout(50)


def marks(page: Page) -> np.ndarray:
    """Where the answers are drawn, in the plane's own numbers."""
    found = page.evaluate(
        """() => { const svg = document.querySelector("#plane");
        const numbers = (node, name) => node.getAttribute(name).match(/-?\\d[\\d.e-]*/g).map(Number);
        const [, , w, h] = numbers(svg, "viewBox");
        return [w, h, [...svg.querySelectorAll(".mark")].map((mark) => numbers(mark, "transform"))]; }"""
    )
    wide, high, places = found
    x, y, half = state(page)["view"]
    unit = min(wide, high) / (2 * half)
    return np.array([[x + (px - wide / 2) / unit, y - (py - high / 2) / unit] for px, py in places])


def point(page: Page, i: int) -> tuple[float, float]:
    """The middle of a worker's point on the screen."""
    box = page.locator("#plane .point").nth(i).locator(".body").bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


class TestPlayground:
    def test_a_dragged_point_moves_the_answers_to_where_the_library_says(self, opened: Open) -> None:
        page = opened()
        before = settled(page)
        page.click("#rules tr:nth-child(1) .name")  # one mark a rule, while no two-phase rule is chosen
        x, y = point(page, 7)
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 60, y + 30, steps=6)
        page.mouse.move(x + 160, y + 90, steps=6)
        page.mouse.up()
        after = settled(page)
        assert after["points"][7] != before["points"][7]
        assert [p for i, p in enumerate(after["points"]) if i != 7] == [
            p for i, p in enumerate(before["points"]) if i != 7
        ]
        values = np.array([one["value"] for one in after["told"]["answers"]])
        assert not np.allclose(values, [one["value"] for one in before["told"]["answers"]])
        np.testing.assert_allclose(marks(page), values, atol=2e-3 * after["view"][2])
        expect(page.locator("#rules td:nth-child(5)").filter(has_text="…")).to_have_count(0)  # certified at rest
        dropped = point(page, 7)
        assert np.hypot(dropped[0] - x - 160, dropped[1] - y - 90) < 4  # under the pointer

    def test_touch_drags_too(self, opened: Open) -> None:
        page = opened(viewport=PHONE, has_touch=True, is_mobile=True)
        before = settled(page)
        page.locator("#plane").scroll_into_view_if_needed()
        x, y = point(page, 9)
        line = page.context.new_cdp_session(page)
        for kind, dx in (("touchStart", 0), ("touchMove", 20), ("touchMove", 50), ("touchEnd", None)):
            where = [] if dx is None else [{"x": x + dx, "y": y}]
            line.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": where})
        after = settled(page)
        assert after["points"][9][0] > before["points"][9][0] + 0.1

    def test_everything_works_from_the_keyboard(self, opened: Open) -> None:
        page = opened()
        before = settled(page)
        page.locator("#plane .point").first.focus()
        page.keyboard.press("PageDown")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowUp")
        after = settled(page)
        (x, y), (nx, ny) = before["points"][1], after["points"][1]
        assert nx > x
        assert ny > y
        expect(page.locator("#plane .point:focus")).to_have_attribute(
            "aria-label", re.compile(rf"Worker 1, liar, at {nx}")
        )
        page.keyboard.press("Enter")
        assert 1 not in settled(page)["liars"]
        page.keyboard.press("n")
        assert settled(page)["points"][1] is None
        expect(page.locator("#plane .point:focus")).to_have_attribute("aria-label", re.compile("sends NaN, dropped"))
        page.keyboard.press("n")
        page.keyboard.press("Delete")
        assert len(settled(page)["points"]) == 10
        half = state(page)["view"][2]
        page.keyboard.press("+")
        assert state(page)["view"][2] < half
        page.keyboard.press("0")
        assert state(page)["view"][2] == pytest.approx(half, rel=0.3)
        seen = set()
        for _ in range(40):  # nothing holds the focus
            page.keyboard.press("Tab")
            seen.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
        assert {"text", "f", "worker", "x", "link", "python"} <= seen

    @pytest.mark.parametrize("name", [one["name"] for one in listed()])
    def test_presets(self, opened: Open, name: str) -> None:
        page = opened()
        page.click("#rules tr:nth-child(2) .name")
        with page.expect_response("**/api/preset"):
            page.select_option("#preset", "ALIE" if name == "sneak" else name)
        if name == "sneak":
            page.select_option("#preset", name)
        expect(page.locator("#preset")).to_have_value(name)
        found = settled(page)
        assert found["liars"]
        assert page.locator("#plane .point.liar").count() == len(found["liars"])
        if name == "nan":
            assert page.locator(".tray").count() == 1
            assert "drops 9, 10, 11, 12 (not finite)" in page.inner_text("#said")
        if name == "break":
            assert "MeanwO(f=5)" in page.inner_text("#said")
            assert "rounds the worst has κ" in page.inner_text("#said")

    def test_the_address_holds_the_picture(self, opened: Open) -> None:
        page = opened()
        page.select_option("#preset", "nan")
        settled(page)
        page.fill("#text", "NNM(f=4) >> CWTM(f=4)")
        page.press("#text", "Enter")
        page.uncheck("#show-votes")
        page.click("#wider")
        found = settled(page)
        other = opened(f"#{urlsplit(page.url).fragment}")
        again = settled(other)
        assert {k: again[k] for k in ("points", "liars", "f", "rules", "view")} == {
            k: found[k] for k in ("points", "liars", "f", "rules", "view")
        }
        assert again["rules"][-1] == "NNM(f=4) >> CWTM(f=4)"
        assert not other.is_checked("#show-votes")
        np.testing.assert_allclose(marks(other), marks(page), atol=1e-3)  # the view is kept to five digits
        assert other.inner_text("#rules") == page.inner_text("#rules")

    @pytest.mark.parametrize("text", ["#p=1,2;x,y&f=1", "#nonsense", "#p=1,2&l=7&f=0", "#p=1e9,0&l=&f=1"])
    def test_an_address_that_holds_none_is_said(self, opened: Open, text: str) -> None:
        page = opened(text)
        expect(page.locator("#toast")).to_contain_text("holds no picture")
        assert len(settled(page)["points"]) == 11

    def test_back_leads_to_the_picture_before(self, opened: Open) -> None:
        page = opened()
        first = settled(page)["points"]
        page.select_option("#preset", "Empire")
        expect(page.locator("#plane .point")).to_have_count(13)
        page.go_back()
        expect(page.locator("#plane .point")).to_have_count(11)
        assert settled(page)["points"] == first

    def test_two_tabs_do_not_mix(self, opened: Open) -> None:
        one, other = opened(), opened()
        one.select_option("#preset", "ALIE")
        other.select_option("#preset", "far")
        for k in range(4):
            for page in (one, other):
                page.locator("#plane .point").nth(k).focus()
                page.keyboard.press("ArrowLeft")
        assert settled(one)["points"] != settled(other)["points"]
        assert (len(settled(one)["liars"]), len(settled(other)["liars"])) == (4, 1)

    def test_the_vote_is_told_in_both_stories(self, opened: Open) -> None:
        page = opened()
        expect(page.locator("#vote")).to_contain_text("Of the honest, 1 prefer Inner and 6 Outer")
        expect(page.locator("#vote")).to_contain_text("Outer wins 6 to 5")
        page.fill("#images", "1")
        expect(page.locator("#vote")).to_contain_text("Inner wins 6 to 5")  # on few images the vote is lost
        page.fill("#images", "8")
        expect(page.locator("#vote")).to_contain_text("Outer wins 6 to 5")
        assert page.locator("#plane line.vote").count() == 11
        page.select_option("#preset", "siege")
        expect(page.locator("#vote")).to_contain_text("Inner wins")
        page.uncheck("#show-votes")
        assert page.locator("#plane line.vote").count() == 0

    def test_balls_and_regions_have_the_library_s_sizes(self, opened: Open) -> None:
        page = opened()
        page.click("#rules tr:nth-child(3) .name")
        found = settled(page)
        one = found["told"]["answers"][2]
        box = page.locator("#plane").bounding_box()
        assert box is not None
        unit = min(box["width"] - 2, box["height"] - 2) / (2 * found["view"][2])
        for kind, radius in (("ball", one["ball"][1]), ("region", one["certificate"]["region"])):
            drawn = float(page.locator(f"#plane circle.{kind}").get_attribute("r") or 0)
            assert drawn == pytest.approx(radius * unit, rel=0.01)
            page.uncheck(f"#show-{kind}")
            assert page.locator(f"#plane circle.{kind}").count() == 0

    def test_what_no_answer_can_be_below_stands_under_the_table(self, opened: Open) -> None:
        page = opened()
        settled(page)
        expect(page.locator("#least")).to_contain_text("No answer to these points can have a κ below")

    def test_the_liars_walk_until_no_step_hurts_more(self, opened: Open) -> None:
        page = opened()
        page.select_option("#preset", "Empire")
        page.click("#rules tr:nth-child(2) .name")
        before = settled(page)["told"]["answers"][1]["away"]
        page.click("#walk")
        expect(page.locator("#said")).to_contain_text("The liars stopped after")
        after = settled(page)
        assert after["told"]["answers"][1]["away"] > before
        expect(page.locator("#walk")).to_have_attribute("aria-pressed", "false")

    def test_workers_and_rules_come_and_go(self, opened: Open) -> None:
        page = opened()
        page.click("#add-honest")
        page.click("#add-liar")
        found = settled(page)
        assert (len(found["points"]), found["liars"]) == (13, [0, 1, 2, 3, 12])
        page.fill("#x", "1.25")
        page.check("#nan")
        assert settled(page)["points"][12] is None
        page.uncheck("#lies")
        page.click("#remove")
        assert len(settled(page)["points"]) == 12
        page.fill("#f", "3")
        assert "MeanwO(f=3)" in settled(page)["rules"]
        for _ in range(7):
            page.click("#rules tr:first-child .drop")
        expect(page.locator("#rules tr")).to_have_count(0)
        page.fill("#text", "Zeno(f=2)")
        page.press("#text", "Enter")
        expect(page.locator("#toast.error")).to_contain_text("Zeno is no known rule")
        expect(page.locator("#rules tr")).to_have_count(0)
        page.fill("#text", "MeanwO( 2 )")
        page.press("#text", "Enter")
        expect(page.locator("#rules .name")).to_have_text("MeanwO(f=2)")

    def test_it_is_saved_as_svg_and_as_python(self, opened: Open, tmp_path: Path) -> None:
        page = opened()
        found = settled(page)
        with page.expect_download() as download:
            page.click("#svg")
        file = tmp_path / "round.svg"
        download.value.save_as(file)
        root = ET.parse(file).getroot()
        assert root.tag.endswith("svg")
        classes = [one.get("class", "") for one in root.iter()]
        assert sum(name.startswith("point ") for name in classes) == 11
        assert sum(name.startswith("mark ") for name in classes) == 8
        assert "var(--honest)" in file.read_text()
        assert "--honest: #2f74ad" in file.read_text()
        page.click("#python")
        page.wait_for_selector("#code[open]")
        program = page.inner_text("#program")
        names: dict[str, Any] = {}
        with contextlib.redirect_stdout(io.StringIO()):
            exec(program, names)
        values = {str(one["value"]) for one in found["told"]["answers"]}
        assert {str(answer.tolist()) for answer in names["answers"].values()} == values
        page.keyboard.press("Escape")
        expect(page.locator("#code")).to_be_hidden()

    @pytest.mark.parametrize("view", ["1,1,1e-300", "2e6,0,1e-10", "0,0,1e300", "1,1,-1"])
    def test_no_link_hangs_the_page(self, opened: Open, view: str) -> None:
        page = opened(f"#p=0,0;1,1;2,0&l=&f=0&r=Average()&c=0&v={view}")
        page.click("#wider")
        assert 1e-7 < settled(page)["view"][2] < 2e6

    def test_an_answer_that_comes_late_is_not_drawn_over_another_round(self, opened: Open) -> None:
        page = opened()
        settled(page)
        routes = held(page, "round")
        page.locator("#plane .point").nth(9).focus()
        page.keyboard.press("ArrowLeft")
        came(page, routes, 1)
        page.select_option("#preset", "ALIE")
        expect(page.locator("#plane .point")).to_have_count(13)
        routes[0].continue_()  # the answer to the round before
        came(page, routes, 2)
        assert "6 of 13" not in page.inner_text("#said")
        expect(page.locator("#plane .point").last).not_to_have_attribute("aria-label", re.compile("excluded|kept"))
        routes[1].continue_()
        expect(page.locator("#said")).to_contain_text("9 of 13")

    def test_after_a_refusal_the_newest_round_is_asked(self, opened: Open) -> None:
        page = opened("#p=0,0;1,1;2,0&l=0.1&f=1&r=CWM()&c=0")
        page.locator("#plane .point").nth(2).focus()
        page.keyboard.press("Enter")  # nobody is honest
        expect(page.locator("#toast.error")).to_contain_text("Nobody is honest")
        for _ in range(3):  # honest and not, faster than answers come; in the end honest
            page.keyboard.press("Enter")
            page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        expect(page.locator("#toast")).to_be_empty()
        settled(page)
        expect(page.locator("#rules tr")).to_have_count(1)
        assert page.input_value("#f") == "1"

    def test_a_story_ends_when_its_round_does(self, opened: Open) -> None:
        page = opened()
        page.click("#rules tr:nth-child(2) .name")
        page.select_option("#preset", "break")
        expect(page.locator("#said")).to_contain_text("rounds the worst has")
        page.locator("#plane .point").first.focus()
        page.keyboard.press("ArrowLeft")
        expect(page.locator("#said")).not_to_contain_text("rounds the worst has")

    def test_promises_are_of_the_rule_s_own_f(self, opened: Open) -> None:
        points = "0,0;1,1;2,0;1,2;0,1;1,0;2,2;9,9;9,9.2;9.1,9"
        page = opened(f"#p={points}&l=7.8.9&f=5&r=MeanwO(f=2)&r=MeanwO( f = 4 )&c=0")
        expect(page.locator("#said")).to_contain_text("More lie than the f = 2 that MeanwO(f=2) withstands")
        page.click("#rules tr:nth-child(2) .name")
        expect(page.locator("#said")).to_contain_text("Certified for this one, if up to 4 of these 10 lie")
        page.fill("#f", "3")
        assert settled(page)["rules"] == ["MeanwO(f=3)", "MeanwO(f=3)"]

    def test_the_last_of_many_presets_stays(self, opened: Open) -> None:
        page = opened()
        routes = held(page, "preset")
        page.select_option("#preset", "ALIE")
        page.select_option("#preset", "far")
        came(page, routes, 2)
        routes[1].continue_()
        expect(page.locator("#plane .point.liar")).to_have_count(1)
        with page.expect_response("**/api/preset"):
            routes[0].continue_()
        assert len(settled(page)["liars"]) == 1
        assert page.input_value("#preset") == "far"

    def test_the_link_is_that_of_this_moment(self, opened: Open) -> None:
        page = opened()
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.locator("#plane .point").nth(9).focus()
        page.keyboard.press("ArrowLeft")
        page.click("#link")
        expect(page.locator("#toast")).to_contain_text("The link is copied")
        assert page.evaluate("navigator.clipboard.readText()") == page.url
        assert settled(page)["points"][9] != DILEMMA[9].tolist()

    def test_the_skip_link_leads_to_the_plane_and_leaves_the_address(self, opened: Open) -> None:
        page = opened()
        settled(page)
        before = page.url
        page.locator(".skip").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#plane .point:focus")).to_have_count(1)
        assert page.url == before

    def test_every_mark_has_its_letter(self, opened: Open) -> None:
        rules = "&".join(f"r=MoNNA(f=2, pivot={pivot})" for pivot in (0, 2, 4))  # means of three, 0.04 apart: a chain
        page = opened(f"#p=0,0;0.02,0;0.04,0;0.06,0;0.08,0&l=&f=2&{rules}&c=0&v=0,0,2")
        settled(page)
        letters = " ".join(page.locator("#plane .letter").all_text_contents()).split()
        assert sorted(letters) == ["A", "B", "C"]

    def test_who_drags_a_point_that_goes_away_drags_no_other(self, opened: Open) -> None:
        page = opened()
        x, y = point(page, 7)
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 30, y, steps=3)
        page.keyboard.press("Delete")
        page.mouse.move(x + 120, y + 40, steps=5)
        page.mouse.up()
        found = settled(page)["points"]
        assert len(found) == 10
        assert found == [*DILEMMA[:7].tolist(), *DILEMMA[8:].tolist()]

    def test_long_texts_and_many_who_send_nothing_stay_in_the_page(self, opened: Open) -> None:
        page = opened(f"#p={';'.join(['1,1', *['nan'] * 39])}&l=&f=1&r={'X' * 290}&c=0", viewport=PHONE)
        expect(page.locator("#rules .error")).to_have_count(1)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
        frame = page.locator("#plane").bounding_box()
        for i in range(40):
            where = point(page, i)
            assert frame is not None
            assert frame["x"] < where[0] < frame["x"] + frame["width"]
            assert frame["y"] < where[1] < frame["y"] + frame["height"]

    def test_a_server_that_is_gone_is_said(self, browser: Browser) -> None:
        with served("play") as address:
            page = browser.new_page()
            page.goto(address)
            page.wait_for_selector("#rules tr")
        page.locator("#plane .point").first.focus()
        page.keyboard.press("ArrowLeft")
        expect(page.locator("#toast.error")).not_to_be_empty()
        page.close()

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
    def test_everybody_can_read_it(self, opened: Open, scheme: str, size: Any) -> None:
        page = opened(viewport=size, color_scheme=scheme)
        for preset in ("siege", "nan"):
            page.select_option("#preset", preset)
            settled(page)
            found = Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        page.click("#python")
        page.wait_for_selector("#code[open]")
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six runs that are done, one that failed, one of the paper's cells as far as a test can go."""
    folder = tmp_path_factory.mktemp("watched") / "store"
    grid = {"rules": ["CWM()", "Mean2P(f={f})"], "attacks": ["SignFlip()", "Empire()", "NaN()"], "rates": 0.3}
    for _ in sweep(runs({**grid, "workers": 7, "rounds": 12, "every": 4}), Store(folder), jobs=1):
        pass
    train(Run(rule="MeanwO(f=2)", workers=7, byzantine=2, rounds=3), folder / "failed", certify=True)
    (folder / "failed" / "done").unlink()
    (folder / "failed" / "failed").write_text("MemoryError: <b>no</b> room")
    return folder


@pytest.fixture(scope="module")
def watched(store: Path) -> Iterator[str]:
    with served("watch", str(store)) as found:
        yield found


class TestLiveView:
    def test_runs_filters_and_one_run(self, opened: Open, watched: str) -> None:
        address = watched
        page = opened(at=address, wait="#runs li")
        expect(page.locator("#runs li")).to_have_count(7)
        expect(page.locator("#states")).to_contain_text("6 done")
        page.select_option("#rule", "Mean2P")
        expect(page.locator("#runs li")).to_have_count(3)
        page.select_option("#attack", "Empire")
        expect(page.locator("#runs li")).to_have_count(1)
        page.locator(".run").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#detail h2").first).to_have_text("Mean2P under Empire")
        expect(page.locator("#about")).to_contain_text("done, 12 of 12 rounds; 2 of 7 lie")
        expect(page.locator("#d-margin")).to_contain_text(re.compile(r"the honest margin, .*, last -?\d"))
        for chart in ("d-accuracy", "d-kept", "d-votes"):
            assert self.drawn(page, chart)
        page.locator("#d-kept").hover(position={"x": 300, "y": 20})
        expect(page.locator("#d-at")).to_contain_text(re.compile(r"round \d+, worker \d: (kept|excluded)"))
        other = opened(f"#{urlsplit(page.url).fragment}", at=address, wait="#runs li")
        expect(other.locator("#runs li")).to_have_count(1)
        expect(other.locator("#detail h2").first).to_have_text("Mean2P under Empire")
        page.select_option("#rule", "")
        page.select_option("#attack", "")
        page.select_option("#state", "failed")
        page.click(".run")
        expect(page.locator(".why")).to_have_text("MemoryError: <b>no</b> room")
        assert self.drawn(page, "d-kappa")
        page.select_option("#state", "")
        page.fill("#find", "empire cwm")
        expect(page.locator("#runs li")).to_have_count(1)
        page.fill("#find", "")
        page.locator(".run").first.click()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("End")
        expect(page.locator(".run[aria-pressed=true]")).to_have_count(1)
        expect(page.locator("#runs li:last-child .run")).to_be_focused()

    @staticmethod
    def drawn(page: Page, chart: str) -> bool:
        """Whether a canvas shows more than one colour."""
        return bool(
            page.evaluate(
                """(id) => { const c = document.getElementById(id);
                const shown = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
                return new Set(new Uint32Array(shown.buffer)).size > 3; }""",
                chart,
            )
        )

    def test_the_run_that_was_chosen_last_is_shown(self, opened: Open, watched: str) -> None:
        page = opened("#state=done", at=watched, wait="#runs li")
        routes = held(page, "runs/*")
        page.locator(".run").first.click()
        came(page, routes, 1)
        for _ in range(5):
            page.keyboard.press("ArrowDown")
        chosen = page.locator(".run[aria-pressed=true]").get_attribute("data-key")
        routes[0].continue_()
        came(page, routes, 2)
        routes[1].continue_()
        expect(page.locator("#detail")).to_contain_text(f"The record of {chosen}")
        page.context.unroute("**/api/runs/*")
        page.select_option("#state", "")
        expect(page.locator("#runs li")).to_have_count(7)
        page.reload()
        page.wait_for_selector("#runs li")
        assert page.input_value("#state") == ""

    def test_a_run_that_ends_while_it_is_read_is_read_again(self, opened: Open, serving: Any, tmp_path: Path) -> None:
        run = Run(rule="CWM()", workers=5, rounds=6, every=2)
        train(run, tmp_path / "runs" / "a")
        done, metrics = tmp_path / "runs" / "a" / "done", tmp_path / "runs" / "a" / "metrics.jsonl"
        whole = metrics.read_bytes()
        done.unlink()
        metrics.write_bytes(b"".join(whole.splitlines(keepends=True)[:4]))
        page = opened(at=serving("watch", str(tmp_path / "runs")), wait="#runs li")
        routes = held(page, "runs/*")
        page.click(".run")
        came(page, routes, 1)
        answer = routes[0].fetch()  # of four rounds
        metrics.write_bytes(whole)
        done.touch()
        expect(page.locator(".run")).to_contain_text("6/6")
        routes[0].fulfill(response=answer)
        came(page, routes, 2)
        routes[1].continue_()
        expect(page.locator("#about")).to_contain_text("done, 6 of 6 rounds")
        page.context.unroute("**/api/runs/*")

    def test_a_training_is_watched_as_it_goes(self, opened: Open, serving: Any, tmp_path: Path) -> None:
        call = [
            "train",
            "--rule",
            "Mean2P(f=2)",
            "--attack",
            "SignFlip()",
            "--n",
            "7",
            "--rounds",
            str(10**6),
            "--every",
            "100",
        ]
        words = children.holdfast(*call, "--out", str(tmp_path / "runs" / "a"))
        address = serving("watch", str(tmp_path / "runs"))
        page = opened(at=address, wait="#note:not(:empty)")
        expect(page.locator("#note")).to_contain_text("not there")
        with children.started(words) as process:
            page.wait_for_selector(".run .state-running")
            page.click(".run")
            seen: list[int] = []
            until = time.monotonic() + children.PATIENCE
            while len(set(seen)) < 3:
                said = re.search(r"running, (\d+) of 1000000", page.inner_text("#detail"))
                seen += [int(said[1])] if said else []
                assert time.monotonic() < until, seen
                page.wait_for_timeout(100)
            assert seen == sorted(seen)
            process.send_signal(signal.SIGINT)
            process.wait(children.PATIENCE)
        page.wait_for_selector(".run .state-begun")
        shutil.rmtree(tmp_path / "runs" / "a")
        expect(page.locator("#runs li")).to_have_count(0)
        expect(page.locator("#detail")).to_contain_text("Choose a run")
        expect(page.locator("#note")).to_contain_text("no runs yet")

    def test_the_paper_s_runs_have_its_numbers(self, opened: Open, serving: Any) -> None:
        archive = Path(__file__).parent.parent / "results" / "paper" / "runs.jsonl"
        address = serving("watch", str(archive))
        page = opened(at=address, wait="#runs li")
        expect(page.locator("#counted")).to_contain_text("faint dashes are the paper's numbers")
        page.select_option("#order", "gap")
        page.locator(".run").first.click()
        expect(page.locator("#about")).to_contain_text(re.compile(r"accuracy 0\.\d+ \(paper 0\.\d\d\)"))
        expect(page.locator("#detail")).to_contain_text("its rounds were not archived")

    def test_a_server_that_comes_back_is_heard_again(self, browser: Browser, store: Path) -> None:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        with served("watch", str(store)) as address:
            page.goto(address)
            page.wait_for_selector("#runs li")
        expect(page.locator("#note")).to_contain_text("cannot be reached")
        with served("watch", str(store), "--port", str(urlsplit(address).port)):
            expect(page.locator("#note")).to_be_empty()
            expect(page.locator("#runs li")).to_have_count(7)
        page.close()

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
    def test_everybody_can_read_it(self, opened: Open, watched: str, scheme: str, size: Any) -> None:
        page = opened(at=watched, wait="#runs li", viewport=size, color_scheme=scheme)
        for rule in ("Mean2P", "MeanwO"):
            page.click(f".run:has-text('{rule}')")
            expect(page.locator("#detail h2").first).to_contain_text(rule)
            found = Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
