"""Which pods to create and which excess ones to delete: ExecutorPodsAllocator (direct) of Spark 4.3.0.

A *round* runs whenever the snapshot store delivers (every batch.delay, and at once when a target changes while no pod is
outstanding). It first learns what the snapshots show, then surveys the profiles in ascending order - counting, and deleting
pods beyond the target that are old enough - and last serves those with fewer pods than their target: the free slots are
split over them, each gets one batch, pods are created one by one.

Where the answer of a call changes what follows, the round stands still at that command (``Round.wait``), and goes on with
its ``Outcome``: the delete of excess pods (refused: they go on counting), the list of reusable claims, the creation of a pod
that brings claims, each claim (a refused one deletes its pod and ends the round). Creations that nothing depends on are
given out together; the round ends when all of them came back. Decisions are made for the time at which the round began.

    waits for    succeeded: goes on with                     failed: goes on with
    ExcessWait   survey; the pods count no longer            survey; the pods go on counting
    ListWait     the batch, with claims to be reused         the batch without; another exception ends the round
    PodWait      the pod's first claim                       the batch's next pod
    ClaimWait    the pod's next claim, or the next pod       UndoWait: the pod is deleted
    UndoWait     the end, in the claim's exception           the end, in this call's exception (404: in the claim's)

What was deleted counts nowhere from then on, whether or not the call succeeded; if the round ends in an exception, that is
taken back (Spark assigns deletedExecutorIds and numOutstandingPods in the last lines of the round).

Source: spec/allocation.md of the conformance kit, sections 2 to 10, read off the bytecode. Choices that may be replaced are
in ``policies``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from pyrsistent import pmap

from podtide.domain.base.units import ALWAYS, NEVER, Millis
from podtide.domain.jvm.values import decimal_text
from podtide.domain.kubernetes.allocator import creation, round as rounds, turn as ending
from podtide.domain.kubernetes.allocator.state import (
    AllocatorCommand,
    AllocatorInput,
    AllocatorState,
    ClaimWait,
    ExcessWait,
    ListWait,
    PodWait,
    RecoveryNeeded,
    Subscribed,
    UndoWait,
    driver_pod_fault,
)
from podtide.domain.kubernetes.allocator.turn import AllocatorTurn
from podtide.domain.protocol.allocation_policies import size_by_limits
from podtide.domain.protocol.cluster_config import AllocationConfig
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.executor_stimuli import Starting, Stopping, TargetsSet
from podtide.domain.protocol.pod_commands import AwaitDriverReady, DeletePods, Deliver, GetDriverPod, NotifySubscribers
from podtide.domain.protocol.pod_stimuli import KnownExecutors, Outcome, Reconciled
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Bound, Cause, Why


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
        turn = AllocatorTurn(state, config, now)
        for item in snapshots:
            take(turn, item)
        return turn.step()


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


# one input


def take(turn: AllocatorTurn, item: AllocatorInput) -> None:
    """Hear one input, and what waited for the end of the round if it ended that."""
    hear(turn, item)
    while turn.state.later and turn.state.round is None:
        first, *rest = turn.state.later
        turn.state.later = tuple(rest)
        hear(turn, first)


def hear(turn: AllocatorTurn, item: AllocatorInput) -> None:
    """Take one input; what has to wait for the end of the round does."""
    match item:
        case Outcome():
            answered(turn, item)
        case TargetsSet():
            set_targets(turn, item)
        case Deliver() | KnownExecutors() if turn.state.round is not None:
            turn.state.later = (*turn.state.later, item)
        case Deliver():
            rounds.begin_round(turn, item)
        case KnownExecutors():
            know(turn, item)
        case RecoveryNeeded():
            if turn.state.recovery is None:
                turn.state.recovery = True
            warn_of_recovery(turn, turn.now)
        case Reconciled():
            reconcile(turn, item)
        case Starting():
            start(turn, turn.now)
        case Stopping():
            if turn.state.round is not None:
                ending.cut_short(turn)
            facts = pmap({"pods": len(turn.fleet.tables.pods), "unseen": len(turn.fleet.tables.created)})
            turn.call(lambda serial: DeletePods(turn.now, serial, None, None, Why(Cause.STOPPED, facts)))
        case _:
            assert_never(item)


def start(turn: AllocatorTurn, at: Millis) -> None:
    """start(), up to the driver pod."""
    name = turn.config.driver_pod
    if name is None:
        started(turn, at)
        return
    turn.state.starting = turn.call(lambda serial: GetDriverPod(at, serial, name, Why(Cause.DRIVER_POD)))


def start_answered(turn: AllocatorTurn, outcome: Outcome) -> None:
    """The driver pod is found, or ready, or neither."""
    name = turn.config.driver_pod or ""
    at = turn.now
    turn.state.starting = None
    if turn.state.driver:  # that was the wait for its readiness; whatever came of it
        started(turn, at)
        return
    failure = outcome.failure
    if failure is not None:
        what = driver_pod_fault(failure, name, turn.config.namespace)
        turn.threw(what, fatal=True)
        return
    turn.state.driver = True
    warn_of_recovery(turn, at)  # before the wait, which may take a while
    if turn.config.wait_for_driver:
        wait = turn.config.driver_readiness_timeout_ms
        why = Why(Cause.DRIVER_POD, pmap({"timeout_ms": wait}))
        turn.state.starting = turn.call(lambda serial: AwaitDriverReady(at, serial, name, wait, why))
    else:
        started(turn, at)


def started(turn: AllocatorTurn, at: Millis) -> None:
    """The allocator began."""
    warn_of_recovery(turn, at)
    turn.commands.append(Subscribed(at, turn.config.batch_delay_ms))


def warn_of_recovery(turn: AllocatorTurn, at: Millis) -> None:
    """Say once what recovery mode means for executors with few cores."""
    cpus = turn.config.task_cpus
    if turn.state.recovery and 0 < cpus * 2 <= 1 and not turn.state.recovery_warned:
        turn.state.recovery_warned = True
        turn.note(at, "recovery mode", task_cpus=decimal_text(cpus), slots=int(1 / cpus))


def set_targets(turn: AllocatorTurn, item: TargetsSet) -> None:
    """setTotalExpectedExecutors."""
    targets = turn.state.targets.evolver()
    for profile, target in item.targets:
        targets[profile] = target
    turn.state.targets = targets.persistent()
    turn.state.stirred = True
    if turn.config.remarks:
        turn.note(turn.now, "targets", **{str(profile): target for profile, target in turn.state.targets.items()})
    if turn.state.outstanding == 0:
        turn.commands.append(NotifySubscribers(turn.now))


def know(turn: AllocatorTurn, item: KnownExecutors) -> None:
    """The registered executors changed."""
    turn.state.stirred = True
    added = [number for number, _ in item.added]
    turn.fleet.know(added, item.removed)
    if added:
        turn.state.slowdown = turn.state.slowdown.over()
    if turn.config.policies.forget_ghosts:
        for number in item.removed:
            if number in turn.fleet.tables.joined:
                turn.fleet.forget_joined(number)


def reconcile(turn: AllocatorTurn, item: Reconciled) -> None:
    """Somebody else gave out executor ids, or did not make pods that this allocator asked for."""
    turn.state.executors = item.last if item.exact else max(turn.state.executors, item.last)
    for number in item.forgotten:
        if number in turn.fleet.tables.created:
            turn.fleet.forget_created(number)
        elif number in turn.fleet.tables.joined:
            turn.fleet.forget_joined(number)
    turn.state.stirred = True


def answered(turn: AllocatorTurn, outcome: Outcome) -> None:
    """A call has come back: go on where the round stopped (see the table above)."""
    if outcome.serial == turn.state.starting:
        start_answered(turn, outcome)
        return
    current = turn.state.round
    if current is None:
        return  # of a call that nobody waits for
    flight = current.flights.get(outcome.serial)
    if flight is not None:
        turn.state.round = replace(current, flights=current.flights.remove(outcome.serial))
        if outcome.failure is None:
            creation.created(turn, flight.number, flight.profile, turn.now)
        else:
            creation.not_created(turn, flight.number, outcome.failure)
        if current.over:
            ending.close(turn)
        return
    wait = current.wait
    if wait is None or wait.serial != outcome.serial:
        return
    match wait:
        case ExcessWait():
            rounds.excess_answered(turn, wait, outcome)
        case ListWait():
            creation.listed(turn, outcome)
        case PodWait():
            creation.pod_answered(turn, wait, outcome)
        case ClaimWait():
            creation.claim_answered(turn, wait, outcome)
        case UndoWait():
            creation.undo_answered(turn, wait, outcome)
        case _:
            assert_never(wait)
