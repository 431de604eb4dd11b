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
from typing import Final, NamedTuple, assert_never

from pyrsistent import PDeque, PMap, PSet, pdeque, pmap, pset

from podtide.domain.backend.executor_removals import Mark, why
from podtide.domain.backend.registry import Leaving, empty_registry
from podtide.domain.backend.scheduler_backend import Backend
from podtide.domain.backend.state import (
    Asked,
    BackendPhase,
    BackendState,
    Decommissioning,
    KillSent,
    Patience,
    Rest,
    StopStage,
)
from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.jvm.values import to_int
from podtide.domain.protocol.backend_messages import (
    LossReported,
    MasterAsked,
    Requested,
    RequestTotals,
    Targets,
    YarnBackendCommand,
    YarnBackendInput,
)
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.config import BackendConfig
from podtide.domain.protocol.pod_commands import ExitReason, RemoveExecutor, StopSource
from podtide.domain.protocol.pod_stimuli import GenerateExecutorId, Outcome, RegisterExecutor
from podtide.domain.protocol.reasons import Cause, Why
from podtide.domain.protocol.stimuli import Reset
from podtide.domain.protocol.yarn_messages import (
    ContainersWanted,
    DecommissionHost,
    KillExecutors,
    LossReasonsAsked,
    MasterEnding,
    MasterLost,
    MasterRegistered,
    ProfilesDefined,
    TellLossReason,
)

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
SPARK_EXCEPTION: Final = "org.apache.spark.SparkException"
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


@dataclass(frozen=True, slots=True)
class YarnBackendState(BackendState):
    """The backend at a moment; ``ids`` is the highest executor id that has registered (currentExecutorIdCounter).

    ``master``: an application master is registered. ``locality_tasks`` and ``host_tasks``: the hints of the last request.
    ``asks``: calls of the application master under way, by serial, and what is left to do then; ``deadlines``: until when
    they are waited for, in order. ``asked``: executors whose loss reason is asked for, and until when; ``questions``: the
    same in order. Those that were answered since are still among both. ``by_host``: registered executors by host.
    ``profiles``: that were defined, beside the default one.
    """

    master: bool = False
    locality_tasks: Mapping[ProfileId, int] = field(default_factory=pmap)
    host_tasks: Mapping[ProfileId, Mapping[str, int]] = field(default_factory=pmap)
    asks: PMap[int, Rest] = field(default_factory=pmap)
    asked: PMap[ExecutorId, Millis] = field(default_factory=pmap)
    questions: PDeque[Question] = field(default_factory=pdeque)
    by_host: PMap[str, PSet[ExecutorId]] = field(default_factory=pmap)
    deadlines: PDeque[Ask] = field(default_factory=pdeque)
    profiles: PSet[ProfileId] = field(default_factory=lambda: pset((DEFAULT_PROFILE,)))


def begin(config: BackendConfig, now: Millis) -> YarnBackendState:
    """A backend that was made now and not started yet."""
    return YarnBackendState(now, empty_registry(config.unknown_decommissions_max))


def manage(
    state: YarnBackendState, snapshots: Sequence[YarnBackendInput], config: BackendConfig, now: Millis
) -> Step[YarnBackendState, YarnBackendCommand]:
    """Run the timers that are overdue, then take the inputs in order; a Wake runs those that are due now."""
    backend = _YarnBackend(state, config, now)
    backend.run_timers(now - 1)
    for item in snapshots:
        backend.listen(item)
    return Step(backend.after(), tuple(backend.commands), tuple(backend.reports))


def due(state: YarnBackendState, config: BackendConfig) -> Millis:  # noqa: ARG001 - every machine is asked alike
    """When the next timer runs; NEVER without one."""
    return min(queue.left.due if queue else NEVER for queue in (state.patience, state.questions, state.deadlines))


class _YarnBackend(Backend):
    """The backend within one step."""

    machine = MACHINE
    endpoint = DRIVER_ENDPOINT

    def __init__(self, state: YarnBackendState, config: BackendConfig, now: Millis) -> None:
        super().__init__(state, config, now)
        self.master, self.by_host = state.master, state.by_host
        self.locality_tasks, self.host_tasks = state.locality_tasks, state.host_tasks
        self.asks, self.asked, self.questions = state.asks, state.asked, state.questions
        self.deadlines, self.profiles = state.deadlines, state.profiles

    def after(self) -> YarnBackendState:
        while self.questions and self.asked.get(self.questions.left.executor) != self.questions.left.due:
            self.questions = self.questions.popleft()
        while self.deadlines and self.deadlines.left.serial not in self.asks:
            self.deadlines = self.deadlines.popleft()
        return YarnBackendState(
            self.state.created_at, self.registry, self.requested, self.graces, self.patience, self.ids, self.serial,
            self.phase, self.stop_by, self.stop_serial, self.recovery, self.waiting, self.later, self.forced,
            self.master, self.locality_tasks, self.host_tasks, self.asks, self.asked, self.questions, self.by_host,
            self.deadlines, self.profiles,
        )  # fmt: skip

    def listen(self, item: YarnBackendInput) -> None:
        """Take one input."""
        match item:
            case MasterRegistered():
                self.meet_master()
            case MasterLost():
                self.miss_master(item.address)
            case ProfilesDefined():
                self.profiles = self.profiles.update(profile for profile, _ in item.specs)
            case TellLossReason():
                self.told(item)
            case DecommissionHost():
                self.leave_host(item.host)
            case Outcome():
                self.answered(item)
            case _:
                self.take(item)

    # ------------------------------------------------------------------------------------------ the application master

    def meet_master(self) -> None:
        """RegisterClusterManager, and what follows: reset()."""
        if self.phase is BackendPhase.STOPPED:
            return
        self.fail_asks()
        self.remark("master registered", SCHEDULER_ENDPOINT)
        self.master = True
        self.requested = ()
        self.say(Reset(self.now))
        stale = _by_number(self.registry.executors)
        reason = why(Cause.REGISTERED, stale=len(stale))
        for executor in stale:
            self.send_away(executor, STALE, reason)

    def miss_master(self, address: str) -> None:
        """YarnSchedulerEndpoint.onDisconnected, of the application master."""
        if self.master:
            self.remark("master lost", SCHEDULER_ENDPOINT, address=address)
            self.master = False
            self.fail_asks()

    def fail_asks(self) -> None:
        """Nobody is left to answer: who waits gets an exception, who waits for a loss reason no reason."""
        for serial in sorted(self.asks):
            self.fail(serial, MASTER_GONE)
        for executor in _by_number(self.asked):
            self.unanswered(executor)

    def fail(self, serial: int, threw: str) -> None:
        rest, self.asks = self.asks[serial], self.asks.remove(serial)
        self.resume(rest, threw)

    def await_answer(self, serial: int, rest: Rest) -> None:
        """Somebody waits for the application master, but not for ever."""
        self.asks = self.asks.set(serial, rest)
        self.deadlines = self.deadlines.append(Ask(self.now + self.config.ask_timeout_ms, serial))

    def forward(self, targets: Targets, rest: Rest) -> bool:
        """doRequestTotalExecutors. Returns whether its answer has to be waited for."""
        if not self.master:
            self.remark("request before master", SCHEDULER_ENDPOINT)
            return False
        excluded = self.registry.excluded_hosts
        hosts = {
            profile: pmap({host: tasks for host, tasks in wished.items() if host not in excluded})
            for profile, wished in self.host_tasks.items()
        }
        self.serial += 1
        wanted = ContainersWanted(
            self.now, targets, self.locality_tasks, pmap(hosts), tuple(sorted(excluded)), self.serial
        )
        self.say(MasterAsked(self.now, self.serial, wanted))
        if isinstance(rest, Decommissioning):
            return False  # decommissionExecutors drops the future
        self.await_answer(self.serial, rest)
        return True

    def answered(self, outcome: Outcome) -> None:
        rest = self.asks.get(outcome.serial)
        if rest is not None:
            self.asks = self.asks.remove(outcome.serial)
            failure = outcome.failure
            self.resume(rest, None if failure is None else f"{failure.exception_class}: {failure.message}")

    # ------------------------------------------------------------------------------------------------ start and stop

    def start(self) -> None:
        """Nothing is asked for: the application master begins with the initial number by itself."""
        self.phase = BackendPhase.RUNNING

    def stop(self) -> None:
        if self.phase in (BackendPhase.STOPPING, BackendPhase.STOPPED):
            return
        self.phase, self.stop_serial = BackendPhase.STOPPING, self.serial
        if self.master:
            self.say(MasterEnding(self.now))
        else:
            self.remark("shutdown before master", SCHEDULER_ENDPOINT)
        self.requested, self.locality_tasks, self.host_tasks = (), pmap(), pmap()
        if not self.forward((), StopStage.ALLOCATOR):
            self.stop_on(None)

    def stop_on(self, threw: str | None) -> None:
        """stop() goes on when the application master has answered; an exception leaves it."""
        self.phase, self.patience = BackendPhase.STOPPED, pdeque()
        self.asked, self.questions = pmap(), pdeque()
        if threw is not None:
            self.threw(threw)
            return
        reason = why(Cause.STOPPED)
        self.call(lambda serial: StopSource(self.now, serial, "scheduler", reason))
        self.call(lambda serial: StopSource(self.now, serial, "client", reason))

    def run_timers(self, moment: Millis) -> None:
        """Every timer that is due by then, in order; of the same time, the end of a decommission first."""
        while True:
            heads: tuple[Patience | Question | Ask | None, ...] = (
                self.patience.left if self.patience else None,
                self.questions.left if self.questions else None,
                self.deadlines.left if self.deadlines else None,
            )
            over = [head for head in heads if head is not None and head.due <= moment]
            if not over:
                break
            first = min(over, key=lambda one: one.due)
            match first:
                case Patience():
                    self.patience = self.patience.popleft()
                    self.kill_stragglers(first)
                case Question():
                    self.questions = self.questions.popleft()
                    if self.asked.get(first.executor) == first.due:
                        self.unanswered(first.executor)
                case Ask():
                    self.deadlines = self.deadlines.popleft()
                    if first.serial in self.asks:
                        self.fail(first.serial, _timed_out(self.config.ask_timeout_ms))
                case _:
                    assert_never(first)

    # --------------------------------------------------------------------------------------------- requests and kills

    def request_totals(self, item: RequestTotals) -> None:
        """requestTotalExecutors, which looks its profiles up when it has looked at the sum (resourceProfileFromId)."""
        unknown = [profile for profile, _ in item.targets if profile not in self.profiles]
        if unknown and to_int(sum(count for _, count in item.targets)) >= 0:
            self.answer(item.serial, str(SparkFault(SPARK_EXCEPTION, f"ResourceProfileId {unknown[0]} not found!")))
        else:
            super().request_totals(item)

    def hinted(self, item: RequestTotals) -> None:
        self.locality_tasks, self.host_tasks = item.locality_tasks, item.host_tasks

    def request(self, serial: int) -> None:
        if not self.forward(self.requested, Asked(serial)):
            self.say(Requested(self.now, serial, False))

    def do_kill(self, executors: tuple[ExecutorId, ...], reply: Asked | None, reason: Why) -> None:  # noqa: ARG002
        """doKillExecutors: the application master releases the containers, and says so by and by."""
        if not self.master:
            self.remark("kill before master", SCHEDULER_ENDPOINT)
            self.reply_killed(reply, ())
            return
        self.remark("kill requested", MASTER_ENDPOINT, executors=", ".join(executors))
        serial = self.call(lambda serial: MasterAsked(self.now, serial, KillExecutors(self.now, executors)))
        self.await_answer(serial, KillSent(executors, reply))

    def marks(self, *kinds: Mark) -> tuple[Mark, ...]:  # noqa: ARG002 - there are no pods to mark
        return ()

    # --------------------------------------------------------------------------------------------------- registration

    def register(self, item: RegisterExecutor) -> None:
        known = item.executor in self.registry.executors
        super().register(item)
        if not known and item.executor in self.registry.executors:
            here = self.by_host.get(item.host, pset())
            self.by_host = self.by_host.set(item.host, here.add(item.executor))

    def numbered(self, number: int) -> None:
        self.ids = max(self.ids, number)

    def excluded(self, executor: ExecutorId) -> bool:  # noqa: ARG002 - excluded hosts alone count
        return False

    def name_pod(self, item: GenerateExecutorId) -> None:
        """Nobody asks for an id: the application master gives them."""

    # --------------------------------------------------------------------------------------------------------- losses

    def disconnect(self, address: str) -> None:
        """YarnDriverEndpoint.onDisconnected."""
        executor = self.registry.addresses.get(address)
        if executor is None or self.phase is BackendPhase.STOPPED or not self.disable(executor):
            return
        if not self.master:
            self.remark("loss before master", SCHEDULER_ENDPOINT)
            self.send_away(executor, NO_MASTER, why(Cause.DISCONNECTED, address=address))
            return
        until = self.now + self.config.ask_timeout_ms
        self.asked = self.asked.set(executor, until)
        self.questions = self.questions.append(Question(until, executor))
        self.say(LossReasonsAsked(self.now, (executor,)))

    def told(self, item: TellLossReason) -> None:
        """The application master answered; unless the question was given up."""
        if item.executor not in self.asked:
            return
        if item.reason is None:
            self.unanswered(item.executor)
            return
        self.asked = self.asked.remove(item.executor)
        self.send_away(item.executor, item.reason, item.why)

    def unanswered(self, executor: ExecutorId) -> None:
        """The question failed: there is no reason to tell."""
        waited_ms = self.now - (self.asked[executor] - self.config.ask_timeout_ms)
        self.asked = self.asked.remove(executor)
        data = self.registry.executors.get(executor)
        self.remark("no reason", SCHEDULER_ENDPOINT, executor=executor, address="" if data is None else data.address)
        self.send_away(executor, PROCESS_LOST, why(Cause.DISCONNECTED, waited_ms=waited_ms))

    def lose(self, item: LossReported) -> None:
        """RemoveExecutor from the application master."""
        if self.phase is not BackendPhase.STOPPED:
            self.remark("removal asked", SCHEDULER_ENDPOINT, executor=item.executor, what=item.reason.message)
            self.send_away(item.executor, item.reason, item.why or why(Cause.CONTAINER_COMPLETED))

    def send_away(self, executor: ExecutorId, reason: ExitReason, because: Why) -> None:
        """Tell the driver endpoint to forget an executor."""
        self.say(RemoveExecutor(self.now, executor, reason, because))
        self.remove([(executor, reason)])

    def remove(self, losses: Sequence[tuple[ExecutorId, ExitReason]]) -> None:
        for executor, _ in losses:
            data = self.registry.executors.get(executor)
            if data is not None:
                left = self.by_host[data.host].remove(executor)
                self.by_host = self.by_host.set(data.host, left) if left else self.by_host.remove(data.host)
        super().remove(losses)

    def leave_host(self, host: str) -> None:
        """DecommissionExecutorsOnHost: of those that the scheduler holds for alive (getExecutorsAliveOnHost)."""
        registry = self.registry
        alive = tuple(
            executor
            for executor in _by_number(self.by_host.get(host, ()))
            if executor not in registry.leaving and executor not in registry.lost
        )
        if alive:
            info = Leaving(f"Decommissioning all executors on {host}.")
            self.decommission(alive, info, None, adjust_target=False, triggered_by_executor=False)


def _timed_out(after_ms: Millis) -> str:
    """What an ask throws that was not answered in time; Spark's message names the endpoint's address."""
    seconds = after_ms // 1_000
    unit = "second" if seconds == 1 else "seconds"
    message = f"Cannot receive any reply from the application master in {seconds} {unit}. {TIMEOUT_OF}"
    return str(SparkFault(RPC_TIMEOUT, message))


def _by_number(executors: Iterable[ExecutorId]) -> list[ExecutorId]:
    return sorted(executors, key=lambda executor: (len(executor), executor))
