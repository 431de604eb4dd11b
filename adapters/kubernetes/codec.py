"""The API server's JSON as values of the domain: lists of pods and events of a watch.

Bytes are decoded into partial structs: only what Spark looks at of a pod is made into objects, all the rest (managed
fields, environment, volumes of other kinds) is skipped by the decoder. That is what makes a list of thousands of pods
cheap. Nothing is put right on the way: a pod without a status has none, a container without a state has none, a text that
is there is the API's own.

What comes is not trusted. A value of the wrong type, a number beyond its range, nesting without end, bytes that are no
JSON: each is an ``UnreadableBody`` that says where and what was expected. Nothing here raises. How long a body or a line
may be is the business of whoever reads it.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta, Struct, field

from podtide.adapters.kubernetes.status import ApiStatus, StatusWire, UnreadableBody, api_status, decoded
from podtide.domain.protocol.pods import RUNNING, TERMINATED, WAITING, ContainerState, PodContainer, PodManifest

_Int32: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]


# ------------------------------------------------------------------------------------------------ the wire, partially


class _Part(Struct, gc=False, rename="camel"):
    """An object of the API of which only some fields are looked at; each of them may be absent or null."""


class _Meta(_Part):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None


class _ClaimSource(_Part):
    claim_name: str | None = None


class _Volume(_Part):
    persistent_volume_claim: _ClaimSource | None = None


class _PodSpec(_Part):
    restart_policy: str | None = None
    node_name: str | None = None
    volumes: list[_Volume] | None = None


class _Running(_Part):
    started_at: str | None = None


class _Waiting(_Part):
    reason: str | None = None


class _Terminated(_Part):
    exit_code: _Int32 | None = None
    reason: str | None = None
    started_at: str | None = None
    finished_at: str | None = None


class _State(_Part):
    running: _Running | None = None
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(_Part):
    name: str | None = None
    image: str | None = None
    state: _State | None = None


class _PodStatus(_Part):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    container_statuses: list[_ContainerStatus] | None = None


class _Pod(_Part):
    metadata: _Meta | None = None
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


class _ListMeta(_Part):
    resource_version: str | None = None
    more: str | None = field(name="continue", default=None)


class _PodList(_Part):
    items: list[_Pod] | None
    metadata: _ListMeta | None = None


class _Event(_Part, tag_field="type"):
    pass


class _Added(_Event, tag="ADDED"):
    object: _Pod


class _Modified(_Event, tag="MODIFIED"):
    object: _Pod


class _Deleted(_Event, tag="DELETED"):
    object: _Pod


class _BookmarkObject(_Part):
    metadata: _Meta | None = None


class _Bookmark(_Event, tag="BOOKMARK"):
    object: _BookmarkObject


class _Error(_Event, tag="ERROR"):
    object: StatusWire


_NO_META: Final = _Meta()

_POD_LIST: Final = msgspec.json.Decoder(_PodList)
_EVENT: Final = msgspec.json.Decoder(_Added | _Modified | _Deleted | _Bookmark | _Error)


# -------------------------------------------------------------------------------------------------------------- pods


def _manifest(pod: _Pod) -> PodManifest:
    meta, spec, status = pod.metadata or _NO_META, pod.spec, pod.status
    claims: tuple[str, ...] = ()
    if spec is not None and spec.volumes:
        sources = [volume.persistent_volume_claim for volume in spec.volumes]
        claims = tuple([source.claim_name for source in sources if source is not None and source.claim_name])
    containers: tuple[PodContainer, ...] = ()
    if status is not None and status.container_statuses:
        containers = tuple([_container(container) for container in status.container_statuses])
    return PodManifest(
        meta.name or "",
        meta.labels or {},
        meta.creation_timestamp,
        meta.deletion_timestamp,
        None if spec is None else spec.restart_policy,
        claims,
        None if status is None else status.phase,
        None if status is None else status.reason,
        None if status is None else status.message,
        containers,
        spec is not None,
        status is not None,
        meta.namespace or "default",
        meta.resource_version or "",
        meta.uid or "",
        None if spec is None else spec.node_name,
    )


def _container(status: _ContainerStatus) -> PodContainer:
    return PodContainer(status.name or "", status.image, None if status.state is None else _state(status.state))


def _state(state: _State) -> ContainerState:
    """The API sets one of three; should there be more, the one by which Spark decides comes first."""
    if (ended := state.terminated) is not None:
        return ContainerState(TERMINATED, ended.exit_code, ended.reason, ended.started_at, ended.finished_at)
    if (running := state.running) is not None:
        return ContainerState(RUNNING, started_at=running.started_at)
    if (waiting := state.waiting) is not None:
        return ContainerState(WAITING, reason=waiting.reason)
    return ContainerState()


class PodPage(NamedTuple):
    """A list of pods, or a page of one. ``version``: of the list; "" without one. ``more``: the continue token of the
    next page, "" after the last.
    """

    pods: tuple[PodManifest, ...]
    version: str
    more: str = ""


def read_pods(body: bytes) -> PodPage | UnreadableBody:
    """The manifests of a list of pods."""
    page = decoded(_POD_LIST, body, "a list of pods")
    if isinstance(page, UnreadableBody):
        return page
    meta = page.metadata or _ListMeta()
    return PodPage(tuple([_manifest(pod) for pod in page.items or ()]), meta.resource_version or "", meta.more or "")


EventKind: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


class Event(NamedTuple):
    """One event of a watch. ``pod``: of the first three kinds. ``version``: the resource version up to which all is
    known with it. ``status``: of an ERROR.
    """

    kind: EventKind
    version: str = ""
    pod: PodManifest | None = None
    status: ApiStatus | None = None


def read_event(line: bytes) -> Event | UnreadableBody:
    """The event of one line of a watch of pods."""
    event = decoded(_EVENT, line, "an event of the watch")
    if isinstance(event, UnreadableBody):
        return event
    if isinstance(event, _Bookmark):
        return Event("BOOKMARK", (event.object.metadata or _NO_META).resource_version or "")
    if isinstance(event, _Error):
        return Event("ERROR", status=api_status(event.object))
    kind: EventKind = (
        "MODIFIED" if isinstance(event, _Modified) else "ADDED" if isinstance(event, _Added) else "DELETED"
    )
    return Event(kind, (event.object.metadata or _NO_META).resource_version or "", _manifest(event.object))
