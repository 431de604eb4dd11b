"""Nodes: room and its limits, the queue, the autoscaler, and how nodes go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtide.domain.base.randomness import Constant
from podtide.domain.fakes.kubernetes import cluster as worlds
from podtide.domain.fakes.kubernetes.description import Description, Life, NodeEvent, NodeGroup, NodeHappening, PodShape
from podtide.domain.fakes.windows import Window
from podtide.domain.protocol.executor_stimuli import ExecutorDisconnected, HeartbeatsStopped
from podtide.domain.protocol.pod_commands import DeletePods
from podtide.domain.protocol.pods import PodNumber
from tests.support.world_play import WHY, Driver, S, outline, plain


def small(count: int, **settings: object) -> NodeGroup:
    """Nodes with room for two executors; a new one takes a minute."""
    group = NodeGroup("small", count, cpu_millis=2_000, arrives=Constant(60 * S), image_present=True)
    return replace(group, **settings)  # type: ignore[arg-type]


def scripted(description: Description, *events: NodeEvent) -> Description:
    return replace(description, node_events=events)


def nodes_of(driver: Driver) -> list[str | None]:
    return [pod.node for pod in worlds.pods(driver.world)]


@pytest.mark.parametrize(
    ("group", "placed"),
    [
        (NodeGroup("n", 1, cpu_millis=3_999), 3),
        (NodeGroup("n", 1, memory_mib=5 * 1_408), 5),
        (NodeGroup("n", 1, pods=2), 2),
        (NodeGroup("n", 0), 0),
    ],
)
def test_room_has_three_limits(group: NodeGroup, placed: int) -> None:
    driver = Driver(plain(groups=(group,)))
    driver.create(*range(1, 8))
    driver.until(60 * S)
    assert driver.lives().get(Life.REGISTERED, 0) == placed
    assert worlds.census(driver.world).waiting == 7 - placed
    assert driver.tally("pods.unschedulable") == 7 - placed


def test_pods_spread_over_the_roomiest_nodes() -> None:
    driver = Driver(plain(groups=(NodeGroup("a", 2, cpu_millis=4_000), NodeGroup("b", 1, cpu_millis=6_000))))
    driver.create(*range(1, 6))
    driver.until(60 * S)
    assert nodes_of(driver) == ["b-3", "b-3", "a-1", "a-2", "b-3"]


def test_an_unschedulable_pod_is_shown_once_more_and_waits_its_turn() -> None:
    driver = Driver(plain(groups=(small(1),)))
    driver.create(1, 2, 3, 4)
    driver.until(60 * S)
    assert [outline(p) for _, p in driver.shown("exec-exec-3")] == [("Pending", False, False, None)] * 2
    driver.ask(DeletePods(driver.now, 9, (PodNumber(1),), None, WHY))
    driver.until(120 * S)
    assert driver.lives() == {Life.REGISTERED: 2, Life.CREATED: 1}
    assert {p.name for p in worlds.pods(driver.world) if p.node} == {"exec-exec-2", "exec-exec-3"}


def test_the_autoscaler_orders_what_is_missing_and_no_more() -> None:
    driver = Driver(plain(groups=(small(1, maximum=4),)))
    driver.create(*range(1, 8))
    driver.until(20 * S)
    assert worlds.census(driver.world).nodes_coming == 3  # seven pods, two on a node
    driver.create(8, 9, 10)
    driver.until(300 * S)
    census = worlds.census(driver.world)
    assert (census.nodes, census.nodes_coming, census.waiting) == (4, 0, 2)
    assert driver.lives() == {Life.REGISTERED: 8, Life.CREATED: 2}


def test_empty_nodes_are_given_back_down_to_the_count() -> None:
    driver = Driver(plain(groups=(small(1, maximum=9, idle_ms=300 * S),)))
    driver.create(*range(1, 7))
    driver.until(200 * S)
    assert worlds.census(driver.world).nodes == 3
    driver.ask(DeletePods(driver.now, 9, None, None, WHY))
    driver.until(490 * S)
    assert worlds.census(driver.world).nodes == 3
    driver.until(900 * S)
    assert worlds.census(driver.world).nodes == 1
    assert driver.tally("nodes.given back") == 2


def test_a_pod_that_fits_nowhere_orders_nothing_and_ends_in_silence() -> None:
    driver = Driver(plain(groups=(small(0, maximum=5),), profiles=((1, PodShape(64_000, 1)),)))
    driver.create(1, profile=1)
    driver.to_the_end()
    assert driver.now < 60 * S
    assert driver.tally("nodes.ordered") == 0


def take_back(group: NodeGroup, what: NodeHappening = NodeHappening.TAKE_BACK) -> Driver:
    driver = Driver(scripted(plain(groups=(group,)), NodeEvent(60 * S, what, group.name)))
    driver.create(1, 2)
    return driver


def test_a_spot_node_is_taken_back_with_notice() -> None:
    driver = take_back(small(1, notice_ms=30 * S))
    driver.until(100 * S)
    gone = [at for at, pod in driver.shown() if pod.deleted_at is not None]
    assert gone[0] == 60_010  # evicted at once, with the notice for a grace
    assert worlds.pods(driver.world) == ()
    assert [d.at for d in driver.all(ExecutorDisconnected)] == [60_502, 60_502]
    assert worlds.census(driver.world).nodes == 0
    driver.until(300 * S)
    assert worlds.census(driver.world).nodes == 1  # ordered anew
    assert driver.tally("nodes.taken back") == 1


def test_a_node_that_is_not_drained_runs_to_the_end_of_its_notice() -> None:
    driver = take_back(small(1, notice_ms=30 * S, drained=False, replaced=False))
    driver.until(300 * S)
    assert [d.at for d in driver.all(ExecutorDisconnected)] == [90_002, 90_002]
    shown = [(at, outline(pod)) for at, pod in driver.shown("exec-exec-1") if at > 60 * S]
    # The objects are cleaned up 40 s after: failed, marked, gone.
    assert shown == [
        (130_010, ("Failed", True, False, "running")),
        (130_010, ("Failed", True, True, "running")),
        (130_010, ("Failed", True, True, "running")),
    ]
    assert worlds.census(driver.world).nodes == 0


def test_a_crashed_machine_says_nothing() -> None:
    driver = take_back(small(1), NodeHappening.CRASH)
    driver.until(400 * S)
    assert [d.at for d in driver.all(ExecutorDisconnected)] == [180_002, 180_002]
    assert [d.at for d in driver.all(HeartbeatsStopped)] == [60_002, 60_002]
    assert worlds.pods(driver.world) == ()
    assert driver.tally("nodes.crashed") == 1


def test_a_drained_node_goes_when_it_is_empty() -> None:
    driver = take_back(small(1, replaced=False), NodeHappening.DRAIN)
    driver.until(61 * S)
    assert worlds.census(driver.world).nodes == 0
    assert worlds.pods(driver.world) == ()


def test_an_empty_node_is_drained_at_once() -> None:
    driver = Driver(scripted(plain(groups=(small(1, replaced=False),)), NodeEvent(5 * S, NodeHappening.DRAIN, "small")))
    driver.until(5 * S)
    assert worlds.census(driver.world).nodes == 0


def test_nodes_join() -> None:
    driver = Driver(scripted(plain(groups=(small(0),)), NodeEvent(60 * S, NodeHappening.JOIN, "small", 2)))
    driver.create(1, 2, 3, 4, 5)
    driver.until(120 * S)
    assert driver.lives() == {Life.REGISTERED: 4, Life.CREATED: 1}


def test_deleting_a_pod_whose_machine_is_gone() -> None:
    driver = take_back(small(1, replaced=False), NodeHappening.CRASH)
    driver.until(70 * S)
    driver.ask(DeletePods(driver.now, 9, None, None, WHY))
    driver.until(75 * S)
    assert worlds.pods(driver.world) == ()


def test_interruptions_come_at_their_rate_and_in_their_time() -> None:
    group = small(100, interruptions_per_hour=1.0, notice_ms=1 * S, during=Window(0, 1_800 * S))
    driver = Driver(plain(groups=(group,)))
    driver.until(4 * 3_600 * S)
    assert 30 < driver.tally("nodes.taken back") < 75  # 49 expected in half an hour
    assert worlds.census(driver.world).nodes == 100
