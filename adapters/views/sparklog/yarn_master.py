"""What is said in Spark's log between driver and application master: the two endpoints, and the reporter thread.

``lines`` takes one remark of ``yarn.scheduler_backend`` or ``reporter``, or the end of the application, and gives what
Spark 4.3.0 logs for it. What YarnClusterSchedulerBackend and its driver endpoint share with every backend is
``views.sparklog.backend``'s. The application master's address is not known here, so where Spark would show its host and
port stands the driver's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from podtide.adapters.views.sparklog.line import Level, SparkLine
from podtide.domain.protocol.reasons import Remark
from podtide.domain.protocol.yarn_messages import EndApplication
from podtide.domain.yarn.reporter import MACHINE as MASTER
from podtide.domain.yarn.scheduler_backend import MASTER_ENDPOINT, SCHEDULER_ENDPOINT

MASTER_REF: Final = "NettyRpcEndpointRef(spark://YarnAM@driver)"


class _Words(NamedTuple):
    """A line: its level, and its text with the facts' names in braces."""

    level: Level
    text: str


_REMARKS: Final[Mapping[tuple[str, str], _Words]] = MappingProxyType(
    {
        (SCHEDULER_ENDPOINT, "master registered"): _Words("INFO", f"ApplicationMaster registered as {MASTER_REF}"),
        (SCHEDULER_ENDPOINT, "master lost"): _Words("WARN", "ApplicationMaster has disassociated: {address}"),
        (SCHEDULER_ENDPOINT, "request before master"): _Words(
            "WARN", "Attempted to request executors before the AM has registered!"
        ),
        (SCHEDULER_ENDPOINT, "kill before master"): _Words(
            "WARN", "Attempted to kill executors before the AM has registered!"
        ),
        (SCHEDULER_ENDPOINT, "loss before master"): _Words(
            "WARN", "Attempted to check for an executor loss reason before the AM has registered!"
        ),
        (SCHEDULER_ENDPOINT, "shutdown before master"): _Words(
            "WARN", "Attempted to send shutdown message before the AM has registered!"
        ),
        (SCHEDULER_ENDPOINT, "removal asked"): _Words(
            "WARN", "Requesting driver to remove executor {executor} for reason {what}"
        ),
        (SCHEDULER_ENDPOINT, "no reason"): _Words(
            "WARN",
            "Attempted to get executor loss reason for executor id {executor} at RPC address {address}, but got no "
            "response. Marking as agent lost.",
        ),
        (MASTER_ENDPOINT, "kill requested"): _Words("INFO", "Driver requested to kill executor(s) {executors}."),
        (MASTER, "started"): _Words(
            "INFO",
            "Started progress reporter thread with (heartbeat: {heartbeat}, initial allocation: {initial}) intervals",
        ),
        (MASTER, "fails"): _Words("WARN", "Reporter thread fails {failures} time(s) in a row."),
        (MASTER, "attempt unknown"): _Words("ERROR", "Exception from Reporter thread."),
    }
)


def lines(item: object) -> tuple[SparkLine, ...]:
    """What Spark logs for one remark or the end of the application; () for everything else.

    A remark of a topic that is not known, or without a fact that its line needs, says nothing.
    """
    if isinstance(item, EndApplication):
        text = f"Final app status: {item.status}, exitCode: {item.exit_code}, (reason: {item.message})"
        return (SparkLine("INFO", MASTER, text),)
    if not isinstance(item, Remark):
        return ()
    words = _REMARKS.get((item.machine, item.topic))
    if words is None:
        return ()
    try:
        return (SparkLine(words.level, item.machine, words.text.format_map(item.facts)),)
    except KeyError:
        return ()
