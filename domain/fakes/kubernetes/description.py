"""What a cluster is like: everything about it that a fake cluster needs, with a default for each part.

The life of a pod is a graph of ``PodStage``s, after the model of KWOK: from a state, after a delay, to the next. Of the
stages that begin in a state one is drawn by weight when a pod enters it; stages with a rate (``per_hour``) run beside
it, and whatever comes first happens. The default stages are a healthy life; faults are further stages, and every other
fault (of nodes, of the API, of the watch) is a number that is 0 or a list that is empty by default. So the default is
a kind cluster: it takes its time, and nothing goes wrong.

``Window`` limits a fault to a time, once or again and again. ``calm_ms`` ends all of them: from then on no new fault
begins, what hangs goes on, and what is stuck is let go. Times in a description count from the cluster's beginning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from podtide.domain.base.randomness import Constant, Delay, LogNormal
from podtide.domain.base.units import Millis
from podtide.domain.fakes.windows import ALWAYS_OPEN, SPARK_ASK_MS, Window

_NOW: Final = Constant(0)
_RPC: Final = Constant(2)
_ARRIVES: Final = LogNormal(90_000, 180_000)
_API: Final = LogNormal(8, 25)
_WATCH: Final = LogNormal(20, 60)
_CONTROLLERS: Final = LogNormal(50, 200)
_SECOND: Final = Constant(1_000)
_STALE: Final = Constant(5_000)


class Life(Enum):
    """Where a pod is in its life. The texts are the names in a cluster file."""

    # The pod.
    CREATED = "created"  # accepted by the API, on no node
    SCHEDULED = "scheduled"  # on a node; its image is being pulled
    PULLED = "pulled"  # its container is being made
    RUNNING = "running"  # the executor's process starts
    # The process.
    NAMING = "naming"  # it asked the driver for an executor id
    REGISTERING = "registering"  # it asked the driver to be registered
    REGISTERED = "registered"  # it is an executor
    DRAINING = "draining"  # it was told to decommission
    EXITING = "exiting"  # it was told to stop
    REFUSED = "refused"  # its registration was refused
    DISCONNECTED = "disconnected"  # it runs and has lost the driver
    HUNG = "hung"  # it goes nowhere, whether pod or process
    BACKOFF = "backoff"  # its container waits to be started again
    # The end.
    TERMINATING = "terminating"  # it was told to go, and ends
    STUCK = "stuck"  # it was told to go and stays
    FAILED = "failed"
    SUCCEEDED = "succeeded"
    EVICTED = "evicted"
    GONE = "gone"


PROCESS: Final = frozenset(
    {Life.RUNNING, Life.NAMING, Life.REGISTERING, Life.REGISTERED, Life.DRAINING, Life.EXITING, Life.REFUSED,
     Life.DISCONNECTED}
)  # fmt: skip
"""The states in which the executor's process runs and does something."""

_ENDS: Final = frozenset({Life.FAILED, Life.SUCCEEDED, Life.EVICTED})
_LIVE: Final = _ENDS | {Life.HUNG}
_FOLLOWS: Final = frozenset(
    {Life.NAMING, Life.REGISTERING, Life.REFUSED, Life.DRAINING, Life.EXITING, Life.DISCONNECTED, Life.HUNG}
)

STEPS: Final = {
    Life.CREATED: frozenset({Life.SCHEDULED, Life.HUNG}),
    Life.SCHEDULED: frozenset({Life.PULLED}) | _LIVE,
    Life.PULLED: frozenset({Life.RUNNING}) | _LIVE,
    Life.RUNNING: frozenset({Life.REGISTERED}) | _LIVE,
    Life.NAMING: _LIVE,
    Life.REGISTERING: _LIVE,
    Life.REGISTERED: frozenset({Life.DISCONNECTED}) | _LIVE,
    Life.DRAINING: _LIVE,
    Life.EXITING: _LIVE,
    Life.REFUSED: _LIVE,
    Life.DISCONNECTED: _LIVE,
    Life.HUNG: _ENDS | {Life.REGISTERED},
    Life.TERMINATING: frozenset({Life.GONE, Life.STUCK}),
    Life.STUCK: frozenset({Life.GONE}),
}
"""The states that a stage may begin in, and where it may lead from each. ``running`` to ``registered`` goes by way of
the driver: the process asks, the driver answers. ``hung`` to ``registered`` is a pod or process that goes on where it was.
"""


class Image(Enum):
    """Whether the image is on the pod's node already."""

    ANY = "any"
    PRESENT = "present"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class PodStage:
    """One way on from a state: after ``delay``, and up to ``jitter_ms`` more, to ``next``.

    ``weight``: how often it is chosen, against the others. ``per_hour``: it is not chosen but happens at this rate while
    the state lasts. ``image``, ``profiles`` and ``groups`` (none: all) say which pods it is for. ``exits``: exit codes
    and their weights, where it ends the process. ``reason`` and ``message``: what the status then says.
    """

    name: str
    source: Life
    next: Life
    delay: Delay = _NOW
    jitter_ms: Millis = 0
    weight: float = 1.0
    per_hour: float | None = None
    image: Image = Image.ANY
    profiles: tuple[int, ...] = ()
    groups: tuple[str, ...] = ()
    exits: tuple[tuple[int, float], ...] = ()
    reason: str | None = None
    message: str | None = None
    during: Window = ALWAYS_OPEN

    @property
    def fault(self) -> bool:
        """Whether it is a fault, and ends with ``calm_ms``. What only follows from what came before is none."""
        if self.next in _ENDS - {Life.SUCCEEDED}:
            return self.source not in _FOLLOWS or self.per_hour is not None
        return self.next in {Life.HUNG, Life.STUCK, Life.DISCONNECTED}


STAGES: Final = (
    PodStage("schedule", Life.CREATED, Life.SCHEDULED, LogNormal(30, 100)),
    PodStage("pull", Life.SCHEDULED, Life.PULLED, LogNormal(8_000, 20_000), image=Image.ABSENT),
    PodStage("pulled", Life.SCHEDULED, Life.PULLED, LogNormal(300, 800), image=Image.PRESENT),
    PodStage("start", Life.PULLED, Life.RUNNING, LogNormal(700, 1_500)),
    PodStage("register", Life.RUNNING, Life.REGISTERED, LogNormal(3_000, 5_000)),
    PodStage("unnamed", Life.NAMING, Life.FAILED, Constant(SPARK_ASK_MS), exits=((1, 1.0),)),
    PodStage("unanswered", Life.REGISTERING, Life.FAILED, Constant(SPARK_ASK_MS), exits=((1, 1.0),)),
    PodStage("refused", Life.REFUSED, Life.FAILED, LogNormal(200, 500), exits=((1, 1.0),)),
    PodStage("drain", Life.DRAINING, Life.SUCCEEDED, LogNormal(2_000, 8_000)),
    PodStage("exit", Life.EXITING, Life.SUCCEEDED, LogNormal(400, 1_000)),
    PodStage("give-up", Life.DISCONNECTED, Life.FAILED, LogNormal(1_000, 3_000), exits=((1, 1.0),)),
    PodStage("terminate", Life.TERMINATING, Life.GONE, LogNormal(700, 2_000)),
)
"""A healthy life: nothing fails unless the driver leaves it without an answer."""


@dataclass(frozen=True, slots=True)
class PodShape:
    """What an executor's pod requests."""

    cpu_millis: int = 1_000
    memory_mib: int = 1_408


@dataclass(frozen=True, slots=True)
class Executors:
    """The executors' pods and processes.

    ``shape`` is for every profile that ``profiles`` does not name. ``decommission``: spark.decommission.enabled, an
    executor that is told to go by its pod's end drains and tells the driver. ``rpc``: how long a message between driver
    and executor is under way; drawn once for each pod, so that messages keep their order. ``silence_ms``: how long the
    driver takes to see that its connection to a machine is lost that is gone without a word.
    """

    shape: PodShape = PodShape()
    profiles: tuple[tuple[int, PodShape], ...] = ()
    image: str = "apache/spark:4.3.0"
    grace_ms: Millis = 30_000
    decommission: bool = False
    rpc: Delay = _RPC
    silence_ms: Millis = 120_000
    stages: tuple[PodStage, ...] = STAGES


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes of a kind.

    ``count``: how many there are from the beginning, and at least. ``maximum``: up to how many the autoscaler adds when pods
    do not fit (None: no more than ``count``). A new node takes ``arrives``; one above ``count`` that has been empty for
    ``idle_ms`` goes. ``replaced``: a lost node is ordered anew. ``interruptions_per_hour``: how often each node is taken
    back (spot), with ``notice_ms``; ``drained``: its pods are then evicted, else they run on to the end.
    ``image_present``: a new node has the image already.
    """

    name: str
    count: int
    cpu_millis: int = 16_000
    memory_mib: int = 65_536
    pods: int = 110
    maximum: int | None = None
    arrives: Delay = _ARRIVES
    idle_ms: Millis = 600_000
    replaced: bool = True
    interruptions_per_hour: float = 0.0
    notice_ms: Millis = 120_000
    drained: bool = True
    image_present: bool = False
    during: Window = ALWAYS_OPEN


class NodeHappening(Enum):
    """What can be made to happen to nodes at a time. The texts are the names in a cluster file."""

    JOIN = "join"  # nodes arrive
    DRAIN = "drain"  # pods are evicted; the node goes when it is empty
    TAKE_BACK = "take back"  # a spot interruption, with the group's notice
    CRASH = "crash"  # the machine is gone at once and says nothing


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """Something that happens to ``count`` nodes of a group at a time, the oldest first."""

    at_ms: Millis
    what: NodeHappening
    group: str
    count: int = 1


class Verb(Enum):
    """What is asked of the API. The texts are the names in a cluster file."""

    CREATE = "create"
    DELETE = "delete"
    GET = "get"
    LIST = "list"
    PATCH = "patch"
    SCALE = "scale"


SPARK_AGENT: Final = "fabric8-kubernetes-client/7.6.1"
"""The User-Agent of Spark's client, which is the only one of the fake cluster."""


class Lost(Enum):
    """What is lost of a call: its request (nothing happens) or its answer (it is done, and nobody hears of it)."""

    REQUEST = "request"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class Fault:
    """The API refuses a call, or loses it.

    ``status``: the HTTP status of the refusal; exactly one of it and ``lost`` is set. ``verbs`` and ``resources``
    (none: all) say which calls, ``agents`` whose: parts of the client's User-Agent, in whatever case. ``retry_after_ms``:
    what a 429 asks for. ``message``: instead of the usual one.
    """

    status: int | None = None
    lost: Lost | None = None
    probability: float = 1.0
    verbs: tuple[Verb, ...] = ()
    resources: tuple[str, ...] = ()
    retry_after_ms: Millis | None = None
    message: str | None = None
    during: Window = ALWAYS_OPEN
    agents: tuple[str, ...] = ()

    def concerns(self, verb: Verb, resource: str, agent: str) -> bool:
        """Whether it may hit a call with this User-Agent."""
        return (
            (not self.verbs or verb in self.verbs)
            and (not self.resources or resource in self.resources)
            and (not self.agents or any(part.lower() in agent.lower() for part in self.agents))
        )


@dataclass(frozen=True, slots=True)
class Api:
    """The API server and the driver's client.

    ``latency``: of a call, there and back. ``serial``: the calls of one Spark thread come one after the other (the
    allocator's, the lifecycle manager's, ...), as they do in Spark. ``retries``: how often the client repeats a call that
    got a 429, a 5xx or no answer, ``backoff_ms`` apart, twice as far each time, or as long as Retry-After says; Spark's
    client repeats 10 times. ``timeout_ms``: how long the client waits for an answer. ``quota_pods``: how many
    unfinished pods the namespace may hold. ``stale``: the share of lists that show an older cluster, ``stale_age`` old.
    """

    latency: Delay = _API
    serial: bool = True
    retries: int = 0
    backoff_ms: Millis = 100
    timeout_ms: Millis = 10_000
    quota_pods: int | None = None
    stale: float = 0.0
    stale_age: Delay = _STALE
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True)
class Watch:
    """The watch of the executors' pods.

    ``delay``: from a change to the driver. Of the events, a share is lost, comes twice, or comes up to ``late`` later
    than those behind it, as long as ``during`` is open. It breaks ``breaks_per_hour`` times for ``broken`` and in each of
    ``outages``; what happened meanwhile comes afterwards, unless its place in the history expired (``expired``: the
    share of breaks). Then it is dead for good, as Spark's is, or with ``relists`` begins anew from a full list.
    """

    delay: Delay = _WATCH
    loss: float = 0.0
    duplicates: float = 0.0
    reordered: float = 0.0
    late: Delay = _SECOND
    breaks_per_hour: float = 0.0
    broken: Delay = _SECOND
    expired: float = 0.0
    relists: bool = False
    outages: tuple[Window, ...] = ()
    during: Window = ALWAYS_OPEN


@dataclass(frozen=True, slots=True)
class FakeDriverPod:
    """The driver's own pod: whether it is there, and when it is ready."""

    present: bool = True
    ready_ms: Millis = 0


WORKERS: Final = NodeGroup("worker", 3, maximum=1_000)


@dataclass(frozen=True, slots=True)
class Description:
    """A whole cluster.

    ``orphaned_ms``: how long the pods of a node that is gone are still shown. ``scan_ms``: how often the autoscaler looks.
    ``controllers``: how long the StatefulSet and Deployment controllers take to act. ``seed``: of the cluster's chance,
    where nobody gives another. ``calm_ms``: when all faults end (None: never).
    """

    groups: tuple[NodeGroup, ...] = (WORKERS,)
    node_events: tuple[NodeEvent, ...] = ()
    orphaned_ms: Millis = 40_000
    scan_ms: Millis = 10_000
    executors: Executors = field(default_factory=Executors)
    api: Api = field(default_factory=Api)
    watch: Watch = field(default_factory=Watch)
    driver: FakeDriverPod = FakeDriverPod()
    controllers: Delay = _CONTROLLERS
    seed: int = 0
    calm_ms: Millis | None = None


KIND: Final = Description()
"""The default cluster: room for everything, and nothing goes wrong."""
