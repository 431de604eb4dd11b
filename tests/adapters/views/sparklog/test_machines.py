"""What the machines of pods and containers write to Spark's log, against golden files: one file for each of Spark's classes.

An indented line of a golden file is a line of the log. The line above them is the case: a remark's topic and its facts as
JSON, or a name in ``ITEMS``. Texts: the constants of the classes of Spark 4.3.0, and runs of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pyrsistent import pmap

from podtide.adapters.views.sparklog.log import spark_lines
from podtide.adapters.views.sparklog.machines import table_order
from podtide.adapters.views.sparklog.templates import TEMPLATES
from podtide.domain.backend import scheduler_backend as backend
from podtide.domain.backend.state import Readiness
from podtide.domain.base.units import ExecutorId, ProfileId
from podtide.domain.conf.settings import ConfNotice, NoticeLevel
from podtide.domain.kubernetes.resize_plugins import resize_claims, resize_pods, start_claims, start_pods
from podtide.domain.kubernetes.roll_plugin import Roll, roll, start
from podtide.domain.protocol import (
    executor_commands as ec,
    executor_stimuli as es,
    pod_commands as pc,
    pod_stimuli as ps,
)
from podtide.domain.protocol.backend_messages import BackendInput, HeartbeatTimedOut, LossReported, RequestMore
from podtide.domain.protocol.cluster_config import BackendConfig, ResizeConfig, RollConfig
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Cause, Fact, Remark, Threw, Why
from podtide.domain.protocol.yarn_messages import EndApplication
from podtide.domain.yarn.scheduler_backend import DRIVER_ENDPOINT, MACHINE as YARN_BACKEND

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.txt"))

ALLOCATOR = "ExecutorPodsAllocator"
MANAGER = "ExecutorPodsLifecycleManager"
ENDPOINT = "KubernetesClusterSchedulerBackend$KubernetesDriverEndpoint"
YARN = "YarnAllocator"
ONE, NUMBER = ExecutorId("1"), PodNumber(7)


def why(cause: Cause, **facts: Fact) -> Why:
    return Why(cause, pmap(facts))


def ids(*executors: str) -> tuple[ExecutorId, ...]:
    return tuple(map(ExecutorId, executors))


def removal(cause: Cause, *, active: bool | None = None) -> ec.RemoveExecutor:
    reason = ec.ExitReason("ExecutorExited", "The whole text.", 1)
    return ec.RemoveExecutor(0, ExecutorId("7"), reason, why(cause, pod="exec-7"), active, 0)


# ----------------------------------------------------------------------------------------------------- the backend

CONFIG = BackendConfig(
    allocator="direct", deletion_cost=7, decommission_label="x", force_kill_timeout_ms=60_000, remarks=True
)
UNLABELLED = replace(CONFIG, decommission_label=None)


def backend_items(*inputs: BackendInput, config: BackendConfig = CONFIG) -> list[object]:
    """What the backend reports and decides; two executors are registered before."""
    state = backend.begin(config, 0)
    known = [es.RegisterExecutor(0, ExecutorId(e), ProfileId(0), f"h{e}", f"h{e}:1") for e in "12"]
    state = backend.manage(state, known, config, 0).state
    items: list[object] = []
    for one in inputs:
        step = backend.manage(state, (one,), config, one.at)
        state = step.state
        items += [*step.reports, *step.commands]
    return items


def forced_deletion(pods: int) -> Sequence[object]:
    state = backend.begin(UNLABELLED, 0)
    known = [es.RegisterExecutor(0, ExecutorId(e), ProfileId(0)) for e in "12"]
    state = backend.manage(state, (*known, es.KillRequested(0, ids("1", "2"))), UNLABELLED, 0).state
    step = backend.manage(state, (es.Wake(5_000),), UNLABELLED, 5_000)
    (delete,) = step.commands
    assert isinstance(delete, pc.DeletePods)
    step = backend.manage(step.state, (ps.Outcome(5_000, delete.serial, found=pods),), UNLABELLED, 5_000)
    assert len(step.state.forced) == 0
    return step.reports


OOM = LossReported(0, ExecutorId("8"), ec.ExitReason("ExecutorExited", "an OOM it was", 137, True))

# ----------------------------------------------------------------------------------------------------- the plugins


def rolls(*executors: ps.ExecutorSummary) -> list[object]:
    config = RollConfig(1_000, "ID", remarks=True)
    step = roll(start(config, 0), (ps.ExecutorsSummarized(1_000, executors),), config, 1_000)
    return [*step.commands, *step.reports]


def memory_resizes() -> list[object]:
    config = ResizeConfig(1_000, 0.9, 0.1, remarks=True)
    pods = (ps.MemoryUse(ONE, "exec-1", "c", 950, 1_000), ps.MemoryUse(ExecutorId("2"), "exec-2", "c", 500, 1_000))
    step = resize_pods(start_pods(config, 0), (ps.MemoryMeasured(1_000, pods),), config, 1_000)
    answer = resize_pods(step.state, (ps.Outcome(1_000, 1, ps.CallFailure(403)),), config, 1_000)
    return [*step.commands, *step.reports, *answer.reports]


def claim_resizes() -> list[object]:
    config = ResizeConfig(1_000, 0.5, 1.0, remarks=True)
    report = ps.DiskReport(0, ONE, 0.75)
    measured = ps.ClaimsMeasured(1_000, (ps.ClaimUse(ONE, "p", 10, 10), ps.ClaimUse(ONE, "q", 20, 10)))
    step = resize_claims(start_claims(config, 0), (report, measured), config, 1_000)
    answer = resize_claims(step.state, (ps.Outcome(1_000, 1, ps.CallFailure(403)),), config, 1_000)
    return [report, *step.reports, *step.commands, *answer.reports]


# ------------------------------------------------------------------------------------------------------- the cases

ITEMS: dict[str, Sequence[object]] = {
    "excess pods": [pc.DeletePods(1, 1, (PodNumber(4), PodNumber(12)), "Pending", why(Cause.ABOVE_TARGET))],
    "a claim is created": [
        pc.CreateClaim(
            1, 2, PodNumber(4), pc.ClaimSpec("exec-4-pvc-0", "gp3", "10Gi"), True, why(Cause.CLAIM_FOR_POD)
        )
    ],
    "a round of the allocator threw": [Threw(1, ALLOCATOR, "org.apache.spark.SparkException: x")],
    "a round of the allocator threw an IllegalArgumentException": [Threw(1, ALLOCATOR, "x", True)],
    "a pod was deleted": [removal(Cause.POD_DELETED)],
    "a pod failed": [removal(Cause.POD_FAILED)],
    "a pod succeeded": [removal(Cause.POD_SUCCEEDED, active=False)],
    "a pod succeeded unasked": [removal(Cause.POD_SUCCEEDED, active=True)],
    "a pod is missing": [removal(Cause.POD_MISSING)],
    "an executor disconnected": [removal(Cause.DISCONNECTED)],
    "a pod is marked": [pc.MarkInactive(0, 1, NUMBER, "exec-7", why(Cause.POD_FAILED))],
    "too many failures": [ec.StopApplication(0, 11, why(Cause.TOO_MANY_FAILURES, failures=5, maximum=4))],
    "a round of the lifecycle manager threw": [Threw(0, MANAGER, "java.lang.NullPointerException")],
    "a full list of pods": [pc.ListPods(5, 0, Why(Cause.RESYNCHRONIZE))],
    "the polling source threw": [Threw(5, "ExecutorPodsPollingSnapshotSource", "java.lang.NullPointerException: null")],
    "an executor registers": backend_items(es.RegisterExecutor(0, ExecutorId("3"), ProfileId(4), "h", "10.0.0.1:99")),
    "a kill": backend_items(es.KillRequested(0, ids("1", "9", "2"))),
    "a kill of nobody": backend_items(es.KillRequested(0, ids("9"))),
    "a kill without remarks": backend_items(es.KillRequested(0, ids("1")), config=replace(CONFIG, remarks=False)),
    "a decommission": backend_items(
        es.DecommissionRequested(0, ids("1", "2"), "bye"), config=replace(CONFIG, allocator="deployment")
    ),
    "a decommission that an executor began": backend_items(
        es.DecommissionRequested(0, ids("1"), "Executor 1 is decommissioned.", triggered_by_executor=True)
    ),
    "a decommission that does not end": backend_items(
        es.DecommissionRequested(0, ids("1", "2"), triggered_by_executor=True), es.Wake(60_000), config=UNLABELLED
    ),
    "a kill of a host": backend_items(es.KillExecutorsOnHost(0, "h2")),
    "a kill of a host without executors": backend_items(es.KillExecutorsOnHost(0, "h7")),
    "a decommission of a host": backend_items(es.DecommissionExecutorsOnHost(0, "h2"), config=UNLABELLED),
    "an executor exits": backend_items(es.ExecutorExiting(0, ids("2")[0], "Finished decommissioning")),
    "an executor timed out": backend_items(HeartbeatTimedOut(0, ids("2")[0], 125_000, 120_000)),
    "an executor ran out of memory": backend_items(OOM),
    "a known address disconnects": backend_items(es.ExecutorDisconnected(0, "h1:1")),
    "an unknown address disconnects": backend_items(es.ExecutorDisconnected(0, "h7:1")),
    "more executors": backend_items(RequestMore(0, 3)),
    "the scheduler stops": backend_items(es.Stopping(0)),
    "a call of the backend failed": backend_items(ps.Outcome(0, 99, ps.CallFailure(403, "no"))),
    "no pods are left to delete by force": forced_deletion(0),
    "two pods are deleted by force": forced_deletion(2),
    "not ready": [Readiness(None, 0, 1.6, 0.8, 0, 30_000)],
    "ready by ratio": [Readiness("ratio", 2, 1.6, 0.8, 0, 30_000)],
    "ready by time": [Readiness("time", 0, 2.0, 1.0, 30_000, 30_000)],
    "an executor is rolled": rolls(ps.ExecutorSummary(ONE, 0)),
    "no executor is rolled": rolls(),
    "a roll without numbers": [Roll(1, ONE, "m", Why(Cause.ROLLING))],
    "memory is resized": memory_resizes(),
    "claims are resized": claim_resizes(),
    "the rolling thread threw": [Threw(1, "ExecutorRollDriverPlugin", "x")],
    "the memory check threw": [Threw(1, "ExecutorResizeDriverPlugin", "x")],
    "the claim resize threw": [Threw(1, "ExecutorPVCResizeDriverPlugin", "x")],
    "the roll plugin is disabled": [
        ConfNotice(NoticeLevel.WARNING, "Disabled due to invalid interval value, '0'", spark=True)
    ],
    "the claim resize is disabled": [ConfNotice(NoticeLevel.INFO, "PVCResizePlugin disabled (interval <= 0).", spark=True)],
    "the application ended": [EndApplication(0, "FAILED", 11, "enough", Why(Cause.TOO_MANY_FAILURES))],
}  # fmt: skip


def cases() -> Iterator[tuple[str, str, list[str]]]:
    """Of every golden file the class, the case and the lines of the log."""
    for path in GOLDEN:
        case: str | None = None
        found: list[str] = []
        for row in path.read_text(encoding="utf-8").splitlines():
            if row.startswith("    "):
                found.append(row[4:])
                continue
            if case is not None:
                yield path.stem, case, found
            case, found = row, []
        assert case is not None
        yield path.stem, case, found


def items_of(logger: str, case: str) -> Sequence[object]:
    if case in ITEMS:
        return ITEMS[case]
    topic, facts = case.split(" {", 1)
    return [Remark(1, logger, topic, pmap(json.loads("{" + facts)))]


def logged(items: Sequence[object]) -> list[str]:
    return [f"{line.level} {line.logger}: {line.text}" for item in items for line in spark_lines(item)]


CASES = list(cases())


@pytest.mark.parametrize(("logger", "case", "lines"), CASES, ids=[f"{logger}-{case}" for logger, case, _ in CASES])
def test_the_log_is_sparks(logger: str, case: str, lines: list[str]) -> None:
    assert logged(items_of(logger, case)) == lines


def test_every_item_is_in_a_golden_file() -> None:
    assert set(ITEMS) <= {case for _, case, _ in CASES}


def test_every_template_is_in_a_golden_file() -> None:
    logged_lines = [line for _, _, lines in CASES for line in lines]
    for (logger, topic), (level, text) in TEMPLATES.items():
        begin = f"{level} {logger}: {text.split('{', maxsplit=1)[0]}"
        assert any(line.startswith(begin) for line in logged_lines), (logger, topic)


@pytest.mark.parametrize(
    "item",
    [
        None,
        7,
        "text",
        Remark(1, ALLOCATOR, "a topic of tomorrow"),
        Remark(1, MANAGER, "requested", pmap({"executor": 1})),
        Remark(1, ALLOCATOR, "requested"),
        Remark(1, ALLOCATOR, "targets", pmap({"zero": 1})),
        Remark(1, ALLOCATOR, "reports"),
        Remark(0, ALLOCATOR, "new failures", pmap({"count": 3})),
        Remark(0, MANAGER, "something else"),
        Remark(0, "KubernetesClusterSchedulerBackend", "unheard of"),
        Remark(0, ENDPOINT, "rejected"),
        Remark(0, "Other", "kill asked"),
        Remark(1, "ExecutorResizeDriverPlugin", "another topic"),
        Remark(1, "ExecutorPVCResizeDriverPlugin", "trying", pmap({"executor": "1"})),  # its numbers are missing
        Remark(0, YARN, "nothing that Spark logs"),
        Remark(0, "YarnSchedulerBackend$YarnSchedulerEndpoint", "?"),
        Remark(0, "YarnSchedulerBackend$YarnSchedulerEndpoint", "no reason"),
        Remark(0, "?", "started"),
        Threw(0, YARN, "x"),
        pc.DeletePods(1, 1, (PodNumber(1),), None, why(Cause.CREATION_TIMEOUT, timeout_ms=1)),
        pc.DeletePods(1, 1, None, None, Why(Cause.STOPPED)),
        pc.DeletePod(0, 1, NUMBER, "exec-7", why(Cause.POD_FAILED), check=True),
        pc.CreatePod(1, 1, PodNumber(1), ProfileId(0), Why(Cause.BELOW_TARGET)),
        pc.ListClaims(1, 1, ProfileId(0), Why(Cause.REUSABLE_CLAIMS)),
        ec.StopApplication(0, 1, why(Cause.ILLEGAL_ARGUMENT)),
        es.Stopping(0),
        ConfNotice(NoticeLevel.WARNING, "Disabled due to invalid interval value, '0'"),  # not Spark's words
        ConfNotice(NoticeLevel.INFO, "Using initial executors = 0", spark=True),
    ],
)
def test_what_is_not_known_or_not_whole_logs_nothing(item: object) -> None:
    assert spark_lines(item) == ()


def test_a_backend_on_yarn_logs_under_its_own_names() -> None:
    assert logged([Remark(0, YARN_BACKEND, "kill asked", pmap({"executors": "1"}))]) == [
        "INFO YarnClusterSchedulerBackend: Requesting to kill executor(s) 1"
    ]
    assert logged([Remark(0, DRIVER_ENDPOINT, "disabled", pmap({"executor": "1"}))]) == [
        "INFO YarnSchedulerBackend$YarnDriverEndpoint: Disabling executor 1."
    ]


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
    assert set(table_order(profiles)) == set(order)
    places = [profile % (32 if len(order) > 11 else 16) for profile in table_order(profiles)]
    assert places == sorted(places)


def test_braces_in_a_name_are_text() -> None:
    (line,) = spark_lines(Remark(1, ALLOCATOR, "reuse claim", pmap({"claim": "{claim} {0}"})))
    assert line.text == "Reuse PersistentVolumeClaim {claim} {0}"
