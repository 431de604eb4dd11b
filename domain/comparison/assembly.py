"""Makes the account of a run: the application as it was read, what its tasks came to, and what was asked for when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Final, NamedTuple

from podtide.domain.base.samples import median
from podtide.domain.base.units import DEFAULT_PROFILE, Millis, ProfileId
from podtide.domain.comparison.account import (
    SPANS_MAX,
    STAGES_MAX,
    ExecutorsAccount,
    RunAccount,
    StageAccount,
    TaskTime,
    WorkUnit,
)
from podtide.domain.comparison.chain import ChainStage, chain_of
from podtide.domain.comparison.over_time import Steps, lost, present
from podtide.domain.comparison.recorded_bill import Keeping, StageSpan, recorded_bill, skewed
from podtide.domain.comparison.task_accounts import StageTasks, TaskAccounts
from podtide.domain.recorded.application import Application, Leave, RecordedExecutor, RecordedStage
from podtide.domain.recorded.unknowns import HOLES, lost_parts
from podtide.domain.rerun.ledger.causes import Limit
from podtide.domain.rerun.plan import ExecutorShape

REASONS_MAX: Final = 8
"""Reasons of lost executors that are kept."""

LOOKS: Final = 48
"""Moments of a stage's waiting at which it is seen what keeps executors away."""


class RunTerms(NamedTuple):
    """What the conf of a run says: the ``shapes`` of executors by profile, the default one among them; ``most``: executors
    at most (maxExecutors, None without dynamic allocation); ``keeping``; ``conf``: the Spark properties, without secrets."""

    shapes: Mapping[ProfileId, ExecutorShape]
    most: int | None
    keeping: Keeping
    conf: Mapping[str, str]


def account_of(
    application: Application,
    tasks: TaskAccounts,
    targets: Sequence[tuple[Millis, int]],
    terms: RunTerms,
    plans: Mapping[int, str],
) -> RunAccount:
    """The account. ``targets``: how many executors were wanted, at each change; ``plans``: of stages."""
    start, end = application.started_ms, application.ended_ms
    made = _Making(application, tasks, targets, terms)
    stages = [made.stage(one, plans.get(one.stage, "")) for one in application.stages]
    jobs = {job.job: job for job in application.jobs}
    links = [
        ChainStage(one.stage, one.job, one.submitted_ms - start, one.completed_ms - start, one.parents)
        for one in application.stages
        if one.submitted_ms < end
    ]
    chain = chain_of(links, {job: known.after for job, known in jobs.items()}, application.runtime_ms)
    kept = _kept(stages, {piece.stage for piece in chain})
    spans = [
        StageSpan(
            one.submitted_ms + start,
            one.first_launch_ms + start,
            one.last_launch_ms + start,
            one.last_end_ms + start,
            one.tasks,
            skewed(one.longest.task_ms, one.tasks, one.useful_ms),
        )
        for one in stages
    ]
    ready = application.driver_ready_ms
    return RunAccount(
        application.id,
        application.name,
        application.spark_version,
        start,
        application.runtime_ms,
        chain,
        kept,
        made.executors(),
        recorded_bill(application, tasks, spans, terms.keeping),
        made.waiting(stages),
        terms.conf,
        None if ready is None else max(0, ready - start),
        application.tasks,
        application.end_known,
        len(stages) - len(kept),
        tuple(_notes(application)),
    )


def _notes(application: Application) -> Iterator[str]:
    """What is missing for a comparison."""
    if (why := lost_parts(application)) is not None:
        yield why
    if application.tasks and not any(stage.run_ms for stage in application.stages):
        yield "Tasks have no metrics: what their time was spent on, and on how much data, is not known."
    if application.counts.get(HOLES):
        yield f"{application.counts[HOLES]:,} tasks of stages that completed cannot be found in the log."
    if len(application.executors) > SPANS_MAX:
        yield f"More than {SPANS_MAX:,} executors: prices of whole nodes count their executors alone."


def _kept(stages: Sequence[StageAccount], chained: set[int | None]) -> tuple[StageAccount, ...]:
    """Those of the chain first, then the longest; in the order of submission."""
    if len(stages) <= STAGES_MAX:
        return tuple(stages)
    ranked = sorted(stages, key=lambda one: (one.stage not in chained, one.submitted_ms - one.completed_ms, one.stage))
    among = {one.stage for one in ranked[:STAGES_MAX]}
    return tuple(one for one in stages if one.stage in among)


class _Making:
    """One account while it is made: executors and what was asked for, as functions of time (epoch milliseconds)."""

    def __init__(
        self, application: Application, tasks: TaskAccounts, targets: Sequence[tuple[Millis, int]], terms: RunTerms
    ) -> None:
        self.application = application
        self.tasks = tasks
        self.terms = terms
        self.jobs = {job.job: job for job in application.jobs}
        self.by_profile: dict[ProfileId, list[RecordedExecutor]] = {}
        for one in application.executors:
            self.by_profile.setdefault(one.profile, []).append(one)
        self.registered = present(application.executors, 1, application.ended_ms)
        self.target = Steps(_moves(targets))
        self.dynamic = bool(targets)
        self.slots: dict[ProfileId, tuple[int, Steps, Steps]] = {}
        self.work = _density(application.stages, tasks)

    def slots_of(self, profile: ProfileId) -> tuple[int, Steps, Steps]:
        """Slots of one executor of a profile, and over time those that were there, and those that were lost."""
        if profile not in self.slots:
            own = self.by_profile.get(profile) or self.application.executors
            each = max(1, self.shape(profile).slots)
            end = self.application.ended_ms
            self.slots[profile] = each, present(own, each, end), lost(own, each, end)
        return self.slots[profile]

    def shape(self, profile: ProfileId) -> ExecutorShape:
        """What an executor of a profile is."""
        return self.terms.shapes.get(profile, self.terms.shapes[DEFAULT_PROFILE])

    def stage(self, one: RecordedStage, plan: str) -> StageAccount:
        """The account of a stage."""
        start = self.application.started_ms
        stage_tasks = self.tasks.stages.get(one.stage) or StageTasks()
        first = max(one.submitted_ms, stage_tasks.first_launch) if stage_tasks.first_launch >= 0 else one.submitted_ms
        last_end = min(one.completed_ms, max(first, stage_tasks.last_end))
        last_launch = min(last_end, max(first, stage_tasks.last_launch))
        each, there, gone = self.slots_of(one.profile)
        all_ms = sum(stage_tasks.time) + stage_tasks.wasted
        job = self.jobs.get(one.job)
        return StageAccount(
            one.stage,
            "" if job is None else job.name,
            one.name,
            plan,
            one.tasks,
            each,
            one.submitted_ms - start,
            first - start,
            last_launch - start,
            last_end - start,
            one.completed_ms - start,
            one.attempts,
            stage_tasks.lost_tasks,
            dict(zip(TaskTime, stage_tasks.time, strict=True)),
            stage_tasks.wasted,
            {measure: amount for measure, amount in zip(WorkUnit, stage_tasks.amounts, strict=True) if amount},
            stage_tasks.spilled,
            stage_tasks.written,
            stage_tasks.longest_task(),
            stage_tasks.host_works(),
            stage_tasks.remote_work(),
            slot_ms=round(there.between(first, last_end)),
            lost_slot_ms=round(gone.between(one.submitted_ms, last_end)),
            missing_ms=self._missing(one.submitted_ms, last_launch, ceil(one.tasks / each)),
            others_ms=max(0, round(self.work.between(first, last_end)) - all_ms),
        )

    def _missing(self, begin: Millis, end: Millis, useful: int) -> dict[Limit, Millis]:
        """Executors that were missing while tasks of a stage waited, over time, by what kept them away."""
        found: Counter[Limit] = Counter()
        if end <= begin:
            return {}
        looks = min(LOOKS, end - begin)
        for look in range(looks):
            at = begin + (2 * look + 1) * (end - begin) // (2 * looks)
            there = round(self.registered.value(at))
            wanted = round(self.target.value(at)) if self.dynamic else self.application.peak_executors
            lacking = max(0, useful - there)
            coming = min(lacking, max(0, wanted - there))
            found[Limit.START_UP] += coming
            rest = lacking - coming
            bounded = not self.dynamic or (self.terms.most is not None and wanted >= self.terms.most)
            found[Limit.MAXIMUM if bounded else Limit.RAMP] += rest
        return {limit: round(count * (end - begin) / looks) for limit, count in found.items() if count}

    def waiting(self, stages: Sequence[StageAccount]) -> dict[Limit, Millis]:
        """The time in which tasks waited for executors, shared among what kept these away."""
        found: Counter[Limit] = Counter()
        spans = [(one.submitted_ms, one.last_launch_ms, one.missing_ms) for one in stages if one.missing_ms]
        done = 0
        for begin, end, missing in sorted(spans, key=lambda span: span[:2]):
            alone = max(0, end - max(begin, done))
            done = max(done, end)
            total = sum(missing.values())
            for limit, ms in missing.items():
                found[limit] += round(alone * min(1.0, total / max(1, end - begin)) * ms / total)
        return dict(found)

    def executors(self) -> ExecutorsAccount:
        """The executors, as a whole."""
        application = self.application
        end = application.ended_ms
        waits = [one.added_ms - one.requested_ms for one in application.executors if one.requested_ms is not None]
        reasons = Counter(_reason(one) for one in application.executors if one.leave is Leave.LOST)
        shapes: Counter[tuple[int, int]] = Counter()
        lives: list[tuple[tuple[int, int], Millis, Millis]] = []
        for one in application.executors:
            begun = one.added_ms if one.requested_ms is None else one.requested_ms
            gone = end if one.removed_ms is None else min(one.removed_ms, end)
            shape = self.shape(one.profile)
            shapes[shape.cores, shape.memory_mib] += max(0, gone - begun)
            lives.append(((shape.cores, shape.memory_mib), begun, max(begun, gone)))
        places = {shape: place for place, shape in enumerate(sorted(shapes))}
        kept = lives if len(lives) <= SPANS_MAX else []
        return ExecutorsAccount(
            len(application.executors),
            application.peak_executors,
            application.executor_ms,
            median(waits) if waits else None,
            min((one.added_ms - application.started_ms for one in application.executors), default=None),
            dict(reasons.most_common(REASONS_MAX)),
            tuple((cores, memory, ms) for (cores, memory), ms in sorted(shapes.items())),
            len({one.host for one in application.executors}),
            tuple(
                (places[shape], begun - application.started_ms, gone - application.started_ms)
                for shape, begun, gone in kept
            ),
        )


def _reason(one: RecordedExecutor) -> str:
    return one.reason.splitlines()[0][:120] if one.reason else "no reason logged"


def _moves(targets: Sequence[tuple[Millis, int]]) -> list[tuple[Millis, float]]:
    moves: list[tuple[Millis, float]] = []
    before = 0
    for at, count in targets:
        moves.append((at, count - before))
        before = count
    return moves


def _density(stages: Sequence[RecordedStage], tasks: TaskAccounts) -> Steps:
    """Task time of all stages over time, each spread evenly from its first launch to its last end."""
    moves: list[tuple[Millis, float]] = []
    for one in stages:
        stage_tasks = tasks.stages.get(one.stage)
        if stage_tasks is None or stage_tasks.last_end <= stage_tasks.first_launch or stage_tasks.first_launch < 0:
            continue
        each = (sum(stage_tasks.time) + stage_tasks.wasted) / (stage_tasks.last_end - stage_tasks.first_launch)
        moves += [(stage_tasks.first_launch, each), (stage_tasks.last_end, -each)]
    return Steps(moves)
