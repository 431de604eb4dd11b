"""What the summary of an embedded cluster counts."""

from __future__ import annotations

from typing import Any

from podtide.adapters.api_server.front import ServedStep
from podtide.adapters.api_server.serving import KUBELET, USER
from podtide.domain.api_server.messages import HttpRequest
from podtide.domain.api_server.server import begin, step
from podtide.domain.api_server.state import ApiConfig
from podtide.entrypoints.cluster.tally import ClusterTally

NOW = 1_763_000_000_000
HOME = "/api/v1/namespaces/default"


class Counted:
    """A cluster and its tally."""

    def __init__(self) -> None:
        self.state = begin(ApiConfig(), NOW)
        self.tally = ClusterTally()
        self.now = NOW

    def ask(self, method: str, path: str, body: Any = None, user: str = USER) -> None:
        request = HttpRequest(method, f"{HOME}/{path}", (), body, "application/merge-patch+json")
        made = step(self.state, request, self.now)
        self.tally(ServedStep(user, request, self.state, made.state, made.response, (), self.now, self.now))
        self.state = made.state

    def create(self, name: str, role: str = "executor") -> None:
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
        metadata = {"name": name, "labels": {"spark-role": role}}
        self.ask("POST", "pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def phase(self, name: str, phase: str, at_s: float) -> None:
        self.now = NOW + int(at_s * 1000)
        self.ask("PATCH", f"pods/{name}/status", {"status": {"phase": phase}}, KUBELET)

    def delete(self, name: str, grace_s: int, at_s: float) -> None:
        self.now = NOW + int(at_s * 1000)
        self.ask("DELETE", f"pods/{name}", {"gracePeriodSeconds": grace_s}, USER if grace_s else KUBELET)


def test_fates_executor_seconds_and_calls() -> None:
    cluster = Counted()
    for name in ("done", "failed", "let-go", "pending", "stays"):
        cluster.create(name)
    cluster.create("driver", "driver")
    for name in ("done", "failed", "let-go", "stays", "driver"):
        cluster.phase(name, "Running", 10)
    cluster.phase("done", "Succeeded", 20)
    cluster.delete("done", 30, 25)  # after its end: that is no fate
    cluster.delete("done", 0, 26)
    cluster.phase("failed", "Failed", 40)
    cluster.delete("let-go", 30, 50)
    cluster.phase("let-go", "Failed", 52)  # SIGTERM: it was asked to go
    cluster.delete("let-go", 0, 53)
    cluster.delete("pending", 30, 54)
    cluster.delete("pending", 0, 55)
    cluster.create("stays")  # 409
    cluster.phase("driver", "Succeeded", 56)

    tally = cluster.tally.closed(NOW + 60_000)
    assert tally.fates == {"succeeded": 2, "failed": 1, "deleted": 2, "left": 1}
    assert tally.executor_ms == (10 + 30 + 42 + 50) * 1000
    assert tally.calls == {201: 6, 200: 3, 409: 1}
    assert tally.line() == (
        "6 pods (2 deleted, 1 failed, 1 left, 2 succeeded; 5 at once), 10 API calls (1 refused), 132.0 executor-seconds"
    )


def test_nothing_happened() -> None:
    assert ClusterTally().closed(NOW).line() == "0 pods, 0 API calls, 0.0 executor-seconds"
