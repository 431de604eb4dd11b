"""Worlds of jobs, stages and executors, looked at now and then: the engine's books equal what each look says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.live import driver_view as views
from podtide.domain.live.driver_snapshot import (
    DriverSnapshot,
    ExecutorSeen,
    JobSeen,
    ProfileSeen,
    StageSeen,
    StageStatus,
    ViewConfig,
)
from podtide.domain.protocol import stimuli
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.executor_stimuli import ExecutorDisconnected, RegisterExecutor
from podtide.domain.scaling import executor_monitor, load as loads
from podtide.domain.scaling.load import Demand

CONFIG = ViewConfig()
SCALING = ScalingConfig(idle_timeout_ms=60_000)
PROFILES = (ProfileId(0), ProfileId(1))


class Books:
    """The view, and the two folds of the engine behind it."""

    def __init__(self, scaling: ScalingConfig = SCALING) -> None:
        self.scaling = scaling
        self.view = views.empty()
        self.load = loads.empty()
        self.idle = executor_monitor.empty(scaling)
        self.ids: dict[str, ExecutorId] = {}
        self.heard: list[Any] = []

    def look(self, snapshot: DriverSnapshot, now: Millis) -> list[Any]:
        before = self.view
        step = views.look(before, (snapshot,), CONFIG, now)
        assert views.look(before, (snapshot,), CONFIG, now).commands == step.commands, "the old view answers as before"
        self.view = step.state
        events: list[Any] = []
        for one in step.commands:
            assert one.at == now
            if isinstance(one, RegisterExecutor):
                self.ids[one.address] = one.executor
                events.append(stimuli.ExecutorAdded(now, one.executor, one.profile))
            elif isinstance(one, ExecutorDisconnected):
                events.append(stimuli.ExecutorRemoved(now, self.ids[one.address]))
            elif isinstance(one, stimuli.ListenerEvent):
                events.append(one)
        self.load = loads.fold(self.load, events)
        self.idle = executor_monitor.fold(self.idle, events, self.scaling)
        self.heard = list(step.commands)
        return self.heard


def wanted(snapshot: DriverSnapshot, profile: ProfileId) -> Demand:
    pending = running = 0
    for stage in snapshot.stages:
        if stage.profile != profile:
            continue
        active = max(0, stage.active)
        if stage.status is StageStatus.ACTIVE:
            left = max(0, stage.tasks) - min(max(0, stage.complete), max(0, stage.tasks))
            pending += left - min(active, left)
            running += active
        elif stage.status in (StageStatus.COMPLETE, StageStatus.FAILED):
            running += active
    return Demand(pending, 0, 0, running)


def check(books: Books, snapshot: DriverSnapshot, before: dict[ExecutorId, ExecutorSeen], now: Millis) -> None:
    for profile in PROFILES:
        assert books.load.demand(profile) == wanted(snapshot, profile)
    waits = any(wanted(snapshot, profile).pending for profile in PROFILES)
    assert books.load.tasks_wait() == waits
    live = {one.executor: one for one in snapshot.executors if one.active}
    assert books.idle.trackers().keys() == live.keys()
    for executor, one in live.items():
        tracker = books.idle.tracker(executor)
        assert tracker is not None
        assert tracker.running == max(0, one.active_tasks)
        assert tracker.profile == one.profile
        assert bool(tracker.cached) == (one.rdd_blocks > 0)
        if tracker.running == 0:
            was = before.get(executor)
            since = tracker.idle_start
            worked = was is None or was.active_tasks > 0 or one.total_tasks > was.total_tasks
            assert since == now if worked else since < now


def in_order(heard: Sequence[Any]) -> None:
    """Each event is one that Spark could have posted then."""
    open_stages: set[tuple[int, int]] = set()
    running: Counter[tuple[int, int, int, str, bool]] = Counter()
    for one in heard:
        if isinstance(one, stimuli.StageSubmitted):
            open_stages.add((one.stage, one.attempt))
        elif isinstance(one, stimuli.StageCompleted):
            open_stages.discard((one.stage, one.attempt))
        elif isinstance(one, stimuli.TaskStart):
            running[one.stage, one.attempt, one.task_index, one.executor, one.speculative] += 1
        elif isinstance(one, stimuli.TaskEnd):
            running[one.stage, one.attempt, one.task_index, one.executor, one.speculative] -= 1
    assert all(count in {0, 1} for count in running.values()), "a task ends once, after it started"


# ----------------------------------------------------------------------------------------- numbers that nobody vouches for


def snapshots() -> st.SearchStrategy[DriverSnapshot]:
    number = st.integers(-1, 6)
    stage = st.builds(
        StageSeen,
        stage=st.integers(0, 3),
        attempt=st.integers(0, 1),
        status=st.sampled_from(StageStatus),
        tasks=number,
        active=number,
        complete=number,
        failed=number,
        killed=number,
        profile=st.sampled_from(PROFILES),
        shuffle_write=st.integers(0, 2),
        rdds=st.sampled_from([(), (7,)]),
    )
    executor = st.builds(
        ExecutorSeen,
        executor=st.sampled_from([ExecutorId(str(number)) for number in range(1, 5)]),
        active=st.booleans(),
        address=st.just("host:1"),
        profile=st.just(ProfileId(0)),
        active_tasks=st.integers(0, 3),
        total_tasks=st.integers(3, 9),
        rdd_blocks=st.integers(0, 1),
        shuffle_write=st.integers(0, 2),
    )
    return st.builds(
        DriverSnapshot,
        jobs=st.lists(
            st.builds(JobSeen, st.integers(0, 2), st.just((0, 1, 2))), max_size=2, unique_by=lambda job: job.job
        ).map(tuple),
        stages=st.lists(stage, max_size=4, unique_by=lambda one: one.key).map(tuple),
        executors=st.lists(executor, max_size=4, unique_by=lambda one: one.executor).map(tuple),
        profiles=st.just((ProfileSeen(ProfileId(1)),)),
    )


@given(st.lists(snapshots(), min_size=1, max_size=8))
def test_whatever_the_driver_says_the_books_say_the_same(seen: list[DriverSnapshot]) -> None:
    books = Books()
    heard: list[Any] = []
    now = 1_000
    for snapshot in seen:
        now += 500
        before = dict(books.view.executors)
        heard += books.look(snapshot, now)
        for profile in PROFILES:
            assert books.load.demand(profile) == wanted(snapshot, profile)
        live = {one.executor: one for one in snapshot.executors if one.active}
        assert books.idle.trackers().keys() == live.keys()
        for executor, one in live.items():
            tracker = books.idle.tracker(executor)
            assert tracker is not None
            assert tracker.running == one.active_tasks
            was = before.get(executor)
            if not tracker.running:
                fresh = was is None or was.busy or one.total_tasks - one.active_tasks > was.finished
                assert (tracker.idle_start == now) == fresh
    in_order(heard)
    books.look(DriverSnapshot(), now + 500)
    assert not books.load._tables.attempts, "nothing is left behind"
    assert not books.view.running
    assert not books.view.attempts
    assert not books.idle.trackers()


# --------------------------------------------------------------------------------------------------- worlds that could be


@dataclass
class Running:
    stage: tuple[int, int]
    index: int
    executor: ExecutorId
    copy: bool = False


@dataclass
class Stage:
    key: tuple[int, int]
    tasks: int
    profile: ProfileId
    job: int
    waiting: list[int] = field(default_factory=list)
    done: set[int] = field(default_factory=set)
    failed: int = 0
    status: StageStatus = StageStatus.ACTIVE


class World:
    """A driver whose tasks are scheduled, end and fail at random; each look at it is exact."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.executors: dict[ExecutorId, ExecutorSeen] = {}
        self.stages: dict[tuple[int, int], Stage] = {}
        self.running: list[Running] = []
        self.ids = self.stage_ids = self.jobs = 0

    def turn(self) -> None:
        roll = self.random.random()
        if roll < 0.08 and len(self.executors) < 8:
            self.ids += 1
            profile = self.random.choice(PROFILES)
            executor = ExecutorId(str(self.ids))
            self.executors[executor] = ExecutorSeen(executor, True, f"h{self.ids}:7079", profile, self.ids)
        elif roll < 0.14:
            self._submit()
        elif roll < 0.17 and self.executors:
            self._lose(self.random.choice(list(self.executors)))
        elif roll < 0.6:
            self._launch()
        elif self.running:
            self._finish(self.random.choice(self.running))

    def _submit(self) -> None:
        retried = [s for s in self.stages.values() if s.status is StageStatus.FAILED and s.key[1] == 0]
        if retried and self.random.random() < 0.5:
            key, job = (retried[0].key[0], 1), retried[0].job
            if key in self.stages:
                return
        else:
            self.stage_ids += 1
            self.jobs += 1
            key, job = (self.stage_ids, 0), self.jobs
        tasks = self.random.randrange(1, 12)
        profile = self.random.choice(PROFILES)
        self.stages[key] = Stage(key, tasks, profile, job, list(range(tasks)))

    def _launch(self) -> None:
        free = [one for one in self.executors.values() if one.active and one.active_tasks < 2]
        stages = [s for s in self.stages.values() if s.status is StageStatus.ACTIVE]
        self.random.shuffle(free)
        for one in free:
            for stage in stages:
                if stage.profile != one.profile:
                    continue
                copied = [r.index for r in self.running if r.stage == stage.key]
                if stage.waiting:
                    self.running.append(Running(stage.key, stage.waiting.pop(), one.executor))
                elif copied and self.random.random() < 0.2:
                    self.running.append(Running(stage.key, copied[0], one.executor, copy=True))
                else:
                    continue
                self._tally(one.executor, active=1, total=1)
                return

    def _finish(self, task: Running) -> None:
        self.running.remove(task)
        stage = self.stages[task.stage]
        twins = [r for r in self.running if r.stage == task.stage and r.index == task.index]
        self._tally(task.executor, active=-1)
        if self.random.random() < 0.85:
            stage.done.add(task.index)
            for twin in twins:
                self.running.remove(twin)
                self._tally(twin.executor, active=-1)
        else:
            stage.failed += 1
            if not twins and task.index not in stage.done and stage.status is StageStatus.ACTIVE:
                stage.waiting.append(task.index)
        if stage.status is StageStatus.ACTIVE:
            if len(stage.done) == stage.tasks:
                stage.status = StageStatus.COMPLETE
            elif self.random.random() < 0.03:
                stage.status = StageStatus.FAILED  # its other tasks run on

    def _lose(self, executor: ExecutorId) -> None:
        for task in [r for r in self.running if r.executor == executor]:
            self.running.remove(task)
            stage = self.stages[task.stage]
            stage.failed += 1
            twins = [r for r in self.running if r.stage == task.stage and r.index == task.index]
            if not twins and task.index not in stage.done:
                stage.waiting.append(task.index)
        if self.random.random() < 0.5:
            del self.executors[executor]
        else:
            self.executors[executor] = self.executors[executor]._replace(active=False, active_tasks=0)

    def _tally(self, executor: ExecutorId, active: int, total: int = 0) -> None:
        one = self.executors[executor]
        self.executors[executor] = one._replace(
            active_tasks=one.active_tasks + active, total_tasks=one.total_tasks + total
        )

    def look(self, *, all_stages: bool) -> DriverSnapshot:
        active = Counter(task.stage for task in self.running)
        stages = [
            StageSeen(*s.key, s.status, s.tasks, active[s.key], len(s.done), s.failed, 0, s.profile)
            for s in self.stages.values()
            if all_stages or s.status is StageStatus.ACTIVE
        ]
        jobs = {s.job: JobSeen(s.job, (s.key[0],)) for s in self.stages.values() if s.status is StageStatus.ACTIVE}
        return DriverSnapshot(
            tuple(jobs.values()), tuple(stages), tuple(self.executors.values()), (ProfileSeen(ProfileId(1)),)
        )


@given(st.integers(0, 2**32), st.booleans(), st.integers(0, 60))
def test_the_load_is_what_a_look_at_a_world_says(seed: int, all_stages: bool, attach_after: int) -> None:
    world, books = World(seed), Books()
    for _ in range(attach_after):
        world.turn()
    heard: list[Any] = []
    before: dict[ExecutorId, ExecutorSeen] = {}
    now = 1_000
    for _ in range(25):
        for _ in range(world.random.randrange(25)):
            world.turn()
        now += 500
        snapshot = world.look(all_stages=all_stages)
        heard += books.look(snapshot, now)
        check(books, snapshot, before, now)
        before = {one.executor: one for one in snapshot.executors if one.active}
    in_order(heard)
    added = [place for place, one in enumerate(heard) if isinstance(one, stimuli.ResourceProfileAdded)]
    used = [place for place, one in enumerate(heard) if isinstance(one, stimuli.StageSubmitted | RegisterExecutor)]
    assert not used or (added and added[0] < used[0]), "a profile is announced before anything uses it"


@pytest.mark.parametrize("seed", range(5))
def test_an_older_view_answers_as_before(seed: int) -> None:
    world = World(seed)
    looks = []
    for _ in range(12):
        for _ in range(15):
            world.turn()
        looks.append(world.look(all_stages=True))
    states = [views.empty()]
    steps = []
    for place, snapshot in enumerate(looks):
        steps.append(views.look(states[-1], (snapshot,), CONFIG, place))
        states.append(steps[-1].state)
    for place, (state, snapshot) in enumerate(zip(states, looks, strict=False)):
        assert views.look(state, (snapshot,), CONFIG, place) == steps[place]
    whole = views.look(views.empty(), looks, CONFIG, 7)
    assert whole.state.running == states[-1].running


# ------------------------------------------------------------------------------- short map jobs, as under adaptive execution


class Exchanges:
    """A driver whose map jobs begin and end between two looks; later jobs read them, under new stage ids, as skipped stages.

    ``written``: by RDD that a shuffle is made of, the executors that hold some of it. A look shows what runs; ``asked``
    stages that ended since the last one besides, as a sensor asks for them.
    """

    def __init__(self, seed: int, asked: int) -> None:
        self.random = Random(seed)
        self.asked = asked
        self.executors = {
            ExecutorId(str(number)): ExecutorSeen(ExecutorId(str(number)), True, f"h{number}:7079", added_at=number)
            for number in range(1, 5)
        }
        self.written: dict[int, set[ExecutorId]] = {}
        self.running: dict[int, tuple[JobSeen, tuple[StageSeen, ...], int | None]] = {}
        self.ended: list[StageSeen] = []
        self.stage_ids = self.jobs = 0
        self.rdds = 100

    def turn(self) -> None:
        roll = self.random.random()
        if roll < 0.3:
            self._map_job()
        elif roll < 0.5:
            self._job_that_reads()
        elif roll < 0.6 and len(self.running) < 6:
            self.rdds += 1
            self._begin((), self.rdds, None)
        elif roll < 0.75:
            self._write()
        elif self.running:
            self._end(self.random.choice(list(self.running)))

    def _map_job(self) -> None:
        self.rdds += 1
        job = self._begin((), self.rdds, self.rdds)
        for _ in range(self.random.randrange(1, 3)):
            self._write(job)
        if self.random.random() < 0.7:
            self._end(job)

    def _job_that_reads(self) -> None:
        if not self.written:
            return
        read = self.random.sample(sorted(self.written), min(len(self.written), 2))
        job = self._begin(tuple(read), self.rdds + 1, None)
        self.rdds += 1
        if self.random.random() < 0.3:
            self._end(job)

    def _begin(self, read: tuple[int, ...], rdd: int, writes: int | None) -> int:
        """A job over one stage, and those that are skipped. ``writes``: the shuffle, where it is a map stage."""
        skipped = [
            StageSeen(self.stage_ids + place, 0, StageStatus.PENDING, 3, rdds=(one,)) for place, one in enumerate(read)
        ]
        own = StageSeen(self.stage_ids + len(read), 0, StageStatus.ACTIVE, 3, rdds=(rdd,))
        stages = (*skipped, own)
        self.stage_ids += len(stages)
        self.jobs += 1
        self.running[self.jobs] = (JobSeen(self.jobs, tuple(one.stage for one in stages)), stages, writes)
        return self.jobs

    def _write(self, job: int | None = None) -> None:
        maps = [number for number, (_, _, writes) in self.running.items() if writes is not None]
        if not maps:
            return
        job = self.random.choice(maps) if job is None else job
        seen, (*skipped, own), writes = self.running[job]
        assert writes is not None
        one = self.random.choice(list(self.executors.values()))
        self.executors[one.executor] = one._replace(
            total_tasks=one.total_tasks + 1, shuffle_write=one.shuffle_write + 5
        )
        self.running[job] = (seen, (*skipped, own._replace(shuffle_write=own.shuffle_write + 5)), writes)
        self.written.setdefault(writes, set()).add(one.executor)

    def _end(self, job: int) -> None:
        _, stages, _ = self.running.pop(job)
        self.ended.append(stages[-1]._replace(status=StageStatus.COMPLETE, complete=3))

    def look(self) -> DriverSnapshot:
        ended, missed, self.ended = self.ended[: self.asked], len(self.ended) > self.asked, []
        stages = [one for _, listed, _ in self.running.values() for one in listed]
        jobs = tuple(job for job, _, _ in self.running.values())
        return DriverSnapshot(
            jobs, (*stages, *ended), tuple(self.executors.values()), (ProfileSeen(ProfileId(0)),), missed
        )

    def needed(self) -> set[ExecutorId]:
        """The executors with output that a running job reads or has written."""
        read = {one.rdds[0] for _, stages, _ in self.running.values() for one in stages}
        return {executor for shuffle in read & self.written.keys() for executor in self.written[shuffle]}


@given(st.integers(0, 2**32), st.sampled_from([0, 2, 100]), st.integers(0, 20))
def test_who_holds_map_output_is_kept_however_short_its_stage_was(seed: int, asked: int, attach_after: int) -> None:
    world = Exchanges(seed, asked)
    tracking = ScalingConfig(idle_timeout_ms=60_000, shuffle_tracking=True, shuffle_timeout_ms=100_000)
    books = Books(tracking)
    for _ in range(attach_after):
        world.turn()
    world.ended.clear()
    now = 1_000
    for _ in range(20):
        for _ in range(world.random.randrange(8)):
            world.turn()
        now += 500
        books.look(world.look(), now)
        for executor, one in world.executors.items():
            tracker = books.idle.tracker(executor)
            assert tracker is not None
            assert bool(tracker.shuffles) == (one.shuffle_write > 0), "as Spark, until its ContextCleaner acts"
            assert tracker.active_shuffle or executor not in world.needed(), "a running job reads its output"
