"""What one call of ``allocate`` works with, and how a round ends (4.10 and 9 of spec/allocation.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from pyrsistent import pmap

from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.jvm.exceptions import ILLEGAL_ARGUMENT, NUMBER_FORMAT, SparkFault
from podtide.domain.kubernetes.allocator.executor_index_step import IndexDraft
from podtide.domain.kubernetes.allocator.state import AllocatorCommand, AllocatorState, DeletionsChanged, Round
from podtide.domain.machine.holds import HoldKey, settle
from podtide.domain.machine.turn import Turn
from podtide.domain.protocol.cluster_config import AllocationConfig
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Bound, Fact, Remark, Threw

MACHINE: Final = "ExecutorPodsAllocator"


class AllocatorTurn(Turn[AllocatorState, AllocationConfig, AllocatorCommand]):
    """One call of ``allocate`` under way. ``fleet``: its state's executors, changed in place."""

    machine = MACHINE

    def __init__(self, state: AllocatorState, config: AllocationConfig, now: Millis) -> None:
        super().__init__(state, config, now)
        self.fleet = IndexDraft(state.fleet)

    def step(self) -> Step[AllocatorState, AllocatorCommand]:
        """The state as it is now, and all that was said."""
        self.state.fleet = self.fleet.done()
        return super().step()

    def call(self, make: Callable[[int], AllocatorCommand]) -> int:
        """A command with the next serial."""
        self.state.serial += 1
        self.commands.append(make(self.state.serial))
        return self.state.serial

    def note(self, at: Millis, topic: str, **facts: Fact) -> None:
        """Report a line of Spark's log, if remarks are wanted; its facts keep their order."""
        if self.config.remarks:
            self.reports.append(Remark(at, MACHINE, topic, facts))

    def current(self) -> Round:
        """The round that is under way."""
        assert self.state.round is not None
        return self.state.round

    def hold(self, profile: ProfileId, bound: Bound, **facts: Fact) -> None:
        """Something holds a profile back in this round."""
        current = self.current()
        self.state.round = replace(current, held=current.held.set((profile, bound), pmap(facts)))

    def start_failed(self, at: Millis) -> None:
        """A pod did not start: back off, if that is the policy."""
        policy = self.config.policies.back_off
        if policy is not None:
            self.state.slowdown = self.state.slowdown.failed(policy, at)


def abort(turn: AllocatorTurn, fault: SparkFault) -> None:
    """The round ends in an exception: what it had deleted counts again."""
    current = turn.current()
    for number in current.retired:
        turn.fleet.reinstate(number)
    for number in current.forgotten:
        turn.fleet.retire(number)
    if current.shares is None:
        for profile, target in current.plan:
            turn.hold(profile, Bound.ROUND_ABORTED, target=target, failures=turn.state.failures)
    for consumer in current.consumers[current.turn :]:
        if (consumer.profile, Bound.POD_LIMIT) not in current.held:
            turn.hold(consumer.profile, Bound.ROUND_ABORTED, missing=consumer.missing, failures=turn.state.failures)
    fatal = fault.exception_class in (NUMBER_FORMAT, ILLEGAL_ARGUMENT)
    turn.reports.append(Threw(current.at, MACHINE, str(fault), fatal))
    turn.state.round = replace(turn.current(), aborted=True, retired=(), forgotten=())
    end(turn)


def end(turn: AllocatorTurn) -> None:
    """Nothing more is asked in this round; it is over when all creations came back."""
    current, back_off = turn.current(), turn.config.policies.back_off
    if back_off is not None and current.probing and current.requests:
        turn.state.slowdown = turn.state.slowdown.tried(back_off, current.at)
    turn.state.round = replace(current, over=True, wait=None)
    close(turn)


def cut_short(turn: AllocatorTurn) -> None:
    """Ask for nothing more in this round: the application stops, and all its pods are about to be deleted.

    In Spark the snapshot store's stop() comes before that: it waits for the round, and then interrupts it. A pod made
    after the delete would be left over.
    """
    current = turn.current()
    turn.state.round = replace(current, left=0, turn=len(current.consumers))
    end(turn)


def close(turn: AllocatorTurn) -> None:
    """The round is over once nothing of it is under way."""
    current = turn.current()
    if current.flights:
        return
    if not current.aborted:
        turn.state.outstanding = current.pending + len(turn.fleet.tables.created)
        tell_deletions(turn, current.retired, current.forgotten)
    held: Mapping[HoldKey, Mapping[str, Fact]] = current.held
    turn.state.holds, reports = settle(turn.state.holds, held, current.at)
    turn.reports.extend(reports)
    # The next one starts from what this one did, or left undone; and without a snapshot it may not wait for claims.
    acted = turn.state.serial != current.serial or (current.fresh and turn.config.wait_for_claims)
    turn.state.stirred = turn.state.stirred or current.aborted or acted
    turn.state.round = None


def tell_deletions(turn: AllocatorTurn, retired: tuple[PodNumber, ...], forgotten: tuple[PodNumber, ...]) -> None:
    """Tell what changed for registrations; a pod that was forgotten and deleted anew did not."""
    if retired or forgotten:
        both = frozenset(retired).intersection(forgotten)
        added = tuple(number for number in retired if number not in both)
        gone = tuple(number for number in forgotten if number not in both)
        if added or gone:
            turn.commands.append(DeletionsChanged(turn.now, added, gone))
