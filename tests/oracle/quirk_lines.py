"""The words in which quirks.py's scenarios are written: one function a line, times in milliseconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from tests.oracle import events
from tests.oracle.events import OPTIONAL, Dialect, Event, StageShape, TaskShape

Line: TypeAlias = dict[str, Any]
FULL: Final = Dialect()
OLDEST: Final = Dialect(frozenset(OPTIONAL))
SERVICE: Final = {"spark.shuffle.service.enabled": "true"}
SCENARIOS: Final[dict[str, list[Line]]] = {}


def header(conf: dict[str, str] | None = None, **more: Any) -> Line:
    """A header; keys without a dot are below spark.dynamicAllocation. Idle timeout 5 s, one core, if not said."""
    settings = {"executorIdleTimeout": "5s", "spark.executor.cores": "1"} | (conf or {})
    full = {key if "." in key else f"spark.dynamicAllocation.{key}": value for key, value in settings.items()}
    return {"conf": full, **more}


def scenario(name: str, head: Line, *lines: Line | Iterable[Line]) -> None:
    """Register a scenario; a line may be several."""
    flat: list[Line] = [head]
    for line in lines:
        flat.extend([line] if isinstance(line, dict) else line)
    SCENARIOS[f"quirk-{name}"] = flat


def at(ms: int, event: Event) -> Line:
    """An event."""
    return {"at": ms, "event": event}


def ticks(*moments: int) -> list[Line]:
    """Ticks."""
    return [{"at": ms, "tick": True} for ms in moments]


def every(start: int, stop: int, step: int = 100) -> list[Line]:
    """Ticks from start to stop, both included."""
    return ticks(*range(start, stop + 1, step))


def stage(ms: int, number: int, tasks: int, profile: int = 0, attempt: int = 0, **more: Any) -> Line:
    """StageSubmitted."""
    return at(ms, events.stage_submitted(FULL, StageShape(number, attempt, tasks, profile, **more), ms))


def completed(ms: int, number: int, attempt: int = 0) -> Line:
    """StageCompleted."""
    return at(ms, events.stage_completed(FULL, StageShape(number, attempt, 1), ms))


def executors(ms: int, *names: str, profile: int = 0) -> list[Line]:
    """ExecutorAdded of each."""
    return [at(ms, events.executor_added(FULL, name, profile, 1, ms)) for name in names]


def gone(ms: int, name: str, why: str = "Executor killed by driver.") -> Line:
    """ExecutorRemoved."""
    return at(ms, events.executor_removed(name, why, ms))


def task(number: int, where: str, index: int, executor: str, copy: bool = False, mapped: bool = False) -> TaskShape:
    """A task attempt; ``where`` is stage.attempt."""
    of, attempt = where.split(".")
    return TaskShape(number, int(of), int(attempt), index, executor, copy, mapped)


def start(ms: int, shape: TaskShape) -> Line:
    """TaskStart."""
    return at(ms, events.task_start(FULL, shape, ms))


def end(ms: int, shape: TaskShape, reason: str = "Success") -> Line:
    """TaskEnd."""
    return at(ms, events.task_end(FULL, shape, ms, reason))


def job(ms: int, number: int, *shuffles: int | None) -> Line:
    """JobStart of stages number*10, number*10+1, ..., each with the shuffle that it writes."""
    shapes = [StageShape(number * 10 + i, 0, 2, shuffle=shuffle) for i, shuffle in enumerate(shuffles)]
    return at(ms, events.job_start(FULL, number, shapes, ms))


def job_end(ms: int, number: int) -> Line:
    """JobEnd."""
    return at(ms, events.job_end(FULL, number, ms))


def block(ms: int, executor: str, name: str, disk: bool = False, memory: bool = True) -> Line:
    """BlockUpdated."""
    return at(ms, events.block_updated(executor, name, disk, memory))


def state(ms: int) -> Line:
    """A state line."""
    return {"at": ms, "state": True}
