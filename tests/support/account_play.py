"""Accounts of runs to compare: one plain run to change a thing of, and any run that a log might claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from podtide.domain.comparison.account import (
    ExecutorsAccount,
    HostWork,
    LongestTask,
    RunAccount,
    RunStall,
    StageAccount,
    TaskTime,
    WorkUnit,
)
from podtide.domain.comparison.chain import ChainStage, chain_of
from podtide.domain.rerun.ledger.causes import Limit, SpendCause
from podtide.domain.stalls.causes import StallCause

times = st.integers(0, 1_000_000)
PLAIN = StageAccount(
    stage=0,
    job="job",
    name="collect at job.py:1",
    plan="Exchange",
    tasks=16,
    slots_each=1,
    submitted_ms=0,
    first_launch_ms=1_000,
    last_launch_ms=31_000,
    last_end_ms=41_000,
    completed_ms=41_000,
    time_ms={TaskTime.BLOCKED: 140_000, TaskTime.CPU: 10_000},
    amounts={WorkUnit.RECORDS_READ: 1_600, WorkUnit.TASKS: 16},
    longest=LongestTask(10_000, 100, "a", 9_375, 100),
    hosts=(HostWork("a", 8, 75_000, 800), HostWork("b", 8, 75_000, 800)),
    slot_ms=160_000,
)
"""A stage of 41 seconds: 16 tasks of 9 seconds each in four slots."""


def later(one: StageAccount, by_ms: int, **changes: object) -> StageAccount:
    """The stage, begun so much later."""
    names = ("submitted_ms", "first_launch_ms", "last_launch_ms", "last_end_ms", "completed_ms")
    moved = {name: getattr(one, name) + by_ms for name in names}
    return replace(one, **moved, **changes)  # type: ignore[arg-type]  # fields of it


def run_of(
    stages: Sequence[StageAccount],
    *,
    parents: Sequence[tuple[int, ...]] = (),
    end_ms: int | None = None,
    **more: object,
) -> RunAccount:
    """A run of these stages, each a job of its own after the one before it, unless ``parents`` say more."""
    links = [
        ChainStage(one.stage, place, one.submitted_ms, one.completed_ms, parents[place] if parents else ())
        for place, one in enumerate(stages)
    ]
    after = {place: (place - 1,) for place in range(1, len(stages))}
    runtime = max((one.completed_ms for one in stages), default=0) + 1_000 if end_ms is None else end_ms
    given: dict[str, object] = {
        "id": "app-1",
        "name": "nightly",
        "spark_version": "4.3.0",
        "started_ms": 0,
        "runtime_ms": runtime,
        "chain": chain_of(links, after, runtime),
        "stages": tuple(stages),
        "executors": ExecutorsAccount(4, 4, 4 * runtime, shapes=((1, 2_048, 4 * runtime),), hosts=2),
        "bill": {SpendCause.RUNNING: 3 * runtime, SpendCause.STARTING: runtime},
        "waiting_ms": {},
        "conf": {},
        **more,
    }
    return RunAccount(**given)  # type: ignore[arg-type]  # fields of it


@st.composite
def stages(draw: st.DrawFn) -> StageAccount:
    """Any stage, also ones that contradict themselves: an account comes from a log."""
    submitted, first, launched, last, completed = sorted(draw(st.lists(times, min_size=5, max_size=5)))
    units = draw(st.integers(0, 10_000))
    tasks = draw(st.integers(1, 100))
    hosts = draw(st.lists(st.tuples(st.integers(1, 50), times, st.integers(0, 5_000)), max_size=4))
    return StageAccount(
        0,
        "job",
        "name",
        "plan",
        tasks,
        draw(st.integers(1, 8)),
        submitted,
        first,
        launched,
        last,
        completed,
        lost_tasks=draw(st.integers(0, 3)),
        time_ms={kind: draw(times) for kind in TaskTime},
        wasted_ms=draw(st.sampled_from([0, 5_000])),
        amounts={WorkUnit.RECORDS_READ: units, WorkUnit.TASKS: tasks} if units else {WorkUnit.TASKS: tasks},
        spilled_bytes=draw(st.sampled_from([0, 10**9])),
        longest=LongestTask(*draw(st.tuples(times, st.integers(0, 5_000))), "h0", *draw(st.tuples(times, times))),
        hosts=tuple(HostWork(f"h{place}", *one) for place, one in enumerate(hosts)),
        remote=HostWork("", *draw(st.tuples(st.integers(0, 50), times, st.integers(0, 5_000)))),
        slot_ms=draw(times),
        lost_slot_ms=draw(st.sampled_from([0, 20_000])),
        missing_ms={limit: draw(times) for limit in (Limit.START_UP, Limit.MAXIMUM)},
        others_ms=draw(times),
    )


@st.composite
def stalls(draw: st.DrawFn) -> RunStall:
    """Any stall."""
    began, ended = sorted(draw(st.lists(times, min_size=2, max_size=2)))
    cause = draw(st.sampled_from([StallCause.DRIVER, StallCause.QUOTA, StallCause.SHUFFLES]))
    return RunStall(cause, draw(st.integers(0, 1)), began, ended, draw(st.booleans()))


@st.composite
def runs(draw: st.DrawFn) -> RunAccount:
    """Any run of a few stages, some of which look the same."""
    known = draw(st.lists(st.tuples(stages(), st.sampled_from(["scan", "join", "write"])), max_size=4))
    number = draw(st.integers(0, 50))
    found = [replace(one, stage=number + place, plan=plan) for place, (one, plan) in enumerate(known)]
    parents = [draw(st.sampled_from([(), (number,), (number + 1, number + 2)])) for _ in found]
    last = max((one.completed_ms for one in found), default=0)
    shapes = draw(st.lists(st.tuples(st.integers(1, 8), st.integers(512, 8_192), times), max_size=2))
    return run_of(
        found,
        parents=parents,
        end_ms=draw(st.integers(max(1, last - 10_000), last + 100_000)),
        executors=ExecutorsAccount(
            draw(st.integers(0, 9)),
            draw(st.integers(0, 9)),
            0,
            draw(st.none() | times),
            draw(st.none() | times),
            draw(st.sampled_from([{}, {"preempted": 2}])),
            tuple(shapes),
        ),
        bill={cause: draw(times) for cause in (SpendCause.RUNNING, SpendCause.SHUFFLE)},
        driver_ready_ms=draw(st.none() | times),
        stalls=tuple(draw(st.lists(stalls(), max_size=3))),
        conf=draw(st.dictionaries(st.sampled_from(["spark.executor.cores", "spark.app.id"]), st.sampled_from("12"))),
    )
