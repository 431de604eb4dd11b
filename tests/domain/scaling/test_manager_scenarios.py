"""What Spark's own suite asks of ExecutorAllocationManager: targets, need and removals (N1 to N20).

Spark's suite calls the private parts of its manager; here everything happens through events and ticks, as it does
in an application. ``add()`` ticks when the backlog timer has expired. ``offer()`` lets executors time out that
were busy until then, which stands for a call of removeExecutors with their ids.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from podtide.adapters.conformance.scenario_configs import scaling_scenario
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.protocol.commands import Kill
from podtide.domain.protocol.config import ProfileRules
from podtide.domain.protocol.stimuli import TaskOutcome, UnschedulableTaskSetAdded, UnschedulableTaskSetRemoved
from tests.domain.conftest import HOUR
from tests.support.scaling_play import Play

Manager = Callable[..., Play]

GPU = 1
SMALL = 2


def with_gpus(play: Play, slots: int = 4) -> None:
    play.announce(GPU, executor={"cores": slots, "gpu": slots}, task={"cpus": 1.0, "gpu": 1.0})


def cores(count: int) -> ProfileRules:
    return ProfileRules(executor_cores=count)


def test_n1_starting_state(manager: Manager) -> None:
    play = manager(1, 5, 1)
    assert play.target() == 1
    assert play.add_time is None
    assert play.pending_removal == set()


@pytest.mark.parametrize(
    ("low", "high"), [(-1, 5), (0, -1), (2, 1)], ids=["minimum -1", "maximum -1", "minimum above maximum"]
)
def test_n1_invalid_bounds(low: int, high: int) -> None:
    key = "spark.dynamicAllocation."
    conf = {
        key + "enabled": "true",
        key + "testing": "true",
        key + "minExecutors": str(low),
        key + "maxExecutors": str(high),
    }
    config = scaling_scenario(conf)
    assert isinstance(config, SparkFault)


@pytest.mark.parametrize(("low", "high"), [(1, 1), (1, 2)])
def test_n1_valid_bounds(manager: Manager, low: int, high: int) -> None:
    assert manager(low, high).target() == low


def test_n2_increments_double_up_to_the_maximum(manager: Manager) -> None:
    play = manager(1, 10, 1)
    play.stage(0, 1000)
    assert (play.target(), play.increment()) == (1, 1)
    for added, target, increment in ((1, 2, 2), (2, 4, 4), (4, 8, 8), (2, 10, 1), (0, 10, 1)):
        assert play.add() == added
        assert (play.target(), play.increment()) == (target, increment)
    play.join("first", "second", "third", "fourth", "first", "second")  # two of them twice
    assert play.executors == 4
    for _ in range(2):
        assert play.add() == 0
        assert (play.target(), play.increment()) == (10, 1)


def test_n3_two_profiles_grow_side_by_side(manager: Manager) -> None:
    play = manager(1, 10, 1)
    with_gpus(play)
    play.stage(0, 1000)
    play.stage(1, 1000, profile=GPU)
    for added, target, increment in ((1, 2, 2), (2, 4, 4), (4, 8, 8), (2, 10, 1), (0, 10, 1)):
        before = play.target(GPU)
        assert play.add() == added
        assert play.target(GPU) - before == added
        assert (play.target(), play.increment()) == (target, increment)
        assert (play.target(GPU), play.increment(GPU)) == (target, increment)
    play.join("first", "second", "third", "fourth", "first", "second")
    play.join("g-first", "g-second", "g-third", "g-fourth", "g-first", "g-second", profile=GPU)
    for _ in range(2):
        assert play.add() == 0
        assert (play.target(), play.increment()) == (10, 1)
        assert (play.target(GPU), play.increment(GPU)) == (10, 1)


def test_n4_a_new_profile_asks_for_the_initial_executors(manager: Manager) -> None:
    play = manager(0, 10, 2)
    with_gpus(play, slots=2)
    play.stage(1, 4, profile=GPU)
    assert [dict(request.targets) for request in play.requests()] == [{0: 2}, {0: 2, GPU: 2}]
    assert play.need(GPU) == 2
    assert play.target(GPU) == 2


def test_n5_every_profile_keeps_its_own_minimum(manager: Manager) -> None:
    play = manager(5, 10, 5, backlog_timeout_ms=HOUR)
    with_gpus(play)
    play.announce(SMALL, executor={"cores": 1}, task={"cpus": 1.0})
    play.stage(1, 10, profile=GPU)
    play.stage(2, 10, profile=SMALL)
    play.join(*range(1, 11), profile=GPU, busy=True)
    play.join(*range(11, 21), profile=SMALL, busy=True)
    play.join(*range(21, 31), busy=True)
    # Ten tasks on executors with four slots need 3 executors, so the target is the minimum there and below need
    # nowhere: 5 for every profile.
    assert play.pending_removal == set()
    for executor in (1, 11, 2, 21, 3, 4, 5):
        assert play.offer(executor) == [str(executor)]
    assert play.pending_removal == {"1", "11", "2", "21", "3", "4", "5"}
    assert play.offer(6) == []
    assert len(play.pending_removal) == 7
    play.leave(1)
    assert play.pending_removal == {"11", "2", "21", "3", "4", "5"}
    play.leave(2, 3, 2, 3)
    assert len(play.pending_removal) == 4
    play.leave(4, 5)
    assert play.pending_removal == {"11", "21"}
    assert play.offer(7) == []
    assert play.offer(8) == []
    for executor in (12, 13, 14, 15):
        assert play.offer(executor) == [str(executor)]
    assert play.offer(16) == []
    assert len(play.pending_removal) == 6
    play.leave(*range(11, 16))
    assert play.pending_removal == {"21"}


@pytest.mark.parametrize(
    ("slots", "ratio", "target"),
    [(1, 0.5, 10), (1, 1 / 3, 7), (2, 1 / 3, 4), (1, 0.385, 8), (1, 1.0, 15), (4, 1 / 3, 3)],
)
def test_n6_ratio(manager: Manager, slots: int, ratio: float, target: int) -> None:
    play = manager(3, 15, ratio=ratio, profile_rules=cores(slots))
    play.stage(0, 20)
    for _ in range(6):
        play.add()
    assert play.target() == target


def test_n7_growth_is_cut_to_the_need(manager: Manager) -> None:
    play = manager(0, 10, 0, idle_timeout_ms=HOUR)
    play.stage(0, 5)
    assert (play.target(), play.increment()) == (0, 1)
    for added, target, increment in ((1, 1, 2), (2, 3, 4), (2, 5, 1)):
        assert play.add() == added
        assert (play.target(), play.increment()) == (target, increment)
    play.stage(1, 3)
    play.join("executor-1")
    play.run(1, [0], "executor-1")
    assert play.target() == 5
    for added, target, increment in ((1, 6, 2), (2, 8, 4), (0, 8, 1)):
        assert play.add() == added
        assert (play.target(), play.increment()) == (target, increment)
    play.stage(2, 3)
    play.run(2, [0, 0], "executor-1")  # the same task twice
    for added, target, increment in ((1, 9, 2), (1, 10, 1)):
        assert play.add() == added
        assert (play.target(), play.increment()) == (target, increment)
    play.run(2, [1], "executor-1")
    assert play.add() == 0
    assert play.target() == 10


def test_n8_speculative_copies_count_as_tasks(manager: Manager) -> None:
    play = manager(0, 10, 0)
    play.stage(1, 2)
    play.speculate(1, [0])
    assert (play.target(), play.increment()) == (0, 1)
    assert play.add() == 1
    play.speculate(1, [1, 2])
    assert (play.target(), play.increment()) == (1, 2)
    assert play.add() == 2
    assert (play.target(), play.increment()) == (3, 4)
    assert play.add() == 2
    assert (play.target(), play.increment()) == (5, 1)
    play.run(1, [0])
    assert play.target() == 5
    assert play.add() == 0
    assert play.increment() == 1
    play.run(1, [0], speculative=True)
    assert play.target() == 5
    assert play.add() == 0
    assert play.increment() == 1


def test_n9_an_unschedulable_task_set_asks_for_another_executor(manager: Manager) -> None:
    play = manager(0, 5, 0, profile_rules=cores(2))
    play.stage(0, 2)
    assert play.add() == 1
    assert play.add() == 0
    play.join("0")
    play.run(0, [0, 1], "0")
    assert (play.target(), play.need()) == (1, 1)
    play.feed(UnschedulableTaskSetAdded(play.now, 0, 0))
    play.tick(1_000)
    assert (play.target(), play.need()) == (2, 2)
    play.join("1")
    play.feed(UnschedulableTaskSetRemoved(play.now, 0, 0))
    play.tick(1_000)
    assert (play.target(), play.need()) == (1, 1)


def test_n10_unschedulable_task_sets_count_beyond_the_executors_there_are(manager: Manager) -> None:
    play = manager(0, 10, 0, profile_rules=cores(2), idle_timeout_ms=HOUR)
    for stage in range(3):
        play.stage(stage, 2)
    assert play.add() == 1
    assert play.add() == 2
    assert play.add() == 0
    play.join(0, 1, 2)
    for stage in range(3):
        play.run(stage, [0, 1], str(stage // 2))
    assert (play.target(), play.need()) == (3, 3)
    play.end(0, [0, 1], "0")
    play.complete(0)
    play.feed(*(UnschedulableTaskSetAdded(play.now, stage, 0) for stage in (1, 2)))
    play.tick(1_000)
    assert (play.target(), play.need()) == (4, 4)
    play.join(3)
    play.feed(UnschedulableTaskSetRemoved(play.now, 1, 0))
    play.tick(1_000)
    # The timer was set anew by the increase a second ago: it is not due, the target stays.
    assert (play.target(), play.need()) == (4, 5)


def test_n11_executors_of_unschedulable_tasks_go_once_the_tasks_have_ended(manager: Manager) -> None:
    play = manager(0, 6, 0, profile_rules=cores(2), idle_timeout_ms=HOUR)
    play.stage(0, 10)
    assert [play.add() for _ in range(4)] == [1, 2, 2, 0]
    play.join(*range(5))
    for index in range(10):
        play.run(0, [index], str(index // 2))
    assert (play.target(), play.need()) == (5, 5)
    for index in range(8):
        play.end(0, [index], str(index // 2))
    play.tick(1_000)
    assert (play.target(), play.need()) == (1, 1)
    play.leave(*range(4))
    play.feed(UnschedulableTaskSetAdded(play.now, 0, 0))
    play.tick(1_000)
    assert (play.target(), play.need()) == (2, 2)
    play.join(5)
    play.feed(UnschedulableTaskSetRemoved(play.now, 0, 0))
    play.tick(1_000)
    assert (play.target(), play.need()) == (1, 1)
    play.end(0, [9], "4")
    play.end(0, [8], "5")
    play.tick(1_000)
    play.complete(0)
    play.tick(1_000)
    assert (play.target(), play.need()) == (0, 0)


def speculating(manager: Manager) -> Play:
    """40 tasks run on 10 executors of 4 cores."""
    play = manager(0, 10, 0, profile_rules=cores(4), idle_timeout_ms=HOUR)
    play.stage(0, 40)
    assert [play.add() for _ in range(4)] == [1, 2, 4, 3]
    play.join(*range(10))
    for index in range(40):
        play.run(0, [index], str(index // 4))
    assert (play.target(), play.need()) == (10, 10)
    for index in range(30):
        play.end(0, [index], str(index // 4))
    return play


def settled(play: Play) -> tuple[int, int]:
    """Target and need after a tick a second later."""
    play.tick(1_000)
    return play.target(), play.need()


def test_n12_tasks_that_end_before_their_copies_start_take_the_copies_along(manager: Manager) -> None:
    play = speculating(manager)
    play.speculate(0, range(30, 40))
    assert settled(play) == (5, 5)
    play.leave(*range(5))
    play.end(0, range(30, 35), "7")
    assert settled(play) == (3, 3)
    play.run(0, range(35, 40), "10", speculative=True)
    assert settled(play) == (3, 3)
    play.end(0, range(35, 39), "8")
    play.end(0, range(35, 39), "10", speculative=True, outcome=TaskOutcome.KILLED)
    assert settled(play) == (1, 1)


def test_n13_speculation_from_beginning_to_end(manager: Manager) -> None:
    play = speculating(manager)
    assert settled(play) == (3, 3)
    play.leave(*range(7))
    play.speculate(0, range(30, 40))
    assert [play.add(), play.add()] == [1, 1]
    assert (play.target(), play.need()) == (5, 5)
    play.join(10, 11, 12)
    play.run(0, range(30, 40), "11", speculative=True)
    assert settled(play) == (5, 5)
    play.end(0, range(30, 36), "10", speculative=True)
    assert settled(play) == (4, 4)
    play.leave(10)
    play.end(0, range(30, 36), "8", outcome=TaskOutcome.KILLED)
    assert settled(play) == (2, 2)
    play.leave(7, 8)
    play.end(0, [36], "9")
    play.end(0, [36], "11", speculative=True, outcome=TaskOutcome.KILLED)
    assert settled(play) == (2, 2)
    play.end(0, [37], "9")
    play.end(0, [37], "11", speculative=True)
    assert settled(play) == (1, 1)
    play.leave(11)
    # One task fails and the copy of the other: with a new copy pending, one executor is not enough for both.
    play.end(0, [38], "9", outcome=TaskOutcome.FAILED)
    play.end(0, [39], "12", speculative=True, outcome=TaskOutcome.FAILED)
    play.speculate(0, [39])
    assert settled(play) == (2, 2)
    play.run(0, [39], "12", speculative=True)
    assert settled(play) == (1, 1)
    play.end(0, [39], "9")
    play.end(0, [38], "12", speculative=True)
    play.end(0, [39], "12", speculative=True, outcome=TaskOutcome.KILLED)
    play.complete(0)
    assert settled(play) == (0, 0)


def test_n14_tasks_of_a_finished_attempt_count_while_they_run(manager: Manager) -> None:
    play = manager(0, 10, 0)
    play.stage(0, 5)
    play.run(0, [0, 1], "executor-1")
    play.complete(0)
    assert play.running() == 2
    play.stage(0, 5, attempt=1)
    play.end(0, [0], "executor-1")
    assert play.running() == 1
    play.run(0, [0, 1], "executor-1", attempt=1)
    assert play.running() == 3
    play.end(0, [0], "executor-1", attempt=1)
    assert play.running() == 2
    play.end(0, [1], "executor-1")
    assert play.running() == 1
    play.end(0, [1], "executor-1", attempt=1)
    assert play.running() == 0


def test_n15_executors_that_are_no_longer_needed_are_cancelled(manager: Manager) -> None:
    play = manager(0, 10, 0)
    play.stage(2, 5)
    assert play.add() == 1
    assert (play.target(), play.increment()) == (1, 2)
    assert play.add() == 2
    assert play.target() == 3
    play.run(2, [0], "executor-1")
    assert play.increment() == 4
    assert play.add() == 2
    assert play.target() == 5
    play.run(2, [0], "executor-1")
    play.end(2, [0, 0], "executor-1")
    demand = play.state.load.demand(play.state.scaling.order[0])
    assert (demand.pending, demand.running) == (4, 0)
    assert play.need() == 4
    assert play.add() == -1
    assert play.target() == 4


def idle_fleet(manager: Manager) -> Play:
    play = manager(5, 10, 5)
    play.join(*range(1, 11), busy=True)
    return play


@pytest.mark.parametrize("batches", [[[1], [2], [3], [4], [5]], [[1], [2, 3], [4], [5]]], ids=["n16", "n18"])
def test_n16_n18_removal_stops_at_the_minimum(manager: Manager, batches: list[list[int]]) -> None:
    play = idle_fleet(manager)
    for batch in batches:
        assert play.offer(*batch) == [str(executor) for executor in batch]
    assert play.offer(6) == []
    assert play.pending_removal == {"1", "2", "3", "4", "5"}
    play.leave(1)
    assert play.pending_removal == {"2", "3", "4", "5"}
    play.leave(2, 3, 2, 3)
    assert play.pending_removal == {"4", "5"}
    play.leave(4, 5)
    assert play.pending_removal == set()
    assert play.offer(7) == []
    assert play.offer(8) == []
    assert play.pending_removal == set()


def test_n17_metrics_of_kills(manager: Manager) -> None:
    play = manager(3, 5, 3)
    play.join(*range(1, 6), busy=True)
    assert play.offer(1, 2) == ["1", "2"]
    assert play.pending_removal == {"1", "2"}
    play.leave(1, reason="driver requested exit")
    play.leave(2, reason="another driver requested exit")
    removals = play.state.scaling.idleness.removals()
    assert (removals.killed_by_driver, removals.exited_unexpectedly) == (2, 0)
    play.leave(3, reason="this will be an unexpected exit")
    assert play.state.scaling.idleness.removals() == (0, 0, 2, 1)


def test_n17_metrics_of_decommissioning(manager: Manager) -> None:
    play = manager(3, 5, 3, decommission=True)
    play.join(*range(1, 6), busy=True)
    assert play.offer(1, 2) == ["1", "2"]
    assert play.decommissioning == {"1", "2"}
    assert play.pending_removal == set()
    play.leave(1, reason="Finished decommissioning")
    assert play.state.scaling.idleness.removals() == (1, 0, 0, 0)
    play.leave(2, reason="stopped before gracefully finished")
    assert play.state.scaling.idleness.removals() == (1, 1, 0, 0)
    play.leave(3, reason="this will be an unexpected exit")
    assert play.state.scaling.idleness.removals() == (1, 1, 0, 1)
    play.leave(4, reason="Executor decommission: worker decommissioned because of kill request")
    assert play.state.scaling.idleness.removals() == (2, 1, 0, 1)


def test_n19_removal_stops_at_the_target(manager: Manager) -> None:
    play = manager(5, 12, 5)
    play.stage(0, 8)
    assert [play.add(), play.add()] == [1, 2]
    play.join(*range(1, 9), busy=True)
    play.run(0, range(8))
    assert (play.executors, play.target(), play.need()) == (8, 8, 8)
    assert play.offer(1) == []
    play.end(0, range(3))
    play.tick()
    assert (play.executors, play.target(), play.need()) == (8, 5, 5)
    assert play.offer(1) == ["1"]
    assert play.offer(2, 3) == ["2", "3"]
    play.leave(1, 2, 3)
    play.end(0, [3])
    assert (play.executors, play.target(), play.need()) == (5, 5, 4)
    assert play.offer(4) == []
    assert play.add() == 0


def test_n20_adding_and_removing_in_turn(manager: Manager) -> None:
    play = manager(5, 12, 5, sustained_backlog_timeout_ms=HOUR)
    play.stage(0, 1000)
    assert [play.add(), play.add()] == [1, 2]
    play.join(*range(1, 9), busy=True)
    assert (play.executors, play.target()) == (8, 8)
    assert play.offer(1) == []
    assert play.offer(2, 3) == []
    play.join(*range(9, 13), busy=True)
    assert (play.executors, play.target()) == (12, 8)
    assert play.offer(1) == ["1"]
    assert play.offer(2, 3, 4) == ["2", "3", "4"]
    assert play.offer(5) == []
    assert play.offer(6) == []
    play.leave(1, 2, 3, 4)
    assert play.executors == 8
    assert play.offer(7) == []
    assert play.offer(8) == []
    play.join(*range(13, 17), busy=True)
    assert play.executors == 12
    assert play.offer(5, 6, 7) == ["5", "6", "7"]
    assert play.offer(8) == ["8"]
    assert play.executors == 12
    play.leave(5, 6)
    assert play.executors == 10
    assert play.increment() == 4
    play.leave(9, 10)
    assert play.add() == 4
    play.join(17, 18, busy=True)
    assert play.executors == 10
    assert play.add() == 0
    play.join(19, 20, busy=True)
    assert (play.executors, play.target()) == (12, 12)


def test_n20_kills_never_move_the_target(manager: Manager) -> None:
    play = idle_fleet(manager)
    play.offer(1, 2)
    assert play.target() == 5
    if not play.config.testing:
        kill = next(command for command in play.commands if isinstance(command, Kill))
        assert kill.executors == ("1", "2")
        assert dict(play.requests()[-1].targets) == {0: 5}  # the totals are repeated after a kill
