"""The report of a fleet in a real browser: rows open pages and pages lead back, with nothing asked for, on any width."""

from __future__ import annotations

from pathlib import Path

import pytest

from podtide.adapters.fleet.page import render
from podtide.adapters.fleet.summary import FleetSummary
from podtide.domain.whatif.prices import Prices
from podtide.entrypoints.fleet.work import FleetOptions
from tests.support.browser import Browser
from tests.support.fleet_fakes import fake_assess, fake_log

PRICES = Prices(core_hour=1.0)
SHOWN = "[...document.querySelectorAll('main > section')].filter(one => one.offsetParent).map(one => one.id)"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    with FleetSummary(PRICES) as summary:
        for number in range(40):
            name = f"job-{number}-{'long' * 30}" if number % 2 else f"<b>{number}</b>"
            log = fake_log(folder / f"{number}", number=number, name=name)
            summary.add(fake_assess(str(log), FleetOptions(prices=PRICES)))
        (folder / "fleet.html").write_text(
            render(summary.document() | {"out": "night.csv"}, summary.runs), encoding="utf-8"
        )
    return folder / "fleet.html"


def test_a_row_opens_its_applications_page_and_back_leads_to_all(browser: Browser, report: Path) -> None:
    page = browser.page()
    page.open(report)
    assert page.ask(SHOWN) == ["short", "monday", "money"]
    page.click("#monday tbody a")
    opened = page.ask("location.hash.slice(1)")
    assert page.ask(SHOWN) == [opened]
    assert page.ask(f"document.querySelector('#{opened} h2').textContent") == page.ask(
        "document.querySelector('#monday tbody a').textContent"
    )
    page.click(f"#{opened} a")
    assert page.ask(SHOWN) == ["short", "monday", "money"]
    assert page.said() == []
    assert {url.partition("#")[0] for url in page.requests()} == {report.as_uri()}


@pytest.mark.parametrize("width", [320, 768, 1280])
def test_nothing_of_a_fleet_scrolls_sideways(browser: Browser, report: Path, width: int) -> None:
    page = browser.page(width=width)
    page.open(report)
    for address in ("", "app-1", "app-2"):
        page.ask(f"location.hash = '{address}'")
        assert page.ask("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), address
