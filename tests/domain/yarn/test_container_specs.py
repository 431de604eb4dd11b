"""What the containers of a resource profile are made of; quirk 67 and ResourceProfile.getResourcesForClusterManager."""

from __future__ import annotations

from decimal import Decimal

import pytest

from podtide.domain.base.units import ProfileId
from podtide.domain.protocol.cluster_config import ContainerRules
from podtide.domain.protocol.config import ProfileRules
from podtide.domain.protocol.containers import ContainerSpec, Resource
from podtide.domain.protocol.resource_profiles import ResourceProfile
from podtide.domain.yarn.container_specs import container_spec

DEFAULT = ResourceProfile(ProfileId(0))
LARGE = ContainerRules(ProfileRules(executor_cores=4), heap_mib=8_192, overhead_mib=819)
FULL = ContainerRules(
    heap_mib=1_000, overhead_mib=400, off_heap_mib=200, off_heap_enabled=True, python_mib=50, python=True
)


def profile(**executor: int) -> ResourceProfile:
    """Names with an underscore for a dot."""
    return ResourceProfile(ProfileId(3), tuple((name.replace("_", "."), amount) for name, amount in executor.items()))


@pytest.mark.parametrize(
    ("given", "rules", "memory", "heap", "cores"),
    [
        (DEFAULT, ContainerRules(), 1_408, 1_024, 1),
        (DEFAULT, LARGE, 9_011, 8_192, 4),
        (DEFAULT, FULL, 1_650, 1_000, 1),
        (profile(), LARGE, 9_011, 8_192, 4),
        # its own heap, and the share of the application's
        (profile(memory=1_000, cores=2), LARGE, 1_819, 1_000, 2),
        (profile(memory=1_000, memoryOverhead=7), LARGE, 1_007, 1_000, 4),
        (profile(memory=100, offHeap=30, pyspark_memory=9), FULL, 539, 100, 1),
        (profile(memory=100, offHeap=30, pyspark_memory=9), LARGE, 919, 100, 4),
        # what does not fit into 32 bits is cut
        (profile(memory=2**32, cores=2**32 + 3, memoryOverhead=5), LARGE, 5, 0, 3),
    ],
)
def test_memory_and_cores(given: ResourceProfile, rules: ContainerRules, memory: int, heap: int, cores: int) -> None:
    spec = container_spec(given, rules)
    assert spec == ContainerSpec(Resource(memory, cores), heap, cores, spec.tasks)


def test_the_default_profile_is_the_application_whatever_its_object_says() -> None:
    odd = ResourceProfile(ProfileId(0), (("memory", 5), ("cores", 9)))
    assert container_spec(odd, LARGE) == container_spec(DEFAULT, LARGE)


@pytest.mark.parametrize(("cores", "cpus", "tasks"), [(4, "1", 4), (4, "1.5", 2), (1, "0.25", 4), (1, "2", 1)], ids=str)
def test_tasks_at_once(cores: int, cpus: str, tasks: int) -> None:
    """Where Spark refuses the profile (one core, two cpus a task) it counts as one."""
    rules = ContainerRules(ProfileRules(executor_cores=cores, task_cpus=Decimal(cpus)))
    assert container_spec(DEFAULT, rules).tasks == tasks


def with_resources(types: frozenset[str] | None) -> ContainerRules:
    application = ProfileRules(executor_resources=(("gpu", 2), ("asic", 1)))
    return ContainerRules(application, extra=(("yarn.io/fpga", 1), ("licence", 5)), types=types)


@pytest.mark.parametrize(
    ("given", "types", "custom"),
    [
        # gpu and fpga alone of Spark's, and what was asked for by YARN's names
        (DEFAULT, None, (("licence", 5), ("yarn.io/fpga", 1), ("yarn.io/gpu", 2))),
        (DEFAULT, frozenset({"yarn.io/gpu"}), (("yarn.io/gpu", 2),)),
        # all of its own, and nothing else
        (profile(gpu=1, asic=3), None, (("asic", 3), ("yarn.io/gpu", 1))),
        (profile(gpu=1, asic=3), frozenset({"asic"}), (("asic", 3),)),
    ],
)
def test_custom_resources(
    given: ResourceProfile, types: frozenset[str] | None, custom: tuple[tuple[str, int], ...]
) -> None:
    assert container_spec(given, with_resources(types)).resource.custom == custom
