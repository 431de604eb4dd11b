"""Kills, completions, failures and nodes, where the YARN allocator surprises: findings in real runs, by number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtide.domain.base.units import DEFAULT_PROFILE, ProfileId
from podtide.domain.protocol.cluster_config import NegotiationConfig
from podtide.domain.protocol.containers import NodeReport
from podtide.domain.protocol.executor_commands import RemoveExecutor
from podtide.domain.protocol.reasons import Threw
from podtide.domain.protocol.yarn_messages import (
    Beat,
    ContainersWanted,
    DecommissionHost,
    ResourcesAnswered,
    TellLossReason,
)
from podtide.domain.yarn import allocator as yarn
from tests.support.negotiation_play import CONFIG, ended, only, ready

DECOMMISSIONING = replace(CONFIG, decommission=True)


# 50 - 57: kills, completions, failed launches.


def test_53_twice_reported_counts_twice() -> None:
    play = ready("h1")
    for failed in (1, 2):
        play.heartbeat(completed=ended("c1"))
        assert (play.failed, play.state.unexpected) == (failed, 1)
    assert len(only(play.said, RemoveExecutor)) == 1


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


# 63 - 64: nodes and failed calls.


@pytest.mark.parametrize("state", ["RUNNING", "DECOMMISSIONED", "LOST", "NEW", "decommissioning"])
def test_63_other_states_are_no_news(state: str) -> None:
    play = ready("h1", config=DECOMMISSIONING)
    play.beat()
    said = play.take(ResourcesAnswered(0, play.state.serial, updated=(NodeReport("h1", state),), nodes=3))
    assert only(said, DecommissionHost) == []


def test_a_target_for_a_profile_that_nobody_defined_is_refused_alone() -> None:
    config = NegotiationConfig()
    state = yarn.begin(config, 0).state
    wanted = ContainersWanted(5, ((ProfileId(7), 3), (DEFAULT_PROFILE, 4)), {}, {})
    step = yarn.negotiate(state, (wanted, Beat(5)), config, 5)
    assert [one.what for one in step.reports if isinstance(one, Threw)] == [
        "java.util.NoSuchElementException: key not found: 7"
    ]
    assert dict(step.state.targets) == {DEFAULT_PROFILE: 4}
