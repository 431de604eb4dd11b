"""Reruns on Kubernetes: on a kind cluster the same as with a plain resource manager, and what Kubernetes adds otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from podtide.domain.base.units import NEVER
from podtide.domain.fakes.kubernetes.description import Description, Life, PodStage
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.ledger.causes import Limit, SpendCause
from podtide.domain.rerun.outcome import RerunOutcome
from podtide.domain.rerun.rerun import rerun
from tests.properties.test_rerun_properties import LONG, applications, later
from tests.support.rerun_play import (
    AT_ONCE,
    Watched,
    app,
    behaviour,
    causes,
    chain,
    figures,
    job,
    kind_cluster,
    limits,
    plain,
    pods,
    run,
    stage,
    times,
)

S = 1_000
DYNAMIC = {
    "dynamicAllocation.enabled": "true",
    "dynamicAllocation.shuffleTracking.enabled": "true",
    "dynamicAllocation.executorIdleTimeout": "10s",
}
"""Executors come and go; where no shuffle is read that is all."""
EIGHT = app(stage(0, [10 * S] * 8))
PAUSED = app(
    one := stage(0, [10 * S] * 8),
    two := stage(1, [5 * S] * 3, job=1),
    jobs=[job(0, [one]), job(1, [two], after=(0,), think_ms=25 * S)],
)


def anonymous(outcome: RerunOutcome) -> RerunOutcome:
    """Without what differs by nature: calls and what they are counted in, and the names of executors."""
    decisions = tuple(one._replace(executors=("one",) * len(one.executors)) for one in outcome.decisions)
    return replace(outcome, requests=0, curve=(), decisions=decisions)


@pytest.mark.parametrize(
    ("application", "conf", "start_ms"),
    [
        (EIGHT, {"executor.instances": "2"}, 0),
        (EIGHT, {"executor.instances": "3", "executor.cores": "2"}, 2_500),
        (EIGHT, DYNAMIC, 0),
        (EIGHT, DYNAMIC, 3_000),
        (EIGHT, DYNAMIC | {"dynamicAllocation.maxExecutors": "3"}, 3_000),
        (EIGHT, DYNAMIC | {"dynamicAllocation.initialExecutors": "4"}, 3_000),
        (EIGHT, DYNAMIC | {"dynamicAllocation.executorAllocationRatio": "0.5"}, 3_000),
        (app(*chain([[900] * 6, [2_000] * 3, [4_000]])), DYNAMIC, 0),
        (app(stage(0, [])), DYNAMIC, 0),
        (app(jobs=[]), DYNAMIC, 0),
    ],
)
def test_a_kind_cluster_is_a_plain_resource_manager(
    application: Application, conf: dict[str, str], start_ms: int
) -> None:
    """Nothing takes time there but the start; what is not wanted any more has no pod that could be taken back."""
    plan = pods(conf, kind_cluster(start_ms))
    ours, theirs = run(application, plan), run(application, plain(plan), behaviour(start_ms))
    assert anonymous(ours) == anonymous(theirs)


@pytest.mark.uncounted
@given(applications(plain=True, least=1))
@settings(max_examples=20)
def test_any_application_on_a_kind_cluster(application: Application) -> None:
    """The same within a round of the allocator, 1 s, for each time that executors are asked for.

    Told to go, a pod needs a moment more than nothing; and the plain manager lets executors that are on their way come,
    where the allocator takes their pods back.
    """
    conf = DYNAMIC | {"dynamicAllocation.executorIdleTimeout": "1s", "dynamicAllocation.maxExecutors": "4"}
    plan = pods(conf, shuffle_kept=True)
    application = later(application)
    ours, theirs = (
        rerun(application, AT_ONCE, plan, limit_ms=LONG),
        rerun(application, AT_ONCE, plain(plan), limit_ms=LONG),
    )
    assert ours.unfinished is theirs.unfinished is None
    assert ours.tasks_run == theirs.tasks_run == application.tasks
    assert abs(ours.runtime_ms - theirs.runtime_ms) <= S * (1 + len(application.stages))
    assert abs(ours.executor_ms - theirs.executor_ms) <= 4 * S * (1 + len(application.stages))
    assert ours.peak_executors <= 4


def test_idle_executors_go() -> None:
    """Eight of them from 1 to 4 s on, idle from 11 to 14 s on: let go 10 s later; the second job waits 1 s from 39 s on."""
    outcome = run(PAUSED, pods(DYNAMIC))
    assert outcome.unfinished is None
    # need 3: one at 40 s, two at 41 s; the last task ends at 46 s
    assert outcome.runtime_ms == 46 * S
    assert outcome.executor_ms == 8 * 20 * S + 6 * S + 2 * 5 * S
    assert causes(outcome) == {
        SpendCause.RUNNING: 95 * S, SpendCause.IDLE_TIMEOUT: 80 * S, SpendCause.FEW_TASKS: S,
    }  # fmt: skip
    assert limits(outcome) == pytest.approx({Limit.BACKLOG_TIMEOUT: 2 * S, Limit.RAMP: 3 * S + S})


def test_a_quota_of_pods() -> None:
    outcome = run(app(stage(0, [S] * 4)), pods({"executor.instances": "4"}, kind_cluster(quota_pods=2)))
    assert (outcome.runtime_ms, outcome.executor_ms, outcome.executors_started) == (
        2 * S,
        4 * S,
        outcome.executors_started,
    )
    assert set(limits(outcome)) <= {Limit.CAPACITY, Limit.BATCH, Limit.START_UP, Limit.MAXIMUM}


def lossy(per_hour: float) -> Description:
    """Executors are taken at this rate."""
    cluster = kind_cluster()
    taken = PodStage("taken", Life.REGISTERED, Life.EVICTED, per_hour=per_hour, message="The node was taken back.")
    return replace(cluster, executors=replace(cluster.executors, stages=(*cluster.executors.stages, taken)))


@pytest.mark.uncounted
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("conf", [{"executor.instances": "4"}, DYNAMIC | {"dynamicAllocation.maxExecutors": "4"}])
def test_executors_that_are_taken(conf: dict[str, str], seed: int) -> None:
    """About every two seconds one; all is run again that has to be, and the work that was lost is booked."""
    conf = conf | {"executor.maxNumFailures": "1000", "dynamicAllocation.shuffleTracking.enabled": "true"}
    watched = Watched(app(*chain([[4 * S] * 20, [2 * S] * 10])), pods(conf, lossy(400.0)), AT_ONCE, seed)
    outcome = watched.go(LONG)
    assert outcome.unfinished is None
    assert outcome.executors_lost > 0
    assert {(task.stage, task.part) for task in watched.tasks.good} == {
        *((0, part) for part in range(20)), *((1, part) for part in range(10)),
    }  # fmt: skip
    assert outcome.ledger[SpendCause.LOST_WORK] > 0
    assert outcome.ledger[SpendCause.RUNNING] >= 100 * S


def test_too_many_failures_are_the_end() -> None:
    """spark.executor.maxNumFailures: the driver exits, as its executors fail faster than that."""
    outcome = run(app(stage(0, [60 * S] * 8)), pods({"executor.instances": "2"}, lossy(3_600.0)), limit_ms=3_600 * S)
    assert outcome.unfinished == "Spark ends it with exit code 11"
    assert outcome.runtime_ms < 60 * S


def test_too_few_registered() -> None:
    """Three of four have to be there: two come at once, one a second later, and one more."""
    conf = {
        "executor.instances": "4",
        "kubernetes.allocation.batch.size": "1",
        "kubernetes.allocation.batch.delay": "1s",
    }
    watched = Watched(app(stage(0, [S] * 4)), pods(conf, registered_ratio=0.75))
    assert watched.go().runtime_ms == 3 * S
    assert times(watched.tasks)["submitted", 0, 0] == S  # the driver waits for them
    assert min(task.began for task in watched.tasks.ran) == S


def test_seeds() -> None:
    """The luck of the cluster is the seed's; the same seed has the same."""
    plan = pods({"executor.instances": "4"}, Description())
    first = [rerun(EIGHT, AT_ONCE, plan, seed) for seed in range(4)]
    assert first == [rerun(EIGHT, AT_ONCE, plan, seed) for seed in range(4)]
    assert len({outcome.billed_ms for outcome in first}) == 4
    assert figures(rerun(EIGHT, AT_ONCE, plan, 2, watch=True)) == first[2]
    assert NEVER not in {outcome.runtime_ms for outcome in first}
