"""A random world around dynamic allocation, in closed loop with the judge: what the cluster and the jobs do next.

The loop is closed because what Spark answers matters to what happens: requested executors arrive (some of
them, late), killed ones go (most of them), tasks start where there is room. Over that ordinary life lie
oddities.py's events that no scheduler would send in that order, but that event logs hold.

``World.run`` sends lines through a ``Sink``; only ticks wait for an answer.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from tests.oracle import events
from tests.oracle.events import Dialect, Event, StageShape, TaskShape
from tests.oracle.settings import Profile, Setting, draw_profile

Line: TypeAlias = dict[str, Any]
Answers: TypeAlias = list[dict[str, Any]]

REASONS: Final = (
    "ExceptionFailure",
    "TaskKilled",
    "FetchFailed",
    "TaskCommitDenied",
    "UnknownReason",
    "TaskResultLost",
)
FAREWELLS: Final = (
    "Executor killed by driver.",
    "Finished decommissioning",
    "Executor decommission: spot instance",
    "Remote RPC client disassociated",
    "",
)


class Sink(Protocol):
    """Where the lines of a scenario go."""

    def put(self, line: Line) -> None:
        """Send a line whose answer can wait."""

    def settle(self) -> list[tuple[Line, Answers]]:
        """Return the answers to all lines since the last call, in order."""


@dataclass(eq=False)
class Stage:
    """One stage attempt, and its tasks."""

    shape: StageShape
    job: int
    waiting: list[int] = field(default_factory=list)
    running: dict[int, TaskShape] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    copies: list[int] = field(default_factory=list)  # indices with a speculative copy asked for
    tries: dict[int, int] = field(default_factory=dict)
    active: bool = False


@dataclass(eq=False)
class Executor:
    """One executor: its profile, the tasks on it, and whether it was told to go."""

    profile: int
    tasks: dict[int, TaskShape] = field(default_factory=dict)
    leaving: bool = False


@dataclass(frozen=True)
class Character:
    """What this scenario is fond of, as chances per tick."""

    mean_task_ms: int
    job: float
    loss: float
    block: float
    speculation: float
    exclusion: float
    refusal: float
    reset: float
    oddity: float
    probe: float
    hints: bool
    failures: float
    strangers: float


def draw_character(r: random.Random) -> Character:
    """Draw a character: a quiet base, one or two things that happen often."""
    fond = set(
        r.sample(("loss", "block", "speculation", "exclusion", "refusal", "reset", "oddity", "fail", "stranger"), 2)
    )
    return Character(
        mean_task_ms=r.choice((50, 100, 500, 2_000, 6_000)),
        job=r.choice((0.5, 0.2, 0.06)),
        loss=0.06 if "loss" in fond else 0.01,
        block=0.3 if "block" in fond else 0.04,
        speculation=0.5 if "speculation" in fond else 0.05,
        exclusion=0.1 if "exclusion" in fond else 0.01,
        refusal=0.06 if "refusal" in fond else 0.01,
        reset=0.02 if "reset" in fond else 0.001,
        oddity=0.4 if "oddity" in fond else r.choice((0, 0.03, 0.1)),
        probe=r.choice((0, 0.02, 0.1)),
        hints=r.random() < 0.3,
        failures=0.3 if "fail" in fond else 0.06,
        strangers=0.4 if "stranger" in fond else 0.05,
    )


class World:
    """One scenario being made."""

    def __init__(self, r: random.Random, sink: Sink, setting: Setting, dialect: Dialect) -> None:
        self.r = r
        self.sink = sink
        self.setting = setting
        self.dialect = dialect
        self.character = draw_character(r)
        self.now: int = setting.header.get("startAt", 0)
        self.agenda: list[tuple[int, int, Callable[[], None]]] = []
        self.sequence = 0
        self.profiles: dict[int, Profile] = {0: setting.default}
        self.executors: dict[str, Executor] = {}
        self.next_executor = r.choice((1, 1, 1, 8, 95, 998))
        self.next_task = self.next_stage = self.next_job = self.next_shuffle = 0
        self.stages: list[Stage] = []
        self.jobs: dict[int, list[Stage]] = {}
        self.past: list[Stage] = []
        self.ended: list[TaskShape] = []
        self.targets: dict[int, int] = {}
        self.arriving: dict[int, int] = {}
        self.rdds: set[int] = set()
        self.struck: list[str] = []
        """Names of the oddities that happened."""

    # ---- sending

    def send(self, **line: Any) -> None:
        """Send a line at the present time."""
        self.sink.put({"at": self.now, **line})

    def event(self, event: Event) -> None:
        """Send an event, now and then between two state lines."""
        watched = self.r.random() < self.character.probe
        if watched:
            self.send(state=True)
        self.send(event=event)
        if watched:
            self.send(state=True)

    def later(self, ms: int, action: Callable[[], None]) -> None:
        """Do something in some milliseconds."""
        self.sequence += 1
        heapq.heappush(self.agenda, (self.now + ms, self.sequence, action))

    def hear(self, answers: Answers) -> None:
        """React to what Spark asked of the cluster."""
        for answer in answers:
            call = answer.get("call")
            if call == "requestTotalExecutors" and answer["ack"]:
                self.targets = {int(profile): target for profile, target in answer["targets"].items()}
            elif call in ("killExecutors", "decommissionExecutors"):
                for name in answer["acked"]:
                    if name in self.executors:
                        self.executors[name].leaving = True
                        if self.r.random() < 0.9:
                            why = FAREWELLS[0] if call[0] == "k" else self.r.choice(FAREWELLS[:3])
                            self.later(self.r.randint(20, 1_500), self._removal(name, why))

    def _removal(self, name: str, why: str) -> Callable[[], None]:
        return lambda: self.remove(name, why)

    # ---- executors

    def arrive(self, profile: int) -> None:
        """An executor comes: usually by ExecutorAdded, sometimes a task or a block of it is heard of first."""
        r = self.r
        name = str(self.next_executor)
        self.next_executor += 1
        self.executors[name] = Executor(profile)
        added = events.executor_added(self.dialect, name, profile, self.setting.cores, self.now)
        if r.random() > self.character.strangers:
            self.event(added)
            return
        self.send(client={"active": [name]})
        if r.random() < 0.5:
            self.launch(name)
        else:
            self.event(events.block_updated(name, f"rdd_{r.randint(0, 3)}_{r.randint(0, 5)}", False, True))
        if r.random() < 0.8:
            self.later(r.randint(0, 3_000), lambda: self.event(added) if name in self.executors else None)

    def remove(self, name: str, why: str) -> None:
        """An executor is gone; its tasks end as lost, or are never heard of again."""
        executor = self.executors.pop(name, None)
        if executor is None:
            return
        told = self.r.random() < 0.9
        late = self.r.random() < 0.1
        for task in list(executor.tasks.values()):
            if told and not late:
                self.end(task, "ExecutorLostFailure")
        self.event(events.executor_removed(name, why, self.now))
        for task in list(executor.tasks.values()):
            if late:
                self.end(task, "ExecutorLostFailure")
        if told and self.r.random() < 0.3:  # its map outputs are lost with it
            for task in [t for t in self.ended[-60:] if t.executor == name and t.map_task][:5]:
                self.event(events.task_end(self.dialect, task, self.now, "Resubmitted"))

    # ---- jobs and stages

    def submit_job(self) -> None:
        """A job of one to three stages in a chain; map stages may write a shuffle that an older job wrote."""
        r = self.r
        job = self.next_job
        self.next_job += 1
        stages: list[Stage] = []
        count = r.choice((1, 1, 2, 3))
        for i in range(count):
            tasks = r.choices((0, 1, 2, 3, 5, 10, 17, 40, 100), (1, 6, 6, 6, 8, 8, 6, 4, 1))[0]
            shuffle = None
            if i < count - 1:
                if not self.next_shuffle or r.random() < 0.8:
                    self.next_shuffle += 1
                shuffle = self.next_shuffle - 1 if r.random() < 0.9 else r.randrange(self.next_shuffle)
            hosts = [f"h{n}" for n in range(1, 9)]
            locality = [r.choices(hosts, k=r.randint(0, 3)) for _ in range(tasks)] if self.character.hints else None
            parents = (stages[-1].shape.stage,) if stages else ()
            profile = r.choice(list(self.profiles))
            shape = StageShape(self.next_stage, 0, tasks, profile, parents, shuffle, locality)
            stages.append(Stage(shape, job))
            self.next_stage += 1
        self.jobs[job] = stages
        self.event(events.job_start(self.dialect, job, [stage.shape for stage in stages], self.now))
        self.submit(stages[0])

    def submit(self, stage: Stage) -> None:
        """A stage attempt begins."""
        stage.active = True
        shape = stage.shape
        stage.waiting = [i for i in range(shape.tasks) if i not in stage.done]
        self.stages.append(stage)
        if stage.done and self.r.random() < 0.5:  # a retry counts what is missing, or all: both were seen
            shape = StageShape(shape.stage, shape.attempt, len(stage.waiting), shape.profile, shape.parents)
        self.event(events.stage_submitted(self.dialect, shape, self.now))
        if not stage.waiting:
            self.later(self.r.randint(1, 200), lambda: self.complete(stage))

    def complete(self, stage: Stage, failure: str | None = None) -> None:
        """A stage attempt is over: the next stage, the end of the job, or another attempt follows."""
        if not stage.active:
            return
        r = self.r
        stage.active = False
        self.stages.remove(stage)
        self.past.append(stage)
        self.event(events.stage_completed(self.dialect, stage.shape, self.now, failure))
        stages = self.jobs.get(stage.job, [])
        if stage not in stages:
            return
        i = stages.index(stage)
        if failure:
            old = stage.shape
            again = StageShape(
                old.stage, old.attempt + 1, old.tasks, old.profile, old.parents, old.shuffle, old.locality
            )
            retry = Stage(again, stage.job, done={d for d in stage.done if r.random() < 0.7})
            stages[i] = retry
            self.later(r.randint(1, 300), lambda: self.submit(retry))
        elif i + 1 < len(stages):
            self.later(r.randint(0, 50), lambda: self.submit(stages[i + 1]))
        else:
            self.later(r.randint(0, 20), lambda: self.end_job(stage.job))

    def end_job(self, job: int, failed: bool = False) -> None:
        """The job is over; its shuffles are cleaned some time, or never."""
        self.event(events.job_end(self.dialect, job, self.now, failed))
        for stage in self.jobs.pop(job, []):
            shuffle = stage.shape.shuffle
            if shuffle is not None and self.r.random() < 0.5:
                self.later(self.r.randint(0, 5_000), lambda k=shuffle: self.send(shuffleCleaned=k))  # type: ignore[misc]

    # ---- tasks

    def launch(self, name: str) -> None:
        """Fill an executor's free slots with waiting tasks of its profile, then with speculative copies."""
        executor = self.executors[name]
        profile = self.profiles.get(executor.profile, self.setting.default)
        free = self.setting.slots(profile) - len(executor.tasks)
        for stage in list(self.stages):
            if stage.shape.profile != executor.profile or executor.leaving:
                continue
            while free > 0 and (stage.waiting or stage.copies):
                copy = not stage.waiting
                index = stage.copies.pop(0) if copy else stage.waiting.pop(0)
                if copy and index in stage.done:
                    continue
                self.start(stage, index, name, copy)
                free -= 1

    def start(self, stage: Stage, index: int, name: str, speculative: bool) -> TaskShape:
        """Start one task attempt."""
        shape = stage.shape
        number = stage.tries[index] = stage.tries.get(index, -1) + 1
        mapped = shape.shuffle is not None
        task = TaskShape(self.next_task, shape.stage, shape.attempt, index, name, speculative, mapped, number)
        self.next_task += 1
        stage.running[task.task] = task
        if name in self.executors:
            self.executors[name].tasks[task.task] = task
        self.event(events.task_start(self.dialect, task, self.now))
        takes = int(self.r.expovariate(1 / self.character.mean_task_ms)) + 1
        self.later(takes, lambda: self.end(task))
        return task

    def end(self, task: TaskShape, reason: str | None = None) -> None:
        """One task attempt ends, as told or as chance has it."""
        stage = self._stage_of(task)
        if stage is None or stage.running.pop(task.task, None) is None:
            return
        r = self.r
        if task.executor in self.executors:
            self.executors[task.executor].tasks.pop(task.task, None)
        if reason is None:
            reason = r.choices(REASONS, (5, 2, 0.6, 1, 1, 1))[0] if r.random() < self.character.failures else "Success"
        self.event(events.task_end(self.dialect, task, self.now, reason))
        if reason == "Success":
            self.ended.append(task)
        if not stage.active:
            return
        if reason == "Success":
            stage.done.add(task.index)
            for other in list(stage.running.values()):
                if other.index == task.index:
                    self.later(r.randint(0, 40), lambda o=other: self.end(o, "TaskKilled"))  # type: ignore[misc]
            if len(stage.done) >= stage.shape.tasks:
                self.complete(stage)
        elif reason == "FetchFailed" and stage.shape.attempt < 4:
            self.complete(stage, "fetch failed")
        elif task.index not in stage.done | {o.index for o in stage.running.values()} | set(stage.waiting):
            stage.waiting.append(task.index)

    def _stage_of(self, task: TaskShape) -> Stage | None:
        key = (task.stage, task.attempt)
        known = [*self.stages, *reversed(self.past[-40:])]
        return next((s for s in known if (s.shape.stage, s.shape.attempt) == key), None)

    # ---- what else happens

    def blocks(self) -> None:
        """An executor stores or drops a block: of an RDD, of a shuffle, or one that plays no role."""
        r = self.r
        name = r.choice(list(self.executors)) if r.random() < 0.97 else "999"
        rdd = r.randint(0, 3)
        self.rdds.add(rdd)
        disk, memory = r.choice(((False, True), (True, True), (True, False), (False, False)))
        block = f"rdd_{rdd}_{r.randint(0, 5)}"
        if r.random() < 0.2:
            shuffle = r.randrange(self.next_shuffle + 1)
            block = r.choice((f"shuffle_{shuffle}_{r.randint(0, 9)}_0.data", f"shuffle_{shuffle}_1_0", "broadcast_1"))
        self.event(events.block_updated(name, block, disk, memory))

    def exclude(self) -> None:
        """A stage attempt finds every executor excluded, for a while or for good."""
        shape = self.r.choice(self.stages).shape
        self.event(events.unschedulable(shape.stage, shape.attempt, True))
        if self.r.random() < 0.8:
            gone = events.unschedulable(shape.stage, shape.attempt, False)
            self.later(self.r.randint(10, 3_000), lambda: self.event(gone))

    def speculate(self) -> None:
        """Running tasks are found slow, and copies of them asked for."""
        for stage in self.stages:
            for task in list(stage.running.values()):
                slow = not task.speculative and task.index not in stage.done and task.index not in stage.copies
                if slow and self.r.random() < 0.2:
                    stage.copies.append(task.index)
                    index = None if self.r.random() < 0.03 else task.index
                    shape = stage.shape
                    self.event(events.speculative_submitted(shape.stage, shape.attempt, index))

    def refuse(self) -> None:
        """The cluster manager does not answer, throws, or refuses kills, for some seconds."""
        r = self.r
        some = [name for name in self.executors if r.random() < 0.5]
        ways: tuple[Line, ...] = (
            {"ackRequests": False},
            {"throwOnRequest": True},
            {"throwOnKill": True},
            {"refuseKills": True},
            {"refuseKills": some},
            {"refuseKills": some},
        )
        self.send(client=r.choice(ways))
        calm = {"ackRequests": True, "throwOnRequest": False, "throwOnKill": False, "refuseKills": []}
        self.later(r.randint(100, 3_000), lambda: self.send(client=calm))

    def request_profiles(self) -> None:
        """The application defines further resource profiles."""
        for profile in range(1, self.r.choice((1, 1, 2, 3, 4))):
            drawn = draw_profile(self.r, self.setting)
            self.profiles[profile] = drawn
            self.event(events.profile_added(profile, drawn.executor, drawn.task))

    def happen(self) -> None:
        """What happens in one tick's time, apart from the agenda."""
        r, character = self.r, self.character
        if r.random() < (character.job if not self.jobs else character.job * 0.1):
            self.submit_job()
        for profile, target in self.targets.items():
            there = sum(e.profile == profile and not e.leaving for e in self.executors.values())
            missing = target - there - self.arriving.get(profile, 0)
            if r.random() < 0.01:
                missing += 2  # more than were asked for
            for _ in range(min(missing, 5, 60 - len(self.executors))):
                if r.random() < 0.5:
                    self.arriving[profile] = self.arriving.get(profile, 0) + 1
                    self.later(r.randint(10, 3_000), self._arrival(profile))
        for name in r.sample(list(self.executors), len(self.executors)):
            if r.random() < 0.8 and name in self.executors:
                self.launch(name)
        if self.executors and r.random() < character.loss:
            self.remove(r.choice(list(self.executors)), r.choice(FAREWELLS))
        if self.executors and r.random() < character.block:
            self.blocks()
        if self.rdds and r.random() < character.block * 0.4:
            self.event(events.unpersist_rdd(r.choice(list(self.rdds))))
        if self.stages and r.random() < character.exclusion:
            self.exclude()
        if r.random() < character.speculation:
            self.speculate()
        if r.random() < character.refusal:
            self.refuse()
        if r.random() < character.reset:
            self.send(reset=True)

    def _arrival(self, profile: int) -> Callable[[], None]:
        def come() -> None:
            self.arriving[profile] -= 1
            self.arrive(profile)

        return come

    def advance(self, until: int) -> None:
        """Carry out the agenda up to a moment, and move the clock there."""
        while self.agenda and self.agenda[0][0] <= until:
            due, _, action = heapq.heappop(self.agenda)
            self.now = max(self.now, due)
            action()
        self.now = until

    def run(self, steps: int, oddity: Callable[[World], None]) -> None:
        """Make a scenario of so many ticks."""
        r = self.r
        self.sink.put(self.setting.header)
        self.request_profiles()
        gaps, weights = (100, 101, 137, 250, 0, 1, 1_000, 20_000), (60, 10, 8, 8, 2, 2, 8, 1)
        for _ in range(steps):
            self.advance(self.now + r.choices(gaps, weights)[0])
            self.happen()
            if r.random() < self.character.oddity:
                oddity(self)
            self.send(tick=True)
            for _line, answers in self.sink.settle():
                self.hear(answers)
