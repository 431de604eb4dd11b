"""From one look at the driver to the next: which events they amount to, in which order, and what is guessed."""

from __future__ import annotations

from typing import Any

import pytest

from podtide.domain import engine
from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.live import driver_view
from podtide.domain.live.driver_shuffles import UNEXPLAINED, UNSEEN_JOB
from podtide.domain.live.driver_snapshot import (
    DriverSnapshot,
    ExecutorSeen,
    JobSeen,
    ProfileSeen,
    StageSeen,
    StageStatus,
    ViewConfig,
)
from podtide.domain.live.driver_view import CACHED_BLOCK, NOBODY, UNSEEN, ViewState
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.executor_stimuli import ExecutorBusy, ExecutorDisconnected, RegisterExecutor, Wake
from podtide.domain.protocol.stimuli import (
    BlockUpdated,
    JobEnd,
    JobStage,
    JobStart,
    ResourceProfileAdded,
    ShuffleCleaned,
    ShuffleDataBlock,
    ShuffleRegistered,
    StageCompleted,
    StageSubmitted,
    TaskEnd,
    TaskOutcome,
    TaskStart,
)
from tests.support.engine_play import AppPlay, config

CONFIG = ViewConfig()
S = 1_000


def executor(number: object, active: int = 0, total: int | None = None, **seen: Any) -> ExecutorSeen:
    """An executor; without a total it has finished nothing."""
    return ExecutorSeen(
        ExecutorId(str(number)), address=f"h{number}:7079", active_tasks=active,
        total_tasks=active if total is None else total, **seen,
    )  # fmt: skip


def stage(number: int, tasks: int, active: int = 0, complete: int = 0, *, attempt: int = 0, **seen: Any) -> StageSeen:
    return StageSeen(number, attempt, seen.pop("status", StageStatus.ACTIVE), tasks, active, complete, **seen)


def shot(*seen: Any, profiles: tuple[ProfileSeen, ...] = ()) -> DriverSnapshot:
    """A look made of jobs, stages and executors, in any order."""
    return DriverSnapshot(
        tuple(one for one in seen if isinstance(one, JobSeen)),
        tuple(one for one in seen if isinstance(one, StageSeen)),
        tuple(one for one in seen if isinstance(one, ExecutorSeen)),
        profiles,
    )


class Looks:
    """Looks at a driver every half second."""

    def __init__(self, config: ViewConfig = CONFIG) -> None:
        self.config = config
        self.state: ViewState = driver_view.empty()
        self.now: Millis = 0

    def at(self, snapshot: DriverSnapshot, after: Millis = 500) -> list[Any]:
        self.now += after
        step = driver_view.look(self.state, (snapshot,), self.config, self.now)
        self.state = step.state
        assert not step.reports
        return [one._replace(at=0) for one in step.commands]


def said(heard: list[Any], *kinds: type[Any]) -> list[Any]:
    return [one for one in heard if isinstance(one, kinds)]


E1, E2, E3 = (ExecutorId(str(number)) for number in (1, 2, 3))


# ----------------------------------------------------------------------------------------------------------- first look


def test_attaching_in_the_middle_of_an_application() -> None:
    heard = Looks().at(
        shot(
            executor(10, 1, 5, added_at=300, profile=ProfileId(1)), executor(9, 0, 4, added_at=300),
            executor(2, 1, 1, added_at=900), executor("driver", added_at=1), executor(3, total=2)._replace(active=False),
            JobSeen(4, (7, 8)), stage(7, 10, 2, 5), stage(8, 3, status=StageStatus.PENDING),
            profiles=(ProfileSeen(ProfileId(1), (("cores", 4.0),), (("cpus", 2.0),)), ProfileSeen(ProfileId(0))),
        )
    )  # fmt: skip
    assert heard == [
        ResourceProfileAdded(0, ProfileId(0), (), ()),
        ResourceProfileAdded(0, ProfileId(1), (("cores", 4.0),), (("cpus", 2.0),)),
        RegisterExecutor(0, ExecutorId("9"), ProfileId(0), "h9", "9@h9:7079"),
        RegisterExecutor(0, ExecutorId("10"), ProfileId(1), "h10", "10@h10:7079"),
        RegisterExecutor(0, E2, ProfileId(0), "h2", "2@h2:7079"),
        ExecutorBusy(0, (ExecutorId("10"), E2), busy=True),
        JobStart(0, 4, (JobStage(7, -8), JobStage(8))),
        StageSubmitted(0, 7, 0, 5, ProfileId(0)),
        TaskStart(0, 7, 0, 0, E2),
        TaskStart(0, 7, 0, 1, ExecutorId("10")),
    ]


def test_nothing_new_is_nothing_said() -> None:
    looks, seen = Looks(), shot(executor(1, 1, 3), JobSeen(1, (1,)), stage(1, 5, 1, 2))
    looks.at(seen)
    before = looks.state
    assert looks.at(seen) == []
    assert looks.state.shuffles is before.shuffles


# ---------------------------------------------------------------------------------------------------- tasks and stages


def test_the_life_of_a_stage() -> None:
    looks = Looks()
    looks.at(shot(executor(1), executor(2)))
    assert looks.at(shot(executor(1, 1), executor(2, 1), JobSeen(0, (0,)), stage(0, 3, 2))) == [
        ExecutorBusy(0, (E1, E2), busy=True),
        JobStart(0, 0, (JobStage(0),)),
        StageSubmitted(0, 0, 0, 3, ProfileId(0)),
        TaskStart(0, 0, 0, 0, E2),
        TaskStart(0, 0, 0, 1, E1),
    ]
    assert looks.at(shot(executor(1, 1, 2), executor(2, 0, 1), JobSeen(0, (0,)), stage(0, 3, 1, 2))) == [
        TaskEnd(0, 0, 0, 0, E2),
        TaskStart(0, 0, 0, 2, E1),
        TaskEnd(0, 0, 0, 2, E1),
        ExecutorBusy(0, (E2,), busy=False),
    ]
    assert looks.at(shot(executor(1, 0, 2), executor(2, 0, 1))) == [
        TaskEnd(0, 0, 0, 1, E1),
        StageCompleted(0, 0, 0),
        JobEnd(0, 0),
        ExecutorBusy(0, (E1,), busy=False),
    ]


def test_tasks_that_came_and_went_unseen() -> None:
    looks = Looks()
    looks.at(shot(executor(1), executor(2), stage(0, 10)))
    heard = looks.at(shot(executor(1, 0, 3), executor(2, 1, 2), stage(0, 10, 1, 4)))
    assert said(heard, TaskStart, TaskEnd) == [
        TaskStart(0, 0, 0, 0, E1), TaskEnd(0, 0, 0, 0, E1),
        TaskStart(0, 0, 0, 1, E2), TaskEnd(0, 0, 0, 1, E2),
        TaskStart(0, 0, 0, 2, E1), TaskEnd(0, 0, 0, 2, E1),
        TaskStart(0, 0, 0, 3, E1), TaskEnd(0, 0, 0, 3, E1),
        TaskStart(0, 0, 0, 4, E2),
    ]  # fmt: skip


def test_an_executor_that_worked_for_nobody_knows_which_stage_was_busy_all_the_same() -> None:
    looks = Looks()
    looks.at(shot(executor(1, 0, 5), executor(2, 0, 5)))
    assert looks.at(shot(executor(1, 0, 9), executor(2, 0, 5))) == [
        TaskStart(0, *UNSEEN, 0, E1),
        TaskEnd(0, *UNSEEN, 0, E1),
        StageCompleted(0, *UNSEEN),
    ]


def test_where_the_lists_contradict_one_another_each_is_right_for_its_own() -> None:
    looks = Looks()
    heard = looks.at(shot(executor(1, 2), stage(0, 4, 1)))
    assert said(heard, TaskStart) == [TaskStart(0, 0, 0, 0, E1), TaskStart(0, *UNSEEN, 0, E1)]
    heard = looks.at(shot(executor(1, 2), stage(0, 4, 3)))
    assert said(heard, TaskStart, TaskEnd, StageCompleted) == [
        TaskEnd(0, *UNSEEN, 0, E1),
        TaskStart(0, 0, 0, 1, E1),
        TaskStart(0, 0, 0, 2, NOBODY),
        StageCompleted(0, *UNSEEN),
    ]


def test_a_task_that_seems_to_have_moved_did_not_fail() -> None:
    looks = Looks()
    looks.at(shot(executor(1, 1), executor(2), stage(0, 3, 1)))
    heard = looks.at(shot(executor(1, 0, 1), executor(2, 1), stage(0, 3, 1)))
    assert said(heard, TaskStart, TaskEnd) == [
        TaskEnd(0, 0, 0, 0, E1, outcome=TaskOutcome.KILLED),
        TaskStart(0, 0, 0, 0, E2),
    ]


def test_more_tasks_than_are_left_are_copies() -> None:
    looks = Looks()
    heard = looks.at(shot(executor(1, 1), executor(2, 1), stage(0, 1, 2)))
    assert sorted(one.speculative for one in said(heard, TaskStart)) == [False, True]
    heard = looks.at(shot(executor(1, 0, 1), executor(2, 0, 1), stage(0, 1, 0, 1, killed=1)))
    assert {(one.speculative, one.outcome) for one in said(heard, TaskEnd)} == {
        (False, TaskOutcome.SUCCESS),
        (True, TaskOutcome.KILLED),
    }


def test_a_copy_whose_original_failed_is_the_task_itself() -> None:
    looks = Looks()
    heard = looks.at(shot(executor(1, 1), executor(2, 1), stage(0, 1, 2)))
    original = next(one.executor for one in said(heard, TaskStart) if not one.speculative)
    left = [executor(n, 0 if str(n) == original else 1, 1) for n in (1, 2)]
    heard = looks.at(shot(*left, stage(0, 1, 1, failed=1)))
    assert [(type(one), one.speculative) for one in said(heard, TaskStart, TaskEnd)] == [
        (TaskEnd, False), (TaskEnd, True), (TaskStart, False),
    ]  # fmt: skip
    assert looks.state.attempts[0, 0].proper == 1
    assert looks.state.attempts[0, 0].copies == 0


def test_a_failed_attempt_keeps_its_running_tasks_beside_its_successor() -> None:
    looks = Looks()
    looks.at(shot(executor(1, 1), executor(2, 1), stage(0, 4, 2)))
    failed = stage(0, 4, 1, status=StageStatus.FAILED, failed=1)
    heard = looks.at(shot(executor(1, 1), executor(2, 1, 2), failed, stage(0, 3, 1, attempt=1)))
    assert [type(one) for one in heard] == [TaskEnd, StageCompleted, StageSubmitted, TaskStart]
    assert heard[0].outcome is TaskOutcome.FAILED
    heard = looks.at(shot(executor(1, 0, 1), executor(2, 1, 2), stage(0, 3, 1, attempt=1)))
    assert said(heard, TaskEnd)[0].attempt == 0
    assert set(looks.state.attempts) == {(0, 1)}


def test_how_the_last_tasks_of_a_stage_ended_is_as_it_counted_them() -> None:
    looks = Looks()
    looks.at(shot(executor(1, 3), stage(0, 3, 3)))
    over = stage(0, 3, 0, 1, status=StageStatus.FAILED, failed=1, killed=1)
    outcomes = [one.outcome for one in said(looks.at(shot(executor(1, 0, 3), over)), TaskEnd)]
    assert outcomes == [TaskOutcome.SUCCESS, TaskOutcome.FAILED, TaskOutcome.KILLED]


@pytest.mark.parametrize(
    "changed", [stage(0, 9, 1, 2), stage(0, 8, 1, 1), stage(0, 8, 1, 2, profile=ProfileId(1)), stage(0, 8, 1, 8)]
)
def test_a_stage_that_becomes_another_is_begun_anew(changed: StageSeen) -> None:
    looks = Looks(ViewConfig(tasks_max=5))
    looks.at(shot(executor(1, 1), stage(0, 8, 1, 2)))
    heard = looks.at(shot(executor(1, 1), changed))
    left = changed.tasks - changed.complete
    assert [type(one) for one in heard] == [TaskEnd, StageCompleted, StageSubmitted, TaskStart]
    assert heard[2].tasks == left


def test_numbers_beyond_all_bounds_cost_what_was_set() -> None:
    looks = Looks(ViewConfig(tasks_max=100))
    heard = looks.at(
        shot(executor(1, 2**31 - 1), stage(0, 2**31 - 1, 2**31 - 1), stage(1, 2**31 - 1, -(2**31)), stage(2, -5, -5, -5))
    )  # fmt: skip
    assert len(said(heard, TaskStart)) == 100
    heard = looks.at(shot(executor(1, -4, 2**31 - 1), stage(0, 2**31 - 1, 0, 2**31 - 1)))
    assert len(heard) < 300


@pytest.mark.uncounted
def test_many_tasks_that_nobody_is_seen_to_run_cost_no_more_than_others() -> None:
    looks = Looks()
    stages = [stage(number, 50, 50) for number in range(1_000)]
    assert len(said(looks.at(shot(*stages)), TaskStart)) == 50_000
    half = [one._replace(active=25, complete=25) for one in stages]
    assert len(said(looks.at(shot(*half)), TaskEnd)) == 25_000
    assert len(said(looks.at(shot()), TaskEnd)) == 25_000
    assert not looks.state.running


# ----------------------------------------------------------------------------------------------------------- executors


def test_an_executor_that_is_gone_takes_its_tasks_with_it() -> None:
    looks = Looks()
    looks.at(shot(executor(1, 1), executor(2, 1), stage(0, 4, 2)))
    heard = looks.at(shot(executor(1, 1)._replace(active=False), executor(2, 1), stage(0, 4, 1, failed=1)))
    assert heard == [
        ExecutorDisconnected(0, "1@h1:7079"),
        TaskEnd(0, 0, 0, 1, E1, outcome=TaskOutcome.FAILED),
        ExecutorBusy(0, (E1,), busy=False),
    ]
    assert looks.at(shot(stage(0, 4, 0, failed=2)))[0] == ExecutorDisconnected(0, "2@h2:7079")
    assert not looks.state.executors


def test_an_address_that_is_used_again_belongs_to_another() -> None:
    looks = Looks()
    looks.at(shot(executor(1)))
    heard = looks.at(shot(executor(2)._replace(address="h1:7079")))
    assert [one.address for one in heard] == ["1@h1:7079", "2@h1:7079"]


def test_cached_blocks_keep_an_executor() -> None:
    looks = Looks()
    heard = looks.at(shot(executor(1, rdd_blocks=3, memory_used=9), executor(2)))
    assert heard[2:] == [BlockUpdated(0, E1, CACHED_BLOCK, valid=True, on_disk=False)]
    heard = looks.at(shot(executor(1, rdd_blocks=1, disk_used=9), executor(2)))
    assert heard == [BlockUpdated(0, E1, CACHED_BLOCK, valid=True, on_disk=True)]
    assert looks.at(shot(executor(1), executor(2))) == [BlockUpdated(0, E1, CACHED_BLOCK, valid=False, on_disk=False)]


# ----------------------------------------------------------------------------------------------------------- shuffles


def writes(number: int, wrote: int, rdd: int, **seen: Any) -> StageSeen:
    return stage(number, 4, 1, shuffle_write=wrote, rdds=(rdd,), **seen)


def held(heard: list[Any]) -> list[tuple[ExecutorId, int]]:
    return [
        (one.executor, one.block.shuffle)
        for one in said(heard, BlockUpdated)
        if isinstance(one.block, ShuffleDataBlock)
    ]


def test_who_wrote_while_a_map_stage_ran_holds_its_shuffle() -> None:
    looks, job = Looks(), JobSeen(0, (0, 1))
    heard = looks.at(shot(executor(1, 1), executor(2), job, writes(0, 0, 70), stage(1, 2, status=StageStatus.PENDING)))
    assert said(heard, JobStart)[0].stages == (JobStage(0, 70), JobStage(1, None))
    heard = looks.at(shot(executor(1, 1, 2, shuffle_write=50), executor(2), job, writes(0, 50, 70)))
    assert held(heard) == [(E1, 70)]
    assert held(looks.at(shot(executor(1, 1, 2, shuffle_write=50), executor(2), job, writes(0, 50, 70)))) == []
    heard = looks.at(shot(executor(1, 0, 2, shuffle_write=90), executor(2, 1, 2, shuffle_write=5), job, stage(1, 2, 1)))
    assert held(heard) == [(E1, 70), (E2, 70)], "the stage left while both wrote"


def test_what_was_written_before_the_first_look_may_be_anything() -> None:
    job = JobSeen(0, (0, 1, 2))
    heard = Looks().at(shot(executor(1, 1, shuffle_write=5), executor(2), job, writes(1, 50, 70), stage(2, 1)))
    assert held(heard) == [(E1, -1), (E1, 70), (E1, UNEXPLAINED)], "stage 0 is over: its RDDs are not known"
    assert said(heard, ShuffleRegistered) == [ShuffleRegistered(0, 0, UNEXPLAINED, UNEXPLAINED)]


def test_a_stage_that_came_and_went_unseen_wrote_something_of_the_jobs_that_ran() -> None:
    looks = Looks()
    looks.at(shot(executor(1), JobSeen(0, (0, 1)), stage(1, 4)))
    heard = looks.at(shot(executor(1, 0, 4, shuffle_write=9), JobSeen(1, (2, 3)), stage(3, 1)))
    assert held(heard) == [(E1, -3), (E1, UNEXPLAINED)], "stage 2, or one of another job"
    heard = looks.at(shot(executor(1, 0, 4, shuffle_write=9), JobSeen(2, (4, 5)), stage(5, 1)))
    assert said(heard, ShuffleRegistered) == [ShuffleRegistered(0, 2, UNEXPLAINED, UNEXPLAINED)], "any job may read it"


def test_a_map_job_that_nobody_saw_is_explained_by_its_stage() -> None:
    looks = Looks()
    looks.at(shot(executor(1)))
    heard = looks.at(shot(executor(1, 0, 4, shuffle_write=9), writes(0, 9, 70)._replace(status=StageStatus.COMPLETE)))
    assert held(heard) == [(E1, 70)]
    assert said(heard, JobStart, JobEnd) == [JobStart(0, UNSEEN_JOB, (JobStage(0, 70),)), JobEnd(0, UNSEEN_JOB)]


def test_a_map_job_that_nobody_saw_at_all_keeps_its_executors_for_every_job() -> None:
    looks = Looks()
    looks.at(shot(executor(1), executor(2)))
    assert held(looks.at(shot(executor(1, 0, 4, shuffle_write=9), executor(2)))) == [(E1, UNEXPLAINED)]


def test_growth_is_put_down_to_a_stage_whose_bytes_show_later() -> None:
    looks, job = Looks(), JobSeen(0, (0,))
    looks.at(shot(executor(1, 1), job, writes(0, 0, 70)))
    heard = looks.at(shot(executor(1, 1, 2, shuffle_write=9), job, writes(0, 0, 70)))
    assert held(heard) == [(E1, UNEXPLAINED - 1)], "stage 0 may be a map stage"
    assert said(heard, ShuffleRegistered) == [ShuffleRegistered(0, 0, UNEXPLAINED - 1, UNEXPLAINED - 1)]
    heard = looks.at(shot(executor(1, 0, 2, shuffle_write=9), writes(0, 9, 70)._replace(status=StageStatus.COMPLETE)))
    assert held(heard) == [(E1, 70)]
    assert said(heard, ShuffleRegistered, ShuffleCleaned, JobEnd) == [
        ShuffleRegistered(0, 0, 0, 70), ShuffleCleaned(0, UNEXPLAINED - 1), JobEnd(0, 0),
    ]  # fmt: skip


def test_growth_that_no_stage_explains_in_the_end_is_unexplained() -> None:
    looks, job = Looks(), JobSeen(0, (0,))
    looks.at(shot(executor(1, 1), job, stage(0, 4, 1)))
    looks.at(shot(executor(1, 1, 2, shuffle_write=9), job, stage(0, 4, 1)))
    heard = looks.at(shot(executor(1, 0, 2, shuffle_write=9), stage(0, 4, 0, 4, status=StageStatus.COMPLETE)))
    assert held(heard) == [(E1, UNEXPLAINED)]
    assert said(heard, ShuffleCleaned) == [ShuffleCleaned(0, UNEXPLAINED - 1)]


def test_two_map_stages_under_way_may_both_have_written_what_grew() -> None:
    looks, jobs = Looks(), (JobSeen(0, (0,)), JobSeen(1, (1,)))
    looks.at(shot(executor(1, 1), executor(2, 1), *jobs, writes(0, 0, 70), writes(1, 0, 71)))
    grown = (executor(1, 1, shuffle_write=9), executor(2, 1, shuffle_write=9))
    heard = looks.at(shot(*grown, *jobs, writes(0, 9, 70), writes(1, 0, 71)))
    assert held(heard) == [(E1, 70), (E2, 70)]
    heard = looks.at(shot(*grown, *jobs, writes(0, 9, 70), writes(1, 9, 71)))
    assert held(heard) == [(E1, 71), (E2, 71)], "the figures of stage 1 were late"


def test_more_holders_than_can_be_told_apart_hold_what_is_not_explained() -> None:
    looks = Looks()
    jobs = [JobSeen(number, (2 * number, 2 * number + 1)) for number in range(1_100)]
    stages = [writes(2 * number, 1, 5_000 + number) for number in range(1_100)]
    looks.at(shot(*(executor(number) for number in range(100)), *jobs, *stages))
    heard = looks.at(shot(*(executor(number, shuffle_write=5) for number in range(100)), *jobs, *stages))
    assert {shuffle for _, shuffle in held(heard)} == {UNEXPLAINED}
    assert len(held(heard)) == 100


def test_the_last_stage_of_a_job_may_write_a_shuffle_too() -> None:
    looks = Looks()
    heard = looks.at(shot(executor(1, 1), JobSeen(0, (0,)), writes(0, 0, 70)))
    assert said(heard, JobStart)[0].stages == (JobStage(0, None),)
    assert held(looks.at(shot(executor(1, 1, 2, shuffle_write=5), JobSeen(0, (0,)), writes(0, 5, 70)))) == [(E1, 70)]
    pending = stage(1, 4, status=StageStatus.PENDING, rdds=(70,))
    heard = looks.at(shot(executor(1, 1, 3, shuffle_write=5), JobSeen(1, (1, 2)), pending, stage(2, 4, 1)))
    assert said(heard, JobStart)[0].stages == (JobStage(1, 70), JobStage(2, None)), (
        "the next job reads the same shuffle"
    )
    assert not said(heard, ShuffleCleaned)


def test_a_shuffle_that_nobody_names_any_more_is_cleaned_after_a_while() -> None:
    looks = Looks(ViewConfig(shuffle_linger_ms=10 * S))
    looks.at(shot(executor(1), JobSeen(0, (0, 1)), writes(0, 9, 70)))
    for _ in range(3):
        assert not said(looks.at(shot(executor(1)), 4 * S), ShuffleCleaned)
    assert said(looks.at(shot(executor(1)), 4 * S), ShuffleCleaned) == [ShuffleCleaned(0, 70)]
    assert not looks.state.shuffles.unread
    assert looks.at(shot(executor(1)), 40 * S) == []


def test_what_is_not_explained_is_cleaned_when_no_job_has_run_for_a_while() -> None:
    looks = Looks(ViewConfig(shuffle_linger_ms=10 * S))
    looks.at(shot(executor(1)))
    grown = executor(1, 0, 4, shuffle_write=9)
    looks.at(shot(grown))
    assert not said(looks.at(shot(grown, JobSeen(9, (9,))), 40 * S), ShuffleCleaned)
    assert not said(looks.at(shot(grown)), ShuffleCleaned)
    assert said(looks.at(shot(grown), 10 * S), ShuffleCleaned) == [ShuffleCleaned(0, UNEXPLAINED)]
    assert not said(looks.at(shot(grown, JobSeen(10, (10,)))), ShuffleRegistered)


@pytest.mark.parametrize("config", [ViewConfig(shuffles=False), ViewConfig()])
def test_shuffles_can_be_left_alone(config: ViewConfig) -> None:
    looks = Looks(config)
    looks.at(shot(executor(1), JobSeen(0, (0, 1)), writes(0, 9, 70)))
    heard = looks.at(shot(executor(1, 0, 1, shuffle_write=9), JobSeen(0, (0, 1)), writes(0, 19, 70)))
    assert bool(held(heard)) == config.shuffles
    assert not said(looks.at(shot(executor(1)), 3_600 * S), ShuffleCleaned)
    assert not looks.state.shuffles.unread


# --------------------------------------------------------------------------------------------------- the engine behind it


@pytest.mark.parametrize("linger", [None, 60 * S])
def test_an_application_under_dynamic_allocation_follows_what_is_seen(linger: Millis | None) -> None:
    scaling = ScalingConfig(idle_timeout_ms=10 * S, backlog_timeout_ms=S, shuffle_tracking=True, executors_max=20)
    play = AppPlay(config(dynamic=True, scaling=scaling))
    looks, looking = driver_view.empty(), ViewConfig(shuffle_linger_ms=linger)

    def see(snapshot: DriverSnapshot) -> None:
        nonlocal looks
        step = driver_view.look(looks, (snapshot,), looking, play.now)
        looks = step.state
        play.feed(*step.commands)

    job = JobSeen(0, (0, 1))
    see(shot(job, stage(0, 4, rdds=(9,)), stage(1, 1, status=StageStatus.PENDING)))
    for _ in range(4):
        play.wait(2 * S)
        play.show("Running", *play.created)
    assert play.created == [1, 2, 3, 4], "one for each task"
    up = [executor(number, 1) for number in play.created]
    see(shot(job, *up, stage(0, 4, 4, rdds=(9,))))
    assert play.registered == {"1", "2", "3", "4"}
    play.wait(30 * S)
    assert not play.removed, "all of them are busy"
    done = [executor(number, 0, 1, shuffle_write=5) for number in play.created]
    see(shot(job, *done, stage(1, 1, 0)))
    play.wait(600 * S)
    assert not play.removed, "they hold what the next stage reads"
    see(shot(*done))
    play.wait(70 * S)
    assert not play.removed
    see(shot(*done))
    play.wait(15 * S)
    gone = set(play.removed)
    if linger is None:
        assert not gone, "Spark would keep them, too: the next job may read it"
    else:
        assert gone == {"1", "2", "3", "4"}, "nobody has named the shuffle for a minute"
    state = engine.advance(play.state, (Wake(play.now),), play.config, play.now).state
    assert not state.load.tasks_wait()
