"""What the lifecycle manager says in Spark's log: ExecutorPodsLifecycleManager, word by word.

``lines`` takes one command, report or remark of the lifecycle core and gives what Spark 4.3.0 logs for it. Removals and
patches speak for themselves; how many executors newly failed, and a call that ended in an exception, come as remarks. A
round that throws is logged by whoever ran it: the snapshots store. Exceptions of calls are swallowed, and logged by
Spark's Utils with the name of the thread: one of the two of the store's pool, and which one is chance.
"""

from __future__ import annotations

from typing import Final

from podtide.adapters.views.sparklog.line import SparkLine
from podtide.domain.kubernetes.lifecycle.lifecycle_manager import CALL_FAILED, MACHINE, NEW_FAILURES, TOO_MANY_FAILURES
from podtide.domain.protocol.pod_commands import MarkInactive, RemoveExecutor, StopApplication
from podtide.domain.protocol.reasons import Cause, Remark, Threw

STORE: Final = "ExecutorPodsSnapshotsStoreImpl"
UTILS: Final = "Utils"
THREAD: Final = "kubernetes-executor-snapshots-subscribers-0"


def lines(item: object) -> tuple[SparkLine, ...]:
    """What Spark logs for one command, report or remark of the lifecycle manager; () for everything else."""
    match item:
        case RemoveExecutor():
            return _removal(item)
        case MarkInactive():
            text = f"Marking executor {item.name} as inactive since deletion is disabled."
            return (SparkLine("DEBUG", MACHINE, text),)
        case StopApplication(exit_code=code) if code == TOO_MANY_FAILURES and "maximum" in item.why.facts:
            text = f"Max number of executor failures ({item.why.facts['maximum']}) reached"
            return (SparkLine("ERROR", MACHINE, text),)
        case Remark(machine=machine) if machine == MACHINE:
            return _remark(item)
        case Threw(machine=machine) if machine == MACHINE:
            return (SparkLine("WARN", STORE, "Exception when notifying snapshot subscriber."),)
        case _:
            return ()


def _removal(command: RemoveExecutor) -> tuple[SparkLine, ...]:
    """The line of a removal that a pod led to; removals for other reasons are the backend's to tell."""
    executor, pod = command.executor, command.why.facts.get("pod")
    match command.why.cause:
        case Cause.POD_DELETED:
            text = f"Snapshot reported deleted executor with id {executor}, pod name {pod}"
        case Cause.POD_FAILED:
            text = f"Snapshot reported failed executor with id {executor}, pod name {pod}"
        case Cause.POD_SUCCEEDED if command.active:
            text = (
                f"Snapshot reported succeeded executor with id {executor}, even though the application has not "
                "requested for it to be removed."
            )
            return (SparkLine("INFO", MACHINE, text),)
        case Cause.POD_SUCCEEDED:
            text = f"Snapshot reported succeeded executor with id {executor}, pod name {pod}."
        case Cause.POD_MISSING:
            text = command.reason.message
        case _:
            return ()
    return (SparkLine("DEBUG", MACHINE, text),)


def _remark(remark: Remark) -> tuple[SparkLine, ...]:
    if remark.topic == NEW_FAILURES and "count" in remark.facts:
        return (SparkLine("WARN", MACHINE, f"{remark.facts['count']} new failed executors."),)
    if remark.topic == CALL_FAILED:
        return (SparkLine("ERROR", UTILS, f"Uncaught exception in thread {THREAD}"),)
    return ()
