"""Jobs while a log is read, and what is made of those that it does not tell whole.

Stages that no job lists (a log that begins in the middle) form jobs of their own, with negative ids: one for each stage, and
for those that read what it writes. A job whose event does not say when it was submitted (before Spark 1.3) was submitted
with its first stage: the driver submits that at once, so what lay between was the program's time and not the scheduler's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from podtide.domain.base.units import Millis
from podtide.domain.recorded.job_dependencies import JobTraits
from podtide.domain.recorded.stages import StageWork


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
