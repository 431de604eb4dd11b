"""What YARN's allocator says in Spark's log. Texts: the constants of the 4.3.0 classes, and runs of them."""

from __future__ import annotations

import pytest
from pyrsistent import pmap

from podtide.adapters.views.sparklog.line import SparkLine
from podtide.adapters.views.sparklog.log import spark_lines
from podtide.adapters.views.sparklog.yarn import lines
from podtide.domain.protocol.reasons import Fact, Remark, Threw
from podtide.domain.yarn.allocator_state import MACHINE, TRACKER


def remark(topic: str, machine: str = MACHINE, **facts: Fact) -> Remark:
    return Remark(0, machine, topic, pmap(facts))


def requested(resource: str) -> Remark:
    return remark("request", count=3, profile=1, cores=2, memory=1408, resource=resource)


@pytest.mark.parametrize(
    ("item", "level", "text"),
    [
        (remark("profile added", profile=2), "INFO", "Resource profile 2 doesn't exist, adding it"),
        (
            remark("target", count=4, profile=2), "INFO",
            "Driver requested a total number of 4 executor(s) for resource profile id: 2.",
        ),
        (
            requested("<memory:1408, vCores:2>"), "INFO",
            "Will request 3 executor container(s) for ResourceProfile Id: 1, each with 2 core(s) and 1408 MB memory. with "
            "custom resources: <memory:1408, vCores:2>",
        ),
        (
            requested("<memory:1408, vCores:2, yarn.io/gpu: 2>"), "INFO",
            "Will request 3 executor container(s) for ResourceProfile Id: 1, each with 2 core(s) and 1408 MB memory. with "
            "custom resources: <memory:1408, vCores:2, yarn.io/gpu: 2>",
        ),
        (
            remark("status", profile=1, target=9, pending=4, running=3, starting=2), "DEBUG",
            "Updating resource requests for ResourceProfile id: 1, target: 9, pending: 4, running: 3, executorsStarting: 2",
        ),
        (
            remark("allocated", count=4, running=3, starting=2, room="<memory:1, vCores:2>"), "DEBUG",
            "Allocated containers: 4. Current executor count: 3. Launching executor count: 2. Cluster resources: "
            "<memory:1, vCores:2>.",
        ),
        (
            remark("unneeded", count=4), "DEBUG",
            "Releasing 4 unneeded containers that were allocated to us",
        ),
        (remark("cancel stale", count=2), "INFO", "Canceled 2 container request(s) (locality no longer needed)"),
        (
            remark("cancel anywhere", count=2), "INFO",
            "Canceled 2 unlocalized container requests to resubmit with locality",
        ),
        (
            remark("cancel", count=2, target=5), "INFO",
            "Canceling requests for 2 executor container(s) to have a new desired total 5 executors.",
        ),
        (remark("submitted anywhere", count=7), "INFO", "Submitted 7 unlocalized container requests."),
        (
            remark("launching", container="c", host="h", executor="9", profile=0), "INFO",
            "Launching container c on host h for executor with ID 9 for ResourceProfile Id 0",
        ),
        (
            remark("skip", running=3, target=2), "INFO",
            "Skip launching executorRunnable as running executors count: 3 reached target executors count: 2.",
        ),
        (
            remark("received", received=5, launched=4), "INFO",
            "Received 5 containers from YARN, launching executors on 4 of them.",
        ),
        (
            remark("launch failed", executor="9", container="c", what="x"), "ERROR",
            "Failed to launch executor 9 on container c",
        ),
        (remark("no executor", container="c"), "WARN", "Cannot find executorId for container: c"),
        (
            remark("completed", container="c", host="h", status=1), "INFO",
            "Completed container c on host: h (state: COMPLETE, exit status: 1",
        ),
        (
            remark("completed", container="c", host=None, status=1), "INFO",
            "Completed container c (state: COMPLETE, exit status: 1",
        ),
        (remark("blamed", text="as it was told"), "WARN", "as it was told"),
        (remark("not blamed", text="as it was told"), "INFO", "as it was told"),
        (remark("kill unknown", executor="9"), "WARN", "Attempted to kill unknown executor 9!"),
        (remark("loss unknown", executor="9"), "WARN", "Tried to get the loss reason for non-existent executor 9"),
        (remark("excluding", TRACKER, host="h", count=3), "INFO", "excluding h as YARN allocation failed 3 times"),
        (
            remark("exclude", TRACKER, hosts="a, b"), "INFO",
            "adding nodes to YARN application master's excluded node list: List(a, b)",
        ),
        (
            remark("include", TRACKER, hosts="a"), "INFO",
            "removing nodes from YARN application master's excluded node list: List(a)",
        ),
        (remark("no nodes", TRACKER), "WARN", "No available nodes reported, please check Resource Manager."),
    ],
)  # fmt: skip
def test_a_remark_is_the_line_of_the_log(item: Remark, level: str, text: str) -> None:
    (line,) = lines(item)
    assert line == SparkLine(line.level, item.machine, text)
    assert line.level == level


def test_equal_requests_are_a_line_each() -> None:
    item = remark("submitted", hosts="h2,h1", count=3)
    said = (SparkLine("INFO", MACHINE, "Submitted container request for host h2,h1."),) * 3
    assert lines(item) == said
    assert spark_lines(item) == said


@pytest.mark.parametrize("item", [remark("nothing that Spark says"), Threw(0, MACHINE, "x"), 7])
def test_nothing_is_said_of_others(item: object) -> None:
    assert lines(item) == ()
