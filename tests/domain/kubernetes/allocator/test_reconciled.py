"""What is known of pods only from outside: ids that are taken, pods that will never come, creations nobody knows of."""

from __future__ import annotations

import pytest

from podtide.domain.protocol.cluster_config import AllocationConfig
from podtide.domain.protocol.pod_commands import CountFailure, CreatePod
from podtide.domain.protocol.pod_stimuli import UNKNOWN_OUTCOME, CallFailure, Reconciled
from podtide.domain.protocol.pods import PodNumber
from tests.support.pods_play import Api, PodsPlay


def reconciled(last: int = 0, *forgotten: int) -> Reconciled:
    return Reconciled(0, PodNumber(last), tuple(map(PodNumber, forgotten)))


def test_the_mark_never_goes_back() -> None:
    play = PodsPlay(AllocationConfig())
    play.feed(reconciled(40), reconciled(7))
    play.want(1)
    play.deliver(1_000)
    assert play.asked == [41]


def test_a_pod_that_will_never_come_is_asked_for_again() -> None:
    play = PodsPlay(AllocationConfig())
    play.want(3)
    play.deliver(1_000)
    assert play.asked == [1, 2, 3]
    play.feed(reconciled(0, 2, 3))
    play.deliver(1_000)
    assert play.created == [1]
    play.pending(1)
    play.deliver(1_000)
    assert play.asked == [1, 2, 3, 4, 5]


def test_what_is_seen_or_was_never_asked_for_is_not_forgotten() -> None:
    play = PodsPlay(AllocationConfig())
    play.want(2)
    play.deliver(1_000)
    play.running(1, 2)
    play.feed(reconciled(0, 1, 2, 99))
    play.deliver(1_000)
    assert play.asked == [1, 2]


def test_a_registered_executor_whose_pod_was_never_seen_can_be_forgotten() -> None:
    play = PodsPlay(AllocationConfig())
    play.want(1)
    play.deliver(1_000)
    play.know(1)
    play.deliver(1_000)
    assert play.joined == [1]
    play.unknow(1)
    play.feed(reconciled(0, 1))
    play.deliver(1_000)
    assert play.joined == []
    assert play.asked == [1, 2]


@pytest.mark.parametrize(("lands", "asked"), [(False, [1, 2, 3, 4]), (True, [1, 2, 3])])
def test_a_creation_of_which_nobody_knows_is_no_failure_and_its_pod_counts_when_it_is_seen(
    lands: bool, asked: list[int]
) -> None:
    play = PodsPlay(AllocationConfig(), Api(silent=True))
    play.want(2)
    for command in play.said(CreatePod):
        play.answer(command, CallFailure(None, "lost", UNKNOWN_OUTCOME))
    assert play.said(CountFailure) == []
    assert play.created == []
    if lands:
        play.pending(2)
    play.deliver(1_000)
    assert play.asked == asked
