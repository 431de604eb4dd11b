"""The platforms that run Spark for their users, how a log shows them, and what a user can turn there.

A platform either lets Spark's own dynamic allocation decide on executors, and sizes the nodes below it by a knob of its own
(EMR, Dataproc, Synapse, Fabric), or decides on executors itself: then no Spark setting of counts, timeouts or sizes has an
effect, and the platform's knob is all there is (Databricks, Glue). The Spark properties of a log show which it was; those of
Delta Lake, ``spark.databricks.delta.*``, work on any Spark and show nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

_DELTA: Final = "spark.databricks.delta."
"""Keys of Delta Lake, https://docs.delta.io/latest/delta-properties.html: open source, wherever it runs."""

MASTER: Final = "spark.master"
AMAZON: Final = "-amzn"
"""In the Spark version of EMR and Glue."""


class Platform(NamedTuple):
    """``scales``: what the platform may do to executors, in words; ``own_rules``: it decides on executors itself; ``knob``:
    what a user sets there; ``workers``: how a static count of executors is asked for, with "{}" for the count; ``extra``:
    workers besides those that run executors; ``executors_least``: fewer are refused; ``source``: of all this."""

    name: str
    scales: str
    knob: str
    source: str
    own_rules: bool = False
    workers: str | None = None
    extra: int = 0
    executors_least: int = 1


DATABRICKS: Final = Platform(
    "Databricks",
    "Databricks scales clusters by itself",
    own_rules=True,
    knob="the cluster's autoscale.min_workers and autoscale.max_workers, or num_workers for a fixed size, and the node "
    "type: a worker runs one executor, which is the whole node",
    workers='"num_workers": {}',
    source="https://docs.databricks.com/api/workspace/clusters/create (num_workers, autoscale); "
    "https://databricks.github.io/sdk-js/api/interfaces/_databricks_sdk-clusters.v2.ResizeClusterRequest.html "
    "(a cluster has one driver and num_workers executors)",
)
GLUE: Final = Platform(
    "AWS Glue",
    "Glue scales by itself where a job asks for it",
    own_rules=True,
    knob="the job's NumberOfWorkers (with --enable-auto-scaling true the maximum) and WorkerType; one worker is the driver",
    workers='"NumberOfWorkers": {}',
    extra=1,
    source="https://docs.aws.amazon.com/glue/latest/dg/auto-scaling.html, "
    "https://docs.aws.amazon.com/glue/latest/dg/aws-glue-api-jobs-job.html (NumberOfWorkers, WorkerType), "
    "https://repost.aws/questions/QU_Qm_whnYT-Sx0WNUmtkhxA (--conf of executors is not taken into consideration)",
)
EMR_SERVERLESS: Final = Platform(
    "EMR Serverless",
    "the application's maximum capacity bounds what EMR Serverless grants",
    knob="spark.dynamicAllocation.* of the job, within the application's maximumCapacity",
    source="https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/jobs-spark.html, "
    "https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/app-behavior.html (maximum capacity)",
)
EMR_ON_EKS: Final = Platform(
    "EMR on EKS",
    "the node groups of the Kubernetes cluster bound what EMR on EKS grants",
    knob="spark.dynamicAllocation.* of the job; nodes are those of the Kubernetes cluster's own autoscaler",
    source="https://aws.github.io/aws-emr-containers-best-practices/performance/docs/dra/",
)
EMR: Final = Platform(
    "EMR",
    "EMR may have scaled the cluster by itself",
    knob="spark.dynamicAllocation.* of the application for executors; managed scaling's MinimumCapacityUnits and "
    "MaximumCapacityUnits for the nodes that they need",
    source="https://docs.aws.amazon.com/emr/latest/ManagementGuide/emr-managed-scaling.html, "
    "https://docs.aws.amazon.com/emr/latest/APIReference/API_ComputeLimits.html",
)
DATAPROC_SERVERLESS: Final = Platform(
    "Dataproc Serverless",
    "Dataproc Serverless scales by Spark's dynamic allocation, with bounds of its own",
    knob="spark.dynamicAllocation.* of the batch, from 2 executors on",
    executors_least=2,
    source="https://cloud.google.com/dataproc-serverless/docs/concepts/autoscaling, "
    "https://cloud.google.com/dataproc-serverless/docs/concepts/properties",
)
DATAPROC: Final = Platform(
    "Dataproc",
    "Dataproc may have scaled the cluster by itself",
    knob="spark.dynamicAllocation.* of the application for executors; minInstances and maxInstances of the cluster's "
    "autoscaling policy for the workers that they need",
    source="https://cloud.google.com/dataproc/docs/concepts/configuring-clusters/autoscaling",
)
FABRIC: Final = Platform(
    "Microsoft Fabric",
    "Fabric may have scaled the pool by itself",
    knob="spark.dynamicAllocation.* of the application for executors; minimum and maximum nodes of the Spark pool's "
    "autoscale for the nodes that they need",
    source="https://learn.microsoft.com/en-us/fabric/data-engineering/spark-compute",
)
SYNAPSE: Final = Platform(
    "Azure Synapse",
    "Synapse may have scaled the pool by itself",
    knob="spark.dynamicAllocation.minExecutors and maxExecutors of the application for executors; minimum and maximum nodes "
    "of the pool's autoscale for the nodes that they need",
    source="https://learn.microsoft.com/en-us/azure/synapse-analytics/spark/apache-spark-autoscale, "
    "https://learn.microsoft.com/en-us/azure/synapse-analytics/spark/reservation-of-executors-in-dynamic-allocation",
)

PLATFORMS: Final = (
    DATABRICKS, GLUE, EMR_SERVERLESS, EMR_ON_EKS, EMR, DATAPROC_SERVERLESS, DATAPROC, FABRIC, SYNAPSE,
)  # fmt: skip

HOSTED: Final = frozenset({GLUE, EMR_SERVERLESS, DATAPROC_SERVERLESS})
"""Those whose cluster manager is none of Spark's."""

_SIGNS: Final = (
    ("spark.glue.", GLUE),  # before EMR: Glue's Spark versions are Amazon's, too
    ("spark.emr-serverless.", EMR_SERVERLESS),
    ("spark.emr.", EMR),
    ("spark.sql.emr.", EMR),
    ("spark.yarn.heterogeneousExecutors.", EMR),
    ("spark.trident.", FABRIC),
    ("spark.fabric.", FABRIC),
    ("spark.synapse.", SYNAPSE),
    ("spark.dataproc.", DATAPROC),
)
"""Beginnings of keys that a platform sets for every application."""


def platform_of(properties: Mapping[str, str], version: str | None = None) -> Platform | None:
    """The platform that these Spark properties and the text of a Spark version show; None where they show none."""
    master = properties.get(MASTER, "").strip()
    if master.removeprefix("custom:") == "emr-serverless":
        return EMR_SERVERLESS
    if any(key.startswith("spark.databricks.") and not key.startswith(_DELTA) for key in properties):
        return DATABRICKS
    shown = next((one for sign, one in _SIGNS if any(key.startswith(sign) for key in properties)), None)
    if shown is None and version is not None and AMAZON in version:
        shown = EMR
    if shown is EMR and master.startswith("k8s://"):
        return EMR_ON_EKS
    if shown is DATAPROC and master and not master.startswith("yarn"):
        return DATAPROC_SERVERLESS  # which refuses spark.master=yarn; a cluster's applications run on YARN
    return shown
