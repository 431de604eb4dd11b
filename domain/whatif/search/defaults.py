"""Which settings are worth a search for an application, and which values of them, when nobody says.

Most values of a setting make no difference to an application: a maximum above what its tasks could keep busy, an idle
timeout longer than its longest pause. So the grid is made from what the runs show:

- ``need``: the most executors that the tasks of stages that were under way together could keep busy; ``peak``: the most
  that were there; ``mean``: executor-seconds over run time. Counts are a ladder around the peak, at most four times of it
  and never above the need.
- A minimum and a first target are tried at nothing, at what the runs have, and at shares of mean and peak.
- Timeouts are ladders of the values that people set, within a share of the shortest run.
- The executor's shape is varied where that is asked for (``shaped``: only money or core-hours compare shapes), the conf says
  it in whole cores (``spark.executor.cores``, or a manager whose default is one core), all runs have the same, and only the
  default profile is used; half of it and twice of it, whole tasks, memory per core kept. What tasks of another shape would
  need is not in a log that shows them short of memory (they spilled, or ended for want of it): there it stays.
- Less memory is tried where the evidence of every log carries it (``whatif.memory``), in the place of another shape: the
  evidence is of the executors that ran.
- On Kubernetes the batches are tried where the peak does not fit into one; on YARN the heartbeat, with which executors are
  let go: a second is what a resource manager stands, and three are Spark's.

An application that ran without dynamic allocation is tried with it (``always``), shuffle tracking on unless something else
keeps its shuffle data. Static counts stand beside the grid as something to compare with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil
from typing import Final

from podtide.domain.base.units import DEFAULT_PROFILE, Millis
from podtide.domain.conf.scaling_config import (
    BACKLOG,
    DECOMMISSION,
    ENABLED,
    INITIAL,
    INSTANCES,
    MAX,
    MIN,
    RATIO,
    SERVICE,
    SHUFFLE_BLOCKS,
    SUSTAINED,
    TRACKING,
)
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.plan import EXECUTORS_MAX, ExecutorShape
from podtide.domain.whatif.memory import MemoryFinding, memory_finding
from podtide.domain.whatif.search.pareto import spread
from podtide.domain.whatif.search.space import (
    CORES,
    MEMORY_KEYS,
    Axis,
    Change,
    Space,
    first_target,
    in_order,
    settled,
    whole,
)

IDLE: Final = "spark.dynamicAllocation.executorIdleTimeout"
BATCH: Final = "spark.kubernetes.allocation.batch.size"
DELAY: Final = "spark.kubernetes.allocation.batch.delay"
HEARTBEAT: Final = "spark.yarn.scheduler.heartbeat.interval-ms"
CPUS: Final = "spark.task.cpus"
REQUEST_CORES: Final = "spark.kubernetes.executor.request.cores"

MAX_SHARES: Final = (0.25, 0.375, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)
OF_PEAK: Final = 16
"""How many times the peak a count of ``count_ladder`` may be."""

STATIC_SHARES: Final = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
"""Of the peak."""

IDLE_S: Final = (3, 5, 10, 20, 30, 60, 120, 300, 600)
IDLE_SHARE: Final = 3
IDLE_VALUES: Final = 5
BACKLOG_S: Final = (1, 2, 5, 10, 30)
BACKLOG_SHARE: Final = 20
BACKLOG_VALUES: Final = 4
"""Seconds, up to the run time over the share; at most so many values."""

RATIOS: Final = ("1.0", "0.75", "0.5", "0.25")
BATCHES: Final = (5, 10, 20, 50, 100, 200, 500)
DELAYS: Final = ("500ms", "1s")
HEARTBEATS: Final = ("1s", "3s")
UNBOUNDED: Final = 100_000
"""A maximum that is no bound."""

CORES_MAX: Final = 32


SHORT_SHARE: Final = 0.05
"""Of the task time in stages that spilled: less does not speak against another shape."""


@dataclass(frozen=True, slots=True)
class Footing:
    """What a run shows of itself; counts are executors of the shape that it had."""

    conf: SparkConf
    need: int
    peak: int
    mean: float
    runtime_ms: Millis
    default_profile_only: bool
    memory: MemoryFinding | None = None

    @property
    def short(self) -> bool:
        """Whether its tasks were short of memory."""
        found = self.memory
        return found is not None and (found.spill_share >= SHORT_SHARE or found.losses.any)

    @property
    def spare(self) -> Mapping[str, str]:
        """Settings of less memory that its log carries."""
        found = self.memory
        return (
            found.changes if found is not None and not found.stages and not self.short and found.saved_share > 0 else {}
        )


def footing(application: Application, conf: SparkConf) -> Footing:
    """What a run shows of itself. ``conf``: that it had."""
    cpus = settled(conf, CPUS)
    cores = max([whole(conf, CORES), *(one.cores for one in application.executors)])
    slots = max(1, int(cores // cpus)) if isinstance(cpus, Decimal) and cpus > 0 else 1
    peak = max(1, application.peak_executors)
    return Footing(
        conf,
        max(1, ceil(_tasks_together(application) / slots)),
        peak,
        application.executor_ms / max(1, application.runtime_ms),
        application.runtime_ms,
        all(stage.profile == DEFAULT_PROFILE for stage in application.stages),
        memory_finding(application, conf, ExecutorShape(slots, max(1, cores), 0)),
    )


def default_space(runs: Sequence[Footing], *, shaped: bool = True, priced: bool = True) -> Space:
    """The grid for these runs (at least one) of an application.

    ``shaped``: executors of another shape may be tried; ``priced``: and less memory, which saves nothing but money.
    """
    confs = tuple(run.conf for run in runs)
    need, peak = max(run.need for run in runs), max(run.peak for run in runs)
    mean = max(run.mean for run in runs)
    top = max(1, min(need, 4 * peak))
    maxima = [whole(conf, MAX) for conf in confs]
    counts = _counts([share * peak for share in MAX_SHARES] + [m for m in maxima if 0 < m <= UNBOUNDED], top)
    shortest_s = min(run.runtime_ms for run in runs) // 1000
    axes = [
        Axis(MAX, _texts(counts), per_core=True),
        Axis(MIN, _texts({0, *_counts([mean / 2, mean], top), *(whole(conf, MIN) for conf in confs)}), per_core=True),
        Axis(
            INITIAL,
            _texts({*_counts([peak / 2, peak], top), *(first_target(conf) for conf in confs)}),
            per_core=True,
        ),
        Axis(IDLE, _seconds(IDLE_S, shortest_s // IDLE_SHARE, IDLE_VALUES, confs, IDLE)),
        Axis(BACKLOG, _seconds(BACKLOG_S, shortest_s // BACKLOG_SHARE, BACKLOG_VALUES, confs, BACKLOG)),
        Axis(RATIO, _with_settled(RATIOS, confs, RATIO)),
    ]
    if any(conf.setting(SUSTAINED) is not None for conf in confs):
        axes.append(Axis(SUSTAINED, _seconds(BACKLOG_S, shortest_s // BACKLOG_SHARE, BACKLOG_VALUES, confs, SUSTAINED)))
    if shaped and all(run.default_profile_only for run in runs):
        axes.extend(_sizes(runs, priced=priced))
    if all(conf.master.startswith("k8s://") for conf in confs) and top > min(whole(conf, BATCH) for conf in confs):
        sizes = {size for size in BATCHES if size < 2 * top} | {whole(conf, BATCH) for conf in confs}
        axes += [Axis(BATCH, _texts(sizes)), Axis(DELAY, _with_settled(DELAYS, confs, DELAY))]
    if all(conf.master.startswith("yarn") for conf in confs):
        axes.append(Axis(HEARTBEAT, _with_settled(HEARTBEATS, confs, HEARTBEAT)))
    statics = tuple(sorted(_counts([share * peak for share in STATIC_SHARES], max(top, peak))))
    return Space(confs, tuple(axes), statics, always(confs))


def count_ladder(run: Footing, most: int) -> tuple[int, ...]:
    """About ``most`` counts of executors from one to as many as its tasks could keep busy, each so many times the one
    before; the peak is one of them. No more than ``OF_PEAK`` times the peak: so far from what ran nothing is known."""
    top = min(run.need, OF_PEAK * run.peak, EXECUTORS_MAX)
    steps = max(1, most - 1)
    return tuple(sorted({round(top ** (step / steps)) for step in range(most)} | {min(run.peak, top)}))


def _sizes(runs: Sequence[Footing], *, priced: bool) -> list[Axis]:
    """What of an executor's size is tried: less memory, or other cores."""
    confs = [run.conf for run in runs]
    alike = priced and len({tuple(conf.setting(key) for key in MEMORY_KEYS) for conf in confs}) == 1
    spare = [
        Axis(key, _with_settled([_largest(key, runs), *([None] if confs[0].setting(key) is None else [])], confs, key))
        for key in MEMORY_KEYS
        if alike and all(key in run.spare for run in runs)
    ]
    if spare or any(run.short for run in runs):
        return spare
    shape = _shapes(confs)
    return [Axis(CORES, shape)] if shape else []


def _largest(key: str, runs: Sequence[Footing]) -> str:
    """The least memory that is enough for all runs."""
    return f"{max(int(run.spare[key].removesuffix('m')) for run in runs)}m"


def always(confs: Sequence[SparkConf]) -> tuple[Change, ...]:
    """What has to be changed in a conf of the runs so that dynamic allocation decides alone."""
    changes: dict[str, str | None] = {}
    if not all(settled(conf, ENABLED) is True for conf in confs):
        changes[ENABLED] = "true"
    for conf in confs:
        migrating = settled(conf, DECOMMISSION) is True and settled(conf, SHUFFLE_BLOCKS) is True
        if not (settled(conf, TRACKING) is True or settled(conf, SERVICE) is True or migrating):
            changes[TRACKING] = "true"
    if any(conf.setting(INSTANCES) is not None for conf in confs):
        changes[INSTANCES] = None  # it is a floor of the first target, which has an axis
    return tuple(sorted(changes.items()))


def _tasks_together(application: Application) -> int:
    """The most tasks of stages that were under way at one time."""
    moves: list[tuple[Millis, int]] = []
    for stage in application.stages:
        moves += [(stage.submitted_ms, stage.tasks), (max(stage.submitted_ms, stage.completed_ms), -stage.tasks)]
    most = together = 0
    for _, change in sorted(moves):  # what ends makes room before what begins at the same time
        together += change
        most = max(most, together)
    return most


def _counts(wanted: Iterable[float], top: int) -> set[int]:
    return {max(1, min(top, ceil(count))) for count in wanted}


def _texts(counts: Iterable[int]) -> tuple[str, ...]:
    return tuple(str(count) for count in sorted(set(counts)))


def _seconds(ladder: Sequence[int], longest: int, most: int, confs: Sequence[SparkConf], key: str) -> tuple[str, ...]:
    """Values of a ladder up to ``longest``, thinned out, and what the runs have."""
    within = [value for value in ladder if value <= longest] or [ladder[0]]
    chosen = {within[at] for at in spread(range(len(within)), most)}
    return tuple(f"{value}s" for value in sorted(chosen | {whole(conf, key) for conf in confs}))


def _with_settled(values: Sequence[str | None], confs: Sequence[SparkConf], key: str) -> tuple[str | None, ...]:
    """The values, and those that the runs have."""
    texts: list[str | None] = list(values)
    for conf in confs:
        setting = conf.setting(key)
        if setting is not None and settled(conf, key) is not None:
            texts.append(setting.value)
    return in_order(key, texts)


def _shapes(confs: Sequence[SparkConf]) -> tuple[str, ...]:
    """Cores of an executor to try; () where the shape is not to be changed."""
    known = [conf.setting(CORES) is not None or conf.master.startswith(("k8s://", "yarn")) for conf in confs]
    shapes = {(*(whole(conf, key) for key in (CORES, *MEMORY_KEYS)), settled(conf, CPUS)) for conf in confs}
    if not all(known) or len(shapes) > 1 or any(conf.setting(REQUEST_CORES) is not None for conf in confs):
        return ()
    cores, cpus = whole(confs[0], CORES), settled(confs[0], CPUS)
    if cores < 1 or not isinstance(cpus, Decimal) or cpus <= 0:
        return ()
    wanted = {cores, cores * 2} | ({cores // 2} if cores % 2 == 0 else set())
    fitting = sorted(
        count for count in wanted if count <= max(CORES_MAX, cores) and count >= cpus and count % cpus == 0
    )
    return tuple(map(str, fitting)) if len(fitting) > 1 else ()
