"""What a cluster file says of things that are real on an embedded cluster: refused, since it would be ignored.

On the fake cluster a file describes the API server, the nodes and the pods, and also the clients and the executors, which
are models there. Here Spark, kubectl and podtide are themselves, and so are the requests of pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from podtide.domain.fakes.kubernetes.description import KIND, Description

_Said: TypeAlias = tuple[str, Any, Any, str]
"""A key, what the description says, the default, and what was expected."""

_CLIENT: Final = "nothing: the clients are real here, and do as they do"
_POD: Final = "nothing: pods say it themselves here"
_DRIVER: Final = "nothing: the driver is real here"
_PROMPT: Final = "nothing: controllers act at once here"


def hollow_problems(description: Description) -> tuple[tuple[str, str], ...]:
    """What a cluster with hollow pods cannot do of a description that can be played: (key, what was expected)."""
    return _differing(_rows(description))


def process_problems(description: Description) -> tuple[tuple[str, str], ...]:
    """What a cluster whose pods are processes cannot do of it: they live as they do, on nodes that stay."""
    return _differing((*_rows(description), *_life(description)))


def _differing(rows: Iterable[_Said]) -> tuple[tuple[str, str], ...]:
    return tuple((key, expected) for key, said, default, expected in rows if said != default)


def _rows(description: Description) -> Iterator[_Said]:
    api, usual = description.api, KIND.api
    yield "api.serial", api.serial, usual.serial, _CLIENT
    yield "api.retries", api.retries, usual.retries, _CLIENT
    yield "api.backoff", api.backoff_ms, usual.backoff_ms, _CLIENT
    yield "watch.relists", description.watch.relists, KIND.watch.relists, _CLIENT
    executors, common = description.executors, KIND.executors
    yield "executors.cpu", executors.shape.cpu_millis, common.shape.cpu_millis, _POD
    yield "executors.memory", executors.shape.memory_mib, common.shape.memory_mib, _POD
    yield "executors.profiles", executors.profiles, common.profiles, _POD
    yield "executors.image", executors.image, common.image, _POD
    yield "executors.grace", executors.grace_ms, common.grace_ms, _POD
    yield "executors.decommission", executors.decommission, common.decommission, _POD
    yield "executors.rpc", executors.rpc, common.rpc, _DRIVER
    yield "executors.silence", executors.silence_ms, common.silence_ms, _DRIVER
    yield "driver", description.driver, KIND.driver, _DRIVER
    yield "controllers", description.controllers, KIND.controllers, _PROMPT


def _life(description: Description) -> Iterator[_Said]:
    stages, usual = description.executors.stages, KIND.executors.stages
    yield "stages", stages, usual, "nothing: processes live as they do (--hollow pods follow stages)"
    yield "nodes.groups", description.groups, KIND.groups, "nothing: --nodes and --pods-per-node say it for processes"
    for key, said, default in (
        ("events", description.node_events, KIND.node_events),
        ("orphaned", description.orphaned_ms, KIND.orphaned_ms),
        ("scan", description.scan_ms, KIND.scan_ms),
    ):
        yield f"nodes.{key}", said, default, "nothing: nodes stay as they are with processes"
