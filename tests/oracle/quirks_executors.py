"""Oddities of tasks, removals, stored data and settings: see quirks.py."""

from __future__ import annotations

from tests.oracle import events
from tests.oracle.events import StageShape, TaskShape
from tests.oracle.quirk_lines import (
    OLDEST,
    SERVICE,
    at,
    block,
    completed,
    end,
    every,
    executors,
    gone,
    header,
    job,
    job_end,
    scenario,
    stage,
    start,
    state,
    task,
    ticks,
)


def define_tasks() -> None:
    """What the starts and ends of tasks do."""
    for reason in ("TaskKilled", "Resubmitted", "ExceptionFailure", "FetchFailed", "TaskCommitDenied"):
        # Success and a kill leave the index started; any other end makes it pending again, and starts the timer
        # if nothing else was pending.
        scenario(
            f"end-{reason.lower()}",
            header(),
            executors(0, "1"),
            stage(10, 0, 1),
            start(20, task(0, "0.0", 0, "1")),
            state(30),
            end(100, task(0, "0.0", 0, "1"), reason),
            state(110),
            *every(200, 1_500, 300),
        )
    # A task of a completed stage that starts while another of its tasks runs: pending is -1 for good.
    scenario(
        "zombie-makes-pending-negative",
        header(),
        executors(0, "1", "2"),
        stage(10, 0, 2),
        start(20, task(0, "0.0", 0, "1")),
        completed(30, 0),
        start(40, task(1, "0.0", 1, "2")),
        state(50),
        end(60, task(0, "0.0", 0, "1")),
        end(70, task(1, "0.0", 1, "2")),
        *ticks(100),
        stage(200, 1, 2),
        *every(1_200, 2_400),
    )
    # The same index twice is one index, but two running tasks.
    scenario(
        "same-index-twice",
        header(),
        executors(0, "1", "2"),
        stage(10, 0, 3),
        start(20, task(0, "0.0", 1, "1")),
        start(30, task(1, "0.0", 1, "2")),
        *ticks(100),
        end(150, task(0, "0.0", 1, "1"), "TaskResultLost"),
        *ticks(200),
    )
    # A stage without tasks; one submitted twice, with another count; one completed that never was.
    scenario(
        "stages-out-of-order",
        header(),
        stage(0, 0, 0),
        state(10),
        stage(20, 1, 3),
        stage(30, 1, 8),
        state(40),
        completed(50, 9),
        state(60),
        completed(70, 0),
        state(80),
        completed(90, 1),
        *ticks(100),
    )
    # A retried attempt is another stage to the listener; tasks of the old one count as running until they end.
    scenario(
        "stage-retried",
        header(),
        executors(0, "1", "2"),
        stage(10, 0, 2),
        start(20, task(0, "0.0", 0, "1")),
        start(20, task(1, "0.0", 1, "2")),
        end(50, task(0, "0.0", 0, "1"), "FetchFailed"),
        completed(60, 0),
        stage(70, 0, 2, attempt=1),
        *ticks(100),
        end(150, task(1, "0.0", 1, "2")),
        *ticks(200),
    )
    # A log of the oldest Spark: hardly a field that may be missing is there.
    oldest = TaskShape(0, 0, 0, 0, "1")
    shapes = [StageShape(0, 0, 2)]
    scenario(
        "oldest-log",
        header(),
        at(0, events.job_start(OLDEST, 0, shapes, 0)),
        at(0, events.executor_added(OLDEST, "1", 0, 1, 0)),
        at(10, events.stage_submitted(OLDEST, shapes[0], 10)),
        at(20, events.task_start(OLDEST, oldest, 20)),
        *ticks(100),
        at(150, events.task_end(OLDEST, oldest, 150, "ExceptionFailure")),
        *ticks(200),
        at(250, events.stage_completed(OLDEST, shapes[0], 250)),
        at(260, events.job_end(OLDEST, 0, 260)),
        *every(300, 6_000, 500),
    )


def define_removals() -> None:
    """Which executors go."""
    ten = [str(n) for n in range(1, 12)]
    # Ids in string order, "1", "10", "11", "2": the minimum keeps those that come last.
    scenario(
        "string-order",
        header({"minExecutors": "4", "initialExecutors": "11"}),
        executors(0, *ten),
        *every(4_900, 5_300),
    )
    # A refused kill is asked for again, with a request after it, at every tick.
    scenario(
        "refused-kill",
        header(),
        executors(0, "1", "2", "3"),
        {"at": 10, "client": {"refuseKills": ["2"]}},
        *every(5_000, 5_400),
        {"at": 5_450, "client": {"refuseKills": []}},
        *every(5_500, 5_700),
    )
    scenario(
        "refused-decommission",
        header({"spark.decommission.enabled": "true"}),
        executors(0, "1", "2"),
        {"at": 10, "client": {"refuseKills": True}},
        *every(5_000, 5_200),
        {"at": 5_250, "client": {"refuseKills": False}},
        *every(5_300, 5_500),
        gone(5_600, "1", "Finished decommissioning"),
        *ticks(5_700),
        gone(5_800, "2", "lost"),
        *ticks(5_900),
    )
    # A kill that throws leaves schedule(): the target was lowered already, nobody is pending removal.
    scenario(
        "kill-throws",
        header({"initialExecutors": "3"}),
        executors(0, "1", "2", "3"),
        {"at": 10, "client": {"throwOnKill": True}},
        *ticks(5_000, 5_100),
        {"at": 5_150, "client": {"throwOnKill": False}},
        *ticks(5_200, 5_300),
    )
    # So does the request after it: the executors are killed, the monitor does not know.
    scenario(
        "request-after-kill-throws",
        header(),
        executors(0, "1"),
        {"at": 10, "client": {"throwOnRequest": True}},
        *ticks(5_000, 5_100),
        {"at": 5_150, "client": {"throwOnRequest": False}},
        *ticks(5_200),
    )
    # What keeps an executor: first the target, then the minimum.
    scenario(
        "kept-by-target",
        header({"minExecutors": "1"}),
        executors(0, "1", "2", "3"),
        stage(10, 0, 2),
        *every(1_000, 6_000, 500),
        completed(6_050, 0),
        *every(6_100, 7_000, 300),
    )
    # The end of a task that never started, and a second ExecutorAdded, restart the idle clock.
    scenario(
        "idle-clock-restarts",
        header(),
        executors(0, "1", "2", "3"),
        end(2_000, task(0, "0.0", 0, "1")),
        executors(3_000, "2"),
        *every(4_900, 8_100, 300),
    )
    # First heard of through a task: of unknown profile, counted, never removed - until it registers.
    scenario(
        "heard-of-by-task",
        header(),
        {"at": 0, "client": {"active": ["1", "2"]}},
        start(10, task(0, "0.0", 0, "1")),
        end(20, task(0, "0.0", 0, "1")),
        start(30, task(1, "0.0", 1, "2")),
        end(40, task(1, "0.0", 1, "2")),
        *every(4_800, 5_300),
        executors(6_000, "1"),
        *every(6_100, 11_200, 300),
    )
    # First heard of through a block: no idle clock at all.
    scenario(
        "heard-of-by-block",
        header(),
        {"at": 0, "client": {"active": ["1"]}},
        block(10, "1", "rdd_0_0"),
        *ticks(100, 90_000),
        executors(90_010, "1"),
        *ticks(95_000, 95_100),
    )
    # The backend does not know it: its tasks count, it does not.
    scenario(
        "inactive-executor",
        header(),
        stage(0, 0, 2),
        start(10, task(0, "0.0", 0, "5")),
        block(20, "5", "rdd_0_0"),
        *ticks(100),
        end(150, task(0, "0.0", 0, "5")),
        *ticks(200),
    )
    scenario(
        "always-active",
        header(options={"active": "always"}),
        stage(0, 0, 2),
        start(10, task(0, "0.0", 0, "5")),
        *ticks(100),
        end(150, task(0, "0.0", 0, "5")),
        *ticks(5_150, 5_200),
    )
    # testing: no calls at all, idle executors count as removed; one of unknown profile throws.
    scenario(
        "testing",
        header({"testing": "true", "minExecutors": "1"}),
        executors(0, "1", "2"),
        stage(0, 0, 9),
        *every(1_000, 6_000, 500),
        completed(6_050, 0),
        *ticks(6_100, 6_200),
        {"at": 6_300, "client": {"active": ["3"]}},
        start(6_310, task(0, "1.0", 0, "3")),
        end(6_320, task(0, "1.0", 0, "3")),
        *ticks(11_400),
    )
    # And since the backend was never asked, it holds such an executor for active: after a reset its tasks count.
    scenario(
        "testing-stays-active",
        header({"testing": "true"}),
        executors(0, "1"),
        *ticks(5_000),
        {"at": 5_050, "reset": True},
        start(5_060, task(0, "0.0", 0, "1")),
        *ticks(5_100),
    )
    # No timeout at all: out at the first tick.
    scenario("idle-timeout-zero", header({"executorIdleTimeout": "0s"}), executors(100, "1"), *ticks(100, 200))


def define_storage() -> None:
    """What blocks and shuffles do to idle executors."""
    # The longest timeout counts: a shorter one for cached blocks shortens nothing.
    for name, cached in (("shorter", "2s"), ("longer", "8s")):
        scenario(
            f"cached-{name}",
            header(SERVICE | {"cachedExecutorIdleTimeout": cached}),
            executors(0, "1"),
            block(10, "1", "rdd_1_0"),
            *every(1_900, 8_200, 300),
        )
    # Dropped blocks release at once, counted from when the executor fell idle.
    scenario(
        "unpersist",
        header(SERVICE),
        executors(0, "1", "2"),
        block(10, "1", "rdd_1_0"),
        block(10, "2", "rdd_1_1"),
        block(11, "2", "rdd_2_0"),
        *ticks(6_000),
        at(7_000, events.unpersist_rdd(1)),
        *ticks(7_100),
        block(8_000, "2", "rdd_2_0", memory=False),
        *ticks(8_100),
    )
    # Blocks on disk, alone or with memory, hold nobody where the shuffle service serves them.
    served = SERVICE | {"spark.shuffle.service.fetch.rdd.enabled": "true", "minExecutors": "0"}
    scenario(
        "disk-blocks-served",
        header(served),
        executors(0, "1", "2", "3"),
        block(10, "1", "rdd_1_0", disk=True, memory=False),
        block(10, "2", "rdd_1_1", disk=True),
        block(10, "3", "rdd_1_2"),
        block(20, "3", "rdd_1_2", disk=True),
        block(20, "2", "broadcast_3"),
        *every(5_000, 5_200),
    )
    mapped = [task(i, "10.0", i, str(i + 1), mapped=True) for i in range(2)]
    ran = [*[start(100, t) for t in mapped], *[end(200, t) for t in mapped]]
    # The shuffle of a running job holds; when the job ends the time since the last task counts, at once.
    scenario(
        "shuffle-until-job-end",
        header({"spark.dynamicAllocation.shuffleTracking.timeout": "7s"}),
        executors(0, "1", "2", "3"),
        job(10, 1, 4, None),
        stage(20, 10, 2),
        *ran,
        completed(210, 10),
        *ticks(5_300, 9_000),
        job_end(9_050, 1),
        *ticks(9_100, 9_200),
    )
    # Without a timeout only the cleaner releases; the first shuffle cleaned is not enough for who holds two.
    scenario(
        "shuffle-cleaned",
        header(),
        executors(0, "1", "2"),
        job(10, 1, 4, None),
        stage(20, 10, 2),
        *ran,
        completed(210, 10),
        job_end(300, 1),
        block(310, "1", "shuffle_5_0_0.data"),
        *ticks(60_000),
        {"at": 60_010, "shuffleCleaned": 4},
        *ticks(60_100),
        {"at": 60_110, "shuffleCleaned": 5},
        *ticks(60_200),
    )
    # A later job needs the shuffle again: those that idle with it are held once more.
    scenario(
        "shuffle-reused",
        header({"spark.dynamicAllocation.shuffleTracking.timeout": "6s", "minExecutors": "2"}),
        executors(0, "1", "2"),
        job(10, 1, 4, None),
        stage(20, 10, 2),
        *ran,
        completed(210, 10),
        job_end(300, 1),
        *ticks(6_300),
        job(6_400, 2, 4, None),
        *ticks(6_500),
        job_end(6_600, 2),
        *ticks(6_700),
    )
    # The largest timeout there is overflows when added to the clock: never.
    scenario(
        "shuffle-timeout-overflows",
        header({"spark.dynamicAllocation.shuffleTracking.timeout": "9223372036854775807ms"}, startAt=1_700_000_000_000),
        executors(1_700_000_000_000, "1"),
        block(1_700_000_000_010, "1", "shuffle_0_0_0.data"),
        *ticks(1_700_000_010_000, 1_700_900_000_000),
    )
    # Reliable storage keeps shuffles elsewhere, but tracking goes on all the same.
    scenario(
        "reliable-storage",
        header(options={"reliableShuffleStorage": True}),
        executors(0, "1"),
        job(10, 1, 4, None),
        stage(20, 10, 2),
        *ran,
        completed(210, 10),
        *ticks(5_300),
        job_end(5_400, 1),
        *ticks(5_500),
    )


def define_settings() -> None:
    """What Spark refuses to start with."""
    refused: dict[str, dict[str, str]] = {
        "minimum-negative": {"minExecutors": "-1"},
        "maximum-zero": {"maxExecutors": "0"},
        "maximum-below-minimum": {"minExecutors": "5", "maxExecutors": "3"},
        "backlog-zero": {"schedulerBacklogTimeout": "0s"},
        "backlog-below-a-second": {"schedulerBacklogTimeout": "999ms"},
        "sustained-zero": {"sustainedSchedulerBacklogTimeout": "0s"},
        "no-shuffle-storage": {"shuffleTracking.enabled": "false"},
        "ratio-zero": {"executorAllocationRatio": "0"},
        "ratio-above-one": {"executorAllocationRatio": "1.5"},
        "cores-below-cpus": {"spark.task.cpus": "2"},
        "resource-below-task": {"spark.executor.resource.gpu.amount": "1", "spark.task.resource.gpu.amount": "2"},
        "resource-of-tasks-alone": {"spark.task.resource.gpu.amount": "1"},
    }
    for name, conf in refused.items():
        head = header()
        for key, value in conf.items():
            head["conf"][key if key.startswith("spark.") else f"spark.dynamicAllocation.{key}"] = value
        scenario(f"settings-{name}", head, *ticks(100))
    scenario("settings-request-throws", header(client={"throwOnRequest": True}), *ticks(100))
    # Several at once: the first in Spark's order is the one that is told.
    scenario(
        "settings-first-of-many",
        header({"executorAllocationRatio": "2", "maxExecutors": "0", "minExecutors": "1"}),
        *ticks(100),
    )
    # Either of these is enough in place of a shuffle service.
    kept = {
        "spark.dynamicAllocation.shuffleTracking.enabled": "false",
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.shuffleBlocks.enabled": "true",
    }
    scenario("settings-decommission-suffices", header(kept), executors(0, "1"), *ticks(5_000))
