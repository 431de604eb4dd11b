"""What the containers of a resource profile are: ResourceProfile.getResourcesForClusterManager, as YARN uses it.

A container's memory is heap, overhead, off-heap memory and, in a Python application, that of the Python workers; its vcores
are the profile's cores. What a profile does not say is the application's. Rules that are easily got wrong:

- For a profile without memoryOverhead the overhead is the share of the *application's* heap, whatever heap it has itself.
- The default profile's containers are the conf's, whatever its profile object says; they alone have the resources
  of spark.yarn.executor.resource.*, and of Spark's custom resources only gpu and fpga. Other profiles have all of theirs.
- Spark's gpu and fpga go by the names that spark.yarn.resourceGpuDeviceName and resourceFpgaDeviceName give them.
- A custom resource that YARN does not know is dropped; Spark warns and asks for the rest.

Sums are Spark's: 64 bits, cut to 32 where YARN takes them. Source: YarnAllocator.createYarnResourceForResourceProfile and
ResourceRequestHelper of Spark 4.3.0 (spec: yarn, section 1; quirk 67).
"""

from __future__ import annotations

from podtide.domain.base.units import DEFAULT_PROFILE
from podtide.domain.jvm.exceptions import SparkFault
from podtide.domain.jvm.values import to_int, to_long
from podtide.domain.protocol.cluster_config import ContainerRules
from podtide.domain.protocol.containers import ContainerSpec, Resource
from podtide.domain.protocol.resource_profiles import (
    BUILT_IN,
    CORES,
    ResourceProfile,
    default_profile,
    tasks_per_executor,
)


def container_spec(profile: ResourceProfile, rules: ContainerRules) -> ContainerSpec:
    """What a container of this profile is asked for and what its executor gets; the default profile's are the conf's.

    A profile that Spark refuses (``profiles.refusal``) never gets containers; here it counts as running one task.
    """
    default = profile.id == DEFAULT_PROFILE
    if default:
        profile = default_profile(rules.profile_rules)
    sizes = {} if default else {name: amount for name, amount in profile.executor if name in BUILT_IN}
    heap = sizes.get("memory", rules.heap_mib)
    off_heap = rules.off_heap_mib
    if "offHeap" in sizes:
        off_heap = sizes["offHeap"] if rules.off_heap_enabled else 0
    python = sizes.get("pyspark.memory", rules.python_mib) if rules.python else 0
    total = to_long(heap + sizes.get("memoryOverhead", rules.overhead_mib) + off_heap + python)
    cores = to_int(sizes.get(CORES, rules.profile_rules.executor_cores))
    tasks = tasks_per_executor(profile, rules.profile_rules)
    resource = Resource(to_int(total), cores, _custom(profile, rules, default=default))
    return ContainerSpec(resource, to_int(heap), cores, 1 if isinstance(tasks, SparkFault) else tasks)


def _custom(profile: ResourceProfile, rules: ContainerRules, *, default: bool) -> tuple[tuple[str, int], ...]:
    """Custom resources by YARN's names, sorted, without those that nobody knows."""
    names = dict(rules.names)
    wished = {names.get(name, name): amount for name, amount in profile.executor if name not in BUILT_IN}
    if default:
        devices = frozenset(names.values())
        wished = {**dict(rules.extra), **{name: amount for name, amount in wished.items() if name in devices}}
    return tuple(
        sorted((name, amount) for name, amount in wished.items() if rules.types is None or name in rules.types)
    )
