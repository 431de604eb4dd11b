"""What becomes of executors on YARN, as far as the driver goes: a pure YarnSchedulerBackend.

What the backend does for every cluster manager - registration, who may be killed, decommission and its forced end, targets
lowered with a kill - is ``backend``'s; here is what YARN does otherwise. Between the driver and the resource manager stands
the application master, and nothing happens without it. Rules that are easily got wrong:

- Before an application master has registered, requests and kills are refused (and remembered: requests as what was
  requested, killed executors as killed), and an executor whose connection is lost is removed at once.
- The application master is asked, and the backend goes on: executors register and leave while it has not answered. Only
  whoever asked waits, and no longer than spark.rpc.askTimeout; what was asked may still be done. A decommission does not
  even wait for the target that it lowers.
- A request that names a profile which nobody has defined throws, and changes nothing.
- A kill says nothing to the driver endpoint: the executor is removed when its connection is lost and the application master
  says why, or when the application master reports it. There is no grace period, and no pod to delete.
- An executor that is not heard from (HeartbeatReceiver) is reported lost when the application master has answered the kill.
  The thread that kills waits for that in Spark, and kills the next one then; here all of one look are asked for at once.
- A lost connection disables the executor; the application master is asked for the reason, which may take until its
  container's end is reported. After spark.rpc.askTimeout the executor is taken for lost; a
  decommissioning executor is not asked about at all, and stays until its container's end is reported.
- When the application master is lost, what it was asked has failed, and all is as before one had registered.
- Whenever an application master registers, the first time included, everything requested is forgotten, all executors are
  removed as stale and dynamic allocation is reset; what the one before was asked has failed by then.
- stop() first tells the application master that it ends and asks it for no executors at all, and waits for that.

Where Spark walks a set of executor ids (all of a host, all that are stale) here they come by number: the order is that of
one message's parts, or of messages that are sent in one go. Source: YarnSchedulerBackend, its two endpoints,
YarnClientSchedulerBackend, YarnClusterSchedulerBackend and CoarseGrainedSchedulerBackend of Spark 4.3.0 (spec: yarn,
section 10).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias, assert_never

from pyrsistent import PDeque, PMap, PSet, pdeque, pmap, pset

from podtide.domain.backend import answers, executor_removals as removals, scheduler_backend
from podtide.domain.backend.registry import empty_registry
from podtide.domain.backend.state import (
    BackendPhase,
    BackendState,
    Decommissioning,
    KillReply,
    KillSent,
    Patience,
    Rest,
    StopStage,
)
from podtide.domain.backend.turn import BackendTurn, ClusterManager
from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.jvm.exceptions import SPARK_EXCEPTION, SparkFault
from podtide.domain.machine.turn import thrown, why
from podtide.domain.protocol import backend_messages, yarn_messages
from podtide.domain.protocol.cluster_config import BackendConfig
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.executor_commands import ExitReason, StopSource
from podtide.domain.protocol.pod_stimuli import Outcome
from podtide.domain.protocol.reasons import Cause, Why
from podtide.domain.protocol.stimuli import Reset

MACHINE: Final = "YarnClusterSchedulerBackend"
"""The class in cluster mode, in which driver and application master write one log; in client mode there is another."""
DRIVER_ENDPOINT: Final = "YarnSchedulerBackend$YarnDriverEndpoint"
SCHEDULER_ENDPOINT: Final = "YarnSchedulerBackend$YarnSchedulerEndpoint"
"""Where the application master is heard from."""
MASTER_ENDPOINT: Final = "ApplicationMaster$AMEndpoint"

PROCESS_LOST: Final = ExitReason("ExecutorProcessLost", "Executor Process Lost", None, True)
"""ExecutorProcessLost(): nobody could say why."""
NO_MASTER: Final = PROCESS_LOST._replace(message="AM is not yet registered.")
STALE: Final = PROCESS_LOST._replace(message="Stale executor after cluster manager re-registered.")
MASTER_GONE: Final = (
    "org.apache.spark.SparkException: Exception thrown in awaitResult: Connection from the application master closed"
)
"""What becomes of a question to an application master that is gone."""
RPC_TIMEOUT: Final = "org.apache.spark.rpc.RpcTimeoutException"
TIMEOUT_OF: Final = "This timeout is controlled by spark.rpc.askTimeout"


class Question(NamedTuple):
    """Nobody waits for a loss reason any longer at ``due``."""

    due: Millis
    executor: ExecutorId


class Ask(NamedTuple):
    """Nobody waits for the answer to the call with this serial any longer at ``due``."""

    due: Millis
    serial: int


@dataclass(slots=True)
class YarnBackendState(BackendState):
    """The backend at a moment; ``ids`` is the highest executor id that has registered (currentExecutorIdCounter).

    ``master``: an application master is registered. ``locality_tasks`` and ``host_tasks``: the hints of the last request.
    ``asks``: calls of the application master under way, by serial, and what is left to do then; ``deadlines``: until when
    they are waited for, in order. ``reason_due``: executors whose loss reason is asked for, and until when; ``questions``:
    the same in order. Those that were answered since are still among both. ``profiles``: that were defined, beside the
    default one.
    """

    master: bool = False
    locality_tasks: Mapping[ProfileId, int] = field(default_factory=pmap)
    host_tasks: Mapping[ProfileId, Mapping[str, int]] = field(default_factory=pmap)
    asks: PMap[int, Rest] = field(default_factory=pmap)
    reason_due: PMap[ExecutorId, Millis] = field(default_factory=pmap)
    questions: PDeque[Question] = field(default_factory=pdeque)
    deadlines: PDeque[Ask] = field(default_factory=pdeque)
    profiles: PSet[ProfileId] = field(default_factory=lambda: pset((DEFAULT_PROFILE,)))


def begin(config: BackendConfig, now: Millis) -> YarnBackendState:
    """A backend that was made now and not started yet."""
    return YarnBackendState(now, empty_registry(config.unknown_decommissions_max))


def manage(
    state: YarnBackendState, snapshots: Sequence[backend_messages.YarnBackendInput], config: BackendConfig, now: Millis
) -> Step[YarnBackendState, backend_messages.YarnBackendCommand]:
    """Run the timers that are overdue, then take the inputs in order; a Wake runs those that are due now."""
    turn = BackendTurn(state, config, now, YARN)
    YARN.run_timers(turn, now - 1)
    for item in snapshots:
        YARN.hear(turn, item)
    _drop_answered(turn.state)
    return turn.step()


def _drop_answered(state: YarnBackendState) -> None:
    """Take deadlines off the queues' heads that nobody waits for any more."""
    while state.questions and state.reason_due.get(state.questions.left.executor) != state.questions.left.due:
        state.questions = state.questions.popleft()
    while state.deadlines and state.deadlines.left.serial not in state.asks:
        state.deadlines = state.deadlines.popleft()


def due(state: YarnBackendState, config: BackendConfig) -> Millis:  # noqa: ARG001 - every machine is asked alike
    """When the next timer runs; NEVER without one."""
    return min(queue.left.due if queue else NEVER for queue in (state.patience, state.questions, state.deadlines))


YarnTurn: TypeAlias = BackendTurn[YarnBackendState]


class YarnManager(ClusterManager[YarnBackendState]):
    """YarnSchedulerBackend's own part."""

    machine = MACHINE
    endpoint = DRIVER_ENDPOINT

    def hear(self, turn: YarnTurn, item: backend_messages.YarnBackendInput) -> None:
        """Take one input."""
        match item:
            case yarn_messages.MasterRegistered():
                self.meet_master(turn)
            case yarn_messages.MasterLost():
                self.miss_master(turn, item.address)
            case yarn_messages.ProfilesDefined():
                turn.state.profiles = turn.state.profiles.update(profile for profile, _ in item.specs)
            case yarn_messages.TellLossReason():
                self.take_reason(turn, item)
            case yarn_messages.DecommissionHost():
                removals.decommission_on_host(turn, item.host)
            case Outcome():
                self.answered(turn, item)
            case _:
                scheduler_backend.take(turn, item)

    def meet_master(self, turn: YarnTurn) -> None:
        """RegisterClusterManager, and what follows: reset()."""
        if turn.state.phase is BackendPhase.STOPPED:
            return
        self.fail_asks(turn)
        turn.remark("master registered", SCHEDULER_ENDPOINT)
        turn.state.master = True
        turn.state.requested = ()
        turn.say(Reset(turn.now))
        stale = _by_number(turn.state.registry.executors)
        reason = why(Cause.REGISTERED, stale=len(stale))
        for executor in stale:
            removals.dismiss(turn, executor, STALE, reason)

    def miss_master(self, turn: YarnTurn, address: str) -> None:
        """YarnSchedulerEndpoint.onDisconnected, of the application master."""
        if turn.state.master:
            turn.remark("master lost", SCHEDULER_ENDPOINT, address=address)
            turn.state.master = False
            self.fail_asks(turn)

    def fail_asks(self, turn: YarnTurn) -> None:
        """Nobody is left to answer: who waits gets an exception, who waits for a loss reason no reason."""
        for serial in sorted(turn.state.asks):
            self.fail(turn, serial, MASTER_GONE)
        for executor in _by_number(turn.state.reason_due):
            self.unanswered(turn, executor)

    def fail(self, turn: YarnTurn, serial: int, threw: str) -> None:
        """A call of the application master has failed."""
        rest, turn.state.asks = turn.state.asks[serial], turn.state.asks.remove(serial)
        scheduler_backend.resume(turn, rest, threw)

    def await_answer(self, turn: YarnTurn, serial: int, rest: Rest) -> None:
        """Somebody waits for the application master, but not for ever."""
        turn.state.asks = turn.state.asks.set(serial, rest)
        turn.state.deadlines = turn.state.deadlines.append(Ask(turn.now + turn.config.ask_timeout_ms, serial))

    def forward(self, turn: YarnTurn, targets: backend_messages.Targets, rest: Rest) -> bool:
        """doRequestTotalExecutors. Returns whether its answer has to be waited for."""
        if not turn.state.master:
            turn.remark("request before master", SCHEDULER_ENDPOINT)
            return False
        excluded = turn.state.registry.excluded_hosts
        hosts = {
            profile: pmap({host: tasks for host, tasks in wished.items() if host not in excluded})
            for profile, wished in turn.state.host_tasks.items()
        }
        turn.state.serial += 1
        wanted = yarn_messages.ContainersWanted(
            turn.now, targets, turn.state.locality_tasks, pmap(hosts), tuple(sorted(excluded)), turn.state.serial
        )
        turn.say(backend_messages.MasterAsked(turn.now, turn.state.serial, wanted))
        if isinstance(rest, Decommissioning):
            return False  # decommissionExecutors drops the future
        self.await_answer(turn, turn.state.serial, rest)
        return True

    def answered(self, turn: YarnTurn, outcome: Outcome) -> None:
        """A call of the application master has returned."""
        rest = turn.state.asks.get(outcome.serial)
        if rest is not None:
            turn.state.asks = turn.state.asks.remove(outcome.serial)
            failure = outcome.failure
            scheduler_backend.resume(turn, rest, None if failure is None else str(thrown(failure)))

    def start(self, turn: YarnTurn) -> None:
        """Nothing is asked for: the application master begins with the initial number by itself."""
        turn.state.phase = BackendPhase.RUNNING

    def stop(self, turn: YarnTurn) -> None:
        """stop(), up to the application master's answer."""
        if turn.state.phase in (BackendPhase.STOPPING, BackendPhase.STOPPED):
            return
        turn.state.phase, turn.state.stop_serial = BackendPhase.STOPPING, turn.state.serial
        if turn.state.master:
            turn.say(yarn_messages.MasterEnding(turn.now))
        else:
            turn.remark("shutdown before master", SCHEDULER_ENDPOINT)
        turn.state.requested, turn.state.locality_tasks, turn.state.host_tasks = (), pmap(), pmap()
        if not self.forward(turn, (), StopStage.ALLOCATOR):
            self.stop_on(turn, None)

    def stop_on(self, turn: YarnTurn, threw: str | None) -> None:
        """stop() goes on when the application master has answered; an exception leaves it."""
        turn.state.phase, turn.state.patience = BackendPhase.STOPPED, pdeque()
        turn.state.reason_due, turn.state.questions = pmap(), pdeque()
        if threw is not None:
            turn.threw(threw)
            return
        reason = why(Cause.STOPPED)
        turn.call(lambda serial: StopSource(turn.now, serial, "scheduler", reason))
        turn.call(lambda serial: StopSource(turn.now, serial, "client", reason))

    def run_timers(self, turn: YarnTurn, moment: Millis) -> None:
        """Every timer that is due by then, in order; of the same time, the end of a decommission first."""
        while True:
            heads: tuple[Patience | Question | Ask | None, ...] = (
                turn.state.patience.left if turn.state.patience else None,
                turn.state.questions.left if turn.state.questions else None,
                turn.state.deadlines.left if turn.state.deadlines else None,
            )
            over = [head for head in heads if head is not None and head.due <= moment]
            if not over:
                break
            first = min(over, key=lambda one: one.due)
            match first:
                case Patience():
                    turn.state.patience = turn.state.patience.popleft()
                    removals.kill_stragglers(turn, first)
                case Question():
                    turn.state.questions = turn.state.questions.popleft()
                    if turn.state.reason_due.get(first.executor) == first.due:
                        self.unanswered(turn, first.executor)
                case Ask():
                    turn.state.deadlines = turn.state.deadlines.popleft()
                    if first.serial in turn.state.asks:
                        self.fail(turn, first.serial, _timed_out(turn.config.ask_timeout_ms))
                case _:
                    assert_never(first)

    # --------------------------------------------------------------------------------------------- requests and kills

    def unknown_profile(self, turn: YarnTurn, targets: backend_messages.Targets) -> SparkFault | None:
        """requestTotalExecutors looks its profiles up (resourceProfileFromId)."""
        unknown = [profile for profile, _ in targets if profile not in turn.state.profiles]
        return SparkFault(SPARK_EXCEPTION, f"ResourceProfileId {unknown[0]} not found!") if unknown else None

    def hinted(self, turn: YarnTurn, item: backend_messages.RequestTotals) -> None:
        """Remember where the executors should be."""
        turn.state.locality_tasks, turn.state.host_tasks = item.locality_tasks, item.host_tasks

    def acknowledge(self, turn: YarnTurn, serial: int) -> None:
        """A request that nobody has taken is not acknowledged."""
        turn.say(backend_messages.Requested(turn.now, serial, False))

    def do_kill(
        self,
        turn: YarnTurn,
        executors: tuple[ExecutorId, ...],
        reply: KillReply,
        reason: Why,  # noqa: ARG002
    ) -> bool:
        """doKillExecutors: the application master releases the containers, and says so by and by."""
        if not turn.state.master:
            turn.remark("kill before master", SCHEDULER_ENDPOINT)
            answers.reply_killed(turn, reply, ())
            return True
        turn.remark("kill requested", MASTER_ENDPOINT, executors=", ".join(executors))
        serial = turn.call(
            lambda serial: backend_messages.MasterAsked(
                turn.now, serial, yarn_messages.KillExecutors(turn.now, executors)
            )
        )
        self.await_answer(turn, serial, KillSent(executors, reply))
        return False

    # ------------------------------------------------------------------------------------------ registration and losses

    def numbered(self, turn: YarnTurn, number: int) -> None:
        """The application master gives ids; the driver knows the highest."""
        turn.state.ids = max(turn.state.ids, number)

    def disconnect(self, turn: YarnTurn, address: str) -> None:
        """YarnDriverEndpoint.onDisconnected."""
        executor = turn.state.registry.addresses.get(address)
        if executor is None or turn.state.phase is BackendPhase.STOPPED or not removals.disable(turn, executor):
            return
        if not turn.state.master:
            turn.remark("loss before master", SCHEDULER_ENDPOINT)
            removals.dismiss(turn, executor, NO_MASTER, why(Cause.DISCONNECTED, address=address))
            return
        until = turn.now + turn.config.ask_timeout_ms
        turn.state.reason_due = turn.state.reason_due.set(executor, until)
        turn.state.questions = turn.state.questions.append(Question(until, executor))
        turn.say(yarn_messages.LossReasonsAsked(turn.now, (executor,)))

    def take_reason(self, turn: YarnTurn, item: yarn_messages.TellLossReason) -> None:
        """The application master answered; unless the question was given up."""
        if item.executor not in turn.state.reason_due:
            return
        if item.reason is None:
            self.unanswered(turn, item.executor)
            return
        turn.state.reason_due = turn.state.reason_due.remove(item.executor)
        removals.dismiss(turn, item.executor, item.reason, item.why)

    def unanswered(self, turn: YarnTurn, executor: ExecutorId) -> None:
        """The question failed: there is no reason to tell."""
        waited_ms = turn.now - (turn.state.reason_due[executor] - turn.config.ask_timeout_ms)
        turn.state.reason_due = turn.state.reason_due.remove(executor)
        data = turn.state.registry.executors.get(executor)
        turn.remark("no reason", SCHEDULER_ENDPOINT, executor=executor, address="" if data is None else data.address)
        removals.dismiss(turn, executor, PROCESS_LOST, why(Cause.DISCONNECTED, waited_ms=waited_ms))

    def lose(self, turn: YarnTurn, item: backend_messages.LossReported) -> None:
        """RemoveExecutor from the application master."""
        if turn.state.phase is not BackendPhase.STOPPED:
            turn.remark("removal asked", SCHEDULER_ENDPOINT, executor=item.executor, what=item.reason.message)
            removals.dismiss(turn, item.executor, item.reason, item.why or why(Cause.CONTAINER_COMPLETED))


YARN: Final = YarnManager()


def _timed_out(after_ms: Millis) -> str:
    """What an ask throws that was not answered in time; Spark's message names the endpoint's address."""
    seconds = after_ms // 1_000
    unit = "second" if seconds == 1 else "seconds"
    message = f"Cannot receive any reply from the application master in {seconds} {unit}. {TIMEOUT_OF}"
    return str(SparkFault(RPC_TIMEOUT, message))


def _by_number(executors: Iterable[ExecutorId]) -> list[ExecutorId]:
    return sorted(executors, key=lambda executor: (len(executor), executor))
