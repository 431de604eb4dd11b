"""A variant over the log's own conf, settled into a plan."""

from __future__ import annotations

import pickle
from array import array
from dataclasses import replace
from typing import Any

import pytest
from returns.pipeline import is_successful

from podtide.domain.base.units import DEFAULT_PROFILE, ExecutorId, ProfileId
from podtide.domain.conf.spark_conf import ConfError, SparkConf, from_mapping
from podtide.domain.fakes.kubernetes.checks import problems
from podtide.domain.fakes.kubernetes.description import KIND
from podtide.domain.protocol.stimuli import ResourceProfileAdded
from podtide.domain.recorded.application import NO_TASK, Application, Failure, Leave, RecordedExecutor
from podtide.domain.recorded.lifetimes import CAME_UNASKED
from podtide.domain.rerun.assumed_kubernetes import assumed_cluster, with_faults
from podtide.domain.rerun.behaviour import Behaviour, StartUp
from podtide.domain.rerun.plan import ExecutorShape, Faults, Plan, Variant
from podtide.domain.scheduler.rules import FairPool, Retries
from podtide.domain.whatif.planning import plan, recorded_conf
from tests.support.whatif_play import BEHAVIOUR, KUBERNETES, YARN, application

DA = "spark.dynamicAllocation."
K = "spark.kubernetes."
LOCAL = {"spark.master": "local[4]"}
CLUSTER = {"spark.master": "local-cluster[4,1,1024]", "spark.executor.memory": "512m"}
STORAGE = "spark.storage.decommission.enabled"
SHUFFLE_BLOCKS = "spark.storage.decommission.shuffleBlocks.enabled"
FALLBACK = "spark.storage.decommission.fallbackStorage.path"


def conf_of(app: Application) -> SparkConf:
    return recorded_conf(app).unwrap().conf


def planned(app: Application, changes: dict[str, str | None] | None = None, **rest: Any) -> Plan:
    result = plan(app, conf_of(app), Variant("v", changes or {}, **rest), behaviour=BEHAVIOUR)
    assert is_successful(result), result.failure()
    return result.unwrap()


def refused(app: Application, changes: dict[str, str | None], **rest: Any) -> tuple[ConfError, ...]:
    return plan(app, conf_of(app), Variant("v", changes, **rest), behaviour=BEHAVIOUR).failure()


def test_the_logs_own_conf_is_the_plan_of_no_change() -> None:
    made = planned(application())
    assert made.dynamic is not None
    assert (made.dynamic.executors_max, made.shuffle_kept, made.kubernetes, made.static) == (8, True, None, 0)
    assert made.shapes == {DEFAULT_PROFILE: ExecutorShape(2, 2, 4096 + 409)}
    assert made.notes == ()


def test_a_change_goes_over_the_log_and_none_unsets() -> None:
    made = planned(application(), {DA + "maxExecutors": None, DA + "minExecutors": "3"})
    assert made.dynamic is not None
    assert (made.dynamic.executors_min, made.dynamic.executors_max) == (3, 2**31 - 1)
    setting = made.conf.setting(DA + "minExecutors")
    assert setting is not None
    assert setting.origin == "variant v"


def test_unsetting_takes_the_default_of_the_logs_version() -> None:
    app = application({**YARN, "spark.shuffle.service.enabled": "false", DA + "shuffleTracking.enabled": "true"})
    assert planned(app, {DA + "shuffleTracking.enabled": None}).dynamic is not None
    old = application({**app.properties}, version="3.1.2")
    assert refused(old, {DA + "shuffleTracking.enabled": None})[0].key == DA + "shuffleTracking.enabled"


def test_unsetting_a_key_unsets_its_older_names() -> None:
    app = application({**YARN, "spark.yarn.executor.memoryOverhead": "1g"})
    assert planned(app).shapes[DEFAULT_PROFILE].memory_mib == 5 * 1024
    assert planned(app, {"spark.executor.memoryOverhead": None}).shapes[DEFAULT_PROFILE].memory_mib == 4096 + 409


@pytest.mark.parametrize(
    ("changes", "key", "expected"),
    [
        ({DA + "maxExecutor": "4"}, DA + "maxExecutor", f"(did you mean {DA}maxExecutors?)"),
        ({"maxExecutors": "4"}, "maxExecutors", "a key that begins with spark."),
        ({DA + "maxExecutors": "many"}, DA + "maxExecutors", "a whole number"),
        ({DA + "maxExecutors": "0"}, DA + "maxExecutors", "1 or more"),
        ({DA + "minExecutors": "9"}, DA + "minExecutors", "at most spark.dynamicAllocation.maxExecutors (8)"),
        ({DA + "executorAllocationRatio": "2"}, DA + "executorAllocationRatio", "at most 1"),
        ({"spark.executor.cores": "1", "spark.task.cpus": "2"}, "spark.executor.cores", "smaller than spark.task.cpus"),
        ({"spark.scheduler.mode": "QUICK"}, "spark.scheduler.mode", "one of FAIR, FIFO, NONE"),
        ({"spark.task.maxFailures": "0"}, "spark.task.maxFailures", "1 or more"),
        ({"spark.executor.memory": "-3"}, "spark.executor.memory", "size"),
        ({"spark.shuffle.service.enabled": "false", DA + "shuffleTracking.enabled": "false"},
         DA + "shuffleTracking.enabled", "shuffle"),
    ],
)  # fmt: skip
def test_what_the_variant_gets_wrong(changes: dict[str, str | None], key: str, expected: str) -> None:
    errors = refused(application(), changes)
    assert [error.key for error in errors] == [key]
    assert expected in errors[0].expected


def test_every_error_is_told() -> None:
    errors = refused(application(), {DA + "maxExecutors": "x", DA + "idle": "1", "spark.executor.cores": "y"})
    assert {error.key for error in errors} == {DA + "maxExecutors", DA + "idle", "spark.executor.cores"}


def test_what_the_log_has_wrong_is_made_the_best_of() -> None:
    app = application({**YARN, DA + "minExecutors": "9", DA + "executorIdleTimeout": "soon"})
    made = planned(app, {DA + "schedulerBacklogTimeout": "3s"})
    assert made.dynamic is not None
    assert (made.dynamic.backlog_timeout_ms, made.dynamic.idle_timeout_ms) == (3_000, 60_000)
    assert refused(app, {DA + "sustainedSchedulerBacklogTimeout": "never"})[0].value == "never"
    notes = recorded_conf(app).unwrap().notes
    assert any(DA + "minExecutors" in note for note in notes)


def test_a_log_that_ran_without_anything_that_keeps_shuffle_data_has_reliable_storage() -> None:
    app = application({"spark.master": "yarn", DA + "enabled": "true"}, version="3.2.0")
    assert planned(app).shuffle_kept
    assert any("reliable" in note for note in recorded_conf(app).unwrap().notes)
    assert planned(app, {DA + "maxExecutors": "3"}).shuffle_kept


def test_switching_dynamic_allocation_on_has_to_fulfil_sparks_conditions() -> None:
    static = {"spark.master": "yarn", "spark.executor.instances": "2"}
    assert planned(application(static), {DA + "enabled": "true"}).dynamic is not None
    assert refused(application(static, version="3.2.0"), {DA + "enabled": "true"})[0].key.endswith(
        "shuffleTracking.enabled"
    )


# ------------------------------------------------------------------------------------------------- static counts


@pytest.mark.parametrize("count", [0, -1, 10**9])
def test_a_static_count_is_a_count(count: int) -> None:
    assert "1 to" in refused(application(), {}, static=count)[0].expected


def test_a_static_count_and_dynamic_allocation_exclude_one_another() -> None:
    assert refused(application(), {DA + "enabled": "true"}, static=3)[0].key == DA + "enabled"


@pytest.mark.parametrize(
    ("properties", "changes", "peak", "count", "noted"),
    [
        ({"spark.master": "yarn", "spark.executor.instances": "3"}, {}, 3, 3, False),
        ({"spark.master": "yarn", "spark.executor.instances": "3"}, {}, 2, 2, True),  # no more came
        ({"spark.master": "yarn", "spark.executor.instances": "3"}, {}, 9, 9, True),  # the platform scaled
        ({"spark.master": "yarn", "spark.executor.instances": "3"}, {"spark.executor.instances": "5"}, 3, 5, False),
        ({"spark.master": "yarn"}, {}, 4, 4, True),
        ({"spark.master": "yarn", "spark.executor.instances": "3"}, {}, 0, 3, False),  # none was logged
        (CLUSTER, {}, 4, 4, True),
        (CLUSTER, {"spark.executor.instances": "2"}, 4, 2, False),
        (LOCAL, {}, 1, 1, False),
        (YARN, {DA + "enabled": "false"}, 6, 2, True),
        ({**CLUSTER, DA + "enabled": "true"}, {DA + "enabled": "false"}, 3, 3, True),
    ],
)
def test_how_many_executors_there_are_without_dynamic_allocation(
    properties: dict[str, str], changes: dict[str, str | None], peak: int, count: int, noted: bool
) -> None:
    made = planned(application(properties, executors=peak), changes)
    assert (made.dynamic, made.static) == (None, count)
    assert any("executors" in note and str(count) in note for note in made.notes) is noted


# -------------------------------------------------------------------------------------------------------- shapes


@pytest.mark.parametrize(
    ("properties", "logged", "changes", "shape"),
    [
        (YARN, 2, {}, ExecutorShape(2, 2, 4505)),
        (YARN, 4, {}, ExecutorShape(4, 4, 4505)),  # as logged, whatever the conf says
        (YARN, 4, {"spark.executor.cores": "8"}, ExecutorShape(8, 8, 4505)),
        (YARN, 2, {"spark.task.cpus": "2"}, ExecutorShape(1, 2, 4505)),
        (YARN, 2, {"spark.task.cpus": "0.5"}, ExecutorShape(4, 2, 4505)),
        (YARN, 2, {"spark.executor.memory": "8g"}, ExecutorShape(2, 2, 8192 + 819)),
        (YARN, 2, {"spark.executor.memoryOverhead": "2g"}, ExecutorShape(2, 2, 6144)),
        (CLUSTER, 3, {}, ExecutorShape(3, 3, 896)),  # all cores of a worker
        (CLUSTER, 3, {"spark.executor.cores": "1"}, ExecutorShape(1, 1, 896)),
        (LOCAL, 4, {}, ExecutorShape(4, 4, 1408)),
        ({**YARN, "spark.executor.resource.gpu.amount": "1", "spark.task.resource.gpu.amount": "1"}, 4, {},
         ExecutorShape(1, 4, 4505)),
    ],
)  # fmt: skip
def test_the_shape_of_executors(
    properties: dict[str, str], logged: int, changes: dict[str, str | None], shape: ExecutorShape
) -> None:
    assert planned(application(properties, cores=logged), changes).shapes[DEFAULT_PROFILE] == shape


def test_a_profile_that_a_variant_makes_impossible() -> None:
    added = ResourceProfileAdded(0, ProfileId(1), (), (("cpus", 2.0),))
    errors = refused(application(profiles=(added,)), {"spark.executor.cores": "1"})
    assert "resource profile 1" in errors[0].expected


# --------------------------------------------------------------------------------------------------- the scheduler


@pytest.mark.parametrize(
    ("properties", "changes", "ratio"),
    [
        (YARN, {}, 0.8),
        (KUBERNETES, {}, 0.8),
        (CLUSTER, {}, 0.0),
        (LOCAL, {}, 0.0),
        (YARN, {"spark.scheduler.minRegisteredResourcesRatio": "0.5"}, 0.5),
        (YARN, {"spark.scheduler.minRegisteredResourcesRatio": "7"}, 1.0),
    ],
)
def test_how_many_executors_tasks_wait_for(
    properties: dict[str, str], changes: dict[str, str | None], ratio: float
) -> None:
    assert planned(application(properties), changes).registered_ratio == ratio


def test_what_the_task_scheduler_is_told() -> None:
    changes: dict[str, str | None] = {
        "spark.scheduler.mode": "fair", "spark.task.maxFailures": "7", "spark.stage.maxConsecutiveAttempts": "2",
        "spark.speculation": "true", "spark.scheduler.maxRegisteredResourcesWaitingTime": "5s",
        "spark.locality.wait": "1s", "spark.locality.wait.node": "200ms",
    }  # fmt: skip
    made = planned(application(), changes)
    assert (made.fair, made.speculation, made.registered_wait_ms) == (True, True, 5_000)
    assert made.locality == (1_000, 200)
    assert made.retries == Retries(7, 2)
    assert not any("maxFailures" in note or "maxConsecutiveAttempts" in note for note in made.notes)


@pytest.mark.parametrize(
    ("changes", "retries"),
    [
        ({}, Retries()),
        (
            {"spark.shuffle.io.maxRetries": "0", "spark.shuffle.io.retryWait": "1500ms"},
            Retries(fetches=0, fetch_wait_ms=1_000),
        ),
        ({"spark.shuffle.io.retryWait": "1min"}, Retries(fetch_wait_ms=60_000)),
        ({"spark.decommission.enabled": "true"}, Retries(spares_decommissioned=True)),
        (
            {"spark.decommission.enabled": "true", "spark.stage.ignoreDecommissionFetchFailure": "false"},
            Retries(),
        ),
    ],
)
def test_what_is_borne_of_failures(changes: dict[str, str | None], retries: Retries) -> None:
    assert planned(application(), changes).retries == retries


def test_a_log_shows_how_often_its_tasks_could_fail() -> None:
    """Its environment may be lost; but who asks for less has it."""
    recorded = application()
    [first, *rest] = recorded.stages
    failing = replace(recorded, stages=(replace(first, failures=(Failure(0, 5),) * 6), *rest))
    assert planned(failing).retries.task_failures_max == 7
    assert planned(failing, {"spark.task.maxFailures": "3"}).retries.task_failures_max == 3
    never = replace(first, failures=(Failure(0, 5),) * 6, body_ms=array("q", [NO_TASK, *first.body_ms[1:]]))
    assert planned(replace(recorded, stages=(never, *rest))).retries.task_failures_max == 4


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("spark.shuffle.io.maxRetries", "many", "a number of retries"),
        ("spark.shuffle.io.maxRetries", "-1", "a number of retries"),
        ("spark.shuffle.io.retryWait", "soon", "a time, as 5s"),
        ("spark.stage.ignoreDecommissionFetchFailure", "maybe", "true or false"),
        ("spark.task.maxFailures", "0", "1 or more"),
    ],
)
def test_what_is_borne_of_failures_has_to_be_readable(key: str, text: str, expected: str) -> None:
    """In a variant; a log's own conf is made the best of."""
    [error] = refused(application(), {key: text})
    assert (error.key, error.value, error.expected) == (key, text, expected)
    if key != "spark.task.maxFailures":
        assert planned(application({**CLUSTER, key: text})).retries == Retries()


def test_a_remote_shuffle_service_keeps_map_output() -> None:
    manager = "org.apache.spark.shuffle.celeborn.SparkShuffleManager"
    assert planned(application(KUBERNETES), {"spark.shuffle.manager": manager}).shuffle_kept
    assert not planned(application(KUBERNETES)).shuffle_kept


# ------------------------------------------------------------------------------------------------------ Kubernetes


def test_kubernetes_has_the_production_configs_and_a_cluster() -> None:
    made = planned(application(KUBERNETES), {K + "allocation.batch.size": "3"})
    assert made.kubernetes is not None
    assert made.cluster is not None
    assert made.kubernetes.dynamic
    assert made.kubernetes.kubernetes.allocation.batch_size == 3
    assert made.kubernetes.scaling == made.dynamic
    assert made.cluster.executors.shape.cpu_millis == 2_000
    assert made.cluster.executors.shape.memory_mib == 4505
    assert problems(made.cluster) == ()


def test_another_master_moves_it_to_kubernetes() -> None:
    made = planned(
        application({**YARN, "spark.shuffle.service.enabled": "false"}), {"spark.master": "k8s://x"}, static=3
    )
    assert made.kubernetes is not None
    assert not made.kubernetes.dynamic
    assert made.kubernetes.kubernetes.backend.executors_initial == 3


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({K + "allocation.batch.size": "0"}, K + "allocation.batch.size"),
        ({K + "allocation.batch.delay": "soon"}, K + "allocation.batch.delay"),
        ({K + "allocation.pods.allocator": "com.example.Mine"}, K + "allocation.pods.allocator"),
        ({K + "allocation.batchsize": "3"}, K + "allocation.batchsize"),
    ],
)
def test_what_a_variant_gets_wrong_on_kubernetes(changes: dict[str, str | None], key: str) -> None:
    assert [error.key for error in refused(application(KUBERNETES), changes)] == [key]


def test_an_allocator_of_the_logs_own_is_simulated_as_the_direct_one() -> None:
    made = planned(application({**KUBERNETES, K + "allocation.pods.allocator": "com.example.Mine"}))
    assert made.kubernetes is not None
    assert made.kubernetes.kubernetes.backend.allocator == "direct"
    assert any("allocator of its own" in note for note in made.notes)


def test_the_assumed_cluster_starts_executors_as_the_log_did() -> None:
    cluster = assumed_cluster(Behaviour(StartUp((3_000, 9_000, 5_000)), capacity=7, removal_ms=(50, 90)))
    delays = {stage.name: stage.delay for stage in cluster.executors.stages}
    total = [delays["pulled"].quantile(u) + delays["register"].quantile(u) for u in (0.0, 0.5, 0.999999)]
    assert total == [3_000, 5_000, 9_000]
    assert cluster.groups[0].pods == 7
    assert problems(cluster) == ()


def test_faults_are_built_into_the_cluster() -> None:
    calm = assumed_cluster(BEHAVIOUR)
    stormy = with_faults(calm, Faults(spot_per_hour=2.0, start_extra_ms=30_000, quota=5))
    delays = {stage.name: stage.delay for stage in stormy.executors.stages}
    assert delays["schedule"].quantile(0.5) == 30_000
    assert stormy.api.quota_pods == 5
    assert [stage.per_hour for stage in stormy.executors.stages if stage.per_hour] == [2.0]
    assert with_faults(calm, Faults()) == calm
    assert problems(stormy) == ()
    assert problems(with_faults(KIND, Faults(1.0, 60_000))) == ()
    assert planned(application(KUBERNETES), faults=Faults(quota=4)).cluster is not None


# ----------------------------------------------------------------------------------------------------------- notes


@pytest.mark.parametrize(
    ("properties", "changes", "noted"),
    [
        (YARN, {K + "allocation.batch.size": "5"}, "decides nothing with master yarn"),
        (CLUSTER, {DA + "maxExecutors": "5"}, "decides nothing without dynamic allocation"),
        (YARN, {DA + "maxExecutors": "8"}, "has this value in the log's config already"),
        (YARN, {DA + "minExecutors": None}, "unsetting it changes nothing"),
        (YARN, {"spark.executor.memory": "2g"}, "changes the bill alone"),
        (YARN, {"spark.executor.cores": "4"}, "executors of another shape"),
        (YARN, {"spark.sql.shuffle.partitions": "10"}, "is not part of the simulation"),
        (YARN, {"spark.speculation": "true"}, "where the log has them"),
        (
            {**YARN, "spark.databricks.workerNodeTypeId": "x"},
            {DA + "maxExecutors": "5"},
            "Databricks decides on executors by rules of its own",
        ),
        (LOCAL, {DA + "enabled": "true"}, "allocates no executors with master local[4]"),
    ],
)
def test_what_cannot_matter_is_said(properties: dict[str, str], changes: dict[str, str | None], noted: str) -> None:
    assert any(noted in note for note in planned(application(properties), changes).notes)


def test_a_platform_that_is_left_rules_no_more() -> None:
    app = application({**YARN, "spark.databricks.workerNodeTypeId": "x"})
    notes = planned(app, {"spark.master": "k8s://https://api", DA + "maxExecutors": "5"}).notes
    assert not any("Databricks decides" in note for note in notes)


def test_a_key_that_the_logs_spark_does_not_have_yet() -> None:
    app = application(KUBERNETES, version="3.3.0")
    notes = planned(app, {K + "allocation.maxPendingPodsPerRp": "10"}).notes
    assert any("does not know" in note for note in notes)


def test_as_many_notes_as_can_be_read() -> None:
    changes: dict[str, str | None] = {f"spark.sql.key{number}": "1" for number in range(1_000)}
    assert len(planned(application(), changes).notes) == 51


# ------------------------------------------------------------------------------------------------- the log's own


def test_overrides_are_the_users_and_have_to_be_right() -> None:
    app = application()
    better = from_mapping({DA + "maxExecutors": "20"}, "--conf")
    made = recorded_conf(app, [better]).unwrap().conf
    assert plan(app, made, Variant("v")).unwrap().dynamic.executors_max == 20  # type: ignore[union-attr]
    assert recorded_conf(app, [from_mapping({DA + "maxExecutors": "x"}, "--conf")]).failure()[0].value == "x"


def test_a_log_without_environment_says_so() -> None:
    assert any("no environment" in note for note in recorded_conf(application({})).unwrap().notes)


@pytest.mark.parametrize("properties", [YARN, KUBERNETES, CLUSTER, LOCAL, {}])
def test_a_plan_can_be_sent_to_another_process(properties: dict[str, str]) -> None:
    made = planned(application(properties))
    assert pickle.loads(pickle.dumps(made)) == made


# ------------------------------------------------------------------------------------- what the record says beyond the conf


def came(count: int, **properties: str) -> Application:
    """An application with executors at the start that nobody asked for."""
    conf = {**YARN, **{DA + key: value for key, value in properties.items()}}
    return replace(application(conf), counts={CAME_UNASKED: count})


@pytest.mark.parametrize(
    ("app", "initial"),
    [
        (came(5), 5),
        (came(0), 0),
        (came(5, initialExecutors="6"), 6),
        (came(5, initialExecutors="2"), 5),
        (came(50), 8),  # no more than the maximum
        (came(5, enabled="false"), None),
    ],
)
def test_executors_that_came_unasked_are_initial_ones(app: Application, initial: int | None) -> None:
    made = planned(app)
    assert (made.dynamic and made.dynamic.executors_initial) == initial
    notes = recorded_conf(app).unwrap().notes
    assert any("came at the start" in note for note in notes) is (initial in {5, 8})


def test_a_variant_or_the_user_may_know_better_than_what_came() -> None:
    made = planned(came(5), {DA + "initialExecutors": "1"})
    assert made.dynamic is not None
    assert made.dynamic.executors_initial == 1
    known = recorded_conf(came(5), [from_mapping({DA + "initialExecutors": "2"}, "--conf")]).unwrap()
    assert known.conf.settings[DA + "initialExecutors"].value == "2"
    assert known.notes == ()


def test_without_dynamic_allocation_the_default_profile_has_its_own_peak() -> None:
    one = RecordedExecutor(ExecutorId("1"), "h", DEFAULT_PROFILE, 2, 0, None, Leave.STAYED)
    other = replace(one, profile=ProfileId(1))
    app = application({"spark.master": "spark://h:7077"})
    lives = (one, one, replace(one, removed_ms=5), replace(one, added_ms=9), other, other, other, other)
    assert planned(replace(app, executors=lives)).static == 3


@pytest.mark.parametrize(
    ("changes", "migrates", "fallback"),
    [
        ({}, False, False),
        ({"spark.decommission.enabled": "true"}, False, False),
        ({"spark.decommission.enabled": "true", STORAGE: "true"}, True, False),
        ({"spark.decommission.enabled": "true", STORAGE: "true", SHUFFLE_BLOCKS: "false"}, False, False),
        ({"spark.decommission.enabled": "true", STORAGE: "true", FALLBACK: "s3://there/"}, True, True),
    ],
)
def test_whether_map_output_migrates(changes: dict[str, str | None], migrates: bool, fallback: bool) -> None:
    made = planned(application(KUBERNETES), changes)
    assert (made.shuffle_migrates, made.shuffle_fallback) == (migrates, fallback)


@pytest.mark.parametrize(
    ("version", "more", "pools"),
    [
        pytest.param("4.3.0", {}, {"default": FairPool(fair=True)}, id="fair by itself"),
        pytest.param("3.4.0", {}, {"default": FairPool(fair=True)}, id="since 3.4"),
        pytest.param("3.3.4", {}, {}, id="before, in the order of jobs"),
        pytest.param("4.3.0", {"spark.scheduler.allocation.file": "/etc/pools.xml"}, {}, id="a file that is not known"),
    ],
)
def test_the_default_pool_is_fair_where_spark_finds_no_file(
    version: str, more: dict[str, str], pools: dict[str, FairPool]
) -> None:
    """SPARK-42157. A real driver of 4.3.0 says of its default pool: schedulingMode FAIR."""
    app = application({**YARN, "spark.scheduler.mode": "FAIR", **more}, version=version)
    assert planned(app).pools == pools


def test_a_file_says_what_the_default_pool_is() -> None:
    app = application({**YARN, "spark.scheduler.mode": "FAIR"})
    given = {"reports": FairPool(2)}
    made = plan(app, conf_of(app), Variant("v"), behaviour=BEHAVIOUR, pools=given).unwrap()
    assert made.pools == given
