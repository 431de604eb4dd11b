"""The heartbeats taken out of what a log tells of containers; by hand, with Spark's intervals of 200 ms and 3 s."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, ProfileId
from podtide.domain.protocol.cluster_config import NegotiationConfig, ReporterConfig, YarnConfig
from podtide.domain.recorded.application import Application, Leave, RecordedExecutor
from podtide.domain.whatif.fit_behaviour import fit
from podtide.domain.whatif.fit_containers import REPLAYED_MAX, Request, launches, status_of, stops
from tests.support.whatif_play import KUBERNETES, YARN, application

P1 = ProfileId(1)
CONFIG = YarnConfig(NegotiationConfig(executors_initial=1))


def at(*times: int, profile: ProfileId = DEFAULT_PROFILE) -> list[Request]:
    return [Request(time, profile) for time in times]


@pytest.mark.parametrize(
    ("requests", "heard"),
    [
        ([], []),
        (at(0), [200]),
        (at(0, 0, 0), [200, 200, 200]),
        # The second wish wakes the master, which finds the first container there.
        (at(0, 100), [100, 300]),
        # While anything waits the pauses double; each new wish begins them anew.
        (at(0, 150, 10_000, 10_050), [150, 350, 10_050, 10_250]),
        # A profile's first target that is the initial number wakes nobody: beats at 0, 200 and every 3 s.
        ([*at(0), *at(1_000, profile=P1)], [200, 3_400]),
        # But what wakes the master for others is its beat, too.
        ([*at(0), *at(1_000, profile=P1), *at(2_000)], [200, 2_200, 2_200]),
        # Two of it are another number.
        ([*at(0), *at(1_000, 1_000, profile=P1)], [200, 1_200, 1_200]),
    ],
)
@pytest.mark.parametrize("client", [True, False])
def test_when_the_master_has_what_was_asked_for(requests: list[Request], heard: list[int], client: bool) -> None:
    assert launches(requests, CONFIG, 0, client=client) == heard


def test_intervals_are_the_confs() -> None:
    slow = replace(CONFIG, reporter=ReporterConfig(heartbeat_ms=10_000, initial_ms=5_000))
    assert launches(at(0, 7_000), slow, 0, client=True) == [5_000, 12_000]
    quick = replace(CONFIG, reporter=ReporterConfig(heartbeat_ms=50, initial_ms=200))
    assert launches(at(0), quick, 0, client=True) == [50]


def test_the_first_executors_are_those_that_came() -> None:
    """The conf asks for eight, of which three came; the others are taken back before any is placed."""
    eight = replace(CONFIG, allocator=NegotiationConfig(executors_initial=8))
    assert launches(at(0, 0, 0), eight, 0, client=True) == [200, 200, 200]


def test_a_master_without_heartbeats_is_woken_by_what_comes_next() -> None:
    """Nothing wakes it after the last wish: that one is taken for heard at once."""
    never = replace(CONFIG, reporter=ReporterConfig(heartbeat_ms=0, initial_ms=0))
    assert launches(at(0, 1_000, 5_000), never, 0, client=True) == [1_000, 5_000, 5_000]


@pytest.mark.uncounted
def test_a_long_list_takes_the_usual_time() -> None:
    requests = at(*range(0, (REPLAYED_MAX + 100) * 1_000, 1_000))
    heard = launches(requests, CONFIG, 0, client=True)
    assert len(heard) == len(requests)
    assert {got - one.at for got, one in zip(heard, requests, strict=True)} == {200}


@pytest.mark.parametrize(
    ("removals", "stopped"),
    [
        ((), (200,)),
        ((3_400,), (1_900,)),
        ((900,), (200,)),
        # The range of a heartbeat: its least is the stop, and the wait for the beat.
        ((11_300, 12_800, 13_800), (9_800, 11_300, 11_300)),
    ],
)
def test_half_a_beat_of_a_removal_is_the_masters(removals: tuple[int, ...], stopped: tuple[int, ...]) -> None:
    assert stops(removals, ReporterConfig()) == stopped


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("Container container_1_0001_01_000002 on host: a was preempted.", -102),
        ("Container from a bad node: container_1 on host: a. Exit status: 137. Possible causes: ...", 137),
        ("Container marked as failed: container_1 on host: a. Exit status: -100. Diagnostics: lost", -100),
        ("Executor heartbeat timed out after 128310 ms", None),
        ("", None),
        ("Exit status: 99999999999999", None),
        ("x" * 10_000 + " Exit status: 1", None),
    ],
)
def test_the_status_is_in_sparks_words(reason: str, status: int | None) -> None:
    assert status_of(reason) == status


def ran(properties: dict[str, str], *executors: tuple[int, int]) -> Application:
    """An application whose executors were asked for and registered so long after its start."""
    app = application(properties)
    came = tuple(
        RecordedExecutor(
            ExecutorId(str(place)), f"h{place}", DEFAULT_PROFILE, 2, app.started_ms + added, None, Leave.STAYED,
            requested_ms=app.started_ms + asked,
        )
        for place, (asked, added) in enumerate(executors)
    )  # fmt: skip
    return replace(app, executors=came, driver_ready_ms=app.started_ms)


def test_start_ups_begin_with_the_launch() -> None:
    app = ran({**YARN, "spark.dynamicAllocation.initialExecutors": "0"}, (1_000, 4_000), (1_000, 4_500), (2_000, 5_000))
    found = fit(app)
    assert found.startup.work_ms == (3_000, 3_500, 3_000)
    assert found.containers is not None
    assert found.containers.startup.work_ms == (2_800, 3_300, 2_800)


def test_a_start_that_is_quicker_than_the_beats_takes_no_time() -> None:
    app = ran({**YARN, "spark.dynamicAllocation.initialExecutors": "0"}, (1_000, 1_100))
    found = fit(app)
    assert found.containers is not None
    assert found.containers.startup.work_ms == (1,)


def test_elsewhere_there_are_no_heartbeats() -> None:
    assert fit(ran(KUBERNETES, (1_000, 4_000))).containers is None
    assert fit(replace(application(YARN), executors=())).containers is None
