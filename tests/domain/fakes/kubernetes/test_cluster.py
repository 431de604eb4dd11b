"""A world from the driver's side: the story of a pod, words to executors, time, and the same story every time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtide.domain.base.randomness import Constant
from podtide.domain.base.units import NEVER, ExecutorId, ProfileId
from podtide.domain.base.versioned import Stale
from podtide.domain.fakes.kubernetes import cluster as worlds
from podtide.domain.fakes.kubernetes.cluster import KIND, FakeApplication, KubernetesCluster
from podtide.domain.fakes.kubernetes.description import FakeDriverPod, Life, NodeGroup
from podtide.domain.fakes.windows import Window
from podtide.domain.protocol.executor_commands import (
    DecommissionExecutors,
    ExitReason,
    RemoveExecutor,
    StopApplication,
    StopSource,
)
from podtide.domain.protocol.executor_stimuli import DecommissionRequested, ExecutorDisconnected, RegisterExecutor
from podtide.domain.protocol.pod_commands import AwaitDriverReady, CreatePod, DeletePods, GetDriverPod
from podtide.domain.protocol.pod_stimuli import Outcome, PodsUpdated
from podtide.domain.protocol.pods import PodNumber
from tests.support.world_play import WHY, Driver, S, outline, plain, stage


def remove(driver: Driver, executor: str) -> None:
    driver.ask(RemoveExecutor(driver.now, ExecutorId(executor), ExitReason("ExecutorKilled", "killed"), WHY))


def test_the_life_of_a_pod() -> None:
    driver = Driver(plain())
    driver.create(1)
    driver.until(60 * S)
    (outcome,) = driver.all(Outcome)
    assert (outcome.at, outcome.serial, outcome.failure) == (20, 1, None)
    assert [(at, outline(pod)) for at, pod in driver.shown()] == [
        (20, ("Pending", False, False, None)),  # created at 10, seen 10 later
        (30, ("Pending", True, False, None)),
        (5_230, ("Running", True, False, "running")),
    ]
    (registered,) = driver.all(RegisterExecutor)
    assert (registered.at, registered.executor, registered.profile) == (6_222, "1", 0)
    assert driver.lives() == {Life.REGISTERED: 1}


def test_the_manifest_is_sparks() -> None:
    driver = Driver(plain(), application=FakeApplication("spark-7", "my-app", "prod"))
    driver.create(12, profile=3, claims=("claim",))
    pod = driver.until(60 * S).shown()[-1][1]
    assert pod.name == "my-app-exec-12"
    assert dict(pod.labels) == {
        "spark-app-selector": "spark-7", "spark-role": "executor", "spark-exec-id": "12",
        "spark-exec-resourceprofile-id": "3",
    }  # fmt: skip
    assert (pod.namespace, pod.restart_policy, pod.claims, pod.node) == ("prod", "Never", ("claim",), "worker-1")
    assert (pod.created_at, pod.deleted_at) == ("1970-01-01T00:00:00Z", None)
    (container,) = pod.containers
    assert container.name == "spark-kubernetes-executor"
    assert container.state is not None
    assert container.state.started_at == "1970-01-01T00:00:05Z"


def test_the_image_is_pulled_once_on_each_node() -> None:
    driver = Driver(plain(groups=(NodeGroup("worker", 1),)))
    driver.create(1, 2)
    driver.until(60 * S)
    driver.create(3)
    driver.until(120 * S)
    running = {pod.name: at for at, pod in driver.shown() if pod.phase == "Running"}
    # The second waits for the pull that the first began; the third finds the image.
    assert running == {"exec-exec-1": 5_230, "exec-exec-2": 5_230, "exec-exec-3": 60_000 + 10 + 10 + 100 + 200 + 10}
    assert driver.tally("images.pulled") == 1


@pytest.mark.parametrize(
    ("accept", "lives", "gone_at"),
    [(True, {Life.REGISTERED: 1}, None), (False, {Life.FAILED: 1}, 6_326), (None, {Life.FAILED: 1}, 126_222)],
)
def test_an_executor_waits_for_the_answer(accept: bool | None, lives: dict[Life, int], gone_at: int | None) -> None:
    driver = Driver(plain(), accept=accept)
    driver.create(1)
    driver.until(300 * S)
    assert driver.lives() == lives
    assert [d.at for d in driver.all(ExecutorDisconnected)] == ([] if gone_at is None else [gone_at])
    if gone_at is not None:
        state = driver.shown()[-1][1].containers[0].state
        assert state is not None
        assert state.exit_code == 1


def test_an_executor_that_is_removed_exits() -> None:
    driver = Driver(plain())
    driver.create(1, 2)
    driver.until(60 * S)
    remove(driver, "2")
    driver.until(120 * S)
    at, pod = driver.shown("exec-exec-2")[-1]
    assert (at, outline(pod)) == (60_000 + 2 + 300 + 10, ("Succeeded", True, False, "terminated"))
    (left,) = driver.all(ExecutorDisconnected)
    registered = {r.executor: r.address for r in driver.all(RegisterExecutor)}
    assert (left.at, left.address) == (60_304, registered[ExecutorId("2")])
    assert driver.lives() == {Life.REGISTERED: 1, Life.SUCCEEDED: 1}


def test_decommissioning_drains() -> None:
    driver = Driver(plain())
    driver.create(1, 2)
    driver.until(60 * S)
    driver.ask(DecommissionExecutors(driver.now, (ExecutorId("1"),), "down", True, WHY))
    driver.ask(DecommissionExecutors(driver.now, (ExecutorId("2"),), "down", False, WHY))
    driver.until(61 * S)
    assert driver.lives() == {Life.DRAINING: 1, Life.REGISTERED: 1}
    driver.until(120 * S)
    assert driver.lives() == {Life.SUCCEEDED: 1, Life.REGISTERED: 1}
    assert [d.at for d in driver.all(ExecutorDisconnected)] == [62_004]


@pytest.mark.parametrize("decommission", [True, False])
def test_an_executor_whose_pod_is_deleted_may_say_so(decommission: bool) -> None:
    driver = Driver(plain(decommission=decommission))
    driver.create(4)
    driver.until(60 * S)
    driver.ask(DeletePods(driver.now, 9, (PodNumber(4),), None, WHY))
    driver.until(120 * S)
    said = [(d.at, d.executors, d.message, d.triggered_by_executor) for d in driver.all(DecommissionRequested)]
    assert said == ([(60_012, ("4",), "Executor 4 is decommissioned.", True)] if decommission else [])


def test_graceful_deletion() -> None:
    driver = Driver(plain())
    driver.create(1)
    driver.until(60 * S)
    driver.ask(DeletePods(driver.now, 9, (PodNumber(1),), None, WHY))
    driver.until(120 * S)
    shown = [(at, outline(pod), pod.deleted_at) for at, pod in driver.shown() if at >= 60 * S]
    until = "1970-01-01T00:01:30Z"  # the end of the grace
    assert shown == [
        (60_020, ("Running", True, True, "running"), until),
        (60_520, ("Failed", True, True, "terminated"), until),
        (60_520, ("Failed", True, True, "terminated"), until),  # DELETED, as it was last
    ]
    assert driver.outcome(9).found == 1
    assert worlds.pods(driver.world) == ()
    assert driver.tally("pods.gone") == 1


@pytest.mark.parametrize(("terminate_ms", "code"), [(29_000, 143), (31_000, 137)])
def test_after_the_grace_comes_the_kill(terminate_ms: int, code: int) -> None:
    driver = Driver(plain(stage("terminate", Life.TERMINATING, Life.GONE, terminate_ms)))
    driver.create(1)
    driver.until(60 * S)
    driver.ask(DeletePods(driver.now, 9, None, None, WHY))
    driver.until(200 * S)
    at, pod = driver.shown()[-1]
    state = pod.containers[0].state
    assert state is not None
    assert (at, state.exit_code) == (60_020 + min(terminate_ms, 30_000), code)


def test_the_driver_stops() -> None:
    driver = Driver(plain())
    driver.create(1, 2, 3)
    driver.until(60 * S)
    driver.ask(StopApplication(driver.now, 11, WHY))
    assert worlds.due(driver.world) == NEVER
    assert worlds.pods(driver.world) == ()
    before = driver.world
    driver.create(4)
    assert driver.world is before
    assert worlds.advance(driver.world, NEVER)[1] == ()


def test_the_sources_can_be_stopped() -> None:
    driver = Driver(plain(), polls=True)
    driver.create(1)
    driver.until(31 * S)
    assert len(driver.lists()) == 1
    driver.ask(StopSource(driver.now, 7, "watch", WHY))
    driver.ask(StopSource(driver.now, 8, "poll", WHY))
    driver.ask(StopSource(driver.now, 9, "timers", WHY))
    seen = len(driver.shown())
    driver.ask(DeletePods(driver.now, 10, None, None, WHY))
    driver.until(120 * S)
    assert len(driver.shown()) == seen
    assert len(driver.lists()) == 1
    assert [driver.outcome(serial).at for serial in (7, 8, 9)] == [31 * S] * 3


@pytest.mark.parametrize(("timeout", "ready", "at", "failed"), [(1_000, 0, 5_000, False), (1_000, 5_500, 5_500, False),
                                                       (1_000, 9_000, 6_000, True)])  # fmt: skip
def test_waiting_for_the_driver_pod(timeout: int, ready: int, at: int, failed: bool) -> None:
    driver = Driver(replace(plain(), driver=FakeDriverPod(ready_ms=ready))).until(5 * S)
    driver.ask(AwaitDriverReady(driver.now, 1, "driver", timeout, WHY))
    driver.ask(GetDriverPod(driver.now, 2, "driver", WHY))
    outcome = driver.until(60 * S).outcome(1)
    assert (outcome.at, outcome.failure is not None) == (at, failed)
    assert driver.outcome(2).found == 1


def test_a_driver_pod_that_is_not_there() -> None:
    driver = Driver(replace(plain(), driver=FakeDriverPod(present=False)))
    driver.ask(GetDriverPod(0, 1, "driver", WHY))
    driver.ask(AwaitDriverReady(0, 2, "driver", 500, WHY))
    driver.until(S)
    missing = driver.outcome(1).failure
    assert missing is not None
    assert missing.status == 404
    failure = driver.outcome(2).failure
    assert failure is not None
    assert failure.exception_class.endswith("KubernetesClientTimeoutException")


# time and purity


def test_time_does_not_go_back() -> None:
    driver = Driver(plain()).until(S)
    with pytest.raises(ValueError, match="the cluster is at 1000 already, 999 is before that"):
        worlds.advance(driver.world, 999)
    with pytest.raises(ValueError, match="999"):
        worlds.apply(driver.world, CreatePod(0, 1, PodNumber(1), ProfileId(0), WHY), 999)


def test_a_description_that_cannot_be_played_is_refused() -> None:
    watch = replace(KIND.watch, loss=2.0, during=Window(5, 3))
    with pytest.raises(ValueError, match=r"watch\.loss: expected a share, 0 to 1; watch\.during\.until"):
        worlds.begin(replace(KIND, watch=watch), 1, 0)


def test_a_big_step_tells_the_same_as_small_ones() -> None:
    def ask(driver: Driver) -> Driver:
        driver.create(*range(1, 30))
        return driver

    small = ask(Driver(KIND, accept=None)).until(400 * S)
    world, heard = worlds.advance(ask(Driver(KIND, accept=None)).world, 400 * S)
    assert list(heard) == small.heard
    assert worlds.tally(world) == worlds.tally(small.world)


def test_a_fork_answers_as_its_moment_did() -> None:
    driver = Driver(KIND, seed=5)
    driver.create(*range(1, 40))
    past, story, counts = [], [], []
    while (at := worlds.due(driver.world)) < 200 * S:
        past.append((at, driver.world.fork()))
        counts.append(worlds.census(driver.world))
        before = len(driver.heard)
        driver.until(at)
        story.append(driver.heard[before:])
    for (at, old), told, count in reversed(list(zip(past, story, counts, strict=True))[:: max(1, len(past) // 40)]):
        assert worlds.census(old) == count
        assert list(worlds.advance(old, at)[1]) == told


def test_a_cluster_that_was_stepped_on_from_answers_no_more() -> None:
    old = Driver(KIND).world
    worlds.advance(old, worlds.due(old))
    for question in (worlds.due, worlds.census, worlds.tally, worlds.pods, KubernetesCluster.fork):
        with pytest.raises(Stale, match=r"this KubernetesCluster has been stepped on from: fork\(\) it before"):
            question(old)
    with pytest.raises(Stale):
        worlds.apply(old, DeletePods(0, 50, None, None, WHY), 0)


def test_one_luck_does_not_change_with_anothers() -> None:
    """A fault of the watch changes nothing of what pods do: each draws from a stream of its own."""

    def registered(watch: float) -> list[RegisterExecutor]:
        driver = Driver(replace(KIND, watch=replace(KIND.watch, loss=watch)))
        driver.create(*range(1, 20))
        return driver.until(300 * S).all(RegisterExecutor)

    assert registered(0.0) == registered(0.9)


def test_the_default_cluster_is_kind() -> None:
    driver = Driver(KIND)
    driver.create(*range(1, 201))
    driver.until(3_600 * S)
    assert driver.lives() == {Life.REGISTERED: 200}
    assert driver.failures() == []
    assert not [
        name for name in worlds.tally(driver.world) if name.startswith(("faults", "watch", "exits", "failures"))
    ]
    versions = [int(pod.version) for update in driver.all(PodsUpdated) for pod in update.pods]
    assert versions == sorted(versions)


def test_messages_keep_their_order() -> None:
    driver = Driver(plain(rpc=Constant(50)))
    driver.create(1)
    driver.until(6_260)
    assert [r.at for r in driver.all(RegisterExecutor)] == []
    driver.until(6_270)
    remove(driver, "1")  # right behind the answer
    driver.until(60 * S)
    assert driver.lives() == {Life.SUCCEEDED: 1}
