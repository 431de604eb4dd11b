"""Task events of a rerun a second, two for each task: in bulk, in many small stages, on Kubernetes and on YARN.

The rivals, in the same run: the same rerun whose core hears every task by itself instead of ``TasksMoved`` (decisions are
the same, see tests/properties/test_rerun_properties.py), and the fake driver (``workload``) that plays the same stages on
as many slots, one event for each start and end, folded by the same core. Figures are CPU time of the thread.

``PODTIDE_BENCH_RERUN_TASKS`` (default 1000000) sets how many tasks are run in bulk; the other shapes are fixed.
"""

from __future__ import annotations

import os
import time
from array import array
from collections.abc import Callable
from typing import Final, NamedTuple

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.measured import Compared
from podtide.domain.base.randomness import Constant
from podtide.domain.base.units import DEFAULT_PROFILE, NEVER, ExecutorId
from podtide.domain.conf.scaling_config import scaling_config
from podtide.domain.conf.spark_conf import from_mapping
from podtide.domain.conf.yarn_config import yarn_config
from podtide.domain.fakes.driver import driver as workloads
from podtide.domain.fakes.driver.script import Jobs, ScriptJob, ScriptStage
from podtide.domain.protocol.application import EngineConfig
from podtide.domain.protocol.config import ProfileRules, ScalingConfig
from podtide.domain.protocol.executor_commands import AnswerRegistration
from podtide.domain.protocol.executor_stimuli import ExecutorBusy, RegisterExecutor, TargetsSet
from podtide.domain.protocol.reasons import Cause, Why
from podtide.domain.protocol.stimuli import ExecutorAdded, JobStage, Stimulus
from podtide.domain.recorded.application import Application, RecordedJob, RecordedStage
from podtide.domain.rerun.assumed_kubernetes import assumed_cluster
from podtide.domain.rerun.behaviour import Behaviour, StartUp
from podtide.domain.rerun.outcome import RerunOutcome
from podtide.domain.rerun.plan import ExecutorShape, Plan
from podtide.domain.rerun.rerun import rerun
from podtide.domain.scaling import dynamic_allocation
from podtide.entrypoints.common.app_config import app_settings
from tests.support.rerun_play import Single

pytestmark = pytest.mark.benchmark(timer=time.thread_time)

BULK: Final = int(os.environ.get("PODTIDE_BENCH_RERUN_TASKS", "1000000"))
BODY_MS: Final = 3_000
SPREAD: Final = 97
BEHAVIOUR: Final = Behaviour(StartUp((3_000, 4_000)), boot_ms=500, removal_ms=(300,))
CORES: Final = 4


class Form(NamedTuple):
    """An application: so many stages in a row of so many tasks, on so many executors of four slots."""

    stages: int
    tasks: int
    executors: int


def application(form: Form) -> Application:
    """Stages of one job, each reading the one before; tasks of about 3 s with some spread."""
    body = array("q", (BODY_MS + place * 7919 % SPREAD for place in range(form.tasks)))
    last = form.stages - 1
    stages = tuple(
        RecordedStage(
            number, 0, f"stage {number}", DEFAULT_PROFILE, 0, 0, body, parents=(number - 1,) if number else (),
            shuffle=number if number < last else None, submit_lag_ms=10, launch_lag_ms=5, finish_lag_ms=2,
        )
        for number in range(form.stages)
    )  # fmt: skip
    needs = tuple(JobStage(one.stage, one.shuffle) for one in stages)
    job = RecordedJob(0, 0, 0, True, tuple(one.stage for one in stages), needs)
    return Application(
        "app-1", "bench", "4.3.0", 0, 0, True, {}, (job,), stages, (), turnaround_ms=4,
    )  # fmt: skip


def plain(form: Form) -> Plan:
    """Dynamic allocation up to the form's executors, from a plain resource manager."""
    rules = ProfileRules(executor_cores=CORES)
    config = ScalingConfig(executors_max=form.executors, idle_timeout_ms=10_000, profile_rules=rules)
    return Plan(
        "bench", from_mapping({}, "bench"), {DEFAULT_PROFILE: ExecutorShape(CORES, CORES, 4_096)}, dynamic=config
    )


def kubernetes(form: Form) -> Plan:
    """The same from the pods allocator on a fake cluster."""
    settings = app_settings(
        from_mapping(
            {
                "spark.master": "k8s://https://x",
                "spark.dynamicAllocation.enabled": "true",
                "spark.dynamicAllocation.shuffleTracking.enabled": "true",
                "spark.dynamicAllocation.maxExecutors": str(form.executors),
                "spark.dynamicAllocation.executorIdleTimeout": "10s",
                "spark.executor.cores": str(CORES),
            },
            "bench",
        )
    )
    shapes = {DEFAULT_PROFILE: ExecutorShape(CORES, CORES, 4_096)}
    return Plan(
        "bench", settings.conf, shapes, dynamic=settings.config.scaling, kubernetes=settings.config,
        cluster=assumed_cluster(BEHAVIOUR),
    )  # fmt: skip


def on_yarn(form: Form) -> Plan:
    """The same from the YARN allocator on a resource manager that has room for everything."""
    conf = from_mapping(
        {
            "spark.master": "yarn",
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": "true",
            "spark.dynamicAllocation.maxExecutors": str(form.executors),
            "spark.dynamicAllocation.executorIdleTimeout": "10s",
            "spark.executor.cores": str(CORES),
        },
        "bench",
    )
    scaling = scaling_config(conf).unwrap().config
    config = EngineConfig(scaling, yarn=yarn_config(conf).unwrap().config)
    shapes = {DEFAULT_PROFILE: ExecutorShape(CORES, CORES, 4_096)}
    return Plan("bench", conf, shapes, dynamic=scaling, yarn=config)


FORMS: Final = {
    "in bulk": (Form(1, BULK, 50), plain),
    "small stages": (Form(500, 200, 50), plain),
    "Kubernetes, 100 executors": (Form(10, 20_000, 100), kubernetes),
    "YARN, 100 executors": (Form(10, 20_000, 100), on_yarn),
}


def timed(run: Callable[[], int]) -> float:
    """Task events a second of CPU time; ``run`` says how many tasks it ran."""
    began = time.thread_time()
    tasks = run()
    return 2 * tasks / (time.thread_time() - began)


def one_by_one(form: Form, plan: Callable[[Form], Plan]) -> float:
    """The rival that tells every task by itself."""
    rival = Single(application(form), plan(form), BEHAVIOUR)
    return timed(lambda: rival.go().tasks_run)


def fake_driver(form: Form) -> float:
    """The rival that plays the same on the fake driver, with all executors from the start, and folds what is said."""
    stages = tuple(
        ScriptStage(
            f"s{number}", form.tasks, Constant(BODY_MS), (f"s{number - 1}",) if number else (),
        )
        for number in range(form.stages)
    )  # fmt: skip
    rules = ProfileRules(executor_cores=CORES)
    config = ScalingConfig(executors_initial=form.executors, executors_max=form.executors, profile_rules=rules)

    def run() -> int:
        driver = workloads.begin(Jobs((ScriptJob("job", stages),)), 1, 0, rules)
        core = dynamic_allocation.start(config, 0).state
        for number in range(form.executors):
            executor = ExecutorId(str(number))
            register = RegisterExecutor(0, executor, DEFAULT_PROFILE, "host", f"{number}:1")
            driver = workloads.hear(driver, register, 0)
            answer = AnswerRegistration(0, executor, True, Why(Cause.REGISTERED))
            driver = workloads.hear(driver, answer, 0)
            core = dynamic_allocation.step(core, ExecutorAdded(0, executor, DEFAULT_PROFILE), config, 0).state
        while (due := workloads.due(driver)) != NEVER:
            driver, said = workloads.advance(driver, due)
            events: list[Stimulus] = [one for one in said if not isinstance(one, ExecutorBusy | TargetsSet)]
            if events:
                core = dynamic_allocation.step(core, events, config, due).state
        assert workloads.done(driver)
        return form.stages * form.tasks

    return timed(run)


@pytest.mark.parametrize("name", FORMS)
def test_task_events(name: str, benchmark: BenchmarkFixture, compared: Compared) -> None:
    form, plan = FORMS[name]
    recorded, made = application(form), plan(form)
    rates: list[float] = []

    def run() -> RerunOutcome:
        outcomes: list[RerunOutcome] = []

        def once() -> int:
            outcomes.append(rerun(recorded, BEHAVIOUR, made))
            return outcomes[0].tasks_run

        rates.append(timed(once))
        return outcomes[0]

    outcome = benchmark.pedantic(run, rounds=3, warmup_rounds=1)
    assert outcome.unfinished is None
    assert outcome.tasks_run == form.stages * form.tasks
    ours = max(rates)
    fewer = form._replace(tasks=min(form.tasks, 100_000))  # a rate is a rate
    alone, driver = one_by_one(fewer, plan), fake_driver(fewer._replace(stages=min(form.stages, 50)))
    told = f"{form.stages} x {form.tasks:,} tasks: {ours:,.0f} task events/s"
    compared(f"rerun, {name}", told, f"every task told by itself: {alone:,.0f}/s", f"{ours / alone:.1f} x")
    compared(f"rerun, {name}", told, f"the fake driver and the core: {driver:,.0f}/s", f"{ours / driver:.1f} x")
    benchmark.extra_info["ratio"] = ours / alone
    benchmark.extra_info["events_per_s"] = ours
