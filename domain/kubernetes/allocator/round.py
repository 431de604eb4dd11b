"""A round of ExecutorPodsAllocator up to its new pods: what the snapshots show, and the survey.

``begin_round`` reflects a delivery and gives up waiting for what no snapshot showed for too long; ``survey`` counts every
profile and retires its excess, where it may stop at a call. ``creation`` goes on. The numbers in comments are those of
spec/allocation.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from pyrsistent import pmap

from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.jvm.exceptions import NULL_POINTER, NUMBER_FORMAT, SparkFault
from podtide.domain.kubernetes.allocator import creation, turn as ending
from podtide.domain.kubernetes.allocator.executor_index import ProfileCensus
from podtide.domain.kubernetes.allocator.executor_index_step import IndexDraft, has_specless, squash
from podtide.domain.kubernetes.allocator.state import ExcessWait, Round
from podtide.domain.kubernetes.allocator.turn import AllocatorTurn
from podtide.domain.protocol.allocation_policies import Consumer, Surplus
from podtide.domain.protocol.pod_commands import DeletePods, Deliver
from podtide.domain.protocol.pod_stimuli import Outcome
from podtide.domain.protocol.pods import PROFILE_LABEL, PodNumber, Snapshot
from podtide.domain.protocol.reasons import Bound, Cause, Why


def begin_round(turn: AllocatorTurn, item: Deliver) -> None:
    """Reflect a delivery, and survey the profiles."""
    at, config = turn.now, turn.config
    plan = tuple(sorted(turn.state.targets.items()))
    turn.state.stirred = False
    turn.state.round = Round(at, plan, bool(item.snapshots), serial=turn.state.serial)
    if item.snapshots and not show(turn, item.snapshots):
        return
    turn.fleet.join()
    time_out(turn, at)
    if item.snapshots and config.policies.delete_excess_running and turn.fleet.tables.overrun:
        delete_overrun(turn, at)
    if len(plan) > 1 and None in turn.fleet.tables.buckets:
        ending.abort(turn, _unreadable_profile(turn.fleet))
        return
    survey(turn)


def show(turn: AllocatorTurn, snapshots: tuple[Snapshot, ...]) -> bool:
    """Reflect what a delivery shows. Whether it could be read; if not, the round is over."""
    current = turn.current()
    if turn.state.unread is not None:  # Spark's snapshots are whole: the first new one has all that is in it
        snapshots = (squash((turn.state.unread, snapshots[0])), *snapshots[1:])
    if has_specless(snapshots):
        turn.fleet.acknowledge(snapshots)
        turn.state.unread = squash(snapshots)
        ending.abort(turn, _NO_SPEC)
        return False
    turn.state.unread = None
    batch = turn.fleet.deliver(snapshots)
    turn.state.round = replace(current, vanished=batch.vanished, forgotten=batch.forgotten)
    for _ in batch.failed:
        turn.start_failed(current.at)
    return True


def time_out(turn: AllocatorTurn, at: Millis) -> None:
    """Give up waiting for pods that no snapshot has shown for too long (4.4)."""
    limit = turn.config.create_timeout_ms
    late = turn.fleet.overdue(at - limit)
    for number, _ in late:
        turn.fleet.forget_created(number)
        turn.start_failed(at)
    if turn.config.remarks:
        for number, made in sorted(turn.fleet.tables.created.items()):
            turn.note(at, "unseen", executor=number, age_ms=at - made.at)
    if not late:
        return
    numbers = tuple(number for number, _ in late)
    turn.note(at, "creation timeout", executors=",".join(map(str, numbers)), timeout_ms=limit)
    if turn.config.delete_on_termination:
        facts = pmap({"executors": len(numbers), "timeout_ms": limit, "oldest_ms": at - late[0][1].at})
        why = Why(Cause.CREATION_TIMEOUT, facts)
        turn.call(lambda serial: DeletePods(at, serial, numbers, None, why))


def delete_overrun(turn: AllocatorTurn, at: Millis) -> None:
    """Excess pods that turned Running before their delete arrived go too, but for those whose executors registered.

    That happens before the round that let them go is over and registrations are refused: such an executor may have
    work, and the scheduler that knows it counts on it, so it counts here again.
    """
    fleet = turn.fleet
    kept = tuple(number for number in sorted(fleet.tables.overrun) if number in fleet.tables.known)
    for number in kept:
        fleet.reinstate(number)
    current = turn.current()
    turn.state.round = replace(current, forgotten=current.forgotten + kept)
    numbers = tuple(sorted(fleet.tables.overrun))
    if numbers:
        why = Why(Cause.ABOVE_TARGET, pmap({"executors": len(numbers), "running": len(numbers)}))
        turn.call(lambda serial: DeletePods(at, serial, numbers, None, why))


def survey(turn: AllocatorTurn) -> None:
    """Count the profiles that are left, up to one whose excess is being deleted."""
    current = turn.current()
    at = current.at
    while current.place < len(current.plan):
        profile, target = current.plan[current.place]
        census = turn.fleet.census(profile, alone=len(current.plan) <= 1)
        if census.pods:
            turn.note(
                at, "status", profile=profile, running=census.running, pending_unknown=census.pending,
                pending_known=census.known_pending, created_unknown=census.created, created_known=census.joined,
            )  # fmt: skip
        if census.counted > target and retire(turn, current, profile, target, census):
            return
        count(turn, profile, target, census, 0, 0)
        current = turn.current()
    creation.serve_all(turn)


def retire(turn: AllocatorTurn, current: Round, profile: ProfileId, target: int, census: ProfileCensus) -> bool:
    """Delete pods beyond the target that are old enough. Whether there are any."""
    at, fleet = current.at, turn.fleet
    excess = census.counted - target
    before = at - turn.config.idle_timeout_ms

    def pending() -> Iterator[PodNumber]:
        yield from fleet.ripe_of(profile, before, alone=len(current.plan) <= 1)

    if turn.config.remarks:
        for number in fleet.undated_of(profile, alone=len(current.plan) <= 1):
            turn.note(at, "no creation time", pod=fleet.tables.pods[number].manifest.name)
    most = min(excess, census.counted)  # a target may be negative
    retired = turn.config.policies.retire(Surplus(profile, most, fleet.created_of(profile, before), pending()))
    numbers = tuple(sorted(retired.created + retired.pending))
    kept = excess - len(numbers)
    young = census.created + census.pending - len(numbers)
    known = census.joined + census.known_pending
    if young and kept > 0:
        turn.hold(profile, Bound.IDLE_TIMEOUT, excess=kept, young=young)
    if known and kept > young:
        turn.hold(profile, Bound.SCHEDULER_KNOWN, excess=min(kept - young, known), known=known)
    if not numbers:
        return False
    fresh = tuple(number for number in retired.created + retired.pending if fleet.retire(number))
    facts = pmap({
        "profile": profile, "target": target, "counted": census.counted, "excess": excess,
        "unseen": len(retired.created), "pending": len(retired.pending),
    })  # fmt: skip
    why = Why(Cause.ABOVE_TARGET, facts)
    serial = turn.call(lambda serial: DeletePods(at, serial, numbers, "Pending", why))
    wait = ExcessWait(serial, profile, target, census, retired.created, retired.pending)
    turn.state.round = replace(turn.current(), wait=wait, retired=current.retired + fresh)
    return True


def excess_answered(turn: AllocatorTurn, wait: ExcessWait, outcome: Outcome) -> None:
    """Excess pods are deleted, or go on counting."""
    created = pending = 0
    if outcome.failure is None:
        for number in wait.created:
            if number in turn.fleet.tables.created:
                turn.fleet.forget_created(number)
        created, pending = len(wait.created), len(wait.pending)
    count(turn, wait.profile, wait.target, wait.census, created, pending)
    survey(turn)


def count(
    turn: AllocatorTurn, profile: ProfileId, target: int, census: ProfileCensus, created: int, pending: int
) -> None:
    """Add a surveyed profile to the sums; ``created`` and ``pending`` of its pods were just deleted."""
    current = turn.current()
    not_running = census.not_running - created - pending
    consumers = current.consumers
    missing = target - census.counted
    if current.fresh:
        if census.running >= target and not turn.config.dynamic:
            turn.note(current.at, "enough running", profile=profile)
        elif census.created:
            turn.note(current.at, "still waiting", profile=profile, created=census.created)
    if missing > 0:
        if census.created:
            turn.hold(profile, Bound.UNACKNOWLEDGED, missing=missing, unacknowledged=census.created)
        else:
            consumers = (*consumers, Consumer(profile, census.counted, target, not_running))
    turn.state.round = replace(
        turn.current(), place=current.place + 1, pending=current.pending + census.pending - pending,
        not_running=current.not_running + not_running, consumers=consumers, wait=None,
    )  # fmt: skip


def _unreadable_profile(fleet: IndexDraft) -> SparkFault:
    """What StringOps.toInt throws for a resource profile label that is missing or no number."""
    pod = fleet.unreadable()
    label = None if pod is None else pod.manifest.labels.get(PROFILE_LABEL)
    text = "Cannot parse null string" if label is None else f'For input string: "{label}"'
    return SparkFault(NUMBER_FORMAT, text)


_MODEL: Final = "io.fabric8.kubernetes.api.model"
_NO_SPEC: Final = SparkFault(
    NULL_POINTER,
    f'Cannot invoke "{_MODEL}.PodSpec.getVolumes()" because the return value of "{_MODEL}.Pod.getSpec()" is null',
)
