"""The Roles of deploy/ are exactly what the calls need: with them nothing is refused and nothing of them is left unused,
and with any verb taken away what is said names it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias

import pytest
import yaml

from podtide.adapters.clock import SystemClock
from podtide.adapters.kubernetes.api import CallSeen
from podtide.adapters.kubernetes.apply.actuator import ActuatorSettings, KubernetesActuator
from podtide.adapters.kubernetes.apply.delete import Cleaner
from podtide.adapters.kubernetes.calls import CallCounts, Caller
from podtide.adapters.kubernetes.cleanup import KINDS, Leftovers, UseUnknown
from podtide.adapters.kubernetes.errors import Complaints
from podtide.adapters.kubernetes.lease.identity import own_identity
from podtide.adapters.kubernetes.lease.lease import ApplicationLease
from podtide.adapters.kubernetes.lease.record import Acquired
from podtide.adapters.kubernetes.ratelimit import RateLimiter
from podtide.adapters.kubernetes.watch.lists import executors_selector
from podtide.adapters.kubernetes.watch.quotas import QuotaWatch, executor_needs
from podtide.adapters.kubernetes.watch.sensor import PodSensor
from podtide.adapters.notices import Notice
from podtide.adapters.shuffle_service.application_pods import ApplicationPods
from podtide.adapters.staging.owner_pods import OwnerPods
from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId
from podtide.domain.executor_pod.facts import Owner
from podtide.domain.protocol import pod_commands as pc
from podtide.domain.protocol.pod_stimuli import Outcome
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Cause, Why
from podtide.domain.shuffle_service.applications import ApplicationFound, ApplicationId, DriverName, FindApplication
from podtide.domain.staging.bundles import FindOwners, OwnersUnknown
from tests.live.cluster import Cluster, until
from tests.support.project import PROJECT

APP: Final = "spark-00000000000000000000000000000001"
WHY: Final = Why(Cause.TARGET_SET)
ONE: Final = PodNumber(1)
ROLES: Final[dict[str, list[dict[str, Any]]]] = {
    one["metadata"]["name"]: one["rules"] for one in yaml.safe_load_all((PROJECT / "deploy" / "rbac.yaml").read_text())
}

Kind: TypeAlias = Literal["statefulset", "deployment"]
Permission: TypeAlias = tuple[str, str]
"""A verb and a resource, with its subresource."""


def permissions(role: str) -> set[Permission]:
    return {(verb, resource) for rule in ROLES[role] for resource in rule["resources"] for verb in rule["verbs"]}


def without(rules: Sequence[dict[str, Any]], missing: Permission) -> list[dict[str, Any]]:
    """The rules without one verb of one resource."""
    verb, resource = missing
    left = []
    for rule in rules:
        others = [one for one in rule["resources"] if one != resource]
        verbs = [one for one in rule["verbs"] if one != verb]
        if others == rule["resources"]:
            left.append(rule)
            continue
        left += [{**rule, "resources": others}] if others else []
        left += [{**rule, "resources": [resource], "verbs": verbs}] if verbs else []
    return left


class Manifests:
    """Objects as small as the server takes them, with the labels that make them ours."""

    labels = {"spark-app-selector": APP, "spark-role": "executor"}  # noqa: RUF012 - never changed

    def pod(self, command: pc.CreatePod) -> bytes:
        metadata = {
            "name": self.pod_name(command.executor),
            "labels": {**self.labels, "spark-exec-id": str(command.executor)},
        }
        return json.dumps({"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": self.spec}).encode()

    def claim(self, command: pc.CreateClaim, owner: Owner) -> bytes:
        metadata = {"name": command.claim.name, "labels": self.labels, "ownerReferences": [owner.reference()]}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": command.claim.size}}}
        return json.dumps(
            {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": metadata, "spec": spec}
        ).encode()

    def replica_set(self, command: pc.CreateSet) -> bytes:
        kind = {"statefulset": "StatefulSet", "deployment": "Deployment"}[command.kind]
        template = {"metadata": {"labels": self.labels}, "spec": {**self.spec, "restartPolicy": "Always"}}
        spec = {"replicas": command.replicas, "selector": {"matchLabels": self.labels}, "template": template}
        if kind == "StatefulSet":
            spec["serviceName"] = "none"
        return json.dumps(
            {"kind": kind, "apiVersion": "apps/v1", "metadata": {"name": command.name}, "spec": spec}
        ).encode()

    def config_map(self) -> bytes:
        metadata = {"name": "spark-exec-conf", "labels": self.labels}
        return json.dumps({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata}).encode()

    def pod_name(self, executor: PodNumber) -> str:
        return f"exec-{executor}"

    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}  # noqa: RUF012 - never changed


class Driver:
    """podtide as the user without rights of its own: what it called, and all that was said."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.clock = SystemClock()
        self.called: set[Permission] = set()
        self.said: list[str] = []
        self.outcomes: dict[int, Outcome] = {}
        self.api = cluster.api("driver", watcher=self._seen)

    def _seen(self, call: CallSeen) -> None:
        self.called.add((call.verb, call.resource))

    def notify(self, notice: Notice) -> None:
        self.said.append(notice.text)

    # what there is of uses

    def watch(self) -> None:
        heard: list[object] = []
        sensor = PodSensor(self.api, self.namespace, executors_selector(APP), heard.append, self.clock, self.notify)
        sensor.start()
        try:
            until(lambda: sensor.watching or sensor.failure is not None, 10, "a watch or a refusal")
            sensor.request_list(1)
            until(lambda: any(isinstance(one, Outcome) for one in heard), 10, "the answer to a list")
        finally:
            sensor.stop()

    def lease(self) -> None:
        lease = ApplicationLease(self.api, self.namespace, APP, own_identity(), self.clock, self.notify)
        found = lease.acquire()
        if not isinstance(found, Acquired):
            self.said.append(str(found))
            return
        lease.reserve(1, timeout_s=0.3)
        self.said.append(str(lease.release(delete=True, timeout_s=0.3)))

    def carry_out(self, *commands: pc.PodCommand) -> None:
        """One after the other, as their serials count."""
        settings = ActuatorSettings(create_deadline_s=5, deadline_s=5, sweep_deadline_s=5, driver_pod="driver")
        hear: Callable[[Outcome], None] = lambda outcome: self.outcomes.__setitem__(outcome.serial, outcome)  # noqa: E731
        actuator = KubernetesActuator(
            self.api, self.namespace, APP, Manifests(), hear, self.clock, self.notify, settings, jitter=lambda: 0.5
        )
        for command in commands:
            actuator.apply(command)
            serial = command.serial  # type: ignore[union-attr]
            until(lambda serial=serial: serial in self.outcomes, 20, f"the outcome of {command}")  # type: ignore[misc]
        actuator.settle(10)
        for outcome in self.outcomes.values():
            if outcome.failure is not None:
                self.said.append(outcome.failure.message)

    def stop(self, kinds: Sequence[str] = KINDS) -> None:
        """What ``podtide stop`` does, or the end of a run that leaves nothing."""
        wait = lambda _seconds: False  # noqa: E731
        lane = RateLimiter("calls", self.clock, self.notify, jitter=lambda: 0.5, wait=wait)
        caller = Caller(
            self.api, lane, self.clock, Complaints(self.clock, self.notify), CallCounts(), jitter=lambda: 0.5, wait=wait
        )
        leftovers = Leftovers(caller, Cleaner(caller, self.namespace), self.namespace, APP, caller.deadline(20))
        if kinds is KINDS:
            use = leftovers.in_use(KINDS)
            self.said.extend([use.why] if isinstance(use, UseUnknown) else use)
        self.said.extend(str(left.refusal) for left in leftovers.delete(kinds, lambda _kind, _count: None, gone=False))


def shadow(driver: Driver) -> None:
    driver.watch()
    driver.carry_out(pc.ListClaims(0, 1, DEFAULT_PROFILE, WHY), pc.GetDriverPod(0, 2, "driver", WHY))
    needs = executor_needs(Decimal(1), 1 << 30)
    heard: list[str | None] = []
    quotas = QuotaWatch(
        driver.api, driver.namespace, needs, driver.clock, driver.notify, lambda: True, heard.append
    )  # fmt: skip
    assert quotas.look() == (heard == [None])


def act(driver: Driver) -> None:
    """Everything that is created is created twice: the second time it is found, which takes a look."""
    driver.lease()
    driver.watch()
    claim = pc.CreateClaim(0, 5, ONE, pc.ClaimSpec("exec-1-pvc-0", "", "1Gi"), True, WHY)
    driver.carry_out(
        pc.GetDriverPod(0, 10, "driver", WHY),
        pc.CreateConfigMap(0, 1, WHY),
        pc.CreateConfigMap(0, 2, WHY),
        pc.CreatePod(0, 3, ONE, DEFAULT_PROFILE, WHY),
        pc.CreatePod(0, 4, ONE, DEFAULT_PROFILE, WHY),
        claim,
        pc.CreateClaim(0, 6, ONE, claim.claim, True, WHY),
        pc.ListClaims(0, 7, DEFAULT_PROFILE, WHY),
        pc.MarkPods(0, 8, (ExecutorId("1"),), "label", "decommissioning", "true", WHY),
        pc.ResizeClaim(0, 9, ExecutorId("1"), "exec-1-pvc-0", 2**31, WHY),
        pc.DeletePods(0, 11, (ONE,), None, WHY),
        pc.DeletePods(0, 12, None, None, WHY),
        pc.DeleteOwned(0, 13, "services", WHY),
        pc.DeleteOwned(0, 14, "persistentvolumeclaims", WHY),
        pc.DeleteOwned(0, 15, "configmaps", WHY),
    )


def sets(driver: Driver) -> None:
    kind: Kind
    for base, kind in ((0, "statefulset"), (10, "deployment")):
        driver.carry_out(
            pc.CreateSet(0, base + 1, kind, "spark-s", DEFAULT_PROFILE, 0, WHY),
            pc.CreateSet(0, base + 2, kind, "spark-s", DEFAULT_PROFILE, 1, WHY),
            pc.ScaleSet(0, base + 3, kind, "spark-s", DEFAULT_PROFILE, 0, WHY),
            pc.DeleteSet(0, base + 4, kind, "spark-s", WHY),
        )
    driver.stop(("statefulsets", "deployments"))


def resize(driver: Driver) -> None:
    driver.carry_out(pc.ResizePod(0, 1, ExecutorId("1"), "driver", "c", 2**31, WHY))


def stop(driver: Driver) -> None:
    driver.stop()


def stage(driver: Driver) -> None:
    search = FindOwners(driver.namespace, ("spark-app-selector",))
    found = OwnerPods(driver.api, driver.clock, driver.notify).find(search)
    if isinstance(found, OwnersUnknown):
        driver.said.append(found.why)
    else:
        assert found.alive == {(APP,)}


def shuffle_service(driver: Driver) -> None:
    """The cleaner's watch, and its questions: of an application by its label, then of a driver by its name."""
    driver.watch()
    name = DriverName(driver.namespace, "driver", "another-uid")
    said = len(driver.said)
    pods = ApplicationPods(driver.api, [driver.namespace], driver.clock, driver.notify)
    found = pods.find(FindApplication(ApplicationId("spark-none"), name), lambda _: 0)
    assert found == ApplicationFound(ApplicationId("spark-none"), 0, 0) or len(driver.said) > said


USES: Final[dict[str, Callable[[Driver], None]]] = {
    "podtide-shadow": shadow,
    "podtide-act": act,
    "podtide-sets": sets,
    "podtide-resize": resize,
    "podtide-stop": stop,
    "podtide-stage": stage,
    "podtide-shuffle-service": shuffle_service,
}


def every() -> Iterator[tuple[str, Permission]]:
    for role in USES:
        for missing in sorted(permissions(role)):
            yield role, missing


@pytest.fixture
def place(cluster: Cluster, namespace: str) -> str:
    """A namespace with a driver, and one of everything that an application leaves behind."""
    labels = {"spark-app-selector": APP}
    core, apps = f"/api/v1/namespaces/{namespace}", f"/apis/apps/v1/namespaces/{namespace}"
    driver = {"name": "driver", "labels": {**labels, "spark-role": "driver"}}
    cluster.must("create", "pods", f"{core}/pods", {"metadata": driver, "spec": Manifests.spec})
    named = {"metadata": {"name": "left-behind", "labels": {**labels, "spark-role": "executor"}}}
    cluster.must("create", "pods", f"{core}/pods", {**named, "spec": Manifests.spec})
    cluster.must("create", "services", f"{core}/services", {**named, "spec": {"clusterIP": "None"}})
    cluster.must("create", "configmaps", f"{core}/configmaps", named)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    cluster.must("create", "persistentvolumeclaims", f"{core}/persistentvolumeclaims", {**named, "spec": claim})
    kind: Kind
    for kind in ("statefulset", "deployment"):
        command = pc.CreateSet(0, 0, kind, "left-behind", DEFAULT_PROFILE, 0, WHY)
        cluster.must("create", f"{kind}s", f"{apps}/{kind}s", json.loads(Manifests().replica_set(command)))
    lease = {**named, "spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}
    cluster.must("create", "leases", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", lease)
    return namespace


@pytest.mark.parametrize("role", USES)
def test_a_role_is_exactly_what_its_use_calls(cluster: Cluster, place: str, role: str) -> None:
    cluster.role(place, ROLES[role])
    driver = Driver(cluster, place)
    USES[role](driver)
    assert [text for text in driver.said if "RBAC" in text] == []
    assert driver.called == permissions(role)


@pytest.mark.parametrize(
    ("role", "missing"), list(every()), ids=lambda one: one if isinstance(one, str) else "-".join(one)
)
def test_a_permission_that_is_missing_is_named(cluster: Cluster, place: str, role: str, missing: Permission) -> None:
    cluster.role(place, without(ROLES[role], missing))
    driver = Driver(cluster, place)
    USES[role](driver)
    verb, resource = missing
    named = [text for text in driver.said if "RBAC" in text]
    assert any(f"RBAC: verb {verb}, resource {resource}" in text for text in named), driver.said
    assert all(f"RBAC: verb {verb}, resource {resource}" in text for text in named), "and nothing else is"
