"""Applications of fixed sleeps, whose reruns can be worked out by hand: run time, executor-seconds, ledger and waiting.

Where a number is not obvious, the working is beside it. Executors that start in no time are asked for, and register, at the
boot, which is at 0 unless said otherwise. What tasks wait for is looked at on the allocation manager's 100 ms grid: a wait
that ends between two places is booked up to the later one.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from podtide.domain.protocol import stimuli
from podtide.domain.protocol.config import ProfileRules
from podtide.domain.recorded.application import Application, Copy, Failure, RecordedStage
from podtide.domain.rerun.behaviour import Behaviour, Loss, StartUp
from podtide.domain.rerun.ledger.causes import Limit, SpendCause
from podtide.domain.rerun.outcome import RerunOutcome
from podtide.domain.rerun.plan import Faults, Plan
from podtide.domain.rerun.rerun import rerun
from podtide.domain.rerun.start_up import SharedStartUp
from podtide.domain.scheduler.rules import FairPool
from tests.support.rerun_play import (
    AT_ONCE,
    P1,
    Known,
    Watched,
    app,
    behaviour,
    causes,
    chain,
    check_sums,
    dynamic,
    job,
    limits,
    run,
    stage,
    static,
    times,
    told,
)

S = 1_000
HOUR = 3_600 * S
YEAR = 365 * 24 * HOUR


def two_jobs(
    think_ms: int, first: RecordedStage, second: RecordedStage, end_lag_ms: int = 0, **more: Any
) -> Application:
    """The second job after the first one."""
    jobs = (
        job(0, [first], end_lag_ms=end_lag_ms),
        job(1, [second], after=(0,), think_ms=think_ms, end_lag_ms=end_lag_ms),
    )
    return app(first, second, jobs=jobs, **more)


KNOWN = {
    "four waves on two executors": Known(
        app(stage(0, [100] * 8)), static(2), AT_ONCE, 400, 800, 800,
        {SpendCause.RUNNING: 800}, {Limit.MAXIMUM: 300},
    ),
    "a last wave of one": Known(
        app(stage(0, [100] * 5)), static(2), AT_ONCE, 300, 600, 600,
        {SpendCause.RUNNING: 500, SpendCause.FEW_TASKS: 100}, {Limit.MAXIMUM: 200},
    ),
    "four slots each": Known(
        app(stage(0, [100] * 8)), static(1, slots=4), AT_ONCE, 200, 200, 200,
        {SpendCause.RUNNING: 200}, {Limit.MAXIMUM: 100},
    ),
    "more executors than tasks": Known(
        app(stage(0, [100])), static(3), AT_ONCE, 100, 300, 300,
        {SpendCause.RUNNING: 100, SpendCause.OVER_REQUESTED: 200},
    ),
    # 0 +10 submitted +5 first task +100 +2 complete: 117; then 127, 132, 332, 334; then 344, 349, 649, 651. Idle while
    # tasks wait: 5 for each stage and executor; beside the last task: 300; the rest is the driver's.
    "a chain with lags": Known(
        app(*chain([[100] * 2, [200] * 2, [300]], submit_lag_ms=10, launch_lag_ms=5, finish_lag_ms=2)),
        static(2), AT_ONCE, 651, 1_302, 1_302,
        {SpendCause.RUNNING: 900, SpendCause.OTHER: 30, SpendCause.SERIAL: 300, SpendCause.DRIVER: 72},
    ),
    # 100 +3 the first ends +1000 +100 +3 the second ends +50 the application's
    "two jobs, a thought in between, one at the end": Known(
        two_jobs(1_000, stage(0, [100]), stage(1, [100], job=1), end_lag_ms=3, ended_ms=50),
        static(1), AT_ONCE, 1_256, 1_256, 1_256, {SpendCause.RUNNING: 200, SpendCause.DRIVER: 1_056},
    ),
    # asked for at 200, there at 1200 and 1400, done at 2200 and 2400
    "start-ups": Known(
        app(stage(0, [1_000] * 2)), static(2), behaviour((1_000, 1_200), boot_ms=200), 2_400, 2_200, 4_400,
        {SpendCause.STARTING: 2_200, SpendCause.RUNNING: 2_000, SpendCause.FEW_TASKS: 200}, {Limit.START_UP: 1_200},
    ),
    # 1000 of each at half the speed, then 1000 of the other alone: there at 2000 and 3000
    "start-ups that share a machine": Known(
        app(stage(0, [1_500] * 2)), static(2), Behaviour(StartUp((1_000, 2_000), parallel=1.0, machines=1)),
        4_500, 4_000, 9_000,
        {SpendCause.STARTING: 5_000, SpendCause.RUNNING: 3_000, SpendCause.FEW_TASKS: 1_000}, {Limit.START_UP: 3_000},
    ),
    # registered at 300, ready at 500: the first task begins then
    "not ready at once": Known(
        app(stage(0, [1_000])), static(1), Behaviour(SharedStartUp((300,), ready_ms=(200,))), 1_500, 1_200, 1_500,
        {SpendCause.STARTING: 500, SpendCause.RUNNING: 1_000}, {Limit.START_UP: 300},
    ),
    # the start is over at 600; by then the driver has done 300 of its 400, and submits its first job at 700
    "a driver that shares the machine": Known(
        app(stage(0, [1_000]), jobs=[job(0, [stage(0, [1_000])], think_ms=9_999)]), static(1),
        Behaviour(SharedStartUp((300,), parallel=1.0, machines=1, driver_ms=400)), 1_700, 1_100, 1_700,
        {SpendCause.STARTING: 600, SpendCause.RUNNING: 1_000, SpendCause.DRIVER: 100},
    ),
    # a try that fails took what it took in the log: the executor is fresh no more
    "a fresh executor whose first try fails": Known(
        app(stage(0, [100], failures=(Failure(0, 300),))), static(1), behaviour(fresh_ms=(40,)), 400, 400, 400,
        {SpendCause.RUNNING: 100, SpendCause.LOST_WORK: 300},
    ),
    # each slot that begins fresh takes 40 more
    "fresh executors": Known(
        app(stage(0, [100] * 6)), static(1, slots=2), behaviour(fresh_ms=(40,)), 340, 340, 340,
        {SpendCause.RUNNING: 340}, {Limit.MAXIMUM: 300},
    ),
    # on one machine of their own speed three first tasks of 40 ms of work take 120 more, whichever began first
    "fresh executors of one machine": Known(
        app(stage(0, [100] * 3)), static(3), Behaviour(SharedStartUp((0,), 1.0, machines=1), fresh_ms=(40,)), 220, 660, 660,
        {SpendCause.RUNNING: 660},
    ),
    # the slots of an executor load its classes together
    "a fresh executor of one machine": Known(
        app(stage(0, [100] * 2)), static(1, slots=2), Behaviour(SharedStartUp((0,), 1.0, machines=1), fresh_ms=(40,)),
        140, 140, 140, {SpendCause.RUNNING: 140},
    ),
    # 100 +4 +100 +4 +100
    "a slot stands empty between two tasks": Known(
        app(stage(0, [100] * 3), turnaround_ms=4), static(1), AT_ONCE, 308, 308, 308,
        {SpendCause.RUNNING: 308}, {Limit.MAXIMUM: 300},
    ),
    "initial executors": Known(
        app(stage(0, [1_000] * 4)), dynamic(executors_initial=4), AT_ONCE, 1_000, 4_000, 4_000, {SpendCause.RUNNING: 4_000},
    ),
    # 1 at 1 s, 3 at 2 s, 7 at 3 s, 15 at 4 s, 20 at 5 s, and each 3 s later there: 108 s - 4 - 2*5 - 4*6 - 8*7 - 5*8
    "the ramp": Known(
        app(stage(0, [100 * S] * 20)), dynamic(), behaviour(3 * S), 108 * S, 2_026 * S, 2_086 * S,
        {SpendCause.STARTING: 60 * S, SpendCause.RUNNING: 2_000 * S, SpendCause.FEW_TASKS: 26 * S},
        {
            Limit.BACKLOG_TIMEOUT: 1_000,
            Limit.RAMP: 50 * (19 + 17 + 13) + Fraction(5_000, 19),
            Limit.START_UP: 50 * (1 + 3 + 7) + Fraction(14_000, 19) + 3_000,
        },
    ),
    # the timer's grid begins at the boot, 250; the stage comes at 300 and is heard at 350; 1300 is late at 1350: one
    # executor, 400 later three, 400 later all
    "a sustained timeout of its own, a grid of its own": Known(
        app(stage(0, [100 * S] * 4), jobs=[job(0, [stage(0, [100 * S] * 4)], think_ms=300)]),
        dynamic(sustained_backlog_timeout_ms=400), behaviour(0, boot_ms=250), 102_150, 401_600, 401_600,
        {SpendCause.RUNNING: 400 * S, SpendCause.FEW_TASKS: 1_600}, {Limit.BACKLOG_TIMEOUT: 1_000, Limit.RAMP: 800},
    ),
    "a maximum": Known(
        app(stage(0, [1_000] * 8)), dynamic(executors_max=2, executors_initial=2), AT_ONCE, 4_000, 8_000, 8_000,
        {SpendCause.RUNNING: 8_000}, {Limit.MAXIMUM: 3_000},
    ),
    # need 4 of 8: one at 1 s, three at 2 s, four at 3 s; the second wave begins at 11, 12, 12 and 13 s
    "a ratio of one half": Known(
        app(stage(0, [10 * S] * 8)), dynamic(ratio=0.5), AT_ONCE, 23 * S, 84 * S, 84 * S,
        {SpendCause.RUNNING: 80 * S, SpendCause.FEW_TASKS: 4 * S},
        {
            Limit.BACKLOG_TIMEOUT: 500,
            Limit.RAMP: Fraction(3_000, 7) + 200,
            Limit.RATIO: 500 + Fraction(4_000, 7) + 800 + 10_000,
        },
    ),
    "a backlog timeout longer than the job": Known(
        app(stage(0, [100] * 8)), dynamic(executors_initial=1, backlog_timeout_ms=60 * S), AT_ONCE, 800, 800, 800,
        {SpendCause.RUNNING: 800}, {Limit.BACKLOG_TIMEOUT: 700},
    ),
    # one of the two never works: it is asked to go at 10.0 s and goes at 10.305; the other falls idle at 0.537 and is asked
    # at 10.6, the next place of the grid; the second job's backlog begins at 30.537, is heard at 30.6, answered at 31.6
    "idle timeout and removal": Known(
        two_jobs(30 * S, stage(0, [537]), stage(1, [500], job=1)),
        dynamic(executors_initial=2, idle_timeout_ms=10 * S), behaviour(removal_ms=(305,)), 32_100,
        10_305 + 10_905 + 500, 10_305 + 10_905 + 500,
        {
            SpendCause.RUNNING: 537 + 500,
            SpendCause.LEAVING: 2 * 305,
            SpendCause.OVER_REQUESTED: 10_000,
            SpendCause.IDLE_TIMEOUT: 10_063,
        },
        {Limit.BACKLOG_TIMEOUT: 1_000},
    ),
    # idle from 100 to 20100, of which 10 s are within the timeout
    "a minimum": Known(
        two_jobs(20 * S, stage(0, [100]), stage(1, [100], job=1)),
        dynamic(executors_min=1, executors_initial=1, idle_timeout_ms=10 * S), AT_ONCE, 20_200, 20_200, 20_200,
        {SpendCause.RUNNING: 200, SpendCause.DRIVER: 10_000, SpendCause.MINIMUM: 10_000},
    ),
    # three of four are there at 3 s; the fourth task takes the first slot that is left
    "too few registered": Known(
        app(stage(0, [100] * 4)), static(4, registered_ratio=0.75), behaviour((1_000, 2_000, 3_000, 4_000)),
        3_200, 3_600, 12_800,
        {
            SpendCause.STARTING: 9_000,  # until enough are there nobody can be given a task
            SpendCause.RUNNING: 400,
            SpendCause.FEW_TASKS: 200,
            SpendCause.OVER_REQUESTED: 3_200,
        },
        {Limit.START_UP: 3_100},
    ),
    # the ratio is of the first executors, and there are none
    "nobody to wait for": Known(
        app(stage(0, [1_000])), dynamic(1, executors_max=1, plan={"registered_ratio": 0.8}), AT_ONCE,
        2_000, 1_000, 1_000, {SpendCause.RUNNING: 1_000}, {Limit.BACKLOG_TIMEOUT: 1_000},
    ),
    "too few registered for too long": Known(
        app(stage(0, [100] * 4)), static(4, registered_ratio=1.0, registered_wait_ms=1_500),
        behaviour((1_000, 9_000)), 1_700, 1_400, 6_800,
        {SpendCause.STARTING: 3_000, SpendCause.RUNNING: 400, SpendCause.OVER_REQUESTED: 3_400},
        {Limit.START_UP: 1_600},
    ),
    "two CPUs for a task": Known(
        app(stage(0, [1_000] * 6)),
        dynamic(2, executors_initial=1, executors_max=1, profile_rules=ProfileRules(4, task_cpus=Decimal(2))),
        AT_ONCE, 3_000, 3_000, 3_000, {SpendCause.RUNNING: 3_000}, {Limit.MAXIMUM: 2_000},
    ),
    # a task set that starts as one: when the fourth executor is there
    "a barrier": Known(
        app(stage(0, [1_000] * 4, barrier=True)), static(4), behaviour((100, 200, 300, 400)), 1_400, 4_600, 5_600,
        {SpendCause.STARTING: 1_000, SpendCause.OTHER: 600, SpendCause.RUNNING: 4_000}, {Limit.START_UP: 400},
    ),
    # one task fails, the other one is killed, and both run again after 200 ms
    "a barrier with a failure": Known(
        app(stage(0, [1_000] * 2, barrier=True, failures=(Failure(0, 300),))), static(2), AT_ONCE, 1_500, 3_000, 3_000,
        {SpendCause.RUNNING: 2_000, SpendCause.LOST_WORK: 600, SpendCause.DRIVER: 400},
    ),
    "failures": Known(
        app(stage(0, [1_000], failures=(Failure(0, 300), Failure(0, 300)))), static(1), AT_ONCE, 1_600, 1_600, 1_600,
        {SpendCause.RUNNING: 1_000, SpendCause.LOST_WORK: 600},
    ),
    # task 1 is the second of three, but the first that ever ended
    "failures beside a task that never ended": Known(
        app(stage(0, [-1, 100, 1_000], failures=(Failure(1, 300),))), static(1), AT_ONCE, 1_400, 1_400, 1_400,
        {SpendCause.RUNNING: 1_100, SpendCause.LOST_WORK: 300}, {Limit.MAXIMUM: 400},
    ),
    "lost with a shuffle service": Known(
        app(*chain([[1_000] * 2, [1_000] * 2])), static(2, shuffle_kept=True), behaviour(losses=(Loss(0, 1_500),)),
        2_500, 5_000, 5_000,
        {SpendCause.RUNNING: 4_000, SpendCause.LOST_WORK: 500, SpendCause.FEW_TASKS: 500},
    ),
    # reduce stops at 1500, 200 later half of map runs again, then half of reduce: 1700, 2700, 3700. The other executor's
    # reduce task, which has all it needs, ends at 2000; the new executor is idle from 1500 to 1700
    "lost with its map output": Known(
        app(*chain([[1_000] * 2, [1_000] * 2])), static(2), behaviour(losses=(Loss(0, 1_500),)), 3_700, 7_400, 7_400,
        {SpendCause.RUNNING: 4_000, SpendCause.LOST_WORK: 1_500, SpendCause.FEW_TASKS: 1_900},
    ),
    # a map task that had ended runs again (Resubmitted) beside the one that ran: from 1500 on the new executor, from 2000
    # on the old one; 3000, and 50 of the reduce
    "lost during the map": Known(
        app(*chain([[1_000] * 4, [50]])), static(2), behaviour(losses=(Loss(0, 1_500),)), 3_050, 6_100, 6_100,
        {SpendCause.RUNNING: 4_050, SpendCause.LOST_WORK: 1_500, SpendCause.FEW_TASKS: 500, SpendCause.SERIAL: 50},
        {Limit.MAXIMUM: 1_500},
    ),
    "a quota": Known(
        app(stage(0, [100] * 4)), static(5, faults=Faults(quota=2)), AT_ONCE, 200, 400, 400,
        {SpendCause.RUNNING: 400}, {Limit.CAPACITY: 100},
    ),
    "no room": Known(
        app(stage(0, [100] * 4)), static(5), behaviour(capacity=2), 200, 400, 400,
        {SpendCause.RUNNING: 400}, {Limit.CAPACITY: 100},
    ),
    "a slow image": Known(
        app(stage(0, [100])), static(1, faults=Faults(start_extra_ms=500)), behaviour(100), 700, 100, 700,
        {SpendCause.STARTING: 600, SpendCause.RUNNING: 100}, {Limit.START_UP: 600},
    ),
    "no task that ever ended well": Known(
        app(stage(0, [-1, -1], completed_ms=700)), static(1), AT_ONCE, 700, 700, 700, {SpendCause.OVER_REQUESTED: 700},
    ),
    "a stage without tasks": Known(
        app(stage(0, [], completed_ms=30)), static(1), AT_ONCE, 30, 30, 30, {SpendCause.OVER_REQUESTED: 30},
    ),
    "a job without stages takes what it took": Known(
        app(jobs=[job(0, ended_ms=40)]), static(1), AT_ONCE, 40, 40, 40, {SpendCause.OVER_REQUESTED: 40},
    ),
    "an application without jobs": Known(
        app(jobs=[], ended_ms=5_000), static(1), AT_ONCE, 5_000, 5_000, 5_000, {SpendCause.OVER_REQUESTED: 5_000},
    ),
    "nothing at all": Known(app(jobs=[]), static(1), AT_ONCE, 0, 0, 0, {}),
    "tasks that take no time": Known(
        app(*chain([[0] * 50, [0] * 50])), static(1), AT_ONCE, 0, 0, 0, {},
    ),
    "tasks that take no time, and a slot that is empty in between": Known(
        app(stage(0, [0] * 50), turnaround_ms=4), static(1), AT_ONCE, 196, 196, 196,
        {SpendCause.RUNNING: 196}, {Limit.MAXIMUM: 196},
    ),
    "a task of a year": Known(
        app(stage(0, [YEAR])), dynamic(), AT_ONCE, YEAR + S, YEAR, YEAR,
        {SpendCause.RUNNING: YEAR}, {Limit.BACKLOG_TIMEOUT: S},
    ),
    # without dynamic allocation there are executors of one profile only
    "tasks of another profile": Known(
        app(stage(0, [S] * 2, profile=P1)), static(2), AT_ONCE, S, 2 * S, 2 * S, {SpendCause.RUNNING: 2 * S},
    ),
    "huge ids": Known(
        app(
            stage(2**62, [100] * 2, shuffle=2**61, job=2**63 - 1),
            stage(2**62 + 1, [100] * 2, parents=(2**62,), job=2**63 - 1),
        ),
        static(2), AT_ONCE, 200, 400, 400, {SpendCause.RUNNING: 400},
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("bodies", "cause", "idle_ms"),
    [
        ([20 * S], SpendCause.SERIAL, 40 * S),
        ([20 * S, 5 * S, 5 * S], SpendCause.LAST_TASK, 30 * S),
        ([20 * S, 20 * S], SpendCause.FEW_TASKS, 20 * S),
        ([20 * S, 15 * S, 15 * S], SpendCause.FEW_TASKS, 10 * S),
    ],
)
def test_what_idle_executors_wait_for_while_tasks_run(bodies: list[int], cause: SpendCause, idle_ms: int) -> None:
    """All three executors ran a task of the first stage; the second leaves some without one."""
    outcome = run(app(*chain([[S] * 3, bodies])), static(3))
    assert causes(outcome) == {SpendCause.RUNNING: 3 * S + sum(bodies), cause: idle_ms}


@pytest.mark.parametrize("known", KNOWN.values(), ids=KNOWN)
def test_known_answers(known: Known) -> None:
    outcome = run(known.app, known.plan, known.behaviour)
    assert outcome.unfinished is None
    assert (outcome.runtime_ms, outcome.executor_ms, outcome.billed_ms) == known[3:6]
    assert causes(outcome) == known.ledger
    assert limits(outcome) == pytest.approx({limit: float(ms) for limit, ms in known.waiting.items()}, abs=1e-3)


def test_the_timer_keeps_its_grid_whatever_comes_between() -> None:
    """Executors come and go in the middle of a tenth of a second; decisions are taken at its end."""
    outcome = run(
        two_jobs(30 * S, stage(0, [537]), stage(1, [5 * S] * 9, job=1)),
        dynamic(executors_initial=4, idle_timeout_ms=10 * S),
        behaviour((0, 33, 71), removal_ms=(305, 17), losses=(Loss(3, 4_321),)),
    )
    assert {one.at_ms % 100 for one in outcome.decisions} == {0}


FIFO = app(stage(0, [100] * 4), stage(1, [100] * 4, job=1))
POOLS = app(*FIFO.stages, jobs=[job(number, [FIFO.stages[number]], pool=pool) for number, pool in enumerate("ab")])


@pytest.mark.parametrize(
    ("application", "fair", "ends"),
    [(FIFO, False, (200, 400)), (POOLS, False, (200, 400)), (FIFO, True, (200, 400)), (POOLS, True, (400, 400))],
)
def test_which_job_comes_first(application: Application, fair: bool, ends: tuple[int, int]) -> None:
    watched = Watched(application, static(2, fair=fair))
    outcome = watched.go()
    seen = times(watched.tasks)
    assert (seen["job end", 0, 0], seen["job end", 1, 0]) == ends
    assert (outcome.runtime_ms, outcome.executor_ms, causes(outcome)) == (400, 800, {SpendCause.RUNNING: 800})


def shares(pools: dict[str, FairPool], names: str, slots: int = 4) -> list[int]:
    """How many tasks of each job run at a time, in the middle of things: jobs in pools of these names, long tasks each."""
    stages = [stage(number, [100 + number] * 60, job=number) for number in range(len(names))]
    jobs = [job(number, [stages[number]], pool=pool) for number, pool in enumerate(names)]
    watched = Watched(app(*stages, jobs=jobs), static(slots, fair=True, pools=pools))
    watched.go()
    at = 1_000
    running = [one.stage for one in watched.tasks.ran if one.began <= at < one.ended]
    return [running.count(number) for number in range(len(names))]


@pytest.mark.parametrize(
    ("pools", "names", "running"),
    [
        pytest.param({}, "ab", [2, 2], id="equal"),
        pytest.param({"a": FairPool(3)}, "ab", [3, 1], id="by weight"),
        pytest.param({"b": FairPool(min_share=3)}, "ab", [1, 3], id="below the minimum share first"),
        pytest.param({"a": FairPool(9), "b": FairPool(min_share=3)}, "ab", [1, 3], id="whatever the weights"),
        pytest.param({"a": FairPool(min_share=2), "b": FairPool(min_share=6)}, "ab", [1, 3], id="by share of the minimum"),
        pytest.param({"c": FairPool(7)}, "ab", [2, 2], id="a pool of no job"),
        pytest.param({"a": FairPool(2)}, "aab", [3, 0, 1], id="first in first out within a pool"),
        pytest.param({"a": FairPool(3, fair=True)}, "aab", [2, 1, 1], id="or fairly, too"),
        pytest.param({"a": FairPool(fair=True)}, "aa", [2, 2], id="even if it is the only one"),
    ],
)  # fmt: skip
def test_pools_of_a_file(pools: dict[str, FairPool], names: str, running: list[int]) -> None:
    assert shares(pools, names) == running


@pytest.mark.parametrize("speculation", [True, False])
def test_a_speculative_copy(speculation: bool) -> None:
    """It starts at 400 on the slot that is free and ends with the task that it copies; one of the two came to nothing."""
    application = app(stage(0, [100, S], copies=(Copy(1, 400),)))
    watched = Watched(application, static(2, speculation=speculation))
    outcome = watched.go()
    assert (outcome.runtime_ms, outcome.executor_ms) == (S, 2 * S)
    if not speculation:
        assert causes(outcome) == {SpendCause.RUNNING: 1_100, SpendCause.LAST_TASK: 900}
        return
    wasted = outcome.ledger[SpendCause.LOST_WORK]
    assert wasted in (600, S)
    assert causes(outcome) == {
        SpendCause.RUNNING: 1_700 - wasted,
        SpendCause.LOST_WORK: wasted,
        SpendCause.LAST_TASK: 300,
    }
    assert [event.at for event in told(watched.tasks, stimuli.SpeculativeTaskSubmitted)] == [400]
    assert sorted(event.outcome.value for event in told(watched.tasks, stimuli.TaskEnd)) == ["killed", "success"]


def test_a_copy_of_a_task_that_is_about_to_begin_again() -> None:
    """The original is lost at 500, and is to begin again at 5700 in the slot that is left at 700; the copy ends at 1000."""
    application = app(stage(0, [100, S, 700], copies=(Copy(1, 200),)), turnaround_ms=5 * S)
    begins = set()
    for ordinal in range(3):
        lose = behaviour((0, 0, 0, YEAR), losses=(Loss(ordinal, 500),))
        watched = Watched(application, static(3, speculation=True), lose)
        outcome = watched.go()
        begins |= {one.began for one in watched.tasks.ran if one.part == 1}
        assert outcome.task_ms == sum(one.ended - one.began for one in watched.tasks.ran)
        if outcome.ledger[SpendCause.LOST_WORK] == 500:
            assert outcome.runtime_ms == S
    assert 5_700 in begins


def test_what_nobody_was_to_read_when_it_was_lost() -> None:
    """map 0 (lost at 2500, when only map 1's output is to be read) has to run again once map 1's output is lost too.

    One executor at a time: 1000, 2000, then reduce; the first goes at 2500 with both outputs. On the next one reduce finds
    nothing to fetch; 200 later map 0, map 1 and reduce run there: 2700, 3700, 4700, 5700.
    """
    application = app(*chain([[S], [S], [S]]))
    watched = Watched(application, static(1), behaviour(losses=(Loss(0, 2_500),)))
    outcome = watched.go()
    assert outcome.unfinished is None
    assert [(one.stage, one.attempt, one.began) for one in watched.tasks.ran] == [
        (0, 0, 0), (1, 0, S), (2, 0, 2 * S), (2, 0, 2_500), (0, 1, 2_700), (1, 1, 3_700), (2, 1, 4_700),
    ]  # fmt: skip
    assert (outcome.runtime_ms, outcome.executor_ms) == (5_700, 5_700)
    assert causes(outcome) == {SpendCause.RUNNING: 3_000, SpendCause.LOST_WORK: 2_500, SpendCause.DRIVER: 200}


def test_output_of_an_earlier_attempt_is_lost_during_a_later_one() -> None:
    """A stage's second attempt cannot compute again what the first one computed: a third one does.

    Two executors, the first of which goes at 1500 with half of map: reduce begins again on the third one and finds nothing
    to fetch. The second attempt of map begins there at 1700, and at 2200 the second executor goes with the other half. Map
    is over at 2700, but for that half: 2700 to 3700 on one of the two that are there. Of reduce nothing is there then but
    what was done at 2000: 3700 to 4700.
    """
    application = app(*chain([[S] * 2, [S] * 2]))
    watched = Watched(application, static(2), behaviour(losses=(Loss(0, 1_500), Loss(1, 2_200))))
    outcome = watched.go(HOUR)
    assert outcome.unfinished is None
    assert outcome.runtime_ms == 4_700
    attempts = [(one.stage, one.attempt, one.began, one.ended) for one in watched.tasks.ran]
    assert sorted(attempts) == [
        (0, 0, 0, S), (0, 0, 0, S), (0, 1, 1_700, 2_700), (0, 2, 2_700, 3_700),
        (1, 0, S, 1_500), (1, 0, S, 2 * S), (1, 0, 1_500, 1_500), (1, 1, 3_700, 4_700),
    ]  # fmt: skip
    assert outcome.executor_ms == 1_500 + 2_200 + (4_700 - 1_500) + (4_700 - 2_200)
    assert outcome.ledger[SpendCause.LOST_WORK] == 1_500 + S


def test_nothing_is_left_of_a_stage_that_is_submitted_again() -> None:
    """What a dying attempt still finished is not waited for again: the stage is complete at once."""
    stages = chain([[S], [S, 3 * S], [100]])
    first, second, third = stages
    stages = (first, replace(second, completed_ms=50 * S, finish_lag_ms=400), third)
    for ordinal, after in ((0, 4_200), (1, 4_200), (0, 4_050), (1, 4_050)):
        outcome = run(app(*stages), static(2), behaviour(losses=(Loss(ordinal, after),)), limit_ms=HOUR)
        assert outcome.unfinished is None
        assert outcome.runtime_ms < 20 * S


@pytest.mark.uncounted
def test_a_lineage_of_thousands_of_stages() -> None:
    """All of their output is lost at once, and all of it is needed again."""
    count = 3_000
    outcome = run(
        app(*chain([[1]] * count + [[2 * S]])), static(1), behaviour(losses=(Loss(0, count + S),)), limit_ms=HOUR
    )
    assert outcome.unfinished is None
    assert outcome.tasks_run == 2 * count + 2  # the last one once in vain
    assert outcome.runtime_ms == count + S + 200 + count + 2 * S


def test_a_skipped_stage_reads_what_another_one_wrote() -> None:
    """Job 1 lists stage 2, which is skipped: stage 0 has written its shuffle. If that is lost, it is written again."""
    first, writer = stage(1, [S], parents=(0,)), stage(0, [S], shuffle=7)
    reader = stage(3, [S], job=1, parents=(2,))
    jobs = [
        job(0, [writer, first]),
        job(1, [reader], after=(0,), needs=(stimuli.JobStage(2, 7), stimuli.JobStage(3))),
    ]
    application = app(writer, first, reader, jobs=jobs)
    assert run(application, static(1)).runtime_ms == 3 * S
    outcome = run(application, static(1), behaviour(losses=(Loss(0, 2_500),)))
    assert outcome.runtime_ms == 2_500 + 200 + S + S
    assert outcome.ledger[SpendCause.LOST_WORK] == S + 500


CACHED = two_jobs(60 * S, stage(0, [100], stores=(5,)), stage(1, [100], job=1))
CACHES = dynamic(executors_initial=1, idle_timeout_ms=10 * S)


def test_cached_data_keeps_executors_for_so_long() -> None:
    """10 s of the plain timeout and 5 s of the other one; the second job waits for a new executor, from 60.1 to 61.1 s."""
    plan = dynamic(executors_initial=1, idle_timeout_ms=10 * S, cached_idle_timeout_ms=15 * S)
    outcome = run(CACHED, plan, behaviour(removal_ms=(200,)))
    assert (outcome.runtime_ms, outcome.executor_ms) == (61_200, 15_300 + 100)
    assert causes(outcome) == {
        SpendCause.RUNNING: 200, SpendCause.IDLE_TIMEOUT: 10 * S, SpendCause.CACHED: 5 * S, SpendCause.LEAVING: 200,
    }  # fmt: skip


def test_what_is_unpersisted_keeps_nobody() -> None:
    """In the log the RDD was dropped while the first job ran: as long after the start here, when it has ended."""
    jobs = (replace(CACHED.jobs[0], ended_ms=300), replace(CACHED.jobs[1], submitted_ms=60_300, ended_ms=60_400))
    application = replace(CACHED, jobs=jobs, ended_ms=60_400)
    application = replace(application, unpersisted=((200, 5),))
    watched = Watched(application, CACHES, behaviour(removal_ms=(200,)))
    outcome = watched.go()
    assert [(event.at, event.rdd) for event in told(watched.tasks, stimuli.UnpersistRDD)] == [(200, 5)]
    assert (outcome.runtime_ms, outcome.executor_ms) == (61_200, 10_300 + 100)
    assert causes(outcome) == {SpendCause.RUNNING: 200, SpendCause.IDLE_TIMEOUT: 10 * S, SpendCause.LEAVING: 200}


def test_who_caches_is_told_once_by_executor() -> None:
    watched = Watched(
        app(stage(0, [100] * 40, stores=(5, 6)), stage(1, [100] * 40, job=1, stores=(6,)), stage(2, [100], job=1)),
        dynamic(2, executors_initial=2, profile_rules=ProfileRules(2)),
    )
    watched.go()
    blocks = [(event.executor, event.block.rdd) for event in told(watched.tasks, stimuli.BlockUpdated)]
    assert sorted(blocks) == [("0", 5), ("0", 6), ("1", 5), ("1", 6)]


def test_tasks_that_never_ended_are_waited_for_but_not_run() -> None:
    """The stage is submitted with all of its tasks, as in the log, and over with the last of those that ended well there."""
    watched = Watched(app(stage(0, [100, -1, 100, -1])), static(1))
    outcome = watched.go()
    assert [event.tasks for event in told(watched.tasks, stimuli.StageSubmitted)] == [4]
    assert [(one.part, one.began) for one in watched.tasks.ran] == [(0, 0), (2, 100)]
    assert (outcome.runtime_ms, outcome.tasks_run, outcome.tasks_again) == (200, 2, 0)


# ------------------------------------------------------------------------------------------------------- without an end


NEVER_RUNS: dict[str, tuple[Application, Plan, Behaviour]] = {
    "nobody is asked for": (app(stage(0, [S])), static(0), AT_ONCE),
    "nobody may be asked for": (app(stage(0, [S])), dynamic(executors_max=0), AT_ONCE),
    "there is no room": (app(stage(0, [S])), static(2), behaviour(capacity=0)),
    "a quota of nothing": (app(stage(0, [S])), dynamic(plan={"faults": Faults(quota=0)}), AT_ONCE),
    "executors without slots": (app(stage(0, [S])), static(2, slots=0), AT_ONCE),
    "a profile that nobody announced": (app(stage(0, [S], profile=P1)), dynamic(), AT_ONCE),
    "a barrier without room": (app(stage(0, [S] * 3, barrier=True)), static(2), AT_ONCE),
    "a job after itself by way of another": (
        app(jobs=[job(0, after=(1,)), job(1, after=(0,))]), static(1), AT_ONCE,
    ),
    "stages that read one another": (
        app(stage(0, [S], parents=(1,), shuffle=0), stage(1, [S], parents=(0,), shuffle=1)), static(1), AT_ONCE,
    ),
    "a stage that reads itself": (app(stage(0, [S], parents=(0,), shuffle=0)), static(1), AT_ONCE),
}  # fmt: skip


@pytest.mark.parametrize("case", NEVER_RUNS.values(), ids=NEVER_RUNS)
def test_what_cannot_run_ends_unfinished(case: tuple[Application, Plan, Behaviour]) -> None:
    application, plan, behaving = case
    outcome = run(application, plan, behaving)
    assert outcome.unfinished == "its tasks wait for executors that never come"
    assert outcome.runtime_ms < 10 * 60 * S
    assert outcome.tasks_run == 0


@pytest.mark.uncounted
def test_executors_that_are_lost_for_good() -> None:
    """A task of ten hours on executors that live for a minute comes to no end; the rerun does."""
    plan = static(2, faults=Faults(spot_per_hour=60))
    outcome = rerun(app(stage(0, [10 * HOUR])), behaviour(S), plan)
    assert outcome.unfinished == "executors are lost faster than its stages can end"
    check_sums(outcome)
    again = rerun(app(*chain([[S, S], [10 * HOUR]])), behaviour(S), plan)
    assert again.unfinished is not None
    assert again.unfinished.startswith("stage 1 failed to fetch what its parents wrote 4 times in a row")


@pytest.mark.uncounted
def test_a_spot_rate() -> None:
    """100 executors that live for a minute each, for ten: 1000 losses, more or less; those that come are taken as well."""
    plan = static(100, faults=Faults(spot_per_hour=60))
    application = app(jobs=[job(0, ended_ms=10 * 60 * S)])
    lost = [rerun(application, AT_ONCE, plan, seed).executors_lost for seed in range(4)]
    assert all(abs(count - 1_000) < 4 * 1_000**0.5 for count in lost)
    assert len(set(lost)) == 4
    outcome = rerun(application, AT_ONCE, plan)
    assert outcome.executor_ms == 100 * 10 * 60 * S
    assert outcome.executors_started == 100 + outcome.executors_lost


def test_losses_are_those_of_the_log() -> None:
    """The second and the fourth that register, so long after they did; one that was let go before is not lost."""
    outcome = run(
        app(stage(0, [10 * S] * 3)),
        static(3, shuffle_kept=True),
        behaviour(losses=(Loss(1, 2 * S), Loss(3, 3 * S), Loss(7, S))),
    )
    # one of the tasks begins again at 2 s, and again at 5 s
    assert (outcome.executors_lost, outcome.executors_started, outcome.runtime_ms) == (2, 5, 15 * S)
    assert outcome.executor_ms == 2 * 15 * S + 2 * S + 3 * S + 10 * S
    assert outcome.ledger[SpendCause.LOST_WORK] == 5 * S


def test_the_seed_shuffles() -> None:
    """Seed 0 takes the samples as they come; another one in another order, always the same."""
    application = app(stage(0, [100 * S] * 3))
    starts = behaviour((1_000, 2_000, 3_000, 4_000))
    assert rerun(application, starts, static(3)).executor_ms == 3 * 103 * S - 6 * S
    outcomes: list[RerunOutcome] = [rerun(application, starts, static(3), seed) for seed in range(1, 9)]
    assert outcomes == [rerun(application, starts, static(3), seed) for seed in range(1, 9)]
    assert len({outcome.executor_ms for outcome in outcomes}) > 2


def test_shuffle_data_keeps_executors() -> None:
    """Its job is over, so only the shuffle timeout counts: 10 s within the plain one, 5 s for the data."""
    stages = chain([[100], [100]])
    later = stage(2, [100], job=1)
    application = app(*stages, later, jobs=[job(0, stages), job(1, [later], after=(0,), think_ms=60 * S)])
    plan = dynamic(executors_initial=1, idle_timeout_ms=10 * S, shuffle_tracking=True, shuffle_timeout_ms=15 * S)
    outcome = run(application, plan, behaviour(removal_ms=(200,)))
    assert outcome.ledger[SpendCause.SHUFFLE] == 5 * S
    assert (outcome.runtime_ms, outcome.executor_ms) == (200 + 60 * S + S + 100, 200 + 15 * S + 200 + 100)
    for_good = run(application, dynamic(executors_initial=1, idle_timeout_ms=10 * S, shuffle_tracking=True))
    assert for_good.ledger[SpendCause.SHUFFLE] == 50 * S
    assert (for_good.runtime_ms, for_good.executor_ms) == (60_300, 60_300)


def pause_then_read() -> Application:
    """Job 0 writes a shuffle on four executors; job 1 reads it half a minute later."""
    first = stage(0, [S] * 4, job=0, shuffle=0)
    second = stage(2, [S] * 4, job=1, parents=(1,))
    needs = (stimuli.JobStage(1, 0), stimuli.JobStage(2))
    jobs = [
        job(0, [first], needs=(stimuli.JobStage(0, 0),), ended_ms=S),
        job(1, [second], needs=needs, after=(0,), think_ms=30 * S, submitted_ms=31 * S, ended_ms=32 * S),
    ]
    return app(first, second, jobs=jobs)


@pytest.mark.parametrize(
    ("least", "plan", "again"),
    [
        pytest.param(1, {}, 3, id="what three of four held is computed again"),
        pytest.param(1, {"shuffle_migrates": True}, 0, id="they hand it to the one that stays"),
        pytest.param(0, {"shuffle_migrates": True}, 4, id="the last one has nobody to hand it to"),
        pytest.param(0, {"shuffle_migrates": True, "shuffle_fallback": True}, 0, id="but a storage"),
        pytest.param(0, {"shuffle_fallback": True}, 4, id="which is for those that migrate"),
    ],
)
def test_map_output_of_executors_that_are_let_go(least: int, plan: dict[str, Any], again: int) -> None:
    executors = {"executors_initial": 4, "executors_min": least, "executors_max": 4, "idle_timeout_ms": 5 * S}
    outcome = run(pause_then_read(), dynamic(plan=plan, **executors))
    assert outcome.tasks_again == again


def test_map_output_of_an_executor_that_is_taken_is_lost_however_it_migrates() -> None:
    plan = static(2, shuffle_migrates=True, shuffle_fallback=True)
    outcome = run(app(*chain([[S, S], [S, S]])), plan, behaviour(losses=(Loss(0, S + 500),)))
    assert outcome.tasks_again > 0


@pytest.mark.parametrize(
    ("plan", "b", "second"),
    [
        (static(2), behaviour(fresh_ms=(40,)), 130 + 100 + 100 + 100),
        (static(4), AT_ONCE, 130 + 100),
        (static(1, slots=4), AT_ONCE, 130 + 100),
        (static(2), Behaviour(SharedStartUp((0,), 1.0, machines=1)), 130 + 100 + 100 + 100),
        (static(4), Behaviour(SharedStartUp((0,), 1.0, machines=1)), 160 + 100),  # twice as many begin at once
        (static(1), Behaviour(SharedStartUp((0,), 1.0, machines=1)), 115 + 7 * 100),
    ],
)
def test_the_first_task_of_a_stage_in_a_slot_takes_longer(plan: Plan, b: Behaviour, second: int) -> None:
    """Eight tasks of 100 ms, of which the first in a slot took 30 ms more, in two slots; fresh executors know their own."""
    first, later = chain([[100] * 4, [100] * 8], opening_ms=30, opened=2)
    outcome = run(app(replace(first, opening_ms=0), later), plan, b)
    begun, ended = next((one.submitted_ms, one.completed_ms) for one in outcome.stages if one.stage == 1)
    assert ended - begun == second
