"""How pods end: by themselves, evicted, deleted, killed after their grace, or with the machine under them.

The kubelet's and the API server's rules kept here:

- a pod on no node, or one that has finished, is deleted at once; any other gets a deletionTimestamp at the end of its
  grace, its process a SIGTERM, and after the grace a SIGKILL. Every deletion shows the deletionTimestamp first.
- a process that ends by itself finishes a pod under restartPolicy Never; under Always (StatefulSet, Deployment) the
  container starts again: at once the first time, then 10 s, 20 s, ... up to 5 min later (CrashLoopBackOff).
- a finished pod takes no room on its node and does not count for the quota; its object stays until it is deleted.
"""

from __future__ import annotations

from typing import Final

from podtide.domain.base.randomness import split, unit
from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.fakes.heartbeats import last_heartbeat
from podtide.domain.fakes.kubernetes.description import PROCESS, Life, PodStage
from podtide.domain.fakes.kubernetes.pods import PODS, container, enter, show, sync
from podtide.domain.fakes.kubernetes.rows import PodAgenda, PodRow
from podtide.domain.fakes.kubernetes.tables import ClusterTables
from podtide.domain.fakes.kubernetes.watch import gone
from podtide.domain.jvm.instants import format_instant
from podtide.domain.protocol.executor_stimuli import DecommissionRequested, ExecutorDisconnected, HeartbeatsStopped
from podtide.domain.protocol.pods import RUNNING, TERMINATED, WAITING, ContainerState, PodManifest

_BEATS: Final = 4
SIGTERM_EXIT: Final = 143
SIGKILL_EXIT: Final = 137
_RESTART_MS: Final[Millis] = 1_000
_BACKOFF_FIRST_MS: Final[Millis] = 10_000
_BACKOFF_MAX_MS: Final[Millis] = 300_000
_EVICTED: Final = "The node was low on resource: memory."
_REASONS: Final = {0: "Completed", SIGKILL_EXIT: "OOMKilled"}


def fall_silent(tables: ClusterTables, pod: PodRow, now: Millis) -> PodRow:
    """The process sends no heartbeat any more; the driver is told when it heard the last one."""
    if pod.beats_since < 0:
        return pod
    share, _ = unit(split(split(tables.stream(PODS, pod.uid), _BEATS), pod.restarts))
    last = last_heartbeat(pod.beats_since, now, tables.plan.app.heartbeat_ms, share)
    tables.say(HeartbeatsStopped(now + pod.rpc_ms, ExecutorId(pod.executor), last + pod.rpc_ms))
    return pod._replace(beats_since=-1)


def disconnect(tables: ClusterTables, pod: PodRow, now: Millis, after_ms: Millis = 0) -> PodRow:
    """The connection to the driver is lost; the driver sees it when it does."""
    pod = fall_silent(tables, pod, now)
    if not pod.address:
        return pod
    lost = ExecutorDisconnected(now + pod.rpc_ms + after_ms, pod.address)
    tables.say(lost)
    return pod._replace(address="")


def evicted(tables: ClusterTables, pod: PodRow, stage: PodStage, now: Millis) -> None:
    """The kubelet puts a pod out: it has failed, and its container is killed."""
    tables.count("pods.evicted")
    pod = disconnect(tables, pod, now)
    manifest = pod.manifest
    if manifest.phase == "Running":
        manifest = _with_exit(tables, manifest, SIGKILL_EXIT, "Error", now)
    manifest = manifest._replace(phase="Failed", reason=stage.reason or "Evicted", message=stage.message or _EVICTED)
    pod = release(tables, show(tables, pod, manifest, now), now)
    pod = enter(tables, pod, Life.EVICTED, now)
    if pod.owner:
        sync(tables, pod.owner, now)


def ended(
    tables: ClusterTables, pod: PodRow, code: int, reason: str | None, now: Millis, message: str | None = None
) -> PodRow:
    """The process ended with this exit code."""
    if pod.life in {Life.RUNNING, Life.NAMING, Life.REGISTERING}:
        tables.count("executors.never registered")
    tables.count(f"exits.{code}")
    pod = disconnect(tables, pod, now)
    manifest = _with_exit(tables, pod.manifest, code, reason, now)
    if pod.owner:
        return _restarts(tables, pod, manifest, now)
    phase = "Failed" if code else "Succeeded"
    pod = show(tables, pod, manifest._replace(phase=phase, message=message), now)
    tables.count(f"pods.{phase.lower()}")
    pod = release(tables, pod, now)
    return enter(tables, pod, Life.FAILED if code else Life.SUCCEEDED, now)


def _with_exit(tables: ClusterTables, manifest: PodManifest, code: int, reason: str | None, now: Millis) -> PodManifest:
    started = manifest.containers[0].state if manifest.containers else None
    state = ContainerState(
        TERMINATED,
        exit_code=code,
        reason=reason or _REASONS.get(code, "Error"),
        started_at=started.started_at if started is not None else None,
        finished_at=format_instant(now),
    )
    return manifest._replace(containers=container(tables, state))


def _restarts(tables: ClusterTables, pod: PodRow, manifest: PodManifest, now: Millis) -> PodRow:
    pod = show(tables, pod, manifest._replace(phase="Running"), now)
    pod = enter(tables, pod._replace(restarts=pod.restarts + 1), Life.BACKOFF, now)
    kind = PodAgenda.RESTART if pod.restarts == 1 else PodAgenda.BACKOFF
    pod = pod._replace(timer=tables.later(now + _RESTART_MS, kind, pod.uid))
    tables.put_pod(pod)
    return pod


def backs_off(tables: ClusterTables, pod: PodRow, now: Millis) -> None:
    """The kubelet says that it will start the container again, but not yet."""
    waiting = container(tables, ContainerState(WAITING, reason="CrashLoopBackOff"))
    pod = show(tables, pod, pod.manifest._replace(containers=waiting), now)
    wait = min(_BACKOFF_MAX_MS, _BACKOFF_FIRST_MS << min(pod.restarts - 2, 8))
    tables.put_pod(pod._replace(timer=tables.later(now + wait, PodAgenda.RESTART, pod.uid)))


def release(tables: ClusterTables, pod: PodRow, now: Millis) -> PodRow:
    """The pod leaves the room that it took on its node to others."""
    if not pod.held:
        return pod
    shape = pod.shape
    node = tables.nodes.get(pod.node)
    if node is not None:
        group = tables.plan.description.groups[node.group]
        node = node._replace(cpu=node.cpu + shape.cpu_millis, memory=node.memory + shape.memory_mib, pods=node.pods + 1)
        if node.pods == group.pods:
            node = node._replace(empty_since=now)
            if not node.open:
                tables.later(now, PodAgenda.IDLE, node.number)
            elif group.maximum is not None and tables.in_group[node.group] > group.count:
                tables.later(now + group.idle_ms, PodAgenda.IDLE, node.number)
        tables.nodes.put(node.number, node)
        if tables.waiting and not tables.place_timer:
            tables.place_timer = tables.later(now, PodAgenda.PLACE)
    pod = pod._replace(held=False)
    tables.put_pod(pod)
    return pod


def delete(tables: ClusterTables, pod: PodRow, now: Millis, grace_ms: Millis | None = None) -> None:
    """The API accepted a pod's deletion; one that is on its way out already goes on as it did."""
    if pod.deleting:
        return
    executors = tables.plan.description.executors
    grace = executors.grace_ms if grace_ms is None else min(grace_ms, executors.grace_ms)
    at_once = not pod.node or pod.finished or pod.node not in tables.nodes
    marked = pod.manifest._replace(deleted_at=format_instant(now if at_once else now + grace))
    tables.count("pods.deleted")
    was = pod.life
    pod = show(tables, pod, marked, now)
    if at_once:
        remove(tables, pod, now, SIGTERM_EXIT)
        return
    if executors.decommission and was is Life.REGISTERED:
        request = DecommissionRequested(
            now + pod.rpc_ms, (ExecutorId(pod.executor),), f"Executor {pod.executor} is decommissioned.",
            triggered_by_executor=True,
        )  # fmt: skip
        tables.say(request)
    pod = enter(tables, pod, Life.TERMINATING, now)
    ending = tables.agenda.get(pod.timer)
    if ending is not None and tables.plan.stages[ending.b].next is Life.STUCK:
        return
    if was is Life.HUNG or ending is None or ending.at > now + grace:
        # It does not listen to the SIGTERM, or takes too long.
        tables.cancel(pod.timer)
        tables.put_pod(pod._replace(timer=tables.later(now + grace, PodAgenda.KILL, pod.uid)))


def killed(tables: ClusterTables, pod: PodRow, now: Millis) -> None:
    """The grace is over: SIGKILL."""
    remove(tables, pod._replace(timer=0), now, SIGKILL_EXIT)


def remove(tables: ClusterTables, pod: PodRow, now: Millis, code: int) -> None:
    """The pod is gone from the API; its process, if it still ran, ended with this code just before."""
    tables.cancel(pod.timer)
    pod = disconnect(tables, pod, now)
    if pod.ticket:
        pod = pod._replace(ticket=0)
    if not pod.finished and pod.manifest.phase == "Running":
        state = pod.manifest.containers[0].state
        running = state is not None and state.kind == RUNNING
        manifest = _with_exit(tables, pod.manifest, code, "Error", now) if running else pod.manifest
        pod = show(tables, pod, manifest._replace(phase="Failed"), now)
    pod = release(tables, pod, now)
    tables.count("pods.gone")
    gone(tables, pod.manifest, pod.uid, now)
    tables.drop_pod(pod)
    if pod.manifest.claims:
        for name in pod.manifest.claims:
            claim = tables.claims.get(name)
            if claim is not None and claim.owner == pod.uid:
                tables.claims.drop(name)
    if pod.owner:
        sync(tables, pod.owner, now)


def lose(tables: ClusterTables, pod: PodRow, now: Millis, silent_ms: Millis) -> None:
    """The machine under a pod is gone: no process any more, and an object that says otherwise until it is cleaned up."""
    tables.cancel(pod.timer)
    pod = disconnect(tables, pod, now, silent_ms)
    pod = pod._replace(
        timer=tables.later(now + tables.plan.description.orphaned_ms, PodAgenda.ORPHAN, pod.uid), held=False
    )
    if pod.life in PROCESS or pod.life is Life.HUNG:
        pod = pod._replace(life=Life.DISCONNECTED)
    tables.put_pod(pod)


def orphaned(tables: ClusterTables, pod: PodRow, now: Millis) -> None:
    """The pod garbage collector finds a pod on no node: it fails it, and deletes it at once."""
    pod = pod._replace(timer=0)
    if not pod.finished:
        pod = show(tables, pod, pod.manifest._replace(phase="Failed"), now)
    if not pod.deleting:
        tables.count("pods.deleted")
        pod = show(tables, pod, pod.manifest._replace(deleted_at=format_instant(now)), now)
    remove(tables, pod, now, SIGKILL_EXIT)
