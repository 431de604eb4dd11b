"""Lenses of a run in charge, and what the loop does while its driver is silent."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from podtide.domain.base.units import NEVER, ExecutorId, ProfileId
from podtide.domain.live.filters import (
    AdoptFilter,
    FollowFilter,
    GoneFilter,
    HeadlessFilter,
    MarkFilter,
    ReadableFilter,
    RegistrationFilter,
    ShadowFilter,
)
from podtide.domain.live.headless import HeadlessConfig
from podtide.domain.live.shadow import Deed, Difference, Same, ShadowConfig
from podtide.domain.protocol.application import AnyStimulus, Command
from podtide.domain.protocol.executor_stimuli import KillRequested, RegisterExecutor, TargetsSet, Wake
from podtide.domain.protocol.pod_stimuli import UNKNOWN_OUTCOME, Outcome, PodsReplaced, PodsUpdated, Reconciled
from podtide.domain.protocol.pods import Pod, PodManifest, PodNumber, PodState
from podtide.entrypoints.live.config import awake
from podtide.entrypoints.live.loop import Inbox, LiveEnvironment
from tests.entrypoints.live.test_loop import TARGETS, Calls, Pulse, create, environment, pod as executor_pod
from tests.support.clock import MillisClock

ASLEEP = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.initialExecutors": "0",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "3650d",
    "spark.dynamicAllocation.executorIdleTimeout": "3650d",
}
OFF = {
    "spark.executor.instances": "1",
    "spark.kubernetes.allocation.maximum": "1",
    "spark.dynamicAllocation.executorIdleTimeout": "315360000",
}


def pod(executor: str | None, profile: str | None = "0", name: str = "p") -> PodManifest:
    labels = {"spark-exec-id": executor, "spark-exec-resourceprofile-id": profile}
    return PodManifest(name, {key: value for key, value in labels.items() if value is not None})


@pytest.mark.parametrize(
    ("executor", "profile", "said"),
    [
        ("7", "0", None),
        ("EXECID", "0", None),
        (None, "0", None),
        ("abc", "0", "label spark-exec-id is 'abc', an executor id from 1 on was expected"),
        ("0", "0", "label spark-exec-id is '0', an executor id from 1 on was expected"),
        ("-3", "0", "label spark-exec-id is '-3'"),
        ("2147483647", "0", "ids up to 10 were given out"),
        ("9" * 30, "0", "an executor id from 1 on was expected"),
        ("7", None, "label spark-exec-resourceprofile-id is '', a resource profile id was expected"),
        ("7", "x", "label spark-exec-resourceprofile-id is 'x'"),
    ],
)
def test_a_pod_that_cannot_be_read_is_passed_over_and_told(executor: str, profile: str, said: str | None) -> None:
    told: list[str] = []
    stimulus_filter = ReadableFilter(PodNumber(10), told.append)
    good = pod("1", name="good")
    strange = pod(executor, profile, "strange")
    for stimulus in (
        PodsUpdated(0, (good, strange)),
        PodsReplaced(0, (good, strange)),
        Outcome(0, 1, pods=(good, strange)),
    ):
        (shown,) = stimulus_filter.see([stimulus], 0)
        assert shown == (stimulus if said is None else stimulus._replace(pods=(good,)))
    assert len(told) == (said is not None), "each is told once"
    assert all(said is not None and said in text and "pod strange" in text for text in told)


def test_ids_that_grow_are_not_strange() -> None:
    told: list[str] = []
    stimulus_filter = ReadableFilter(PodNumber(0), told.append)
    for number in (900_000, 1_800_000, 2_700_000):
        stimulus_filter.see([PodsUpdated(0, (pod(str(number)),))], 0)
    assert told == []


def test_what_went_while_nobody_was_there_is_said_to_be_gone() -> None:
    stimulus_filter = GoneFilter("app")
    stimulus_filter.expect(
        [Pod(PodNumber(n), PodState.RUNNING, pod(str(n))) for n in (1, 2)], {PodNumber(3): ProfileId(5)}, []
    )
    listed = PodsReplaced(9, (pod("1"),))
    gone, shown = stimulus_filter.see([listed], 9)
    assert shown is listed
    assert isinstance(gone, PodsUpdated)
    assert [one.labels["spark-exec-id"] for one in gone.pods] == ["3", "2"]
    assert {one.phase for one in gone.pods} == {None}
    assert all(one.deleted_at is not None for one in gone.pods)
    assert stimulus_filter.see([listed], 10) == [listed], "once"


def test_creations_that_were_never_answered_are_answered_by_the_first_list() -> None:
    stimulus_filter = GoneFilter("app")
    stimulus_filter.expect([], {}, [create(1), create(2)])
    listed = PodsReplaced(9, (pod("1"),))
    shown, first, second = stimulus_filter.see([listed], 9)
    assert shown is listed
    assert first == Outcome(9, 1, found=1)
    assert isinstance(second, Outcome)
    assert second.serial == 2
    assert second.failure is not None
    assert second.failure.exception_class == UNKNOWN_OUTCOME


def test_nothing_is_gone_where_nobody_was_before() -> None:
    listed = PodsReplaced(9, ())
    assert GoneFilter("app").see([listed], 9) == [listed]


def test_a_decision_may_lead_to_something_to_see() -> None:
    told: list[Difference | Same] = []
    live, inbox, calls = environment(MillisClock(1_000), ShadowFilter(ShadowConfig(), told.append))
    inbox.hear(PodsReplaced(0, ()))
    inbox.hear(PodsUpdated(0, (executor_pod(1),)))
    _, heard = live.wait(NEVER)
    assert [type(one) for one in heard] == [Reconciled, PodsReplaced]
    live.apply(create(1), 1_000)
    assert calls.commands == [create(1)]
    _, heard = live.wait(NEVER)
    assert [one for one in heard if isinstance(one, PodsUpdated)] == [PodsUpdated(1_000, (executor_pod(1),))]
    assert [type(one) for one in told] == [Same]


def test_the_shadow_looks_again_when_its_patience_ends() -> None:
    clock, told = MillisClock(0), list[Difference | Same]()
    live, inbox, _ = environment(clock, ShadowFilter(ShadowConfig(patience_ms=500), told.append))
    inbox.hear(PodsReplaced(0, ()))
    inbox.hear(PodsUpdated(0, (executor_pod(1),)))
    live.wait(NEVER)
    clock.at = 500
    _, heard = live.wait(NEVER)
    assert [type(one) for one in heard] == [Reconciled, PodsUpdated]
    assert [one.deed for one in told if isinstance(one, Difference)] == [Deed.CREATED_BY_SPARK]


def test_targets_are_read_off_the_pods_before_the_pods_are_seen() -> None:
    live, inbox, _ = environment(MillisClock(1_000), FollowFilter())
    inbox.hear(PodsUpdated(0, (executor_pod(1), executor_pod(2))))
    _, heard = live.wait(NEVER)
    assert heard[0] == TargetsSet(1_000, ((ProfileId(0), 2),))
    assert isinstance(heard[1], PodsUpdated)


def test_what_is_there_at_first_is_wanted_until_somebody_says_otherwise() -> None:
    live, inbox, _ = environment(MillisClock(1_000), AdoptFilter())
    inbox.hear(PodsReplaced(0, (executor_pod(1), executor_pod(2))))
    inbox.hear(PodsReplaced(0, (executor_pod(1),)))
    _, heard = live.wait(NEVER)
    assert [one for one in heard if isinstance(one, TargetsSet)] == [TargetsSet(1_000, ((ProfileId(0), 2),))]


def test_ids_that_are_on_the_cluster_are_not_given_out_again() -> None:
    live, inbox, _ = environment(MillisClock(1_000), MarkFilter(PodNumber(40)))
    inbox.hear(PodsReplaced(0, (executor_pod(7),)))
    inbox.hear(PodsUpdated(0, (executor_pod(41),)))
    inbox.hear(PodsUpdated(0, (executor_pod(41, "Running"),)))
    live.apply(create(43), 0)
    _, heard = live.wait(NEVER)
    inbox.hear(PodsUpdated(0, (executor_pod(43), executor_pod(45))))
    _, more = live.wait(NEVER)
    marks = [one.last for one in (*heard, *more) if isinstance(one, Reconciled)]
    assert marks == [43, 45]
    assert isinstance(heard[0], Reconciled)


def test_the_mark_of_an_earlier_run_comes_before_anything_else() -> None:
    live, inbox, _ = environment(MillisClock(1_000), MarkFilter(PodNumber(40)))
    inbox.hear(TARGETS)
    assert [type(one) for one in live.wait(NEVER)[1]] == [Reconciled, TargetsSet]


def test_a_pod_that_runs_is_registered_and_a_lower_target_kills() -> None:
    stimulus_filter = HeadlessFilter(HeadlessConfig())
    live, inbox, _ = environment(MillisClock(1_000), stimulus_filter)
    inbox.hear(TargetsSet(0, ((ProfileId(0), 2),)))
    inbox.hear(PodsUpdated(0, (executor_pod(1, "Running"), executor_pod(2, "Running"))))
    _, heard = live.wait(NEVER)
    assert [one.executor for one in heard if isinstance(one, RegisterExecutor)] == ["1", "2"]
    inbox.hear(TargetsSet(0, ((ProfileId(0), 1),)))
    _, heard = live.wait(NEVER)
    assert [one.executors for one in heard if isinstance(one, KillRequested)] == [("2",)]


def test_what_was_heard_before_is_not_said_again() -> None:
    stimulus_filter = HeadlessFilter(HeadlessConfig())
    before: Sequence[AnyStimulus | Command] = (PodsUpdated(0, (executor_pod(1, "Running"),)),)
    stimulus_filter.recall(before, 0)
    assert stimulus_filter.see([PodsReplaced(0, (executor_pod(1, "Running"),))], 1) == [
        PodsReplaced(0, (executor_pod(1, "Running"),))
    ]


@pytest.mark.parametrize(
    ("phase", "executor", "registers"),
    [
        ("Failed", "4", False),
        ("Succeeded", "4", False),
        ("Running", "4", True),
        ("Failed", "5", True),
        ("Failed", "x", True),
    ],
)
def test_an_executor_whose_pod_has_ended_does_not_register(phase: str, executor: str, registers: bool) -> None:
    stimulus_filter = RegistrationFilter()
    ended = PodsUpdated(0, (PodManifest("p-4", {"spark-exec-id": "4"}, phase=phase),))
    registration = RegisterExecutor(0, ExecutorId(executor), ProfileId(0), "h", f"{executor}@h")
    assert stimulus_filter.see([ended], 0) == [ended]
    assert stimulus_filter.see([registration], 0) == [registration] * registers
    assert stimulus_filter.due() == NEVER


@pytest.mark.parametrize("conf", [ASLEEP, OFF])
def test_a_driver_that_leaves_executors_to_others(conf: dict[str, str]) -> None:
    assert awake(conf) == []


@pytest.mark.parametrize(
    ("conf", "wrong"),
    [
        ({}, "spark.kubernetes.allocation.maximum"),
        ({**OFF, "spark.kubernetes.allocation.maximum": "100"}, "spark.kubernetes.allocation.maximum=100"),
        ({**OFF, "spark.dynamicAllocation.executorIdleTimeout": "60s"}, "executorIdleTimeout=60s"),
        ({**ASLEEP, "spark.dynamicAllocation.initialExecutors": "2"}, "initialExecutors=2, 0 was expected"),
        ({**ASLEEP, "spark.executor.instances": "2"}, "spark.executor.instances=2, 0 was expected"),
        ({**ASLEEP, "spark.dynamicAllocation.schedulerBacklogTimeout": "5s"}, "schedulerBacklogTimeout=5s"),
        ({**ASLEEP, "spark.dynamicAllocation.schedulerBacklogTimeout": "soon"}, "schedulerBacklogTimeout=soon"),
    ],
)
def test_a_driver_that_makes_executors_itself_is_named_key_by_key(conf: dict[str, str], wrong: str) -> None:
    assert any(wrong in line for line in awake(conf))


def test_no_timer_runs_by_a_picture_of_the_driver_that_is_too_old() -> None:
    clock, inbox, silent = MillisClock(5_000), Inbox(), [True]
    live = LiveEnvironment(inbox, clock, Calls(), Pulse(), (), NEVER, lambda: silent[0])
    inbox.hear(TargetsSet(0, ((ProfileId(0), 3),)))
    _, heard = live.wait(4_000)
    assert [type(one) for one in heard] == [TargetsSet], "what is heard is taken, and no Wake comes with it"
    silent[0] = False
    inbox.hear(TargetsSet(0, ((ProfileId(0), 4),)))
    assert [type(one) for one in live.wait(4_000)[1]] == [TargetsSet, Wake]


def test_the_end_is_not_kept_by_a_silent_driver() -> None:
    live = LiveEnvironment(Inbox(), MillisClock(1_000), Calls(), Pulse(), (), NEVER, lambda: True)
    live.stop()
    assert live.wait(NEVER) == (NEVER, ())
    live.go_on()
    assert live.wait(1_000) == (1_000, [])
