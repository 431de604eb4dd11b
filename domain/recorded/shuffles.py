"""Which shuffles the stages of a log write, and until when each is needed. Event logs have no shuffle ids.

*Map stages.* In the listing of a job, a stage that another one names as its parent writes a shuffle. The last stage of a job
is named by nobody: it computes the job's result, or, under adaptive execution, it is a map stage that was submitted for
itself (``DAGScheduler.submitMapStage``: each exchange is a job of its own). Only its tasks tell which (Task Type), so such a
stage is found out when the first of them ends.

*Identity.* A shuffle is known by the RDD that its map stage computes (``ShuffleDependency.rdd``), which stays the same where
a later job lists the shuffle under a new stage id. Several shuffles can be made of one RDD, each read by RDDs of its own;
they are told apart by these readers. A ``ShuffledRowRDD`` of SQL is no such mark: several of them read one exchange.

*Need.* A shuffle is needed by the running jobs that list it, and by the SQL execution of such a job until that ends: its
plan refers to the shuffle, so Spark's ContextCleaner cannot take it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from podtide.domain.protocol.stimuli import JobStage

MAP_TASK: Final = "ShuffleMapTask"
"""The Task Type of tasks that write a shuffle."""

ROW_RDD: Final = "ShuffledRowRDD"
"""The RDD that reads an exchange of SQL."""

_NEXT_OF_AN_RDD: Final = -(2**30)
"""Ids of further shuffles of an RDD go down from here; -1 - n is the shuffle of a stage n without RDDs."""


class RddReader(NamedTuple):
    """An RDD of a stage, and the RDDs that it depends on. ``row``: whether it is a ``ShuffledRowRDD``."""

    rdd: int
    parents: tuple[int, ...]
    row: bool = False


class ListedStage(NamedTuple):
    """A stage in the listing of a job. ``rdd``: the one that it computes; ``shuffle``: its id, where that is known."""

    stage: int
    parents: tuple[int, ...] = ()
    rdd: int | None = None
    readers: tuple[RddReader, ...] = ()
    shuffle: int | None = None


@dataclass(slots=True, eq=False)
class _Shuffle:
    """A shuffle: the RDDs that read it, as far as known, and who needs it."""

    id: int
    readers: set[int] = field(default_factory=set)
    needed_by: set[Hashable] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class _Job:
    """A running job: the shuffles that it lists, and its SQL execution."""

    execution: int | None
    shuffles: dict[int, _Shuffle] = field(default_factory=dict)
    last: dict[int, ListedStage] = field(default_factory=dict)


class LoggedShuffles:
    """The shuffles of a log so far. ``map_stages``: how many were found; ``parentless``: whether no stage named a parent.

    ``unnamed``: stages that nobody named as parent, and of which no task has told yet what they are; by them their jobs.
    """

    def __init__(self) -> None:
        self.map_stages = 0
        self.parentless = True
        self._of_rdd: dict[int, list[_Shuffle]] = {}
        self._numbered: dict[int, _Shuffle] = {}  # whose ids the log has, or that stand for their stages
        self._further = _NEXT_OF_AN_RDD
        self._jobs: dict[int, _Job] = {}
        self.unnamed: dict[int, list[int]] = {}
        self._executions: dict[int, dict[int, _Shuffle]] = {}

    def job_started(
        self, job: int, stages: Sequence[ListedStage], execution: int | None = None
    ) -> tuple[JobStage, ...]:
        """The stages of a job, with the shuffles of those that are known for map stages."""
        self.job_ended(job)  # logs that were put together use ids again
        under_way = self._jobs[job] = _Job(execution)
        children: dict[int, list[ListedStage]] = {}
        for stage in stages:
            for parent in stage.parents:
                children.setdefault(parent, []).append(stage)
        self.parentless &= not children
        written: dict[int, int] = {}
        by_id = {stage.stage: stage for stage in stages}
        for _, stage in sorted(by_id.items()):  # whatever the order of the listing
            if stage.shuffle is not None or stage.stage in children:
                written[stage.stage] = self._wanted(under_way, job, stage, children.get(stage.stage, ()))
            else:
                under_way.last[stage.stage] = stage
                self.unnamed.setdefault(stage.stage, []).append(job)
        return tuple(JobStage(stage.stage, written.get(stage.stage)) for stage in stages)

    def map_task_ended(self, stage: int) -> tuple[tuple[int, int], ...]:
        """A task of an unnamed stage wrote map output: (job, shuffle) for each running job whose last stage it is."""
        found = []
        for job in self.unnamed.pop(stage, ()):
            under_way = self._jobs[job]
            found.append((job, self._wanted(under_way, job, under_way.last.pop(stage), ())))
        return tuple(found)

    def result_task_ended(self, stage: int) -> None:
        """A task of an unnamed stage returned a result: it is no map stage."""
        self.unnamed.pop(stage, None)

    def job_ended(self, job: int) -> tuple[int, ...]:
        """The shuffles that nobody needs from here on."""
        under_way = self._jobs.pop(job, None)
        if under_way is None:
            return ()
        for stage in under_way.last:
            jobs = self.unnamed.get(stage)
            if jobs is not None:
                jobs.remove(job)
                if not jobs:
                    del self.unnamed[stage]
        return _released(under_way.shuffles.values(), ("job", job))

    def execution_ended(self, execution: int) -> tuple[int, ...]:
        """The shuffles that nobody needs from here on."""
        return _released(self._executions.pop(execution, {}).values(), ("execution", execution))

    def _wanted(self, under_way: _Job, job: int, stage: ListedStage, children: Sequence[ListedStage]) -> int:
        """The shuffle that a map stage of a job writes, which the job and its SQL execution need now."""
        self.map_stages += 1
        shuffle = self._shuffle(under_way, stage, children)
        under_way.shuffles[shuffle.id] = shuffle
        shuffle.needed_by.add(("job", job))
        if under_way.execution is not None:
            shuffle.needed_by.add(("execution", under_way.execution))
            self._executions.setdefault(under_way.execution, {})[shuffle.id] = shuffle
        return shuffle.id

    def _shuffle(self, under_way: _Job, stage: ListedStage, children: Sequence[ListedStage]) -> _Shuffle:
        rdd = stage.rdd
        if rdd is None or stage.shuffle is not None:
            number = -1 - stage.stage if stage.shuffle is None else stage.shuffle
            return self._numbered.setdefault(number, _Shuffle(number))
        reading = [reader for child in children for reader in child.readers if rdd in reader.parents]
        readers = {reader.rdd for reader in reading}
        marked = bool(reading) and not any(reader.row for reader in reading)
        known = self._of_rdd.setdefault(rdd, [])
        free = [one for one in known if one.id not in under_way.shuffles]
        same = next((one for one in free if one.readers & readers), None)
        if same is None:  # a shuffle whose readers are not known yet, or that any row RDD may read
            same = next((one for one in free if not marked or not one.readers), None)
        if same is None:
            self._further -= bool(known)
            same = _Shuffle(self._further if known else rdd)
            known.append(same)
        same.readers |= readers
        return same


def _released(shuffles: Iterable[_Shuffle], holder: Hashable) -> tuple[int, ...]:
    unneeded = []
    for shuffle in shuffles:
        if holder in shuffle.needed_by:
            shuffle.needed_by.discard(holder)
            if not shuffle.needed_by:
                unneeded.append(shuffle.id)
    return tuple(unneeded)
