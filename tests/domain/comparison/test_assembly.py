"""The account of a run: its stages, executors and bill, made of what its log said; and its sums over time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, Millis
from podtide.domain.comparison import assembly
from podtide.domain.comparison.account import (
    HOSTS_MAX,
    NO_TASK,
    HostWork,
    LongestTask,
    PieceKind,
    RunAccount,
    TaskTime,
    WorkUnit,
)
from podtide.domain.comparison.assembly import RunTerms, account_of
from podtide.domain.comparison.over_time import Steps, lost, present
from podtide.domain.comparison.recorded_bill import Keeping, skewed
from podtide.domain.comparison.task_accounts import (
    CLAIM_MAX,
    HOSTS_HEARD,
    OTHER_HOSTS,
    TaskAccounts,
    TaskMetrics,
    TaskOf,
)
from podtide.domain.recorded.application import Application, Leave, RecordedExecutor
from podtide.domain.recorded.unknowns import HOLES
from podtide.domain.rerun.ledger.causes import Limit, SpendCause
from podtide.domain.rerun.plan import ExecutorShape
from tests.support.rerun_play import app, job, stage

S = 1_000
START = 1_000 * S
"""When the application began."""


def executor(name: str, added: Millis, removed: Millis | None = None, **more: Any) -> RecordedExecutor:
    """Of two cores; times count from the start."""
    asked = more.pop("requested", None)
    leave = more.pop("leave", Leave.STAYED if removed is None else Leave.RELEASED)
    return RecordedExecutor(
        ExecutorId(name),
        more.pop("host", f"h{name}"),
        DEFAULT_PROFILE,
        2,
        START + added,
        None if removed is None else START + removed,
        leave,
        requested_ms=None if asked is None else START + asked,
        **more,
    )


def heard(
    *rows: tuple[int, str, Millis, Millis], wasted: frozenset[int] = frozenset(), maps: bool = False
) -> TaskAccounts:
    """Tasks as (stage, executor, launch, finish); ``wasted``: places of those that do not count."""
    accounts = TaskAccounts()
    moments = [(begin, 1, place) for place, (_, _, begin, _) in enumerate(rows)]
    moments += [(end, 0, place) for place, (_, _, _, end) in enumerate(rows)]
    for at, begins, place in sorted(moments):
        number, name, begin, end = rows[place]
        if begins:
            accounts.started(number, name, START + at)
        else:
            task = TaskOf(number, name, f"h{name}", START + begin, START + end, "PROCESS_LOCAL")
            metrics = TaskMetrics(run=end - begin, cpu=(end - begin) * 500_000, records_read=100)
            accounts.ended(task, metrics, counts=place not in wasted, maps=maps)
    return accounts


TERMS = RunTerms({DEFAULT_PROFILE: ExecutorShape(2, 2, 4_096)}, 4, Keeping(60 * S, tracked=True), {"spark.x": "1"})


def plain(*executors: RecordedExecutor, end: Millis = 100 * S, **changes: Any) -> Application:
    """Stages 0 and 1 of two jobs, from second 10 to 30 and from 40 to 60."""
    stages = [
        stage(number, [10 * S] * 4, job=number, submitted_ms=START + begin, completed_ms=START + begin + 20 * S)
        for number, begin in enumerate((10 * S, 40 * S))
    ]
    jobs = [job(0, stages[:1], name="load"), job(1, stages[1:], after=(0,), name="save")]
    made = app(*stages, jobs=jobs, started_ms=START, ended_ms=START + end)
    return replace(made, executors=executors, **changes)


TASKS = (
    (0, "1", 12 * S, 20 * S), (0, "1", 12 * S, 30 * S), (1, "1", 42 * S, 50 * S), (1, "2", 42 * S, 60 * S)
)  # fmt: skip


def account(
    application: Application | None = None,
    tasks: TaskAccounts | None = None,
    targets: tuple[tuple[Millis, int], ...] = (),
    terms: RunTerms = TERMS,
) -> RunAccount:
    known = application or plain(executor("1", 5 * S, requested=2 * S), executor("2", 35 * S, 90 * S, requested=30 * S))
    return account_of(known, tasks or heard(*TASKS), targets, terms, {0: "Scan"})


def test_the_chain_fills_the_run_and_the_bill_every_executor() -> None:
    found = account()
    assert [(one.kind, one.length_ms) for one in found.chain] == [
        (PieceKind.STARTING, 10 * S),
        (PieceKind.STAGE, 20 * S),
        (PieceKind.DRIVER, 10 * S),
        (PieceKind.STAGE, 20 * S),
        (PieceKind.ENDING, 40 * S),
    ]
    assert found.billed_ms == (100 - 2) * S + (90 - 30) * S, "from request to end"
    assert found.bill[SpendCause.STARTING] == 3 * S + 5 * S
    assert found.bill[SpendCause.RUNNING] == 18 * S + 8 * S + 18 * S
    assert (found.name, found.runtime_ms, found.tasks, found.conf) == ("test", 100 * S, 8, {"spark.x": "1"})


def test_a_stage_is_counted_from_the_start_with_its_tasks() -> None:
    one, two = account().stages
    assert (one.job, one.plan, one.label, two.plan, two.label) == ("load", "Scan", "stage 0", "", "stage 1")
    assert (one.submitted_ms, one.first_launch_ms, one.last_launch_ms, one.last_end_ms, one.completed_ms) == (
        10 * S, 12 * S, 12 * S, 30 * S, 30 * S
    )  # fmt: skip
    assert one.time_ms[TaskTime.CPU] == one.time_ms[TaskTime.BLOCKED] == one.useful_ms / 2
    assert one.amounts == {WorkUnit.RECORDS_READ: 200, WorkUnit.TASKS: 2}
    assert one.longest == LongestTask(18 * S, 100, "h1", 8 * S, 100)
    assert one.slot_ms == 2 * 18 * S, "two slots of one executor"
    assert two.slot_ms == 4 * 18 * S
    assert (one.others_ms, two.others_ms) == (0, 0)


def test_an_unheard_stage_has_no_work() -> None:
    one, two = account(tasks=TaskAccounts()).stages
    assert (one.useful_ms, one.longest, one.hosts, one.slot_ms) == (0, NO_TASK, (), 0)
    assert two.first_launch_ms == two.last_end_ms == two.submitted_ms


def test_executors_that_were_missing_and_what_kept_them_away() -> None:
    """Four tasks wait from second 10 to 40 and could use two executors of two slots."""

    def waiting(targets: tuple[tuple[Millis, int], ...], terms: RunTerms = TERMS) -> dict[Limit, Millis]:
        late = heard((0, "1", 12 * S, 20 * S), (0, "1", 30 * S, 30 * S))
        known = plain(executor("1", 11 * S, requested=2 * S))
        return dict(account(known, late, targets, terms).stages[0].missing_ms)

    begun = ((START, 0), (START + 2 * S, 1))
    ramp = waiting(begun)
    assert ramp[Limit.RAMP] == pytest.approx(20 * S, abs=100), "the second was not asked for"
    assert ramp[Limit.START_UP] == pytest.approx(S, abs=500), "the first came after a second"
    maximum = waiting(begun, TERMS._replace(most=1))
    assert maximum == {Limit.MAXIMUM: ramp[Limit.RAMP], Limit.START_UP: ramp[Limit.START_UP]}
    both = waiting(((START, 2),))
    assert set(both) == {Limit.START_UP}
    static = waiting((), TERMS._replace(most=None))
    assert set(static) == {Limit.MAXIMUM, Limit.START_UP}, "without dynamic allocation there are never more"


def test_the_waiting_of_stages_side_by_side_counts_once() -> None:
    late = heard((0, "1", 30 * S, 30 * S), (1, "1", 60 * S, 60 * S))
    apart = account(plain(executor("1", 29 * S)), late, ((START, 2),))
    assert sum(apart.waiting_ms.values()) == pytest.approx(20 * S + 20 * S, abs=2 * S)
    known = plain(executor("1", 29 * S))
    again = [replace(one, submitted_ms=START + 10 * S) for one in known.stages]
    over = account(
        replace(known, stages=tuple(again)), heard(*((n, "1", 30 * S, 30 * S) for n in (0, 1))), ((START, 2),)
    )
    assert sum(over.waiting_ms.values()) == pytest.approx(20 * S, abs=2 * S)


def test_the_executors_as_a_whole() -> None:
    taken = [
        executor(str(number), 20 * S + number, 30 * S, leave=Leave.LOST, reason="preempted\nby somebody", host="h1")
        for number in range(3, 5)
    ]
    known = plain(executor("1", 5 * S, requested=2 * S), executor("2", 6 * S, 95 * S), *taken)
    found = account(known).executors
    assert (found.registered, found.peak, found.hosts) == (4, 4, 2)
    assert (found.start_up_ms, found.first_ms) == (3 * S, 5 * S)
    assert found.lost == {"preempted": 2}
    assert sum(ms for _, _, ms in found.shapes) == found.executor_ms + 3 * S, "billed from the request"
    assert [shape[:2] for shape in found.shapes] == [(2, 4_096)]
    nobody = account(plain()).executors
    assert (nobody.registered, nobody.start_up_ms, nobody.first_ms, nobody.shapes) == (0, None, None, ())
    silent = account(plain(executor("1", 5 * S, 9 * S, leave=Leave.LOST))).executors
    assert silent.lost == {"no reason logged": 1}


def test_slots_of_lost_executors_are_missing_until_others_came_for_them() -> None:
    lost_one = executor("1", 5 * S, 15 * S, leave=Leave.LOST, requested=2 * S)
    alone = account(plain(lost_one), heard((0, "1", 12 * S, 15 * S), wasted=frozenset({0})))
    assert alone.stages[0].wasted_ms == 3 * S
    assert alone.stages[0].lost_tasks == 1
    assert alone.bill[SpendCause.LOST_WORK] == 3 * S
    rest = heard((0, "1", 12 * S, 15 * S), (0, "2", 26 * S, 30 * S), wasted=frozenset({0}))
    made_up = account(plain(lost_one, executor("2", 25 * S, requested=16 * S)), rest)
    assert made_up.stages[0].lost_slot_ms == 2 * 10 * S
    before = account(plain(lost_one, executor("2", 25 * S, requested=3 * S)), rest)
    assert before.stages[0].lost_slot_ms == 2 * 15 * S, "one that was asked for before made up for nobody"


def test_what_the_log_does_not_tell_is_said() -> None:
    notes = account().notes
    assert any("no metrics" in note for note in notes)
    measured = plain(executor("1", 0))
    measured = replace(measured, stages=tuple(replace(one, run_ms=1) for one in measured.stages))
    assert not any("no metrics" in note for note in account(measured).notes)
    holes = replace(measured, counts={HOLES: 1_234})
    assert any("1,234 tasks" in note for note in account(holes).notes)


def test_of_very_many_stages_those_of_the_chain_and_the_longest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "STAGES_MAX", 3)
    known = plain(executor("1", 0))
    short = [
        stage(9 + place, [1], submitted_ms=START + 11 * S, completed_ms=START + (12 + place) * S) for place in range(3)
    ]
    found = account(replace(known, stages=(*known.stages[:1], *short, *known.stages[1:])))
    assert [one.stage for one in found.stages] == [0, 11, 1], "in the order of submission"
    assert found.left_out == 2


# ---------------------------------------------------------------------------------------------------------- the bill


def bill(one: RecordedExecutor, *, tasks: TaskAccounts, keeping: Keeping = TERMS.keeping) -> dict[SpendCause, Millis]:
    """What was spent on one executor, without what is nothing."""
    spent = account(plain(one), tasks, terms=TERMS._replace(keeping=keeping)).bill
    return {cause: ms for cause, ms in spent.items() if ms}


def test_idle_time_within_the_timeout_and_beyond_it() -> None:
    """One task runs from second 12 to 20, of a hundred."""
    done, wrote = (heard((0, "1", 12 * S, 20 * S), maps=maps) for maps in (False, True))
    one = executor("1", 0)
    assert bill(one, tasks=done)[SpendCause.MINIMUM] == 20 * S, "from a minute after the task on"
    short = Keeping(10 * S, tracked=True)
    assert bill(one, tasks=done, keeping=short)[SpendCause.MINIMUM] == 2 * S + 70 * S
    held = bill(one, tasks=wrote, keeping=short)
    assert (held[SpendCause.MINIMUM], held[SpendCause.SHUFFLE]) == (2 * S, 70 * S)
    assert SpendCause.SHUFFLE not in bill(one, tasks=wrote, keeping=Keeping(10 * S, tracked=False))
    assert SpendCause.MINIMUM not in bill(one, tasks=wrote, keeping=Keeping(NEVER, tracked=False))


def test_an_executor_that_never_worked_was_over_requested() -> None:
    assert bill(executor("1", 5 * S, requested=S), tasks=TaskAccounts())[SpendCause.OVER_REQUESTED] == 99 * S


@given(
    st.lists(
        st.tuples(st.integers(0, 110), st.integers(0, 60), st.integers(0, 40), st.booleans()), min_size=1, max_size=4
    ),
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 100), st.integers(0, 40)), max_size=6),
)
def test_every_executor_second_has_one_cause(
    lives: list[tuple[int, int, int, bool]], rows: list[tuple[int, int, int, int]]
) -> None:
    """Whatever a log claims: tasks of executors that are not there, before they came and after they went."""
    executors = [
        executor(
            str(place), added * S, None if stays else (added + length) * S, requested=max(0, added - asked) * S,
            leave=Leave.STAYED if stays else Leave.LOST,
        )
        for place, (added, length, asked, stays) in enumerate(lives)
    ]  # fmt: skip
    tasks = heard(*((number, str(who), at * S, (at + length) * S) for number, who, at, length in rows))
    found = account(plain(*executors), tasks)
    known = [one for one in executors if one.added_ms <= START + 100 * S]
    ends = [min(START + 100 * S, NEVER if one.removed_ms is None else one.removed_ms) for one in known]
    begins = [one.added_ms if one.requested_ms is None else one.requested_ms for one in known]
    assert found.billed_ms == sum(end - begin for begin, end in zip(begins, ends, strict=True))
    assert all(ms >= 0 for ms in found.bill.values())


@pytest.mark.parametrize(
    ("longest", "tasks", "together", "answer"),
    [(20, 3, 40, True), (19, 3, 40, False), (20, 1, 20, False), (5, 2, 5, True)],
)
def test_skew_is_one_task_of_twice_the_others(longest: int, tasks: int, together: int, answer: bool) -> None:
    assert skewed(longest, tasks, together) is answer


# ------------------------------------------------------------------------------------------------------ over time

moves = st.lists(st.tuples(st.integers(0, 50), st.integers(-3, 3)), max_size=12)


@given(moves, st.integers(-5, 60), st.integers(-5, 60))
def test_a_sum_over_time_is_that_of_its_milliseconds(changes: list[tuple[int, int]], one: int, two: int) -> None:
    steps = Steps(changes)
    values = {at: sum(change for when, change in changes if when <= at) for at in range(-5, 61)}
    assert {at: steps.value(at) for at in values} == values
    begin, end = sorted((one, two))
    assert steps.between(begin, end) == sum(values[at] for at in range(begin, end))
    assert steps.between(end, begin) == 0


def test_executors_count_while_they_are_there() -> None:
    there = present([executor("1", 5), executor("2", 7, 9), executor("3", 8, 10**9)], 2, START + 20)
    assert [there.value(START + at) for at in (4, 5, 7, 8, 9, 20)] == [0, 2, 4, 6, 4, 0]


def test_a_lost_executor_is_made_up_for_once() -> None:
    gone = [executor(str(number), 0, at, leave=Leave.LOST) for number, at in ((1, 10), (2, 12))]
    both = lost([*gone, executor("3", 20, requested=11)], 1, START + 50)
    assert [both.value(START + at) for at in (9, 10, 12, 20, 49, 50)] == [0, 1, 2, 1, 1, 0]
    assert lost([executor("4", 0, 9)], 1, START + 50).value(START + 20) == 0, "it was let go"


# ---------------------------------------------------------------------------------------------------------- tasks

claims = st.sampled_from([0, 7, -5, -(2**63), 2**63 - 1, 2**64])
metrics = st.builds(
    TaskMetrics,
    run=st.integers(-1, 2_000),
    cpu=st.integers(-5, 10**10),
    gc=st.integers(-5, 2_000),
    deserialize=st.integers(0, 2_000),
    serialize=st.integers(0, 2_000),
    fetch=st.integers(0, 2_000),
    write=st.integers(0, 10**10),
    records_read=claims,
    records_written=claims,
    bytes_read=claims,
    bytes_written=claims,
    spilled=claims,
)


@given(st.lists(st.tuples(st.integers(0, 1_500), metrics), min_size=1, max_size=5))
def test_whatever_tasks_claim_their_parts_sum_to_their_time(rows: list[tuple[int, TaskMetrics]]) -> None:
    accounts = TaskAccounts()
    for length, claimed in rows:
        accounts.ended(TaskOf(0, "1", "h", 50, 50 + length, "ANY"), claimed, counts=True, maps=False)
    tasks = accounts.stages[0]
    assert sum(tasks.time) == sum(length for length, _ in rows)
    assert all(ms >= 0 for ms in tasks.time)
    (work,) = tasks.host_works()
    assert work[:3] == ("h", len(rows), sum(tasks.time))
    assert 0 <= work.units == tasks.amounts[list(WorkUnit).index(tasks.measure)] <= len(rows) * CLAIM_MAX
    assert min(tasks.spilled, tasks.written, *tasks.amounts) >= 0
    assert tasks.longest_task().units <= CLAIM_MAX
    assert tasks.remote_work() == tasks.host_works()[0]._replace(host="")
    assert accounts.worked == {"1": [sum(tasks.time), 0]}


@pytest.mark.parametrize(
    ("claimed", "measure"),
    [
        (TaskMetrics(records_read=1, records_written=5, bytes_read=9), WorkUnit.RECORDS_READ),
        (TaskMetrics(records_written=5, bytes_read=9), WorkUnit.RECORDS_WRITTEN),
        (TaskMetrics(bytes_read=9), WorkUnit.BYTES_READ),
        (TaskMetrics(), WorkUnit.TASKS),
    ],
)
def test_work_is_counted_in_the_first_that_tasks_say_something_of(claimed: TaskMetrics, measure: WorkUnit) -> None:
    accounts = TaskAccounts()
    accounts.ended(TaskOf(0, "1", "h", 0, 9, "NODE_LOCAL"), claimed, counts=True, maps=False)
    tasks = accounts.stages[0]
    assert tasks.measure is measure
    assert tasks.longest_task().units == tasks.host_works()[0].units
    assert tasks.remote_work().tasks == 0


def test_hosts_are_bounded() -> None:
    accounts = TaskAccounts()
    for place in range(HOSTS_HEARD + 9):
        task = TaskOf(0, "1", f"h{place}", 0, 5, "ANY")
        accounts.ended(task, TaskMetrics(), counts=True, maps=False)
    works = accounts.stages[0].host_works()
    assert works[0] == HostWork(OTHER_HOSTS, 9, 45, 9)
    assert len(works) == HOSTS_MAX


def test_an_executor_is_busy_from_its_first_task_to_its_last() -> None:
    accounts = heard((0, "1", 1, 5), (0, "1", 3, 9), (0, "1", 12, 15), (0, "2", 2, 4), maps=True)
    turns = accounts.turns
    assert list(zip([at - START for at in turns.at], turns.who, strict=True)) == [
        (1, 0), (2, 1), (4, ~1), (9, ~0), (12, 0), (15, ~0)
    ]  # fmt: skip
    assert {name: at - START for name, at in accounts.wrote.items()} == {"1": 5, "2": 4}
    turns.ended("9", START + 99)
    turns.ended("1", START + 99)
    assert len(turns.at) == 6, "an end without a beginning is none"
