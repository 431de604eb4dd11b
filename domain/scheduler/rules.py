"""What of Spark's conf the schedulers go by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from podtide.domain.base.units import Millis
from podtide.domain.scheduler.locality import WAITS, LocalityWaits


@dataclass(frozen=True, slots=True)
class Retries:
    """``task_failures_max``: failures of one task that end its job (spark.task.maxFailures); ``stage_attempts_max``:
    attempts of a stage in a row that failed to fetch, likewise (spark.stage.maxConsecutiveAttempts);
    ``spares_decommissioned``: not those that failed for executors that were decommissioned
    (spark.stage.ignoreDecommissionFetchFailure, on by default, where spark.decommission.enabled is).

    ``fetches``, ``fetch_wait_ms``: how often a task asks again for a block that it did not get, and after what time each
    (spark.shuffle.io.maxRetries and retryWait).
    """

    task_failures_max: int = 4
    stage_attempts_max: int = 4
    spares_decommissioned: bool = False
    fetches: int = 3
    fetch_wait_ms: Millis = 5_000


RETRIES: Final = Retries()


class FairPool(NamedTuple):
    """A pool of fairscheduler.xml. ``fair``: whether task sets within it share fairly, too (else first in first out)."""

    weight: int = 1
    min_share: int = 0
    fair: bool = False


EQUAL: Final = FairPool()
"""A pool that no file names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerRules:
    """``fair``: spark.scheduler.mode; ``pools``: those of fairscheduler.xml, by name, where it is known (all others are
    equal). ``retries``: what Spark bears of failures. ``locality``: how long tasks wait for what they prefer.

    ``shuffle_kept``: map output outlives its executor (a shuffle service, or reliable shuffle storage).
    ``shuffle_migrates``: an executor that is decommissioned hands its map output to others before it goes
    (spark.storage.decommission.shuffleBlocks.enabled); ``shuffle_fallback``: or to a storage, where there are no others
    (spark.storage.decommission.fallbackStorage.path).
    """

    fair: bool = False
    pools: Mapping[str, FairPool] = field(default_factory=dict)
    retries: Retries = RETRIES
    locality: LocalityWaits = WAITS
    shuffle_kept: bool = False
    shuffle_migrates: bool = False
    shuffle_fallback: bool = False
