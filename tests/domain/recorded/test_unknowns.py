"""What a log does not tell: each sentence where it applies, with its numbers, and none where it does not."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId
from podtide.domain.recorded.application import NO_TASK, Application, Copy, Leave, RecordedExecutor
from podtide.domain.recorded.executors import UNANNOUNCED
from podtide.domain.recorded.job_dependencies import MAIN
from podtide.domain.recorded.lifetimes import CAME_UNASKED, STRAY_TASKS, STRAYS
from podtide.domain.recorded.memory import MemoryEvidence, StageMemory
from podtide.domain.recorded.unknowns import (
    HOLES,
    LATE_START,
    MISSING_PARTS,
    LogTraits,
    holes,
    lost_parts,
    nothing_to_run,
    unknown_conf,
    unknowns_of,
)
from tests.support.rerun_play import app, job, stage

ALL_TOLD = LogTraits(
    stages_parentless=False, metered=True, partitions=True, block_updates=True, compacted=False, platform=None, unread=0,
    gaps=0, applications=1, oversized=0, dynamic=True,
)  # fmt: skip
EXECUTOR = RecordedExecutor(ExecutorId("1"), "h", DEFAULT_PROFILE, 1, 5, None, Leave.STAYED, requested_ms=1)


def whole(**changes: Any) -> Application:
    """A log that tells everything, but for what changes."""
    stages = (stage(0, [100, 200]), stage(1, [100]))
    known = app(*stages, jobs=[job(0, stages, ended_ms=500)], ended_ms=1_000, properties={"spark.master": "yarn"})
    return replace(known, **{"executors": (EXECUTOR,), "driver_ready_ms": 1, **changes})


def of_stage(**changes: Any) -> Application:
    known = whole()
    return replace(known, stages=(replace(known.stages[0], **changes), known.stages[1]))


def of_job(**changes: Any) -> Application:
    known = whole()
    return replace(known, jobs=(replace(known.jobs[0], **changes), known.jobs[0]))


def of_executor(**changes: Any) -> Application:
    return whole(executors=(replace(EXECUTOR, **changes), EXECUTOR))


def counted(what: str, number: int = 3) -> Application:
    return whole(counts={what: number})


FAIR = {"spark.master": "yarn", "spark.scheduler.mode": "fair"}


@pytest.mark.parametrize(
    ("known", "told", "sentence"),
    [
        (whole(end_known=False), {}, "The log has no end of the application."),
        (of_job(ended_ms=None), {}, "1 job had not ended when the log did."),
        (counted("jobs made up"), {}, "Of 3 jobs only the stages are in the log."),
        (whole(), {"unread": 2_000, "gaps": 1}, "The log is incomplete: 2,000 lines could not be read, holes in 1 place."),
        (of_job(after=(9,), think_ms=51), {}, "Between jobs the driver took 0 s in all;"),
        (of_job(thread=f"{MAIN} #2"), {}, "Jobs ran side by side and nothing names their threads"),
        (replace(of_job(pool="etl"), properties=FAIR), {}, "Weights and minimum shares of 2 FAIR pools"),
        (counted("streamed jobs"), {}, "The clock started 3 jobs: micro-batches of a stream."),
        (whole(), {"stages_parentless": True}, "Stage parents are not logged."),
        (counted(HOLES, 1), {}, "1 task of stages that completed cannot be found in the log."),
        (of_stage(body_ms=array("q", [NO_TASK, 5, NO_TASK])), {}, "2 tasks never succeeded in the log."),
        (of_stage(attempts=2), {"partitions": False}, "There were further attempts of 1 stage,"),
        (of_stage(copies=(Copy(0, 5),)), {}, "1 task had speculative copies;"),
        (of_stage(stores=(4, 5)), {"block_updates": False}, "Which executors held cached partitions (2 RDDs),"),
        (of_stage(shuffle=7), {}, "When Spark cleaned a shuffle is not logged."),
        (whole(memory=MemoryEvidence((StageMemory(0, memory_spilled=5 * 2**30),))), {}, "Tasks spilled 5.0 GiB of memory."),
        (of_stage(run_ms=200_000, gc_ms=50_000), {}, "Tasks spent 25% of their time (50 s) collecting garbage."),
        (of_stage(read_bytes=1), {}, "Where tasks preferred to run is not logged."),
        (counted("executors not announced"), {}, "Only tasks or block managers tell of 3 executors."),
        (counted(STRAY_TASKS), {}, "No job lists the stages of 3 tasks that ran,"),
        (counted(STRAYS, 1), {}, "By the log 1 executor came before the application began"),
        (counted(CAME_UNASKED), {}, "3 executors came at the start,"),
        (counted(UNANNOUNCED, 1), {}, "The log does not describe 1 resource profile that its executors have."),
        (of_executor(requested_ms=None), {}, "When 1 of 2 executors were asked for is not known."),
        (of_executor(leave=Leave.LOST), {}, "The application lost 1 executor;"),
        (replace(whole(), driver_ready_ms=None), {}, "When the driver was ready is not logged."),
        (whole(properties={"spark.master": "local[2]"}), {}, "The application ran inside its driver (a local master)"),
    ],
)  # fmt: skip
def test_what_is_not_told_is_said_once_and_nothing_else(
    known: Application, told: dict[str, Any], sentence: str
) -> None:
    found = unknowns_of(known, replace(ALL_TOLD, **told))
    assert len(found) == 1, found
    assert found[0].what.startswith(sentence)
    assert found[0].effect.endswith(".")


@pytest.mark.parametrize(
    "known",
    [
        whole(),
        of_job(after=(9,), think_ms=50),
        replace(of_job(pool="etl"), properties={"spark.master": "yarn", "spark.scheduler.mode": "FIFO"}),
        of_stage(attempts=2),
        of_stage(stores=(4,)),
        of_stage(run_ms=20_000, gc_ms=5_000),
        of_stage(run_ms=900_000, gc_ms=50_000),
        whole(properties={"spark.master": "local-cluster[2,1,1024]"}),
    ],
)
def test_what_is_told_or_matters_little_is_not_said(known: Application) -> None:
    assert unknowns_of(known, ALL_TOLD) == ()


@pytest.mark.parametrize(
    ("question", "known", "answer"),
    [
        (holes, counted(HOLES, 0), None),
        (holes, of_stage(body_ms=array("q", [5] * 7)), None),
        (holes, replace(of_stage(body_ms=array("q", [5] * 7)), counts={HOLES: 2}), None),
        (holes, replace(of_stage(body_ms=array("q", [5] * 7)), counts={HOLES: 3}), "3 of 8 tasks are not in the log"),
        (nothing_to_run, whole(), None),
        (nothing_to_run, whole(stages=()), "no task of the application is in the log"),
        (nothing_to_run, whole(stages=(), counts={LATE_START: 1}), "the log begins in the middle"),
        (unknown_conf, whole(), None),
        (unknown_conf, whole(properties={}), "the log has no environment"),
        (lost_parts, whole(), None),
        (lost_parts, counted(MISSING_PARTS, 1), "parts of the log are missing or out of order in one place"),
        (lost_parts, counted(MISSING_PARTS, 1_200), "parts of the log are missing or out of order in 1,200 places"),
    ],
)
def test_whether_a_log_tells_enough(
    question: Callable[[Application], str | None], known: Application, answer: str | None
) -> None:
    found = question(known)
    assert found is None if answer is None else found is not None and found.startswith(answer)
