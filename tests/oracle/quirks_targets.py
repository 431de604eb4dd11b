"""Oddities of targets and needs: see quirks.py."""

from __future__ import annotations

from tests.oracle import events
from tests.oracle.quirk_lines import (
    at,
    completed,
    end,
    every,
    executors,
    header,
    scenario,
    stage,
    start,
    state,
    task,
    ticks,
)


def define_targets() -> None:
    """How targets move."""
    # 1, 3, 7, then cut to the maximum of 10: the increment, cut, goes back to 1.
    scenario("ramp-to-maximum", header({"maxExecutors": "10"}), stage(0, 0, 50), *every(100, 6_000))
    # 1 then 3: the second increment is cut by the need, and to exactly itself; it still doubles, to 4.
    scenario(
        "cut-to-itself-doubles", header(), stage(0, 0, 3), *every(100, 2_000), stage(2_050, 1, 9), *every(2_100, 5_000)
    )
    # The timer expired long ago and stays expired: the tasks of a second stage are served on the next tick.
    scenario(
        "expired-timer-serves-at-once",
        header(),
        stage(0, 0, 1),
        *every(100, 3_000),
        stage(3_010, 1, 5),
        *every(3_100, 5_000),
    )
    # Nothing compares the initial count with the maximum; the first need lowers it, and not below the need.
    scenario(
        "initial-above-maximum",
        header({"initialExecutors": "9", "maxExecutors": "4"}),
        *ticks(100),
        stage(150, 0, 6),
        *every(200, 2_000),
    )
    # The largest of three settings is the initial count.
    scenario(
        "initial-is-the-largest",
        header({"minExecutors": "2", "initialExecutors": "3", "spark.executor.instances": "4"}),
        *ticks(100),
    )
    # While initializing the target stays; an executor that idles out ends that, and the same tick lowers first.
    scenario(
        "idle-ends-initializing", header({"initialExecutors": "3"}), executors(0, "1", "2", "3"), *every(100, 5_500)
    )
    # Executors beyond the target count as the base of an increment, which then differs from it and goes back to 1.
    scenario(
        "increment-from-executors",
        header(),
        executors(0, "1", "2", "3", "4", "5"),
        stage(10, 0, 20),
        *every(100, 5_000),
    )
    # The minimum keeps the target: no request, but the increment is 1 again at every tick.
    scenario("minimum-without-request", header({"minExecutors": "3"}), stage(0, 0, 1), *every(100, 3_000))
    # One timer for all profiles: the second profile's stage finds it running and is served when it expires.
    scenario(
        "one-timer-for-all-profiles",
        header(),
        at(0, events.profile_added(1, {"cores": 2}, {"cpus": 1.0})),
        stage(10, 0, 5),
        stage(900, 1, 5, profile=1),
        *every(1_000, 4_000),
    )
    # And the last task to start anywhere clears it, with the increments of every profile.
    scenario(
        "queue-empty-is-global",
        header(),
        at(0, events.profile_added(1, {"cores": 1}, {"cpus": 1.0})),
        executors(0, "1"),
        executors(0, "2", profile=1),
        stage(10, 0, 1),
        stage(10, 1, 9, profile=1),
        *every(1_000, 2_500),
        start(2_510, task(0, "0.0", 0, "1")),
        state(2_520),
        [start(2_530 + i, task(1 + i, "1.0", i, "2")) for i in range(9)],
        state(2_560),
        *every(2_600, 4_000),
    )
    # A profile starts with the initial count and asks for it from within the listener; if that throws, it is lost.
    scenario(
        "new-profile-request-lost",
        header({"initialExecutors": "2"}),
        at(0, events.profile_added(1, {"cores": 1}, {"cpus": 1.0})),
        {"at": 5, "client": {"throwOnRequest": True}},
        stage(10, 0, 4, profile=1),
        {"at": 20, "client": {"throwOnRequest": False}},
        *every(100, 3_000),
    )
    # No answer: the targets are restored, the timer stays expired, the increment is kept; tried again on each tick.
    scenario(
        "unanswered-request",
        header(),
        stage(0, 0, 20),
        *every(1_000, 2_900),
        {"at": 2_950, "client": {"ackRequests": False}},
        *every(3_000, 3_300),
        {"at": 3_350, "client": {"ackRequests": True}},
        *every(3_400, 5_500),
    )
    # No answer to a lowering either: the target is restored, the increment is 1 all the same.
    scenario(
        "unanswered-lowering",
        header({"initialExecutors": "6"}),
        {"at": 5, "client": {"ackRequests": False}},
        stage(10, 0, 2),
        *ticks(100, 200),
        {"at": 250, "client": {"throwOnRequest": True, "ackRequests": True}},
        *ticks(300),
        {"at": 350, "client": {"throwOnRequest": False}},
        *ticks(400),
    )
    # reset(): the timer is 0, not unset, so the next tick adds at once; the monitor forgets everybody.
    scenario(
        "reset",
        header({"initialExecutors": "1"}),
        executors(0, "1", "2"),
        stage(10, 0, 9),
        *every(100, 2_500),
        {"at": 2_550, "reset": True},
        state(2_560),
        *every(2_600, 4_500),
    )
    # After a reset an executor that goes on working is heard of anew: its running task's end is nothing, the next
    # start tracks it, of unknown profile.
    scenario(
        "reset-while-running",
        header(),
        executors(0, "1", "2", "3"),
        stage(10, 0, 9),
        [start(20 + i, task(i, "0.0", i, name)) for i, name in enumerate("123")],
        {"at": 100, "reset": True},
        state(101),
        end(110, task(0, "0.0", 0, "1")),
        state(111),
        start(120, task(3, "0.0", 3, "1")),
        state(121),
        start(130, task(4, "0.0", 4, "2")),
        state(131),
        end(140, task(1, "0.0", 1, "2")),
        end(150, task(4, "0.0", 4, "2")),
        *every(200, 6_000, 400),
        executors(6_050, "1", "2", "3"),
        *every(6_100, 12_000, 400),
    )
    # Seconds of 9 * 10^9 overflow a long of nanoseconds when added to a clock of today: expired at once.
    scenario(
        "backlog-timeout-overflows",
        header({"schedulerBacklogTimeout": "9000000000s"}, startAt=1_700_000_000_000),
        stage(1_700_000_000_010, 0, 9),
        *every(1_700_000_000_100, 1_700_000_002_000),
    )
    # Timeouts are whole seconds: 1500 ms are one.
    scenario(
        "timeouts-are-whole-seconds",
        header({"schedulerBacklogTimeout": "1500ms", "executorIdleTimeout": "1999ms"}),
        executors(0, "1"),
        stage(0, 0, 2),
        *every(800, 2_500),
    )


def define_needs() -> None:
    """How many executors tasks need."""
    # 100 * 0.07 is 7.000000000000001 in doubles: eight executors.
    scenario("ratio-in-doubles", header({"executorAllocationRatio": "0.07"}), stage(0, 0, 100), *every(1_000, 6_000))
    scenario(
        "ratio-of-a-third",
        header({"executorAllocationRatio": "0.3333333333333333", "spark.executor.cores": "3"}),
        stage(0, 0, 90),
        *every(1_000, 6_000),
    )
    # Cpus are decimals: ten tasks of 0.1 fit a core exactly, three of 0.333333333.
    scenario("tenth-of-a-cpu", header({"spark.task.cpus": "0.1"}), stage(0, 0, 11), *every(1_000, 3_000))
    scenario("third-of-a-cpu", header({"spark.task.cpus": "0.333333333"}), stage(0, 0, 10), *every(1_000, 4_000))
    for name, amount, share in (
        ("third", "2", "0.3333"),
        ("half", "1", "0.5"),
        ("two", "5", "2"),
        ("tenth", "3", "0.1"),
    ):
        # Eight cores, but the GPUs allow fewer tasks (or not).
        conf = {
            "spark.executor.cores": "8",
            "spark.executor.resource.gpu.amount": amount,
            "spark.task.resource.gpu.amount": share,
        }
        scenario(f"gpu-{name}", header(conf), stage(0, 0, 40), *every(1_000, 5_000))
    # Standalone, cores not set: only the resource limits; without one, a task an executor.
    alone = {
        "spark.master": "spark://m:7077",
        "spark.executor.resource.gpu.amount": "4",
        "spark.task.resource.gpu.amount": "1",
    }
    standalone = header(alone)
    del standalone["conf"]["spark.executor.cores"]
    scenario("standalone-resource-alone", standalone, stage(0, 0, 10), *every(1_000, 4_000))
    # A profile without cores or cpus takes the application's.
    scenario(
        "profile-without-cores-or-cpus",
        header({"spark.executor.cores": "4", "spark.task.cpus": "2"}),
        at(0, events.profile_added(1, {"gpu": 2}, {"cpus": 1.0, "gpu": 1.0})),
        at(0, events.profile_added(2, {"cores": 2}, {})),
        stage(10, 0, 8, profile=1),
        stage(20, 1, 8, profile=2),
        *every(1_000, 5_000),
    )
    # A profile that no task fits is refused, and then unknown: schedule() throws for every profile.
    scenario(
        "profile-refused",
        header(),
        at(0, events.profile_added(1, {"cores": 1}, {"cpus": 2.0})),
        at(1, events.profile_added(2, {"cores": 4, "gpu": 1}, {"cpus": 1.0, "gpu": 2.0})),
        at(2, events.profile_added(3, {"cores": 4}, {"cpus": 1.0, "gpu": 0.5})),
        stage(5, 0, 5),
        *ticks(100),
        stage(110, 1, 5, profile=1),
        *every(1_000, 1_300),
    )
    # Unknown until it is registered: then life goes on.
    scenario(
        "profile-registered-late",
        header(),
        stage(0, 0, 5),
        stage(10, 1, 5, profile=7),
        *every(1_000, 1_300),
        at(1_350, events.profile_added(7, {"cores": 1}, {"cpus": 1.0})),
        *every(1_400, 3_000),
    )
    # A copy of a single task asks for a second executor while it waits, and no longer once it runs.
    scenario(
        "second-executor-for-a-copy",
        header({"spark.executor.cores": "4"}),
        stage(0, 0, 1),
        *every(1_000, 1_200),
        executors(1_300, "1"),
        start(1_310, task(0, "0.0", 0, "1")),
        at(1_400, events.speculative_submitted(0, 0, 0)),
        at(1_410, events.speculative_submitted(0, 0, 0)),
        *every(1_500, 3_000),
        start(3_050, task(1, "0.0", 0, "1", copy=True)),
        *every(3_100, 3_500),
        end(3_550, task(1, "0.0", 0, "1", copy=True)),
        end(3_560, task(0, "0.0", 0, "1"), "TaskKilled"),
        *ticks(3_600),
    )
    # Without its index, as event logs write it, a copy reads back as index 0.
    scenario(
        "copy-without-index",
        header(),
        stage(0, 0, 3),
        at(10, events.speculative_submitted(0, 0, None)),
        at(20, events.speculative_submitted(0, 0, 0)),
        *ticks(100),
    )
    # An unschedulable task set asks for executors on top of those that exist.
    scenario(
        "exclusion",
        header({"spark.executor.cores": "2"}),
        executors(0, "1", "2", "3"),
        stage(10, 0, 2),
        [start(20 + i, task(i, "0.0", i, "1")) for i in range(2)],
        at(50, events.unschedulable(0, 0, True)),
        *every(100, 2_500, 200),
        at(2_550, events.unschedulable(0, 0, False)),
        *ticks(2_600),
        at(2_650, events.unschedulable(99, 0, True)),
        *ticks(2_700),
    )
    # Preferred hosts are counted per task and profile, twice where a task names a host twice.
    scenario(
        "locality",
        header(),
        at(0, events.profile_added(1, {"cores": 1}, {"cpus": 1.0})),
        stage(10, 0, 4, locality=(("a", "b"), ("a",), (), ("c", "c"))),
        stage(20, 1, 2, profile=1, locality=(("a",), ("z", "b"))),
        *every(1_000, 2_500),
        completed(2_550, 0),
        *every(2_600, 3_500),
    )
