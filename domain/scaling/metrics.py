"""The metrics that Spark's ExecutorAllocationManagerSource exposes, under its names."""

from __future__ import annotations

from podtide.domain.engine import State
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.resource_profiles import SparkFault
from podtide.domain.scaling.manager import needed_executors


def metrics(state: State, config: ScalingConfig) -> dict[str, int]:
    """Gauges and counters of the source "ExecutorAllocationManager", summed over profiles.

    Where Spark cannot work a gauge out (a profile that it does not know) the gauge shows its default, 0.
    """
    scaling = state.scaling
    rosters = scaling.idleness.rosters().values()
    needs = [needed_executors(scaling, state.load, config, profile) for profile in scaling.order]
    known = [n for n in needs if not isinstance(n, SparkFault)]
    removals = scaling.idleness.removals()
    return {
        "executors.numberExecutorsToAdd": sum(scaling.to_add.values()),
        "executors.numberExecutorsPendingToRemove": sum(roster.pending_removal for roster in rosters),
        "executors.numberAllExecutors": scaling.idleness.total(),
        "executors.numberTargetExecutors": sum(scaling.targets.values()),
        "executors.numberMaxNeededExecutors": sum(known) if len(known) == len(needs) else 0,
        "executors.numberDecommissioningExecutors": sum(roster.decommissioning for roster in rosters),
        "executors.numberExecutorsGracefullyDecommissioned": removals.gracefully_decommissioned,
        "executors.numberExecutorsDecommissionUnfinished": removals.decommission_unfinished,
        "executors.numberExecutorsKilledByDriver": removals.killed_by_driver,
        "executors.numberExecutorsExitedUnexpectedly": removals.exited_unexpectedly,
    }
