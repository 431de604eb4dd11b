"""The transport: what reaches the server, what comes back, and what never stands in a text. A small server of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from podtide.adapters.kubernetes.api import CallSeen, ConnectionRefused, KubernetesApi, Unreachable, connect
from tests.support.clock import SecondsClock

pytest.importorskip("kubernetes")


class Server:
    """Answers GET /STATUS with that status; remembers the credentials; /slow sends half of its body."""

    def __init__(self) -> None:
        self.seen: list[str | None] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.seen.append(self.headers.get("Authorization"))
                path = self.path.partition("?")[0]
                status = int(path.strip("/")) if path.strip("/").isdigit() else 200
                self.send_response(status)
                if status == 429:
                    self.send_header("Retry-After", "7")
                self.send_header("Content-Length", "100" if path == "/slow" else "2")
                self.end_headers()
                self.wfile.write(b"{}")
                if path == "/slow":
                    self.close_connection = True

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


def kubeconfig(folder: Path, url: str, user: str) -> str:
    path = folder / "kubeconfig"
    path.write_text(
        f"apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n"
        f"users: [{{name: u, user: {user}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u, namespace: jobs}}}}]\n"
    )
    return str(path)


def api(folder: Path, server: Server, user: str = "{token: s3cret}", **more: Any) -> KubernetesApi:
    return connect(kubeconfig(folder, server.url, user), **more)


def test_a_call_its_answer_and_who_counts_it(tmp_path: Path, server: Server) -> None:
    seen: list[CallSeen] = []
    made = api(tmp_path, server, watcher=seen.append)
    answer = made.call("create", "pods", "/201", body=b"{...}")
    assert (answer.status, answer.body, answer.ok) == (201, b"{}", True)
    assert server.seen == ["Bearer s3cret"]
    assert [(one.verb, one.resource, one.status, one.sent, one.received) for one in seen] == [
        ("create", "pods", 201, 5, 2)
    ]
    assert made.namespace == "jobs"


@pytest.mark.parametrize(("status", "waits"), [(429, 7_000), (500, None), (404, None)])
def test_a_refusal_is_an_answer(tmp_path: Path, server: Server, status: int, waits: int | None) -> None:
    answer = api(tmp_path, server).call("get", "pods", f"/{status}")
    assert (answer.status, answer.ok, answer.retry_after_ms) == (status, False, waits)


def test_an_answer_that_breaks_off_may_have_taken_effect(tmp_path: Path, server: Server) -> None:
    with pytest.raises(Unreachable) as broken:
        api(tmp_path, server).call("create", "pods", "/slow", body=b"{}")
    assert broken.value.sent


def test_a_server_that_is_not_there_got_nothing(tmp_path: Path, server: Server) -> None:
    made = api(tmp_path, server)
    server.http.shutdown()
    server.http.server_close()
    with pytest.raises(Unreachable) as away:
        made.call("get", "pods", "/")
    assert not away.value.sent
    assert "s3cret" not in away.value.why


def test_a_watch_that_stays_silent_ends(tmp_path: Path, server: Server) -> None:
    stream = api(tmp_path, server).stream("pods", "/slow", silence_s=0.2)
    with pytest.raises(Unreachable):
        list(stream.chunks())


def test_who_we_are_is_asked_for_once_a_second_and_after_a_401(tmp_path: Path, server: Server) -> None:
    clock, asked = SecondsClock(), list[str]()
    made = api(tmp_path, server, clock=clock)
    ask = made._client.update_params_for_auth

    def counted(*given: Any) -> None:
        asked.append("asked")
        ask(*given)

    made._client.update_params_for_auth = counted
    for _ in range(5):
        made.call("get", "pods", "/200")
    assert len(asked) == 1
    clock.seconds = 1.5
    made.call("get", "pods", "/401")
    assert len(asked) == 2
    made.call("get", "pods", "/200")
    assert len(asked) == 3


def test_a_token_that_is_no_header_is_never_repeated(tmp_path: Path, server: Server) -> None:
    made = api(tmp_path, server)

    def hook(*given: Any) -> None:
        given[0]["authorization"] = "Bearer s3cret\nmore"

    made._client.update_params_for_auth = hook
    with pytest.raises(Unreachable) as refused:
        made.call("get", "pods", "/200")
    assert "s3cret" not in refused.value.why
    assert "credential" in refused.value.why
    assert not refused.value.sent


def test_a_credential_that_cannot_be_had_says_no_more_than_that(tmp_path: Path, server: Server) -> None:
    made = api(tmp_path, server)

    def hook(*_: Any) -> None:
        raise RuntimeError("the plugin said: s3cret")

    made._client.update_params_for_auth = hook
    with pytest.raises(Unreachable, match="RuntimeError") as refused:
        made.call("get", "pods", "/200")
    assert "s3cret" not in refused.value.why


@pytest.mark.parametrize("text", ["", "nonsense", "clusters: 5\n", "[1, 2]"])
def test_a_kubeconfig_that_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(ConnectionRefused, match="cannot be used as a kubeconfig"):
        connect(str(path))
