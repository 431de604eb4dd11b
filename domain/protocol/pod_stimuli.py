"""What can happen to the Kubernetes side, as values: pods seen, calls answered, and what its plugins look at.

What every driver hears of its executors stands in ``executor_stimuli``. Every one begins with ``at``, the
millisecond at which the driver hears of it; ``at`` never falls.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.protocol.executor_stimuli import ExecutorStimulus
from podtide.domain.protocol.pods import PodManifest, PodNumber

# seen of the cluster


class PodsUpdated(NamedTuple):
    """Watch events, whatever their kind: each pod as it is now (ExecutorPodsSnapshotsStore.updatePod, in order)."""

    at: Millis
    pods: tuple[PodManifest, ...]


class PodsReplaced(NamedTuple):
    """A full list of the application's executor pods (replaceSnapshot)."""

    at: Millis
    pods: tuple[PodManifest, ...]


class GenerateExecutorId(NamedTuple):
    """A pod without an executor id asks for one (GenerateExecID)."""

    at: Millis
    pod: str
    address: str = ""


# what the plugins look at


class ExecutorSummary(NamedTuple):
    """What the status store knows of an active executor (spec: backend, section 2). Times in ms, sizes in bytes."""

    executor: ExecutorId
    added_at: Millis
    tasks: int = 0
    failed_tasks: int = 0
    duration_ms: Millis = 0
    gc_ms: Millis = 0
    shuffle_write: int = 0
    disk_used: int = 0
    peak_heap: int = 0
    peak_offheap: int = 0


class ExecutorsSummarized(NamedTuple):
    """The active executors as the status store lists them, in its order; the driver may be among them."""

    at: Millis
    executors: tuple[ExecutorSummary, ...]


class MemoryUse(NamedTuple):
    """A pod's Spark container: what it uses and its limit, in bytes (None: no such figure)."""

    executor: ExecutorId
    pod: str
    container: str
    used: int | None
    limit: int | None


class MemoryMeasured(NamedTuple):
    """What the metrics server says of the executor pods."""

    at: Millis
    pods: tuple[MemoryUse, ...]


class ClaimUse(NamedTuple):
    """A volume claim of an executor's local directories: requested and actual size, in bytes."""

    executor: ExecutorId
    claim: str
    requested: int
    capacity: int | None


class DiskReport(NamedTuple):
    """An executor reports the highest usage of its local directories, from 0.0 to 1.0."""

    at: Millis
    executor: ExecutorId
    ratio: float


class ClaimsMeasured(NamedTuple):
    """The claims mounted as spark-local-dir-* by the executors' Spark containers, as the API has them."""

    at: Millis
    claims: tuple[ClaimUse, ...]


# what came of a call


class Claim(NamedTuple):
    """A volume claim of the application, as listed. ``size``: its request, a Kubernetes quantity."""

    name: str
    storage_class: str | None
    size: str
    created_at: str | None


class CallFailure(NamedTuple):
    """How a call failed: the HTTP status (None: no answer came) and the text that Spark's exception would carry.

    ``exception_class``: what Spark's client would throw. ``retry_after_ms``: what the API asked for.
    """

    status: int | None = None
    message: str = ""
    exception_class: str = "io.fabric8.kubernetes.client.KubernetesClientException"
    retry_after_ms: Millis | None = None


UNKNOWN_OUTCOME: Final = "podtide.UnknownOutcome"
"""The ``exception_class`` of a creation of which nobody knows whether it took effect, and which is not made again: its
answer was lost, or the process that made it is gone. Its executor id is used up; the pod counts when it is seen, and not
before. It is no failure of an executor. Spark has no such thing: what ends its process ends the application, too."""


class Outcome(NamedTuple):
    """A call came back. ``serial`` names the command; ``failure`` is None where it succeeded.

    ``claims``: of a listing. ``found``: how many pods a listing found or a patch reached. ``version``: the resource
    version of a list.
    """

    at: Millis
    serial: int
    failure: CallFailure | None = None
    claims: tuple[Claim, ...] = ()
    found: int = 0
    version: str | None = None
    pods: tuple[PodManifest, ...] = ()


class Reconciled(NamedTuple):
    """What somebody else did to the pods of this application, so that the allocator's books can be true again.

    ``last``: executor ids up to this one were given out, by an earlier run or by Spark itself; the allocator's next is a
    higher one. ``exact``: this one was the last, even if the allocator is further (shadow: its ids are those of Spark).
    ``forgotten``: pods asked for that will never come (shadow: Spark did not create them); they count no longer. Nothing
    in Spark says this: it is how a state is rebuilt, and how a shadow follows what it watches.
    """

    at: Millis
    last: PodNumber = PodNumber(0)
    forgotten: tuple[PodNumber, ...] = ()
    exact: bool = False


# between machines


class KnownExecutors(NamedTuple):
    """The backend's registered executors changed: known to the scheduler from now on, or no longer."""

    at: Millis
    added: tuple[tuple[PodNumber, Millis], ...] = ()
    removed: tuple[PodNumber, ...] = ()


class CreationFailed(NamedTuple):
    """The allocator could not create a pod: one failure more for the lifecycle manager."""

    at: Millis
    executor: PodNumber


WatchStimulus: TypeAlias = PodsUpdated | PodsReplaced | Outcome
"""What shows pods: a watch, a list, the outcome of a call."""

PodStimulus: TypeAlias = (
    PodsUpdated
    | PodsReplaced
    | GenerateExecutorId
    | ExecutorsSummarized
    | MemoryMeasured
    | DiskReport
    | ClaimsMeasured
    | Outcome
    | Reconciled
    | ExecutorStimulus
)
"""All that can arrive at the Kubernetes side from outside."""
