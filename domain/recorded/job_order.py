"""Which of the jobs comes first that a program submits at the same time: luck, which decides under FIFO who gets slots.

Adaptive execution submits the map stages of both sides of a join from threads of a pool, within a tenth of a second.
Which of them is given the lower job id differs from run to run (SparkContext's ``nextJobId``), and a FIFO pool serves the
lower one first. Where one side is a long task, a run takes longer by that task if it comes last: in the truth
(decommissioning) 25 s after the start instead of 18.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from podtide.domain.base.randomness import Stream, split, unit
from podtide.domain.base.units import Millis
from podtide.domain.recorded.application import RecordedJob

TOGETHER_MS: Final[Millis] = 250
"""Jobs that waited for the same ones and were submitted within so long could have come in another order."""


def drawn_priorities(jobs: Iterable[RecordedJob], luck: Stream) -> dict[int, int]:
    """The priority of every job that could have come in another order: the ids of those that came together, shuffled."""
    priorities: dict[int, int] = {}
    for together in _together(jobs):
        ids = [job.job for job in together]
        shuffled = sorted(ids, key=lambda job: unit(split(luck, job))[0])
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
