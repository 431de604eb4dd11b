"""Who holds shuffle data that somebody may still read: a guess from what the driver's REST API lets through.

The API names no shuffle. A stage that wrote shuffle bytes wrote one shuffle, and so does every stage of a job except its
last one. Under adaptive execution each exchange is a job of its own, whose only stage is its last: that it is a map stage
shows when it has written bytes. Jobs that read the same shuffle list a stage over the same RDD, so a shuffle is known here
by the first RDD of the stage that writes it (as in a replay of an event log), or by the stage where its RDDs are not known.

*Holders.* An executor whose shuffle bytes grew since the last look holds data of every map stage that was under way at this
look or the one before. That is too much rather than too little: data that is thought to be there keeps an executor, data
that is overlooked costs a stage. Stages under way that may turn out to be map stages are remembered with the executors that
grew meanwhile, and these hold the shuffle from the look on at which its bytes show.

*Unexplained growth.* Where no map stage explains the growth, the executor holds a stand-in: one of the stage that may yet
turn out to be a map stage, which ends when that is known, or ``UNEXPLAINED``, which every running job is taken to read.
The latter happens where stages were not seen: before the first look, or more of them between two looks than are asked for
one by one.

When Spark's ContextCleaner drops a shuffle is not shown either. By default a shuffle is never cleaned; with a bound
(``ViewConfig.shuffle_linger_ms``) it counts as cleaned when no running job has named it for so long.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.live.driver_snapshot import DriverSnapshot, JobSeen, StageSeen, StageStatus, ViewConfig
from podtide.domain.protocol.stimuli import (
    BlockUpdated,
    JobEnd,
    JobStage,
    JobStart,
    ShuffleCleaned,
    ShuffleDataBlock,
    ShuffleRegistered,
)

PAIRS_MAX: Final = 100_000
"""Holders of shuffles that are told apart in one look; more of them hold what is not explained."""

UNEXPLAINED: Final = -(2**32)
"""The shuffle that stands for data of stages that were not seen; the stand-ins of stages go down from here."""

UNSEEN_JOB: Final = -1
"""The job of map stages whose own job nobody saw."""

ShuffleEvent: TypeAlias = BlockUpdated | JobStart | JobEnd | ShuffleRegistered | ShuffleCleaned

_STARTED: Final = frozenset({StageStatus.ACTIVE, StageStatus.COMPLETE, StageStatus.FAILED})


@dataclass(frozen=True, slots=True)
class Shuffles:
    """The shuffles at a moment; the mappings are never written to.

    ``writers``: the shuffle that a map stage writes. ``unread``: since when no running job names a shuffle (None: one
    does). ``recent``: stages under way at the last look. ``grown``: by stage that may turn out to be a map stage, the
    executors that grew while it was under way, and whether nothing else explains that. ``highest``: the highest stage id
    seen so far, None before the first look. ``unexplained``: whether somebody holds ``UNEXPLAINED``.
    """

    writers: Mapping[int, int] = field(default_factory=dict)
    unread: Mapping[int, Millis | None] = field(default_factory=dict)
    recent: frozenset[int] = frozenset()
    grown: Mapping[int, Mapping[ExecutorId, bool]] = field(default_factory=dict)
    highest: int | None = None
    unexplained: bool = False


class ShuffleLook:
    """The shuffles within one look: ``settle``, ``job_stages`` and ``begun`` for new jobs, ``held``, ``close``."""

    def __init__(
        self, shuffles: Shuffles, snapshot: DriverSnapshot, jobs: Iterable[JobSeen], config: ViewConfig, now: Millis
    ) -> None:
        """``jobs``: those that run."""
        self._missed_stages = snapshot.missed_stages
        self._before = shuffles
        self._config = config
        self._now = now
        self._writers = dict(shuffles.writers)
        self._grown = dict(shuffles.grown)
        self._unexplained = shuffles.unexplained
        self._jobs = {job.job: frozenset(job.stages) for job in jobs}
        self._named = {stage for listed in self._jobs.values() for stage in listed}
        self._stages: dict[int, StageSeen] = {}
        for stage in snapshot.stages:
            known = self._stages.get(stage.stage)
            if known is None or known.attempt < stage.attempt or known.shuffle_write <= 0 < stage.shuffle_write:
                self._stages[stage.stage] = stage
        self._under_way = frozenset(number for number, stage in self._stages.items() if stage.status in _STARTED)

    def job_stages(self, job: JobSeen) -> tuple[JobStage, ...]:
        """The stages of a job that begins, with the shuffles that they write."""
        if not self._config.shuffles:
            return tuple(JobStage(stage) for stage in job.stages)
        last = max(job.stages, default=-1)
        for stage in job.stages:
            if stage not in self._writers and (stage != last or self._wrote(stage)):
                self._writers[stage] = self._shuffle_of(stage)
        return tuple(JobStage(stage, self._writers.get(stage)) for stage in job.stages)

    def settle(self, before: Iterable[JobSeen]) -> list[ShuffleEvent]:
        """What is known of stages since the last look. ``before``: the jobs that ran then.

        Stages that wrote are map stages; those that ended otherwise are not: what was put down to them is unexplained.
        """
        if not self._config.shuffles:
            return []
        events: list[ShuffleEvent] = []
        jobs = sorted(before)
        named = self._named.union(*(job.stages for job in jobs))
        for stage in sorted(named | self._before.recent | self._under_way | self._grown.keys()):
            if stage not in self._writers and self._wrote(stage):
                shuffle = self._writers[stage] = self._shuffle_of(stage)  # a map stage that is the last of its job
                events += [ShuffleRegistered(self._now, job.job, stage, shuffle) for job in jobs if stage in job.stages]
                if stage not in named:
                    events += self._known(stage, shuffle)
            grown = self._grown.get(stage)
            if grown is None or (stage not in self._writers and self._may_write(stage)):
                continue
            if stage in self._writers:
                events += self._holds(grown, [self._writers[stage]])
            else:
                events += self._hold_unexplained(
                    [executor for executor, owing in grown.items() if owing], [job.job for job in jobs]
                )
            if any(grown.values()):
                events.append(ShuffleCleaned(self._now, _stand_in(stage)))
            del self._grown[stage]
        return events

    def begun(self, jobs: Iterable[int]) -> list[ShuffleEvent]:
        """Jobs that began need what is unexplained."""
        return self._read_by(UNEXPLAINED, jobs) if self._unexplained else []

    def held(self, executors: Sequence[ExecutorId]) -> list[ShuffleEvent]:
        """What executors hold whose shuffle data grew since the last look."""
        if not self._config.shuffles or not executors:
            return []
        under_way = self._before.recent | self._under_way
        shuffles = {self._writers[stage] for stage in under_way if stage in self._writers}
        open_stages = [stage for stage in sorted(under_way - self._writers.keys()) if self._may_write(stage)]
        missed, owing = self._missed(), not shuffles
        if missed or owing:  # a job that runs may list the shuffle, under whatever stage id
            shuffles |= {self._writers[stage] for stage in self._named if stage in self._writers}
        many = len(executors) * (len(shuffles) + len(open_stages)) > PAIRS_MAX
        if many:
            return self._hold_unexplained(executors, self._jobs)
        events = self._holds(executors, sorted(shuffles))
        if missed or (owing and not open_stages):
            events += self._hold_unexplained(executors, self._jobs)
            owing = False
        for stage in open_stages:
            known = self._grown.get(stage, {})
            if owing:
                stand_in = _stand_in(stage)
                if not any(known.values()):
                    events += self._read_by(stand_in, [job for job, listed in self._jobs.items() if stage in listed])
                events += self._holds(executors, [stand_in])
            self._grown[stage] = {**known, **{one: owing or known.get(one, False) for one in executors}}
        return events

    def close(self) -> tuple[Shuffles, list[ShuffleCleaned]]:
        """The shuffles after the look, and those that count as cleaned: no running job has named them for a while."""
        read = {shuffle for stage, shuffle in self._writers.items() if stage in self._named}
        if self._jobs and self._unexplained:
            read.add(UNEXPLAINED)
        unread: dict[int, Millis | None] = dict.fromkeys(read)
        cleaned = []
        linger = self._config.shuffle_linger_ms
        known = {**self._before.unread, **dict.fromkeys(self._writers.values())}
        if self._unexplained:
            known.setdefault(UNEXPLAINED)
        for shuffle in known:
            if shuffle in read:
                continue
            since = self._before.unread.get(shuffle)
            since = self._now if since is None else since
            if linger is not None and self._now - since >= linger:
                cleaned.append(ShuffleCleaned(self._now, shuffle))
                self._unexplained &= shuffle != UNEXPLAINED
            elif linger is not None:
                unread[shuffle] = since
        kept = self._named | self._under_way
        writers = {stage: shuffle for stage, shuffle in self._writers.items() if stage in kept}
        highest = max(self._stages, default=-1)
        if self._before.highest is not None:
            highest = max(highest, self._before.highest)
        after = Shuffles(writers, unread, self._under_way, self._grown, highest, self._unexplained)
        return (self._before if after == self._before else after), cleaned

    def _wrote(self, stage: int) -> bool:
        seen = self._stages.get(stage)
        return seen is not None and seen.shuffle_write > 0

    def _may_write(self, stage: int) -> bool:
        """Whether a stage that wrote nothing yet goes on."""
        seen = self._stages.get(stage)
        return seen is not None and seen.status is StageStatus.ACTIVE

    def _shuffle_of(self, stage: int) -> int:
        seen = self._stages.get(stage)
        return seen.rdds[0] if seen is not None and seen.rdds else -1 - stage

    def _missed(self) -> bool:
        """Whether there were stages that neither the last look nor this one saw."""
        highest = self._before.highest
        if highest is None or self._missed_stages:
            return True
        new = [stage for stage in self._stages if stage > highest]
        return bool(new) and max(new) - highest > len(new)

    def _hold_unexplained(self, executors: Sequence[ExecutorId], jobs: Iterable[int]) -> list[ShuffleEvent]:
        """``jobs``: those that run as far as was announced."""
        if not executors:
            return []
        events: list[ShuffleEvent] = []
        if not self._unexplained:
            events = self._known(UNEXPLAINED, UNEXPLAINED) + self._read_by(UNEXPLAINED, jobs)
        self._unexplained = True
        return events + self._holds(executors, [UNEXPLAINED])

    def _known(self, stage: int, shuffle: int) -> list[ShuffleEvent]:
        """There is such a shuffle, though no job was seen to write it: a job that reads it later finds it in use again."""
        return [JobStart(self._now, UNSEEN_JOB, (JobStage(stage, shuffle),)), JobEnd(self._now, UNSEEN_JOB)]

    def _read_by(self, stand_in: int, jobs: Iterable[int]) -> list[ShuffleEvent]:
        """The jobs may read what a stand-in stands for; its id is taken for its stage's, of which no task ever ends."""
        return [ShuffleRegistered(self._now, job, stand_in, stand_in) for job in sorted(jobs)]

    def _holds(self, executors: Iterable[ExecutorId], shuffles: Sequence[int]) -> list[ShuffleEvent]:
        return [
            BlockUpdated(self._now, executor, ShuffleDataBlock(shuffle), valid=True, on_disk=True)
            for shuffle in shuffles
            for executor in executors
        ]


def _stand_in(stage: int) -> int:
    return UNEXPLAINED - 1 - stage
