"""A lifecycle manager under way, with an API server that answers as it is told. No clock, no network."""

from __future__ import annotations

from collections.abc import Iterable

from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.kubernetes import snapshots
from podtide.domain.kubernetes.lifecycle import lifecycle_manager as lifecycle
from podtide.domain.kubernetes.lifecycle.lifecycle_manager import (
    ActiveExecutors,
    Delivery,
    LifecycleCommand,
    LifecycleInput,
)
from podtide.domain.protocol import pods
from podtide.domain.protocol.cluster_config import LifecycleConfig
from podtide.domain.protocol.executor_commands import RemoveExecutor, StopApplication
from podtide.domain.protocol.pod_commands import DeletePod, MarkInactive
from podtide.domain.protocol.pod_stimuli import CallFailure, KnownExecutors, Outcome
from podtide.domain.protocol.reasons import Remark, Threw

FORBIDDEN = CallFailure(403, "Forbidden")


def ended(code: int | None, name: str = pods.SPARK_CONTAINER) -> pods.PodContainer:
    return pods.PodContainer(name, None, pods.ContainerState(pods.TERMINATED, code))


def pod(
    number: int,
    phase: str | None = "Running",
    *,
    code: int | None = None,
    containers: tuple[pods.PodContainer, ...] | None = None,
    deleted: bool = False,
    inactive: bool = False,
    has_status: bool = True,
) -> pods.PodManifest:
    """A pod named ``exec-N``; ``code``: its Spark container has terminated with it."""
    labels = {pods.EXECUTOR_LABEL: str(number)} | ({pods.INACTIVE_LABEL: "true"} if inactive else {})
    return pods.PodManifest(
        name=f"exec-{number}",
        labels=labels,
        deleted_at="2024-01-01T00:00:00Z" if deleted else None,
        phase=phase,
        containers=(() if code is None else (ended(code),)) if containers is None else containers,
        has_status=has_status,
    )


class Play:
    """Snapshots go in as manifests; patches are answered at once unless ``hold_patches`` is set."""

    def __init__(self, config: LifecycleConfig, *, hold_patches: bool = False) -> None:
        self.config = config
        self.state = lifecycle.empty()
        self.view = snapshots.empty()
        self.now = 0
        self.hold_patches = hold_patches
        self.failing: set[int] = set()
        self.commands: tuple[LifecycleCommand, ...] = ()
        self.threw: list[str] = []
        self.remarks: list[Remark] = []

    def updated(self, *manifests: pods.PodManifest) -> pods.Snapshot:
        """The snapshot after these pods were updated."""
        changed: list[pods.Pod] = []
        for manifest in manifests:
            taken = snapshots.update(self.view, manifest, pods.PodRules())
            assert not isinstance(taken, SparkFault)
            self.view = taken.view
            changed.extend(taken.snapshot.changed)
        return pods.Snapshot(self.view.full_ts, tuple(changed))

    def listed(self, full_ts: int, *manifests: pods.PodManifest) -> pods.Snapshot:
        """The snapshot of a full list."""
        taken = snapshots.replace(self.view, manifests, pods.PodRules(), full_ts)
        assert not isinstance(taken, SparkFault)
        self.view = taken.view
        return taken.snapshot

    def round(self, at: int, *batch: pods.Snapshot) -> tuple[LifecycleCommand, ...]:
        """One round; returns its commands."""
        return self.take(at, Delivery(at, batch))

    def updates(self, at: int, *manifests: pods.PodManifest) -> tuple[LifecycleCommand, ...]:
        """One round with a snapshot in which these pods are updated."""
        return self.round(at, self.updated(*manifests))

    def know(self, *registered: tuple[int, int], active: Iterable[int] = ()) -> None:
        """Executors are registered since, and active, at the backend."""
        added = tuple((pods.PodNumber(number), at) for number, at in registered)
        self.take(
            self.now, KnownExecutors(self.now, added), ActiveExecutors(self.now, tuple(map(pods.PodNumber, active)))
        )

    def take(self, at: int, *items: LifecycleInput) -> tuple[LifecycleCommand, ...]:
        self.now = at
        step = lifecycle.reap(self.state, items, self.config, at)
        self.state = step.state
        self.commands = step.commands
        self.threw += [report.what for report in step.reports if isinstance(report, Threw)]
        self.remarks += [report for report in step.reports if isinstance(report, Remark)]
        if not self.hold_patches:
            for command in step.commands:
                if isinstance(command, MarkInactive):
                    failure = FORBIDDEN if command.executor in self.failing else None
                    self.answer(command, failure)
        self.commands = step.commands
        return step.commands

    def answer(self, command: MarkInactive | DeletePod, failure: CallFailure | None = None) -> None:
        step = lifecycle.reap(self.state, [Outcome(self.now, command.serial, failure)], self.config, self.now)
        assert step.commands == ()
        self.state = step.state
        self.remarks += [report for report in step.reports if isinstance(report, Remark)]

    def numbers(self, kind: type[LifecycleCommand]) -> list[int]:
        """Whom the last round's commands of a kind concern."""
        return [int(c.executor) for c in self.commands if isinstance(c, kind) and not isinstance(c, StopApplication)]

    @property
    def removed(self) -> list[int]:
        return self.numbers(RemoveExecutor)

    @property
    def deleted(self) -> list[int]:
        return self.numbers(DeletePod)

    @property
    def patched(self) -> list[int]:
        return self.numbers(MarkInactive)

    @property
    def exit_code(self) -> int | None:
        return next((c.exit_code for c in self.commands if isinstance(c, StopApplication)), None)

    @property
    def count(self) -> int:
        return self.state.failures(self.config, self.now).count
