"""Jobs while a log is read, and what is made of those that it does not tell whole.

Stages that no job lists (a log that begins in the middle) form jobs of their own, with negative ids: one for each stage, and
for those that read what it writes. A job whose event does not say when it was submitted (before Spark 1.3) was submitted
with its first stage: the driver submits that at once, so what lay between was the program's time and not the scheduler's.

Which of the jobs comes first that a program submits at the same time is luck, which decides under FIFO who gets slots.
Adaptive execution submits the map stages of both sides of a join from threads of a pool, within a tenth of a second.
Which of them is given the lower job id differs from run to run (SparkContext's ``nextJobId``), and a FIFO pool serves the
lower one first. Where one side is a long task, a run takes longer by that task if it comes last: in the truth
(decommissioning) 25 s after the start instead of 18.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from podtide.domain.base.randomness import split, stream, unit
from podtide.domain.base.units import Millis
from podtide.domain.recorded.application import RecordedJob
from podtide.domain.recorded.job_dependencies import JobTraits
from podtide.domain.recorded.stages import StageWork

TOGETHER_MS: Final[Millis] = 250
"""Jobs that waited for the same ones and were submitted within so long could have come in another order."""


@dataclass(slots=True)
class JobWork:
    """A job while the log is read."""

    job: int
    submitted: Millis
    traits: JobTraits
    listed: tuple[int, ...]
    ended: Millis | None = None
    succeeded: bool = False


def complete(
    logged_jobs: Mapping[int, JobWork],
    works: Sequence[StageWork],
    job_of: Callable[[int], int | None],
    timeless: Collection[int],
) -> tuple[dict[int, JobWork], int]:
    """All jobs, by submission, and how many of them had to be made up for stages without one.

    ``works``: the stages by submission; each is given its job. ``job_of``: the job that lists a stage; ``timeless``: jobs
    that do not say when they were submitted.
    """
    jobs = dict(logged_jobs)
    made_up: dict[int, int] = {}
    for work in works:
        if work.job is None:
            work.job = job_of(work.seen.stage)
        if work.job is not None:
            continue
        parent = next((made_up[one] for one in work.seen.parents if one in made_up), None)
        number = -1 - len(jobs) if parent is None else parent
        done = work.done()
        if parent is None:
            first = work.attempts[work.base].submitted
            jobs[number] = JobWork(number, first, JobTraits(), (), None, succeeded=True)
        job = jobs[number]
        job.listed = (*job.listed, work.seen.stage)
        made_up[work.seen.stage] = work.job = number
        if done.completed is not None:
            job.ended = max(done.completed, job.ended or 0)
    firsts: dict[int, Millis] = {}
    for work in works:
        if work.job is not None and work.job in timeless:
            firsts.setdefault(work.job, work.attempts[work.base].submitted)
    for number, first in firsts.items():
        job = jobs[number]
        job.submitted = max(job.submitted, first if job.ended is None else min(first, job.ended))
    return dict(sorted(jobs.items(), key=lambda item: (item[1].submitted, item[0]))), len(jobs) - len(logged_jobs)


def drawn_priorities(jobs: Iterable[RecordedJob], seed: int) -> dict[int, int]:
    """The priority of every job that comes in another order with a seed: the ids of those that came together, shuffled.

    Every second seed leaves a group as it came, so that among few seeds each order of two jobs has its share.
    """
    priorities: dict[int, int] = {}
    luck = stream(seed)
    for place, together in enumerate(_together(jobs)):
        if (seed + place) % 2:
            ids = [job.job for job in together]
            shuffled = sorted(ids, key=lambda job: unit(split(luck, job))[0])
            if shuffled == ids:
                shuffled.reverse()
            priorities.update(zip(ids, shuffled, strict=True))
    return priorities


def _together(jobs: Iterable[RecordedJob]) -> Iterator[Sequence[RecordedJob]]:
    """Groups of two jobs or more."""
    group: list[RecordedJob] = []
    for job in sorted(jobs, key=lambda job: (job.submitted_ms, job.job)):
        if group and (job.after != group[0].after or job.submitted_ms - group[0].submitted_ms > TOGETHER_MS):
            if len(group) > 1:
                yield group
            group = []
        group.append(job)
    if len(group) > 1:
        yield group
