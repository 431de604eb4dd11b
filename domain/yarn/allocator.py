"""From targets to containers: a pure YarnAllocator.

At every beat, for each resource profile: what is missing - target less what waits, starts and runs - is asked for; what is
too much among the requests that wait is cancelled; executors that run are never touched. Then the resource manager is spoken
to, and the round stands still until it answers: whoever comes meanwhile waits, as for the allocator's lock. Rules that are
easily got wrong:

- Only where containers are missing do locality hints count: then all requests are cancelled whose hosts nobody wishes for
  any more, and asked anew; requests without hosts are cancelled only as far as locality wants more than is missing.
- Given containers are matched in three passes over all that are left: by host, by rack, anywhere. Each takes the oldest
  request that is listed there. What no request wants is released before anything is launched.
- A container with less memory than its profile's uses up its request and an executor id and ends the round: what stands
  behind it is neither launched nor released, and the answer's completions are lost. An unknown priority does the same.
- A completion for a container without an executor is judged like any other: it may count as a failure.
- A kill lowers what runs at once, so under the same target the next beat asks for a replacement.

``negotiate`` takes what came in order. Source: YarnAllocator of Spark 4.3.0 (spec: yarn, sections 1-9; quirks 37-69).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, assert_never

from pyrsistent import PMap, pmap

from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.base.versioned_map import VersionedMap, VersionedSet
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.jvm.hash_order import SMALL, bucket_order, immutable_map_order, trie_order
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.config import NegotiationConfig
from podtide.domain.protocol.container_requests import Layout, RequestTable, Span, count_of, first_of
from podtide.domain.protocol.containers import ContainerSpec, one_label, resource_text
from podtide.domain.protocol.reasons import Cause, Fact, Threw, Why
from podtide.domain.protocol.yarn_messages import (
    Beat,
    CallResourceManager,
    CancelRequests,
    ContainersGiven,
    ContainersWanted,
    KillExecutors,
    LaunchEnded,
    LossReasonsAsked,
    MasterEnding,
    ProfilesDefined,
    RequestContainers,
    ResourcesAnswered,
    ResourcesRefused,
    TargetsTaken,
    TellLossReason,
    YarnInput,
)
from podtide.domain.yarn.allocate_response import Answers
from podtide.domain.yarn.allocator_state import ENDPOINT, NegotiationCommand, YarnState
from podtide.domain.yarn.locality import Wish, place

NO_SUCH_ELEMENT: Final = "java.util.NoSuchElementException"
INVALID_REQUEST: Final = "org.apache.hadoop.yarn.client.api.InvalidContainerRequestException"
TWO_LABELS: Final = "Cannot specify more than one node label in a single node label expression"


def begin(config: NegotiationConfig, now: Millis, *, last_id: int = 0) -> Step[YarnState, NegotiationCommand]:
    """An allocator that was just made. ``last_id``: the driver's last executor id; a new master goes on from it."""
    state = YarnState(
        specs=pmap({DEFAULT_PROFILE: config.containers}),
        targets=pmap({DEFAULT_PROFILE: config.executors_initial}),
        running=VersionedMap({DEFAULT_PROFILE: VersionedSet()}),
        starting=VersionedMap({DEFAULT_PROFILE: 0}),
        tables=VersionedMap({DEFAULT_PROFILE: RequestTable()}),
        hosts=VersionedMap({DEFAULT_PROFILE: VersionedMap()}),
        last_id=last_id,
    )
    negotiation = _Negotiation(state, config, now)
    negotiation.refresh()
    negotiation.remark("profile added", profile=DEFAULT_PROFILE)
    return negotiation.step()


def negotiate(
    state: YarnState, snapshots: Sequence[YarnInput], config: NegotiationConfig, now: Millis
) -> Step[YarnState, NegotiationCommand]:
    """Take what came, in order: targets, kills, questions, beats and what the resource manager answered."""
    negotiation = _Negotiation(state, config, now)
    for item in snapshots:
        negotiation.hear(item)
    return negotiation.step()


def due(state: YarnState, config: NegotiationConfig) -> Millis:  # noqa: ARG001 - every machine is asked alike
    """Never: the reporter thread has the clock."""
    return NEVER


def missing(state: YarnState, profile: ProfileId) -> int:
    """How many containers of a profile a beat would ask for (less than 0: too many)."""
    table = state.tables.get(profile)
    known = (
        len(state.running.get(profile, ())) + state.starting.get(profile, 0) + (0 if table is None else table.waiting)
    )
    return state.targets.get(profile, 0) - known


class _Negotiation(Answers):
    """The allocator within one step."""

    def hear(self, item: YarnInput) -> None:
        """Take it, or let it wait for the lock."""
        if isinstance(item, ResourcesAnswered | ResourcesRefused):
            if item.serial != self.waiting:
                return  # a call of which nobody knows
            self.waiting = None
            if isinstance(item, ResourcesAnswered):
                self.answered(item)
            else:
                self.threw(item.what, fatal=item.fatal)
        elif isinstance(item, LaunchEnded) and self.rest is not None:
            if self.launch_ended(item):
                rest, self.rest = self.rest, None
                self.run(rest)
        elif self.waiting is not None or self.rest is not None:
            self.later = self.later.append(item)
            return
        else:
            self.take(item)
        while self.later and self.waiting is None and self.rest is None:
            item, self.later = self.later.left, self.later.popleft()
            self.take(item)

    def take(self, item: YarnInput) -> None:
        match item:
            case ProfilesDefined():
                self.define(item.specs)
            case ContainersWanted():
                self.want(item)
            case KillExecutors():
                for executor in item.executors:
                    self.kill(executor)
            case LossReasonsAsked():
                for executor in item.executors:
                    self.ask_loss(executor)
            case Beat():
                self.beat()
            case ContainersGiven():
                self.handle(item.allocated, item.completed)
            case LaunchEnded():
                self.launch_ended(item)
            case MasterEnding():
                self.ending = True
            case ResourcesAnswered() | ResourcesRefused():
                pass  # taken as they come
            case _:
                assert_never(item)

    # -------------------------------------------------------------------------------------------------- from the driver

    def define(self, specs: Iterable[tuple[ProfileId, ContainerSpec]]) -> None:
        """Which containers a profile's executors need; the first word counts (createYarnResourceForResourceProfile)."""
        for profile, spec in specs:
            if profile not in self.specs:
                self.specs = self.specs.set(profile, spec)

    def want(self, item: ContainersWanted) -> None:
        """requestTotalExecutorsWithPreferredLocalities."""
        self.locality_tasks, self.host_tasks = item.locality_tasks, item.host_tasks
        changed = not item.targets
        for profile in self.targets if changed else ():
            self.targets = self.targets.set(profile, 0)
        if changed:
            self.exclude(item.excluded)
        for profile, count in item.targets:
            if profile not in self.specs:  # Spark's message brings the profile along; here somebody forgot to define it
                self.reports.append(Threw(self.now, ENDPOINT, f"{NO_SUCH_ELEMENT}: key not found: {profile}"))
                continue
            self.know(profile)
            if profile not in self.targets:
                self.targets = self.targets.set(profile, self.config.executors_initial)
            if count != self.targets[profile]:
                self.remark("target", count=count, profile=profile)
                self.targets = self.targets.set(profile, count)
                self.exclude(item.excluded)
                changed = True
        self.say(TargetsTaken(self.now, item.serial, changed))

    def know(self, profile: ProfileId) -> None:
        """The books of a profile that is named for the first time."""
        if profile in self.running:
            return
        self.remark("profile added", profile=profile)
        self.running = self.running.set(profile, VersionedSet())
        self.tables = self.tables.set(profile, RequestTable())

    def kill(self, executor: ExecutorId) -> None:
        """killExecutor: one that is starting is not known yet."""
        container = self.container_of.get(executor)
        if container is None or container in self.released:
            self.remark("kill unknown", executor=executor)
            return
        known = self.executor_of.get(container)
        if known is None:  # the resource manager gave this container twice, and it has completed once
            what = SparkFault(NO_SUCH_ELEMENT, f"key not found: {container}")
            self.reports.append(Threw(self.now, ENDPOINT, str(what)))
            return
        _, profile = known
        self.release((container,), Why(Cause.KILLED, pmap({"executor": executor})))
        self.running = self.running.set(profile, self.running[profile].discard(executor))

    def ask_loss(self, executor: ExecutorId) -> None:
        """enqueueGetLossReasonRequest."""
        why = Why(Cause.LOSS_ASKED, pmap({"asked": len(self.loss_asked), "stored": len(self.loss_stored)}))
        if executor in self.container_of:
            self.loss_asked = self.loss_asked.set(executor, self.loss_asked.get(executor, 0) + 1)
        elif executor in self.loss_stored:
            reason, self.loss_stored = self.loss_stored[executor], self.loss_stored.remove(executor)
            self.say(TellLossReason(self.now, executor, reason, why))
        else:
            self.remark("loss unknown", executor=executor)
            failure = f"Fail to find loss reason for non-existent executor {executor}"
            self.say(TellLossReason(self.now, executor, None, why, failure))

    # ------------------------------------------------------------------------------------------------------ heartbeats

    def beat(self) -> None:
        """allocateResources, until the resource manager is asked."""
        profiles = _walked(self.targets)
        for profile in profiles:
            if profile not in self.starting:
                self.starting = self.starting.set(profile, 0)
            if profile not in self.running:
                self.running = self.running.set(profile, VersionedSet())
            self.remark_status(profile)
        for profile in profiles:
            fault = self.update(profile)
            if fault is not None:
                self.threw(str(fault))
                return
        self.serial += 1
        self.waiting = self.serial
        waiting = sum(table.waiting for table in self.tables.values())
        self.say(CallResourceManager(self.now, self.serial, Why(Cause.HEARTBEAT, pmap({"pending": waiting}))))

    def update(self, profile: ProfileId) -> SparkFault | None:
        """updateResourceRequests, for one profile; a fault ends the heartbeat."""
        table = self.tables.get(profile, RequestTable())
        target, running, starting = self.targets[profile], len(self.running[profile]), self.starting[profile]
        short = target - table.waiting - running - starting
        facts: PMap[str, Fact] = pmap(
            {"target": target, "pending": table.waiting, "running": running, "starting": starting}
        )
        if short > 0:
            return self.ask(profile, table, short, facts)
        if short < 0 and table.waiting:
            wished = self.host_tasks.get(profile, {})
            count = min(table.waiting, -short)
            self.remark("cancel", count=count, target=target)
            parts = table.split(wished.keys())
            near = tuple(Span(batch.first, batch.last) for batch in parts.local)
            spans = first_of((*parts.stale, *parts.anywhere, *near), count)
            self.say(CancelRequests(self.now, profile, spans, Why(Cause.ABOVE_TARGET, facts)))
            self.tables = self.tables.set(profile, table.without(spans))
        return None

    def ask(self, profile: ProfileId, table: RequestTable, short: int, facts: PMap[str, Fact]) -> SparkFault | None:
        """Ask for what is missing, and again for what is wanted elsewhere by now."""
        spec = self.specs[profile]
        cores, memory = spec.resource.vcores, spec.resource.memory_mib
        resource = resource_text(spec.resource)
        self.remark("request", count=short, profile=profile, cores=cores, memory=memory, resource=resource)
        wished = self.host_tasks.get(profile, {})
        parts = table.split(wished.keys())
        stale = count_of(parts.stale)
        if stale:
            self.remark("cancel stale", count=stale)
            self.say(CancelRequests(self.now, profile, parts.stale, Why(Cause.LOCALITY, facts)))
            table = table.without(parts.stale)
        if profile not in self.hosts:
            self.hosts = self.hosts.set(profile, VersionedMap())
        available = short + stale
        potential = available + count_of(parts.anywhere)
        there = self.hosts[profile]
        wish = Wish(self.locality_tasks.get(profile, 0), wished, spec.tasks)
        placed = place(potential, wish, lambda host: len(there.get(host, ())), parts.local, self.rack)
        localized = 0 if placed.layout is None else placed.layout.size
        if localized > available:
            spans = first_of(parts.anywhere, localized - available)
            self.say(CancelRequests(self.now, profile, spans, Why(Cause.LOCALITY, facts)))
            self.remark("cancel anywhere", count=localized - available)
            table = table.without(spans)
        label = self.config.label
        if label is not None and not one_label(label):
            self.tables = self.tables.set(profile, table)
            return SparkFault(INVALID_REQUEST, TWO_LABELS)
        anywhere = max(0, available - localized)
        reason = Why(Cause.BELOW_TARGET, facts.set("missing", short).set("localized", localized))
        first = table.made + 1
        self.say(RequestContainers(self.now, profile, first, placed.layout, anywhere, spec.resource, label, reason))
        self.remark_submitted(placed.layout, anywhere, wished)
        self.tables = self.tables.set(profile, table.added(placed.layout, anywhere))
        return None

    def remark_status(self, profile: ProfileId) -> None:
        """What the log says of a profile before its requests are brought up to date."""
        if self.config.remarks:
            table = self.tables.get(profile, RequestTable())
            running, starting = len(self.running[profile]), self.starting[profile]
            target, pending = self.targets[profile], table.waiting
            self.remark("status", profile=profile, target=target, pending=pending, running=running, starting=starting)

    def remark_submitted(self, layout: Layout | None, anywhere: int, wished: Iterable[str]) -> None:
        """What the log says of new requests; their hosts stand in the order in which Spark walks the hints."""
        if not self.config.remarks:
            return
        if anywhere:
            self.remark("submitted anywhere", count=anywhere)
        if layout is None:
            return
        walked = tuple(wished)
        for count, hosts, _ in layout.groups():
            there = frozenset(hosts)
            names = [host for host in walked if host in there] if len(walked) <= SMALL else immutable_map_order(hosts)
            self.remark("submitted", hosts=",".join(names), count=count)


def _walked(targets: Iterable[ProfileId]) -> list[ProfileId]:
    """The profiles in the order in which Spark looks at them: that of a small mutable map, or of a large immutable one.

    Nothing that is decided depends on it (quirk 66).
    """
    codes = [(int(profile), profile) for profile in sorted(targets)]
    return bucket_order(codes) if len(codes) <= SMALL else trie_order(codes)
