"""From a SparkConf to the KubernetesConfig: every setting of the Kubernetes side, as its classes would have it.

Spark reads these keys at different moments: the plugins first, then KubernetesClusterManager makes the lifecycle manager,
the pods allocator, the sources and the backend; others are read when something starts, a pod is built, an executor is let
go. ``kubernetes_config`` reads all of them in that order, section by section (``conf.kubernetes_sections``), so that the
first failure (``KubernetesRefused.construct``) is the one that an application would meet first, and collects them all.

``oracle_config_for`` gives the config of a conformance scenario: what the judge's driver of that kind sets before the
scenario's own settings, and only the failures that its classes would meet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from returns.result import Failure, Result, Success

from podtide.domain.conf.backend_config import app_id_of, first_raised, text_of
from podtide.domain.conf.kubernetes_sections import (
    ALLOCATOR,
    DIRECT,
    DRIVER_POD,
    PREFIX,
    REPLICA_KINDS,
    K,
    allocation_config,
    backend_config,
    check_cluster_mode,
    check_deletion_cost,
    claims_of,
    derived_prefix,
    lifecycle_config,
    plugin_configs,
    pod_rules,
    replicas_config,
    sources_config,
)
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.scaling_config import ENABLED, ConstructFailure, Notice, dynamic_allocation_enabled, json_text
from podtide.domain.conf.spark_conf import ConfError, SparkConf, from_mapping
from podtide.domain.conf.spark_versions import SparkVersion
from podtide.domain.jvm.exceptions import SPARK_EXCEPTION
from podtide.domain.protocol.allocation_policies import SPARK_POLICIES, Policies
from podtide.domain.protocol.config import AllocationConfig, KubernetesConfig
from podtide.domain.protocol.pods import SPARK_CONTAINER, PodRules


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """What the conf amounts to on Kubernetes.

    ``dynamic``: Spark would allocate executors dynamically. ``notices``: what Spark logs on the way.
    """

    config: KubernetesConfig
    dynamic: bool
    version: SparkVersion
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class KubernetesRefused:
    """Spark would fail with this conf, at its start or when it first reads the setting.

    ``errors`` in the order in which Spark would meet them, at least one; ``construct``: the exception of the first
    that Spark would throw; ``settings``: the best guess, with defaults in the place of what cannot be read.
    """

    errors: tuple[ConfError, ...]
    construct: ConstructFailure
    settings: KubernetesSettings


def kubernetes_config(
    conf: SparkConf, *, policies: Policies = SPARK_POLICIES, remarks: bool = False
) -> Result[KubernetesSettings, KubernetesRefused]:
    """The configuration of all machines of the Kubernetes side. ``remarks``: they also report what only logs say."""
    reads = Reads(conf)
    notices: list[Notice] = []
    allocator = text_of(reads, ALLOCATOR) or DIRECT
    roll, resize, claim_resize = plugin_configs(reads, notices, allocator, remarks=remarks)
    check_cluster_mode(reads)
    pods = pod_rules(reads)
    lifecycle = lifecycle_config(reads, remarks=remarks)
    dynamic = dynamic_allocation_enabled(reads)
    check_deletion_cost(reads, allocator, dynamic=dynamic)
    # Only the allocator that is chosen reads its keys; what the direct one would make of the conf is told all the same.
    allocation = allocation_config(reads if allocator == DIRECT else Reads(conf), policies, remarks=remarks)
    replicas = replicas_config(reads, allocator, remarks=remarks) if allocator in REPLICA_KINDS else None
    sources = sources_config(reads)
    backend = backend_config(reads, notices, allocator, remarks=remarks)
    app_id = backend.app_id
    prefix = text_of(reads, PREFIX)
    claims = claims_of(reads)
    allocation = replace(
        allocation, claims=claims, pod_name_prefix=derived_prefix(conf, app_id) if prefix is None else prefix
    )
    if replicas is not None:
        replicas = replace(replicas, claims=claims, app_id=app_id)
    config = KubernetesConfig(pods, allocation, lifecycle, backend, sources, replicas, roll, resize, claim_resize)
    settings = KubernetesSettings(config, dynamic, conf.version, tuple(notices))
    if not reads.errors:
        return Success(settings)
    return Failure(KubernetesRefused(tuple(reads.errors), first_raised(reads), settings))


# ---------------------------------------------------------------------------------------------- conformance scenarios


def oracle_config_for(
    kind: str, conf: Mapping[str, object], options: Mapping[str, object]
) -> KubernetesConfig | ConstructFailure:
    """The config of a scenario of this kind, or the exception in which its driver's constructor ends.

    ``kind``: pods, pods-pvc, lifecycle, store, poll, scale, backend or podstates. ``conf`` and ``options``: the header's;
    ``options["appId"]`` may carry the header's appId. For podstates the row's checkAllContainers and
    sparkContainerName are options. What the driver of a kind does not set up has its defaults. ValueError for
    another kind.
    """
    build = _ORACLES.get(kind)
    if build is None:
        raise ValueError(f"no judge of kind {kind!r}: expected one of {', '.join(_ORACLES)}")
    return build(conf, options)


def oracle_allocation_config(
    conf: Mapping[str, object], options: Mapping[str, object]
) -> AllocationConfig | ConstructFailure:
    """``oracle_config_for("pods", ...)``, the allocator's part alone."""
    config = oracle_config_for("pods", conf, options)
    return config if isinstance(config, ConstructFailure) else config.allocation


def _oracle_pods(conf: Mapping[str, object], options: Mapping[str, object]) -> KubernetesConfig | ConstructFailure:
    """PodsOracle never sets ExecutorPodsSnapshot's two settings: a failed side-car does not fail the executor."""
    given = _oracle_conf({**_ORACLE_APPLICATION, **_oracle_app(options), ENABLED: "true"}, conf)
    reads = Reads(given)
    allocation = allocation_config(reads, SPARK_POLICIES, remarks=False)
    claims = claims_of(reads) if options.get("builder") == "real" else ()
    allocation = replace(allocation, claims=claims, pod_name_prefix=text_of(reads, PREFIX) or "")
    if reads.errors:
        return first_raised(reads)
    if allocation.driver_pod is not None and options.get("driverPod") is False:
        return _no_driver_pod(allocation.driver_pod, allocation.namespace)
    return KubernetesConfig(pods=PodRules(check_all_containers=False), allocation=allocation)


def _oracle_lifecycle(conf: Mapping[str, object], options: Mapping[str, object]) -> KubernetesConfig | ConstructFailure:
    reads = Reads(_oracle_conf({**_ORACLE_ADDRESS, **_oracle_app(options)}, conf))
    config = KubernetesConfig(pods=pod_rules(reads), lifecycle=lifecycle_config(reads, remarks=False))
    return first_raised(reads) if reads.errors else config


def _oracle_store(conf: Mapping[str, object], options: Mapping[str, object]) -> KubernetesConfig | ConstructFailure:  # noqa: ARG001 - all builders take the same two
    reads = Reads(_oracle_conf({}, conf))
    config = KubernetesConfig(pods=pod_rules(reads), sources=sources_config(reads))
    return first_raised(reads) if reads.errors else config


def _oracle_scale(conf: Mapping[str, object], options: Mapping[str, object]) -> KubernetesConfig | ConstructFailure:
    kind = str(options.get("allocator", "statefulset"))
    given = {**_ORACLE_APPLICATION, **_oracle_app(options), ENABLED: "true"}
    if options.get("driverPod") is not False:
        given[DRIVER_POD] = "driver"
    given[K + "driver.service.publishNotReadyAddresses"] = "true"
    given[ALLOCATOR] = kind
    reads = Reads(_oracle_conf(given, conf))
    # Anything but "deployment" is driven as a StatefulSet.
    replicas = replicas_config(reads, "deployment" if kind == "deployment" else "statefulset", remarks=False)
    claims = claims_of(reads) if options.get("builder") == "real" else ()
    replicas = replace(replicas, claims=claims, app_id=app_id_of(reads.conf))
    if reads.errors:
        return first_raised(reads)
    if replicas.driver_pod is not None and options.get("driverMissing") is True:
        return _no_driver_pod(replicas.driver_pod, replicas.namespace)
    allocation = AllocationConfig(claims=claims, pod_name_prefix=text_of(reads, PREFIX) or "")
    return KubernetesConfig(allocation=allocation, replicas=replicas)


def _oracle_backend(conf: Mapping[str, object], options: Mapping[str, object]) -> KubernetesConfig | ConstructFailure:
    """The backend is made without its constructor: nothing is read before it is needed, nothing is checked."""
    reads = Reads(_oracle_conf({**_ORACLE_ADDRESS, **_oracle_app(options)}, conf))
    direct = options.get("allocator") == DIRECT
    allocation = allocation_config(reads, SPARK_POLICIES, remarks=False)
    if direct and reads.errors:
        return first_raised(reads)
    late = Reads(reads.conf)
    backend = backend_config(late, [], text_of(late, ALLOCATOR) or DIRECT, remarks=False)
    return KubernetesConfig(pods=pod_rules(late), allocation=allocation, backend=backend)


def _oracle_podstates(conf: Mapping[str, object], options: Mapping[str, object]) -> KubernetesConfig | ConstructFailure:  # noqa: ARG001 - all builders take the same two
    container = options.get("sparkContainerName")
    name = container if isinstance(container, str) else SPARK_CONTAINER
    return KubernetesConfig(pods=PodRules(options.get("checkAllContainers", True) is not False, name))


_ORACLES: Final[
    Mapping[str, Callable[[Mapping[str, object], Mapping[str, object]], KubernetesConfig | ConstructFailure]]
] = {
    "pods": _oracle_pods,
    "pods-pvc": _oracle_pods,
    "lifecycle": _oracle_lifecycle,
    "store": _oracle_store,
    "poll": _oracle_store,
    "scale": _oracle_scale,
    "backend": _oracle_backend,
    "podstates": _oracle_podstates,
}
_ORACLE_ADDRESS: Final = {"spark.master": "k8s://http://127.0.0.1:1", "spark.app.name": "oracle"}
_ORACLE_APPLICATION: Final = {
    **_ORACLE_ADDRESS,
    "spark.driver.host": "driver",
    "spark.driver.port": "7078",
    "spark.kubernetes.container.image": "img",
    PREFIX: "exec",
}


def _oracle_app(options: Mapping[str, object]) -> dict[str, str]:
    return {"spark.app.id": str(options.get("appId", "app-1"))}


def _oracle_conf(first: Mapping[str, str], conf: Mapping[str, object]) -> SparkConf:
    return from_mapping({**first, **{name: json_text(value) for name, value in conf.items()}}, "scenario")


def _no_driver_pod(name: str, namespace: str) -> ConstructFailure:
    message = (
        f"No pod was found named {name} in the cluster in the namespace {namespace} (this was supposed to be the driver "
        "pod.)."
    )
    return ConstructFailure(SPARK_EXCEPTION, message)
