"""The live view of an embedded cluster: what it says of pods and nodes, and that it fits the terminal."""

from __future__ import annotations

import io
from typing import Any

import pytest

from podtide.adapters.text.page import Page
from podtide.adapters.views.live.cluster_frame import ClusterFrame, ClusterPicture, nodes_and_pods
from podtide.domain.api_server.messages import HttpRequest
from podtide.domain.api_server.server import begin, step
from podtide.domain.api_server.state import ApiConfig, ApiState

NOW = 1_763_000_000_000
HOME = "/api/v1/namespaces/default/pods"


def state_of(pods: int) -> ApiState:
    state = begin(ApiConfig(), NOW)

    def ask(method: str, path: str, body: Any) -> None:
        nonlocal state
        made = step(state, HttpRequest(method, path, (), body, "application/merge-patch+json"), NOW)
        assert made.response is not None
        assert made.response.code in {200, 201}, made.response  # type: ignore[union-attr]
        state = made.state

    for node in ("node-b", "node-a"):
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": node},
            "spec": {"unschedulable": node == "node-b"},
        }
        ask("POST", "/api/v1/nodes", body)
        ask("PATCH", f"/api/v1/nodes/{node}/status", {"status": {"allocatable": {"pods": "9"}}})
    for number in range(pods):
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "node-a"}
        name = f"pod-{number:04}"
        ask("POST", HOME, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    row = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": ended}
    ask("PATCH", f"{HOME}/pod-0000/status", {"status": {"phase": "Failed", "containerStatuses": [row]}})
    ask("PATCH", f"{HOME}/pod-0001/status", {"status": {"phase": "Running"}})
    return state


def drawn(pods: int, width: int, height: int) -> list[str]:
    nodes, rows = nodes_and_pods(state_of(pods))
    picture = ClusterPicture(1, NOW + 65_000, NOW, "https://127.0.0.1:1 default", nodes, rows, ["3 API calls"])
    return [line.plain for line in ClusterFrame(Page(io.StringIO())).draw(picture, width, height)]


def test_nodes_and_pods_in_words() -> None:
    assert drawn(3, 100, 24) == [
        "https://127.0.0.1:1 default  3 pods on 2 nodes, up 1:05",
        "1 OOMKilled, 1 Running, 1 Pending",
        "3 API calls",
        "  node-a     2 of 9 pods",
        "  node-b     0 of 9 pods  closed",
        "  pod-0000  OOMKilled               1:05  node-a",
        "  pod-0001  Running                 1:05  node-a",
        "  pod-0002  Pending                 1:05  node-a",
    ]
    assert drawn(300, 100, 24)[-1] == "  and 289 more"


@pytest.mark.parametrize(("width", "height"), [(1, 1), (20, 6), (40, 12), (80, 24), (300, 100)])
def test_it_fits_the_terminal(width: int, height: int) -> None:
    lines = drawn(200, width, height)
    assert len(lines) <= max(3, height - 7)
    assert max(map(len, lines)) <= width
