"""What an application went through, counted by hand: targets, pods, calls, bounds, in every mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from podtide.adapters.views.stats import base as story_books
from podtide.adapters.views.stats.kubernetes import KubernetesStats
from podtide.domain import engine
from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.engine import EngineState
from podtide.domain.protocol.application import AnyStimulus, EngineConfig
from podtide.domain.protocol.commands import Report, Step
from podtide.domain.protocol.executor_stimuli import Starting
from podtide.domain.protocol.pod_commands import CreatePod
from podtide.domain.protocol.reasons import Bound, Held, Phase
from tests.support.engine_play import Answers, AppPlay, S, config


class Told(AppPlay):
    """An application whose story is told as it happens."""

    def __init__(self, settings: EngineConfig, answers: Answers | None = None, *, now: Millis = 0) -> None:
        self.story = KubernetesStats(now)
        self._heard: Sequence[AnyStimulus] = (Starting(now),)
        super().__init__(settings, answers, now=now)

    def feed(self, *stimuli: AnyStimulus) -> list[Any]:
        self._heard = stimuli
        return super().feed(*stimuli)

    def _keep(self, step: Any) -> None:
        self.story.step(self.now, self._heard, step)
        super()._keep(step)

    def document(self) -> dict[str, Any]:
        self.story.finish(self.now)
        return self.story.document()


# --------------------------------------------------------------------------------------------------------- targets


def test_a_target_is_reached_when_so_many_executors_have_registered() -> None:
    play = Told(config(initial=0), now=1_000)
    play.now = 2_000
    play.want(2)
    play.now = 5_000
    play.show("Running", 1, 2)
    play.now = 7_500
    play.register(1)
    play.now = 9_000
    play.register(2)
    (goal,) = play.document()["targets"]
    assert goal == {
        "at_ms": 2_000, "profile": 0, "before": 0, "target": 2, "steps": 1, "raised_ms": 2_000, "most": 2,
        "reached_ms": 9_000, "duration_s": 7.0, "replaced": False,
        "waited": [{"for": "executor start", "duration_s": 4.0}, {"for": "pod not seen", "duration_s": 3.0}],
    }  # fmt: skip


def test_a_target_that_changes_before_it_is_reached_is_replaced() -> None:
    play = Told(config(initial=0))
    play.want(5)
    play.now = 20_000
    play.up(1, 2)
    play.now = 30_000
    play.want(1)
    play.now = 40_000
    play.want(3)
    goals = play.document()["targets"]
    assert [(g["before"], g["target"], g["most"], g["reached_ms"], g["replaced"]) for g in goals] == [
        (0, 5, 2, None, True), (1, 3, 2, None, False),
    ]  # fmt: skip


def test_a_ramp_is_one_target() -> None:
    play = Told(config(initial=0))
    for place, target in enumerate((1, 3, 7)):
        play.now = S * (place + 1)
        play.want(target)
    play.now = 60 * S
    play.want(9)
    goals = play.document()["targets"]
    assert [(g["at_ms"], g["raised_ms"], g["before"], g["target"], g["steps"]) for g in goals] == [
        (1_000, 3_000, 0, 7, 3), (60_000, 60_000, 7, 9, 1),
    ]  # fmt: skip


def test_only_so_many_targets_are_told_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(story_books, "GOALS_MAX", 3)
    play = Told(config(initial=0))
    for turn in range(10):
        play.now = 20_000 * turn
        play.want(turn % 2)
    document = play.document()
    assert (len(document["targets"]), document["targets_left_out"]) == (3, 2)


# ------------------------------------------------------------------------------------------------------------ pods


def test_pods_created_registered_wasted_and_on_the_way_add_up() -> None:
    play = Told(config(initial=6, failures_max=99))
    play.up(1, 2)
    play.show("Pending", 3, 4, 5)
    play.show("Failed", 3)
    play.wait(S)
    document = play.document()
    pods = document["pods"]
    assert pods["created"] == 6
    assert pods["registered"] == 2
    assert (pods["wasted"], document["wasted_by"]) == (1, {"pod failed": 1})
    assert pods["on_the_way"] == 3
    assert pods["removed"] == 0, "an executor that never was there is not gone"
    assert pods["created"] == pods["registered"] + pods["wasted"] + pods["on_the_way"]


def test_executors_that_go_are_counted_once_by_their_cause() -> None:
    play = Told(config(initial=3, failures_max=99))
    play.up(1, 2, 3)
    play.kill(1)
    play.show("Failed", 1)
    play.show("Failed", 2)
    play.wait(6 * S)
    document = play.document()
    assert document["removals"] == {"killed by the driver": 1, "pod failed": 1}
    assert document["pods"]["removed"] == 2
    assert document["wasted_by"] == {}


def test_excess_pods_and_pods_that_never_showed() -> None:
    play = Told(config(initial=3, allocation={"create_timeout_ms": 30 * S}))
    play.show("Pending", 1, 2)
    play.wait(31 * S)
    play.want(0)
    play.wait(40 * S)
    document = play.document()
    assert play.deleted == [(31 * S, (3,), None), (61 * S, (1, 2), "Pending"), (62 * S, (4,), None)]
    assert (document["pods"]["excess"], document["pods"]["timed_out"]) == (2, 2)
    assert document["wasted_by"] == {"above target": 2, "creation timeout": 2}


def test_a_pod_of_which_nothing_is_known_any_more_was_wasted() -> None:
    play = Told(config(initial=2))
    play.show("Pending", 1, 2)
    play.wait(S)
    play.show_all("Pending", 2)
    play.want(1)
    play.wait(S)
    document = play.document()
    assert document["wasted_by"] == {"vanished": 1}
    assert document["pods"]["on_the_way"] == 1


def test_a_refused_creation_is_no_pod() -> None:
    play = Told(config(initial=1, failures_max=99), Answers(failing=(CreatePod,)))
    document = play.document()
    assert (document["pods"]["created"], document["pods"]["creations_failed"]) == (0, 2)
    assert document["calls"] == {"create pods": 2}
    assert document["calls_failed"] == {"create pods 403": 2}


def test_an_executor_that_registers_before_its_creation_is_answered() -> None:
    play = Told(config(initial=1), Answers(silent=(CreatePod,)))
    play.register(1)
    play.answers.silent = ()
    create = play.all(CreatePod)[0]
    outcome = play.answers.to(create, play.now)
    assert outcome is not None
    play.feed(outcome)
    pods = play.document()["pods"]
    assert (pods["created"], pods["registered"], pods["on_the_way"]) == (1, 1, 0)


# ---------------------------------------------------------------------------------------------------- sets, endings


def test_the_exit_code_and_rounds_that_threw() -> None:
    play = Told(config(initial=0))
    play.want(1, 1)
    play.show("Running", 1, profile="x")
    play.wait(S)
    document = play.document()
    assert document["exit_code"] == 1
    assert document["rounds_threw"] >= 1


def test_executors_above_the_target() -> None:
    play = Told(config(initial=3))
    play.up(1, 2, 3)
    assert play.story.above_target == 0
    play.want(1)
    assert play.story.above_target == 2


# ----------------------------------------------------------------------------------------------------------- bounds


def said(story: KubernetesStats, at: Millis, *reports: Report) -> None:
    """A step in which nothing but these reports was said."""
    state: EngineState = engine.launch(config(initial=0), 0).state
    story.step(at, (), Step(state, (), reports))


def held(at: Millis, phase: Phase, bound: Bound, *of: str, profile: int = 0, **facts: int) -> Held:
    return Held(at, phase, bound, ProfileId(profile), tuple(map(ExecutorId, of)), facts)


def bounds(story: KubernetesStats, end: Millis) -> dict[str, list[tuple[str, int, float, float]]]:
    story.finish(end)
    document = story.document()
    return {
        key: [(b["bound"], b["profile"], b["duration_s"], b[f"{what}_seconds"]) for b in document[key]]
        for key, what in (("held", "pod"), ("kept", "executor"))
    }


BEGAN, CHANGED, ENDED = Phase.BEGAN, Phase.CHANGED, Phase.ENDED


def test_a_bound_counts_from_its_beginning_over_its_changes_to_its_end() -> None:
    story = KubernetesStats(0)
    said(story, 1_000, held(1_000, BEGAN, Bound.PENDING_LIMIT, missing=10, slots=0))
    said(story, 3_000, held(3_000, CHANGED, Bound.PENDING_LIMIT, missing=4, slots=0))
    said(story, 5_000, held(5_000, ENDED, Bound.PENDING_LIMIT, missing=4, slots=0))
    said(story, 9_000, held(9_000, BEGAN, Bound.PENDING_LIMIT, missing=1))
    assert bounds(story, 10_000)["held"] == [("pending limit", 0, 5.0, 2 * 10 + 2 * 4 + 1)]


@pytest.mark.parametrize(
    ("bound", "facts", "number"),
    [
        (Bound.BATCH_SIZE, {"missing": 30, "batch": 20, "batch_size": 20}, 10),
        (Bound.PENDING_LIMIT, {"missing": 30, "batch": 4}, 26),
        (Bound.PENDING_LIMIT, {"missing": 30}, 30),
        (Bound.BACK_OFF, {"missing": 7, "batch": 1}, 6),
        (Bound.UNACKNOWLEDGED, {"missing": 30, "unacknowledged": 5}, 30),
        (Bound.CLAIM_WAIT, {"missing": 2, "claims": 4}, 2),
        (Bound.MAXIMUM, {"need": 50, "maximum": 40}, 10),
        (Bound.RATIO, {"need": 5, "need_without_ratio": 10}, 5),
    ],
)
def test_how_many_pods_a_bound_holds_back(bound: Bound, facts: dict[str, int], number: int) -> None:
    story = KubernetesStats(0)
    said(story, 0, held(0, BEGAN, bound, **facts))
    assert bounds(story, 2_000) == {"held": [(bound.value, 0, 2.0, 2.0 * number)], "kept": []}


@pytest.mark.parametrize(
    ("bound", "facts", "number"),
    [
        (Bound.MINIMUM, {"executors": 3, "minimum": 3}, 3),
        (Bound.RUNNING_TASK, {"above_target": 4, "busy": 9}, 4),
        (Bound.IDLE_TIMEOUT, {"excess": 8, "young": 3}, 3),
        (Bound.SCHEDULER_KNOWN, {"excess": 2, "known": 9}, 2),
    ],
)
def test_how_many_executors_a_bound_keeps(bound: Bound, facts: dict[str, int], number: int) -> None:
    story = KubernetesStats(0)
    said(story, 0, held(0, BEGAN, bound, **facts))
    assert bounds(story, 3_000) == {"held": [], "kept": [(bound.value, 0, 3.0, 3.0 * number)]}


def test_bounds_of_single_executors_are_counted_in_and_out() -> None:
    story = KubernetesStats(0)
    said(story, 0, held(0, BEGAN, Bound.CACHED_DATA, "1", "2"))
    said(story, 1_000, held(1_000, BEGAN, Bound.SHUFFLE_DATA, "2"))
    said(story, 2_000, held(2_000, BEGAN, Bound.CACHED_DATA, "3"))
    said(story, 4_000, held(4_000, ENDED, Bound.CACHED_DATA, "1", "3", "9"))
    assert bounds(story, 10_000)["kept"] == [
        ("shuffle data", 0, 9.0, 9.0), ("cached data", 0, 4.0, 2 + 1 + 2 * 2),
    ]  # fmt: skip
