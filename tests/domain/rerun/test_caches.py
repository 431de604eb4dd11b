"""Cached data in a rerun: the core hears of it, keeps who holds it, and lets go when it is dropped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from podtide.domain.base.units import NEVER
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.behaviour import Loss
from podtide.domain.rerun.ledger.causes import SpendCause
from podtide.domain.scheduler.locality import LocalityWaits
from tests.support.rerun_play import app, behaviour, causes, dynamic, job, run, stage, static

START_MS = 1_795_000_000_000
HELD: dict[str, Any] = {
    "executors_initial": 4,
    "executors_max": 4,
    "idle_timeout_ms": 5_000,
    "cached_idle_timeout_ms": NEVER,
}


def two_jobs(
    first_ms: Sequence[int] = (1_000,) * 4,
    *,
    stores: tuple[int, ...] = (9,),
    unpersisted: tuple[tuple[int, int], ...] = (),
) -> Application:
    """Tasks (of a second) that cache, a minute of thought, and as many of a second that read the cache."""
    first = stage(0, first_ms, job=0, stores=stores, submitted_ms=START_MS)
    second = stage(1, [1_000] * len(first_ms), job=1, stores=stores, submitted_ms=START_MS + 61_000)
    jobs = [
        job(0, [first], submitted_ms=START_MS, ended_ms=START_MS + 1_000),
        job(1, [second], submitted_ms=START_MS + 61_000, ended_ms=START_MS + 62_000, after=(0,), think_ms=60_000),
    ]
    return app(first, second, jobs=jobs, started_ms=START_MS, ended_ms=START_MS + 62_000, unpersisted=unpersisted)


def test_executors_with_cached_data_are_kept_and_the_ledger_says_so() -> None:
    outcome = run(two_jobs(), dynamic(**HELD))
    assert outcome.executors_started == 4
    # From the end of the idle timeout (the next place of the 100 ms grid) to the second job, each of the four.
    assert 4 * 54_800 <= causes(outcome)[SpendCause.CACHED] <= 4 * 55_000
    assert SpendCause.IDLE_TIMEOUT not in causes(outcome)


def test_who_computes_a_lost_cache_again_takes_longer_and_holds_it() -> None:
    """The executors of the first job are gone, and with them what they had cached: the tasks compute it once more."""
    outcome = run(two_jobs(), dynamic(**{**HELD, "cached_idle_timeout_ms": 10_000}))
    assert outcome.executors_started > 4  # those of the second job are new
    second = next(one for one in outcome.stages if one.stage == 1)
    assert 2_000 <= second.completed_ms - second.submitted_ms <= 2_000 + 3_000  # what the backlog takes to be answered
    assert 4 * 4_800 <= causes(outcome)[SpendCause.CACHED] <= 4 * 5_200
    assert outcome.task_ms == 4 * 1_000 + 4 * 2_000


def test_with_one_executor_its_part_of_the_cache_alone_is_lost() -> None:
    lost = behaviour(losses=(Loss(0, 30_000),))
    outcome = run(two_jobs(), static(4), lost)
    assert outcome.task_ms == 8 * 1_000 + 1_000
    held = run(two_jobs(), static(4))
    assert held.task_ms == 8 * 1_000


def test_an_executor_that_is_lost_while_the_cache_is_read_takes_its_part_with_it() -> None:
    """Two slots read four partitions; the third and the fourth begin after a second, when the first executor is gone."""
    lost = behaviour(losses=(Loss(0, 63_500),))
    outcome = run(two_jobs(), static(2), lost)
    assert outcome.tasks_again >= 1
    assert outcome.task_ms > run(two_jobs(), static(2)).task_ms + 1_000


def test_an_rdd_that_was_dropped_is_cached_anew_by_its_next_stage() -> None:
    """Its tasks compute it in the log already: nothing comes on top when its first executors are gone."""
    app = two_jobs(unpersisted=((START_MS + 2_000, 9),))
    outcome = run(app, dynamic(**{**HELD, "cached_idle_timeout_ms": 10_000}))
    assert outcome.task_ms == 8 * 1_000


@pytest.mark.parametrize(
    ("waits", "took_ms"),
    [
        (LocalityWaits(), 4_000),  # the four tasks stay with the executor that holds what they read
        (LocalityWaits(0, 0), 3_000),
        (LocalityWaits(1_000, 0), 3_000),
        (
            LocalityWaits(1_000, 1_500),
            4_000,
        ),  # the last task is begun elsewhere after two and a half seconds at the least
        (LocalityWaits(0, 3_000), 4_000),  # each executor has a host of its own
    ],
)
def test_tasks_wait_for_the_executor_that_holds_what_they_read(waits: LocalityWaits, took_ms: int) -> None:
    """One executor has cached one partition, the other one four; then each task takes a second."""
    outcome = run(two_jobs((4_000, 1_000, 1_000, 1_000, 1_000)), replace(static(2), locality=waits))
    second = next(one for one in outcome.stages if one.stage == 1)
    assert second.completed_ms - second.submitted_ms == took_ms
