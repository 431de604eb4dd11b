"""What a config cannot beat, whatever the executors do: bounds that spare a search simulations.

The tasks of an application take their time on any executors, and what waits for one another stays in order. So with so
many slots in all an application takes at least

- the longest chain: a job begins when those before it have ended and the driver has thought, a stage when its parents are
  complete, and no stage is shorter than its longest task, nor than its work shared among all slots; and
- all of its work shared among all slots.

And the executors that do the work are paid for while they do it: work over slots of one executor, in executor time. Both
hold for any start-up, any idling and any luck, and so no config that they rule out is missed. Stages that have run already
(skipped ones) and tasks that never ended well count nothing; lags between stages are left out, though most of them stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from podtide.domain.base.units import Millis
from podtide.domain.recorded.application import Application


@dataclass(frozen=True, slots=True)
class _Stage:
    stage: int
    parents: tuple[int, ...]
    work_ms: Millis
    longest_ms: Millis


@dataclass(frozen=True, slots=True)
class _Job:
    job: int
    after: tuple[int, ...]
    think_ms: Millis
    stages: tuple[_Stage, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """The work of an application: its jobs in order of submission, and what all tasks take together."""

    jobs: tuple[_Job, ...]
    work_ms: Millis
    _known: dict[int, Millis] = field(default_factory=dict, repr=False, compare=False)

    def runtime_floor_ms(self, slots: int | None) -> Millis:
        """The least run time with so many slots in all; None: as many as one likes."""
        key = 0 if slots is None else max(1, slots)
        if key not in self._known:
            shared = 0 if slots is None else -(-self.work_ms // key)
            self._known[key] = max(self._chain_ms(None if slots is None else key), shared)
        return self._known[key]

    def executor_floor_ms(self, slots: int) -> Millis:
        """The least executor time with executors of so many slots each."""
        return self.work_ms // max(1, slots)

    def _chain_ms(self, slots: int | None) -> Millis:
        ended: dict[int, Millis] = {}  # jobs
        complete: dict[int, Millis] = {}  # stages
        for job in self.jobs:
            begun = max((ended.get(one, 0) for one in job.after), default=0) + job.think_ms
            last = begun
            for stage in job.stages:
                takes = stage.longest_ms
                if slots is not None:
                    takes = max(takes, -(-stage.work_ms // slots))
                ready = max((complete.get(parent, 0) for parent in stage.parents), default=0)
                complete[stage.stage] = max(begun, ready) + takes
                last = max(last, complete[stage.stage])
            ended[job.job] = last
        return max(ended.values(), default=0)


def work_of(application: Application) -> Work:
    """The work of an application as recorded. One pass over its tasks."""
    by_id = {}
    for one in application.stages:
        bodies = one.body_ms
        work = sum(bodies) + bodies.count(-1)  # a task without success is -1 and counts nothing
        by_id[one.stage] = _Stage(one.stage, one.parents, work, max(0, max(bodies, default=0)))
    jobs = tuple(
        _Job(
            job.job,
            job.after,
            max(0, job.think_ms),
            tuple(by_id[stage] for stage in job.stages if stage in by_id),
        )
        for job in application.jobs
    )
    return Work(jobs, sum(stage.work_ms for stage in by_id.values()))
