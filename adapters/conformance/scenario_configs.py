"""The configs of conformance scenarios: what the judge's driver of a kind sets, under the scenario's own settings.

Only the failures that the classes of that driver would meet count: a scenario for the lifecycle manager does not fail in
the allocator's constructor. Values are of JSON and become text as the judge's JSON library writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from pyrsistent import pmap
from returns.pipeline import is_successful

from podtide.adapters.conformance.manifests import java_text
from podtide.domain.conf import kubernetes_sections as sections
from podtide.domain.conf.backend_config import app_id_of
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.scaling_config import ENABLED, scaling_config
from podtide.domain.conf.settings import ConfNotice, first_raised
from podtide.domain.conf.spark_conf import SparkConf, from_mapping
from podtide.domain.conf.yarn_sections import negotiation_config
from podtide.domain.jvm.exceptions import SPARK_EXCEPTION, SparkFault
from podtide.domain.protocol.allocation_policies import SPARK_POLICIES
from podtide.domain.protocol.cluster_config import AllocationConfig, KubernetesConfig, NegotiationConfig
from podtide.domain.protocol.config import ScalingConfig
from podtide.domain.protocol.pods import PodRules

_Json: TypeAlias = Mapping[str, object]


def scaling_scenario(conf: _Json, *, reliable_shuffle_storage: bool = False) -> ScalingConfig | SparkFault:
    """The config of a conformance scenario: Spark 4.3.0 on Kubernetes with dynamic allocation, unless it says other.

    Values are of JSON and become text as the judge's JSON library writes them.
    """
    given = {"spark.master": "k8s://http://oracle", ENABLED: "true"}
    given.update({name: java_text(value) for name, value in conf.items()})
    result = scaling_config(from_mapping(given, "scenario"), reliable_shuffle_storage=reliable_shuffle_storage)
    return result.unwrap().config if is_successful(result) else result.failure().construct


def kubernetes_scenario(kind: str, conf: _Json, options: _Json) -> KubernetesConfig | SparkFault:
    """The config of a scenario of this kind, or the exception in which its driver's constructor ends.

    ``kind``: pods, lifecycle, store, poll, scale or backend. ``conf`` and ``options``: the header's; ``options["appId"]``
    may carry the header's appId. What the driver of a kind does not set up has its defaults. ValueError for another kind.
    """
    build = _SCENARIOS.get(kind)
    if build is None:
        raise ValueError(f"no judge of kind {kind!r}: expected one of {', '.join(_SCENARIOS)}")
    return build(conf, options)


def _pods(conf: _Json, options: _Json) -> KubernetesConfig | SparkFault:
    """PodsOracle never sets ExecutorPodsSnapshot's two settings: a failed side-car does not fail the executor."""
    given = _conf({**_APPLICATION, **_app(options), ENABLED: "true"}, conf)
    reads = Reads(given)
    allocation = sections.allocation_config(reads, SPARK_POLICIES, remarks=False)
    claims = sections.claims_of(reads) if options.get("builder") == "real" else ()
    allocation = replace(allocation, claims=claims, pod_name_prefix=reads.text(sections.PREFIX) or "")
    if reads.errors:
        return first_raised(reads)
    if allocation.driver_pod is not None and options.get("driverPod") is False:
        return _no_driver_pod(allocation.driver_pod, allocation.namespace)
    return KubernetesConfig(pods=PodRules(check_all_containers=False), allocation=allocation)


def _lifecycle(conf: _Json, options: _Json) -> KubernetesConfig | SparkFault:
    reads = Reads(_conf({**_ADDRESS, **_app(options)}, conf))
    config = KubernetesConfig(pods=sections.pod_rules(reads), lifecycle=sections.lifecycle_config(reads, remarks=False))
    return first_raised(reads) if reads.errors else config


def _store(conf: _Json, options: _Json) -> KubernetesConfig | SparkFault:  # noqa: ARG001 - all builders take the same two
    reads = Reads(_conf({}, conf))
    config = KubernetesConfig(pods=sections.pod_rules(reads), sources=sections.sources_config(reads))
    return first_raised(reads) if reads.errors else config


def scale_conf(conf: _Json, options: _Json) -> SparkConf:
    """The conf of a scenario of the scaling allocators."""
    given = {**_APPLICATION, **_app(options), ENABLED: "true"}
    if options.get("driverPod") is not False:
        given[sections.DRIVER_POD] = "driver"
    given[sections.K + "driver.service.publishNotReadyAddresses"] = "true"
    given[sections.ALLOCATOR] = str(options.get("allocator", "statefulset"))
    return _conf(given, conf)


def _scale(conf: _Json, options: _Json) -> KubernetesConfig | SparkFault:
    reads = Reads(scale_conf(conf, options))
    # Anything but "deployment" is driven as a StatefulSet.
    kind = options.get("allocator")
    replicas = sections.replicas_config(reads, "deployment" if kind == "deployment" else "statefulset", remarks=False)
    claims = sections.claims_of(reads) if options.get("builder") == "real" else ()
    replicas = replace(replicas, claims=claims, app_id=app_id_of(reads.conf))
    if reads.errors:
        return first_raised(reads)
    if replicas.driver_pod is not None and options.get("driverMissing") is True:
        return _no_driver_pod(replicas.driver_pod, replicas.namespace)
    allocation = AllocationConfig(claims=claims, pod_name_prefix=reads.text(sections.PREFIX) or "")
    return KubernetesConfig(allocation=allocation, replicas=replicas)


def _backend(conf: _Json, options: _Json) -> KubernetesConfig | SparkFault:
    """The backend is made without its constructor: nothing is read before it is needed, nothing is checked."""
    reads = Reads(_conf({**_ADDRESS, **_app(options)}, conf))
    direct = options.get("allocator") == sections.DIRECT
    allocation = sections.allocation_config(reads, SPARK_POLICIES, remarks=False)
    if direct and reads.errors:
        return first_raised(reads)
    late = Reads(reads.conf)
    backend = sections.backend_config(late, [], late.text(sections.ALLOCATOR) or sections.DIRECT, remarks=False)
    return KubernetesConfig(pods=sections.pod_rules(late), allocation=allocation, backend=backend)


_SCENARIOS: Final[Mapping[str, Callable[[_Json, _Json], KubernetesConfig | SparkFault]]] = {
    "pods": _pods,
    "lifecycle": _lifecycle,
    "store": _store,
    "poll": _store,
    "scale": _scale,
    "backend": _backend,
}
_ADDRESS: Final = {"spark.master": "k8s://http://127.0.0.1:1", "spark.app.name": "oracle"}
_APPLICATION: Final = {
    **_ADDRESS,
    "spark.driver.host": "driver",
    "spark.driver.port": "7078",
    "spark.kubernetes.container.image": "img",
    sections.PREFIX: "exec",
}


def _app(options: _Json) -> dict[str, str]:
    return {"spark.app.id": str(options.get("appId", "app-1"))}


def _conf(first: Mapping[str, str], conf: _Json) -> SparkConf:
    return from_mapping({**first, **{name: java_text(value) for name, value in conf.items()}}, "scenario")


def _no_driver_pod(name: str, namespace: str) -> SparkFault:
    message = (
        f"No pod was found named {name} in the cluster in the namespace {namespace} (this was supposed to be the driver "
        "pod.)."
    )
    return SparkFault(SPARK_EXCEPTION, message)


class YarnScenario(NamedTuple):
    """The allocator's config in a conformance scenario, and what its constructor warns of."""

    config: NegotiationConfig
    notices: tuple[ConfNotice, ...]


def yarn_scenario(conf: _Json, racks: Mapping[str, str], *, awaited: bool, remarks: bool) -> YarnScenario | SparkFault:
    """The config of a scenario, or the exception in which the allocator's constructor ends.

    ``awaited``: a launch ends before anything else happens. The judge's YARN knows no custom resources.
    """
    given = {"spark.master": "yarn", "spark.app.name": "oracle"}
    given.update({name: java_text(value) for name, value in conf.items()})
    reads = Reads(from_mapping(given, "scenario"))
    notices: list[ConfNotice] = []
    config = negotiation_config(reads, notices, racks=pmap(racks), types=frozenset(), remarks=remarks)
    if reads.errors:
        return first_raised(reads)
    return YarnScenario(replace(config, launches_awaited=awaited), tuple(notices))
