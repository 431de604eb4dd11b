"""``podtide stop`` against a small HTTP server: what it deletes, refuses and says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import pytest
import yaml

from podtide.adapters.clock import SystemClock
from podtide.domain.jvm.instants import java_instant
from tests.support.commands import Answer, answer
from tests.support.fake_kubernetes import APP, NAMESPACE, FakeApi, Fault, labels_of

DRIVER = {"spark-app-selector": APP, "spark-role": "driver"}


class Handler(BaseHTTPRequestHandler):
    """HTTP as far as the fake API speaks it."""

    protocol_version = "HTTP/1.1"
    api: FakeApi

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def _do(self) -> None:
        split = urlsplit(self.path)
        resource, _, name = split.path.partition(f"/namespaces/{NAMESPACE}/")[2].partition("/")
        verb = {"GET": "get" if name else "list", "POST": "create", "DELETE": "delete"}[self.command]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
        answer = self.api.call(verb, resource, split.path, query=parse_qsl(split.query), body=body)
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    do_GET = do_POST = do_DELETE = _do  # noqa: N815 - the names that http.server looks for


class Cluster(NamedTuple):
    api: FakeApi
    kubeconfig: Path


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    api = FakeApi()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"api": api}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    path = tmp_path / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "u", "user": {"token": "sesame"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(config))
    yield Cluster(api, path)
    server.shutdown()
    server.server_close()


def stopped(cluster: Cluster, *arguments: str) -> Answer:
    return answer("stop", "--kubeconfig", cluster.kubeconfig, *arguments)


def left_behind(api: FakeApi, pods: int = 3) -> None:
    for one in range(pods):
        api.put("pods", f"e-exec-{one}", labels_of(one), status={"phase": "Running"})
    api.put("pods", "somebody-else", labels_of(1, "another"))
    api.put("pods", "no-role", {"spark-app-selector": APP})
    api.put("services", "svc", {"spark-app-selector": APP})
    api.put("configmaps", "conf", {"spark-app-selector": APP})
    api.put("persistentvolumeclaims", "pvc", {"spark-app-selector": APP})


def test_what_was_left_behind_goes_and_is_said(cluster: Cluster) -> None:
    left_behind(cluster.api)
    given = stopped(cluster, "--app-id", APP)
    assert given == Answer(
        0,
        "executor pods       3 found, 3 deleted\n"
        "services            1 found, 1 deleted\n"
        "config maps         1 found, 1 deleted\n"
        "nothing is left of spark-abc in namespace ns\n",
        "",
    )
    assert cluster.api.names() == ["no-role", "somebody-else"]
    assert cluster.api.names("persistentvolumeclaims") == ["pvc"]
    assert stopped(cluster, "--app-id", APP).out == "nothing is left of spark-abc in namespace ns\n"


def test_volume_claims_and_the_driver_only_if_told(cluster: Cluster) -> None:
    left_behind(cluster.api)
    cluster.api.put("pods", "driver", DRIVER, status={"phase": "Failed"})
    assert stopped(cluster, "--app-id", APP, "--include-claims", "--include-driver").code == 0
    assert cluster.api.names() == ["no-role", "somebody-else"]
    assert cluster.api.names("persistentvolumeclaims") == []


def test_a_dry_run_touches_nothing(cluster: Cluster) -> None:
    left_behind(cluster.api, 8)
    cluster.api.put("pods", "driver", DRIVER, status={"phase": "Running"})
    given = stopped(cluster, "--app-id", APP, "--dry-run")
    assert given.code == 0
    assert given.out.splitlines() == [
        "executor pods       8 found: e-exec-0, e-exec-1, e-exec-2, e-exec-3, e-exec-4 and 3 more",
        "services            1 found: svc",
        "config maps         1 found: conf",
        "nothing was deleted: a dry run (10 objects of spark-abc in namespace ns)",
    ]
    assert cluster.api.calls("delete") == []


def test_for_machines(cluster: Cluster) -> None:
    left_behind(cluster.api)
    given = stopped(cluster, "--app-id", APP, "--json", "--kinds", "pods, services")
    document = json.loads(given.out)
    assert {key: value for key, value in document.items() if key != "kinds"} == {
        "schema": "podtide/stop/1",
        "app_id": APP,
        "namespace": NAMESPACE,
        "dry_run": False,
        "clean": True,
    }
    assert document["kinds"][0] == {
        "kind": "pods",
        "found": 3,
        "deleted": 3,
        "left": 0,
        "terminating": 0,
        "names": [],
        "refusal": None,
    }
    assert [one["kind"] for one in document["kinds"]] == ["pods", "services"]


@pytest.mark.parametrize("force", [False, True])
def test_a_running_application_is_not_stopped_by_accident(cluster: Cluster, force: bool) -> None:
    left_behind(cluster.api)
    cluster.api.put("pods", "driver", DRIVER, status={"phase": "Running"})
    spec = {"holderIdentity": "host-1", "leaseDurationSeconds": 15, "renewTime": java_instant(SystemClock().now())}
    cluster.api.put("leases", "podtide-spark-abc", {"spark-app-selector": APP}, spec=spec)
    given = stopped(cluster, "--app-id", APP, *(["--force"] if force else []))
    assert given.code == (0 if force else 2)
    if not force:
        assert "driver pod driver is Running; host-1 holds the lease podtide-spark-abc" in given.err
        assert "--force" in given.err
        assert cluster.api.calls("delete") == []
    assert "driver" in cluster.api.names()
    assert ("e-exec-1" in cluster.api.names()) != force


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--app-id"),
        (["--app-id", ""], "it is empty"),
        (["--app-id", "  "], "it is empty"),
        (["--app-id", "a,spark-role=driver"], "is no application id"),
        (["--app-id", "a" * 64], "is no application id"),
        (["--app-id", APP, "--namespace", "../kube-system"], "is no namespace"),
        (["--app-id", APP, "--timeout", "soon"], "is no duration"),
        (["--app-id", APP, "--timeout", "9999h"], "too long"),
        (["--app-id", APP, "--kinds", "pods,secrets"], "'secrets' is none; expected some of"),
        (["--app-id", APP, "--kinds", ","], "expected some of"),
        (["--app-id", APP, "--context", "nowhere"], "cannot be used as a kubeconfig"),
    ],
)
def test_what_cannot_be_meant_is_refused(cluster: Cluster, arguments: list[str], says: str) -> None:
    left_behind(cluster.api)
    given = stopped(cluster, *arguments)
    assert given.code == 2
    assert says in given.err
    assert cluster.api.made == []


def forbidden(verb: str, resource: str) -> Fault:
    message = (
        f'{resource} is forbidden: User "u" cannot {verb} resource "{resource}" in API group "" in the namespace "ns"'
    )
    return Fault(verb, resource, 1_000, 403, message, "Forbidden")


@pytest.mark.parametrize(
    ("fault", "arguments", "says", "left"),
    [
        (forbidden("delete", "pods"), [], "executor pods: may not delete pods in namespace ns (RBAC: verb delete,", 5),
        (forbidden("list", "services"), [], "services: may not list services in namespace ns (RBAC: verb list,", 2),
        (forbidden("list", "pods"), [], "whether spark-abc is running cannot be told: may not list pods", 5),
        (forbidden("list", "pods"), ["--force"], "executor pods: may not list pods", 5),
    ],
)
def test_a_missing_permission_is_named(
    cluster: Cluster, fault: Fault, arguments: list[str], says: str, left: int
) -> None:
    left_behind(cluster.api)
    cluster.api.faults.append(fault)
    given = stopped(cluster, "--app-id", APP, *arguments)
    assert given.code == 4
    assert says in given.err
    assert len(cluster.api.names()) == left
    assert "sesame" not in f"{given}"


def test_what_is_left_at_the_timeout_is_named(cluster: Cluster) -> None:
    cluster.api.put("pods", "e-exec-1", labels_of(1), spec={"nodeName": "gone"})
    given = stopped(cluster, "--app-id", APP, "--timeout", "300ms")
    assert given.code == 4
    assert given.out.splitlines() == [
        "executor pods       1 found, 1 deleted, 1 left: e-exec-1 (1 terminating)",
        "1 object of spark-abc in namespace ns is left",
    ]
    given = stopped(cluster, "--app-id", APP, "--no-wait")
    assert given.code == 0


def test_a_cluster_that_is_not_there(cluster: Cluster, tmp_path: Path) -> None:
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:9"
    path = tmp_path / "elsewhere"
    path.write_text(yaml.safe_dump(config))
    given = stopped(Cluster(cluster.api, path), "--app-id", APP, "--timeout", "1s")
    assert given.code == 4
    assert "http://127.0.0.1:9 cannot be reached" in given.err
