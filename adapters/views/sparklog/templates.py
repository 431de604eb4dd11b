"""The texts of Spark's log: for every class and topic the level and the template of its line, as of Spark 4.3.0.

A template holds the names of its facts in braces. A topic is the topic of a remark of that class, or the name that
``views.sparklog.machines`` gives to what a command, an exception or a setting logs. What dynamic allocation logs depends
on the state of its rounds; those texts are in ``views.sparklog.scaling``.

``YarnClusterSchedulerBackend`` and its endpoint log what the backend of every cluster manager logs, under their own names.
The application master's address is not known here: where Spark shows its host and port stands the name of the driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias, cast

Level: TypeAlias = Literal["DEBUG", "INFO", "WARN", "ERROR"]


class SparkLine(NamedTuple):
    """One line as Spark's own logger writes it. ``logger``: the short class name; ``text``: without a newline."""

    level: Level
    logger: str
    text: str


_TEMPLATES: Final[dict[str, dict[str, str]]] = {
    "ExecutorPodsAllocator": {
        "targets": "DEBUG Set total expected execs to {{{targets}}}",
        "unseen": "DEBUG Executor with id {executor} was not found in the Kubernetes cluster since it was created "
        "{age_ms} milliseconds ago.",
        "creation timeout": "WARN Executors with ids {executors} were not detected in the Kubernetes cluster after "
        "{timeout_ms} ms despite the fact that a previous allocation attempt tried to create them. The executors may "
        "have been deleted but the application missed the deletion event.",
        "status": "DEBUG ResourceProfile Id: {profile} (pod allocation status: {running} running, {pending_unknown} "
        "unknown pending, {pending_known} scheduler backend known pending, {created_unknown} unknown newly created, "
        "{created_known} scheduler backend known newly created)",
        "enough running": "DEBUG Current number of running executors for ResourceProfile Id {profile} is equal to the "
        "number of requested executors. Not scaling up further.",
        "still waiting": "DEBUG Still waiting for {created} executors for ResourceProfile Id {profile} before "
        "requesting more.",
        "going to request": "INFO Going to request {count} executors from Kubernetes for ResourceProfile Id: "
        "{profile}, target: {target}, known: {known}, sharedSlotFromPendingPods: {shared_slots}.",
        "reusable claims": "INFO Found {reusable} reusable PVCs from {total} PVCs",
        "claims not listed": "INFO Cannot list PVC resources. Please check account permissions.",
        "wait to reuse": "INFO Wait to reuse one of the existing {claims} PVCs.",
        "reuse claim": "INFO Reuse PersistentVolumeClaim {claim}",
        "requested": "DEBUG Requested executor with id {executor} from Kubernetes.",
        "create failed": "ERROR Failed to create executor pod {executor}. Total failures: {failures}",
        "claim failed": "ERROR Failed to add owner reference or create PVC for executor pod {executor}. Total "
        "failures: {failures}",
        "no creation time": "ERROR Cannot get the creationTimestamp of the pod: {pod}",
        "recovery mode": "WARN Recovery mode is enabled while spark.task.cpus = {task_cpus} is <= 0.5. A recovery-mode "
        "executor announces a single core, so it accepts up to {slots} concurrent tasks instead of only one. Set "
        "spark.task.cpus above 0.5 to restore single-task recovery executors.",
        "excess": "INFO Deleting {count} excess pod requests ({executors}).",
        "create claim": "INFO Trying to create PersistentVolumeClaim {claim} with StorageClass {storage_class}",
    },
    "ExecutorPodsLifecycleManager": {
        "deleted": "DEBUG Snapshot reported deleted executor with id {executor}, pod name {pod}",
        "failed": "DEBUG Snapshot reported failed executor with id {executor}, pod name {pod}",
        "succeeded": "DEBUG Snapshot reported succeeded executor with id {executor}, pod name {pod}.",
        "succeeded unasked": "INFO Snapshot reported succeeded executor with id {executor}, even though the "
        "application has not requested for it to be removed.",
        "missing": "DEBUG {message}",
        "inactive": "DEBUG Marking executor {name} as inactive since deletion is disabled.",
        "too many failures": "ERROR Max number of executor failures ({maximum}) reached",
        "new failures": "WARN {count} new failed executors.",
    },
    "ExecutorPodsSnapshot": {
        "unknown phase": "WARN Received unknown phase {phase} for executor pod with name {pod} in namespace "
        "{namespace}",
    },
    "ExecutorPodsPollingSnapshotSource": {
        "started": "DEBUG Starting to check for executor pod state every {interval_ms} ms.",
        "resynchronize": "DEBUG Resynchronizing full executor pod state from Kubernetes.",
    },
    "ExecutorPodsSnapshotsStoreImpl": {
        "subscriber threw": "WARN Exception when notifying snapshot subscriber.",
        "illegal argument": "ERROR Going to stop due to IllegalArgumentException",
    },
    "KubernetesClusterSchedulerBackend": {
        "more": "INFO Requesting {executors} additional executor(s) from the cluster manager",
        "kill asked": "INFO Requesting to kill executor(s) {executors}",
        "host kill asked": "INFO Requesting to kill any and all executors on host {host}",
        "kill unknown": "WARN Executor to kill {executor} does not exist!",
        "kill list": "INFO Actual list of executor(s) to be killed is {executors}",
        "still decommissioning": "INFO List({executors}) failed to decommission in {seconds}, killing.",
        "deleted by force": "INFO Forcefully deleting {found} pods (out of {asked}) that are still running after "
        "graceful shutdown period.",
        "out of memory": "WARN OOM is detected.",
        "decommission": "INFO Decommission executors: {executors}",
        "notify": "INFO Notify executor {executor} to decommission.",
        "deletion cost": "INFO Annotating executor pod(s) {executors} with deletion cost {cost}",
        "stop": "INFO Shutting down all executors",
        "ready by ratio": "INFO SchedulerBackend is ready for scheduling beginning after reached "
        "minRegisteredResourcesRatio: {ratio}",
        "ready by time": "INFO SchedulerBackend is ready for scheduling beginning after waiting "
        "maxRegisteredResourcesWaitingTime: {wait}(ms)",
    },
    "KubernetesClusterSchedulerBackend$KubernetesDriverEndpoint": {
        "registered": "INFO Registered executor NettyRpcEndpointRef(spark-client://Executor) ({address}) with ID "
        "{executor}, ResourceProfileId {profile}",
        "rejected": "INFO Rejecting {executor} as it has been excluded.",
        "decommission heard": "WARN Received executor {executor} decommissioned message",
        "disabled": "INFO Disabling executor {executor}.",
        "not registered": "INFO Asked to remove non-existent executor {executor}",
        "nobody there": "DEBUG No executor found for {address}",
        "stop": "INFO Asking each executor to shut down",
        "remove": "DEBUG Asked to remove executor {executor} with reason {reason}",
    },
    "HeartbeatReceiver": {
        "heartbeat timed out": "WARN Removing executor {executor} with no recent heartbeats: {silent_ms} ms exceeds "
        "timeout {timeout_ms} ms",
    },
    "Utils": {
        "uncaught": "ERROR Uncaught exception in thread {thread}",
    },
    "ExecutorRollDriverPlugin": {
        "nothing to roll": "INFO There is nothing to roll.",
        "roll": "INFO Ask to decommission executor {executor}",
        "threw": "ERROR Error in rolling thread",
    },
    "ExecutorResizeDriverPlugin": {
        "within its limit": "DEBUG Executor {executor} limit {limit}, usage {used}",
        "update failed": "INFO Failed to update {executor}",
        "resize": "INFO Increase executor {executor} container memory from {limit} to {memory} as usage {used} "
        "exceeded threshold.",
        "threw": "ERROR Error in memory check thread",
    },
    "ExecutorPVCResizeDriverPlugin": {
        "reports": "INFO Latest PVC usage reports: {reports}",
        "trying": "INFO Try to resize executor {executor} PVC {claim} with ratio {ratio} (threshold {threshold}).",
        "in progress": "INFO PVC {claim} resize is in progress or failed (spec={requested}, status={capacity}); skip.",
        "expansion failed": "INFO Failed to expand PVC {claim}; will skip subsequent attempts.",
        "resize": "INFO Increase PVC {claim} storage from {requested} to {storage} as usage ratio exceeded threshold.",
        "threw": "ERROR Error in PVC resize thread",
    },
    "ExecutorPVCResizeExecutorPlugin": {
        "report": "INFO Reporting max PVC disk usage ratio for executor {executor}: {ratio}",
    },
    "YarnAllocator": {
        "profile added": "INFO Resource profile {profile} doesn't exist, adding it",
        "target": "INFO Driver requested a total number of {count} executor(s) for resource profile id: {profile}.",
        "status": "DEBUG Updating resource requests for ResourceProfile id: {profile}, target: {target}, pending: "
        "{pending}, running: {running}, executorsStarting: {starting}",
        "request": "INFO Will request {count} executor container(s) for ResourceProfile Id: {profile}, each with "
        "{cores} core(s) and {memory} MB memory. with custom resources: {resource}",
        "cancel": "INFO Canceling requests for {count} executor container(s) to have a new desired total {target} "
        "executors.",
        "cancel stale": "INFO Canceled {count} container request(s) (locality no longer needed)",
        "cancel anywhere": "INFO Canceled {count} unlocalized container requests to resubmit with locality",
        "submitted anywhere": "INFO Submitted {count} unlocalized container requests.",
        "submitted": "INFO Submitted container request for host {hosts}.",
        "allocated": "DEBUG Allocated containers: {count}. Current executor count: {running}. Launching executor "
        "count: {starting}. Cluster resources: {room}.",
        "unneeded": "DEBUG Releasing {count} unneeded containers that were allocated to us",
        "launching": "INFO Launching container {container} on host {host} for executor with ID {executor} for "
        "ResourceProfile Id {profile}",
        "skip": "INFO Skip launching executorRunnable as running executors count: {running} reached target executors "
        "count: {target}.",
        "received": "INFO Received {received} containers from YARN, launching executors on {launched} of them.",
        "launch failed": "ERROR Failed to launch executor {executor} on container {container}",
        "no executor": "WARN Cannot find executorId for container: {container}",
        "completed": "INFO Completed container {container}{where} (state: COMPLETE, exit status: {status}",
        "blamed": "WARN {text}",
        "not blamed": "INFO {text}",
        "kill unknown": "WARN Attempted to kill unknown executor {executor}!",
        "loss unknown": "WARN Tried to get the loss reason for non-existent executor {executor}",
    },
    "YarnAllocatorNodeHealthTracker": {
        "excluding": "INFO excluding {host} as YARN allocation failed {count} times",
        "exclude": "INFO adding nodes to YARN application master's excluded node list: List({hosts})",
        "include": "INFO removing nodes from YARN application master's excluded node list: List({hosts})",
        "no nodes": "WARN No available nodes reported, please check Resource Manager.",
    },
    "YarnSchedulerBackend$YarnSchedulerEndpoint": {
        "master registered": "INFO ApplicationMaster registered as NettyRpcEndpointRef(spark://YarnAM@driver)",
        "master lost": "WARN ApplicationMaster has disassociated: {address}",
        "request before master": "WARN Attempted to request executors before the AM has registered!",
        "kill before master": "WARN Attempted to kill executors before the AM has registered!",
        "loss before master": "WARN Attempted to check for an executor loss reason before the AM has registered!",
        "shutdown before master": "WARN Attempted to send shutdown message before the AM has registered!",
        "removal asked": "WARN Requesting driver to remove executor {executor} for reason {what}",
        "no reason": "WARN Attempted to get executor loss reason for executor id {executor} at RPC address {address}, "
        "but got no response. Marking as agent lost.",
    },
    "ApplicationMaster$AMEndpoint": {
        "kill requested": "INFO Driver requested to kill executor(s) {executors}.",
    },
    "ApplicationMaster": {
        "started": "INFO Started progress reporter thread with (heartbeat: {heartbeat}, initial allocation: {initial}) "
        "intervals",
        "fails": "WARN Reporter thread fails {failures} time(s) in a row.",
        "attempt unknown": "ERROR Exception from Reporter thread.",
        "end": "INFO Final app status: {status}, exitCode: {exit_code}, (reason: {reason})",
    },
}
"""By class and topic: the level, a blank, the text."""


def _template(line: str) -> tuple[Level, str]:
    level, _, text = line.partition(" ")
    return cast(Level, level), text


TEMPLATES: Final[Mapping[tuple[str, str], tuple[Level, str]]] = MappingProxyType(
    {(logger, topic): _template(line) for logger, topics in _TEMPLATES.items() for topic, line in topics.items()}
)
"""The class and the topic, to the level and the text."""
