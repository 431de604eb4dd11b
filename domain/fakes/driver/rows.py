"""The rows of a fake driver, besides the schedulers' own: stages and jobs of the script, executors to come."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from podtide.domain.base.randomness import Stream
from podtide.domain.base.units import DEFAULT_PROFILE, Millis, ProfileId
from podtide.domain.fakes.driver.script import ScriptStage
from podtide.domain.scheduler.rows import Stage


class PendingExecutorRow(NamedTuple):
    """What is known of an executor before it is accepted. ``single_task``: it offers cores for one task only."""

    profile: ProfileId = DEFAULT_PROFILE
    single_task: bool = False
    address: str = ""


@dataclass(slots=True, eq=False, kw_only=True)
class DriverStage(Stage):
    """A stage of the script. One that writes a shuffle is that shuffle's, whichever jobs use it.

    ``jobs``: those under way that need it; none: what still runs of it is for nobody. ``luck``: the stream that its tasks
    branch off from. ``tries``: by partition, twice the tries before, and 1 if one succeeded. ``rdd``: what it caches.
    """

    script: ScriptStage
    luck: Stream
    jobs: set[int] = field(default_factory=set)
    tries: dict[int, int] = field(default_factory=dict)
    rdd: int | None = None

    def note_try(self, part: int, *, lost: bool = False) -> None:
        """One try more of a partition; ``lost``: it had succeeded."""
        self.tries[part] = self.tries.get(part, 0) + 2 | int(lost)


class Ending(Enum):
    """How a job ended, or where it was when the application did."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    RUNNING = "running"


@dataclass(slots=True, eq=False)
class DriverJob:
    """A job that started. ``first_task``: when its first task did. ``rows``: its stages, the last one last; none when it
    has ended."""

    number: int
    place: int
    run: int
    began: Millis
    rows: tuple[DriverStage, ...]
    first_task: Millis | None = None
    ended: Millis | None = None
    ending: Ending = Ending.RUNNING
