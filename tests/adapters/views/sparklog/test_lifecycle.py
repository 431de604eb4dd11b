"""What the lifecycle manager says in Spark's log. Texts: the constants of the 4.3.0 classes."""

from __future__ import annotations

import pytest
from pyrsistent import pmap

from podtide.adapters.views.sparklog.lifecycle import lines
from podtide.adapters.views.sparklog.line import SparkLine
from podtide.domain.base.units import ExecutorId
from podtide.domain.protocol.pod_commands import DeletePod, ExitReason, MarkInactive, RemoveExecutor, StopApplication
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Cause, Remark, Threw, Why

MANAGER = "ExecutorPodsLifecycleManager"


def why(cause: Cause, **facts: str | int) -> Why:
    return Why(cause, pmap(facts))


def removal(cause: Cause, *, active: bool | None = None) -> RemoveExecutor:
    reason = ExitReason("ExecutorExited", "The whole text.", 1)
    return RemoveExecutor(0, ExecutorId("7"), reason, why(cause, pod="exec-7"), active, 0)


@pytest.mark.parametrize(
    ("item", "level", "logger", "text"),
    [
        (
            removal(Cause.POD_DELETED), "DEBUG", MANAGER,
            "Snapshot reported deleted executor with id 7, pod name exec-7",
        ),
        (removal(Cause.POD_FAILED), "DEBUG", MANAGER, "Snapshot reported failed executor with id 7, pod name exec-7"),
        (
            removal(Cause.POD_SUCCEEDED, active=False), "DEBUG", MANAGER,
            "Snapshot reported succeeded executor with id 7, pod name exec-7.",
        ),
        (
            removal(Cause.POD_SUCCEEDED, active=True), "INFO", MANAGER,
            "Snapshot reported succeeded executor with id 7, even though the application has not requested for it to "
            "be removed.",
        ),
        (removal(Cause.POD_MISSING), "DEBUG", MANAGER, "The whole text."),
        (
            MarkInactive(0, 1, PodNumber(7), "exec-7", why(Cause.POD_FAILED)), "DEBUG", MANAGER,
            "Marking executor exec-7 as inactive since deletion is disabled.",
        ),
        (
            StopApplication(0, 11, why(Cause.TOO_MANY_FAILURES, failures=5, maximum=4)), "ERROR", MANAGER,
            "Max number of executor failures (4) reached",
        ),
        (Remark(0, MANAGER, "new failures", pmap({"count": 3})), "WARN", MANAGER, "3 new failed executors."),
        (
            Remark(0, MANAGER, "call failed", pmap({"serial": 3})), "ERROR", "Utils",
            "Uncaught exception in thread kubernetes-executor-snapshots-subscribers-0",
        ),
        (
            Threw(0, MANAGER, "java.lang.NullPointerException"), "WARN", "ExecutorPodsSnapshotsStoreImpl",
            "Exception when notifying snapshot subscriber.",
        ),
    ],
)  # fmt: skip
def test_sparks_words(item: object, level: str, logger: str, text: str) -> None:
    assert [tuple(line) for line in lines(item)] == [(level, logger, text)]


@pytest.mark.parametrize(
    "item",
    [
        removal(Cause.DISCONNECTED),
        DeletePod(0, 1, PodNumber(7), "exec-7", why(Cause.POD_FAILED), check=True),
        StopApplication(0, 1, why(Cause.ILLEGAL_ARGUMENT)),
        Remark(0, MANAGER, "something else"),
        Remark(0, "ExecutorPodsAllocator", "new failures", pmap({"count": 3})),
        Threw(0, "ExecutorPodsAllocator", "java.lang.NullPointerException"),
        SparkLine("INFO", MANAGER, "x"),
        None,
    ],
)
def test_nothing_to_say(item: object) -> None:
    assert lines(item) == ()
