"""The allocation manager: numbers, causes, held bounds, and the rounds that wait for an answer."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest

from podtide.domain.base.units import ALWAYS, DEFAULT_PROFILE, LAST_MS, NEVER, ExecutorId, ProfileId
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.protocol.commands import Decommission, Kill, RequestTotal, ScheduleThrew
from podtide.domain.protocol.config import ProfileRules, ScalingConfig
from podtide.domain.protocol.reasons import Bound, Cause, Held, Phase, Why
from podtide.domain.protocol.stimuli import Answer, BlockUpdated, ExecutorsActive, RddBlock, Reset, Stop, Tick
from podtide.domain.scaling import dynamic_allocation
from podtide.domain.scaling.load import Demand
from podtide.domain.scaling.manager import timer_end
from podtide.domain.scaling.rules import need, needed_executors, total_need
from tests.support.scaling_play import CHORE, Cluster, Play

SECOND = 1_000
CONFIG = ScalingConfig(
    executors_max=10,
    backlog_timeout_ms=1 * SECOND,
    sustained_backlog_timeout_ms=2 * SECOND,
    idle_timeout_ms=3 * SECOND,
    cached_idle_timeout_ms=5 * SECOND,
    shuffle_tracking=False,
)
GPU = 1

# ------------------------------------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    ("demand", "slots", "executors", "ratio", "needed"),
    [
        (Demand(), 1, 0, 1.0, 0),
        (Demand(pending=5), 1, 0, 1.0, 5),
        (Demand(pending=5), 2, 0, 1.0, 3),
        (Demand(pending=5, running=3), 4, 9, 1.0, 2),
        (Demand(pending=5, running=3), 1, 0, 0.5, 4),  # the ratio applies to running tasks too
        (Demand(pending=1, speculative=1), 4, 0, 1.0, 2),  # a copy runs on another host
        (Demand(pending=1, speculative=1), 1, 0, 1.0, 2),
        (Demand(pending=4, speculative=1), 4, 0, 1.0, 2),
        (Demand(speculative=1), 4, 0, 1.0, 2),
        (Demand(running=2), 4, 0, 1.0, 1),  # copies under way count as running tasks
        (Demand(unschedulable=1), 4, 3, 1.0, 4),
        (Demand(pending=99, unschedulable=1), 1, 3, 1.0, 99),
        (Demand(unschedulable=8), 4, 0, 0.5, 1),
        (Demand(pending=-1), 1, 0, 1.0, -1),
        (Demand(pending=-3), 2, 0, 1.0, -1),
        (Demand(pending=2**31 - 1, running=1), 1, 0, 1.0, -(2**31)),  # Scala's Int wraps around
        (Demand(unschedulable=2**31 - 1), 1, 1, 1.0, 0),
        (Demand(pending=7), 0, 0, 1.0, 2**31 - 1),  # an executor that takes no task: 7 / 0.0
        (Demand(pending=-7), 0, 0, 1.0, -(2**31)),
        (Demand(), 0, 0, 1.0, 0),  # 0 / 0.0 is no number, which is 0
        (Demand(pending=2**31 - 1), 1, 0, 1e308, 2**31 - 1),
        (Demand(pending=1), 1, 0, inf, 2**31 - 1),
        (Demand(pending=1), 1, 0, nan, 0),
        (Demand(pending=2_100_000_000), 1, 0, 1.0, 2_100_000_000),
    ],
)
def test_need(demand: Demand, slots: int, executors: int, ratio: float, needed: int) -> None:
    assert need(demand, slots, executors, ratio) == needed


@pytest.mark.parametrize(
    ("at", "timeout", "end"),
    [
        (0, 1_000, 1_000),
        (5, 0, 5),
        (0, LAST_MS, LAST_MS),
        (0, LAST_MS + 1, NEVER),  # Scala's Duration is cut to Long.MAX_VALUE
        (1, LAST_MS, -9_223_372_036_854),  # and the sum of the two wraps around: long past
        (1_000, NEVER, -9_223_372_035_854),
    ],
)
def test_timer_end(at: int, timeout: int, end: int) -> None:
    assert timer_end(at, timeout) == end


# ------------------------------------------------------------------------------------------------ causes and numbers


def changes(play: Play) -> list[tuple[Cause, int, int, object]]:
    return [
        (change.why.cause, change.before, change.after, change.why.facts.get("bound"))
        for request in play.requests()
        for change in request.changes
    ]


def test_every_move_of_a_target_has_its_cause_and_what_kept_it() -> None:
    play = Play(replace(CONFIG, executors_min=1, executors_initial=2))
    play.stage(0, 30)
    for _ in range(4):
        play.add()
    play.run(0, range(30))
    play.end(0, range(26))
    play.tick(100)
    play.end(0, range(26, 30))
    play.tick(100)
    play.feed(Reset(play.now))
    play.stage(1, 3)
    play.tick(100)
    assert changes(play) == [
        (Cause.INITIAL, 0, 2, None),
        (Cause.BACKLOG, 2, 3, "ramp"),
        (Cause.SUSTAINED_BACKLOG, 3, 5, "ramp"),
        (Cause.SUSTAINED_BACKLOG, 5, 9, "ramp"),
        (Cause.SUSTAINED_BACKLOG, 9, 10, "maximum"),
        (Cause.LOWERED_NEED, 10, 4, "need"),
        (Cause.LOWERED_NEED, 4, 1, "minimum"),
        (Cause.BACKLOG, 2, 3, "need"),
    ]
    facts = dict(play.requests()[1].changes[0].why.facts)
    assert facts == {
        "pending_tasks": 30,
        "running_tasks": 0,
        "speculative_tasks": 0,
        "unschedulable_task_sets": 0,
        "tasks_per_executor": 1,
        "need": 30,
        "executors": 0,
        "increment": 1,
        "bound": "ramp",
    }


def test_a_growth_that_the_ratio_cuts_says_so() -> None:
    play = Play(replace(CONFIG, ratio=0.5))
    play.stage(0, 2)
    play.add()
    assert changes(play)[-1] == (Cause.BACKLOG, 0, 1, "ratio")


def test_a_first_target_below_the_minimum_is_raised_to_it() -> None:
    """No SparkConf leads to such a config: the effective first target is at least the minimum."""
    play = Play(replace(CONFIG, executors_min=3, executors_initial=1))
    play.stage(0, 0)
    play.tick()
    assert changes(play)[-1] == (Cause.MINIMUM, 1, 3, "minimum")
    play = Play(replace(CONFIG, executors_min=3, executors_initial=0))
    play.stage(0, 2)
    assert play.add() == 3
    assert changes(play)[-1] == (Cause.BACKLOG, 0, 3, "minimum")


@pytest.mark.parametrize(
    ("cached", "cause", "timeout"),
    [(False, Cause.IDLE, 3 * SECOND), (True, Cause.CACHED_IDLE, 5 * SECOND)],
)
def test_why_an_executor_went(cached: bool, cause: Cause, timeout: int) -> None:
    from_block = idle_fleet(1, cached=cached)
    from_block.tick(timeout - 1)
    assert from_block.kills() == []
    from_block.tick(1)
    kill = from_block.commands[-2]
    assert isinstance(kill, Kill)
    assert kill.departures[0].why.cause is cause
    assert dict(kill.departures[0].why.facts) == {"idle_since_ms": 0, "timeout_ms": timeout}
    resync = from_block.commands[-1]
    assert isinstance(resync, RequestTotal)
    assert (resync.why.cause, resync.changes) == (Cause.RESYNC, ())
    assert dict(resync.why.facts) == {"asked": 1, "removed": 1}


def idle_fleet(size: int, *, cached: bool = False, cluster: Cluster | None = None, **changed: object) -> Play:
    play = Play(replace(CONFIG, **changed), cluster=cluster)  # type: ignore[arg-type]
    play.join(*range(1, size + 1))
    if cached:
        play.feed(BlockUpdated(0, ExecutorId("1"), RddBlock(0, 0), True, False))
    return play


# -------------------------------------------------------------------------------------------------- waiting for answers


def test_a_round_waits_for_the_answer_to_a_moved_target() -> None:
    play = Play(CONFIG, cluster=Cluster(silent=True))
    play.stage(0, 5)
    play.tick(SECOND)
    request = play.requests()[-1]
    assert play.target() == 1
    assert play.increment() == 1
    assert dynamic_allocation.due(play.state, play.config) == NEVER
    for _ in range(3):
        assert play.tick(SECOND) == []
    play.feed(Answer(play.now, request.serial - 1))  # not the answer that is waited for
    assert dynamic_allocation.due(play.state, play.config) == NEVER
    play.feed(Answer(play.now, request.serial))
    assert play.increment() == 2
    # The timer starts anew when the round began, not when the answer came.
    assert play.add_time == request.at + 2 * SECOND


@pytest.mark.parametrize("threw", [None, "java.io.IOException: gone"], ids=["refused", "threw"])
def test_a_request_that_was_not_taken_restores_the_target_alone(threw: str | None) -> None:
    play = Play(CONFIG, cluster=Cluster(silent=True))
    play.stage(0, 5)
    due = play.add_time
    play.tick(SECOND)
    play.feed(Answer(play.now, play.requests()[-1].serial, threw is not None, threw))
    assert (play.target(), play.increment(), play.add_time) == (0, 1, due)
    assert play.reports == []
    assert [change[:3] for change in changes(play)][-1] == (Cause.BACKLOG, 0, 1)
    play.tick(100)  # and again
    assert [change[:3] for change in changes(play)][-1] == (Cause.BACKLOG, 0, 1)


@pytest.mark.parametrize(
    ("acked", "pending"),
    [
        ((), set()),
        (False, set()),
        (True, {"1", "2", "3"}),
        ((ExecutorId("2"),), {"2"}),
        ((ExecutorId("2"), ExecutorId("nobody")), {"2"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("decommission", [False, True])
def test_only_executors_that_were_granted_are_on_their_way_out(
    acked: bool | tuple[ExecutorId, ...], pending: set[str], decommission: bool
) -> None:
    play = idle_fleet(3, cluster=Cluster(silent=True), decommission=decommission)
    play.tick(3 * SECOND)
    order = play.commands[-1]
    assert isinstance(order, Decommission if decommission else Kill)
    assert order.executors == ("1", "2", "3")
    play.feed(Answer(play.now, order.serial, acked))
    assert play.pending_removal | play.decommissioning == set()
    play.feed(Answer(play.now, play.requests()[-1].serial))
    assert (play.decommissioning if decommission else play.pending_removal) == pending
    assert not (play.pending_removal if decommission else play.decommissioning)
    refused = [report for report in play.reports if isinstance(report, Held)]
    assert [dict(report.facts) for report in refused] == ([{"executors": 3 - len(pending)}] if len(pending) < 3 else [])


def test_a_refused_kill_is_repeated_at_every_tick_and_told_once() -> None:
    play = idle_fleet(2, cluster=Cluster(refuses_all=True))
    for _ in range(3):
        play.now += 100
        play.tick(3 * SECOND)
        assert dynamic_allocation.due(play.state, play.config) == ALWAYS
    assert play.kills() == [("1", "2")] * 3
    assert [(r.phase, r.bound) for r in play.reports if isinstance(r, Held)] == [(Phase.BEGAN, Bound.REFUSED_KILL)]
    play.cluster = Cluster()
    play.tick(100)
    assert [(r.phase, r.bound) for r in play.reports if isinstance(r, Held)][1:] == [(Phase.ENDED, Bound.REFUSED_KILL)]


def test_an_executor_that_leaves_while_an_answer_is_awaited_is_let_go_all_the_same() -> None:
    play = idle_fleet(2, cluster=Cluster(silent=True), executors_initial=2)
    play.tick(3 * SECOND)  # the target is lowered, and both are timed out
    play.leave(1)
    play.feed(Answer(play.now, play.requests()[-1].serial))
    (kill,) = [command for command in play.commands if isinstance(command, Kill)]
    assert kill.executors == ("1",)
    assert kill.departures[0].why == Why(Cause.IDLE)


@pytest.mark.parametrize("which", [1, 2], ids=["the kill", "the request after it"])
def test_an_exception_in_a_removal_ends_the_round_and_is_told(which: int) -> None:
    play = idle_fleet(2, cluster=Cluster(silent=True))
    play.tick(3 * SECOND)
    if which == 2:
        play.feed(Answer(play.now, play.commands[-1].serial))
    play.feed(Answer(play.now, play.commands[-1].serial, (), "java.lang.Exception: no"))
    assert play.reports == [ScheduleThrew(play.now, "java.lang.Exception: no")]
    assert play.pending_removal == set()
    play.tick(100)
    if which == 2:
        play.feed(Answer(play.now, play.commands[-1].serial))
    play.feed(Answer(play.now, play.commands[-1].serial, (), "java.lang.Exception: no"))
    assert play.reports[-1] == ScheduleThrew(play.now, "java.lang.Exception: no", repeated=True)


def test_a_need_below_the_minimum_starts_the_increment_over_and_is_due() -> None:
    """Here under another minimum than the one that the target grew under: as a what-if goes on from a state."""
    play = Play(CONFIG)
    play.stage(0, 9)
    play.add()
    play.add()
    play.run(0, range(7))
    play.end(0, range(7))
    assert (play.target(), play.need(), play.increment()) == (3, 2, 4)
    play.config = replace(CONFIG, executors_min=3)
    assert dynamic_allocation.due(play.state, play.config) == ALWAYS
    assert play.tick(100) == []
    assert (play.target(), play.increment()) == (3, 1)
    assert dynamic_allocation.due(play.state, play.config) > play.now


def test_nothing_follows_a_stop() -> None:
    play = idle_fleet(2)
    play.feed(Stop(play.now))
    assert play.tick(10 * SECOND) == []
    assert dynamic_allocation.due(play.state, play.config) == NEVER


def test_an_answer_that_nobody_waits_for_is_let_pass() -> None:
    play = Play(CONFIG)
    before = play.state.scaling
    play.feed(Answer(0, 1, False))
    assert play.state.scaling == before


# ------------------------------------------------------------------------------------------------- what Spark throws


def test_an_unknown_profile_makes_every_round_throw_until_it_is_known() -> None:
    play = Play(CONFIG)
    play.stage(0, 1, profile=GPU)
    assert dynamic_allocation.due(play.state, play.config) == ALWAYS
    play.tick()
    message = f"org.apache.spark.SparkException: ResourceProfileId {GPU} not found!"
    assert play.reports == [ScheduleThrew(0, message)]
    fault = needed_executors(play.state.scaling, play.state.load, CONFIG, ProfileId(GPU))
    assert isinstance(fault, SparkFault)
    assert dynamic_allocation.due(play.state, play.config) == NEVER
    play.tick(100)
    assert play.reports[-1] == ScheduleThrew(100, message, repeated=True)
    play.announce(GPU, executor={"cores": 1}, task={"cpus": 1.0})
    assert dynamic_allocation.due(play.state, play.config) == ALWAYS
    play.tick(900)
    assert play.target(GPU) == 1


def test_a_profile_that_comes_while_an_answer_is_awaited_holds_nothing_yet() -> None:
    play = Play(CONFIG, cluster=Cluster(silent=True))
    play.stage(0, 20)
    play.tick(SECOND)
    play.stage(1, 1, profile=GPU)
    play.feed(Answer(play.now, play.requests()[-1].serial))
    assert play.reports == []
    play.tick(100)
    assert isinstance(play.reports[-1], ScheduleThrew)


def unknown_fleet(testing: bool) -> Play:
    play = Play(replace(CONFIG, testing=testing))
    play.feed(ExecutorsActive(0, (ExecutorId("1"), ExecutorId("2"))))
    for executor in ("1", "2"):
        play.run(CHORE, [0], executor)
        play.end(CHORE, [0], executor)
    play.tick(3 * SECOND)
    return play


def test_executors_of_an_unknown_profile_stay_and_are_told() -> None:
    play = unknown_fleet(testing=False)
    assert play.kills() == []
    held = play.reports[-1]
    assert isinstance(held, Held)
    assert (held.phase, held.bound, held.profile) == (Phase.BEGAN, Bound.UNKNOWN_PROFILE, -1)
    assert dict(held.facts) == {"executors": 2}


def test_executors_of_an_unknown_profile_throw_in_testing() -> None:
    play = unknown_fleet(testing=True)
    message = "org.apache.spark.SparkException: ResourceProfile Id was UNKNOWN, this is not expected"
    assert play.reports == [ScheduleThrew(play.now, message)]


def test_an_executor_of_a_profile_without_a_target_makes_the_removal_throw() -> None:
    play = Play(CONFIG)
    play.join(1, profile=GPU)
    play.join(2)
    play.tick(3 * SECOND)
    assert play.reports == [ScheduleThrew(play.now, f"java.util.NoSuchElementException: key not found: {GPU}")]
    assert play.kills() == []


# ------------------------------------------------------------------------------------------------------- what holds


def held(play: Play) -> list[tuple[int, Phase, Bound, dict[str, object]]]:
    return [(r.at, r.phase, r.bound, dict(r.facts)) for r in play.reports if isinstance(r, Held)]


def test_the_maximum_is_told_while_it_holds_growth_back() -> None:
    play = Play(replace(CONFIG, executors_max=2))
    play.stage(0, 5)
    play.tick(SECOND)
    play.tick(2 * SECOND)
    play.tick(2 * SECOND)
    play.run(0, range(5))
    play.end(0, range(3))
    play.tick(100)
    assert held(play) == [
        (3_000, Phase.BEGAN, Bound.MAXIMUM, {"maximum": 2, "need": 5}),
        (5_100, Phase.ENDED, Bound.MAXIMUM, {"maximum": 2, "need": 5}),
    ]


def test_the_minimum_and_the_target_are_told_while_they_keep_idle_executors() -> None:
    play = idle_fleet(3, executors_min=1, executors_initial=1)
    play.stage(0, 2)
    play.tick(SECOND)
    assert play.target() == 2
    play.run(0, [0, 1])
    play.tick(2 * SECOND)
    assert play.kills() == [("1",)]
    play.tick(100)  # the list is drawn up anew after a kill: what stays on it is told then
    play.end(0, [0, 1])
    play.tick(100)
    assert play.kills() == [("1",), ("2",)]
    play.tick(100)
    assert held(play) == [
        (3_100, Phase.BEGAN, Bound.TARGET, {"executors": 2, "minimum": 1, "target": 2}),
        (3_300, Phase.BEGAN, Bound.MINIMUM, {"executors": 1, "minimum": 1, "target": 1}),
        (3_300, Phase.ENDED, Bound.TARGET, {"executors": 2, "minimum": 1, "target": 2}),
    ]


def test_running_tasks_are_told_while_they_keep_executors_above_the_target() -> None:
    play = Play(CONFIG)
    play.join(1, 2, busy=True)
    play.stage(0, 1)
    play.tick(SECOND)
    assert held(play) == [(SECOND, Phase.BEGAN, Bound.RUNNING_TASK, {"above_target": 1, "busy": 2})]
    play.end(CHORE, [0], "1")
    play.end(CHORE, [0], "2")
    play.tick(100)
    assert held(play)[-1][:3] == (1_100, Phase.ENDED, Bound.RUNNING_TASK)


def test_the_ratio_is_told_while_it_leaves_demand_out() -> None:
    play = Play(replace(CONFIG, ratio=0.5))
    play.stage(0, 4)
    play.tick(100)
    assert held(play) == [(100, Phase.BEGAN, Bound.RATIO, {"need": 2, "need_without_ratio": 4})]


def test_due_follows_the_config_that_it_is_given() -> None:
    """What an executor takes is worked out once, and anew when the config says other."""
    play = Play(CONFIG)
    play.stage(0, 4)
    while play.target() < 4:
        play.add()
    play.tick(100)
    assert dynamic_allocation.due(play.state, play.config) > play.now
    wide = replace(CONFIG, profile_rules=ProfileRules(executor_cores=4))
    assert dynamic_allocation.due(play.state, wide) == ALWAYS
    assert needed_executors(play.state.scaling, play.state.load, wide, DEFAULT_PROFILE) == 1
    play.config = wide
    play.tick(100)
    assert play.target() == 1
    same = replace(wide, profile_rules=ProfileRules(executor_cores=4))
    assert dynamic_allocation.due(play.state, same) == dynamic_allocation.due(play.state, wide)


def test_a_tick_with_nothing_to_do_changes_nothing() -> None:
    play = Play(CONFIG)
    play.stage(0, 1)
    play.tick(SECOND)
    play.run(0, [0])
    play.tick(100)
    before = play.state.scaling
    step = dynamic_allocation.step(play.state, Tick(play.now + 100), play.config, play.now + 100)
    assert step.state.scaling == before
    assert (step.commands, step.reports) == ((), ())


def test_the_total_need_leaves_out_what_cannot_be_known() -> None:
    play = Play(CONFIG)
    play.announce(GPU, executor={"cores": 1}, task={"cpus": 1.0})
    play.stage(0, 3)
    play.stage(1, 2, profile=GPU)
    assert total_need(play.state.scaling, play.state.load, CONFIG) == 5  # before any tick
    play.stage(2, 7, profile=9)
    assert total_need(play.state.scaling, play.state.load, CONFIG) == 5
    known = Play(CONFIG)
    known.stage(0, 3)
    known.tick()
    assert total_need(known.state.scaling, known.state.load, CONFIG) == 3
    assert dynamic_allocation.due(known.state, CONFIG) == SECOND
    wide = replace(CONFIG, profile_rules=ProfileRules(executor_cores=4))
    assert total_need(known.state.scaling, known.state.load, wide) == 1
