"""What Spark wanted, as far as its pods tell."""

from __future__ import annotations

from typing import Any

import pytest

from podtide.domain.live import observed_targets as following
from podtide.domain.protocol.executor_stimuli import TargetsSet
from podtide.domain.protocol.pod_stimuli import Outcome, PodsReplaced, PodsUpdated
from podtide.domain.protocol.pods import PodManifest


def pod(number: object, *, phase: str | None = "Pending", deleted: bool = False, profile: str = "0") -> PodManifest:
    labels = {"spark-exec-id": str(number), "spark-exec-resourceprofile-id": profile}
    return PodManifest("p", labels, deleted_at="2026-01-01T00:00:00Z" if deleted else None, phase=phase)


def targets(*items: Any) -> list[tuple[tuple[int, int], ...]]:
    """The targets that are told over these looks, one after the other."""
    state, told = following.begin(), list[Any]()
    for now, item in enumerate(items):
        step = following.follow(state, (item,), now)
        state = step.state
        told.extend(command.targets for command in step.commands)
        assert all(isinstance(command, TargetsSet) for command in step.commands)
    return told


def updated(*pods: PodManifest) -> PodsUpdated:
    return PodsUpdated(0, pods)


@pytest.mark.parametrize(
    ("looks", "told"),
    [
        ([PodsReplaced(0, (pod(1), pod(2)))], [((0, 2),)]),
        ([updated(pod(1)), updated(pod(1, phase="Running"))], [((0, 1),)]),
        ([updated(pod(1), pod(2)), updated(pod(1, phase="Failed"))], [((0, 2),), ((0, 1),)]),
        ([updated(pod(1)), updated(pod(1, deleted=True))], [((0, 1),), ((0, 0),)]),
        ([updated(pod(1), pod(2)), PodsReplaced(0, (pod(2),))], [((0, 2),), ((0, 1),)]),
        ([updated(pod(1), pod(2)), Outcome(0, 1, pods=(pod(2),))], [((0, 2),), ((0, 1),)]),
        ([updated(pod(1)), Outcome(0, 1)], [((0, 1),)]),
        ([updated(pod(1), pod(2, profile="3"))], [((0, 1), (3, 1))]),
        ([updated(pod(1, profile="x"), pod("EXECID"))], [((0, 1),)]),
        ([updated(pod(1, phase=None))], [((0, 1),)]),
        ([updated(pod(1)), updated(pod(1, profile="2"))], [((0, 1),), ((0, 0), (2, 1))]),
    ],
)
def test_targets_are_the_pods_that_are_there(looks: list[Any], told: list[Any]) -> None:
    assert targets(*looks) == told
