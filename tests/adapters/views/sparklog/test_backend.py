"""What the scheduler backend says in Spark's log, line by line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from pyrsistent import pmap

from podtide.adapters.views.sparklog import backend as words_backend
from podtide.adapters.views.sparklog.line import SparkLine
from podtide.domain.backend import scheduler_backend as backend
from podtide.domain.backend.scheduler_backend import BackendInput, Readiness
from podtide.domain.base.units import ExecutorId, ProfileId
from podtide.domain.protocol.backend_messages import LossReported, RequestMore
from podtide.domain.protocol.config import BackendConfig
from podtide.domain.protocol.pod_commands import DeletePods, ExitReason
from podtide.domain.protocol.pod_stimuli import (
    CallFailure,
    DecommissionRequested,
    ExecutorDisconnected,
    KillRequested,
    Outcome,
    RegisterExecutor,
    Stopping,
    Wake,
)
from podtide.domain.protocol.reasons import Remark

B = "KubernetesClusterSchedulerBackend"
E = "KubernetesClusterSchedulerBackend$KubernetesDriverEndpoint"
CONFIG = BackendConfig(
    allocator="direct", deletion_cost=7, decommission_label="x", force_kill_timeout_ms=60_000, remarks=True
)
DEPLOYED = replace(CONFIG, allocator="deployment")


def said(items: Sequence[BackendInput], config: BackendConfig = CONFIG) -> list[tuple[str, str, str]]:
    """What is logged of these; two executors are registered before, unsaid."""
    state = backend.begin(config, 0)
    known = [RegisterExecutor(0, ExecutorId(e), ProfileId(0), f"h{e}", f"h{e}:1") for e in "12"]
    state = backend.manage(state, known, config, 0).state
    found: list[SparkLine] = []
    for item in items:
        step = backend.manage(state, (item,), config, item.at)
        state = step.state
        found.extend(line for report in step.reports for line in words_backend.lines(report))
        found.extend(line for command in step.commands for line in words_backend.lines(command))
    return [(line.level, line.logger, line.text) for line in found]


def ids(*executors: str) -> tuple[ExecutorId, ...]:
    return tuple(map(ExecutorId, executors))


KILLED = "Executor killed by driver."


@pytest.mark.parametrize(
    ("items", "config", "lines"),
    [
        (
            [RegisterExecutor(0, ExecutorId("3"), ProfileId(4), "h", "10.0.0.1:99")],
            CONFIG,
            [("INFO", E, "Registered executor NettyRpcEndpointRef(spark-client://Executor) (10.0.0.1:99) with ID 3, "
                         "ResourceProfileId 4")],
        ),
        (
            [KillRequested(0, ids("1", "9", "2"))],
            CONFIG,
            [("INFO", B, "Requesting to kill executor(s) 1, 9, 2"),
             ("WARN", B, "Executor to kill 9 does not exist!"),
             ("INFO", B, "Actual list of executor(s) to be killed is 1, 2"),
             ("DEBUG", E, f"Asked to remove executor 1 with reason {KILLED}"),
             ("DEBUG", E, f"Asked to remove executor 2 with reason {KILLED}")],
        ),
        (
            [KillRequested(0, ids("9"))],
            CONFIG,
            [("INFO", B, "Requesting to kill executor(s) 9"),
             ("WARN", B, "Executor to kill 9 does not exist!"),
             ("INFO", B, "Actual list of executor(s) to be killed is ")],
        ),
        (
            [DecommissionRequested(0, ids("1", "2"), "bye")],
            DEPLOYED,
            [("INFO", B, "Decommission executors: 1, 2"),
             ("INFO", B, "Notify executor 1 to decommission."),
             ("INFO", B, "Notify executor 2 to decommission."),
             ("INFO", B, "Annotating executor pod(s) 1,2 with deletion cost 7")],
        ),
        (
            [DecommissionRequested(0, ids("1"), "Executor 1 is decommissioned.", triggered_by_executor=True)],
            CONFIG,
            [("WARN", E, "Received executor 1 decommissioned message"),
             ("INFO", B, "Decommission executors: 1")],
        ),
        (
            [DecommissionRequested(0, ids("1", "2"), triggered_by_executor=True), Wake(60_000)],
            replace(CONFIG, decommission_label=None),
            [("WARN", E, "Received executor 1 decommissioned message"),
             ("WARN", E, "Received executor 2 decommissioned message"),
             ("INFO", B, "Decommission executors: 1, 2"),
             ("INFO", B, "List(1, 2) failed to decommission in 60, killing."),
             ("INFO", B, "Requesting to kill executor(s) 1, 2"),
             ("INFO", B, "Actual list of executor(s) to be killed is 1, 2"),
             ("DEBUG", E, f"Asked to remove executor 1 with reason {KILLED}"),
             ("DEBUG", E, f"Asked to remove executor 2 with reason {KILLED}")],
        ),
        (
            [LossReported(0, ExecutorId("8"), ExitReason("ExecutorExited", "an OOM it was", 137, True))],
            CONFIG,
            [("WARN", B, "OOM is detected."),
             ("INFO", E, "Asked to remove non-existent executor 8"),
             ("DEBUG", E, "Asked to remove executor 8 with reason an OOM it was")],
        ),
        ([ExecutorDisconnected(0, "h1:1")], CONFIG, [("INFO", E, "Disabling executor 1.")]),
        ([ExecutorDisconnected(0, "h7:1")], CONFIG, [("DEBUG", E, "No executor found for h7:1")]),
        (
            [RequestMore(0, 3)],
            CONFIG,
            [("INFO", B, "Requesting 3 additional executor(s) from the cluster manager")],
        ),
        (
            [Stopping(0)],
            CONFIG,
            [("INFO", B, "Shutting down all executors"), ("INFO", E, "Asking each executor to shut down")],
        ),
        (
            [Outcome(0, 99, CallFailure(403, "no"))],
            CONFIG,
            [("ERROR", "Utils", "Uncaught exception in thread kubernetes-executor-maintenance")],
        ),
    ],
)  # fmt: skip
def test_lines(items: list[BackendInput], config: BackendConfig, lines: list[tuple[str, str, str]]) -> None:
    assert said(items, config) == lines


FORCED = "Forcefully deleting 2 pods (out of 2) that are still running after graceful shutdown period."


@pytest.mark.parametrize(("found", "lines"), [(0, []), (2, [("INFO", B, FORCED)])])
def test_the_forced_deletion(found: int, lines: list[tuple[str, str, str]]) -> None:
    config = replace(CONFIG, decommission_label=None)
    state = backend.begin(config, 0)
    known = [RegisterExecutor(0, ExecutorId(e), ProfileId(0)) for e in "12"]
    state = backend.manage(state, (*known, KillRequested(0, ids("1", "2"))), config, 0).state
    step = backend.manage(state, (Wake(5_000),), config, 5_000)
    (delete,) = step.commands
    assert isinstance(delete, DeletePods)
    step = backend.manage(step.state, (Outcome(5_000, delete.serial, found=found),), config, 5_000)
    assert [tuple(line) for report in step.reports for line in words_backend.lines(report)] == lines
    assert len(step.state.forced) == 0


@pytest.mark.parametrize(
    ("readiness", "texts"),
    [
        (Readiness(None, 0, 1.6, 0.8, 0, 30_000), []),
        (
            Readiness("ratio", 2, 1.6, 0.8, 0, 30_000),
            ["SchedulerBackend is ready for scheduling beginning after reached minRegisteredResourcesRatio: 0.8"],
        ),
        (
            Readiness("time", 0, 2.0, 1.0, 30_000, 30_000),
            [
                "SchedulerBackend is ready for scheduling beginning after waiting maxRegisteredResourcesWaitingTime: "
                "30000.0(ms)"
            ],
        ),
    ],
)
def test_readiness(readiness: Readiness, texts: list[str]) -> None:
    assert [line.text for line in words_backend.lines(readiness)] == texts


def test_who_is_excluded_is_rejected() -> None:
    remark = Remark(0, E, "rejected", pmap({"executor": "4"}))
    assert words_backend.lines(remark) == (SparkLine("INFO", E, "Rejecting 4 as it has been excluded."),)


@pytest.mark.parametrize(
    "item", [None, Remark(0, B, "unheard of"), Remark(0, E, "rejected"), Remark(0, "Other", "kill asked")]
)
def test_silence(item: object) -> None:
    assert words_backend.lines(item) == ()


def test_without_remarks_only_commands_speak() -> None:
    assert said([KillRequested(0, ids("1"))], replace(CONFIG, remarks=False)) == [
        ("DEBUG", E, f"Asked to remove executor 1 with reason {KILLED}")
    ]
