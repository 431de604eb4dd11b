"""What Spark's rules are known for, each in the smallest case that shows it: without the fix and not with it.

docs/reference/known-violations.md tells of each what happens, why, and what helps.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from podtide.domain.base.randomness import Constant
from podtide.domain.base.units import Millis, ProfileId
from podtide.domain.fakes.kubernetes.description import (
    STAGES,
    Api,
    Description,
    Executors,
    Fault,
    Life,
    Lost,
    PodStage,
    Verb,
    Watch,
)
from podtide.domain.fakes.windows import Window
from podtide.domain.protocol.allocation_policies import FIXED_POLICIES, SPARK_POLICIES, Policies
from tests.simulation.play import Play
from tests.simulation.watcher import Name, Reason
from tests.simulation.weather import ALLOCATOR, USUAL, Ask, Case, K, S

PACE = {
    "schedule": 10, "pull": 500, "pulled": 500, "start": 200, "register": 1_000, "exit": 300, "drain": 2_000,
    "terminate": 500, "refused": 100, "give-up": 1_000,
}  # fmt: skip


def cluster(*stages: PodStage, calm_ms: Millis, faults: tuple[Fault, ...] = (), **paces: Millis) -> Description:
    """A cluster without chance, but for these faults; ``paces`` replace those of stages."""
    pace = {**PACE, **paces}
    usual = tuple(replace(s, delay=Constant(pace.get(s.name, 120_000))) for s in STAGES)
    return Description(
        executors=Executors(stages=usual + stages, rpc=Constant(2), silence_ms=S),
        api=Api(latency=Constant(20), faults=faults),
        watch=Watch(delay=Constant(10)),
        calm_ms=calm_ms,
    )


def case(description: Description, *asks: Ask, tasks: bool = False, **conf: str) -> Case:
    """A case by hand; settings without their common prefix, dots written as underscores."""
    given = {K + key.replace("_", "."): value for key, value in conf.items()}
    usual = {**USUAL, K + "allocation.batch.delay": "1s", **given}
    if tasks:
        usual |= {
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": "true",
            "spark.dynamicAllocation.maxExecutors": "4",
        }
    if ALLOCATOR in usual:
        usual[K + "driver.pod.name"] = "driver"
    return Case(1, tuple(usual.items()), description, asks, S, tasks, ())


def target(at: Millis, number: int) -> Ask:
    return Ask(at, "target", ProfileId(0), number)


def played(one: Case, policies: Policies, patience: Millis = 120 * S) -> Play:
    """The case played to the calm, and then for as long as it takes to come to rest, or for ``patience``."""
    run = Play(one, policies)
    run.storm(None)
    run.rest(patience)
    return run


def names(run: Play) -> set[Name]:
    return {broken.name for broken in run.watcher.broken}


# An executor registers and is killed between two lists, and there is no watch: no snapshot ever shows its pod.
GHOST = case(
    cluster(calm_ms=90 * S, exit=5_000),
    target(0, 1),
    Ask(10 * S, "force"),
    executor_enableApiWatcher="false",
    executor_apiPollingInterval="60s",
    dynamicAllocation_deleteGracePeriod="500ms",
)

# An excess pod turns Running while its delete, which selects pending pods, is under way; its process hangs.
EXCESS = case(
    replace(
        cluster(PodStage("hangs", Life.RUNNING, Life.HUNG, weight=1e9), calm_ms=120 * S, pulled=2_500, pull=2_500),
        api=Api(latency=Constant(4_000)),
    ),
    target(0, 1),
    target(5_500, 0),
)
EXCESS = replace(EXCESS, conf=(*EXCESS.conf, ("spark.dynamicAllocation.executorIdleTimeout", "1s")))

# No container ever starts.
STORM = case(
    cluster(
        PodStage("no start", Life.PULLED, Life.FAILED, Constant(100), weight=1e9, exits=((128, 1.0),)), calm_ms=60 * S
    ),
    target(0, 10),
)

# A stage is aborted, and a task that began just before is heard of after it, while another one still runs.
LATE = case(
    cluster(calm_ms=60 * S),
    Ask(0, "tasks", ProfileId(0), 4),
    Ask(12 * S, "abort"),
    tasks=True,
)
LATE = replace(LATE, conf=(*LATE.conf, ("spark.dynamicAllocation.minExecutors", "1")))


@pytest.mark.parametrize(
    ("one", "name", "fix"),
    [
        (GHOST, Name.GHOST_COUNTED, "forget_ghosts"),
        (EXCESS, Name.EXCESS_RUNNING_SURVIVES, "delete_excess_running"),
        (STORM, Name.RESTART_STORM, "back_off"),
        (LATE, Name.LATE_TASK_PENDING, "repair_pending"),
    ],
    ids=lambda value: value.value if isinstance(value, Name) else None,
)
def test_happens_without_its_fix_and_not_with_it(one: Case, name: Name, fix: str) -> None:
    alone = replace(SPARK_POLICIES, **{fix: getattr(FIXED_POLICIES, fix)})
    assert name in names(played(one, SPARK_POLICIES))
    assert names(played(one, replace(FIXED_POLICIES, **{fix: getattr(SPARK_POLICIES, fix)}))) == {name}
    assert name not in names(played(one, alone, 900 * S))
    assert not names(played(one, FIXED_POLICIES, 900 * S))


def test_an_excess_pod_whose_executor_registered_meanwhile_counts_again() -> None:
    description = replace(
        cluster(calm_ms=60 * S, pulled=2_500, pull=2_500, register=400), api=Api(latency=Constant(4_000))
    )
    one = replace(EXCESS, description=description, asks=(target(0, 1), target(5_500, 0), target(9_300, 1)))
    created = {policies: played(one, policies).watcher.last_id for policies in (SPARK_POLICIES, FIXED_POLICIES)}
    assert created == {SPARK_POLICIES: 2, FIXED_POLICIES: 1}
    assert not names(played(one, FIXED_POLICIES))


REFUSED = case(
    cluster(calm_ms=60 * S, faults=(Fault(409, verbs=(Verb.SCALE,), during=Window(15 * S, 25 * S)),)),
    target(0, 1),
    target(20 * S, 3),
    allocation_pods_allocator="statefulset",
)
RESTARTS = case(
    cluster(calm_ms=60 * S),
    target(0, 2),
    Ask(20 * S, "force"),
    allocation_pods_allocator="statefulset",
    executor_deleteOnTermination="false",
)
LABELS = case(
    replace(cluster(calm_ms=30 * S), api=Api(latency=Constant(2_000))),
    target(0, 30),
    allocation_pods_allocator="statefulset",
    executor_missingPodDetectDelta="1s",
    executor_apiPollingInterval="2s",
)


@pytest.mark.parametrize("policies", [SPARK_POLICIES, FIXED_POLICIES], ids=["faithful", "fixed"])
@pytest.mark.parametrize(
    ("one", "name"),
    [(REFUSED, Name.SCALE_REFUSED), (RESTARTS, Name.INACTIVE_POD_RESTARTS), (LABELS, Name.LABEL_TOO_LATE)],
    ids=lambda value: value.value if isinstance(value, Name) else None,
)
def test_no_fix_is_known_for_sets(one: Case, name: Name, policies: Policies) -> None:
    assert names(played(one, policies)) == {name}


UNANSWERED = Fault(lost=Lost.ANSWER, verbs=(Verb.CREATE,), resources=("pods",), during=Window(0, 5 * S))
ANSWER = case(cluster(calm_ms=60 * S, faults=(UNANSWERED,)), target(S, 2))
LIST = case(
    replace(
        cluster(calm_ms=60 * S),
        api=Api(latency=Constant(20), stale=1.0, stale_age=Constant(9_000)),
    ),
    target(25 * S, 2),
    executor_apiPollingInterval="30s",
)
UNSEEN = case(
    replace(cluster(calm_ms=60 * S, register=20_000), watch=Watch(delay=Constant(10), outages=(Window(0, 30 * S),))),
    target(S, 1),
    allocation_executor_timeout="5s",
)


@pytest.mark.parametrize("policies", [SPARK_POLICIES, FIXED_POLICIES], ids=["faithful", "fixed"])
@pytest.mark.parametrize(
    ("one", "reason"), [(ANSWER, Reason.LOST_ANSWER), (LIST, Reason.OLDER_LIST), (UNSEEN, Reason.GIVEN_UP)],
    ids=lambda v: v.name if isinstance(v, Reason) else None,
)  # fmt: skip
def test_a_pod_that_the_driver_cannot_know_of_is_found_again(one: Case, reason: Reason, policies: Policies) -> None:
    run = Play(one, policies)
    run.storm(None)
    rested, _ = run.rest(300 * S)
    assert run.watcher.explained[reason]
    assert rested is not None
    assert not run.watcher.broken
