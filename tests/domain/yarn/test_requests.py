"""Requests and what takes them, where the YARN allocator surprises: findings in runs of the real classes, by number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from podtide.domain.protocol.cluster_config import NegotiationConfig
from podtide.domain.protocol.pod_commands import RemoveExecutor
from podtide.domain.protocol.yarn_messages import (
    CallResourceManager,
    CancelRequests,
    LaunchExecutor,
    ReleaseContainers,
    RequestContainers,
    TakeRequests,
)
from tests.support.negotiation_play import (
    CONFIG,
    POOLED,
    NegotiationPlay,
    cancelled,
    ended,
    launched,
    matched,
    only,
    ready,
    released,
    requested,
)

RACKS = {"a1": "/a", "a2": "/a", "b1": "/b", "b2": "/b"}
ON_RACKS = replace(CONFIG, racks=RACKS)


def waiting_for(hosts: Mapping[str, int], target: int, config: NegotiationConfig = CONFIG) -> NegotiationPlay:
    """Requests wait for these hosts; a task each."""
    play = NegotiationPlay(config)
    play.want(target, hosts, 5 * target)
    play.heartbeat()
    return play


# 37 - 43: what is asked for, and what is cancelled.


def test_37_a_container_that_ends_in_its_own_answer_is_launched_first() -> None:
    play = NegotiationPlay()
    play.want(1)
    play.beat()
    said = play.answer(play.on("h1"), completed=ended("c1"))
    assert [type(command) for command in said] == [TakeRequests, LaunchExecutor, RemoveExecutor]
    assert (play.running(), play.failed) == ([], 1)


def test_37_requests_are_updated_before_the_call() -> None:
    play = NegotiationPlay()
    play.want(1)
    assert [type(command) for command in play.beat()] == [RequestContainers, CallResourceManager]


def test_38_hints_count_only_when_something_is_missing() -> None:
    play = waiting_for({"h1": 10}, 2)
    assert not play.want(2, {"h2": 10}, 10)
    said = play.heartbeat()
    assert (requested(said), cancelled(said)) == ([], [])
    play.want(3, {"h2": 10}, 15)
    said = play.beat()
    assert (cancelled(said), requested(said)) == ([1, 2], [(3, ("h2",))])


def test_38_a_call_replaces_all_hints() -> None:
    play = waiting_for({"h1": 10}, 2)
    play.want(3)
    said = play.beat()
    assert (cancelled(said), requested(said)) == ([1, 2], [(3, None)])


def test_38_also_a_call_that_changes_nothing() -> None:
    play = NegotiationPlay()
    play.want(2, {"h1": 2}, 10)
    assert not play.want(2, {"h2": 2}, 10)
    assert requested(play.beat()) == [(2, ("h2",))]


def test_39_a_host_without_tasks_keeps_its_requests() -> None:
    play = waiting_for({"h1": 10}, 2)
    play.want(3, {"h1": 0, "h2": 10}, 5)
    said = play.beat()
    assert (cancelled(said), requested(said)) == ([], [(1, ("h2",))])


def test_40_requests_anywhere_are_asked_again_as_far_as_locality_wants_more() -> None:
    play = NegotiationPlay()
    play.want(4)
    play.heartbeat()
    play.want(5, {"h1": 15}, 15)
    said = play.beat()
    assert (cancelled(said), requested(said)) == ([1, 2], [(3, ("h1",))])
    assert list(play.state.rows.requests[next(iter(play.state.rows.requests))].numbers()) == [3, 4, 5, 6, 7]


def test_40_not_if_locality_wants_less() -> None:
    play = NegotiationPlay()
    play.want(4)
    play.heartbeat()
    play.want(6, {"h1": 5}, 5)
    said = play.beat()
    assert (cancelled(said), requested(said)) == ([], [(1, ("h1",)), (1, None)])


def test_41_counts_that_sum_to_nothing() -> None:
    play = NegotiationPlay()
    play.want(2, {"h1": 0}, 10)
    assert requested(play.beat()) == [(2, None)]


def test_42_a_killed_executor_counts_on_its_host_until_it_is_over() -> None:
    play = ready("h1")
    play.kill("1")
    play.want(2, {"h1": 10}, 10)
    assert requested(play.beat()) == [(1, ("h1",)), (1, None)]


def test_42_one_that_starts_does_not() -> None:
    play = NegotiationPlay(POOLED, launching=False)
    play.want(1)
    play.heartbeat("h1")
    play.want(3, {"h1": 10}, 10)
    assert requested(play.beat()) == [(2, ("h1",))]


def test_43_cancelling_goes_by_kind_then_by_age() -> None:
    """Local, then anywhere, then stale ones: 1-2 for h1, 3-4 for h2, 5-6 anywhere."""
    play = waiting_for({"h1": 10}, 2)
    play.want(4, {"h1": 10, "h2": 10}, 20)
    said = play.heartbeat()
    play.want(6, {"h1": 1, "h2": 1}, 0)
    play.heartbeat()
    assert requested(said) == [(2, ("h2",))]
    play.want(5, {"h2": 10}, 10)
    assert cancelled(play.heartbeat()) == [1]
    play.want(2, {"h2": 10}, 10)
    assert cancelled(play.heartbeat()) == [2, 5, 6]
    play.want(1, {"h2": 10}, 10)
    assert cancelled(play.heartbeat()) == [3]


def test_43_nothing_waits_and_one_runs() -> None:
    play = ready("h1")
    play.want(0)
    assert [type(command) for command in play.heartbeat()] == [CallResourceManager]
    assert play.running() == ["1"]


# 44 - 49: what takes what.


def test_44_a_strange_container_takes_the_oldest_request_even_a_localized_one() -> None:
    play = NegotiationPlay(ON_RACKS)
    play.want(2, {"a1": 5}, 5)
    assert requested(play.beat()) == [(1, ("a1",)), (1, None)]
    assert matched(play.answer(play.on("b1"))) == [("c1", 1, "*")]
    play.beat()
    assert matched(play.answer(play.on("a1"))) == [("c2", 2, "*")]


def test_44_hosts_come_before_racks_and_racks_before_anywhere() -> None:
    play = NegotiationPlay(ON_RACKS)
    play.want(4, {"a1": 10}, 10)
    play.beat()
    said = play.answer(play.on("b1"), play.on("a2"), play.on("a1"), play.on("b2"))
    assert matched(said) == [("c3", 1, "a1"), ("c2", 2, "/a"), ("c1", 3, "*"), ("c4", 4, "*")]


def test_44_each_pass_takes_the_oldest_that_is_listed_there() -> None:
    play = NegotiationPlay(ON_RACKS)
    play.want(3, {"a1": 30, "b1": 10}, 15)
    said = play.beat()
    assert requested(said) == [(1, ("a1", "b1")), (2, ("a1",))]
    said = play.answer(play.on("b1"), play.on("b2"), play.on("a1"))
    assert matched(said) == [("c1", 1, "b1"), ("c3", 2, "a1"), ("c2", 3, "*")]


def test_45_executors_are_numbered_in_the_order_of_matching() -> None:
    play = NegotiationPlay(ON_RACKS)
    play.want(3, {"a1": 10}, 10)
    play.beat()
    said = play.answer(play.on("b1"), play.on("a2"), play.on("a1"))
    assert launched(said) == [("1", "c3"), ("2", "c2"), ("3", "c1")]


def test_46_what_is_left_is_released_first_and_burns_no_id() -> None:
    play = NegotiationPlay()
    play.want(1)
    said = play.heartbeat("h1", "h2")
    assert [type(command) for command in said[2:]] == [TakeRequests, ReleaseContainers, LaunchExecutor]
    assert play.state.last_id == 1


def test_47_a_bigger_container_will_do() -> None:
    play = NegotiationPlay()
    play.want(1)
    assert launched(play.heartbeat(play.on("h1", memory=9_999))) == [("1", "c1")]


def test_47_one_that_is_too_small_ends_the_answer() -> None:
    play = ready("h0", target=4)
    containers = [play.on("h1"), play.on("h2", memory=2_431), play.on("h3")]
    play.beat()
    said = play.answer(*containers, completed=ended("c1"))
    assert (launched(said), released(said), only(said, RemoveExecutor)) == ([("2", "c2")], [], [])
    assert play.threw == ["java.lang.AssertionError: assertion failed"]
    assert (play.running(), play.state.last_id, play.pending()) == (["1", "2"], 3, 0)
    assert requested(play.beat()) == [(2, None)]


def test_48_a_lowered_target_skips_launches_of_the_handler_alone() -> None:
    play = NegotiationPlay()
    play.want(2)
    play.heartbeat()
    play.want(0)
    said = play.handle(play.on("h1"))
    assert (launched(said), released(said)) == ([], ["c1"])
    assert (play.state.last_id, play.pending(), set(play.state.rows.released)) == (1, 1, {"c1"})


def test_49_an_unknown_priority_ends_the_answer() -> None:
    play = ready("h0", target=3)
    play.beat()
    said = play.answer(play.on("h1"), play.on("h2", profile=9), play.on("h3"), completed=ended("c1"))
    assert (launched(said), released(said), only(said, RemoveExecutor)) == ([], [], [])
    assert matched(said) == []
    assert play.threw == ["java.lang.IllegalArgumentException: The Resource to be requested should not be null "]


def test_65_without_a_topology_all_hosts_share_a_rack() -> None:
    play = NegotiationPlay()
    play.want(1, {"h1": 5}, 5)
    (request,) = only(play.beat(), RequestContainers)
    assert request.layout is not None
    assert list(request.layout.groups()) == [(1, ("h1",), ("/default-rack",))]
    assert matched(play.answer(play.on("h9"))) == [("c1", 1, "/default-rack")]


def test_the_label_is_asked_for() -> None:
    play = NegotiationPlay(replace(CONFIG, label="gpu"))
    play.want(1)
    assert [request.label for request in only(play.beat(), RequestContainers)] == ["gpu"]


def test_cancelled_requests_are_told_by_profile() -> None:
    play = NegotiationPlay()
    play.profiles(1)
    play.want({0: 2, 1: 2})
    play.heartbeat()
    play.want({})
    assert [command.profile for command in only(play.beat(), CancelRequests)] == [0, 1]
