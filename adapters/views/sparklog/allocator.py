"""What the pods allocator says in Spark's log: ExecutorPodsAllocator, word by word.

``lines`` takes one command, report or remark of the allocation core and gives what Spark 4.3.0 logs for it. Commands speak
where Spark speaks as it calls the API (excess pods, volume claims); everything else comes as a remark, whose topic names
the line and whose facts are the numbers in it. An exception that ends a round is logged by whoever ran it: the snapshots
store.

Lines with an exception (a pod that cannot be created) are followed by its text in Spark's log;
``views.sparklog.log.throwable`` has it where the core knows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from podtide.adapters.views.sparklog.line import Level, SparkLine
from podtide.domain.jvm.hash_order import concurrent_order
from podtide.domain.protocol.pod_commands import CreateClaim, DeletePods
from podtide.domain.protocol.reasons import Cause, Fact, Remark, Threw

ALLOCATOR: Final = "ExecutorPodsAllocator"
STORE: Final = "ExecutorPodsSnapshotsStoreImpl"

Facts = Mapping[str, Fact]

_PROFILE: Final = re.compile(r"-?[0-9]{1,10}", re.ASCII)


def lines(item: object) -> tuple[SparkLine, ...]:
    """What Spark logs for one command, report or remark of the pods allocator; () for everything else.

    A remark of a topic that is not known, or without a fact that its line needs, says nothing.
    """
    match item:
        case Remark(machine="ExecutorPodsAllocator"):
            line = _REMARKS.get(item.topic)
            return (line.say(item.facts),) if line is not None and line.fits(item.facts) else ()
        case DeletePods() if item.why.cause is Cause.ABOVE_TARGET and item.executors:
            text = f"Deleting {len(item.executors)} excess pod requests ({','.join(map(str, item.executors))})."
            return (SparkLine("INFO", ALLOCATOR, text),)
        case CreateClaim():
            claim = item.claim
            text = f"Trying to create PersistentVolumeClaim {claim.name} with StorageClass {claim.storage_class}"
            return (SparkLine("INFO", ALLOCATOR, text),)
        case Threw(machine="ExecutorPodsAllocator", fatal=True):
            return (SparkLine("ERROR", STORE, "Going to stop due to IllegalArgumentException"),)
        case Threw(machine="ExecutorPodsAllocator"):
            return (SparkLine("WARN", STORE, "Exception when notifying snapshot subscriber."),)
        case _:
            return ()


class _Template:
    """A line of the allocator: its level, its text with the facts' names in braces, and the facts that it needs."""

    def __init__(self, level: Level, text: str, *needs: str) -> None:
        self._needs = needs
        self._level: Level = level
        self._text = text

    def fits(self, facts: Facts) -> bool:
        """Whether the facts are those of the line."""
        return all(name in facts for name in self._needs)

    def say(self, facts: Facts) -> SparkLine:
        """The line with its facts."""
        text = self._text.format_map({name: facts[name] for name in self._needs})
        return SparkLine(self._level, ALLOCATOR, text)


class _Targets(_Template):
    """The one line whose facts have no fixed names: profile ids and their targets, as a ConcurrentHashMap shows them."""

    def __init__(self) -> None:
        super().__init__("DEBUG", "Set total expected execs to {targets}")

    def fits(self, facts: Facts) -> bool:
        """Whether every fact is named by a profile's number."""
        return all(_PROFILE.fullmatch(name) for name in facts)

    def say(self, facts: Facts) -> SparkLine:
        """The line with the targets of all profiles."""
        names = {int(name): name for name in facts}
        shown = ", ".join(f"{profile}={facts[names[profile]]}" for profile in table_order(names))
        return SparkLine("DEBUG", ALLOCATOR, f"Set total expected execs to {{{shown}}}")


def table_order(profiles: Iterable[int]) -> tuple[int, ...]:
    """The order in which java.util.concurrent.ConcurrentHashMap walks Integer keys.

    Keys of one place come by number here, as profiles are numbered.
    """
    return tuple(concurrent_order([(key, key) for key in sorted(set(profiles))]))


_REMARKS: Final[Mapping[str, _Template]] = MappingProxyType(
    {
        "targets": _Targets(),
        "unseen": _Template(
            "DEBUG",
            "Executor with id {executor} was not found in the Kubernetes cluster since it was created {age_ms} "
            "milliseconds ago.",
            "executor", "age_ms",
        ),
        "creation timeout": _Template(
            "WARN",
            "Executors with ids {executors} were not detected in the Kubernetes cluster after {timeout_ms} ms despite the "
            "fact that a previous allocation attempt tried to create them. The executors may have been deleted but the "
            "application missed the deletion event.",
            "executors", "timeout_ms",
        ),
        "status": _Template(
            "DEBUG",
            "ResourceProfile Id: {profile} (pod allocation status: {running} running, {pending_unknown} unknown pending, "
            "{pending_known} scheduler backend known pending, {created_unknown} unknown newly created, "
            "{created_known} scheduler backend known newly created)",
            "profile", "running", "pending_unknown", "pending_known", "created_unknown", "created_known",
        ),
        "enough running": _Template(
            "DEBUG",
            "Current number of running executors for ResourceProfile Id {profile} is equal to the number of requested "
            "executors. Not scaling up further.",
            "profile",
        ),
        "still waiting": _Template(
            "DEBUG",
            "Still waiting for {created} executors for ResourceProfile Id {profile} before requesting more.",
            "profile", "created",
        ),
        "going to request": _Template(
            "INFO",
            "Going to request {count} executors from Kubernetes for ResourceProfile Id: {profile}, target: {target}, "
            "known: {known}, sharedSlotFromPendingPods: {shared_slots}.",
            "count", "profile", "target", "known", "shared_slots",
        ),
        "reusable claims": _Template(
            "INFO", "Found {reusable} reusable PVCs from {total} PVCs", "reusable", "total"
        ),
        "claims not listed": _Template("INFO", "Cannot list PVC resources. Please check account permissions."),
        "wait to reuse": _Template("INFO", "Wait to reuse one of the existing {claims} PVCs.", "claims"),
        "reuse claim": _Template("INFO", "Reuse PersistentVolumeClaim {claim}", "claim"),
        "requested": _Template("DEBUG", "Requested executor with id {executor} from Kubernetes.", "executor"),
        "create failed": _Template(
            "ERROR", "Failed to create executor pod {executor}. Total failures: {failures}", "executor", "failures"
        ),
        "claim failed": _Template(
            "ERROR",
            "Failed to add owner reference or create PVC for executor pod {executor}. Total failures: {failures}",
            "executor", "failures",
        ),
        "no creation time": _Template("ERROR", "Cannot get the creationTimestamp of the pod: {pod}", "pod"),
        "recovery mode": _Template(
            "WARN",
            "Recovery mode is enabled while spark.task.cpus = {task_cpus} is <= 0.5. A recovery-mode executor announces a "
            "single core, so it accepts up to {slots} concurrent tasks instead of only one. Set spark.task.cpus above 0.5 "
            "to restore single-task recovery executors.",
            "task_cpus", "slots",
        ),
    }
)  # fmt: skip
"""Topic of the remark -> the line that it is."""

TOPICS: Final = frozenset(_REMARKS)
"""Every topic that this module knows."""
