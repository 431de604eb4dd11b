"""Memory, cores and custom resources of an executor's pod: ResourceProfile.getResourcesForClusterManager.

The total is heap, overhead, off-heap memory if it is enabled, and the memory of Python workers in a Python application.
The overhead is what the conf or the profile asks for, or else a share of the heap, at least
spark.executor.minMemoryOverhead. The share is spark.executor.memoryOverheadFactor if that is set, else
spark.kubernetes.memoryOverheadFactor - which spark-submit sets to 0.4 for Python and R in cluster mode. For a profile
without memoryOverhead it is the share of the *application's* heap, whatever heap the profile has: Spark's rule, kept.

Custom resources are limits named vendor/name; one without vendor cannot be built.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from podtide.domain.base.units import DEFAULT_PROFILE
from podtide.domain.conf.backend_config import off_heap_mib
from podtide.domain.conf.default_profile import profile_rules
from podtide.domain.conf.reader import Reads
from podtide.domain.conf.spark_conf import ConfError, SparkConf
from podtide.domain.jvm.exceptions import SPARK_EXCEPTION, SparkFault, illegal
from podtide.domain.jvm.values import double_to_int, to_int, to_long
from podtide.domain.protocol.resource_profiles import BUILT_IN, ResourceProfile

PYTHON: Final = "python"
FACTOR_KEY: Final = "spark.executor.memoryOverheadFactor"
KUBERNETES_FACTOR_KEY: Final = "spark.kubernetes.memoryOverheadFactor"
OFF_HEAP_KEY: Final = "spark.memory.offHeap.size"


class Sizes(NamedTuple):
    """What the application's conf says; memory in MiB. ``custom``: names and amounts."""

    cores: int
    heap_mib: int
    overhead_mib: int
    off_heap_mib: int
    off_heap_enabled: bool
    python_mib: int
    python: bool
    custom: tuple[tuple[str, int], ...]


class ContainerShape(NamedTuple):
    """An executor of a profile. ``custom``: limits by their names in Kubernetes."""

    cores: int
    heap_mib: int
    total_mib: int
    custom: dict[str, str]


def application_sizes(reads: Reads) -> Sizes:
    """What executors of the default profile are made of."""
    rules = profile_rules(reads, enabled=False)
    heap = reads.int("spark.executor.memory")
    overhead = reads.value("spark.executor.memoryOverhead")
    if not isinstance(overhead, int):
        chosen = FACTOR_KEY if reads.conf.setting(FACTOR_KEY) is not None else KUBERNETES_FACTOR_KEY
        share = double_to_int(reads.double(chosen) * heap)
        overhead = max(share, reads.int("spark.executor.minMemoryOverhead"))
    off_heap = off_heap_mib(reads)
    return Sizes(
        rules.executor_cores,
        heap,
        overhead,
        off_heap,
        reads.flag("spark.memory.offHeap.enabled"),
        reads.int("spark.executor.pyspark.memory"),
        reads.value("spark.kubernetes.resource.type") == PYTHON,
        rules.executor_resources,
    )


def executor_shape(
    conf: SparkConf, sizes: Sizes, profile: ResourceProfile, vendors: Mapping[str, str]
) -> ContainerShape | ConfError:
    """An executor of this profile; the default one is the application's, whatever the profile object says.

    ``vendors``: those of the profile's custom resources; the conf's vendor of the same resource stands in for what is not
    known.
    """
    if profile.id == DEFAULT_PROFILE:
        amounts: dict[str, int] = {}
        custom = dict(sizes.custom)
        vendors = {}
    else:
        amounts = {name: amount for name, amount in profile.executor if name in BUILT_IN}
        custom = {name: amount for name, amount in profile.executor if name not in BUILT_IN}
    heap = amounts.get("memory", sizes.heap_mib)
    overhead = amounts.get("memoryOverhead", sizes.overhead_mib)
    python = amounts.get("pyspark.memory", sizes.python_mib) if sizes.python else 0
    off_heap = sizes.off_heap_mib
    if "offHeap" in amounts:
        off_heap = amounts["offHeap"] if sizes.off_heap_enabled else 0
        if sizes.off_heap_enabled and off_heap <= 0:
            enabled = "spark.memory.offHeap.enabled"
            message = f"requirement failed: {OFF_HEAP_KEY} must be at least 1MiB when {enabled} == true"
            return conf.refused(OFF_HEAP_KEY, f"more than 0 in profile {profile.id}", illegal(message))
    limits: dict[str, str] = {}
    for name, amount in custom.items():
        key = f"spark.executor.resource.{name}.vendor"
        vendor = vendors.get(name) or conf.raw(key)
        if not vendor:
            message = f"Resource: {name} was requested, but vendor was not specified."
            return conf.refused(key, "a vendor such as nvidia.com", SparkFault(SPARK_EXCEPTION, message))
        limits[f"{vendor}/{name}"] = str(amount)
    total = to_long(heap + overhead + off_heap + python)
    return ContainerShape(to_int(amounts.get("cores", sizes.cores)), heap, total, limits)
