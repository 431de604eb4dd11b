"""What a cluster file may say of an embedded cluster: whatever is real there is refused, key by key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtide.domain.api_faults.checks import hollow_problems, process_problems
from podtide.domain.fakes.kubernetes.description import KIND, STAGES, Description, Life, PodStage

PULLS = next(one for one in STAGES if one.source is Life.SCHEDULED)


def of_api(**changes: object) -> Description:
    return replace(KIND, api=replace(KIND.api, **changes))  # type: ignore[arg-type]  # fields of it


def of_executors(**changes: object) -> Description:
    return replace(KIND, executors=replace(KIND.executors, **changes))  # type: ignore[arg-type]  # fields of it


def with_stage(stage: PodStage) -> Description:
    return of_executors(stages=(*STAGES, stage))


def test_the_default_may_be_played_by_hollow_pods_and_by_processes() -> None:
    assert hollow_problems(KIND) == process_problems(KIND) == ()


@pytest.mark.parametrize(
    ("description", "key"),
    [
        (of_api(serial=not KIND.api.serial), "api.serial"),
        (of_api(retries=KIND.api.retries + 1), "api.retries"),
        (of_api(backoff_ms=KIND.api.backoff_ms + 1), "api.backoff"),
        (replace(KIND, watch=replace(KIND.watch, relists=not KIND.watch.relists)), "watch.relists"),
        (of_executors(shape=replace(KIND.executors.shape, cpu_millis=7)), "executors.cpu"),
        (of_executors(shape=replace(KIND.executors.shape, memory_mib=7)), "executors.memory"),
        (of_executors(image="mine"), "executors.image"),
        (of_executors(grace_ms=KIND.executors.grace_ms + 1), "executors.grace"),
        (of_executors(silence_ms=7), "executors.silence"),
    ],
)
def test_what_clients_drivers_and_pods_say_themselves_is_refused(description: Description, key: str) -> None:
    for found in (hollow_problems(description), process_problems(description)):
        assert [one for one, _ in found] == [key]
        assert all(expected.startswith("nothing: ") for _, expected in found)


@pytest.mark.parametrize(
    ("stage", "keys"),
    [
        (PodStage("x", Life.RUNNING, Life.FAILED, exits=((137, 1.0),)), []),
        (PodStage("x", Life.RUNNING, Life.FAILED, exits=((137, 1.0), (1, 0.0))), []),
        (PodStage("x", Life.RUNNING, Life.FAILED, exits=((1, 1.0),)), ["stages.x.exits"]),
        (PodStage("x", Life.RUNNING, Life.HUNG), []),
        (PodStage("x", Life.SCHEDULED, Life.FAILED, exits=((137, 1.0),)), ["stages.x.next"]),
        (PodStage("x", Life.RUNNING, Life.SUCCEEDED), ["stages.x.next"]),
        (PodStage("x", Life.RUNNING, Life.HUNG, reason="OOMKilled"), ["stages.x.reason"]),
        (PodStage("x", Life.RUNNING, Life.HUNG, message="so"), ["stages.x.message"]),
    ],
)
def test_processes_can_be_waited_for_killed_and_stopped(stage: PodStage, keys: list[str]) -> None:
    assert [key for key, _ in process_problems(with_stage(stage))] == keys
    assert hollow_problems(with_stage(stage)) == (), "hollow pods do as they are told"


def test_a_stage_of_processes_cannot_be_taken_away_but_may_take_longer() -> None:
    less = of_executors(stages=tuple(one for one in STAGES if one != PULLS))
    assert [key for key, _ in process_problems(less)] == [f"stages.{PULLS.name}"]
    assert hollow_problems(less) == ()
