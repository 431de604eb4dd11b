"""What the states of an application tell of its stalls: successes, how the profiles stand, pods, and kept executors."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.pod_commands import CreatePod
from podtide.domain.protocol.pod_stimuli import PodsUpdated
from podtide.domain.protocol.stimuli import (
    ExecutorAdded,
    ExecutorRemoved,
    JobEnd,
    JobStage,
    JobStart,
    Move,
    StageCompleted,
    StageSubmitted,
    TaskEnd,
    TaskOutcome,
    TasksMoved,
    TaskStart,
    UnschedulableTaskSetAdded,
)
from podtide.domain.stalls.causes import LEAST_MS, ROWS, StallCause
from podtide.domain.stalls.facts import ExecutorCame, ExecutorWent, ProfileMoment, StallConfig, TasksDone
from podtide.domain.stalls.pods import with_pods
from podtide.domain.stalls.readings import REASON_MAX, Successes, kept_executors, profile_moments, target_moments
from podtide.domain.stalls.stalls import StallState, watch
from tests.support.engine_play import Answers, AppPlay, config
from tests.support.pods_play import manifest
from tests.support.scaling_play import Play

S = 1_000
P0, P1 = DEFAULT_PROFILE, ProfileId(1)
ONE, TWO = ExecutorId("1"), ExecutorId("2")


def end(at: Millis, stage: int = 0, outcome: TaskOutcome = TaskOutcome.SUCCESS) -> TaskEnd:
    return TaskEnd(at, stage, 0, 0, ONE, False, outcome)


# ------------------------------------------------------------------------------------------------------- successes


def test_successes_are_summed_up_and_all_else_is_told_in_its_place() -> None:
    heard = Successes(5)
    assert heard.last == 5
    assert not heard.take([TaskStart(6, 0, 0, 0, ONE), end(7), end(8), end(9, outcome=TaskOutcome.KILLED)])
    assert heard.last == 8
    assert heard.take([StageSubmitted(10, 1, 0, 1, P1), end(11, 1), end(12), StageCompleted(13, 1, 0), end(14, 1)])
    assert heard.facts() == [
        TasksDone(8, P0),
        StageSubmitted(10, 1, 0, 1, P1),
        TasksDone(11, P1),
        TasksDone(12, P0),
        StageCompleted(13, 1, 0),
        TasksDone(14, P0),
    ]
    assert heard.facts() == []


def test_profiles_are_told_apart_only_while_there_are_several() -> None:
    heard = Successes(0)
    heard.take([StageSubmitted(1, 0, 0, 1, P0)])
    assert not heard.several
    heard.take([StageSubmitted(2, 1, 0, 1, P1)])
    assert heard.several
    heard.take([StageCompleted(3, 1, 0)])
    assert not heard.several


def test_a_second_of_tasks_counts_by_those_that_ended_well() -> None:
    heard = Successes(0)
    moved = TasksMoved(9, (Move(0, 0, 0, 1, 0), Move(1, 0, 0, 0, 2)))
    heard.take([StageSubmitted(1, 1, 0, 1, P1), moved])
    assert heard.facts()[1:] == [TasksDone(9, P1)]
    heard.take([moved._replace(at=19, moves=moved.moves[:1])])
    assert heard.last == 9


def test_who_came_and_who_went_and_whether_somebody_let_it_go() -> None:
    heard = Successes(0)
    heard.take([ExecutorAdded(1, ONE, P1), ExecutorRemoved(2, ONE, "Command exited with code 137" + "!" * 999)])
    heard.take([ExecutorRemoved(3, TWO, "Executor killed by driver."), JobEnd(4, 0)])
    came, died, released = heard.facts()
    assert came == ExecutorCame(1, ONE, P1)
    assert isinstance(died, ExecutorWent)
    assert (died.failed, len(died.reason)) == (True, REASON_MAX)
    assert released == ExecutorWent(3, TWO, False, "Executor killed by driver.")


events: st.SearchStrategy[list[Any]] = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 2), st.sampled_from([P0, P1])), max_size=20
).map(
    lambda rows: [
        (
            end(at, stage),
            StageSubmitted(at, stage, 0, 1, profile),
            StageCompleted(at, stage, 0),
            ExecutorAdded(at, ExecutorId(str(stage)), profile),
            ExecutorRemoved(at, ExecutorId(str(stage)), "Command exited with code 1"),
            TaskStart(at, stage, 0, 0, ONE),
        )[kind]
        for at, (kind, stage, profile) in enumerate(rows)
    ]
)


@given(events, st.lists(st.integers(0, 20), max_size=4))
def test_it_does_not_matter_when_it_is_asked(known: list[Any], cuts: list[int]) -> None:
    """Facts of any pieces make the same state of the watch."""
    states = []
    for places in ([len(known)], sorted({*cuts, len(known)}), list(range(len(known) + 1))):
        heard, state, done = Successes(0), StallState(), 0
        for place in places:
            heard.take(known[done:place])
            state = watch(state, heard.facts(), StallConfig(0), 99).state
            done = max(done, place)
        states.append(state)
    assert states[0] == states[1] == states[2]


# ------------------------------------------------------------------------------------------------ how profiles stand

CONFIG = ScalingConfig(executors_max=9, shuffle_tracking=False, idle_timeout_ms=60 * S)


def moments(play: Play, *, dynamic: bool = True) -> list[ProfileMoment]:
    return profile_moments(play.state.load, play.state.scaling, play.config, dynamic=dynamic)


def test_a_profile_without_waiting_tasks_is_not_there() -> None:
    play = Play(CONFIG)
    play.join(1)
    play.stage(0, 1)
    play.run(0, [0], "1")
    assert moments(play) == []


def test_how_many_wait_run_and_are_free() -> None:
    play = Play(CONFIG)
    play.join(1, 2, 3)
    play.stage(4, 5)
    play.run(4, [0], "1")
    play.feed(UnschedulableTaskSetAdded(play.now, 4, 0))
    assert moments(play) == [
        ProfileMoment(
            P0, pending=4, attempts=((4, 0),), running=1, unschedulable=1, executors=3, free=2, target=0, maximum=9
        )
    ]
    (static,) = moments(play, dynamic=False)
    assert (static.target, static.maximum) == (None, 3), "without dynamic allocation: those that are there"


def test_who_is_on_the_way_out_is_not_free() -> None:
    play = Play(CONFIG)
    play.join(1, 2)
    play.now += CONFIG.idle_timeout_ms
    play.tick()
    play.stage(0, 5)
    (one,) = moments(play)
    assert (one.executors, one.free) == (2, 0)


def test_late_news_of_a_completed_stage_hides_tasks() -> None:
    """SPARK-58446."""
    play = Play(CONFIG)
    play.stage(0, 3)
    play.run(0, [0])
    play.complete(0)
    play.run(0, [1, 2])
    play.end(0, [1, 2])
    play.stage(1, 1)
    (one,) = moments(play)
    assert (one.pending, one.attempts) == (1, ((1, 0),))
    assert one.hidden > 0
    assert moments(play, dynamic=False)[0].hidden == 0, "without dynamic allocation nobody counts them"


def test_who_is_kept_by_shuffles_that_no_job_needs() -> None:
    play = Play(ScalingConfig(shuffle_tracking=True, shuffle_timeout_ms=NEVER))
    play.feed(JobStart(0, 0, (JobStage(0, 0), JobStage(1, None))))
    play.stage(0, 2)
    play.join(1, 2, 3)
    for index, executor in enumerate(("1", "2")):
        play.run(0, [index], executor)
        play.now += S
        play.end(0, [index], executor)
    play.complete(0)
    patience = ROWS[StallCause.SHUFFLES].patience_ms
    assert kept_executors(play.state.scaling, 2 * patience) == (), "its job reads it still"
    play.feed(JobEnd(play.now, 0))
    play.tick(play.config.idle_timeout_ms)
    (kept,) = kept_executors(play.state.scaling, 2 * patience)
    assert (kept.profile, kept.number, set(kept.executors)) == (P0, 2, {"1", "2"}), "the third holds nothing"
    assert kept.since == min(one.idle_start for one in play.state.scaling.idleness.trackers().values() if one.id != "3")
    assert kept_executors(play.state.scaling, kept.since + patience - 1) == ()
    assert kept_executors(play.state.scaling, kept.since + patience)[0].number in (1, 2)


def test_where_no_task_is_seen_a_target_above_the_executors_stands_for_tasks() -> None:
    """Once executors die one after the other, one counts when it has lived for as long as nothing is said."""
    born = [ExecutorCame(0, ONE, P0), ExecutorCame(0, TWO, P1), ExecutorCame(99 * S, ExecutorId("3"), P0)]
    state = watch(StallState(), born, StallConfig(0), 99 * S).state
    there = {P0: 2, P1: 1}

    def moments_of(state: StallState, now: Millis) -> list[tuple[int, bool]]:
        found = target_moments([(P0, 2), (P1, 2)], there, state, now)
        assert not any(one.tasks_known for one in found)
        return [(one.executors, one.waits) for one in found]

    assert moments_of(state, 100 * S) == [(2, False), (1, True)]
    died = [ExecutorWent(100 * S, ExecutorId(name), True) for name in "789"]
    looping = watch(state, died, StallConfig(0), 100 * S).state
    assert moments_of(looping, 100 * S) == [(0, True), (1, True)]
    assert moments_of(looping, LEAST_MS) == [(1, True), (1, True)]
    assert moments_of(looping, 99 * S + LEAST_MS) == [(2, False), (1, True)]


# ------------------------------------------------------------------------------------------------------------- pods

MISSING = ProfileMoment(P0, pending=1, target=2)


def test_pods_that_wait_for_a_node_are_named_by_profile() -> None:
    play = AppPlay(config(initial=0))
    play.want(2, p1=1)
    play.wait(3 * S)
    play.show("Pending", 1, 2, 3)
    other = MISSING._replace(profile=P1, target=1)
    one, two = with_pods([MISSING, other], play.side, 99)
    assert (one.pods_waiting, two.pods_waiting) == (2, 1)
    assert len(one.pods) == 2
    assert set(one.pods).isdisjoint(two.pods)
    assert not one.ids_over
    play.feed(PodsUpdated(play.now, tuple(manifest(number, "Pending")._replace(node="n-1") for number in (1, 2))))
    assert [moment.pods_waiting for moment in with_pods([MISSING, other], play.side, 99)] == [0, 1]


def test_pods_on_a_node_are_told_until_their_executor_registers() -> None:
    play = AppPlay(config(initial=0))
    play.want(3)
    play.wait(3 * S)
    play.feed(PodsUpdated(play.now, (manifest(1, "Pending")._replace(node="n-1"), manifest(2, "Pending"))))
    play.show("Running", 3)
    (one,) = with_pods([MISSING._replace(target=9)], play.side, 99)
    assert (one.pods_waiting, one.pods_placed, len(one.placed)) == (1, 2, 2)
    play.register(3)
    assert with_pods([MISSING._replace(target=9)], play.side, 99)[0].pods_placed == 1
    unseen = with_pods([MISSING._replace(target=9, tasks_known=False)], play.side, 99)[0]
    assert (unseen.pods_placed, unseen.placed) == (0, ()), "a pod that runs stands for an executor"


def test_pods_are_not_looked_at_where_nobody_is_missing() -> None:
    play = AppPlay(config(initial=0))
    play.want(1)
    play.wait(3 * S)
    play.show("Pending", 1)
    enough = MISSING._replace(executors=2)
    assert with_pods([enough], play.side, 0) == [enough]


def test_ids_that_are_used_up() -> None:
    play = AppPlay(config(initial=0))
    play.want(2)
    play.wait(3 * S)
    assert [with_pods([MISSING], play.side, most)[0].ids_over for most in (2, 3)] == [True, False]


def test_a_ghost_counts_and_is_not_there() -> None:
    """SPARK-52589: an executor registers and is gone before its pod was seen."""
    play = AppPlay(config(initial=0))
    play.want(1)
    play.wait(3 * S)
    assert len(play.all(CreatePod)) == 1
    play.register(1)
    play.wait(3 * S)
    assert with_pods([MISSING], play.side, 99)[0].ghosts == (), "it is there"
    play.kill(1)
    play.wait(3 * S)
    assert with_pods([MISSING], play.side, 99)[0].ghosts == (ONE,)


def test_where_stateful_sets_make_the_pods_nobody_counts_them() -> None:
    play = AppPlay(config(initial=0, allocator="statefulset"), Answers())
    (one,) = with_pods([MISSING], play.side, 0)
    assert (one.ghosts, one.ids_over) == ((), False)
