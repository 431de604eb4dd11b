"""What the driver sees: watch events late, lost, twice and out of order; breaks, expired histories, stale lists."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtide.domain.base.randomness import Constant
from podtide.domain.fakes.kubernetes import cluster as worlds
from podtide.domain.fakes.kubernetes.description import Api, Fault, NodeGroup, Verb, Watch
from podtide.domain.fakes.windows import Window
from podtide.domain.protocol.cluster_config import SourcesConfig
from podtide.domain.protocol.pod_commands import DeletePods, ListPods
from podtide.domain.protocol.pods import PodManifest
from tests.support.world_play import WHY, Driver, S, outline, plain, quick

WATCH = Watch(delay=Constant(10))


def seen(watch: Watch, count: int = 60, until: int = 120, **settings: object) -> Driver:
    driver = Driver(plain(watch=watch, groups=(NodeGroup("worker", 20),), **settings))  # type: ignore[arg-type]
    driver.create(*range(1, count + 1))
    return driver.until(until * S)


def versions(driver: Driver) -> list[int]:
    return [int(pod.version) for _, pod in driver.shown()]


@pytest.mark.parametrize(
    ("watch", "lost", "twice", "disordered"),
    [
        (replace(WATCH, loss=0.3), True, False, False),
        (replace(WATCH, duplicates=0.3), False, True, True),
        (replace(WATCH, reordered=0.3), False, False, True),
        (replace(WATCH, loss=1.0, during=Window(3_600 * S)), False, False, False),
    ],
)
def test_faults_of_the_watch(watch: Watch, lost: bool, twice: bool, disordered: bool) -> None:
    came = versions(seen(watch))
    assert (set(came) != set(range(1, 181))) is lost
    assert (len(came) != len(set(came))) is twice
    assert (came != sorted(came)) is disordered


def test_a_break_delays_and_loses_nothing() -> None:
    outage = Window(0, 30 * S)
    driver = seen(replace(WATCH, outages=(outage,)))
    assert versions(driver) == list(range(1, 181))
    assert driver.shown()[0][0] == 30 * S + 10
    assert driver.tally("watch.broken") == 1


@pytest.mark.parametrize("relists", [False, True])
def test_an_expired_history(relists: bool) -> None:
    driver = Driver(plain(watch=replace(WATCH, outages=(Window(0, 30 * S),), expired=1.0, relists=relists)))
    driver.create(1, 2)
    driver.until(60 * S)
    driver.ask(DeletePods(driver.now, 9, None, None, WHY))
    driver.until(120 * S)
    assert driver.tally("watch.expired") == 1
    if relists:
        (full,) = driver.lists()
        assert (full.at, [p.phase for p in full.pods]) == (30 * S, ["Running", "Running"])
        assert {outline(p)[2] for _, p in driver.shown()} == {True}
    else:
        assert driver.lists() == []
        assert driver.shown() == []  # Spark's watch does not come back
        assert not worlds.census(driver.world).watching


def test_outages_come_again() -> None:
    driver = seen(replace(WATCH, outages=(Window(10 * S, 12 * S, 60 * S),)), until=600)
    assert driver.tally("watch.broken") == 10


def test_breaks_at_random() -> None:
    driver = seen(replace(WATCH, breaks_per_hour=60.0, broken=Constant(5 * S)), until=3_600)
    assert 35 < driver.tally("watch.broken") < 80
    assert versions(driver) == list(range(1, 181))


def test_no_break_once_it_is_calm() -> None:
    driver = seen(replace(WATCH, breaks_per_hour=60.0, loss=1.0), calm_ms=5, until=3_600)
    assert driver.tally("watch.broken") == 0
    assert versions(driver)[0] == 1


def ask_list(driver: Driver, serial: int) -> tuple[list[PodManifest], int]:
    driver.ask(ListPods(driver.now, serial, WHY))
    driver.until(driver.now + 20)
    outcome = driver.outcome(serial)
    assert outcome.version is not None
    return list(outcome.pods), int(outcome.version)


def test_a_stale_list_is_the_cluster_as_it_was() -> None:
    driver = Driver(plain(api=Api(latency=Constant(0), stale=1.0, stale_age=Constant(10 * S))))
    now, was = {}, {}
    driver.create(1, 2, 3)
    for second in range(1, 100):
        if second == 40:
            driver.ask(DeletePods(driver.now, 900, None, None, WHY))
        driver.until(second * S)
        now[second] = sorted(worlds.pods(driver.world)), driver.world._tables.versions.last
        pods, version = ask_list(driver, 1_000 + second)
        was[second] = sorted(pods), version
    for second in range(11, 100):
        assert was[second] == now[second - 10], second
    assert driver.tally("lists.stale") == 99


def test_stale_lists_come_as_often_as_they_should() -> None:
    driver = Driver(plain(api=quick(stale=0.25)))
    for serial in range(1, 401):
        driver.ask(ListPods(driver.now, serial, WHY))
    driver.until(600 * S)
    assert driver.tally("lists.stale") == pytest.approx(100, rel=0.3)


# the world's own poll


def test_the_own_poll_has_sparks_rhythm() -> None:
    driver = Driver(plain(), polls=True)
    driver.create(1)
    driver.until(100 * S)
    assert [one.at for one in driver.lists()] == [30_020, 60_040, 90_060]  # a fixed delay after each answer
    assert [len(one.pods) for one in driver.lists()] == [1, 1, 1]


def test_the_own_poll_survives_refusals() -> None:
    refused = Fault(status=500, verbs=(Verb.LIST,), during=Window(0, 50 * S))
    driver = Driver(plain(api=quick(refused)), polls=True)
    driver.until(100 * S)
    assert [one.at for one in driver.lists()] == [60_040, 90_060]
    assert driver.heard == driver.lists()  # nobody is told of the refused one


def test_with_versions_an_older_list_is_dropped() -> None:
    sources = SourcesConfig(poll_interval_ms=1_000, poll_with_version=True)
    driver = Driver(plain(api=quick(stale=0.5, stale_age=Constant(3 * S))), polls=True, sources=sources)
    driver.create(*range(1, 9))
    driver.until(60 * S)
    told = [max((int(p.version) for p in one.pods), default=0) for one in driver.lists()]
    assert told == sorted(told)
    assert 0 < len(told) < 58
