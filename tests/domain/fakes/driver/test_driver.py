"""Workloads: jobs start when they should, tasks run where they should, and the listeners hear of it in Spark's order."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from podtide.domain.base.randomness import Exponential, Uniform
from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, ProfileId
from podtide.domain.fakes.driver import driver as workloads
from podtide.domain.fakes.driver.rows import Ending
from podtide.domain.fakes.driver.script import (
    Cached,
    Jobs,
    Profile,
    ScriptJob as Job,
    ScriptStage as Stage,
    Storage,
    Targets,
)
from podtide.domain.protocol.config import ProfileRules
from podtide.domain.protocol.executor_commands import StopApplication
from podtide.domain.protocol.executor_stimuli import ExecutorBusy, TargetsSet
from podtide.domain.protocol.stimuli import (
    BlockUpdated,
    JobEnd,
    JobStage,
    JobStart,
    RddBlock,
    ResourceProfileAdded,
    ShuffleCleaned,
    StageSubmitted,
    TaskEnd,
    TaskStart,
    UnpersistRDD,
)
from tests.support.workload_play import WHY, Play, S, map_reduce, one_job, secs

P0, P1 = DEFAULT_PROFILE, ProfileId(1)
TARGETS = Targets(((0, ((P0, 10),)), (60 * S, ((P0, 20), (P1, 5))), (300 * S, ((P0, 0),))))


# targets


def test_targets_are_said_at_their_times() -> None:
    state = workloads.begin(TARGETS, 1, 7)
    assert workloads.due(state) == 7
    state, said = workloads.advance(state, 7)
    assert said == (TargetsSet(7, ((P0, 10),)),)
    assert (workloads.due(state), workloads.done(state)) == (7 + 60 * S, False)
    state, said = workloads.advance(state, 400 * S)
    assert said == (TargetsSet(7 + 60 * S, ((P0, 20), (P1, 5))), TargetsSet(7 + 300 * S, ((P0, 0),)))
    assert (workloads.due(state), workloads.done(state)) == (NEVER, True)
    assert workloads.summary(state) == workloads.Summary()


# a job


def test_events_come_in_spark_s_order() -> None:
    play = Play(map_reduce(3, 1))
    play.join("1", "2")
    play.finish()
    assert play.story() == [
        "JobStart 0",
        "stage 0.0 of 3",
        "start 0.0.0 on 1",
        "start 0.0.1 on 2",
        "start 0.0.2 on 1",  # a slot is offered again before the driver looks at the result
        "success 0.0.0 on 1",
        "success 0.0.1 on 2",
        "success 0.0.2 on 1",
        "stage 0.0 over",
        "stage 1.0 of 1",
        "start 1.0.0 on 1",
        "success 1.0.0 on 1",
        "stage 1.0 over",
        "JobEnd 0",
    ]
    assert play.all(JobStart) == [JobStart(0, 0, (JobStage(0, 0), JobStage(1, None)))]
    assert play.done
    (job,) = play.summary.jobs
    assert (job.name, job.began, job.first_task, job.ended, job.ending) == ("job", 0, 0, 3 * S, Ending.SUCCEEDED)


@pytest.mark.parametrize(
    ("cores", "cpus", "executors", "first"),
    [
        (1, "1", 3, ["1", "2", "3"]),
        (2, "1", 3, ["1", "2", "3", "1", "2", "3"]),
        (4, "2", 2, ["1", "2", "1", "2"]),
        (3, "2", 2, ["1", "2"]),
        (1, "0.5", 2, ["1", "2", "1", "2"]),
    ],
)
def test_tasks_are_spread_round_by_round_in_order_of_registration(
    cores: int, cpus: str, executors: int, first: list[str]
) -> None:
    rules = ProfileRules(executor_cores=cores, task_cpus=Decimal(cpus))
    play = Play(Jobs((Job("job", (Stage("only", 50, secs(1)),), start_ms=1_000),)), rules=rules)
    for name in ("1", "2", "3")[:executors]:
        play.join(name, slots=len(first) // executors)
    play.until(1_000)
    assert [start.executor for start in play.all(TaskStart)] == first


def test_offers_can_be_shuffled_as_spark_s_are() -> None:
    def order(seed: int, shuffled: bool) -> list[str]:
        play = Play(Jobs((Job("job", (Stage("only", 8, secs(1)),), 1_000),), shuffled_offers=shuffled), seed)
        play.join(*map(str, range(8)))
        play.until(1_000)
        return [start.executor for start in play.all(TaskStart)]

    assert order(1, False) == order(2, False) == list(map(str, range(8)))
    assert order(1, True) == order(1, True) != order(2, True)
    assert sorted(order(1, True)) == list(map(str, range(8)))


def test_who_is_busy_is_said_when_it_changes() -> None:
    play = Play(one_job(Stage("only", 3, secs(1))))
    play.join("1", "2", "3", "4")
    assert play.all(ExecutorBusy) == [ExecutorBusy(0, (ExecutorId("1"), ExecutorId("2"), ExecutorId("3")), True)]
    play.finish()
    assert play.all(ExecutorBusy)[1:] == [ExecutorBusy(S, (ExecutorId("1"), ExecutorId("2"), ExecutorId("3")), False)]


# stages and jobs among each other


def test_a_stage_waits_for_all_its_parents() -> None:
    play = Play(
        one_job(
            Stage("left", 1, secs(1)),
            Stage("right", 1, secs(5)),
            Stage("join", 1, secs(1), parents=("left", "right")),
        )
    )
    play.join("1", "2")
    play.finish()
    assert [(stage.at, stage.stage) for stage in play.all(StageSubmitted)] == [(0, 0), (0, 1), (5 * S, 2)]


def test_jobs_follow_each_other_after_a_think_time() -> None:
    only = (Stage("only", 1, secs(1)),)
    jobs = (
        Job("c", only, after=("a", "b"), think=secs(10)),
        Job("a", only),
        Job("b", only, start_ms=20 * S),
        Job("d", only, start_ms=60 * S, after=("c",)),
    )
    play = Play(Jobs(jobs))
    play.join("1", "2")
    play.finish()
    assert [(job.name, job.began, job.ended) for job in play.summary.jobs] == [
        ("a", 0, 1 * S), ("b", 20 * S, 21 * S), ("c", 31 * S, 32 * S), ("d", 60 * S, 61 * S),
    ]  # fmt: skip


def test_two_jobs_that_need_the_same_lost_output_share_its_stage() -> None:
    load = Job("load", (Stage("read", 2, secs(1), writes_shuffle=True),))
    uses = [Job(name, (Stage("sum", 1, secs(1), parents=("load.read",)),), after=("load",)) for name in "ab"]
    play = Play(Jobs((load, replace(uses[0], start_ms=5 * S), replace(uses[1], start_ms=5 * S))))
    play.join("1", "2")
    play.until(4 * S)
    play.lose("1", "2")
    play.join("3", "4")
    play.finish()
    assert [(stage.stage, stage.attempt, stage.tasks) for stage in play.all(StageSubmitted)] == [
        (0, 0, 2), (1, 0, 2), (2, 0, 1), (3, 0, 1),
    ]  # fmt: skip
    assert [job.ending for job in play.summary.jobs] == [Ending.SUCCEEDED] * 3


# profiles, cached data, shuffles


def test_profiles_are_announced_and_keep_to_their_executors() -> None:
    script = one_job(
        Stage("map", 2, secs(1)),
        Stage("train", 4, secs(1), parents=("map",), profile=P1),
        profiles=(Profile(P1, (("cores", 4), ("gpu", 1)), (("cpus", 2.0), ("gpu", 0.5))),),
    )
    play = Play(script)
    play.join("1")
    play.join("2", profile=1, slots=2)
    play.finish()
    assert play.said[0] == ResourceProfileAdded(0, P1, (("cores", 4.0), ("gpu", 1.0)), (("cpus", 2.0), ("gpu", 0.5)))
    assert {(start.stage, start.executor) for start in play.all(TaskStart)} == {(0, "1"), (1, "2")}
    assert play.summary.jobs[0].ended == 4 * S


@pytest.mark.parametrize(("storage", "on_disk"), [(Storage.MEMORY, False), (Storage.DISK, True)])
def test_cached_blocks_are_told_before_the_task_ends(storage: Storage, on_disk: bool) -> None:
    cached = Stage("load", 1, secs(1), cached=Cached(storage, until="second"))
    jobs = (Job("first", (cached,)), Job("second", (Stage("use", 1, secs(1)),), after=("first",)))
    play = Play(Jobs(jobs))
    play.join("1")
    play.finish()
    assert play.all(BlockUpdated) == [BlockUpdated(S, ExecutorId("1"), RddBlock(0, 0), True, on_disk)]
    place = play.said.index(play.all(BlockUpdated)[0])
    assert isinstance(play.said[place + 1], TaskEnd)
    assert play.all(UnpersistRDD) == [UnpersistRDD(2 * S, 0)]
    assert play.said.index(play.all(UnpersistRDD)[0]) > play.said.index(play.all(JobEnd)[1])


def test_a_run_s_own_cache_goes_with_the_run() -> None:
    cached = Stage("load", 1, secs(1), cached=Cached(until="query"))
    play = Play(Jobs((Job("query", (cached,), times=2),)))
    play.join("1")
    play.finish()
    assert play.all(UnpersistRDD) == [UnpersistRDD(S, 0), UnpersistRDD(2 * S, 1)]


def test_shuffles_are_cleaned_when_nobody_can_read_them() -> None:
    load = Job("load", (Stage("read", 1, secs(1)), Stage("write", 1, secs(1), ("read",), writes_shuffle=True)))
    use = Job("use", (Stage("sum", 1, secs(1), parents=("load.write",)),), after=("load",))
    alone = Job("alone", (Stage("map", 1, secs(1)), Stage("sum", 1, secs(1), parents=("map",))), after=("use",))
    play = Play(Jobs((load, use, alone), clean_ms=5 * S))
    play.join("1")
    play.finish()
    assert play.all(ShuffleCleaned) == [ShuffleCleaned(8 * S, 0), ShuffleCleaned(8 * S, 1), ShuffleCleaned(10 * S, 2)]


# chance


CHANCY = one_job(
    Stage("map", 40, Uniform(100, 5_000), failure=0.1),
    Stage("reduce", 15, Exponential(2_000), parents=("map",), failure=0.05),
)


def test_the_same_seed_tells_the_same_story() -> None:
    def story(seed: int) -> list[object]:
        play = Play(CHANCY, seed)
        play.join(*map(str, range(5)))
        play.until(6 * S)
        play.lose("3")
        play.finish()
        return list(play.said)

    assert story(4) == story(4) != story(5)


def test_how_long_a_task_takes_does_not_depend_on_the_executors() -> None:
    def durations(executors: int) -> dict[tuple[int, int], int]:
        play = Play(replace(CHANCY, jobs=(Job("job", (Stage("map", 40, Uniform(100, 5_000)),)),)))
        play.join(*map(str, range(executors)))
        play.finish()
        began = {(item.stage, item.task_index): item.at for item in play.all(TaskStart)}
        return {key: end - began[key] for key, end in _ends(play).items()}

    assert durations(3) == durations(17)


def _ends(play: Play) -> dict[tuple[int, int], int]:
    return {(item.stage, item.task_index): item.at for item in play.all(TaskEnd)}


# states


def test_a_fork_can_be_gone_on_from() -> None:
    play = Play(CHANCY)
    play.join(*map(str, range(4)))
    play.until(3 * S)
    old, heard = workloads.fork(play.state), len(play.said)
    summary, due = workloads.summary(old), workloads.due(old)
    play.lose("2")
    play.finish()
    assert (workloads.summary(old), workloads.due(old)) == (summary, due)
    again = Play(CHANCY)
    again.join(*map(str, range(4)))
    again.until(3 * S)
    assert again.said == play.said[:heard]
    again.state = old
    again.lose("2")
    again.finish()
    assert again.said == play.said
    assert again.summary == play.summary


def test_time_does_not_go_back() -> None:
    state, _ = workloads.advance(workloads.begin(map_reduce(), 1, 0), 100)
    with pytest.raises(ValueError, match="at 100 already"):
        workloads.advance(state, 99)
    with pytest.raises(ValueError, match="at 100 already"):
        workloads.hear(state, StopApplication(99, 1, WHY), 99)


def test_a_stopped_application_says_nothing_more() -> None:
    play = Play(map_reduce(10, 2))
    play.join("1", "2")
    play.until(1_500)
    play.state = workloads.hear(play.state, StopApplication(1_500, 11, WHY), 1_500)
    said = len(play.said)
    play.finish()
    assert [item for item in play.said[said:] if not isinstance(item, ExecutorBusy)] == []
    assert play.done
    assert [job.ending for job in play.summary.jobs] == [Ending.STOPPED]
    assert play.summary.tasks_running == 0


def test_a_workload_with_problems_is_not_begun() -> None:
    with pytest.raises(ValueError, match=r"jobs.job.stages.s.tasks: expected 1 to 5000000 tasks"):
        workloads.begin(one_job(Stage("s", 0)), 1, 0)


def test_no_jobs_are_done_at_once() -> None:
    state = workloads.begin(Jobs(), 1, 0)
    assert workloads.done(state)
    assert workloads.due(state) == NEVER
