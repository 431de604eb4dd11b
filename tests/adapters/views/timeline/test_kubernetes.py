"""What happened to an application, told as moments: runs merged, bounds with their durations, memory bounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pyrsistent import pmap

from podtide.adapters.views.timeline.kubernetes import HEAD, TAIL, PodTimeline
from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.engine import launch
from podtide.domain.protocol import executor_commands as ec, pod_commands as pc
from podtide.domain.protocol.application import EngineConfig
from podtide.domain.protocol.cluster_config import KubernetesConfig, ReplicasConfig
from podtide.domain.protocol.commands import Departure, Kill, RequestTotal, Step, TargetChange
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.executor_stimuli import TargetsSet
from podtide.domain.protocol.pod_stimuli import CallFailure, Outcome
from podtide.domain.protocol.pods import PodNumber
from podtide.domain.protocol.reasons import Bound, Cause, Held, Phase, Threw, Why

STATE = launch(EngineConfig(ScalingConfig(), KubernetesConfig(replicas=ReplicasConfig())), 0).state
ZERO = ProfileId(0)


class Played:
    """A timeline that is told of steps; targets are as they are asked for, because no allocator is there."""

    def __init__(self) -> None:
        self.timeline = PodTimeline()

    def step(self, at: Millis, *items: Any, stimuli: Sequence[Any] = ()) -> Played:
        commands = tuple(item for item in items if not isinstance(item, Held | Threw))
        reports = tuple(item for item in items if isinstance(item, Held | Threw))
        self.timeline.step(at, stimuli, Step(STATE, commands, reports))
        return self

    def told(self, end: Millis = 0) -> list[str]:
        self.timeline.finish(end)
        head, left, tail = self.timeline.rows()
        assert left >= 0
        return [f"{row.at} {row.mark} {row.what}: {' · '.join(row.why)}" for row in (*head, *tail)]


def create(at: Millis, *numbers: int, target: int = 9) -> list[pc.CreatePod]:
    why = Why(Cause.BELOW_TARGET, pmap({"missing": target, "target": target}))
    return [pc.CreatePod(at, 8 * number, PodNumber(number), ZERO, why) for number in numbers]


def gone(at: Millis, number: int, code: int = 1, cause: Cause = Cause.POD_FAILED) -> ec.RemoveExecutor:
    return ec.RemoveExecutor(at, ExecutorId(str(number)), ec.ExitReason("ExecutorExited", "bye", code), Why(cause))


def held(at: Millis, phase: Phase, missing: int = 0, bound: Bound = Bound.BATCH_SIZE) -> Held:
    return Held(at, phase, bound, ZERO, (), pmap({"missing": missing}))


def test_batches_for_one_target_are_one_moment() -> None:
    played = Played()
    for batch in range(3):
        played.step(batch * 1_000, *create(batch * 1_000, 2 * batch + 1, 2 * batch + 2))
    assert played.told() == ["0 raised + 6 pods (1 to 6): 9 missing of 9 · 3 batches over 2 s"]


@pytest.mark.parametrize(
    ("second", "target", "moments"),
    [(5_000, 9, 1), (5_001, 9, 2), (1_000, 10, 2)],
    ids=["near", "apart", "other target"],
)
def test_what_is_apart_is_told_apart(second: Millis, target: int, moments: int) -> None:
    played = Played().step(0, *create(0, 1)).step(second, *create(second, 2, target=target))
    assert len(played.told()) == moments


def test_creations_that_failed_are_counted_with_what_the_api_said() -> None:
    failure = CallFailure(403, "Failure executing: POST. Message: quota. Received status: none")
    played = Played().step(0, *create(0, 1, 2)).step(5, stimuli=[Outcome(5, 8, failure), Outcome(5, 16)])
    (told,) = played.told()
    assert told.endswith("1 creation failed: 403 quota.")


def test_executors_gone_for_one_reason_are_one_moment() -> None:
    played = Played().step(0, gone(0, 1), gone(0, 2)).step(900, gone(900, 3, 137)).step(1_000, gone(1_000, 4))
    assert played.told() == [
        "0 killed gone 1, 2, 4: ExecutorExited, exit code 1: bye · pod failed · 3 times over 1 s",
        "900 killed gone 3: ExecutorExited, exit code 137: bye · pod failed",
    ]


def test_a_bound_is_told_with_how_long_and_the_most_that_it_held() -> None:
    played = Played()
    for at, phase, missing in ((0, Phase.BEGAN, 3), (500, Phase.CHANGED, 8), (900, Phase.CHANGED, 2)):
        played.step(at, held(at, phase, missing))
    played.step(2_000, held(2_000, Phase.ENDED, 2)).step(9_000, held(9_000, Phase.BEGAN, 1))
    assert played.told(10_000) == [
        "0 held held 8: by allocation.batch.size · for 2 s",
        "9000 held held 1: by allocation.batch.size · to the end, 1 s",
    ]


def test_targets_are_told_with_who_asked() -> None:
    played = Played().step(0, stimuli=[TargetsSet(0, ((ZERO, 5),))])
    why = Why(Cause.BACKLOG, pmap({"need": 7}))
    change = TargetChange(ZERO, 5, 7, why)
    played.step(10, RequestTotal(10, 1, pmap({ZERO: 7}), {}, {}, (change,), why))
    assert played.told() == [
        "0 raised target 0 → 5: set from outside",
        "10 raised target 5 → 7: +2: backlog · need 7",
    ]


def test_other_commands_have_their_moments() -> None:
    idle = Why(Cause.IDLE, pmap({"timeout_ms": 5_000}))
    departing = tuple(Departure(ExecutorId(str(n)), ZERO, idle) for n in range(10))
    excess = Why(Cause.ABOVE_TARGET, pmap({"excess": 2}))
    played = Played().step(
        1,
        Kill(1, 1, departing),
        pc.DeletePods(1, 8, (PodNumber(3), PodNumber(4)), "Pending", excess),
        pc.DeletePods(1, 16, None, None, Why(Cause.STOPPED)),
        pc.ScaleSet(1, 24, "statefulset", "s", ProfileId(2), 6, Why(Cause.TARGET_SET)),
        Threw(1, "ExecutorPodsAllocator", "java.lang.X: y"),
        ec.StopApplication(1, 11, Why(Cause.TOO_MANY_FAILURES, pmap({"failures": 5}))),
    )
    assert played.told() == [
        "1 killed kill 10 executors: idle (timeout 5 s)",
        "1 killed − 3, 4: above target",
        "1 killed − all pods: stopped",
        "1 quiet statefulset of 6: ",
        "1 threw exit code 11: too many failures · failures 5",
        "1 threw ExecutorPodsAllocator threw: java.lang.X: y",
    ]


def test_of_many_moments_the_first_and_the_last_are_kept() -> None:
    played = Played()
    for number in range(1_000):
        played.step(number * 10_000, *create(number * 10_000, number))
    assert len(played.told()) == HEAD + TAIL
    _, left, tail = played.timeline.rows()
    assert left == 1_000 - HEAD - TAIL
    assert tail[-1].what == "+ pod 999"
