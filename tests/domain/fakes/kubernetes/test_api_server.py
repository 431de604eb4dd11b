"""The API of the fake cluster: calls take time, are refused, get lost, are repeated; what the server's own rules say."""

from __future__ import annotations

import pytest

from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId
from podtide.domain.fakes.kubernetes import cluster as worlds
from podtide.domain.fakes.kubernetes.description import Fault, Lost, Verb
from podtide.domain.fakes.windows import Window
from podtide.domain.protocol import pod_commands
from podtide.domain.protocol.pod_stimuli import Outcome
from podtide.domain.protocol.pods import PodNumber
from tests.support.world_play import WHY, Driver, S, outline, plain, quick


def test_calls_of_one_thread_come_one_after_the_other() -> None:
    driver = Driver(plain())
    driver.create(1, 2, 3)
    driver.ask(pod_commands.ListPods(0, 50, WHY))
    driver.until(S)
    assert [(o.at, o.serial) for o in driver.all(Outcome)] == [(20, 1), (20, 50), (40, 2), (60, 3)]


@pytest.mark.parametrize("status", [403, 409, 422, 429, 500, 503, 504, 418])
def test_a_refusal_has_no_effect(status: int) -> None:
    driver = Driver(plain(api=quick(Fault(status=status, verbs=(Verb.CREATE,), resources=("pods",)))))
    driver.create(1)
    driver.until(60 * S)
    failure = driver.outcome(1).failure
    assert failure is not None
    assert (failure.status, failure.retry_after_ms) == (status, None)
    assert failure.message.startswith(
        "Failure executing: POST at: https://kubernetes.default.svc/api/v1/namespaces/default/pods. Message: "
    )
    assert f"code={status}" in failure.message
    assert worlds.pods(driver.world) == ()
    assert driver.tally(f"faults.{status}") == 1


def test_a_429_says_when_to_come_back() -> None:
    driver = Driver(plain(api=quick(Fault(status=429, retry_after_ms=1_500, message="slow down"))))
    driver.create(1)
    failure = driver.until(S).outcome(1).failure
    assert failure is not None
    assert failure.retry_after_ms == 1_500
    assert "Message: slow down." in failure.message


@pytest.mark.parametrize(("lost", "created"), [(Lost.ANSWER, 1), (Lost.REQUEST, 0)])
def test_what_is_lost_of_a_call(lost: Lost, created: int) -> None:
    driver = Driver(plain(api=quick(Fault(lost=lost))))
    driver.create(1)
    driver.until(60 * S)
    outcome = driver.outcome(1)
    assert outcome.at == 10 * S  # the client's timeout
    assert outcome.failure is not None
    assert outcome.failure.status is None
    assert "Operation: [create]  for kind: [Pod]  with name: [exec-exec-1]" in outcome.failure.message
    assert len(worlds.pods(driver.world)) == created
    assert bool(driver.shown()) == bool(created)


@pytest.mark.parametrize(
    ("fault", "hit"),
    [
        (Fault(status=500, verbs=(Verb.DELETE,)), {2}),
        (Fault(status=500, resources=("pods",)), {1, 2}),
        (Fault(status=500, resources=("configmaps",)), {3}),
        (Fault(status=500, during=Window(0, 5)), set()),
        (Fault(status=500, during=Window(5, 15)), {1, 3}),
        (Fault(status=500, probability=0.0), set()),
        (Fault(status=500), {1, 2, 3}),
    ],
)
def test_which_calls_a_fault_hits(fault: Fault, hit: set[int]) -> None:
    driver = Driver(plain(api=quick(fault)))
    driver.create(1)
    driver.ask(pod_commands.DeletePods(0, 2, None, None, WHY))
    driver.ask(pod_commands.CreateConfigMap(0, 3, WHY))
    driver.until(S)
    assert {o.serial for o in driver.all(Outcome) if o.failure is not None} == hit


# a client that asks again


def test_the_client_repeats_what_may_pass() -> None:
    api = quick(Fault(status=500, during=Window(0, 400)), retries=10)
    driver = Driver(plain(api=api))
    driver.create(1)
    driver.until(10 * S)
    outcome = driver.outcome(1)
    # Attempts begin at 0, 20+100, 140+200, 360+400.
    assert (outcome.at, outcome.failure) == (780, None)
    assert driver.tally("calls.create pods") == 4
    assert driver.tally("calls.repeated") == 3


@pytest.mark.parametrize(("status", "attempts"), [(429, 3), (500, 3), (503, 3), (403, 1), (409, 1), (422, 1)])
def test_what_the_client_repeats(status: int, attempts: int) -> None:
    driver = Driver(plain(api=quick(Fault(status=status), retries=2)))
    driver.create(1)
    driver.until(10 * S)
    assert driver.tally("calls.create pods") == attempts
    assert driver.failures() == [status]


def test_retry_after_is_kept() -> None:
    driver = Driver(plain(api=quick(Fault(status=429, retry_after_ms=3_000, during=Window(0, 15)), retries=1)))
    driver.create(1)
    assert driver.until(10 * S).outcome(1).at == 3_040


def test_a_repeated_create_whose_answer_was_lost_finds_its_own_pod() -> None:
    driver = Driver(plain(api=quick(Fault(lost=Lost.ANSWER, during=Window(0, 15)), retries=1, timeout_ms=1_000)))
    driver.create(1)
    failure = driver.until(10 * S).outcome(1).failure
    assert failure is not None
    assert failure.status == 409
    assert 'pods "exec-exec-1" already exists' in failure.message


# the server's own rules


def test_the_quota() -> None:
    driver = Driver(plain(api=quick(quota_pods=2)))
    driver.create(1, 2, 3)
    driver.until(60 * S)
    failure = driver.outcome(3).failure
    assert failure is not None
    assert failure.status == 403
    assert (
        'pods "exec-exec-3" is forbidden: exceeded quota: executors, requested: pods=1, used: pods=2, limited: pods=2'
        in failure.message
    )
    driver.ask(pod_commands.DeletePods(driver.now, 9, (PodNumber(1),), None, WHY))
    driver.until(120 * S)
    driver.create(4)
    assert driver.until(180 * S).outcome(4).failure is None


@pytest.mark.parametrize(
    ("executors", "phase", "left"),
    [
        (None, None, set()),
        ((PodNumber(1),), None, {"2", "3"}),
        ((ExecutorId("2"), ExecutorId("77")), None, {"1", "3"}),
        ((PodNumber(1), PodNumber(3)), "Pending", {"1", "2"}),
        (None, "Running", {"3"}),
    ],
)
def test_deleting_by_label_and_phase(
    executors: tuple[PodNumber, ...] | None, phase: str | None, left: set[str]
) -> None:
    driver = Driver(plain())
    driver.create(1, 2)
    driver.until(60 * S)
    driver.create(3)
    driver.until(61 * S)
    driver.ask(pod_commands.DeletePods(driver.now, 9, executors, phase, WHY))  # type: ignore[arg-type]
    driver.until(61 * S + 15)
    pods = worlds.pods(driver.world)
    assert {p.labels["spark-exec-id"] for p in pods if p.deleted_at is None} == left


def test_inactive_pods_leave_the_watch_and_the_lists() -> None:
    driver = Driver(plain(), accept=False)
    driver.create(1, 2)
    driver.until(60 * S)
    driver.ask(pod_commands.MarkInactive(driver.now, 3, PodNumber(1), "exec-exec-1", WHY))
    driver.ask(pod_commands.MarkInactive(driver.now, 4, PodNumber(9), "exec-exec-9", WHY))
    driver.until(61 * S)
    at, pod = driver.shown("exec-exec-1")[-1]
    # The watcher's selector does not see it any more: it looks deleted, as it was.
    assert (at, outline(pod), "spark-exec-inactive" in pod.labels) == (
        60_020, ("Failed", True, False, "terminated"), False,
    )  # fmt: skip
    driver.ask(pod_commands.ListPods(driver.now, 5, WHY))
    listed = driver.until(62 * S).outcome(5)
    assert [p.name for p in listed.pods] == ["exec-exec-2"]
    assert (listed.found, listed.version) == (1, str(driver.world._tables.versions.last))
    failure = driver.outcome(4).failure
    assert failure is not None
    assert (failure.status, 'pods "exec-exec-9" not found' in failure.message) == (404, True)


def test_marking_pods_ends_at_the_first_failure() -> None:
    driver = Driver(plain(api=quick(Fault(status=500, verbs=(Verb.PATCH,), during=Window(120 * S)))))
    driver.create(1, 2, 3)
    driver.until(60 * S)
    wanted = tuple(map(ExecutorId, ("3", "1", "8")))
    driver.ask(pod_commands.MarkPods(driver.now, 5, wanted, "label", "going", "soon", WHY))
    driver.until(61 * S)
    assert (driver.outcome(5).found, driver.outcome(5).failure) == (2, None)
    assert {p.name for p in worlds.pods(driver.world) if p.labels.get("going") == "soon"} == {
        "exec-exec-1",
        "exec-exec-3",
    }
    driver.until(120 * S)
    driver.ask(pod_commands.MarkPods(driver.now, 6, (ExecutorId("2"), ExecutorId("1")), "label", "more", "", WHY))
    driver.until(121 * S)
    assert driver.outcome(6).failure is not None
    assert not [p for p in worlds.pods(driver.world) if "more" in p.labels]


@pytest.mark.parametrize("by_driver", [True, False])
def test_claims_go_with_their_owner(by_driver: bool) -> None:
    driver = Driver(plain())
    driver.create(1, claims=("c1",))
    claim = pod_commands.ClaimSpec("c1", "fast", "10Gi")
    for serial in (2, 3):
        driver.ask(pod_commands.CreateClaim(0, serial, PodNumber(1), claim, by_driver, WHY))
    driver.ask(pod_commands.ResizeClaim(0, 4, ExecutorId("1"), "c1", 2**35, WHY))
    driver.ask(pod_commands.ResizeClaim(0, 5, ExecutorId("1"), "c2", 2**35, WHY))
    driver.until(60 * S)
    assert driver.outcome(2).failure is None
    failure = driver.outcome(3).failure
    assert failure is not None
    assert (failure.status, "already exists" in failure.message) == (409, True)
    driver.ask(pod_commands.DeletePods(driver.now, 6, None, None, WHY))
    driver.until(120 * S)
    driver.ask(pod_commands.ListClaims(driver.now, 7, DEFAULT_PROFILE, WHY))
    claims = driver.until(121 * S).outcome(7).claims
    expected = [("c1", "fast", "10Gi", "1970-01-01T00:00:00Z")] if by_driver else []
    assert [tuple(c) for c in claims] == expected
    driver.ask(pod_commands.DeleteOwned(driver.now, 8, "persistentvolumeclaims", WHY))
    assert driver.until(122 * S).outcome(8).found == len(expected)


def test_a_claim_whose_owner_is_gone_is_collected() -> None:
    driver = Driver(plain())
    driver.ask(pod_commands.CreateClaim(0, 1, PodNumber(5), pod_commands.ClaimSpec("c", "fast", "1Gi"), False, WHY))
    driver.ask(pod_commands.ListClaims(0, 2, DEFAULT_PROFILE, WHY))
    driver.until(S)
    assert driver.outcome(1).failure is None
    assert driver.outcome(2).claims == ()


def test_config_maps_services_and_resizes() -> None:
    driver = Driver(plain())
    driver.create(1)
    driver.until(60 * S)
    driver.ask(pod_commands.CreateConfigMap(driver.now, 11, WHY))
    driver.ask(pod_commands.CreateConfigMap(driver.now, 12, WHY))
    for serial, kind in ((13, "configmaps"), (14, "configmaps"), (15, "services"), (16, "services")):
        driver.ask(pod_commands.DeleteOwned(driver.now, serial, kind, WHY))  # type: ignore[arg-type]
    driver.ask(pod_commands.ResizePod(driver.now, 17, ExecutorId("1"), "exec-exec-1", "spark", 2**31, WHY))
    driver.ask(pod_commands.ResizePod(driver.now, 18, ExecutorId("2"), "exec-exec-2", "spark", 2**31, WHY))
    driver.until(61 * S)
    assert driver.failures() == [409, 404]
    assert [driver.outcome(serial).found for serial in (13, 14, 15, 16, 17)] == [1, 0, 1, 0, 1]
