"""What is found in a log of how executors come and go: known places run forward, and found again."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, Millis
from podtide.domain.recorded.application import Application, Fresh, Leave, RecordedExecutor, RecordedJob, RecordedStage
from podtide.domain.rerun.behaviour import Loss, StartUp
from podtide.domain.rerun.start_up import SharedStartUp, Starts, latencies
from podtide.domain.whatif.fit_behaviour import STANDALONE_LAG_MS, START_USUAL_MS, fit
from podtide.domain.whatif.fit_start_up import (
    PARALLEL_USUAL,
    READY_SHARE,
    START_WORK_MOST_MS,
    Beside,
    Driver,
    FirstTask,
    LoggedStart,
    shared,
    works,
)

T0 = 1_795_000_000_000
DYNAMIC = {"spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.shuffleTracking.enabled": "true"}
LOCAL = {**DYNAMIC, "spark.master": "local-cluster[8,1,1024]"}
YARN = {**DYNAMIC, "spark.master": "yarn"}


def executor(
    name: str, added: Millis, requested: Millis | None = None, host: str = "127.0.0.1", **more: object
) -> RecordedExecutor:
    plain = RecordedExecutor(ExecutorId(name), host, DEFAULT_PROFILE, 1, T0 + added, None, Leave.STAYED)
    times = {
        key: T0 + value if isinstance(value, int) and key.endswith("_ms") else value for key, value in more.items()
    }
    asked = None if requested is None else T0 + requested
    return replace(plain, requested_ms=asked, **times)  # type: ignore[arg-type]


def application(executors: Sequence[RecordedExecutor], properties: dict[str, str], **more: object) -> Application:
    """One job with one stage of 100 tasks from 2 s to 300 s; the driver was up after 1 s."""
    stage = RecordedStage(0, 0, "count", DEFAULT_PROFILE, T0 + 2000, T0 + 300_000, array("q", [1000] * 100))
    job = RecordedJob(0, T0 + 2000, T0 + 300_000, True, (0,), (), think_ms=2000)
    plain = Application(
        "app-1", "app", "4.3.0", T0, T0 + 301_000, True, properties, (job,), (stage,), tuple(executors),
        driver_ready_ms=T0 + 1000,
    )  # fmt: skip
    return replace(plain, **more)  # type: ignore[arg-type]


# -- one machine ------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.integers(500, 3000), min_size=1, max_size=10),
    st.floats(0.8, 5.0),
    st.lists(st.integers(0, 9000), min_size=1, max_size=10).map(sorted),
)
def test_works_are_the_inverse_of_latencies(work: list[int], parallel: float, requests: list[int]) -> None:
    """What was run forward is found again, to the milliseconds that registrations are rounded to."""
    found = latencies(StartUp(tuple(work), parallel, 1), requests)
    seen = [LoggedStart(at, at + latency) for at, latency in zip(requests, found, strict=True)]
    for ordinal, (one, again) in enumerate(zip(seen, works(seen, parallel).starts, strict=True)):
        assert again == pytest.approx(work[ordinal % len(work)], abs=2 + len(requests)), one


def ran(startup: SharedStartUp, requests: Sequence[Millis], began: Millis) -> tuple[list[LoggedStart], Driver]:
    """A place run forward, tasks waiting for every executor."""
    starts = Starts(startup)
    registered: dict[int, Millis] = {}
    ready: dict[int, Millis] = {}

    def until(time: Millis) -> None:
        while (due := starts.due()) <= time and due != NEVER:
            registered.update(dict.fromkeys(starts.advance(due), due))
            ready.update(dict.fromkeys(starts.ready(), due))

    starts.think(began)
    for ordinal, at in enumerate(requests):
        until(at)
        starts.request(at, ordinal)
    until(NEVER)
    seen = [LoggedStart(at, registered[one], ready[one]) for one, at in enumerate(requests)]
    return seen, Driver(began, starts.thought_ms or 0)


@pytest.mark.parametrize("parallel", [1.0, 1.3, 2.0, 4.0])
def test_a_shared_machine_is_found_again(parallel: float) -> None:
    """From a ramp of eight starts, four more at once, and two that came alone."""
    requests = [3000, 4000, 4000, *[5000] * 4, 6000, *[40_000] * 4, 60_000, 70_000]
    seen, driver = ran(SharedStartUp((1000,), parallel, 1, ready_ms=(300,), driver_ms=1900), requests, 1000)
    found = shared(seen, Beside(driver)).startup
    assert found.machines == 1
    assert found.parallel == pytest.approx(parallel, rel=0.2)
    assert sorted(found.work_ms)[4] == pytest.approx(1000, rel=0.2)
    assert sorted(found.ready_ms)[4] == pytest.approx(300, rel=0.2)
    assert found.driver_ms == pytest.approx(1900, rel=0.05)


def test_four_starts_at_once_say_nothing_of_sharing_and_the_usual_holds() -> None:
    seen = [LoggedStart(1000, 4000)] * 4
    found = shared(seen).startup
    assert found.parallel == pytest.approx(PARALLEL_USUAL, rel=0.1)
    assert latencies(found, [0] * 8)[0] == pytest.approx(6000, rel=0.35)
    (ready,) = found.ready_ms
    assert ready == pytest.approx(READY_SHARE * found.work_ms[0], rel=0.05)


def test_recorded_requests_meet_the_recorded_registrations_again() -> None:
    """Under whatever ``parallel`` was found, the same requests lead to the same latencies."""
    times = [(4735, 6450), (5793, 10_316), (5793, 11_324), (7075, 12_090), (7075, 12_527), (7075, 12_670)]
    found = shared([LoggedStart(*one) for one in times]).startup
    again = latencies(found, [asked for asked, _ in times])
    for (asked, added), latency in zip(times, again, strict=True):
        assert latency == pytest.approx(added - asked, abs=30)


WAITED = [(1000, 5400), (1000, 7600), (1000, 7900), (1000, 11_800), (30_000, 32_900), (30_000, 39_300)]
"""Executors asked for at once that came one by one: no machine that they share makes such a difference between them."""


def test_starts_that_wait_for_something_else_take_of_the_machine_what_a_jvm_takes() -> None:
    found = shared([LoggedStart(*one) for one in WAITED], Beside(Driver(1000, 4200))).startup
    assert found.work_ms == (START_WORK_MOST_MS,) * 6
    assert all(wait > 1000 for wait in found.wait_ms)
    assert found.driver_ms == pytest.approx(3200, abs=400)  # hardly anybody was in its way
    found = shared([LoggedStart(*one) for one in WAITED]).startup
    again = latencies(found, [at for at, _ in WAITED])
    for (requested, added), latency in zip(WAITED, again, strict=True):
        assert latency == pytest.approx(added - requested, abs=30)


def test_what_first_tasks_take_longer_is_work_on_the_same_machine() -> None:
    """Two executors: while both load classes they take half as long again, at a ``parallel`` of 1.3."""
    seen = [LoggedStart(0, 2000, 2000), LoggedStart(0, 2000, 2000)]
    beside = Beside(first_tasks=(FirstTask(2000, 1000), FirstTask(2000, 1000)))
    found = works(seen, 1.3, beside)
    assert found.fresh == pytest.approx((650, 650))
    alone = works(seen[:1], 1.3, Beside(first_tasks=beside.first_tasks[:1]))
    assert alone.fresh == pytest.approx((1000,))


def test_a_first_task_that_nobody_waited_for_is_no_getting_ready() -> None:
    lags = (200, 250, 220, 9700, 300)
    seen = [
        LoggedStart(at, at + 1000, at + 1000 + lag) for at, lag in zip(range(0, 100_000, 20_000), lags, strict=True)
    ]
    assert shared(seen).startup.ready_ms == (200, 250, 220, 300)


def test_executors_of_one_host_are_one_machine_and_the_driver_is_on_it() -> None:
    executors = [executor(str(n), 6000 + n, 4000, first_task_ms=6500) for n in range(3)]
    found = fit(application(executors, LOCAL, fresh=(Fresh(ExecutorId("1"), 400),)))
    startup = found.startup
    assert isinstance(startup, SharedStartUp)
    assert (startup.machines, startup.driver_ms) == (1, 1000)
    assert startup.ready_ms
    (fresh,) = found.fresh_ms  # as work on the machine, on which nothing else went on by then
    assert fresh == pytest.approx(400, abs=5)
    assert found.boot_ms == 1000


def test_where_executors_are_apart_they_start_as_they_were_seen_to() -> None:
    """Three starts of a work of 2 s that shared one machine took 5 s each, and a first task 400 ms longer."""
    executors = [executor(str(n), 6000 + n, 1000, first_task_ms=6500) for n in range(3)]
    found = fit(application(executors, LOCAL, fresh=(Fresh(ExecutorId("1"), 400),)))
    assert max(found.startup.work_ms) < 4_000
    apart = found.apart()
    assert (apart.startup.work_ms, apart.startup.machines, apart.fresh_ms) == ((5000, 5001, 5002), 0, (400,))
    assert apart.apart() is apart


KUBERNETES = {"spark.master": "k8s://x", "spark.executor.instances": "4"}


@pytest.mark.parametrize(
    ("properties", "awaited"),
    [
        (KUBERNETES, 7000),  # 80% of four are four
        ({**KUBERNETES, "spark.scheduler.minRegisteredResourcesRatio": "0.5"}, 5000),
        ({**KUBERNETES, "spark.scheduler.maxRegisteredResourcesWaitingTime": "3s"}, 3000),
        ({**KUBERNETES, "spark.executor.instances": "6"}, 8500),  # the first job came before
        ({**KUBERNETES, **DYNAMIC, "spark.executor.instances": "0"}, 0),
        ({**LOCAL, "spark.dynamicAllocation.enabled": "false"}, 0),
    ],
)
def test_the_driver_waited_for_its_first_executors(properties: dict[str, str], awaited: int) -> None:
    plain = application([executor(str(n), 5000 + 1000 * n) for n in range(4)], properties)
    (job,) = plain.jobs
    assert fit(replace(plain, jobs=(replace(job, submitted_ms=T0 + 9500),))).awaited_ms == awaited


@pytest.mark.parametrize(("host", "shares"), [("127.0.0.1", True), ("10.0.0.9", False), (None, False)])
def test_outside_local_clusters_the_driver_is_where_it_says(host: str | None, shares: bool) -> None:
    properties = {**DYNAMIC, "spark.master": "spark://here:7077"} | (
        {} if host is None else {"spark.driver.host": host}
    )
    found = fit(application([executor("0", 6000, 4000)], properties)).startup
    assert isinstance(found, SharedStartUp)
    assert (found.driver_ms > 0) == shares


# -- many machines ----------------------------------------------------------------------------------------------------


def test_executors_of_several_hosts_do_not_disturb_one_another() -> None:
    executors = [
        executor(str(n), 20_000 + 1000 * n, 10_000, f"node{n}", first_task_ms=20_300 + 1000 * n) for n in range(4)
    ]
    found = fit(application(executors, YARN, fresh=(Fresh(ExecutorId("2"), 700), Fresh(ExecutorId("3"), -5))))
    startup = found.startup
    assert isinstance(startup, SharedStartUp)
    assert startup.work_ms == (10_000, 11_000, 12_000, 13_000)
    assert startup.ready_ms == (300,) * 4
    assert (startup.machines, startup.driver_ms) == (0, 0)
    assert found.fresh_ms == (700, 0)


def test_an_executor_beyond_what_tasks_wanted_shows_nothing_of_getting_ready() -> None:
    """Two tasks, four executors; the first two are gone before the last comes."""
    executors = [
        executor("1", 20_000, 10_000, "a", first_task_ms=20_200, removed_ms=24_000, leave=Leave.RELEASED),
        executor("2", 21_000, 10_000, "b", first_task_ms=21_300, removed_ms=25_000, leave=Leave.RELEASED),
        executor("3", 22_000, 10_000, "c", first_task_ms=22_400),
        executor("4", 25_000, 10_000, "d", first_task_ms=25_500),
    ]
    app = application(executors, YARN)
    stage = replace(app.stages[0], body_ms=array("q", [1000] * 2))
    found = fit(replace(app, stages=(stage,))).startup
    assert isinstance(found, SharedStartUp)
    assert found.ready_ms == (200, 300, 500)


def test_starts_are_in_order_of_request() -> None:
    executors = [executor("5", 20_000, 15_000, "a"), executor("3", 21_000, 9000, "b")]
    assert fit(application(executors, YARN)).startup.work_ms == (12_000, 5000)


@pytest.mark.parametrize("asked", [None, 30_000])
def test_a_request_that_is_not_known_is_put_the_usual_time_before(asked: int | None) -> None:
    executors = [
        executor("1", 20_000, 15_000, "a"),
        executor("2", 25_000, asked, "b"),
        executor("3", 31_000, 25_000, "c"),
    ]
    assert sorted(fit(application(executors, YARN)).startup.work_ms) == [5000, 6000, 6000]


def test_a_guessed_request_is_no_witness_on_a_shared_machine() -> None:
    seen = [
        LoggedStart(0, 1000),
        LoggedStart(20_000, 21_100),
        LoggedStart(40_000, 49_000, known=False),
        LoggedStart(60_000, 60_900),
    ]
    assert shared(seen).startup.work_ms == (1000, 1100, 1000, 900)
    assert shared(seen).startup.parallel == shared([seen[0], seen[1], seen[3]]).startup.parallel


def test_a_static_count_is_asked_for_when_the_driver_is_up_and_a_lost_one_when_it_was_lost() -> None:
    executors = [
        executor("1", 9000, None, "a"),
        executor("2", 11_000, None, "b", removed_ms=60_000, leave=Leave.LOST),
        executor("3", 71_000, None, "c"),
    ]
    found = fit(application(executors, {"spark.master": "yarn", "spark.executor.instances": "2"}))
    assert found.startup.work_ms == (8000, 10_000, 11_000)
    assert found.losses == (Loss(1, 49_000),)


def test_without_executors_a_start_takes_what_is_usual() -> None:
    assert fit(application([], {})).startup == StartUp((START_USUAL_MS,))


@pytest.mark.parametrize("name", ["driver", "<driver>"])
@pytest.mark.parametrize(("added", "work", "boot"), [(1400, 400, 1000), (700, 1, 699), (0, 1, 0)])
def test_with_a_local_master_the_driver_is_the_executor_and_there_when_the_log_says_so(
    name: str, added: int, work: int, boot: int
) -> None:
    found = fit(
        application([executor(name, added, 0)], {"spark.master": "local[4]"}, fresh=(Fresh(ExecutorId(name), 90),))
    )
    assert (found.startup, found.boot_ms, found.fresh_ms) == (StartUp((work,)), boot, (90,))


# -- the rest ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("master", "more", "expected"),
    [
        ("local-cluster[4,1,1024]", {}, (5000 + STANDALONE_LAG_MS,)),
        (
            "spark://here:7077",
            {"spark.standalone.executorRemoveDelayOnDisconnection": "2s"},
            (2000 + STANDALONE_LAG_MS,),
        ),
        (
            "spark://here:7077",
            {"spark.standalone.executorRemoveDelayOnDisconnection": "x"},
            (5000 + STANDALONE_LAG_MS,),
        ),
        ("yarn", {}, (8000,)),
        ("k8s://https://api", {}, (2000,)),
        ("mesos://here", {}, (1000,)),
    ],
)
def test_removals_that_the_log_does_not_show_are_those_of_the_platform(
    master: str, more: dict[str, str], expected: tuple[int, ...]
) -> None:
    found = fit(application([executor("0", 6000, 4000)], {**DYNAMIC, "spark.master": master, **more}))
    assert found.removal_ms == expected


def test_what_is_left_after_the_idle_timeout_is_the_time_of_removal() -> None:
    released = [
        executor("1", 6000, 4000, "a", last_task_ms=20_000, removed_ms=92_500, leave=Leave.RELEASED),
        executor("2", 7000, 4000, "b", removed_ms=70_000, leave=Leave.RELEASED),
        executor("3", 7000, 4000, "c", last_task_ms=30_000, removed_ms=200_000, leave=Leave.RELEASED),
        executor("4", 7000, 4000, "d", last_task_ms=30_000, removed_ms=95_000, leave=Leave.LOST),
    ]
    assert fit(application(released, YARN)).removal_ms == (12_500, 3000)


def test_losses_are_counted_by_registration() -> None:
    executors = [executor("9", 6000), executor("2", 7000, removed_ms=17_000, leave=Leave.LOST)]
    assert fit(application(executors, YARN)).losses == (Loss(1, 10_000),)


@pytest.mark.parametrize(
    ("tasks", "most", "enabled", "expected"),
    [(100, None, "true", 3), (4, None, "true", None), (100, "3", "true", None), (100, None, "false", None)],
)
def test_a_bound_of_the_cluster_is_seen_where_much_more_was_wanted(
    tasks: int, most: str | None, enabled: str, expected: int | None
) -> None:
    executors = [executor(str(n), 6000, 4000, f"node{n}") for n in range(3)]
    properties = {**YARN, "spark.dynamicAllocation.enabled": enabled}
    if most is not None:
        properties["spark.dynamicAllocation.maxExecutors"] = most
    app = application(executors, properties)
    stage = replace(app.stages[0], body_ms=array("q", [1000] * tasks))
    assert fit(replace(app, stages=(stage,))).capacity == expected


@pytest.mark.parametrize(
    ("ready", "requested", "boot"), [(1000, 400, 1000), (None, 400, 400), (None, None, 0), (9000, 400, 2000)]
)
def test_the_driver_is_up_when_its_block_manager_is(ready: int | None, requested: int | None, boot: int) -> None:
    app = application([executor("0", 6000, requested)], YARN, driver_ready_ms=None if ready is None else T0 + ready)
    assert fit(app).boot_ms == boot


@pytest.mark.uncounted
def test_thousands_of_starts_on_one_host_are_fitted_in_seconds() -> None:
    seen = [LoggedStart(100 * n, 100 * n + 900 + n % 700) for n in range(20_000)]
    assert len(shared(seen, Beside(Driver(0, 1000))).startup.work_ms) == 20_000
