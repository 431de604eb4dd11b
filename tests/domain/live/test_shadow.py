"""A shadow beside Spark: what it may see, and where the two part."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, strategies as st

from podtide.domain.base.units import NEVER, ExecutorId, ProfileId
from podtide.domain.live import shadow as shadowing
from podtide.domain.live.shadow import Deed, Difference, Same, ShadowConfig, ShadowState
from podtide.domain.protocol.commands import Departure, Kill
from podtide.domain.protocol.executor_stimuli import Wake
from podtide.domain.protocol.pod_commands import CreatePod, DeletePod, DeletePods
from podtide.domain.protocol.pod_stimuli import Outcome, PodsReplaced, PodsUpdated, Reconciled
from podtide.domain.protocol.pods import PodManifest, PodNumber
from podtide.domain.protocol.reasons import Cause, Why

CONFIG = ShadowConfig(patience_ms=5_000)
WHY = Why(Cause.BELOW_TARGET)


def pod(number: int | str, *, phase: str = "Pending", deleted: bool = False) -> PodManifest:
    labels = {"spark-exec-id": str(number)}
    return PodManifest(f"p-{number}", labels, deleted_at="2026-01-01T00:00:00Z" if deleted else None, phase=phase)


def create(number: int) -> CreatePod:
    return CreatePod(0, number, PodNumber(number), ProfileId(0), WHY)


def kill(number: int) -> Kill:
    return Kill(0, 1, (Departure(ExecutorId(str(number)), ProfileId(0), WHY),))


@dataclass
class Play:
    """A shadow under way; ``said``: all of it, ``shown``: numbers of pods in the order in which the engine saw them."""

    state: ShadowState = field(default_factory=shadowing.begin)
    now: int = 0
    said: list[Any] = field(default_factory=list)

    def begun(self, *numbers: int) -> Play:
        return self.take(PodsReplaced(0, tuple(map(pod, numbers))))

    def take(self, *items: Any, after: int = 0) -> Play:
        self.now += after
        for item in items:
            step = shadowing.follow(self.state, (item,), CONFIG, self.now)
            self.state = step.state
            self.said.extend(step.commands)
        return self

    def spark_creates(self, *numbers: int, after: int = 0) -> Play:
        return self.take(*(PodsUpdated(0, (pod(number),)) for number in numbers), after=after)

    def creates(self, *numbers: int, after: int = 0) -> Play:
        return self.take(*map(create, numbers), after=after)

    def waits(self, after: int) -> Play:
        return self.take(Wake(0), after=after)

    def of(self, kind: type) -> list[Any]:
        return [one for one in self.said if isinstance(one, kind)]

    @property
    def shown(self) -> list[str]:
        return [one.labels["spark-exec-id"] for said in self.of(PodsUpdated) for one in said.pods]

    @property
    def differences(self) -> list[tuple[Deed, int]]:
        return [(one.deed, one.executor) for one in self.of(Difference)]

    @property
    def same(self) -> list[tuple[bool, int, int]]:
        return [(one.created, one.executor, one.lead_ms) for one in self.of(Same)]


def test_a_pod_is_shown_once_the_shadow_has_decided_it_too() -> None:
    play = Play().begun().spark_creates(1, 2, after=100)
    assert play.shown == []
    play.creates(1, after=300)
    assert play.shown == ["1"]
    assert play.same == [(True, 1, -300)]


def test_a_shadow_that_is_earlier_sees_the_pod_when_it_comes() -> None:
    play = Play().begun().creates(1).spark_creates(1, after=250)
    assert play.shown == ["1"]
    assert play.same == [(True, 1, 250)]


def test_pods_without_a_number_are_shown_as_they_are() -> None:
    play = Play().begun().take(PodsUpdated(0, (pod("EXECID"),)))
    assert play.shown == ["EXECID"]


def test_what_spark_alone_creates_is_told_and_taken_over() -> None:
    play = Play().begun(1).spark_creates(2, 3).waits(4_999)
    assert play.differences == []
    play.waits(1)
    assert play.differences == [(Deed.CREATED_BY_SPARK, 2), (Deed.CREATED_BY_SPARK, 3)]
    assert play.shown == ["2", "3"]
    assert play.of(Reconciled)[-1] == Reconciled(5_000, PodNumber(3), (), exact=True)


def test_what_the_shadow_alone_creates_is_told_and_forgotten() -> None:
    play = Play().begun(1).creates(2, 3).spark_creates(2).waits(5_000)
    assert play.differences == [(Deed.CREATED_HERE, 3)]
    assert play.of(Reconciled)[-1] == Reconciled(5_000, PodNumber(2), (PodNumber(3),), exact=True)


def test_a_held_pod_is_in_no_list_either() -> None:
    play = (
        Play().begun(1).spark_creates(2).take(PodsReplaced(0, (pod(1), pod(2))), Outcome(0, 5, pods=(pod(1), pod(2))))
    )
    assert [len(said.pods) for said in play.of(PodsReplaced)[1:]] == [1]
    assert [len(said.pods) for said in play.of(Outcome)] == [1]


def test_other_outcomes_pass() -> None:
    assert Play().begun().take(Outcome(0, 5, found=3)).of(Outcome) == [Outcome(0, 5, found=3)]


@pytest.mark.parametrize(
    "decision",
    [
        DeletePods(0, 1, (PodNumber(1),), "Pending", WHY),
        DeletePods(0, 1, (ExecutorId("1"),), "Running", WHY),
        DeletePods(0, 1, None, None, WHY),
        DeletePod(0, 1, PodNumber(1), "p-1", WHY),
        Kill(0, 1, (Departure(ExecutorId("1"), ProfileId(0), WHY),)),
    ],
)
@pytest.mark.parametrize("first", ["shadow", "spark"])
def test_a_pod_that_both_let_go(decision: Any, first: str) -> None:
    gone = PodsUpdated(0, (pod(1, deleted=True),))
    play = Play().begun(1)
    play.take(decision).take(gone, after=700) if first == "shadow" else play.take(gone).take(decision, after=700)
    assert play.same == [(False, 1, 700 if first == "shadow" else -700)]
    assert play.waits(60_000).differences == []


def test_a_pod_that_only_one_of_them_lets_go() -> None:
    play = Play().begun(1, 2).take(DeletePod(0, 1, PodNumber(1), "p-1", WHY), PodsUpdated(0, (pod(2, deleted=True),)))
    assert play.waits(5_000).differences == [(Deed.DELETED_HERE, 1), (Deed.DELETED_BY_OTHERS, 2)]


def test_nothing_open_nothing_due() -> None:
    assert shadowing.due(Play().begun(1).state, CONFIG) == NEVER


def running(play: Play, number: int) -> Play:
    return play.begun().creates(number).spark_creates(number).take(PodsUpdated(0, (pod(number, phase="Running"),)))


@pytest.mark.parametrize(
    "gone",
    [pod(1, phase="Succeeded"), pod(1, phase="Succeeded", deleted=True), pod(1, deleted=True)],
    ids=["ended", "ended and deleted", "deleted while pending"],
)
def test_what_spark_let_go_is_shown_when_the_shadow_has_decided_it_too(gone: PodManifest) -> None:
    play = running(Play(), 1)
    play.said.clear()
    play.take(PodsUpdated(0, (gone,)), after=200)
    assert play.said == []
    play.take(kill(1), after=300)
    assert play.said == [Same(500, False, PodNumber(1), -300), PodsUpdated(500, (gone,))]
    assert shadowing.due(play.state, CONFIG) == NEVER


def test_what_only_spark_let_go_is_shown_after_a_while_and_a_difference() -> None:
    play = running(Play(), 1)
    play.said.clear()
    gone = pod(1, phase="Succeeded")
    play.take(PodsUpdated(0, (gone,)))
    assert shadowing.due(play.state, CONFIG) == CONFIG.leave_ms
    play.waits(CONFIG.leave_ms)
    assert play.said == [PodsUpdated(CONFIG.leave_ms, (gone,))]
    play.waits(CONFIG.patience_ms)
    assert play.said[1:] == [Difference(play.now, Deed.DELETED_BY_OTHERS, PodNumber(1), 0)]


@pytest.mark.parametrize("decided", [False, True])
def test_what_failed_or_was_decided_is_shown_at_once(decided: bool) -> None:
    play = running(Play(), 1)
    gone = pod(1, phase="Succeeded" if decided else "Failed")
    if decided:
        play.take(kill(1))
    play.said.clear()
    play.take(PodsUpdated(0, (gone,)))
    assert play.said == [PodsUpdated(0, (gone,))]


def test_a_list_shows_what_was_held_back() -> None:
    play = running(Play(), 1)
    play.said.clear()
    gone = pod(1, phase="Succeeded")
    play.take(PodsUpdated(0, (gone,)), PodsReplaced(0, (gone,)))
    assert play.said == [PodsUpdated(0, (gone,)), PodsReplaced(0, (gone,))]
    assert not play.state.going


happenings = st.one_of(
    st.builds(lambda n: PodsUpdated(0, (pod(n),)), st.integers(1, 6)),
    st.builds(lambda n: PodsUpdated(0, (pod(n, deleted=True),)), st.integers(1, 6)),
    st.builds(lambda ns: PodsReplaced(0, tuple(map(pod, sorted(ns)))), st.sets(st.integers(1, 6))),
    st.builds(create, st.integers(1, 6)),
    st.builds(lambda n: DeletePod(0, 1, PodNumber(n), "p", WHY), st.integers(1, 6)),
    st.just(Wake(0)),
)


@given(st.lists(st.tuples(st.sampled_from([0, 100, 2_000, 6_000]), happenings), max_size=40))
def test_nothing_stays_open_for_ever(story: list[tuple[int, Any]]) -> None:
    """Whatever happened: after the patience everything was the same or a difference, and every pod that is there is seen."""
    play = Play().begun()
    for after, item in story:
        play.take(item, after=after)
    play.waits(CONFIG.patience_ms).waits(CONFIG.patience_ms)
    state = play.state
    assert not state.ours
    assert not state.held
    assert not state.leaving
    assert not state.left
    assert not state.going
    assert shadowing.due(state, CONFIG) == NEVER


@given(st.lists(st.tuples(st.sampled_from([0, 100, 2_000]), happenings), max_size=20))
def test_an_older_state_still_answers(story: list[tuple[int, Any]]) -> None:
    play = Play().begun()
    for after, item in story:
        before, now = play.state, play.now + after
        first = shadowing.follow(before, (item,), CONFIG, now)
        play.take(item, after=after)
        assert shadowing.follow(before, (item,), CONFIG, now) == first
