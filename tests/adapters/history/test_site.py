"""The pages of a history: whole, escaped, and closed to whoever may not see them."""

from __future__ import annotations

import base64
import http.client
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from html.parser import HTMLParser
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self, TypeVar

import pytest

from podtide.adapters.history.site.pages import SiteTerms
from podtide.adapters.history.site.routes import HistorySite
from podtide.adapters.history.site.shelf import FAILED, MADE, WAITING_MAX, ReportShelf, Shelved, TooMany
from podtide.adapters.history.store import RunHistory
from podtide.adapters.http_server.small_server import HttpAsked, HttpReply, SmallServer
from podtide.adapters.process_pool import Ended
from podtide.domain.whatif.prices import Prices
from podtide.entrypoints.watch.command import run_watch
from tests.entrypoints.watch.test_watch import asked
from tests.support.browser import Browser
from tests.support.watch_fakes import FakeClock, Inline, fake_take_up, log, nightly

HOSTILE = "<script>alert(1)</script><img src=//evil.example/x onerror=alert(1)>\u202e'\""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    nightly(folder / "logs", "etl", [100, 101, 99, 100, 102, 160, 161, 159, 160])
    for day in range(3):
        log(folder / "logs" / f"hostile-{day}", HOSTILE, day, spark=HOSTILE)
    log(folder / "logs" / "refused", "refused", 1, status="refused")
    stall = (HOSTILE, 0, 12.0, 340.0, True, HOSTILE, "Raise the quota.")
    log(folder / "logs" / "hung", "hung", 1, stalls=[stall])
    log(folder / "logs" / f"bad {HOSTILE.replace('/', '_')}", "x", 1).write_text("damaged {}")
    run_watch(asked(folder), Inline, FakeClock(), work=fake_take_up)
    return folder / "history.db"


def site(history: Path, shelf: Any = None, **more: Any) -> HistorySite:
    terms = SiteTerms(more.pop("prices", None))
    return HistorySite(str(history), terms, shelf, **more)


def numbers(history: Path) -> dict[str, int]:
    with RunHistory(str(history), write=False) as base:
        return {run.key.app_id: run.id for run in base.runs()}


class Links(HTMLParser):
    """The links of a page, and its elements."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.kinds: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.kinds.add(tag)
        assert not [key for key, _ in attrs if key.startswith("on") or key in ("src", "style")], attrs
        self.links += [value for key, value in attrs if key == "href" and value]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_every_link_leads_to_a_page_and_nothing_of_a_log_is_markup(history: Path) -> None:
    served = site(history)
    seen: dict[str, str] = {}
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        reply = served.reply(HttpAsked(path))
        assert reply.status is HTTPStatus.OK, path
        page = Links(reply.body.decode())
        assert page.kinds.isdisjoint({"script", "img", "iframe", "form", "link"}), path
        assert "\u202e" not in page.text
        assert dict(reply.headers)["Content-Security-Policy"].startswith("default-src 'none'; style-src 'sha256-")
        seen[path] = page.text
        assert all(re.fullmatch(r"/[a-z0-9/]*", link) for link in page.links)
        waiting += [link for link in page.links if link not in seen and link not in waiting]
    assert len([path for path in seen if path.startswith("/run/")]) == 14
    assert "<script>alert(1)</script>" in seen["/"]
    assert "is damaged" in seen["/broken"]
    assert "14 runs of 4 applications, 2 regressions reported, 1 stalled run" in seen["/"]


def test_the_page_of_an_application_says_what_was_normal_and_what_was_not(history: Path) -> None:
    known = numbers(history)
    page = site(history).reply(HttpAsked(f"/app/{known['etl-8']}")).body.decode()
    assert page.count("<circle") == 18
    assert page.count('class="dot worse"') == 6
    assert "2m40s, normally 1m40s" in page
    assert "lean" in page
    run = site(history).reply(HttpAsked(f"/run/{known['etl-5']}")).body.decode()
    assert "normally 1m40s (+60%)" in Links(run).text


def test_a_run_in_which_nothing_moved_is_told_on_every_page_about_it(history: Path) -> None:
    pages = site(history)
    for path in ("/", f"/app/{numbers(history)['hung-1']}", f"/run/{numbers(history)['hung-1']}"):
        shown = Links(pages.reply(HttpAsked(path)).body.decode())
        assert "tasks waited and nothing moved" in shown.text
        assert "for 5m40s to the end of the log" in shown.text
        assert "Raise the quota." in shown.text


def test_money_is_shown_by_the_prices_that_were_given(history: Path) -> None:
    prices = Prices(core_hour=6.0, gb_hour=0.0, currency="EUR")
    page = site(history, prices=prices).reply(HttpAsked(f"/run/{numbers(history)['etl-0']}")).body.decode()
    assert "€1.00" in page


@pytest.mark.parametrize(
    "path", ["/run/0", "/run/999", "/run/1/", "/run/-1", "/app/1/report", "/../etc/passwd", "/run/1/report/x", "//", ""]
)
def test_there_is_nothing_else(history: Path, path: str) -> None:
    assert site(history).reply(HttpAsked(path)).status is HTTPStatus.NOT_FOUND


def test_a_history_that_is_gone_is_said_on_a_page(tmp_path: Path) -> None:
    reply = site(tmp_path / "gone.db").reply(HttpAsked("/"))
    assert reply.status is HTTPStatus.SERVICE_UNAVAILABLE
    assert b"there is no such history" in reply.body


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:10080", 200), ("localhost", 200), ("[::1]:80", 200), ("", 200),
        ("evil.example", 421), ("127.0.0.1.evil.example", 421), ("localhost@evil.example:80", 421),
    ],
)  # fmt: skip
def test_on_loopback_it_answers_to_names_of_the_machine_alone(history: Path, host: str, status: int) -> None:
    assert site(history).reply(HttpAsked("/", host=host)).status == status
    assert site(history, local=False).reply(HttpAsked("/", host=host)).status == 200


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ("", 401), ("Bearer sesame-open-sesame", 200), ("bearer sesame-open-sesame", 200), ("Bearer sesame", 401),
        (basic("anybody", "sesame-open-sesame"), 200), (basic("", "sesame-open-sesame"), 200),
        (basic("sesame-open-sesame", ""), 401), ("Basic !!", 401), ("Basic", 401), ("Digest sesame-open-sesame", 401),
    ],
)  # fmt: skip
def test_a_token_is_wanted_for_every_page(history: Path, authorization: str, status: int) -> None:
    served = site(history, token="sesame-open-sesame", local=False)
    for path in ("/", "/run/1", "/metrics", "/nothing"):
        reply = served.reply(HttpAsked(path, authorization=authorization))
        assert (reply.status == 401) is (status == 401)
    assert served.reply(HttpAsked("/healthz")).status == 200


class Bench:
    """Processes that answer when the test says so."""

    def __init__(self, answers: Callable[[bytes], bytes | Ended]) -> None:
        self._answers = answers

    def run(self, requests: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes | Ended]]:
        for key, request in requests:
            yield key, self._answers(request)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def shelf(answers: Callable[[bytes], bytes | Ended]) -> ReportShelf:
    return ReportShelf(lambda request: request, lambda _work: Bench(answers))  # type: ignore[arg-type,return-value]


T = TypeVar("T")


def until_there(made: Callable[[], T | None]) -> T:
    deadline = time.monotonic() + 30
    while (found := made()) is None:
        assert time.monotonic() < deadline
    return found


def test_a_report_is_made_once_and_then_shown(history: Path) -> None:
    requests: list[list[Any]] = []

    def answers(request: bytes) -> bytes:
        requests.append(json.loads(request))
        return MADE + b"<!DOCTYPE html>the report"

    number = numbers(history)["etl-3"]
    with shelf(answers) as kept:
        served = site(history, kept)
        path = HttpAsked(f"/run/{number}/report")
        first = served.reply(path)
        assert first.status is HTTPStatus.ACCEPTED
        assert dict(first.headers)["Refresh"] == "2"

        def made() -> HttpReply | None:
            reply = served.reply(path)
            return None if reply.status is HTTPStatus.ACCEPTED else reply

        reply = until_there(made)
        assert reply.body == b"<!DOCTYPE html>the report"
        assert dict(reply.headers)["Content-Security-Policy"] == "frame-ancestors 'none'"
        assert served.reply(path).body == reply.body
    assert len(requests) == 1
    assert requests[0][0].endswith("etl-003")
    assert requests[0][1] == "lean"
    assert b"/report" in served.reply(HttpAsked(f"/run/{number}")).body
    refused = numbers(history)["refused-1"]
    assert served.reply(HttpAsked(f"/run/{refused}/report")).status is HTTPStatus.NOT_FOUND


@pytest.mark.parametrize(
    ("answer", "why"), [(FAILED + b"it is gone", "it is gone"), (Ended("not done within 2m"), "not done within 2m")]
)
def test_a_report_that_cannot_be_made_says_why(answer: bytes | Ended, why: str) -> None:
    with shelf(lambda _request: answer) as kept:
        assert until_there(lambda: kept.get("a", b"")) == Shelved(None, why)


def test_reports_that_are_waited_for_and_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("podtide.adapters.history.site.shelf.KEPT_BYTES", 250)
    with shelf(lambda request: MADE + request * 100) as kept:
        for key in "abc":
            until_there(lambda key=key: kept.get(key, key.encode()))  # type: ignore[misc]
        assert kept.get("c", b"c") == Shelved(b"c" * 100)
        assert kept.get("b", b"b") == Shelved(b"b" * 100)
        assert kept.get("a", b"a") is None
    never = ReportShelf(lambda request: request, lambda _work: Bench(lambda _: b""))  # type: ignore[arg-type,return-value]
    monkeypatch.setattr(never, "_run", lambda: None)
    for number in range(WAITING_MAX):
        assert never.get(str(number), b"") is None
    with pytest.raises(TooMany):
        never.get("more", b"")


def test_in_a_browser_the_pages_load_nothing_and_the_drawings_have_a_size(history: Path, browser: Browser) -> None:
    known = numbers(history)
    with SmallServer(site(history).reply) as server:
        page = browser.page()
        for path in (
            "/",
            f"/app/{known['etl-8']}",
            f"/run/{known['etl-5']}",
            f"/app/{known[f'{HOSTILE}-1']}",
            "/broken",
        ):
            page.call("Page.navigate", url=server.url + path)
            browser.until("Page.loadEventFired", page._session)
            assert page.ask("document.styleSheets.length") == 1
            assert page.ask("getComputedStyle(document.querySelector('section')).borderRadius") == "12px"
            assert page.ask("document.documentElement.scrollWidth <= innerWidth")
        asked_for = [
            one["params"]["request"]["url"] for one in browser.events if one["method"] == "Network.requestWillBeSent"
        ]
        assert all(url.startswith(server.url) for url in asked_for)
        said = [one for one in browser.events if one["method"] in ("Log.entryAdded", "Runtime.exceptionThrown")]
        assert [one for one in said if "favicon" not in str(one)] == []
        page.call("Page.navigate", url=f"{server.url}/app/{known['etl-8']}")
        browser.until("Page.loadEventFired", page._session)
        width, height = page.ask(
            "(b => [b.width, b.height])(document.querySelector('svg.chart').getBoundingClientRect())"
        )
        assert width > 600
        assert height == 180
        page.click("svg.chart a")
        browser.until("Page.loadEventFired", page._session)
        assert page.ask("location.pathname").startswith("/run/")


def test_over_http_a_page_has_its_headers(history: Path) -> None:
    with SmallServer(site(history).reply) as server:
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        client.request("GET", "/?query=ignored")
        answer = client.getresponse()
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert "script-src" not in answer.headers["Content-Security-Policy"]
        client.request("POST", "/")
        assert client.getresponse().status == 405
