"""The executors: what Spark's own scenarios leave out of ExecutorMonitor, and what is reported besides."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from podtide.domain.base.units import ALWAYS, DEFAULT_PROFILE, NEVER, UNKNOWN_PROFILE, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.reasons import Bound, Held, Phase
from podtide.domain.protocol.stimuli import (
    BlockUpdated,
    ExecutorAdded,
    ExecutorRemoved,
    ExecutorsActive,
    ExecutorsInactive,
    JobEnd,
    JobStage,
    JobStart,
    KillDisproved,
    RddBlock,
    ShuffleCleaned,
    ShuffleDataBlock,
    ShuffleRegistered,
    ShuffleUnneeded,
    StageCompleted,
    Stimulus,
    TaskEnd,
    TaskOutcome,
    TaskStart,
    UnpersistRDD,
)
from podtide.domain.scaling import executor_monitor
from podtide.domain.scaling.executor_monitor import Idleness
from tests.support.state_contents import idleness_contents

CONFIG = ScalingConfig(idle_timeout_ms=100, cached_idle_timeout_ms=500, shuffle_timeout_ms=1_000, shuffle_tracking=True)
A, B = ExecutorId("a"), ExecutorId("b")
OTHER = ProfileId(1)
REGISTERED = ShuffleRegistered(0, 0, 0, 0)


def after(*events: Stimulus, config: ScalingConfig = CONFIG) -> Idleness:
    return executor_monitor.fold(executor_monitor.empty(config), events, config)


def added(executor: ExecutorId = A, at: Millis = 0, profile: ProfileId = DEFAULT_PROFILE) -> Stimulus:
    return ExecutorAdded(at, executor, profile)


def started(at: Millis = 0, executor: ExecutorId = A) -> Stimulus:
    return TaskStart(at, 0, 0, 0, executor)


def ended(at: Millis = 0, executor: ExecutorId = A, outcome: TaskOutcome = TaskOutcome.SUCCESS) -> Stimulus:
    return TaskEnd(at, 0, 0, 0, executor, outcome=outcome)


def cached(at: Millis = 0, executor: ExecutorId = A, rdd: int = 0, valid: bool = True) -> Stimulus:
    return BlockUpdated(at, executor, RddBlock(rdd, 0), valid, False)


def shuffled(at: Millis = 0, executor: ExecutorId = A, shuffle: int = 0) -> Stimulus:
    return BlockUpdated(at, executor, ShuffleDataBlock(shuffle), True, True)


def job(number: int = 0, shuffle: int | None = 0, stage: int = 0) -> Stimulus:
    return JobStart(0, number, (JobStage(stage, shuffle),))


def deadline(idleness: Idleness, executor: ExecutorId = A) -> Millis:
    tracker = idleness.tracker(executor)
    assert tracker is not None
    return tracker.timeout_at


@pytest.mark.parametrize(
    ("events", "timeout_at"),
    [
        pytest.param([added()], 100, id="idle from the start"),
        pytest.param([added(), added(at=30)], 130, id="registered again, idle from then"),
        pytest.param([added(), started(10)], NEVER, id="busy"),
        pytest.param([added(), started(10), ended(50)], 150, id="idle again"),
        pytest.param([added(), ended(50)], 150, id="an end without a start makes idle anew"),
        pytest.param([added(), started(), started(), ended(50)], NEVER, id="one of two tasks ended"),
        pytest.param([added(), cached()], 500, id="cached blocks"),
        pytest.param([added(), cached(50), cached(60)], 500, id="count from when it fell idle"),
        pytest.param([added(), cached(), cached(valid=False)], 100, id="no cached blocks any more"),
        pytest.param([added(), cached(valid=False)], 100, id="an unknown block goes"),
        pytest.param([added(), cached(rdd=1), cached(), UnpersistRDD(0, 1)], 500, id="one of two RDDs is unpersisted"),
        pytest.param([added(), cached(), UnpersistRDD(0, 0)], 100, id="the only RDD is unpersisted"),
        pytest.param([added(), UnpersistRDD(0, 9)], 100, id="an RDD that nobody holds is unpersisted"),
        pytest.param([added(), BlockUpdated(0, A, None, True, False)], 100, id="a block of no interest"),
        pytest.param([added(), shuffled()], 100, id="shuffle data moves no deadline by itself"),
        pytest.param([added(), shuffled(), ended(50)], 1_050, id="the next task does"),
        pytest.param([added(), shuffled(), UnpersistRDD(0, 9)], 1_000, id="so does any unpersisted RDD"),
        pytest.param([added(), shuffled(), ended(50), ShuffleCleaned(0, 0)], 150, id="a cleaned shuffle"),
        pytest.param(
            [added(), shuffled(), shuffled(shuffle=1), ended(50), ShuffleCleaned(0, 0)], 1_050, id="one of two cleaned"
        ),
        pytest.param([job(), added(), ended(50)], 1_050, id="a map task leaves shuffle data"),
        pytest.param([job(), added(), ended(50, outcome=TaskOutcome.FAILED)], 150, id="not if it failed"),
        pytest.param([job(), JobEnd(0, 0), added(), ended(50)], 150, id="nor after the job"),
        pytest.param([job(shuffle=None), added(), REGISTERED, ended(50)], 1_050, id="a stage that turned out to map"),
        pytest.param([job(shuffle=None), REGISTERED, JobEnd(0, 0), added(), ended(50)], 150, id="until its job ends"),
        pytest.param([added(), shuffled(), ended(50), ShuffleUnneeded(60, 0)], 1_050, id="unneeded is not cleaned"),
        pytest.param([job(), JobEnd(0, 0), JobEnd(0, 0), added(), ended(50)], 150, id="nor after it ended twice"),
        pytest.param([added(), StageCompleted(0, 0, 0)], 100, id="stages are of no concern"),
    ],
)
def test_deadlines(events: list[Stimulus], timeout_at: Millis) -> None:
    assert deadline(after(*events)) == timeout_at


def test_rosters_count_per_profile() -> None:
    idleness = after(added(), added(B, profile=OTHER), started(executor=B))
    assert {profile: (r.count, r.busy) for profile, r in idleness.rosters().items()} == {0: (1, 0), 1: (1, 1)}
    idleness = executor_monitor.mark(idleness, (A, ExecutorId("nobody")), decommissioned=False)
    idleness = executor_monitor.mark(idleness, (B,), decommissioned=True)
    assert idleness.roster(DEFAULT_PROFILE).remaining == 0
    assert idleness.roster(OTHER).remaining == 0
    assert idleness.stale()
    idleness = executor_monitor.fold(idleness, [KillDisproved(5, (A, B, ExecutorId("nobody")))], CONFIG)
    assert idleness.roster(DEFAULT_PROFILE).remaining == 1
    assert idleness.roster(OTHER).remaining == 1
    idleness = executor_monitor.reset(idleness)
    assert idleness.total() == 0
    assert idleness.roster(DEFAULT_PROFILE).count == 0


def listed_at(idleness: Idleness, now: Millis) -> tuple[Idleness, list[ExecutorId]]:
    idleness, _ = executor_monitor.look(idleness, now)
    return idleness, sorted(e for ids in idleness.timed_out().values() for e in ids)


def test_the_list_is_drawn_up_only_when_something_is_due() -> None:
    idleness, listed = listed_at(after(added(), added(B, at=50)), 100)
    assert listed == [A]
    idleness, listed = listed_at(idleness, 149)
    assert listed == [A]
    idleness, listed = listed_at(idleness, 150)
    assert listed == [A, B]
    again, _ = listed_at(idleness, 10_000)
    assert again is idleness  # nothing is due: it is the same value


def test_the_profile_of_a_listed_executor_is_the_one_it_had_when_listed() -> None:
    """An executor is listed with an unknown profile; its profile becomes known at the next look, not before."""
    unknown = after(ExecutorsActive(0, (A,)), started(), ended(1))
    idleness, _ = listed_at(unknown, 101)
    assert idleness.timed_out() == {UNKNOWN_PROFILE: (A,)}
    known = executor_monitor.fold(idleness, [added(at=102)], CONFIG)
    assert known.timed_out() == {UNKNOWN_PROFILE: (A,)}
    assert executor_monitor.look(known, 103)[0].timed_out() == {}
    assert executor_monitor.look(known, 202)[0].timed_out() == {DEFAULT_PROFILE: (A,)}


def test_many_renewed_deadlines_take_no_room() -> None:
    """Deadlines that moved on wait behind the one of an executor that stays idle; they are thrown out in time."""
    config = replace(CONFIG, idle_timeout_ms=100_000)
    passing = ExecutorId("passing")
    idleness = after(added(), added(B), config=config)
    for at in range(1, 1_000):
        events = [started(at), ended(at), added(passing, at), ExecutorRemoved(at, passing)]
        idleness, _ = executor_monitor.look(executor_monitor.fold(idleness, events, config), at)
    books = idleness._tables
    assert len(books.heap) <= 4 * len(books.trackers) + 65
    assert idleness.due() == 100_000
    _, listed = listed_at(idleness, 100_999)
    assert listed == [A, B]


@pytest.mark.parametrize(
    ("reason", "marked", "removals"),
    [
        ("", None, (0, 0, 0, 1)),
        ("Command exited with code 137", None, (0, 0, 0, 1)),
        ("", False, (0, 0, 1, 0)),
        ("", True, (0, 1, 0, 0)),
        ("Finished decommissioning", None, (1, 0, 0, 0)),
        ("Finished decommissioning", True, (1, 0, 0, 0)),
        ("Finished decommissioning.", False, (0, 0, 1, 0)),
        ("Executor decommission: spark scale down", None, (1, 0, 0, 0)),
        ("executor decommission: spark scale down", None, (0, 0, 0, 1)),
    ],
)
def test_how_executors_left(reason: str, marked: bool | None, removals: tuple[int, ...]) -> None:
    idleness = after(added())
    if marked is not None:
        idleness = executor_monitor.mark(idleness, (A,), decommissioned=marked)
    idleness = executor_monitor.fold(idleness, [ExecutorRemoved(1, A, reason), ExecutorRemoved(1, A, reason)], CONFIG)
    assert idleness.removals() == removals
    assert idleness.stale()


def test_an_executor_killed_and_decommissioned_leaves_without_a_new_look() -> None:
    """Spark draws the list up anew unless both flags are set: the one case in which nothing is forced."""
    idleness = executor_monitor.mark(after(added()), (A,), decommissioned=False)
    idleness = executor_monitor.mark(idleness, (A,), decommissioned=True)
    idleness, _ = listed_at(idleness, 0)
    assert not idleness.stale()
    idleness = executor_monitor.fold(idleness, [ExecutorRemoved(1, A)], CONFIG)
    assert not idleness.stale()
    assert idleness.removals() == (0, 1, 0, 0)


def test_limits_are_those_of_the_config_at_the_next_event() -> None:
    idleness = after(added(), started(), cached())
    longer = replace(CONFIG, idle_timeout_ms=700, cached_idle_timeout_ms=600)
    assert deadline(executor_monitor.fold(idleness, [ended(10)], longer)) == 710
    assert deadline(executor_monitor.fold(idleness, [ended(10)], CONFIG)) == 510


# ------------------------------------------------------------------------------------------------ shuffles and jobs


def needed(idleness: Idleness, executor: ExecutorId = A) -> bool:
    tracker = idleness.tracker(executor)
    assert tracker is not None
    return tracker.active_shuffle


# ------------------------------------------------------------------------------------------------------------ reports


def told(idleness: Idleness, *times: Millis) -> list[tuple[Millis, Phase, Bound, tuple[str, ...]]]:
    heard: list[Held] = []
    for now in times:
        idleness, reports = executor_monitor.look(idleness, now)
        heard.extend(reports)
    return [(held.at, held.phase, held.bound, held.executors) for held in heard]


def test_data_that_keeps_an_executor_is_reported_from_the_idle_timeout_on() -> None:
    idleness = after(added(), added(B), cached(), cached(executor=B))
    assert told(idleness, 99, 100, 101, 499, 500, 501) == [
        (100, Phase.BEGAN, Bound.CACHED_DATA, (A, B)),
        (500, Phase.ENDED, Bound.CACHED_DATA, (A, B)),
    ]


def test_the_data_that_keeps_an_executor_longest_is_the_reason() -> None:
    config = replace(CONFIG, shuffle_timeout_ms=300)
    for shuffle_longer, bound in ((CONFIG, Bound.SHUFFLE_DATA), (config, Bound.CACHED_DATA)):
        idleness = after(job(), added(), ended(), JobEnd(0, 0), cached(), config=shuffle_longer)
        assert told(idleness, 100) == [(100, Phase.BEGAN, bound, (A,))]


def test_shuffle_data_is_one_reason_whether_a_job_needs_it_or_not() -> None:
    idleness, reports = executor_monitor.look(after(job(), added(), ended()), 200)
    assert [(r.phase, r.bound) for r in reports] == [(Phase.BEGAN, Bound.SHUFFLE_DATA)]
    idleness = executor_monitor.fold(idleness, [JobEnd(250, 0)], CONFIG)
    assert told(idleness, 300, 1_000) == [(1_000, Phase.ENDED, Bound.SHUFFLE_DATA, (A,))]


def test_a_change_of_reason_is_told() -> None:
    config = replace(CONFIG, shuffle_timeout_ms=300)
    idle = after(job(), added(), ended(), JobEnd(0, 0), cached(), config=config)
    idleness, reports = executor_monitor.look(idle, 200)
    assert [(r.phase, r.bound) for r in reports] == [(Phase.BEGAN, Bound.CACHED_DATA)]
    idleness = executor_monitor.fold(idleness, [cached(250, valid=False)], config)
    assert idleness.due() == ALWAYS
    assert told(idleness, 260, 300) == [
        (260, Phase.CHANGED, Bound.SHUFFLE_DATA, (A,)),
        (300, Phase.ENDED, Bound.SHUFFLE_DATA, (A,)),
    ]


@pytest.mark.parametrize(
    "end",
    [started(150), ExecutorRemoved(150, A), cached(150, valid=False)],
    ids=["it runs a task", "it is removed", "the data is gone"],
)
def test_what_kept_an_executor_ends_with_it(end: Stimulus) -> None:
    idleness, _ = executor_monitor.look(after(added(), cached()), 100)
    assert told(executor_monitor.fold(idleness, [end], CONFIG), 200) == [(200, Phase.ENDED, Bound.CACHED_DATA, (A,))]


def test_a_reset_ends_what_was_reported() -> None:
    idleness, _ = executor_monitor.look(after(added(), cached()), 100)
    assert told(executor_monitor.reset(idleness), 200) == [(200, Phase.ENDED, Bound.CACHED_DATA, (A,))]


# ----------------------------------------------------------------------------------------------------------- versions

STORY: list[Stimulus] = [
    added(),
    ExecutorsActive(1, (B,)),
    started(2, B),
    added(B, 3, OTHER),
    job(),
    started(5),
    ended(6),
    cached(7, B),
    cached(8, B, rdd=1),
    BlockUpdated(8, B, RddBlock(0, 1), True, False),
    BlockUpdated(8, B, RddBlock(0, 1), False, False),
    cached(8, B, rdd=2),
    cached(8, B, rdd=2, valid=False),
    JobEnd(9, 0),
    ended(10, B),
    UnpersistRDD(11, 1),
    job(1, stage=3),
    shuffled(12, B, shuffle=5),
    ShuffleCleaned(13, 5),
    ShuffleCleaned(13, 0),
    ExecutorsInactive(14, (B,)),
    ExecutorRemoved(15, A),
]


def plainly(idleness: Idleness) -> dict[str, object]:
    return {
        table: sorted(rows, key=repr) if isinstance(rows, list) and table not in ("limits", "removals") else rows
        for table, rows in idleness_contents(idleness).items()
    }


def test_an_older_idleness_answers_as_before() -> None:
    versions = [executor_monitor.empty(CONFIG)]
    then = [plainly(versions[0])]
    for number, event in enumerate(STORY):
        versions.append(executor_monitor.fold(versions[-1], [event], CONFIG))
        then.append(plainly(versions[-1]))
        looked, _ = executor_monitor.look(versions[-1], 100 + number)
        if looked is not versions[-1]:
            versions.append(looked)
            then.append(plainly(looked))
    marked = executor_monitor.mark(versions[-1], (B,), decommissioned=False)
    versions.append(marked)
    then.append(plainly(marked))
    for place in sorted(range(len(versions)), key=lambda n: abs(n - len(versions) // 2)):
        assert plainly(versions[place]) == then[place]
        assert plainly(pickle.loads(pickle.dumps(versions[place]))) == then[place]


def test_a_fold_that_raises_leaves_the_idleness_as_it_was() -> None:
    idleness = executor_monitor.fold(executor_monitor.empty(CONFIG), STORY[:6], CONFIG)
    before, roster = plainly(idleness), idleness.roster(DEFAULT_PROFILE)
    unhashable: Any = ExecutorAdded(9, [A], DEFAULT_PROFILE)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        executor_monitor.fold(idleness, [*STORY[6:], unhashable], CONFIG)
    assert plainly(idleness) == before
    assert idleness.roster(DEFAULT_PROFILE) == roster


def test_what_an_idleness_answers_does_not_change_with_the_next_step() -> None:
    idleness, _ = listed_at(after(added()), 200)
    answers = idleness.rosters(), idleness.trackers(), idleness.timed_out(), idleness.roster(DEFAULT_PROFILE)
    kept = repr(answers)
    executor_monitor.look(executor_monitor.fold(idleness, [added(B, at=201), ExecutorRemoved(202, A)], CONFIG), 400)
    assert repr(answers) == kept
