"""The loop: stimuli in, steps, commands out, and a tick whenever one is due.

``Loop`` is the only place where time passes. It is given events in order, cuts them at the 100 ms grid of
ExecutorAllocationManager's timer, folds each piece in one go and then asks ``scaling.due`` whether the timer may
change anything; a tick that may not is skipped, which decides exactly what ticking every 100 ms would.

Several *lanes* can run side by side on one load: the same application under another assumption about its
executors (a replay gives both bounds of what the log does not say about shuffles). They share the demand and differ
in everything that follows from executors.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Final, Protocol

from podtide.domain.base.units import Millis
from podtide.domain.protocol.commands import Report, ScalingCommand, ScheduleThrew, Step
from podtide.domain.protocol.config import TICK_INTERVAL_MS, ScalingConfig
from podtide.domain.protocol.stimuli import Answer, Stimulus, Tick
from podtide.domain.scaling import due as scaling_due, load as loads, manager as scaling
from podtide.domain.scaling.load import Load
from podtide.domain.scaling.state import ScalingState

SILENT_TICKS_MAX: Final = 100_000
"""Ticks that change something but say nothing which a replay affords, and one more for each event.

Spark can count a target up by one every tick for ever without asking for it (a profile that makes schedule() throw), and
the clock of a hostile log can jump by a million years.
"""

_AT: Callable[[Stimulus], Millis] = itemgetter(0)


class LaneWorld(Protocol):
    """Where the commands and reports of a lane go; it also watches the events go by and may add what they imply."""

    def apply(self, command: ScalingCommand, now: Millis) -> Sequence[Stimulus]:
        """Carry the command out; the answer comes back as stimuli of the same ``now``."""
        ...

    def report(self, report: Report) -> None:
        """Take note of what was held back."""
        ...

    def watch(self, batch: Sequence[Stimulus]) -> Sequence[Stimulus]:
        """The batch as this world sees it; the same object when it has nothing to add."""
        ...


class Lane:
    """One run of the decisions: a scaling state and the world that its commands go to."""

    def __init__(self, state: ScalingState, world: LaneWorld) -> None:
        self.state = state
        self.world = world
        self.outputs = 0  # commands and reports so far

    def take(self, load: Load, config: ScalingConfig, now: Millis) -> None:
        """Decide on what ``load`` signals, carry the commands out and go on with their answers."""
        self.settle(scaling.scale(self.state, (load,), config, now), load, config, now)

    def settle(self, step: Step[ScalingState, ScalingCommand], load: Load, config: ScalingConfig, now: Millis) -> None:
        """Adopt a step: reports out, commands out, answers back in, until nothing more is asked."""
        self.state = step.state
        for report in step.reports:
            self.outputs += not (isinstance(report, ScheduleThrew) and report.repeated)
            self.world.report(report)
        self.outputs += len(step.commands)
        for command in step.commands:
            for answer in self.world.apply(command, now):
                signals = (answer,) if isinstance(answer, Answer) else ()
                self.take(load.with_signals((answer,), signals), config, now)


class Loop:
    """Steps lanes through time. ``now`` is the time up to which everything has been decided."""

    def __init__(self, config: ScalingConfig, now: Millis, world: LaneWorld, observe: Callable[[Millis], None]) -> None:
        self.config = config
        self.load = loads.empty()
        self.now = now
        self.cut_short = 0  # gaps between events in which the ticks ran out
        self._silent_left = SILENT_TICKS_MAX
        self._observe = observe
        self._boundary = now
        begun = scaling.start(self.load, config, now)
        self.lanes = [Lane(begun.state, world)]
        self.lanes[0].settle(begun, self.load, config, now)

    def fork(self, lane: Lane, world: LaneWorld) -> Lane:
        """Begin another lane from a lane's present state."""
        twin = Lane(lane.state, world)
        self.lanes.append(twin)
        return twin

    def run(self, batches: Iterable[Sequence[Stimulus]]) -> None:
        """Take all events, in order, ticking wherever a tick may matter before the next one."""
        for batch in batches:
            self.take(batch)

    def take(self, events: Sequence[Stimulus]) -> None:
        """Take events in order. Ticks up to the last of them are decided, those at its own time are not yet."""
        done, count = 0, len(events)
        while done < count:
            if events[done][0] > self._boundary:
                self._tick_until(events[done][0])
            cut = bisect_right(events, self._boundary, done, count, key=_AT)
            self._reflect(events if not done and cut == count else events[done:cut])
            done = cut

    def finish(self, now: Millis) -> None:
        """Decide everything up to and including ``now``."""
        self._tick_until(now + 1)

    def _reflect(self, batch: Sequence[Stimulus]) -> None:
        now = batch[-1][0]
        self._silent_left += len(batch)
        self._observe(now)
        load = self.load = loads.fold(self.load, batch, repair_pending=self.config.repair_pending)
        for lane in self.lanes:
            seen = lane.world.watch(batch)
            lane.take(load if seen is batch else load.with_signals(seen, load.signals), self.config, now)
        self.now = now

    def _tick_until(self, end: Millis) -> None:
        """Run the due ticks of the grid before ``end``; the grid goes on at or after it."""
        config = self.config
        for lane in self.lanes:
            at = self._boundary
            while True:
                due = scaling_due.due(lane.state, self.load, config)
                if due > at:
                    at += -(-(due - at) // TICK_INTERVAL_MS) * TICK_INTERVAL_MS
                if at >= end:
                    break
                if lane is self.lanes[0]:
                    self._observe(at)
                outputs = lane.outputs
                lane.take(self.load.with_signals((), (Tick(at),)), config, at)
                at += TICK_INTERVAL_MS
                if lane.outputs == outputs:
                    self._silent_left -= 1
                    if self._silent_left <= 0:
                        self.cut_short += 1
                        break
        self._boundary += max(0, -(-(end - self._boundary) // TICK_INTERVAL_MS)) * TICK_INTERVAL_MS
        self.now = max(self.now, end - 1)
