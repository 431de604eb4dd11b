"""Which commands may be carried out side by side, and which have to wait for others. No threads, no calls.

The rule: what concerns the same executor, claim or set happens in the order in which it was asked for; everything else
does not wait. So the claims of a pod come after the pod, a delete comes after the creation that is still under way, and a
mark before the delete that followed it.

An application that stops says so with a delete of all its pods, or of all of a kind that it owns. Creations of what is
deleted that have not begun by then are not begun any more, those under way are waited for, and those asked for later are
refused: so the delete finds everything.

A delete that is asked for while the same delete waits or is under way joins it: one call, an answer for each.

``in_order`` is the other policy: one thing after the other, as asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from podtide.domain.protocol import executor_commands, pod_commands

Creation: TypeAlias = (
    pod_commands.CreatePod | pod_commands.CreateClaim | pod_commands.CreateSet | pod_commands.CreateConfigMap
)

Called: TypeAlias = (
    Creation
    | pod_commands.DeletePods
    | pod_commands.DeletePod
    | pod_commands.DeleteSet
    | pod_commands.DeleteOwned
    | pod_commands.ListClaims
    | pod_commands.GetDriverPod
    | pod_commands.AwaitDriverReady
    | pod_commands.MarkInactive
    | pod_commands.MarkPods
    | pod_commands.ScaleSet
    | executor_commands.DecommissionExecutors
    | pod_commands.AssignExecutorId
    | pod_commands.ResizePod
    | pod_commands.ResizeClaim
)
"""Commands that become calls."""

_DELETES: Final = (pod_commands.DeletePod, pod_commands.DeletePods, pod_commands.DeleteSet, pod_commands.DeleteOwned)
_EVERYTHING: Final = "*"


class QueueStage(Enum):
    """How far a job is."""

    WAITING = "waiting"
    READY = "ready"
    RUNNING = "running"
    DONE = "done"


class QueuedCommand:
    """A command on its way. ``place``: its number in the order asked. ``serials``: whom it answers, its own first."""

    __slots__ = ("blockers", "command", "followers", "keys", "place", "serials", "stage")

    def __init__(self, command: Called, keys: tuple[str, ...], place: int) -> None:
        self.command = command
        self.place = place
        self.keys = keys
        serial: int | None = getattr(command, "serial", None)
        self.serials = [] if serial is None else [serial]
        self.blockers: set[QueuedCommand] = set()
        self.followers: list[QueuedCommand] = []
        self.stage = QueueStage.WAITING


class Queued(NamedTuple):
    """The outcome for a command. ``job`` None: it joined another, or, with ``refused``, was turned away.

    ``cancelled``: creations that will not be made because of it. ``ready``: jobs that may begin now.
    """

    job: QueuedCommand | None = None
    refused: bool = False
    cancelled: tuple[QueuedCommand, ...] = ()
    ready: tuple[QueuedCommand, ...] = ()


class Orders:
    """The jobs that are not done, and who waits for whom. Not thread-safe."""

    def __init__(self, *, in_order: bool) -> None:
        self._in_order = in_order
        self._last: dict[str, QueuedCommand] = {}
        self._creating: dict[str, dict[QueuedCommand, None]] = {}
        self._closed: set[str] = set()
        self._open: dict[QueuedCommand, None] = {}
        self._taken = 0

    def __len__(self) -> int:
        return len(self._open)

    def unfinished(self) -> Iterator[QueuedCommand]:
        """The jobs that are not done, oldest first."""
        return iter(tuple(self._open))

    def take(self, command: Called) -> Queued:
        """Take a command."""
        made = created(command)
        if made is not None and made in self._closed:
            return Queued(refused=True)
        keys = (_EVERYTHING,) if self._in_order else tuple(keys_of(command))
        twin = self._twin(command, keys)
        if twin is not None:
            serial: int | None = getattr(command, "serial", None)
            if serial is not None:
                twin.serials.append(serial)
            return Queued()
        self._taken += 1
        job = QueuedCommand(command, keys, self._taken)
        cancelled: list[QueuedCommand] = []
        ready: list[QueuedCommand] = []
        before: set[QueuedCommand] = set()
        for resource in swept(command):
            self._closed.add(resource)
            for creation in () if self._in_order else tuple(self._creating.get(resource, ())):
                if creation.stage in {QueueStage.RUNNING, QueueStage.DONE}:
                    before.add(creation)
                else:
                    cancelled.append(creation)
                    ready.extend(self._cancel(creation))
        for key in keys:
            last = self._last.get(key)
            if last is not None:
                before.add(last)
            self._last[key] = job
        for blocker in before:
            blocker.followers.append(job)
        job.blockers = before
        self._open[job] = None
        if made is not None:
            self._creating.setdefault(made, {})[job] = None
        if not before:
            job.stage = QueueStage.READY
            ready.append(job)
        return Queued(
            job, cancelled=tuple(cancelled), ready=tuple(one for one in ready if one.stage is QueueStage.READY)
        )

    def close(self, job: QueuedCommand) -> None:
        """Nothing joins this job any more: its answer is known."""
        job.stage = QueueStage.DONE

    def finish(self, job: QueuedCommand) -> list[QueuedCommand]:
        """A job is done. Who may begin now."""
        job.stage = QueueStage.DONE
        self._open.pop(job, None)
        made = created(job.command)
        if made is not None:
            self._creating.get(made, {}).pop(job, None)
        for key in job.keys:
            if self._last.get(key) is job:
                del self._last[key]
        ready = []
        for follower in job.followers:
            follower.blockers.discard(job)
            if not follower.blockers and follower.stage is QueueStage.WAITING:
                follower.stage = QueueStage.READY
                ready.append(follower)
        job.followers = []
        return ready

    def _cancel(self, job: QueuedCommand) -> list[QueuedCommand]:
        """A job will never be. Who waited for it, or would, waits for what it waited for and concerns the same."""
        for follower in job.followers:
            inherited = {blocker for blocker in job.blockers if not set(blocker.keys).isdisjoint(follower.keys)}
            for blocker in inherited - follower.blockers:
                blocker.followers.append(follower)
            follower.blockers |= inherited
        for key in job.keys:
            before = [blocker for blocker in job.blockers if key in blocker.keys]
            if before and self._last.get(key) is job:
                self._last[key] = max(before, key=lambda blocker: blocker.place)
        return self.finish(job)

    def _twin(self, command: Called, keys: tuple[str, ...]) -> QueuedCommand | None:
        """A delete of the same that is not over, with nothing after it that concerns the same."""
        if not isinstance(command, _DELETES) or not keys:
            return None
        last = self._last.get(keys[0])
        if last is None or last.stage is QueueStage.DONE or not _same(last.command, command):
            return None
        return last if all(self._last.get(key) is last for key in keys) else None


def _same(left: Called, right: Called) -> bool:
    """Whether two deletes delete the same."""
    match left, right:
        case pod_commands.DeletePod(), pod_commands.DeletePod():
            return left.name == right.name
        case pod_commands.DeletePods(), pod_commands.DeletePods():
            same_phase = (left.phase, left.list_first) == (right.phase, right.list_first)
            return same_phase and left.executors == right.executors
        case pod_commands.DeleteSet(), pod_commands.DeleteSet():
            return (left.kind, left.name) == (right.kind, right.name)
        case pod_commands.DeleteOwned(), pod_commands.DeleteOwned():
            return left.kind == right.kind
    return False


def created(command: Called) -> str | None:
    """The resource that a command creates."""
    match command:
        case pod_commands.CreatePod():
            return "pods"
        case pod_commands.CreateClaim():
            return "persistentvolumeclaims"
        case pod_commands.CreateConfigMap():
            return "configmaps"
        case pod_commands.CreateSet():
            return f"{command.kind}s"
    return None


def swept(command: Called) -> tuple[str, ...]:
    """The resources of which nothing shall be left after a command."""
    match command:
        case pod_commands.DeletePods(executors=None, phase=None):
            return ("pods", "persistentvolumeclaims", "configmaps", "statefulsets", "deployments")
        case pod_commands.DeleteOwned():
            return (command.kind,)
    return ()


def keys_of(command: Called) -> Iterator[str]:
    """What a command concerns."""
    match command:
        case pod_commands.CreatePod() | pod_commands.MarkInactive() | pod_commands.DeletePod():
            yield f"executor {command.executor}"
        case pod_commands.CreateClaim():
            yield f"executor {command.executor}"
            yield f"claim {command.claim.name}"
        case pod_commands.DeletePods(executors=None):
            yield "all pods"
        case pod_commands.DeletePods() | pod_commands.MarkPods() | executor_commands.DecommissionExecutors():
            for executor in dict.fromkeys(command.executors or ()):
                yield f"executor {executor}"
        case pod_commands.CreateSet() | pod_commands.ScaleSet() | pod_commands.DeleteSet():
            yield f"{command.kind} {command.name}"
        case pod_commands.AssignExecutorId() | pod_commands.ResizePod():
            yield f"executor {command.executor}"
            yield f"pod {command.pod}"
        case pod_commands.ResizeClaim():
            yield f"claim {command.claim}"
        case pod_commands.DeleteOwned():
            yield f"all {command.kind}"
        case pod_commands.CreateConfigMap():
            yield "config map"
        case pod_commands.GetDriverPod() | pod_commands.AwaitDriverReady():
            yield f"pod {command.name}"
        case pod_commands.ListClaims():
            pass
