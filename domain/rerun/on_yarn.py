"""Where the executors of a rerun come from on YARN: the production YARN allocator and a fake resource manager.

The engine of a whole application (dynamic allocation, scheduler backend, allocator and the reporter thread with its
heartbeats) and a fake cluster step beside the tasks (``rerun.engine_manager``). An executor is paid for from the moment at
which the application master has its container to the moment at which the driver knows that it is gone: a request that
waits costs nothing on YARN.

Two kinds of cluster (``plan.Plan.hadoop``):

- A cluster that was given: its nodes, queue, latencies and faults are the world's.
- None: containers come and go as they did in the log (``rerun.logged_cluster``). The resource manager has room up to the
  bound that was seen and answers at once; what the log knows of start-ups, stops and losses is played in the log's order,
  so that the same luck is met again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from podtide.domain import engine
from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.protocol import yarn_messages
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.containers import ContainerId, Resource
from podtide.domain.protocol.executor_stimuli import ExecutorDisconnected, RegisterExecutor
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.behaviour import Behaviour
from podtide.domain.rerun.engine_manager import EngineManager
from podtide.domain.rerun.heartbeats import DescribedCluster, Heartbeats, is_client
from podtide.domain.rerun.ledger.causes import Limit
from podtide.domain.rerun.ledger.ledger import Ledger
from podtide.domain.rerun.logged_cluster import LoggedCluster
from podtide.domain.rerun.plan import Plan
from podtide.domain.scheduler.rows import ExecutorSlots


class Yarn(EngineManager):
    """Executors from YARN."""

    def __init__(self, app: Application, plan: Plan, behaviour: Behaviour, seed: int, ledger: Ledger) -> None:
        assert plan.yarn is not None
        assert plan.yarn.yarn is not None
        container = plan.yarn.yarn.allocator.containers.resource
        self._cluster = _cluster(plan, behaviour, seed, container)
        self._thinking = self._cluster.shares_driver
        think = self._cluster.think if self._thinking else None
        self.heartbeats = Heartbeats(plan.yarn, self._cluster, client=is_client(plan.conf))
        super().__init__(app, plan, behaviour, seed, ledger, self.heartbeats, think=think)
        self.tasks.warm_up, self.tasks.warms = self._cluster.warm_up, self._cluster.warms
        self._executor_in: dict[ContainerId, ExecutorId] = {}
        self._at: dict[str, ExecutorId] = {}  # by address
        self._ready: list[ExecutorId] = []  # up before the driver knows them

    def take(self, now: Millis) -> None:
        """All that is due at ``now``, and the driver's own work before its first job."""
        super().take(now)
        if self.steps.begun and self._thinking and self._cluster.thought():
            self._thinking = False
            self.tasks.dag.thought(now)

    def _arrivals(self, now: Millis) -> Sequence[AnyStimulus]:
        arrivals = super()._arrivals(now)
        self._contacts(arrivals, now)
        self._make_ready(now)
        return arrivals

    def _follow(self, step: Step[engine.EngineState, Command], stimuli: Sequence[AnyStimulus], now: Millis) -> None:
        super()._follow(step, stimuli, now)
        for one in stimuli:
            if isinstance(one, yarn_messages.ResourcesAnswered):  # containers may end before the driver knows them
                self._ended((completion.container for completion in one.completed), now)
        self._make_ready(now)

    def _carry_out(self, command: Command, now: Millis) -> None:
        match command:
            case yarn_messages.LaunchExecutor():  # the master has a container: from now on it costs
                self.requests += 1
                self._key_of[command.executor] = self.accounts.request(command.profile, now)
                self._executor_in[command.container] = command.executor
            case yarn_messages.ReleaseContainers():
                self.requests += 1
                self._ended(command.containers, now)
            case yarn_messages.RequestContainers() | yarn_messages.CancelRequests() | yarn_messages.UpdateExclusions():
                self.requests += 1
            case yarn_messages.EndApplication():
                self.stopped = f"Spark ends it: {command.message}"
            case _:
                pass

    def _contacts(self, arrivals: Iterable[AnyStimulus], now: Millis) -> None:
        """Who begins to be heard, and who is heard no longer: with the process go its tasks, whatever the driver knows."""
        for one in arrivals:
            if isinstance(one, RegisterExecutor):
                self._at[one.address] = one.executor
            elif isinstance(one, ExecutorDisconnected):
                known = self.tasks.by_id.get(self._at.pop(one.address, ExecutorId("")))
                if known is not None:
                    self._gone(known, now)

    def _ended(self, containers: Iterable[ContainerId], now: Millis) -> None:
        for container in containers:
            executor = self._executor_in.get(container)
            if executor is not None and executor not in self.tasks.by_id:
                self._cancelled(executor, now)

    def _register(self, executor: ExecutorId, now: Millis) -> ExecutorSlots | None:
        row = super()._register(executor, now)
        if row is not None:
            self._cluster.registered(executor, now)
        return row

    def _make_ready(self, now: Millis) -> None:
        """Executors that can be given tasks, as soon as the driver knows them."""
        waiting: list[ExecutorId] = []
        for executor in (*self._ready, *self._cluster.ready()):
            known = self.tasks.by_id.get(executor)
            if known is not None:
                self.tasks.ready(known, now)
            elif self._key_of.get(executor, -1) >= 0:
                waiting.append(executor)
        self._ready = waiting

    def _divide(self, counts: dict[Limit, int]) -> None:
        """Of those asked for without a container, what YARN says."""
        left, counts[Limit.CAPACITY] = counts[Limit.CAPACITY], 0
        if left:
            seen = self._cluster.outlook()
            for limit, count in (
                (Limit.CAPACITY, seen.full),
                (Limit.EXCLUSION, seen.barred),
                (Limit.SCHEDULER, seen.soon),
            ):
                part = min(left, count)
                counts[limit] += part
                left -= part
            counts[Limit.HEARTBEAT] += left


def _cluster(plan: Plan, behaviour: Behaviour, seed: int, container: Resource) -> DescribedCluster:
    """Where its containers are: the cluster that was given, or what the log knows."""
    if plan.hadoop is not None:
        return DescribedCluster(plan.hadoop, seed, behaviour.boot_ms)
    return LoggedCluster(behaviour, plan.faults, container, seed, behaviour.boot_ms)
