"""What the document of a what-if says without being asked for a variant: how fast it could be, counts of executors, settings
that are worth trying, and stages in trouble.

Part of ``views.whatif.model``, whose units and rules hold here.
"""

from __future__ import annotations

from msgspec import Struct

Span = tuple[float, float]


class PathStageEntry(Struct, frozen=True):
    """A stage on the critical path: its longest task, and the driver's time between it and what came before it."""

    stage: int
    name: str = ""
    tasks: int = 0
    longest_s: float = 0.0
    driver_s: float = 0.0


class IdealEntry(Struct, frozen=True, kw_only=True):
    """The critical path: the run time with executors without end that are there at once. ``tasks_s``: of the longest tasks
    of its stages; ``driver_s``: of the driver between, before and after them (``after_s``); ``path``: its stages in order,
    bounded, of ``path_stages``."""

    runtime_s: float
    tasks_s: float
    driver_s: float
    after_s: float
    path_stages: int
    path: tuple[PathStageEntry, ...] = ()


class PointEntry(Struct, frozen=True, kw_only=True):
    """A count of executors, or a config, simulated: as in a variant. ``cost``: None without prices."""

    executors: int
    runtime_s: float | None
    runtime_range_s: Span | None = None
    executor_seconds: float
    executor_seconds_range: Span | None = None
    cost: float | None = None
    cost_range: Span | None = None
    peak_executors: float = 0
    idle_share: float | None = None
    unfinished: str | None = None


class SingleEntry(Struct, frozen=True, kw_only=True):
    """With one executor. ``how``: ``rerun`` (simulated, one static executor) or ``bound`` (all work over its slots: it takes
    no less)."""

    how: str
    runtime_s: float | None
    runtime_range_s: Span | None = None


class CountCurveEntry(Struct, frozen=True, kw_only=True):
    """The application over counts of executors: ``setting`` is ``static`` or the key of the maximum."""

    setting: str
    points: tuple[PointEntry, ...]


class TrialEntry(Struct, frozen=True, kw_only=True):
    """A setting that is worth trying. ``reason``: ``saves`` or ``faster``; ``saving``: as of a recommendation of tune;
    ``point``: what comes of it, ``executors`` being its peak."""

    name: str
    reason: str
    text: str
    conf: dict[str, str | None] = {}
    static: int | None = None
    saving: dict[str, str | float] = {}
    point: PointEntry


class OverviewEntry(Struct, frozen=True, kw_only=True):
    """What is said without a variant. ``measure``: by what settings were compared besides time; ``trials``: those that are
    worth trying, the best first; ``verdict``: that none is, and why; ``seeds``: runs of each count; ``simulations``: all."""

    single: SingleEntry | None = None
    curves: tuple[CountCurveEntry, ...] = ()
    measure: str
    trials: tuple[TrialEntry, ...] = ()
    verdict: str | None = None
    seeds: int = 1
    simulations: int = 0
    notes: tuple[str, ...] = ()


class SkewEntry(Struct, frozen=True, kw_only=True):
    """A stage with skew: its longest task, its median one, and what the run would have taken less with even tasks; None
    where that was not simulated."""

    stage: int
    name: str = ""
    tasks: int = 0
    longest_s: float
    median_s: float
    costs_s: float | None = None

    @property
    def times(self) -> float:
        """How many times the median task the longest is; 0 where the median is nothing."""
        return self.longest_s / self.median_s if self.median_s > 0 else 0.0


class FailureReasonEntry(Struct, frozen=True):
    """How often a reason was met. ``detail``: the class of an exception, why an executor was lost or a task killed."""

    reason: str
    detail: str = ""
    count: int = 0


class FailedStageEntry(Struct, frozen=True, kw_only=True):
    """A stage with tries of tasks that did not count (``tries``), or attempts that failed, by reason; ``attempts``: of the
    stage in all; ``recomputed``: tasks that ran again because their output was lost."""

    stage: int
    name: str = ""
    tasks: int = 0
    attempts: int = 1
    failed_attempts: int = 0
    tries: int = 0
    recomputed: int = 0
    reasons: tuple[FailureReasonEntry, ...] = ()


class TroublesEntry(Struct, frozen=True, kw_only=True):
    """Stages with skew, the dearest first, and stages with tries or attempts that did not count, the most first; bounded, of
    ``skewed_stages`` and ``failed_stages``. ``reasons``: of all stages together."""

    skewed: tuple[SkewEntry, ...] = ()
    skewed_stages: int = 0
    failed: tuple[FailedStageEntry, ...] = ()
    failed_stages: int = 0
    reasons: tuple[FailureReasonEntry, ...] = ()
