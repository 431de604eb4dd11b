"""StatefulSets and Deployments: replicas kept, who goes first, restarts in place, names asked for."""

from __future__ import annotations

from typing import Literal

import pytest

from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId
from podtide.domain.fakes.kubernetes import cluster as worlds
from podtide.domain.fakes.kubernetes.description import Life, PodStage
from podtide.domain.protocol.executor_stimuli import ExecutorDisconnected, RegisterExecutor
from podtide.domain.protocol.pod_commands import (
    ClaimSpec,
    CreateSet,
    DeletePods,
    DeleteSet,
    ListClaims,
    MarkPods,
    ScaleSet,
)
from podtide.domain.protocol.pod_stimuli import GenerateExecutorId
from tests.support.world_play import WHY, Driver, S, plain, quick, stage

Kind = Literal["statefulset", "deployment"]
KINDS: tuple[Kind, ...] = ("statefulset", "deployment")


def begin(
    kind: Kind, replicas: int, *stages: PodStage, claims: tuple[ClaimSpec, ...] = (), quota: int | None = None
) -> Driver:
    driver = Driver(plain(*stages, api=quick(quota_pods=quota)))
    driver.ask(CreateSet(0, driver.next_serial(), kind, "spark-set", DEFAULT_PROFILE, replicas, WHY, claims))
    return driver


def scale(driver: Driver, kind: Kind, replicas: int, name: str = "spark-set") -> int:
    serial = driver.next_serial()
    driver.ask(ScaleSet(driver.now, serial, kind, name, DEFAULT_PROFILE, replicas, WHY))
    return serial


def names(driver: Driver) -> list[str]:
    return sorted(p.name for p in worlds.pods(driver.world))


@pytest.mark.parametrize("kind", KINDS)
def test_pods_ask_for_an_id_and_register_with_it(kind: Kind) -> None:
    driver = begin(kind, 3)
    driver.until(60 * S)
    asked = driver.all(GenerateExecutorId)
    registered = driver.all(RegisterExecutor)
    assert sorted(a.pod for a in asked) == names(driver)
    assert [r.executor for r in registered] == ["1", "2", "3"]
    assert [r.address for r in registered] == [a.address for a in asked]
    assert {p.labels["spark-exec-id"] for p in worlds.pods(driver.world)} == {"1", "2", "3"}
    assert {p.restart_policy for p in worlds.pods(driver.world)} == {"Always"}
    assert driver.shown()[0][1].labels["spark-exec-id"] == "EXECID"
    assert driver.lives() == {Life.REGISTERED: 3}


def test_a_deployment_deletes_the_cheapest_first() -> None:
    driver = begin("deployment", 4)
    driver.until(60 * S)
    cost = "controller.kubernetes.io/pod-deletion-cost"
    driver.ask(MarkPods(driver.now, 90, (ExecutorId("2"),), "annotation", cost, "-10", WHY))
    driver.until(61 * S)
    scale(driver, "deployment", 3)
    driver.until(120 * S)
    assert sorted(p.labels["spark-exec-id"] for p in worlds.pods(driver.world)) == ["1", "3", "4"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_deleted_comes_back(kind: Kind) -> None:
    driver = begin(kind, 3)
    driver.until(60 * S)
    before = {p.uid for p in worlds.pods(driver.world)}
    driver.ask(DeletePods(driver.now, 90, (ExecutorId("1"),), None, WHY))
    driver.until(120 * S)
    after = {p.uid for p in worlds.pods(driver.world)}
    assert (len(after), len(before & after)) == (3, 2)
    assert [r.executor for r in driver.all(RegisterExecutor)][3:] == ["4"]


@pytest.mark.parametrize("kind", KINDS)
def test_evicted_pods_are_replaced(kind: Kind) -> None:
    driver = begin(kind, 2, stage("evict", Life.REGISTERED, Life.EVICTED, 30 * S))
    driver.until(50 * S)
    running = [p for p in worlds.pods(driver.world) if p.phase != "Failed"]
    assert len(running) == 2
    assert driver.tally("pods.evicted") == 2


def test_a_container_starts_again_ever_later() -> None:
    driver = begin("statefulset", 1, stage("register", Life.RUNNING, Life.FAILED, 1_000, exits=((3, 1.0),)))
    driver.until(200 * S)
    states = []
    for at, pod in driver.shown():
        state = pod.containers[0].state if pod.containers else None
        if state is not None and pod.phase == "Running":
            states.append((at - 10, state.kind, state.reason))
    began = states[0][0]
    assert [(at - began, kind, reason) for at, kind, reason in states][:9] == [
        (0, "running", None),
        (1_000, "terminated", "Error"),
        (2_000, "running", None),
        (3_000, "terminated", "Error"),
        (4_000, "waiting", "CrashLoopBackOff"),
        (14_000, "running", None),
        (15_000, "terminated", "Error"),
        (16_000, "waiting", "CrashLoopBackOff"),
        (36_000, "running", None),
    ]
    assert driver.lives() in ({Life.BACKOFF: 1}, {Life.RUNNING: 1})


def test_after_a_restart_it_is_another_executor() -> None:
    driver = begin("deployment", 1, stage("fail", Life.REGISTERED, Life.FAILED, 10 * S))
    driver.until(30 * S)
    assert [r.executor for r in driver.all(RegisterExecutor)] == ["1", "2"]
    one, other = driver.all(RegisterExecutor)
    assert one.address != other.address
    assert next(d.address for d in driver.all(ExecutorDisconnected)) == one.address
    assert worlds.pods(driver.world)[0].labels["spark-exec-id"] == "2"


def test_claims_come_from_templates_and_stay() -> None:
    driver = begin("statefulset", 2, claims=(ClaimSpec("data", "fast", "5Gi"),))
    driver.until(60 * S)
    assert worlds.pods(driver.world)[0].claims == ("data-spark-set-0",)
    scale(driver, "statefulset", 0)
    driver.until(120 * S)
    driver.ask(ListClaims(driver.now, 95, DEFAULT_PROFILE, WHY))
    claims = driver.until(121 * S).outcome(95).claims
    assert [c.name for c in claims] == ["data-spark-set-0", "data-spark-set-1"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_quota_holds_back_a_controller(kind: Kind) -> None:
    driver = begin(kind, 5, quota=3)
    driver.until(60 * S)
    assert len(names(driver)) == 3
    scale(driver, kind, 2)
    driver.until(120 * S)
    assert len(names(driver)) == 2
    assert driver.tally("quota.refused") > 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_set_is_deleted_with_its_pods(kind: Kind) -> None:
    driver = begin(kind, 3)
    driver.until(60 * S)
    for serial in (90, 91):
        driver.ask(DeleteSet(driver.now, serial, kind, "spark-set", WHY))
    driver.until(120 * S)
    assert names(driver) == []
    assert driver.failures() == [404]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_there_cannot_be_scaled_and_what_is_there_cannot_be_made(kind: Kind) -> None:
    driver = begin(kind, 1)
    other = KINDS[1 - KINDS.index(kind)]
    wrong = [scale(driver, kind, 3, "nothing"), scale(driver, other, 3)]
    driver.ask(CreateSet(0, 93, kind, "spark-set", DEFAULT_PROFILE, 1, WHY))
    driver.until(60 * S)
    for serial, status in [(wrong[0], 404), (wrong[1], 404), (93, 409)]:
        failure = driver.outcome(serial).failure
        assert failure is not None
        assert failure.status == status
        assert ".apps " in failure.message
    assert len(names(driver)) == 1
