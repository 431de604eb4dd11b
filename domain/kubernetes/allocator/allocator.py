"""Which pods to create and which excess ones to delete: ExecutorPodsAllocator (direct) of Spark 4.3.0.

A *round* runs whenever the snapshot store delivers (every batch.delay, and at once when a target changes while no pod is
outstanding). It first learns what the snapshots show, then surveys the profiles in ascending order - counting, and deleting
pods beyond the target that are old enough - and last serves those with fewer pods than their target: the free slots are
split over them, each gets one batch, pods are created one by one.

Where the answer of a call changes what follows, the round stands still at that command (``Round.wait``), and goes on with
its ``Outcome``: the delete of excess pods (refused: they go on counting), the list of reusable claims, the creation of a pod
that brings claims, each claim (a refused one deletes its pod and ends the round). Creations that nothing depends on are
given out together; the round ends when all of them came back. Decisions are made for the time at which the round began.

What was deleted counts nowhere from then on, whether or not the call succeeded; if the round ends in an exception, that is
taken back (Spark assigns deletedExecutorIds and numOutstandingPods in the last lines of the round).

Source: spec/allocation.md of the conformance kit, sections 2 to 10, read off the bytecode. Choices that may be replaced are
in ``policies``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podtide.domain.base.units import ALWAYS, NEVER, Millis
from podtide.domain.kubernetes.allocator.round import Desk
from podtide.domain.kubernetes.allocator.state import AllocatorCommand, AllocatorInput, AllocatorState
from podtide.domain.protocol.allocation_policies import size_by_limits
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.config import AllocationConfig
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Bound

MACHINE: Final = "ExecutorPodsAllocator"


def begin(config: AllocationConfig, *, first_serial: int = 0) -> AllocatorState:
    """The allocator before its start. Its commands are numbered from ``first_serial`` + 1 on."""
    return AllocatorState(serial=first_serial, recovery=config.recovery_mode)


def allocate(
    state: AllocatorState, snapshots: Sequence[AllocatorInput], config: AllocationConfig, now: Millis
) -> Step[AllocatorState, AllocatorCommand]:
    """Take what came, in order, and decide. Never raises on well-typed input.

    A ``Deliver`` begins a round; what comes while one is open waits for its end, but for outcomes.
    """
    with state.fleet.step():
        desk = Desk(state, config, now)
        for item in snapshots:
            desk.take(item)
        return desk.step()


def busy(state: AllocatorState) -> bool:
    """Whether a round is open. In Spark it holds the subscriber's lock: the store delivers nothing until it is over."""
    return state.round is not None


def is_deleted(state: AllocatorState, number: PodNumber) -> bool:
    """Whether registration of this executor is to be refused (isDeleted). An open round does not show yet."""
    current = state.round
    if current is not None:
        if number in current.forgotten:  # before ``retired``: it may be deleted anew
            return True
        if number in current.retired:
            return False
    return state.fleet.deleted(number)


def due(state: AllocatorState, config: AllocationConfig) -> Millis:
    """The earliest time at which a round without any snapshot could do anything (``ALWAYS``: the next one may).

    Costs the profiles, not the pods. With remarks on every round says something.
    """
    if state.round is not None:
        return NEVER
    if state.stirred or (config.remarks and state.targets):
        return ALWAYS
    index, alone = state.fleet, len(state.targets) <= 1
    oldest = index.oldest_creation()
    earliest: Millis = NEVER if oldest is None else oldest + config.create_timeout_ms + 1
    wakes = state.slowdown.until
    not_running = 0
    surveys = [(p, t, index.census(p, alone=alone)) for p, t in state.targets.items()]
    for _, _, census in surveys:
        not_running += census.not_running
    for profile, target, census in surveys:
        if census.counted > target:
            earliest = min(earliest, index.first_excess(profile, config.idle_timeout_ms, alone=alone))
        elif census.counted < target and not census.created:
            if config.wait_for_claims and config.claims_max <= state.claims:
                continue  # such a round needs a snapshot
            if config.pending_max <= not_running:
                continue
            limited = config.pending_max_per_profile <= census.not_running and config.policies.size is size_by_limits
            slowed = (profile, Bound.BACK_OFF) in state.holds  # that ends at its time, whatever holds back then
            if limited and not slowed and not _lists_claims(state, config):
                continue
            earliest = min(earliest, ALWAYS if wakes is None else wakes)
    return earliest


def _lists_claims(state: AllocatorState, config: AllocationConfig) -> bool:
    return config.own_claims and config.reuse_claims and state.driver
