"""What a hostile reading of the Kubernetes side found: the composed machines where no recorded scenario goes."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from podtide.domain import engine
from podtide.domain.base.units import ExecutorId, ProfileId
from podtide.domain.protocol import pod_commands
from podtide.domain.protocol.backend_messages import HostsExcluded
from podtide.domain.protocol.cluster_config import AllocationConfig, ClaimTemplate
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.executor_stimuli import Stopping, Wake
from podtide.domain.protocol.pod_stimuli import Outcome
from podtide.domain.protocol.stimuli import ExecutorAdded, StageSubmitted
from tests.support.engine_play import Answers, AppPlay, S, config
from tests.support.pods_play import Api, PodsPlay

CLAIMS: dict[str, Any] = {"claims": (ClaimTemplate("spark-local-dir-1", "OnDemand", 0, "fast", "1Gi"),)}


def standing(play: AppPlay, kind: type[Any]) -> Any:
    """The call at which the round stands."""
    *_, last = play.all(kind)
    return last


def at_excess() -> tuple[AppPlay, Any]:
    """A round that stands at the delete of excess pods, with another profile still to serve."""
    play = AppPlay(config(initial=3), Answers(silent=(pod_commands.DeletePods,)))
    play.show("Pending", 1, 2, 3)
    play.until(70 * S)
    play.want(1, 5)
    play.until(72 * S)
    return play, standing(play, pod_commands.DeletePods)


def at_claim() -> tuple[AppPlay, Any]:
    """A round that stands at a claim of the first of three pods."""
    play = AppPlay(config(initial=3, allocation=CLAIMS), Answers(silent=(pod_commands.CreateClaim,)))
    return play, standing(play, pod_commands.CreateClaim)


def at_listing() -> tuple[AppPlay, Any]:
    """A round that stands at the list of reusable claims."""
    reuse = {**CLAIMS, "own_claims": True, "reuse_claims": True}
    answers = Answers(silent=(pod_commands.ListClaims,))
    play = AppPlay(config(initial=3, allocation=reuse, driver_pod="driver"), answers)
    return play, standing(play, pod_commands.ListClaims)


@pytest.mark.parametrize("stand", [at_excess, at_claim, at_listing])
def test_no_pod_is_asked_for_after_stop_deleted_them_all(stand: Any) -> None:
    play, waits_for = stand()
    made = len(play.created)
    play.feed(Stopping(play.now))
    assert play.deleted[-1][1:] == ((), None), "all pods of the application"
    play.answers.silent = ()
    play.feed(Outcome(play.now, waits_for.serial))
    play.wait(100 * S)
    assert len(play.created) == made
    assert not play.side.allocator or play.side.allocator.round is None


def test_a_round_that_stop_cut_short_ends_when_its_creations_came_back() -> None:
    play = AppPlay(config(initial=2), Answers(silent=(pod_commands.CreatePod,)))
    play.feed(Stopping(play.now))
    assert play.side.allocator is not None
    assert play.side.allocator.round is not None
    for command in play.all(pod_commands.CreatePod):
        play.feed(Outcome(play.now, command.serial))
    assert play.side.allocator.round is None
    assert play.wait(3600 * S).created == [1, 2]


def test_recovery_mode_is_warned_of_before_the_driver_pod_is_waited_for() -> None:
    settings = AllocationConfig(driver_pod="driver", task_cpus=Decimal("0.5"), recovery_mode=True, remarks=True)
    play = PodsPlay(settings, Api(silent=True))
    (looked_up,) = play.said(pod_commands.GetDriverPod)
    play.feed(Outcome(0, looked_up.serial))
    (awaited,) = play.said(pod_commands.AwaitDriverReady)
    assert len(play.remarks("recovery mode")) == 1
    play.feed(Outcome(0, awaited.serial))
    assert len(play.remarks("recovery mode")) == 1


def test_no_executor_of_an_excluded_host_is_let_in() -> None:
    play = AppPlay(config(initial=2))
    play.feed(HostsExcluded(play.now, frozenset({"host-1"})))  # type: ignore[arg-type]  # a word of the driver's own
    play.up(1, 2)
    assert play.accepted == {"1": False, "2": True}


def test_an_older_state_is_due_when_it_was() -> None:
    scaling = ScalingConfig(shuffle_tracking=False, executors_max=10, idle_timeout_ms=600 * S)
    play = AppPlay(config(dynamic=True, scaling=scaling))
    play.register(1)
    play.until(1002)
    play.feed(StageSubmitted(play.now, 0, 0, 5, ProfileId(0)))
    old, settings = play.state, play.config
    due = engine.wake_due(old, settings)
    first = engine.advance(old, [Wake(2003)], settings, 2003).commands
    engine.advance(old, [ExecutorAdded(1500, ExecutorId("9"), ProfileId(0))], settings, 1500)  # takes the books along
    assert engine.wake_due(old, settings) == due
    assert engine.advance(old, [Wake(2003)], settings, 2003).commands == first
