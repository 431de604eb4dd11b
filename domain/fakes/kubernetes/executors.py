"""The executor in a pod: its process comes up, speaks with the driver, listens to it, and moves on stage by stage.

The driver's words reach a process only in the states in which a Spark executor listens: an answer while it waits for
one, a decommission or a stop once it is registered. Whatever else is said to it is lost, as it is in Spark. A process that
hangs keeps its connection and sends no heartbeats: it hears a stop or a decommission when it goes on.

Heartbeats are not told one by one. From its registration on an executor is taken to send them; when it no longer does, the
driver is told so, and when it heard the last one (``HeartbeatsStopped``).
"""

from __future__ import annotations

from podtide.domain.base.randomness import Stream, pick
from podtide.domain.base.units import ExecutorId, Millis, ProfileId
from podtide.domain.fakes.kubernetes.description import Life, PodStage
from podtide.domain.fakes.kubernetes.pod_endings import (
    SIGKILL_EXIT,
    SIGTERM_EXIT,
    disconnect,
    ended,
    evicted,
    fall_silent,
    remove,
)
from podtide.domain.fakes.kubernetes.pods import container, enter, show
from podtide.domain.fakes.kubernetes.rows import PodAgenda, PodRow
from podtide.domain.fakes.kubernetes.tables import ClusterTables
from podtide.domain.fakes.words import FINISHED, DriverWord
from podtide.domain.jvm.instants import format_instant
from podtide.domain.protocol.executor_stimuli import ExecutorExiting, Heartbeat, RegisterExecutor
from podtide.domain.protocol.pod_stimuli import GenerateExecutorId
from podtide.domain.protocol.pods import RUNNING, WAITING, ContainerState


def elapsed(tables: ClusterTables, pod: PodRow, stage: PodStage, now: Millis) -> None:
    """A stage has come to its end. Placing on a node (from created to scheduled) is not done here."""
    pod = pod._replace(timer=0)
    match stage.next:
        case Life.PULLED:
            _pulled(tables, pod, now)
        case Life.RUNNING:
            _started(tables, pod, now)
        case Life.REGISTERED if pod.life is Life.HUNG:
            _go_on(tables, pod, now)
        case Life.REGISTERED:
            _speak(tables, pod, now)
        case Life.FAILED:
            code, rng = _exit_code(pod, stage)
            ended(tables, pod._replace(rng=rng), code, stage.reason, now, stage.message)
        case Life.SUCCEEDED:
            if pod.life is Life.DRAINING:
                pod = _exits(tables, pod, now)
            ended(tables, pod, 0, stage.reason, now, stage.message)
        case Life.EVICTED:
            evicted(tables, pod, stage, now)
        case Life.HUNG:
            _hung(tables, pod, stage, now)
        case Life.DISCONNECTED:
            tables.count("executors.disconnected")
            enter(tables, disconnect(tables, pod, now), Life.DISCONNECTED, now)
        case Life.STUCK:
            tables.count("pods.stuck")
            enter(tables, pod, Life.STUCK, now)
        case Life.GONE:
            remove(tables, pod, now, SIGTERM_EXIT)
        case _:
            raise AssertionError(f"no way to {stage.next}")


def _exits(tables: ClusterTables, pod: PodRow, now: Millis) -> PodRow:
    """The executor reports its own end to the driver (CoarseGrainedExecutorBackend.exitExecutor)."""
    tables.say(ExecutorExiting(now + pod.rpc_ms, ExecutorId(pod.executor), FINISHED))
    return pod._replace(beats_since=-1)


def _exit_code(pod: PodRow, stage: PodStage) -> tuple[int, Stream]:
    if not stage.exits:
        return 1, pod.rng
    which, rng = pick(pod.rng, tuple(weight for _, weight in stage.exits))
    return stage.exits[which][0], rng


def _pulled(tables: ClusterTables, pod: PodRow, now: Millis) -> None:
    """The image is there, for this pod and those that follow on its node."""
    node = tables.nodes.get(pod.node)
    if node is not None and not 0 <= node.image_at <= now:
        tables.nodes.put(node.number, node._replace(image_at=now))
    enter(tables, pod, Life.PULLED, now)


def _started(tables: ClusterTables, pod: PodRow, now: Millis) -> None:
    running = container(tables, ContainerState(RUNNING, started_at=format_instant(now)))
    pod = show(tables, pod, pod.manifest._replace(phase="Running", containers=running), now)
    enter(tables, pod, Life.RUNNING, now)


def _speak(tables: ClusterTables, pod: PodRow, now: Millis) -> None:
    """The process is up: it asks for an id, or to be registered."""
    pod = pod._replace(address=_address(pod))
    if pod.owner:
        request = GenerateExecutorId(now + pod.rpc_ms, pod.name, pod.address)
        tables.say(request)
        enter(tables, pod, Life.NAMING, now)
    else:
        _register(tables, pod, now)


def _register(tables: ClusterTables, pod: PodRow, now: Millis) -> None:
    host = _ip(pod)
    request = RegisterExecutor(now + pod.rpc_ms, ExecutorId(pod.executor), ProfileId(pod.profile), host, pod.address)
    tables.say(request)
    enter(tables, pod, Life.REGISTERING, now)


def _ip(pod: PodRow) -> str:
    return f"10.{pod.uid >> 16 & 255}.{pod.uid >> 8 & 255}.{pod.uid & 255}"


def _address(pod: PodRow) -> str:
    # The port changes when the process does, so that the driver can tell a new one from the one before it.
    return f"{_ip(pod)}:{32_768 + pod.restarts % 28_000}"


def _hung(tables: ClusterTables, pod: PodRow, stage: PodStage, now: Millis) -> None:
    tables.count("pods.hung")
    pod = fall_silent(tables, pod, now)
    if pod.manifest.phase == "Pending" and pod.node and stage.reason:
        waiting = container(tables, ContainerState(WAITING, reason=stage.reason))
        pod = show(tables, pod, pod.manifest._replace(containers=waiting), now)
    enter(tables, pod, Life.HUNG, now)


def restart(tables: ClusterTables, pod: PodRow, now: Millis) -> None:
    """The container starts again, and its process asks for an id anew."""
    tables.count("containers.restarted")
    _started(tables, pod._replace(timer=0, executor=""), now)


# the driver's words


def say_to(tables: ClusterTables, pod: PodRow, word: DriverWord, now: Millis) -> None:
    """A word of the driver's is on its way to an executor."""
    tables.later(now + pod.rpc_ms, PodAgenda.HEAR, pod.uid, word)


def hear(tables: ClusterTables, pod: PodRow, word: DriverWord, now: Millis) -> None:
    """A word of the driver's reaches the executor, if there is a process that listens."""
    life = pod.life
    if word is DriverWord.NAMED and life is Life.NAMING:
        _register(tables, pod, now)
    elif word is DriverWord.ACCEPTED and life is Life.REGISTERING:
        tables.count("executors.registered")
        enter(tables, pod._replace(beats_since=now), Life.REGISTERED, now)
    elif word is DriverWord.REFUSED and life is Life.REGISTERING:
        tables.count("executors.refused")
        enter(tables, pod, Life.REFUSED, now)
    elif word is DriverWord.STOP and life in {Life.REGISTERED, Life.DRAINING}:
        enter(tables, pod._replace(beats_since=-1), Life.EXITING, now)  # the driver does not miss it
    elif word is DriverWord.DECOMMISSION and life is Life.REGISTERED:
        enter(tables, pod, Life.DRAINING, now)
    elif (
        word in {DriverWord.STOP, DriverWord.DECOMMISSION}
        and life is Life.HUNG
        and pod.address
        and pod.pending_word != DriverWord.STOP
    ):
        tables.put_pod(pod._replace(pending_word=word))


def calm(tables: ClusterTables, now: Millis) -> None:
    """Faults end: what hangs goes on as if it had just come there, what is stuck is let go."""
    for pod in list(tables.pods.values()):
        ending = tables.agenda.get(pod.timer)
        if ending is not None and ending.kind is PodAgenda.STAGE and tables.plan.stages[ending.b].fault:
            enter(tables, pod, pod.life, now)
        elif pod.life is Life.STUCK:
            remove(tables, pod, now, SIGKILL_EXIT)
        elif pod.life is Life.HUNG and not pod.timer:
            _go_on(tables, pod, now)


def _go_on(tables: ClusterTables, pod: PodRow, now: Millis) -> None:
    """What hung goes on: a pod on its way, a process that had not registered, an executor with what it was told since."""
    if pod.manifest.phase != "Running":
        enter(tables, pod, Life.SCHEDULED if pod.node else Life.CREATED, now)
    elif not pod.address or not pod.executor:
        _speak(tables, pod, now)
    else:
        tables.say(Heartbeat(now + pod.rpc_ms, ExecutorId(pod.executor)))
        awake = enter(tables, pod._replace(pending_word=0, beats_since=now), Life.REGISTERED, now)
        if pod.pending_word:
            hear(tables, awake, DriverWord(pod.pending_word), now)
