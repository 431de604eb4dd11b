"""A driver as a value: it hears what becomes of executors, and says what its jobs and tasks do, as time passes.

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
number of executors. ``fakes.driver.task_scheduler`` and ``fakes.driver.dag_scheduler`` have the rules; docs/workload.md
says what of Spark they leave out.
"""

from __future__ import annotations

import heapq
from typing import Final, NamedTuple, Never, TypeAlias

from pyrsistent import PDeque, pdeque

from podtide.domain.base.randomness import stream
from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, Millis
from podtide.domain.base.versioned import Exclusive
from podtide.domain.fakes.checks import refuse
from podtide.domain.fakes.driver import dag_scheduler as stages, task_scheduler as tasks
from podtide.domain.fakes.driver.checks import problems
from podtide.domain.fakes.driver.executor_losses import executor_lost
from podtide.domain.fakes.driver.jobs import clean
from podtide.domain.fakes.driver.rows import DriverAgenda, DriverExecutorRow, Ending, OfferState, PendingExecutorRow
from podtide.domain.fakes.driver.script import Targets, Workload
from podtide.domain.fakes.driver.tables import DriverTables, ScriptPlan
from podtide.domain.fakes.tables import AgendaRow
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


class DriverRun(Exclusive[DriverTables]):
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
    tables = DriverTables(ScriptPlan(workload, rules), stream(seed), now)
    for place, job in enumerate(workload.jobs):
        if not job.after:
            tables.later(now + job.start_ms, DriverAgenda.JOB, place, 0)
    tables.undo_log.clear()
    return Playing(now, DriverRun(tables))


def fork(state: State) -> State:
    """Return an independent state at the same moment. Costs one copy."""
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
    first = state.run._tables.due()
    return min(first, state.words.left[0]) if state.words else first


def done(state: State) -> bool:
    """Whether all jobs have ended, or all targets are said. What is left may still end, or be cleaned up."""
    if isinstance(state, Asking):
        return due(state) == NEVER
    tables = state.run._tables
    return tables.stopped or len(tables.ended) == len(tables.plan.script.jobs)


def advance(state: State, now: Millis) -> tuple[State, tuple[WorkloadEvent, ...]]:
    """Let time pass up to and including ``now``: the workload then, and what happened, in order.

    Who became busy or idle is said at the end, once. Raises ValueError when ``now`` is before what has been lived through.
    """
    _check(state.now, now)
    if isinstance(state, Asking):
        return _ask(state, now)
    if due(state) > now:
        return state._replace(now=now), ()
    events: list[WorkloadEvent] = []
    with state.run.step() as tables:
        tables.events = events  # type: ignore[assignment]  # listener events are all that the schedulers add
        left, last = state.words, NEVER
        while left and left.left[0] <= now:
            at, word = left.left
            if at != last:  # what is heard at once is taken in at once: nobody is offered a task who is about to go
                tasks.offer_all(tables, last)
                _live(tables, at - 1)
            _take(tables, word, at)
            left, last = left.popleft(), at
        tasks.offer_all(tables, last)
        _live(tables, now)
        _say_busy(tables, events, now)
        tables.events = []
        return Playing(now, state.run.hand_over(DriverRun(tables)), left), tuple(events)


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


def _live(tables: DriverTables, until: Millis) -> None:
    """All that happens by itself up to and including ``until``."""
    heap = tables.heap
    while (at := tables.due()) <= until:
        _, serial = heapq.heappop(heap)
        task = tables.tasks.get(serial)
        if task is None:
            due = tables.agenda.drop(serial)
            assert due is not None
            _happen(tables, due)
        else:
            executor = tables.executors[task.executor]
            tasks.offer(tables, tasks.release(tables, serial, task), at)
            stages.task_over(tables, task, executor, at)
        if tables.wanting:
            tasks.offer_all(tables, at)


def _happen(tables: DriverTables, due: AgendaRow[DriverAgenda, Never]) -> None:
    match due.kind:
        case DriverAgenda.JOB:
            stages.start_job(tables, due.a, due.b, due.at)
        case DriverAgenda.RESUBMIT:
            stages.resubmit(tables, due.at)
        case _:
            clean(tables, due.a, due.at)


def _take(tables: DriverTables, word: Word, at: Millis) -> None:
    if tables.stopped:
        return
    match word:
        case CreatePod():
            tables.pods.put(str(word.executor), PendingExecutorRow(word.profile, word.single_task))
        case RegisterExecutor():
            known = tables.pods.get(word.executor)
            single = known is not None and known.single_task
            tables.pods.put(word.executor, PendingExecutorRow(word.profile, single, word.address))
        case AnswerRegistration():
            pod = tables.pods.drop(word.executor) or PendingExecutorRow()
            if word.accepted and word.executor not in tables.names:
                slots = tables.plan.slots.get(pod.profile, 0)  # no task of this script asks for another profile
                slots = min(slots, 1) if pod.single_task else slots
                tasks.join(
                    tables,
                    DriverExecutorRow(word.executor, pod.profile, slots, slots, OfferState.ACTIVE, at, pod.address),
                )
        case DecommissionExecutors():
            for executor in word.executors:
                if executor in tables.names:
                    tasks.stop_offering(tables, tables.names[executor], OfferState.LEAVING)
        case ExecutorDisconnected():
            if word.address in tables.addresses:
                tasks.stop_offering(tables, tables.addresses[word.address], OfferState.SILENT)
        case HeartbeatsStopped():
            if word.executor in tables.names:
                tasks.hang(tables, tables.names[word.executor], at)
        case Heartbeat():
            if word.executor in tables.names:
                tasks.go_on(tables, tables.names[word.executor], at)
        case RemoveExecutor():
            tables.pods.drop(word.executor)
            if word.executor in tables.names:
                executor_lost(tables, tables.names[word.executor], word.reason, at)
        case StopApplication():
            _stop(tables, at)
        case _:
            raise AssertionError(f"{type(word).__name__} is not heard")


def _stop(tables: DriverTables, at: Millis) -> None:
    """The driver ends: its jobs end nowhere, and nothing more is said."""
    tables.stopped = True
    for key, job in list(tables.jobs.items()):
        if job.ended is None:
            tables.jobs.put(key, job._replace(ended=at, ending=Ending.STOPPED))
            tables.count("jobs.stopped")
    for serial, task in list(tables.tasks.items()):
        tasks.release(tables, serial, task)
        tasks.leave_set(tables, task)
        tables.count("tasks.stopped")
    for key in list(tables.attempts):
        tasks.retire(tables, key)
    for key in list(tables.executors):
        tasks.evict(tables, key, at)
    tables.agenda.drop_all()
    tables.wanting.clear()


def _say_busy(tables: DriverTables, events: list[WorkloadEvent], now: Millis) -> None:
    """Which executors run tasks now and did not before, and the other way round."""
    busy: list[ExecutorId] = []
    idle: list[ExecutorId] = []
    for key in sorted(tables.was_busy):
        is_busy = bool(tables.aboard.get(key))
        if is_busy != tables.was_busy[key]:
            (busy if is_busy else idle).append(tables.executors[key].executor)
    tables.was_busy.clear()
    if busy:
        events.append(ExecutorBusy(now, tuple(busy), True))
    if idle:
        events.append(ExecutorBusy(now, tuple(idle), False))


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
    tables = state.run._tables
    tally, script = tables.tally, tables.plan.script
    here = sum(row.slots * (state.now - row.since) for row in tables.executors.values())
    return Summary(
        jobs=tuple(
            JobTimes(script.jobs[row.place].name, row.run, key, row.began, row.first_task, row.ended, row.ending)
            for key, row in sorted(tables.jobs.items())
        ),
        jobs_waiting=sum(job.times for job in script.jobs) - len(tables.jobs),
        stage_attempts=tally.get("stage attempts", 0),
        tasks_succeeded=tally.get("tasks.succeeded", 0),
        tasks_failed=tally.get("tasks.failed", 0),
        tasks_lost=tally.get("tasks.lost", 0),
        tasks_killed=tally.get("tasks.killed", 0),
        tasks_resubmitted=tally.get("tasks.resubmitted", 0),
        tasks_running=len(tables.tasks),
        fetch_failures=tally.get("tasks.fetch failed", 0),
        outputs_lost=tally.get("outputs.lost", 0),
        outputs_moved=tally.get("outputs.moved", 0),
        useful_ms=tally.get("useful_ms", 0),
        wasted_ms=tally.get("wasted_ms", 0),
        slot_ms=tally.get("slot_ms", 0) + here,
        executors_joined=tally.get("executors.joined", 0),
        executors_left=tally.get("executors.left", 0),
    )
