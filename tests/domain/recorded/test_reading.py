"""From events to an application: attempts, copies, failures, lags, fresh executors, and what is not told."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.samples import SAMPLE_MAX, Pairs, Sample, median, quantile, spread
from podtide.domain.base.units import DEFAULT_PROFILE, Millis, ProfileId
from podtide.domain.protocol.stimuli import JobStage, ResourceProfileAdded
from podtide.domain.recorded.application import NO_TASK, Application, Copy, Failure, Fresh, Leave
from podtide.domain.recorded.executors import ExecutorRecord, leave_of
from podtide.domain.recorded.job_dependencies import JobTraits
from podtide.domain.recorded.lifetimes import came_unasked, place
from podtide.domain.recorded.reading import Facts, LogReading
from podtide.domain.recorded.request_times import Registration
from podtide.domain.recorded.stages import RARE_MAX, ROOM_TASKS, LoggedStage
from podtide.domain.recorded.unknowns import LogTraits, unknowns_of

P3, P5 = ProfileId(3), ProfileId(5)

TOLD = LogTraits(
    stages_parentless=False, metered=True, partitions=True, block_updates=False, compacted=False, platform=None, unread=0,
    gaps=0, applications=1, oversized=0, dynamic=True,
)  # fmt: skip


class Log:
    """Tells a Reading what happens, in few words. Times count from 0."""

    def __init__(self) -> None:
        self.reading = LogReading()

    def executors(self, *names: str, at: Millis = 0, cores: int = 1) -> Log:
        for name in names:
            self.reading.executor_added(name, at, "host", cores, 0, None)
        return self

    def job(self, job: int, at: Millis, *stages: LoggedStage) -> Log:
        self.reading.job_started(job, at, stages, JobTraits())
        return self

    def submit(self, seen: LoggedStage, at: Millis) -> Log:
        self.reading.stage_submitted(seen, at)
        return self

    def complete(self, seen: LoggedStage, at: Millis, *, failed: bool = False) -> Log:
        self.reading.stage_completed(seen, None, at, "fetch failed" if failed else None)
        return self

    def start(self, stage: int, index: int, executor: str, at: Millis, attempt: int = 0, *, copy: bool = False) -> Log:
        self.reading.task_started(stage, attempt, index, executor, at, copy)
        return self

    def end(
        self, stage: int, index: int, executor: str, began: Millis, ended: Millis, reason: str = "Success", *,
        attempt: int = 0, partition: int | None = None, copy: bool = False, run: Millis | None = None,
        kind: str = "ResultTask",
    ) -> Log:  # fmt: skip
        place = index if partition is None else partition
        time = ended - began if run is None else run
        work = self.reading.task_ended(stage, attempt, index, place, executor, began, ended, copy, reason, time, kind)
        if work is not None:
            self.reading.task_metered(work, time, 1, 2, 3, 4)
        return self

    def task(self, stage: int, index: int, executor: str, began: Millis, ended: Millis, **more: object) -> Log:
        attempt = more.get("attempt", 0)
        assert isinstance(attempt, int)
        self.start(stage, index, executor, began, attempt)
        return self.end(stage, index, executor, began, ended, **more)  # type: ignore[arg-type]  # as they are given

    def application(self, ended: Millis = 100_000) -> Application:
        assert self.reading.nothing(compacted=False) is None
        facts = Facts("app", "test", "4.3.0", 0, ended, True, {})
        return self.reading.application(facts, [None] * len(self.reading.settle(0, ended)))


def two_stages(tasks: int = 3) -> Log:
    """A map stage of so many tasks, and a result stage of one, on two executors that are no longer fresh."""
    log = Log().executors("1", "2")
    log.job(0, 1_000, LoggedStage(0, 0, tasks, rdd=7), LoggedStage(1, 0, 1, parents=(0,), rdd=9))
    return log.submit(LoggedStage(0, 0, tasks, "map", rdd=7), 1_010)


def test_stages_jobs_and_the_times_between() -> None:
    maps = "ShuffleMapTask"
    log = two_stages().task(0, 0, "1", 1_030, 2_000, kind=maps).task(0, 1, "2", 1_031, 2_031, kind=maps)
    log.task(0, 2, "1", 2_001, 2_901, kind=maps)
    log.complete(LoggedStage(0, 0, 3, "map", rdd=7), 2_910)
    log.submit(LoggedStage(1, 0, 1, "collect", parents=(0,), rdd=9), 2_940).task(1, 0, "2", 2_945, 3_345)
    log.complete(LoggedStage(1, 0, 1, "collect", parents=(0,), rdd=9), 3_350)
    log.reading.job_ended(0, 3_360, succeeded=True)
    app = log.application()
    first, second = app.stages
    assert (first.name, first.parents, first.shuffle, list(first.body_ms)) == ("map", (), 7, [970, 1_000, 900])
    assert (first.submit_lag_ms, first.launch_lag_ms, first.finish_lag_ms) == (10, 20, 9)
    assert (second.parents, second.shuffle) == ((0,), None)
    assert (second.submit_lag_ms, second.launch_lag_ms, second.finish_lag_ms) == (30, 5, 5)
    assert (first.run_ms, first.gc_ms, first.read_bytes, first.shuffle_read_bytes) == (2_870, 3, 6, 9)
    assert first.shuffle_write_bytes == 12
    [job] = app.jobs
    assert (job.stages, job.needs, job.end_lag_ms, job.succeeded) == ((0, 1), (JobStage(0, 7), JobStage(1)), 10, True)
    assert app.turnaround_ms == 1
    assert [(one.executor, one.tasks, one.busy_ms) for one in app.executors] == [("1", 2, 1_870), ("2", 2, 1_400)]


def test_a_map_stage_of_adaptive_execution_is_nobodys_parent_in_its_own_job() -> None:
    log = Log().executors("1").job(0, 0, LoggedStage(0, 0, 1, rdd=3)).submit(LoggedStage(0, 0, 1, rdd=3), 0)
    log.task(0, 0, "1", 10, 20, kind="ShuffleMapTask").complete(LoggedStage(0, 0, 1, rdd=3), 21)
    log.reading.job_ended(0, 22, succeeded=True)
    log.job(1, 30, LoggedStage(1, 0, 1, rdd=3), LoggedStage(2, 0, 1, parents=(1,), rdd=5))
    log.submit(LoggedStage(2, 0, 1, parents=(1,), rdd=5), 31).task(2, 0, "1", 40, 50)
    app = log.application()
    assert app.stages[0].shuffle == 3
    assert app.jobs[1].needs == (JobStage(1, 3), JobStage(2))
    assert (app.jobs[1].stages, app.counts["skipped stages"]) == ((2,), 1)


@pytest.mark.parametrize(
    ("reason", "failures", "counted"),
    [
        ("ExceptionFailure", (Failure(1, 100),), "failed"),
        ("ExecutorLostFailure", (), "taken away"),
        ("FetchFailed", (), "taken away"),
        ("TaskCommitDenied", (), "taken away"),
        ("TaskKilled", (), "taken away"),
    ],
)
def test_a_failure_is_what_the_task_did_by_itself(reason: str, failures: tuple[Failure, ...], counted: str) -> None:
    log = two_stages(2).task(0, 0, "1", 2_000, 2_500)
    log.start(0, 1, "2", 2_000).end(0, 1, "2", 2_000, 2_100, reason).task(0, 1, "1", 2_600, 2_900)
    app = log.application()
    assert app.stages[0].failures == failures
    assert list(app.stages[0].body_ms) == [500, 300]
    assert app.counts[counted] == 1


def test_a_resubmitted_task_ended_once_and_runs_again_for_a_loss() -> None:
    log = two_stages(1).task(0, 0, "1", 2_000, 2_500).end(0, 0, "1", 2_000, 2_500, "Resubmitted")
    log.task(0, 0, "2", 3_000, 3_900)
    [stage] = log.application().stages
    assert (list(stage.body_ms), stage.recomputed, stage.failures) == ([500], 1, ())


def retried(*, partitions: bool) -> Log:
    """Attempt 0 runs tasks 0 and 2 of four; attempt 1 the others, under the indices 0 and 1."""
    log = two_stages(4).task(0, 0, "1", 2_000, 2_100).task(0, 2, "2", 2_000, 2_300)
    log.complete(LoggedStage(0, 0, 4, rdd=7), 2_400, failed=True).submit(LoggedStage(0, 1, 2, rdd=7), 2_500)
    places = {0: 1, 1: 3} if partitions else {0: -1, 1: -1}
    log.task(0, 0, "1", 2_600, 2_700, attempt=1, partition=places[0])
    return log.task(0, 1, "2", 2_600, 2_900, attempt=1, partition=places[1])


@pytest.mark.parametrize("partitions", [True, False])
def test_attempts_are_one_piece_of_work(partitions: bool) -> None:
    [stage] = retried(partitions=partitions).complete(LoggedStage(0, 1, 2, rdd=7), 3_000).application().stages
    assert list(stage.body_ms) == [100, 100, 300, 300]
    assert (stage.attempts, stage.recomputed, stage.completed_ms, stage.submitted_ms) == (2, 0, 3_000, 1_010)
    assert stage.finish_lag_ms == 100


def test_what_a_later_attempt_computes_again_counts_once() -> None:
    log = retried(partitions=True).task(0, 2, "1", 3_000, 3_050, attempt=1, partition=2)
    [stage] = log.application().stages
    assert (list(stage.body_ms), stage.recomputed) == ([100, 100, 300, 300], 1)


def test_partitions_that_are_not_indices_are_found_again() -> None:
    """take() runs a job on some partitions: indices count from 0, partitions do not."""
    log = two_stages(2).task(0, 0, "1", 2_000, 2_100, partition=8).start(0, 1, "2", 2_000)
    log.end(0, 1, "2", 2_000, 2_200, "FetchFailed", partition=9).submit(LoggedStage(0, 1, 1, rdd=7), 2_500)
    [stage] = log.task(0, 0, "2", 2_600, 2_900, attempt=1, partition=9).application().stages
    assert list(stage.body_ms) == [100, 300]


def test_a_copy_that_loses_and_one_that_wins() -> None:
    log = two_stages(2).start(0, 0, "1", 2_000).start(0, 1, "2", 2_000).executors("3", "4", at=2_000)
    log.start(0, 0, "3", 3_000, copy=True).start(0, 1, "4", 3_500, copy=True)
    log.end(0, 0, "1", 2_000, 4_000).end(0, 0, "3", 3_000, 4_010, "TaskKilled", copy=True)
    log.end(0, 1, "4", 3_500, 4_500, copy=True).end(0, 1, "2", 2_000, 4_600, "TaskKilled")
    app = log.application()
    assert app.stages[0].copies == (Copy(0, 1_000), Copy(1, 1_500))
    assert list(app.stages[0].body_ms) == [2_000, 2_500]
    assert app.stages[0].recomputed == 0


def test_events_may_come_late_and_in_another_order() -> None:
    log = Log().job(0, 0, LoggedStage(0, 0, 2, rdd=1))
    log.task(0, 0, "1", 20, 50).executors("1", at=10).submit(LoggedStage(0, 0, 2, "map", rdd=1), 5)
    log.start(0, 1, "1", 60).complete(LoggedStage(0, 0, 2, "map", rdd=1), 90).end(0, 1, "1", 60, 85)
    app = log.application()
    [stage] = app.stages
    assert (stage.name, stage.job, stage.submitted_ms, list(stage.body_ms)) == ("map", 0, 5, [30, 25])
    assert (stage.finish_lag_ms, app.executors[0].added_ms, app.executors[0].cores) == (5, 10, 1)


def test_stages_without_a_job_make_one_of_their_own() -> None:
    log = (
        Log().executors("1").submit(LoggedStage(4, 0, 1), 10).task(4, 0, "1", 12, 20).complete(LoggedStage(4, 0, 1), 21)
    )
    log.submit(LoggedStage(5, 0, 1, parents=(4,)), 22).task(5, 0, "1", 23, 30).complete(
        LoggedStage(5, 0, 1, parents=(4,)), 31
    )
    app = log.application()
    assert [(job.job, job.submitted_ms, job.ended_ms, job.stages) for job in app.jobs] == [(-1, 10, 31, (4, 5))]


def test_a_stage_belongs_to_the_active_job_with_the_lowest_id() -> None:
    shared = LoggedStage(0, 0, 1, rdd=1)
    log = Log().executors("1").job(3, 0, shared).job(2, 1, shared).submit(shared, 2).task(0, 0, "1", 3, 9)
    assert [(job.job, job.stages) for job in log.application().jobs] == [(3, ()), (2, (0,))]


def test_submission_times_may_come_with_the_completion_only() -> None:
    log = two_stages(1).task(0, 0, "1", 2_000, 2_100)
    log.reading.stage_completed(LoggedStage(0, 0, 1, rdd=7), 1_900, 2_150, None)
    assert log.application().stages[0].submitted_ms == 1_900


def test_ends_that_lie_before_the_stage_say_nothing_of_its_completion() -> None:
    log = Log().executors("1").job(0, 5_000, LoggedStage(0, 0, 2)).submit(LoggedStage(0, 0, 2), 5_000)
    log.task(0, 0, "1", 100, 365).complete(LoggedStage(0, 0, 2), 12_000)
    app = log.application()
    assert (app.stages[0].finish_lag_ms, list(app.stages[0].body_ms)) == (0, [265, NO_TASK])
    assert app.counts["tasks not in the log"] == 1
    assert "1 task of stages that completed cannot be found in the log" in words(app)
    assert "never succeeded" not in words(app)


def test_tasks_that_a_failed_or_open_stage_lacks_are_no_holes() -> None:
    seen = LoggedStage(0, 0, 3)
    failed = Log().executors("1").job(0, 0, seen).submit(seen, 0).task(0, 0, "1", 5, 9).complete(seen, 20, failed=True)
    cut = Log().executors("1").job(0, 0, seen).submit(seen, 0).task(0, 0, "1", 5, 9)
    for log in (failed, cut):
        app = log.application()
        assert "tasks not in the log" not in app.counts
        assert "2 tasks never succeeded" in words(app)


def test_profiles_that_nobody_announced_have_the_cores_of_their_executors() -> None:
    log = Log().executors("1")
    log.reading.executor_added("2", 0, "h", 4, 3, None)
    log.job(0, 0, LoggedStage(0, 0, 1, profile=3), LoggedStage(1, 0, 1, profile=5))
    log.submit(LoggedStage(0, 0, 1, profile=3), 1).task(0, 0, "2", 2, 3).submit(LoggedStage(1, 0, 1, profile=5), 4)
    app = log.application()
    assert app.profiles == (ResourceProfileAdded(0, P3, (("cores", 4.0),), ()), ResourceProfileAdded(0, P5, (), ()))
    assert "does not describe 2 resource profiles" in words(app)


# executors out of their time


@pytest.mark.parametrize(
    ("added", "task", "kept"),
    [
        (0, None, 0), (100_000, None, 100_000), (100_001, None, None), (-1, None, None), (10**11, 500, 500),
        (-1, 500, 500), (600, 500, 500), (10**11, 10**11 + 5, None),
    ],
)  # fmt: skip
def test_who_was_there(added: Millis, task: Millis | None, kept: Millis | None) -> None:
    life = ExecutorRecord("1", 7, added, 1)
    if task is not None:
        life.launched(0, 0, 0, task)
    assert place([life], 0, 100_000) == (frozenset({7}) if kept is None else frozenset())
    assert kept is None or life.added == kept


def came(*seconds: int) -> list[Registration]:
    return [Registration(DEFAULT_PROFILE, 1_000 * second) for second in seconds]


@pytest.mark.parametrize(
    ("executors", "asked", "there"),
    [
        ([], [], ()),
        (came(5, 5, 6, 7), [1, None, None, None], (0, 1, 2, 3)),
        (came(5, 5, 6, 7), [1, 2, 3, None], ()),  # one may be an accident
        (came(5, 5, 6, 7, 8), [1, 2, 3, None, None], ()),  # most were asked for
        (came(5, 60, 60, 60), [1, None, None, None], ()),  # they came later: not with the start
        (came(5, 6, 60), [None, None, None], (0, 1)),
    ],
)
def test_who_came_unasked(executors: list[Registration], asked: list[Millis | None], there: tuple[int, ...]) -> None:
    assert came_unasked(executors, asked) == there


# fresh executors


def even_stage(fresh_overhead: Millis, fresh_run: Millis, executors: int = 4) -> Application:
    """Forty tasks of 500 ms with 10 ms overhead; the first on each executor differ."""
    log = Log().executors(*map(str, range(executors))).job(0, 0, LoggedStage(0, 0, 40)).submit(LoggedStage(0, 0, 40), 0)
    free = [10] * executors
    for index in range(40):
        slot = index % executors
        run = 500 + index % 3 + (fresh_run if index < executors else 0)
        length = run + 10 + (fresh_overhead if index < executors else 0)
        log.start(0, index, str(slot), free[slot]).end(0, index, str(slot), free[slot], free[slot] + length, run=run)
        free[slot] += length
    return log.application()


@pytest.mark.parametrize(("overhead", "run", "extra"), [(300, 0, 300), (300, 400, 700), (0, 0, 0), (0, 20, 20)])
def test_what_a_fresh_executor_adds_is_taken_out(overhead: Millis, run: Millis, extra: Millis) -> None:
    app = even_stage(overhead, run)
    assert len(app.fresh) == 4
    assert all(abs(one.extra_ms - extra) <= 2 for one in app.fresh)
    assert all(abs(body - 511) <= 4 for body in app.stages[0].body_ms)


def test_one_first_task_proves_nothing_about_run_times() -> None:
    assert [one.extra_ms for one in even_stage(100, 400, executors=1).fresh] == [100]


def test_a_few_first_tasks_prove_something_where_each_of_them_stands_out() -> None:
    assert [one.extra_ms for one in even_stage(100, 400, executors=3).fresh] == pytest.approx([500] * 3, abs=2)
    assert [one.extra_ms for one in even_stage(100, 8, executors=3).fresh] == pytest.approx([100] * 3, abs=2)


def test_a_stage_whose_first_tasks_stand_out_speaks_for_itself() -> None:
    """Two stages of twelve tasks: in one the first tasks take 3 s longer, in the other 100 ms."""
    log, free = Log().executors("0", "1", "2", "3"), 10
    for stage, executors, more in ((0, "01", 3_000), (1, "23", 100)):
        log.job(stage, 0, LoggedStage(stage, 0, 12)).submit(LoggedStage(stage, 0, 12), 0)
        for index in range(12):
            length = 500 + index % 3 + (more if index < 2 else 0)
            log.task(stage, index, executors[index % 2], free + index * 10_000, free + index * 10_000 + length)
    app = log.application(ended=500_000)
    assert [round(one.extra_ms, -2) for one in app.fresh] == [3_000, 3_000, 100, 100]


# first tasks of a stage


def later_stage(overhead: Millis, run: Millis, *, uneven: bool = False) -> Application:
    """Four executors are fresh in a stage of four tasks. In one of forty after it the first task on each differs."""
    log = Log().executors(*"0123").job(0, 0, LoggedStage(0, 0, 4)).job(1, 1_000, LoggedStage(1, 0, 40))
    log.submit(LoggedStage(0, 0, 4), 0)
    for index in range(4):
        log.task(0, index, str(index), 10, 520, run=500)
    log.complete(LoggedStage(0, 0, 4), 530).submit(LoggedStage(1, 0, 40), 1_000)
    free = [1_010] * 4
    for index in range(40):
        slot, first = index % 4, index < 4
        time = 500 + index % 3 + (run if first else 0) + (400 * (index % 4) if uneven else 0)
        length = time + 10 + (overhead if first else 0)
        log.start(1, index, str(slot), free[slot]).end(1, index, str(slot), free[slot], free[slot] + length, run=time)
        free[slot] += length
    return log.complete(LoggedStage(1, 0, 40), max(free)).application()


@pytest.mark.parametrize(
    ("overhead", "run", "uneven", "opening"),
    [(60, 0, False, 60), (60, 400, False, 460), (60, 60, True, 120), (0, 400, False, 0), (0, 0, False, 0)],
)
def test_what_the_first_tasks_of_a_stage_add_is_their_overhead(
    overhead: Millis, run: Millis, uneven: bool, opening: Millis
) -> None:
    """And how much longer they run, where each has overhead and stands out; as much again where the log does not tell."""
    first, second = later_stage(overhead, run, uneven=uneven).stages
    assert first.opening_ms == 0
    assert second.opening_ms == pytest.approx(opening, abs=1)
    assert second.opened == (4 if opening else 0)
    if not uneven:
        kept = 0 if overhead else run
        assert [body - kept for body in second.body_ms[:4]] == pytest.approx([511] * 4, abs=2)


@pytest.mark.parametrize(("first", "opening"), [((3_000, 3_100), 2_600), ((3_000, 540), 200), ((3_000,), 200)])
def test_first_tasks_of_one_stage_show_how_much_longer_they_run_if_two_or_more_all_stand_out(
    first: tuple[Millis, ...], opening: Millis
) -> None:
    """Python workers that start: two later tasks, of 500 and 520 ms, are enough to see it."""
    names = "01"[: len(first)]
    log = Log().executors(*names).job(0, 0, LoggedStage(0, 0, 2)).submit(LoggedStage(0, 0, 2), 0)
    for index, name in enumerate(names):
        log.task(0, index, name, 10, 520, run=500)
    seen = LoggedStage(1, 0, len(first) + 2)
    log.complete(LoggedStage(0, 0, 2), 530).job(1, 1_000, seen).submit(seen, 1_000)
    for index, run in enumerate(first):
        log.task(1, index, names[index], 1_010, 1_120 + run, run=run)
    for index, run in enumerate((500, 520), start=len(first)):
        log.task(1, index, names[index % len(first)], 5_000 + 1_000 * index, 5_010 + 1_000 * index + run, run=run)
    stage = log.complete(seen, 20_000).application().stages[1]
    assert stage.opening_ms == opening
    assert list(stage.body_ms)[: len(first)] == [110 + run - opening for run in first]


def test_first_tasks_run_longer_in_proportion_where_many_of_them_show_it() -> None:
    """Ten stages of eight tasks on two executors: first tasks have 50 ms more overhead and run 50 ms longer."""
    log = Log().executors("0", "1")
    for stage in range(10):
        seen, at = LoggedStage(stage, 0, 8), 10_000 * stage
        log.job(stage, at, seen).submit(seen, at)
        for index in range(8):
            began, more = at + 1_000 * (index // 2), 50 if index < 2 else 0
            log.task(stage, index, str(index % 2), began, began + 410 + 2 * more, run=400 + more)
        log.complete(seen, at + 5_000)
    stages = log.application(ended=200_000).stages
    assert [one.opening_ms for one in stages[1:]] == [100] * 9
    assert all(list(one.body_ms) == [410] * 8 for one in stages[1:])


# cached partitions


def cached_twice(*, removed: bool) -> Application:
    """An RDD of two partitions, 1 s each, is cached by one stage and read by another, 100 ms a task; an executor may go."""
    stages = [LoggedStage(number, 0, 2, rdd=number, stores=(9,)) for number in (0, 1)]
    log = Log().executors("1", "2", "3")
    for stage in stages:
        log.job(stage.stage, 1_000 + 9_000 * stage.stage, stage)
    log.submit(stages[0], 1_010).task(0, 0, "1", 1_020, 2_020).task(0, 1, "2", 1_020, 2_020)
    log.complete(stages[0], 2_030)
    if removed:
        log.reading.executor_removed("2", 5_000, "Executor 2 killed by driver.")
    log.submit(stages[1], 10_010).task(1, 0, "1", 10_020, 10_120)
    log.task(1, 1, "3" if removed else "2", 10_020, 11_120 if removed else 10_120)
    log.complete(stages[1], 11_130).reading.unpersisted(9, 12_000)
    return log.application()


@pytest.mark.parametrize("removed", [False, True])
def test_what_computes_a_lost_cached_partition_again_is_no_work_of_its_stage(removed: bool) -> None:
    app = cached_twice(removed=removed)
    assert [list(stage.body_ms) for stage in app.stages] == [[1_000, 1_000], [100, 100]]
    assert app.counts.get("cached again", 0) == int(removed)


def test_a_task_that_asked_in_vain_for_a_cached_partition_counts_as_one_that_found_it() -> None:
    """The executor is dead, and removed only while a task asks it: that task waits 5 s and computes the partition again."""
    stages = [LoggedStage(number, 0, 4, rdd=number, stores=(9,)) for number in (0, 1)]
    log = Log().executors("1", "2", "3")
    for stage in stages:
        log.job(stage.stage, 1_000 + 9_000 * stage.stage, stage)
    log.submit(stages[0], 1_010)
    for task, executor in enumerate("1112"):
        log.task(0, task, executor, 1_020 + 1_000 * task, 2_020 + 1_000 * task)
    log.complete(stages[0], 5_030).submit(stages[1], 10_010)
    for task in range(3):
        log.task(1, task, "1", 10_020 + 110 * task, 10_130 + 110 * task)
    log.start(1, 3, "3", 10_020).reading.executor_removed("2", 12_000, "Executor killed by driver.")
    app = log.end(1, 3, "3", 10_020, 16_170).complete(stages[1], 16_180).application()
    assert list(app.stages[1].body_ms) == [110] * 4


def test_an_rdd_that_was_unpersisted_is_computed_by_its_stage() -> None:
    """It is cached anew by whoever reads it next: that is work, as the log has it."""
    log = Log().executors("1")
    stages = [LoggedStage(number, 0, 1, rdd=number, stores=(9,)) for number in (0, 1)]
    for stage in stages:
        log.job(stage.stage, 1_000 + 9_000 * stage.stage, stage)
    log.submit(stages[0], 1_010).task(0, 0, "1", 1_020, 2_020).complete(stages[0], 2_030)
    log.reading.unpersisted(9, 3_000)
    app = log.submit(stages[1], 10_010).task(1, 0, "1", 10_020, 11_120).complete(stages[1], 11_130).application()
    assert [list(stage.body_ms) for stage in app.stages] == [[1_000], [1_100]]


def test_a_fresh_executor_has_as_many_first_tasks_as_slots() -> None:
    log = Log().executors("1", cores=2).job(0, 0, LoggedStage(0, 0, 4)).submit(LoggedStage(0, 0, 4), 0)
    log.start(0, 0, "1", 10).start(0, 1, "1", 11).start(0, 2, "1", 499)  # a slot is free before the end is noted
    log.end(0, 0, "1", 10, 500, run=300).end(0, 1, "1", 11, 600, run=300).end(0, 2, "1", 499, 810, run=300)
    app = log.task(0, 3, "1", 601, 921, run=300).application()
    assert [one.executor for one in app.fresh] == ["1", "1"]
    assert app.turnaround_ms == 0


def test_a_fresh_task_never_becomes_shorter_than_nothing() -> None:
    app = two_stages(1).task(0, 0, "1", 2_000, 2_005, run=0).application()
    assert app.fresh == (Fresh(app.executors[0].executor, 0),)
    assert list(app.stages[0].body_ms) == [5]


# executors


@pytest.mark.parametrize(
    ("reason", "leave"),
    [
        ("Executor killed by driver.", Leave.RELEASED),
        ("Container container_e87_1_7759_01_000002 exited from explicit termination request.", Leave.RELEASED),
        ("Executor decommission: spark scale down", Leave.RELEASED),
        ("Executor decommission: worker decommissioned because of kill request from HTTP endpoint", Leave.LOST),
        ("Executor decommission: Received SIGPWR", Leave.LOST),
        ("Executor Process Lost", Leave.LOST),
        ("worker lost: 10.59.176.34:35971 got disassociated", Leave.LOST),
        ("Container marked as failed: container_1 on host: h. Exit status: 137.", Leave.LOST),
        ("Container container_1 on host h was preempted.", Leave.LOST),
        ("\nThe executor with id 3 exited with exit code 137(SIGKILL, possible container OOM).", Leave.LOST),
        ("The executor with id 3 was deleted by a user or the framework.", Leave.LOST),
        ("", Leave.LOST),
    ],
)
def test_who_let_an_executor_go(reason: str, leave: Leave) -> None:
    assert leave_of(reason) is leave


@pytest.mark.parametrize(
    ("removed", "leave"), [(None, Leave.STAYED), (2_500, Leave.LOST), (4_000, Leave.STAYED), (200_000, Leave.STAYED)]
)
def test_an_executor_that_goes_down_with_the_application_stayed(removed: Millis | None, leave: Leave) -> None:
    log = two_stages(1).task(0, 0, "1", 2_000, 3_000)
    log.reading.job_ended(0, 3_100, succeeded=True)
    if removed is not None:
        log.reading.executor_removed("2", removed, "Executor Process Lost")
    assert log.application().executors[1].leave is leave


def test_executors_of_old_logs_are_known_by_block_managers_and_tasks() -> None:
    log = Log().job(0, 0, LoggedStage(0, 0, 3)).submit(LoggedStage(0, 0, 3), 0)
    log.reading.block_manager_added("driver", 5, "d")
    log.reading.block_manager_added("1", 10, "h1")
    log.start(0, 0, "1", 20).start(0, 1, "1", 20).start(0, 2, "2", 30)
    log.end(0, 0, "1", 20, 40).end(0, 1, "1", 20, 45).end(0, 2, "2", 30, 50)
    app = log.application()
    assert [(one.executor, one.host, one.added_ms, one.cores) for one in app.executors] == [
        ("1", "h1", 10, 2),
        ("2", "", 30, 1),
    ]
    assert (app.driver_ready_ms, app.counts["executors not announced"]) == (5, 2)


@given(st.lists(st.tuples(st.integers(0, 2_000), st.integers(1, 300)), min_size=1, max_size=60))
def test_busy_is_the_union_of_its_tasks(spans: list[tuple[int, int]]) -> None:
    life, gaps = ExecutorRecord("1", 0, 0, 60), Sample()
    ordered = sorted((began + took, began) for began, took in spans)
    for ended, began in ordered:
        life.finished(began, ended, gaps)
    covered = {moment for ended, began in ordered for moment in range(began, ended)}
    assert life.busy_ms() == len(covered)


# bounds


@pytest.mark.parametrize("claimed", [2**31 - 1, ROOM_TASKS * 4])
def test_a_stage_that_claims_the_moon_gets_what_it_ran(claimed: int) -> None:
    log = Log().executors("1").job(0, 0, LoggedStage(0, 0, claimed)).submit(LoggedStage(0, 0, claimed), 0)
    log.task(0, claimed - 1, "1", 10, 20).task(0, 5, "1", 21, 25)
    [stage] = log.application().stages
    assert len(stage.body_ms) <= ROOM_TASKS
    assert sorted(body for body in stage.body_ms if body != NO_TASK) == [4, 10]


def test_many_failures_and_copies_are_counted_not_kept() -> None:
    log = two_stages(1)
    log.reading.works[0].failures = [Failure(0, 1)] * RARE_MAX
    log.end(0, 0, "1", 2_000, 2_100, "ExceptionFailure").task(0, 0, "1", 2_000, 2_500)
    app = log.application()
    assert (len(app.stages[0].failures), app.counts["failed"]) == (RARE_MAX, 1)


def test_samples_are_bounded_and_spread_over_the_stream() -> None:
    sample, pairs = Sample(), Pairs()
    for value in range(100_000):
        sample.add(value)
        pairs.add(value, -value)
    assert sample.count == 100_000
    assert len(sample.values) < SAMPLE_MAX
    assert abs(median(sample.values) - 50_000) < 1_000
    assert pairs.second == array("q", [-value for value in pairs.first])


@pytest.mark.parametrize(
    ("values", "middle", "around", "ninth"), [([5], 5, 0, 5), ([1, 2, 9], 2, 1, 9), ([4, 1, 2, 3], 2, 1, 4)]
)
def test_orders_of_values(values: list[int], middle: int, around: int, ninth: int) -> None:
    assert (median(values), spread(values), quantile(values, 0.9)) == (middle, around, ninth)


# nothing to run, and what is not told


@pytest.mark.parametrize(
    ("log", "compacted", "word"),
    [
        (Log(), False, "no task in it"),
        (Log(), True, "compacted"),
        (two_stages().start(0, 0, "1", 2_000), False, "no task ended"),
        (two_stages().start(0, 0, "1", 2_000).end(0, 0, "1", 2_000, 2_100, "TaskKilled"), False, "none of the 1 tasks"),
    ],
)
def test_nothing_to_run_again(log: Log, compacted: bool, word: str) -> None:
    refusal = log.reading.nothing(compacted=compacted)
    assert refusal is not None
    assert word in refusal.why


def words(app: Application, told: LogTraits = TOLD) -> str:
    return " ".join(what for what, _ in unknowns_of(app, told))


def test_a_plain_log_leaves_little_unknown() -> None:
    app = replace(two_stages(1).task(0, 0, "1", 2_000, 2_500).application(), driver_ready_ms=1)
    stages = tuple(replace(stage, read_bytes=0, gc_ms=0, shuffle=None) for stage in app.stages)
    executors = tuple(replace(one, requested_ms=1) for one in app.executors)
    jobs = tuple(replace(job, ended_ms=3_000) for job in app.jobs)
    bare = replace(app, stages=stages, executors=executors, jobs=jobs)
    assert unknowns_of(bare, TOLD) == ()


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"applications": 2}, "2 applications"),
        ({"compacted": True}, "compacted"),
        ({"unread": 3}, "3 lines"),
        ({"metered": False}, "no metrics"),
        ({"platform": "Databricks"}, "Databricks"),
        ({"oversized": 1}, "Far fewer tasks ran of 1 stage than"),
    ],
)
def test_what_the_log_lacks_is_said(changes: dict[str, object], word: str) -> None:
    app = two_stages(1).task(0, 0, "1", 2_000, 2_500).application()
    assert word not in words(app)
    assert word in words(app, replace(TOLD, **changes))  # type: ignore[arg-type]  # as they are given


@pytest.mark.parametrize(
    ("properties", "word"),
    [({"spark.master": "local[4]"}, "inside its driver"), ({"spark.master": "yarn"}, "asked for is not known")],
)
def test_where_it_ran_says_what_is_not_known(properties: dict[str, str], word: str) -> None:
    app = two_stages(1).task(0, 0, "1", 2_000, 2_500).application()
    assert word in words(replace(app, properties=properties))
