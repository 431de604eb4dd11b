"""One step of the Kubernetes side: who hears what, from outside and from one another.

Each machine says what it has to tell the others as values. They are carried from one to the next, first come first served,
until nobody has anything left to say; what is for the outside comes out as commands. So one step is what the driver's
threads would do one after the other, undisturbed:

    pods seen -> store -> allocator, lifecycle -> backend -> allocator, lifecycle (known executors)
    targets   -> backend -> allocator -> store (run your subscribers) -> allocator ...

Each machine numbers its own calls; the numbers that go out are ``number * MACHINES + machine``, so that the outcome of a
call finds the machine that made it without anybody keeping a list (``_OUTCOMES``). For each machine there is one handler,
which names its decision, its config and where its commands go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import partial
from typing import Final, assert_never

from podtide.domain.backend import heartbeat_receiver as heartbeats, scheduler_backend as backend
from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.kubernetes import (
    polling_source as polling,
    resize_plugins as resizing,
    roll_plugin as rolling,
    snapshots_store as store,
)
from podtide.domain.kubernetes.allocator import allocator as allocation, replicas_allocator as replicas
from podtide.domain.kubernetes.allocator.state import AllocatorInput, DeletionsChanged, RecoveryNeeded, Subscribed
from podtide.domain.kubernetes.allocator.turn import MACHINE as ALLOCATOR_CLASS
from podtide.domain.kubernetes.lifecycle import lifecycle_manager as lifecycle
from podtide.domain.kubernetes.side import KubernetesState, SideCommand, SideStimulus, rested
from podtide.domain.kubernetes.snapshots_store import ALLOCATOR, LIFECYCLE
from podtide.domain.machine.router import Router
from podtide.domain.machine.turn import why
from podtide.domain.protocol import (
    backend_messages as messages,
    executor_commands,
    executor_stimuli,
    pod_commands,
    pod_stimuli,
)
from podtide.domain.protocol.cluster_config import KubernetesConfig
from podtide.domain.protocol.commands import Report, Step
from podtide.domain.protocol.pods import PodNumber, pod_number
from podtide.domain.protocol.reasons import Cause, Threw
from podtide.domain.protocol.stimuli import ExecutorAdded, ExecutorRemoved


class Machine(IntEnum):
    """Who gave out a serial."""

    ALLOCATOR = 0
    REPLICAS = 1
    LIFECYCLE = 2
    BACKEND = 3
    POLLING = 4
    MEMORY = 5
    CLAIMS = 6


MACHINES: Final = 8
"""Serials of a machine lie this far apart outside; a power of two that leaves room for more."""

DRIVER_FAILED: Final = 1
"""The exit code of a driver whose SparkContext could not be made."""


def step(
    state: KubernetesState, snapshots: Sequence[SideStimulus], config: KubernetesConfig, now: Millis
) -> Step[KubernetesState, SideCommand]:
    """Take what came, in order, and carry what the machines say to one another until they are silent."""
    router = KubernetesRouter(state, config, now)
    for item in snapshots:
        router.take(item)
    return Step(router.state(), tuple(router.commands), tuple(router.reports))


class KubernetesRouter(Router[SideStimulus, SideCommand]):
    """One step under way: the machines' states, and what they still have to tell one another."""

    def __init__(self, state: KubernetesState, config: KubernetesConfig, now: Millis) -> None:
        super().__init__(now)
        self.config = config
        self.store_config = store.StoreConfig(config.pods, config.allocation.remarks)
        self.polling_config = polling.PollingConfig(config.sources, config.allocation.remarks)
        self.store = rested(state, config, now)
        self.lifecycle, self.backend, self.polling = state.lifecycle, state.backend, state.polling
        self.allocator, self.sets = state.allocator, state.sets
        self.roll, self.memory, self.claims = state.roll, state.memory, state.claims
        self.heartbeats = state.heartbeats
        self.starting, self.serving, self.thrown = state.starting, deque(state.serving), state.thrown
        self.handed: set[str] = set()  # subscribers whose delivery is in the queue
        self.ended: set[str] = set()  # those of whom it is in the queue that their delivery has ended

    def state(self) -> KubernetesState:
        """Where the machines stand now."""
        return KubernetesState(
            store=self.store, lifecycle=self.lifecycle, backend=self.backend, polling=self.polling,
            allocator=self.allocator, sets=self.sets, roll=self.roll, memory=self.memory, claims=self.claims,
            heartbeats=self.heartbeats, starting=self.starting, serving=tuple(self.serving), thrown=self.thrown,
        )  # fmt: skip

    # who hears what from outside

    def receive(self, stimulus: SideStimulus) -> None:
        """Post one stimulus to the machines that it concerns."""
        match stimulus:
            case pod_stimuli.PodsUpdated() | pod_stimuli.PodsReplaced():
                self.post(self._to_store, stimulus)
            case executor_stimuli.Wake():
                self._wake(stimulus)
            case pod_stimuli.Outcome():
                serial, machine = divmod(stimulus.serial, MACHINES)
                handler = _OUTCOMES.get(machine)
                if handler is not None:
                    self.post(partial(handler, self), stimulus._replace(serial=serial))
            case pod_stimuli.ExecutorsSummarized():
                self.post(self._to_roll, stimulus)
            case pod_stimuli.MemoryMeasured():
                self.post(self._to_memory, stimulus)
            case pod_stimuli.DiskReport() | pod_stimuli.ClaimsMeasured():
                self.post(self._to_claims, stimulus)
            case executor_stimuli.Stopping():
                self.post(self._to_heartbeats, stimulus)
                self.post(self._to_backend, stimulus)
                self._to_plugins(stimulus)
            case executor_stimuli.Heartbeat() | executor_stimuli.HeartbeatsStopped():
                self.post(self._to_heartbeats, stimulus)
            case pod_stimuli.Reconciled():
                self.post(self._to_allocator, stimulus)
            case executor_stimuli.TargetsSet():
                self.post(self._to_backend, messages.RequestTotals(stimulus.at, stimulus.targets))
            case (
                messages.RequestTotals()
                | messages.RequestMore()
                | messages.HostsExcluded()
                | executor_stimuli.KillRequested()
                | executor_stimuli.DecommissionRequested()
                | executor_stimuli.Starting()
                | executor_stimuli.RegisterExecutor()
                | executor_stimuli.ExecutorDisconnected()
                | executor_stimuli.ExecutorExiting()
                | executor_stimuli.KillExecutorsOnHost()
                | executor_stimuli.DecommissionExecutorsOnHost()
                | pod_stimuli.GenerateExecutorId()
                | executor_stimuli.ExecutorBusy()
            ):
                self.post(self._to_backend, stimulus)
            case _:
                assert_never(stimulus)

    def _wake(self, wake: executor_stimuli.Wake) -> None:
        now = self.now
        if heartbeats.due(self.heartbeats, self.config.heartbeats) <= now:
            self.post(self._to_heartbeats, wake)
        if backend.due(self.backend, self.config.backend) <= now:
            self.post(self._to_backend, wake)
        if store.due(self.store) <= now:
            self.post(self._to_store, wake)
        if polling.due(self.polling) <= now:
            self.post(self._to_polling, wake)
        self._to_plugins(wake)

    def _out(self, machine: Machine, command: pod_commands.PodCommand) -> None:
        if pod_commands.is_call(command):
            command = replace(command, serial=command.serial * MACHINES + machine)
        self.commands.append(command)

    # the snapshot store and its subscribers

    def _to_store(self, item: store.StoreInput) -> None:
        if isinstance(item, store.Delivered):
            self.ended.discard(item.subscriber)
        step = self.decided(store.distribute(self.store, (item,), self.store_config, self.now))
        self.store = step.state
        for command in step.commands:
            if not isinstance(command, pod_commands.Deliver):
                self._out(Machine.BACKEND, command)
                continue
            self.handed.add(command.subscriber)
            if command.subscriber == ALLOCATOR:
                self.post(self._to_allocator, command)
            else:
                self.post(self._to_lifecycle, lifecycle.Delivery(command.at, command.snapshots))
        # A notification runs its subscribers now; a Wake stops at each delivery.
        if store.due(self.store) <= self.now and (isinstance(item, executor_stimuli.Wake) or self.store.submitted):
            self.post(self._to_store, executor_stimuli.Wake(self.now))

    def _looked(self, subscriber: str, reports: Sequence[Report], machine: str, *, busy: bool) -> None:
        """A subscriber was at work: if that ended its round, tell the store so, and what the round threw.

        A round may throw and still be open, until the calls that it made before have come back. What the subscriber
        does before its delivery reaches it is no round.
        """
        known = self.store.subscriber(subscriber)
        if known is None or known.busy is None or subscriber in self.handed or subscriber in self.ended:
            return
        threw = next((r.what for r in reports if isinstance(r, Threw) and r.machine == machine), None)
        if threw is not None:
            self.thrown = self.thrown.set(subscriber, threw)
        if not busy:
            threw = self.thrown.get(subscriber)
            self.thrown = self.thrown.discard(subscriber)
            fault = None if threw is None else SparkFault(*threw.partition(": ")[::2])
            self.ended.add(subscriber)
            self.post(self._to_store, store.Delivered(self.now, subscriber, fault))

    def _to_allocator(self, item: AllocatorInput) -> None:
        if self.allocator is None:
            return
        if isinstance(item, pod_commands.Deliver):
            self.handed.discard(ALLOCATOR)
        step = self.decided(allocation.allocate(self.allocator, (item,), self.config.allocation, self.now))
        self.allocator = step.state
        for command in step.commands:
            match command:
                case pod_commands.NotifySubscribers():
                    self.post(self._to_store, command)
                case pod_commands.CountFailure():
                    self.post(self._to_lifecycle, pod_stimuli.CreationFailed(command.at, command.executor))
                case Subscribed():
                    self.post(self._to_store, store.Subscribe(command.at, ALLOCATOR, command.interval_ms))
                    self._started(None)
                case DeletionsChanged():
                    added, gone = tuple(map(_executor, command.added)), tuple(map(_executor, command.gone))
                    self.post(self._to_backend, messages.Excluded(command.at, added, gone))
                case _:
                    self._out(Machine.ALLOCATOR, command)
        self._failed_start(step.reports)
        self._looked(ALLOCATOR, step.reports, ALLOCATOR_CLASS, busy=allocation.busy(self.allocator))

    def _to_sets(self, item: replicas.ReplicasInput) -> None:
        if self.sets is None or self.config.replicas is None:
            return
        step = self.decided(replicas.scale(self.sets, (item,), self.config.replicas, self.now))
        self.sets = step.state
        for command in step.commands:
            match command:
                case replicas.AllocatorStarted():
                    self._started(None)
                case replicas.TargetsServed():
                    serial = self.serving.popleft() if self.serving else None
                    if serial is not None:
                        failure = None if command.threw is None else _failure(command.threw)
                        self.post(self._to_backend, pod_stimuli.Outcome(self.now, serial, failure))
                case _:
                    self._out(Machine.REPLICAS, command)
        self._failed_start(step.reports)

    def _started(self, failure: pod_stimuli.CallFailure | None) -> None:
        if self.starting is not None:
            self.post(self._to_backend, pod_stimuli.Outcome(self.now, self.starting, failure))
            self.starting = None

    def _failed_start(self, reports: Sequence[Report]) -> None:
        fatal = next((r.what for r in reports if isinstance(r, Threw) and r.fatal), None)
        if fatal is not None and self.starting is not None:
            self._started(_failure(fatal))

    def _to_lifecycle(self, item: lifecycle.LifecycleInput) -> None:
        if isinstance(item, lifecycle.Delivery):
            self.handed.discard(LIFECYCLE)
        step = self.decided(lifecycle.reap(self.lifecycle, (item,), self.config.lifecycle, self.now))
        self.lifecycle = step.state
        for command in step.commands:
            if isinstance(command, executor_commands.RemoveExecutor):
                loss = messages.LossReported(
                    command.at, command.executor, command.reason, command.why, command.active, command.round_index
                )
                self.post(self._to_backend, loss)
            else:
                self._out(Machine.LIFECYCLE, command)
        self._looked(LIFECYCLE, step.reports, lifecycle.MACHINE, busy=lifecycle.busy(self.lifecycle))

    # the scheduler backend

    def _to_backend(self, item: messages.BackendInput) -> None:
        step = self.decided(backend.manage(self.backend, (item,), self.config.backend, self.now))
        self.backend = step.state
        self._ends(step.reports)
        for command in step.commands:
            match command:
                case messages.StartAllocator():
                    self.starting = command.serial
                    self._to_either_allocator(executor_stimuli.Starting(self.now))
                case messages.StopAllocator():
                    self._to_either_allocator(executor_stimuli.Stopping(self.now))
                    self._returned(command.serial)
                case messages.TargetsForwarded():
                    if self.allocator is None:
                        self.serving.append(command.serial if command.awaited else None)
                    self._to_either_allocator(executor_stimuli.TargetsSet(self.now, command.targets))
                    if self.allocator is not None and command.awaited:
                        self._returned(command.serial)
                case messages.SourcesStarted():
                    subscribe = store.Subscribe(self.now, LIFECYCLE, self.config.lifecycle.interval_ms)
                    self.post(self._to_store, subscribe)
                    self.post(self._to_polling, polling.Start(self.now))
                case messages.KnownChanged():
                    self._know(command)
                case messages.ActiveChanged():
                    self._activate(command)
                case messages.RecoveryMode():
                    self.post(self._to_allocator, RecoveryNeeded(self.now))
                case executor_commands.StopSource(what="store"):
                    self.post(self._to_store, store.StopStore(self.now))
                    self._returned(command.serial)
                case executor_commands.StopSource(what="poll"):
                    self.post(self._to_polling, polling.StopPolling(self.now))
                    self._returned(command.serial)
                case ExecutorAdded() | ExecutorRemoved():
                    self.post(self._to_heartbeats, command)
                    self.commands.append(command)
                case messages.Requested() | messages.Killed() | messages.Decommissioned() | messages.ExecutorDisabled():
                    self.commands.append(command)
                case _:
                    self._out(Machine.BACKEND, command)

    def _to_either_allocator(
        self, item: executor_stimuli.Starting | executor_stimuli.Stopping | executor_stimuli.TargetsSet
    ) -> None:
        if self.allocator is None:
            self.post(self._to_sets, item)
        else:
            self.post(self._to_allocator, item)

    def _returned(self, serial: int) -> None:
        """A call of the backend returned."""
        self.post(self._to_backend, pod_stimuli.Outcome(self.now, serial))

    def _ends(self, reports: Sequence[Report]) -> None:
        """An exception that leaves the backend's start() leaves SparkContext's, too: there is no application."""
        for report in reports:
            if isinstance(report, Threw) and report.fatal:
                reason = why(Cause.STARTED, threw=report.what)
                self.commands.append(executor_commands.StopApplication(self.now, DRIVER_FAILED, reason))

    def _know(self, news: messages.KnownChanged) -> None:
        added = [(n, since) for e, _, since in news.added if (n := pod_number(e)) is not None]
        known = pod_stimuli.KnownExecutors(self.now, tuple(added), _numbers(news.removed))
        self.post(self._to_allocator, known)
        self.post(self._to_lifecycle, known)

    def _activate(self, news: messages.ActiveChanged) -> None:
        active = lifecycle.ActiveExecutors(self.now, _numbers(news.active), _numbers(news.inactive))
        self.post(self._to_lifecycle, active)
        self.commands.append(news)

    def _to_heartbeats(self, item: heartbeats.HeartbeatInput) -> None:
        step = self.decided(heartbeats.listen(self.heartbeats, (item,), self.config.heartbeats, self.now))
        self.heartbeats = step.state
        for command in step.commands:
            self.post(self._to_backend, command)

    # the polling source and the plugins

    def _to_polling(self, item: polling.PollingInput) -> None:
        step = self.decided(polling.poll(self.polling, (item,), self.polling_config, self.now))
        self.polling = step.state
        for command in step.commands:
            if isinstance(command, pod_stimuli.PodsReplaced):
                self.post(self._to_store, command)
            else:
                self._out(Machine.POLLING, command)

    def _to_plugins(self, item: executor_stimuli.Wake | executor_stimuli.Stopping) -> None:
        self.post(self._to_roll, item)
        self.post(self._to_memory, item)
        self.post(self._to_claims, item)

    def _to_roll(self, item: rolling.RollStimulus) -> None:
        if self.roll is not None and self.config.roll is not None:
            step = self.decided(rolling.roll(self.roll, (item,), self.config.roll, self.now))
            self.roll = step.state
            for command in step.commands:
                self.post(self._to_backend, command.request)

    def _to_memory(self, item: resizing.MemoryStimulus) -> None:
        if self.memory is not None and self.config.resize is not None:
            step = self.decided(resizing.resize_pods(self.memory, (item,), self.config.resize, self.now))
            self.memory = step.state
            for command in step.commands:
                self._out(Machine.MEMORY, command)

    def _to_claims(self, item: resizing.ClaimStimulus) -> None:
        if self.claims is not None and self.config.claim_resize is not None:
            step = self.decided(resizing.resize_claims(self.claims, (item,), self.config.claim_resize, self.now))
            self.claims = step.state
            for command in step.commands:
                self._out(Machine.CLAIMS, command)


_OUTCOMES: Final[Mapping[int, Callable[[KubernetesRouter, pod_stimuli.Outcome], None]]] = {
    Machine.ALLOCATOR: KubernetesRouter._to_allocator,
    Machine.REPLICAS: KubernetesRouter._to_sets,
    Machine.LIFECYCLE: KubernetesRouter._to_lifecycle,
    Machine.BACKEND: KubernetesRouter._to_backend,
    Machine.POLLING: KubernetesRouter._to_polling,
    Machine.MEMORY: KubernetesRouter._to_memory,
    Machine.CLAIMS: KubernetesRouter._to_claims,
}
"""Who hears what came of a machine's call."""


def _executor(number: PodNumber) -> ExecutorId:
    return ExecutorId(str(number))


def _numbers(executors: Sequence[ExecutorId]) -> tuple[PodNumber, ...]:
    return tuple(number for executor in executors if (number := pod_number(executor)) is not None)


def _failure(threw: str) -> pod_stimuli.CallFailure:
    exception_class, _, message = threw.partition(": ")
    return pod_stimuli.CallFailure(None, message, exception_class)
