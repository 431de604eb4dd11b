"""What the driver takes of the cluster, by the conf: the rules of Spark 4.3.0, which have been the same since 3.3.

- Kubernetes, cluster mode (BasicDriverFeatureStep): the pod's request. Cores are spark.kubernetes.driver.request.cores, else
  spark.driver.cores. Memory is spark.driver.memory and its overhead: spark.driver.memoryOverhead, else a share of the
  heap (rounded down), at least spark.driver.minMemoryOverhead. The share is spark.driver.memoryOverheadFactor where it is
  set, else spark.kubernetes.memoryOverheadFactor, which the submission writes into the driver's conf as 0.4 for Python and
  R. The driver in its pod was started in client mode; that it is one of cluster mode, spark.kubernetes.submitInDriver says.
- YARN, cluster mode (Client): the application master's container holds the driver: the same keys, where the share is
  spark.driver.memoryOverheadFactor alone.
- YARN, client mode (Client): the application master's container alone: spark.yarn.am.cores and .memory, with
  spark.yarn.am.memoryOverhead, else a tenth, at least 384 MiB. The driver runs wherever it was started.
- A standalone master, cluster mode: spark.driver.cores and the heap, as the worker counts them.
- Elsewhere, and in client mode, the driver is none of the cluster's: nothing.

A setting that cannot be read counts as unset. The driver is there for the whole run, and never on spot capacity.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from podtide.domain.jvm.quantities import parse_quantity
from podtide.domain.jvm.values import parse_bytes, parse_double, parse_int

HEAP_MIB: Final = 1_024
AM_HEAP_MIB: Final = 512
OVERHEAD_MIN_MIB: Final = 384
FACTOR: Final = 0.1
"""Spark's defaults: spark.driver.memory, spark.yarn.am.memory, ...minMemoryOverhead, ...memoryOverheadFactor."""

CORES_LIMIT: Final = 10_000.0
MIB_LIMIT: Final = 1 << 30
"""A setting beyond is taken for unreadable."""

Settings: TypeAlias = Callable[[str], str | None]
"""The text of a key; None where it is unset."""


class DriverKind(StrEnum):
    """What is paid for."""

    DRIVER = "driver"
    MASTER = "application master"


class DriverShape(NamedTuple):
    """Cores (of a pod also parts of one) and all of its memory."""

    kind: DriverKind
    cores: float
    memory_mib: int


def driver_shape(setting: Settings) -> DriverShape | None:
    """What the driver takes of the cluster; None where that is nothing, or not known."""
    master = (setting("spark.master") or "").strip()
    cluster = _in_cluster(setting, master)
    if master.startswith("yarn"):
        if not cluster:
            heap = _mib(setting("spark.yarn.am.memory"), AM_HEAP_MIB)
            given = setting("spark.yarn.am.memoryOverhead")
            overhead = _overhead(given, heap, FACTOR, OVERHEAD_MIN_MIB)
            return DriverShape(DriverKind.MASTER, _whole(setting("spark.yarn.am.cores")), heap + overhead)
        return _with_overhead(setting, _whole(setting("spark.driver.cores")), FACTOR)
    if not cluster:
        return None
    if master.startswith("k8s"):
        cores = _quantity(setting("spark.kubernetes.driver.request.cores"))
        factor = _factor(setting("spark.kubernetes.memoryOverheadFactor"), FACTOR)
        return _with_overhead(setting, _whole(setting("spark.driver.cores")) if cores is None else cores, factor)
    if master.startswith("spark://"):
        heap = _mib(setting("spark.driver.memory"), HEAP_MIB)
        return DriverShape(DriverKind.DRIVER, _whole(setting("spark.driver.cores")), heap)
    return None


def _in_cluster(setting: Settings, master: str) -> bool:
    if master == "yarn-cluster" or (setting("spark.submit.deployMode") or "").strip().lower() == "cluster":
        return True
    return (setting("spark.kubernetes.submitInDriver") or "").strip().lower() == "true"


def _with_overhead(setting: Settings, cores: float, factor: float) -> DriverShape:
    heap = _mib(setting("spark.driver.memory"), HEAP_MIB)
    least = _mib(setting("spark.driver.minMemoryOverhead"), OVERHEAD_MIN_MIB)
    given = setting("spark.driver.memoryOverhead") or setting("spark.yarn.driver.memoryOverhead")
    share = _factor(setting("spark.driver.memoryOverheadFactor"), factor)
    return DriverShape(DriverKind.DRIVER, cores, heap + _overhead(given, heap, share, least))


def _overhead(given: str | None, heap: int, factor: float, least: int) -> int:
    return _mib(given, max(int(factor * heap), least))


def _mib(text: str | None, default: int) -> int:
    try:
        value = default if text is None else parse_bytes(text.strip(), "m")
    except ValueError:
        return default
    return value if 0 <= value <= MIB_LIMIT else default


def _whole(text: str | None) -> float:
    try:
        value = 1 if text is None else parse_int(text.strip())
    except ValueError:
        return 1.0
    return float(value) if 0 < value <= CORES_LIMIT else 1.0


def _quantity(text: str | None) -> float | None:
    found = None if text is None else parse_quantity(text.strip())
    return float(found) if found is not None and 0 < found <= CORES_LIMIT else None


def _factor(text: str | None, default: float) -> float:
    try:
        value = default if text is None else parse_double(text)
    except ValueError:
        return default
    return value if math.isfinite(value) and 0 <= value <= CORES_LIMIT else default
