"""The driver's other half, as fakes: one that asks for executors and lets them go, one that runs tasks on them.

``Asking`` sets targets, kills and decommissions executors at random times, and does what dynamic allocation does about
executors beyond the target: the allocator never touches one that runs, so somebody has to.
``Working`` submits stages; their tasks start on executors that registered, end, fail, and are lost with their executor;
a stage may be aborted while its tasks run, and what is heard of them then comes late.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random

from podtide.domain.base.units import NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.executor_commands import AnswerRegistration, DecommissionExecutors, RemoveExecutor
from podtide.domain.protocol.executor_stimuli import DecommissionRequested, ExecutorBusy, KillRequested, TargetsSet
from podtide.domain.protocol.pod_commands import CreatePod
from podtide.domain.protocol.stimuli import (
    ResourceProfileAdded,
    StageCompleted,
    StageSubmitted,
    TaskEnd,
    TaskOutcome,
    TaskStart,
)
from tests.simulation.weather import Ask, Case, S


class _Half:
    """What both know: who is registered, of which profile, in the order of registration."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.registered: dict[ExecutorId, ProfileId] = {}
        self.profiles: dict[str, ProfileId] = {}
        self.asks = deque(case.asks)
        self.now: Millis = 0

    def hear(self, word: Command | AnyStimulus, now: Millis) -> None:
        """Take note of who comes and who goes."""
        match word:
            case CreatePod():
                self.profiles[str(word.executor)] = word.profile
            case AnswerRegistration() if word.accepted:
                self.registered[word.executor] = self.profiles.get(word.executor, ProfileId(0))
                self.came(now)
            case RemoveExecutor():
                if self.registered.pop(word.executor, None) is not None:
                    self.left(word.executor)
            case DecommissionExecutors():
                for executor in word.executors:
                    self.leaving(executor)
            case _:
                pass

    def came(self, now: Millis) -> None:
        """Another one may be given work."""

    def left(self, executor: ExecutorId) -> None:
        """It is gone, with its work."""

    def leaving(self, executor: ExecutorId) -> None:
        """It is to be given no more work."""

    def one_of(self, ask: Ask) -> tuple[ExecutorId, ...]:
        """The executor that an ask is about, if there is any."""
        chosen = sorted(self.registered)
        return (chosen[ask.number % len(chosen)],) if chosen else ()

    def done(self) -> bool:
        """Whether all is calm, and everything has been asked for."""
        return not self.asks and self.now >= self.case.calm_ms

    def summary(self) -> dict[str, int]:
        """What it went through."""
        return {"registered": len(self.registered)}


class Asking(_Half):
    """Targets over time, kills and decommissions."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.targets: dict[ProfileId, int] = {}
        self.busy: set[ExecutorId] = set()
        self.look_at: Millis = NEVER
        direct = dict(case.conf).get("spark.kubernetes.allocation.pods.allocator", "direct") == "direct"
        self.trims = direct  # a set's controller lets pods go by itself

    def due(self) -> Millis:
        """When it next asks for something, or lets go of executors beyond the target."""
        first = self.asks[0].at if self.asks else NEVER
        if self.now < self.case.calm_ms:
            first = min(first, self.case.calm_ms)
        return min(first, self.look_at)

    def advance(self, now: Millis) -> Sequence[AnyStimulus]:
        """What it asks for up to now."""
        said: list[AnyStimulus] = []
        calm = self.now < self.case.calm_ms <= now
        self.now = max(self.now, now)
        while self.asks and self.asks[0].at <= now:
            said.extend(self._ask(self.asks.popleft(), now))
        if calm and self.busy:
            said.append(ExecutorBusy(now, tuple(sorted(self.busy)), busy=False))
            self.busy.clear()
        if self.look_at <= now:
            surplus = self._surplus()
            self.look_at = NEVER
            if surplus:
                said.append(KillRequested(now, surplus))
                self.look_at = now + self.case.surplus_ms  # those that are busy are asked again
        self._look(now)
        return said

    def _ask(self, ask: Ask, now: Millis) -> Sequence[AnyStimulus]:
        match ask.what:
            case "target":
                self.targets[ask.profile] = ask.number
                return (TargetsSet(now, tuple(sorted(self.targets.items()))),)
            case "kill" | "force":
                return tuple(KillRequested(now, (e,), force=ask.what == "force") for e in self.one_of(ask))
            case "decommission":
                return tuple(DecommissionRequested(now, (e,), "asked for") for e in self.one_of(ask))
            case "busy" | "idle" if now < self.case.calm_ms:
                chosen = self.one_of(ask)
                (self.busy.update if ask.what == "busy" else self.busy.difference_update)(chosen)
                return tuple(ExecutorBusy(now, (e,), ask.what == "busy") for e in chosen)
            case _:
                return ()

    def came(self, now: Millis) -> None:
        self._look(now)

    def _look(self, now: Millis) -> None:
        if self.look_at == NEVER and self._surplus():
            self.look_at = now + self.case.surplus_ms

    def _surplus(self) -> tuple[ExecutorId, ...]:
        """The oldest executors beyond the target."""
        if not self.trims:
            return ()
        found: list[ExecutorId] = []
        for profile, target in self.targets.items():
            mine = [e for e, of in self.registered.items() if of == profile]
            found.extend(mine[: max(0, len(mine) - target)])
        return tuple(found)


class _Stage:
    """A stage attempt under way: the tasks that wait, and where the others run."""

    def __init__(self, number: int, profile: ProfileId, tasks: int) -> None:
        self.number = number
        self.profile = profile
        self.waiting = deque(range(tasks))
        self.left = tasks
        self.open = True


class Working(_Half):
    """Stages whose tasks run on the executors that come; it is done when all of them are."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.chance = Random(case.seed)
        self.slots = int(dict(case.conf).get("spark.executor.cores", "1"))
        self.stages: list[_Stage] = []
        self.running: dict[tuple[int, int], tuple[Millis, ExecutorId]] = {}  # (stage, task): until, where
        self.numbers = 0
        self.news: list[AnyStimulus] = [ResourceProfileAdded(0, ProfileId(1), (("cores", 1.0),), (("cpus", 1.0),))]
        self.closed: set[ExecutorId] = set()
        self.tasks_done = 0

    def due(self) -> Millis:
        """When a stage comes or a task ends."""
        first = self.now if self.news or self._free() else NEVER
        if self.asks:
            first = min(first, self.asks[0].at)
        if self.now < self.case.calm_ms:
            first = min(first, self.case.calm_ms)
        return min(first, min((until for until, _ in self.running.values()), default=NEVER))

    def advance(self, now: Millis) -> Sequence[AnyStimulus]:
        """What became of stages and tasks up to now."""
        self.now = max(self.now, now)
        said, self.news = [one._replace(at=now) for one in self.news], []
        while self.asks and self.asks[0].at <= now:
            said.extend(self._ask(self.asks.popleft(), now))
        for (number, task), (until, executor) in sorted(self.running.items()):
            if until <= now:
                del self.running[number, task]
                said.extend(self._ended(number, task, executor, now))
        while (free := self._free()) is not None:
            said.extend(self._start(*free, now))
        return said

    def _ask(self, ask: Ask, now: Millis) -> Sequence[AnyStimulus]:
        match ask.what:
            case "tasks" if ask.number:
                self.numbers += 1
                self.stages.append(_Stage(self.numbers, ask.profile, 2 * ask.number))
                return (StageSubmitted(now, self.numbers, 0, 2 * ask.number, ask.profile),)
            case "abort" if self.stages:
                stage = self.stages[ask.number % len(self.stages)]
                return self._completed(stage, now)
            case "decommission":
                return tuple(DecommissionRequested(now, (e,), "asked for") for e in self.one_of(ask))
            case _:
                return ()

    def _completed(self, stage: _Stage, now: Millis) -> Sequence[AnyStimulus]:
        """A stage is over; the news of a task that began just before may come after it."""
        stage.open = False
        self.stages.remove(stage)
        said: list[AnyStimulus] = [StageCompleted(now, stage.number, 0)]
        if stage.waiting and self.registered:
            executor = min(self.registered)
            task = stage.waiting.popleft()
            self.running[stage.number, task] = (now + self.chance.randrange(1, 5 * S), executor)
            said.append(TaskStart(now, stage.number, 0, task, executor))
        return said

    def _free(self) -> tuple[_Stage, ExecutorId] | None:
        """A task that waits, and an executor with room for it."""
        wanting = [stage for stage in self.stages if stage.waiting]
        if not wanting:
            return None
        taken: dict[ExecutorId, int] = {}
        for _, executor in self.running.values():
            taken[executor] = taken.get(executor, 0) + 1
        for stage in wanting:
            slots = self.slots if stage.profile == 0 else 1
            for executor, profile in self.registered.items():
                if profile == stage.profile and executor not in self.closed and taken.get(executor, 0) < slots:
                    return stage, executor
        return None

    def _start(self, stage: _Stage, executor: ExecutorId, now: Millis) -> Sequence[AnyStimulus]:
        task = stage.waiting.popleft()
        self.running[stage.number, task] = (now + self.chance.randrange(200, 20 * S), executor)
        return (TaskStart(now, stage.number, 0, task, executor), ExecutorBusy(now, (executor,), busy=True))

    def _ended(self, number: int, task: int, executor: ExecutorId, now: Millis) -> Sequence[AnyStimulus]:
        failed = self.now < self.case.calm_ms and self.chance.randrange(10) == 0
        outcome = TaskOutcome.FAILED if failed else TaskOutcome.SUCCESS
        said: list[AnyStimulus] = [TaskEnd(now, number, 0, task, executor, False, outcome)]
        if all(where != executor for _, where in self.running.values()):
            said.append(ExecutorBusy(now, (executor,), busy=False))
        stage = next((s for s in self.stages if s.number == number), None)
        if stage is None:
            return said
        if failed:
            stage.waiting.append(task)
        else:
            stage.left -= 1
            self.tasks_done += 1
            if not stage.left:
                said.extend(self._completed(stage, now))
        return said

    def left(self, executor: ExecutorId) -> None:
        self.closed.discard(executor)
        for (number, task), (_, where) in sorted(self.running.items()):
            if where == executor:
                del self.running[number, task]
                self.news.append(TaskEnd(self.now, number, 0, task, executor, False, TaskOutcome.FAILED))
                stage = next((s for s in self.stages if s.number == number), None)
                if stage is not None:
                    stage.waiting.append(task)

    def leaving(self, executor: ExecutorId) -> None:
        self.closed.add(executor)

    def done(self) -> bool:
        return super().done() and not self.stages and not self.running and not self.news

    def summary(self) -> dict[str, int]:
        return {**super().summary(), "tasks": self.tasks_done, "stages": self.numbers}
