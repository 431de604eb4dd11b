"""Containers from launch to end: files are fetched, the process comes up, speaks with the driver, listens to it, and dies.

A launch goes to the container's NodeManager, which accepts it (the launch has then succeeded) and begins: the application's
files first, once for each node, then the process, which registers with the driver when it is up. Deaths are drawn when a
container comes into a phase: those by share at once, those by rate compete, and what comes first happens.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.base.randomness import Stream, chance, draw, draw_active_ms, pick
from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.fakes.windows import SPARK_ASK_MS
from podtide.domain.fakes.words import DriverWord
from podtide.domain.fakes.yarn.container_endings import MANAGERS, end, exits
from podtide.domain.fakes.yarn.description import ContainerPhase, Death, LaunchFault
from podtide.domain.fakes.yarn.rows import ContainerRow, ContainerStage, LaunchRow, NodeState, YarnAgenda
from podtide.domain.fakes.yarn.tables import YarnTables
from podtide.domain.protocol.completions import PREEMPTED
from podtide.domain.protocol.executor_stimuli import RegisterExecutor
from podtide.domain.protocol.yarn_messages import LaunchEnded, LaunchExecutor

_LAUNCHES: Final = 3
_REFUSED_STATUS: Final = 1
_YARN_EXCEPTION: Final = "org.apache.hadoop.yarn.exceptions.YarnException"
_UNREACHABLE: Final = "java.net.NoRouteToHostException: No Route to Host from the application master to {host}"

# launching


def launch(tables: YarnTables, command: LaunchExecutor, now: Millis) -> None:
    """A launch is on its way to a NodeManager."""
    number = tables.launch_numbers.next()
    rng = tables.stream(_LAUNCHES, number)
    latency, rng = draw(rng, tables.plan.description.executors.launch)
    tables.launches.put(number, LaunchRow(command.executor, command.container, rng))
    tables.later(now + latency, YarnAgenda.LAUNCH, number)


def launched(tables: YarnTables, number: int, now: Millis) -> None:
    """A launch is at its NodeManager."""
    call = tables.launches.drop(number)
    assert call is not None
    row = tables.by_id(call.container)
    if row is None or row.ended:
        why = f"Unauthorized request to start container.\nContainer {call.container} was recently stopped on node manager."
        _refuse(tables, call, f"{_YARN_EXCEPTION}: {why}", now)
        return
    if tables.nodes[row.slot].state is NodeState.SILENT:
        host = tables.plan.nodes[row.slot].host
        _refuse(tables, call, _UNREACHABLE.format(host=host), now + tables.plan.description.executors.unreachable_ms)
        return
    if row.stage is not ContainerStage.ACQUIRED:
        _refuse(tables, call, f"{_YARN_EXCEPTION}: Container {call.container} already is running on this node!!", now)
        return
    fault = _launch_fault(tables, row, call.rng, now)
    if fault is not None:
        _refuse(tables, call, fault.what, now, fatal=fault.fatal)
        return
    tables.count("containers.launched")
    tables.cancel(row.timer)
    tables.say(LaunchEnded(now, call.executor, container=call.container))
    localize(tables, row._replace(timer=0, executor=str(call.executor)), now)


def _refuse(tables: YarnTables, call: LaunchRow, what: str, at: Millis, *, fatal: bool = False) -> None:
    tables.count("launches.failed")
    tables.say(LaunchEnded(at, call.executor, what, fatal, call.container))


def _launch_fault(tables: YarnTables, row: ContainerRow, rng: Stream, now: Millis) -> LaunchFault | None:
    """The first fault of the description that hits a launch."""
    description = tables.plan.description
    if not tables.faulty(now):
        return None
    group = description.nodes[tables.plan.nodes[row.slot].row].name
    for fault in description.executors.launch_faults:
        if (fault.groups and group not in fault.groups) or not fault.during.active(now - tables.began):
            continue
        hit, rng = chance(rng, fault.probability)
        if hit:
            return fault
    return None


# from stage to stage


def localize(tables: YarnTables, row: ContainerRow, now: Millis) -> None:
    """The NodeManager fetches the application's files, or has them, or is about to."""
    node, executors = tables.nodes[row.slot], tables.plan.description.executors
    if node.files_at < 0:
        wait, rng = draw(row.rng, executors.localize)
        tables.put_node(node._replace(files_at=now + wait))
    else:
        wait, rng = draw(row.rng, executors.localized)
        wait = max(wait, node.files_at - now)
    timer = tables.later(now + wait, YarnAgenda.STAGE, row.number)
    tables.put_container(row._replace(stage=ContainerStage.LOCALIZING, timer=timer, rng=rng))


def elapsed(tables: YarnTables, row: ContainerRow, now: Millis) -> None:
    """A stage has come to its end."""
    row = row._replace(timer=0)
    if row.fate is not None:
        _dies(tables, row, now)
        return
    match row.stage:
        case ContainerStage.LOCALIZING:
            wait, rng = draw(row.rng, tables.plan.description.executors.start)
            _enter(tables, row._replace(rng=rng), ContainerStage.STARTING, now, now + wait)
        case ContainerStage.STARTING:
            _register(tables, row, now)
        case ContainerStage.REGISTERED:
            pass
        case _:
            raise AssertionError(f"nothing comes after {row.stage}")


def _register(tables: YarnTables, row: ContainerRow, now: Millis) -> None:
    """The process is up and asks the driver."""
    host = tables.plan.nodes[row.slot].host
    row = row._replace(address=f"{host}:{32_768 + row.number % 28_000}")
    tables.say(RegisterExecutor(now + row.rpc_ms, ExecutorId(row.executor), row.profile, host, row.address))
    timer = tables.later(now + SPARK_ASK_MS, YarnAgenda.STAGE, row.number)
    tables.put_container(row._replace(stage=ContainerStage.REGISTERING, timer=timer, fate=1, text=""))


def _enter(tables: YarnTables, row: ContainerRow, stage: ContainerStage, now: Millis, until: Millis | None) -> None:
    """A phase begins: it lasts until then (None: for ever), or until a death that is drawn now."""
    phase = ContainerPhase.STARTING if stage is ContainerStage.STARTING else ContainerPhase.RUNNING
    at, fate, text, rng = _death(tables, row, phase, now)
    if at is None or (until is not None and at >= until):
        at, fate, text = until, None, ""
    timer = 0 if at is None else tables.later(at, YarnAgenda.STAGE, row.number)
    tables.put_container(row._replace(stage=stage, timer=timer, fate=fate, text=text, rng=rng))


def _death(
    tables: YarnTables, row: ContainerRow, phase: ContainerPhase, now: Millis
) -> tuple[Millis | None, int | None, str, Stream]:
    """When and how a container dies that comes into a phase: (None, None, ...) if it does not."""
    description, rng, since = tables.plan.description, row.rng, now - tables.began
    first: Millis | None = None
    chosen: Death | None = None
    group = description.nodes[tables.plan.nodes[row.slot].row].name
    for death in description.executors.deaths:
        if death.phase is not phase or not (death.share or death.per_hour) or not tables.faulty(now):
            continue
        if (death.profiles and row.profile not in death.profiles) or (death.groups and group not in death.groups):
            continue
        at: Millis | None = None
        if death.per_hour:
            wait, rng = draw_active_ms(rng, death.per_hour)
            after = death.during.after(since, max(1, wait))
            at = None if after is None else tables.began + after
        elif death.during.active(since):
            hit, rng = chance(rng, death.share)
            if hit:
                wait, rng = draw(rng, death.delay)
                at = now + wait
        if at is not None and tables.faulty(at) and (first is None or at < first):
            first, chosen = at, death
    if chosen is None:
        return None, None, "", rng
    which, rng = pick(rng, tuple(weight for _, weight in chosen.statuses))
    return first, chosen.statuses[which][0], chosen.diagnostics or "", rng


def _dies(tables: YarnTables, row: ContainerRow, now: Millis) -> None:
    """Its fate: the resource manager ends it, or its process ends."""
    status, text = row.fate, row.text
    assert status is not None
    tables.count(f"exits.{status}")
    if status in MANAGERS and not row.ended:
        if status == PREEMPTED:
            tables.count("containers.preempted")
        end(tables, row._replace(fate=None, text=""), status, text, now)
    else:
        exits(tables, row, status, text, now)


# the driver's words


def say_to(tables: YarnTables, executor: str, word: DriverWord, now: Millis) -> None:
    """A word of the driver's is on its way to an executor, if there is one that is heard from."""
    row = tables.containers.get(tables.speakers.get(executor, 0))
    if row is not None and row.address:
        tables.later(now + row.rpc_ms, YarnAgenda.HEAR, row.number, word)


def hear(tables: YarnTables, row: ContainerRow, word: DriverWord, now: Millis) -> None:
    """A word of the driver's reaches the executor; it listens to what makes sense to it."""
    executors = tables.plan.description.executors
    if word is DriverWord.ACCEPTED and row.stage is ContainerStage.REGISTERING:
        tables.count("executors.registered")
        tables.cancel(row.timer)
        _enter(tables, row._replace(timer=0, beats_since=now), ContainerStage.REGISTERED, now, None)
    elif word is DriverWord.REFUSED and row.stage is ContainerStage.REGISTERING:
        tables.count("executors.refused")
        wait, rng = draw(row.rng, executors.exit)
        _leaves(tables, row._replace(rng=rng), ContainerStage.EXITING, now + wait, _REFUSED_STATUS)
    elif word is DriverWord.STOP and row.stage in {ContainerStage.REGISTERED, ContainerStage.DRAINING}:
        wait, rng = draw(row.rng, executors.exit)
        row = row._replace(rng=rng, beats_since=-1)  # the driver does not miss it
        _leaves(tables, row, ContainerStage.EXITING, now + wait, 0)
    elif word is DriverWord.DECOMMISSION and row.stage is ContainerStage.REGISTERED:
        tables.count("executors.draining")
        wait, rng = draw(row.rng, executors.drain)
        _leaves(tables, row._replace(rng=rng), ContainerStage.DRAINING, now + wait, 0)


def _leaves(tables: YarnTables, row: ContainerRow, stage: ContainerStage, at: Millis, status: int) -> None:
    tables.cancel(row.timer)
    timer = tables.later(at, YarnAgenda.STAGE, row.number)
    tables.put_container(row._replace(stage=stage, timer=timer, fate=status, text=""))
