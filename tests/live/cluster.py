"""The API server for the tests of this folder, and what tests do to one.

Where it comes from, in this order:

1. ``PODTIDE_TEST_KUBECONFIG``: an administrator's kubeconfig of a cluster that runs. It should have no scheduler and no
   kubelets, for the tests bring hollow ones. A ``kubeconfig-driver`` beside it is used for the user without rights; without
   one a service account is made.
2. ``KUBEBUILDER_ASSETS``: a folder with etcd and kube-apiserver, as envtest installs it; both are started and stopped here.
3. ``../shared/kubernetes`` beside the project: its ``up.sh`` and ``down.sh``, in a folder and on ports of our own.
4. podtide's own API server, in this process. It needs Python alone, and ``PODTIDE_LIVE=embedded`` takes it before all of
   these. Tests of what it has not are skipped (``conftest.py``), and the end says aloud that no real server was there.

``PODTIDE_LIVE_REQUIRED``: one of the first three must be there. Where one of them is there and does not work, tests fail.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import yaml

from podtide.adapters.api_server.serving import serving
from podtide.adapters.api_server.settings import ServingConfig
from podtide.adapters.clock import SystemClock
from podtide.adapters.kubernetes.api import ApiAnswer, KubernetesApi, Query, Unreachable, Watcher, connect
from podtide.domain.api_server.server import begin
from podtide.domain.api_server.state import ApiConfig
from podtide.domain.base.units import Millis
from tests.live.audit import AuditLog
from tests.live.kubelet import Kubelet, brisk
from tests.live.server import SHARED, BrokenCluster, Server, from_assets, from_shared
from tests.live.waiting import until

__all__ = ["BrokenCluster", "Cluster", "NoCluster", "find", "until"]

USER: Final = {"kind": "User", "name": "driver", "apiGroup": "rbac.authorization.k8s.io"}


REQUIRED: Final = "PODTIDE_LIVE_REQUIRED"
NO_REAL_SERVER: Final = (
    "there is no real API server: set PODTIDE_TEST_KUBECONFIG to a kubeconfig, or KUBEBUILDER_ASSETS to a folder with etcd "
    "and kube-apiserver"
)


class NoCluster(Exception):
    """There is no real server where one is required; says what was looked for."""


class Cluster:
    """An API server, seen by its administrator.

    ``admin``, ``driver``: kubeconfigs; the driver has no right until ``role`` gives some. ``server``: the processes, if they
    are ours to stop. ``audit``: who called what, where the server writes it down. ``full``: the whole of the tests was
    asked for.
    """

    def __init__(
        self,
        admin: Path,
        driver: Path,
        subject: Mapping[str, str],
        work: Path,
        server: Server | None = None,
        audit: AuditLog | None = None,
        embedded: ExitStack | None = None,
    ) -> None:
        self.admin = admin
        self.driver = driver
        self.subject = subject
        self.server = server
        self.audit = audit
        self.full = os.environ.get("PODTIDE_LIVE") == "full"
        self.embedded = embedded
        self._work = work
        self._api = connect(str(admin))
        self._namespaces: list[str] = []
        self._kubeconfigs = 0

    # calls

    def api(self, who: str = "admin", watcher: Watcher | None = None, kubeconfig: Path | None = None) -> KubernetesApi:
        """A connection of its own, as ``admin`` or ``driver`` or by another kubeconfig."""
        return connect(str(kubeconfig or (self.admin if who == "admin" else self.driver)), watcher=watcher)

    def call(
        self,
        verb: str,
        resource: str,
        path: str,
        body: object = None,
        query: Query = (),
        content_type: str = "application/json",
    ) -> ApiAnswer:
        """A call by the administrator, whatever comes of it."""
        sent = None if body is None else json.dumps(body).encode()
        return self._api.call(verb, resource, path, body=sent, query=query, content_type=content_type, timeout_s=60)

    def must(
        self,
        verb: str,
        resource: str,
        path: str,
        body: object = None,
        query: Query = (),
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        """A call by the administrator that has to succeed; returns the decoded answer."""
        answer = self.call(verb, resource, path, body, query, content_type)
        assert answer.ok, f"{verb} {path}: {answer.status} {answer.body[:500]!r}"
        decoded: dict[str, Any] = json.loads(answer.body)
        return decoded

    def pods(self, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        """All pods, as the server has them."""
        query = [("labelSelector", selector)] if selector else []
        found: list[dict[str, Any]] = self.must("list", "pods", f"/api/v1/namespaces/{namespace}/pods", query=query)[
            "items"
        ]
        return found

    # namespaces and rights

    def namespace(self) -> str:
        """A fresh one. It is deleted, with all that is in it, when the test ends."""
        name = f"podtide-test-{secrets.token_hex(4)}"
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"podtide.io/test": "live"}},
        }
        self.must("create", "namespaces", "/api/v1/namespaces", body)
        self._namespaces.append(name)
        return name

    def tidy(self) -> None:
        """Delete the namespaces that were made since the last time."""
        while self._namespaces:
            name = self._namespaces.pop()
            with suppress(Unreachable):
                # No kubelet is left that would let go of a pod that is bound.
                now = [("gracePeriodSeconds", "0")]
                self.call("deletecollection", "pods", f"/api/v1/namespaces/{name}/pods", query=now)
                self.call("delete", "namespaces", f"/api/v1/namespaces/{name}")

    def role(self, namespace: str, rules: Sequence[Mapping[str, object]], name: str = "driver") -> None:
        """Give the driver exactly these rights in a namespace, in place of those that it had by that name."""
        base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
        kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": name}}
        role = {**kind, "kind": "Role", "rules": list(rules)}
        if self.call("create", "roles", f"{base}/roles", role).status == 409:
            self.must("update", "roles", f"{base}/roles/{name}", role)
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        binding = {**kind, "kind": "RoleBinding", "roleRef": reference, "subjects": [dict(self.subject)]}
        answer = self.call("create", "rolebindings", f"{base}/rolebindings", binding)
        assert answer.ok or answer.status == 409, answer
        self._settled(namespace, rules)

    def _settled(self, namespace: str, rules: Sequence[Mapping[str, Any]]) -> None:
        """The authorizer hears of Roles by a watch: wait until it allows what it should, and nothing of the wrong."""
        granted = {
            (group, resource, verb)
            for rule in rules
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        api = self.api("driver")
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace},
        }

        def allowed() -> bool:
            answer = api.call(
                "create",
                "rules",
                "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
                body=json.dumps(review).encode(),
            )
            status = json.loads(answer.body)["status"]
            now = {
                (group, resource, verb)
                for rule in status["resourceRules"]
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
                if group != "authorization.k8s.io"
            }
            return now == granted

        until(allowed, 20, f"the rights of {namespace}")
        api.close()

    # kubelets

    def kubelet(self, namespace: str, start_ms: Millis = 50, delete_ms: Millis = 100) -> Kubelet:
        """Hollow kubelets for a namespace, to be entered."""
        return Kubelet(self.api, namespace, brisk(start_ms, delete_ms))

    # kubeconfigs

    def via(self, port: int, who: str = "admin", host: str = "127.0.0.1") -> Path:
        """A kubeconfig that goes through something that listens on ``port`` and speaks to the server for us."""
        config = yaml.safe_load((self.admin if who == "admin" else self.driver).read_text())
        for cluster in config["clusters"]:
            scheme = cluster["cluster"]["server"].partition("://")[0]
            cluster["cluster"]["server"] = f"{scheme}://{host}:{port}"
            if scheme == "https":
                cluster["cluster"]["tls-server-name"] = self.address[0]
        self._kubeconfigs += 1
        path = self._work / f"kubeconfig-via-{self._kubeconfigs}"
        path.write_text(yaml.safe_dump(config))
        path.chmod(0o600)
        return path

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the API server."""
        host, _, port = self._api.host.partition("://")[2].partition(":")
        return host, int(port or 443)

    # what only our own server lets us do

    @contextmanager
    def apiserver_down(self, *, kill: bool = True) -> Iterator[None]:
        """Stop the API server for as long as the block runs; ``kill``: without warning. Needs a server of our own."""
        server = self._own()
        server.stop_apiserver(kill=kill)
        try:
            yield
        finally:
            server.start_apiserver()
            self.ready()

    def restart_apiserver(self, *, kill: bool = True) -> None:
        """Stop and start it. It keeps its data and forgets the events that watches could resume from."""
        with self.apiserver_down(kill=kill):
            pass

    @contextmanager
    def controllers_behind(self, seconds: float) -> Iterator[None]:
        """The controllers and the garbage collector do nothing for so long. Needs a server of our own."""
        server = self._own()
        server.signal_controllers(signal.SIGSTOP)
        wake = threading.Timer(seconds, server.signal_controllers, (signal.SIGCONT,))
        wake.start()
        try:
            yield
        finally:
            wake.cancel()
            wake.join()
            server.signal_controllers(signal.SIGCONT)

    def compact(self) -> int:
        """Let etcd forget all versions before now; returns the revision. Needs a server of our own."""
        return self._own().compact()

    def _own(self) -> Server:
        if self.server is None:
            raise NoCluster("this test stops the server; it needs one of its own, and this one is somebody else's")
        return self.server

    def ready(self) -> None:
        """Wait until the API server says that it is ready."""

        def says_so() -> bool:
            with suppress(Unreachable):
                return self.call("get", "readyz", "/readyz").body == b"ok"
            return False

        until(says_so, 60, "the API server's readiness")

    def close(self) -> None:
        """Tidy up and stop what is ours."""
        if (place := self.subject.get("namespace")) is not None:
            self._namespaces.append(place)
        self.tidy()
        self._api.close()
        if self.server is not None:
            self.server.stop()
        if self.embedded is not None:
            self.embedded.close()
        shutil.rmtree(self._work, ignore_errors=True)


def find() -> Cluster:
    """The cluster of this session. Raises NoCluster or BrokenCluster."""
    given, assets = os.environ.get("PODTIDE_TEST_KUBECONFIG"), os.environ.get("KUBEBUILDER_ASSETS")
    real = given or assets or (SHARED / "up.sh").exists()
    if not real and os.environ.get(REQUIRED):
        raise NoCluster(f"{REQUIRED} is set: {NO_REAL_SERVER}")
    own = not real or os.environ.get("PODTIDE_LIVE") == "embedded"
    work = Path(tempfile.mkdtemp(prefix="podtide-live-"))
    try:
        if own:
            return _embedded(work)
        if given:
            return _given(Path(given), work)
        return _started(from_assets(Path(assets), work) if assets else from_shared(work), work)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def _started(server: Server, work: Path) -> Cluster:
    cluster = Cluster(server.admin, server.driver, USER, work, server, AuditLog(server.audit))
    try:
        cluster.ready()
    except BaseException as problem:
        cluster.close()
        raise BrokenCluster(f"the API server was started and does not answer: {problem}") from None
    return cluster


def _embedded(work: Path) -> Cluster:
    state = begin(ApiConfig(history_max=10_000), SystemClock().now())
    end = ExitStack()
    server = end.enter_context(serving(state, ServingConfig(tls=shutil.which("openssl") is not None)))
    admin = server.kubeconfig(work / "kubeconfig")
    return Cluster(admin, admin, USER, work, embedded=end)


def _given(admin: Path, work: Path) -> Cluster:
    if not admin.exists():
        raise BrokenCluster(f"PODTIDE_TEST_KUBECONFIG: {admin} does not exist")
    driver = admin.with_name("kubeconfig-driver")
    log = admin.with_name("logs") / "audit.log"
    cluster = Cluster(admin, driver, USER, work, audit=AuditLog(log) if log.exists() else None)
    try:
        cluster.ready()
        if not driver.exists():
            cluster.driver, cluster.subject = _service_account(cluster, work)
    except (Unreachable, AssertionError) as problem:
        raise BrokenCluster(f"PODTIDE_TEST_KUBECONFIG: {problem}") from None
    return cluster


def _service_account(cluster: Cluster, work: Path) -> tuple[Path, Mapping[str, str]]:
    """A user without rights, where the cluster has none ready: a service account and a kubeconfig with its token."""
    namespace, base = "podtide-test-driver", "/api/v1/namespaces/podtide-test-driver/serviceaccounts"
    cluster.call("create", "namespaces", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    cluster.call("create", "serviceaccounts", base, {"metadata": {"name": "driver"}})
    wish = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
    answer = cluster.must("create", "serviceaccounts/token", f"{base}/driver/token", wish)
    config = yaml.safe_load(cluster.admin.read_text())
    config["users"] = [{"name": one["name"], "user": {"token": answer["status"]["token"]}} for one in config["users"]]
    path = work / "kubeconfig-driver"
    path.write_text(yaml.safe_dump(config))
    path.chmod(0o600)
    return path, {"kind": "ServiceAccount", "name": "driver", "namespace": namespace}
