"""A variant on YARN, settled into a plan: the production config, the cluster, and what is said about both."""

from __future__ import annotations

from typing import Any

import pytest
from returns.pipeline import is_successful

from podtide.domain.base.randomness import Constant
from podtide.domain.base.units import ProfileId
from podtide.domain.conf.spark_conf import ConfError
from podtide.domain.fakes.kubernetes.description import KIND
from podtide.domain.fakes.yarn.checks import problems
from podtide.domain.fakes.yarn.description import ContainerPhase, Manager, Nodes, Queue, YarnDescription
from podtide.domain.fakes.yarn.resource_requests import rounded
from podtide.domain.protocol.containers import Resource
from podtide.domain.protocol.stimuli import ResourceProfileAdded
from podtide.domain.recorded.application import Application
from podtide.domain.rerun.behaviour import Behaviour, StartUp
from podtide.domain.rerun.logged_cluster import assumed_cluster
from podtide.domain.rerun.plan import NO_FAULTS, Faults, Plan, Variant
from podtide.domain.whatif.planning import plan, recorded_conf
from podtide.domain.whatif.planning_sides import with_yarn_faults
from tests.support.rerun_yarn_play import cluster
from tests.support.whatif_play import BEHAVIOUR, KUBERNETES, YARN, application

Y = "spark.yarn."
DA = "spark.dynamicAllocation."


def planned(app: Application, changes: dict[str, str | None] | None = None, where: Any = None, **rest: Any) -> Plan:
    conf = recorded_conf(app).unwrap().conf
    result = plan(app, conf, Variant("v", changes or {}, **rest), cluster=where, behaviour=BEHAVIOUR)
    assert is_successful(result), result.failure()
    return result.unwrap()


def refused(app: Application, changes: dict[str, str | None]) -> tuple[ConfError, ...]:
    conf = recorded_conf(app).unwrap().conf
    return plan(app, conf, Variant("v", changes), behaviour=BEHAVIOUR).failure()


def allocator(made: Plan) -> Any:
    assert made.yarn is not None
    assert made.yarn.yarn is not None
    return made.yarn.yarn.allocator


def test_yarn_has_the_production_configs() -> None:
    made = planned(application(), {Y + "scheduler.heartbeat.interval-ms": "1s", DA + "initialExecutors": "3"})
    assert made.yarn is not None
    assert made.yarn.yarn is not None
    assert (made.yarn.dynamic, made.yarn.scaling, made.kubernetes, made.hadoop) == (True, made.dynamic, None, None)
    assert made.yarn.yarn.reporter.heartbeat_ms == 1_000
    assert allocator(made).executors_initial == 3


@pytest.mark.parametrize("master", ["yarn", "yarn-client", "yarn-cluster"])
def test_all_of_yarns_masters_are_yarn(master: str) -> None:
    assert planned(application({**YARN, "spark.master": master})).yarn is not None


def test_a_static_count_is_the_masters_first_target() -> None:
    made = planned(application(), static=5)
    assert made.yarn is not None
    assert not made.yarn.dynamic
    assert (allocator(made).executors_initial, made.static) == (5, 5)


def test_executors_that_came_count_as_instances() -> None:
    """The log asked for eight, and two came."""
    app = application({"spark.master": "yarn", "spark.executor.instances": "8", "spark.executor.cores": "2"})
    made = planned(app)
    assert (allocator(made).executors_initial, made.static) == (2, 2)


def test_containers_are_what_the_plans_executors_are() -> None:
    """The conf says two cores, and the log's executors have five."""
    made = planned(application(cores=5))
    assert allocator(made).containers.resource == Resource(4_096 + 409, 5)
    assert (allocator(made).containers.tasks, allocator(made).containers.cores) == (5, 5)
    assert allocator(planned(application(cores=5), {"spark.executor.cores": "4"})).containers.resource.vcores == 4


def test_what_only_a_known_cluster_answers() -> None:
    changes: dict[str, str | None] = {
        Y + "exclude.nodes": "a,b", Y + "executor.nodeLabelExpression": "gpu",
        Y + "executor.launch.excludeOnFailure.enabled": "true", Y + "executor.resource.acme.amount": "1",
    }  # fmt: skip
    unknown = planned(application(), changes)
    assert allocator(unknown).exclusion.always == frozenset()
    assert not allocator(unknown).exclusion.enabled
    assert allocator(unknown).label is None
    assert allocator(unknown).containers.resource.custom == ()
    assert sum("which nodes there are" in note for note in unknown.notes) == 3
    known = planned(application(), changes, where=cluster())
    assert allocator(known).exclusion.always == {"a", "b"}
    assert allocator(known).exclusion.enabled
    assert allocator(known).label == "gpu"
    assert allocator(known).containers.resource.custom == (("acme", 1),)
    assert not any("which nodes there are" in note for note in known.notes)


def test_racks_are_the_clusters() -> None:
    made = planned(application(), where=cluster(Nodes("n", 3, racks=("/one", "/two"))))
    assert dict(allocator(made).racks) == {"n-1": "/one", "n-2": "/two", "n-3": "/one"}


def test_profiles_have_their_own_containers() -> None:
    made = planned(
        application(profiles=(ResourceProfileAdded(0, ProfileId(1), (("cores", 4.0), ("memory", 1_024.0)), ()),))
    )
    assert made.shapes[ProfileId(1)].cores == 4
    assert allocator(made).rules.types == frozenset()


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({Y + "scheduler.heartbeat.interval-ms": "soon"}, Y + "scheduler.heartbeat.interval-ms"),
        ({Y + "scheduler.reporterThread.maxFailures": "x"}, Y + "scheduler.reporterThread.maxFailures"),
        ({DA + "minExecutors": "9"}, DA + "minExecutors"),
    ],
)
def test_what_a_variant_gets_wrong(changes: dict[str, str | None], key: str) -> None:
    assert [error.key for error in refused(application(), changes)] == [key]


def test_what_the_logs_own_conf_has_wrong_is_made_the_best_of() -> None:
    app = application({**YARN, Y + "scheduler.heartbeat.interval-ms": "soon"})
    made = planned(app)
    assert made.yarn is not None
    assert made.yarn.yarn is not None
    assert made.yarn.yarn.reporter.heartbeat_ms == 3_000


def test_a_cluster_is_for_its_own_kind() -> None:
    assert planned(application(), where=KIND).hadoop is None
    yarn = cluster()
    there = planned(application({**KUBERNETES}), where=yarn)
    assert there.cluster is not None
    assert there.yarn is None
    moved = planned(application(KUBERNETES), {"spark.master": "yarn"}, where=yarn)
    assert moved.hadoop is not None
    assert moved.kubernetes is None


# --------------------------------------------------------------------------------------------------------- clusters

CONTAINER = Resource(1_408, 2)


@pytest.mark.parametrize(
    ("capacity", "quota", "memory"), [(None, None, None), (3, None, 4_224), (3, 2, 2_816), (None, 0, 0)]
)
def test_the_assumed_cluster_has_room_for_what_was_seen(
    capacity: int | None, quota: int | None, memory: int | None
) -> None:
    behaviour = Behaviour(StartUp((1,)), capacity=capacity)
    made = assumed_cluster(behaviour, Faults(quota=quota), CONTAINER)
    assert problems(made) == ()
    assert made.queue.memory_mib == memory


def test_a_quota_is_a_queue_of_so_many_containers_as_they_are_given() -> None:
    """A container of 1408 MiB takes 2048 of the queue where the least is 1024."""
    assert rounded(CONTAINER, Manager().minimum_mib, Manager().minimum_vcores) == Resource(2_048, 2)
    made = with_yarn_faults(YarnDescription(), Faults(quota=3), CONTAINER)
    assert (made.queue.memory_mib, made.queue.vcores) == (6_144, 6)
    small = with_yarn_faults(YarnDescription(queue=Queue(4_096, 100)), Faults(quota=3), CONTAINER)
    assert (small.queue.memory_mib, small.queue.vcores) == (4_096, 6)
    assert problems(made) == ()


def test_other_faults_of_a_given_cluster() -> None:
    plain = cluster(start_ms=1_000)
    assert with_yarn_faults(plain, NO_FAULTS, CONTAINER) == plain
    made = with_yarn_faults(plain, Faults(spot_per_hour=2.0, start_extra_ms=500), CONTAINER)
    assert made.executors.start == Constant(1_500)
    (death,) = made.executors.deaths
    assert (death.phase, death.per_hour, death.statuses) == (ContainerPhase.RUNNING, 2.0, ((-102, 1.0),))
    assert problems(made) == ()
