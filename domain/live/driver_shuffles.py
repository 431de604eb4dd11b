"""Who holds shuffle data that somebody may still read: a guess from what the driver's REST API lets through.

The API names no shuffle. But every stage of a job except the last one it made writes exactly one, a stage that wrote
shuffle bytes does too, and jobs that read the same shuffle list a stage over the same RDD. So a shuffle is known here
by the first RDD of the stage that writes it (as in a replay of an event log), or by the stage where nobody told its
RDDs.

An executor whose shuffle bytes grew since the last look holds data of every shuffle that was being written meanwhile;
where no such stage was seen, of every shuffle of the jobs that run. That is too much rather than too little: data
that is thought to be there keeps an executor, data that is overlooked costs a stage. When Spark's ContextCleaner
drops a shuffle is not told either: it counts as cleaned when no running job has named it for a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.live.driver_snapshot import JobSeen, StageSeen, ViewConfig
from podtide.domain.protocol.stimuli import BlockUpdated, JobStage, ShuffleCleaned, ShuffleDataBlock

PAIRS_MAX: Final = 100_000
"""Holders of shuffles announced in one look; the rest is announced when it writes again."""


@dataclass(frozen=True, slots=True)
class Shuffles:
    """The shuffles at a moment; the mappings are never written to.

    ``writers``: the shuffle that a stage of a running job writes. ``unread``: since when no running job names a
    shuffle (None: one does).
    """

    writers: Mapping[int, int] = field(default_factory=dict)
    unread: Mapping[int, Millis | None] = field(default_factory=dict)


class ShuffleLook:
    """The shuffles within one look."""

    def __init__(self, shuffles: Shuffles, stages: Iterable[StageSeen], config: ViewConfig, now: Millis) -> None:
        self._before = shuffles
        self._config = config
        self._now = now
        self._writers = dict(shuffles.writers)
        self._stages: dict[int, StageSeen] = {}
        for stage in stages:
            self._stages[stage.stage] = stage

    def job_stages(self, job: JobSeen) -> tuple[JobStage, ...]:
        """The stages of a job that begins, with the shuffles that they write."""
        if not self._config.shuffles:
            return tuple(JobStage(stage) for stage in job.stages)
        last = max(job.stages, default=-1)
        for stage in job.stages:
            if stage not in self._writers and (stage != last or self._wrote(stage)):
                self._writers[stage] = self._shuffle_of(stage)
        return tuple(JobStage(stage, self._writers.get(stage)) for stage in job.stages)

    def _wrote(self, stage: int) -> bool:
        seen = self._stages.get(stage)
        return seen is not None and seen.shuffle_write > 0

    def _shuffle_of(self, stage: int) -> int:
        seen = self._stages.get(stage)
        return seen.rdds[0] if seen is not None and seen.rdds else -1 - stage

    def held(
        self, wrote: Iterable[ExecutorId], writing: Iterable[int], jobs: Iterable[JobSeen]
    ) -> tuple[BlockUpdated, ...]:
        """Executors that wrote shuffle bytes hold data of what the stages ``writing`` write.

        ``jobs``: those that run or ran at the look before.
        """
        executors = list(wrote)
        if not self._config.shuffles or not executors:
            return ()
        named = {stage for job in jobs for stage in job.stages}
        for stage in named:
            if stage not in self._writers and self._wrote(stage):
                self._writers[stage] = self._shuffle_of(stage)  # a map stage that is the last of its job
        found = {self._writers[stage] for stage in writing if stage in self._writers}
        if not found:
            found = {self._writers[stage] for stage in named if stage in self._writers}
        pairs = [(executor, shuffle) for shuffle in sorted(found) for executor in executors]
        return tuple(
            BlockUpdated(self._now, executor, ShuffleDataBlock(shuffle), valid=True, on_disk=True)
            for executor, shuffle in pairs[:PAIRS_MAX]
        )

    def close(self, jobs: Iterable[JobSeen]) -> tuple[Shuffles, tuple[ShuffleCleaned, ...]]:
        """The shuffles after the look, and those that count as cleaned: nobody has named them for a while."""
        named = {stage for job in jobs for stage in job.stages}
        read = {shuffle for stage, shuffle in self._writers.items() if stage in named}
        unread: dict[int, Millis | None] = dict.fromkeys(read)
        cleaned = []
        linger = self._config.shuffle_linger_ms
        for shuffle in {**self._before.unread, **dict.fromkeys(self._writers.values())}:
            if shuffle in read:
                continue
            since = self._before.unread.get(shuffle)
            since = self._now if since is None else since
            if linger is not None and self._now - since >= linger:
                cleaned.append(ShuffleCleaned(self._now, shuffle))
            elif linger is not None:
                unread[shuffle] = since
        writers = {stage: shuffle for stage, shuffle in self._writers.items() if stage in named}
        if writers == self._before.writers and unread == self._before.unread:
            return self._before, tuple(cleaned)
        return Shuffles(writers, unread), tuple(cleaned)
