"""One StatefulSet or Deployment for each resource profile: StatefulSetPodsAllocator and DeploymentPodsAllocator.

Under these allocators Spark says how many and Kubernetes makes the pods; which of them go when there are too many is
Kubernetes' choice, too (the highest ordinals of a StatefulSet; of a Deployment those with the lowest pod-deletion-cost).
Of all that limits the direct allocator - batch size, pending pods, timeouts, claims - nothing applies here, and snapshots
are not looked at.

A request is served profile by profile, in its order: the first time a profile is named its set is created, also with 0
replicas; from then on it is scaled, also to the number that it has. Each call has to succeed before the next is made. One
that fails ends the request with its exception: what came before stays, what comes after is not asked for, and nothing is
tried again before the next request. Profiles that a request does not name keep their replicas.

Claims: a StatefulSet turns every claim that Spark would create into a volumeClaimTemplate named like the volume (a volume
that only mounts a claim stays in the pod); a Deployment refuses claims of any kind. Without a driver pod there is nobody to
own a set: the first creation throws. stop() deletes the sets and forgets none.

Source: the two classes of Spark 4.3.0 (spec: allocation, sections 11 to 13).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, TypeAlias, assert_never

from pyrsistent import PDeque, PSet, pdeque, pset

from podtide.domain.base.units import NEVER, Millis, ProfileId
from podtide.domain.jvm.exceptions import NO_SUCH_ELEMENT, SPARK_EXCEPTION, SparkFault
from podtide.domain.jvm.hash_order import BUCKETS, grown, walk_order
from podtide.domain.kubernetes.allocator.state import driver_pod_fault
from podtide.domain.machine.turn import Turn, thrown, why
from podtide.domain.protocol.cluster_config import ClaimTemplate, ReplicasConfig, claim_name
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.executor_stimuli import Starting, Stopping, TargetsSet
from podtide.domain.protocol.pod_commands import (
    AwaitDriverReady,
    ClaimSpec,
    CreateSet,
    DeleteSet,
    GetDriverPod,
    ScaleSet,
)
from podtide.domain.protocol.pod_stimuli import CallFailure, Outcome
from podtide.domain.protocol.pods import DEPLOYMENT, STATEFULSET, UNNAMED_EXECUTOR
from podtide.domain.protocol.reasons import Cause, Why

MACHINES: Final = {STATEFULSET: "StatefulSetPodsAllocator", DEPLOYMENT: "DeploymentPodsAllocator"}

NOT_STARTED: Final = SparkFault(SPARK_EXCEPTION, "setTotalExpectedExecutors called before start of allocator.")
NO_DRIVER_POD: Final = SparkFault(NO_SUCH_ELEMENT, "None.get")
CLAIMS_REFUSED: Final = SparkFault(
    SPARK_EXCEPTION,
    "PersistentVolumeClaims are not supported with the deployment allocator. Please remove PVC requirements or choose a "
    "different pods allocator.",
)


class Constructing(NamedTuple):
    """The allocator is made, which looks the driver pod up; ``Starting`` does it too if nobody did before."""

    at: Millis


@dataclass(frozen=True, slots=True)
class AllocatorStarted:
    """start() returned: targets may be set."""

    at: Millis


@dataclass(frozen=True, slots=True)
class TargetsServed:
    """setTotalExpectedExecutors returned, or ended in an exception (``threw``). Requests are served in order."""

    at: Millis
    threw: str | None = None


ReplicasInput: TypeAlias = Constructing | Starting | TargetsSet | Outcome | Stopping
"""All that it hears of."""

ReplicasCommand: TypeAlias = (
    CreateSet | ScaleSet | DeleteSet | GetDriverPod | AwaitDriverReady | AllocatorStarted | TargetsServed
)
"""All that it asks for; the last two are for the backend that called."""


class DriverLookup(NamedTuple):
    """The driver pod is looked up; ``start``: start() goes on then."""

    serial: int
    start: bool


class DriverWait(NamedTuple):
    """start() waits for the driver pod to be ready."""

    serial: int


class Serving(NamedTuple):
    """A request is served: the call for its entry at ``place`` is under way."""

    serial: int
    targets: tuple[tuple[ProfileId, int], ...]
    place: int
    creates: bool


Wait: TypeAlias = DriverLookup | DriverWait | Serving


@dataclass(slots=True)
class ReplicasState:
    """The allocator at a moment.

    ``created``: profiles with a set, and ``buckets`` of the table that Spark keeps them in.
    ``driver``: the driver pod was found; None before it was looked up. ``later``: what was heard while ``wait``.
    ``broken``: it could not be made.
    """

    created: PSet[ProfileId] = field(default_factory=pset)
    buckets: int = BUCKETS
    driver: bool | None = None
    started: bool = False
    broken: bool = False
    serial: int = 0
    wait: Wait | None = None
    later: PDeque[ReplicasInput] = field(default_factory=pdeque)


def begin(*, first_serial: int = 0) -> ReplicasState:
    """An allocator of which nothing is known yet. Its commands' serials follow ``first_serial``."""
    return ReplicasState(serial=first_serial)


def due(state: ReplicasState, config: ReplicasConfig) -> Millis:  # noqa: ARG001 - every machine is asked alike
    """NEVER: it has no timers."""
    return NEVER


def set_name(config: ReplicasConfig, profile: ProfileId) -> str:
    """The name of a profile's StatefulSet or Deployment."""
    letter = "s" if config.kind == STATEFULSET else "d"
    return f"spark-{letter}-{config.app_id}-{profile}"


def scale(
    state: ReplicasState, snapshots: Sequence[ReplicasInput], config: ReplicasConfig, now: Millis
) -> Step[ReplicasState, ReplicasCommand]:
    """Take the inputs in order; while a call is under way, all but its outcome wait."""
    allocator = _Allocator(state, config, now)
    for item in snapshots:
        allocator.hear(item)
    return allocator.step()


class _Allocator(Turn[ReplicasState, ReplicasConfig, ReplicasCommand]):
    """The allocator within one step."""

    def __init__(self, state: ReplicasState, config: ReplicasConfig, now: Millis) -> None:
        super().__init__(state, config, now)
        self.kind: Literal["statefulset", "deployment"] = STATEFULSET if config.kind == STATEFULSET else DEPLOYMENT
        self.machine = MACHINES[self.kind]

    def hear(self, item: ReplicasInput) -> None:
        if isinstance(item, Outcome):
            self.answered(item)
        elif self.state.wait is not None:
            self.state.later = self.state.later.append(item)
        else:
            self.take(item)

    def take(self, item: ReplicasInput) -> None:
        match item:
            case Constructing():
                self.construct(start=False)
            case Starting():
                self.construct(start=True)
            case TargetsSet():
                self.set_targets(item)
            case Stopping():
                self.stop()
            case Outcome():
                pass  # taken as they come
            case _:
                assert_never(item)

    def answered(self, outcome: Outcome) -> None:
        wait = self.state.wait
        if wait is None or outcome.serial != wait.serial:
            self.swallowed(outcome.failure)
            return
        self.state.wait = None
        match wait:
            case DriverLookup():
                self.looked_up(wait, outcome.failure)
            case DriverWait():
                self.swallowed(outcome.failure)
                self.start_ends()
            case Serving():
                self.served(wait, outcome.failure)
            case _:
                assert_never(wait)
        while self.state.later and self.state.wait is None:
            item, self.state.later = self.state.later.left, self.state.later.popleft()
            self.take(item)

    def next_serial(self) -> int:
        self.state.serial += 1
        return self.state.serial

    def swallowed(self, failure: CallFailure | None) -> None:
        """A failure that Spark logs and forgets (tryLogNonFatalError)."""
        if failure is not None:
            self.uncaught("main", str(thrown(failure)))

    # start

    def construct(self, *, start: bool) -> None:
        """The constructor looks the driver pod up; start() waits for it to be ready."""
        name = self.config.driver_pod
        if self.state.broken:
            return
        if self.state.driver is not None or name is None:
            self.state.driver = bool(self.state.driver)
            if start:
                self.start()
            return
        serial = self.next_serial()
        self.state.wait = DriverLookup(serial, start)
        self.commands.append(GetDriverPod(self.now, serial, name, Why(Cause.DRIVER_POD)))

    def looked_up(self, wait: DriverLookup, failure: CallFailure | None) -> None:
        if failure is not None:
            self.state.broken = True
            fault = driver_pod_fault(failure, str(self.config.driver_pod), self.config.namespace)
            self.threw(fault, fatal=True)
            return
        self.state.driver = True
        if wait.start:
            self.start()

    def start(self) -> None:
        self.state.started = True  # from here on targets are taken; start() itself may take a while
        name = self.config.driver_pod
        if name is None or not self.config.wait_for_driver:
            self.start_ends()
            return
        serial = self.next_serial()
        self.state.wait = DriverWait(serial)
        timeout = self.config.driver_readiness_timeout_ms
        self.commands.append(AwaitDriverReady(self.now, serial, name, timeout, Why(Cause.DRIVER_POD)))

    def start_ends(self) -> None:
        self.commands.append(AllocatorStarted(self.now))

    # targets

    def set_targets(self, item: TargetsSet) -> None:
        if self.state.started:
            self.serve(item.targets, 0)
        else:
            self.end_request(str(NOT_STARTED))

    def serve(self, targets: tuple[tuple[ProfileId, int], ...], index: int) -> None:
        """Serve the entry at this index; its outcome brings on the next."""
        if index == len(targets):
            self.end_request(None)
            return
        profile, replicas = targets[index]
        creates = profile not in self.state.created
        if creates:
            fault = self.create(profile, replicas)
            if fault is not None:
                self.end_request(str(fault))
                return
        else:
            name = set_name(self.config, profile)
            reason = why(Cause.TARGET_SET, target=replicas)
            self.commands.append(ScaleSet(self.now, self.next_serial(), self.kind, name, profile, replicas, reason))
        self.state.wait = Serving(self.state.serial, targets, index, creates)

    def create(self, profile: ProfileId, replicas: int) -> SparkFault | None:
        """Ask for the profile's set, or say what Spark throws over it."""
        config = self.config
        if self.kind == DEPLOYMENT and config.claims:
            return CLAIMS_REFUSED
        if not self.state.driver:
            return NO_DRIVER_POD
        reason = why(Cause.NEW_PROFILE, target=replicas)
        name, claims = set_name(config, profile), claim_specs(config.claims)
        self.commands.append(
            CreateSet(self.now, self.next_serial(), self.kind, name, profile, replicas, reason, claims)
        )
        return None

    def served(self, serving: Serving, failure: CallFailure | None) -> None:
        if failure is not None:
            self.end_request(str(thrown(failure)))
            return
        if serving.creates:
            self.state.buckets = grown(len(self.state.created), self.state.buckets)
            self.state.created = self.state.created.add(serving.targets[serving.place][0])
        self.serve(serving.targets, serving.place + 1)

    def end_request(self, threw: str | None) -> None:
        if threw is not None:
            self.threw(threw)
        self.commands.append(TargetsServed(self.now, threw))

    def stop(self) -> None:
        """Delete every set that was ever created; whether that works is nobody's concern."""
        for profile in walk_order(self.state.created, self.state.buckets):
            serial, name = self.next_serial(), set_name(self.config, profile)
            self.commands.append(DeleteSet(self.now, serial, self.kind, name, Why(Cause.STOPPED)))


def claim_specs(templates: Iterable[ClaimTemplate]) -> tuple[ClaimSpec, ...]:
    """The volumeClaimTemplates of a StatefulSet: one for each claim that Spark would create, named like its volume.

    Volumes that share a fixed claim name share a volume's name too: the last one's.
    """
    named = [(_claim_name(template), template) for template in templates]
    created = {name for name, template in named if template.creates}
    volumes = {name: template.volume for name, template in named if name in created}
    return tuple(
        ClaimSpec(volumes[name], template.storage_class or "", template.size or "", template.volume)
        for name, template in named
        if template.creates
    )


def _claim_name(template: ClaimTemplate) -> str:
    """The claim's name, as far as it takes to tell whether two are the same."""
    return claim_name(template, "", UNNAMED_EXECUTOR)
