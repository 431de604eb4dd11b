"""The loop of a whole application: what was heard goes in, commands come out, and a Wake whenever a timer is due.

There is one loop. Against a fake cluster, a real one or a recording it differs in its ``Environment`` alone: they say what
was heard and up to when, and take the commands. An ``Observer`` sees every step as it is taken: a recording is written by
one, a summary counted by another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from podtide.domain import engine
from podtide.domain.base.units import NEVER, Millis
from podtide.domain.engine import EngineState
from podtide.domain.protocol.application import AnyStimulus, Command, EngineConfig
from podtide.domain.protocol.commands import Decommission, Kill, RequestTotal, Step
from podtide.domain.protocol.executor_stimuli import Starting, Wake

STEPS_AT_ONCE_MAX: Final = 100_000
"""Steps at one moment of virtual time before the loop gives up: environment that answer without any delay, for ever."""


class Environment(Protocol):
    """Everything outside of the engine: the cluster, the rest of the driver, time."""

    def wait(self, until: Millis) -> tuple[Millis, Sequence[AnyStimulus]]:
        """Let time pass up to ``until``, or up to the first moment at which something is heard; say both.

        At ``until`` without anything heard, the second is empty. ``until`` may be ``NEVER``: nothing is due inside. If
        nothing will ever be heard any more either, answer (NEVER, ()).
        """
        ...

    def apply(self, command: Command, now: Millis) -> None:
        """Carry a command out, or begin to; its outcome is heard later."""
        ...


class Observer(Protocol):
    """Sees every step."""

    def step(self, now: Millis, stimuli: Sequence[AnyStimulus], taken: Step[EngineState, Command]) -> None:
        """One step was taken: what entered it, what it decided and what is known now."""
        ...


class Stuck(Exception):
    """The environment answer at the same moment again and again; virtual time does not go on."""


class AppLoop:
    """One application under way. ``now``: up to when it has been decided."""

    def __init__(
        self,
        config: EngineConfig,
        now: Millis,
        environment: Environment,
        observers: Sequence[Observer] = (),
        passed: Callable[[Millis], None] = lambda _now: None,
    ) -> None:
        """Nothing happens before ``launch``. ``passed``: told up to when nothing happened, before each step and where
        time passes without one; ``state`` is then still how things stood."""
        self.config = config
        self.now = now
        self.steps = 0
        self._surroundings = environment
        self._observers = tuple(observers)
        self._passed = passed
        self._state: EngineState | None = None

    @property
    def state(self) -> EngineState:
        """The state after the last step."""
        assert self._state is not None
        return self._state

    def without(self, kind: type) -> None:
        """Observers of this kind see nothing more."""
        self._observers = tuple(one for one in self._observers if not isinstance(one, kind))

    def launch(self) -> None:
        """Start the application: the first step, whose one stimulus is ``Starting``."""
        self._adopt((Starting(self.now),), engine.launch(self.config, self.now))

    def resume(self, state: EngineState, now: Millis, steps: int = 0) -> None:
        """Go on from a state that is known, instead of launching; ``steps`` led to it, up to ``now``."""
        self._state = state
        self.now = max(self.now, now)
        self.steps = steps

    def take(self, stimuli: Sequence[AnyStimulus], now: Millis) -> None:
        """Take one step. Time never goes back: ``now`` before the last step (somebody set the clock) is the last step's."""
        self._pass(now)
        self._adopt(stimuli, engine.advance(self.state, stimuli, self.config, self.now))

    def run(self, end: Millis) -> None:
        """Go on until ``end``: timers due then do not run any more, what is heard then is. Raises Stuck.

        Ends before where nothing can happen any more; time then stands at ``end``, or where it stood if that is NEVER.
        """
        at_once = 0
        while True:
            due = max(engine.wake_due(self.state, self.config), self.now)
            now, stimuli = self._surroundings.wait(min(due, end))
            if not stimuli and (now == NEVER or now >= end):
                if end != NEVER:
                    self._pass(end)
                return
            at_once = at_once + 1 if now <= self.now else 0
            if at_once > STEPS_AT_ONCE_MAX:
                raise Stuck(f"{at_once} steps at {now} ms: the environment answer without ever letting time pass")
            if stimuli:
                self.take(stimuli, now)
            elif due <= now:
                self.take((Wake(now),), now)
            else:
                self._pass(now)

    def _pass(self, now: Millis) -> None:
        self.now = max(self.now, now)
        self._passed(self.now)

    def _adopt(self, stimuli: Sequence[AnyStimulus], taken: Step[EngineState, Command]) -> None:
        self._state = taken.state
        self.steps += 1
        for observer in self._observers:
            observer.step(self.now, stimuli, taken)
        for command in taken.commands:
            if not isinstance(command, RequestTotal | Kill | Decommission):  # answered inside, see engine
                self._surroundings.apply(command, self.now)
