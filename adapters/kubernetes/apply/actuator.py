"""The actuator of a live run: every command about pods becomes calls on a real API server, every end of one an Outcome.

``apply`` only takes a command; workers carry it out and give its Outcome to ``hear``, with ``at`` 0 for the loop to stamp.
Nothing is ever raised into the loop, and no Outcome is lost: what is refused, cancelled or given up is an Outcome with a
failure that says so.

Two policies. ``ONE_AT_A_TIME`` is Spark's way: one worker, in the order asked. ``CONCURRENT`` makes creations side by
side (``workers`` of them) and everything else in a lane beside them (``others``), so that a delete does not wait behind a
thousand creations, nor behind a server that asks for fewer of them. What has to wait for what is said in
``kubernetes.apply.ordering``: what concerns the same executor, claim or set happens in the order asked; a delete of all
waits for the creations under way, cancels those that have not begun and refuses those that come later.

Creations are paced (``ratelimit``): a rate of our own, if one is set, and what the server asks for by 429 and 503, which
slows down the whole lane. What makes calls safe to repeat is said in ``kubernetes.calls``.

Commands without a call: ``RemoveExecutor``, ``AnswerRegistration`` and ``StopApplication`` are said to the driver, which
is not here; ``StopSource`` is answered at once. ``ListPods`` is the sensor's. ``DecommissionExecutors`` drains the pods
(``kubernetes.apply.update``), unless ``drain`` is off.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple, cast

from podtide.adapters.clock import Clock
from podtide.adapters.kubernetes.api import ApiClient
from podtide.adapters.kubernetes.apply.create import Creates, ManifestRefused, Manifests, Uids
from podtide.adapters.kubernetes.apply.delete import Cleaner
from podtide.adapters.kubernetes.apply.ordering import Called, Orders, QueuedCommand, QueueStage, created, swept
from podtide.adapters.kubernetes.apply.update import Changes
from podtide.adapters.kubernetes.calls import CallCounts, Caller, CallSettings
from podtide.adapters.kubernetes.errors import Complaints
from podtide.adapters.kubernetes.ratelimit import Jitter, Rate, RateLimiter, Throttle, Wait
from podtide.adapters.notices import Level, Notice, Notify, Topic
from podtide.adapters.text.format import some
from podtide.adapters.text.safe import escaped
from podtide.domain.base.units import Millis
from podtide.domain.executor_pod.builder import CannotBuild
from podtide.domain.protocol import executor_commands, pod_commands
from podtide.domain.protocol.application import Command
from podtide.domain.protocol.commands import Decommission, Kill, RequestTotal
from podtide.domain.protocol.pod_stimuli import CallFailure, Outcome

LEFT_MAX: Final = 20
"""Commands that are named when they are left undone."""


class Policy(Enum):
    """In which order commands are carried out."""

    ONE_AT_A_TIME = "one at a time"
    CONCURRENT = "concurrent"


class ActuatorSettings(NamedTuple):
    """How it works. ``rate``: of creations. Deadlines are for one command, from when a worker takes it, in seconds.

    ``drain``: decommission executors by deleting their pods with their own grace period. ``driver_pod``: its name, where it
    is known before it is looked up.
    """

    policy: Policy = Policy.CONCURRENT
    workers: int = 16
    others: int = 4
    deleters: int = 8
    rate: Rate = Rate()
    throttle: Throttle = Throttle()
    call: CallSettings = CallSettings()
    create_deadline_s: float = 60.0
    deadline_s: float = 60.0
    sweep_deadline_s: float = 300.0
    drain: bool = True
    driver_pod: str = ""


class ActuatorSettled(NamedTuple):
    """How it ended. ``left``: commands not carried out, ``names`` the first of them."""

    left: int = 0
    names: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        """Whether nothing is left."""
        return self.left == 0


class _Crew:
    """The workers of a lane and the jobs that they may begin."""

    def __init__(self, name: str, most: int, lock: threading.Lock) -> None:
        self.name = name
        self.most = most
        self.jobs: deque[QueuedCommand] = deque()
        self.threads: list[threading.Thread] = []
        self.idle = 0
        self.ready = threading.Condition(lock)


class KubernetesActuator:
    """Carries commands out. ``hear`` may be called from any thread.

    ``jitter``: a number from 0 to below 1, called from any thread. ``wait`` lets seconds pass between attempts; without
    one, real seconds, cut short when the actuator is closed.
    """

    def __init__(
        self,
        api: ApiClient,
        namespace: str,
        app_id: str,
        manifests: Manifests,
        hear: Callable[[Outcome], None],
        clock: Clock,
        notify: Notify,
        settings: ActuatorSettings = ActuatorSettings(),  # noqa: B008 - a value
        *,
        jitter: Jitter,
        wait: Wait | None = None,
    ) -> None:
        """Nothing is called before a command comes."""
        assert settings.workers >= 1
        assert settings.others >= 1
        self._hear, self._clock, self._notify, self._settings = hear, clock, notify, settings
        self._ended = threading.Event()
        self._stopping = threading.Event()
        waits: Wait = self._ended.wait if wait is None else wait
        # A creation that waits for its turn has not been made: there is no point in it once everything is deleted.
        turns: Wait = self._stopping.wait if wait is None else self._turned(waits)
        in_order = settings.policy is Policy.ONE_AT_A_TIME
        self._complaints = Complaints(clock, notify)
        self._counts = CallCounts()

        def caller(lane: RateLimiter) -> Caller:
            return Caller(
                api,
                lane,
                clock,
                self._complaints,
                self._counts,
                jitter=jitter,
                wait=waits,
                settings=settings.call,
            )

        throttle = settings.throttle
        creations = RateLimiter(
            "creations", clock, notify, jitter=jitter, wait=turns, rate=settings.rate, throttle=throttle
        )
        others = RateLimiter("other calls", clock, notify, jitter=jitter, wait=waits, throttle=throttle)
        uids = Uids(settings.driver_pod)
        # Every worker may stand in line for a turn of our own rate; that time is not the server's.
        in_line_s = settings.workers / settings.rate.per_second if settings.rate.per_second else 0.0
        self._creates: Final = Creates(
            caller(creations), namespace, app_id, manifests, uids, settings.create_deadline_s + in_line_s, turns
        )
        changing = caller(others)
        cleaner = Cleaner(changing, namespace, workers=1 if in_order else settings.deleters)
        self._changes: Final = Changes(
            changing,
            cleaner,
            namespace,
            app_id,
            uids,
            notify,
            deadline_s=settings.deadline_s,
            sweep_s=settings.sweep_deadline_s,
        )
        creates, changes = self._creates, self._changes
        self._calls: Final[dict[type[Called], Callable[[Any], Outcome]]] = {
            pod_commands.CreatePod: creates.pod,
            pod_commands.CreateClaim: creates.claim,
            pod_commands.CreateSet: creates.replica_set,
            pod_commands.CreateConfigMap: creates.config_map,
            pod_commands.DeletePods: changes.delete_pods,
            pod_commands.DeletePod: changes.delete_pod,
            pod_commands.DeleteSet: changes.delete_set,
            pod_commands.DeleteOwned: changes.delete_owned,
            pod_commands.ListClaims: changes.list_claims,
            pod_commands.GetDriverPod: changes.get_driver,
            pod_commands.AwaitDriverReady: changes.await_driver,
            pod_commands.MarkInactive: changes.mark_inactive,
            pod_commands.MarkPods: changes.mark_pods,
            pod_commands.ScaleSet: changes.scale_set,
            pod_commands.AssignExecutorId: changes.assign_id,
            pod_commands.ResizePod: changes.resize_pod,
            pod_commands.ResizeClaim: changes.resize_claim,
            executor_commands.DecommissionExecutors: changes.decommission,
        }
        self._lock = threading.Lock()
        self._orders = Orders(in_order=in_order)
        self._quiet = threading.Condition(self._lock)
        self._accepting = True
        self._one = _Crew("calls", 1, self._lock) if in_order else None
        self._making = _Crew("creations", settings.workers, self._lock)
        self._doing = _Crew("changes", settings.others, self._lock)

    # from the loop

    def apply(self, command: Command, now: Millis = 0) -> None:
        """Take a command. Never blocks for long, never raises. ``now`` is of no interest: it is carried out when it is."""
        del now
        match command:
            case RequestTotal() | Kill() | Decommission():
                return  # said to the scheduler backend, not to Kubernetes
            case (
                executor_commands.RemoveExecutor()
                | executor_commands.AnswerRegistration()
                | executor_commands.StopApplication()
            ):
                return
            case executor_commands.StopSource():
                self._hear(Outcome(0, command.serial))
            case pod_commands.ListPods():
                self._refuse((command.serial,), "the pods are listed by the sensor")
            case executor_commands.DecommissionExecutors() if not (command.notify_executors and self._settings.drain):
                return
            case _:
                self._take(cast(Called, command))  # of YARN nobody says anything here

    def _take(self, command: Called) -> None:
        serial: int | None = getattr(command, "serial", None)
        with self._lock:
            accepting = self._accepting
            if accepting:
                if "pods" in swept(command):
                    self._stopping.set()
                self._counts.add("commands")
                taken = self._orders.take(command)
                for job in taken.ready:
                    self._enqueue(job)
                if not len(self._orders):
                    self._quiet.notify_all()
        if not accepting or taken.refused:
            why = "the application stops: nothing is created any more" if accepting else "podtide is ending"
            self._refuse(() if serial is None else (serial,), why)
            return
        if taken.job is None:
            self._counts.add("joined")
        if taken.cancelled:
            self._counts.add("cancelled", len(taken.cancelled))
            for job in taken.cancelled:
                self._refuse(job.serials, "the application stops: nothing is created any more")
            text = f"{len(taken.cancelled)} creations were not begun: the application stops"
            self._say(Level.INFO, Topic.STOPPING, text, cancelled=len(taken.cancelled))

    def _refuse(self, serials: list[int] | tuple[int, ...], why: str) -> None:
        for serial in serials:
            self._hear(Outcome(0, serial, CallFailure(None, f"not asked: {why}")))

    @property
    def in_flight(self) -> int:
        """Commands taken and not yet answered; those that joined another count once."""
        with self._lock:
            return len(self._orders)

    @property
    def counters(self) -> dict[str, int]:
        """What was done, by name: commands, calls, created pods, deleted pods, repeated, throttled, refused, ..."""
        return self._counts.seen()

    def settle(self, timeout_s: float) -> ActuatorSettled:
        """Take no more commands, wait for those on their way, and say what is left.

        What is left after ``timeout_s`` is given up: waits end, and no worker begins anything any more.
        """
        with self._lock:
            self._accepting = False
            self._quiet.wait_for(lambda: not len(self._orders), timeout_s)
            left = [_name(job.command) for job in self._orders.unfinished()]
            self._stopping.set()
            self._ended.set()
            for crew in self._crews():
                crew.ready.notify_all()
        self._complaints.flush()
        settled = ActuatorSettled(len(left), tuple(left[:LEFT_MAX]))
        if left:
            text = f"{len(left)} commands were not carried out: {some(left, LEFT_MAX)}"
            self._say(Level.WARNING, Topic.LEFT_BEHIND, text, commands=len(left))
        return settled

    # workers

    def _crews(self) -> tuple[_Crew, ...]:
        return (self._making, self._doing) if self._one is None else (self._one,)

    def _crew(self, job: QueuedCommand) -> _Crew:
        if self._one is not None:
            return self._one
        return self._making if created(job.command) is not None else self._doing

    def _enqueue(self, job: QueuedCommand) -> None:
        """With the lock held: a job may begin. There are as many workers as there was ever need for."""
        crew = self._crew(job)
        crew.jobs.append(job)
        if crew.idle >= len(crew.jobs) or len(crew.threads) >= crew.most:
            crew.ready.notify()
            return
        name = f"podtide-{crew.name}-{len(crew.threads) + 1}"
        thread = threading.Thread(target=self._work, args=(crew,), name=name, daemon=True)
        try:
            thread.start()
        except (
            RuntimeError
        ):  # no more threads on this machine: those there are do the work; without any, the next tries
            crew.ready.notify()
            return
        crew.threads.append(thread)

    def _work(self, crew: _Crew) -> None:
        while (job := self._next(crew)) is not None:
            outcome = self._carried_out(job.command)
            with self._lock:
                self._orders.close(job)
                serials = tuple(job.serials)
            # Heard before anything that waited for it begins, so that answers come in that order too.
            for serial in serials:
                self._hear(outcome._replace(serial=serial))
            with self._lock:
                for ready in self._orders.finish(job):
                    self._enqueue(ready)
                if not len(self._orders):
                    self._quiet.notify_all()

    def _next(self, crew: _Crew) -> QueuedCommand | None:
        with self._lock:
            while not self._ended.is_set():
                while crew.jobs:
                    job = crew.jobs.popleft()
                    if job.stage is QueueStage.READY:  # not cancelled meanwhile
                        job.stage = QueueStage.RUNNING
                        return job
                crew.idle += 1
                crew.ready.wait()
                crew.idle -= 1
            return None

    def _carried_out(self, command: Called) -> Outcome:
        serial: int = getattr(command, "serial", 0)
        try:
            return self._calls[type(command)](command)
        except (ManifestRefused, CannotBuild) as refusal:
            what = escaped(str(refusal))
            failure = CallFailure(None, what, ManifestRefused.exception_class)
        except Exception as fault:  # a worker that dies would leave the loop waiting for ever
            # Its class alone: nobody knows what its text may hold.
            what = f"a fault of podtide itself, {type(fault).__name__}"
            failure = CallFailure(None, what, "java.lang.IllegalStateException")
        self._counts.add("refused")
        self._say(Level.ERROR, Topic.CALL_REFUSED, f"{_name(command)}: {what}")
        return Outcome(0, serial, failure)

    def _turned(self, waits: Wait) -> Wait:
        """Waits, and does not when the application stops."""

        def wait(seconds: float) -> bool:
            return self._stopping.is_set() or waits(seconds) or self._stopping.is_set()

        return wait

    def _say(self, level: Level, topic: Topic, text: str, **facts: int) -> None:
        self._notify(Notice(self._clock.now(), level, topic, text, tuple(facts.items())))


def _name(command: Called) -> str:
    """A command for people."""
    match command:
        case pod_commands.CreatePod():
            return f"create the pod of executor {command.executor}"
        case pod_commands.CreateClaim():
            return f"create claim {escaped(command.claim.name)}"
        case pod_commands.CreateSet():
            return f"create {command.kind} {escaped(command.name)}"
        case pod_commands.ScaleSet():
            return f"scale {command.kind} {escaped(command.name)}"
        case pod_commands.DeleteSet():
            return f"delete {command.kind} {escaped(command.name)}"
        case pod_commands.CreateConfigMap():
            return "create the config map"
        case pod_commands.DeletePods(executors=None):
            return "delete all executor pods"
        case pod_commands.DeletePods():
            return f"delete {len(command.executors or ())} pods"
        case pod_commands.MarkPods():
            return f"mark {len(command.executors or ())} pods"
        case executor_commands.DecommissionExecutors():
            return f"drain {len(command.executors)} pods"
        case pod_commands.DeletePod():
            return f"delete pod {escaped(command.name)}"
        case pod_commands.MarkInactive():
            return f"mark pod {escaped(command.name)}"
        case pod_commands.DeleteOwned():
            return f"delete the {command.kind}"
        case pod_commands.ListClaims():
            return "list the claims"
        case pod_commands.GetDriverPod() | pod_commands.AwaitDriverReady():
            return f"look at driver pod {escaped(command.name)}"
        case pod_commands.AssignExecutorId() | pod_commands.ResizePod():
            return f"change pod {escaped(command.pod)}"
        case pod_commands.ResizeClaim():
            return f"resize claim {escaped(command.claim)}"
