"""What the YARN allocator hears and what it asks for, as values.

The application master stands between the driver and the resource manager. From the driver it hears targets with locality
hints, kills, and questions why an executor is gone; its reporter thread tells it when to speak to the resource manager, and
the answer comes back as a stimulus. Launching happens elsewhere (``LaunchExecutor``), and how it ended is a stimulus, too.

Source: YarnAllocator and AMEndpoint of Spark 4.3.0 (spec: yarn).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.protocol.container_requests import Layout, Span
from podtide.domain.protocol.containers import Completion, Container, ContainerId, ContainerSpec, NodeReport, Resource
from podtide.domain.protocol.executor_commands import ExitReason, RemoveExecutor
from podtide.domain.protocol.reasons import Why

# what it hears


class ProfilesDefined(NamedTuple):
    """What the containers of these profiles are to be; comes before the first request that names a profile."""

    at: Millis
    specs: tuple[tuple[ProfileId, ContainerSpec], ...]


class ContainersWanted(NamedTuple):
    """requestTotalExecutorsWithPreferredLocalities: executors wanted by profile, and where their tasks' data is.

    ``host_tasks``: per profile, tasks that would run well on a host. All hints of before are forgotten. ``excluded``: the
    task scheduler's hosts; they count only if a target changes, or if nothing at all is wanted.
    """

    at: Millis
    targets: tuple[tuple[ProfileId, int], ...]
    locality_tasks: Mapping[ProfileId, int]
    host_tasks: Mapping[ProfileId, Mapping[str, int]]
    excluded: tuple[str, ...] = ()
    serial: int = 0


class KillExecutors(NamedTuple):
    """KillExecutors: these executors' containers are to be released."""

    at: Millis
    executors: tuple[ExecutorId, ...]


class LossReasonsAsked(NamedTuple):
    """GetExecutorLossReason: why are these executors gone? One answer for each, perhaps later."""

    at: Millis
    executors: tuple[ExecutorId, ...]


class Beat(NamedTuple):
    """It is time to speak to the resource manager (allocateResources)."""

    at: Millis


class ResourcesAnswered(NamedTuple):
    """What the resource manager said. ``nodes``: in the cluster; ``available``: what the queue has left, if it said so."""

    at: Millis
    serial: int
    allocated: tuple[Container, ...] = ()
    completed: tuple[Completion, ...] = ()
    updated: tuple[NodeReport, ...] = ()
    nodes: int = 0
    available: Resource | None = None


class ResourcesRefused(NamedTuple):
    """The call failed: the exception's class and message; ``fatal``: not one of those that may pass."""

    at: Millis
    serial: int
    what: str
    fatal: bool = False


class ContainersGiven(NamedTuple):
    """Containers and completions without a heartbeat before them: the two handlers called alone."""

    at: Millis
    allocated: tuple[Container, ...] = ()
    completed: tuple[Completion, ...] = ()


class LaunchEnded(NamedTuple):
    """A launch returned. ``failure``: what it threw; ``fatal``: not one of those that the pool survives.

    ``container``: the one that was launched in (None: nobody said). A new application master may give an executor id again
    that never registered; the container tells whose launch it was.
    """

    at: Millis
    executor: ExecutorId
    failure: str | None = None
    fatal: bool = False
    container: ContainerId | None = None


class MasterRegistered(NamedTuple):
    """An application master registered with the driver, the first or (client mode, after a failure) another one.

    The driver forgets what it requested, takes its executors for lost and resets dynamic allocation; the new master's
    allocator knows nothing and goes on from the driver's last executor id.
    """

    at: Millis


class MasterLost(NamedTuple):
    """The application master that was registered is gone, connection and all: nobody knows of its containers any longer.

    Until another one registers, requests and kills are refused. ``address``: where it was heard from.
    """

    at: Millis
    address: str = ""


class MasterEnding(NamedTuple):
    """The application ends; what ends from now on is nobody's fault (setShutdown)."""

    at: Millis


YarnInput: TypeAlias = (
    ProfilesDefined
    | ContainersWanted
    | KillExecutors
    | LossReasonsAsked
    | Beat
    | ResourcesAnswered
    | ResourcesRefused
    | ContainersGiven
    | LaunchEnded
    | MasterEnding
)
"""All that the allocator hears of."""


YarnStimulus: TypeAlias = (
    ProfilesDefined
    | ResourcesAnswered
    | ResourcesRefused
    | ContainersGiven
    | LaunchEnded
    | MasterRegistered
    | MasterLost
)
"""What arrives at the YARN side alone."""


# what it asks for


@dataclass(frozen=True, slots=True)
class CancelRequests:
    """Take requests out of the AM client's table, which asks for them no longer (removeContainerRequest)."""

    at: Millis
    profile: ProfileId
    spans: tuple[Span, ...]
    why: Why


@dataclass(frozen=True, slots=True)
class RequestContainers:
    """Put requests into the AM client's table (addContainerRequest): first ``layout``'s, then ``anywhere`` without nodes.

    ``first``: the number of the first one, counting per profile from 1. ``label``: the node label expression. Locality is
    relaxed, always.
    """

    at: Millis
    profile: ProfileId
    first: int
    layout: Layout | None
    anywhere: int
    resource: Resource
    label: str | None
    why: Why

    @property
    def count(self) -> int:
        """How many."""
        return self.anywhere + (0 if self.layout is None else self.layout.size)


@dataclass(frozen=True, slots=True)
class CallResourceManager:
    """One heartbeat: send what changed and hear what there is (AMRMClient.allocate). Must be answered."""

    at: Millis
    serial: int
    why: Why


class Match(NamedTuple):
    """A container took a request. ``location``: a host, a rack, or "*"."""

    container: ContainerId
    request: int
    location: str


@dataclass(frozen=True, slots=True)
class TakeRequests:
    """Take requests that containers answer out of the AM client's table, in the order of matching."""

    at: Millis
    profile: ProfileId
    matches: tuple[Match, ...]
    why: Why


@dataclass(frozen=True, slots=True)
class ReleaseContainers:
    """Give containers back (releaseAssignedContainer)."""

    at: Millis
    containers: tuple[ContainerId, ...]
    why: Why


@dataclass(frozen=True, slots=True)
class LaunchExecutor:
    """Start an executor in a container (ExecutorRunnable, on the launcher's threads); must be answered."""

    at: Millis
    executor: ExecutorId
    container: ContainerId
    host: str
    profile: ProfileId
    heap_mib: int
    cores: int
    why: Why


@dataclass(frozen=True, slots=True)
class UpdateExclusions:
    """Tell the resource manager which nodes not to use, as differences (updateBlacklist)."""

    at: Millis
    added: tuple[str, ...]
    removed: tuple[str, ...]
    why: Why


@dataclass(frozen=True, slots=True)
class DecommissionHost:
    """Tell the driver that the executors of a host are to be decommissioned (DecommissionExecutorsOnHost)."""

    at: Millis
    host: str
    why: Why


@dataclass(frozen=True, slots=True)
class TellLossReason:
    """Answer who asked why an executor is gone; ``reason`` None: there never was such an executor (``failure`` says so)."""

    at: Millis
    executor: ExecutorId
    reason: ExitReason | None
    why: Why
    failure: str = ""


@dataclass(frozen=True, slots=True)
class EndApplication:
    """The application master ends the application: YARN's final status, and the exit code of the process."""

    at: Millis
    status: str
    exit_code: int
    message: str
    why: Why


YarnCommand: TypeAlias = (
    CancelRequests
    | RequestContainers
    | CallResourceManager
    | TakeRequests
    | ReleaseContainers
    | LaunchExecutor
    | UpdateExclusions
    | DecommissionHost
    | TellLossReason
    | RemoveExecutor
    | EndApplication
)
"""Everything that the YARN side asks of the outside."""


@dataclass(frozen=True, slots=True)
class TargetsTaken:
    """The answer to ``ContainersWanted``: whether a target changed, which is what wakes the reporter thread."""

    at: Millis
    serial: int
    changed: bool
