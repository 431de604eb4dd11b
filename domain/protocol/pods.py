"""Pods as evidence about executors: the part of a manifest that decides, and the state that Spark reads from it.

A ``PodManifest`` holds what Spark 4.3.0 looks at of an executor pod, as text where Kubernetes has text; adapters make
it from the API server's bytes, recordings and the fake cluster. A ``Pod`` is a manifest that could be read: its
executor number and its ``PodState``. Which manifest leads to which state, and which cannot be read at all, is
ExecutorPodsSnapshot's to say (spec: snapshots, sections 1, 2 and 7).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple, NewType, TypeAlias

from podtide.domain.base.units import Millis
from podtide.domain.jvm.instants import format_instant

PodNumber = NewType("PodNumber", int)
"""The executor id of a pod as the allocator reads it: a whole number (label spark-exec-id)."""

_NUMBER_DIGITS: Final = 18
"""Digits of which any number is a Java Long."""


def pod_number(executor: str) -> PodNumber | None:
    """The number of an executor by its id or by its pod's label; None for what no pods allocator gives out."""
    digits = executor.isascii() and executor.isdigit() and len(executor) <= _NUMBER_DIGITS
    return PodNumber(int(executor)) if digits else None


APP_LABEL: Final = "spark-app-selector"
ROLE_LABEL: Final = "spark-role"
EXECUTOR_ROLE: Final = "executor"
EXECUTOR_LABEL: Final = "spark-exec-id"
PROFILE_LABEL: Final = "spark-exec-resourceprofile-id"
INACTIVE_LABEL: Final = "spark-exec-inactive"
UNNAMED_EXECUTOR: Final = "EXECID"
"""The executor id of a pod that has not asked the driver for one yet (StatefulSet and Deployment allocators)."""

SPARK_CONTAINER: Final = "spark-kubernetes-executor"
"""Constants.DEFAULT_EXECUTOR_CONTAINER_NAME."""

Labels: TypeAlias = Mapping[str, str]


class PodState(Enum):
    """ExecutorPodState's classes."""

    PENDING = "PodPending"
    RUNNING = "PodRunning"
    SUCCEEDED = "PodSucceeded"
    FAILED = "PodFailed"
    DELETED = "PodDeleted"
    TERMINATING = "PodTerminating"
    UNKNOWN = "PodUnknown"


class ContainerState(NamedTuple):
    """One of the states of a container; ``kind`` is None for a state object with nothing in it.

    Times and reasons are the API's texts. ``reason`` is the reason of waiting or of termination.
    """

    kind: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    started_at: str | None = None
    finished_at: str | None = None


RUNNING: Final = "running"
WAITING: Final = "waiting"
TERMINATED: Final = "terminated"


class PodContainer(NamedTuple):
    """A container status of a pod. ``state`` is None where the status has no state object at all."""

    name: str
    image: str | None = None
    state: ContainerState | None = ContainerState(RUNNING)


class PodManifest(NamedTuple):
    """What Spark looks at of an executor pod. Texts are the API's own; None is what the manifest does not have.

    ``claims``: the claimName of each volume of kind persistentVolumeClaim, in order. ``version``: the resource
    version, by which an unchanged pod is known without looking further ("" when there is none).
    """

    name: str = ""
    labels: Labels = {}  # noqa: RUF012 - never written to
    created_at: str | None = None
    deleted_at: str | None = None
    restart_policy: str | None = None
    claims: tuple[str, ...] = ()
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    containers: tuple[PodContainer, ...] = ()
    has_spec: bool = True
    has_status: bool = True
    namespace: str = "default"
    version: str = ""
    uid: str = ""
    node: str | None = None


class Pod(NamedTuple):
    """A manifest that could be read."""

    number: PodNumber
    state: PodState
    manifest: PodManifest


class Snapshot(NamedTuple):
    """One ExecutorPodsSnapshot, as what changed since the snapshot before it.

    ``changed``: pods that are new or different. ``gone``: numbers that are no longer there, which only a full list can
    tell. ``full_ts``: the time of the last full list (Spark's fullSnapshotTs), 0 before the first.
    """

    full_ts: Millis
    changed: tuple[Pod, ...] = ()
    gone: tuple[PodNumber, ...] = ()


class PodRules(NamedTuple):
    """The two settings of ExecutorPodsSnapshot: whether any failed container fails the executor, and whose exit code
    is the executor's.
    """

    check_all_containers: bool = True
    spark_container: str = SPARK_CONTAINER


ON_DEMAND: Final = "OnDemand"
EXECUTOR_ID: Final = "SPARK_EXECUTOR_ID"
STATEFULSET: Final = "statefulset"
DEPLOYMENT: Final = "deployment"


def as_deleted(pod: PodManifest, now: Millis) -> PodManifest:
    """A pod that is gone, so that it reads as PodDeleted (spec: snapshots, section 2, rule 1) whatever its last phase."""
    return pod._replace(deleted_at=pod.deleted_at or format_instant(now), phase=None)
