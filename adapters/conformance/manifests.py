"""The pods of recorded scenarios, as manifests.

Scenarios write a pod briefly: ``{"id": 7, "phase": "Running", "createdAt": 1000}``. There are two dialects, of the
allocator's scenarios and of all others, and one reading serves both: what only one of them knows (the claims and the
exit code beside the phase in one; containers, labels, missing spec or status in the other) means nothing in the other
and is not found there. Times are milliseconds or the API's text; numbers become the text that Java makes of them.

The shapes of a scenario's lines are checked before it runs; what slips through (a pod that is no object, a container
list that is none) is a ``ShapeError``, which says what was expected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from podtide.domain.jvm.instants import java_instant
from podtide.domain.jvm.values import double_text
from podtide.domain.protocol import pods
from podtide.domain.protocol.pods import ContainerState, PodContainer, PodManifest

_KINDS: Final = frozenset({pods.RUNNING, pods.WAITING, pods.TERMINATED})


class ShapeError(ValueError):
    """A value of a scenario is not of the kind that its place takes; the message says which and what was expected."""


def manifest(pod: Mapping[str, Any], app_id: str) -> PodManifest:
    """The manifest of a scenario's pod. Raises ShapeError."""
    if not isinstance(pod, Mapping):
        raise ShapeError(f"expected an object for a pod, got {pod!r:.60}")
    number = None if pod.get("id") is None else java_text(pod["id"])
    name = (
        java_text(pod["name"], none=None) if "name" in pod else f"exec-{number if number is not None else _absent(pod)}"
    )
    has_status = not java_bool(pod.get("noStatus"))
    return PodManifest(
        name=name or "",
        labels=_labels(pod, number, app_id),
        created_at=time_text(pod.get("createdAt")),
        deleted_at=time_text(pod.get("deletionTimestamp")),
        restart_policy=_text(pod, "restartPolicy"),
        claims=tuple(java_text(claim) or "" for claim in _list(pod, "pvcs")),
        phase=_text(pod, "phase") if has_status else None,
        reason=_text(pod, "reason") if has_status else None,
        message=_text(pod, "message") if has_status else None,
        containers=_containers(pod) if has_status else (),
        has_spec=not java_bool(pod.get("noSpec")),
        has_status=has_status,
    )


def _absent(pod: Mapping[str, Any]) -> str:
    """What Java makes of an id that is null (its text) or not there (nothing), in a name."""
    return "null" if "id" in pod else ""


def _labels(pod: Mapping[str, Any], number: str | None, app_id: str) -> dict[str, str]:
    labels = {} if number is None else {pods.EXECUTOR_LABEL: number}
    labels[pods.APP_LABEL] = app_id
    labels[pods.ROLE_LABEL] = pods.EXECUTOR_ROLE
    if pod.get("rp", 0) is not None:
        labels[pods.PROFILE_LABEL] = java_text(pod.get("rp", 0)) or "0"
    if java_bool(pod.get("inactive")):
        labels[pods.INACTIVE_LABEL] = "true"
    own = pod.get("labels") or {}
    if not isinstance(own, Mapping):
        raise ShapeError(f"expected an object for the labels of a pod, got {own!r:.60}")
    for key, value in own.items():
        labels[key] = java_text(value)
    return labels


def _containers(pod: Mapping[str, Any]) -> tuple[PodContainer, ...]:
    if "containers" not in pod and "exitCode" in pod:  # the allocator's dialect
        ended = ContainerState(pods.TERMINATED, java_int(pod["exitCode"]))
        return (PodContainer(pods.SPARK_CONTAINER, None, ended),)
    return tuple(_container(container) for container in _list(pod, "containers"))


def _container(container: Any) -> PodContainer:
    if not isinstance(container, Mapping):
        raise ShapeError(f"expected an object for a container, got {container!r:.60}")
    name = _text(container, "name") or ""
    image = _text(container, "image")
    if "state" in container and container["state"] is None:
        return PodContainer(name, image, None)
    implied = pods.TERMINATED if "exitCode" in container else pods.RUNNING
    kind = java_text(container["state"]) if "state" in container else implied
    if kind not in _KINDS:
        return PodContainer(name, image, ContainerState())
    if kind == pods.RUNNING:
        return PodContainer(name, image, ContainerState(pods.RUNNING, started_at=_text(container, "startedAt")))
    if kind == pods.WAITING:
        return PodContainer(name, image, ContainerState(pods.WAITING, reason=_text(container, "reason")))
    code = container.get("exitCode")
    return PodContainer(
        name,
        image,
        ContainerState(
            pods.TERMINATED,
            None if code is None else java_int(code),
            _text(container, "reason"),
            _text(container, "startedAt"),
            _text(container, "finishedAt"),
        ),
    )


def time_text(value: Any) -> str | None:
    """A time of a scenario as the API's text: text stays, milliseconds become ``Instant.toString()``."""
    if value is None or isinstance(value, str):
        return value
    return java_instant(java_int(value))


def java_text(value: Any, none: str | None = "null") -> str:
    """What Jackson's ``asText()`` makes of a JSON value; an object or a list has no text."""
    if isinstance(value, str):
        return value
    if value is None:
        return none or ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return double_text(value)
    return ""


def java_bool(value: Any) -> bool:
    """What Jackson's ``asBoolean()`` makes of a JSON value: true, numbers but 0, and the text "true"."""
    if isinstance(value, str):
        return value.strip() == "true"
    return isinstance(value, bool | int) and value != 0


def java_int(value: Any) -> int:
    """A JSON number as a whole one. Raises ShapeError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ShapeError(f"expected a whole number, got {value!r:.60}")
    return value


def _text(owner: Mapping[str, Any], key: str) -> str | None:
    value = owner.get(key)
    return None if value is None else java_text(value)


def _list(owner: Mapping[str, Any], key: str) -> list[Any]:
    value = owner.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ShapeError(f"expected a list for {key!r}, got {value!r:.60}")
    return value
