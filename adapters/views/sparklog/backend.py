"""What the scheduler backend says in Spark's log: KubernetesClusterSchedulerBackend, its core and its driver endpoint.

``lines`` takes one command, report, remark or ``Readiness`` of the backend and gives what Spark 4.3.0 logs for it.
Commands speak where Spark speaks as it carries something out (a decommission, a deletion cost, the end); everything else
comes as a remark, whose topic names the line and whose facts are what goes into it.

The lines of CoarseGrainedSchedulerBackend are written under the name of the class that runs, and those of its endpoint
under the endpoint's. The allocators of StatefulSets and Deployments say nothing of their own: what they swallow is a line
of Utils. What the backend throws is logged by whoever called it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from podtide.adapters.views.sparklog.line import Level, SparkLine
from podtide.domain.backend.executor_removals import DELETION_COST, ENDPOINT, MACHINE, UTILS
from podtide.domain.backend.scheduler_backend import Readiness
from podtide.domain.jvm.values import double_text
from podtide.domain.protocol.pod_commands import DecommissionExecutors, MarkPods, RemoveExecutor, StopSource
from podtide.domain.protocol.reasons import Fact, Remark
from podtide.domain.yarn.scheduler_backend import DRIVER_ENDPOINT as YARN_ENDPOINT, MACHINE as YARN_MACHINE

_KIN: Final[Mapping[str, str]] = MappingProxyType({YARN_MACHINE: MACHINE, YARN_ENDPOINT: ENDPOINT})
"""Classes that say the same as another: what is CoarseGrainedSchedulerBackend's, under their own name."""

SPARK_REF: Final = "NettyRpcEndpointRef(spark-client://Executor)"
"""How an executor's endpoint shows itself: every executor's name is the same."""


def lines(item: object) -> tuple[SparkLine, ...]:
    """What Spark logs for one command, remark or readiness of the backend; () for everything else.

    A remark of a topic that is not known, or without a fact that its line needs, says nothing.
    """
    match item:
        case Remark():
            template = _REMARKS.get((_KIN.get(item.machine, item.machine), item.topic))
            return (
                () if template is None or not template.fits(item.facts) else (template.say(item.machine, item.facts),)
            )
        case RemoveExecutor(executor=executor, reason=reason):
            return (SparkLine("DEBUG", ENDPOINT, f"Asked to remove executor {executor} with reason {reason.message}"),)
        case DecommissionExecutors():
            return tuple(_decommission(item))
        case MarkPods(kind="annotation", key=key) if key == DELETION_COST:
            text = f"Annotating executor pod(s) {','.join(item.executors)} with deletion cost {item.value}"
            return (SparkLine("INFO", MACHINE, text),)
        case StopSource(what="scheduler"):
            return (
                SparkLine("INFO", MACHINE, "Shutting down all executors"),
                SparkLine("INFO", ENDPOINT, "Asking each executor to shut down"),
            )
        case Readiness():
            return tuple(_ready(item))
        case _:
            return ()


def _decommission(command: DecommissionExecutors) -> Iterable[SparkLine]:
    yield SparkLine("INFO", MACHINE, f"Decommission executors: {', '.join(command.executors)}")
    if command.notify_executors:
        for executor in command.executors:
            yield SparkLine("INFO", MACHINE, f"Notify executor {executor} to decommission.")


def _ready(readiness: Readiness) -> Iterable[SparkLine]:
    """isReady, when it says yes."""
    begins = "SchedulerBackend is ready for scheduling beginning after"
    if readiness.by == "ratio":
        text = f"{begins} reached minRegisteredResourcesRatio: {double_text(readiness.ratio)}"
        yield SparkLine("INFO", MACHINE, text)
    elif readiness.by == "time":
        text = f"{begins} waiting maxRegisteredResourcesWaitingTime: {double_text(float(readiness.wait_ms))}(ms)"
        yield SparkLine("INFO", MACHINE, text)


class _Template(NamedTuple):
    """A line: its level, its text with the facts' names in braces, and the facts that it needs."""

    level: Level
    text: str
    needs: tuple[str, ...] = ()

    def fits(self, facts: Mapping[str, Fact]) -> bool:
        return all(name in facts for name in self.needs)

    def say(self, logger: str, facts: Mapping[str, Fact]) -> SparkLine:
        return SparkLine(self.level, logger, self.text.format_map(facts))


_FORCED: Final = (
    "Forcefully deleting {found} pods (out of {asked}) that are still running after graceful shutdown period."
)
_REGISTERED: Final = (
    f"Registered executor {SPARK_REF} ({{address}}) with ID {{executor}}, ResourceProfileId {{profile}}"
)
_STUBBORN: Final = "List({executors}) failed to decommission in {seconds}, killing."

_REMARKS: Final[Mapping[tuple[str, str], _Template]] = MappingProxyType(
    {
        (MACHINE, "more"): _Template(
            "INFO", "Requesting {executors} additional executor(s) from the cluster manager", ("executors",)
        ),
        (MACHINE, "kill asked"): _Template("INFO", "Requesting to kill executor(s) {executors}", ("executors",)),
        (MACHINE, "kill unknown"): _Template("WARN", "Executor to kill {executor} does not exist!", ("executor",)),
        (MACHINE, "kill list"): _Template(
            "INFO", "Actual list of executor(s) to be killed is {executors}", ("executors",)
        ),
        (MACHINE, "still decommissioning"): _Template("INFO", _STUBBORN, ("executors", "seconds")),
        (MACHINE, "deleted by force"): _Template("INFO", _FORCED, ("found", "asked")),
        (MACHINE, "out of memory"): _Template("WARN", "OOM is detected."),
        (ENDPOINT, "registered"): _Template("INFO", _REGISTERED, ("address", "executor", "profile")),
        (ENDPOINT, "rejected"): _Template("INFO", "Rejecting {executor} as it has been excluded.", ("executor",)),
        (ENDPOINT, "decommission heard"): _Template(
            "WARN", "Received executor {executor} decommissioned message", ("executor",)
        ),
        (ENDPOINT, "disabled"): _Template("INFO", "Disabling executor {executor}.", ("executor",)),
        (ENDPOINT, "not registered"): _Template(
            "INFO", "Asked to remove non-existent executor {executor}", ("executor",)
        ),
        (ENDPOINT, "nobody there"): _Template("DEBUG", "No executor found for {address}", ("address",)),
        (UTILS, "uncaught"): _Template("ERROR", "Uncaught exception in thread {thread}", ("thread",)),
    }
)
