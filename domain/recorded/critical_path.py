"""The ideal time of an application: its critical path, which no number of executors shortens.

With executors without end that are there from the start, a stage takes as long as its longest task, and what waits for one
another stays in order, as recorded: a job is submitted when those before it have ended and the driver's program has gone on
(``think_ms``), a stage when its parents are complete (a parent that was skipped is the stage that wrote its shuffle), each
with the lags that the log shows; the application ends as long after its last job as it did. The *critical path* is the chain
that ends last: the stages on it by their longest tasks, and the time of the driver between them in which nothing else on the
chain ran. What the driver does while another chain runs is not on it.

The measure is Sparklens's "critical path" (the least time of an application with unlimited executors, where each stage takes
as long as its largest task), with the driver's time told from the dependencies of jobs and stages instead of the time in
which no stage ran. A task is as long as the model has it: without what a fresh executor adds, tries that failed left out. So
a rerun is hardly faster: where its stages are cut for the cores that there are (``recorded.partitions_by_cores``), or where
fewer executors start beside the driver and slow it less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from podtide.domain.base.units import Millis
from podtide.domain.recorded.application import NO_TASK, Application, RecordedJob, RecordedStage


class PathStage(NamedTuple):
    """A stage on the critical path: its longest task, and the driver's time before it."""

    stage: RecordedStage
    driver_ms: Millis
    longest_ms: Millis


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """``stages``: those on the path, in order; ``after_ms``: the driver's time from the last of them to the end."""

    stages: tuple[PathStage, ...]
    after_ms: Millis

    @property
    def tasks_ms(self) -> Millis:
        """Of the longest tasks."""
        return sum(one.longest_ms for one in self.stages)

    @property
    def driver_ms(self) -> Millis:
        """Of the driver."""
        return self.after_ms + sum(one.driver_ms for one in self.stages)

    @property
    def runtime_ms(self) -> Millis:
        """The ideal time."""
        return self.tasks_ms + self.driver_ms


class _Event(NamedTuple):
    """A moment and what it came after: ``stage`` with its ``longest_ms`` if a stage ended there, and the event before it."""

    at_ms: Millis
    before: _Event | None = None
    stage: RecordedStage | None = None
    longest_ms: Millis = 0

    def later(self, lag_ms: Millis) -> _Event:
        """The same, so much later by the driver's doing."""
        return _Event(self.at_ms + max(0, lag_ms), self)


_START = _Event(0)


def critical_path(application: Application) -> CriticalPath:
    """The critical path of an application. One pass over its tasks."""
    stages = {one.stage: one for one in application.stages}
    writers = _writers(application)
    shuffles: dict[int, int] = {}
    ended: dict[int, _Event] = {}
    complete: dict[int, _Event] = {}
    for job in application.jobs:
        shuffles.update((need.stage, need.shuffle) for need in job.needs if need.shuffle is not None)
    for job in application.jobs:
        begun = _last([ended[one] for one in job.after if one in ended]).later(job.think_ms)
        own = [stages[one] for one in job.stages if one in stages]
        for stage in own:
            parents = _parents(stage, stages, shuffles, writers)
            ready = _last([begun, *(complete[one] for one in parents if one in complete)])
            began = ready.later(stage.submit_lag_ms).later(stage.launch_lag_ms)
            longest = _longest(stage)
            done = _Event(began.at_ms + longest, began, stage, longest)
            complete[stage.stage] = done.later(stage.finish_lag_ms)
        ended[job.job] = _last([begun, *(complete[one.stage] for one in own)]).later(_end_lag(job))
    last = _last(ended.values()).later(_after_jobs(application))
    return _walked_back(last)


def _walked_back(last: _Event) -> CriticalPath:
    found: list[PathStage] = []
    event: _Event | None = last
    end_ms = last.at_ms  # of what comes after the stage that is looked for
    after_ms = 0
    while event is not None:
        if event.stage is not None:
            gap = end_ms - event.at_ms
            if found:
                found[-1] = found[-1]._replace(driver_ms=gap)
            else:
                after_ms = gap
            end_ms = event.at_ms - event.longest_ms
            found.append(PathStage(event.stage, 0, event.longest_ms))
        event = event.before
    if not found:
        return CriticalPath((), end_ms)
    found[-1] = found[-1]._replace(driver_ms=end_ms)
    return CriticalPath(tuple(reversed(found)), after_ms)


def _longest(stage: RecordedStage) -> Millis:
    """Its longest task; of one that never succeeded the last try. Where no task is known it takes what it took."""
    bodies = stage.body_ms
    last_try = {task: after for task, after in stage.failures if task >= len(bodies) or bodies[task] == NO_TASK}
    longest = max([NO_TASK, *bodies, *last_try.values()])
    return max(0, stage.completed_ms - stage.submitted_ms) if longest == NO_TASK else longest


def _last(events: Iterable[_Event]) -> _Event:
    return max(events, key=lambda one: one.at_ms, default=_START)


def _writers(application: Application) -> dict[int, list[int]]:
    """The stages that write each shuffle, by rising id."""
    found: dict[int, list[int]] = {}
    for one in sorted(application.stages, key=lambda one: one.stage):
        if one.shuffle is not None:
            found.setdefault(one.shuffle, []).append(one.stage)
    return found


def _parents(
    stage: RecordedStage,
    stages: Mapping[int, RecordedStage],
    shuffles: Mapping[int, int],
    writers: Mapping[int, Sequence[int]],
) -> list[int]:
    """The stages that ran whose output a stage reads (as ``rerun.dag_scheduler`` finds them)."""
    found = []
    for parent in stage.parents:
        if parent in stages:
            found.append(parent)
        elif (shuffle := shuffles.get(parent)) is not None:
            found += [one for one in writers.get(shuffle, ()) if one < stage.stage][-1:]
    return found


def _end_lag(job: RecordedJob) -> Millis:
    """From the completion of a job's last stage to its end; a job that ran nothing took what it took."""
    if not job.stages and not job.repeated and job.ended_ms is not None:
        return job.ended_ms - job.submitted_ms
    return job.end_lag_ms


def _after_jobs(application: Application) -> Millis:
    """From the end of the last job to the application's."""
    completed = {one.stage: one.completed_ms for one in application.stages}
    last = application.started_ms
    for job in application.jobs:
        ends = [completed[one] for one in job.stages if one in completed]
        last = max(last, job.submitted_ms, *ends) if job.ended_ms is None else max(last, job.ended_ms)
    return application.ended_ms - last
