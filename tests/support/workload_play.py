"""A workload played without an engine: executors come and go when the test says so, and all that is said is written down.

``Play`` checks as it goes what has to hold of any workload: a task starts on an executor that is there and has a slot free,
ends once for each start, and nothing is started twice at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from podtide.domain.base.randomness import Constant
from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.fakes.driver import driver as workloads
from podtide.domain.fakes.driver.driver import Summary, WorkloadEvent
from podtide.domain.fakes.driver.script import Jobs, ScriptJob, ScriptStage, Workload
from podtide.domain.protocol.config import ProfileRules
from podtide.domain.protocol.executor_commands import (
    AnswerRegistration,
    DecommissionExecutors,
    ExitReason,
    RemoveExecutor,
)
from podtide.domain.protocol.executor_stimuli import (
    ExecutorBusy,
    ExecutorDisconnected,
    Heartbeat,
    HeartbeatsStopped,
    RegisterExecutor,
)
from podtide.domain.protocol.reasons import Cause, Why
from podtide.domain.protocol.stimuli import StageCompleted, StageSubmitted, TaskEnd, TaskOutcome, TaskStart

WHY = Why(Cause.REGISTERED)
KILLED = ExitReason("ExecutorKilled", "Executor killed by driver.")
CRASHED = ExitReason("ExecutorExited", "exit code 137", 137, caused_by_app=True)
PREEMPTED = ExitReason("ExecutorExited", "deleted by the framework", 143, caused_by_app=False)
DRAINED = ExitReason("ExecutorExited", "done", 0, caused_by_app=True)
S = 1_000
T = TypeVar("T", bound=WorkloadEvent)


def secs(count: float) -> Constant:
    """A duration without chance."""
    return Constant(int(count * S))


def one_job(*stages: ScriptStage, **script: object) -> Jobs:
    """A workload of one job that starts at once."""
    return Jobs((ScriptJob("job", stages),), **script)  # type: ignore[arg-type]


def map_reduce(maps: int = 4, reduces: int = 2, **script: object) -> Jobs:
    """One job: maps of a second, then reduces of a second."""
    return one_job(
        ScriptStage("map", maps, secs(1)), ScriptStage("reduce", reduces, secs(1), parents=("map",)), **script
    )


class Play:
    """A workload, and what was heard of it."""

    def __init__(self, script: Workload, seed: int = 1, rules: ProfileRules | None = None) -> None:
        self.state = workloads.begin(script, seed, 0, rules)
        self.said: list[WorkloadEvent] = []
        self.now: Millis = 0
        self.slots: dict[ExecutorId, int] = {}
        self.running: dict[tuple[int, int, int], ExecutorId] = {}
        self.busy: set[ExecutorId] = set()
        self.ended: Counter[tuple[int, int, int]] = Counter()
        self._rules = rules or ProfileRules()

    # executors

    def join(self, *names: str, slots: int | None = None, profile: int = 0) -> None:
        """Executors register and are accepted."""
        for name in names:
            executor = ExecutorId(name)
            register = RegisterExecutor(self.now, executor, ProfileId(profile), "host", f"{name}:1")
            self.state = workloads.hear(self.state, register, self.now)
            self.state = workloads.hear(self.state, AnswerRegistration(self.now, executor, True, WHY), self.now)
            self.slots[executor] = slots if slots is not None else self._rules.executor_cores
        self.look()

    def lose(self, *names: str, reason: ExitReason = KILLED) -> None:
        """Executors are gone."""
        for name in names:
            executor = ExecutorId(name)
            self.state = workloads.hear(self.state, RemoveExecutor(self.now, executor, reason, WHY), self.now)
        self.look()
        for name in names:
            self.slots.pop(ExecutorId(name), None)
            self.busy.discard(ExecutorId(name))

    def decommission(self, *names: str) -> None:
        """Executors are told to go."""
        executors = tuple(ExecutorId(name) for name in names)
        self.state = workloads.hear(self.state, DecommissionExecutors(self.now, executors, "", True, WHY), self.now)
        self.look()

    def disconnect(self, name: str) -> None:
        """The connection to an executor is lost."""
        self.state = workloads.hear(self.state, ExecutorDisconnected(self.now, f"{name}:1"), self.now)
        self.look()

    def hang(self, name: str) -> None:
        """An executor hangs."""
        self.state = workloads.hear(self.state, HeartbeatsStopped(self.now, ExecutorId(name), self.now), self.now)
        self.look()

    def go_on(self, name: str) -> None:
        """An executor that hung goes on."""
        self.state = workloads.hear(self.state, Heartbeat(self.now, ExecutorId(name)), self.now)
        self.look()

    # time

    def until(self, time: Millis) -> None:
        """Go on, moment by moment, up to and including ``time``."""
        while (due := workloads.due(self.state)) <= time:
            self.now = max(self.now, due)
            self.look()
        self.now = max(self.now, time)
        self.look()

    def finish(self, limit: Millis = 10**9) -> None:
        """Go on until nothing happens any more."""
        while (due := workloads.due(self.state)) != NEVER:
            assert due <= limit, "it goes on and on"
            self.now = max(self.now, due)
            self.look()

    def look(self) -> None:
        """Advance to now and take note."""
        self.state, said = workloads.advance(self.state, self.now)
        for item in said:
            self._note(item)
        self.said.extend(said)

    def _note(self, item: WorkloadEvent) -> None:
        assert item.at <= self.now
        assert not self.said or item.at >= self.said[-1].at
        match item:
            case TaskStart(_, stage, attempt, index, executor):
                assert executor in self.slots, "a task on an executor that is not there"
                assert (stage, attempt, index) not in self.running, "a task twice at a time"
                self.running[stage, attempt, index] = executor
                load = sum(one == executor for one in self.running.values())
                assert load <= self.slots[executor] + 1, "more tasks than slots"  # a start is heard before the end
            case TaskEnd(_, stage, attempt, index, executor):
                self.ended[stage, attempt, index] += 1
                if self.running.pop((stage, attempt, index), None) is None:
                    assert item.outcome is TaskOutcome.FAILED, "an end without a start that is no resubmission"
            case ExecutorBusy(_, executors, busy):
                assert all((one in self.busy) != busy for one in executors), "busy twice in a row"
                self.busy = self.busy | set(executors) if busy else self.busy - set(executors)
            case _:
                pass

    # what was said

    def all(self, kind: type[T]) -> list[T]:
        """Everything of a kind."""
        return [item for item in self.said if isinstance(item, kind)]

    def story(self) -> list[str]:
        """What was said, short: kind, and stage.attempt or job; tasks with index, executor and outcome."""
        return [line for item in self.said if (line := _line(item))]

    @property
    def summary(self) -> Summary:
        """What happened."""
        return workloads.summary(self.state)

    @property
    def done(self) -> bool:
        """Whether all jobs have ended."""
        return workloads.done(self.state)


def _line(item: WorkloadEvent) -> str:
    match item:
        case TaskStart(_, stage, attempt, index, executor):
            return f"start {stage}.{attempt}.{index} on {executor}"
        case TaskEnd(_, stage, attempt, index, executor, _, outcome):
            return f"{outcome.value} {stage}.{attempt}.{index} on {executor}"
        case StageSubmitted(_, stage, attempt, tasks):
            return f"stage {stage}.{attempt} of {tasks}"
        case StageCompleted(_, stage, attempt):
            return f"stage {stage}.{attempt} over"
        case ExecutorBusy():
            return ""
        case _:
            return f"{type(item).__name__} {item[1]}"


def successes(said: Iterable[WorkloadEvent]) -> Counter[tuple[int, int, int]]:
    """How often each task of each attempt succeeded."""
    return Counter(
        (item.stage, item.attempt, item.task_index)
        for item in said
        if isinstance(item, TaskEnd) and item.outcome is TaskOutcome.SUCCESS
    )


__all__ = ["CRASHED", "DEFAULT_PROFILE", "DRAINED", "KILLED", "PREEMPTED", "Play", "S", "map_reduce", "one_job", "secs",
           "successes"]  # fmt: skip
