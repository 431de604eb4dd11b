"""What the resource manager's answer brings: containers to match, launch and release, and completions to judge.

Matching goes in three passes, each through all containers that are left; a fault in any of them, or a container that is too
small, ends the answer where it stands. Where launches are awaited the answer stands still at each. See ``yarn``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from pyrsistent import pmap

from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, ProfileId
from podtide.domain.base.versioned_map import VersionedMap, VersionedSet
from podtide.domain.jvm.exceptions import ASSERTION_ERROR, ILLEGAL_ARGUMENT, SparkFault
from podtide.domain.protocol.completions import judge
from podtide.domain.protocol.containers import (
    ANY_HOST,
    DECOMMISSIONING,
    Completion,
    Container,
    ContainerId,
    resource_text,
)
from podtide.domain.protocol.holds import held
from podtide.domain.protocol.pod_commands import ExitReason, RemoveExecutor
from podtide.domain.protocol.reasons import Bound, Cause, Threw, Why
from podtide.domain.protocol.yarn_messages import (
    DecommissionHost,
    LaunchEnded,
    LaunchExecutor,
    Match,
    ReleaseContainers,
    ResourcesAnswered,
    TakeRequests,
    TellLossReason,
)
from podtide.domain.yarn.allocator_state import (
    DECOMMISSIONS_MAX,
    EXECUTOR_EXITED,
    LAUNCHER,
    TRACKER,
    Books,
    Launch,
    Rest,
)


class Answers(Books):
    """The allocator within one step, as far as containers come and go."""

    # ----------------------------------------------------------------------------------------- what the answer brings

    def answered(self, item: ResourcesAnswered) -> None:
        """allocateResources, from the resource manager's answer on."""
        self.health = replace(self.health, nodes=item.nodes)
        if self.config.decommission:
            known = frozenset(self.decommissioning)
            for node in item.updated:
                if node.state == DECOMMISSIONING and node.host not in known:
                    self.decommission(node.host)
        if item.allocated:
            self.remark_allocated(item)
        self.handle(item.allocated, item.completed)
        self.hold()

    def remark_allocated(self, item: ResourcesAnswered) -> None:
        """What the log says of containers that were given."""
        if self.config.remarks:
            running, starting = sum(map(len, self.running.values())), sum(self.starting.values())
            room = "null" if item.available is None else resource_text(item.available)
            self.remark("allocated", count=len(item.allocated), running=running, starting=starting, room=room)

    def decommission(self, host: str) -> None:
        """Tell the driver, and remember it; a host twice in one answer is told twice."""
        self.say(DecommissionHost(self.now, host, Why(Cause.NODE_DECOMMISSIONING, pmap({"host": host}))))
        if host not in self.decommissioning:
            self.decommissioning = (*self.decommissioning, host)[-DECOMMISSIONS_MAX:]

    def hold(self) -> None:
        """Report what the resource manager has not given: when that begins, changes and ends."""
        for profile, table in sorted(self.tables.items()):
            before = self.held.get(profile, 0)
            if before == table.waiting:
                continue
            self.held = self.held.set(profile, table.waiting) if table.waiting else self.held.discard(profile)
            facts = pmap({"pending": table.waiting, "target": self.targets.get(profile, 0)})
            key = (profile, Bound.RESOURCE_MANAGER)
            self.reports.append(held(self.now, key, facts, before=bool(before), after=bool(table.waiting)))

    def handle(self, allocated: tuple[Container, ...], completed: tuple[Completion, ...]) -> None:
        """handleAllocatedContainers, then processCompletedContainers."""
        if allocated:
            used, left, fault = self.match(allocated)
            if fault is not None:
                self.threw(str(fault))
                return
            if left:
                self.remark("unneeded", count=len(left))
                surplus = Why(Cause.SURPLUS, pmap({"received": len(allocated), "used": len(used)}))
                self.release(left, surplus)
            self.run(Rest(tuple(used), completed, 0, len(allocated)))
        else:
            self.complete(completed)

    def match(self, allocated: tuple[Container, ...]) -> tuple[list[Container], list[ContainerId], SparkFault | None]:
        """Which containers answer a request, in the order of matching; which are left; what went wrong."""
        used: list[Container] = []
        left: Sequence[Container] = allocated
        matches: list[tuple[ProfileId, Match]] = []
        fault: SparkFault | None = None
        for location_of in (lambda one: one.host, lambda one: self.rack(one.host), lambda _: ANY_HOST):
            left, fault = self.match_at(location_of, left, used, matches)
            if fault is not None:
                break
        begun = 0
        for end, (profile, _) in enumerate(matches, start=1):
            if end == len(matches) or matches[end][0] != profile:
                taken = tuple(match for _, match in matches[begun:end])
                why = Why(Cause.MATCHED, pmap({"received": len(allocated), "pending": self.tables[profile].waiting}))
                self.say(TakeRequests(self.now, profile, taken, why))
                begun = end
        return used, [one.id for one in left], fault

    def match_at(
        self,
        location_of: Callable[[Container], str],
        containers: Iterable[Container],
        used: list[Container],
        matches: list[tuple[ProfileId, Match]],
    ) -> tuple[list[Container], SparkFault | None]:
        """One pass: who takes the oldest request listed where it is; the others are left."""
        left: list[Container] = []
        for container in containers:
            profile, location = container.profile, location_of(container)
            if profile not in self.tables:
                return left, SparkFault(ILLEGAL_ARGUMENT, "The Resource to be requested should not be null ")
            table, number = self.tables[profile].taken(location)
            if number is None:
                left.append(container)
                continue
            self.tables = self.tables.set(profile, table)
            matches.append((profile, Match(container.id, number, location)))
            used.append(container)
        return left, None

    def run(self, rest: Rest) -> None:
        """runAllocatedContainers; where launches are awaited it stands still after each."""
        launched = rest.launched
        for number, container in enumerate(rest.containers, start=1):
            profile, spec = container.profile, self.specs[container.profile]
            self.last_id += 1
            executor = ExecutorId(str(self.last_id))
            if container.resource.memory_mib < spec.resource.memory_mib:
                self.threw(str(SparkFault(ASSERTION_ERROR, "assertion failed")))
                return
            self.remark("launching", container=container.id, host=container.host, executor=executor, profile=profile)
            running, target = len(self.running[profile]), self.targets[profile]
            launched += 1
            facts = pmap({"running": running, "target": target})
            if running >= target:
                self.remark("skip", running=running, target=target)
                self.release((container.id,), Why(Cause.ABOVE_TARGET, facts))
                continue
            self.starting = self.starting.set(profile, self.starting.get(profile, 0) + 1)
            self.launching = self.launching.add(container.id)
            self.launches = self.launches.set(executor, Launch(container.id, container.host, profile))
            why = Why(Cause.BELOW_TARGET, facts)
            self.say(
                LaunchExecutor(
                    self.now, executor, container.id, container.host, profile, spec.heap_mib, spec.cores, why
                )
            )
            if self.config.launches_awaited:
                self.rest = rest._replace(containers=rest.containers[number:], launched=launched)
                return
        self.remark("received", received=rest.received, launched=launched)
        self.complete(rest.completed)

    def launch_ended(self, item: LaunchEnded) -> bool:
        """updateInternalState, or what happens when a launch throws; False for a launch that is not under way here: one of
        which nobody knows, or one of the master before.
        """
        launch = self.launches.get(item.executor)
        if launch is None or item.container not in (None, launch.container):
            return False
        executor, (container, host, profile) = item.executor, launch
        self.launches = self.launches.remove(executor)
        self.starting = self.starting.set(profile, self.starting.get(profile, 0) - 1)
        alive = container in self.launching
        self.launching = self.launching.discard(container)
        if item.failure is not None:
            if item.fatal:
                self.reports.append(Threw(self.now, LAUNCHER, item.failure, fatal=True))
                return True
            self.remark("launch failed", executor=executor, container=container, what=item.failure)
            why = Why(Cause.LAUNCH_FAILED, pmap({"what": item.failure}))
            self.say(ReleaseContainers(self.now, (container,), why))
        elif alive:
            self.running = self.running.set(profile, self.running[profile].add(executor))
            self.container_of = self.container_of.set(executor, container)
            self.executor_of = self.executor_of.set(container, (executor, profile))
            self.host_of = self.host_of.set(container, host)
            here = self.hosts.get(profile) or VersionedMap()
            there = here.get(host) or VersionedSet()
            self.hosts = self.hosts.set(profile, here.set(host, there.add(container)))
        return True

    # ------------------------------------------------------------------------------------------------------ completions

    def complete(self, completed: Iterable[Completion]) -> None:
        """processCompletedContainers."""
        for one in completed:
            self.end(one)

    def end(self, one: Completion) -> None:
        """One container is over."""
        container = one.container
        self.launching = self.launching.discard(container)
        known = self.executor_of.get(container)
        released = container in self.released
        self.released = self.released.discard(container)
        host = self.host_of.get(container)
        reason = self.reason(one, host, known, released=released)
        if host is not None:
            self.forget(container, host, DEFAULT_PROFILE if known is None else known[1])
        if known is None:
            return
        executor, _ = known
        self.executor_of = self.executor_of.remove(container)
        self.container_of = self.container_of.discard(executor)
        facts = pmap({"container": container, "host": host, "status": one.status, "released": int(released)})
        why = Why(Cause.CONTAINER_COMPLETED, facts)
        asked = self.loss_asked.get(executor, 0)
        if asked:
            self.loss_asked = self.loss_asked.remove(executor)
            for _ in range(asked):
                self.say(TellLossReason(self.now, executor, reason, why))
        else:
            self.loss_stored = self.loss_stored.set(executor, reason)
        if not released:
            self.unexpected += 1
            self.say(RemoveExecutor(self.now, executor, reason, why))

    def reason(
        self, one: Completion, host: str | None, known: tuple[ExecutorId, ProfileId] | None, *, released: bool
    ) -> ExitReason:
        """Why it ended; a failure is counted on the way."""
        if released:
            text = f"Container {one.container} exited from explicit termination request."
            return ExitReason(EXECUTOR_EXITED, text, one.status, False)
        if known is None:
            self.remark("no executor", container=one.container)
        else:
            executor, profile = known
            self.running = self.running.set(profile, self.running[profile].discard(executor))
        self.remark("completed", container=one.container, host=host, status=one.status)
        verdict = judge(one.container, host, one.status, one.diagnostics, ending=self.ending)
        if verdict.counted:
            before = self.health.own
            self.health, told = self.health.failed(host, self.config.exclusion, self.now)
            if host is not None and self.health.own is not before:
                self.remark("excluding", TRACKER, host=host, count=self.health.by_host[host].count)
            self.tell(told)
        self.remark("blamed" if verdict.blamed else "not blamed", text=verdict.text)
        return ExitReason(EXECUTOR_EXITED, verdict.text, one.status, verdict.blamed)

    def forget(self, container: ContainerId, host: str, profile: ProfileId) -> None:
        """The host has it no longer."""
        self.host_of = self.host_of.remove(container)
        here = self.hosts[profile]
        there = here[host].discard(container)
        self.hosts = self.hosts.set(profile, here.set(host, there) if there else here.remove(host))
