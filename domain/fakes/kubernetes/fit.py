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
- Refusals are shares of the calls of their kind. A quota is no fault: its limit is read from its message. An answer
  that never came was lost if the pod was seen all the same, else the request was.
- Room matters only where a pod was seen waiting for it: then there are as many nodes as were seen to hold pods at
  once, each with room for the most that any held: the least that can be.

Memory is bounded by the executors seen and by ``SAMPLES_MAX`` for each distribution.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from podtide.domain.base.randomness import HOUR_MS, Constant
from podtide.domain.base.units import Millis
from podtide.domain.fakes.fitting import DurationSample, Evidence, Fitted, share
from podtide.domain.fakes.kubernetes.api_errors import request
from podtide.domain.fakes.kubernetes.api_server import lane
from podtide.domain.fakes.kubernetes.description import (
    KIND,
    STAGES,
    Api,
    Description,
    Fault,
    Life,
    Lost,
    NodeGroup,
    PodStage,
    Verb,
)
from podtide.domain.fakes.kubernetes.rows import Call
from podtide.domain.protocol import executor_commands, executor_stimuli, pod_commands, pod_stimuli
from podtide.domain.protocol.pods import EXECUTOR_LABEL, SPARK_CONTAINER, TERMINATED, UNNAMED_EXECUTOR, PodManifest

Observation: TypeAlias = pod_stimuli.PodStimulus | pod_commands.PodCommand
"""What a recording shows, each with the time at which the driver heard or said it."""

_VERSIONS_KEPT: Final = 15
_WAITED_MS: Final[Millis] = 10_000
_LIMITED: Final = re.compile(r"exceeded quota: .{0,200}?limited: pods=([0-9]{1,9})")


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
    deleting_at: Millis | None = None
    ended_at: Millis | None = None
    watched: bool = True
    image: str = "pull"
    versions: tuple[int, ...] = ()


class _Fitter:
    """Reads observations one by one and keeps what the description needs."""

    def __init__(self) -> None:
        self.latency = DurationSample()
        self.watch_delay = DurationSample()
        self.schedule, self.pull, self.pulled, self.register = _Stretch(), _Stretch(), _Stretch(), _Stretch()
        self.crash, self.exit, self.drain, self.terminate = _Stretch(), _Stretch(), _Stretch(), _Stretch()
        self.crash_codes: Counter[int] = Counter()
        self.fail_codes: Counter[int] = Counter()
        self.evictions = 0
        self.registered = 0
        self.executor_ms = 0
        self.calls: Counter[tuple[Verb, str]] = Counter()
        self.refused: Counter[tuple[Verb, str, int]] = Counter()
        self.retry_after: dict[tuple[Verb, str, int], DurationSample] = {}
        self.unanswered: Counter[tuple[Verb, str]] = Counter()
        self.create_unanswered: list[str] = []
        self.quota: tuple[int, int] | None = None
        self.watch_events = self.duplicates = self.reordered = 0
        self.decommission = False
        self.waited = 0
        self.now: Millis = 0
        self.executors: dict[str, _Seen] = {}
        self.aboard: Counter[str] = Counter()
        self.most_aboard: Counter[str] = Counter()
        self.with_image: set[str] = set()
        self.nodes = self.most_nodes = 0
        self._open: dict[int, Call] = {}
        self._lanes: dict[int, Millis] = {}

    def take(self, seen: Observation) -> None:
        self.now = max(self.now, seen.at)
        match seen:
            case pod_stimuli.PodsUpdated(at, pods):
                for manifest in pods:
                    self._watched(manifest, at)
            case pod_stimuli.PodsReplaced(at, pods):
                for manifest in pods:
                    self._see(manifest, at, False)
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
                self._note_leave(str(seen.executor), seen.at, False)
            case executor_commands.DecommissionExecutors():
                if seen.notify_executors:
                    for executor in seen.executors:
                        self._note_leave(str(executor), seen.at, True)
            case executor_commands.StopSource() | pod_commands.AwaitDriverReady():
                pass
            case _:
                if isinstance(seen, Call):
                    self._open[seen.serial] = seen

    # calls

    def _answered(self, outcome: pod_stimuli.Outcome) -> None:
        call = self._open.pop(outcome.serial, None)
        if call is None:
            return
        kind = request(call)
        self.calls[kind] += 1
        # A call that stood behind another of its thread left when that one came back.
        began = max(call.at, self._lanes.get(lane(call), call.at))
        self._lanes[lane(call)] = outcome.at
        for manifest in outcome.pods:
            self._see(manifest, outcome.at, False)
        failure = outcome.failure
        if failure is None:
            self.latency.add(outcome.at - began)
            if isinstance(call, pod_commands.CreatePod):
                # The pod was there when the call was half over.
                seen = self._executor(str(call.executor))
                seen.created_at = began + (outcome.at - began) // 2
                if seen.first_at is not None and seen.watched:
                    self.watch_delay.add(seen.first_at - seen.created_at)
        else:
            self._failed(call, kind, failure)

    def _failed(self, call: Call, kind: tuple[Verb, str], failure: pod_stimuli.CallFailure) -> None:
        if failure.status is None:
            self.unanswered[kind] += 1
            if isinstance(call, pod_commands.CreatePod):
                self.create_unanswered.append(str(call.executor))
            return
        limited = _LIMITED.search(failure.message[:2_000]) if failure.status == 403 else None
        if limited is not None:
            self.quota = (int(limited[1]), 1 + (self.quota[1] if self.quota is not None else 0))
        elif (
            400 <= failure.status <= 599
            and failure.status != 404
            and not (failure.status == 409 and "already exists" in failure.message)
        ):
            self.refused[(*kind, failure.status)] += 1
            if failure.retry_after_ms is not None:
                self.retry_after.setdefault((*kind, failure.status), DurationSample()).add(failure.retry_after_ms)

    # executors

    def _executor(self, executor: str) -> _Seen:
        return self.executors.setdefault(executor, _Seen())

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

    def _see(self, manifest: PodManifest, at: Millis, by_watch: bool) -> _Seen | None:
        executor = manifest.labels.get(EXECUTOR_LABEL)
        if executor is None or executor == UNNAMED_EXECUTOR:
            return None
        seen = self._executor(executor)
        if seen.first_at is None:
            seen.first_at, seen.watched = at, by_watch
            if by_watch and seen.created_at is not None:
                self.watch_delay.add(at - seen.created_at)
        if seen.ended_at is not None:
            return seen
        if seen.node_at is None and manifest.node is not None:
            self._bound(seen, manifest.node, at)
        if seen.running_at is None and manifest.phase == "Running":
            seen.running_at = at
            since = seen.node_at if seen.node_at is not None else seen.first_at
            if seen.image:
                (self.pull if seen.image == "pull" else self.pulled).add(at - since, seen.watched)
            if seen.node is not None:
                self.with_image.add(seen.node)
        if seen.deleting_at is None and manifest.deleted_at is not None:
            seen.deleting_at = at
        code = _exit_code(manifest)
        if manifest.phase in {"Failed", "Succeeded"} or code is not None:
            self._ended(seen, manifest, code, at)
        return seen

    def _bound(self, seen: _Seen, node: str, at: Millis) -> None:
        assert seen.first_at is not None
        seen.node, seen.node_at = node, at
        if node in self.with_image:
            seen.image = "pulled"
        elif node in self.most_aboard:
            seen.image = ""  # it waits for the pull that another pod began
        self.nodes += not self.aboard[node]
        self.most_nodes = max(self.most_nodes, self.nodes)
        self.aboard[node] += 1
        self.most_aboard[node] = max(self.most_aboard[node], self.aboard[node])
        waited = at - seen.first_at
        if waited >= _WAITED_MS:
            self.waited += 1
        elif waited > 0:
            self.schedule.add(waited, seen.watched)

    def _ended(self, seen: _Seen, manifest: PodManifest, code: int | None, at: Millis) -> None:
        seen.ended_at = at
        if seen.node is not None:
            self.aboard[seen.node] -= 1
            self.nodes -= not self.aboard[seen.node]
        if seen.registered_at is not None:
            self.executor_ms += at - seen.registered_at
        if seen.deleting_at is not None:
            self.terminate.add(at - seen.deleting_at, seen.watched)
        elif seen.notice_at is not None:
            (self.drain if seen.drain_notice else self.exit).add(at - seen.notice_at, seen.watched)
        elif manifest.reason == "Evicted":
            self.evictions += 1
        elif seen.registered_at is not None:
            if manifest.phase != "Succeeded" and code != 0:
                self.fail_codes[_plain_code(code)] += 1
        elif manifest.phase != "Succeeded" and code != 0:
            self.crash_codes[_plain_code(code)] += 1
            if seen.running_at is not None:
                self.crash.add(at - seen.running_at, seen.watched)

    def finish(self) -> None:
        """Count the hours of those that still run, and who never got a node."""
        for seen in self.executors.values():
            if seen.ended_at is None:
                if seen.registered_at is not None:
                    self.executor_ms += self.now - seen.registered_at
                if seen.node_at is None and seen.running_at is None and seen.first_at is not None:
                    self.waited += self.now - seen.first_at >= _WAITED_MS and bool(self.most_aboard)


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
    description = replace(description, groups=_groups(fitter, evidence), api=_api(fitter, evidence))
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


def _groups(fitter: _Fitter, evidence: list[Evidence]) -> tuple[NodeGroup, ...]:
    nodes = fitter.most_nodes
    if not fitter.waited or not nodes:
        evidence.append(Evidence("nodes.groups", 0, f"{nodes} nodes seen, and no pod that waited for room"))
        # As many as were seen: with fewer, pods would wait for nodes that were there.
        return tuple(replace(group, count=max(group.count, nodes)) for group in KIND.groups)
    most = max(fitter.most_aboard.values())
    shape = KIND.executors.shape
    group = NodeGroup("seen", nodes, most * shape.cpu_millis, most * shape.memory_mib, most)
    evidence.append(
        Evidence("nodes.groups", fitter.waited, f"pods that waited; {nodes} nodes, at most {most} pods on one")
    )
    return (group,)


def _api(fitter: _Fitter, evidence: list[Evidence]) -> Api:
    api = KIND.api
    if fitter.latency.count:
        api = replace(api, latency=fitter.latency.delay())
    evidence.append(Evidence("api.latency", fitter.latency.count))
    if fitter.quota is not None:
        api = replace(api, quota_pods=fitter.quota[0])
        evidence.append(Evidence("api.quota", fitter.quota[1]))
    faults: list[Fault] = []
    left = Counter(fitter.calls)  # the first fault that hits decides: the next is asked only about the others

    def add(count: int, verb: Verb, resource: str, status: int | None, lost: Lost | None, after: Millis | None) -> None:
        part = max(1e-6, share(count, left[verb, resource]))
        note = f"of {fitter.calls[verb, resource]} calls"
        evidence.append(Evidence(f"api.faults[{len(faults)}]", count, note))
        faults.append(Fault(status, lost, part, (verb,), (resource,), after))
        left[verb, resource] -= count

    for (verb, resource, status), count in sorted(fitter.refused.items(), key=_by_text):
        delay = fitter.retry_after.get((verb, resource, status))
        add(count, verb, resource, status, None, None if delay is None else delay.median())
    for (verb, resource), count in sorted(fitter.unanswered.items(), key=_by_text):
        done = 0
        if (verb, resource) == (Verb.CREATE, "pods"):
            done = sum(fitter.executors.get(e, _NOBODY).first_at is not None for e in fitter.create_unanswered)
        if done:
            add(done, verb, resource, None, Lost.ANSWER, None)
        if count > done:
            add(count - done, verb, resource, None, Lost.REQUEST, None)
    return replace(api, faults=tuple(faults))


_NOBODY: Final = _Seen()


def _by_text(item: tuple[tuple[Verb, str] | tuple[Verb, str, int], int]) -> tuple[str, ...]:
    verb, resource, *status = item[0]
    return verb.value, resource, *(str(s) for s in status)
