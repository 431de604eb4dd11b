"""Two accounts compared: nothing is left over, either way round; causes are ranked, noise is called noise."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from podtide.domain.comparison.account import (
    ExecutorsAccount,
    HostWork,
    LongestTask,
    Piece,
    PieceKind,
    RunAccount,
    StageAccount,
    TaskTime,
    WorkUnit,
)
from podtide.domain.comparison.causes import OF_TASK_TIME, ChangeCause, acts_on
from podtide.domain.comparison.comparison import (
    AFTER_LAST,
    SETTINGS_MAX,
    STAGES_NAMED,
    BillPart,
    Comparison,
    ConfChange,
    compare,
    conf_changes,
    first_wait_ms,
)
from podtide.domain.comparison.evidence import Unit
from podtide.domain.rerun.ledger.causes import Limit, SpendCause
from podtide.domain.whatif.bill.rules import BillRules, ContainerRounding, NodeShape
from podtide.domain.whatif.prices import Prices
from tests.support.account_play import PLAIN, later, run_of, runs

OTHER_WAY = {ChangeCause.ADDED: ChangeCause.GONE, ChangeCause.GONE: ChangeCause.ADDED}
PRICES = Prices(core_hour=0.04, gb_hour=0.005, spot_share=0.5, spot_discount=0.6)
RULES = BillRules(driver=True, node=NodeShape(3, 5_000), containers=ContainerRounding())
few = settings(max_examples=30)


def by_cause(first: RunAccount, second: RunAccount) -> dict[ChangeCause, float]:
    """Milliseconds by cause, without what is nothing."""
    found: Counter[ChangeCause] = Counter()
    for one in compare(first, second).causes:
        found[one.cause] += one.ms  # type: ignore[assignment]  # a float
    return {cause: ms for cause, ms in found.items() if abs(ms) > 1e-3}


# -------------------------------------------------------------------------------------------------- any two runs


@few
@given(runs(), runs(), st.sampled_from([None, PRICES, replace(PRICES, rules=RULES)]))
def test_the_parts_sum_to_the_difference_without_remainder(
    first: RunAccount, second: RunAccount, prices: Prices | None
) -> None:
    found = compare(first, second, prices=prices)
    assert found.change_ms == second.runtime_ms - first.runtime_ms
    assert sum(one.ms for one in found.causes) == pytest.approx(found.change_ms, abs=1e-2)
    for one in found.causes:
        assert sum(ms for _, ms in one.details) == pytest.approx(one.ms, abs=1e-3)
        assert len(one.stages) <= STAGES_NAMED
    assert sum(one.ms for one in found.bill) == second.billed_ms - first.billed_ms
    assert sum(one.amount for one in found.bill) == pytest.approx(found.cost[1] - found.cost[0], abs=1e-9)
    check_stages(found)
    check_order(found)


def check_stages(found: Comparison) -> None:
    """Every stage of both runs is in one row, with its time on the chains; the largest change first."""
    for place, run in enumerate((found.first, found.second)):
        rows = [(row.first, row.second)[place] for row in found.stages]
        assert sorted(one.stage for one in rows if one is not None) == sorted(one.stage for one in run.stages)
        chained = sum(piece.length_ms for piece in run.chain if piece.kind is PieceKind.STAGE)
        assert sum((row.before_ms, row.after_ms)[place] for row in found.stages) == chained
    changes = [abs(row.after_ms - row.before_ms) for row in found.stages]
    assert changes == sorted(changes, reverse=True)


def check_order(found: Comparison) -> None:
    """Causes in the direction of the change come first, the largest first."""
    sign = -1 if found.change_ms < 0 else 1
    along = [one for one in found.causes if one.ms * sign > 0]
    assert list(found.causes[: len(along)]) == sorted(along, key=lambda one: -abs(one.ms))
    against = [abs(one.ms) for one in found.causes[len(along) :]]
    assert against == sorted(against, reverse=True)


@few
@given(runs(), runs())
def test_the_other_way_round_every_cause_has_the_other_sign(first: RunAccount, second: RunAccount) -> None:
    there, back = by_cause(first, second), by_cause(second, first)
    assert {OTHER_WAY.get(cause, cause): -ms for cause, ms in back.items()} == pytest.approx(there, abs=1e-2)


@few
@given(runs())
def test_a_run_beside_itself_has_not_changed(run: RunAccount) -> None:
    found = compare(run, run, prices=PRICES)
    assert found.change_ms == 0
    assert by_cause(run, run) == {}
    assert found.bill == ()
    assert found.conf == ()
    assert found.within_noise


# ------------------------------------------------------------------------------------ one thing that is different

BASE = run_of([PLAIN, later(PLAIN, 45_000, stage=1, plan="Scan", name="write")])


def shifted(second: StageAccount) -> RunAccount:
    """The plain run with another first stage; the other one begins as much later."""
    by = second.completed_ms - PLAIN.completed_ms
    return run_of([second, later(PLAIN, 45_000 + by, stage=1, plan="Scan", name="write")])


SLOWER = replace(
    PLAIN,
    last_launch_ms=61_000,
    last_end_ms=81_000,
    completed_ms=81_000,
    time_ms={TaskTime.BLOCKED: 280_000, TaskTime.CPU: 20_000},
    slot_ms=320_000,
)
"""Twice as long, for reasons that its other fields have to tell."""


@pytest.mark.parametrize(
    ("stage", "cause", "figures"),
    [
        (
            replace(SLOWER, amounts={WorkUnit.RECORDS_READ: 3_200, WorkUnit.TASKS: 16}),
            ChangeCause.INPUT,
            [("records read", 1_600, 3_200, Unit.COUNT)],
        ),
        (
            replace(SLOWER, amounts={WorkUnit.RECORDS_READ: 1_600}, time_ms={TaskTime.BLOCKED: 290_000, TaskTime.CPU: 1}),
            ChangeCause.BLOCKED,
            [("waiting in the task, for 1,000 records read", 87_500, 181_250, Unit.MS)],
        ),
        (
            replace(SLOWER, hosts=(HostWork("a", 8, 75_000, 800), HostWork("b", 8, 225_000, 800))),
            ChangeCause.SLOW_HOST,
            [
                ("task time for 1,000 records read on the slowest host", 93_750, 281_250, Unit.MS),
                ("task time for 1,000 records read on the middle one", 93_750, 281_250, Unit.MS),
            ],
        ),
        (replace(SLOWER, spilled_bytes=10**9), ChangeCause.SPILL, [("spilled", 0, 10**9, Unit.BYTES)]),
        (
            replace(
                PLAIN, last_end_ms=81_000, completed_ms=81_000, slot_ms=320_000,
                longest=LongestTask(50_000, 900, "a", 9_000, 90),
            ),
            ChangeCause.SKEW,
            [
                ("longest task", 10_000, 50_000, Unit.MS),
                ("median task", 9_375, 9_000, Unit.MS),
                ("records read by the longest task", 100, 900, Unit.COUNT),
                ("records read by the median task", 100, 90, Unit.COUNT),
            ],
        ),
        (
            replace(PLAIN, last_end_ms=81_000, completed_ms=81_000, slot_ms=320_000, longest=LongestTask(50_000, 100)),
            ChangeCause.STRAGGLER,
            [("longest task", 10_000, 50_000, Unit.MS), ("median task", 9_375, 0, Unit.MS)],
        ),
        (
            replace(PLAIN, tasks=2, last_launch_ms=1_000, last_end_ms=81_000, completed_ms=81_000, slot_ms=320_000),
            ChangeCause.PARTITIONS,
            [("tasks", 16, 2, Unit.COUNT), ("slots, on average", 4, 4, Unit.RATIO)],
        ),
        (
            replace(
                PLAIN, last_launch_ms=61_000, last_end_ms=81_000, completed_ms=81_000, slot_ms=160_000,
                missing_ms={Limit.MAXIMUM: 160_000},
            ),
            ChangeCause.EXECUTORS,
            [("slots, on average", 4, 2, Unit.RATIO)],
        ),
        (
            replace(
                SLOWER, remote=HostWork("", 4, 150_000, 400), hosts=(HostWork("a", 16, 300_000, 1_600),),
            ),
            ChangeCause.LOCALITY,
            [("tasks away from their data", 0, 4, Unit.COUNT)],
        ),
        (
            replace(SLOWER, time_ms=PLAIN.time_ms, wasted_ms=150_000, lost_tasks=3),
            ChangeCause.LOST,
            [("tries that did not count", 0, 3, Unit.COUNT)],
        ),
    ],
)  # fmt: skip
def test_the_cause_is_named_first_with_its_stage_and_its_figures(
    stage: StageAccount, cause: ChangeCause, figures: list[tuple[str, float, float, Unit]]
) -> None:
    found = compare(BASE, shifted(stage))
    named = found.causes[0]
    assert named.cause is cause, [(one.cause.value, round(one.ms)) for one in found.causes]
    assert [(one.first, one.second, one.name) for one in named.stages] == [(0, 0, PLAIN.name)]
    shown = [(one.what, round(one.before, 3), round(one.after, 3), one.unit) for one in named.evidence]
    assert shown[: len(figures)] == figures
    assert all(one.stage == PLAIN.name for one in named.evidence[: len(figures)])


def test_work_that_was_lost_is_shown_of_the_whole_run_too() -> None:
    lost = shifted(replace(SLOWER, time_ms=PLAIN.time_ms, wasted_ms=150_000, lost_tasks=3))
    lost = replace(lost, executors=replace(lost.executors, lost={"preempted": 2, "evicted": 1}))
    figures = {one.what: (one.before, one.after) for one in compare(BASE, lost).causes[0].evidence}
    assert figures["executors lost"] == (0, 3)
    assert figures["task time that did not count"] == (0, 150_000)


@pytest.mark.parametrize("kind", [TaskTime.GC, TaskTime.FETCH, TaskTime.WRITE, TaskTime.DESERIALIZE, TaskTime.DELAY])
def test_task_time_of_each_kind_has_its_cause(kind: TaskTime) -> None:
    slower = shifted(replace(SLOWER, time_ms={**PLAIN.time_ms, kind: 150_000}))
    named = compare(BASE, slower).causes[0]
    assert named.cause is OF_TASK_TIME[kind]
    assert named.evidence[0].what.startswith(kind.value)


def test_a_slow_host_is_a_cause_of_its_own() -> None:
    hosts = (HostWork("a", 8, 75_000, 800), HostWork("b", 8, 225_000, 800), HostWork("c", 8, 225_000, 800))
    thrice = replace(PLAIN, hosts=tuple(HostWork(host, 4, 37_500, 400) for host in "abde"))
    slow = replace(SLOWER, hosts=(*thrice.hosts[::3], *(replace_work(one, thrice.hosts[0]) for one in hosts[1:])))
    found = compare(run_of([thrice]), run_of([slow]))
    own = [one for one in found.causes if one.cause is ChangeCause.SLOW_HOST]
    assert sorted(one.details[0][0] for one in own) == ["b", "c"]
    assert all(len(one.details) == 1 for one in own)


def replace_work(slow: HostWork, like: HostWork) -> HostWork:
    return like._replace(host=slow.host, task_ms=3 * like.task_ms)


def test_a_stage_that_is_new_and_one_that_is_gone() -> None:
    new = later(PLAIN, 90_000, stage=7, plan="New", name="new")
    found = compare(BASE, run_of([*BASE.stages, new]))
    assert [(one.cause, one.ms) for one in found.causes if one.ms] == [
        (ChangeCause.ADDED, 41_000),
        (ChangeCause.DRIVER, 4_000),
    ]
    assert found.causes[0].stages[0][:3] == (None, 7, "new")
    back = compare(run_of([*BASE.stages, new]), BASE)
    assert [(one.cause, one.ms) for one in back.causes if one.ms] == [
        (ChangeCause.GONE, -41_000),
        (ChangeCause.DRIVER, -4_000),
    ]


def test_another_stage_that_is_waited_for() -> None:
    """Two stages side by side, each as long as before but for the one that no longer ends last."""
    sides = [PLAIN, replace(PLAIN, stage=1, plan="Scan", completed_ms=40_000, last_end_ms=40_000)]
    longer = [PLAIN, replace(PLAIN, stage=1, plan="Scan", completed_ms=61_000, last_end_ms=40_000)]
    found = compare(run_of(sides, end_ms=62_000), run_of(longer, end_ms=62_000))
    assert found.change_ms == 0
    assert {one.cause for one in found.causes if abs(one.ms) > 1} == {ChangeCause.BESIDE, ChangeCause.DRIVER}


def test_the_driver_before_between_and_after() -> None:
    """Each with the name of the stage that followed; before the first job, the wait for executors is told apart."""
    there = run_of(
        [later(one, 30_000) for one in BASE.stages],
        end_ms=BASE.runtime_ms + 35_000,
        driver_ready_ms=5_000,
        executors=replace(BASE.executors, first_ms=25_000),
    )
    found = {one.cause: one for one in compare(BASE, there).causes if one.ms}
    assert {cause: one.ms for cause, one in found.items()} == {
        ChangeCause.STARTING: 10_000,
        ChangeCause.FIRST_EXECUTORS: 20_000,
        ChangeCause.DRIVER: 5_000,
    }
    assert [one.name for one in found[ChangeCause.DRIVER].stages] == [AFTER_LAST]
    figures = {one.what: (one.before, one.after) for one in found[ChangeCause.FIRST_EXECUTORS].evidence}
    assert figures == {}, "the first run does not tell when its first executor came"
    between = run_of([PLAIN, later(BASE.stages[1], 9_000)])
    (driver,) = [one for one in compare(BASE, between).causes if one.ms]
    assert (driver.cause, driver.ms, [one.name for one in driver.stages]) == (ChangeCause.DRIVER, 9_000, ["write"])


@pytest.mark.parametrize(
    ("ready", "came", "waited"),
    [(None, 5, 0), (5, None, 0), (5, 5, 0), (9, 5, 0), (5, 25, 20), (5, 99, 35), (40, 99, 0), (50, 99, 0)],
)
def test_the_wait_for_the_first_executor_is_within_the_first_piece(
    ready: int | None, came: int | None, waited: int
) -> None:
    run = replace(BASE, driver_ready_ms=ready, executors=ExecutorsAccount(first_ms=came))
    assert first_wait_ms(run, Piece(PieceKind.STARTING, 0, 40)) == waited


def test_executors_that_start_slowly_are_shown() -> None:
    def begun(at: int) -> RunAccount:
        executors = replace(BASE.executors, first_ms=at, start_up_ms=at - 2_000)
        return run_of([later(one, at) for one in BASE.stages], driver_ready_ms=2_000, executors=executors)

    named = compare(begun(5_000), begun(45_000)).causes[0]
    assert (named.cause, named.ms) == (ChangeCause.FIRST_EXECUTORS, 40_000)
    assert [(one.what, one.before, one.after) for one in named.evidence] == [
        ("from request to registration, median", 3_000, 43_000),
        ("first executor registered after", 5_000, 45_000),
    ]


# ---------------------------------------------------------------------------------------------------- noise, bill, conf


@pytest.mark.parametrize(("runtime", "noise", "within"), [(112, 0.13, True), (114, 0.13, False), (86, 0.13, False)])
def test_noise_is_called_noise(runtime: int, noise: float, within: bool) -> None:
    base = run_of([], end_ms=100)
    assert compare(base, run_of([], end_ms=runtime), noise=noise).within_noise == within
    assert compare(base, run_of([], end_ms=runtime), noise=0.01).within_noise is False


def test_a_run_of_no_time_and_no_bill_has_no_share() -> None:
    nothing = run_of([], end_ms=0, executors=ExecutorsAccount(), bill={})
    found = compare(nothing, nothing)
    assert (found.share, found.cost_share, found.cost) == (0.0, 0.0, (0.0, 0.0))


def test_the_bill_is_divided_by_cause_and_by_size() -> None:
    """An hour more of one executor, and executors of twice the size."""
    hour = 3_600_000
    one = replace(BASE, bill={SpendCause.RUNNING: hour}, executors=ExecutorsAccount(shapes=((1, 1_024, hour),)))
    two = replace(
        BASE,
        bill={SpendCause.RUNNING: hour, SpendCause.SHUFFLE: hour},
        executors=ExecutorsAccount(shapes=((2, 2_048, 2 * hour),)),
    )
    in_cores = compare(one, two)
    assert in_cores.cost == pytest.approx((1, 4))
    assert in_cores.cost_share == pytest.approx(3)
    assert [(row.cause, row.ms, round(row.amount, 6)) for row in in_cores.bill] == [
        (SpendCause.SHUFFLE, hour, 1.5),
        (BillPart.OTHER_SIZE, 0, 1.5),
    ]
    in_money = compare(one, two, prices=Prices(core_hour=0.04, gb_hour=0.005))
    assert in_money.cost == pytest.approx((0.045, 4 * 0.045))


def test_nodes_and_the_driver_are_parts_of_the_bill() -> None:
    """Two executors side by side and then one after the other, on nodes with room for both; the driver is there twice as
    long."""
    hour = 3_600_000
    lives = ((0, 0, hour), (0, 0, hour))
    yarn = {"spark.master": "yarn", "spark.submit.deployMode": "cluster"}
    one = replace(
        BASE, runtime_ms=hour, conf=yarn, bill={SpendCause.RUNNING: 2 * hour},
        executors=ExecutorsAccount(shapes=((1, 1_024, 2 * hour),), spans=lives),
    )  # fmt: skip
    later = ((0, 0, hour), (0, hour, 2 * hour))
    two = replace(one, runtime_ms=2 * hour, executors=ExecutorsAccount(shapes=((1, 1_024, 2 * hour),), spans=later))
    rules = BillRules(driver=True, node=NodeShape(2, 2_048))
    found = compare(one, two, prices=Prices(core_hour=1.0, rules=rules))
    assert found.cost == pytest.approx((3.0, 6.0))
    assert [(row.cause, round(row.amount, 6)) for row in found.bill] == [(BillPart.UNUSED, 2.0), (BillPart.DRIVER, 1.0)]


def test_settings_that_differ_are_told_and_those_of_every_run_are_not() -> None:
    one = replace(
        BASE,
        spark_version="3.5.1",
        conf={"spark.app.id": "a", "spark.master": "k8s://https://one", "spark.executor.cores": "4", "spark.x": "1"},
    )
    two = replace(
        BASE,
        conf={"spark.app.id": "b", "spark.master": "k8s://https://two", "spark.executor.cores": "2", "spark.y": "1"},
    )
    assert conf_changes(one, two) == (
        ConfChange("Spark version", "3.5.1", "4.3.0"),
        ConfChange("spark.executor.cores", "4", "2"),
        ConfChange("spark.x", "1", None),
        ConfChange("spark.y", None, "1"),
    )
    moved = replace(two, conf={**two.conf, "spark.master": "yarn"})
    assert ConfChange("spark.master", "k8s", "yarn") in conf_changes(one, moved)
    many = replace(BASE, conf={f"spark.key{place}": "1" for place in range(9_999)})
    assert len(conf_changes(BASE, many)) == SETTINGS_MAX


def test_a_setting_is_a_reason_for_what_it_acts_on_and_for_what_is_worth_one() -> None:
    fewer = replace(
        shifted(replace(PLAIN, last_launch_ms=61_000, last_end_ms=81_000, completed_ms=81_000, slot_ms=160_000)),
        conf={"spark.dynamicAllocation.maxExecutors": "2", "spark.locality.wait": "9s"},
    )
    found = compare(BASE, fewer)
    assert found.causes[0].cause is ChangeCause.EXECUTORS
    assert [one.key for one in found.causes[0].because] == ["spark.dynamicAllocation.maxExecutors"]
    assert all(not one.because for one in found.causes[1:])


@pytest.mark.parametrize(
    ("key", "named", "other"),
    [
        ("spark.dynamicAllocation.maxExecutors", ChangeCause.EXECUTORS, ChangeCause.GC),
        ("spark.sql.shuffle.partitions", ChangeCause.PARTITIONS, ChangeCause.DELAY),
        ("spark.sql.adaptive.enabled", ChangeCause.DELAY, ChangeCause.LOST),
        ("spark.executor.memoryOverhead", ChangeCause.GC, ChangeCause.EXECUTORS),
        ("spark.kubernetes.allocation.batch.size", ChangeCause.EXECUTORS, ChangeCause.LOST),
        ("spark.kubernetes.namespace", ChangeCause.LOST, ChangeCause.GC),
    ],
)
def test_the_longest_beginning_of_a_key_says_what_it_acts_on(key: str, named: ChangeCause, other: ChangeCause) -> None:
    assert named in acts_on(key)
    assert other not in acts_on(key)


def test_a_key_of_nobody_acts_on_nothing() -> None:
    assert acts_on("my.own.key") == ()


def test_what_waited_is_told_limit_by_limit() -> None:
    one = replace(BASE, waiting_ms={Limit.MAXIMUM: 500, Limit.RAMP: 40})
    two = replace(BASE, waiting_ms={Limit.MAXIMUM: 900, Limit.START_UP: 70})
    assert compare(one, two).waiting == {Limit.MAXIMUM: 400, Limit.RAMP: -40, Limit.START_UP: 70}
