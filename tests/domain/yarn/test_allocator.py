"""The YARN allocator, story by story: Spark's own suite (Y), and what runs of the real classes showed (numbered quirks)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ProfileId
from podtide.domain.protocol.cluster_config import ContainerRules, ExclusionConfig
from podtide.domain.protocol.config import ProfileRules
from podtide.domain.protocol.containers import ContainerId, Resource
from podtide.domain.protocol.executor_commands import RemoveExecutor
from podtide.domain.protocol.reasons import Bound, Cause, Held, Phase, Why
from podtide.domain.protocol.resource_profiles import ResourceProfile
from podtide.domain.protocol.yarn_messages import (
    Beat,
    CallResourceManager,
    CancelRequests,
    ContainersWanted,
    DecommissionHost,
    LaunchExecutor,
    ProfilesDefined,
    ReleaseContainers,
    RequestContainers,
    ResourcesAnswered,
    TakeRequests,
    TargetsTaken,
)
from podtide.domain.yarn import allocator as yarn
from podtide.domain.yarn.container_specs import container_spec
from tests.support.negotiation_play import (
    CONFIG,
    SPEC,
    NegotiationPlay,
    cancelled,
    ended,
    launched,
    only,
    ready,
    released,
    requested,
    told,
)

DECOMMISSIONING = replace(CONFIG, decommission=True)


# Y: Spark's own suite.


def test_y1_a_container_is_asked_for_and_launched() -> None:
    play = NegotiationPlay()
    assert play.want(1)
    assert requested(play.beat()) == [(1, None)]
    assert (play.pending(), play.running()) == (1, [])
    assert launched(play.answer(play.on("host1"))) == [("1", "c1")]
    assert (play.pending(), play.running(), play.starting()) == (0, ["1"], 0)
    assert play.hosts() == {"host1": ["c1"]}
    assert (dict(play.state.rows.host_of), dict(play.state.rows.container_of)) == ({"c1": "host1"}, {"1": "c1"})
    assert requested(play.beat()) == []


def test_y2_the_priority_tells_the_profile() -> None:
    play = NegotiationPlay()
    play.profiles(1)
    play.want({1: 1})
    said = play.heartbeat(play.on("host1", profile=1))
    (request,), (launch,) = only(said, RequestContainers), only(said, LaunchExecutor)
    assert (request.profile, request.resource) == (1, Resource(3_432, 6))
    assert (launch.profile, launch.heap_mib, launch.cores) == (1, 3_048, 5)
    assert (play.running(0), play.running(1)) == ([], ["1"])
    assert (play.hosts(0), play.hosts(1)) == ({}, {"host1": ["c1"]})


def test_y3_profiles_have_books_of_their_own() -> None:
    play = NegotiationPlay()
    play.profiles(1, 2)
    play.want({0: 0, 1: 1, 2: 2})
    play.beat()
    assert [play.pending(profile) for profile in (0, 1, 2)] == [0, 1, 2]
    assert play.state.pending == 3
    play.answer(play.on("host1", profile=1), play.on("host2", profile=2), play.on("host3", profile=2))
    assert [play.running(profile) for profile in (0, 1, 2)] == [[], ["1"], ["2", "3"]]
    assert [play.hosts(profile) for profile in (0, 1, 2)] == [{}, {"host1": ["c1"]}, {"host2": ["c2"], "host3": ["c3"]}]


def test_y4_an_extra_container_is_released() -> None:
    play = ready("host1")
    assert released(play.heartbeat("host2")) == ["c2"]
    assert (play.running(), play.hosts(), set(play.state.rows.released)) == (["1"], {"host1": ["c1"]}, {"c2"})


def test_y5_fewer_containers_than_wanted() -> None:
    play = ready("host1", "host1", "host2", target=4)
    assert (play.running(), play.pending()) == (["1", "2", "3"], 1)
    assert play.hosts() == {"host1": ["c1", "c2"], "host2": ["c3"]}


def test_y6_the_third_of_two_is_released() -> None:
    play = NegotiationPlay()
    play.want(2)
    said = play.heartbeat("host1", "host1", "host2")
    assert (released(said), launched(said)) == (["c3"], [("1", "c1"), ("2", "c2")])
    assert ContainerId("c3") not in play.state.rows.host_of


def test_y7_a_lower_target_cancels() -> None:
    play = NegotiationPlay()
    play.want(4)
    play.beat()
    play.answer()
    play.want(3)
    assert cancelled(play.beat()) == [1]
    assert play.pending() == 3
    play.answer(play.on("host1"))
    play.want(2)
    assert cancelled(play.beat()) == [3]
    assert play.pending() == 1


def test_y8_executors_that_run_are_not_touched() -> None:
    play = ready("host1", "host2", target=3)
    play.want(1)
    said = play.heartbeat()
    assert (cancelled(said), play.pending(), play.running()) == ([3], 0, ["1", "2"])


def test_y9_killed_executors_under_a_lower_target() -> None:
    play = ready("host1", "host2", target=4)
    play.want(1)
    play.kill("1", "2")
    assert play.running() == []
    said = play.heartbeat(completed=ended("c1", "c2", status=0))
    assert (cancelled(said), requested(said), play.pending(), play.running()) == ([3], [], 1, [])


def test_y10_a_kill_counts_once() -> None:
    play = ready("host1", "host2")
    for _ in range(4):
        play.kill("1")
        assert play.running() == ["2"]
    assert released(play.said) == ["c1"]
    play.beat()
    assert play.pending() == 1


def test_y11_a_completion_twice() -> None:
    play = ready("host1")
    play.want(0)
    for _ in range(2):
        play.heartbeat(completed=ended("c1", status=0))
    assert (play.running(), play.hosts()) == ([], {})


def test_y12_failures_are_counted_and_replaced() -> None:
    play = ready("host1", "host2")
    said = play.heartbeat(completed=ended("c1", "c2", status=-1))
    assert [command.executor for command in only(said, RemoveExecutor)] == ["1", "2"]
    play.beat()
    assert (play.running(), play.pending(), play.failed, play.state.unexpected) == ([], 2, 2, 2)


def test_y13_the_resource_manager_hears_differences() -> None:
    play = NegotiationPlay()
    play.want(1, excluded=["A"])
    play.want(2, excluded=["A", "B"])
    play.want(3)
    assert told(play.said) == [(("A",), ()), (("B",), ()), ((), ("A", "B"))]


def test_y14_failures_leave_the_window() -> None:
    play = ready(*["host1"] * 4, config=replace(CONFIG, exclusion=ExclusionConfig(window_ms=100_000)))
    story = [(0, ["c1"], 1), (100_000, [], 1), (101_000, [], 0), (0, ["c2", "c3"], 2), (50_000, ["c4"], 3)]
    for later, failing, count in [*story, (51_000, [], 1), (50_000, [], 0)]:
        play.now += later
        play.heartbeat(completed=ended(*failing))
        assert play.failed == count


NOT_COUNTED = [0, -102, -103, -104, -106, -105, -107, -100, -101]


def test_y15_which_statuses_exclude_a_host() -> None:
    statuses = [*NOT_COUNTED, -1_000, 1]
    hosts = [f"host{number}" for number in range(1, len(statuses) + 1)]
    play = ready(*hosts, config=replace(CONFIG, exclusion=ExclusionConfig(enabled=True, failures_per_node_max=0)))
    for number, status in enumerate(statuses, start=1):
        play.heartbeat(completed=ended(f"c{number}", status=status))
    assert play.excluded == ["host10", "host11"]
    assert told(play.said) == [(("host10",), ()), (("host11",), ())]
    assert play.failed == 2


def test_y17_a_node_that_goes_is_told_once() -> None:
    play = ready("host1", "host2", config=DECOMMISSIONING)
    hosts = []
    for decommissioning in (["host1"], ["host1", "host2"], []):
        play.beat()
        said = play.answer(decommissioning=decommissioning)
        hosts.append([command.host for command in only(said, DecommissionHost)])
    assert hosts == [["host1"], ["host2"], []]


RULES = ContainerRules(profile_rules=ProfileRules(5), heap_mib=2_048, overhead_mib=384)


@pytest.mark.parametrize(
    ("rules", "profile", "resource"),
    [
        pytest.param(RULES, DEFAULT_PROFILE, Resource(2_432, 5), id="Y16 heap and overhead"),
        pytest.param(
            replace(RULES, off_heap_mib=1_024, off_heap_enabled=True), DEFAULT_PROFILE, Resource(3_456, 5),
            id="Y16 off-heap memory",
        ),
        pytest.param(replace(RULES, overhead_mib=1_024), DEFAULT_PROFILE, Resource(3_072, 5), id="Y16 factor .5"),
        pytest.param(
            replace(RULES, extra=(("yarn.io/gpu", 3), ("yarn.io/fpga", 2))), DEFAULT_PROFILE,
            Resource(2_432, 5, (("yarn.io/fpga", 2), ("yarn.io/gpu", 3))), id="Y18 yarn.executor.resource",
        ),
        pytest.param(RULES, ProfileId(3), Resource(2_432, 3, (("yarn.io/gpu", 3),)), id="Y18 gpu by YARN's name"),
        pytest.param(
            replace(RULES, names=(("gpu", "acme/gpu"), ("fpga", "acme/fpga"))), ProfileId(3),
            Resource(2_432, 3, (("acme/gpu", 3),)), id="Y18 names of one's own",
        ),
    ],
)  # fmt: skip
def test_what_is_asked_for_is_what_the_rules_say(rules: ContainerRules, profile: ProfileId, resource: Resource) -> None:
    asked_for = ResourceProfile(profile, executor=(("cores", 3), ("gpu", 3)), task=(("cpus", 1.0),))
    spec = container_spec(asked_for, rules)
    play = NegotiationPlay(replace(CONFIG, containers=spec if profile == DEFAULT_PROFILE else SPEC))
    play.take(ProfilesDefined(0, ((profile, spec),)))
    play.want({profile: 1})
    (request,) = only(play.beat(), RequestContainers)
    assert request.resource == resource


# Why, with numbers.


def why(command: RequestContainers | CancelRequests | CallResourceManager | TakeRequests | LaunchExecutor) -> Why:
    return command.why


def facts_of(reason: Why) -> tuple[Cause, dict[str, object]]:
    return reason.cause, dict(reason.facts)


def test_why_containers_are_asked_for() -> None:
    play = ready("host1", target=2)
    play.want(5, {"h1": 4}, 4)
    (request,) = only(play.beat(), RequestContainers)
    facts = {"target": 5, "pending": 1, "running": 1, "starting": 0, "missing": 3, "localized": 1}
    assert facts_of(request.why) == (Cause.BELOW_TARGET, facts)


def test_why_requests_are_cancelled() -> None:
    play = ready("host1", target=3)
    play.want(2)
    (cancel,) = only(play.beat(), CancelRequests)
    assert facts_of(cancel.why) == (Cause.ABOVE_TARGET, {"target": 2, "pending": 2, "running": 1, "starting": 0})


def test_why_requests_for_hosts_are_cancelled() -> None:
    play = NegotiationPlay()
    play.want(2, {"h1": 2}, 10)
    play.heartbeat()
    play.want(3, {"h2": 2}, 10)
    (cancel,) = only(play.beat(), CancelRequests)
    assert facts_of(cancel.why) == (Cause.LOCALITY, {"target": 3, "pending": 2, "running": 0, "starting": 0})


def test_why_the_resource_manager_is_called() -> None:
    play = NegotiationPlay()
    play.want(2)
    (call,) = only(play.beat(), CallResourceManager)
    assert facts_of(call.why) == (Cause.HEARTBEAT, {"pending": 2})


def test_why_containers_are_used_and_released() -> None:
    play = NegotiationPlay()
    play.want(1)
    said = play.heartbeat("h1", "h2")
    (taken,), (launch,), (release,) = (
        only(said, TakeRequests),
        only(said, LaunchExecutor),
        only(said, ReleaseContainers),
    )
    assert taken.why.cause is Cause.MATCHED
    assert taken.why.facts["received"] == 2
    assert facts_of(launch.why) == (Cause.BELOW_TARGET, {"running": 0, "target": 1})
    assert facts_of(release.why) == (Cause.SURPLUS, {"received": 2, "used": 1})


def test_why_executors_go() -> None:
    play = ready("h1", "h2")
    (kill,) = only(play.kill("1"), ReleaseContainers)
    assert facts_of(kill.why) == (Cause.KILLED, {"executor": "1"})
    (removal,) = only(play.heartbeat(completed=ended("c2", status=137)), RemoveExecutor)
    facts = {"container": "c2", "host": "h2", "status": 137, "released": 0}
    assert facts_of(removal.why) == (Cause.CONTAINER_COMPLETED, facts)


def test_what_the_resource_manager_does_not_give_is_reported() -> None:
    play = NegotiationPlay()
    play.want(3)
    for given in ((), (), ("h1",), ("h1", "h2")):
        play.heartbeat(*given)
    held = [report for report in play.reports if isinstance(report, Held)]
    assert [(report.phase, report.bound, report.facts["pending"]) for report in held] == [
        (Phase.BEGAN, Bound.RESOURCE_MANAGER, 3),
        (Phase.CHANGED, Bound.RESOURCE_MANAGER, 2),
        (Phase.ENDED, Bound.RESOURCE_MANAGER, 0),
    ]


# The round stands still while the resource manager is asked.


def test_what_comes_during_a_call_waits_for_its_answer() -> None:
    play = ready("h1", "h2", target=3)
    play.beat()
    wanted = ContainersWanted(0, ((DEFAULT_PROFILE, 0),), {}, {}, (), 7)
    assert play.take(wanted) == []
    assert play.kill("1") == []
    said = play.answer(play.on("h3"))
    assert launched(said) == [("3", "c3")]
    assert [type(command) for command in said[-2:]] == [TargetsTaken, ReleaseContainers]
    assert only(said, TargetsTaken) == [TargetsTaken(0, 7, True)]
    assert play.running() == ["2", "3"]


@pytest.mark.parametrize("serial", [0, 1, 3, -1])
def test_an_answer_to_another_call_is_nobodys(serial: int) -> None:
    play = ready("h1")
    play.beat()
    assert play.state.waiting == 2
    assert play.take(ResourcesAnswered(0, serial, (play.on("h2"),))) == []
    assert play.state.waiting == 2


def test_beats_that_come_during_a_call_follow_it() -> None:
    play = NegotiationPlay()
    play.beat()
    assert play.take(Beat(0), Beat(0)) == []
    serials = []
    for _ in range(3):
        serials += [command.serial for command in only(play.answer(), CallResourceManager)]
    assert serials == [2, 3]


def test_an_awaited_launch_stops_the_answer() -> None:
    play = NegotiationPlay(launching=False)
    play.want(2)
    play.beat()
    assert launched(play.answer(play.on("h1"), play.on("h2"))) == [("1", "c1")]
    assert play.beat() == []
    said = play.launched("1")
    assert launched(said) == [("2", "c2")]
    assert only(play.launched("2"), CallResourceManager) != []
    assert play.running() == ["1", "2"]


def test_ids_go_on_from_the_drivers_last_one() -> None:
    play = NegotiationPlay(last_id=41)
    play.want(1)
    assert launched(play.heartbeat("h1")) == [("42", "c1")]


def test_the_reporter_has_the_clock() -> None:
    play = ready("h1", target=3)
    assert yarn.due(play.state, CONFIG) == NEVER
    assert yarn.missing(play.state, DEFAULT_PROFILE) == 0
    play.want(1)
    assert yarn.missing(play.state, DEFAULT_PROFILE) == -2
