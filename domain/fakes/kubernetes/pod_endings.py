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

from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.fakes.kubernetes.books import Books
from podtide.domain.fakes.kubernetes.description import PROCESS, Life, Stage
from podtide.domain.fakes.kubernetes.pods import container, enter, show, sync
from podtide.domain.fakes.kubernetes.rows import Kind, PodRow
from podtide.domain.fakes.kubernetes.watch import gone
from podtide.domain.jvm.instants import format_instant
from podtide.domain.protocol.pod_stimuli import DecommissionRequested, ExecutorDisconnected
from podtide.domain.protocol.pods import RUNNING, TERMINATED, WAITING, ContainerState, PodManifest

SIGTERM_EXIT: Final = 143
SIGKILL_EXIT: Final = 137
_RESTART_MS: Final[Millis] = 1_000
_BACKOFF_FIRST_MS: Final[Millis] = 10_000
_BACKOFF_MAX_MS: Final[Millis] = 300_000
_EVICTED: Final = "The node was low on resource: memory."
_REASONS: Final = {0: "Completed", SIGKILL_EXIT: "OOMKilled"}


def disconnect(books: Books, pod: PodRow, now: Millis, after_ms: Millis = 0) -> PodRow:
    """The connection to the driver is lost; the driver sees it when it does."""
    if not pod.address:
        return pod
    lost = ExecutorDisconnected(now + pod.rpc_ms + after_ms, pod.address)
    books.later(lost.at, Kind.SAY, say=lost)
    return pod._replace(address="")


def evicted(books: Books, pod: PodRow, stage: Stage, now: Millis) -> None:
    """The kubelet puts a pod out: it has failed, and its container is killed."""
    books.count("pods.evicted")
    pod = disconnect(books, pod, now)
    manifest = pod.manifest
    if manifest.phase == "Running":
        manifest = _with_exit(books, manifest, SIGKILL_EXIT, "Error", now)
    manifest = manifest._replace(phase="Failed", reason=stage.reason or "Evicted", message=stage.message or _EVICTED)
    pod = release(books, show(books, pod, manifest, now), now)
    pod = enter(books, pod, Life.EVICTED, now)
    if pod.owner:
        sync(books, pod.owner, now)


def ended(books: Books, pod: PodRow, code: int, reason: str | None, now: Millis, message: str | None = None) -> PodRow:
    """The process ended with this exit code."""
    if pod.life in {Life.RUNNING, Life.NAMING, Life.REGISTERING}:
        books.count("executors.never registered")
    books.count(f"exits.{code}")
    pod = disconnect(books, pod, now)
    manifest = _with_exit(books, pod.manifest, code, reason, now)
    if pod.owner:
        return _restarts(books, pod, manifest, now)
    phase = "Failed" if code else "Succeeded"
    pod = show(books, pod, manifest._replace(phase=phase, message=message), now)
    books.count(f"pods.{phase.lower()}")
    pod = release(books, pod, now)
    return enter(books, pod, Life.FAILED if code else Life.SUCCEEDED, now)


def _with_exit(books: Books, manifest: PodManifest, code: int, reason: str | None, now: Millis) -> PodManifest:
    started = manifest.containers[0].state if manifest.containers else None
    state = ContainerState(
        TERMINATED,
        exit_code=code,
        reason=reason or _REASONS.get(code, "Error"),
        started_at=started.started_at if started is not None else None,
        finished_at=format_instant(now),
    )
    return manifest._replace(containers=container(books, state))


def _restarts(books: Books, pod: PodRow, manifest: PodManifest, now: Millis) -> PodRow:
    pod = show(books, pod, manifest._replace(phase="Running"), now)
    pod = enter(books, pod._replace(restarts=pod.restarts + 1), Life.BACKOFF, now)
    kind = Kind.RESTART if pod.restarts == 1 else Kind.BACKOFF
    pod = pod._replace(timer=books.later(now + _RESTART_MS, kind, pod.uid))
    books.put_pod(pod)
    return pod


def backs_off(books: Books, pod: PodRow, now: Millis) -> None:
    """The kubelet says that it will start the container again, but not yet."""
    waiting = container(books, ContainerState(WAITING, reason="CrashLoopBackOff"))
    pod = show(books, pod, pod.manifest._replace(containers=waiting), now)
    wait = min(_BACKOFF_MAX_MS, _BACKOFF_FIRST_MS << min(pod.restarts - 2, 8))
    books.put_pod(pod._replace(timer=books.later(now + wait, Kind.RESTART, pod.uid)))


def release(books: Books, pod: PodRow, now: Millis) -> PodRow:
    """The pod leaves the room that it took on its node to others."""
    if not pod.held:
        return pod
    shape = books.plan.shape(pod.profile)
    node = books.nodes.rows.get(pod.node)
    if node is not None:
        group = books.plan.description.groups[node.group]
        node = node._replace(cpu=node.cpu + shape.cpu_millis, memory=node.memory + shape.memory_mib, pods=node.pods + 1)
        if node.pods == group.pods:
            node = node._replace(empty_since=now)
            if not node.open:
                books.later(now, Kind.IDLE, node.number)
            elif group.maximum is not None and books.in_group[node.group] > group.count:
                books.later(now + group.idle_ms, Kind.IDLE, node.number)
        books.nodes.put(node.number, node)
        if books.waiting and not books.number("placing"):
            books.numbers.put("placing", books.later(now, Kind.PLACE))
    pod = pod._replace(held=False)
    books.put_pod(pod)
    return pod


def delete(books: Books, pod: PodRow, now: Millis, grace_ms: Millis | None = None) -> None:
    """The API accepted a pod's deletion; one that is on its way out already goes on as it did."""
    if pod.deleting:
        return
    executors = books.plan.description.executors
    grace = executors.grace_ms if grace_ms is None else min(grace_ms, executors.grace_ms)
    at_once = not pod.node or pod.finished or pod.node not in books.nodes.rows
    marked = pod.manifest._replace(deleted_at=format_instant(now if at_once else now + grace))
    books.count("pods.deleted")
    was = pod.life
    pod = show(books, pod, marked, now)
    if at_once:
        remove(books, pod, now, SIGTERM_EXIT)
        return
    if executors.decommission and was is Life.REGISTERED:
        told = DecommissionRequested(
            now + pod.rpc_ms, (ExecutorId(pod.executor),), f"Executor {pod.executor} is decommissioned.",
            triggered_by_executor=True,
        )  # fmt: skip
        books.later(told.at, Kind.SAY, say=told)
    pod = enter(books, pod, Life.TERMINATING, now)
    ending = books.agenda.rows.get(pod.timer)
    if ending is not None and books.plan.stages[ending.b].next is Life.STUCK:
        return
    if was is Life.HUNG or ending is None or ending.at > now + grace:
        # It does not listen to the SIGTERM, or takes too long.
        books.cancel(pod.timer)
        books.put_pod(pod._replace(timer=books.later(now + grace, Kind.KILL, pod.uid)))


def killed(books: Books, pod: PodRow, now: Millis) -> None:
    """The grace is over: SIGKILL."""
    remove(books, pod._replace(timer=0), now, SIGKILL_EXIT)


def remove(books: Books, pod: PodRow, now: Millis, code: int) -> None:
    """The pod is gone from the API; its process, if it still ran, ended with this code just before."""
    books.cancel(pod.timer)
    pod = disconnect(books, pod, now)
    if pod.ticket:
        pod = pod._replace(ticket=0)
    if not pod.finished and pod.manifest.phase == "Running":
        state = pod.manifest.containers[0].state
        running = state is not None and state.kind == RUNNING
        manifest = _with_exit(books, pod.manifest, code, "Error", now) if running else pod.manifest
        pod = show(books, pod, manifest._replace(phase="Failed"), now)
    pod = release(books, pod, now)
    books.count("pods.gone")
    gone(books, pod.manifest, pod.uid, now)
    books.drop_pod(pod)
    if pod.manifest.claims:
        for name in pod.manifest.claims:
            claim = books.claims.rows.get(name)
            if claim is not None and claim.owner == pod.uid:
                books.claims.drop(name)
    if pod.owner:
        sync(books, pod.owner, now)


def lose(books: Books, pod: PodRow, now: Millis, silent_ms: Millis) -> None:
    """The machine under a pod is gone: no process any more, and an object that says otherwise until it is cleaned up."""
    books.cancel(pod.timer)
    pod = disconnect(books, pod, now, silent_ms)
    pod = pod._replace(timer=books.later(now + books.plan.description.orphaned_ms, Kind.ORPHAN, pod.uid), held=False)
    if pod.life in PROCESS or pod.life is Life.HUNG:
        pod = pod._replace(life=Life.DISCONNECTED)
    books.put_pod(pod)


def orphaned(books: Books, pod: PodRow, now: Millis) -> None:
    """The pod garbage collector finds a pod on no node: it fails it, and deletes it at once."""
    pod = pod._replace(timer=0)
    if not pod.finished:
        pod = show(books, pod, pod.manifest._replace(phase="Failed"), now)
    if not pod.deleting:
        books.count("pods.deleted")
        pod = show(books, pod, pod.manifest._replace(deleted_at=format_instant(now)), now)
    remove(books, pod, now, SIGKILL_EXIT)
