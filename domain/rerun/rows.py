"""The rows of a rerun under way, besides the schedulers' own: stages and jobs of the log."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from podtide.domain.base.units import NEVER, Millis, ProfileId
from podtide.domain.recorded.application import RecordedJob, RecordedStage
from podtide.domain.scheduler.rows import Stage


@dataclass(slots=True, eq=False, kw_only=True)
class RerunStage(Stage):
    """A stage of the log."""

    recorded: RecordedStage
    _skewed: bool | None = None

    def cut(self, tasks: int, bodies: array[int]) -> None:
        """Begin with these tasks: none of them is done."""
        self._skewed = None
        Stage.cut(self, tasks, bodies)

    @property
    def skewed(self) -> bool:
        """Whether the stage has skew."""
        if self._skewed is None:
            self._skewed = self.recorded.skewed
        return self._skewed


def stage_of(recorded: RecordedStage, profile: ProfileId) -> RerunStage:
    """A stage that has not been run yet."""
    return RerunStage(
        recorded.stage,
        profile,
        recorded.tasks,
        recorded.shuffle,
        recorded.body_ms,
        recorded.barrier,
        recorded.indeterminate,
        recorded.opening_ms,
        recorded=recorded,
    )


@dataclass(slots=True, eq=False)
class RerunJob:
    """A job. ``left``: its own stages that have not completed; ``waits``: jobs that it comes after; ``ids``: by shuffle, the
    id under which it lists the stage that writes it."""

    recorded: RecordedJob
    rows: tuple[RerunStage, ...] = ()
    left: set[int] = field(default_factory=set)
    waits: int = 0
    ids: dict[int, int] = field(default_factory=dict)
    started_ms: Millis = NEVER
    ended_ms: Millis = NEVER
