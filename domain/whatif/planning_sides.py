"""The cluster manager's side of a plan: the production configs of its machines, and the cluster that they speak to.

On Kubernetes the cluster is the one that was given, or one that starts executors as the log's did
(``rerun.assumed_kubernetes``); faults are built into it.

On YARN a cluster file says which nodes there are, how large the queue is and who else is in it. Who has only an event log
knows none of that; then containers come and go as they did in the log (``behaviour.ContainerBehaviour``), from a resource
manager that has room for everything up to the ``capacity`` that was seen (``assumed_cluster``). What only a known cluster
could answer is taken out of the config there, since it would find nothing: node labels, custom resources, hosts that are
not to be used.

What may go wrong besides (``plan.Faults``) is built into a cluster that was given: a quota is a queue of so many of the
default profile's containers, an interruption is a preemption of a running executor (exit status -102), a slow start is
time between the container's files and the executor's registration. Without a cluster whoever plays the plan does the same
(``rerun.on_yarn``), from the moment at which an executor registers.

Whatever cluster it is, the containers of the default profile are what the plan's executors are: platforms start executors of
another shape than the conf's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from podtide.domain.base.units import DEFAULT_PROFILE, ProfileId
from podtide.domain.conf.kubernetes_config import KubernetesSettings, kubernetes_config
from podtide.domain.conf.kubernetes_sections import ALLOCATOR, DIRECT, REPLICA_KINDS
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.scaling_config import DECOMMISSION
from podtide.domain.conf.settings import settled
from podtide.domain.conf.spark_conf import ConfError, SparkConf, from_mapping, layered
from podtide.domain.conf.yarn_config import yarn_config
from podtide.domain.fakes.kubernetes.description import Description
from podtide.domain.fakes.yarn.description import ContainerPhase, Death, YarnDescription, racks
from podtide.domain.fakes.yarn.resource_requests import rounded
from podtide.domain.protocol.application import EngineConfig
from podtide.domain.protocol.cluster_config import YarnConfig
from podtide.domain.protocol.completions import PREEMPTED
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.containers import Resource
from podtide.domain.rerun import assumed_kubernetes, plan as plans
from podtide.domain.rerun.logged_cluster import NOW, queue_of
from podtide.domain.rerun.plan import Faults

ASSUMED: Final = "assumed: the log does not say"

EXCLUDED: Final = "spark.yarn.exclude.nodes"
EXCLUDING: Final = "spark.yarn.executor.launch.excludeOnFailure.enabled"
LABEL: Final = "spark.yarn.executor.nodeLabelExpression"


_FOR_KUBERNETES: Final = {
    "spark.app.id": "simulated",
    "spark.app.name": "simulated",
    "spark.kubernetes.container.image": "spark",
    "spark.kubernetes.executor.podNamePrefix": "simulated",
    "spark.kubernetes.driver.pod.name": "simulated-driver",
}
"""What a Kubernetes application has and a log of another cluster manager lacks."""


class ClusterSide(NamedTuple):
    """The cluster manager's part of a plan: configs, clusters, what the variant gets wrong there, what to say."""

    kubernetes: EngineConfig | None = None
    cluster: Description | None = None
    yarn: EngineConfig | None = None
    hadoop: YarnDescription | None = None
    errors: tuple[ConfError, ...] = ()
    notes: tuple[str, ...] = ()


def on_yarn(
    before: SparkConf,
    after: SparkConf,
    scaling: ScalingConfig,
    shapes: Mapping[ProfileId, plans.ExecutorShape],
    cluster: YarnDescription | None,
    faults: Faults,
) -> ClusterSide:
    """What a variant amounts to on YARN. ``before``: the log's conf, ``after``: the variant's; ``shapes``: its executors.

    ``cluster``: None for one that is not known.
    """
    places = {} if cluster is None else racks(cluster)
    settings, errors = settled(yarn_config(after, racks=places))
    known = settled(yarn_config(before, racks=places))[1]
    config = with_shape(settings.config, shapes[DEFAULT_PROFILE])
    notes: list[str] = []
    if cluster is None:
        config, notes = without_nodes(config)
    else:
        cluster = with_yarn_faults(cluster, faults, config.allocator.containers.resource)
    new = tuple(error for error in errors if error not in known)
    engine = EngineConfig(scaling, dynamic=settings.enabled, yarn=config)
    return ClusterSide(yarn=engine, hadoop=cluster, errors=new, notes=tuple(notes))


def on_kubernetes(
    before: SparkConf,
    after: SparkConf,
    scaling: ScalingConfig,
    shapes: Mapping[ProfileId, plans.ExecutorShape],
    cluster: Description,
    faults: Faults,
) -> ClusterSide:
    """What a variant amounts to on Kubernetes, on this cluster, its pods what the plan's executors are."""
    settings, errors, notes = _kubernetes(before, after)
    config = EngineConfig(scaling, settings.config, settings.enabled)
    decommission = Reads(after).flag(DECOMMISSION)
    pods = assumed_kubernetes.fitted_to(
        assumed_kubernetes.with_faults(cluster, faults), after, shapes, decommission=decommission
    )
    return ClusterSide(kubernetes=config, cluster=pods, errors=tuple(errors), notes=tuple(notes))


def _kubernetes(before: SparkConf, after: SparkConf) -> tuple[KubernetesSettings, list[ConfError], list[str]]:
    """The settings of the Kubernetes side, what the variant gets wrong there, and what to say about it."""
    notes = []
    assumed = from_mapping(_FOR_KUBERNETES, ASSUMED, after.version)
    conf = layered(assumed, after)
    settings, errors = settled(kubernetes_config(conf))
    known = settled(kubernetes_config(layered(assumed, before)))[1]
    new = [error for error in errors if error not in known]
    allocator = settings.config.backend.allocator
    if allocator not in (DIRECT, *REPLICA_KINDS):
        setting = conf.setting(ALLOCATOR)
        if before.setting(ALLOCATOR) != setting:
            origin = "" if setting is None else setting.origin
            expected = f"one of {', '.join((DIRECT, *REPLICA_KINDS))}; what a class decides is not known"
            new.append(ConfError(ALLOCATOR, allocator, origin, expected))
        notes.append("The application had a pods allocator of its own: simulated with Spark's direct one.")
        settings, _ = settled(kubernetes_config(layered(conf, from_mapping({ALLOCATOR: DIRECT}, ASSUMED))))
    return settings, new, notes


def with_shape(config: YarnConfig, shape: plans.ExecutorShape) -> YarnConfig:
    """The config with containers of the default profile that are what the plan's executors are."""
    spec = config.allocator.containers
    resource = Resource(max(1, shape.memory_mib), max(1, shape.cores), spec.resource.custom)
    made = spec._replace(resource=resource, cores=max(1, shape.cores), tasks=max(1, shape.slots))
    return replace(config, allocator=replace(config.allocator, containers=made))


def without_nodes(config: YarnConfig) -> tuple[YarnConfig, list[str]]:
    """The config where nothing is known of nodes, and what that takes out of it."""
    allocator, notes = config.allocator, []
    unknown = "decides nothing here: without a cluster file it is not known which nodes there are."
    if allocator.exclusion.always:
        notes.append(f"{EXCLUDED} {unknown}")
    if allocator.exclusion.enabled:
        notes.append(f"{EXCLUDING} {unknown}")
    if allocator.label is not None:
        notes.append(f"{LABEL} {unknown}")
    spec = allocator.containers
    allocator = replace(
        allocator,
        containers=spec._replace(resource=spec.resource._replace(custom=())),
        rules=replace(allocator.rules, types=frozenset()),
        exclusion=replace(allocator.exclusion, always=frozenset(), enabled=False),
        label=None,
    )
    return replace(config, allocator=allocator), notes


def with_yarn_faults(cluster: YarnDescription, faults: Faults, container: Resource) -> YarnDescription:
    """The cluster with these faults besides its own. ``container``: of the default profile, in which a quota counts."""
    executors, queue = cluster.executors, cluster.queue
    if faults.start_extra_ms > 0:
        executors = replace(executors, start=assumed_kubernetes.shifted(executors.start, faults.start_extra_ms))
    if faults.spot_per_hour > 0:
        taken = Death(ContainerPhase.RUNNING, per_hour=faults.spot_per_hour, statuses=((PREEMPTED, 1.0),))
        executors = replace(executors, deaths=(*executors.deaths, taken))
    if faults.quota is not None:
        least = cluster.manager
        room = queue_of(faults.quota, rounded(container, least.minimum_mib, least.minimum_vcores))
        queue = replace(
            queue,
            memory_mib=room.memory_mib if queue.memory_mib is None else min(queue.memory_mib, room.memory_mib or 0),
            vcores=room.vcores if queue.vcores is None else min(queue.vcores, room.vcores or 0),
        )
    master = replace(cluster.master, registers=NOW)  # the application's boot is over by then
    return replace(cluster, executors=executors, queue=queue, master=master)
