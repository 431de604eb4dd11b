"""What the machines of pods and containers write to Spark's log: allocators, backends, plugins, sources and their store.

``lines`` takes one command, report, remark or setting's notice and gives what Spark 4.3.0 logs for it; the texts are in
``views.sparklog.templates``. Commands speak where Spark speaks as it calls the API or an endpoint; everything else comes
as a remark, whose topic names the line and whose facts are what goes into it.

An exception that ends a round is logged by whoever ran the round: for pods the snapshots store, for a call its thread.
Lines with an exception are followed by its text in Spark's log; ``views.sparklog.log.throwable`` has it where the core
knows it. What a watch event threw is logged by the Kubernetes client, not by Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from podtide.adapters.views.sparklog.templates import TEMPLATES, Level, SparkLine
from podtide.domain.backend import kubernetes_manager as backend, turn as backend_turn
from podtide.domain.backend.state import Readiness
from podtide.domain.conf import settings
from podtide.domain.jvm.hash_order import concurrent_order
from podtide.domain.jvm.values import double_text
from podtide.domain.kubernetes import resize_plugins, roll_plugin, snapshots_store
from podtide.domain.kubernetes.allocator.turn import MACHINE as ALLOCATOR
from podtide.domain.kubernetes.lifecycle import lifecycle_manager as lifecycle
from podtide.domain.kubernetes.polling_source import REJECTED, STARTED_TWICE
from podtide.domain.machine.turn import UTILS
from podtide.domain.protocol import executor_commands as ec, pod_commands as pc
from podtide.domain.protocol.pod_stimuli import DiskReport
from podtide.domain.protocol.reasons import Cause, Fact, Remark, Threw
from podtide.domain.protocol.yarn_messages import EndApplication
from podtide.domain.yarn import allocator_state as yarn, reporter, scheduler_backend as yarn_backend

Facts = Mapping[str, Fact]
Lines = tuple[SparkLine, ...]

REPORTER: Final = "ExecutorPVCResizeExecutorPlugin"
POLLING_THREAD: Final = "kubernetes-executor-pod-polling-sync"
SUBSCRIBER_THREAD: Final = "kubernetes-executor-snapshots-subscribers-0"
"""One of the two of the store's pool; which one is chance."""

_SUBSCRIBERS: Final = frozenset({ALLOCATOR, lifecycle.MACHINE})
"""The machines whose rounds the store runs."""

_OF_START: Final = frozenset({str(STARTED_TWICE), str(REJECTED)})
"""What starting the polling source throws goes to whoever started it, not into the log."""

_PARENTS: Final[Mapping[str, str]] = MappingProxyType(
    {yarn_backend.MACHINE: backend.MACHINE, yarn_backend.DRIVER_ENDPOINT: backend.ENDPOINT}
)
"""Classes that log the same as another, under their own name: they share CoarseGrainedSchedulerBackend."""

_NOTICES: Final = (
    ("Disabled due to invalid interval value,", roll_plugin.MACHINE),
    ("Disabled because spark.decommission.enabled is false.", roll_plugin.MACHINE),
    ("ExecutorResizePlugin ", resize_plugins.MEMORY_MACHINE),
    ("ExecutorPVCResizePlugin ", resize_plugins.CLAIM_MACHINE),
    ("PVCResizePlugin disabled", resize_plugins.CLAIM_MACHINE),
    ("ExecutorPVCResizeDriverPlugin is scheduled", resize_plugins.CLAIM_MACHINE),
)
"""How the settings' notices about plugins begin, and which class logs them in Spark."""

_REMOVALS: Final[Mapping[Cause, str]] = MappingProxyType(
    {
        Cause.POD_DELETED: "deleted",
        Cause.POD_FAILED: "failed",
        Cause.POD_SUCCEEDED: "succeeded",
        Cause.POD_MISSING: "missing",
    }
)
"""Why the lifecycle manager removes an executor, to the topic of its line; other removals are the backend's alone."""

_PROFILE: Final = re.compile(r"-?[0-9]{1,10}", re.ASCII)


def lines(item: object) -> Lines:
    """The lines that Spark logs for a command, report, remark or notice of these machines; () where it logs nothing.

    A topic that is not known, and a line without a fact that it needs, gives nothing.
    """
    match item:
        case Remark():
            return _remark(item)
        case Threw():
            return _threw(item)
        case ec.RemoveExecutor():
            removal = {"executor": item.executor, "reason": item.reason.message}
            return _removal(item) + _line(backend.ENDPOINT, "remove", removal)
        case pc.DeletePods() if item.why.cause is Cause.ABOVE_TARGET and item.executors:
            excess: Facts = {"count": len(item.executors), "executors": ",".join(map(str, item.executors))}
            return _line(ALLOCATOR, "excess", excess)
        case pc.CreateClaim(claim=claim):
            return _line(ALLOCATOR, "create claim", {"claim": claim.name, "storage_class": claim.storage_class})
        case pc.MarkInactive(name=name):
            return _line(lifecycle.MACHINE, "inactive", {"name": name})
        case ec.StopApplication(exit_code=lifecycle.TOO_MANY_FAILURES):
            return _line(lifecycle.MACHINE, "too many failures", item.why.facts)
        case pc.ListPods() if item.why.cause is Cause.RESYNCHRONIZE:
            return _line(snapshots_store.POLLING, "resynchronize")
        case ec.DecommissionExecutors():
            return _decommission(item)
        case pc.MarkPods(kind="annotation", key=backend_turn.DELETION_COST):
            return _line(backend.MACHINE, "deletion cost", {"executors": ",".join(item.executors), "cost": item.value})
        case ec.StopSource(what="scheduler"):
            return _line(backend.MACHINE, "stop") + _line(backend.ENDPOINT, "stop")
        case Readiness(by="ratio"):
            return _line(backend.MACHINE, "ready by ratio", {"ratio": double_text(item.ratio)})
        case Readiness(by="time"):
            return _line(backend.MACHINE, "ready by time", {"wait": double_text(float(item.wait_ms))})
        case roll_plugin.Roll():
            return _line(roll_plugin.MACHINE, "roll", {"executor": item.executor})
        case pc.ResizePod():
            size: Facts = {**item.why.facts, "executor": item.executor, "memory": item.memory_bytes}
            return _line(resize_plugins.MEMORY_MACHINE, "resize", size)
        case pc.ResizeClaim():
            size = {**item.why.facts, "claim": item.claim, "storage": item.storage_bytes}
            return _line(resize_plugins.CLAIM_MACHINE, "resize", size)
        case DiskReport():
            return _line(REPORTER, "report", {"executor": item.executor, "ratio": double_text(item.ratio)})
        case settings.ConfNotice(spark=True):
            return _notice(item)
        case EndApplication():
            end: Facts = {"status": item.status, "exit_code": item.exit_code, "reason": item.message}
            return _line(reporter.MACHINE, "end", end)
        case _:
            return ()


def _line(logger: str, topic: str, facts: Facts = MappingProxyType({})) -> Lines:
    template = TEMPLATES.get((_PARENTS.get(logger, logger), topic))
    if template is None:
        return ()
    level, text = template
    try:
        return (SparkLine(level, logger, text.format_map(facts)),)
    except KeyError:
        return ()


def _threw(threw: Threw) -> Lines:
    if threw.machine in _SUBSCRIBERS:
        return _line(snapshots_store.STORE, "illegal argument" if threw.fatal else "subscriber threw")
    if threw.machine == snapshots_store.POLLING and threw.what not in _OF_START:
        return _line(UTILS, "uncaught", {"thread": POLLING_THREAD})
    return _line(threw.machine, "threw")


def _removal(command: ec.RemoveExecutor) -> Lines:
    """The line of a removal that a pod led to."""
    topic = _REMOVALS.get(command.why.cause)
    if topic is None:
        return ()
    if topic == "succeeded" and command.active:
        topic = "succeeded unasked"
    facts = {"executor": command.executor, "pod": command.why.facts.get("pod"), "message": command.reason.message}
    return _line(lifecycle.MACHINE, topic, facts)


def _decommission(command: ec.DecommissionExecutors) -> Lines:
    logged = _line(backend.MACHINE, "decommission", {"executors": ", ".join(command.executors)})
    if command.notify_executors:
        for executor in command.executors:
            logged += _line(backend.MACHINE, "notify", {"executor": executor})
    return logged


def _notice(notice: settings.ConfNotice) -> Lines:
    level: Level = "WARN" if notice.level is settings.NoticeLevel.WARNING else "INFO"
    loggers = [logger for beginning, logger in _NOTICES if notice.text.startswith(beginning)]
    return tuple(SparkLine(level, logger, notice.text) for logger in loggers[:1])


# ------------------------------------------------------------------------------------------------------------- remarks


def _remark(remark: Remark) -> Lines:
    logger, topic, facts = remark.machine, remark.topic, remark.facts
    match logger, topic:
        case lifecycle.MACHINE, lifecycle.CALL_FAILED:
            return _line(UTILS, "uncaught", {"thread": SUBSCRIBER_THREAD})
        case yarn.MACHINE, "submitted":  # one line for each of equal requests
            count = facts.get("count")
            return _line(logger, topic, facts) * (count if isinstance(count, int) else 1)
    computed = _COMPUTED.get((logger, topic))
    return _line(logger, topic, facts if computed is None else computed(facts))


def _targets(facts: Facts) -> Facts:
    """The targets of all profiles, as a ConcurrentHashMap shows them; no facts unless every name is a profile's number."""
    if not all(_PROFILE.fullmatch(name) for name in facts):
        return {}
    names = {int(name): name for name in facts}
    return {"targets": ", ".join(f"{profile}={facts[names[profile]]}" for profile in table_order(names))}


def table_order(profiles: Iterable[int]) -> tuple[int, ...]:
    """The order in which java.util.concurrent.ConcurrentHashMap walks Integer keys.

    Keys of one place come by number here, as profiles are numbered.
    """
    return tuple(concurrent_order([(key, key) for key in sorted(set(profiles))]))


def _trying(facts: Facts) -> Facts:
    return {name: double_text(fact) if isinstance(fact, float) else fact for name, fact in facts.items()}


def _completed(facts: Facts) -> Facts:
    """The bracket of the line never closes: Spark's."""
    host = facts.get("host")
    return {**facts, "where": "" if host is None else f" on host: {host}"}


_COMPUTED: Final[Mapping[tuple[str, str], Callable[[Facts], Facts]]] = MappingProxyType(
    {
        (ALLOCATOR, "targets"): _targets,
        (resize_plugins.CLAIM_MACHINE, resize_plugins.TRYING): _trying,
        (yarn.MACHINE, "completed"): _completed,
    }
)
"""Lines that show more than their remark's facts as they are."""
