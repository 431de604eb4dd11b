"""What one call of the scheduler backend works with, and what a cluster manager does in its own way.

Everything that is the same under every cluster manager is in functions over a ``BackendTurn``: ``scheduler_backend`` hears
inputs, ``registration`` lets executors in, ``executor_removals`` lets them go and ``answers`` answers who asked. Where
Kubernetes and YARN differ they ask the turn's ``manager``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, Generic, Literal, TypeVar

from podtide.domain.backend.state import BackendPhase, BackendState, KillReply, Rest, StartStage, Waiting
from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.machine.turn import Turn
from podtide.domain.protocol import backend_messages as messages, pod_stimuli
from podtide.domain.protocol.cluster_config import BackendConfig
from podtide.domain.protocol.pod_commands import MarkPods
from podtide.domain.protocol.reasons import Why

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"

Mark = Literal["label", "annotation"]

S = TypeVar("S", bound=BackendState)


class BackendTurn(Turn[S, BackendConfig, messages.YarnBackendCommand], Generic[S]):
    """The backend within one step."""

    def __init__(self, state: S, config: BackendConfig, now: Millis, manager: ClusterManager[S]) -> None:
        super().__init__(state, config, now)
        self.manager = manager
        self.machine = manager.machine
        registry = self.state.registry
        if registry.parking.size != config.unknown_decommissions_max:
            parking = registry.parking.resized(config.unknown_decommissions_max)
            self.state.registry = replace(registry, parking=parking)

    def say(self, command: messages.YarnBackendCommand) -> None:
        """One command more."""
        self.commands.append(command)

    def call(self, make: Callable[[int], messages.YarnBackendCommand]) -> int:
        """A command with the next serial."""
        self.state.serial += 1
        self.commands.append(make(self.state.serial))
        return self.state.serial

    def wait_for(self, rest: Rest, make: Callable[[int], messages.BackendCommand]) -> None:
        """A command with the next serial, until whose outcome the backend stands still."""
        self.state.waiting = Waiting(self.call(make), rest)

    @property
    def pool_open(self) -> bool:
        """Whether the maintenance thread still takes work."""
        return self.state.phase not in (BackendPhase.DRAINING, BackendPhase.STOPPED)

    def mark(self, marks: Iterable[Mark], executors: tuple[ExecutorId, ...], reason: Why) -> None:
        """One task of the maintenance thread for each mark."""
        config = self.config
        for kind in marks:
            key, value = DELETION_COST, str(config.deletion_cost)
            if kind == "label":
                key, value = config.decommission_label or "", config.decommission_label_value
            self.state.serial += 1
            self.say(MarkPods(self.now, self.state.serial, executors, kind, key, value, reason))


class ClusterManager(ABC, Generic[S]):
    """What a cluster manager's backend does in its own way. ``machine`` and ``endpoint``: who speaks in Spark's log."""

    machine: str
    endpoint: str

    @abstractmethod
    def start(self, turn: BackendTurn[S]) -> None:
        """start(), up to its first call."""

    def start_on(self, turn: BackendTurn[S], stage: StartStage, threw: str | None) -> None:
        """start() goes on after one of its calls, if it has any."""

    @abstractmethod
    def stop(self, turn: BackendTurn[S]) -> None:
        """stop(), up to its first call that has to be waited for."""

    @abstractmethod
    def stop_on(self, turn: BackendTurn[S], threw: str | None) -> None:
        """stop() goes on when the allocator, or the application master, has answered."""

    @abstractmethod
    def run_timers(self, turn: BackendTurn[S], moment: Millis) -> None:
        """Run every timer that is due by then, in order."""

    def unknown_profile(self, turn: BackendTurn[S], targets: messages.Targets) -> SparkFault | None:
        """What a request throws that names a profile which nobody has defined."""

    def hinted(self, turn: BackendTurn[S], item: messages.RequestTotals) -> None:
        """Where the executors should be, if that is of use."""

    @abstractmethod
    def forward(self, turn: BackendTurn[S], targets: messages.Targets, rest: Rest) -> bool:
        """Pass the targets on; returns whether the answer has to be waited for."""

    @abstractmethod
    def acknowledge(self, turn: BackendTurn[S], serial: int) -> None:
        """Answer a request whose targets need not be waited for."""

    @abstractmethod
    def do_kill(self, turn: BackendTurn[S], executors: tuple[ExecutorId, ...], reply: KillReply, reason: Why) -> bool:
        """doKillExecutors. Returns whether it went through: False where it threw, or somebody else's answer is awaited."""

    def marks(self, turn: BackendTurn[S], *kinds: Mark) -> tuple[Mark, ...]:  # noqa: ARG002 - there are none
        """Return which of these marks pods of executors that go are given."""
        return ()

    def excluded(self, turn: BackendTurn[S], executor: ExecutorId) -> bool:  # noqa: ARG002 - nobody is
        """isExecutorExcluded, besides excluded hosts."""
        return False

    def numbered(self, turn: BackendTurn[S], number: int) -> None:
        """An executor of this id registered (currentExecutorIdCounter)."""

    def name_pod(self, turn: BackendTurn[S], item: pod_stimuli.GenerateExecutorId) -> None:
        """Give a pod that asks for it an executor id."""

    @abstractmethod
    def disconnect(self, turn: BackendTurn[S], address: str) -> None:
        """onDisconnected: what a lost connection says about an executor."""

    @abstractmethod
    def lose(self, turn: BackendTurn[S], item: messages.LossReported) -> None:
        """doRemoveExecutor: somebody reports that an executor is gone."""
