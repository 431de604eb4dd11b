"""The loop's environment on a real cluster: what threads heard goes in, what was decided goes to the sink.

There is one loop (``common.app_loop``) and one thread that decides. Sensor, actuator, driver poller and target source
have threads of their own; whatever they have to say they leave in the ``Inbox``, and the loop takes it out at one moment,
all of it in order, stamped with that moment. A timer that is due runs in the same step, after what was heard, so that a
cluster that never falls silent does not keep the timers from running.

Between the inbox and the engine stand *filters*: pure machines that change what is seen because of what it is seen for. The
shadow's holds Spark's pods back until it has decided for itself (``live.shadow``); that of a run without a driver makes
registrations of running pods (``headless``). What they say is an ordinary stimulus and is recorded as one.

``CommandSink`` carry commands out. Acting, that is the actuator behind a lease; a shadow reads and writes nothing.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias, cast

from podtide.adapters.clock import Clock
from podtide.domain.base.units import NEVER, Millis
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.executor_commands import StopApplication
from podtide.domain.protocol.executor_stimuli import Wake
from podtide.domain.protocol.pod_commands import PodCommand

TURN_MS: Final[Millis] = 1_000
"""The loop turns at least this often, though it may have nothing to decide: that is how others know that it lives."""

GATHER_S: Final = 0.01
"""How long the loop waits for more once it has heard something. A cluster on which much happens speaks in many small pieces,
and a step for each costs nearly twice as much as one for three; what is due is in no such hurry."""

Hear: TypeAlias = Callable[[AnyStimulus], None]


class Inbox:
    """Where threads leave what they heard; thread-safe, and safe to use in a signal handler."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[AnyStimulus | None] = queue.SimpleQueue()

    def hear(self, stimulus: AnyStimulus) -> None:
        """Leave something; the loop is woken."""
        self._queue.put(stimulus)

    def poke(self) -> None:
        """Wake the loop without saying anything."""
        self._queue.put(None)

    def drain(self, timeout_s: float) -> list[AnyStimulus]:
        """All that was left, in order; waits for the first at most this long."""
        stimuli: list[AnyStimulus] = []
        try:
            first = self._queue.get(timeout=timeout_s) if timeout_s > 0 else self._queue.get_nowait()
            if timeout_s > GATHER_S and first is not None:
                time.sleep(GATHER_S)
            while True:
                if first is not None:
                    stimuli.append(first)
                first = self._queue.get_nowait()
        except queue.Empty:
            return stimuli


class CommandSink(Protocol):
    """What carries commands out. Never blocks for long, never raises; what comes of a call is heard in the inbox."""

    def apply(self, command: Command, now: Millis) -> None:
        """Begin to carry a command out."""
        ...


class PodActuator(Protocol):
    """What makes the calls of commands about pods; their outcomes are heard in the inbox."""

    def apply(self, command: PodCommand) -> None:
        """Begin to carry a command out."""
        ...


class StimulusFilter(Protocol):
    """What stands between the inbox and the engine."""

    def see(self, stimuli: Sequence[AnyStimulus], now: Millis) -> list[AnyStimulus]:
        """What the engine is shown of what was heard."""
        ...

    def decided(self, command: Command, now: Millis) -> list[AnyStimulus]:
        """Take note of a decision; what the engine is shown because of it."""
        ...

    def due(self) -> Millis:
        """When it wants to look again though nothing was heard."""
        ...


class Pulse(Protocol):
    """Who is told that the loop lives, and how long its steps take."""

    def resting(self) -> None:
        """It waits, or still waits."""
        ...

    def roused(self) -> None:
        """It has something to do."""
        ...


class LiveEnvironment:
    """The loop's environment. ``ended``: the core ended the application; ``stopping``: somebody asked for the end.

    ``ends_at``: when it ends by itself.
    """

    def __init__(
        self,
        inbox: Inbox,
        clock: Clock,
        sink: CommandSink,
        pulse: Pulse,
        filters: Sequence[StimulusFilter] = (),
        ends_at: Millis = NEVER,
        blind: Callable[[], bool] = lambda: False,
    ) -> None:
        """``blind``: the driver does not answer. What is heard is taken, but no timer runs: nobody is let go, and nothing
        is asked for, by a picture that is too old.
        """
        self._blind = blind
        self.ended: StopApplication | None = None
        self.stopping = False
        self._pulse = pulse
        self._ends_at = ends_at
        self._inbox = inbox
        self._clock = clock
        self._sink = sink
        self._filters = tuple(filters)
        self._ready: list[AnyStimulus] = []

    def stop(self) -> None:
        """End the loop at its next turn. Safe in a signal handler."""
        self.stopping = True
        self._inbox.poke()

    def go_on(self) -> None:
        """Let the loop run again, to carry out what is left to do."""
        self.stopping = False
        self.ended = None
        self._ends_at = NEVER
        self._blind = lambda: False  # the end needs no driver, which is not asked any more

    def wait(self, until: Millis) -> tuple[Millis, Sequence[AnyStimulus]]:
        """Block until something is heard, or ``until``, or for one turn."""
        while self._blind() and not self._ready:
            self._pulse.resting()
            if self.stopping or self.ended is not None or self._clock.now() >= self._ends_at:
                return NEVER, ()
            batch = self._inbox.drain(TURN_MS / 1000)
            if batch and not self.stopping:
                self._pulse.roused()
                now = self._clock.now()
                if seen := [stamped(one, now) for one in self._seen(batch, now)]:
                    return now, seen
            elif batch:
                self._ready.extend(batch)  # the end may want it
        self._pulse.resting()
        now = self._clock.now()
        if self.stopping or self.ended is not None or now >= self._ends_at:
            return NEVER, ()
        first = min(
            until, self._ends_at, min((stimulus_filter.due() for stimulus_filter in self._filters), default=NEVER)
        )
        waits = 0 if self._ready or first <= now else min(first - now, TURN_MS)
        batch = self._inbox.drain(waits / 1000)
        if self.stopping:
            self._ready.extend(batch)  # the end may want it
            return NEVER, ()
        now = max(now, self._clock.now())
        self._pulse.roused()
        ready, self._ready = self._ready, []
        stimuli = [stamped(one, now) for one in (*ready, *self._seen(batch, now))]
        if stimuli and until <= now and not self._blind():
            stimuli.append(Wake(now))  # a cluster that never falls silent must not keep the timers from running
        return now, stimuli

    def _seen(self, stimuli: list[AnyStimulus], now: Millis) -> list[AnyStimulus]:
        for stimulus_filter in self._filters:
            stimuli = stimulus_filter.see(stimuli, now)
        return stimuli

    def apply(self, command: Command, now: Millis) -> None:
        """Hand a command on."""
        for stimulus_filter in self._filters:
            self._ready.extend(stimulus_filter.decided(command, now))
        if isinstance(command, StopApplication):
            self.ended = command
        else:
            self._sink.apply(command, now)


def stamped(stimulus: AnyStimulus, now: Millis) -> AnyStimulus:
    """The stimulus as heard at ``now``; times that came with it (of registrations, of tasks) never lie ahead of it."""
    return cast(AnyStimulus, cast(Any, stimulus)._replace(at=now))
