"""How containers end: by themselves, released, preempted, expired, or with the node under them.

There are two sides to it. A process that ends by itself is seen by its NodeManager, which tells the resource manager
with its next heartbeat: only then is the room free and the application's next call answered with the completion. What
the resource manager ends (a release, a preemption, an expired container, a lost node) is over for it at once; the
process hears of it at the node's next heartbeat, and may register with the driver in between. Every container has one
life and one completion, and is forgotten when both sides are over.

The exit statuses and diagnostics are YARN's. Source: ContainerExitStatus, SchedulerUtils and RMContainerImpl of Hadoop 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from podtide.domain.base.randomness import split, unit
from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.fakes.heartbeats import last_heartbeat
from podtide.domain.fakes.words import FINISHED
from podtide.domain.fakes.yarn.capacity_scheduler import CONTAINERS, above, limit
from podtide.domain.fakes.yarn.rows import PROCESS, ContainerRow, ContainerStage, NodeState, YarnAgenda
from podtide.domain.fakes.yarn.tables import YarnTables
from podtide.domain.protocol.completions import PREEMPTED
from podtide.domain.protocol.containers import Completion
from podtide.domain.protocol.executor_stimuli import ExecutorDisconnected, ExecutorExiting, HeartbeatsStopped

_BEATS: Final = 7
ABORTED: Final = -100
MANAGERS: Final = frozenset({ABORTED, PREEMPTED, -105, -106, -107})
"""The exit statuses that the resource manager gives; all others come from NodeManagers."""

RELEASED: Final = "Container released by application"
EXPIRED: Final = "Container expired since it was unused"
LOST: Final = "Container released on a *lost* node"
_PREEMPTED: Final = "Container preempted by scheduler"
_DISKS: Final = "Container killed because of bad disks on the node."
_BYTES: Final = 2**20


def diagnostics(row: ContainerRow, status: int) -> str:
    """What YARN says of a container that ended with this status."""
    match status:
        case 0:
            return ""
        case -100:
            return LOST
        case -101:
            return _DISKS
        case -102:
            return _PREEMPTED
        case -103:
            return _beyond(row, "VIRTUAL", physical=False)
        case -104:
            return _beyond(row, "PHYSICAL", physical=True)
        case _:
            return f"Exception from container-launch.\nContainer id: {row.id}\nExit code: {status}\n"


def _beyond(row: ContainerRow, which: str, *, physical: bool) -> str:
    """ContainersMonitorImpl's words for a container that takes more memory than it may."""
    memory = row.resource.memory_mib
    allowed = memory if physical else memory * 21 // 10  # yarn.nodemanager.vmem-pmem-ratio
    over = max(1, allowed // 64)
    used = f"{_shown(memory + over if physical else memory)} of {_shown(memory)} physical memory used"
    virtual = (
        f"{_shown(allowed + over if not physical else memory * 2)} of {_shown(memory * 21 // 10)} virtual memory used"
    )
    return (
        f"Container [pid={10_000 + row.number % 50_000},containerID={row.id}] is running {over * _BYTES}B beyond the "
        f"'{which}' memory limit. Current usage: {used}; {virtual}. Killing container."
    )


def _shown(mib: int) -> str:
    """As TraditionalBinaryPrefix does, with one digit behind the point."""
    if mib < 1_024:
        return f"{mib} MB"
    tenths = (mib * 10 + 512) // 1_024
    return f"{tenths // 10}.{tenths % 10} GB"


# the process


def fall_silent(tables: YarnTables, row: ContainerRow, now: Millis) -> ContainerRow:
    """The process sends no heartbeat any more; the driver is told when it heard the last one."""
    if row.beats_since < 0:
        return row
    share, _ = unit(split(tables.stream(CONTAINERS, row.number), _BEATS))
    last = last_heartbeat(row.beats_since, now, tables.plan.heartbeat_ms, share)
    tables.say(HeartbeatsStopped(now + row.rpc_ms, ExecutorId(row.executor), last + row.rpc_ms))
    return row._replace(beats_since=-1)


def disconnect(tables: YarnTables, row: ContainerRow, now: Millis, after_ms: Millis = 0) -> ContainerRow:
    """The connection to the driver is lost; the driver sees it when it does."""
    row = fall_silent(tables, row, now)
    if not row.address:
        return row
    tables.say(ExecutorDisconnected(now + row.rpc_ms + after_ms, row.address))
    return row._replace(address="")


def exits(tables: YarnTables, row: ContainerRow, status: int, text: str, now: Millis) -> None:
    """The process has ended by itself: its NodeManager will say so."""
    tables.cancel(row.timer)
    if row.stage < ContainerStage.REGISTERED:
        tables.count("executors.never registered")
    if row.stage is ContainerStage.DRAINING and not status:
        tables.say(ExecutorExiting(now + row.rpc_ms, ExecutorId(row.executor), FINISHED))
        row = row._replace(beats_since=-1)
    row = disconnect(tables, row, now)
    if row.ended:
        tables.put_container(row._replace(timer=0))
        tables.drop_container(row)
        return
    timer = tables.later(tables.beat_after(row.slot, now), YarnAgenda.REPORT, row.number)
    tables.put_container(row._replace(stage=ContainerStage.OVER, timer=timer, fate=status, text=text))


def reported(tables: YarnTables, row: ContainerRow, now: Millis) -> None:
    """The NodeManager tells the resource manager that a container has ended."""
    status = 0 if row.fate is None else row.fate
    end(tables, row._replace(timer=0), status, row.text, now)


def killed(tables: YarnTables, row: ContainerRow, now: Millis) -> None:
    """The NodeManager hears that a container is over, and ends its process."""
    row = disconnect(tables, row, now)
    tables.put_container(row)
    tables.drop_container(row)


# the resource manager


def end(tables: YarnTables, row: ContainerRow, status: int, text: str, now: Millis, *, in_answer: bool = True) -> None:
    """A container is over for the resource manager. ``in_answer``: the answer to the application's next call says so."""
    if row.ended:
        return
    node = tables.nodes[row.slot]
    if node.state is not NodeState.ABSENT:
        tables.put_node(node._replace(room=node.room.plus(row.resource)))
    tables.fresh.drop(row.number)
    tables.count(f"completed.{status}")
    if in_answer:
        tables.done.put(tables.completion_numbers.next(), Completion(row.id, status, text or diagnostics(row, status)))
    if row.stage is ContainerStage.ACQUIRED:
        tables.cancel(row.timer)
        row = row._replace(timer=0)
    row = row._replace(ended=True)
    tables.put_container(row)
    if row.stage in PROCESS:
        tables.later(tables.beat_after(row.slot, now), YarnAgenda.KILL, row.number)
    else:
        tables.drop_container(row)
    if node.state is NodeState.DECOMMISSIONING and all(one.ended for one in tables.here(row.slot)):
        tables.later(tables.beat_after(row.slot, now), YarnAgenda.OUT, row.slot, node.lives)
    tables.stir()


def released(tables: YarnTables, number: int, now: Millis) -> None:
    """The application gives a container back."""
    row = tables.containers.get(number)
    if row is not None and not row.ended:
        tables.count("containers.released")
        end(tables, row, ABORTED, RELEASED, now)


def expired(tables: YarnTables, row: ContainerRow, now: Millis) -> None:
    """Nobody launched anything in it."""
    tables.count("containers.expired")
    end(tables, row._replace(timer=0), ABORTED, EXPIRED, now)


def press(tables: YarnTables, now: Millis) -> None:
    """If the application has more than it may have by now, some of it will be taken back."""
    queue = tables.plan.description.queue
    if queue.preempts and not tables.preempt_timer and above(tables, now):
        tables.preempt_timer = tables.later(now + queue.wait_ms, YarnAgenda.PREEMPT)


def preempt(tables: YarnTables, now: Millis) -> None:
    """Take back what is above, a part of it at a time: of the highest priority number, the youngest first."""
    tables.preempt_timer = 0
    if not above(tables, now):
        return
    queue = tables.plan.description.queue
    memory, cores = limit(tables, now)
    over_mib, over_cores = tables.used_mib - memory, tables.used_vcores - cores
    most_mib = int(queue.share * max(memory, tables.used_mib))
    most_cores = int(queue.share * max(cores, tables.used_vcores))
    dominant = tables.plan.description.manager.dominant
    chosen: list[ContainerRow] = []
    for row in _victims(tables):
        if over_mib <= 0 and (over_cores <= 0 or not dominant):
            break
        most_mib -= row.resource.memory_mib
        most_cores -= row.resource.vcores
        if chosen and (most_mib < 0 or (dominant and most_cores < 0)):
            break
        chosen.append(row)
        over_mib -= row.resource.memory_mib
        over_cores -= row.resource.vcores
    for row in chosen:
        tables.count("containers.preempted")
        end(tables, row, PREEMPTED, _PREEMPTED, now)
    if above(tables, now):
        tables.preempt_timer = tables.later(now + queue.round_ms, YarnAgenda.PREEMPT)


def _victims(tables: YarnTables) -> Iterator[ContainerRow]:
    rows = tables.containers
    for profile in sorted(tables.held, reverse=True):
        for number in reversed(tables.held[profile]):
            yield rows[number]


def give_up(tables: YarnTables, slot: int, now: Millis) -> None:
    """The resource manager gives up a node: whatever it had there is over."""
    for row in tables.here(slot):
        end(tables, row, ABORTED, LOST, now)


def vanish(tables: YarnTables, slot: int, now: Millis, after_ms: Millis = 0) -> None:
    """Everything that runs on a node is gone at once; the driver sees it ``after_ms`` later.

    If the resource manager does not know it yet, it is not told either: a crashed machine reports nothing.
    """
    for row in tables.here(slot):
        if row.stage in PROCESS or row.stage is ContainerStage.OVER:
            tables.cancel(row.timer)
            gone = disconnect(tables, row, now, after_ms)._replace(timer=0, stage=ContainerStage.OVER)
            tables.put_container(gone)
            if gone.ended:
                tables.drop_container(gone)
