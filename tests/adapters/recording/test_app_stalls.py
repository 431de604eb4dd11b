"""The watch over a whole application against the fake cluster: each cause in the smallest world that shows it, live.

What a log shows besides is in tests/entrypoints/replay/test_replay_stalls.py.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest

from podtide.adapters.recording.app_stalls import QUIET_MS
from podtide.adapters.recording.run_stalls import KEPT_MS
from podtide.domain.base.randomness import Constant, LogNormal
from podtide.domain.fakes.driver.script import Jobs, ScriptJob, ScriptStage, Workload
from podtide.domain.fakes.kubernetes.description import STAGES, Description, Life, NodeGroup
from podtide.domain.protocol.reasons import Phase
from podtide.domain.protocol.stimuli import UnschedulableTaskSetAdded
from podtide.domain.stalls.causes import ROWS, StallCause
from tests.support.stall_play import IdleDriver, K, M, S, one_stage, target, watched
from tests.support.workload_play import map_reduce
from tests.support.world_play import plain, quick, stage

NONE: MappingProxyType[str, str] = MappingProxyType({})
FAILS = {"spark.executor.maxNumFailures": "100000"}
SHORT = one_stage(8, 30 * S)
NO_NODE = plain(groups=(NodeGroup("worker", 0),))
TWO_FIT = plain(groups=(NodeGroup("worker", 1, cpu_millis=2_000),))
DIES = plain(stage("dies", Life.REGISTERED, Life.FAILED, 10 * S, exits=((137, 1.0),)))
DIES_AT_ONCE = plain(stage("dies", Life.RUNNING, Life.FAILED, 2 * S, exits=((1, 1.0),), weight=1e9))
DIES_LATE = plain(stage("dies", Life.REGISTERED, Life.FAILED, 4 * M, exits=((137, 1.0),)))
DIES_OLD = plain(stage("dies", Life.REGISTERED, Life.FAILED, 90 * S, exits=((137, 1.0),)))

# An executor is let go and ends between two lists, and there is no watch: no snapshot ever shows its pod.
SLOW_END = plain(next(replace(one, delay=Constant(5 * S)) for one in STAGES if one.name == "exit"))
PAUSE = Jobs(
    (
        ScriptJob("first", (ScriptStage("one", 1, Constant(S)),)),
        ScriptJob("second", (ScriptStage("one", 1, Constant(S)),), after=("first",), think=Constant(3 * M)),
    )
)
UNSEEN = {
    f"{K}executor.enableApiWatcher": "false",
    f"{K}executor.apiPollingInterval": "60s",
    f"{K}dynamicAllocation.deleteGracePeriod": "500ms",
    "spark.dynamicAllocation.maxExecutors": "1",
    "spark.dynamicAllocation.executorIdleTimeout": "5s",
    "spark.dynamicAllocation.shuffleTracking.enabled": "false",
    "spark.shuffle.service.enabled": "true",
}


@pytest.mark.parametrize(
    ("wanted", "cluster", "conf", "cause", "blocked", "since"),
    [
        pytest.param(SHORT, plain(api=quick(quota_pods=0)), FAILS, StallCause.QUOTA, True, 0, id="quota of none"),
        pytest.param(
            one_stage(8, 15 * M), plain(api=quick(quota_pods=1)), FAILS, StallCause.QUOTA, False, 0, id="quota of one"
        ),
        pytest.param(SHORT, NO_NODE, NONE, StallCause.NODES, True, 0, id="no node"),
        pytest.param(one_stage(8, 15 * M), TWO_FIT, NONE, StallCause.NODES, False, 0, id="too few nodes"),
        pytest.param(SHORT, plain(without=("pull", "pulled")), NONE, StallCause.NOT_COMING, True, 0, id="no image"),
        pytest.param(SHORT, plain(without=("register",)), NONE, StallCause.NOT_COMING, True, 0, id="not registering"),
        pytest.param(
            one_stage(8, M, task_failures_max=10_000), DIES, FAILS, StallCause.EXECUTORS_DIE, True, 0, id="die at work"
        ),
        pytest.param(SHORT, DIES_AT_ONCE, FAILS, StallCause.EXECUTORS_DIE, True, 0, id="die before they register"),
        pytest.param(PAUSE, SLOW_END, UNSEEN, StallCause.GHOST, True, 188, id="SPARK-52589"),
        pytest.param(IdleDriver(), plain(), NONE, StallCause.DRIVER, True, 0, id="the driver does nothing"),
        pytest.param(
            IdleDriver(UnschedulableTaskSetAdded(0, 0, 0)), plain(), NONE, StallCause.UNSCHEDULABLE, True, 0,
            id="all are excluded",
        ),
        pytest.param(
            one_stage(4, 15 * M), plain(), {"spark.dynamicAllocation.maxExecutors": "2"}, StallCause.MAXIMUM, False, 0,
            id="at the maximum",
        ),
        pytest.param(
            one_stage(8, 60 * S), DIES_OLD, {f"{K}allocation.maximum": "3"}, StallCause.MAXIMUM, True, 69,
            id="no ids are left",
        ),
        pytest.param(map_reduce(), plain(), NONE, StallCause.SHUFFLES, True, 10, id="shuffles that nobody cleans"),
        pytest.param(target(3), NO_NODE, NONE, StallCause.NODES, True, 1, id="a target, no node"),
        pytest.param(target(3), TWO_FIT, NONE, StallCause.NODES, False, 7, id="a target, too few nodes"),
        pytest.param(target(3), plain(api=quick(quota_pods=0)), FAILS, StallCause.QUOTA, True, 9, id="a target, quota"),
        pytest.param(target(3), DIES, FAILS, StallCause.EXECUTORS_DIE, True, 19, id="a target, they die"),
    ],
)  # fmt: skip
def test_a_cause_is_told_with_its_beginning(
    wanted: Workload, cluster: Description, conf: dict[str, str], cause: StallCause, blocked: bool, since: int
) -> None:
    until = since * S + ROWS[cause].patience_ms
    assert watched(wanted, cluster, until - M, conf)[1] == []
    stalls, news = watched(wanted, cluster, until + KEPT_MS, conf)
    first = news[0]
    assert (first.phase, first.stall.cause, first.stall.blocked) == (Phase.BEGAN, cause, blocked)
    assert first.stall.since // S == since
    assert [(one.cause, one.since) for one in stalls.stalls()] == [(cause, first.stall.since)]
    assert stalls.alarms()[cause.value] == int(blocked)


@pytest.mark.parametrize(
    ("wanted", "cluster", "conf"),
    [
        pytest.param(Jobs((ScriptJob("etl", (ScriptStage("read", 40, LogNormal(20 * S, 60 * S)),), times=12,
                                     think=LogNormal(30 * S, 300 * S)),), clean_ms=20 * M), Description(), NONE,
                     id="a cluster that scales, jobs and pauses"),
        pytest.param(SHORT, plain(groups=(NodeGroup("worker", 0, maximum=4, arrives=Constant(8 * M)),)), NONE,
                     id="nodes that take eight minutes"),
        pytest.param(one_stage(4, 40 * M), plain(), NONE, id="long tasks, none waits"),
        pytest.param(PAUSE, SLOW_END, UNSEEN | {"spark.dynamicAllocation.minExecutors": "1"}, id="no ghost"),
        pytest.param(map_reduce(clean_ms=10 * M), plain(), NONE, id="shuffles that are cleaned"),
        pytest.param(target(3), plain(), NONE, id="a target that is reached"),
        pytest.param(target(3), DIES_LATE, FAILS, id="executors that are lost every four minutes"),
    ],
)  # fmt: skip
def test_a_healthy_run_is_left_alone(wanted: Workload, cluster: Description, conf: dict[str, str]) -> None:
    assert watched(wanted, cluster, 90 * M, conf)[1] == []


@pytest.mark.parametrize("missing", [("pull", "pulled"), ("register",)])
def test_pods_that_were_placed_and_did_not_become_executors_are_named(missing: tuple[str, ...]) -> None:
    (stall,) = watched(SHORT, plain(without=missing), 11 * M)[0].stalls()
    assert (stall.cause, stall.facts["pods_placed"]) == (StallCause.NOT_COMING, 4)
    assert stall.executors == tuple(f"mine-exec-{number}" for number in range(1, 5))


def test_nothing_is_judged_while_the_driver_is_silent_and_shortly_after() -> None:
    silent = True
    stalls, news = watched(IdleDriver(), plain(), 9 * M, blind=lambda: silent)
    assert news == []
    silent = False
    stalls.passed(9 * M + QUIET_MS // 2)
    assert news == []
    stalls.passed(9 * M + QUIET_MS)
    assert [one.stall.cause for one in news] == [StallCause.DRIVER]


def test_a_quota_that_somebody_else_looked_at_is_the_cause_as_long_as_it_has_no_room() -> None:
    last = 12 * M
    stalls, _ = watched(SHORT, plain(without=("pull", "pulled")), last)
    assert stalls.lacks_executors(last)
    assert not stalls.lacks_executors(last + M)
    for used_up, cause in (("ResourceQuota q: pods 4 of 4 used", StallCause.QUOTA), (None, StallCause.NOT_COMING)):
        stalls.hear_quota(used_up)
        last += 30 * S
        stalls.passed(last)
        (found,) = stalls.stalls()
        assert found.cause is cause
        assert found.facts.get("message") == used_up
