"""From a SparkConf to the KubernetesConfig: every setting of the Kubernetes side, as its classes would have it.

Spark reads these keys at different moments: HeartbeatReceiver and the plugins first, then KubernetesClusterManager makes the
lifecycle manager, the pods allocator, the sources and the backend; others are read when something starts, a pod is built,
an executor is let go. ``kubernetes_config`` reads all of them in that order, section by section
(``conf.kubernetes_sections``), so that the first failure (``Refused.construct``) is the one that an application would meet
first, and collects them all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from returns.result import Result

from podtide.domain.conf import kubernetes_sections as sections
from podtide.domain.conf.backend_config import heartbeat_config
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.scaling_config import dynamic_allocation_enabled
from podtide.domain.conf.settings import ConfNotice, Refused, Settings, result_of
from podtide.domain.conf.spark_conf import SparkConf
from podtide.domain.protocol.allocation_policies import SPARK_POLICIES, Policies
from podtide.domain.protocol.cluster_config import KubernetesConfig

KubernetesSettings: TypeAlias = Settings[KubernetesConfig]


def kubernetes_config(
    conf: SparkConf, *, policies: Policies = SPARK_POLICIES, remarks: bool = False
) -> Result[KubernetesSettings, Refused[KubernetesSettings]]:
    """The configuration of all machines of the Kubernetes side. ``remarks``: they also report what only logs say."""
    reads = Reads(conf)
    notices: list[ConfNotice] = []
    allocator = reads.text(sections.ALLOCATOR) or sections.DIRECT
    heartbeats = heartbeat_config(reads, remarks=remarks)
    roll, resize, claim_resize = sections.plugin_configs(reads, notices, allocator, remarks=remarks)
    sections.check_cluster_mode(reads)
    pods = sections.pod_rules(reads)
    lifecycle = sections.lifecycle_config(reads, remarks=remarks)
    dynamic = dynamic_allocation_enabled(reads)
    sections.check_deletion_cost(reads, allocator, dynamic=dynamic)
    # Only the allocator that is chosen reads its keys; what the direct one would make of the conf is told all the same.
    allocation = sections.allocation_config(
        reads if allocator == sections.DIRECT else Reads(conf), policies, remarks=remarks
    )
    replicas = (
        sections.replicas_config(reads, allocator, remarks=remarks) if allocator in sections.REPLICA_KINDS else None
    )
    sources = sections.sources_config(reads)
    backend = sections.backend_config(reads, notices, allocator, remarks=remarks)
    app_id = backend.app_id
    prefix = reads.text(sections.PREFIX)
    claims = sections.claims_of(reads)
    allocation = replace(
        allocation, claims=claims, pod_name_prefix=sections.derived_prefix(conf, app_id) if prefix is None else prefix
    )
    if replicas is not None:
        replicas = replace(replicas, claims=claims, app_id=app_id)
    config = KubernetesConfig(
        pods, allocation, lifecycle, backend, sources, replicas, roll, resize, claim_resize, heartbeats
    )
    settings = Settings(config, dynamic, conf.version, tuple(notices))
    return result_of(reads, settings)
