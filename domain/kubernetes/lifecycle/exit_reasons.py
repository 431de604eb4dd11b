r"""Why an executor ended, in Spark's words: exit code, whose fault it was, and the whole text.

The exit code is that of the first container with Spark's name that has terminated, -1 if none has. A deleted pod is
nobody's fault and has one sentence; every other end is the application's, success and eviction included, and has a
text with what the API says: reason, message, one block per container. That text is built as Spark builds it, with
margins, and the margins are stripped from all of it at once: a line of the API's own reason or message that begins
with blanks and ``|`` loses them too.

Two things that the text does not show are kept as they are. A terminated container without an exit code counts as 0
(Scala unboxes null), but printing it throws; so it throws for a pod that failed and not for one that was deleted.
And whatever is asked of a container status without a state object, or of a deleted pod without a status, throws. What
is thrown is returned: a ``SparkFault`` with the JVM's own message.

Source: ExecutorPodsLifecycleManager.findExitReason and KubernetesUtils.containersDescription of 4.3.0 (spec: snapshots,
section 6), checked against runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from podtide.domain.base.units import Millis
from podtide.domain.jvm.exceptions import NULL_POINTER, SparkFault
from podtide.domain.jvm.values import BLANKS
from podtide.domain.kubernetes.snapshots import NO_CONTAINER_STATE
from podtide.domain.protocol.executor_commands import ExitReason
from podtide.domain.protocol.pods import (
    RUNNING,
    TERMINATED,
    WAITING,
    ContainerState,
    Pod,
    PodContainer,
    PodNumber,
    PodState,
)

UNKNOWN_EXIT_CODE: Final = -1
"""No container with Spark's name has terminated."""

EXECUTOR_EXITED: Final = "ExecutorExited"

_EXPLANATIONS: Final = {
    0: "(success)",
    1: "(generic, look at logs to clarify)",
    42: "(Douglas Adams fan)",
    10: "(Uncaught exception)",
    50: "(Uncaught exception)",
    52: "(JVM OOM)",
    53: "(DiskStore failed to create temp dir)",
    126: "(not executable - possibly perm or arch)",
    137: "(SIGKILL, possible container OOM)",
    139: "(SIGSEGV: that's unexpected)",
    255: "(exit-1, your guess is as good as mine)",
}

_MODEL: Final = "io.fabric8.kubernetes.api.model"
_NO_STATUS: Final = SparkFault(
    NULL_POINTER,
    f'Cannot invoke "{_MODEL}.PodStatus.getContainerStatuses()" because the return value of '
    f'"{_MODEL}.Pod.getStatus()" is null',
)
_NO_STATE_TO_DESCRIBE: Final = SparkFault(
    NULL_POINTER, f'Cannot invoke "{_MODEL}.ContainerState.getRunning()" because "state" is null'
)
_NO_CODE_TO_DESCRIBE: Final = SparkFault(
    NULL_POINTER,
    'Cannot invoke "java.lang.Integer.toString()" because the return value of '
    f'"{_MODEL}.ContainerStateTerminated.getExitCode()" is null',
)

_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_NOT_THERE: Final = "N/A"


def describe_exit_code(code: int) -> str:
    """The exit code and, without a space between, what Spark makes of it."""
    return f"{code}{_EXPLANATIONS.get(code, '(unexpected)')}"


def of_pod(pod: Pod, spark_container: str) -> ExitReason | SparkFault:
    """Why the executor of a pod that succeeded, failed or was deleted has ended; a fault where Spark throws."""
    manifest = pod.manifest
    if not manifest.has_status:
        return _NO_STATUS
    code = _exit_code(manifest.containers, spark_container)
    if isinstance(code, SparkFault):
        return code
    if pod.state is PodState.DELETED:
        message = f"The executor with id {pod.number} was deleted by a user or the framework."
        return ExitReason(EXECUTOR_EXITED, message, code, caused_by_app=False)
    containers = _describe_containers(manifest.containers)
    if isinstance(containers, SparkFault):
        return containers
    reason = "" if manifest.reason is None else f"The API gave the following brief reason: {manifest.reason}"
    message = "" if manifest.message is None else f"The API gave the following message: {manifest.message}"
    text = "\n       |".join(
        (
            "",
            f"The executor with id {pod.number} exited with exit code {describe_exit_code(code)}.",
            reason,
            message,
            "",
            "The API gave the following container statuses:",
            "",
            containers,
        )
    )
    # The six blanks of the last line are Spark's.
    return ExitReason(EXECUTOR_EXITED, strip_margin(f"{text}\n      "), code, caused_by_app=True)


def of_missing(executor: PodNumber, registered_at: Millis, polled_at: Millis, delta_ms: Millis) -> ExitReason:
    """Why an executor that is registered has ended when a full list did not have its pod."""
    message = (
        f"The executor with ID {executor} (registered at {registered_at} ms) was not found in the cluster at the "
        f"polling time ({polled_at} ms) which is after the accepted detect delta time ({delta_ms} ms) configured by "
        "`spark.kubernetes.executor.missingPodDetectDelta`. The executor may have been deleted but the driver missed "
        "the deletion event. Marking this executor as failed."
    )
    return ExitReason(EXECUTOR_EXITED, message, UNKNOWN_EXIT_CODE, caused_by_app=False)


def strip_margin(text: str) -> str:
    """Scala's stripMargin: of every line, leading blanks up to and with a ``|``; lines end in LF, CR or CR LF."""
    return "".join(map(_without_margin, _LINE.findall(text)))


def _without_margin(line: str) -> str:
    rest = line.lstrip(BLANKS)  # as Scala's stripMargin
    return rest[1:] if rest.startswith("|") else line


def _exit_code(containers: Iterable[PodContainer], spark_container: str) -> int | SparkFault:
    for container in containers:
        if container.name == spark_container:
            if container.state is None:
                return NO_CONTAINER_STATE
            if container.state.kind == TERMINATED:
                return container.state.exit_code or 0
    return UNKNOWN_EXIT_CODE


def _describe_containers(containers: Sequence[PodContainer]) -> str | SparkFault:
    blocks = []
    for container in containers:
        state = container.state
        if state is None:
            return _NO_STATE_TO_DESCRIBE
        if state.kind == TERMINATED and state.exit_code is None:
            return _NO_CODE_TO_DESCRIBE
        pairs = (("container name", container.name), ("container image", container.image), *_describe_state(state))
        blocks.append("".join(f"\n\t {key}: {value or _NOT_THERE}" for key, value in pairs))
    return "\n\n".join(blocks)


def _describe_state(state: ContainerState) -> tuple[tuple[str, str | None], ...]:
    if state.kind == RUNNING:
        return ("container state", "running"), ("container started at", state.started_at)
    if state.kind == WAITING:
        return ("container state", "waiting"), ("pending reason", state.reason)
    if state.kind == TERMINATED:
        return (
            ("container state", "terminated"),
            ("container started at", state.started_at),
            ("container finished at", state.finished_at),
            ("exit code", str(state.exit_code)),
            ("termination reason", state.reason),
        )
    return (("container state", _NOT_THERE),)
