"""What the snapshot sources and the store say in Spark's log, word by word.

ExecutorPodsSnapshot warns of phases that it does not know, the polling source tells of its lists, the store of
subscribers whose round threw. What a subscriber threw is reported by the subscriber's own machine, so its report is
what the store's line is made from. A list that threw ends in Utils.tryLogNonFatalError; what a watch event threw is logged
by the Kubernetes client, not by Spark.
"""

from __future__ import annotations

from typing import Final

from podtide.adapters.views.sparklog.line import SparkLine
from podtide.domain.kubernetes.polling_source import POLLING, REJECTED, STARTED_TWICE
from podtide.domain.kubernetes.snapshots_store import SNAPSHOT, STORE
from podtide.domain.protocol.pod_commands import ListPods
from podtide.domain.protocol.reasons import Cause, Remark, Threw

SUBSCRIBERS: Final = frozenset({"ExecutorPodsAllocator", "ExecutorPodsLifecycleManager"})
"""The machines whose rounds the store runs."""

POLLING_THREAD: Final = "kubernetes-executor-pod-polling-sync"

_OF_START: Final = frozenset({str(STARTED_TWICE), str(REJECTED)})
"""What starting the source throws goes to whoever started it, not into the log."""


def lines(item: object) -> tuple[SparkLine, ...]:
    """What Spark logs for one command, report or remark of the sources and the store; () for everything else."""
    match item:
        case Remark(machine=machine, topic="unknown phase") if machine == SNAPSHOT:
            facts = item.facts
            text = (
                f"Received unknown phase {facts['phase']} for executor pod with name {facts['pod']} "
                f"in namespace {facts['namespace']}"
            )
            return (SparkLine("WARN", SNAPSHOT, text),)
        case Remark(machine=machine, topic="started") if machine == POLLING:
            text = f"Starting to check for executor pod state every {item.facts['interval_ms']} ms."
            return (SparkLine("DEBUG", POLLING, text),)
        case ListPods() if item.why.cause is Cause.RESYNCHRONIZE:
            return (SparkLine("DEBUG", POLLING, "Resynchronizing full executor pod state from Kubernetes."),)
        case Threw(machine=machine) if machine == POLLING:
            text = f"Uncaught exception in thread {POLLING_THREAD}"
            return () if item.what in _OF_START else (SparkLine("ERROR", "Utils", text),)
        case Threw(machine=machine, fatal=True) if machine in SUBSCRIBERS:
            return (SparkLine("ERROR", STORE, "Going to stop due to IllegalArgumentException"),)
        case Threw(machine=machine) if machine in SUBSCRIBERS:
            return (SparkLine("WARN", STORE, "Exception when notifying snapshot subscriber."),)
        case _:
            return ()
