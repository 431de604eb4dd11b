"""Growing what executors outgrow: ExecutorResizePlugin (memory) and ExecutorPVCResizePlugin (volume claims).

Two machines that share nothing but their shape: a timer at a fixed rate (``plugin_timer``) whose run looks at measurements
that the sensor hands in when the timer ``wants`` them.

*Memory*: a Spark container that uses more than threshold times its limit gets a limit (and request) larger by the factor.
Nothing is remembered: as long as it uses too much it grows at every run, without bound; a refused resize is only logged.

*Claims*: executors report how full their fullest local directory is (``DiskReport``); the last report of each counts. At a
run, reports of executors without a pod are dropped, and every claim of the others is looked at: above the threshold it is
asked to grow by the factor, unless its last request has not been met yet (requested above capacity), the very same size
was asked for last, or a request for it was ever refused; a refused claim is never touched again. One claim is
asked for at most once a run, whoever mounts it: to a second executor Spark would see the request under way.

In ``ClaimsMeasured`` an entry with an empty claim name stands for an executor whose pod mounts no such claim: it keeps its
report.

Comparisons and products are Java's, of doubles; new sizes are cut to whole bytes (ExecutorResizeDriverPlugin,
ExecutorPVCResizeDriverPlugin; spec: backend, sections 3 and 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from pyrsistent import PMap, PSet, pmap, pset

from podtide.domain.base.units import ExecutorId, Millis
from podtide.domain.jvm.hash_order import concurrent_order
from podtide.domain.jvm.values import LONG_MAX, double_text, string_hash
from podtide.domain.kubernetes.plugin_timer import Sampler
from podtide.domain.machine.turn import Turn, why
from podtide.domain.protocol import executor_stimuli, pod_stimuli
from podtide.domain.protocol.cluster_config import ResizeConfig
from podtide.domain.protocol.commands import Step
from podtide.domain.protocol.pod_commands import ResizeClaim, ResizePod
from podtide.domain.protocol.pods import UNNAMED_EXECUTOR
from podtide.domain.protocol.reasons import Cause

MEMORY_MACHINE: Final = "ExecutorResizeDriverPlugin"
CLAIM_MACHINE: Final = "ExecutorPVCResizeDriverPlugin"

# Topics of remarks.
WITHIN: Final = "within its limit"
UPDATE_FAILED: Final = "update failed"
REPORTS: Final = "reports"
TRYING: Final = "trying"
IN_PROGRESS: Final = "in progress"
EXPANSION_FAILED: Final = "expansion failed"

MemoryStimulus: TypeAlias = (
    pod_stimuli.MemoryMeasured | executor_stimuli.Wake | pod_stimuli.Outcome | executor_stimuli.Stopping
)
ClaimStimulus: TypeAlias = (
    pod_stimuli.DiskReport
    | pod_stimuli.ClaimsMeasured
    | executor_stimuli.Wake
    | pod_stimuli.Outcome
    | executor_stimuli.Stopping
)


# ---------------------------------------------------------------------------------------------------------------- memory


@dataclass(slots=True)
class PodSizes:
    """ExecutorResizePlugin: its timer, and the resizes of the last run that have not been answered."""

    timer: Sampler[pod_stimuli.MemoryMeasured]
    serial: int = 0
    pending: PMap[int, ExecutorId] = field(default_factory=pmap)


def start_pods(config: ResizeConfig, now: Millis) -> PodSizes:
    """The plugin as ``init`` leaves it: the first run is one interval away."""
    return PodSizes(Sampler(now + config.interval_ms))


def resize_pods(
    state: PodSizes, snapshots: Sequence[MemoryStimulus], config: ResizeConfig, now: Millis
) -> Step[PodSizes, ResizePod]:
    """Enlarge the containers that are nearly full. Outcomes are optional: a refusal is remarked upon, no more."""
    turn = _MemoryTurn(state, config, now)
    for stimulus in snapshots:
        turn.take(stimulus)
    return turn.step()


class _MemoryTurn(Turn[PodSizes, ResizeConfig, ResizePod]):
    """The plugin within one step."""

    machine = MEMORY_MACHINE

    def take(self, stimulus: MemoryStimulus) -> None:
        if isinstance(stimulus, pod_stimuli.Outcome):
            self.answered(stimulus)
            return
        self.state.timer, measured = self.state.timer.after(stimulus, self.now, self.config.interval_ms)
        if measured is not None:
            self.enlarge(measured.pods)

    def enlarge(self, pods: Iterable[pod_stimuli.MemoryUse]) -> None:
        """checkAndIncreaseMemory: one run."""
        threshold, factor = self.config.threshold, self.config.factor
        pending = {}
        for pod in pods:
            used, limit = pod.used, pod.limit
            if used is None or limit is None or pod.executor == UNNAMED_EXECUTOR:
                continue
            if not float(used) > limit * threshold:
                self.remark(WITHIN, executor=pod.executor, limit=limit, used=used)
                continue
            self.state.serial += 1
            after = _grown(limit, factor)
            cause = why(Cause.MEMORY_USED, used=used, limit=limit, threshold=threshold, factor=factor)
            self.commands.append(
                ResizePod(self.now, self.state.serial, pod.executor, pod.pod, pod.container, after, cause)
            )
            pending[self.state.serial] = pod.executor
        self.state.pending = pmap(pending)

    def answered(self, outcome: pod_stimuli.Outcome) -> None:
        executor = self.state.pending.get(outcome.serial)
        if executor is not None:
            if outcome.failure is not None:
                self.remark(UPDATE_FAILED, executor=executor, message=outcome.failure.message)
            self.state.pending = self.state.pending.remove(outcome.serial)


# ---------------------------------------------------------------------------------------------------------------- claims


class AskedResize(NamedTuple):
    """A resize that has not been answered yet."""

    claim: str
    size: int


@dataclass(slots=True)
class ClaimSizes:
    """ExecutorPVCResizePlugin: its timer and its three tables.

    ``reports``: the last ratio of each executor. ``requested``: the size asked for last, by claim, where the API agreed.
    ``failed``: claims that are left alone for good.
    """

    timer: Sampler[pod_stimuli.ClaimsMeasured]
    reports: PMap[ExecutorId, float] = field(default_factory=pmap)
    requested: PMap[str, int] = field(default_factory=pmap)
    failed: PSet[str] = field(default_factory=pset)
    serial: int = 0
    pending: PMap[int, AskedResize] = field(default_factory=pmap)


def start_claims(config: ResizeConfig, now: Millis) -> ClaimSizes:
    """The plugin as ``init`` leaves it: the first run is one interval away."""
    return ClaimSizes(Sampler(now + config.interval_ms))


def resize_claims(
    state: ClaimSizes, snapshots: Sequence[ClaimStimulus], config: ResizeConfig, now: Millis
) -> Step[ClaimSizes, ResizeClaim]:
    """Enlarge the claims of executors whose disks fill up. Every command's outcome has to come back."""
    turn = _ClaimTurn(state, config, now)
    for stimulus in snapshots:
        turn.take(stimulus)
    return turn.step()


class _ClaimTurn(Turn[ClaimSizes, ResizeConfig, ResizeClaim]):
    """The plugin within one step."""

    machine = CLAIM_MACHINE

    def take(self, stimulus: ClaimStimulus) -> None:
        if isinstance(stimulus, pod_stimuli.Outcome):
            self.answered(stimulus)
            return
        if isinstance(stimulus, pod_stimuli.DiskReport):
            self.state.reports = self.state.reports.set(stimulus.executor, stimulus.ratio)
            return
        self.state.timer, measured = self.state.timer.after(stimulus, self.now, self.config.interval_ms)
        if measured is not None:
            self.expand(measured.claims)

    def expand(self, claims: Iterable[pod_stimuli.ClaimUse]) -> None:
        """checkAndResizePVCs: one run."""
        state, threshold, factor = self.state, self.config.threshold, self.config.factor
        mounted: dict[ExecutorId, list[pod_stimuli.ClaimUse]] = {}
        for use in claims:
            mounted.setdefault(use.executor, []).append(use)
        reports = {executor: ratio for executor, ratio in state.reports.items() if executor in mounted}
        order = report_order(reports)
        self.remark(REPORTS, reports=_reports_text(reports, order) if self.config.remarks else None)
        pending: dict[int, AskedResize] = {}
        expansions: set[str] = set()
        for executor in order:
            ratio = reports[executor]
            for use in mounted[executor]:
                if not use.claim or use.claim in state.failed:
                    continue
                self.remark(TRYING, executor=executor, claim=use.claim, ratio=ratio, threshold=threshold)
                if ratio <= threshold or use.claim in expansions:
                    continue
                capacity = use.requested if use.capacity is None else use.capacity
                if use.requested > capacity:
                    self.remark(IN_PROGRESS, claim=use.claim, requested=use.requested, capacity=capacity)
                    continue
                size = _grown(use.requested, factor)
                if state.requested.get(use.claim, 0) == size:
                    continue
                state.serial += 1
                cause = why(Cause.DISK_USED, ratio=ratio, threshold=threshold, requested=use.requested, factor=factor)
                self.commands.append(ResizeClaim(self.now, state.serial, executor, use.claim, size, cause))
                pending[state.serial] = AskedResize(use.claim, size)
                expansions.add(use.claim)
        if len(reports) != len(state.reports):
            state.reports = pmap(reports)
        state.pending = pmap(pending)

    def answered(self, outcome: pod_stimuli.Outcome) -> None:
        expansion = self.state.pending.get(outcome.serial)
        if expansion is None:
            return
        self.state.pending = self.state.pending.remove(outcome.serial)
        if outcome.failure is None:
            self.state.requested = self.state.requested.set(expansion.claim, expansion.size)
        else:
            self.remark(EXPANSION_FAILED, claim=expansion.claim, message=outcome.failure.message)
            self.state.failed = self.state.failed.add(expansion.claim)


def report_order(executors: Iterable[ExecutorId]) -> list[ExecutorId]:
    """In which order Spark goes through the reports: by bucket of a ConcurrentHashMap.

    Where ids share a bucket Spark's order depends on who reported first; here it is that of the ids.
    """
    return concurrent_order([(string_hash(executor), executor) for executor in sorted(executors)])


def _reports_text(reports: dict[ExecutorId, float], order: Sequence[ExecutorId]) -> str:
    entries = (f"{e}=PVCDiskUsageReport({e},{double_text(reports[e])})" for e in order)
    return f"{{{', '.join(entries)}}}"


def _grown(size: int, factor: float) -> int:
    """``(long) (size * (1.0 + factor))``."""
    product = size * (1.0 + factor)
    return LONG_MAX if product >= LONG_MAX else int(product)
