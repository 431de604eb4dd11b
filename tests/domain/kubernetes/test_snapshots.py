"""Pods and their states, and what a list or an update changes. Spark's own scenarios carry their ids (D1 to D5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from podtide.domain.jvm.exceptions import NUMBER_FORMAT, SparkFault
from podtide.domain.kubernetes import snapshots
from podtide.domain.kubernetes.snapshots import Taken, View
from podtide.domain.protocol.pods import (
    EXECUTOR_LABEL,
    SPARK_CONTAINER,
    TERMINATED,
    ContainerState,
    Pod,
    PodContainer,
    PodManifest,
    PodNumber,
    PodRules,
    PodState,
    Snapshot,
)

SPARK_ALONE = PodRules(check_all_containers=False)
ALL = PodRules(check_all_containers=True)
LONG_AGO = "2020-01-01T00:00:00Z"


def manifest(number: object = 1, phase: str | None = "Running", **changes: Any) -> PodManifest:
    labels = {} if number is None else {EXECUTOR_LABEL: str(number)}
    return PodManifest(f"exec-{number}", labels, phase=phase, **changes)


def ended(name: str, code: int | None) -> PodContainer:
    return PodContainer(name, state=ContainerState(TERMINATED, code))


def spark(code: int | None) -> PodContainer:
    return ended(SPARK_CONTAINER, code)


SIDE_CAR = PodContainer("side-car")


def state(pod: PodManifest, rules: PodRules = ALL) -> PodState | str:
    found = snapshots.read(pod, rules)
    assert found is not None
    return found.exception_class if isinstance(found, SparkFault) else found.state


@pytest.mark.parametrize("rules", [SPARK_ALONE, ALL], ids=["D1", "D2"])
@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (manifest(phase="Pending"), PodState.PENDING),
        (manifest(phase="Running"), PodState.RUNNING),
        (manifest(phase="Succeeded"), PodState.SUCCEEDED),
        (manifest(phase="Failed"), PodState.FAILED),
        (manifest(phase=None, has_status=False, deleted_at=LONG_AGO), PodState.DELETED),
        (manifest(phase="unknown"), PodState.UNKNOWN),
        (manifest(containers=(spark(0), SIDE_CAR)), PodState.SUCCEEDED),
        (manifest(containers=(spark(1), SIDE_CAR)), PodState.FAILED),
    ],
)
def test_states_of_the_suite(pod: PodManifest, rules: PodRules, expected: PodState) -> None:
    assert state(pod, rules) is expected


@pytest.mark.parametrize(
    ("rules", "policy", "expected"),
    [
        pytest.param(ALL, "Never", PodState.FAILED, id="D2"),
        pytest.param(ALL, "Always", PodState.RUNNING, id="restarted"),
        pytest.param(ALL, "never", PodState.RUNNING, id="the case counts"),
        pytest.param(ALL, None, PodState.RUNNING, id="no policy"),
        pytest.param(SPARK_ALONE, "Never", PodState.RUNNING, id="D1"),
    ],
)
def test_a_side_car_that_failed(rules: PodRules, policy: str | None, expected: PodState) -> None:
    pod = manifest(restart_policy=policy, containers=(PodContainer(SPARK_CONTAINER), ended("side-car", 1)))
    assert state(pod, rules) is expected


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        pytest.param("Running", PodState.RUNNING, id="D5-running"),
        pytest.param("Pending", PodState.DELETED, id="D5-pending"),
        ("Terminating", PodState.TERMINATING),
        ("Failed", PodState.DELETED),
        ("Succeeded", PodState.DELETED),
        ("Weird", PodState.DELETED),
        (None, PodState.DELETED),
    ],
)
def test_a_pod_being_deleted(phase: str | None, expected: PodState) -> None:
    assert state(manifest(phase=phase, deleted_at=LONG_AGO)) is expected


@pytest.mark.parametrize(
    ("label", "number"),
    [
        ("7", 7),
        ("007", 7),
        ("+5", 5),
        ("-5", -5),
        ("٣", 3),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0" * 100_000 + "7", 7),
        ("0" * 30, 0),
    ],
)
def test_numbers_as_java_reads_them(label: str, number: int) -> None:
    found = snapshots.read(manifest(label), ALL)
    assert isinstance(found, Pod)
    assert found.number == number


@pytest.mark.parametrize(
    "label", ["x1", "", "+", "-", "--5", " 5", "5 ", "1_0", "5.0", "9223372036854775808", "𝟓", "9" * 100_000, "execid"]
)
def test_what_is_no_number(label: str) -> None:
    assert snapshots.read(manifest(label), ALL) == SparkFault(NUMBER_FORMAT, f'For input string: "{label}"')


# --------------------------------------------------------------------------------------------------- views and deltas


def took(result: Taken | SparkFault) -> Taken:
    assert isinstance(result, Taken)
    return result


def updated(view: View, *pods: PodManifest) -> View:
    for pod in pods:
        view = took(snapshots.update(view, pod, ALL)).view
    return view


def listed(view: View, *pods: PodManifest, now: int = 100) -> Taken:
    return took(snapshots.replace(view, pods, ALL, now))


def seen(view: View) -> dict[int, PodState]:
    return {pod.number: pod.state for pod in view.pods()}


def numbers(pods: Sequence[Pod]) -> list[int]:
    return [pod.number for pod in pods]


@pytest.mark.parametrize(
    "pod", [manifest(None), manifest("EXECID"), manifest(1)], ids=["D5-no id", "D5-EXECID", "same"]
)
def test_an_update_that_changes_nothing_is_a_snapshot_all_the_same(pod: PodManifest) -> None:
    view = updated(snapshots.empty(), manifest(1))
    assert snapshots.update(view, pod, ALL) == Taken(view, Snapshot(0))


@pytest.mark.parametrize("bad", [manifest("x1"), manifest(3, None)])
def test_a_pod_that_cannot_be_read_changes_nothing(bad: PodManifest) -> None:
    view = updated(snapshots.empty(), manifest(1))
    assert isinstance(snapshots.update(view, bad, ALL), SparkFault)
    assert isinstance(snapshots.replace(view, [manifest(2), bad], ALL, 5), SparkFault)
    assert seen(view) == {1: PodState.RUNNING}


def known(number: object, version: str, phase: str | None = "Running", uid: str | None = None) -> PodManifest:
    return manifest(number, phase, version=version, uid=f"uid-{number}" if uid is None else uid)


def test_a_pod_of_a_known_version_is_not_read_again() -> None:
    first = listed(snapshots.empty(), known(1, "5"), known(2, "6")).view
    taken = listed(first, known(1, "5", phase=None), known(2, "7", "Failed"))  # a phase of None cannot be read
    assert numbers(taken.snapshot.changed) == [2]
    assert seen(taken.view) == {1: PodState.RUNNING, 2: PodState.FAILED}


@pytest.mark.parametrize(("uid", "version"), [("", "5"), ("uid-1", "")])
def test_without_uid_or_version_the_value_counts(uid: str, version: str) -> None:
    first = listed(snapshots.empty(), known(1, version, uid=uid), known(2, "9")).view
    assert listed(first, known(1, version, uid=uid), known(2, "9")).snapshot.changed == ()
    assert numbers(listed(first, known(1, version, "Failed", uid=uid), known(2, "9")).snapshot.changed) == [1]


def test_under_other_rules_every_pod_is_read_again() -> None:
    side_car = known(1, "5")._replace(restart_policy="Never", containers=(ended("side-car", 1),))
    view = took(snapshots.replace(snapshots.empty(), [side_car], SPARK_ALONE, 1)).view
    assert seen(view) == {1: PodState.RUNNING}
    assert seen(took(snapshots.replace(view, [side_car], ALL, 2)).view) == {1: PodState.FAILED}
    after_update = took(snapshots.update(view, known(2, "6"), ALL)).view
    assert seen(took(snapshots.replace(after_update, [side_car, known(2, "6")], ALL, 2)).view)[1] is PodState.FAILED


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([known(1, "5"), known(1, "9", "Failed", uid="twin")], id="a twin behind the known pod"),
        pytest.param([known(1, "9", "Failed", uid="twin"), known(1, "5")], id="a twin before the known pod"),
        pytest.param([known(3, "8", uid="uid-1")], id="the pod got another number"),
        pytest.param([known("EXECID", "8", uid="uid-1")], id="the pod lost its number"),
        pytest.param([known(4, "1", uid="a"), known(4, "1", "Failed", uid="b")], id="two new ones of a number"),
        pytest.param([known(1, "9", "Failed", uid="successor")], id="another pod has the number now"),
        pytest.param([known(1, "5"), known(1, "5")], id="the same pod twice"),
        pytest.param([known(2, "6"), known(1, "5")], id="another order"),
        pytest.param([], id="nothing left"),
    ],
)
def test_a_list_compared_by_version_ends_as_one_read_anew(pods: list[PodManifest]) -> None:
    view = listed(snapshots.empty(), known(1, "5"), known(2, "6")).view
    taken = listed(view, *pods)
    anew = listed(snapshots.empty(), *pods).view
    assert taken.view == anew
    assert {pod.number for pod in taken.snapshot.changed} == {p.number for p in anew.pods() if view.get(p.number) != p}
    assert set(taken.snapshot.gone) == {pod.number for pod in view.pods() if pod.number not in anew}


def test_a_uid_that_two_pods_share_is_no_longer_trusted() -> None:
    view = updated(listed(snapshots.empty(), known(1, "5")).view, known(2, "6", uid="uid-1"))
    taken = listed(view, known(2, "6", uid="uid-1"))
    assert taken.snapshot.gone == (PodNumber(1),)
    assert seen(taken.view) == {2: PodState.RUNNING}


def test_a_view_can_be_made_from_what_was_stored() -> None:
    view = listed(snapshots.empty(), known(1, "5"), known(2, "6"), now=40).view
    stored = snapshots.of(view.pods(), view.full_ts, view.rules)
    assert stored == view
    assert stored != updated(view, known(3, "9"))
    assert hash(stored) == hash(view)
    assert stored.whole() == Snapshot(40, view.pods())
    assert listed(stored, known(1, "5"), known(2, "6")).snapshot == Snapshot(100)
    assert len(stored) == 2
    assert PodNumber(2) in stored
    assert stored.get(PodNumber(9)) is None
    assert stored != 5
