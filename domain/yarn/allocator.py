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
from dataclasses import replace
from typing import Final, assert_never

from pyrsistent import PMap, pmap

from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.jvm.exceptions import NO_SUCH_ELEMENT, SparkFault
from podtide.domain.jvm.hash_order import SMALL, bucket_order, immutable_map_order, trie_order
from podtide.domain.protocol import yarn_messages
from podtide.domain.protocol.cluster_config import NegotiationConfig
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.container_requests import Layout, RequestTable, Span, count_of, first_of
from podtide.domain.protocol.containers import ContainerSpec, one_label, resource_text
from podtide.domain.protocol.reasons import Cause, Fact, Threw, Why
from podtide.domain.yarn import allocate_response as response
from podtide.domain.yarn.allocator_state import ENDPOINT, NegotiationCommand, NegotiationTurn, YarnState
from podtide.domain.yarn.locality import Wish, place

INVALID_REQUEST: Final = "org.apache.hadoop.yarn.client.api.InvalidContainerRequestException"
TWO_LABELS: Final = "Cannot specify more than one node label in a single node label expression"


def begin(
    config: NegotiationConfig, now: Millis, *, last_id: int = 0, last_serial: int = 0
) -> Step[YarnState, NegotiationCommand]:
    """An allocator that was just made. ``last_id``: the driver's last executor id; a new master goes on from it.

    ``last_serial``: of the allocator before; the calls of this one are numbered on.
    """
    state = YarnState(
        specs=pmap({DEFAULT_PROFILE: config.containers}),
        targets=pmap({DEFAULT_PROFILE: config.executors_initial}),
        last_id=last_id,
        serial=last_serial,
    )
    with state.containers.step() as tables:
        turn = NegotiationTurn(state, config, now, tables)
        turn.refresh()
        turn.remark("profile added", profile=DEFAULT_PROFILE)
        return turn.step()


def negotiate(
    state: YarnState, snapshots: Sequence[yarn_messages.YarnInput], config: NegotiationConfig, now: Millis
) -> Step[YarnState, NegotiationCommand]:
    """Take what came, in order: targets, kills, questions, beats and what the resource manager answered."""
    with state.containers.step() as tables:
        turn = NegotiationTurn(state, config, now, tables)
        for item in snapshots:
            hear(turn, item)
        return turn.step()


def ending(state: YarnState) -> YarnState:
    """The application ends (setShutdown), which takes no lock: also while a round is under way."""
    return replace(state, ending=True)


def due(state: YarnState, config: NegotiationConfig) -> Millis:  # noqa: ARG001 - every machine is asked alike
    """Never: the reporter thread has the clock."""
    return NEVER


def missing(state: YarnState, profile: ProfileId) -> int:
    """How many containers of a profile a beat would ask for (less than 0: too many)."""
    running, starting, requests = state.containers.counts_of(profile)
    return state.targets.get(profile, 0) - running - starting - requests.waiting


def hear(turn: NegotiationTurn, item: yarn_messages.YarnInput) -> None:
    """Take it, or let it wait for the lock."""
    if isinstance(item, yarn_messages.ResourcesAnswered | yarn_messages.ResourcesRefused):
        if item.serial != turn.state.waiting:
            return  # a call of which nobody knows
        turn.state.waiting = None
        if isinstance(item, yarn_messages.ResourcesAnswered):
            response.answered(turn, item)
        else:
            turn.threw(item.what, fatal=item.fatal)
    elif isinstance(item, yarn_messages.LaunchEnded) and turn.state.rest is not None:
        if response.launch_ended(turn, item):
            rest, turn.state.rest = turn.state.rest, None
            response.run(turn, rest)
    elif turn.state.waiting is not None or turn.state.rest is not None:
        turn.state.later = turn.state.later.append(item)
        return
    else:
        take(turn, item)
    while turn.state.later and turn.state.waiting is None and turn.state.rest is None:
        item, turn.state.later = turn.state.later.left, turn.state.later.popleft()
        take(turn, item)


def take(turn: NegotiationTurn, item: yarn_messages.YarnInput) -> None:
    """Take one input; no round is under way."""
    match item:
        case yarn_messages.ProfilesDefined():
            define(turn, item.specs)
        case yarn_messages.ContainersWanted():
            want(turn, item)
        case yarn_messages.KillExecutors():
            for executor in item.executors:
                kill(turn, executor)
        case yarn_messages.LossReasonsAsked():
            for executor in item.executors:
                ask_loss(turn, executor)
        case yarn_messages.Beat():
            beat(turn)
        case yarn_messages.ContainersGiven():
            response.handle(turn, item.allocated, item.completed)
        case yarn_messages.LaunchEnded():
            response.launch_ended(turn, item)
        case yarn_messages.MasterEnding():
            turn.state.ending = True
        case yarn_messages.ResourcesAnswered() | yarn_messages.ResourcesRefused():
            pass  # taken as they come
        case _:
            assert_never(item)


# -------------------------------------------------------------------------------------------------- from the driver


def define(turn: NegotiationTurn, specs: Iterable[tuple[ProfileId, ContainerSpec]]) -> None:
    """Which containers a profile's executors need; the first word counts (createYarnResourceForResourceProfile)."""
    for profile, spec in specs:
        if profile not in turn.state.specs:
            turn.state.specs = turn.state.specs.set(profile, spec)


def want(turn: NegotiationTurn, item: yarn_messages.ContainersWanted) -> None:
    """requestTotalExecutorsWithPreferredLocalities."""
    turn.state.locality_tasks, turn.state.host_tasks = item.locality_tasks, item.host_tasks
    changed = not item.targets
    for profile in turn.state.targets if changed else ():
        turn.state.targets = turn.state.targets.set(profile, 0)
    if changed:
        turn.exclude(item.excluded)
    for profile, count in item.targets:
        if profile not in turn.state.specs:  # Spark's message brings it along; here somebody forgot to define it
            turn.reports.append(Threw(turn.now, ENDPOINT, f"{NO_SUCH_ELEMENT}: key not found: {profile}"))
            continue
        know(turn, profile)
        if profile not in turn.state.targets:
            turn.state.targets = turn.state.targets.set(profile, turn.config.executors_initial)
        if count != turn.state.targets[profile]:
            turn.remark("target", count=count, profile=profile)
            turn.state.targets = turn.state.targets.set(profile, count)
            turn.exclude(item.excluded)
            changed = True
    turn.say(yarn_messages.TargetsTaken(turn.now, item.serial, changed))


def know(turn: NegotiationTurn, profile: ProfileId) -> None:
    """The books of a profile that is named for the first time."""
    if profile in turn.tables.running_by:
        return
    turn.remark("profile added", profile=profile)
    turn.tables.running_by.put(profile, 0)
    turn.tables.requests.put(profile, RequestTable())


def kill(turn: NegotiationTurn, executor: ExecutorId) -> None:
    """killExecutor: one that is starting is not known yet."""
    container = turn.tables.container_of.get(executor)
    if container is None or container in turn.tables.released:
        turn.remark("kill unknown", executor=executor)
        return
    known = turn.tables.executor_of.get(container)
    if known is None:  # the resource manager gave this container twice, and it has completed once
        what = SparkFault(NO_SUCH_ELEMENT, f"key not found: {container}")
        turn.reports.append(Threw(turn.now, ENDPOINT, str(what)))
        return
    _, profile = known
    turn.release((container,), Why(Cause.KILLED, pmap({"executor": executor})))
    turn.tables.run_no_more(executor, profile)


def ask_loss(turn: NegotiationTurn, executor: ExecutorId) -> None:
    """enqueueGetLossReasonRequest."""
    why = Why(Cause.LOSS_ASKED, pmap({"asked": len(turn.tables.loss_asked), "stored": len(turn.tables.loss_stored)}))
    if executor in turn.tables.container_of:
        turn.tables.loss_asked.put(executor, turn.tables.loss_asked.get(executor, 0) + 1)
    elif executor in turn.tables.loss_stored:
        reason = turn.tables.loss_stored[executor]
        turn.tables.loss_stored.drop(executor)
        turn.say(yarn_messages.TellLossReason(turn.now, executor, reason, why))
    else:
        turn.remark("loss unknown", executor=executor)
        failure = f"Fail to find loss reason for non-existent executor {executor}"
        turn.say(yarn_messages.TellLossReason(turn.now, executor, None, why, failure))


# ------------------------------------------------------------------------------------------------------ heartbeats


def beat(turn: NegotiationTurn) -> None:
    """allocateResources, until the resource manager is asked."""
    profiles = _walked(turn.state.targets)
    for profile in profiles:
        if profile not in turn.tables.starting:
            turn.tables.starting.put(profile, 0)
        if profile not in turn.tables.running_by:
            turn.tables.running_by.put(profile, 0)
        remark_status(turn, profile)
    for profile in profiles:
        fault = update(turn, profile)
        if fault is not None:
            turn.threw(fault)
            return
    turn.state.serial += 1
    turn.state.waiting = turn.state.serial
    waiting = sum(table.waiting for table in turn.tables.requests.values())
    turn.say(
        yarn_messages.CallResourceManager(turn.now, turn.state.serial, Why(Cause.HEARTBEAT, pmap({"pending": waiting})))
    )


def update(turn: NegotiationTurn, profile: ProfileId) -> SparkFault | None:
    """updateResourceRequests, for one profile; a fault ends the heartbeat."""
    table = turn.tables.requests.get(profile, RequestTable())
    target, starting = turn.state.targets[profile], turn.tables.starting[profile]
    running = turn.tables.running_by[profile]
    short = target - table.waiting - running - starting
    facts: PMap[str, Fact] = pmap(
        {"target": target, "pending": table.waiting, "running": running, "starting": starting}
    )
    if short > 0:
        return ask(turn, profile, table, short, facts)
    if short < 0 and table.waiting:
        wished = turn.state.host_tasks.get(profile, {})
        count = min(table.waiting, -short)
        turn.remark("cancel", count=count, target=target)
        parts = table.split(wished.keys())
        near = tuple(Span(batch.first, batch.last) for batch in parts.local)
        spans = first_of((*parts.stale, *parts.anywhere, *near), count)
        turn.say(yarn_messages.CancelRequests(turn.now, profile, spans, Why(Cause.ABOVE_TARGET, facts)))
        turn.tables.requests.put(profile, table.without(spans))
    return None


def ask(
    turn: NegotiationTurn, profile: ProfileId, table: RequestTable, short: int, facts: PMap[str, Fact]
) -> SparkFault | None:
    """Ask for what is missing, and again for what is wanted elsewhere by now."""
    spec = turn.state.specs[profile]
    cores, memory = spec.resource.vcores, spec.resource.memory_mib
    resource = resource_text(spec.resource)
    turn.remark("request", count=short, profile=profile, cores=cores, memory=memory, resource=resource)
    wished = turn.state.host_tasks.get(profile, {})
    parts = table.split(wished.keys())
    stale = count_of(parts.stale)
    if stale:
        turn.remark("cancel stale", count=stale)
        turn.say(yarn_messages.CancelRequests(turn.now, profile, parts.stale, Why(Cause.LOCALITY, facts)))
        table = table.without(parts.stale)
    turn.tables.hosted.add(profile)
    available = short + stale
    potential = available + count_of(parts.anywhere)
    counts = turn.tables.host_counts
    wish = Wish(turn.state.locality_tasks.get(profile, 0), wished, spec.tasks)
    placed = place(potential, wish, lambda host: counts.get((profile, host), 0), parts.local, turn.rack)
    localized = 0 if placed.layout is None else placed.layout.size
    if localized > available:
        spans = first_of(parts.anywhere, localized - available)
        turn.say(yarn_messages.CancelRequests(turn.now, profile, spans, Why(Cause.LOCALITY, facts)))
        turn.remark("cancel anywhere", count=localized - available)
        table = table.without(spans)
    label = turn.config.label
    if label is not None and not one_label(label):
        turn.tables.requests.put(profile, table)
        return SparkFault(INVALID_REQUEST, TWO_LABELS)
    anywhere = max(0, available - localized)
    reason = Why(Cause.BELOW_TARGET, facts.set("missing", short).set("localized", localized))
    first = table.made + 1
    turn.say(
        yarn_messages.RequestContainers(turn.now, profile, first, placed.layout, anywhere, spec.resource, label, reason)
    )
    remark_submitted(turn, placed.layout, anywhere, wished)
    turn.tables.requests.put(profile, table.added(placed.layout, anywhere))
    return None


def remark_status(turn: NegotiationTurn, profile: ProfileId) -> None:
    """What the log says of a profile before its requests are brought up to date."""
    if turn.config.remarks:
        table = turn.tables.requests.get(profile, RequestTable())
        running, starting = turn.tables.running_by[profile], turn.tables.starting[profile]
        target, pending = turn.state.targets[profile], table.waiting
        turn.remark("status", profile=profile, target=target, pending=pending, running=running, starting=starting)


def remark_submitted(turn: NegotiationTurn, layout: Layout | None, anywhere: int, wished: Iterable[str]) -> None:
    """What the log says of new requests; their hosts stand in the order in which Spark walks the hints."""
    if not turn.config.remarks:
        return
    if anywhere:
        turn.remark("submitted anywhere", count=anywhere)
    if layout is None:
        return
    walked = tuple(wished)
    for count, hosts, _ in layout.groups():
        there = frozenset(hosts)
        names = [host for host in walked if host in there] if len(walked) <= SMALL else immutable_map_order(hosts)
        turn.remark("submitted", hosts=",".join(names), count=count)


def _walked(targets: Iterable[ProfileId]) -> list[ProfileId]:
    """The profiles in the order in which Spark looks at them: that of a small mutable map, or of a large immutable one.

    Nothing that is decided depends on it (quirk 66).
    """
    codes = [(int(profile), profile) for profile in sorted(targets)]
    return bucket_order(codes) if len(codes) <= SMALL else trie_order(codes)
