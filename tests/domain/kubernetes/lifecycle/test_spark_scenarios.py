"""Scenarios L1 to L10 of Spark's own suite and their like, by their ids (spec: scenarios, L)."""

from __future__ import annotations

from podtide.domain.protocol.cluster_config import LifecycleConfig
from podtide.domain.protocol.executor_commands import ExitReason, RemoveExecutor
from podtide.domain.protocol.pod_commands import DeletePod, MarkInactive
from podtide.domain.protocol.pods import PodContainer
from tests.support.lifecycle_play import Play, ended, pod

KEEPING = LifecycleConfig(delete_on_termination=False)


def reason_of(play: Play) -> ExitReason:
    return next(c.reason for c in play.commands if isinstance(c, RemoveExecutor))


def test_l1_failures_count_within_the_window() -> None:
    play = Play(LifecycleConfig(failures_max=2, failures_window_ms=2_000))
    play.updates(1_000, pod(1, "Failed"), pod(2, "Failed"))
    assert (play.count, play.exit_code) == (2, None)
    play.round(2_000)
    assert (play.count, play.exit_code) == (2, None)
    play.round(4_000)
    assert (play.count, play.exit_code) == (0, None)
    play.updates(5_000, pod(3, "Failed"), pod(4, "Failed"), pod(5, "Failed"))
    assert (play.count, play.exit_code) == (3, 11)


def test_l2_a_failed_pod_is_removed_from_spark_and_deleted() -> None:
    play = Play(LifecycleConfig())
    play.updates(0, pod(1, "Failed", code=1))
    reason = reason_of(play)
    assert (reason.kind, reason.exit_code, reason.caused_by_app) == ("ExecutorExited", 1, True)
    assert reason.message.startswith("\nThe executor with id 1 exited with exit code 1(generic, look at logs")
    assert (play.removed, play.deleted) == ([1], [1])


def test_l3_the_same_failed_pod_in_two_rounds() -> None:
    play = Play(LifecycleConfig())
    play.updates(0, pod(1, "Failed", code=1))
    first = play.commands
    second = play.updates(1_000, pod(1, "Failed", code=1))
    assert [type(c) for c in first] == [RemoveExecutor, DeletePod]
    assert [type(c) for c in second] == [DeletePod]


def test_l4_a_pod_is_only_deleted_if_the_api_still_has_it() -> None:
    """The second round asks again; the actuator deletes only what it finds."""
    play = Play(LifecycleConfig())
    play.updates(0, pod(1, "Failed", code=1))
    play.updates(1_000, pod(1, "Failed", code=1))
    assert [c.check for c in play.commands if isinstance(c, DeletePod)] == [True]
    assert play.removed == []


def test_l5_an_executor_without_a_pod_is_lost_after_the_delta() -> None:
    play = Play(LifecycleConfig(missing_delta_ms=30_000))
    play.know((1, 7))
    play.round(30_007, play.listed(30_007))
    assert play.commands == ()
    play.round(30_008, play.listed(30_008))
    reason = reason_of(play)
    assert (play.removed, reason.exit_code, reason.caused_by_app) == ([1], -1, False)
    for text in ("ID 1 ", "registered at 7 ms", "polling time (30008 ms)", "delta time (30000 ms)"):
        assert text in reason.message


def test_l6_where_pods_are_kept_a_failed_one_is_labelled() -> None:
    play = Play(KEEPING)
    play.updates(0, pod(1, "Failed", code=1))
    assert [type(c) for c in play.commands] == [RemoveExecutor, MarkInactive]
    assert play.state.inactivated() == (1,)


def test_l7_a_side_car_listed_first_does_not_lend_its_exit_code() -> None:
    play = Play(LifecycleConfig())
    side_car: PodContainer = ended(5, "side-car")
    play.updates(0, pod(1, "Failed", containers=(side_car, ended(1))))
    assert reason_of(play).exit_code == 1


def test_l8_a_pod_that_failed_twice_in_a_batch() -> None:
    play = Play(LifecycleConfig())
    play.round(0, play.updated(), play.updated(pod(1, "Failed")), play.updated(pod(1, "Failed", code=1)))
    assert (play.count, play.removed, play.deleted) == (1, [1], [1])


def test_l9_a_deleted_pod_is_not_deleted_at_the_api() -> None:
    play = Play(LifecycleConfig())
    play.updates(0, pod(1, "Failed", deleted=True))
    assert (play.removed, play.deleted, play.count) == ([1], [], 0)
    assert not reason_of(play).caused_by_app


def test_l10_an_inactive_pod_is_passed_over_but_counts_as_a_failure() -> None:
    play = Play(KEEPING)
    play.updates(0, pod(1, "Failed", inactive=True))
    assert play.commands == ()
    assert (play.count, play.state.failed()) == (1, (1,))
