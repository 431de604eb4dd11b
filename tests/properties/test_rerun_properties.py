"""Any small application under any plan: nothing is lost or done twice without cause, however it is simulated.

An obvious simulator is kept beside it (``Plodder``): slots that are free, tasks that run, a list of what is due, and a look
at all of it whenever anything happens. Where executors are there from the start and nothing fails, slots do not differ, so
it does not matter which of them a task is given, and all moments have to be the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, Millis
from podtide.domain.protocol.config import TICK_INTERVAL_MS, ProfileRules
from podtide.domain.protocol.stimuli import JobStage
from podtide.domain.recorded.application import Application, Copy, Failure, RecordedJob, RecordedStage
from podtide.domain.recorded.jobs import drawn_priorities
from podtide.domain.rerun.behaviour import Behaviour, Loss, StartUp
from podtide.domain.rerun.outcome import RerunOutcome
from podtide.domain.rerun.plan import Faults, Plan
from podtide.domain.rerun.rerun import rerun
from podtide.domain.rerun.start_up import SharedStartUp
from podtide.domain.scheduler.rules import Retries
from tests.support.rerun_play import (
    AT_ONCE,
    Ordered,
    Single,
    Watched,
    app,
    check_sums,
    dynamic,
    figures,
    job,
    run,
    stage,
    static,
    times,
)

LONG: Millis = 20 * 60_000
"""A rerun of one of these that takes longer is stuck, and its application asks for more room at once than there is."""

lags = st.sampled_from([0, 0, 0, 3, 40])
scales = st.sampled_from([30, 150, 900, 4_000])


@st.composite
def applications(draw: st.DrawFn, *, least: Millis = 0, plain: bool = False) -> Application:
    """Up to three jobs of up to three stages, which read one another's output. ``plain``: nothing fails or is copied."""
    stages: list[RecordedStage] = []
    jobs: list[RecordedJob] = []
    shuffles: list[int] = []
    for number in range(draw(st.integers(1, 3))):
        mine = []
        for _ in range(draw(st.integers(1 if not number else 0, 3))):
            scale = draw(scales)
            size = draw(st.integers(1, 10) | st.just(4))  # often the same, so that stages read what others have cached
            body = st.sampled_from([least, scale]) | st.integers(least, scale)
            bodies = draw(st.lists(body, min_size=size, max_size=size))
            ids = st.integers(0, len(bodies) - 1)
            after = st.integers(least, scale)
            more: dict[str, object] = {}
            if not plain:
                if draw(st.integers(0, 5)) == 0:
                    bodies[draw(ids)] = -1
                more["failures"] = tuple(draw(st.lists(st.builds(Failure, ids, after), max_size=2)))
                more["copies"] = tuple(draw(st.lists(st.builds(Copy, ids, after), max_size=1)))
                more["stores"] = draw(st.sampled_from([(), (0,), (number,)]))
                more["opening_ms"], more["opened"] = draw(st.sampled_from([0, 0, 90])), 2
                more["barrier"] = len(bodies) < 3 and draw(st.integers(0, 9)) == 0
            name = len(stages)
            read = draw(st.lists(st.sampled_from(shuffles), unique=True, max_size=2)) if shuffles else []
            writes = draw(st.booleans())
            mine.append(
                stage(
                    name, bodies, job=number, parents=tuple(read), shuffle=name if writes else None,
                    submit_lag_ms=draw(lags), launch_lag_ms=draw(lags), finish_lag_ms=draw(lags),
                    **more,
                )
            )  # fmt: skip
            if writes:
                shuffles.append(name)
            stages.append(mine[-1])
        jobs.append(
            job(
                number, mine, after=tuple(one for one in range(number) if draw(st.booleans())),
                think_ms=draw(st.sampled_from([0, 0, 300, 2_500])), end_lag_ms=draw(lags),
                ended_ms=draw(st.integers(0, 900)), pool=draw(st.sampled_from([None, "a", "b"])),
            )
        )  # fmt: skip
    ended = max((one.ended_ms or 0 for one in jobs), default=0) + draw(st.sampled_from([0, 1_500]))
    return app(*stages, jobs=jobs, turnaround_ms=draw(st.sampled_from([0, 0, 4])), ended_ms=ended)


@st.composite
def plans(draw: st.DrawFn, *, only_dynamic: bool = False, losses: bool = True) -> Plan:
    """A static count, or dynamic allocation that moves."""
    slots = draw(st.integers(1, 3))
    more: dict[str, object] = {
        "fair": draw(st.booleans()),
        "speculation": draw(st.booleans()),
        "shuffle_kept": draw(st.booleans()),
        "shuffle_migrates": draw(st.booleans()),
        "shuffle_fallback": draw(st.booleans()),
        "registered_ratio": draw(st.sampled_from([0.0, 0.0, 0.8])),
    }
    if losses and draw(st.integers(0, 3)) == 0:
        more["faults"] = Faults(draw(st.sampled_from([0.0, 200.0])), quota=draw(st.sampled_from([None, 3])))
    if not only_dynamic and draw(st.integers(0, 3)) == 0:
        return static(draw(st.integers(2, 4)), slots, **more)
    low = draw(st.integers(0, 2))
    high = max(2, low + draw(st.integers(0, 5)))
    return dynamic(
        slots,
        plan=more,
        executors_min=low,
        executors_max=high,
        executors_initial=draw(st.integers(low, high)),
        backlog_timeout_ms=draw(st.sampled_from([1_000, 300, 1, 2_500])),
        sustained_backlog_timeout_ms=draw(st.sampled_from([1_000, 250])),
        idle_timeout_ms=draw(st.sampled_from([100, 350, 1_000, 60_000])),
        cached_idle_timeout_ms=draw(st.sampled_from([700, 2_000, 2_147_483_647_000])),
        shuffle_timeout_ms=draw(st.sampled_from([NEVER, 2_000])),
        shuffle_tracking=draw(st.booleans()),
        ratio=draw(st.sampled_from([1.0, 1.0, 0.5])),
        repair_pending=draw(st.booleans()),
        profile_rules=ProfileRules(executor_cores=slots),
    )


@st.composite
def behaviours(draw: st.DrawFn, *, least: Millis = 0, losses: bool = True) -> Behaviour:
    """Executors that come and go as they like."""
    starts = st.lists(st.sampled_from([least, 100, 333, 2_000]), min_size=1, max_size=3)
    lost = st.lists(st.builds(Loss, st.integers(0, 4), st.integers(0, 6_000)), max_size=2)
    works = tuple(draw(starts))
    machine = SharedStartUp(works, 1.3, machines=1, ready_ms=draw(st.sampled_from([(), (150,)])))
    return Behaviour(
        draw(st.sampled_from([StartUp(works), machine])),
        boot_ms=draw(st.sampled_from([0, 137, 500])),
        fresh_ms=draw(st.sampled_from([(), (50,), (10, 700)])),
        removal_ms=draw(st.sampled_from([(), (305,), (40, 1_000), (5_000,)])),
        losses=tuple(draw(lost)) if losses else (),
        capacity=draw(st.sampled_from([None, None, 3])),
    )


seeds = st.sampled_from([0, 0, 1, 7])


# ------------------------------------------------------------------------------------------------- what holds of any run


def parts(one: RecordedStage) -> set[int]:
    """The partitions that ever ended well."""
    return {part for part, body in enumerate(one.body_ms) if body >= 0}


@given(applications(), plans(), behaviours(), seeds)
def test_what_is_run(application: Application, plan: Plan, b: Behaviour, seed: int) -> None:
    watched = Watched(application, plan, b, seed)
    outcome = watched.go(LONG)
    ran, executors = watched.tasks.ran, watched.tasks.executors
    if outcome.unfinished is None:
        for one in application.stages:
            assert {task.part for task in watched.tasks.good if task.stage == one.stage} >= parts(one)
    else:  # barriers alone may want more room than there is
        assert any(one.barrier for one in application.stages)

    free: dict[int, Millis] = {}
    busy: Counter[int] = Counter()
    for task in ran:
        executor = executors[task.executor]
        assert executor.since <= task.began <= task.ended <= task.planned
        assert free.get(task.slot, 0) <= task.began
        assert executor.first <= task.slot < executor.first + executor.slots
        free[task.slot] = task.free
        busy[task.executor] += task.ended - task.began
    assert sum(busy.values()) <= outcome.task_ms <= outcome.slot_ms
    assert outcome.executor_ms == sum(one.until - one.since for one in executors)
    assert outcome.slot_ms == sum(one.slots * (one.until - one.since) for one in executors)


def under_other_ids(application: Application) -> tuple[Application, dict[int, int]]:
    """The same as Spark lists it: a shuffle of an earlier job has another stage id in each later one. And which is whose."""
    own = {number: one.job for one in application.jobs for number in one.stages}
    same: dict[int, int] = {}
    stages = []
    for one in application.stages:
        read = []
        for parent in one.parents:
            twin = parent if own[parent] == one.job else 1_000 * (one.job + 1) + parent
            same[twin] = parent
            read.append(twin)
        stages.append(replace(one, parents=tuple(read)))
    jobs = []
    for job_ in application.jobs:
        listed = {parent for one in stages if one.job == job_.job for parent in one.parents} - own.keys()
        jobs.append(replace(job_, needs=(*job_.needs, *(JobStage(twin, same[twin]) for twin in sorted(listed)))))
    return replace(application, stages=tuple(stages), jobs=tuple(jobs)), same


@st.composite
def storms(draw: st.DrawFn) -> Behaviour:
    """Executors that are lost, at any time, and those that are let go, dead long before the driver knows it."""
    lost = st.lists(st.builds(Loss, st.integers(0, 7), st.integers(0, 9_000)), max_size=6)
    return replace(
        draw(behaviours()),
        losses=tuple(draw(lost)),
        removal_ms=draw(st.sampled_from([(), (305,), (5_000,), (700, 9_000), (40_000,)])),
    )


patience = st.sampled_from(
    [
        Retries(99, 99),
        Retries(99, 99, fetches=0),
        Retries(99, 99, fetch_wait_ms=300),
        Retries(99, 99, fetch_wait_ms=0),
        Retries(),
    ]
)


@given(applications(), plans(), storms(), patience, seeds)
def test_whatever_is_lost_a_run_that_ends_has_computed_everything(
    application: Application, plan: Plan, b: Behaviour, retries: Retries, seed: int
) -> None:
    """And each task that ended well found all that it reads on executors that were still there when it began."""
    application, same = under_other_ids(application)
    watched = Watched(application, replace(plan, retries=retries), b, seed)
    outcome = watched.go(LONG)
    if outcome.unfinished is not None:
        assert "Spark gives up" in outcome.unfinished or any(one.barrier for one in application.stages)
    executors, by_number = watched.tasks.executors, {one.stage: one for one in application.stages}
    made: dict[tuple[int, int], list[tuple[Millis, int]]] = defaultdict(list)
    for task in watched.tasks.good:
        made[same.get(task.stage, task.stage), task.part].append((task.ended, task.executor))
    if outcome.unfinished is None:
        assert all((one.stage, part) in made for one in application.stages for part in parts(one))
    if plan.shuffle_kept or plan.shuffle_migrates:
        return
    for task in watched.tasks.good:
        for parent in by_number[same.get(task.stage, task.stage)].parents:
            writer = by_number[same[parent]]
            for part in parts(writer):
                assert any(
                    ended <= task.began <= executors[executor].until + application.turnaround_ms
                    for ended, executor in made[writer.stage, part]
                )


@given(applications(plain=True), plans(losses=False), behaviours(losses=False), seeds)
def test_without_cause_nothing_is_run_twice(application: Application, plan: Plan, b: Behaviour, seed: int) -> None:
    """Where executors that are let go leave their output behind, that is."""
    watched = Watched(application, replace(plan, shuffle_kept=True), b, seed)
    outcome = watched.go(LONG)
    assert outcome.unfinished is None
    assert Counter((task.stage, task.part) for task in watched.tasks.ran) == Counter(
        (one.stage, part) for one in application.stages for part in parts(one)
    )
    assert (outcome.tasks_run, outcome.tasks_again) == (application.tasks, 0)
    assert outcome.executors_lost == 0
    assert all(task.planned - task.began >= one.body_ms[task.part]
               for one in application.stages for task in watched.tasks.ran if task.stage == one.stage)  # fmt: skip


@given(applications(), plans(), behaviours(), seeds)
def test_what_comes_first(application: Application, plan: Plan, b: Behaviour, seed: int) -> None:
    watched = Watched(application, plan, b, seed)
    watched.go(LONG)
    seen = times(watched.tasks)
    first: dict[tuple[int, int], Millis] = {}
    for task in sorted(watched.tasks.good, key=lambda task: task.ended):
        first.setdefault((task.stage, task.part), task.ended)
    by_number = {one.stage: one for one in application.stages}
    for task in watched.tasks.ran:
        for parent in by_number[task.stage].parents:
            assert all(first[parent, part] <= task.began for part in parts(by_number[parent]))
        assert task.began >= seen["submitted", task.stage, task.attempt]
    opened = set()  # when the driver had executors enough, by each first job
    for one in application.jobs:
        begun, ended = seen.get(("job start", one.job, 0)), seen.get(("job end", one.job, 0))
        if begun is not None and (one.after or not plan.registered_ratio):
            before = max((seen["job end", other, 0] for other in one.after), default=0)
            assert begun == before + one.think_ms
        elif begun is not None:
            opened.add(begun - max(0, one.think_ms - b.boot_ms))
        if ended is not None:
            assert begun is not None
            assert all(seen["completed", number, 0] <= ended for number in one.stages)
            assert all(first[number, part] <= ended for number in one.stages for part in parts(by_number[number]))
    assert len(opened) <= 1
    assert all(b.boot_ms <= at <= b.boot_ms + plan.registered_wait_ms for at in opened)


@given(applications(), plans(), behaviours(), seeds)
def test_the_same_again(application: Application, plan: Plan, b: Behaviour, seed: int) -> None:
    """Watched or not, and looked at from within: the same outcome; ``run`` checks the sums."""
    outcome = run(application, plan, b, seed, limit_ms=LONG)
    assert outcome == rerun(application, b, plan, seed, watch=True, limit_ms=LONG)
    assert outcome == Watched(application, plan, b, seed).go(LONG)


# ---------------------------------------------------------------------------- how it is simulated is nobody's business


def decided(outcome: RerunOutcome) -> RerunOutcome:
    """An outcome without what depends on how often it is looked at: the curve, and how waits are divided."""
    return replace(outcome, curve=(), waiting={}, waited_ms=0)


def at_every_end(watched: Watched) -> None:
    """Any task that ends may matter."""
    setattr(watched.manager, "slack", lambda: 1)  # noqa: B010 - a method of one object


def at_every_place(watched: Watched) -> None:
    """Stop at every place of the 100 ms grid."""
    due = watched.manager.due

    def sooner() -> Millis:
        grid, now = watched.tasks.grid, watched.tasks.now
        return due() if grid is None else min(due(), now + 1 + (grid - now - 1) % TICK_INTERVAL_MS)

    setattr(watched.manager, "due", sooner)  # noqa: B010 - a method of one object


def at_every_tick(watched: Watched) -> None:
    """Let the timer run every 100 ms, as Spark does, not only when it may do something."""
    core = watched.manager.core
    assert core is not None

    def every(now: Millis) -> None:
        core.next_tick = core.place + max(0, -(-(now - core.place) // TICK_INTERVAL_MS)) * TICK_INTERVAL_MS
        assert core.state is not None
        if core.state.scaling.add_time == NEVER:
            core.ramped = False

    setattr(core, "plan", every)  # noqa: B010 - a method of one object


def as_it_is(_: Watched) -> None:
    """As ever."""


@pytest.mark.parametrize(
    ("kind", "otherwise"),
    [
        (Watched, at_every_end),
        (Watched, at_every_place),
        (Watched, at_every_tick),
        (Single, as_it_is),
        (Ordered, as_it_is),
    ],
)
@given(
    application=applications(least=1), plan=plans(only_dynamic=True), b=behaviours(least=1), seed=seeds
)  # at least 1 ms: what else happens in the millisecond of a tick may as well come before as after it
def test_how_it_is_simulated(
    kind: type[Watched],
    otherwise: Callable[[Watched], None],
    application: Application,
    plan: Plan,
    b: Behaviour,
    seed: int,
) -> None:
    usual = Watched(application, plan, b, seed).go(LONG)
    watched = kind(application, plan, b, seed)
    otherwise(watched)
    assert decided(watched.go(LONG)) == decided(usual)


# --------------------------------------------------------------------------------------------------- the ideal model


@given(st.lists(st.integers(0, 500), min_size=1, max_size=40), st.integers(1, 9), st.integers(1, 3), st.integers(0, 20))
def test_more_executors_are_never_slower(bodies: list[int], executors: int, slots: int, turnaround: int) -> None:
    """Independent tasks, all there from the start, given out in order: with more slots none begins later.

    Of stages that wait for one another that is not true (Graham, 1969), nor where an executor's first tasks take longer.
    """
    application = app(stage(0, bodies), turnaround_ms=turnaround)
    fewer, more = Watched(application, static(executors, slots)), Watched(application, static(executors + 1, slots))
    before, after = fewer.go(), more.go()
    assert after.runtime_ms <= before.runtime_ms
    began = {task.part: task.began for task in fewer.tasks.ran}
    assert all(task.began <= began[task.part] for task in more.tasks.ran)
    work = sum(bodies)
    slots_in_all = executors * slots
    longest = max(bodies)
    assert max(longest, -(-work // slots_in_all)) <= before.runtime_ms
    if not turnaround:  # no slot is idle while a task waits
        assert before.runtime_ms <= longest + (work - longest) / slots_in_all


class Plodder:
    """Stages and jobs on slots that are all alike, first in first out. ``seen``: when what happened.

    Jobs that come together have the priorities that a seed's luck gives them.
    """

    def __init__(self, application: Application, slots: int, seed: int) -> None:
        self.app = application
        self.priorities = drawn_priorities(application.jobs, seed) if seed else {}
        self.free = slots
        self.now: Millis = 0
        self.serial = 0
        self.running: list[tuple[Millis, int]] = []  # when it ends, its stage
        self.queue: list[tuple[int, int]] = []  # priority of its job, and stage with tasks to give
        self.agenda: list[tuple[Millis, int, int, int]] = []  # when, in which order, serial, of what
        self.stages = {one.stage: one for one in application.stages}
        self.jobs = {one.job: one for one in application.jobs}
        self.given: Counter[int] = Counter()
        self.ended: Counter[int] = Counter()
        self.complete: set[int] = set()
        self.over: set[int] = set()
        self.asked: set[int] = set()
        self.submitted: set[int] = set()
        self.seen: dict[tuple[str, int, int], Millis] = {}
        for one in application.jobs:
            if not one.after:
                self.later(one.think_ms, 2, one.job)

    def later(self, after: Millis, order: int, what: int) -> None:
        self.serial += 1
        self.agenda.append((self.now + after, order, self.serial, what))
        self.agenda.sort()

    def give(self, began: Millis) -> bool:
        """Begin the task that is next, if one waits."""
        if not self.queue:
            return False
        number = self.queue[0][1]
        body = self.stages[number].body_ms[self.given[number]]
        self.running.append((began + body, number))
        self.given[number] += 1
        if self.given[number] == self.stages[number].tasks:
            self.queue.pop(0)
        return True

    def submit(self) -> None:
        """Stages of jobs under way whose parents are complete."""
        for number, one in self.stages.items():
            if number in self.asked and number not in self.submitted and self.complete.issuperset(one.parents):
                self.submitted.add(number)
                self.later(one.submit_lag_ms, 3, number)

    def happen(self, order: int, what: int) -> None:
        match order:
            case 0:
                self.seen["completed", what, 0] = self.now
                self.complete.add(what)
                self.submit()
                owner = self.jobs[self.stages[what].job]
                if self.complete.issuperset(owner.stages):
                    self.later(owner.end_lag_ms, 1, owner.job)
            case 1:
                self.seen["job end", what, 0] = self.now
                self.over.add(what)
                for one in self.jobs.values():
                    if what in one.after and self.over.issuperset(one.after):
                        self.later(one.think_ms, 2, one.job)
            case 2:
                self.seen["job start", what, 0] = self.now
                one = self.jobs[what]
                self.asked.update(one.stages)
                self.submit()
                if not one.stages:
                    assert one.ended_ms is not None
                    self.later(one.ended_ms - one.submitted_ms, 1, what)
            case 3:
                self.seen["submitted", what, 0] = self.now
                self.later(self.stages[what].launch_lag_ms, 4, what)
            case _:
                job = self.stages[what].job
                self.queue.append((self.priorities.get(job, job), what))
                self.queue.sort()
                while self.free and self.give(self.now):
                    self.free -= 1

    def go(self) -> dict[tuple[str, int, int], Millis]:
        """Until nothing is left to happen. Of what is due at once, tasks end first."""
        while self.running or self.agenda:
            ends = min(self.running, default=None)
            if ends is not None and (not self.agenda or ends[0] <= self.agenda[0][0]):
                self.running.remove(ends)
                self.now, number = ends
                self.ended[number] += 1
                if self.ended[number] == self.stages[number].tasks:
                    self.later(self.stages[number].finish_lag_ms, 0, number)
                if not self.give(self.now + self.app.turnaround_ms):
                    self.free += 1
            else:
                self.now, order, _, what = self.agenda.pop(0)
                self.happen(order, what)
        return self.seen


def later(application: Application) -> Application:
    """The same with a driver that thinks for a moment longer: executors that register at 0 are there then."""
    return replace(application, jobs=tuple(replace(one, think_ms=one.think_ms + 1) for one in application.jobs))


@given(applications(plain=True), st.integers(1, 4), st.integers(1, 3), st.integers(0, 3))
def test_against_the_plodder(application: Application, executors: int, slots: int, seed: int) -> None:
    application = later(application)
    watched = Watched(application, static(executors, slots), AT_ONCE, seed)
    outcome = watched.go()
    expected = Plodder(application, executors * slots, seed).go()
    assert times(watched.tasks) == expected
    last = max(at for (what, _, _), at in expected.items() if what == "job end")
    logged = max(one.ended_ms or 0 for one in application.jobs)
    assert outcome.runtime_ms == last + application.ended_ms - logged
    assert outcome.executor_ms == executors * outcome.runtime_ms


@given(applications(plain=True), plans(losses=False), seeds)
def test_fast_executors_that_are_always_enough(application: Application, plan: Plan, seed: int) -> None:
    """As many executors as tasks, from the start: the plan does not matter, nothing waits but for its parents."""
    enough = application.tasks + 1
    if plan.dynamic is not None:
        plan = replace(plan, dynamic=replace(plan.dynamic, executors_min=enough, executors_max=enough,
                                             executors_initial=enough))  # fmt: skip
    application = later(replace(application, turnaround_ms=0))
    outcome = run(application, replace(plan, static=enough, fair=False), seed=seed)
    critical: dict[int, Millis] = defaultdict(int)
    finished = Plodder(application, 10 * enough, seed).go()
    for (what, number, _), at in finished.items():
        if what == "completed":
            critical[number] = at
    assert {one.stage: one.completed_ms for one in outcome.stages} == critical
    assert outcome.peak_executors == enough
    check_sums(outcome)
    assert figures(outcome).stages == ()
    assert set(outcome.billed_by_profile) == {DEFAULT_PROFILE}
