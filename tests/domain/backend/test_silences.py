"""Executors that fall silent, leave by themselves, or are on a host that must go: as real Spark does it (silences.json)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from podtide.domain.base.units import ExecutorId, ProfileId
from podtide.domain.conf.backend_config import heartbeat_config
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.kubernetes import router, side
from podtide.domain.protocol.cluster_config import BackendConfig, HeartbeatConfig, KubernetesConfig
from podtide.domain.protocol.executor_commands import DecommissionExecutors, RemoveExecutor
from podtide.domain.protocol.executor_stimuli import (
    DecommissionExecutorsOnHost,
    DecommissionRequested,
    ExecutorExiting,
    Heartbeat,
    KillExecutorsOnHost,
    KillRequested,
    RegisterExecutor,
    Wake,
)
from podtide.domain.protocol.reasons import Cause
from podtide.domain.protocol.stimuli import ExecutorRemoved

ROWS = json.loads((Path(__file__).parent / "silences.json").read_text())[1:]
KILLS = {Cause.KILLED: True, Cause.HOST_EXCLUDED: True, Cause.HEARTBEAT_TIMEOUT: False}
"""Why executors are killed, and whether their end is no failure then (executorsPendingToRemove)."""


def stimulus(at: int, what: str, *given: str) -> Any:
    """A line of a scenario as the Kubernetes side hears it."""
    ids = tuple(map(ExecutorId, given))
    match what:
        case "register":
            return RegisterExecutor(at, ids[0], ProfileId(0), given[1], f"{given[1]}:{given[0]}")
        case "beat":
            return Heartbeat(at, ids[0])
        case "look":
            return Wake(at)
        case "kill":
            return KillRequested(at, ids)
        case "decommission":
            return DecommissionRequested(at, ids, "bye")
        case "killHost":
            return KillExecutorsOnHost(at, given[0])
        case "decommissionHost":
            return DecommissionExecutorsOnHost(at, given[0])
        case "exits":
            return ExecutorExiting(at, ids[0], given[1])
        case _:
            raise AssertionError(what)


def config(settings: Mapping[str, str]) -> KubernetesConfig:
    read: HeartbeatConfig = heartbeat_config(Reads(from_mapping(dict(settings), "test")))
    return KubernetesConfig(
        backend=BackendConfig(executors_initial=0),
        heartbeats=HeartbeatConfig(read.timeout_ms, read.check_ms, every_beat=True),
    )


@pytest.mark.parametrize(("settings", "lines", "answers"), ROWS, ids=range(len(ROWS)))
def test_as_spark_does(settings: Mapping[str, str], lines: list[list[Any]], answers: list[list[Any]]) -> None:
    given = config(settings)
    state = side.begin(given, 0)
    for line, answer in zip(lines, answers, strict=True):
        step = router.step(state, (stimulus(*line),), given, line[0])
        state = step.state
        # Kills and events are of two threads: Spark's order is that of each.
        killed = [
            [command.executor, KILLS[command.why.cause]]
            for command in step.commands
            if isinstance(command, RemoveExecutor) and command.reason.kind == "ExecutorKilled"
        ]
        events = [
            ["removed", command.executor, command.reason]
            for command in step.commands
            if isinstance(command, ExecutorRemoved)
        ]
        told = [
            [executor, command.message]
            for command in step.commands
            if isinstance(command, DecommissionExecutors)
            for executor in command.executors
        ]
        assert killed == [pair for what, *pairs in answer if what == "kill" for pair in pairs], line
        assert events == [one for one in answer if one[0] == "removed"], line
        assert told == [pair for what, *rest in answer if what == "decommission" for pair in rest[2:]], line
