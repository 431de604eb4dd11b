"""Workloads when things go wrong: tasks fail, executors go, output is lost, and what Spark does about it."""

from __future__ import annotations

import pytest

from podtide.domain.base.randomness import Constant, Uniform
from podtide.domain.fakes.driver.rows import Ending
from podtide.domain.fakes.driver.script import Jobs, Outputs, ScriptJob as Job, ScriptStage as Stage
from podtide.domain.fakes.driver.task_scheduler import FETCH_FAILS_MS, KILL_MS
from podtide.domain.protocol import stimuli
from podtide.domain.protocol.config import ProfileRules
from podtide.domain.protocol.executor_commands import ExitReason
from podtide.domain.scheduler.dag_scheduler import RESUBMIT_MS
from tests.support.workload_play import CRASHED, DRAINED, KILLED, PREEMPTED, Play, S, map_reduce, one_job, secs


def attempts(play: Play) -> list[tuple[int, int, int]]:
    """The stage attempts: stage, attempt, tasks."""
    return [(stage.stage, stage.attempt, stage.tasks) for stage in play.all(stimuli.StageSubmitted)]


# tasks that fail


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_a_task_that_always_fails_ends_its_job(limit: int) -> None:
    after = Job("after", (Stage("ok", 1, secs(1)),), after=("job",))
    job = Job("job", (Stage("bad", 1, secs(1), failure=1.0), Stage("never", 1, parents=("bad",))))
    play = Play(Jobs((job, after), task_failures_max=limit))
    play.join("1")
    play.finish()
    assert [end.outcome for end in play.all(stimuli.TaskEnd) if end.stage == 0] == [stimuli.TaskOutcome.FAILED] * limit
    assert [job.ending for job in play.summary.jobs] == [Ending.FAILED, Ending.SUCCEEDED]
    assert play.story()[-9:-6] == ["failed 0.0.0 on 1", "stage 0.0 over", "JobEnd 0"]
    assert (play.summary.tasks_failed, play.done) == (limit, True)


def test_the_rest_of_a_failed_job_is_killed() -> None:
    job = Job(
        "job",
        (Stage("bad", 1, secs(1), failure=1.0), Stage("long", 1, secs(60)), Stage("x", 1, parents=("bad", "long"))),
    )
    play = Play(Jobs((job,), task_failures_max=1))
    play.join("1", "2")
    play.finish()
    ended = play.all(stimuli.JobEnd)[0].at
    (killed,) = [end for end in play.all(stimuli.TaskEnd) if end.outcome is stimuli.TaskOutcome.KILLED]
    assert (killed.stage, killed.at) == (1, ended + KILL_MS)
    assert play.story()[-5:] == [
        "failed 0.0.0 on 1",
        "stage 0.0 over",
        "stage 1.0 over",
        "JobEnd 0",
        "killed 1.0.0 on 2",
    ]
    assert play.summary.tasks_killed == 1


# executors that go


@pytest.mark.parametrize(
    ("reason", "ending"),
    [
        (CRASHED, Ending.FAILED),
        (KILLED, Ending.SUCCEEDED),
        (PREEMPTED, Ending.SUCCEEDED),
        (ExitReason("ExecutorDecommission", "Executor decommission: spot"), Ending.SUCCEEDED),
        (ExitReason("ExecutorProcessLost", "heartbeat"), Ending.SUCCEEDED),
    ],
)
def test_only_losses_that_the_application_caused_count(reason: ExitReason, ending: Ending) -> None:
    play = Play(one_job(Stage("only", 1, secs(10))))
    for number in range(4):
        play.join(str(number))
        play.until(play.now + S)
        play.lose(str(number), reason=reason)
    play.join("9")
    play.finish()
    assert [job.ending for job in play.summary.jobs] == [ending]
    assert (play.summary.tasks_lost, play.summary.wasted_ms) == (4, 4 * S)


def test_finished_maps_of_a_running_stage_are_resubmitted() -> None:
    play = Play(map_reduce(4, 1))
    play.join("1", "2")
    play.until(1_500)
    play.lose("1")
    play.finish()
    assert play.story()[6:] == [
        "start 0.0.3 on 2",
        "success 0.0.1 on 2",
        "failed 0.0.0 on 1",  # Resubmitted: it had succeeded
        "failed 0.0.2 on 1",  # lost while it ran
        "start 0.0.2 on 2",
        "success 0.0.3 on 2",
        "start 0.0.0 on 2",
        "success 0.0.2 on 2",
        "success 0.0.0 on 2",
        "stage 0.0 over",
        "stage 1.0 of 1",
        "start 1.0.0 on 2",
        "success 1.0.0 on 2",
        "stage 1.0 over",
        "JobEnd 0",
    ]
    summary = play.summary
    assert (summary.tasks_resubmitted, summary.tasks_lost, summary.outputs_lost) == (1, 1, 1)
    assert (summary.useful_ms, summary.wasted_ms) == (5 * S, 1_500)


def test_lost_output_is_missed_by_the_next_task_that_reads_it() -> None:
    play = Play(map_reduce(4, 4))
    play.join("1", "2")
    play.until(2_500)
    play.lose("1")
    play.finish()
    assert attempts(play) == [(0, 0, 4), (1, 0, 4), (0, 1, 2), (1, 1, 3)]
    failed = [end for end in play.all(stimuli.TaskEnd) if end.outcome is stimuli.TaskOutcome.FAILED]
    assert [(end.task_index, end.at) for end in failed] == [
        (0, 2_500), (0, 3_000 + FETCH_FAILS_MS), (2, 3_000 + 2 * FETCH_FAILS_MS),
    ]  # fmt: skip
    assert play.all(stimuli.StageSubmitted)[2].at == 3_000 + FETCH_FAILS_MS + RESUBMIT_MS
    # What ran when the output was lost went on as a zombie, and counts.
    assert ("success 1.0.1 on 2" in play.story(), play.summary.tasks_succeeded) == (True, 4 + 2 + 4)
    assert play.summary.fetch_failures == 2
    assert play.summary.jobs[0].ending is Ending.SUCCEEDED


def test_too_many_failed_fetches_in_a_row_end_the_job() -> None:
    play = Play(
        Jobs((Job("job", (Stage("map", 1, secs(1)), Stage("reduce", 2, secs(1), ("map",)))),), stage_attempts_max=2)
    )
    play.join("1")
    for number in range(2, 6):
        # The map's executor goes while the first reduce runs; the second one finds nothing.
        play.until(play.now + 1_000 + RESUBMIT_MS * (number > 2))
        play.join(str(number))
        play.until(play.now + 100)
        play.lose(str(number - 1))
        play.until(play.now + FETCH_FAILS_MS)
        if play.done:
            break
    play.finish()
    assert [job.ending for job in play.summary.jobs] == [Ending.FAILED]
    assert max(attempt for stage, attempt, _ in attempts(play) if stage == 1) == 1


@pytest.mark.parametrize(
    ("outputs", "leaves", "reason", "lost", "moved"),
    [
        (Outputs.EXECUTOR, False, KILLED, 2, 0),
        (Outputs.EXECUTOR, True, DRAINED, 2, 0),
        (Outputs.MIGRATED, False, KILLED, 2, 0),
        (Outputs.MIGRATED, True, DRAINED, 0, 2),
        (Outputs.MIGRATED, True, ExitReason("ExecutorDecommission", "gone"), 0, 2),
        (Outputs.MIGRATED, True, KILLED, 2, 0),
        (Outputs.MIGRATED, True, CRASHED, 2, 0),
        (Outputs.SERVICE, False, CRASHED, 0, 0),
    ],
)
def test_what_becomes_of_an_executor_s_output(
    outputs: Outputs, leaves: bool, reason: ExitReason, lost: int, moved: int
) -> None:
    script = Jobs(
        (
            Job("load", (Stage("map", 4, secs(1), writes_shuffle=True),)),
            Job("use", (Stage("sum", 1, secs(1), parents=("load.map",)),), start_ms=10 * S, after=("load",)),
        ),
        outputs=outputs,
    )
    play = Play(script)
    play.join("1", "2", "3")
    play.until(3 * S)
    if leaves:
        play.decommission("1")
    play.lose("1", reason=reason)
    play.finish()
    assert (play.summary.outputs_lost, play.summary.outputs_moved) == (lost, moved)
    assert attempts(play)[1:-1] == ([(1, 0, lost)] if lost else [])
    blocks = [block for block in play.all(stimuli.BlockUpdated) if isinstance(block.block, stimuli.ShuffleDataBlock)]
    assert [(block.executor, block.block) for block in blocks] == [
        ("2", stimuli.ShuffleDataBlock(0)),
        ("3", stimuli.ShuffleDataBlock(0)),
    ][:moved]


def test_moved_output_goes_with_its_new_executor() -> None:
    play = Play(map_reduce(3, 4, outputs=Outputs.MIGRATED))
    play.join("1", "2")
    play.until(1_500)
    play.decommission("1")
    play.until(2_500)
    play.lose("1", reason=DRAINED)
    assert play.summary.outputs_moved > 0
    play.join("3")
    play.until(2_700)
    play.lose("2")
    play.finish()
    assert play.summary.jobs[0].ending is Ending.SUCCEEDED
    assert play.summary.outputs_lost >= 3


def test_an_unknown_executor_is_not_missed() -> None:
    play = Play(map_reduce())
    play.lose("77", reason=CRASHED)
    play.decommission("78")
    play.disconnect("79")
    play.join("1")
    play.finish()
    assert play.done


def test_a_stage_that_lost_output_meanwhile_begins_another_attempt() -> None:
    play = Play(map_reduce(4, 4))
    play.join("1", "2")
    play.until(2_500)
    play.lose("1")
    play.join("3")
    play.until(3_400)
    assert attempts(play)[2:] == [(0, 1, 2)]
    play.lose("2")  # it holds what the first attempt computed, and ran half of the second
    play.finish()
    assert attempts(play)[2:] == [(0, 1, 2), (0, 2, 2), (1, 1, 3)]
    assert play.summary.jobs[0].ending is Ending.SUCCEEDED


def test_what_a_failed_job_s_tasks_still_compute_is_for_nobody() -> None:
    bad, quick = Stage("bad", 1, Uniform(0, 10), failure=1.0), Stage("quick", 1, Constant(50))
    play = Play(one_job(bad, quick, Stage("never", 1, parents=("bad", "quick")), task_failures_max=1))
    play.join("1", "2")
    play.finish()
    assert play.story()[-1] == "success 1.0.0 on 2"  # sooner than it could be killed
    assert (play.summary.tasks_succeeded, play.summary.useful_ms, play.summary.wasted_ms >= 50) == (1, 0, True)


def test_all_that_run_when_a_stage_misses_its_input_fail() -> None:
    play = Play(Jobs((Job("job", (Stage("map", 1, secs(1)), Stage("reduce", 5, secs(1), ("map",)))),)))
    play.join("1")
    play.until(1_500)
    play.lose("1")
    play.join("2", "3", "4")
    play.finish()
    assert play.summary.fetch_failures == 4  # one more got the first one's slot before the driver knew
    assert attempts(play) == [(0, 0, 1), (1, 0, 5), (0, 1, 1), (1, 1, 5)]


def test_a_silent_executor_s_tasks_cannot_be_killed() -> None:
    bad, long = Stage("bad", 1, secs(1), failure=1.0), Stage("long", 1, secs(60))
    play = Play(one_job(bad, long, Stage("never", 1, parents=("bad", "long")), task_failures_max=1))
    play.join("1", "2")
    play.disconnect("2")
    play.finish()
    assert (play.done, play.summary.tasks_running) == (True, 1)
    play.lose("2", reason=CRASHED)
    assert (play.summary.tasks_running, play.summary.tasks_lost) == (0, 1)


def test_what_an_older_attempt_s_tasks_compute_need_not_run_again() -> None:
    """Zombies of the first attempt compute what waits in the second one."""
    play = Play(one_job(Stage("map", 2, secs(1)), Stage("reduce", 12, Uniform(5 * S, 15 * S), parents=("map",))))
    play.join("1", "2")
    play.until(1_500)
    play.join("3", "4")  # they hold nothing
    play.until(2_000)
    play.lose("1")  # with half of the maps; the reduce that it ran is tried again and finds them missing
    play.join("5")
    play.finish(limit=10**6)
    assert play.done
    assert play.summary.jobs[0].ending is Ending.SUCCEEDED
    submitted = play.all(stimuli.StageSubmitted)[-1]
    assert (submitted.stage, submitted.attempt) == (1, 1)
    started = {start.task_index for start in play.all(stimuli.TaskStart) if (start.stage, start.attempt) == (1, 1)}
    assert len(started) < submitted.tasks


# executors that hang


def test_tasks_on_an_executor_that_hangs_end_with_it_and_run_again() -> None:
    play = Play(one_job(Stage("map", 4, secs(10))))
    play.join("1", "2")
    play.until(5 * S)
    play.hang("1")
    play.until(1_000 * S)
    assert (play.summary.tasks_succeeded, play.summary.tasks_running, play.done) == (3, 1, False)
    play.lose("1", reason=KILLED)
    play.finish()
    assert (play.summary.tasks_lost, play.summary.tasks_succeeded, play.done) == (1, 4, True)
    assert play.summary.jobs[0].ended == 1_010 * S
    assert play.summary.wasted_ms == 1_000 * S


def test_tasks_start_on_an_executor_of_which_nobody_knows_that_it_hangs() -> None:
    play = Play(one_job(Stage("map", 6, secs(10))), rules=ProfileRules(executor_cores=2))
    play.join("1")
    play.hang("1")
    play.join("2")
    play.until(100 * S)
    on_first = [start.task_index for start in play.all(stimuli.TaskStart) if start.executor == "1"]
    assert len(on_first) == 2, "both of its slots, and no more"
    assert play.summary.tasks_succeeded == 4


def test_an_executor_that_hung_goes_on_where_it_was() -> None:
    play = Play(one_job(Stage("map", 2, secs(10))))
    play.join("1")
    play.until(4 * S)
    play.hang("1")
    play.hang("1")
    play.until(60 * S)
    play.go_on("1")
    play.go_on("1")
    play.finish()
    ended = [end.at for end in play.all(stimuli.TaskEnd)]
    assert ended == [66 * S, 76 * S], "six of its ten seconds were left"


def test_a_task_on_an_executor_that_hangs_cannot_be_killed() -> None:
    bad, long = Stage("bad", 1, secs(1), failure=1.0), Stage("long", 1, secs(60))
    play = Play(one_job(bad, long, Stage("never", 1, parents=("bad", "long")), task_failures_max=1))
    play.join("1", "2")
    play.hang("2")
    play.finish()
    assert (play.done, play.summary.tasks_running) == (True, 1)
    play.go_on("2")
    play.finish()
    assert play.summary.tasks_running == 0
