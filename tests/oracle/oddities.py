"""What no scheduler would send, but event logs hold: events out of order, twice, of things never heard of.

Each oddity is one function of the world. ``strike`` picks one and surrounds it with state lines most of the
time, so that its effect alone can be compared (and counted by reached.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tests.oracle import events
from tests.oracle.events import StageShape, TaskShape
from tests.oracle.settings import Profile
from tests.oracle.world import FAREWELLS, REASONS, Executor, Stage, World

NOBODY: Final = "4711"
"""An executor that never comes."""
NOWHERE: Final = 9_999
"""A stage that is never submitted."""


def _any_executor(w: World) -> str:
    return w.r.choice([*w.executors, NOBODY])


def _any_stage(w: World) -> StageShape:
    known = [stage.shape for stage in [*w.stages, *w.past[-5:]]]
    return w.r.choice([*known, StageShape(NOWHERE, 0, 5)])


def end_without_start(w: World) -> None:
    """A TaskEnd whose TaskStart was never seen."""
    shape = _any_stage(w)
    index = w.r.randint(0, 5)
    mapped = shape.shuffle is not None
    task = TaskShape(900_000 + w.now % 1_000, shape.stage, shape.attempt, index, _any_executor(w), False, mapped)
    task = replace(task, speculative=w.r.random() < 0.3)
    w.event(events.task_end(w.dialect, task, w.now, w.r.choice(["Success", *REASONS])))


def start_of_unknown_stage(w: World) -> None:
    """A task of a stage that nobody submitted; it ends some time, or not."""
    task = TaskShape(910_000 + w.now % 1_000, NOWHERE, 0, w.r.randint(0, 3), _any_executor(w))
    w.event(events.task_start(w.dialect, task, w.now))
    if w.r.random() < 0.7:
        w.later(w.r.randint(1, 2_000), lambda: w.event(events.task_end(w.dialect, task, w.now)))


def zombie(w: World) -> None:
    """A task of a stage attempt that is over starts late, on an executor known or not."""
    if w.past:
        stage = w.r.choice(w.past[-5:])
        w.start(stage, w.r.randrange(max(1, stage.shape.tasks)), _any_executor(w), w.r.random() < 0.3)


def start_beyond_the_stage(w: World) -> None:
    """A task index beyond the number of tasks, or one that runs already."""
    if w.stages:
        stage = w.r.choice(w.stages)
        w.start(stage, w.r.randrange(stage.shape.tasks + 3), _any_executor(w), False)


def unasked_copy(w: World) -> None:
    """A speculative task that was never announced, as in every event log."""
    if w.stages:
        stage = w.r.choice(w.stages)
        w.start(stage, w.r.randrange(max(1, stage.shape.tasks)), _any_executor(w), True)


def speculation_of_anything(w: World) -> None:
    """A speculative copy asked for of a stage or an index that is not there."""
    shape = _any_stage(w)
    w.event(events.speculative_submitted(shape.stage, shape.attempt, w.r.randint(0, shape.tasks + 2)))


def added_again(w: World) -> None:
    """ExecutorAdded a second time, of the same profile or of another."""
    if w.executors:
        name = w.r.choice(list(w.executors))
        profile = w.r.choice([w.executors[name].profile, *w.profiles])
        w.event(events.executor_added(w.dialect, name, profile, 1, w.now))


def stranger_added(w: World) -> None:
    """An executor nobody asked for, with a name that is no number."""
    name = w.r.choice(("driver", "executor-1", "0", "00", "x", "10x"))
    if name not in w.executors:
        w.executors[name] = Executor(w.r.choice(list(w.profiles)))
        w.event(events.executor_added(w.dialect, name, w.executors[name].profile, 1, w.now))


def removed_unknown(w: World) -> None:
    """ExecutorRemoved of one that is not there."""
    w.event(events.executor_removed(NOBODY, w.r.choice(FAREWELLS), w.now))


def stage_again(w: World) -> None:
    """StageSubmitted a second time for the same attempt, with another number of tasks."""
    shape = _any_stage(w)
    if shape.stage != NOWHERE:
        other = replace(shape, tasks=w.r.choice((shape.tasks, 1, 7)), locality=None)
        w.event(events.stage_submitted(w.dialect, other, w.now))


def completed_again(w: World) -> None:
    """StageCompleted of an attempt that is over, that never was, or whose tasks still wait."""
    w.event(events.stage_completed(w.dialect, _any_stage(w), w.now))


def job_ended_unknown(w: World) -> None:
    """JobEnd of a job that nobody started, or that runs on."""
    w.event(events.job_end(w.dialect, w.r.choice([*w.jobs, NOWHERE]), w.now, w.r.random() < 0.5))


def job_fails(w: World) -> None:
    """A job fails: its stages complete with a failure, its tasks end later."""
    if not w.jobs:
        return
    job = w.r.choice(list(w.jobs))
    for stage in [s for s in w.stages if s.job == job]:
        stage.active = False
        w.stages.remove(stage)
        w.past.append(stage)
        w.event(events.stage_completed(w.dialect, stage.shape, w.now, "job aborted"))
    w.end_job(job, failed=True)


def exclusion_of_anything(w: World) -> None:
    """An unschedulable task set of any stage, added or removed."""
    shape = _any_stage(w)
    w.event(events.unschedulable(shape.stage, shape.attempt, w.r.random() < 0.6))


def shuffle_cleaned(w: World) -> None:
    """A shuffle is cleaned while it is in use, or one that nobody wrote."""
    w.send(shuffleCleaned=w.r.randrange(w.next_shuffle + 2))


def unpersist_unknown(w: World) -> None:
    """An RDD is unpersisted that nobody cached."""
    w.event(events.unpersist_rdd(77))


def block_of_a_stranger(w: World) -> None:
    """A block on an executor that the backend holds for active and nobody else has heard of."""
    name = f"b{w.now}"
    w.send(client={"active": [name]})
    block = w.r.choice(("rdd_0_0", "shuffle_0_0_0.data"))
    w.event(events.block_updated(name, block, w.r.random() < 0.5, w.r.random() < 0.8))
    if w.r.random() < 0.5:
        w.later(w.r.randint(100, 5_000), lambda: w.event(events.executor_removed(name, "", w.now)))


def activity(w: World) -> None:
    """The backend forgets an executor, or knows one that is gone."""
    key = w.r.choice(("active", "inactive"))
    w.send(client={key: [_any_executor(w)]})


def unknown_profile(w: World) -> None:
    """A stage of a profile that was never registered: schedule() throws from here on, until it is."""
    if w.r.random() < 0.8:
        return  # it makes a scenario dull
    shape = StageShape(w.next_stage, 0, w.r.randint(1, 9), 77)
    w.next_stage += 1
    w.event(events.stage_submitted(w.dialect, shape, w.now))
    if w.r.random() < 0.9:
        w.later(w.r.randint(500, 4_000), lambda: w.event(events.profile_added(77, {"cores": 2}, {"cpus": 1.0})))
        w.profiles[77] = Profile({"cores": 2}, {"cpus": 1.0})
    w.later(w.r.randint(1_000, 9_000), lambda: w.event(events.stage_completed(w.dialect, shape, w.now)))


def impossible_profile(w: World) -> None:
    """A profile that no task of it fits: refused when registered, and again whenever a stage of it is about."""
    if w.r.random() < 0.7:
        return
    if w.r.random() < 0.5:
        w.event(events.profile_added(66, {"cores": 1}, {"cpus": 2.0}))
    else:
        w.event(events.profile_added(66, {"cores": 4, "gpu": 1}, {"cpus": 1.0, "gpu": 2.0}))
    shape = StageShape(w.next_stage, 0, 3, 66)
    w.next_stage += 1
    if w.r.random() < 0.5:
        w.later(w.r.randint(0, 2_000), lambda: w.event(events.stage_submitted(w.dialect, shape, w.now)))


def profile_again(w: World) -> None:
    """A profile is registered a second time."""
    number = w.r.choice(list(w.profiles))
    if number and number != 77:
        drawn = w.profiles[number]
        w.event(events.profile_added(number, drawn.executor, drawn.task))


def irrelevant(w: World) -> None:
    """Events that dynamic allocation does not listen to."""
    w.event(w.r.choice(events.irrelevant(_any_executor(w), w.now)))


def tasks_vanish(w: World) -> None:
    """A stage's running tasks are never heard of again: a log that lost lines."""
    running: list[Stage] = [stage for stage in w.stages if stage.running]
    if running and w.r.random() < 0.3:
        stage = w.r.choice(running)
        for task in stage.running.values():
            if task.executor in w.executors:
                w.executors[task.executor].tasks.pop(task.task, None)
        stage.running.clear()
        w.complete(stage)


ODDITIES: Final[tuple[Callable[[World], None], ...]] = (
    end_without_start,
    start_of_unknown_stage,
    zombie,
    zombie,
    start_beyond_the_stage,
    unasked_copy,
    speculation_of_anything,
    added_again,
    stranger_added,
    removed_unknown,
    stage_again,
    completed_again,
    job_ended_unknown,
    job_fails,
    exclusion_of_anything,
    shuffle_cleaned,
    unpersist_unknown,
    block_of_a_stranger,
    activity,
    unknown_profile,
    impossible_profile,
    profile_again,
    irrelevant,
    tasks_vanish,
)


def strike(w: World) -> None:
    """Let one oddity happen, usually between two state lines."""
    watched = w.r.random() < 0.7
    if watched:
        w.send(state=True)
    oddity = w.r.choice(ODDITIES)
    w.struck.append(oddity.__name__)
    oddity(w)
    if watched:
        w.send(state=True)
