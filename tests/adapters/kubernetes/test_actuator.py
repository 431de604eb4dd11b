"""The actuator over an API server that is a dictionary: what every command becomes, and what survives what goes wrong."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, get_args

import pytest
from hypothesis import given, strategies as st
from pyrsistent import pmap

from podtide.adapters.kubernetes.apply import ordering
from podtide.adapters.kubernetes.apply.actuator import ActuatorSettings, ActuatorSettled, KubernetesActuator, Policy
from podtide.adapters.kubernetes.apply.create import ManifestRefused
from podtide.adapters.kubernetes.calls import CallSettings
from podtide.adapters.kubernetes.ratelimit import Backoff, Rate, Wait
from podtide.adapters.notices import Topic
from podtide.domain.base.units import ExecutorId, ProfileId
from podtide.domain.executor_pod.builder import CannotBuild
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.protocol import executor_commands as ec, pod_commands as pc
from podtide.domain.protocol.application import Command
from podtide.domain.protocol.pod_stimuli import UNKNOWN_OUTCOME, Claim, Outcome
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Cause, Why
from tests.support.fake_kubernetes import APP, NAMESPACE, FakeApi, FakeManifests, Fault, Heard, ManualClock, labels_of

WHY = Why(Cause.BELOW_TARGET)
QUICK = CallSettings(timeout_s=10.0, repeats_max=5, backoff=Backoff(0.1, 1.0))


class Play:
    """An actuator with its API, its ears and its clock."""

    def __init__(self, settings: ActuatorSettings, manifests: Any = None, wait: Wait | None = None) -> None:
        self.api = FakeApi()
        self.clock: ManualClock = self.api.clock
        self.heard = Heard()
        self.manifests = manifests or FakeManifests()
        self.actuator = KubernetesActuator(
            self.api,
            NAMESPACE,
            APP,
            self.manifests,
            self.heard.hear,
            self.clock,
            self.heard.notify,
            settings._replace(call=QUICK),
            jitter=lambda: 0.0,
            wait=wait or self.clock.wait,
        )

    def does(self, command: Command) -> Outcome:
        """Carry a command out and wait for its Outcome."""
        self.actuator.apply(command)
        return self.heard.wait_for(serial_of(command))

    def end(self) -> ActuatorSettled:
        return self.actuator.settle(20.0)


def serial_of(command: Command) -> int:
    serial: int = getattr(command, "serial", -1)
    return serial


@contextmanager
def acting(
    policy: Policy = Policy.CONCURRENT, manifests: Any = None, wait: Wait | None = None, **settings: Any
) -> Iterator[Play]:
    stage = Play(ActuatorSettings(policy=policy, **settings), manifests, wait)
    try:
        yield stage
    finally:
        stage.actuator.settle(0.0)


def create(executor: int, serial: int | None = None) -> pc.CreatePod:
    return pc.CreatePod(0, executor if serial is None else serial, PodNumber(executor), ProfileId(0), WHY)


def claim(executor: int, serial: int, *, driver: bool = False) -> pc.CreateClaim:
    name = f"e-exec-{executor}-pvc-0"
    return pc.CreateClaim(0, serial, PodNumber(executor), pc.ClaimSpec(name, "fast", "1Gi"), driver, WHY)


def delete(executor: int, serial: int, *, check: bool = False) -> pc.DeletePod:
    return pc.DeletePod(0, serial, PodNumber(executor), f"e-exec-{executor}", WHY, check)


def delete_many(serial: int, *executors: int, phase: Any = None, list_first: bool = False) -> pc.DeletePods:
    return pc.DeletePods(0, serial, tuple(map(PodNumber, executors)), phase, WHY, list_first)


def delete_all(serial: int) -> pc.DeletePods:
    return pc.DeletePods(0, serial, None, None, WHY)


def ids(*executors: int) -> tuple[ExecutorId, ...]:
    return tuple(ExecutorId(str(one)) for one in executors)


def pods(api: FakeApi, *executors: int, phase: str = "Running", node: str = "") -> None:
    for one in executors:
        spec = {"nodeName": node} if node else {}
        api.put("pods", f"e-exec-{one}", labels_of(one), spec=spec, status={"phase": phase})


BOTH = pytest.mark.parametrize("policy", list(Policy))

# ------------------------------------------------------------------------------------------------- commands and calls


def three_pods(api: FakeApi) -> None:
    pods(api, 1, 2, 3)
    pods(api, 4, phase="Pending")


def a_set(api: FakeApi) -> None:
    api.put("statefulsets", "set-0", spec={"replicas": 3, "selector": {"matchLabels": {"spark-app-selector": APP}}})


def a_claim(api: FakeApi) -> None:
    spec = {"storageClassName": "fast", "resources": {"requests": {"storage": "5Gi"}}}
    made = api.put("persistentvolumeclaims", "c-1", {"spark-app-selector": APP}, spec=spec)
    made["metadata"]["creationTimestamp"] = "2026-11-21T10:00:00Z"
    api.put("persistentvolumeclaims", "c-2", {"spark-app-selector": "another"}, spec=spec)


def a_ready_driver(api: FakeApi) -> None:
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    api.put("pods", "driver", {"spark-role": "driver"}, status=ready)


def nothing(api: FakeApi) -> None:
    del api


@BOTH
@pytest.mark.parametrize(
    ("before", "command", "calls", "outcome"),
    [
        (nothing, create(1), ["create pods e-exec-1"], Outcome(0, 1, found=1)),
        (nothing, pc.CreateConfigMap(0, 1, WHY), ["create configmaps conf-map"], Outcome(0, 1, found=1)),
        (
            nothing,
            pc.CreateSet(0, 1, "deployment", "set-1", ProfileId(1), 4, WHY),
            ["create deployments set-1"],
            Outcome(0, 1, found=1),
        ),
        (
            a_set,
            pc.ScaleSet(0, 1, "statefulset", "set-0", ProfileId(0), 5, WHY),
            ["get statefulsets/scale set-0", "update statefulsets/scale set-0"],
            Outcome(0, 1, found=1),
        ),
        (
            a_set,
            pc.ScaleSet(0, 1, "statefulset", "set-0", ProfileId(0), 3, WHY),
            ["get statefulsets/scale set-0"],
            Outcome(0, 1, found=1),
        ),
        (
            a_set,
            pc.DeleteSet(0, 1, "statefulset", "set-0", WHY),
            ["delete statefulsets set-0"],
            Outcome(0, 1, found=1),
        ),
        (nothing, pc.DeleteSet(0, 1, "statefulset", "set-0", WHY), ["delete statefulsets set-0"], Outcome(0, 1)),
        (three_pods, delete(1, 1), ["delete pods e-exec-1"], Outcome(0, 1, found=1)),
        (nothing, delete(1, 1), ["delete pods e-exec-1"], Outcome(0, 1)),
        (three_pods, delete(1, 1, check=True), ["get pods e-exec-1", "delete pods e-exec-1"], Outcome(0, 1, found=1)),
        (nothing, delete(1, 1, check=True), ["get pods e-exec-1"], Outcome(0, 1)),
        (three_pods, delete_many(1, 4, phase="Pending"), ["list pods", "delete pods e-exec-4"], Outcome(0, 1, found=1)),
        (three_pods, delete_many(1, 4, phase="Running"), ["list pods"], Outcome(0, 1)),
        (three_pods, delete_many(1, 9, phase="Running", list_first=True), ["list pods"], Outcome(0, 1)),
        (three_pods, delete_many(1), [], Outcome(0, 1)),
        (
            three_pods,
            pc.MarkInactive(0, 1, PodNumber(1), "e-exec-1", WHY),
            ["patch pods e-exec-1"],
            Outcome(0, 1, found=1),
        ),
        (
            three_pods,
            pc.MarkPods(0, 1, ids(1, 3), "label", "k", "v", WHY),
            ["list pods", "patch pods e-exec-1", "patch pods e-exec-3"],
            Outcome(0, 1, found=2),
        ),
        (
            three_pods,
            pc.AssignExecutorId(0, 1, "e-exec-1", ExecutorId("8"), WHY),
            ["patch pods e-exec-1"],
            Outcome(0, 1, found=1),
        ),
        (
            a_claim,
            pc.ResizeClaim(0, 1, ExecutorId("1"), "c-1", 2**33, WHY),
            ["patch persistentvolumeclaims c-1"],
            Outcome(0, 1, found=1),
        ),
        (
            a_claim,
            pc.ListClaims(0, 1, ProfileId(0), WHY),
            ["list persistentvolumeclaims"],
            Outcome(0, 1, claims=(Claim("c-1", "fast", "5Gi", "2026-11-21T10:00:00Z"),), found=1),
        ),
        (
            a_claim,
            pc.DeleteOwned(0, 1, "persistentvolumeclaims", WHY),
            ["list persistentvolumeclaims", "delete persistentvolumeclaims c-1"],
            Outcome(0, 1, found=1),
        ),
        (a_ready_driver, pc.GetDriverPod(0, 1, "driver", WHY), ["get pods driver"], Outcome(0, 1, found=1)),
        (a_ready_driver, pc.AwaitDriverReady(0, 1, "driver", 1_000, WHY), ["get pods driver"], Outcome(0, 1, found=1)),
        (nothing, ec.StopSource(0, 1, "watch", WHY), [], Outcome(0, 1)),
    ],
)
def test_what_a_command_becomes(
    policy: Policy, before: Callable[[FakeApi], None], command: Command, calls: list[str], outcome: Outcome
) -> None:
    with acting(policy) as stage:
        before(stage.api)
        assert stage.does(command) == outcome
        assert [f"{one.verb} {one.resource} {one.name}".strip() for one in stage.api.made] == calls
        assert stage.end().done


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (pc.GetDriverPod(0, 1, "driver", WHY), 404),
        (pc.MarkInactive(0, 1, PodNumber(1), "gone", WHY), 404),
        (pc.AssignExecutorId(0, 1, "gone", ExecutorId("1"), WHY), 404),
        (pc.ScaleSet(0, 1, "deployment", "gone", ProfileId(0), 5, WHY), 404),
        (pc.ResizeClaim(0, 1, ExecutorId("1"), "gone", 1, WHY), 404),
        (pc.ResizePod(0, 1, ExecutorId("1"), "e-exec-1", "spark", 1, WHY), 404),  # a server without the subresource
        (claim(7, 1), 404),  # its owner is gone
        (claim(7, 1, driver=True), None),  # nobody said which the driver pod is
        (pc.ListPods(0, 1, WHY), None),
    ],
)
def test_what_is_not_there_is_a_failure(command: Command, status: int | None) -> None:
    with acting() as stage:
        pods(stage.api, 1)
        failure = stage.does(command).failure
        assert failure is not None
        assert failure.status == status
        assert failure.exception_class.endswith("KubernetesClientException")


@pytest.mark.parametrize(
    "command",
    [
        ec.RemoveExecutor(0, ExecutorId("1"), ec.ExitReason("ExecutorKilled", "x"), WHY),
        ec.AnswerRegistration(0, ExecutorId("1"), True, WHY),
        ec.StopApplication(0, 11, WHY),
        ec.DecommissionExecutors(0, ids(1), "bye", False, WHY),
    ],
)
def test_what_is_said_to_the_driver_makes_no_call(command: Command) -> None:
    with acting() as stage:
        pods(stage.api, 1)
        stage.actuator.apply(command)
        assert stage.end().done
        assert stage.api.made == []


@pytest.mark.parametrize(
    ("drain", "left"), [(True, ["e-exec-2", "e-exec-3"]), (False, ["e-exec-1", "e-exec-2", "e-exec-3"])]
)
def test_executors_drain_by_their_pods_deletion_with_their_own_grace_period(drain: bool, left: list[str]) -> None:
    with acting(drain=drain) as stage:
        pods(stage.api, 1, 2, 3)
        stage.actuator.apply(ec.DecommissionExecutors(0, ids(1), "bye", True, WHY))
        assert stage.end().done
        assert stage.api.names() == left
        assert all("gracePeriodSeconds" not in one.body for one in stage.api.calls("delete"))


def test_marks_end_at_the_first_patch_that_fails() -> None:
    with acting() as stage:
        pods(stage.api, 1, 2, 3)
        stage.api.faults.append(Fault("patch", status=422, name="e-exec-2"))
        outcome = stage.does(pc.MarkPods(0, 1, ids(1, 2, 3), "annotation", "k", "v", WHY))
        assert (outcome.found, outcome.failure and outcome.failure.status) == (1, 422)
        assert "annotations" not in stage.api.objects["pods", "e-exec-3"]["metadata"]


@pytest.mark.parametrize("resource", ["statefulsets/scale"])
def test_a_scale_that_somebody_else_was_faster_with_is_read_again(resource: str) -> None:
    with acting() as stage:
        a_set(stage.api)
        raced: list[int] = []

        def race(made: Any) -> None:
            if made.verb == "update" and not raced:
                raced.append(1)
                stage.api._touch(stage.api.objects["statefulsets", "set-0"])

        stage.api.before = race
        assert stage.does(pc.ScaleSet(0, 1, "statefulset", "set-0", ProfileId(0), 9, WHY)).failure is None
        assert stage.api.objects["statefulsets", "set-0"]["spec"]["replicas"] == 9
        assert len(stage.api.calls("update", resource)) == 2


def test_a_driver_that_is_never_ready_is_waited_for_as_long_as_asked() -> None:
    with acting() as stage:
        stage.api.put("pods", "driver", status={"phase": "Pending"})
        began = stage.clock.seconds
        failure = stage.does(pc.AwaitDriverReady(0, 1, "driver", 5_000, WHY)).failure
        assert failure is not None
        assert failure.exception_class.endswith("TimeoutException")
        assert stage.clock.seconds == began + 5.0
        assert len(stage.api.calls("get")) == 6


def test_a_claim_belongs_to_the_pod_it_was_made_for_or_to_the_driver() -> None:
    with acting() as stage:
        a_ready_driver(stage.api)
        stage.does(pc.GetDriverPod(0, 1, "driver", WHY))
        stage.does(create(5, 2))
        stage.does(claim(5, 3))
        stage.does(claim(6, 4, driver=True))
        owners = [
            stage.api.objects["persistentvolumeclaims", f"e-exec-{n}-pvc-0"]["metadata"]["ownerReferences"][0]
            for n in (5, 6)
        ]
        uids = [stage.api.objects["pods", name]["metadata"]["uid"] for name in ("e-exec-5", "driver")]
        assert [(one["name"], one["uid"]) for one in owners] == [("e-exec-5", uids[0]), ("driver", uids[1])]
        assert len(stage.api.calls("get")) == 1  # the uids were known


# -------------------------------------------------------------------------------------- lost answers, and whose it is


@BOTH
@pytest.mark.parametrize(
    "faults",
    [
        [Fault("create", lost="answer")],
        [Fault("create", lost="unsent", times=8)],
        [Fault("create", lost="answer"), Fault("get", lost="request", times=3)],
        [Fault("create", status=500, effect=True)],
        [Fault("create", status=504, effect=True), Fault("get", status=500, times=2)],
        [Fault("create", status=503, effect=True), Fault("create", status=429, retry_after_ms=1_000)],
        [Fault("create", status=409, reason="Conflict", message="resourcequotas has been modified", times=3)],
        [Fault("create", status=429, times=5)],
    ],
    ids=lambda faults: " ".join(one.lost or str(one.status) for one in faults),
)
def test_whatever_gets_lost_there_is_one_pod_and_it_is_known(policy: Policy, faults: list[Fault]) -> None:
    with acting(policy) as stage:
        stage.api.faults.extend(faults)
        assert stage.does(create(7, 1)) == Outcome(0, 1, found=1)
        assert stage.does(claim(7, 2)).failure is None
        assert stage.api.names() == ["e-exec-7"]
        owner = stage.api.objects["persistentvolumeclaims", "e-exec-7-pvc-0"]["metadata"]["ownerReferences"][0]
        assert owner["uid"] == stage.api.objects["pods", "e-exec-7"]["metadata"]["uid"]


@BOTH
@pytest.mark.parametrize(
    "fault",
    [Fault("create", lost="request"), Fault("create", status=500)],
    ids=lambda fault: fault.lost or str(fault.status),
)
def test_a_pod_that_may_have_been_is_not_made_a_second_time(policy: Policy, fault: Fault) -> None:
    """It may have been created, and gone again: its id would be used twice. Nobody's failure is counted for it."""
    with acting(policy) as stage:
        stage.api.faults.append(fault)
        failure = stage.does(create(7, 1)).failure
        assert failure is not None
        assert failure.exception_class == UNKNOWN_OUTCOME
        assert "it is not made a second time" in failure.message
        assert stage.api.names() == []
        assert stage.does(create(8, 2)) == Outcome(0, 2, found=1)


@pytest.mark.parametrize(
    ("labels", "whose"),
    [
        (labels_of(7, "spark-other"), "it belongs to application spark-other"),
        (labels_of(8), "it belongs to executor 8 of this application"),
        ({}, "an object without the label spark-app-selector has it"),
        (labels_of(7), None),
    ],
)
def test_a_name_that_is_taken_is_ours_or_says_whose_it_is(labels: dict[str, str], whose: str | None) -> None:
    with acting() as stage:
        stage.api.put("pods", "e-exec-7", labels)
        failure = stage.does(create(7, 1)).failure
        if whose is None:
            assert failure is None
        else:
            assert failure is not None
            assert failure.status == 409
            assert whose in failure.message


@pytest.mark.parametrize(("uid", "ours"), [("uid-1", True), ("uid-old", False)])
def test_a_claim_that_is_there_is_ours_if_its_owner_is(uid: str, ours: bool) -> None:
    with acting() as stage:
        pods(stage.api, 7)  # uid-1
        made = stage.api.put("persistentvolumeclaims", "e-exec-7-pvc-0", {"spark-app-selector": APP})
        made["metadata"]["ownerReferences"] = [{"uid": uid}]
        assert (stage.does(claim(7, 1)).failure is None) == ours


@pytest.mark.parametrize(
    ("app", "replicas", "failed", "after"), [(APP, 2, False, 4), (APP, 4, False, 4), ("x", 2, True, 2)]
)
def test_a_set_that_is_there_is_ours_if_it_selects_our_pods_and_gets_the_replicas(
    app: str, replicas: int, failed: bool, after: int
) -> None:
    with acting() as stage:
        spec = {"replicas": replicas, "selector": {"matchLabels": {"spark-app-selector": app}}}
        stage.api.put("statefulsets", "s", spec=spec)
        outcome = stage.does(pc.CreateSet(0, 1, "statefulset", "s", ProfileId(0), 4, WHY))
        assert (outcome.failure is not None) == failed
        assert stage.api.objects["statefulsets", "s"]["spec"]["replicas"] == after


def test_a_server_that_is_away_for_long_is_waited_for() -> None:
    """Answered with a failure it would count as one of the executors', and end the application."""
    with acting(create_deadline_s=60.0) as stage:
        began = stage.clock.seconds
        stage.api.faults.append(Fault("create", lost="unsent", times=400))
        assert stage.does(create(7, 1)) == Outcome(0, 1, found=1)
        assert stage.clock.seconds - began > 120.0
        assert stage.api.names() == ["e-exec-7"]


def test_without_the_right_to_look_a_lost_answer_stays_unknown_and_names_the_right() -> None:
    with acting() as stage:
        stage.api.faults.append(Fault("create", lost="answer"))
        forbidden = 'pods "e-exec-7" is forbidden: User "u" cannot get resource "pods" in API group ""'
        stage.api.faults.append(Fault("get", status=403, message=forbidden, times=9))
        failure = stage.does(create(7, 1)).failure
        assert failure is not None
        assert "not known" in failure.message
        assert any("may not get pods in namespace ns" in text for text in stage.heard.about(Topic.CALL_REFUSED))


@pytest.mark.parametrize(
    ("fault", "calls"),
    [
        (Fault("delete", status=500, times=2), 3),
        (Fault("delete", lost="answer"), 2),
        (Fault("delete", lost="request", times=5), 6),
        (Fault("delete", lost="unsent", times=12), 13),
        (Fault("delete", status=429, retry_after_ms=2_000, times=3), 4),
    ],
)
def test_what_may_be_repeated_is(fault: Fault, calls: int) -> None:
    with acting() as stage:
        pods(stage.api, 1)
        stage.api.faults.append(fault)
        assert stage.does(delete(1, 1)).failure is None
        assert stage.api.names() == []
        assert len(stage.api.calls("delete")) == calls


@pytest.mark.parametrize(("status", "calls"), [(400, 1), (401, 1), (403, 1), (422, 1), (500, 6), (502, 6)])
def test_what_is_an_answer_is_not_repeated_and_server_errors_not_for_ever(status: int, calls: int) -> None:
    with acting() as stage:
        pods(stage.api, 1)
        stage.api.faults.append(Fault("delete", status=status, times=1_000))
        failure = stage.does(delete(1, 1)).failure
        assert failure is not None
        assert failure.status == status
        assert len(stage.api.calls("delete")) == calls


def test_another_pod_under_the_name_is_not_ours_to_delete() -> None:
    with acting() as stage:
        stage.does(create(7, 1))
        del stage.api.objects["pods", "e-exec-7"]
        stage.api.put("pods", "e-exec-7", labels_of(7, "another"))
        assert stage.does(delete(7, 2)) == Outcome(0, 2)
        assert stage.api.names() == ["e-exec-7"]


# ------------------------------------------------------------------------------------------------- deletes of many


def test_a_pod_that_runs_by_now_survives_the_delete_of_pending_ones() -> None:
    with acting() as stage:
        pods(stage.api, 1, 2, 3, phase="Pending")

        def starts(made: Any) -> None:
            if made.verb == "delete" and made.name == "e-exec-2":
                one = stage.api.objects["pods", "e-exec-2"]
                one["status"]["phase"] = "Running"
                stage.api._touch(one)

        stage.api.before = starts
        assert stage.does(delete_many(1, 1, 2, 3, phase="Pending")).failure is None
        assert stage.api.names() == ["e-exec-2"]


def test_deletes_of_many_ask_for_two_hundred_ids_at_a_time_and_never_for_what_no_label_holds() -> None:
    with acting() as stage:
        pods(stage.api, *range(1, 451))
        strange = (ExecutorId("driver"), ExecutorId("a,b"), ExecutorId(""), ExecutorId("x)"))
        command = pc.DeletePods(0, 1, strange + ids(*range(1, 451)), "Running", WHY)
        assert stage.does(command) == Outcome(0, 1, found=450)
        selectors = [one.query["labelSelector"] for one in stage.api.calls("list")]
        sizes = [one.rpartition("(")[2].count(",") + 1 for one in selectors if "(" in one]
        assert max(sizes) == 200
        assert not any("a,b" in one or "x)" in one for one in selectors)


def test_all_pods_go_in_pages_until_a_list_shows_none_that_is_not_terminating() -> None:
    with acting() as stage:
        pods(stage.api, *range(1, 1_201))
        pods(stage.api, *range(2_000, 2_010), node="n")
        stage.api.put("pods", "driver", {"spark-app-selector": APP, "spark-role": "driver"})
        assert stage.does(delete_all(1)) == Outcome(0, 1, found=1_210)
        assert len(stage.api.names()) == 11  # on a node, terminating; and the driver
        assert max(int(one.query["limit"]) for one in stage.api.calls("list")) <= 500
        assert len(stage.api.calls("delete")) == 1_210
        assert len(list(stage.heard.about(Topic.CLEANED_UP))) == 1


def test_pods_that_cannot_be_deleted_are_named_at_the_deadline() -> None:
    with acting(sweep_deadline_s=30.0) as stage:
        pods(stage.api, *range(1, 31))
        stage.api.faults.append(Fault("delete", status=500, times=1_000_000))
        failure = stage.does(delete_all(1)).failure
        assert failure is not None
        [text] = stage.heard.about(Topic.LEFT_BEHIND)
        assert text.startswith("30 executor pods of spark-abc are left behind: e-exec-1, e-exec-10,")
        assert text.endswith("and 10 more")


# -------------------------------------------------------------------------------------------------------------- order


def test_a_delete_of_all_waits_for_creations_under_way_and_cancels_the_rest() -> None:
    with acting(workers=3) as stage:
        gate = threading.Event()
        stage.api.faults.append(Fault("create", times=3, hold=gate))
        for executor in range(1, 21):
            stage.actuator.apply(create(executor))
        stage.api.wait_for("create", 3)
        stage.actuator.apply(delete_all(100))
        stage.actuator.apply(create(50))
        stage.actuator.apply(claim(1, 51))
        late = [stage.heard.wait_for(serial).failure for serial in (50, 51, *range(4, 21))]
        assert all(one is not None and "application stops" in one.message for one in late)
        assert stage.api.calls("list") == []
        gate.set()
        assert stage.heard.wait_for(100) == Outcome(0, 100, found=3)
        assert stage.api.names() == []
        assert len(stage.api.calls("create")) == 3
        assert stage.manifests.made == 3
        assert [stage.heard.wait_for(serial).failure for serial in (1, 2, 3)] == [None] * 3


def test_a_creation_that_waits_for_its_turn_does_not_hold_the_end_up() -> None:
    turned = threading.Event()
    clock = ManualClock()

    def wait(seconds: float) -> bool:
        turned.set()
        held.wait(20)
        return clock.wait(seconds)

    held = threading.Event()
    with acting(wait=wait, workers=1, rate=Rate(0.001)) as stage:
        stage.actuator.apply(create(1))
        stage.heard.wait_for(1)
        stage.actuator.apply(create(2))
        assert turned.wait(20)
        stage.actuator.apply(delete_all(100))
        held.set()
        assert stage.heard.wait_for(2).failure is not None
        assert stage.heard.wait_for(100) == Outcome(0, 100, found=1)
        assert stage.api.names() == []


@pytest.mark.parametrize(
    "then",
    [
        delete(1, 2),
        delete(1, 2, check=True),
        delete_many(2, 1),
        delete_many(2, 9, 1, 8),
        pc.MarkInactive(0, 2, PodNumber(1), "e-exec-1", WHY),
    ],
)
def test_what_concerns_a_pod_under_way_waits_for_it_and_nothing_else_does(then: Command) -> None:
    with acting() as stage:
        pods(stage.api, 5)
        gate = threading.Event()
        stage.api.faults.append(Fault("create", hold=gate))
        stage.actuator.apply(create(1))
        stage.api.wait_for("create", 1)
        stage.actuator.apply(then)
        assert stage.does(delete(5, 3)).found == 1  # somebody else's
        assert stage.does(create(6, 4)).found == 1
        assert 2 not in stage.heard.serials()
        gate.set()
        assert stage.heard.wait_for(2).found == 1
        assert stage.heard.serials().index(1) < stage.heard.serials().index(2)


def test_deletes_do_not_stand_behind_a_thousand_creations() -> None:
    with acting(workers=4, others=1) as stage:
        pods(stage.api, 5_000)
        gate = threading.Event()
        stage.api.faults.append(Fault("create", times=100_000, hold=gate))
        for executor in range(1, 1_001):
            stage.actuator.apply(create(executor))
        stage.api.wait_for("create", 4)
        assert stage.actuator.in_flight == 1_000
        assert stage.manifests.made <= 4  # none is made before its turn
        assert stage.does(delete(5_000, 5_000)).found == 1
        gate.set()
        assert stage.end().done
        assert len(stage.api.names()) == 1_000
        assert stage.api.most_under_way <= 5


def test_every_command_that_becomes_a_call_has_one() -> None:
    with acting() as stage:
        assert set(stage.actuator._calls) == set(get_args(ordering.Called))


def test_the_same_delete_twice_is_one_call_and_two_answers() -> None:
    with acting() as stage:
        pods(stage.api, 1, node="n")
        gate = threading.Event()
        stage.api.faults.append(Fault("delete", hold=gate))
        for serial in (1, 2, 3):
            stage.actuator.apply(delete(1, serial, check=serial == 3))
        stage.api.wait_for("delete", 1)
        stage.actuator.apply(delete(1, 4))
        gate.set()
        assert {stage.heard.wait_for(serial)._replace(serial=0) for serial in (1, 2, 3, 4)} == {Outcome(0, 0, found=1)}
        assert len(stage.api.calls("delete")) == 1


def test_one_at_a_time_is_one_call_at_a_time_in_the_order_asked() -> None:
    with acting(Policy.ONE_AT_A_TIME) as stage:
        commands: list[Command] = [create(1), create(2), delete_many(3, 1, 2), create(4), pc.CreateConfigMap(0, 5, WHY)]
        for command in commands:
            stage.actuator.apply(command)
        assert stage.end().done
        assert stage.heard.serials() == [1, 2, 3, 4, 5]
        assert stage.api.most_under_way == 1
        assert stage.api.names() == ["e-exec-4"]


_COMMANDS = st.one_of(
    st.integers(1, 4).map(create),
    st.tuples(st.integers(1, 4), st.integers(100, 999)).map(lambda pair: claim(pair[0], pair[1])),
    st.tuples(st.integers(1, 4), st.integers(100, 999)).map(lambda pair: delete(pair[0], pair[1])),
    st.sets(st.integers(1, 4)).map(lambda some: delete_many(7, *sorted(some))),
    st.sets(st.integers(1, 4)).map(lambda some: pc.MarkPods(0, 8, ids(*sorted(some)), "label", "k", "v", WHY)),
    st.just(delete_all(9)),
    st.just(pc.CreateConfigMap(0, 10, WHY)),
    st.just(pc.DeleteOwned(0, 11, "configmaps", WHY)),
    st.just(pc.ListClaims(0, 12, ProfileId(0), WHY)),
)


@given(st.lists(_COMMANDS, max_size=30), st.randoms(use_true_random=False), st.booleans())
def test_whatever_is_asked_everything_ends_and_in_order(
    commands: list[ordering.Called], chance: random.Random, in_order: bool
) -> None:
    orders = ordering.Orders(in_order=in_order)
    ready: list[ordering.QueuedCommand] = []
    running: list[ordering.QueuedCommand] = []
    ended: list[ordering.QueuedCommand] = []
    given_at: dict[ordering.QueuedCommand, int] = {}
    answered = 0

    def work() -> None:
        nonlocal answered
        if ready and (not running or chance.random() < 0.6):
            job = ready.pop(chance.randrange(len(ready)))
            if job.stage is ordering.QueueStage.READY:
                for other in running:
                    assert not in_order
                    assert not set(job.keys) & set(other.keys)
                    assert ordering.created(other.command) not in ordering.swept(job.command)
                job.stage = ordering.QueueStage.RUNNING
                running.append(job)
        elif running:
            job = running.pop(chance.randrange(len(running)))
            orders.close(job)
            answered += len(job.serials)
            ended.append(job)
            ready.extend(orders.finish(job))

    for index, command in enumerate(commands):
        taken = orders.take(command)
        answered += taken.refused + sum(len(job.serials) for job in taken.cancelled)
        if taken.job is not None:
            given_at[taken.job] = index
        ready.extend(taken.ready)
        if chance.random() < 0.5:
            work()
    for _ in range(10 * len(commands) + 10):
        work()
    assert not len(orders)
    assert answered == len(commands)
    for before, after in itertools.pairwise(ended):
        if in_order:
            assert given_at[before] < given_at[after]
    for place, job in enumerate(ended):
        for later in ended[place + 1 :]:
            if set(ordering.keys_of(job.command)) & set(ordering.keys_of(later.command)):
                assert given_at[job] < given_at[later]


# ----------------------------------------------------------------------------------------- pace, refusals, the end


def test_one_429_slows_the_whole_lane_and_is_told_once() -> None:
    with acting(workers=16) as stage:
        stage.api.faults.append(Fault("create", status=429, times=20, retry_after_ms=1_000))
        for executor in range(1, 101):
            stage.actuator.apply(create(executor))
        assert stage.end().done
        assert len(stage.api.names()) == 100
        assert len(stage.api.calls("create")) == 120
        told = [text for text in stage.heard.about(Topic.THROTTLED) if "fewer" in text]
        assert len(told) <= 2  # the fake's clock leaps: it may be over once in between
        assert stage.actuator.counters["throttled"] == 20


@pytest.mark.parametrize(
    ("policy", "rate", "seconds"), [(Policy.CONCURRENT, Rate(20.0, 5), 2.25), (Policy.ONE_AT_A_TIME, Rate(10.0), 4.9)]
)
def test_creations_keep_to_the_rate(policy: Policy, rate: Rate, seconds: float) -> None:
    with acting(policy, workers=1, rate=rate) as stage:
        began = stage.clock.seconds
        for executor in range(1, 51):
            stage.actuator.apply(create(executor))
        assert stage.end().done
        assert stage.clock.seconds - began == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("status", "message", "told"),
    [
        (
            403,
            'pods is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "ns"',
            "may not create pods in namespace ns (RBAC: verb create, resource pods)",
        ),
        (
            403,
            'pods "e" is forbidden: exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5',
            "the quota of namespace ns is used up: ",
        ),
        (422, 'Pod "e" is invalid: spec: Required value', 'create pods e-exec-1: Pod "e" is invalid'),
        (
            403,
            "unable to create new content in namespace ns because it is being terminated",
            "create pods e-exec-1: unable",
        ),
    ],
)
def test_a_refusal_a_thousand_times_is_told_once_and_counted(status: int, message: str, told: str) -> None:
    with acting(workers=1) as stage:
        stage.api.faults.append(Fault("create", status=status, message=message, times=1_000))
        for executor in range(1, 1_001):
            stage.actuator.apply(create(executor))
        assert stage.end().done
        failures = [stage.heard.wait_for(serial).failure for serial in range(1, 1_001)]
        assert all(one is not None and one.status == status and message in one.message for one in failures)
        texts = list(stage.heard.about(Topic.CALL_REFUSED))
        assert len(texts) == 2
        assert texts[0].startswith(told)
        assert "999 more" in texts[1]


def test_an_api_that_is_away_is_told_once_and_once_when_it_is_back() -> None:
    with acting() as stage:
        stage.api.faults.append(Fault("create", lost="unsent", times=12))
        stage.does(create(1))
        assert len(list(stage.heard.about(Topic.API_UNREACHABLE))) == 1
        assert len(list(stage.heard.about(Topic.API_BACK))) == 1


class _NoManifests(FakeManifests):
    def pod(self, command: pc.CreatePod) -> bytes:
        if command.executor == 1:
            raise ManifestRefused("spark.executor.cores: 0 is not positive")
        if command.executor == 2:
            raise CannotBuild(SparkFault("java.util.NoSuchElementException", "key not found: 9"))
        raise RuntimeError("password=hunter2")


def test_a_manifest_that_cannot_be_made_is_a_failure_and_no_secret_is_told() -> None:
    with acting(manifests=_NoManifests()) as stage:
        first, second, third = (stage.does(create(executor)).failure for executor in (1, 2, 3))
        assert first is not None
        assert second is not None
        assert third is not None
        assert first.message == "spark.executor.cores: 0 is not positive"
        assert second.message == "java.util.NoSuchElementException: key not found: 9"
        assert {first.exception_class, second.exception_class} == {"java.lang.IllegalArgumentException"}
        assert "RuntimeError" in third.message
        assert "hunter2" not in f"{third}{stage.heard.notices}"


def test_at_the_end_what_is_under_way_is_waited_for_and_what_is_left_is_named() -> None:
    with acting(workers=1) as stage:
        gate = threading.Event()
        stage.api.faults.append(Fault("create", hold=gate))
        for executor in range(1, 31):
            stage.actuator.apply(create(executor))
        stage.api.wait_for("create", 1)
        settled = stage.actuator.settle(0.0)
        gate.set()
        assert settled.left == 30
        assert settled.names[0] == "create the pod of executor 1"
        assert len(settled.names) == 20
        stage.actuator.apply(create(99))
        failure = stage.heard.wait_for(99).failure
        assert failure is not None
        assert "ending" in failure.message
        assert stage.heard.wait_for(1).failure is None  # it was under way and is answered still
        assert len(stage.api.calls("create")) == 1


def test_what_was_done_is_counted() -> None:
    with acting() as stage:
        stage.does(create(1))
        stage.does(create(2))
        stage.does(delete(1, 3))
        counts = pmap(stage.actuator.counters)
        assert (counts["created pods"], counts["deleted pods"], counts["commands"], counts["calls"]) == (2, 1, 3, 3)
        assert stage.actuator.in_flight == 0
