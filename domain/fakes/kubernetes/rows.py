"""What the tables of a fake Kubernetes cluster hold: immutable rows, replaced whenever something changes."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from podtide.domain.base.randomness import Stream
from podtide.domain.base.units import Millis
from podtide.domain.fakes.kubernetes.description import Life, PodShape
from podtide.domain.protocol import pod_commands
from podtide.domain.protocol.pod_stimuli import Outcome
from podtide.domain.protocol.pods import PodManifest

Call: TypeAlias = (
    pod_commands.CreatePod
    | pod_commands.CreateClaim
    | pod_commands.CreateSet
    | pod_commands.CreateConfigMap
    | pod_commands.DeletePods
    | pod_commands.DeletePod
    | pod_commands.DeleteSet
    | pod_commands.DeleteOwned
    | pod_commands.ListClaims
    | pod_commands.GetDriverPod
    | pod_commands.ListPods
    | pod_commands.MarkInactive
    | pod_commands.MarkPods
    | pod_commands.ScaleSet
    | pod_commands.AssignExecutorId
    | pod_commands.ResizePod
    | pod_commands.ResizeClaim
)
"""The commands that are calls of the API."""


class FakeApplication(NamedTuple):
    """Whose executors they are: what the manifests say of the application. ``prefix``: executor pods are named
    ``<prefix>-exec-<id>``. ``heartbeat_ms``: how often an executor is heard from (spark.executor.heartbeatInterval).
    """

    app_id: str = "spark-application"
    prefix: str = "exec"
    namespace: str = "default"
    heartbeat_ms: Millis = 10_000


class PodAgenda(IntEnum):
    """What can lie ahead."""

    STAGE = 1  # a pod's stage ends: uid, stage
    KILL = 2  # a pod's grace ends: uid
    RESTART = 3  # a container starts again: uid
    BACKOFF = 4  # a container's wait for that begins: uid
    ORPHAN = 5  # a pod without a node is cleaned up: uid
    PLACE = 6  # pods are put on nodes
    SCAN = 7  # the autoscaler looks
    ARRIVE = 8  # a node arrives: number
    INTERRUPT = 9  # a node is taken back: number
    LEAVE = 10  # a node is gone: number
    IDLE = 11  # a node may have been empty for long: number
    EVENT = 12  # something scripted happens to nodes: index
    CALL = 13  # a call reaches the API: call
    ANSWER = 14  # its answer reaches the client: call
    RETRY = 15  # the client asks again: call
    SAY = 16  # something reaches the driver: what
    HEAR = 17  # a driver's word reaches an executor: uid, word
    SYNC = 18  # a controller acts: set
    BREAK = 19  # the watch breaks: 1 for an outage
    MEND = 20  # the watch is back
    POLL = 21  # the cluster's own poll is due
    CALM = 22  # faults end


class WatchState(IntEnum):
    """Whether events of the watch reach the driver."""

    OPEN = 0
    BROKEN = 1
    CLOSED = 2


class PodRow(NamedTuple):
    """A pod that the API knows. ``label``: its spark-exec-id. ``node``: a number, 0 for none. ``timer``: its stage's place
    in the agenda. ``address``: where the driver hears it from, "" while it does not. ``owner``: the number of its
    StatefulSet or Deployment, 0 for none. ``held``: it takes room on its node. ``executor``: the id that its process
    goes by, "" while it has none. ``pending_word``: what the driver said to it while it hung (``DriverWord``; 0: nothing).
    ``beats_since``: since when it sends heartbeats, -1 while it does not. ``shape``: what it requests.
    """

    uid: int
    name: str
    label: str
    profile: int
    life: Life
    manifest: PodManifest
    rng: Stream
    node: int = 0
    held: bool = False
    timer: int = 0
    ticket: int = 0
    executor: str = ""
    address: str = ""
    rpc_ms: Millis = 0
    owner: int = 0
    ordinal: int = 0
    restarts: int = 0
    cost: int = 0
    unschedulable: bool = False
    pending_word: int = 0
    beats_since: Millis = -1
    shape: PodShape = PodShape()

    @property
    def deleting(self) -> bool:
        """Whether it has a deletionTimestamp."""
        return self.manifest.deleted_at is not None

    @property
    def finished(self) -> bool:
        """Whether its phase is final."""
        return self.manifest.phase in FINAL


FINAL: Final = frozenset({"Succeeded", "Failed"})


class NodeRow(NamedTuple):
    """A node: what is free on it, when its image is there (-1: not even on its way), since when it is empty (-1: is not)."""

    number: int
    name: str
    group: int
    cpu: int
    memory: int
    pods: int
    rng: Stream
    open: bool = True
    image_at: Millis = -1
    empty_since: Millis = -1


class ApiCallRow(NamedTuple):
    """A call under way: what was asked, on which lane, which call comes after it there, which attempt this is."""

    number: int
    command: Call
    lane: int
    rng: Stream
    attempt: int = 0
    after: int = 0
    began: Millis = 0
    answer_at: Millis = 0
    answer: Outcome | None = None


class SetRow(NamedTuple):
    """A StatefulSet or Deployment. ``sync``: the agenda's serial of what its controller is about to do."""

    number: int
    name: str
    stateful: bool
    profile: int
    replicas: int
    claims: tuple[pod_commands.ClaimSpec, ...]
    sync: int = 0


class ClaimRow(NamedTuple):
    """A volume claim. ``owner``: the uid of the pod that it goes with, 0 for the driver."""

    name: str
    storage_class: str
    size: str
    created_at: str
    owner: int = 0


class Change(NamedTuple):
    """A change in the API's history: when, of which pod, and what it was before (None: it was not)."""

    at: Millis
    uid: int
    before: PodManifest | None
