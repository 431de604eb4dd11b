"""The life of a pod: how it begins, how it goes from state to state, and what the API shows of it.

A pod is in one state of ``Life`` and has at most one timer: the stage that ends the state. Entering a state draws the
stage and its time (``fakes.kubernetes.description``); the driver's words and deletions take it elsewhere before that.
What the API shows changes only where Kubernetes' would: created, bound or found unschedulable, container started, ended,
marked for deletion, deleted. What the process in it says and hears is ``fakes.kubernetes.executors``', how a pod ends
``fakes.kubernetes.pod_endings``'.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.base.randomness import Stream, draw, draw_active_ms, pick, split, unit
from podtide.domain.base.units import Millis
from podtide.domain.fakes.kubernetes.description import Image, Life, PodShape, PodStage
from podtide.domain.fakes.kubernetes.rows import PodAgenda, PodRow
from podtide.domain.fakes.kubernetes.tables import ClusterTables
from podtide.domain.fakes.kubernetes.watch import publish
from podtide.domain.jvm.instants import format_instant
from podtide.domain.protocol.pods import (
    APP_LABEL,
    EXECUTOR_LABEL,
    EXECUTOR_ROLE,
    PROFILE_LABEL,
    ROLE_LABEL,
    SPARK_CONTAINER,
    UNNAMED_EXECUTOR,
    ContainerState,
    PodContainer,
    PodManifest,
)

PODS: Final = 1
"""The key of the streams of pods."""
_SYNCS: Final = 14
_RPC: Final = 1


# creation


def create(
    tables: ClusterTables, name: str, label: str, profile: int, now: Millis, claims: tuple[str, ...] = (), owner: int = 0,
    ordinal: int = 0, shape: PodShape | None = None,
) -> PodRow:  # fmt: skip
    """The API accepted a pod: it begins its life. The name is free, the quota leaves room. ``shape`` None: the profile's."""
    uid = tables.uids.next()
    app = tables.plan.app
    rng = tables.stream(PODS, uid)
    rpc, _ = draw(split(rng, _RPC), tables.plan.description.executors.rpc)
    manifest = PodManifest(
        name=name,
        labels={APP_LABEL: app.app_id, ROLE_LABEL: EXECUTOR_ROLE, EXECUTOR_LABEL: label, PROFILE_LABEL: str(profile)},
        created_at=format_instant(now),
        restart_policy="Always" if owner else "Never",
        claims=claims,
        phase="Pending",
        namespace=app.namespace,
        uid=_uuid(rng),
    )
    manifest = publish(tables, None, manifest, uid, now)
    tables.count("pods.created")
    executor = "" if label == UNNAMED_EXECUTOR else label
    row = PodRow(
        uid, name, label, profile, Life.CREATED, manifest, rng, executor=executor, rpc_ms=rpc, owner=owner,
        ordinal=ordinal, shape=shape or tables.plan.shape(profile),
    )  # fmt: skip
    return enter(tables, row, Life.CREATED, now)


def _uuid(rng: Stream) -> str:
    text = f"{split(rng, 2):016x}{split(rng, 3):016x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"


def show(tables: ClusterTables, pod: PodRow, manifest: PodManifest, now: Millis) -> PodRow:
    """Change what the API shows of a pod."""
    pod = pod._replace(manifest=publish(tables, pod.manifest, manifest, pod.uid, now))
    tables.put_pod(pod)
    return pod


# stages


def enter(tables: ClusterTables, pod: PodRow, life: Life, now: Millis) -> PodRow:
    """Enter a state: the stage that will end it is drawn. Returns the pod as it is kept."""
    tables.cancel(pod.timer)
    at, place, rng = _choose(tables, pod, life, now)
    timer = 0 if at is None else tables.later(at, PodAgenda.STAGE, pod.uid, place)
    pod = pod._replace(life=life, rng=rng, timer=timer)
    tables.put_pod(pod)
    return pod


def _choose(tables: ClusterTables, pod: PodRow, life: Life, now: Millis) -> tuple[Millis | None, int, Stream]:
    """Which stage comes first, and when (None: the state lasts)."""
    plan, rng = tables.plan, pod.rng
    faulty, since = tables.faulty(now), now - tables.began
    at, chosen = None, 0
    choices = [(i, s) for i, s in plan.weighted.get(life, ()) if _applies(tables, pod, s, faulty, now)]
    choices = [(i, s) for i, s in choices if s.during.active(since)]
    if choices:
        which = 0
        if len(choices) > 1:
            which, rng = pick(rng, tuple(s.weight for _, s in choices))
        chosen, stage = choices[which]
        delay, rng = draw(rng, stage.delay)
        if stage.jitter_ms:
            u, rng = unit(rng)
            delay += int(u * (stage.jitter_ms + 1))
        at = now + delay
    for place, stage in plan.rated.get(life, ()):
        if not _applies(tables, pod, stage, faulty, now):
            continue
        assert stage.per_hour is not None
        wait, rng = draw_active_ms(rng, stage.per_hour)
        when = stage.during.after(since, max(1, wait))
        if when is None or (stage.fault and not tables.faulty(tables.began + when)):
            continue
        if at is None or tables.began + when < at:
            at, chosen = tables.began + when, place
    return at, chosen, rng


def _applies(tables: ClusterTables, pod: PodRow, stage: PodStage, faulty: bool, now: Millis) -> bool:
    if stage.fault and not faulty:
        return False
    if stage.profiles and pod.profile not in stage.profiles:
        return False
    if stage.image is Image.ANY and not stage.groups:
        return True
    node = tables.nodes.get(pod.node)
    if stage.groups and (node is None or tables.plan.description.groups[node.group].name not in stage.groups):
        return False
    present = node is not None and 0 <= node.image_at <= now
    return stage.image is Image.ANY or present is (stage.image is Image.PRESENT)


def container(tables: ClusterTables, state: ContainerState) -> tuple[PodContainer, ...]:
    """The status of the pod's one container."""
    return (PodContainer(SPARK_CONTAINER, tables.plan.description.executors.image, state),)


def sync(tables: ClusterTables, number: int, now: Millis) -> None:
    """A controller has something to look at: it will, if it is not about to already."""
    row = tables.sets.get(number)
    if row is None or row.sync:
        return
    stream = tables.stream(_SYNCS, tables.syncs.next())
    delay, _ = draw(stream, tables.plan.description.controllers)
    tables.sets.put(number, row._replace(sync=tables.later(now + max(1, delay), PodAgenda.SYNC, number)))


def relabel(tables: ClusterTables, pod: PodRow, key: str, value: str, now: Millis) -> PodRow:
    """A patch sets a label of a pod."""
    if pod.manifest.labels.get(key) == value:
        return pod
    manifest = pod.manifest._replace(labels={**pod.manifest.labels, key: value})
    label = value if key == EXECUTOR_LABEL else pod.label
    return show(tables, pod._replace(label=label), manifest, now)
