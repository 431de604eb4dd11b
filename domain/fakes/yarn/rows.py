"""What the tables of a YARN cluster hold: immutable rows, replaced whenever something changes."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from pyrsistent import PMap, pmap

from podtide.domain.base.randomness import Stream
from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.protocol import yarn_messages
from podtide.domain.protocol.container_requests import Layout, RequestTable
from podtide.domain.protocol.containers import ContainerId, Resource
from podtide.domain.protocol.executor_commands import AnswerRegistration, DecommissionExecutors
from podtide.domain.protocol.executor_stimuli import (
    ExecutorDisconnected,
    ExecutorExiting,
    HeartbeatsStopped,
    RegisterExecutor,
)
from podtide.domain.protocol.pod_commands import PodCommand

ClusterStimulus: TypeAlias = (
    yarn_messages.ResourcesAnswered
    | yarn_messages.ResourcesRefused
    | yarn_messages.LaunchEnded
    | yarn_messages.MasterRegistered
    | yarn_messages.MasterLost
    | RegisterExecutor
    | ExecutorDisconnected
    | ExecutorExiting
    | HeartbeatsStopped
)
"""What reaches the application."""

ClusterCommand: TypeAlias = yarn_messages.YarnCommand | PodCommand | AnswerRegistration | DecommissionExecutors
"""What the application asks for; what is for somebody else is not listened to."""


class YarnAgenda(IntEnum):
    """What can lie ahead."""

    SAY = 1  # something reaches the application: what
    BEAT = 2  # a NodeManager's heartbeat at which the scheduler may give it containers: slot
    CALL = 3  # a call reaches the resource manager: call
    ANSWER = 4  # its answer is back: call
    LAUNCH = 5  # a launch reaches its NodeManager: launch
    STAGE = 6  # a container's stage ends: number
    HEAR = 7  # a driver's word reaches an executor: number, word
    EXPIRE = 8  # nobody launched a container: number
    REPORT = 9  # a NodeManager tells that a container has ended: number
    KILL = 10  # a NodeManager hears that a container is to end: number
    LOSE = 11  # a machine crashes: slot, life of the node
    LOST = 12  # a silent node expires: slot
    LEAVE = 13  # a node begins to be decommissioned: slot, life of the node
    OUT = 14  # a decommissioning node's time is over: slot
    BACK = 15  # a node comes again: slot
    EVENT = 16  # something scripted happens to nodes: index
    QUEUE = 17  # a tenant comes or goes
    PREEMPT = 18  # what is above the queue's limit is taken back
    RESTART = 19  # the application master fails
    REGISTER = 20  # another one registers


class ContainerStage(IntEnum):
    """Where a container is in its one life."""

    ALLOCATED = 1  # the resource manager has it for the application, which does not know it
    ACQUIRED = 2  # the application knows it; nothing runs in it
    LOCALIZING = 3  # the NodeManager fetches the files
    STARTING = 4  # the process comes up
    REGISTERING = 5  # it asked the driver
    REGISTERED = 6  # it is an executor
    DRAINING = 7  # it was told to decommission
    EXITING = 8  # it ends
    OVER = 9  # no process any more, and the resource manager does not know that yet


PROCESS: Final = frozenset(
    {
        ContainerStage.LOCALIZING,
        ContainerStage.STARTING,
        ContainerStage.REGISTERING,
        ContainerStage.REGISTERED,
        ContainerStage.DRAINING,
        ContainerStage.EXITING,
    }
)
"""The stages in which there is something in the container that can be killed."""


class ContainerRow(NamedTuple):
    """A container. ``priority``: as the application is told. ``timer``: the agenda's serial of what ends the stage.

    ``ended``: for the resource manager it is over, though its process may still be there. ``fate``: with which exit
    status the stage will end the container (None: it goes on), and ``text``: its diagnostics, "" for the usual ones.
    ``executor``: who is in it; ``address``: where the driver hears it from, "" while it does not; ``beats_since``: since
    when it sends heartbeats, -1 while it does not.
    """

    number: int
    id: ContainerId
    slot: int
    profile: ProfileId
    priority: ProfileId
    resource: Resource
    rng: Stream
    stage: ContainerStage = ContainerStage.ALLOCATED
    timer: int = 0
    ended: bool = False
    fate: int | None = None
    text: str = ""
    executor: str = ""
    address: str = ""
    rpc_ms: Millis = 0
    beats_since: Millis = -1


class NodeState(IntEnum):
    """How the resource manager and the cluster see a node."""

    ABSENT = 1  # not there yet, or gone
    RUNNING = 2
    SILENT = 3  # the machine is gone, and the resource manager does not know it yet
    DECOMMISSIONING = 4  # it gets nothing new


class YarnNodeRow(NamedTuple):
    """A node: what is free on it, how many containers it has, how often it came, and since when the files are there.

    ``files_at``: when they will be or have been there; -1: nobody has asked for them. ``timer``: what ends its state.
    """

    slot: int
    state: NodeState
    room: Resource
    lives: int = 0
    files_at: Millis = -1
    timer: int = 0


class AskRow(NamedTuple):
    """The AM client's requests of a profile, and what of them the resource manager has not been told.

    ``changed``: any came or went since; ``dirty``: the layouts of those that did, and how many hosts these had at most.
    """

    table: RequestTable = RequestTable()
    dirty: tuple[tuple[Layout, int], ...] = ()
    changed: bool = False
    resource: Resource = Resource(0, 0)
    label: str = ""


class NeedRow(NamedTuple):
    """What the resource manager knows that a profile needs.

    ``table``: the requests as the AM client had them when it last told. ``given``: by location, what was given since and is
    not settled: the resource manager's count is that of the table less this. ``missed``: heartbeats that were let pass.
    ``places``: how many hosts and racks are named.
    """

    table: RequestTable
    resource: Resource
    label: str
    given: PMap[str, int] = pmap()
    missed: int = 0
    places: int = 0


class AllocateCallRow(NamedTuple):
    """A call of the resource manager under way: what it carries, and its answer. ``fault``: which one hits it."""

    number: int
    serial: int
    asks: tuple[tuple[int, AskRow], ...]
    releases: tuple[int, ...]
    excluding: tuple[tuple[str, int], ...]
    rng: Stream
    answer_at: Millis = 0
    fault: int | None = None
    answer: ClusterStimulus | None = None


class LaunchRow(NamedTuple):
    """A launch under way."""

    executor: ExecutorId
    container: ContainerId
    rng: Stream
