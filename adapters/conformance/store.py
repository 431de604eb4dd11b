"""Scenarios of the snapshot store: real Spark's ExecutorPodsSnapshotsStoreImpl was driven by them, and so is the core.

A line first lets time pass, running what falls due on the way, then acts (subscribe, update, replace, notify, stop), then
runs what was submitted, unless it says ``hold``. ``during`` says what another thread does while a delivery to a subscriber
is under way, ``throwNext`` what the next one ends with. The answers are the deliveries with whole snapshots, and after every
line the store's state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Final

from podtide.adapters.conformance.manifests import ShapeError, manifest
from podtide.adapters.conformance.scenario_configs import kubernetes_scenario
from podtide.adapters.conformance.scripted import Line, Scripted, played, thrown
from podtide.domain.base.units import Millis
from podtide.domain.jvm.exceptions import ILLEGAL_ARGUMENT, NUMBER_FORMAT, SparkFault
from podtide.domain.kubernetes import snapshots_store as store
from podtide.domain.kubernetes.snapshots_store import StoreCommand, StoreConfig, StoreInput, StoreState
from podtide.domain.protocol.cluster_config import KubernetesConfig
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.executor_commands import StopApplication
from podtide.domain.protocol.executor_stimuli import Wake
from podtide.domain.protocol.pod_commands import Deliver, NotifySubscribers
from podtide.domain.protocol.pod_stimuli import PodsReplaced, PodsUpdated
from podtide.domain.protocol.pods import Pod, PodNumber, Snapshot

FAULTS: Final = {
    "IllegalArgument": SparkFault(ILLEGAL_ARGUMENT, "scripted"),
    "IllegalState": SparkFault("java.lang.IllegalStateException", "scripted"),
    "NumberFormat": SparkFault(NUMBER_FORMAT, "scripted"),
    "fatal": SparkFault("java.lang.LinkageError", "scripted"),
}
"""What a scenario may let a delivery end with; any other word is a plain exception."""

DELIVERIES_MAX: Final = 1_000_000
"""Deliveries of one scenario; a scenario that lets a year pass at a millisecond's interval is a mistake."""
DEPTH_MAX: Final = 50
"""Deliveries within deliveries (another thread's during another thread's)."""


def config(kind: str, header: Line) -> KubernetesConfig:
    """The configuration of a scenario. Raises ShapeError where Spark would refuse the conf."""
    found = kubernetes_scenario(kind, header["conf"], {})
    if isinstance(found, SparkFault):
        raise ShapeError(f"Spark refuses the conf: {found}")
    return found


class _Runner(Scripted):
    """One scenario under way: the clock, the subscribers' script, and what each of them has seen so far."""

    def __init__(self, header: Line) -> None:
        super().__init__(header)
        self.config = StoreConfig(config("store", header).pods)
        self.state: StoreState = store.start()
        self.names: list[str] = []
        self.seen: dict[str, dict[PodNumber, Pod]] = {}
        self.throw_next: dict[str, deque[str]] = {}
        self.during: dict[str, deque[list[Line]]] = {}
        self.exited = False
        self.depth = 0
        self.deliveries = 0

    def step(self, line: Line) -> None:
        if not self.exited and "at" in line:
            self.advance(line["at"])
        if not self.exited:
            for act in line.get("ops", [line]):
                self.act(act)
        if not self.exited and not line.get("hold"):
            self.advance(self.now)
        self.say({"state": self.state_line()})

    def advance(self, until: Millis) -> None:
        while (at := store.due(self.state)) <= until:
            self.now = max(self.now, at)
            self.take(Wake(self.now))
        self.now = max(self.now, until)

    def act(self, act: Line) -> None:
        """What one thread does, up to the first thing that throws."""
        if "subscribe" in act:
            name = act["subscribe"]
            if name in self.names:
                raise ShapeError(f"{name!r:.60} subscribes twice")
            self.names.append(name)
            self.seen[name] = {}
            if self.threw(store.Subscribe(self.now, name, act.get("interval", 1000))):
                return
        for name, what in act.get("throwNext", {}).items():
            self.throw_next.setdefault(name, deque()).append(what)
        for name, acts in act.get("during", {}).items():
            self.during.setdefault(name, deque()).append(acts)
        if "replace" in act:
            pods = tuple(manifest(pod, self.app_id) for pod in act["replace"])
            if self.threw(PodsReplaced(self.now, pods)):
                return
        for pod in act.get("update", ()):
            if self.threw(PodsUpdated(self.now, (manifest(pod, self.app_id),))):
                return
        if act.get("notify") and self.threw(NotifySubscribers(self.now)):
            return
        if act.get("run"):
            self.advance(self.now)
        if act.get("stop"):
            self.take(store.StopStore(self.now))
            self.advance(self.now)  # stop() waits for the runs that were asked for before

    def threw(self, happening: StoreInput) -> bool:
        """Put something to the store; tells whether it threw to its caller."""
        faults = thrown(self.distribute(happening).reports)
        for fault in faults[:1]:
            self.say({"threw": fault.partition(":")[0]})
        return bool(faults)

    def take(self, happening: StoreInput) -> None:
        for command in self.distribute(happening).commands:
            if isinstance(command, Deliver):
                self.deliver(command)
            elif isinstance(command, StopApplication):
                self.exited = True
                self.say({"exit": command.exit_code})

    def distribute(self, happening: StoreInput) -> Step[StoreState, StoreCommand]:
        step = store.distribute(self.state, (happening,), self.config, self.now)
        self.state = step.state
        return step

    def deliver(self, delivery: Deliver) -> None:
        """Play the subscriber's round; another thread may act while it lasts."""
        self.deliveries += 1
        if self.deliveries > DELIVERIES_MAX:
            raise ShapeError(f"more than {DELIVERIES_MAX:,} deliveries")
        name = delivery.subscriber
        depth = {"depth": self.depth} if self.depth else {}
        self.say({"deliver": name, **depth, "snapshots": [self.whole(name, one) for one in delivery.snapshots]})
        if acts := self.during.get(name):
            self.depth += 1
            if self.depth > DEPTH_MAX:
                raise ShapeError(f"more than {DEPTH_MAX} deliveries within one another")
            for act in acts.popleft():
                self.act(act)
            self.depth -= 1
        fault = None
        if words := self.throw_next.get(name):
            word = words.popleft()
            fault = FAULTS.get(word, SparkFault("java.lang.RuntimeException", "scripted"))
            self.say({"throws": word, "by": name})
        self.take(store.Delivered(self.now, name, fault))

    def whole(self, subscriber: str, snapshot: Snapshot) -> Line:
        """The whole snapshot that a subscriber's deltas add up to by now."""
        seen = self.seen[subscriber]
        for number in snapshot.gone:
            del seen[number]
        for pod in snapshot.changed:
            seen[pod.number] = pod
        return snapshot_line(snapshot.full_ts, seen.values())

    def state_line(self) -> Line:
        view = self.state.view
        subscribers = {
            subscriber.name: {
                "queued": len(subscriber.queue),
                "notifications": subscriber.notifications,
                "nextTick": subscriber.due,
            }
            for subscriber in self.state.subscribers
        }
        line: Line = {"current": snapshot_line(view.full_ts, view.pods()), "subs": subscribers}
        line["submitted"] = len(self.state.submitted)
        if self.exited:
            line["exited"] = True
        return line


def snapshot_line(full_ts: Millis, pods: Iterable[Pod]) -> Line:
    """A snapshot as the judge prints it."""
    return {"full": full_ts, "pods": states(pods)}


def states(pods: Iterable[Pod]) -> dict[str, str]:
    """The state of each pod by its number."""
    return {str(pod.number): pod.state.value for pod in pods}


answers: Final = partial(played, _Runner)
"""Everything that Spark would have said to a scenario. Raises ShapeError."""
