"""An application against the fake cluster, in virtual time: the world, the rest of the driver, and the loop between them.

``FakeSurroundings`` joins two fakes that know nothing of each other: the cluster (``domain/world``) and the driver's other
half (a ``Script``: targets over time, or a workload whose tasks run on the executors that come). Both are values that are
stepped to the same moment; what both have to say there is heard in one step, the driver's first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from podtide.domain import kubernetes_side
from podtide.domain import world as worlds
from podtide.domain.commands import Command
from podtide.domain.config import EngineConfig
from podtide.domain.engine import AnyStimulus
from podtide.domain.pod_commands import StopApplication
from podtide.domain.units import NEVER, Millis
from podtide.domain.world import Application, World
from podtide.domain.world_description import Description
from podtide.entrypoints.app_loop import AppLoop, Observer


class Script(Protocol):
    """The driver's other half, as a fake: asks for executors, runs tasks on them."""

    def due(self) -> Millis:
        """When it next has something to say."""
        ...

    def advance(self, now: Millis) -> Sequence[AnyStimulus]:
        """Let time pass; what it says up to now."""
        ...

    def hear(self, word: Command | AnyStimulus, now: Millis) -> None:
        """Take note of what the engine decided, or of what an executor told the driver."""
        ...

    def done(self) -> bool:
        """Whether it has nothing left to do."""
        ...

    def summary(self) -> dict[str, Any]:
        """What it went through, counted by name."""
        ...


class FakeSurroundings:
    """The loop's surroundings, all of them fake. ``ended``: the application was told to stop."""

    def __init__(self, world: World, script: Script) -> None:
        self.world = world
        self.script = script
        self.ended: Millis | None = None

    def wait(self, until: Millis) -> tuple[Millis, Sequence[AnyStimulus]]:
        """Jump to the next moment at which somebody says something, or to ``until``."""
        if self.ended is not None:
            return NEVER, ()
        while True:
            at = min(worlds.due(self.world), self.script.due())
            if at > until or at == NEVER:
                return until, ()
            at = max(at, self.world.now)
            said = list(self.script.advance(at))
            self.world, heard = worlds.advance(self.world, at)
            for stimulus in heard:
                self.script.hear(stimulus, at)
            if said or heard:
                return at, (*said, *heard)

    def apply(self, command: Command, now: Millis) -> None:
        """Hand a command to both halves."""
        self.script.hear(command, now)
        self.world = worlds.apply(self.world, command, now)  # type: ignore[arg-type]  # the loop keeps the others
        if isinstance(command, StopApplication):
            self.ended = now


@dataclass(frozen=True)
class Setup:
    """What a simulation is made of. ``end``: when it stops at the latest, in virtual time."""

    config: EngineConfig
    description: Description
    seed: int
    start: Millis
    end: Millis
    app_id: str
    settle_ms: Millis = 120_000


class Simulation:
    """One simulation under way."""

    def __init__(self, setup: Setup, script: Script, observers: Sequence[Observer] = ()) -> None:
        """Nothing happens before ``run``."""
        self.setup = setup
        kubernetes = setup.config.kubernetes
        application = Application(app_id=setup.app_id)
        world = worlds.begin(
            setup.description, setup.seed, setup.start, sources=kubernetes.sources, application=application
        )
        self.surroundings = FakeSurroundings(world, script)
        self.loop = AppLoop(setup.config, setup.start, self.surroundings, observers)

    def run(self) -> Millis:
        """Run to the end: of the script and a while longer, or of time. Returns when that was. Raises Stuck."""
        loop, script, end = self.loop, self.surroundings.script, self.setup.end
        loop.launch()
        quiet_from: Millis | None = None
        while loop.now < end and self.surroundings.ended is None:
            if not script.done():
                quiet_from = None
                loop.run(min(end, max(loop.now + 1, self._next())))
                continue
            quiet_from = loop.now if quiet_from is None else quiet_from
            stop = min(end, quiet_from + self.setup.settle_ms)
            loop.run(stop)
            if loop.now >= stop:
                break
        return loop.now if self.surroundings.ended is None else self.surroundings.ended

    def _next(self) -> Millis:
        """Up to when the loop may run before the script is asked again whether it is done: a minute at a time."""
        return self.loop.now + 60_000

    @property
    def tally(self) -> dict[str, int]:
        """What the cluster counted."""
        return dict(worlds.tally(self.surroundings.world))

    @property
    def wants(self) -> kubernetes_side.Wants:
        """Which measurements the plugins wait for."""
        state = self.loop.state.kubernetes
        assert state is not None
        return kubernetes_side.wants(state, self.setup.config.kubernetes, self.loop.now)
