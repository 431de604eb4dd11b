"""Who has not been heard from for too long: a pure HeartbeatReceiver.

The driver notes when it last heard from each executor. It looks at all of them at a fixed rate, from its beginning on; an
executor whose last heartbeat is longer ago than the timeout is forgotten here, killed and replaced (its loss counts as a
failure), and reported as lost to the driver endpoint, in this order. So an executor that hangs while its pod is Running
goes after more than the timeout, and after at most the timeout and the interval between two looks.

- An executor counts as heard from when the driver hears that it was added. A heartbeat of one that is not known (any more)
  changes nothing: the driver tells it to register its block manager anew.
- "Longer" is meant strictly.
- With an interval of 0 or less there are no looks at all: the timer refuses it, and the receiver goes on without.
- Executors that expire at one look go in the order of Scala's mutable HashMap, which never shrinks.
- What is added, and removed, is what the listeners hear of: an executor that is removed is not missed.

Two kinds of sources tell of heartbeats. One tells every heartbeat (``HeartbeatConfig.every_beat``): what it does not tell
was not sent. The other tells where heartbeats stop, with the time of the last one, and where they begin again: Spark's
conf holds the interval of heartbeats to the timeout, so those between change nothing. Where nobody tells anything, as in
a live run, nobody expires: there the driver has a HeartbeatReceiver of its own, and what comes of it is seen
(docs/decisions/0021-silence-is-told-and-not-every-heartbeat.md).

A look costs what expires. Executors are kept by the look at which they would (``looks``), of which there are no more than
the timeout has intervals, and two; a heartbeat moves its executor on.

Source: HeartbeatReceiver of Spark 4.3.0 (onStart, receiveAndReply, expireDeadHosts).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias, assert_never

from pyrsistent import PMap, PSet, pmap, pset

from podtide.domain.base.units import NEVER, ExecutorId, Millis, next_on_grid
from podtide.domain.jvm.hash_order import bucket_order
from podtide.domain.jvm.values import string_hash
from podtide.domain.machine.turn import Turn
from podtide.domain.protocol.backend_messages import HeartbeatTimedOut
from podtide.domain.protocol.cluster_config import HeartbeatConfig
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.executor_stimuli import Heartbeat, HeartbeatsStopped, Stopping, Wake
from podtide.domain.protocol.stimuli import ExecutorAdded, ExecutorRemoved

MACHINE: Final = "HeartbeatReceiver"

HeartbeatInput: TypeAlias = ExecutorAdded | ExecutorRemoved | Heartbeat | HeartbeatsStopped | Stopping | Wake


class Look(NamedTuple):
    """Who expires at a look if nothing more is heard. ``most``: so many it has room for.

    A persistent set keeps the room of its largest size, and whoever walks it pays for that; so a set that has lost three
    quarters of its members is made anew.
    """

    executors: PSet[ExecutorId] = pset()
    most: int = 0

    def adding(self, executor: ExecutorId) -> Look:
        """One more."""
        executors = self.executors.add(executor)
        return Look(executors, max(self.most, len(executors)))

    def without(self, executor: ExecutorId) -> Look:
        """One less, who is there."""
        left = self.executors.remove(executor)
        return Look(left, self.most) if 4 * len(left) > self.most else Look(pset(left), len(left))


@dataclass(slots=True)
class HeartbeatState:
    """The receiver at a moment. ``began``: the first look, from which all others are reckoned.

    ``last_seen``: when each executor was last heard from (executorLastSeen). ``expires``: the look at which it goes if
    nothing more is heard; executors that are heard from all the time have none. ``looks``: the same by look.
    ``entries``: how many entries the table of Scala has been made for.
    """

    began: Millis
    last_seen: PMap[ExecutorId, Millis] = field(default_factory=pmap)
    expires: PMap[ExecutorId, Millis] = field(default_factory=pmap)
    looks: PMap[Millis, Look] = field(default_factory=pmap)
    entries: int = 0
    stopped: bool = False


def begin(now: Millis) -> HeartbeatState:
    """A receiver that starts now, before there are executors."""
    return HeartbeatState(now)


def due(state: HeartbeatState, config: HeartbeatConfig) -> Millis:  # noqa: ARG001 - every machine is asked alike
    """The next look at which somebody expires; NEVER if nobody would."""
    return min(state.looks, default=NEVER)


def listen(
    state: HeartbeatState, snapshots: Sequence[HeartbeatInput], config: HeartbeatConfig, now: Millis
) -> Step[HeartbeatState, HeartbeatTimedOut]:
    """Take the looks that are overdue, then the inputs in order; a Wake takes the look that is due now."""
    turn = _HeartbeatTurn(state, config, now)
    turn.look(now - 1)
    for item in snapshots:
        turn.hear(item)
    return turn.step()


class _HeartbeatTurn(Turn[HeartbeatState, HeartbeatConfig, HeartbeatTimedOut]):
    """The receiver within one step."""

    machine = MACHINE

    def hear(self, item: HeartbeatInput) -> None:
        """Take one input."""
        state, every_beat = self.state, self.config.every_beat
        match item:
            case ExecutorAdded() if not state.stopped:
                known = item.executor in state.last_seen
                state.last_seen = state.last_seen.set(item.executor, self.now)
                # Where nobody tells each heartbeat, one follows: an update makes room for an entry more.
                state.entries = max(state.entries, len(state.last_seen) + (known or not every_beat))
                self.expect(item.executor, self.now if every_beat else None)
            case ExecutorRemoved():
                self.forget(item.executor)
            case Heartbeat() if item.executor in state.last_seen:
                state.last_seen = state.last_seen.set(item.executor, self.now)
                state.entries = max(state.entries, len(state.last_seen) + 1)
                self.expect(item.executor, self.now if every_beat else None)
            case HeartbeatsStopped() if item.executor in state.last_seen:
                last = max(state.last_seen[item.executor], min(item.last_ms, self.now))
                state.last_seen = state.last_seen.set(item.executor, last)
                self.expect(item.executor, last)
            case ExecutorAdded() | Heartbeat() | HeartbeatsStopped():
                pass  # of nobody who is known
            case Stopping():
                self.state = HeartbeatState(state.began, stopped=True)
            case Wake():
                self.look(self.now)
            case _:
                assert_never(item)

    def expect(self, executor: ExecutorId, last: Millis | None) -> None:
        """An executor expires so long after this time if nothing more is heard; None: it is heard from all the time."""
        state = self.state
        before = state.expires.get(executor)
        look = None
        if last is not None and self.config.check_ms > 0:
            missed = last + self.config.timeout_ms + 1
            look = next_on_grid(state.began, self.config.check_ms, max(self.now, missed))
        if look == before:
            return
        if before is not None:
            left = state.looks[before].without(executor)
            state.looks = state.looks.set(before, left) if left.executors else state.looks.remove(before)
        if look is None:
            state.expires = state.expires.discard(executor)
        else:
            state.expires = state.expires.set(executor, look)
            state.looks = state.looks.set(look, state.looks.get(look, Look()).adding(executor))

    def forget(self, executor: ExecutorId) -> None:
        """An executor is not missed any more."""
        self.expect(executor, None)
        self.state.last_seen = self.state.last_seen.discard(executor)

    def look(self, until: Millis) -> None:
        """expireDeadHosts, of every look up to then: whoever was heard from at the one before is not looked at."""
        while (moment := due(self.state, self.config)) <= until:
            missing = sorted(self.state.looks[moment].executors)
            coded = [(string_hash(executor), executor) for executor in missing]
            for executor in bucket_order(coded, self.state.entries):
                silent = moment - self.state.last_seen[executor]
                timeout = self.config.timeout_ms
                self.remark("heartbeat timed out", executor=executor, silent_ms=silent, timeout_ms=timeout)
                self.commands.append(HeartbeatTimedOut(self.now, executor, silent, timeout))
                self.forget(executor)
