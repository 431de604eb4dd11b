"""What the pods allocator says in Spark's log, line by line."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from pyrsistent import pmap

from podtide.adapters.views.sparklog import allocator as words_allocator
from podtide.adapters.views.sparklog.line import SparkLine
from podtide.domain.base.units import ProfileId
from podtide.domain.protocol.pod_commands import ClaimSpec, CreateClaim, CreatePod, DeletePods, ListClaims
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Cause, Fact, Remark, Threw, Why

ALLOCATOR = "ExecutorPodsAllocator"

STATUS: dict[str, Fact] = {
    "profile": 1,
    "running": 2,
    "pending_unknown": 3,
    "pending_known": 4,
    "created_unknown": 5,
    "created_known": 6,
}


@pytest.mark.parametrize(
    ("topic", "facts", "level", "text"),
    [
        ("targets", {"0": 5, "1": 3}, "DEBUG", "Set total expected execs to {0=5, 1=3}"),
        ("targets", {}, "DEBUG", "Set total expected execs to {}"),
        ("unseen", {"executor": 7, "age_ms": 1200}, "DEBUG",
         "Executor with id 7 was not found in the Kubernetes cluster since it was created 1200 milliseconds ago."),
        ("creation timeout", {"executors": "1,2", "timeout_ms": 600000}, "WARN",
         "Executors with ids 1,2 were not detected in the Kubernetes cluster after 600000 ms despite the fact that a "
         "previous allocation attempt tried to create them. The executors may have been deleted but the application missed "
         "the deletion event."),
        ("status", STATUS, "DEBUG",
         "ResourceProfile Id: 1 (pod allocation status: 2 running, 3 unknown pending, 4 scheduler backend known pending, "
         "5 unknown newly created, 6 scheduler backend known newly created)"),
        ("enough running", {"profile": 0}, "DEBUG",
         "Current number of running executors for ResourceProfile Id 0 is equal to the number of requested executors. Not "
         "scaling up further."),
        ("still waiting", {"profile": 0, "created": 4}, "DEBUG",
         "Still waiting for 4 executors for ResourceProfile Id 0 before requesting more."),
        ("going to request", {"count": 5, "profile": 0, "target": 8, "known": 3, "shared_slots": 20}, "INFO",
         "Going to request 5 executors from Kubernetes for ResourceProfile Id: 0, target: 8, known: 3, "
         "sharedSlotFromPendingPods: 20."),
        ("reusable claims", {"reusable": 1, "total": 4}, "INFO", "Found 1 reusable PVCs from 4 PVCs"),
        ("claims not listed", {}, "INFO", "Cannot list PVC resources. Please check account permissions."),
        ("wait to reuse", {"claims": 3}, "INFO", "Wait to reuse one of the existing 3 PVCs."),
        ("reuse claim", {"claim": "exec-1-pvc-0"}, "INFO", "Reuse PersistentVolumeClaim exec-1-pvc-0"),
        ("requested", {"executor": 9}, "DEBUG", "Requested executor with id 9 from Kubernetes."),
        ("create failed", {"executor": 9, "failures": 2}, "ERROR",
         "Failed to create executor pod 9. Total failures: 2"),
        ("claim failed", {"executor": 9, "failures": 2}, "ERROR",
         "Failed to add owner reference or create PVC for executor pod 9. Total failures: 2"),
        ("no creation time", {"pod": "exec-4"}, "ERROR", "Cannot get the creationTimestamp of the pod: exec-4"),
        ("recovery mode", {"task_cpus": "0.25", "slots": 4}, "WARN",
         "Recovery mode is enabled while spark.task.cpus = 0.25 is <= 0.5. A recovery-mode executor announces a single "
         "core, so it accepts up to 4 concurrent tasks instead of only one. Set spark.task.cpus above 0.5 to restore "
         "single-task recovery executors."),
    ],
)  # fmt: skip
def test_remarks(topic: str, facts: Mapping[str, Fact], level: str, text: str) -> None:
    assert words_allocator.lines(Remark(1, ALLOCATOR, topic, pmap(facts))) == ((level, ALLOCATOR, text),)


def test_every_topic_has_its_line_tested() -> None:
    marks = next(mark for mark in test_remarks.pytestmark if mark.name == "parametrize")  # type: ignore[attr-defined]
    assert {case[0] for case in marks.args[1]} == words_allocator.TOPICS


@pytest.mark.parametrize(
    "item",
    [
        Remark(1, ALLOCATOR, "a topic of tomorrow"),
        Remark(1, "ExecutorPodsLifecycleManager", "requested", pmap({"executor": 1})),
        Remark(1, ALLOCATOR, "requested"),
        Remark(1, ALLOCATOR, "targets", pmap({"zero": 1})),
        DeletePods(1, 1, (PodNumber(1),), None, Why(Cause.CREATION_TIMEOUT, pmap({"timeout_ms": 1}))),
        DeletePods(1, 1, None, None, Why(Cause.STOPPED)),
        CreatePod(1, 1, PodNumber(1), ProfileId(0), Why(Cause.BELOW_TARGET)),
        ListClaims(1, 1, ProfileId(0), Why(Cause.REUSABLE_CLAIMS)),
        Threw(1, "ExecutorPodsLifecycleManager", "a: b"),
    ],
)
def test_what_is_not_its_own_or_not_whole_says_nothing(item: object) -> None:
    assert words_allocator.lines(item) == ()


def test_what_commands_say() -> None:
    excess = DeletePods(1, 1, (PodNumber(4), PodNumber(12)), "Pending", Why(Cause.ABOVE_TARGET))
    claim = ClaimSpec("exec-4-pvc-0", "gp3", "10Gi")
    created = CreateClaim(1, 2, PodNumber(4), claim, True, Why(Cause.CLAIM_FOR_POD))
    assert words_allocator.lines(excess) == (
        SparkLine("INFO", ALLOCATOR, "Deleting 2 excess pod requests (4,12)."),
    )  # fmt: skip
    assert words_allocator.lines(created) == (
        SparkLine("INFO", ALLOCATOR, "Trying to create PersistentVolumeClaim exec-4-pvc-0 with StorageClass gp3"),
    )


@pytest.mark.parametrize(
    ("fatal", "line"),
    [
        (False, ("WARN", "ExecutorPodsSnapshotsStoreImpl", "Exception when notifying snapshot subscriber.")),
        (True, ("ERROR", "ExecutorPodsSnapshotsStoreImpl", "Going to stop due to IllegalArgumentException")),
    ],
)
def test_an_exception_is_logged_by_the_store(fatal: bool, line: tuple[str, str, str]) -> None:
    assert words_allocator.lines(Threw(1, ALLOCATOR, "org.apache.spark.SparkException: x", fatal)) == (line,)


@pytest.mark.parametrize(
    ("profiles", "order"),
    [  # printed by Java's ConcurrentHashMap
        ([1, 16], (16, 1)),
        ([1, 16, 33], (16, 1, 33)),
        ([5, 0, 1, 16, 17, 33, 40], (16, 0, 1, 17, 33, 5, 40)),
        (range(20), tuple(range(20))),
    ],
)
def test_targets_come_in_the_order_of_javas_table(profiles: list[int], order: tuple[int, ...]) -> None:
    assert set(words_allocator.table_order(profiles)) == set(order)
    places = [profile % (32 if len(order) > 11 else 16) for profile in words_allocator.table_order(profiles)]
    assert places == sorted(places)


def test_braces_in_a_name_are_text() -> None:
    (line,) = words_allocator.lines(Remark(1, ALLOCATOR, "reuse claim", pmap({"claim": "{claim} {0}"})))
    assert line.text == "Reuse PersistentVolumeClaim {claim} {0}"
