"""A cluster's description from what was seen of it: latencies, failures and refusals, each with how much it rests on.

What entered and left the driver, in order, is all that there is to go by: commands, their outcomes, the pods as watch
and lists showed them, executors that registered. From that the life of each executor is put together, and every
stretch of it becomes a sample of its stage; distributions are the samples' own quantiles, so nothing is assumed of
their form. What cannot be seen stays at its default and is named with 0 observations:

- A stretch counts from sight to sight, as the watch showed it. Lists are coarser, and count only where there was no watch.
- Pull and start cannot be told apart: ``pull`` and ``pulled`` hold both and ``start`` is 0. The first pod seen on a node
  pulled its image; those that came once a pod ran there found it; those in between waited for it and count for neither.
- What happened before an executor registered makes ``crash``, by weight against ``register``; what happened afterwards makes
  ``fails`` and ``evicted``, by the executor-hours seen. An executor that was told to go did not fail.
- Calls and the quota are read in ``fakes.kubernetes.fit_api``; nodes, how large they are, how late they come and how often
  they are lost, in ``fakes.kubernetes.fit_nodes``.

Distributions of few samples are taken for log-normal: what few samples cannot show is how long it may take.

Memory is bounded by the executors seen and by ``SAMPLES_MAX`` for each distribution.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from podtide.domain.base.randomness import HOUR_MS, Constant
from podtide.domain.base.units import Millis
from podtide.domain.fakes.fitting import DurationSample, Evidence, Fitted, share
from podtide.domain.fakes.kubernetes.description import KIND, STAGES, Description, Life, PodStage
from podtide.domain.fakes.kubernetes.fit_api import CallSightings
from podtide.domain.fakes.kubernetes.fit_nodes import NodeSightings
from podtide.domain.fakes.kubernetes.rows import Call
from podtide.domain.jvm.instants import parse_instant
from podtide.domain.protocol import executor_commands, executor_stimuli, pod_commands, pod_stimuli
from podtide.domain.protocol.pods import EXECUTOR_LABEL, SPARK_CONTAINER, TERMINATED, UNNAMED_EXECUTOR, PodManifest
from podtide.domain.protocol.reasons import Cause

Observation: TypeAlias = pod_stimuli.PodStimulus | pod_commands.PodCommand
"""What a recording shows, each with the time at which the driver heard or said it."""

_VERSIONS_KEPT: Final = 15
_WAITED_MS: Final[Millis] = 10_000
_LIST_LAG_MS: Final[Millis] = 60_000
"""A list may be as old as that."""


UNSEEN: Final = (
    ("nodes.scan", "arrives is counted from there"),
    ("nodes.orphaned", ""),
    ("executors.cpu", "room is counted in pods of the default size"),
    ("executors.memory", ""),
    ("executors.grace", ""),
    ("executors.rpc", "it is part of register"),
    ("executors.silence", ""),
    ("stages.hangs", "executors that hang, images that cannot be pulled"),
    ("stages.stick", "pods that do not go"),
    ("stages.unnamed", "Spark's time-out"),
    ("stages.unanswered", "Spark's time-out"),
    ("stages.give-up", ""),
    ("api.retries", "what the client repeated is part of latency"),
    ("api.timeout", ""),
    ("api.stale", ""),
    ("watch.loss", ""),
    ("watch.breaks-per-hour", ""),
    ("driver.ready", ""),
    ("controllers", ""),
)
"""What no recording shows: keys of a cluster file, and remarks."""


@dataclass(slots=True)
class _Stretch:
    """Samples of one stretch of life, as the watch saw it and as lists did."""

    watched: DurationSample = field(default_factory=DurationSample)
    listed: DurationSample = field(default_factory=DurationSample)

    def add(self, ms: Millis, by_watch: bool) -> None:
        (self.watched if by_watch else self.listed).add(ms)

    def best(self) -> tuple[DurationSample, str]:
        if self.watched.count or not self.listed.count:
            return self.watched, ""
        return self.listed, "from lists, coarse"


@dataclass(slots=True)
class _Seen:
    """One executor, as far as it was seen."""

    created_at: Millis | None = None
    first_at: Millis | None = None
    node: str | None = None
    node_at: Millis | None = None
    running_at: Millis | None = None
    registered_at: Millis | None = None
    notice_at: Millis | None = None
    drain_notice: bool = False
    version: str = ""
    dismissed: bool = False  # the driver asked for its deletion
    deleting_at: Millis | None = None
    deleted_version: str = ""
    ended_at: Millis | None = None
    watched: bool = True
    image: str = "pull"
    versions: tuple[int, ...] = ()


class _Fitter:
    """Reads observations one by one and keeps what the description needs."""

    def __init__(self) -> None:
        self.watch_delay = DurationSample()
        self.schedule, self.pull, self.pulled, self.register = _Stretch(), _Stretch(), _Stretch(), _Stretch()
        self.crash, self.exit, self.drain, self.terminate = _Stretch(), _Stretch(), _Stretch(), _Stretch()
        self.crash_codes: Counter[int] = Counter()
        self.fail_codes: Counter[int] = Counter()
        self.evictions = 0
        self.registered = 0
        self.executor_ms = 0
        self.watch_events = self.duplicates = self.reordered = 0
        self.decommission = False
        self.now: Millis = 0
        self.executors: dict[str, _Seen] = {}
        self.alive: dict[str, _Seen] = {}
        self.sightings = NodeSightings()
        self.calls = CallSightings()
        self.with_image: set[str] = set()

    def take(self, seen: Observation) -> None:
        self.now = max(self.now, seen.at)
        self.sightings.pass_to(self.now)
        match seen:
            case pod_stimuli.PodsUpdated(at, pods):
                for manifest in pods:
                    self._watched(manifest, at)
            case pod_stimuli.PodsReplaced(at, pods):
                self._listed(pods, at)
            case pod_stimuli.Outcome():
                self._answered(seen)
            case executor_stimuli.RegisterExecutor():
                self._registered(str(seen.executor), seen.at)
            case executor_stimuli.DecommissionRequested():
                self.decommission = self.decommission or seen.triggered_by_executor
                if seen.triggered_by_executor:
                    for executor in seen.executors:
                        self._note_leave(str(executor), seen.at, True)
            case executor_commands.RemoveExecutor():
                if seen.why.cause not in _GONE:
                    self._note_leave(str(seen.executor), seen.at, False)
                    self._dismiss(str(seen.executor))
            case executor_commands.DecommissionExecutors():
                if seen.notify_executors:
                    for executor in seen.executors:
                        self._note_leave(str(executor), seen.at, True)
                        self._dismiss(str(executor))
            case executor_commands.StopSource() | pod_commands.AwaitDriverReady():
                pass
            case _:
                if isinstance(seen, Call):
                    self._asked(seen)

    # calls

    def _asked(self, call: Call) -> None:
        self.calls.ask(call)
        if isinstance(call, pod_commands.DeletePod):
            self._dismiss(str(call.executor))
        elif isinstance(call, pod_commands.DeletePods):
            for executor in self.alive if call.executors is None else call.executors:
                self._dismiss(str(executor))

    def _answered(self, outcome: pod_stimuli.Outcome) -> None:
        exchange = self.calls.answer(outcome, len(self.alive))
        if exchange is None or outcome.failure is not None:
            return
        call = exchange.command
        if isinstance(call, pod_commands.ListPods):
            self._listed(outcome.pods, outcome.at)
        elif isinstance(call, pod_commands.CreatePod):
            # The pod was there when the call was half over.
            seen = self._executor(str(call.executor))
            self._there(str(call.executor), seen)
            seen.created_at = exchange.began + (outcome.at - exchange.began) // 2
            if seen.first_at is not None and seen.watched:
                self.watch_delay.add(seen.first_at - seen.created_at)

    # executors

    def was_seen(self, executor: str) -> bool:
        """Whether its pod was seen."""
        seen = self.executors.get(executor)
        return seen is not None and seen.first_at is not None

    def _executor(self, executor: str) -> _Seen:
        return self.executors.setdefault(executor, _Seen())

    def _there(self, executor: str, seen: _Seen) -> None:
        """A pod exists, and has not ended as far as is known."""
        if executor not in self.alive and seen.ended_at is None:
            self.alive[executor] = seen

    def _registered(self, executor: str, at: Millis) -> None:
        seen = self._executor(executor)
        if seen.registered_at is None:
            seen.registered_at = at
            self.registered += 1
            if seen.running_at is not None:
                self.register.add(at - seen.running_at, seen.watched)

    def _note_leave(self, executor: str, at: Millis, drain: bool) -> None:
        seen = self.executors.get(executor)
        if seen is not None and seen.notice_at is None:
            seen.notice_at, seen.drain_notice = at, drain

    def _dismiss(self, executor: str) -> None:
        """The driver lets it go: its end is no fault."""
        seen = self.executors.get(executor)
        if seen is not None:
            seen.dismissed = True

    def _watched(self, manifest: PodManifest, at: Millis) -> None:
        self.watch_events += 1
        seen = self._see(manifest, at, True)
        if seen is not None and manifest.version.isdecimal() and len(manifest.version) < 20:
            version = int(manifest.version)
            if version in seen.versions:
                self.duplicates += 1
            elif version < max(seen.versions, default=0):
                self.reordered += 1
            seen.versions = (*seen.versions[-_VERSIONS_KEPT:], version)

    def _listed(self, pods: Iterable[PodManifest], at: Millis) -> None:
        """All pods that there are. Who was seen long before and is not among them is gone."""
        names = set()
        for manifest in pods:
            names.add(manifest.labels.get(EXECUTOR_LABEL))
            self._see(manifest, at, False)
        for executor, seen in list(self.alive.items()):
            if executor not in names and seen.first_at is not None and at - seen.first_at > _LIST_LAG_MS:
                self._over(executor, seen, at)

    def _see(self, manifest: PodManifest, at: Millis, by_watch: bool) -> _Seen | None:
        executor = manifest.labels.get(EXECUTOR_LABEL)
        if executor is None or executor == UNNAMED_EXECUTOR:
            return None
        seen = self._executor(executor)
        if seen.ended_at is not None:
            return seen
        self._there(executor, seen)
        if seen.first_at is None:
            seen.first_at, seen.watched, seen.version = at, by_watch, manifest.version
            if by_watch and seen.created_at is not None:
                self.watch_delay.add(at - seen.created_at)
        if seen.node_at is None:
            self._place(executor, seen, manifest, at, by_watch)
        if seen.running_at is None and manifest.phase == "Running":
            seen.running_at = at
            since = seen.node_at if seen.node_at is not None else seen.first_at
            if seen.image:
                (self.pull if seen.image == "pull" else self.pulled).add(at - since, seen.watched)
            if seen.node is not None:
                self.with_image.add(seen.node)
        if manifest.deleted_at is not None and seen.deleting_at is None:
            seen.deleting_at, seen.deleted_version = at, manifest.version
            if seen.node is not None and not seen.dismissed:
                ends = parse_instant(manifest.deleted_at)
                self.sightings.taken(seen.node, at, None if ends is None else max(0, ends - at))
        code = _exit_code(manifest)
        if manifest.phase in {"Failed", "Succeeded"} or code is not None:
            self._ended(executor, seen, manifest, code, at)
        elif manifest.deleted_at is not None and (seen.node is None or manifest.version != seen.deleted_version):
            self._over(executor, seen, at)  # it never ran: nothing more is seen of it than that it goes
        return seen

    def _place(self, executor: str, seen: _Seen, manifest: PodManifest, at: Millis, by_watch: bool) -> None:
        """Whether a pod that was on no node is on one now, or was found unschedulable."""
        assert seen.first_at is not None
        if manifest.node is not None:
            self._bound(executor, seen, manifest.node, at)
        elif manifest.phase == "Pending" and manifest.deleted_at is None:
            if by_watch and manifest.version != seen.version:
                self.sightings.change(executor, at)
            elif at - seen.first_at >= _WAITED_MS:
                self.sightings.waits(executor, seen.first_at)

    def _bound(self, executor: str, seen: _Seen, node: str, at: Millis) -> None:
        assert seen.first_at is not None
        seen.node, seen.node_at = node, at
        if node in self.with_image:
            seen.image = "pulled"
        elif node in self.sightings.nodes:
            seen.image = ""  # it waits for the pull that another pod began
        waited = at - seen.first_at
        if executor not in self.sightings.waiting:
            if waited >= _WAITED_MS:
                self.sightings.waits(executor, seen.first_at)
            elif waited > 0:
                self.schedule.add(waited, seen.watched)
        self.sightings.binds(executor, node, at)

    def _over(self, executor: str, seen: _Seen, at: Millis) -> None:
        """A pod is gone, or ended: it takes no room any more."""
        seen.ended_at = at
        self.sightings.leaves(executor, seen.node, at)
        self.alive.pop(executor, None)
        if seen.registered_at is not None:
            self.executor_ms += at - seen.registered_at

    def _ended(self, executor: str, seen: _Seen, manifest: PodManifest, code: int | None, at: Millis) -> None:
        if seen.deleting_at is not None:
            self.terminate.add(at - seen.deleting_at, seen.watched)
        elif seen.notice_at is not None:
            (self.drain if seen.drain_notice else self.exit).add(at - seen.notice_at, seen.watched)
        elif manifest.reason == "Evicted":
            self.evictions += 1
        elif code is None and manifest.phase == "Failed" and seen.node is not None:
            # No container of it ended: the pod was collected because its node is gone.
            self.sightings.taken(seen.node, at, None)
        elif seen.registered_at is not None:
            if manifest.phase != "Succeeded" and code != 0:
                self.fail_codes[_plain_code(code)] += 1
        elif manifest.phase != "Succeeded" and code != 0:
            self.crash_codes[_plain_code(code)] += 1
            if seen.running_at is not None:
                self.crash.add(at - seen.running_at, seen.watched)
        self._over(executor, seen, at)

    def finish(self) -> None:
        """Count the hours of those that still run."""
        self.evictions += self.sightings.strays
        for seen in self.alive.values():
            if seen.registered_at is not None:
                self.executor_ms += self.now - seen.registered_at


_GONE: Final = frozenset(
    {Cause.POD_FAILED, Cause.POD_SUCCEEDED, Cause.POD_DELETED, Cause.POD_MISSING, Cause.DISCONNECTED, Cause.EXITED,
     Cause.HEARTBEAT_TIMEOUT}
)  # fmt: skip
"""Why the driver removes an executor that is gone already, or not heard from: it did not want that."""


def _exit_code(manifest: PodManifest) -> int | None:
    for container in manifest.containers:
        if container.name == SPARK_CONTAINER or len(manifest.containers) == 1:
            state = container.state
            if state is not None and state.kind == TERMINATED:
                return state.exit_code
    return None


def _plain_code(code: int | None) -> int:
    return code if code is not None and 0 <= code <= 255 else 1


def fit(observations: Iterable[Observation]) -> Fitted[Description]:
    """The cluster that these observations, in order, show; and for each of its numbers how many it rests on."""
    fitter = _Fitter()
    for observation in observations:
        fitter.take(observation)
    fitter.finish()
    evidence: list[Evidence] = []
    stages = _stages(fitter, evidence)
    executors = replace(KIND.executors, stages=stages, decommission=fitter.decommission)
    description = replace(KIND, executors=executors)
    groups = fitter.sightings.groups(fitter.now, evidence)
    description = replace(description, groups=groups, api=fitter.calls.api(fitter.was_seen, evidence))
    watch = KIND.watch
    if fitter.watch_delay.count:
        watch = replace(watch, delay=fitter.watch_delay.delay())
    evidence.append(Evidence("watch.delay", fitter.watch_delay.count))
    if fitter.watch_events:
        watch = replace(
            watch,
            duplicates=share(fitter.duplicates, fitter.watch_events),
            reordered=share(fitter.reordered, fitter.watch_events),
        )
    evidence.append(Evidence("watch.duplicates", fitter.duplicates, f"of {fitter.watch_events} events"))
    evidence.append(Evidence("watch.reordered", fitter.reordered, f"of {fitter.watch_events} events"))
    evidence += [Evidence(key, 0, note) for key, note in UNSEEN]
    return Fitted(replace(description, watch=watch), tuple(evidence))


def _stages(fitter: _Fitter, evidence: list[Evidence]) -> tuple[PodStage, ...]:
    stages = {stage.name: stage for stage in STAGES}
    stretches = {
        "schedule": fitter.schedule, "pull": fitter.pull, "pulled": fitter.pulled, "register": fitter.register,
        "exit": fitter.exit, "drain": fitter.drain, "terminate": fitter.terminate,
    }  # fmt: skip
    for name, stretch in stretches.items():
        sample, note = stretch.best()
        if sample.count:
            stages[name] = replace(stages[name], delay=sample.delay())
        evidence.append(Evidence(f"stages.{name}", sample.count, note))
    if fitter.pull.best()[0].count or fitter.pulled.best()[0].count:
        stages["start"] = replace(stages["start"], delay=Constant(0))
        evidence.append(Evidence("stages.start", 0, "it is part of pull and pulled"))
    crashed = fitter.crash_codes.total()
    if crashed:
        sample, note = fitter.crash.best()
        delay = sample.delay() if sample.count else Constant(0)
        weight = max(1e-6, round(crashed / max(1, fitter.registered), 6))
        stages["crash"] = PodStage(
            "crash", Life.RUNNING, Life.FAILED, delay, weight=weight, exits=_exits(fitter.crash_codes)
        )
        evidence.append(Evidence("stages.crash", crashed, f"against {fitter.registered} that registered"))
    for name, count, life, codes in (
        ("fails", fitter.fail_codes.total(), Life.FAILED, fitter.fail_codes),
        ("evicted", fitter.evictions, Life.EVICTED, Counter[int]()),
    ):
        hours = fitter.executor_ms / HOUR_MS
        if count and hours:
            rate = min(float(HOUR_MS), max(1e-6, round(count / hours, 6)))
            stages[name] = PodStage(name, Life.REGISTERED, life, per_hour=rate, exits=_exits(codes))
            evidence.append(Evidence(f"stages.{name}", count, f"in {hours:.2f} executor-hours"))
    return tuple(stages.values())


def _exits(codes: Counter[int]) -> tuple[tuple[int, float], ...]:
    return tuple((code, float(count)) for code, count in sorted(codes.items()))
