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
from podtide.domain.fakes.yarn.books import Books
from podtide.domain.fakes.yarn.container_endings import MANAGERS, end, exits
from podtide.domain.fakes.yarn.description import Death, LaunchFault, Phase
from podtide.domain.fakes.yarn.rows import ContainerRow, Kind, LaunchRow, NodeState, Stage, Word
from podtide.domain.protocol.completions import PREEMPTED
from podtide.domain.protocol.pod_stimuli import RegisterExecutor
from podtide.domain.protocol.yarn_messages import LaunchEnded, LaunchExecutor

_LAUNCHES: Final = 3
_REFUSED_STATUS: Final = 1
_YARN_EXCEPTION: Final = "org.apache.hadoop.yarn.exceptions.YarnException"
_UNREACHABLE: Final = "java.net.NoRouteToHostException: No Route to Host from the application master to {host}"

# launching


def launch(books: Books, command: LaunchExecutor, now: Millis) -> None:
    """A launch is on its way to a NodeManager."""
    number = books.next("launches")
    rng = books.stream(_LAUNCHES, number)
    latency, rng = draw(rng, books.plan.description.executors.launch)
    books.launches.put(number, LaunchRow(command.executor, command.container, rng))
    books.later(now + latency, Kind.LAUNCH, number)


def launched(books: Books, number: int, now: Millis) -> None:
    """A launch is at its NodeManager."""
    call = books.launches.drop(number)
    assert call is not None
    row = books.by_id(call.container)
    if row is None or row.ended:
        why = f"Unauthorized request to start container.\nContainer {call.container} was recently stopped on node manager."
        _refuse(books, call, f"{_YARN_EXCEPTION}: {why}", now)
        return
    if books.nodes.rows[row.slot].state is NodeState.SILENT:
        host = books.plan.nodes[row.slot].host
        _refuse(books, call, _UNREACHABLE.format(host=host), now + books.plan.description.executors.unreachable_ms)
        return
    if row.stage is not Stage.ACQUIRED:
        _refuse(books, call, f"{_YARN_EXCEPTION}: Container {call.container} already is running on this node!!", now)
        return
    fault = _launch_fault(books, row, call.rng, now)
    if fault is not None:
        _refuse(books, call, fault.what, now, fatal=fault.fatal)
        return
    books.count("containers.launched")
    books.cancel(row.timer)
    books.say(LaunchEnded(now, call.executor, container=call.container))
    localize(books, row._replace(timer=0, executor=str(call.executor)), now)


def _refuse(books: Books, call: LaunchRow, what: str, at: Millis, *, fatal: bool = False) -> None:
    books.count("launches.failed")
    books.say(LaunchEnded(at, call.executor, what, fatal, call.container))


def _launch_fault(books: Books, row: ContainerRow, rng: Stream, now: Millis) -> LaunchFault | None:
    """The first fault of the description that hits a launch."""
    description = books.plan.description
    if not books.faulty(now):
        return None
    group = description.nodes[books.plan.nodes[row.slot].row].name
    for fault in description.executors.launch_faults:
        if (fault.groups and group not in fault.groups) or not fault.during.active(now - books.began):
            continue
        hit, rng = chance(rng, fault.probability)
        if hit:
            return fault
    return None


# from stage to stage


def localize(books: Books, row: ContainerRow, now: Millis) -> None:
    """The NodeManager fetches the application's files, or has them, or is about to."""
    node, executors = books.nodes.rows[row.slot], books.plan.description.executors
    if node.files_at < 0:
        wait, rng = draw(row.rng, executors.localize)
        books.put_node(node._replace(files_at=now + wait))
    else:
        wait, rng = draw(row.rng, executors.localized)
        wait = max(wait, node.files_at - now)
    timer = books.later(now + wait, Kind.STAGE, row.number)
    books.put_container(row._replace(stage=Stage.LOCALIZING, timer=timer, rng=rng))


def elapsed(books: Books, row: ContainerRow, now: Millis) -> None:
    """A stage has come to its end."""
    row = row._replace(timer=0)
    if row.fate is not None:
        _dies(books, row, now)
        return
    match row.stage:
        case Stage.LOCALIZING:
            wait, rng = draw(row.rng, books.plan.description.executors.start)
            _enter(books, row._replace(rng=rng), Stage.STARTING, now, now + wait)
        case Stage.STARTING:
            _register(books, row, now)
        case Stage.REGISTERED:
            pass
        case _:
            raise AssertionError(f"nothing comes after {row.stage}")


def _register(books: Books, row: ContainerRow, now: Millis) -> None:
    """The process is up and asks the driver."""
    host = books.plan.nodes[row.slot].host
    row = row._replace(address=f"{host}:{32_768 + row.number % 28_000}")
    books.say(RegisterExecutor(now + row.rpc_ms, ExecutorId(row.executor), row.profile, host, row.address))
    timer = books.later(now + SPARK_ASK_MS, Kind.STAGE, row.number)
    books.put_container(row._replace(stage=Stage.REGISTERING, timer=timer, fate=1, text=""))


def _enter(books: Books, row: ContainerRow, stage: Stage, now: Millis, until: Millis | None) -> None:
    """A phase begins: it lasts until then (None: for ever), or until a death that is drawn now."""
    phase = Phase.STARTING if stage is Stage.STARTING else Phase.RUNNING
    at, fate, text, rng = _death(books, row, phase, now)
    if at is None or (until is not None and at >= until):
        at, fate, text = until, None, ""
    timer = 0 if at is None else books.later(at, Kind.STAGE, row.number)
    books.put_container(row._replace(stage=stage, timer=timer, fate=fate, text=text, rng=rng))


def _death(books: Books, row: ContainerRow, phase: Phase, now: Millis) -> tuple[Millis | None, int | None, str, Stream]:
    """When and how a container dies that comes into a phase: (None, None, ...) if it does not."""
    description, rng, since = books.plan.description, row.rng, now - books.began
    first: Millis | None = None
    chosen: Death | None = None
    group = description.nodes[books.plan.nodes[row.slot].row].name
    for death in description.executors.deaths:
        if death.phase is not phase or not (death.share or death.per_hour) or not books.faulty(now):
            continue
        if (death.profiles and row.profile not in death.profiles) or (death.groups and group not in death.groups):
            continue
        at: Millis | None = None
        if death.per_hour:
            wait, rng = draw_active_ms(rng, death.per_hour)
            after = death.during.after(since, max(1, wait))
            at = None if after is None else books.began + after
        elif death.during.active(since):
            hit, rng = chance(rng, death.share)
            if hit:
                wait, rng = draw(rng, death.delay)
                at = now + wait
        if at is not None and books.faulty(at) and (first is None or at < first):
            first, chosen = at, death
    if chosen is None:
        return None, None, "", rng
    which, rng = pick(rng, tuple(weight for _, weight in chosen.statuses))
    return first, chosen.statuses[which][0], chosen.diagnostics or "", rng


def _dies(books: Books, row: ContainerRow, now: Millis) -> None:
    """Its fate: the resource manager ends it, or its process ends."""
    status, text = row.fate, row.text
    assert status is not None
    books.count(f"exits.{status}")
    if status in MANAGERS and not row.ended:
        if status == PREEMPTED:
            books.count("containers.preempted")
        end(books, row._replace(fate=None, text=""), status, text, now)
    else:
        exits(books, row, status, text, now)


# the driver's words


def say_to(books: Books, executor: str, word: Word, now: Millis) -> None:
    """A word of the driver's is on its way to an executor, if there is one that is heard from."""
    row = books.containers.rows.get(books.speakers.get(executor, 0))
    if row is not None and row.address:
        books.later(now + row.rpc_ms, Kind.HEAR, row.number, word)


def hear(books: Books, row: ContainerRow, word: Word, now: Millis) -> None:
    """A word of the driver's reaches the executor; it listens to what makes sense to it."""
    executors = books.plan.description.executors
    if word is Word.ACCEPTED and row.stage is Stage.REGISTERING:
        books.count("executors.registered")
        books.cancel(row.timer)
        _enter(books, row._replace(timer=0), Stage.REGISTERED, now, None)
    elif word is Word.REFUSED and row.stage is Stage.REGISTERING:
        books.count("executors.refused")
        wait, rng = draw(row.rng, executors.exit)
        _leaves(books, row._replace(rng=rng), Stage.EXITING, now + wait, _REFUSED_STATUS)
    elif word is Word.STOP and row.stage in {Stage.REGISTERED, Stage.DRAINING}:
        wait, rng = draw(row.rng, executors.exit)
        _leaves(books, row._replace(rng=rng), Stage.EXITING, now + wait, 0)
    elif word is Word.DECOMMISSION and row.stage is Stage.REGISTERED:
        books.count("executors.draining")
        wait, rng = draw(row.rng, executors.drain)
        _leaves(books, row._replace(rng=rng), Stage.DRAINING, now + wait, 0)


def _leaves(books: Books, row: ContainerRow, stage: Stage, at: Millis, status: int) -> None:
    books.cancel(row.timer)
    timer = books.later(at, Kind.STAGE, row.number)
    books.put_container(row._replace(stage=stage, timer=timer, fate=status, text=""))
