"""The inside of a fake driver: rows in tables, outputs in arrays, a queue of what lies ahead, and indexes that follow.

The tables are those of every fake (``fakes.tables``). ``Arrays`` holds who has which partition, a list for each stage's
output, because a stage may have a million. All else is derived: the heap of times, the executors with free slots, the
task sets with tasks that wait, what runs on whom and who holds what.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from typing import Any, Never, Self

from pyrsistent import PMap

from podtide.domain.base.randomness import Stream, split
from podtide.domain.base.tables import Members, Serial, Table
from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.fakes.driver.checks import Index, Node, slots_by_profile
from podtide.domain.fakes.driver.rows import (
    AttemptRow,
    DriverAgenda,
    DriverExecutorRow,
    DriverJobRow,
    DriverStageRow,
    Holder,
    OfferState,
    PendingExecutorRow,
    QueueRow,
    TaskRow,
    attempt_key,
)
from podtide.domain.fakes.driver.script import Jobs, Outputs, Profile, ScriptJob, ScriptStage
from podtide.domain.fakes.tables import AgendaRow, FakeTables
from podtide.domain.protocol.config import ProfileRules
from podtide.domain.protocol.stimuli import Stimulus


class ScriptPlan:
    """What follows from a script alone: computed once, shared by all versions. Of a script without problems."""

    def __init__(self, script: Jobs, rules: ProfileRules) -> None:
        self.script = script
        self.slots = {p: n for p, n in slots_by_profile(script, rules).items() if isinstance(n, int)}
        self.profiles: dict[ProfileId, Profile] = {profile.id: profile for profile in script.profiles}
        index = Index(script)
        lineages = index.lineages()
        assert not isinstance(lineages, int)
        self.lineages = lineages
        self.parents: dict[Node, list[Node]] = {}
        self.readers: dict[Node, int] = {}
        for place, lineage in enumerate(lineages):
            for node in lineage:
                if node.job == place:
                    self.parents[node] = index.parents(node)
                else:
                    self.readers[node] = self.readers.get(node, 0) + 1
        self.before = [[index.jobs[name] for name in job.after] for job in script.jobs]
        self.followers: list[list[int]] = [[] for _ in script.jobs]
        for place, before in enumerate(self.before):
            for one in before:
                self.followers[one].append(place)
        self.places = index.jobs

    def job(self, place: int) -> ScriptJob:
        """A job of the script."""
        return self.script.jobs[place]

    def stage(self, row: DriverStageRow) -> ScriptStage:
        """What the script says of a stage."""
        return self.script.jobs[row.place].stages[row.stage]


class Arrays(Table[int, list[Holder | None]]):
    """Who holds each partition of an output."""

    __slots__ = ()

    def add(self, key: int, size: int) -> None:
        """An output of which nobody holds anything."""
        self.put(key, [None] * size)

    def hold(self, key: int, place: int, holder: Holder | None) -> None:
        """Somebody holds a partition, or nobody."""
        row = self[key]
        self.log((self.name, (key, place), row[place]))
        row[place] = holder

    def undo(self, key: Any, old: Any) -> None:
        """Take one change back: of an output, or of a partition of one."""
        if isinstance(key, tuple):
            self[key[0]][key[1]] = old
        else:
            super().undo(key, old)

    def twin(self) -> Self:
        """Independent arrays with the same content."""
        return type(self)((key, list(row)) for key, row in self.items())


class DriverTables(FakeTables[DriverAgenda, Never]):
    """The inside of a fake driver. ``ended``: the jobs of the script, by place, of which all runs have.

    ``announced``: the profiles that the listeners know. ``moves``: partitions that others took over.
    """

    def __init__(self, plan: ScriptPlan, seed: Stream, began: Millis) -> None:
        self.plan = plan
        self.executors: Table[int, DriverExecutorRow] = Table()
        self.tasks: Table[int, TaskRow] = Table()
        self.queues: Table[int, QueueRow] = Table()
        self.attempts: Table[int, AttemptRow] = Table()
        self.stages: Table[int, DriverStageRow] = Table()
        self.left: Table[int, int] = Table()  # by stage: partitions that its latest attempt still has to compute
        self.missing: Table[int, int] = Table()  # by array: partitions that nobody holds
        self.again: Table[int, PMap[int, int]] = Table()  # by array and partition: 2 * earlier tries + (one succeeded)
        self.jobs: Table[int, DriverJobRow] = Table()
        self.shuffles: Table[str, int] = Table()  # by job, run and stage of the script
        self.sharers: Table[int, int] = Table()  # by shuffle: its stage, while a job that uses it runs
        self.users: Table[int, int] = Table()  # by shuffle: jobs of the script that may still read it
        self.rdds: Table[int, int] = Table()  # by stage: the RDD that it caches
        self.kept: Table[int, tuple[int, Any] | None] = Table()  # RDDs to unpersist with a job's end (~: a run's)
        self.pods: Table[str, PendingExecutorRow] = Table()  # by executor, until it is accepted or gone
        self.outputs = Arrays()
        self.announced: Members[ProfileId] = Members()
        self.ended: Members[int] = Members()
        # From 0, as Spark's.
        self.job_numbers, self.stage_numbers, self.shuffle_numbers, self.rdd_numbers = map(Serial, (-1, -1, -1, -1))
        self.executor_keys, self.offer_draws, self.moves = map(Serial, (-1, -1, -1))
        super().__init__(seed, began)

    def recount(self) -> None:
        """Make the heap and the indexes anew."""
        super().recount()
        self.heap += [(task.ends, serial) for serial, task in self.tasks.items()]
        heapq.heapify(self.heap)
        self.events: list[Stimulus] = []
        self.was_busy: dict[int, bool] = {}
        self.wanting: set[ProfileId] = set()
        self.names: dict[ExecutorId, int] = {}
        self.addresses: dict[str, int] = {}
        self.free: dict[ProfileId, list[int]] = {}
        for key, executor in self.executors.items():
            self._know(key, executor)
            if executor.free and executor.standing is OfferState.ACTIVE:
                self.free.setdefault(executor.profile, []).append(key)
        self.aboard: dict[int, dict[int, None]] = {}
        self.flying: dict[int, dict[int, int]] = {}
        for serial, task in self.tasks.items():
            self.aboard.setdefault(task.executor, {})[serial] = None
            self.flying.setdefault(attempt_key(task.stage, task.attempt), {})[task.task_index] = serial
        self.ready: dict[ProfileId, list[tuple[int, int, int]]] = {}
        for key, queue in self.queues.items():
            if queue.pending:
                row = self.attempts[key]
                insort(self.ready.setdefault(row.profile, []), (row.job, row.stage, row.attempt))
        self.held: dict[int, dict[int, set[int]]] = {}
        for key, holders in self.outputs.items():
            for partition, holder in enumerate(holders):
                if holder is not None and self._tracked(key, holder):
                    self.held.setdefault(holder.executor, {}).setdefault(key, set()).add(partition)
        self.streams: dict[int, Stream] = {}
        self.unstarted: set[int] = {
            key for key, job in self.jobs.items() if job.first_task is None and job.ended is None
        }
        self.interned: dict[int, Holder] = {}

    def later(self, at: Millis, kind: DriverAgenda, a: int = 0, b: int = 0, say: None = None) -> int:
        """Put something into the agenda; returns its serial. The heap holds the ends of tasks as well."""
        serial = self.serials.next()
        self.agenda.put(serial, AgendaRow(at, kind, a, b, say))
        heapq.heappush(self.heap, (at, serial))
        return serial

    def due(self) -> Millis:
        """When something lies ahead next: the end of a task, or a row of the agenda."""
        heap = self.heap
        while heap:
            at, serial = heap[0]
            task = self.tasks.get(serial)
            if (task is not None and task.ends == at) or serial in self.agenda:
                return at
            heapq.heappop(heap)
        return NEVER

    # executors and task sets

    def _know(self, key: int, row: DriverExecutorRow) -> None:
        self.names[row.executor] = key
        if row.address:
            self.addresses[row.address] = key

    def put_executor(self, key: int, row: DriverExecutorRow) -> None:
        """Write an executor and keep the indexes."""
        old = self.executors.get(key)
        self.executors.put(key, row)
        if old is None:
            self._know(key, row)
            offered = False
        else:
            offered = old.free > 0 and old.standing is OfferState.ACTIVE
        offers = row.free > 0 and row.standing is OfferState.ACTIVE
        if offers != offered:
            free = self.free.setdefault(row.profile, [])
            if offers:
                insort(free, key)
            else:
                del free[bisect_left(free, key)]

    def drop_executor(self, key: int) -> DriverExecutorRow:
        """Forget an executor; what ran on it and what it held is for the caller to see to."""
        row = self.executors[key]
        self.put_executor(key, row._replace(standing=OfferState.SILENT))
        self.executors.drop(key)
        del self.names[row.executor]
        if row.address and self.addresses.get(row.address) == key:
            del self.addresses[row.address]
        self.was_busy.pop(key, None)
        self.interned.pop(key, None)
        return row

    def put_queue(self, attempt: AttemptRow, row: QueueRow) -> None:
        """Write how much of a task set waits and runs."""
        key = attempt_key(attempt.stage, attempt.attempt)
        old = self.queues.get(key)
        self.queues.put(key, row)
        waited = old is not None and old.pending > 0
        if (row.pending > 0) != waited:
            ready = self.ready.setdefault(attempt.profile, [])
            place = (attempt.job, attempt.stage, attempt.attempt)
            if waited:
                del ready[bisect_left(ready, place)]
            else:
                insort(ready, place)

    def drop_attempt(self, key: int) -> None:
        """Forget a task set of which nothing waits or runs."""
        self.attempts.drop(key)
        self.queues.drop(key)
        self.flying.pop(key, None)

    # outputs

    def _tracked(self, array: int, holder: Holder) -> bool:
        """Whether it matters who holds it: shuffle output, unless a service has it."""
        return array >= 0 and holder.executor >= 0

    def holder(self, task: TaskRow) -> Holder:
        """Who holds what a task computed."""
        executor = -1 if self.plan.script.outputs is Outputs.SERVICE else task.executor
        wanted = Holder(executor, task.stage, task.attempt)
        last = self.interned.get(task.executor)
        if last == wanted:  # one record for what an executor computes in a row, not one for each partition
            return last
        self.interned[task.executor] = wanted
        return wanted

    def hold(self, array: int, partition: int, holder: Holder | None) -> None:
        """Somebody holds a partition of an output from now on, or nobody any more."""
        old = self.outputs[array][partition]
        self.outputs.hold(array, partition, holder)
        if (old is None) != (holder is None):
            self.missing.put(array, self.missing[array] + (1 if holder is None else -1))
        if old is not None and self._tracked(array, old):
            mine = self.held.get(old.executor)
            if mine is not None:  # an executor that is being lost has its whole entry taken out first
                mine[array].discard(partition)
        if holder is not None and self._tracked(array, holder):
            self.held.setdefault(holder.executor, {}).setdefault(array, set()).add(partition)

    def drop_output(self, array: int) -> None:
        """Forget an output that nobody will read any more."""
        holders = {holder for holder in self.outputs[array] if holder is not None} if array >= 0 else set()
        for holder in holders:
            mine = self.held.get(holder.executor)
            if mine is not None:
                mine.pop(array, None)
        self.outputs.drop(array)
        self.missing.drop(array)
        self.again.drop(array)

    def task_stream(self, number: int, row: DriverStageRow) -> Stream:
        """The stream that the tasks of a stage branch off from; the same in every run of the same script and seed."""
        found = self.streams.get(number)
        if found is None:
            found = split(split(split(self.seed, row.place), row.run), row.stage)
            self.streams[number] = found
        return found
