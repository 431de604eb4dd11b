"""Faults of a cluster file as clients meet them over HTTP: whom they hit, what is cut, and when answers and events come."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import urllib3
from kubernetes import client, config

from podtide.adapters.api_server.serving import ApiServer, serving
from podtide.adapters.clock import SystemClock
from podtide.domain.api_faults.faulty_server import begin
from podtide.domain.api_server.state import ApiConfig
from podtide.domain.base.randomness import Constant
from podtide.domain.fakes.kubernetes.description import Api, Description, Fault, Lost, Verb, Watch
from podtide.domain.fakes.windows import Window

CONFIG: Any = config  # not annotated
MAPS = "/api/v1/namespaces/default/configmaps"
AT_ONCE = Constant(0)
PROMPT = Watch(delay=AT_ONCE)


@contextmanager
def faulty(*faults: Fault, watch: Watch = PROMPT, seed: int = 0, **api: Any) -> Iterator[ApiServer]:
    described: dict[str, Any] = {"latency": AT_ONCE, "faults": faults} | api
    description = Description(api=Api(**described), watch=watch, seed=seed)
    with serving(begin(ApiConfig(), description, SystemClock().now())) as server:
        yield server


def ask(
    server: ApiServer, method: str, path: str, name: str = "", *, agent: str = "", kubelet: bool = False, **more: Any
) -> urllib3.BaseHTTPResponse:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}} if name else None
    token = server.kubelet_token if kubelet else server.token
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "User-Agent": agent}
    sent = None if body is None else json.dumps(body)
    return urllib3.request(
        method, server.url + path, body=sent, headers=headers, timeout=20, retries=False, **more
    )  # fmt: skip


def ours(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the server complained of, which would stand in the program's output."""
    return [line.getMessage() for line in caplog.records if line.name.startswith("podtide")]


def test_a_fault_meets_the_clients_that_the_file_names_and_no_kubelet(tmp_path: Path) -> None:
    kubectl = Fault(status=429, agents=("Kubectl",), retry_after_ms=3_000)
    python = Fault(status=403, agents=("OpenAPI-Generator",), verbs=(Verb.CREATE,))
    with faulty(kubectl, python) as server:
        assert ask(server, "GET", MAPS, agent="fabric8/7").status == 200
        refused = ask(server, "GET", MAPS, agent="kubectl/v1.32")
        assert (refused.status, refused.headers["Retry-After"]) == (429, "3")
        assert ask(server, "GET", MAPS, agent="kubectl/v1.32", kubelet=True).status == 200
        api: Any = client.CoreV1Api(CONFIG.new_client_from_config(str(server.kubeconfig(tmp_path / "config"))))
        with pytest.raises(client.ApiException) as forbidden:
            api.create_namespaced_config_map("default", {"metadata": {"name": "a"}})
        assert forbidden.value.status == 403
        assert api.list_namespaced_config_map("default").items == []


@pytest.mark.parametrize(("lost", "there"), [(Lost.REQUEST, 404), (Lost.ANSWER, 200)])
def test_what_is_lost_ends_in_a_cut_connection(lost: Lost, there: int, caplog: pytest.LogCaptureFixture) -> None:
    with faulty(Fault(lost=lost, verbs=(Verb.CREATE,)), timeout_ms=50) as server:
        with pytest.raises(urllib3.exceptions.ProtocolError):
            ask(server, "POST", MAPS, "a")
        assert ask(server, "GET", f"{MAPS}/a").status == there
    assert not ours(caplog)


def test_answers_take_as_long_as_the_file_says() -> None:
    with faulty(latency=Constant(150)) as server:
        began = time.monotonic()
        assert ask(server, "POST", MAPS, "a").status == 201
        assert time.monotonic() - began >= 0.15


def test_a_watch_that_breaks_is_cut_in_the_middle_and_goes_on_with_410(caplog: pytest.LogCaptureFixture) -> None:
    watch = Watch(delay=AT_ONCE, outages=(Window(700, 701),), broken=Constant(100), expired=1.0)
    with faulty(watch=watch) as server:
        version = json.loads(ask(server, "GET", MAPS).data)["metadata"]["resourceVersion"]
        path = f"{MAPS}?watch=1&resourceVersion={version}"
        stream = ask(server, "GET", path, preload_content=False)
        own = ask(server, "GET", path, kubelet=True, preload_content=False)
        ask(server, "POST", MAPS, "a")
        with pytest.raises(urllib3.exceptions.ProtocolError):
            stream.read()
        assert json.loads(own.readline())["type"] == "ADDED"  # a kubelet's watch goes on
        own.close()
        broken = 0
        while True:
            try:
                again = ask(server, "GET", path, preload_content=False)
                break
            except urllib3.exceptions.ProtocolError:  # no watch can be opened while it is broken
                broken += 1
        assert broken > 0
        told = json.loads(again.readline())
        assert (told["type"], told["object"]["code"]) == ("ERROR", 410)
    assert not ours(caplog)


def test_late_events_come_in_order_and_reordered_ones_behind() -> None:
    with faulty(watch=Watch(delay=Constant(120))) as server:
        stream = ask(server, "GET", f"{MAPS}?watch=1", preload_content=False)
        began = time.monotonic()
        for name in "abc":
            ask(server, "POST", MAPS, name)
        names = [json.loads(stream.readline())["object"]["metadata"]["name"] for _ in "abc"]
        assert names == ["a", "b", "c"]
        assert time.monotonic() - began >= 0.12
        stream.close()


@pytest.mark.parametrize("other", [3, 4])
def test_the_same_seed_has_the_same_faults(other: int) -> None:
    codes = []
    for seed in (3, other):
        with faulty(Fault(status=503, probability=0.4), seed=seed) as server:
            codes.append([ask(server, "POST", MAPS, f"m{number}").status for number in range(40)])
    assert (codes[0] == codes[1]) is (other == 3)
    assert set(codes[0]) == {201, 503}
