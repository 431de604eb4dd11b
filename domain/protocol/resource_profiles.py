"""How many tasks an executor of a resource profile takes: ResourceProfile.maxTasksPerExecutor of Spark 4.3.0.

Cores bound the tasks only where Spark knows them (``ProfileRules.cores_limit_known``): the profile's cores, or
spark.executor.cores, divided by the profile's cpus per task, or spark.task.cpus, both decimals of nine places.
Each custom resource of the executor that tasks ask for bounds them too: an amount up to 1.0 lets
floor(1/amount) tasks share one unit, a larger amount must be whole. The smallest bound wins; without any bound
an executor takes one task.

Spark computes this with a 64-bit Long for executor amounts, a double for task amounts and 32-bit results, and
throws where a request cannot be met. Both are kept: overflows wrap as in Scala, and what Spark throws is the
answer, a ``SparkFault``. Where several requests are at fault Spark names the one its maps show first, so the
order of Scala's maps is here too, in two leaf functions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final, TypeVar

from podtide.domain.base.units import DEFAULT_PROFILE, ProfileId
from podtide.domain.jvm.exceptions import ASSERTION_ERROR, ILLEGAL_ARGUMENT, NUMBER_FORMAT, SPARK_EXCEPTION, SparkFault
from podtide.domain.jvm.hash_order import immutable_map_order, mutable_map_order
from podtide.domain.jvm.values import (
    INT_MAX,
    LONG_MAX,
    LONG_MIN,
    decimal_text,
    double_text,
    double_to_int,
    to_int,
    to_long,
)
from podtide.domain.protocol.config import ProfileRules
from podtide.domain.protocol.stimuli import ResourceProfileAdded

CORES: Final = "cores"
CPUS: Final = "cpus"
BUILT_IN: Final = frozenset({CORES, "memory", "memoryOverhead", "pyspark.memory", "offHeap"})
"""ResourceProfile.allSupportedExecutorResources: everything else is a custom resource."""


CPUS_MIN: Final = Decimal("1e-9")
CPUS_MAX: Final = Decimal(INT_MAX)
_NINE_PLACES: Final = Decimal("1e-9")
# A double has up to 309 digits before the point, nine places follow: nothing is ever rounded but the last place.
_EXACT: Final = Context(prec=400)

Amount = TypeVar("Amount", int, float)


@dataclass(frozen=True, slots=True)
class ResourceProfile:
    """What an executor of the profile offers and what its tasks take, as requested.

    Pairs of a resource name and an amount, in the order of the request: whole numbers for executors (Spark's
    Long; memory in MiB), doubles for tasks. Cores and cpus that are not requested are the application's.
    """

    id: ProfileId
    executor: tuple[tuple[str, int], ...] = ()
    task: tuple[tuple[str, float], ...] = ()


def from_added(event: ResourceProfileAdded) -> ResourceProfile:
    """The profile that ResourceProfileAdded announces; executor amounts become Longs."""
    executor = {name: _long(amount) for name, amount in event.executor}
    task = {name: float(amount) for name, amount in event.task}
    return ResourceProfile(event.profile, tuple(executor.items()), tuple(task.items()))


def default_profile(rules: ProfileRules) -> ResourceProfile:
    """The default profile (id 0), made of the application's conf; its custom resources may override cores or cpus."""
    executor = {CORES: rules.executor_cores, **dict(rules.executor_resources)}
    task = {CPUS: float(rules.task_cpus), **dict(rules.task_resources)}
    return ResourceProfile(DEFAULT_PROFILE, tuple(executor.items()), tuple(task.items()))


def tasks_per_executor(profile: ResourceProfile, rules: ProfileRules) -> int | SparkFault:
    """ResourceProfile.maxTasksPerExecutor: how many tasks run at once on an executor of the profile.

    Zero is possible (an executor amount that overflows); what Spark throws is returned as ``SparkFault``.
    """
    task = dict(profile.task)
    if impossible := _impossible(profile):
        return impossible
    limit: int | None = None
    if rules.cores_limit_known:
        bound = _core_bound(profile, task, rules)
        if isinstance(bound, SparkFault):
            return bound
        limit = bound
    unmet = [name for name in task if name != CPUS]
    custom = [(name, amount) for name, amount in profile.executor if name not in BUILT_IN]
    for name, available in _in_map_order(profile, custom, len(profile.executor)):
        wanted = task.get(name, 0.0)
        if wanted <= 0.0:
            continue
        if wanted > float(available):
            return SparkFault(
                SPARK_EXCEPTION,
                f"The executor resource: {name}, amount: {available} needs to be >= the task resource request "
                f"amount of {double_text(wanted)}",
            )
        tasks = _resource_bound(available, wanted)
        if limit is None or limit == -1 or tasks < limit:
            limit = tasks
        if name in unmet:
            unmet.remove(name)
    if unmet:
        names = ",".join(mutable_map_order(unmet))
        return SparkFault(
            SPARK_EXCEPTION, f"No executor resource configs were specified for the following task configs: {names}"
        )
    return 1 if limit is None or limit == -1 else limit


def refusal(profile: ResourceProfile, rules: ProfileRules) -> SparkFault | None:
    """Why ResourceProfileManager.addResourceProfile would not take the profile; None if it would."""
    if profile.id != DEFAULT_PROFILE and not rules.profiles_supported:
        return SparkFault(
            SPARK_EXCEPTION,
            "ResourceProfiles are only supported on YARN and Kubernetes and Standalone with dynamic allocation "
            "enabled.",
        )
    cpus = dict(profile.task).get(CPUS)
    if cpus is not None and not cpus_in_range(cpus):
        return SparkFault(ILLEGAL_ARGUMENT, cpus_out_of_range(cpus))
    answer = tasks_per_executor(profile, rules)
    return answer if isinstance(answer, SparkFault) else None


def cpus_in_range(amount: float) -> bool:
    """TaskResourceRequests.cpus: 1e-9 to 2147483647 after rounding to nine places."""
    return math.isfinite(amount) and CPUS_MIN <= _nine_places(Decimal(repr(amount))) <= CPUS_MAX


def cpus_out_of_range(amount: float) -> str:
    """The message of the requirement that ``cpus_in_range`` checks."""
    return f"requirement failed: The cpus amount {double_text(amount)} must be at least 1e-9 and at most {INT_MAX}."


def _impossible(profile: ResourceProfile) -> SparkFault | None:
    """The assertions of the constructors: a profile with such a request does not come to be in Spark."""
    for name, amount in profile.task:  # TaskResourceRequest
        if name != CPUS and not (amount <= 1.0 or _whole(amount)):
            return _assertion(f"The resource amount {double_text(amount)} must be either <= 1.0, or a whole number.")
    for name, amount in _in_map_order(profile, list(profile.task), len(profile.task)):  # ResourceProfile.validate
        if name != CPUS and not (amount <= 0.5 or _whole(amount)):
            text = double_text(amount)
            return _assertion(f"The task resource amount {text} must be either <= 0.5, or a whole number.")
    return None


def _core_bound(profile: ResourceProfile, task: dict[str, float], rules: ProfileRules) -> int | SparkFault:
    if CPUS in task:
        amount = task[CPUS]
        if not math.isfinite(amount):
            return SparkFault(NUMBER_FORMAT, _not_a_decimal(amount))
        cpus = _nine_places(Decimal(repr(amount)))
    else:
        cpus = _nine_places(rules.task_cpus)
    if cpus <= 0:
        return _assertion("CPUs per task configuration has to be > 0")
    cores = to_int(dict(profile.executor).get(CORES, rules.executor_cores))
    if cores < cpus:
        return SparkFault(
            SPARK_EXCEPTION,
            f"The number of cores per executor (={cores}) has to be >= the number of cpus per task = "
            f"{decimal_text(cpus)}.",
        )
    numerator, denominator = cpus.as_integer_ratio()
    return min(max(cores * denominator // numerator, 0), INT_MAX)


def _not_a_decimal(amount: float) -> str:
    first = double_text(amount).lstrip("-")[0]
    return f'Character {first} is neither a decimal digit number, decimal point, nor "e" notation exponential mark.'


def _resource_bound(available: int, wanted: float) -> int:
    """Tasks that ``available`` units of a resource let run: ResourceUtils.calculateAmountAndPartsForFraction."""
    parts = double_to_int(1.0 / wanted) if wanted <= 1.0 else 1
    per_task = double_to_int(float(math.ceil(wanted)))
    product = to_long(available * parts)
    quotient = abs(product) // per_task
    return to_int(quotient if product >= 0 else -quotient)


def _in_map_order(profile: ResourceProfile, requests: list[tuple[str, Amount]], size: int) -> list[tuple[str, Amount]]:
    """``requests`` as Spark's immutable map of ``size`` of them is walked: up to four keep their order.

    The default profile's requests come in the order of the walk already (``ProfileRules``).
    """
    if profile.id == DEFAULT_PROFILE or size <= 4 or len(requests) < 2:
        return requests
    amounts = dict(requests)
    return [(name, amounts[name]) for name in immutable_map_order(list(amounts))]


def _assertion(message: str) -> SparkFault:
    return SparkFault(ASSERTION_ERROR, f"assertion failed: {message}")


def _whole(amount: float) -> bool:
    return math.isfinite(amount) and amount % 1 == 0


def _nine_places(value: Decimal) -> Decimal:
    """CpuAmount.normalize."""
    return value.quantize(_NINE_PLACES, ROUND_HALF_UP, _EXACT)


def _long(amount: float) -> int:
    if amount != amount:  # noqa: PLR0124 - NaN
        return 0
    if amount >= LONG_MAX:
        return LONG_MAX
    return LONG_MIN if amount <= LONG_MIN else int(amount)
