"""Map output that was lost is computed again by a stage of another id: that is no work of the application's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from podtide.adapters.eventlog.bytes.source import open_log
from podtide.domain.base.units import Millis
from podtide.domain.protocol.stimuli import JobStage
from podtide.domain.recorded.application import Application
from podtide.domain.recorded.stages import LoggedStage
from podtide.entrypoints.whatif.recorded_log import read_application
from tests.domain.recorded.test_reading import Log

TRUTH = Path(__file__).parents[2] / "truth"
MAPS = "ShuffleMapTask"


def exchange(*, completed: Millis | None = 1_010, tasks: int = 3) -> Log:
    """A map stage of adaptive execution in job 0: so many tasks of 1000, 1001 and so on at once."""
    log = Log().executors("1", "2", "3")
    seen = LoggedStage(0, 0, tasks, rdd=3)
    log.job(0, 0, seen).submit(seen, 0)
    for index in range(tasks):
        log.task(0, index, str(index + 1), 0, 1_000 + index, kind=MAPS)
    if completed is not None:
        log.complete(seen, completed)
    log.reading.job_ended(0, 1_020, succeeded=completed is not None)
    return log


def lost(log: Log, *, partitions: tuple[int, ...] = (0, 2), first_attempt: int = 1) -> Application:
    """Job 1 reads it as stage 1, which fails to fetch; stage 2 computes what was lost, and stage 1 succeeds."""
    reader = LoggedStage(1, 0, 1, parents=(2,), rdd=5)
    twin = LoggedStage(2, first_attempt, len(partitions), rdd=3)
    log.job(1, 2_000, twin._replace(attempt=0, tasks=3), reader).submit(reader, 2_010)
    log.task(1, 0, "1", 2_015, 7_050, reason="FetchFailed").complete(reader, 7_060, failed=True)
    log.submit(twin, 7_260)
    for index, part in enumerate(partitions):
        log.task(2, index, "1", 7_300 + index, 9_000, partition=part, attempt=first_attempt, kind=MAPS)
    log.complete(twin, 9_010)
    again = reader._replace(attempt=1)
    log.submit(again, 9_020).task(1, 0, "1", 9_030, 9_430, attempt=1).complete(again, 9_440)
    log.reading.job_ended(1, 9_450, succeeded=True)
    return log.application()


def test_a_stage_that_writes_a_shuffle_again_is_no_work_of_its_own() -> None:
    app = lost(exchange())
    assert [stage.stage for stage in app.stages] == [0, 1]
    maps, reader = app.stages
    assert (list(maps.body_ms), maps.attempts, maps.recomputed, maps.completed_ms) == (
        [1_000, 1_001, 1_002],
        2,
        2,
        1_010,
    )
    assert (list(reader.body_ms), reader.attempts, reader.submit_lag_ms) == ([400], 2, 10)
    job = app.jobs[1]
    assert (job.stages, job.repeated, job.end_lag_ms) == ((1,), (2,), 10)
    assert job.needs == (JobStage(2, 3), JobStage(1))  # the reader's parent is known by its shuffle
    assert app.counts["succeeded"] == 4
    assert (app.counts["recomputed"], app.counts["repeated stages"]) == (2, 1)


def test_a_stage_that_found_nothing_left_to_compute_is_none_either() -> None:
    app = lost(exchange(), partitions=())
    assert [stage.stage for stage in app.stages] == [0, 1]
    assert (app.stages[0].attempts, app.stages[0].recomputed) == (2, 0)


def test_a_job_that_only_repeated_a_stage_knows_that_it_did() -> None:
    """It took its time for what had been lost, and takes none where nothing is."""
    log = exchange()
    twin = LoggedStage(1, 0, 1, rdd=3)
    log.job(1, 2_000, twin).submit(twin, 2_010).task(1, 0, "1", 2_020, 3_020, partition=1, kind=MAPS)
    log.complete(twin, 3_030)
    log.reading.job_ended(1, 3_040, succeeded=True)
    job = log.application().jobs[1]
    assert (job.stages, job.repeated, job.end_lag_ms) == ((), (1,), 10)


def test_what_a_cancelled_job_left_is_work_of_the_next_one() -> None:
    app = lost(exchange(completed=None))
    assert [(stage.stage, stage.recomputed) for stage in app.stages] == [(0, 0), (1, 0), (2, 0)]
    assert app.jobs[1].repeated == ()


def test_a_larger_stage_is_another_ones_shuffle() -> None:
    app = lost(exchange(tasks=1), partitions=(0, 1, 2))
    assert [stage.stage for stage in app.stages] == [0, 1, 2]


@pytest.mark.parametrize("application", ["join_of_unequal_sides", "killed_executors"])
def test_all_runs_of_an_application_have_the_same_tasks(application: str) -> None:
    """Real runs, some of which lost map output: how many tasks there were to do does not depend on it."""
    counts, repeated = set(), 0
    for run in sorted((TRUTH / application).glob("*/run*")):
        with open_log(str(run / "log")) as source:
            app = read_application(source).application
        counts.add((len(app.stages), app.tasks))
        repeated += app.counts.get("repeated stages", 0)
    assert len(counts) == 1
    assert repeated
