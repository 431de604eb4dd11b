"""What the resource manager's answer brings: containers to match, launch and release, and completions to judge.

Matching goes in three passes, each through all containers that are left; a fault in any of them, or a container that is too
small, ends the answer where it stands. Where launches are awaited the answer stands still at each.
``allocator`` hands its turn to everything here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from pyrsistent import pmap

from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, ProfileId
from podtide.domain.jvm.exceptions import ASSERTION_ERROR, ILLEGAL_ARGUMENT, SparkFault
from podtide.domain.machine.holds import held
from podtide.domain.protocol import yarn_messages
from podtide.domain.protocol.completions import judge
from podtide.domain.protocol.container_requests import Matching
from podtide.domain.protocol.containers import (
    ANY_HOST,
    DECOMMISSIONING,
    Completion,
    Container,
    ContainerId,
    resource_text,
)
from podtide.domain.protocol.executor_commands import ExitReason, RemoveExecutor
from podtide.domain.protocol.reasons import Bound, Cause, Fact, Threw, Why
from podtide.domain.yarn import allocator_state

# ----------------------------------------------------------------------------------------- what the answer brings


def answered(turn: allocator_state.NegotiationTurn, item: yarn_messages.ResourcesAnswered) -> None:
    """allocateResources, from the resource manager's answer on."""
    turn.state.health = replace(turn.state.health, nodes=item.nodes)
    if turn.config.decommission:
        known = frozenset(turn.state.decommissioning)
        for node in item.updated:
            if node.state == DECOMMISSIONING and node.host not in known:
                decommission(turn, node.host)
    if item.allocated:
        remark_allocated(turn, item)
    handle(turn, item.allocated, item.completed)
    hold(turn)


def remark_allocated(turn: allocator_state.NegotiationTurn, item: yarn_messages.ResourcesAnswered) -> None:
    """What the log says of containers that were given."""
    if turn.config.remarks:
        running, starting = len(turn.tables.running), sum(turn.tables.starting.values())
        room = "null" if item.available is None else resource_text(item.available)
        turn.remark("allocated", count=len(item.allocated), running=running, starting=starting, room=room)


def decommission(turn: allocator_state.NegotiationTurn, host: str) -> None:
    """Tell the driver, and remember it; a host twice in one answer is told twice."""
    turn.say(yarn_messages.DecommissionHost(turn.now, host, Why(Cause.NODE_DECOMMISSIONING, pmap({"host": host}))))
    if host not in turn.state.decommissioning:
        turn.state.decommissioning = (*turn.state.decommissioning, host)[-allocator_state.DECOMMISSIONS_MAX :]


def hold(turn: allocator_state.NegotiationTurn) -> None:
    """Report what the resource manager has not given: when that begins, changes and ends."""
    for profile, table in sorted(turn.tables.requests.items()):
        before = turn.state.held.get(profile, 0)
        if before == table.waiting:
            continue
        rows = turn.state.held
        turn.state.held = rows.set(profile, table.waiting) if table.waiting else rows.discard(profile)
        facts = pmap({"pending": table.waiting, "target": turn.state.targets.get(profile, 0)})
        key = (profile, Bound.RESOURCE_MANAGER)
        turn.reports.append(held(turn.now, key, facts, before=bool(before), after=bool(table.waiting)))


def handle(
    turn: allocator_state.NegotiationTurn, allocated: tuple[Container, ...], completed: tuple[Completion, ...]
) -> None:
    """handleAllocatedContainers, then processCompletedContainers."""
    if allocated:
        used, left, fault = match(turn, allocated)
        if fault is not None:
            turn.threw(fault)
            return
        if left:
            turn.remark("unneeded", count=len(left))
            surplus = Why(Cause.SURPLUS, pmap({"received": len(allocated), "used": len(used)}))
            turn.release(left, surplus)
        run(turn, allocator_state.AnswerRest(tuple(used), completed, 0, len(allocated)))
    else:
        complete(turn, completed)


def match(
    turn: allocator_state.NegotiationTurn, allocated: tuple[Container, ...]
) -> tuple[list[Container], list[ContainerId], SparkFault | None]:
    """Which containers answer a request, in the order of matching; which are left; what went wrong."""
    used: list[Container] = []
    left: Sequence[Container] = allocated
    matches: list[tuple[ProfileId, yarn_messages.Match]] = []
    fault: SparkFault | None = None
    requests: dict[ProfileId, Matching] = {}
    for location_of in (lambda one: one.host, lambda one: turn.rack(one.host), None):
        left, fault = match_at(turn, location_of, left, requests, used, matches)
        if fault is not None:
            break
    for profile, matching in requests.items():
        turn.tables.requests.put(profile, matching.table())
    begun = 0
    for end, (profile, _) in enumerate(matches, start=1):
        if end == len(matches) or matches[end][0] != profile:
            taken = tuple(match for _, match in matches[begun:end])
            why = Why(Cause.MATCHED, pmap({"received": len(allocated), "pending": requests[profile].waiting}))
            turn.say(yarn_messages.TakeRequests(turn.now, profile, taken, why))
            begun = end
    return used, [one.id for one in left], fault


def match_at(
    turn: allocator_state.NegotiationTurn,
    location_of: Callable[[Container], str] | None,
    containers: Iterable[Container],
    requests: dict[ProfileId, Matching],
    used: list[Container],
    matches: list[tuple[ProfileId, yarn_messages.Match]],
) -> tuple[list[Container], SparkFault | None]:
    """One pass: who takes the oldest request listed where it is (None: anywhere); the others are left."""
    left: list[Container] = []
    for container in containers:
        profile = container.profile
        matching = requests.get(profile)
        if matching is None:
            if profile not in turn.tables.requests:
                return left, SparkFault(ILLEGAL_ARGUMENT, "The Resource to be requested should not be null ")
            matching = requests[profile] = Matching(turn.tables.requests[profile])
        if location_of is None:
            location = ANY_HOST
        elif matching.localized:
            location = location_of(container)
        else:
            left.append(container)
            continue
        number = matching.take(location)
        if number is None:
            left.append(container)
            continue
        matches.append((profile, yarn_messages.Match(container.id, number, location)))
        used.append(container)
    return left, None


def run(turn: allocator_state.NegotiationTurn, rest: allocator_state.AnswerRest) -> None:
    """runAllocatedContainers; where launches are awaited it stands still after each."""
    state, tables, launched = turn.state, turn.tables, rest.launched
    whys: dict[ProfileId, Why] = {}  # what runs does not change here: a launch has to end first
    for number, container in enumerate(rest.containers, start=1):
        profile = container.profile
        spec = state.specs[profile]
        state.last_id += 1
        executor = ExecutorId(str(state.last_id))
        if container.resource.memory_mib < spec.resource.memory_mib:
            turn.threw(SparkFault(ASSERTION_ERROR, "assertion failed"))
            return
        if turn.config.remarks:
            turn.remark("launching", container=container.id, host=container.host, executor=executor, profile=profile)
        launched += 1
        why = whys.get(profile)
        if why is None:
            running, target = tables.running_by[profile], state.targets[profile]
            cause = Cause.ABOVE_TARGET if running >= target else Cause.BELOW_TARGET
            why = whys[profile] = Why(cause, pmap({"running": running, "target": target}))
        if why.cause is Cause.ABOVE_TARGET:
            turn.remark("skip", running=why.facts["running"], target=why.facts["target"])
            turn.release((container.id,), why)
            continue
        tables.starting.put(profile, tables.starting.get(profile, 0) + 1)
        tables.launching.add(container.id)
        tables.launches.put(executor, allocator_state.Launch(container.id, container.host, profile))
        turn.say(
            yarn_messages.LaunchExecutor(
                turn.now, executor, container.id, container.host, profile, spec.heap_mib, spec.cores, why
            )
        )
        if turn.config.launches_awaited:
            state.rest = rest._replace(containers=rest.containers[number:], launched=launched)
            return
    turn.remark("received", received=rest.received, launched=launched)
    complete(turn, rest.completed)


def launch_ended(turn: allocator_state.NegotiationTurn, item: yarn_messages.LaunchEnded) -> bool:
    """updateInternalState, or what happens when a launch throws; False for a launch that is not under way here: one of
    which nobody knows, or one of the master before.
    """
    tables = turn.tables
    launch = tables.launches.get(item.executor)
    if launch is None or item.container not in (None, launch.container):
        return False
    executor, (container, host, profile) = item.executor, launch
    tables.launches.drop(executor)
    tables.starting.put(profile, tables.starting.get(profile, 0) - 1)
    alive = container in tables.launching
    tables.launching.discard(container)
    if item.failure is not None:
        if item.fatal:
            turn.reports.append(Threw(turn.now, allocator_state.LAUNCHER, item.failure, fatal=True))
            return True
        turn.remark("launch failed", executor=executor, container=container, what=item.failure)
        why = Why(Cause.LAUNCH_FAILED, pmap({"what": item.failure}))
        turn.say(yarn_messages.ReleaseContainers(turn.now, (container,), why))
    elif alive:
        tables.run(executor, profile)
        tables.container_of.put(executor, container)
        tables.executor_of.put(container, (executor, profile))
        tables.place(container, host, profile)
    return True


# ------------------------------------------------------------------------------------------------------ completions


def complete(turn: allocator_state.NegotiationTurn, completed: Iterable[Completion]) -> None:
    """processCompletedContainers."""
    for one in completed:
        end(turn, one)


def end(turn: allocator_state.NegotiationTurn, one: Completion) -> None:
    """One container is over."""
    state, tables, container = turn.state, turn.tables, one.container
    tables.launching.discard(container)
    known = tables.executor_of.get(container)
    released = container in tables.released
    tables.released.discard(container)
    host = tables.host_of.get(container)
    reason = exit_reason(turn, one, host, known, released=released)
    if host is not None:
        tables.forget(container, host, DEFAULT_PROFILE if known is None else known[1])
    if known is None:
        return
    executor, _ = known
    tables.executor_of.drop(container)
    tables.container_of.drop(executor)
    facts: dict[str, Fact] = {"container": container, "host": host, "status": one.status, "released": int(released)}
    why = Why(Cause.CONTAINER_COMPLETED, facts)  # one for each container: a pmap would be most of the cost
    count = tables.loss_asked.get(executor, 0)
    if count:
        tables.loss_asked.drop(executor)
        for _ in range(count):
            turn.say(yarn_messages.TellLossReason(turn.now, executor, reason, why))
    else:
        tables.loss_stored.put(executor, reason)
    if not released:
        state.unexpected += 1
        turn.say(RemoveExecutor(turn.now, executor, reason, why))


def exit_reason(
    turn: allocator_state.NegotiationTurn,
    one: Completion,
    host: str | None,
    known: tuple[ExecutorId, ProfileId] | None,
    *,
    released: bool,
) -> ExitReason:
    """Why it ended; a failure is counted on the way."""
    if released:
        text = f"Container {one.container} exited from explicit termination request."
        return ExitReason(allocator_state.EXECUTOR_EXITED, text, one.status, False)
    if known is None:
        turn.remark("no executor", container=one.container)
    else:
        executor, profile = known
        turn.tables.run_no_more(executor, profile)
    turn.remark("completed", container=one.container, host=host, status=one.status)
    verdict = judge(one.container, host, one.status, one.diagnostics, ending=turn.state.ending)
    if verdict.counted:
        before = turn.state.health.own
        turn.state.health, difference = turn.state.health.failed(host, turn.config.exclusion, turn.now)
        if host is not None and turn.state.health.own is not before:
            turn.remark("excluding", allocator_state.TRACKER, host=host, count=turn.state.health.by_host[host].count)
        turn.tell(difference)
    turn.remark("blamed" if verdict.blamed else "not blamed", text=verdict.text)
    return ExitReason(allocator_state.EXECUTOR_EXITED, verdict.text, one.status, verdict.blamed)
