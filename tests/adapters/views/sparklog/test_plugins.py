"""The executor plugins in Spark's words, line by line."""

from __future__ import annotations

import pytest
from pyrsistent import pmap

from podtide.adapters.views.sparklog.line import SparkLine
from podtide.adapters.views.sparklog.plugins import lines
from podtide.domain.base.units import ExecutorId
from podtide.domain.conf.settings import Level, Notice
from podtide.domain.kubernetes.resize_plugins import resize_claims, resize_pods, start_claims, start_pods
from podtide.domain.kubernetes.roll_plugin import Roll, roll, start
from podtide.domain.protocol.config import ResizeConfig, RollConfig
from podtide.domain.protocol.pod_stimuli import (
    CallFailure,
    ClaimsMeasured,
    ClaimUse,
    DiskReport,
    ExecutorsSummarized,
    ExecutorSummary,
    MemoryMeasured,
    MemoryUse,
    Outcome,
)
from podtide.domain.protocol.reasons import Cause, Remark, Threw, Why

ONE = ExecutorId("1")


def said(*items: object) -> list[str]:
    return [f"{line.level} {line.logger}: {line.text}" for item in items for line in lines(item)]


def test_rolling() -> None:
    config = RollConfig(1_000, "ID", remarks=True)
    some = roll(start(config, 0), (ExecutorsSummarized(1_000, (ExecutorSummary(ONE, 0),)),), config, 1_000)
    assert said(*some.commands, *some.reports) == ["INFO ExecutorRollDriverPlugin: Ask to decommission executor 1"]
    none = roll(some.state, (ExecutorsSummarized(2_000, ()),), config, 2_000)
    assert said(*none.commands, *none.reports) == ["INFO ExecutorRollDriverPlugin: There is nothing to roll."]


def test_memory() -> None:
    config = ResizeConfig(1_000, 0.9, 0.1, remarks=True)
    pods = (MemoryUse(ONE, "exec-1", "c", 950, 1_000), MemoryUse(ExecutorId("2"), "exec-2", "c", 500, 1_000))
    step = resize_pods(start_pods(config, 0), (MemoryMeasured(1_000, pods),), config, 1_000)
    answer = resize_pods(step.state, (Outcome(1_000, 1, CallFailure(403)),), config, 1_000)
    assert said(*step.commands, *step.reports, *answer.reports) == [
        "INFO ExecutorResizeDriverPlugin: Increase executor 1 container memory from 1000 to 1100 as usage 950 exceeded "
        "threshold.",
        "DEBUG ExecutorResizeDriverPlugin: Executor 2 limit 1000, usage 500",
        "INFO ExecutorResizeDriverPlugin: Failed to update 1",
    ]


def test_claims() -> None:
    config = ResizeConfig(1_000, 0.5, 1.0, remarks=True)
    report = DiskReport(0, ONE, 0.75)
    measured = ClaimsMeasured(1_000, (ClaimUse(ONE, "p", 10, 10), ClaimUse(ONE, "q", 20, 10)))
    step = resize_claims(start_claims(config, 0), (report, measured), config, 1_000)
    answer = resize_claims(step.state, (Outcome(1_000, 1, CallFailure(403)),), config, 1_000)
    assert said(report, *step.reports, *step.commands, *answer.reports) == [
        "INFO ExecutorPVCResizeExecutorPlugin: Reporting max PVC disk usage ratio for executor 1: 0.75",
        "INFO ExecutorPVCResizeDriverPlugin: Latest PVC usage reports: {1=PVCDiskUsageReport(1,0.75)}",
        "INFO ExecutorPVCResizeDriverPlugin: Try to resize executor 1 PVC p with ratio 0.75 (threshold 0.5).",
        "INFO ExecutorPVCResizeDriverPlugin: Try to resize executor 1 PVC q with ratio 0.75 (threshold 0.5).",
        "INFO ExecutorPVCResizeDriverPlugin: PVC q resize is in progress or failed (spec=20, status=10); skip.",
        "INFO ExecutorPVCResizeDriverPlugin: Increase PVC p storage from 10 to 20 as usage ratio exceeded threshold.",
        "INFO ExecutorPVCResizeDriverPlugin: Failed to expand PVC p; will skip subsequent attempts.",
    ]


@pytest.mark.parametrize(
    ("item", "line"),
    [
        (
            Threw(1, "ExecutorRollDriverPlugin", "x"),
            SparkLine("ERROR", "ExecutorRollDriverPlugin", "Error in rolling thread"),
        ),
        (
            Threw(1, "ExecutorResizeDriverPlugin", "x"),
            SparkLine("ERROR", "ExecutorResizeDriverPlugin", "Error in memory check thread"),
        ),
        (
            Threw(1, "ExecutorPVCResizeDriverPlugin", "x"),
            SparkLine("ERROR", "ExecutorPVCResizeDriverPlugin", "Error in PVC resize thread"),
        ),
        (
            Notice(Level.WARNING, "Disabled due to invalid interval value, '0'", spark=True),
            SparkLine("WARN", "ExecutorRollDriverPlugin", "Disabled due to invalid interval value, '0'"),
        ),
        (
            Notice(Level.INFO, "PVCResizePlugin disabled (interval <= 0).", spark=True),
            SparkLine("INFO", "ExecutorPVCResizeDriverPlugin", "PVCResizePlugin disabled (interval <= 0)."),
        ),
    ],
)
def test_other_lines(item: object, line: SparkLine) -> None:
    assert lines(item) == (line,)


@pytest.mark.parametrize(
    "item",
    [
        None,
        "text",
        Threw(1, "ExecutorPodsAllocator", "x"),
        Remark(1, "ExecutorPodsAllocator", "reports"),
        Remark(1, "ExecutorResizeDriverPlugin", "another topic"),
        Remark(1, "ExecutorPVCResizeDriverPlugin", "trying", pmap({"executor": "1"})),  # its numbers are missing
        Notice(Level.WARNING, "Disabled due to invalid interval value, '0'"),  # not Spark's words
        Notice(Level.INFO, "Using initial executors = 0", spark=True),
    ],
)
def test_everything_else_has_no_line(item: object) -> None:
    assert lines(item) == ()


def test_a_roll_needs_no_numbers() -> None:
    assert said(Roll(1, ONE, "m", Why(Cause.ROLLING))) == [
        "INFO ExecutorRollDriverPlugin: Ask to decommission executor 1"
    ]
