"""Cached data in a rerun: the core hears of it, keeps who holds it, and lets go when it is dropped."""

from __future__ import annotations

from typing import Any

from podtide.domain.base.units import NEVER
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.ledger.causes import SpendCause
from tests.support.rerun_play import app, causes, dynamic, job, run, stage

START_MS = 1_795_000_000_000
HELD: dict[str, Any] = {
    "executors_initial": 4,
    "executors_max": 4,
    "idle_timeout_ms": 5_000,
    "cached_idle_timeout_ms": NEVER,
}


def two_jobs(*, stores: tuple[int, ...] = (9,), unpersisted: tuple[tuple[int, int], ...] = ()) -> Application:
    """Four tasks of a second that cache, a minute of thought, and four more that read the cache."""
    first = stage(0, [1_000] * 4, job=0, stores=stores)
    second = stage(1, [1_000] * 4, job=1, stores=stores)
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


def test_who_only_reads_a_cache_holds_none_of_it() -> None:
    """The second job's executors came for it: the data that it reads was stored by those of the first."""
    outcome = run(two_jobs(), dynamic(**{**HELD, "cached_idle_timeout_ms": 10_000}))
    assert outcome.executors_started > 4  # those of the second job are new
    assert 4 * 4_800 <= causes(outcome)[SpendCause.CACHED] <= 4 * 5_200
