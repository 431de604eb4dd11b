"""The report in a real browser: it renders, says and asks for nothing, and works with a keyboard, on a phone, on paper."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from podtide.adapters.views.report.notebook import WhatIf
from podtide.adapters.views.report.page import render
from tests.support import report_sample as sample
from tests.support.browser import Browser, Page

HOSTILE = "<script>alert(1)</script><img src=//evil.example/x onerror=alert(1)>\u202e"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A large what-if, a tune, and a what-if of an application whose name is an attack; a notebook's cell."""
    folder = tmp_path_factory.mktemp("reports")
    (folder / "large.html").write_text(render(sample.document()), encoding="utf-8")
    (folder / "tune.html").write_text(render(sample.tune_document()), encoding="utf-8")
    hostile = sample.document(HOSTILE, points=300, moves=50)
    for run in (hostile["self_replay"], *hostile["variants"]):
        for stage in run["stages"]:
            stage["name"] = HOSTILE
        run["notes"] = [HOSTILE]
    hostile["variants"][0]["name"] = HOSTILE
    (folder / "hostile.html").write_text(render(hostile), encoding="utf-8")
    cell = WhatIf(sample.document(points=300, moves=50))._repr_html_()
    (folder / "cell.html").write_text(
        f"<!DOCTYPE html><meta charset=utf-8><p>before</p>{cell}<p>after</p>", encoding="utf-8"
    )
    return folder


@pytest.fixture
def shown(browser: Browser, files: Path) -> Page:
    page = browser.page()
    page.media(prefers_reduced_motion="reduce", prefers_color_scheme="light")
    page.open(files / "large.html")
    return page


@pytest.mark.parametrize("name", ["large", "tune", "hostile", "cell"])
def test_it_renders_says_nothing_and_asks_for_nothing(browser: Browser, files: Path, name: str) -> None:
    page = browser.page()
    page.open(files / f"{name}.html")
    page.ask("new Promise(done => setTimeout(done, 100))")
    assert page.said() == []
    assert page.requests() == [(files / f"{name}.html").as_uri()]
    assert page.ask("[...document.querySelectorAll('svg path.area')].some(one => one.getBBox().height > 100)")
    assert page.ask("document.querySelectorAll('rect.part').length") > 20


def test_an_application_named_like_a_script_does_no_harm(browser: Browser, files: Path) -> None:
    page = browser.page()
    page.open(files / "hostile.html")
    assert page.ask("document.querySelectorAll('img').length") == 0
    assert page.ask("document.querySelector('h1').textContent").startswith("<script>alert(1)</script>")
    assert page.ask("document.querySelector('h1').textContent").endswith("\\u202e")
    assert page.ask("document.title").startswith("<script>alert(1)</script>")
    assert page.ask("[...document.scripts].filter(one => one.type !== 'application/json').length") == 1


def test_the_policy_stops_what_is_not_the_pages_own(shown: Page) -> None:
    shown.ask("document.body.insertAdjacentHTML('beforeend', '<img src=\"https://example.invalid/x.png\">'); 1")
    shown.ask(
        "(() => {const one = document.createElement('script'); one.text = 'window.ran = 1'; document.body.append(one)})()"
    )
    shown.ask("new Promise(done => setTimeout(done, 50))")
    assert shown.ask("window.ran") is None
    assert shown.stopped() == ["csp"] * len([url for url in shown.requests() if url.startswith("http")])


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
@pytest.mark.parametrize("name", ["large", "tune", "hostile"])
def test_nothing_scrolls_sideways(browser: Browser, files: Path, name: str, width: int) -> None:
    page = browser.page(width=width)
    page.open(files / f"{name}.html")
    page.ask("document.querySelectorAll('details').forEach(one => {one.open = true}); 1")
    assert page.ask("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    wide = page.ask(
        "[...document.querySelectorAll('body *')].filter(one => !one.closest('svg,.defs,.hidden,.skip') && "
        "(one.getBoundingClientRect().right > innerWidth + 1 || one.scrollWidth > one.clientWidth + 1 && "
        "['auto', 'scroll'].includes(getComputedStyle(one).overflowX))).map(one => one.outerHTML.slice(0, 120))"
    )
    assert wide == []


def test_the_pointer_tells_the_moment_and_the_decision(shown: Page) -> None:
    x, y = shown.middle("#happened .cursor")
    shown.point(x, y)
    told = shown.ask("document.getElementById('tip').innerText").splitlines()
    assert re.match(r"\d+:\d\d", told[0])
    assert {line.split()[0] for line in told[1:]} == {"busy", "running", "pending", "target", "needed", "recorded"}
    x, y = shown.middle("#happened .lane .m-up")
    shown.point(x, y)
    assert re.search(r"target \d+ → \d+", shown.ask("document.getElementById('tip').innerText"))
    box = shown.ask(
        "(() => {const b = document.getElementById('tip').getBoundingClientRect(); return [b.left, b.right]})()"
    )
    assert box[0] >= 0
    assert box[1] <= 1280
    shown.point(5, 5)
    assert shown.ask("document.getElementById('tip').hidden")


def test_the_keyboard_reaches_everything_the_pointer_does(shown: Page) -> None:
    shown.press("Tab")
    assert shown.ask("document.activeElement.className") == "skip"
    shown.ask("document.querySelector('#happened .cursor').focus()")
    shown.press("ArrowRight", 3)
    assert shown.ask("document.activeElement.getAttribute('aria-valuenow')") == "3"
    shown.press("ArrowRight", 1, shift=True)
    assert shown.ask("document.activeElement.getAttribute('aria-valuenow')") == "13"
    assert "running" in shown.ask("document.activeElement.getAttribute('aria-valuetext')")
    assert shown.ask("!document.getElementById('tip').hidden")
    shown.press("Tab")
    assert shown.ask("document.activeElement.classList.contains('mark')")
    first = shown.ask("document.getElementById('tip').textContent")
    assert first == shown.ask("document.activeElement.getAttribute('aria-label')")
    shown.press("End")
    assert shown.ask("document.getElementById('tip').textContent") not in ("", first)
    assert shown.ask("document.querySelectorAll('#happened .lane [tabindex=\"0\"]').length") == 1
    shown.press("Escape")
    assert shown.ask("document.getElementById('tip').hidden")
    shown.press("Tab")
    assert not shown.ask("document.activeElement.classList.contains('mark')")


def test_a_part_of_the_ledger_tells_what_it_is(shown: Page) -> None:
    shown.ask("document.querySelector('#cost .part').focus()")
    shown.press("ArrowRight")
    assert re.match(r"lost work: [\d,]+ s, 2.1%", shown.ask("document.getElementById('tip').textContent"))


def test_curves_can_be_switched_off(shown: Page) -> None:
    seen = "getComputedStyle(document.querySelector('#happened .area.s-busy')).display"
    shown.click("#happened [data-series=busy]")
    assert shown.ask(seen) == "none"
    shown.click("#happened [data-series=busy]")
    assert shown.ask(seen) != "none"


DRAWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"
"""Wait until listeners have heard of a change and the page is drawn anew."""


def test_both_themes_and_a_switch(shown: Page) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = shown.ask(ground)
    shown.media(prefers_color_scheme="dark")
    shown.ask(DRAWN)
    dark = shown.ask(ground)
    assert light != dark
    assert shown.ask("document.getElementById('theme').textContent") == "Light theme"
    shown.click("#theme")
    assert shown.ask(ground) == light
    shown.media(prefers_color_scheme="light")
    shown.ask(DRAWN)
    shown.click("#theme")
    assert shown.ask(ground) == dark
    shown.media("print")
    assert shown.ask("getComputedStyle(document.documentElement).getPropertyValue('--ink')") == "#1b2027"
    shown.ask("localStorage.clear()")


def test_lines_to_paste_are_copied(browser: Browser, files: Path) -> None:
    page = browser.page()
    page.open(files / "tune.html")
    page.click("[data-copy=paste-0]")
    page.ask("new Promise(done => setTimeout(done, 50))")
    assert page.ask("document.getElementById('status').textContent") in ("Copied to the clipboard", "Selected")
    assert page.ask("getSelection().toString() || document.querySelector('[data-copy]').textContent")
    assert "spark.dynamicAllocation.maxExecutors 72" in page.ask("document.getElementById('paste-0').textContent")


def test_without_a_script_the_page_is_whole(browser: Browser, files: Path) -> None:
    page = browser.page()
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    page.open(files / "large.html")
    page.call("Emulation.setScriptExecutionDisabled", value=False)
    assert page.ask("document.querySelectorAll('table').length") > 5
    assert page.ask("[...document.querySelectorAll('.cursor, #theme')].every(one => one.hidden)")


def test_on_paper_it_is_light_and_opens_with_the_answer(shown: Page, tmp_path: Path) -> None:
    data = shown.printed(tmp_path / "report.pdf")
    assert data.startswith(b"%PDF")
    pages = len(re.findall(rb"/Type\s*/Page\b", data))
    assert 3 <= pages <= 12


def test_every_control_and_picture_has_a_name_for_a_screen_reader(shown: Page) -> None:
    tree = shown.call("Accessibility.getFullAXTree")["nodes"]
    kinds = ("button", "link", "slider", "image", "img", "table", "region")
    found = [one for one in tree if not one.get("ignored") and one.get("role", {}).get("value") in kinds]
    nameless = [one["role"]["value"] for one in found if not one.get("name", {}).get("value")]
    assert len(found) > 50
    assert nameless == []
    levels = shown.ask("[...document.querySelectorAll('h1,h2,h3')].map(one => +one.tagName[1])")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_a_notebooks_cell_leaves_the_page_around_it_alone(browser: Browser, files: Path) -> None:
    page = browser.page()
    page.open(files / "cell.html")
    assert page.ask("getComputedStyle(document.body).backgroundColor") == "rgba(0, 0, 0, 0)"
    assert page.ask("getComputedStyle(document.querySelector('body > p')).fontSize") == "16px"
    assert page.ask("document.querySelector('.podtide-whatif .mark title').textContent")
    assert page.ask("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
