"""An application as recorded, made by hand, and outcomes to answer with: for tests of what stands around the simulation."""

from __future__ import annotations

from array import array
from collections.abc import Mapping

from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, Millis, ProfileId
from podtide.domain.protocol.stimuli import JobStage, ResourceProfileAdded
from podtide.domain.recorded.application import (
    Application,
    Leave,
    RecordedExecutor,
    RecordedJob,
    RecordedStage,
    Unknown,
)
from podtide.domain.rerun.behaviour import Behaviour, StartUp
from podtide.domain.rerun.ledger.causes import Limit, SpendCause
from podtide.domain.rerun.outcome import CurvePoint, Decision, RerunOutcome, StageTimes
from podtide.domain.rerun.plan import Plan

START: Millis = 1_767_225_600_000
YARN = {
    "spark.master": "yarn",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.maxExecutors": "8",
    "spark.shuffle.service.enabled": "true",
    "spark.executor.cores": "2",
    "spark.executor.memory": "4g",
}
KUBERNETES = {
    "spark.master": "k8s://https://example",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.maxExecutors": "8",
    "spark.executor.cores": "2",
    "spark.executor.memory": "4g",
}
BEHAVIOUR = Behaviour(StartUp((3_000, 4_000, 6_000)), boot_ms=500, removal_ms=(100,))


def application(
    properties: Mapping[str, str] | None = None,
    *,
    executors: int = 2,
    cores: int = 2,
    tasks: int = 8,
    task_ms: Millis = 1_000,
    profiles: tuple[ResourceProfileAdded, ...] = (),
    version: str = "4.3.0",
    name: str = "nightly",
    end_known: bool = True,
) -> Application:
    """One job of one stage; its executors come after two seconds and stay."""
    ends = START + 20_000
    stage = RecordedStage(
        0, 0, "count at nightly.py:3", DEFAULT_PROFILE, START + 2_000, ends - 1_000, array("q", [task_ms] * tasks)
    )
    job = RecordedJob(0, START + 2_000, ends - 500, succeeded=True, stages=(0,), needs=(JobStage(0),), think_ms=2_000)
    held = tuple(
        RecordedExecutor(
            ExecutorId(str(number)), "host", DEFAULT_PROFILE, cores, START + 2_000, None, Leave.STAYED,
            requested_ms=START + 500,
        )
        for number in range(1, executors + 1)
    )  # fmt: skip
    return Application(
        "app-1", name, version, START, ends, end_known, dict(YARN if properties is None else properties), (job,), (stage,),
        held, profiles, unknowns=(Unknown("block updates", "what is cached where is a guess"),),
    )  # fmt: skip


def outcome(
    runtime_ms: Millis = 20_000,
    executor_ms: Millis = 36_000,
    *,
    seed: int = 0,
    peak: int = 2,
    unfinished: str | None = None,
    watched: bool = True,
    profiles: Mapping[ProfileId, Millis] | None = None,
) -> RerunOutcome:
    """What a run may come to. Two thirds of the bill ran, the rest started."""
    billed = executor_ms + 3_000
    running = billed * 2 // 3
    curve = (
        CurvePoint(0, 0, 0, 0, 0, 0),
        CurvePoint(2_000, 4, 2, 0, peak, peak),
        CurvePoint(runtime_ms - 1_000, 0, 0, 0, peak, 0),
    )
    facts = {"pending_tasks": 8, "need": 4}
    return RerunOutcome(
        seed, runtime_ms, executor_ms, billed, peak, 2, 0, 70_000, 35_000, 2_500, 7,
        {SpendCause.RUNNING: running, SpendCause.STARTING: billed - running}, {Limit.START_UP: 2_000.0, Limit.RAMP: 500.0},
        billed_by_profile={DEFAULT_PROFILE: billed} if profiles is None else profiles,
        curve=curve if watched else (), stages=(StageTimes(0, 2_000, runtime_ms - 1_000),) if watched else (),
        decisions=(Decision(1_000, "target", "backlog", facts, 0, 0, 2),) if watched else (),
        tasks_run=8, unfinished=unfinished, filled_ms=running // 2,
    )  # fmt: skip


def rerun(
    app: Application,
    behaviour: Behaviour,
    plan: Plan,
    seed: int = 0,
    *,
    watch: bool = False,
    limit_ms: Millis | None = None,
) -> RerunOutcome:
    """A simulation that knows the answer: a second more for every seed, half the time with a static count."""
    del app, behaviour, limit_ms
    runtime = (10_000 if plan.static else 20_000) + 1_000 * seed
    return outcome(runtime, 36_000 + 100 * seed, seed=seed, peak=plan.static or 2, watched=watch)
