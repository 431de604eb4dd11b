"""A live driver seen through its REST API: from the difference between two looks to the events that Spark's listeners
hear.

Dynamic allocation decides from listener events; the driver's REST API tells counts at a moment. ``look`` gives the
events that lead from what was seen before to what is seen now, so that afterwards the load counts exactly the pending
and running tasks of the look, executors are busy or idle as the look has them, and one that was seen busy, or
finished a task since, is idle from this look on (between none and one look too long, never too short). The commands
of this machine are the stimuli of the engine: nothing else acts upon them.

The order within a look is Spark's as far as it can be known: profiles before who uses them; lost connections, then
registrations; tasks end, stages complete, jobs end; jobs start, stages are submitted, tasks start; cached blocks and
shuffle data; and which executors are busy, for kills without force. How single tasks are told apart is
``live.driver_tasks``' to say, who holds which shuffle ``live.driver_shuffles``'. Counts that no driver would show
(negative, falling, absurdly large) cost bounded time and are taken for the nearest that one would.

A first look at an application in its middle is a look like any other, from nothing: executors register in the order in
which they were added, stages begin with the tasks that are left. What cannot be known this way, and what follows from
it, is in docs/reference/live.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.live.driver_shuffles import ShuffleLook, Shuffles
from podtide.domain.live.driver_snapshot import DRIVERS, DriverSnapshot, ExecutorSeen, JobSeen, ProfileSeen, ViewConfig
from podtide.domain.live.driver_tasks import NOBODY, UNSEEN, Attempts, Running, TaskLook
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.executor_stimuli import ExecutorBusy, ExecutorDisconnected, RegisterExecutor
from podtide.domain.protocol.pod_stimuli import PodStimulus
from podtide.domain.protocol.stimuli import BlockUpdated, JobEnd, JobStart, RddBlock, ResourceProfileAdded, Stimulus

__all__ = ["NOBODY", "UNSEEN", "Known", "ViewState", "empty", "look"]

ViewStimulus: TypeAlias = Stimulus | PodStimulus
"""What the engine takes."""

CACHED_BLOCK: Final = RddBlock(-1, 0)
"""Stands for whatever RDD blocks an executor holds: one is enough to keep it for the cached idle timeout."""

ID_MAX: Final = 1_000
"""Characters of an executor id; whatever is longer is none."""


class Known(NamedTuple):
    """A live executor as of the last look. ``cached``: it holds RDD blocks; ``on_disk``: on disk alone."""

    profile: ProfileId
    address: str
    busy: bool
    finished: int
    shuffle_write: int
    cached: bool
    on_disk: bool


@dataclass(frozen=True, slots=True)
class ViewState:
    """What was seen last. Mappings are never written to: a look copies what it changes."""

    profiles: Mapping[ProfileId, ProfileSeen] = field(default_factory=dict)
    jobs: Mapping[int, JobSeen] = field(default_factory=dict)
    executors: Mapping[ExecutorId, Known] = field(default_factory=dict)
    attempts: Attempts = field(default_factory=dict)
    running: Running = field(default_factory=dict)
    shuffles: Shuffles = field(default_factory=Shuffles)

    def unseen_stages(self, executors: Iterable[ExecutorSeen]) -> int | None:
        """The first stage id that may have come and gone since the last look; None where no shuffle data grew."""
        highest, known = self.shuffles.highest, self.executors
        if highest is None:
            return None
        for executor, one in _live(executors).items():
            if one.shuffle_write > (known[executor].shuffle_write if executor in known else 0):
                return highest + 1
        return None

    def unknown_profiles(self, snapshot: DriverSnapshot) -> frozenset[ProfileId]:
        """Profiles that a look uses and that nobody described: ask for them, and look again."""
        used = {stage.profile for stage in snapshot.stages} | {one.profile for one in snapshot.executors}
        return frozenset(used - self.profiles.keys() - {one.profile for one in snapshot.profiles})


def empty() -> ViewState:
    """Nothing was seen yet."""
    return ViewState()


def look(
    state: ViewState, snapshots: Sequence[DriverSnapshot], config: ViewConfig, now: Millis
) -> Step[ViewState, ViewStimulus]:
    """Fold looks in order; the commands are the stimuli that lead from one to the next, all at ``now``."""
    stimuli: list[ViewStimulus] = []
    for snapshot in snapshots:
        one = _Look(state, snapshot, config, now)
        stimuli.extend(one.take())
        state = one.state
    return Step(state, tuple(stimuli))


class _Look:
    """One look under way."""

    def __init__(self, before: ViewState, snapshot: DriverSnapshot, config: ViewConfig, now: Millis) -> None:
        self.before, self.snapshot, self.config, self.now = before, snapshot, config, now
        self.state = before
        self.out: list[ViewStimulus] = []
        self.executors: dict[ExecutorId, Known] = {}
        self.finished: dict[ExecutorId, int] = {}
        self.wrote: list[ExecutorId] = []
        self.idle: list[ExecutorId] = []

    def take(self) -> Sequence[ViewStimulus]:
        """Everything that this look says, in order."""
        before, snapshot, now = self.before, self.snapshot, self.now
        profiles = self._profiles()
        live = _live(snapshot.executors)
        self._executors(live)
        tasks = TaskLook(before.attempts, before.running, self.config, now)
        who = {executor: known.profile for executor, known in self.executors.items()}
        tasks.plan(snapshot.stages, {one.executor: one.active_tasks for one in live.values()}, who)
        jobs = {job.job: job for job in snapshot.jobs}
        shuffles = ShuffleLook(before.shuffles, snapshot, jobs.values(), self.config, now)
        self.out += shuffles.settle(before.jobs.values())
        self.out += tasks.ends()
        self.out += [JobEnd(now, job) for job in before.jobs if job not in jobs]
        self.out += [
            JobStart(now, number, shuffles.job_stages(job))
            for number, job in sorted(jobs.items())
            if number not in before.jobs
        ]
        self.out += shuffles.begun(jobs.keys() - before.jobs.keys())
        self.out += tasks.starts(self.finished, who)
        self._blocks()
        self.out += shuffles.held(self.wrote)
        self.out += tasks.closes()
        if self.idle:
            self.out.append(ExecutorBusy(now, tuple(self.idle), busy=False))
        left, cleaned = shuffles.close()
        self.out += cleaned
        self.state = ViewState(profiles, jobs, self.executors, tasks.attempts, tasks.running, left)
        return self.out

    def _profiles(self) -> Mapping[ProfileId, ProfileSeen]:
        known = self.before.profiles
        new = {one.profile: one for one in self.snapshot.profiles if one.profile not in known}
        for profile in sorted(new):
            self.out.append(ResourceProfileAdded(self.now, profile, new[profile].executor, new[profile].task))
        return {**known, **new} if new else known

    def _executors(self, live: Mapping[ExecutorId, ExecutorSeen]) -> None:
        now, before = self.now, self.before.executors
        for executor, known in before.items():
            if executor not in live:
                self.out.append(ExecutorDisconnected(now, known.address))
                if known.busy:
                    self.idle.append(executor)
        busy = []
        new = [one for one in live.values() if one.executor not in before]
        for one in sorted(new, key=lambda one: (one.added_at, len(one.executor), one.executor)):
            address = _address(one)
            self.out.append(RegisterExecutor(now, one.executor, one.profile, one.host, address))
        for executor, one in live.items():
            was = before.get(executor)
            works = one.active_tasks > 0
            finished = max(0, one.total_tasks - max(0, one.active_tasks))
            if was is None:
                wrote = one.shuffle_write > 0
            else:
                wrote = one.shuffle_write > was.shuffle_write
                if finished > was.finished:
                    self.finished[executor] = finished - was.finished
            if works and (was is None or not was.busy):
                busy.append(executor)
            elif not works and was is not None and was.busy:
                self.idle.append(executor)
            if wrote:
                self.wrote.append(executor)
            cached = one.rdd_blocks > 0
            on_disk = cached and one.memory_used <= 0 < one.disk_used
            address = _address(one) if was is None else was.address
            profile = one.profile if was is None else was.profile
            self.executors[executor] = Known(profile, address, works, finished, one.shuffle_write, cached, on_disk)
        if busy:
            self.out.append(ExecutorBusy(now, tuple(busy), busy=True))

    def _blocks(self) -> None:
        for executor, known in self.executors.items():
            was = self.before.executors.get(executor)
            if (known.cached, known.on_disk) != ((False, False) if was is None else (was.cached, was.on_disk)):
                self.out.append(BlockUpdated(self.now, executor, CACHED_BLOCK, known.cached, known.on_disk))


def _live(executors: Iterable[ExecutorSeen]) -> dict[ExecutorId, ExecutorSeen]:
    """The executors that are there, by id; the driver is none of them."""
    return {
        one.executor: one
        for one in executors
        if one.active and one.executor not in DRIVERS and 0 < len(one.executor) <= ID_MAX
    }


def _address(one: ExecutorSeen) -> str:
    """Where the executor is heard from, as far as books go: a pod's address may be another executor's later."""
    return f"{one.executor}@{one.address}"
