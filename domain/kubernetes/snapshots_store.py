"""Who is handed which snapshots, and when: a pure ExecutorPodsSnapshotsStoreImpl.

The store keeps the view of all pods and a queue per subscriber. Every update and every full list queues one snapshot for
everybody, also one that changes nothing. A subscriber's *run* takes whatever is queued, perhaps nothing, and hands it over
as one batch. Runs come from three places: the subscriber's own timer (the first at once, then a fixed delay after the end
of the run before), a notification (everybody's run, now), and a run that found itself overtaken.

A run may take a while: between ``Deliver`` and ``Delivered`` the subscriber is busy. A run that finds it so only counts
itself (Spark's notificationCount) and gives up; the one under way takes its own count back at its end and, if any is left,
asks for one more run. So k notifications during a delivery lead to k further runs, the first of them with everything that
queued up, and a subscriber is never run twice at the same time (spec: snapshots, section 3; quirks 83-88).

What a delivery may end with (``Delivered.threw``):

- an IllegalArgumentException, or one of its subclasses: the application is to stop with exit code 1. In Spark
  ``System.exit`` never returns to the run, while the other thread goes on until the process is gone; so does this store,
  until whoever drives it has obeyed the command.
- a fatal error (not NonFatal): if the timer ran, the timer is dead for good. Its count is never taken back, so the next
  notification is followed by one run too many.
- anything else is logged and forgotten.

One ``Wake`` runs what is due, in order of due time and then of age, until the first delivery; while ``due`` says that more
is due, wake again. Two rounds that should overlap, overlap; two that should not, do not.

A pod or a list that Spark cannot read is lost, and nothing is queued: a ``Threw`` report names what the source ran into.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, NamedTuple, TypeAlias, assert_never

from pyrsistent import PVector, pmap, pvector

from podtide.domain.base.units import NEVER, Millis
from podtide.domain.jvm.exceptions import ILLEGAL_ARGUMENT, NUMBER_FORMAT, REJECTED_EXECUTION, SparkFault
from podtide.domain.kubernetes import snapshots as views
from podtide.domain.kubernetes.snapshots import View
from podtide.domain.protocol.commands import Report, Step
from podtide.domain.protocol.executor_commands import StopApplication
from podtide.domain.protocol.executor_stimuli import Wake
from podtide.domain.protocol.pod_commands import Deliver, NotifySubscribers
from podtide.domain.protocol.pod_stimuli import PodsReplaced, PodsUpdated
from podtide.domain.protocol.pods import PodManifest, PodRules, PodState, Snapshot
from podtide.domain.protocol.reasons import Cause, Remark, Threw, Why

ALLOCATOR: Final = "allocator"
LIFECYCLE: Final = "lifecycle"
"""The two subscribers of Spark: intervals allocation.batch.delay and executor.eventProcessingInterval."""

STORE: Final = "ExecutorPodsSnapshotsStoreImpl"
WATCH: Final = "ExecutorPodsWatchSnapshotSource"
POLLING: Final = "ExecutorPodsPollingSnapshotSource"
SNAPSHOT: Final = "ExecutorPodsSnapshot"

REJECTED: Final = SparkFault(REJECTED_EXECUTION, "shut down")
"""What the pool answers once it was shut down, without the addresses of objects that its own text has."""

ILLEGAL_ARGUMENTS: Final = frozenset(
    {
        ILLEGAL_ARGUMENT,
        NUMBER_FORMAT,
        "java.lang.IllegalThreadStateException",
        "java.nio.charset.IllegalCharsetNameException",
        "java.nio.charset.UnsupportedCharsetException",
        "java.nio.file.InvalidPathException",
        "java.util.IllegalFormatException",
        "java.util.regex.PatternSyntaxException",
        "org.apache.spark.SparkIllegalArgumentException",
        "org.apache.spark.SparkNumberFormatException",
    }
)
"""IllegalArgumentException and those of its subclasses that a round could meet."""

FATAL: Final = frozenset(
    {
        "java.lang.InternalError",
        "java.lang.InterruptedException",
        "java.lang.LinkageError",
        "java.lang.ExceptionInInitializerError",
        "java.lang.NoClassDefFoundError",
        "java.lang.NoSuchFieldError",
        "java.lang.NoSuchMethodError",
        "java.lang.OutOfMemoryError",
        "java.lang.StackOverflowError",
        "java.lang.ThreadDeath",
        "java.lang.UnsatisfiedLinkError",
        "java.lang.VirtualMachineError",
    }
)
"""What Scala's NonFatal lets through."""


class StoreConfig(NamedTuple):
    """How pods are read, and whether to report what only Spark's log says."""

    rules: PodRules = PodRules()
    remarks: bool = False


class Subscribe(NamedTuple):
    """addSubscriber: from now on, hand snapshots to this one, every ``interval_ms`` (at least 1). Names are unique."""

    at: Millis
    subscriber: str
    interval_ms: Millis


class Delivered(NamedTuple):
    """A subscriber's delivery has ended. ``threw``: with what, if it did not end well."""

    at: Millis
    subscriber: str
    threw: SparkFault | None = None


class StopStore(NamedTuple):
    """stop(): no timers from now on; runs that were asked for before still happen."""

    at: Millis


StoreInput: TypeAlias = Subscribe | PodsUpdated | PodsReplaced | NotifySubscribers | Wake | Delivered | StopStore
StoreCommand: TypeAlias = Deliver | StopApplication


class RunOrigin(Enum):
    """Where a run comes from."""

    TIMER = "timer"
    NOTIFIED = "notified"
    OVERTAKEN = "overtaken"


class Submitted(NamedTuple):
    """A run that was asked for. ``order``: its age, which decides between runs due at the same time."""

    due: Millis
    order: int
    subscriber: str
    run: RunOrigin


@dataclass(frozen=True, slots=True)
class Subscriber:
    """One subscriber. ``due``: its timer's next run, None while that is under way and when there is none any more.

    ``notifications``: Spark's notificationCount. ``busy``: the run whose delivery has not ended.
    """

    name: str
    interval_ms: Millis
    order: int
    due: Millis | None
    queue: PVector[Snapshot] = field(default_factory=pvector)
    notifications: int = 0
    busy: RunOrigin | None = None


@dataclass(frozen=True, slots=True)
class StoreState:
    """The store at a moment. ``subscribers`` in the order in which they came; ``next_order`` numbers timers and runs."""

    view: View
    subscribers: tuple[Subscriber, ...] = ()
    submitted: tuple[Submitted, ...] = ()
    next_order: int = 0
    stopped: bool = False

    def subscriber(self, name: str) -> Subscriber | None:
        """The subscriber of that name."""
        return next((s for s in self.subscribers if s.name == name), None)


def start() -> StoreState:
    """A store that has seen nothing and serves nobody."""
    return StoreState(views.empty())


def due(state: StoreState) -> Millis:
    """When the store next needs a ``Wake``; NEVER if it waits for something else."""
    times = [run.due for run in state.submitted]
    times += [subscriber.due for subscriber in state.subscribers if subscriber.due is not None]
    return min(times, default=NEVER)


def distribute(
    state: StoreState, snapshots: Sequence[StoreInput], config: StoreConfig, now: Millis
) -> Step[StoreState, StoreCommand]:
    """Take what happened, in order, and hand out what is due. Never raises on well-typed input.

    Each input takes effect at ``now``. Only a ``Wake`` runs subscribers, up to the first that gets a delivery.
    """
    folding = _Folding(state, config, now)
    for happening in snapshots:
        folding.take(happening)
    return folding.step()


class _Folding:
    """One step under way: the state's parts, to be changed in place."""

    def __init__(self, state: StoreState, config: StoreConfig, now: Millis) -> None:
        self.config = config
        self.now = now
        self.view = state.view
        self.subscribers = {subscriber.name: subscriber for subscriber in state.subscribers}
        self.submitted = list(state.submitted)
        self.next_order = state.next_order
        self.stopped = state.stopped
        self.fresh: list[Snapshot] = []
        self.commands: list[StoreCommand] = []
        self.reports: list[Report] = []

    def take(self, happening: StoreInput) -> None:
        match happening:
            case PodsUpdated():
                for pod in happening.pods:
                    self.update(pod)
            case PodsReplaced():
                self.replace(happening.pods)
            case NotifySubscribers():
                self.notify()
            case Wake():
                self.wake()
            case Delivered():
                self.delivered(happening)
            case Subscribe():
                self.subscribe(happening)
            case StopStore():
                self.stop()
            case _:
                assert_never(happening)

    def step(self) -> Step[StoreState, StoreCommand]:
        self.queue()
        state = StoreState(
            self.view, tuple(self.subscribers.values()), tuple(self.submitted), self.next_order, self.stopped
        )
        return Step(state, tuple(self.commands), tuple(self.reports))

    # seen of the cluster

    def update(self, manifest: PodManifest) -> None:
        self.remark_phases((manifest,))
        taken = views.update(self.view, manifest, self.config.rules)
        if isinstance(taken, SparkFault):
            self.threw(WATCH, taken)
            return
        self.view = taken.view
        self.fresh.append(taken.snapshot)

    def replace(self, manifests: tuple[PodManifest, ...]) -> None:
        taken = views.replace(self.view, manifests, self.config.rules, self.now)
        self.remark_phases(manifests)
        if isinstance(taken, SparkFault):
            self.threw(POLLING, taken)
            return
        self.view = taken.view
        self.fresh.append(taken.snapshot)

    def queue(self) -> None:
        """Give everybody the snapshots that came since the last time."""
        if not self.fresh:
            return
        for name, subscriber in self.subscribers.items():
            self.subscribers[name] = replace(subscriber, queue=subscriber.queue.extend(self.fresh))
        self.fresh = []

    # who wants to know

    def subscribe(self, subscription: Subscribe) -> None:
        if subscription.subscriber in self.subscribers:
            return
        self.queue()
        # In Spark a subscriber is in the list by the time that a pool which was shut down refuses its timer.
        self.subscribers[subscription.subscriber] = Subscriber(
            subscription.subscriber,
            max(1, subscription.interval_ms),
            self.order(),
            None if self.stopped else self.now,
            pvector((self.view.whole(),)),
        )
        if self.stopped:
            self.threw(STORE, REJECTED)

    def notify(self) -> None:
        if self.stopped and self.subscribers:
            self.threw(STORE, REJECTED)
            return
        self.submitted += [Submitted(self.now, self.order(), name, RunOrigin.NOTIFIED) for name in self.subscribers]

    def stop(self) -> None:
        self.stopped = True
        for name, subscriber in self.subscribers.items():
            self.subscribers[name] = replace(subscriber, due=None)

    # runs

    def wake(self) -> None:
        self.queue()
        while (run := self.next_run()) is not None:
            if self.run(run):
                return

    def next_run(self) -> Submitted | None:
        """Take the earliest run that is due off the schedule, the oldest of equals."""
        timers = (
            Submitted(s.due, s.order, s.name, RunOrigin.TIMER) for s in self.subscribers.values() if s.due is not None
        )
        ready = [run for run in (*timers, *self.submitted) if run.due <= self.now]
        if not ready:
            return None
        first = min(ready, key=lambda run: (run.due, run.order))
        if first.run is RunOrigin.TIMER:
            self.subscribers[first.subscriber] = replace(self.subscribers[first.subscriber], due=None)
        else:
            self.submitted.remove(first)
        return first

    def run(self, run: Submitted) -> bool:
        """Carry a run out; tells whether it hands something over."""
        subscriber = self.subscribers[run.subscriber]
        counts = 0 if run.run is RunOrigin.OVERTAKEN else 1
        subscriber = replace(subscriber, notifications=subscriber.notifications + counts)
        delivers = subscriber.busy is None and subscriber.notifications > 0
        if delivers:
            self.commands.append(Deliver(self.now, subscriber.name, tuple(subscriber.queue)))
            subscriber = replace(subscriber, queue=pvector(), busy=run.run)
        elif run.run is RunOrigin.TIMER:
            subscriber = self.rescheduled(subscriber)
        self.subscribers[run.subscriber] = subscriber
        return delivers

    def delivered(self, end: Delivered) -> None:
        subscriber = self.subscribers.get(end.subscriber)
        if subscriber is None or subscriber.busy is None:
            return
        run = subscriber.busy
        subscriber = replace(subscriber, busy=None)
        if end.threw is not None and end.threw.exception_class in ILLEGAL_ARGUMENTS:
            facts = pmap({"subscriber": subscriber.name, "threw": str(end.threw)})
            self.commands.append(StopApplication(self.now, 1, Why(Cause.ILLEGAL_ARGUMENT, facts)))
        elif end.threw is None or end.threw.exception_class not in FATAL:
            subscriber = replace(subscriber, notifications=subscriber.notifications - 1)
            if subscriber.notifications > 0 and not self.stopped:
                self.submitted.append(Submitted(self.now, self.order(), subscriber.name, RunOrigin.OVERTAKEN))
            if run is RunOrigin.TIMER:
                subscriber = self.rescheduled(subscriber)
        self.subscribers[subscriber.name] = subscriber

    def rescheduled(self, subscriber: Subscriber) -> Subscriber:
        """The timer's next run, a fixed delay after the end of the last."""
        return subscriber if self.stopped else replace(subscriber, due=self.now + subscriber.interval_ms)

    # words

    def order(self) -> int:
        self.next_order += 1
        return self.next_order - 1

    def threw(self, machine: str, fault: SparkFault) -> None:
        self.reports.append(Threw(self.now, machine, str(fault)))

    def remark_phases(self, manifests: tuple[PodManifest, ...]) -> None:
        """Say which phases Spark warns of, at every reading, up to the pod that it cannot read."""
        if not self.config.remarks:
            return
        for manifest in manifests:
            pod = views.read(manifest, self.config.rules)
            if isinstance(pod, SparkFault):
                return
            if pod is not None and pod.state is PodState.UNKNOWN:
                facts = {"phase": (manifest.phase or "").lower(), "pod": manifest.name}
                facts["namespace"] = manifest.namespace
                self.reports.append(Remark(self.now, SNAPSHOT, "unknown phase", pmap(facts)))
