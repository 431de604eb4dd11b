"""Commands about pods: create, delete, notify; each with its reasons.

A command with a ``serial`` may be answered by a ``protocol.pod_stimuli.Outcome`` of that serial. A machine that has to
know how a call ended waits for it; for the others the outcome is optional (Spark logs the error and goes on).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias, TypeGuard, get_args

from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.protocol.executor_commands import ExecutorCommand, StopSource
from podtide.domain.protocol.pods import PodNumber, Snapshot
from podtide.domain.protocol.reasons import Why


class ClaimSpec(NamedTuple):
    """A PersistentVolumeClaim to create. ``size``: a Kubernetes quantity."""

    name: str
    storage_class: str
    size: str
    volume: str = ""


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Create the pod of an executor.

    ``claims``: the claims that its volumes mount, in volume order: own ones (created next) and reused ones.
    ``single_task``: recovery mode; the executor announces cores for one task only.
    """

    at: Millis
    serial: int
    executor: PodNumber
    profile: ProfileId
    why: Why
    claims: tuple[str, ...] = ()
    reused: tuple[str, ...] = ()
    single_task: bool = False


@dataclass(frozen=True, slots=True)
class CreateClaim:
    """Create a volume claim for a pod that was just created.

    ``owned_by_driver``: its owner is the driver pod, so it survives the executor; else the executor's pod.
    """

    at: Millis
    serial: int
    executor: PodNumber
    claim: ClaimSpec
    owned_by_driver: bool
    why: Why


@dataclass(frozen=True, slots=True)
class ListClaims:
    """List the volume claims of the application; the outcome carries them."""

    at: Millis
    serial: int
    profile: ProfileId
    why: Why


@dataclass(frozen=True, slots=True)
class DeletePods:
    """Delete executor pods of the application in one call.

    ``executors``: by label, in this order; None: all. ``phase``: only those in this phase (a field selector).
    ``list_first``: ask first which there are and say nothing if there are none (the forced delete after the grace
    period).
    """

    at: Millis
    serial: int
    executors: tuple[PodNumber, ...] | tuple[ExecutorId, ...] | None
    phase: Literal["Pending", "Running"] | None
    why: Why
    list_first: bool = False


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete one pod by name.

    ``check``: look first, and delete only if it is there without a deletionTimestamp (ExecutorPodsLifecycleManager).
    """

    at: Millis
    serial: int
    executor: PodNumber
    name: str
    why: Why
    check: bool = False


@dataclass(frozen=True, slots=True)
class MarkInactive:
    """Label a finished pod that is kept: spark-exec-inactive=true (a strategic merge patch by name)."""

    at: Millis
    serial: int
    executor: PodNumber
    name: str
    why: Why


@dataclass(frozen=True, slots=True)
class MarkPods:
    """Put a label or an annotation on the pods of these executors: list them, then patch one after the other.

    The first patch that fails ends it (KubernetesClusterSchedulerBackend).
    """

    at: Millis
    serial: int
    executors: tuple[ExecutorId, ...]
    kind: Literal["label", "annotation"]
    key: str
    value: str
    why: Why


@dataclass(frozen=True, slots=True)
class CreateSet:
    """Create the StatefulSet or Deployment of a resource profile.

    ``claims``: volumeClaimTemplates. A Deployment's template is annotated with pod-deletion-cost "0", unless the user
    set one (spec: allocation, section 12).
    """

    at: Millis
    serial: int
    kind: Literal["statefulset", "deployment"]
    name: str
    profile: ProfileId
    replicas: int
    why: Why
    claims: tuple[ClaimSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class ScaleSet:
    """Set the replicas of a StatefulSet or Deployment through its scale subresource."""

    at: Millis
    serial: int
    kind: Literal["statefulset", "deployment"]
    name: str
    profile: ProfileId
    replicas: int
    why: Why


@dataclass(frozen=True, slots=True)
class DeleteSet:
    """Delete a StatefulSet or Deployment, in the background."""

    at: Millis
    serial: int
    kind: Literal["statefulset", "deployment"]
    name: str
    why: Why


@dataclass(frozen=True, slots=True)
class GetDriverPod:
    """Look the driver pod up by its name; the outcome says whether it is there."""

    at: Millis
    serial: int
    name: str
    why: Why


@dataclass(frozen=True, slots=True)
class AwaitDriverReady:
    """Wait for the driver pod to be ready, at most ``timeout_ms``; whatever comes of it, allocation begins then."""

    at: Millis
    serial: int
    name: str
    timeout_ms: Millis
    why: Why


@dataclass(frozen=True, slots=True)
class CreateConfigMap:
    """Create the config map that the executors' Spark conf is in."""

    at: Millis
    serial: int
    why: Why


@dataclass(frozen=True, slots=True)
class DeleteOwned:
    """Delete what an application left behind besides pods: all of a kind that carry its labels."""

    at: Millis
    serial: int
    kind: Literal["services", "persistentvolumeclaims", "configmaps"]
    why: Why


@dataclass(frozen=True, slots=True)
class ListPods:
    """List the application's executor pods. ``resource_version``: "0" asks for the API server's cache."""

    at: Millis
    serial: int
    why: Why
    resource_version: str | None = None


@dataclass(frozen=True, slots=True)
class AssignExecutorId:
    """Answer GenerateExecID: the pod becomes this executor, and is labelled with it."""

    at: Millis
    serial: int
    pod: str
    executor: ExecutorId
    why: Why


@dataclass(frozen=True, slots=True)
class ResizePod:
    """Set a pod container's memory request and limit, in bytes, through the resize subresource."""

    at: Millis
    serial: int
    executor: ExecutorId
    pod: str
    container: str
    memory_bytes: int
    why: Why


@dataclass(frozen=True, slots=True)
class ResizeClaim:
    """Set the storage request of a volume claim, in bytes."""

    at: Millis
    serial: int
    executor: ExecutorId
    claim: str
    storage_bytes: int
    why: Why


Create: TypeAlias = CreatePod | CreateClaim | CreateSet | CreateConfigMap
Delete: TypeAlias = DeletePods | DeletePod | DeleteSet | DeleteOwned
Ask: TypeAlias = ListClaims | GetDriverPod | AwaitDriverReady | ListPods
Notify: TypeAlias = MarkInactive | MarkPods | ScaleSet | AssignExecutorId | ResizePod | ResizeClaim | ExecutorCommand

PodCommand: TypeAlias = Create | Delete | Ask | Notify
"""Everything that the Kubernetes side asks of the outside."""

Call: TypeAlias = (
    Create | Delete | Ask | MarkInactive | MarkPods | ScaleSet | AssignExecutorId | ResizePod | ResizeClaim | StopSource
)
"""Those with a serial, by which an Outcome answers them."""

_CALLS: Final = frozenset(get_args(Call))


def is_call(command: PodCommand) -> TypeGuard[Call]:
    """Whether a command has a serial."""
    return type(command) in _CALLS


# What one machine tells another. The engine routes these and hands none of them out.


@dataclass(frozen=True, slots=True)
class NotifySubscribers:
    """The allocator asks the snapshot store to run its subscribers now (notifySubscribers)."""

    at: Millis


@dataclass(frozen=True, slots=True)
class CountFailure:
    """The allocator could not create a pod: one more executor failure for the lifecycle manager."""

    at: Millis
    executor: PodNumber


@dataclass(frozen=True, slots=True)
class Deliver:
    """The snapshot store hands a subscriber what queued up for it since the last time; perhaps nothing."""

    at: Millis
    subscriber: str
    snapshots: tuple[Snapshot, ...]
