"""Kills, completions, failures and nodes, where the YARN allocator surprises: findings in real runs, by number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, ProfileId
from podtide.domain.protocol.cluster_config import NegotiationConfig
from podtide.domain.protocol.containers import Completion, ContainerId, NodeReport
from podtide.domain.protocol.pod_commands import RemoveExecutor
from podtide.domain.protocol.reasons import Threw
from podtide.domain.protocol.yarn_messages import (
    Beat,
    ContainersWanted,
    DecommissionHost,
    ResourcesAnswered,
    TellLossReason,
)
from podtide.domain.yarn import allocator as yarn
from tests.support.negotiation_play import (
    CONFIG,
    EXCLUDING,
    POOLED,
    NegotiationPlay,
    ended,
    only,
    ready,
    released,
    requested,
    told,
)

DECOMMISSIONING = replace(CONFIG, decommission=True)


# 50 - 57: kills, completions, failed launches.


def test_50_an_executor_that_starts_is_unknown_to_a_kill() -> None:
    play = NegotiationPlay(POOLED, launching=False)
    play.want(1)
    play.heartbeat("h1")
    assert play.kill("1") == []
    play.launched("1")
    assert play.running() == ["1"]


@pytest.mark.parametrize("executor", ["1", "7", "driver"])
def test_50_so_is_one_that_was_killed_or_never_was(executor: str) -> None:
    play = ready("h1", "h2")
    play.kill("1")
    assert play.kill(executor) == []


def test_50_a_kill_under_the_same_target_is_replaced() -> None:
    play = ready("h1")
    play.kill("1")
    assert requested(play.beat()) == [(1, None)]


def test_51_the_completion_of_a_killed_one_is_no_news() -> None:
    play = ready("h1")
    play.kill("1")
    assert only(play.heartbeat(completed=ended("c1", status=143)), RemoveExecutor) == []
    assert (play.failed, play.state.unexpected, set(play.state.rows.released)) == (0, 0, set())
    reason = play.state.rows.loss_stored[ExecutorId("1")]
    assert (reason.exit_code, reason.caused_by_app) == (143, False)
    assert reason.message == "Container c1 exited from explicit termination request."


@pytest.mark.parametrize("story", ["surplus", "surplus twice", "never seen"])
def test_52_completions_without_an_executor(story: str) -> None:
    play = ready("h1")
    if story != "never seen":
        play.heartbeat("h2")
        assert play.heartbeat(completed=ended("c2"))[1:] == []
        assert play.failed == 0
    if story != "surplus":
        assert play.heartbeat(completed=ended("c2"))[1:] == []
        assert play.failed == 1
    assert (play.state.unexpected, play.running(), dict(play.state.rows.loss_stored)) == (0, ["1"], {})


def test_52_they_are_on_no_host() -> None:
    play = ready("h1", config=replace(CONFIG, exclusion=replace(EXCLUDING, failures_per_node_max=0)))
    play.heartbeat(completed=ended("c9"))
    assert (play.failed, play.excluded, dict(play.state.health.by_host)) == (1, [], {})


def test_53_twice_reported_counts_twice() -> None:
    play = ready("h1")
    for failed in (1, 2):
        play.heartbeat(completed=ended("c1"))
        assert (play.failed, play.state.unexpected) == (failed, 1)
    assert len(only(play.said, RemoveExecutor)) == 1


def test_54_a_container_lost_while_launching() -> None:
    play = NegotiationPlay(POOLED, launching=False)
    play.want(1)
    play.heartbeat("h1")
    said = play.heartbeat(completed=ended("c1"))
    assert (play.starting(), play.failed, only(said, RemoveExecutor)) == (1, 1, [])
    assert requested(play.heartbeat()) == []
    play.launched("1")
    assert (play.starting(), play.running(), play.hosts()) == (0, [], {})
    assert requested(play.beat()) == [(1, None)]


def test_55_a_failed_launch_gives_the_container_back_and_its_end_is_a_surprise() -> None:
    play = NegotiationPlay(POOLED, launching=False)
    play.want(1)
    play.heartbeat("h1")
    assert released(play.launched("1", "java.lang.RuntimeException: no")) == ["c1"]
    assert (play.starting(), set(play.state.rows.released), set(play.state.rows.launching)) == (0, set(), set())
    play.heartbeat(completed=ended("c1"))
    assert (play.failed, play.state.unexpected) == (1, 0)


def test_55_a_fatal_one_does_not() -> None:
    play = NegotiationPlay(POOLED, launching=False)
    play.want(1)
    play.heartbeat("h1")
    assert play.launched("1", "java.lang.InterruptedException", fatal=True) == []
    assert (play.starting(), play.threw) == (0, ["java.lang.InterruptedException"])


@pytest.mark.parametrize("status", [-1_000, *range(-110, -98), -1, 0, 1, 137])
def test_56_which_statuses_count(status: int) -> None:
    play = ready("h1")
    (removal,) = only(play.heartbeat(completed=ended("c1", status=status)), RemoveExecutor)
    counted = status != 0 and not -107 <= status <= -100
    assert play.failed == counted
    assert removal.reason.caused_by_app == (counted or status in (-103, -104))


def test_57_after_the_shutdown_nothing_counts_and_all_is_told() -> None:
    play = ready("h1")
    play.end_application()
    (removal,) = only(play.heartbeat(completed=ended("c1")), RemoveExecutor)
    assert (removal.reason.caused_by_app, removal.reason.exit_code, play.failed) == (False, 1, 0)


# Loss reasons.


def test_a_reason_is_told_when_the_container_is_over() -> None:
    play = ready("h1")
    assert play.ask_loss("1", "1") == []
    assert play.state.loss_requests == 1
    said = play.heartbeat(completed=ended("c1", status=137))
    answers = only(said, TellLossReason)
    assert [(one.executor, one.reason is not None and one.reason.exit_code) for one in answers] == [("1", 137)] * 2
    assert [type(command) for command in said[-1:]] == [RemoveExecutor]
    assert (play.state.loss_requests, dict(play.state.rows.loss_stored)) == (0, {})


def test_51_a_reason_that_nobody_waited_for_is_told_once() -> None:
    play = ready("h1")
    play.heartbeat(completed=ended("c1", status=137))
    (answer,) = only(play.ask_loss("1"), TellLossReason)
    assert answer.reason is not None
    assert answer.reason.exit_code == 137
    (again,) = only(play.ask_loss("1"), TellLossReason)
    assert again.reason is None
    assert again.failure == "Fail to find loss reason for non-existent executor 1"


# 58 - 60: exclusion, as far as targets have to do with it.


def test_58_hosts_of_a_call_that_changes_no_target_are_not_heard() -> None:
    play = ready("h1")
    assert not play.want(1, excluded=["A"])
    assert told(play.said) == []
    assert play.want({}, excluded=["A"])
    assert told(play.said) == [(("A",), ())]
    assert play.want({}, excluded=["B"])
    assert told(play.said)[1:] == [(("B",), ("A",))]
    assert dict(play.state.targets) == {0: 0}


def test_58_a_new_profile_at_the_initial_number_is_no_change() -> None:
    play = NegotiationPlay(replace(CONFIG, executors_initial=3))
    play.profiles(1, 2)
    assert not play.want({0: 3, 1: 3}, excluded=["A"])
    assert play.excluded == []
    assert play.want({0: 3, 1: 3, 2: 4}, excluded=["A"])
    play.beat()
    assert [play.pending(profile) for profile in (0, 1, 2)] == [3, 3, 4]


def test_59_a_changed_target_looks_at_the_list_again() -> None:
    play = ready(*["h1"] * 3, config=replace(CONFIG, exclusion=EXCLUDING))
    play.heartbeat(completed=ended("c1", "c2", "c3"))
    play.now = 100
    play.heartbeat()
    assert play.excluded == ["h1"]
    assert not play.want(3)
    assert play.excluded == ["h1"]
    play.want(4)
    assert told(play.said) == [(("h1",), ()), ((), ("h1",))]


def test_60_the_next_failure_after_an_exclusion_excludes_again() -> None:
    play = ready(*["h1"] * 3, config=replace(CONFIG, exclusion=EXCLUDING))
    play.heartbeat(completed=ended("c1", "c2", "c3"))
    play.now = 100
    play.want(4)
    play.heartbeat("h1")
    play.heartbeat(completed=ended("c4"))
    assert play.excluded == ["h1"]


def test_62_all_nodes_are_those_of_the_last_answer() -> None:
    play = ready("h1")
    play.want(2, excluded=["A", "B"])
    for nodes, all_of_them in ((3, False), (2, True), (1, True), (0, False)):
        play.beat()
        play.answer(nodes=nodes)
        assert play.state.health.all_excluded is all_of_them


# 63 - 64: nodes and failed calls.


def test_63_a_host_twice_in_one_answer_is_told_twice() -> None:
    play = ready("h1", config=DECOMMISSIONING)
    play.beat()
    assert len(only(play.answer(decommissioning=["h1", "h1"]), DecommissionHost)) == 2
    play.beat()
    assert only(play.answer(decommissioning=["h1"]), DecommissionHost) == []


def test_63_two_hundred_are_remembered_and_the_first_goes_first() -> None:
    play = ready("h1", config=DECOMMISSIONING)
    for number in range(200):
        play.beat()
        play.answer(decommissioning=[f"n{number}"])
    play.beat()
    assert only(play.answer(decommissioning=["n0"]), DecommissionHost) == []
    play.beat()
    play.answer(decommissioning=["n200"])
    play.beat()
    said = play.answer(decommissioning=["n1", "n0"])
    assert [command.host for command in only(said, DecommissionHost)] == ["n0"]


@pytest.mark.parametrize("state", ["RUNNING", "DECOMMISSIONED", "LOST", "NEW", "decommissioning"])
def test_63_other_states_are_no_news(state: str) -> None:
    play = ready("h1", config=DECOMMISSIONING)
    play.beat()
    said = play.take(ResourcesAnswered(0, play.state.serial, updated=(NodeReport("h1", state),), nodes=3))
    assert only(said, DecommissionHost) == []


def test_63_nobody_is_told_where_it_is_off() -> None:
    play = ready("h1")
    play.beat()
    assert only(play.answer(decommissioning=["h1"]), DecommissionHost) == []


def test_64_a_failed_call_keeps_what_was_asked_for() -> None:
    play = NegotiationPlay()
    play.want(2)
    play.beat()
    assert play.refuse() == []
    assert (play.pending(), play.state.waiting, len(play.threw)) == (2, None, 1)
    assert requested(play.heartbeat("h1", "h2")) == []
    assert play.running() == ["1", "2"]


def test_a_completion_of_nothing_at_all() -> None:
    play = ready("h1")
    said = play.take(ResourcesAnswered(0, play.state.serial, completed=(Completion(ContainerId(""), 0),)))
    assert said == []


def test_a_target_for_a_profile_that_nobody_defined_is_refused_alone() -> None:
    config = NegotiationConfig()
    state = yarn.begin(config, 0).state
    wanted = ContainersWanted(5, ((ProfileId(7), 3), (DEFAULT_PROFILE, 4)), {}, {})
    step = yarn.negotiate(state, (wanted, Beat(5)), config, 5)
    assert [one.what for one in step.reports if isinstance(one, Threw)] == [
        "java.util.NoSuchElementException: key not found: 7"
    ]
    assert dict(step.state.targets) == {DEFAULT_PROFILE: 4}
