"""The actuator against a real API server: its pace, lost answers, refusals, and deletes until there is nothing left."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import yaml

from podtide.adapters.clock import SystemClock
from podtide.adapters.kubernetes.api import ApiAnswer, ApiClient, KubernetesApi, Query, Stream, connect
from podtide.adapters.kubernetes.apply.actuator import ActuatorSettings, KubernetesActuator, Policy
from podtide.adapters.kubernetes.calls import CallSettings
from podtide.adapters.notices import Notice, Topic
from podtide.domain.base.units import ExecutorId, ProfileId
from podtide.domain.executor_pod.facts import Owner
from podtide.domain.protocol import executor_commands as ec, pod_commands as pc
from podtide.domain.protocol.application import Command
from podtide.domain.protocol.pod_stimuli import UNKNOWN_OUTCOME, Outcome
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Cause, Why
from tests.live.cluster import Cluster, until

APP = "spark-live-actuator"
WHY = Why(Cause.BELOW_TARGET)


class Manifests:
    """Pods of about the size of Spark's (4.6 KB)."""

    def __init__(self, namespace: str, *, broken: bool = False) -> None:
        self._namespace = namespace
        self._broken = broken

    def _meta(self, name: str, executor: object, **more: Any) -> dict[str, Any]:
        labels = {"spark-app-selector": APP, "spark-role": "executor", "spark-exec-id": str(executor)}
        return {"name": name, "namespace": self._namespace, "labels": labels, **more}

    def _spec(self) -> dict[str, Any]:
        env = [
            {"name": f"SPARK_JAVA_OPT_{one}", "value": f"-Dspark.some.setting.{one}=" + "x" * 40} for one in range(40)
        ]
        image = "" if self._broken else "spark:4.3.0"
        container = {"name": "spark-kubernetes-executor", "image": image, "env": env}
        return {"restartPolicy": "Never", "terminationGracePeriodSeconds": 30, "containers": [container]}

    def pod(self, command: pc.CreatePod) -> bytes:
        metadata = self._meta(self.pod_name(command.executor), command.executor)
        return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": self._spec()}).encode()

    def claim(self, command: pc.CreateClaim, owner: Owner) -> bytes:
        metadata = self._meta(command.claim.name, command.executor, ownerReferences=[owner.reference()])
        size = {"requests": {"storage": command.claim.size}}
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": command.claim.storage_class, "resources": size}
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
        return json.dumps(body).encode()

    def replica_set(self, command: pc.CreateSet) -> bytes:
        labels = {"spark-app-selector": APP, "spark-role": "executor"}
        spec: dict[str, Any] = {"replicas": command.replicas, "selector": {"matchLabels": labels}}
        pod = self._spec() | {"restartPolicy": "Always"}
        spec["template"] = {"metadata": {"labels": labels | {"spark-exec-id": "EXECID"}}, "spec": pod}
        kind = "Deployment"
        if command.kind == "statefulset":
            kind, spec = "StatefulSet", spec | {"podManagementPolicy": "Parallel", "serviceName": "none"}
        metadata = {"name": command.name, "namespace": self._namespace}
        return json.dumps({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}).encode()

    def config_map(self) -> bytes:
        metadata = self._meta("spark-exec-conf-map", "all")
        return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}).encode()

    def pod_name(self, executor: int) -> str:
        return f"live-exec-{executor}"


class Acting:
    """An actuator at work, and what is heard of it."""

    def __init__(self, api: ApiClient, namespace: str, settings: ActuatorSettings, manifests: Manifests) -> None:
        self._changed = threading.Condition()
        self._missing: set[int] = set()
        self.outcomes: dict[int, Outcome] = {}
        self.notices: list[Notice] = []
        self.actuator = KubernetesActuator(
            api,
            namespace,
            APP,
            manifests,
            self._hear,
            SystemClock(),
            self.notices.append,
            settings,
            jitter=random.Random(1).random,
        )

    def _hear(self, outcome: Outcome) -> None:
        with self._changed:
            assert outcome.serial not in self.outcomes
            self.outcomes[outcome.serial] = outcome
            self._missing.discard(outcome.serial)
            if not self._missing:
                self._changed.notify_all()

    def all(self, commands: Sequence[Command], timeout_s: float = 120.0) -> list[Outcome]:
        """Carry commands out; their Outcomes, in the order of the commands."""
        serials = [getattr(command, "serial", -1) for command in commands]
        with self._changed:
            self._missing = set(serials)
        for command in commands:
            self.actuator.apply(command)
        with self._changed:
            assert self._changed.wait_for(lambda: not self._missing, timeout_s), f"{len(self._missing)} never came"
            return [self.outcomes[serial] for serial in serials]

    def one(self, command: Command, timeout_s: float = 60.0) -> Outcome:
        return self.all([command], timeout_s)[0]

    def refusals(self) -> str:
        return "\n".join(notice.text for notice in self.notices if notice.topic is Topic.CALL_REFUSED)


@contextmanager
def acting(
    cluster: Cluster,
    namespace: str,
    *,
    who: str = "admin",
    kubeconfig: Path | None = None,
    broken: bool = False,
    distance_s: float = 0.0,
    **settings: Any,
) -> Iterator[Acting]:
    api = cluster.api(who) if kubeconfig is None else connect(str(kubeconfig))
    seen: ApiClient = Distant(api, distance_s) if distance_s else api
    one = Acting(seen, namespace, ActuatorSettings(**settings), Manifests(namespace, broken=broken))
    try:
        yield one
    finally:
        one.actuator.settle(0.0)
        api.close()


def create(executor: int) -> pc.CreatePod:
    return pc.CreatePod(0, executor, PodNumber(executor), ProfileId(0), WHY)


def creates(count: int, first: int = 1) -> list[Command]:
    return [create(executor) for executor in range(first, first + count)]


def ids(*executors: int) -> tuple[ExecutorId, ...]:
    return tuple(ExecutorId(str(one)) for one in executors)


def names(cluster: Cluster, namespace: str) -> list[str]:
    return sorted(one["metadata"]["name"] for one in cluster.pods(namespace))


def delete_all(serial: int) -> pc.DeletePods:
    return pc.DeletePods(0, serial, None, None, WHY)


# ------------------------------------------------------------------------------------------------------------ the pace


class Distant:
    """The API at the other end of a network: every call takes ``seconds`` longer."""

    def __init__(self, api: ApiClient, seconds: float) -> None:
        self._api = api
        self._seconds = seconds

    def call(self, *given: Any, **more: Any) -> ApiAnswer:
        threading.Event().wait(self._seconds)
        return self._api.call(*given, **more)

    def stream(self, resource: str, path: str, *, query: Query = (), silence_s: float) -> Stream:
        return self._api.stream(resource, path, query=query, silence_s=silence_s)


@pytest.mark.parametrize(("distance_s", "times_faster"), [(0.0, 0.0), (0.02, 2.0)])
def test_creations_side_by_side_are_faster_than_one_at_a_time(
    cluster: Cluster, record_property: Callable[[str, object], None], distance_s: float, times_faster: float
) -> None:
    """Beside a server on the same two processors that is a question of what else they do; over a network it is not."""
    if not cluster.full:
        pytest.skip("how fast creations are is measured in full only: PODTIDE_LIVE=full")
    count = 1_000
    rates = {}
    for policy in (Policy.ONE_AT_A_TIME, Policy.CONCURRENT):
        place = cluster.namespace()
        with acting(cluster, place, policy=policy, distance_s=distance_s) as one:
            one.all(creates(1))  # the connection stands
            began, used = time.monotonic(), time.process_time()
            outcomes = one.all(creates(count, 2))
            rates[policy] = count / (time.monotonic() - began)
            cost_ms = 1000 * (time.process_time() - used) / count
            assert all(outcome.failure is None for outcome in outcomes)
            assert len(names(cluster, place)) == count + 1
            began = time.monotonic()
            assert one.one(delete_all(10_000), 120) == Outcome(0, 10_000, found=count + 1)
            rate = (count + 1) / (time.monotonic() - began)
            assert names(cluster, place) == []
            figures = f"{rates[policy]:.0f} creates/s, {cost_ms:.2f} ms of CPU each, {rate:.0f} deletes/s"
            print(f"{policy.value}, {1000 * distance_s:.0f} ms away: {figures}")
            record_property(f"creates_per_s_{policy.name}_{distance_s}", round(rates[policy]))
    assert rates[Policy.CONCURRENT] > times_faster * rates[Policy.ONE_AT_A_TIME]


# -------------------------------------------------------------------------------------------------------- lost answers


class _Eater(BaseHTTPRequestHandler):
    """Passes calls on, and eats some answers: the call took effect and the connection breaks."""

    protocol_version = "HTTP/1.1"
    api: KubernetesApi
    chance: random.Random
    lock: threading.Lock
    eaten: list[str]

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def _do(self) -> None:
        split = urlsplit(self.path)
        verb = {"GET": "get", "POST": "create", "DELETE": "delete", "PATCH": "patch", "PUT": "update"}[self.command]
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
        with self.lock:
            draw = self.chance.random()
        if draw < 0.1:
            self._eat("request")
            return
        answer = self.api.call(verb, "pods", split.path, query=parse_qsl(split.query), body=body)
        if draw < 0.4 and self.command in {"POST", "DELETE"}:
            self._eat("answer")
            return
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def _eat(self, what: str) -> None:
        self.eaten.append(what)
        self.close_connection = True

    do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = _do  # noqa: N815 - the names that http.server looks for


@contextmanager
def eating(cluster: Cluster, folder: Path, seed: int) -> Iterator[tuple[Path, list[str]]]:
    """A kubeconfig that leads through the eater, and what was eaten."""
    eaten: list[str] = []
    api = cluster.api()
    bound = {"api": api, "chance": random.Random(seed), "lock": threading.Lock(), "eaten": eaten}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Eater,), bound))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    config = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    try:
        yield path, eaten
    finally:
        server.shutdown()
        server.server_close()
        api.close()


def told(outcomes: Iterable[Outcome]) -> list[str]:
    """The pods that are there by what was heard: all but those of which nobody knows, which are not made a second time."""
    for outcome in outcomes:
        assert outcome.failure is None or outcome.failure.exception_class == UNKNOWN_OUTCOME
    return sorted(f"live-exec-{outcome.serial}" for outcome in outcomes if outcome.failure is None)


@pytest.mark.parametrize("seed", [1, 2])
def test_lost_answers_make_no_second_pod_and_what_is_said_is_so(
    cluster: Cluster, namespace: str, tmp_path: Path, seed: int
) -> None:
    count = 300 if cluster.full else 80
    with eating(cluster, tmp_path, seed) as (kubeconfig, eaten):
        # Twelve repeats: a call in ten gets lost on its way, four in ten never seem to end well.
        call = CallSettings(repeats_max=12)
        with acting(cluster, namespace, kubeconfig=kubeconfig, call=call) as one:
            outcomes = one.all(creates(count))
            assert names(cluster, namespace) == told(outcomes)
            assert len(eaten) > count // 5
            assert one.one(delete_all(10_000)).failure is None
            assert names(cluster, namespace) == []


# ---------------------------------------------------------------------------------------- deletes, claims, marks, sets


def test_a_stop_in_the_middle_of_a_ramp_leaves_nothing(cluster: Cluster, namespace: str) -> None:
    with acting(cluster, namespace) as one:
        for command in creates(600):
            one.actuator.apply(command)
        until(lambda: len(one.outcomes) > 60, what="some pods")
        swept = one.one(delete_all(10_000), 120)
        assert swept.failure is None
        assert names(cluster, namespace) == []
        until(lambda: len(one.outcomes) == 601, what="every outcome")
        made = sum(outcome.failure is None for serial, outcome in one.outcomes.items() if serial != 10_000)
        assert swept.found == made
        assert made < 600


def test_running_pods_survive_the_delete_of_pending_ones_and_drain_with_their_grace_period(
    cluster: Cluster, namespace: str
) -> None:
    with acting(cluster, namespace) as one, cluster.kubelet(namespace, delete_ms=500):
        one.all(creates(10))
        until(
            lambda: all(pod["status"]["phase"] == "Running" for pod in cluster.pods(namespace)), what="ten running pods"
        )
        numbers = tuple(PodNumber(number) for number in range(1, 11))
        assert one.one(pc.DeletePods(0, 20, numbers, "Pending", WHY)) == Outcome(0, 20)
        assert len(names(cluster, namespace)) == 10
        assert one.one(pc.MarkPods(0, 21, ids(1, 2), "label", "leaving", "yes", WHY)).found == 2
        assert [pod["metadata"]["labels"].get("leaving") for pod in cluster.pods(namespace)].count("yes") == 2
        assert one.one(pc.MarkPods(0, 22, ids(3), "annotation", "cost", "-1", WHY)).found == 1
        assert one.one(pc.AssignExecutorId(0, 23, "live-exec-10", ExecutorId("77"), WHY)).failure is None
        one.actuator.apply(ec.DecommissionExecutors(0, ids(4, 5), "scale-down", True, WHY))
        draining = until(
            lambda: [pod for pod in cluster.pods(namespace) if "deletionTimestamp" in pod["metadata"]],
            what="draining pods",
        )
        assert {pod["metadata"]["deletionGracePeriodSeconds"] for pod in draining} == {30}
        until(lambda: len(names(cluster, namespace)) == 8, what="drained pods")
        assert one.one(pc.DeletePods(0, 24, ids(1, 2, 77), "Running", WHY, list_first=True)).found == 3
        until(lambda: len(names(cluster, namespace)) == 5, what="deleted pods")
        assert one.one(delete_all(25)).failure is None
        until(lambda: not names(cluster, namespace), what="an empty namespace")


def test_claims_go_with_their_owner(cluster: Cluster, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}"
    driver = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "driver", "labels": {"spark-app-selector": APP, "spark-role": "driver"}},
        "spec": {"containers": [{"name": "c", "image": "none"}]},
    }
    cluster.must("create", "pods", f"{path}/pods", driver)
    with acting(cluster, namespace) as one:
        assert one.one(pc.GetDriverPod(0, 1, "driver", WHY)).found == 1
        assert one.one(pc.AwaitDriverReady(0, 2, "driver", 300, WHY)).failure is not None  # no kubelet makes it ready
        one.one(create(3))
        for serial, owned in ((4, True), (5, False)):
            spec = pc.ClaimSpec(f"claim-{serial}", "fast", "1Gi")
            assert one.one(pc.CreateClaim(0, serial, PodNumber(3), spec, owned, WHY)).failure is None
        listed = one.one(pc.ListClaims(0, 6, ProfileId(0), WHY))
        assert [(claim.name, claim.storage_class, claim.size) for claim in listed.claims] == [
            ("claim-4", "fast", "1Gi"),
            ("claim-5", "fast", "1Gi"),
        ]
        resized = one.one(pc.ResizeClaim(0, 7, ExecutorId("3"), "claim-4", 2**31, WHY)).failure
        assert resized is not None  # a claim that is not bound cannot grow
        assert resized.status in {403, 422}
        assert one.one(pc.DeletePod(0, 8, PodNumber(3), "live-exec-3", WHY, check=True)).found == 1
        claims = f"{path}/persistentvolumeclaims"

        def left() -> list[str]:
            items = cluster.must("list", "persistentvolumeclaims", claims)["items"]
            return [item["metadata"]["name"] for item in items]

        until(lambda: left() == ["claim-4"], 30, "the garbage collector")
        assert one.one(pc.DeleteOwned(0, 9, "persistentvolumeclaims", WHY)).found == 1
        assert one.one(pc.CreateConfigMap(0, 10, WHY)).failure is None
        assert one.one(pc.DeleteOwned(0, 11, "configmaps", WHY)).found == 1
        assert one.one(pc.DeleteOwned(0, 12, "services", WHY)).found == 0
        until(lambda: left() == [], 30, "no claim")


@pytest.mark.parametrize("kind", ["statefulset", "deployment"])
def test_sets_are_created_scaled_and_deleted(cluster: Cluster, namespace: str, kind: Any) -> None:
    name = f"spark-{kind[0]}-{APP}-0"
    with acting(cluster, namespace) as one:
        assert one.one(pc.CreateSet(0, 1, kind, name, ProfileId(0), 3, WHY)).failure is None
        until(lambda: len(names(cluster, namespace)) == 3, what="three pods")
        one.outcomes.clear()
        assert one.one(pc.CreateSet(0, 1, kind, name, ProfileId(0), 5, WHY)).failure is None  # there already: scaled
        until(lambda: len(names(cluster, namespace)) == 5, what="five pods")
        assert one.one(pc.ScaleSet(0, 2, kind, name, ProfileId(0), 1, WHY)).failure is None
        until(lambda: len(names(cluster, namespace)) == 1, what="one pod")
        assert one.one(pc.DeleteSet(0, 3, kind, name, WHY)).found == 1
        until(lambda: not names(cluster, namespace), 30, "the garbage collector")
        failure = one.one(pc.ScaleSet(0, 4, kind, name, ProfileId(0), 1, WHY)).failure
        assert failure is not None
        assert failure.status == 404
        assert one.one(pc.DeleteSet(0, 5, kind, name, WHY)) == Outcome(0, 5)
