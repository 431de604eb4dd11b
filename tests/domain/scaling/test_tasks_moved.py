"""TasksMoved means the same as the starts and ends that it stands for, whatever was before, and for older versions too."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.units import DEFAULT_PROFILE, UNKNOWN_PROFILE, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.stimuli import (
    ExecutorAdded,
    ExecutorsInactive,
    ExecutorTurn,
    JobStage,
    JobStart,
    Move,
    SpeculativeTaskSubmitted,
    StageCompleted,
    StageSubmitted,
    Stimulus,
    TaskEnd,
    TasksMoved,
    TaskStart,
)
from podtide.domain.scaling import executor_monitor, load as loads
from podtide.domain.scaling.executor_monitor import Idleness
from podtide.domain.scaling.load import Load, QueueEmptied
from tests.properties.happenings import Happening, Run, configs, happenings
from tests.support.state_contents import idleness_contents, load_contents

NAMES = tuple(map(ExecutorId, ("1", "2", "10", "driver", "unheard of")))
CONFIG = ScalingConfig(idle_timeout_ms=1_000)
WINDOW = 100
"""What a TasksMoved tells of lies within so many ms."""


class Work(NamedTuple):
    """Tasks of an attempt: those from ``first`` on start on these executors; some end, on these executors, so long ago."""

    stage: int
    attempt: int
    first: int
    starts: tuple[ExecutorId, ...]
    ends: tuple[tuple[ExecutorId, Millis], ...]


works = st.lists(
    st.builds(
        Work,
        st.integers(0, 2),
        st.sampled_from([0, 0, 0, 1]),
        st.integers(0, 5),
        st.lists(st.sampled_from(NAMES), max_size=4).map(tuple),
        st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 90)), max_size=4).map(tuple),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda work: (work.stage, work.attempt),
)


def one_by_one(some: list[Work], now: Millis) -> list[Stimulus]:
    """First the starts, then the ends, in the order of time."""
    starts = [
        TaskStart(now, work.stage, work.attempt, work.first + place, executor)
        for work in some
        for place, executor in enumerate(work.starts)
    ]
    ends = [
        TaskEnd(now - ago, work.stage, work.attempt, work.first, executor)
        for work in some
        for executor, ago in work.ends
    ]
    return [*starts, *sorted(ends)]


def in_sum(some: list[Work], now: Millis) -> TasksMoved:
    """The same as one."""
    turns: dict[ExecutorId, ExecutorTurn] = {}
    outputs: dict[tuple[ExecutorId, int], None] = {}
    for work in some:
        for executor in work.starts:
            known = turns.get(executor, ExecutorTurn(executor, 0, -1))
            turns[executor] = known._replace(change=known.change + 1)
        for executor, ago in work.ends:
            known = turns.get(executor, ExecutorTurn(executor, 0, -1))
            turns[executor] = ExecutorTurn(executor, known.change - 1, max(known.ended, now - ago))
            outputs[executor, work.stage] = None
    moves = tuple(
        Move(work.stage, work.attempt, work.first, work.first + len(work.starts), len(work.ends)) for work in some
    )
    told = tuple(turn for turn in turns.values() if turn.change or turn.ended >= 0)
    return TasksMoved(now, moves, told, tuple(outputs))


def plain(load: Load) -> dict[str, object]:
    """All of a load, whatever order its attempts came in."""
    found = load_contents(load)
    return {**found, "attempts": sorted(map(repr, found["attempts"]))}


def demands(load: Load) -> list[object]:
    return [load.tasks_wait(), *(load.demand(ProfileId(profile)) for profile in (-1, 0, 1, 2, 3, 16))]


def has_copies(load: Load, work: Work) -> bool:
    attempt = load._tables.attempts.get((work.stage, work.attempt))
    return attempt is not None and attempt.spec_pending is not None


@pytest.mark.uncounted
@given(configs(), happenings, works, st.booleans())
def test_the_load(config: ScalingConfig, story: list[Happening], some: list[Work], repair: bool) -> None:
    run = Run(replace(config, repair_pending=repair)).live(story)
    before = run.state.load.version
    some = [work._replace(ends=()) if has_copies(before, work) else work for work in some]
    kept = plain(before), demands(before)
    now = run.now + WINDOW
    single = loads.fold(before, one_by_one(some, now), repair_pending=repair)
    expected = plain(single), demands(single), [type(signal) for signal in single.signals]
    assert (plain(before), demands(before)) == kept  # it takes its books back

    summed = loads.fold(before, [in_sum(some, now)], repair_pending=repair)
    assert (plain(summed), demands(summed), [type(signal) for signal in summed.signals]) == expected
    assert set(expected[2]) <= {QueueEmptied}
    counted = summed._tables.copy()
    counted.recount()
    assert (counted.waiting, counted.spec_waiting, counted.open) == (
        summed._tables.waiting, summed._tables.spec_waiting, summed._tables.open,
    )  # fmt: skip
    assert (plain(before), demands(before)) == kept
    assert (plain(single), demands(single)) == expected[:2]


def possible(idleness: Idleness, some: list[Work]) -> list[Work]:
    """Without what no scheduler says: starts on executors that are not active, ends of more tasks than ever ran."""
    running = {name: tracker.running for name, tracker in idleness.trackers().items()}
    active = idleness._tables.active
    some = [work._replace(starts=tuple(one for one in work.starts if one in active)) for work in some]
    for work in some:
        for executor in work.starts:
            running[executor] = running.get(executor, 0) + 1
    left = []
    for work in some:
        ends = []
        for executor, ago in work.ends:
            if running.get(executor, 0):
                running[executor] -= 1
                ends.append((executor, ago))
        left.append(work._replace(ends=tuple(ends)))
    return left


def whole(idleness: Idleness) -> dict[str, object]:
    """All of an idleness, whatever order things came in."""
    found = idleness_contents(idleness)
    return {name: sorted(map(repr, value)) if isinstance(value, list) else value for name, value in found.items()}


def looks(idleness: Idleness, now: Millis) -> list[object]:
    """What it says when it is looked at then and later."""
    found: list[object] = []
    for later in (now, now + 500, now + 5_000):
        looked, held = executor_monitor.look(idleness, later)
        found += [{profile: tuple(ids) for profile, ids in looked.timed_out().items()}, held]
    return found


@pytest.mark.uncounted
@given(configs(), happenings, works)
def test_the_idleness(config: ScalingConfig, story: list[Happening], some: list[Work]) -> None:
    run = Run(config).live(story)
    before = run.state.scaling.idleness
    some = possible(before, some)
    kept = whole(before)
    now = run.now + WINDOW
    single = executor_monitor.fold(before, one_by_one(some, now), config)
    expected, seen = whole(single), looks(single, now)
    assert whole(before) == kept  # it takes its books back

    summed = executor_monitor.fold(before, [in_sum(some, now)], config)
    found = whole(summed)
    # one by one, an executor may fall idle in between for no time at all: the next look may come earlier then
    assert expected.pop("next_timeout") <= found.pop("next_timeout")  # type: ignore[operator]
    assert found == expected
    assert looks(summed, now) == seen
    assert whole(before) == kept


def begun(*events: Stimulus) -> Load:
    return loads.fold(loads.empty(), events)


SUBMITTED = StageSubmitted(0, 0, 0, 10, DEFAULT_PROFILE)


@pytest.mark.parametrize(
    ("before", "move", "pending", "running"),
    [
        ((), Move(0, 0, 0, 3, 1), 7, 2),
        ((), Move(0, 0, 0, 10, 10), 0, 0),
        ((), Move(0, 0, 0, 0, 0), 10, 0),
        ((TaskStart(0, 0, 0, 1, NAMES[0]),), Move(0, 0, 0, 3, 0), 7, 4),  # a task that started already runs again
        ((TaskStart(0, 0, 0, 1, NAMES[0]),), Move(0, 0, 2, 4, 3), 7, 0),
        ((TaskStart(0, 0, 0, 1, NAMES[0]),), Move(0, 0, 2, 3, 9), 8, 0),  # more ends than there are tasks
        ((StageCompleted(0, 0, 0),), Move(0, 0, 0, 3, 1), 0, 0),  # late news count, but of no profile any more
        ((TaskStart(0, 0, 0, 0, NAMES[0]), StageCompleted(0, 0, 0)), Move(0, 0, 1, 4, 1), -3, 3),  # SPARK-58446
        ((TaskStart(0, 0, 0, 0, NAMES[0]), StageCompleted(0, 0, 0)), Move(0, 0, 1, 1, 1), 0, 0),
        ((), Move(7, 0, 0, 3, 1), 10, 0),  # nobody submitted it
        ((SpeculativeTaskSubmitted(0, 0, 0, 1),), Move(0, 0, 0, 2, 0), 8, 2),
    ],
)
def test_what_is_counted(before: tuple[Stimulus, ...], move: Move, pending: int, running: int) -> None:
    earlier = begun(SUBMITTED, *before)
    demand = earlier.demand(DEFAULT_PROFILE)
    load = loads.fold(earlier, [TasksMoved(5, (move,))])
    assert (load.demand(DEFAULT_PROFILE).pending, load.demand(DEFAULT_PROFILE).running) == (pending, running)
    assert earlier.demand(DEFAULT_PROFILE) == demand
    once_more = loads.fold(earlier, [TasksMoved(5, (move,))])
    assert once_more.demand(DEFAULT_PROFILE) == load.demand(DEFAULT_PROFILE)


def fleet(*events: Stimulus, config: ScalingConfig = CONFIG) -> Idleness:
    joined = [ExecutorAdded(0, name, DEFAULT_PROFILE) for name in NAMES[:3]]
    return executor_monitor.fold(executor_monitor.empty(config), [*joined, *events], config)


@pytest.mark.parametrize(
    ("before", "turn", "running", "idle_start", "timeout_at"),
    [
        ((), ExecutorTurn(NAMES[0], 2, 0), 2, -1, None),
        ((TaskStart(10, 0, 0, 0, NAMES[0]),), ExecutorTurn(NAMES[0], 1, 40), 2, -1, None),
        ((TaskStart(10, 0, 0, 0, NAMES[0]),), ExecutorTurn(NAMES[0], -1, 40), 0, 40, 1_040),
        ((TaskStart(10, 0, 0, 0, NAMES[0]),), ExecutorTurn(NAMES[0], 0, 40), 1, -1, None),
        ((), ExecutorTurn(NAMES[0], 0, 40), 0, 40, 1_040),  # it has worked and is idle again
        ((), ExecutorTurn(NAMES[0], -1, 40), 0, 40, 1_040),
    ],
)
def test_who_is_idle(
    before: tuple[Stimulus, ...], turn: ExecutorTurn, running: int, idle_start: int, timeout_at: int | None
) -> None:
    earlier = fleet(*before)
    kept = idleness_contents(earlier)
    tracker = executor_monitor.fold(earlier, [TasksMoved(50, (), (turn,))], CONFIG).tracker(NAMES[0])
    assert tracker is not None
    assert (tracker.running, tracker.idle_start) == (running, idle_start)
    assert timeout_at is None or tracker.timeout_at == timeout_at
    assert idleness_contents(earlier) == kept


@pytest.mark.parametrize(("change", "running"), [(1, 1), (0, 0)])
def test_who_was_forgotten_and_works_is_tracked_again(change: int, running: int) -> None:
    """After ExecutorMonitor.reset() the scheduler backend still holds executors for active."""
    forgotten = executor_monitor.reset(fleet())
    tracker = executor_monitor.fold(
        forgotten, [TasksMoved(50, (), (ExecutorTurn(NAMES[0], change, 40),))], CONFIG
    ).tracker(NAMES[0])
    assert tracker is not None
    assert (tracker.profile, tracker.running) == (UNKNOWN_PROFILE, running)
    assert forgotten.tracker(NAMES[0]) is None


def test_who_leaves_starts_nothing_but_ends() -> None:
    leaving = fleet(TaskStart(10, 0, 0, 0, NAMES[0]), ExecutorsInactive(20, (NAMES[0],)))
    for change, running in ((1, 1), (0, 1), (-1, 0)):
        idleness = executor_monitor.fold(leaving, [TasksMoved(50, (), (ExecutorTurn(NAMES[0], change, 40),))], CONFIG)
        tracker = idleness.tracker(NAMES[0])
        assert tracker is not None
        assert tracker.running == running


@pytest.mark.parametrize("tracking", [True, False])
def test_outputs(tracking: bool) -> None:
    """Output of a map stage of a job under way makes its executor shuffle-active; that of any other stage does not."""
    config = ScalingConfig(shuffle_tracking=tracking)
    before = fleet(JobStart(0, 0, (JobStage(0, 7), JobStage(1))), config=config)
    moved = TasksMoved(50, (), (), ((NAMES[0], 0), (NAMES[1], 1), (NAMES[2], 9), (NAMES[4], 0)))
    after = executor_monitor.fold(before, [moved], config)
    trackers = [after.trackers()[name] for name in NAMES[:3]]
    assert [tracker.active_shuffle for tracker in trackers] == [tracking, False, False]
    assert [tracker.shuffles for tracker in trackers] == [int(tracking), 0, 0]
    assert NAMES[4] not in after.trackers()
    assert not any(tracker.shuffles for tracker in before.trackers().values())
