"""What can go wrong with pods: every fault can be had, and none comes unasked."""

from __future__ import annotations

import pytest

from podtide.domain.base.units import ExecutorId
from podtide.domain.fakes.kubernetes import cluster as worlds
from podtide.domain.fakes.kubernetes.cluster import FakeApplication
from podtide.domain.fakes.kubernetes.description import Image, Life, NodeGroup
from podtide.domain.fakes.windows import Window
from podtide.domain.protocol.executor_commands import DecommissionExecutors, ExitReason, RemoveExecutor
from podtide.domain.protocol.executor_stimuli import (
    ExecutorDisconnected,
    ExecutorExiting,
    Heartbeat,
    HeartbeatsStopped,
    RegisterExecutor,
)
from podtide.domain.protocol.pod_commands import DeletePods
from tests.support.world_play import WHY, Driver, S, plain, stage


def run(*stages: object, count: int = 200, until: int = 600, **settings: object) -> Driver:
    driver = Driver(plain(*stages, groups=(NodeGroup("worker", 20),), **settings))  # type: ignore[arg-type]
    driver.create(*range(1, count + 1))
    return driver.until(until * S)


def codes(driver: Driver) -> set[int]:
    return {int(name.removeprefix("exits.")) for name in worlds.tally(driver.world) if name.startswith("exits.")}


def test_crashes_at_start_up() -> None:
    driver = run(stage("crash", Life.RUNNING, Life.FAILED, 500, weight=0.25, exits=((1, 3.0), (52, 1.0))))
    lives = driver.lives()
    assert lives[Life.FAILED] == pytest.approx(40, rel=0.4)  # a fifth
    assert lives[Life.FAILED] + lives[Life.REGISTERED] == 200
    assert codes(driver) == {1, 52}
    assert driver.tally("executors.never registered") == lives[Life.FAILED]
    assert driver.all(ExecutorDisconnected) == []  # the driver never heard of them
    failed = [p for _, p in driver.shown() if p.phase == "Failed"]
    assert {p.containers[0].state.reason for p in failed if p.containers[0].state} == {"Error"}


def test_out_of_memory() -> None:
    oom = stage("oom", Life.REGISTERED, Life.FAILED, per_hour=2.0, exits=((137, 1.0),), reason="OOMKilled")
    driver = run(oom, until=3_600)
    assert driver.lives()[Life.FAILED] == pytest.approx(170, abs=20)  # 1 - e**-2 of 200, nearly
    assert codes(driver) == {137}
    assert len(driver.all(ExecutorDisconnected)) == driver.lives()[Life.FAILED]
    state = next(p for _, p in driver.shown() if p.phase == "Failed").containers[0].state
    assert state is not None
    assert (state.exit_code, state.reason) == (137, "OOMKilled")


def test_eviction() -> None:
    driver = run(stage("evict", Life.REGISTERED, Life.EVICTED, per_hour=60.0), count=3, until=3_600)
    pod = worlds.pods(driver.world)[0]
    assert (pod.phase, pod.reason, pod.message) == ("Failed", "Evicted", "The node was low on resource: memory.")
    assert driver.tally("pods.evicted") == 3
    assert worlds.census(driver.world).unfinished == 0


def test_an_image_that_cannot_be_pulled() -> None:
    driver = run(
        stage("no-image", Life.SCHEDULED, Life.HUNG, 100, reason="ImagePullBackOff"),
        without=("pull", "pulled"),
        count=2,
    )
    assert driver.lives() == {Life.HUNG: 2}
    state = driver.shown()[-1][1].containers[0].state
    assert state is not None
    assert (driver.shown()[-1][1].phase, state.kind, state.reason) == ("Pending", "waiting", "ImagePullBackOff")
    driver.ask(DeletePods(driver.now, 900, None, "Pending", WHY))
    driver.until(700 * S)
    assert worlds.pods(driver.world) == ()


def test_a_process_that_never_registers_and_ignores_its_end() -> None:
    driver = run(stage("hang", Life.RUNNING, Life.HUNG), without=("register",), count=1, until=60)
    assert driver.all(RegisterExecutor) == []
    driver.ask(RemoveExecutor(driver.now, ExecutorId("1"), ExitReason("ExecutorKilled", ""), WHY))
    driver.ask(DeletePods(driver.now, 900, None, None, WHY))
    driver.until(80 * S)
    assert len(worlds.pods(driver.world)) == 1
    driver.until(100 * S)
    assert worlds.pods(driver.world) == ()
    state = driver.shown()[-1][1].containers[0].state
    assert state is not None
    assert state.exit_code == 137


def test_an_executor_that_hangs_falls_silent_while_its_pod_runs() -> None:
    driver = run(stage("hang", Life.REGISTERED, Life.HUNG, 100 * S), count=30, until=300)
    accepted = {one.executor: one.at + 2 for one in driver.all(RegisterExecutor)}  # the answer takes 2 ms
    silent = driver.all(HeartbeatsStopped)
    assert {one.executor for one in silent} == set(accepted)
    for one in silent:
        assert one.at == accepted[one.executor] + 100 * S + 2, "the driver is told at once"
        # The first heartbeat comes one or two intervals after the registration, the last one less than one before.
        assert one.at - 10 * S < one.last_ms <= one.at
    phases = {(one.last_ms - accepted[one.executor]) % (10 * S) for one in silent}
    assert len(phases) > 20, "executors beat at different moments"
    assert {pod.phase for pod in worlds.pods(driver.world)} == {"Running"}
    assert driver.all(ExecutorDisconnected) == []
    assert driver.tally("pods.hung") == 30


def test_heartbeats_before_the_first_one_are_the_registration() -> None:
    driver = run(stage("hang", Life.REGISTERED, Life.HUNG, 9 * S), count=1, until=60)
    (silent,) = driver.all(HeartbeatsStopped)
    assert silent.last_ms == driver.all(RegisterExecutor)[0].at + 2 + 2


def test_how_often_an_executor_is_heard_from() -> None:
    hang = stage("hang", Life.REGISTERED, Life.HUNG, 100 * S)
    driver = Driver(plain(hang, groups=(NodeGroup("worker", 20),)), application=FakeApplication(heartbeat_ms=1_000))
    driver.create(*range(1, 21))
    driver.until(200 * S)
    assert len(driver.all(HeartbeatsStopped)) == 20
    assert all(one.at - 1 * S < one.last_ms <= one.at for one in driver.all(HeartbeatsStopped))


def test_an_executor_that_the_driver_removed_does_not_fall_silent() -> None:
    driver = run(stage("hang", Life.REGISTERED, Life.HUNG, 100 * S), count=1, until=60)
    driver.ask(RemoveExecutor(driver.now, ExecutorId("1"), ExitReason("ExecutorKilled", ""), WHY))
    driver.until(300 * S)
    assert driver.all(HeartbeatsStopped) == []
    assert driver.lives() == {Life.SUCCEEDED: 1}


def test_an_executor_that_ends_by_itself_falls_silent_before_the_driver_hears_why() -> None:
    driver = run(stage("oom", Life.REGISTERED, Life.FAILED, 50 * S, exits=((137, 1.0),)), count=1, until=100)
    (silent,), (lost,) = driver.all(HeartbeatsStopped), driver.all(ExecutorDisconnected)
    assert (silent.at, driver.heard.index(silent)) < (lost.at + 1, driver.heard.index(lost))


def test_an_executor_that_has_drained_reports_its_own_end() -> None:
    driver = run(count=1, until=60)
    driver.ask(DecommissionExecutors(driver.now, (ExecutorId("1"),), "bye", True, WHY))
    driver.until(100 * S)
    (exits,), (lost,) = driver.all(ExecutorExiting), driver.all(ExecutorDisconnected)
    assert (exits.at, exits.message) == (lost.at, "Finished decommissioning")
    assert driver.heard.index(exits) < driver.heard.index(lost)
    assert driver.all(HeartbeatsStopped) == []


def test_an_executor_that_goes_on_is_heard_from_again() -> None:
    driver = run(stage("hang", Life.REGISTERED, Life.HUNG, per_hour=3_600.0), count=5, until=120, calm_ms=60 * S)
    assert {one.executor for one in driver.all(HeartbeatsStopped)} == set("12345")
    assert [one.at for one in driver.all(Heartbeat)] == [60 * S + 2] * 5
    assert driver.lives() == {Life.REGISTERED: 5}


PAUSE = (
    stage("pause", Life.REGISTERED, Life.HUNG, 100 * S, during=Window(0, 60 * S)),
    stage("goes-on", Life.HUNG, Life.REGISTERED, 40 * S),
)


def test_an_executor_that_pauses_is_heard_from_again() -> None:
    driver = run(*PAUSE, count=1, until=300)
    (silent,), (again,) = driver.all(HeartbeatsStopped), driver.all(Heartbeat)
    assert (again.executor, again.at) == ("1", silent.at + 40 * S)
    assert driver.lives() == {Life.REGISTERED: 1}


def test_an_executor_that_was_removed_in_its_pause_exits_when_it_goes_on() -> None:
    driver = run(*PAUSE, count=1, until=120)
    (silent,) = driver.all(HeartbeatsStopped)
    driver.ask(RemoveExecutor(driver.now, ExecutorId("1"), ExitReason("ExecutorKilled", ""), WHY))
    driver.until(300 * S)
    assert driver.lives() == {Life.SUCCEEDED: 1}
    (lost,) = driver.all(ExecutorDisconnected)
    assert lost.at == silent.at + 40 * S + 300  # the exit's time
    assert len(driver.all(HeartbeatsStopped)) == 1, "it does not fall silent again"


def test_a_pod_that_hung_on_its_way_goes_on_where_it_was() -> None:
    driver = run(
        stage("no-image", Life.SCHEDULED, Life.HUNG, weight=1e9, during=Window(0, 10 * S)),
        stage("goes-on", Life.HUNG, Life.REGISTERED, 20 * S),
        count=2,
    )
    assert driver.lives() == {Life.REGISTERED: 2}
    assert driver.all(Heartbeat) == [], "nobody knew them when they hung"


def test_a_lost_connection() -> None:
    driver = run(stage("part", Life.REGISTERED, Life.DISCONNECTED, 10 * S), count=1, until=60)
    (lost,) = driver.all(ExecutorDisconnected)
    assert lost.address == driver.all(RegisterExecutor)[0].address
    # Spark's executor gives up when it loses the driver.
    at, pod = driver.shown()[-1]
    assert (at - lost.at, pod.phase) == (1_000 + 8, "Failed")


def test_stages_for_some_pods_only() -> None:
    driver = Driver(
        plain(
            stage("p1", Life.RUNNING, Life.FAILED, 10, weight=1e9, profiles=(1,)),
            stage("b", Life.REGISTERED, Life.SUCCEEDED, 10, groups=("b",)),
            stage("first", Life.SCHEDULED, Life.FAILED, 10, weight=1e9, image=Image.PRESENT, during=Window(0, 60 * S)),
            groups=(NodeGroup("a", 1, cpu_millis=2_000), NodeGroup("b", 1, cpu_millis=1_500)),
        )
    )
    driver.create(1, 2)
    driver.create(3, profile=1)
    driver.until(30 * S)
    assert [p.phase for p in worlds.pods(driver.world)] == ["Running", "Succeeded", "Failed"]


def test_jitter_makes_a_delay_longer_by_chance() -> None:
    driver = run(stage("start", Life.PULLED, Life.RUNNING, 100, jitter_ms=900), count=300)
    ends = {r.at for r in driver.all(RegisterExecutor)}
    assert len(ends) > 200


def test_a_weight_of_nothing_is_no_stage() -> None:
    driver = run(stage("crash", Life.RUNNING, Life.FAILED, weight=0.0), count=20)
    assert driver.lives() == {Life.REGISTERED: 20}


def test_calm_ends_all_of_it() -> None:
    driver = Driver(
        plain(
            stage("crash", Life.RUNNING, Life.FAILED, 20 * S, weight=1.0),
            stage("hang", Life.RUNNING, Life.HUNG, 0, weight=1.0),
            stage("no-image", Life.SCHEDULED, Life.HUNG, weight=1.0),
            stage("forgotten", Life.CREATED, Life.HUNG, weight=0.5),
            stage("deaf", Life.REGISTERED, Life.HUNG, per_hour=1_000.0),
            stage("stick", Life.TERMINATING, Life.STUCK, 0, weight=3.0),
            groups=(NodeGroup("worker", 20),),
            calm_ms=60 * S,
        )
    )
    driver.create(*range(1, 201))
    driver.until(40 * S)
    driver.ask(DeletePods(driver.now, 900, tuple(map(ExecutorId, map(str, range(1, 40)))), None, WHY))
    driver.until(59 * S)
    assert driver.lives()[Life.HUNG] > 20
    assert driver.lives()[Life.STUCK] > 0
    driver.until(900 * S)
    assert set(driver.lives()) <= {Life.REGISTERED, Life.FAILED}
    assert driver.tally("pods.gone") == 39
