"""What a cluster file says of things that are real on an embedded cluster: refused, since it would be ignored.

On the fake cluster a file describes the API server, the nodes and the pods, and also the clients and the executors, which
are models there. Here Spark, kubectl and podtide are themselves, and so are the requests of pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from podtide.domain.fakes.kubernetes.description import KIND, Description, Life

_Row: TypeAlias = tuple[str, Any, Any, str]
"""A key, what the description says, the default, and what was expected."""

KILLED: Final = 137
PROCESS_STEPS: Final[Mapping[Life, tuple[Life, ...]]] = {
    Life.CREATED: (Life.SCHEDULED, Life.HUNG),
    Life.SCHEDULED: (Life.PULLED, Life.HUNG),
    Life.PULLED: (Life.RUNNING, Life.HUNG),
    Life.RUNNING: (Life.REGISTERED, Life.FAILED, Life.HUNG),
    Life.REGISTERED: (Life.FAILED, Life.HUNG),
    Life.HUNG: (Life.REGISTERED, Life.FAILED),
}
"""What may be done to a process from outside: wait with it, kill it, stop it and let it go on."""

_CLIENT: Final = "nothing: the clients are real here, and do as they do"
_POD: Final = "nothing: pods say it themselves here"
_DRIVER: Final = "nothing: the driver is real here"
_PROMPT: Final = "nothing: controllers act at once here"


def hollow_problems(description: Description) -> tuple[tuple[str, str], ...]:
    """What a cluster with hollow pods cannot do of a description that can be played: (key, what was expected)."""
    return _differing(_rows(description))


def process_problems(description: Description) -> tuple[tuple[str, str], ...]:
    """What a cluster whose pods are processes cannot do of it: processes end by themselves, or are killed."""
    return _differing((*_rows(description), *_life(description)))


def _differing(rows: Iterable[_Row]) -> tuple[tuple[str, str], ...]:
    return tuple((key, expected) for key, value, default, expected in rows if value != default)


def _rows(description: Description) -> Iterator[_Row]:
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


def _life(description: Description) -> Iterator[_Row]:
    """Stages of processes: they are waited for, killed or made to stand still; how they end otherwise is theirs."""
    usual = {stage.name: stage for stage in KIND.executors.stages}
    for stage in description.executors.stages:
        if stage == usual.get(stage.name):
            continue
        where = f"stages.{stage.name}"
        ways = PROCESS_STEPS.get(stage.source, ())
        names = ", ".join(life.value for life in ways) or "nothing"
        yield (
            f"{where}.next",
            stage.next in ways,
            True,
            f"{names} (from {stage.source.value}): the rest is the process's",
        )
        if stage.next is Life.FAILED:
            killed = {code for code, weight in stage.exits if weight} == {KILLED}
            yield f"{where}.exits", killed, True, "{137: 1}: a process is killed (--hollow pods may have any)"
        for key, text in (("reason", stage.reason), ("message", stage.message)):
            yield f"{where}.{key}", text, None, "nothing: kubelets of processes say what happened"
    missing = [name for name in usual if name not in {stage.name for stage in description.executors.stages}]
    for name in missing:
        yield f"stages.{name}", name, None, "nothing: a stage of processes cannot be taken away"
