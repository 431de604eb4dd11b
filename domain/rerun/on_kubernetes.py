"""Where the executors of a rerun come from on Kubernetes: the production pods allocator on a fake cluster.

The engine of a whole application (dynamic allocation, pods allocator, lifecycle, backend) and a fake cluster step beside
the tasks (``rerun.engine_manager``). An executor is paid for from the creation of its pod to the moment at which the driver
knows that it is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, Millis, ProfileId
from podtide.domain.fakes.kubernetes import cluster as worlds
from podtide.domain.protocol import executor_commands, pod_commands
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.commands import Report
from podtide.domain.protocol.executor_stimuli import RegisterExecutor
from podtide.domain.protocol.pod_commands import PodCommand
from podtide.domain.protocol.pod_stimuli import UNKNOWN_OUTCOME, Outcome as CallOutcome, PodStimulus
from podtide.domain.protocol.reasons import Bound, Held, Phase
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.behaviour import Behaviour
from podtide.domain.rerun.engine_manager import EngineManager, EngineSteps
from podtide.domain.rerun.ledger.causes import Limit
from podtide.domain.rerun.ledger.ledger import Ledger
from podtide.domain.rerun.plan import Plan
from podtide.domain.scheduler.rows import ExecutorSlots

_PENDING: Final = frozenset({Bound.PENDING_LIMIT, Bound.PENDING_LIMIT_PROFILE})
_NO_CALLS: Final = (
    pod_commands.AssignExecutorId, pod_commands.AwaitDriverReady,
    executor_commands.StopApplication, executor_commands.StopSource,
)  # fmt: skip


class _PodCluster:
    """The fake cluster of a plan."""

    def __init__(self, plan: Plan, seed: int, now: Millis) -> None:
        assert plan.kubernetes is not None
        assert plan.cluster is not None
        config = plan.kubernetes.kubernetes
        allocation = config.allocation
        application = worlds.FakeApplication("rerun", allocation.pod_name_prefix, allocation.namespace)
        self.world = worlds.begin(plan.cluster, seed, now, sources=config.sources, application=application)

    def due(self) -> Millis:
        """When something happens there next."""
        return worlds.due(self.world)

    def apply(self, command: PodCommand, now: Millis) -> None:
        """The application asks for something."""
        self.world = worlds.apply(self.world, command, now)

    def advance(self, now: Millis) -> Iterable[PodStimulus]:
        """Let time pass; returns what reaches the application."""
        self.world, stimuli = worlds.advance(self.world, now)
        return stimuli


class Pods(EngineManager):
    """Executors from Kubernetes."""

    def __init__(self, app: Application, plan: Plan, behaviour: Behaviour, seed: int, ledger: Ledger) -> None:
        assert plan.kubernetes is not None
        self._pods = _PodCluster(plan, seed, behaviour.boot_ms)
        super().__init__(app, plan, behaviour.apart(), seed, ledger, EngineSteps(plan.kubernetes, self._pods))
        self._creating: dict[int, pod_commands.CreatePod] = {}  # by the serial of the call
        self._refused: set[ProfileId] = set()  # whose last creation the API refused
        self._profile_of: dict[ExecutorId, ProfileId] = {}  # as the executor says when it registers
        self._held: dict[tuple[Bound, ProfileId], None] = {}

    def _arrivals(self, now: Millis) -> Sequence[AnyStimulus]:
        arrivals = super()._arrivals(now)
        for one in arrivals:
            if isinstance(one, RegisterExecutor):
                self._profile_of.setdefault(one.executor, one.profile)
            elif isinstance(one, CallOutcome):
                self._answered(one)
        return arrivals

    def _carry_out(self, command: Command, now: Millis) -> None:
        self.requests += not isinstance(command, _NO_CALLS)
        match command:
            case pod_commands.CreatePod():
                self._created(command, now)
            case pod_commands.DeletePods() if command.executors is not None:
                for one in command.executors:
                    self._cancelled(ExecutorId(str(one)), now)
            case executor_commands.StopApplication() if command.exit_code is not None:
                self.stopped = f"Spark ends it with exit code {command.exit_code}"
            case pod_commands.DeletePod():
                self._cancelled(ExecutorId(str(command.executor)), now)
            case _:
                pass

    def _note(self, reports: Sequence[Report]) -> None:
        super()._note(reports)
        for report in reports:
            if isinstance(report, Held):
                if report.phase is Phase.ENDED:
                    self._held.pop((report.bound, report.profile), None)
                else:
                    self._held[report.bound, report.profile] = None

    def _created(self, command: pod_commands.CreatePod, now: Millis) -> None:
        executor = ExecutorId(str(command.executor))
        if executor in self._key_of:
            return  # the same pod, asked for once more
        self._creating[command.serial] = command
        self._key_of[executor] = self.accounts.request(command.profile, now)

    def _answered(self, outcome: CallOutcome) -> None:
        """A call came back; of creations, a refused one (a quota, a webhook) never was a pod: nobody pays for it."""
        command = self._creating.pop(outcome.serial, None)
        if command is None:
            return
        if outcome.failure is None:
            self._refused.discard(command.profile)
        elif outcome.failure.exception_class != UNKNOWN_OUTCOME:
            self._refused.add(command.profile)
            executor = ExecutorId(str(command.executor))
            key = self._key_of[executor]
            if key >= 0 and not self.tasks.was(executor):
                self.accounts.refuse(key)
                self._key_of[executor] = -1

    def _register(self, executor: ExecutorId, now: Millis) -> ExecutorSlots | None:
        if executor not in self._key_of:  # a pod that somebody else creates (a StatefulSet's)
            self._key_of[executor] = self.accounts.request(self._profile_of.get(executor, DEFAULT_PROFILE), now)
        row = super()._register(executor, now)
        if row is not None:
            self.tasks.ready(row, now)
        return row

    def _divide(self, counts: dict[Limit, int]) -> None:
        """Of those asked for without a pod, the allocator's limits; of pods that start, those without a node."""
        held = {bound for bound, _ in self._held}
        unmade, counts[Limit.CAPACITY] = counts[Limit.CAPACITY], 0
        if unmade:
            short = Bound.BACK_OFF in held or self._refused
            limit = Limit.CAPACITY if short else Limit.PENDING if held & _PENDING else Limit.BATCH
            counts[limit] += unmade
        homeless = min(counts[Limit.START_UP], worlds.census(self._pods.world).waiting)
        counts[Limit.START_UP] -= homeless
        counts[Limit.CAPACITY] += homeless
