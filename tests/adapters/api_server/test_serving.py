"""The server over real sockets with real clients: what they agree on, and what hostile ones cannot do."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import urllib3
from kubernetes import client, config, watch

from podtide.adapters.api_server.serving import ApiServer, serving
from podtide.adapters.api_server.settings import LogSource, LogUnavailable, ServingConfig
from podtide.adapters.clock import SystemClock
from podtide.adapters.http_server.settings import NotServed
from podtide.domain.api_server.messages import LogRequest
from podtide.domain.api_server.server import begin
from podtide.domain.api_server.state import ApiConfig, ApiState
from tests.live.waiting import until

CONFIG: Any = config
WATCH: Any = watch  # neither is annotated
HOME = "/api/v1/namespaces/default"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "one", "labels": {"app": "a"}},
    "spec": {"containers": [{"name": "main", "image": "i"}]},
}


def fresh() -> ApiState:
    return begin(ApiConfig(), SystemClock().now())


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with serving(fresh()) as made:
        yield made


def ask(server: ApiServer, method: str, path: str, body: Any = None, **headers: str) -> urllib3.BaseHTTPResponse:
    """One request; a body that is no bytes is sent as JSON."""
    sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"} | headers
    return urllib3.request(method, server.url + path, body=sent, headers=given, timeout=20, retries=False)


def refused(answer: urllib3.BaseHTTPResponse, code: int, reason: str) -> str:
    """The message of a Status with this code and reason."""
    status = json.loads(answer.data)
    assert answer.status == code, status
    assert (status["kind"], status["code"], status["reason"]) == ("Status", code, reason)
    message: str = status["message"]
    return message


def config_map(name: str, size: int) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": "x" * size}}


def raw(server: ApiServer, text: str, read_buffer: int = 0) -> socket.socket:
    """A connection that has sent this much, with a Host header."""
    made = socket.socket()
    made.settimeout(20)
    if read_buffer:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, read_buffer)
    made.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
    made.sendall(text.replace("TOKEN", server.token).replace("\r\n", "\r\nHost: here\r\n", 1).encode())
    return made


def all_of(connection: socket.socket) -> bytes:
    """What the server sends until it hangs up."""
    pieces = []
    with closing(connection):
        try:
            while piece := connection.recv(65536):
                pieces.append(piece)
        except ConnectionResetError:
            pass
    return b"".join(pieces)


# what clients agree on


@pytest.mark.parametrize("tls", [False, True])
def test_the_official_client(tls: bool, tmp_path: Path) -> None:
    with serving(fresh(), ServingConfig(tls=tls)) as server:
        kubeconfig = server.kubeconfig(tmp_path / "config")
        assert kubeconfig.stat().st_mode & 0o777 == 0o600
        api: Any = client.CoreV1Api(CONFIG.new_client_from_config(str(kubeconfig)))
        for name in ("one", "two", "three"):
            api.create_namespaced_pod("default", POD | {"metadata": {"name": name, "labels": {"app": "a"}}})
        page = api.list_namespaced_pod("default", label_selector="app=a", limit=2)
        rest = api.list_namespaced_pod("default", limit=2, _continue=page.metadata._continue)
        assert [pod.metadata.name for pod in page.items + rest.items] == ["one", "three", "two"]
        with pytest.raises(client.ApiException) as conflict:
            api.create_namespaced_pod("default", POD)
        assert (conflict.value.status, conflict.value.reason) == (409, "Conflict")

        stream = WATCH.Watch().stream(
            api.list_namespaced_pod, "default", resource_version=page.metadata.resource_version, timeout_seconds=1
        )
        api.patch_namespaced_pod_status("one", "default", {"status": {"phase": "Running"}})
        api.delete_namespaced_pod("two", "default")
        seen = [(event["type"], event["object"].metadata.name) for event in stream]
        assert seen == [("MODIFIED", "one"), ("MODIFIED", "two"), ("DELETED", "two")]
        assert server.url.startswith("https" if tls else "http:")


def test_tls_is_verified(tmp_path: Path) -> None:
    with serving(fresh(), ServingConfig(tls=True)) as server:
        assert server.ca is not None
        context = ssl.create_default_context(cafile=str(server.ca))
        pool = urllib3.PoolManager(ssl_context=context)
        assert pool.request("GET", server.url + "/healthz").data == b"ok"
        with pytest.raises(urllib3.exceptions.SSLError):
            urllib3.PoolManager(ssl_context=ssl.create_default_context()).request(
                "GET", server.url + "/healthz", retries=False
            )


def test_a_watch_over_a_websocket_and_one_in_chunks_hear_the_same(server: ApiServer) -> None:
    headers = {"Authorization": f"Bearer {server.token}"}
    url = f"{server.url}{HOME}/pods?watch=true&timeoutSeconds=60"

    async def both() -> tuple[list[Any], list[Any]]:
        async with aiohttp.ClientSession(headers=headers) as session:
            chunked = await session.get(url)
            frames = await session.ws_connect(url)
            for name in ("a", "b"):
                made = POD | {"metadata": {"name": name}}
                async with session.post(f"{server.url}{HOME}/pods", json=made) as answer:
                    assert answer.status == 201
            lines = [json.loads(await chunked.content.readline()) for _ in range(2)]
            texts = [json.loads(await frames.receive_str()) for _ in range(2)]
            await frames.close()
            chunked.close()
            return lines, texts

    lines, texts = asyncio.run(both())
    assert lines == texts
    assert [(line["type"], line["object"]["metadata"]["name"]) for line in lines] == [("ADDED", "a"), ("ADDED", "b")]
    until(lambda: not server.state.watches, 20)  # both hung up


def test_a_refused_watch_is_an_answer_though_a_websocket_was_asked_for(server: ApiServer) -> None:
    answer = ask(
        server, "GET", f"{HOME}/pods?watch=1&resourceVersion=x",
        Upgrade="websocket", Connection="Upgrade",
    )  # fmt: skip
    assert (answer.status, json.loads(answer.data)["kind"]) == (500, "Status")


def test_the_end_is_graceful() -> None:
    with serving(fresh()) as server:
        stream = urllib3.PoolManager().request(
            "GET", f"{server.url}{HOME}/pods?watch=1",
            headers={"Authorization": f"Bearer {server.token}"}, preload_content=False,
        )  # fmt: skip
        ask(server, "POST", f"{HOME}/pods", POD)
    lines = stream.data.splitlines()  # the last chunk is there, or this would raise
    assert [json.loads(line)["object"]["metadata"]["name"] for line in lines] == ["one"]
    assert "one" in server.state.tables.objects["pods", "default"]
    assert not server.state.watches
    with pytest.raises(urllib3.exceptions.NewConnectionError):
        ask(server, "GET", "/healthz")


def test_what_needs_a_token(server: ApiServer) -> None:
    for given in ("", "Bearer", "Bearer wrong-token-of-some-length", server.token, "Bearer \xe4"):
        refused(ask(server, "GET", f"{HOME}/pods", Authorization=given), 401, "Unauthorized")
        assert ask(server, "GET", "/healthz", Authorization=given).status == 200
    assert ask(server, "GET", f"{HOME}/pods").status == 200


# logs and streams


def bound_pod(server: ApiServer) -> None:
    ask(server, "POST", f"{HOME}/pods", POD)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "one"},
        "target": {"kind": "Node", "name": "n"},
    }
    assert ask(server, "POST", f"{HOME}/pods/one/binding", binding).status == 201


def test_logs_come_from_the_kubelets() -> None:
    asked: list[LogRequest] = []
    closed = threading.Event()

    def source(request: LogRequest) -> Iterator[bytes]:
        asked.append(request)
        if dict(request.options).get("previous") == "true":
            raise LogUnavailable("no container before this one")
        try:
            yield b"first\n"
            yield b""
            yield b"second\n"
            while dict(request.options).get("follow") == "true":
                yield b""
        finally:
            closed.set()

    given: LogSource = source
    with serving(fresh(), logs=given) as server:
        bound_pod(server)
        assert ask(server, "GET", f"{HOME}/pods/one/log?tailLines=2").data == b"first\nsecond\n"
        assert asked == [LogRequest("n", "default", "one", "main", (("tailLines", "2"),))]
        message = refused(ask(server, "GET", f"{HOME}/pods/one/log?previous=true"), 400, "BadRequest")
        assert message == "no container before this one"
        closed.clear()
        following = raw(server, f"GET {HOME}/pods/one/log?follow=true HTTP/1.1\r\nAuthorization: Bearer TOKEN\r\n\r\n")
        with closing(following), following.makefile("rb") as lines:
            assert next(line for line in lines if b"first" in line)
            assert not closed.is_set()
        assert closed.wait(20)  # the reader hung up


def test_logs_without_a_kubelet_and_streams_into_pods_are_refused(server: ApiServer) -> None:
    bound_pod(server)
    refused(ask(server, "GET", f"{HOME}/pods/one/log"), 503, "ServiceUnavailable")
    for stream in ("exec", "attach", "portforward"):
        assert stream in refused(ask(server, "POST", f"{HOME}/pods/one/{stream}?command=sh"), 400, "BadRequest")


# hostile input


@pytest.mark.parametrize(
    ("body", "media", "code", "reason"),
    [
        (b"{", "application/json", 400, "BadRequest"),
        (b'{"a": NaN}', "application/json", 400, "BadRequest"),
        (b'{"a": "\xff\xfe"}', "application/json", 400, "BadRequest"),
        (b"[" * 100_000, "application/json", 400, "BadRequest"),
        (b"[" * 900 + b"]" * 900, "application/json", 400, "BadRequest"),
        (b'{"metadata":' * 700 + b"1" + b"}" * 700, "application/json", 400, "BadRequest"),
        (b"k8s\0", "application/vnd.kubernetes.protobuf", 415, "UnsupportedMediaType"),
    ],
)
def test_a_body_that_is_none_is_refused_and_changes_nothing(
    server: ApiServer, body: bytes, media: str, code: int, reason: str
) -> None:
    before = server.state
    refused(ask(server, "POST", f"{HOME}/configmaps", body, **{"Content-Type": media}), code, reason)
    assert server.state is before
    assert ask(server, "GET", "/version").status == 200


def test_a_body_too_large_is_refused_however_it_comes() -> None:
    with serving(fresh(), ServingConfig(body_max=10_000)) as server:
        assert ask(server, "POST", f"{HOME}/configmaps", config_map("fits", 9_000)).status == 201
        message = refused(
            ask(server, "POST", f"{HOME}/configmaps", config_map("large", 10_000)), 413, "RequestEntityTooLarge"
        )
        assert message == "Request entity too large: limit is 10000"
        chunk = "2710\r\n" + "x" * 10_000 + "\r\n"
        head = f"POST {HOME}/configmaps HTTP/1.1\r\nAuthorization: Bearer TOKEN\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert b" 413 " in all_of(raw(server, head + chunk * 2))
        bomb = ask(server, "POST", f"{HOME}/configmaps", b"\x1f\x8b", **{"Content-Encoding": "gzip"})
        refused(bomb, 415, "UnsupportedMediaType")


def test_who_is_slow_is_cut_off() -> None:
    with serving(fresh(), ServingConfig(idle_s=0.2, transfer_s=0.2)) as server:
        assert all_of(raw(server, "")) == b""
        assert all_of(raw(server, "GET /healthz HTTP/1.1\r\nX-Sl")) == b""
        head = f"POST {HOME}/pods HTTP/1.1\r\nAuthorization: Bearer TOKEN\r\nContent-Length: 100\r\n\r\n"
        assert b" 408 " in all_of(raw(server, head + "{"))


@pytest.mark.parametrize(
    "request_text",
    [
        "\0\1\2\r\n\r\n",
        "GET /healthz HTTP/9.9\r\n\r\n",
        f"GET /healthz?{'x' * 40_000} HTTP/1.1\r\n\r\n",
        f"GET /healthz HTTP/1.1\r\nX: {'x' * 40_000}\r\n\r\n",
        "GET /healthz HTTP/1.1\r\n" + "X: y\r\n" * 5_000 + "\r\n",
        f"POST {HOME}/pods HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        f"POST {HOME}/pods HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
    ],
    ids=["noise", "version", "line", "header", "headers", "smuggled", "length"],
)
def test_what_is_no_request_is_a_400_and_the_end_of_the_connection(server: ApiServer, request_text: str) -> None:
    assert all_of(raw(server, request_text)).startswith(b"HTTP/1.0 400 ")
    assert ask(server, "GET", "/healthz").status == 200


def test_connections_beyond_the_bound_are_closed() -> None:
    with serving(fresh(), ServingConfig(connections_max=3)) as server:
        open_ones = [raw(server, "GET /healthz HTTP/1.1\r\n\r\n") for _ in range(3)]
        for connection in open_ones:
            assert connection.recv(12) == b"HTTP/1.1 200"
        assert all_of(raw(server, "")) == b""
        open_ones.pop().close()
        until(lambda: b" 200 " in raw(server, "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n").recv(100), 20)
        for connection in open_ones:
            connection.close()


def test_a_watch_that_does_not_read_is_cut_off_and_others_go_on() -> None:
    with serving(fresh(), ServingConfig(unread_max=200_000)) as server:
        text = f"GET {HOME}/configmaps?watch=1 HTTP/1.1\r\nAuthorization: Bearer TOKEN\r\n\r\n"
        lazy = raw(server, text, read_buffer=4096)
        assert lazy.recv(12) == b"HTTP/1.1 200"
        made = 0
        while server.state.watches and made < 200:
            assert ask(server, "POST", f"{HOME}/configmaps", config_map(f"c{made}", 200_000)).status == 201
            made += 1
        assert made < 200
        assert not all_of(lazy).endswith(b"0\r\n\r\n")  # no end of a body: something is missing
        assert ask(server, "GET", "/healthz").status == 200


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_only_loopback_unless_told(address: str) -> None:
    with pytest.raises(NotServed, match="other machines"):
        ServingConfig(address=address)
    assert ServingConfig(address=address, anywhere=True).address == address


def test_a_port_that_is_taken(server: ApiServer) -> None:
    port = int(server.url.rpartition(":")[2])
    with pytest.raises(NotServed, match=str(port)), serving(fresh(), ServingConfig(port=port)):
        pass
