"""What the backend does on Kubernetes: its calls of the pods allocator, the maintenance thread, the end of pods.

Start and stop are a series of calls; where the next one depends on the answer the backend stands still (``Rest``):

    waits for                     succeeded: goes on with                          threw
    StartStage.ALLOCATOR          the config map, else the initial targets         the application ends
    StartStage.CONFIG_MAP         the initial targets                              the application ends
    StartStage.TARGETS            the snapshot sources                             the application ends
    StopStage.ALLOCATOR           config maps, then the maintenance thread         abandoned: the thread goes on
    Killing                       the kill itself                                  nobody is killed
    Decommissioning               the decommission itself                          nobody decommissions
    Asked                         the answer                                       the answer says what it threw
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pyrsistent import pdeque

from podtide.domain.backend import answers, executor_removals as removals
from podtide.domain.backend.registry import KILLED, Leaving, decommissioned
from podtide.domain.backend.state import (
    DIRECT,
    OVER,
    BackendPhase,
    BackendState,
    Grace,
    KillReply,
    Rest,
    StartStage,
    StopStage,
    Waiting,
)
from podtide.domain.backend.turn import BackendTurn, ClusterManager, Mark
from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, Millis
from podtide.domain.jvm.exceptions import REJECTED_EXECUTION
from podtide.domain.jvm.values import parse_long
from podtide.domain.machine.turn import why
from podtide.domain.protocol import backend_messages as messages, executor_commands, pod_commands
from podtide.domain.protocol.pod_stimuli import GenerateExecutorId
from podtide.domain.protocol.reasons import Cause, Why

MACHINE: Final = "KubernetesClusterSchedulerBackend"
ENDPOINT: Final = "KubernetesClusterSchedulerBackend$KubernetesDriverEndpoint"
DEPLOYMENT: Final = "deployment"
OOM: Final = "OOM"
"""What a loss reason has to contain for the allocator's recovery mode; the literal text."""
FORCED_MAX: Final = 1_000
"""Forced deletions whose outcome is remembered for; beyond that the log says less."""
STOP_WAIT_MS: Final[Millis] = 30_000
"""How long stop() waits for the maintenance thread (ThreadUtils.shutdown)."""


class KubernetesManager(ClusterManager[BackendState]):
    """KubernetesClusterSchedulerBackend's own part."""

    machine = MACHINE
    endpoint = ENDPOINT

    def start(self, turn: BackendTurn[BackendState]) -> None:
        """start(), up to its first call."""
        turn.wait_for(StartStage.ALLOCATOR, lambda serial: messages.StartAllocator(turn.now, serial))

    def start_on(self, turn: BackendTurn[BackendState], stage: StartStage, threw: str | None) -> None:
        """start() goes on after one of its calls; an exception ends it, and the application with it."""
        if threw is not None:
            turn.threw(threw, fatal=True)
            return
        if stage is StartStage.ALLOCATOR and turn.config.config_map:
            reason = why(Cause.STARTED)
            turn.wait_for(StartStage.CONFIG_MAP, lambda serial: pod_commands.CreateConfigMap(turn.now, serial, reason))
            return
        # Not a request: what was requested stays empty until dynamic allocation asks.
        initial = ((DEFAULT_PROFILE, turn.config.executors_initial),)
        if stage is not StartStage.TARGETS and self.forward(turn, initial, StartStage.TARGETS):
            return
        turn.state.phase = BackendPhase.RUNNING
        turn.say(messages.SourcesStarted(turn.now))

    def stop(self, turn: BackendTurn[BackendState]) -> None:
        """stop(), up to the allocator's."""
        if turn.state.phase is BackendPhase.DRAINING:
            return  # it stands in stop() already
        now, config, reason = turn.now, turn.config, why(Cause.STOPPED)
        turn.state.stop_serial = turn.state.serial
        if turn.pool_open:
            turn.state.phase = BackendPhase.STOPPING
        turn.state.patience = pdeque()  # super.stop ends the thread of the force kills
        for what in ("scheduler", "store", "watch", "poll"):
            turn.state.serial += 1
            turn.say(executor_commands.StopSource(now, turn.state.serial, what, reason))
        if config.delete_services:
            turn.call(lambda serial: pod_commands.DeleteOwned(now, serial, "services", reason))
        if config.own_claims:
            turn.call(lambda serial: pod_commands.DeleteOwned(now, serial, "persistentvolumeclaims", reason))
        if config.delete_on_termination:
            turn.wait_for(StopStage.ALLOCATOR, lambda serial: messages.StopAllocator(now, serial))
        else:
            self.drain(turn)

    def stop_on(self, turn: BackendTurn[BackendState], threw: str | None) -> None:
        """stop() goes on after the allocator's, which alone is not guarded."""
        if threw is not None:
            if turn.pool_open:
                turn.state.phase = BackendPhase.ABANDONED
            turn.threw(threw)
            return
        if turn.config.config_map:
            reason = why(Cause.STOPPED)
            turn.call(lambda serial: pod_commands.DeleteOwned(turn.now, serial, "configmaps", reason))
        self.drain(turn)

    def drain(self, turn: BackendTurn[BackendState]) -> None:
        """The maintenance thread takes no more work and ends what it has, for a while."""
        if turn.state.graces:
            turn.state.phase = BackendPhase.DRAINING
            turn.state.stop_by = turn.now + STOP_WAIT_MS
        else:
            self.stopped(turn)

    def stopped(self, turn: BackendTurn[BackendState]) -> None:
        """The maintenance thread is through."""
        reason = why(Cause.STOPPED, deletions_dropped=len(turn.state.graces))
        turn.state.phase, turn.state.stop_by, turn.state.graces = BackendPhase.STOPPED, None, pdeque()
        turn.call(lambda serial: executor_commands.StopSource(turn.now, serial, "timers", reason))
        turn.call(lambda serial: executor_commands.StopSource(turn.now, serial, "client", reason))

    def run_timers(self, turn: BackendTurn[BackendState], moment: Millis) -> None:
        """Every timer that is due by then, in order; a deletion before a kill of the same time."""
        until = moment if turn.state.stop_by is None else min(moment, turn.state.stop_by)
        while turn.state.waiting is None:
            grace = turn.state.graces.left if turn.state.graces and turn.state.graces.left.due <= until else None
            patience = (
                turn.state.patience.left if turn.state.patience and turn.state.patience.left.due <= until else None
            )
            if grace is not None and (patience is None or grace.due <= patience.due):
                turn.state.graces = turn.state.graces.popleft()
                self.delete_running(turn, grace)
            elif patience is not None:
                turn.state.patience = turn.state.patience.popleft()
                removals.kill_stragglers(turn, patience)
            else:
                break
        if turn.state.stop_by is not None and (not turn.state.graces or moment >= turn.state.stop_by):
            self.stopped(turn)

    def delete_running(self, turn: BackendTurn[BackendState], grace: Grace) -> None:
        """The grace period is over."""
        count = len(grace.executors)
        reason = why(Cause.STILL_RUNNING, executors=count, grace_ms=turn.config.grace_ms)
        turn.state.serial += 1
        turn.say(
            pod_commands.DeletePods(turn.now, turn.state.serial, grace.executors, "Running", reason, list_first=True)
        )
        if turn.config.remarks and len(turn.state.forced) < FORCED_MAX:
            turn.state.forced = turn.state.forced.set(turn.state.serial, count)

    def forward(self, turn: BackendTurn[BackendState], targets: messages.Targets, rest: Rest) -> bool:
        """Tell the allocator its targets; returns whether that has to be waited for."""
        awaited = turn.config.allocator != DIRECT
        serial = turn.call(lambda serial: messages.TargetsForwarded(turn.now, serial, targets, awaited))
        if awaited:
            turn.state.waiting = Waiting(serial, rest)
        return awaited

    def do_kill(
        self,
        turn: BackendTurn[BackendState],
        executors: tuple[ExecutorId, ...],
        reply: KillReply,
        reason: Why,
    ) -> bool:
        """doKillExecutors."""
        marks = self.marks(turn, "annotation", "label")
        if marks and not turn.pool_open:  # Spark hands these over first, and finds out
            answers.reply_killed(turn, reply, (), REJECTED_EXECUTION)
            return False
        turn.commands.extend(
            executor_commands.RemoveExecutor(turn.now, executor, KILLED, reason) for executor in executors
        )
        if turn.pool_open:
            turn.state.graces = turn.state.graces.append(Grace(turn.now + turn.config.grace_ms, executors))
            answers.reply_killed(turn, reply, executors)
        else:
            answers.reply_killed(turn, reply, (), REJECTED_EXECUTION)
        removals.remove(turn, [(executor, KILLED) for executor in executors])
        turn.mark(marks, executors, reason)
        return turn.pool_open

    def marks(self, turn: BackendTurn[BackendState], *kinds: Mark) -> tuple[Mark, ...]:
        """Which of these marks pods of executors that go are given."""
        cost = turn.config.allocator == DEPLOYMENT and turn.config.deletion_cost is not None
        given = {"label": turn.config.decommission_label is not None, "annotation": cost}
        return tuple(kind for kind in kinds if given[kind])

    def lose(self, turn: BackendTurn[BackendState], item: messages.LossReported) -> None:
        """doRemoveExecutor."""
        reason = item.why or why(Cause.POD_FAILED, exit_code=item.reason.exit_code)
        turn.say(
            executor_commands.RemoveExecutor(
                turn.now, item.executor, item.reason, reason, item.active, item.round_index
            )
        )
        if turn.config.allocator == DIRECT and OOM in item.reason.message:
            turn.remark("out of memory", executor=item.executor)
            if not turn.state.recovery:
                turn.state.recovery = True
                turn.say(messages.RecoveryMode(turn.now))
        removals.remove(turn, [(item.executor, item.reason)])

    def excluded(self, turn: BackendTurn[BackendState], executor: ExecutorId) -> bool:
        """isExecutorExcluded: whether the allocator deleted it. The direct one keeps numbers, and raises on other ids."""
        direct = turn.config.allocator == DIRECT
        return (ExecutorId(str(parse_long(executor))) if direct else executor) in turn.state.registry.excluded

    def name_pod(self, turn: BackendTurn[BackendState], item: GenerateExecutorId) -> None:
        """GenerateExecID: the pod becomes the executor of the next id."""
        if turn.state.phase in OVER:
            return
        turn.state.ids += 1
        executor = ExecutorId(str(turn.state.ids))
        turn.state.registry = turn.state.registry.named(item.address, executor)
        reason = why(Cause.REGISTERED, pod=item.pod)
        turn.call(lambda serial: pod_commands.AssignExecutorId(turn.now, serial, item.pod, executor, reason))

    def disconnect(self, turn: BackendTurn[BackendState], address: str) -> None:
        """onDisconnected: what a lost connection says about an executor."""
        executor = turn.state.registry.addresses.get(address)
        if executor is None:
            if address in turn.state.registry.askers:
                turn.state.registry = replace(turn.state.registry, askers=turn.state.registry.askers.remove(address))
            else:
                turn.remark("nobody there", turn.manager.endpoint, address=address)
        elif executor in turn.state.registry.leaving:
            gone = decommissioned(Leaving(""))
            removals.dismiss(turn, executor, gone, why(Cause.DISCONNECTED, address=address))
        else:
            removals.disable(turn, executor)

    def acknowledge(self, turn: BackendTurn[BackendState], serial: int) -> None:
        """Answer a request whose targets need not be waited for."""
        answers.answer(turn, serial, None)


KUBERNETES: Final = KubernetesManager()
