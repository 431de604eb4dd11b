"""A driver as a value: it hears how executors come and go, and says what its jobs and tasks do, as time passes.

``begin`` makes a state of a workload and a seed, ``hear`` takes what concerns the driver's task scheduler (executors that
register, are accepted, told to go, or lost), ``advance`` lets time pass and returns what happens up to then, in order:
targets, or the listener events of jobs, stages and tasks, as the engine takes them. ``due`` says when something happens
next, ``done`` whether all jobs have ended. Nothing reads a clock; all chance comes from the seed, and every task has luck of
its own, so that two runs under different settings stay comparable.

It stands beside a cluster (``fakes.kubernetes.cluster``) in the same way as the driver's scheduler stands beside Spark's
backend: jump to the earliest of ``due(workload)``, the cluster's and the engine's, ``advance`` to it, hand what comes to
the engine, and let the workload ``hear`` what the engine commands, and what executors tell the driver, at that same time.
What cannot matter to it is not heard, so everything may be told.

``advance`` returns another state, and the one before it answers no more (``base.versioned.Stale``): whoever wants to go on
twice from the same moment forks it (``fork``). A step costs what happens: a task about ten microseconds, whatever the
number of executors. A fork, or a step that raises, costs what all the steps before it did. The rules are Spark's
(``domain.scheduler``), as a rerun has them; docs/reference/workload.md says what of Spark they leave out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple, Self, TypeAlias

from pyrsistent import PDeque, PVector, pdeque, pvector

from podtide.domain.base.randomness import Stream, stream
from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, Millis
from podtide.domain.base.versioned import Exclusive, Inside, UndoEntry
from podtide.domain.fakes.checks import refuse
from podtide.domain.fakes.driver.checks import problems
from podtide.domain.fakes.driver.plan import ScriptPlan
from podtide.domain.fakes.driver.rows import Ending, PendingExecutorRow
from podtide.domain.fakes.driver.script import Targets, Workload
from podtide.domain.fakes.driver.task_scheduler import DriverTaskScheduler
from podtide.domain.protocol.application import Command
from podtide.domain.protocol.config import ProfileRules
from podtide.domain.protocol.executor_commands import (
    AnswerRegistration,
    DecommissionExecutors,
    RemoveExecutor,
    StopApplication,
)
from podtide.domain.protocol.executor_stimuli import (
    ExecutorBusy,
    ExecutorDisconnected,
    Heartbeat,
    HeartbeatsStopped,
    RegisterExecutor,
    TargetsSet,
)
from podtide.domain.protocol.pod_commands import CreatePod
from podtide.domain.protocol.stimuli import ListenerEvent

WorkloadEvent: TypeAlias = ListenerEvent | ExecutorBusy | TargetsSet
"""What comes of a workload: listener events, who is busy (for the scheduler backend), targets."""

Word: TypeAlias = Command | RegisterExecutor | ExecutorDisconnected | Heartbeat | HeartbeatsStopped
"""What a driver can be told: any command of the engine, and what executors tell the driver."""

_RELEVANT: Final = (
    AnswerRegistration | CreatePod | DecommissionExecutors | RemoveExecutor | StopApplication | RegisterExecutor
    | ExecutorDisconnected | Heartbeat | HeartbeatsStopped
)  # fmt: skip


class DriverInside(Inside):
    """The schedulers of a driver, and what they have lived through since it began: a copy lives through it again.

    It remembers what it was told and something came of: a few words for each executor that ever was.
    """

    __slots__ = ("_begun", "_lived", "tasks")

    def __init__(self, plan: ScriptPlan, seed: Stream, began: Millis) -> None:
        self.undo_log = []
        self._begun = plan, seed, began
        self._lived: PVector[tuple[Millis, tuple[tuple[Millis, Word], ...]]] = pvector()
        self.tasks = DriverTaskScheduler(plan, seed, began)

    def live(self, words: Sequence[tuple[Millis, Word]], now: Millis) -> list[WorkloadEvent]:
        """Live up to and including ``now``, hearing these words on the way; returns what is said."""
        tasks, lived, effects = self.tasks, self._lived, []
        self.undo_log.append((lived,))
        for at, group in groupby(words, itemgetter(0)):
            tasks.live(at - 1)
            effects += [word for word in group if _take(tasks, word[1], at)]
            tasks.offer_all(
                at
            )  # what is heard at once is taken in at once: nobody is offered a task who is about to go
        tasks.live(now)
        events: list[WorkloadEvent] = [*tasks.hear(), *_busy(tasks, now)]
        if lived and not effects and not lived[-1][1]:
            lived = lived.delete(len(lived) - 1)
        self._lived = lived.append((now, tuple(effects)))
        return events

    def copy(self) -> Self:
        """The same once more; costs what all that has happened did."""
        twin = type(self)(*self._begun)
        for now, words in self._lived:
            twin.live(words, now)
        twin.undo_log.clear()
        return twin

    def undo(self, log: Sequence[UndoEntry]) -> None:
        """Go back to the end of the step before."""
        for (lived,) in reversed(log):
            self._lived = lived
        self.tasks = self.copy().tasks

    def recount(self) -> None:
        """Nothing is derived."""


class DriverRun(Exclusive[DriverInside]):
    """Jobs under way."""

    __slots__ = ()


class Playing(NamedTuple):
    """A driver with jobs at a moment. ``words``: what it was told and has not looked at yet."""

    now: Millis
    run: DriverRun
    words: PDeque[tuple[Millis, Word]] = pdeque()


class Asking(NamedTuple):
    """Targets at a moment. ``began``: when; ``position``: how many steps are behind."""

    now: Millis
    script: Targets
    began: Millis
    position: int = 0
    stopped: bool = False


State: TypeAlias = Playing | Asking
"""A workload at a moment. ``now``: up to when it has been lived through."""


def begin(workload: Workload, seed: int, now: Millis, rules: ProfileRules | None = None) -> State:
    """A workload at its beginning. ``rules``: what executors are like by the application's conf (default: Spark's).

    Raises ValueError for a workload that has ``problems`` (``fakes.driver.checks``).
    """
    rules = rules or ProfileRules()
    refuse(problems(workload, rules), 10)
    if isinstance(workload, Targets):
        return Asking(now, workload, now)
    return Playing(now, DriverRun(DriverInside(ScriptPlan(workload, rules), stream(seed), now)))


def fork(state: State) -> State:
    """Return an independent state at the same moment: it lives through all that was once more."""
    return state if isinstance(state, Asking) else state._replace(run=DriverRun(state.run._tables.fork()))


def hear(state: State, command: Word, now: Millis) -> State:
    """The driver is told something at ``now``; what comes of it is said by ``advance``, which may be at this same ``now``.

    Raises ValueError when ``now`` is before what has been lived through.
    """
    last = state.words.right[0] if isinstance(state, Playing) and state.words else state.now
    _check(last, now)
    if not isinstance(command, _RELEVANT):
        return state
    if isinstance(state, Asking):
        return state._replace(stopped=True) if isinstance(command, StopApplication) else state
    if isinstance(command, CreatePod) and command.profile == DEFAULT_PROFILE and not command.single_task:
        return state  # nothing that would not be assumed anyway
    return state._replace(words=state.words.append((now, command)))


def due(state: State) -> Millis:
    """When something happens next (``NEVER``: nothing does, unless the driver is told something)."""
    if isinstance(state, Asking):
        steps = state.script.steps
        return NEVER if state.stopped or state.position == len(steps) else state.began + steps[state.position][0]
    first = state.run._tables.tasks.due()
    return min(first, state.words.left[0]) if state.words else first


def done(state: State) -> bool:
    """Whether all jobs have ended, or all targets are said. What is left may still end, or be cleaned up."""
    if isinstance(state, Asking):
        return due(state) == NEVER
    tasks = state.run._tables.tasks
    return tasks.stopped or len(tasks.dag.ended) == tasks.dag.jobs_in_all


def advance(state: State, now: Millis) -> tuple[State, tuple[WorkloadEvent, ...]]:
    """Let time pass up to and including ``now``: the workload then, and what happened, in order.

    Who became busy or idle is said at the end, once. Raises ValueError when ``now`` is before what has been lived through.
    """
    _check(state.now, now)
    if isinstance(state, Asking):
        return _ask(state, now)
    if due(state) > now:
        return state._replace(now=now), ()
    words, left = [], state.words
    while left and left.left[0] <= now:
        words.append(left.left)
        left = left.popleft()
    with state.run.step() as inside:
        events = inside.live(words, now)
        return Playing(now, state.run.hand_over(DriverRun(inside)), left), tuple(events)


def _check(last: Millis, now: Millis) -> None:
    if now < last:
        raise ValueError(f"the workload is at {last} already, {now} is before that")


def _ask(state: Asking, now: Millis) -> tuple[State, tuple[WorkloadEvent, ...]]:
    events: list[WorkloadEvent] = []
    place, steps = state.position, state.script.steps
    while not state.stopped and place < len(steps) and state.began + steps[place][0] <= now:
        events.append(TargetsSet(state.began + steps[place][0], steps[place][1]))
        place += 1
    return state._replace(now=now, position=place), tuple(events)


def _take(tasks: DriverTaskScheduler, word: Word, at: Millis) -> bool:
    """The driver is told something; returns whether anything came of it."""
    if tasks.stopped:
        return False
    match word:
        case CreatePod():
            tasks.pods[str(word.executor)] = PendingExecutorRow(word.profile, word.single_task)
        case RegisterExecutor():
            known = tasks.pods.get(word.executor)
            single = known is not None and known.single_task
            tasks.pods[word.executor] = PendingExecutorRow(word.profile, single, word.address)
        case AnswerRegistration():
            pod = tasks.pods.pop(word.executor, None) or PendingExecutorRow()
            if word.accepted and word.executor not in tasks.by_id:
                slots = tasks.slots.get(pod.profile, 0)  # no task of this script asks for another profile
                tasks.join(word.executor, pod.profile, min(slots, 1) if pod.single_task else slots, pod.address, at)
        case DecommissionExecutors():
            for executor in word.executors:
                if executor in tasks.by_id:
                    tasks.stop_offering(tasks.by_id[executor])
        case ExecutorDisconnected():
            if word.address not in tasks.addresses:
                return False
            tasks.disconnect(tasks.addresses[word.address])
        case HeartbeatsStopped():
            if word.executor in tasks.by_id:
                tasks.hang(tasks.by_id[word.executor], at)
        case Heartbeat():
            return word.executor in tasks.by_id and tasks.go_on(tasks.by_id[word.executor], at)
        case RemoveExecutor():
            tasks.pods.pop(word.executor, None)
            if word.executor in tasks.by_id:
                tasks.remove(tasks.by_id[word.executor], word.reason, at)
        case StopApplication():
            tasks.stop(at)
        case _:
            raise AssertionError(f"{type(word).__name__} is not heard")
    return True


def _busy(tasks: DriverTaskScheduler, now: Millis) -> list[ExecutorBusy]:
    """Which executors run tasks now and did not before, and the other way round."""
    busy: list[ExecutorId] = []
    idle: list[ExecutorId] = []
    for row, before in sorted(tasks.was_busy.items()):
        executor = tasks.executors[row]
        if bool(executor.running) != before:
            (idle if before else busy).append(executor.id)
    tasks.was_busy.clear()
    return [ExecutorBusy(now, tuple(some), is_busy) for some, is_busy in ((busy, True), (idle, False)) if some]


class JobTimes(NamedTuple):
    """A job that started. ``run``: from 0. ``job``: Spark's id. Times in ms since when the caller counts; None: not yet.

    ``first_task``: when the first of its own tasks started, which says how long it waited for executors.
    """

    name: str
    run: int
    job: int
    began: Millis
    first_task: Millis | None
    ended: Millis | None
    ending: Ending


class Summary(NamedTuple):
    """What happened. Tasks count every start; ``useful_ms`` is the time of the first success of each partition.

    ``wasted_ms``: of tasks that failed, were lost or killed, or computed what had been computed before. ``slot_ms``: what
    the executors offered, busy or not. ``tasks_lost``: with their executor; ``tasks_resubmitted``: had succeeded, and were
    lost with it while their stage ran. ``outputs_lost``: partitions of shuffles that somebody could still have read.
    """

    jobs: tuple[JobTimes, ...] = ()
    jobs_waiting: int = 0
    stage_attempts: int = 0
    tasks_succeeded: int = 0
    tasks_failed: int = 0
    tasks_lost: int = 0
    tasks_killed: int = 0
    tasks_resubmitted: int = 0
    tasks_running: int = 0
    fetch_failures: int = 0
    outputs_lost: int = 0
    outputs_moved: int = 0
    useful_ms: Millis = 0
    wasted_ms: Millis = 0
    slot_ms: Millis = 0
    executors_joined: int = 0
    executors_left: int = 0


def summary(state: State) -> Summary:
    """What happened so far; of targets alone nothing does. Costs the jobs that started, and the executors that are there."""
    if isinstance(state, Asking):
        return Summary()
    tasks = state.run._tables.tasks
    tally, jobs = tasks.tally, tasks.dag.jobs
    here = sum(executor.slots * (state.now - executor.since) for executor in tasks.by_id.values())
    return Summary(
        jobs=tuple(
            JobTimes(tasks.dag.name_of(job), job.run, number, job.began, job.first_task, job.ended, job.ending)
            for number, job in jobs.items()
        ),
        jobs_waiting=tasks.dag.runs_in_all - len(jobs),
        stage_attempts=tally["stage attempts"],
        tasks_succeeded=tally["tasks.succeeded"],
        tasks_failed=tally["tasks.failed"],
        tasks_lost=tally["tasks.lost"],
        tasks_killed=tally["tasks.killed"],
        tasks_resubmitted=tally["tasks.resubmitted"],
        tasks_running=sum(tasks.running.values()),
        fetch_failures=tally["tasks.fetch failed"],
        outputs_lost=tally["outputs.lost"],
        outputs_moved=tasks.dag.output.moved,
        useful_ms=tally["useful_ms"],
        wasted_ms=tally["wasted_ms"],
        slot_ms=tally["slot_ms"] + here,
        executors_joined=tally["executors.joined"],
        executors_left=tally["executors.left"],
    )
