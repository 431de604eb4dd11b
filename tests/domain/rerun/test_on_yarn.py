"""Reruns on YARN whose course can be worked out by hand, and what holds of all of them.

Unless said otherwise the application master registers at 0 and asks at once; the resource manager places a container a
millisecond later; the master fetches it with the beat 200 ms after the wish, and launches the executor, which registers at
once. A beat comes 3 s after one with which nothing was left to wait for.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import pytest
from hypothesis import given, settings, strategies as st

from podtide.domain.base.randomness import Constant
from podtide.domain.base.units import DEFAULT_PROFILE, Millis, ProfileId
from podtide.domain.fakes.windows import Window
from podtide.domain.fakes.yarn.description import ContainerPhase, Death, Master, Nodes, Queue, Tenant
from podtide.domain.protocol.completions import PREEMPTED
from podtide.domain.protocol.stimuli import ResourceProfileAdded
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.behaviour import Behaviour, ContainerBehaviour, Loss, StartUp
from podtide.domain.rerun.heartbeats import Heartbeats
from podtide.domain.rerun.ledger.causes import Limit, SpendCause
from podtide.domain.rerun.outcome import RerunOutcome
from podtide.domain.rerun.plan import NO_FAULTS, ExecutorShape, Faults, Plan
from podtide.domain.rerun.rerun import _Rerun, rerun
from podtide.domain.rerun.start_up import SharedStartUp
from tests.support.rerun_play import (
    AT_ONCE,
    P1,
    Known,
    app,
    causes,
    chain,
    check_sums,
    figures,
    job,
    limits,
    run,
    stage,
)
from tests.support.rerun_yarn_play import DYNAMIC, STATIC, cluster, containers, dynamic, fixed, with_beats

MAXIMUM, HEARTBEAT, SCHEDULER, START_UP = Limit.MAXIMUM, Limit.HEARTBEAT, Limit.SCHEDULER, Limit.START_UP
CAPACITY, EXCLUSION = Limit.CAPACITY, Limit.EXCLUSION
ONE: Final = Nodes("a", 1, 1_408, 1)
OTHER: Final = Nodes("b", 1, 1_408, 1)


def place(start_ms: Millis | tuple[Millis, ...] = 0, stop_ms: Millis = 0, **more: Any) -> Behaviour:
    """Executors come up, and containers are stopped, in so much time."""
    works = start_ms if isinstance(start_ms, tuple) else (start_ms,)
    return Behaviour(StartUp(works), containers=ContainerBehaviour(StartUp(works), (stop_ms,)), **more)


def thinking(think_ms: Millis) -> Application:
    """Two jobs of a task of 100 ms, and so long a thought between them."""
    first, second = stage(0, [100]), stage(1, [100], job=1)
    return app(first, second, jobs=(job(0, [first]), job(1, [second], after=(0,), think_ms=think_ms)))


KNOWN: Final = {
    # Up to 200 two executors are not given, six more would be above the maximum; then six, down to nothing at 500.
    "containers come with the second beat": Known(
        app(stage(0, [100] * 8)), fixed(2), AT_ONCE, 600, 800, 800,
        {SpendCause.RUNNING: 800}, {SCHEDULER: Fraction(1, 4), HEARTBEAT: Fraction(199, 4), MAXIMUM: 450},
    ),
    "the first pause is a setting": Known(
        app(stage(0, [100] * 8)), with_beats(fixed(2), 3_000, 1_000), AT_ONCE, 1_400, 800, 800,
        {SpendCause.RUNNING: 800}, {SCHEDULER: Fraction(1, 4), HEARTBEAT: Fraction(999, 4), MAXIMUM: 1_050},
    ),
    "and no longer than the heartbeat": Known(
        app(stage(0, [100] * 2)), with_beats(fixed(2), 50, 200), AT_ONCE, 150, 200, 200,
        {SpendCause.RUNNING: 200}, {SCHEDULER: 1, HEARTBEAT: 49},
    ),
    # A container costs from 200, its executor is there at 1000 and 1200.
    "start-ups begin with the launch": Known(
        app(stage(0, [1_000] * 2)), fixed(2), place((800, 1_000)), 2_200, 2_200, 4_000,
        {SpendCause.STARTING: 1_800, SpendCause.RUNNING: 2_000, SpendCause.FEW_TASKS: 200},
        {SCHEDULER: 1, HEARTBEAT: 199, START_UP: 1_000},
    ),
    "a slow start": Known(
        app(stage(0, [1_000] * 2)), fixed(2, faults=Faults(start_extra_ms=300)), place(800), 2_300, 2_000, 4_200,
        {SpendCause.STARTING: 2_200, SpendCause.RUNNING: 2_000}, {SCHEDULER: 1, HEARTBEAT: 199, START_UP: 1_100},
    ),
    # The queue holds one; the other is never placed.
    "a quota is a queue": Known(
        app(stage(0, [100] * 4)), fixed(2, faults=Faults(quota=1)), AT_ONCE, 600, 400, 400, {SpendCause.RUNNING: 400},
        {SCHEDULER: Fraction(1, 2), HEARTBEAT: Fraction(199, 4), CAPACITY: Fraction(199, 4) + 100, MAXIMUM: 300},
    ),
    "the bound that the log showed is one, too": Known(
        app(stage(0, [100] * 4)), fixed(2), place(capacity=1), 600, 400, 400, {SpendCause.RUNNING: 400},
        {SCHEDULER: Fraction(1, 2), HEARTBEAT: Fraction(199, 4), CAPACITY: Fraction(199, 4) + 100, MAXIMUM: 300},
    ),
    # The executor is idle at 300, and its target falls, which wakes the master: beats at 300, 3300. Told to go at 1300, it
    # is released at 3300, and its process ends a node's heartbeat and 500 ms later. At 20300 a task waits for the backlog
    # timeout, the beat of 21300 and that of 21500.
    "a release waits for a beat": Known(
        thinking(20_000), dynamic({"initialExecutors": "1", "executorIdleTimeout": "1s"}), place(stop_ms=500),
        21_600, 3_701, 3_701, {SpendCause.RUNNING: 200, SpendCause.IDLE_TIMEOUT: 1_000, SpendCause.LEAVING: 2_501},
        {SCHEDULER: 2, HEARTBEAT: 398, Limit.BACKLOG_TIMEOUT: 1_000},
    ),
    # Beats at 300, 1200, 2100.
    "a shorter heartbeat lets go earlier": Known(
        thinking(20_000), with_beats(dynamic({"initialExecutors": "1", "executorIdleTimeout": "1s"}), 900, 200),
        place(stop_ms=500), 21_600, 2_501, 2_501,
        {SpendCause.RUNNING: 200, SpendCause.IDLE_TIMEOUT: 1_000, SpendCause.LEAVING: 1_301},
        {SCHEDULER: 2, HEARTBEAT: 398, Limit.BACKLOG_TIMEOUT: 1_000},
    ),
    # Lost at 350 in the second task; the beat of 350 releases it, the one of 550 tells of its end. Nothing wakes the master
    # then: it asks again at 3550 and has the container at 3750, for four tasks. The last begins at 4050; booked up to 4100.
    "a lost executor is replaced a heartbeat later": Known(
        app(stage(0, [100] * 5)), fixed(1), place(losses=(Loss(0, 150),)), 4_150, 550, 550,
        {SpendCause.RUNNING: 500, SpendCause.LOST_WORK: 50},
        {SCHEDULER: Fraction(1, 5) + Fraction(1, 4), HEARTBEAT: Fraction(199, 5) + Fraction(3_399, 4),
         MAXIMUM: Fraction(800, 5) + 150 + Fraction(3 * 3_400, 4) + 350},
    ),
    # 0 +700 +300
    "in cluster mode the first backlog needs no timeout": Known(
        app(stage(0, [300])), containers({**DYNAMIC, "submit.deployMode": "cluster"}), place(700), 1_200, 300, 1_000,
        {SpendCause.RUNNING: 300, SpendCause.STARTING: 700}, {SCHEDULER: 1, HEARTBEAT: 199, START_UP: 700},
    ),
    "in client mode it does": Known(
        app(stage(0, [300])), containers({**DYNAMIC, "submit.deployMode": "client"}), place(700), 2_200, 300, 1_000,
        {SpendCause.RUNNING: 300, SpendCause.STARTING: 700},
        {SCHEDULER: 1, HEARTBEAT: 199, START_UP: 700, Limit.BACKLOG_TIMEOUT: 1_000},
    ),
    "nothing happens before the boot": Known(
        app(stage(0, [300])), fixed(1), place(700, boot_ms=1_000), 2_200, 300, 1_000,
        {SpendCause.RUNNING: 300, SpendCause.STARTING: 700}, {SCHEDULER: 1, HEARTBEAT: 199, START_UP: 700},
    ),
    # given clusters
    "a cluster's own start-up": Known(
        app(stage(0, [100] * 4)), fixed(2, hadoop=cluster(start_ms=700)), AT_ONCE, 1_100, 400, 1_800,
        {SpendCause.RUNNING: 400, SpendCause.STARTING: 1_400},
        {SCHEDULER: Fraction(1, 2), HEARTBEAT: Fraction(199, 2), START_UP: 350, MAXIMUM: 550},
    ),
    "a full queue": Known(
        app(stage(0, [100] * 4)), fixed(2, hadoop=cluster(queue=Queue(1_500))), AT_ONCE, 600, 400, 400,
        {SpendCause.RUNNING: 400},
        {SCHEDULER: Fraction(1, 2), HEARTBEAT: Fraction(199, 4), CAPACITY: Fraction(199, 4) + 100, MAXIMUM: 300},
    ),
    "nodes that are full": Known(
        app(stage(0, [100] * 4)), fixed(2, hadoop=cluster(ONE)), AT_ONCE, 600, 400, 400, {SpendCause.RUNNING: 400},
        {SCHEDULER: Fraction(1, 2), HEARTBEAT: Fraction(199, 4), CAPACITY: Fraction(199, 4) + 100, MAXIMUM: 300},
    ),
    "room on excluded nodes only": Known(
        app(stage(0, [100] * 4)),
        containers(
            {**STATIC, "executor.instances": "2", "yarn.exclude.nodes": "b-1"}, hadoop=cluster(ONE, OTHER)
        ),
        AT_ONCE, 600, 400, 400, {SpendCause.RUNNING: 400},
        {SCHEDULER: Fraction(1, 2), HEARTBEAT: Fraction(199, 4), EXCLUSION: Fraction(199, 4) + 100, MAXIMUM: 300},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_known(name: str) -> None:
    known = KNOWN[name]
    outcome = run(known.app, known.plan, known.behaviour)
    assert outcome.unfinished is None
    assert (outcome.runtime_ms, outcome.executor_ms, outcome.billed_ms) == (
        known.runtime,
        known.executors,
        known.billed,
    )
    assert causes(outcome) == known.ledger
    assert limits(outcome) == pytest.approx({limit: float(ms) for limit, ms in known.waiting.items()}, abs=1e-3)


def test_what_is_given_before_the_target_falls_comes_all_the_same() -> None:
    """The need of two lasts until one has its container; the other, for which there was no room, is given up."""
    plan = dynamic({"initialExecutors": "2"}, faults=Faults(quota=1))
    outcome = run(app(stage(0, [100, 1_000])), plan)
    assert (outcome.executors_started, outcome.requests) == (1, 3)
    both = run(app(stage(0, [100] * 10)), dynamic({"initialExecutors": "2"}), place((0, 2_000)))
    assert both.executors_started == 2
    assert causes(both)[SpendCause.OVER_REQUESTED] == 1_000


def test_nobody_comes_where_no_node_is_large_enough() -> None:
    """Heartbeats go on for ever; a run that waits a week without a task has no end."""
    small = Nodes("n", 3, 512, 8)
    outcome = rerun(app(stage(0, [100])), AT_ONCE, fixed(2, hadoop=cluster(small)))
    assert outcome.unfinished == "its tasks wait for executors that never come"


@pytest.mark.uncounted
def test_an_interruption_is_a_preemption_and_no_failure() -> None:
    """Thirty executors die in a minute; with any other status than -102 the application would end at the third."""
    faults = Faults(spot_per_hour=3_600.0)
    outcome = run(app(stage(0, [1_000] * 40)), fixed(2, faults=faults), seed=3)
    assert outcome.unfinished is None
    assert outcome.executors_lost > 10
    given = run(app(stage(0, [1_000] * 40)), fixed(2, hadoop=cluster(deaths=(spot(3_600.0, PREEMPTED),))), seed=3)
    assert given.unfinished is None
    assert given.executors_lost > 10


def spot(per_hour: float, status: int) -> Death:
    """Executors end with this status at this rate."""
    return Death(ContainerPhase.RUNNING, per_hour=per_hour, statuses=((status, 1.0),))


@pytest.mark.parametrize(("status", "ends"), [(None, False), (-100, False), (137, True)])
def test_a_loss_of_the_log_has_its_status(status: int | None, ends: bool) -> None:
    losses = tuple(Loss(ordinal, 50, status) for ordinal in range(4))
    outcome = rerun(app(stage(0, [100] * 10)), place(losses=losses), fixed(2))
    assert (outcome.unfinished is not None) == ends
    assert outcome.executors_lost >= 3


def test_a_launch_that_fails_costs_a_container_and_no_executor() -> None:
    died = Death(ContainerPhase.STARTING, share=1.0, delay=Constant(100), statuses=((-100, 1.0),))
    plan = fixed(1, hadoop=cluster(start_ms=500, deaths=(died,)))
    outcome = rerun(app(stage(0, [100])), AT_ONCE, plan, limit_ms=20_000)
    check_sums(outcome)
    assert outcome.executors_started >= 3
    assert outcome.peak_executors == 0
    assert causes(outcome) == {SpendCause.OVER_REQUESTED: outcome.billed_ms}


@pytest.mark.parametrize("plan", [fixed(2), dynamic({"initialExecutors": "2", "maxExecutors": "2"})])
def test_an_application_outlives_its_master(plan: Plan) -> None:
    """Its containers end with it at 10 s, the next attempt comes 5 s later and begins anew."""
    fails = replace(cluster(start_ms=500), master=Master(Constant(0), restarts=(10_000,), back=Constant(5_000)))
    outcome = run(app(stage(0, [1_000] * 40)), replace(plan, hadoop=fails))
    assert outcome.unfinished is None
    assert (outcome.executors_started, outcome.executors_lost) == (4, 2)
    assert SpendCause.LOST_WORK in causes(outcome)


def test_a_tenant_takes_its_part_of_the_queue_back() -> None:
    """Room for five; from 10 s on somebody else has that of three."""
    tenant = Tenant(3 * 1_408, 0, "other", Window(10_000))
    plan = fixed(5, hadoop=cluster(queue=Queue(5 * 1_408, tenants=(tenant,), preempts=True, wait_ms=0, share=1.0)))
    outcome = run(app(stage(0, [1_000] * 100)), plan)
    assert (outcome.peak_executors, outcome.executors_lost) == (5, 3)
    assert limits(outcome)[CAPACITY] > 0


def test_profiles_have_containers_of_their_own() -> None:
    """The second profile's tasks start where its first target, the initial number, wakes nobody: at the next beat."""
    profile = ResourceProfileAdded(0, P1, (("cores", 1.0),), (("cpus", 1.0),))
    shapes = {DEFAULT_PROFILE: ExecutorShape(1, 1, 1_408), P1: ExecutorShape(1, 1, 1_408)}
    first, second = stage(0, [100]), stage(1, [100], profile=P1, job=1)
    jobs = (job(0, [first]), job(1, [second], after=(0,), think_ms=1_000))
    outcome = run(
        app(first, second, jobs=jobs, profiles=(profile,)),
        dynamic({"initialExecutors": "1", "minExecutors": "1"}, shapes=shapes),
    )
    assert set(outcome.billed_by_profile) == {DEFAULT_PROFILE, P1}
    lives = Counter[ProfileId]()
    for one in outcome.spans:
        lives[one.profile] += one.ended_ms - one.began_ms
    assert lives == outcome.billed_by_profile
    # 200 +100 +1000 and the backlog: 1300; the beats are at 200, 3200 and 3400.
    assert outcome.runtime_ms == 3_500


def test_the_driver_on_the_same_machine_is_late_as_well() -> None:
    shared = ContainerBehaviour(SharedStartUp((1_000,), parallel=1.0, machines=1, driver_ms=500), (0,))
    outcome = run(app(stage(0, [100])), fixed(1), replace(AT_ONCE, containers=shared))
    # 200 alone, then the other 300 at half the speed: the job comes at 800; the start needs 1300 ms from 200 on.
    assert outcome.runtime_ms == 1_600


# ------------------------------------------------------------------------------------------------------------ properties

PLANS = st.sampled_from(
    [
        fixed(3),
        dynamic({"initialExecutors": "2", "executorIdleTimeout": "1s", "maxExecutors": "6"}),
        with_beats(dynamic({"executorIdleTimeout": "1s", "maxExecutors": "4"}), 700, 300),
        dynamic({"executorIdleTimeout": "2s", "minExecutors": "1"}, hadoop=cluster(ONE, OTHER, start_ms=400)),
        containers({**DYNAMIC, "submit.deployMode": "cluster", "dynamicAllocation.executorIdleTimeout": "1s"}),
    ]
)  # fmt: skip
FAULTS = st.sampled_from([NO_FAULTS, Faults(spot_per_hour=600.0), Faults(quota=1), Faults(start_extra_ms=400, quota=2)])
BODIES = st.lists(st.lists(st.integers(1, 4_000), min_size=1, max_size=12), min_size=1, max_size=4)
PLACES = st.builds(
    lambda starts, stop, capacity, loss: place(tuple(starts), stop, capacity=capacity, losses=loss),
    st.lists(st.integers(0, 3_000), min_size=1, max_size=4),
    st.integers(0, 2_000),
    st.none() | st.integers(1, 3),
    st.just(()) | st.builds(lambda after: (Loss(0, after),), st.integers(1, 4_000)),
)


def played(bodies: list[list[int]], plan: Plan, where: Behaviour, faults: Faults, seed: int) -> RerunOutcome:
    """A chain of stages, with a limit for those who wait for ever."""
    return rerun(app(*chain(bodies)), where, replace(plan, faults=faults), seed, watch=True, limit_ms=600_000)


@pytest.mark.uncounted
@settings(max_examples=40)
@given(BODIES, PLANS, PLACES, FAULTS, st.integers(0, 5))
def test_sums_hold_and_the_same_seed_gives_the_same(
    bodies: list[list[int]], plan: Plan, where: Behaviour, faults: Faults, seed: int
) -> None:
    outcome = played(bodies, plan, where, faults, seed)
    check_sums(outcome)
    assert played(bodies, plan, where, faults, seed) == outcome
    assert outcome.unfinished is not None or outcome.tasks_run >= sum(map(len, bodies))


@pytest.mark.uncounted
@settings(max_examples=40)
@given(BODIES, PLANS, PLACES, FAULTS, st.integers(0, 5))
def test_beats_that_are_passed_over_change_nothing(
    bodies: list[list[int]], plan: Plan, where: Behaviour, faults: Faults, seed: int
) -> None:
    """Only how often one looks at what is missing depends on how many beats are made."""
    quick = played(bodies, plan, where, faults, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Heartbeats, "_quiet", lambda _self, _now: False)
        slow = played(bodies, plan, where, faults, seed)
    assert replace(figures(quick), waiting={}, waited_ms=0) == replace(figures(slow), waiting={}, waited_ms=0)
    assert quick.decisions == slow.decisions


def test_a_day_of_waiting_costs_next_to_nothing() -> None:
    """28,800 heartbeats would be made in a day; a handful are."""
    day = 24 * 3_600_000
    made = _Rerun(thinking(day), AT_ONCE, dynamic({"initialExecutors": "1", "minExecutors": "1"}), 0, watch=False)
    outcome = made.run(2 * day)
    assert outcome.unfinished is None
    beats = made.manager.heartbeats  # type: ignore[union-attr]
    assert beats.state.yarn is not None
    assert beats.state.yarn.allocator.serial < 20
