"""Exit codes, texts and what throws. Texts and faults are those of runs of real Spark 4.3.0 (quirks 47, 73, 79)."""

from __future__ import annotations

import pytest

from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.kubernetes.lifecycle.exit_reasons import of_missing, of_pod, strip_margin
from podtide.domain.protocol.executor_commands import ExitReason
from podtide.domain.protocol.pods import Pod, PodContainer, PodManifest, PodNumber, PodState
from tests.support.lifecycle_play import ended

SPARK = "spark-kubernetes-executor"


def reason(
    *containers: PodContainer,
    state: PodState = PodState.FAILED,
    text: str | None = None,
    message: str | None = None,
    has_status: bool = True,
) -> ExitReason | SparkFault:
    manifest = PodManifest(containers=containers, reason=text, message=message, has_status=has_status)
    return of_pod(Pod(PodNumber(7), state, manifest), SPARK)


def message_of(found: ExitReason | SparkFault) -> str:
    assert isinstance(found, ExitReason)
    return found.message


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("a\n   | b\n| c\nd | e\n \t|f", "a\n b\n c\nd | e\nf"),
        ("a\r  |b\f |c\r\n |d\x01|e", "a\rb\f |c\r\nd\x01|e"),  # CR ends a line, a form feed does not
        (" |x\n\x03\x1f |y\n\xa0|z", "x\ny\n\xa0|z"),  # blank is what is not above the space
        ("|\n||", "\n|"),
        ("  \n  ", "  \n  "),
        ("", ""),
        ("a\u2028  |b\x85 |c", "a\u2028  |b\x85 |c"),
    ],
)
def test_margins_are_stripped_as_scala_does(text: str, stripped: str) -> None:
    assert strip_margin(text) == stripped


@pytest.mark.parametrize(
    ("containers", "state", "has_status", "missing"),
    [
        ((), PodState.DELETED, False, "Pod.getStatus()"),
        ((PodContainer(SPARK, None, None),), PodState.FAILED, True, "ContainerStatus.getState()"),
        ((PodContainer(SPARK, None, None),), PodState.DELETED, True, "ContainerStatus.getState()"),
        ((PodContainer("side", None, None),), PodState.SUCCEEDED, True, '"state"'),
        ((ended(None),), PodState.FAILED, True, "ContainerStateTerminated.getExitCode()"),
        ((ended(None, "side"),), PodState.FAILED, True, "ContainerStateTerminated.getExitCode()"),
    ],
)
def test_what_throws(containers: tuple[PodContainer, ...], state: PodState, has_status: bool, missing: str) -> None:
    found = reason(*containers, state=state, has_status=has_status)
    assert isinstance(found, SparkFault)
    assert found.exception_class == "java.lang.NullPointerException"
    assert missing in found.message


@pytest.mark.parametrize(
    ("containers", "code"),
    [
        ((ended(None),), 0),  # Scala unboxes null to 0
        ((PodContainer("side", None, None),), -1),
        ((ended(4), PodContainer(SPARK, None, None)), 4),
    ],
)
def test_what_does_not_throw_for_a_deleted_pod(containers: tuple[PodContainer, ...], code: int) -> None:
    found = reason(*containers, state=PodState.DELETED)
    assert isinstance(found, ExitReason)
    assert found.exit_code == code


def test_a_missing_executor() -> None:
    found = of_missing(PodNumber(1), 7, 30_008, 30_000)
    assert found == ExitReason(
        "ExecutorExited",
        "The executor with ID 1 (registered at 7 ms) was not found in the cluster at the polling time (30008 ms) "
        "which is after the accepted detect delta time (30000 ms) configured by "
        "`spark.kubernetes.executor.missingPodDetectDelta`. The executor may have been deleted but the driver missed "
        "the deletion event. Marking this executor as failed.",
        -1,
        caused_by_app=False,
    )
