"""The metrics that Spark's ExecutorAllocationManagerSource exposes, under its names."""

from __future__ import annotations

from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.scaling.load import Load
from podtide.domain.scaling.rules import needed_executors
from podtide.domain.scaling.state import ScalingState


def metrics(state: ScalingState, load: Load, config: ScalingConfig) -> dict[str, int]:
    """Gauges and counters of the source "ExecutorAllocationManager", summed over profiles.

    Where Spark cannot work a gauge out (a profile that it does not know) the gauge shows its default, 0.
    """
    rosters = state.idleness.rosters().values()
    needs = [needed_executors(state, load, config, profile) for profile in state.order]
    known = [n for n in needs if not isinstance(n, SparkFault)]
    removals = state.idleness.removals()
    return {
        "executors.numberExecutorsToAdd": sum(state.to_add.values()),
        "executors.numberExecutorsPendingToRemove": sum(roster.pending_removal for roster in rosters),
        "executors.numberAllExecutors": state.idleness.total(),
        "executors.numberTargetExecutors": sum(state.targets.values()),
        "executors.numberMaxNeededExecutors": sum(known) if len(known) == len(needs) else 0,
        "executors.numberDecommissioningExecutors": sum(roster.decommissioning for roster in rosters),
        "executors.numberExecutorsGracefullyDecommissioned": removals.gracefully_decommissioned,
        "executors.numberExecutorsDecommissionUnfinished": removals.decommission_unfinished,
        "executors.numberExecutorsKilledByDriver": removals.killed_by_driver,
        "executors.numberExecutorsExitedUnexpectedly": removals.exited_unexpectedly,
    }
