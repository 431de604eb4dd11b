"""A whole application on YARN and the smallest cluster beside it: the fake that the tests of the composed engine share.

``YarnPlay`` holds the state, feeds it stimuli, wakes it whenever it says that it is due, and keeps all that it said with the
time. Its resource manager answers at once, with whatever the test has put into ``next``, unless it is ``silent``; launches
end well at once, unless they are ``queued``. No chance: what is not said does not happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.application import AnyStimulus, Command, EngineConfig
from podtide.domain.protocol.cluster_config import BackendConfig, NegotiationConfig, ReporterConfig, YarnConfig
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.containers import Completion, Container, ContainerId, NodeReport, Resource
from podtide.domain.protocol.executor_stimuli import ExecutorDisconnected, RegisterExecutor
from podtide.domain.protocol.yarn_messages import (
    CallResourceManager,
    LaunchEnded,
    LaunchExecutor,
    MasterRegistered,
    ResourcesAnswered,
    ResourcesRefused,
)
from podtide.domain.yarn.side import YarnSideState
from tests.support.engine_play import EnginePlay

S = 1_000
ROOM = Resource(1_408, 1)


def config(
    *, dynamic: bool = False, initial: int = 2, scaling: ScalingConfig | None = None, remarks: bool = False,
    allocator: dict[str, Any] | None = None, reporter: dict[str, Any] | None = None,
    backend: dict[str, Any] | None = None,
) -> EngineConfig:  # fmt: skip
    """A configuration as Spark's settings make it."""
    side = YarnConfig(
        NegotiationConfig(executors_initial=initial, remarks=remarks, **(allocator or {})),
        ReporterConfig(remarks=remarks, **(reporter or {})),
        BackendConfig(executors_initial=initial, remarks=remarks, **(backend or {})),
    )
    asked = scaling or ScalingConfig(executors_initial=initial, idle_timeout_ms=60 * S, shuffle_tracking=False)
    return EngineConfig(asked, dynamic=dynamic, yarn=side)


@dataclass
class Manager:
    """The resource manager: what it says next, once."""

    silent: bool = False
    queued: bool = False
    refusal: tuple[str, bool] | None = None
    allocated: list[Container] = field(default_factory=list)
    completed: list[Completion] = field(default_factory=list)
    updated: list[NodeReport] = field(default_factory=list)
    nodes: int = 10

    def to(self, command: object, now: Millis) -> AnyStimulus | None:
        """The answer to a command; None where there is none."""
        if isinstance(command, LaunchExecutor):
            return None if self.queued else LaunchEnded(now, command.executor)
        if not isinstance(command, CallResourceManager) or self.silent:
            return None
        return self.answer(command.serial, now)

    def answer(self, serial: int, now: Millis) -> AnyStimulus:
        """What it has to say."""
        if self.refusal is not None:
            return ResourcesRefused(now, serial, *self.refusal)
        said = tuple(self.allocated), tuple(self.completed), tuple(self.updated)
        self.allocated, self.completed, self.updated = [], [], []
        return ResourcesAnswered(now, serial, *said, nodes=self.nodes)


class YarnPlay(EnginePlay[Manager]):
    """One application on YARN."""

    def __init__(self, config: EngineConfig, manager: Manager | None = None, *, master: bool = True) -> None:
        self.manager = manager or Manager()
        super().__init__(config, self.manager)
        self.given = 0
        if master:
            self.feed(MasterRegistered(0))

    @property
    def side(self) -> YarnSideState:
        """The YARN side's state."""
        assert self.state.yarn is not None
        return self.state.yarn

    # what happens

    def answer(self) -> list[Command]:
        """The resource manager, silent till now, answers the call under way."""
        waiting = self.side.allocator.waiting
        assert waiting is not None
        return self.feed(self.manager.answer(waiting, self.now))

    def offer(self, *hosts: str, profile: ProfileId = DEFAULT_PROFILE, room: Resource = ROOM) -> YarnPlay:
        """The next answer brings a container on each of these hosts, c1 being the first of all."""
        for host in hosts:
            self.given += 1
            self.manager.allocated.append(Container(ContainerId(f"c{self.given}"), host, profile, room))
        return self

    def ends(self, *numbers: int, status: int = 1) -> YarnPlay:
        """The next answer says that these containers ended."""
        self.manager.completed.extend(Completion(ContainerId(f"c{number}"), status) for number in numbers)
        return self

    def registers(self, *numbers: int, host: str = "h1") -> list[Command]:
        """Executors register, each from an address of its own."""
        found: list[Command] = []
        for number in numbers:
            executor = ExecutorId(str(number))
            found += self.feed(RegisterExecutor(self.now, executor, DEFAULT_PROFILE, host, f"{host}:{number}"))
        return found

    def disconnects(self, number: int, host: str = "h1") -> list[Command]:
        """The connection to an executor is lost."""
        return self.feed(ExecutorDisconnected(self.now, f"{host}:{number}"))

    # what was said

    @property
    def beats(self) -> list[Millis]:
        """When the resource manager was called."""
        return self.times(CallResourceManager)

    @property
    def registered(self) -> list[str]:
        """Executors that the driver holds for there."""
        return sorted(self.side.backend.registry.executors)


def kinds(commands: Sequence[object]) -> list[str]:
    """What commands are called."""
    return [type(command).__name__ for command in commands]


__all__ = ["NEVER", "ROOM", "Manager", "S", "YarnPlay", "config", "kinds"]
