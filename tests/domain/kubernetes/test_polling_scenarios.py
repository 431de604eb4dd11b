"""What Spark's own suite asks of ExecutorAllocationManager: the timer, the polling loop, hints, reset (N21 to N34)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from podtide.domain.protocol.commands import Decommission, Kill
from podtide.domain.protocol.reasons import Cause
from podtide.domain.protocol.stimuli import Reset, TaskOutcome
from tests.domain.conftest import SECOND
from tests.support.scaling_play import Play

Manager = Callable[..., Play]

IDLE = 3 * SECOND
BACKLOG = 1 * SECOND
SUSTAINED = 2 * SECOND


def test_n21_the_backlog_timer_starts_once(manager: Manager) -> None:
    play = manager(2, 10, 2, now=8_888)
    assert play.add_time is None
    play.stage(0, 2)
    first = play.now + BACKLOG
    assert play.add_time == first
    for after in (100, 200):
        play.now += after
        play.stage(after, 1)
        assert play.add_time == first
    play.run(0, range(2))
    play.run(100, [0])
    play.run(200, [0])
    play.now += 1_000
    assert play.add_time is None
    play.stage(1, 1)
    second = play.now + BACKLOG
    assert play.add_time == second
    play.now += 100
    play.stage(2, 1)
    assert play.add_time == second
    assert first != second


def test_n22_nothing_happens_without_events(manager: Manager) -> None:
    play = manager(0, 20, 0, now=2_020)
    for after in (0, 100, 1_000, 10_000):
        assert play.tick(after) == []
        assert play.target() == 0
        assert play.pending_removal == set()


def test_n23_targets_grow_by_the_clock(manager: Manager) -> None:
    play = manager(0, 20, 0, now=2_020)
    play.stage(0, 1000)
    for after, target in (
        (BACKLOG // 2, 0),
        (BACKLOG, 1),
        (SUSTAINED // 2, 1),
        (SUSTAINED, 1 + 2),
        (SUSTAINED, 1 + 2 + 4),
    ):
        play.tick(after)
        assert play.target() == target
    play.run(0, range(1000))  # the queue is empty
    for _ in range(2):
        play.tick(SUSTAINED)
        assert play.target() == 7
    play.stage(1, 1)
    for after, target in (
        (BACKLOG, 7 + 1),
        (SUSTAINED, 7 + 1 + 2),
        (SUSTAINED, 7 + 1 + 2 + 4),
        (SUSTAINED, 20),
    ):
        play.tick(after)
        assert play.target() == target


@pytest.mark.parametrize("decommission", [False, True], ids=["n24", "n25"])
def test_n24_n25_idle_executors_go_by_the_clock(manager: Manager, decommission: bool) -> None:
    play = manager(1, 20, 1, now=2_020, decommission=decommission)

    def going() -> set[str]:
        assert not (play.pending_removal if decommission else play.decommissioning)
        return play.decommissioning if decommission else play.pending_removal

    play.join("executor-1", "executor-2", "executor-3")
    assert going() == set()
    play.tick(IDLE // 2)
    assert play.listed == []
    assert going() == set()
    play.tick(IDLE)
    assert play.listed == ["executor-1", "executor-2", "executor-3"]
    assert len(going()) == 2  # one executor stays: the minimum
    play.join("executor-4", "executor-5", "executor-6", "executor-7")
    assert play.executors == 7
    assert len(going()) == 2
    for executor in ("executor-4", "executor-5", "executor-6"):
        play.run(1, [1], executor, attempt=1)
    play.tick()
    assert going() == {"executor-1", "executor-2", "executor-3"}
    play.tick(IDLE)
    assert going() == {"executor-1", "executor-2", "executor-3", "executor-7"}
    for executor in ("executor-4", "executor-5", "executor-6"):
        play.end(1, [1], executor, attempt=1)
    play.tick()
    assert len(going()) == 4
    play.tick(IDLE)
    assert len(going()) == 6
    kind = Decommission if decommission else Kill
    assert len(play.kills()) == (0 if play.config.testing else 4)
    assert all(isinstance(c, kind) for c in play.commands if isinstance(c, Kill | Decommission))


def test_n26_the_timer_stops_when_every_task_has_started(manager: Manager) -> None:
    play = manager(1, 20, 1)
    assert play.add_time is None
    play.stage(0, 10)
    assert play.add_time is not None
    play.run(0, range(1, 10), "executor-1")
    assert play.add_time is not None
    play.run(0, [0], "executor-1")
    assert play.add_time is None
    play.stage(1, 10)
    play.stage(2, 10)
    assert play.add_time is not None
    play.run(1, range(10), "executor-1")
    assert play.add_time is not None
    play.run(2, range(10), "executor-1")
    assert play.add_time is None


def test_n27_growth_begins_at_the_executors_there_are(manager: Manager) -> None:
    play = manager(0, 100_000, 0)
    play.stage(0, 1000)
    assert [play.add() for _ in range(4)] == [1, 2, 4, 8]
    assert play.target() == 15
    play.join(*(f"executor-{i}" for i in range(15)))
    assert play.executors == 15
    play.complete(0)
    play.tick()
    assert play.target() == 0
    play.stage(1, 1000)
    play.add()
    assert play.target() == 16


def test_n28_initial_executors_stay_until_the_first_stage(manager: Manager) -> None:
    play = manager(2, 5, 3, now=10_000)
    assert play.target() == 3
    play.tick()
    assert play.target() == 3
    play.stage(1, 2)
    play.now += 100
    assert play.need() == 2
    play.tick()
    assert play.target() == 2


def test_n29_initial_executors_stay_until_one_times_out(manager: Manager) -> None:
    play = manager(2, 5, 3, now=10_000)
    play.tick()
    assert play.target() == 3
    play.join(0, 1, 2)
    play.now += IDLE
    assert play.need() == 0
    assert play.target() == 3
    play.tick()
    assert play.target() == 2


def test_n30_locality_hints_are_summed_over_stages(manager: Manager) -> None:
    play = manager(2, 5, 3)
    play.stage(1, 5, locality=[["h1", "h2", "h3"], ["h1", "h2", "h4"], ["h2", "h3", "h4"], [], []])
    placement = play.state.load.placement()
    assert placement.tasks == {0: 3}
    assert placement.hosts == {0: {"h1": 2, "h2": 3, "h3": 2, "h4": 2}}
    play.stage(2, 3, locality=[["h2", "h3", "h5"], ["h3", "h4", "h5"], []])
    placement = play.state.load.placement()
    assert placement.tasks == {0: 5}
    assert placement.hosts == {0: {"h1": 2, "h2": 4, "h3": 4, "h4": 3, "h5": 2}}
    play.complete(1)
    placement = play.state.load.placement()
    assert placement.tasks == {0: 2}
    assert placement.hosts == {0: {"h2": 1, "h3": 2, "h4": 1, "h5": 2}}


def test_n31_a_failed_task_is_needed_again(manager: Manager) -> None:
    play = manager()
    assert play.need() == 0
    play.stage(0, 1)
    assert play.need() == 1
    play.run(0, [1], "executor-1")
    assert play.need() == 1
    play.end(0, [1], "executor-1", outcome=TaskOutcome.FAILED)
    assert play.need() == 1


def grown(manager: Manager) -> Play:
    play = manager(1, 5, 1)
    play.stage(0, 10)
    assert [play.add() for _ in range(3)] == [1, 2, 1]
    assert play.target() == 5
    return play


def reset(play: Play) -> None:
    play.feed(Reset(play.now))
    assert (play.target(), play.increment()) == (1, 1)
    assert play.executors == 0
    assert play.pending_removal == set()
    assert play.add_time == 0  # expired rather than unset: the next tick adds


def test_n32_reset_with_executors_on_their_way(manager: Manager) -> None:
    reset(grown(manager))


def test_n32_reset_after_executors_came_and_were_lost(manager: Manager) -> None:
    play = grown(manager)
    play.join("first", "second", "third", "fourth", "fifth")
    assert play.executors == 5
    play.leave("first", "second", "third", "fourth", "fifth")
    reset(play)
    assert play.add() == 1


def test_n32_reset_with_executors_pending_removal(manager: Manager) -> None:
    play = grown(manager)
    names = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"]
    play.join(*names, busy=True)
    assert play.executors == 8
    assert play.offer("first") == ["first"]
    assert play.offer("second", "third") == ["second", "third"]
    assert play.pending_removal == {"first", "second", "third"}
    assert play.executors == 8
    play.leave("first", "second", "third", "fourth", "fifth")
    reset(play)


def test_n33_killing_idle_executors_leaves_the_target_alone(manager: Manager) -> None:
    play = manager(1, 2, 1)
    play.join("executor-1")
    play.stage(0, 2)
    play.tick(1_000)
    assert play.target() == 2
    play.run(0, [0], "executor-1")
    play.join("executor-2")
    play.run(0, [1], "executor-2")
    assert play.target() == 2
    play.end(0, [0], "executor-1")
    assert (play.need(), play.target()) == (1, 2)
    play.tick(1_000)
    assert play.target() == 1
    assert play.pending_removal == set()
    play.tick(IDLE)
    assert (play.need(), play.target()) == (1, 1)
    assert play.pending_removal == {"executor-1"}
    if not play.config.testing:
        assert [request.why.cause for request in play.requests()][-1] is Cause.RESYNC


def test_n34_one_tick_ends_the_beginning_and_lowers_the_target(manager: Manager) -> None:
    play = manager(1, 5, 3, now=10_000)
    assert play.target() == 3
    play.join("executor-1", "executor-2", "executor-3")
    play.tick(IDLE)
    assert play.target() == 1
    assert play.pending_removal == {"executor-1", "executor-2"}
