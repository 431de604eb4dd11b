"""What the YARN allocator says in Spark's log: YarnAllocator and YarnAllocatorNodeHealthTracker, word by word.

``lines`` takes one remark of the allocator and gives what Spark 4.3.0 logs for it; every line of theirs is a remark, so that
they stand in Spark's order. Equal requests are one remark, and Spark says the same line for each. A round that throws is
logged by the reporter thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from podtide.adapters.views.sparklog.line import Level, SparkLine
from podtide.domain.protocol.reasons import Fact, Remark
from podtide.domain.yarn.allocator_state import MACHINE, TRACKER

Facts = Mapping[str, Fact]
Words = tuple[Level, Callable[[Facts], str]]


def _requested(facts: Facts) -> str:
    return (
        f"Will request {facts['count']} executor container(s) for ResourceProfile Id: {facts['profile']}, each with "
        f"{facts['cores']} core(s) and {facts['memory']} MB memory. with custom resources: {facts['resource']}"
    )


def _status(facts: Facts) -> str:
    return (
        f"Updating resource requests for ResourceProfile id: {facts['profile']}, target: {facts['target']}, pending: "
        f"{facts['pending']}, running: {facts['running']}, executorsStarting: {facts['starting']}"
    )


def _allocated(facts: Facts) -> str:
    return (
        f"Allocated containers: {facts['count']}. Current executor count: {facts['running']}. Launching executor count: "
        f"{facts['starting']}. Cluster resources: {facts['room']}."
    )


def _launching(facts: Facts) -> str:
    return (
        f"Launching container {facts['container']} on host {facts['host']} for executor with ID {facts['executor']} for "
        f"ResourceProfile Id {facts['profile']}"
    )


def _skipped(facts: Facts) -> str:
    return (
        f"Skip launching executorRunnable as running executors count: {facts['running']} reached target executors count: "
        f"{facts['target']}."
    )


def _completed(facts: Facts) -> str:
    """The bracket never closes: Spark's."""
    where = "" if facts["host"] is None else f" on host: {facts['host']}"
    return f"Completed container {facts['container']}{where} (state: COMPLETE, exit status: {facts['status']}"


def _cancelled(facts: Facts) -> str:
    return (
        f"Canceling requests for {facts['count']} executor container(s) to have a new desired total {facts['target']} "
        "executors."
    )


def _unlocalized(facts: Facts) -> str:
    return f"Canceled {facts['count']} unlocalized container requests to resubmit with locality"


def _target(facts: Facts) -> str:
    return (
        f"Driver requested a total number of {facts['count']} executor(s) for resource profile id: {facts['profile']}."
    )


def _received(facts: Facts) -> str:
    return f"Received {facts['received']} containers from YARN, launching executors on {facts['launched']} of them."


def _nodes(verb: str) -> Callable[[Facts], str]:
    return lambda facts: f"{verb} YARN application master's excluded node list: List({facts['hosts']})"


_LINES: Final[Mapping[tuple[str, str], Words]] = {
    (MACHINE, "profile added"): ("INFO", lambda facts: f"Resource profile {facts['profile']} doesn't exist, adding it"),
    (MACHINE, "target"): ("INFO", _target),
    (MACHINE, "status"): ("DEBUG", _status),
    (MACHINE, "request"): ("INFO", _requested),
    (MACHINE, "cancel"): ("INFO", _cancelled),
    (MACHINE, "cancel stale"): (
        "INFO",
        lambda facts: f"Canceled {facts['count']} container request(s) (locality no longer needed)",
    ),
    (MACHINE, "cancel anywhere"): ("INFO", _unlocalized),
    (MACHINE, "submitted anywhere"): (
        "INFO",
        lambda facts: f"Submitted {facts['count']} unlocalized container requests.",
    ),
    (MACHINE, "submitted"): ("INFO", lambda facts: f"Submitted container request for host {facts['hosts']}."),
    (MACHINE, "allocated"): ("DEBUG", _allocated),
    (MACHINE, "unneeded"): (
        "DEBUG",
        lambda facts: f"Releasing {facts['count']} unneeded containers that were allocated to us",
    ),
    (MACHINE, "launching"): ("INFO", _launching),
    (MACHINE, "skip"): ("INFO", _skipped),
    (MACHINE, "received"): ("INFO", _received),
    (MACHINE, "launch failed"): (
        "ERROR",
        lambda facts: f"Failed to launch executor {facts['executor']} on container {facts['container']}",
    ),
    (MACHINE, "no executor"): ("WARN", lambda facts: f"Cannot find executorId for container: {facts['container']}"),
    (MACHINE, "completed"): ("INFO", _completed),
    (MACHINE, "blamed"): ("WARN", lambda facts: str(facts["text"])),
    (MACHINE, "not blamed"): ("INFO", lambda facts: str(facts["text"])),
    (MACHINE, "kill unknown"): ("WARN", lambda facts: f"Attempted to kill unknown executor {facts['executor']}!"),
    (MACHINE, "loss unknown"): (
        "WARN",
        lambda facts: f"Tried to get the loss reason for non-existent executor {facts['executor']}",
    ),
    (TRACKER, "excluding"): (
        "INFO",
        lambda facts: f"excluding {facts['host']} as YARN allocation failed {facts['count']} times",
    ),
    (TRACKER, "exclude"): ("INFO", _nodes("adding nodes to")),
    (TRACKER, "include"): ("INFO", _nodes("removing nodes from")),
    (TRACKER, "no nodes"): (
        "WARN",
        lambda _: "No available nodes reported, please check Resource Manager.",
    ),
}
"""The class that says it and the topic, to the level and the text."""

_EACH: Final = (MACHINE, "submitted")
"""Said for every one of ``count`` equal requests."""


def lines(item: object) -> tuple[SparkLine, ...]:
    """What Spark logs for one remark of the allocator or its node tracker; () for everything else."""
    if not isinstance(item, Remark):
        return ()
    words = _LINES.get((item.machine, item.topic))
    if words is None:
        return ()
    level, text = words
    line = SparkLine(level, item.machine, text(item.facts))
    count = item.facts["count"] if (item.machine, item.topic) == _EACH else 1
    return (line,) * count if isinstance(count, int) else (line,)
