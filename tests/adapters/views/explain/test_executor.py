"""The story of one executor: what belongs to it is kept, in order and in bounded memory; what does not, is not."""

from __future__ import annotations

from typing import Any

from pyrsistent import pmap

from podtide.adapters.recording.reader import RecordedStep
from podtide.adapters.views.explain.executor import HEAD, STAGES_MAX, TAIL, ExecutorHistory
from podtide.domain.base.units import ExecutorId, ProfileId
from podtide.domain.protocol import (
    executor_commands as ec,
    executor_stimuli as es,
    pod_commands as pc,
    pod_stimuli as ps,
)
from podtide.domain.protocol.pods import EXECUTOR_LABEL, ContainerState, PodContainer, PodManifest, PodNumber, PodRules
from podtide.domain.protocol.reasons import Bound, Cause, Held, Phase, Why
from podtide.domain.protocol.stimuli import TaskEnd, TaskStart

SEVEN = ExecutorId("7")


def pod(phase: str, executor: str = "7", **more: Any) -> PodManifest:
    running = PodContainer("spark-kubernetes-executor", None, ContainerState("running"))
    return PodManifest(f"exec-{executor}", {EXECUTOR_LABEL: executor}, phase=phase, containers=(running,), **more)


def create(number: int) -> pc.CreatePod:
    return pc.CreatePod(0, 8 * number, PodNumber(number), ProfileId(0), Why(Cause.BELOW_TARGET, pmap({"missing": 3})))


def told(*steps: tuple[int, list[Any], list[Any]], executor: str = "7") -> ExecutorHistory:
    story = ExecutorHistory(executor, PodRules())
    end = 0
    for line, (at, stimuli, items) in enumerate(steps, start=2):
        commands = tuple(item for item in items if not isinstance(item, Held))
        reports = tuple(item for item in items if isinstance(item, Held))
        story.step(RecordedStep(line, at, tuple(stimuli), (), commands, reports), None)
        end = at
    story.finish(end)
    return story


def whats(story: ExecutorHistory) -> list[str]:
    head, _, tail = story.entries()
    return [entry["what"] for entry in (*head, *tail)]


def stages(story: ExecutorHistory) -> list[tuple[str, int]]:
    return [(stage["stage"], stage["lasted_ms"]) for stage in story.stages]


def test_a_life_in_stages() -> None:
    story = told(
        (0, [es.TargetsSet(0, ((ProfileId(0), 3),))], []),
        (100, [], [create(6), create(7), create(8)]),
        (130, [ps.Outcome(130, 56)], []),
        (200, [ps.PodsUpdated(200, (pod("Pending"), pod("Pending", "8")))], []),
        (300, [ps.PodsUpdated(300, (pod("Pending", node="n1"),))], []),
        (350, [ps.PodsUpdated(350, (pod("Pending", node="n1", version="9"),))], []),
        (900, [ps.PodsUpdated(900, (pod("Running", node="n1"),))], []),
        (
            1_000,
            [es.RegisterExecutor(1_000, SEVEN, ProfileId(0), "h", "h:1")],
            [ec.AnswerRegistration(1_000, SEVEN, True, Why(Cause.REGISTERED))],
        ),
        (1_500, [es.ExecutorDisconnected(1_500, "h:1"), es.ExecutorDisconnected(1_500, "h:2")], []),
        (1_600, [ps.PodsUpdated(1_600, (pod("Failed", node="n1"),))], []),
        (1_700, [], [ec.RemoveExecutor(1_700, SEVEN, ec.ExitReason("ExecutorExited", ""), Why(Cause.POD_FAILED))]),
        (2_000, [ps.PodsReplaced(2_000, (pod("Running", "8"),))], []),
        (2_500, [], []),
    )
    assert stages(story) == [
        ("asked for, the call is under way", 30),
        ("created, its pod not seen yet", 70),
        ("pending, on no node", 100),
        ("pending on a node", 600),
        ("running, not registered", 100),
        ("registered", 600),
        ("over, its pod still there", 400),
        ("gone", 500),
    ]
    assert whats(story) == [
        "asked for", "call succeeded", "seen", "seen", "seen", "registers", "decided", "disconnected", "seen", "decided",
        "not listed",
    ]  # fmt: skip
    asked = story.document()["entries"][0]
    assert asked["batch"] == {"pods": 3, "first": 6, "last": 8, "place": 2}
    assert asked["target"]["target"] == 3
    assert (asked["waited_ms"], asked["line"]) == (100, 3)
    assert story.known == (6, 8)


def test_how_it_fell_silent_or_left_and_what_became_of_its_host() -> None:
    other = ExecutorId("8")
    story = told(
        (0, [es.RegisterExecutor(0, SEVEN, ProfileId(0), "h", "h:1")], []),
        (10, [es.HeartbeatsStopped(10, SEVEN, 4), es.HeartbeatsStopped(10, other, 4)], []),
        (20, [es.Heartbeat(20, SEVEN), es.Heartbeat(20, other)], []),
        (30, [es.KillExecutorsOnHost(30, "h"), es.KillExecutorsOnHost(30, "g")], []),
        (40, [es.DecommissionExecutorsOnHost(40, "h"), es.DecommissionExecutorsOnHost(40, "g")], []),
        (50, [es.ExecutorExiting(50, SEVEN, "Finished decommissioning"), es.ExecutorExiting(50, other, "x")], []),
    )
    assert whats(story)[1:] == [
        "silent", "heard again", "kill of its host asked for", "decommission of its host asked for", "exits",
    ]  # fmt: skip
    entries = story.document()["entries"]
    assert (entries[1]["last_ms"], entries[-1]["message"]) == (4, "Finished decommissioning")


def test_what_cut_its_batch_is_told_by_the_end_of_the_round() -> None:
    def hold(at: int, profile: int = 0, **facts: int) -> Held:
        return Held(at, Phase.BEGAN, Bound.BATCH_SIZE, ProfileId(profile), (), pmap(facts))

    story = told(
        (0, [], [hold(0, missing=9)]),
        (10, [], [create(7)]),
        (20, [], [hold(20, 1, batch=1)]),
        (30, [], [hold(30, batch=5, batch_size=5)]),
        (40, [], [hold(40, batch=6)]),
    )
    (asked,) = story.document()["entries"]
    assert asked["held"] == [{"bound": "batch size", "profile": 0, "since_ms": 0, "facts": {"missing": 9}}]
    assert asked["bound"] == {"bound": "batch size", "facts": {"batch": 5, "batch_size": 5}}


def test_an_empty_listing_takes_its_pod_away() -> None:
    story = told(
        (0, [ps.PodsUpdated(0, (pod("Running"),))], []),
        (1, [ps.Outcome(1, 4)], []),  # of another call: it lists nothing
        (2, [ps.Outcome(2, 12, version="5")], []),
    )
    assert whats(story) == ["seen", "not listed"]
    assert stages(story) == [("running, not registered", 2), ("gone", 0)]


def test_deletes_of_all_pods_concern_it_and_long_lists_are_cut() -> None:
    story = told(
        (0, [], [create(7)]),
        (1, [], [pc.DeletePods(1, 3, tuple(map(PodNumber, range(1_000))), "Pending", Why(Cause.ABOVE_TARGET))]),
        (2, [], [pc.DeletePods(2, 11, None, None, Why(Cause.STOPPED))]),
        (3, [ps.Outcome(3, 3, ps.CallFailure(403, "no"))], []),
    )
    assert whats(story) == ["asked for", "decided", "decided", "call failed"]
    _, some, every, failed = story.document()["entries"]
    assert (some["executors"], len(some["ids"])) == (1_000, 3)
    assert "ids" not in every or every["ids"] is None
    assert (failed["call"], failed["status"], failed["took_ms"]) == ("deletePods", 403, 2)


def test_tasks_are_counted_not_listed() -> None:
    running = [TaskStart(n, 0, 0, n, SEVEN) for n in range(50)]
    ending = [TaskEnd(n, 0, 0, n, SEVEN) for n in range(49)]
    story = told((60, [*running, *ending, TaskStart(60, 0, 0, 9, ExecutorId("8"))], []))
    assert whats(story) == ["first task"]
    assert story.document()["tasks"] == {"started": 50, "ended": 49, "last_ended_ms": 60}


def test_a_pod_that_cannot_be_read_is_told_so() -> None:
    story = told((0, [ps.PodsUpdated(0, (PodManifest("p", {EXECUTOR_LABEL: "7"}),))], []))
    assert "NullPointerException" in story.document()["entries"][0]["unreadable"]


def test_a_pod_that_flaps_for_ever_stays_small() -> None:
    phases = ("Pending", "Running", "Failed")
    story = told(*((n, [ps.PodsUpdated(n, (pod(phases[n % 3]),))], []) for n in range(5_000)))
    head, left, tail = story.entries()
    assert (len(head), len(tail), left) == (HEAD, TAIL, 5_000 - HEAD - TAIL)
    assert len(story.stages) == STAGES_MAX
    assert story.document()["left_out"] == left


def test_ids_of_others_and_ids_that_are_no_numbers() -> None:
    assert not told((0, [ps.PodsUpdated(0, (pod("Running", "77"),))], [create(70)])).found
    odd = es.RegisterExecutor(0, ExecutorId("driver"), ProfileId(0))
    assert whats(told((0, [odd], []), executor="driver")) == ["registers"]
