"""Metrics and health over HTTP: what is answered, and what somebody who means no good gets."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace

import pytest

from podtide.adapters.http_server.small_server import HEADERS_MAX, LINE_MAX, CannotServe
from podtide.adapters.views.live import http_server as live_http
from podtide.adapters.views.live.http_server import LiveHttp
from podtide.adapters.views.live.metrics import LiveMetrics
from podtide.adapters.views.live.status import Lease, LiveSnapshot, WatchHealth
from tests.support.live_play import ABOUT, START

WELL = LiveSnapshot(
    at=START + 1_000, change=0, started=START, about=ABOUT, listed=True, watch=WatchHealth.ALIVE,
    lease=Lease.HELD, beat_s=0.5,
)  # fmt: skip


class Run:
    """What the server asks."""

    def __init__(self) -> None:
        self.stands = WELL

    def snapshot(self) -> LiveSnapshot:
        return self.stands


@pytest.fixture
def run() -> Run:
    return Run()


@pytest.fixture
def server(run: Run) -> Iterator[LiveHttp]:
    with LiveHttp(run.snapshot, LiveMetrics(run.snapshot)) as made:
        yield made


def ask(server: LiveHttp, path: str, method: str = "GET", **headers: str) -> tuple[int, str, dict[str, str]]:
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), {name.lower(): value for name, value in answer.getheaders()}


def raw(server: LiveHttp, data: bytes) -> bytes:
    """What comes back for these bytes, up to the end of the connection."""
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=10)) as connection:
        answer = b""
        with suppress(OSError):  # it does not even read all of it
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65_536):
                answer += part
        return answer


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/", 200, "/readyz"),
        ("/metrics", 200, "podtide_target_executors"),
        ("/metrics?a=b", 200, "podtide_build_info"),
        ("/healthz", 200, "ok\n"),
        ("/readyz", 200, "ok\n"),
        ("/metrics/", 404, "nothing here"),
        ("//metrics", 404, "nothing here"),
        ("/../../etc/passwd", 404, "nothing here"),
        ("/%2e%2e/etc/passwd", 404, "nothing here"),
        ("http://elsewhere/metrics", 404, "nothing here"),
    ],
)
def test_paths(server: LiveHttp, path: str, status: int, text: str) -> None:
    found, body, headers = ask(server, path)
    assert (found, headers["connection"], headers["content-length"]) == (status, "close", str(len(body)))
    assert text in body
    assert "server" not in headers


def test_health_says_why_not(server: LiveHttp, run: Run) -> None:
    run.stands = replace(WELL, beat_s=31.0, lease=Lease.LOST)
    assert ask(server, "/healthz")[:2] == (503, "the loop has not turned for 31 s, expected within 30 s\n")
    assert ask(server, "/readyz")[:2] == (
        503, "the loop has not turned for 31 s, expected within 30 s\nthe lease is lost\n"
    )  # fmt: skip
    run.stands = replace(WELL, listed=False)
    assert ask(server, "/healthz")[0] == 200
    assert ask(server, "/readyz")[:2] == (503, "the pods have not been listed yet\n")


def test_head_has_no_body(server: LiveHttp) -> None:
    status, body, headers = ask(server, "/metrics", "HEAD")
    assert (status, body) == (200, "")
    assert int(headers["content-length"]) > 1_000


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "X"])
def test_nothing_can_be_written(server: LiveHttp, method: str) -> None:
    status, body, headers = ask(server, "/metrics", method)
    assert (status, headers["allow"]) == (405, "GET, HEAD")
    assert "podtide" not in body


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /" + b"a" * LINE_MAX + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * (2 * HEADERS_MAX) + b"\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * HEADERS_MAX + b"\r\n", b"431"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / FTP/1.0\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n", b"400"),
        (b"GET /x\xff\x00\x1b[31m HTTP/1.0\r\n\r\n", b"404"),
    ],
)
def test_a_strange_request_gets_a_short_answer(server: LiveHttp, data: bytes, status: bytes) -> None:
    answer = raw(server, data)
    if answer:  # the connection may be reset before it is read, when more was sent than is read
        assert answer.startswith(b"HTTP/1.0 " + status)
    assert len(answer) < 400
    assert b"aaa" not in answer
    assert b"\x1b" not in answer
    assert ask(server, "/healthz")[0] == 200


def test_an_empty_connection_is_let_go(server: LiveHttp) -> None:
    assert raw(server, b"") == b""
    assert ask(server, "/healthz")[0] == 200


def test_one_request_a_connection(server: LiveHttp) -> None:
    answer = raw(server, b"GET /healthz HTTP/1.1\r\nConnection: keep-alive\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n")
    assert answer.count(b"HTTP/1.0 200") == 1


def test_who_drips_is_cut_off(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_http, "DEADLINE_S", 0.2)
    with (
        LiveHttp(run.snapshot, None) as server,
        closing(socket.create_connection(("127.0.0.1", server.port), timeout=10)) as connection,
    ):
        connection.sendall(b"GET /heal")
        assert connection.recv(100) == b""


def test_too_many_at_once_are_turned_away(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_http, "CONNECTIONS_MAX", 2)
    with LiveHttp(run.snapshot, None) as server:
        waiting = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(2)]
        try:
            third = raw(server, b"")
            assert third.startswith(b"HTTP/1.0 503")
        finally:
            for connection in waiting:
                connection.close()


def test_without_metrics_there_is_health(run: Run) -> None:
    with LiveHttp(run.snapshot, None) as server:
        assert ask(server, "/healthz")[0] == 200
        assert ask(server, "/metrics")[0] == 404


def test_a_failing_scrape_is_an_answer(run: Run, server: LiveHttp) -> None:
    run.stands = None  # type: ignore[assignment]
    status, body, _ = ask(server, "/metrics")
    assert (status, body) == (500, "this could not be answered\n")


def test_whoever_asks_for_openmetrics_gets_it(server: LiveHttp) -> None:
    _, body, headers = ask(server, "/metrics", Accept="application/openmetrics-text; version=1.0.0; charset=utf-8")
    assert headers["content-type"].startswith("application/openmetrics-text")
    assert body.endswith("# EOF\n")


def test_it_listens_on_loopback_and_says_where(server: LiveHttp) -> None:
    assert server.url == f"http://127.0.0.1:{server.port}"
    assert server.port > 0


def test_a_port_in_use_is_said(server: LiveHttp, run: Run) -> None:
    with pytest.raises(CannotServe, match=f"port {server.port} of 127.0.0.1 is in use: choose another, or 0"):
        LiveHttp(run.snapshot, None, server.port)


@pytest.mark.parametrize(
    ("address", "port", "why"),
    [
        ("203.0.113.7", 0, "203.0.113.7 is no address of this machine"),
        ("no such host\x1b", 0, r"no such host\\x1b is no address of this machine"),
        ("127.0.0.1", 70_000, "70000 is no port: expected a number from 0 to 65535"),
        ("127.0.0.1", -1, "-1 is no port"),
    ],
)
def test_where_nothing_can_be_served(run: Run, address: str, port: int, why: str) -> None:
    with pytest.raises(CannotServe, match=why):
        LiveHttp(run.snapshot, None, port, address)


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 in this Python")
def test_ipv6(run: Run) -> None:
    try:
        server = LiveHttp(run.snapshot, None, 0, "::1")
    except CannotServe:
        pytest.skip("this machine has no IPv6 loopback")
    with server:
        assert server.url.startswith("http://[::1]:")


def test_it_can_be_closed_twice_and_its_port_is_free_again(run: Run) -> None:
    server = LiveHttp(run.snapshot, None)
    port = server.port
    server.close()
    server.close()
    LiveHttp(run.snapshot, None, port).close()
