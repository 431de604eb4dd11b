"""Exit codes, texts and what throws. Texts and faults are those of runs of real Spark 4.3.0 (quirks 47, 73, 79)."""

from __future__ import annotations

import pytest

from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.kubernetes.lifecycle.exit_reasons import describe_exit_code, of_missing, of_pod, strip_margin
from podtide.domain.protocol.pod_commands import ExitReason
from podtide.domain.protocol.pods import (
    RUNNING,
    WAITING,
    Container,
    ContainerState,
    Pod,
    PodManifest,
    PodNumber,
    PodState,
)
from tests.support.lifecycle_play import ended

SPARK = "spark-kubernetes-executor"


def reason(
    *containers: Container,
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
    ("code", "text"),
    [
        (0, "0(success)"),
        (1, "1(generic, look at logs to clarify)"),
        (42, "42(Douglas Adams fan)"),
        (10, "10(Uncaught exception)"),
        (50, "50(Uncaught exception)"),
        (52, "52(JVM OOM)"),
        (53, "53(DiskStore failed to create temp dir)"),
        (126, "126(not executable - possibly perm or arch)"),
        (137, "137(SIGKILL, possible container OOM)"),
        (139, "139(SIGSEGV: that's unexpected)"),
        (255, "255(exit-1, your guess is as good as mine)"),
        (143, "143(unexpected)"),
        (-1, "-1(unexpected)"),
    ],
)
def test_exit_codes_are_explained(code: int, text: str) -> None:
    assert describe_exit_code(code) == text


@pytest.mark.parametrize(
    ("containers", "code"),
    [
        ((), -1),
        ((ended(3),), 3),
        ((ended(4, "other"), ended(5), ended(6)), 5),  # the first with the name that has terminated
        ((Container(SPARK), ended(6)), 6),
        ((ended(4, "other"),), -1),
    ],
)
def test_whose_exit_code_counts(containers: tuple[Container, ...], code: int) -> None:
    found = reason(*containers)
    assert isinstance(found, ExitReason)
    assert found.exit_code == code
    assert found.caused_by_app


@pytest.mark.parametrize("state", [PodState.FAILED, PodState.SUCCEEDED])
def test_the_whole_text(state: PodState) -> None:
    found = reason(
        Container(SPARK, "img:1", ContainerState("terminated", 137, "OOMKilled", "09:00", "09:01")),
        Container("run", "", ContainerState(RUNNING, started_at="08:00")),
        Container("wait", None, ContainerState(WAITING, reason="ImagePullBackOff")),
        Container("", None, ContainerState()),
        state=state,
        text="Evicted",
        message="The node was low on resource: memory.",
    )
    assert message_of(found) == (
        "\nThe executor with id 7 exited with exit code 137(SIGKILL, possible container OOM)."
        "\nThe API gave the following brief reason: Evicted"
        "\nThe API gave the following message: The node was low on resource: memory."
        "\n\nThe API gave the following container statuses:\n\n"
        "\n\t container name: spark-kubernetes-executor\n\t container image: img:1"
        "\n\t container state: terminated\n\t container started at: 09:00\n\t container finished at: 09:01"
        "\n\t exit code: 137\n\t termination reason: OOMKilled\n\n"
        "\n\t container name: run\n\t container image: N/A"
        "\n\t container state: running\n\t container started at: 08:00\n\n"
        "\n\t container name: wait\n\t container image: N/A"
        "\n\t container state: waiting\n\t pending reason: ImagePullBackOff\n\n"
        "\n\t container name: N/A\n\t container image: N/A\n\t container state: N/A"
        "\n      "
    )


@pytest.mark.parametrize(
    ("text", "message", "lines"),
    [
        (None, None, "\n\n\n\n"),
        ("", None, "\nThe API gave the following brief reason: \n\n\n"),  # empty is not null
        (None, "", "\n\nThe API gave the following message: \n\n"),
    ],
)
def test_without_reason_or_message_a_line_stays_empty(text: str | None, message: str | None, lines: str) -> None:
    expected = (
        f"\nThe executor with id 7 exited with exit code -1(unexpected).{lines}"
        "The API gave the following container statuses:\n\n\n      "
    )
    assert message_of(reason(text=text, message=message)) == expected


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


def test_the_margins_of_the_apis_own_texts_are_lost() -> None:
    assert "brief reason: x\ny\n" in message_of(reason(text="x\n  |y"))
    assert "container name: x\ny\n" in message_of(reason(ended(1, "x\n |y")))


def test_a_deleted_pod_is_nobodys_fault() -> None:
    expected = "The executor with id 7 was deleted by a user or the framework."
    assert reason(ended(9), state=PodState.DELETED) == ExitReason("ExecutorExited", expected, 9, caused_by_app=False)


@pytest.mark.parametrize(
    ("containers", "state", "has_status", "missing"),
    [
        ((), PodState.DELETED, False, "Pod.getStatus()"),
        ((Container(SPARK, None, None),), PodState.FAILED, True, "ContainerStatus.getState()"),
        ((Container(SPARK, None, None),), PodState.DELETED, True, "ContainerStatus.getState()"),
        ((Container("side", None, None),), PodState.SUCCEEDED, True, '"state"'),
        ((ended(None),), PodState.FAILED, True, "ContainerStateTerminated.getExitCode()"),
        ((ended(None, "side"),), PodState.FAILED, True, "ContainerStateTerminated.getExitCode()"),
    ],
)
def test_what_throws(containers: tuple[Container, ...], state: PodState, has_status: bool, missing: str) -> None:
    found = reason(*containers, state=state, has_status=has_status)
    assert isinstance(found, SparkFault)
    assert found.exception_class == "java.lang.NullPointerException"
    assert missing in found.message


@pytest.mark.parametrize(
    ("containers", "code"),
    [
        ((ended(None),), 0),  # Scala unboxes null to 0
        ((Container("side", None, None),), -1),
        ((ended(4), Container(SPARK, None, None)), 4),
    ],
)
def test_what_does_not_throw_for_a_deleted_pod(containers: tuple[Container, ...], code: int) -> None:
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
